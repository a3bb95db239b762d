//! Time windows: what was written in one stretch of time ends in one run, which later dies as a whole.
//!
//! 1. A run belongs to the window of its newest timestamp.
//! 2. In the newest window runs are merged by size. A window that is past is merged into one run, newest
//!    windows first. Windows never mix.
//! 3. A run whose last cell is past its grace is dropped without reading it (`strategy.rs`).

use super::options::Options;
use super::piece::{Piece, Run, free_runs};
use super::size_tiered::SizeTiered;
use super::strategy::{Task, Why, merge};
use crate::error::{Error, Result};
use crate::limits::FRAGMENT_BYTES_MAX;
use std::collections::BTreeMap;

/// The options.
#[derive(Clone, Debug)]
pub(super) struct TimeWindow {
    /// Of timestamps as they are, whatever their resolution.
    window: i64,
    by_size: SizeTiered,
}

impl TimeWindow {
    /// Cassandra's names, defaults and bounds.
    pub(super) fn of(options: &mut Options<'_>) -> Result<TimeWindow> {
        let seconds = match options.text("compaction_window_unit").unwrap_or("DAYS") {
            "MINUTES" => 60,
            "HOURS" => 60 * 60,
            "DAYS" => 24 * 60 * 60,
            other => {
                return Err(Error::invalid(format!(
                    "{other} is not valid for compaction_window_unit"
                )));
            }
        };
        let count = options.integer("compaction_window_size", 1, 1..=100_000)?;
        let resolution = match options.text("timestamp_resolution").unwrap_or("MICROSECONDS") {
            "SECONDS" => 1,
            "MILLISECONDS" => 1000,
            "MICROSECONDS" => 1_000_000,
            other => {
                return Err(Error::invalid(format!(
                    "{other} is not valid for timestamp_resolution"
                )));
            }
        };
        // Expiry is judged at every proposal, so its frequency has nothing to set.
        options.integer("expired_sstable_check_frequency_seconds", 600, 0..=u64::MAX)?;
        if options.text("unsafe_aggressive_sstable_expiration").is_some_and(|text| text != "false")
        {
            let what =
                "unsafe_aggressive_sstable_expiration would bring deleted rows back: not supported";
            return Err(Error::invalid(what));
        }
        let window = count as i64 * seconds * resolution;
        Ok(TimeWindow { window, by_size: SizeTiered::of(options)? })
    }

    pub(super) fn propose(&self, pieces: &[Piece]) -> Option<Task> {
        let newest = pieces.iter().map(|piece| self.window_of(piece.newest_timestamp)).max()?;
        let mut windows: BTreeMap<i64, Vec<Run>> = BTreeMap::new();
        for run in free_runs(pieces) {
            windows.entry(self.window_of(run.newest_timestamp)).or_default().push(run);
        }
        let inputs = windows.iter().rev().find_map(|(window, runs)| {
            if *window == newest {
                return self.by_size.bucket(runs);
            }
            let chosen = runs.iter().take(self.by_size.max_threshold);
            (runs.len() > 1).then(|| chosen.flat_map(|run| run.pieces.iter().copied()).collect())
        })?;
        Some(merge(inputs, 0, FRAGMENT_BYTES_MAX, Why::Shape))
    }

    fn window_of(&self, timestamp: i64) -> i64 {
        timestamp.div_euclid(self.window)
    }
}
