//! Durations: months, days and nanoseconds, which do not convert into each other.
//!
//! ```text
//! wire := months days nanoseconds       each a zigzagged vint (`model/src/types/vint.rs`)
//! ```
//!
//! ```text
//! text := [-] ( digits unit )*       y mo w d h m s ms us ns, from the longest to the shortest, each once
//!       | [-] P 1Y2M3DT4H5M6S        ISO 8601, each part may be missing; or P2W alone
//!       | [-] P 0001-02-03T04:05:06  its alternative form
//! ```
//!
//! 1. `Sum` adds the parts up: years to months, weeks to days, hours and shorter units to nanoseconds.
//! 2. One sign stands before all.
//!
//! Invariant: a sum that is larger than its part can hold is refused before it is made; so are units out of order.
//! Source: Cassandra's `Duration`, with its words.
//!
//! Not here: whether bytes are a duration (`model/src/types/check.rs`), a duration added to a time
//! (`expr/function/arithmetic.rs`).

use std::str::FromStr;

use model::types::vint;

use crate::error::{Error, Result};

/// A duration. No two parts have different signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Duration {
    /// Number of months.
    pub months: i32,
    /// Number of days.
    pub days: i32,
    /// Number of nanoseconds.
    pub nanos: i64,
}

/// The units from the longest: letters, name, which part they count in, and how many of it.
const UNITS: [(&str, &str, Part, u64); 10] = [
    ("y", "years", Part::Months, 12),
    ("mo", "months", Part::Months, 1),
    ("w", "weeks", Part::Days, 7),
    ("d", "days", Part::Days, 1),
    ("h", "hours", Part::Nanos, 3_600_000_000_000),
    ("m", "minutes", Part::Nanos, 60_000_000_000),
    ("s", "seconds", Part::Nanos, 1_000_000_000),
    ("ms", "milliseconds", Part::Nanos, 1_000_000),
    ("us", "microseconds", Part::Nanos, 1_000),
    ("ns", "nanoseconds", Part::Nanos, 1),
];

/// The alternative form: where digits stand, and which marks.
const ALTERNATIVE: &str = "0000-00-00T00:00:00";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Months,
    Days,
    Nanos,
}

impl Part {
    fn name(self) -> &'static str {
        ["months", "days", "nanoseconds"][self as usize]
    }

    fn max(self) -> u64 {
        if self == Part::Nanos { i64::MAX as u64 } else { i32::MAX as u64 }
    }
}

/// Adds up the parts of a duration, which must come from the longest unit to the shortest.
#[derive(Default)]
struct Sum {
    parts: [u64; 3],
    last: Option<usize>,
}

impl Sum {
    fn add(&mut self, unit: usize, count: &str) -> Result<()> {
        let (_, name, part, factor) = UNITS[unit];
        match self.last {
            Some(last) if last == unit => {
                let text = format!("Invalid duration. The {name} are specified multiple times");
                return Err(Error::invalid(text));
            }
            Some(last) if last > unit => {
                let last = UNITS[last].1;
                let text = format!("Invalid duration. The {last} should be after {name}");
                return Err(Error::invalid(text));
            }
            _ => self.last = Some(unit),
        }
        let total = count
            .parse::<u64>()
            .ok()
            .and_then(|count| count.checked_mul(factor)?.checked_add(self.parts[part as usize]))
            .filter(|total| *total <= part.max());
        let Some(total) = total else {
            let (name, max) = (part.name(), part.max());
            let text = format!(
                "Invalid duration. The total number of {name} must be less or equal to {max}"
            );
            return Err(Error::invalid(text));
        };
        self.parts[part as usize] = total;
        Ok(())
    }
}

impl FromStr for Duration {
    type Err = Error;

    /// `-1y2mo`, `P1Y2M`, `P2W`, `P0001-02-03T04:05:06`.
    fn from_str(text: &str) -> Result<Duration> {
        let (negative, body) = text.strip_prefix('-').map_or((false, text), |body| (true, body));
        let mut sum = Sum::default();
        let read = match body.strip_prefix('P') {
            Some(iso) if iso.ends_with('W') => read_weeks(iso, &mut sum)?,
            Some(iso) if iso.contains('-') => read_alternative(iso, &mut sum)?,
            Some(iso) => read_iso(iso, &mut sum)?,
            None => read_units(body, &mut sum)?,
        };
        if !read {
            return Err(Error::invalid(format!("Unable to convert '{body}' to a duration")));
        }
        let [months, days, nanos] = sum.parts;
        let sign = if negative { -1 } else { 1 };
        Ok(Duration {
            months: sign as i32 * months as i32,
            days: sign as i32 * days as i32,
            nanos: sign * nanos as i64,
        })
    }
}

/// The digits at the beginning, and the rest.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// `1y2mo..`; false if it is not of that form.
fn read_units(mut text: &str, sum: &mut Sum) -> Result<bool> {
    if text.is_empty() {
        return Ok(false);
    }
    while !text.is_empty() {
        let (count, rest) = digits(text);
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (letters, rest) = rest.split_at(end);
        let letters = letters.to_lowercase().replace('µ', "u");
        let unit = UNITS.iter().position(|(unit, ..)| *unit == letters);
        let (Some(unit), false) = (unit, count.is_empty()) else { return Ok(false) };
        sum.add(unit, count)?;
        text = rest;
    }
    Ok(true)
}

/// `2W`: weeks stand alone.
fn read_weeks(text: &str, sum: &mut Sum) -> Result<bool> {
    let (count, rest) = digits(text);
    if count.is_empty() || rest != "W" {
        return Ok(false);
    }
    sum.add(unit("w"), count)?;
    Ok(true)
}

/// `1Y2M3DT4H5M6S`: each part may be missing, all of them too.
fn read_iso(text: &str, sum: &mut Sum) -> Result<bool> {
    let mut parts = Vec::new();
    let mut rest = text;
    let mut pass = |letters: [(char, &'static str); 3], rest: &mut &str| {
        for (letter, name) in letters {
            let (count, behind) = digits(rest);
            if let Some(behind) = behind.strip_prefix(letter).filter(|_| !count.is_empty()) {
                parts.push((name, count.to_owned()));
                *rest = behind;
            }
        }
    };
    pass([('Y', "y"), ('M', "mo"), ('D', "d")], &mut rest);
    if let Some(time) = rest.strip_prefix('T') {
        rest = time;
        pass([('H', "h"), ('M', "m"), ('S', "s")], &mut rest);
    }
    if !rest.is_empty() {
        return Ok(false);
    }
    for (name, count) in parts {
        sum.add(unit(name), &count)?;
    }
    Ok(true)
}

/// `0001-02-03T04:05:06`, each part with as many digits; false if the text has another form.
fn read_alternative(text: &str, sum: &mut Sum) -> Result<bool> {
    let fits = |(byte, shown): (u8, u8)| match shown {
        b'0' => byte.is_ascii_digit(),
        mark => byte == mark,
    };
    if text.len() != ALTERNATIVE.len() || !text.bytes().zip(ALTERNATIVE.bytes()).all(fits) {
        return Ok(false);
    }
    for (name, count) in ["y", "mo", "d", "h", "m", "s"].iter().zip(text.split(['-', 'T', ':'])) {
        sum.add(unit(name), count)?;
    }
    Ok(true)
}

/// The place of a unit among `UNITS`.
fn unit(name: &str) -> usize {
    UNITS.iter().position(|(letters, ..)| *letters == name).expect("a name of the list")
}

impl Duration {
    /// The wire form.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(9);
        for part in [self.months.into(), self.days.into(), self.nanos] {
            vint::put(vint::zigzag(part), &mut out);
        }
        out
    }

    /// The duration in wire form.
    pub fn from_bytes(bytes: &[u8]) -> Option<Duration> {
        let (months, rest) = vint::get(bytes)?;
        let (days, rest) = vint::get(rest)?;
        let (nanos, _) = vint::get(rest)?;
        let [months, days, nanos] = [months, days, nanos].map(vint::unzigzag);
        Some(Duration { months: months.try_into().ok()?, days: days.try_into().ok()?, nanos })
    }
}

impl std::fmt::Display for Duration {
    /// As Cassandra's `Duration.toString`: `1y2mo3d4h`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.months < 0 || self.days < 0 || self.nanos < 0 {
            f.write_str("-")?;
        }
        let mut left = [
            u64::from(self.months.unsigned_abs()),
            u64::from(self.days.unsigned_abs()),
            self.nanos.unsigned_abs(),
        ];
        for (letters, _, part, factor) in UNITS {
            let count = left[part as usize] / factor;
            // Cassandra shows days, never weeks.
            if count > 0 && letters != "w" {
                write!(f, "{count}{letters}")?;
                left[part as usize] %= factor;
            }
        }
        Ok(())
    }
}
