//! Space on the disk: what writes, the log and a start may take.
//!
//! In files of their own: flushes (`space/flushes.rs`), shards that share a disk (`space/shards.rs`), merges
//! (`space/merges.rs`).

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::cell::RefCell;
use std::rc::Rc;

use engine::io::{Disk, Faults, RelPath, SimDisk, SimExec};
use engine::layout::{self, Layout, Secret};
use engine::{Config, Engine, Error, JobKind, SpaceLedger};
use futures_lite::future::{yield_now, zip};
use messina_engine as engine;
use model::mutation::MutationBuilder;
use model::options::{Compaction, TableOptions};
use model::read::{Flow, PartitionRef, RowSink};
use model::row::{Cell, RowBuilder, RowHead};
use model::{ColumnId, Deletion, RowRef, Schema, Token, TokenRange};
use uuid::Uuid;

use crate::shard::{self, LATER_S, TABLE, drive, flush, key_value, noise, schema_of, write};

mod flushes;
mod merges;
mod shards;

fn schema() -> Schema {
    let by_size = [("class", "SizeTieredCompactionStrategy"), ("min_sstable_size", "0")];
    let by_size = by_size.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let options = TableOptions {
        gc_grace_seconds: 10,
        bloom_filter_fp_chance: 0.000_001,
        compaction: Compaction::parse(&by_size).unwrap(),
        ..TableOptions::default()
    };
    schema_of([key_value(options)])
}

/// Shard `shard` of two, or one that owns everything.
fn config(seed: u64, owned: TokenRange, shard: u32) -> Config {
    let log = engine::commitlog::Config::new(seed);
    Config {
        shard_dir: layout::shard_dir(1, shard),
        now_s: 0,
        owned: vec![owned],
        log,
        memory_bytes: 64 << 20,
    }
}

/// Sets the values of keys, or deletes the partitions.
fn record(keys: &[u32], value: Option<&[u8]>, timestamp: i64) -> Vec<u8> {
    let mut out = Vec::new();
    for key in keys {
        let key = key.to_be_bytes();
        let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(&key), &key);
        match value {
            None => m.delete_partition(Deletion { timestamp, local_s: 100 }),
            Some(value) => m.row(&[], |out| {
                let cell = Cell::live(ColumnId(1), timestamp, value);
                RowBuilder::begin(out, &RowHead::bare(timestamp)).cell(&cell);
            }),
        }
        m.finish();
    }
    out
}

async fn open(disk: &Disk, exec: &SimExec, config: Config, space: &SpaceLedger) -> Rc<Engine> {
    let mut engine = Engine::open(disk, config, &schema()).await.unwrap();
    engine.share_space(space);
    drive(engine, exec)
}

/// Does what is to be merged; gives the errors.
async fn merge(engine: &Engine) -> Vec<Error> {
    let mut errors = Vec::new();
    while let Some(job) = engine.next_job_of(JobKind::Compact, LATER_S) {
        errors.extend(engine.run(job, LATER_S, yield_now).await.err());
    }
    errors
}

fn on_sim(main: impl AsyncFnOnce(SimDisk, Disk, SimExec) + 'static) {
    shard::on_sim(1, async |sim, disk, exec| {
        Layout::first(2, Uuid::from_u128(1), Secret::NONE).make_directories(&disk).await.unwrap();
        main(sim, disk, exec).await;
    });
}

/// From now on so many bytes of the disk are free.
async fn leave_free(sim: &SimDisk, disk: &Disk, bytes: u64) {
    let quota =
        |bytes| Faults { quota_bytes: Some(bytes), suspensions_max: 2, ..Faults::default() };
    sim.set_faults(quota(1 << 30));
    let used_bytes = (1 << 30) - disk.free_space().await.unwrap().free_bytes;
    sim.set_faults(quota(used_bytes + bytes));
}

/// Fills the memtables of a shard with 8 MiB of memory, in records of 24 KiB; how many it took.
async fn fill_memory(engine: &Engine) -> u32 {
    for key in 0..400 {
        if engine.writes_deferred() > 0 {
            return key;
        }
        assert_eq!(engine.write(&record(&[key], Some(&noise(key, 3000)), 1), 1), Ok(()));
        for _ in 0..100 {
            yield_now().await;
        }
    }
    panic!("a shard with 8 MiB of memory takes 400 writes of 24 KiB");
}

/// Counts the rows of a read.
struct Count(u32);

impl RowSink for Count {
    fn row(&mut self, _: &PartitionRef<'_>, _: Option<&[u8]>, _: Option<RowRef<'_>>) -> Flow {
        self.0 += 1;
        Flow::More
    }
}

fn small(seed: u64) -> Config {
    shard::config(seed << 40)
}

/// A new shard with 8 MiB of memory.
async fn open_small(disk: &Disk, exec: &SimExec) -> Rc<Engine> {
    Engine::create(disk, &small(10)).await.unwrap();
    open(disk, exec, small(20), &SpaceLedger::default()).await
}

/// Writes 24 KiB of zeros to each of these keys: 60 of them take a file of a few KiB.
async fn write_zeros(engine: &Engine, keys: impl Iterator<Item = u32>) {
    for key in keys {
        write(engine, &record(&[key], Some(&[0; 24 << 10]), 1)).await.unwrap();
    }
}

/// Runs a flush: its error, and the least free bytes of the disk at its pauses, if it has any.
async fn flush_once(engine: &Engine, now_s: u32) -> (Option<Error>, Option<u64>) {
    let least = RefCell::new(None);
    let pause = async || {
        let free_bytes = engine.disk().free_space().await.unwrap().free_bytes;
        let before = least.borrow().unwrap_or(u64::MAX);
        least.replace(Some(free_bytes.min(before)));
    };
    let job = engine.next_job_of(JobKind::Flush, now_s).unwrap();
    let error = engine.run(job, now_s, pause).await.err();
    (error, least.into_inner())
}

fn no_space_to_flush() -> Option<Error> {
    Some(Error::DiskFull { file: "the flush of a memtable".into() })
}

/// Before: a start whose log held a little more than memtables may hold wrote a memtable to the disk, and failed if the
/// disk was full.
#[test]
fn a_start_on_a_full_disk_needs_no_space_for_what_it_replays() {
    let disk_left = Rc::new(RefCell::new(None));
    let killed = disk_left.clone();
    on_sim(async move |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        let keys = fill_memory(&engine).await;
        leave_free(&sim, &disk, 1 << 20).await;
        killed.replace(Some((sim.kill(), keys)));
    });
    let (sim, keys) = disk_left.take().unwrap();
    let (disk, exec) = (Disk::Sim(sim.clone()), SimExec::new(2));
    let spawner = exec.clone();
    let started = exec.run(async move {
        // For what a start makes beside data.
        leave_free(&sim, &disk, 1 << 20).await;
        // With less memory than before.
        let config = Config { memory_bytes: 7 << 20, ..small(30) };
        let engine = open(&disk, &spawner, config, &SpaceLedger::default()).await;
        let mut found = Count(0);
        engine.read(&shard::select_all(0), &mut found, yield_now).await.unwrap();
        assert_eq!(found.0, keys - 1, "all but the one that waited");
        assert!(engine.next_job_of(JobKind::Flush, LATER_S).is_some(), "the open shard flushes");
        sim.set_faults(Faults::default());
        flush(&engine).await;
    });
    started.done();
}

/// Before: writes were taken again a second after a flush had found no space, until the memory was full.
#[test]
fn writes_are_refused_while_a_flush_that_is_due_has_no_space() {
    on_sim(async |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        fill_memory(&engine).await;
        // Less than 97 % are used.
        leave_free(&sim, &disk, 1 << 20).await;
        assert_eq!(flush_once(&engine, LATER_S).await.0, no_space_to_flush());
        engine.measure_space(0).await.unwrap();
        assert!(engine.is_disk_full() && engine.disk_used_percent() < 97);
        leave_free(&sim, &disk, 8 << 20).await;
        engine.measure_space(0).await.unwrap();
        assert!(!engine.is_disk_full());
        sim.set_faults(Faults::default());
    });
}

/// Before: new segments of the log took what a start had released of the reserve, and the next start found no space.
#[test]
fn the_log_leaves_the_space_that_the_reserve_lacks() {
    on_sim(async |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        let kept_bytes = 300 << 10;
        leave_free(&sim, &disk, kept_bytes + (200 << 10)).await;
        engine.measure_space(kept_bytes).await.unwrap();
        for key in 0..100 {
            if engine.write(&record(&[key], Some(&noise(key, 3000)), 1), 1).is_err() {
                break;
            }
            for _ in 0..100 {
                yield_now().await;
            }
        }
        let free_bytes = disk.free_space().await.unwrap().free_bytes;
        assert!(free_bytes >= kept_bytes, "{free_bytes}");
        assert!(free_bytes < kept_bytes + (128 << 10), "{free_bytes}: the log has taken the rest");
        sim.set_faults(Faults::default());
    });
}
