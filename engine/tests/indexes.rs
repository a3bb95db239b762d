//! Indexes of a shard: a lookup gives what a scan with the filter gives, whatever the index files are, and are not.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod shard;

use std::collections::BTreeMap;
use std::rc::Rc;

use engine::io::{Disk, RelPath, SimDisk, SimExec};
use engine::layout;
use engine::{Engine, IndexProgress, Job, JobKind, LookupPolicy};
use futures_lite::future::yield_now;
use messina_engine as engine;
use model::mutation::{MutationBuilder, RangeTombstone};
use model::read::{Filter, FilterTarget, Flow, Operator, PartitionRef, ReadCommand, RowSink};
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::schema::{Analysis, Index, IndexId, IndexKind, IndexTarget, Table, TableBuilder};
use model::{CqlType, Deletion, Schema, Token};
use shard::{LATER_S, TABLE, config, make, on_sim, schema_of, select_all};

/// `CREATE TABLE t (k blob, c int, v int, w blob, PRIMARY KEY (k, c))`, and an index of `v` perhaps.
fn table(is_indexed: bool) -> Table {
    let table = TableBuilder::new("ks", "t", TABLE)
        .partition_key("k", CqlType::Blob)
        .and_then(|t| t.clustering("c", CqlType::Int, false))
        .and_then(|t| t.regular("v", CqlType::Int))
        .and_then(|t| t.regular("w", CqlType::Blob))
        .and_then(TableBuilder::build);
    let mut table = table.unwrap();
    if is_indexed {
        table.add_index(index(&table)).unwrap();
    }
    table
}

fn index(table: &Table) -> Index {
    Index {
        id: IndexId(0),
        name: "t_v".into(),
        column: table.column("v").unwrap().id,
        target: IndexTarget::Value,
        kind: IndexKind::Plain,
        class: None,
        options: BTreeMap::new(),
        analysis: Analysis::NONE,
    }
}

fn clustering(table: &Table, c: i32) -> Vec<u8> {
    let mut out = Vec::new();
    model::key::put_clustering(table, [&c.to_be_bytes()[..]].into_iter(), &mut out).unwrap();
    out
}

/// Rows of one partition: `c` and `v`.
fn record(table: &Table, key: &[u8], rows: &[(i32, i32)], timestamp: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(key), key);
    let id = |name| table.column(name).unwrap().id;
    for (c, v) in rows {
        m.row(&clustering(table, *c), |out| {
            let mut row = RowBuilder::begin(out, &RowHead::bare(timestamp));
            row.cell(&Cell::live(id("v"), timestamp, &v.to_be_bytes()));
            row.cell(&Cell::live(id("w"), timestamp, &[7; 60]));
        });
    }
    m.finish();
    out
}

/// Keys and clusterings in the order in which they come, with `v`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rows(Vec<(Vec<u8>, Vec<u8>, Vec<u8>)>);

impl RowSink for Rows {
    fn row(&mut self, p: &PartitionRef<'_>, c: Option<&[u8]>, row: Option<RowRef<'_>>) -> Flow {
        let v = row.and_then(|row| row.cells().next()).unwrap().value.to_vec();
        self.0.push((p.key.to_vec(), c.unwrap().to_vec(), v));
        Flow::More
    }
}

/// `SELECT * FROM t WHERE v <operator> <value>`.
fn select(table: &Table, operator: Operator, value: i32) -> ReadCommand {
    let index = &table.indexes()[0];
    let values: Vec<Box<[u8]>> = vec![value.to_be_bytes().into()];
    let lookup = index.lookup(table, operator, &values).unwrap().unwrap();
    let filter = Filter {
        target: FilterTarget::Value(index.column),
        operator,
        values,
        analysis: Analysis::NONE,
    };
    ReadCommand { filters: vec![filter], lookups: vec![lookup], ..select_all(LATER_S) }
}

/// All pages of a read, and how many there were.
async fn pages(engine: &Engine, mut command: ReadCommand, page_rows: u64) -> (Rows, u64) {
    let (mut rows, mut pages) = (Rows::default(), 0);
    command.limits.page_rows = page_rows;
    loop {
        let end = engine.read(&command, &mut rows, yield_now).await.unwrap();
        pages += 1;
        let Some(more) = end.more else { return (rows, pages) };
        command.resume = Some(more);
    }
}

/// Compares a lookup with a scan; how many rows it gave.
async fn compare(engine: &Engine, command: &ReadCommand, page_rows: u64) -> usize {
    engine.set_lookup_policy(LookupPolicy::Never);
    let (scanned, _) = pages(engine, command.clone(), u64::MAX).await;
    engine.set_lookup_policy(LookupPolicy::Always);
    let (found, _) = pages(engine, command.clone(), page_rows).await;
    assert!(found == scanned, "{} rows instead of {}", found.0.len(), scanned.0.len());
    found.0.len()
}

async fn open(disk: &Disk, exec: &SimExec, seed: u64, schema: &Schema) -> Rc<Engine> {
    shard::open(disk, exec, config(seed), schema).await
}

fn progress(engine: &Engine) -> IndexProgress {
    engine.index_progress().into_iter().next().unwrap()
}

/// One partition of 6,000 rows of which every second has the same value: its postings take several blocks.
async fn long_postings(disk: &Disk, exec: &SimExec) -> (Rc<Engine>, Table) {
    let table = table(true);
    make(disk, &config(1)).await;
    let engine = open(disk, exec, 2, &schema_of([table.clone()])).await;
    for from in (0..6000).step_by(200) {
        let rows: Vec<(i32, i32)> = (from..from + 200).map(|c| (c, 5 - 5 * (c % 2))).collect();
        shard::write(&engine, &record(&table, b"k", &rows, 1)).await.unwrap();
    }
    (engine, table)
}

async fn check_long_postings(engine: &Engine, table: &Table) {
    for is_reversed in [false, true] {
        let mut command = select(table, Operator::Equal, 5);
        command.reversed = is_reversed;
        assert_eq!(compare(engine, &command, 700).await, 3000);
    }
    let mut command = select(table, Operator::Equal, 5);
    command.limits.rows_per_partition = 10;
    assert_eq!(compare(engine, &command, 3).await, 10);
}

fn on_long_postings() {
    on_sim(3, async |_, disk, exec| {
        let (engine, table) = long_postings(&disk, &exec).await;
        check_long_postings(&engine, &table).await;
        shard::flush(&engine).await;
        check_long_postings(&engine, &table).await;
    });
}

#[test]
fn a_long_list_of_postings_is_paged() {
    on_long_postings();
}

#[cfg(feature = "planted")]
#[test]
fn a_bug_in_long_lists_is_caught() {
    use engine::planted::{Bug, plant};
    for bug in Bug::OF_LONG_POSTINGS {
        plant(Some(bug));
        let caught = std::panic::catch_unwind(on_long_postings).is_err();
        plant(None);
        assert!(caught, "{bug:?} is not caught");
    }
}

/// Ten keys, in two files and in memory, some overwritten and some deleted.
async fn write_some(engine: &Engine, table: &Table) {
    for round in 0..3i32 {
        for key in 0..10u8 {
            let rows: Vec<(i32, i32)> =
                (0..20).map(|c| (c, (c * 7 + i32::from(key) + round * 3) % 11)).collect();
            let rows = if round == 0 { &rows[..] } else { &rows[(round * 5) as usize..][..5] };
            let time = i64::from(round) + 1;
            shard::write(engine, &record(table, &[key], rows, time)).await.unwrap();
        }
        if round < 2 {
            shard::flush(engine).await;
        }
    }
    let mut out = Vec::new();
    let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(&[3]), &[3]);
    let (start, end) = (&clustering(table, 4), &clustering(table, 9));
    let deletion = Deletion { timestamp: 9, local_s: 1 };
    m.delete_range(&RangeTombstone { start, end, deletion });
    m.finish();
    shard::write(engine, &out).await.unwrap();
}

async fn check_some(engine: &Engine, table: &Table) -> usize {
    let mut rows = 0;
    for value in 0..11 {
        for operator in [Operator::Equal, Operator::Less, Operator::GreaterOrEqual] {
            for is_reversed in [false, true] {
                let mut command = select(table, operator, value);
                command.reversed = is_reversed;
                rows += compare(engine, &command, 1 + value as u64 % 4).await;
            }
        }
    }
    rows
}

#[test]
fn a_lookup_gives_what_a_scan_gives() {
    on_sim(5, async |_, disk, exec| {
        let table = table(true);
        make(&disk, &config(1)).await;
        let engine = open(&disk, &exec, 2, &schema_of([table.clone()])).await;
        write_some(&engine, &table).await;
        assert!(progress(&engine).is_built() && progress(&engine).files == 2);
        assert!(check_some(&engine, &table).await > 100);
        shard::flush(&engine).await;
        shard::merge_whole(&engine, 1).await;
        assert_eq!((progress(&engine).files, progress(&engine).files_total), (1, 1));
        assert!(check_some(&engine, &table).await > 100);
    });
}

#[test]
fn files_that_came_before_their_index_are_indexed_by_a_job() {
    on_sim(7, async |sim, disk, exec| {
        let plain = table(false);
        make(&disk, &config(1)).await;
        let engine = open(&disk, &exec, 2, &schema_of([plain.clone()])).await;
        write_some(&engine, &plain).await;
        assert!(engine.next_job_of(JobKind::Index, 1).is_none());
        let indexed = table(true);
        engine.set_schema(&schema_of([indexed.clone()]));
        assert_eq!((progress(&engine).files, progress(&engine).memtables), (0, 1));
        assert!(check_some(&engine, &indexed).await > 100, "all is scanned");
        shard::run_jobs(&engine, 1).await;
        assert!(progress(&engine).is_built() && progress(&engine).files > 0);
        assert!(check_some(&engine, &indexed).await > 100);
        let of_index = || {
            let files = sim.files_of(&layout::table_dir(TABLE.0));
            files.into_iter().filter(|file| file.name().ends_with(".idx")).count()
        };
        assert!(of_index() > 0);
        let mut dropped = indexed.clone();
        assert!(dropped.drop_index("t_v"));
        engine.set_schema(&schema_of([dropped]));
        shard::run_jobs(&engine, 1).await;
        assert_eq!(of_index(), 0, "the files of a dropped index go");
    });
}

/// Where the index files are.
fn index_files(sim: &SimDisk) -> Vec<RelPath> {
    let files = sim.files_of(&layout::table_dir(TABLE.0));
    files.into_iter().filter(|file| file.name().ends_with(".idx")).collect()
}

#[test]
fn a_damaged_index_file_changes_no_answer_and_is_made_anew() {
    for at in 0..12 {
        on_sim(11 + at, async move |sim, disk, exec| {
            let table = table(true);
            let schema = schema_of([table.clone()]);
            make(&disk, &config(1)).await;
            let engine = open(&disk, &exec, 2, &schema).await;
            write_some(&engine, &table).await;
            shard::flush(&engine).await;
            drop(engine);
            for path in index_files(&sim) {
                let mut bytes = sim.bytes(&path).unwrap();
                match at {
                    0 => sim.lose(&path),
                    1 => sim.plant(&path, bytes[..bytes.len() / 2].to_vec()),
                    _ => {
                        // What means something is at the beginning and at the end.
                        let from = if at % 2 == 0 {
                            at as usize * 20
                        } else {
                            bytes.len() - 1 - at as usize * 8
                        };
                        bytes[from] ^= 4;
                        sim.plant(&path, bytes);
                    }
                }
            }
            let engine = open(&disk, &exec, 3, &schema).await;
            assert!(check_some(&engine, &table).await > 100);
            while let Some(job) = engine.next_job_of(JobKind::Index, 1) {
                assert_eq!(job, Job::Index(TABLE));
                engine.run(job, 1, yield_now).await.unwrap();
            }
            assert!(progress(&engine).is_built());
            assert!(check_some(&engine, &table).await > 100);
        });
    }
}

#[test]
fn index_files_go_with_their_sstables() {
    on_sim(29, async |sim, disk, exec| {
        let table = table(true);
        let schema = schema_of([table.clone()]);
        make(&disk, &config(1)).await;
        let engine = open(&disk, &exec, 2, &schema).await;
        write_some(&engine, &table).await;
        shard::flush(&engine).await;
        assert_eq!(index_files(&sim).len(), 3);
        shard::merge_whole(&engine, 1).await;
        assert_eq!(index_files(&sim).len(), 1);
        engine.truncate(TABLE).await.unwrap();
        assert!(index_files(&sim).is_empty());
        write_some(&engine, &table).await;
        engine.set_schema(&schema_of([]));
        shard::run_jobs(&engine, 1).await;
        assert!(sim.files_of(&layout::table_dir(TABLE.0)).is_empty());
    });
}
