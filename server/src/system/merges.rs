//! `system_views.sstable_tasks` and `system.compaction_history`: the merges of every core, in Cassandra's words.
//!
//! A merge has one id in both. It is a version 1 uuid: the second in which the merge began, its number as ticks of 100
//! ns, and its core as the node, so no two merges of a process have the same.
//!
//! 1. `sstable_tasks` has a row for each merge that goes on, and one for each index that is still built on a core.
//! 2. `compaction_history` has a row for each ended merge that a core still remembers: nothing is stored, so a restart
//!    empties it.
//! 3. The id of an index's build is a fixed time with a node of another form (2 in its third byte), so it is never the
//!    id of a merge.
//!
//! Not here: the running and ended merges that a core knows (`engine/src/compaction/merges.rs`), how all cores are
//! asked (`execute/peers.rs`).

use std::collections::BTreeMap;

use cql::bind::UUID_EPOCH_TICKS;
use engine::{EndedMerge, IndexProgress, MergeName, MergeStatus, layout};
use model::Schema;

use super::NodeFacts;
use super::value::{Row, Value};
use crate::ids::timeuuid_at;

/// Ticks of 100 ns in a second.
const TICKS_PER_S: i64 = 10_000_000;

/// The merges of one core.
#[derive(Clone, Debug)]
pub(crate) struct CoreMerges {
    /// The number of the core.
    pub(crate) shard: u16,
    pub(crate) running: Vec<MergeStatus>,
    pub(crate) ended: Vec<EndedMerge>,
    /// How far the indexes of its tables are.
    pub(crate) indexes: Vec<IndexProgress>,
}

impl NodeFacts<'_> {
    /// One row for each merge that goes on, and for each index that is being built.
    pub(super) fn sstable_tasks(&self) -> Vec<Row> {
        let of_core = |core: &CoreMerges| {
            let merges = core.running.iter().map(|status| task(core.shard, status));
            let builds = core.indexes.iter().filter(|progress| !progress.is_built());
            let builds = builds.filter_map(|progress| build(core.shard, self.schema, progress));
            merges.chain(builds).collect::<Vec<Row>>()
        };
        self.merges.iter().flat_map(of_core).collect()
    }

    /// One row for each merge that has ended.
    pub(super) fn compaction_history(&self) -> Vec<Row> {
        let of_core = |core: &CoreMerges| {
            core.ended.iter().map(|merge| ended(core.shard, merge)).collect::<Vec<Row>>()
        };
        self.merges.iter().flat_map(of_core).collect()
    }
}

fn id(shard: u16, merge: &MergeName) -> Value {
    let in_second = i64::try_from(merge.number % TICKS_PER_S as u64).expect("less than a second");
    let tick = UUID_EPOCH_TICKS + i64::from(merge.begun_s) * TICKS_PER_S + in_second;
    // No network card has the multicast bit (RFC 9562).
    let [high, low] = shard.to_be_bytes();
    Value::Uuid(timeuuid_at(tick, [0x80, 0, 1, 0, 0, 0, high, low]))
}

fn bigint(n: u64) -> Value {
    Value::Bigint(i64::try_from(n).unwrap_or(i64::MAX))
}

fn task(shard: u16, status: &MergeStatus) -> Row {
    let MergeStatus { merge, sstables, merged_bytes, total_bytes, total_file_bytes } = status;
    let ratio = match total_bytes {
        0 => 1.0,
        _ => *merged_bytes as f64 / *total_bytes as f64,
    };
    vec![
        ("keyspace_name", Value::text(&merge.keyspace_name)),
        ("table_name", Value::text(&merge.table_name)),
        ("task_id", id(shard, merge)),
        ("completion_ratio", Value::Double(ratio)),
        ("kind", Value::text("compaction")),
        ("progress", bigint(*merged_bytes)),
        ("sstables", Value::Int(i32::try_from(*sstables).unwrap_or(i32::MAX))),
        ("target_directory", Value::text(layout::table_dir(merge.table.0).as_str())),
        ("total", bigint(*total_bytes)),
        ("total_compressed", bigint(*total_file_bytes)),
        ("unit", Value::text("bytes")),
    ]
}

/// An index that is being built; `None` if it was dropped meanwhile.
fn build(shard: u16, schema: &Schema, progress: &IndexProgress) -> Option<Row> {
    let table = schema.table_by_id(progress.table)?;
    let index = table.index_by_id(progress.index)?;
    let ratio = match progress.bytes_total {
        0 => 1.0,
        _ => progress.bytes as f64 / progress.bytes_total as f64,
    };
    let left = progress.files_total - progress.files - progress.files_unfit;
    // Among the tasks of a table the core and the index name it; no merge has this node.
    let [[high, low], [first, second]] = [shard.to_be_bytes(), progress.index.0.to_be_bytes()];
    let id = timeuuid_at(UUID_EPOCH_TICKS, [0x80, 0, 2, high, low, 0, first, second]);
    Some(vec![
        ("keyspace_name", Value::text(&table.keyspace)),
        ("table_name", Value::text(&table.name)),
        ("task_id", Value::Uuid(id)),
        ("completion_ratio", Value::Double(ratio)),
        ("kind", Value::text(format!("secondary index build of {}", index.name))),
        ("progress", bigint(progress.bytes)),
        ("sstables", Value::Int(i32::try_from(left).unwrap_or(i32::MAX))),
        ("target_directory", Value::text(layout::table_dir(table.id.0).as_str())),
        ("total", bigint(progress.bytes_total)),
        ("total_compressed", bigint(progress.bytes_total)),
        ("unit", Value::text("bytes")),
    ])
}

/// `rows_merged` counts partitions, as Cassandra's does.
fn ended(shard: u16, ended: &EndedMerge) -> Row {
    let EndedMerge { merge, file_bytes_in, file_bytes_out, partitions_by_sources, ended_s } = ended;
    let merged = |(sources, count): (&u32, &u64)| {
        (*sources as i32, i64::try_from(*count).unwrap_or(i64::MAX))
    };
    let properties = [("compaction_type".to_owned(), "Compaction".to_owned())];
    let mut row = vec![
        ("id", id(shard, merge)),
        ("bytes_in", bigint(*file_bytes_in)),
        ("bytes_out", bigint(*file_bytes_out)),
        ("columnfamily_name", Value::text(&merge.table_name)),
        ("compaction_properties", Value::Map(BTreeMap::from(properties))),
        ("keyspace_name", Value::text(&merge.keyspace_name)),
        ("rows_merged", Value::Counts(partitions_by_sources.iter().map(merged).collect())),
    ];
    row.extend(ended_s.map(|at_s| ("compacted_at", Value::Timestamp(i64::from(at_s) * 1000))));
    row
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use model::TableId;
    use uuid::Uuid;

    use super::*;
    use crate::system::{ALWAYS, base_schema, put_row};

    fn merge(number: u64, begun_s: u32) -> MergeName {
        let (keyspace_name, table_name) = ("ks".to_owned(), "t".to_owned());
        let table = TableId(Uuid::from_u128(7));
        MergeName { number, begun_s, table, keyspace_name, table_name }
    }

    fn uuid(shard: u16, merge: &MergeName) -> Uuid {
        let Value::Uuid(uuid) = id(shard, merge) else { panic!("an id is a uuid") };
        uuid
    }

    #[test]
    fn ids_differ_and_tell_when_the_merge_began() {
        let all = [(0, 1, 100), (1, 1, 100), (0, 2, 100), (0, 1, 101)];
        let ids: BTreeSet<Uuid> = all.map(|(core, n, at_s)| uuid(core, &merge(n, at_s))).into();
        assert_eq!(ids.len(), all.len());
        for id in ids {
            assert_eq!(id.get_version_num(), 1);
            let (seconds, _) = id.get_timestamp().expect("version 1 has a time").to_unix();
            assert!([100, 101].contains(&seconds));
        }
    }

    #[test]
    fn rows_have_every_column_of_their_tables() {
        let status = MergeStatus {
            merge: merge(1, 100),
            sstables: 4,
            merged_bytes: 50,
            total_bytes: 200,
            total_file_bytes: 100,
        };
        let done = EndedMerge {
            merge: merge(1, 100),
            file_bytes_in: 100,
            file_bytes_out: 60,
            partitions_by_sources: BTreeMap::from([(1, 5), (4, 2)]),
            ended_s: Some(101),
        };
        let row = task(3, &status);
        assert!(row.iter().any(|(_, value)| matches!(value, Value::Double(0.25))));
        let schema = base_schema();
        for (keyspace, table, row) in [
            ("system_views", "sstable_tasks", row),
            ("system", "compaction_history", ended(3, &done)),
        ] {
            let table = schema.table(keyspace, table).expect("it is in the schema");
            let columns: BTreeSet<&str> = table.columns().iter().map(|c| &*c.name).collect();
            let named: BTreeSet<&str> = row.iter().map(|(name, _)| *name).collect();
            assert_eq!(columns, named);
            let mut record = Vec::new();
            put_row(table, &row, &ALWAYS, &mut record);
            assert!(!record.is_empty());
        }
    }
}
