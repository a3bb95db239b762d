//! CREATE, ALTER and DROP TYPE.
//!
//! A type that changes takes along every type and table that is made of it: columns hold the
//! definition itself, so that nothing else ever has to look it up.

use super::{Ddl, Ground, Object};
use crate::error::{Error, Result};
use crate::lang::ast::{AlterType, QualifiedName, TypeChange, TypeName};
use crate::prepare::types::resolve_type;
use model::limits::NAME_BYTES_MAX;
use model::schema::{Keyspace, SchemaChange, Table};
use model::types::{CqlType, UserType};

pub(super) fn create(
    ground: &Ground<'_>,
    name: &QualifiedName,
    if_not_exists: bool,
    fields: &[(String, TypeName)],
) -> Result<Ddl> {
    let keyspace = ground.keyspace_of(name)?;
    let there = ground.existing(keyspace)?.types.contains_key(&name.name);
    if there && if_not_exists {
        return Ok(Ddl::nothing());
    }
    if there {
        return Err(Error::invalid(format!(
            "A user type with name '{}' already exists",
            name.name
        )));
    }
    if name.name.is_empty() || name.name.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "User type name must be 1 to {NAME_BYTES_MAX} characters long (got {})",
            name.name.len()
        )));
    }
    let mut made = UserType {
        keyspace: keyspace.to_owned(),
        name: name.name.clone(),
        fields: Vec::with_capacity(fields.len()),
    };
    for (field, type_name) in fields {
        add_field(ground, &mut made, field, type_name)?;
    }
    let (object, change) = (Object::Type(made.name.clone()), SchemaChange::CreateType(made));
    Ok(Ddl::step(change, "CREATED", keyspace, object, Vec::new()))
}

fn add_field(
    ground: &Ground<'_>,
    to: &mut UserType,
    field: &str,
    type_name: &TypeName,
) -> Result<()> {
    if to.fields.iter().any(|(name, _)| name == field) {
        let text = format!("Duplicate field name '{field}' in type '{}'", to.name);
        return Err(Error::Invalid(text));
    }
    let ty = resolve_type(type_name, &to.keyspace, ground.schema)?;
    if ty == CqlType::Counter {
        return Err(Error::invalid("A user type cannot contain counters"));
    }
    if matches!(ty, CqlType::Udt { frozen: false, .. }) {
        return Err(Error::invalid("A user type cannot contain non-frozen UDTs"));
    }
    to.fields.push((field.to_owned(), ty));
    Ok(())
}

pub(super) fn alter(ground: &Ground<'_>, alter: &AlterType) -> Result<Ddl> {
    let keyspace_name = ground.keyspace_of(&alter.name)?;
    let name = &alter.name.name;
    let found =
        ground.schema.keyspace(keyspace_name).and_then(|ks| Some((ks, ks.types.get(name)?)));
    let Some((keyspace, old)) = found else {
        if alter.if_exists {
            return Ok(Ddl::nothing());
        }
        return Err(Error::invalid(format!("Type {keyspace_name}.{name} doesn't exist")));
    };
    let mut changed = UserType::clone(old);
    match &alter.change {
        TypeChange::Add { if_not_exists, field, type_name } => {
            if changed.fields.iter().any(|(name, _)| name == field) {
                if *if_not_exists {
                    return Ok(Ddl::nothing());
                }
                return Err(Error::invalid(format!(
                    "Cannot add field {field} to type {keyspace_name}.{name}: a field with name {field} already exists"
                )));
            }
            add_field(ground, &mut changed, field, type_name)?;
        }
        TypeChange::Rename { if_exists, names } => {
            for (from, to) in names {
                let taken = changed.fields.iter().any(|(name, _)| name == to);
                match changed.fields.iter_mut().find(|(name, _)| name == from) {
                    Some(_) if taken => {
                        let text =
                            format!("Duplicate field name {to} in type {keyspace_name}.{name}");
                        return Err(Error::Invalid(text));
                    }
                    Some((field, _)) => *field = to.clone(),
                    None if *if_exists => {}
                    None => {
                        return Err(Error::invalid(format!(
                            "Unkown field {from} in user type {keyspace_name}.{name}"
                        )));
                    }
                }
            }
        }
        TypeChange::FieldType(..) => {
            return Err(Error::invalid("Altering field types is no longer supported"));
        }
    }
    let tables = tables_after(keyspace, &changed);
    let object = Object::Type(changed.name.clone());
    let change = SchemaChange::AlterType { definition: changed, tables };
    Ok(Ddl::step(change, "UPDATED", keyspace_name, object, Vec::new()))
}

/// The tables whose columns hold the type, with its new definition.
fn tables_after(keyspace: &Keyspace, changed: &UserType) -> Vec<Table> {
    let mut tables = Vec::new();
    for table in keyspace.tables.values() {
        let mut table = Table::clone(table);
        if table.replace_user_type(changed) {
            tables.push(table);
        }
    }
    tables
}

pub(super) fn drop(ground: &Ground<'_>, name: &QualifiedName, if_exists: bool) -> Result<Ddl> {
    let keyspace_name = ground.keyspace_of(name)?;
    let keyspace = ground.schema.keyspace(keyspace_name);
    let Some(keyspace) = keyspace.filter(|ks| ks.types.contains_key(&name.name)) else {
        if if_exists {
            return Ok(Ddl::nothing());
        }
        let text = format!("Type '{keyspace_name}.{}' doesn't exist", name.name);
        return Err(Error::Invalid(text));
    };
    let of_type = |user: &UserType| user.fields.iter().any(|(_, ty)| ty.mentions(&name.name));
    if let Some(user) = keyspace.types.values().find(|user| of_type(user)) {
        return Err(Error::invalid(format!(
            "Cannot drop user type '{keyspace_name}.{}' as it is still used by user types [{}]",
            name.name, user.name
        )));
    }
    let of_table = |table: &Table| table.columns().iter().any(|c| c.ty.mentions(&name.name));
    if let Some(table) = keyspace.tables.values().find(|table| of_table(table)) {
        return Err(Error::invalid(format!(
            "Cannot drop user type '{keyspace_name}.{}' as it is still used by tables [{}]",
            name.name, table.name
        )));
    }
    let change =
        SchemaChange::DropType { keyspace: keyspace_name.to_owned(), name: name.name.clone() };
    let object = Object::Type(name.name.clone());
    Ok(Ddl::step(change, "DROPPED", keyspace_name, object, Vec::new()))
}
