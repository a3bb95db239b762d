//! A shard's storage from the outside: what was answered is there, also after a crash.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::cell::Cell as Flag;
use std::future::poll_fn;
use std::pin::pin;
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

use crate::shard::{self, TABLE, answers, config, flush, key_value, make, schema_of, select_all};

fn schema() -> Schema {
    schema_of([key_value(TableOptions::default())])
}

fn config_with(sync: SyncMode) -> Config {
    let config = shard::config(1);
    Config { log: engine::commitlog::Config { sync, ..config.log }, ..config }
}

fn record(key: u8, value: &[u8], timestamp: i64) -> Vec<u8> {
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

fn read(engine: &Engine, partitions: Partitions) -> Vec<(u8, Vec<u8>)> {
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

fn by_key(key: u8) -> Partitions {
    Partitions::Keys(vec![(Token::of_key(&[key]), Box::from([key]))])
}

/// Makes a shard, and opens it.
async fn create(disk: &Disk, exec: &SimExec) -> Rc<Engine> {
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
async fn keys(engine: &Engine) -> Vec<u8> {
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

/// Writes 160 records of 24 KiB, more than the memtables hold, and flushes nothing.
fn flood(test: impl AsyncFnOnce(Rc<Engine>) + 'static) {
    let sim = SimDisk::new(1, Faults::default());
    let exec = SimExec::new(1);
    let (disk, spawner) = (Disk::Sim(sim), exec.clone());
    exec.run(async move {
        let engine = create(&disk, &spawner).await;
        for ticket in 0..160_u8 {
            let record = record(ticket, &[ticket; 24 << 10], ticket.into());
            assert_eq!(engine.write(&record, ticket.into()), Ok(()));
            for _ in 0..100 {
                yield_now().await;
            }
        }
        test(engine).await;
    })
    .done();
}

/// Lets the log go on until nothing moves without a flush.
async fn settle() {
    for _ in 0..5000 {
        yield_now().await;
    }
}

#[test]
fn writes_faster_than_flushes_wait_in_order_and_none_is_refused() {
    flood(async |engine| {
        settle().await;
        let mut done = Vec::new();
        engine.take_completed(&mut done);
        let deferred = engine.writes_deferred();
        assert!(deferred > 12 && done.len() + deferred == 160, "{deferred} of 160 wait");
        assert!(engine.write_delay_us() > 0, "and writers are slowed");
        assert_eq!(read(&engine, by_key(0)).len(), 1, "reads go on");
        while engine.writes_in_flight() > 0 {
            let job = engine.next_job(1).expect("a write that waits for memory asks for a flush");
            engine.run(job, 1, yield_now).await.unwrap();
            settle().await;
        }
        engine.take_completed(&mut done);
        let expected: Vec<_> = (0..160).map(|ticket| (ticket, Ok(()))).collect();
        assert_eq!(done, expected, "each is answered, in the order in which they came");
        assert_eq!(engine.stats().writes_refused, 0);
        assert_eq!(keys(&engine).await, (0..160).collect::<Vec<u8>>());
    });
}

/// Before: the write woke its own task each time it was tried, so that a core did nothing else until there was space. A
/// load of one shard stood still for 20 s at a time.
#[test]
fn a_write_that_waits_for_a_segment_of_the_log_leaves_the_core_to_others() {
    let exec = SimExec::new(1);
    let (disk, spawner) = (Disk::Sim(SimDisk::new(1, Faults::default())), exec.clone());
    let config = shard::config(1);
    let log = engine::commitlog::Config { log_bytes_max: 256 << 10, ..config.log };
    let config = Config { log, ..config };
    exec.run(async move {
        make(&disk, &config).await;
        let engine = Rc::new(Engine::open(&disk, config, &schema()).await.unwrap());
        let turns = Rc::new(Flag::new(0));
        let (driven, counted) = (engine.clone(), turns.clone());
        spawner.spawn(async move {
            let mut driving = pin!(driven.drive_log());
            poll_fn(|cx| {
                counted.set(counted.get() + 1);
                driving.as_mut().poll(cx)
            })
            .await;
        });
        for ticket in 0..120_u8 {
            let record = record(ticket, &[ticket; 3 << 10], ticket.into());
            assert_eq!(engine.write(&record, ticket.into()), Ok(()));
        }
        settle().await;
        assert!(engine.writes_deferred() > 10, "the log has no more segments");
        let before = turns.get();
        settle().await;
        assert_eq!(turns.get(), before, "turns of the log while nothing moves");
        flush(&engine).await;
        settle().await;
        assert_eq!((engine.writes_deferred(), keys(&engine).await.len()), (0, 120));
    })
    .done();
}

#[test]
fn a_write_that_has_waited_too_long_is_refused_and_never_there() {
    flood(async |engine| {
        settle().await;
        let (mut before, mut done) = (Vec::new(), Vec::new());
        engine.take_completed(&mut before);
        let waiting = engine.writes_deferred() as u64;
        let ever = engine.stats().writes_deferred;
        assert!(!engine.give_up_deferred(ever - 10), "all at once, since they are few");
        engine.take_completed(&mut done);
        let refused = Err(engine::Error::Overloaded("no space came in time"));
        let first = 160 - waiting;
        let expected: Vec<_> = (first..150).map(|ticket| (ticket, refused.clone())).collect();
        assert_eq!((done, engine.writes_deferred()), (expected, 10));
        assert_eq!(engine.stats().writes_refused, waiting - 10);
        engine.run(engine.next_job(1).unwrap(), 1, yield_now).await.unwrap();
        settle().await;
        let last: Vec<_> = answers(&engine, 10).await;
        assert_eq!(last, (150..160).map(|ticket| (ticket, Ok(()))).collect::<Vec<_>>());
        let there: Vec<u8> = (0..first as u8).chain(150..160).collect();
        assert_eq!(keys(&engine).await, there);
    });
}

/// How many writes of those are refused that wait.
fn refused(engine: &Engine, why: &Result<(), engine::Error>) -> Vec<u64> {
    let mut done = Vec::new();
    engine.take_completed(&mut done);
    done.into_iter().filter(|(_, result)| result == why).map(|(ticket, _)| ticket).collect()
}

/// Before: all of them were refused in one step, tens of thousands on a large shard.
#[test]
fn writes_that_waited_too_long_are_refused_some_at_a_time() {
    flood(async |engine| {
        settle().await;
        let waits = engine.writes_deferred();
        (0..300).for_each(|i| assert_eq!(engine.write(&record(1, b"v", 1), 1000 + i), Ok(())));
        let (until, most) = (engine.stats().writes_deferred, engine::limits::DEFERRED_AT_ONCE_MAX);
        let why = Err(engine::Error::Overloaded("no space came in time"));
        let mut all = Vec::new();
        loop {
            let are_left = engine.give_up_deferred(until);
            let some = refused(&engine, &why);
            assert!(some.len() <= most, "{} at once", some.len());
            all.extend(some);
            if !are_left {
                break;
            }
        }
        let first = 160 - waits as u64;
        assert_eq!(all, (first..160).chain(1000..1300).collect::<Vec<_>>(), "each, in order");
        assert!(!engine.give_up_deferred(until) && engine.writes_deferred() == 0);
    });
}

/// Before: all of them were refused in the step that measured the disk.
#[test]
fn writes_that_wait_on_a_full_disk_are_refused_some_at_a_time() {
    flood(async |engine| {
        settle().await;
        let waits = engine.writes_deferred();
        (0..300).for_each(|i| assert_eq!(engine.write(&record(1, b"v", 1), 1000 + i), Ok(())));
        let why = Err(engine::Error::DiskFull { file: "new writes".into() });
        refused(&engine, &why);
        // What is free is kept aside.
        engine.measure_space(u64::MAX).await.unwrap();
        let mut all = refused(&engine, &why);
        assert!(all.len() <= engine::limits::DEFERRED_AT_ONCE_MAX, "{} at once", all.len());
        settle().await;
        all.extend(refused(&engine, &why));
        let first = 160 - waits as u64;
        assert_eq!(all, (first..160).chain(1000..1300).collect::<Vec<_>>(), "each, in order");
        assert_eq!(engine.writes_deferred(), 0);
    });
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
