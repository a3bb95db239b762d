//! Functions of the clock, new ids, and between timeuuids, timestamps and dates.
//!
//! ```text
//! timestamp  i64, milliseconds since 1970        date  u32, days since 1970 plus 2^31
//! time       i64, nanoseconds since midnight     timeuuid  60 bits of ticks of 100 ns since 1582-10-15 (RFC 9562)
//! ```
//!
//! 1. `current_*` give the time of the statement: all calls in one statement give the same.
//! 2. `now` and `uuid` give another id at each call.
//! 3. All others convert through milliseconds since 1970 (`millis_of`). An empty value gives null, a time that no date
//!    has is an error.
//!
//! Invariant: `min_timeuuid` and `max_timeuuid` bound all timeuuids of their millisecond in the order in which
//! timeuuids compare, which takes the last eight bytes as signed.
//!
//! Not here: the beginnings of intervals (`floor.rs`), times as text (`literal/time.rs`), where ids come from
//! (`server/src/ids.rs`).

use model::CqlType;

use super::Call;
use crate::bind::UUID_EPOCH_TICKS;
use crate::error::{Error, Result};
use crate::literal::{EPOCH_DAYS_BIAS, MILLIS_OF_DAY};

/// Ticks of a millisecond.
const TICKS_OF_MILLI: i64 = 10_000;
/// Ticks since 1582 have 60 bits in a timeuuid.
const TIMEUUID_TICKS_END: u64 = 1 << 60;

/// A date in wire form. Before 1970, too, a day begins at midnight; Cassandra cuts off towards 1970 there, and says
/// that noon of one day is of the next.
pub(super) fn date_of_millis(millis: i64) -> Result<u32> {
    let days = millis.div_euclid(MILLIS_OF_DAY) + EPOCH_DAYS_BIAS;
    u32::try_from(days).map_err(|_| Error::invalid(format!("{millis} is no date")))
}

/// Nanoseconds since midnight.
pub(super) fn time_of_millis(millis: i64) -> i64 {
    millis.rem_euclid(MILLIS_OF_DAY) * 1_000_000
}

/// The moment of a timeuuid, timestamp or date, in milliseconds; `None` for an empty value.
pub(super) fn millis_of(ty: &CqlType, value: &[u8]) -> Option<i64> {
    match ty {
        CqlType::Timeuuid => {
            let uuid: [u8; 16] = value.try_into().ok()?;
            let bits = u64::from_be_bytes(uuid[..8].try_into().ok()?);
            let ticks = (bits >> 32) | (bits >> 16 & 0xFFFF) << 32 | (bits & 0x0FFF) << 48;
            Some((ticks as i64 - UUID_EPOCH_TICKS).div_euclid(TICKS_OF_MILLI))
        }
        CqlType::Date => {
            let days = u32::from_be_bytes(value.try_into().ok()?);
            Some((i64::from(days) - EPOCH_DAYS_BIAS) * MILLIS_OF_DAY)
        }
        _ => Some(i64::from_be_bytes(value.try_into().ok()?)),
    }
}

/// `now`: a new timeuuid.
pub(super) fn now(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    Ok(Some(call.time.ids.timeuuid().to_vec()))
}

/// `uuid`: a new random uuid.
pub(super) fn uuid(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    Ok(Some(call.time.ids.uuid().to_vec()))
}

/// `current_timestamp`: the time of the statement, in ms.
pub(super) fn current_timestamp(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    Ok(Some(call.time.now_ms.to_be_bytes().to_vec()))
}

/// `current_date`: the day of the statement.
pub(super) fn current_date(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    Ok(Some(date_of_millis(call.time.now_ms)?.to_be_bytes().to_vec()))
}

/// `current_time`: the time of day of the statement, in ns.
pub(super) fn current_time(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    Ok(Some(time_of_millis(call.time.now_ms).to_be_bytes().to_vec()))
}

/// `to_date`: the day of a timestamp or timeuuid.
pub(super) fn to_date(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let Some(millis) = millis_of(call.ty(0), call.value(0)) else { return Ok(None) };
    Ok(Some(date_of_millis(millis)?.to_be_bytes().to_vec()))
}

/// `to_timestamp`: the time of a date or timeuuid, in ms.
pub(super) fn to_timestamp(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    Ok(millis_of(call.ty(0), call.value(0)).map(|millis| millis.to_be_bytes().to_vec()))
}

/// `to_unix_timestamp`: milliseconds, as a timestamp has them.
pub(super) fn to_unix_timestamp(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    to_timestamp(call)
}

/// `min_timeuuid`: the smallest of a millisecond, as timeuuids compare.
pub(super) fn min_timeuuid(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    // The last eight bytes compare as signed, so the smallest is all 0x80.
    Ok(bound_timeuuid(call.value(0), 0, 0x80)?.map(Vec::from))
}

/// `max_timeuuid`: the largest of a millisecond.
pub(super) fn max_timeuuid(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    Ok(bound_timeuuid(call.value(0), TICKS_OF_MILLI - 1, 0x7F)?.map(Vec::from))
}

/// The timeuuid so many ticks after a timestamp whose last eight bytes are all `rest`; `None` for an empty value, and for
/// a time after the last timeuuid. `writetime` is one, in microseconds, and Cassandra answers a call with it. A time
/// whose ticks 64 bits cannot count is refused, where Cassandra's wrap around.
fn bound_timeuuid(timestamp: &[u8], ticks_after: i64, rest: u8) -> Result<Option<[u8; 16]>> {
    let Ok(millis) = timestamp.try_into().map(i64::from_be_bytes) else { return Ok(None) };
    let ticks = i128::from(millis) * i128::from(TICKS_OF_MILLI);
    let Ok(ticks) = u64::try_from(ticks + i128::from(UUID_EPOCH_TICKS + ticks_after)) else {
        return Err(Error::invalid(format!("No timeuuid is of the timestamp {millis} (ms)")));
    };
    if ticks >= TIMEUUID_TICKS_END {
        return Ok(None);
    }
    let mut uuid = [rest; 16];
    uuid[..4].copy_from_slice(&(ticks as u32).to_be_bytes());
    uuid[4..6].copy_from_slice(&((ticks >> 32) as u16).to_be_bytes());
    uuid[6..8].copy_from_slice(&((ticks >> 48) as u16 & 0x0FFF | 0x1000).to_be_bytes());
    Ok(Some(uuid))
}
