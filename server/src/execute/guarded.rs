//! The guardrails of reads, writes and prepared texts, where they are executed; what each compares: `cql/src/guardrails`.
//!
//! One load tells whether any may fire; what comes here has one that may. The server's own tables are not looked at:
//! drivers read them to connect, and operators to see.

use std::sync::Arc;

use cql::bind::Bindings;
use cql::frame::request::Parameters;
use cql::guardrails::{Guardrails, Watched};
use cql::plan::{BatchPlan, BoundRead, WritePlan};
use cql::prepare::Statement;
use model::Schema;

use super::read::SelectRun;
use super::statement::ServerStatement;
use super::{ExecuteError, Executor};
use crate::system;

impl Executor {
    /// Looks at a text that is prepared; what it does is looked at again whenever it is executed.
    pub(super) fn guard_text(
        &self,
        statement: &ServerStatement,
    ) -> Result<Vec<String>, ExecuteError> {
        let guardrails = &self.state.settings().guardrails;
        let mut warnings = Vec::new();
        match &statement.compiled.statement {
            Statement::Select(plan) | Statement::Explain(plan)
                if !system::is_guarded(&plan.table.keyspace) =>
            {
                guardrails.check_select_text(plan, &mut warnings)?;
            }
            Statement::Write(plan) => guardrails.check_write_text(plan, &mut warnings)?,
            Statement::Batch(plan) => guardrails.check_batch_text(plan, &mut warnings)?,
            _ => {}
        }
        Ok(warnings)
    }

    /// Looks at a bound SELECT, which takes the warnings along.
    #[inline]
    pub(super) fn guard_read(
        &self,
        select: &SelectRun<'_>,
        bound: &mut BoundRead,
    ) -> Result<(), ExecuteError> {
        let guardrails = &self.state.settings().guardrails;
        if !guardrails.watched().has_of_reads() || system::is_guarded(&select.plan.table.keyspace) {
            return Ok(());
        }
        let parameters = select.run.parameters;
        let asked = (parameters.consistency, parameters.page_rows);
        Ok(guardrails.check_select(select.plan, select.bindings, asked, bound)?)
    }

    /// The guardrails that may fire for a write; none if none may.
    #[inline]
    pub(super) fn watched_of_writes(&self) -> Option<Watched> {
        Some(self.state.settings().guardrails.watched()).filter(|watched| watched.has_of_writes())
    }

    /// Looks at the levels of a write, and at the disk.
    #[cold]
    pub(super) fn guard_levels(
        &self,
        parameters: &Parameters<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), ExecuteError> {
        let guardrails = &self.state.settings().guardrails;
        let (level, serial) = (parameters.consistency, parameters.serial_consistency);
        guardrails.check_write_levels(level, serial, warnings)?;
        Ok(guardrails.check_disk(self.shard.engine().disk_used_percent(), warnings)?)
    }

    /// The guardrails that look at what a write binds; `None` if none may fire.
    #[inline]
    pub(super) fn guards(&self) -> Option<Guards> {
        let watched = self.watched_of_writes()?;
        let (all, schema) = (self.state.settings().guardrails.clone(), self.shard.schema());
        Some(Guards { all, watched, schema, now_us: self.state.now_us() })
    }
}

/// The guardrails that look at what is bound, on its core or beside it.
pub(super) struct Guards {
    all: Arc<Guardrails>,
    /// Which of them may fire.
    watched: Watched,
    /// The schema that knows the tables of a record.
    schema: Arc<Schema>,
    /// The wall clock, in microseconds since 1970.
    now_us: i64,
}

impl Guards {
    /// Looks at the values of a statement.
    pub(super) fn check_statement(
        &self,
        plan: &WritePlan,
        bindings: &Bindings<'_>,
        warnings: &mut Vec<String>,
    ) -> cql::Result<()> {
        self.all.check_write(plan, bindings, self.now_us, warnings)
    }

    /// Looks at a batch that is one text.
    pub(super) fn check_batch(
        &self,
        plan: &BatchPlan,
        bindings: &Bindings<'_>,
        warnings: &mut Vec<String>,
    ) -> cql::Result<()> {
        self.all.check_batch(plan, bindings, self.now_us, warnings)
    }

    /// Looks at all that a write writes.
    pub(super) fn check_record(
        &self,
        record: &[u8],
        warnings: &mut Vec<String>,
    ) -> cql::Result<()> {
        let table = |id| self.schema.table_by_id(id);
        self.all.check_values(record, self.watched, table, warnings)
    }
}
