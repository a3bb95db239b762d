//! Rows of computed tables: values by column name become mutations, as if a client had written them.
//!
//! So a computed table is read by the same code as any other: slices, filters, limits, paging.
//! A name that the table does not have, or a value of the wrong shape for its column, is our bug
//! and stops the process in a test, not in front of a user: every table is built once in a test.
//!
//! 1. The values of the key columns become the partition key and the clustering key, as `model/src/key.rs` has them.
//! 2. The regular columns become cells in the order of their ids, at the time of `head`. An element of a set or a map
//!    that is not frozen is a cell of its own; a frozen collection is one value.
//! 3. A column that the row does not name gets no cell, and reads as null.
//!
//! No computed table has a static column, which would not be written, or a list that is not frozen, which would stop
//! the process.
//!
//! Not here: which tables are computed, and their rows (`tables.rs`), the table in memory that takes the mutations
//! (`execute/computed.rs`). The rows of traces are made here, too, and are stored (`execute/trace.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use model::mutation::MutationBuilder;
use model::row::{Cell, RowBuilder, RowHead};
use model::schema::{Column, ColumnId, ColumnKind, Table};
use model::types::CqlType;
use model::{Token, cell::Life, key, ordered};
use uuid::Uuid;

/// A value of a computed row.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Boolean(bool),
    Int(i32),
    Bigint(i64),
    Double(f64),
    Uuid(Uuid),
    Inet(IpAddr),
    /// Milliseconds since 1970.
    Timestamp(i64),
    Blob(Vec<u8>),
    List(Vec<String>),
    Set(BTreeSet<String>),
    Map(BTreeMap<String, String>),
    BlobMap(BTreeMap<String, Vec<u8>>),
    /// A `map<int, bigint>`.
    Counts(BTreeMap<i32, i64>),
}

impl Value {
    /// A value of type `text`, empty or not.
    pub(crate) fn text(text: impl Into<String>) -> Value {
        Value::Text(text.into())
    }

    fn wire(&self, ty: &CqlType) -> Vec<u8> {
        match self {
            Value::Text(text) => text.as_bytes().to_vec(),
            Value::Boolean(yes) => vec![u8::from(*yes)],
            Value::Int(n) => n.to_be_bytes().to_vec(),
            Value::Bigint(n) | Value::Timestamp(n) => n.to_be_bytes().to_vec(),
            Value::Double(n) => n.to_be_bytes().to_vec(),
            Value::Uuid(uuid) => uuid.as_bytes().to_vec(),
            Value::Inet(IpAddr::V4(ip)) => ip.octets().to_vec(),
            Value::Inet(IpAddr::V6(ip)) => ip.octets().to_vec(),
            Value::Blob(bytes) => bytes.clone(),
            Value::List(items) => collection(items.len(), items.iter().map(String::as_bytes)),
            Value::Set(items) => collection(items.len(), items.iter().map(String::as_bytes)),
            Value::Map(pairs) => {
                let flat = pairs.iter().flat_map(|(k, v)| [k.as_bytes(), v.as_bytes()]);
                let CqlType::Map { .. } = ty else { panic!("a map for a column of type {ty}") };
                collection(pairs.len(), flat)
            }
            Value::Counts(_) => panic!("the elements of {ty} are cells"),
            Value::BlobMap(pairs) => {
                let flat = pairs.iter().flat_map(|(k, v)| [k.as_bytes(), v.as_slice()]);
                collection(pairs.len(), flat)
            }
        }
    }
}

fn collection<'v>(count: usize, items: impl Iterator<Item = &'v [u8]>) -> Vec<u8> {
    let count = i32::try_from(count).expect("computed collections are small");
    let mut out = count.to_be_bytes().to_vec();
    for item in items {
        let bytes = i32::try_from(item.len()).expect("computed values are small");
        out.extend_from_slice(&bytes.to_be_bytes());
        out.extend_from_slice(item);
    }
    out
}

/// One row: column names and values; a column that is not named is null.
pub(crate) type Row = Vec<(&'static str, Value)>;

/// When a computed row was written, and how long it lives: for ever, before everything.
pub(crate) const ALWAYS: RowHead =
    RowHead { timestamp: 0, marker: Some(Life::Live), deletion: model::Deletion::NONE };

/// Appends the mutation that says `row` to `record`; its cells live as the marker of `head` does. A row whose key is
/// longer than a key may be is left out: what is in it was named by a client.
pub(crate) fn put_row(
    table: &Table,
    row: &[(&'static str, Value)],
    head: &RowHead,
    record: &mut Vec<u8>,
) {
    for (name, _) in row {
        assert!(table.column(name).is_some(), "{}.{} has no {name}", table.keyspace, table.name);
    }
    let wire = |column: &Column| {
        let value = row.iter().find(|(name, _)| *name == column.name);
        value.map(|(_, value)| value.wire(&column.ty))
    };
    let keys = |columns: &[Column]| -> Vec<Vec<u8>> {
        columns.iter().map(|column| wire(column).expect("a row has its whole key")).collect()
    };
    let mut partition = Vec::new();
    let values = keys(table.partition_key());
    if key::put_partition_key(values.iter().map(Vec::as_slice), &mut partition).is_err() {
        return;
    }
    let mut clustering = Vec::new();
    let values = keys(table.clustering());
    if key::put_clustering(table, values.iter().map(Vec::as_slice), &mut clustering).is_err() {
        return;
    }
    let mut mutation =
        MutationBuilder::begin(record, table.id, Token::of_key(&partition), &partition);
    mutation.row(&clustering, |out| put_cells(table, row, head, out));
    mutation.finish();
}

fn put_cells(table: &Table, row: &[(&'static str, Value)], head: &RowHead, out: &mut Vec<u8>) {
    let mut builder = RowBuilder::begin(out, head);
    let live = Cell {
        life: head.marker.unwrap_or(Life::Live),
        ..Cell::live(ColumnId(0), head.timestamp, &[])
    };
    let mut columns: Vec<&Column> =
        table.value_columns().iter().filter(|c| c.kind == ColumnKind::Regular).collect();
    columns.sort_by_key(|column| column.id);
    for column in columns {
        let Some((_, value)) = row.iter().find(|(name, _)| *name == column.name) else { continue };
        if !column.ty.is_multi_cell() {
            let value = value.wire(&column.ty);
            builder.cell(&Cell { column: column.id, value: &value, ..live });
            continue;
        }
        let elements: Vec<(Vec<u8>, Vec<u8>)> = match value {
            Value::Set(items) => items.iter().map(|item| (text_path(item), Vec::new())).collect(),
            Value::Map(pairs) => {
                pairs.iter().map(|(k, v)| (text_path(k), v.clone().into())).collect()
            }
            Value::Counts(pairs) => {
                let bytes = |(k, v): (&i32, &i64)| {
                    (path(&CqlType::Int, &k.to_be_bytes()), v.to_be_bytes().to_vec())
                };
                pairs.iter().map(bytes).collect()
            }
            other => panic!("{other:?} for a column of type {}", column.ty),
        };
        for (path, value) in &elements {
            builder.cell(&Cell { column: column.id, path: Some(path), value, ..live });
        }
    }
}

fn text_path(text: &str) -> Vec<u8> {
    path(&CqlType::Text, text.as_bytes())
}

/// The name of an element, which is a value of this type.
fn path(ty: &CqlType, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    ordered::encode(ty, value, &mut out).expect("the value is of its type");
    out
}

#[cfg(test)]
mod tests {
    use super::super::base::base_schema;
    use super::*;

    /// Before: the read of such a row ended the process.
    #[test]
    fn a_row_with_a_key_that_is_too_long_is_left_out() {
        let schema = base_schema();
        let table = schema.table("system_schema", "functions").expect("a system table");
        let row = |ty: String| -> Row {
            vec![
                ("keyspace_name", Value::text("ks")),
                ("function_name", Value::text("f")),
                ("argument_types", Value::List(vec![ty])),
            ]
        };
        let put = |row: &Row| {
            let mut record = Vec::new();
            put_row(table, row, &ALWAYS, &mut record);
            record.len()
        };
        assert!(put(&row("int".to_owned())) > 0);
        assert_eq!(put(&row("x".repeat(70_000))), 0);
    }
}
