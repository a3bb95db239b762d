//! Compaction inside a shard: it changes how many files there are and nothing that a reader sees.
//!
//! In files of their own: tombstones (`compaction/tombstones.rs`), what is told of merges (`compaction/history.rs`).

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::cell::{Cell as Slot, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use engine::io::{Crash, Disk, Faults, SimExec};
use engine::layout;
use engine::{Engine, Job, JobKind};
use futures_lite::future::yield_now;
use messina_engine as engine;
use model::mutation::MutationBuilder;
use model::options::{Class, Compaction, TableOptions, TombstoneGc};
use model::read::{Flow, PartitionRef, RowSink};
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::{ColumnId, Deletion, Schema, Token};

use crate::shard::{
    self, LATER_S, TABLE, config, flush, key_value, make, merge_whole, on_sim, run_jobs, schema_of,
    select_all,
};

mod history;
mod tombstones;

const KEYS: u8 = 40;
/// Bytes of a value, which are all the same.
const VALUE_BYTES: usize = 300;

fn schema() -> Schema {
    schema_with(TombstoneGc::Timeout)
}

fn schema_with(tombstone_gc: TombstoneGc) -> Schema {
    let options = TableOptions { gc_grace_seconds: 10, tombstone_gc, ..TableOptions::default() };
    schema_of([key_value(options)])
}

/// Sets the value of a key, or deletes the partition.
fn record(key: u8, value: Option<u8>, timestamp: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut m = MutationBuilder::begin(&mut out, TABLE, Token::of_key(&[key]), &[key]);
    match value {
        None => m.delete_partition(Deletion { timestamp, local_s: 100 }),
        Some(value) => m.row(&[], |out| {
            let value = [value; VALUE_BYTES];
            let cell = Cell::live(ColumnId(1), timestamp, &value);
            RowBuilder::begin(out, &RowHead::bare(timestamp)).cell(&cell);
        }),
    }
    m.finish();
    out
}

#[derive(Default)]
struct Values(BTreeMap<u8, u8>);

impl RowSink for Values {
    fn row(&mut self, p: &PartitionRef<'_>, _: Option<&[u8]>, row: Option<RowRef<'_>>) -> Flow {
        let cell = row.and_then(|row| row.cells().next()).unwrap();
        self.0.insert(p.key[0], cell.value[0]);
        Flow::More
    }
}

async fn all(engine: &Engine) -> BTreeMap<u8, u8> {
    let mut values = Values::default();
    engine.read(&select_all(LATER_S), &mut values, yield_now).await.unwrap();
    values.0
}

async fn open(disk: &Disk, exec: &SimExec, seed: u64) -> Rc<Engine> {
    shard::open(disk, exec, config(seed), &schema()).await
}

/// A shard and what it should hold.
struct Shard {
    engine: Rc<Engine>,
    oracle: BTreeMap<u8, u8>,
    time: i64,
}

impl Shard {
    async fn create(disk: &Disk, exec: &SimExec) -> Shard {
        Shard::create_with(disk, exec, &schema()).await
    }

    async fn create_with(disk: &Disk, exec: &SimExec, schema: &Schema) -> Shard {
        make(disk, &config(1)).await;
        let engine = shard::open(disk, exec, config(2), schema).await;
        Shard { engine, oracle: BTreeMap::new(), time: 1 }
    }

    async fn write(&mut self, key: u8, value: Option<u8>) {
        self.time += 1;
        shard::write(&self.engine, &record(key, value, self.time)).await.unwrap();
        match value {
            Some(value) => self.oracle.insert(key, value),
            None => self.oracle.remove(&key),
        };
    }

    /// Writes to a third of the keys, deletes some, and flushes.
    async fn round(&mut self, round: u8) {
        for key in (round % 3..KEYS).step_by(3) {
            let value = (!(key ^ round).is_multiple_of(5)).then_some(round);
            self.write(key, value).await;
        }
        flush(&self.engine).await;
    }

    async fn check(&self) {
        assert_eq!(all(&self.engine).await, self.oracle);
    }

    fn files(&self) -> u64 {
        self.engine.table_size(TABLE).unwrap().sstables
    }
}

#[test]
fn files_stay_few_and_readers_see_the_same_also_after_a_crash() {
    for seed in 0..10 {
        let sim = on_sim(seed, async |_, disk, exec| {
            let mut shard = Shard::create(&disk, &exec).await;
            for round in 0..21 {
                shard.round(round).await;
                run_jobs(&shard.engine, 1).await;
                shard.check().await;
                assert!(shard.files() < 4, "{} files", shard.files());
            }
            assert!(shard.engine.stats().compactions >= 6);
        });
        let disk = Disk::Sim(sim.crash(seed, Crash::Random));
        let exec = SimExec::new(seed);
        let inner = exec.clone();
        exec.run(async move {
            let after = all(&*open(&disk, &inner, 3).await).await;
            let mut oracle = BTreeMap::new();
            for round in 0..21 {
                for key in (round % 3..KEYS).step_by(3) {
                    match (key ^ round) % 5 {
                        0 => oracle.remove(&key),
                        _ => oracle.insert(key, round),
                    };
                }
            }
            assert_eq!(after, oracle);
        })
        .done();
    }
}

#[test]
fn writes_and_reads_go_on_meanwhile() {
    for seed in 0..10 {
        on_sim(seed, async |_, disk, exec| {
            let mut shard = Shard::create(&disk, &exec).await;
            for round in 0..4 {
                shard.round(round).await;
            }
            let job = shard.engine.next_job(1);
            assert_eq!(job, Some(Job::Compact(TABLE)));
            let (engine, ended) = (shard.engine.clone(), Rc::new(Slot::new(false)));
            let end = ended.clone();
            exec.spawn(async move {
                engine.run(job.unwrap(), 1, async || yield_now().await).await.unwrap();
                end.set(true);
            });
            let mut steps = 0;
            while !ended.get() {
                shard.write(steps % KEYS, (steps % 3 > 0).then_some(steps)).await;
                shard.check().await;
                steps += 1;
            }
            assert!(steps > 1, "the compaction was over before anything else happened");
            shard.check().await;
            run_jobs(&shard.engine, 1).await;
            shard.check().await;
        });
    }
}

#[test]
fn what_was_truncated_meanwhile_does_not_come_back() {
    for seed in 0..20 {
        on_sim(seed, async |_, disk, exec| {
            let mut shard = Shard::create(&disk, &exec).await;
            for round in 0..4 {
                shard.round(round).await;
            }
            let engine = shard.engine.clone();
            exec.spawn(async move { run_jobs(&engine, 1).await });
            yield_now().await;
            shard.engine.truncate(TABLE).await.unwrap();
            shard.oracle.clear();
            shard.check().await;
            shard.write(1, Some(1)).await;
            for _ in 0..200 {
                yield_now().await;
            }
            run_jobs(&shard.engine, 1).await;
            shard.check().await;
        });
    }
}

#[test]
fn a_disk_that_is_full_when_the_inputs_are_deleted_leaves_the_outputs() {
    let after_commit = Rc::new(Slot::new(0));
    for nth in 0..120 {
        let after_commit = after_commit.clone();
        on_sim(nth, async move |sim, disk, exec| {
            let mut shard = Shard::create(&disk, &exec).await;
            for round in 0..4 {
                shard.round(round).await;
            }
            let job = shard.engine.next_job(1).unwrap();
            let fail_errno = Some(libc::ENOSPC);
            sim.set_faults(Faults { fail_op: Some(nth), fail_errno, ..Faults::default() });
            let result = shard.engine.run(job, 1, async || yield_now().await).await;
            sim.set_faults(Faults::default());
            shard.check().await;
            if result.is_err() && shard.engine.stats().compactions == 1 {
                after_commit.set(after_commit.get() + 1);
            }
            // A start finds all files that the manifest names.
            let disk = Disk::Sim(sim.crash(nth, Crash::Random));
            let again = open(&disk, &exec, 3).await;
            assert_eq!(all(&again).await, shard.oracle, "operation {nth}");
        });
    }
    assert!(after_commit.get() >= 4, "{} after the commit", after_commit.get());
}

#[test]
fn whichever_operation_fails_readers_see_the_same_and_it_is_tried_again() {
    let failed = Rc::new(Slot::new(0));
    for nth in 0..120 {
        let failed = failed.clone();
        on_sim(nth, async move |sim, disk, exec| {
            let mut shard = Shard::create(&disk, &exec).await;
            for round in 0..4 {
                shard.round(round).await;
            }
            let job = shard.engine.next_job(1).unwrap();
            sim.set_faults(Faults { fail_op: Some(nth), ..Faults::default() });
            let result = shard.engine.run(job, 1, async || yield_now().await).await;
            sim.set_faults(Faults::default());
            shard.check().await;
            failed.set(failed.get() + usize::from(result.is_err()));
            if let Ok(()) | Err(engine::Error::Poisoned(_)) = result {
                return;
            }
            // After a failed commit the engine stops; after anything else the next try succeeds.
            let Some(job) = shard.engine.next_job(100) else { return };
            let again = shard.engine.run(job, 100, async || yield_now().await).await;
            shard.check().await;
            assert!(
                again == Ok(()) || matches!(again, Err(engine::Error::Poisoned(_))),
                "{again:?}"
            );
        });
    }
    assert!(failed.get() > 20, "{} failed", failed.get());
}

/// Four runs of the same keys, of which a merge is adopted in many pieces.
async fn four_runs(disk: &Disk, exec: &SimExec) -> Shard {
    let mut shard = Shard::create(disk, exec).await;
    shard.engine.set_fragment_bytes_min(50);
    for round in 0..4 {
        shard.round(round).await;
    }
    shard
}

#[test]
fn a_power_cut_between_two_adoptions_leaves_what_was_adopted_and_the_rest_of_the_inputs() {
    let (between, is_over) = (Rc::new(Slot::new(0)), Rc::new(Slot::new(false)));
    for nth in (0..).step_by(9) {
        let (between, over) = (between.clone(), is_over.clone());
        on_sim(nth, async move |sim, disk, exec| {
            let shard = four_runs(&disk, &exec).await;
            sim.set_faults(Faults { crash_at_op: Some(nth), ..Faults::default() });
            let engine = shard.engine.clone();
            let ended = over.clone();
            exec.spawn(async move {
                run_jobs(&engine, 1).await;
                ended.set(true);
            });
            while !over.get() && !sim.is_crashed() {
                yield_now().await;
            }
            let disk = Disk::Sim(sim.crash(nth, Crash::Random));
            let again = open(&disk, &exec, 3).await;
            assert_eq!(all(&again).await, shard.oracle, "operation {nth}");
            let size = again.table_size(TABLE).unwrap();
            if over.get() {
                assert!(size.runs == 1 && size.sstables > 4, "{size:?}");
            }
            let is_between = size.runs > 1 && size.sstables > size.runs;
            between.set(between.get() + usize::from(is_between));
            run_jobs(&again, 1).await;
            assert_eq!(all(&again).await, shard.oracle, "operation {nth}, and compacted");
        });
        if is_over.get() {
            break;
        }
    }
    assert!(between.get() > 10, "{} cuts between two adoptions", between.get());
}

#[test]
fn a_merge_of_a_run_of_fragments_never_needs_its_space_twice() {
    on_sim(1, async |sim, disk, exec| {
        let mut shard = four_runs(&disk, &exec).await;
        run_jobs(&shard.engine, 1).await;
        for round in 4..7 {
            shard.round(round).await;
        }
        let dir = layout::table_dir(TABLE.0);
        let on_disk = async || {
            let files = disk.list(&dir).await.unwrap();
            files.iter().filter_map(|file| Some(sim.bytes(&dir.join(&file.name))?.len())).sum()
        };
        let (before, mut most): (usize, usize) = (on_disk().await, 0);
        let (engine, ended) = (shard.engine.clone(), Rc::new(Slot::new(false)));
        let end = ended.clone();
        exec.spawn(async move {
            run_jobs(&engine, 1).await;
            end.set(true);
        });
        while !ended.get() {
            most = most.max(on_disk().await);
            yield_now().await;
        }
        let stats = shard.engine.stats();
        assert!(stats.compactions == 2 && stats.compaction_fragments > 15, "{stats:?}");
        assert!(most < before * 3 / 2, "{before} bytes before, {most} meanwhile");
    });
}

#[test]
fn writers_are_slowed_while_too_many_runs_wait_to_be_merged() {
    on_sim(1, async |_, disk, exec| {
        let mut shard = Shard::create(&disk, &exec).await;
        let mut delays = Vec::new();
        for round in 0..48 {
            shard.round(round).await;
            assert!(shard.engine.next_job_of(JobKind::Flush, 1).is_none());
            let job = shard.engine.next_job_of(JobKind::Compact, 1);
            assert_eq!(job.is_some(), round >= 3, "after {round} rounds");
            delays.push(shard.engine.write_delay_us());
        }
        assert!(delays[..30].iter().all(|delay| *delay == 0), "{delays:?}");
        assert!(delays.windows(2).all(|pair| pair[0] <= pair[1]), "{delays:?}");
        assert!(delays[47] > 5000, "{delays:?}");
        run_jobs(&shard.engine, 1).await;
        assert_eq!((shard.engine.write_delay_us(), shard.files()), (0, 1));
        shard.check().await;
    });
}

#[test]
fn a_cut_that_is_made_while_the_disk_is_asked_is_seen_by_the_next_plan() {
    for seed in 0..40 {
        on_sim(seed, async move |sim, disk, exec| {
            let mut shard = Shard::create(&disk, &exec).await;
            for round in 0..4 {
                shard.round(round).await;
            }
            let dir = engine::io::RelPath::root().join("cut");
            disk.mkdir(&dir).await.unwrap();
            // Nothing fits, so that a merge is chosen again and again.
            sim.set_faults(Faults { quota_bytes: Some(1 << 20), ..Faults::default() });
            let (engine, ended) = (shard.engine.clone(), Rc::new(Slot::new(false)));
            let end = ended.clone();
            exec.spawn(async move {
                for _ in 0..5 {
                    let job = Job::Compact(TABLE);
                    // On a full disk it fails.
                    let _ = engine.run(job, LATER_S, async || yield_now().await).await;
                }
                end.set(true);
            });
            shard.engine.link_and_cut(TABLE, &dir).await.unwrap();
            let files = shard.files();
            while !ended.get() {
                yield_now().await;
            }
            assert_eq!(shard.files(), files, "nothing is merged while there is a cut");
            sim.set_faults(Faults::default());
            run_jobs(&shard.engine, LATER_S).await;
            assert_eq!(shard.files(), files);
            shard.engine.end_cut(TABLE);
            run_jobs(&shard.engine, LATER_S).await;
            assert!(shard.files() <= 1);
        });
    }
}

/// Before: a table that always had something to merge was never merged whole: the operator asked for ever.
#[test]
fn while_a_table_is_wanted_whole_no_other_merge_of_it_begins() {
    on_sim(1, async |_, disk, exec| {
        let mut shard = Shard::create(&disk, &exec).await;
        for round in 0..4 {
            shard.round(round).await;
        }
        let (engine, ended) = (shard.engine.clone(), Rc::new(Slot::new(false)));
        let job = engine.next_job_of(JobKind::Compact, 1).unwrap();
        let (running, end) = (engine.clone(), ended.clone());
        exec.spawn(async move {
            running.run(job, 1, async || yield_now().await).await.unwrap();
            end.set(true);
        });
        let request = engine.request_major(TABLE);
        let pause = async || yield_now().await;
        yield_now().await;
        while !engine.compact_major(&request, 1, pause).await.unwrap() {
            shard.round(9).await;
            assert_eq!(engine.next_job_of(JobKind::Compact, 1), None);
            let job = Job::Compact(TABLE);
            engine.run(job, 1, pause).await.unwrap();
        }
        assert!(ended.get(), "the merge that ran has ended");
        assert_eq!(shard.files(), 1, "and then it was the turn of what was asked for");
        for round in 0..4 {
            shard.round(round).await;
        }
        assert_eq!(engine.next_job_of(JobKind::Compact, 1), None, "the request still waits");
        drop(request);
        run_jobs(&shard.engine, 1).await;
        assert!(shard.files() < 4);
        shard.check().await;
    });
}
