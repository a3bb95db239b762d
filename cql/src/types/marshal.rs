//! Types by the names of Cassandra's classes: `'org.apache.cassandra.db.marshal.MapType(Int32Type, UTF8Type)'`.
//!
//! A class that is a type of CQL is that type, under whichever name; others are [`CqlType::Custom`]. A user type that a
//! class spells out must be one of the keyspace, and the same. Not here: how a class is read (`model/src/types/class`).

use std::sync::Arc;

use model::CqlType;
use model::schema::Schema;
use model::types::{Component, UserType, parse_class};

use super::{inside, no_duration};
use crate::error::{Error, Result};
use crate::lang::ast::TypeName;
use crate::steps::step;

/// Bytes that an error shows of a text that is too long.
const CLASS_SHOWN_BYTES: usize = 100;

/// The type whose class `text` names.
pub(super) fn resolve_class(text: &str, keyspace: &str, schema: &Schema) -> Result<CqlType> {
    let ty = component(text)?.ty;
    check(&ty, text)?;
    with_known(&ty, keyspace, schema)
}

/// Whether the class that `text` names orders its values the other way round; false if there is no such class.
pub(crate) fn is_reversed(name: &TypeName) -> bool {
    match name {
        TypeName::Custom(text) => component(text).is_ok_and(|component| component.reversed),
        _ => false,
    }
}

fn component(text: &str) -> Result<Component> {
    parse_class(text).map_err(|why| {
        let end = text.floor_char_boundary(CLASS_SHOWN_BYTES);
        let is_long = text.len() > model::limits::TYPE_BYTES_MAX;
        let shown = if is_long { format!("{}...", &text[..end]) } else { text.to_owned() };
        Error::Syntax(format!("Error setting type {shown}: {why}"))
    })
}

/// Refuses what may not stand inside of collections and tuples. What is in a composite has no cells and an order.
fn check(ty: &CqlType, text: &str) -> Result<()> {
    let whole = || {
        step(text.len());
        TypeName::Custom(text.to_owned()).to_string()
    };
    match ty {
        CqlType::Custom(_) => return Ok(()),
        CqlType::Set { element, .. } => no_duration(element, || format!("inside sets: {text}"))?,
        CqlType::Map { key, .. } => no_duration(key, || format!("as map keys: {text}"))?,
        _ => {}
    }
    for part in ty.parts() {
        if ty.is_collection() || matches!(ty, CqlType::Tuple(_) | CqlType::Vector { .. }) {
            step(1);
            inside(part.frozen(), whole)?;
        }
        check(part, text)?;
    }
    Ok(())
}

/// The type with the keyspace's own user types.
fn with_known(ty: &CqlType, keyspace: &str, schema: &Schema) -> Result<CqlType> {
    let known = |spelled: &UserType| {
        let keyspace = schema.keyspace(keyspace).filter(|_| spelled.keyspace == keyspace)?;
        keyspace.types.get(&spelled.name).filter(|known| known.fields == spelled.fields).cloned()
    };
    check_known(ty, &known)?;
    Ok(ty.with_user_types(&|spelled| known(spelled)))
}

fn check_known(ty: &CqlType, known: &dyn Fn(&UserType) -> Option<Arc<UserType>>) -> Result<()> {
    match ty {
        CqlType::Udt { definition, .. } if known(definition).is_some() => Ok(()),
        CqlType::Udt { definition, .. } => Err(Error::invalid(format!(
            "Unknown type {}.{} of these fields",
            definition.keyspace, definition.name
        ))),
        made => made.parts().into_iter().try_for_each(|part| check_known(part, known)),
    }
}

#[cfg(test)]
mod tests;
