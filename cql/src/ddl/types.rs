//! CREATE, ALTER and DROP TYPE.
//!
//! A type that changes takes along every type and table that is made of it: columns hold the
//! definition itself, so that nothing else ever has to look it up.
//!
//! 1. CREATE: the name, then the fields with their types. A user type in a field must be frozen, a counter cannot be
//!    one.
//! 2. ALTER .. ADD puts a field at the end. It is refused if the type would hold itself, if a partition key holds the
//!    type, or if ordered values of the type cannot grow (`model/src/ordered.rs`).
//! 3. ALTER .. RENAME is refused while the first state of an aggregate is written with these names.
//! 4. DROP is refused while functions, aggregates, types or columns use the type.
//!
//! Invariant: after a change every type, column, dropped column and function is within the limits of types, since a
//! start reads all of them again.
//!
//! Not here: types as written to types as known (`cql/src/types.rs`), how the change is applied
//! (`model/src/schema/change.rs`).

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use model::limits::TYPE_NAME_BYTES_MAX;
use model::schema::{Keyspace, SchemaChange, Table};
use model::types::{CqlType, Redefined, UserType};

use super::{Ddl, DdlContext, Object};
use crate::error::{Error, Result};
use crate::lang::ast::{AlterType, QualifiedName, TypeChange, TypeName};
use crate::types::resolve_type;

pub(super) fn create(
    context: &DdlContext<'_>,
    name: &QualifiedName,
    if_not_exists: bool,
    fields: &[(String, TypeName)],
) -> Result<Ddl> {
    let keyspace = context.keyspace_of(name)?;
    let there = context.existing(keyspace)?.types.contains_key(&name.name);
    if there && if_not_exists {
        return Ok(Ddl::nothing());
    }
    if there {
        return Err(Error::invalid(format!(
            "A user type with name '{}' already exists",
            name.name
        )));
    }
    if name.name.is_empty() || name.name.len() > TYPE_NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "User type name must be 1 to {TYPE_NAME_BYTES_MAX} characters long (got {})",
            name.name.len()
        )));
    }
    let mut made = UserType::new(keyspace, &name.name, Vec::with_capacity(fields.len()));
    let mut names = HashSet::with_capacity(fields.len());
    for (field, type_name) in fields {
        if !names.insert(field) {
            let text = format!("Duplicate field name '{field}' in type '{}'", made.name);
            return Err(Error::Invalid(text));
        }
        add_field(context, &mut made, field, type_name)?;
    }
    check_size(&made)?;
    let (object, change) = (Object::Type(made.name.clone()), SchemaChange::CreateType(made));
    Ok(Ddl::step(change, "CREATED", keyspace, object, Vec::new()))
}

fn add_field(
    context: &DdlContext<'_>,
    to: &mut UserType,
    field: &str,
    type_name: &TypeName,
) -> Result<()> {
    // Before the name is looked up, as Cassandra has it.
    if matches!(type_name, TypeName::User(_)) {
        return Err(Error::invalid("A user type cannot contain non-frozen UDTs"));
    }
    let ty = resolve_type(type_name, &to.keyspace, context.schema)?;
    if ty == CqlType::Counter {
        return Err(Error::invalid("A user type cannot contain counters"));
    }
    to.fields.push((field.to_owned(), ty));
    Ok(())
}

pub(super) fn alter(context: &DdlContext<'_>, alter: &AlterType) -> Result<Ddl> {
    let keyspace_name = context.keyspace_of(&alter.name)?;
    let name = &alter.name.name;
    let found =
        context.schema.keyspace(keyspace_name).and_then(|ks| Some((ks, ks.types.get(name)?)));
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
            add_field(context, &mut changed, field, type_name)?;
            check_growth(keyspace, &mut changed)?;
        }
        TypeChange::Rename { if_exists, names } => {
            refuse_initial_values(keyspace, name)?;
            rename_fields(&mut changed, old, names, *if_exists)?;
            if changed == **old {
                return Ok(Ddl::nothing());
            }
        }
        TypeChange::FieldType(..) => {
            return Err(Error::invalid("Altering field types is no longer supported"));
        }
    }
    let tables = tables_after(keyspace, &changed);
    check_users(keyspace, &changed, &tables)?;
    let object = Object::Type(changed.name.clone());
    let change = SchemaChange::AlterType { definition: changed, tables };
    Ok(Ddl::step(change, "UPDATED", keyspace_name, object, Vec::new()))
}

/// Refuses a last field that makes a circle, or for which values of keys would have to change.
fn check_growth(keyspace: &Keyspace, changed: &mut UserType) -> Result<()> {
    let name = format!("{}.{}", changed.keyspace, changed.name);
    let (field, ty) = changed.fields.last().expect("the field that was added");
    let refused = |why: &str| {
        let ty = Written(ty);
        Err(Error::Invalid(format!(
            "Cannot add new field {field} of type {ty} to user type {name} {why}"
        )))
    };
    if ty.mentions(&changed.name) {
        return refused("as it would create a circular reference");
    }
    let using = |is_used: &dyn Fn(&Table) -> bool| {
        let tables = keyspace.tables.values().filter(|table| is_used(table));
        tables.map(|table| format!("{}.{}", table.keyspace, table.name)).collect::<Vec<_>>()
    };
    let in_key = |table: &Table| {
        table.partition_key().iter().any(|column| column.ty.mentions(&changed.name))
    };
    let tables = using(&in_key);
    if !tables.is_empty() {
        return refused(&format!(
            "as the type is being used in partition key by the following tables: {}",
            tables.join(", ")
        ));
    }
    let tables = using(&|table| table.orders_by(&changed.name));
    if !changed.ended && !tables.is_empty() {
        return refused(&format!(
            "as the type was made by a version whose ordered values cannot grow, and it is being used in clustering columns, sets or map keys by the following tables: {}",
            tables.join(", ")
        ));
    }
    // Nothing on disk is ordered by it, so from now on its values may have an end.
    changed.ended = true;
    Ok(())
}

/// Refuses other names for the fields of a type that the initial value of an aggregate is written in.
fn refuse_initial_values(keyspace: &Keyspace, name: &str) -> Result<()> {
    let aggregates = keyspace.aggregates.values();
    let users = aggregates.filter(|one| one.initial.is_some() && one.state.mentions(name));
    let users: Vec<String> = users.map(|one| format!("{}.{}", keyspace.name, one.name)).collect();
    match users.is_empty() {
        true => Ok(()),
        false => Err(Error::Invalid(format!(
            "Cannot alter user type {}.{name} as it is still used in INITCOND by aggregates {}",
            keyspace.name,
            users.join(", ")
        ))),
    }
}

/// Gives fields other names; each is looked up among those of before.
fn rename_fields(
    changed: &mut UserType,
    old: &UserType,
    names: &[(String, String)],
    if_exists: bool,
) -> Result<()> {
    let of_type = format!("type {}.{}", old.keyspace, old.name);
    for (from, to) in names {
        match old.field(from) {
            Some((index, _)) => changed.fields[index].0 = to.clone(),
            None if if_exists => {}
            None => {
                return Err(Error::Invalid(format!("Unkown field {from} in user {of_type}")));
            }
        }
    }
    let mut seen = HashSet::with_capacity(changed.fields.len());
    for (name, _) in &changed.fields {
        if !seen.insert(name) {
            return Err(Error::Invalid(format!("Duplicate field name {name} in {of_type}")));
        }
    }
    Ok(())
}

/// A type as errors about user types show it: with keyspaces, tuples without `frozen`.
struct Written<'a>(&'a CqlType);

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frozen = match self.0 {
            CqlType::List { frozen, .. }
            | CqlType::Set { frozen, .. }
            | CqlType::Map { frozen, .. }
            | CqlType::Udt { frozen, .. } => *frozen,
            _ => false,
        };
        f.write_str(if frozen { "frozen<" } else { "" })?;
        match self.0 {
            CqlType::List { element, .. } => write!(f, "list<{}>", Written(element))?,
            CqlType::Set { element, .. } => write!(f, "set<{}>", Written(element))?,
            CqlType::Map { key, value, .. } => {
                write!(f, "map<{}, {}>", Written(key), Written(value))?;
            }
            CqlType::Tuple(parts) => {
                let parts: Vec<String> =
                    parts.iter().map(|part| Written(part).to_string()).collect();
                write!(f, "tuple<{}>", parts.join(", "))?;
            }
            CqlType::Udt { definition, .. } => {
                write!(f, "{}.{}", definition.keyspace, definition.name)?;
            }
            CqlType::Vector { element, dimensions } => {
                write!(f, "vector<{}, {dimensions}>", Written(element))?;
            }
            scalar => write!(f, "{scalar}")?,
        }
        f.write_str(if frozen { ">" } else { "" })
    }
}

/// Refuses a type that no column could have.
fn check_size(ty: &UserType) -> Result<()> {
    let definition = Arc::new(ty.clone());
    Ok(CqlType::Udt { definition, frozen: true }.check_limits()?)
}

/// Refuses a change that makes the type, or what is made of it, larger or deeper than types may be.
fn check_users(keyspace: &Keyspace, changed: &UserType, tables: &[Table]) -> Result<()> {
    check_size(changed)?;
    let definition = Arc::new(changed.clone());
    let fields = keyspace.types.values().flat_map(|ty| &ty.fields);
    let of_types = fields.map(|(_, ty)| ty.with_user_type(&definition));
    let of_tables = tables.iter().flat_map(Table::columns).map(|column| column.ty.clone());
    // What a start reads again is checked now: a type of a dropped column grows, too.
    let dropped = tables.iter().flat_map(|table| &table.dropped).map(|gone| gone.column.ty.clone());
    let functions = keyspace.functions.values();
    let functions =
        functions.flat_map(|one| one.arguments.iter().map(|(_, ty)| ty).chain([&one.result]));
    let aggregates = keyspace.aggregates.values();
    let aggregates =
        aggregates.flat_map(|one| one.arguments.iter().chain([&one.state, &one.result]));
    let of_functions = functions.chain(aggregates).map(|ty| ty.with_user_type(&definition));
    Ok(of_types
        .chain(of_tables)
        .chain(dropped)
        .chain(of_functions)
        .try_for_each(|ty| ty.check_limits())?)
}

/// The tables whose columns hold the type, with its new definition.
fn tables_after(keyspace: &Keyspace, changed: &UserType) -> Vec<Table> {
    let new = Redefined::new(Arc::new(changed.clone()));
    let holders = keyspace.tables.values().filter(|table| table.holds(&changed.name));
    let tables = holders.map(|table| {
        let mut table = Table::clone(table);
        table.replace_user_type(&new);
        table
    });
    tables.collect()
}

pub(super) fn drop(context: &DdlContext<'_>, name: &QualifiedName, if_exists: bool) -> Result<Ddl> {
    let keyspace_name = context.keyspace_of(name)?;
    let keyspace = context.schema.keyspace(keyspace_name);
    let Some(keyspace) = keyspace.filter(|ks| ks.types.contains_key(&name.name)) else {
        if if_exists {
            return Ok(Ddl::nothing());
        }
        let text = format!("Type '{keyspace_name}.{}' doesn't exist", name.name);
        return Err(Error::Invalid(text));
    };
    let used = |by: &str, users: Vec<&str>| match &users[..] {
        [] => Ok(()),
        users => Err(Error::Invalid(format!(
            "Cannot drop user type '{keyspace_name}.{}' as it is still used by {by} {}",
            name.name,
            users.join(", ")
        ))),
    };
    let functions = keyspace.functions.values().filter(|function| {
        function.types().chain([&function.result]).any(|ty| ty.mentions(&name.name))
    });
    let functions: Vec<String> =
        functions.map(|one| format!("{keyspace_name}.{}", one.name)).collect();
    let aggregates = keyspace.aggregates.values().filter(|aggregate| {
        let types = aggregate.arguments.iter().chain([&aggregate.state, &aggregate.result]);
        types.into_iter().any(|ty| ty.mentions(&name.name))
    });
    let aggregates: Vec<String> =
        aggregates.map(|one| format!("{keyspace_name}.{}", one.name)).collect();
    used("functions", functions.iter().chain(&aggregates).map(String::as_str).collect())?;
    let of_type = |user: &&Arc<UserType>| user.fields.iter().any(|(_, ty)| ty.mentions(&name.name));
    let types = keyspace.types.values().filter(of_type);
    used("user types", types.map(|user| user.name.as_str()).collect())?;
    let of_table = |table: &&Arc<Table>| table.columns().iter().any(|c| c.ty.mentions(&name.name));
    let tables = keyspace.tables.values().filter(of_table);
    used("tables", tables.map(|table| table.name.as_str()).collect())?;
    let change =
        SchemaChange::DropType { keyspace: keyspace_name.to_owned(), name: name.name.clone() };
    let object = Object::Type(name.name.clone());
    Ok(Ddl::step(change, "DROPPED", keyspace_name, object, Vec::new()))
}
