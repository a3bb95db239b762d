//! THE WRITE PATH: a record is taken, becomes durable, becomes readable, is answered. In this order.
//!
//! ```text
//! write ─┬► admit ─► log buffer ─► (one commit for all that came meanwhile) ─► memtable ─► completed ticket
//!        │   └─ no space ─► deferred ─(space)─► log buffer
//!        └ reads first, or behind one that does ─► queue of its partitions ─(its turn)─► admit
//! ```
//!
//! 1. [`Engine::write`] checks, admits and appends. It neither waits nor allocates, unless there is no space, or its
//!    partition has a queue: then the record is kept, and taken or refused later.
//! 2. [`Engine::drive_log`], one task, writes what was appended, applies what that made durable, and takes what waits
//!    for space.
//! 3. The caller asks for finished tickets, or is woken when there are some.
//!
//! Invariants
//! 1. A memtable holds only what the log holds durably, so nothing undurable is ever read, and a failed log leaves
//!    nothing to undo. (With periodic sync: what was appended, so that a writer reads what it was told is done.)
//! 2. Records of one partition are appended in the order in which they came; all records are applied in the order of
//!    the log.
//! 3. After a failed log write every waiting ticket fails and every later write is refused.
//!
//! Not here: what waits for space before the log (`deferred_writes.rs`), for others of its partition
//! (`partition_queue.rs`), and between log and memtables (`write_queue.rs`).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use model::mutation::MutationRef;

use crate::commitlog::Position;
use crate::deferred_writes::Origin;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::hot_partitions::Access;
use crate::limits::{APPLIED_BYTES_AT_ONCE, DEFERRED_AT_ONCE_MAX};
use crate::memtable::Removals;
use crate::partition_queue::Kind;
use crate::planted::{Bug, planted};
use crate::space_ledger::{Promise, Space, SpaceUse};
use crate::views::check_view_keys;
use crate::write_queue::Entry;

impl Engine {
    /// Takes a record: one or more mutations, all of this shard's. `ticket` comes back from
    /// [`take_completed`](Engine::take_completed) when it is durable and readable, or has failed.
    ///
    /// An error here is final: nothing was taken. A record for which there is no space yet waits for it; its ticket
    /// comes back with `Overloaded` if the owner [gives it up](Engine::give_up_deferred).
    pub fn write(&self, record: &[u8], ticket: u64) -> Result<()> {
        let checked = self.check_record(record)?;
        let queues = checked.reads_first || (!self.queues.is_empty() && self.must_queue(record));
        match queues {
            true => self.queue(record, ticket, checked.reads_first),
            false => self.take_or_defer(checked.range, record, (ticket, Origin::Sent)).map(drop),
        }
        .inspect_err(|_| self.counters.count(|s| s.writes_refused += 1))
    }

    #[cold]
    fn must_queue(&self, record: &[u8]) -> bool {
        self.queues.must_wait(record) && !planted(Bug::PlainWritesPass)
    }

    /// Takes a write into the queues of its partitions. On a full disk no write waits.
    #[cold]
    fn queue(&self, record: &[u8], ticket: u64, reads: bool) -> Result<()> {
        self.admit_disk()?;
        self.queues.push(record, ticket, if reads { Kind::ReadsFirst } else { Kind::Plain })
    }

    /// Appends a checked record, or keeps it until there is space for it. Gives its end in the log, if it is there.
    pub(crate) fn take_or_defer(
        &self,
        range: u32,
        record: &[u8],
        (ticket, origin): (u64, Origin),
    ) -> Result<Option<Position>> {
        let taken = match self.deferred.is_empty() {
            true => self.take(range, record, ticket),
            false => Err(Error::Overloaded("writes that came before")),
        };
        match taken {
            Err(Error::Overloaded(_)) => self.defer(record, ticket, origin).map(|()| None),
            taken => taken.map(Some),
        }
    }

    /// Appends a checked record, if there is space for it; gives where it ends in the log.
    pub(crate) fn take(&self, range: u32, record: &[u8], ticket: u64) -> Result<Position> {
        let start = self.log.positions().appended;
        self.admit(record.len())?;
        let end = self.log.append(range, start.to_bits(), record)?;
        let entry = Entry { ticket, start, end };
        self.writes.push(record, entry);
        self.counters.count(|s| {
            s.writes += 1;
            s.write_bytes += record.len() as u64;
        });
        if self.sampler.runs() {
            self.note_writes(record);
        }
        if planted(Bug::ApplyEarly) {
            self.apply(record, entry, &mut Removals::new());
        }
        if self.log.acknowledgeable() >= end {
            self.apply_logged();
        }
        Ok(end)
    }

    #[cold]
    fn note_writes(&self, record: &[u8]) {
        for (table, token, key) in MutationRef::partitions_of_trusted_record(record).flatten() {
            self.sampler.note(Access::Write, table, token, key);
        }
    }

    /// Keeps a record until there is space for it.
    #[cold]
    fn defer(&self, record: &[u8], ticket: u64, origin: Origin) -> Result<()> {
        self.admit_disk()?;
        let waits_alone = self.deferred.is_empty();
        self.deferred.push(record, ticket, origin)?;
        if waits_alone {
            self.log_space.wake_watcher();
        }
        Ok(())
    }

    /// Takes records that wait, as long as there is space, and refuses those that never get any. Says whether there may
    /// be more to do at once.
    fn take_deferred(&self) -> bool {
        for _ in 0..DEFERRED_AT_ONCE_MAX {
            let Some(first) = self.deferred.first() else { return false };
            if let Err(truncated) = self.check_waited(&first.record, first.origin) {
                drop(first);
                self.refuse_first(&truncated);
                continue;
            }
            let range = self.range_again(&first.record, first.origin);
            let taken = range.and_then(|range| self.take(range, &first.record, first.ticket));
            drop(first);
            match taken {
                Err(Error::Overloaded(_)) => return false,
                Err(error) => self.refuse_first(&error),
                Ok(_) => drop(self.deferred.pop()),
            }
        }
        true
    }

    /// `Overloaded` if what a record was made of is gone, or it lacks rows of a view that its table has got while it
    /// waited: it may be sent again.
    pub(crate) fn check_waited(&self, record: &[u8], origin: Origin) -> Result<()> {
        let is_late = match origin {
            Origin::HasRead { truncations } => truncations != self.truncations_begun(record),
            Origin::Sent | Origin::Insisted => self.has_to_read(record),
            Origin::Alone => false,
        };
        if is_late {
            return Err(Error::Overloaded(
                "the table was truncated, or got other views, while a write waited",
            ));
        }
        Ok(())
    }

    /// Whether a plain record has to read: its table has views.
    pub(crate) fn has_to_read(&self, record: &[u8]) -> bool {
        // Few tables have views: of the others no mutation is read.
        let mut mutations = MutationRef::of_trusted_record(record).flatten();
        self.have_views(record)
            && mutations.any(|mutation| mutation.changes_rows() && self.has_views(mutation.table))
    }

    /// Checks a record that has waited once more, unless it is insisted on: the table may be gone by now, and its rows
    /// may have grown. Gives the number of the range of ours that its tokens are in.
    pub(crate) fn range_again(&self, record: &[u8], origin: Origin) -> Result<u32> {
        if !matches!(origin, Origin::Insisted | Origin::Alone) {
            return self.check_record(record).map(|checked| checked.range);
        }
        let first = MutationRef::partitions_of_trusted_record(record).next();
        let (_, token, _) = first.expect("a record has some").expect("it was checked before");
        Ok(self.tables.range_of(token).expect("the router sends a token to its owner"))
    }

    fn refuse_first(&self, error: &Error) {
        let first = self.deferred.pop().expect("only what waits is refused");
        self.refuse(first.ticket, error);
    }

    pub(crate) fn refuse(&self, ticket: u64, error: &Error) {
        self.counters.count(|s| s.writes_refused += 1);
        self.writes.complete_refused(ticket, error.clone());
        // Who waits until this write is settled looks again.
        self.writes.wake_waiters();
    }

    /// Refuses records that still wait for space of the first `until` that ever did
    /// ([`Stats::writes_deferred`](crate::Stats::writes_deferred)): they have waited too long. No more than
    /// [`DEFERRED_AT_ONCE_MAX`]; whether some are left, which are refused by the next call.
    pub fn give_up_deferred(&self, until: u64) -> bool {
        for _ in 0..DEFERRED_AT_ONCE_MAX {
            let Some(given_up) = self.deferred.pop_of_first(until) else { break };
            self.refuse(given_up.ticket, &Error::Overloaded("no space came in time"));
        }
        // One behind them may have its space.
        self.log_space.wake_watcher();
        self.deferred.left() < until
    }

    /// Refuses those of the first `until` writes that ever came into the queues of partitions which still wait there.
    pub fn give_up_queued(&self, until: u64) {
        for ticket in self.queues.take_late(until) {
            self.refuse(
                ticket,
                &Error::Overloaded("others of its partition were not done in time"),
            );
        }
    }

    /// On a full disk no write waits: the task that takes them finds each refused by name, some at a time.
    pub(crate) fn refuse_deferred_if_full(&self) {
        if self.log_space.is_disk_full() {
            self.log_space.wake_watcher();
        }
    }

    /// How often a record had to wait for space while no other did: then there may be something to flush.
    pub fn deferrals(&self) -> u64 {
        self.deferred.times()
    }

    /// How many records wait for space.
    pub fn writes_deferred(&self) -> usize {
        self.deferred.len()
    }

    /// Every mutation is of a table that is there, of a token that is ours, and makes no row too large.
    pub(crate) fn check_record(&self, record: &[u8]) -> Result<Checked> {
        let tables = self.tables.by_id();
        let (mut range, mut reads_first) = (None, false);
        for (place, mutation) in MutationRef::of_trusted_record(record).enumerate() {
            let mutation = mutation.map_err(|error| Error::invalid(error.to_string()))?;
            // Only those are judged.
            if place > 0 && mutation.conditions().is_some() {
                return Err(Error::invalid("conditions stand in the first mutation of a record"));
            }
            let owned = self.tables.range_of(mutation.token);
            range = Some(owned.expect("the router sends a token to the shard that owns it"));
            let Some(table) = tables.get(&mutation.table) else {
                return Err(Error::invalid(format!("there is no table {}", mutation.table)));
            };
            if table.closed.get() {
                let name = &table.definition().name;
                return Err(Error::invalid(format!("table {name} is being dropped")));
            }
            table.check_growth(&mutation, record.len(), &self.row_limits.get())?;
            reads_first |= mutation.reads_first();
            if table.has_materialized() && mutation.changes_rows() {
                check_view_keys(table, &mutation)?;
                reads_first = true;
            }
        }
        let range = range.ok_or_else(|| Error::invalid("a record without mutations"))?;
        Ok(Checked { range, reads_first })
    }

    /// Writes the log for as long as it can be written: one task runs this. It ends when the log fails, and with it
    /// the trust in this process's writes.
    pub async fn drive_log(&self) -> Error {
        let mut writing = pin!(self.write_log());
        let mut preparing = pin!(self.prepare_log());
        // Zero-filling the next segment takes long; commits go on meanwhile.
        let mut filling = pin!(self.fill_segments());
        let failed = poll_fn(|cx| {
            self.log_space.watch(cx.waker());
            if let Poll::Ready(error) = writing.as_mut().poll(cx) {
                return Poll::Ready(error);
            }
            if let Poll::Ready(error) = preparing.as_mut().poll(cx) {
                return Poll::Ready(error);
            }
            if let Poll::Ready(error) = filling.as_mut().poll(cx) {
                return Poll::Ready(error);
            }
            if self.take_deferred() {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        });
        let error = failed.await;
        // What is durable is no less so.
        self.apply_logged();
        self.writes.fail(&error);
        self.queues.fail();
        while !self.deferred.is_empty() {
            self.refuse_first(&Error::poisoned(&error));
        }
        error
    }

    async fn write_log(&self) -> Error {
        loop {
            self.log.until_pending().await;
            match self.log.write_pending().await {
                Ok(_) => {
                    while !self.apply_some(APPLIED_BYTES_AT_ONCE) {
                        self.writes.wake_waiters();
                        give_way().await;
                    }
                    self.writes.wake_waiters();
                }
                Err(error) => return error,
            }
        }
    }

    async fn prepare_log(&self) -> Error {
        loop {
            self.log.until_segment_needed().await;
            let before = self.log_space.freed_count();
            let prepared = match self.promise_segment(self.log.has_free_segment()).await {
                Ok(_promise) => self.log.prepare().await,
                Err(full) => Err(full),
            };
            match prepared {
                Ok(()) => {}
                // Until a flush frees a segment: writes wait.
                Err(Error::Overloaded(_)) => self.log_space.until_freed(before).await,
                // Until something is flushed or deleted: writes are refused, reads go on.
                Err(Error::DiskFull { .. }) => {
                    self.log_space.disk_is_full();
                    self.refuse_deferred_if_full();
                    self.log_space.until_freed(before).await
                }
                Err(error) => return error,
            }
        }
    }

    /// Promises space for a segment of the log, unless it is there, or the reserve is whole: then the disk itself says
    /// when it is full. `DiskFull` if there is not enough.
    async fn promise_segment(&self, is_there: bool) -> Result<Option<Promise>> {
        if is_there || self.log_space.missing_bytes() == 0 {
            return Ok(None);
        }
        match self.promise_space(SpaceUse::Flush, self.log.segment_bytes()).await {
            Ok(Space::Promised(promise)) => Ok(Some(promise)),
            Ok(Space::Short(_)) => Err(Error::DiskFull { file: "a segment of the log".into() }),
            // A file system that does not tell its free space is no reason to leave.
            Err(_) => Ok(None),
        }
    }

    /// Fills segments with zeros before they are needed.
    async fn fill_segments(&self) -> Error {
        loop {
            self.log.until_filling_pays().await;
            let before = self.log_space.freed_count();
            let filled = match self.promise_segment(false).await {
                Ok(_promise) => self.log.fill_ahead().await,
                Err(full) => Err(full),
            };
            match filled {
                Ok(()) => {}
                // It will be tried again, or done when it must be.
                Err(Error::DiskFull { .. } | Error::Overloaded(_)) => {
                    self.log_space.until_freed(before).await
                }
                Err(error) => return error,
            }
        }
    }

    /// Makes readable, and answers, all that the log says may be acknowledged.
    fn apply_logged(&self) {
        let is_all = self.apply_some(usize::MAX);
        assert!(is_all, "there is no bound");
    }

    /// The same up to a number of bytes of records, of one record at least, and of rows that their tombstones look at;
    /// whether that was all.
    fn apply_some(&self, bytes_max: usize) -> bool {
        let (until, mut bytes, mut removals) = (self.log.acknowledgeable(), 0, Removals::new());
        while bytes + removals.work_bytes() < bytes_max {
            let Some((entry, record)) = self.writes.first(until) else { break };
            self.apply(&record, entry, &mut removals);
            bytes += record.len();
            drop(record);
            self.writes.complete_first();
        }
        // In the same step: what is readable is in no overlay.
        self.queues.applied(self.writes.applied());
        self.writes.first(until).is_none()
    }

    /// Takes a record into the memtables. It cannot fail: what could was checked when it was taken.
    fn apply(&self, record: &[u8], entry: Entry, removals: &mut Removals) {
        let tables = self.tables.by_id();
        for mutation in MutationRef::of_trusted_record(record) {
            let mutation = mutation.expect("a record is checked when it is taken");
            assert!(!mutation.reads_first(), "no log and no memtable takes changes");
            // A table that was dropped meanwhile takes its rows with it.
            if let Some(table) = tables.get(&mutation.table) {
                let place = (entry.start, entry.end);
                self.budget.memtables_grew(table.apply_within(&mutation, place, removals));
                self.tables.holds(mutation.table, table);
            }
        }
    }

    /// Waits until the log is durable up to here.
    pub(crate) async fn until_durable(&self, position: Position) -> Result<()> {
        assert!(position <= self.log.positions().appended, "a wait for what was appended");
        self.writes.until(|| self.log.positions().durable >= position).await
    }

    /// Waits until every record that ends at or before this is in the memtables.
    pub(crate) async fn until_applied(&self, position: Position) -> Result<()> {
        assert!(position <= self.log.positions().appended, "a wait for what was appended");
        self.writes.until(|| self.writes.applied() >= position).await
    }

    /// For a shard that no client writes to just now: from here on damage to the last block of its log is told from a
    /// write that was cut short, and refused instead of forgotten.
    pub fn claim_log(&self) {
        if self.writes.len() == 0 {
            self.log.ask_claim();
        }
    }

    /// Moves the finished tickets to `out`, in the order in which they finished.
    pub fn take_completed(&self, out: &mut Vec<(u64, Result<()>)>) {
        self.writes.take_completed(out);
    }

    /// Whether tickets have finished that were not taken.
    #[inline]
    pub fn has_completed(&self) -> bool {
        self.writes.has_completed()
    }

    /// Writes that are not answered yet.
    pub fn writes_in_flight(&self) -> usize {
        self.writes.len() + self.deferred.len() + self.queues.len()
    }
}

/// What is known of a record that may be taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checked {
    /// Number of the range of ours that its tokens are in.
    pub(crate) range: u32,
    /// Whether it has to read before it is written.
    pub(crate) reads_first: bool,
}

/// Lets other tasks of the core run.
async fn give_way() {
    let mut was_polled = false;
    poll_fn(|context| {
        if std::mem::replace(&mut was_polled, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}
