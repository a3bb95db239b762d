//! `system_views.statements`: what each statement has cost, by fingerprint, on all cores together.

use super::NodeFacts;
use super::value::{Row, Value};
use crate::statements::{StatementCounts, StatementName};

impl NodeFacts<'_> {
    /// One row for each fingerprint.
    pub(super) fn statements(&self) -> Vec<Row> {
        self.statements.iter().map(|(name, counts)| row(name, counts)).collect()
    }
}

fn row(name: &StatementName, counts: &StatementCounts) -> Row {
    let bigint = |n: u64| Value::Bigint(i64::try_from(n).unwrap_or(i64::MAX));
    let mut row = vec![
        ("statement", Value::text(&*name.fingerprint)),
        ("keyspace_name", Value::text(&*name.keyspace)),
        ("executions", bigint(counts.count)),
        ("errors", bigint(counts.errors)),
        ("rows", bigint(counts.rows)),
        ("bytes", bigint(counts.bytes)),
        ("blocks_read", bigint(counts.blocks)),
    ];
    let latencies = [("p50_us", counts.latency_us(500)), ("p99_us", counts.latency_us(990))];
    for (name, latency) in latencies {
        row.extend(latency.map(|us| (name, bigint(us))));
    }
    let longest = counts.latency_us(1000).map(|_| ("max_us", bigint(counts.max_us)));
    row.extend(longest);
    row
}
