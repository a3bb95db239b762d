//! Every bound of this crate, by name, and how the bounds relate.
//!
//! A limit is checked before the bytes it limits are allocated or walked.
//!
//! In order: frames and segments, statements and their memory, results and pages, batches, numbers of any length, JSON,
//! names and functions of users.
//!
//! Not here: limits of what is stored, of cells, keys and types (`model/src/limits.rs`), limits of a core
//! (`server/src/limits.rs`), limits that an operator sets (`guardrails.rs`).

use model::limits::{COLLECTED_BYTES_MAX, COLUMNS_MAX, MUTATION_BYTES_MAX, TYPE_DEPTH_MAX};

/// The largest frame body, counted uncompressed. Cassandra's `native_transport_max_frame_size`.
pub const FRAME_BODY_BYTES_MAX: u32 = 16 << 20;

/// The largest frame body of a connection that has not finished its handshake.
pub const HANDSHAKE_BODY_BYTES_MAX: u32 = 64 << 10;

/// The largest payload of a v5 segment: its length field has 17 bits.
pub const SEGMENT_PAYLOAD_BYTES_MAX: usize = (1 << 17) - 1;

/// Bodies smaller than this are answered uncompressed: LZ4 gains nothing on them.
pub const COMPRESS_BYTES_MIN: usize = 512;
/// Longer bodies are answered uncompressed (v3, v4), and of the short frames that are sealed at a time (v5) so many
/// bytes are compressed: it is done in one step, in which a core compresses about 0.5 GB a second.
pub const COMPRESS_BYTES_MAX: usize = 1 << 20;
/// A frame of more bytes is long, unless its body is compressed whole (v3, v4): it is made ready for the socket in
/// chunks of so many bytes, one a pass. These are whole segments of v5, and compressing them takes about 1 ms.
pub const FRAME_CHUNK_BYTES: usize = 4 * SEGMENT_PAYLOAD_BYTES_MAX;

/// The memory that a buffer of decompressed frames keeps for the next ones, in bytes.
pub const FRAME_BUFFER_BYTES_KEPT: usize = 16 << 10;

/// Bytes of all constants in the WHERE of a materialized view: as many as a key may have.
pub const VIEW_CONSTANTS_BYTES_MAX: usize = 65_535;

/// Parts of a tuple that is written out: the protocol counts those of its type in 16 bits.
pub const TUPLE_PARTS_MAX: usize = 65_535;

/// How many options a STARTUP may have. Drivers send about ten.
pub const STARTUP_OPTIONS_MAX: usize = 256;

const _: () = assert!(HANDSHAKE_BODY_BYTES_MAX < FRAME_BODY_BYTES_MAX);
// A frame always needs fewer than 2^31 bytes, so lengths fit the protocol's signed integers.
const _: () = assert!(FRAME_BODY_BYTES_MAX < i32::MAX as u32);

/// Longest statement, in bytes: as much as a frame holds.
pub const STATEMENT_BYTES_MAX: usize = FRAME_BODY_BYTES_MAX as usize;
/// Bytes after which a fingerprint is cut.
pub const FINGERPRINT_BYTES_MAX: usize = 2 << 10;
/// Most tokens of a statement, whose words and marks are a token each.
pub const TOKENS_MAX: usize = 1 << 18;
/// Bytes that parsing and compiling take for a token at most: `tests/statement_memory.rs` measures the forms that take
/// most.
pub const STATEMENT_TOKEN_BYTES: usize = 256;
/// Bytes that a compiled statement keeps for a token at most, measured there too.
pub const PLAN_TOKEN_BYTES: usize = 128;
/// Bytes that parsing and compiling one statement take at most, apart from its text.
pub const STATEMENT_MEMORY_BYTES_MAX: usize = TOKENS_MAX * STATEMENT_TOKEN_BYTES;
/// Deepest nesting of expressions and parentheses. It also bounds the stack a tree needs.
pub const NESTING_MAX: u8 = TYPE_DEPTH_MAX as u8;
/// Deepest nesting of a type as written, where each `frozen<>` is a level of its own.
pub const TYPE_NESTING_MAX: u8 = 2 * NESTING_MAX;
/// Most operators in one row of a sum or a product: each is a level of the tree.
pub const OPERATORS_MAX: usize = 100;
/// Deepest tree of an expression, in operators and parentheses inside each other: it bounds the
/// stack that showing, compiling, evaluating and dropping one needs.
pub const EXPRESSION_DEPTH_MAX: usize = OPERATORS_MAX + NESTING_MAX as usize;
/// Most relations of a `WHERE`.
pub const RELATIONS_MAX: usize = 100;
/// Most combinations of the values of several `IN`s.
pub const IN_PRODUCT_MAX: usize = 100;
/// Most values of one `IN`.
pub const IN_LIST_MAX: usize = 10_000;
/// Most bytes of the keys that the `IN`s of a statement name together: a long value beside an `IN` is in each of them.
/// And of those that a bound of several columns has, where a value is repeated for each column behind it.
/// That is [`IN_LIST_MAX`] keys of 200 bytes. They are made from a request that may be much shorter, in one step, and
/// kept while it waits.
pub const IN_KEY_BYTES_MAX: usize = 2 << 20;
/// Most bind markers of a statement: their number is a `[short]` on the wire.
pub const BIND_MARKERS_MAX: usize = 65_535;
/// Most statements of one batch text.
pub const BATCH_STATEMENTS_MAX: usize = 65_535;
/// Bytes after which a page ends, as sent.
pub const PAGE_BYTES: u64 = 1 << 20;
/// Bytes of an answer after which its page ends: a SELECT may name a stored value often.
pub const PAGE_ANSWER_BYTES: usize = 4 << 20;
/// Most properties of a statement, and entries of one property that is a map: each is compared with all before it.
pub const PROPERTIES_MAX: usize = 1000;
/// The squares of the lengths, in bytes, of the values with decimals that are put into order, added up, at most: those
/// of all sets and maps of one value that is bound or JSON, of one of them in a literal, or of one IN. A decimal is
/// ordered by its digits, which takes time with the square of its length.
pub const DECIMALS_SORT_COST_MAX: u64 = 1 << 31;
/// Fields that tuples and user types end before, at most: in all sets and maps of one value that is bound or JSON, in
/// one of them in a literal, or in one IN. A null for each is put into order, of tuples.
pub const MISSING_FIELDS_MAX: u64 = 8 << 20;
/// Bytes that describe the columns of a result, or the markers of a statement. User types are written out for each
/// column, so that a short statement can ask for a description of any length.
pub const DESCRIPTION_BYTES_MAX: usize = 2 << 20;
/// Most work of the expressions of one row, of the values of one statement and the rows that it writes, and of its
/// constants: they are evaluated in one step. In units of `expr/work.rs`: about a byte read or made, more for long
/// numbers. It is twice the longest cell, and takes a core 30 to 150 ms.
pub const EXPRESSION_WORK_MAX: u64 = 32 << 20;
/// Rows that one step of an aggregate reads.
pub const UNPAGED_ROWS: u64 = 10_000;
/// Largest result that is not paged: as much as the smallest shard has memory.
pub const RESULT_BYTES_MAX: usize = 64 << 20;
/// What a mutation counts in a batch beside its bytes: a place in the log, a partition in memory.
pub const BATCH_MUTATION_BYTES: usize = 256;
/// Largest batch over several partitions, in bytes of its mutations, unless configured: ScyllaDB's default of
/// `batch_size_fail_threshold`.
pub const BATCH_BYTES_MAX: usize = 1 << 20;
/// Bytes of a batch over several partitions that its client is warned of, unless configured: Cassandra's default of
/// `batch_size_warn_threshold`.
pub const BATCH_WARN_BYTES: usize = 5 << 10;
/// Partitions of an unlogged batch that its client is warned of, unless configured: Cassandra's default of
/// `unlogged_batch_across_partitions_warn_threshold`.
pub const UNLOGGED_BATCH_WARN_PARTITIONS: usize = 10;
/// Warnings that guardrails add to one answer: a batch may write many values that are too long.
pub const GUARDRAIL_WARNINGS_MAX: usize = 64;
/// Most digits that aligning two decimals may add: `1e999999999 + 1` must not fill the memory.
pub const DECIMAL_SCALE_MAX: u32 = 12_000;
/// Most digits of a number that is written as text: reading them takes time with the square of their number.
pub const NUMBER_DIGITS_MAX: usize = 100_000;
/// Most bytes of a varint, or of a decimal's digits, that is computed with or shown as text: that too takes time with
/// the square. A longer one is stored, read, and compared as the bytes it is.
pub const NUMBER_BYTES_MAX: usize = 64 << 10;
/// Most bytes of a varint or decimal that a statement adds to, or adds (`v = v + n IF ..`): it is done while others of
/// the partition wait. Space for the 10,000 digits that a decimal has at most after it was computed.
pub const SUM_NUMBER_BYTES_MAX: usize = 5 << 10;

const _: () = assert!(model::limits::TYPE_BYTES_MAX < DESCRIPTION_BYTES_MAX, "a column fits");
// A statement does not take more than a result may.
const _: () = assert!(STATEMENT_MEMORY_BYTES_MAX <= RESULT_BYTES_MAX);
const _: () = assert!(COLLECTED_BYTES_MAX == RESULT_BYTES_MAX, "what is longer is in no result");
const _: () = assert!(
    MISSING_FIELDS_MAX < EXPRESSION_WORK_MAX,
    "what is counted behind it is bounded before"
);
const _: () = assert!(BATCH_WARN_BYTES < BATCH_BYTES_MAX);
const _: () = assert!(PAGE_BYTES < PAGE_ANSWER_BYTES as u64);
// A page has space for a row that is many times as long as what ends it.
const _: () = assert!(PAGE_ANSWER_BYTES * 16 <= RESULT_BYTES_MAX);
// A digit has less than 3.4 bits: what can be written can be computed with, and shown again.
const _: () = assert!(NUMBER_DIGITS_MAX * 34 / 80 < NUMBER_BYTES_MAX);
/// Most bytes that all calls of `from_json` in one execution of a statement make: some values are made twice before
/// they are in the mutation.
pub const FROM_JSON_BYTES_MAX: usize = 2 * MUTATION_BYTES_MAX;
/// Bytes that an `INSERT JSON` takes for a column of its table at most, beside its name, while it is compiled and after
/// it: it writes all of them, however short its text is.
pub const JSON_COLUMN_BYTES: usize = 256;
/// Bytes of a JSON text that an error shows.
pub const JSON_SHOWN_BYTES_MAX: usize = 1000;
/// Longest name of a keyspace, as Cassandra has it: drivers and tools rely on names fitting.
pub const KEYSPACE_NAME_CHARS_MAX: usize = 48;

const _: () =
    assert!(COLUMNS_MAX * JSON_COLUMN_BYTES < STATEMENT_MEMORY_BYTES_MAX, "one is always taken");
const _: () = assert!(TYPE_DEPTH_MAX < 64, "twice as many levels are counted in a byte");

/// Longest body of a function of a user, in bytes: each core compiles it within a request.
pub const FUNCTION_BODY_BYTES_MAX: usize = 256 << 10;
/// Most arguments of a function of a user.
pub const FUNCTION_ARGUMENTS_MAX: usize = 64;
/// Most functions and aggregates of users of a node, overloads of one name apart.
pub const FUNCTIONS_MAX: usize = 1024;
