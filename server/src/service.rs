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

use std::rc::Rc;
use std::time::Instant;

use cql::frame::Header;
use cql::frame::request::Request;
use shard::idle::InFlight;

use crate::replies::Replies;
use crate::session::Session;

/// Whether a request was answered, or will be later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The answer was appended.
    Answered,
    /// The answer will be delivered in a later pass, or after the connection is gone: then dropped.
    Later,
}

/// What executes requests, as the pass of a core sees it.
pub(crate) trait Service {
    /// A connection was accepted.
    fn opened(&self, session: &Rc<Session>);

    /// A connection is gone. What it still reads ends, long statements that wait for their turn are not begun; other
    /// answers are dropped when they come.
    fn closed(&self, session: &Rc<Session>);

    /// A client sends nothing more: what it reads ends, what it writes is answered if it still listens.
    fn fell_silent(&self, session: &Rc<Session>);

    /// Begins a request, and ends it if that takes no waiting: then one frame was appended.
    fn request(
        &self,
        session: &Rc<Session>,
        header: &Header,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Outcome;

    /// Whether what was begun since this was asked last computes for long, so that the clock should be looked at.
    fn did_much(&self) -> bool;

    /// Once a pass, after its requests: mail of other cores, the log's completions. Says whether
    /// there was anything.
    fn poll(&self) -> bool;

    /// Ends what waits and has passed its deadline at `now`; whether there was no time for all of it.
    fn end_late(&self, now: Instant) -> bool;

    /// Before this nothing has passed its deadline; `None`: nothing waits that has one.
    fn first_deadline(&self) -> Option<Instant>;

    /// Whether [`poll`](Service::poll) would find something. Looks and does not wait.
    fn has_work(&self) -> bool;

    /// The disk reads, log writes and replies that this core waits for.
    fn in_flight(&self) -> InFlight;

    /// The answers that were not made inside `request`.
    fn replies(&self) -> &Replies;
}
