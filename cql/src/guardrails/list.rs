//! The guardrails, in one table: names, settings, what is off by default, and the words of each.
//!
//! Names, reasons and texts are those of Apache Cassandra 5.0 (`Guardrails.java`, `GuardrailsOptions.java`). Not here: what
//! is compared with a threshold, and where (`ddl/guarded.rs`, and the server's `execute`).

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
    ZeroTtlOnTwcs,
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
    /// Its settings, and what is compared.
    pub kind: Kind,
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
    Definition { guardrail, name, about, kind, reason: None }
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

const COUNT: Kind = Kind::Max(Unit::Count);

use Guardrail as G;

/// Every guardrail, at its place.
#[rustfmt::skip]
pub const GUARDRAILS: [Definition; 16] = [
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
    Definition {
        guardrail: G::ZeroTtlOnTwcs,
        name: "zero_ttl_on_twcs",
        about: "TimeWindowCompactionStrategy without default_time_to_live",
        kind: Kind::Flag { setting: "zero_ttl_on_twcs_enabled", warned: Some("zero_ttl_on_twcs_warned") },
        reason: Some(ZERO_TTL),
    },
];

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
            G::ZeroTtlOnTwcs => {
                "0 default_time_to_live on a table with TimeWindowCompactionStrategy compaction strategy"
            }
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
        let word = if strength == Strength::Warn { "warning" } else { "failure" };
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
            (G::FieldsPerUdt, Strength::Warn) => format!(
                "The user type {what} has {value} columns, this exceeds the warning threshold of {threshold}."
            ),
            (G::FieldsPerUdt, Strength::Fail) => format!(
                "User types cannot have more than {threshold} columns, but {value} provided for user type {what}."
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
            (other, _) => unreachable!("{other:?} has no threshold"),
        }
    }

    /// What Cassandra calls the values that a guardrail lists.
    pub(super) fn values(self) -> &'static str {
        match self {
            G::TableProperties => "Table Properties",
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
