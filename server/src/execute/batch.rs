//! BATCH as a message: statements by text and by id, bound one after the other into one record.
//!
//! What one core owns of a batch is one record of its log, so it is durable and readable as a whole
//! or not at all. A logged batch that several cores own is written by the outbox
//! (`shard/src/outbox.rs`): all of it or nothing, though others may see parts of it before the rest.
//!
//! 1. Each text is compiled once a message, each id is looked up. All must be INSERT, UPDATE or DELETE of writable
//!    tables.
//! 2. `check_batch` judges the tables together: counters and other columns do not mix.
//! 3. A batch of which a statement has a condition goes another way: `bind_conditional_batch` (`conditional.rs`).
//! 4. The values of each statement are bound, and its mutations are appended to the record of the batch. The size of
//!    the batch and the guardrails are checked meanwhile.
//! 5. The consistency level is checked against the replication of the keyspaces; then `submit` (`write.rs`).
//!
//! All statements of a batch have one timestamp, that of the message or of the clock, unless one has its own
//! `USING TIMESTAMP`. The batch is divided if it is LOGGED and its tokens have more than one owner.
//!
//! Not here: `BEGIN BATCH .. APPLY BATCH` as one text (`write.rs`, `cql/src/plan/batch.rs`), the message's bytes
//! (`cql/src/frame/request/batch.rs`).

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use cql::bind::Bindings;
use cql::frame::request::{self, Batch, BatchText};
use cql::lang::ast::BatchKind;
use cql::limits::STATEMENT_MEMORY_BYTES_MAX;
use cql::plan::{BatchSize, Records, WritePlan};
use cql::prepare::{Statement, batch_timeout_warning, check_batch};
use model::Token;
use shard::owner::{ShardId, Sharder};

use super::answer::WriteKind;
use super::call::{Call, Flow};
use super::consistency::{Replication, check_serial};
use super::statement::ServerStatement;
use super::write::{BoundWrite, check_writable};
use super::{ExecuteError, Executor, request_id};

impl Executor {
    /// Runs a BATCH.
    pub(super) fn batch(&self, mut call: Call, batch: &Batch<'_>, out: &mut Vec<u8>) -> Flow {
        if let Some(trace) = &mut call.trace {
            trace.of("Execute batch of CQL3 queries", None, Some(&batch.parameters));
        }
        let keyspace = call.keyspace(batch.parameters.keyspace);
        let bound = self.bind_batch(&mut call, batch, keyspace.as_deref());
        self.submit(call, bound, out)
    }

    fn bind_batch(
        &self,
        call: &mut Call,
        batch: &Batch<'_>,
        keyspace: Option<&str>,
    ) -> Result<BoundWrite<'_>, ExecuteError> {
        check_serial(&batch.parameters)?;
        let request_id = batch.parameters.request_id;
        let statements = self.statements_of(batch, keyspace)?;
        self.shard.effort().rows(statements.len() as u64);
        let kind = kind_of(batch.kind);
        if let Some(first) = statements.first() {
            let place = &first.batch_places[usize::from(kind != BatchKind::Logged)];
            self.count(call, place, || first.name_of_batch(kind));
        }
        let tables = statements.iter().filter_map(|statement| plan_of(statement).ok());
        let counts = check_batch(kind, false, tables.map(|plan| &*plan.table))?;
        let mut replication: Vec<Replication> =
            statements.iter().flat_map(|statement| statement.replication.iter().copied()).collect();
        replication.dedup();
        if request_id.is_some() && !counts {
            return Err(request_id::means_nothing());
        }
        if statements.iter().any(is_conditional) {
            let warnings = warnings_of(&statements);
            return self.bind_conditional_batch(batch, &statements, &replication, warnings);
        }
        let time = self.state.time(&batch.parameters);
        let (mut record, mut scratch) = self.writes.buffers();
        let mut bound = self.begin_batch(kind, &mut record);
        let (watched, mut told) = (self.watched_of_writes(), Vec::new());
        for (statement, item) in statements.iter().zip(batch.statements()) {
            let bindings = Bindings::new(&item.values, statement.markers(), time)?;
            let BoundBatch { record, size, .. } = &mut bound;
            let plan = plan_of(statement)?;
            plan.bind_into_batch(&bindings, &mut scratch, record, size)?;
            if watched.is_some() {
                let now_us = self.state.now_us();
                let guardrails = &self.state.settings().guardrails;
                guardrails.check_write(plan, &bindings, now_us, &mut told)?;
            }
        }
        let mut warnings: Vec<String> =
            warnings_of(&statements).into_iter().chain(bound.size.warnings()).collect();
        let is_divided = bound.is_divided();
        if let Some(watched) = watched {
            self.guard_record(watched, &batch.parameters, &record, &mut told)?;
            warnings.append(&mut told);
        }
        let kind =
            WriteKind { level: batch.parameters.consistency, name: write_type(kind, counts) };
        let is_named = self.name(request_id, &mut record)?;
        let (timeout, not_applied) = (None, None);
        BoundWrite { record, kind, warnings, timeout, not_applied, is_divided, is_named }
            .check(&replication)
    }

    /// The statements of a batch, each a write of a table that may be written to.
    fn statements_of(
        &self,
        batch: &Batch<'_>,
        keyspace: Option<&str>,
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
                        let one = Rc::new(self.state.compile(&self.shard, text, keyspace)?);
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
        }
        Ok(statements)
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

/// What the user should know of the statements of a batch.
fn warnings_of(statements: &[Rc<ServerStatement>]) -> Vec<String> {
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
