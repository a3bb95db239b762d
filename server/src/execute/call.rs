//! A request on its way to its answer: whose it is, and how it is answered.
//!
//! A call is moved from step to step. The step that appends the answer gives it back, and the one
//! that has to wait keeps it.

use std::rc::Rc;

use cql::frame::Version;
use cql::frame::header::Opcode;
use cql::frame::response::Envelope;

use super::trace::Trace;
use crate::session::Session;
use crate::statements::{Answered, StatementPlace};

/// A request that is not answered yet.
pub(super) struct Call {
    /// The client's session.
    pub(super) session: Rc<Session>,
    /// The protocol version of the request's frame, and of the answer's.
    pub(super) version: Version,
    /// The stream id that the answer carries.
    pub(super) stream: i16,
    /// What the request went through, if the client asked for tracing.
    pub(super) trace: Option<Box<Trace>>,
    /// What it is counted by; none before its statement is known.
    pub(super) statement: StatementPlace,
    /// When it began, in nanoseconds: by the clock of its pass, or exactly if it is timed.
    pub(super) begun_ns: u64,
    /// For how many executions it counts if it is answered at once; 0 if it is not timed.
    pub(super) weight: u8,
    /// The rows of its answer that are not counted yet.
    pub(super) rows: u32,
}

/// Whether a call was answered, or waits for its answer.
#[must_use = "a call that was answered is finished by `Executor::finish`"]
pub(super) enum Flow {
    /// The answer was appended: one frame.
    Answered(Call),
    /// The answer will come through `Replies`.
    Later,
}

impl Answered {
    /// What the frame of an answer says, which is not compressed yet.
    #[inline]
    pub(super) fn of(frame: &[u8]) -> Answered {
        /// Where the header of a frame says what the frame is.
        const OPCODE: usize = 4;
        let is_error = frame.get(OPCODE).is_some_and(|code| *code == Opcode::Error as u8);
        Answered { bytes: frame.len(), is_error, rows: 0 }
    }
}

impl Call {
    /// The frame of the answer.
    #[inline]
    pub(super) fn envelope(&self) -> Envelope<'static> {
        let mut envelope = Envelope::new(self.version, self.stream);
        envelope.trace_id = self.trace.as_ref().map(|trace| trace.id);
        envelope
    }

    /// The keyspace of unqualified names: the request's own, else what USE chose.
    pub(super) fn keyspace(&self, of_request: Option<&str>) -> Option<String> {
        let of_session = || self.session.keyspace.borrow().as_deref().map(str::to_owned);
        of_request.map(str::to_owned).or_else(of_session)
    }
}
