//! Every bound of the data model, by name.
//!
//! A limit that a request can meet is answered with an error that says the number.

/// Longest serialised partition key; and of a row of a table all clustering values together, of a view each of them: in
/// bytes.
pub const KEY_BYTES_MAX: usize = 65_535;
/// Bytes of the fields that the tuples and user types of a clustering key lack when it is written: they come back with
/// all fields that their types have, four bytes for each that is null.
pub const KEY_MISSING_BYTES_MAX: usize = 64 << 10;
/// Longest clustering key of a row in the form by which rows are ordered, in bytes. Of texts of zeros it has twice as
/// many as the values, and a view has the keys of its table and one value more.
pub const CLUSTERING_FORM_BYTES_MAX: usize = 416 << 10;
/// How many times the bytes of a value its ordered form may have, beside [`FORM_BYTES_BESIDE`].
pub const FORM_GROWTH_MAX: usize = 4;
/// Bytes that the ordered form of any value may have, however short it is.
pub const FORM_BYTES_BESIDE: usize = 1 << 20;
/// Longest name of a keyspace, table or function, in bytes. Tables of Cassandra are directories: a name, an id behind
/// it.
pub const NAME_BYTES_MAX: usize = 222;
/// Longest name of a user type, in bytes: it is a `[string]` on the wire.
pub const TYPE_NAME_BYTES_MAX: usize = 65_535;
/// Longest name of a column, in bytes: it is a `[string]` on the wire, and no part of a path.
pub const COLUMN_NAME_BYTES_MAX: usize = 65_535;
/// Deepest nesting of a type: it bounds the stack of whatever walks types and their values.
pub const TYPE_DEPTH_MAX: u32 = 48;
/// Largest description of a type, in bytes: 16 for each part, user types written out wherever they
/// stand, and the names.
/// It bounds the columns' part of an answer, where parts are counted in two bytes.
pub const TYPE_BYTES_MAX: usize = 1 << 20;
/// Bytes of a type's description for each part, beside names.
pub const TYPE_PART_BYTES: usize = 16;
/// Deepest nesting of a class's name as written, where each `FrozenType` is a level of its own.
pub const CLASS_NESTING_MAX: u32 = 2 * TYPE_DEPTH_MAX;
/// Levels that a composite counts for: the schema log writes three of JSON.
pub const CUSTOM_TYPE_LEVELS: u32 = 2;
/// Longest name, without packages, of a class that an alias of a dynamic composite stands for, in bytes: the ordered
/// form of a value has it for each component that says the alias.
pub const ALIAS_CLASS_BYTES_MAX: usize = 128;
/// Longest value of a component of a composite, in bytes: its length has two.
pub const COMPONENT_BYTES_MAX: usize = u16::MAX as usize;
/// Longest name of a class in a value of a dynamic composite, in bytes: the bit above says that it is an alias.
pub const CLASS_NAME_BYTES_MAX: usize = 0x7FFF;
/// Levels that a user type counts for: the schema log writes two of JSON for a type and five for a
/// user type, and reads at most 128.
pub const USER_TYPE_LEVELS: u32 = 3;
/// Most columns of one table over its life; column ids are never reused.
pub const COLUMNS_MAX: usize = 16_384;
/// Most indexes of one table at a time.
pub const INDEXES_MAX: usize = 256;
/// Bytes of a value by which an index knows it: of a longer one the first, for all values that begin so.
pub const TERM_BYTES_MAX: usize = 1024;
/// Bytes from which on a value is too long for a plain index, as in Cassandra.
pub const PLAIN_INDEX_VALUE_BYTES: usize = 65_535;
/// Most rows that ORDER BY .. ANN OF may ask for, as in Cassandra.
pub const NEAREST_ROWS_MAX: usize = 1000;
/// Bytes of the rows that it may find: a shard keeps them until it knows that none is nearer.
pub const NEAREST_ROWS_BYTES_MAX: usize = 16 << 20;
/// Ids of dropped tables that are remembered. When older ones were forgotten, CREATE TABLE refuses `WITH ID`.
pub const DROPPED_TABLES_MAX: usize = 65_536;
/// Largest encoded mutation, in bytes. A commit log record holds at least one.
pub const MUTATION_BYTES_MAX: usize = 16 << 20;
/// Conditions of one conditional statement or batch.
pub const CONDITIONS_MAX: usize = 1 << 10;
/// Bytes that one of them compares, of its values and what is stored: it is judged in one step. Texts and blobs, which
/// are compared as they lie, do not count.
pub const CONDITION_COMPARED_BYTES_MAX: usize = 1 << 20;
/// Most work of the filters on one row, and of one condition, in units of `cql/src/expr/work.rs`: they bring decimals,
/// and the fields that tuples lack, into order in one step, which takes a core some 60 ms.
pub const FILTER_WORK_MAX: u64 = 32 << 20;
/// Largest single cell value, in bytes. No key or element comes back longer, whatever fields its types have got since.
pub const CELL_BYTES_MAX: usize = MUTATION_BYTES_MAX - (64 << 10);
/// Bytes of a collection that is stored by element, put together: the longest result.
pub const COLLECTED_BYTES_MAX: usize = 64 << 20;
/// Longest TTL, in seconds: twenty years.
pub const TTL_S_MAX: i32 = 20 * 365 * 24 * 60 * 60;
/// Largest block of a table's files before compression, in bytes: a larger one would hold up the shard while it is
/// decompressed.
pub const CHUNK_BYTES_MAX: usize = 256 << 10;
/// Largest vector dimension: what Cassandra's `int` can hold. Nothing is allocated for a dimension: what a value may
/// take is bounded by [`CELL_BYTES_MAX`].
pub const VECTOR_DIMENSIONS_MAX: u32 = i32::MAX as u32;

const _: () =
    assert!(CELL_BYTES_MAX + KEY_BYTES_MAX < MUTATION_BYTES_MAX, "a cell fits a mutation");
const _: () =
    assert!(TYPE_BYTES_MAX / TYPE_PART_BYTES <= 1 + u16::MAX as usize, "counted in a [short]");
const _: () = assert!(2 * TYPE_DEPTH_MAX + 16 < 128, "the schema log reads what it wrote");
const _: () = assert!(6 * KEY_BYTES_MAX < CLUSTERING_FORM_BYTES_MAX, "a view of zeros");
const _: () = assert!(COLUMNS_MAX < u16::MAX as usize, "column ids are u16");
