//! THE WRITE PATH: a record is taken, becomes durable, becomes readable, is answered. In this order.
//!
//! ```text
//! write ─► admit ─► log buffer ─► (one commit for all that came meanwhile) ─► memtable ─► completed ticket
//! ```
//!
//! 1. [`Engine::write`] checks, admits and appends. It neither waits nor allocates.
//! 2. [`Engine::drive_log`], one task, writes what was appended and applies what that made durable.
//! 3. The caller asks for finished tickets, or is woken when there are some.
//!
//! Invariants
//! 1. A memtable holds only what the log holds durably, so nothing undurable is ever read, and a failed log leaves
//!    nothing to undo. (With periodic sync: what was appended, so that a writer reads what it was told is done.)
//! 2. Records are applied in the order in which they were appended.
//! 3. After a failed log write every waiting ticket fails and every later write is refused.
//!
//! The bytes of a record wait in a queue of our own until the log has them: what the log writes is cut into its
//! blocks, and a copy of a kilobyte costs less than to put it together again.

use crate::commitlog::Position;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::limits::QUEUE_IDLE_BYTES_MAX;
use crate::planted::{Bug, planted};
use model::bytes::Cursor;
use model::mutation::MutationRef;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::pin;
use std::task::{Poll, Waker};

/// Records between the log and the memtables, in order.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    bytes: Vec<u8>,
    /// Bytes at the front of `bytes` that were taken.
    taken: usize,
    entries: VecDeque<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    ticket: u64,
    start: Position,
    end: Position,
    len: usize,
}

impl Queue {
    /// Bytes of the records that wait to be durable.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// Where the oldest waiting record begins in the log.
    pub(crate) fn start(&self) -> Option<Position> {
        self.entries.front().map(|entry| entry.start)
    }

    fn push(&mut self, record: &[u8], entry: Entry) {
        self.bytes.extend_from_slice(record);
        self.entries.push_back(entry);
    }

    /// The oldest record, if it ends at or before `settled`.
    fn front(&self, settled: Position) -> Option<(Entry, &[u8])> {
        let entry = *self.entries.front().filter(|entry| entry.end <= settled)?;
        Some((entry, &self.bytes[self.taken..][..entry.len]))
    }

    /// Forgets the oldest record. Moves what is left only when that is the smaller part.
    fn pop(&mut self) {
        let entry = self.entries.pop_front().expect("only what was seen is popped");
        self.taken += entry.len;
        if self.entries.is_empty() {
            self.bytes.clear();
            self.bytes.shrink_to(QUEUE_IDLE_BYTES_MAX);
            self.taken = 0;
        } else if self.taken > self.bytes.len() / 2 {
            self.bytes.drain(..mem::take(&mut self.taken));
        }
    }
}

/// Tickets that are done, and who wants to know.
#[derive(Debug, Default)]
pub(crate) struct Completions {
    done: Vec<(u64, Result<()>)>,
    waker: Option<Waker>,
}

impl Completions {
    fn push(&mut self, ticket: u64, result: Result<()>) {
        self.done.push((ticket, result));
    }

    fn wake(&mut self) {
        if !self.done.is_empty()
            && let Some(waker) = self.waker.take()
        {
            waker.wake();
        }
    }
}

/// The mutations of a record that was built here or is under a checksum.
pub(crate) fn mutations(record: &[u8]) -> impl Iterator<Item = Result<MutationRef<'_>>> {
    let mut cursor = Cursor::new(record);
    std::iter::from_fn(move || {
        if cursor.is_empty() {
            return None;
        }
        let mutation = cursor.bytes().and_then(MutationRef::parse);
        if mutation.is_err() {
            cursor = Cursor::new(&[]);
        }
        Some(mutation.map_err(|error| Error::invalid(error.to_string())))
    })
}

impl Engine {
    /// Takes a record: one or more mutations, all of this shard's. `ticket` comes back from
    /// [`take_completed`](Engine::take_completed) when it is durable and readable, or has failed.
    ///
    /// An error here is final: nothing was taken.
    pub fn write(&self, record: &[u8], ticket: u64) -> Result<()> {
        let range = self.check_record(record)?;
        let start = self.log.positions().appended;
        let admitted = self.admit(record.len());
        let appended = admitted.and_then(|()| self.log.append(range, start.to_bits(), record));
        let end = appended.inspect_err(|_| self.counters.count(|s| s.writes_refused += 1))?;
        let entry = Entry { ticket, start, end, len: record.len() };
        self.queue.borrow_mut().push(record, entry);
        self.counters.count(|s| {
            s.writes += 1;
            s.write_bytes += record.len() as u64;
        });
        if planted(Bug::ApplyEarly) {
            self.apply(record, start, end);
        }
        if self.log.settled() >= end {
            self.apply_settled();
        }
        Ok(())
    }

    /// Every mutation is of a table that is there, of a token that is ours, and makes no row too large. Says which
    /// range of ours.
    fn check_record(&self, record: &[u8]) -> Result<u32> {
        let tables = self.tables.borrow();
        let mut range = None;
        for mutation in mutations(record) {
            let mutation = mutation?;
            let owned = self.range_of(mutation.token);
            range = Some(owned.expect("the router sends a token to the shard that owns it"));
            let Some(table) = tables.get(&mutation.table) else {
                return Err(Error::invalid(format!("there is no table {}", mutation.table)));
            };
            table.check_growth(&mutation, &self.row_limits.get())?;
        }
        range.ok_or_else(|| Error::invalid("a record without mutations"))
    }

    /// Writes the log for as long as it can be written: one task runs this. It ends when the log fails, and with it
    /// the trust in this process's writes.
    pub async fn drive_log(&self) -> Error {
        let mut writing = pin!(self.write_log());
        let mut preparing = pin!(self.prepare_log());
        // Zero-filling the next segment takes long; commits go on meanwhile.
        let failed = poll_fn(|cx| match writing.as_mut().poll(cx) {
            Poll::Ready(e) => Poll::Ready(e),
            Poll::Pending => preparing.as_mut().poll(cx),
        });
        let e = failed.await;
        self.fail_waiting(&e);
        e
    }

    async fn write_log(&self) -> Error {
        loop {
            self.log.until_pending().await;
            match self.log.write_pending().await {
                Ok(_) => {
                    self.apply_settled();
                    self.wake_log_waiters();
                }
                Err(error) => return error,
            }
        }
    }

    async fn prepare_log(&self) -> Error {
        loop {
            self.log.until_segment_needed().await;
            let before = self.space_freed_count();
            match self.log.prepare().await {
                Ok(()) => {}
                // Until a flush frees a segment or something is deleted: writes are refused, reads go on.
                Err(Error::DiskFull { .. } | Error::Overloaded(_)) => {
                    self.until_space_freed(before).await
                }
                Err(error) => return error,
            }
        }
    }

    /// Makes readable, and answers, all that the log has settled.
    pub(crate) fn apply_settled(&self) {
        let settled = self.log.settled();
        let mut queue = self.queue.borrow_mut();
        let mut completions = self.completions.borrow_mut();
        while let Some((entry, record)) = queue.front(settled) {
            self.apply(record, entry.start, entry.end);
            self.applied.set(entry.end);
            completions.push(entry.ticket, Ok(()));
            queue.pop();
        }
        completions.wake();
    }

    /// Takes a record into the memtables. It cannot fail: what could was checked when it was taken.
    pub(crate) fn apply(&self, record: &[u8], start: Position, end: Position) {
        let tables = self.tables.borrow();
        for mutation in mutations(record) {
            let mutation = mutation.expect("a record is checked when it is taken");
            // A table that was dropped meanwhile takes its rows with it.
            if let Some(table) = tables.get(&mutation.table) {
                self.budget.memtables_grew(table.apply(&mutation, start, end));
            }
        }
    }

    fn fail_waiting(&self, e: &Error) {
        let mut queue = self.queue.borrow_mut();
        let mut completions = self.completions.borrow_mut();
        while let Some(entry) = queue.entries.front() {
            completions.push(entry.ticket, Err(Error::poisoned(e)));
            queue.pop();
        }
        completions.wake();
        *self.log_failure.borrow_mut() = Some(Error::poisoned(e));
        self.wake_log_waiters();
    }

    fn wake_log_waiters(&self) {
        self.log_waiters.borrow_mut().drain(..).for_each(Waker::wake);
    }

    /// Waits until the log is durable up to here.
    pub(crate) async fn until_durable(&self, position: Position) -> Result<()> {
        self.until_log(|| self.log.positions().durable >= position).await
    }

    /// Waits until every record that ends at or before this is in the memtables.
    pub(crate) async fn until_applied(&self, position: Position) -> Result<()> {
        self.until_log(|| self.applied.get() >= position).await
    }

    async fn until_log(&self, is_there: impl Fn() -> bool) -> Result<()> {
        poll_fn(|cx| {
            if is_there() {
                return Poll::Ready(Ok(()));
            }
            if let Some(e) = &*self.log_failure.borrow() {
                return Poll::Ready(Err(e.clone()));
            }
            self.log_waiters.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// For a shard that nobody writes to just now: from here on damage to the last block of its log is told from a
    /// write that was cut short, and refused instead of forgotten.
    pub fn claim_log(&self) {
        if self.queue.borrow().entries.is_empty() {
            self.log.ask_claim();
        }
    }

    /// Moves the finished tickets to `out`, in the order in which they finished.
    pub fn take_completed(&self, out: &mut Vec<(u64, Result<()>)>) {
        out.append(&mut self.completions.borrow_mut().done);
    }

    /// Whether tickets have finished that nobody has taken.
    #[inline]
    pub fn has_completed(&self) -> bool {
        !self.completions.borrow().done.is_empty()
    }

    /// Records that are not answered yet.
    pub fn writes_in_flight(&self) -> usize {
        self.queue.borrow().entries.len()
    }

    /// Wakes this once when a ticket finishes. One waker at a time.
    pub fn on_completed(&self, waker: &Waker) {
        let mut completions = self.completions.borrow_mut();
        if completions.waker.as_ref().is_none_or(|old| !old.will_wake(waker)) {
            completions.waker = Some(waker.clone());
        }
    }
}
