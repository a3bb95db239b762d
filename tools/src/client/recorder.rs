//! The recorder of one client thread: judges each answer, counts it, notes acknowledged writes in the
//! journal, and says what the thread does next.

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
    /// The clock of the run.
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
            let key = self.workload.rule.journal_key(&pending.op);
            journal.note(Record { key, sequence: pending.sequence, mask });
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
mod tests {
    use std::sync::Arc;

    use cql::frame::Reader;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;
    use crate::ledger::{Frontier, Tallies};
    use crate::limits::FIELDS_MAX;
    use crate::popularity::Popularity;
    use crate::workload::record::RecordShape;
    use crate::workload::scenario::{Known, ScenarioName, UNKNOWN};
    use crate::workload::ycsb::Fill;
    use crate::workload::{Rule, Source};

    fn recorder() -> (Recorder, PendingOp) {
        let shape = RecordShape { keyspace: "k".into(), fields: 1, field_bytes: 40 };
        let op = shape.op(Verb::Insert, 3, 0);
        let source = Source::Stretch { keys: (0..10).step_by(1), verb: Verb::Insert };
        let workload = Workload { rule: Box::new(Fill { shape }), source };
        let pending = PendingOp { op, sequence: 9, intended_ns: 100, began_ns: 100, attempts: 0 };
        (Recorder::new(workload, None, Clock::start()), pending)
    }

    fn error(recorder: &mut Recorder, pending: &PendingOp, code: u32) -> NextStep {
        let details = Reader::new(&[]);
        let reply = Reply::Error { code, text: "why", details };
        recorder.settle(pending, 100, &[0; FIELDS_MAX], reply, 1000).unwrap()
    }

    #[test]
    fn what_may_pass_is_tried_again_with_growing_pauses_and_then_given_up() {
        let (mut recorder, mut pending) = recorder();
        let mut pauses = Vec::new();
        while let NextStep::Again { pending: again, not_before_ns } =
            error(&mut recorder, &pending, 0x1001)
        {
            assert_eq!(again.sequence, 9, "the same write");
            pauses.push(not_before_ns - 1000);
            pending = again;
        }
        assert_eq!(pauses.len() as u32, ATTEMPTS_MAX - 1);
        assert!(pauses.is_sorted() && pauses[0] == BACKOFF_NS_MIN);
        assert_eq!(*pauses.last().unwrap(), BACKOFF_NS_MAX);
        assert_eq!(recorder.interval.retries["overloaded"].count, u64::from(ATTEMPTS_MAX - 1));
        assert_eq!(recorder.interval.errors["overloaded"].count, 1);
    }

    #[test]
    fn what_lasts_fails_at_once_under_its_name() {
        let (mut recorder, pending) = recorder();
        assert_eq!(error(&mut recorder, &pending, 0x2200), NextStep::Over);
        assert_eq!(recorder.interval.errors["invalid"].examples, ["insert of key 3: why (0x2200)"]);
        assert!(matches!(
            error(&mut recorder, &pending, ErrorCode::Unprepared.code()),
            NextStep::Prepare(_)
        ));
        assert_eq!(recorder.settle_lost(&pending, "gone", Reconnects::No), NextStep::Over);
        assert_eq!(recorder.interval.errors["connection lost"].count, 1);
    }

    /// A transfer that may have been done is not sent again; an increment is, and counts twice as begun.
    #[test]
    fn what_is_not_idempotent_is_left_in_doubt_or_counted_anew() {
        let known = Known {
            keyspace: "k".into(),
            value_bytes: 40,
            judges: true,
            keys: 4,
            thread: (0, 1),
            tallies: Arc::new(Tallies::new(4, |_| UNKNOWN)),
            promises: Arc::default(),
        };
        let timeout = ErrorCode::WriteTimeout.code();
        for (name, verb) in
            [(ScenarioName::Bank, Verb::Transfer), (ScenarioName::Counters, Verb::Increment)]
        {
            let rng = SmallRng::seed_from_u64(1);
            let mut rule = name.rule(known.clone(), rng.clone());
            let verb_first = if verb == Verb::Transfer { Verb::Read } else { verb };
            let mut op = rule.op(verb_first, 3).unwrap();
            if verb == Verb::Transfer {
                op = transfer_after(rule.as_mut(), op);
            }
            let source = Source::Draw {
                keys: Arc::new(Frontier::new(4)),
                mix: name.usual_mix(),
                popularity: Popularity::Uniform,
                rng,
            };
            let workload = Workload { rule, source };
            let mut recorder = Recorder::new(workload, None, Clock::start());
            let (_, pending) = self::recorder();
            let pending = PendingOp { op, ..pending };
            recorder.begin(&pending);
            let step = error(&mut recorder, &pending, ErrorCode::Overloaded.code());
            assert!(matches!(step, NextStep::Again { .. }), "nothing was done: {step:?}");
            assert!(recorder.interval.proved.is_empty());
            recorder.begin(&pending);
            let step = error(&mut recorder, &pending, timeout);
            assert_eq!(matches!(step, NextStep::Over), verb == Verb::Transfer, "{step:?}");
            assert_eq!(recorder.interval.proved[OUTCOME_UNKNOWN], 1);
            assert!(recorder.interval.errors.is_empty(), "a doubt is no error");
        }
        assert_eq!(known.tallies.begun(3) - known.tallies.answered(3), 2, "both are in doubt");
    }

    /// The transfer that follows a read of eight accounts.
    fn transfer_after(rule: &mut dyn Rule, read: Op) -> Op {
        let mut cells = Vec::new();
        for account in 0..8i64 {
            for number in [account, 1000] {
                cells.extend_from_slice(&8i32.to_be_bytes());
                cells.extend_from_slice(&number.to_be_bytes());
            }
        }
        let at = Clock::start().now();
        let sent = Sent { sequence: 0, floor: &[0; FIELDS_MAX], at };
        let read = Op { verb: Verb::ReadToTransfer, ..read };
        let rows = Rows::new(&cells, 8, 2);
        rule.read(&read, sent, rows, &mut Findings::default()).unwrap().unwrap()
    }

    #[test]
    fn a_success_is_timed_from_when_it_was_meant() {
        let (mut recorder, pending) = recorder();
        let after = recorder.settle(&pending, 600, &[0; FIELDS_MAX], Reply::Void, 5_100).unwrap();
        assert_eq!(after, NextStep::Over);
        let latency = recorder.interval.latencies(Kind::Insert).unwrap().max();
        assert!((4_900..5_100).contains(&latency), "{latency}");
    }
}
