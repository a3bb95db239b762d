//! The frames of one connection that wait until what is ready was sent: each long one, which is made ready in chunks,
//! what came while much was ready, and all that came after those.
//!
//! ```text
//! wire ◄─ chunks ─ [ long frame ] [ short frames, one after the other ] [ long frame ] ...
//! ```
//!
//! To copy a frame of 64 MiB takes tens of milliseconds, and cutting it into segments as much again: no other client of
//! the core is served meanwhile.
//!
//! Invariant: frames leave in the order in which they came, each whole. Not here: what is ready (`frame_writer.rs`).

use std::collections::VecDeque;

use crate::limits::FRAME_CHUNK_BYTES;

/// Frames that are not made ready for the socket yet, in order.
#[derive(Debug, Default)]
pub(super) struct FrameQueue {
    queue: VecDeque<Queued>,
    bytes: usize,
}

#[derive(Debug)]
enum Queued {
    /// A long frame, of which the first `ready` bytes were made ready.
    Long { frame: Vec<u8>, ready: usize },
    /// Short frames, one after the other.
    Short(Vec<u8>),
}

/// What is made ready next.
pub(super) enum Chunk<'q> {
    /// A part of a long frame, of [`FRAME_CHUNK_BYTES`] at most.
    OfLong(&'q [u8]),
    /// Whole frames, one after the other.
    Frames(Vec<u8>),
}

impl FrameQueue {
    /// Whether no frame waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes of all frames in the queue. A long one counts whole until its last chunk was sent.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends a long frame.
    pub(super) fn push_long(&mut self, frame: Vec<u8>) {
        self.bytes += frame.len();
        self.queue.push_back(Queued::Long { frame, ready: 0 });
    }

    /// Lets `put` append one short frame, or nothing, to the last run of short frames. A new run begins behind one of
    /// [`FRAME_CHUNK_BYTES`], so no chunk is longer than that and one frame.
    pub(super) fn push_short<R>(&mut self, put: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let has_place =
            |last: &Queued| matches!(last, Queued::Short(run) if run.len() < FRAME_CHUNK_BYTES);
        if !self.queue.back().is_some_and(has_place) {
            self.queue.push_back(Queued::Short(Vec::new()));
        }
        let Some(Queued::Short(run)) = self.queue.back_mut() else {
            unreachable!("it was just put there")
        };
        let before = run.len();
        let result = put(run);
        self.bytes += run.len() - before;
        result
    }

    /// The next chunk, which counts as ready from now on.
    pub(super) fn next(&mut self) -> Option<Chunk<'_>> {
        // A frame that was ready to its end is dropped here: its last chunk was lent.
        if let Some(Queued::Long { frame, ready }) = self.queue.front()
            && *ready == frame.len()
        {
            self.bytes -= frame.len();
            self.queue.pop_front();
        }
        if let Some(Queued::Short(_)) = self.queue.front() {
            let Some(Queued::Short(run)) = self.queue.pop_front() else { return None };
            self.bytes -= run.len();
            return Some(Chunk::Frames(run));
        }
        let Some(Queued::Long { frame, ready }) = self.queue.front_mut() else { return None };
        let begin = *ready;
        *ready = frame.len().min(begin + FRAME_CHUNK_BYTES);
        Some(Chunk::OfLong(&frame[begin..*ready]))
    }
}
