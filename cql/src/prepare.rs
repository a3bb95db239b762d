//! Statements made ready: names looked up, types checked, everything compiled to plans.
//!
//! ```text
//! Parsed ──► Use, Describe                  as they are
//!        ──► Select, Explain, Write, Batch  plans with their markers
//!        ──► Schema                         looked at when it is executed: the schema may be newer
//! ```
//!
//! A plan belongs to the version of the schema that it was made with. A cache of plans forgets those whose table has
//! changed, and clients prepare their statements again (`server/src/prepared.rs`).

mod batch;
mod cells;
mod condition;
mod counters;
mod hints;
mod name;
mod select;
#[cfg(test)]
mod tests;
mod write;

use std::sync::Arc;
use std::time::Duration;

pub use counters::check_batch;
use model::schema::{ColumnKind, Schema};
use model::{CqlType, Table};
pub use name::{find_table, no_keyspace_in_use};

use crate::bind::{Bindings, Marker};
use crate::error::{Error, Result};
pub use crate::expr::function::CalledName;
use crate::expr::{Collected, Compiler};
use crate::frame::Value;
use crate::frame::request::Values as ValuesOfRequest;
use crate::json::JsonInsert;
use crate::lang::ast::{self, Describe, QualifiedName};
use crate::lang::parse;
use crate::plan::{BatchPlan, SelectPlan, WritePlan};
use crate::restrict::{PartitionChoice, ValueSet, Values};

/// What a statement is, ready to be executed.
#[derive(Debug)]
pub enum Statement {
    /// `USE ks`: the keyspace of unqualified names.
    Use(String),
    /// `SELECT ..`: a read.
    Select(Box<SelectPlan>),
    /// `EXPLAIN SELECT ..`: the read, told and not done.
    Explain(Box<SelectPlan>),
    /// `INSERT`, `UPDATE`, `DELETE`.
    Write(Box<WritePlan>),
    /// `BEGIN BATCH ..`: several writes.
    Batch(BatchPlan),
    /// `TRUNCATE t`: all rows of a table go.
    Truncate(Arc<Table>),
    /// A change of the schema: `ddl::plan` turns it into one when it is executed.
    Schema(ast::SchemaStatement),
    /// `DESCRIBE ..`: the schema as statements.
    Describe(Describe),
}

impl Statement {
    /// Whether it is a conditional write, or a batch of which a statement is one.
    pub fn is_conditional(&self) -> bool {
        match self {
            Statement::Write(plan) => plan.condition.is_some(),
            Statement::Batch(plan) => plan.not_applied.is_some(),
            _ => false,
        }
    }

    /// Whether a write has a `USING TIMEOUT`.
    pub fn has_timeout(&self) -> bool {
        match self {
            Statement::Write(plan) => plan.timeout.is_some(),
            Statement::Batch(plan) => plan.timeout.is_some(),
            _ => false,
        }
    }

    /// What the `USING TIMEOUT` of a write says; `None` if there is none.
    pub fn write_timeout(&self, bindings: &Bindings<'_>) -> Result<Option<Duration>> {
        match self {
            Statement::Write(plan) => plan.timeout(bindings),
            Statement::Batch(plan) => plan.timeout(bindings),
            _ => Ok(None),
        }
    }
}

/// A prepared statement.
#[derive(Debug)]
pub struct Prepared {
    /// The compiled statement.
    pub statement: Statement,
    /// The bind markers in the order of the text.
    pub markers: Vec<Marker>,
    /// Which markers are the partition key, in key order, if all of it is bound.
    pub key_indexes: Vec<u16>,
    /// Warnings for the client, sent with each answer.
    pub warnings: Vec<String>,
    /// Whether it means the same in every session: each table is named with its keyspace.
    pub is_qualified: bool,
    /// How many tokens the text had, which bounds what the statement keeps.
    pub tokens: usize,
    /// The names of functions that are called, with what users made of each.
    pub called: Vec<CalledName>,
    /// Bytes that it keeps of JSON texts, of values of user types, and of what functions make of constants: what they
    /// become is not bounded by their length.
    pub made_bytes: usize,
    /// Bytes of the values that its JSON texts have become, which each execution writes.
    pub json_values_bytes: usize,
    /// What evaluating its constants has taken when it was compiled, in units of `expr/work.rs`.
    pub constants_work: u64,
    /// Whether it calls `from_json`.
    calls_from_json: bool,
}

impl Prepared {
    /// Whether some of its values take many times as long to bind as to copy.
    pub fn has_costly_values(&self) -> bool {
        self.reads_json() || self.markers.iter().any(|marker| has_parts(&marker.ty))
    }

    /// Bytes of the values that take many times as long to bind as to copy: JSON texts, and values that have parts.
    /// If values have names, the bytes of all are counted: their markers are not looked up.
    pub fn costly_bytes(&self, values: &ValuesOfRequest<'_>) -> usize {
        if self.reads_json() || values.is_named() {
            return values.bytes();
        }
        let each = values.iter().zip(&self.markers);
        let costly = each.filter(|(_, marker)| has_parts(&marker.ty));
        let bytes = costly.map(|(value, _)| match value {
            Value::Bytes(bytes) => bytes.len(),
            Value::Null | Value::Unset => 0,
        });
        bytes.sum()
    }

    /// Whether values that are bound to it are read as JSON.
    fn reads_json(&self) -> bool {
        let is_bound =
            |plan: &WritePlan| matches!(plan.json.as_deref(), Some(JsonInsert::Bound { .. }));
        let is_inserted = match &self.statement {
            Statement::Write(plan) => is_bound(plan),
            Statement::Batch(plan) => plan.writes.iter().any(is_bound),
            _ => false,
        };
        is_inserted || self.calls_from_json
    }

    /// Whether binding it may call functions of users, which run on its core alone.
    pub fn calls_users(&self) -> bool {
        self.called.iter().any(CalledName::is_users)
    }
}

/// Whether a value is made of others, each of which is looked at when the value is bound.
fn has_parts(ty: &CqlType) -> bool {
    match ty {
        // Its length is fixed by its type: only elements that have parts count.
        CqlType::Vector { element, .. } => has_parts(element),
        ty => !ty.is_scalar() || ty.is_composite(),
    }
}

/// Prepares `text` for a session that uses `keyspace`.
pub fn prepare(text: &str, schema: &Schema, keyspace: Option<&str>) -> Result<Prepared> {
    let parsed = parse(text)?;
    prepare_parsed(parsed, schema, keyspace)
}

/// Prepares a statement that is parsed.
pub fn prepare_parsed(
    parsed: ast::Parsed,
    schema: &Schema,
    keyspace: Option<&str>,
) -> Result<Prepared> {
    let (names, tokens) = (&parsed.binds, parsed.tokens);
    let is_qualified = is_qualified(&parsed.statement);
    let plain = |statement| Prepared {
        statement,
        markers: Vec::new(),
        key_indexes: Vec::new(),
        warnings: Vec::new(),
        is_qualified,
        tokens,
        called: Vec::new(),
        made_bytes: 0,
        json_values_bytes: 0,
        constants_work: 0,
        calls_from_json: false,
    };
    Ok(match parsed.statement {
        ast::Statement::Use(name) if schema.keyspace(&name).is_none() => {
            return Err(Error::invalid(format!("Keyspace '{name}' does not exist")));
        }
        ast::Statement::Use(name) => plain(Statement::Use(name)),
        ast::Statement::Describe(describe) => plain(Statement::Describe(describe)),
        ast::Statement::Truncate { table, using } => {
            let table = find_table(&table, schema, keyspace)?.clone();
            if table.view().is_some() {
                let text =
                    "Cannot TRUNCATE materialized view directly; must truncate base table instead";
                return Err(Error::invalid(text));
            }
            let warning = match using.timeout.is_empty() {
                true => None,
                false => timeout_warning(&table),
            };
            let warnings = warning.into_iter().collect();
            Prepared { warnings, ..plain(Statement::Truncate(table)) }
        }
        ast::Statement::Select(select) => {
            let compiled = compile_select(&select, names, schema, keyspace)?;
            compiled.into_prepared(plain, Statement::Select)?
        }
        ast::Statement::Explain(select) => {
            let compiled = compile_select(&select, names, schema, keyspace)?;
            compiled.into_prepared(plain, Statement::Explain)?
        }
        ast::Statement::Modification(modification) => {
            let table = find_table(table_of(&modification), schema, keyspace)?;
            check_writable(table)?;
            let mut compiler = Compiler::new(schema, table, names);
            let plan = write::compile(&modification, table, &mut compiler)?;
            let key_indexes = key_indexes(&plan.keys);
            let plain = Prepared { key_indexes, ..plain(Statement::Write(Box::new(plan))) };
            with_collected(plain, compiler.into_collected())?
        }
        ast::Statement::Batch(batch) => {
            let (plan, collected) = batch::compile_batch(&batch, names, schema, keyspace)?;
            let key_indexes = key_indexes_of_batch(&plan);
            let warnings = batch::batch_warnings(&batch, &plan);
            let plain = plain(Statement::Batch(plan));
            with_collected(Prepared { key_indexes, warnings, ..plain }, collected)?
        }
        ast::Statement::Unsupported(what) => {
            return Err(Error::invalid(format!("{what} is not supported")));
        }
        ast::Statement::Schema(statement) => {
            check_unbound(&statement, names)?;
            plain(Statement::Schema(statement))
        }
    })
}

/// Refuses bind markers in a statement about the schema.
fn check_unbound(statement: &ast::SchemaStatement, names: &[Option<String>]) -> Result<()> {
    match statement {
        _ if names.is_empty() => Ok(()),
        ast::SchemaStatement::CreateView(_) => Err(Error::invalid(
            "Bind variables are not allowed in CREATE MATERIALIZED VIEW statements",
        )),
        _ => Err(Error::invalid("Bind variables are not supported in DDL statements")),
    }
}

/// A SELECT whose plan is made, to be read or to be explained.
struct CompiledSelect {
    plan: Box<SelectPlan>,
    warnings: Vec<String>,
    collected: Collected,
}

fn compile_select(
    select: &ast::Select,
    names: &[Option<String>],
    schema: &Schema,
    keyspace: Option<&str>,
) -> Result<CompiledSelect> {
    let table = find_table(&select.table, schema, keyspace)?;
    let mut compiler = Compiler::new(schema, table, names);
    let (plan, warnings) = select::compile(select, table, &mut compiler)?;
    Ok(CompiledSelect { plan: Box::new(plan), warnings, collected: compiler.into_collected() })
}

impl CompiledSelect {
    fn into_prepared(
        self,
        plain: impl FnOnce(Statement) -> Prepared,
        statement: fn(Box<SelectPlan>) -> Statement,
    ) -> Result<Prepared> {
        let CompiledSelect { plan, warnings, collected } = self;
        let key_indexes = key_indexes(&select_keys(&plan));
        let plain = plain(statement(plan));
        with_collected(Prepared { key_indexes, warnings, ..plain }, collected)
    }
}

/// A statement with what its compiler has collected.
fn with_collected(plain: Prepared, mut collected: Collected) -> Result<Prepared> {
    let made_bytes = collected.json.bytes() + collected.folded_bytes;
    let json_values_bytes = collected.json.budget.taken();
    let (called, calls_from_json) = (collected.take_called(), collected.reads_json);
    let constants_work = collected.constants_work();
    let markers = collected.into_markers()?;
    debug_assert!(plain.key_indexes.iter().all(|index| usize::from(*index) < markers.len()));
    Ok(Prepared {
        markers,
        made_bytes,
        json_values_bytes,
        called,
        constants_work,
        calls_from_json,
        ..plain
    })
}

/// Whether every table of a statement is named with its keyspace.
fn is_qualified(statement: &ast::Statement) -> bool {
    let has_keyspace = |name: &QualifiedName| name.keyspace.is_some();
    match statement {
        ast::Statement::Select(select) | ast::Statement::Explain(select) => {
            has_keyspace(&select.table)
        }
        ast::Statement::Modification(one) => has_keyspace(table_of(one)),
        ast::Statement::Batch(batch) => {
            batch.statements.iter().all(|one| has_keyspace(table_of(one)))
        }
        ast::Statement::Truncate { table, .. } => has_keyspace(table),
        ast::Statement::Use(_)
        | ast::Statement::Schema(_)
        | ast::Statement::Describe(_)
        | ast::Statement::Unsupported(_) => false,
    }
}

/// What the user of `USING TIMEOUT` should know. Reads of computed tables end within any time one
/// may ask for.
fn timeout_warning(table: &Table) -> Option<String> {
    (!model::schema::system::computes(table)).then(|| hints::TIMEOUT.warning())
}

/// What the user of a batch should know in which a statement that was prepared or sent by itself has a `USING TIMEOUT`.
pub fn batch_timeout_warning() -> String {
    hints::TIMEOUT.warning()
}

/// Refuses a table that no client writes to.
fn check_writable(table: &Table) -> Result<()> {
    match table.view() {
        Some(_) => Err(Error::invalid("Cannot directly modify a materialized view")),
        None => Ok(()),
    }
}

fn table_of(modification: &ast::Modification) -> &QualifiedName {
    match modification {
        ast::Modification::Insert(insert) => &insert.table,
        ast::Modification::Update(update) => &update.table,
        ast::Modification::Delete(delete) => &delete.table,
    }
}

fn select_keys(plan: &SelectPlan) -> Vec<ValueSet> {
    match &plan.filter.partitions {
        PartitionChoice::Keys { columns, .. } => columns.clone(),
        _ => Vec::new(),
    }
}

/// The markers that give the columns of the partition key one value each.
fn key_indexes(keys: &[ValueSet]) -> Vec<u16> {
    keys.iter().map(key_index).collect::<Option<_>>().unwrap_or_default()
}

/// The markers of a batch that give the columns of the partition key their values: of each column the last one, as
/// Cassandra has it. Empty if the statements are of several tables, or if the batch has a marker that is of no table:
/// that of its own `USING TIMESTAMP ?`. The marker of ScyllaDB's `USING TIMEOUT ?` is not looked at: Cassandra, whose
/// answers these are, has none.
fn key_indexes_of_batch(plan: &BatchPlan) -> Vec<u16> {
    if plan.timestamp.as_ref().is_some_and(|term| term.marker().is_some()) {
        return Vec::new();
    }
    let Some(first) = plan.writes.first() else { return Vec::new() };
    if plan.writes.iter().any(|write| write.table.id != first.table.id) {
        return Vec::new();
    }
    let last =
        |column: usize| plan.writes.iter().rev().find_map(|one| key_index(&one.keys[column]));
    (0..first.keys.len()).map(last).collect::<Option<_>>().unwrap_or_default()
}

/// The marker that gives a column of the partition key its value.
fn key_index(key: &ValueSet) -> Option<u16> {
    match key {
        // Of an IN the last marker stands for all, as Cassandra has it.
        ValueSet::One(Values::Each(terms)) => terms.last()?.marker(),
        ValueSet::Many(all) => all.iter().rev().find_map(|values| match values {
            Values::Each(terms) => terms.last()?.marker(),
            Values::Whole(_) => None,
        }),
        _ => None,
    }
}

/// Whether any column of the kind is among `columns`.
fn has_kind(columns: &[&model::Column], kind: ColumnKind) -> bool {
    columns.iter().any(|column| column.kind == kind)
}
