//! The option `compaction`: which strategy a table has, with its numbers.
//!
//! ```text
//! given map ─► class ─► what all strategies take ─► what this one takes ─► what nothing took is refused
//! ```
//!
//! The one place that knows the names of classes and sub-options: the engine is given numbers. The map is kept as it
//! was given, with the thresholds filled in as Cassandra does, for DESCRIBE and `system_schema`.

mod incremental;
mod leveled;
mod size_tiered;
mod time_window;
mod unified;

use std::collections::BTreeMap;

pub use incremental::Incremental;
pub use leveled::Leveled;
pub use size_tiered::SizeTiered;
pub use time_window::TimeWindow;
pub use unified::{FragmentSizes, Inclusion, Scaling, Unified};

use super::effect::{Effect, SubOption};
use super::refusal::{Refusal, Result};
use super::sub_options::SubOptions;

const PACKAGE: &str = "org.apache.cassandra.db.compaction.";
const SURE: &str = "a file is rewritten for its tombstones when all of that is certain to go";
/// What every strategy takes.
pub const COMMON: [SubOption; 7] = [
    SubOption::works("class"),
    SubOption::works("enabled"),
    SubOption::works("tombstone_threshold"),
    SubOption::works("tombstone_compaction_interval"),
    SubOption::kept("unchecked_tombstone_compaction", "false", SURE),
    SubOption::kept("log_all", "false", "compactions are not logged one by one"),
    SubOption::kept(
        "only_purge_repaired_tombstones",
        "false",
        "there is one replica, and no repair",
    ),
];
/// What every strategy but the unified one takes.
pub const OVERLAPPING: SubOption = SubOption::kept(
    "provide_overlapping_tombstones",
    "NONE",
    "tombstones of other files are not collected",
);

/// Strategies by the name that CQL gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `SizeTieredCompactionStrategy`: files of similar size are merged.
    SizeTiered,
    /// `LeveledCompactionStrategy`: levels, each ten times the one before.
    Leveled,
    /// `TimeWindowCompactionStrategy`: files of one window of time are merged.
    TimeWindow,
    /// `UnifiedCompactionStrategy`: levels by density, tiered or leveled.
    Unified,
    /// `IncrementalCompactionStrategy`, which is ScyllaDB's: tiers, and a goal for space.
    Incremental,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 5] =
        [Class::SizeTiered, Class::Leveled, Class::TimeWindow, Class::Unified, Class::Incremental];

    /// The name, without its package.
    pub fn name(self) -> &'static str {
        match self {
            Class::SizeTiered => "SizeTieredCompactionStrategy",
            Class::Leveled => "LeveledCompactionStrategy",
            Class::TimeWindow => "TimeWindowCompactionStrategy",
            Class::Unified => "UnifiedCompactionStrategy",
            Class::Incremental => "IncrementalCompactionStrategy",
        }
    }

    /// The sub-options of this strategy beyond [`COMMON`].
    pub fn sub_options(self) -> &'static [SubOption] {
        match self {
            Class::SizeTiered => &size_tiered::SUB_OPTIONS,
            Class::Leveled => &leveled::SUB_OPTIONS,
            Class::TimeWindow => &time_window::SUB_OPTIONS,
            Class::Unified => &unified::SUB_OPTIONS,
            Class::Incremental => &incremental::SUB_OPTIONS,
        }
    }
}

/// The numbers of a strategy.
#[derive(Clone, Debug, PartialEq)]
pub enum Strategy {
    /// Runs of similar size are merged.
    SizeTiered(SizeTiered),
    /// Levels of files that share no token.
    Leveled(Leveled),
    /// What was written in one stretch of time ends in one run.
    TimeWindow(TimeWindow),
    /// Levels by density.
    Unified(Unified),
    /// Runs of similar size are merged, within a goal for space.
    Incremental(Incremental),
}

/// How a table is compacted.
#[derive(Clone, Debug, PartialEq)]
pub struct Compaction {
    given: BTreeMap<String, String>,
    enabled: bool,
    tombstones: TombstoneMerges,
    strategy: Strategy,
}

/// When files are rewritten for their tombstones alone.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TombstoneMerges {
    /// The part of droppable tombstones that a file has at least.
    threshold: f64,
    /// How old a file is at least, in seconds.
    interval_s: u32,
}

impl Default for Compaction {
    fn default() -> Compaction {
        Compaction::of_class(Class::SizeTiered)
    }
}

impl Compaction {
    /// A strategy with its defaults.
    pub fn of_class(class: Class) -> Compaction {
        let given = BTreeMap::from([("class".to_owned(), class.name().to_owned())]);
        Compaction::parse(&given).expect("the defaults of every strategy are good")
    }

    /// Whether anything is compacted.
    pub fn enabled(&self) -> bool {
        self.enabled
    }

    /// From which part of droppable tombstones on a file is rewritten alone.
    pub fn tombstone_threshold(&self) -> f64 {
        self.tombstones.threshold
    }

    /// How old a file is before it is rewritten alone for its tombstones, in seconds. 0 where the table does not say:
    /// Cassandra's day keeps it from merging again and again what its estimate was wrong about, and here a file is
    /// merged for its tombstones only if all of that is certain to go.
    pub fn tombstone_compaction_interval_s(&self) -> u32 {
        self.tombstones.interval_s
    }

    /// The strategy with its numbers.
    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// The map that the schema shows.
    pub fn pairs(&self) -> &BTreeMap<String, String> {
        &self.given
    }

    /// Reads the map of a statement.
    pub fn parse(given: &BTreeMap<String, String>) -> Result<Compaction> {
        let class = class_of(given)?;
        let mut left = SubOptions::new(given);
        left.text("class");
        let tombstones = common(&mut left)?;
        let enabled = left.flag("enabled", true, |text| {
            format!("enabled should either be 'true' or 'false', not {text}")
        })?;
        if class != Class::Unified {
            overlapping(&mut left)?;
        }
        // Read last of what is read, as Cassandra does: errors come in its order.
        let (min_text, max_text) = (given.get("min_threshold"), given.get("max_threshold"));
        let has_thresholds = class != Class::Unified;
        if has_thresholds {
            left.text("min_threshold");
            left.text("max_threshold");
        }
        let mut strategy = match class {
            Class::SizeTiered => Strategy::SizeTiered(SizeTiered::read(&mut left)?),
            Class::Incremental => Strategy::Incremental(Incremental::read(&mut left)?),
            Class::Leveled => Strategy::Leveled(Leveled::read(&mut left)?),
            Class::TimeWindow => Strategy::TimeWindow(TimeWindow::read(&mut left)?),
            Class::Unified => Strategy::Unified(Unified::read(&mut left)?),
        };
        left.finish(class.name())?;
        let mut kept = given.clone();
        kept.insert("class".to_owned(), format!("{PACKAGE}{}", class.name()));
        if has_thresholds {
            let (min, max) = thresholds(min_text, max_text)?;
            if let Strategy::SizeTiered(tiers)
            | Strategy::TimeWindow(TimeWindow { by_size: tiers, .. })
            | Strategy::Leveled(Leveled { level_0: tiers, .. })
            | Strategy::Incremental(Incremental { by_size: tiers, .. }) = &mut strategy
            {
                (tiers.min_threshold, tiers.max_threshold) = (min, max);
            }
            kept.entry("min_threshold".to_owned()).or_insert_with(|| min.to_string());
            kept.entry("max_threshold".to_owned()).or_insert_with(|| max.to_string());
        }
        Ok(Compaction { given: kept, enabled, tombstones, strategy })
    }

    /// Reads the map of a schema log, which an earlier build took: what is refused today and has no effect is passed
    /// over, and for a number that cannot be used the strategy's own is taken, with the reason.
    pub(super) fn stored(given: &BTreeMap<String, String>) -> (Compaction, Option<Refusal>) {
        let has_effect = |key: &str| {
            let class = class_of(given).unwrap_or(Class::SizeTiered);
            let mut all = COMMON.iter().chain(class.sub_options());
            key == "min_threshold"
                || key == "max_threshold"
                || all.any(|option| option.name == key && option.effect == Effect::Works)
        };
        let first = match Compaction::parse(given) {
            Ok(compaction) => return (compaction, None),
            Err(refusal) => refusal,
        };
        let mut useful = given.clone();
        useful.retain(|key, _| has_effect(key));
        let (read, why) = match Compaction::parse(&useful) {
            Ok(compaction) => (compaction, None),
            Err(_) => {
                let class = class_of(given).unwrap_or(Class::SizeTiered);
                (Compaction::of_class(class), Some(first))
            }
        };
        (Compaction { given: given.clone(), ..read }, why)
    }

    /// What is kept and does nothing, or is done otherwise.
    pub(super) fn warnings(&self) -> Vec<String> {
        let class = class_of(&self.given).unwrap_or(Class::SizeTiered);
        let mut warnings = Vec::new();
        let all = COMMON.iter().chain([&OVERLAPPING]).chain(class.sub_options());
        warnings.extend(
            all.filter_map(|option| option.warning("compaction", self.given.get(option.name)?)),
        );
        warnings
    }
}

fn class_of(given: &BTreeMap<String, String>) -> Result<Class> {
    let Some(class) = given.get("class") else {
        return Refusal::config("Missing sub-option 'class' for the 'compaction' option");
    };
    let short = class.strip_prefix(PACKAGE).unwrap_or(class);
    Class::ALL.into_iter().find(|known| known.name() == short).ok_or_else(|| {
        let full = if class.contains('.') { class.clone() } else { format!("{PACKAGE}{class}") };
        Refusal::Config(format!("Unable to find compaction strategy class '{full}'"))
    })
}

/// Checks what every strategy takes; gives what is said of tombstones.
fn common(left: &mut SubOptions<'_>) -> Result<TombstoneMerges> {
    let threshold = left.number("tombstone_threshold", 0.2, "int (base10)")?;
    if threshold < 0.0 || f64::is_nan(threshold) {
        return Refusal::config(format!(
            "tombstone_threshold must be greater than 0, but was {threshold:.6}"
        ));
    }
    let interval: i64 = left.integer("tombstone_compaction_interval", 0)?;
    if interval < 0 {
        return Refusal::config(format!(
            "tombstone_compaction_interval must be greater than 0, but was {interval}"
        ));
    }
    left.flag("unchecked_tombstone_compaction", false, |text| {
        format!("'unchecked_tombstone_compaction' should be either 'true' or 'false', not '{text}'")
    })?;
    left.flag("log_all", false, |text| {
        format!("'log_all' should either be 'true' or 'false', not {text}")
    })?;
    left.text("only_purge_repaired_tombstones");
    let interval_s = u32::try_from(interval).unwrap_or(u32::MAX);
    Ok(TombstoneMerges { threshold, interval_s })
}

fn overlapping(left: &mut SubOptions<'_>) -> Result<()> {
    let text = left.text("provide_overlapping_tombstones").unwrap_or("NONE").to_ascii_uppercase();
    match text.as_str() {
        "NONE" | "ROW" | "CELL" => Ok(()),
        _ => Refusal::config(format!(
            "Invalid value {text} for 'provide_overlapping_tombstones' compaction sub-option - must be one of the following [NONE, ROW, CELL]."
        )),
    }
}

/// How many runs are merged at least and at most.
fn thresholds(min: Option<&String>, max: Option<&String>) -> Result<(u32, u32)> {
    let read = |name: &str, text: Option<&String>, default: i32| match text {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| {
            Refusal::Config(format!(
                "Invalid value {text} for '{name}' compaction sub-option - must be an integer"
            ))
        }),
    };
    let (min, max) = (read("min_threshold", min, 4)?, read("max_threshold", max, 32)?);
    if min <= 0 && max <= 0 || max == 0 {
        return Refusal::config(
            "Disabling compaction by setting compaction thresholds to 0 has been removed, set the compaction option 'enabled' to false instead.",
        );
    }
    if min < 2 {
        return Refusal::config(format!(
            "Min compaction threshold cannot be less than 2 (got {min})"
        ));
    }
    if max < min {
        return Refusal::config(format!(
            "Min compaction threshold (got {min}) cannot be greater than max compaction threshold (got {max})"
        ));
    }
    Ok((min.unsigned_abs(), max.unsigned_abs()))
}

/// `unsafe_aggressive_sstable_expiration`, which is never done.
fn no_aggressive_expiration(
    left: &mut SubOptions<'_>,
    wrong: impl FnOnce(&str) -> String,
) -> Result<()> {
    if left.flag("unsafe_aggressive_sstable_expiration", false, wrong)? {
        return Refusal::config(
            "unsafe_aggressive_sstable_expiration is requested but not allowed: it would bring deleted rows back",
        );
    }
    Ok(())
}
