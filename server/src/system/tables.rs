//! The virtual tables that have rows: for each its name, what it needs of other cores, its rows.
//!
//! A table of `system.cql` that is not listed here is there for drivers and tools, and is empty.

use model::schema::Table;

use super::value::Row;
use super::{Node, NodeFacts, cassandra_client, prepared, schema_rows, scylla_client};

/// What other cores must be asked for before the rows can be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing but what each core knows of the node.
    Nothing,
    /// Nothing but the schema, of which it shows tables: computed some at a time.
    Tables,
    /// The same, and it shows columns, indexes or other parts of tables.
    PartsOfTables,
    /// The statements that were prepared on this core.
    Prepared,
    /// The clients of every core.
    Clients,
    /// The sizes of the tables on every core, of some tables of the schema at a time, as [`Needs::Tables`].
    Sizes,
    /// The same of all tables, whose rows are not in the order of keyspaces.
    SizesOfAll,
    /// The requests to the disk of every core.
    DiskRequests,
    /// The long steps of every core.
    Stalls,
    /// The damaged files that every core knows of.
    DamagedFiles,
    /// What is large in the files of every core.
    LargeData,
    /// The merges of every core.
    Merges,
    /// What statements have cost on every core.
    Statements,
    /// The snapshots, which are on disk.
    Snapshots,
}

/// A table that is computed when it is read.
pub(crate) struct VirtualTable {
    keyspace: &'static str,
    name: &'static str,
    /// What must be looked up, or other cores asked for.
    pub(crate) needs: Needs,
    /// Makes the table's rows of what the node knows of itself.
    pub(crate) rows: fn(&NodeFacts<'_>) -> Vec<Row>,
}

const fn table(
    keyspace: &'static str,
    name: &'static str,
    needs: Needs,
    rows: fn(&NodeFacts<'_>) -> Vec<Row>,
) -> VirtualTable {
    VirtualTable { keyspace, name, needs, rows }
}

#[rustfmt::skip]
const TABLES: [VirtualTable; 32] = [
    table("system", "IndexInfo", Needs::Nothing, schema_rows::built_indexes),
    table("system", "clients", Needs::Clients, |f| f.clients.iter().map(scylla_client).collect()),
    table("system", "compaction_history", Needs::Merges, |f| f.compaction_history()),
    table("system", "large_cells", Needs::LargeData, |f| f.large_cells()),
    table("system", "large_partitions", Needs::LargeData, |f| f.large_partitions()),
    table("system", "large_rows", Needs::LargeData, |f| f.large_rows()),
    table("system", "local", Needs::Nothing, |f| vec![f.node.local(f.schema)]),
    table("system", "prepared_statements", Needs::Prepared, |f| f.prepared.iter().map(prepared).collect()),
    table("system", "size_estimates", Needs::Sizes, |f| f.size_estimates()),
    table("system", "table_estimates", Needs::Sizes, |f| f.table_estimates()),
    table("system", "versions", Needs::Nothing, |_| vec![Node::versions()]),
    table("system_schema", "aggregates", Needs::Nothing, schema_rows::aggregates),
    table("system_schema", "columns", Needs::PartsOfTables, schema_rows::columns),
    table("system_schema", "dropped_columns", Needs::PartsOfTables, schema_rows::dropped_columns),
    table("system_schema", "functions", Needs::Nothing, schema_rows::functions),
    table("system_schema", "indexes", Needs::PartsOfTables, schema_rows::indexes),
    table("system_schema", "keyspaces", Needs::Nothing, |f| schema_rows::keyspaces(f.schema)),
    table("system_schema", "tables", Needs::Tables, schema_rows::tables),
    table("system_schema", "types", Needs::Nothing, schema_rows::types),
    table("system_schema", "views", Needs::Tables, schema_rows::views),
    table("system_views", "clients", Needs::Clients, |f| f.clients.iter().map(cassandra_client).collect()),
    table("system_views", "damaged_files", Needs::DamagedFiles, |f| f.damaged_files()),
    table("system_views", "disk_requests", Needs::DiskRequests, |f| f.disk_requests()),
    table("system_views", "disk_usage", Needs::SizesOfAll, |f| f.disk_usage()),
    table("system_views", "settings", Needs::Nothing, |f| f.settings()),
    table("system_views", "snapshots", Needs::Snapshots, |f| f.snapshots()),
    table("system_views", "sstable_tasks", Needs::Merges, |f| f.sstable_tasks()),
    table("system_views", "stalls", Needs::Stalls, |f| f.stalls()),
    table("system_views", "statements", Needs::Statements, |f| f.statements()),
    table("system_virtual_schema", "columns", Needs::Nothing, |f| schema_rows::virtual_columns(f.schema)),
    table("system_virtual_schema", "keyspaces", Needs::Nothing, |f| schema_rows::virtual_keyspaces(f.schema)),
    table("system_virtual_schema", "tables", Needs::Nothing, |f| schema_rows::virtual_tables(f.schema)),
];

/// The entry of a table that has rows.
pub(crate) fn virtual_table(table: &Table) -> Option<&'static VirtualTable> {
    TABLES.iter().find(|known| known.keyspace == table.keyspace && known.name == table.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::base_schema;

    #[test]
    fn every_listed_table_is_in_the_schema() {
        let schema = base_schema();
        for known in &TABLES {
            let table = schema.table(known.keyspace, known.name);
            assert!(table.is_some(), "{}.{}", known.keyspace, known.name);
        }
    }
}
