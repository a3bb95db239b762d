//! ScyllaDB's incremental strategy: size tiers of runs, and a goal for the space that overwritten rows take.
//!
//! 1. Runs of similar size are merged, as by size tiers.
//! 2. `space_amplification_goal` bounds what overwritten rows take (`amplification.rs`): it goes first where that is known,
//!    else last.

use model::options;

use super::amplification::Goal;
use super::piece::{CompactionContext, Piece, free_runs};
use super::size_tiered::SizeTiered;
use super::strategy::{Task, Why, merge};
use crate::limits::FRAGMENT_BYTES_MAX;

/// Proposes by size, within a goal for space.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incremental<'o>(pub(super) &'o options::Incremental);

impl Incremental<'_> {
    pub(super) fn fragment_bytes(&self) -> u64 {
        self.0.fragment_bytes_max.min(FRAGMENT_BYTES_MAX)
    }

    pub(super) fn propose(&self, pieces: &[Piece], context: &CompactionContext) -> Option<Task> {
        let runs = free_runs(pieces);
        let goal = Goal { goal: self.0.space_goal, overwritten_ratio: context.overwritten_ratio };
        let inputs = goal.first_of(pieces, &runs, || SizeTiered(&self.0.by_size).bucket(&runs))?;
        Some(merge(inputs, 0, self.fragment_bytes(), Why::Shape))
    }
}
