//! What the definitions of tables, types and functions take in memory, so that a node can count them.
//!
//! What is on the heap is counted by lengths; nodes of maps and the allocator's rounding by what they are at most. A
//! type counts in each column that has it, for a table that was read from the log has its own copy.
//!
//! ```text
//! Table       itself, its columns, dropped columns, indexes, the maps of its options, its places in two maps
//! UserType    itself, its fields, its place in a map
//! functions   themselves, names, arguments, body, their places in a map
//! ```
//!
//! Invariant: a count is rather too large than too small, since it takes memory from memtables and caches. It is
//! computed from the definition alone, so that a definition always has the same.
//!
//! Not here: what is done with the counts, and the limit of all definitions together (`engine/src/schema_memory.rs`).

use std::collections::BTreeMap;
use std::mem::size_of;
use std::sync::Arc;

use super::{Column, Index, Schema, Table, UserAggregate, UserFunction};
use crate::steps::step;
use crate::types::{CqlType, UserType};

/// What an allocation takes beside its bytes: counts of an `Arc`, and what an allocator rounds up.
const ALLOCATION_BYTES: usize = 16;
/// The only node of a small map of texts to texts.
const MAP_NODE_BYTES: usize = 11 * 2 * size_of::<String>() + 2 * ALLOCATION_BYTES;
/// How many pairs fit one node.
const MAP_NODE_PAIRS: usize = 11;
/// Option values that are a word: `memtable`, `speculative_retry` and its like.
const SHORT_TEXTS_BYTES: usize = 3 * 2 * ALLOCATION_BYTES;
/// A table in the maps of its keyspace by name, and of the schema by id: what changes is copied, so each is there twice
/// for a moment.
const MAP_ENTRIES_BYTES: usize = 2 * (2 * size_of::<(String, Arc<Table>)>() + ALLOCATION_BYTES);

impl Table {
    /// About how many bytes the definition takes, with its places in the maps of a schema.
    pub fn memory_bytes(&self) -> usize {
        let options = &self.options;
        let dropped = self.dropped.iter().map(|dropped| of_column(&dropped.column));
        let own = self.columns.iter().chain(self.hidden());
        let columns: usize = own.map(of_column).chain(dropped).sum();
        let indexes: usize = self.indexes.iter().map(of_index).sum();
        let extension = |(name, value): (&String, &Vec<u8>)| name.len() + value.len();
        let extensions: usize = options.extensions.iter().map(extension).sum();
        let extension_nodes = nodes_bytes(options.extensions.len());
        size_of::<Table>()
            + ALLOCATION_BYTES
            + MAP_ENTRIES_BYTES
            + self.keyspace.len()
            // In the table, and as the key of the keyspace's map.
            + 3 * self.name.len()
            + (self.by_name.len() + self.by_id.len()) * size_of::<u16>()
            + 4 * ALLOCATION_BYTES
            + columns
            + indexes
            + of_map(options.compaction.pairs())
            + of_map(options.compression.pairs())
            + options.comment.len()
            + extensions
            + extension_nodes
            + SHORT_TEXTS_BYTES
    }
}

impl UserType {
    /// About how many bytes the definition takes, with its place in the map of its keyspace.
    pub fn memory_bytes(&self) -> usize {
        size_of::<UserType>() + MAP_ENTRIES_BYTES + self.name.len() + of_definition(self)
    }
}

impl UserFunction {
    /// About how many bytes the definition takes, with its place in the map of its keyspace.
    pub fn memory_bytes(&self) -> usize {
        let argument = |(name, ty): &(String, CqlType)| {
            // Its type as text is a part of the key.
            3 * ALLOCATION_BYTES + name.len() + size_of::<(String, CqlType)>() + 2 * of_type(ty)
        };
        let arguments: usize = self.arguments.iter().map(argument).sum();
        let names = self.keyspace.len() + 2 * self.name.len();
        let own = size_of::<UserFunction>() + MAP_ENTRIES_BYTES + 6 * ALLOCATION_BYTES;
        own + names + arguments + of_type(&self.result) + self.body.len()
    }
}

impl UserAggregate {
    /// About how many bytes the definition takes, with its place in the map of its keyspace.
    pub fn memory_bytes(&self) -> usize {
        let argument = |ty: &CqlType| 3 * ALLOCATION_BYTES + size_of::<CqlType>() + 2 * of_type(ty);
        let arguments: usize = self.arguments.iter().map(argument).sum();
        let functions = [
            Some(&self.state_function),
            self.final_function.as_ref(),
            self.reduce_function.as_ref(),
        ];
        let functions: usize = functions.into_iter().flatten().map(String::len).sum();
        let names = self.keyspace.len() + 2 * self.name.len() + functions;
        let own = size_of::<UserAggregate>() + MAP_ENTRIES_BYTES + 8 * ALLOCATION_BYTES;
        let types = of_type(&self.state) + of_type(&self.result);
        own + names + arguments + types + self.initial.as_ref().map_or(0, Vec::len)
    }
}

impl Schema {
    /// About how many bytes the definitions of its user types and functions take, apart from their copies in tables.
    pub fn types_bytes(&self) -> usize {
        let types = self.keyspaces().flat_map(|keyspace| keyspace.types.values());
        let types: usize = types.map(|ty| ty.memory_bytes()).sum();
        let functions = self.keyspaces().flat_map(|keyspace| keyspace.functions.values());
        let functions: usize = functions.map(|function| function.memory_bytes()).sum();
        let aggregates = self.keyspaces().flat_map(|keyspace| keyspace.aggregates.values());
        let aggregates: usize = aggregates.map(|aggregate| aggregate.memory_bytes()).sum();
        types + functions + aggregates
    }
}

fn of_column(column: &Column) -> usize {
    size_of::<Column>() + column.name.len() + ALLOCATION_BYTES + of_type(&column.ty)
}

fn of_index(index: &Index) -> usize {
    let class = index.class.as_ref().map_or(0, String::len);
    size_of::<Index>() + 2 * ALLOCATION_BYTES + index.name.len() + class + of_map(&index.options)
}

/// What a type has on the heap.
fn of_type(ty: &CqlType) -> usize {
    let held = |ty: &CqlType| size_of::<CqlType>() + of_type(ty);
    match ty {
        CqlType::List { element, .. }
        | CqlType::Set { element, .. }
        | CqlType::Vector { element, .. } => ALLOCATION_BYTES + held(element),
        CqlType::Map { key, value, .. } => 2 * ALLOCATION_BYTES + held(key) + held(value),
        CqlType::Tuple(types) => ALLOCATION_BYTES + types.iter().map(held).sum::<usize>(),
        CqlType::Udt { definition, .. } => size_of_val(&**definition) + of_definition(definition),
        CqlType::Custom(custom) => {
            let parts = custom.components().into_iter().map(|part| of_type(&part.ty));
            2 * ALLOCATION_BYTES + custom.heap_bytes() + parts.sum::<usize>()
        }
        _ => 0,
    }
}

/// What a user type has on the heap.
fn of_definition(definition: &UserType) -> usize {
    definition.heap_bytes(|| of_fields(definition))
}

fn of_fields(definition: &UserType) -> usize {
    step(definition.fields.len());
    let field = |(name, ty): &(String, CqlType)| {
        size_of::<String>() + ALLOCATION_BYTES + name.len() + size_of::<CqlType>() + of_type(ty)
    };
    let names = definition.keyspace.len() + definition.name.len();
    let fields: usize = definition.fields.iter().map(field).sum();
    4 * ALLOCATION_BYTES + names + fields + definition.by_name_bytes()
}

fn of_map(map: &BTreeMap<String, String>) -> usize {
    let text = |text: &String| text.len() + ALLOCATION_BYTES / 2;
    let texts: usize = map.iter().map(|(name, value)| text(name) + text(value)).sum();
    texts + nodes_bytes(map.len())
}

fn nodes_bytes(pairs: usize) -> usize {
    // Nodes are half full at least.
    let nodes = if pairs <= MAP_NODE_PAIRS { pairs.min(1) } else { pairs.div_ceil(5) };
    nodes * MAP_NODE_BYTES
}
