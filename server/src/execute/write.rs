//! Writes: bound into one record, given to the shard under a ticket, answered when it is durable.
//!
//! Nothing is allocated for a write that has no trace: the record, the scratch and the slab of
//! those who wait are the core's own and are used again.

use super::answer::WriteKind;
use super::consistency::Replication;
use super::trace::Trace;
use super::{Call, Executor, NOBODY, Progress, Refusal};
use crate::service::Outcome;
use crate::session::ConnectionId;
use cql::frame::Version;
use cql::frame::response::Envelope;

/// Who waits for a write.
pub(super) struct WaitingWrite {
    to: ConnectionId,
    version: Version,
    stream: i16,
    kind: WriteKind,
    trace: Option<Box<Trace>>,
    warnings: Vec<String>,
}

/// At which level a write is asked for, and where it goes.
pub(super) struct Promise<'p> {
    /// What the client is told if it fails.
    pub(super) kind: WriteKind,
    /// Of the keyspaces written.
    pub(super) replication: &'p [Replication],
}

impl Executor {
    /// Lets `bind` fill a record, and warn of it, and makes it durable.
    #[inline]
    pub(super) fn write(
        &self,
        call: &mut Option<Call>,
        promise: Promise<'_>,
        mut warnings: Vec<String>,
        out: &mut Vec<u8>,
        bind: impl FnOnce(&mut cql::plan::Scratch, &mut Vec<u8>) -> cql::Result<Vec<String>>,
    ) -> Progress {
        let mut record = self.record.borrow_mut();
        record.clear();
        warnings.extend(bind(&mut self.scratch.borrow_mut(), &mut record)?);
        if record.is_empty() {
            // Every value was unset: there is nothing to make durable.
            let call = call.as_ref().expect("a call is taken once");
            Envelope { warnings: &warnings, ..call.envelope() }.put_void(out);
            return Ok(Outcome::Answered);
        }
        let kind = promise.kind;
        promise.replication.iter().try_for_each(|replication| replication.check(kind.level))?;
        let Call { session, version, stream, trace } = call.take().expect("a call is taken once");
        if let Some(trace) = &trace {
            let activity = format!("Appending {} bytes to commitlog", record.len());
            trace.event(self.core.now_us(), activity);
        }
        let mut waiting = self.waiting.borrow_mut();
        let waiter = WaitingWrite { to: session.id, version, stream, kind, trace, warnings };
        let ticket = waiting.insert(waiter);
        match self.shard.write(&record, ticket as u64) {
            Ok(()) => Ok(Outcome::Later),
            Err(error) => {
                waiting.remove(ticket);
                Err(Refusal::Write(error, kind))
            }
        }
    }

    /// Answers the writes that are done. Once a pass.
    pub(super) fn answer_writes(&self) {
        let mut completed = self.completed.take();
        self.shard.take_completed(&mut completed);
        for (ticket, result) in completed.drain(..) {
            if ticket == NOBODY {
                continue;
            }
            let waiter = self.waiting.borrow_mut().remove(ticket as usize);
            self.answer_write(waiter, result);
        }
        self.completed.replace(completed);
    }

    #[inline]
    fn answer_write(&self, waiter: WaitingWrite, result: engine::Result<()>) {
        let WaitingWrite { to, version, stream, kind, trace, warnings } = waiter;
        let mut envelope = Envelope::new(version, stream);
        envelope.warnings = &warnings;
        envelope.trace_id = trace.as_ref().map(|trace| trace.id);
        self.core.replies().put(to, |out| match result {
            Ok(()) => envelope.put_void(out),
            Err(error) => Refusal::Write(error, kind).put(&envelope, self.core.node(), out),
        });
        if let Some(trace) = trace {
            trace.event(self.core.now_us(), "Written to commitlog and memtable");
            self.write_trace(*trace);
        }
    }
}
