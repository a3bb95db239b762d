//! Reads the compaction options of a table: every one is taken by somebody, or refused by name.

use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Options of every strategy that change nothing here: what they are for does not arise.
///
/// A tombstone compaction here is only proposed if it is certain to purge, so it needs no interval
/// between tries; there is one kind of repair; nothing is logged per compaction by a flag.
const WITHOUT_EFFECT: &[&str] = &[
    "class",
    "log_all",
    "only_purge_repaired_tombstones",
    "provide_overlapping_tombstones",
    "tombstone_compaction_interval",
    "unchecked_tombstone_compaction",
];

/// The options that nobody has taken yet.
pub(super) struct Options<'a> {
    left: BTreeMap<&'a str, &'a str>,
    class: &'a str,
}

impl<'a> Options<'a> {
    pub(super) fn new(options: &'a BTreeMap<String, String>) -> Options<'a> {
        let class = options.get("class").map_or("", |class| class.rsplit('.').next().unwrap_or(""));
        let left = options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let left = left.filter(|(name, _)| !WITHOUT_EFFECT.contains(name)).collect();
        Options { left, class }
    }

    /// The strategy's name, without its package.
    pub(super) fn class(&self) -> &'a str {
        self.class
    }

    /// The text of an option.
    pub(super) fn text(&mut self, name: &str) -> Option<&'a str> {
        self.left.remove(name)
    }

    /// A whole number within bounds.
    pub(super) fn integer(
        &mut self,
        name: &str,
        default: u64,
        bounds: RangeInclusive<u64>,
    ) -> Result<u64> {
        let Some(text) = self.text(name) else { return Ok(default) };
        match text.parse() {
            Ok(value) if bounds.contains(&value) => Ok(value),
            Ok(_) => Err(Error::invalid(format!(
                "{name} must be between {} and {}, but was {text}",
                bounds.start(),
                bounds.end()
            ))),
            Err(_) => {
                Err(Error::invalid(format!("{text} is not a parsable int (base10) for {name}")))
            }
        }
    }

    /// A number within bounds.
    pub(super) fn number(
        &mut self,
        name: &str,
        default: f64,
        bounds: RangeInclusive<f64>,
    ) -> Result<f64> {
        let Some(text) = self.text(name) else { return Ok(default) };
        match text.parse() {
            Ok(value) if bounds.contains(&value) => Ok(value),
            Ok(_) => Err(Error::invalid(format!(
                "{name} must be between {} and {}, but was {text}",
                bounds.start(),
                bounds.end()
            ))),
            Err(_) => Err(Error::invalid(format!("{text} is not a parsable float for {name}"))),
        }
    }

    /// A size such as `160MiB`, or a plain count of bytes.
    pub(super) fn size(
        &mut self,
        name: &str,
        default: u64,
        bounds: RangeInclusive<u64>,
    ) -> Result<u64> {
        let Some(text) = self.text(name) else { return Ok(default) };
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let unit = match text[digits.len()..].trim() {
            "" | "B" => Some(1),
            "KiB" => Some(1 << 10),
            "MiB" => Some(1 << 20),
            "GiB" => Some(1 << 30),
            _ => None,
        };
        let bytes = digits.trim().parse::<u64>().ok().zip(unit);
        match bytes.and_then(|(count, unit)| count.checked_mul(unit)) {
            Some(bytes) if bounds.contains(&bytes) => Ok(bytes),
            _ => Err(Error::invalid(format!("{name}: {text} is not a size that can be used"))),
        }
    }

    /// Refuses what nobody has taken.
    pub(super) fn finish(self) -> Result<()> {
        if self.left.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self.left.into_keys().collect();
        let names = names.join(", ");
        Err(Error::invalid(format!(
            "Properties specified [{names}] are not understood by {}",
            self.class
        )))
    }
}
