//! Queues of writes to one partition, for as long as a write that reads first is in one.
//!
//! ```text
//! reads first ─► the queues of its partitions ─► first in all ─► reads, is resolved ─► log, overlay ─► readable
//! plain write ─► no queue of its partitions ─────────────────────────────────────────► log
//!            └─► behind what is in one ─────────► first in all ──────────────────────► log, overlay ─► readable
//!                                                                                       └► the next has its turn
//! ```
//!
//! A write enters all its queues in one step, in the order of its number, so the oldest is first in all of its own: no
//! two wait for each other. The next has its turn when the one before it has its place in the log, and reads that in
//! the overlay: so one log write makes durable all that came meanwhile, also of one partition.
//!
//! Invariants
//! 1. Between the read of a write that reads first and the place of its own record in the log no other record of its
//!    partitions goes to the log.
//! 2. Writes to a partition that has a queue go to the log in the order in which they came.
//! 3. All records of a settled queue's partition are readable, or in its overlay. A turn settles its queues by waiting
//!    for what is under way of their partitions (`newest_records.rs`); they are unsettled when they are made, and again by a record that waits for
//!    space, or that the overlay has none for. Where the bound has no space for the memtable of an overlay, the turn
//!    waits as if its queue were not settled.
//! 4. A queue is there only while a write is in it, or on its way to the memtables. All of them hold no more than their
//!    bound, except a write that is alone.
//!
//! Not here: what is read and written (`read_before_write.rs`), when what was read in an overlay is answered
//! (`write_queue.rs`), who looks for those that are first (the owner of the shard, by
//! [`Engine::next_turn`](crate::Engine::next_turn)).

mod overlay;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use model::bytes::Cursor;
use model::{MutationRef, TableId};
use overlay::{Overlay, Part};

use crate::commitlog::Position;
use crate::error::{Error, Result};
use crate::limits::{QUEUED_WRITE_OVERHEAD_BYTES, READING_WRITES_MAX, READING_WRITES_QUEUED_MAX};
use crate::planted::{Bug, planted};
use crate::table::SharedMemtable;

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
    pub(crate) kind: Kind,
}

/// What a write does when its turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    /// It reads before it is written.
    ReadsFirst,
    /// It was made of what was read before it came, when so many truncations of its tables had begun.
    Made {
        truncations: u64,
    },
    /// It is written whatever became of its tables, and of their rows ([`Engine::insist`](crate::Engine::insist)).
    Insisted,
    /// The same, without rows of views ([`Engine::insist_alone`](crate::Engine::insist_alone)).
    Alone,
}

/// The writes of a shard that wait for others of their partitions.
#[derive(Debug)]
pub(crate) struct PartitionQueues {
    inner: RefCell<Inner>,
    /// Whether there is no queue: every write that is taken asks, and needs no borrow for it.
    is_empty: Cell<bool>,
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
    /// Whether the last turn was a plain write's.
    gave_plain: bool,
    /// How many writes read now.
    reading: usize,
    /// Those that have given their turn back.
    given_back: BTreeSet<WriteNumber>,
    /// Records of the queues that are in the log and not readable yet, in the order of the log.
    on_their_way: VecDeque<OnItsWay>,
    waker: Option<Waker>,
}

/// The writes of one partition.
#[derive(Debug, Default)]
struct Queue {
    writes: VecDeque<WriteNumber>,
    /// How many of them read first.
    reading: usize,
    /// Whether all that came before is readable, or in the overlay.
    is_settled: bool,
    overlay: Overlay,
}

/// A record of the queues that is not readable yet.
#[derive(Debug)]
struct OnItsWay {
    /// Where it ends in the log.
    end: Position,
    partitions: Vec<Partition>,
    bytes: usize,
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
        PartitionQueues { inner: RefCell::default(), is_empty: Cell::new(true), bytes_max }
    }

    /// Whether no write waits for another of its partition, and none is on its way that another would have to read.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty.get()
    }

    /// How many writes wait for their turn, or have it.
    pub(crate) fn len(&self) -> usize {
        self.inner.borrow().members.len()
    }

    /// What the writes in the queues and the overlays take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.inner.borrow().bytes
    }

    /// A plain record comes: whether it has to wait behind others of one of its partitions. If not, it goes to the log
    /// past the queues and into no overlay, so each queue of its partitions is unsettled from now on: the next turn
    /// waits until the record is readable.
    pub(crate) fn must_wait(&self, record: &[u8]) -> bool {
        let inner = &mut *self.inner.borrow_mut();
        let mut must_wait = false;
        for partition in partitions_of(record) {
            let Some(queue) = inner.queues.get_mut(&partition) else { continue };
            must_wait |= !queue.writes.is_empty();
            queue.is_settled &= !queue.writes.is_empty();
        }
        must_wait
    }

    /// How many writes ever came into the queues.
    pub(crate) fn count(&self) -> u64 {
        self.inner.borrow().next
    }

    /// Takes a write into the queues of its partitions; `Overloaded` if there are too many.
    pub(crate) fn push(&self, record: &[u8], ticket: u64, kind: Kind) -> Result<()> {
        let reads = kind == Kind::ReadsFirst;
        let mut partitions: Vec<Partition> = partitions_of(record).collect();
        partitions.sort_unstable();
        partitions.dedup();
        let bytes = held_bytes(record, &partitions);
        let inner = &mut *self.inner.borrow_mut();
        if inner.bytes + bytes > self.bytes_max && inner.bytes > 0 {
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
        let waits = Some(QueuedWrite { number, ticket, record: record.into(), kind });
        inner.members.insert(number, Member { partitions, bytes, reads, waits });
        self.is_empty.set(false);
        inner.give_turn_if_first(number);
        Ok(())
    }

    /// A write whose turn it is: plain ones, and if one more may read those that read first, one of each in turn, so
    /// that neither kind can keep the other away.
    pub(crate) fn poll_turn(&self, cx: &mut Context<'_>) -> Poll<QueuedWrite> {
        let inner = &mut *self.inner.borrow_mut();
        let may_read = inner.reading < READING_WRITES_MAX && !inner.ready_reads.is_empty();
        if !(may_read && inner.gave_plain)
            && let Some(plain) = inner.ready_plain.pop_front()
        {
            inner.gave_plain = true;
            return Poll::Ready(plain);
        }
        inner.gave_plain = false;
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

    /// A plain write whose turn it is has to read.
    pub(crate) fn reads_after_all(&self, plain: QueuedWrite) -> QueuedWrite {
        self.inner.borrow_mut().reading += 1;
        QueuedWrite { kind: Kind::ReadsFirst, ..plain }
    }

    /// A write has read, and another may.
    pub(crate) fn has_read(&self) {
        let inner = &mut *self.inner.borrow_mut();
        inner.reading -= 1;
        inner.wake();
    }

    /// A write cannot read now and gives its turn back: it waits as if it had none, and nothing overtakes it.
    pub(crate) fn give_back(&self, write: QueuedWrite) {
        let inner = &mut *self.inner.borrow_mut();
        inner.reading -= 1;
        inner.given_back.insert(write.number);
        let member = inner.members.get_mut(&write.number).expect("it has its turn");
        member.waits = Some(write);
        inner.wake();
    }

    /// Those that have given their turn back may read now.
    pub(crate) fn give_again(&self) {
        let inner = &mut *self.inner.borrow_mut();
        for number in std::mem::take(&mut inner.given_back) {
            inner.give_turn_if_first(number);
        }
    }

    /// Whether a write whose turn it is finds all that came before it readable, or in overlays whose memtables have
    /// space in the bound.
    pub(crate) fn is_settled(&self, number: WriteNumber) -> bool {
        let inner = self.inner.borrow();
        let to_make: usize =
            inner.queues_of(number).map(|queue| queue.overlay.memtable_to_make_bytes()).sum();
        inner.queues_of(number).all(|queue| queue.is_settled)
            && (to_make == 0 || inner.bytes + to_make <= self.bytes_max)
    }

    /// All that came before a write whose turn it is is readable now.
    pub(crate) fn settle(&self, number: WriteNumber) {
        let Inner { queues, members, .. } = &mut *self.inner.borrow_mut();
        let member = members.get(&number).expect("it has its turn");
        for partition in &member.partitions {
            queues.get_mut(partition).expect("a member has its queues").is_settled = true;
        }
    }

    /// What is on its way of a partition; `None` if that is nothing.
    pub(crate) fn overlay(&self, table: TableId, key: &[u8]) -> Option<SharedMemtable> {
        let inner = &mut *self.inner.borrow_mut();
        let queue = inner.queues.get_mut(&(table, key.into()))?;
        let before = queue.overlay.memtable_bytes();
        let memtable = queue.overlay.memtable();
        inner.bytes += queue.overlay.memtable_bytes() - before;
        memtable.filter(|_| !planted(Bug::OverlayIgnored))
    }

    /// Where in the log the newest record ends that a write whose turn it is may have read in an overlay.
    pub(crate) fn read_until(&self, number: WriteNumber) -> Option<Position> {
        let inner = self.inner.borrow();
        inner.queues_of(number).filter_map(|queue| queue.overlay.until()).max()
    }

    /// A write whose turn it is has written nothing: the next of each of its partitions may have theirs.
    pub(crate) fn leave(&self, number: WriteNumber) {
        let inner = &mut *self.inner.borrow_mut();
        let member = inner.take_first(number);
        member.partitions.iter().for_each(|partition| inner.go_on(partition));
        self.is_empty.set(inner.queues.is_empty());
    }

    /// What a write whose turn it is has written waits for space: the next of its partitions wait until it is readable.
    pub(crate) fn leave_deferred(&self, number: WriteNumber) {
        let inner = &mut *self.inner.borrow_mut();
        let member = inner.take_first(number);
        for partition in &member.partitions {
            inner.unsettle(partition);
            inner.go_on(partition);
        }
        self.is_empty.set(inner.queues.is_empty());
    }

    /// What a write whose turn it is has written ends here in the log and is not readable yet: the next of its
    /// partitions see it in their overlays.
    pub(crate) fn leave_logged(&self, number: WriteNumber, record: &[u8], end: Position) {
        let inner = &mut *self.inner.borrow_mut();
        let member = inner.take_first(number);
        let bytes = held_bytes(record, &member.partitions);
        let has_space = inner.bytes + bytes <= self.bytes_max;
        if has_space {
            inner.bytes += bytes;
            inner.overlay_with(record, end);
        }
        for partition in &member.partitions {
            if !has_space {
                inner.unsettle(partition);
            }
            inner.go_on(partition);
        }
        if has_space {
            inner.on_their_way.push_back(OnItsWay { end, partitions: member.partitions, bytes });
        }
        self.is_empty.set(inner.queues.is_empty());
    }

    /// All that ends at or before this in the log is readable.
    #[inline]
    pub(crate) fn applied(&self, until: Position) {
        if !self.is_empty() {
            self.take_applied(until);
        }
    }

    #[cold]
    fn take_applied(&self, until: Position) {
        let inner = &mut *self.inner.borrow_mut();
        while let Some(first) = inner.on_their_way.pop_front_if(|first| first.end <= until) {
            inner.bytes -= first.bytes;
            for partition in &first.partitions {
                // One whose overlay had no space for the record may be gone.
                let Some(queue) = inner.queues.get_mut(partition) else { continue };
                let before = queue.overlay.memtable_bytes();
                if !planted(Bug::OverlayKept) {
                    queue.overlay.applied(until);
                }
                inner.bytes -= before - queue.overlay.memtable_bytes();
            }
            first.partitions.iter().for_each(|partition| inner.go_on(partition));
        }
        self.is_empty.set(inner.queues.is_empty());
    }

    /// The log has failed, and with it what was on its way: no turn reads that any more.
    pub(crate) fn fail(&self) {
        let last = self.inner.borrow().on_their_way.back().map(|last| last.end);
        last.into_iter().for_each(|until| self.take_applied(until));
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
            inner.given_back.remove(number);
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
        self.is_empty.set(inner.queues.is_empty());
        late.into_iter().map(|(_, ticket)| ticket).collect()
    }
}

impl Inner {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Takes out a write whose turn it is.
    fn take_first(&mut self, number: WriteNumber) -> Member {
        let member = self.members.remove(&number).expect("what leaves is in the queues");
        assert!(member.waits.is_none(), "what leaves had its turn");
        self.bytes -= member.bytes;
        for partition in &member.partitions {
            let queue = self.queues.get_mut(partition).expect("a member has its queues");
            let first = queue.writes.pop_front();
            assert_eq!(first, Some(number), "only the first has a turn");
            queue.reading -= usize::from(member.reads);
        }
        member
    }

    /// Puts the mutations of a record into the overlays of their partitions.
    fn overlay_with(&mut self, record: &[u8], end: Position) {
        let record: Rc<[u8]> = record.into();
        let mut cursor = Cursor::new(&record);
        while !cursor.is_empty() {
            let bytes = cursor.bytes().expect("a record is checked when it is taken");
            let to = record.len() - cursor.rest().len();
            let part = Part { end, record: record.clone(), range: to - bytes.len()..to };
            let mutation = MutationRef::parse(bytes).expect("a record is checked when it is taken");
            let partition = (mutation.table, mutation.key.into());
            // Rows of views and notes of them are read by no turn.
            let Some(queue) = self.queues.get_mut(&partition) else { continue };
            let before = queue.overlay.memtable_bytes();
            queue.is_settled &= queue.overlay.push(part);
            // A deletion may make a memtable smaller.
            self.bytes = self.bytes + queue.overlay.memtable_bytes() - before;
        }
    }

    fn unsettle(&mut self, partition: &Partition) {
        self.queues.get_mut(partition).expect("a member has its queues").is_settled = false;
    }

    /// The queues of a write whose turn it is.
    fn queues_of(&self, number: WriteNumber) -> impl Iterator<Item = &Queue> {
        let member = self.members.get(&number).expect("it has its turn");
        member.partitions.iter().filter_map(|partition| self.queues.get(partition))
    }

    /// Who is first in this queue may have become the first; a queue without a write goes.
    fn go_on(&mut self, partition: &Partition) {
        let Some(queue) = self.queues.get(partition) else { return };
        match queue.writes.front().copied() {
            Some(next) => self.give_turn_if_first(next),
            None if queue.overlay.is_empty() => drop(self.queues.remove(partition)),
            None => {}
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
        match first.kind == Kind::ReadsFirst {
            true => self.ready_reads.push_back(first),
            false => self.ready_plain.push_back(first),
        }
        self.wake();
    }
}

/// What a record takes in the queues of these partitions, in bytes.
fn held_bytes(record: &[u8], partitions: &[Partition]) -> usize {
    let keys: usize = partitions.iter().map(|(_, key)| key.len()).sum();
    record.len() + 2 * keys + QUEUED_WRITE_OVERHEAD_BYTES * (1 + partitions.len())
}

/// The partitions of a record that was built here.
fn partitions_of(record: &[u8]) -> impl Iterator<Item = Partition> {
    MutationRef::partitions_of_trusted_record(record).map(|partition| {
        let (table, _, key) = partition.expect("a record is checked when it is taken");
        (table, key.into())
    })
}
