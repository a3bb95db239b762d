//! Every bound of the server, with the relations between them.
//!
//! In order: memory and disk of the process, connections and their time-outs, one pass, requests in flight, answers,
//! time-outs of statements, changes of the schema, the admin socket, what is shown to operators.
//!
//! 1. `_MEMORY_DIVISOR` is a part of a shard's memory: 10 means at most 1/10 of it.
//! 2. Limits that depend on each other are related by `assert!` at compile time.
//! 3. A limit that can be configured is here as its default or its bound (`config.rs`).
//!
//! Not here: limits of one frame or statement (`cql/src/limits.rs`), of storage (`engine/src/limits.rs`), of the
//! mailboxes and jobs of a core (`shard/src/limits.rs`), and limits that an operator sets (`guardrails.rs`).

use std::time::Duration;

use model::limits::{CLUSTERING_FORM_BYTES_MAX, KEY_BYTES_MAX};

/// Memory one shard needs to do its work at all.
pub(crate) const SHARD_MEMORY_BYTES_MIN: u64 = 64 << 20;

/// How much of a shard's memory its data gets: the rest is for requests, connections and code.
pub(crate) const ENGINE_MEMORY_PERCENT: u64 = 80;

/// Prepared statements take at most 1/64 of a core's memory, and those that were forgotten and are not dropped yet as
/// much again. With the least memory that is 1 MiB; the half that was used last, some hundred statements, is never
/// forgotten.
pub(crate) const PREPARED_MEMORY_DIVISOR: u64 = 64;

/// A segment of the commit log, unless configured.
pub(crate) const COMMITLOG_SEGMENT_BYTES: u64 = engine::limits::SEGMENT_BYTES as u64;
/// The smallest that may be configured, in bytes: half of it is the longest mutation.
pub(crate) const COMMITLOG_SEGMENT_BYTES_MIN: u64 = 1 << 20;
/// The largest that may be configured, in bytes: a log has space for two.
pub(crate) const COMMITLOG_SEGMENT_BYTES_MAX: u64 = engine::limits::SEGMENT_BYTES_MAX as u64;

const _: () = assert!(COMMITLOG_SEGMENT_BYTES_MIN >= engine::limits::SEGMENT_BYTES_MIN as u64);

/// Free space without which the server does not start.
pub(crate) const FREE_BYTES_MIN: u64 = 256 << 20;

/// Connections over all shards.
pub(crate) const CONNECTIONS_MAX: usize = 10_000;
/// Connections take at most every second descriptor: the others are for files, most of them for sstables
/// (`shard::limits::sstables_open_max`).
pub(crate) const DESCRIPTORS_PER_CONNECTION: u64 = 2;
/// Without so many descriptors the server does not start.
pub(crate) const DESCRIPTORS_MIN: u64 = 1024;

/// Bytes of the value of an option of STARTUP that are kept for `system_views.clients`. With the names that are kept a
/// connection has a few KiB of them at most.
pub(crate) const OPTION_BYTES_MAX: usize = 256;

/// Connections that wait to be accepted.
pub(crate) const LISTEN_BACKLOG: i32 = 4096;
/// Connections accepted in one pass, so that a flood of them does not stall requests.
pub(crate) const ACCEPTS_PER_PASS: usize = 64;

/// The time from a connection's start within which its handshake must end.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may leave its answers unread once they are too many, or take fewer bytes of them than
/// [`TAKEN_BYTES_MIN`].
pub(crate) const STALLED_TIMEOUT: Duration = Duration::from_secs(30);
/// The same while such answers take more than half of the memory for requests, or of a client that asks behind them
/// such answers and requests that have begun to arrive: others wait for it.
pub(crate) const PRESSED_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes that a client must take of its answers in that time, or all of them: one that takes a few now and then keeps
/// others waiting as well.
pub(crate) const TAKEN_BYTES_MIN: usize = 256 << 10;
/// A connection of which nothing was heard for so long is sent a keepalive probe: a client that lost its power or its
/// network never says that it has gone.
pub(crate) const KEEPALIVE_IDLE: Duration = Duration::from_secs(300);
/// The time between two such probes.
pub(crate) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// After so many probes without an answer the connection is closed.
pub(crate) const KEEPALIVE_PROBES_MAX: i32 = 4;
/// How long a frame may take to come whole, seen from when its beginning is found waiting for the rest. It is refused
/// then: what has come of it takes memory that others' requests need.
pub(crate) const FRAME_TIMEOUT: Duration = Duration::from_secs(30);
/// The same while requests and their answers take three quarters of what they may.
pub(crate) const FRAME_TIMEOUT_PRESSED: Duration = Duration::from_secs(5);
/// How long a connection that is over may take to say goodbye.
pub(crate) const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// How long requests in flight have to end when the server stops.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How often connections are looked at for these time-outs.
pub(crate) const HOUSEKEEPING_INTERVAL: Duration = Duration::from_millis(500);
/// How long a pass looks at connections for these time-outs, or closes connections; the others have their turn in the
/// next passes.
pub(crate) const HOUSEKEEPING_SLICE: Duration = Duration::from_micros(200);
/// Connections that are looked at between two looks at the clock, if none is closed.
pub(crate) const CONNECTIONS_PER_CLOCK_READ: usize = 16;
/// How often, while requests wait that have a deadline, it is looked whether one has passed: no time-out is told later
/// than that.
pub(crate) const DEADLINE_INTERVAL: Duration = Duration::from_millis(20);

/// Bytes taken from one socket in one read.
pub(crate) const READ_BYTES: usize = 64 << 10;
/// The same while requests and answers take all that they may: no more than a small request is taken then.
pub(crate) const READ_BYTES_FULL: usize = FIRST_REQUEST_BYTES_MAX as usize;
/// Requests taken from one connection before the others have their turn.
pub(crate) const FRAMES_PER_STEP: usize = 256;
/// How long a pass takes new requests, and how long it then sends what is answered: each of them is with its part of
/// the rest of the pass below a millisecond.
pub(crate) const PASS_SLICE: Duration = Duration::from_micros(500);
/// How long a pass does what other cores ask and takes their answers. It shares a step with the answers of this core.
pub(crate) const MAIL_SLICE: Duration = Duration::from_micros(200);
/// How long a pass answers writes that are done, and as long it looks for what is not done in time.
pub(crate) const WRITES_SLICE: Duration = Duration::from_micros(200);
/// Writes that are answered, or short answers that are delivered, between two looks at the clock.
pub(crate) const ANSWERS_PER_CLOCK_READ: usize = 64;
/// Requests that wait and have time left, between two looks at the clock while what is late is looked for.
pub(crate) const DEADLINES_PER_CLOCK_READ: usize = 1024;
const _: () = assert!(DEADLINES_PER_CLOCK_READ.is_multiple_of(ANSWERS_PER_CLOCK_READ));
/// Requests of one connection between two looks at the clock, if all of them are short.
pub(crate) const FRAMES_PER_CLOCK_READ: usize = 8;
/// A BATCH message of more statements is bound in steps, behind those before it: one of 256 takes some 0.2 ms.
pub(crate) const BATCH_AT_ONCE_STATEMENTS: usize = 256;
/// The same of one whose statements and values have more bytes.
pub(crate) const BATCH_AT_ONCE_BYTES: usize = 64 << 10;
/// The same of one whose expressions and rows take more, in units of `cql/src/expr/work.rs`: some milliseconds. A
/// statement that takes more is bound on a thread beside its core, alone or in a message.
pub(crate) const BOUND_AT_ONCE_WORK: u64 = 1 << 20;
/// A write whose values have more bytes is bound on a thread beside its core, if they are JSON or have parts: an entry
/// of a map takes 0.5 µs.
pub(crate) const BOUND_AT_ONCE_BYTES: usize = 16 << 10;
/// The same of a write whose text has more tokens: literals, markers, and statements of a BEGIN BATCH.
pub(crate) const BOUND_AT_ONCE_TOKENS: usize = 4096;
/// A statement whose text has more bytes is compiled on a thread beside its core: numbers in a list take 0.1 µs a byte.
pub(crate) const COMPILED_AT_ONCE_BYTES: usize = 16 << 10;
/// How often such a text is compiled, if what it names is changed meanwhile.
pub(crate) const COMPILE_ATTEMPTS_MAX: u32 = 3;
/// A request whose body has more bytes is not short: to compile or bind it may take long.
pub(crate) const SHORT_BODY_BYTES_MAX: usize = 16 << 10;
/// The memory that a core's buffer for records keeps from one write to the next.
pub(crate) const RECORD_BYTES_KEPT: usize = 1 << 20;
/// Spare buffers of a core for frames between cores.
pub(crate) const SPARE_FRAMES_MAX: usize = 128;
/// A buffer with space for more bytes is freed and not kept.
pub(crate) const SPARE_FRAME_BYTES_MAX: usize = 8 << 10;

/// Bytes of a paging state: it has the key of a partition and that of a row, in the form by which rows are ordered.
pub(crate) const PAGING_STATE_BYTES_MAX: usize = 512 << 10;
const _: () =
    assert!(KEY_BYTES_MAX + CLUSTERING_FORM_BYTES_MAX + (16 << 10) < PAGING_STATE_BYTES_MAX);

/// Unsent bytes of one connection; at more, nothing is read from it.
pub(crate) const UNSENT_BYTES_MAX: usize = 1 << 20;

/// Requests of one connection that may wait for an answer; at more, nothing is read from it.
pub(crate) const CONNECTION_REQUESTS_MAX: usize = 2048;
/// Requests of one shard that may wait for an answer; more are answered OVERLOADED.
pub(crate) const SHARD_REQUESTS_MAX: usize = 32 << 10;
/// From 75 % of these two limits on, nothing is read from connections that wait for an answer, or have not taken one.
pub(crate) const HELD_BACK_PERCENT: usize = 75;
/// Requests in flight and answers not yet sent take at most 1/10 of a shard's memory; more are answered OVERLOADED.
pub(crate) const REQUEST_MEMORY_DIVISOR: u64 = 10;

/// Beyond both, 1/8 of them is kept for requests of clients that have none in flight and of at most
/// [`FIRST_REQUEST_BYTES_MAX`]: a driver that connects asks a few such, and takes a node that refuses them for dead.
pub(crate) const FIRST_REQUEST_DIVISOR: u64 = 8;
/// Bytes of such a request.
pub(crate) const FIRST_REQUEST_BYTES_MAX: u32 = 4 << 10;

/// What connections keep for their next requests and answers, beside a little each, takes at most 1/64 of a shard's
/// memory. What is more is given back when their answers are sent.
pub(crate) const KEPT_MEMORY_DIVISOR: u64 = 64;
/// Each buffer of a connection keeps twice so many bytes, whatever others keep.
pub(crate) const BUFFER_BYTES_KEPT: usize = 512;
/// The same of the lists of requests that wait, in entries.
pub(crate) const LIST_ENTRIES_KEPT: usize = 64;

/// Of what requests and answers may take, 1/8 is for segments that are decompressed while clients must wait.
pub(crate) const EXPANDED_DIVISOR: u64 = 8;
/// Connections that waited for space to decompress a segment and get a turn in one pass: there may be space for one.
pub(crate) const EXPANDING_PER_PASS: usize = 16;

/// At most this many bytes of an incomplete frame may wait for the rest of it, however much is in flight.
pub(crate) const PARTIAL_BYTES_FREE: usize = 1 << 10;

/// Answers take at most 1/8 of a shard's memory while they are made and until they are read. When it is used up,
/// pages end earlier, and a read that has no pages is answered OVERLOADED.
pub(crate) const ANSWER_MEMORY_DIVISOR: u64 = 8;
/// One answer takes at most 1/6 of the memory, while there is no other.
pub(crate) const ANSWER_ALONE_MEMORY_DIVISOR: u64 = 6;
/// An answer of so many bytes is made while larger ones hold all that answers may, until they hold twice as much.
pub(crate) const ANSWER_BYTES_SMALL: u64 = 16 << 10;
/// An answer of so many bytes comes from another core without a lease; so many of them are asked for at a time as fit
/// into the memory of answers beside what is unsent. With the least memory these are 512.
pub(crate) const PEER_ANSWER_BYTES_MAX: usize = 16 << 10;
/// What the keys and bounds of reads that wait take, at most 1/16 of the memory for data, or those of one read: an IN
/// makes many of a long value beside it. A further read with such is answered OVERLOADED.
pub(crate) const NAMED_KEYS_MEMORY_DIVISOR: usize = 16;
/// What long texts that are not compiled, long BATCH messages that are not bound, changes of the schema that are not
/// made, texts that are prepared by every core, and statements of reads and DESCRIBEs that wait take, at most 1/10 of
/// the memory for data, or one of them. A further one is answered OVERLOADED.
pub(crate) const WAITING_STATEMENTS_MEMORY_DIVISOR: usize = 10;
/// What takes no more bytes is too little to be counted with either.
pub(crate) const HELD_UNCOUNTED_BYTES_MAX: usize = 4 << 10;
/// Reads of virtual tables whose facts one core collects at a time: those of one take up to 1 MB of each core, which
/// counts nowhere.
pub(crate) const VIRTUAL_READS_MAX: u64 = 8;
/// PREPAREs of short texts for which one core asks the others at a time: what a task asks of another core is never
/// refused, so thousands of them would stand before reads and writes in its mailbox.
pub(crate) const SHORT_PREPARES_MAX: u64 = 64;
/// Aggregates whose parts one core waits for at a time: each has a place in the mailbox of every other core until its
/// part is made, and a part on its way counts against no budget. The rows of others come to the core that was asked.
pub(crate) const AGGREGATES_IN_PARTS_MAX: usize = 4;
/// One row has at most 1/10 of a shard's memory, if that is less than `engine::limits::ROW_BYTES_MAX`: merging,
/// flushing and reading hold some copies of it.
pub(crate) const ROW_MEMORY_DIVISOR: u64 = 10;
/// The longest answer that is made inside a pass, straight into its connection's buffer, in bytes.
pub(crate) const PASS_ANSWER_BYTES_MAX: usize = 1 << 20;

/// A read of partitions that are named, unless configured: Cassandra's default of `read_request_timeout`.
pub(crate) const READ_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// A read of a range of partitions, unless configured: Cassandra's default of `range_request_timeout`.
pub(crate) const RANGE_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// A write, unless configured: Cassandra's default of `write_request_timeout`.
pub(crate) const WRITE_REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// A conditional write, unless configured: Cassandra's default of `cas_contention_timeout`.
pub(crate) const CAS_CONTENTION_TIMEOUT: Duration = Duration::from_millis(1800);
/// Tombstones that a page of a read passes before its client is warned, unless configured: Cassandra's default of
/// `tombstone_warn_threshold`.
pub(crate) const TOMBSTONE_WARN_THRESHOLD: u64 = 1000;
/// Tombstones that a page of a read passes before it ends with READ_FAILURE, unless configured: Cassandra's default of
/// `tombstone_failure_threshold`.
pub(crate) const TOMBSTONE_FAILURE_THRESHOLD: u64 = 100_000;

/// How long a change of the schema, or a TRUNCATE, waits for those of other clients; then it is refused.
pub(crate) const SCHEMA_CHANGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Changes of the schema and TRUNCATEs that wait on one core, with the one that is made; another is refused with
/// OVERLOADED.
pub(crate) const SCHEMA_CHANGES_WAITING_MAX: usize = 256;

/// Changes of the schema after which all prepared statements are checked, used or not.
pub(crate) const SCHEMA_CHANGES_UNCHECKED_MAX: u64 = 16;

/// The shortest time-out that can be configured, as in Cassandra.
pub(crate) const REQUEST_TIMEOUT_MIN: Duration = Duration::from_millis(10);

/// Admin connections at a time; one more is refused.
pub(crate) const ADMIN_CONNECTIONS_MAX: usize = 8;
/// Bytes of an admin request: a command, a tag and two names.
pub(crate) const ADMIN_REQUEST_BYTES_MAX: usize = 1024;
/// The shortest time that a snapshot may stay which goes by itself, as in Cassandra.
pub(crate) const SNAPSHOT_STAY_MIN: Duration = Duration::from_secs(60);
/// How often it is looked whether a snapshot's time has come.
pub(crate) const SNAPSHOTS_LOOKED_AT_EVERY: Duration = Duration::from_secs(60);
/// How long an admin request may take to come.
pub(crate) const ADMIN_REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an operator may take to read the answer.
pub(crate) const ADMIN_SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Bound values that a trace shows; of the others it tells how many there are.
pub(crate) const TRACED_VALUES_MAX: usize = 100;
/// Bytes of one value that a trace looks at: of a longer text or blob it shows the beginning, of any other longer value
/// the number of its bytes.
pub(crate) const TRACED_VALUE_BYTES_MAX: usize = 4 << 10;
/// The same of all values of a request: a literal of a list takes microseconds for each hundred of its elements.
pub(crate) const TRACED_BYTES_MAX: usize = 16 << 10;
/// Characters of a bound value's literal that a trace keeps, as in Cassandra.
pub(crate) const TRACED_LITERAL_CHARS_MAX: usize = 1000;
/// Bytes of a statement's text that a trace keeps.
pub(crate) const TRACED_TEXT_BYTES_MAX: usize = 4 << 10;
/// Bytes of a marker's name that a trace keeps.
pub(crate) const TRACED_NAME_BYTES_MAX: usize = 256;
const _: () = assert!(TRACED_VALUE_BYTES_MAX <= TRACED_BYTES_MAX);
const _: () = assert!(TRACED_LITERAL_CHARS_MAX <= TRACED_VALUE_BYTES_MAX);

/// Fingerprints that one core counts statements by.
pub(crate) const STATEMENTS_MAX: usize = 256;
/// This many of them, those used least, are forgotten when there are more.
pub(crate) const STATEMENTS_FORGOTTEN: usize = STATEMENTS_MAX / 8;

const _: () = assert!(STATEMENTS_FORGOTTEN > 0);
const _: () = assert!(
    (STATEMENTS_MAX * 2 * cql::limits::FINGERPRINT_BYTES_MAX) as u64 <= SHARD_MEMORY_BYTES_MIN / 50
);
const _: () = assert!(SPARE_FRAMES_MAX * SPARE_FRAME_BYTES_MAX <= RECORD_BYTES_KEPT);
const _: () = assert!(ANSWER_ALONE_MEMORY_DIVISOR < ANSWER_MEMORY_DIVISOR);
// A row that may be stored can be read.
const _: () = assert!(ANSWER_ALONE_MEMORY_DIVISOR < ROW_MEMORY_DIVISOR);
const _: () =
    assert!(PASS_ANSWER_BYTES_MAX as u64 <= SHARD_MEMORY_BYTES_MIN / ANSWER_MEMORY_DIVISOR);
const _: () = assert!(PEER_ANSWER_BYTES_MAX <= PASS_ANSWER_BYTES_MAX);
const _: () =
    assert!(PEER_ANSWER_BYTES_MAX as u64 * 512 <= SHARD_MEMORY_BYTES_MIN / ANSWER_MEMORY_DIVISOR);
const _: () = assert!(FRAME_TIMEOUT_PRESSED.as_millis() < FRAME_TIMEOUT.as_millis());
const _: () = assert!(DEADLINE_INTERVAL.as_millis() < HOUSEKEEPING_INTERVAL.as_millis());
const _: () = assert!(HOUSEKEEPING_SLICE.as_micros() < PASS_SLICE.as_micros());
const _: () = assert!(WRITES_SLICE.as_micros() < PASS_SLICE.as_micros());
const _: () = assert!(MAIL_SLICE.as_micros() < PASS_SLICE.as_micros());
const _: () = assert!(LINGER_TIMEOUT.as_millis() < STOP_TIMEOUT.as_millis());
const _: () = assert!(CONNECTION_REQUESTS_MAX < SHARD_REQUESTS_MAX);
const _: () = assert!(READ_BYTES_FULL < READ_BYTES);
// What one read brings must fit the smallest shard's share, or nothing would ever be taken.
const _: () = assert!((READ_BYTES as u64) < SHARD_MEMORY_BYTES_MIN / REQUEST_MEMORY_DIVISOR);

/// Partitions that `toppartitions` shows of reads and of writes.
pub(crate) const HOT_PARTITIONS_SHOWN: usize = 10;
/// How long `toppartitions` samples at most, in milliseconds.
pub(crate) const HOT_SAMPLE_MS_MAX: u32 = 600_000;
/// At most this many characters are shown of the keys of what is large.
pub(crate) const LARGE_KEY_CHARS: usize = 1024;
/// Bytes of the name that a client gives a change of counters: those of a UUID.
pub(crate) const REQUEST_ID_BYTES: usize = 16;
/// For how many seconds such a name is known. A client that asks again has done so by then, and each change with a
/// name is a row for as long.
pub(crate) const REQUEST_ID_KEPT_S: u32 = 600;
