//! Writes that read first: conditions are judged, and what is said of elements by index or by value, and of counters,
//! becomes cells, as the rows are when their turn comes.
//!
//! ```text
//! record with conditions, changes ─► queue of its partitions ─► its turn: all that came before is in the log
//!      ─► conditions ─► one does not hold ─► `NotApplied`, once what was read is durable; the next has its turn
//!      ─► lists and counters that are changed are read ─► record with cells ─► log; the next has its turn
//! ```
//!
//! 1. Every mutation of a record sees the rows as they were before the record, and each of its changes what those
//!    before it have made of the list or the value, as in Cassandra. What is added to counters is added up over the
//!    whole record.
//! 2. If one of them cannot be done nothing of the record is written, and the first that cannot is told.
//! 3. The log holds what was written, sums and no condition: a replay judges nothing and adds nothing.
//!
//! Not here: who waits for whom (`partition_queue.rs`), the bytes of a change (`model/src/mutation/`) and of conditions
//! (`model/src/condition/form.rs`).

mod conditions;
mod counters;
mod elements;
mod held;
mod lists;
mod rows;
mod sums;

use std::future::poll_fn;
use std::task::Poll;

use conditions::Judged;
use counters::Counters;
pub(crate) use held::{Held, HeldBytes};
use lists::Lists;
use model::mutation::{MutationBuilder, RangeTombstone};
use model::read::{Partitions, ReadCommand, ReadEnd};
use model::row::shifted;
use model::{Deletion, MutationRef, RowSink};
pub use sums::Sum;
use sums::Sums;

use crate::deferred_writes::Origin;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::limits::{CONDITION_TOMBSTONES_MAX, DEFERRED_AT_ONCE_MAX};
use crate::partition_queue::{Kind, QueuedWrite, WriteNumber};
use crate::pause::Pause;
use crate::planted::{Bug, planted};
use crate::table::SharedMemtable;
use crate::views::{WithViews, no_views};

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
                    Poll::Ready(write) if write.kind == Kind::ReadsFirst => {
                        return Poll::Ready(Turn(write));
                    }
                    Poll::Ready(plain)
                        if plain.kind == Kind::Plain && self.has_to_read(&plain.record) =>
                    {
                        return Poll::Ready(Turn(self.queues.reads_after_all(plain)));
                    }
                    Poll::Ready(plain) => self.take_plain(plain),
                    Poll::Pending => return Poll::Pending,
                }
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }

    /// What a record that reads first has to write, as the rows are now; empty if that is nothing.
    pub(crate) async fn plain_form(&self, record: &[u8], pause: &dyn Pause) -> Result<Vec<u8>> {
        loop {
            self.writes.until(|| !self.is_truncating(record)).await?;
            let resolved = async || self.resolve(record, None, pause).await;
            if let Some(resolved) = self.whole(record, resolved).await {
                return resolved;
            }
        }
    }

    /// What `make` makes of what it reads, unless a truncation is under way or begins meanwhile: what was read may go,
    /// and what was made of it would stay.
    async fn whole<T>(
        &self,
        record: &[u8],
        make: impl AsyncFnOnce() -> Result<T>,
    ) -> Option<Result<T>> {
        if self.is_truncating(record) {
            return None;
        }
        let truncations = self.truncations_begun(record);
        let made = make().await;
        (self.truncations_begun(record) == truncations).then_some(made)
    }

    /// What a record becomes in its turn: cells, and with them the rows of views.
    async fn turn_form(
        &self,
        record: &[u8],
        number: WriteNumber,
        pause: &dyn Pause,
    ) -> Result<WithViews> {
        let plain = self.resolve(record, Some(number), pause).await?;
        if !self.have_views(record) {
            return Ok(WithViews::of(plain));
        }
        let views = self.views.get().ok_or_else(no_views)?;
        // Few writes have views; the others need not be as large as these.
        Box::pin(self.with_views(record, plain, views.stamp(), pause)).await
    }

    /// A plain write that waited: its record goes to the log, or to those that wait for space.
    fn take_plain(&self, first: QueuedWrite) {
        let QueuedWrite { number, ticket, record, kind } = first;
        let origin = match kind {
            Kind::Plain | Kind::ReadsFirst => Origin::Sent,
            Kind::Made { truncations } => Origin::HasRead { truncations },
            Kind::Insisted => Origin::Insisted,
            Kind::Alone => Origin::Alone,
        };
        if let Err(error) = self.take_queued(number, &record, (ticket, origin)) {
            self.queues.leave(number);
            self.refuse(ticket, &error);
        }
    }

    /// The record of a write whose turn it is goes to the log, or to those that wait for space: it leaves its queues.
    fn take_queued(
        &self,
        number: WriteNumber,
        record: &[u8],
        (ticket, origin): (u64, Origin),
    ) -> Result<()> {
        self.check_waited(record, origin)?;
        let range = self.range_again(record, origin)?;
        match self.take_or_defer(range, record, (ticket, origin))? {
            Some(end) if end > self.writes.applied() => {
                self.queues.leave_logged(number, record, end);
            }
            Some(_) => self.queues.leave(number),
            None => self.queues.leave_deferred(number),
        }
        Ok(())
    }

    /// Reads what a write has to know, and writes it. Its ticket tells how it went; while a truncation is under way it
    /// gives its turn back. `pause` is called while it reads.
    pub async fn run_turn(&self, turn: Turn, pause: impl AsyncFn()) {
        let QueuedWrite { number, ticket, record, .. } = &turn.0;
        let (number, ticket) = (*number, *ticket);
        let made = async || self.turn_form(record, number, &pause).await;
        let Some(made) = self.whole(record, made).await else {
            let is_over = !self.is_truncating(record);
            self.queues.give_back(turn.0);
            return if is_over {
                self.queues.give_again()
            };
        };
        self.has_read_bases(record, ticket);
        let mut resolved = made.and_then(|made| self.noted(made, ticket));
        let mut held = self.read_lists.holder();
        if let Err(Error::NotApplied { found }) = &resolved
            && let Err(error) = held.add(found.len())
        {
            resolved = Err(error);
        }
        self.queues.has_read();
        if matches!(resolved, Err(Error::NotApplied { .. })) {
            self.writes.until_answers_fit(self.budget.queued_max()).await;
        }
        let answer = match resolved {
            Ok(record) if record.is_empty() || planted(Bug::AppliedNotWritten) => Ok(()),
            Ok(resolved) => {
                let origin = Origin::HasRead { truncations: self.truncations_begun(&resolved) };
                match self.take_queued(number, &resolved, (ticket, origin)) {
                    Ok(()) => return,
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        self.answer_turn(number, ticket, answer);
    }

    /// Answers a write whose turn it is and that has written nothing, once all that it has read is durable: the log may
    /// still fail. The next has its turn before that.
    fn answer_turn(&self, number: WriteNumber, ticket: u64, answer: Result<()>) {
        if !matches!(answer, Ok(()) | Err(Error::NotApplied { .. })) {
            self.counters.count(|s| s.writes_refused += 1);
        }
        let until = match planted(Bug::AnswerUndurable) {
            true => None,
            false => self.queues.read_until(number),
        };
        self.writes.complete_at(until.unwrap_or_else(|| self.writes.applied()), ticket, answer);
        self.queues.leave(number);
    }

    /// The record without conditions and with cells in the place of its changes; empty if there is nothing to
    /// write.
    async fn resolve(
        &self,
        record: &[u8],
        turn: Option<WriteNumber>,
        pause: &dyn Pause,
    ) -> Result<Vec<u8>> {
        self.until_settled(record, turn).await?;
        let delay_us = self.judge(record, turn, pause).await?;
        let (counters, later_us) = self.add_up(record, turn, pause).await?;
        let delay_us = delay_us.max(later_us);
        let (mut out, mut held) = (Vec::with_capacity(record.len()), self.read_lists.holder());
        for mutation in MutationRef::of_trusted_record(record) {
            let mutation = mutation.expect("a record is checked when it is taken");
            let before = out.len();
            put_plain(&mutation, delay_us, &mut out);
            if mutation.changes_lists() {
                let table = self.table(mutation.table)?.definition();
                let sums = Sums { table: &table, sum: self.sum.get().copied() };
                let mut lists = Lists::of(&mutation, delay_us, (sums, self.read_lists.holder()))?;
                for command in lists.commands() {
                    self.read_in_turn(&command, &mut lists, (turn, pause)).await?;
                }
                lists.put(&mut out)?;
                // A read of little from memory does not pause, and a record may have very many of them.
                pause.take().await;
            }
            self.log.check_bytes(out.len())?;
            held.add(out.len() - before)?;
        }
        if let Some(counters) = counters {
            counters.put(delay_us, &mut out);
            self.log.check_bytes(out.len())?;
        }
        Ok(out)
    }

    /// What the counters of a record become, if it changes any, and by how many microseconds later than it says it has
    /// to be written.
    async fn add_up<'m>(
        &'m self,
        record: &'m [u8],
        turn: Option<WriteNumber>,
        pause: &dyn Pause,
    ) -> Result<(Option<Counters<'m>>, i64)> {
        let mutations = MutationRef::of_trusted_record(record)
            .map(|mutation| mutation.expect("a record is checked when it is taken"));
        if !mutations.clone().any(|mutation| mutation.changes_counters()) {
            return Ok((None, 0));
        }
        let mut counters = Counters::none(self.read_lists.holder());
        for mutation in mutations {
            counters.add(&mutation)?;
            pause.take().await;
        }
        let mut delay_us = 0;
        for sums in counters.partitions() {
            for command in sums.commands() {
                self.read_in_turn(&command, sums, (turn, pause)).await?;
            }
            delay_us = delay_us.max(sums.delay_us()?);
            // A read of little from memory does not pause, and a record may have very many of them.
            pause.take().await;
        }
        Ok((Some(counters), delay_us))
    }

    /// Judges the conditions of a record, which its first mutation has; gives by how many microseconds later than it
    /// says it has to be written.
    async fn judge(
        &self,
        record: &[u8],
        turn: Option<WriteNumber>,
        pause: &dyn Pause,
    ) -> Result<i64> {
        let first = MutationRef::of_trusted_record(record).next();
        let first =
            first.expect("a record is not empty").expect("it was checked when it was taken");
        let Some(conditions) = first.conditions() else { return Ok(0) };
        let table = self.table(first.table)?.definition();
        let mut judged = Judged::of(&first, conditions, &table, self.read_lists.holder())?;
        let read = self.read_in_turn(&judged.command(), &mut judged, (turn, pause)).await;
        read.map_err(|error| match error {
            Error::TooManyTombstones { .. } => Error::invalid(format!(
                "Conditions on static columns alone look for a row of the partition, and there are more than {CONDITION_TOMBSTONES_MAX} tombstones before it: name a row, or delete the partition"
            )),
            error => error,
        })?;
        let delay_us = judged.judge(pause).await?;
        Ok(if planted(Bug::ConditionalKeepsTime) { 0 } else { delay_us })
    }

    /// Reads one partition, for a write whose turn it is with what is on its way there now.
    fn read_in_turn(
        &self,
        command: &ReadCommand,
        sink: &mut dyn RowSink,
        (turn, pause): (Option<WriteNumber>, &dyn Pause),
    ) -> impl Future<Output = Result<ReadEnd>> {
        let on_its_way = turn.and_then(|_| self.on_its_way(command));
        self.read_over(command, sink, pause, on_its_way.into_iter().collect())
    }

    /// The same, as if `change` had been written, too.
    pub(crate) fn read_in_turn_with(
        &self,
        command: &ReadCommand,
        sink: &mut dyn RowSink,
        change: Option<&SharedMemtable>,
        pause: &dyn Pause,
    ) -> impl Future<Output = Result<ReadEnd>> {
        let overlays = self.on_its_way(command).into_iter().chain(change.cloned());
        self.read_over(command, sink, pause, overlays.collect())
    }

    /// What is on its way to the partition that a turn reads.
    fn on_its_way(&self, command: &ReadCommand) -> Option<SharedMemtable> {
        let Partitions::Keys(keys) = &command.partitions else { return None };
        let [(_, key)] = keys.as_slice() else { panic!("a turn reads partition by partition") };
        self.queues.overlay(command.table, key)
    }

    /// Waits until all that is in the log is readable.
    pub async fn until_logged_is_readable(&self) -> Result<()> {
        self.until_applied(self.log.positions().appended).await
    }

    /// Waits until every write to the partitions of a record that came before is readable, was refused, or is in the
    /// overlays of a write whose turn it is. Of those that wait for space all, for they do not know where those of one
    /// partition are; once, for then the queues know.
    async fn until_settled(&self, record: &[u8], turn: Option<WriteNumber>) -> Result<()> {
        self.writes.check()?;
        if planted(Bug::ReadBeforeApplied) || turn.is_some_and(|turn| self.queues.is_settled(turn))
        {
            return Ok(());
        }
        let came = self.deferred.count();
        self.writes.until(|| self.deferred.left() >= came).await?;
        self.until_applied(self.writes.end_of_partitions(record)).await?;
        turn.into_iter().for_each(|turn| self.queues.settle(turn));
        Ok(())
    }
}

/// Appends what a mutation says without conditions and changes, if that is anything, so many microseconds later.
fn put_plain(mutation: &MutationRef<'_>, delay_us: i64, out: &mut Vec<u8>) {
    let later = |deletion: Deletion| match deletion {
        none if none.is_none() => none,
        Deletion { timestamp, local_s } => {
            Deletion { timestamp: timestamp.saturating_add(delay_us), local_s }
        }
    };
    let says_nothing = mutation.deletion.is_none()
        && mutation.static_row.is_none()
        && mutation.range_count == 0
        && mutation.row_count == 0;
    if says_nothing {
        return;
    }
    let mut copy = MutationBuilder::begin(out, mutation.table, mutation.token, mutation.key);
    if !mutation.deletion.is_none() {
        copy.delete_partition(later(mutation.deletion));
    }
    if let Some(row) = mutation.static_row {
        copy.static_row(|out| shifted(row, delay_us, out));
    }
    for range in mutation.ranges() {
        copy.delete_range(&RangeTombstone { deletion: later(range.deletion), ..range });
    }
    for (clustering, row) in mutation.rows() {
        copy.row(clustering, |out| shifted(row, delay_us, out));
    }
    copy.finish();
}
