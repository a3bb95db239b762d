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
//!    record instead (`bind_conditional_batch` in `conditional.rs`).
//! 4. The consistency level is checked against the replication of the keyspaces; then `submit` (`write.rs`).
//!
//! A long message is a task that does the same and lets others run between two statements; a long text among them is
//! compiled by a thread beside the core (`long_text.rs`). One such task of a core compiles and binds at a time, in the
//! order in which they came; a message of a few statements does it in the pass.
//! Its time-out counts from when the message came, its binding included, and the bytes of the message are counted until
//! it is bound (`held_bytes.rs`).
//!
//! All statements of a batch have one timestamp, that of the message or of the clock, unless one has its own
//! `USING TIMESTAMP`; with a condition it is always that of the clock. The batch is divided if it is LOGGED and its tokens have more than one owner.
//!
//! Not here: `BEGIN BATCH .. APPLY BATCH` as one text (`write.rs`, `cql/src/plan/batch.rs`), the message's bytes
//! (`cql/src/frame/request/batch.rs`).

use std::cell::{Cell, RefMut};
use std::collections::{BTreeSet, HashMap};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use cql::bind::{Bindings, StatementTime};
use cql::frame::Reader;
use cql::frame::consistency::Consistency;
use cql::frame::request::{self, Batch, BatchText};
use cql::lang::ast::BatchKind;
use cql::limits::STATEMENT_MEMORY_BYTES_MAX;
use cql::plan::{BatchSize, NotApplied, Records, Scratch, WritePlan};
use cql::prepare::{Statement, batch_timeout_warning, check_batch};
use futures_lite::future::yield_now;
use model::Token;
use shard::limits::READ_SLICE;
use shard::owner::{ShardId, Sharder};

use super::answer::WriteKind;
use super::call::{Call, Flow};
use super::consistency::{Replication, check_serial};
use super::held_bytes::CountedBytes;
use super::long_text::{is_long, not_in_time};
use super::statement::ServerStatement;
use super::write::{BoundWrite, check_writable};
use super::{ExecuteError, Executor, request_id};
use crate::limits::{BATCH_AT_ONCE_BYTES, BATCH_AT_ONCE_STATEMENTS, COMPILED_AT_ONCE_BYTES};

/// The statements of a BATCH message, and what follows from them together.
struct BatchStatements {
    all: Vec<Rc<ServerStatement>>,
    kind: BatchKind,
    /// Whether they change counters.
    changes_counters: bool,
    replication: Vec<Replication>,
}

/// What binding a batch gives beside its record, which is in the buffer of the core or of a task: no borrow of the
/// former is held while others run.
pub(super) struct BatchOutline {
    pub(super) kind: WriteKind,
    pub(super) warnings: Vec<String>,
    pub(super) not_applied: Option<Arc<NotApplied>>,
    pub(super) is_divided: bool,
    pub(super) is_named: bool,
}

impl BatchOutline {
    /// Joined with its record; refuses a level that the keyspaces cannot keep.
    fn into_write<'w>(
        self,
        record: RefMut<'w, Vec<u8>>,
        level: Consistency,
        replication: &[Replication],
    ) -> Result<BoundWrite<'w>, ExecuteError> {
        let BatchOutline { kind, warnings, not_applied, is_divided, is_named } = self;
        let timeout = None;
        BoundWrite { record, kind, warnings, timeout, not_applied, is_divided, is_named }
            .check(level, replication)
    }
}

/// A BATCH message that is kept for a task.
struct LongBatch {
    /// The message's body, uncompressed.
    body: Vec<u8>,
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
            let mut body = Vec::new();
            batch.put(call.version, &mut body);
            let request_id = batch.parameters.request_id.map(<[u8]>::to_vec);
            let counted = match self.waiting_statements.hold(body.capacity()) {
                Ok(counted) => counted,
                Err(refusal) => return self.refuse(call, refusal, out),
            };
            let (timestamp_us, arrived) = (time.timestamp_us, self.state.monotonic());
            let long =
                LongBatch { body, request_id, keyspace, timestamp_us, arrived, _counted: counted };
            self.batch_in_steps(call, long);
            return Flow::Later;
        }
        let bound = self.bind_batch(&mut call, batch, keyspace.as_deref(), time);
        self.submit(call, bound, out)
    }

    fn bind_batch(
        &self,
        call: &mut Call,
        batch: &Batch<'_>,
        keyspace: Option<&str>,
        time: StatementTime<'_>,
    ) -> Result<BoundWrite<'_>, ExecuteError> {
        let statements = at_once(self.compile_batch(call, batch, keyspace, async || Ok(())))?;
        self.shard.effort().rows(statements.all.len() as u64);
        let (mut record, mut scratch) = self.writes.buffers();
        let buffers = (&mut *record, &mut *scratch);
        let outline =
            at_once(self.bind_statements(batch, &statements, time, buffers, async || Ok(())))?;
        outline.into_write(record, batch.parameters.consistency, &statements.replication)
    }

    /// Runs a long BATCH as a task.
    #[cold]
    fn batch_in_steps(self: &Rc<Self>, mut call: Call, long: LongBatch) {
        let executor = self.clone();
        self.spawn_flow("long batch", async move |out| {
            let bound = executor.bind_long_batch(&mut call, &long).await;
            // The record has it all.
            drop(long);
            executor.submit(call, bound, out)
        });
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
        let left = || {
            let left =
                timeout.checked_sub(self.state.monotonic().saturating_duration_since(*arrived));
            left.ok_or_else(|| not_in_time("bound", timeout))
        };
        let turn = self.turn_within(&self.long_statements, left()?).await;
        let _turn = turn.ok_or_else(|| not_in_time("bound", timeout))?;
        let batch = Batch::decode(Reader::new(body), call.version);
        let mut batch = batch.expect("it was decoded when it came");
        batch.parameters.request_id = request_id.as_deref();
        let slice = Cell::new(Instant::now());
        let pause = async || {
            if slice.get().elapsed() >= READ_SLICE {
                yield_now().await;
                slice.set(Instant::now());
            }
            left().map(drop)
        };
        let statements = self.compile_batch(call, &batch, keyspace.as_deref(), &pause).await?;
        let time =
            StatementTime { timestamp_us: *timestamp_us, ..self.state.time(&batch.parameters) };
        let (mut own, mut scratch) = (Vec::new(), Scratch::default());
        let buffers = (&mut own, &mut scratch);
        let outline = self.bind_statements(&batch, &statements, time, buffers, &pause).await?;
        let (mut record, _) = self.writes.buffers();
        *record = own;
        let level = batch.parameters.consistency;
        let bound = outline.into_write(record, level, &statements.replication)?;
        Ok(BoundWrite { timeout: Some(left()?), ..bound })
    }

    /// Finds or compiles the statements, and judges them together. `pause` is called after each, and may end it.
    async fn compile_batch(
        &self,
        call: &mut Call,
        batch: &Batch<'_>,
        keyspace: Option<&str>,
        pause: impl AsyncFn() -> Result<(), ExecuteError>,
    ) -> Result<BatchStatements, ExecuteError> {
        check_serial(&batch.parameters)?;
        let all = self.statements_of(batch, keyspace, pause).await?;
        let kind = kind_of(batch.kind);
        if let Some(first) = all.first() {
            let place = &first.batch_places[usize::from(kind != BatchKind::Logged)];
            self.count(call, place, || first.name_of_batch(kind));
        }
        let tables = all.iter().filter_map(|statement| plan_of(statement).ok());
        let changes_counters = check_batch(kind, false, tables.map(|plan| &*plan.table))?;
        let mut replication: Vec<Replication> =
            all.iter().flat_map(|statement| statement.replication.iter().copied()).collect();
        replication.dedup();
        if batch.parameters.request_id.is_some() && !changes_counters {
            return Err(request_id::means_nothing());
        }
        Ok(BatchStatements { all, kind, changes_counters, replication })
    }

    /// Binds the statements into a record. `pause` is called after each, and may end it.
    async fn bind_statements(
        &self,
        batch: &Batch<'_>,
        statements: &BatchStatements,
        time: StatementTime<'_>,
        (record, scratch): (&mut Vec<u8>, &mut Scratch),
        pause: impl AsyncFn() -> Result<(), ExecuteError>,
    ) -> Result<BatchOutline, ExecuteError> {
        let BatchStatements { all, kind, changes_counters, .. } = statements;
        if all.iter().any(is_conditional) {
            return self.bind_conditional_batch(batch, all, (record, scratch), pause).await;
        }
        let mut bound = self.begin_batch(*kind, record);
        let (watched, mut guardrail_warnings) = (self.watched_of_writes(), Vec::new());
        for (statement, item) in all.iter().zip(batch.statements()) {
            let bindings = Bindings::new(&item.values, statement.markers(), time)?;
            let BoundBatch { record, size, .. } = &mut bound;
            let plan = plan_of(statement)?;
            plan.bind_into_batch(&bindings, scratch, record, size)?;
            if watched.is_some() {
                let now_us = self.state.now_us();
                let guardrails = &self.state.settings().guardrails;
                guardrails.check_write(plan, &bindings, now_us, &mut guardrail_warnings)?;
            }
            pause().await?;
        }
        let mut warnings: Vec<String> =
            warnings_of(all).into_iter().chain(bound.size.warnings()).collect();
        let is_divided = bound.is_divided();
        if let Some(watched) = watched {
            self.guard_record(watched, &batch.parameters, record, &mut guardrail_warnings)?;
            warnings.append(&mut guardrail_warnings);
        }
        let name = write_type(*kind, *changes_counters);
        let kind = WriteKind { level: batch.parameters.consistency, name };
        let is_named = self.name(batch.parameters.request_id, record)?;
        Ok(BatchOutline { kind, warnings, not_applied: None, is_divided, is_named })
    }

    /// The statements of a batch, each a write of a table that may be written to.
    async fn statements_of(
        &self,
        batch: &Batch<'_>,
        keyspace: Option<&str>,
        pause: impl AsyncFn() -> Result<(), ExecuteError>,
    ) -> Result<Vec<Rc<ServerStatement>>, ExecuteError> {
        let mut statements: Vec<Rc<ServerStatement>> = Vec::new();
        // Of each text one: most batches have few, whose values differ.
        let mut compiled: HashMap<&str, Rc<ServerStatement>> = HashMap::new();
        // Plans, and values that were JSON, take many times the bytes of the message.
        let mut compiled_bytes = 0;
        for item in batch.statements() {
            let statement = match item.text {
                BatchText::Query(text) => match compiled.get(text) {
                    Some(known) => known.clone(),
                    None => {
                        let one = Rc::new(self.compile_text(text, keyspace).await?);
                        compiled_bytes += one.bytes();
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
            check_writable(&plan_of(&statement)?.table.keyspace)?;
            statements.push(statement);
            pause().await?;
        }
        Ok(statements)
    }

    /// Compiles one text. If the text is long, the batch is bound in steps, by a task that has its turn.
    async fn compile_text(
        &self,
        text: &str,
        keyspace: Option<&str>,
    ) -> Result<ServerStatement, ExecuteError> {
        match is_long(text) {
            true => self.compile_off_core(text.into(), keyspace).await,
            false => Ok(self.state.compile(&self.shard, text, keyspace)?),
        }
    }

    /// Begins a batch of which `record` takes the mutations.
    pub(super) fn begin_batch<'r>(
        &self,
        kind: BatchKind,
        record: &'r mut Vec<u8>,
    ) -> BoundBatch<'r> {
        let sharder = self.shard.sharder();
        let record = BatchRecord { record, sharder, owner: None, is_divided: false };
        BoundBatch { kind, record, size: BatchSize::new(kind, self.state.settings().batch) }
    }
}

/// Whether a batch is bound in steps: it has many statements or bytes, or a long text, for which only a task can wait.
fn is_bound_in_steps(batch: &Batch<'_>) -> bool {
    let has_long_text = || {
        batch.statements().any(|one| matches!(one.text, BatchText::Query(text) if is_long(text)))
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
        |one: &Rc<ServerStatement>| plan_of(one).is_ok_and(|plan| plan.timeout.is_some());
    let unheard = statements.iter().any(says_time).then(batch_timeout_warning);
    once.into_iter().cloned().chain(unheard).collect()
}

fn is_conditional(statement: &Rc<ServerStatement>) -> bool {
    plan_of(statement).is_ok_and(|plan| plan.condition.is_some())
}

fn too_much_to_compile() -> ExecuteError {
    let mib = STATEMENT_MEMORY_BYTES_MAX >> 20;
    ExecuteError::invalid(format!(
        "the different statements of one batch take more than {mib} MiB when they are compiled: \
         use bind markers for their values, or smaller batches"
    ))
}

fn plan_of(statement: &ServerStatement) -> Result<&WritePlan, ExecuteError> {
    match &statement.compiled.statement {
        Statement::Write(plan) => Ok(plan),
        _ => Err(ExecuteError::invalid(
            "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.",
        )),
    }
}

/// A batch whose statements are being bound.
pub(super) struct BoundBatch<'r> {
    kind: BatchKind,
    /// The mutations so far.
    pub(super) record: BatchRecord<'r>,
    /// The number and the bytes of the mutations.
    pub(super) size: BatchSize,
}

impl BoundBatch<'_> {
    /// Whether it is to be written as a whole, and more than one core owns a part of it.
    pub(super) fn is_divided(&self) -> bool {
        self.kind == BatchKind::Logged && self.record.is_divided
    }
}

/// The record of a batch, and whether more than one shard owns a part of it.
pub(super) struct BatchRecord<'r> {
    record: &'r mut Vec<u8>,
    sharder: Sharder,
    owner: Option<ShardId>,
    is_divided: bool,
}

impl Records for BatchRecord<'_> {
    fn of(&mut self, token: Token) -> &mut Vec<u8> {
        let owner = self.sharder.shard_of(token);
        self.is_divided |= *self.owner.get_or_insert(owner) != owner;
        self.record
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
