//! Queues of writes to one partition, for as long as a write that reads first is in one.
//!
//! ```text
//! reads first ─► the queues of its partitions ─► first in all ─► reads, is resolved, written ─► readable: leaves
//! plain write ─► no queue of its partitions ─────────────────────► log
//!            └─► behind what is in one ─────────► first in all ─► log: leaves at once
//! ```
//!
//! A write enters all its queues in one step, in the order of its number, so the oldest is first in all of its own: no
//! two wait for each other.
//!
//! Invariants
//! 1. Between the read of a write that reads first and its own record in the memtables no other record of its
//!    partitions goes to the log.
//! 2. Writes to a partition that has a queue go to the log in the order in which they came.
//! 3. A queue is there only while a write is in it, and all of them hold no more than their bound, except a write that
//!    is alone.
//! 4. The ticket of a write that reads first is no other write's, until it is done.
//!
//! Not here: what is read and written (`read_before_write.rs`), who looks for those that are first (the owner of the
//! shard, by [`Engine::next_turn`](crate::Engine::next_turn)).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::task::{Context, Poll, Waker};

use model::{MutationRef, TableId};

use crate::error::{Error, Result};
use crate::limits::{QUEUED_WRITE_OVERHEAD_BYTES, READING_WRITES_MAX, READING_WRITES_QUEUED_MAX};

/// A partition: its table and its serialised key.
type Partition = (TableId, Box<[u8]>);

/// The number of a write that waits for its turn, in the order in which they came.
pub(crate) type WriteNumber = u64;

/// A write that waits for its turn, or has it.
#[derive(Debug)]
pub(crate) struct QueuedWrite {
    pub(crate) number: WriteNumber,
    /// What its writer calls it.
    pub(crate) ticket: u64,
    /// Its mutations, encoded.
    pub(crate) record: Box<[u8]>,
    /// Whether it has to read before it is written.
    pub(crate) reads: bool,
}

/// The writes of a shard that wait for others of their partitions.
#[derive(Debug)]
pub(crate) struct PartitionQueues {
    inner: RefCell<Inner>,
    /// How many writes are in the queues: every write that is taken asks, and needs no borrow for it.
    len: Cell<usize>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Inner {
    queues: BTreeMap<Partition, Queue>,
    members: BTreeMap<WriteNumber, Member>,
    next: WriteNumber,
    bytes: usize,
    /// Those that are first in all their queues and did not begin: plain writes, and those that read.
    ready_plain: VecDeque<QueuedWrite>,
    ready_reads: VecDeque<QueuedWrite>,
    /// How many writes read now.
    reading: usize,
    /// Writes that have read and are on their way to the memtables, by their tickets.
    on_their_way: BTreeMap<u64, WriteNumber>,
    waker: Option<Waker>,
}

/// The writes of one partition.
#[derive(Debug, Default)]
struct Queue {
    writes: VecDeque<WriteNumber>,
    /// How many of them read first.
    reading: usize,
}

/// A write in its queues.
#[derive(Debug)]
struct Member {
    partitions: Vec<Partition>,
    bytes: usize,
    reads: bool,
    /// The write, until its turn comes.
    waits: Option<QueuedWrite>,
}

impl PartitionQueues {
    /// No queue; all that there will be hold `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> PartitionQueues {
        PartitionQueues { inner: RefCell::default(), len: Cell::new(0), bytes_max }
    }

    /// Whether no write waits for another of its partition.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len.get() == 0
    }

    /// How many writes are in the queues.
    pub(crate) fn len(&self) -> usize {
        self.len.get()
    }

    /// What the writes in the queues take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.inner.borrow().bytes
    }

    /// Whether a partition of this record has a queue.
    pub(crate) fn has_queue_for(&self, record: &[u8]) -> bool {
        let inner = self.inner.borrow();
        partitions_of(record).any(|partition| inner.queues.contains_key(&partition))
    }

    /// How many writes ever came into the queues.
    pub(crate) fn count(&self) -> u64 {
        self.inner.borrow().next
    }

    /// Takes a write into the queues of its partitions; `Overloaded` if there are too many.
    pub(crate) fn push(&self, record: &[u8], ticket: u64, reads: bool) -> Result<()> {
        let mut partitions: Vec<Partition> = partitions_of(record).collect();
        partitions.sort_unstable();
        partitions.dedup();
        let keys: usize = partitions.iter().map(|(_, key)| key.len()).sum();
        let bytes = record.len() + 2 * keys + QUEUED_WRITE_OVERHEAD_BYTES * (1 + partitions.len());
        let inner = &mut *self.inner.borrow_mut();
        if inner.bytes + bytes > self.bytes_max && !inner.members.is_empty() {
            return Err(Error::Overloaded(
                "memory of writes that wait for others of their partition",
            ));
        }
        let is_long = |queue: &Queue| queue.reading >= READING_WRITES_QUEUED_MAX;
        if reads && partitions.iter().filter_map(|one| inner.queues.get(one)).any(is_long) {
            return Err(Error::Overloaded("writes that wait for others of one partition"));
        }
        let number = inner.next;
        inner.next += 1;
        inner.bytes += bytes;
        for partition in &partitions {
            let queue = inner.queues.entry(partition.clone()).or_default();
            queue.writes.push_back(number);
            queue.reading += usize::from(reads);
        }
        let waits = Some(QueuedWrite { number, ticket, record: record.into(), reads });
        inner.members.insert(number, Member { partitions, bytes, reads, waits });
        self.len.set(inner.members.len());
        inner.give_turn_if_first(number);
        Ok(())
    }

    /// A plain write whose turn it is; without one, and if one more may read, a write that reads first.
    pub(crate) fn poll_turn(&self, cx: &mut Context<'_>) -> Poll<QueuedWrite> {
        let inner = &mut *self.inner.borrow_mut();
        if let Some(plain) = inner.ready_plain.pop_front() {
            return Poll::Ready(plain);
        }
        let may_read = inner.reading < READING_WRITES_MAX;
        match inner.ready_reads.pop_front_if(|_| may_read) {
            Some(reads) => {
                inner.reading += 1;
                Poll::Ready(reads)
            }
            None => {
                inner.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// A write has read, and another may. Its record goes to the log as `ticket`: it leaves when that ticket is done.
    pub(crate) fn has_read(&self, number: WriteNumber, ticket: u64) {
        let inner = &mut *self.inner.borrow_mut();
        inner.reading -= 1;
        let other = inner.on_their_way.insert(ticket, number);
        assert!(other.is_none(), "the ticket of a write that reads first is no other write's");
        inner.wake();
    }

    /// A ticket is done: if a write of the queues was waited for, it leaves.
    #[inline]
    pub(crate) fn ticket_done(&self, ticket: u64) {
        if !self.is_empty() {
            self.leave_by_ticket(ticket);
        }
    }

    #[cold]
    fn leave_by_ticket(&self, ticket: u64) {
        let number = self.inner.borrow_mut().on_their_way.remove(&ticket);
        if let Some(number) = number {
            self.leave(number);
        }
    }

    /// The log has failed, and with it what was on its way: nothing waits for that any more.
    pub(crate) fn fail(&self) {
        let on_their_way = std::mem::take(&mut self.inner.borrow_mut().on_their_way);
        on_their_way.into_values().for_each(|number| self.leave(number));
    }

    /// A write whose turn it was is through: the next of each of its partitions may have theirs.
    pub(crate) fn leave(&self, number: WriteNumber) {
        let inner = &mut *self.inner.borrow_mut();
        let member = inner.members.remove(&number).expect("what leaves is in the queues");
        assert!(member.waits.is_none(), "what leaves had its turn");
        inner.bytes -= member.bytes;
        for partition in &member.partitions {
            let queue = inner.queues.get_mut(partition).expect("a member has its queues");
            let first = queue.writes.pop_front();
            assert_eq!(first, Some(number), "only the first has a turn");
            queue.reading -= usize::from(member.reads);
            inner.go_on(partition);
        }
        self.len.set(inner.members.len());
    }

    /// Takes out those of the first `until` writes that still wait for their turn; gives their tickets.
    pub(crate) fn take_late(&self, until: u64) -> Vec<u64> {
        let inner = &mut *self.inner.borrow_mut();
        let waits = |(number, member): (&WriteNumber, &Member)| {
            member.waits.as_ref().map(|write| (*number, write.ticket))
        };
        let late: Vec<_> = inner.members.range(..until).filter_map(waits).collect();
        let mut partitions = BTreeSet::new();
        for (number, _) in &late {
            let member = inner.members.remove(number).expect("it was just found");
            inner.bytes -= member.bytes;
            for partition in member.partitions {
                let queue = inner.queues.get_mut(&partition).expect("a member has its queues");
                queue.reading -= usize::from(member.reads);
                partitions.insert(partition);
            }
        }
        let Inner { queues, members, .. } = inner;
        for partition in &partitions {
            let queue = queues.get_mut(partition).expect("a member has its queues");
            queue.writes.retain(|number| members.contains_key(number));
        }
        partitions.iter().for_each(|partition| inner.go_on(partition));
        self.len.set(inner.members.len());
        late.into_iter().map(|(_, ticket)| ticket).collect()
    }
}

impl Inner {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Who is first in this queue may have become the first; a queue without a write goes.
    fn go_on(&mut self, partition: &Partition) {
        match self.first(partition) {
            Some(next) => self.give_turn_if_first(next),
            None => drop(self.queues.remove(partition)),
        }
    }

    fn first(&self, partition: &Partition) -> Option<WriteNumber> {
        self.queues.get(partition)?.writes.front().copied()
    }

    /// Gives a write its turn if it is first in all its queues.
    fn give_turn_if_first(&mut self, number: WriteNumber) {
        let member = self.members.get(&number).expect("what waits is in the queues");
        if !member.partitions.iter().all(|partition| self.first(partition) == Some(number)) {
            return;
        }
        let member = self.members.get_mut(&number).expect("what waits is in the queues");
        let Some(first) = member.waits.take() else { return };
        match first.reads {
            true => self.ready_reads.push_back(first),
            false => self.ready_plain.push_back(first),
        }
        self.wake();
    }
}

/// The partitions of a record that was built here.
fn partitions_of(record: &[u8]) -> impl Iterator<Item = Partition> {
    MutationRef::of_trusted_record(record).map(|mutation| {
        let mutation = mutation.expect("a record is checked when it is taken");
        (mutation.table, mutation.key.into())
    })
}

#[cfg(test)]
mod tests {
    use model::{MutationBuilder, Token};
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn record(keys: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for key in keys {
            MutationBuilder::begin(&mut out, TableId(Uuid::nil()), Token(1), &[*key]).finish();
        }
        out
    }

    proptest! {
        /// Whatever the order in which turns end, writes of one partition have theirs in the order in which they came,
        /// no two at once, and nothing is left.
        #[test]
        fn turns_come_in_order_and_one_at_a_time(
            writes in prop::collection::vec((prop::collection::vec(0..4u8, 1..4), any::<bool>()), 1..80),
            ends in prop::collection::vec(any::<prop::sample::Index>(), 80)
        ) {
            let queues = PartitionQueues::new(1 << 20);
            let mut cx = Context::from_waker(Waker::noop());
            let (mut begun, mut open) = (vec![None; 4], Vec::new());
            for (ticket, (keys, reads)) in writes.iter().enumerate() {
                queues.push(&record(keys), ticket as u64, *reads).expect("there is space");
            }
            for end in ends {
                while let Poll::Ready(write) = queues.poll_turn(&mut cx) {
                    for key in &writes[write.ticket as usize].0 {
                        let others = |number: &u64| writes[*number as usize].0.contains(key);
                        prop_assert!(!open.iter().any(others), "one at a time");
                        prop_assert!(begun[usize::from(*key)].is_none_or(|last| last <= write.ticket));
                        begun[usize::from(*key)] = Some(write.ticket);
                    }
                    if write.reads {
                        queues.has_read(write.number, write.ticket);
                    }
                    open.push(write.ticket);
                }
                if end.index(7) == 0 {
                    // What waits is given up up to here; it counts as if it had never come.
                    let late = queues.take_late(end.index(writes.len()) as u64);
                    prop_assert!(late.iter().all(|ticket| !open.contains(ticket)), "{:?}", late);
                }
                if !open.is_empty() {
                    let ticket = open.swap_remove(end.index(open.len()));
                    match writes[ticket as usize].1 {
                        true => queues.ticket_done(ticket),
                        false => queues.leave(ticket),
                    }
                }
            }
            prop_assert_eq!((queues.len(), queues.bytes()), (0, 0));
        }
    }
}
