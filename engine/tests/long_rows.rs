//! Reads of keys whose rows are long: as many as a part of the shard's memory holds are under way, the others wait.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
#![expect(clippy::disallowed_types, reason = "each test counts the memory of the process")]

mod shard;

use std::cell::Cell as Slot;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use engine::io::{Faults, Rng, SimDisk, SimExec};
use engine::limits::LONG_ROWS_MEMORY_DIVISOR;
use engine::{Config, Engine, commitlog};
use futures_lite::future::{poll_once, yield_now};
use messina_engine as engine;
use model::mutation::MutationBuilder;
use model::read::{Flow, PartitionRef, Partitions, ReadCommand, RowSink};
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::{ColumnId, Token};
use peak_alloc::PeakAlloc;
use shard::{
    LATER_S, TABLE, flush, make, map_of_blobs, of_key, on_sim, open, schema_of, select_all,
    until_still, write,
};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The tests of this process, of which each counts its memory, run one after the other.
static TURN: Mutex<()> = Mutex::new(());

/// A block of one is not kept in the cache.
const LONG: usize = 5 << 20;
const READS: usize = 40;
const SEGMENT_BYTES: u32 = 16 << 20;

fn config(seed: u64, memory_bytes: usize) -> Config {
    let log = commitlog::Config { segment_bytes: SEGMENT_BYTES, ..commitlog::Config::new(seed) };
    Config { log, memory_bytes, ..shard::config(seed) }
}

/// `UPDATE t SET m[element] = <bytes> WHERE k = key`, with bytes that cannot be compressed.
fn record(key: &[u8], element: u8, bytes: usize) -> Vec<u8> {
    let (mut out, path, mut random) = (Vec::new(), [element], Rng::new(element.into()));
    let value: Vec<u8> = (0..bytes / 8).flat_map(|_| random.roll().to_le_bytes()).collect();
    let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(key), key);
    m.row(&[], |out| {
        let mut row = RowBuilder::begin(out, &RowHead::bare(1));
        row.cell(&Cell { path: Some(&path), ..Cell::live(ColumnId(1), 1, &value) });
    });
    m.finish();
    out
}

/// Counts the elements that a read gives.
#[derive(Default)]
struct Elements(usize);

impl RowSink for Elements {
    fn row(&mut self, _: &PartitionRef<'_>, _: Option<&[u8]>, row: Option<RowRef<'_>>) -> Flow {
        self.0 += row.unwrap().cells().count();
        Flow::More
    }
}

fn select(partitions: Partitions) -> ReadCommand {
    ReadCommand { partitions, ..select_all(LATER_S) }
}

/// A shard with elements of rows in a file each, on a device that is slow from then on.
fn on_files(
    config: Config,
    files: Vec<Vec<u8>>,
    main: impl AsyncFnOnce(Rc<Engine>, SimExec) + 'static,
) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let slow = |sim: &SimDisk| sim.set_faults(Faults { suspensions_max: 60, ..Faults::default() });
    on_sim(config.log.seed, async move |sim, disk, exec| {
        make(&disk, &config).await;
        let engine = open(&disk, &exec, config, &schema_of([map_of_blobs()])).await;
        for record in files {
            write(&engine, &record).await.unwrap();
            flush(&engine).await;
        }
        slow(&sim);
        main(engine, exec).await;
    });
}

/// Before: each read held the row, and what it made of it, for as long as it waited for another file, and kept as much
/// for the next read: 500 reads of a row of 6 MiB on one connection were 3 GB and more of a core that has 64 MiB.
#[test]
fn point_reads_of_a_long_row_hold_a_part_of_the_memory_and_are_all_answered() {
    let config = config(1, 64 << 20);
    let files = (1..=2).map(|element| record(b"long", element, LONG)).collect();
    on_files(config, files, async |engine, exec| {
        let (done, before) = (Rc::new(Slot::new(0)), MEMORY.current_usage());
        MEMORY.reset_peak_usage();
        for number in 0..READS {
            let (engine, done) = (engine.clone(), done.clone());
            exec.spawn(async move {
                // Also of several keys: between two of them nothing long is held.
                let twice = vec![(Token::of_key(b"long"), b"long"[..].into()); 1 + number % 2];
                let mut elements = Elements::default();
                let command = select(Partitions::Keys(twice));
                engine.read(&command, &mut elements, yield_now).await.unwrap();
                assert_eq!(elements.0, 2 * (1 + number % 2));
                done.set(done.get() + 1);
            });
        }
        while done.get() < READS {
            yield_now().await;
        }
        let held = MEMORY.peak_usage() - before;
        // One read, and what the simulated disk copies.
        assert!(held < 16 * LONG, "{} MiB", held >> 20);
        let kept = MEMORY.current_usage().saturating_sub(before);
        // The log fills its next segment meanwhile, which the simulated disk has in memory.
        assert!(kept < SEGMENT_BYTES as usize + LONG, "{} MiB are kept", kept >> 20);
        assert_eq!(engine.stats().long_row_bytes, 0);
    });
}

/// Sends many reads of a row that has two elements, and waits for all: bytes that they held at the most, and that are
/// kept when they are done.
async fn held_by_reads(engine: &Rc<Engine>, exec: &SimExec, key: &'static [u8]) -> [usize; 2] {
    let (done, before) = (Rc::new(Slot::new(0)), until_still(|| MEMORY.current_usage()).await);
    MEMORY.reset_peak_usage();
    for _ in 0..READS {
        let (engine, done) = (engine.clone(), done.clone());
        exec.spawn(async move {
            let mut elements = Elements::default();
            engine.read(&select(of_key(key)), &mut elements, yield_now).await.unwrap();
            assert_eq!(elements.0, 2);
            done.set(done.get() + 1);
        });
    }
    while done.get() < READS {
        yield_now().await;
    }
    let kept = MEMORY.current_usage().saturating_sub(before);
    [MEMORY.peak_usage() - before, kept]
}

/// Before: only long blocks of files were counted. Each read of a row that is long in a memtable copied it, and held it
/// while it waited for a short block of a file; what it had copied was kept for the next read.
#[test]
fn reads_of_a_row_that_is_long_in_a_memtable_alone_hold_a_part_of_the_memory() {
    const BYTES: usize = 3 << 20;
    let files = vec![record(b"k", 1, 100)];
    on_files(config(3, 64 << 20), files, async |engine, exec| {
        write(&engine, &record(b"k", 2, BYTES)).await.unwrap();
        let [held, kept] = held_by_reads(&engine, &exec, b"k").await;
        assert!(held < 8 * BYTES, "{} MiB", held >> 20);
        assert!(kept < SEGMENT_BYTES as usize + BYTES, "{} MiB are kept", kept >> 20);
        assert_eq!(engine.stats().long_row_bytes, 0);
    });
}

/// Before: the buffers of all reads that were ever under way at once were kept, as long as they were.
#[test]
fn buffers_of_reads_that_waited_are_not_kept() {
    const BYTES: usize = 200 << 10;
    let files = vec![record(b"k", 1, 100)];
    on_files(config(4, 64 << 20), files, async |engine, exec| {
        write(&engine, &record(b"k", 2, BYTES)).await.unwrap();
        let [held, kept] = held_by_reads(&engine, &exec, b"k").await;
        assert!(held > READS * BYTES / 2, "{} KiB: they are under way at once", held >> 10);
        assert!(kept < 2 * BYTES, "{} KiB are kept", kept >> 10);
    });
}

/// Before: see above. Who is dropped gives its place to the next, and a read of a short row waits for none.
#[test]
fn a_read_of_a_long_row_that_is_dropped_lets_the_next_one_begin_and_short_rows_wait_for_none() {
    const BYTES: usize = 400 << 10;
    let config = config(2, 16 << 20);
    let most = (config.memory_bytes / LONG_ROWS_MEMORY_DIVISOR) as u64;
    let short = |key: u8| record(&[key], 1, 100);
    let files = [record(b"long", 1, BYTES), record(b"long", 2, BYTES)].into_iter();
    let files = files.chain((0..20).map(short)).collect();
    on_files(config, files, async move |engine, _| {
        let long = select(of_key(b"long"));
        let mut elements: [Elements; 3] = Default::default();
        let [first, second, third] = &mut elements;
        let mut first = Box::pin(engine.read(&long, first, yield_now));
        let mut second = Box::pin(engine.read(&long, second, yield_now));
        let mut third = pin!(engine.read(&long, third, yield_now));
        assert!(poll_once(&mut first).await.is_none(), "it waits for the disk");
        let held = engine.stats().long_row_bytes;
        assert!(held > most / 2 && held <= most, "{held} of {most}");
        assert!(poll_once(&mut second).await.is_none() && poll_once(&mut third).await.is_none());
        for key in 0..20 {
            let mut elements = Elements::default();
            engine.read(&select(of_key(&[key])), &mut elements, yield_now).await.unwrap();
            assert_eq!(elements.0, 1);
        }
        assert_eq!(engine.stats().long_row_bytes, held, "others took none and gave none");
        drop(second);
        drop(first);
        assert_eq!(third.await.unwrap().rows, 1);
        assert_eq!(engine.stats().long_row_bytes, 0);
    });
}
