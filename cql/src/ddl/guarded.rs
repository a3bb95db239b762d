//! The guardrails of statements about the schema.
//!
//! ```text
//! statement ─► before: what its text alone shows ─► planned ─► after: what it has become ─► change, warnings
//! ```
//!
//! The order is Cassandra's: `validate` of its statements, then what they check while they are applied. What is the
//! server's own is not looked at; the plan refuses to change it.

use model::CqlType;
use model::options::{Given, Replication, Strategy, TableOptions};
use model::schema::{SchemaChange, Table};

use super::options;
use super::{Ddl, DdlContext};
use crate::error::Result;
use crate::guardrails::{Guardrail, Guardrails, property_bit};
use crate::lang::ast::{
    AlterTable, AlterType, CreateTable, CreateTableLike, CreateView, Properties, PropertyValue,
    QualifiedName, SchemaStatement, TableChange, TypeChange, TypeName,
};

/// Looks at a statement before it is planned. What comes back stands in its place: it has lost the options that
/// `table_properties_ignored` names.
pub(super) fn before(
    context: &DdlContext<'_>,
    statement: &SchemaStatement,
    warnings: &mut Vec<String>,
) -> Result<Option<SchemaStatement>> {
    let guardrails = context.guardrails;
    match statement {
        SchemaStatement::CreateKeyspace { name, properties, .. } if !(context.is_system)(name) => {
            let there = user_keyspaces(context).count();
            guardrails.check(Guardrail::Keyspaces, there as i64 + 1, name, warnings)?;
            check_strategy(guardrails, properties, warnings)?;
        }
        SchemaStatement::AlterKeyspace { name, properties, .. }
            if !(context.is_system)(name) && context.schema.keyspace(name).is_some() =>
        {
            check_strategy(guardrails, properties, warnings)?;
        }
        SchemaStatement::DropKeyspace { name, .. } if !(context.is_system)(name) => {
            guardrails.allow(Guardrail::DropKeyspace, warnings)?;
        }
        SchemaStatement::DropTable { name, .. } if is_of_users(context, name) => {
            guardrails.allow(Guardrail::DropTruncateTable, warnings)?;
        }
        SchemaStatement::CreateTable(create) if is_of_users(context, &create.name) => {
            return Ok(check_create(context, create, warnings)?.map(SchemaStatement::CreateTable));
        }
        SchemaStatement::CreateView(create) if is_of_users(context, &create.name) => {
            check_view(context, create, warnings)?;
        }
        SchemaStatement::CreateTableLike(like) if is_of_users(context, &like.name) => {
            return Ok(check_like(context, like, warnings)?.map(SchemaStatement::CreateTableLike));
        }
        SchemaStatement::AlterTable(alter) if is_of_users(context, &alter.name) => {
            return Ok(check_alter(context, alter, warnings)?.map(SchemaStatement::AlterTable));
        }
        SchemaStatement::CreateType { name, fields, .. } if is_of_users(context, name) => {
            let count = fields.len() as i64;
            guardrails.check(Guardrail::FieldsPerUdt, count, &name.name, warnings)?;
            for (field, ty) in fields {
                check_type(guardrails, ty, &format!("Field {field}"), warnings)?;
            }
        }
        SchemaStatement::AlterType(alter) if is_of_users(context, &alter.name) => {
            check_field(context, alter, warnings)?;
        }
        _ => {}
    }
    Ok(None)
}

/// Looks at what a statement has become.
pub(super) fn after(
    context: &DdlContext<'_>,
    planned: &Ddl,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let Some((change, _)) = &planned.step else { return Ok(()) };
    let guardrails = context.guardrails;
    match change {
        SchemaChange::CreateKeyspace { name, options }
        | SchemaChange::AlterKeyspace { name, options } => {
            let factors: Vec<u32> = match &options.replication {
                Replication::Local => Vec::new(),
                Replication::Simple(factor) => vec![*factor],
                Replication::NetworkTopology(factors) => factors.values().copied().collect(),
            };
            for factor in factors {
                let factor = i64::from(factor);
                for bound in
                    [Guardrail::MinimumReplicationFactor, Guardrail::MaximumReplicationFactor]
                {
                    guardrails.check(bound, factor, name, warnings)?;
                }
            }
            Ok(())
        }
        SchemaChange::CreateTable(table) => check_compressed(guardrails, table, warnings),
        SchemaChange::AlterTables(tables) => match tables.first() {
            Some(table) => check_altered(context, table, warnings),
            None => Ok(()),
        },
        SchemaChange::AlterTable(table) => check_altered(context, table, warnings),
        _ => Ok(()),
    }
}

fn check_altered(
    context: &DdlContext<'_>,
    table: &Table,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let guardrails = context.guardrails;
    let old = context.schema.table(&table.keyspace, &table.name);
    let before = old.map_or(0, |old| old.columns().len());
    let columns = table.columns().len();
    if columns > before {
        let guardrail = Guardrail::ColumnsPerTable;
        return guardrails.check(guardrail, columns as i64, &table.name, warnings);
    }
    if old.is_some_and(|old| old.options != table.options) {
        return check_compressed(guardrails, table, warnings);
    }
    Ok(())
}

fn user_keyspaces<'c>(
    context: &'c DdlContext<'_>,
) -> impl Iterator<Item = &'c model::schema::Keyspace> {
    let keyspaces = context.schema.keyspaces().map(|keyspace| &**keyspace);
    keyspaces.filter(|keyspace| !(context.is_system)(&keyspace.name))
}

/// Whether a name is one of a keyspace of users; without a keyspace it is refused by the plan.
fn is_of_users(context: &DdlContext<'_>, name: &QualifiedName) -> bool {
    name.keyspace.as_deref().or(context.keyspace).is_some_and(|name| !(context.is_system)(name))
}

fn check_strategy(
    guardrails: &Guardrails,
    properties: &Properties,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let is_simple = |(name, value): &(String, PropertyValue)| match value {
        PropertyValue::Map(pairs) if name == "replication" => pairs
            .iter()
            .any(|(k, v)| k == "class" && v.rsplit('.').next() == Some("SimpleStrategy")),
        _ => false,
    };
    match properties.iter().any(is_simple) {
        true => guardrails.allow(Guardrail::SimpleStrategy, warnings),
        false => Ok(()),
    }
}

fn check_create(
    context: &DdlContext<'_>,
    create: &CreateTable,
    warnings: &mut Vec<String>,
) -> Result<Option<Box<CreateTable>>> {
    let (guardrails, name) = (context.guardrails, &create.name.name);
    let kept = without_ignored(guardrails, &create.properties, warnings)?;
    let columns = create.columns.len() as i64;
    guardrails.check(Guardrail::ColumnsPerTable, columns, name, warnings)?;
    check_tables(context, name, warnings)?;
    if create.compact_storage {
        guardrails.allow(Guardrail::CompactTables, warnings)?;
    }
    check_expiry(guardrails, kept.as_ref().unwrap_or(&create.properties), warnings)?;
    for column in &create.columns {
        check_type(guardrails, &column.type_name, &format!("Column {}", column.name), warnings)?;
    }
    Ok(kept.map(|properties| Box::new(CreateTable { properties, ..create.clone() })))
}

fn check_view(
    context: &DdlContext<'_>,
    create: &CreateView,
    warnings: &mut Vec<String>,
) -> Result<()> {
    context.guardrails.allow(Guardrail::MaterializedViews, warnings)?;
    let keyspace = context.named_keyspace(&create.name)?;
    let Some(base) = context.schema.table(keyspace, &create.base.name) else { return Ok(()) };
    let views = context.schema.views_of(base).count() as i64 + 1;
    let what = format!("{} on table {}", create.name.name, base.name);
    context.guardrails.check(Guardrail::MaterializedViewsPerTable, views, &what, warnings)
}

fn check_tables(context: &DdlContext<'_>, name: &str, warnings: &mut Vec<String>) -> Result<()> {
    let tables: usize = user_keyspaces(context).map(|keyspace| keyspace.tables.len()).sum();
    context.guardrails.check(Guardrail::Tables, tables as i64 + 1, name, warnings)
}

/// As `CopyTableStatement` of later versions has it: what is copied counts as what is written.
fn check_like(
    context: &DdlContext<'_>,
    like: &CreateTableLike,
    warnings: &mut Vec<String>,
) -> Result<Option<CreateTableLike>> {
    let (guardrails, name) = (context.guardrails, &like.name.name);
    let kept = without_ignored(guardrails, &like.properties, warnings)?;
    check_tables(context, name, warnings)?;
    let keyspace = like.source.keyspace.as_deref().or(context.keyspace).unwrap_or_default();
    let target = like.name.keyspace.as_deref().or(context.keyspace).unwrap_or_default();
    let is_made = !like.if_not_exists || context.schema.table(target, name).is_none();
    let source = context.schema.table(keyspace, &like.source.name).filter(|_| is_made);
    if let Some(source) = source {
        let columns = source.columns().len() as i64;
        guardrails.check(Guardrail::ColumnsPerTable, columns, name, warnings)?;
        for column in source.columns() {
            if let CqlType::Vector { dimensions, .. } = column.ty {
                check_vector(guardrails, dimensions.into(), &column.name, warnings)?;
            }
        }
        if source.is_compact() {
            guardrails.allow(Guardrail::CompactTables, warnings)?;
        }
    }
    check_expiry(guardrails, kept.as_ref().unwrap_or(&like.properties), warnings)?;
    Ok(kept.map(|properties| CreateTableLike { properties, ..like.clone() }))
}

fn check_vector(
    guardrails: &Guardrails,
    dimensions: i64,
    what: &str,
    warnings: &mut Vec<String>,
) -> Result<()> {
    guardrails.allow_as(Guardrail::VectorType, what, warnings)?;
    guardrails.check(Guardrail::VectorDimensions, dimensions, what, warnings)
}

fn check_alter(
    context: &DdlContext<'_>,
    alter: &AlterTable,
    warnings: &mut Vec<String>,
) -> Result<Option<AlterTable>> {
    let guardrails = context.guardrails;
    match &alter.change {
        TableChange::Add { columns, .. } => {
            for column in columns {
                let what = format!("Column {}", column.name);
                check_type(guardrails, &column.type_name, &what, warnings)?;
            }
        }
        TableChange::With(properties) => {
            let kept = without_ignored(guardrails, properties, warnings)?;
            check_expiry(guardrails, kept.as_ref().unwrap_or(properties), warnings)?;
            return Ok(kept.map(|properties| {
                let change = TableChange::With(properties);
                AlterTable { change, ..alter.clone() }
            }));
        }
        TableChange::Drop { .. }
        | TableChange::Rename { .. }
        | TableChange::ColumnType(..)
        | TableChange::Mask(_)
        | TableChange::DropCompactStorage => {}
    }
    let is_of_columns = matches!(
        alter.change,
        TableChange::Add { .. } | TableChange::Drop { .. } | TableChange::Rename { .. }
    );
    let keyspace = alter.name.keyspace.as_deref().or(context.keyspace).unwrap_or_default();
    // A table that is not there is told first.
    if is_of_columns && context.schema.table(keyspace, &alter.name.name).is_some() {
        guardrails.allow(Guardrail::AlterTable, warnings)?;
    }
    Ok(None)
}

/// The options that are left when those to be ignored are gone; none if there are no such.
fn without_ignored(
    guardrails: &Guardrails,
    properties: &Properties,
    warnings: &mut Vec<String>,
) -> Result<Option<Properties>> {
    let names = properties.iter().map(|(name, _)| name.as_str());
    let left_out = guardrails.properties(names, warnings)?;
    let is_ignored = |name: &str| property_bit(name).is_some_and(|bit| left_out & bit != 0);
    let (ignored, kept): (Properties, Properties) =
        properties.iter().cloned().partition(|(name, _)| is_ignored(name));
    Ok((!ignored.is_empty()).then_some(kept))
}

/// Looks for time windows whose rows never expire, in the options that were written alone, as Cassandra does.
fn check_expiry(
    guardrails: &Guardrails,
    properties: &Properties,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let mut written = TableOptions::default();
    for (name, value) in properties {
        let given: Given = options::given(value);
        // What cannot be read is refused by the plan.
        if written.set(name, &given, &mut Vec::new()).is_err() && name != "id" {
            return Ok(());
        }
    }
    let is_windows = matches!(written.compaction.strategy(), Strategy::TimeWindow(_));
    match is_windows && written.default_time_to_live == 0 {
        true => guardrails.allow(Guardrail::ZeroTtlOnTwcs, warnings),
        false => Ok(()),
    }
}

fn check_compressed(
    guardrails: &Guardrails,
    table: &Table,
    warnings: &mut Vec<String>,
) -> Result<()> {
    match table.options.compression.pairs().get("enabled").is_some_and(|is| is == "false") {
        true => guardrails.allow(Guardrail::UncompressedTables, warnings),
        false => Ok(()),
    }
}

fn check_field(
    context: &DdlContext<'_>,
    alter: &AlterType,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let TypeChange::Add { field, type_name, .. } = &alter.change else { return Ok(()) };
    let keyspace = alter.name.keyspace.as_deref().or(context.keyspace).unwrap_or_default();
    let found = context.schema.keyspace(keyspace).and_then(|ks| ks.types.get(&alter.name.name));
    let Some(found) = found else { return Ok(()) };
    if found.fields.iter().any(|(name, _)| name == field) {
        return Ok(());
    }
    let (guardrails, count) = (context.guardrails, found.fields.len() as i64 + 1);
    guardrails.check(Guardrail::FieldsPerUdt, count, &alter.name.name, warnings)?;
    check_type(guardrails, type_name, &format!("Field {field}"), warnings)
}

/// Looks at the vectors in a type; what is in a vector is not looked at, as in Cassandra.
fn check_type(
    guardrails: &Guardrails,
    ty: &TypeName,
    what: &str,
    warnings: &mut Vec<String>,
) -> Result<()> {
    match ty {
        TypeName::Vector(_, dimensions) => {
            check_vector(guardrails, i64::from(*dimensions), what, warnings)
        }
        TypeName::List(part) | TypeName::Set(part) | TypeName::Frozen(part) => {
            check_type(guardrails, part, what, warnings)
        }
        TypeName::Map(key, value) => {
            check_type(guardrails, key, what, warnings)?;
            check_type(guardrails, value, what, warnings)
        }
        TypeName::Tuple(parts) => {
            parts.iter().try_for_each(|part| check_type(guardrails, part, what, warnings))
        }
        TypeName::Native(_) | TypeName::User(_) | TypeName::Custom(_) => Ok(()),
    }
}
