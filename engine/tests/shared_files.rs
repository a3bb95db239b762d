//! A file that two shards have since the data was dealt to them: it goes with the last of them, and not before.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::cell::Cell as Slot;
use std::collections::BTreeSet;
use std::rc::Rc;

use engine::commitlog;
use engine::io::{Crash, Disk, Faults, Outcome, RelPath, SimDisk, SimExec};
use engine::layout::{self, Layout, Secret};
use engine::{Config, Engine, Error, JobKind, Reshard, Swept, sweep};
use futures_lite::future::{or, yield_now, zip};
use messina_engine as engine;
use model::mutation::MutationBuilder;
use model::options::{Compaction, Compression, TableOptions, TombstoneGc};
use model::read::{Flow, PartitionRef, RowSink};
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::{ColumnId, Deletion, Schema, Token, TokenRange};
use uuid::Uuid;

use crate::shard::{
    self, TABLE, answers, drive, flush, key_value, run_jobs, schema_of, select_all,
};

const KEYS: u8 = 200;
const VALUE: [u8; 1000] = [1; 1000];

fn schema() -> Schema {
    schema_of([key_value(TableOptions::default())])
}

/// Two files are merged at once, what is in them is not compressed, and a tombstone goes as soon as nothing is left
/// that it deletes.
fn pairs_at_once() -> TableOptions {
    let pairs =
        [("class", "SizeTieredCompactionStrategy"), ("min_threshold", "2"), ("max_threshold", "2")];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    TableOptions {
        compaction: Compaction::parse(&pairs.into()).unwrap(),
        compression: Compression::none(),
        tombstone_gc: TombstoneGc::Immediate,
        ..TableOptions::default()
    }
}

fn log(seed: u64) -> commitlog::Config {
    commitlog::Config { segment_bytes: 1 << 20, ..commitlog::Config::new(seed) }
}

fn config(layout: &Layout, shard: u32, owned: TokenRange, seed: u64) -> Config {
    let shard_dir = layout::shard_dir(layout.generation, shard);
    Config { shard_dir, owned: vec![owned], log: log(seed), ..shard::config(seed) }
}

fn halves() -> [TokenRange; 2] {
    let all = TokenRange::ALL;
    [TokenRange { last: Token(-1), ..all }, TokenRange { first: Token(0), ..all }]
}

#[derive(Default)]
struct Keys(BTreeSet<u8>);

impl RowSink for Keys {
    fn row(&mut self, p: &PartitionRef<'_>, _: Option<&[u8]>, _: Option<RowRef<'_>>) -> Flow {
        self.0.insert(p.key[0]);
        Flow::More
    }
}

async fn keys(engine: &Engine, pause: impl AsyncFn()) -> BTreeSet<u8> {
    let mut keys = Keys::default();
    engine.read(&select_all(1), &mut keys, pause).await.unwrap();
    keys.0
}

async fn write(engine: &Engine, key: u8) {
    let mut out = Vec::new();
    let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(&[key]), &[key]);
    let cell = Cell::live(ColumnId(1), 1, &VALUE);
    m.row(&[], |out| RowBuilder::begin(out, &RowHead::bare(1)).cell(&cell));
    m.finish();
    engine.write(&out, key.into()).unwrap();
    answers(engine, 1).await;
}

/// A disk with one file, which one shard has.
fn disk_of_one(seed: u64) -> SimDisk {
    disk_of(seed, schema())
}

fn disk_of(seed: u64, schema: Schema) -> SimDisk {
    let sim = SimDisk::new(seed, Faults { suspensions_max: 2, ..Faults::default() });
    let (disk, exec) = (Disk::Sim(sim.clone()), SimExec::new(seed));
    let inner = exec.clone();
    exec.run(async move {
        let mut layout = Layout::first(1, Uuid::from_u128(1), Secret::NONE);
        layout.make_directories(&disk).await.unwrap();
        layout.ready = true;
        layout.store(&disk).await.unwrap();
        Engine::create(&disk, &config(&layout, 0, TokenRange::ALL, 1)).await.unwrap();
        let engine = Engine::open(&disk, config(&layout, 0, TokenRange::ALL, 2), &schema).await;
        let engine = drive(engine.unwrap(), &inner);
        for key in 0..KEYS {
            write(&engine, key).await;
        }
        flush(&engine).await;
        run_jobs(&engine, 1).await;
        assert_eq!(engine.table_size(TABLE).unwrap().sstables, 1);
    })
    .done();
    sim.kill()
}

fn files(sim: &SimDisk) -> Vec<RelPath> {
    sim.files_of(&layout::table_dir(TABLE.0))
}

/// Deals the data to so many shards, and opens them.
async fn deal_and_open(
    disk: &Disk,
    exec: &SimExec,
    owned: &[TokenRange],
    schema: &Schema,
) -> Vec<Rc<Engine>> {
    let layout::Found::Ready(from) = Layout::find(disk).await.unwrap() else { panic!("no data") };
    let (from, log, memory_bytes, now_s) = (&from, &log(owned.len() as u64), 1 << 20, 0);
    let deal = Reshard { disk, from, owned, schema, log, memory_bytes, now_s };
    let layout = deal.run().await.unwrap();
    let owners = sweep(disk, &layout).await.unwrap().owners;
    let mut shards = Vec::new();
    for (shard, owned) in (0..).zip(owned) {
        let config = config(&layout, shard, *owned, 7 + u64::from(shard));
        let mut engine = Engine::open(disk, config, schema).await.unwrap();
        engine.share_files(&owners);
        shards.push(drive(engine, exec));
    }
    shards
}

/// Three shards' parts of the ring.
fn thirds() -> [TokenRange; 3] {
    let thirds = [(i64::MIN, -1 << 61), ((-1 << 61) + 1, 1 << 61), ((1 << 61) + 1, i64::MAX)];
    thirds.map(|(first, last)| TokenRange { first: Token(first), last: Token(last) })
}

/// Two shards, and the file that they have of the one before.
struct Two {
    shards: [Rc<Engine>; 2],
    swept: u64,
}

impl Two {
    /// Opens them, and deals the data first where one shard has it.
    async fn open(disk: &Disk, exec: &SimExec, seed: u64) -> Two {
        let found = Layout::find(disk).await.unwrap();
        let layout::Found::Ready(mut layout) = found else { panic!("{found:?}") };
        let (owned, schema) = (halves(), schema());
        layout.remove_other_generations(disk).await.unwrap();
        if layout.shards == 1 {
            let (from, log, memory_bytes, now_s) = (&layout, &log(seed), 1 << 20, 0);
            let (owned, schema) = (&owned, &schema);
            let deal = Reshard { disk, from, owned, schema, log, memory_bytes, now_s };
            layout = deal.run().await.unwrap();
        }
        let Swept { deleted, owners, .. } = sweep(disk, &layout).await.unwrap();
        let mut shards = Vec::new();
        for (shard, owned) in (0..).zip(owned) {
            let config = config(&layout, shard, owned, seed + 1 + u64::from(shard));
            let mut engine = Engine::open(disk, config, &schema).await.unwrap();
            engine.share_files(&owners);
            assert_eq!(engine.damaged_files(), []);
            shards.push(drive(engine, exec));
        }
        Two { shards: shards.try_into().unwrap(), swept: deleted }
    }

    async fn check(&self) {
        for (shard, owned) in self.shards.iter().zip(halves()) {
            let wanted = (0..KEYS).filter(|key| owned.contains(Token::of_key(&[*key])));
            assert_eq!(keys(shard, yield_now).await, wanted.collect());
        }
    }

    fn deleted(&self) -> [u64; 2] {
        self.shards.each_ref().map(|shard| shard.stats().shared_files_deleted)
    }
}

/// Two shards on a disk where one had all; what `work` gives, if the power lasts.
fn on_two<T: 'static>(
    sim: &SimDisk,
    seed: u64,
    work: impl AsyncFnOnce(SimDisk, Two) -> T + 'static,
) -> Option<T> {
    let (disk, exec) = (Disk::Sim(sim.clone()), SimExec::powered_by(sim, seed));
    let (inner, sim) = (exec.clone(), sim.clone());
    let outcome = exec.run(async move {
        let two = Two::open(&disk, &inner, seed).await;
        work(sim, two).await
    });
    exec.end();
    match outcome {
        Outcome::Done(given) => Some(given),
        Outcome::Stalled => None,
    }
}

/// Before: it stayed until the next start, and its space with it.
#[test]
fn a_file_of_two_shards_goes_with_the_last_of_them() {
    for last in [0, 1] {
        let sim = disk_of_one(1);
        let given = on_two(&sim, 10, async move |sim, two| {
            let shared = files(&sim).remove(0);
            run_jobs(&two.shards[1 - last], 1).await;
            assert!(sim.has(&shared), "the other shard has it");
            assert_eq!((files(&sim).len(), two.deleted()), (2, [0, 0]));
            two.check().await;
            run_jobs(&two.shards[last], 1).await;
            assert!(!sim.has(&shared));
            assert_eq!((files(&sim).len(), two.deleted()[last]), (2, 1));
            two.check().await;
        });
        assert!(given.is_some());
    }
}

#[test]
fn a_file_of_two_shards_goes_when_the_last_is_emptied_or_hears_that_the_table_is_dropped() {
    let sim = disk_of_one(2);
    let given = on_two(&sim, 10, async |sim, two| {
        two.shards[0].truncate(TABLE).await.unwrap();
        two.shards[0].truncate(TABLE).await.unwrap();
        assert_eq!(files(&sim).len(), 1);
        assert!(!keys(&two.shards[1], yield_now).await.is_empty());
        two.shards[1].set_schema(&Schema::empty());
        run_jobs(&two.shards[1], 1).await;
        assert_eq!((files(&sim).len(), two.deleted()), (0, [0, 1]));
        assert!(!sim.has(&layout::table_dir(TABLE.0)), "and its directory with it");
    });
    assert!(given.is_some());
}

/// The file has lost its name by another shard's doing, and this one opens files when they are read.
#[test]
fn a_read_goes_on_that_began_before_its_shard_gave_the_file_up() {
    let sim = disk_of_one(3);
    sim.set_files_max(1);
    let given = on_two(&sim, 10, async |sim, two| {
        let (shared, gone, begun) = (files(&sim).remove(0), Slot::new(false), Slot::new(false));
        let read = keys(&two.shards[0], async || {
            begun.set(true);
            while !gone.get() {
                yield_now().await;
            }
        });
        let work = async {
            while !begun.get() {
                yield_now().await;
            }
            run_jobs(&two.shards[0], 1).await;
            run_jobs(&two.shards[1], 1).await;
            assert!(!sim.has(&shared));
            gone.set(true);
        };
        let (read, ()) = zip(read, work).await;
        assert_eq!(read, keys(&two.shards[0], yield_now).await);
    });
    assert!(given.is_some());
}

/// Before: it counted with all its bytes for each of them, and the first half of it was surplus beside the second.
#[test]
fn a_file_of_which_a_shard_has_two_parts_counts_once() {
    let sim = disk_of_one(9);
    let (disk, exec) = (Disk::Sim(sim.clone()), SimExec::new(9));
    let inner = exec.clone();
    exec.run(async move {
        let shards = deal_and_open(&disk, &inner, &thirds(), &schema()).await;
        run_jobs(&shards[1], 1).await;
    })
    .done();
    let sim = sim.kill();
    let (disk, exec) = (Disk::Sim(sim.clone()), SimExec::new(10));
    let inner = exec.clone();
    exec.run(async move {
        let all = deal_and_open(&disk, &inner, &[TokenRange::ALL], &schema()).await.remove(0);
        let mut file_bytes = 0;
        for file in files(&sim) {
            file_bytes += disk.open(&file).await.unwrap().len();
        }
        assert_eq!(files(&sim).len(), 2, "the middle has parted from the file");
        let size = all.table_size(TABLE).unwrap();
        assert_eq!((size.sstables, size.bytes), (3, file_bytes));
    })
    .done();
}

/// Before: its tombstones were purged as if the merge held all that the shard has of the file, and the rows of the
/// other part were seen again.
#[test]
fn a_merge_of_one_part_of_a_file_keeps_the_tombstones_of_the_other_part() {
    // Parts that are not compressed are larger than the file of the tombstones, which is merged with one of them.
    let schema = || schema_of([key_value(pairs_at_once())]);
    let sim = disk_of(11, schema());
    let (disk, exec) = (Disk::Sim(sim.clone()), SimExec::new(11));
    let inner = exec.clone();
    exec.run(async move {
        let shards = deal_and_open(&disk, &inner, &thirds(), &schema()).await;
        shards[1].truncate(TABLE).await.unwrap();
        // What comes back is a run by another name.
        let dir = RelPath::new("snapshots/s").unwrap();
        disk.mkdir(&RelPath::new("snapshots").unwrap()).await.unwrap();
        disk.mkdir(&dir).await.unwrap();
        let views = shards[2].link_files(TABLE, &dir).await.unwrap();
        shards[2].truncate(TABLE).await.unwrap();
        assert_eq!(shards[2].adopt_files(TABLE, &dir, &views).await, Ok(1));
    })
    .done();
    let sim = sim.kill();
    let (disk, exec) = (Disk::Sim(sim.clone()), SimExec::new(12));
    let inner = exec.clone();
    exec.run(async move {
        let all = deal_and_open(&disk, &inner, &[TokenRange::ALL], &schema()).await.remove(0);
        let before = keys(&all, yield_now).await;
        let of_part = |part: usize| {
            before.iter().filter(|key| thirds()[part].contains(Token::of_key(&[**key]))).count()
        };
        assert!(of_part(0) > 10 && of_part(2) > 10 && of_part(1) == 0);
        for key in &before {
            let mut out = Vec::new();
            let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(&[*key]), &[*key]);
            m.delete_partition(Deletion { timestamp: 2, local_s: 1 });
            m.finish();
            shard::write(&all, &out).await.unwrap();
        }
        flush(&all).await;
        assert_eq!(all.table_size(TABLE).unwrap().sstables, 3);
        let job = all.next_job_of(JobKind::Compact, 10).unwrap();
        all.run(job, 10, yield_now).await.unwrap();
        assert_eq!(keys(&all, yield_now).await, BTreeSet::new());
        // The part that was not merged, and the tombstones of its rows.
        assert_eq!(all.table_size(TABLE).unwrap().sstables, 2);
        run_jobs(&all, 10).await;
        assert_eq!((all.table_size(TABLE).unwrap().sstables, files(&sim)), (0, vec![]));
    })
    .done();
}

#[test]
fn a_power_cut_while_two_shards_part_their_file_loses_nothing() {
    let (first, mut cuts, mut swept) = (disk_of_one(4), 0, 0);
    for op in 0.. {
        let sim = first.kill();
        let done = on_two(&sim, 10 + op, async move |sim, two| {
            let crash_at_op = Some(op);
            sim.set_faults(Faults { crash_at_op, suspensions_max: 2, ..Faults::default() });
            zip(run_jobs(&two.shards[0], 1), run_jobs(&two.shards[1], 1)).await;
            assert_eq!(two.deleted().iter().sum::<u64>(), 1, "one of them was the last");
        });
        if done.is_some() {
            break;
        }
        let mode = [Crash::Nothing, Crash::Everything, Crash::Random][op as usize % 3];
        let sim = sim.crash(op, mode);
        let after = on_two(&sim, 20, async |_, two| {
            two.check().await;
            zip(run_jobs(&two.shards[0], 1), run_jobs(&two.shards[1], 1)).await;
            two.check().await;
            two.swept
        });
        swept += after.unwrap();
        cuts += 1;
    }
    assert!(cuts > 50 && swept > 10, "{cuts} cuts, and {swept} files that nothing named");
}

/// Both shards take a file back, and part it, while the other is about to unlink it.
#[test]
fn a_file_that_comes_back_is_not_deleted_by_the_shard_that_had_it_before() {
    let (first, mut deleted) = (disk_of_one(5), 0);
    for seed in 0..60 {
        let sim = first.kill();
        sim.set_faults(Faults { suspensions_max: 2, ..Faults::default() });
        let given = on_two(&sim, 100 + 10 * seed, async move |_, two| {
            let dir = RelPath::new("snapshots/s").unwrap();
            let disk = two.shards[0].disk();
            disk.mkdir(&RelPath::new("snapshots").unwrap()).await.unwrap();
            disk.mkdir(&dir).await.unwrap();
            let mut views = Vec::new();
            for shard in &two.shards {
                views.extend(shard.link_files(TABLE, &dir).await.unwrap());
            }
            let live = async |shard: &Engine, pauses: u64| {
                for _ in 0..4 {
                    run_jobs(shard, 1).await;
                    for _ in 0..pauses {
                        yield_now().await;
                    }
                    shard.adopt_files(TABLE, &dir, &views).await.unwrap();
                }
            };
            zip(live(&two.shards[0], 20), live(&two.shards[1], seed)).await;
            two.check().await;
            two.deleted()
        });
        deleted += given.unwrap().iter().sum::<u64>();
        let after = on_two(&sim.kill(), 20, async |_, two| two.check().await);
        assert!(after.is_some());
    }
    assert!(deleted > 60, "each world has deleted it more than once: {deleted}");
}

/// The shard counted for the files that it had linked, and they stayed until the next start.
#[test]
fn a_restore_that_fails_leaves_nothing_behind() {
    let (first, mut failed) = (disk_of_one(6), 0);
    for op in 0.. {
        let sim = first.kill();
        let given = on_two(&sim, 10 + op, async move |sim, two| {
            let dir = RelPath::new("snapshots/s").unwrap();
            let disk = two.shards[0].disk();
            disk.mkdir(&RelPath::new("snapshots").unwrap()).await.unwrap();
            disk.mkdir(&dir).await.unwrap();
            let mut views = Vec::new();
            for shard in &two.shards {
                views.extend(shard.link_files(TABLE, &dir).await.unwrap());
                shard.truncate(TABLE).await.unwrap();
            }
            assert!(files(&sim).is_empty() && views.len() == 2);
            sim.set_faults(Faults {
                fail_op: Some(op),
                fail_errno: Some(libc::ENOSPC),
                suspensions_max: 2,
                ..Faults::default()
            });
            let before = sim.ops();
            let adopted = two.shards[0].adopt_files(TABLE, &dir, &views).await;
            let is_last = sim.ops() - before <= op;
            sim.set_faults(Faults::default());
            let left = files(&sim);
            if let Err(Error::Poisoned(_)) = two.shards[0].truncate(TABLE).await {
                return Some(true);
            }
            match &adopted {
                Ok(count) => assert_eq!((*count, left.len()), (1, 1)),
                Err(_) => assert_eq!(left, [], "operation {op}: {adopted:?}"),
            }
            // It is counted once for each shard that has it, whatever went before.
            for shard in &two.shards {
                shard.adopt_files(TABLE, &dir, &views).await.unwrap();
            }
            assert_eq!(files(&sim).len(), 1);
            two.shards[0].truncate(TABLE).await.unwrap();
            assert_eq!(files(&sim).len(), 1, "operation {op}");
            two.shards[1].truncate(TABLE).await.unwrap();
            assert_eq!(files(&sim), [], "operation {op}");
            (!is_last).then_some(adopted.is_err())
        });
        let Some(has_failed) = given.unwrap() else { break };
        failed += u32::from(has_failed);
    }
    assert!(failed > 5, "{failed} operations could fail");
}

/// It stayed until the next start.
#[test]
fn a_file_that_cannot_be_kept_open_for_its_readers_goes_when_they_are_done() {
    let sim = disk_of_one(7);
    sim.set_files_max(1);
    let given = on_two(&sim, 10, async |sim, two| {
        run_jobs(&two.shards[1], 1).await;
        two.shards[1].truncate(TABLE).await.unwrap();
        let (shard, gone, begun) = (&two.shards[0], Slot::new(false), Slot::new(false));
        let read = keys(shard, async || {
            begun.set(true);
            while !gone.get() {
                yield_now().await;
            }
        });
        let work = async {
            while !begun.get() {
                yield_now().await;
            }
            // The file of the read is closed, for another one is open.
            let is_own = |key: &u8| halves()[0].contains(Token::of_key(&[*key]));
            for key in (0..KEYS).filter(is_own).take(2) {
                write(shard, key).await;
                flush(shard).await;
            }
            sim.set_faults(Faults { no_descriptor_one_in: 1, ..Faults::default() });
            shard.truncate(TABLE).await.unwrap();
            assert_eq!(files(&sim).len(), 1, "it has a reader, and cannot be kept open for it");
            let job = shard.next_job(1).unwrap();
            let tried = shard.run(job, 1, async || yield_now().await).await;
            assert!(matches!(tried, Err(Error::Io { errno: libc::EMFILE, .. })), "{tried:?}");
            assert_eq!((shard.next_job(1), files(&sim).len()), (None, 1), "not again at once");
            sim.set_faults(Faults::default());
            gone.set(true);
        };
        let (read, ()) = zip(read, work).await;
        // It goes on after the pause with what the table has then: nothing.
        assert!(!read.is_empty(), "what it had given before");
        let job = shard.next_job(100).unwrap();
        shard.run(job, 100, async || yield_now().await).await.unwrap();
        assert_eq!((files(&sim), shard.next_job(100)), (vec![], None));
    });
    assert!(given.is_some());
}

/// How often others had a turn until this was done.
async fn turns_of<T>(work: impl Future<Output = T>) -> (T, u64) {
    let (done, turns) = (Slot::new(false), Slot::new(0));
    let work = async {
        let given = work.await;
        done.set(true);
        given
    };
    let count = async {
        while !done.get() {
            turns.set(turns.get() + 1);
            yield_now().await;
        }
    };
    let (given, ()) = zip(work, count).await;
    (given, turns.get())
}

/// Before: the job waited for a descriptor for each of the files, five seconds each, and forgot those that were left if
/// it was ended on the way.
#[test]
fn while_there_is_no_descriptor_a_job_waits_for_one_file_and_forgets_none() {
    let sim = disk_of_one(8);
    sim.set_files_max(1);
    let given = on_two(&sim, 10, async |sim, two| {
        run_jobs(&two.shards[1], 1).await;
        two.shards[1].truncate(TABLE).await.unwrap();
        let (shard, gone, begun) = (&two.shards[0], Slot::new(false), Slot::new(false));
        let is_own = |key: &u8| halves()[0].contains(Token::of_key(&[*key]));
        for key in (0..KEYS).filter(is_own).take(4) {
            write(shard, key).await;
            flush(shard).await;
        }
        let read = keys(shard, async || {
            begun.set(true);
            while !gone.get() {
                yield_now().await;
            }
        });
        let work = async {
            while !begun.get() {
                yield_now().await;
            }
            sim.set_faults(Faults { no_descriptor_one_in: 1, ..Faults::default() });
            let (truncated, of_all) = turns_of(shard.truncate(TABLE)).await;
            truncated.unwrap();
            let left = files(&sim).len();
            assert!(left >= 4, "they have a reader: {left}");
            let job = || shard.run(shard.next_job(1).unwrap(), 1, async || yield_now().await);
            // It is ended while it waits for a descriptor.
            let end = async {
                for _ in 0..20 {
                    yield_now().await;
                }
                Ok(())
            };
            or(job(), end).await.unwrap();
            assert_eq!(files(&sim).len(), left);
            let (tried, of_job) = turns_of(job()).await;
            assert!(matches!(tried, Err(Error::Io { errno: libc::EMFILE, .. })), "{tried:?}");
            // It is asked for 250 times for a file.
            for turns in [of_all, of_job] {
                assert!(turns < 500, "{turns} turns for {left} files");
            }
            sim.set_faults(Faults::default());
            gone.set(true);
        };
        zip(read, work).await;
        let job = shard.next_job(100).unwrap();
        shard.run(job, 100, async || yield_now().await).await.unwrap();
        assert_eq!((files(&sim), shard.next_job(100)), (vec![], None));
    });
    assert!(given.is_some());
}
