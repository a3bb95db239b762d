//! What the engine would like done beside reads and writes, as data, and the one place that does it.
//!
//! ```text
//! next_job_of(kind, now) ─► Job ─► run(job, now, pause)     decided here, run in the group the owner likes
//! ```
//!
//! Order: what frees memory and log first, then what was dropped or has expired, then what shows what to compact, and
//! that. A job that fails keeps its inputs and is not proposed again for a while; one proposed twice runs once.

use std::rc::Rc;

use model::TableId;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::limits::{FLUSH_GROUP_TABLES_MAX, FLUSH_SMALL_BYTES, FLUSH_SMALL_VIEWS_MAX};
use crate::pause::Pause;
use crate::space_ledger::{Promise, Space, SpaceUse};
use crate::table::Table;

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// Write a memtable to an sstable, and with it those of tables that hold as little.
    Flush(TableId),
    /// Remove what is left of tables that are gone: their memory, their files, and what the log holds of them.
    Remove,
    /// Remove files of a table in which nothing is alive.
    Drop(TableId),
    /// Look up what rows of a flush take the place of.
    Sample,
    /// Make index files that an sstable of a table lacks.
    Index(TableId),
    /// Merge files of a table.
    Compact(TableId),
}

/// A kind of job. One that runs keeps no job of another kind waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// Jobs that free memory and log: [`Job::Flush`].
    Flush,
    /// Jobs that free what nothing needs any more: [`Job::Remove`] and [`Job::Drop`].
    Remove,
    /// Jobs that show what there is to compact: [`Job::Sample`].
    Sample,
    /// Jobs that make index files: [`Job::Index`].
    Index,
    /// Jobs that make reads cheaper: [`Job::Compact`].
    Compact,
}

impl JobKind {
    /// All kinds, the most urgent first.
    pub const ALL: [JobKind; 5] =
        [JobKind::Flush, JobKind::Remove, JobKind::Sample, JobKind::Index, JobKind::Compact];
}

impl Job {
    /// Which kind of job it is.
    pub fn kind(&self) -> JobKind {
        match self {
            Job::Flush(_) => JobKind::Flush,
            Job::Remove | Job::Drop(_) => JobKind::Remove,
            Job::Sample => JobKind::Sample,
            Job::Index(_) => JobKind::Index,
            Job::Compact(_) => JobKind::Compact,
        }
    }
}

impl Engine {
    /// What should be done next, if anything. `now_s` is the wall clock, in seconds since 1970. When a failed job is
    /// due is counted in the seconds of [`set_uptime_s`](Self::set_uptime_s).
    pub fn next_job(&self, now_s: u32) -> Option<Job> {
        JobKind::ALL.into_iter().find_map(|kind| self.next_job_of(kind, now_s))
    }

    /// What of this kind should be done next, if anything.
    pub fn next_job_of(&self, kind: JobKind, now_s: u32) -> Option<Job> {
        match kind {
            JobKind::Flush => self.table_to_flush(self.backoff_clock_s(now_s)).map(Job::Flush),
            JobKind::Remove => {
                let backoff_clock_s = self.backoff_clock_s(now_s);
                let is_log_due =
                    self.garbage.may_try(backoff_clock_s) && self.is_log_held_by_nothing();
                let is_due = is_log_due || self.garbage.is_due(backoff_clock_s);
                let dropping = || self.table_to_drop_from(now_s).map(Job::Drop);
                is_due.then_some(Job::Remove).or_else(dropping)
            }
            JobKind::Sample => self.samples.is_any().then_some(Job::Sample),
            JobKind::Index => self.table_to_index(self.backoff_clock_s(now_s)).map(Job::Index),
            JobKind::Compact => self.table_to_compact(now_s).map(Job::Compact),
        }
    }

    /// Does a job. `pause` is awaited every few hundred rows: it returns when there is time for more.
    ///
    /// After an error nothing is lost and the job will be proposed again, unless it is [`Error::Poisoned`]: then the
    /// log or the manifest is not to be trusted any more, and neither is this process.
    pub async fn run(&self, job: Job, now_s: u32, pause: impl AsyncFn()) -> Result<()> {
        match job {
            Job::Flush(id) => self.flush_first(id, now_s, &pause).await,
            Job::Remove => {
                self.free_memtables(&pause).await;
                if !self.garbage.may_try(self.backoff_clock_s(now_s)) {
                    return Ok(());
                }
                let result = match self.remove_garbage().await {
                    Ok(()) => self.free_log().await,
                    failed => failed,
                };
                let result = result.and(self.delete_unkept().await);
                self.garbage.ended(&result, self.backoff_clock_s(now_s));
                result
            }
            Job::Drop(id) => {
                let Ok(table) = self.table(id) else { return Ok(()) };
                self.drop_files(&table, now_s).await
            }
            Job::Sample => {
                self.look_up_sample(&pause).await;
                Ok(())
            }
            Job::Index(id) => {
                let Ok(table) = self.table(id) else { return Ok(()) };
                self.index(&table, now_s, &pause).await
            }
            Job::Compact(id) => {
                let Ok(table) = self.table(id) else { return Ok(()) };
                self.compact(&table, now_s, &pause).await
            }
        }
    }

    /// Flushes everything: before a stop, so that the next start has nothing to replay. Flushes that are under way are
    /// waited for.
    pub async fn flush_all(&self, now_s: u32, pause: impl AsyncFn()) -> Result<()> {
        self.tables.unflushed().iter().for_each(|(_, table)| table.seal());
        loop {
            let mut group = self.small_tables(Table::has_sealed);
            let mut is_any_flushing = false;
            if group.is_empty() {
                let tables = self.tables.unflushed();
                let waiting = tables.iter().map(|(_, table)| table);
                let sealed = waiting.filter(|table| table.has_sealed());
                let (flushing, free): (Vec<_>, Vec<_>) =
                    sealed.partition(|table| table.flushing.get());
                is_any_flushing = !flushing.is_empty();
                group.extend(free.first().copied().cloned());
            }
            match group.is_empty() {
                true if is_any_flushing => self.disk.wait_a_little().await,
                true => return Ok(()),
                false => self.flush_together(&group, now_s, &pause).await?,
            }
        }
    }

    /// Ends the active memtable of a table, so that [`flush_sealed`](Self::flush_sealed) writes what it holds now.
    pub fn seal(&self, id: TableId) {
        if let Ok(table) = self.table(id) {
            table.seal();
        }
    }

    /// Writes the sealed memtables of a table; `false` if another flush of it is under way: ask again.
    pub async fn flush_sealed(
        &self,
        id: TableId,
        now_s: u32,
        pause: impl AsyncFn(),
    ) -> Result<bool> {
        let Ok(table) = self.table(id) else { return Ok(true) };
        while table.has_sealed() {
            if table.flushing.get() {
                return Ok(false);
            }
            self.flush_together(std::slice::from_ref(&table), now_s, &pause).await?;
        }
        Ok(true)
    }

    /// Flushes a table, and with it others that hold as little, for as long; it alone if it was sealed for somebody who
    /// waits.
    async fn flush_first(&self, id: TableId, now_s: u32, pause: &dyn Pause) -> Result<()> {
        let Ok(table) = self.table(id) else { return Ok(()) };
        let mut group = vec![table.clone()];
        if let Some(since) = table.since().filter(|_| is_small(&table) && !table.has_sealed()) {
            let is_as_old = |other: &Table| {
                let of_other = other.since();
                of_other.is_some_and(|other| other.segment() <= since.segment() + 1)
            };
            let others = self.small_tables(is_as_old).into_iter();
            group.extend(others.filter(|other| !Rc::ptr_eq(other, &table)));
            group.truncate(FLUSH_GROUP_TABLES_MAX);
        }
        self.flush_together(&group, now_s, pause).await
    }

    /// Tables that hold little and can be flushed together, those first that hold the log back.
    fn small_tables(&self, is_wanted: impl Fn(&Table) -> bool) -> Vec<Rc<Table>> {
        let tables = self.tables.unflushed();
        let fits = |table: &Table| {
            let is_free = !table.flushing.get() && !table.layers().is_empty();
            is_free && is_small(table) && is_wanted(table)
        };
        let fitting = tables.iter().map(|(_, table)| table).filter(|table| fits(table));
        let mut group: Vec<_> = fitting.map(|table| (table.since(), table)).collect();
        if group.len() > FLUSH_GROUP_TABLES_MAX {
            group.select_nth_unstable_by_key(FLUSH_GROUP_TABLES_MAX, |(since, _)| *since);
            group.truncate(FLUSH_GROUP_TABLES_MAX);
        }
        group.sort_by_key(|(since, _)| *since);
        group.into_iter().map(|(_, table)| table.clone()).collect()
    }

    /// Flushes tables, one flush of a table at a time.
    async fn flush_together(
        &self,
        tables: &[Rc<Table>],
        now_s: u32,
        pause: &dyn Pause,
    ) -> Result<()> {
        let free = tables.iter().filter(|table| !table.flushing.replace(true));
        let tables: Vec<Rc<Table>> = free.cloned().collect();
        let next = |table: &Rc<Table>| table.flush_estimate.next_file_bytes(table.oldest_bytes());
        let first = |table: &Rc<Table>| table.flush_estimate.first_file_bytes(table.oldest_bytes());
        let bytes = tables.iter().map(next).sum();
        let result = match self.promise_files(bytes, tables.iter().map(first).sum()).await {
            Ok(promise) => {
                let flushed = self.flush(&tables, &promise, now_s, pause).await;
                flushed.inspect(|()| self.log_space.flush_had_space(promise.bytes_max()))
            }
            Err(error) => Err(error),
        };
        for table in &tables {
            assert!(table.flushing.replace(false), "one flush of a table at a time");
            table.flush_backoff.ended(&result, self.backoff_clock_s(now_s));
        }
        if matches!(result, Err(Error::DiskFull { .. })) {
            self.log_space.flush_lacks_space(tables.iter().map(first).sum());
        }
        result.inspect_err(|_| self.counters.count(|s| s.jobs_failed += 1))
    }

    /// Promises space for files that take so many bytes by estimate. Where that is not free, `first_bytes`: the estimate
    /// may be too high, a flush asks for more when it needs more, and the rest is there for others.
    async fn promise_files(&self, bytes: u64, first_bytes: u64) -> Result<Promise> {
        match self.promise_space(SpaceUse::Flush, bytes).await? {
            Space::Promised(promise) => Ok(promise),
            Space::Short(_) => self.promise_flush(first_bytes).await,
        }
    }

    /// Whether a write waits for the memory that memtables hold.
    fn is_starved(&self) -> bool {
        let first = self.deferred.first();
        first.is_some_and(|first| self.admit(first.record.len()).is_err())
    }

    /// What is sealed already, then the table that holds the most when memory is short, then the one that holds the
    /// log back.
    fn table_to_flush(&self, backoff_clock_s: u32) -> Option<TableId> {
        self.tables.forget_flushed();
        let tables = self.tables.unflushed();
        let free = tables.iter().filter(|(_, table)| {
            !table.flushing.get() && table.flush_backoff.is_due(backoff_clock_s)
        });
        let waiting = free.clone().filter(|(_, table)| table.has_sealed()).map(|(id, _)| *id).min();
        if waiting.is_some() {
            return waiting;
        }
        // What is being flushed will be free soon.
        let leaving = |table: &Table| table.memtable_bytes() - table.active_bytes();
        let leaving: usize = tables.iter().map(|(_, table)| leaving(table)).sum();
        if self.budget.wants_flush(leaving) || (leaving == 0 && self.is_starved()) {
            let largest = free.clone().max_by_key(|(id, table)| (table.active_bytes(), *id));
            return largest.map(|(id, _)| *id);
        }
        if self.log.is_long() && !self.is_log_held_by_nothing() {
            let oldest = free.filter_map(|(id, table)| Some((table.since()?, *id)));
            return oldest.min().map(|(_, id)| id);
        }
        None
    }
}

/// Whether a table holds so little, and was flushed so well before, that others are flushed with it. The views of all
/// of them are sorted in one step.
fn is_small(table: &Table) -> bool {
    table.memtable_bytes() < FLUSH_SMALL_BYTES
        && table.views().len() <= FLUSH_SMALL_VIEWS_MAX
        && table.flush_backoff.failures() == 0
}
