//! Every bound of the load tool.

/// Fields a record may have: a write names its fields in a 16-bit mask.
pub const FIELDS_MAX: usize = 16;
/// The shortest value that can carry its own origin (`value.rs`).
pub const VALUE_BYTES_MIN: usize = 32;
/// The longest value: an answer with a row of them stays below the frame limit.
pub const VALUE_BYTES_MAX: usize = 512 * 1024;
/// Keys are 48-bit numbers, so that a value's header holds one in 8 characters.
pub const KEYS_MAX: u64 = 1 << 48;
/// Records of a run: the other half of the keys is for what is inserted beside.
pub const RECORDS_MAX: u64 = KEYS_MAX / 2;
/// Rows that one scan or range read may ask for.
pub const SCAN_ROWS_MAX: u32 = 1000;
/// Tokens that are kept to hold scans against: 256 MiB of them.
pub const SCAN_TOKENS_MAX: u64 = 1 << 25;

/// Time series of a run, and points of one: a point's key number has 24 bits of each.
pub const SERIES_MAX: u64 = 1 << 24;
/// Points of one series at most: with the number of the series a key has 48 bits.
pub const SERIES_POINTS_MAX: u64 = 1 << 24;
/// How long after its time to live a point may still be seen: two clocks are compared.
pub const UNDEAD_GRACE_S: u32 = 5;

/// Seconds that a point may live: what CQL allows, 20 years.
pub const TTL_S_MAX: u32 = 20 * 365 * 86_400;

/// Shards that a server may say to have: more than any machine has cores.
pub const SERVER_SHARDS_MAX: u32 = 1024;
/// The largest answer that is taken.
pub const ANSWER_BYTES_MAX: u32 = 64 << 20;
/// What one receive takes at most, until an answer is larger.
pub const RECEIVE_BYTES: usize = 64 << 10;
/// Streams of one connection: their number has 15 bits.
pub const STREAMS_MAX: usize = 1 << 15;
/// Operations that may wait in the queue of one shard before no new operation is drawn.
pub const PARKED_MAX: usize = 256;
/// How often an operation is tried again before it counts as failed.
pub const ATTEMPTS_MAX: u32 = 12;
/// The first pause after an OVERLOADED answer; it doubles with each attempt.
pub const BACKOFF_NS_MIN: u64 = 1_000_000;
/// The longest pause.
pub const BACKOFF_NS_MAX: u64 = 512_000_000;
/// How often a lost connection is tried again.
pub const RECONNECT_NS: u64 = 200_000_000;
/// The longest wait of a pass: how late a stop or the end of a second may be noticed.
pub const WAIT_NS_MAX: u64 = 50_000_000;
/// Source ports that are tried to reach one shard.
pub const SOURCE_PORTS_TRIED: u32 = 64;

/// The shortest latency that is told apart from the next one.
pub const LATENCY_NS_MIN: u64 = 100;
/// Latencies above this are recorded as this.
pub const LATENCY_NS_MAX: u64 = 120_000_000_000;
/// Significant decimal digits of a recorded latency.
pub const LATENCY_DIGITS: u8 = 3;

/// Banks, counters, rows or groups of a scenario: what is known of each takes 48 bytes.
pub const SCENARIO_KEYS_MAX: u64 = 10_000_000;
/// Rows with an index or a view: each query is held against all of them.
pub const INDEXED_ROWS_MAX: u64 = 100_000;
/// An increment is sent again with its name until this long after it was begun, in µs: the server knows names for ten
/// minutes.
pub const NAMES_USED_US: u64 = 5 * 60 * 1_000_000;
/// Customers with what a query asks for, up to which they are counted out and the answer is known to the row.
pub const CUSTOMERS_KNOWN_MAX: usize = 4096;
/// Transfers of a bank that a client thread remembers to read them back.
pub const RECEIPTS_KEPT: usize = 1024;

/// Failures of one kind whose text is kept for the report; all are counted.
pub const EXAMPLES_KEPT: usize = 5;

const _: () =
    assert!(SCAN_ROWS_MAX as usize <= CUSTOMERS_KNOWN_MAX, "an answer of more rows is full");
const _: () = assert!(FIELDS_MAX <= u16::BITS as usize, "a field mask has 16 bits");
const _: () = assert!(VALUE_BYTES_MIN.is_multiple_of(8), "a value's header is whole words");
const _: () = assert!(SERIES_MAX * SERIES_POINTS_MAX <= KEYS_MAX, "a point's number is a key");
