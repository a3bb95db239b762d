//! Reads the sub-options of compaction one by one: each is taken by its reader, or refused by name at the end.
//!
//! 1. A strategy makes a [`SubOptions`] of the map, and reads each sub-option that it knows: the entry is taken out,
//!    and its default stands where there is none.
//! 2. `finish` refuses what is left, so a sub-option of another strategy is never ignored.
//!
//! The words are those of the `validateOptions` of Cassandra's strategies; sizes are those of `FBUtilities`, with `B`
//! at the end and powers of 1000 (`K`) or 1024 (`Ki`).
//!
//! Not here: what each strategy reads (`compaction/`), which sub-options have an effect (`effect.rs`).

use std::collections::BTreeMap;
use std::str::FromStr;

use super::refusal::{Refusal, Result};

/// The sub-options that are not read yet.
pub(super) struct SubOptions<'a> {
    left: BTreeMap<&'a str, &'a str>,
}

impl<'a> SubOptions<'a> {
    pub(super) fn new(given: &'a BTreeMap<String, String>) -> SubOptions<'a> {
        SubOptions { left: given.iter().map(|(key, value)| (&**key, &**value)).collect() }
    }

    /// The text of one.
    pub(super) fn text(&mut self, name: &str) -> Option<&'a str> {
        self.left.remove(name)
    }

    /// A whole number.
    pub(super) fn integer<T: FromStr>(&mut self, name: &str, default: T) -> Result<T> {
        self.number(name, default, "int (base10)")
    }

    /// A whole number above zero.
    pub(super) fn positive(&mut self, name: &str, default: i32) -> Result<u32> {
        let value = self.integer(name, default)?;
        match u32::try_from(value) {
            Ok(value) if value > 0 => Ok(value),
            _ => Refusal::config(format!("{name} must be larger than 0, but was {value}")),
        }
    }

    /// A finite number.
    pub(super) fn float(&mut self, name: &str, default: f64) -> Result<f64> {
        let value: f64 = self.number(name, default, "float")?;
        if value.is_finite() {
            return Ok(value);
        }
        Refusal::config(format!("{value} is not a parsable float for {name}"))
    }

    /// A number, `kind` for the error.
    pub(super) fn number<T: FromStr>(&mut self, name: &str, default: T, kind: &str) -> Result<T> {
        let Some(text) = self.text(name) else { return Ok(default) };
        let refused = |_| Refusal::Config(format!("{text} is not a parsable {kind} for {name}"));
        text.parse().map_err(refused)
    }

    /// `true` or `false`; `wrong` words the error.
    pub(super) fn flag(
        &mut self,
        name: &str,
        default: bool,
        wrong: impl FnOnce(&str) -> String,
    ) -> Result<bool> {
        match self.text(name) {
            None => Ok(default),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(text) => Refusal::config(wrong(text)),
        }
    }

    /// Refuses what is left.
    pub(super) fn finish(self, class: &str) -> Result<()> {
        if self.left.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self.left.into_keys().collect();
        let names = names.join(", ");
        Refusal::config(format!("Properties specified [{names}] are not understood by {class}"))
    }
}

/// Bytes of a size such as `1GiB`, `1.5 GB` or `-10B`; what is wrong with it otherwise.
pub(super) fn size(text: &str) -> std::result::Result<f64, String> {
    let Some(rest) = text.strip_suffix('B') else {
        return Err(format!("{text} does not end in unit B"));
    };
    let number = rest.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &rest[number.len()..] {
        "" => 1.0,
        "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        other => return Err(format!("{other}B is not a unit of bytes")),
    };
    match number.trim().parse::<f64>() {
        Ok(count) if count.is_finite() => Ok(count * scale),
        _ => Err(format!("{text} does not begin with a number")),
    }
}

/// As Cassandra prints a size: `1.000GiB`.
pub(super) fn pretty(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = bytes;
    let mut unit = 0;
    while scaled.abs() >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{scaled:.3}{}", UNITS[unit])
}
