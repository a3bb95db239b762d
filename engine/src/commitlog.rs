//! The commit log of one shard: every write is here before it can be read.
//!
//! ```text
//!   append ──► filling block ──► full blocks ──► one O_DSYNC write ──► durable ──► flushed ──► segment is free
//! ```
//!
//! Double-buffered group commit: while one block is written the next one fills, so a commit carries all
//! that came meanwhile. Segments are zero-filled once and then used again.
//!
//! Invariants
//! 1. `released ≤ flushed ≤ durable ≤ appended`, always ([`Positions`]).
//! 2. One write is in flight; each block names the end of the one before it, so a hole is seen.
//! 3. The next segment is ready before the last block of one is written: a full disk never meets a commit.
//! 4. The first failed write poisons the log: nothing is ever acknowledged or retried after it.
//!
//! Not here: when to write and whom to answer (`Engine::drive_log`), the byte layout (`FORMAT.md`).
//! Rejected: one log per table (syncs multiply with tables); appending to growing files (each commit would
//! write the filesystem's journal too: 120 against 80 µs).

mod files;
mod position;
mod replay;
mod segment;
mod state;
mod writer;

#[cfg(test)]
mod tests;

pub use position::{Position, Positions};
pub use replay::{Record, Replay, Tail};
pub use writer::Log;

use crate::limits;

/// When a write may be acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// After the write that holds it is durable.
    Batch,
    /// When it is appended. The log is written all the same, one write after the other: a crash loses
    /// at most what was appended since the write under way began and what that write holds, together
    /// no more than [`Config::pending_bytes_max`].
    Periodic,
}

/// How a log is to be kept.
#[derive(Debug, Clone)]
pub struct Config {
    /// The size of a segment file.
    pub segment_bytes: u32,
    /// All segments together; when they are used up, appends are `Overloaded` until something is flushed.
    pub log_bytes_max: u64,
    /// What may wait to be written; more is `Overloaded`.
    pub pending_bytes_max: usize,
    /// When to acknowledge.
    pub sync: SyncMode,
    /// Chance, for the segments' uuids.
    pub seed: u64,
}

impl Config {
    /// The defaults, with `seed` as the source of uuids.
    pub fn new(seed: u64) -> Config {
        Config {
            segment_bytes: limits::SEGMENT_BYTES,
            log_bytes_max: limits::LOG_BYTES_MAX,
            pending_bytes_max: limits::LOG_PENDING_BYTES_MAX,
            sync: SyncMode::Batch,
            seed,
        }
    }

    /// The longest record: half a segment, so that what is left of one and the next always hold it.
    pub fn record_bytes_max(&self) -> usize {
        limits::LOG_RECORD_BYTES_MAX.min(self.segment_bytes as usize / 2)
    }
}
