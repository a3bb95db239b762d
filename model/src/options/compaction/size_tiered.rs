//! The numbers of size tiers.

use crate::options::effect::SubOption;
use crate::options::refusal::{Refusal, Result};
use crate::options::sub_options::SubOptions;

pub(super) const SUB_OPTIONS: [SubOption; 5] = [
    SubOption::works("min_threshold"),
    SubOption::works("max_threshold"),
    SubOption::works("bucket_low"),
    SubOption::works("bucket_high"),
    SubOption::works("min_sstable_size"),
];
/// Which runs are of similar size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeTiered {
    /// A bucket is merged when it has so many runs.
    pub min_threshold: u32,
    /// At most this many runs are merged at once.
    pub max_threshold: u32,
    /// A run joins a bucket from this part of its mean size on.
    pub bucket_low: f64,
    /// A run joins a bucket up to this multiple of its mean size.
    pub bucket_high: f64,
    /// Smaller runs share a bucket; in bytes.
    pub small_bytes: u64,
}

impl SizeTiered {
    /// All but the thresholds.
    pub(super) fn read(left: &mut SubOptions<'_>) -> Result<SizeTiered> {
        let small: i64 = left.integer("min_sstable_size", 50 << 20)?;
        let Ok(small_bytes) = u64::try_from(small) else {
            return Refusal::config(format!("min_sstable_size must be non negative: {small}"));
        };
        let bucket_low = left.float("bucket_low", 0.5)?;
        let bucket_high = left.float("bucket_high", 1.5)?;
        if bucket_high <= bucket_low {
            return Refusal::config(format!(
                "bucket_high value ({bucket_high:?}) is less than or equal to the bucket_low value ({bucket_low:?})"
            ));
        }
        let (min_threshold, max_threshold) = (4, 32);
        Ok(SizeTiered { min_threshold, max_threshold, bucket_low, bucket_high, small_bytes })
    }
}
