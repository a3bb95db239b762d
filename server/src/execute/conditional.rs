//! Conditional writes (LWT): bound with their conditions into one record of one partition, and answered with `[applied]`.
//!
//! ```text
//! statement or batch with IF ─► record: conditions, then what is written ─► the owner's queue of the partition
//!      ─► applied: the write is durable ─► [applied] true
//!      └► not applied: the rows as they are ─► [applied] false and these rows
//! ```
//!
//! The owner judges the conditions when all writes that came before can be read, and no other write of the partition
//! comes between (`engine/src/read_before_write.rs`). A client that is told of a time-out does not know whether the
//! write was applied: it may read, or write again with a condition that tells (`docs/conditional-writes.md`).

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cql::bind::Bindings;
use cql::frame::consistency::Consistency;
use cql::frame::request::{Batch, Parameters};
use cql::frame::response::Envelope;
use cql::plan::{ConditionalWrite, Extent, NotApplied, Scratch, WritePlan};
use cql::prepare::Statement;

use super::answer::WriteKind;
use super::batch::{BatchOutline, warnings_of};
use super::statement::ServerStatement;
use super::write::BoundWrite;
use super::{ExecuteError, Executor, Run};

/// The write type of the protocol.
pub(super) const WRITE_TYPE: &str = "CAS";

impl Executor {
    /// Binds a statement, or a batch that is one text, of which a statement has a condition.
    #[cold]
    pub(super) fn bind_conditional(
        &self,
        run: Run<'_>,
        (extent, plans): (Extent, &[WritePlan]),
        not_applied: &Arc<NotApplied>,
        timeout: impl FnOnce(&Bindings<'_>) -> cql::Result<Option<Duration>>,
    ) -> Result<BoundWrite<'_>, ExecuteError> {
        let bindings = self.bindings_of(run)?;
        let (mut record, mut scratch) = self.writes.buffers();
        ConditionalWrite::bind(extent, plans, &bindings, &mut scratch, &mut record)?;
        let mut warnings = run.statement.compiled.warnings.clone();
        if let Some(watched) = self.watched_of_writes() {
            let (guardrails, now_us) = (&self.state.settings().guardrails, self.state.now_us());
            for plan in plans {
                guardrails.check_write(plan, &bindings, now_us, &mut warnings)?;
            }
            self.guard_record(watched, run.parameters, &record, &mut warnings)?;
        }
        let bound = BoundWrite {
            record,
            kind: kind(run.parameters),
            warnings,
            timeout: timeout(&bindings)?,
            not_applied: Some(not_applied.clone()),
            is_divided: false,
            is_named: false,
        };
        bound.check(run.parameters.consistency, &run.statement.replication)
    }

    /// Binds a BATCH message of which at least one statement has a condition. `pause` is called after each statement,
    /// and may end it. Its timestamp is that of when it begins to be bound: the rows that its conditions name are
    /// written over what comes in between, and its other rows may lose to that.
    #[cold]
    pub(super) async fn bind_conditional_batch(
        &self,
        batch: &Batch<'_>,
        statements: &[Rc<ServerStatement>],
        (record, scratch): (&mut Vec<u8>, &mut Scratch),
        pause: impl AsyncFn() -> Result<(), ExecuteError>,
    ) -> Result<BatchOutline, ExecuteError> {
        let mut warnings = warnings_of(statements);
        let plans = || {
            statements.iter().filter_map(|one| match &one.compiled.statement {
                Statement::Write(plan) => Some(&**plan),
                _ => None,
            })
        };
        let schema = self.shard.schema();
        let not_applied = NotApplied::of_batch(plans(), &schema)?.map(Arc::new);
        let time = self.state.own_time(&batch.parameters);
        let mut write = ConditionalWrite::new(Extent::Batch);
        let (watched, now_us) = (self.watched_of_writes(), self.state.now_us());
        for ((statement, plan), item) in statements.iter().zip(plans()).zip(batch.statements()) {
            let bindings = Bindings::new(&item.values, statement.markers(), time)?;
            write.add(plan, &bindings, scratch)?;
            if watched.is_some() {
                let guardrails = &self.state.settings().guardrails;
                guardrails.check_write(plan, &bindings, now_us, &mut warnings)?;
            }
            pause().await?;
        }
        write.put(&Bindings::none(time), record);
        if let Some(watched) = watched {
            self.guard_record(watched, &batch.parameters, record, &mut warnings)?;
        }
        let (kind, is_divided, is_named) = (kind(&batch.parameters), false, false);
        Ok(BatchOutline { kind, warnings, not_applied, is_divided, is_named })
    }

    /// The values of a statement, at a time of the server.
    fn bindings_of<'r>(&'r self, run: Run<'r>) -> Result<Bindings<'r>, ExecuteError> {
        let mut bindings = Bindings::none(self.state.own_time(run.parameters));
        bindings.bind(&run.parameters.values, run.statement.markers())?;
        Ok(bindings)
    }

    /// Appends the answer to a write that was not applied, with the rows that its conditions have found.
    #[cold]
    pub(super) fn put_not_applied(
        &self,
        not_applied: &NotApplied,
        found: &[u8],
        envelope: &Envelope<'_>,
        out: &mut Vec<u8>,
    ) -> Result<u32, ExecuteError> {
        let parameters = Parameters::plain(Consistency::One, envelope.version);
        Ok(not_applied.put_found(found, self.state.own_time(&parameters), envelope, out)?)
    }
}

/// What a client is told of a conditional write that fails: of its serial level.
fn kind(parameters: &Parameters<'_>) -> WriteKind {
    let level = parameters.serial_consistency.unwrap_or(Consistency::Serial);
    WriteKind { level, name: WRITE_TYPE }
}

/// Refuses a level of a message that no conditional write has.
pub(super) fn check_commit_level(level: Consistency) -> Result<(), ExecuteError> {
    match level.is_serial() {
        true => Err(ExecuteError::invalid(format!(
            "{} is not supported as conditional update commit consistency. Use ANY if you mean \"make sure it is accepted but I don't care how many replicas commit it for non-SERIAL reads\"",
            level.name()
        ))),
        false => Ok(()),
    }
}
