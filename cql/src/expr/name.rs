//! Names that are no columns, and what to say of them.

use model::Table;

use crate::error::Error;
use crate::lang::keyword::quoted;
use crate::spelling::closest_name;

/// A name that is no column.
#[cold]
pub(crate) fn undefined(name: &str, table: &Table) -> Error {
    let known = table.columns().iter().map(|column| column.name.as_str());
    let hint = closest_name(name, known, 2);
    let hint = hint.map(|name| format!("\nDid you mean {}?", quoted(name)));
    Error::invalid(format!(
        "Undefined column name {} in table {}.{}{}",
        quoted(name),
        table.keyspace,
        table.name,
        hint.unwrap_or_default()
    ))
}
