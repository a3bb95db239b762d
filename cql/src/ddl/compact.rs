//! COMPACT STORAGE: which tables may have it, and what may be altered of those that do.
//!
//! The refusals and their order are Cassandra's (`CreateTableStatement`, `AlterTableStatement`). Not here: what such a
//! table is (`model/src/schema/compact.rs`), what writes do to it (`prepare/write.rs`).

use model::schema::{Column, ColumnKind, Table, TableBuilder};
use model::types::CqlType;

use super::DdlContext;
use super::table::Resolved;
use crate::error::{Error, Result};

/// Refuses a table that cannot be compact; `clustering` counts its clustering columns.
pub(super) fn check_new(
    columns: &Resolved<'_>,
    is_key: impl Fn(&str) -> bool,
    clustering: usize,
) -> Result<()> {
    let values: Vec<_> = columns.iter().filter(|(column, _)| !is_key(&column.name)).collect();
    let refused = |text: &str| Err(Error::invalid(text));
    if values.iter().any(|(_, ty)| ty.is_multi_cell()) {
        return refused("Non-frozen collections and UDTs are not supported with COMPACT STORAGE");
    }
    if values.iter().any(|(column, _)| column.is_static) {
        return refused("Static columns are not supported in COMPACT STORAGE tables");
    }
    if clustering == 0 && values.is_empty() {
        return refused("No definition found that is not part of the PRIMARY KEY");
    }
    if clustering > 0 && values.len() > 1 {
        let mut names: Vec<&str> = values.iter().map(|(column, _)| column.name.as_str()).collect();
        names.sort_unstable();
        return Err(Error::invalid(format!(
            "COMPACT STORAGE with composite PRIMARY KEY allows no more than one column not part of the PRIMARY KEY (got: {})",
            names.join(", ")
        )));
    }
    Ok(())
}

/// Adds a value column to a compact table: where there are no clustering columns all of them are static.
pub(super) fn add_value(
    table: TableBuilder,
    name: &str,
    ty: &CqlType,
    clustering: usize,
) -> Result<TableBuilder> {
    Ok(match clustering {
        0 => table.stat(name, ty.clone())?,
        _ => table.regular(name, ty.clone())?,
    })
}

/// Refuses to add a column to a compact table, once its name is found to be free.
pub(super) fn check_added(table: &Table) -> Result<()> {
    match table.is_compact() {
        true => Err(Error::invalid("Cannot add new column to a COMPACT STORAGE table")),
        false => Ok(()),
    }
}

/// Refuses to drop a column that a compact table hides, or the only value of a dense one.
pub(super) fn check_dropped(table: &Table, name: &str) -> Result<()> {
    let Some(column) = table.column(name).or_else(|| hidden(table, name)) else { return Ok(()) };
    if column.kind <= ColumnKind::Clustering {
        return Err(Error::invalid(format!("Cannot drop PRIMARY KEY column {name}")));
    }
    if table.is_dense() || hidden(table, name).is_some() {
        // Cassandra has no words for it: its answer is an error of the server.
        return Err(Error::invalid(format!(
            "Cannot drop column {name} of the COMPACT STORAGE table {}.{}: its rows are made of it",
            table.keyspace, table.name
        )));
    }
    Ok(())
}

fn hidden<'t>(table: &'t Table, name: &str) -> Option<&'t Column> {
    table.hidden().iter().find(|column| column.name == name)
}

/// `DROP COMPACT STORAGE`.
pub(super) fn drop_storage(context: &DdlContext<'_>, table: &mut Table) -> Result<()> {
    if !context.drop_compact_storage {
        return Err(Error::invalid(
            "DROP COMPACT STORAGE is disabled. Enable in cassandra.yaml to use. (drop_compact_storage_enabled)",
        ));
    }
    if !table.is_compact() {
        let text = "Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE";
        return Err(Error::invalid(text));
    }
    table.drop_compact_storage();
    Ok(())
}
