//! The numbers of ScyllaDB's incremental strategy.

use super::SizeTiered;
use crate::options::effect::SubOption;
use crate::options::refusal::{Refusal, Result};
use crate::options::sub_options::SubOptions;

pub(super) const SUB_OPTIONS: [SubOption; 7] = [
    SubOption::works("min_threshold"),
    SubOption::works("max_threshold"),
    SubOption::works("bucket_low"),
    SubOption::works("bucket_high"),
    SubOption::works("min_sstable_size"),
    SubOption::works("space_amplification_goal"),
    SubOption::works("sstable_size_in_mb"),
];
/// Overwritten rows take a quarter of the live ones, or less. ScyllaDB has no goal unless it is given one.
pub(super) const SPACE_GOAL: f64 = 1.25;

/// Which runs are of similar size, and what all may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Incremental {
    /// The tiers of runs.
    pub by_size: SizeTiered,
    /// A fragment is cut here or before; in bytes.
    pub fragment_bytes_max: u64,
    /// All runs are merged when all take so many times the bytes of the largest.
    pub space_goal: f64,
}

impl Incremental {
    pub(super) fn read(left: &mut SubOptions<'_>) -> Result<Incremental> {
        let by_size = SizeTiered::read(left)?;
        let fragment_bytes_max = u64::from(left.positive("sstable_size_in_mb", 1000)?) << 20;
        let space_goal = left.float("space_amplification_goal", SPACE_GOAL)?;
        if !(space_goal > 1.0 && space_goal <= 2.0) {
            return Refusal::config(format!(
                "space_amplification_goal value ({space_goal}) must be greater than 1.0 and less than or equal to 2.0"
            ));
        }
        Ok(Incremental { by_size, fragment_bytes_max, space_goal })
    }
}
