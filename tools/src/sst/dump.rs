//! The rows of a file as JSON, in the form of Cassandra's `sstabledump`.
//!
//! ```text
//! [ { "partition": { "key": [..] }, "rows": [ { "type": "row", "clustering": [..], "cells": [..] }, .. ] }, .. ]
//! ```
//!
//! Invariants
//! 1. What is written is what the file holds, dead or alive; nothing is merged or left out.
//! 2. One partition's row is in memory at a time.
//! 3. A value that its type does not read is hexadecimal, as are all of a table that is not known.

use std::io::Write;
use std::rc::Rc;

use cql::expr::function::json_text;
use engine::cursor::{Cursor, Fragment, Head, Scope, Slice, Span};
use engine::sstable::{Reading, Sstable};
use model::cell::Life;
use model::key::{clustering_value, partition_key_values};
use model::row::{Cell, RowRef};
use model::schema::Table;
use model::types::hex;
use model::{CqlType, Deletion, TokenRange};
use serde_json::{Map, Value, json};

/// Writes all rows of a file.
pub(super) async fn dump(
    open: &Rc<Sstable>,
    table: Option<&Table>,
    out: &mut impl Write,
) -> Result<(), String> {
    let said = |error: engine::Error| error.to_string();
    let slices = [Slice::all()];
    let span = Span { scope: Scope::Range(TokenRange::ALL), slices: &slices, reversed: false };
    let mut cursor = open.cursor(span, Reading::Scan);
    let mut opening = "[\n";
    while cursor.next_partition().await.map_err(said)? {
        let head = cursor.head();
        put(
            out,
            &format!("{opening}  {{\"partition\": {},\n   \"rows\": [", partition(table, &head)),
        )?;
        let mut separator = "\n    ";
        if let Some(row) = head.static_row {
            put(out, &format!("{separator}{}", row_form(table, None, row)?))?;
            separator = ",\n    ";
        }
        while cursor.next().await.map_err(said)? {
            let form = match cursor.fragment() {
                Fragment::Row { clustering, row } => row_form(table, Some(clustering), row)?,
                Fragment::Change { position, deletion } => json!({
                    "type": "range_tombstone_bound",
                    "clustering": clustering_form(table, position),
                    "deletion_info": deletion_form(deletion),
                }),
            };
            put(out, &format!("{separator}{form}"))?;
            separator = ",\n    ";
        }
        put(out, "\n   ]}")?;
        opening = ",\n";
    }
    put(out, if opening == "[\n" { "[]\n" } else { "\n]\n" })
}

fn put(out: &mut impl Write, text: &str) -> Result<(), String> {
    out.write_all(text.as_bytes()).map_err(|error| format!("the output: {error}"))
}

fn partition(table: Option<&Table>, head: &Head<'_>) -> Value {
    let columns = table.map(Table::partition_key).unwrap_or_default();
    let values = partition_key_values(head.key, columns.len()).zip(columns);
    let key: Option<Vec<Value>> =
        values.map(|(value, column)| Some(value_form(&column.ty, value.ok()?))).collect();
    let key = key.filter(|key| !key.is_empty()).unwrap_or_else(|| vec![json!(hex(head.key))]);
    let mut form = json!({ "key": key, "token": head.token.0 });
    if !head.deletion.is_none() {
        form["deletion_info"] = deletion_form(head.deletion);
    }
    form
}

/// A row, or the static row where there is no clustering.
fn row_form(
    table: Option<&Table>,
    clustering: Option<&[u8]>,
    row: RowRef<'_>,
) -> Result<Value, String> {
    // The bytes were under a checksum, but the file may come from anybody.
    let row = RowRef::checked(row.bytes()).map_err(|error| error.to_string())?;
    let mut form = Map::new();
    let kind = if clustering.is_some() { "row" } else { "static_block" };
    form.insert("type".to_owned(), json!(kind));
    if let Some(clustering) = clustering {
        form.insert("clustering".to_owned(), clustering_form(table, clustering));
    }
    let head = row.head();
    if let Some(marker) = head.marker {
        form.insert(
            "liveness_info".to_owned(),
            with_life(json!({ "tstamp": head.timestamp }), marker),
        );
    }
    if !head.deletion.is_none() {
        form.insert("deletion_info".to_owned(), deletion_form(head.deletion));
    }
    let cells = row.cells().map(|cell| cell_form(table, &cell));
    form.insert("cells".to_owned(), Value::Array(cells.collect()));
    Ok(Value::Object(form))
}

fn cell_form(table: Option<&Table>, cell: &Cell<'_>) -> Value {
    let column = table.and_then(|table| {
        let dropped = || table.dropped.iter().map(|dropped| &dropped.column);
        table
            .column_by_id(cell.column)
            .or_else(|| dropped().find(|column| column.id == cell.column))
    });
    let name =
        column.map_or_else(|| format!("column {}", cell.column.0), |column| column.name.clone());
    let mut form = json!({ "name": name, "tstamp": cell.timestamp });
    let types = column.map(|column| element_types(&column.ty));
    if let Some(path) = cell.path {
        let ty = types.and_then(|(path, _)| path);
        let mut element = Vec::new();
        let decoded = ty.filter(|ty| cell.put_element(ty, &mut element).is_ok());
        form["path"] =
            json!([decoded.map_or_else(|| json!(hex(path)), |ty| value_form(ty, &element))]);
    }
    if cell.whole {
        form["path"] = json!("all elements");
    }
    if !matches!(cell.life, Life::Dead { .. }) {
        let ty = match (types, cell.path, column) {
            (Some((_, value)), Some(_), _) => value,
            (_, None, Some(column)) => Some(&column.ty),
            _ => None,
        };
        form["value"] = ty.map_or_else(|| json!(hex(cell.value)), |ty| value_form(ty, cell.value));
    }
    with_life(form, cell.life)
}

/// Of a collection that is not frozen: the types of what a path stands for, and of its value.
fn element_types(ty: &CqlType) -> (Option<&CqlType>, Option<&CqlType>) {
    match ty {
        CqlType::Map { key, value, .. } => (Some(key), Some(value)),
        CqlType::Set { element, .. } => (Some(element), None),
        CqlType::List { element, .. } => (Some(&CqlType::Timeuuid), Some(element)),
        _ => (None, None),
    }
}

fn with_life(mut form: Value, life: Life) -> Value {
    match life {
        Life::Live => {}
        Life::Expiring(expiry) => {
            form["ttl"] = json!(expiry.ttl_s);
            form["expires_at"] = json!(expiry.at_s);
        }
        Life::Dead { local_s } => form["deletion_info"] = json!({ "local_delete_time": local_s }),
    }
    form
}

fn clustering_form(table: Option<&Table>, clustering: &[u8]) -> Value {
    let columns = table.map_or(0, |table| table.clustering().len());
    let value = |index: usize| {
        let (table, mut out) = (table?, Vec::new());
        let has_value = clustering_value(table, clustering, index, &mut out).ok()?;
        let form = || value_form(&table.clustering()[index].ty, &out);
        Some(if has_value { form() } else { Value::Null })
    };
    // A bound has a prefix of the columns.
    let values: Vec<Value> = (0..columns).map_while(value).collect();
    match values.is_empty() && !clustering.is_empty() {
        true => json!([hex(clustering)]),
        false => Value::Array(values),
    }
}

fn deletion_form(deletion: Deletion) -> Value {
    match deletion.is_none() {
        true => Value::Null,
        false => {
            json!({ "marked_deleted": deletion.timestamp, "local_delete_time": deletion.local_s })
        }
    }
}

fn value_form(ty: &CqlType, value: &[u8]) -> Value {
    let text = json_text(ty, Some(value)).ok();
    let form = text.and_then(|text| serde_json::from_str(&text).ok());
    form.unwrap_or_else(|| json!(hex(value)))
}
