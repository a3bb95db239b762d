//! Writes that wait for space: memtables are full, or the log has no place for them yet.
//!
//! ```text
//! write ─┬─ there is space, no write waits ────────────────► log
//!        └─ else: the end of the queue ─► first ─(space)───► log
//!                                  │
//!                                  └─ waited too long, disk full ─► refused
//! ```
//!
//! Invariants
//! 1. Writes leave in the order in which they came, and none overtakes those that wait.
//! 2. The queue holds no more than its bound, except a write that is alone in it: a queue that is empty takes any.
//!
//! Not here: when there is space (`budget.rs`, `commitlog`), who moves writes on (`write.rs`), how long one may
//! wait (the owner has the clock).

use std::cell::{Cell, Ref, RefCell};
use std::collections::VecDeque;

use crate::error::{Error, Result};
use crate::limits::DEFERRED_OVERHEAD_BYTES;

/// The writes of a shard that are neither taken nor refused.
#[derive(Debug)]
pub(crate) struct DeferredWrites {
    queue: RefCell<VecDeque<Deferred>>,
    /// What the writes in the queue take.
    bytes: Cell<usize>,
    bytes_max: usize,
    /// How many ever came.
    count: Cell<u64>,
    /// How often one came to an empty queue.
    times: Cell<u64>,
}

/// A write that waits.
#[derive(Debug)]
pub(crate) struct Deferred {
    /// What its writer calls it.
    pub(crate) ticket: u64,
    /// Its mutations, encoded.
    pub(crate) record: Box<[u8]>,
    pub(crate) origin: Origin,
}

/// Where a record comes from that goes to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It is as it was sent.
    Sent,
    /// It was made of what was read, when so many truncations of its tables had begun.
    HasRead { truncations: u64 },
    /// It is written whatever became of its tables, and of their rows.
    Insisted,
    /// The same, without rows of views.
    Alone,
}

impl Deferred {
    fn held_bytes(&self) -> usize {
        self.record.len() + DEFERRED_OVERHEAD_BYTES
    }
}

impl DeferredWrites {
    /// An empty queue that holds `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> DeferredWrites {
        let (bytes, count, times) = (Cell::new(0), Cell::new(0), Cell::new(0));
        DeferredWrites { queue: RefCell::default(), bytes, bytes_max, count, times }
    }

    /// Whether no write waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.get() == 0
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.queue.borrow().len()
    }

    /// What they take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// How many ever waited.
    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }

    /// How many of those that ever waited do not wait any more.
    pub(crate) fn left(&self) -> u64 {
        self.count() - self.len() as u64
    }

    /// How often a write came to an empty queue.
    pub(crate) fn times(&self) -> u64 {
        self.times.get()
    }

    /// Takes a write to the end of the queue; `Overloaded` if it is full.
    pub(crate) fn push(&self, record: &[u8], ticket: u64, origin: Origin) -> Result<()> {
        let bytes = self.bytes() + record.len() + DEFERRED_OVERHEAD_BYTES;
        if bytes > self.bytes_max && !self.is_empty() {
            return Err(Error::Overloaded("memory of writes that wait for space"));
        }
        self.times.set(self.times() + u64::from(self.is_empty()));
        self.bytes.set(bytes);
        self.count.set(self.count() + 1);
        self.queue.borrow_mut().push_back(Deferred { ticket, record: record.into(), origin });
        Ok(())
    }

    /// The write that has waited longest.
    pub(crate) fn first(&self) -> Option<Ref<'_, Deferred>> {
        Ref::filter_map(self.queue.borrow(), VecDeque::front).ok()
    }

    /// Takes out the write that has waited longest.
    pub(crate) fn pop(&self) -> Option<Deferred> {
        let first = self.queue.borrow_mut().pop_front()?;
        self.bytes.set(self.bytes() - first.held_bytes());
        Some(first)
    }

    /// Takes out the write that has waited longest, if no more than `until` had come when it did.
    pub(crate) fn pop_of_first(&self, until: u64) -> Option<Deferred> {
        if self.left() < until { self.pop() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_bounded_and_keeps_its_order() {
        let deferred = DeferredWrites::new(3 * (100 + DEFERRED_OVERHEAD_BYTES));
        (1..=3).for_each(|ticket| deferred.push(&[7; 100], ticket, Origin::Sent).unwrap());
        let full = Error::Overloaded("memory of writes that wait for space");
        assert_eq!(deferred.push(&[7; 100], 4, Origin::Sent), Err(full));
        assert_eq!((deferred.len(), deferred.count()), (3, 3), "what is refused never waited");
        assert_eq!(deferred.pop_of_first(1).map(|first| first.ticket), Some(1));
        assert!(deferred.pop_of_first(1).is_none(), "the second came later");
        deferred.push(&[7; 100], 5, Origin::Sent).unwrap();
        let left: Vec<u64> = std::iter::from_fn(|| deferred.pop()).map(|d| d.ticket).collect();
        assert_eq!(left, [2, 3, 5]);
        assert!(deferred.is_empty() && deferred.first().is_none());
        deferred.push(&[7; 100_000], 6, Origin::Sent).unwrap();
        assert_eq!(deferred.bytes(), 100_000 + DEFERRED_OVERHEAD_BYTES, "alone, however large");
    }
}
