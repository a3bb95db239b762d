//! What the schema takes of a shard's memory: data has that much less.
//!
//! ```text
//! each table ─► its definition, of which all shards of a node have one ─► / shards ─┐
//!               what this shard keeps of it                                         ├─► memtables, blocks have less
//! the codec that takes the most ─► a context for each file that is written ─────────┘
//! ```
//!
//! A definition is measured when it changes, so a change of the schema adds up numbers. Not here: what of the budget is
//! whose (`budget.rs`), what statements are kept prepared (`server`).

use std::mem::size_of;
use std::rc::Rc;

use model::{TableId, schema};

use crate::budget::Budget;
use crate::engine::Engine;
use crate::limits::CODEC_CONTEXTS;
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
    /// What compressing a file of the table takes, in bytes.
    context_bytes: usize,
}

impl DefinitionCosts {
    /// Measures a definition.
    pub(crate) fn of(definition: &schema::Table) -> DefinitionCosts {
        DefinitionCosts {
            memory_bytes: definition.memory_bytes(),
            context_bytes: WriterConfig::of_table(definition).codec.context_bytes(),
        }
    }
}

/// What these tables take of the memory of one of so many shards, in bytes.
fn taken_bytes(tables: &TableMap, shards: usize) -> usize {
    let costs = || tables.values().map(|table| table.costs());
    let definitions: usize = costs().map(|costs| costs.memory_bytes).sum();
    let context_bytes = costs().map(|costs| costs.context_bytes).max().unwrap_or(0);
    let codecs = if context_bytes > 0 { CODEC_CONTEXTS * context_bytes + OPENER_BYTES } else { 0 };
    definitions / shards + tables.len() * TABLE_BYTES + codecs
}

impl Budget {
    /// Leaves the data of one of so many shards what these tables do not take.
    pub(crate) fn count_schema(&self, tables: &TableMap, shards: usize) {
        self.set_schema(taken_bytes(tables, shards));
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
        self.budget.count_schema(&self.tables.by_id(), self.shards);
        self.cache.set_budget(self.budget.blocks_max() as u64);
    }
}
