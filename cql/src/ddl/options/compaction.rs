//! The compaction option: which strategies there are, what each takes, and its defaults.
//!
//! IncrementalCompactionStrategy is a name for size tiers here, and a warning says so.

use crate::error::{Error, Result};
use std::collections::BTreeMap;

const PACKAGE: &str = "org.apache.cassandra.db.compaction.";
const COMMON: [&str; 9] = [
    "class",
    "enabled",
    "log_all",
    "max_threshold",
    "min_threshold",
    "only_purge_repaired_tombstones",
    "provide_overlapping_tombstones",
    "tombstone_compaction_interval",
    "tombstone_threshold",
];
const TIERED: [&str; 4] =
    ["bucket_high", "bucket_low", "min_sstable_size", "unchecked_tombstone_compaction"];
/// Strategies and the sub-options they alone take.
const STRATEGIES: [(&str, &[&str]); 5] = [
    ("SizeTieredCompactionStrategy", &TIERED),
    (
        "LeveledCompactionStrategy",
        &[
            "sstable_size_in_mb",
            "fanout_size",
            "single_sstable_uplevel",
            "unchecked_tombstone_compaction",
        ],
    ),
    (
        "TimeWindowCompactionStrategy",
        &[
            "compaction_window_size",
            "compaction_window_unit",
            "expired_sstable_check_frequency_seconds",
            "timestamp_resolution",
            "unsafe_aggressive_sstable_expiration",
            "split_during_flush",
            "bucket_high",
            "bucket_low",
            "min_sstable_size",
            "unchecked_tombstone_compaction",
        ],
    ),
    (
        "UnifiedCompactionStrategy",
        &[
            "base_shard_count",
            "expired_sstable_check_frequency_seconds",
            "flush_size_override",
            "max_sstables_to_compact",
            "min_sstable_size",
            "overlap_inclusion_method",
            "scaling_parameters",
            "sstable_growth",
            "target_sstable_size",
            "unsafe_aggressive_sstable_expiration",
            "unchecked_tombstone_compaction",
        ],
    ),
    (
        "IncrementalCompactionStrategy",
        &[
            "bucket_high",
            "bucket_low",
            "min_sstable_size",
            "space_amplification_goal",
            "sstable_size_in_mb",
            "unchecked_tombstone_compaction",
        ],
    ),
];

/// What is wrong with a number that must be above zero.
fn not_positive(key: &str, value: &str) -> Option<String> {
    let number = value.parse::<i32>().ok().filter(|number| *number < 1)?;
    Some(match key {
        "compaction_window_size" => format!("{number} must be greater than 1 for {key}"),
        _ => format!("{key} must be larger than 0, but was {number}"),
    })
}

/// Checks the map and gives it back as the schema keeps it.
pub(super) fn check(
    mut given: BTreeMap<String, String>,
    warnings: &mut Vec<String>,
) -> Result<BTreeMap<String, String>> {
    let config = |text: String| Err(Error::Config(text));
    let Some(class) = given.get("class") else {
        return config("Missing sub-option 'class' for the 'compaction' option".to_owned());
    };
    let short = class.strip_prefix(PACKAGE).unwrap_or(class).to_owned();
    let Some((_, own)) = STRATEGIES.iter().find(|(name, _)| *name == short) else {
        let full = if class.contains('.') { class.clone() } else { format!("{PACKAGE}{class}") };
        return config(format!("Unable to find compaction strategy class '{full}'"));
    };
    let strange: Vec<&str> = given
        .keys()
        .map(String::as_str)
        .filter(|key| !COMMON.contains(key) && !own.contains(key))
        .collect();
    if !strange.is_empty() {
        let list = strange.join(", ");
        return config(format!("Properties specified [{list}] are not understood by {short}"));
    }
    check_numbers(&given)?;
    check_thresholds(&given)?;
    if short == "IncrementalCompactionStrategy" {
        warnings.push(format!("{short} is kept with the table, which is compacted by size tiers"));
    }
    if short == "SizeTieredCompactionStrategy" || short == "TimeWindowCompactionStrategy" {
        given.entry("max_threshold".to_owned()).or_insert_with(|| "32".to_owned());
        given.entry("min_threshold".to_owned()).or_insert_with(|| "4".to_owned());
    }
    given.insert("class".to_owned(), format!("{PACKAGE}{short}"));
    Ok(given)
}

fn check_numbers(given: &BTreeMap<String, String>) -> Result<()> {
    for (key, value) in given {
        let bad = match key.as_str() {
            "sstable_size_in_mb"
            | "fanout_size"
            | "compaction_window_size"
            | "base_shard_count" => value
                .parse::<i32>()
                .is_err()
                .then(|| format!("{value} is not a parsable int (base10) for {key}"))
                .or_else(|| not_positive(key, value)),
            "bucket_high" | "bucket_low" | "tombstone_threshold" | "space_amplification_goal" => {
                value
                    .parse::<f64>()
                    .is_err()
                    .then(|| format!("{value} is not a parsable double for {key}"))
            }
            "tombstone_compaction_interval" => match value.parse::<i64>() {
                Ok(seconds) if seconds < 0 => Some(format!(
                    "tombstone_compaction_interval must be greater than 0, but was {value}"
                )),
                Ok(_) => None,
                Err(_) => Some(format!("{value} is not a parsable int (base10) for {key}")),
            },
            "compaction_window_unit" if !matches!(value.as_str(), "MINUTES" | "HOURS" | "DAYS") => {
                Some(format!("{value} is not valid for compaction_window_unit"))
            }
            _ => None,
        };
        if let Some(text) = bad {
            return Err(Error::Config(text));
        }
    }
    Ok(())
}

fn check_thresholds(given: &BTreeMap<String, String>) -> Result<()> {
    let config = |text: String| Err(Error::Config(text));
    let integer = |key: &str, default: i32| match given.get(key) {
        None => Ok(default),
        Some(text) => text.parse::<i32>().map_err(|_| {
            Error::Config(format!(
                "Invalid value {text} for '{key}' compaction sub-option - must be an integer"
            ))
        }),
    };
    let (min, max) = (integer("min_threshold", 4)?, integer("max_threshold", 32)?);
    if min < 2 {
        return config(format!("Min compaction threshold cannot be less than 2 (got {min})"));
    }
    if max < min {
        return config(format!(
            "Min compaction threshold (got {min}) cannot be greater than max compaction threshold (got {max})"
        ));
    }
    let double = |key: &str, default: f64| {
        given.get(key).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (low, high): (f64, f64) = (double("bucket_low", 0.5), double("bucket_high", 1.5));
    if high <= low {
        return config(format!(
            "bucket_high value ({high:?}) is less than or equal to the bucket_low value ({low:?})"
        ));
    }
    Ok(())
}
