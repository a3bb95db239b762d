//! The numbers of density levels.

use super::no_aggressive_expiration;
use crate::options::effect::{Effect, SubOption};
use crate::options::refusal::{Refusal, Result};
use crate::options::sub_options::{SubOptions, pretty, size};

const OWN_RANGE: &str =
    "a core owns its range alone and cuts files by size, so there are no shards to count";
pub(super) const SUB_OPTIONS: [SubOption; 10] = [
    SubOption::works("scaling_parameters"),
    SubOption::works("target_sstable_size"),
    SubOption::works("max_sstables_to_compact"),
    SubOption::kept("min_sstable_size", "100MiB", OWN_RANGE),
    SubOption::kept("base_shard_count", "4", OWN_RANGE),
    SubOption::kept("sstable_growth", "0.333", OWN_RANGE),
    SubOption::kept("flush_size_override", "", "a flush is as large as the memory it frees"),
    SubOption::kept(
        "overlap_inclusion_method",
        "TRANSITIVE",
        "all runs of a level are merged together",
    ),
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
];
const MEBIBYTE: f64 = 1024.0 * 1024.0;
const TARGET_BYTES: f64 = 1024.0 * MEBIBYTE;
/// Part of the target that the smallest size may be: Cassandra's √½.
const MIN_SIZE_PART_MAX: f64 = std::f64::consts::FRAC_1_SQRT_2;

/// How runs are merged, level by level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unified {
    /// A parameter for each level; the last holds for all deeper ones.
    pub levels: Vec<Scaling>,
    /// Where a file is cut.
    pub target_bytes: u64,
    /// So many runs are merged at once, at most, if the table says.
    pub runs_max: Option<u32>,
}

/// One scaling parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scaling {
    /// How many times larger than the level before a level is.
    pub fanout: u64,
    /// How many runs a level has when they are merged.
    pub runs_min: u64,
}

impl Unified {
    pub(super) fn read(left: &mut SubOptions<'_>) -> Result<Unified> {
        let scales = left.text("scaling_parameters").unwrap_or("T4");
        let levels =
            scales.split(',').map(|text| Scaling::parse(text.trim())).collect::<Result<_>>()?;
        let target = bytes(left, "target_sstable_size")?.unwrap_or(TARGET_BYTES);
        bytes(left, "flush_size_override")?;
        min_size(left, target)?;
        let shards: i32 = left.integer("base_shard_count", 4)?;
        if shards <= 0 {
            return Refusal::config(format!(
                "Invalid configuration, base_shard_count should be positive: {shards}"
            ));
        }
        growth(left.text("sstable_growth").unwrap_or("0.333"))?;
        let overlap = left.text("overlap_inclusion_method").unwrap_or("NONE");
        if !["NONE", "SINGLE", "TRANSITIVE"].contains(&overlap.to_ascii_uppercase().as_str()) {
            return Refusal::config(format!(
                "Invalid overlap inclusion method {overlap}. The valid options are [NONE, SINGLE, TRANSITIVE]."
            ));
        }
        let frequency: i64 =
            left.number("expired_sstable_check_frequency_seconds", 600, "long (base10)")?;
        if frequency <= 0 {
            return Refusal::config(format!(
                "Invalid configuration, expired_sstable_check_frequency_seconds should be positive: {frequency}"
            ));
        }
        no_aggressive_expiration(left, |text| {
            format!(
                "unsafe_aggressive_sstable_expiration should either be 'true' or 'false', not {text}"
            )
        })?;
        let runs_max: i32 = left.integer("max_sstables_to_compact", 0)?;
        let runs_max = u32::try_from(runs_max).ok().filter(|&count| count > 0);
        Ok(Unified { levels, target_bytes: target as u64, runs_max })
    }
}

fn bytes(left: &mut SubOptions<'_>, name: &str) -> Result<Option<f64>> {
    let Some(text) = left.text(name) else { return Ok(None) };
    let refused =
        |why| Refusal::Config(format!("{name} {text} is not a valid size in bytes: {why}"));
    let bytes = size(text).map_err(refused)?;
    if bytes < MEBIBYTE {
        return Refusal::config(format!(
            "{name} {text} is not acceptable, size must be at least {}",
            pretty(MEBIBYTE)
        ));
    }
    Ok(Some(bytes))
}

fn min_size(left: &mut SubOptions<'_>, target: f64) -> Result<()> {
    let Some(text) = left.text("min_sstable_size") else { return Ok(()) };
    let Ok(bytes) = size(text) else {
        return Refusal::config(format!(
            "{text} is not a valid size in bytes for min_sstable_size"
        ));
    };
    if bytes < 0.0 {
        return Refusal::config(
            "Invalid configuration, min_sstable_size should be greater than or equal to 0 (zero)",
        );
    }
    if bytes >= target * MIN_SIZE_PART_MAX {
        return Refusal::config(format!(
            "Invalid configuration, min_sstable_size ({}) should be less than 70% of the targetSSTableSize ({})",
            pretty(bytes),
            pretty(target)
        ));
    }
    Ok(())
}

/// A part of one, or a percentage.
fn growth(text: &str) -> Result<()> {
    let (digits, scale) = match text.strip_suffix('%') {
        Some(digits) => (digits, 100.0),
        None => (text, 1.0),
    };
    match digits.trim().parse::<f64>() {
        Ok(part) if (0.0..=1.0).contains(&(part / scale)) => Ok(()),
        Ok(_) => Refusal::config(format!("sstable_growth {text} must be between 0 and 1")),
        Err(_) => Refusal::config(format!(
            "sstable_growth is not a valid number between 0 and 1: For input string: \"{text}\""
        )),
    }
}

impl Scaling {
    /// `T4`, `L10`, `N`, or the number they stand for: 2, -8, 0.
    fn parse(text: &str) -> Result<Scaling> {
        let refused = || {
            Refusal::Config(format!(
                "Scaling parameter {text} must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+"
            ))
        };
        let digits = |text: &str| -> Result<i32> {
            let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            if plain { text.parse().map_err(|_| refused()) } else { Err(refused()) }
        };
        let fanout = |text_of_number: &str| match digits(text_of_number)? {
            fanout @ 2.. => Ok(u64::from(fanout.unsigned_abs())),
            _ => Refusal::config(format!("Fan factor cannot be lower than 2 in {text}")),
        };
        if text == "N" {
            return Ok(Scaling { fanout: 2, runs_min: 2 });
        }
        if let Some(number) = text.strip_prefix('T') {
            let fanout = fanout(number)?;
            return Ok(Scaling { fanout, runs_min: fanout });
        }
        if let Some(number) = text.strip_prefix('L') {
            return Ok(Scaling { fanout: fanout(number)?, runs_min: 2 });
        }
        let (sign, number) = match text.strip_prefix('-') {
            Some(number) => (-1, number),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let width = digits(number)?;
        let fanout = u64::from(width.unsigned_abs()) + 2;
        let runs_min = if sign < 0 { 2 } else { fanout };
        Ok(Scaling { fanout, runs_min })
    }
}
