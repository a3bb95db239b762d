//! The schema as rows: `system_schema` and `system_virtual_schema`, which every driver reads.
//!
//! Types are written as CQL. Keyspaces that are computed stand in `system_virtual_schema` alone,
//! the two that Cassandra stores (`system`, `system_schema`) in `system_schema`.
//!
//! 1. One function a table; each gives rows of the schema that it is called with, and none reads a disk.
//! 2. Tables, views, columns and indexes come by `of_tables`, so only those of `facts.tables` are computed: a caller
//!    with a large schema computes some at a time (`execute/computed.rs`).
//! 3. A materialized view is in `views` and not in `tables`; its columns are in `columns` as those of tables are.
//! 4. Options that ScyllaDB has more than Cassandra are in `extensions`, in ScyllaDB's serialized form.
//!
//! The rows have no order here: the read sorts them by token and clustering key.
//!
//! Not here: CREATE statements of the schema (`cql/src/describe.rs`), the columns of these tables
//! (`system/system.cql`), the list of options (`model/src/options/list.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use cql::describe::{index_target, where_clause};
use cql::literal::value_literal;
use model::Token;
use model::options::{self, TableOptions};
use model::schema::{
    Column, ColumnKind, DroppedColumn, Index, Keyspace, Schema, Table, UserAggregate, UserFunction,
};
use model::types::CqlType;

use super::value::{Row, Value};
use super::{NodeFacts, is_virtual};

/// The keyspaces that `system_schema` lists, in the order of their tokens.
pub(super) fn stored(schema: &Schema) -> impl Iterator<Item = &Arc<Keyspace>> {
    let listed = schema.keyspaces().filter(|keyspace| !is_virtual(&keyspace.name));
    let mut listed: Vec<&Arc<Keyspace>> = listed.collect();
    listed.sort_by_key(|keyspace| (Token::of_key(keyspace.name.as_bytes()), &keyspace.name));
    listed.into_iter()
}

/// Rows of `system_schema.keyspaces`.
pub(super) fn keyspaces(schema: &Schema) -> Vec<Row> {
    let row = |keyspace: &Arc<Keyspace>| {
        vec![
            ("keyspace_name", Value::text(&keyspace.name)),
            ("durable_writes", Value::Boolean(keyspace.options.durable_writes)),
            ("replication", Value::Map(keyspace.options.replication.pairs())),
        ]
    };
    stored(schema).map(row).collect()
}

/// Rows of `system_schema.tables`.
pub(super) fn tables(facts: &NodeFacts<'_>) -> Vec<Row> {
    facts.of_tables(|of, rows| {
        if of.view().is_none() {
            rows.push(table(of));
        }
    })
}

/// Rows of `system_schema.views`.
pub(super) fn views(facts: &NodeFacts<'_>) -> Vec<Row> {
    facts.of_tables(|of, rows| {
        let Some(definition) = of.view() else { return };
        let base = facts.schema.table_by_id(definition.base);
        let mut row = vec![
            ("keyspace_name", Value::text(&of.keyspace)),
            ("view_name", Value::text(&of.name)),
            ("base_table_id", Value::Uuid(definition.base.0)),
            ("base_table_name", Value::text(base.map_or("", |base| base.name.as_str()))),
            ("dclocal_read_repair_chance", Value::Double(0.0)),
            ("id", Value::Uuid(of.id.0)),
            ("include_all_columns", Value::Boolean(definition.include_all)),
            ("read_repair_chance", Value::Double(0.0)),
            (
                "where_clause",
                Value::text(base.map(|base| where_clause(of, base)).unwrap_or_default()),
            ),
        ];
        row.extend(option_columns(of));
        rows.push(row);
    })
}

fn table(table: &Table) -> Row {
    let is_compound = !table.is_compact() || table.clustering().len() > 1;
    let flags =
        [(is_compound, "compound"), (table.is_counter(), "counter"), (table.is_dense(), "dense")];
    let flags = flags.into_iter().filter(|(has, _)| *has).map(|(_, flag)| flag.to_owned());
    let flags = flags.collect();
    let mut row = vec![
        ("keyspace_name", Value::text(&table.keyspace)),
        ("table_name", Value::text(&table.name)),
        ("dclocal_read_repair_chance", Value::Double(0.0)),
        ("flags", Value::Set(flags)),
        ("id", Value::Uuid(table.id.0)),
        ("read_repair_chance", Value::Double(0.0)),
    ];
    row.extend(option_columns(table));
    row
}

/// The columns of the options.
fn option_columns(table: &Table) -> impl Iterator<Item = (&'static str, Value)> {
    // As in Cassandra: null, unless a memtable was named.
    let named = |name: &str| name != "memtable" || table.options.memtable != "default";
    let columns = table.options.columns().filter(move |(name, _)| named(name));
    columns.map(|(name, value)| match (name, value) {
        ("extensions", options::Value::Blobs(own)) => (name, extensions(own, &table.options)),
        (name, value) => (name, option(value)),
    })
}

/// What a statement gave as `extensions`, and the options that ScyllaDB has more than Cassandra, in the form that
/// ScyllaDB serializes and its drivers read.
fn extensions(own: &BTreeMap<String, Vec<u8>>, options: &TableOptions) -> Value {
    let mut all = own.clone();
    all.extend(options.extras().map(|(name, value)| (name.to_owned(), serialized(&value))));
    Value::BlobMap(all)
}

/// ScyllaDB's serializer: little endian, and 4 bytes of length before a text and before the pairs of a map.
fn serialized(value: &options::Value<'_>) -> Vec<u8> {
    let text = |out: &mut Vec<u8>, text: &str| {
        out.extend_from_slice(&(text.len() as u32).to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    };
    let mut out = Vec::new();
    match value {
        options::Value::Text(value) => text(&mut out, value),
        options::Value::Boolean(value) => out.push(u8::from(*value)),
        options::Value::Double(value) => out.extend_from_slice(&value.to_le_bytes()),
        options::Value::Int(value) => out.extend_from_slice(&value.to_le_bytes()),
        options::Value::Map(map) => {
            out.extend_from_slice(&(map.len() as u32).to_le_bytes());
            for (key, value) in &**map {
                text(&mut out, key);
                text(&mut out, value);
            }
        }
        options::Value::Blobs(_) => unreachable!("no option of ScyllaDB is a map of bytes"),
    }
    out
}

fn option(value: options::Value<'_>) -> Value {
    match value {
        options::Value::Text(text) => Value::text(&*text),
        options::Value::Boolean(value) => Value::Boolean(value),
        options::Value::Double(value) => Value::Double(value),
        options::Value::Int(value) => Value::Int(value),
        options::Value::Map(map) => Value::Map(map.into_owned()),
        options::Value::Blobs(map) => Value::BlobMap(map.clone()),
    }
}

/// Rows of `system_schema.columns`.
pub(super) fn columns(facts: &NodeFacts<'_>) -> Vec<Row> {
    facts.of_tables(|of, rows| {
        rows.extend(of.columns().iter().chain(of.hidden()).map(|c| column(of, c)));
    })
}

fn kind(kind: ColumnKind) -> Value {
    Value::text(match kind {
        ColumnKind::PartitionKey => "partition_key",
        ColumnKind::Clustering => "clustering",
        ColumnKind::Static => "static",
        ColumnKind::Regular => "regular",
    })
}

fn column(table: &Table, column: &Column) -> Row {
    let order = match (column.kind, column.descending) {
        (ColumnKind::Clustering, true) => "desc",
        (ColumnKind::Clustering, false) => "asc",
        _ => "none",
    };
    let position = match column.kind {
        ColumnKind::PartitionKey | ColumnKind::Clustering => i32::from(column.position),
        ColumnKind::Static | ColumnKind::Regular => -1,
    };
    vec![
        ("keyspace_name", Value::text(&table.keyspace)),
        ("table_name", Value::text(&table.name)),
        ("column_name", Value::text(&column.name)),
        ("clustering_order", Value::text(order)),
        ("column_name_bytes", Value::Blob(column.name.as_bytes().to_vec())),
        ("kind", kind(column.kind)),
        ("position", Value::Int(position)),
        ("type", Value::text(column.ty.to_string())),
    ]
}

/// Rows of `system_schema.dropped_columns`.
pub(super) fn dropped_columns(facts: &NodeFacts<'_>) -> Vec<Row> {
    facts.of_tables(|of, rows| rows.extend(of.dropped.iter().map(|dropped| gone(of, dropped))))
}

fn gone(table: &Table, dropped: &DroppedColumn) -> Row {
    vec![
        ("keyspace_name", Value::text(&table.keyspace)),
        ("table_name", Value::text(&table.name)),
        ("column_name", Value::text(&dropped.column.name)),
        ("dropped_time", Value::Timestamp(dropped.dropped_at / 1000)),
        ("kind", kind(dropped.column.kind)),
        ("type", Value::text(dropped.column.ty.to_string())),
    ]
}

/// Rows of `system_schema.indexes`.
pub(super) fn indexes(facts: &NodeFacts<'_>) -> Vec<Row> {
    facts.of_tables(|of, rows| rows.extend(of.indexes().iter().map(|one| index(of, one))))
}

fn index(table: &Table, index: &Index) -> Row {
    let mut options = index.options.clone();
    options.insert("target".to_owned(), index_target(index.column(table), index.target));
    if let Some(class) = &index.class {
        options.insert("class_name".to_owned(), class.clone());
    }
    let kind = if index.class.is_some() { "CUSTOM" } else { "COMPOSITES" };
    vec![
        ("keyspace_name", Value::text(&table.keyspace)),
        ("table_name", Value::text(&table.name)),
        ("index_name", Value::text(&index.name)),
        ("kind", Value::text(kind)),
        ("options", Value::Map(options)),
    ]
}

/// Rows of `system."IndexInfo"`, whose first column has the name of the keyspace, as in Cassandra.
pub(super) fn built_indexes(facts: &NodeFacts<'_>) -> Vec<Row> {
    let row = |keyspace: &str, name: &str| {
        vec![("table_name", Value::text(keyspace)), ("index_name", Value::text(name))]
    };
    let mut rows = Vec::new();
    for keyspace in stored(facts.schema).filter(|keyspace| facts.wanted.keyspace(&keyspace.name)) {
        let indexes = keyspace.tables.values().flat_map(|table| table.indexes());
        let mut names: Vec<&str> = indexes.map(|index| &*index.name).collect();
        names.sort_unstable();
        rows.extend(names.into_iter().map(|name| row(&keyspace.name, name)));
    }
    rows
}

/// Rows of `system_schema.types`.
pub(super) fn types(facts: &NodeFacts<'_>) -> Vec<Row> {
    let types = stored(facts.schema).flat_map(|keyspace| keyspace.types.values());
    let types = types.filter(|ty| facts.wanted.object(&ty.keyspace, &ty.name));
    let row = |ty: &Arc<model::types::UserType>| {
        let (names, types) =
            ty.fields.iter().map(|(name, ty)| (name.clone(), ty.to_string())).unzip();
        vec![
            ("keyspace_name", Value::text(&ty.keyspace)),
            ("type_name", Value::text(&ty.name)),
            ("field_names", Value::List(names)),
            ("field_types", Value::List(types)),
        ]
    };
    types.map(row).collect()
}

/// Rows of `system_schema.functions`.
pub(super) fn functions(facts: &NodeFacts<'_>) -> Vec<Row> {
    let functions = stored(facts.schema).flat_map(|keyspace| keyspace.functions.values());
    let functions = functions.filter(|one| facts.wanted.object(&one.keyspace, &one.name));
    let row = |function: &Arc<UserFunction>| {
        let names = function.arguments.iter().map(|(name, _)| name.clone()).collect();
        vec![
            ("keyspace_name", Value::text(&function.keyspace)),
            ("function_name", Value::text(&function.name)),
            ("argument_types", Value::List(function.types().map(shown).collect())),
            ("argument_names", Value::List(names)),
            ("body", Value::text(&function.body)),
            ("called_on_null_input", Value::Boolean(function.called_on_null)),
            ("language", Value::text(function.language.name())),
            ("return_type", Value::text(shown(&function.result))),
        ]
    };
    functions.map(row).collect()
}

/// Rows of `system_schema.aggregates`.
pub(super) fn aggregates(facts: &NodeFacts<'_>) -> Vec<Row> {
    let aggregates = stored(facts.schema).flat_map(|keyspace| keyspace.aggregates.values());
    let aggregates = aggregates.filter(|one| facts.wanted.object(&one.keyspace, &one.name));
    let row = |aggregate: &Arc<UserAggregate>| {
        let mut row = vec![
            ("keyspace_name", Value::text(&aggregate.keyspace)),
            ("aggregate_name", Value::text(&aggregate.name)),
            ("argument_types", Value::List(aggregate.arguments.iter().map(shown).collect())),
            ("return_type", Value::text(shown(&aggregate.result))),
            ("state_func", Value::text(&aggregate.state_function)),
            ("state_type", Value::text(shown(&aggregate.state))),
        ];
        if let Some(function) = &aggregate.final_function {
            row.push(("final_func", Value::text(function)));
        }
        if let Some(initial) = &aggregate.initial {
            let text = value_literal(&aggregate.state, Some(initial));
            row.push(("initcond", Value::text(text)));
        }
        row
    };
    aggregates.map(row).collect()
}

/// The type of an argument or a result.
fn shown(ty: &CqlType) -> String {
    ty.unfrozen().to_string()
}

fn virtual_keyspaces_of(schema: &Schema) -> impl Iterator<Item = &Arc<Keyspace>> {
    let names = model::schema::system::names().filter(|name| is_virtual(name));
    names.filter_map(|name| schema.keyspace(name))
}

/// Rows of `system_virtual_schema.keyspaces`.
pub(super) fn virtual_keyspaces(schema: &Schema) -> Vec<Row> {
    virtual_keyspaces_of(schema).map(|ks| vec![("keyspace_name", Value::text(&ks.name))]).collect()
}

/// Rows of `system_virtual_schema.tables`.
pub(super) fn virtual_tables(schema: &Schema) -> Vec<Row> {
    let tables = virtual_keyspaces_of(schema).flat_map(|keyspace| keyspace.tables.values());
    let row = |table: &Arc<Table>| {
        vec![
            ("keyspace_name", Value::text(&table.keyspace)),
            ("table_name", Value::text(&table.name)),
            ("comment", Value::text(&table.options.comment)),
        ]
    };
    tables.map(row).collect()
}

/// Rows of `system_virtual_schema.columns`.
pub(super) fn virtual_columns(schema: &Schema) -> Vec<Row> {
    let tables = virtual_keyspaces_of(schema).flat_map(|keyspace| keyspace.tables.values());
    tables.flat_map(|table| table.columns().iter().map(|c| column(table, c))).collect()
}

#[cfg(test)]
mod tests {
    use model::options::Given;
    use model::schema::{TableBuilder, TableId};
    use model::types::CqlType;
    use uuid::Uuid;

    use super::*;

    fn row_of(options: TableOptions) -> Row {
        let made = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)))
            .options(options)
            .partition_key("k", CqlType::Int)
            .and_then(TableBuilder::build);
        table(&made.unwrap())
    }

    fn extensions_of(options: TableOptions) -> BTreeMap<String, Vec<u8>> {
        let found = row_of(options).into_iter().find(|(name, _)| *name == "extensions");
        let Some((_, Value::BlobMap(map))) = found else { panic!("a map of bytes: {found:?}") };
        map
    }

    #[test]
    fn options_of_scylladb_are_extensions_as_its_drivers_read_them() {
        let mut options = TableOptions::default();
        assert!(extensions_of(options.clone()).is_empty());
        options.extensions.insert("own".into(), vec![7]);
        let given = Given::Text("10".into());
        options.set("paxos_grace_seconds", &given, &mut Vec::new()).unwrap();
        let expected =
            [("own".to_owned(), vec![7]), ("paxos_grace_seconds".to_owned(), vec![10, 0, 0, 0])];
        assert_eq!(extensions_of(options), BTreeMap::from(expected));
    }

    /// The columns that are not null for a plain table of Cassandra 5.0.9.
    #[test]
    fn every_column_that_cassandra_fills_is_filled() {
        let filled: Vec<&str> =
            row_of(TableOptions::default()).iter().map(|(name, _)| *name).collect();
        for column in [
            "keyspace_name",
            "table_name",
            "additional_write_policy",
            "bloom_filter_fp_chance",
            "caching",
            "comment",
            "compaction",
            "compression",
            "crc_check_chance",
            "dclocal_read_repair_chance",
            "default_time_to_live",
            "extensions",
            "flags",
            "gc_grace_seconds",
            "id",
            "max_index_interval",
            "memtable_flush_period_in_ms",
            "min_index_interval",
            "read_repair",
            "read_repair_chance",
            "speculative_retry",
        ] {
            assert!(filled.contains(&column), "{column} of system_schema.tables");
        }
    }
}
