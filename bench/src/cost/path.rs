//! The paths whose cost is counted.
//!
//! ```text
//! statement-*   frame ─► the server's executor, shard and engine ─► frame       `frame.rs` sends and receives
//! engine-*               a record or a command ─► engine                        `shard.rs` drives its log
//! disk-*                                   the block writes alone               taken off the durable writes
//! ```
//!
//! 1. Load the records, or write what is flushed, merged or gone over. Build every input.
//! 2. Of point reads and writes: run some operations, until buffers and caches have their size.
//! 3. Count what runs inside `measured_region`, and nothing else.
//!
//! Invariants
//! 1. Inputs are built before anything is counted, and results are checked: the record is there, the sum is right, four
//!    files became one.
//! 2. Keys come in an order that the processor does not foresee (`strewn`).
//! 3. Nothing is flushed or merged while other paths are counted: the memory is large enough.
//! 4. The number of operations is a multiple of 16: statements that go 16 together are not sent for the rest, and would
//!    be counted too low.
//!
//! Not here: how allocations and instructions are counted (`allocations.rs`, `callgrind.rs`), the table
//! (`bench/src/bin/cost.rs`), costs through the socket (`compare/work.rs`).

use std::hint::black_box;
use std::ops::Range;

use engine::Engine;
use engine::limits::{LOG_BLOCK_BYTES_MAX, WRITE_ALIGN_BYTES};
use model::read::{Flow, PartitionRef, ReadCommand, RowSink};
use model::row::RowRef;

use super::allocations;
use super::frame::Desk;
use super::measured_region;
use super::shard::{Driver, Shape, TABLE, at_once, with_engine, with_log_file};

/// Records that are there before anything is counted. Tests only look whether each path runs.
const LOADED: u64 = if cfg!(test) { LOAD_BATCH } else { 10_000 };
/// Records that are loaded with one commit.
const LOAD_BATCH: u64 = 200;
/// Operations before those that count: buffers grow to their size, caches to their content.
const WARMUP: u64 = if cfg!(test) { TOGETHER } else { 1_000 };

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The engine's part of a point read of a row that is in memory.
    EngineRead,
    /// The engine's part of a single-row write that has a commit of its own.
    EngineWriteAlone,
    /// The same with 16 writes in each commit.
    EngineWriteTogether,
    /// A record's way from a memtable to an sstable, the proof that the file can be read included.
    EngineFlush,
    /// A record's way through a merge of four sstables that share no key, into one.
    EngineMerge,
    /// A prepared point read of a row that is in memory, from frame to frame.
    StatementRead,
    /// The same for rows of another core, 16 in a batch: what both cores spend.
    StatementReadAcross,
    /// A prepared single-row write that has a commit of its own, from frame to frame.
    StatementWriteAlone,
    /// The same with 16 writes in each commit.
    StatementWriteTogether,
    /// A prepared conditional update that applies, 16 in a commit, from frame to frame.
    StatementChangeTogether,
    /// A prepared increment of a counter that has a commit of its own, from frame to frame.
    StatementIncrementAlone,
    /// The same with 16 increments in each commit.
    StatementIncrementTogether,
    /// A row of a memtable that `count(*)` goes over.
    StatementCount,
    /// A row of a memtable that a condition is asked of, and of every second one a column that is added up.
    StatementFilter,
    /// Not a path: what the simulated disk itself costs in `EngineWriteAlone`.
    DiskAlone,
    /// The same for `EngineWriteTogether`.
    DiskTogether,
}

/// The second at which flushes and merges run: nothing expires.
const NOW_S: u32 = 1;

/// Writes of one commit, or reads of another core's rows, when they are together.
const TOGETHER: u64 = 16;

/// What one operation cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// Allocations for one operation.
    pub allocations: f64,
    /// Bytes that they asked for.
    pub bytes: f64,
}

impl Path {
    /// All paths, in the order of the table.
    pub const ALL: [Path; 14] = [
        Path::StatementRead,
        Path::StatementReadAcross,
        Path::StatementWriteAlone,
        Path::StatementWriteTogether,
        Path::StatementChangeTogether,
        Path::StatementIncrementAlone,
        Path::StatementIncrementTogether,
        Path::StatementCount,
        Path::StatementFilter,
        Path::EngineRead,
        Path::EngineWriteAlone,
        Path::EngineWriteTogether,
        Path::EngineFlush,
        Path::EngineMerge,
    ];

    /// The path called `name`, those that are no paths included.
    pub fn named(name: &str) -> Option<Path> {
        let all = Path::ALL.into_iter().chain([Path::DiskAlone, Path::DiskTogether]);
        all.into_iter().find(|path| path.name() == name)
    }

    /// What to take off, because only the simulator spends it.
    pub fn baseline(self) -> Option<Path> {
        match self {
            Path::EngineWriteAlone | Path::StatementWriteAlone => Some(Path::DiskAlone),
            Path::EngineWriteTogether | Path::StatementWriteTogether => Some(Path::DiskTogether),
            _ => None,
        }
    }

    /// What the command line calls it.
    pub fn name(self) -> &'static str {
        match self {
            Path::EngineRead => "engine-read",
            Path::EngineWriteAlone => "engine-write-alone",
            Path::EngineWriteTogether => "engine-write-together",
            Path::EngineFlush => "engine-flush",
            Path::EngineMerge => "engine-merge",
            Path::StatementRead => "statement-read",
            Path::StatementReadAcross => "statement-read-across",
            Path::StatementWriteAlone => "statement-write-alone",
            Path::StatementWriteTogether => "statement-write-together",
            Path::StatementChangeTogether => "statement-change-together",
            Path::StatementIncrementAlone => "statement-increment-alone",
            Path::StatementIncrementTogether => "statement-increment-together",
            Path::StatementCount => "statement-count",
            Path::StatementFilter => "statement-filter",
            Path::DiskAlone => "disk-alone",
            Path::DiskTogether => "disk-together",
        }
    }

    /// What the table calls it.
    pub fn title(self) -> &'static str {
        match self {
            Path::StatementRead => "prepared cached point read",
            Path::StatementReadAcross => {
                "prepared cached point read of another core's row, 16 in a batch, both cores"
            }
            Path::StatementWriteAlone => "prepared durable write, alone in its commit",
            Path::StatementWriteTogether => "prepared durable write, 16 in a commit",
            Path::StatementChangeTogether => {
                "prepared conditional update that applies, 16 in a commit, simulated disk included"
            }
            Path::StatementIncrementAlone => {
                "prepared increment of a counter, alone in its commit, simulated disk included"
            }
            Path::StatementIncrementTogether => {
                "prepared increment of a counter, 16 in a commit, simulated disk included"
            }
            Path::StatementCount => "a row of (p, n, v, w) that `count(*)` counts in memory",
            Path::StatementFilter => {
                "such a row for `sum(w) .. WHERE v >= ? ALLOW FILTERING`, which takes every second"
            }
            Path::EngineRead => "of which the engine: cached point read",
            Path::EngineWriteAlone => "of which the engine: durable write, alone in its commit",
            Path::EngineWriteTogether => "of which the engine: durable write, 16 in a commit",
            Path::EngineFlush => {
                "flush of a record that does not compress, simulated disk included"
            }
            Path::EngineMerge => {
                "merge of such records, four sstables into one, simulated disk included"
            }
            Path::DiskAlone | Path::DiskTogether => "the simulated disk",
        }
    }

    /// Runs `operations` of it, counted.
    pub fn run(self, shape: &Shape, operations: u64) -> Counted {
        match self {
            Path::EngineRead => engine_read(shape, operations),
            Path::EngineWriteAlone => engine_write(shape, operations, 1),
            Path::EngineWriteTogether => engine_write(shape, operations, TOGETHER),
            Path::EngineFlush => engine_flush(shape, operations),
            Path::EngineMerge => engine_merge(shape, operations),
            Path::StatementRead => statement_read(shape, operations),
            Path::StatementReadAcross => statement_read_across(shape, operations),
            Path::StatementWriteAlone => statement_write(shape, operations, 1, Desk::write_frame),
            Path::StatementWriteTogether => {
                statement_write(shape, operations, TOGETHER, Desk::write_frame)
            }
            Path::StatementChangeTogether => {
                statement_write(shape, operations, TOGETHER, Desk::change_frame)
            }
            Path::StatementIncrementAlone => {
                statement_write(shape, operations, 1, Desk::increment_frame)
            }
            Path::StatementIncrementTogether => {
                statement_write(shape, operations, TOGETHER, Desk::increment_frame)
            }
            Path::StatementCount => {
                statement_over_rows(shape, operations, Desk::count_frame, operations)
            }
            Path::StatementFilter => {
                let odd_numbers = (0..operations).filter(|number| number % 2 == 1).sum();
                statement_over_rows(shape, operations, Desk::filter_frame, odd_numbers)
            }
            Path::DiskAlone => disk(shape, operations, 1),
            Path::DiskTogether => disk(shape, operations, TOGETHER),
        }
    }
}

/// Counts allocations of `run`, for each of `operations`.
fn counted(operations: u64, run: impl FnOnce()) -> Counted {
    let before = allocations::so_far();
    measured_region(run);
    let after = allocations::so_far();
    let each = |after: u64, before: u64| (after - before) as f64 / operations as f64;
    Counted { allocations: each(after.0, before.0), bytes: each(after.1, before.1) }
}

/// Takes rows as an answer does: every value is copied to the end of one buffer.
struct Reply(Vec<u8>);

impl RowSink for Reply {
    fn row(&mut self, _: &PartitionRef<'_>, _: Option<&[u8]>, row: Option<RowRef<'_>>) -> Flow {
        for cell in row.iter().flat_map(RowRef::cells) {
            self.0.extend_from_slice(&(cell.value.len() as u32).to_be_bytes());
            self.0.extend_from_slice(cell.value);
        }
        Flow::More
    }
}

fn load(engine: &Engine, driver: &mut Driver<'_>, shape: &Shape) {
    for batch in 0..LOADED / LOAD_BATCH {
        for number in batch * LOAD_BATCH..(batch + 1) * LOAD_BATCH {
            engine.write(&shape.record(number, 1), number).expect("there is space");
        }
        driver.commit(engine, LOAD_BATCH as usize);
    }
}

/// Keys in an order that no cache of the processor foresees.
fn strewn(turn: u64) -> u64 {
    turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) % LOADED
}

fn engine_read(shape: &Shape, operations: u64) -> Counted {
    with_engine(shape, |engine, driver| {
        load(engine, driver, shape);
        let commands: Vec<ReadCommand> = (0..LOADED).map(|number| shape.read(number)).collect();
        let mut reply = Reply(Vec::new());
        let mut read = |turn: u64| {
            reply.0.clear();
            let command = &commands[strewn(turn) as usize];
            let end = engine.read_cached(black_box(command), &mut reply).expect("it is in memory");
            assert!(end.rows == 1, "the record is there");
        };
        (0..WARMUP).for_each(&mut read);
        counted(operations, || (0..operations).for_each(&mut read))
    })
}

fn engine_write(shape: &Shape, operations: u64, together: u64) -> Counted {
    with_engine(shape, |engine, driver| {
        load(engine, driver, shape);
        let all = WARMUP + operations;
        let records: Vec<Vec<u8>> =
            (0..all).map(|turn| shape.record(strewn(turn), 2 + turn as i64)).collect();
        let mut write = |range: std::ops::Range<u64>| {
            for turn in range.clone() {
                let record = black_box(&records[turn as usize]);
                engine.write(record, turn).expect("there is space");
            }
            driver.commit(engine, (range.end - range.start) as usize);
        };
        let mut batches = |from: u64, to: u64| {
            (from..to).step_by(together as usize).for_each(|at| write(at..to.min(at + together)));
        };
        batches(0, WARMUP);
        counted(operations, || batches(WARMUP, all))
    })
}

/// Writes so many records, from `first` on, into the memtable.
fn fill(engine: &Engine, driver: &mut Driver<'_>, shape: &Shape, numbers: Range<u64>) {
    let count = (numbers.end - numbers.start) as usize;
    for number in numbers {
        engine.write(&shape.noise_record(number, 1), number).expect("there is space");
    }
    driver.commit(engine, count);
}

fn engine_flush(shape: &Shape, operations: u64) -> Counted {
    with_engine(shape, |engine, driver| {
        fill(engine, driver, shape, 0..operations);
        counted(operations, || flush(engine))
    })
}

fn engine_merge(shape: &Shape, operations: u64) -> Counted {
    const FILES: u64 = 4;
    with_engine(shape, |engine, driver| {
        let quarter = operations / FILES;
        for file in 0..FILES {
            fill(engine, driver, shape, file * quarter..(file + 1) * quarter);
            flush(engine);
        }
        let merged = counted(quarter * FILES, || {
            let request = engine.request_major(TABLE);
            let done = at_once(engine.compact_major(&request, NOW_S, no_pause));
            assert!(done.expect("the simulated disk has no faults"), "nothing else compacts");
        });
        let sstables = engine.table_size(TABLE).expect("the table is there").sstables;
        assert!(sstables == 1, "four files became one");
        merged
    })
}

fn flush(engine: &Engine) {
    at_once(engine.flush_all(NOW_S, no_pause)).expect("the simulated disk has no faults");
}

async fn no_pause() {}

fn statement_read(shape: &Shape, operations: u64) -> Counted {
    let mut desk = loaded(shape, 1);
    let frame = |number| {
        let mut frame = Vec::new();
        desk.read_frame(shape, number, &mut frame);
        frame
    };
    let frames: Vec<Vec<u8>> = (0..LOADED).map(frame).collect();
    let mut read = |turn: u64| {
        desk.take(black_box(&frames[strewn(turn) as usize]));
        let bytes = black_box(desk.send());
        assert!(bytes > shape.record_bytes(), "the record is there");
    };
    (0..WARMUP).for_each(&mut read);
    counted(operations, || (0..operations).for_each(&mut read))
}

fn statement_read_across(shape: &Shape, operations: u64) -> Counted {
    let mut desk = loaded(shape, 2);
    let mut remote = Vec::new();
    for number in (0..LOADED).map(strewn) {
        let mut frame = Vec::new();
        desk.read_frame(shape, number, &mut frame);
        desk.take(&frame);
        // Only another core's row is not answered at once.
        let is_remote = desk.send() == 0;
        if is_remote {
            desk.settle();
            desk.send();
            remote.push(frame);
        }
    }
    let batches: Vec<Vec<u8>> = remote.chunks_exact(TOGETHER as usize).map(<[_]>::concat).collect();
    let mut read = |batch: u64| {
        desk.take(black_box(&batches[batch as usize % batches.len()]));
        desk.settle();
        let bytes = black_box(desk.send());
        assert!(bytes > shape.record_bytes() * TOGETHER as usize, "the records are there");
    };
    (0..WARMUP / TOGETHER).for_each(&mut read);
    counted(operations, || (0..operations / TOGETHER).for_each(&mut read))
}

/// Puts the frame of one write of a key into the input.
type WriteFrame = fn(&Desk, &Shape, u64, &mut Vec<u8>);

fn statement_write(shape: &Shape, operations: u64, together: u64, frame: WriteFrame) -> Counted {
    let mut desk = loaded(shape, 1);
    let all = WARMUP + operations;
    let inputs: Vec<Vec<u8>> = (0..all / together)
        .map(|batch| {
            let (mut input, turns) = (Vec::new(), batch * together..(batch + 1) * together);
            turns.for_each(|turn| frame(&desk, shape, strewn(turn), &mut input));
            input
        })
        .collect();
    let mut write = |batch: usize| {
        desk.take(black_box(&inputs[batch]));
        desk.settle();
        black_box(desk.send());
    };
    let warm = (WARMUP / together) as usize;
    (0..warm).for_each(&mut write);
    let last = warm + (operations / together) as usize;
    counted(operations, || (warm..last).for_each(&mut write))
}

/// One statement over so many rows, which are small whatever the shape, and answered with one number.
fn statement_over_rows(
    shape: &Shape,
    rows: u64,
    frame: fn(&Desk, &mut Vec<u8>),
    expected: u64,
) -> Counted {
    let mut desk = Desk::new(shape, 1);
    write_in_batches(&mut desk, rows, Desk::write_row_frame);
    let mut input = Vec::new();
    frame(&desk, &mut input);
    assert_eq!(desk.number(&input), expected, "all rows are gone over");
    counted(rows, || {
        desk.take(black_box(&input));
        desk.settle();
        black_box(desk.send());
    })
}

/// Writes so many rows, [`LOAD_BATCH`] of them with one commit.
fn write_in_batches(desk: &mut Desk, rows: u64, frame: impl Fn(&Desk, u64, &mut Vec<u8>)) {
    for first in (0..rows).step_by(LOAD_BATCH as usize) {
        let mut input = Vec::new();
        let numbers = first..rows.min(first + LOAD_BATCH);
        numbers.for_each(|number| frame(desk, number, &mut input));
        desk.take(&input);
        desk.settle();
        desk.send();
    }
}

/// A server of `shards` cores that has every record.
fn loaded(shape: &Shape, shards: usize) -> Desk {
    let mut desk = Desk::new(shape, shards);
    write_in_batches(&mut desk, LOADED, |desk, number, input| {
        desk.write_frame(shape, number, input);
    });
    desk
}

/// The block writes that `engine_write` makes, without the engine.
fn disk(shape: &Shape, operations: u64, together: u64) -> Counted {
    let records = shape.record(0, 1).len() * together as usize;
    with_log_file(|file| {
        let mut offset = 0;
        let mut commit = || {
            let mut buf = file.buf(LOG_BLOCK_BYTES_MAX);
            buf.put_zeros(records);
            buf.pad_to(WRITE_ALIGN_BYTES);
            let bytes = buf.len() as u64;
            at_once(file.write_at(buf, offset)).expect("the simulated disk has no faults");
            offset += bytes;
        };
        (0..WARMUP / together).for_each(|_| commit());
        counted(operations, || (0..operations / together).for_each(|_| commit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_runs() {
        for path in Path::ALL.into_iter().chain([Path::DiskTogether]) {
            for shape in [Shape::SCYLLA, Shape::YCSB] {
                path.run(&shape, 32);
            }
        }
    }
}
