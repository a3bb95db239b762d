//! The memory of lookups: what they read of many files side by side, and their turns beside scans.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use engine::io::{Disk, Rng, SimDisk, SimExec};
use engine::limits::{
    LOOKUP_AHEAD_BYTES, LOOKUP_FILES_AHEAD, SCAN_BYTES, SCAN_MEMORY_DIVISOR, lane_read_bytes,
};
use engine::{Config, Engine, LookupPolicy, commitlog};
use futures_lite::future::yield_now;
use messina_engine as engine;
use model::limits::CHUNK_BYTES_MAX;
use model::mutation::MutationBuilder;
use model::options::{Compression, TableOptions};
use model::read::{Filter, FilterTarget, Flow, Operator, PartitionRef, ReadCommand, RowSink};
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::schema::{Analysis, Table, TableBuilder};
use model::{CqlType, Token};

use crate::shard::{
    LATER_S, TABLE, config, flush, index_of, on_shard, schema_of, select_all, write,
};

const FILES: u64 = 24;
/// Scans, which ask for more turns than there are.
const SCANS: u64 = 64;

/// `CREATE TABLE t (k blob PRIMARY KEY, v int, w blob)` without compression, and an index of `v`.
fn table() -> Table {
    let none = BTreeMap::from([("enabled".to_owned(), "false".to_owned())]);
    let compression = Compression::parse(&none).unwrap();
    let mut table = TableBuilder::new("ks", "t", TABLE)
        .options(TableOptions { compression, ..TableOptions::default() })
        .partition_key("k", CqlType::Blob)
        .and_then(|table| table.regular("v", CqlType::Int))
        .and_then(|table| table.regular("w", CqlType::Blob))
        .and_then(TableBuilder::build)
        .unwrap();
    let index = index_of(&table, "v");
    table.add_index(index).unwrap();
    table
}

/// A row whose `v` is 5.
fn record(table: &Table, key: u64, long: &[u8]) -> Vec<u8> {
    let (key, mut out) = (key.to_be_bytes(), Vec::new());
    let id = |name| table.column(name).unwrap().id;
    let mut mutation = MutationBuilder::begin(&mut out, TABLE, Token::of_key(&key), &key);
    mutation.row(&[], |out| {
        let mut row = RowBuilder::begin(out, &RowHead::bare(1));
        row.cell(&Cell::live(id("v"), 1, &5i32.to_be_bytes()));
        row.cell(&Cell::live(id("w"), 1, long));
    });
    mutation.finish();
    out
}

/// `SELECT * FROM t WHERE v = 5`.
fn select(table: &Table) -> ReadCommand {
    let (index, operator) = (&table.indexes()[0], Operator::Equal);
    let values: Vec<Box<[u8]>> = vec![5i32.to_be_bytes().into()];
    let lookup = index.lookup(table, operator, &values).unwrap().unwrap();
    let (target, analysis) = (FilterTarget::Value(index.column), Analysis::NONE);
    let filters = vec![Filter::new(target, operator, values, analysis)];
    ReadCommand { filters, lookups: vec![lookup], ..select_all(LATER_S) }
}

/// Counts rows, and what the disk had done when the first came.
struct Count {
    sim: SimDisk,
    rows: u64,
    ops_at_first: u64,
}

impl Count {
    fn new(sim: &SimDisk) -> Count {
        Count { sim: sim.clone(), rows: 0, ops_at_first: 0 }
    }
}

impl RowSink for Count {
    fn row(&mut self, _: &PartitionRef<'_>, _: Option<&[u8]>, _: Option<RowRef<'_>>) -> Flow {
        if self.rows == 0 {
            self.ops_at_first = self.sim.ops();
        }
        self.rows += 1;
        Flow::More
    }
}

/// Writes and flushes one file after the other, with a row of so many bytes each.
async fn write_files(engine: &Engine, table: &Table, row_bytes: usize) {
    let (mut rng, mut long) = (Rng::new(5), vec![0; row_bytes]);
    for key in 0..FILES {
        long.fill_with(|| rng.below(256) as u8);
        write(engine, &record(table, key, &long)).await.unwrap();
        flush(engine).await;
    }
    engine.set_lookup_policy(LookupPolicy::Always);
}

/// Operations of the disk until the first row comes of a lookup in files with a row of so many bytes each.
fn check_ops_until_a_row(row_bytes: usize, is_right: fn(u64) -> bool) {
    let table = table();
    let log = commitlog::Config { segment_bytes: 4 << 20, ..commitlog::Config::new(5) };
    let config = Config { memory_bytes: 32 << 20, log, ..config(5) };
    on_shard(config, schema_of([table.clone()]), async move |engine, disk, _| {
        let Disk::Sim(sim) = disk else { panic!("a simulated disk") };
        write_files(&engine, &table, row_bytes).await;
        let mut rows = Count::new(&sim);
        let before = sim.ops();
        let pause = async || {
            assert!(engine.stats().lookup_bytes >= LOOKUP_AHEAD_BYTES as u64);
            yield_now().await;
        };
        engine.read(&select(&table), &mut rows, pause).await.unwrap();
        let ops = rows.ops_at_first - before;
        assert!(rows.rows == FILES && is_right(ops), "{ops} operations until the first row");
    });
}

/// The blocks of terms of all files, which are counted, and of rows as many as are read side by side.
#[test]
fn short_rows_of_many_files_are_read_side_by_side() {
    check_ops_until_a_row(400, |ops| ops >= FILES + LOOKUP_FILES_AHEAD as u64);
}

/// Before: the blocks of long rows were, too, whatever their length and the memory of the shard.
#[test]
fn long_rows_are_not_read_side_by_side() {
    check_ops_until_a_row(1 << 20, |ops| ops < FILES + LOOKUP_FILES_AHEAD as u64 / 2);
}

/// Begins scans that hold what memory scans may have, while others wait for it. They go on once the flag is set.
async fn begin_scans(engine: &Rc<Engine>, sim: &SimDisk, exec: &SimExec) -> Rc<cell::Cell<bool>> {
    let is_over = Rc::new(cell::Cell::new(false));
    for _ in 0..SCANS {
        let (engine, mut rows, is_over) = (engine.clone(), Count::new(sim), is_over.clone());
        exec.spawn(async move {
            let pause = async || {
                while !is_over.get() {
                    yield_now().await;
                }
            };
            engine.read(&select_all(LATER_S), &mut rows, pause).await.unwrap();
        });
    }
    let scans_bytes = (engine.memory_bytes() / SCAN_MEMORY_DIVISOR) as u64;
    let of_scan = (SCAN_BYTES + lane_read_bytes(CHUNK_BYTES_MAX)) as u64;
    while engine.stats().scan_bytes + of_scan <= scans_bytes {
        yield_now().await;
    }
    is_over
}

/// Lets the scans end.
async fn end_scans(engine: &Engine, is_over: &cell::Cell<bool>) {
    assert!(engine.stats().scan_bytes > 0, "they hold their turns until now");
    is_over.set(true);
    while engine.stats().scan_bytes > 0 {
        yield_now().await;
    }
}

/// Before: lookups waited in one line with scans, which take as long as their clients wait for them.
#[test]
fn a_lookup_waits_for_no_scan() {
    let table = table();
    let config = Config { memory_bytes: 32 << 20, ..config(5) };
    on_shard(config, schema_of([table.clone()]), async move |engine, disk, exec| {
        let Disk::Sim(sim) = disk else { panic!("a simulated disk") };
        write_files(&engine, &table, 4000).await;
        let is_over = begin_scans(&engine, &sim, &exec).await;
        let (command, mut rows) = (select(&table), Count::new(&sim));
        let gives_up = async || {
            for _ in 0..10_000 {
                yield_now().await;
            }
            panic!("the lookup waits for the scans");
        };
        let lookup = async { engine.read(&command, &mut rows, yield_now).await.unwrap() };
        futures_lite::future::or(lookup, gives_up()).await;
        assert_eq!((rows.rows, engine.stats().lookup_bytes), (FILES, 0));
        end_scans(&engine, &is_over).await;
    });
}

/// Before: it held the turn of a lookup while it waited for that of a scan, and others waited for both.
#[test]
fn a_lookup_that_is_a_scan_gives_its_turn_back_before_it_waits() {
    let table = table();
    let config = Config { memory_bytes: 32 << 20, ..config(5) };
    on_shard(config, schema_of([table.clone()]), async move |engine, disk, exec| {
        let Disk::Sim(sim) = disk else { panic!("a simulated disk") };
        write_files(&engine, &table, 4000).await;
        // All rows are candidates: a scan is cheaper.
        engine.set_lookup_policy(LookupPolicy::WhereWorth);
        let is_over = begin_scans(&engine, &sim, &exec).await;
        let (reading, command, is_read) = (engine.clone(), select(&table), is_over.clone());
        let (found, mut rows) = (Rc::new(cell::Cell::new(0)), Count::new(&sim));
        let given = found.clone();
        exec.spawn(async move {
            reading.read(&command, &mut rows, yield_now).await.unwrap();
            assert!(is_read.get(), "it waits for the scans");
            given.set(rows.rows);
        });
        for _ in 0..10_000 {
            yield_now().await;
        }
        assert_eq!((found.get(), engine.stats().lookup_bytes), (0, 0));
        end_scans(&engine, &is_over).await;
        while found.get() == 0 {
            yield_now().await;
        }
        assert_eq!(found.get(), FILES);
    });
}
