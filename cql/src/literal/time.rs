//! Dates, times of day and timestamps as text.
//!
//! Dates are proleptic Gregorian and may have any year the type can hold. A timestamp without a zone is UTC (`zone.rs`).
//!
//! ```text
//! date        2026-11-21                    years with more than four digits have a sign; or days, 2^31 is 1970-01-01
//! time        12:34:56[.123456789]          or nanoseconds since midnight
//! timestamp   2026-11-21[ T]12:34[:56[.789]][zone]     or 2026-11-21[zone], or milliseconds since 1970
//! ```
//!
//! 1. [`Scanner`] reads digits and marks from left to right; each form is a few of its steps.
//! 2. [`Civil`] becomes days by Howard Hinnant's algorithms.
//! 3. A timestamp is days and the time of day as they are at its place, less how far the zone is ahead.
//!
//! Invariants: no text panics: numbers have bounded digits, years are bounded before they are computed with; a date
//! that the calendar does not have is refused, but in a timestamp a day up to the 31st is the last day of a shorter
//! month, as in Cassandra.
//!
//! Not here: zones and their names (`zone.rs`), times as they are shown (`text.rs`), functions of times
//! (`expr/function/time.rs`).

use super::zone::{Behind, ahead_ms};
use crate::error::{Error, Result};

/// What the wire adds to the days since 1970 of a date: the epoch is in the middle of a `u32`.
pub const EPOCH_DAYS_BIAS: i64 = 1 << 31;
/// Milliseconds of a day.
pub const MILLIS_OF_DAY: i64 = 86_400_000;
/// Nanoseconds of a day.
pub const NANOS_OF_DAY: i64 = 86_400_000_000_000;
/// Digits that Java reads of a number of any length.
const DIGITS_MAX: usize = 19;
/// Years of more digits are refused before they are computed with: no timestamp has them.
const YEAR_MAX: i64 = 300_000_000;

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
    /// The day, or the last one of its month where that has fewer than 31: so Cassandra reads timestamps. `None` if no
    /// month has it.
    fn or_last_day(self) -> Option<Civil> {
        (1..=31).contains(&self.day).then_some(())?;
        let days = (28..=self.day).rev().map(|day| Civil { day, ..self });
        days.chain([self]).find(Civil::exists)
    }

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
pub(super) struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    /// Begins with the first character of a text.
    pub(super) fn of(text: &'a str) -> Scanner<'a> {
        Scanner { rest: text }
    }

    /// Whether nothing is left.
    pub(super) fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `min..=max` digits as a number; `None` if it is too large.
    pub(super) fn number(&mut self, min: usize, max: usize) -> Option<i64> {
        let count = self.rest.bytes().take(max).take_while(u8::is_ascii_digit).count();
        if count < min {
            return None;
        }
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        digits.parse().ok()
    }

    /// Passes one of the marks.
    pub(super) fn mark(&mut self, marks: &[char]) -> Option<char> {
        let first = self.rest.chars().next().filter(|first| marks.contains(first))?;
        self.rest = &self.rest[first.len_utf8()..];
        Some(first)
    }

    /// `2026-11-21`, whose year may have a sign and any number of digits up to `year_digits`; perhaps no day of the
    /// calendar.
    fn civil(&mut self, year_digits: usize) -> Option<Civil> {
        let start = self.rest;
        let negative = self.mark(&['-', '+']) == Some('-');
        let year = self.number(4, year_digits)?;
        self.mark(&['-'])?;
        let month = self.number(2, 2)?;
        self.mark(&['-'])?;
        let day = self.number(2, 2)?;
        let date = Civil { year: if negative { -year } else { year }, month, day };
        has_sign_that_fits(start).then_some(date)
    }

    /// `2026-1-2`, of numbers with any number of digits: the date that stands before a time of day.
    fn civil_of_numbers(&mut self) -> Option<Civil> {
        let year = self.number(1, DIGITS_MAX).filter(|year| (1..=YEAR_MAX).contains(year))?;
        self.mark(&['-'])?;
        let month = self.number(1, DIGITS_MAX)?;
        self.mark(&['-'])?;
        let day = self.number(1, DIGITS_MAX)?;
        Some(Civil { year, month, day })
    }

    /// A fraction of a second as nanoseconds: `min` to 9 digits behind a point that was passed.
    fn nanos(&mut self, min: usize) -> Option<i64> {
        let before = self.rest.len();
        let number = if min == 0 && !self.begins_with_digit() { 0 } else { self.number(min, 9)? };
        Some(number * 10i64.pow(9 - (before - self.rest.len()) as u32))
    }

    /// The time of day of a timestamp in ms: `24:00` is the end of the day.
    fn time_of_timestamp(&mut self) -> Option<i64> {
        let hours = self.number(1, DIGITS_MAX).filter(|hours| *hours <= 24)?;
        self.mark(&[':'])?;
        let minutes = self.number(1, DIGITS_MAX).filter(|minutes| *minutes < 60)?;
        let (mut seconds, mut nanos) = (0, 0);
        if self.mark(&[':']).is_some() {
            seconds = self.number(1, DIGITS_MAX).filter(|seconds| *seconds < 60)?;
            if self.mark(&['.']).is_some() {
                nanos = self.nanos(0)?;
            }
        }
        let is_end = hours == 24 && (minutes, seconds, nanos) == (0, 0, 0);
        let is_time = hours < 24 || is_end;
        is_time.then(|| ((hours * 60 + minutes) * 60 + seconds) * 1000 + nanos / 1_000_000)
    }

    fn begins_with_digit(&self) -> bool {
        self.rest.starts_with(|c: char| c.is_ascii_digit())
    }
}

/// A date in wire form: text, or the wire's own number.
pub(super) fn date(text: &str) -> Result<u32> {
    if text.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() {
        return text.parse().map_err(|_| {
            Error::invalid(format!("Unable to make unsigned int (for date) from: '{text}'"))
        });
    }
    let mut scanner = Scanner::of(text);
    let date = scanner.civil(7).filter(|date| scanner.is_done() && date.exists());
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
    nanos_of_clock(text.trim_matches(|c| c <= ' ')).ok_or_else(|| {
        let text = format!("(TimeType) Unable to coerce '{text}' to a formatted time (long)");
        Error::invalid(text)
    })
}

/// Reads `1:2:3[.4]` as nanoseconds. The numbers are those of Java's `Integer.parseInt`: of any length, with a sign.
fn nanos_of_clock(text: &str) -> Option<i64> {
    let part = |text: &str, end: i32| {
        text.parse::<i32>().ok().filter(|number| (0..end).contains(number)).map(i64::from)
    };
    let (hours, rest) = text.split_once(':')?;
    let (minutes, rest) = rest.split_once(':')?;
    let (seconds, nanos) = match rest.split_once('.') {
        Some((seconds, fraction)) => {
            let mut scanner = Scanner::of(fraction);
            let nanos = scanner.nanos(1).filter(|_| scanner.is_done())?;
            (seconds, nanos)
        }
        None => (rest, 0),
    };
    let minutes = part(hours, 24)? * 60 + part(minutes, 60)?;
    Some((minutes * 60 + part(seconds, 60)?) * 1_000_000_000 + nanos)
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

/// Reads `2026-11-21[ T]12:34[:56[.789]][zone]`, or the date alone, as ms since 1970; `None` if the text has another form.
///
/// Before a time, numbers have any number of digits and years begin with 1. A date alone has the form of ISO 8601,
/// whose years may be before 1 and then have no zone but an offset without a space.
fn timestamp_millis(text: &str) -> Option<i64> {
    let mut scanner = Scanner::of(text);
    let timed = scanner.civil_of_numbers().filter(|_| {
        let rest = scanner.rest.strip_prefix([' ', 'T']);
        rest.is_some_and(|rest| Scanner::of(rest).begins_with_digit())
    });
    let (date, time, behind) = match timed {
        Some(date) => {
            scanner.mark(&[' ', 'T'])?;
            (date, scanner.time_of_timestamp()?, Behind::Time)
        }
        None => {
            scanner = Scanner::of(text);
            let date = scanner.civil(10)?;
            (scanner.rest.is_empty() || !scanner.rest.starts_with(' ') || date.year > 0)
                .then_some(())?;
            (date, 0, Behind::Date)
        }
    };
    let days = days_of_civil(date.or_last_day()?);
    let local = days.checked_mul(MILLIS_OF_DAY)?.checked_add(time)?;
    local.checked_sub(ahead_ms(scanner.rest, behind, local)?)
}
