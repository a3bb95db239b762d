//! Time windows: what was written in one stretch of time ends in one run, which later dies as a whole.
//!
//! 1. A run belongs to the window of its newest timestamp.
//! 2. In the newest window runs are merged by size. A window that is past is merged into one run, newest
//!    windows first. Windows never mix.
//! 3. A run whose last cell is past its grace is dropped without reading it (`strategy.rs`).

use std::collections::BTreeMap;

use model::options;

use super::piece::{Candidate, Run, free_runs};
use super::size_tiered::SizeTiered;
use super::strategy::{Task, Why, merge};
use crate::limits::FRAGMENT_BYTES_MAX;

/// Proposes by time, and by size within the newest window.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeWindow<'o>(pub(super) &'o options::TimeWindow);

impl TimeWindow<'_> {
    pub(super) fn propose(&self, pieces: &[Candidate]) -> Option<Task> {
        let newest = pieces.iter().map(|piece| self.window_of(piece.newest_timestamp)).max()?;
        let mut windows: BTreeMap<i64, Vec<Run>> = BTreeMap::new();
        for run in free_runs(pieces) {
            windows.entry(self.window_of(run.newest_timestamp)).or_default().push(run);
        }
        let inputs = windows.iter().rev().find_map(|(window, runs)| {
            if *window == newest {
                return SizeTiered(&self.0.by_size).bucket(runs);
            }
            let chosen = runs.iter().take(self.0.by_size.max_threshold as usize);
            (runs.len() > 1).then(|| chosen.flat_map(|run| run.pieces.iter().copied()).collect())
        })?;
        Some(merge(inputs, 0, FRAGMENT_BYTES_MAX, Why::Shape))
    }

    fn window_of(&self, timestamp: i64) -> i64 {
        timestamp.div_euclid(self.0.window)
    }
}
