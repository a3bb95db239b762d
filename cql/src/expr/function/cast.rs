//! `CAST(a AS type)` between scalars, and every scalar as text.

use super::arithmetic::{decimal, float, integer};
use super::time::{date_of_millis, millis_of};
use super::{Call, hex};
use crate::error::{Error, Result};
use crate::limits::DECIMAL_SCALE_MAX;
use crate::literal::{Decimal, Duration, EPOCH_DAYS_BIAS, MILLIS_OF_DAY, civil_of_days};
use model::CqlType;
use num_bigint::BigInt;
use std::net::IpAddr;

/// Whether there is a cast from one type to another: none is from a type to itself.
pub(in crate::expr) fn is_castable(from: &CqlType, to: &CqlType) -> bool {
    let is_number = |ty: &CqlType| {
        matches!(
            ty,
            CqlType::Tinyint
                | CqlType::Smallint
                | CqlType::Int
                | CqlType::Bigint
                | CqlType::Counter
                | CqlType::Varint
                | CqlType::Float
                | CqlType::Double
                | CqlType::Decimal
        )
    };
    match to {
        _ if from == to => false,
        CqlType::Text | CqlType::Ascii => {
            is_number(from)
                || matches!(
                    from,
                    CqlType::Ascii
                        | CqlType::Boolean
                        | CqlType::Inet
                        | CqlType::Timeuuid
                        | CqlType::Uuid
                        | CqlType::Date
                        | CqlType::Time
                        | CqlType::Timestamp
                )
        }
        CqlType::Timestamp => matches!(from, CqlType::Timeuuid | CqlType::Date),
        CqlType::Date => matches!(from, CqlType::Timeuuid | CqlType::Timestamp),
        CqlType::Counter => false,
        _ => is_number(from) && is_number(to),
    }
}

/// `CAST(a AS t)`: an empty value gives null, and so does a number out of all bounds.
pub(super) fn cast(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let (from, to, value) = (call.ty(0), call.result(), call.value(0));
    if from == to {
        return Ok(Some(value.to_vec()));
    }
    if value.is_empty() && !matches!(from, CqlType::Ascii) {
        return Ok(None);
    }
    Ok(match to {
        CqlType::Text | CqlType::Ascii => Some(to_text(from, value)?.into_bytes()),
        CqlType::Timestamp => millis_of(from, value).map(|millis| millis.to_be_bytes().to_vec()),
        CqlType::Date => match millis_of(from, value) {
            Some(millis) => Some(date_of_millis(millis)?.to_be_bytes().to_vec()),
            None => None,
        },
        CqlType::Float => float((from, value)).map(|n| (n as f32).to_be_bytes().to_vec()),
        CqlType::Double => float((from, value)).map(|n| n.to_be_bytes().to_vec()),
        CqlType::Decimal => decimal((from, value)).map(|n| n.to_bytes()),
        _ => to_integer(from, to, value),
    })
}

fn to_integer(from: &CqlType, to: &CqlType, value: &[u8]) -> Option<Vec<u8>> {
    let number = match from {
        CqlType::Float | CqlType::Double if *to != CqlType::Varint => {
            // As Java narrows: to a long, then to what is asked for.
            let long = float((from, value))? as i64;
            let int = long.clamp(i32::MIN.into(), i32::MAX.into());
            BigInt::from(if *to == CqlType::Bigint { long } else { int })
        }
        CqlType::Float | CqlType::Double | CqlType::Decimal => {
            let Decimal { unscaled, scale } = decimal((from, value))?;
            if scale.unsigned_abs() > DECIMAL_SCALE_MAX {
                return None;
            }
            let ten = BigInt::from(10).pow(scale.unsigned_abs());
            if scale >= 0 { unscaled / ten } else { unscaled * ten }
        }
        _ => integer((from, value))?,
    };
    Some(match to {
        CqlType::Varint => number.to_signed_bytes_be(),
        _ => {
            let bytes = to.fixed_bytes()?;
            let mut long = i64::try_from(&number).unwrap_or_else(|_| {
                let digits = number.to_signed_bytes_be();
                let low = digits.len().saturating_sub(8);
                digits[low..].iter().fold(0, |n, byte| n << 8 | i64::from(*byte))
            });
            if bytes < 8 {
                long = long << (64 - 8 * bytes) >> (64 - 8 * bytes);
            }
            long.to_be_bytes()[8 - bytes..].to_vec()
        }
    })
}

/// A scalar as text, as Cassandra shows it.
pub(crate) fn to_text(ty: &CqlType, value: &[u8]) -> Result<String> {
    let broken = || Error::invalid(format!("{} is not a value of type {ty}", hex(value)));
    fn array<const N: usize>(value: &[u8]) -> Option<[u8; N]> {
        value.try_into().ok()
    }
    let text = match ty {
        CqlType::Ascii | CqlType::Text => {
            std::str::from_utf8(value).map_err(|_| broken())?.to_owned()
        }
        CqlType::Blob => hex(value),
        CqlType::Boolean => (value != [0]).to_string(),
        CqlType::Float => {
            java_float(f32::from_be_bytes(array(value).ok_or_else(broken)?), 1e-3, 1e7)
        }
        CqlType::Double => {
            java_float(f64::from_be_bytes(array(value).ok_or_else(broken)?), 1e-3, 1e7)
        }
        CqlType::Decimal => Decimal::from_bytes(value).ok_or_else(broken)?.to_string(),
        CqlType::Uuid | CqlType::Timeuuid => {
            uuid::Uuid::from_bytes(array(value).ok_or_else(broken)?).to_string()
        }
        CqlType::Inet => match (array::<4>(value), array::<16>(value)) {
            (Some(four), _) => IpAddr::from(four).to_string(),
            (_, Some(sixteen)) => IpAddr::from(sixteen).to_string(),
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
        CqlType::Duration => Duration::from_bytes(value).ok_or_else(broken)?.to_string(),
        _ => integer((ty, value)).ok_or_else(broken)?.to_string(),
    };
    Ok(text)
}

/// `2026-11-21T12:34:56.789Z`.
pub(super) fn timestamp_text(millis: i64, separator: char) -> String {
    let date = civil_of_days(millis.div_euclid(MILLIS_OF_DAY));
    let time = millis.rem_euclid(MILLIS_OF_DAY);
    let (seconds, millis) = (time / 1000, time % 1000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{date}{separator}{hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z")
}

/// `12:34:56.123456789`.
fn time_text(nanos: i64) -> String {
    let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}.{nanos:09}")
}

/// As Java's `toString`: plain between `small` and `large`, else `1.5E10`.
fn java_float<F>(number: F, small: F, large: F) -> String
where
    F: Copy
        + PartialOrd
        + Default
        + std::fmt::Debug
        + std::fmt::LowerExp
        + std::ops::Neg<Output = F>,
{
    let zero = F::default();
    let size = if number < zero { -number } else { number };
    let plain = size == zero || (size >= small && size < large);
    let shown = format!("{number:?}");
    if shown == "inf" || shown == "-inf" {
        return shown.replace("inf", "Infinity");
    }
    if plain || shown == "NaN" {
        return shown;
    }
    let (mantissa, exponent) = format!("{number:e}")
        .split_once('e')
        .map(|(mantissa, exponent)| (mantissa.to_owned(), exponent.to_owned()))
        .expect("the format has an exponent");
    let point = if mantissa.contains('.') { "" } else { ".0" };
    format!("{mantissa}{point}E{exponent}")
}
