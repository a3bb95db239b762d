//! Requests to answers: one match over all statements.
//!
//! ```text
//! request ─► session ─► statement (prepared.rs) ─► run: one match ─┬─► bind, submit ─► ticket ──────┐
//!                                                                ├─► select: rows from memory     │ late:
//!                                                                └─► suspended, forwarded, a task ┴─► Replies
//! ```
//!
//! 1. What memory can answer is answered inside the pass, straight into the connection's buffer.
//! 2. A write waits as a ticket in a slab; its answer is made when the log has it.
//! 3. A read of another core's partition is that core's to answer; its frame is passed on.
//! 4. A read that waits for the disk is an entry in a slab and goes on where it stopped.
//! 5. Long work (ranges, changes of the schema) is a task of its group. Each core makes its part of an aggregate.
//!
//! Invariants: exactly one answer for every request; an error leaves no bytes of a half-made
//! answer; no borrow is kept across an await.

mod answer;
mod batch;
mod beside_core;
mod binder;
mod call;
mod computed;
mod conditional;
mod consistency;
mod deadlines;
mod delivery;
mod describe;
mod explain;
mod forward;
mod frame_pool;
mod guarded;
mod handshake;
mod held_bytes;
mod long_text;
mod metered;
mod node_state;
mod owned_parameters;
mod parts;
mod peers;
mod prepare;
mod read;
mod request_id;
mod schema;
pub(crate) mod snapshots;
mod statement;
mod statement_clock;
mod task;
mod terms;
#[cfg(test)]
mod tests;
mod trace;
mod work_at_once;
mod write;

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use answer::ExecuteError;
use call::{Call, Flow};
use consistency::check_serial;
use cql::bind::StatementTime;
/// What conditional writes add to values, which shards are given: they do not know CQL.
pub(crate) use cql::expr::function::sum;
use cql::frame::ErrorCode;
use cql::frame::header::{Flags, Header};
use cql::frame::request::{Execute, Parameters, Query, Request};
use cql::frame::response::{Envelope, Failure};
use cql::prepare::Statement;
use deadlines::{Deadlines, WaitingKind};
use delivery::Finished;
use engine::semaphore::Semaphore;
use forward::Forwarded;
use frame_pool::FramePool;
use handshake::SupportedOptions;
use held_bytes::HeldBytes;
use long_text::is_long;
pub(crate) use node_state::{NodeState, Settings};
pub(crate) use peers::Peering;
use shard::idle::InFlight;
use shard::suspended::Suspended;
use shard::{Incoming, Shard, Ticket};
use slab::Slab;
use statement::{ServerStatement, Target};
use terms::{PeerTerms, end_of_session};
use trace::Trace;
use write::Writes;

use crate::answers::Answers;
use crate::limits::{
    MAIL_SLICE, NAMED_KEYS_MEMORY_DIVISOR, SHORT_PREPARES_MAX, VIRTUAL_READS_MAX,
    WAITING_STATEMENTS_MEMORY_DIVISOR, WRITES_SLICE,
};
use crate::replies::Replies;
use crate::service::{Outcome, Service};
use crate::session::{Session, Stage};
use crate::statements::{Answered, StatementName, StatementPlace, Statements};
use crate::time_slice::TimeSlice;

/// Executes the requests of one core.
pub(crate) struct Executor {
    shard: Rc<Shard<Peering>>,
    state: NodeState,
    supported: SupportedOptions,
    replies: Replies,
    writes: Writes,
    /// Requests that other cores answer.
    forwarded: RefCell<Slab<Forwarded>>,
    /// Reads that wait for the disk or for several cores.
    suspended: Suspended<Finished>,
    /// When the first of what waits has to end.
    deadlines: Rc<Deadlines>,
    /// The terms of reads for other cores.
    peer_terms: Rc<PeerTerms>,
    /// The memory of the answers of this core.
    answers: Arc<Answers>,
    /// The same of each core, whose clients' answers this one may make.
    answers_of: Arc<[Arc<Answers>]>,
    /// What the keys and bounds of reads that wait take.
    named_keys: Rc<HeldBytes>,
    /// What long texts take until they are compiled, long values and BATCH messages until they are bound, schema
    /// changes until they are made, texts that are prepared until every core has them, and what was compiled for reads
    /// that wait.
    waiting_statements: Rc<HeldBytes>,
    /// What statements have cost on this core.
    statements: Statements,
    /// For frames between cores and the answers of reads that wait.
    frames: FramePool,
    /// For the key of one partition.
    key: RefCell<Vec<u8>>,
    /// How many parts of aggregates other cores were asked for.
    parts_asked: Cell<u32>,
    /// The number of the next SELECT that is forwarded.
    selects_forwarded: Cell<u32>,
    /// Of the changes of the schema that clients of this core ask for: one at a time, in order.
    schema_turn: Semaphore,
    /// The same of TRUNCATEs: each may wait for a snapshot, for which other changes do not.
    truncate_turn: Semaphore,
    /// Of DESCRIBEs that take long: each has a list of all that the schema has.
    describe_turn: Semaphore,
    /// Held by each change of the schema and each TRUNCATE from its request on, to count them.
    schema_changes_waiting: Rc<()>,
    /// Of reads of virtual tables that collect facts of other cores, which no budget counts.
    virtual_reads: Semaphore,
    /// Of PREPAREs of long texts, which every core compiles: what one takes, in the queues between cores as well, is
    /// bounded.
    long_prepares: Semaphore,
    /// Of PREPAREs of short texts, which every core is asked for, too.
    short_prepares: Semaphore,
    /// Of long texts that are compiled, and of long values and BATCH messages that are bound: what one becomes may take
    /// all the memory that a core has for that.
    long_statements: Semaphore,
    /// How many writes were bound beside the core.
    #[cfg(test)]
    bound_beside: Cell<u64>,
    /// What writes the names of counter changes; made when the first has one.
    names: OnceCell<ServerStatement>,
    /// How many aggregates wait for their parts.
    in_parts: Rc<Cell<usize>>,
}

/// When a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// In the pass that took it.
    InPass,
    /// In a later pass.
    Later,
    /// By a task. It may be woken after a sleep of its core, and end before the next pass tells the time.
    InTask,
}

/// A statement to run, how the client asked for it, and when.
#[derive(Clone, Copy)]
struct Run<'r> {
    statement: &'r Rc<ServerStatement>,
    parameters: &'r Parameters<'r>,
    target: Target,
    time: StatementTime<'r>,
}

impl Run<'_> {
    /// Whether it is a QUERY of a long text: it runs in a task, and another core would have to compile its text.
    fn is_query_of_long_text(&self) -> bool {
        matches!(self.target, Target::Query) && is_long(&self.statement.text)
    }
}

impl Executor {
    /// The executor of a core whose shard is open.
    pub(crate) fn new(
        shard: Rc<Shard<Peering>>,
        state: NodeState,
        answers_of: Arc<[Arc<Answers>]>,
    ) -> Rc<Executor> {
        let supported = SupportedOptions::new(
            shard.me().index(),
            shard.sharder().shards(),
            state.settings().shard_aware_port,
            state.node().host_id,
        );
        let replies = Replies::new(shard.wake());
        let suspended = Suspended::new(shard.wake());
        let (writes, forwarded, frames, key, peer_terms) = Default::default();
        let (parts_asked, selects_forwarded, in_parts, deadlines, statements) = Default::default();
        let memory_bytes = shard.engine().memory_bytes();
        let named_keys = HeldBytes::new(
            "the keys and bounds that its IN lists make",
            memory_bytes / NAMED_KEYS_MEMORY_DIVISOR,
        );
        let waiting_statements = HeldBytes::new(
            "long texts, long values, long BATCH messages, changes of the schema and what waits compiled",
            memory_bytes / WAITING_STATEMENTS_MEMORY_DIVISOR,
        );
        let answers = answers_of[shard.me().index()].clone();
        Rc::new(Executor {
            shard,
            state,
            supported,
            replies,
            writes,
            forwarded,
            suspended,
            deadlines,
            peer_terms,
            answers,
            answers_of,
            named_keys,
            waiting_statements,
            statements,
            frames,
            key,
            parts_asked,
            selects_forwarded,
            schema_turn: Semaphore::new(1),
            truncate_turn: Semaphore::new(1),
            describe_turn: Semaphore::new(1),
            schema_changes_waiting: Rc::default(),
            virtual_reads: Semaphore::new(VIRTUAL_READS_MAX),
            long_prepares: Semaphore::new(1),
            short_prepares: Semaphore::new(SHORT_PREPARES_MAX),
            long_statements: Semaphore::new(1),
            #[cfg(test)]
            bound_beside: Cell::new(0),
            names: OnceCell::new(),
            in_parts,
        })
    }

    /// The long steps of this core.
    #[cfg(test)]
    pub(crate) fn stalls(&self) -> &shard::stalls::Stalls {
        self.shard.runtime().stalls()
    }

    /// The reads that wait, for clients and for other cores, and the bytes of answers that are being made.
    #[cfg(test)]
    pub(crate) fn held(&self) -> (usize, usize, u64) {
        let sessions = self.state.sessions().borrow();
        let reads = sessions.values().map(|session| session.reads.borrow().len()).sum();
        let for_peers = self.peer_terms.len() + self.shard.reads_for_peers();
        (reads, for_peers, self.answers.leased_bytes())
    }

    /// The requests that other cores are to answer.
    #[cfg(test)]
    pub(crate) fn forwarded(&self) -> usize {
        self.forwarded.borrow().len()
    }

    /// The number of buffers for frames that this core has made.
    #[cfg(test)]
    pub(crate) fn frames_made(&self) -> usize {
        self.frames.made()
    }

    /// How many parts of aggregates this core has asked others for.
    #[cfg(test)]
    pub(crate) fn parts_asked(&self) -> u32 {
        self.parts_asked.get()
    }

    /// Answers what is no statement: the handshake, and messages out of order.
    #[cold]
    fn converse(
        &self,
        session: &Rc<Session>,
        header: &Header,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) {
        let plain = Envelope::new(header.version, header.stream);
        let refused = |text: &str, out: &mut Vec<u8>| {
            plain.put_error(Failure::Plain(ErrorCode::Protocol), text, out);
        };
        match request {
            Request::Options => self.supported.put(header, out),
            Request::Startup(startup) => match handshake::startup(session, header, startup) {
                Ok(()) => plain.put_ready(out),
                Err(error) => refused(&error.0, out),
            },
            Request::Register(register) if session.stage.get() == Stage::Ready => {
                // What it has registered for before goes on.
                session.events.set(session.events.get().and(register.kinds));
                plain.put_ready(out);
            }
            other => {
                let opcode = other.opcode();
                let text = format!("Unexpected message {opcode:?}, expecting STARTUP or OPTIONS");
                refused(&text, out);
            }
        }
    }

    #[inline]
    fn call(&self, session: &Rc<Session>, header: &Header) -> Call {
        let trace = header.flags.has(Flags::TRACING).then(|| {
            let (node, me) = (self.state.node(), self.shard.me().index());
            Box::new(Trace::begin(self.state.ids(), session.peer.ip(), node.address, me))
        });
        let (version, stream) = (header.version, header.stream);
        let (statement, begun_ns) = (StatementPlace::NONE, self.state.ns());
        Call {
            session: session.clone(),
            version,
            stream,
            trace,
            statement,
            begun_ns,
            weight: 0,
            rows: 0,
        }
    }

    fn query(self: &Rc<Self>, mut call: Call, query: &Query<'_>, out: &mut Vec<u8>) -> Flow {
        // What it takes to compile counts.
        (call.begun_ns, call.weight) = (self.state.exact_ns(), 1);
        let keyspace = call.keyspace(query.parameters.keyspace);
        if is_long(query.text) {
            return self.query_long(call, query, keyspace, out);
        }
        let compiled = self.state.compile(&self.shard, query.text, keyspace.as_deref());
        let time = self.state.time(&query.parameters);
        let compiled = compiled.map_err(ExecuteError::from);
        self.run_text(call, &query.parameters, (compiled, time), out)
    }

    /// Runs the statement of a QUERY, if it could be compiled.
    fn run_text(
        self: &Rc<Self>,
        mut call: Call,
        parameters: &Parameters<'_>,
        (compiled, time): (Result<ServerStatement, ExecuteError>, StatementTime<'_>),
        out: &mut Vec<u8>,
    ) -> Flow {
        let statement = match compiled {
            Ok(statement) => Rc::new(statement),
            Err(refusal) => return self.refuse(call, refusal, out),
        };
        if let Some(trace) = &mut call.trace {
            trace.of("Execute CQL3 query", Some(&statement.text), Some(parameters));
            trace.parsed(self.state.now_us(), &statement.text);
        }
        let target = Target::Query;
        self.run(call, Run { statement: &statement, parameters, target, time }, out)
    }

    #[inline]
    fn execute(self: &Rc<Self>, mut call: Call, execute: &Execute<'_>, out: &mut Vec<u8>) -> Flow {
        let found = self.state.prepared(&self.shard, execute.id);
        let Some(statement) = found else {
            return self.refuse(call, ExecuteError::Unprepared(execute.id.to_vec()), out);
        };
        let parameters = &execute.parameters;
        if let Some(trace) = &mut call.trace {
            let text = Some(statement.text.as_str());
            trace.of("Execute CQL3 prepared query", text, Some(parameters));
            trace.bound(&parameters.values, statement.markers());
        }
        let target = Target::of(execute, &statement);
        let time = match statement.select() {
            Some(_) => self.state.time_of_read(parameters),
            None => self.state.time(parameters),
        };
        self.run(call, Run { statement: &statement, parameters, target, time }, out)
    }

    /// Runs a compiled statement: the only match over all kinds.
    #[inline]
    fn run(self: &Rc<Self>, mut call: Call, run: Run<'_>, out: &mut Vec<u8>) -> Flow {
        self.count(&mut call, &run.statement.place, || run.statement.name());
        if let Err(refusal) = check_serial(run.parameters).and_then(|()| request_id::check(run)) {
            return self.refuse(call, refusal, out);
        }
        match &run.statement.compiled.statement {
            Statement::Select(plan) => self.select(call, run, plan, out),
            Statement::Explain(plan) => self.explain(call, run, plan, out),
            Statement::Write(plan) => self.write(call, run, plan, out),
            Statement::Batch(_) => self.batch_text(call, run, out),
            Statement::Use(keyspace) => self.use_keyspace(call, keyspace, out),
            Statement::Schema(_) => self.change_schema(call, run.statement, out),
            Statement::Truncate(table) => self.truncate(call, table, out),
            Statement::Describe(asked) => {
                self.describe(call, (run.statement, asked), run.parameters, out)
            }
        }
    }

    fn use_keyspace(&self, call: Call, keyspace: &str, out: &mut Vec<u8>) -> Flow {
        if self.shard.schema().keyspace(keyspace).is_none() {
            let refusal = ExecuteError::invalid(format!("Keyspace '{keyspace}' does not exist"));
            return self.refuse(call, refusal, out);
        }
        call.session.keyspace.replace(Some(keyspace.into()));
        call.envelope().put_set_keyspace(keyspace, out);
        Flow::Answered(call)
    }

    /// Answers with an ERROR frame.
    #[cold]
    fn refuse(&self, call: Call, refusal: ExecuteError, out: &mut Vec<u8>) -> Flow {
        refusal.put(&call.envelope(), self.state.node(), out);
        Flow::Answered(call)
    }

    /// Answers a call of an earlier pass with an ERROR frame.
    #[cold]
    fn refuse_later(&self, call: Call, refusal: &ExecuteError) {
        let mut answered = Answered { bytes: 0, is_error: true, rows: 0 };
        self.replies.put(call.session.id, |out| {
            let start = out.len();
            refusal.put(&call.envelope(), self.state.node(), out);
            answered.bytes = out.len() - start;
        });
        self.finish(call, answered, When::Later);
    }

    /// From now on the call is counted as an execution of this statement.
    #[inline]
    fn count(
        &self,
        call: &mut Call,
        place: &Cell<StatementPlace>,
        name: impl FnOnce() -> StatementName,
    ) {
        let weight = self.statements.begin(place, name);
        call.statement = place.get();
        if call.weight == 0 && weight > 0 {
            (call.begun_ns, call.weight) = (self.state.exact_ns(), weight);
        }
    }

    /// After the answer: counts it, and writes what the request's trace has collected.
    #[inline]
    fn finish(&self, call: Call, answered: Answered, when: When) {
        let took = |now_ns: u64, weight| Some((now_ns.saturating_sub(call.begun_ns), weight));
        let timed = match (call.weight, when) {
            (0, When::InPass) => None,
            (0, When::Later) => took(self.state.ns(), 1),
            (_, When::Later | When::InTask) => took(self.state.exact_ns(), 1),
            (weight, When::InPass) => took(self.state.exact_ns(), weight),
        };
        let answered = Answered { rows: call.rows, ..answered };
        self.statements.finish(call.statement, answered, timed);
        if let Some(trace) = call.trace {
            self.write_trace(&trace);
        }
    }

    #[cold]
    fn write_trace(&self, trace: &Trace) {
        let now_us = self.state.now_us();
        let record = trace.record(&self.shard.schema(), self.state.ids(), now_us);
        if let Err(error) = self.shard.write(&record, Ticket::Unattended) {
            tracing::warn!("a trace was not written: {error}");
        }
    }

    /// Takes mail for `mail_max` at most, goes on with reads that were woken, and answers the writes that are done for
    /// `writes_max`. Whether there was mail or such a read.
    pub(crate) fn poll_within(self: &Rc<Self>, mail_max: Duration, writes_max: Duration) -> bool {
        let take = |incoming| match incoming {
            Incoming::Question(asker, ask) => self.answer(asker, ask),
            Incoming::Answer(number, answer) => self.take_answer(number, answer),
        };
        // A slice begins with a clock read: only where there is something to do.
        let had_mail = self.shard.has_mail() && {
            let slice = TimeSlice::of(mail_max);
            self.shard.drain_mail(take, || slice.is_over())
        };
        let resumed = self.resume();
        self.answer_writes(writes_max);
        self.shard.publish();
        had_mail || resumed
    }

    /// Ends what is late while the slice lasts; whether there is more to look at.
    pub(crate) fn end_late_within(&self, now: Instant, slice: TimeSlice) -> bool {
        let (first, mut from) = self.deadlines.walk();
        for waiting in WaitingKind::ALL.into_iter().skip_while(|waiting| *waiting != first) {
            let next = match waiting {
                WaitingKind::Reads => self.deadlines.wake_late_reads(from, now, slice),
                WaitingKind::Forwarded => self.answer_late_forwarded(from, now, slice),
                WaitingKind::Writes => self.answer_late_writes(from, now, slice),
            };
            if let Some(next) = next {
                self.deadlines.pause((waiting, next), now);
                return true;
            }
            from = 0;
        }
        false
    }
}

impl Service for Rc<Executor> {
    fn opened(&self, session: &Rc<Session>) {
        self.state.sessions().borrow_mut().insert(session.id, session.clone());
    }

    fn closed(&self, session: &Rc<Session>) {
        self.state.sessions().borrow_mut().remove(&session.id);
        session.is_closed.set(true);
        self.fell_silent(session);
    }

    fn fell_silent(&self, session: &Rc<Session>) {
        end_of_session(session);
        self.end_forwarded(session);
    }

    #[inline]
    fn request(
        &self,
        session: &Rc<Session>,
        header: &Header,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Outcome {
        session.requests.set(session.requests.get() + 1);
        let (ready, start) = (session.stage.get() == Stage::Ready, out.len());
        let flow = match request {
            Request::Query(query) if ready => self.query(self.call(session, header), query, out),
            Request::Prepare(prepare) if ready => {
                self.prepare(self.call(session, header), prepare, out)
            }
            Request::Execute(execute) if ready => {
                self.execute(self.call(session, header), execute, out)
            }
            Request::Batch(batch) if ready => self.batch(self.call(session, header), batch, out),
            _ => {
                self.converse(session, header, request, out);
                return Outcome::Answered;
            }
        };
        match flow {
            Flow::Later => Outcome::Later,
            Flow::Answered(call) => {
                self.finish(call, Answered::of(&out[start..]), When::InPass);
                Outcome::Answered
            }
        }
    }

    #[inline]
    fn did_much(&self) -> bool {
        self.shard.effort().is_due()
    }

    fn poll(&self) -> bool {
        self.poll_within(MAIL_SLICE, WRITES_SLICE)
    }

    fn end_late(&self, now: Instant) -> bool {
        self.end_late_within(now, TimeSlice::of(WRITES_SLICE))
    }

    #[inline]
    fn first_deadline(&self) -> Option<Instant> {
        self.deadlines.first()
    }

    fn has_work(&self) -> bool {
        self.shard.has_mail()
            || self.shard.has_completed()
            || self.suspended.has_woken()
            || !self.replies.is_empty()
            || self.has_unanswered_writes()
    }

    fn in_flight(&self) -> InFlight {
        self.shard.in_flight()
    }

    fn replies(&self) -> &Replies {
        &self.replies
    }
}
