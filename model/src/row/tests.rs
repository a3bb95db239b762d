//! Properties of rows: round trip, algebra of merge, what readers and compaction keep.

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::CqlType;
use crate::schema::{ColumnDrops, TableBuilder, TableId};

const NOW_S: u32 = 5;

fn any_life() -> impl Strategy<Value = Life> {
    prop_oneof![
        2 => Just(Life::Live),
        1 => (1..4u32, 1..9u32).prop_map(|(ttl_s, at_s)| Life::Expiring(Expiry { ttl_s, at_s })),
        1 => (1..9u32).prop_map(|local_s| Life::Dead { local_s }),
    ]
}

/// Column 0-2 are plain, 3 is a collection: (column, timestamp, life, path, whole, value).
type Spec = (u16, i64, Life, u8, bool, u8);

fn any_row() -> impl Strategy<Value = Vec<u8>> {
    let cell = (0..4u16, 0..6i64, any_life(), 0..3u8, prop::bool::ANY, 0..3u8);
    let marker = prop::option::of((1..4u32, 1..9u32).prop_map(|(ttl_s, at_s)| {
        if at_s > 6 { Life::Live } else { Life::Expiring(Expiry { ttl_s, at_s }) }
    }));
    let deletion = prop::option::of((0..4i64, 1..9u32));
    let written = prop::option::of((0..3i64, 0..3u8));
    (0..6i64, marker, deletion, prop::collection::vec(cell, 0..6), written).prop_map(
        |(timestamp, marker, deletion, cells, written)| {
            let deletion = deletion
                .map_or(Deletion::NONE, |(timestamp, local_s)| Deletion { timestamp, local_s });
            let row = build(&RowHead { timestamp, marker, deletion }, &cells);
            let Some((at, value)) = written else { return row };
            let (mut one, mut both) = (Vec::new(), Vec::new());
            let head = RowRef::trusted(&row).head();
            let bare = RowHead::bare(head.timestamp);
            RowBuilder::begin(&mut one, &bare).written(Written { at, values: &[1, value] });
            merge(RowRef::trusted(&row), RowRef::trusted(&one), &mut both);
            both
        },
    )
}

/// Builds a row by merging one-cell rows, so that the invariants hold whatever the cells are.
fn build(head: &RowHead, cells: &[Spec]) -> Vec<u8> {
    let mut all = Vec::new();
    let mut bare = *head;
    bare.marker = head.marker.filter(|_| !head.deletion.covers(head.timestamp));
    RowBuilder::begin(&mut all, &bare);
    for &(column, timestamp, life, path, whole, value) in cells {
        let mut one = Vec::new();
        let collection = column == 3;
        let whole = collection && whole;
        let life = if whole { Life::Dead { local_s: 1 } } else { life };
        let cell = Cell {
            column: ColumnId(column),
            timestamp,
            life,
            path: (collection && !whole).then_some(std::slice::from_ref(&path)),
            written: (collection && !whole && value > 0).then_some(std::slice::from_ref(&value)),
            whole,
            value: if matches!(life, Life::Dead { .. }) {
                &[]
            } else {
                std::slice::from_ref(&value)
            },
        };
        RowBuilder::begin(&mut one, &RowHead::bare(head.timestamp)).cell(&cell);
        all = merged(&all, &one);
    }
    all
}

fn merged(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    merge(RowRef::trusted(a), RowRef::trusted(b), &mut out);
    out
}

/// What the row says, apart from how its bytes share timestamps.
fn says(row: &[u8]) -> (Option<(i64, Life)>, Deletion, Vec<String>) {
    let row = RowRef::checked(row).expect("a well-formed row");
    let head = row.head();
    let cells = row.cells().map(|cell| format!("{cell:?}")).collect();
    (head.marker.map(|life| (head.timestamp, life)), head.deletion, cells)
}

fn timestamps(row: &[u8]) -> Vec<i64> {
    let row = RowRef::trusted(row);
    let (head, cells) = (row.head(), row.cells().map(|cell| cell.timestamp));
    cells.chain([head.timestamp, head.deletion.timestamp]).filter(|t| *t != i64::MIN).collect()
}

fn seen(row: &[u8], covering: Deletion) -> Option<Vec<String>> {
    let mut scratch = Vec::new();
    visible(RowRef::trusted(row), covering, NOW_S, &ColumnDrops::default(), &mut scratch)
        .map(|row| row.cells().map(|cell| format!("{cell:?}")).collect())
}

proptest! {
    #[test]
    fn merge_is_commutative_associative_idempotent(a in any_row(), b in any_row(), c in any_row()) {
        prop_assert_eq!(says(&merged(&a, &b)), says(&merged(&b, &a)));
        prop_assert_eq!(says(&merged(&merged(&a, &b), &c)), says(&merged(&a, &merged(&b, &c))));
        prop_assert_eq!(says(&merged(&a, &a)), says(&a));
    }

    #[test]
    fn compaction_without_purge_changes_nothing_a_reader_sees(
        a in any_row(), covered in prop::option::of(0..5i64)
    ) {
        let covering =
            covered.map_or(Deletion::NONE, |timestamp| Deletion { timestamp, local_s: 1 });
        let purge = Purge { now_s: NOW_S, ..Purge::NOTHING };
        let mut kept = Vec::new();
        let left = compact(RowRef::trusted(&a), covering, &purge, &mut kept);
        let after = left.and_then(|left| seen(left.bytes(), covering));
        prop_assert_eq!(after, seen(&a, covering));
    }

    /// Rows of different timestamps, as two files have them: of one only the rest is left.
    #[test]
    fn compacting_one_of_two_rows_changes_nothing_a_reader_of_both_sees(
        a in any_row(), b in any_row(), gc_before_s in 0..9u32
    ) {
        let oldest_elsewhere = RowRef::trusted(&b).timestamps().map_or(i64::MAX, |all| all.1);
        prop_assume!(!timestamps(&a).iter().any(|t| timestamps(&b).contains(t)));
        let purge = Purge { now_s: NOW_S, gc_before_s, oldest_elsewhere, drops: None };
        let mut kept = Vec::new();
        let both = merged(&a, &b);
        let after = match compact(RowRef::trusted(&a), Deletion::NONE, &purge, &mut kept) {
            Some(left) => merged(left.bytes(), &b),
            None => b,
        };
        prop_assert_eq!(seen(&after, Deletion::NONE), seen(&both, Deletion::NONE));
    }

    #[test]
    fn purging_everything_leaves_just_what_a_reader_sees(a in any_row()) {
        let purge = Purge {
            now_s: NOW_S,
            gc_before_s: u32::MAX,
            oldest_elsewhere: i64::MAX,
            drops: None,
        };
        let mut kept = Vec::new();
        let left = compact(RowRef::trusted(&a), Deletion::NONE, &purge, &mut kept);
        prop_assert_eq!(left.map(|left| says(left.bytes()).2), seen(&a, Deletion::NONE));
    }

    #[test]
    fn a_mutilated_row_is_refused_or_read_but_never_panics(
        mut a in any_row(), at: prop::sample::Index, bit in 0..8u8, cut: prop::sample::Index
    ) {
        let i = at.index(a.len());
        a[i] ^= 1 << bit;
        a.truncate(cut.index(a.len() + 1));
        if let Ok(row) = RowRef::checked(&a) {
            let _ = format!("{row:?}");
        }
    }
}

#[test]
fn golden_bytes_of_an_insert_of_two_cells() {
    let mut out = Vec::new();
    let head = RowHead { timestamp: 7, marker: Some(Life::Live), deletion: Deletion::NONE };
    let mut row = RowBuilder::begin(&mut out, &head);
    row.cell(&Cell::live(ColumnId(2), 7, b"ab"));
    row.cell(&Cell::dead(ColumnId(3), 9, 4));
    #[rustfmt::skip]
    let expected = [
        0x09, 7, 0, 0, 0, 0, 0, 0, 0,          // MARKER | MORTAL, timestamp 7
        2, 0, 0x00, 2, b'a', b'b',             // column 2, the row's timestamp, "ab"
        3, 0, 0x05, 9, 0, 0, 0, 0, 0, 0, 0,    // column 3, OWN | DEAD, timestamp 9
        4, 0, 0, 0,                            // died in second 4
    ];
    assert_eq!(out, expected);
}

/// Found by fuzzing: merging such a row wrote a plain cell after a collection's tombstone.
#[test]
fn a_plain_cell_in_a_column_with_elements_is_refused() {
    let mut out = Vec::new();
    let mut row = RowBuilder::begin(&mut out, &RowHead::bare(7));
    let whole = Cell { whole: true, ..Cell::dead(ColumnId(2), 7, 1) };
    row.cell(&whole);
    row.cell(&Cell { path: Some(b"p"), ..Cell::live(ColumnId(2), 8, b"v") });
    RowRef::checked(&out).expect("a tombstone and an element");
    let path_flag = out.iter().rposition(|&byte| byte == PATH | OWN_TIMESTAMP).expect("its flags");
    out[path_flag] = OWN_TIMESTAMP;
    out.truncate(out.len() - 2);
    assert_eq!(RowRef::checked(&out), Err(Error::Malformed("row: cells out of order")));
}

/// A row that loses nothing is handed back, not copied, unless something covers it; a copy says the same.
#[test]
fn a_row_of_which_all_is_kept_is_handed_back() {
    let mut t = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)))
        .partition_key("p", CqlType::Int)
        .and_then(|t| t.regular("a", CqlType::Int))
        .and_then(|t| t.regular("b", CqlType::Int))
        .and_then(TableBuilder::build)
        .expect("a sound table");
    let [a, b] = ["a", "b"].map(|name| t.column(name).expect("it is there").id);
    let mut whole = Vec::new();
    let mut builder = RowBuilder::begin(&mut whole, &RowHead::bare(1));
    builder.cell(&Cell::live(a, 1, b"1"));
    builder.cell(&Cell::live(b, 1, b"2"));
    let whole = RowRef::trusted(&whole);
    let left = |covering, drops: &ColumnDrops| {
        let (purge, mut kept) = (Purge { drops: Some(drops), ..Purge::NOTHING }, Vec::new());
        let left = compact(whole, covering, &purge, &mut kept).expect("a live row").bytes();
        (left.as_ptr() == whole.bytes().as_ptr(), left.to_vec())
    };
    let older = Deletion { timestamp: 0, local_s: 0 };
    assert_eq!(left(Deletion::NONE, &ColumnDrops::of(&t)), (true, whole.bytes().to_vec()));
    assert_eq!(left(older, &ColumnDrops::of(&t)), (false, whole.bytes().to_vec()));
    t.drop_column("b", 0).expect("a regular column");
    assert!(left(Deletion::NONE, &ColumnDrops::of(&t)).0, "b is newer than its drop");
    t.drop_column("a", 1).expect("a regular column");
    let mut rest = Vec::new();
    RowBuilder::begin(&mut rest, &RowHead::bare(1)).cell(&Cell::live(b, 1, b"2"));
    assert_eq!(left(Deletion::NONE, &ColumnDrops::of(&t)), (false, rest));
}

/// Found by the simulator: an expired cell became a tombstone, and beat one of its own timestamp that lives longer.
#[test]
fn when_a_cell_is_compacted_does_not_decide_who_wins() {
    let cell = |at_s, value: &'static [u8]| {
        let mut out = Vec::new();
        let life = Life::Expiring(Expiry { ttl_s: 5, at_s });
        RowBuilder::begin(&mut out, &RowHead::bare(1))
            .cell(&Cell { life, ..Cell::live(ColumnId(4), 1, value) });
        out
    };
    let (sooner, later) = (cell(10, b"z"), cell(30, b"a"));
    let purge = Purge { now_s: 20, ..Purge::NOTHING };
    let mut kept = Vec::new();
    let spent = compact(RowRef::trusted(&sooner), Deletion::NONE, &purge, &mut kept);
    let spent = spent.expect("a cell that is dead and not purged").bytes();
    assert!(spent.len() < sooner.len(), "its value is gone");
    let mut scratch = Vec::new();
    for now_s in [5, 20] {
        let seen = visible(
            RowRef::trusted(spent),
            Deletion::NONE,
            now_s,
            &ColumnDrops::default(),
            &mut scratch,
        );
        assert!(seen.is_none(), "spent is dead whatever the time");
    }
    let mut both = Vec::new();
    merge(RowRef::checked(spent).unwrap(), RowRef::trusted(&later), &mut both);
    let seen =
        visible(RowRef::trusted(&both), Deletion::NONE, 20, &ColumnDrops::default(), &mut scratch)
            .unwrap();
    assert_eq!(seen.cells().map(|cell| cell.value).collect::<Vec<_>>(), [b"a"]);
}

#[test]
fn what_was_written_first_stays_with_the_row_whatever_comes_later() {
    let row = |at: i64, values: &[u8], timestamp: i64| {
        let mut out = Vec::new();
        let mut row = RowBuilder::begin(&mut out, &RowHead::bare(timestamp));
        row.written(Written { at, values });
        row.cell(&Cell::live(ColumnId(1), timestamp, b"v"));
        out
    };
    let (first, second) = (row(1, &[1, 7], 1), row(2, &[1, 6], 2));
    for (a, b) in [(&first, &second), (&second, &first)] {
        let mut both = Vec::new();
        merge(RowRef::trusted(a), RowRef::trusted(b), &mut both);
        let both = RowRef::checked(&both).expect("a row");
        assert_eq!(both.written(), Some(Written { at: 1, values: &[1, 7] }));
        assert_eq!(both.cells().next().map(|cell| cell.timestamp), Some(2));
        let (mut kept, mut scratch) = (Vec::new(), Vec::new());
        let covering = Deletion { timestamp: 0, local_s: 0 };
        for covering in [Deletion::NONE, covering] {
            let left = compact(both, covering, &Purge::NOTHING, &mut kept).expect("a live row");
            assert_eq!(left.written(), both.written());
        }
        let seen =
            visible(both, covering, 5, &ColumnDrops::default(), &mut scratch).expect("a live row");
        assert_eq!(seen.written(), both.written());
    }
    // The worked example of the format.
    assert_eq!(
        first,
        [16, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 7, 1, 0, 0, 1, b'v']
    );
    let mut damaged = first.clone();
    damaged[18] = 9;
    assert!(RowRef::checked(&damaged).is_err(), "a value longer than all values");
}

/// What a reader passes of a row: its dead cells, or its own deletion if that is all there is.
#[test]
fn tombstones_are_dead_cells_or_a_deleted_row_and_not_what_is_covered() {
    let deleted = |timestamp| Deletion { timestamp, local_s: 1 };
    let row = |head: RowHead, lives: &[(i64, Life)]| {
        let mut out = Vec::new();
        let mut row = RowBuilder::begin(&mut out, &head);
        for (id, &(timestamp, life)) in (1..).zip(lives) {
            let value: &[u8] = if life == Life::Live { b"v" } else { b"" };
            row.cell(&Cell { life, value, ..Cell::live(ColumnId(id), timestamp, b"") });
        }
        out
    };
    let (dead, expired) =
        (Life::Dead { local_s: 1 }, Life::Expiring(Expiry { ttl_s: 1, at_s: NOW_S }));
    let cells = row(RowHead::bare(5), &[(5, Life::Live), (5, dead), (6, expired)]);
    let gone = row(RowHead { deletion: deleted(7), ..RowHead::bare(7) }, &[]);
    let again = row(RowHead { deletion: deleted(7), ..RowHead::bare(8) }, &[(8, Life::Live)]);
    let live = row(RowHead::bare(5), &[(5, Life::Live)]);
    let counted = |row: &[u8], covering, gc_before_s| {
        let purge =
            Purge { now_s: NOW_S, gc_before_s, oldest_elsewhere: i64::MAX, ..Purge::NOTHING };
        tombstones(RowRef::trusted(row), covering, &purge)
    };
    // Past their grace: what is only waiting for a compaction counts for nothing.
    assert_eq!(counted(&cells, Deletion::NONE, 2), 1, "the expired cell was written later");
    assert_eq!(counted(&cells, Deletion::NONE, NOW_S), 0);
    assert_eq!([1, 2].map(|gc_before_s| counted(&gone, Deletion::NONE, gc_before_s)), [1, 0]);
    for (row, covering, count) in [
        (&cells, Deletion::NONE, 2),
        (&cells, deleted(5), 1),
        (&cells, deleted(6), 0),
        (&gone, Deletion::NONE, 1),
        (&gone, deleted(7), 0),
        (&again, Deletion::NONE, 0),
        (&live, Deletion::NONE, 0),
    ] {
        assert_eq!(counted(row, covering, 0), count, "{row:?}");
    }
}
