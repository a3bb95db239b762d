//! The guardrails, in one table: names, settings, what is off by default, and the words of each.
//!
//! Names, reasons and texts are those of Apache Cassandra 5.0 (`Guardrails.java`, `GuardrailsOptions.java`). Not here: what
//! is compared with a threshold, and where (`ddl/guarded.rs`, and the server's `execute`).
//!
//! A new guardrail is a variant of [`Guardrail`], a row at the same place in [`GUARDRAILS`], and its words: in
//! `feature` if it is on or off, in `passed` or `passed_by_statement` if it has thresholds, in `values` if it lists
//! values. The settings have their names from the row.
//!
//! Invariant: a guardrail's number is its place in the table; a test of `guardrails/tests.rs` checks it.

use super::{Kind, Strength, Unit};

/// One guardrail; as a number its place in [`GUARDRAILS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the table has the name and the meaning of each")]
pub enum Guardrail {
    Keyspaces,
    Tables,
    ColumnsPerTable,
    FieldsPerUdt,
    VectorType,
    VectorDimensions,
    MinimumReplicationFactor,
    MaximumReplicationFactor,
    SimpleStrategy,
    TableProperties,
    AlterTable,
    DropTruncateTable,
    DropKeyspace,
    UncompressedTables,
    CompactTables,
    SecondaryIndexes,
    SecondaryIndexesPerTable,
    MaterializedViews,
    MaterializedViewsPerTable,
    ZeroTtlOnTwcs,
    PageSize,
    PartitionKeysInSelect,
    InSelectCartesianProduct,
    ReadConsistencyLevels,
    AllowFiltering,
    GroupBy,
    UserTimestamps,
    WriteConsistencyLevels,
    ReadBeforeWriteListOperations,
    MaximumTimestamp,
    MinimumTimestamp,
    ColumnValueSize,
    CollectionSize,
    ItemsPerCollection,
    ReplicaDiskUsage,
}

/// What is fixed of a guardrail.
#[derive(Debug)]
pub struct Definition {
    /// Its place in the table.
    pub guardrail: Guardrail,
    /// The name in its answers: `Guardrail NAME violated: ..`.
    pub name: &'static str,
    /// What it looks at, for the documents.
    pub about: &'static str,
    /// What is compared, and the settings: those of thresholds and lists begin with the second.
    pub kind: Kind,
    /// How the names of its settings begin.
    pub stem: &'static str,
    /// What is said behind each of its answers.
    reason: Option<&'static str>,
}

const ZERO_TTL: &str = "It is suspicious to use default_time_to_live set to 0 with such compaction strategy. Please keep in mind \
     that data will not start to automatically expire after they are older than a respective compaction window unit of a \
     certain size. Please set TTL for your INSERT or UPDATE statements if you expect data to be expired as table settings \
     will not do it. ";

/// A guardrail without a reason.
const fn plain(
    guardrail: Guardrail,
    name: &'static str,
    kind: Kind,
    about: &'static str,
) -> Definition {
    Definition { guardrail, name, about, kind, stem: name, reason: None }
}

/// A guardrail that is on or off: `setting` is true while the feature may be used.
const fn flag(
    guardrail: Guardrail,
    name: &'static str,
    setting: &'static str,
    about: &'static str,
) -> Definition {
    plain(guardrail, name, Kind::Flag { setting, warned: None }, about)
}

/// A guardrail with a reason.
const fn because(of: Definition, reason: &'static str) -> Definition {
    Definition { reason: Some(reason), ..of }
}

const COUNT: Kind = Kind::Max(Unit::Count);

use Guardrail as G;

/// Every guardrail, at its place.
#[rustfmt::skip]
pub const GUARDRAILS: [Definition; 35] = [
    plain(G::Keyspaces, "keyspaces", COUNT, "keyspaces, at CREATE KEYSPACE"),
    plain(G::Tables, "tables", COUNT, "tables of all keyspaces, at CREATE TABLE"),
    plain(G::ColumnsPerTable, "columns_per_table", COUNT, "columns of a table, at CREATE TABLE and ALTER TABLE .. ADD"),
    plain(G::FieldsPerUdt, "fields_per_udt", COUNT, "fields of a type, at CREATE TYPE and ALTER TYPE .. ADD"),
    flag(G::VectorType, "vector_type_enabled", "vector_type_enabled", "columns and fields of vectors"),
    plain(G::VectorDimensions, "vector_dimensions", COUNT, "dimensions of a vector, of columns and fields"),
    plain(G::MinimumReplicationFactor, "minimum_replication_factor", Kind::Min(Unit::Count), "the factor of a data center, at CREATE and ALTER KEYSPACE"),
    plain(G::MaximumReplicationFactor, "maximum_replication_factor", COUNT, "the factor of a data center, at CREATE and ALTER KEYSPACE"),
    flag(G::SimpleStrategy, "simplestrategy", "simplestrategy_enabled", "SimpleStrategy, at CREATE and ALTER KEYSPACE"),
    plain(G::TableProperties, "table_properties", Kind::Properties, "options behind WITH, of tables"),
    flag(G::AlterTable, "alter_table", "alter_table_enabled", "ALTER TABLE that adds, drops or renames columns"),
    flag(G::DropTruncateTable, "drop_truncate_table_enabled", "drop_truncate_table_enabled", "DROP TABLE and TRUNCATE"),
    flag(G::DropKeyspace, "drop_keyspace_enabled", "drop_keyspace_enabled", "DROP KEYSPACE"),
    flag(G::UncompressedTables, "uncompressed_tables_enabled", "uncompressed_tables_enabled", "tables without compression, at CREATE TABLE and ALTER TABLE .. WITH"),
    flag(G::CompactTables, "compact_tables", "compact_tables_enabled", "CREATE TABLE .. WITH COMPACT STORAGE"),
    flag(G::SecondaryIndexes, "secondary_indexes", "secondary_indexes_enabled", "CREATE INDEX"),
    plain(G::SecondaryIndexesPerTable, "secondary_indexes_per_table", COUNT, "indexes of a table, at CREATE INDEX"),
    flag(G::MaterializedViews, "materialized_views", "materialized_views_enabled", "CREATE MATERIALIZED VIEW"),
    plain(G::MaterializedViewsPerTable, "materialized_views_per_table", COUNT, "views of a table, at CREATE MATERIALIZED VIEW"),
    because(plain(G::ZeroTtlOnTwcs, "zero_ttl_on_twcs", Kind::Flag { setting: "zero_ttl_on_twcs_enabled", warned: Some("zero_ttl_on_twcs_warned") },
        "TimeWindowCompactionStrategy without default_time_to_live"), ZERO_TTL),
    plain(G::PageSize, "page_size", COUNT, "rows of a page that a SELECT asks for, unless its LIMIT fits in one"),
    plain(G::PartitionKeysInSelect, "partition_keys_in_select", COUNT, "partitions that the IN of a SELECT names"),
    plain(G::InSelectCartesianProduct, "in_select_cartesian_product", COUNT, "combinations that the INs of a SELECT name, of the partition key and of whole clustering keys"),
    plain(G::ReadConsistencyLevels, "read_consistency_levels", Kind::Levels, "the level of a SELECT"),
    because(flag(G::AllowFiltering, "allow_filtering", "allow_filtering_enabled", "ALLOW FILTERING"), FILTERING),
    flag(G::GroupBy, "group_by", "group_by_enabled", "GROUP BY"),
    flag(G::UserTimestamps, "user_timestamps", "user_timestamps_enabled", "USING TIMESTAMP"),
    plain(G::WriteConsistencyLevels, "write_consistency_levels", Kind::Levels, "the level of a write, and its serial level, which is SERIAL unless another is given"),
    flag(G::ReadBeforeWriteListOperations, "read_before_write_list_operations", "read_before_write_list_operations_enabled", "changes of lists by index or by value"),
    because(plain(G::MaximumTimestamp, "maximum_timestamp", Kind::Max(Unit::Micros), "how far in the future a USING TIMESTAMP is, in batches, too"), FUTURE),
    because(plain(G::MinimumTimestamp, "minimum_timestamp", Kind::Min(Unit::Micros), "how far in the past a USING TIMESTAMP is, in batches, too"), PAST),
    plain(G::ColumnValueSize, "column_value_size", Kind::Max(Unit::Bytes), "a value that is written, or an element or key of a collection"),
    plain(G::CollectionSize, "collection_size", Kind::Max(Unit::Bytes), "what a statement writes of one collection, with 20 bytes for each element that is a cell"),
    plain(G::ItemsPerCollection, "items_per_collection", COUNT, "elements that a statement writes of one collection"),
    Definition {
        stem: "data_disk_usage_percentage",
        ..plain(G::ReplicaDiskUsage, "replica_disk_usage", Kind::Max(Unit::Percent), "how full the file system is, in per cent, at each write; from 97 on writes are refused in any case")
    },
];

const FILTERING: &str = "ALLOW FILTERING can potentially visit all the data in the table and have unpredictable performance.";
const FUTURE: &str =
    "Timestamps too far in the future can lead to data that can't be easily overwritten";
const PAST: &str = "Timestamps too far in the past can cause writes can be unexpectedly lost";

impl Guardrail {
    /// What is fixed of it.
    pub fn definition(self) -> &'static Definition {
        &GUARDRAILS[self as usize]
    }

    /// What Cassandra calls a feature that a guardrail switches off.
    pub(super) fn feature(self) -> &'static str {
        match self {
            G::VectorType => "usage of the vector type",
            G::SimpleStrategy => "SimpleStrategy",
            G::AlterTable => "ALTER TABLE changing columns",
            G::DropTruncateTable => "DROP and TRUNCATE TABLE functionality",
            G::DropKeyspace => "DROP KEYSPACE functionality",
            G::UncompressedTables => "Uncompressed table",
            G::CompactTables => "Creation of new COMPACT STORAGE tables",
            G::SecondaryIndexes => "User creation of secondary indexes",
            G::MaterializedViews => "Creation of materialized views",
            G::ZeroTtlOnTwcs => {
                "0 default_time_to_live on a table with TimeWindowCompactionStrategy compaction strategy"
            }
            G::AllowFiltering => "Querying with ALLOW FILTERING",
            G::GroupBy => "GROUP BY functionality",
            G::UserTimestamps => "User provided timestamps (USING TIMESTAMP)",
            G::ReadBeforeWriteListOperations => "List operation requiring read before write",
            other => unreachable!("{other:?} switches nothing off"),
        }
    }

    /// What is said when `value` has passed `threshold`.
    pub(super) fn passed(
        self,
        strength: Strength,
        what: &str,
        value: i64,
        threshold: i64,
    ) -> String {
        let word = strength.word();
        match (self, strength) {
            (G::Keyspaces, Strength::Warn) => format!(
                "Creating keyspace {what}, current number of keyspaces {value} exceeds warning threshold of {threshold}."
            ),
            (G::Keyspaces, Strength::Fail) => format!(
                "Cannot have more than {threshold} keyspaces, aborting the creation of keyspace {what}"
            ),
            (G::Tables, Strength::Warn) => format!(
                "Creating table {what}, current number of tables {value} exceeds warning threshold of {threshold}."
            ),
            (G::Tables, Strength::Fail) => format!(
                "Cannot have more than {threshold} tables, aborting the creation of table {what}"
            ),
            (G::ColumnsPerTable, Strength::Warn) => format!(
                "The table {what} has {value} columns, this exceeds the warning threshold of {threshold}."
            ),
            (G::ColumnsPerTable, Strength::Fail) => format!(
                "Tables cannot have more than {threshold} columns, but {value} provided for table {what}"
            ),
            (G::MaterializedViewsPerTable, Strength::Warn) => format!(
                "Creating materialized view {what}, current number of views {value} exceeds warning threshold of {threshold}."
            ),
            (G::MaterializedViewsPerTable, Strength::Fail) => format!(
                "Tables cannot have more than {threshold} materialized views, aborting the creation of materialized view {what}"
            ),
            (G::FieldsPerUdt, Strength::Warn) => format!(
                "The user type {what} has {value} columns, this exceeds the warning threshold of {threshold}."
            ),
            (G::FieldsPerUdt, Strength::Fail) => format!(
                "User types cannot have more than {threshold} columns, but {value} provided for user type {what}."
            ),
            (G::SecondaryIndexesPerTable, Strength::Warn) => format!(
                "Creating secondary index {what}, current number of indexes {value} exceeds warning threshold of {threshold}."
            ),
            (G::SecondaryIndexesPerTable, Strength::Fail) => format!(
                "Tables cannot have more than {threshold} secondary indexes, aborting the creation of secondary index {what}"
            ),
            (G::VectorDimensions, _) => format!(
                "{what} has a vector of {value} dimensions, this exceeds the {word} threshold of {threshold}."
            ),
            (G::MinimumReplicationFactor, _) => format!(
                "The keyspace {what} has a replication factor of {value}, below the {word} threshold of {threshold}."
            ),
            (G::MaximumReplicationFactor, _) => format!(
                "The keyspace {what} has a replication factor of {value}, above the {word} threshold of {threshold}."
            ),
            (other, _) => other.passed_by_statement(strength, what, value, threshold),
        }
    }

    /// What is said of a read or write that has passed a threshold.
    fn passed_by_statement(
        self,
        strength: Strength,
        what: &str,
        value: i64,
        threshold: i64,
    ) -> String {
        let word = strength.word();
        match (self, strength) {
            (G::PageSize, Strength::Warn) => format!(
                "Query for table {what} with page size {value} exceeds warning threshold of {threshold}."
            ),
            (G::PageSize, Strength::Fail) => format!(
                "Aborting query for table {what}, page size {value} exceeds fail threshold of {threshold}."
            ),
            (G::PartitionKeysInSelect, Strength::Warn) => format!(
                "Query with partition keys in IN clause on table {what}, with number of partition keys {value} exceeds warning threshold of {threshold}."
            ),
            (G::PartitionKeysInSelect, Strength::Fail) => format!(
                "Aborting query with partition keys in IN clause on table {what}, number of partition keys {value} exceeds fail threshold of {threshold}."
            ),
            (G::InSelectCartesianProduct, Strength::Warn) => format!(
                "The cartesian product of the IN restrictions on {what} produces {value} values, this exceeds warning threshold of {threshold}."
            ),
            (G::InSelectCartesianProduct, Strength::Fail) => format!(
                "Aborting query because the cartesian product of the IN restrictions on {what} produces {value} values, this exceeds fail threshold of {threshold}."
            ),
            (G::MaximumTimestamp, _) => format!(
                "The modification to table {what} has a timestamp {value} after the maximum allowable {word} threshold {threshold}"
            ),
            (G::MinimumTimestamp, _) => format!(
                "The modification to table {what} has a timestamp {value} before the minimum allowable {word} threshold {threshold}"
            ),
            (G::ColumnValueSize, _) => format!(
                "Value of column '{what}' has size {value}, this exceeds the {word} threshold of {threshold}."
            ),
            (G::CollectionSize, _) => format!(
                "Detected collection {what} of size {value}, this exceeds the {word} threshold of {threshold}."
            ),
            (G::ItemsPerCollection, _) => format!(
                "Detected collection {what} with {value} items, this exceeds the {word} threshold of {threshold}."
            ),
            (G::ReplicaDiskUsage, Strength::Warn) => {
                "Replica disk usage exceeds warning threshold".to_owned()
            }
            (G::ReplicaDiskUsage, Strength::Fail) => {
                "Write request failed because disk usage exceeds failure threshold".to_owned()
            }
            (other, _) => unreachable!("{other:?} has no threshold"),
        }
    }

    /// What Cassandra calls the values that a guardrail lists.
    pub(super) fn values(self) -> &'static str {
        match self {
            G::TableProperties => "Table Properties",
            G::ReadConsistencyLevels => "read consistency levels",
            G::WriteConsistencyLevels => "write consistency levels",
            other => unreachable!("{other:?} lists no values"),
        }
    }

    /// The answer's text: the guardrail's name, the text, and its reason.
    pub(super) fn says(self, text: &str) -> String {
        let Definition { name, reason, .. } = self.definition();
        let dot = if text.ends_with('.') { "" } else { "." };
        let reason = reason.map(|reason| format!("{dot} {reason}")).unwrap_or_default();
        format!("Guardrail {name} violated: {text}{reason}")
    }
}
