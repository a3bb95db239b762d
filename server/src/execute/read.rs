//! SELECT: answered inside the pass if this core has it all in memory, else suspended or forwarded.
//!
//! ```text
//! one partition, another core's ─► `forward.rs` ─► the owner selects, and answers with the client's frame
//! in memory here ────────────────► straight into the connection's buffer
//! on disk, or of several cores ──► suspended (`shard/src/suspended.rs`): goes on where it stopped
//! a range of partitions ─────────► a task of the group for long work; an aggregate: `parts.rs`
//! ```
//!
//! What is suspended keeps its bound command and a copy of its values.
//!
//! Invariant: a read that fails, or that memory cannot answer, leaves no bytes in the buffer. Not
//! here: forwarding (`forward.rs`), and which rows a statement names (`cql/src/plan`).

use std::borrow::Cow;
use std::rc::Rc;
use std::time::Instant;

use cql::bind::Bindings;
use cql::frame::Version;
use cql::frame::consistency::Consistency;
use cql::frame::response::{Envelope, add_warning};
use cql::limits::FRAME_CHUNK_BYTES;
use cql::plan::{BoundRead, Page, SelectPlan};
use cql::rows::ResultEncoder;
use engine::{Error, read_record};
use model::read::{Partitions, Resume};
use model::{ReadEnd, Token};
use shard::shard::group_of;
use shard::stalls::Work;
use shard::{Group, ShardId};

use super::call::{Call, Flow};
use super::consistency::{check_read, level_of_nearest, level_of_read};
use super::delivery::{Destination, Finished};
use super::held_bytes::CountedBytes;
use super::metered::{InPass, Metered, note_effort};
use super::owned_parameters::OwnedParameters;
use super::parts::InParts;
use super::statement::{ServerStatement, Target};
use super::terms::Registered;
use super::trace::Trace;
use super::{ExecuteError, Executor, Run, When};
use crate::answers::Lease;
use crate::limits::PASS_ANSWER_BYTES_MAX;
use crate::system;

/// Characters of a query's text that a warning repeats, as in Cassandra.
const QUERY_SHOWN_CHARS: usize = 512;

/// A SELECT to run: its plan, and the values of its markers.
pub(super) struct SelectRun<'r> {
    /// The statement, and how the client asked for it.
    pub(super) run: Run<'r>,
    /// The statement's plan.
    pub(super) plan: &'r SelectPlan,
    /// The values that the client sent.
    pub(super) bindings: &'r Bindings<'r>,
    /// The longest answer that memory gives at once, in bytes; a longer one is counted while it is made.
    pub(super) at_once_bytes_max: usize,
}

/// A SELECT whose rows take long.
#[derive(Clone, Copy)]
pub(super) struct LongSelect<'r> {
    pub(super) statement: &'r ServerStatement,
    pub(super) plan: &'r SelectPlan,
    pub(super) bindings: &'r Bindings<'r>,
    /// What it reads.
    pub(super) bound: &'r BoundRead,
    /// The level that the client asked for.
    pub(super) level: Consistency,
    /// When it must have ended.
    pub(super) deadline: Instant,
    /// What its answer has before the rows, in bytes.
    pub(super) head_bytes: usize,
}

/// A read that could not end inside the pass.
pub(super) struct Pending {
    statement: Rc<ServerStatement>,
    parameters: OwnedParameters,
    pub(super) bound: BoundRead,
    target: Target,
    /// When it must have ended.
    pub(super) deadline: Instant,
    /// How other cores make their parts of it, if they do.
    in_parts: Option<Box<InParts>>,
    /// What it names, if that takes much memory.
    named: Option<CountedBytes>,
    /// What the statement of a QUERY takes, if that is much.
    compiled: Option<CountedBytes>,
}

/// What came of a SELECT inside the pass.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once, and a box is an allocation"
)]
pub(super) enum Selected {
    /// It was answered, with so many rows.
    Now(u32),
    /// The bound read, which goes on elsewhere.
    Later(BoundRead),
}

/// What was read for an answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Given {
    /// How the last page of the read ended.
    end: ReadEnd,
    /// Rows of storage.
    pub(super) rows: u64,
    /// Tombstones that were passed.
    pub(super) tombstones: u64,
    /// Blocks that were read from the disk, and those that were in a cache.
    blocks: (u64, u64),
}

impl Executor {
    /// What is kept of a SELECT that could not end inside the pass.
    pub(super) fn pending(&self, run: Run<'_>, bound: BoundRead) -> Result<Pending, ExecuteError> {
        let named = self.named_keys.hold(bound.named_bytes())?;
        let compiled = self.hold_compiled(run)?;
        let (statement, target) = (run.statement.clone(), run.target);
        let (deadline, in_parts) = (self.deadline_of(&bound), None);
        let parameters = OwnedParameters::of(run);
        Ok(Pending { statement, parameters, bound, target, deadline, in_parts, named, compiled })
    }

    /// Counts the statement of a read that waits, unless it is kept by its id: then it is counted there.
    pub(super) fn hold_compiled(&self, run: Run<'_>) -> Result<Option<CountedBytes>, ExecuteError> {
        match run.target {
            Target::Query => self.waiting_statements.hold(run.statement.bytes()),
            Target::Execute(_) => Ok(None),
        }
    }

    /// When a read that begins now must have ended.
    pub(super) fn deadline_of(&self, bound: &BoundRead) -> Instant {
        let command = bound.command.as_ref();
        let timeouts = &self.state.settings().timeouts;
        let usual = command.map_or(timeouts.read, |c| timeouts.of_read(&c.partitions));
        self.state.monotonic() + bound.timeout.unwrap_or(usual)
    }

    /// Runs a SELECT.
    #[inline]
    pub(super) fn select(
        self: &Rc<Self>,
        mut call: Call,
        run: Run<'_>,
        plan: &SelectPlan,
        out: &mut Vec<u8>,
    ) -> Flow {
        let mut bindings = Bindings::none(run.time);
        if let Err(error) = self.bind_values(run, &mut bindings) {
            return self.refuse(call, error, out);
        }
        if let Some(owner) = self.other_owner(plan, &bindings, &call) {
            call = match self.forward(owner, call, run, (plan, &bindings)) {
                Ok(()) => {
                    self.shard.effort().expressions(bindings.work_done());
                    return Flow::Later;
                }
                // That core takes no more now, or would compile a long text: the read goes on here.
                Err(call) => call,
            };
        }
        // A task has no bound for the answers of all such requests together: what waits is counted.
        let at_once_bytes_max = if run.is_query_of_long_text() { 0 } else { PASS_ANSWER_BYTES_MAX };
        let select = SelectRun { run, plan, bindings: &bindings, at_once_bytes_max };
        if call.trace.is_some() {
            return self.select_traced(call, &select, out);
        }
        match self.select_now(&select, &call.envelope(), out) {
            Ok(Selected::Now(rows)) => {
                call.rows = rows;
                Flow::Answered(call)
            }
            Ok(Selected::Later(bound)) => self.suspend(call, run, bound, out),
            Err(refusal) => self.refuse(call, refusal, out),
        }
    }

    /// A traced request goes on as one that waits: what its trace tells takes questions to other shards.
    #[cold]
    fn select_traced(
        self: &Rc<Self>,
        call: Call,
        select: &SelectRun<'_>,
        out: &mut Vec<u8>,
    ) -> Flow {
        match self.bind_read(select) {
            Ok(bound) => self.suspend(call, select.run, bound, out),
            Err(refusal) => self.refuse(call, refusal, out),
        }
    }

    /// The other core that has all that is read, if one has.
    #[inline]
    fn other_owner(
        &self,
        plan: &SelectPlan,
        bindings: &Bindings<'_>,
        call: &Call,
    ) -> Option<ShardId> {
        let sharder = self.shard.sharder();
        // A traced request is run where its trace is.
        if sharder.shards() == 1 || call.trace.is_some() || system::computes(&plan.table) {
            return None;
        }
        let token = plan.token(bindings, &mut self.key.borrow_mut())?;
        Some(sharder.shard_of(token)).filter(|owner| *owner != self.shard.me())
    }

    /// Goes on with a read that has to wait.
    fn suspend(
        self: &Rc<Self>,
        call: Call,
        run: Run<'_>,
        bound: BoundRead,
        out: &mut Vec<u8>,
    ) -> Flow {
        let group = bound.command.as_ref().map_or(Group::Requests, group_of);
        let table = bound.command.as_ref().map(|command| command.table);
        let mut pending = match self.pending(run, bound) {
            Ok(pending) => pending,
            Err(refusal) => return self.refuse(call, refusal, out),
        };
        pending.in_parts = self.in_parts(&call, run, &pending).map(Box::new);
        let answer = (call.version, call.stream);
        let term = Registered::for_client(&call.session, &self.deadlines, pending.deadline);
        let work = self.clone().finish_select(Destination::Client(call), answer, pending, term);
        if group != Group::Requests {
            let executor = self.clone();
            let step_of = Work { group, name: "range read", table };
            self.shard.runtime().spawn(step_of, async move {
                let finished = work.await;
                executor.deliver(finished, When::InTask);
            });
            return Flow::Later;
        }
        self.shard.effort().long();
        match self.suspended.start(work) {
            // It is not copied, and is sent in chunks.
            Some(finished) if finished.frame.len() > FRAME_CHUNK_BYTES => {
                self.deliver(finished, When::Later);
                Flow::Later
            }
            Some(Finished { to: Destination::Client(call), frame, .. }) => {
                out.extend_from_slice(&frame);
                self.frames.put_back(frame);
                Flow::Answered(call)
            }
            Some(_) => unreachable!("it is a client's"),
            None => Flow::Later,
        }
    }

    /// Reads to the end of the page, however long it takes.
    pub(super) async fn finish_select(
        self: Rc<Self>,
        to: Destination,
        (version, stream): (Version, i16),
        pending: Pending,
        registered: Registered,
    ) -> Finished {
        let (mut frame, mut lease) = (self.frames.take(), self.lease_for(&to));
        let level = pending.parameters.level;
        let trace = match &to {
            Destination::Client(call) => call.trace.as_deref(),
            Destination::Peer(_) => None,
        };
        let mut envelope = Envelope::new(version, stream);
        envelope.trace_id = trace.map(|trace| trace.id);
        let answer = (&mut frame, &mut lease);
        // Boxed: this future takes 6 KB, and those that hold it are moved five times before it begins.
        let selected = Box::pin(self.select_later(&envelope, trace, pending, answer));
        let selected = registered.term.run(selected);
        // Whoever is gone reads no answer; it is made all the same, for every request has one.
        let selected = selected.await.unwrap_or(Err(ExecuteError::ReadTimedOut(level)));
        if let Err(refusal) = selected {
            (frame, lease) = (self.frames.take(), self.lease_for(&to));
            refusal.put(&envelope, self.state.node(), &mut frame);
        }
        Finished { to, frame, lease }
    }

    #[inline]
    pub(super) fn bind_read(&self, select: &SelectRun<'_>) -> Result<BoundRead, ExecuteError> {
        let Run { statement, parameters, .. } = select.run;
        check_read(parameters.consistency)?;
        let state = match parameters.paging_state {
            Some(sealed) => Some(self.state.seal().open(select.plan.table.id, sealed)?),
            None => None,
        };
        let page = Page { rows: parameters.page_rows, state };
        let bound = select.plan.bind_read(select.bindings, page);
        self.shard.effort().expressions(select.bindings.work_done());
        let mut bound = bound?;
        self.guard_read(select, &mut bound)?;
        let mut level = parameters.consistency;
        if select.plan.nearest.is_some() {
            level = level_of_nearest(level, &mut bound.warnings)?;
        }
        if let Some(command) = &mut bound.command {
            command.limits.tombstones = self.state.settings().tombstones.failure;
            let level = level_of_read(level, &command.partitions);
            statement.replication.iter().try_for_each(|replication| replication.check(level))?;
        }
        Ok(bound)
    }

    /// Answers from memory. If that does not suffice nothing was appended.
    #[inline]
    pub(super) fn select_now(
        &self,
        select: &SelectRun<'_>,
        envelope: &Envelope<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Selected, ExecuteError> {
        let bound = self.bind_read(select)?;
        let start = out.len();
        let answered = self.answer_from_memory(select, &bound, envelope, out);
        let rows = match answered {
            Ok(rows) => rows,
            Err(refusal) => {
                out.truncate(start);
                return match refusal {
                    ExecuteError::Read(Error::WouldBlock, _) => Ok(Selected::Later(bound)),
                    refusal => Err(refusal),
                };
            }
        };
        Ok(Selected::Now(rows))
    }

    #[inline]
    fn answer_from_memory(
        &self,
        select: &SelectRun<'_>,
        bound: &BoundRead,
        envelope: &Envelope<'_>,
        out: &mut Vec<u8>,
    ) -> Result<u32, ExecuteError> {
        let SelectRun { run, plan, bindings, at_once_bytes_max } = *select;
        let refused = |error| ExecuteError::Read(error, run.parameters.consistency);
        let start = out.len();
        let open = run.statement.open_rows(envelope, run.target, out);
        let Some(rows_bytes_max) = at_once_bytes_max.checked_sub(out.len() - start) else {
            return Err(refused(Error::WouldBlock));
        };
        let encoder = plan.encoder(bindings, bound, out);
        self.shard.effort().expressions(bindings.work_done());
        let mut encoder = encoder?;
        let mut sink = InPass::new(&mut encoder, rows_bytes_max);
        let end = match &bound.command {
            None => Ok(ReadEnd::default()),
            Some(command) if system::computes(&plan.table) => {
                let Some(record) = self.computed_now(&plan.table, bound) else {
                    return Err(refused(Error::WouldBlock));
                };
                read_record(&plan.table, &record, command, &mut sink)
            }
            Some(command) => self.shard.read_cached(command, &mut sink),
        };
        sink.note_effort(self.shard.effort());
        let end = end.map_err(refused)?;
        note_effort(self.shard.effort(), bound, &end);
        // An aggregate over more than one page goes on elsewhere, and a long answer begins there.
        let is_long = sink.is_long();
        if is_long || bound.reads_all && end.more.is_some() && !encoder.is_full() {
            return Err(refused(Error::WouldBlock));
        }
        let groups_end = encoder.groups_end();
        let rows = encoder.finish()?;
        let state = self.paging_state(plan, bound, &end, (rows, groups_end))?;
        open.close(rows, state.as_deref(), out);
        bound.warnings.iter().for_each(|text| add_warning(start, text, out));
        if end.tombstones > self.state.settings().tombstones.warn {
            let token = last_token(bound, &end);
            let text = tombstone_warning(run.statement, (end.rows, end.tombstones), token);
            add_warning(start, &text, out);
        }
        Ok(rows)
    }

    /// Counts what this core has given for a statement: rows, and the blocks that it read.
    pub(super) fn count_rows(&self, statement: &ServerStatement, (rows, blocks): (u32, u64)) {
        self.statements.gave(&statement.place, || statement.name(), (rows.into(), blocks));
    }

    /// What the client sends for the next page, if there is one.
    fn paging_state(
        &self,
        plan: &SelectPlan,
        bound: &BoundRead,
        end: &ReadEnd,
        (groups, groups_end): (u32, Option<Resume>),
    ) -> cql::Result<Option<Vec<u8>>> {
        let Some(command) = &bound.command else { return Ok(None) };
        let state = match bound.reads_all {
            true => bound.groups_paging_state(groups, groups_end),
            false => plan.paging_state(command, end)?,
        };
        Ok(state.map(|state| self.state.seal().put(plan.table.id, state)))
    }

    async fn select_later(
        &self,
        envelope: &Envelope<'_>,
        trace: Option<&Trace>,
        pending: Pending,
        (out, lease): (&mut Vec<u8>, &mut Lease),
    ) -> Result<(), ExecuteError> {
        let Pending { statement, parameters, bound, target, in_parts, deadline, .. } = pending;
        // Counted until it is done.
        let _held = (pending.named, pending.compiled);
        let plan = statement.select().expect("only a SELECT comes here");
        if let Some(trace) = trace {
            self.trace_read(trace, plan, &bound).await;
        }
        let values = parameters.values.as_values(envelope.version);
        let time = parameters.time(&self.state);
        let bindings = Bindings::new(&values, statement.markers(), time)?;
        let start = out.len();
        let open = statement.open_rows(envelope, target, out);
        let head_bytes = out.len() - start;
        if !lease.hold(head_bytes) {
            return Err(ExecuteError::Overloaded(lease.refusal()));
        }
        let mut encoder = plan.encoder(&bindings, &bound, out)?;
        let select = LongSelect {
            statement: &statement,
            plan,
            bindings: &bindings,
            bound: &bound,
            level: parameters.level,
            deadline,
            head_bytes,
        };
        let given = match &in_parts {
            // Boxed: otherwise the future of every read would be as large as that of an aggregate over all cores.
            Some(in_parts) => {
                Box::pin(self.select_in_parts(select, in_parts, &mut encoder, lease)).await?
            }
            None => self.give_rows(select, &mut encoder, lease).await?,
        };
        let groups_end = encoder.groups_end();
        let rows = encoder.finish()?;
        self.count_rows(&statement, (rows, 0));
        let state = self.paging_state(plan, &bound, &given.end, (rows, groups_end))?;
        open.close(rows, state.as_deref(), out);
        bound.warnings.iter().for_each(|text| add_warning(start, text, out));
        if given.tombstones > self.state.settings().tombstones.warn {
            let token = last_token(&bound, &given.end);
            let text = tombstone_warning(&statement, (given.rows, given.tombstones), token);
            add_warning(start, &text, out);
        }
        if let Some(trace) = trace {
            trace.given(self.state.now_us(), (given.rows, given.tombstones), given.blocks);
        }
        Ok(())
    }

    /// Tells a trace what is going to be read, and of which memtables and sstables on each shard.
    #[cold]
    async fn trace_read(&self, trace: &Trace, plan: &SelectPlan, bound: &BoundRead) {
        let table = &plan.table.name;
        let now = || self.state.now_us();
        let Some(command) = &bound.command else {
            return trace.event(now(), format!("Nothing of {table} can match"));
        };
        trace.event(
            now(),
            match &command.partitions {
                Partitions::Range(_) => format!("Executing range query on {table}"),
                Partitions::Keys(keys) => {
                    format!("Executing query of {} partitions on {table}", keys.len())
                }
            },
        );
        if !system::computes(&plan.table) {
            for (shard, sources) in self.sources(command).await {
                trace.sources(now(), shard.index(), &sources);
            }
        }
    }

    /// Gives the rows of a SELECT to an encoder: those of a page, or all if its result has no pages.
    pub(super) async fn give_rows(
        &self,
        select: LongSelect<'_>,
        encoder: &mut ResultEncoder<'_>,
        lease: &mut Lease,
    ) -> Result<Given, ExecuteError> {
        let LongSelect { plan, bound, level, deadline, head_bytes, .. } = select;
        let mut given = Given::default();
        let Some(command) = &bound.command else { return Ok(given) };
        let mut command = Cow::Borrowed(command);
        let computed = match system::computes(&plan.table) {
            true => {
                let refused = |error| ExecuteError::Read(error, level);
                Some(self.computed(&plan.table, bound, refused, lease).await?)
            }
            false => None,
        };
        let beside_bytes = head_bytes + computed.as_ref().map_or(0, |of| of.bytes);
        let yielder = self.shard.runtime().yielder(Group::Background);
        loop {
            let mut sink = Metered::new(encoder, lease, command.resume.as_ref(), beside_bytes);
            let read = match &computed {
                Some(of) => {
                    of.rows.read(&command, &mut sink, async || yielder.yield_if_due().await).await
                }
                // Boxed: this future takes 5 KB, which a read of a computed table would have for nothing.
                None => Box::pin(self.shard.read(&command, &mut sink, Some(deadline))).await,
            };
            let read = read.map_err(|error| ExecuteError::Read(error, level))?;
            given.end = sink.end(read).map_err(ExecuteError::Overloaded)?;
            given.tombstones += given.end.tombstones;
            given.blocks.0 += given.end.blocks;
            given.blocks.1 += given.end.cached_blocks;
            // Now: a read that fails, or takes too long, has cost what its pages cost.
            self.count_rows(select.statement, (0, given.end.blocks));
            given.rows += given.end.rows;
            if !bound.reads_all || given.end.more.is_none() || encoder.is_full() {
                return Ok(given);
            }
            command.to_mut().resume = given.end.more.clone();
        }
    }
}

/// What a client is told whose read has passed many tombstones.
#[cold]
fn tombstone_warning(
    statement: &ServerStatement,
    (rows, tombstones): (u64, u64),
    token: Option<Token>,
) -> String {
    let query: String = statement.text.chars().take(QUERY_SHOWN_CHARS).collect();
    let token = token.map(|token| format!("; token {}", token.0)).unwrap_or_default();
    format!(
        "Read {rows} live rows and {tombstones} tombstone cells for query {query}{token} (see tombstone_warn_threshold)"
    )
}

/// The token of the last partition that was read; `None` at the end of a range, of which that is not known.
fn last_token(bound: &BoundRead, end: &ReadEnd) -> Option<Token> {
    let last = || match &bound.command.as_ref()?.partitions {
        Partitions::Keys(keys) => keys.last().map(|(token, _)| *token),
        Partitions::Range(_) => None,
    };
    end.more.as_ref().map(|resume| resume.token).or_else(last)
}
