//! Binds writes: the values of a statement, or of a BATCH message, become the record of mutations that a shard gets.
//!
//! ```text
//! prepared statement + values + time ─► Binder ─► record, and what is told of it: warnings, time-out, owners
//!     └► on the core, or beside it (`beside_core.rs`): it holds nothing of the core
//! ```
//!
//! Not here: the writes that are most of all, without a condition and by themselves, which `write.rs` binds in fewer
//! steps; levels and names (`write.rs`).

use std::cell::Cell;
use std::slice;
use std::time::Duration;

use cql::bind::{Bindings, BoundOn, StatementTime};
use cql::frame::request::Batch;
use cql::lang::ast::BatchKind;
use cql::plan::{
    BatchPlan, BatchSize, BatchThresholds, ConditionalWrite, Extent, Records, Scratch, WritePlan,
};
use cql::prepare::{Prepared, Statement};
use model::Token;
use shard::owner::{ShardId, Sharder};

use super::batch::plan_of;
use super::guarded::Guards;
use super::{ExecuteError, Executor};

/// What binding needs beside a statement, its values and its time.
pub(super) struct Binder {
    /// Who owns which token.
    pub(super) sharder: Sharder,
    /// From when on batches are warned of and refused.
    pub(super) thresholds: BatchThresholds,
    /// The guardrails, if one may fire for a write.
    pub(super) guards: Option<Guards>,
    /// Which thread binds.
    pub(super) bound_on: BoundOn,
    /// What each statement of a BATCH message may take; `None`: as much as any statement.
    pub(super) work_at_once: Option<u64>,
    /// Whether one of them needs more than that. The message is to be bound elsewhere then.
    pub(super) needs_more_work: Cell<bool>,
    /// What evaluating the values of the statements of a BATCH message has taken, in units of work.
    pub(super) message_work: Cell<u64>,
}

/// What kind of BATCH message is bound.
#[derive(Clone, Copy)]
pub(super) struct MessageKind {
    pub(super) kind: BatchKind,
    /// Whether a statement has a condition.
    pub(super) is_conditional: bool,
}

/// What binding gives beside the record.
#[derive(Debug, Default)]
pub(super) struct Bound {
    /// What the client should know beside the result.
    pub(super) warnings: Vec<String>,
    /// The same of guardrails, whose warnings have a limit of their own.
    pub(super) of_guardrails: Vec<String>,
    /// What `USING TIMEOUT` says.
    pub(super) timeout: Option<Duration>,
    /// Whether it is a logged batch that several cores own.
    pub(super) is_divided: bool,
}

impl Executor {
    /// What binding on this thread needs of this core.
    pub(super) fn binder(&self, bound_on: BoundOn) -> Binder {
        let (sharder, thresholds) = (self.shard.sharder(), self.state.settings().batch);
        Binder {
            sharder,
            thresholds,
            guards: self.guards(),
            bound_on,
            work_at_once: None,
            needs_more_work: Cell::new(false),
            message_work: Cell::new(0),
        }
    }
}

impl Binder {
    /// Binds a write that is one statement.
    pub(super) fn statement(
        &self,
        prepared: &Prepared,
        bindings: &mut Bindings<'_>,
        (record, scratch): (&mut Vec<u8>, &mut Scratch),
    ) -> cql::Result<Bound> {
        bindings.set_bound_on(self.bound_on);
        let mut bound = Bound { warnings: prepared.warnings.clone(), ..Bound::default() };
        let buffers = (&mut *record, scratch);
        match &prepared.statement {
            Statement::Write(plan) => self.write(plan, bindings, buffers, &mut bound)?,
            Statement::Batch(plan) => self.batch(plan, bindings, buffers, &mut bound)?,
            _ => unreachable!("only writes are bound"),
        }
        self.guard_record(record, &mut bound.of_guardrails)?;
        bound.timeout = prepared.statement.write_timeout(bindings)?;
        Ok(bound)
    }

    fn write(
        &self,
        plan: &WritePlan,
        bindings: &Bindings<'_>,
        (record, scratch): (&mut Vec<u8>, &mut Scratch),
        bound: &mut Bound,
    ) -> cql::Result<()> {
        if plan.condition.is_some() {
            let plans = slice::from_ref(plan);
            ConditionalWrite::bind(Extent::Statement, plans, bindings, scratch, record)?;
        } else {
            plan.bind_write(bindings, scratch, record)?;
        }
        self.guard(plan, bindings, &mut bound.of_guardrails)
    }

    fn batch(
        &self,
        plan: &BatchPlan,
        bindings: &mut Bindings<'_>,
        (record, scratch): (&mut Vec<u8>, &mut Scratch),
        bound: &mut Bound,
    ) -> cql::Result<()> {
        if plan.not_applied.is_some() {
            ConditionalWrite::bind(Extent::Batch, &plan.writes, bindings, scratch, record)?;
            let warnings = &mut bound.of_guardrails;
            return plan.writes.iter().try_for_each(|write| self.guard(write, bindings, warnings));
        }
        let mut records = self.batch_record(record);
        let mut size = BatchSize::new(plan.kind, self.thresholds);
        plan.bind_write(bindings, scratch, &mut records, &mut size)?;
        bound.is_divided = records.is_divided(plan.kind);
        bound.warnings.extend(size.warnings());
        match &self.guards {
            None => Ok(()),
            Some(guards) => guards.check_batch(plan, bindings, &mut bound.of_guardrails),
        }
    }

    /// Binds the statements of a BATCH message of this kind. `pause` is called between two of them, and may end it.
    /// What the statements themselves warn of is not among the warnings.
    pub(super) async fn message<'p>(
        &self,
        (batch, MessageKind { kind, is_conditional }): (&Batch<'_>, MessageKind),
        statements: impl Iterator<Item = &'p Prepared>,
        time: StatementTime<'_>,
        (record, scratch): (&mut Vec<u8>, &mut Scratch),
        pause: impl AsyncFn() -> Result<(), ExecuteError>,
    ) -> Result<Bound, ExecuteError> {
        let mut conditional = ConditionalWrite::new(Extent::Batch);
        let mut records = self.batch_record(record);
        let mut size = BatchSize::new(kind, self.thresholds);
        let mut bound = Bound::default();
        let mut left = batch.len();
        for (prepared, item) in statements.zip(batch.statements()) {
            left -= 1;
            let mut bindings = Bindings::new(&item.values, &prepared.markers, time)?;
            bindings.set_bound_on(self.bound_on);
            if let Some(units) = self.work_at_once {
                bindings.set_work_at_once(units);
            }
            let plan = plan_of(prepared)?;
            let added = match is_conditional {
                true => conditional.add(plan, &bindings, scratch),
                false => plan.bind_into_batch(&bindings, scratch, &mut records, &mut size),
            };
            let guarded =
                added.and_then(|()| self.guard(plan, &bindings, &mut bound.of_guardrails));
            let work = self.message_work.get().saturating_add(bindings.work_done());
            self.message_work.set(work);
            self.needs_more_work.set(self.needs_more_work.get() || bindings.needs_more_work());
            guarded?;
            if left > 0 {
                pause().await?;
            }
        }
        bound.is_divided = records.is_divided(kind);
        if is_conditional {
            conditional.put(&Bindings::none(time), record);
        }
        bound.warnings.extend(size.warnings());
        self.guard_record(record, &mut bound.of_guardrails)?;
        Ok(bound)
    }

    /// Looks at the values of a statement.
    fn guard(
        &self,
        plan: &WritePlan,
        bindings: &Bindings<'_>,
        warnings: &mut Vec<String>,
    ) -> cql::Result<()> {
        match &self.guards {
            None => Ok(()),
            Some(guards) => guards.check_statement(plan, bindings, warnings),
        }
    }

    /// Looks at the values of all that was bound.
    fn guard_record(&self, record: &[u8], warnings: &mut Vec<String>) -> cql::Result<()> {
        match &self.guards {
            None => Ok(()),
            Some(guards) => guards.check_record(record, warnings),
        }
    }

    fn batch_record<'r>(&self, record: &'r mut Vec<u8>) -> BatchRecord<'r> {
        BatchRecord { record, sharder: self.sharder, owner: None, is_divided: false }
    }
}

/// The record of a batch, and whether more than one shard owns a part of it.
struct BatchRecord<'r> {
    record: &'r mut Vec<u8>,
    sharder: Sharder,
    owner: Option<ShardId>,
    is_divided: bool,
}

impl BatchRecord<'_> {
    /// Whether the batch is to be written as a whole, and more than one core owns a part of it.
    fn is_divided(&self, kind: BatchKind) -> bool {
        kind == BatchKind::Logged && self.is_divided
    }
}

impl Records for BatchRecord<'_> {
    fn of(&mut self, token: Token) -> &mut Vec<u8> {
        let owner = self.sharder.shard_of(token);
        self.is_divided |= *self.owner.get_or_insert(owner) != owner;
        self.record
    }
}
