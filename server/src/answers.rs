//! The memory of one core's answers: those that are being made, and those that their clients have not read.
//!
//! ```text
//! read ─► lease ─► each row: hold(bytes) ─┬─ there is space ────────► goes on
//!                                        └─ none: the page ends ───► the next one begins here
//!                                                 no pages ────────► OVERLOADED
//! answer is delivered ─► the lease is over; its bytes are unsent until the client takes them
//! ```
//!
//! An answer that is alone may have more: [`ANSWER_ALONE_MEMORY_DIVISOR`]. Not counted: what the
//! engine holds for a read, and what is on its way between cores: these have parts of the memory of their own
//! (`engine::limits::SCAN_MEMORY_DIVISOR`, `shard::limits::PIECES_MEMORY_DIVISOR`).

use std::cell::Cell;
use std::rc::Rc;

use crate::limits::{ANSWER_ALONE_MEMORY_DIVISOR, ANSWER_BYTES_SMALL, ANSWER_MEMORY_DIVISOR};

/// What a lease grows by, in bytes: small answers are counted once.
const LEASE_STEP_BYTES: u64 = 1 << 10;

/// The bytes of the answers of one core.
#[derive(Debug)]
pub(crate) struct Answers {
    bytes_max: u64,
    /// Of an answer that is alone.
    alone_bytes_max: u64,
    leased_bytes: Cell<u64>,
    unsent_bytes: Cell<u64>,
}

impl Answers {
    /// No answers, on a core with this budget of memory.
    pub(crate) fn new(memory_bytes: u64) -> Rc<Answers> {
        let bytes_max = memory_bytes / ANSWER_MEMORY_DIVISOR;
        let alone_bytes_max = memory_bytes / ANSWER_ALONE_MEMORY_DIVISOR;
        let (leased_bytes, unsent_bytes) = Default::default();
        Rc::new(Answers { bytes_max, alone_bytes_max, leased_bytes, unsent_bytes })
    }

    /// The bytes that clients have not read.
    #[inline]
    pub(crate) fn unsent_bytes(&self) -> u64 {
        self.unsent_bytes.get()
    }

    /// The bytes of answers that are being made.
    pub(crate) fn leased_bytes(&self) -> u64 {
        self.leased_bytes.get()
    }

    /// The unsent answers of a connection were `before` bytes and are `now`.
    #[inline]
    pub(crate) fn unsent(&self, before: usize, now: usize) {
        self.unsent_bytes.set(self.unsent_bytes.get() - before as u64 + now as u64);
    }

    /// The lease of an answer that has no bytes yet.
    pub(crate) fn lease(self: &Rc<Self>) -> Lease {
        Lease { answers: self.clone(), bytes: 0 }
    }

    /// What to say to a read that has no space.
    #[cold]
    pub(crate) fn refusal(&self) -> String {
        format!(
            "Result not made: the answers of this shard take {} bytes while they are made and {} until \
             they are read, of {} that they may; ask for pages, or for fewer rows, or again later",
            self.leased_bytes(),
            self.unsent_bytes(),
            self.bytes_max
        )
    }
}

/// The part of one answer in the memory of all.
#[derive(Debug)]
pub(crate) struct Lease {
    answers: Rc<Answers>,
    bytes: u64,
}

impl Lease {
    /// Whether the answer may have so many bytes now; counts them if it may.
    #[inline]
    pub(crate) fn hold(&mut self, bytes: usize) -> bool {
        bytes as u64 <= self.bytes || self.grow(bytes as u64)
    }

    fn grow(&mut self, bytes: u64) -> bool {
        let bytes = bytes.next_multiple_of(LEASE_STEP_BYTES);
        if bytes > self.most() {
            return false;
        }
        let leased = &self.answers.leased_bytes;
        leased.set(leased.get() - self.bytes + bytes);
        self.bytes = bytes;
        true
    }

    fn most(&self) -> u64 {
        let Answers { bytes_max, alone_bytes_max, leased_bytes, unsent_bytes } = &*self.answers;
        match leased_bytes.get() - self.bytes + unsent_bytes.get() {
            0 => *alone_bytes_max,
            // A point read is not refused for somebody's large answer.
            others if others < 2 * bytes_max => {
                bytes_max.saturating_sub(others).max(self.bytes).max(ANSWER_BYTES_SMALL)
            }
            _ => self.bytes,
        }
    }

    /// The bytes that the answer may have now.
    #[inline]
    pub(crate) fn bytes_most(&self) -> usize {
        usize::try_from(self.most()).unwrap_or(usize::MAX)
    }

    /// What to say if there is no space.
    #[cold]
    pub(crate) fn refusal(&self) -> String {
        self.answers.refusal()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let leased = &self.answers.leased_bytes;
        leased.set(leased.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_share_a_budget_and_one_that_is_alone_has_all_it_needs() {
        let answers = Answers::new(8 << 20);
        let mib = 1 << 20;
        let (mut one, mut two) = (answers.lease(), answers.lease());
        assert!(one.hold(mib / 2) && two.hold(mib / 2 - 1));
        assert!(!one.hold(mib), "the other one holds the rest");
        assert!(one.hold(mib / 2), "what it holds it keeps");
        drop(two);
        assert!(one.hold(5 * mib / 4) && !one.hold(2 * mib), "alone");
        let small = ANSWER_BYTES_SMALL as usize;
        assert!(answers.lease().hold(small) && !answers.lease().hold(small + 1));
        assert!(one.refusal().contains("take 1310720 bytes"), "{}", one.refusal());
        drop(one);
        assert_eq!(answers.leased_bytes(), 0);
        answers.unsent(0, mib);
        assert!(!answers.lease().hold(small + 1), "clients that do not read hold memory, too");
        answers.unsent(mib, 2 * mib);
        assert!(!answers.lease().hold(1), "small answers end somewhere, too");
        answers.unsent(2 * mib, 0);
        assert!(answers.lease().hold(1));
    }
}
