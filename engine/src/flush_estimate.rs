//! How long the file of a table's next flush becomes: rows in a file take less than in memory, by how much depends on
//! the table, and only its last flush tells.
//!
//! ```text
//! flush ─► bytes of the file / bytes in memory ─► the space that the next one is promised (`jobs.rs`)
//!   └─ refused more space on a full disk ─► at least so much of its memory
//! ```
//!
//! Nothing is known after a start, until the first flush: then a byte in a file is thought of for each one in memory.
//! Not here: the promise of space, which grows while a flush writes (`space_ledger.rs`).

use std::cell::Cell;

/// What is known of the files of one table.
#[derive(Debug, Default)]
pub(crate) struct FlushEstimate {
    /// Bytes of the last flush in a file, for each byte in memory.
    file_part: Cell<Option<f64>>,
    /// Whether a full disk has ended a flush since then: its file would have been longer than its estimate.
    is_outgrown: Cell<bool>,
}

impl FlushEstimate {
    /// How many bytes of a file become of one in memory: at most one.
    pub(crate) fn file_part(&self) -> f64 {
        self.file_part.get().unwrap_or(1.0)
    }

    /// Bytes of the file that so many bytes in memory become at most: a quarter more than those of the last flush.
    pub(crate) fn next_file_bytes(&self, memory_bytes: usize) -> u64 {
        (memory_bytes as f64 * (self.file_part() * 1.25).min(1.0)) as u64
    }

    /// Whether a flush may begin where less is free than its estimate: nothing says that the estimate is too low.
    pub(crate) fn may_begin_with_less(&self) -> bool {
        !self.is_outgrown.get()
    }

    /// Bytes of memory became a file of so many bytes.
    pub(crate) fn was_flushed(&self, file_bytes: u64, memory_bytes: usize) {
        self.file_part.set(Some(part(file_bytes, memory_bytes)));
        self.is_outgrown.set(false);
    }

    /// A flush was refused more space for a file that had so many bytes then, of so many in memory.
    pub(crate) fn outgrew_estimate(&self, file_bytes: u64, memory_bytes: usize) {
        let before = self.file_part.get().unwrap_or(0.0);
        self.file_part.set(Some(part(file_bytes, memory_bytes).max(before)));
        self.is_outgrown.set(true);
    }
}

fn part(file_bytes: u64, memory_bytes: usize) -> f64 {
    (file_bytes as f64 / memory_bytes.max(1) as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_what_the_last_flush_took_and_rises_with_what_was_refused() {
        let estimate = FlushEstimate::default();
        assert_eq!((estimate.next_file_bytes(1000), estimate.may_begin_with_less()), (1000, true));
        estimate.was_flushed(100, 1000);
        assert_eq!(estimate.next_file_bytes(2000), 250);
        estimate.outgrew_estimate(400, 2000);
        assert_eq!((estimate.next_file_bytes(2000), estimate.may_begin_with_less()), (500, false));
        estimate.outgrew_estimate(100, 2000);
        assert_eq!(estimate.next_file_bytes(2000), 500, "less says nothing");
        estimate.was_flushed(5000, 1000);
        assert_eq!((estimate.file_part(), estimate.may_begin_with_less()), (1.0, true));
    }
}
