//! What a shard does beside requests: its log, its flushes and compactions, its housekeeping.
//!
//! ```text
//! Log         one commit after the other ──► completions ──► wake the pass
//!                                        ├─► enough was written ─┐
//!                                        └─► a write must wait ──┤
//! Background  every second: claim an idle log; which part of what │
//!             was served were writes; how full is the disk;       │
//!             which writes have waited too long ──────────────┴─► ask the engine for jobs
//! Flush,
//! Compaction  jobs in turns (`yielder.rs`): one flush, one removal, one sample, two compactions at a time
//! ```
//!
//! The engine says what is to be done (data), this decides when and with which weight. A job of one kind keeps none of
//! another waiting. Compaction weighs more the further it is behind, and more beside writes than beside reads.
//!
//! Invariant: a log, manifest or schema log that failed ends the process, at once and saying why. Nothing that
//! was acknowledged is lost by that, and nothing that could not be written is acknowledged.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use engine::io::IoClass;
use engine::{Engine, Error, Job, JobKind, LargeWritten, Result, Stats, reserve};
use futures_lite::future::poll_once;
use model::TableId;
use uuid::Uuid;

use crate::backpressure::DeferredTimeouts;
use crate::groups::{Group, compaction_shares};
use crate::limits::{
    HOUSEKEEPING_INTERVAL, JOB_CHECK_BYTES, JOB_WAIT, LARGE_LOG_INTERVAL, LARGE_LOG_KEY_CHARS,
    RESERVE_INTERVAL, WRITE_WAIT_MAX,
};
use crate::notify::Notify;
use crate::os::cpus;
use crate::owner::ShardId;
use crate::read_pauses::ReadPauses;
use crate::runtime::Runtime;
use crate::stalls::Work;
use crate::yielder::Yielder;

/// The background of one shard.
pub(crate) struct Background {
    runtime: Runtime,
    engine: Rc<Engine>,
    me: ShardId,
    /// Notified when the engine may have a job.
    look: Notify,
    /// What the node keeps aside on its disk.
    reserve_bytes: u64,
    /// How many jobs of each kind run.
    flushes: Cell<usize>,
    removals: Cell<usize>,
    samples: Cell<usize>,
    indexings: Cell<usize>,
    compactions: Cell<usize>,
    /// The weight of one merge or index build: that of all, divided by how many there are.
    compaction_shares: Rc<Cell<usize>>,
    /// Which part of what was served were writes, 0 to 1, in the last [`HOUSEKEEPING_INTERVAL`] in which anything was.
    write_part: Cell<f64>,
    /// When this was made.
    began: Instant,
    /// When the operator was last told of something large.
    told_large: Cell<Option<Instant>>,
}

impl Background {
    pub(crate) fn new(
        runtime: Runtime,
        engine: Rc<Engine>,
        me: ShardId,
        reserve_bytes: u64,
    ) -> Rc<Background> {
        Rc::new(Background {
            runtime,
            engine,
            me,
            look: Notify::new(),
            reserve_bytes,
            flushes: Cell::new(0),
            removals: Cell::new(0),
            samples: Cell::new(0),
            indexings: Cell::new(0),
            compactions: Cell::new(0),
            compaction_shares: Rc::new(Cell::new(Group::Compaction.shares())),
            write_part: Cell::new(1.0),
            began: Instant::now(),
            told_large: Cell::new(None),
        })
    }

    /// Starts the shard's own tasks; `wake` is told when writes are done.
    pub(crate) fn start(self: &Rc<Self>, wake: Arc<Notify>) {
        self.tell_uptime();
        let work = |group, name| Work { group, name, table: None };
        self.runtime.spawn(work(Group::Log, "log"), self.clone().drive_log(wake.clone()));
        let turns = work(Group::Requests, "turns of writes that read first");
        self.runtime.spawn(turns, self.clone().run_turns(wake.clone()));
        let housekeeping = work(Group::Background, "housekeeping");
        self.runtime.spawn(housekeeping, self.clone().run_housekeeping(wake));
        self.runtime.spawn(work(Group::Background, "choice of jobs"), self.clone().start_jobs());
    }

    /// Seconds since 1970, by which the engine judges what has expired. Where a wall clock that was ahead is set right,
    /// they go back with it: rows are not to expire before their time for as long as it was ahead.
    fn now_s(&self) -> u32 {
        self.runtime.wall_s()
    }

    /// Tells the engine how long this runs: by that it tries again what has failed, for the wall clock may be set back.
    fn tell_uptime(&self) {
        let uptime_s = self.runtime.since(self.began).as_secs();
        self.engine.set_uptime_s(u32::try_from(uptime_s).unwrap_or(u32::MAX));
    }

    async fn drive_log(self: Rc<Self>, wake: Arc<Notify>) {
        let (mut checked_bytes, mut checked_deferred) = (0, 0);
        let mut driving = pin!(self.engine.drive_log());
        let error = poll_fn(|context| {
            let state = driving.as_mut().poll(context);
            if self.engine.has_completed() {
                wake.notify();
                let written_bytes = self.engine.stats().write_bytes;
                if written_bytes - checked_bytes >= JOB_CHECK_BYTES {
                    checked_bytes = written_bytes;
                    self.look.notify();
                }
            }
            let deferred = self.engine.deferrals();
            if std::mem::replace(&mut checked_deferred, deferred) != deferred {
                self.look.notify();
            }
            state
        })
        .await;
        die(self.me, "the commit log", &error);
    }

    /// Runs the writes that read first, each when its turn comes. One that need not wait is done here at once: all that
    /// came in a pass are in the log before it is written. One that waits becomes a task of its own.
    async fn run_turns(self: Rc<Self>, wake: Arc<Notify>) {
        let work = Work { group: Group::Requests, name: "write that reads first", table: None };
        let pauses = ReadPauses::new(&self.runtime, Group::Requests);
        loop {
            let mut next = pin!(self.engine.next_turn());
            let turn = poll_fn(|context| {
                let state = next.as_mut().poll(context);
                if self.engine.has_completed() {
                    wake.notify();
                }
                state
            });
            let (turn, background, wake) = (turn.await, self.clone(), wake.clone());
            let mut running = Box::pin(async move {
                let pauses = ReadPauses::new(&background.runtime, Group::Requests);
                background.engine.run_turn(turn, || pauses.yield_if_due()).await;
                if background.engine.has_completed() {
                    wake.notify();
                }
            });
            if poll_once(&mut running).await.is_none() {
                self.runtime.spawn(work, running);
            }
            pauses.yield_if_due().await;
        }
    }

    async fn run_housekeeping(self: Rc<Self>, wake: Arc<Notify>) {
        let (mut before, mut for_space, mut for_turns) =
            (self.engine.stats(), DeferredTimeouts::default(), DeferredTimeouts::default());
        let yields = self.runtime.yielder(Group::Background);
        loop {
            let (now, stats) = (Instant::now(), self.engine.stats());
            if before.writes == stats.writes {
                self.engine.claim_log();
            }
            if let Some(part) = write_part(&before, &stats) {
                self.write_part.set(part);
            }
            before = stats;
            if let Err(error) = self.engine.measure_space(self.reserve_bytes).await {
                tracing::warn!(shard = %self.me, %error, "the free space is unknown");
            }
            let until = for_space.ended(now, stats.writes_deferred, WRITE_WAIT_MAX);
            while self.engine.give_up_deferred(until) {
                wake.notify();
                yields.yield_if_due().await;
            }
            let until = for_turns.ended(now, stats.writes_queued, WRITE_WAIT_MAX);
            self.engine.give_up_queued(until);
            if self.engine.has_completed() {
                wake.notify();
            }
            self.tell_large();
            for (file, error) in self.engine.take_lost_indexes() {
                tracing::warn!(shard = %self.me, file, %error, "an index file is made anew");
            }
            self.look.notify();
            self.runtime.sleep(HOUSEKEEPING_INTERVAL).await;
        }
    }

    /// Tells the operator of the largest that was written since it was told last, now and then.
    fn tell_large(&self) {
        let now = Instant::now();
        if self.told_large.get().is_some_and(|told| now - told < LARGE_LOG_INTERVAL) {
            return;
        }
        let Some(large) = self.engine.take_large_written() else { return };
        self.told_large.set(Some(now));
        let LargeWritten { table, is_row, key, bytes, files } = large;
        let hex = key.iter().take(LARGE_LOG_KEY_CHARS / 2).map(|byte| format!("{byte:02x}"));
        let (key, what) = (hex.collect::<String>(), if is_row { "row" } else { "partition" });
        tracing::warn!(shard = %self.me, table, key, bytes, files, "a file with a large {what}");
    }

    async fn start_jobs(self: Rc<Self>) {
        // A flush may wait to be chosen here: between two choices this yields as a flush does, and never sleeps.
        let yielder = self.yielder(Group::Flush);
        loop {
            self.tell_uptime();
            let mut has_started = false;
            for kind in JobKind::ALL {
                has_started |= self.start_next(kind);
                // Choosing a job may have judged many tables.
                yielder.yield_if_due().await;
            }
            let shares = compaction_shares(self.engine.backlog_runs(), self.write_part.get());
            self.compaction_shares.set(shares / self.sharing().max(1));
            self.engine.disk().weigh(IoClass::Compaction, shares);
            if !has_started {
                self.look.notified().await;
            }
        }
    }

    /// Starts the next job of a kind, if there is one and a place for it; whether it did.
    fn start_next(self: &Rc<Self>, kind: JobKind) -> bool {
        let (running, most) = self.running(kind);
        if running.get() == most {
            return false;
        }
        let Some(job) = self.engine.next_job_of(kind, self.now_s()) else { return false };
        running.set(running.get() + 1);
        self.clone().start_job(job);
        true
    }

    /// How many jobs divide the weight of compaction. One that has just been started may not be among the merges yet.
    fn sharing(&self) -> usize {
        self.compactions.get().max(self.engine.running_merges().len()) + self.indexings.get()
    }

    /// How many jobs of this kind run, and how many may.
    fn running(&self, kind: JobKind) -> (&Cell<usize>, usize) {
        match kind {
            JobKind::Flush => (&self.flushes, 1),
            JobKind::Remove => (&self.removals, 1),
            JobKind::Sample => (&self.samples, 1),
            JobKind::Index => (&self.indexings, 1),
            JobKind::Compact => (&self.compactions, engine::limits::COMPACTIONS_MAX),
        }
    }

    fn start_job(self: Rc<Self>, job: Job) {
        let (group, name, table) = match job {
            Job::Flush(table) => (Group::Flush, "flush", Some(table)),
            Job::Remove => (Group::Flush, "removal of files", None),
            Job::Drop(table) => (Group::Flush, "removal of files", Some(table)),
            Job::Sample => (Group::Flush, "sample of a flush", None),
            Job::Index(table) => (Group::Compaction, "indexing", Some(table)),
            Job::Compact(table) => (Group::Compaction, "compaction", Some(table)),
        };
        self.runtime.clone().spawn(Work { group, name, table }, async move {
            let yielder = self.yielder(group);
            let large_rows = self.engine.stats().large_rows;
            let result =
                self.engine.run(job.clone(), self.now_s(), || yielder.yield_if_due()).await;
            self.engine.date_merges(self.now_s());
            if let (Job::Flush(table), n @ 1..) =
                (&job, self.engine.stats().large_rows - large_rows)
            {
                tracing::warn!(shard = %self.me, %table, rows = n, "rows of 1 MiB and more");
            }
            if let Err(error) = self.trusted(result) {
                tracing::warn!(shard = %self.me, ?job, %error, "failed, and will be tried again");
            }
            let (running, _) = self.running(job.kind());
            running.set(running.get() - 1);
            self.look.notify();
        });
    }

    /// Takes the reserve again that was released, when there is space: the first core does. Says when more of it is
    /// missing than before.
    pub(crate) async fn keep_reserve(&self) {
        let mut said_bytes = 0;
        loop {
            self.runtime.sleep(RESERVE_INTERVAL).await;
            match self.engine.keep_reserve(self.reserve_bytes).await {
                Ok(missing_bytes) => {
                    if missing_bytes > said_bytes {
                        tracing::warn!(
                            "of the {} MiB that are kept aside for when the disk is full {} are missing: they are \
                             taken when {} MiB are free",
                            self.reserve_bytes >> 20,
                            missing_bytes >> 20,
                            reserve::wanted_bytes(self.reserve_bytes, missing_bytes) >> 20,
                        );
                    }
                    said_bytes = missing_bytes;
                }
                Err(error) => tracing::warn!(shard = %self.me, %error, "no space is kept aside"),
            }
        }
    }

    /// The turns of a job of this group.
    fn yielder(&self, group: Group) -> Yielder {
        let yielder = self.runtime.yielder(group);
        match group {
            Group::Compaction => yielder.weighted(self.compaction_shares.clone()),
            _ => yielder,
        }
    }

    /// Writes all memtables to sstables, so that the next start has nothing to replay.
    pub(crate) async fn flush(&self) -> Result<()> {
        let yielder = self.runtime.yielder(Group::Flush);
        self.trusted(self.engine.flush_all(self.now_s(), || yielder.yield_if_due()).await)
    }

    /// Writes what some tables hold in memory now to sstables.
    pub(crate) async fn flush_tables(&self, tables: &[TableId]) -> Result<()> {
        tables.iter().for_each(|table| self.engine.seal(*table));
        let yielder = self.runtime.yielder(Group::Flush);
        for table in tables {
            let flush = async || {
                let done =
                    self.engine.flush_sealed(*table, self.now_s(), || yielder.yield_if_due()).await;
                self.trusted(done)
            };
            while !flush().await? {
                self.runtime.sleep(JOB_WAIT).await;
            }
        }
        Ok(())
    }

    /// Merges all sstables of each of some tables into one.
    pub(crate) async fn compact_tables(&self, tables: &[TableId]) -> Result<()> {
        let yielder = self.yielder(Group::Compaction);
        for table in tables {
            let request = self.engine.request_major(*table);
            let compact = async || {
                let done = self
                    .engine
                    .compact_major(&request, self.now_s(), || yielder.yield_if_due())
                    .await;
                self.engine.date_merges(self.now_s());
                self.trusted(done)
            };
            while !compact().await? {
                self.runtime.sleep(JOB_WAIT).await;
            }
            // What waited for the request may begin.
            drop(request);
            self.look.notify();
        }
        Ok(())
    }

    /// Gives up what a damaged file holds; how many views that were.
    pub(crate) async fn forget_file(&self, file: Uuid) -> Result<u64> {
        self.trusted(self.engine.forget_file(file).await)
    }

    /// Empties a table.
    pub(crate) async fn truncate(&self, table: TableId) -> Result<()> {
        let truncated = self.trusted(self.engine.truncate(table).await);
        self.look.notify();
        truncated
    }

    /// Empties a table of what a snapshot has.
    pub(crate) async fn truncate_to_cut(&self, table: TableId) -> Result<()> {
        let truncated = self.trusted(self.engine.truncate_to_cut(table).await);
        self.look.notify();
        truncated
    }

    /// Takes a table's cut back: merges of it may begin again.
    pub(crate) fn end_cut(&self, table: TableId) {
        self.engine.end_cut(table);
        self.look.notify();
    }

    /// The result, unless it says that nothing can be trusted any more.
    fn trusted<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| self.leave_if_poisoned(error))
    }

    /// Ends the process if the error says that nothing can be trusted any more.
    pub(crate) fn leave_if_poisoned(&self, error: &Error) {
        if matches!(error, Error::Poisoned(_)) {
            die(self.me, "the commit log, the manifest or the schema's log", error);
        }
    }
}

/// Which part of what was served between two looks were writes, 0 to 1; `None` if nothing was served. Reads count as so
/// many as rows were read, and writes as so many as KiB were written, if that is more.
fn write_part(before: &Stats, now: &Stats) -> Option<f64> {
    let since = |of: fn(&Stats) -> u64| of(now).saturating_sub(of(before));
    let writes = since(|stats| stats.writes).max(since(|stats| stats.write_bytes) >> 10) as f64;
    let reads = since(|stats| stats.reads).max(since(|stats| stats.rows_read)) as f64;
    (writes + reads > 0.0).then(|| writes / (writes + reads))
}

/// What could not be written is not to be trusted, nor is anything that would be written after it.
fn die(shard: ShardId, what: &str, error: &Error) -> ! {
    tracing::error!(%shard, %error, "{what} failed: the process ends here");
    cpus::exit(1);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use engine::io::{Disk, Faults, SimDisk};
    use engine::limits::JOB_RETRY_S;

    use super::*;
    use crate::boot::tests::{TABLE, config, row};
    use crate::manual::ManualNode;
    use crate::protocol::Protocol;

    #[test]
    fn writes_count_by_their_bytes_beside_the_rows_that_are_read() {
        let before = Stats { writes: 100, write_bytes: 1 << 20, reads: 7, ..Stats::default() };
        let after = |writes, kib: u64, reads, rows_read| {
            let (writes, reads) = (before.writes + writes, before.reads + reads);
            let write_bytes = before.write_bytes + (kib << 10);
            write_part(&before, &Stats { writes, write_bytes, reads, rows_read, ..before })
        };
        assert_eq!(after(0, 0, 0, 0), None);
        assert_eq!(after(0, 0, 9, 9), Some(0.0));
        assert_eq!(after(9, 1, 0, 0), Some(1.0));
        assert_eq!(after(10, 1, 30, 20), Some(0.25));
        assert_eq!(after(1, 300, 5, 100), Some(0.75));
    }

    enum Silent {}

    impl Protocol for Silent {
        type Ask = ();
        type Answer = ();
    }

    /// Before: it was tried again when the clock had come to where it had been, an hour later.
    #[test]
    fn a_failed_flush_is_tried_again_soon_though_the_wall_clock_was_set_back() {
        let sim = SimDisk::new(1, Faults::default());
        let node = ManualNode::<Silent>::open(&Disk::Sim(sim.clone()), &config(1)).unwrap();
        let engine = node.shards()[0].engine();
        let live_for = |seconds: u32| {
            for _ in 0..seconds {
                node.manual().advance(Duration::from_secs(1));
                for _ in 0..100 {
                    node.manual().run_ready();
                }
            }
        };
        live_for(1);
        engine.write(&row(), 1).unwrap();
        live_for(1);
        sim.set_faults(Faults { quota_bytes: Some(sim.used_bytes()), ..Faults::default() });
        engine.seal(TABLE);
        live_for(1);
        assert_eq!((engine.stats().flushes, engine.stats().jobs_failed), (0, 1));
        node.manual().set_wall_back(Duration::from_secs(3600));
        sim.set_faults(Faults::default());
        live_for(JOB_RETRY_S + 1);
        assert_eq!((engine.stats().flushes, engine.stats().jobs_failed), (1, 1));
    }

    /// Before: a clock that was ahead for a moment had merges take rows for expired until it had come to there again.
    #[test]
    fn what_expires_is_judged_by_the_wall_clock_also_when_it_was_set_right() {
        let sim = SimDisk::new(1, Faults::default());
        let node = ManualNode::<Silent>::open(&Disk::Sim(sim), &config(1)).unwrap();
        let background = &node.shards()[0].background;
        let begun_s = background.now_s();
        node.manual().advance(Duration::from_secs(86_400));
        assert_eq!(background.now_s(), begun_s + 86_400);
        node.manual().set_wall_back(Duration::from_secs(86_400));
        assert_eq!(background.now_s(), begun_s);
    }
}
