//! Long deleted stretches of one partition: passed over, and nothing else with them.
//!
//! 1. Rows, range tombstones and partition tombstones with drawn timestamps make stretches of many leaves, of which
//!    some rows are newer than what deletes the others.
//! 2. A walk in either direction must show exactly the live rows, after whatever covered ones; after a seek, all live
//!    rows from its place on.
//! 3. A stretch of 20,000 covered rows shows no more of them than a few leaves have.
//!
//! Not here: the memtable against a list of everything (`memtable/tests.rs`), the bound of a leaf (`leaves.rs`).

use super::*;
use crate::cursor::MergeInput;
use crate::limits::{
    COVERED_BYTES_AT_ONCE_MAX, COVERED_ROWS_AT_ONCE_MAX, LEAF_ENTRIES_MAX, ROW_IN_PARTS_BYTES_MIN,
};

const KEY: u8 = 1;

fn place(at: u16) -> Vec<u8> {
    at.to_be_bytes().to_vec()
}

fn change(memtable: &mut Memtable, fill: impl FnOnce(&mut MutationBuilder<'_>)) {
    let mut record = Vec::new();
    let table = TableId(Uuid::nil());
    let mut m = MutationBuilder::begin(&mut record, table, token(KEY), &[KEY]);
    fill(&mut m);
    m.finish();
    let mutation = MutationRef::of_trusted_record(&record).next().expect("one").expect("sound");
    memtable.insert(&mutation);
}

fn put_rows(memtable: &mut Memtable, rows: impl IntoIterator<Item = u16>, timestamp: i64) {
    change(memtable, |m| {
        for at in rows {
            let row = row_bytes(&RowHead::bare(timestamp), Some((1, 1)));
            m.row(&place(at), |out| out.extend_from_slice(&row));
        }
    });
}

fn delete(memtable: &mut Memtable, start: u16, end: u16, timestamp: i64) {
    let (start, end) = (&place(start), &place(end));
    let deletion = deletion(timestamp);
    change(memtable, |m| m.delete_range(&RangeTombstone { start, end, deletion }));
}

/// The rows that are not covered, and how many were shown in all; after `seek.0` fragments it seeks.
fn live(
    memtable: &Rc<RefCell<Memtable>>,
    reversed: bool,
    seek: Option<(usize, u16)>,
) -> (Vec<u16>, usize) {
    let slices = [Slice::all()];
    let span = Span { scope: Scope::Key(token(KEY), &[KEY]), slices: &slices, reversed };
    let mut cursor = MemtableCursor::new(memtable.clone(), span);
    block_on(async {
        assert!(cursor.next_partition().await.unwrap());
        let (whole, mut in_force) = (cursor.head().deletion, Deletion::NONE);
        let (mut rows, mut shown) = (Vec::new(), 0);
        let mut moves = 0;
        loop {
            let moved = match seek {
                Some((after, at)) if moves == after => cursor.seek(&place(at)).await.unwrap(),
                _ => cursor.next().await.unwrap(),
            };
            if !moved {
                return (rows, shown);
            }
            moves += 1;
            match cursor.fragment() {
                Fragment::Change { deletion, .. } => in_force = deletion,
                Fragment::Row { clustering, row } => {
                    shown += 1;
                    if seen(row.bytes(), whole.max(in_force)).is_some() {
                        rows.push(u16::from_be_bytes([clustering[0], clustering[1]]));
                    }
                }
            }
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn what_is_newer_than_a_deletion_is_found_among_what_it_covers(
        steps in prop::collection::vec((0..3000u16, 1..3000u16, 1..20i64, 0..5u8), 1..12),
        reversed: bool,
        seek in prop::option::of((0..30usize, 0..3000u16)),
    ) {
        let memtable = Rc::new(RefCell::new(Memtable::default()));
        // Each row with its newest value, each stretch with what deletes it.
        let mut rows: BTreeMap<u16, i64> = BTreeMap::new();
        let mut deleted: Vec<(u16, u16, i64)> = Vec::new();
        for (start, length, timestamp, kind) in steps {
            let end = start.saturating_add(length).min(3000);
            let table = &mut memtable.borrow_mut();
            match kind {
                0..3 => {
                    let some = (start..end).step_by(usize::from(kind) * 3 + 1);
                    put_rows(table, some.clone(), timestamp);
                    for at in some {
                        let newest = rows.entry(at).or_default();
                        *newest = timestamp.max(*newest);
                    }
                }
                3 => {
                    delete(table, start, end, timestamp);
                    deleted.push((start, end, timestamp));
                }
                _ => {
                    change(table, |m| m.delete_partition(deletion(timestamp / 2)));
                    deleted.push((0, 3000, timestamp / 2));
                }
            }
        }
        let is_live = |&(at, newest): &(&u16, &i64)| {
            !deleted.iter().any(|(start, end, t)| (start..end).contains(&at) && newest <= t)
        };
        let mut expected: Vec<u16> = rows.iter().filter(is_live).map(|(at, _)| *at).collect();
        if reversed {
            expected.reverse();
        }
        prop_assert_eq!(&live(&memtable, reversed, None).0, &expected);
        // A seek may stand behind what was shown already: then the rest is all that is left.
        if let Some((after, at)) = seek {
            let (got, _) = live(&memtable, reversed, Some((after, at)));
            let tail = expected.iter().rev().take_while(|row| if reversed { **row < at } else { **row >= at });
            let tail: Vec<u16> = tail.copied().collect();
            prop_assert!(got.len() >= tail.len());
            prop_assert!(got.iter().rev().take(tail.len()).eq(&tail));
        }
    }
}

/// Before: a million rows behind one tombstone cost as many steps as a leaf has rows, in both directions.
#[test]
fn a_deleted_stretch_is_passed_over() {
    let memtable = Rc::new(RefCell::new(Memtable::default()));
    put_rows(&mut memtable.borrow_mut(), 0..20_000, 5);
    delete(&mut memtable.borrow_mut(), 10, 19_990, 6);
    put_rows(&mut memtable.borrow_mut(), [15_000], 7);
    let count = memtable.borrow().row_count() as usize;
    assert!(count > 18_000 - COVERED_ROWS_AT_ONCE_MAX, "they are there");
    for reversed in [false, true] {
        let (rows, shown) = live(&memtable, reversed, None);
        assert_eq!(rows.len(), 21);
        assert!(shown <= 21 + 3 * LEAF_ENTRIES_MAX, "{shown} rows were shown");
    }
}

/// Before: each range tombstone of a mutation looked at 1024 rows, so one mutation of 65,535 of them was seconds of
/// work in one step, and a row counted as one however long it was.
#[test]
fn all_range_tombstones_of_a_mutation_together_look_at_few_rows_and_few_bytes() {
    let bytes = 4 << 10;
    for (rows, value_bytes, most) in [
        (3000, 1, COVERED_ROWS_AT_ONCE_MAX),
        (300, bytes, COVERED_BYTES_AT_ONCE_MAX.div_ceil(bytes)),
    ] {
        let memtable = Rc::new(RefCell::new(Memtable::default()));
        let row = row_bytes(&RowHead::bare(5), Some((1, value_bytes)));
        change(&mut memtable.borrow_mut(), |m| {
            (0..rows).for_each(|at| m.row(&place(at), |out| out.extend_from_slice(&row)));
        });
        put_rows(&mut memtable.borrow_mut(), [rows], 9);
        change(&mut memtable.borrow_mut(), |m| {
            for start in (0..rows).step_by(100) {
                let (start, end) = (&place(start), &place(start + 100));
                m.delete_range(&RangeTombstone { start, end, deletion: deletion(6) });
            }
        });
        let taken_out = usize::from(rows) + 1 - memtable.borrow().row_count() as usize;
        assert!(taken_out > most / 2 && taken_out <= most, "{taken_out} of {most}");
        for reversed in [false, true] {
            assert_eq!(live(&memtable, reversed, None).0, [rows], "all are deleted but one");
        }
    }
}

/// What a large row has got beside its base is as new as the row is.
#[test]
fn a_newer_part_of_a_large_row_is_found_among_what_a_deletion_covers() {
    let memtable = Rc::new(RefCell::new(Memtable::default()));
    put_rows(&mut memtable.borrow_mut(), 0..3000, 5);
    let large = row_bytes(&RowHead::bare(5), Some((1, 40_000)));
    change(&mut memtable.borrow_mut(), |m| {
        m.row(&place(2500), |out| out.extend_from_slice(&large))
    });
    delete(&mut memtable.borrow_mut(), 0, 3000, 6);
    put_rows(&mut memtable.borrow_mut(), [2500], 7);
    for reversed in [false, true] {
        assert_eq!(live(&memtable, reversed, None).0, [2500]);
    }
}

/// A row whose newest element was kept beside it, in a partition of this one row: when a second row came, only the
/// row itself was asked what is newest, and a deletion between the two passed over the row with its element.
#[test]
fn an_element_beside_the_only_row_outlives_an_older_deletion() {
    let mut memtable = Memtable::default();
    let put = |memtable: &mut Memtable, at, (column, bytes), timestamp| {
        let row = row_bytes(&RowHead::bare(timestamp), Some((column, bytes)));
        change(memtable, |m| m.row(&place(at), |out| out.extend_from_slice(&row)));
    };
    put(&mut memtable, 1, (1, 100 * ROW_IN_PARTS_BYTES_MIN), 10);
    put(&mut memtable, 1, (2, 1), 30);
    assert!(memtable.get(token(KEY), &[KEY]).unwrap().has_parts());
    put(&mut memtable, 2, (1, 1), 15);
    delete(&mut memtable, 0, 9, 20);
    let memtable = Rc::new(RefCell::new(memtable));
    for reversed in [false, true] {
        assert_eq!(live(&memtable, reversed, None).0, [1], "reversed: {reversed}");
    }
}
