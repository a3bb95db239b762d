//! Snapshots as clients and operators cause them: which tables, under which tag, with which statements.
//!
//! `auto_snapshot`: before TRUNCATE or DROP takes the rows of tables away, a snapshot is taken as Cassandra takes it,
//! `truncated-<ms>-<table>` or `dropped-<ms>-<name>`. Tables without rows are left out, and so are those whose option
//! `allow_auto_snapshot` says so. With a full disk none is taken, with a warning: a snapshot keeps the space that the
//! statement is to free.
//!
//! Not here: the snapshot itself (`shard/src/snapshots.rs`), and its order with what takes the rows
//! (`shard/src/snapshots/removal.rs`).

use std::sync::Arc;

use cql::describe::{create_keyspace, create_table, create_type};
use cql::literal::to_text;
use engine::Result;
use model::schema::Table;
use model::{CqlType, Schema, TableId};
use shard::Shard;
use shard::snapshots::{Kept, SnapshotOrder};

use super::Peering;
use crate::system;

/// The milliseconds of 1970 that a wall clock of microseconds shows, and their text.
fn created(now_us: i64) -> (i64, String) {
    let millis = now_us.div_euclid(1000);
    (millis, to_text(&CqlType::Timestamp, &millis.to_be_bytes()).unwrap_or_default())
}

/// Takes a snapshot of these tables.
pub(crate) async fn take(
    shard: &Shard<Peering>,
    tag: String,
    tables: &[TableId],
    now_us: i64,
) -> Result<()> {
    let schema_cql = statements(&shard.schema(), tables);
    let (_, created_at) = created(now_us);
    shard.take_snapshot(&SnapshotOrder { tag, tables: tables.into(), schema_cql, created_at }).await
}

/// The snapshot that comes before a statement which takes the rows of these tables away, if one is wanted: `what`
/// becomes of them, and `name` is what the statement names.
pub(super) fn before(
    schema: &Schema,
    what: &str,
    name: &str,
    tables: &[&Table],
    now_us: i64,
) -> Option<SnapshotOrder> {
    let wanted = |table: &&&Table| {
        table.options.allow_auto_snapshot && !system::is_computed(&table.keyspace)
    };
    let tables: Arc<[TableId]> = tables.iter().filter(wanted).map(|table| table.id).collect();
    if tables.is_empty() {
        return None;
    }
    let (millis, created_at) = created(now_us);
    let tag = format!("{what}-{millis}-{name}");
    Some(SnapshotOrder { tag, schema_cql: statements(schema, &tables), tables, created_at })
}

/// What the client is to be warned of, after what became of the snapshot.
pub(super) fn warning(kept: Kept, what: &str, name: &str) -> Option<String> {
    if kept != Kept::DiskFull {
        return None;
    }
    tracing::warn!(name, "{what} without a snapshot: the disk is full");
    Some(format!("No snapshot of {name} was taken before it was {what}: the disk is full"))
}

/// The statements that make these tables, with their keyspaces and types.
fn statements(schema: &Schema, tables: &[TableId]) -> String {
    let tables: Vec<&Table> =
        tables.iter().filter_map(|id| schema.table_by_id(*id).map(|table| &**table)).collect();
    let mut all = Vec::new();
    for keyspace in schema.keyspaces() {
        if tables.iter().any(|table| table.keyspace == keyspace.name) {
            all.push(create_keyspace(keyspace));
            all.extend(keyspace.types.values().map(|ty| create_type(ty)));
        }
    }
    all.extend(tables.iter().map(|table| create_table(table, true)));
    all.join("\n\n") + "\n"
}
