//! Every bound of this crate, with the relations between them.
//!
//! In this order: threads and mailboxes, requests that wait for a peer, jobs and housekeeping, writes and batches that
//! wait, when a core looks for work and when it sleeps, long steps that are reported, builds of views, slices of
//! computing time, pieces of reads over several cores, descriptors and rings.
//!
//! A limit that is a part of something else is a divisor of it (`SCAN_CREDITS_DIVISOR`). What happens when a limit is
//! reached is said beside it. The relations between limits are assertions, most of them at the end of the file: a build
//! with limits that do not fit each other fails.
//!
//! Not here: limits of storage (`engine/src/limits.rs`), of the data model (`model/src/limits.rs`), of connections and
//! frames (the crates `server` and `cql`).

use std::time::Duration;

/// Shards of one process.
pub const SHARDS_MAX: usize = 1024;

/// The stack of a core's thread in bytes: four times what Rust gives a thread, for builds that are not optimized.
/// Only what is touched of it takes memory.
pub const CORE_STACK_BYTES: usize = 8 << 20;

/// Mail slots a core can receive into, over all its peers: bounds the mesh's memory as cores grow.
pub const MAILBOX_SLOTS_PER_CORE: usize = 16 * 1024;
/// Slots of one ring at least: a burst of one pass.
pub const MAILBOX_SLOTS_MIN: usize = 64;
/// Slots of one ring at most.
pub const MAILBOX_SLOTS_MAX: usize = 4096;

/// Requests of a core that wait until one peer takes more; a further one of a client is answered `Overloaded`.
pub const PEER_QUEUE_REQUESTS_MAX: usize = 16 * 1024;
/// Clients' requests that no peer has answered have at most 1/8 of a core's memory for data, or there is one alone; a
/// further one is answered `Overloaded`. A request stays there when its client is gone or was told of its time-out, and
/// then it counts nowhere else.
pub const PEER_QUEUE_MEMORY_DIVISOR: u64 = 8;

/// Of the requests that may be with a peer unanswered, 1/4 are for reads of keys: a write may wait for those before it
/// in its partition, and reads do not wait for it.
pub const READ_CREDITS_DIVISOR: usize = 4;
/// 1/8 are for what writes of base tables have noted: rows of materialized views, for which writes that hold the others
/// wait.
pub const VIEW_CREDITS_DIVISOR: usize = 8;

/// 1/8 are for scans of ranges, each of which may take seconds: short requests have the others.
pub const SCAN_CREDITS_DIVISOR: usize = 8;
/// 1/8 are for reads of ranges by indexes: they wait for no scan.
pub const LOOKUP_CREDITS_DIVISOR: usize = 8;
/// 1/16 are for what ends another request: that is answered at once, and waits for no other.
pub const END_CREDITS_DIVISOR: usize = 16;
/// 1/16 are for the steps of changes of the schema, TRUNCATEs and snapshots, for whose end writes wait.
pub const ORDER_CREDITS_DIVISOR: usize = 16;

/// Mail taken in one pass at most, so that sockets are not forgotten over it: less if that takes long.
pub const MAIL_BUDGET: usize = 1024;

/// Units of work (`effort.rs`) between two looks at the clock: short messages or requests.
pub const EFFORT_PER_CLOCK_READ: u32 = 8;
/// Rows that count as much as a short message.
pub const EFFORT_ROWS: u64 = 16;
/// Bytes that are copied or looked at, or units of the work of expressions, that count as much as a short message.
pub const EFFORT_BYTES: u64 = 2 << 10;

/// How many bytes are written before the engine is asked whether it wants to flush.
pub const JOB_CHECK_BYTES: u64 = 256 << 10;

/// How often an operator's flush or compaction looks whether the one under way has ended, and the first core of a node
/// that stops whether the others have answered their clients.
pub const JOB_WAIT: Duration = Duration::from_millis(2);

/// How often a shard looks after what no event tells of: free space, jobs that failed.
pub const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(1);

/// How far given timestamps are ahead of what the layout says was given, in microseconds: they are noted when they are
/// half of it ahead, which is looked at every [`HOUSEKEEPING_INTERVAL`].
pub const TIMESTAMP_SLACK_US: i64 = 10_000_000;

/// How often the first core of a node looks whether what is kept aside on the disk is there.
pub const RESERVE_INTERVAL: Duration = Duration::from_secs(10);

/// How long a write may wait for space in the memtables or the log; then it is answered `Overloaded`. Longer than a
/// flush takes that a slow disk makes slow, shorter than drivers wait.
pub const WRITE_WAIT_MAX: Duration = Duration::from_secs(5);

const _: () = assert!(HOUSEKEEPING_INTERVAL.as_millis() * 5 <= WRITE_WAIT_MAX.as_millis());

/// Batches of the last run that a shard sends again at once.
pub const BATCHES_SENT_AT_ONCE: usize = 64;

/// Logged batches over several shards that one shard has under way; a further one is answered `Overloaded`.
pub const BATCHES_MAX: usize = 4096;
/// What these hold in memory, in bytes of their records, if there is more than one.
pub const BATCH_BYTES_MAX: usize = 16 << 20;
/// How long a part of such a batch waits that its owner had no space for before it is sent again.
pub const BATCH_RETRY: Duration = Duration::from_millis(100);
/// How long a start waits until the batches that the last one left are written.
pub const BATCHES_WAIT_MAX: Duration = Duration::from_secs(30);

const _: () = assert!(BATCH_RETRY.as_millis() * 10 <= BATCHES_WAIT_MAX.as_millis());

/// How long a core looks for work before it sleeps, while looking pays (`gaps.rs`). Longer spins
/// turn into the latency of others who share the core.
pub const IDLE_SPIN_DEFAULT: Duration = Duration::from_micros(50);

/// The mean gap between works up to which a core looks for the next one: what falling asleep and
/// being woken costs, with the delay of the wake-up, which a sleeping core measures as well.
pub const GAP_SPINS_MAX: Duration = Duration::from_micros(25);
/// A longer gap counts as one of this length, so that a busy moment is noticed soon after it.
pub const GAP_COUNTED_MAX: Duration = Duration::from_micros(500);

/// How often a core asks whether others want it.
pub const CONTENTION_INTERVAL: Duration = Duration::from_millis(100);
/// A core that could not run for more than 1/50 of its time, though it wanted to, is shared.
pub const CONTENTION_WAIT_DIVISOR: u32 = 50;

/// glommio's own preemption, put out of the way. When this timer fires between being armed and the
/// first task, glommio takes the core for idle and sleeps on runnable tasks until the next event; a
/// millisecond made that happen every few thousand wake-ups on a busy host. Our tasks yield by
/// themselves (`yielder.rs`), and this only saves the rings from one that forgot.
pub const PREEMPT_TIMER: Duration = Duration::from_millis(100);

/// How long at most runnable tasks can be slept on should that happen all the same.
pub const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// A step on a core that takes so long is counted and named (`stalls.rs`).
pub const STALL: Duration = Duration::from_millis(1);
/// A step that takes so long is told to the operator.
pub const STALL_WARN: Duration = Duration::from_millis(10);
/// Long steps are logged no more often than this on one core.
pub const STALL_LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Large partitions and rows that were written are logged no more often than this by one core: the largest is.
pub const LARGE_LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Characters of a partition key in such a line, in hexadecimal.
pub const LARGE_LOG_KEY_CHARS: usize = 128;
/// At most this many kinds of work are told apart; of those that come later only the group is known.
pub const STALLS_MAX: usize = 128;

/// Rows of a base that a core writes to a view that is built at a time.
pub const VIEW_BUILD_PAGE_ROWS: u64 = 256;
/// The same in bytes, beside one row that is longer.
pub const VIEW_BUILD_PAGE_BYTES: u64 = 256 << 10;
/// Partitions of such a page whose rows are written at a time: they take turns that clients' writes could have.
pub const VIEW_BUILD_SLICES: usize = 8;
/// After so many pages it is noted how far the core is.
pub const VIEW_BUILD_NOTED_PAGES: u32 = 16;
/// How long the first core waits before it tries again to build a view.
pub const VIEW_BUILD_RETRY: Duration = Duration::from_secs(1);
/// How often a TRUNCATE looks whether rows of views are where they belong.
pub const VIEW_SENDS_LOOK: Duration = Duration::from_millis(5);

/// What a background task computes before it lets others run, if no requests come; [`READ_SLICE`] while they do.
pub const SLICE: Duration = Duration::from_micros(500);

/// What a read computes before it lets others run, and what all reads that wait compute in one pass: others' requests
/// are waiting meanwhile.
pub const READ_SLICE: Duration = Duration::from_micros(200);

/// What one core reads for another at a time, in bytes of rows as they are stored: the most that a read of any length
/// has on its way between two cores, beside one row that is longer. As much as a page has.
pub const PIECE_BYTES: u64 = 1 << 20;
/// As much in rows: giving them to a client is one step.
pub const PIECE_ROWS: u64 = 2000;
/// The least that each of many owners is asked for.
pub const PIECE_BYTES_MIN: u64 = 64 << 10;
/// The same on a core with so many bytes of memory.
pub const fn piece_bytes(memory_bytes: u64) -> u64 {
    let part = memory_bytes / PIECE_MEMORY_DIVISOR;
    if part < PIECE_BYTES_MIN {
        PIECE_BYTES_MIN
    } else if part > PIECE_BYTES {
        PIECE_BYTES
    } else {
        part
    }
}
/// A piece has at most 1/512 of a core's memory.
pub const PIECE_MEMORY_DIVISOR: u64 = 512;
/// Pieces that a read holds at most: one is given, the next is on its way, and those asked ahead share one more.
pub const PIECES_OF_READ: u64 = 3;
/// The pieces of reads of keys of several owners take at most 1/16 of a core's memory: other such reads wait in
/// order before they ask for anything.
pub const PIECES_MEMORY_DIVISOR: u64 = 16;
/// Those of scans of ranges take at most 1/20, and those of reads of ranges by indexes as much again.
pub const RANGE_PIECES_MEMORY_DIVISOR: u64 = 20;
/// Owners that a read of a range asks at most before their turn comes. Those asked at one time share one piece's bytes;
/// with earlier ones and the owner whose turn it is, a read holds a few pieces (`scatter.rs`).
pub const OWNERS_AHEAD_MAX: usize = 15;
/// A read of a range that has conditions and is not done this long after it first had to wait asks the other owners,
/// too (hedged requests; Dean and Barroso, The Tail at Scale, 2013): their rows are rare as well.
pub const RANGE_HEDGE_DELAY_FILTERED: Duration = Duration::from_millis(5);
/// The same of a read that may use an index: its owners find their rows sooner.
pub const RANGE_HEDGE_DELAY_LOOKUP: Duration = Duration::from_millis(2);
/// The same without conditions: what takes so long are deleted rows, or a disk that is late.
pub const RANGE_HEDGE_DELAY: Duration = Duration::from_millis(100);

/// How long jobs keep to their shares on a core that was full before it is judged again.
pub const FULL_INTERVAL: Duration = Duration::from_millis(20);
/// How long jobs take what they need on a core that had time before it is judged again; twice as long each time that
/// jobs alone had filled it.
pub const ROOM_INTERVAL: Duration = Duration::from_millis(100);
/// How long at most that becomes.
pub const ROOM_INTERVAL_MAX: Duration = Duration::from_millis(1600);

/// How long at most a background task stands aside for requests after one slice.
pub const PAUSE_MAX: Duration = Duration::from_millis(20);

/// How often at most a busy core lets the executor turn to its rings while it has operations under way
/// and a request waits for the disk. It costs about 6 µs.
pub const REAP_INTERVAL: Duration = Duration::from_micros(40);

/// The same while no request does: files of the background must be opened, timers go on.
pub const REAP_INTERVAL_QUIET: Duration = Duration::from_micros(500);

/// How long a core sleeps at most while the kernel, short of memory, has not taken all its operations on files.
pub const RING_RETRY: Duration = Duration::from_millis(1);

/// Of the descriptors that the process may have, 3/8 are for sstables, those of all shards together: numerator and
/// divisor. Half are for connections, the rest for logs, manifests, and files that are being written.
pub const DESCRIPTORS_FOR_SSTABLES: (u64, u64) = (3, 8);
/// A shard keeps at least this many sstables open.
pub const SSTABLES_OPEN_MIN: u64 = 16;

/// How many sstables each of `shards` keeps open, if the process may have so many descriptors.
pub const fn sstables_open_max(descriptors: u64, shards: usize) -> usize {
    let (numerator, divisor) = DESCRIPTORS_FOR_SSTABLES;
    let share = descriptors / divisor * numerator / shards as u64;
    if share > SSTABLES_OPEN_MIN { share as usize } else { SSTABLES_OPEN_MIN as usize }
}

const _: () = assert!(sstables_open_max(1024, 2) == 192);

/// Entries of a core's rings.
pub const RING_DEPTH: usize = 512;
/// Threads of one core for what blocks on files, and for what computes for long: two, so that neither waits for the
/// other.
pub const BLOCKING_THREADS: usize = 2;
/// What the rings of one executor must be able to lock in memory.
pub const MEMLOCK_BYTES_MIN: u64 = 512 * 1024;

/// Descriptors one poll reports.
pub const POLL_EVENTS_MAX: usize = 1024;

const _: () = assert!(JOB_CHECK_BYTES * 8 <= engine::limits::MEMORY_BYTES_MIN as u64 / 2);
const _: () = assert!(SHARDS_MAX <= u16::MAX as usize, "a shard's number is sixteen bits");
const _: () = assert!(PIECE_BYTES_MIN <= PIECE_BYTES);
const _: () = assert!(
    engine::limits::MEMORY_BYTES_MIN as u64 / RANGE_PIECES_MEMORY_DIVISOR
        >= PIECES_OF_READ * piece_bytes(engine::limits::MEMORY_BYTES_MIN as u64),
    "the smallest core has space for a read"
);
const _: () = assert!(
    PIECE_MEMORY_DIVISOR >= 8 * RANGE_PIECES_MEMORY_DIVISOR * PIECES_OF_READ,
    "eight scans have space at a time, unless a piece is the least there is"
);
const _: () =
    assert!(PIECES_MEMORY_DIVISOR <= RANGE_PIECES_MEMORY_DIVISOR, "and more reads of keys");
const _: () = assert!((OWNERS_AHEAD_MAX as u64 + 1) * PIECE_BYTES_MIN <= PIECE_BYTES);
const _: () = assert!(MAILBOX_SLOTS_MIN.is_power_of_two());
const _: () = assert!(MAILBOX_SLOTS_MIN / 2 >= 2 * END_CREDITS_DIVISOR, "each line has credits");
const _: () = assert!(
    END_CREDITS_DIVISOR >= VIEW_CREDITS_DIVISOR && END_CREDITS_DIVISOR >= SCAN_CREDITS_DIVISOR
);
const _: () = assert!(
    END_CREDITS_DIVISOR >= LOOKUP_CREDITS_DIVISOR && END_CREDITS_DIVISOR >= ORDER_CREDITS_DIVISOR
);
const _: () = assert!(
    MAILBOX_SLOTS_MIN / READ_CREDITS_DIVISOR
        + MAILBOX_SLOTS_MIN / VIEW_CREDITS_DIVISOR
        + MAILBOX_SLOTS_MIN / SCAN_CREDITS_DIVISOR
        + MAILBOX_SLOTS_MIN / LOOKUP_CREDITS_DIVISOR
        + MAILBOX_SLOTS_MIN / END_CREDITS_DIVISOR
        + MAILBOX_SLOTS_MIN / ORDER_CREDITS_DIVISOR
        <= MAILBOX_SLOTS_MIN * 3 / 4,
    "general requests have a good part of the credits"
);
const _: () = assert!(MAILBOX_SLOTS_MAX.is_power_of_two());
const _: () = assert!(MAILBOX_SLOTS_MIN <= MAILBOX_SLOTS_MAX);
const _: () = assert!(HOUSEKEEPING_INTERVAL.as_micros() * 4 <= TIMESTAMP_SLACK_US as u128 / 2);
const _: () = assert!(GAP_SPINS_MAX.as_micros() <= IDLE_SPIN_DEFAULT.as_micros());
const _: () = assert!(GAP_SPINS_MAX.as_micros() * 8 < GAP_COUNTED_MAX.as_micros());
const _: () = assert!(REAP_INTERVAL.as_micros() <= REAP_INTERVAL_QUIET.as_micros());
/// Two merges and an index build have a thirtieth of the core each while nothing waits.
const _: () = assert!(
    SLICE.as_micros() * 10 * (engine::limits::COMPACTIONS_MAX as u128 + 1) <= PAUSE_MAX.as_micros(),
    "the smallest part of the core is exact"
);
