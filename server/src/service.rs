//! The seam between sockets and execution: a request goes in, an answer comes out at once or later.
//!
//! ```text
//! pass ─ request(session, header, request, out) ─► Answered: one whole frame was appended
//!                                               └► Later: it will come through `Replies`
//! pass ─ turn() ─────────────────────────────────► mail, completed writes
//! pass ─ replies().deliver(|connection, frame|) ─► every late answer that is ready by now
//! ```
//!
//! A frame here is header and body, uncompressed and outside segments: those are the connection's.
//! Answers may come in any order; the stream id in the header tells them apart.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use cql::frame::Header;
use cql::frame::request::Request;
use shard::idle::InFlight;
use shard::notify::Notify;

use crate::session::{ConnectionId, Session};

/// Whether a request was answered, or will be later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The answer was appended.
    Answered,
    /// The answer will be delivered in a later pass, or after the connection is gone: then dropped.
    Later,
    /// The answer was appended, and it is the last: send it and close.
    #[cfg_attr(not(test), expect(dead_code, reason = "for refused credentials; all are allowed"))]
    AnsweredAndClose,
}

/// What executes requests, as the pass of a core sees it.
pub(crate) trait Service {
    /// A connection was accepted.
    fn opened(&self, session: &Rc<Session>);

    /// A connection is gone. What it still waits for is dropped when it comes.
    fn closed(&self, session: &Rc<Session>);

    /// Begins a request, and ends it if that takes no waiting: then one frame was appended.
    fn request(
        &self,
        session: &Rc<Session>,
        header: &Header,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Outcome;

    /// Once a pass, after its requests: mail of other cores, the log's completions. Says whether
    /// there was anything.
    fn turn(&self) -> bool;

    /// Whether [`turn`](Service::turn) would find something. Looks and does not wait.
    fn has_work(&self) -> bool;

    /// The disk reads, log writes and replies that this core waits for.
    fn in_flight(&self) -> InFlight;

    /// The answers that were not made inside `request`.
    fn replies(&self) -> &Replies;
}

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
    /// The connection of each frame, and where the frame ends in `bytes`.
    ends: Vec<(ConnectionId, usize)>,
}

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
        ready.ends.push((to, end));
        self.wake.notify();
    }

    /// Hands over a whole frame.
    pub(crate) fn push(&self, to: ConnectionId, frame: &[u8]) {
        self.put(to, |out| out.extend_from_slice(frame));
    }

    /// Takes what is ready, in order.
    pub(crate) fn deliver(&self, mut deliver: impl FnMut(ConnectionId, &[u8])) {
        // Taken out meanwhile: delivering may lead to more answers.
        let mut taken = self.ready.take();
        let mut start = 0;
        for (to, end) in taken.ends.drain(..) {
            deliver(to, &taken.bytes[start..end]);
            start = end;
        }
        taken.bytes.clear();
        taken.bytes.shrink_to(KEPT_BYTES_MAX);
        let mut ready = self.ready.borrow_mut();
        if ready.ends.is_empty() {
            *ready = taken;
        }
    }

    /// Whether nothing waits to be delivered.
    pub(crate) fn is_empty(&self) -> bool {
        self.ready.borrow().ends.is_empty()
    }
}
