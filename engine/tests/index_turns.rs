//! Which index files are made first: one table keeps no other waiting, and nothing is made for what goes.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::cell::Cell as Slot;
use std::collections::BTreeMap;

use engine::{Engine, Job, JobKind};
use futures_lite::future::{yield_now, zip};
use messina_engine as engine;
use model::mutation::MutationBuilder;
use model::row::{Cell, RowBuilder, RowHead};
use model::schema::{Analysis, Index, IndexId, IndexKind, IndexTarget, Table, TableBuilder};
use model::{CqlType, TableId, Token};
use uuid::Uuid;

use crate::shard::{self, LATER_S, TABLE, config, on_shard, schema_of};

/// A table behind [`TABLE`] in the order of their ids.
const OTHER: TableId = TableId(Uuid::max());
/// Rows of an sstable that gets a file of vectors.
const ROWS: u32 = 4096;

fn index(table: &Table, column: &str, class: Option<&str>) -> Index {
    Index {
        id: IndexId(0),
        name: format!("{}_{column}", table.name),
        column: table.column(column).unwrap().id,
        target: IndexTarget::Value,
        kind: class.map_or(IndexKind::Plain, |_| IndexKind::StorageAttached),
        class: class.map(str::to_owned),
        options: BTreeMap::new(),
        analysis: Analysis::NONE,
    }
}

/// `CREATE TABLE .. (k blob PRIMARY KEY, x int, v vector<float, 2>)` with an index of `v`.
fn table(name: &str, id: TableId) -> Table {
    let vector = CqlType::Vector { element: CqlType::Float.into(), dimensions: 2 };
    let table = TableBuilder::new("ks", name, id)
        .partition_key("k", CqlType::Blob)
        .and_then(|t| t.regular("x", CqlType::Int))
        .and_then(|t| t.regular("v", vector))
        .and_then(TableBuilder::build);
    let mut table = table.unwrap();
    table.add_index(index(&table, "v", Some("sai"))).unwrap();
    table
}

/// An sstable of a table.
async fn write_file(engine: &Engine, table: &Table, timestamp: i64) {
    let id = |name| table.column(name).unwrap().id;
    let mut record = Vec::new();
    for key in 0..ROWS {
        let name = key.to_be_bytes();
        let token = Token::of_key(&name);
        let mut mutation = MutationBuilder::begin(&mut record, table.id, token, &name);
        let vector = [1.0, key as f32].map(f32::to_be_bytes).concat();
        mutation.row(&[], |out| {
            let mut row = RowBuilder::begin(out, &RowHead::bare(timestamp));
            row.cell(&Cell::live(id("x"), timestamp, &name));
            row.cell(&Cell::live(id("v"), timestamp, &vector));
        });
        mutation.finish();
        if key % 256 == 255 {
            shard::write(engine, &std::mem::take(&mut record)).await.unwrap();
        }
    }
    shard::flush(engine).await;
}

fn large() -> engine::Config {
    let mut config = config(5);
    (config.memory_bytes, config.log.segment_bytes) = (64 << 20, 4 << 20);
    config
}

/// Before: the first table of all was always taken, and in it the newest file, so that one that is written all the time
/// and lacks files of vectors kept others and their indexes of terms waiting.
#[test]
fn terms_come_before_vectors_and_tables_take_turns() {
    let (one, mut other) = (table("one", TABLE), table("other", OTHER));
    on_shard(large(), schema_of([one.clone(), other.clone()]), async move |engine, _, _| {
        // What a start looks for.
        shard::run_jobs(&engine, LATER_S).await;
        for timestamp in [1, 2] {
            write_file(&engine, &one, timestamp).await;
            write_file(&engine, &other, timestamp).await;
        }
        other.add_index(index(&other, "x", None)).unwrap();
        engine.set_schema(&schema_of([one.clone(), other.clone()]));
        let mut made = Vec::new();
        while let Some(job) = engine.next_job_of(JobKind::Index, LATER_S) {
            let Job::Index(table) = job else { panic!("{job:?}") };
            made.push((table, engine.stats().indexes_built));
            engine.run(job, LATER_S, yield_now).await.unwrap();
        }
        let tables: Vec<TableId> = made.iter().map(|(table, _)| *table).collect();
        assert_eq!(tables, [OTHER, OTHER, TABLE, OTHER, TABLE, OTHER], "two of terms first");
        let of_terms = |id| engine.index_progress().iter().any(|p| p.table == id && p.is_built());
        assert!(of_terms(OTHER));
    });
}

/// Before: a file of vectors was made to its end beside an sstable that was merged meanwhile, and thrown away.
#[test]
fn no_file_of_vectors_is_made_of_what_is_being_merged() {
    let one = table("one", TABLE);
    on_shard(large(), schema_of([one.clone()]), async move |engine, _, _| {
        shard::run_jobs(&engine, LATER_S).await;
        write_file(&engine, &one, 1).await;
        write_file(&engine, &one, 2).await;
        let pauses = Slot::new(0);
        let pause = async || {
            pauses.set(pauses.get() + 1);
            yield_now().await;
        };
        let job = engine.next_job_of(JobKind::Index, LATER_S).unwrap();
        let merge = shard::merge_whole(&engine, LATER_S);
        let (made, ()) = zip(engine.run(job, LATER_S, pause), merge).await;
        made.unwrap();
        assert!(pauses.get() < 10, "{} pauses", pauses.get());
        shard::run_jobs(&engine, LATER_S).await;
        assert_eq!(engine.stats().indexes_built, 1, "of what was merged");
    });
}
