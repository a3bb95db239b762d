//! How long the file of a table's next flush becomes: rows in a file take less than in memory, by how much depends on
//! the table, and only its last flush tells.
//!
//! ```text
//! flush ─► bytes of its file / bytes in memory ─► the space that the next one is promised (`jobs.rs`)
//!   └─ the disk was full ─► what its file had and a piece more / bytes in memory ─► the least to begin with
//! ```
//!
//! Nothing is known after a start, until the first flush: then a byte in a file is thought of for each one in memory.
//! Not here: the promise of space, which grows while a flush writes (`space_ledger.rs`).

use std::cell::Cell;

use crate::limits::{FLUSH_BEGINS_WITH_DIVISOR, FLUSH_MORE_BYTES};

/// As many times the file of the last flush, for each byte in memory, the next one is thought to take.
const ESTIMATE_FACTOR: f64 = 1.25;

/// What the last flushes of one table showed.
#[derive(Debug, Default)]
pub(crate) struct FlushEstimate {
    /// Bytes of the last file for each byte in memory, at most 1.
    file_part: Cell<Option<f64>>,
    /// The same of flushes that met a full disk since then, with a piece more than their files had.
    refused_part: Cell<f64>,
}

impl FlushEstimate {
    /// Bytes in a file for each byte in memory: at most 1, and 1 while nothing is known.
    pub(crate) fn file_part(&self) -> f64 {
        self.file_part.get().unwrap_or(1.0).max(self.refused_part.get()).min(1.0)
    }

    /// Bytes of the file that so many bytes in memory are thought to become: a quarter more than the last flush shows.
    pub(crate) fn next_file_bytes(&self, memory_bytes: usize) -> u64 {
        let by_last = (memory_bytes as f64 * (self.file_part() * ESTIMATE_FACTOR).min(1.0)) as u64;
        by_last.max(self.refused_bytes(memory_bytes))
    }

    /// Bytes that a flush of so many in memory begins with where its estimate is not free: more than it was refused at.
    pub(crate) fn first_file_bytes(&self, memory_bytes: usize) -> u64 {
        let by_last = self.next_file_bytes(memory_bytes) / FLUSH_BEGINS_WITH_DIVISOR;
        by_last.max(self.refused_bytes(memory_bytes))
    }

    fn refused_bytes(&self, memory_bytes: usize) -> u64 {
        (memory_bytes as f64 * self.refused_part.get()).ceil() as u64
    }

    /// Bytes of memory became a file of so many bytes.
    pub(crate) fn was_flushed(&self, file_bytes: u64, memory_bytes: usize) {
        self.file_part.set(Some(part(file_bytes, memory_bytes).min(1.0)));
        self.refused_part.set(0.0);
    }

    /// A flush met a full disk when its file had so many bytes, of so many in memory.
    pub(crate) fn was_refused(&self, file_bytes: u64, memory_bytes: usize) {
        let refused_part = part(file_bytes + FLUSH_MORE_BYTES, memory_bytes);
        self.refused_part.set(self.refused_part.get().max(refused_part));
    }
}

fn part(file_bytes: u64, memory_bytes: usize) -> f64 {
    file_bytes as f64 / memory_bytes.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_what_the_last_flush_took() {
        let (estimate, mib) = (FlushEstimate::default(), 1 << 20);
        let next = |memory_bytes: usize| {
            [estimate.next_file_bytes(memory_bytes), estimate.first_file_bytes(memory_bytes)]
        };
        assert_eq!(next(16 * mib), [16 << 20, 4 << 20], "nothing is known");
        estimate.was_flushed(4 << 20, 8 * mib);
        assert_eq!(next(16 * mib), [10 << 20, 10 << 18]);
        estimate.was_flushed(9 << 20, 8 * mib);
        assert_eq!(next(16 * mib), [16 << 20, 4 << 20], "no more than in memory");
    }

    #[test]
    fn a_flush_that_was_refused_begins_with_a_piece_more_than_its_file_had() {
        let (estimate, mib) = (FlushEstimate::default(), 1 << 20);
        let next = || [estimate.next_file_bytes(16 * mib), estimate.first_file_bytes(16 * mib)];
        estimate.was_flushed(1 << 20, 16 * mib);
        assert_eq!(next(), [5 << 18, 5 << 16]);
        estimate.was_refused(4 << 20, 16 * mib);
        let least = (4 << 20) + FLUSH_MORE_BYTES;
        assert_eq!(next(), [least * 5 / 4, least]);
        estimate.was_refused(1 << 20, 16 * mib);
        assert_eq!(next(), [least * 5 / 4, least], "that it was refused earlier says nothing");
        estimate.was_refused(16 << 20, 16 * mib);
        let least = (16 << 20) + FLUSH_MORE_BYTES;
        assert_eq!((next(), estimate.file_part()), ([least, least], 1.0), "longer than in memory");
        estimate.was_flushed(1 << 20, 16 * mib);
        assert_eq!(next(), [5 << 18, 5 << 16]);
    }
}
