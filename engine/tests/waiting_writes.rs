//! Writes that wait for space: in the memtables, in the log, on the disk.
//!
//! They come in their order when a flush has made space, or are refused when they have waited too long or the disk is
//! full, some at a time. A log that waits takes no turns.
//!
//! Not here: writers that are slowed by what overwritten rows take (`overwrites.rs`), power cuts on a full disk
//! (`shard/tests/sim`).

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;

use engine::io::{Disk, Faults, SimDisk, SimExec};
use engine::{Config, Engine};
use futures_lite::future::yield_now;
use messina_engine as engine;

use crate::engine_basic::{by_key, create, keys, read, record, schema};
use crate::shard::{answers, config, flush, make};

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
    let config = config(1);
    let log = engine::commitlog::Config { log_bytes_max: 256 << 10, ..config.log };
    let config = Config { log, ..config };
    exec.run(async move {
        make(&disk, &config).await;
        let engine = Rc::new(Engine::open(&disk, config, &schema()).await.unwrap());
        let turns = Rc::new(Cell::new(0));
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

/// Lets 300 more writes wait, from ticket 1000 on, behind those of [`flood`]; the ticket of the first that waits.
async fn flood_more(engine: &Engine) -> u64 {
    settle().await;
    let waits = engine.writes_deferred();
    (0..300).for_each(|i| assert_eq!(engine.write(&record(1, b"v", 1), 1000 + i), Ok(())));
    160 - waits as u64
}

/// The tickets of the waiting writes that were refused for this reason.
fn refused(engine: &Engine, why: &Result<(), engine::Error>) -> Vec<u64> {
    let mut done = Vec::new();
    engine.take_completed(&mut done);
    done.into_iter().filter(|(_, result)| result == why).map(|(ticket, _)| ticket).collect()
}

/// Before: all of them were refused in one step, tens of thousands on a large shard.
#[test]
fn writes_that_waited_too_long_are_refused_some_at_a_time() {
    flood(async |engine| {
        let first = flood_more(&engine).await;
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
        assert_eq!(all, (first..160).chain(1000..1300).collect::<Vec<_>>(), "each, in order");
        assert!(!engine.give_up_deferred(until) && engine.writes_deferred() == 0);
    });
}

/// Before: all of them were refused in the step that measured the disk.
#[test]
fn writes_that_wait_on_a_full_disk_are_refused_some_at_a_time() {
    flood(async |engine| {
        let first = flood_more(&engine).await;
        let why = Err(engine::Error::DiskFull { file: "new writes".into() });
        refused(&engine, &why);
        // What is free is kept aside.
        engine.measure_space(u64::MAX).await.unwrap();
        let mut all = refused(&engine, &why);
        assert!(all.len() <= engine::limits::DEFERRED_AT_ONCE_MAX, "{} at once", all.len());
        settle().await;
        all.extend(refused(&engine, &why));
        assert_eq!(all, (first..160).chain(1000..1300).collect::<Vec<_>>(), "each, in order");
        assert_eq!(engine.writes_deferred(), 0);
    });
}
