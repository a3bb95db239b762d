//! Snapshots as clients and operators cause them: which tables, under which tag, with which statements.
//!
//! `auto_snapshot`: before TRUNCATE or DROP takes the rows of tables away, a snapshot is taken as Cassandra takes it,
//! `truncated-<ms>-<table>` or `dropped-<ms>-<name>`. Tables without rows are left out, and so are those whose option
//! `allow_auto_snapshot` says so. With a full disk none is taken, with a warning: a snapshot keeps the space that the
//! statement is to free.
//!
//! Not here: the snapshot itself (`shard/src/snapshots.rs`).

use std::collections::BTreeSet;

use cql::describe::{create_keyspace, create_table, create_type};
use cql::literal::to_text;
use engine::limits::SNAPSHOT_TAG_BYTES_MAX;
use engine::{Error, Result};
use model::schema::Table;
use model::{CqlType, Schema, TableId};
use shard::Shard;
use shard::snapshots::SnapshotOrder;
use shard::upkeep::Upkeep;

use super::Peering;
use crate::system;

/// Tags that are tried for one snapshot.
const ATTEMPTS_MAX: i64 = 16;

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

/// Takes the snapshot that comes before a statement which takes the rows of these tables away: `what` becomes of them,
/// and `name` is what the statement names. Gives what the client is to be warned of.
pub(crate) async fn before(
    shard: &Shard<Peering>,
    what: &str,
    name: &str,
    tables: &[&Table],
    now_us: i64,
) -> Result<Option<String>> {
    let wanted = |table: &&&Table| {
        table.options.allow_auto_snapshot && !system::is_computed(&table.keyspace)
    };
    let wanted: BTreeSet<TableId> = tables.iter().filter(wanted).map(|table| table.id).collect();
    if wanted.is_empty() {
        return Ok(None);
    }
    let statuses = shard.upkeep(&Upkeep::Status).await?;
    let sizes = statuses.iter().flat_map(|status| &status.tables);
    let held = sizes.filter(|(id, size)| size.partitions > 0 && wanted.contains(id));
    let held: BTreeSet<TableId> = held.map(|(id, _)| *id).collect();
    let held: Vec<TableId> = held.into_iter().collect();
    if held.is_empty() {
        return Ok(None);
    }
    let taken = match shard.engine().is_disk_full() {
        true => Err(Error::DiskFull { file: "a snapshot".into() }),
        false => take_tagged(shard, what, name, &held, now_us).await,
    };
    match taken {
        Ok(()) => Ok(None),
        Err(Error::DiskFull { .. }) => {
            tracing::warn!(name, "{what} without a snapshot: the disk is full");
            Ok(Some(format!(
                "No snapshot of {name} was taken before it was {what}: the disk is full"
            )))
        }
        Err(error) => Err(error),
    }
}

/// Takes a snapshot under a tag of its own: another statement may have taken one in the same millisecond.
async fn take_tagged(
    shard: &Shard<Peering>,
    what: &str,
    name: &str,
    tables: &[TableId],
    now_us: i64,
) -> Result<()> {
    let (first, _) = created(now_us);
    let mut last = Ok(());
    for millis in first..first + ATTEMPTS_MAX {
        let mut tag = format!("{what}-{millis}-{name}");
        tag.truncate(SNAPSHOT_TAG_BYTES_MAX);
        last = take(shard, tag, tables, now_us).await;
        if !matches!(last, Err(Error::Invalid(_))) {
            break;
        }
    }
    last
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
