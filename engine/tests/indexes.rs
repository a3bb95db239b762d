//! Indexes of a shard: a lookup gives what a scan with the filter gives, whatever the index files are, and are not.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::cell::Cell as Slot;
use std::collections::BTreeMap;
use std::rc::Rc;

use engine::io::{Disk, Faults, RelPath, SimDisk, SimExec};
use engine::layout;
use engine::limits::MUTATION_TERMS_BYTES_MAX;
use engine::{Config, Engine, IndexProgress, Job, JobKind, LookupPolicy, commitlog};
use futures_lite::future::yield_now;
use messina_engine as engine;
use model::mutation::{MutationBuilder, RangeTombstone};
use model::read::{
    Filter, FilterTarget, Flow, Operator, PartitionRef, Partitions, ReadCommand, RowSink, Slice,
};
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::schema::{Analysis, Index, Table, TableBuilder};
use model::{CqlType, Deletion, Schema, Token};
use xxhash_rust::xxh3::xxh3_64;

use crate::shard::{self, LATER_S, TABLE, config, index_of, make, on_sim, schema_of, select_all};

mod costs;
mod damaged;
mod files;

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
        table.add_index(index_of(&table, "v")).unwrap();
    }
    table
}

fn clustering(table: &Table, c: i32) -> Vec<u8> {
    let mut out = Vec::new();
    model::key::put_clustering(table, [&c.to_be_bytes()[..]].into_iter(), &mut out).unwrap();
    out
}

/// Rows of one partition: `c` and `v`.
fn record(table: &Table, key: &[u8], rows: &[(i32, i32)], timestamp: i64) -> Vec<u8> {
    record_at(table, (Token::of_key(key), key), rows, timestamp)
}

fn record_at(
    table: &Table,
    (token, key): (Token, &[u8]),
    rows: &[(i32, i32)],
    timestamp: i64,
) -> Vec<u8> {
    let mut out = Vec::new();
    let mut m = MutationBuilder::begin(&mut out, TABLE, token, key);
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
    let target = FilterTarget::Value(index.column);
    let filter = Filter::new(target, operator, values, Analysis::NONE);
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
    let is_even = page_rows.is_multiple_of(2);
    let policy = if is_even { LookupPolicy::Always } else { LookupPolicy::InPasses(7) };
    engine.set_lookup_policy(policy);
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

/// Before: a page that was full and the last said so; who pages until one is not full began again. As in Cassandra.
#[test]
fn a_full_page_of_rows_that_an_index_finds_says_that_more_may_follow() {
    on_sim(3, async |_, disk, exec| {
        let (engine, table) = long_postings(&disk, &exec).await;
        let command = select(&table, Operator::Equal, 5);
        for policy in [LookupPolicy::Always, LookupPolicy::Never] {
            engine.set_lookup_policy(policy);
            for (page_rows, count) in [(700, 5), (600, 6), (3000, 2), (3001, 1)] {
                let (rows, pages) = pages(&engine, command.clone(), page_rows).await;
                assert_eq!((rows.0.len(), pages), (3000, count), "{page_rows}, {policy:?}");
            }
        }
    });
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

/// A new shard whose rows and index files are in sstables.
async fn flushed((disk, exec): (&Disk, &SimExec), table: &Table, schema: &Schema) -> Rc<Engine> {
    make(disk, &config(1)).await;
    let engine = open(disk, exec, 2, schema).await;
    write_some(&engine, table).await;
    shard::flush(&engine).await;
    engine
}

/// Where the index files are.
fn index_files(sim: &SimDisk) -> Vec<RelPath> {
    let files = sim.files_of(&layout::table_dir(TABLE.0));
    files.into_iter().filter(|file| file.name().ends_with(".idx")).collect()
}

/// The table with an index of `n`, a number of any length, instead.
fn table_of_numbers() -> Table {
    let table = TableBuilder::new("ks", "t", TABLE)
        .partition_key("k", CqlType::Blob)
        .and_then(|t| t.clustering("c", CqlType::Int, false))
        .and_then(|t| t.regular("v", CqlType::Varint))
        .and_then(TableBuilder::build);
    let mut table = table.unwrap();
    table.add_index(index_of(&table, "v")).unwrap();
    table
}

/// Before: one such number ended the use of all indexes of a memtable, and its sstable never had an index.
#[test]
fn a_number_of_too_many_digits_ends_no_index() {
    on_sim(31, async |_, disk, exec| {
        let table = table_of_numbers();
        make(&disk, &config(1)).await;
        let engine = open(&disk, &exec, 2, &schema_of([table.clone()])).await;
        let column = table.column("v").unwrap().id;
        let mut out = Vec::new();
        let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(b"k"), b"k");
        for c in 0..20i32 {
            let long = vec![9; 20_000];
            let value = if c == 13 { &long[..] } else { &[c as u8] };
            m.row(&clustering(&table, c), |out| {
                let mut row = RowBuilder::begin(out, &RowHead::bare(1));
                row.cell(&Cell::live(column, 1, value));
            });
        }
        m.finish();
        shard::write(&engine, &out).await.unwrap();
        for _ in 0..2 {
            assert!(progress(&engine).is_built());
            for (operator, rows) in
                [(Operator::Equal, 1), (Operator::Greater, 14), (Operator::Less, 4)]
            {
                let mut command = select(&table, Operator::Equal, 0);
                let values: Vec<Box<[u8]>> = vec![vec![if rows == 4 { 4 } else { 5 }].into()];
                let lookup = table.indexes()[0].lookup(&table, operator, &values).unwrap();
                command.lookups = lookup.into_iter().collect();
                (command.filters[0].operator, command.filters[0].values) = (operator, values);
                assert_eq!(compare(&engine, &command, 3).await, rows, "{operator:?}");
            }
            shard::flush(&engine).await;
        }
    });
}

/// `SELECT * FROM t WHERE k = ? AND v = <value>`.
fn select_in(table: &Table, key: &[u8], value: i32) -> ReadCommand {
    let partitions = Partitions::Keys(vec![(Token::of_key(key), key.into())]);
    ReadCommand { partitions, ..select(table, Operator::Equal, value) }
}

/// Before: the wide partition of the table of hashes was taken for that of the key, and rows of both were passed over.
#[test]
fn two_keys_of_one_token_and_one_hash_are_told_apart() {
    let mut seen = BTreeMap::new();
    let (first, second) = (0..u32::MAX)
        .find_map(|key| Some((seen.insert(xxh3_64(&key.to_be_bytes()) as u32, key)?, key)))
        .unwrap();
    on_sim(77, async move |_, disk, exec| {
        let table = table(true);
        let engine = open_large(&disk, &exec, &schema_of([table.clone()])).await;
        let token = Token(7);
        for (key, count) in [(first, 60), (second, 4000)] {
            let rows: Vec<(i32, i32)> = (0..count).map(|c| (c, 5)).collect();
            for rows in rows.chunks(200) {
                let key = key.to_be_bytes();
                shard::write(&engine, &record_at(&table, (token, &key), rows, 1)).await.unwrap();
            }
        }
        shard::flush(&engine).await;
        let mut command = select(&table, Operator::Equal, 5);
        for page_rows in [10, 1000] {
            assert_eq!(compare(&engine, &command, page_rows).await, 4060);
        }
        command.limits.rows_per_partition = 1;
        for page_rows in [1, 4] {
            assert_eq!(compare(&engine, &command, page_rows).await, 2);
        }
    });
}

/// A shard that takes [`write_many`].
async fn open_large(disk: &Disk, exec: &SimExec, schema: &Schema) -> Rc<Engine> {
    let log = |seed| commitlog::Config { segment_bytes: 1 << 20, ..commitlog::Config::new(seed) };
    let large = |seed| Config { memory_bytes: 64 << 20, log: log(seed), ..config(seed) };
    make(disk, &large(1)).await;
    shard::open(disk, exec, large(2), schema).await
}

/// Before: each term had the whole key with it, and one mutation of a mebibyte took gigabytes of a memtable.
#[test]
fn the_terms_of_one_mutation_are_bounded() {
    on_sim(59, async |_, disk, exec| {
        let table = table(true);
        let engine = open_large(&disk, &exec, &schema_of([table.clone()])).await;
        let key = vec![3; 60_000];
        let rows: Vec<(i32, i32)> = (0..500).map(|c| (c, c)).collect();
        assert!(key.len() * rows.len() > 7 * MUTATION_TERMS_BYTES_MAX);
        let record = record(&table, &key, &rows, 1);
        let before = engine.stats().memtable_bytes;
        shard::write(&engine, &record).await.unwrap();
        let most = (2 * MUTATION_TERMS_BYTES_MAX + 2 * record.len()) as u64;
        assert!(engine.stats().memtable_bytes - before < most, "{most}");
        assert_eq!(progress(&engine).memtables, 1, "it is scanned");
        let command = select(&table, Operator::Equal, 450);
        assert_eq!(compare(&engine, &command, 2).await, 1);
        shard::flush(&engine).await;
        assert!(progress(&engine).is_built());
        assert_eq!(compare(&engine, &command, 2).await, 1);
    });
}
