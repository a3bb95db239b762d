//! The limits that a caller of the engine can meet, and those that bound its memory, time and disk, with
//! the relations between them.
//!
//! What happens when a limit is reached is said beside it. Constants of one algorithm (how many levels,
//! how many probes of a filter) stand in the file of the algorithm. Those of indexes have a file of their own.

mod index;

pub use index::*;

/// Buffers, offsets and lengths of a direct write are multiples of this: the page of every filesystem and
/// device met so far. A write that is not is our bug.
pub const WRITE_ALIGN_BYTES: usize = 4096;

/// At most this many cursors of one merge read from the device at the same time; the others start when these are done.
pub const MOVES_AT_ONCE_MAX: usize = 32;

/// A merge walks over so many rows and bounds of a lane under one range deletion, before it seeks a lane that the
/// deletion covers to the deletion's end.
pub const COVERED_BEFORE_SEEK: u32 = 4;

/// A merge walks over so many bounds of weaker range deletions, of which nothing is to be seen, before it gives the
/// core back to its caller: some microseconds. So does a cursor over a memtable, when a stronger deletion came.
pub const COVERED_BOUNDS_AT_ONCE_MAX: u32 = 16;

/// Leaves of covered rows of a memtable that are passed at once, by a look at one timestamp for each. Then a covered
/// row is shown.
pub const COVERED_LEAVES_AT_ONCE_MAX: usize = 1024;

/// Empty slices after which a cursor over a memtable or a file shows a change that changes nothing: one move passes no
/// more of them. 2 in unit tests, so that their few slices reach it.
pub const EMPTY_SLICES_AT_ONCE_MAX: u32 = if cfg!(test) { 2 } else { 16 };
// For such a change a reader counts COVERED_BOUNDS_AT_ONCE_MAX rows: at least as many as slices were passed.
const _: () = assert!(EMPTY_SLICES_AT_ONCE_MAX <= COVERED_BOUNDS_AT_ONCE_MAX);

/// A longer read by the core's own ring is split into parts of this many bytes, as long as a job's request.
pub const READ_PART_BYTES_MAX: usize = BACKGROUND_REQUEST_BYTES_MAX;

/// The same by glommio's rings: with polled completions a request beyond `max_sectors_kb` has hung (glommio issue 633).
pub const EXECUTOR_READ_BYTES_MAX: usize = 128 << 10;

/// At most this many files of a core wait for their close on its closing thread, each with a descriptor; more are
/// closed on the core.
pub const CLOSES_WAITING_MAX: usize = 16;

/// Reads, writes and flushes of one core that the kernel has at a time.
pub const RING_OPERATIONS_MAX: usize = 512;

/// A larger block is not cached, in bytes of memory: it would drive out thousands of others at once.
pub const CACHED_BLOCK_BYTES_MAX: u64 = 4 << 20;

/// At most this many requests of flushes, compactions and checks of one shard are with the device while commits or
/// reads come.
pub const JOB_REQUESTS_BESIDE_OTHERS: usize = 1;

/// When so many of them have ended without a commit or a read in between, there may be more of them at a time.
pub const QUIET_REQUESTS: u32 = 8;

/// The unit that a simulated device writes whole or not at all.
pub const SIM_SECTOR_BYTES: usize = 512;

/// A simulated life does fewer operations, by far: one that does more goes round in circles, and its files would fill
/// the memory.
pub const SIM_OPS_MAX: u64 = 2_000_000;

/// A path inside the data directory. Longer is `Invalid`.
pub const PATH_BYTES_MAX: usize = 255;

/// No request to the device is larger, in bytes: so long at most it is at work for others when a commit or a read
/// comes. Not smaller: a virtual disk costs some 50 µs of processor time for each (docs/decisions).
pub const BACKGROUND_REQUEST_BYTES_MAX: usize = 256 << 10;

/// An sstable is written in pieces of this.
pub const SSTABLE_WRITE_BYTES: usize = BACKGROUND_REQUEST_BYTES_MAX;

const _: () = assert!(READ_AHEAD_BYTES_MAX <= READ_PART_BYTES_MAX);
const _: () = assert!(LOG_BLOCK_BYTES_MAX <= BACKGROUND_REQUEST_BYTES_MAX);
const _: () = assert!(LOG_ZERO_BYTES <= BACKGROUND_REQUEST_BYTES_MAX);

/// A compaction cuts its output after so many bytes at the latest. What it holds twice at a time is about one fragment
/// of each of its runs.
pub const FRAGMENT_BYTES_MAX: u64 = 1 << 30;

/// Fragments are about this part of what a shard has of their table, if its strategy allows such short ones: then what
/// a compaction holds twice is a small part of the table.
pub const FRAGMENTS_PER_TABLE: u64 = 32;

/// No fragment is made shorter than this for the sake of space: each costs a file, a sync and an edit of the manifest.
pub const FRAGMENT_BYTES_MIN: u64 = 8 << 20;

const _: () = assert!(FRAGMENT_BYTES_MIN <= FRAGMENT_BYTES_MAX);

/// Density levels of the unified strategy begin here: about what one flush of a small shard writes.
pub const UNIFIED_BASE_BYTES: u64 = 4 << 20;

/// A table whose memtables hold less than this is flushed with others of its kind, which share an edit of the manifest.
pub const FLUSH_SMALL_BYTES: usize = 256 << 10;

/// A table with more views is flushed alone.
pub const FLUSH_SMALL_VIEWS_MAX: usize = 32;

/// No more tables are flushed together.
pub const FLUSH_GROUP_TABLES_MAX: usize = 64;
/// Bytes that a flush is promised at a time when its files outgrow what it was promised first.
pub const FLUSH_MORE_BYTES: u64 = 2 * SSTABLE_WRITE_BYTES as u64;
/// Where the estimate of a flush is not free, it begins with a fourth of it, or with more if it was refused before
/// (`flush_estimate.rs`).
pub const FLUSH_BEGINS_WITH_DIVISOR: u64 = 4;

/// A flush or a compaction asks after so many bytes of rows whether there is time for more: about a tenth of a
/// millisecond of work, so that a slice of its time (`shard/src/yielder.rs`) is hardly longer than it should be.
pub const JOB_STEP_BYTES: usize = 16 << 10;

/// What a partition, a row or a range deletion costs such a job beside its bytes, in bytes: many small ones are work,
/// too.
pub const JOB_ENTRY_COST_BYTES: usize = 64;

/// `chunk_length_in_kb` of a table is brought within these: a smaller block costs more in the directory than
/// it saves in reads, a larger one would hold up the shard while it is decompressed.
pub const BLOCK_TARGET_BYTES_MIN: usize = 1 << 10;
/// The largest block size that a table may ask for, in bytes before compression.
pub const BLOCK_TARGET_BYTES_MAX: usize = model::limits::CHUNK_BYTES_MAX;

/// A piece of a filter, before compression: with one read of it, those of some 6,500 partitions are known.
pub const FILTER_PIECE_BYTES: usize = 8 << 10;

/// Filters and directories of open files are to take 1/2 of what the block cache may hold, beside it. A filter
/// in pieces is loaded if it takes at most half of what is left of that; if not, its pieces come by the block cache.
/// What directories take beyond it, the block cache has less.
pub const INDEX_BLOCKS_DIVISOR: u64 = 2;
/// The block cache keeps 1/4 of its bytes, whatever directories take.
pub const BLOCKS_LEFT_DIVISOR: u64 = 4;

/// A partition of fewer blocks has no row index: a binary search over its blocks takes three reads at most.
pub const WIDE_BLOCKS_MIN: u64 = 8;

/// A walk through an sstable reads this much at first, twice as much every time, and at last the most.
pub const READ_AHEAD_BYTES_FIRST: usize = 16 << 10;
/// The longest piece of such a walk, and each of a merge of many lanes. Half of a request: each lane holds one.
pub const READ_AHEAD_BYTES_MAX: usize = 128 << 10;
/// Bytes of each piece of a merge of few lanes, and of a check of a file that was just written.
pub const LONG_PIECE_BYTES: usize = READ_PART_BYTES_MAX;
/// What reads of keys under way on a shard hold in longer pieces than the first takes at most 1/4 of what the block
/// cache may hold, beside it: 1/16 of its memory. When that is taken, the pieces of others stay as short as they are.
pub const KEY_AHEAD_BLOCKS_DIVISOR: u64 = 4;

/// Scans of ranges under way on a shard hold at most 1/16 of its memory in windows and blocks: others wait in the
/// order in which they came, as long as they have time. One whose table has more lanes than that goes on alone.
pub const SCAN_MEMORY_DIVISOR: usize = 16;
/// What such a read is counted with beside its lanes, in bytes.
pub const SCAN_BYTES: usize = 16 << 10;

/// A read of a key that may find a block of at least this many bytes, or such a row in a memtable, counts them before
/// it reads.
pub const LONG_BLOCK_BYTES: usize = 256 << 10;
/// Such reads under way on a shard hold at most 1/16 of its memory: others wait in the order in which they came,
/// as long as they have time. One that needs more goes on alone.
pub const LONG_ROWS_MEMORY_DIVISOR: usize = 16;
/// What a read keeps of its buffers for the next read, in bytes each.
pub const SCRATCH_KEPT_BYTES_MAX: usize = 64 << 10;
/// The buffers of so many reads are kept. Only reads that wait need more at a time.
pub const SCRATCHES_KEPT_MAX: usize = 16;

const _: () = assert!(MEMORY_BYTES_MIN / LONG_ROWS_MEMORY_DIVISOR >= LONG_BLOCK_BYTES);
const _: () = assert!(LONG_BLOCK_BYTES < LARGE_ROW_BYTES, "a row that is named in a file is long");

/// What a scan of a range is counted with for a lane of files with such blocks, in bytes: the largest window of a scan,
/// which has a whole block, and the block decompressed.
pub const fn lane_read_bytes(block_bytes: usize) -> usize {
    let is_long = block_bytes > READ_AHEAD_BYTES_MAX;
    let window_bytes = if is_long { block_bytes } else { READ_AHEAD_BYTES_MAX };
    window_bytes.saturating_add(block_bytes)
}

const _: () = assert!(
    MEMORY_BYTES_MIN / SCAN_MEMORY_DIVISOR
        >= SCAN_BYTES + lane_read_bytes(model::limits::CHUNK_BYTES_MAX / 4),
    "the smallest shard reads a lane"
);

/// A row index is never so high: each level has at least twice the nodes of the one above.
pub const INDEX_LEVELS_MAX: usize = 32;

/// A node of a row index is closed when it has so many bytes: one device page, before compression.
pub const INDEX_NODE_BYTES: usize = 4096;

/// The largest block of an sstable before compression. A row is never in two blocks, so a row that the log can
/// hold fits one; and offsets of 31 bits can name every place in it.
pub const BLOCK_BYTES_MAX: usize = 1536 << 20;

/// A longer block is one of a long row: it is compressed by Zstandard at [`ZSTD_LEVEL_OF_LONG`] at most. The tables of
/// higher levels grow with the block.
pub const ZSTD_BLOCK_BYTES_MAX: usize = BLOCK_TARGET_BYTES_MAX;
/// The level whose tables are at most 2 MiB, however long a block is.
pub const ZSTD_LEVEL_OF_LONG: i32 = 3;

/// An output of a merge ends when its writer keeps 1/64 of the shard's memory for filter, directory and row indexes: of
/// small partitions a file of the wanted length can have more than there is memory for. At most [`COMPACTIONS_MAX`]
/// outputs are written at a time.
pub const MERGE_OUTPUT_MEMORY_DIVISOR: usize = 64;
/// But not before it keeps this many bytes, some 30,000 partitions: in a shard with little memory a small table stays
/// one file.
pub const MERGE_OUTPUT_KEPT_BYTES_MIN: usize = 256 << 10;
const _: () = assert!(MERGE_OUTPUT_KEPT_BYTES_MIN >= JOB_STEP_BYTES);

/// Files that a shard compresses at a time: one that is flushed, and one for each compaction.
pub const CODEC_CONTEXTS: usize = 1 + COMPACTIONS_MAX;

/// The schema, and what its tables need to be written, take at most 1/2 of a shard's memory: a change that would
/// take more is refused. What is there at a start is opened; what of it is beyond that is not taken from the data.
pub const SCHEMA_MEMORY_DIVISOR: usize = 2;

/// Blocks of a file that are tried in a row before one is left out, if compression makes none of them smaller.
pub const VAIN_TRIES_MAX: u32 = 4;

/// Blocks of a file between two tries at most: what becomes compressible again is noticed within as many.
pub const UNTRIED_BLOCKS_MAX: u32 = 16;

/// The bytes of one row, whatever number of writes has made it. A write that would pass is `Invalid`.
pub const ROW_BYTES_MAX: u64 = 128 << 20;

/// The cells of one row: elements and tombstones of collections, and one for each other column. A write that
/// would pass is `Invalid`.
pub const ROW_CELLS_MAX: u64 = 1 << 20;

/// No cell of a row has fewer bytes: column, flags, and a path or value.
pub const ROW_CELL_BYTES_MIN: u64 = 4;

/// From here on a row is named in the statistics of its file, told to the operator, and summed up before a
/// write to it is taken.
pub const LARGE_ROW_BYTES: usize = 1 << 20;

/// Partitions of so many bytes in a run, before compression, are listed in `system.large_partitions` and told to the
/// operator.
pub const LARGE_PARTITION_BYTES: u64 = 1000 << 20;

/// Rows of so many bytes in a file are listed in `system.large_rows` and told to the operator.
pub const LARGE_ROW_TOLD_BYTES: u64 = 10 << 20;

/// Columns of so many bytes in a row of a file are listed in `system.large_cells`.
pub const LARGE_CELL_BYTES: u64 = 1 << 20;

/// Large partitions, large rows and large cells of one core that are listed: the largest of each.
pub const LARGE_DATA_MAX: usize = 128;

// Statistics name rows from there on.
const _: () = assert!(LARGE_ROW_TOLD_BYTES >= LARGE_ROW_BYTES as u64);
const _: () = assert!(LARGE_CELL_BYTES >= LARGE_ROW_BYTES as u64);

/// A compaction that would write a longer row fails, and leaves the files that hold it alone: only rows of
/// before [`ROW_BYTES_MAX`] was enforced can be so long.
pub const COMPACTED_ROW_BYTES_MAX: u64 = 512 << 20;

// Twice the limit for a row that only tombstones still enter, what waits for the log, and pieces of less than a
// large row in a hundred files.
const _: () = assert!(
    COMPACTED_ROW_BYTES_MAX
        > 2 * ROW_BYTES_MAX + LOG_PENDING_BYTES_MAX as u64 + 100 * LARGE_ROW_BYTES as u64
);
const _: () = assert!(COMPACTED_ROW_BYTES_MAX < BLOCK_BYTES_MAX as u64);
const _: () = assert!(BLOCK_BYTES_MAX as u64 > LOG_BYTES_MAX && BLOCK_BYTES_MAX < 1 << 31);
const _: () = assert!(LARGE_ROW_BYTES as u64 <= ROW_CELLS_MAX * ROW_CELL_BYTES_MIN);
const _: () = assert!(WRITE_ALIGN_BYTES.is_multiple_of(SIM_SECTOR_BYTES));
const _: () = assert!(READ_PART_BYTES_MAX.is_multiple_of(WRITE_ALIGN_BYTES));

/// The size of a commit log segment: 0.1 s of full load, so that rolling over is rare.
pub const SEGMENT_BYTES: u32 = 32 << 20;

/// A smaller segment would not hold a record of half its size beside its headers.
pub const SEGMENT_BYTES_MIN: u32 = 32 << 10;
/// How often a block is read that does not verify, before it is taken for the end of the log.
pub const LOG_TAIL_READS: u32 = 3;

/// All segments of a shard's log. When it is reached, writes wait until a flush frees one.
pub const LOG_BYTES_MAX: u64 = 1 << 30;

/// The largest segment of a log of [`LOG_BYTES_MAX`]: a log has space for two, the one that fills and the next.
pub const SEGMENT_BYTES_MAX: u32 = (LOG_BYTES_MAX / 2) as u32;

/// The largest write of the log: beyond this a device gains no more.
pub const LOG_BLOCK_BYTES_MAX: usize = 256 << 10;

/// Segments of a log in use that are filled with zeros before they are needed, so that a load that is faster than the
/// filling of one does not wait for it.
pub const SEGMENTS_AHEAD: usize = 2;

/// New segments are filled with zeros in writes of this size.
pub const LOG_ZERO_BYTES: usize = BACKGROUND_REQUEST_BYTES_MAX;

/// What may wait in memory for the log's writes; more waits before the log.
pub const LOG_PENDING_BYTES_MAX: usize = 32 << 20;

/// The longest record of the log: a mutation that is longer is `Invalid`.
pub const LOG_RECORD_BYTES_MAX: usize = 16 << 20;

// A record of any allowed length can wait, and what is left of a segment and the next one hold it.
const _: () = assert!(LOG_RECORD_BYTES_MAX < LOG_PENDING_BYTES_MAX);
const _: () = assert!(LOG_RECORD_BYTES_MAX <= SEGMENT_BYTES as usize / 2);
const _: () = assert!(LOG_BYTES_MAX >= 4 * SEGMENT_BYTES as u64);
const _: () = assert!(LOG_BYTES_MAX / 2 <= u32::MAX as u64);
const _: () = assert!(SEGMENT_BYTES_MIN <= SEGMENT_BYTES && SEGMENT_BYTES <= SEGMENT_BYTES_MAX);
const _: () = assert!((SEGMENT_BYTES_MAX as usize).is_multiple_of(WRITE_ALIGN_BYTES));
const _: () = assert!(LOG_BLOCK_BYTES_MAX.is_multiple_of(WRITE_ALIGN_BYTES));

/// Compactions of one shard at a time: one of any size, and small ones beside it.
pub const COMPACTIONS_MAX: usize = 2;
/// A compaction is small if its inputs have at most a fourth of the bytes of the largest one's that is under way.
pub const COMPACTION_SMALL_DIVISOR: u64 = 4;
/// How many merges that have ended a shard remembers, in about 200 bytes each.
pub const COMPACTION_HISTORY_MAX: usize = 256;
/// From so many runs that wait to be merged in one table on, writers are slowed, and compaction has its largest share
/// of the core.
pub const BACKLOG_RUNS_SLOW: usize = 32;
/// At so many they are slowed the most.
pub const BACKLOG_RUNS_MAX: usize = 64;
/// How long a writer is kept waiting then.
pub const RUNS_DELAY_US_MAX: u32 = 100_000;
/// A table in which something may expire is judged again after so many seconds, though its files and options are as
/// they were.
pub const BACKLOG_CHECK_S: u32 = 60;
/// How many tables are judged at one look: a millisecond at most. The others are at the next, those first that changed
/// first.
pub const BACKLOGS_PER_LOOK: usize = 256;
/// How many merges a strategy is asked for to see what waits in a table.
pub const BACKLOG_TASKS_MAX: usize = 4;
/// Where a merge does not fit the disk, a strategy is asked for so many others of each kind.
pub const SMALLER_TASKS_MAX: usize = 8;
/// At most this many merges of a table are tried at once, each smaller than what was free when the one before did not
/// fit.
pub const SMALLER_MERGES_MAX: usize = 3;

/// Rows of a flush that are looked for in the older files of its table. Where half of the bytes are of rows that are
/// there, that is known with a standard error of 0.06, less where all or none are.
pub const SAMPLED_ROWS: usize = 64;

/// A row that is longer with its keys is not sampled: a sample takes 4 MiB of copies at most.
pub const SAMPLED_ROW_BYTES_MAX: usize = 64 << 10;

/// Samples of a shard that wait to be looked up take so many bytes of copies at most.
pub const SAMPLES_BYTES_MAX: usize = 8 << 20;

/// An older row that is longer is not united with a sampled one: that is one step.
pub const SAMPLED_OLDER_BYTES_MAX: usize = 256 << 10;

/// Nor is one looked for in a longer block, before or after compression: one with a long row, for tables cannot ask for
/// blocks of this size. Reading and opening it takes memory of that size, and opening it is one step.
pub const SAMPLED_BLOCK_BYTES_MAX: usize = 1 << 20;

const _: () = assert!(SAMPLES_BYTES_MAX >= SAMPLED_ROWS * SAMPLED_ROW_BYTES_MAX);
const _: () = assert!(SAMPLED_BLOCK_BYTES_MAX >= BLOCK_TARGET_BYTES_MAX + SAMPLED_OLDER_BYTES_MAX);

/// The flushes of a table with fewer bytes in files are not sampled.
pub const SAMPLED_TABLE_BYTES_MIN: u64 = SURPLUS_BYTES_MIN;

/// A byte that is flushed frees so many at most, as far as a sample goes: deletions of long rows do.
pub const OVERWRITTEN_RATIO_MAX: f64 = 16.0;

/// Overwritten rows that take less than this are no reason to merge everything.
pub const SURPLUS_BYTES_MIN: u64 = 32 << 20;

/// All runs are merged when their surplus is 0.8 of what the goal allows: a merge takes its time, and what is
/// written meanwhile comes on top.
pub const SPACE_DUE_FACTOR: f64 = 0.8;

/// Writers are slowed from a surplus of 0.9 of the goal's, with [`SPACE_SLOW_FLUSHES`] added: as if
/// [`BACKLOG_RUNS_SLOW`] runs waited to be merged.
pub const SPACE_SLOW_FACTOR: f64 = 0.9;

/// Flushes that are added to the surplus from which writers are slowed. Memtables count as surplus, and half of one is
/// full as a rule: so one flush slows no small table.
pub const SPACE_SLOW_FLUSHES: f64 = 0.75;

/// Writers are slowed the most from a surplus of 1.2 of the goal's, with [`SPACE_FULL_FLUSHES`] added: with
/// 1 million records of 1 KB overwritten as fast as they go, in 512 MB, the files took 1.45 times the live rows at most
/// (docs/benchmarks.md).
pub const SPACE_FULL_FACTOR: f64 = 1.2;

/// Flushes that are added to the surplus at which writers are slowed the most.
pub const SPACE_FULL_FLUSHES: f64 = 1.25;

/// Surplus of fewer flushes than these slows no writer of a table, however small the table is.
pub const SPACE_SLOW_FLUSHES_MIN: f64 = 1.5;

/// Surplus of fewer flushes than these does not slow writers the most.
pub const SPACE_FULL_FLUSHES_MIN: f64 = 3.0;

/// Where rows are overwritten, level 0 of levels goes down when its surplus is 0.04 of the last level.
pub const LEVEL_0_SURPLUS_FACTOR: f64 = 0.04;

/// The same where the last level is level 1, and there are none between: 0.1.
pub const LEVEL_0_SURPLUS_ALONE_FACTOR: f64 = 0.1;

const _: () =
    assert!(SPACE_DUE_FACTOR < SPACE_SLOW_FACTOR && SPACE_SLOW_FACTOR < SPACE_FULL_FACTOR);
const _: () = assert!(SPACE_SLOW_FLUSHES < SPACE_FULL_FLUSHES);
const _: () = assert!(SPACE_SLOW_FLUSHES_MIN < SPACE_FULL_FLUSHES_MIN);
const _: () = assert!(BACKLOG_RUNS_SLOW < BACKLOG_RUNS_MAX);

/// What is kept aside on the disk at least, so that a node can start, truncate and drop when nothing is left: a quarter
/// of it is enough for the schema and the manifests of 63 shards to be written anew.
pub const RESERVE_BYTES_MIN: u64 = 64 << 20;

/// The reserve is completed when this many times the bytes that it lacks are free, and one part.
pub const RESERVE_FREE_FACTOR: u64 = 2;

/// The longest entry of a journal: the manifest and the schema cut theirs far below.
pub const JOURNAL_ENTRY_BYTES_MAX: usize = 64 << 20;

/// The longest entry of the schema's log: a change that is longer is refused. It holds a table of the most
/// columns there can be, with 1 KiB for each.
pub const SCHEMA_CHANGE_BYTES_MAX: usize = 16 << 20;

const _: () = assert!(model::limits::COLUMNS_MAX << 10 <= SCHEMA_CHANGE_BYTES_MAX);
const _: () = assert!(SCHEMA_CHANGE_BYTES_MAX <= JOURNAL_ENTRY_BYTES_MAX);

/// A longer journal is not one of ours: refused before memory is taken for it, and never made.
pub const JOURNAL_BYTES_MAX: u64 = 1 << 30;

/// The space a new manifest has at least: 60 edits of one unit.
pub const MANIFEST_BYTES_MIN: u64 = 256 << 10;

/// How many views one entry of a manifest's snapshot holds: 0.1 MiB.
pub const MANIFEST_VIEWS_PER_ENTRY: usize = 1000;

/// The space a new schema journal has at least: 14 changes.
pub const SCHEMA_BYTES_MIN: u64 = 64 << 10;

/// The tag of a snapshot is at most so long: its files' paths are within [`PATH_BYTES_MAX`].
pub const SNAPSHOT_TAG_BYTES_MAX: usize = 128;
/// The longest manifest of a snapshot: a million files. A longer one is not read, and not written.
pub const SNAPSHOT_MANIFEST_BYTES_MAX: u64 = 256 << 20;

const _: () = assert!(SNAPSHOT_TAG_BYTES_MAX + 10 + 2 * 42 <= PATH_BYTES_MAX);

/// The first chunk of a memtable's arena: what the first row of a table costs.
pub const ARENA_CHUNK_BYTES_MIN: usize = 4 << 10;

/// Later chunks double up to this. Larger things get a chunk of their own.
pub const ARENA_CHUNK_BYTES_MAX: usize = 1 << 20;

/// Entries of one leaf of a memtable's lists. Larger leaves move more at an insert, smaller ones
/// make the upper level longer.
pub const LEAF_ENTRIES_MAX: usize = 64;

/// From here on a write to a row of a memtable is put beside the row and not merged with all of it. Tests have no rows
/// of that size.
pub const ROW_IN_PARTS_BYTES_MIN: usize = if cfg!(test) { 24 } else { 4 << 10 };

/// Rows of memtables that the range and partition tombstones of one step look at, all together, to take out those that
/// they cover: so an insert stays short. A step is one mutation, or what is applied at once of what a commit has made
/// durable. The rest stay, covered.
pub const COVERED_ROWS_AT_ONCE_MAX: usize = 1024;
/// Bytes of these rows, whose cells are all looked at: a tenth of a millisecond. The last row may be longer.
pub const COVERED_BYTES_AT_ONCE_MAX: usize = 256 << 10;
/// What such a row counts for beside its bytes among the bytes that are applied at once.
pub const COVERED_ROW_COST_BYTES: usize = 64;

/// Of the records that a commit has made durable, at most this many bytes are applied before others run, and one record
/// at least. Rows that tombstones look at count, too.
pub const APPLIED_BYTES_AT_ONCE: usize = 64 << 10;

const _: () = assert!(
    COVERED_ROWS_AT_ONCE_MAX * COVERED_ROW_COST_BYTES >= APPLIED_BYTES_AT_ONCE,
    "a step whose tombstones may look at nothing more has ended"
);
const _: () = assert!(COVERED_BYTES_AT_ONCE_MAX >= APPLIED_BYTES_AT_ONCE, "the same for bytes");

/// Borders of range tombstones in one chunk of a partition of a memtable. A tombstone walks over the two chunks of its
/// ends. Unit tests have more chunks.
pub const RANGE_CHUNK_BORDERS_MAX: usize = if cfg!(test) { 4 } else { 512 };
/// Chunks of which one tombstone takes out the borders that it covers. The rest stay, covered.
pub const COVERED_CHUNKS_MAX: usize = if cfg!(test) { 1 } else { 8 };

const _: () = assert!(ARENA_CHUNK_BYTES_MIN <= ARENA_CHUNK_BYTES_MAX);
const _: () = assert!(LEAF_ENTRIES_MAX >= 2, "a full leaf can be split");

/// The least memory a shard can work with.
pub const MEMORY_BYTES_MIN: usize = 4 << 20;

/// How long a writer is kept waiting when memtables are nearly full.
pub const WRITE_DELAY_US_MAX: u32 = 50_000;

/// Writes that wait for space in the memtables or in the log take at most 1/16 of a shard's memory; more are
/// `Overloaded`.
pub const DEFERRED_MEMORY_DIVISOR: usize = 16;

/// What a write that waits for space takes beside its bytes.
pub const DEFERRED_OVERHEAD_BYTES: usize = 64;

/// Writes that wait for others of their partitions take at most 1/32 of a shard's memory, and what they have read
/// as much again; more are `Overloaded`.
pub const QUEUED_MEMORY_DIVISOR: usize = 32;

/// How often one statement may add to one value (`v = v + 1 IF ..`): sums are made in one step of a core,
/// and one of long decimals takes a tenth of a millisecond.
pub const SUMS_OF_A_VALUE_MAX: usize = 64;

/// What a write that waits for others takes beside its bytes, and beside each of its keys.
pub const QUEUED_WRITE_OVERHEAD_BYTES: usize = 128;

/// What a memtable keeps of the terms of one mutation, in bytes: each has the names of its row with it, and a mutation
/// may have very many. The memtable of one with more is scanned.
pub const MUTATION_TERMS_BYTES_MAX: usize = 4 << 20;

/// What the terms of one row, of all indexes together, take while the index files of its sstable are made, in bytes
/// with [`INDEX_TERM_OVERHEAD_BYTES`] each: they are made and sorted in one step. An index whose terms pass it gets no file,
/// and the sstable is gone through.
pub const INDEX_ROW_TERMS_BYTES_MAX: usize = 2 << 20;
/// What a term takes on its way into an index file beside its bytes.
pub const INDEX_TERM_OVERHEAD_BYTES: usize = 32;

const _: () = assert!(INDEX_ROW_TERMS_BYTES_MAX <= MUTATION_TERMS_BYTES_MAX);

/// Terms of one row that a lookup in what has no index compares: one that has more may have a wanted one, and is read.
pub const LOOKUP_TERMS_OF_ROW_MAX: usize = 8 << 10;

/// What the overlay of one partition's queue holds of records on their way, in bytes: a turn makes a memtable of them
/// in one step. A turn behind more waits until it is readable.
pub const OVERLAY_BYTES_MAX: usize = 64 << 10;

/// What the memtable of an overlay takes beside its records, in bytes: the first chunk of its arena, a leaf, a slab.
pub const OVERLAY_MEMTABLE_BYTES: usize = 5 << 10;

/// How many writes that read first read at once, enough to keep a device busy; others wait for their turn.
pub const READING_WRITES_MAX: usize = 64;

/// How many writes that read first may wait for others of one partition; more are `Overloaded`. They read one after the
/// other, and a core that asks for them holds a place in the mailbox for each.
pub const READING_WRITES_QUEUED_MAX: usize = 256;

/// Changes of lists by index or by value in one mutation.
pub const LIST_CHANGES_MAX: usize = 1 << 16;

/// Changes of counters in one statement or batch.
pub const COUNTER_CHANGES_MAX: usize = 1 << 16;

/// Elements of a list that can be changed by index or by value: all of them are read, in one step.
pub const CHANGED_LIST_ELEMENTS_MAX: usize = 1 << 16;

/// What a cell that a change of a list or counter writes takes in memory beside its path and its value, in bytes.
pub const NEW_CELL_OVERHEAD_BYTES: usize = 160;

/// What the list changes of one mutation may write, in bytes, [`NEW_CELL_OVERHEAD_BYTES`] for each cell included.
pub const CHANGED_LISTS_BYTES_MAX: usize = LOG_RECORD_BYTES_MAX;

/// Writes that waited, for space or for their turn, are taken so many at once: about half a millisecond.
pub const DEFERRED_AT_ONCE_MAX: usize = 128;

/// Bytes of memory that the queue between log and memtables keeps when it is empty, in both of its buffers.
pub const QUEUE_IDLE_BYTES_MAX: usize = 1 << 20;

/// Rows that a read goes through before it asks whether to pause: some ten microseconds.
pub const READ_QUANTUM_ROWS: u32 = 32;
/// Bytes that it goes through before it asks.
pub const READ_QUANTUM_BYTES: usize = 32 << 10;

/// Rows that a read goes through at once, without being able to pause: about 0.2 ms.
pub const READ_AT_ONCE_ROWS_MAX: u32 = 512;

const _: () = assert!(COVERED_BOUNDS_AT_ONCE_MAX <= READ_QUANTUM_ROWS);

/// Bytes that it goes through at once.
pub const READ_AT_ONCE_BYTES_MAX: usize = 512 << 10;

/// What a full page looks at further on to find out whether there is another row.
pub const PAGE_LOOK_AHEAD_ROWS: u32 = 256;

const _: () = assert!(QUEUE_IDLE_BYTES_MAX < MEMORY_BYTES_MIN);

/// A job that has failed is not proposed again before this many seconds, and twice as many after each failure.
pub const JOB_RETRY_S: u32 = 2;
/// The longest wait of a job that fails again and again.
pub const JOB_RETRY_S_MAX: u32 = 64;
/// After this many failures of merges by a file, compactions leave that file alone until the next start.
pub const JOB_QUARANTINE_FAILURES: u32 = 3;
/// Failures of merges by one file count together while no two in a row are further apart than this many seconds: a day.
/// A file that was not met for so long is taken for sound: the disk had failed, and it has passed.
pub const MERGE_FAILURE_GAP_S_MAX: u32 = 24 * 60 * 60;
const _: () = assert!(MERGE_FAILURE_GAP_S_MAX > JOB_RETRY_S_MAX);

/// From here on writes are refused, so that compaction has space to free more.
pub const DISK_FULL_PERCENT: u128 = 97;

/// Partitions that a sample of the hottest counts at once, of reads and of writes: Cassandra's capacity.
pub const HOT_COUNTERS_MAX: usize = 256;
/// Bytes of a key that such a sample keeps.
pub const HOT_KEY_BYTES_MAX: usize = 1 << 10;

/// Bytes of the rows that the conditions of one write look at, of what is compared or comes back in the answer.
pub const CONDITION_ROWS_BYTES_MAX: usize = 1 << 20;

/// Tombstones that conditions on static columns alone pass in search of a row: Cassandra's limit of a read.
pub const CONDITION_TOMBSTONES_MAX: u64 = 100_000;

/// Cells of these rows: they are looked at in one step.
pub const CONDITION_CELLS_MAX: usize = 1 << 16;

/// Bytes of the rows of a base, with their keys, that one write with materialized views changes; what it writes to the
/// views may be twice as much, and has to fit a record.
pub const VIEW_ROWS_BYTES_MAX: usize = LOG_RECORD_BYTES_MAX;
