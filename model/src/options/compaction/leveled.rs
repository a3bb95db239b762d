//! The numbers of levels.

use super::SizeTiered;
use crate::options::effect::SubOption;
use crate::options::refusal::{Refusal, Result};
use crate::options::sub_options::SubOptions;

pub(super) const SUB_OPTIONS: [SubOption; 8] = [
    SubOption::works("sstable_size_in_mb"),
    SubOption::works("fanout_size"),
    SubOption::kept(
        "single_sstable_uplevel",
        "true",
        "a file moves by being merged, which also purges",
    ),
    SubOption::works("min_threshold"),
    SubOption::works("max_threshold"),
    SubOption::works("bucket_low"),
    SubOption::works("bucket_high"),
    SubOption::works("min_sstable_size"),
];
/// Levels above level 0 in Cassandra's arithmetic of the largest.
const LEVELS: u32 = 8;

/// How large files and levels are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leveled {
    /// Where a file is cut.
    pub sstable_bytes: u64,
    /// How many times larger than the level before a level is.
    pub fanout: u64,
    /// How runs of level 0 are merged that wait for level 1.
    pub level_0: SizeTiered,
}

impl Leveled {
    pub(super) fn read(left: &mut SubOptions<'_>) -> Result<Leveled> {
        let sstable_bytes = u64::from(left.positive("sstable_size_in_mb", 160)?) << 20;
        let fanout = u64::from(left.positive("fanout_size", 10)?);
        left.text("single_sstable_uplevel");
        let deepest = (fanout as f64).powi(LEVELS as i32) * sstable_bytes as f64;
        if deepest > i64::MAX as f64 {
            return Refusal::config(format!(
                "At most {} bytes may be in a compaction level; your maxSSTableSize must be absurdly high to compute {deepest:.0}",
                i64::MAX
            ));
        }
        Ok(Leveled { sstable_bytes, fanout, level_0: SizeTiered::read(left)? })
    }
}
