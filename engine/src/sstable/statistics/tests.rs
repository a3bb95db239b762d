//! Tests of what is counted while a file is written, and read back.
//!
//! 1. What an `Observer` has seen is what its statistics say, and they read back; a field of a later version is passed
//!    over.
//! 2. From when on all of a file is dead, which part of it a merge could purge, and the bytes of its largest
//!    partitions.
//! 3. Fuzz: any bytes, and any counts that only a damaged file has, are refused or answered, never a panic.
//!
//! Not here: the frame around the statistics (`frame.rs`), whole files (`sstable/tests.rs`).

use model::ColumnId;
use model::cell::Expiry;
use model::row::{Cell, RowBuilder, RowHead};
use proptest::array::uniform5;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::sstable::large::ColumnSize;

fn row(cells: &[Cell<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut row = RowBuilder::begin(&mut out, &RowHead::bare(7));
    cells.iter().for_each(|cell| row.cell(cell));
    out
}

fn expiring(column: u16, at_s: u32) -> Cell<'static> {
    let life = Life::Expiring(Expiry { ttl_s: 1, at_s });
    Cell { life, ..Cell::live(ColumnId(column), 7, b"v") }
}

#[test]
fn what_was_seen_reads_back() {
    let mut seen = Observer::new();
    let deletion = Deletion { timestamp: 3, local_s: 50 };
    let stat = row(&[Cell::live(ColumnId(1), 9, b"s")]);
    seen.partition(Token(-5), deletion, Some(RowRef::trusted(&stat)));
    let first = row(&[Cell::dead(ColumnId(2), 40, 60), expiring(3, 90)]);
    seen.row(b"m", RowRef::trusted(&first));
    seen.range(b"c", Deletion { timestamp: 8, local_s: 70 });
    seen.range(b"d", Deletion::NONE);
    seen.partition_end(100, b"key");
    seen.partition(Token(5), Deletion::NONE, None);
    seen.partition_end(200, b"other");
    let all = seen.finish(300);
    let mut bytes = Vec::new();
    all.encode(&mut bytes);
    put_field(&mut bytes, 200, b"of a later version");
    assert_eq!(Statistics::decode(&bytes), Ok(all.clone()));
    assert_eq!((all.partitions, all.rows, all.cells, all.tombstones), (2, 1, 3, 3));
    assert_eq!((all.statics, all.partition_deletions), (1, 1));
    assert_eq!(all.tokens, TokenRange { first: Token(-5), last: Token(5) });
    assert_eq!((all.oldest_timestamp, all.newest_timestamp), (3, 40));
    assert_eq!((all.first_death_s, all.last_death_s), (50, u32::MAX));
    assert_eq!((&all.first_clustering[..], &all.last_clustering[..]), (&b"c"[..], &b"m"[..]));
    assert_eq!(all.largest, [(200, b"other".to_vec()), (100, b"key".to_vec())]);
    assert_eq!(all.dead_part(61), 2.0 / 3.0);
}

#[test]
fn a_file_of_expiring_cells_is_dead_when_the_last_expires() {
    let mut seen = Observer::new();
    seen.partition(Token(1), Deletion::NONE, None);
    for at_s in 0..100 {
        seen.row(b"", RowRef::trusted(&row(&[expiring(1, 1000 + at_s * at_s)])));
    }
    let all = seen.finish(1);
    assert_eq!((all.first_death_s, all.last_death_s), (1000, 1000 + 99 * 99));
    assert_eq!(all.deaths.len(), AGES_MAX);
    assert_eq!(all.deaths.iter().map(|death| death.1).sum::<u64>(), 100);
    assert!(all.dead_part(3500) <= 0.5);
}

/// A merge keeps the tombstone of a long partition: a file was merged into itself for it without end.
#[test]
fn tombstones_that_a_merge_keeps_are_nothing_to_purge() {
    let longest = |bytes: u64| Statistics {
        partitions: 2,
        partition_deletions: 1,
        cells: 4,
        deaths: vec![(10, 3)],
        largest: vec![(bytes, b"a".to_vec()), (5, b"b".to_vec())],
        ..Statistics::default()
    };
    let part = |bytes, fragment_bytes| longest(bytes).purgeable_part(20, fragment_bytes);
    assert_eq!((part(500, 1000), part(501, 1000), part(500, 0)), (0.75, 0.5, 0.5));
    let only = Statistics { deaths: vec![(10, 1)], ..longest(1000) };
    assert_eq!((only.purgeable_part(20, 1000), only.dead_part(20)), (0.0, 0.25));
    assert_eq!(only.purgeable_part(5, 1000), 0.0, "nothing is dead yet");
}

/// Before: the sum of two counts of `u64::MAX` ended the process, at the first look after each start.
#[test]
fn counts_that_no_file_has_are_summed_up() {
    let deaths = vec![(1, u64::MAX), (2, u64::MAX)];
    let column = ColumnSize { column: 1, bytes: u64::MAX, cells: u64::MAX };
    let row = LargeRow { key: vec![1], clustering: None, columns: vec![column; 2] };
    let all = Statistics { deaths, large_rows: vec![row], ..Statistics::default() };
    assert_eq!(all.dead_part(3), u64::MAX as f64);
    assert_eq!(all.long_row_bytes(), u64::MAX);
    asked(&all);
}

/// What is asked of the statistics of a file.
fn asked(all: &Statistics) {
    let keys = all.largest.iter().map(|(_, key)| key.as_slice()).chain([&b"key"[..]]);
    let bytes = keys.map(|key| all.partition_bytes_max(key)).max();
    assert!(bytes.is_some() && all.dead_part(u32::MAX) >= 0.0);
    assert!(all.purgeable_part(u32::MAX, 1) >= 0.0);
    let large = all.large_rows.iter().map(LargeRow::bytes).max();
    assert!(all.long_row_bytes() >= large.unwrap_or(0));
}

/// Counts, and those that only a damaged file has.
fn counts() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..10u64, Just(u64::MAX)]
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        if let Ok(all) = Statistics::decode(&bytes) {
            asked(&all);
        }
    }

    #[test]
    fn arbitrary_counts_never_panic(
        deaths in vec((any::<u32>(), counts()), 0..4),
        largest in vec((counts(), any::<Vec<u8>>()), 0..4),
        large in vec(vec((any::<u16>(), counts(), counts()), 0..4), 0..4),
        [partitions, rows, cells, raw_bytes, partition_deletions] in uniform5(counts()),
    ) {
        let row = |columns: Vec<(u16, u64, u64)>| {
            let column = |(column, bytes, cells)| ColumnSize { column, bytes, cells };
            let columns = columns.into_iter().map(column).collect();
            LargeRow { key: vec![1], clustering: None, columns }
        };
        let large_rows = large.into_iter().map(row).collect();
        let all = Statistics {
            partitions, rows, cells, raw_bytes, partition_deletions, deaths, largest, large_rows,
            ..Statistics::default()
        };
        let mut bytes = Vec::new();
        all.encode(&mut bytes);
        let read = Statistics::decode(&bytes);
        prop_assert_eq!(read.as_ref(), Ok(&all));
        asked(&all);
    }
}
