//! Writes that read first: what they say of elements by index or by value becomes cells, as the list is when their turn
//! comes.
//!
//! ```text
//! record with list changes ─► queue of its partitions ─► its turn: all that came before is readable
//!      ─► the rows it names are read ─► record with cells ─► log ─► readable: the next has its turn
//! ```
//!
//! 1. Every mutation of a record sees the rows as they were before the record, and each of its changes what those
//!    before it have made of the list, as in Cassandra.
//! 2. If one of them cannot be done nothing of the record is written, and the first that cannot is told.
//!
//! Not here: who waits for whom (`partition_queue.rs`), the bytes of a change (`model/src/mutation/list_change.rs`).

mod elements;
mod held;
mod lists;

use std::future::poll_fn;
use std::task::Poll;

pub(crate) use held::HeldBytes;
use lists::Lists;
use model::MutationRef;
use model::mutation::MutationBuilder;

use crate::engine::Engine;
use crate::error::Result;
use crate::limits::DEFERRED_AT_ONCE_MAX;
use crate::partition_queue::QueuedWrite;
use crate::planted::{Bug, planted};

/// The turn of a write that reads first. Its owner [runs](Engine::run_turn) it to its end, in a task of its own: until
/// then other writes of its partitions wait.
#[derive(Debug)]
#[must_use = "its partitions wait until it has been run"]
pub struct Turn(QueuedWrite);

impl Engine {
    /// Waits for a write that reads first and whose turn it is; hands plain writes whose turn comes to the log. One
    /// task calls this, again and again, and [runs](Engine::run_turn) what it gives in tasks of their own.
    pub async fn next_turn(&self) -> Turn {
        poll_fn(|cx| {
            for _ in 0..DEFERRED_AT_ONCE_MAX {
                match self.queues.poll_turn(cx) {
                    Poll::Ready(write) if write.reads => return Poll::Ready(Turn(write)),
                    Poll::Ready(plain) => self.take_plain(plain),
                    Poll::Pending => return Poll::Pending,
                }
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }

    /// A plain write that waited: its record goes to the log, or to those that wait for space.
    fn take_plain(&self, first: QueuedWrite) {
        // The table may be gone by now, and its rows may have grown.
        let checked = self.check_record(&first.record);
        if let Err(error) = checked
            .and_then(|checked| self.take_or_defer(checked.range, &first.record, first.ticket))
        {
            self.refuse(first.ticket, &error);
        }
        self.queues.leave(first.number);
    }

    /// Reads what a write has to know, and writes it. Its ticket tells how it went. `pause` is called while it reads.
    pub async fn run_turn(&self, turn: Turn, pause: impl AsyncFn()) {
        let QueuedWrite { number, ticket, record, .. } = turn.0;
        let resolved = loop {
            let truncations = self.truncations.get();
            let resolved = self.resolve(&record, &pause).await;
            // What was read may be gone since.
            if self.truncations.get() == truncations {
                break resolved;
            }
        };
        self.queues.has_read(number, ticket);
        let taken = match resolved {
            Ok(record) if record.is_empty() => {
                self.writes.complete_empty(ticket);
                return self.queues.ticket_done(ticket);
            }
            // The table may be gone by now, and its rows may have grown.
            Ok(record) => self
                .check_record(&record)
                .and_then(|checked| self.take_or_defer(checked.range, &record, ticket)),
            Err(error) => Err(error),
        };
        if let Err(error) = taken {
            self.refuse(ticket, &error);
        }
    }

    /// The record with cells in the place of its list changes; empty if there is nothing to write.
    async fn resolve(&self, record: &[u8], pause: &impl AsyncFn()) -> Result<Vec<u8>> {
        if !planted(Bug::ReadBeforeApplied) {
            self.until_settled().await?;
        }
        let (mut out, mut held) = (Vec::with_capacity(record.len()), self.read_lists.holder());
        for mutation in MutationRef::of_trusted_record(record) {
            let mutation = mutation.expect("a record is checked when it is taken");
            let before = out.len();
            put_plain(&mutation, &mut out);
            if mutation.reads_first() {
                let mut lists = Lists::of(&mutation, self.read_lists.holder())?;
                for command in lists.commands() {
                    self.read(&command, &mut lists, pause).await?;
                }
                lists.put(&mut out)?;
                // A read of little from memory does not pause, and a record may have very many of them.
                pause().await;
            }
            self.log.check_bytes(out.len())?;
            held.add(out.len() - before)?;
        }
        Ok(out)
    }

    /// Waits until every write that came before is readable, or was refused: of the whole shard, for neither the log
    /// nor the writes that wait for space know where those of one partition are.
    async fn until_settled(&self) -> Result<()> {
        let came = self.deferred.count();
        self.writes.until(|| self.deferred.left() >= came).await?;
        self.until_applied(self.log.positions().appended).await
    }
}

/// Appends what a mutation says without its list changes, if that is anything.
fn put_plain(mutation: &MutationRef<'_>, out: &mut Vec<u8>) {
    let says_nothing = mutation.deletion.is_none()
        && mutation.static_row.is_none()
        && mutation.range_count == 0
        && mutation.row_count == 0;
    if says_nothing {
        return;
    }
    let mut copy = MutationBuilder::begin(out, mutation.table, mutation.token, mutation.key);
    if !mutation.deletion.is_none() {
        copy.delete_partition(mutation.deletion);
    }
    if let Some(row) = mutation.static_row {
        copy.static_row(|out| out.extend_from_slice(row.bytes()));
    }
    mutation.ranges().for_each(|range| copy.delete_range(&range));
    for (clustering, row) in mutation.rows() {
        copy.row(clustering, |out| out.extend_from_slice(row.bytes()));
    }
    copy.finish();
}
