//! A merge says at every row what all its sources say together, in both directions.
//!
//! 1. A source is a map of partitions with timestamps (`Part`). `expected` says what all sources say of each row: its
//!    newest timestamp, and the newest deletion that covers it.
//! 2. The same sources as cursors over lists (`Listed`). Their habits are drawn: whether moves wait, whether a
//!    partition is left unread until its first fragment is asked for, whether the cursor says how new it is and so may
//!    be sought, and into which pieces it is cut.
//! 3. What the merge shows must be what was expected. Where lanes are lazy, rows that a deletion covers may or may not
//!    be shown, so they are left out of the comparison.
//!
//! Not here: cursors over files (`sstable/tests`), over memtables (`memtable/tests.rs`), lanes of several files
//! (`cursor/run/tests.rs`).

use std::collections::BTreeMap;

use futures_lite::future::block_on;
use model::row::{Cell, RowBuilder, RowHead};
use model::{ColumnId, Token, TokenRange};
use proptest::prelude::*;

use super::*;
use crate::cursor::{Extent, Step};

/// What a test source holds of one partition.
#[derive(Clone, Debug, Default)]
struct Part {
    deletion: i64,
    /// Static cell: its timestamp.
    stat: Option<i64>,
    /// Clustering and timestamp.
    rows: BTreeMap<u8, i64>,
    /// Disjoint stretches, deleted at.
    ranges: Vec<(u8, u8, i64)>,
}

fn deletion(timestamp: i64) -> Deletion {
    if timestamp == 0 { Deletion::NONE } else { Deletion { timestamp, local_s: 1 } }
}

fn row(timestamp: i64) -> Vec<u8> {
    let mut out = Vec::new();
    RowBuilder::begin(&mut out, &RowHead::bare(timestamp)).cell(&Cell::live(
        ColumnId(1),
        timestamp,
        b"v",
    ));
    out
}

#[derive(Clone, Debug)]
enum Candidate {
    Row(Vec<u8>, Vec<u8>),
    Change(Vec<u8>, Deletion),
}

type Listing = Vec<(u8, Deletion, Option<Vec<u8>>, Vec<Candidate>)>;

/// A cursor over a list. It is as lazy as its `habits` allow.
#[derive(Debug)]
struct Listed {
    parts: Listing,
    part: usize,
    piece: usize,
    /// The change at the place of a seek, while that is shown.
    sought: Option<Candidate>,
    reversed: bool,
    habits: Habits,
    /// Where the piece in hand ends.
    open_until: usize,
    /// How often it was moved inside partitions.
    moves: u32,
}

/// What of a lane a test source does.
#[derive(Clone, Debug, Default)]
struct Habits {
    waits: bool,
    /// Leaves partitions unread until it is asked for their first fragment.
    defers: bool,
    /// Says how new it is.
    seekable: bool,
    /// Cuts the partitions into pieces before these.
    cuts: Vec<usize>,
}

fn listed(parts: &BTreeMap<u8, Part>, reversed: bool) -> Listed {
    let pieces = |part: &Part| {
        let mut pieces: Vec<(u8, u8, Candidate)> = Vec::new();
        for (&at, &timestamp) in &part.rows {
            pieces.push((at, 1, Candidate::Row(vec![at], row(timestamp))));
        }
        for &(start, end, timestamp) in &part.ranges {
            let (from, to) = if reversed { (end, start) } else { (start, end) };
            pieces.push((from, 0, Candidate::Change(vec![from], deletion(timestamp))));
            let follows = |r: &(u8, u8, i64)| if reversed { r.1 == to } else { r.0 == to };
            if !part.ranges.iter().any(follows) {
                pieces.push((to, 0, Candidate::Change(vec![to], Deletion::NONE)));
            }
        }
        pieces.sort_by_key(|(at, kind, _)| (*at, *kind));
        if reversed {
            pieces.reverse();
        }
        let mut in_force = Deletion::NONE;
        let changes = |piece: &Candidate| match piece {
            Candidate::Row(..) => true,
            Candidate::Change(_, deletion) => mem::replace(&mut in_force, *deletion) != *deletion,
        };
        pieces.into_iter().map(|(_, _, piece)| piece).filter(changes).collect()
    };
    let parts = parts
        .iter()
        .map(|(&key, part)| (key, deletion(part.deletion), part.stat.map(row), pieces(part)))
        .collect();
    Listed {
        parts,
        part: usize::MAX,
        piece: usize::MAX,
        sought: None,
        reversed,
        habits: Habits::default(),
        open_until: usize::MAX,
        moves: 0,
    }
}

/// The same with habits.
fn lazy(parts: &BTreeMap<u8, Part>, reversed: bool, habits: Habits) -> Listed {
    let open_until = if habits.cuts.is_empty() { usize::MAX } else { 0 };
    Listed { habits, open_until, ..listed(parts, reversed) }
}

impl Cursor for Listed {
    async fn next_partition(&mut self) -> Result<bool> {
        if let Some(tokens) = self.unopened() {
            let is_behind = |part: &(u8, _, _, _)| token(part.0) > tokens.last;
            self.open_until = self.parts.iter().position(is_behind).unwrap_or(usize::MAX);
        }
        self.part = self.part.wrapping_add(1);
        self.piece = usize::MAX;
        self.sought = None;
        if self.part == self.open_until {
            self.part = self.part.wrapping_sub(1);
            return Ok(false);
        }
        Ok(self.part < self.parts.len())
    }

    fn head(&self) -> Head<'_> {
        let (key, deletion, stat, _) = &self.parts[self.part];
        Head {
            token: token(*key),
            key: std::slice::from_ref(key),
            deletion: *deletion,
            static_row: stat.as_deref().map(RowRef::trusted),
        }
    }

    async fn next(&mut self) -> Result<bool> {
        self.moves += 1;
        self.sought = None;
        self.piece = self.piece.wrapping_add(1);
        Ok(self.piece < self.parts[self.part].3.len())
    }

    fn fragment(&self) -> Fragment<'_> {
        match self.sought.as_ref().unwrap_or_else(|| &self.parts[self.part].3[self.piece]) {
            Candidate::Row(clustering, row) => {
                Fragment::Row { clustering, row: RowRef::trusted(row) }
            }
            Candidate::Change(position, deletion) => {
                Fragment::Change { position, deletion: *deletion }
            }
        }
    }
}

/// Two keys each have the same.
fn token(key: u8) -> Token {
    Token(i64::from(key) / 2)
}

impl Candidate {
    fn position(&self) -> &[u8] {
        match self {
            Candidate::Row(position, _) | Candidate::Change(position, _) => position,
        }
    }

    fn timestamp(&self) -> i64 {
        match self {
            Candidate::Row(_, row) => RowRef::trusted(row).head().timestamp,
            Candidate::Change(_, deletion) => deletion.timestamp,
        }
    }
}

impl MergeInput for Listed {
    fn may_wait(&self, _: Step) -> bool {
        self.habits.waits
    }

    fn unopened(&self) -> Option<TokenRange> {
        let next = self.part.wrapping_add(1);
        if next != self.open_until {
            return None;
        }
        let first = token(self.parts.get(next)?.0);
        let end = self.habits.cuts.iter().find(|cut| **cut > next).unwrap_or(&usize::MAX);
        let last = token(self.parts[next..*end.min(&self.parts.len())].last()?.0);
        Some(TokenRange { first, last })
    }

    fn unread(&self) -> Option<Extent<'_>> {
        let (_, deletion, stat, pieces) = self.parts.get(self.part)?;
        let is_plain = deletion.is_none() && stat.is_none();
        if !(self.habits.defers && is_plain && self.piece == usize::MAX) {
            return None;
        }
        let [near, far] =
            [pieces.first(), pieces.last()].map(|piece| piece.map(Candidate::position));
        let [near, far] = [near, far].map(Option::unwrap_or_default);
        Some(Extent { near, far, has_far: true })
    }

    fn newest(&self) -> i64 {
        let pieces = self.parts.iter().flat_map(|part| &part.3).map(Candidate::timestamp);
        let deleted = self.parts.iter().map(|part| part.1.timestamp);
        let stat = self.parts.iter().filter_map(|part| part.2.as_deref());
        let all =
            pieces.chain(deleted).chain(stat.map(|row| RowRef::trusted(row).head().timestamp));
        if self.habits.seekable { all.max().unwrap_or(i64::MIN) } else { i64::MAX }
    }

    async fn seek(&mut self, place: &[u8]) -> Result<bool> {
        let pieces = &self.parts[self.part].3;
        let in_force = |pieces: &[Candidate]| {
            let changes = pieces.iter().rev().filter_map(|piece| match piece {
                Candidate::Change(_, deletion) => Some(*deletion),
                Candidate::Row(..) => None,
            });
            { changes }.next().unwrap_or(Deletion::NONE)
        };
        let is_passed = |piece: &&Candidate| match (self.reversed, piece) {
            (false, Candidate::Row(at, _)) => at.as_slice() < place,
            (false, Candidate::Change(at, _)) => at.as_slice() <= place,
            (true, piece) => piece.position() >= place,
        };
        let passed = pieces.iter().take_while(is_passed).count();
        let (before, after) = (in_force(&pieces[..=self.piece]), in_force(&pieces[..passed]));
        assert!(passed > self.piece, "what was shown is passed");
        self.piece = passed - 1;
        if before == after {
            return self.next().await;
        }
        self.moves += 1;
        self.sought = Some(Candidate::Change(place.to_vec(), after));
        Ok(true)
    }
}

fn any_habits() -> impl Strategy<Value = Habits> {
    let cuts = prop::collection::btree_set(0..5usize, 0..3);
    (any::<bool>(), any::<bool>(), any::<bool>(), cuts).prop_map(
        |(waits, defers, seekable, cuts)| Habits {
            waits,
            defers,
            seekable,
            cuts: cuts.into_iter().collect(),
        },
    )
}

/// A part with long stretches, which are worth a seek.
fn long_part() -> impl Strategy<Value = Part> {
    let rows = prop::collection::btree_map(0..120u8, 1..9i64, 0..90);
    let few_or_many = prop_oneof![0..5usize, 0..120usize];
    let borders = few_or_many.prop_flat_map(|n| prop::collection::btree_set(0..121u8, 0..=n));
    let times = prop::collection::vec(0..12i64, 121);
    (prop::option::weighted(0.2, 1..12i64), rows, borders, times).prop_map(
        |(deletion, rows, borders, times)| {
            let borders: Vec<u8> = borders.into_iter().collect();
            let ranges = borders.windows(2).zip(times).filter(|(_, t)| *t > 0);
            let ranges = ranges.map(|(w, t)| (w[0], w[1], t)).collect();
            Part { deletion: deletion.unwrap_or_default(), stat: None, rows, ranges }
        },
    )
}

/// Without the rows that what deletes them covers: a reader does not see whether they were passed over.
fn uncovered(mut seen: Seen) -> Seen {
    for (_, deleted, _, rows) in &mut seen {
        rows.retain(|(_, timestamp, covering)| timestamp > covering && timestamp > deleted);
        rows.iter_mut().for_each(|row| row.2 = 0);
    }
    // Whether a partition is there that says nothing is not known without reading it.
    seen.retain(|(_, deleted, stat, rows)| *deleted > 0 || stat.is_some() || !rows.is_empty());
    seen
}

fn any_part() -> impl Strategy<Value = Part> {
    let rows = prop::collection::btree_map(0..12u8, 1..9i64, 0..6);
    let borders = prop::collection::btree_set(0..13u8, 0..6);
    let times = prop::collection::vec(0..9i64, 6);
    (0..4i64, prop::option::of(1..9i64), rows, borders, times).prop_map(
        |(deletion, stat, rows, borders, times)| {
            let borders: Vec<u8> = borders.into_iter().collect();
            let ranges = borders.windows(2).zip(times).filter(|(_, t)| *t > 0);
            let ranges = ranges.map(|(w, t)| (w[0], w[1], t)).collect();
            Part { deletion, stat, rows, ranges }
        },
    )
}

type Seen = Vec<(u8, i64, Option<i64>, Vec<(u8, i64, i64)>)>;

/// What the sources say together: for each row its newest timestamp and what deletes it.
fn expected(sources: &[BTreeMap<u8, Part>], reversed: bool) -> Seen {
    let mut keys: Vec<u8> = sources.iter().flat_map(|source| source.keys().copied()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter()
        .map(|key| {
            let parts: Vec<&Part> = sources.iter().filter_map(|s| s.get(&key)).collect();
            let deleted = parts.iter().map(|p| p.deletion).max().unwrap_or_default();
            let stat = parts.iter().filter_map(|p| p.stat).max();
            let mut rows: BTreeMap<u8, i64> = BTreeMap::new();
            for (&at, &t) in parts.iter().flat_map(|p| &p.rows) {
                let newest = rows.entry(at).or_default();
                *newest = t.max(*newest);
            }
            let covering = |at: u8| {
                let ranges = parts.iter().flat_map(|p| &p.ranges);
                ranges.filter(|r| r.0 <= at && at < r.1).map(|r| r.2).max().unwrap_or_default()
            };
            let mut rows: Vec<_> = rows.into_iter().map(|(at, t)| (at, t, covering(at))).collect();
            if reversed {
                rows.reverse();
            }
            (key, deleted, stat, rows)
        })
        .collect()
}

/// How often all lanes were moved.
fn moves(merge: &Merge<Listed>) -> u32 {
    merge.cursors().map(|lane| lane.moves).sum()
}

async fn seen(cursor: &mut Merge<Listed>) -> Result<Seen> {
    // One more each for what it shows, and for what it seeks and passes.
    let moves_max = (COVERED_BOUNDS_AT_ONCE_MAX + 2) * cursor.lanes.len() as u32;
    let time = |deletion: Deletion| if deletion.is_none() { 0 } else { deletion.timestamp };
    let mut all = Vec::new();
    while cursor.next_partition().await? {
        let head = cursor.head();
        let stat = head.static_row.map(|row| row.head().timestamp);
        let (key, deleted) = (head.key[0], time(head.deletion));
        let (mut rows, mut in_force) = (Vec::new(), Deletion::NONE);
        let mut before = moves(cursor);
        while cursor.next().await? {
            let moved = moves(cursor) - before;
            before += moved;
            assert!(moved <= moves_max, "{moved} moves in one step");
            match cursor.fragment() {
                Fragment::Row { clustering, row } => {
                    rows.push((clustering[0], row.head().timestamp, time(in_force)));
                }
                Fragment::Change { deletion, .. } => {
                    let has_passed = moved >= COVERED_BOUNDS_AT_ONCE_MAX;
                    assert!(in_force != deletion || has_passed, "a change changes something");
                    in_force = deletion;
                }
            }
        }
        assert!(in_force.is_none(), "what was opened is closed");
        all.push((key, deleted, stat, rows));
    }
    Ok(all)
}

/// A lane of a hundred range deletions, and one with a newer over all of them.
fn many_under_one(habits: Habits, reversed: bool) -> Merge<Listed> {
    let ranges = (0..100u8).map(|i| (i, i + 1, i64::from(i % 2) + 1)).collect();
    let many = Part { ranges, ..Part::default() };
    let one = Part { ranges: vec![(0, 110, 9)], ..Part::default() };
    let lanes = [many, one].map(|part| lazy(&[(1, part)].into(), reversed, habits.clone()));
    Merge::new(lanes, reversed)
}

/// Before: rows alone led to a seek, and a lane of range deletions under a newer one was walked over, bound by bound.
#[test]
fn a_lane_of_covered_range_deletions_is_sought_over() {
    for reversed in [false, true] {
        let mut merge = many_under_one(Habits { seekable: true, ..Habits::default() }, reversed);
        let seen = block_on(seen(&mut merge)).unwrap();
        assert_eq!(seen, [(1, 0, None, vec![])]);
        assert!(moves(&merge) < 20, "{} moves", moves(&merge));
    }
}

/// Before: what was deleted in many fragments was read in each of them.
#[test]
fn a_lane_of_which_all_is_deleted_is_not_read() {
    let (start, timestamp) = (2, 5);
    let rows = |first, last, at| Part {
        rows: (first..=last).map(|row| (row, at)).collect(),
        ..Part::default()
    };
    let spans = (0..8u8).flat_map(|first| (first..8).map(move |last| (first, last)));
    let spans = spans.flat_map(|span| (-1..2).map(move |newer| (span, timestamp + newer)));
    for (((first, last), newest), end) in
        spans.flat_map(|span| [3, 5, 6, 12].map(|end| (span, end)))
    {
        let deleted = Part { ranges: vec![(start, end, timestamp)], ..Part::default() };
        let parts = [deleted, rows(first, last, newest), rows(9, 11, 4)];
        let sources = parts.map(|part| BTreeMap::from([(1, part)]));
        for (reversed, defers) in [(false, false), (false, true), (true, false), (true, true)] {
            let lanes = [(0, defers), (1, true), (2, true)].map(|(lane, defers)| {
                let habits = Habits { defers, seekable: true, ..Habits::default() };
                lazy(&sources[lane], reversed, habits)
            });
            let mut merge = Merge::new(lanes, reversed);
            let seen = block_on(seen(&mut merge)).unwrap();
            let case = (first, last, newest, end, reversed, defers);
            assert_eq!(uncovered(seen), uncovered(expected(&sources, reversed)), "{case:?}");
            let is_unread = |lane: usize| merge.lanes[lane].cursor.moves == 0;
            // A file that reaches to where the deletion begins is read before that is in force.
            let is_inside =
                if reversed { start <= first && last < end } else { start < first && last < end };
            let is_covered = is_inside && newest <= timestamp;
            // Both unread, they may be read together: nothing is known to be deleted then.
            assert!(is_unread(1) == is_covered || defers && !is_unread(1), "{case:?}");
            assert!(is_unread(2) == (end == 12) || reversed && defers && !is_unread(2), "{case:?}");
        }
    }
}

#[test]
fn which_of_two_places_is_nearer_is_told_by_the_first_bytes_that_differ() {
    for (place, first, second, is_nearer) in [
        (&[5u8][..], &[5u8][..], &[5u8][..], true),
        (&[5], &[5], &[9], true),
        (&[7], &[5], &[9], true),
        (&[8], &[5], &[9], false),
        (&[1, 0, 9, 200], &[1, 0], &[1, 1], true),
        (&[1, 0, 200], &[1, 0], &[1, 1], false),
        (&[9, 9, 9, 8, 1], &[9, 9, 9, 8], &[9, 9, 9, 9], true),
        (&[3, 255, 0], &[4], &[2, 0], true),
        (&[2, 9], &[4], &[2, 0], false),
    ] {
        assert_eq!(moves::is_nearer(place, [first, second]), is_nearer, "{place:?}");
    }
}

/// Before: a merge walked over any number of them in one step: a million in 0.2 s, in which the core did nothing else.
#[test]
fn a_walk_over_covered_range_deletions_comes_back_now_and_then() {
    for reversed in [false, true] {
        let mut merge = many_under_one(Habits::default(), reversed);
        let (mut most, mut before) = (0, 0);
        block_on(async {
            assert!(merge.next_partition().await.unwrap());
            while merge.next().await.unwrap() {
                most = most.max(moves(&merge) - before);
                before = moves(&merge);
            }
        });
        assert!(before > 100, "each is walked over, since the lane may have something newer");
        assert!(most <= COVERED_BOUNDS_AT_ONCE_MAX + 2, "{most} moves in one step");
    }
}

/// A lane that has passed much of which nothing is to be seen says so at any place, and the merge hands it on.
#[test]
fn a_change_that_changes_nothing_is_shown_at_once() {
    for reversed in [false, true] {
        let rows = Part { rows: (10..20).map(|at| (at, 1)).collect(), ..Part::default() };
        let mut passes = listed(&[(1, rows)].into(), reversed);
        let first = if reversed { vec![255] } else { vec![] };
        let many = std::iter::repeat_n(Candidate::Change(first, Deletion::NONE), 30);
        passes.parts[0].3.splice(5..5, many);
        let over = Part { ranges: vec![(0, 110, 9)], ..Part::default() };
        let mut merge = Merge::new([passes, listed(&[(1, over)].into(), reversed)], reversed);
        let (mut changes, mut rows) = (0, 0);
        block_on(async {
            assert!(merge.next_partition().await.unwrap());
            while merge.next().await.unwrap() {
                match merge.fragment() {
                    Fragment::Row { .. } => rows += 1,
                    Fragment::Change { deletion, .. } => {
                        changes += 1;
                        assert_eq!(
                            deletion.is_none(),
                            changes == 32,
                            "one is in force until the end"
                        );
                    }
                }
            }
        });
        assert_eq!((changes, rows), (32, 10));
    }
}

proptest! {
    #[test]
    fn a_merge_says_what_its_sources_say_together(
        sources in prop::collection::vec(prop::collection::btree_map(0..6u8, any_part(), 0..5), 0..4),
        reversed: bool,
    ) {
        let cursors = sources.iter().map(|source| listed(source, reversed));
        let merged = block_on(seen(&mut Merge::new(cursors, reversed))).expect("lists cannot fail");
        prop_assert_eq!(merged, expected(&sources, reversed));
    }

    #[test]
    fn a_merge_of_lazy_lanes_shows_what_it_would_if_all_was_read(
        sources in prop::collection::vec(
            (prop::collection::btree_map(0..6u8, any_part(), 0..5), any_habits()), 0..5),
        reversed: bool,
    ) {
        let cursors = sources.iter().map(|(source, habits)| lazy(source, reversed, habits.clone()));
        let merged = block_on(seen(&mut Merge::new(cursors, reversed))).expect("lists cannot fail");
        let all: Vec<_> = sources.into_iter().map(|(source, _)| source).collect();
        prop_assert_eq!(uncovered(merged), uncovered(expected(&all, reversed)));
    }

    #[test]
    fn covered_stretches_are_passed_over_and_nothing_else(
        sources in prop::collection::vec((long_part(), 0..3i64, any::<bool>()), 1..5),
        reversed: bool,
    ) {
        // Sources of different ages, as files are.
        let aged = |(part, age, defers): (Part, i64, bool)| {
            let older = |t: i64| if t == 0 { 0 } else { 1 + t.saturating_sub(1) / (1 << age) };
            let rows = part.rows.into_iter().map(|(at, t)| (at, older(t))).collect();
            let ranges = part.ranges.into_iter().map(|r| (r.0, r.1, older(r.2))).collect();
            let part = Part { deletion: older(part.deletion), rows, ranges, ..part };
            (BTreeMap::from([(1u8, part)]), Habits { defers, seekable: true, ..Habits::default() })
        };
        let sources: Vec<_> = sources.into_iter().map(aged).collect();
        let cursors = sources.iter().map(|(source, habits)| lazy(source, reversed, habits.clone()));
        let merged = block_on(seen(&mut Merge::new(cursors, reversed))).expect("lists cannot fail");
        let all: Vec<_> = sources.into_iter().map(|(source, _)| source).collect();
        prop_assert_eq!(uncovered(merged), uncovered(expected(&all, reversed)));
    }

    #[test]
    fn a_partition_left_early_does_not_disturb_the_next(
        sources in prop::collection::vec(prop::collection::btree_map(0..6u8, any_part(), 0..5), 1..4),
        steps in 0..3usize,
    ) {
        let cursors = sources.iter().map(|source| listed(source, false));
        let mut merge = Merge::new(cursors, false);
        let keys = block_on(async {
            let mut keys = Vec::new();
            while merge.next_partition().await? {
                keys.push(merge.head().key[0]);
                for _ in 0..steps {
                    if !merge.next().await? {
                        break;
                    }
                }
            }
            Ok::<_, crate::Error>(keys)
        }).expect("lists cannot fail");
        let all: Vec<u8> = expected(&sources, false).iter().map(|part| part.0).collect();
        prop_assert_eq!(keys, all);
    }
}
