//! What a shard has done, as plain numbers: one addition where something happens, no clock, no names.
//!
//! `Counters` is what the parts of an engine add to; `Stats` is a copy of it, into which the engine fills what it holds
//! now and what its cache and its queues have counted themselves (`Engine::stats`).
//!
//! Not here: what takes time (`shard/src/stalls.rs`), names for operators and metrics (the `server` crate).

use std::cell::Cell;

/// Counts since the engine was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Number of records that were written.
    pub writes: u64,
    /// Bytes of the records that were written.
    pub write_bytes: u64,
    /// Records refused because a limit was reached.
    pub writes_refused: u64,
    /// Records that waited for space before they were taken or refused.
    pub writes_deferred: u64,
    /// Records that ever came into the queue of a partition: what reads first, and what came behind that.
    pub writes_queued: u64,
    /// Memory held by records that wait for space now.
    pub deferred_bytes: u64,
    /// Memory held by records that wait for others of their partitions now.
    pub queued_bytes: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// Reads that had to wait for the disk, or were too long for one go.
    pub reads_waited: u64,
    /// Rows given to readers.
    pub rows_read: u64,
    /// Records replayed from the log when the engine was opened.
    pub records_replayed: u64,
    /// Memtables written to sstables.
    pub flushes: u64,
    /// Bytes of those files.
    pub flush_bytes: u64,
    /// Compactions, and removals of files in which nothing was alive.
    pub compactions: u64,
    /// Compactions that began while another one went on.
    pub compactions_beside: u64,
    /// Index files that were made of sstables that had none.
    pub indexes_built: u64,
    /// Reads that an index was used for.
    pub lookups: u64,
    /// Tables that looks for compactions went through: those that changed, may expire or wait.
    pub tables_looked_at: u64,
    /// Fragments that compactions have finished, each of which took the place of what it was made of at once.
    pub compaction_fragments: u64,
    /// Bytes that compactions wrote.
    pub compaction_bytes: u64,
    /// Pieces of filters that compactions read to purge tombstones: those of files that they do not merge.
    pub compaction_filter_reads: u64,
    /// Flushes and other jobs that failed and will be tried again.
    pub jobs_failed: u64,
    /// Files that compactions leave alone because they cannot be merged.
    pub files_quarantined: u64,
    /// Files that several shards had and that this one, the last of them, has deleted.
    pub shared_files_deleted: u64,
    /// Rows of a mebibyte and more that flushes have written.
    pub large_rows: u64,
    /// Memory of the schema, a shard's part, and of what compresses and decompresses.
    pub schema_bytes: u64,
    /// Memory held by memtables now.
    pub memtable_bytes: u64,
    /// Memory held by the block cache now.
    pub cache_bytes: u64,
    /// Memory of directories, wide tables and filters of open files now.
    pub index_bytes: u64,
    /// Memory that scans of ranges under way are counted with now: their windows and blocks.
    pub scan_bytes: u64,
    /// Memory that reads of ranges by indexes under way are counted with now.
    pub lookup_bytes: u64,
    /// Memory that reads of keys with long rows under way are counted with now.
    pub long_row_bytes: u64,
    /// Memory that searches for the nearest rows under way are counted with now: rows, and candidates.
    pub search_bytes: u64,
    /// Blocks found in the cache.
    pub cache_hits: u64,
    /// Blocks that had to be read.
    pub cache_misses: u64,
}

/// What one table holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSize {
    /// Bytes of its rows, in memory and on disk; a file that other shards share counts in each.
    pub bytes: u64,
    /// Its partitions: one that is in several places counts in each.
    pub partitions: u64,
    /// Memory of its memtables.
    pub memtable_bytes: u64,
    /// Rows in its memtables.
    pub memtable_rows: u64,
    /// Parts of sstables that are this shard's.
    pub sstables: u64,
    /// Sorted runs that these are pieces of: a partition is in at most one piece of each.
    pub runs: u64,
    /// Memory that those files take while they are open, blocks apart.
    pub resident_bytes: u64,
    /// What rows take on disk that are overwritten, until they are merged: as samples of flushes say.
    pub surplus_bytes: u64,
}

/// Counters that are bumped through a shared reference.
#[derive(Debug, Default)]
pub(crate) struct Counters(Cell<Stats>);

impl Counters {
    /// What was counted.
    pub(crate) fn get(&self) -> Stats {
        self.0.get()
    }

    /// Lets `bump` change the counters.
    #[inline]
    pub(crate) fn count(&self, bump: impl FnOnce(&mut Stats)) {
        let mut stats = self.0.get();
        bump(&mut stats);
        self.0.set(stats);
    }
}
