//! A shard's storage from the outside: what was answered is there, also after a crash.
//!
//! Not here: writes that wait for space (`waiting_writes.rs`).

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::cell::Cell as Flag;
use std::rc::Rc;

use engine::commitlog::SyncMode;
use engine::io::{Crash, Disk, Faults, Outcome, SimDisk, SimExec};
use engine::layout::{self, Layout, Secret};
use engine::{Config, Engine, Job, JobKind, Swept, sweep};
use futures_lite::future::{yield_now, zip};
use messina_engine as engine;
use model::mutation::MutationBuilder;
use model::options::TableOptions;
use model::read::{Flow, Limits, PartitionRef, Partitions, ReadCommand, RowSink};
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::{ColumnId, Schema, Token, TokenRange};
use uuid::Uuid;

use crate::shard::{self, TABLE, answers, config, key_value, make, schema_of, select_all};

pub(crate) fn schema() -> Schema {
    schema_of([key_value(TableOptions::default())])
}

fn config_with(sync: SyncMode) -> Config {
    let config = shard::config(1);
    Config { log: engine::commitlog::Config { sync, ..config.log }, ..config }
}

pub(crate) fn record(key: u8, value: &[u8], timestamp: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(&[key]), &[key]);
    m.row(&[], |out| {
        RowBuilder::begin(out, &RowHead::bare(timestamp)).cell(&Cell::live(
            ColumnId(1),
            timestamp,
            value,
        ));
    });
    m.finish();
    out
}

struct Values(Vec<(u8, Vec<u8>)>);

impl RowSink for Values {
    fn row(&mut self, p: &PartitionRef<'_>, _: Option<&[u8]>, row: Option<RowRef<'_>>) -> Flow {
        let cell = row.and_then(|row| row.cells().next()).expect("a row with a cell");
        self.0.push((p.key[0], cell.value.to_vec()));
        Flow::More
    }
}

fn command(partitions: Partitions) -> ReadCommand {
    ReadCommand { partitions, limits: Limits::none(16 << 20), ..select_all(1) }
}

pub(crate) fn read(engine: &Engine, partitions: Partitions) -> Vec<(u8, Vec<u8>)> {
    let mut values = Values(Vec::new());
    let end = engine.read_cached(&command(partitions), &mut values).unwrap();
    assert_eq!((end.rows, end.more), (values.0.len() as u64, None));
    values.0
}

async fn read_patiently(engine: &Engine, partitions: Partitions) -> Vec<(u8, Vec<u8>)> {
    let mut values = Values(Vec::new());
    let end = engine.read(&command(partitions), &mut values, yield_now).await.unwrap();
    assert_eq!((end.rows, end.more), (values.0.len() as u64, None));
    values.0
}

pub(crate) fn by_key(key: u8) -> Partitions {
    Partitions::Keys(vec![(Token::of_key(&[key]), Box::from([key]))])
}

/// Makes a shard, and opens it.
pub(crate) async fn create(disk: &Disk, exec: &SimExec) -> Rc<Engine> {
    make(disk, &config(1)).await;
    open(disk, exec).await
}

/// Opens the engine with its log running.
async fn open(disk: &Disk, exec: &SimExec) -> Rc<Engine> {
    open_with(disk, exec, SyncMode::Batch).await
}

async fn open_with(disk: &Disk, exec: &SimExec, sync: SyncMode) -> Rc<Engine> {
    shard::open(disk, exec, config_with(sync), &schema()).await
}

#[test]
fn what_was_answered_can_be_read_also_after_a_crash() {
    let sim = SimDisk::new(3, Faults { suspensions_max: 3, ..Faults::default() });
    let disk = Disk::Sim(sim.clone());
    let exec = SimExec::new(3);
    let inner = exec.clone();
    exec.run(async move {
        let engine = create(&disk, &inner).await;
        for i in 0..100u8 {
            // Nothing is read before it is durable.
            let before = read(&engine, by_key(i % 50));
            engine.write(&record(i % 50, &[i], i64::from(i)), u64::from(i)).unwrap();
            assert_eq!(read(&engine, by_key(i % 50)), before);
            if i % 7 == 0 {
                yield_now().await;
            }
        }
        let done = answers(&engine, 100).await;
        assert!(done.iter().zip(0..).all(|((ticket, result), i)| *ticket == i && result.is_ok()));
        assert_eq!(read(&engine, by_key(7)), [(7, vec![57])]);
        engine.flush_all(0, async || yield_now().await).await.unwrap();
        let stats = engine.table_size(TABLE).unwrap();
        assert_eq!((stats.memtable_bytes, stats.sstables, stats.partitions), (0, 1, 50));
        assert_eq!(engine.next_job(0), None::<Job>);
        engine.write(&record(7, &[200], 1000), 1).unwrap();
        answers(&engine, 1).await;
        // From the sstable, and from both.
        assert_eq!(read_patiently(&engine, by_key(8)).await, [(8, vec![58])]);
        assert_eq!(read_patiently(&engine, by_key(7)).await, [(7, vec![200])]);
    })
    .done();
    let disk = Disk::Sim(sim.crash(5, Crash::Random));
    let exec = SimExec::new(4);
    let inner = exec.clone();
    exec.run(async move {
        let engine = open(&disk, &inner).await;
        assert_eq!(engine.stats().records_replayed, 1);
        let mut all = read_patiently(&engine, Partitions::Range(TokenRange::ALL)).await;
        all.sort();
        let value = |i| if i == 7 { 200 } else { i + 50 };
        assert_eq!(all, (0..50).map(|i| (i, vec![value(i)])).collect::<Vec<_>>());
    })
    .done();
}

/// Writes of a stream that never pauses, at most: each has a key of its own.
const STREAM_WRITES_MAX: u8 = 240;
/// A truncation takes a few operations of the disk, during each of which a few writes come.
const TRUNCATION_WRITES_MAX: u8 = 150;

/// Writes key 1, and empties the table while the keys from 2 on are written, one after the other, and flushed now and
/// then. With `crash_at_op` the power goes at that operation of the disk, if there are so many: then nothing comes back.
fn truncate_in_a_stream(seed: u64, sim: &SimDisk, crash_at_op: Option<u64>) -> Outcome<Vec<u8>> {
    let (sim, exec) = (sim.clone(), SimExec::new(seed));
    let inner = exec.clone();
    exec.run(async move {
        let disk = Disk::Sim(sim.clone());
        make(&disk, &config(1)).await;
        let engine = open_with(&disk, &inner, SyncMode::Periodic).await;
        sim.set_faults(Faults { suspensions_max: 40, crash_at_op, ..Faults::default() });
        engine.write(&record(1, b"before", 1), 1).unwrap();
        let flushed = engine.clone();
        if seed.is_multiple_of(3) {
            inner.spawn(async move {
                flushed.flush_all(0, async || yield_now().await).await.unwrap();
            });
        }
        let is_over = Flag::new(false);
        let truncate = async {
            engine.truncate(TABLE).await.unwrap();
            is_over.set(true);
        };
        let stream = async {
            let mut written = 0;
            while !is_over.get() && written < STREAM_WRITES_MAX {
                written += 1;
                engine.write(&record(1 + written, b"meanwhile", 2), 1).unwrap();
                yield_now().await;
            }
            written
        };
        let ((), written) = zip(truncate, stream).await;
        assert!(written < TRUNCATION_WRITES_MAX, "seed {seed}: it waited for {written} writes");
        engine.write(&record(written + 2, b"after", 2), 1).unwrap();
        let left = keys(&engine).await;
        assert_eq!(left.last(), Some(&(written + 2)), "seed {seed}: what came after it is there");
        assert!(!left.contains(&1), "seed {seed}: what was there before is gone");
        // The log is written as soon as it can be.
        for _ in 0..400 {
            yield_now().await;
        }
        left
    })
}

/// The keys of all rows, ascending.
pub(crate) async fn keys(engine: &Engine) -> Vec<u8> {
    let all = read_patiently(engine, Partitions::Range(TokenRange::ALL)).await;
    let mut keys: Vec<u8> = all.into_iter().map(|(key, _)| key).collect();
    keys.sort_unstable();
    keys
}

/// The keys after a start.
fn keys_after_start(seed: u64, sim: SimDisk) -> Vec<u8> {
    let exec = SimExec::new(seed);
    let inner = exec.clone();
    exec.run(async move { keys(&*open(&Disk::Sim(sim), &inner).await).await }).done()
}

#[test]
fn a_truncation_ends_while_a_stream_of_writes_does_not_wait_for_the_disk() {
    for seed in 0..30 {
        let sim = SimDisk::new(seed, Faults::default());
        let left = truncate_in_a_stream(seed, &sim, None).done();
        let found = keys_after_start(seed, sim.crash(seed, Crash::Nothing));
        assert_eq!(found, left, "seed {seed}: no more and no less comes back");
    }
}

/// A stretch of what was written is there: either the truncation was, and what came before it is gone, or it was not.
#[test]
fn a_power_cut_in_a_truncation_leaves_all_or_nothing_of_what_was_there() {
    let (mut emptied, mut whole) = (0, 0);
    for seed in 0..200 {
        let sim = SimDisk::new(seed, Faults::default());
        // Some end before so many operations.
        let _ = truncate_in_a_stream(seed, &sim, Some(seed % 25));
        let found = keys_after_start(seed, sim.crash(seed, Crash::Random));
        let is_stretch = found.windows(2).all(|two| two[0] + 1 == two[1]);
        assert!(is_stretch, "seed {seed}: {found:?}");
        match found.first() {
            Some(1) => whole += 1,
            Some(_) => emptied += 1,
            None => {}
        }
    }
    assert!(emptied > 10 && whole > 10, "{emptied} of 200 were emptied and {whole} were whole");
}

/// A shard with one record in its log, which then has been idle or has not.
fn log_of_one_record(claims: bool) -> SimDisk {
    let sim = SimDisk::new(3, Faults::default());
    let disk = Disk::Sim(sim.clone());
    let exec = SimExec::new(3);
    let inner = exec.clone();
    exec.run(async move {
        let engine = create(&disk, &inner).await;
        engine.write(&record(7, &[1; 100], 1), 1).unwrap();
        answers(&engine, 1).await;
        if claims {
            engine.claim_log();
        }
        for _ in 0..20 {
            yield_now().await;
        }
    })
    .done();
    sim.crash(5, Crash::Nothing)
}

#[test]
fn damage_to_the_last_block_of_an_idle_log_is_refused() {
    for claims in [false, true] {
        let sim = log_of_one_record(claims);
        let path = layout::shard_dir(1, 0).join("log").join("000001.log");
        let mut bytes = sim.bytes(&path).unwrap();
        let at = bytes.windows(100).position(|window| window == [1; 100]).expect("the value");
        bytes[at] ^= 1;
        sim.plant(&path, bytes);
        let disk = Disk::Sim(sim);
        let exec = SimExec::new(4);
        let opened = exec.run(async move {
            match Engine::open(&disk, config(1), &schema()).await {
                Ok(engine) => Ok(engine.stats().records_replayed),
                Err(error) => Err(error),
            }
        });
        match opened.done() {
            Ok(records) => assert!(!claims && records == 0, "a write cut short is forgotten"),
            Err(error) => assert!(claims && matches!(error, engine::Error::Corrupt { .. })),
        }
    }
}

/// Before: it stayed for ever, and a sweep went through all of them at each start.
#[test]
fn the_directory_of_a_dropped_table_goes_with_its_files() {
    for is_swept in [false, true] {
        let sim = SimDisk::new(3, Faults::default());
        let disk = Disk::Sim(sim.clone());
        let exec = SimExec::new(3);
        let inner = exec.clone();
        exec.run(async move {
            let engine = create(&disk, &inner).await;
            engine.write(&record(7, &[1; 100], 1), 1).unwrap();
            answers(&engine, 1).await;
            engine.flush_all(0, async || {}).await.unwrap();
            let there = async || disk.list(&layout::tables_dir()).await.unwrap().len();
            assert_eq!(there().await, 1);
            let pause = async || {};
            if is_swept {
                // Emptied, it has no file any more by which a start could know it.
                engine.truncate(TABLE).await.unwrap();
                let layout = Layout::first(1, Uuid::from_u128(1), Secret::NONE);
                let Swept { deleted, strange, .. } = sweep(&disk, &layout).await.unwrap();
                assert_eq!((deleted, strange), (0, Vec::new()));
            } else {
                engine.set_schema(&Schema::empty());
                assert_eq!(engine.next_job(0), Some(Job::Remove));
                engine.run(Job::Remove, 0, pause).await.unwrap();
            }
            assert_eq!(there().await, 0);
            assert_eq!(engine.next_job(0), None);
        })
        .done();
    }
}

/// Before: a truncation, and a schema without the table, gave the memory of a million partitions back in one step.
#[test]
fn memtables_that_are_gone_are_freed_in_pieces() {
    for is_dropped in [false, true] {
        let sim = SimDisk::new(4, Faults::default());
        let disk = Disk::Sim(sim.clone());
        let exec = SimExec::new(4);
        let inner = exec.clone();
        exec.run(async move {
            let engine = create(&disk, &inner).await;
            for key in 0..200 {
                engine.write(&record(key, &[1; 10_000], 1), 1).unwrap();
                answers(&engine, 1).await;
            }
            match is_dropped {
                true => engine.set_schema(&Schema::empty()),
                false => engine.truncate(TABLE).await.unwrap(),
            }
            assert_eq!(engine.stats().memtable_bytes, 0);
            assert_eq!(engine.next_job_of(JobKind::Remove, 0), Some(Job::Remove));
            let pauses = Flag::new(0);
            engine.run(Job::Remove, 0, async || pauses.set(pauses.get() + 1)).await.unwrap();
            assert!(pauses.get() > 3, "{} pauses for 2 MB", pauses.get());
            assert_eq!(engine.next_job_of(JobKind::Remove, 0), None);
        })
        .done();
    }
}

/// Before: all that one commit had made durable was applied and answered in one step.
#[test]
fn the_records_of_one_commit_are_applied_some_at_a_time() {
    let log = engine::commitlog::Config::new(5);
    let config = Config { log, memory_bytes: 1 << 30, ..config(5) };
    shard::on_shard(config, schema(), async |engine, _, _| {
        const RECORDS: usize = 100;
        let mut most = 0;
        for ticket in 0..RECORDS as u64 {
            engine.write(&record(ticket as u8, &[7; 2000], 1), ticket).unwrap();
        }
        let (mut done, mut seen) = (Vec::new(), 0);
        while done.len() < RECORDS {
            yield_now().await;
            engine.take_completed(&mut done);
            most = most.max(done.len() - std::mem::replace(&mut seen, done.len()));
        }
        assert!(most > 1 && most < 80, "{most} records in a step");
        assert!(done.iter().map(|(ticket, _)| *ticket).eq(0..RECORDS as u64), "in order");
    });
}
