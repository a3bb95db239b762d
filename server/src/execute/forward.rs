//! SELECT of a partition that another core owns: the owner runs it and makes the client's answer.
//!
//! ```text
//! asker   select ─► forward: the request as a frame ────► mailbox ─► select_for_peer   owner
//!         take_answer: the frame goes to the client ◄──── mailbox ◄─ in memory if it is short, or when read
//! ```
//!
//! What is forwarded is the client's request itself, and what comes back is the answer's frame. A frame that is
//! longer than [`PEER_ANSWER_BYTES_MAX`] has a lease in the memory of the asker's answers, which the owner takes
//! while it makes it. Of short ones the asker has only so many under way as there is space for; other requests it
//! serves itself, by pieces of rows (`shard/src/scatter.rs`).
//!
//! The deadline begins when the request is forwarded, and goes along: a request that comes to its owner too late is not
//! run there. The asker looks at it, too, since its request may wait for long before the owner takes it.
//!
//! Invariants: a call in the slab `forwarded` is answered exactly once, by `take_answer` or, if its deadline passes
//! first, by `answer_late_forwarded`. Its entry stays until the owner answers, so that its place is not given twice. The
//! owner binds the values again, by the statement as it has it. Not here: how rows are read (`read.rs`), and reads of
//! several partitions, which are not forwarded.

use std::rc::Rc;
use std::time::Instant;

use cql::bind::Bindings;
use cql::frame::consistency::Consistency;
use cql::frame::header::{Direction, Flags, HEADER_BYTES, Header};
use cql::frame::request::{Execute, Parameters, Query, Request};
use cql::frame::response::Envelope;
use cql::plan::SelectPlan;
use cql::prepare::Statement;
use shard::{Asker, ShardId};

use super::call::Call;
use super::deadlines::look_from;
use super::delivery::Destination;
use super::peers::{Answer, Ask};
use super::read::{Pending, SelectRun, Selected};
use super::statement::{Known, ServerStatement, Target};
use super::terms::Registered;
use super::{ExecuteError, Executor, Run, When};
use crate::answers::Lease;
use crate::limits::PEER_ANSWER_BYTES_MAX;
use crate::prepared::StatementId;
use crate::session::Session;
use crate::statements::Answered;
use crate::time_slice::TimeSlice;

/// A request that another core answers.
pub(super) struct Forwarded {
    /// `None` once its client was told that it takes too long.
    call: Option<Call>,
    owner: ShardId,
    /// The number by which the owner knows it, which no later request has.
    number: u32,
    /// Its entry in the client's session; none any more when there is no call.
    of_session: usize,
    /// The level that the client asked for.
    level: Consistency,
    /// When it must be answered.
    deadline: Instant,
}

impl Executor {
    /// Hands a request over to the core that owns what it reads. The call comes back if that core
    /// takes no more requests, there is no space for more answers here, or its text would be compiled there once more,
    /// which takes long.
    #[inline]
    pub(super) fn forward(
        &self,
        owner: ShardId,
        call: Call,
        run: Run<'_>,
        (plan, bindings): (&SelectPlan, &Bindings<'_>),
    ) -> Result<(), Call> {
        if run.is_query_of_long_text() || !self.answers.may_forward(self.forwarded.borrow().len()) {
            return Err(call);
        }
        let mut frame = self.frames.take();
        let keyspace = put_frame(&call, run, &mut frame);
        let result_id = match run.target {
            Target::Query => None,
            Target::Execute { .. } => Some(run.statement.result_id),
        };
        let mut forwarded = self.forwarded.borrow_mut();
        let entry = forwarded.vacant_entry();
        let number = self.selects_forwarded.get();
        self.selects_forwarded.set((number + 1) % (1 << 31));
        let place = u32::try_from(entry.key()).expect("the requests of a shard are bounded");
        let deadline = self.deadline_of_forwarded(plan, bindings);
        let select = Ask::Select { frame, keyspace, result_id, number, deadline };
        match self.shard.ask_later(owner, select, place) {
            Ok(()) => {
                self.deadlines.add(deadline);
                let of_session = call.session.forwarded.borrow_mut().insert(place);
                let (call, level) = (Some(call), run.parameters.consistency);
                entry.insert(Forwarded { call, owner, number, of_session, level, deadline });
                Ok(())
            }
            Err(_) => Err(call),
        }
    }

    /// When a request that is forwarded now must be answered: as `deadline_of`, of one partition. A time-out that is
    /// none is refused by the owner.
    #[inline]
    fn deadline_of_forwarded(&self, plan: &SelectPlan, bindings: &Bindings<'_>) -> Instant {
        let timeout = plan.timeout(bindings).ok().flatten();
        self.state.monotonic() + timeout.unwrap_or(self.state.settings().timeouts.read)
    }

    /// Takes the answer to a forwarded request.
    #[inline]
    pub(super) fn take_answer(&self, place: u32, answer: Answer) {
        let Forwarded { call, of_session, .. } = self.forwarded.borrow_mut().remove(place as usize);
        let (frame, lease) = match answer {
            Answer::Frame(frame) => (frame, None),
            Answer::LongFrame(frame, lease) => (frame, Some(lease)),
            _ => unreachable!("a SELECT is answered by a frame"),
        };
        // Its client was told that it took too long.
        let Some(call) = call else { return self.frames.put_back(frame) };
        call.session.forwarded.borrow_mut().remove(of_session);
        let answered = Answered::of(&frame);
        self.reply(call.session.id, frame, lease);
        self.finish(call, answered, When::Later);
    }

    /// Tells the owners of what a client reads that it is gone.
    pub(super) fn end_forwarded(&self, session: &Session) {
        let forwarded = self.forwarded.borrow();
        for (_, place) in session.forwarded.borrow().iter() {
            let Forwarded { owner, number, .. } = forwarded[*place as usize];
            // The mail leaves at the end of a pass, and this may be the last thing before a sleep.
            self.shard.wake().notify();
            self.shard.tell_end(owner, || Ask::EndSelect { number });
        }
    }

    /// Answers the forwarded requests from a slot on that are not answered at `now` and should be, while the slice lasts.
    /// Their owners have the same deadline and end them; until they have answered, the entries stay. Where to go on;
    /// `None`: that were all.
    pub(super) fn answer_late_forwarded(
        &self,
        from: usize,
        now: Instant,
        slice: TimeSlice,
    ) -> Option<usize> {
        look_from(from, &mut self.forwarded.borrow_mut(), slice, |_, request| {
            if request.call.is_some() && request.deadline > now {
                self.deadlines.add(request.deadline);
                return false;
            }
            let Some(call) = request.call.take() else { return false };
            call.session.forwarded.borrow_mut().remove(request.of_session);
            self.refuse_later(call, &ExecuteError::ReadTimedOut(request.level));
            true
        })
    }

    /// Runs the SELECT of another core's client.
    #[inline]
    pub(super) fn select_for_peer(
        self: &Rc<Self>,
        asker: Asker,
        frame: &[u8],
        (keyspace, result_id): (Option<&str>, Option<StatementId>),
        (number, deadline): (u32, Instant),
    ) {
        let header = Header::decode(frame, Direction::Request);
        let header = header.ok().flatten().expect("a peer forwards whole frames");
        let request = Request::decode(&header, &frame[HEADER_BYTES..]);
        let request = request.expect("a peer forwards what it has decoded itself");
        let envelope = Envelope::new(header.version, header.stream);
        let mut out = self.frames.take();
        let selected = match deadline <= self.state.monotonic() {
            true => Err(ExecuteError::ReadTimedOut(level_of(&request))),
            false => self.select_request(&request, keyspace, result_id, &envelope, &mut out),
        };
        match selected {
            Ok(None) if out.len() <= PEER_ANSWER_BYTES_MAX => {
                self.shard.effort().bytes(out.len());
                self.shard.answer(asker, Answer::Frame(out));
            }
            // Its last page state or its warnings are long.
            Ok(None) => {
                self.shard.effort().bytes(out.len());
                let lease = self.answers_of[asker.peer().index()].lease();
                self.answer_select(asker, out, lease);
            }
            Ok(Some(mut pending)) => {
                self.frames.put_back(out);
                pending.deadline = pending.deadline.min(deadline);
                let answer = (header.version, header.stream);
                let name = (asker.peer(), number);
                let (deadlines, deadline) = (&self.deadlines, pending.deadline);
                let term = Registered::for_peer(&self.peer_terms, name, deadlines, deadline);
                let to = Destination::Peer(asker);
                let work = self.clone().finish_select(to, answer, pending, term);
                // It begins when the mail is taken: of these, all together have one slice in a pass.
                self.suspended.add(work);
                self.shard.effort().long();
            }
            Err(refusal) => {
                refusal.put(&envelope, self.state.node(), &mut out);
                self.shard.answer(asker, Answer::Frame(out));
            }
        }
    }

    /// Gives the core that asked the frame of its client's answer.
    pub(super) fn answer_select(&self, asker: Asker, frame: Vec<u8>, mut lease: Lease) {
        let answer = match frame.len() <= PEER_ANSWER_BYTES_MAX {
            true => Answer::Frame(frame),
            false => {
                // What stands behind its rows is short, and refused to none.
                lease.hold(frame.len());
                Answer::LongFrame(frame, lease)
            }
        };
        self.shard.answer(asker, answer);
    }

    /// Answers a forwarded request from memory, or else gives what is left to read.
    fn select_request(
        &self,
        request: &Request<'_>,
        keyspace: Option<&str>,
        result_id: Option<StatementId>,
        envelope: &Envelope<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Pending>, ExecuteError> {
        let (statement, parameters, target) = self.statement_of(request, keyspace, result_id)?;
        let Statement::Select(plan) = &statement.compiled.statement else {
            // A text is the same here, but an id may be that of another text.
            return Err(ExecuteError::Unprepared(statement.id.to_vec()));
        };
        let time = self.state.time_of_read(parameters);
        let run = Run { statement: &statement, parameters, target, time };
        let bindings = Bindings::new(&parameters.values, statement.markers(), time)?;
        let at_once_bytes_max = PEER_ANSWER_BYTES_MAX;
        let select = SelectRun { run, plan, bindings: &bindings, at_once_bytes_max };
        match self.select_now(&select, envelope, out)? {
            Selected::Now(rows) => {
                self.count_rows(&statement, (rows, 0));
                Ok(None)
            }
            Selected::Later(bound) => self.pending(run, bound).map(Some),
        }
    }

    /// The statement that a peer's request runs, and how the client asks for its result.
    pub(super) fn statement_of<'r>(
        &self,
        request: &'r Request<'_>,
        keyspace: Option<&str>,
        result_id: Option<StatementId>,
    ) -> Result<(Rc<ServerStatement>, &'r Parameters<'r>, Target), ExecuteError> {
        Ok(match request {
            Request::Query(query) => {
                let statement = self.state.compile(&self.shard, query.text, keyspace)?;
                (Rc::new(statement), &query.parameters, Target::Query)
            }
            Request::Execute(execute) => {
                let found = self.state.prepared(&self.shard, execute.id);
                let found = found.ok_or_else(|| ExecuteError::Unprepared(execute.id.to_vec()))?;
                let target = Target::of(execute, &found).as_known_to(result_id, &found);
                (found, &execute.parameters, target)
            }
            _ => unreachable!("a peer forwards QUERY and EXECUTE"),
        })
    }
}

/// The level that a peer's request asks for.
#[cold]
fn level_of(request: &Request<'_>) -> Consistency {
    match request {
        Request::Query(query) => query.parameters.consistency,
        Request::Execute(execute) => execute.parameters.consistency,
        _ => unreachable!("a peer forwards QUERY and EXECUTE"),
    }
}

/// Appends the call's request as a frame. Returns the keyspace of its unqualified names; `None` for EXECUTE.
pub(super) fn put_frame(call: &Call, run: Run<'_>, frame: &mut Vec<u8>) -> Option<Box<str>> {
    let Run { statement, parameters, target, .. } = run;
    let parameters = *parameters;
    let (request, keyspace) = match target {
        Target::Query => {
            let query = Query { text: &statement.text, parameters };
            (Request::Query(query), statement.keyspace.as_deref())
        }
        Target::Execute(known) => {
            let known: &[u8] = match known {
                Known::Old => &[],
                Known::Yes | Known::No => &statement.result_id,
            };
            let id = &statement.id;
            let execute = Execute { id, result_metadata_id: Some(known), parameters };
            (Request::Execute(execute), None)
        }
    };
    request.put(call.version, call.stream, Flags(0), frame);
    keyspace.map(Box::from)
}
