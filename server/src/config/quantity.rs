//! Sizes as people write them: `64MiB`, `1G`. They are binary whatever their spelling, as in
//! ScyllaDB's `--memory 1G` and Cassandra's `32MiB`.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use crate::limits::SNAPSHOT_STAY_MIN;

/// Parses a size; `unit_bytes` is what a bare number counts.
pub(crate) fn size(text: &str, unit_bytes: u64) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" => unit_bytes,
        "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return Err(format!("`{text}` is no size: write for example 512MiB or 4G")),
    };
    number.checked_mul(factor).ok_or_else(|| format!("`{text}` is more than 2^64 bytes"))
}

/// Parses a time as cassandra.yaml has it: a whole number and its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text)?;
    let of_seconds = |seconds: u64| number.checked_mul(seconds).map(Duration::from_secs);
    let time = match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => of_seconds(1),
        "m" => of_seconds(60),
        "h" => of_seconds(60 * 60),
        "d" => of_seconds(24 * 60 * 60),
        _ => return Err(format!("`{text}` is no time: write for example 500ms or 5s")),
    };
    time.filter(|time| *time <= TIME_MAX).ok_or_else(|| format!("`{text}` is more than a day"))
}

/// Parses a time as [`duration`] does, of any length and with microseconds.
pub(crate) fn micros(text: &str) -> Result<i64, String> {
    let (number, unit) = split(text)?;
    let factor: u64 = match unit {
        "us" | "µs" => 1,
        "ms" => 1000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return Err(format!("`{text}` is no time: write for example 500ms or 1h")),
    };
    let micros = number.checked_mul(factor).and_then(|micros| i64::try_from(micros).ok());
    micros.ok_or_else(|| format!("`{text}` is too long"))
}

/// Parses how long a snapshot stays, in whole seconds.
pub(crate) fn snapshot_stay(text: &str) -> Result<Duration, String> {
    let stay = Duration::from_secs(micros(text)?.unsigned_abs() / 1_000_000);
    if stay < SNAPSHOT_STAY_MIN {
        let min_s = SNAPSHOT_STAY_MIN.as_secs();
        return Err(format!("ttl for snapshot must be at least {min_s} seconds"));
    }
    Ok(stay)
}

/// A number in the largest unit that shows it whole; the last of `units` is 1.
pub(crate) fn exact(number: i64, units: &[(i64, &str)]) -> String {
    let fits = |(factor, _): &&(i64, &str)| number % factor == 0 && number != 0;
    let (factor, unit) = units.iter().find(fits).or(units.last()).expect("there are units");
    format!("{}{unit}", number / factor)
}

/// The longest time that can be configured.
const TIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);

fn split(text: &str) -> Result<(u64, &str), String> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number = number.parse().map_err(|_| format!("`{text}` does not begin with a number"))?;
    Ok((number, unit.trim()))
}

/// A size in the largest unit that shows it within a few per cent.
pub(crate) struct Bytes(pub(crate) u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let units = ["B", "KiB", "MiB", "GiB", "TiB"];
        let (mut value, mut unit) = (self.0 as f64, 0);
        while value >= 1024.0 && unit + 1 < units.len() {
            value /= 1024.0;
            unit += 1;
        }
        let decimals = usize::from(value < 10.0 && value.fract() > 0.04);
        write!(f, "{value:.decimals$} {}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_read_as_their_authors_mean_them() {
        assert_eq!(size("1G", 1), Ok(1 << 30));
        assert_eq!(size("32MiB", 1), Ok(32 << 20));
        assert_eq!(size("32", 1 << 20), Ok(32 << 20));
        assert!(size("G", 1).unwrap_err().contains("does not begin with a number"));
        assert!(size("1 parsec", 1).unwrap_err().contains("is no size"));
        assert!(size("99999999999G", 1).is_err());
    }

    #[test]
    fn sizes_are_shown_short() {
        assert_eq!(Bytes(1 << 30).to_string(), "1 GiB");
        assert_eq!(Bytes(1536 << 20).to_string(), "1.5 GiB");
        assert_eq!(Bytes(700 << 20).to_string(), "700 MiB");
        assert_eq!(Bytes(999).to_string(), "999 B");
    }
}
