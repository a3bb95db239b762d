//! The tables that are computed when they are read: what drivers, cqlsh and operators ask the node
//! about itself.
//!
//! ```text
//! system.cql ── our own parser ──► tables of the schema, version 0
//! SELECT … FROM system.local ──► tables.rs: its rows ──► mutations ──► a memtable ──► the ordinary read
//! ```
//!
//! Invariants: a computed table is read-only; every one of them answers, even if with no rows; what
//! comes from all cores (clients, sizes) is gathered before, so computing never waits.

mod base;
mod key;
mod large;
mod merges;
mod node;
mod schema_rows;
mod statements;
mod tables;
mod value;
mod wanted;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

pub(crate) use base::base_schema;
use engine::io::{ClassCounts, IoClass};
use engine::{DamagedView, LargeData};
pub(crate) use key::key_literal;
pub(crate) use merges::CoreMerges;
pub(crate) use model::schema::system::{computes, is_computed, is_guarded, is_virtual};
use model::schema::{Schema, Table, TableId};
pub(crate) use node::{CQL_VERSION, Node, PARTITIONER};
use shard::snapshots::{Snapshot, SnapshotSize};
use shard::stalls::Stall;
pub(crate) use tables::{Needs, virtual_table};
pub(crate) use value::{ALWAYS, Row, Value, put_row};
pub(crate) use wanted::{Pages, Wanted};

use crate::session::Session;
use crate::statements::{StatementCounts, StatementName};

/// The definitions, in CQL.
pub(crate) const DEFINITIONS: &str = include_str!("system/system.cql");

/// One client, as a core tells the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) peer: SocketAddr,
    pub(crate) shard: i32,
    pub(crate) version: i32,
    pub(crate) stage: &'static str,
    pub(crate) keyspace: Option<String>,
    pub(crate) options: Arc<BTreeMap<&'static str, String>>,
    pub(crate) requests: i64,
}

impl Client {
    /// What `session` says of itself on `shard`.
    pub(crate) fn of(session: &Session, shard: i32) -> Client {
        Client {
            peer: session.peer,
            shard,
            version: i32::from(session.version.get().number()),
            stage: session.stage.get().name(),
            keyspace: session.keyspace.borrow().as_deref().map(str::to_owned),
            options: session.options.borrow().clone(),
            requests: i64::try_from(session.requests.get()).unwrap_or(i64::MAX),
        }
    }
}

/// How much one table holds, summed over the cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableSize {
    pub(crate) bytes: u64,
    pub(crate) partitions: u64,
}

/// A prepared statement, as `system.prepared_statements` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PreparedInfo {
    pub(crate) id: Vec<u8>,
    pub(crate) keyspace: Option<String>,
    pub(crate) text: String,
}

/// Everything computed tables are made of.
pub(crate) struct NodeFacts<'f> {
    pub(crate) wanted: Wanted<'f>,
    pub(crate) node: &'f Node,
    pub(crate) schema: &'f Schema,
    /// The tables of the schema whose rows are computed now: some of those that are wanted, in the order of
    /// [`Wanted::tables`].
    pub(crate) tables: &'f [&'f Arc<Table>],
    pub(crate) settings: &'f [(String, String)],
    /// The settings of guardrails, as they are now.
    pub(crate) guardrails: Vec<(String, String)>,
    pub(crate) clients: Vec<Client>,
    pub(crate) prepared: Vec<PreparedInfo>,
    /// The sizes of the tables whose rows are computed now.
    pub(crate) sizes: BTreeMap<TableId, TableSize>,
    /// The number of each core, and its requests to the disk, by class.
    pub(crate) disk_requests: Vec<(i32, [ClassCounts; IoClass::ALL.len()])>,
    /// The number of each core, and its long steps.
    pub(crate) stalls: Vec<(i32, Vec<Stall>)>,
    /// Damaged files, each with the number of the core that knows of it.
    pub(crate) damaged: Vec<(i32, DamagedView)>,
    /// What is large in the files of each core.
    pub(crate) large: Vec<LargeData>,
    /// The merges of each core.
    pub(crate) merges: Vec<CoreMerges>,
    /// What statements have cost on all cores.
    pub(crate) statements: Vec<(StatementName, StatementCounts)>,
    /// The snapshots that are on disk, and when each was taken, in milliseconds since 1970.
    pub(crate) snapshots: Vec<(Snapshot, Option<i64>)>,
}

impl NodeFacts<'_> {
    /// Adds what one core says of the sizes of tables.
    pub(crate) fn add_sizes(&mut self, of_core: Vec<(TableId, TableSize)>) {
        for (table, size) in of_core {
            let sum = self.sizes.entry(table).or_default();
            sum.bytes += size.bytes;
            sum.partitions += size.partitions;
        }
    }

    /// What `rows` makes of the tables that are computed now, until a page is full.
    fn of_tables(&self, mut rows: impl FnMut(&Table, &mut Vec<Row>)) -> Vec<Row> {
        let (mut out, mut first) = (Vec::new(), None);
        for table in self.tables {
            rows(table, &mut out);
            // Earlier pages may have shown some of the first table's.
            let first = *first.get_or_insert(out.len());
            if self.wanted.rows_max().is_some_and(|most| out.len() - first >= most) {
                break;
            }
        }
        out
    }

    fn settings(&self) -> Vec<Row> {
        let row = |(name, value): &(String, String)| {
            vec![("name", Value::text(name)), ("value", Value::text(value))]
        };
        self.settings.iter().chain(&self.guardrails).map(row).collect()
    }

    fn sized_tables(&self) -> impl Iterator<Item = (&Table, TableSize)> {
        let tables = self.tables.iter();
        tables.filter_map(|table| Some((&***table, *self.sizes.get(&table.id)?)))
    }

    fn disk_usage(&self) -> Vec<Row> {
        let row = |(table, size): (&Table, TableSize)| {
            vec![
                ("keyspace_name", Value::text(&table.keyspace)),
                ("table_name", Value::text(&table.name)),
                ("mebibytes", Value::Bigint(i64::try_from(size.bytes >> 20).unwrap_or(i64::MAX))),
            ]
        };
        self.sized_tables().map(row).collect()
    }

    /// One row for each class of requests of a core.
    fn disk_requests(&self) -> Vec<Row> {
        let bigint = |n: u64| Value::Bigint(i64::try_from(n).unwrap_or(i64::MAX));
        let row = |shard: i32, class: IoClass, counts: &ClassCounts| {
            vec![
                ("shard", Value::Int(shard)),
                ("class", Value::text(class.name())),
                ("requests", bigint(counts.requests)),
                ("bytes", bigint(counts.bytes)),
                ("waited", bigint(counts.waited)),
                ("jobs_before", bigint(counts.jobs_before)),
                ("jobs_before_max", bigint(counts.jobs_before_max)),
            ]
        };
        let of_core = |(shard, counts): &(i32, [ClassCounts; IoClass::ALL.len()])| {
            let classes = IoClass::ALL.into_iter().zip(counts);
            classes.map(|(class, counts)| row(*shard, class, counts)).collect::<Vec<Row>>()
        };
        self.disk_requests.iter().flat_map(of_core).collect()
    }

    /// One row for each kind of work that took long on a core.
    fn stalls(&self) -> Vec<Row> {
        let cores = self.stalls.iter();
        let stalls = cores.flat_map(|(shard, stalls)| stalls.iter().map(|stall| (*shard, stall)));
        stalls.map(|(shard, stall)| self.stall(shard, stall)).collect()
    }

    /// One row for each table of a snapshot. None of ours goes with the process.
    fn snapshots(&self) -> Vec<Row> {
        let bigint = |n: u64| Value::Bigint(i64::try_from(n).unwrap_or(i64::MAX));
        let row = |snapshot: &Snapshot, at: Option<i64>, of: &(String, String, SnapshotSize)| {
            let (keyspace, table, size) = of;
            let mut row = vec![
                ("name", Value::text(&snapshot.tag)),
                ("keyspace_name", Value::text(keyspace)),
                ("table_name", Value::text(table)),
                ("ephemeral", Value::Boolean(false)),
                ("size_on_disk", bigint(size.bytes)),
                ("true_size", bigint(size.own_bytes)),
            ];
            row.extend(at.map(|at| ("created_at", Value::Timestamp(at))));
            let expiry = snapshot.expiry.as_ref();
            row.extend(expiry.map(|expiry| ("expires_at", Value::Timestamp(expiry.at_ms))));
            row
        };
        let of_snapshot = |(snapshot, at): &(Snapshot, Option<i64>)| {
            snapshot.tables.iter().map(|table| row(snapshot, *at, table)).collect::<Vec<Row>>()
        };
        self.snapshots.iter().flat_map(of_snapshot).collect()
    }

    /// One row for each part of a damaged file that a core has.
    fn damaged_files(&self) -> Vec<Row> {
        let row = |(shard, view): &(i32, DamagedView)| {
            let table = self.schema.table_by_id(view.table())?;
            let since_s = view.since_s.map_or(i64::from(self.node.started_s), i64::from);
            Some(vec![
                ("keyspace_name", Value::text(&table.keyspace)),
                ("table_name", Value::text(&table.name)),
                ("file", Value::Text(view.path())),
                ("shard", Value::Int(*shard)),
                ("first_token", Value::Bigint(view.entry.tokens.first.0)),
                ("last_token", Value::Bigint(view.entry.tokens.last.0)),
                ("damage", Value::text(view.kind.name())),
                ("since", Value::Timestamp(since_s * 1000)),
                ("error", Value::Text(view.error.to_string())),
            ])
        };
        self.damaged.iter().filter_map(row).collect()
    }

    fn stall(&self, shard: i32, stall: &Stall) -> Row {
        let bigint = |n: u64| Value::Bigint(i64::try_from(n).unwrap_or(i64::MAX));
        let table = stall.work.table.map(|id| match self.schema.table_by_id(id) {
            Some(table) => format!("{}.{}", table.keyspace, table.name),
            None => id.to_string(),
        });
        let [over_1_ms, over_2_ms, over_5_ms, over_10_ms, over_100_ms] = stall.steps.map(bigint);
        let computed = stall.computed_steps.map(bigint);
        let [computed_1_ms, computed_2_ms, computed_5_ms, computed_10_ms, computed_100_ms] =
            computed;
        vec![
            ("shard", Value::Int(shard)),
            ("scheduling_group", Value::text(stall.work.group.name())),
            ("work", Value::text(stall.work.name)),
            ("table_name", Value::Text(table.unwrap_or_default())),
            ("over_1_ms", over_1_ms),
            ("over_2_ms", over_2_ms),
            ("over_5_ms", over_5_ms),
            ("over_10_ms", over_10_ms),
            ("over_100_ms", over_100_ms),
            ("computed_over_1_ms", computed_1_ms),
            ("computed_over_2_ms", computed_2_ms),
            ("computed_over_5_ms", computed_5_ms),
            ("computed_over_10_ms", computed_10_ms),
            ("computed_over_100_ms", computed_100_ms),
            ("computed_longest_us", bigint(stall.computed_us_max)),
            ("longest_us", bigint(stall.longest_us)),
            ("longest_at", Value::Timestamp(stall.longest_at_ms)),
            ("longest_computed_us", bigint(stall.computed_us)),
            ("longest_waited_us", bigint(stall.waited_us_max)),
        ]
    }

    /// One row for each of the node's ranges: Spark and Trino size their splits by them.
    fn size_estimates(&self) -> Vec<Row> {
        let mut tokens: Vec<i64> = Node::tokens().map(|token| token.0).collect();
        tokens.push(tokens[0]);
        let mut rows = Vec::new();
        for (table, size) in self.sized_tables() {
            let share = |n: u64| i64::try_from(n / (tokens.len() as u64 - 1)).unwrap_or(i64::MAX);
            let mean = i64::try_from(size.bytes / size.partitions.max(1)).unwrap_or(i64::MAX);
            for ends in tokens.windows(2) {
                rows.push(vec![
                    ("keyspace_name", Value::text(&table.keyspace)),
                    ("table_name", Value::text(&table.name)),
                    ("range_start", Value::text(ends[0].to_string())),
                    ("range_end", Value::text(ends[1].to_string())),
                    ("mean_partition_size", Value::Bigint(mean)),
                    ("partitions_count", Value::Bigint(share(size.partitions))),
                ]);
            }
        }
        rows
    }

    /// The same with the kind of range: all are the node's own.
    fn table_estimates(&self) -> Vec<Row> {
        let mut rows = self.size_estimates();
        rows.iter_mut().for_each(|row| row.push(("range_type", Value::text("primary"))));
        rows
    }
}

fn prepared(statement: &PreparedInfo) -> Row {
    let mut row = vec![
        ("prepared_id", Value::Blob(statement.id.clone())),
        ("query_string", Value::text(&statement.text)),
    ];
    row.extend(statement.keyspace.clone().map(|name| ("logged_keyspace", Value::Text(name))));
    row
}

/// What both kinds of `clients` tables say.
fn client(client: &Client) -> Row {
    let options = client.options.iter();
    let mut row = vec![
        ("address", Value::Inet(client.peer.ip())),
        ("port", Value::Int(client.peer.port().into())),
        (
            "client_options",
            Value::Map(options.map(|(name, value)| ((*name).to_owned(), value.clone())).collect()),
        ),
        ("connection_stage", Value::text(client.stage)),
        ("hostname", Value::text(client.peer.ip().to_string())),
        ("protocol_version", Value::Int(client.version)),
        ("ssl_enabled", Value::Boolean(false)),
        ("username", Value::text("anonymous")),
    ];
    let option = |name: &str| client.options.get(name).cloned().map(Value::Text);
    row.extend(option("DRIVER_NAME").map(|value| ("driver_name", value)));
    row.extend(option("DRIVER_VERSION").map(|value| ("driver_version", value)));
    row
}

fn cassandra_client(of: &Client) -> Row {
    let mut row = client(of);
    row.push(("request_count", Value::Bigint(of.requests)));
    row.extend(of.keyspace.clone().map(|name| ("keyspace_name", Value::Text(name))));
    row
}

fn scylla_client(of: &Client) -> Row {
    let mut row = client(of);
    row.push(("client_type", Value::text("cql")));
    row.push(("shard_id", Value::Int(of.shard)));
    row
}
