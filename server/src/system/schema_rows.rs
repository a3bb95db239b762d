//! The schema as rows: `system_schema` and `system_virtual_schema`, which every driver reads.
//!
//! Types are written as CQL. Keyspaces that are computed stand in `system_virtual_schema` alone,
//! the two that Cassandra stores (`system`, `system_schema`) in `system_schema`.

use super::value::{Row, Value};
use super::{VIRTUAL, is_virtual};
use model::options;
use model::schema::{Column, ColumnKind, Keyspace, Schema, Table};
use std::sync::Arc;

/// The keyspaces that `system_schema` lists.
fn stored(schema: &Schema) -> impl Iterator<Item = &Arc<Keyspace>> {
    schema.keyspaces().filter(|keyspace| !is_virtual(&keyspace.name))
}

/// Rows of `system_schema.keyspaces`.
pub(super) fn keyspaces(schema: &Schema) -> Vec<Row> {
    let row = |keyspace: &Arc<Keyspace>| {
        vec![
            ("keyspace_name", Value::text(&keyspace.name)),
            ("durable_writes", Value::Boolean(keyspace.durable_writes)),
            ("replication", Value::Map(keyspace.replication.clone())),
        ]
    };
    stored(schema).map(row).collect()
}

/// Rows of `system_schema.tables`.
pub(super) fn tables(schema: &Schema) -> Vec<Row> {
    stored(schema).flat_map(|keyspace| keyspace.tables.values()).map(|t| table(t)).collect()
}

fn table(table: &Table) -> Row {
    let flags = if table.is_counter() { vec!["compound", "counter"] } else { vec!["compound"] };
    let flags = flags.into_iter().map(str::to_owned).collect();
    let mut row = vec![
        ("keyspace_name", Value::text(&table.keyspace)),
        ("table_name", Value::text(&table.name)),
        ("dclocal_read_repair_chance", Value::Double(0.0)),
        ("flags", Value::Set(flags)),
        ("id", Value::Uuid(table.id.0)),
        ("read_repair_chance", Value::Double(0.0)),
    ];
    // As in Cassandra: null, unless a memtable was named.
    let named = |name: &str| name != "memtable" || table.options.memtable != "default";
    let options = table.options.pairs().filter(|(name, _)| named(name));
    row.extend(options.map(|(name, value)| (name, option(value))));
    row
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
pub(super) fn columns(schema: &Schema) -> Vec<Row> {
    let tables = stored(schema).flat_map(|keyspace| keyspace.tables.values());
    tables.flat_map(|table| table.columns().iter().map(|c| column(table, c))).collect()
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
pub(super) fn dropped_columns(schema: &Schema) -> Vec<Row> {
    let tables = stored(schema).flat_map(|keyspace| keyspace.tables.values());
    let rows = tables.flat_map(|table| {
        table.dropped.iter().map(|dropped| {
            vec![
                ("keyspace_name", Value::text(&table.keyspace)),
                ("table_name", Value::text(&table.name)),
                ("column_name", Value::text(&dropped.column.name)),
                ("dropped_time", Value::Timestamp(dropped.dropped_at / 1000)),
                ("kind", kind(dropped.column.kind)),
                ("type", Value::text(dropped.column.ty.to_string())),
            ]
        })
    });
    rows.collect()
}

/// Rows of `system_schema.types`.
pub(super) fn types(schema: &Schema) -> Vec<Row> {
    let types = stored(schema).flat_map(|keyspace| keyspace.types.values());
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

fn virtual_keyspaces_of(schema: &Schema) -> impl Iterator<Item = &Arc<Keyspace>> {
    VIRTUAL.iter().filter_map(|name| schema.keyspace(name))
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
