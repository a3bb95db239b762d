//! The nearest rows of a shard: the same as of all its rows measured one by one, whatever files they are in.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::cell::{Cell as Count, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use engine::io::{Disk, SimExec};
use engine::limits::{NEAREST_MEMORY_DIVISOR, nearest_candidate_bytes, nearest_rows_bytes};
use futures_lite::future::yield_now;
use messina_engine as engine;
use model::mutation::MutationBuilder;
use model::read::{FilterTarget, Flow, Nearest, PartitionRef, ReadCommand, RowSink};
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::schema::{Analysis, Index, IndexId, IndexKind, IndexTarget, Table, TableBuilder};
use model::types::Similarity;
use model::{CqlType, Token};

use crate::shard::{self, LATER_S, TABLE, config, make, on_sim, schema_of, select_all};

/// `CREATE TABLE t (k blob PRIMARY KEY, v vector<float, 2>)`, and an index of `v`.
fn table() -> Table {
    let vector = CqlType::Vector { element: CqlType::Float.into(), dimensions: 2 };
    let table = TableBuilder::new("ks", "t", TABLE)
        .partition_key("k", CqlType::Blob)
        .and_then(|t| t.regular("v", vector))
        .and_then(TableBuilder::build);
    let mut table = table.unwrap();
    let index = Index {
        id: IndexId(0),
        name: "t_v".into(),
        column: table.column("v").unwrap().id,
        target: IndexTarget::Value,
        kind: IndexKind::StorageAttached,
        class: Some("sai".into()),
        options: BTreeMap::new(),
        analysis: Analysis::NONE,
    };
    table.add_index(index).unwrap();
    table
}

fn bytes(vector: [f32; 2]) -> Vec<u8> {
    vector.iter().flat_map(|part| part.to_be_bytes()).collect()
}

/// A row with this vector, or without one.
fn record(table: &Table, key: u8, vector: Option<[f32; 2]>, timestamp: i64) -> Vec<u8> {
    let (mut out, column) = (Vec::new(), table.column("v").unwrap().id);
    let value = vector.map(bytes);
    let mut mutation = MutationBuilder::begin(&mut out, TABLE, Token::of_key(&[key]), &[key]);
    mutation.row(&[], |out| {
        let mut row = RowBuilder::begin(out, &RowHead::bare(timestamp));
        match &value {
            Some(value) => row.cell(&Cell::live(column, timestamp, value)),
            None => row.cell(&Cell::dead(column, timestamp, 1)),
        }
    });
    mutation.finish();
    out
}

#[derive(Default)]
struct Keys(Vec<u8>);

impl RowSink for Keys {
    fn row(&mut self, p: &PartitionRef<'_>, _: Option<&[u8]>, _: Option<RowRef<'_>>) -> Flow {
        self.0.push(p.key[0]);
        Flow::More
    }
}

/// The angle, as parts of a circle, that the vector of a key has in a round; `None` if it has none then.
fn turn(key: u8, round: u32) -> Option<u32> {
    let turn = (u32::from(key) * 37 + round * 101) % 1009;
    (!turn.is_multiple_of(5)).then_some(turn)
}

fn vector(turn: u32) -> [f32; 2] {
    let angle = turn as f32 * std::f32::consts::TAU / 1009.0;
    [angle.cos(), angle.sin()]
}

#[test]
fn the_nearest_rows_are_those_of_a_model() {
    on_sim(5, async |_, disk: Disk, exec: SimExec| {
        let table = table();
        make(&disk, &config(1)).await;
        let engine = shard::open(&disk, &exec, config(2), &schema_of([table.clone()])).await;
        let mut model: BTreeMap<u8, Option<u32>> = BTreeMap::new();
        for round in 0..4u32 {
            for key in (0..200u8).filter(|key| round == 0 || u32::from(*key) % 3 == round % 3) {
                let turn = turn(key, round);
                let written = record(&table, key, turn.map(vector), i64::from(round) + 1);
                shard::write(&engine, &written).await.unwrap();
                model.insert(key, turn);
            }
            if round < 3 {
                shard::flush(&engine).await;
            }
            for (wanted, rows) in [(3, 1), (500, 7), (1000, 150), (250, 1000)] {
                let nearest = Nearest {
                    index: IndexId(0),
                    target: FilterTarget::Value(table.column("v").unwrap().id),
                    similarity: Similarity::Cosine,
                    vector: bytes(vector(wanted)).into(),
                    rows,
                };
                let command = ReadCommand { nearest: Some(nearest), ..select_all(LATER_S) };
                let mut found = Keys::default();
                let end = engine.read(&command, &mut found, yield_now).await.unwrap();
                assert_eq!((end.rows as usize, end.more), (found.0.len(), None));
                let away = |turn: u32| {
                    let apart = turn.abs_diff(wanted);
                    apart.min(1009 - apart)
                };
                let mut all: Vec<u32> = model.values().flatten().map(|turn| away(*turn)).collect();
                all.sort_unstable();
                all.truncate(rows);
                let turns: Vec<u32> =
                    found.0.iter().map(|key| away(model[key].expect("it has a vector"))).collect();
                // What is as far to the other side is as near, but for the last bit.
                assert_eq!(turns, all, "round {round}, {rows} nearest to {wanted}");
            }
        }
    });
}

/// Before: eight searches were made at a time, each of which may take tens of mebibytes, however small the shard was;
/// and all that waited were woken when one ended.
#[test]
fn searches_at_once_take_a_part_of_the_memory_and_all_are_answered() {
    const SEARCHES: usize = 40;
    let memory_bytes = 64 << 20;
    let bytes = nearest_rows_bytes(memory_bytes) + nearest_candidate_bytes(memory_bytes);
    let most = (memory_bytes / NEAREST_MEMORY_DIVISOR / (2 * bytes)).max(1);
    on_sim(6, async move |_, disk: Disk, exec: SimExec| {
        let table = table();
        let config = |seed| engine::Config { memory_bytes, ..config(seed) };
        make(&disk, &config(1)).await;
        let engine = shard::open(&disk, &exec, config(2), &schema_of([table.clone()])).await;
        for key in 0..200u8 {
            let written = record(&table, key, Some(vector(key.into())), 1);
            shard::write(&engine, &written).await.unwrap();
        }
        let (under_way, largest) =
            (Rc::<RefCell<BTreeSet<usize>>>::default(), Rc::new(Count::new(0)));
        let done = Rc::new(Count::new(0));
        for number in 0..SEARCHES {
            let (under_way, largest) = (under_way.clone(), largest.clone());
            let (engine, done, column) =
                (engine.clone(), done.clone(), table.column("v").unwrap().id);
            exec.spawn(async move {
                let nearest = Nearest {
                    index: IndexId(0),
                    target: FilterTarget::Value(column),
                    similarity: Similarity::Cosine,
                    vector: bytes_of(number).into(),
                    rows: 3,
                };
                let command = ReadCommand { nearest: Some(nearest), ..select_all(LATER_S) };
                let pause = async || {
                    under_way.borrow_mut().insert(number);
                    largest.set(largest.get().max(under_way.borrow().len()));
                    yield_now().await;
                };
                let mut found = Keys::default();
                engine.read(&command, &mut found, pause).await.unwrap();
                assert_eq!(found.0[0], number as u8);
                under_way.borrow_mut().remove(&number);
                done.set(done.get() + 1);
            });
        }
        while done.get() < SEARCHES {
            yield_now().await;
        }
        assert_eq!((largest.get(), engine.stats().search_bytes), (most, 0));
    });
}

fn bytes_of(number: usize) -> Vec<u8> {
    bytes(vector(number as u32))
}
