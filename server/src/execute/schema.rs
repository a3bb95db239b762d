//! Changes of the schema: planned here, ordered by the first shard, followed by every core before
//! the client hears of it.
//!
//! If somebody else was faster, the statement is planned again on the schema that came of it.

use std::rc::Rc;

use cql::ddl::{self, Ddl, DdlContext, Object};
use cql::frame::consistency::Consistency;
use cql::frame::response::{Envelope, SchemaEvent, SchemaTarget};
use cql::lang::ast::SchemaStatement;
use model::schema::{Table, TableId};
use model::{Schema, SchemaChange};
use shard::Group;
use shard::message::AlterError;
use uuid::Uuid;

use super::answer::WriteKind;
use super::call::{Call, Flow};
use super::peers::Ask;
use super::snapshots;
use super::write::check_writable;
use super::{ExecuteError, Executor};
use crate::system;

/// How often a statement is planned again when others change the schema at the same time.
const ATTEMPTS_MAX: usize = 64;

impl Executor {
    /// Runs CREATE, ALTER or DROP.
    pub(super) fn change_schema(self: &Rc<Self>, call: Call, statement: SchemaStatement) -> Flow {
        let executor = self.clone();
        self.spawn(Group::Background, call, async move |call, out| {
            executor.change_schema_later(call, &statement, out).await
        });
        Flow::Later
    }

    async fn change_schema_later(
        &self,
        call: &Call,
        statement: &SchemaStatement,
        out: &mut Vec<u8>,
    ) -> Result<(), ExecuteError> {
        let current = call.session.keyspace.borrow().clone();
        for _ in 0..ATTEMPTS_MAX {
            let schema = self.shard.schema();
            let context = DdlContext {
                schema: &schema,
                keyspace: current.as_deref(),
                is_system: system::is_guarded,
                data_center: &self.state.node().data_center,
                table_id: TableId(Uuid::new_v4()),
                timestamp_us: self.state.dividing_timestamp_us(),
            };
            let Ddl { step, warnings } = ddl::plan(statement, &context)?;
            let Some((change, event)) = step else {
                Envelope { warnings: &warnings, ..call.envelope() }.put_void(out);
                return Ok(());
            };
            let mut warnings = warnings;
            warnings.extend(self.snapshot_before_drop(&schema, &change).await?);
            let envelope = Envelope { warnings: &warnings, ..call.envelope() };
            match self.shard.alter(change, schema.number).await {
                Ok(_) => {
                    self.ask_all(|| Ask::Tell(Box::new(event.clone()))).await;
                    envelope.put_schema_change(&wire_event(&event), out);
                    return Ok(());
                }
                Err(AlterError::Conflict) => {}
                Err(error) => return Err(ExecuteError::Schema(error)),
            }
        }
        Err(ExecuteError::Schema(AlterError::Conflict))
    }

    /// Takes the snapshot that comes before a DROP; what the client is to be warned of.
    async fn snapshot_before_drop(
        &self,
        schema: &Schema,
        change: &SchemaChange,
    ) -> Result<Option<String>, ExecuteError> {
        let (name, tables): (_, Vec<&Table>) = match change {
            SchemaChange::DropTable { keyspace, name } => {
                (name, schema.table(keyspace, name).map(|table| &**table).into_iter().collect())
            }
            SchemaChange::DropKeyspace { name } => {
                let tables = schema.keyspace(name).into_iter().flat_map(|k| k.tables.values());
                (name, tables.map(|table| &**table).collect())
            }
            _ => return Ok(None),
        };
        if !self.state.settings().auto_snapshot {
            return Ok(None);
        }
        let taken = snapshots::before(&self.shard, "dropped", name, &tables, self.state.now_us());
        taken.await.map_err(|error| ExecuteError::Schema(AlterError::Store(error)))
    }

    /// Runs TRUNCATE on all shards.
    pub(super) fn truncate(self: &Rc<Self>, call: Call, table: &Table, out: &mut Vec<u8>) -> Flow {
        if let Err(refusal) = check_writable(&table.keyspace) {
            return self.refuse(call, refusal, out);
        }
        let (executor, table) = (self.clone(), Rc::new(table.clone()));
        self.spawn(Group::Background, call, async move |call, out| {
            let kind = WriteKind { level: Consistency::All, name: "SIMPLE" };
            let refused = |error| ExecuteError::Write(error, kind);
            let mut warnings = Vec::new();
            if executor.state.settings().auto_snapshot {
                let (shard, now_us) = (&executor.shard, executor.state.now_us());
                let (name, tables) = (&table.name, [&*table]);
                let taken = snapshots::before(shard, "truncated", name, &tables, now_us).await;
                warnings.extend(taken.map_err(refused)?);
            }
            executor.shard.truncate(table.id).await.map_err(refused)?;
            Envelope { warnings: &warnings, ..call.envelope() }.put_void(out);
            Ok(())
        });
        Flow::Later
    }
}

/// The event in the words of the protocol.
pub(super) fn wire_event(event: &ddl::Event) -> SchemaEvent<'_> {
    let target = match &event.object {
        Object::Keyspace => SchemaTarget::Keyspace,
        Object::Table(name) => SchemaTarget::Table(name),
        Object::Type(name) => SchemaTarget::Type(name),
    };
    SchemaEvent { change: event.change, keyspace: &event.keyspace, target }
}
