//! What the schema takes of a shard's memory: data has that much less.
//!
//! ```text
//! each table, each type ─► its definition, of which a node has one ─► / shards ─────┐
//! each table ─► what this shard keeps of it                                         ├─► memtables, blocks have less
//! the codec that takes the most ─► a context for each file that is written ─────────┘
//! ```
//!
//! A definition is measured when it changes, so a change of the schema adds up numbers. One that would take more than
//! the schema may is refused. Not here: what of the budget is
//! whose (`budget.rs`), what statements are kept prepared (`server`).

use std::mem::size_of;
use std::rc::Rc;

use model::{Schema, SchemaChange, TableId, schema};

use crate::budget::Budget;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::limits::{
    CODEC_CONTEXTS, INDEX_SORT_BYTES, VECTOR_CENTROID_BYTES_MAX, VECTOR_SAMPLE_BYTES_MAX,
};
use crate::sstable::{OPENER_BYTES, WriterConfig};
use crate::table::Table;
use crate::tables::TableMap;

/// What a shard keeps of a table, without data: the table, its place in the map, and what it points to.
const TABLE_BYTES: usize = size_of::<Table>() + 2 * size_of::<(TableId, Rc<Table>)>() + 128;

/// What a table's definition costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DefinitionCosts {
    /// Memory of the definition, in bytes.
    memory_bytes: usize,
    /// What compressing a file of the table takes, and sorting the terms of its indexes, in bytes.
    context_bytes: usize,
}

impl DefinitionCosts {
    /// Measures a definition.
    pub(crate) fn of(definition: &schema::Table) -> DefinitionCosts {
        DefinitionCosts {
            memory_bytes: definition.memory_bytes(),
            context_bytes: context_bytes(definition),
        }
    }
}

/// What it takes to write a file of a table: to compress it, and to sort the terms of its indexes.
fn context_bytes(definition: &schema::Table) -> usize {
    let sort = if definition.file_indexes().next().is_none() { 0 } else { INDEX_SORT_BYTES };
    let is_vectors = |index: &schema::Index| index.similarity(definition).is_some();
    let vectors = match definition.file_indexes().any(is_vectors) {
        true => VECTOR_SAMPLE_BYTES_MAX + 2 * VECTOR_CENTROID_BYTES_MAX,
        false => 0,
    };
    WriterConfig::of_table(definition).codec.context_bytes() + sort + vectors
}

/// What the tables and types of a schema cost.
#[derive(Clone, Copy, Debug, Default)]
struct SchemaCosts {
    tables: usize,
    /// Memory of all definitions, which the shards of a node have together, in bytes.
    definition_bytes: usize,
    /// The most that compressing a file of a table takes, in bytes.
    context_bytes: usize,
}

impl SchemaCosts {
    fn of(tables: &TableMap, types_bytes: usize) -> SchemaCosts {
        let mut all = SchemaCosts { definition_bytes: types_bytes, ..SchemaCosts::default() };
        tables.values().for_each(|table| all.add(&table.costs()));
        all
    }

    fn add(&mut self, table: &DefinitionCosts) {
        self.tables += 1;
        self.definition_bytes += table.memory_bytes;
        self.context_bytes = self.context_bytes.max(table.context_bytes);
    }

    /// A table is defined otherwise, or for the first time.
    fn define(&mut self, tables: &TableMap, definition: &schema::Table) {
        if let Some(before) = tables.get(&definition.id) {
            self.tables -= 1;
            self.definition_bytes -= before.costs().memory_bytes;
        }
        self.add(&DefinitionCosts::of(definition));
    }

    /// What that takes of the memory of one of so many shards, in bytes.
    fn taken_bytes(&self, shards: usize) -> usize {
        let codecs = match self.context_bytes {
            0 => 0,
            context_bytes => CODEC_CONTEXTS * context_bytes + OPENER_BYTES,
        };
        self.definition_bytes / shards + self.tables * TABLE_BYTES + codecs
    }
}

impl Budget {
    /// Leaves the data of one of so many shards what these tables and types do not take.
    pub(crate) fn count_schema(&self, tables: &TableMap, types_bytes: usize, shards: usize) {
        self.set_schema(SchemaCosts::of(tables, types_bytes).taken_bytes(shards));
    }
}

impl Engine {
    /// One of so many shards that have one schema together.
    pub fn share_schema(&mut self, shards: usize) {
        assert!(shards > 0, "this one at least");
        self.shards = shards;
        self.count_schema();
    }

    /// Leaves data what the schema does not take now.
    pub(crate) fn count_schema(&self) {
        let types_bytes = self.types_bytes.get();
        self.budget.count_schema(&self.tables.by_id(), types_bytes, self.shards);
        self.cache.set_budget(self.budget.blocks_max() as u64);
    }

    /// Refuses a change of the schema that would take more of this shard's memory than the schema may. `schema` is what
    /// it changes, and the one that the shard follows. What is there already may stay, however large, and become less.
    pub fn admit_schema_change(&self, schema: &Schema, change: &SchemaChange) -> Result<()> {
        let tables = self.tables.by_id();
        let before = SchemaCosts::of(&tables, self.types_bytes.get());
        let mut after = before;
        match change {
            SchemaChange::CreateTable(table) | SchemaChange::AlterTable(table) => {
                after.define(&tables, table);
            }
            SchemaChange::AlterTables(all) => {
                all.iter().for_each(|table| after.define(&tables, table));
            }
            SchemaChange::CreateType(ty) => after.definition_bytes += ty.memory_bytes(),
            SchemaChange::AlterType { definition, tables: using } => {
                let keyspace = schema.keyspace(&definition.keyspace);
                let old = keyspace.and_then(|keyspace| keyspace.types.get(&definition.name));
                after.definition_bytes += definition.memory_bytes();
                after.definition_bytes -= old.map_or(0, |old| old.memory_bytes());
                using.iter().for_each(|table| after.define(&tables, table));
            }
            SchemaChange::PutFunction(function) => {
                let keyspace = schema.keyspace(&function.keyspace);
                let old = keyspace.and_then(|keyspace| keyspace.functions.get(&function.key()));
                after.definition_bytes += function.memory_bytes();
                after.definition_bytes -= old.map_or(0, |old| old.memory_bytes());
            }
            SchemaChange::PutAggregate(aggregate) => {
                let keyspace = schema.keyspace(&aggregate.keyspace);
                let old = keyspace.and_then(|keyspace| keyspace.aggregates.get(&aggregate.key()));
                after.definition_bytes += aggregate.memory_bytes();
                after.definition_bytes -= old.map_or(0, |old| old.memory_bytes());
            }
            SchemaChange::CreateKeyspace { .. }
            | SchemaChange::AlterKeyspace { .. }
            | SchemaChange::DropKeyspace { .. }
            | SchemaChange::DropTable { .. }
            | SchemaChange::DropType { .. }
            | SchemaChange::DropFunction { .. }
            | SchemaChange::DropAggregate { .. }
            | SchemaChange::DroppedTables { .. } => return Ok(()),
        }
        let (before, after) = (before.taken_bytes(self.shards), after.taken_bytes(self.shards));
        let most = self.budget.schema_max();
        if after <= most || after <= before {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "The schema would take {after} bytes of a shard's memory, where at most {most} are allowed: drop tables, \
             or start the node with more memory"
        )))
    }
}
