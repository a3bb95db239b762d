//! What the engine would like done beside reads and writes, as data, and the one place that does it.
//!
//! ```text
//! next_job_of(kind, now) ─► Job ─► run(job, now, pause)     decided here, run in the group the owner likes
//! ```
//!
//! Order: what frees memory and log first, then what was dropped, then what makes reads cheaper. A job
//! that fails keeps its inputs and is not proposed again for a while; one proposed twice runs once.

use model::TableId;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::table::Table;

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// Write a memtable to an sstable.
    Flush(TableId),
    /// Remove what is left of tables that are gone: their files, and what the log holds of them.
    Remove,
    /// Merge files of a table.
    Compact(TableId),
}

/// A kind of job. One that runs keeps no job of another kind waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// Jobs that free memory and log: [`Job::Flush`].
    Flush,
    /// Jobs that free disk: [`Job::Remove`].
    Remove,
    /// Jobs that make reads cheaper: [`Job::Compact`].
    Compact,
}

impl JobKind {
    /// All kinds, the most urgent first.
    pub const ALL: [JobKind; 3] = [JobKind::Flush, JobKind::Remove, JobKind::Compact];
}

impl Job {
    /// Which kind of job it is.
    pub fn kind(&self) -> JobKind {
        match self {
            Job::Flush(_) => JobKind::Flush,
            Job::Remove => JobKind::Remove,
            Job::Compact(_) => JobKind::Compact,
        }
    }
}

impl Engine {
    /// What should be done next, if anything. `now_s` is the time in seconds since 1970, and never goes back.
    pub fn next_job(&self, now_s: u32) -> Option<Job> {
        JobKind::ALL.into_iter().find_map(|kind| self.next_job_of(kind, now_s))
    }

    /// What of this kind should be done next, if anything.
    pub fn next_job_of(&self, kind: JobKind, now_s: u32) -> Option<Job> {
        match kind {
            JobKind::Flush => self.table_to_flush(now_s).map(Job::Flush),
            JobKind::Remove => {
                let is_log_due = self.garbage.may_try(now_s) && self.is_log_held_by_nothing();
                (is_log_due || self.garbage.is_due(now_s)).then_some(Job::Remove)
            }
            JobKind::Compact => self.table_to_compact(now_s).map(Job::Compact),
        }
    }

    /// Does a job. `pause` is awaited every few hundred rows: it returns when there is time for more.
    ///
    /// After an error nothing is lost and the job will be proposed again, unless it is [`Error::Poisoned`]: then the
    /// log or the manifest is not to be trusted any more, and neither is this process.
    pub async fn run(&self, job: Job, now_s: u32, pause: impl AsyncFn()) -> Result<()> {
        match job {
            Job::Flush(id) => {
                let Ok(table) = self.table(id) else { return Ok(()) };
                self.flush_alone(&table, now_s, &pause).await
            }
            Job::Remove => {
                let result = match self.remove_garbage().await {
                    Ok(()) => self.free_log().await,
                    failed => failed,
                };
                self.garbage.ended(&result, now_s);
                result
            }
            Job::Compact(id) => {
                let Ok(table) = self.table(id) else { return Ok(()) };
                self.compact(&table, now_s, &pause).await
            }
        }
    }

    /// Flushes everything: before a stop, so that the next start has nothing to replay.
    pub async fn flush_all(&self, now_s: u32, pause: impl AsyncFn()) -> Result<()> {
        let tables = self.tables.all();
        for table in &tables {
            table.seal();
        }
        for table in tables {
            while table.layers().first().is_some_and(|layer| layer.sealed) && !table.flushing.get()
            {
                self.flush_alone(&table, now_s, &pause).await?;
            }
        }
        Ok(())
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
        while table.layers().first().is_some_and(|layer| layer.sealed) {
            if table.flushing.get() {
                return Ok(false);
            }
            self.flush_alone(&table, now_s, &pause).await?;
        }
        Ok(true)
    }

    /// One flush of a table at a time.
    async fn flush_alone(&self, table: &Table, now_s: u32, pause: &impl AsyncFn()) -> Result<()> {
        if table.flushing.replace(true) {
            return Ok(());
        }
        let result = match self.space.has_room_for(table.memtable_bytes() as u64) {
            true => self.flush(table, pause).await,
            // What is free is the reserve's: a start may need it.
            false => Err(Error::DiskFull { file: "the flush of a memtable".into() }),
        };
        assert!(table.flushing.replace(false), "one flush of a table at a time");
        table.flush_backoff.ended(&result, now_s);
        if let Err(error) = &result {
            self.counters.count(|s| s.jobs_failed += 1);
            if matches!(error, Error::DiskFull { .. }) {
                self.space.disk_is_full();
            }
        }
        result
    }

    /// Whether a write waits for the memory that memtables hold.
    fn is_starved(&self) -> bool {
        let first = self.deferred.first();
        first.is_some_and(|first| self.admit(first.record.len()).is_err())
    }

    /// What is sealed already, then the table that holds the most when memory is short, then the one that holds the
    /// log back.
    fn table_to_flush(&self, now_s: u32) -> Option<TableId> {
        let tables = self.tables.by_id();
        let free = tables.iter().filter(|(_, table)| {
            !table.flushing.get() && table.flush_backoff.is_due(now_s) && !table.layers().is_empty()
        });
        let sealed = |table: &Table| table.layers().first().is_some_and(|layer| layer.sealed);
        let waiting = free.clone().filter(|(_, table)| sealed(table)).map(|(id, _)| *id).min();
        if waiting.is_some() {
            return waiting;
        }
        // What is being flushed will be free soon.
        let leaving: usize = tables.values().map(|t| t.memtable_bytes() - t.active_bytes()).sum();
        if self.budget.wants_flush(leaving) || (leaving == 0 && self.is_starved()) {
            let largest = free.clone().max_by_key(|(id, table)| (table.active_bytes(), **id));
            return largest.map(|(id, _)| *id);
        }
        if self.log.is_long() && !self.is_log_held_by_nothing() {
            let oldest = free.filter_map(|(id, table)| Some((table.since()?, *id)));
            return oldest.min().map(|(_, id)| id);
        }
        None
    }
}
