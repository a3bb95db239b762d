//! CREATE INDEX and DROP INDEX.
//!
//! 1. What stands in the statement: its class, its options (`class.rs`).
//! 2. The table, the name and the columns are looked up, and each column is asked whether it may be indexed (`target.rs`).
//! 3. A name is made if there is none. An index that is there already is refused, or settles IF NOT EXISTS.
//! 4. What the class asks for: names, types, options (`class.rs`).
//!
//! Invariants: what is checked first is Cassandra's order (`CreateIndexStatement`, `IndexMetadata.validate`), and so are the
//! words; names of indexes are unique in a keyspace. Not here: what an index finds (`model/src/schema/index`).

mod class;
mod sasi;
mod target;
#[cfg(test)]
mod tests;
mod vector;

use std::collections::HashSet;

use class::{Class, Declared};
use model::limits::NAME_BYTES_MAX;
use model::schema::{Index, IndexId, Keyspace, SchemaChange, Table};
use target::IndexedColumn;

use super::{Ddl, DdlContext, Object, is_word};
use crate::error::{Error, Result};
use crate::guardrails::Guardrail;
use crate::lang::ast::{CreateIndex, QualifiedName};

pub(super) fn create(context: &DdlContext<'_>, create: &CreateIndex) -> Result<Ddl> {
    let keyspace_name = context.keyspace_of(&create.table)?;
    let mut warnings = Vec::new();
    context.guardrails.allow(Guardrail::SecondaryIndexes, &mut warnings)?;
    let declared = Declared::of(create)?;
    if declared.class == Class::Sasi && !context.sasi_indexes {
        return Err(Error::invalid(
            "SASI indexes are disabled. Enable in cassandra.yaml to use. (sasi_indexes_enabled)",
        ));
    }
    let keyspace = context.existing(keyspace_name)?;
    let missing = || Error::invalid(format!("Table '{}' doesn't exist", create.table.name));
    let table = keyspace.tables.get(&create.table.name).ok_or_else(missing)?;
    if let Some(name) = create.name.as_ref().filter(|name| find(keyspace, name).is_some()) {
        return match create.if_not_exists {
            true => Ok(Ddl::nothing()),
            false => Err(Error::invalid(format!("Index '{name}' already exists"))),
        };
    }
    if table.view().is_some() {
        return Err(Error::invalid("Secondary indexes on materialized views aren't supported"));
    }
    if table.is_counter() {
        return Err(Error::invalid("Secondary indexes on counter tables aren't supported"));
    }
    let named = create.name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
    let count = table.indexes().len() as i64 + 1;
    let what = format!("{named}on table {}", table.name);
    context.guardrails.check(Guardrail::SecondaryIndexesPerTable, count, &what, &mut warnings)?;
    let columns = columns(create, table, &declared)?;
    let name = match &create.name {
        Some(name) => name.clone(),
        None => free_name(keyspace, table, &columns),
    };
    let only = columns.first().filter(|_| columns.len() == 1);
    if let Some(same) = only.and_then(|only| duplicate(table, only, &declared)) {
        return match create.if_not_exists {
            true => Ok(Ddl::nothing()),
            false => Err(Error::invalid(format!(
                "Index {name} is a duplicate of existing index {}",
                same.name
            ))),
        };
    }
    check_name(&name)?;
    let analysis = declared.check(table, &columns)?;
    if declared.class == Class::Sasi {
        warnings.push(sasi::WARNING.to_owned());
    }
    let only = columns.first().expect("a class without columns is refused");
    let index = Index {
        id: IndexId(0),
        name,
        column: only.column.id,
        target: only.target,
        kind: declared.class.kind(),
        class: declared.name,
        options: declared.options,
        analysis,
    };
    let mut table = Table::clone(table);
    table.add_index(index)?;
    warnings.extend(vector::warnings(&table));
    Ok(changed(table, warnings))
}

pub(super) fn drop(context: &DdlContext<'_>, name: &QualifiedName, if_exists: bool) -> Result<Ddl> {
    let keyspace_name = context.named_keyspace(name)?;
    if (context.is_system)(keyspace_name) {
        let text = format!("System keyspace '{keyspace_name}' is not user-modifiable");
        return Err(Error::Invalid(text));
    }
    let keyspace = context.schema.keyspace(keyspace_name);
    let Some(table) = keyspace.and_then(|keyspace| find(keyspace, &name.name)) else {
        if if_exists {
            return Ok(Ddl::nothing());
        }
        return Err(Error::invalid(format!(
            "Index '{keyspace_name}.{}' doesn't exist'",
            name.name
        )));
    };
    let mut table = Table::clone(table);
    table.drop_index(&name.name);
    Ok(changed(table, Vec::new()))
}

/// The step that makes a table what it is now.
fn changed(table: Table, warnings: Vec<String>) -> Ddl {
    let (keyspace, object) = (table.keyspace.clone(), Object::Table(table.name.clone()));
    let change = SchemaChange::AlterTable(Box::new(table));
    Ddl::step(change, "UPDATED", &keyspace, object, warnings)
}

/// The table that has the index of this name.
pub(crate) fn find<'k>(keyspace: &'k Keyspace, name: &str) -> Option<&'k Table> {
    keyspace.tables.values().map(|table| &**table).find(|table| table.index(name).is_some())
}

/// The columns that are indexed; of several the class decides whether that can be.
fn columns<'t>(
    create: &CreateIndex,
    table: &'t Table,
    declared: &Declared,
) -> Result<Vec<IndexedColumn<'t>>> {
    let columns: Vec<IndexedColumn<'t>> = create
        .targets
        .iter()
        .map(|(function, name)| IndexedColumn::find(table, name, *function))
        .collect::<Result<_>>()?;
    if declared.class == Class::Plain && columns.is_empty() {
        return Err(Error::invalid(
            "Only CUSTOM indexes can be created without specifying a target column",
        ));
    }
    if columns.len() > 1 {
        if declared.class == Class::Plain {
            return Err(Error::invalid("Only CUSTOM indexes support multiple columns"));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = columns.iter().find(|one| !seen.insert(one.column.id)) {
            let name = &twice.column.name;
            return Err(Error::invalid(format!("Duplicate column '{name}' in index target list")));
        }
    }
    columns.iter().try_for_each(|column| column.check(table))?;
    Ok(columns)
}

/// `TABLE_COLUMN_idx` without what no name of a file may have, and a number if that is taken.
fn free_name(keyspace: &Keyspace, table: &Table, columns: &[IndexedColumn<'_>]) -> String {
    let column = match columns {
        [only] => format!("{}_", only.column.name),
        _ => String::new(),
    };
    let mut base = format!("{}_{column}idx", table.name);
    base.retain(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let numbered = (1..).map(|number: u32| format!("{base}_{number}"));
    let mut names = std::iter::once(base.clone()).chain(numbered);
    names.find(|name| find(keyspace, name).is_none()).expect("numbers do not end")
}

/// The index that is the same in all but its name.
fn duplicate<'t>(
    table: &'t Table,
    only: &IndexedColumn<'_>,
    declared: &Declared,
) -> Option<&'t Index> {
    table.indexes_of(only.column.id).find(|index| {
        index.target == only.target
            && index.kind == declared.class.kind()
            && index.class == declared.name
            && index.options == declared.options
    })
}

fn check_name(name: &str) -> Result<()> {
    if !is_word(name) {
        return Err(Error::Config(format!("Illegal index name {name}")));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "Index name must not be more than {NAME_BYTES_MAX} characters long (got {} characters for \"{name}\")",
            name.len()
        )));
    }
    Ok(())
}
