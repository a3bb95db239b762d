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

use super::options::Options;
use super::piece::{Piece, Run, free_runs};
use super::strategy::{Task, Why, merge};
use crate::error::{Error, Result};
use crate::limits::{FRAGMENT_BYTES_MAX, UNIFIED_BASE_BYTES};

/// The most runs that are merged at once, unless the table says.
const RUNS_MAX: u64 = 32;

/// The options.
#[derive(Clone, Debug)]
pub(super) struct Unified {
    levels: Vec<Scale>,
    runs_max: usize,
    fragment_bytes: u64,
}

/// One scaling parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scale {
    fanout: u64,
    runs_min: usize,
}

impl Unified {
    /// Cassandra's names, defaults and bounds.
    pub(super) fn of(options: &mut Options<'_>) -> Result<Unified> {
        let scales = options.text("scaling_parameters").unwrap_or("T4");
        let levels = scales.split(',').map(|text| Scale::of(text.trim())).collect::<Result<_>>()?;
        let fragment_bytes =
            options.size("target_sstable_size", FRAGMENT_BYTES_MAX, 1 << 20..=u64::MAX)?;
        let runs_max = match options.integer("max_sstables_to_compact", 0, 0..=u32::MAX.into())? {
            0 => RUNS_MAX,
            count => count.max(2),
        };
        // A core owns its range alone and cuts fragments by size, so there are no shards to count.
        options.size("min_sstable_size", 100 << 20, 0..=u64::MAX)?;
        options.integer("base_shard_count", 4, 1..=u32::MAX.into())?;
        options.number("sstable_growth", 0.333, 0.0..=1.0)?;
        options.text("flush_size_override");
        options.text("overlap_inclusion_method");
        options.integer("expired_sstable_check_frequency_seconds", 600, 0..=u64::MAX)?;
        let fragment_bytes = fragment_bytes.min(FRAGMENT_BYTES_MAX);
        Ok(Unified { levels, runs_max: runs_max as usize, fragment_bytes })
    }

    pub(super) fn fragment_bytes(&self) -> u64 {
        self.fragment_bytes
    }

    pub(super) fn propose(&self, pieces: &[Piece]) -> Option<Task> {
        let runs = free_runs(pieces);
        let mut rest = runs.as_slice();
        let (mut level, mut bytes_max) = (0, UNIFIED_BASE_BYTES);
        while !rest.is_empty() {
            let scale = self.levels[level.min(self.levels.len() - 1)];
            bytes_max = bytes_max.saturating_mul(scale.fanout);
            let (here, deeper) = rest.split_at(rest.partition_point(|run| run.bytes < bytes_max));
            if here.len() >= scale.runs_min {
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
        let chosen = runs.iter().take(self.runs_max);
        let inputs = chosen.flat_map(|run| run.pieces.iter().copied()).collect();
        merge(inputs, 0, self.fragment_bytes, Why::Shape)
    }
}

impl Scale {
    /// `T4`, `L10`, `N`, or the number they stand for: 2, -8, 0.
    fn of(text: &str) -> Result<Scale> {
        let refused = || {
            Error::invalid(format!(
                "Scaling parameter {text} must be L or T with a number from 2 on, N, or a number"
            ))
        };
        let fanout = |digits: &str| match digits.parse() {
            Ok(fanout @ 2..=1000) => Ok(fanout),
            _ => Err(refused()),
        };
        if text == "N" {
            return Ok(Scale { fanout: 2, runs_min: 2 });
        }
        if let Some(digits) = text.strip_prefix('T') {
            let fanout = fanout(digits)?;
            return Ok(Scale { fanout, runs_min: fanout as usize });
        }
        if let Some(digits) = text.strip_prefix('L') {
            return Ok(Scale { fanout: fanout(digits)?, runs_min: 2 });
        }
        match text.parse::<i64>() {
            Ok(w @ 0..=998) => Ok(Scale { fanout: w as u64 + 2, runs_min: w as usize + 2 }),
            Ok(w @ -998..0) => Ok(Scale { fanout: w.unsigned_abs() + 2, runs_min: 2 }),
            _ => Err(refused()),
        }
    }
}
