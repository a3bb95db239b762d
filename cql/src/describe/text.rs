//! The statements that would make a keyspace, a type, an index, a table or a view again, as Cassandra writes them.
//!
//! 1. Each function makes one statement from the schema alone. Options come in the order of the list of options.
//! 2. With internals a table has its id, and its dropped columns: each is made, dropped at its time, and added again if
//!    it came back.
//! 3. A compact table is a comment, as in Cassandra: CQL cannot make what it hides.
//!
//! Invariant: run in order, what `DESCRIBE SCHEMA` prints gives back the same schema, but for compact tables.
//!
//! Not here: which elements a DESCRIBE has, and in which order (`describe.rs`), functions (`functions.rs`), values as
//! constants (`literal/show.rs`), the rows of `system_schema` (`server/src/system/schema_rows.rs`).

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use model::options::Value;
use model::read::Operator;
use model::schema::{
    Column, ColumnKind, DroppedColumn, Index, IndexTarget, Keyspace, Table, ViewRestriction,
    ViewTest,
};
use model::types::{Name, UserType, hex};

use crate::literal::value_literal;

/// `'text'` with quotes doubled.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A map of texts as CQL writes it: `{'a': 'b'}`.
fn map(pairs: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> =
        pairs.iter().map(|(key, value)| format!("{}: {}", quoted(key), quoted(value))).collect();
    format!("{{{}}}", pairs.join(", "))
}

/// The CREATE KEYSPACE statement that makes `keyspace`.
pub fn create_keyspace(keyspace: &Keyspace) -> String {
    format!(
        "CREATE KEYSPACE {} WITH replication = {}  AND durable_writes = {};",
        Name(&keyspace.name),
        map(&keyspace.options.replication.short_pairs()),
        keyspace.options.durable_writes
    )
}

/// The CREATE TYPE statement that makes `ty`.
pub fn create_type(ty: &UserType) -> String {
    let fields: Vec<String> =
        ty.fields.iter().map(|(name, ty)| format!("    {} {ty}", Name(name))).collect();
    format!("CREATE TYPE {}.{} (\n{}\n);", Name(&ty.keyspace), Name(&ty.name), fields.join(",\n"))
}

/// What an index is made of, as its CREATE has it: `values(c)`.
pub fn index_target(column: &Column, target: IndexTarget) -> String {
    let name = Name(&column.name);
    match target.function() {
        None => name.to_string(),
        Some(function) => format!("{function}({name})"),
    }
}

/// The CREATE INDEX statement that makes `index`.
pub fn create_index(table: &Table, index: &Index) -> String {
    let custom = if index.class.is_some() { "CUSTOM " } else { "" };
    let mut out = format!(
        "CREATE {custom}INDEX {} ON {}.{} ({})",
        Name(&index.name),
        Name(&table.keyspace),
        Name(&table.name),
        index_target(index.column(table), index.target)
    );
    if let Some(class) = &index.class {
        let _ = write!(out, " USING {}", quoted(class));
    }
    if !index.options.is_empty() {
        let _ = write!(out, " WITH OPTIONS = {}", map(&index.options));
    }
    out.push(';');
    out
}

/// CREATE TABLE; with internals, its id and the columns it once had. Of a compact table it is a comment, as in
/// Cassandra: what it hides is not in it.
pub fn create_table(table: &Table, internals: bool) -> String {
    let statement = create_statement(table, internals);
    if !table.is_compact() {
        return statement;
    }
    let name = format!("{}.{}", Name(&table.keyspace), Name(&table.name));
    let why = "it has constructs not compatible with CQL (was created via legacy API)";
    let hint =
        "Approximate structure, for reference:\n(this should not be used to reproduce this schema)";
    format!("/*\nWarning: Table {name} omitted because {why}.\n{hint}\n\n{statement}\n*/")
}

fn create_statement(table: &Table, internals: bool) -> String {
    let name = format!("{}.{}", Name(&table.keyspace), Name(&table.name));
    let dropped = if internals { last_dropped(table) } else { Vec::new() };
    // One that came back is first made as it was, then dropped, then added as it is.
    let names: HashSet<&str> = dropped.iter().map(|dropped| &*dropped.column.name).collect();
    let came_back = |column: &&Column| names.contains(&*column.name);
    let columns = in_order(table).into_iter().filter(|column| !came_back(column));
    let columns = columns.chain(dropped.iter().map(|dropped| &dropped.column));
    let mut lines: Vec<String> =
        columns.map(|column| format!("    {}", definition(table, column))).collect();
    if !has_short_key(table) {
        lines.push(format!("    PRIMARY KEY ({})", primary_key(table)));
    }
    let mut out = format!("CREATE TABLE {name} (\n{}\n) WITH ", lines.join(",\n"));
    let mut options = Vec::new();
    if table.is_compact() {
        options.push("COMPACT STORAGE".to_owned());
    }
    if internals {
        options.push(format!("ID = {}", table.id));
    }
    if !table.clustering().is_empty() || table.is_compact() {
        options.push(format!("CLUSTERING ORDER BY ({})", clustering_order(table)));
    }
    options.extend(option_texts(table));
    out.push_str(&options.join("\n    AND "));
    out.push(';');
    for dropped in dropped {
        let column = Name(&dropped.column.name);
        let at = dropped.dropped_at;
        let _ = write!(out, "\nALTER TABLE {name} DROP {column} USING TIMESTAMP {at};");
        if let Some(column) = table.column(&dropped.column.name) {
            let _ = write!(out, "\nALTER TABLE {name} ADD {};", definition(table, column));
        }
    }
    out
}

/// CREATE MATERIALIZED VIEW; with internals, its id.
pub fn create_view(view: &Table, base: &Table, internals: bool) -> String {
    let definition = view.view().expect("it is a view");
    let selected = match definition.include_all {
        true => "*".to_owned(),
        false => {
            let names = view.columns().iter().map(|column| Name(&column.name).to_string());
            names.collect::<Vec<_>>().join(", ")
        }
    };
    let mut options = Vec::new();
    if internals {
        options.push(format!("ID = {}", view.id));
    }
    if !view.clustering().is_empty() {
        options.push(format!("CLUSTERING ORDER BY ({})", clustering_order(view)));
    }
    let of_view = view.options.pairs().filter(|(name, _)| *name != "default_time_to_live");
    options.extend(of_view.map(|(name, value)| format!("{name} = {}", shown(value))));
    format!(
        "CREATE MATERIALIZED VIEW {}.{} AS\n    SELECT {selected}\n    FROM {}.{}\n    WHERE {}\n    PRIMARY KEY ({})\n WITH {};",
        Name(&view.keyspace),
        Name(&view.name),
        Name(&base.keyspace),
        Name(&base.name),
        where_clause(view, base),
        primary_key(view),
        options.join("\n    AND ")
    )
}

/// The WHERE of a view.
pub fn where_clause(view: &Table, base: &Table) -> String {
    let restrictions = view.view().into_iter().flat_map(|view| &view.restrictions);
    let relation = |restriction: &ViewRestriction| {
        let column = base.column_by_id(restriction.column)?;
        let name = Name(&column.name);
        let value = |value: &[u8]| value_literal(&column.ty, Some(value));
        Some(match &restriction.test {
            None => format!("{name} IS NOT NULL"),
            Some(ViewTest { operator: Operator::In, values }) => {
                let values: Vec<String> = values.iter().map(|one| value(one)).collect();
                format!("{name} IN ({})", values.join(", "))
            }
            Some(ViewTest { operator, values }) => {
                let value = values.first().map(|one| value(one)).unwrap_or_default();
                format!("{name} {} {value}", operator.symbol())
            }
        })
    };
    restrictions.filter_map(relation).collect::<Vec<_>>().join(" AND ")
}

/// The columns as they stand in CREATE: of statics and of regular ones those of several cells last.
fn in_order(table: &Table) -> Vec<&Column> {
    let mut columns: Vec<&Column> = table.columns().iter().collect();
    columns.sort_by_key(|column| (column.kind, column.ty.is_multi_cell()));
    columns
}

/// The last dropping of each name, but of those that a RENAME has given to a column of the key: no statements make such
/// a table again. (What Cassandra tells of one cannot be executed.)
fn last_dropped(table: &Table) -> Vec<&DroppedColumn> {
    let mut later = HashSet::with_capacity(table.dropped.len());
    let last = table.dropped.iter().rev().filter(|dropped| later.insert(&*dropped.column.name));
    let mut last: Vec<_> = last.filter(|dropped| !is_of_key(table, &dropped.column.name)).collect();
    last.reverse();
    last
}

fn is_of_key(table: &Table, name: &str) -> bool {
    table.column(name).is_some_and(|column| column.kind <= ColumnKind::Clustering)
}

/// Whether the key is one column and nothing else, and so stands beside it.
fn has_short_key(table: &Table) -> bool {
    table.partition_key().len() == 1 && table.clustering().is_empty() && !table.is_compact()
}

/// A column as it stands in CREATE and in ADD.
fn definition(table: &Table, column: &Column) -> String {
    let suffix = match column.kind {
        // What a static compact table has is declared without the word.
        ColumnKind::Static if table.is_compact() && table.column(&column.name).is_some() => "",
        ColumnKind::Static => " static",
        ColumnKind::PartitionKey if has_short_key(table) => " PRIMARY KEY",
        _ => "",
    };
    format!("{} {}{suffix}", Name(&column.name), column.ty)
}

fn primary_key(table: &Table) -> String {
    let names = |columns: &[Column]| -> Vec<String> {
        columns.iter().map(|column| Name(&column.name).to_string()).collect()
    };
    let partition = names(table.partition_key());
    let mut parts = names(table.clustering());
    parts.insert(
        0,
        match partition.as_slice() {
            [one] => one.clone(),
            several => format!("({})", several.join(", ")),
        },
    );
    parts.join(", ")
}

fn clustering_order(table: &Table) -> String {
    let order = |column: &Column| {
        let direction = if column.descending { "DESC" } else { "ASC" };
        format!("{} {direction}", Name(&column.name))
    };
    let hidden = table.hidden().iter().filter(|column| column.kind == ColumnKind::Clustering);
    table.clustering().iter().chain(hidden).map(order).collect::<Vec<_>>().join(", ")
}

fn option_texts(table: &Table) -> impl Iterator<Item = String> {
    table.options.pairs().map(|(name, value)| format!("{name} = {}", shown(value)))
}

/// An option's value as CQL writes it.
fn shown(value: Value<'_>) -> String {
    match value {
        Value::Text(text) => quoted(&text),
        Value::Boolean(value) => value.to_string(),
        Value::Double(value) => format!("{value:?}"),
        Value::Int(value) => value.to_string(),
        Value::Map(pairs) => map(&pairs),
        Value::Blobs(pairs) => {
            let pair =
                |(key, bytes): (&String, &Vec<u8>)| format!("{}: {}", quoted(key), hex(bytes));
            let pairs: Vec<String> = pairs.iter().map(pair).collect();
            format!("{{{}}}", pairs.join(", "))
        }
    }
}
