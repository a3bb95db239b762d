//! Writes: bound into one record, submitted to the shard under a ticket, answered when it is durable.
//!
//! Nothing is allocated for a write that has no trace: the record, the scratch and the slab of
//! those who wait are the core's own and are used again.
//!
//! ```text
//! bind: values ─► record of mutations ─► guardrails ─► consistency level ─┬─ refused ──────► an ERROR in the pass
//!                                                                         ├─ empty record ─► void in the pass
//! submit ◄────────────────────────────────────────────────────────────────┘
//!    └─► entry in `waiting` ─► `shard.write`, or `write_batch` if several cores own parts ─► completed: answer_write
//!                         └──► its deadline passes first: answer_late_writes sends WRITE_TIMEOUT, the entry stays
//! ```
//!
//! 1. The number of an entry in `waiting` is the ticket of the write. An entry is removed only when the shard has
//!    completed or refused the write, so a number that is in use is never given twice.
//! 2. A call is answered once: an answer takes it out of its entry, and an entry without a call is dropped silently.
//! 3. A write that has timed out may still become durable. The write type `BATCH_LOG` says that a logged batch was not
//!    noted yet: nothing of it is written so far.
//!
//! Not here: how other writes than the plainest are bound (`binder.rs`), on a thread if their values are long
//! (`beside_core.rs`) or they take much work (`work_at_once.rs`), BATCH messages (`batch.rs`), what conditions are
//! answered with (`conditional.rs`), the names of counter changes (`request_id.rs`), how a record becomes durable
//! (`engine/src/write.rs`).

use std::cell::{RefCell, RefMut};
use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cql::bind::{Bindings, BoundOn, Ids};
use cql::frame::consistency::Consistency;
use cql::frame::request::Parameters;
use cql::frame::response::Envelope;
use cql::plan::{NotApplied, Scratch, WritePlan};
use cql::prepare::Statement;
use shard::Ticket;
use slab::Slab;
use uuid::Uuid;

use super::answer::WriteKind;
use super::beside_core::is_bound_beside;
use super::binder::Bound;
use super::call::{Call, Flow};
use super::conditional::{self, check_commit_level};
use super::consistency::{Replication, check_counter_write, check_write};
use super::deadlines::look_from;
use super::statement::ServerStatement;
use super::work_at_once::WorkAtOnce;
use super::{ExecuteError, Executor, Run, When, batch, request_id};
use crate::answers::Lease;
use crate::limits::{ANSWERS_PER_CLOCK_READ, RECORD_BYTES_KEPT};
use crate::statements::Answered;
use crate::system;
use crate::time_slice::TimeSlice;

/// The writes of one core between their requests and their answers.
#[derive(Default)]
pub(super) struct Writes {
    waiting: RefCell<Slab<WaitingWrite>>,
    /// Those that the last pass had no time to answer; kept for its memory.
    completed: RefCell<Vec<(u32, engine::Result<()>)>>,
    /// The memory of the rows that the answers of this pass have, until they are delivered.
    lease: RefCell<Option<Lease>>,
    record: RefCell<Vec<u8>>,
    scratch: RefCell<Scratch>,
}

/// A write that the shard has and its client has no answer to.
struct WaitingWrite {
    /// `None` once its client was told that it takes too long.
    call: Option<Call>,
    kind: WriteKind,
    warnings: Vec<String>,
    deadline: Instant,
    /// Of a conditional write: how it is answered.
    not_applied: Option<Arc<NotApplied>>,
    /// Whether it has a name: then what is not applied was done before.
    is_named: bool,
}

/// A write that is ready to be submitted.
pub(super) struct BoundWrite<'w> {
    /// Its mutations; empty when every value was unset.
    pub(super) record: RefMut<'w, Vec<u8>>,
    /// What the client is told if it fails.
    pub(super) kind: WriteKind,
    /// What the client should know beside the result.
    pub(super) warnings: Vec<String>,
    /// How long it may still take: what `USING TIMEOUT` says, or, of a write that waited to be bound, what is left of
    /// its time-out. `None`: the usual time.
    pub(super) timeout: Option<Duration>,
    /// Of a conditional write: how it is answered.
    pub(super) not_applied: Option<Arc<NotApplied>>,
    /// Whether it is a logged batch that several cores own.
    pub(super) is_divided: bool,
    /// Whether it has a name, by which it is known if it is sent again.
    pub(super) is_named: bool,
}

impl Writes {
    /// The buffer for the record of one write, empty, and what binding needs beside it.
    #[inline]
    pub(super) fn buffers(&self) -> (RefMut<'_, Vec<u8>>, RefMut<'_, Scratch>) {
        let mut record = self.record.borrow_mut();
        record.clear();
        // One large write does not keep its memory for ever.
        record.shrink_to(RECORD_BYTES_KEPT);
        (record, self.scratch.borrow_mut())
    }
}

impl BoundWrite<'_> {
    /// Refuses a level that the keyspaces written to cannot keep: the one that the client is told of and, of a
    /// conditional write, that of the message, too. A write of nothing keeps all.
    #[inline]
    pub(super) fn check(
        self,
        level: Consistency,
        replication: &[Replication],
    ) -> Result<Self, ExecuteError> {
        let is_conditional = self.not_applied.is_some();
        if is_conditional {
            check_commit_level(level)?;
        }
        if !self.record.is_empty() {
            replication.iter().try_for_each(|one| one.check(self.kind.level))?;
        }
        if is_conditional {
            replication.iter().try_for_each(|one| one.check(level))?;
        }
        Ok(self)
    }
}

impl Executor {
    /// Runs an INSERT, UPDATE or DELETE.
    #[inline]
    pub(super) fn write(
        self: &Rc<Self>,
        call: Call,
        run: Run<'_>,
        plan: &WritePlan,
        out: &mut Vec<u8>,
    ) -> Flow {
        self.bind_and_submit(call, run, out, |executor, work| match plan.condition {
            None => executor.bind_plain(run, plan, work),
            Some(_) => executor.bind_statement(run, work),
        })
    }

    /// Runs a batch that is one statement, `BEGIN BATCH … APPLY BATCH`.
    pub(super) fn batch_text(self: &Rc<Self>, call: Call, run: Run<'_>, out: &mut Vec<u8>) -> Flow {
        self.bind_and_submit(call, run, out, |executor, work| executor.bind_statement(run, work))
    }

    /// Binds a write on the core and submits it. One with long values, or that needs more work than a step may take, is
    /// bound beside the core, from its beginning.
    #[inline]
    fn bind_and_submit<'w>(
        self: &'w Rc<Self>,
        call: Call,
        run: Run<'_>,
        out: &mut Vec<u8>,
        bind: impl FnOnce(&'w Executor, &WorkAtOnce) -> Result<BoundWrite<'w>, ExecuteError>,
    ) -> Flow {
        if is_bound_beside(run.statement, &run.parameters.values) {
            return self.write_beside(call, run, out);
        }
        let work = WorkAtOnce::default();
        let bound = bind(self, &work);
        if work.is_too_much() {
            drop(bound);
            return self.write_beside(call, run, out);
        }
        self.submit(call, bound, out)
    }

    /// Binds an INSERT, UPDATE or DELETE without a condition.
    #[inline]
    fn bind_plain(
        &self,
        run: Run<'_>,
        plan: &WritePlan,
        work: &WorkAtOnce,
    ) -> Result<BoundWrite<'_>, ExecuteError> {
        let Run { statement, parameters, time, .. } = run;
        check_writable(&plan.table.keyspace)?;
        check_level(plan, parameters.consistency)?;
        let mut bindings = Bindings::none(time);
        self.bind_values(run, &mut bindings)?;
        WorkAtOnce::limit(&statement.compiled, &mut bindings);
        let bound = self.bind_plain_with(run, plan, &bindings);
        work.note(bindings.needs_more_work());
        self.note_binding(statement.compiled.calls_users(), bindings.work_done());
        bound
    }

    #[inline]
    fn bind_plain_with(
        &self,
        run: Run<'_>,
        plan: &WritePlan,
        bindings: &Bindings<'_>,
    ) -> Result<BoundWrite<'_>, ExecuteError> {
        let Run { statement, parameters, .. } = run;
        let counts = plan.table.is_counter();
        let (mut record, mut scratch) = self.writes.buffers();
        plan.bind_write(bindings, &mut scratch, &mut *record)?;
        let name = if counts { "COUNTER" } else { "SIMPLE" };
        let kind = WriteKind { level: parameters.consistency, name };
        let mut warnings = statement.compiled.warnings.clone();
        if let Some(guards) = self.guards() {
            guards.check_statement(plan, bindings, &mut warnings)?;
            self.guard_levels(parameters, &mut warnings)?;
            guards.check_record(&record, &mut warnings)?;
        }
        let timeout = plan.timeout(bindings)?;
        let is_named = self.name(parameters.request_id, &mut record)?;
        let (not_applied, is_divided) = (None, false);
        BoundWrite { record, kind, warnings, timeout, not_applied, is_divided, is_named }
            .check(parameters.consistency, &statement.replication)
    }

    /// Binds any write that is one statement.
    fn bind_statement(
        &self,
        run: Run<'_>,
        work: &WorkAtOnce,
    ) -> Result<BoundWrite<'_>, ExecuteError> {
        let Run { statement, parameters, time, .. } = run;
        check_statement(statement, parameters.consistency)?;
        let time = match statement.compiled.statement.is_conditional() {
            true => self.state.own_time(parameters),
            false => time,
        };
        let mut bindings = Bindings::none(time);
        self.bind_values(run, &mut bindings)?;
        WorkAtOnce::limit(&statement.compiled, &mut bindings);
        let (mut record, mut scratch) = self.writes.buffers();
        let buffers = (&mut *record, &mut *scratch);
        let bound =
            self.binder(BoundOn::Core).statement(&statement.compiled, &mut bindings, buffers);
        work.note(bindings.needs_more_work());
        self.note_binding(statement.compiled.calls_users(), bindings.work_done());
        self.bound_statement(statement, parameters, bound?, record)
    }

    /// Binds the values of a request. If they are refused, what was looked at is noted here; else the caller notes it.
    #[inline]
    pub(super) fn bind_values<'a>(
        &self,
        run: Run<'a>,
        bindings: &mut Bindings<'a>,
    ) -> Result<(), ExecuteError> {
        let bound = bindings.bind(&run.parameters.values, run.statement.markers());
        bound.map_err(|error| {
            self.note_binding(false, bindings.work_done());
            error.into()
        })
    }

    /// Notes how many units of work it took to bind a statement or a message, for what looks at the clock.
    #[inline]
    pub(super) fn note_binding(&self, calls_users: bool, work: u64) {
        self.shard.effort().expressions(work);
        // What a function of a user takes is not counted.
        if calls_users {
            self.shard.effort().long();
        }
    }

    /// What binding a statement has given, looked at.
    pub(super) fn bound_statement<'w>(
        &'w self,
        statement: &ServerStatement,
        parameters: &Parameters<'_>,
        bound: Bound,
        record: RefMut<'w, Vec<u8>>,
    ) -> Result<BoundWrite<'w>, ExecuteError> {
        let (not_applied, name) = match &statement.compiled.statement {
            Statement::Write(plan) => {
                let name = if plan.table.is_counter() { "COUNTER" } else { "SIMPLE" };
                (plan.condition.as_ref().map(|condition| condition.not_applied.clone()), name)
            }
            Statement::Batch(plan) => {
                let counts = plan.writes.first().is_some_and(|write| write.table.is_counter());
                (plan.not_applied.clone(), batch::write_type(plan.kind, counts))
            }
            _ => unreachable!("only writes are bound"),
        };
        let of = (name, not_applied, &statement.replication[..]);
        self.bound_write(of, parameters, bound, record)
    }

    /// What binding has given, looked at: levels, the disk and the name of a change of counters. What is written is of
    /// this type, and answered so if its conditions do not hold.
    pub(super) fn bound_write<'w>(
        &'w self,
        (name, not_applied, replication): (&'static str, Option<Arc<NotApplied>>, &[Replication]),
        parameters: &Parameters<'_>,
        bound: Bound,
        mut record: RefMut<'w, Vec<u8>>,
    ) -> Result<BoundWrite<'w>, ExecuteError> {
        let Bound { mut warnings, mut of_guardrails, timeout, is_divided } = bound;
        if self.watched_of_writes().is_some() {
            self.guard_levels(parameters, &mut of_guardrails)?;
        }
        warnings.append(&mut of_guardrails);
        let kind = match not_applied {
            None => WriteKind { level: parameters.consistency, name },
            Some(_) => conditional::kind(parameters),
        };
        let is_named = self.name(parameters.request_id, &mut record)?;
        BoundWrite { record, kind, warnings, timeout, not_applied, is_divided, is_named }
            .check(parameters.consistency, replication)
    }

    /// Makes what was bound durable, and answers when it is; answers a refusal at once.
    #[inline]
    pub(super) fn submit(
        &self,
        call: Call,
        bound: Result<BoundWrite<'_>, ExecuteError>,
        out: &mut Vec<u8>,
    ) -> Flow {
        let bound = match bound {
            Ok(bound) => bound,
            Err(refusal) => return self.refuse(call, refusal, out),
        };
        let BoundWrite { record, kind, warnings, timeout, not_applied, is_divided, is_named } =
            bound;
        if record.is_empty() {
            Envelope { warnings: &warnings, ..call.envelope() }.put_void(out);
            return Flow::Answered(call);
        }
        if let Some(trace) = &call.trace {
            let activity = format!("Appending {} bytes to commitlog", record.len());
            trace.event(self.state.now_us(), activity);
        }
        let mut waiting = self.writes.waiting.borrow_mut();
        let timeouts = &self.state.settings().timeouts;
        let usual = if not_applied.is_some() { timeouts.cas_contention } else { timeouts.write };
        let deadline = self.state.monotonic() + timeout.unwrap_or(usual);
        self.deadlines.add(deadline);
        let place = waiting.insert(WaitingWrite {
            call: Some(call),
            kind,
            warnings,
            deadline,
            not_applied,
            is_named,
        });
        let number = u32::try_from(place).expect("the requests of a shard are bounded");
        let submitted = match is_divided {
            true => self.write_divided(&record, number),
            false => self.shard.write(&record, Ticket::Caller(number)),
        };
        match submitted {
            Ok(()) => Flow::Later,
            Err(error) => {
                let call = waiting.remove(place).call.expect("it was put there above");
                self.refuse(call, ExecuteError::Write(error, kind), out)
            }
        }
    }

    /// Submits a logged batch that several cores own.
    fn write_divided(&self, record: &[u8], number: u32) -> engine::Result<()> {
        let new_id = || Uuid::from_bytes(self.state.ids().timeuuid());
        self.shard.write_batch(record, number, new_id, self.state.now_us())
    }

    /// Answers the writes that are done, for `length` at most. Once a pass.
    pub(super) fn answer_writes(&self, length: Duration) {
        // What the last pass has answered is delivered, or counted as unsent (`pass.rs`).
        self.writes.lease.take();
        let mut completed = self.writes.completed.take();
        // The rows that those left have found are counted nowhere yet: no more are taken while there are some.
        if completed.is_empty() {
            self.shard.take_completed(&mut completed);
        }
        if !completed.is_empty() {
            let answered = self.answer_completed(&mut completed, TimeSlice::of(length));
            completed.drain(..answered);
        }
        self.writes.completed.replace(completed);
    }

    /// Answers these completed writes in order until the slice is over. Returns the number of writes answered, whose
    /// results are `Ok(())` now: the caller takes them out. The rest are unchanged.
    fn answer_completed(
        &self,
        completed: &mut [(u32, engine::Result<()>)],
        slice: TimeSlice,
    ) -> usize {
        let mut found_bytes = 0;
        for (answered, (place, result)) in (1..).zip(completed.iter_mut()) {
            let waiter = self.writes.waiting.borrow_mut().remove(*place as usize);
            let mut result = mem::replace(result, Ok(()));
            let mut looks_at_clock = answered % ANSWERS_PER_CLOCK_READ == 0;
            if let Err(engine::Error::NotApplied { found }) = &result
                && waiter.call.is_some()
            {
                // The row that it found may be long.
                looks_at_clock = true;
                let bytes = found_bytes + found.len();
                let mut lease = self.writes.lease.borrow_mut();
                if lease.get_or_insert_with(|| self.answers.lease()).hold(bytes) {
                    found_bytes = bytes;
                } else {
                    let what = "memory of answers: nothing was written";
                    result = Err(engine::Error::Overloaded(what));
                }
            }
            self.answer_write(waiter, result);
            if looks_at_clock && slice.is_over() {
                return answered;
            }
        }
        completed.len()
    }

    /// Whether there are writes that are done, and that the last pass had no time to answer.
    pub(super) fn has_unanswered_writes(&self) -> bool {
        !self.writes.completed.borrow().is_empty()
    }

    /// Answers the writes from a slot on that are not done at `now` and should be, while the slice lasts. Their entries
    /// stay until they are done. Where to go on; `None`: that were all.
    pub(super) fn answer_late_writes(
        &self,
        from: usize,
        now: Instant,
        slice: TimeSlice,
    ) -> Option<usize> {
        look_from(from, &mut self.writes.waiting.borrow_mut(), slice, |place, write| {
            if write.deadline > now {
                self.deadlines.add(write.deadline);
                return false;
            }
            let Some(call) = write.call.take() else { return false };
            let number = u32::try_from(place).expect("the requests of a shard are bounded");
            let kind = match self.shard.is_noted(number) {
                true => write.kind,
                false => WriteKind { name: "BATCH_LOG", ..write.kind },
            };
            self.refuse_later(call, &ExecuteError::WriteTimedOut(kind));
            true
        })
    }

    #[inline]
    fn answer_write(&self, waiter: WaitingWrite, result: engine::Result<()>) {
        let WaitingWrite { call, kind, warnings, not_applied, is_named, .. } = waiter;
        let Some(mut call) = call else { return };
        if let Some(trace) = &call.trace {
            trace.event(self.state.now_us(), what_became(&result));
        }
        let payload = if is_named { request_id::KEPT } else { &[] };
        let envelope = Envelope { warnings: &warnings, payload, ..call.envelope() };
        let mut answered = Answered { bytes: 0, is_error: false, rows: 0 };
        self.replies.put(call.session.id, |out| {
            let start = out.len();
            let put = match (result, not_applied) {
                (Ok(()), None) => {
                    envelope.put_void(out);
                    Ok(0)
                }
                // It is there: the change was made when it was sent before, and its name with it.
                (Err(engine::Error::NotApplied { .. }), None) if is_named => {
                    envelope.put_void(out);
                    Ok(0)
                }
                (Ok(()), Some(not_applied)) => {
                    not_applied.put_applied(&envelope, out);
                    Ok(1)
                }
                (Err(engine::Error::NotApplied { found }), Some(not_applied)) => {
                    self.put_not_applied(&not_applied, &found, &envelope, out)
                }
                (Err(error), _) => Err(ExecuteError::Write(error, kind)),
            };
            match put {
                Ok(rows) => call.rows = rows,
                Err(refusal) => {
                    answered.is_error = true;
                    refusal.put(&envelope, self.state.node(), out);
                }
            }
            answered.bytes = out.len() - start;
        });
        self.finish(call, answered, When::Later);
    }
}

/// What a trace says of a write that is done.
#[cold]
fn what_became(result: &engine::Result<()>) -> String {
    match result {
        Ok(()) => "Written to commitlog and memtable".to_owned(),
        Err(engine::Error::NotApplied { .. }) => "Not applied, and nothing was written".to_owned(),
        Err(error) => format!("Write failed: {error}"),
    }
}

/// Refuses a write of a table that clients do not write to, and a level that no such write has.
pub(super) fn check_statement(
    statement: &ServerStatement,
    level: Consistency,
) -> Result<(), ExecuteError> {
    match &statement.compiled.statement {
        Statement::Write(plan) => {
            check_writable(&plan.table.keyspace)?;
            if plan.condition.is_none() { check_level(plan, level) } else { Ok(()) }
        }
        Statement::Batch(plan) => {
            plan.writes.iter().try_for_each(|write| check_writable(&write.table.keyspace))
        }
        _ => unreachable!("only writes are bound"),
    }
}

#[inline]
fn check_level(plan: &WritePlan, level: Consistency) -> Result<(), ExecuteError> {
    match plan.table.is_counter() {
        true => check_counter_write(level, &plan.table.name),
        false => check_write(level),
    }
}

/// Computed tables and the server's own are read-only.
pub(super) fn check_writable(keyspace: &str) -> Result<(), ExecuteError> {
    if system::is_guarded(keyspace) {
        let text = format!("{keyspace} keyspace is not user-modifiable.");
        return Err(ExecuteError::Language(cql::Error::Unauthorized(text)));
    }
    Ok(())
}
