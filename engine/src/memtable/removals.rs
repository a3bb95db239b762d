//! How much tombstones may still do, in one step, to take out rows that they cover.

use crate::limits::{COVERED_BYTES_AT_ONCE_MAX, COVERED_ROW_COST_BYTES, COVERED_ROWS_AT_ONCE_MAX};

/// What is left to a step of the rows, and of their bytes, that its tombstones may look at.
#[derive(Debug)]
pub(crate) struct Removals {
    rows: usize,
    bytes: usize,
}

impl Removals {
    /// Of a step that has looked at nothing.
    pub(crate) fn new() -> Removals {
        Removals { rows: COVERED_ROWS_AT_ONCE_MAX, bytes: COVERED_BYTES_AT_ONCE_MAX }
    }

    /// Whether no row is to be looked at any more.
    pub(super) fn are_used_up(&self) -> bool {
        self.rows == 0 || self.bytes == 0
    }

    /// A row of so many bytes is looked at.
    pub(super) fn count(&mut self, row_bytes: usize) {
        assert!(!self.are_used_up(), "only what is left is used");
        self.rows -= 1;
        self.bytes = self.bytes.saturating_sub(row_bytes);
    }

    /// What was looked at, as bytes of records whose rows would be as much work.
    #[inline]
    pub(crate) fn work_bytes(&self) -> usize {
        let rows = COVERED_ROWS_AT_ONCE_MAX - self.rows;
        rows * COVERED_ROW_COST_BYTES + (COVERED_BYTES_AT_ONCE_MAX - self.bytes)
    }
}
