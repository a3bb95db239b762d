//! What a shard has done, as plain numbers: one addition where something happens, no clock, no names.

use std::cell::Cell;

/// Counts since the engine was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records taken.
    pub writes: u64,
    /// Their bytes.
    pub write_bytes: u64,
    /// Records refused because a limit was reached.
    pub writes_refused: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// Reads that had to wait for the disk, or were too long for one go.
    pub reads_waited: u64,
    /// Rows given to readers.
    pub rows_read: u64,
    /// Records replayed from the log when the engine was opened.
    pub records_replayed: u64,
}

/// Counters that are bumped through a shared reference.
#[derive(Debug, Default)]
pub(crate) struct Counters(Cell<Stats>);

impl Counters {
    /// What was counted.
    pub(crate) fn get(&self) -> Stats {
        self.0.get()
    }

    /// Counts something.
    #[inline]
    pub(crate) fn count(&self, bump: impl FnOnce(&mut Stats)) {
        let mut stats = self.0.get();
        bump(&mut stats);
        self.0.set(stats);
    }
}
