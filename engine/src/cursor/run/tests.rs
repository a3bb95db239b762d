//! Any parts in lanes, merged, give what their files hold, and open no more than they must.
//!
//! 1. Files with one row for each of some tokens and keys, each cut to drawn tokens, are put into lanes (`lanes_of`).
//!    There are as many lanes as parts lie over each other, and no two parts of a lane share a token.
//! 2. The lanes, merged over a drawn range, must give for each key the newest of its rows in the parts.
//! 3. Then by counts: a page opens only the files that it comes to, files outside the slices are passed over, and a
//!    lane of its own lets go of files that it has passed.
//!
//! Not here: fragments that share a partition (`compaction/tests/rewriting/stopped.rs`), the merge itself
//! (`cursor/merge/tests.rs`).

use std::collections::{BTreeMap, BTreeSet};

use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::{ColumnId, Deletion, TableId, Token};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::cache::BlockCache;
use crate::cursor::Merge;
use crate::io::{Disk, Faults, RelPath, SimDisk, SimExec};
use crate::sstable::{Codec, Sstable, SstableId, SstableIdentity, Writer, WriterConfig};

const TABLE: TableId = TableId(Uuid::from_u128(7));

fn row(timestamp: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let cell = Cell::live(ColumnId(1), timestamp, b"v");
    RowBuilder::begin(&mut out, &RowHead::bare(timestamp)).cell(&cell);
    out
}

/// A file with one row for each of these tokens and keys.
async fn file(
    disk: &Disk,
    number: usize,
    rows: &BTreeSet<(i64, u8)>,
    clustering: &[u8],
) -> Rc<Sstable> {
    let id = SstableId(Uuid::from_u128(number as u128 + 1));
    let config = WriterConfig {
        table: TABLE,
        codec: Codec::None,
        merged_soon: false,
        block_bytes: 100,
        filter_fp_chance: 0.01,
        filter_piece_bytes: crate::limits::FILTER_PIECE_BYTES,
        written_forms: false,
        indexed: None,
    };
    let mut writer = Writer::new(disk, &RelPath::root(), id, config);
    let row = row(number as i64 + 1);
    for (token, key) in rows {
        let key = std::slice::from_ref(key);
        let head = Head { token: Token(*token), key, deletion: Deletion::NONE, static_row: None };
        writer.partition(&head);
        writer.fragment(&Fragment::Row { clustering, row: RowRef::trusted(&row) });
    }
    let written = writer.finish(&async || {}).await.unwrap().expect("a file with rows");
    let known = SstableIdentity { id, table: TABLE, proof: written.proof };
    Sstable::open(disk, &RelPath::root(), known, &BlockCache::new(1 << 20), TokenRange::ALL)
        .await
        .unwrap()
}

fn span<'s>(first: i64, last: i64, slices: &'s [Slice]) -> Span<'s> {
    let scope = Scope::Range(TokenRange { first: Token(first), last: Token(last) });
    Span { scope, slices, reversed: false }
}

fn sim() -> (SimDisk, Disk) {
    let sim = SimDisk::new(1, Faults::default());
    (sim.clone(), Disk::Sim(sim))
}

fn part(sstable: Rc<Sstable>, tokens: TokenRange) -> FilePart {
    FilePart { run: sstable.id().0, sstable, tokens, begin: None }
}

fn parts(files: &[Rc<Sstable>]) -> impl Iterator<Item = FilePart> {
    files.iter().map(|sstable| part(sstable.clone(), sstable.statistics().tokens))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn lanes_give_what_the_pieces_hold(
        worlds in prop::collection::vec(
            prop::collection::btree_set((-20..20i64, 0..3u8), 1..20), 0..8),
        trims in prop::collection::vec((-25..20i64, 0..45i64), 8),
        first in -25..25i64, many in 0..50i64,
        reading in prop_oneof![
            Just(Reading::Scan), Just(Reading::Compaction), Just(Reading::CompactionInLongPieces),
        ],
    ) {
        SimExec::new(1).run(async move {
            let (_, disk) = sim();
            let (mut all, mut expected) = (Vec::new(), BTreeMap::<(i64, u8), i64>::new());
            for (number, (world, trim)) in worlds.iter().zip(&trims).enumerate() {
                let sstable = file(&disk, number, world, b"").await;
                let trim = TokenRange { first: Token(trim.0), last: Token(trim.0 + trim.1) };
                let Some(tokens) = sstable.statistics().tokens.intersection(&trim) else { continue };
                all.push(part(sstable, tokens));
                for place in world.iter().filter(|place| tokens.contains(Token(place.0))) {
                    let newest = expected.entry(*place).or_default();
                    *newest = number as i64 + 1;
                }
            }
            let depth = |token| all.iter().filter(|part| part.tokens.contains(Token(token))).count();
            let deepest = (-25..25).map(depth).max().unwrap_or_default();
            let lanes = lanes_of(all.iter().cloned()).into_iter().map(Rc::from);
            let lanes: Vec<Rc<[FilePart]>> = lanes.collect();
            assert_eq!(lanes.len(), deepest, "no more lanes than parts over each other");
            assert_eq!(lanes.iter().map(|lane| lane.len()).sum::<usize>(), all.len());
            for lane in &lanes {
                assert!(lane.windows(2).all(|pair| pair[0].tokens.last < pair[1].tokens.first));
            }
            let slices = [Slice::all()];
            let span = span(first, first + many, &slices);
            let cursors = lanes.iter().filter_map(|lane| RunCursor::new(lane, span, reading));
            let mut merged = Merge::new(cursors, false);
            let mut got = Vec::new();
            while merged.next_partition().await.unwrap() {
                let head = merged.head();
                let place = (head.token.0, head.key[0]);
                assert!(merged.next().await.unwrap());
                let Fragment::Row { row, .. } = merged.fragment() else { panic!("only rows") };
                got.push((place, row.head().timestamp));
                assert!(!merged.next().await.unwrap());
            }
            let inside = |place: &&((i64, u8), i64)| (first..=first + many).contains(&place.0.0);
            let expected: Vec<_> = expected.into_iter().collect();
            assert_eq!(got, expected.iter().filter(inside).copied().collect::<Vec<_>>());
        }).done();
    }
}

/// Device reads of the first `partitions` partitions from a token on.
async fn reads(sim: &SimDisk, files: &[Rc<Sstable>], first: i64, partitions: usize) -> u64 {
    let lanes: Vec<Rc<[FilePart]>> = lanes_of(parts(files)).into_iter().map(Rc::from).collect();
    let before = sim.ops();
    let slices = [Slice::all()];
    let span = span(first, i64::MAX, &slices);
    let cursors = lanes.iter().filter_map(|lane| RunCursor::new(lane, span, Reading::Scan));
    let mut merged = Merge::new(cursors, false);
    for _ in 0..partitions {
        assert!(merged.next_partition().await.unwrap() && merged.next().await.unwrap());
    }
    sim.ops() - before
}

/// The first row of a page costs a read for each run that may have it, however many parts a run has.
#[test]
fn a_page_opens_the_pieces_that_it_comes_to() {
    SimExec::new(1)
        .run(async {
            let (sim, disk) = sim();
            let mut files = Vec::new();
            for run in 0..3 {
                for part in 0..100 {
                    let rows = (0..10).map(|i| (part * 1000 + i * 90 + run, 1)).collect();
                    files.push(file(&disk, files.len(), &rows, b"").await);
                }
            }
            assert_eq!(reads(&sim, &files[..100], i64::MIN, 1).await, 1);
            assert_eq!(reads(&sim, &files[..100], 50_000, 1).await, 1);
            assert_eq!(reads(&sim, &files[..100], 50_000, 15).await, 2);
            assert_eq!(reads(&sim, &files, 50_000, 1).await, 3);
            // Views that a compaction has trimmed, and what it has written in their place.
            let rows = (0..20_000).step_by(90).map(|token| (token, 1)).collect();
            let output = file(&disk, files.len(), &rows, b"").await;
            let mut left: Vec<_> = files[..300].to_vec();
            left.retain(|sstable| sstable.statistics().tokens.first.0 >= 20_000);
            left.push(output);
            assert_eq!(reads(&sim, &left, 0, 1).await, 1);
        })
        .done();
}

/// Parts that have nothing in the slices are not opened.
#[test]
fn a_scan_of_slices_passes_over_files_by_their_clusterings() {
    SimExec::new(1)
        .run(async {
            let (sim, disk) = sim();
            let mut files = Vec::new();
            for part in 0..10u8 {
                let rows = [(i64::from(part), 1)].into();
                files.push(file(&disk, files.len(), &rows, &[part]).await);
            }
            let lanes: Vec<Rc<[FilePart]>> =
                lanes_of(parts(&files)).into_iter().map(Rc::from).collect();
            let slices = [Slice { start: vec![7], end: vec![8] }];
            let before = sim.ops();
            let span = span(i64::MIN, i64::MAX, &slices);
            let cursors = lanes.iter().filter_map(|lane| RunCursor::new(lane, span, Reading::Scan));
            let mut merged = Merge::new(cursors, false);
            assert!(merged.next_partition().await.unwrap());
            assert_eq!(merged.head().token, Token(7));
            assert!(!merged.next_partition().await.unwrap());
            assert_eq!(sim.ops() - before, 1);
        })
        .done();
}

/// What is read by one cursor alone is closed as soon as that has left it: its space is free once it is unlinked.
#[test]
fn a_lane_of_its_own_lets_go_of_the_files_that_it_has_passed() {
    SimExec::new(1)
        .run(async {
            let (_, disk) = sim();
            let mut files = Vec::new();
            for part in 0..3 {
                files.push(file(&disk, part, &[(part as i64, 1)].into(), b"").await);
            }
            let (all, slices) = (lanes_of(parts(&files)).remove(0), [Slice::all()]);
            let mut cursor = RunCursor::owning(all, &slices, Reading::of_merge(2)).unwrap();
            let holders =
                || files.iter().map(|file| Rc::strong_count(file) - 1).collect::<Vec<_>>();
            let mut seen = Vec::new();
            while cursor.next_partition().await.unwrap() || cursor.unopened().is_some() {
                if cursor.unopened().is_none() {
                    seen.push(holders());
                }
            }
            assert_eq!(seen, [[1, 1, 1], [0, 1, 1], [0, 0, 1]]);
            assert_eq!(holders(), [0, 0, 0]);
        })
        .done();
}
