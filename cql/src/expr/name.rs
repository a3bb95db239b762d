//! Names that are no columns, and what to say of them.

use model::Table;

use crate::error::Error;
use crate::lang::keyword::quoted;

/// A name that is no column.
#[cold]
pub(crate) fn undefined(name: &str, table: &Table) -> Error {
    let nearest = table
        .columns()
        .iter()
        .map(|column| (strsim::osa_distance(name, &column.name), &column.name))
        .min()
        .filter(|(distance, _)| *distance <= 2 && *distance < name.len());
    let hint = nearest.map(|(_, name)| format!("\nDid you mean {}?", quoted(name)));
    Error::invalid(format!(
        "Undefined column name {} in table {}.{}{}",
        quoted(name),
        table.keyspace,
        table.name,
        hint.unwrap_or_default()
    ))
}
