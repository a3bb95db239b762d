//! Snapshots as clients and operators cause them: which tables, under which tag, with which statements.
//!
//! `auto_snapshot`: before TRUNCATE or DROP takes the rows of tables away, a snapshot is taken as Cassandra takes it,
//! `truncated-<ms>-<table>` or `dropped-<ms>-<name>`. Tables without rows are left out, and so are those whose option
//! `allow_auto_snapshot` says so, and so are materialized views: they are made again. With a full disk none is taken,
//! with a warning: a snapshot keeps the space that the statement is to free. With `auto_snapshot_ttl` they go by
//! themselves.
//!
//! Not here: the snapshot itself (`shard/src/snapshots.rs`), and its order with what takes the rows
//! (`shard/src/snapshots/removal.rs`).

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cql::describe::{create_keyspace, create_table, create_type, create_view};
use cql::literal::to_text;
use engine::Result;
use model::schema::Table;
use model::{CqlType, Schema, TableId};
use shard::Shard;
use shard::clock::Clock;
use shard::snapshots::{Expiry, Kept, SnapshotOrder};

use super::Peering;
use super::node_state::Settings;
use crate::limits::SNAPSHOTS_LOOKED_AT_EVERY;
use crate::system;

/// Milliseconds since 1970 as they are shown.
fn shown(millis: i64) -> String {
    to_text(&CqlType::Timestamp, &millis.to_be_bytes()).unwrap_or_default()
}

/// When a snapshot goes that is taken at `millis` and is to stay for so long.
fn expiry(millis: i64, stays: Option<Duration>) -> Option<Expiry> {
    let stays_ms = i64::try_from(stays?.as_millis()).unwrap_or(i64::MAX);
    let at_ms = millis.saturating_add(stays_ms);
    Some(Expiry { at_ms, shown: shown(at_ms) })
}

/// Takes a snapshot of these tables, which stays for so long, or until it is removed.
pub(crate) async fn take(
    shard: &Shard<Peering>,
    tag: String,
    tables: &[TableId],
    now_us: i64,
    stays: Option<Duration>,
) -> Result<()> {
    let schema_cql = statements(&shard.schema(), tables);
    let millis = now_us.div_euclid(1000);
    let (created_at, expiry) = (shown(millis), expiry(millis, stays));
    let tables = tables.into();
    shard.take_snapshot(&SnapshotOrder { tag, tables, schema_cql, created_at, expiry }).await
}

/// Removes, now and then, the snapshots whose time has come. On the first core, as long as the process lives.
pub(crate) async fn keep_expiring(shard: Rc<Shard<Peering>>, clock: Rc<Clock>) {
    loop {
        shard.runtime().sleep(SNAPSHOTS_LOOKED_AT_EVERY).await;
        let (gone, outcome) = shard.expire_snapshots(clock.wall_us().div_euclid(1000)).await;
        gone.iter().for_each(|tag| tracing::info!(tag, "a snapshot's time has come"));
        if let Err(error) = outcome {
            tracing::warn!("snapshots whose time has come may stay: {error}");
        }
    }
}

/// The snapshot that comes before a statement which takes the rows of these tables away, if one is wanted: `what`
/// becomes of them, and `name` is what the statement names.
pub(super) fn before(
    settings: &Settings,
    schema: &Schema,
    (what, name): (&str, &str),
    tables: &[&Table],
    now_us: i64,
) -> Option<SnapshotOrder> {
    let wanted = |table: &&&Table| {
        let is_lasting = table.view().is_none() && !system::is_computed(&table.keyspace);
        is_lasting && table.options.allow_auto_snapshot
    };
    let tables: Arc<[TableId]> = tables.iter().filter(wanted).map(|table| table.id).collect();
    if tables.is_empty() || !settings.auto_snapshot {
        return None;
    }
    let millis = now_us.div_euclid(1000);
    let (created_at, expiry) = (shown(millis), expiry(millis, settings.auto_snapshot_ttl));
    let tag = format!("{what}-{millis}-{name}");
    let schema_cql = statements(schema, &tables);
    Some(SnapshotOrder { tag, schema_cql, tables, created_at, expiry })
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
    // Not in the snapshot: who restores the tables may make them again.
    for table in tables {
        all.extend(schema.views_of(table).map(|view| create_view(view, table, true)));
    }
    all.join("\n\n") + "\n"
}
