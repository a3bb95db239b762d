//! The memory of one shard in named parts, and when writes must wait or flushing must begin.
//!
//! ```text
//! all ─┬─ the schema, and the contexts of codecs: at most 1/2
//!      └─ data: the rest, of which
//!         ├─ memtables   1/2     0 ──────► flush ───► slow ──► full
//!         ├─ blocks      1/4              from 1/2    from 3/4   writes wait
//!         ├─ indexes     1/8     filters and directories of sstables: a filter that has no space stays on disk, and
//!         │                      what directories take beyond it the blocks have less (`cache/blocks.rs`)
//!         └─ the rest    1/8     log buffers, requests, writes that wait, and windows of range reads: 1/16 of all, and
//!                                1/64 for those by indexes; and 1/16 for long rows that are read by key
//! ```
//!
//! Admission slows before it stops: between `slow` and `full` the shard is asked to delay writers, from nothing to
//! [`WRITE_DELAY_US_MAX`], so that flushing catches up. The delay rises with the square of what is filled: many
//! writers are slowed as much as they must be, and few hardly. What comes all the same waits for space in a queue
//! (`deferred_writes.rs`).

use std::cell::Cell;

use crate::error::{Error, Result};
use crate::limits::{
    DEFERRED_MEMORY_DIVISOR, LONG_ROWS_MEMORY_DIVISOR, LOOKUP_MEMORY_DIVISOR, MEMORY_BYTES_MIN,
    MERGE_OUTPUT_KEPT_BYTES_MIN, MERGE_OUTPUT_MEMORY_DIVISOR, NEAREST_MEMORY_DIVISOR,
    QUEUED_MEMORY_DIVISOR, SCAN_MEMORY_DIVISOR, SCHEMA_MEMORY_DIVISOR, WRITE_DELAY_US_MAX,
    nearest_candidate_bytes, nearest_rows_bytes,
};
use crate::table::Grown;

/// One shard's memory.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: usize,
    memtables: Cell<usize>,
    /// What the schema takes, and what it takes to write its tables.
    schema: Cell<usize>,
}

impl Budget {
    /// All of a shard's memory: `Invalid` if that is too little to work with.
    pub(crate) fn new(bytes: usize) -> Result<Budget> {
        if bytes < MEMORY_BYTES_MIN {
            let what = format!("{bytes} bytes of memory for a shard: it needs {MEMORY_BYTES_MIN}");
            return Err(Error::invalid(what));
        }
        Ok(Budget { bytes, memtables: Cell::new(0), schema: Cell::new(0) })
    }

    /// All of the shard's memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The schema takes so many bytes now, with what it takes to write its tables: data has the rest.
    pub(crate) fn set_schema(&self, bytes: usize) {
        self.schema.set(bytes);
    }

    /// What the schema takes.
    pub(crate) fn schema(&self) -> usize {
        self.schema.get()
    }

    /// What the schema may take.
    pub(crate) fn schema_max(&self) -> usize {
        self.bytes / SCHEMA_MEMORY_DIVISOR
    }

    /// What is left for data.
    fn left(&self) -> usize {
        self.bytes - self.schema().min(self.schema_max())
    }

    /// What memtables may hold together.
    pub(crate) fn memtables_max(&self) -> usize {
        self.left() / 2
    }

    /// What they may hold when a start replays the log: as yet no block has memory. Not less than they may ever hold in
    /// a running shard, whose schema is shared with others.
    pub(crate) fn replayed_max(&self) -> usize {
        (self.left() / 4 * 3).max(self.bytes / 2)
    }

    /// What memtables hold when one is flushed.
    pub(crate) fn flush_bytes(&self) -> usize {
        self.memtables_max() / 2
    }

    /// What the block cache may hold.
    pub(crate) fn blocks_max(&self) -> usize {
        self.left() / 4
    }

    /// What writes may hold that wait for space.
    pub(crate) fn deferred_max(&self) -> usize {
        self.bytes / DEFERRED_MEMORY_DIVISOR
    }

    /// What writes may hold that wait for others of their partitions.
    pub(crate) fn queued_max(&self) -> usize {
        self.bytes / QUEUED_MEMORY_DIVISOR
    }

    /// What scans of ranges may hold that are under way.
    pub(crate) fn scans_max(&self) -> usize {
        self.bytes / SCAN_MEMORY_DIVISOR
    }

    /// What reads of keys with long rows may hold that are under way.
    pub(crate) fn long_rows_max(&self) -> usize {
        self.bytes / LONG_ROWS_MEMORY_DIVISOR
    }

    /// What the writer of one output of a merge may keep in memory until the file ends.
    pub(crate) fn merge_output_max(&self) -> usize {
        (self.bytes / MERGE_OUTPUT_MEMORY_DIVISOR).max(MERGE_OUTPUT_KEPT_BYTES_MIN)
    }

    /// What reads of ranges by indexes may hold that are under way.
    pub(crate) fn lookups_max(&self) -> usize {
        self.bytes / LOOKUP_MEMORY_DIVISOR
    }

    /// What searches for the nearest rows may hold that are under way.
    pub(crate) fn searches_max(&self) -> usize {
        self.bytes / NEAREST_MEMORY_DIVISOR
    }

    /// What one of them is counted with: its rows and its candidates, each twice while they are handed on.
    pub(crate) fn search_bytes(&self) -> usize {
        2 * (nearest_rows_bytes(self.bytes) + nearest_candidate_bytes(self.bytes))
    }

    /// What memtables hold.
    pub(crate) fn memtables(&self) -> usize {
        self.memtables.get()
    }

    /// A memtable changed.
    pub(crate) fn memtables_grew(&self, grown: Grown) {
        let others = self.memtables.get().checked_sub(grown.before);
        self.memtables.set(others.expect("what changes was counted before") + grown.after);
    }

    /// A memtable is gone.
    pub(crate) fn memtables_shrank(&self, bytes: usize) {
        let left = self.memtables.get().checked_sub(bytes);
        self.memtables.set(left.expect("what goes was counted when it came"));
    }

    /// Whether it is time to flush, when `leaving` bytes are on their way out.
    pub(crate) fn wants_flush(&self, leaving: usize) -> bool {
        assert!(leaving <= self.memtables(), "what leaves is held until it has left");
        self.memtables() - leaving > self.flush_bytes()
    }

    /// Refuses a write of `bytes`, with `waiting` bytes before it, if there is no space for it. One that finds all of
    /// the space free is taken, however large: else it would never be.
    pub(crate) fn admit(&self, bytes: usize, waiting: usize) -> Result<()> {
        let held = self.memtables() + waiting;
        if held + bytes > self.memtables_max() && held > 0 {
            return Err(Error::Overloaded("memory of memtables"));
        }
        Ok(())
    }

    /// How long a writer should be kept waiting now, in microseconds.
    pub(crate) fn delay_us(&self) -> u32 {
        let (slow, full) = (self.memtables_max() / 4 * 3, self.memtables_max());
        let over = self.memtables().saturating_sub(slow).min(full - slow) as u128;
        let most = (full - slow) as u128;
        (over * over * u128::from(WRITE_DELAY_US_MAX) / (most * most)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_slowed_before_they_are_refused() {
        let budget = Budget::new(MEMORY_BYTES_MIN).unwrap();
        let (full, mut last) = (budget.memtables_max(), 0);
        let mut slowed = false;
        while budget.admit(1000, 0).is_ok() {
            budget.memtables_grew(Grown { before: 0, after: 1000 });
            let delay = budget.delay_us();
            assert!(delay >= last && delay <= WRITE_DELAY_US_MAX);
            assert!(delay == 0 || budget.wants_flush(0), "flushing begins before slowing");
            (last, slowed) = (delay, slowed || delay > 0);
        }
        assert!(slowed && last > WRITE_DELAY_US_MAX * 9 / 10);
        budget.memtables_shrank(full / 2);
        assert_eq!((budget.delay_us(), budget.admit(1000, 0)), (0, Ok(())));
        assert_eq!(budget.admit(1000, full), Err(Error::Overloaded("memory of memtables")));
        let empty = Budget::new(MEMORY_BYTES_MIN).unwrap();
        assert_eq!(empty.admit(full + 1, 0), Ok(()), "alone, however large");
    }
}
