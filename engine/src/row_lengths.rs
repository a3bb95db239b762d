//! Whether a table may have large rows, at which writes look, and long ones, for which reads of a key take turns.
//!
//! Both rise with what is written, and are looked for again when memtables or files go. Not here: what such a write may
//! add (`row_limits.rs`), what a turn is (`read/turns.rs`).

use std::cell::Cell;

use crate::limits::LONG_BLOCK_BYTES;
use crate::sstable::is_large;
use crate::table::View;

/// What is known of the rows of one table.
#[derive(Debug, Default)]
pub(crate) struct RowLengths {
    /// A memtable or the statistics of a file have a row that is large.
    has_large: Cell<bool>,
    /// A memtable holds a row, or a file may have a block, of [`LONG_BLOCK_BYTES`].
    has_long: Cell<bool>,
}

impl RowLengths {
    /// Whether writes must be looked at for what they make of a large row.
    #[inline]
    pub(crate) fn has_large(&self) -> bool {
        self.has_large.get()
    }

    /// Whether a read of a key may find a long block, or a long row in a memtable.
    #[inline]
    pub(crate) fn has_long(&self) -> bool {
        self.has_long.get()
    }

    /// The largest row of a memtable has so many bytes now.
    #[inline]
    pub(crate) fn grew(&self, largest_bytes: usize) {
        if largest_bytes >= LONG_BLOCK_BYTES {
            self.has_long.set(true);
            self.has_large.set(self.has_large.get() || is_large(largest_bytes));
        }
    }

    /// These files are there, and in memtables rows of so many bytes at most.
    pub(crate) fn look(&self, largest_bytes: usize, views: &[View]) {
        let named = |view: &View| !view.sstable.statistics().large_rows.is_empty();
        self.has_large.set(is_large(largest_bytes) || views.iter().any(named));
        let is_long = |view: &View| view.sstable.may_have_long_blocks();
        self.has_long.set(largest_bytes >= LONG_BLOCK_BYTES || views.iter().any(is_long));
    }
}
