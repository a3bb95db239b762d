//! Keyspaces, tables and columns at one version, and the closed set of changes between versions.
//!
//! ```text
//! Schema v7 ── SchemaChange ──► Schema v8          the log of changes is the schema's truth
//! ```
//!
//! Invariants
//! 1. A `Schema` never changes; a change makes a new one that shares what stayed the same.
//! 2. A column id means one column for ever. One that is added again as what it was keeps it, and its drop
//!    ([`ColumnDrops`]) says which old data it may show; as anything else it gets a new one.
//! 3. `Table::columns` is in SELECT * order: partition key, clustering, static, regular, the last
//!    two by name.
//!
//! Not here: who may change the schema and in which order (`server`), its files (`engine`).

mod change;
mod compact;
mod dropped_tables;
mod drops;
mod function;
mod index;
mod log;
mod memory;
mod snapshot;
pub mod system;
mod table;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use change::{SchemaChange, SchemaEntry};
pub use dropped_tables::DroppedTables;
pub use drops::ColumnDrops;
pub use function::{FunctionKey, FunctionLanguage, UserAggregate, UserFunction};
use hashbrown::HashMap;
pub use index::{
    Analysis, Index, IndexId, IndexKind, IndexTarget, OPTIMIZE_OPTION, SIMILARITY_OPTION,
};
pub use log::{FORMAT, Unreadable, decode, encode};
pub use table::{
    Column, ColumnId, ColumnKind, DroppedColumn, Table, TableBuilder, TableId, TableParts,
};
use uuid::Uuid;
pub use view::{ViewDefinition, ViewIdentity, ViewKey, ViewRestriction, ViewTest};

use crate::options::KeyspaceOptions;
use crate::types::UserType;

/// One keyspace: its options, its types, functions and tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Keyspace {
    /// Its name, as stored.
    pub name: String,
    /// What follows WITH.
    pub options: KeyspaceOptions,
    /// Tables by name.
    pub tables: BTreeMap<String, Arc<Table>>,
    /// User types by name.
    pub types: BTreeMap<String, Arc<UserType>>,
    /// Functions of users.
    pub functions: BTreeMap<FunctionKey, Arc<UserFunction>>,
    /// Aggregates of users; none has the key of a function.
    pub aggregates: BTreeMap<FunctionKey, Arc<UserAggregate>>,
}

/// All keyspaces at one version.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Number of changes that made this schema.
    pub number: u64,
    /// What drivers compare.
    pub version: Uuid,
    keyspaces: BTreeMap<String, Arc<Keyspace>>,
    tables: HashMap<TableId, Arc<Table>, foldhash::fast::FixedState>,
    dropped: DroppedTables,
}

impl Schema {
    /// No keyspaces, version zero.
    pub fn empty() -> Schema {
        Schema::default()
    }

    /// All keyspaces by name.
    pub fn keyspaces(&self) -> impl Iterator<Item = &Arc<Keyspace>> {
        self.keyspaces.values()
    }

    /// The keyspace of that name.
    pub fn keyspace(&self, name: &str) -> Option<&Arc<Keyspace>> {
        self.keyspaces.get(name)
    }

    /// The table of that name.
    pub fn table(&self, keyspace: &str, name: &str) -> Option<&Arc<Table>> {
        self.keyspaces.get(keyspace)?.tables.get(name)
    }

    /// The table of that id.
    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<Table>> {
        self.tables.get(&id)
    }

    /// The tables that were dropped: no id of theirs is given again, or their old rows would be the new table's.
    pub fn dropped_tables(&self) -> &DroppedTables {
        &self.dropped
    }

    /// All tables of all keyspaces.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.keyspaces.values().flat_map(|keyspace| keyspace.tables.values())
    }
}
