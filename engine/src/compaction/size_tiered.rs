//! Size tiers: runs of similar size are merged, so that each byte is rewritten about once a tier.
//!
//! 1. Runs are put into buckets, smallest first: one joins a bucket if its size is within `bucket_low` and
//!    `bucket_high` of the bucket's mean, or if both are below `min_sstable_size`.
//! 2. Of the buckets with at least `min_threshold` runs the one of the smallest runs is merged, at most
//!    `max_threshold` of them: that lowers the number of files most for the bytes it writes.

use super::options::Options;
use super::piece::{Piece, Run, free_runs};
use super::strategy::{Task, Why, merge};
use crate::error::{Error, Result};
use crate::limits::FRAGMENT_BYTES_MAX;

/// The options.
#[derive(Clone, Debug)]
pub(super) struct SizeTiered {
    min_threshold: usize,
    pub(super) max_threshold: usize,
    bucket_low: f64,
    bucket_high: f64,
    small_bytes: u64,
}

impl SizeTiered {
    /// Cassandra's names, defaults and bounds.
    pub(super) fn of(options: &mut Options<'_>) -> Result<SizeTiered> {
        let min_threshold = options.integer("min_threshold", 4, 2..=i32::MAX as u64)? as usize;
        let max_threshold = options.integer("max_threshold", 32, 2..=i32::MAX as u64)? as usize;
        if min_threshold > max_threshold {
            return Err(Error::invalid(format!(
                "min_threshold ({min_threshold}) cannot be greater than max_threshold ({max_threshold})"
            )));
        }
        let bucket_low = options.number("bucket_low", 0.5, 0.0..=f64::MAX)?;
        let bucket_high = options.number("bucket_high", 1.5, 0.0..=f64::MAX)?;
        if bucket_high <= bucket_low {
            return Err(Error::invalid(format!(
                "bucket_high value ({bucket_high}) is less than or equal to the bucket_low value ({bucket_low})"
            )));
        }
        let small_bytes = options.integer("min_sstable_size", 50 << 20, 0..=u64::MAX)?;
        Ok(SizeTiered { min_threshold, max_threshold, bucket_low, bucket_high, small_bytes })
    }

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
        let full = |(_, runs): &&(u64, Vec<&Run>)| runs.len() >= self.min_threshold;
        let (_, runs) =
            buckets.iter().filter(full).min_by_key(|(bytes, runs)| bytes / runs.len() as u64)?;
        let chosen = runs.iter().take(self.max_threshold);
        Some(chosen.flat_map(|run| run.pieces.iter().copied()).collect())
    }

    fn fits(&self, run: &Run, mean: u64) -> bool {
        let (bytes, mean_bytes) = (run.bytes as f64, mean as f64);
        (mean_bytes * self.bucket_low < bytes && bytes < mean_bytes * self.bucket_high)
            || (run.bytes < self.small_bytes && mean < self.small_bytes)
    }
}
