//! Guardrails: limits that an operator sets, with a warning from one value on and an error from another.
//!
//! ```text
//! settings file, messina-admin ─► Values ─► Guardrails (atomics that all cores read) ◄── check: a statement's numbers
//!                                                                                        │
//!                                                      warnings on the answer, or an Invalid error
//! ```
//!
//! 1. [`list`] has what is fixed of each: its name, its settings, its words.
//! 2. What is off costs one relaxed load for a whole statement: [`Guardrails::watched`] has a bit for each that may fire.
//! 3. A change is for all cores at once; a statement under way may see the old value of one and the new one of another.
//!
//! All clients are held to them: Cassandra spares superusers, and takes all clients for such while they do not log in.
//! Not here: how settings are written as text (`guardrails.rs` of the server).

pub mod list;
mod reads;
mod writes;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

pub use list::{Definition, GUARDRAILS, Guardrail};
use model::options::{FOREIGN, OPTIONS, SCYLLA_OPTIONS};

use crate::error::{Error, Result};
use crate::frame::consistency::Consistency;
use crate::limits::GUARDRAIL_WARNINGS_MAX;

/// What a threshold counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things, whatever they are.
    Count,
    /// Bytes of a value.
    Bytes,
    /// Hundredths of the whole.
    Percent,
    /// Microseconds from now.
    Micros,
}

/// What a guardrail compares, and its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// More than a number: `STEM_warn_threshold`, `STEM_fail_threshold`.
    Max(Unit),
    /// Less than a number: the same settings.
    Min(Unit),
    /// A feature that may be used or not.
    Flag {
        /// True while the feature may be used.
        setting: &'static str,
        /// True while its users are warned.
        warned: Option<&'static str>,
    },
    /// Options of tables: `STEM_warned`, `STEM_ignored`, `STEM_disallowed`.
    Properties,
    /// Consistency levels: `STEM_warned`, `STEM_disallowed`.
    Levels,
}

/// What a guardrail does when it fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// The client is warned.
    Warn,
    /// The statement is refused.
    Fail,
}

/// What is set of one guardrail: thresholds, -1 for none; sets of bits; of features 1 if it is warned of, or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// From when on, or of what, clients are warned.
    pub warn: i64,
    /// From when on, or of what, statements are refused.
    pub fail: i64,
    /// What is left out with a warning: bits.
    pub ignored: i64,
}

/// What is set of all guardrails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values([Value; GUARDRAILS.len()]);

impl Default for Values {
    /// Nothing is refused and nothing warned of, as Cassandra has it for clients that do not log in.
    fn default() -> Self {
        Values(std::array::from_fn(|at| match GUARDRAILS[at].kind {
            Kind::Max(_) | Kind::Min(_) => Value { warn: -1, fail: -1, ignored: 0 },
            Kind::Flag { .. } | Kind::Properties | Kind::Levels => {
                Value { warn: 0, fail: 0, ignored: 0 }
            }
        }))
    }
}

impl Values {
    /// What is set of one guardrail.
    pub fn of(&self, guardrail: Guardrail) -> Value {
        self.0[guardrail as usize]
    }

    /// Sets one guardrail.
    pub fn set(&mut self, guardrail: Guardrail, value: Value) {
        self.0[guardrail as usize] = value;
    }

    /// The guardrails that may fire: a bit each.
    fn watched(&self) -> u64 {
        let may_fire = |definition: &&Definition| {
            let value = self.of(definition.guardrail);
            match definition.kind {
                Kind::Max(_) | Kind::Min(_) => value.warn >= 0 || value.fail >= 0,
                Kind::Flag { .. } | Kind::Properties | Kind::Levels => {
                    value.warn | value.fail | value.ignored != 0
                }
            }
        };
        let bits = GUARDRAILS.iter().filter(may_fire).map(|d| 1 << d.guardrail as u64);
        bits.fold(0, |all, bit: u64| all | bit)
    }
}

impl Strength {
    /// What Cassandra calls a threshold of this strength.
    fn word(self) -> &'static str {
        match self {
            Strength::Warn => "warning",
            Strength::Fail => "failure",
        }
    }
}

/// The guardrails that may fire, as they were at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Watched(u64);

impl Watched {
    /// Whether this one may fire.
    #[inline]
    pub fn has(self, guardrail: Guardrail) -> bool {
        self.0 >> guardrail as u64 & 1 == 1
    }

    /// Whether one may fire that looks at reads.
    #[inline]
    pub fn has_of_reads(self) -> bool {
        const BITS: u64 = bits(Guardrail::PageSize, Guardrail::GroupBy);
        self.0 & BITS != 0
    }

    /// Whether one may fire that looks at writes.
    #[inline]
    pub fn has_of_writes(self) -> bool {
        const BITS: u64 = bits(Guardrail::UserTimestamps, Guardrail::ReplicaDiskUsage);
        self.0 & BITS != 0
    }

    /// Whether one may fire that looks at the values of writes.
    fn has_of_values(self) -> bool {
        const BITS: u64 = bits(Guardrail::ColumnValueSize, Guardrail::ItemsPerCollection);
        self.0 & BITS != 0
    }
}

/// The bits of the guardrails from one to another.
const fn bits(first: Guardrail, last: Guardrail) -> u64 {
    (2 << last as u64) - (1 << first as u64)
}

/// The guardrails of a node, which all cores read.
#[derive(Debug)]
pub struct Guardrails {
    values: [[AtomicI64; 3]; GUARDRAILS.len()],
    watched: AtomicU64,
}

impl Default for Guardrails {
    fn default() -> Self {
        Guardrails::new(&Values::default())
    }
}

impl Guardrails {
    /// The guardrails with these values.
    pub fn new(values: &Values) -> Guardrails {
        let guardrails = Guardrails {
            values: std::array::from_fn(|_| std::array::from_fn(|_| AtomicI64::new(0))),
            watched: AtomicU64::new(0),
        };
        guardrails.store(values);
        guardrails
    }

    /// Sets all values, for all cores.
    pub fn store(&self, values: &Values) {
        for (stored, value) in self.values.iter().zip(&values.0) {
            let Value { warn, fail, ignored } = value;
            for (stored, value) in stored.iter().zip([warn, fail, ignored]) {
                stored.store(*value, Ordering::Relaxed);
            }
        }
        self.watched.store(values.watched(), Ordering::Relaxed);
    }

    /// The values of now.
    pub fn load(&self) -> Values {
        Values(std::array::from_fn(|at| self.value_at(at)))
    }

    fn value_at(&self, at: usize) -> Value {
        let [warn, fail, ignored] =
            std::array::from_fn(|which| self.values[at][which].load(Ordering::Relaxed));
        Value { warn, fail, ignored }
    }

    /// The guardrails that may fire: one load.
    #[inline]
    pub fn watched(&self) -> Watched {
        Watched(self.watched.load(Ordering::Relaxed))
    }

    /// Compares a number with the thresholds of a guardrail; `what` names its owner in the answer.
    pub fn check(
        &self,
        guardrail: Guardrail,
        number: i64,
        what: &str,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        self.check_from(guardrail, (number, 0), what, warnings)
    }

    /// Compares a number with the thresholds of a guardrail. Where these are spans of time, the number is a point in
    /// time, and its limit lies that span before or after `now`; otherwise `now` is 0.
    fn check_from(
        &self,
        guardrail: Guardrail,
        (number, now): (i64, i64),
        what: &str,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let Value { warn, fail, .. } = self.value_at(guardrail as usize);
        let passed = |threshold: i64| {
            let (limit, has_passed) = match guardrail.definition().kind {
                Kind::Min(Unit::Micros) => {
                    let limit = now.saturating_sub(threshold);
                    (limit, number < limit)
                }
                Kind::Min(_) => (threshold, number < threshold),
                _ => {
                    let limit = now.saturating_add(threshold);
                    (limit, number > limit)
                }
            };
            (threshold >= 0 && has_passed).then_some(limit)
        };
        let says =
            |strength, limit| guardrail.says(&guardrail.passed(strength, what, number, limit));
        if let Some(limit) = passed(fail) {
            return Err(Error::Guardrail(says(Strength::Fail, limit)));
        }
        // A batch may have a million of them, and texts take long.
        if warnings.len() < GUARDRAIL_WARNINGS_MAX
            && let Some(limit) = passed(warn)
        {
            warn_once(warnings, says(Strength::Warn, limit));
        }
        Ok(())
    }

    /// Refuses a feature that is switched off, or warns of it.
    pub fn allow(&self, guardrail: Guardrail, warnings: &mut Vec<String>) -> Result<()> {
        self.allow_as(guardrail, guardrail.feature(), warnings)
    }

    /// Refuses a feature that is switched off, or warns of it; `feature` is what the answer calls this use of it.
    pub fn allow_as(
        &self,
        guardrail: Guardrail,
        feature: &str,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let Value { warn, fail, .. } = self.value_at(guardrail as usize);
        if fail != 0 {
            return Err(Error::Guardrail(guardrail.says(&format!("{feature} is not allowed"))));
        }
        if warn != 0 {
            warn_once(warnings, guardrail.says(&format!("{feature} is not recommended")));
        }
        Ok(())
    }

    /// Looks for values in the lists of a guardrail; the bits of those that are to be left out.
    fn look_for(
        &self,
        guardrail: Guardrail,
        given: i64,
        names: fn(i64) -> String,
        warnings: &mut Vec<String>,
    ) -> Result<i64> {
        let (Value { warn, fail, ignored }, of) =
            (self.value_at(guardrail as usize), guardrail.values());
        let (refused, left_out, warned) = (given & fail, given & ignored, given & warn);
        if refused != 0 {
            return Err(Error::Guardrail(guardrail.says(&format!(
                "Provided values {} are not allowed for {of} (disallowed values are: {})",
                names(refused),
                names(fail)
            ))));
        }
        if left_out != 0 {
            warn_once(
                warnings,
                guardrail.says(&format!(
                    "Ignoring provided values {} as they are not supported for {of} (ignored values are: {})",
                    names(left_out),
                    names(ignored)
                )),
            );
        }
        if warned != 0 {
            warn_once(
                warnings,
                guardrail.says(&format!(
                    "Provided values {} are not recommended for {of} (warned values are: {})",
                    names(warned),
                    names(warn)
                )),
            );
        }
        Ok(left_out)
    }

    /// Looks for consistency levels in the lists of a guardrail.
    fn levels(
        &self,
        guardrail: Guardrail,
        given: &[Consistency],
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let bits = given.iter().fold(0, |all, level| all | 1 << level.code());
        self.look_for(guardrail, bits, level_names, warnings).map(drop)
    }

    /// Looks for options of tables in the lists of `table_properties`; the bits of those that are to be left out.
    pub fn properties<'n>(
        &self,
        given: impl Iterator<Item = &'n str>,
        warnings: &mut Vec<String>,
    ) -> Result<i64> {
        let bits = given.filter_map(property_bit).fold(0, |all, bit| all | bit);
        self.look_for(Guardrail::TableProperties, bits, property_names, warnings)
    }
}

/// What happens in each of many rows is told once, and of what differs no more than a client reads.
fn warn_once(warnings: &mut Vec<String>, text: String) {
    if warnings.len() < GUARDRAIL_WARNINGS_MAX && !warnings.contains(&text) {
        warnings.push(text);
    }
}

/// The bit of a consistency level.
pub fn level_bit(name: &str) -> Option<i64> {
    Consistency::ALL.iter().find(|level| level.name() == name).map(|level| 1 << level.code())
}

/// The consistency levels with these bits, as `[A, B]`.
pub fn level_names(bits: i64) -> String {
    let has = |level: &&Consistency| bits >> level.code() & 1 == 1;
    let names: Vec<&str> = Consistency::ALL.iter().filter(has).map(|level| level.name()).collect();
    format!("[{}]", names.join(", "))
}

/// The options that `table_properties` may list, in the order of their bits.
fn properties() -> impl Iterator<Item = &'static str> {
    let own = OPTIONS.iter().chain(&SCYLLA_OPTIONS).map(|option| option.name);
    own.chain(FOREIGN.iter().map(|(name, _)| *name)).chain(["id"])
}

/// The bit of an option of tables.
pub fn property_bit(name: &str) -> Option<i64> {
    properties().position(|option| option == name).map(|at| 1 << at)
}

/// The options of tables with these bits, as `[a, b]`.
pub fn property_names(bits: i64) -> String {
    let mut names: Vec<&str> =
        properties().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, n)| n).collect();
    names.sort_unstable();
    format!("[{}]", names.join(", "))
}

const _: () = assert!(GUARDRAILS.len() <= 64, "each has a bit of `watched`");
const _: () = assert!(OPTIONS.len() + SCYLLA_OPTIONS.len() + FOREIGN.len() + 1 < 63);

#[cfg(test)]
mod tests;
