//! CREATE, ALTER and DROP MATERIALIZED VIEW, and what a table with views may not.
//!
//! 1. The base, the name, the columns and the key are looked up, in the order and the words of Cassandra
//!    (`CreateViewStatement`).
//! 2. The WHERE becomes restrictions: columns of the view's key may be compared with constants, others be
//!    `IS NOT NULL`.
//! 3. Options are those of a table, but for a time to live of the view's own: its rows live as long as what they show.
//!    Neither the base nor a view may have `gc_grace_seconds` of 0, or drop tombstones at once by `tombstone_gc`. (In
//!    Cassandra only the base and a view that is altered may not, and there is no `tombstone_gc`.)
//!
//! More than Cassandra: columns of the key need not be selected, and a regular column that is in the key may be
//! compared, as in ScyllaDB; `IS NOT NULL` of a column that is not in the key is a condition, where Cassandra passes
//! over it. Not here: how a view is kept (`engine/src/views.rs`), or built (`shard/src/view_builds.rs`).

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::{BTreeSet, HashSet};

use model::options::{TableOptions, TombstoneGc};
use model::read::Operator as Comparison;
use model::schema::{
    Column, ColumnId, ColumnKind, SchemaChange, Table, ViewDefinition, ViewIdentity, ViewKey,
    ViewRestriction, ViewTest,
};

use super::{Ddl, DdlContext, Object, options, table};
use crate::error::{Error, Result};
use crate::expr::{Compiler, ExpectedType};
use crate::lang::ast::{
    CreateView, Expr, Operand, Operator, Order, Properties, QualifiedName, Relation, Target,
};
use crate::limits::VIEW_CONSTANTS_BYTES_MAX;

/// Why a table with views has `gc_grace_seconds`, in the words of Cassandra. A row of a view may be written again after
/// a crash, here as there: if its tombstone were purged by then, the row would come back.
const NEEDS_GRACE: &str = "since this value is used to TTL undelivered updates. Setting gc_grace_seconds too low might cause undelivered updates to expire before being replayed.";

/// Why a view and its base may not have `tombstone_gc` of `immediate`, by which the next compaction drops tombstones.
const DROPS_AT_ONCE: &str = "since an update of a view may be delivered again: without its tombstone a row that was deleted would come back.";

/// An option by which a table drops tombstones before late updates of a view have come.
struct TooEarlyGc {
    /// The option, its value as CQL writes it, and why it may not have that.
    option: &'static str,
    value: &'static str,
    why: &'static str,
}

impl TooEarlyGc {
    /// The option of these that does so, if one does.
    fn of(options: &TableOptions) -> Option<TooEarlyGc> {
        if options.gc_grace_seconds == 0 {
            return Some(TooEarlyGc { option: "gc_grace_seconds", value: "0", why: NEEDS_GRACE });
        }
        let drops_at_once = options.tombstone_gc == TombstoneGc::Immediate;
        let (option, value) = ("tombstone_gc", "'immediate'");
        drops_at_once.then_some(TooEarlyGc { option, value, why: DROPS_AT_ONCE })
    }
}

pub(super) fn create(context: &DdlContext<'_>, create: &CreateView) -> Result<Ddl> {
    let keyspace_name = context.keyspace_of(&create.name)?;
    let name = &create.name.name;
    let keyspace = context.existing(keyspace_name)?;
    let base_keyspace = create.base.keyspace.as_deref().or(context.keyspace);
    if base_keyspace.unwrap_or(keyspace_name) != keyspace_name {
        let text = "Cannot create a materialized view on a table in a different keyspace";
        return Err(Error::invalid(text));
    }
    let missing = || Error::invalid(format!("Base table '{}' doesn't exist", create.base.name));
    let base = keyspace.tables.get(&create.base.name).ok_or_else(missing)?;
    check_base(base)?;
    if keyspace.tables.get(name).is_some_and(|there| there.view().is_none()) {
        return Err(Error::invalid(format!(
            "Cannot create materialized view '{name}' - a table with the same name already exists"
        )));
    }
    if table::is_there(keyspace, name, create.if_not_exists)? {
        return Ok(Ddl::nothing());
    }
    table::check_table_name(keyspace_name, name)?;
    if let Some(TooEarlyGc { option, value, why }) = TooEarlyGc::of(&base.options) {
        let base = &base.name;
        return Err(Error::Invalid(format!(
            "Cannot create materialized view '{name}' for base table '{base}' with {option} of {value}, {why}"
        )));
    }
    let selected = selected(base, create)?;
    let key = key_of(base, create)?;
    let order = directions(base, create)?;
    let restrictions = restrictions(context, base, create, &key)?;
    let mut warnings = Vec::new();
    let (id, properties) = table::take_id(context, &create.properties, id_is_taken)?;
    let options = options::apply(&TableOptions::default(), &properties, &mut warnings)?;
    if options.default_time_to_live > 0 {
        return Err(Error::invalid(
            "Cannot set default_time_to_live for a materialized view. Data in a materialized view always expire at the same time than the corresponding data in the parent table.",
        ));
    }
    if let Some(TooEarlyGc { option, value, why }) = TooEarlyGc::of(&options) {
        return Err(Error::Invalid(format!(
            "Cannot create materialized view '{name}' with {option} of {value}, {why}"
        )));
    }
    let in_key: HashSet<ColumnId> = key.iter().map(|column| column.id).collect();
    let partition = create.primary_key.0.len();
    let ids: Vec<ColumnId> = key.iter().map(|column| column.id).collect();
    let key = ViewKey {
        partition: ids[..partition].to_vec(),
        clustering: ids[partition..].iter().copied().zip(order).collect(),
    };
    let others: Vec<ColumnId> = selected.into_iter().filter(|id| !in_key.contains(id)).collect();
    let definition =
        ViewDefinition { base: base.id, include_all: create.items.is_empty(), restrictions };
    let identity = ViewIdentity { id, name: name.clone(), options };
    let view = Table::view_of(base, identity, &key, &others, definition)?;
    let change = SchemaChange::CreateTable(Box::new(view));
    Ok(Ddl::step(change, "CREATED", keyspace_name, Object::Table(name.clone()), warnings))
}

/// Refuses a view, or a table that has views, that is altered and has no grace: also if it had none before.
fn check_grace(table: &Table, what: &str) -> Result<()> {
    match TooEarlyGc::of(&table.options) {
        Some(TooEarlyGc { option, value, why }) => {
            Err(Error::Invalid(format!("Cannot alter {option} of {what} to {value}, {why}")))
        }
        None => Ok(()),
    }
}

/// Refuses to leave a table that has views without a grace: with any ALTER of its options, as `AlterTableStatement`
/// does.
pub(super) fn check_base_grace(context: &DdlContext<'_>, base: &Table) -> Result<()> {
    match context.schema.views_of(base).next() {
        Some(_) => check_grace(base, "the base table of a materialized view"),
        None => Ok(()),
    }
}

/// Refuses tables that have no views.
fn check_base(base: &Table) -> Result<()> {
    if base.view().is_some() {
        return Err(Error::invalid(format!(
            "Base table '{}' doesn't exist: it is a materialized view, and materialized views have none",
            base.name
        )));
    }
    if base.is_counter() {
        return Err(Error::invalid("Materialized views are not supported on counter tables"));
    }
    if base.is_compact() {
        return Err(Error::invalid("Materialized views are not supported on compact tables"));
    }
    Ok(())
}

/// The columns that are selected, beside those of the key.
fn selected(base: &Table, create: &CreateView) -> Result<Vec<ColumnId>> {
    let mut names: Vec<&str> = Vec::new();
    for item in &create.items {
        if let Some(alias) = &item.alias {
            return Err(Error::invalid(format!(
                "Cannot use aliases when defining a materialized view (got {} AS {alias})",
                item.expr
            )));
        }
        let Expr::Column(name) = &item.expr else {
            return Err(Error::invalid(format!(
                "Can only select columns by name when defining a materialized view (got {})",
                item.expr
            )));
        };
        names.push(name.as_str());
    }
    if create.items.is_empty() {
        names.extend(base.columns().iter().map(|column| column.name.as_str()));
    }
    let mut ids = BTreeSet::new();
    for name in names {
        let column = column_of(base, name)?;
        if column.kind == ColumnKind::Static {
            return Err(Error::invalid(format!(
                "Cannot include static column '{name}' in materialized view '{}'",
                create.name.name
            )));
        }
        ids.insert(column.id);
    }
    Ok(ids.into_iter().collect())
}

fn column_of<'b>(base: &'b Table, name: &str) -> Result<&'b Column> {
    base.column(name).ok_or_else(|| {
        let Table { keyspace, name: table, .. } = base;
        Error::invalid(format!("Undefined column name {name} in table {keyspace}.{table}"))
    })
}

/// The columns of the view's key, in order.
fn key_of<'b>(base: &'b Table, create: &CreateView) -> Result<Vec<&'b Column>> {
    let view = &create.name.name;
    let (partition, clustering) = &create.primary_key;
    let (mut key, mut seen) = (Vec::new(), HashSet::<&str>::new());
    for name in partition.iter().chain(clustering) {
        if !seen.insert(name.as_str()) {
            return Err(Error::invalid(format!(
                "Duplicate column '{name}' in PRIMARY KEY clause for materialized view '{view}'"
            )));
        }
        let Some(column) = base.column(name) else {
            return Err(Error::invalid(format!(
                "Unknown column '{name}' referenced in PRIMARY KEY for materialized view '{view}'"
            )));
        };
        if column.kind == ColumnKind::Static {
            return Err(Error::invalid(format!(
                "Cannot include static column '{name}' in materialized view '{view}'"
            )));
        }
        table::check_key_type(name, &column.ty)?;
        key.push(column);
    }
    let of_base = base.partition_key().iter().chain(base.clustering());
    let missing = names(of_base.filter(|column| !seen.contains(column.name.as_str())));
    if !missing.is_empty() {
        return Err(Error::invalid(format!(
            "Cannot create materialized view '{view}' without primary key columns {missing} from base table '{}'",
            base.name
        )));
    }
    let others = key.iter().filter(|column| column.kind == ColumnKind::Regular);
    if others.clone().count() > 1 {
        return Err(Error::invalid(format!(
            "Cannot include more than one non-primary key column in materialized view primary key (got {})",
            names(others.copied())
        )));
    }
    Ok(key)
}

fn names<'c>(columns: impl Iterator<Item = &'c Column>) -> String {
    columns.map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Whether each clustering column descends: as WITH says, or as in the base.
fn directions(base: &Table, create: &CreateView) -> Result<Vec<bool>> {
    let (clustering, order) = (&create.primary_key.1, &create.clustering_order);
    if order.is_empty() {
        let of_base = |name: &String| base.column(name).is_some_and(|column| column.descending);
        return Ok(clustering.iter().map(of_base).collect());
    }
    let mut seen = HashSet::new();
    if let Some((name, _)) = order.iter().find(|(name, _)| !seen.insert(name)) {
        return Err(Error::invalid(format!(
            "Duplicate column '{name}' in CLUSTERING ORDER BY clause for view '{}'",
            create.name.name
        )));
    }
    if !order.iter().map(|(name, _)| name).eq(clustering) {
        return Err(Error::invalid(
            "Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive",
        ));
    }
    Ok(order.iter().map(|(_, order)| *order == Order::Descending).collect())
}

/// What WHERE says.
fn restrictions(
    context: &DdlContext<'_>,
    base: &Table,
    create: &CreateView,
    key: &[&Column],
) -> Result<Vec<ViewRestriction>> {
    if create.compact_storage {
        let text = "Cannot use 'COMPACT STORAGE' when defining a materialized view";
        return Err(Error::invalid(text));
    }
    let mut all = Vec::new();
    let bytes = Cell::new(0);
    for relation in &create.relations {
        all.push(restriction(context, base, relation, &bytes)?);
    }
    let is_key = |id: ColumnId| key.iter().any(|column| column.id == id);
    let is_free = |column: &&Column| !all.iter().any(|one| one.column == column.id);
    let unrestricted = names(key.iter().copied().filter(is_free));
    if !unrestricted.is_empty() {
        return Err(Error::invalid(format!(
            "Primary key columns {unrestricted} must be restricted with 'IS NOT NULL' or otherwise"
        )));
    }
    let of = |id| base.column_by_id(id);
    let is_static = |id| of(id).is_some_and(|column| column.kind == ColumnKind::Static);
    let illegal = all
        .iter()
        .filter(|one| is_static(one.column) || (one.test.is_some() && !is_key(one.column)));
    let illegal: Vec<&Column> = illegal.filter_map(|one| of(one.column)).collect();
    if !illegal.is_empty() {
        return Err(Error::invalid(format!(
            "Non-primary key columns can only be restricted with 'IS NOT NULL' (got: {} restricted illegally)",
            names(illegal.into_iter())
        )));
    }
    for column in key {
        let tests = all.iter().filter(|one| one.column == column.id);
        let tests = tests.filter_map(|one| one.test.as_ref());
        let has_equal = tests.clone().any(|test| test.operator == Comparison::Equal);
        if has_equal && tests.count() > 1 {
            return Err(Error::invalid(format!(
                "{} cannot be restricted by more than one relation if it includes an Equal",
                column.name
            )));
        }
    }
    Ok(all)
}

/// One relation of WHERE. Adds to `bytes` those of its constants, and refuses them when they are too many.
fn restriction(
    context: &DdlContext<'_>,
    base: &Table,
    relation: &Relation,
    bytes: &Cell<usize>,
) -> Result<ViewRestriction> {
    let (name, is_tuple) = match &relation.target {
        Target::Column(name) => (name, false),
        Target::Columns(names) if names.len() == 1 => (&names[0], true),
        Target::Token(_) => {
            let text = "Cannot use token relation when defining a materialized view";
            return Err(Error::invalid(text));
        }
        Target::Columns(_) | Target::Element(..) => {
            return Err(Error::invalid(
                "A materialized view compares one column in each relation: write a relation for each of them",
            ));
        }
    };
    let column = column_of(base, name)?;
    if relation.operator == Operator::IsNotNull {
        return Ok(ViewRestriction { column: column.id, test: None });
    }
    let operator = match relation.operator {
        Operator::Equal => Comparison::Equal,
        Operator::Less => Comparison::Less,
        Operator::LessEqual => Comparison::LessOrEqual,
        Operator::Greater => Comparison::Greater,
        Operator::GreaterEqual => Comparison::GreaterOrEqual,
        Operator::In => Comparison::In,
        other => {
            return Err(Error::invalid(format!(
                "A materialized view cannot have a relation with {} on column {name}",
                other.symbol()
            )));
        }
    };
    let one = |expr: &Expr| -> Result<Box<[u8]>> {
        let value = match expr {
            Expr::Tuple(values) if is_tuple && values.len() == 1 => {
                constant(context, base, column, &values[0])?
            }
            expr => constant(context, base, column, expr)?,
        };
        bytes.set(bytes.get() + value.len());
        check_constants(bytes.get()).map(|()| value)
    };
    let values = match &relation.operand {
        Operand::One(expr) => vec![one(expr)?],
        Operand::Many(exprs) => exprs.iter().map(one).collect::<Result<_>>()?,
        Operand::ManyBind(_) | Operand::Between(..) => {
            return Err(Error::invalid(format!(
                "A materialized view cannot have such a relation on column {name}"
            )));
        }
    };
    Ok(ViewRestriction { column: column.id, test: Some(ViewTest { operator, values }) })
}

/// Refuses constants that take more than [`VIEW_CONSTANTS_BYTES_MAX`]: every core keeps them, and they are shown and
/// compared in one step.
fn check_constants(bytes: usize) -> Result<()> {
    if bytes <= VIEW_CONSTANTS_BYTES_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "The constants of a materialized view take more than {VIEW_CONSTANTS_BYTES_MAX} bytes: compare with fewer or shorter ones"
    )))
}

fn constant(
    context: &DdlContext<'_>,
    base: &Table,
    column: &Column,
    expr: &Expr,
) -> Result<Box<[u8]>> {
    if let Expr::Literal(literal) = expr {
        // Before they are made into bytes. A blob is written as `0x`, with two digits for each byte.
        check_constants((literal.text.len() / 2).saturating_sub(1))?;
    }
    let mut compiler = Compiler::new(context.schema, base, &[]);
    let term = compiler.term(expr, &ExpectedType::new(&column.name, column.ty.clone()))?;
    let Some(bytes) = term.constant_bytes() else {
        return Err(Error::invalid(format!(
            "Invalid null value in condition for column {}: a materialized view compares with constants",
            column.name
        )));
    };
    Ok(bytes.into())
}

/// Cassandra fails in its server; ScyllaDB says this.
fn id_is_taken(table: &Table) -> Error {
    let (id, keyspace, name) = (table.id, &table.keyspace, &table.name);
    Error::invalid(format!("Table with ID {id} already exists: {keyspace}.{name}"))
}

pub(super) fn alter(
    context: &DdlContext<'_>,
    name: &QualifiedName,
    if_exists: bool,
    properties: &Properties,
) -> Result<Ddl> {
    let keyspace = context.keyspace_of(name)?;
    let Some(old) = view_named(context, keyspace, name) else {
        return missing(keyspace, name, if_exists);
    };
    if properties.iter().any(|(name, _)| name == "id") {
        table::take_id(context, properties, id_is_taken)?;
        return Err(Error::Config("Cannot alter table id.".to_owned()));
    }
    let (mut view, mut warnings) = (Table::clone(old), Vec::new());
    view.options = options::apply(&view.options, properties, &mut warnings)?;
    check_grace(&view, "a materialized view")?;
    if view.options.default_time_to_live > 0 {
        return Err(Error::invalid(
            "Forbidden default_time_to_live detected for a materialized view. Data in a materialized view always expire at the same time than the corresponding data in the parent table. default_time_to_live must be set to zero, see CASSANDRA-12868 for more information",
        ));
    }
    if view == *old && warnings.is_empty() {
        return Ok(Ddl::nothing());
    }
    let object = Object::Table(name.name.clone());
    let change = SchemaChange::AlterTable(Box::new(view));
    Ok(Ddl::step(change, "UPDATED", keyspace, object, warnings))
}

pub(super) fn drop(context: &DdlContext<'_>, name: &QualifiedName, if_exists: bool) -> Result<Ddl> {
    let keyspace = context.keyspace_of(name)?;
    if view_named(context, keyspace, name).is_none() {
        return missing(keyspace, name, if_exists);
    }
    let (keyspace, name) = (keyspace.to_owned(), name.name.clone());
    let object = Object::Table(name.clone());
    let change = SchemaChange::DropTable { keyspace: keyspace.clone(), name };
    Ok(Ddl::step(change, "DROPPED", &keyspace, object, Vec::new()))
}

fn view_named<'g>(
    context: &DdlContext<'g>,
    keyspace: &str,
    name: &QualifiedName,
) -> Option<&'g Table> {
    let table = context.schema.table(keyspace, &name.name)?;
    table.view().map(|_| &**table)
}

fn missing(keyspace: &str, name: &QualifiedName, if_exists: bool) -> Result<Ddl> {
    if if_exists {
        return Ok(Ddl::nothing());
    }
    Err(Error::invalid(format!("Materialized view '{keyspace}.{}' doesn't exist", name.name)))
}

/// ALTER TABLE: the table as it is to be, and its views after it.
pub(super) fn with_views(context: &DdlContext<'_>, table: Table) -> Result<SchemaChange> {
    let mut views = Vec::new();
    for view in context.schema.views_of(&table) {
        let next = view.following(&table)?;
        if next != **view {
            views.push(next);
        }
    }
    if views.is_empty() {
        return Ok(SchemaChange::AlterTable(Box::new(table)));
    }
    Ok(SchemaChange::AlterTables([table].into_iter().chain(views).collect()))
}

/// Refuses to drop columns of a table that has views: rows of a view live as long as those of the base, and these by
/// any of their columns.
pub(super) fn check_drops(
    context: &DdlContext<'_>,
    table: &Table,
    columns: &[String],
) -> Result<()> {
    let there = columns.iter().find(|name| table.column(name).is_some());
    match (there, context.schema.views_of(table).next()) {
        (Some(column), Some(_)) => Err(Error::invalid(format!(
            "Cannot drop column {column} on base table {} with materialized views",
            table.name
        ))),
        _ => Ok(()),
    }
}

/// Refuses to drop a view as a table, and a table that has views.
pub(super) fn check_drop_table(context: &DdlContext<'_>, table: &Table) -> Result<()> {
    if table.view().is_some() {
        return Err(Error::invalid(
            "Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW instead.",
        ));
    }
    let views: Vec<&str> = context.schema.views_of(table).map(|view| view.name.as_str()).collect();
    if views.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "Cannot drop a table when materialized views still depend on it ({}: {})",
        table.keyspace,
        views.join(", ")
    )))
}
