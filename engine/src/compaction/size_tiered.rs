//! Size tiers: runs of similar size are merged, so that each byte is rewritten about once a tier.
//!
//! 1. Runs are put into buckets, smallest first: one joins a bucket if its size is within `bucket_low` and
//!    `bucket_high` of the bucket's mean, or if both are below `min_sstable_size`.
//! 2. Of the buckets with at least `min_threshold` runs the one of the smallest runs is merged, at most
//!    `max_threshold` of them: that lowers the number of files most for the bytes it writes.

use model::options;

use super::piece::{Piece, Run, free_runs};
use super::strategy::{Task, Why, merge};
use crate::limits::FRAGMENT_BYTES_MAX;

/// Proposes by size.
#[derive(Clone, Copy, Debug)]
pub(super) struct SizeTiered<'o>(pub(super) &'o options::SizeTiered);

impl SizeTiered<'_> {
    pub(super) fn propose(&self, pieces: &[Piece]) -> Option<Task> {
        let inputs = self.bucket(&free_runs(pieces))?;
        Some(merge(inputs, 0, FRAGMENT_BYTES_MAX, Why::Shape))
    }

    /// The pieces of the bucket that should be merged, of runs that are sorted by size.
    pub(super) fn bucket(&self, runs: &[Run]) -> Option<Vec<usize>> {
        let mut buckets: Vec<(u64, Vec<&Run>)> = Vec::new();
        for run in runs {
            match buckets
                .iter_mut()
                .find(|(bytes, runs)| self.fits(run, *bytes / runs.len() as u64))
            {
                Some((bytes, runs)) => {
                    *bytes += run.bytes;
                    runs.push(run);
                }
                None => buckets.push((run.bytes, vec![run])),
            }
        }
        let full = |(_, runs): &&(u64, Vec<&Run>)| runs.len() >= self.0.min_threshold as usize;
        let (_, runs) =
            buckets.iter().filter(full).min_by_key(|(bytes, runs)| bytes / runs.len() as u64)?;
        let chosen = runs.iter().take(self.0.max_threshold as usize);
        Some(chosen.flat_map(|run| run.pieces.iter().copied()).collect())
    }

    fn fits(&self, run: &Run, mean: u64) -> bool {
        let (bytes, mean_bytes) = (run.bytes as f64, mean as f64);
        (mean_bytes * self.0.bucket_low < bytes && bytes < mean_bytes * self.0.bucket_high)
            || (run.bytes < self.0.small_bytes && mean < self.0.small_bytes)
    }
}
