//! CREATE, ALTER and DROP TABLE.
//!
//! 1. IF EXISTS and IF NOT EXISTS: then there may be nothing to do.
//! 2. CREATE: name, options, types of the columns, the key and its order, and then the table of these
//!    parts. ALTER: a copy of the table with the one change; a copy that is as before is nothing to do.
//! 3. The change for the schema log, and what clients are told.
//!
//! Invariants: nothing is changed here, a statement that is refused leaves no trace; a column that comes
//! back has its old type and kind, and so its old id. Not here: options (`options.rs`), types
//! (`types.rs`), what every table must be (`model/src/schema/table.rs`), dropping the data (`shard`).

use std::collections::{BTreeSet, HashMap, HashSet};

use model::limits::{COLUMNS_MAX, NAME_BYTES_MAX};
use model::options::TableOptions;
use model::schema::{Column, ColumnKind, Keyspace, SchemaChange, Table, TableBuilder, TableId};
use model::types::CqlType;

use super::readded::may_follow;
use super::{Ddl, DdlContext, Object, compact, is_word, options, view};
use crate::error::{Error, Result};
use crate::lang::ast::{
    AlterTable, ColumnDefinition, CreateTable, Order, Properties, PropertyValue, QualifiedName,
    TableChange,
};
use crate::steps::step;
use crate::types::{has_duration, is_reversed, resolve_type};

pub(super) type Resolved<'c> = Vec<(&'c ColumnDefinition, CqlType)>;

pub(super) fn create(context: &DdlContext<'_>, create: &CreateTable) -> Result<Ddl> {
    check_written(create)?;
    let keyspace_name = context.keyspace_of(&create.name)?;
    let name = &create.name.name;
    let keyspace = context.existing(keyspace_name)?;
    if is_there(keyspace, name, create.if_not_exists)? {
        return Ok(Ddl::nothing());
    }
    check_table_name(keyspace_name, name)?;
    let mut warnings = Vec::new();
    let (id, properties) = take_id(context, &create.properties, id_is_taken)?;
    let options = options::apply(&TableOptions::default(), &properties, &mut warnings)?;
    let columns = resolve_columns(context, keyspace_name, &create.columns)?;
    let [(partition, clustering)] = create.primary_keys.as_slice() else {
        unreachable!("there is one")
    };
    check_key(name, &columns, partition, clustering)?;
    if columns.iter().any(|(_, ty)| holds_collections(ty)) {
        return Err(Error::invalid(NESTED));
    }
    let descending = directions(clustering, create)?;
    let table = TableBuilder::new(keyspace_name, name, id).options(options);
    let table = with_columns(table, create, &columns, (partition, clustering), &descending)?;
    check_counters(&table)?;
    let object = Object::Table(name.clone());
    let change = SchemaChange::CreateTable(Box::new(table));
    Ok(Ddl::step(change, "CREATED", keyspace_name, object, warnings))
}

/// The table of these columns, keys first.
fn with_columns(
    mut table: TableBuilder,
    create: &CreateTable,
    columns: &Resolved<'_>,
    (partition, clustering): (&[String], &[String]),
    descending: &[bool],
) -> Result<Table> {
    let key: HashSet<&str> = partition.iter().chain(clustering).map(String::as_str).collect();
    if create.compact_storage {
        compact::check_new(columns, |name| key.contains(name), clustering.len())?;
    }
    let types: HashMap<&str, &CqlType> =
        columns.iter().map(|(column, ty)| (column.name.as_str(), ty)).collect();
    let ty = |wanted: &str| types[wanted].clone();
    for column in partition {
        table = table.partition_key(column, ty(column))?;
    }
    for (column, descending) in clustering.iter().zip(descending) {
        table = table.clustering(column, ty(column), *descending)?;
    }
    for (column, ty) in columns.iter().filter(|(column, _)| !key.contains(&*column.name)) {
        table = match column.is_static {
            _ if create.compact_storage => {
                compact::add_value(table, &column.name, ty, clustering.len())?
            }
            true => table.stat(&column.name, ty.clone())?,
            false => table.regular(&column.name, ty.clone())?,
        };
    }
    if create.compact_storage {
        table = table.compact()?;
    }
    Ok(table.build()?)
}

/// What is wrong with the text alone, before anything is looked up: names are as written.
fn check_written(create: &CreateTable) -> Result<()> {
    let QualifiedName { keyspace, name } = &create.name;
    let table = keyspace.as_ref().map_or(name.clone(), |keyspace| format!("{keyspace}.{name}"));
    let mut names = HashSet::with_capacity(create.columns.len());
    for ColumnDefinition { name, .. } in &create.columns {
        if !names.insert(name) {
            return Err(Error::invalid(format!(
                "Duplicate column '{name}' declaration for table '{table}'"
            )));
        }
    }
    let wrong = match create.primary_keys.as_slice() {
        [_] => None,
        [] => Some("No PRIMARY KEY specifed"),
        _ => Some("Multiple PRIMARY KEY specified"),
    };
    if let Some(wrong) = wrong {
        let text = format!("{wrong} for table '{table}' (exactly one required)");
        return Err(Error::Invalid(text));
    }
    let mut ordered = HashSet::new();
    match create.clustering_order.iter().find(|(name, _)| !ordered.insert(name)) {
        None => Ok(()),
        Some((name, _)) => Err(Error::invalid(format!(
            "Duplicate column '{name}' in CLUSTERING ORDER BY clause for table '{table}'"
        ))),
    }
}

/// What is said of a column whose user type, not frozen, holds a collection that is not.
const NESTED: &str = "Non-frozen UDTs with nested non-frozen collections are not supported";

/// Whether it is a user type with cells of its own, and one of its fields would need such cells, too.
fn holds_collections(ty: &CqlType) -> bool {
    match ty {
        CqlType::Udt { definition, frozen: false } => {
            definition.fields.iter().any(|(_, field)| field.is_multi_cell())
        }
        _ => false,
    }
}

/// Whether a table of that name is there already, which is an error but for IF NOT EXISTS.
pub(super) fn is_there(keyspace: &Keyspace, name: &str, if_not_exists: bool) -> Result<bool> {
    let is_there = keyspace.tables.contains_key(name);
    if !is_there || if_not_exists {
        return Ok(is_there);
    }
    Err(Error::AlreadyExists {
        keyspace: keyspace.name.clone(),
        table: name.to_owned(),
        text: format!(
            "Cannot add already existing table \"{name}\" to keyspace \"{}\"",
            keyspace.name
        ),
    })
}

/// A name that is too long is an invalid request, as that of a keyspace is; Cassandra has it for one of its
/// configuration.
pub(super) fn check_table_name(keyspace: &str, name: &str) -> Result<()> {
    if !is_word(name) {
        return Err(Error::Config(format!(
            "{keyspace}.{name}: Table name must not be empty or not contain non-alphanumeric-underscore characters (got \"{name}\")"
        )));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "{keyspace}.{name}: Table name must not be more than {NAME_BYTES_MAX} characters long (got {} characters for \"{name}\")",
            name.len()
        )));
    }
    Ok(())
}

fn id_is_taken(table: &Table) -> Error {
    Error::Config(format!("Table with id {} already exists", table.id))
}

/// WITH ID gives a table the id it had elsewhere; the rest are options. `taken` is the error for an id that a table has.
pub(super) fn take_id(
    context: &DdlContext<'_>,
    properties: &Properties,
    taken: fn(&Table) -> Error,
) -> Result<(TableId, Properties)> {
    let mut rest = properties.clone();
    let Some(at) = rest.iter().position(|(name, _)| name == "id") else {
        return Ok((context.table_id, rest));
    };
    let invalid = || Error::Config("Invalid table id".to_owned());
    let (_, PropertyValue::Text(text)) = rest.remove(at) else {
        let text = "Invalid value for property 'id'. It should be a string";
        return Err(Error::Syntax(text.to_owned()));
    };
    let id = TableId(text.parse().map_err(|_| invalid())?);
    if let Some(table) = context.schema.table_by_id(id) {
        return Err(taken(table));
    }
    let dropped = context.schema.dropped_tables();
    if dropped.has_forgotten() {
        return Err(Error::Config(format!(
            "Table with id {id} may be one that was dropped long ago, whose id cannot be used again: leave the id out"
        )));
    }
    if dropped.contains(id) {
        return Err(Error::Config(format!(
            "Table with id {id} was dropped, and its id cannot be used again: choose another, or leave the id out"
        )));
    }
    Ok((id, rest))
}

fn resolve_columns<'c>(
    context: &DdlContext<'_>,
    keyspace: &str,
    columns: &'c [ColumnDefinition],
) -> Result<Resolved<'c>> {
    if columns.len() > COLUMNS_MAX {
        return Err(Error::invalid(format!("a table can have {COLUMNS_MAX} columns")));
    }
    let mut resolved: Resolved<'c> = Vec::with_capacity(columns.len());
    for column in columns {
        if column.is_masked {
            return Err(Error::invalid("Dynamic data masking is not available"));
        }
        resolved.push((column, resolve_type(&column.type_name, keyspace, context.schema)?));
    }
    Ok(resolved)
}

fn check_key(
    table: &str,
    columns: &Resolved<'_>,
    partition: &[String],
    clustering: &[String],
) -> Result<()> {
    let by_name: HashMap<&String, &(&ColumnDefinition, CqlType)> =
        columns.iter().map(|resolved| (&resolved.0.name, resolved)).collect();
    let mut key = HashSet::new();
    for name in partition.iter().chain(clustering) {
        if !key.insert(name) {
            return Err(Error::invalid(format!(
                "Duplicate column '{name}' in PRIMARY KEY clause for table '{table}'"
            )));
        }
        let Some((column, ty)) = by_name.get(name) else {
            return Err(Error::invalid(format!(
                "Unknown column '{name}' referenced in PRIMARY KEY for table '{table}'"
            )));
        };
        if column.is_static {
            return Err(Error::invalid(format!(
                "Static column '{name}' cannot be part of the PRIMARY KEY"
            )));
        }
        check_key_type(name, ty)?;
    }
    Ok(())
}

pub(super) fn check_key_type(name: &str, ty: &CqlType) -> Result<()> {
    match ty {
        CqlType::Counter => Err(Error::invalid(format!(
            "{ty} type is not supported for PRIMARY KEY column '{name}'"
        ))),
        CqlType::Udt { definition, frozen: false } => Err(Error::invalid(format!(
            "Invalid non-frozen user-defined type \"{}.{}\" for PRIMARY KEY column '{name}'",
            definition.keyspace, definition.name
        ))),
        _ if ty.is_multi_cell() => Err(Error::invalid(format!(
            "Invalid non-frozen collection type {ty} for PRIMARY KEY column '{name}'"
        ))),
        _ if has_duration(ty) => Err(Error::invalid(format!(
            "duration type is not supported for PRIMARY KEY column '{name}'"
        ))),
        _ => Ok(()),
    }
}

/// Whether each clustering column descends: the statement says so, or the class of its type.
fn directions(clustering: &[String], create: &CreateTable) -> Result<Vec<bool>> {
    let mut descending = written_directions(clustering, &create.clustering_order)?;
    for (name, descending) in clustering.iter().zip(&mut descending) {
        let column = create.columns.iter().find(|column| column.name == *name);
        *descending |= column.is_some_and(|column| is_reversed(&column.type_name));
    }
    Ok(descending)
}

fn written_directions(clustering: &[String], order: &[(String, Order)]) -> Result<Vec<bool>> {
    let strange: Vec<&str> = order
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|n| !clustering.iter().any(|c| c == n))
        .collect();
    if !strange.is_empty() {
        return Err(Error::invalid(format!(
            "Only clustering key columns can be defined in CLUSTERING ORDER directive: [{}] are not clustering columns",
            strange.join(", ")
        )));
    }
    let mut result = Vec::with_capacity(clustering.len());
    for (index, column) in clustering.iter().enumerate() {
        match order.get(index) {
            Some((name, direction)) if name == column => {
                result.push(*direction == Order::Descending);
            }
            Some((other, _)) if order.iter().any(|(name, _)| name == column) => {
                return Err(Error::invalid(format!(
                    "The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns ({column} must appear before {other})"
                )));
            }
            _ if order.is_empty() => result.push(false),
            Some(_) => {
                return Err(Error::invalid(format!(
                    "Missing CLUSTERING ORDER for column {column}"
                )));
            }
            _ => result.push(false),
        }
    }
    Ok(result)
}

fn check_counters(table: &Table) -> Result<()> {
    let counters = table.value_columns().iter().filter(|column| column.ty == CqlType::Counter);
    match counters.count() {
        0 => Ok(()),
        count if count < table.value_columns().len() => {
            Err(Error::invalid("Cannot mix counter and non counter columns in the same table"))
        }
        _ => check_counter_options(table),
    }
}

/// Counters do not expire.
pub(super) fn check_counter_options(table: &Table) -> Result<()> {
    match table.is_counter() && table.options.default_time_to_live > 0 {
        true => Err(Error::invalid("Cannot set default_time_to_live on a table with counters")),
        false => Ok(()),
    }
}

pub(super) fn alter(context: &DdlContext<'_>, alter: &AlterTable) -> Result<Ddl> {
    let keyspace = context.keyspace_of(&alter.name)?;
    let name = &alter.name.name;
    let Some(old) = context.schema.table(keyspace, name) else {
        if alter.if_exists {
            return Ok(Ddl::nothing());
        }
        return Err(Error::invalid(format!("Table '{keyspace}.{name}' doesn't exist")));
    };
    if old.view().is_some() {
        let text =
            "Cannot use ALTER TABLE on a materialized view; use ALTER MATERIALIZED VIEW instead";
        return Err(Error::invalid(text));
    }
    let mut table = Table::clone(old);
    let mut warnings = Vec::new();
    match &alter.change {
        TableChange::Add { if_not_exists, columns } => {
            add(context, &mut table, *if_not_exists, columns)?;
        }
        TableChange::Drop { if_exists, columns, timestamp } => {
            let at = match timestamp {
                None => context.timestamp_us,
                Some(timestamp) => *timestamp,
            };
            view::check_drops(context, old, columns)?;
            // A column that is named twice is dropped once.
            let columns: BTreeSet<&str> = columns.iter().map(String::as_str).collect();
            drop_columns(&mut table, columns, *if_exists, at)?;
        }
        TableChange::Rename { if_exists, names } => {
            // Each is a column of the table as it was: names that are given here do not count.
            let is_there = |from: &str| *if_exists || old.column(from).is_some();
            if let Some((from, _)) = names.iter().find(|(from, _)| !is_there(from)) {
                return Err(undefined_in(old, from));
            }
            names.iter().try_for_each(|(from, to)| rename(&mut table, from, to, *if_exists))?;
        }
        TableChange::With(properties) => {
            if properties.iter().any(|(name, _)| name == "id") {
                take_id(context, properties, id_is_taken)?;
                return Err(Error::Config("Cannot alter table id.".to_owned()));
            }
            table.options = options::apply(&table.options, properties, &mut warnings)?;
            check_counter_options(&table)?;
            view::check_base_grace(context, &table)?;
        }
        TableChange::ColumnType(..) => {
            return Err(Error::invalid("Altering column types is no longer supported"));
        }
        TableChange::Mask(_) => {
            return Err(Error::invalid("Dynamic data masking is not available"));
        }
        TableChange::DropCompactStorage => compact::drop_storage(context, &mut table)?,
    }
    if table == **old && warnings.is_empty() {
        return Ok(Ddl::nothing());
    }
    let object = Object::Table(name.clone());
    let change = view::with_views(context, table)?;
    Ok(Ddl::step(change, "UPDATED", keyspace, object, warnings))
}

/// Adds columns, of which there may be thousands: what was dropped is indexed by name once.
fn add(
    context: &DdlContext<'_>,
    table: &mut Table,
    if_not_exists: bool,
    columns: &[ColumnDefinition],
) -> Result<()> {
    let dropped = table.dropped.iter().map(|dropped| {
        step(1);
        (&*dropped.column.name, &dropped.column)
    });
    let dropped: HashMap<&str, &Column> = dropped.collect();
    let mut named = HashSet::new();
    let mut added = Vec::with_capacity(columns.len());
    let checked = columns.iter().try_for_each(|column| {
        let name = column.name.as_str();
        if named.contains(name) || table.has_name(name) {
            return match if_not_exists {
                true => Ok(()),
                false => Err(Error::invalid(format!("Column with name '{name}' already exists"))),
            };
        }
        let ty = check_added(context, table, column, dropped.get(name).copied())?;
        let kind = if column.is_static { ColumnKind::Static } else { ColumnKind::Regular };
        named.insert(name);
        added.push((name, ty, kind));
        Ok(())
    });
    // What is wrong with those before the one that was refused is told first.
    table.add_columns(added)?;
    checked
}

/// The type of a column whose name is free, if the table may have it; `before` is the one of its name that was dropped.
fn check_added(
    context: &DdlContext<'_>,
    table: &Table,
    column: &ColumnDefinition,
    before: Option<&Column>,
) -> Result<CqlType> {
    compact::check_added(table)?;
    let resolved = resolve_columns(context, &table.keyspace, std::slice::from_ref(column))?;
    let (_, ty) = resolved.into_iter().next().expect("one column has one type");
    if holds_collections(&ty) {
        return Err(Error::invalid(format!("{NESTED} for column {}", column.name)));
    }
    if column.is_static && table.clustering().is_empty() {
        return Err(Error::invalid(
            "Static columns are only useful (and thus allowed) if the table has at least one clustering column",
        ));
    }
    if let Some(before) = before {
        check_readded(table, column, &ty, before)?;
    }
    if (ty == CqlType::Counter) != table.is_counter() {
        let (is, not) = if table.is_counter() { ("non counter", "") } else { ("counter", "non ") };
        return Err(Error::Config(format!(
            "{}.{}: Cannot have a {is} column (\"{}\") in a {not}counter table",
            table.keyspace, table.name, column.name
        )));
    }
    Ok(ty)
}

/// A dropped column may come back, but not as something else: old clients may still write it.
fn check_readded(
    table: &Table,
    column: &ColumnDefinition,
    ty: &CqlType,
    before: &Column,
) -> Result<()> {
    if before.ty != *ty && !may_follow(ty, &before.ty) {
        return Err(Error::invalid(format!(
            "Cannot add a column '{0}' of type {ty}, incompatible with previously dropped column '{0}' of type {1}",
            column.name, before.ty
        )));
    }
    if (before.kind == ColumnKind::Static) != column.is_static {
        let (was, is) =
            if column.is_static { ("REGULAR", "STATIC") } else { ("STATIC", "REGULAR") };
        return Err(Error::invalid(format!(
            "Cannot re-add previously dropped column '{}' of kind {is}, incompatible with previous kind {was}",
            column.name
        )));
    }
    if table.is_counter() {
        let text = format!("Cannot re-add previously dropped counter column {}", column.name);
        return Err(Error::Invalid(text));
    }
    Ok(())
}

/// Drops columns, each of which is looked at first: whether one may go has nothing to do with the others.
fn drop_columns(
    table: &mut Table,
    mut columns: BTreeSet<&str>,
    if_exists: bool,
    at: i64,
) -> Result<()> {
    columns.iter().try_for_each(|column| check_dropped(table, column, if_exists))?;
    columns.retain(|column| table.column(column).is_some());
    Ok(table.drop_columns(&columns, at)?)
}

/// Refuses to drop a column that has to stay, or that is not there unless it need not be.
fn check_dropped(table: &Table, column: &str, if_exists: bool) -> Result<()> {
    compact::check_dropped(table, column)?;
    match table.column(column) {
        None if if_exists => Ok(()),
        None => Err(Error::invalid(format!(
            "Column {column} was not found in table '{}.{}'",
            table.keyspace, table.name
        ))),
        // As in Cassandra: the cells of its fields are more than the dropped column says.
        Some(Column { ty: ty @ CqlType::Udt { frozen: false, .. }, .. }) => {
            Err(Error::invalid(format!("Cannot drop non-frozen column {column} of user type {ty}")))
        }
        Some(known) => refuse_indexed(table, known, "Cannot drop"),
    }
}

/// Refuses a change of a column that has indexes.
fn refuse_indexed(table: &Table, column: &Column, cannot: &str) -> Result<()> {
    let names: Vec<&str> = table.indexes_of(column.id).map(|index| &*index.name).collect();
    match names.is_empty() {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "{cannot} column {} because it has dependent secondary indexes ({})",
            column.name,
            names.join(", ")
        ))),
    }
}

#[cold]
fn undefined_in(table: &Table, column: &str) -> Error {
    let Table { keyspace, name, .. } = table;
    Error::Invalid(format!("Undefined column name {column} in table {keyspace}.{name}"))
}

fn rename(table: &mut Table, from: &str, to: &str, if_exists: bool) -> Result<()> {
    let place = format!("{}.{}", table.keyspace, table.name);
    match table.column(from) {
        None if if_exists => return Ok(()),
        None => {
            return Err(undefined_in(table, from));
        }
        Some(column) if column.kind > ColumnKind::Clustering => {
            return Err(Error::invalid(format!("Cannot rename non PRIMARY KEY column {from}")));
        }
        Some(_) if table.has_name(to) => {
            return Err(Error::invalid(format!(
                "Cannot rename column {from} to {to} in table '{place}'; another column with that name already exists"
            )));
        }
        Some(column) => refuse_indexed(table, column, "Can't rename")?,
    }
    Ok(table.rename_column(from, to)?)
}

pub(super) fn drop(context: &DdlContext<'_>, name: &QualifiedName, if_exists: bool) -> Result<Ddl> {
    let keyspace = context.keyspace_of(name)?;
    let Some(table) = context.schema.table(keyspace, &name.name) else {
        if if_exists {
            return Ok(Ddl::nothing());
        }
        return Err(Error::invalid(format!("Table '{keyspace}.{}' doesn't exist", name.name)));
    };
    view::check_drop_table(context, table)?;
    let (keyspace, name) = (keyspace.to_owned(), name.name.clone());
    let object = Object::Table(name.clone());
    let change = SchemaChange::DropTable { keyspace: keyspace.clone(), name };
    Ok(Ddl::step(change, "DROPPED", &keyspace, object, Vec::new()))
}
