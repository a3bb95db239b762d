//! `floor`: the beginning of the interval that a time lies in, of intervals of one length from a start on.
//!
//! ```text
//! start ─┬─ duration ─┬─ duration ─┬─ duration ─┬─►
//!                     └ floor      time
//! ```
//!
//! Without a start intervals begin in 1970. Months are counted from the start, so that the third of a month each begins
//! where three months begin. The rules and texts are those of Cassandra's `TimeFcts` and `Duration`.

use model::CqlType;

use super::Call;
use super::arithmetic::moved;
use super::time::{date_of_millis, millis_of};
use crate::error::{Error, Result};
use crate::literal::{Duration, MILLIS_OF_DAY, NANOS_OF_DAY};

const NANOS_OF_MILLI: i64 = 1_000_000;
/// No month is shorter.
const MONTH_DAYS_MIN: i64 = 28;

/// `floor`, of a timestamp, timeuuid or date in ms, or of a time of day in ns.
pub(super) fn floor(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let Some(duration) = Duration::from_bytes(call.value(1)) else { return Ok(None) };
    let Some(time) = millis_of(call.ty(0), call.value(0)) else { return Ok(None) };
    if *call.ty(0) == CqlType::Time {
        return time_of_day(time, &duration).map(|nanos| Some(nanos.to_be_bytes().to_vec()));
    }
    let start = match call.signature.arguments.get(2) {
        None => 0,
        Some(ty) => match millis_of(ty, call.value(2)) {
            Some(start) => start,
            None => return Ok(None),
        },
    };
    let is_date = *call.ty(0) == CqlType::Date;
    if is_date && duration.nanos != 0 {
        return Err(Error::invalid(format!(
            "The floor on date values cannot be computed for the {duration} duration as precision is below 1 day"
        )));
    }
    if duration.nanos % NANOS_OF_MILLI != 0 {
        return Err(Error::invalid(format!(
            "The floor cannot be computed for the {duration} duration as precision is below 1 millisecond"
        )));
    }
    let floor = floor_of_millis(time, &duration, start)?;
    Ok(Some(match is_date {
        true => date_of_millis(floor)?.to_be_bytes().to_vec(),
        false => floor.to_be_bytes().to_vec(),
    }))
}

fn time_of_day(nanos: i64, duration: &Duration) -> Result<i64> {
    if duration.months != 0 || duration.days != 0 || duration.nanos > NANOS_OF_DAY {
        return Err(Error::invalid(
            "For time values, the floor can only be computed for durations smaller that a day",
        ));
    }
    refuse_negative(duration)?;
    Ok(match duration.nanos {
        0 => nanos,
        // What a type hint makes a time of need not be one.
        length => nanos
            .checked_sub(nanos.rem_euclid(length))
            .ok_or_else(|| Error::invalid(format!("{nanos} ns are no time of a day")))?,
    })
}

fn refuse_negative(duration: &Duration) -> Result<()> {
    if duration.months < 0 || duration.days < 0 || duration.nanos < 0 {
        let text = "Negative durations are not supported by the floor function";
        return Err(Error::invalid(text));
    }
    Ok(())
}

/// The last beginning of an interval that is not behind `time`; all in ms.
fn floor_of_millis(time: i64, duration: &Duration, start: i64) -> Result<i64> {
    if start > time {
        let text = "The floor function starting time is greater than the provided time";
        return Err(Error::invalid(text));
    }
    refuse_negative(duration)?;
    let since = i128::from(time) - i128::from(start);
    let millis = i128::from(duration.days) * i128::from(MILLIS_OF_DAY)
        + i128::from(duration.nanos / NANOS_OF_MILLI);
    if duration.months == 0 {
        let into = if millis == 0 { 0 } else { since % millis };
        return Ok((i128::from(time) - into) as i64);
    }
    // The beginnings rise with their number, of which no more than this fit.
    let month = i128::from(MONTH_DAYS_MIN * MILLIS_OF_DAY);
    let (mut fits, mut beyond) = (0, since / (i128::from(duration.months) * month + millis) + 1);
    while beyond - fits > 1 {
        let middle = (fits + beyond) / 2;
        match beginning(start, duration, middle).is_some_and(|at| at <= time) {
            true => fits = middle,
            false => beyond = middle,
        }
    }
    match fits {
        0 => Ok(start),
        fits => Ok(beginning(start, duration, fits).expect("it was found to begin before `time`")),
    }
}

/// Where interval number `number` begins, in ms; `None` if that is no time.
fn beginning(start: i64, duration: &Duration, number: i128) -> Option<i64> {
    let by = Duration {
        months: i32::try_from(i128::from(duration.months) * number).ok()?,
        days: i32::try_from(i128::from(duration.days) * number).ok()?,
        nanos: i64::try_from(i128::from(duration.nanos) * number).ok()?,
    };
    moved(start, &by)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = MILLIS_OF_DAY;

    fn floor(time: i64, text: &str, start: i64) -> Result<i64> {
        floor_of_millis(time, &text.parse().expect("a duration"), start)
    }

    /// Before: the node ended, for no calendar has this time.
    #[test]
    fn the_floor_of_the_least_timestamp_is_itself() {
        assert_eq!(floor(i64::MIN, "1mo", i64::MIN), Ok(i64::MIN));
        assert_eq!(floor(i64::MIN + 5, "1y", i64::MIN), Ok(i64::MIN));
    }

    #[test]
    fn a_floor_is_the_last_beginning_that_is_not_behind() {
        assert_eq!(floor(10 * DAY + 5, "7d", 0), Ok(7 * DAY));
        assert_eq!(floor(10 * DAY + 5, "0h", 0), Ok(10 * DAY + 5));
        assert_eq!(floor(59 * DAY, "1mo", 30 * DAY), Ok(58 * DAY), "from the 31st to the 28th");
        assert_eq!(floor(58 * DAY - 1, "1mo", 30 * DAY), Ok(30 * DAY));
        assert_eq!(floor(i64::MAX, "1d", i64::MIN).map(|at| i64::MAX - at < DAY), Ok(true));
        assert!(floor(0, "1d", 1).is_err());
    }

    #[test]
    fn no_length_of_an_interval_makes_it_take_long_or_overflow() {
        for text in ["2147483647mo", "178956970y2147483647d", "1mo", "1ms", "2147483647d"] {
            let least = i64::MIN;
            let times = [(i64::MAX, 0), (i64::MAX, least), (1, 0), (0, 0), (least, least)];
            for (time, start) in times {
                let at = floor(time, text, start);
                assert!(at.is_ok_and(|at| start <= at && at <= time), "{text} {time} {start}");
            }
        }
    }
}
