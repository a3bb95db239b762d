//! BATCH as a message: statements by text and by id, bound one after the other into one record.
//!
//! What one core owns of a batch is one record of its log, so it is durable and readable as a whole
//! or not at all. A logged batch that several cores own is written by the outbox
//! (`shard/src/outbox.rs`): all of it or nothing, though others may see parts of it before the rest.
//!
//! 1. Each text is compiled once a message, each id is looked up. All must be INSERT, UPDATE or DELETE of writable
//!    tables.
//! 2. `check_batch` judges the tables together: counters and other columns do not mix.
//! 3. The values of each statement are bound, and its mutations are appended to the record of the batch. The size of
//!    the batch and the guardrails are checked meanwhile. With a condition in any statement all become one conditional
//!    record instead (`binder.rs`).
//! 4. The consistency level is checked against the replication of the keyspaces; then `submit` (`write.rs`).
//!
//! A long message, or one whose statements take much work, is a task that does the same and lets others run between two
//! statements. A long text among them is compiled by a thread beside the core (`long_text.rs`), which binds all
//! statements if the values of one are long (`beside_core.rs`) or one takes much work (`work_at_once.rs`). One such task
//! of a core compiles and binds at a time, in the order in which they came; a message of a few short statements does it
//! in the pass. Its time-out counts from when the message came, its binding included, and the bytes of the message are
//! counted until it is bound (`held_bytes.rs`).
//!
//! All statements of a batch have one timestamp, that of the message or of the clock, unless one has its own
//! `USING TIMESTAMP`; with a condition it is always that of the clock. The batch is divided if it is LOGGED and its tokens have more than one owner.
//!
//! Not here: how statements are bound (`binder.rs`), `BEGIN BATCH .. APPLY BATCH` as one text (`write.rs`,
//! `cql/src/plan/batch.rs`), the message's bytes (`cql/src/frame/request/batch.rs`).

use std::cell::RefMut;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use cql::bind::{BoundOn, StatementTime};
use cql::frame::request::{self, Batch, BatchStatement, BatchText};
use cql::frame::{Reader, Version};
use cql::lang::ast::BatchKind;
use cql::limits::STATEMENT_MEMORY_BYTES_MAX;
use cql::plan::{NotApplied, Scratch, WritePlan};
use cql::prepare::{Prepared, Statement, batch_timeout_warning, check_batch};
use shard::groups::Group;
use shard::read_pauses::ReadPauses;

use super::beside_core::{changed, is_bound_beside};
use super::binder::{Binder, Bound, MessageKind};
use super::call::{Call, Flow};
use super::consistency::{Replication, check_serial};
use super::held_bytes::CountedBytes;
use super::long_text;
use super::statement::{BoundWhere, ServerStatement};
use super::task::Waiting;
use super::work_at_once::WorkAtOnce;
use super::write::{BoundWrite, check_writable};
use super::{ExecuteError, Executor, request_id};
use crate::limits::{
    BATCH_AT_ONCE_BYTES, BATCH_AT_ONCE_STATEMENTS, BOUND_AT_ONCE_WORK, COMPILED_AT_ONCE_BYTES,
};
use crate::statements::StatementPlace;

/// The statements of a BATCH message, and what follows from them together.
struct BatchStatements {
    all: Vec<Rc<ServerStatement>>,
    kind: BatchKind,
    /// Whether they change counters.
    changes_counters: bool,
    /// Whether a statement calls a function of a user: then all are bound on the core.
    calls_users: bool,
    replication: Vec<Replication>,
    /// Of a batch with a condition: how it is answered if that does not hold.
    not_applied: Option<Arc<NotApplied>>,
}

impl BatchStatements {
    fn prepared(&self) -> impl Iterator<Item = &Prepared> + Clone {
        self.all.iter().map(|one| &*one.compiled)
    }

    fn message_kind(&self) -> MessageKind {
        MessageKind { kind: self.kind, is_conditional: self.not_applied.is_some() }
    }

    /// Whether the values of one statement take long to bind, and another thread may bind all.
    fn are_long_to_bind(&self, batch: &Batch<'_>) -> bool {
        // Most batches have no statement that is bound elsewhere, and their values are not walked for it.
        if self.calls_users || self.all.iter().all(|one| one.bound == BoundWhere::OnCore) {
            return false;
        }
        let mut each = batch.statements().zip(&self.all);
        each.any(|(item, statement)| is_bound_beside(statement, &item.values))
    }

    /// What binds them on this core, each of them with so much work that it may take there.
    fn binder(&self, executor: &Executor) -> Binder {
        let work_at_once = (!self.calls_users).then_some(BOUND_AT_ONCE_WORK);
        Binder { work_at_once, ..executor.binder(BoundOn::Core) }
    }
}

/// A BATCH message that is kept for a task.
struct LongBatch {
    /// The message's body, uncompressed.
    body: Arc<Vec<u8>>,
    /// What stands beside the body: the name of a change of counters.
    request_id: Option<Vec<u8>>,
    keyspace: Option<String>,
    /// When it came, in microseconds since 1970: what comes later writes over it.
    timestamp_us: i64,
    /// When it came, by the monotonic clock.
    arrived: Instant,
    /// The bytes of the body: dropped with it.
    _counted: Option<CountedBytes>,
}

impl Executor {
    /// Runs a BATCH.
    pub(super) fn batch(
        self: &Rc<Self>,
        mut call: Call,
        batch: &Batch<'_>,
        out: &mut Vec<u8>,
    ) -> Flow {
        if let Some(trace) = &mut call.trace {
            trace.of("Execute batch of CQL3 queries", None, Some(&batch.parameters));
        }
        let keyspace = call.keyspace(batch.parameters.keyspace);
        let time = self.state.time(&batch.parameters);
        if is_bound_in_steps(batch) {
            return self.batch_in_steps(call, batch, (keyspace, time.timestamp_us), out);
        }
        let work = WorkAtOnce::default();
        let compiled = self
            .compile_batch(&mut call, batch, keyspace.as_deref(), async |units| work.check(units));
        let statements = match at_once(compiled) {
            Ok(statements) if !statements.are_long_to_bind(batch) => statements,
            Err(refusal) if !work.is_too_much() => return self.refuse(call, refusal, out),
            _ => return self.batch_in_steps(call, batch, (keyspace, time.timestamp_us), out),
        };
        self.shard.effort().rows(statements.all.len() as u64);
        let bound = self.bind_batch(batch, &statements, time, &work);
        if work.is_too_much() {
            drop(bound);
            return self.batch_in_steps(call, batch, (keyspace, time.timestamp_us), out);
        }
        self.submit(call, bound, out)
    }

    fn bind_batch(
        &self,
        batch: &Batch<'_>,
        statements: &BatchStatements,
        time: StatementTime<'_>,
        work: &WorkAtOnce,
    ) -> Result<BoundWrite<'_>, ExecuteError> {
        let (mut record, mut scratch) = self.writes.buffers();
        let buffers = (&mut *record, &mut *scratch);
        let time = self.time_of(batch, statements, time);
        let (kind, all) = (statements.message_kind(), statements.prepared());
        let binder = statements.binder(self);
        let pause = async || work.check(binder.message_work.get());
        let bound = at_once(binder.message((batch, kind), all, time, buffers, pause));
        work.note(binder.needs_more_work.get());
        self.note_binding(statements.calls_users, binder.message_work.get());
        self.bound_batch(batch, statements, bound?, record)
    }

    /// Runs a long BATCH as a task.
    #[cold]
    fn batch_in_steps(
        self: &Rc<Self>,
        mut call: Call,
        batch: &Batch<'_>,
        (keyspace, timestamp_us): (Option<String>, i64),
        out: &mut Vec<u8>,
    ) -> Flow {
        let mut body = Vec::new();
        batch.put(call.version, &mut body);
        let counted = match self.waiting_statements.hold(body.capacity()) {
            Ok(counted) => counted,
            Err(refusal) => return self.refuse(call, refusal, out),
        };
        let long = LongBatch {
            body: Arc::new(body),
            request_id: batch.parameters.request_id.map(<[u8]>::to_vec),
            keyspace,
            timestamp_us,
            arrived: self.state.monotonic(),
            _counted: counted,
        };
        let executor = self.clone();
        self.spawn_flow("long batch", async move |out| {
            let bound = executor.bind_long_batch(&mut call, &long).await;
            // The record has it all.
            drop(long);
            executor.submit(call, bound, out)
        });
        Flow::Later
    }

    /// Binds a long BATCH when it is its turn; `Overloaded` if that is not done within the time of a write.
    async fn bind_long_batch(
        &self,
        call: &mut Call,
        long: &LongBatch,
    ) -> Result<BoundWrite<'_>, ExecuteError> {
        let LongBatch { body, request_id, keyspace, timestamp_us, arrived, _counted: _ } = long;
        // Whether it has conditions is not known yet.
        let timeout = self.state.settings().timeouts.write;
        let waiting = Waiting { to_be: "bound", arrived: *arrived, timeout };
        let _turn = self.turn(&self.long_statements, waiting, &call.session).await?;
        let batch = Batch::decode(Reader::new(body), call.version);
        let mut batch = batch.expect("it was decoded when it came");
        batch.parameters.request_id = request_id.as_deref();
        let pauses = ReadPauses::new(self.shard.runtime(), Group::Requests);
        let pause = async || {
            pauses.yield_if_due().await;
            self.time_left(waiting).map(drop)
        };
        let schema = self.shard.schema_number();
        let compiled =
            self.compile_batch(call, &batch, keyspace.as_deref(), async |_| pause().await);
        let statements = compiled.await?;
        let time = self.state.time_with(*timestamp_us, &batch.parameters);
        let time = self.time_of(&batch, &statements, time);
        let message = (body.clone(), call.version);
        let (bound, own) = self.bind_in_turn((&batch, message), &statements, time, &pause).await?;
        if self.shard.schema_number() != schema {
            self.check_unchanged(&statements.all)?;
        }
        let left = self.time_left(waiting)?;
        let (mut record, _) = self.writes.buffers();
        *record = own;
        let bound = self.bound_batch(&batch, &statements, bound, record)?;
        Ok(BoundWrite { timeout: Some(left), ..bound })
    }

    /// Binds the statements of a long BATCH, which has its turn: in steps, or beside the core if one of them takes long
    /// by itself. `pause` is called between two steps, and may end it.
    async fn bind_in_turn(
        &self,
        (batch, message): (&Batch<'_>, (Arc<Vec<u8>>, Version)),
        statements: &BatchStatements,
        time: StatementTime<'_>,
        pause: impl AsyncFn() -> Result<(), ExecuteError>,
    ) -> Result<(Bound, Vec<u8>), ExecuteError> {
        let kind = statements.message_kind();
        if !statements.are_long_to_bind(batch) {
            let (mut record, mut scratch) = (Vec::new(), Scratch::default());
            let (binder, buffers) = (statements.binder(self), (&mut record, &mut scratch));
            let all = statements.prepared();
            let bound = binder.message((batch, kind), all, time, buffers, pause).await;
            if !binder.needs_more_work.get() {
                return Ok((bound?, record));
            }
        }
        let all = statements.all.iter().map(|one| one.compiled.clone()).collect();
        self.bind_message_beside(message, kind, all, time).await
    }

    /// Finds or compiles the statements, and judges them together. `pause` is called between two of them, with what the
    /// constants of those that were compiled have taken, and may end it.
    async fn compile_batch(
        &self,
        call: &mut Call,
        batch: &Batch<'_>,
        keyspace: Option<&str>,
        pause: impl AsyncFn(u64) -> Result<(), ExecuteError>,
    ) -> Result<BatchStatements, ExecuteError> {
        check_serial(&batch.parameters)?;
        let all = self.statements_of(batch, keyspace, pause).await?;
        let kind = kind_of(batch.kind);
        // A batch that turns out to be long is compiled once more, since nothing counts what it was compiled to while
        // it waits. It is counted once.
        if call.statement == StatementPlace::NONE
            && let Some(first) = all.first()
        {
            let place = &first.batch_places[usize::from(kind != BatchKind::Logged)];
            self.count(call, place, || first.name_of_batch(kind));
        }
        let tables = all.iter().filter_map(|statement| plan_of(&statement.compiled).ok());
        let changes_counters = check_batch(kind, false, tables.map(|plan| &*plan.table))?;
        let mut replication: Vec<Replication> =
            all.iter().flat_map(|statement| statement.replication.iter().copied()).collect();
        replication.dedup();
        if batch.parameters.request_id.is_some() && !changes_counters {
            return Err(request_id::means_nothing());
        }
        let plans = all.iter().filter_map(|one| plan_of(&one.compiled).ok());
        let not_applied = NotApplied::of_batch(plans, &self.shard.schema())?.map(Arc::new);
        let calls_users = all.iter().any(|one| one.compiled.calls_users());
        Ok(BatchStatements { all, kind, changes_counters, calls_users, replication, not_applied })
    }

    /// Refuses a batch whose statements were changed by the schema while others ran.
    fn check_unchanged(&self, all: &[Rc<ServerStatement>]) -> Result<(), ExecuteError> {
        let schema = self.shard.schema();
        let mut looked_at: HashSet<*const ServerStatement> = HashSet::new();
        for one in all {
            if looked_at.insert(Rc::as_ptr(one)) && !one.is_valid(&schema) {
                return Err(changed());
            }
        }
        Ok(())
    }

    /// The time of a batch: with a condition the timestamp is that of when it begins to be bound. The rows that its
    /// conditions name are written over what comes in between, and its other rows may lose to that.
    fn time_of<'t>(
        &'t self,
        batch: &Batch<'_>,
        statements: &BatchStatements,
        time: StatementTime<'t>,
    ) -> StatementTime<'t> {
        match statements.not_applied {
            Some(_) => self.state.own_time(&batch.parameters),
            None => time,
        }
    }

    /// What binding has given, looked at.
    fn bound_batch<'w>(
        &'w self,
        batch: &Batch<'_>,
        statements: &BatchStatements,
        mut bound: Bound,
        record: RefMut<'w, Vec<u8>>,
    ) -> Result<BoundWrite<'w>, ExecuteError> {
        let BatchStatements { all, kind, changes_counters, replication, not_applied, .. } =
            statements;
        bound.warnings.splice(..0, warnings_of(all));
        let of = (write_type(*kind, *changes_counters), not_applied.clone(), &replication[..]);
        self.bound_write(of, &batch.parameters, bound, record)
    }

    /// The statements of a batch, each a write of a table that may be written to.
    async fn statements_of(
        &self,
        batch: &Batch<'_>,
        keyspace: Option<&str>,
        pause: impl AsyncFn(u64) -> Result<(), ExecuteError>,
    ) -> Result<Vec<Rc<ServerStatement>>, ExecuteError> {
        let mut statements: Vec<Rc<ServerStatement>> = Vec::new();
        // Of each text one: most batches have few, whose values differ.
        let mut compiled: HashMap<&str, Rc<ServerStatement>> = HashMap::new();
        // Plans, and values that were JSON, take many times the bytes of the message.
        let (mut compiled_bytes, mut constants_work) = (0, 0_u64);
        for item in batch.statements() {
            let statement = match item.text {
                BatchText::Query(text) => match compiled.get(text) {
                    Some(known) => known.clone(),
                    None => {
                        let one = Rc::new(self.compile_text(text, keyspace).await?);
                        compiled_bytes += one.bytes();
                        constants_work = constants_work.saturating_add(one.compiled.constants_work);
                        if compiled_bytes > STATEMENT_MEMORY_BYTES_MAX {
                            return Err(too_much_to_compile());
                        }
                        compiled.insert(text, one.clone());
                        one
                    }
                },
                BatchText::Prepared(id) => {
                    let found = self.state.prepared(&self.shard, id);
                    found.ok_or_else(|| ExecuteError::Unprepared(id.to_vec()))?
                }
            };
            check_writable(&plan_of(&statement.compiled)?.table.keyspace)?;
            statements.push(statement);
            if statements.len() < batch.len() {
                pause(constants_work).await?;
            }
        }
        Ok(statements)
    }

    /// Compiles one text. If the text is long, the batch is bound in steps, by a task that has its turn.
    async fn compile_text(
        &self,
        text: &str,
        keyspace: Option<&str>,
    ) -> Result<ServerStatement, ExecuteError> {
        match long_text::is_long(text) {
            true => self.compile_off_core(text.into(), keyspace).await,
            false => Ok(self.state.compile(&self.shard, text, keyspace)?),
        }
    }
}

/// Whether a batch is bound in steps: it has many statements or bytes, or a long text, for which only a task can wait.
fn is_bound_in_steps(batch: &Batch<'_>) -> bool {
    let has_long_text = || {
        let is_long = |one: BatchStatement<'_>| matches!(one.text, BatchText::Query(text) if long_text::is_long(text));
        batch.statements().any(is_long)
    };
    batch.len() > BATCH_AT_ONCE_STATEMENTS
        || batch.bytes() > BATCH_AT_ONCE_BYTES
        // Most batches are too short for a long text, and their statements are not walked for it.
        || (batch.bytes() > COMPILED_AT_ONCE_BYTES && has_long_text())
}

/// The output of what does not wait.
pub(super) fn at_once<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("its pauses end at once, and it has no long text"),
    }
}

/// What the user should know of the statements of a batch.
pub(super) fn warnings_of(statements: &[Rc<ServerStatement>]) -> Vec<String> {
    let of_statements = statements.iter().flat_map(|one| &one.compiled.warnings);
    // A batch may name one statement many thousand times.
    let once: BTreeSet<&String> = of_statements.collect();
    // A batch has one time-out, and as a message it says none.
    let says_time =
        |one: &Rc<ServerStatement>| plan_of(&one.compiled).is_ok_and(|plan| plan.timeout.is_some());
    let unheard = statements.iter().any(says_time).then(batch_timeout_warning);
    once.into_iter().cloned().chain(unheard).collect()
}

fn too_much_to_compile() -> ExecuteError {
    let mib = STATEMENT_MEMORY_BYTES_MAX >> 20;
    ExecuteError::invalid(format!(
        "the different statements of one batch take more than {mib} MiB when they are compiled: \
         use bind markers for their values, or smaller batches"
    ))
}

pub(super) fn plan_of(prepared: &Prepared) -> Result<&WritePlan, ExecuteError> {
    match &prepared.statement {
        Statement::Write(plan) => Ok(plan),
        _ => Err(ExecuteError::invalid(
            "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.",
        )),
    }
}

fn kind_of(kind: request::BatchKind) -> BatchKind {
    match kind {
        request::BatchKind::Logged => BatchKind::Logged,
        request::BatchKind::Unlogged => BatchKind::Unlogged,
        request::BatchKind::Counter => BatchKind::Counter,
    }
}

/// As the protocol names it when it fails.
pub(super) fn write_type(kind: BatchKind, counts: bool) -> &'static str {
    match kind {
        _ if counts => "COUNTER",
        BatchKind::Logged => "BATCH",
        BatchKind::Unlogged => "UNLOGGED_BATCH",
        BatchKind::Counter => "COUNTER",
    }
}
