//! Tables by name, and what to say of those that are not there.

use std::sync::Arc;

use model::Table;
use model::schema::Schema;

use crate::error::{Error, Result};
use crate::lang::ast::QualifiedName;
use crate::spelling::closest_name;

/// The table of that name, in the keyspace written or the one in use.
pub fn find_table<'s>(
    name: &QualifiedName,
    schema: &'s Schema,
    keyspace: Option<&str>,
) -> Result<&'s Arc<Table>> {
    let Some(keyspace) = name.keyspace.as_deref().or(keyspace) else {
        return Err(no_keyspace_in_use());
    };
    let Some(found) = schema.keyspace(keyspace) else {
        return Err(Error::invalid(format!("keyspace {keyspace} does not exist")));
    };
    found.tables.get(&name.name).ok_or_else(|| {
        let known = found.tables.keys().map(String::as_str);
        let hint = closest_name(&name.name, known, 2)
            .map(|other| format!("\nDid you mean {keyspace}.{other}?"));
        let hint = hint.unwrap_or_default();
        // Drivers of old look for these words; newer ones for the code alone.
        Error::invalid(format!("table {} does not exist{hint}", name.name))
    })
}

/// A name without a keyspace, and none in use.
#[cold]
pub fn no_keyspace_in_use() -> Error {
    Error::invalid(
        "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename",
    )
}
