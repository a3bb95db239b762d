//! What reads cost in device reads, counted: ranges over runs of parts, slices of wide partitions and of time series,
//! and rows behind deleted stretches (`read_costs/deleted.rs`). Each question is asked of a shard that was just opened,
//! so nothing is cached.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::ops::Range;
use std::rc::Rc;

use engine::io::{Crash, Disk, Faults, IoClass, SimDisk, SimExec};
use engine::{Config, Engine};
use futures_lite::future::yield_now;
use messina_engine as engine;
use model::cell::Life;
use model::mutation::{MutationBuilder, RangeTombstone};
use model::read::{Flow, Limits, PartitionRef, Partitions, ReadCommand, RowSink, Slice};
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::schema::TableBuilder;
use model::{ColumnId, CqlType, Deletion, Schema, Token, TokenRange};

use crate::shard::{self, TABLE, flush, make, merge_whole, schema_of, select_all};

mod deleted;

const KEY: i64 = 5;

fn schema() -> Schema {
    let table = TableBuilder::new("ks", "t", TABLE)
        .partition_key("k", CqlType::Bigint)
        .and_then(|b| b.clustering("c", CqlType::Int, false))
        .and_then(|b| b.regular("v", CqlType::Blob))
        .and_then(TableBuilder::build)
        .unwrap();
    schema_of([table])
}

fn config() -> Config {
    let config = shard::config(1);
    let log = engine::commitlog::Config { segment_bytes: 4 << 20, ..config.log };
    Config { log, memory_bytes: 64 << 20, ..config }
}

fn clustering(at: i32) -> Vec<u8> {
    let mut out = Vec::new();
    model::ordered::encode_component(&CqlType::Int, false, &at.to_be_bytes(), &mut out).unwrap();
    out
}

/// A key is its own token.
fn change(key: i64, fill: impl FnOnce(&mut MutationBuilder<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut m = MutationBuilder::begin(&mut out, TABLE, Token(key), &key.to_be_bytes());
    fill(&mut m);
    m.finish();
    out
}

fn rows(key: i64, rows: Range<i32>, timestamp: i64) -> Vec<u8> {
    change(key, |m| {
        for at in rows {
            // What a compressor cannot take away.
            let value = at.wrapping_mul(0x9E37_79B9_u32 as i32).to_be_bytes();
            m.row(&clustering(at), |out| {
                let cell = Cell::live(ColumnId(2), timestamp, &value);
                RowBuilder::begin(out, &RowHead::bare(timestamp)).cell(&cell);
            });
        }
    })
}

fn delete(key: i64, rows: Range<i32>, timestamp: i64) -> Vec<u8> {
    let (start, end) = (&clustering(rows.start), &clustering(rows.end));
    let deletion = Deletion { timestamp, local_s: 1 };
    change(key, |m| m.delete_range(&RangeTombstone { start, end, deletion }))
}

/// Opens the shard, with its log running.
async fn open(disk: &Disk, exec: &SimExec) -> Rc<Engine> {
    shard::open(disk, exec, config(), &schema()).await
}

async fn write(engine: &Engine, record: &[u8]) {
    shard::write(engine, record).await.unwrap();
}

/// A disk with a shard that these steps have filled.
fn filled(fill: impl AsyncFnOnce(&Engine) + 'static) -> SimDisk {
    let sim = SimDisk::new(1, Faults::default());
    let (disk, exec) = (Disk::Sim(sim.clone()), SimExec::new(1));
    let inner = exec.clone();
    exec.run(async move {
        make(&disk, &config()).await;
        fill(&*open(&disk, &inner).await).await;
    })
    .done();
    sim
}

#[derive(Default)]
struct Taken(Vec<(i64, i32)>);

impl RowSink for Taken {
    fn row(
        &mut self,
        p: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        _: Option<RowRef<'_>>,
    ) -> Flow {
        let mut at = Vec::new();
        let mut reader = model::ordered::Reader::new(clustering.unwrap());
        reader.component(&CqlType::Int, false, &mut at).unwrap();
        let at = i32::from_be_bytes(at.try_into().unwrap());
        self.0.push((i64::from_be_bytes(p.key.try_into().unwrap()), at));
        Flow::More
    }
}

/// Takes rows and keeps none.
struct Nothing;

impl RowSink for Nothing {
    fn row(&mut self, _: &PartitionRef<'_>, _: Option<&[u8]>, _: Option<RowRef<'_>>) -> Flow {
        Flow::More
    }
}

/// One question: which rows, how many of them, from which end.
#[derive(Clone)]
struct Question {
    partitions: Partitions,
    slice: Slice,
    limit: u64,
    reversed: bool,
}

fn of_key(slice: Range<i32>, limit: u64, reversed: bool) -> Question {
    let partitions = Partitions::Keys(vec![(Token(KEY), KEY.to_be_bytes().into())]);
    let slice = Slice { start: clustering(slice.start), end: clustering(slice.end) };
    Question { partitions, slice, limit, reversed }
}

impl Question {
    fn command(&self) -> ReadCommand {
        ReadCommand {
            partitions: self.partitions.clone(),
            slices: vec![self.slice.clone()],
            reversed: self.reversed,
            limits: Limits { rows: self.limit, ..Limits::none(1 << 20) },
            ..select_all(1)
        }
    }

    /// The rows, and the device reads they cost a shard that was just opened and then written to.
    fn ask(&self, sim: &SimDisk, written: Vec<Vec<u8>>) -> (Vec<(i64, i32)>, u64) {
        let (rows, reads, _) = self.ask_bytes(sim, written);
        (rows, reads)
    }

    /// The same, and the bytes that were read.
    fn ask_bytes(&self, sim: &SimDisk, written: Vec<Vec<u8>>) -> (Vec<(i64, i32)>, u64, u64) {
        let sim = sim.crash(1, Crash::Everything);
        let (disk, exec) = (Disk::Sim(sim.clone()), SimExec::new(1));
        let (inner, question) = (exec.clone(), self.clone());
        let answer = async move {
            let engine = open(&disk, &inner).await;
            for record in &written {
                write(&engine, record).await;
            }
            let read_bytes = || disk.counts().iter().map(|class| class.bytes).sum::<u64>();
            let (mut taken, before, bytes_before) = (Taken::default(), sim.ops(), read_bytes());
            engine.read(&question.command(), &mut taken, yield_now).await.unwrap();
            (taken.0, sim.ops() - before, read_bytes() - bytes_before)
        };
        exec.run(answer).done()
    }
}

fn list(rows: impl Iterator<Item = i32>) -> Vec<(i64, i32)> {
    rows.map(|at| (KEY, at)).collect()
}

#[test]
fn the_first_row_of_a_range_costs_a_read_however_many_pieces_there_are() {
    let sim = filled(async |engine| {
        for key in 0..100 {
            write(engine, &rows(key * 10, 0..20, 1)).await;
            flush(engine).await;
        }
        assert_eq!(engine.table_size(TABLE).unwrap().sstables, 100);
    });
    for (first, limit, reads) in [(0, 1, 1), (500, 1, 1), (500, 30, 2)] {
        let range = TokenRange { first: Token(first), last: Token::MAX };
        let partitions = Partitions::Range(range);
        let question = Question { partitions, slice: Slice::all(), limit, reversed: false };
        let (rows, cost) = question.ask(&sim, Vec::new());
        assert_eq!((rows[0], rows.len() as u64), ((first, 0), limit));
        assert_eq!(cost, reads, "from {first}, {limit} rows");
    }
}

#[test]
fn a_slice_of_a_wide_partition_costs_a_path_through_its_index_and_a_block() {
    const ROWS: i32 = 60_000;
    let sim = filled(async |engine| {
        for part in 0..30 {
            write(engine, &rows(KEY, part * 2000..(part + 1) * 2000, 1)).await;
        }
        flush(engine).await;
        assert_eq!(engine.table_size(TABLE).unwrap().sstables, 1);
    });
    for (start, end) in [(0, 10), (30_000, 30_010), (ROWS - 10, ROWS)] {
        for reversed in [false, true] {
            let (rows, cost) = of_key(start..end, 10, reversed).ask(&sim, Vec::new());
            let mut wanted = list(start..end);
            if reversed {
                wanted.reverse();
            }
            assert_eq!(rows, wanted);
            assert!(cost <= 4, "{cost} reads for {start}..{end}, {reversed}");
        }
    }
    let (rows, cost) = of_key(0..i32::MAX, 1, true).ask(&sim, Vec::new());
    assert_eq!(rows, list(ROWS - 1..ROWS));
    assert!(cost <= 3, "{cost} reads for the last row");
    // The root, a leaf, a block: of ten million rows, in files as large as a merge makes them, too.
    for at in [0, 1, ROWS / 2, ROWS - 1] {
        let question = Question { slice: Slice::row(clustering(at)), ..of_key(0..1, 1, false) };
        let (rows, cost) = question.ask(&sim, Vec::new());
        assert_eq!(rows, list(at..at + 1));
        assert!(cost <= 3, "{cost} reads for row {at} alone");
    }
}

#[test]
fn a_slice_of_a_time_series_touches_the_windows_that_it_needs() {
    let sim = filled(async |engine| {
        for window in 0..30 {
            write(engine, &rows(KEY, window * 1000..(window + 1) * 1000, i64::from(window))).await;
            if window == 20 {
                // It reaches over all of the next window, and none of its rows is there.
                write(engine, &delete(KEY, 20_900..22_100, 20)).await;
            }
            flush(engine).await;
        }
        assert_eq!(engine.table_size(TABLE).unwrap().sstables, 30);
    });
    // A window is a search over its seven blocks and one more where the slice ends.
    for (slice, limit, reversed, wanted, most) in [
        (29_500..i32::MAX, 10, false, list(29_500..29_510), 4),
        (0..i32::MAX, 1, true, list(29_999..30_000), 1),
        (0..i32::MAX, 1, false, list(0..1), 2),
        (5_100..5_110, 100, false, list(5_100..5_110), 4),
        (5_995..6_005, 100, true, list((5_995..6_005).rev()), 8),
        (40_000..50_000, 1, false, Vec::new(), 0),
        // The window is there, and the one before because of its deletion, which is older.
        (21_500..21_505, 100, false, list(21_500..21_505), 8),
        (20_890..21_005, 100, false, list((20_890..20_900).chain(21_000..21_005)), 8),
    ] {
        let (rows, cost) = of_key(slice.clone(), limit, reversed).ask(&sim, Vec::new());
        assert_eq!(rows, wanted, "{slice:?} {reversed}");
        println!("{slice:?} limit {limit} reversed {reversed}: {cost} reads");
        assert!(cost <= most, "{cost} reads for {slice:?}, {reversed}");
    }
}

/// Before: with a row in memory, all files between its place and the first row were opened for the first row.
#[test]
fn what_is_far_away_in_memory_opens_no_file_before_it() {
    let windows = filled(async |engine| {
        for window in 0..30 {
            write(engine, &rows(KEY, window * 1000..(window + 1) * 1000, i64::from(window))).await;
            flush(engine).await;
        }
    });
    for (at, first, reversed) in [(40_000, 0, false), (-1, 29_999, true)] {
        let question = of_key(i32::MIN..i32::MAX, 1, reversed);
        let (_, alone) = question.ask(&windows, Vec::new());
        let (taken, cost) = question.ask(&windows, vec![rows(KEY, at..at + 1, 40)]);
        assert_eq!(taken, list(first..first + 1));
        assert_eq!(cost, alone, "reads with a row in memory, and without");
    }
    // The third lies over the second alone.
    let files = filled(async |engine| {
        for keys in [[0, 0], [500, 600], [550, 650]] {
            let records = keys.map(|key| rows(key, 0..20, 1));
            write(engine, &records.concat()).await;
            flush(engine).await;
        }
    });
    let partitions = Partitions::Range(TokenRange::ALL);
    let question = Question { partitions, slice: Slice::all(), limit: 1, reversed: false };
    let (taken, cost) = question.ask(&files, vec![rows(900, 0..1, 2)]);
    assert_eq!((taken, cost), (vec![(0, 0)], 1));
}

/// Before: with one file over all windows, the first row opened all of them.
#[test]
fn a_file_that_lies_over_all_windows_opens_none_of_them_early() {
    let sim = filled(async |engine| {
        for window in 0..30 {
            write(engine, &rows(KEY, window * 1000..(window + 1) * 1000, 1)).await;
            flush(engine).await;
        }
        let late = [rows(KEY, 10..11, 2), rows(KEY, 29_990..29_991, 2)];
        write(engine, &late.concat()).await;
        flush(engine).await;
    });
    for (first, reversed) in [(0, false), (29_999, true)] {
        let (rows, cost) = of_key(0..i32::MAX, 1, reversed).ask(&sim, Vec::new());
        assert_eq!(rows, list(first..first + 1));
        assert!(cost <= 3, "{cost} reads, {reversed}");
    }
}

/// Before: files of one partition that touch at their ends, as those of two flushes do, were opened two at a time.
#[test]
fn a_slice_inside_one_of_the_files_that_touch_opens_that_one() {
    const ROWS: i32 = 20_000;
    let sim = filled(async |engine| {
        for file in 0..3 {
            // Twenty rows lie in two files each, as those that were in flight when a memtable was flushed.
            for part in 0..20 {
                let first = file * ROWS + part * ROWS / 20;
                write(engine, &rows(KEY, first - 20..first + ROWS / 20, i64::from(file))).await;
            }
            flush(engine).await;
        }
        assert_eq!(engine.table_size(TABLE).unwrap().sstables, 3);
    });
    let middle = ROWS + ROWS / 2;
    for reversed in [false, true] {
        let slice = if reversed { -20..middle } else { middle..3 * ROWS };
        let (taken, cost) = of_key(slice, 10, reversed).ask(&sim, Vec::new());
        let wanted =
            if reversed { list((middle - 10..middle).rev()) } else { list(middle..middle + 10) };
        assert_eq!(taken, wanted);
        // A node of the index and a block.
        assert!(cost <= 2, "{cost} reads, {reversed}");
    }
}

/// One partition in fragments of a run, each of several blocks.
async fn merge_into_fragments(engine: &Engine, rows_count: i32) {
    for part in 0..20 {
        write(engine, &rows(KEY, part * rows_count / 20..(part + 1) * rows_count / 20, 1)).await;
    }
    flush(engine).await;
    engine.set_fragment_bytes_min(FRAGMENT_BYTES);
    merge_whole(engine, 1).await;
}

const FRAGMENT_BYTES: u64 = 50_000;

/// A merge of all fragments is at the first of them: what lies behind it is as unread as before.
#[test]
fn the_first_row_of_a_partition_that_is_merged_costs_no_read_of_its_later_fragments() {
    const ROWS: i32 = 100_000;
    for at_old_place in [false, true] {
        let sim = filled(async move |engine| {
            merge_into_fragments(engine, ROWS).await;
            let sstables = engine.table_size(TABLE).unwrap().sstables;
            for at in [5, ROWS / 8] {
                write(engine, &rows(KEY, at..at + 1, 2)).await;
            }
            flush(engine).await;
            let adopted = engine.stats().compaction_fragments;
            let request = engine.request_major(TABLE);
            let merge = async {
                engine.compact_major(&request, 1, async || yield_now().await).await.unwrap();
                panic!("it is stopped before that");
            };
            let is_begun = async {
                while engine.stats().compaction_fragments < adopted + 2 {
                    yield_now().await;
                }
            };
            futures_lite::future::or(is_begun, merge).await;
            let size = engine.table_size(TABLE).unwrap();
            assert!(size.runs == 3 && size.sstables >= sstables, "{size:?}");
        });
        let slice = if at_old_place { ROWS / 2..ROWS } else { 0..i32::MAX };
        let (rows, cost) = of_key(slice.clone(), 1, false).ask(&sim, Vec::new());
        assert_eq!(rows, list(slice.start..slice.start + 1));
        println!("{cost} reads from {}", slice.start);
        assert!(cost <= 10, "{cost} reads of one row");
    }
}

/// A row that lies in many files, newest first: whole in some, of the others a file has one column.
#[test]
fn a_row_in_pieces_is_read_back_to_where_it_is_whole() {
    const FILES: usize = 9;
    for (whole, reads) in [(0, 1), (1, 3), (2, 3), (3, 7), (8, 9)] {
        let sim = filled(async move |engine| {
            for file in (0..FILES).rev() {
                let timestamp = (FILES - file) as i64;
                let record = change(KEY, |m| {
                    m.row(&clustering(1), |out| {
                        let mut row = RowBuilder::begin(out, &RowHead::bare(timestamp));
                        // The columns of a row that is not whole are those of another.
                        let column = if file == whole { 2 } else { 9 };
                        row.cell(&Cell::live(ColumnId(column), timestamp, b"v"));
                    });
                });
                write(engine, &record).await;
                flush(engine).await;
            }
            assert_eq!(engine.table_size(TABLE).unwrap().sstables, FILES as u64);
        });
        let mut question = of_key(0..0, 1, false);
        question.slice = Slice::row(clustering(1));
        let (rows, cost) = question.ask(&sim, Vec::new());
        assert_eq!((rows, cost), (list(1..2), reads), "whole in file {whole}");
    }
}

/// The file of a marker must not be left out where a newer one has settled the row: the next one may kill all that was
/// found of it.
#[test]
fn a_marker_in_the_oldest_file_keeps_a_row_whose_cells_a_middle_file_kills() {
    let sim = filled(async |engine| {
        // Newest timestamp of each file: 8, 20 and 30. What is found in that of 30 is the older of the two values.
        let marker = RowHead { marker: Some(Life::Live), ..RowHead::bare(5) };
        let (dead, live) = (Cell::dead(ColumnId(2), 15, 1), Cell::live(ColumnId(2), 10, b"v"));
        for (newest, head, cell) in [
            (8, marker, None),
            (20, RowHead::bare(15), Some(dead)),
            (30, RowHead::bare(10), Some(live)),
        ] {
            let record = change(KEY, |m| {
                m.row(&clustering(1), |out| {
                    let mut row = RowBuilder::begin(out, &head);
                    cell.iter().for_each(|cell| row.cell(cell));
                });
                m.row(&clustering(2), |out| {
                    let cell = Cell::live(ColumnId(2), newest, b"v");
                    RowBuilder::begin(out, &RowHead::bare(newest)).cell(&cell);
                });
            });
            write(engine, &record).await;
            flush(engine).await;
        }
        assert_eq!(engine.table_size(TABLE).unwrap().sstables, 3);
    });
    let mut question = of_key(0..0, 1, false);
    question.slice = Slice::row(clustering(1));
    assert_eq!(question.ask(&sim, Vec::new()), (list(1..2), 3));
}

/// The columns that a compact table hides were awaited in every file: each read of a row opened all of them.
#[test]
fn a_row_of_a_compact_table_is_read_back_to_where_it_is_whole() {
    const FILES: i64 = 5;
    let compact = |table: model::Result<TableBuilder>| {
        schema_of([table.and_then(TableBuilder::compact).and_then(TableBuilder::build).unwrap()])
    };
    let keyed = || TableBuilder::new("ks", "t", TABLE).partition_key("k", CqlType::Bigint);
    let of_statics = compact(keyed().and_then(|table| table.stat("v", CqlType::Blob)));
    let dense = compact(keyed().and_then(|table| table.clustering("c", CqlType::Int, false)));
    for schema in [of_statics, dense] {
        let table = schema.table_by_id(TABLE).unwrap();
        let is_static = table.is_static_compact();
        let column = match table.statics().next() {
            Some(column) => column.id,
            None => table.compact_value().unwrap().id,
        };
        let sim = SimDisk::new(1, Faults::default());
        let exec = SimExec::new(1);
        let (inner, disk) = (exec.clone(), Disk::Sim(sim.clone()));
        let filled = schema.clone();
        exec.run(async move {
            make(&disk, &config()).await;
            let engine = shard::open(&disk, &inner, config(), &filled).await;
            for timestamp in 1..=FILES {
                let put = |out: &mut Vec<u8>| {
                    let cell = Cell::live(column, timestamp, b"");
                    RowBuilder::begin(out, &RowHead::bare(timestamp)).cell(&cell);
                };
                let record = change(KEY, |m| match is_static {
                    true => m.static_row(put),
                    false => m.row(&clustering(1), put),
                });
                write(&engine, &record).await;
                flush(&engine).await;
            }
            assert_eq!(engine.table_size(TABLE).unwrap().sstables, FILES as u64);
        })
        .done();
        let sim = sim.crash(1, Crash::Everything);
        let (exec, disk) = (SimExec::new(1), Disk::Sim(sim.clone()));
        let inner = exec.clone();
        let reads = exec.run(async move {
            let engine = shard::open(&disk, &inner, config(), &schema).await;
            let mut question = of_key(0..0, 1, false).command();
            question.slices = vec![Slice::row(if is_static { Vec::new() } else { clustering(1) })];
            question.static_alone = is_static;
            let before = sim.ops();
            engine.read(&question, &mut Nothing, yield_now).await.unwrap();
            sim.ops() - before
        });
        assert_eq!(reads.done(), 1, "static: {is_static}");
    }
}

/// A flush is over when its file was read back: those reads had the weight of a compaction.
#[test]
fn a_flush_reads_its_file_back_as_a_flush() {
    let sim = filled(async |engine| {
        for key in 0..64 {
            write(engine, &rows(key, 0..400, 1)).await;
        }
        flush(engine).await;
    });
    let counts = Disk::Sim(sim).counts();
    let [flushed, checked] = [IoClass::Flush, IoClass::Check].map(|class| counts[class as usize]);
    assert!(flushed.bytes > 400 << 10, "written and read: {flushed:?}");
    assert!(checked.bytes < flushed.bytes / 8, "what opening reads: {checked:?}");
}
