//! Empty buffers for the frames that go to other cores and come from them, used again and again.
//!
//! ```text
//! asker   take ─► request ──► mailbox ──► request is read ─► keep   owner
//!         keep ◄─ answer is passed on ◄── mailbox ◄── answer ◄─ take
//! ```
//!
//! A question brings its owner a buffer, and the answer takes one along, so the buffers go round: none is
//! allocated on one core and freed on another, which costs both allocators more than the frame itself.
//!
//! Invariant: a buffer that is kept is empty, and number and size of those kept are bounded.

use std::cell::RefCell;

use crate::limits::{FRAME_BUFFER_BYTES_KEPT, FRAME_BUFFERS_KEPT};

/// What a new buffer has space for, in bytes: an answer of one row, as most have it.
const FRAME_BYTES: usize = 2048;

/// The spare buffers of one core. See the module.
#[derive(Default)]
pub(super) struct Buffers {
    spare: RefCell<Vec<Vec<u8>>>,
}

impl Buffers {
    /// An empty buffer.
    #[inline]
    pub(super) fn take(&self) -> Vec<u8> {
        self.spare.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(FRAME_BYTES))
    }

    /// Keeps a buffer whose frame is no longer needed, unless it is large or there are enough.
    #[inline]
    pub(super) fn keep(&self, mut buffer: Vec<u8>) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < FRAME_BUFFERS_KEPT && buffer.capacity() <= FRAME_BUFFER_BYTES_KEPT {
            buffer.clear();
            spare.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next frame is written where the last one was, and nothing of that is left.
    #[test]
    fn a_kept_buffer_is_taken_again() {
        let buffers = Buffers::default();
        let mut buffer = buffers.take();
        buffer.extend_from_slice(b"frame");
        let place = buffer.as_ptr();
        buffers.keep(buffer);
        let again = buffers.take();
        assert!(again.is_empty() && again.as_ptr() == place);
        let other = buffers.take();
        assert_ne!(other.as_ptr(), place, "a buffer has one owner at a time");
    }

    /// Neither many nor large answers make a core keep more than the limits say.
    #[test]
    fn what_is_kept_is_bounded() {
        let buffers = Buffers::default();
        buffers.keep(Vec::with_capacity(FRAME_BUFFER_BYTES_KEPT + 1));
        assert_eq!(buffers.spare.borrow().len(), 0);
        (0..2 * FRAME_BUFFERS_KEPT).for_each(|_| buffers.keep(Vec::with_capacity(1)));
        assert_eq!(buffers.spare.borrow().len(), FRAME_BUFFERS_KEPT);
    }
}
