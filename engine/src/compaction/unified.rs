//! Density levels (Cassandra's unified strategy): one rule from tiered to leveled, by a parameter a level.
//!
//! ```text
//! T4  tiered   fan-out 4, a level is merged when it has 4 runs     writes little
//! L10 leveled  fan-out 10, a level is merged when it has 2         reads little
//! N   between: fan-out 2, 2 runs
//! ```
//!
//! A run's level is where its size lies among powers of the fan-out. All runs of a level are merged when
//! there are enough, lower levels first. The last parameter holds for all deeper levels.

use model::options;

use super::piece::{Candidate, Run, free_runs};
use super::strategy::{Task, Why, merge};
use crate::limits::{FRAGMENT_BYTES_MAX, UNIFIED_BASE_BYTES};

/// The most runs that are merged at once, unless the table says.
const RUNS_MAX: usize = 32;

/// Proposes level by level of density.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unified<'o>(pub(super) &'o options::Unified);

impl Unified<'_> {
    pub(super) fn fragment_bytes(&self) -> u64 {
        self.0.target_bytes.min(FRAGMENT_BYTES_MAX)
    }

    pub(super) fn propose(&self, pieces: &[Candidate]) -> Option<Task> {
        let runs = free_runs(pieces);
        let mut rest = runs.as_slice();
        let (mut level, mut bytes_max) = (0, UNIFIED_BASE_BYTES);
        while !rest.is_empty() {
            let scale = self.0.levels[level.min(self.0.levels.len() - 1)];
            bytes_max = bytes_max.saturating_mul(scale.fanout);
            let (here, deeper) = rest.split_at(rest.partition_point(|run| run.bytes < bytes_max));
            if here.len() as u64 >= scale.runs_min {
                return Some(self.merge(here));
            }
            if bytes_max == u64::MAX {
                return None;
            }
            rest = deeper;
            level += 1;
        }
        None
    }

    fn merge(&self, runs: &[Run]) -> Task {
        // One run alone would be merged into itself.
        let runs_max = self.0.runs_max.map_or(RUNS_MAX, |count| count.max(2) as usize);
        let chosen = runs.iter().take(runs_max);
        let inputs = chosen.flat_map(|run| run.pieces.iter().copied()).collect();
        merge(inputs, 0, self.fragment_bytes(), Why::Shape)
    }
}
