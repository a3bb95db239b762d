//! CREATE, ALTER and DROP KEYSPACE; the options are read by [`KeyspaceOptions`].
//!
//! 1. CREATE: the name, the names of the properties, whether the keyspace is there, and then the values of the
//!    properties, in Cassandra's order.
//! 2. ALTER: the properties are set on those that the keyspace has. What stays the same is no change; an empty map of
//!    `replication` is left out.
//! 3. DROP: the change names the keyspace; its tables go with it.
//!
//! Invariant: a keyspace of the server's own is never changed.
//!
//! Not here: what each option means (`model/src/options/keyspace.rs`, `model/src/options/replication.rs`), guardrails
//! (`guarded.rs`), the snapshot before a DROP (`server/src/execute/schema.rs`).

use model::options::{KEYSPACE_OPTIONS, KeyspaceOptions, Place};
use model::schema::SchemaChange;

use super::options::given;
use super::{Ddl, DdlContext, Object, is_word};
use crate::error::{Error, Result};
use crate::lang::ast::{Properties, PropertyValue};
use crate::limits::KEYSPACE_NAME_CHARS_MAX;

pub(super) fn create(
    context: &DdlContext<'_>,
    name: &str,
    if_not_exists: bool,
    properties: &Properties,
) -> Result<Ddl> {
    if (context.is_system)(name) {
        let text = format!("System keyspace '{name}' is not user-modifiable");
        return Err(Error::Invalid(text));
    }
    check_name(name)?;
    check_properties(properties)?;
    // Before the values are read: what is there already is not made of them.
    if context.schema.keyspace(name).is_some() {
        if if_not_exists {
            return Ok(Ddl::nothing());
        }
        return Err(Error::AlreadyExists {
            keyspace: name.to_owned(),
            table: String::new(),
            text: format!("Cannot add existing keyspace \"{name}\""),
        });
    }
    let mut warnings = Vec::new();
    let options = read(context, name, &KeyspaceOptions::default(), properties, &mut warnings)?;
    let change = SchemaChange::CreateKeyspace { name: name.to_owned(), options };
    Ok(Ddl::step(change, "CREATED", name, Object::Keyspace, warnings))
}

pub(super) fn alter(
    context: &DdlContext<'_>,
    name: &str,
    if_exists: bool,
    properties: &Properties,
) -> Result<Ddl> {
    context.check_modifiable(name)?;
    if if_exists && context.schema.keyspace(name).is_none() {
        return Ok(Ddl::nothing());
    }
    let keyspace = context.existing(name)?;
    let mut warnings = Vec::new();
    // As in Cassandra, where an empty map leaves replication as it is.
    let is_empty =
        |value: &PropertyValue| matches!(value, PropertyValue::Map(pairs) if pairs.is_empty());
    let mut properties = properties.clone();
    properties.retain(|(name, value)| name != "replication" || !is_empty(value));
    let options = read(context, name, &keyspace.options, &properties, &mut warnings)?;
    if options == keyspace.options {
        return Ok(Ddl { step: None, warnings });
    }
    let change = SchemaChange::AlterKeyspace { name: name.to_owned(), options };
    Ok(Ddl::step(change, "UPDATED", name, Object::Keyspace, warnings))
}

pub(super) fn drop(context: &DdlContext<'_>, name: &str, if_exists: bool) -> Result<Ddl> {
    context.check_modifiable(name)?;
    if if_exists && context.schema.keyspace(name).is_none() {
        return Ok(Ddl::nothing());
    }
    context.existing(name)?;
    let change = SchemaChange::DropKeyspace { name: name.to_owned() };
    Ok(Ddl::step(change, "DROPPED", name, Object::Keyspace, Vec::new()))
}

fn check_name(name: &str) -> Result<()> {
    if !is_word(name) {
        return Err(Error::invalid(format!(
            "Keyspace name must not be empty and must contain alphanumeric or underscore characters only (got \"{name}\")"
        )));
    }
    if name.len() > KEYSPACE_NAME_CHARS_MAX {
        return Err(Error::invalid(format!(
            "Keyspace name must not be more than {KEYSPACE_NAME_CHARS_MAX} characters long (got {} characters for \"{name}\")",
            name.len()
        )));
    }
    Ok(())
}

/// Refuses what is no option of a keyspace, and a keyspace without the one that it must have.
fn check_properties(properties: &Properties) -> Result<()> {
    let mut has_replication = false;
    for (property, value) in properties {
        if KEYSPACE_OPTIONS.iter().all(|(option, _)| *option != property.as_str()) {
            return Err(Error::Syntax(format!("Unknown property '{property}'")));
        }
        if property == "replication" {
            given(value).map(property)?;
            has_replication = true;
        }
    }
    if has_replication {
        return Ok(());
    }
    Err(Error::invalid("Missing mandatory option 'replication'"))
}

/// What follows WITH, on top of `before`.
fn read(
    context: &DdlContext<'_>,
    keyspace: &str,
    before: &KeyspaceOptions,
    properties: &Properties,
    warnings: &mut Vec<String>,
) -> Result<KeyspaceOptions> {
    let place = Place { keyspace, data_center: context.data_center };
    let mut options = before.clone();
    for (property, value) in properties {
        options.set(property, &given(value), &place, warnings)?;
    }
    Ok(options)
}
