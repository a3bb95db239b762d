//! The recorder of one client thread: judges each answer, counts it, notes acknowledged writes in the journal, and says
//! what the thread does next.
//!
//! ```text
//! begin ─► (the wire) ─┬─ answered           settle ─► judge, count, note ─► Over, or Follow (a read-modify-write)
//!                      ├─ refused            settle ─► Over, Again after a pause, or Prepare
//!                      ├─ connection lost    settle_lost ─► Over, or Again where connections are opened again
//!                      └─ no answer in time  abandon ─► counted as failed
//! ```
//!
//! Invariants
//! 1. A write is noted in the journal when its answer is judged, before the thread sends anything more. What a rule
//!    must know of an attempt before it is sent is noted in `begin`.
//! 2. An attempt that may have been done is sent again only where that is the same write, or is counted as one more
//!    (`Verb::in_doubt`). A conditional write is given up: its outcome is not known, and is counted as such.
//! 3. Latency counts from when an operation was meant to be sent (`PendingOp::intended_ns`), through all its attempts.
//! 4. An operation that is refused for now is sent at most `ATTEMPTS_MAX` times, with pauses that double up to a bound.
//!
//! Not here: what an answer must show (`workload/rule.rs`, `proof.rs`), the form of the journal (`journal.rs`), when an
//! operation is sent (`client/queues.rs`, `client/pace.rs`).

use cql::frame::ErrorCode;
use cql::frame::client::Reply;

use super::pace::Clock;
use super::queues::PendingOp;
use crate::error::Result;
use crate::journal::{Journal, Record};
use crate::limits::{ATTEMPTS_MAX, BACKOFF_NS_MAX, BACKOFF_NS_MIN};
use crate::measure::interval::{Interval, Kind, note_failure};
use crate::proof::Floor;
use crate::wire::Rows;
use crate::workload::{Findings, InDoubt, Op, Sent, Unanswered, Verb, Workload};

/// What one client thread has seen so far.
#[derive(Debug)]
pub struct Recorder {
    /// Judges the answers.
    pub workload: Workload,
    /// Counts and latencies of the current second.
    pub interval: Interval,
    /// Where acknowledged writes go, if anywhere.
    pub journal: Option<Journal>,
    /// The clock of the run; until the run begins, one that nothing reads.
    pub clock: Clock,
    findings: Findings,
}

/// What the client thread does after an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NextStep {
    /// Nothing follows: the operation is done.
    Over,
    /// Another operation follows at once, such as the write of a read-modify-write.
    Follow(PendingOp),
    /// The same operation is sent again after a pause.
    Again {
        /// The operation to send again.
        pending: PendingOp,
        /// Earliest time to send it, in ns since the start of the run.
        not_before_ns: u64,
    },
    /// The same operation is sent again after the statements are prepared again.
    Prepare(PendingOp),
}

/// Name of the failure of operations whose connection is lost.
pub const CONNECTION_LOST: &str = "connection lost";

/// What may be done about a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remedy {
    /// The same request fails again.
    None,
    /// The same request may succeed later.
    Wait,
    /// The same request may succeed after its statement is prepared again.
    Prepare,
}

/// The name of the failure with this error code, and what may be done about it.
fn failure(code: u32) -> (&'static str, Remedy) {
    match ErrorCode::from_code(code) {
        Some(ErrorCode::Unavailable) => ("unavailable", Remedy::Wait),
        Some(ErrorCode::Overloaded) => ("overloaded", Remedy::Wait),
        Some(ErrorCode::IsBootstrapping) => ("bootstrapping", Remedy::Wait),
        Some(ErrorCode::WriteTimeout) => ("write timeout", Remedy::Wait),
        Some(ErrorCode::ReadTimeout) => ("read timeout", Remedy::Wait),
        Some(ErrorCode::Unprepared) => ("unprepared", Remedy::Prepare),
        Some(ErrorCode::Server) => ("server error", Remedy::None),
        Some(ErrorCode::Protocol) => ("protocol error", Remedy::None),
        Some(ErrorCode::BadCredentials) => ("bad credentials", Remedy::None),
        Some(ErrorCode::Truncate) => ("truncate error", Remedy::None),
        Some(ErrorCode::ReadFailure) => ("read failure", Remedy::None),
        Some(ErrorCode::FunctionFailure) => ("function failure", Remedy::None),
        Some(ErrorCode::WriteFailure) => ("write failure", Remedy::None),
        Some(ErrorCode::CdcWriteFailure) => ("change log full", Remedy::None),
        Some(ErrorCode::CasWriteUnknown) => ("conditional write unknown", Remedy::None),
        Some(ErrorCode::Syntax) => ("syntax error", Remedy::None),
        Some(ErrorCode::Unauthorized) => ("unauthorized", Remedy::None),
        Some(ErrorCode::Invalid) => ("invalid", Remedy::None),
        Some(ErrorCode::Config) => ("configuration error", Remedy::None),
        Some(ErrorCode::AlreadyExists) => ("already exists", Remedy::None),
        None if code == RATE_LIMIT => ("rate limit", Remedy::None),
        None => ("unknown error", Remedy::None),
    }
}

/// True if a server that answers so has done nothing.
fn is_not_done(code: u32) -> bool {
    use ErrorCode::{
        Config, Invalid, IsBootstrapping, Overloaded, Syntax, Unauthorized, Unavailable, Unprepared,
    };
    let refusals = [Config, Invalid, Syntax, Unauthorized, Unprepared];
    let later = [IsBootstrapping, Overloaded, Unavailable];
    refusals.iter().chain(&later).any(|refusal| refusal.code() == code)
}

/// True if a server that answers so leaves open whether it was done, and nothing is wrong with it.
fn is_in_doubt(code: u32) -> bool {
    let open = [ErrorCode::WriteTimeout, ErrorCode::ReadTimeout, ErrorCode::CasWriteUnknown];
    open.iter().any(|open| open.code() == code)
}

/// Number of attempts of which it is not known whether they were done, where that matters.
const OUTCOME_UNKNOWN: &str = "outcomes that are not known";

/// The error code that ScyllaDB gives a request over a table's rate limit.
const RATE_LIMIT: u32 = 0xF000;

impl Recorder {
    /// A recorder that has seen nothing.
    pub fn new(workload: Workload, journal: Option<Journal>, clock: Clock) -> Recorder {
        Recorder {
            workload,
            interval: Interval::new(0),
            journal,
            clock,
            findings: Findings::default(),
        }
    }

    /// Takes in the answer to `pending`, which was sent at `sent_ns` and came at `now_ns`.
    #[inline]
    pub fn settle(
        &mut self,
        pending: &PendingOp,
        sent_ns: u64,
        floor: &Floor,
        reply: Reply<'_>,
        now_ns: u64,
    ) -> Result<NextStep> {
        match reply {
            Reply::Error { code, text, .. } => Ok(self.settle_error(pending, code, text, now_ns)),
            Reply::Rows(rows) => {
                let columns = rows.metadata.column_count as u32;
                let rows = Rows::new(rows.cell_bytes(), rows.row_count as u32, columns);
                self.settle_success(pending, sent_ns, floor, rows, now_ns)
            }
            _ => self.settle_success(pending, sent_ns, floor, Rows::NONE, now_ns),
        }
    }

    #[inline]
    fn settle_success(
        &mut self,
        pending: &PendingOp,
        sent_ns: u64,
        floor: &Floor,
        rows: Rows<'_>,
        now_ns: u64,
    ) -> Result<NextStep> {
        let op = &pending.op;
        self.interval.record(op.verb.kind(), now_ns.saturating_sub(pending.intended_ns));
        if op.verb == Verb::WriteBack {
            self.interval.record(Kind::Modify, now_ns.saturating_sub(pending.began_ns));
        }
        let sent = Sent { sequence: pending.sequence, floor, at: self.clock.at(sent_ns) };
        let follows = self.workload.complete(op, sent, rows, &mut self.findings)?;
        if op.verb.is_write() {
            let mark = std::mem::take(&mut self.findings.mark);
            self.note(pending, mark);
        }
        for name in self.findings.proved.drain(..) {
            *self.interval.proved.entry(name).or_default() += 1;
        }
        self.interval.rows += std::mem::take(&mut self.findings.rows);
        self.interval.not_found += std::mem::take(&mut self.findings.not_found);
        for violation in self.findings.violations.drain(..) {
            note_failure(&mut self.interval.violations, violation.name(), || violation.to_string());
        }
        Ok(match follows {
            None => NextStep::Over,
            Some(op) => NextStep::Follow(PendingOp {
                op,
                sequence: 0,
                intended_ns: now_ns,
                began_ns: pending.intended_ns,
                attempts: 0,
            }),
        })
    }

    #[cold]
    fn settle_error(
        &mut self,
        pending: &PendingOp,
        code: u32,
        text: &str,
        now_ns: u64,
    ) -> NextStep {
        let again = PendingOp { attempts: pending.attempts + 1, ..*pending };
        let (name, remedy) = failure(code);
        let how = if is_not_done(code) { Unanswered::NotDone } else { Unanswered::Unknown };
        if self.settled(pending, how) == InDoubt::GiveUp && is_in_doubt(code) {
            self.workload.rule.failed(&pending.op);
            return NextStep::Over;
        }
        let remedy = if again.attempts < ATTEMPTS_MAX { remedy } else { Remedy::None };
        match remedy {
            Remedy::None => {
                self.fail(&pending.op, name, &format!("{text} (0x{code:04X})"));
                NextStep::Over
            }
            Remedy::Wait => {
                note_failure(&mut self.interval.retries, name, || text.to_owned());
                let pause_ns = (BACKOFF_NS_MIN << pending.attempts).min(BACKOFF_NS_MAX);
                NextStep::Again { pending: again, not_before_ns: now_ns + pause_ns }
            }
            Remedy::Prepare => {
                note_failure(&mut self.interval.retries, name, || text.to_owned());
                NextStep::Prepare(again)
            }
        }
    }

    /// The connection was lost with `pending` on its way: whether it arrived is not known.
    pub fn settle_lost(
        &mut self,
        pending: &PendingOp,
        reason: &str,
        reconnects: Reconnects,
    ) -> NextStep {
        let in_doubt = self.settled(pending, Unanswered::Unknown);
        match reconnects {
            Reconnects::Yes if in_doubt == InDoubt::GiveUp => {
                self.workload.rule.failed(&pending.op);
                NextStep::Over
            }
            Reconnects::Yes => {
                note_failure(&mut self.interval.retries, CONNECTION_LOST, || reason.to_owned());
                NextStep::Again {
                    pending: PendingOp { attempts: pending.attempts.max(1), ..*pending },
                    not_before_ns: 0,
                }
            }
            Reconnects::No => {
                self.fail(&pending.op, CONNECTION_LOST, reason);
                NextStep::Over
            }
        }
    }

    /// Gives up `pending`, whose answer has not come in time.
    pub fn abandon(&mut self, pending: &PendingOp) {
        self.settled(pending, Unanswered::Unknown);
        self.fail(&pending.op, "client timeout", "no answer in time");
    }

    /// An attempt is about to be sent: what the journal must know before, it notes.
    #[inline]
    pub fn begin(&mut self, pending: &PendingOp) {
        let mark = self.workload.rule.begin(&pending.op, pending.sequence);
        self.note(pending, mark);
    }

    /// An attempt ended without an answer that it was done; says what is to be done if that leaves a doubt.
    fn settled(&mut self, pending: &PendingOp, how: Unanswered) -> InDoubt {
        let mark = self.workload.rule.settled(&pending.op, how);
        self.note(pending, mark);
        let in_doubt = pending.op.verb.in_doubt();
        if how == Unanswered::Unknown && in_doubt != InDoubt::Repeat {
            *self.interval.proved.entry(OUTCOME_UNKNOWN).or_default() += 1;
        }
        in_doubt
    }

    #[inline]
    fn note(&mut self, pending: &PendingOp, mask: u16) {
        if let Some(journal) = &mut self.journal
            && mask != 0
        {
            let rule = &self.workload.rule;
            let key = rule.journal_key(&pending.op);
            let sequence = rule.journal_sequence(&pending.op, pending.sequence);
            journal.note(Record { key, sequence, mask });
        }
    }

    /// Counts `op` as failed for good, under the failure `name`, with `text` as an example.
    pub fn fail(&mut self, op: &Op, name: &str, text: &str) {
        note_failure(&mut self.interval.errors, name, || {
            format!("{} of key {}: {text}", op.verb.kind().name(), op.key)
        });
        self.workload.rule.failed(op);
    }
}

/// Whether lost connections are opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconnects {
    /// Lost connections are opened again and their operations sent again.
    Yes,
    /// Operations on a lost connection fail.
    No,
}

#[cfg(test)]
mod tests;
