//! Dates, times of day and timestamps as text.
//!
//! Dates are proleptic Gregorian and may have any year the type can hold. A timestamp without a
//! zone is UTC. Zones are offsets, `Z`, `UTC` and `GMT`; names of regions are refused.

use crate::error::{Error, Result};

/// What the wire adds to the days since 1970 of a date: the epoch is in the middle of a `u32`.
pub const EPOCH_DAYS_BIAS: i64 = 1 << 31;
/// Milliseconds of a day.
pub const MILLIS_OF_DAY: i64 = 86_400_000;
/// Nanoseconds of a day.
pub const NANOS_OF_DAY: i64 = 86_400_000_000_000;

/// A day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// The year; 0 is the year before 1.
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
}

impl Civil {
    /// Whether the calendar has it: what it does not have comes back as another day.
    fn exists(&self) -> bool {
        (1..=12).contains(&self.month) && civil_of_days(days_of_civil(*self)) == *self
    }
}

/// Days since 1970-01-01. (Howard Hinnant, "chrono-compatible low-level date algorithms".)
pub fn days_of_civil(date: Civil) -> i64 {
    let year = date.year - i64::from(date.month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((date.month + 9) % 12) + 2) / 5 + date.day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The day of the calendar that is so many days after 1970-01-01.
pub fn civil_of_days(days: i64) -> Civil {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    Civil {
        year: year_of_era + era * 400 + i64::from(month <= 2),
        month,
        day: day_of_year - (153 * shifted_month + 2) / 5 + 1,
    }
}

impl std::fmt::Display for Civil {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // As `java.time` writes it: more than four digits have a sign.
        let sign = match self.year {
            ..0 => "-",
            0..10_000 => "",
            _ => "+",
        };
        write!(f, "{sign}{:04}-{:02}-{:02}", self.year.abs(), self.month, self.day)
    }
}

/// Reads digits, marks and letters of a text from left to right.
struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    /// The next `min..=max` digits as a number.
    fn number(&mut self, min: usize, max: usize) -> Option<i64> {
        let count = self.rest.bytes().take(max).take_while(u8::is_ascii_digit).count();
        if count < min {
            return None;
        }
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        digits.parse().ok()
    }

    /// Passes one of the marks.
    fn mark(&mut self, marks: &[char]) -> Option<char> {
        let first = self.rest.chars().next().filter(|first| marks.contains(first))?;
        self.rest = &self.rest[first.len_utf8()..];
        Some(first)
    }

    /// `2026-11-21`, whose year may have a sign and any number of digits up to `year_digits`.
    fn civil(&mut self, year_digits: usize) -> Option<Civil> {
        self.fields(year_digits).filter(|date| date.exists())
    }

    /// The same, but of the days up to the 31st those that the month does not have are its last
    /// one: so Cassandra reads timestamps.
    fn civil_or_last_day(&mut self, year_digits: usize) -> Option<Civil> {
        let date = self.fields(year_digits).filter(|date| (1..=31).contains(&date.day))?;
        (28..=date.day).rev().map(|day| Civil { day, ..date }).chain([date]).find(Civil::exists)
    }

    /// The numbers of a date, which may be no day of the calendar.
    fn fields(&mut self, year_digits: usize) -> Option<Civil> {
        let negative = self.mark(&['-', '+']) == Some('-');
        let year = self.number(4, year_digits)?;
        self.mark(&['-'])?;
        let month = self.number(2, 2)?;
        self.mark(&['-'])?;
        let day = self.number(2, 2)?;
        Some(Civil { year: if negative { -year } else { year }, month, day })
    }

    /// A fraction of a second as nanoseconds: 1 to 9 digits behind a point that was passed.
    fn nanos(&mut self) -> Option<i64> {
        let before = self.rest.len();
        let number = self.number(1, 9)?;
        Some(number * 10i64.pow(9 - (before - self.rest.len()) as u32))
    }

    /// The rest as a zone: its offset in milliseconds.
    fn zone(&mut self) -> Option<i64> {
        let zone = self.rest.trim_matches(' ');
        self.rest = "";
        if zone.is_empty() || ["Z", "UTC", "GMT"].iter().any(|name| zone.eq_ignore_ascii_case(name))
        {
            return Some(0);
        }
        let mut scanner = Scanner { rest: zone };
        let sign = if scanner.mark(&['+', '-'])? == '-' { -1 } else { 1 };
        let hours = scanner.number(2, 2)?;
        let colon = scanner.mark(&[':']).is_some();
        let minutes = if colon || !scanner.rest.is_empty() { scanner.number(2, 2)? } else { 0 };
        let fits = scanner.rest.is_empty() && hours < 24 && minutes < 60;
        fits.then_some(sign * (hours * 60 + minutes) * 60_000)
    }
}

/// A date in wire form: text, or the wire's own number.
pub(super) fn date(text: &str) -> Result<u32> {
    if text.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() {
        return text.parse().map_err(|_| {
            Error::invalid(format!("Unable to make unsigned int (for date) from: '{text}'"))
        });
    }
    let mut scanner = Scanner { rest: text };
    let date = scanner.civil(7).filter(|_| scanner.rest.is_empty() && has_sign_that_fits(text));
    let Some(date) = date else {
        return Err(Error::invalid(format!(
            "Unable to coerce '{text}' to a formatted date (long)"
        )));
    };
    let days = days_of_civil(date);
    u32::try_from(days + EPOCH_DAYS_BIAS).map_err(|_| {
        let (what, bound) = if days < 0 {
            ("less than min", "-5877641-06-23T00:00Z")
        } else {
            ("greater than max", "+5881580-07-11T00:00Z")
        };
        Error::invalid(format!("Input date {text} is {what} supported date {bound}"))
    })
}

/// Whether the year of a date has the sign that `java.time` wants: `+` before more than four digits and only there, `-`
/// before any but zero.
fn has_sign_that_fits(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']).split('-').next().unwrap_or_default();
    match text.as_bytes().first() {
        Some(b'-') => digits.bytes().any(|digit| digit != b'0'),
        Some(b'+') => digits.len() > 4,
        _ => digits.len() == 4,
    }
}

/// Nanoseconds since midnight: `01:02:03.123456789`, or their number.
pub(super) fn time_of_day(text: &str) -> Result<i64> {
    if text.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() {
        return text.parse().ok().filter(|nanos| (0..NANOS_OF_DAY).contains(nanos)).ok_or_else(
            || Error::invalid(format!("Unable to make long (for time) from: '{text}'")),
        );
    }
    let mut scanner = Scanner { rest: text };
    let nanos = (|| {
        let hours = scanner.number(1, 2).filter(|hours| *hours < 24)?;
        scanner.mark(&[':'])?;
        let minutes = scanner.number(1, 2).filter(|minutes| *minutes < 60)?;
        scanner.mark(&[':'])?;
        let seconds = scanner.number(1, 2).filter(|seconds| *seconds < 60)?;
        let nanos = if scanner.mark(&['.']).is_some() { scanner.nanos()? } else { 0 };
        let total = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + nanos;
        scanner.rest.is_empty().then_some(total)
    })();
    nanos.ok_or_else(|| {
        let text = format!("(TimeType) Unable to coerce '{text}' to a formatted time (long)");
        Error::invalid(text)
    })
}

/// A timestamp in wire form: text, or milliseconds since 1970. The empty text is the empty value.
pub(super) fn timestamp(text: &str) -> Result<Vec<u8>> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    if text.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit()) {
        return text
            .parse::<i64>()
            .map(|millis| millis.to_be_bytes().to_vec())
            .map_err(|_| Error::invalid(format!("Unable to make long (for date) from: '{text}'")));
    }
    timestamp_millis(text)
        .map(|millis| millis.to_be_bytes().to_vec())
        .ok_or_else(|| Error::invalid(format!("Unable to parse a date/time from '{text}'")))
}

/// Reads `2026-11-21[ T]12:34[:56[.789]][zone]` as ms since 1970; `None` if the text has another
/// form.
fn timestamp_millis(text: &str) -> Option<i64> {
    let mut scanner = Scanner { rest: text };
    let days = days_of_civil(scanner.civil_or_last_day(9)?);
    let mut millis = 0;
    let timed =
        scanner.rest.trim_start_matches(' ').starts_with(|c: char| c.is_ascii_digit() || c == 'T');
    if timed {
        scanner.mark(&[' ', 'T'])?;
        let hours = scanner.number(2, 2).filter(|hours| *hours < 24)?;
        scanner.mark(&[':'])?;
        let minutes = scanner.number(2, 2).filter(|minutes| *minutes < 60)?;
        millis = (hours * 60 + minutes) * 60_000;
        if scanner.mark(&[':']).is_some() {
            millis += scanner.number(2, 2).filter(|seconds| *seconds < 60)? * 1000;
            if scanner.mark(&['.']).is_some() {
                millis += scanner.nanos()? / 1_000_000;
            }
        }
    }
    let zone = scanner.zone()?;
    days.checked_mul(MILLIS_OF_DAY)?.checked_add(millis)?.checked_sub(zone)
}
