//! The answers that are not made inside a request: from tasks and the log to the pass.
//!
//! A task, or the log's completion, appends the frame of an answer and wakes the pass, which hands
//! each frame to its connection. Invariant: frames are delivered in the order in which they were made,
//! each once.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use shard::notify::Notify;

use crate::limits::SPARE_FRAME_BYTES_MAX;
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
    /// The connection of each frame, and where the frame is.
    frames: Vec<(ConnectionId, Place)>,
}

enum Place {
    /// It ends here in `bytes`, and begins where the one before it ends.
    Shared(usize),
    /// It is long, and not copied.
    Own(Vec<u8>),
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

    /// Takes what is ready, in order.
    pub(crate) fn deliver(&self, mut deliver: impl FnMut(ConnectionId, &[u8])) {
        // Taken out meanwhile: delivering may lead to more answers.
        let mut taken = self.ready.take();
        let mut start = 0;
        for (to, place) in taken.frames.drain(..) {
            match place {
                Place::Shared(end) => {
                    deliver(to, &taken.bytes[start..end]);
                    start = end;
                }
                Place::Own(frame) => deliver(to, &frame),
            }
        }
        taken.bytes.clear();
        taken.bytes.shrink_to(KEPT_BYTES_MAX);
        let mut ready = self.ready.borrow_mut();
        if ready.frames.is_empty() {
            *ready = taken;
        }
    }

    /// Whether nothing waits to be delivered.
    pub(crate) fn is_empty(&self) -> bool {
        self.ready.borrow().frames.is_empty()
    }
}
