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

/// Before: a block that was damaged was attached again by the job, and lost again by the next lookup.
#[test]
fn a_damaged_index_file_changes_no_answer_and_is_made_anew() {
    on_damaged_files(0..12);
}

#[cfg(feature = "planted")]
#[test]
fn a_damaged_file_that_is_used_again_is_caught() {
    use engine::planted::{Bug, plant};
    plant(Some(Bug::IndexReattached));
    let caught = std::panic::catch_unwind(|| on_damaged_files(2..3)).is_err();
    plant(None);
    assert!(caught, "a damaged file is used again");
}

fn on_damaged_files(cases: std::ops::Range<u64>) {
    for at in cases {
        on_sim(11 + at, async move |sim, disk, exec| {
            let table = table(true);
            let schema = schema_of([table.clone()]);
            let engine = flushed((&disk, &exec), &table, &schema).await;
            drop(engine);
            let sound: Vec<_> =
                index_files(&sim).into_iter().map(|path| (sim.bytes(&path), path)).collect();
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
            let all = select(&table, Operator::GreaterOrEqual, 0);
            // A lookup that has lost one file goes on as a scan, and does not see the next.
            for _ in &sound {
                assert!(compare(&engine, &all, 20).await > 100);
                while let Some(job) = engine.next_job_of(JobKind::Index, 1) {
                    assert_eq!(job, Job::Index(TABLE));
                    engine.run(job, 1, yield_now).await.unwrap();
                }
            }
            assert!(progress(&engine).is_built());
            for (bytes, path) in sound {
                assert!(sim.bytes(&path) == bytes, "{path:?} of case {at} is as it was");
            }
            assert!(compare(&engine, &all, 20).await > 100);
        });
    }
}

/// Before: a file that says what cannot be, under right checksums, was read whole, used again and lost again, for ever.
#[test]
fn a_file_that_is_lost_again_after_it_was_read_whole_is_made_anew() {
    on_sim(31, async |sim, disk, exec| {
        let table = table(true);
        let schema = schema_of([table.clone()]);
        let engine = flushed((&disk, &exec), &table, &schema).await;
        drop(engine);
        let paths = index_files(&sim).into_iter();
        let sound: Vec<_> = paths.map(|path| (sim.bytes(&path).unwrap(), path)).collect();
        let engine = open(&disk, &exec, 3, &schema).await;
        let all = select(&table, Operator::GreaterOrEqual, 0);
        for is_made_anew in [false, true] {
            for (bytes, path) in &sound {
                let mut damaged = bytes.clone();
                damaged[40] ^= 4;
                sim.plant(path, damaged);
            }
            assert!(compare(&engine, &all, 20).await > 100);
            assert!(!engine.take_lost_indexes().is_empty());
            // As after a read that the disk got wrong: every checksum is right.
            sound.iter().for_each(|(bytes, path)| sim.plant(path, bytes.clone()));
            let built = engine.stats().indexes_built;
            shard::run_jobs(&engine, 1).await;
            assert!(progress(&engine).is_built());
            assert_eq!(engine.stats().indexes_built > built, is_made_anew);
        }
    });
}

#[test]
fn index_files_go_with_their_sstables() {
    on_sim(29, async |sim, disk, exec| {
        let table = table(true);
        let schema = schema_of([table.clone()]);
        let engine = flushed((&disk, &exec), &table, &schema).await;
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

/// Before: each candidate counted the tombstone that lay over it, and many were an error where a scan passed two.
#[test]
fn a_deletion_over_many_candidates_is_counted_once() {
    on_sim(37, async |_, disk, exec| {
        let table = table(true);
        make(&disk, &config(1)).await;
        let engine = open(&disk, &exec, 2, &schema_of([table.clone()])).await;
        let mut out = Vec::new();
        let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(b"k"), b"k");
        let (start, end) = (&clustering(&table, 0), &clustering(&table, 1000));
        let deletion = Deletion { timestamp: 1, local_s: LATER_S };
        m.delete_range(&RangeTombstone { start, end, deletion });
        m.finish();
        shard::write(&engine, &out).await.unwrap();
        let rows: Vec<(i32, i32)> = (0..900).map(|c| (c, c % 2)).collect();
        for rows in rows.chunks(100) {
            shard::write(&engine, &record(&table, b"k", rows, 2)).await.unwrap();
        }
        let command = select(&table, Operator::Equal, 1);
        let mut passed = Vec::new();
        for policy in [LookupPolicy::Never, LookupPolicy::Always] {
            engine.set_lookup_policy(policy);
            let end = engine.read(&command, &mut Rows::default(), yield_now).await.unwrap();
            assert_eq!(end.rows, 450);
            passed.push(end.tombstones);
        }
        assert!(passed[0] > 0 && passed[1] <= passed[0], "{passed:?}");
    });
}

/// Whether a read with this limit and these conditions uses the index, and how many rows it gives.
async fn is_looked_up(engine: &Engine, command: &ReadCommand) -> bool {
    engine.set_lookup_policy(LookupPolicy::Never);
    let scanned = pages(engine, command.clone(), u64::MAX).await.0;
    engine.set_lookup_policy(LookupPolicy::WhereWorth);
    let before = engine.stats().lookups;
    let mut rows = Rows::default();
    engine.read(command, &mut rows, yield_now).await.unwrap();
    assert_eq!(rows, scanned);
    engine.stats().lookups > before
}

/// Before: a LIMIT did not count, so that all postings of a range were gone through for ten rows.
#[test]
fn a_lookup_is_made_where_it_costs_less_than_a_scan() {
    on_sim(41, async |_, disk, exec| {
        let table = table(true);
        make(&disk, &config(1)).await;
        let engine = open(&disk, &exec, 2, &schema_of([table.clone()])).await;
        for key in 0..20u8 {
            let rows: Vec<(i32, i32)> =
                (0..100).map(|c| (c, (c * 17 + i32::from(key)) % 100)).collect();
            shard::write(&engine, &record(&table, &[key], &rows, 1)).await.unwrap();
            if key == 15 {
                shard::flush(&engine).await;
            }
        }
        let limited = |mut command: ReadCommand, rows: u64| {
            command.limits.rows = rows;
            command
        };
        // A twentieth of the rows, an eighth, and half of them.
        let [twentieth, eighth, half] = [5, 12, 50].map(|v| select(&table, Operator::Less, v));
        assert!(is_looked_up(&engine, &twentieth).await);
        assert!(is_looked_up(&engine, &eighth).await);
        assert!(!is_looked_up(&engine, &half).await);
        assert!(is_looked_up(&engine, &select(&table, Operator::Equal, 7)).await);
        // A value that is not there: a scan would go over all to find nothing.
        assert!(is_looked_up(&engine, &select(&table, Operator::Equal, 1000)).await);
        assert!(is_looked_up(&engine, &limited(select(&table, Operator::Equal, 7), 10)).await);
        // Ten rows are found in a hundred of a scan, and there are 240 postings.
        assert!(!is_looked_up(&engine, &limited(eighth.clone(), 1)).await);
        // With another condition it is not known how many candidates are read.
        let mut other = limited(eighth, 1);
        other.filters.push(Filter {
            target: FilterTarget::Clustering(0),
            operator: Operator::Equal,
            values: vec![99i32.to_be_bytes().into()],
            analysis: Analysis::NONE,
        });
        assert!(is_looked_up(&engine, &other).await);
    });
}

/// `SELECT * FROM t WHERE k = ? AND v = <value>`.
fn select_in(table: &Table, key: &[u8], value: i32) -> ReadCommand {
    let partitions = Partitions::Keys(vec![(Token::of_key(key), key.into())]);
    ReadCommand { partitions, ..select(table, Operator::Equal, value) }
}

/// Before: all rows of a named partition were read, whatever index there was.
#[test]
fn a_wide_partition_that_is_named_is_looked_up_in() {
    on_sim(61, async |_, disk, exec| {
        let table = table(true);
        let engine = open_large(&disk, &exec, &schema_of([table.clone()])).await;
        for (key, rows) in [(&b"wide"[..], 4000), (b"narrow", 3)] {
            let rows: Vec<(i32, i32)> = (0..rows).map(|c| (c, c % 200)).collect();
            for rows in rows.chunks(200) {
                shard::write(&engine, &record(&table, key, rows, 1)).await.unwrap();
            }
        }
        shard::flush(&engine).await;
        shard::write(&engine, &record(&table, b"wide", &[(7, 3), (9, 7)], 2)).await.unwrap();
        let wide = select_in(&table, b"wide", 7);
        assert!(is_looked_up(&engine, &wide).await);
        let mut part = wide.clone();
        let [start, end] = [100, 3000].map(|c| clustering(&table, c));
        part.slices = vec![Slice { start, end }];
        assert!(is_looked_up(&engine, &part).await);
        let [start, end] = [100, 110].map(|c| clustering(&table, c));
        let few = ReadCommand { slices: vec![Slice { start, end }], ..wide.clone() };
        assert!(!is_looked_up(&engine, &few).await, "few rows are read");
        assert!(!is_looked_up(&engine, &select_in(&table, b"narrow", 2)).await);
        let mut several = wide.clone();
        let keys = [&b"narrow"[..], b"wide", b"none"];
        several.partitions =
            Partitions::Keys(keys.map(|key| (Token::of_key(key), key.into())).to_vec());
        for (mut command, rows) in [(wide, 20), (part, 14), (several, 20)] {
            for is_reversed in [false, true] {
                command.reversed = is_reversed;
                for page_rows in [1, 4, 7, 1000] {
                    assert_eq!(compare(&engine, &command, page_rows).await, rows);
                }
            }
        }
    });
}

/// Before: of more candidates than are read at once the partition was read whole.
#[test]
fn many_rows_in_reversed_order_are_read_from_the_last_on() {
    on_sim(71, async |_, disk, exec| {
        let table = table(true);
        let engine = open_large(&disk, &exec, &schema_of([table.clone()])).await;
        let rows: Vec<(i32, i32)> = (0..4000).map(|c| (c, c % 10)).collect();
        for rows in rows.chunks(200) {
            shard::write(&engine, &record(&table, b"k", rows, 1)).await.unwrap();
        }
        shard::flush(&engine).await;
        let mut command = select_in(&table, b"k", 7);
        for page_rows in [7, 300, 1000] {
            command.reversed = !command.reversed;
            assert_eq!(compare(&engine, &command, page_rows).await, 400);
        }
        command.reversed = true;
        command.limits.rows = 1;
        assert!(!is_looked_up(&engine, &command).await, "the last ten rows have it");
        command.limits.rows = 100;
        assert!(is_looked_up(&engine, &command).await);
    });
}

/// Before: one sstable without its index, for whatever reason and however small, had the whole table scanned.
#[test]
fn a_file_without_its_index_is_gone_through_and_the_others_are_looked_up() {
    on_sim(83, async |sim, disk, exec| {
        let table = table(true);
        let schema = schema_of([table.clone()]);
        make(&disk, &config(1)).await;
        let engine = open(&disk, &exec, 2, &schema).await;
        for file in 0..6u8 {
            for key in 0..4u8 {
                let rows: Vec<(i32, i32)> =
                    (0..50).map(|c| (c, (c * 7 + i32::from(key + file)) % 50)).collect();
                let time = i64::from(file) + 1;
                shard::write(&engine, &record(&table, &[key * 6 + file], &rows, time))
                    .await
                    .unwrap();
                shard::write(&engine, &record(&table, b"all", &rows[..9], time)).await.unwrap();
            }
            shard::flush(&engine).await;
        }
        drop(engine);
        let path = index_files(&sim).remove(2);
        let mut bytes = sim.bytes(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        sim.plant(&path, bytes);
        let engine = open(&disk, &exec, 3, &schema).await;
        assert_eq!((progress(&engine).files, progress(&engine).files_total), (5, 6));
        let command = select(&table, Operator::Equal, 7);
        assert!(is_looked_up(&engine, &command).await, "five of six are indexed");
        // Four of the 50 values: each is compared in pages of five lengths.
        for value in (0..50).step_by(13) {
            let mut command = select(&table, Operator::Equal, value);
            for page_rows in [1, 2, 3, 5, 1000] {
                command.reversed = !command.reversed;
                assert!(compare(&engine, &command, page_rows).await > 15);
            }
        }
        assert!(check_some(&engine, &table).await > 100);
        shard::run_jobs(&engine, 1000).await;
        assert!(progress(&engine).is_built());
    });
}

/// Before: of a partition that a lookup read whole range deletions of one time counted as one, however many.
#[test]
fn tombstones_of_a_partition_that_a_lookup_reads_whole_are_counted() {
    on_sim(89, async |_, disk, exec| {
        let mut table = table(false);
        let of_key = Index { column: table.column("k").unwrap().id, ..index_of(&table, "v") };
        table.add_index(of_key).unwrap();
        make(&disk, &config(1)).await;
        let engine = open(&disk, &exec, 2, &schema_of([table.clone()])).await;
        shard::write(&engine, &record(&table, b"k", &[(1000, 1)], 1)).await.unwrap();
        let mut out = Vec::new();
        let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(b"k"), b"k");
        for c in 0..50 {
            let (start, end) = (&clustering(&table, 4 * c), &clustering(&table, 4 * c + 1));
            let deletion = Deletion { timestamp: 9, local_s: LATER_S };
            m.delete_range(&RangeTombstone { start, end, deletion });
        }
        m.finish();
        shard::write(&engine, &out).await.unwrap();
        let values: Vec<Box<[u8]>> = vec![b"k"[..].into()];
        let lookup = table.indexes()[0].lookup(&table, Operator::Equal, &values).unwrap();
        let mut command = ReadCommand { lookups: vec![lookup.unwrap()], ..select_all(LATER_S) };
        command.limits.tombstones = 20;
        for policy in [LookupPolicy::Never, LookupPolicy::Always] {
            engine.set_lookup_policy(policy);
            let end = engine.read(&command, &mut Rows::default(), yield_now).await;
            assert!(
                matches!(end, Err(engine::Error::TooManyTombstones { .. })),
                "{policy:?}: {end:?}"
            );
        }
    });
}

/// Before: a page that began behind many range deletions of a file without its index walked them without a pause.
#[test]
fn what_is_before_a_page_is_passed_with_pauses() {
    on_sim(101, async |sim, disk, exec| {
        const DELETIONS: i32 = 2000;
        let table = table(true);
        let schema = schema_of([table.clone()]);
        make(&disk, &config(1)).await;
        let engine = open(&disk, &exec, 2, &schema).await;
        for from in (0..DELETIONS).step_by(100) {
            let mut out = Vec::new();
            let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(b"k"), b"k");
            for c in from..from + 100 {
                let (start, end) = (&clustering(&table, 4 * c), &clustering(&table, 4 * c + 1));
                let deletion = Deletion { timestamp: 9, local_s: LATER_S };
                m.delete_range(&RangeTombstone { start, end, deletion });
            }
            m.finish();
            shard::write(&engine, &out).await.unwrap();
        }
        let rows: Vec<(i32, i32)> = (0..9).map(|c| (4 * DELETIONS + c, 1)).collect();
        shard::write(&engine, &record(&table, b"k", &rows, 1)).await.unwrap();
        shard::flush(&engine).await;
        shard::write(&engine, &record(&table, b"other", &rows, 1)).await.unwrap();
        drop(engine);
        let path = index_files(&sim).remove(0);
        let mut bytes = sim.bytes(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        sim.plant(&path, bytes);
        let engine = open(&disk, &exec, 3, &schema).await;
        engine.set_lookup_policy(LookupPolicy::Always);
        let mut command = select(&table, Operator::Equal, 1);
        command.limits.page_rows = 13;
        let first = engine.read(&command, &mut Rows::default(), yield_now).await.unwrap();
        command.resume = first.more;
        assert!(command.resume.is_some(), "there are more");
        let pauses = Slot::new(0);
        let pause = async || pauses.set(pauses.get() + 1);
        engine.read(&command, &mut Rows::default(), pause).await.unwrap();
        assert!(pauses.get() > 2 * DELETIONS / 40, "{} pauses", pauses.get());
    });
}

/// Before: nothing found, and nothing could make anew, a file with right checksums that a defect had written.
#[cfg(feature = "planted")]
#[test]
fn a_wrong_index_under_right_checksums_is_made_anew_when_told() {
    use engine::planted::{Bug, plant};
    on_sim(97, async |_, disk, exec| {
        let table = table(true);
        make(&disk, &config(1)).await;
        let engine = open(&disk, &exec, 2, &schema_of([table.clone()])).await;
        plant(Some(Bug::IndexMisplacesEntry));
        write_some(&engine, &table).await;
        plant(None);
        engine.set_lookup_policy(LookupPolicy::Always);
        let command = select(&table, Operator::Equal, 5);
        let (found, _) = pages(&engine, command.clone(), 100).await;
        let files = engine.rebuild_indexes(TABLE, None).await.unwrap();
        assert!(files == 2 && !progress(&engine).is_built());
        assert!(check_some(&engine, &table).await > 100, "it is not used any more");
        // Before: a start used the wrong files again.
        drop(engine);
        let engine = open(&disk, &exec, 3, &schema_of([table.clone()])).await;
        assert_eq!(progress(&engine).files, 0, "a start finds none");
        assert!(check_some(&engine, &table).await > 100);
        shard::run_jobs(&engine, 1000).await;
        assert!(progress(&engine).is_built());
        assert!(compare(&engine, &command, 2).await > found.0.len(), "some were missing");
        assert!(check_some(&engine, &table).await > 100);
    });
}

/// A named partition is read to its end when its index fails, before the first row of it or between two.
#[test]
fn a_named_partition_whose_index_is_damaged_is_read_on() {
    on_sim(67, async |sim, disk, exec| {
        let (engine, table) = long_postings(&disk, &exec).await;
        let schema = schema_of([table.clone()]);
        shard::flush(&engine).await;
        drop(engine);
        let path = index_files(&sim).remove(0);
        let sound = sim.bytes(&path).unwrap();
        let mut lost = 0;
        for at in (24..400).step_by(32) {
            let mut bytes = sound.clone();
            bytes[at] ^= 1;
            sim.plant(&path, bytes);
            let engine = open(&disk, &exec, at as u64, &schema).await;
            for page_rows in [300, 99] {
                let command = select_in(&table, b"k", 5);
                assert_eq!(compare(&engine, &command, page_rows).await, 3000);
            }
            lost += u32::from(!progress(&engine).is_built());
        }
        assert!(lost > 2, "{lost} lookups have met a damage");
    });
}

/// Before: what was left of a partition was named row by row, only to be passed over.
#[test]
fn a_partition_of_which_enough_is_known_is_passed_at_once() {
    on_sim(71, async |_, disk, exec| {
        let table = table(true);
        let engine = open_large(&disk, &exec, &schema_of([table.clone()])).await;
        for key in 0..4u8 {
            for from in (0..2000).step_by(200) {
                let rows: Vec<(i32, i32)> = (from..from + 200).map(|c| (c, 5)).collect();
                shard::write(&engine, &record(&table, &[key], &rows, 1)).await.unwrap();
            }
        }
        shard::flush(&engine).await;
        let mut command = select(&table, Operator::Equal, 5);
        command.limits.rows_per_partition = 1;
        assert_eq!(compare(&engine, &command, 4).await, 4);
        engine.set_lookup_policy(LookupPolicy::Always);
        let end = engine.read(&command, &mut Rows::default(), yield_now).await.unwrap();
        let asked = end.blocks + end.cached_blocks;
        assert!(end.rows == 4 && asked < 2000, "{asked} blocks for 4 of 8,000 rows");
    });
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

/// Before: the first row waited for a candidate of each file, whatever tokens the file has.
#[test]
fn a_file_of_later_tokens_is_asked_when_it_is_its_turn() {
    on_sim(73, async |_, disk, exec| {
        let table = table(true);
        let engine = open_large(&disk, &exec, &schema_of([table.clone()])).await;
        let mut keys: Vec<[u8; 1]> = (0..64).map(|key| [key]).collect();
        keys.sort_by_key(|key| Token::of_key(key));
        for keys in keys.chunks(4) {
            for key in keys {
                let rows: Vec<(i32, i32)> = (0..10).map(|c| (c, 5)).collect();
                shard::write(&engine, &record(&table, key, &rows, 1)).await.unwrap();
            }
            shard::flush(&engine).await;
        }
        assert_eq!(progress(&engine).files, 16);
        let command = select(&table, Operator::Equal, 5);
        assert_eq!(compare(&engine, &command, 7).await, 640);
        let mut first = command.clone();
        first.limits.rows = 1;
        engine.set_lookup_policy(LookupPolicy::Always);
        let asked = async || {
            let end = engine.read(&first, &mut Rows::default(), yield_now).await.unwrap();
            end.blocks + end.cached_blocks
        };
        // A block of terms of each to count them, and what the first file is asked for.
        let blocks = asked().await;
        assert!(blocks < 16 + 16, "{blocks} blocks of 16 files for one row");
    });
}

/// Before: a block of terms of each file was read, to find the value in one of them.
#[test]
fn a_value_that_one_row_has_is_read_from_the_file_that_has_it() {
    on_sim(74, async |_, disk, exec| {
        let table = table(true);
        let engine = open_large(&disk, &exec, &schema_of([table.clone()])).await;
        for file in 0..16 {
            for key in 0..4u8 {
                let first = 100_000 * file + 300 * i32::from(key);
                let rows: Vec<(i32, i32)> = (first..first + 300).map(|v| (v, v)).collect();
                shard::write(&engine, &record(&table, &[key], &rows, 1)).await.unwrap();
            }
            shard::flush(&engine).await;
        }
        assert_eq!(progress(&engine).files, 16);
        for v in [5, 700_123, 1_501_199] {
            assert_eq!(compare(&engine, &select(&table, Operator::Equal, v), 7).await, 1);
            engine.set_lookup_policy(LookupPolicy::Always);
            let command = select(&table, Operator::Equal, v);
            let end = engine.read(&command, &mut Rows::default(), yield_now).await.unwrap();
            let asked = end.blocks + end.cached_blocks;
            assert!(end.rows == 1 && asked < 16, "{asked} blocks of 16 files for one row");
        }
        for absent in [1200, 1_600_000] {
            assert_eq!(compare(&engine, &select(&table, Operator::Equal, absent), 7).await, 0);
        }
    });
}

/// Before: terms all places of which were given took their time without a pause, and each page has more of them.
#[test]
fn terms_whose_places_were_given_are_work() {
    on_sim(43, async |_, disk, exec| {
        let table = table(true);
        make(&disk, &config(1)).await;
        let engine = open(&disk, &exec, 2, &schema_of([table.clone()])).await;
        for from in (0..2000).step_by(100) {
            let rows: Vec<(i32, i32)> = (from..from + 100).map(|c| (c, c)).collect();
            shard::write(&engine, &record(&table, b"k", &rows, 1)).await.unwrap();
        }
        shard::flush(&engine).await;
        engine.set_lookup_policy(LookupPolicy::Always);
        let mut command = select(&table, Operator::GreaterOrEqual, 0);
        command.limits.page_rows = 1990;
        let mut rows = Rows::default();
        let end = engine.read(&command, &mut rows, yield_now).await.unwrap();
        command.resume = end.more;
        let pauses = Slot::new(0);
        let pause = async || pauses.set(pauses.get() + 1);
        engine.read(&command, &mut rows, pause).await.unwrap();
        assert_eq!(rows.0.len(), 2000);
        assert!(pauses.get() > 1900 / 160, "{} pauses among 1990 terms", pauses.get());
    });
}

/// A shard that takes [`write_many`].
async fn open_large(disk: &Disk, exec: &SimExec, schema: &Schema) -> Rc<Engine> {
    let log = |seed| commitlog::Config { segment_bytes: 1 << 20, ..commitlog::Config::new(seed) };
    let large = |seed| Config { memory_bytes: 64 << 20, log: log(seed), ..config(seed) };
    make(disk, &large(1)).await;
    shard::open(disk, exec, large(2), schema).await
}

/// Enough rows that the sort of their terms is written out.
async fn write_many(engine: &Engine, table: &Table) {
    for from in (0..18_000).step_by(250) {
        let rows: Vec<(i32, i32)> = (from..from + 250).map(|c| (c, c * 7)).collect();
        shard::write(engine, &record(table, b"k", &rows, 1)).await.unwrap();
    }
}

/// Before: what was sorted so far stayed, and made a full disk fuller with every try.
#[test]
fn a_flush_that_fails_leaves_nothing_of_its_indexes() {
    let failed = Rc::new(Slot::new(0));
    for nth in (0..64).step_by(5) {
        let failed = failed.clone();
        on_sim(47, async move |sim, disk, exec| {
            let table = table(true);
            let engine = open_large(&disk, &exec, &schema_of([table.clone()])).await;
            write_many(&engine, &table).await;
            let fail_errno = Some(libc::ENOSPC);
            sim.set_faults(Faults { fail_op: Some(nth), fail_errno, ..Faults::default() });
            let is_failed = engine.flush_all(1, yield_now).await.is_err();
            sim.set_faults(Faults::default());
            failed.set(failed.get() + u32::from(is_failed));
            let files = sim.files_of(&layout::table_dir(TABLE.0));
            let runs = files.iter().filter(|file| file.name().contains(".run")).count();
            // The operation may have been that which removes one.
            assert!(runs <= 1, "operation {nth} leaves {runs} runs");
            // A manifest that may name the sstable keeps both.
            let kept = |end| files.iter().filter(|file| file.name().ends_with(end)).count();
            assert!(kept(".idx") <= kept(".sst"), "operation {nth}");
            // With an edit of the manifest that failed all ends.
            if is_failed && engine.flush_all(1, yield_now).await.is_err() {
                return;
            }
            shard::run_jobs(&engine, 1000).await;
            assert_eq!(progress(&engine).files, 1);
            assert_eq!(compare(&engine, &select(&table, Operator::Equal, 700), 3).await, 1);
        });
    }
    assert!(failed.get() > 4, "{} flushes failed", failed.get());
}

/// Before: a flush that had begun before left the file of the dropped index for as long as its sstable lived.
#[test]
fn an_index_dropped_during_a_flush_leaves_no_file() {
    for nth in [1, 4, 16] {
        on_sim(53, async move |sim, disk, exec| {
            let indexed = table(true);
            let engine = open_large(&disk, &exec, &schema_of([indexed.clone()])).await;
            write_many(&engine, &indexed).await;
            let (pauses, during) = (Slot::new(0), engine.clone());
            let pause = async || {
                pauses.set(pauses.get() + 1);
                if pauses.get() == nth {
                    let mut dropped = indexed.clone();
                    assert!(dropped.drop_index("t_v"));
                    during.set_schema(&schema_of([dropped]));
                    shard::run_jobs(&during, 1).await;
                }
                yield_now().await;
            };
            engine.flush_all(1, pause).await.unwrap();
            assert!(pauses.get() >= nth, "dropped meanwhile");
            shard::run_jobs(&engine, 1).await;
            assert_eq!(index_files(&sim), [], "pause {nth}");
        });
    }
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

/// Before: the index files of what was deleted before the error stayed until the next start.
#[test]
fn files_that_are_deleted_before_an_error_take_their_indexes_with_them() {
    for nth in 0..40 {
        on_sim(79, async move |sim, disk, exec| {
            let table = table(true);
            let engine = open_large(&disk, &exec, &schema_of([table.clone()])).await;
            for time in 1..6 {
                shard::write(&engine, &record(&table, b"k", &[(1, 1)], time)).await.unwrap();
                shard::flush(&engine).await;
            }
            assert_eq!(index_files(&sim).len(), 5);
            sim.set_faults(Faults { fail_op: Some(nth), ..Faults::default() });
            let emptied = engine.truncate(TABLE).await;
            sim.set_faults(Faults::default());
            if emptied.is_ok() {
                assert_eq!(index_files(&sim), []);
            }
            let files = sim.files_of(&layout::table_dir(TABLE.0));
            let is_alone = |path: &&RelPath| {
                let sstable = path.name().rsplit_once('-').unwrap().0;
                !files.iter().any(|file| file.name() == format!("{sstable}.sst"))
            };
            let alone = index_files(&sim).iter().filter(is_alone).count();
            // The operation may have been that which removes one.
            assert!(alone <= 1, "{alone} after operation {nth}: {emptied:?}");
        });
    }
}
