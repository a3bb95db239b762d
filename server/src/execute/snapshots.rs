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

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cql::describe::{create_keyspace, create_table, create_type, create_view};
use cql::literal::to_text;
use engine::Result;
use model::schema::{Keyspace, Table};
use model::{CqlType, Schema, TableId};
use shard::clock::Clock;
use shard::snapshots::{Expiry, Kept, SnapshotOrder};
use shard::{Group, Shard};

use super::Peering;
use super::node_state::Settings;
use crate::limits::SNAPSHOTS_LOOKED_AT_EVERY;
use crate::system;

/// At most this many statements are made before others run.
const STATEMENTS_AT_ONCE: usize = 16;

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
    let yielder = shard.runtime().yielder(Group::Background);
    let schema_cql = statements(&shard.schema(), tables, || yielder.yield_if_due()).await;
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
/// becomes of them, and `name` is what the statement names. `pause` returns when there is time for more.
pub(super) async fn before(
    settings: &Settings,
    schema: &Schema,
    (what, name): (&str, &str),
    tables: &[&Table],
    (now_us, pause): (i64, impl AsyncFn()),
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
    let schema_cql = statements(schema, &tables, pause).await;
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

/// The statements that make these tables, with their keyspaces and types; some at a time, and a pause behind them.
async fn statements(schema: &Schema, tables: &[TableId], pause: impl AsyncFn()) -> String {
    let tables: Vec<&Table> =
        tables.iter().filter_map(|id| schema.table_by_id(*id).map(|table| &**table)).collect();
    let names: BTreeSet<&str> = tables.iter().map(|table| &*table.keyspace).collect();
    let keyspaces: Vec<&Arc<Keyspace>> =
        names.into_iter().filter_map(|name| schema.keyspace(name)).collect();
    let mut all = Elements { text: String::new(), count: 0, pause };
    for keyspace in &keyspaces {
        all.add(create_keyspace(keyspace)).await;
        for ty in keyspace.types.values() {
            all.add(create_type(ty)).await;
        }
    }
    for table in &tables {
        all.add(create_table(table, true)).await;
    }
    let views: BTreeMap<TableId, Vec<&Table>> =
        keyspaces.iter().flat_map(|keyspace| keyspace.views_by_base()).collect();
    // Not in the snapshot: who restores the tables may make them again.
    for table in tables {
        for view in views.get(&table.id).into_iter().flatten() {
            all.add(create_view(view, table, true)).await;
        }
    }
    all.text
}

/// Statements one behind the other, with an empty line between.
struct Elements<P> {
    text: String,
    count: usize,
    pause: P,
}

impl<P: AsyncFn()> Elements<P> {
    async fn add(&mut self, statement: String) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(&statement);
        self.text.push('\n');
        self.count += 1;
        if self.count.is_multiple_of(STATEMENTS_AT_ONCE) {
            (self.pause)().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures_lite::future::block_on;
    use model::SchemaChange;
    use model::options::KeyspaceOptions;
    use model::schema::TableBuilder;
    use uuid::Uuid;

    use super::*;

    /// Before: the statements of all tables were made in one step, in which each table looked for its views among all
    /// tables.
    #[test]
    fn the_statements_of_many_tables_are_made_in_steps() {
        let keyspace = |name: &str| SchemaChange::CreateKeyspace {
            name: name.into(),
            options: KeyspaceOptions::default(),
        };
        let id = |n: u128| TableId(Uuid::from_u128(n));
        let table = |n: u128| {
            let keyspace = if n.is_multiple_of(2) { "a" } else { "b" };
            let table = TableBuilder::new(keyspace, &format!("t{n}"), id(n));
            let table = table.partition_key("k", CqlType::Int).and_then(TableBuilder::build);
            SchemaChange::CreateTable(Box::new(table.unwrap()))
        };
        let changes = ["a", "b", "c"].map(keyspace).into_iter().chain((0..100).map(table));
        let schema = Schema::of_changes(changes).unwrap();
        let made = |tables: &[TableId]| {
            let pauses = Cell::new(0);
            let text = statements(&schema, tables, async || pauses.set(pauses.get() + 1));
            (block_on(text), pauses.get())
        };
        let all: Vec<TableId> = (0..100).map(id).collect();
        let (text, pauses) = made(&all);
        assert_eq!(pauses, (2 + 100) / STATEMENTS_AT_ONCE);
        assert_eq!(text.matches("CREATE TABLE ").count(), 100);
        let (text, _) = made(&[id(1), id(2)]);
        let [a, b] = ["a", "b"].map(|name| create_keyspace(schema.keyspace(name).unwrap()));
        let [one, two] = [1, 2].map(|n| create_table(schema.table_by_id(id(n)).unwrap(), true));
        assert_eq!(text, [a, b, one, two].join("\n\n") + "\n");
    }
}
