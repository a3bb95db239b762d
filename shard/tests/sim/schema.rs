//! The schema of the simulated tables, and the changes that are made to it.
//!
//! ```text
//! t0 (notes)  k | v l n0 n1        which records are there
//! t1          k | v w              no clustering
//! t2, t3      k | c1 c2 | s | v w m u x0 x1 …    m is a map, u a user type, x are added and dropped
//! t3          e                    a vector beside these
//! t4          k | v l n0 n1        writes that read first: a row, a list, counters
//! ```
//!
//! Not here: how a change is made durable (`messina_shard::schema_changes`), what it does to data (`oracle.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::io::Rng;
use model::options::{Class, Compaction, Compression, KeyspaceOptions};
use model::schema::{ColumnKind, SchemaEntry, Table, TableBuilder};
use model::types::{Redefined, UserType};
use model::{CqlType, Schema, SchemaChange, TableId};
use uuid::Uuid;

use crate::{lookups, searches};

/// The tables of the test.
pub(crate) const TABLES: usize = 4;
/// The table of the writes that read first, beside those.
pub(crate) const ORDERED: usize = TABLES;
/// The table with a column of vectors, and their parts.
const VECTORS: usize = 3;
pub(crate) const VECTOR_PARTS: usize = 3;
/// A user type has no more fields.
const FIELDS_MAX: usize = 5;
/// Columns that are added over the life of a table.
const ADDED_MAX: u16 = 40;

const KEYSPACE: &str = "ks";
const TYPE: &str = "parts";

/// What a change does beside changing the schema.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    Nothing,
    /// A table goes with its data.
    Cleared {
        table: usize,
    },
    /// A column goes with what was written until then.
    Dropped {
        table: usize,
        column: u16,
        at: i64,
    },
    /// A column is there, perhaps again.
    Added {
        table: usize,
        column: u16,
    },
}

/// What is built in: the table of batches.
pub(crate) fn base() -> Arc<Schema> {
    let apply = |schema: &Schema, change| {
        let entry = SchemaEntry { number: 0, version: Uuid::nil(), change };
        schema.apply(&entry).expect("the built-in schema is sound")
    };
    let options = KeyspaceOptions::default();
    let schema =
        apply(&Schema::empty(), SchemaChange::CreateKeyspace { name: "system".into(), options });
    let list = CqlType::List { element: CqlType::Blob.into(), frozen: false };
    let build = || {
        let table = TableBuilder::new("system", "batches", TableId(Uuid::from_u128(1)));
        let table = table.partition_key("id", CqlType::Timeuuid)?;
        table.regular("mutations", list)?.regular("version", CqlType::Int)?.build()
    };
    let mut table = build().expect("a sound table");
    table.options.gc_grace_seconds = 0;
    Arc::new(apply(&schema, SchemaChange::CreateTable(Box::new(table))))
}

/// A table by its number.
pub(crate) fn table(schema: &Schema, number: usize) -> Option<&Table> {
    schema.table(KEYSPACE, &name(number)).map(|table| &**table)
}

fn name(number: usize) -> String {
    format!("t{number}")
}

/// The next change on the way to a schema that has everything, if something is missing.
pub(crate) fn missing(schema: &Schema, rng: &mut Rng, gc_grace_s: i32) -> Option<SchemaChange> {
    let Some(keyspace) = schema.keyspace(KEYSPACE) else {
        return Some(SchemaChange::CreateKeyspace {
            name: KEYSPACE.into(),
            options: KeyspaceOptions::default(),
        });
    };
    let Some(parts) = keyspace.types.get(TYPE) else {
        let fields = vec![("f0".into(), CqlType::Blob)];
        return Some(SchemaChange::CreateType(UserType::new(KEYSPACE, TYPE, fields)));
    };
    let number = (0..=ORDERED).find(|number| table(schema, *number).is_none())?;
    let id = TableId(Uuid::from_u64_pair(rng.roll(), rng.roll()));
    let mut table =
        definition(number, id, CqlType::Udt { definition: parts.clone(), frozen: false });
    table.options.gc_grace_seconds = gc_grace_s;
    table.options.bloom_filter_fp_chance = 0.5;
    table.options.compaction = Compaction::of_class(CLASSES[number]);
    table.options.compression = compression(number);
    for _ in 0..rng.below(4) {
        lookups::alter(&mut table, rng);
    }
    Some(SchemaChange::CreateTable(Box::new(table)))
}

/// Gives a table that is about to be made vectors with an index, if it is the one with vectors. Worlds of views have
/// none: the schema may not take as much of their memory.
pub(crate) fn add_vectors(change: &mut SchemaChange, rng: &mut Rng) {
    let SchemaChange::CreateTable(table) = change else { return };
    if table.name == name(VECTORS) {
        let dimensions = VECTOR_PARTS as u32;
        let vector = CqlType::Vector { element: CqlType::Float.into(), dimensions };
        table.add_column("e", vector, ColumnKind::Regular).expect("the name is free");
        searches::alter(table, "e", rng);
    }
}

/// How each table is compacted at first.
const CLASSES: [Class; TABLES + 1] =
    [Class::SizeTiered, Class::Leveled, Class::Unified, Class::TimeWindow, Class::SizeTiered];

/// How tables may be compacted later: each strategy as it is, and with numbers that make it work much.
const WAYS: [&[(&str, &str)]; 11] = [
    &[("class", "SizeTieredCompactionStrategy")],
    &[("class", "SizeTieredCompactionStrategy"), ("min_threshold", "2")],
    &[("class", "SizeTieredCompactionStrategy"), ("tombstone_threshold", "0.01")],
    &[("class", "LeveledCompactionStrategy")],
    &[("class", "LeveledCompactionStrategy"), ("sstable_size_in_mb", "1"), ("fanout_size", "2")],
    &[("class", "TimeWindowCompactionStrategy")],
    &[
        ("class", "TimeWindowCompactionStrategy"),
        ("compaction_window_unit", "MINUTES"),
        ("timestamp_resolution", "SECONDS"),
    ],
    &[("class", "UnifiedCompactionStrategy")],
    &[("class", "UnifiedCompactionStrategy"), ("scaling_parameters", "N, L3, T2")],
    &[
        ("class", "UnifiedCompactionStrategy"),
        ("scaling_parameters", "L10"),
        ("overlap_inclusion_method", "NONE"),
    ],
    &[("class", "IncrementalCompactionStrategy"), ("min_threshold", "2")],
];

fn compaction(way: &[(&str, &str)]) -> Compaction {
    let pairs = way.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Compaction::parse(&pairs.collect()).expect("sound options")
}

/// Table 2 is not compressed; table 3 has small blocks, so that its partitions have a row index.
fn compression(number: usize) -> Compression {
    match number {
        2 => Compression::none(),
        3 => small_blocks(),
        _ => Compression::default(),
    }
}

fn small_blocks() -> Compression {
    let pairs = [("class", "LZ4Compressor"), ("chunk_length_in_kb", "1")];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Compression::parse(&BTreeMap::from(pairs)).expect("sound options")
}

fn definition(number: usize, id: TableId, parts: CqlType) -> Table {
    let map =
        CqlType::Map { key: CqlType::Tinyint.into(), value: CqlType::Blob.into(), frozen: false };
    let list = CqlType::List { element: CqlType::Blob.into(), frozen: false };
    let build = || {
        let b = TableBuilder::new(KEYSPACE, &name(number), id).partition_key("k", CqlType::Blob)?;
        let b = match number {
            0 | ORDERED => {
                let b = b.regular("v", CqlType::Blob)?.regular("l", list)?;
                return b.regular("n0", CqlType::Counter)?.regular("n1", CqlType::Counter)?.build();
            }
            1 => b,
            _ => b
                .clustering("c1", CqlType::Tinyint, false)?
                .clustering("c2", CqlType::Tinyint, number == 3)?
                .stat("s", CqlType::Blob)?
                .regular("m", map)?
                .regular("u", parts)?,
        };
        b.regular("v", CqlType::Blob)?.regular("w", CqlType::Blob)?.build()
    };
    build().expect("a sound table")
}

/// Drops a table; [`missing`] makes another of its name.
pub(crate) fn drop_table(number: usize) -> (SchemaChange, Effect) {
    let change = SchemaChange::DropTable { keyspace: KEYSPACE.into(), name: name(number) };
    (change, Effect::Cleared { table: number })
}

/// A change of a table or of the user type; `at` is the time up to which a dropped column takes its cells along.
pub(crate) fn alteration(schema: &Schema, rng: &mut Rng, at: i64) -> (SchemaChange, Effect) {
    let number = 1 + rng.index(TABLES - 1);
    let mut table = table(schema, number).expect("all tables are there").clone();
    let effect = match rng.below(12) {
        0..3 => drop_column(number, &mut table, rng, at),
        3..6 => add_column(number, &mut table, rng),
        6 => return (add_field(schema), Effect::Nothing),
        7..11 => {
            match number == VECTORS && rng.one_in(4) {
                true => searches::alter(&mut table, "e", rng),
                false => lookups::alter(&mut table, rng),
            }
            Effect::Nothing
        }
        _ => {
            table.options.compaction = compaction(WAYS[rng.index(WAYS.len())]);
            table.options.compression = compression(1 + rng.index(3));
            Effect::Nothing
        }
    };
    (SchemaChange::AlterTable(Box::new(table)), effect)
}

fn drop_column(number: usize, table: &mut Table, rng: &mut Rng, at: i64) -> Effect {
    let columns = table.value_columns();
    if columns.len() < 2 {
        return add_column(number, table, rng);
    }
    let column = columns[rng.index(columns.len())].clone();
    lookups::drop_of(table, &column.name);
    table.drop_column(&column.name, at).expect("it is no key");
    Effect::Dropped { table: number, column: column.id.0, at }
}

/// Adds a column that was dropped, or one of a new name.
pub(crate) fn add_column(number: usize, table: &mut Table, rng: &mut Rng) -> Effect {
    let dropped: Vec<_> = table.dropped.iter().map(|dropped| dropped.column.clone()).collect();
    let dropped: Vec<_> =
        dropped.into_iter().filter(|column| table.column(&column.name).is_none()).collect();
    let (name, ty, kind) = if !dropped.is_empty() && rng.one_in(2) {
        let column = dropped[rng.index(dropped.len())].clone();
        (column.name, column.ty, column.kind)
    } else if table.next_column() < ADDED_MAX {
        (format!("x{}", table.next_column()), CqlType::Blob, ColumnKind::Regular)
    } else {
        return Effect::Nothing;
    };
    table.add_column(&name, ty, kind).expect("the name is free");
    let column = table.column(&name).expect("it was just added").id.0;
    Effect::Added { table: number, column }
}

/// ALTER TYPE ADD, with all tables that hold the type.
fn add_field(schema: &Schema) -> SchemaChange {
    let keyspace = schema.keyspace(KEYSPACE).expect("it is there");
    let mut definition = (*keyspace.types[TYPE]).clone();
    if definition.fields.len() < FIELDS_MAX {
        definition.fields.push((format!("f{}", definition.fields.len()), CqlType::Blob));
    }
    let mut tables: Vec<Table> = keyspace.tables.values().map(|table| (**table).clone()).collect();
    tables.retain(|table| table.holds(&definition.name));
    let new = Redefined::new(definition.clone().into());
    tables.iter_mut().for_each(|table| table.replace_user_type(&new));
    SchemaChange::AlterType { definition, tables }
}
