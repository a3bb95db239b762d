//! Types as written to types as known: user-defined ones are looked up, and what may not stand inside what is refused.
//!
//! 1. `resolve_type` walks the type as it was written, the innermost first, and checks the limits of the whole.
//! 2. What is in a `frozen<>` or in a tuple is frozen, whether it says so or not; what is in a vector says so itself.
//! 3. A user type must be of the keyspace of the statement. Its definition becomes a part of the type.
//! 4. The name of a class goes to `types/marshal.rs`.
//!
//! Refused: counters inside of collections and tuples, collections and user types that are not frozen inside of
//! collections, durations where an order is needed (sets, keys of maps). The words are Cassandra's (`CQL3Type.Raw`).
//!
//! Not here: which types a column may have (`ddl/table.rs`), types as text (`model/src/types.rs`), the grammar
//! (`lang/parser/types.rs`).

mod marshal;

use std::fmt;
use std::sync::Arc;

pub(crate) use marshal::is_reversed;
use model::CqlType;
use model::schema::Schema;
use model::types::{UserType, class_name};

use crate::error::{Error, Result};
use crate::lang::ast::{QualifiedName, TypeName};

/// The type that `name` means in `keyspace`.
pub(crate) fn resolve_type(name: &TypeName, keyspace: &str, schema: &Schema) -> Result<CqlType> {
    let ty = resolve(name, Freeze::AsWritten, keyspace, schema)?;
    ty.check_limits()?;
    Ok(ty)
}

/// Whether what stands inside is frozen although it does not say so.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Freeze {
    AsWritten,
    All,
}

fn resolve(name: &TypeName, freeze: Freeze, keyspace: &str, schema: &Schema) -> Result<CqlType> {
    let inner = |part: &TypeName| {
        let ty = resolve(part, freeze, keyspace, schema)?;
        Ok::<_, Error>(if freeze == Freeze::All { ty.frozen() } else { ty })
    };
    Ok(match name {
        TypeName::Native(name) => CqlType::scalar(name).expect("the parser knows only scalars"),
        TypeName::List(element) => {
            let element = inside(inner(element)?, || name.to_string())?;
            CqlType::List { element: Arc::new(element), frozen: false }
        }
        TypeName::Set(element) => {
            let element = inside(inner(element)?, || name.to_string())?;
            no_duration(&element, || format!("inside sets: {name}"))?;
            CqlType::Set { element: Arc::new(element), frozen: false }
        }
        TypeName::Map(key, value) => {
            let key = inside(inner(key)?, || name.to_string())?;
            no_duration(&key, || format!("as map keys: {name}"))?;
            let value = inside(inner(value)?, || name.to_string())?;
            CqlType::Map { key: Arc::new(key), value: Arc::new(value), frozen: false }
        }
        TypeName::Tuple(parts) => {
            let parts = parts.iter().map(|part| {
                let part = inner(part)?;
                if part == CqlType::Counter {
                    return Err(Error::invalid("Counters are not allowed inside tuples"));
                }
                // Whatever is in a tuple is frozen with it.
                Ok(part.frozen())
            });
            CqlType::Tuple(parts.collect::<Result<Vec<_>>>()?.into())
        }
        TypeName::Vector(element, dimensions) => {
            // What is in a vector says itself whether it is frozen, wherever the vector stands.
            let element = resolve(element, Freeze::AsWritten, keyspace, schema)?;
            let positive = u32::try_from(*dimensions).ok().filter(|dimensions| *dimensions > 0);
            let Some(dimensions) = positive else {
                return Err(Error::invalid(format!(
                    "vectors may only have positive dimensions; given {dimensions}"
                )));
            };
            CqlType::Vector { element: Arc::new(element), dimensions }
        }
        TypeName::Frozen(part) => {
            if let TypeName::Custom(_) = **part {
                let ty = resolve(part, Freeze::AsWritten, keyspace, schema)?;
                return Err(not_freezable(&format_args!("'{}'", class_name(&ty))));
            }
            let ty = resolve(part, Freeze::All, keyspace, schema)?;
            let freezable = ty.is_collection()
                || matches!(ty, CqlType::Tuple(_) | CqlType::Udt { .. } | CqlType::Vector { .. });
            if !freezable {
                return Err(not_freezable(&ty));
            }
            ty.frozen()
        }
        TypeName::User(user) => match user_type(user, keyspace, schema) {
            Ok(definition) => CqlType::Udt { definition, frozen: false },
            // As DESCRIBE shows the type of a value column that a compact table did not declare.
            Err(_) if user.keyspace.is_none() && user.name == "empty" => CqlType::Empty,
            Err(error) => return Err(error),
        },
        TypeName::Custom(class) => marshal::resolve_class(class, keyspace, schema)?,
    })
}

#[cold]
fn not_freezable(ty: &dyn fmt::Display) -> Error {
    let text = "frozen<> is only allowed on collections, tuples, and user-defined types";
    Error::Syntax(format!("{text} (got {ty})"))
}

/// Refuses a duration where values must have an order.
fn no_duration(ty: &CqlType, place: impl FnOnce() -> String) -> Result<()> {
    if *ty == CqlType::Duration {
        return Err(Error::invalid(format!("Durations are not allowed {}", place())));
    }
    Ok(())
}

/// The user type of that name, which must be one of this keyspace.
fn user_type(user: &QualifiedName, keyspace: &str, schema: &Schema) -> Result<Arc<UserType>> {
    let at = user.keyspace.as_deref().unwrap_or(keyspace);
    if at != keyspace {
        return Err(Error::invalid(format!(
            "Statement on keyspace {keyspace} cannot refer to a user type in keyspace {at}; user types can only be used in the keyspace they are defined in"
        )));
    }
    let definition = schema.keyspace(at).and_then(|keyspace| keyspace.types.get(&user.name));
    definition.cloned().ok_or_else(|| Error::invalid(format!("Unknown type {at}.{}", user.name)))
}

/// Refuses what may not stand inside a collection; the error shows `whole`.
fn inside(element: CqlType, whole: impl FnOnce() -> String) -> Result<CqlType> {
    if element == CqlType::Counter {
        let text = format!("Counters are not allowed inside collections: {}", whole());
        return Err(Error::invalid(text));
    }
    if element.is_multi_cell() {
        let what = if element.is_collection() { "collections" } else { "UDTs" };
        return Err(Error::invalid(format!(
            "Non-frozen {what} are not allowed inside collections: {}",
            whole()
        )));
    }
    Ok(element)
}

/// What values of the type are called where they hold durations and are no duration; `None` if they hold none.
pub(crate) fn kind_with_durations(ty: &CqlType) -> Option<&'static str> {
    has_duration(ty).then_some(match ty {
        CqlType::Tuple(_) => "tuples",
        CqlType::Udt { .. } => "UDTs",
        _ => "collections",
    })
}

/// Whether values hold durations, which have no order; into vectors and classes Cassandra does not look.
pub(crate) fn has_duration(ty: &CqlType) -> bool {
    match ty {
        CqlType::Vector { .. } | CqlType::Custom(_) => false,
        CqlType::Duration => true,
        other => other.parts().into_iter().any(has_duration),
    }
}
