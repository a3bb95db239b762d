//! The seam between sockets and execution: a request goes in, an answer comes out at once or later.
//!
//! ```text
//! pass ── request(session, header, request, out) ─► Answered: one whole frame was appended to `out`
//!                                                └► Later: it will come through `Replies`
//! pass ── deliver(|connection, frame|) ──────────►  every late answer that is ready by now
//! ```
//!
//! A frame here is header and body, uncompressed and outside segments: those are the connection's.
//! Answers may come in any order; the stream id in the header tells them apart.

use crate::session::ConnectionId;
use shard::notify::Notify;
use std::cell::RefCell;
use std::rc::Rc;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The answer was appended.
    Answered,
    /// The answer will be delivered in a later pass, or after the connection is gone: then dropped.
    Later,
    /// The answer was appended, and it is the last: send it and close.
    AnsweredAndClose,
}

/// A whole frame, and whose it is.
type Late = (ConnectionId, Vec<u8>);

/// Late answers of one core, from tasks to the pass.
#[derive(Clone)]
pub(crate) struct Replies {
    ready: Rc<RefCell<Vec<Late>>>,
    wake: Rc<Notify>,
}

impl Replies {
    /// Answers that wake `wake` when they are ready.
    pub(crate) fn new(wake: Rc<Notify>) -> Replies {
        Replies { ready: Rc::default(), wake }
    }

    /// Hands over a whole frame.
    pub(crate) fn push(&self, to: ConnectionId, frame: Vec<u8>) {
        self.ready.borrow_mut().push((to, frame));
        self.wake.notify();
    }

    /// Takes what is ready, in order.
    pub(crate) fn deliver(&self, mut deliver: impl FnMut(ConnectionId, &[u8])) {
        for (to, frame) in self.ready.take() {
            deliver(to, &frame);
        }
    }

    /// Whether nothing waits to be delivered.
    pub(crate) fn is_empty(&self) -> bool {
        self.ready.borrow().is_empty()
    }
}
