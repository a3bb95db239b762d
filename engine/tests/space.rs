//! Space on the disk: what flushes, merges, the log and a start may take. And filters that are not in memory.

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

/// Two shards that each have space for their merge, and not both.
async fn two_merges(
    sim: &SimDisk,
    disk: &Disk,
    exec: &SimExec,
    ledgers: [&SpaceLedger; 2],
) -> Vec<Error> {
    let halves = [(i64::MIN, -1), (0, i64::MAX)];
    let mut engines = Vec::new();
    for (shard, (first, last)) in (0..).zip(halves) {
        let owned = TokenRange { first: Token(first), last: Token(last) };
        let seeded = |seed| config((seed + u64::from(shard)) << 40, owned, shard);
        Engine::create(disk, &seeded(10)).await.unwrap();
        let config = seeded(20);
        let engine = open(disk, exec, config, ledgers[shard as usize]).await;
        let owns = |key: &u32| owned.contains(Token::of_key(&key.to_be_bytes()));
        let keys: Vec<u32> = (0..400).filter(owns).collect();
        for part in 0..4 {
            for key in keys.iter().filter(|key| **key % 4 == part) {
                // It cannot be compressed, and nothing is overwritten: as much comes out as goes in.
                write(&engine, &record(&[*key], Some(&noise(*key, 40)), 1)).await.unwrap();
            }
            flush(&engine).await;
        }
        engines.push(engine);
    }
    let bytes = engines[0].table_size(TABLE).unwrap().bytes;
    leave_free(sim, disk, bytes * 3 / 2).await;
    let (mut errors, others) = zip(merge(&engines[0]), merge(&engines[1])).await;
    errors.extend(others);
    let files = engines.iter().map(|engine| engine.table_size(TABLE).unwrap().sstables);
    assert!(errors.len() > 1 || files.max() < Some(4), "each has merged something");
    sim.set_faults(Faults::default());
    errors
}

/// Before: what a merge unlinks counted as free though a snapshot had it, too: the merge was begun with space for a few
/// fragments, and went on until a write met the full disk.
#[test]
fn what_a_snapshot_holds_is_not_freed_by_a_merge() {
    on_sim(async |sim, disk, exec| {
        let seeded = |seed: u64| config(seed << 40, TokenRange::ALL, 0);
        Engine::create(&disk, &seeded(10)).await.unwrap();
        let engine = open(&disk, &exec, seeded(20), &SpaceLedger::default()).await;
        engine.set_fragment_bytes_min(100 << 10);
        for run in 0..4 {
            for part in 0..4 {
                for key in (0..1600).filter(|key| key % 16 == 4 * run + part) {
                    write(&engine, &record(&[key], Some(&noise(key, 400)), 1)).await.unwrap();
                }
                flush(&engine).await;
            }
            merge_once(&engine, LATER_S).await.unwrap();
        }
        let fragments = engine.stats().compaction_fragments;
        assert!(fragments > 20, "runs of fragments: {fragments}");
        let link = async |tag: &str| {
            let dir = RelPath::new(&format!("snapshots/{tag}")).unwrap();
            disk.mkdir(&dir).await.unwrap();
            engine.link_files(TABLE, &dir).await.unwrap();
        };
        disk.mkdir(&RelPath::new("snapshots").unwrap()).await.unwrap();
        link("s").await;
        // Less than two of the four runs.
        let bytes = engine.table_size(TABLE).unwrap().bytes;
        leave_free(&sim, &disk, bytes * 2 / 5).await;
        let full = Error::DiskFull { file: "the output of a compaction".into() };
        assert_eq!(merge_once(&engine, LATER_S).await, Err(full));
        assert_eq!(engine.stats().compaction_fragments, fragments, "nothing was begun");
        leave_free(&sim, &disk, bytes * 11 / 10).await;
        assert_eq!(merge_once(&engine, LATER_S + 60).await, Ok(()));
        assert!(engine.stats().compaction_fragments > fragments);
        sim.set_faults(Faults::default());
    });
}

/// Runs the merge that is proposed at this second.
async fn merge_once(engine: &Engine, now_s: u32) -> Result<(), Error> {
    let job = engine.next_job_of(JobKind::Compact, now_s).unwrap();
    engine.run(job, now_s, yield_now).await.map(drop)
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

/// Before: it asked for as much space as all memtables of the table took in memory, and more each time it was refused.
#[test]
fn a_flush_asks_for_the_space_that_its_file_takes() {
    on_sim(async |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        write_zeros(&engine, 1000..1060).await;
        flush(&engine).await;
        write_zeros(&engine, 0..60).await;
        leave_free(&sim, &disk, 300 << 10).await;
        let (job, now_s) = (engine.next_job_of(JobKind::Flush, LATER_S), LATER_S);
        engine.run(job.unwrap(), now_s, yield_now).await.unwrap();
        sim.set_faults(Faults::default());
    });
}

/// Writes 24 KiB of zeros to each of these keys: 60 of them take a file of a few KiB.
async fn write_zeros(engine: &Engine, keys: impl Iterator<Item = u32>) {
    for key in keys {
        write(engine, &record(&[key], Some(&[0; 24 << 10]), 1)).await.unwrap();
    }
}

/// Flushes a short file of zeros, and then fills the memtables with values that do not compress.
async fn fill_memory_behind_zeros(engine: &Engine) {
    write_zeros(engine, 1000..1060).await;
    flush(engine).await;
    fill_memory(engine).await;
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

/// Before: a flush whose file became longer than those before it met the full disk, and asked for as little the next
/// time; writes were taken meanwhile.
#[test]
fn a_flush_whose_file_was_longer_than_its_estimate_asks_for_more() {
    on_sim(async |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        fill_memory_behind_zeros(&engine).await;
        leave_free(&sim, &disk, 1 << 20).await;
        let (error, least) = flush_once(&engine, LATER_S).await;
        assert!(error == no_space_to_flush() && least.is_some(), "{error:?}, {least:?}");
        engine.measure_space(0).await.unwrap();
        assert!(engine.is_disk_full());
        assert_eq!(flush_once(&engine, LATER_S + 60).await, (no_space_to_flush(), None));
        sim.set_faults(Faults::default());
    });
}

/// Before: a flush whose file became longer than those before it wrote on, into what the reserve lacks and what others
/// were promised.
#[test]
fn a_flush_whose_file_is_longer_than_its_estimate_leaves_what_the_reserve_lacks() {
    on_sim(async |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        fill_memory_behind_zeros(&engine).await;
        let kept_bytes = 2 << 20;
        leave_free(&sim, &disk, kept_bytes + (1 << 20)).await;
        engine.measure_space(kept_bytes).await.unwrap();
        let (error, least) = flush_once(&engine, LATER_S).await;
        assert!(
            error == no_space_to_flush() && least.unwrap() >= kept_bytes,
            "{error:?}, {least:?}"
        );
        assert!(least.unwrap() < kept_bytes + (512 << 10), "{least:?}: it has tried");
        sim.set_faults(Faults::default());
    });
}

/// Before: after a start, and after a flush that a full disk had ended, a flush asked for as much as its memtable takes
/// in memory: it was refused for ever where less was free, however short its file.
#[test]
fn a_flush_whose_file_may_be_short_begins_with_less_than_its_estimate() {
    on_sim(async |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        write_zeros(&engine, 1000..1060).await;
        leave_free(&sim, &disk, 700 << 10).await;
        assert_eq!(flush_once(&engine, LATER_S).await.0, None);
        sim.set_faults(Faults::default());
    });
}

/// Before: a flush that a full disk had ended for what others wrote asked for more the next time, and did not begin
/// with less.
#[test]
fn a_flush_that_met_a_disk_that_others_filled_begins_with_less_again() {
    on_sim(async |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        write_zeros(&engine, 1000..1060).await;
        leave_free(&sim, &disk, 700 << 10).await;
        let used_bytes = sim.used_bytes();
        let fill = async || {
            let quota_bytes = Some(sim.used_bytes());
            sim.set_faults(Faults { quota_bytes, ..Faults::default() });
        };
        let job = engine.next_job_of(JobKind::Flush, LATER_S).unwrap();
        let full = engine.run(job, LATER_S, fill).await.err();
        // The disk itself: what was promised was taken by others.
        assert!(matches!(full, Some(Error::DiskFull { .. })) && full != no_space_to_flush());
        assert_eq!(sim.used_bytes(), used_bytes);
        leave_free(&sim, &disk, 700 << 10).await;
        assert_eq!(flush_once(&engine, LATER_S + 60).await.0, None);
        sim.set_faults(Faults::default());
    });
}

/// Before: it began again and again, wrote as much as before and removed it, and writes were taken meanwhile.
#[test]
fn a_flush_that_met_a_full_disk_begins_where_there_is_space_for_more_than_it_had_written() {
    on_sim(async |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        fill_memory_behind_zeros(&engine).await;
        let used_bytes = sim.used_bytes();
        let fill = async || {
            if sim.used_bytes() > used_bytes + (600 << 10) {
                let quota_bytes = Some(sim.used_bytes());
                sim.set_faults(Faults { quota_bytes, ..Faults::default() });
            }
        };
        let job = engine.next_job_of(JobKind::Flush, LATER_S).unwrap();
        let full = engine.run(job, LATER_S, fill).await.err();
        assert!(matches!(full, Some(Error::DiskFull { .. })) && full != no_space_to_flush());
        leave_free(&sim, &disk, 800 << 10).await;
        let (error, least) = flush_once(&engine, LATER_S + 60).await;
        assert_eq!((error, least), (no_space_to_flush(), None), "nothing was begun");
        engine.measure_space(0).await.unwrap();
        assert!(engine.is_disk_full());
        leave_free(&sim, &disk, 8 << 20).await;
        assert_eq!(flush_once(&engine, LATER_S + 120).await.0, None);
        sim.set_faults(Faults::default());
    });
}

/// Flushes a short file of zeros, and then seals 1 MiB of values that do not compress.
async fn seal_noise_behind_zeros(engine: &Engine) {
    write_zeros(engine, 0..60).await;
    flush(engine).await;
    for key in 0..40 {
        write(engine, &record(&[key], Some(&noise(key, 3000)), 1)).await.unwrap();
    }
    engine.seal(TABLE);
}

/// Flushes a short file of zeros once more, with 300 KiB free: its error. Then the disk has space.
async fn flush_zeros_into_little(engine: &Engine, (sim, disk): (&SimDisk, &Disk)) -> Option<Error> {
    engine.measure_space(0).await.unwrap();
    write_zeros(engine, 0..60).await;
    leave_free(sim, disk, 300 << 10).await;
    let (error, _) = flush_once(engine, LATER_S + 60).await;
    sim.set_faults(Faults::default());
    error
}

/// Before: it was asked for of what was written later, too.
#[test]
fn what_a_flush_was_refused_is_forgotten_when_its_table_is_emptied() {
    on_sim(async |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        seal_noise_behind_zeros(&engine).await;
        leave_free(&sim, &disk, 700 << 10).await;
        assert_eq!(flush_once(&engine, LATER_S).await.0, no_space_to_flush());
        leave_free(&sim, &disk, 8 << 20).await;
        engine.truncate(TABLE).await.unwrap();
        assert_eq!(flush_zeros_into_little(&engine, (&sim, &disk)).await, None);
    });
}

/// Before: a flush that met the full disk after its table was emptied noted it for what was written later.
#[test]
fn what_a_flush_was_refused_is_not_noted_for_a_table_that_was_emptied_meanwhile() {
    on_sim(async |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        seal_noise_behind_zeros(&engine).await;
        let job = engine.next_job_of(JobKind::Flush, LATER_S).unwrap();
        let pauses = RefCell::new(0);
        let pause = async || {
            let count = pauses.replace_with(|count| *count + 1) + 1;
            if count == 30 {
                engine.truncate(TABLE).await.unwrap();
                leave_free(&sim, &disk, 128 << 10).await;
            }
        };
        let full = engine.run(job, LATER_S, pause).await.err();
        assert!(matches!(full, Some(Error::DiskFull { .. })), "{full:?}");
        leave_free(&sim, &disk, 8 << 20).await;
        assert_eq!(flush_zeros_into_little(&engine, (&sim, &disk)).await, None);
    });
}

/// Two shards with 8 MiB of memory and one ledger, and whether a key is the second one's.
async fn two_shards(disk: &Disk, exec: &SimExec) -> (Rc<Engine>, Rc<Engine>, fn(&u32) -> bool) {
    let ledger = SpaceLedger::default();
    let engine_of = async |shard: u32, tokens| {
        let config = || Config { memory_bytes: 8 << 20, ..config(u64::from(shard), tokens, shard) };
        Engine::create(disk, &config()).await.unwrap();
        open(disk, exec, config(), &ledger).await
    };
    let low = TokenRange { first: TokenRange::ALL.first, last: Token(-1) };
    let high = TokenRange { first: Token(0), last: TokenRange::ALL.last };
    let is_high = |key: &u32| Token::of_key(&key.to_be_bytes()).0 >= 0;
    (engine_of(0, low).await, engine_of(1, high).await, is_high)
}

/// Runs a flush of one shard, and at its first pause one of another: their errors, and whether the other one has begun.
async fn flush_beside(outer: &Engine, inner: &Engine) -> ([Option<Error>; 2], bool) {
    let beside = RefCell::new(None);
    let pause = async || {
        if beside.borrow().is_none() {
            let done = flush_once(inner, LATER_S).await;
            beside.replace(Some(done));
        }
    };
    let job = outer.next_job_of(JobKind::Flush, LATER_S).unwrap();
    let done = outer.run(job, LATER_S, pause).await.err();
    let (error, least) = beside.into_inner().expect("the flush has pauses");
    ([done, error], least.is_some())
}

/// Before: a flush that began with less than its estimate was promised all that was free, so that others had none.
#[test]
fn a_flush_that_begins_with_less_than_its_estimate_leaves_the_rest_to_others() {
    on_sim(async |sim, disk, exec| {
        let (first, second, is_high) = two_shards(&disk, &exec).await;
        write_zeros(&first, (0..120).filter(|key| !is_high(key))).await;
        let key = (0..).find(is_high).unwrap();
        write(&second, &record(&[key], Some(&noise(key, 3000)), 1)).await.unwrap();
        second.seal(TABLE);
        leave_free(&sim, &disk, 700 << 10).await;
        assert_eq!(flush_beside(&first, &second).await.0, [None, None]);
        sim.set_faults(Faults::default());
    });
}

/// Before: the next one asked for all of its estimate, though its file takes less: it was refused for ever.
#[test]
fn a_flush_that_others_left_no_space_for_a_while_begins_with_less_again() {
    on_sim(async |sim, disk, exec| {
        let (first, second, is_high) = two_shards(&disk, &exec).await;
        let write_noise = async |keys: u32| {
            for key in (0..).filter(|key| !is_high(key)).take(keys as usize) {
                write(&first, &record(&[key], Some(&noise(key, 3000)), 1)).await.unwrap();
            }
        };
        // Files are as long as what is in memory.
        write_noise(10).await;
        flush(&first).await;
        write_zeros(&first, (1000..).filter(|key| !is_high(key)).take(80)).await;
        write_noise(40).await;
        first.seal(TABLE);
        write_zeros(&second, (0..).filter(is_high).take(40)).await;
        second.seal(TABLE);
        // The second one is promised 1.7 MiB, and takes next to nothing. The first one takes 1 of 3 MiB in memory.
        leave_free(&sim, &disk, 2400 << 10).await;
        let (ended, has_begun) = flush_beside(&second, &first).await;
        assert_eq!((ended, has_begun), ([None, no_space_to_flush()], true));
        assert_eq!(flush_once(&first, LATER_S + 60).await.0, None);
        sim.set_faults(Faults::default());
    });
}

/// Before: writes were taken again a second after a flush had found no space, until the memory was full.
#[test]
fn writes_are_refused_while_a_flush_that_is_due_has_no_space() {
    on_sim(async |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        fill_memory(&engine).await;
        // Less than 97 % are used.
        leave_free(&sim, &disk, 1 << 20).await;
        let job = engine.next_job_of(JobKind::Flush, LATER_S).unwrap();
        assert_eq!(engine.run(job, LATER_S, yield_now).await.err(), no_space_to_flush());
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

/// Before: it read on to its end, as long as its output was too short to be adopted, and kept all that it read.
#[test]
fn a_merge_of_a_table_that_was_emptied_ends_at_its_next_step() {
    on_sim(async |sim, disk, exec| {
        let engine = open_small(&disk, &exec).await;
        for part in 0..4 {
            for key in (0..200).filter(|key| key % 4 == part) {
                write(&engine, &record(&[key], Some(&noise(key, 400)), 1)).await.unwrap();
            }
            flush(&engine).await;
        }
        let used_bytes = sim.used_bytes();
        let (job, pauses) =
            (engine.next_job_of(JobKind::Compact, LATER_S).unwrap(), RefCell::new(0));
        let pause = async || {
            let count = pauses.replace_with(|count| *count + 1) + 1;
            if count == 10 {
                engine.truncate(TABLE).await.unwrap();
            }
        };
        engine.run(job, LATER_S, pause).await.unwrap();
        assert!(*pauses.borrow() < 15, "{pauses:?} pauses");
        shard::run_jobs(&engine, LATER_S).await;
        assert!(sim.used_bytes() + (600 << 10) < used_bytes, "its inputs are gone");
        sim.set_faults(Faults::default());
    });
}

/// Before: two merges of two shards both counted the same free bytes, and one of them met a full disk.
#[test]
fn shards_do_not_promise_the_same_free_bytes_twice() {
    let errors = Rc::new(RefCell::new(Vec::new()));
    let seen = errors.clone();
    on_sim(async move |sim, disk, exec| {
        let ledger = SpaceLedger::default();
        *seen.borrow_mut() = two_merges(&sim, &disk, &exec, [&ledger, &ledger]).await;
    });
    let named = |error: &&Error| !matches!(error, Error::DiskFull { file } if &**file == "the output of a compaction");
    assert_eq!(errors.borrow().iter().find(named), None, "no write has met a full disk");
}

/// Before: tombstones stayed for ever where a large old file had no filter in memory: it said "perhaps" to all of
/// them.
#[test]
fn tombstones_go_although_the_filter_of_an_older_file_is_not_in_memory() {
    const KEYS: u32 = 72_000;
    on_sim(async |_, disk, exec| {
        let config = |seed| config(seed, TokenRange::ALL, 0);
        Engine::create(&disk, &config(1)).await.unwrap();
        let ledger = SpaceLedger::default();
        let engine = open(&disk, &exec, config(2), &ledger).await;
        for first in (0..KEYS).step_by(1000) {
            let keys: Vec<u32> = (first..first + 1000).collect();
            write(&engine, &record(&keys, Some(b"v"), 1)).await.unwrap();
        }
        flush(&engine).await;
        drop(engine);
        let small = Config { memory_bytes: engine::limits::MEMORY_BYTES_MIN, ..config(3) };
        let engine = open(&disk, &exec, small, &ledger).await;
        for timestamp in 2..6 {
            // Of the first ten keys the old file has rows, of the others it has none.
            let keys: Vec<u32> = (0..10).chain(KEYS..KEYS + 200).collect();
            write(&engine, &record(&keys, None, timestamp)).await.unwrap();
            flush(&engine).await;
        }
        let sizes = || {
            let size = engine.table_size(TABLE).unwrap();
            (size.sstables, size.partitions)
        };
        assert_eq!(sizes(), (5, u64::from(KEYS) + 4 * 210));
        assert_eq!(merge(&engine).await, []);
        assert_eq!(sizes(), (2, u64::from(KEYS) + 10), "what hides something stays, and no more");
        let reads = engine.stats().compaction_filter_reads;
        assert!((1..100).contains(&reads), "a piece is read about once: {reads}");
    });
}
