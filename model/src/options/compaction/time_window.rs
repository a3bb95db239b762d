//! The numbers of time windows.

use super::{SizeTiered, no_aggressive_expiration};
use crate::options::effect::{Effect, SubOption};
use crate::options::refusal::{Refusal, Result};
use crate::options::sub_options::SubOptions;

pub(super) const SUB_OPTIONS: [SubOption; 10] = [
    SubOption::works("compaction_window_unit"),
    SubOption::works("compaction_window_size"),
    SubOption::works("timestamp_resolution"),
    SubOption::kept(
        "expired_sstable_check_frequency_seconds",
        "600",
        "whether a file has expired is asked at every look for work",
    ),
    SubOption {
        name: "unsafe_aggressive_sstable_expiration",
        default: "false",
        effect: Effect::Refused("it would bring deleted rows back"),
    },
    SubOption::works("min_threshold"),
    SubOption::works("max_threshold"),
    SubOption::works("bucket_low"),
    SubOption::works("bucket_high"),
    SubOption::works("min_sstable_size"),
];

/// How long a window is, and how runs are merged in the newest one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeWindow {
    /// In units of the table's timestamps.
    pub window: i64,
    /// Units of the table's timestamps in a second.
    pub units_per_second: i64,
    /// Within the newest window.
    pub by_size: SizeTiered,
}

impl TimeWindow {
    pub(super) fn read(left: &mut SubOptions<'_>) -> Result<TimeWindow> {
        let per_second: i64 = match left.text("timestamp_resolution").unwrap_or("MICROSECONDS") {
            "SECONDS" => 1,
            "MILLISECONDS" => 1000,
            "MICROSECONDS" => 1_000_000,
            "NANOSECONDS" => 1_000_000_000,
            other => {
                return Refusal::config(format!("{other} is not valid for timestamp_resolution"));
            }
        };
        let seconds: i64 = match left.text("compaction_window_unit").unwrap_or("DAYS") {
            "MINUTES" => 60,
            "HOURS" => 60 * 60,
            "DAYS" => 24 * 60 * 60,
            other => {
                return Refusal::config(format!("{other} is not valid for compaction_window_unit"));
            }
        };
        let count: i32 = left.integer("compaction_window_size", 1)?;
        if count < 1 {
            return Refusal::config(format!(
                "{count} must be greater than 1 for compaction_window_size"
            ));
        }
        let frequency: i64 = left.integer("expired_sstable_check_frequency_seconds", 600)?;
        if frequency < 0 {
            return Refusal::config(format!(
                "expired_sstable_check_frequency_seconds must not be negative, but was {frequency}"
            ));
        }
        no_aggressive_expiration(left, |text| {
            format!("unsafe_aggressive_sstable_expiration is not 'true' or 'false' ({text})")
        })?;
        // A window beyond the range of timestamps is the one that holds them all.
        let window = (seconds * per_second).saturating_mul(count.into());
        Ok(TimeWindow { window, units_per_second: per_second, by_size: SizeTiered::read(left)? })
    }
}
