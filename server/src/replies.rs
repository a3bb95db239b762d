//! The answers that are not made inside a request: from tasks and the log to the pass.
//!
//! A task, or the log's completion, appends the frame of an answer and wakes the pass, which hands
//! each frame to its connection, as many as its time allows. Invariant: frames
//! are delivered in the order in which they were made, each once.
//!
//! ```text
//! bytes   [ delivered │ frame │ frame │ ... ]     short frames, one after the other, in one buffer
//! frames  [ (connection, end in bytes) or (connection, a long frame of its own) ... ]     in order
//! ```
//!
//! 1. `put` and `push` append one whole frame to the shared buffer. `hand_over` keeps a long frame as it is.
//! 2. `deliver`, once a pass, takes all that is ready. Frames that come while it delivers are for the next pass, and
//!    stand after those that this pass has left.
//!
//! Not here: answers that are made inside the pass, which go straight into the buffer of their connection
//! (`connection.rs`); what a connection does with a frame (`pass.rs`).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use shard::notify::Notify;

use crate::limits::{ANSWERS_PER_CLOCK_READ, SPARE_FRAME_BYTES_MAX};
use crate::session::ConnectionId;

/// Late answers of one core, from tasks and the log to the pass.
///
/// All lie in one buffer that is used again, so that the answer to a write allocates nothing.
#[derive(Clone)]
pub(crate) struct Replies {
    ready: Rc<RefCell<Ready>>,
    wake: Arc<Notify>,
}

#[derive(Default)]
struct Ready {
    bytes: Vec<u8>,
    /// Where the first shared frame begins in `bytes`.
    begin: usize,
    /// The connection of each frame, and where the frame is.
    frames: Vec<(ConnectionId, Place)>,
}

enum Place {
    /// It ends here in `bytes`, and begins where the one before it ends.
    Shared(usize),
    /// It is long, and not copied.
    Own(Vec<u8>),
}

impl Ready {
    /// Gives up the bytes of what was delivered, if they are many: there may be no pass that delivers all.
    fn forget_delivered(&mut self) {
        let begin = self.begin;
        if begin < KEPT_BYTES_MAX {
            return;
        }
        self.bytes.drain(..begin);
        self.begin = 0;
        for (_, place) in &mut self.frames {
            if let Place::Shared(end) = place {
                *end -= begin;
            }
        }
    }

    /// Appends the answers that became ready later.
    fn append(&mut self, later: Ready) {
        let shift = self.bytes.len() - later.begin;
        self.bytes.extend_from_slice(&later.bytes[later.begin..]);
        self.frames.extend(later.frames.into_iter().map(|(to, place)| match place {
            Place::Shared(end) => (to, Place::Shared(end + shift)),
            own => (to, own),
        }));
    }
}

/// A longer frame is handed over as it is.
const COPIED_BYTES_MAX: usize = SPARE_FRAME_BYTES_MAX;

/// What the buffer keeps of its memory when it is empty.
const KEPT_BYTES_MAX: usize = 256 << 10;

impl Replies {
    /// Answers that wake `wake` when they are ready.
    pub(crate) fn new(wake: Arc<Notify>) -> Replies {
        Replies { ready: Rc::default(), wake }
    }

    /// Lets `put` append exactly one whole frame.
    #[inline]
    pub(crate) fn put(&self, to: ConnectionId, put: impl FnOnce(&mut Vec<u8>)) {
        let mut ready = self.ready.borrow_mut();
        put(&mut ready.bytes);
        let end = ready.bytes.len();
        ready.frames.push((to, Place::Shared(end)));
        self.wake.notify();
    }

    /// Hands over a whole frame. Its buffer comes back if the frame was short, and copied.
    pub(crate) fn hand_over(&self, to: ConnectionId, frame: Vec<u8>) -> Option<Vec<u8>> {
        if frame.len() <= COPIED_BYTES_MAX {
            self.push(to, &frame);
            return Some(frame);
        }
        self.ready.borrow_mut().frames.push((to, Place::Own(frame)));
        self.wake.notify();
        None
    }

    /// Copies a whole frame.
    pub(crate) fn push(&self, to: ConnectionId, frame: &[u8]) {
        self.put(to, |out| out.extend_from_slice(frame));
    }

    /// Takes what is ready, in order, until `is_over`, which is asked after each long frame and after every few short
    /// ones: what is behind stays.
    pub(crate) fn deliver(
        &self,
        mut deliver: impl FnMut(ConnectionId, &[u8]),
        is_over: impl Fn() -> bool,
    ) {
        // Taken out meanwhile: delivering may lead to more answers.
        let mut taken = self.ready.take();
        let Ready { bytes, begin, frames } = &mut taken;
        let mut delivered = 0;
        for (to, place) in frames.iter() {
            delivered += 1;
            match place {
                Place::Shared(end) => {
                    deliver(*to, &bytes[*begin..*end]);
                    *begin = *end;
                    if delivered % ANSWERS_PER_CLOCK_READ == 0 && is_over() {
                        break;
                    }
                }
                Place::Own(frame) => {
                    deliver(*to, frame);
                    if is_over() {
                        break;
                    }
                }
            }
        }
        frames.drain(..delivered);
        let mut ready = self.ready.borrow_mut();
        if !taken.frames.is_empty() {
            taken.forget_delivered();
            taken.append(std::mem::take(&mut *ready));
            *ready = taken;
        } else if ready.frames.is_empty() {
            taken.bytes.clear();
            taken.bytes.shrink_to(KEPT_BYTES_MAX);
            taken.begin = 0;
            *ready = taken;
        }
    }

    /// Whether nothing waits to be delivered.
    pub(crate) fn is_empty(&self) -> bool {
        self.ready.borrow().frames.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before: all long answers that were ready were compressed in one step, 2 ms for each MiB.
    #[test]
    fn long_answers_wait_for_the_next_pass_and_keep_their_order() {
        let replies = Replies::new(Arc::new(Notify::new()));
        let id = |slot| ConnectionId { slot, generation: 0 };
        let long = vec![9; COPIED_BYTES_MAX + 1];
        let frame = |n: u8| if n.is_multiple_of(3) { long.clone() } else { vec![n; 7] };
        (0..9).for_each(|n| drop(replies.hand_over(id(n.into()), frame(n))));
        let (mut taken, mut passes) = (Vec::new(), Vec::new());
        while !replies.is_empty() {
            let first = passes.is_empty();
            replies.deliver(
                |to, bytes| {
                    taken.push((to, bytes.to_vec()));
                    // What comes meanwhile is behind all that waits.
                    if first {
                        replies.push(id(9), &frame(10));
                    }
                },
                || true,
            );
            passes.push(taken.len());
        }
        let expected = (0..9).map(|n| (id(n.into()), frame(n)));
        assert_eq!(taken[..9], expected.collect::<Vec<_>>());
        assert_eq!(taken[9..], [(id(9), frame(10))]);
        assert_eq!(passes, [1, 4, 7, 10]);
    }
}
