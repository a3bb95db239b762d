//! Statements about the schema, judged against one schema and turned into a change of it.
//!
//! ```text
//! ast ── plan(statement, context) ──► Ddl { step, warnings }     or an error in Cassandra's words
//! ```
//!
//! Pure: ids and the time come with the [`DdlContext`]. The change is only right for the schema it was
//! planned against; the caller that applies it checks that this is still the current one.

mod compact;
mod functions;
mod guarded;
pub(crate) mod index;
mod keyspace;
mod like;
mod options;
mod readded;
mod table;
#[cfg(test)]
mod tests;
mod types;
mod view;

use std::sync::Arc;

use model::schema::{Keyspace, Schema, SchemaChange, TableId};

use crate::error::{Error, Result};
use crate::expr::function::UserFunctions;
use crate::guardrails::Guardrails;
use crate::lang::ast::{QualifiedName, SchemaStatement};

/// The schema, names and time that a statement about the schema is planned with.
#[derive(Clone, Copy)]
pub struct DdlContext<'g> {
    /// The schema now.
    pub schema: &'g Schema,
    /// The keyspace that USE chose, for unqualified names.
    pub keyspace: Option<&'g str>,
    /// Keyspaces that are the server's own.
    pub is_system: fn(&str) -> bool,
    /// The name of the one data centre.
    pub data_center: &'g str,
    /// The id of a table to be made.
    pub table_id: TableId,
    /// No older than any write so far, and older than every later one: when what a column holds ends that is dropped.
    /// In microseconds.
    pub timestamp_us: i64,
    /// What runs functions of users.
    pub functions: &'g dyn UserFunctions,
    /// Whether functions and aggregates of users are made (`user_defined_functions_enabled`).
    pub functions_enabled: bool,
    /// Whether `ALTER TABLE .. DROP COMPACT STORAGE` is allowed (`drop_compact_storage_enabled`).
    pub drop_compact_storage: bool,
    /// Whether indexes of the class SASIIndex are made (`sasi_indexes_enabled`).
    pub sasi_indexes: bool,
    /// What the operator has set.
    pub guardrails: &'g Guardrails,
}

/// What happened to what, as clients are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `CREATED`, `UPDATED` or `DROPPED`.
    pub change: &'static str,
    /// The keyspace, or that of the object.
    pub keyspace: String,
    /// The keyspace, table or type that changed.
    pub object: Object,
}

/// The object that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// The keyspace itself changed.
    Keyspace,
    /// The table with this name changed.
    Table(String),
    /// The user type with this name changed.
    Type(String),
    /// The function with this name and these types of arguments changed.
    Function(String, Vec<String>),
    /// The aggregate with this name and these types of arguments changed.
    Aggregate(String, Vec<String>),
}

/// A planned statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Ddl {
    /// What to do and what to tell; nothing when IF EXISTS or IF NOT EXISTS settles it.
    pub step: Option<(SchemaChange, Event)>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

impl Ddl {
    /// Nothing to do.
    fn nothing() -> Ddl {
        Ddl { step: None, warnings: Vec::new() }
    }

    fn step(
        change: SchemaChange,
        what: &'static str,
        keyspace: &str,
        object: Object,
        warnings: Vec<String>,
    ) -> Ddl {
        let event = Event { change: what, keyspace: keyspace.to_owned(), object };
        Ddl { step: Some((change, event)), warnings }
    }
}

/// The change of the schema that a statement asks for, if the guardrails let it through.
pub fn plan(statement: &SchemaStatement, context: &DdlContext<'_>) -> Result<Ddl> {
    let mut warnings = Vec::new();
    let kept = guarded::before(context, statement, &mut warnings)?;
    let mut planned = planned(kept.as_ref().unwrap_or(statement), context)?;
    guarded::after(context, &planned, &mut warnings)?;
    planned.warnings.splice(0..0, warnings);
    Ok(planned)
}

fn planned(statement: &SchemaStatement, context: &DdlContext<'_>) -> Result<Ddl> {
    match statement {
        SchemaStatement::CreateKeyspace { name, if_not_exists, properties } => {
            keyspace::create(context, name, *if_not_exists, properties)
        }
        SchemaStatement::AlterKeyspace { name, if_exists, properties } => {
            keyspace::alter(context, name, *if_exists, properties)
        }
        SchemaStatement::DropKeyspace { name, if_exists } => {
            keyspace::drop(context, name, *if_exists)
        }
        SchemaStatement::CreateTable(create) => table::create(context, create),
        SchemaStatement::CreateTableLike(create) => like::create(context, create),
        SchemaStatement::AlterTable(alter) => table::alter(context, alter),
        SchemaStatement::DropTable { name, if_exists } => table::drop(context, name, *if_exists),
        SchemaStatement::CreateView(create) => view::create(context, create),
        SchemaStatement::AlterView { name, if_exists, properties } => {
            view::alter(context, name, *if_exists, properties)
        }
        SchemaStatement::DropView { name, if_exists } => view::drop(context, name, *if_exists),
        SchemaStatement::CreateType { name, if_not_exists, fields } => {
            types::create(context, name, *if_not_exists, fields)
        }
        SchemaStatement::AlterType(alter) => types::alter(context, alter),
        SchemaStatement::DropType { name, if_exists } => types::drop(context, name, *if_exists),
        SchemaStatement::CreateFunction(create) => functions::create(context, create),
        SchemaStatement::CreateAggregate(create) => functions::create_aggregate(context, create),
        SchemaStatement::DropFunction(drop) => functions::drop(context, drop),
        SchemaStatement::CreateIndex(create) => index::create(context, create),
        SchemaStatement::DropIndex { name, if_exists } => index::drop(context, name, *if_exists),
    }
}

impl<'g> DdlContext<'g> {
    /// The keyspace that a name means, whether it exists or not.
    fn named_keyspace<'n>(&self, name: &'n QualifiedName) -> Result<&'n str>
    where
        'g: 'n,
    {
        name.keyspace.as_deref().or(self.keyspace).ok_or_else(|| {
            Error::invalid(
                "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename",
            )
        })
    }

    /// The keyspace that a name means, in which something is to be changed: those of the server itself are refused.
    fn keyspace_of<'n>(&self, name: &'n QualifiedName) -> Result<&'n str>
    where
        'g: 'n,
    {
        let keyspace = self.named_keyspace(name)?;
        self.check_modifiable(keyspace)?;
        Ok(keyspace)
    }

    fn check_modifiable(&self, keyspace: &str) -> Result<()> {
        if (self.is_system)(keyspace) {
            let text = format!("{keyspace} keyspace is not user-modifiable.");
            return Err(Error::Unauthorized(text));
        }
        Ok(())
    }

    fn existing(&self, keyspace: &str) -> Result<&'g Arc<Keyspace>> {
        let missing = || Error::invalid(format!("Keyspace '{keyspace}' doesn't exist"));
        self.schema.keyspace(keyspace).ok_or_else(missing)
    }
}

/// Whether a name may be part of a path: every other is refused, quoted or not.
fn is_word(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
