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
//! 3. A long frame has its lease in the memory of answers until it is delivered, and is unsent then. What else a pass
//!    has left is told to who counts what is unsent.
//!
//! Not here: answers that are made inside the pass, which go straight into the buffer of their connection
//! (`connection.rs`); what a connection does with a frame (`pass.rs`).

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use shard::notify::Notify;

use crate::answers::Lease;
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
    /// It is long, and not copied. With its part of the memory of answers, if it has one.
    Own(Vec<u8>, Option<Lease>),
}

impl Ready {
    /// Appends the answers that became ready later.
    fn append(&mut self, later: Ready) {
        let shift = self.bytes.len() - later.begin;
        self.bytes.extend_from_slice(&later.bytes[later.begin..]);
        self.frames.extend(later.frames.into_iter().map(|(to, place)| match place {
            Place::Shared(end) => (to, Place::Shared(end + shift)),
            own => (to, own),
        }));
    }

    /// Cuts off what was delivered, unless less than that is left: then it is cut when it is more.
    fn cut(&mut self) {
        let cut = self.begin;
        if cut < self.bytes.len() - cut {
            return;
        }
        self.bytes.drain(..cut);
        self.begin = 0;
        for (_, place) in &mut self.frames {
            if let Place::Shared(end) = place {
                *end -= cut;
            }
        }
    }

    /// Bytes of frames that have no lease.
    fn unleased_bytes(&self) -> usize {
        let own = self.frames.iter().map(|(_, place)| match place {
            Place::Own(frame, None) => frame.len(),
            _ => 0,
        });
        self.bytes.len() - self.begin + own.sum::<usize>()
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

    /// Hands over a whole frame, with its lease if it has one. Its buffer comes back if the frame was short, and
    /// copied.
    pub(crate) fn hand_over(
        &self,
        to: ConnectionId,
        frame: Vec<u8>,
        lease: Option<Lease>,
    ) -> Option<Vec<u8>> {
        if frame.len() <= COPIED_BYTES_MAX {
            self.push(to, &frame);
            return Some(frame);
        }
        self.ready.borrow_mut().frames.push((to, Place::Own(frame, lease)));
        self.wake.notify();
        None
    }

    /// Copies a whole frame.
    pub(crate) fn push(&self, to: ConnectionId, frame: &[u8]) {
        self.put(to, |out| out.extend_from_slice(frame));
    }

    /// Takes what is ready, in order, the long frames as they are, until `is_over`, which is asked after each of these
    /// and after every few short ones: what is behind stays. Returns the bytes of those that stay without a lease.
    pub(crate) fn deliver(
        &self,
        mut deliver: impl FnMut(ConnectionId, Cow<'_, [u8]>),
        is_over: impl Fn() -> bool,
    ) -> usize {
        // Taken out meanwhile: delivering may lead to more answers.
        let mut taken = self.ready.take();
        let Ready { bytes, begin, frames } = &mut taken;
        let mut delivered = 0;
        for (to, place) in frames.iter_mut() {
            delivered += 1;
            match place {
                Place::Shared(end) => {
                    deliver(*to, Cow::Borrowed(&bytes[*begin..*end]));
                    *begin = *end;
                    if delivered % ANSWERS_PER_CLOCK_READ == 0 && is_over() {
                        break;
                    }
                }
                Place::Own(frame, _) => {
                    deliver(*to, Cow::Owned(std::mem::take(frame)));
                    if is_over() {
                        break;
                    }
                }
            }
        }
        frames.drain(..delivered);
        let mut ready = self.ready.borrow_mut();
        if !taken.frames.is_empty() {
            taken.cut();
            taken.append(std::mem::take(&mut *ready));
            *ready = taken;
            return ready.unleased_bytes();
        } else if ready.frames.is_empty() {
            taken.bytes.clear();
            taken.bytes.shrink_to(KEPT_BYTES_MAX);
            taken.begin = 0;
            *ready = taken;
        }
        0
    }

    /// Whether nothing waits to be delivered.
    pub(crate) fn is_empty(&self) -> bool {
        self.ready.borrow().frames.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::Answers;

    /// Before: all long answers that were ready were compressed in one step, 2 ms for each MiB.
    #[test]
    fn long_answers_wait_for_the_next_pass_and_keep_their_order() {
        let replies = Replies::new(Arc::new(Notify::new()));
        let id = |slot| ConnectionId { slot, generation: 0 };
        let long = vec![9; COPIED_BYTES_MAX + 1];
        let frame = |n: u8| if n.is_multiple_of(3) { long.clone() } else { vec![n; 7] };
        (0..9).for_each(|n| drop(replies.hand_over(id(n.into()), frame(n), None)));
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

    /// Before: bytes that were delivered stayed before those that waited, pass after pass.
    #[test]
    fn what_is_delivered_is_cut_off_while_long_answers_stay_behind() {
        let replies = Replies::new(Arc::new(Notify::new()));
        let to = ConnectionId { slot: 0, generation: 0 };
        let (long, short) = (vec![9; COPIED_BYTES_MAX + 1], [7; 1000]);
        let put = || {
            (0..10).for_each(|_| replies.push(to, &short));
            drop(replies.hand_over(to, long.clone(), None));
        };
        (0..3).for_each(|_| put());
        for pass in 0..100 {
            put();
            let mut bytes = 0;
            let left = replies.deliver(|_, frame| bytes += frame.len(), || true);
            assert_eq!(bytes, 10_000 + long.len(), "{pass}");
            assert_eq!(left, 3 * bytes, "{pass}");
            let held = replies.ready.borrow().bytes.len();
            assert!(held <= 60_000, "{held} bytes for 30,000 in pass {pass}");
        }
        while !replies.is_empty() {
            replies.deliver(|_, frame| assert!(*frame == short || *frame == long), || true);
        }
    }

    /// Before: an answer was counted while it was made and when it was unsent, and not between.
    #[test]
    fn a_long_answer_is_counted_until_it_is_delivered() {
        let replies = Replies::new(Arc::new(Notify::new()));
        let answers = Answers::new(64 << 20);
        let to = ConnectionId { slot: 0, generation: 0 };
        for bytes in [1 << 20, 2 << 20] {
            let mut lease = answers.lease();
            assert!(lease.hold(bytes));
            drop(replies.hand_over(to, vec![7; bytes], Some(lease)));
        }
        assert_eq!(answers.leased_bytes(), 3 << 20);
        let left = replies.deliver(
            |_, frame| {
                assert!(answers.leased_bytes() >= frame.len() as u64);
            },
            || true,
        );
        assert_eq!((answers.leased_bytes(), left), (2 << 20, 0), "one is left, with its lease");
        replies.deliver(|_, _| {}, || true);
        assert_eq!(answers.leased_bytes(), 0);
    }
}
