//! How long the file of a table's next flush becomes: rows in a file take less than in memory, by how much depends on
//! the table, and only its last flush tells.
//!
//! ```text
//! flush ─► bytes of its file / bytes in memory ─► the space that the next one is promised (`jobs.rs`)
//!   └─ the disk was full ─► bytes that its file had, and a piece ─► the least that the next try begins with
//! ```
//!
//! Nothing is known after a start, until the first flush: then a byte in a file is thought of for each one in memory.
//! Not here: the promise of space, which grows while a flush writes (`space_ledger.rs`).

use std::cell::Cell;

use crate::limits::{FLUSH_BEGINS_WITH_DIVISOR, FLUSH_MORE_BYTES};

/// For each byte in memory, the next file is thought to take so many times the bytes of the last one.
const ESTIMATE_FACTOR: f64 = 1.25;

/// What the flushes of one table showed.
#[derive(Debug, Default)]
pub(crate) struct FlushEstimate {
    /// Bytes of the last file for each byte in memory, at most 1.
    file_part: Cell<Option<f64>>,
    /// Bytes that must be free to try the oldest layer again, which met a full disk; 0 if it has not.
    refused_bytes: Cell<u64>,
}

impl FlushEstimate {
    /// Bytes in a file for each byte in memory: at most 1, and 1 while nothing is known.
    pub(crate) fn file_part(&self) -> f64 {
        self.file_part.get().unwrap_or(1.0)
    }

    /// Bytes of the file that so many bytes in memory are thought to become: a quarter more than the last flush shows,
    /// and more than the oldest layer was refused at.
    pub(crate) fn next_file_bytes(&self, memory_bytes: usize) -> u64 {
        let by_last = (memory_bytes as f64 * (self.file_part() * ESTIMATE_FACTOR).min(1.0)) as u64;
        by_last.max(self.refused_bytes.get())
    }

    /// Bytes that a flush of so many in memory begins with where its estimate is not free.
    pub(crate) fn first_file_bytes(&self, memory_bytes: usize) -> u64 {
        let by_last = self.next_file_bytes(memory_bytes) / FLUSH_BEGINS_WITH_DIVISOR;
        by_last.max(self.refused_bytes.get())
    }

    /// Bytes of memory became a file of so many bytes.
    pub(crate) fn was_flushed(&self, file_bytes: u64, memory_bytes: usize) {
        let part = file_bytes as f64 / memory_bytes.max(1) as f64;
        self.file_part.set(Some(part.min(1.0)));
    }

    /// The flush of the oldest layer, of so many bytes in memory, met a full disk when its file had so many.
    pub(crate) fn was_refused(&self, file_bytes: u64, memory_bytes: usize) {
        let memory_bytes = memory_bytes as u64;
        let with_a_piece = file_bytes + FLUSH_MORE_BYTES.min(memory_bytes);
        // At least a fourth more than the last time: what else it lacks (indexes, the end of the file, what others
        // write) is not in `file_bytes`. Not more than rows and their indexes may take: it would wait for too much.
        let before = self.refused_bytes.get();
        let more = (before + before / 4).min(2 * memory_bytes + FLUSH_MORE_BYTES);
        self.refused_bytes.set(with_a_piece.max(more).max(before));
    }

    /// The oldest layer was flushed, or the table was emptied: the next flush begins as if none was refused.
    pub(crate) fn forget_refusal(&self) {
        self.refused_bytes.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// What a flush of 16 MiB in memory asks for, and what it begins with, in bytes.
    fn next(estimate: &FlushEstimate) -> [u64; 2] {
        [estimate.next_file_bytes(16 << 20), estimate.first_file_bytes(16 << 20)]
    }

    #[test]
    fn an_estimate_is_what_the_last_flush_took() {
        let estimate = FlushEstimate::default();
        assert_eq!(next(&estimate), [16 * MIB, 4 * MIB], "nothing is known");
        estimate.was_flushed(4 * MIB, 8 << 20);
        assert_eq!(next(&estimate), [10 * MIB, 10 * MIB / 4]);
        estimate.was_flushed(9 * MIB, 8 << 20);
        assert_eq!(next(&estimate), [16 * MIB, 4 * MIB], "no more than in memory");
    }

    #[test]
    fn a_flush_that_was_refused_begins_with_a_piece_more_than_its_file_had() {
        let estimate = FlushEstimate::default();
        estimate.was_flushed(8 * MIB, 16 << 20);
        estimate.was_refused(4 * MIB, 16 << 20);
        let least = 4 * MIB + FLUSH_MORE_BYTES;
        assert_eq!(next(&estimate), [10 * MIB, least]);
        estimate.was_refused(6 * MIB, 16 << 20);
        let least = 6 * MIB + FLUSH_MORE_BYTES;
        assert_eq!(next(&estimate), [10 * MIB, least]);
        estimate.was_refused(6 * MIB, 16 << 20);
        assert_eq!(next(&estimate), [10 * MIB, least * 5 / 4], "it came no further");
        for _ in 0..10 {
            estimate.was_refused(MIB, 16 << 20);
        }
        assert_eq!(next(&estimate), [32 * MIB + FLUSH_MORE_BYTES; 2], "there is an end to it");
        estimate.forget_refusal();
        assert_eq!(next(&estimate), [10 * MIB, 10 * MIB / 4]);
    }

    #[test]
    fn a_little_that_was_refused_asks_for_little() {
        let estimate = FlushEstimate::default();
        estimate.was_refused(0, 5000);
        assert_eq!(next(&estimate), [16 * MIB, 4 * MIB], "of what is written later");
        assert_eq!(estimate.first_file_bytes(5000), 5000);
    }
}
