//! The memory of one core's answers: those that are being made, and those that their clients have not read.
//!
//! ```text
//! read ─► lease ─► each row: hold(bytes) ─┬─ there is space ────────► goes on
//!                                        └─ none: the page ends ───► the next one begins here
//!                                                 no pages ────────► OVERLOADED
//! answer is delivered ─► the lease is over; its bytes are unsent until the client takes them
//! ```
//!
//! An answer that is alone may have more: [`ANSWER_ALONE_MEMORY_DIVISOR`]. An answer that another core makes counts here,
//! where its client is: that core takes the lease, and it comes along with the frame. Only a short one has none
//! ([`PEER_ANSWER_BYTES_MAX`]): of these, as many are asked for at a time as there is space for
//! ([`Answers::may_forward`]).
//! Not counted: what the engine holds for a read, and pieces of rows on their way between cores: these have parts of
//! the memory of their own (`engine::limits::SCAN_MEMORY_DIVISOR`, `shard::limits::PIECES_MEMORY_DIVISOR`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::limits::{
    ANSWER_ALONE_MEMORY_DIVISOR, ANSWER_BYTES_SMALL, ANSWER_MEMORY_DIVISOR, PEER_ANSWER_BYTES_MAX,
};

/// What a lease grows by, in bytes: small answers are counted once.
const LEASE_STEP_BYTES: u64 = 1 << 10;

/// The bytes of the answers of one core.
#[derive(Debug)]
pub(crate) struct Answers {
    bytes_max: u64,
    /// Of an answer that is alone.
    alone_bytes_max: u64,
    /// Every core that makes one of them counts it here.
    leased_bytes: AtomicU64,
    /// Only the core itself counts these.
    unsent_bytes: AtomicU64,
}

impl Answers {
    /// No answers, on a core with this budget of memory.
    pub(crate) fn new(memory_bytes: u64) -> Arc<Answers> {
        let bytes_max = memory_bytes / ANSWER_MEMORY_DIVISOR;
        let alone_bytes_max = memory_bytes / ANSWER_ALONE_MEMORY_DIVISOR;
        let (leased_bytes, unsent_bytes) = Default::default();
        Arc::new(Answers { bytes_max, alone_bytes_max, leased_bytes, unsent_bytes })
    }

    /// Those of each core of a node, in the order of the cores.
    pub(crate) fn of_cores(cores: usize, memory_bytes: u64) -> Arc<[Arc<Answers>]> {
        (0..cores).map(|_| Answers::new(memory_bytes)).collect()
    }

    /// The bytes that clients have not read.
    #[inline]
    pub(crate) fn unsent_bytes(&self) -> u64 {
        self.unsent_bytes.load(Relaxed)
    }

    /// The bytes of answers that are being made.
    pub(crate) fn leased_bytes(&self) -> u64 {
        self.leased_bytes.load(Relaxed)
    }

    /// The unsent answers of a connection were `before` bytes and are `now`.
    #[inline]
    pub(crate) fn unsent(&self, before: usize, now: usize) {
        self.unsent_bytes.store(self.unsent_bytes() - before as u64 + now as u64, Relaxed);
    }

    /// Whether another core may be asked for one more answer that has no lease if it is short, while so many such
    /// answers are to come.
    #[inline]
    pub(crate) fn may_forward(&self, forwarded: usize) -> bool {
        let short = (forwarded as u64 + 1) * PEER_ANSWER_BYTES_MAX as u64;
        short + self.unsent_bytes() <= self.bytes_max
    }

    /// The lease of an answer that has no bytes yet.
    pub(crate) fn lease(self: &Arc<Self>) -> Lease {
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
    answers: Arc<Answers>,
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
        let more = bytes - self.bytes;
        // Counted before it is looked at: of two cores that do so at one time, neither overlooks the other.
        let leased = self.answers.leased_bytes.fetch_add(more, Relaxed);
        if bytes > self.most_of(leased) {
            self.answers.leased_bytes.fetch_sub(more, Relaxed);
            return false;
        }
        self.bytes = bytes;
        true
    }

    /// The bytes that the answer may have while all have leased so many.
    fn most_of(&self, leased_bytes: u64) -> u64 {
        let Answers { bytes_max, alone_bytes_max, .. } = &*self.answers;
        match leased_bytes - self.bytes + self.answers.unsent_bytes() {
            0 => *alone_bytes_max,
            // A point read is not refused for somebody's large answer.
            others if others < 2 * bytes_max => {
                bytes_max.saturating_sub(others).max(self.bytes).max(ANSWER_BYTES_SMALL)
            }
            _ => self.bytes,
        }
    }

    /// Gives back what the answer holds beyond so many bytes. It may grow again.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let bytes = (bytes as u64).next_multiple_of(LEASE_STEP_BYTES).min(self.bytes);
        self.answers.leased_bytes.fetch_sub(self.bytes - bytes, Relaxed);
        self.bytes = bytes;
    }

    /// The bytes that the answer may have now.
    #[inline]
    pub(crate) fn bytes_most(&self) -> usize {
        let most = self.most_of(self.answers.leased_bytes());
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// What to say if there is no space.
    #[cold]
    pub(crate) fn refusal(&self) -> String {
        self.answers.refusal()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.shrink_to(0);
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
        one.shrink_to(1);
        assert_eq!(answers.leased_bytes(), LEASE_STEP_BYTES);
        one.shrink_to(mib);
        assert_eq!(answers.leased_bytes(), LEASE_STEP_BYTES, "it has no more by that");
        assert!(one.hold(5 * mib / 4));
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
