//! The paths whose cost is counted.

use super::allocations;
use super::measured_region;
use super::shard::{Shape, with_engine};
use engine::Engine;
use model::read::{Flow, PartitionRef, ReadCommand, RowSink};
use model::row::RowRef;
use std::hint::black_box;

/// Records that are there before anything is counted.
const LOADED: u64 = 10_000;
/// Operations before those that count: buffers grow to their size, caches to their content.
const WARMUP: u64 = 1_000;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The engine's part of a point read of a row that is in memory.
    EngineRead,
    /// The engine's part of a single-row write that has a commit of its own.
    EngineWriteAlone,
    /// The same with 16 writes in each commit.
    EngineWriteTogether,
}

/// What one operation cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// Allocations.
    pub allocations: f64,
    /// Bytes that they asked for.
    pub bytes: f64,
}

impl Path {
    /// All paths.
    pub const ALL: [Path; 3] =
        [Path::EngineRead, Path::EngineWriteAlone, Path::EngineWriteTogether];

    /// What the command line calls it.
    pub fn name(self) -> &'static str {
        match self {
            Path::EngineRead => "engine-read",
            Path::EngineWriteAlone => "engine-write-alone",
            Path::EngineWriteTogether => "engine-write-together",
        }
    }

    /// What the table calls it.
    pub fn title(self) -> &'static str {
        match self {
            Path::EngineRead => "engine: cached point read",
            Path::EngineWriteAlone => "engine: durable write, alone in its commit",
            Path::EngineWriteTogether => "engine: durable write, 16 in a commit",
        }
    }

    /// Runs `operations` of it, counted.
    pub fn run(self, shape: &Shape, operations: u64) -> Counted {
        match self {
            Path::EngineRead => engine_read(shape, operations),
            Path::EngineWriteAlone => engine_write(shape, operations, 1),
            Path::EngineWriteTogether => engine_write(shape, operations, 16),
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

fn load(engine: &Engine, driver: &mut super::shard::Driver<'_>, shape: &Shape) {
    for number in 0..LOADED {
        engine.write(&shape.record(number, 1), number).expect("there is room");
        driver.commit(engine, 1);
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
                engine.write(record, turn).expect("there is room");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_runs() {
        for path in Path::ALL {
            for shape in [Shape::SCYLLA, Shape::YCSB] {
                path.run(&shape, 32);
            }
        }
    }
}
