//! Time windows: what was written in one stretch of time ends in one run, which later dies as a whole.
//!
//! 1. A run belongs to the window of its newest timestamp. The current window is the newest that has a run, but
//!    none of the future: one write with a far timestamp does not make the present past. (Cassandra takes the newest.)
//! 2. In the current window, and in those after it, runs are merged by size. In a window that is past so too while
//!    there are enough of a size; then what is left is merged into one run, newest windows first. Windows never mix.
//! 3. A run whose last cell is past its grace is dropped without reading it (`strategy.rs`).

use std::collections::BTreeMap;

use model::options;

use super::piece::{CompactionContext, Piece, Run, free_runs};
use super::size_tiered::SizeTiered;
use super::strategy::{Task, Why, merge};
use crate::limits::FRAGMENT_BYTES_MAX;

/// Proposes by time, and by size within the newest window.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeWindow<'o>(pub(super) &'o options::TimeWindow);

impl TimeWindow<'_> {
    pub(super) fn propose(&self, pieces: &[Piece], context: &CompactionContext) -> Option<Task> {
        let newest = pieces.iter().map(|piece| self.window_of(piece.newest_timestamp)).max()?;
        let now = i64::from(context.now_s).saturating_mul(self.0.units_per_second);
        let current = newest.min(self.window_of(now));
        let windows = self.windows(pieces);
        let inputs = windows.iter().rev().find_map(|(window, runs)| {
            let by_size = SizeTiered(&self.0.by_size).bucket(runs);
            if by_size.is_some() || *window >= current {
                return by_size;
            }
            let chosen = runs.iter().take(self.0.by_size.max_threshold as usize);
            (runs.len() > 1).then(|| chosen.flat_map(|run| run.pieces.iter().copied()).collect())
        })?;
        Some(merge(inputs, 0, FRAGMENT_BYTES_MAX, Why::Shape))
    }

    /// One merge of each window that has several runs.
    pub(super) fn major(&self, pieces: &[Piece]) -> Vec<Task> {
        let windows = self.windows(pieces).into_values().filter(|runs| runs.len() > 1);
        let inputs =
            |runs: Vec<Run>| runs.into_iter().flat_map(|run| run.pieces).collect::<Vec<usize>>();
        windows.map(|runs| merge(inputs(runs), 0, FRAGMENT_BYTES_MAX, Why::Shape)).collect()
    }

    /// The runs that can be merged, by their windows.
    fn windows(&self, pieces: &[Piece]) -> BTreeMap<i64, Vec<Run>> {
        let mut windows: BTreeMap<i64, Vec<Run>> = BTreeMap::new();
        for run in free_runs(pieces) {
            windows.entry(self.window_of(run.newest_timestamp)).or_default().push(run);
        }
        windows
    }

    fn window_of(&self, timestamp: i64) -> i64 {
        timestamp.div_euclid(self.0.window)
    }
}
