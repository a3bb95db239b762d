//! Rows of computed tables: values by column name become mutations, as if a client had written them.
//!
//! So a computed table is read by the same code as any other: slices, filters, limits, paging.
//! A name that the table does not have, or a value of the wrong shape for its column, is our bug
//! and stops the process in a test, not in front of a user: every table is built once in a test.

use model::mutation::MutationBuilder;
use model::row::{Cell, RowBuilder, RowHead};
use model::schema::{Column, ColumnKind, Table};
use model::types::CqlType;
use model::{Token, cell::Life, key, ordered};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
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
}

impl Value {
    /// The text, or nothing if it is empty.
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

/// Appends the mutation that says `row` to `record`.
pub(crate) fn put_row(table: &Table, row: &[(&'static str, Value)], record: &mut Vec<u8>) {
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
    key::put_partition_key(values.iter().map(Vec::as_slice), &mut partition)
        .expect("computed keys are short");
    let mut clustering = Vec::new();
    let values = keys(table.clustering());
    key::put_clustering(table, values.iter().map(Vec::as_slice), &mut clustering)
        .expect("computed keys are valid");
    let mut mutation =
        MutationBuilder::begin(record, table.id, Token::of_key(&partition), &partition);
    mutation.row(&clustering, |out| put_cells(table, row, out));
    mutation.finish();
}

fn put_cells(table: &Table, row: &[(&'static str, Value)], out: &mut Vec<u8>) {
    let head = RowHead { marker: Some(Life::Live), ..RowHead::bare(0) };
    let mut builder = RowBuilder::begin(out, &head);
    let mut columns: Vec<&Column> =
        table.value_columns().iter().filter(|c| c.kind == ColumnKind::Regular).collect();
    columns.sort_by_key(|column| column.id);
    for column in columns {
        let Some((_, value)) = row.iter().find(|(name, _)| *name == column.name) else { continue };
        if !column.ty.is_multi_cell() {
            builder.cell(&Cell::live(column.id, 0, &value.wire(&column.ty)));
            continue;
        }
        let elements: Vec<(Vec<u8>, &[u8])> = match value {
            Value::Set(items) => items.iter().map(|item| (path(item), &[][..])).collect(),
            Value::Map(pairs) => pairs.iter().map(|(k, v)| (path(k), v.as_bytes())).collect(),
            other => panic!("{other:?} for a column of type {}", column.ty),
        };
        for (path, value) in &elements {
            builder.cell(&Cell { path: Some(path), ..Cell::live(column.id, 0, value) });
        }
    }
}

fn path(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    ordered::encode(&CqlType::Text, text.as_bytes(), &mut out).expect("text is ordered");
    out
}
