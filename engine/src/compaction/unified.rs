//! Density levels (Cassandra's `UnifiedCompactionStrategy`): one rule from tiered to leveled, by a parameter a level.
//!
//! ```text
//! T4  tiered   fan-out 4, a level is merged when 4 of its runs overlap     writes little
//! L10 leveled  fan-out 10, a level is merged when 2 overlap                reads little
//! N   between: fan-out 2, 2 runs
//! ```
//!
//! 1. The density of a run is its bytes for the part of the ring that it spans, as if it spanned as much as the widest
//!    run. Its level is where that lies among powers of the fan-outs. The last parameter holds for all deeper levels.
//! 2. Runs of a level that overlap, directly or by others (`overlap_inclusion_method`), are a bucket. A bucket is due
//!    when some token is in as many of its runs as the parameter says.
//! 3. Of those that are due the one with most runs for its parameter is merged, the lower level first: so neither end
//!    can starve the other.
//! 4. A goal bounds what overwritten rows take (`amplification.rs`): it goes first where that is known, else last.

use std::mem;

use model::options::{self, Inclusion};

use super::amplification::Goal;
use super::piece::{CompactionContext, Piece, Run, free_runs};
use super::strategy::{Task, Why, merge};
use crate::limits::{FRAGMENT_BYTES_MAX, UNIFIED_BASE_BYTES};

/// The most runs that are merged at once, unless the table says.
const RUNS_MAX: usize = 32;
/// A run that spans less of the widest one counts as if it spanned this part: a few tokens say nothing of density.
const SPAN_PARTS_MAX: u128 = 1024;

/// Proposes level by level of density.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unified<'o>(pub(super) &'o options::Unified);

impl Unified<'_> {
    pub(super) fn propose(&self, pieces: &[Piece], context: &CompactionContext) -> Option<Task> {
        let runs = free_runs(pieces);
        let goal = Goal { goal: self.0.space_goal, overwritten_ratio: context.overwritten_ratio };
        let inputs = goal.first_of(pieces, &runs, || self.bucket(&runs))?;
        Some(self.merge(pieces, inputs, Why::Shape))
    }

    /// A task to merge these pieces.
    pub(super) fn merge(&self, pieces: &[Piece], inputs: Vec<usize>, why: Why) -> Task {
        let bytes: u64 = inputs.iter().map(|&index| pieces[index].bytes).sum();
        merge(inputs, 0, self.fragment_bytes(bytes), why)
    }

    /// The most bytes of a fragment of a run of so many bytes.
    pub(super) fn fragment_bytes(&self, run_bytes: u64) -> u64 {
        self.0.sizes.fragment_bytes(run_bytes).min(FRAGMENT_BYTES_MAX)
    }

    /// The pieces of the bucket that should be merged.
    fn bucket(&self, runs: &[Run]) -> Option<Vec<usize>> {
        let mut best: Option<(u64, Vec<&Run>)> = None;
        for (scale, level) in self.levels(runs) {
            for bucket in buckets(level, self.0.inclusion) {
                let depth = bucket.depth as u64;
                let score = depth * 1000 / scale.runs_min;
                if depth >= scale.runs_min && best.as_ref().is_none_or(|(most, _)| score > *most) {
                    best = Some((score, bucket.runs));
                }
            }
        }
        let (_, mut chosen) = best?;
        // One run alone would be merged into itself.
        let runs_max = self.0.runs_max.map_or(RUNS_MAX, |count| count.max(2) as usize);
        chosen.sort_by_key(|run| run.bytes);
        let chosen = chosen.into_iter().take(runs_max);
        Some(chosen.flat_map(|run| run.pieces.iter().copied()).collect())
    }

    /// The runs of each level with its parameter, lower levels first.
    fn levels<'r>(&self, runs: &'r [Run]) -> Vec<(options::Scaling, Vec<&'r Run>)> {
        let widest = runs.iter().map(|run| run.width).max().unwrap_or(1);
        let density = |run: &Run| {
            let width = run.width.max(widest / SPAN_PARTS_MAX).max(1);
            run.bytes as f64 * (widest as f64 / width as f64)
        };
        let mut rest: Vec<(f64, &Run)> = runs.iter().map(|run| (density(run), run)).collect();
        rest.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut levels = Vec::new();
        let mut bytes_max = self.0.flush_bytes.unwrap_or(UNIFIED_BASE_BYTES) as f64;
        let mut rest = rest.as_slice();
        while !rest.is_empty() {
            let scale = self.0.levels[levels.len().min(self.0.levels.len() - 1)];
            bytes_max *= scale.fanout as f64;
            let (here, deeper) = rest.split_at(rest.partition_point(|run| run.0 < bytes_max));
            levels.push((scale, here.iter().map(|run| run.1).collect()));
            rest = deeper;
        }
        levels
    }
}

/// Runs of one level that overlap.
struct Bucket<'r> {
    runs: Vec<&'r Run>,
    /// How many of them hold one token, where most do.
    depth: usize,
}

/// The buckets of a level. A run spans from its first to its last token.
fn buckets(mut runs: Vec<&Run>, inclusion: Inclusion) -> Vec<Bucket<'_>> {
    runs.sort_by_key(|run| run.tokens.first);
    let mut buckets: Vec<Bucket<'_>> = Vec::new();
    let (mut open, mut together): (Vec<&Run>, Vec<&Run>) = (Vec::new(), Vec::new());
    let mut deepest: Vec<&Run> = Vec::new();
    for run in runs {
        open.retain(|other| other.tokens.last >= run.tokens.first);
        if open.is_empty() {
            buckets.extend(included(mem::take(&mut together), mem::take(&mut deepest), inclusion));
        }
        open.push(run);
        together.push(run);
        if open.len() > deepest.len() {
            deepest.clone_from(&open);
        }
    }
    buckets.extend(included(together, deepest, inclusion));
    buckets
}

/// What is merged of runs that hang `together`, most of which overlap in the `deepest` place.
fn included<'r>(
    together: Vec<&'r Run>,
    deepest: Vec<&'r Run>,
    inclusion: Inclusion,
) -> Option<Bucket<'r>> {
    let depth = deepest.len();
    let meets = |run: &&Run| deepest.iter().any(|of| of.tokens.intersection(&run.tokens).is_some());
    let runs = match inclusion {
        Inclusion::Transitive => together,
        Inclusion::Single => together.into_iter().filter(meets).collect(),
        Inclusion::None => deepest,
    };
    (depth > 0).then_some(Bucket { runs, depth })
}
