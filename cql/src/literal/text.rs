//! Scalars as text, as Cassandra shows them: the other way of `from_text`.
//!
//! Numbers are shown as Java shows them (floats: `float.rs`). Times are UTC.
//!
//! Invariant: a number longer than `NUMBER_BYTES_MAX` is refused, since the time grows with the square of its length.
//!
//! Not here: collections, and quotes around texts (`show.rs`), JSON (`expr/function/json.rs`), from text to bytes
//! (`literal.rs`).

use std::net::{Ipv4Addr, Ipv6Addr};

use model::CqlType;
use model::types::hex;
use num_bigint::BigInt;

use super::float::{double_text, float_text};
use super::{Decimal, Duration, EPOCH_DAYS_BIAS, MILLIS_OF_DAY, check_number_bytes, civil_of_days};
use crate::error::{Error, Result};

/// A scalar as text, as Cassandra shows it; an error for a number longer than any that is shown.
pub fn to_text(ty: &CqlType, value: &[u8]) -> Result<String> {
    let broken = || Error::invalid(format!("{} is not a value of type {ty}", hex(value)));
    fn array<const N: usize>(value: &[u8]) -> Option<[u8; N]> {
        value.try_into().ok()
    }
    check_number_bytes(ty, value)?;
    let text = match ty {
        CqlType::Ascii | CqlType::Text => {
            std::str::from_utf8(value).map_err(|_| broken())?.to_owned()
        }
        CqlType::Blob => hex(value),
        ty if ty.is_composite() => hex(value),
        CqlType::Boolean => (value != [0]).to_string(),
        CqlType::Float => float_text(f32::from_be_bytes(array(value).ok_or_else(broken)?)),
        CqlType::Double => double_text(f64::from_be_bytes(array(value).ok_or_else(broken)?)),
        CqlType::Decimal => Decimal::from_bytes(value).ok_or_else(broken)?.to_string(),
        // Of the other classes one is left, that of UUIDs.
        CqlType::Uuid | CqlType::Timeuuid | CqlType::Custom(_) => {
            uuid::Uuid::from_bytes(array(value).ok_or_else(broken)?).to_string()
        }
        CqlType::Inet => match (array::<4>(value), array::<16>(value)) {
            (Some(four), _) => Ipv4Addr::from(four).to_string(),
            (_, Some(sixteen)) => address_text(sixteen.into()),
            _ => return Err(broken()),
        },
        CqlType::Date => {
            let days = u32::from_be_bytes(array(value).ok_or_else(broken)?);
            civil_of_days(i64::from(days) - EPOCH_DAYS_BIAS).to_string()
        }
        CqlType::Time => time_text(i64::from_be_bytes(array(value).ok_or_else(broken)?)),
        CqlType::Timestamp => {
            let millis = i64::from_be_bytes(array(value).ok_or_else(broken)?);
            timestamp_text(millis, 'T')
        }
        CqlType::Empty => String::new(),
        CqlType::Duration => Duration::from_bytes(value).ok_or_else(broken)?.to_string(),
        _ if value.is_empty() => return Err(broken()),
        _ => BigInt::from_signed_bytes_be(value).to_string(),
    };
    Ok(text)
}

/// As Java's `getHostAddress`: all eight groups, so that `::1` is `0:0:0:0:0:0:0:1`; a mapped IPv4 address is that one.
fn address_text(address: Ipv6Addr) -> String {
    match address.to_ipv4_mapped() {
        Some(mapped) => mapped.to_string(),
        None => address.segments().map(|group| format!("{group:x}")).join(":"),
    }
}

/// A timestamp in ms as ISO text in UTC, such as `2026-11-21T12:34:56.789Z`. A year before 1 has a sign, as that of a date
/// has; Cassandra counts such years back from 1, and its text is read as another time.
pub(crate) fn timestamp_text(millis: i64, separator: char) -> String {
    let date = civil_of_days(millis.div_euclid(MILLIS_OF_DAY));
    let time = millis.rem_euclid(MILLIS_OF_DAY);
    let (seconds, millis) = (time / 1000, time % 1000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{date}{separator}{hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z")
}

/// A time of day in ns as text, such as `12:34:56.123456789`.
fn time_text(nanos: i64) -> String {
    let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}.{nanos:09}")
}
