//! A bounded ring between exactly one producer and one consumer, items moved by value.
//!
//! ```text
//!            head (consumer writes)        tail (producer writes)
//!              │                             │
//!   slots:  [ . │ A  B  C  D                 │ .  .  . ]
//!           free└──── published, unread ─────┘ free
//! ```
//!
//! Indices only grow; a slot is `index & mask`. Each side keeps its own index and the last value it
//! saw of the other's, so a push or a pop touches shared cache lines only when its view runs out,
//! and a batch is made visible by one release store ([`Producer::publish`], [`Consumer::release`]).
//!
//! Invariants
//! 1. `head ≤ tail ≤ head + slots`, in wrapping arithmetic.
//! 2. Slots `head..tail` hold items; the consumer alone reads them. All others are free; the
//!    producer alone writes them.
//! 3. A `Producer` and a `Consumer` are not `Clone`: one of each exists per ring.
//!
//! Not here: who wakes a sleeping consumer (`bell.rs`), what full means (the caller decides).
#![expect(unsafe_code, reason = "slots are shared between two threads and handed over by indices")]

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

struct Ring<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    mask: usize,
    /// The first unread item; written by the consumer.
    head: CachePadded<AtomicUsize>,
    /// One past the last published item; written by the producer.
    tail: CachePadded<AtomicUsize>,
}

// SAFETY: items cross threads by value, so `T: Send` is what it takes; by invariants 2 and 3 no
// slot is ever touched by two threads without a release store and an acquire load between them.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let tail = *self.tail.get_mut();
        let mut index = *self.head.get_mut();
        while index != tail {
            let slot = self.slots[index & self.mask].get_mut();
            // SAFETY: both ends are gone, so `head..tail` are exactly the unread items.
            unsafe { slot.assume_init_drop() };
            index = index.wrapping_add(1);
        }
    }
}

/// The writing end.
pub(super) struct Producer<T> {
    ring: Arc<Ring<T>>,
    /// One past the last written item, published or not.
    tail: usize,
    published: usize,
    head_seen: usize,
}

/// The reading end.
pub(super) struct Consumer<T> {
    ring: Arc<Ring<T>>,
    /// The next item to read.
    head: usize,
    released: usize,
    tail_seen: usize,
}

/// Makes a ring of `slots` items, a power of two.
pub(super) fn ring<T: Send>(slots: usize) -> (Producer<T>, Consumer<T>) {
    assert!(slots.is_power_of_two(), "a ring's size is a power of two");
    let ring = Arc::new(Ring {
        slots: (0..slots).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
        mask: slots - 1,
        head: CachePadded::new(AtomicUsize::new(0)),
        tail: CachePadded::new(AtomicUsize::new(0)),
    });
    let producer = Producer { ring: ring.clone(), tail: 0, published: 0, head_seen: 0 };
    let consumer = Consumer { ring, head: 0, released: 0, tail_seen: 0 };
    (producer, consumer)
}

impl<T> Producer<T> {
    /// Adds an item that the consumer sees after the next [`publish`](Self::publish). A full ring
    /// gives it back.
    #[inline]
    pub(super) fn push(&mut self, item: T) -> Result<(), T> {
        if self.tail.wrapping_sub(self.head_seen) > self.ring.mask {
            // Acquire: what the consumer read from the slots it frees happened before we reuse them.
            self.head_seen = self.ring.head.load(Ordering::Acquire);
            if self.tail.wrapping_sub(self.head_seen) > self.ring.mask {
                return Err(item);
            }
        }
        let slot = self.ring.slots[self.tail & self.ring.mask].get();
        // SAFETY: `tail` is outside `head..published`, so the slot is free and ours (invariant 2).
        unsafe { (*slot).write(item) };
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }

    /// Whether something was pushed since the last [`publish`](Self::publish).
    #[inline]
    pub(super) fn has_unpublished(&self) -> bool {
        self.tail != self.published
    }

    /// Makes everything pushed so far visible.
    #[inline]
    pub(super) fn publish(&mut self) {
        if self.has_unpublished() {
            let unread = self.tail.wrapping_sub(self.head_seen);
            assert!(unread <= self.ring.slots.len(), "no more waits than there are slots");
            // Release: the slots are written before the consumer can see the new tail.
            self.ring.tail.store(self.tail, Ordering::Release);
            self.published = self.tail;
        }
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        // So that the ring's own drop finds, and drops, what was never published.
        self.publish();
    }
}

impl<T> Consumer<T> {
    /// Takes the next published item. Its slot returns to the producer at the next
    /// [`release`](Self::release).
    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        if !self.has_items() {
            return None;
        }
        let slot = self.ring.slots[self.head & self.ring.mask].get();
        // SAFETY: only we read slots from `head` to `tail_seen`, and the producer is done with them.
        let slot = unsafe { slot.read() };
        // SAFETY: a slot of that stretch holds a published item (invariant 2), and `head` moves past
        // it before anything else can read it.
        let item = unsafe { slot.assume_init() };
        self.head = self.head.wrapping_add(1);
        Some(item)
    }

    /// Whether [`pop`](Self::pop) would return an item.
    #[inline]
    pub(super) fn has_items(&mut self) -> bool {
        if self.head == self.tail_seen {
            // Acquire: pairs with the release in `publish`.
            self.tail_seen = self.ring.tail.load(Ordering::Acquire);
        }
        self.head != self.tail_seen
    }

    /// Gives the slots of everything popped back to the producer.
    #[inline]
    pub(super) fn release(&mut self) {
        if self.head != self.released {
            let unread = self.tail_seen.wrapping_sub(self.head);
            assert!(unread <= self.ring.slots.len(), "no more waits than there are slots");
            self.ring.head.store(self.head, Ordering::Release);
            self.released = self.head;
        }
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        // So that the ring's own drop does not drop again what was popped.
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full ring gives the item back, and takes it again once slots were released.
    #[test]
    fn full_gives_back() {
        let (mut tx, mut rx) = ring::<u32>(4);
        for i in 0..4 {
            tx.push(i).unwrap();
        }
        assert_eq!(tx.push(4), Err(4));
        assert!(tx.has_unpublished());
        tx.publish();
        assert!(!tx.has_unpublished());
        assert_eq!(rx.pop(), Some(0));
        assert_eq!(tx.push(4), Err(4), "a popped slot is not free before it is released");
        rx.release();
        tx.push(4).unwrap();
        assert_eq!(tx.push(5), Err(5));
    }

    /// Nothing is visible before it is published.
    #[test]
    fn unpublished_is_invisible() {
        let (mut tx, mut rx) = ring::<u32>(4);
        tx.push(1).unwrap();
        assert!(!rx.has_items());
        assert_eq!(rx.pop(), None);
        tx.publish();
        assert!(rx.has_items());
        assert_eq!(rx.pop(), Some(1));
        assert_eq!(rx.pop(), None);
    }

    /// Each item is dropped exactly once, wherever it is when the ends go.
    #[test]
    fn drops_each_item_once() {
        struct Counted(Arc<AtomicUsize>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        for popped in 0..=4 {
            for producer_first in [false, true] {
                let drops = Arc::new(AtomicUsize::new(0));
                let (mut tx, mut rx) = ring(8);
                for i in 0..6 {
                    assert!(tx.push(Counted(drops.clone())).is_ok());
                    if i < 4 {
                        tx.publish();
                    }
                }
                for _ in 0..popped {
                    assert!(rx.pop().is_some());
                }
                assert_eq!(drops.load(Ordering::Relaxed), popped);
                if producer_first {
                    drop(tx);
                    drop(rx);
                } else {
                    drop(rx);
                    drop(tx);
                }
                assert_eq!(drops.load(Ordering::Relaxed), 6);
            }
        }
    }

    /// Two threads, a small ring, boxed items: every one arrives, in order, once.
    #[test]
    fn two_threads_keep_order() {
        const ITEMS: u64 = if cfg!(miri) { 500 } else { 300_000 };
        let (mut tx, mut rx) = ring::<Box<u64>>(16);
        let sender = std::thread::spawn(move || {
            for i in 0..ITEMS {
                let mut item = Box::new(i);
                while let Err(back) = tx.push(item) {
                    item = back;
                    tx.publish();
                    std::thread::yield_now();
                }
                if i % 3 == 0 {
                    tx.publish();
                }
            }
        });
        let mut next = 0;
        while next < ITEMS {
            match rx.pop() {
                Some(item) => {
                    assert_eq!(*item, next);
                    next += 1;
                }
                None => {
                    rx.release();
                    std::thread::yield_now();
                }
            }
        }
        sender.join().unwrap();
        assert!(rx.pop().is_none());
    }

    /// Indices wrap around `usize` without losing their order.
    #[test]
    fn indices_wrap() {
        let (mut tx, mut rx) = ring::<u32>(2);
        let start = usize::MAX - 2;
        tx.ring.head.store(start, Ordering::Relaxed);
        tx.ring.tail.store(start, Ordering::Relaxed);
        (tx.tail, tx.published, tx.head_seen) = (start, start, start);
        (rx.head, rx.released, rx.tail_seen) = (start, start, start);
        for i in 0..10 {
            tx.push(i).unwrap();
            tx.push(i + 100).unwrap();
            assert!(tx.push(0).is_err());
            tx.publish();
            assert_eq!((rx.pop(), rx.pop(), rx.pop()), (Some(i), Some(i + 100), None));
            rx.release();
        }
    }
}
