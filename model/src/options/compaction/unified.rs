//! The numbers of density levels: Cassandra's `UnifiedCompactionStrategy`.
//!
//! 1. `read` takes the sub-options one by one, and refuses in the words of `Controller.validateOptions`.
//! 2. A scaling parameter becomes two numbers: `T4` is fanout 4 and 4 runs, `L10` is fanout 10 and 2 runs, `N` is both
//!    of them with 2. A bare number `w` is `T(w + 2)`, or `L(2 - w)` below zero.
//! 3. [`FragmentSizes`] says where a run is cut, by the rule of `Controller.getNumShards`: Cassandra's shards of a
//!    range of tokens are files of one run here.
//!
//! Invariants: there is at least one parameter; the last one holds for all deeper levels. `min_sstable_size` is at most
//! √½ of the target.
//!
//! Not here: which runs are merged when (`engine/src/compaction/unified.rs`), what all strategies take
//! (`options/compaction.rs`), the part of space that starts a merge of all runs (`incremental.rs`).

use super::incremental::SPACE_GOAL;
use super::no_aggressive_expiration;
use crate::options::effect::{Effect, SubOption};
use crate::options::refusal::{Refusal, Result};
use crate::options::sub_options::{SubOptions, pretty, size};

pub(super) const SUB_OPTIONS: [SubOption; 10] = [
    SubOption::works("scaling_parameters"),
    SubOption::works("target_sstable_size"),
    SubOption::works("max_sstables_to_compact"),
    SubOption::works("min_sstable_size"),
    SubOption::works("base_shard_count"),
    SubOption::works("sstable_growth"),
    SubOption::works("flush_size_override"),
    SubOption::works("overlap_inclusion_method"),
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
const MIN_BYTES: f64 = 100.0 * MEBIBYTE;
/// Part of the target that the smallest size may be: Cassandra's √½.
const MIN_SIZE_PART_MAX: f64 = std::f64::consts::FRAC_1_SQRT_2;

/// How runs are merged, level by level.
#[derive(Clone, Debug, PartialEq)]
pub struct Unified {
    /// A parameter for each level; the last holds for all deeper ones.
    pub levels: Vec<Scaling>,
    /// Where a file is cut.
    pub sizes: FragmentSizes,
    /// Which runs of a level are merged together.
    pub inclusion: Inclusion,
    /// The first level begins here, if the table says; in bytes.
    pub flush_bytes: Option<u64>,
    /// All runs are merged when all take this many times the bytes of the largest.
    pub space_goal: f64,
    /// At most this many runs are merged at once, if the table says.
    pub runs_max: Option<u32>,
}

/// Which runs of a level are merged with those that overlap most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inclusion {
    /// None but those that hold one token.
    None,
    /// Those that overlap one of them.
    Single,
    /// Those that overlap one of them, directly or by others.
    Transitive,
}

/// How large the files of a run are: Cassandra cuts a run into shards, and counts them by these.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FragmentSizes {
    /// `target_sstable_size`, in bytes.
    target_bytes: f64,
    /// `min_sstable_size`, in bytes.
    min_bytes: f64,
    /// `base_shard_count`: a run that is not small is cut into so many at least.
    base: u32,
    /// `sstable_growth`: the part of the growth of a run that its files take, from 0 to 1.
    growth: f64,
}

impl FragmentSizes {
    /// Where a run of so many bytes is cut; `u64::MAX` if it is not.
    pub fn fragment_bytes(&self, run_bytes: u64) -> u64 {
        let bytes = run_bytes as f64;
        let shards = self.shards(bytes);
        if shards > 1.0 { (bytes / shards).ceil() as u64 } else { u64::MAX }
    }

    /// Into how many files a run is cut (`Controller.getNumShards` of Cassandra).
    fn shards(&self, bytes: f64) -> f64 {
        let base = f64::from(self.base);
        if self.min_bytes > 0.0 && bytes / self.min_bytes < base {
            // A power of two that divides the base, so that borders stay where they are.
            let count = ((bytes / self.min_bytes) as u32 | 1).ilog2();
            return f64::from((1 << count).min(self.base & self.base.wrapping_neg()));
        }
        let count = bytes / (self.target_bytes * base);
        base * (count.log2() * (1.0 - self.growth)).round().clamp(0.0, 20.0).exp2()
    }
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
        let flush_bytes = bytes(left, "flush_size_override")?.map(|bytes| bytes as u64);
        let min_bytes = min_size(left, target)?;
        let base: i32 = left.integer("base_shard_count", 4)?;
        let (1.., Ok(base)) = (base, u32::try_from(base)) else {
            return Refusal::config(format!(
                "Invalid configuration, base_shard_count should be positive: {base}"
            ));
        };
        let growth = growth(left.text("sstable_growth").unwrap_or("0.333"))?;
        let overlap = left.text("overlap_inclusion_method").unwrap_or("TRANSITIVE");
        let inclusion = match overlap.to_ascii_uppercase().as_str() {
            "NONE" => Inclusion::None,
            "SINGLE" => Inclusion::Single,
            "TRANSITIVE" => Inclusion::Transitive,
            _ => {
                return Refusal::config(format!(
                    "Invalid overlap inclusion method {overlap}. The valid options are [NONE, SINGLE, TRANSITIVE]."
                ));
            }
        };
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
        let sizes = FragmentSizes { target_bytes: target, min_bytes, base, growth };
        let space_goal = SPACE_GOAL;
        Ok(Unified { levels, sizes, inclusion, flush_bytes, space_goal, runs_max })
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

fn min_size(left: &mut SubOptions<'_>, target: f64) -> Result<f64> {
    // Cassandra's default is the smaller of 100 MiB and what would be refused.
    let Some(text) = left.text("min_sstable_size") else {
        return Ok(MIN_BYTES.min(target * MIN_SIZE_PART_MAX));
    };
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
    Ok(bytes)
}

/// A part of one, or a percentage.
fn growth(text: &str) -> Result<f64> {
    let (digits, scale) = match text.strip_suffix('%') {
        Some(digits) => (digits, 100.0),
        None => (text, 1.0),
    };
    match digits.trim().parse::<f64>() {
        Ok(part) if (0.0..=1.0).contains(&(part / scale)) => Ok(part / scale),
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
