//! Requests to answers: the one place that knows both CQL and shards.
//!
//! ```text
//! request ─► session ─► statement (prepared.rs) ─► plan ─► bind ─┬─► shard.write ─► ticket ─┐
//!                                                              ├─► shard.read_cached ─► rows │ late:
//!                                                              └─► a task, if it must wait ──┴─► Replies
//! ```
//!
//! 1. What memory can answer is answered inside the pass, straight into the connection's buffer.
//! 2. A write waits as a ticket in a slab; its answer is made when the log has it.
//! 3. Everything else (disk, other cores, schema) becomes a task that ends in `Replies`.
//!
//! Invariants: exactly one answer for every request; an error leaves no bytes of a half-made
//! answer; no borrow is kept across an await.

mod answer;
mod batch;
mod computed;
mod consistency;
mod describe;
mod handshake;
mod peers;
mod read;
mod schema;
mod statement;
mod trace;
mod write;

pub(crate) use peers::{Core, Settings};

use crate::service::{Outcome, Replies, Service};
use crate::session::{Session, Stage};
use answer::Refusal;
use cql::frame::header::{Flags, Header};
use cql::frame::request::{Execute, Prepare, Query, Request};
use cql::frame::response::{Envelope, Failure};
use cql::frame::{ErrorCode, Version};
use handshake::Offer;
use peers::Ask;
use shard::idle::InFlight;
use shard::{Group, Shard};
use slab::Slab;
use statement::Target;
use std::cell::RefCell;
use std::rc::Rc;
use trace::Trace;
use write::WaitingWrite;

/// Executes the requests of one core.
pub(crate) struct Executor {
    shard: Rc<Shard<Core>>,
    core: Rc<Core>,
    offer: Offer,
    waiting: RefCell<Slab<WaitingWrite>>,
    completed: RefCell<Vec<(u64, engine::Result<()>)>>,
    record: RefCell<Vec<u8>>,
    scratch: RefCell<cql::plan::Scratch>,
}

/// A request on its way to its answer.
pub(crate) struct Call {
    session: Rc<Session>,
    version: Version,
    stream: i16,
    trace: Option<Box<Trace>>,
}

impl Call {
    fn envelope(&self) -> Envelope<'static> {
        let mut envelope = Envelope::new(self.version, self.stream);
        envelope.trace_id = self.trace.as_ref().map(|trace| trace.id);
        envelope
    }
}

/// How a step of execution ends: answered now, later, or refused.
type Progress = Result<Outcome, Refusal>;

impl Executor {
    /// The executor of a core whose shard is open.
    pub(crate) fn new(shard: Rc<Shard<Core>>, core: Rc<Core>) -> Rc<Executor> {
        core.attach(&shard);
        let settings = core.settings();
        let offer = Offer::new(
            shard.me().index(),
            shard.sharder().shards(),
            settings.shard_aware_port,
            core.node().host_id,
        );
        Rc::new(Executor {
            shard,
            core,
            offer,
            waiting: RefCell::default(),
            completed: RefCell::default(),
            record: RefCell::default(),
            scratch: RefCell::default(),
        })
    }

    fn begin(
        self: &Rc<Self>,
        session: &Rc<Session>,
        header: &Header,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Outcome {
        session.requests.set(session.requests.get() + 1);
        let plain = Envelope::new(header.version, header.stream);
        match request {
            Request::Options => self.offer.put(header, out),
            Request::Startup(startup) => match handshake::startup(session, header, startup) {
                Ok(()) => plain.put_ready(out),
                Err(error) => put_protocol_error(&plain, &error.0, out),
            },
            _ if session.stage.get() != Stage::Ready => {
                let opcode = request.opcode();
                let text = format!("Unexpected message {opcode:?}, expecting STARTUP or OPTIONS");
                put_protocol_error(&plain, &text, out);
            }
            Request::AuthResponse(_) => {
                put_protocol_error(
                    &plain,
                    "Unexpected message AUTH_RESPONSE: no authentication",
                    out,
                );
            }
            Request::Register(register) => {
                session.events.set(register.kinds);
                plain.put_ready(out);
            }
            Request::Query(query) => {
                return self
                    .execute(session, header, out, |call, out| self.query(call, query, out));
            }
            Request::Prepare(prepare) => {
                return self
                    .execute(session, header, out, |call, out| self.prepare(call, prepare, out));
            }
            Request::Execute(execute) => {
                return self.execute(session, header, out, |call, out| {
                    self.execute_prepared(call, execute, out)
                });
            }
            Request::Batch(batch) => {
                return self
                    .execute(session, header, out, |call, out| self.batch(call, batch, out));
            }
        }
        Outcome::Answered
    }

    /// Runs one step and turns a refusal into an ERROR frame.
    #[inline]
    fn execute(
        &self,
        session: &Rc<Session>,
        header: &Header,
        out: &mut Vec<u8>,
        step: impl FnOnce(&mut Option<Call>, &mut Vec<u8>) -> Progress,
    ) -> Outcome {
        let trace = header.flags.has(Flags::TRACING).then(|| {
            let (node, me) = (self.core.node(), self.shard.me().index());
            Box::new(Trace::begin(self.core.ids(), session.peer.ip(), node.address, me))
        });
        let (version, stream) = (header.version, header.stream);
        let start = out.len();
        let mut call = Some(Call { session: session.clone(), version, stream, trace });
        match step(&mut call, out) {
            Ok(Outcome::Later) => return Outcome::Later,
            Ok(_) => {}
            Err(refusal) => {
                out.truncate(start);
                refusal.put(&Envelope::new(version, stream), self.core.node(), out);
            }
        }
        if let Some(Call { trace: Some(trace), .. }) = call {
            self.write_trace(*trace);
        }
        Outcome::Answered
    }

    fn query(
        self: &Rc<Self>,
        call: &mut Option<Call>,
        query: &Query<'_>,
        out: &mut Vec<u8>,
    ) -> Progress {
        let keyspace = self.keyspace_of(call, query.parameters.keyspace);
        let statement = self.core.compile(query.text, keyspace.as_deref())?;
        if let Some(trace) = call.as_mut().and_then(|call| call.trace.as_mut()) {
            trace.of("Execute CQL3 query", Some(query.text), Some(&query.parameters));
            trace.event(self.core.now_us(), format!("Parsed and prepared {}", query.text));
        }
        self.run(call, &Rc::new(statement), &query.parameters, Target::Query, out)
    }

    fn execute_prepared(
        self: &Rc<Self>,
        call: &mut Option<Call>,
        execute: &Execute<'_>,
        out: &mut Vec<u8>,
    ) -> Progress {
        let found = self.core.prepared().borrow_mut().get(execute.id);
        let Some(statement) = found else {
            return Err(Refusal::Unprepared(execute.id.to_vec()));
        };
        if let Some(trace) = call.as_mut().and_then(|call| call.trace.as_mut()) {
            trace.of(
                "Execute CQL3 prepared query",
                Some(&statement.text),
                Some(&execute.parameters),
            );
            trace.bound(&execute.parameters.values, statement.markers());
        }
        let target = Target::Execute {
            knows: execute.parameters.skip_metadata
                && execute.result_metadata_id.is_none_or(|id| id == statement.result_id),
            stale: execute.result_metadata_id.is_some_and(|id| id != statement.result_id),
        };
        self.run(call, &statement, &execute.parameters, target, out)
    }

    fn prepare(
        self: &Rc<Self>,
        call: &mut Option<Call>,
        prepare: &Prepare<'_>,
        out: &mut Vec<u8>,
    ) -> Progress {
        let keyspace = self.keyspace_of(call, prepare.keyspace);
        if let Some(trace) = call.as_mut().and_then(|call| call.trace.as_mut()) {
            trace.of("Preparing CQL3 query", Some(prepare.text), None);
        }
        let statement = self.core.compile_and_keep(prepare.text, keyspace.as_deref())?;
        let call = call.take().expect("a call is taken once");
        if self.shard.sharder().shards() == 1 {
            statement.put_prepared(&call.envelope(), out);
            return Ok(Outcome::Answered);
        }
        // EXECUTE may come to any core: all know the statement before the client does.
        let (executor, text) = (self.clone(), prepare.text.to_owned());
        self.spawn(Group::Requests, call, async move |call, out| {
            let ask = || Ask::Prepare { keyspace: keyspace.clone(), text: text.clone() };
            executor.shard.ask_all(ask).await;
            statement.put_prepared(&call.envelope(), out);
            Ok(())
        });
        Ok(Outcome::Later)
    }

    /// The keyspace of unqualified names: the request's own, else what USE chose.
    fn keyspace_of(&self, call: &Option<Call>, of_request: Option<&str>) -> Option<String> {
        let session = &call.as_ref().expect("a call is taken once").session;
        of_request
            .map(str::to_owned)
            .or_else(|| session.keyspace.borrow().as_deref().map(str::to_owned))
    }

    /// Runs a task that ends in an answer, whatever happens to its connection meanwhile.
    fn spawn(
        self: &Rc<Self>,
        group: Group,
        call: Call,
        work: impl AsyncFnOnce(&Call, &mut Vec<u8>) -> Result<(), Refusal> + 'static,
    ) {
        let executor = self.clone();
        self.shard.runtime().spawn(group, async move {
            let mut out = Vec::new();
            if let Err(refusal) = work(&call, &mut out).await {
                out.clear();
                refusal.put(&call.envelope(), executor.core.node(), &mut out);
            }
            let Call { session, trace, .. } = call;
            executor.core.replies().push(session.id, &out);
            if let Some(trace) = trace {
                executor.write_trace(*trace);
            }
        });
    }

    /// Writes what a trace collected; nobody waits for it.
    fn write_trace(&self, trace: Trace) {
        let now_us = self.core.now_us();
        let record = trace.record(&self.shard.schema(), self.core.ids(), now_us);
        if let Err(error) = self.shard.write(&record, NOBODY) {
            tracing::warn!("a trace was not written: {error}");
        }
    }
}

/// The ticket of writes that nobody waits for.
const NOBODY: u64 = u64::MAX >> 1;

impl Service for Rc<Executor> {
    fn opened(&self, session: &Rc<Session>) {
        self.core.sessions().borrow_mut().insert(session.id, session.clone());
    }

    fn closed(&self, session: &Rc<Session>) {
        self.core.sessions().borrow_mut().remove(&session.id);
    }

    #[inline]
    fn request(
        &self,
        session: &Rc<Session>,
        header: &Header,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Outcome {
        self.begin(session, header, request, out)
    }

    fn turn(&self) -> bool {
        let mail = self.shard.drain_mail();
        self.answer_writes();
        self.shard.publish();
        mail
    }

    fn has_work(&self) -> bool {
        self.shard.has_mail() || self.shard.has_completed() || !self.core.replies().is_empty()
    }

    fn in_flight(&self) -> InFlight {
        self.shard.in_flight()
    }

    fn replies(&self) -> &Replies {
        self.core.replies()
    }
}

fn put_protocol_error(envelope: &Envelope<'_>, text: &str, out: &mut Vec<u8>) {
    envelope.put_error(Failure::Plain(ErrorCode::Protocol), text, out);
}
