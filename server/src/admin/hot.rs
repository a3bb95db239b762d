//! `toppartitions`: which partitions are read and written most, as a sample of all shards has them.

use std::fmt::Write;
use std::time::Duration;

use engine::{HotPartition, HotPartitions};
use model::schema::Table;
use model::{Schema, TableId};
use shard::Shard;
use shard::upkeep::Upkeep;

use crate::execute::Peering;
use crate::limits::HOT_PARTITIONS_SHOWN;
use crate::system;

/// Samples for a while; the lines of the answer. The error says why there is no sample.
pub(super) async fn sample(
    shard: &Shard<Peering>,
    table: Option<TableId>,
    duration: Duration,
) -> Result<String, String> {
    let said = |error: engine::Error| error.to_string();
    shard.upkeep(&Upkeep::StartSample(table)).await.map_err(said)?;
    shard::runtime::sleep(duration).await;
    let statuses = shard.upkeep(&Upkeep::EndSample).await.map_err(said)?;
    let mut all = HotPartitions::default();
    // A partition is of one shard alone: nothing is added up.
    for status in statuses {
        all.reads.extend(status.hot.reads);
        all.writes.extend(status.hot.writes);
    }
    let schema = shard.schema();
    Ok(show(&schema, "read", all.reads) + "\n" + &show(&schema, "written", all.writes))
}

/// The partitions with the highest counts, a line each.
fn show(schema: &Schema, how: &str, mut all: Vec<HotPartition>) -> String {
    all.sort_by_key(|partition| std::cmp::Reverse(partition.count));
    let mut text = format!("{how}\tpartition\tcount\t+/-\n");
    for HotPartition { table, token, key, count, error } in
        all.into_iter().take(HOT_PARTITIONS_SHOWN)
    {
        // A table that was dropped meanwhile has no name any more.
        let Some(table) = schema.tables().find(|of| of.id == table) else { continue };
        // Neither a tab nor the end of a line is part of a column.
        let key = shown_key(table, &key, token.0).escape_debug().to_string().replace("\\'", "'");
        writeln!(text, "{}.{}\t{key}\t{count}\t{error}", table.keyspace, table.name)
            .expect("a string takes all that is written");
    }
    text
}

/// The key's columns as literals; the token of a key that was too long to be kept whole.
fn shown_key(table: &Table, key: &[u8], token: i64) -> String {
    if key.len() >= engine::limits::HOT_KEY_BYTES_MAX {
        return format!("token {token}");
    }
    system::key_literal(table, key)
}
