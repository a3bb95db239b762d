//! Spare buffers for the frames between cores, and for the answers of reads that waited.
//!
//! ```text
//! asker   take     ─► request ──► mailbox ──► request is read ─► put_back   owner
//!         put_back ◄─ answer is passed on ◄── mailbox ◄── answer ◄─ take
//! ```
//!
//! A question brings its owner a buffer, and the answer takes one along, so the buffers go round. A forwarded read of
//! one row allocates no more than a local one (5.00 both, `cost`), and nothing is freed on a core that did not
//! allocate it. Processor time was not measurably less (`docs/benchmarks.md`).
//!
//! Invariant: a spare buffer is empty, and number and size of the spares are bounded. Large frames and more than the
//! limit are freed as ever.

use std::cell::RefCell;

use crate::limits::{SPARE_FRAME_BYTES_MAX, SPARE_FRAMES_MAX};

/// What a new buffer has space for, in bytes: an answer of one row, as most have it.
const FRAME_CAPACITY_BYTES: usize = 2048;

const _: () = assert!(FRAME_CAPACITY_BYTES <= SPARE_FRAME_BYTES_MAX, "a new buffer is kept");

/// The spare buffers of one core. See the module.
#[derive(Default)]
pub(super) struct FramePool {
    spare: RefCell<Vec<Vec<u8>>>,
    /// The number of buffers that were made because there was none to spare.
    #[cfg(test)]
    made: std::cell::Cell<usize>,
}

impl FramePool {
    /// An empty buffer.
    #[inline]
    pub(super) fn take(&self) -> Vec<u8> {
        let spare = self.spare.borrow_mut().pop();
        spare.unwrap_or_else(|| {
            #[cfg(test)]
            self.made.set(self.made.get() + 1);
            Vec::with_capacity(FRAME_CAPACITY_BYTES)
        })
    }

    /// Takes back a buffer whose frame is no longer needed. It is freed if it is large or there are enough.
    #[inline]
    pub(super) fn put_back(&self, mut buffer: Vec<u8>) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE_FRAMES_MAX && buffer.capacity() <= SPARE_FRAME_BYTES_MAX {
            buffer.clear();
            spare.push(buffer);
        }
    }

    /// The number of buffers that were made so far.
    #[cfg(test)]
    pub(super) fn made(&self) -> usize {
        self.made.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next frame is written where the last one was, and nothing of that is left.
    #[test]
    fn a_buffer_is_used_again_and_empty() {
        let pool = FramePool::default();
        let mut buffer = pool.take();
        buffer.extend_from_slice(b"frame");
        let place = buffer.as_ptr();
        pool.put_back(buffer);
        let again = pool.take();
        assert!(again.is_empty() && again.as_ptr() == place);
        drop(pool.take());
        assert_eq!(pool.made(), 2, "a buffer has one owner at a time");
    }

    /// Neither many nor large frames make a core keep more than the limits say.
    #[test]
    fn the_spares_are_bounded() {
        let pool = FramePool::default();
        pool.put_back(Vec::with_capacity(SPARE_FRAME_BYTES_MAX + 1));
        assert_eq!(pool.spare.borrow().len(), 0);
        (0..2 * SPARE_FRAMES_MAX).for_each(|_| pool.put_back(Vec::with_capacity(1)));
        assert_eq!(pool.spare.borrow().len(), SPARE_FRAMES_MAX);
    }
}
