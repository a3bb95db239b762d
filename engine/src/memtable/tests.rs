//! A memtable says what a naive list of everything ever inserted says.
//!
//! 1. Mutations are drawn: rows, row tombstones, static rows, range tombstones and partition tombstones, with
//!    timestamps in any order.
//! 2. `Naive` keeps all of them and merges rows with the product's `merge`; what covers a row is the newest of all
//!    tombstones over its place.
//! 3. Reads in slices, in both directions, by key and by row must agree. Rows that a tombstone covers wholly may still
//!    be in the memtable, and are not compared.
//!
//! The order of inserts, and inserting twice, must make no difference. Tests after that are about memory: what rows in
//! place, growing rows and rows in parts cost.
//!
//! Not here: long deleted stretches (`covered.rs`), changes while a cursor stands (`cursor.rs`), what is read beside files (`read/tests.rs` and `engine/tests`).

mod covered;
mod cursor;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use futures_lite::future::block_on;
use model::mutation::MutationBuilder;
use model::row::{Cell, RowBuilder, RowHead};
use model::{ColumnId, TableId, TokenRange};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::cursor::{Cursor, Fragment, Scope, Slice, Span};
use crate::limits::ARENA_CHUNK_BYTES_MAX;

/// One change to one partition.
#[derive(Clone, Debug)]
enum Change {
    Row { clustering: u8, column: u16, timestamp: i64, bytes: usize },
    DeleteRow { clustering: u8, timestamp: i64 },
    Static { timestamp: i64 },
    Range { start: u8, end: u8, timestamp: i64 },
    Partition { timestamp: i64 },
}

type Step = (u8, Vec<Change>);

fn any_change() -> impl Strategy<Value = Change> {
    let time = 1..30i64;
    prop_oneof![
        8 => (0..80u8, 0..3u16, time.clone(), 0..40usize).prop_map(
            |(clustering, column, timestamp, bytes)| Change::Row { clustering, column, timestamp, bytes }
        ),
        1 => (0..80u8, time.clone())
            .prop_map(|(clustering, timestamp)| Change::DeleteRow { clustering, timestamp }),
        1 => time.clone().prop_map(|timestamp| Change::Static { timestamp }),
        2 => (0..80u8, 0..81u8, time.clone())
            .prop_map(|(start, end, timestamp)| Change::Range { start, end, timestamp }),
        1 => time.prop_map(|timestamp| Change::Partition { timestamp: timestamp / 3 + 1 }),
    ]
}

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0..4u8, prop::collection::vec(any_change(), 1..5)), 0..60)
}

fn deletion(timestamp: i64) -> Deletion {
    Deletion { timestamp, local_s: 1 }
}

fn row_bytes(head: &RowHead, cell: Option<(u16, usize)>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut row = RowBuilder::begin(&mut out, head);
    if let Some((column, bytes)) = cell {
        row.cell(&Cell::live(ColumnId(column), head.timestamp, &vec![7; bytes]));
    }
    out
}

fn encoded(change: &Change) -> Option<(Option<u8>, Vec<u8>)> {
    match *change {
        Change::Row { clustering, column, timestamp, bytes } => {
            Some((Some(clustering), row_bytes(&RowHead::bare(timestamp), Some((column, bytes)))))
        }
        Change::DeleteRow { clustering, timestamp } => {
            let head = RowHead { timestamp, marker: None, deletion: deletion(timestamp) };
            Some((Some(clustering), row_bytes(&head, None)))
        }
        Change::Static { timestamp } => {
            Some((None, row_bytes(&RowHead::bare(timestamp), Some((9, 3)))))
        }
        Change::Range { .. } | Change::Partition { .. } => None,
    }
}

fn token(key: u8) -> Token {
    // Two keys share a token.
    Token(i64::from(key) / 2)
}

fn insert(memtable: &mut Memtable, (key, changes): &Step) {
    let mut record = Vec::new();
    let table = TableId(Uuid::nil());
    let mut m = MutationBuilder::begin(&mut record, table, token(*key), &[*key]);
    let rank = |change: &Change| match change {
        Change::Partition { .. } => 0,
        Change::Static { .. } => 1,
        Change::Range { .. } => 2,
        _ => 3,
    };
    let mut seen = [false; 2];
    let mut changes: Vec<&Change> = changes.iter().collect();
    changes.sort_by_key(|change| rank(change));
    for change in changes {
        match change {
            Change::Partition { timestamp } => {
                if !std::mem::replace(&mut seen[0], true) {
                    m.delete_partition(deletion(*timestamp));
                }
            }
            Change::Range { start, end, timestamp } => m.delete_range(&RangeTombstone {
                start: &[*start],
                end: &[*end],
                deletion: deletion(*timestamp),
            }),
            change => match encoded(change).expect("a row or a static row") {
                (Some(clustering), row) => {
                    m.row(&[clustering], |out| out.extend_from_slice(&row));
                }
                (None, row) => {
                    if !std::mem::replace(&mut seen[1], true) {
                        m.static_row(|out| out.extend_from_slice(&row));
                    }
                }
            },
        }
    }
    m.finish();
    let mutation = MutationRef::of_record(&record).next().expect("one").expect("well-formed");
    memtable.insert(&mutation);
}

/// Everything that was ever said about a partition.
#[derive(Clone, Default)]
struct Naive {
    deletion: i64,
    stat: Vec<u8>,
    rows: BTreeMap<u8, Vec<u8>>,
    ranges: Vec<(u8, u8, i64)>,
}

fn join(all: &mut Vec<u8>, row: &[u8]) {
    if all.is_empty() {
        all.extend_from_slice(row);
        return;
    }
    let mut out = Vec::new();
    merge(RowRef::trusted(all), RowRef::trusted(row), &mut out);
    *all = out;
}

fn naive(steps: &[Step]) -> BTreeMap<u8, Naive> {
    let mut all: BTreeMap<u8, Naive> = BTreeMap::new();
    for (key, changes) in steps {
        let partition = all.entry(*key).or_default();
        let mut seen = [false; 2];
        for change in changes {
            match change {
                Change::Partition { timestamp } => {
                    if !std::mem::replace(&mut seen[0], true) {
                        partition.deletion = partition.deletion.max(*timestamp);
                    }
                }
                Change::Range { start, end, timestamp } => {
                    partition.ranges.push((*start, *end, *timestamp));
                }
                change => match encoded(change).expect("a row or a static row") {
                    (Some(clustering), row) => {
                        join(partition.rows.entry(clustering).or_default(), &row);
                    }
                    (None, row) => {
                        if !std::mem::replace(&mut seen[1], true) {
                            join(&mut partition.stat, &row);
                        }
                    }
                },
            }
        }
    }
    all
}

fn of(timestamp: i64) -> Deletion {
    if timestamp == 0 { Deletion::NONE } else { deletion(timestamp) }
}

fn seen(row: &[u8], covering: Deletion) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let row = (!row.is_empty()).then(|| RowRef::trusted(row))?;
    compact(row, covering, &Purge::NOTHING, &mut out).map(|left| left.bytes().to_vec())
}

type Seen = Vec<(u8, Option<Vec<u8>>, Vec<(u8, Deletion, Option<Vec<u8>>)>)>;

/// Rows in the slices, each with what covers it and what is left of it.
fn expected(all: &BTreeMap<u8, Naive>, slices: &[(u8, u8)], reversed: bool) -> Seen {
    let partition = |(key, p): (&u8, &Naive)| {
        let inside = |at: &u8| slices.iter().any(|(start, end)| start <= at && at < end);
        let rows = p.rows.iter().filter(|(at, _)| inside(at)).map(|(&at, row)| {
            let ranges = p.ranges.iter().filter(|r| r.0 <= at && at < r.1);
            let covering = of(ranges.map(|r| r.2).max().unwrap_or_default()).max(of(p.deletion));
            (at, covering, seen(row, covering))
        });
        let mut rows: Vec<_> = rows.filter(|(_, _, row)| row.is_some()).collect();
        if reversed {
            rows.reverse();
        }
        (*key, seen(&p.stat, of(p.deletion)), rows)
    };
    all.iter().map(partition).collect()
}

fn read(memtable: &Rc<RefCell<Memtable>>, span: Span<'_>) -> Seen {
    let mut cursor = MemtableCursor::new(memtable.clone(), span);
    block_on(async {
        let mut all = Vec::new();
        while cursor.next_partition().await.unwrap() {
            let head = cursor.head();
            let (key, deletion) = (head.key[0], head.deletion);
            let stat = head.static_row.and_then(|row| seen(row.bytes(), deletion));
            let (mut rows, mut in_force) = (Vec::new(), Deletion::NONE);
            while cursor.next().await.unwrap() {
                match cursor.fragment() {
                    Fragment::Row { clustering, row } => {
                        let covering = deletion.max(in_force);
                        let row = seen(row.bytes(), covering);
                        rows.push((clustering[0], covering, row));
                    }
                    Fragment::Change { deletion, .. } => in_force = deletion,
                }
            }
            assert!(in_force.is_none(), "what was opened is closed");
            // Rows that a wide tombstone was too busy to take out may be left.
            rows.retain(|(_, _, row)| row.is_some());
            all.push((key, stat, rows));
        }
        all
    })
}

fn slices_of(borders: &[(u8, u8)]) -> Vec<Slice> {
    borders.iter().map(|&(start, end)| Slice { start: vec![start], end: vec![end] }).collect()
}

proptest! {
    #[test]
    fn says_what_a_list_of_everything_says(
        steps in any_steps(),
        borders in prop::collection::btree_set(0..81u8, 2..6),
        reversed: bool,
    ) {
        let memtable = Rc::new(RefCell::new(Memtable::default()));
        for step in &steps {
            insert(&mut memtable.borrow_mut(), step);
        }
        let all = naive(&steps);
        let borders: Vec<u8> = borders.into_iter().collect();
        let borders: Vec<(u8, u8)> = borders.chunks_exact(2).map(|b| (b[0], b[1])).collect();
        let slices = slices_of(&borders);
        let scope = Scope::Range(TokenRange::ALL);
        let span = Span { scope, slices: &slices, reversed };
        prop_assert_eq!(read(&memtable, span), expected(&all, &borders, reversed));
        // The same by key, and by row.
        for (key, said) in expected(&all, &[(0, 81)], false).into_iter().map(|p| (p.0, p)) {
            let slices = [Slice::all()];
            let scope = Scope::Key(token(key), &[key]);
            prop_assert_eq!(read(&memtable, Span { scope, slices: &slices, reversed: false }), vec![said.clone()]);
            let memtable = memtable.borrow();
            let view = memtable.get(token(key), &[key]).expect("it is there");
            for (at, covering, row) in said.2 {
                prop_assert_eq!(view.covering(&[at]), covering);
                let mut stored = Vec::new();
                unite(&mut stored, view.parts(Some(&[at])), &mut Vec::new());
                prop_assert_eq!(seen(&stored, covering), row);
                prop_assert!(view.bound(Some(&[at])).bytes >= stored.len() as u64);
                prop_assert!(view.bound(Some(&[at])).cells >= cells_of(RowRef::trusted(&stored)));
            }
        }
    }

    #[test]
    fn the_order_of_inserts_does_not_matter(steps in any_steps()) {
        let (mut one, mut other) = (Memtable::default(), Memtable::default());
        for step in &steps {
            insert(&mut one, step);
            // Twice is once.
            insert(&mut one, step);
        }
        for step in steps.iter().rev() {
            insert(&mut other, step);
        }
        let (one, other) = (Rc::new(RefCell::new(one)), Rc::new(RefCell::new(other)));
        let slices = [Slice::all()];
        let span = Span { scope: Scope::Range(TokenRange::ALL), slices: &slices, reversed: false };
        prop_assert_eq!(read(&one, span), read(&other, span));
    }
}

fn row(clustering: u8, timestamp: i64) -> Change {
    Change::Row { clustering, column: 1, timestamp, bytes: 10 }
}

#[test]
fn updating_the_same_rows_does_not_grow_it() {
    let mut memtable = Memtable::default();
    let update = |memtable: &mut Memtable, timestamp| {
        for key in 0..100 {
            let rows = (0..10).map(|clustering| row(clustering, timestamp)).collect();
            insert(memtable, &(key, rows));
        }
    };
    update(&mut memtable, 1);
    let bytes = memtable.bytes();
    (2..50).for_each(|timestamp| update(&mut memtable, timestamp));
    assert_eq!(memtable.bytes(), bytes);
    assert_eq!(
        (memtable.row_count(), memtable.oldest(), memtable.newest()),
        (1000, Some(1), Some(49))
    );
}

#[test]
fn a_growing_row_is_copied_only_every_so_often() {
    let mut memtable = Memtable::default();
    for i in 0..1000 {
        let change = Change::Row { clustering: 1, column: i, timestamp: 1, bytes: 8 };
        insert(&mut memtable, &(1, vec![change]));
    }
    // 1000 cells of about 12 bytes. Copied each time this would be six megabytes.
    assert!(memtable.bytes() < 200_000, "{}", memtable.bytes());
}

/// Before: freed at once, a large memtable kept the core for 100 ms.
#[test]
fn memory_is_given_back_with_pauses() {
    let mut memtable = Memtable::default();
    (0..250).for_each(|key| insert(&mut memtable, &(key, (0..80).map(|at| row(at, 1)).collect())));
    let mut record = Vec::new();
    for token in 0..20_000i64 {
        record.clear();
        let mut m = MutationBuilder::begin(&mut record, TableId(Uuid::nil()), Token(token), b"k");
        m.row(&[], |out| out.extend_from_slice(&row_bytes(&RowHead::bare(1), Some((1, 200)))));
        m.finish();
        memtable.insert(&MutationRef::of_record(&record).next().unwrap().unwrap());
    }
    let pauses = std::cell::Cell::new(0);
    let chunks = memtable.bytes() / ARENA_CHUNK_BYTES_MAX;
    block_on(memtable.free(&async || pauses.set(pauses.get() + 1)));
    assert!(pauses.get() > 20_000 / SLAB_PARTITIONS + chunks / 2, "{} pauses", pauses.get());
}

/// Before: a write that was newer than the rest of a row made it up to eight bytes a cell larger than its bound.
#[test]
fn a_row_is_no_larger_than_its_bound_when_its_cells_get_timestamps_of_their_own() {
    let cell = |column, timestamp, bytes| Change::Row { clustering: 63, column, timestamp, bytes };
    let memtable = &mut Memtable::default();
    for change in [cell(1, 13, 25), cell(0, 13, 11), cell(2, 14, 0)] {
        insert(memtable, &(2, vec![change]));
    }
    let view = memtable.get(token(2), &[2]).expect("it is there");
    let mut whole = Vec::new();
    unite(&mut whole, view.parts(Some(&[63])), &mut Vec::new());
    let bound = view.bound(Some(&[63])).bytes;
    assert!(bound >= whole.len() as u64, "{bound} for {} bytes", whole.len());
}

/// One element after the other appended to a map: each used to cost the whole row, 5 GB for these.
#[test]
fn an_element_costs_the_element_and_not_the_row() {
    const ELEMENTS: u32 = 30_000;
    let mut memtable = Memtable::default();
    let (mut record, table) = (Vec::new(), TableId(Uuid::nil()));
    let element = |path: &[u8], value: &[u8], out: &mut Vec<u8>| {
        let mut row = RowBuilder::begin(out, &RowHead::bare(7));
        row.cell(&Cell { path: Some(path), ..Cell::live(ColumnId(1), 7, value) });
    };
    for i in 0..ELEMENTS {
        record.clear();
        // In no order.
        let path = i.wrapping_mul(0x9E37_79B9).to_be_bytes();
        let mut m = MutationBuilder::begin(&mut record, table, Token(1), b"k");
        if i < ELEMENTS / 50 {
            m.static_row(|out| element(&path, &path, out));
        }
        m.row(b"@c", |out| element(&path, &path, out));
        m.finish();
        let mutation = MutationRef::of_record(&record).next().unwrap().unwrap();
        memtable.insert(&mutation);
    }
    let row_bytes = memtable.largest_row() as u64;
    assert!(row_bytes > u64::from(ELEMENTS) * 8);
    // Some 4 for the bases, of which each is a quarter longer than the last, and 15 for the parts.
    let parts = &memtable.slabs[0][0].rare.as_ref().unwrap().parts;
    let merged = (memtable.merged_bytes + parts.merged_bytes) / row_bytes;
    assert!(merged < 30, "each byte was merged {merged} times");
    assert!(memtable.bytes() < row_bytes as usize * 8, "{} of {row_bytes}", memtable.bytes());
    let view = memtable.get(Token(1), b"k").unwrap();
    for (at, elements) in [(None, ELEMENTS / 50), (Some(&b"@c"[..]), ELEMENTS)] {
        let mut whole = Vec::new();
        unite(&mut whole, view.parts(at), &mut Vec::new());
        assert_eq!(cells_of(RowRef::trusted(&whole)), u64::from(elements));
        assert!(view.parts(at).count() < 20);
        let bound = view.bound(at);
        assert!(bound.cells <= u64::from(elements) * 5 / 4 && bound.bytes >= whole.len() as u64);
    }
}
