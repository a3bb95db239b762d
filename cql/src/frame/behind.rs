//! What stands behind the answers that are made ready for a socket: a long frame, which is made ready in pieces, and
//! the frames behind it.
//!
//! ```text
//! wire ◄─ pieces ─ [ long frame ] [ short frames, one after the other ] [ long frame ] ...
//! ```
//!
//! To copy a frame of 64 MiB takes tens of milliseconds, and cutting it into segments as much again: no other client of
//! the core is served meanwhile.
//!
//! Invariant: frames leave in the order in which they came, each whole. Not here: what is ready (`frame_writer.rs`).

use std::collections::VecDeque;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Behind {
    queue: VecDeque<Part>,
    bytes: usize,
}

/// Frames in a row.
#[derive(Debug)]
enum Part {
    /// A long one, of which so many bytes are ready.
    Long(Vec<u8>, usize),
    /// Others, one after the other.
    Short(Vec<u8>),
}

/// What is made ready next.
pub(super) enum Piece<'b> {
    /// A piece of a long frame.
    OfLong(&'b [u8]),
    /// Whole frames, one after the other.
    Frames(Vec<u8>),
}

impl Behind {
    /// Whether nothing stands behind.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes of the frames of which not all is ready.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Puts a long frame behind all others.
    pub(super) fn push_long(&mut self, frame: Vec<u8>) {
        self.bytes += frame.len();
        self.queue.push_back(Part::Long(frame, 0));
    }

    /// Lets `put` append one frame, or nothing, behind all others. What has so many bytes already is made ready without
    /// it.
    pub(super) fn push_short<R>(
        &mut self,
        bytes_max: usize,
        put: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> R {
        let has_place =
            |part: &Part| matches!(part, Part::Short(frames) if frames.len() < bytes_max);
        if !self.queue.back().is_some_and(has_place) {
            self.queue.push_back(Part::Short(Vec::new()));
        }
        let Some(Part::Short(frames)) = self.queue.back_mut() else {
            unreachable!("it was just put there")
        };
        let before = frames.len();
        let result = put(frames);
        self.bytes += frames.len() - before;
        result
    }

    /// The next piece, of a long frame so many bytes at most, which counts as ready.
    pub(super) fn next(&mut self, bytes_max: usize) -> Option<Piece<'_>> {
        // What was ready to its end is dropped here: it was lent.
        if let Some(Part::Long(frame, ready)) = self.queue.front()
            && *ready == frame.len()
        {
            self.bytes -= frame.len();
            self.queue.pop_front();
        }
        if let Some(Part::Short(_)) = self.queue.front() {
            let Some(Part::Short(frames)) = self.queue.pop_front() else { return None };
            self.bytes -= frames.len();
            return Some(Piece::Frames(frames));
        }
        let Some(Part::Long(frame, ready)) = self.queue.front_mut() else { return None };
        let begin = *ready;
        *ready = frame.len().min(begin + bytes_max);
        Some(Piece::OfLong(&frame[begin..*ready]))
    }
}
