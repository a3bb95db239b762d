//! What an index may take while its files are made: of a row with many elements, and of long vectors. Answers do not
//! depend on it.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::collections::BTreeMap;

use engine::io::{Disk, SimExec};
use engine::layout;
use engine::limits::{
    INDEX_ROW_TERMS_BYTES_MAX, INDEX_TERM_OVERHEAD_BYTES, VECTOR_FILE_DIMENSIONS_MAX,
    VECTOR_FILE_ROWS_MIN,
};
use engine::{Config, commitlog};
use futures_lite::future::yield_now;
use messina_engine as engine;
use model::mutation::MutationBuilder;
use model::read::{Filter, FilterTarget, Flow, Operator, PartitionRef, ReadCommand, RowSink};
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::schema::{Analysis, Index, IndexId, IndexKind, IndexTarget, Table, TableBuilder};
use model::{CqlType, Token};

use crate::shard::{self, LATER_S, TABLE, config, make, on_sim, run_jobs, schema_of, select_all};

/// `CREATE TABLE t (k blob PRIMARY KEY, v ..)`, and an index of `v`.
fn table(ty: CqlType, target: IndexTarget) -> Table {
    let table = TableBuilder::new("ks", "t", TABLE)
        .partition_key("k", CqlType::Blob)
        .and_then(|t| t.regular("v", ty))
        .and_then(TableBuilder::build);
    let mut table = table.unwrap();
    let index = Index {
        id: IndexId(0),
        name: "t_v".into(),
        column: table.column("v").unwrap().id,
        target,
        kind: IndexKind::StorageAttached,
        class: Some("sai".into()),
        options: BTreeMap::new(),
        analysis: Analysis::NONE,
    };
    table.add_index(index).unwrap();
    table
}

fn record(key: u32, fill: impl FnOnce(&mut RowBuilder<'_>)) -> Vec<u8> {
    let (key, mut out) = (key.to_be_bytes(), Vec::new());
    let mut mutation = MutationBuilder::begin(&mut out, TABLE, Token::of_key(&key), &key);
    mutation.row(&[], |out| fill(&mut RowBuilder::begin(out, &RowHead::bare(1))));
    mutation.finish();
    out
}

fn large(seed: u64) -> Config {
    let log = commitlog::Config { segment_bytes: 8 << 20, ..commitlog::Config::new(seed) };
    Config { memory_bytes: 64 << 20, log, ..config(seed) }
}

#[derive(Default)]
struct Keys(Vec<Vec<u8>>);

impl RowSink for Keys {
    fn row(&mut self, p: &PartitionRef<'_>, _: Option<&[u8]>, _: Option<RowRef<'_>>) -> Flow {
        self.0.push(p.key.to_vec());
        Flow::More
    }
}

/// The rows whose set has a number.
fn select(table: &Table, number: i32) -> ReadCommand {
    let (column, values) = (table.column("v").unwrap().id, vec![number.to_be_bytes().into()]);
    let values: Vec<Box<[u8]>> = values;
    let lookup = table.indexes()[0].lookup(table, Operator::Contains, &values).unwrap().unwrap();
    let target = FilterTarget::Value(column);
    let filter = Filter::new(target, Operator::Contains, values, Analysis::NONE);
    ReadCommand { filters: vec![filter], lookups: vec![lookup], ..select_all(LATER_S) }
}

/// Before: all terms of a row were in memory and sorted in one step, some 100 MiB of a collection that a shard of
/// 128 MiB may have.
#[test]
fn a_row_of_too_many_elements_gets_no_index_file_and_is_found() {
    on_sim(61, async |_, disk: Disk, exec: SimExec| {
        let set = CqlType::Set { element: CqlType::Int.into(), frozen: false };
        let table = table(set, IndexTarget::Values);
        make(&disk, &large(1)).await;
        let engine = shard::open(&disk, &exec, large(2), &schema_of([table.clone()])).await;
        let column = table.column("v").unwrap().id;
        let of_element = INDEX_TERM_OVERHEAD_BYTES + 4;
        for (key, elements, unfit) in
            [(1, 100, 0), (2, INDEX_ROW_TERMS_BYTES_MAX / of_element + 1, 1)]
        {
            let mut paths = Vec::new();
            for number in 0..elements as i32 {
                let mut path = Vec::new();
                model::ordered::encode(&CqlType::Int, &number.to_be_bytes(), &mut path).unwrap();
                paths.push(path);
            }
            let record = record(key, |row| {
                for path in &paths {
                    row.cell(&Cell { path: Some(path), ..Cell::live(column, 1, &[]) });
                }
            });
            shard::write(&engine, &record).await.unwrap();
            shard::flush(&engine).await;
            run_jobs(&engine, 1).await;
            let progress = engine.index_progress().remove(0);
            assert_eq!(progress.files_unfit, unfit, "{elements} elements");
            assert!(progress.is_built());
            for number in [7, elements as i32 - 1, elements as i32] {
                let mut found = Keys::default();
                engine.read(&select(&table, number), &mut found, yield_now).await.unwrap();
                let mut all = Keys::default();
                let scan = ReadCommand { lookups: Vec::new(), ..select(&table, number) };
                engine.read(&scan, &mut all, yield_now).await.unwrap();
                assert_eq!(found.0, all.0, "{number}");
                assert_eq!(all.0.is_empty(), number == elements as i32);
            }
        }
    });
}

/// Before: each vector of a megabyte was a run of the sort by itself, and sixteen runs were in memory at once.
#[test]
fn an_index_of_long_vectors_gets_no_file() {
    for (dimensions, files) in [(64, 1), (VECTOR_FILE_DIMENSIONS_MAX + 1, 0)] {
        on_sim(62, async move |sim, disk: Disk, exec: SimExec| {
            let ty = CqlType::Vector { element: CqlType::Float.into(), dimensions };
            let table = table(ty, IndexTarget::Value);
            make(&disk, &large(1)).await;
            let engine = shard::open(&disk, &exec, large(2), &schema_of([table.clone()])).await;
            let column = table.column("v").unwrap().id;
            for key in 0..VECTOR_FILE_ROWS_MIN as u32 {
                let dimensions = if key < 4 { dimensions } else { 0 };
                let vector = (0..dimensions).flat_map(|at| ((at + key) as f32).to_be_bytes());
                let vector: Vec<u8> = vector.collect();
                let record = record(key, |row| match vector.is_empty() {
                    false => row.cell(&Cell::live(column, 1, &vector)),
                    true => row.cell(&Cell::dead(column, 1, 1)),
                });
                shard::write(&engine, &record).await.unwrap();
            }
            shard::flush(&engine).await;
            run_jobs(&engine, 1).await;
            let all = sim.files_of(&layout::table_dir(TABLE.0)).into_iter();
            let made = all.filter(|file| file.name().ends_with(".idx")).count();
            assert_eq!(made, files, "{dimensions} dimensions");
        });
    }
}
