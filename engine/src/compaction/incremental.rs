//! ScyllaDB's incremental strategy: size tiers of runs, and a goal for the space that overwritten rows take.
//!
//! 1. Runs of similar size are merged, as by size tiers.
//! 2. When none are due, and what lies beside the largest run is more than `space_amplification_goal` allows, all
//!    runs are merged.

use model::options;

use super::piece::{Candidate, free_runs};
use super::size_tiered::SizeTiered;
use super::space::over_goal;
use super::strategy::{Task, Why, merge};
use crate::limits::FRAGMENT_BYTES_MAX;

/// Proposes by size, within a goal for space.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incremental<'o>(pub(super) &'o options::Incremental);

impl Incremental<'_> {
    pub(super) fn fragment_bytes(&self) -> u64 {
        self.0.fragment_bytes_max.min(FRAGMENT_BYTES_MAX)
    }

    pub(super) fn propose(&self, pieces: &[Candidate]) -> Option<Task> {
        let runs = free_runs(pieces);
        let due = SizeTiered(&self.0.by_size).bucket(&runs);
        let inputs = due.or_else(|| over_goal(pieces, &runs, self.0.space_goal))?;
        Some(merge(inputs, 0, self.fragment_bytes(), Why::Shape))
    }
}
