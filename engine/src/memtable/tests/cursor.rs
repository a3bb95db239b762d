//! A memtable that changes while a cursor stands in it: what comes behind the cursor is shown, and nothing twice.
//!
//! 1. Rows come before and behind a cursor that walks a partition of several leaves, in slices.
//! 2. A tombstone comes that covers rows behind the cursor, which are gone from the memtable then.
//!
//! Not here: memtables that stand still (`memtable/tests.rs`), stretches that tombstones cover (`covered.rs`).

use super::*;
use crate::limits::{COVERED_BOUNDS_AT_ONCE_MAX, RANGE_CHUNK_BORDERS_MAX};

/// Before: a tombstone that came while a cursor stood made one move walk over all borders of older ones that were left.
#[test]
fn of_borders_under_a_tombstone_that_comes_a_move_passes_few() {
    let passed_max = COVERED_BOUNDS_AT_ONCE_MAX as usize * RANGE_CHUNK_BORDERS_MAX;
    for change in
        [Change::Range { start: 0, end: 255, timestamp: 9 }, Change::Partition { timestamp: 9 }]
    {
        for reversed in [false, true] {
            let memtable = Rc::new(RefCell::new(Memtable::default()));
            let range =
                |at| Change::Range { start: at, end: at + 1, timestamp: i64::from(at % 2) + 1 };
            insert(&mut memtable.borrow_mut(), &(1, (0..254).map(range).collect()));
            let slices = [Slice::all()];
            let span = Span { scope: Scope::Key(token(1), &[1]), slices: &slices, reversed };
            let mut cursor = MemtableCursor::new(memtable.clone(), span);
            assert!(block_on(cursor.next_partition()).unwrap());
            assert!(block_on(cursor.next()).unwrap());
            let mut last = cursor.fragment().position()[0];
            insert(&mut memtable.borrow_mut(), &(1, vec![change.clone()]));
            while block_on(cursor.next()).unwrap() {
                let at = cursor.fragment().position().first().copied().unwrap_or_default();
                let passed = usize::from(at.abs_diff(last));
                assert!(passed <= passed_max, "{passed} borders in one move, {change:?}");
                last = at;
            }
        }
    }
}

proptest! {
    /// Rows of more than a leaf, and no tombstone, whose next one is the next entry: but not after an insert.
    #[test]
    fn rows_that_come_while_a_cursor_stands_are_shown_if_they_lie_behind_it(
        first in prop::collection::btree_set(any::<u8>(), 100..200),
        later in prop::collection::vec((0..200usize, any::<u8>()), 0..60),
        borders in prop::collection::btree_set(any::<u8>(), 2..6),
    ) {
        let memtable = Rc::new(RefCell::new(Memtable::default()));
        let put = |at: u8| insert(&mut memtable.borrow_mut(), &(1, vec![row(at, 1)]));
        first.iter().copied().for_each(put);
        let mut all = first;
        let borders: Vec<u8> = borders.into_iter().collect();
        let borders: Vec<(u8, u8)> = borders.chunks_exact(2).map(|b| (b[0], b[1])).collect();
        let slices = slices_of(&borders);
        let span = Span { scope: Scope::Key(token(1), &[1]), slices: &slices, reversed: false };
        let mut cursor = MemtableCursor::new(memtable.clone(), span);
        prop_assert!(block_on(cursor.next_partition()).unwrap());
        let mut passed = None;
        for moves in 0.. {
            for &(_, at) in later.iter().filter(|(before, _)| *before == moves) {
                put(at);
                all.insert(at);
            }
            let inside = |at: &&u8| borders.iter().any(|(start, end)| start <= at && *at < end);
            let next = all.iter().filter(|at| Some(**at) > passed).find(inside).copied();
            prop_assert_eq!(block_on(cursor.next()).unwrap(), next.is_some());
            let Some(at) = next else { break };
            prop_assert_eq!(cursor.fragment().position(), &[at]);
            passed = Some(at);
        }
    }
}

/// A row that a tombstone took out while the cursor stood before it must not uncover what an
/// sstable has below: the tombstone shows up as a change.
#[test]
fn a_tombstone_that_comes_behind_the_cursor_is_shown() {
    for whole_partition in [false, true] {
        let memtable = Rc::new(RefCell::new(Memtable::default()));
        insert(&mut memtable.borrow_mut(), &(1, (0..9).map(|at| row(at, 5)).collect()));
        let slices = [Slice::all()];
        let scope = Scope::Range(TokenRange::ALL);
        for reversed in [false, true] {
            let span = Span { scope, slices: &slices, reversed };
            let mut cursor = MemtableCursor::new(memtable.clone(), span);
            assert!(block_on(cursor.next_partition()).unwrap());
            assert!(block_on(cursor.next()).unwrap());
            let timestamp = if reversed { 7 } else { 6 };
            let change = match whole_partition {
                true => Change::Partition { timestamp },
                false => Change::Range { start: 0, end: 9, timestamp },
            };
            insert(&mut memtable.borrow_mut(), &(1, vec![change]));
            assert!(block_on(cursor.next()).unwrap());
            let Fragment::Change { deletion: shown, .. } = cursor.fragment() else {
                panic!("the tombstone first, not {:?}", cursor.fragment())
            };
            assert_eq!(shown, deletion(timestamp));
            insert(&mut memtable.borrow_mut(), &(1, (0..9).map(|at| row(at, 9)).collect()));
            assert!(block_on(cursor.next()).unwrap());
            assert!(matches!(cursor.fragment(), Fragment::Row { .. }));
        }
    }
}
