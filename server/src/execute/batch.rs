//! BATCH as a message: statements by text and by id, bound one after the other into one record.
//!
//! What one core owns of a batch is one record of its log, so it is durable and readable as a whole
//! or not at all; parts of different cores are not atomic with each other.

use super::answer::WriteKind;
use super::consistency::{Replication, check_serial};
use super::statement::{Prepared, check_writable};
use super::write::Promise;
use super::{Call, Executor, Progress, Refusal};
use cql::bind::Bindings;
use cql::frame::request::{self, Batch, BatchText};
use cql::lang::ast::BatchKind;
use cql::plan::{BatchSize, Records};
use cql::prepare::Statement;
use model::Token;
use shard::owner::{ShardId, Sharder};
use std::rc::Rc;

impl Executor {
    /// Runs a BATCH.
    pub(super) fn batch(
        self: &Rc<Self>,
        call: &mut Option<Call>,
        batch: &Batch<'_>,
        out: &mut Vec<u8>,
    ) -> Progress {
        check_serial(&batch.parameters)?;
        if let Some(trace) = call.as_mut().and_then(|call| call.trace.as_mut()) {
            trace.of("Execute batch of CQL3 queries", None, Some(&batch.parameters));
        }
        let keyspace = self.keyspace_of(call, batch.parameters.keyspace);
        let mut statements: Vec<Rc<Prepared>> = Vec::new();
        for item in batch.statements() {
            let statement = match item.text {
                BatchText::Query(text) => Rc::new(self.core.compile(text, keyspace.as_deref())?),
                BatchText::Prepared(id) => self
                    .core
                    .prepared()
                    .borrow_mut()
                    .get(id)
                    .ok_or_else(|| Refusal::Unprepared(id.to_vec()))?,
            };
            let Statement::Write(plan) = &statement.compiled.statement else {
                return Err(Refusal::invalid(
                    "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.",
                ));
            };
            check_writable(&plan.table.keyspace)?;
            statements.push(statement);
        }
        let kind = kind_of(batch.kind);
        // Counter tables cannot be made yet, so every statement is of another kind.
        if kind == BatchKind::Counter && !statements.is_empty() {
            return Err(Refusal::invalid(
                "Cannot include non-counter statement in a counter batch",
            ));
        }
        let mut replication: Vec<Replication> =
            statements.iter().flat_map(|statement| statement.replication.iter().copied()).collect();
        replication.dedup();
        let level = batch.parameters.consistency;
        let promised = WriteKind { level, name: write_type(kind) };
        let promise = Promise { kind: promised, replication: &replication };
        let moment = self.core.moment(&batch.parameters);
        let warnings = statements.iter().flat_map(|one| one.compiled.warnings.clone()).collect();
        self.write(call, promise, warnings, out, |scratch, record| {
            self.bind_batch(kind, record, |record, size| {
                for (statement, item) in statements.iter().zip(batch.statements()) {
                    let Statement::Write(plan) = &statement.compiled.statement else {
                        unreachable!("checked before")
                    };
                    let bindings = Bindings::new(&item.values, statement.markers(), moment)?;
                    plan.bind_into_batch(&bindings, scratch, record, size)?;
                }
                Ok(())
            })
        })
    }

    /// Lets `bind` fill the record of a batch; gives what its user should know.
    pub(super) fn bind_batch(
        &self,
        kind: BatchKind,
        record: &mut Vec<u8>,
        bind: impl FnOnce(&mut BatchRecord<'_>, &mut BatchSize) -> cql::Result<()>,
    ) -> cql::Result<Vec<String>> {
        let sharder = self.shard.sharder();
        let mut size = BatchSize::new(kind, self.core.settings().batch);
        let mut record = BatchRecord { record, sharder, owner: None, is_divided: false };
        bind(&mut record, &mut size)?;
        let mut warnings = size.warnings();
        if kind == BatchKind::Logged && record.is_divided {
            warnings.push(NOT_ATOMIC.to_owned());
        }
        Ok(warnings)
    }
}

/// What the user of a logged batch should know when no single log can hold it.
const NOT_ATOMIC: &str = "Logged batch covers partitions of several shards: each shard writes its \
    part whole or not at all, but a failure may leave the parts of some shards written and those of \
    others not. Write again until it succeeds, or keep a batch to one partition.";

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
pub(super) fn write_type(kind: BatchKind) -> &'static str {
    match kind {
        BatchKind::Logged => "BATCH",
        BatchKind::Unlogged => "UNLOGGED_BATCH",
        BatchKind::Counter => "COUNTER",
    }
}
