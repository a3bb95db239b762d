//! A merge says at every row what all its sources say together, in both directions.

use std::collections::BTreeMap;

use futures_lite::future::block_on;
use model::row::{Cell, RowBuilder, RowHead};
use model::{ColumnId, Token};
use proptest::prelude::*;

use super::*;

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

/// A cursor over a list.
#[derive(Debug)]
struct Listed {
    parts: Listing,
    part: usize,
    piece: usize,
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
        pieces.into_iter().map(|(_, _, piece)| piece).collect()
    };
    let parts = parts
        .iter()
        .map(|(&key, part)| (key, deletion(part.deletion), part.stat.map(row), pieces(part)))
        .collect();
    Listed { parts, part: usize::MAX, piece: usize::MAX }
}

impl Cursor for Listed {
    async fn next_partition(&mut self) -> Result<bool> {
        self.part = self.part.wrapping_add(1);
        self.piece = usize::MAX;
        Ok(self.part < self.parts.len())
    }

    fn head(&self) -> Head<'_> {
        let (key, deletion, stat, _) = &self.parts[self.part];
        Head {
            token: Token(i64::from(*key) / 2),
            key: std::slice::from_ref(key),
            deletion: *deletion,
            static_row: stat.as_deref().map(RowRef::trusted),
        }
    }

    async fn next(&mut self) -> Result<bool> {
        self.piece = self.piece.wrapping_add(1);
        Ok(self.piece < self.parts[self.part].3.len())
    }

    fn fragment(&self) -> Fragment<'_> {
        match &self.parts[self.part].3[self.piece] {
            Candidate::Row(clustering, row) => {
                Fragment::Row { clustering, row: RowRef::trusted(row) }
            }
            Candidate::Change(position, deletion) => {
                Fragment::Change { position, deletion: *deletion }
            }
        }
    }
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

async fn seen(cursor: &mut impl Cursor) -> Result<Seen> {
    let time = |deletion: Deletion| if deletion.is_none() { 0 } else { deletion.timestamp };
    let mut all = Vec::new();
    while cursor.next_partition().await? {
        let head = cursor.head();
        let stat = head.static_row.map(|row| row.head().timestamp);
        let (key, deleted) = (head.key[0], time(head.deletion));
        let (mut rows, mut in_force) = (Vec::new(), Deletion::NONE);
        while cursor.next().await? {
            match cursor.fragment() {
                Fragment::Row { clustering, row } => {
                    rows.push((clustering[0], row.head().timestamp, time(in_force)));
                }
                Fragment::Change { deletion, .. } => {
                    assert_ne!(in_force, deletion, "a change changes something");
                    in_force = deletion;
                }
            }
        }
        assert!(in_force.is_none(), "what was opened is closed");
        all.push((key, deleted, stat, rows));
    }
    Ok(all)
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
