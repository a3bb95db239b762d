//! Changes of the schema: planned here, ordered by the first shard, followed by every core before
//! the client hears of it.
//!
//! A core has one under way, and those behind it wait: each is planned against the schema that it will change, and only
//! changes of other cores come in between. If another core was faster, the statement is planned again.
//!
//! 1. The statement waits for its turn on this core: one change is made at a time. At most
//!    [`SCHEMA_CHANGES_WAITING_MAX`] wait, each for at most [`SCHEMA_CHANGE_TIMEOUT`], and the bytes of their
//!    statements are bounded (`held_bytes.rs`).
//! 2. [`ddl::plan`] turns it into a change of the schema as this core has it, or into nothing (`IF EXISTS`,
//!    `IF NOT EXISTS`), or into an error.
//! 3. The change goes to the first shard with the number of the schema that it was planned on. A DROP of tables takes
//!    the snapshot of `auto_snapshot` first.
//! 4. When every core follows the new schema, every core sends the event to its clients that registered for it, and
//!    then the client is answered.
//!
//! TRUNCATE changes no schema, but it is ordered with a snapshot as DROP is, while the schema stays: it counts as
//! one of those that wait, and takes a turn of its kind.
//!
//! Not here: what the statements mean (`cql/src/ddl.rs`), the log of changes (`shard/src/schema.rs`), which tables a
//! snapshot has (`snapshots.rs`).

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use cql::ddl::{self, Ddl, DdlContext, Object};
use cql::frame::response::{Envelope, SchemaEvent, SchemaTarget};
use cql::guardrails::Guardrail;
use cql::lang::ast::SchemaStatement;
use cql::prepare::Statement;
use engine::semaphore::{Permit, Semaphore};
use model::schema::{Table, TableId};
use model::{Schema, SchemaChange};
use shard::Group;
use shard::message::{AlterError, Alteration};
use shard::snapshots::{Removal, RemovalStep};
use uuid::Uuid;

use super::call::{Call, Flow};
use super::peers::Ask;
use super::snapshots;
use super::write::check_writable;
use super::{ExecuteError, Executor, ServerStatement};
use crate::limits::{SCHEMA_CHANGE_TIMEOUT, SCHEMA_CHANGES_WAITING_MAX};
use crate::system;

impl Executor {
    /// Runs CREATE, ALTER or DROP.
    pub(super) fn change_schema(
        self: &Rc<Self>,
        call: Call,
        statement: &Rc<ServerStatement>,
        out: &mut Vec<u8>,
    ) -> Flow {
        let number = self.count_schema_change();
        let bytes = || self.waiting_statements.hold(statement.bytes());
        let counted = match number.and_then(|number| Ok((number, bytes()?))) {
            Ok(counted) => counted,
            Err(refusal) => return self.refuse(call, refusal, out),
        };
        let (executor, statement) = (self.clone(), statement.clone());
        self.spawn(Group::Background, call, async move |call, out| {
            let Statement::Schema(change) = &statement.compiled.statement else {
                unreachable!("only a change of the schema is run here");
            };
            let keyspace = statement.keyspace.as_deref();
            let changed = executor.change_schema_later(call, change, keyspace, out).await;
            drop(counted);
            changed
        });
        Flow::Later
    }

    /// Counts one more that waits for its turn, as long as the count is held.
    fn count_schema_change(&self) -> Result<Rc<()>, ExecuteError> {
        let waiting = &self.schema_changes_waiting;
        if Rc::strong_count(waiting) > SCHEMA_CHANGES_WAITING_MAX {
            return Err(ExecuteError::Overloaded(format!(
                "{SCHEMA_CHANGES_WAITING_MAX} changes of the schema wait on this core: try again later"
            )));
        }
        Ok(waiting.clone())
    }

    /// Waits until those are done that came before on this core, of all that take turns by `turns`.
    async fn turn_of<'t>(&self, turns: &'t Semaphore) -> Result<Permit<'t>, ExecuteError> {
        self.turn_within(turns, SCHEMA_CHANGE_TIMEOUT).await.ok_or_else(|| {
            let waited = SCHEMA_CHANGE_TIMEOUT.as_secs();
            ExecuteError::Overloaded(format!(
                "Waited {waited} s for the changes of the schema before this one (a DROP or TRUNCATE waits for a snapshot that is being taken): try again later"
            ))
        })
    }

    /// `keyspace` is that of unqualified names: of the request or of the session, as it was when the statement was
    /// prepared.
    async fn change_schema_later(
        &self,
        call: &Call,
        statement: &SchemaStatement,
        keyspace: Option<&str>,
        out: &mut Vec<u8>,
    ) -> Result<(), ExecuteError> {
        let begun = Instant::now();
        let _turn = self.turn_of(&self.schema_turn).await?;
        loop {
            let schema = self.shard.schema();
            let context = DdlContext {
                schema: &schema,
                keyspace,
                is_system: system::is_guarded,
                data_center: &self.state.node().data_center,
                table_id: TableId(Uuid::new_v4()),
                timestamp_us: self.state.dividing_timestamp_us(),
                functions: self.state.functions(),
                functions_enabled: self.state.settings().functions_enabled,
                drop_compact_storage: self.state.settings().drop_compact_storage,
                sasi_indexes: self.state.settings().sasi_indexes,
                guardrails: &self.state.settings().guardrails,
            };
            let Ddl { step, warnings } = ddl::plan(statement, &context)?;
            let Some((change, event)) = step else {
                Envelope { warnings: &warnings, ..call.envelope() }.put_void(out);
                return Ok(());
            };
            let mut warnings = warnings;
            let alteration = Alteration { change, based_on: schema.number };
            match self.alter_or_remove(&schema, alteration).await {
                Ok(warning) => {
                    warnings.extend(warning);
                    self.ask_all(|| Ask::Tell(Box::new(event.clone()))).await;
                    let envelope = Envelope { warnings: &warnings, ..call.envelope() };
                    envelope.put_schema_change(&wire_event(&event), out);
                    return Ok(());
                }
                // Another core was first: planned again, on what it has made.
                Err(AlterError::Conflict) if begun.elapsed() < SCHEMA_CHANGE_TIMEOUT => {}
                Err(error) => return Err(ExecuteError::Schema(error)),
            }
        }
    }

    /// Changes the schema; a DROP behind a snapshot. What the client is to be warned of.
    async fn alter_or_remove(
        &self,
        schema: &Schema,
        alteration: Alteration,
    ) -> Result<Option<String>, AlterError> {
        let (name, tables): (_, Vec<&Table>) = match &alteration.change {
            SchemaChange::DropTable { keyspace, name } => (
                name.clone(),
                schema.table(keyspace, name).map(|table| &**table).into_iter().collect(),
            ),
            SchemaChange::DropKeyspace { name } => {
                let tables = schema.keyspace(name).into_iter().flat_map(|k| k.tables.values());
                (name.clone(), tables.map(|table| &**table).collect())
            }
            _ => (String::new(), Vec::new()),
        };
        let (settings, now_us) = (self.state.settings(), self.state.now_us());
        let yielder = self.shard.runtime().yielder(Group::Background);
        let paced = (now_us, || yielder.yield_if_due());
        let order = snapshots::before(settings, schema, ("dropped", &name), &tables, paced).await;
        let Some(order) = order else {
            return self.shard.alter(alteration.change, alteration.based_on).await.map(|_| None);
        };
        let removal = Removal { step: RemovalStep::Drop(alteration), order: Some(order) };
        let kept = self.shard.remove(removal).await?;
        Ok(snapshots::warning(kept, "dropped", &name))
    }

    /// Runs TRUNCATE on all shards.
    pub(super) fn truncate(
        self: &Rc<Self>,
        call: Call,
        table: &Arc<Table>,
        out: &mut Vec<u8>,
    ) -> Flow {
        let guardrails = &self.state.settings().guardrails;
        let mut warnings = Vec::new();
        let counted = check_writable(&table.keyspace)
            .and_then(|()| Ok(guardrails.allow(Guardrail::DropTruncateTable, &mut warnings)?))
            .and_then(|()| self.count_schema_change());
        let counted = match counted {
            Ok(counted) => counted,
            Err(refusal) => return self.refuse(call, refusal, out),
        };
        let (executor, table) = (self.clone(), table.clone());
        self.spawn(Group::Background, call, async move |call, out| {
            let truncated = executor.truncate_in_turn(&table).await;
            drop(counted);
            warnings.extend(truncated?);
            Envelope { warnings: &warnings, ..call.envelope() }.put_void(out);
            Ok(())
        });
        Flow::Later
    }

    /// Empties a table. What the client is to be warned of.
    async fn truncate_in_turn(&self, named: &Table) -> Result<Option<String>, ExecuteError> {
        let _turn = self.turn_of(&self.truncate_turn).await?;
        // What waits is small: the statements of the snapshot are made now.
        let (schema, settings) = (self.shard.schema(), self.state.settings());
        let Some(table) = schema.table_by_id(named.id) else {
            let name = &named.name;
            return Err(ExecuteError::invalid(format!("table {name} does not exist")));
        };
        let (of, now_us) = (("truncated", &*table.name), self.state.now_us());
        let yielder = self.shard.runtime().yielder(Group::Background);
        let paced = (now_us, || yielder.yield_if_due());
        let order = snapshots::before(settings, &schema, of, &[table], paced).await;
        let removal = Removal { step: RemovalStep::Truncate(table.id), order };
        let kept = self.shard.remove(removal).await.map_err(|error| match error {
            AlterError::Store(error) => ExecuteError::Truncate(error),
            error => ExecuteError::Schema(error),
        })?;
        Ok(snapshots::warning(kept, "truncated", &table.name))
    }
}

/// The event in the words of the protocol.
pub(super) fn wire_event(event: &ddl::Event) -> SchemaEvent<'_> {
    let target = match &event.object {
        Object::Keyspace => SchemaTarget::Keyspace,
        Object::Table(name) => SchemaTarget::Table(name),
        Object::Type(name) => SchemaTarget::Type(name),
        Object::Function(name, arguments) => SchemaTarget::Function(name, arguments),
        Object::Aggregate(name, arguments) => SchemaTarget::Aggregate(name, arguments),
    };
    SchemaEvent { change: event.change, keyspace: &event.keyspace, target }
}
