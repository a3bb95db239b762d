//! The requests of one connection that have no answer yet, in the order in which they came, with what each counts
//! against its core's limits.
//!
//! ```text
//! request ─► push ─► [ (stream, bytes) (stream, bytes) ... ] ─► take ◄─ the frame of its answer, or an event's
//! ```
//!
//! Invariant: every request is answered once, so each is taken once. Not here: those that were answered at once, which
//! never come here (`connection/serve.rs`).

use std::collections::VecDeque;

use crate::limits::LIST_ENTRIES_KEPT;

/// Requests of one connection without an answer.
#[derive(Debug, Default)]
pub(crate) struct Unanswered(VecDeque<Waiting>);

#[derive(Debug)]
struct Waiting {
    stream: i16,
    bytes: u32,
}

impl Unanswered {
    /// Appends a request of so many bytes.
    #[inline]
    pub(crate) fn push(&mut self, stream: i16, bytes: u32) {
        self.0.push_back(Waiting { stream, bytes });
    }

    /// Takes the request out that a frame answers, and returns its bytes; `None` for an event, which answers nothing.
    pub(crate) fn take(&mut self, frame: &[u8]) -> Option<u32> {
        let stream = frame[2..4].try_into().map(i16::from_be_bytes).expect("a frame has a header");
        if stream < 0 {
            return None;
        }
        let index = self.0.iter().position(|waiting| waiting.stream == stream);
        // Most answers come in order: it is among the first, and what is behind it keeps its order.
        let waiting = index.and_then(|index| self.0.remove(index));
        Some(waiting.expect("an answer has its request").bytes)
    }

    /// Whether a request with this stream waits.
    pub(crate) fn has(&self, stream: i16) -> bool {
        self.0.iter().any(|waiting| waiting.stream == stream)
    }

    /// How many requests wait.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no request waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of memory that the list has, in use or kept for the next requests.
    #[inline]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Waiting>()
    }

    /// Gives back the memory that the requests in it do not need, if it is much.
    pub(crate) fn give_back(&mut self) {
        if self.0.capacity() > 2 * self.0.len().max(LIST_ENTRIES_KEPT) {
            self.0.shrink_to(LIST_ENTRIES_KEPT);
        }
    }

    /// Gives back all memory that the requests in it do not need.
    pub(crate) fn trim(&mut self) {
        self.0.shrink_to_fit();
    }
}
