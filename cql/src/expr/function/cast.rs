//! `CAST(a AS type)` between scalars.
//!
//! 1. `is_castable` says from which types there is a cast to a type. `resolve.rs` makes a signature of each pair.
//! 2. `cast` converts by the type that is asked for: to text as values are shown, to numbers as Java does.
//!
//! Numbers: a float becomes a long or an int at its bounds, towards zero, and is then cut to the width; a decimal loses
//! its digits behind the point, and then all bytes but the low ones; an integer loses all bytes but the low ones.
//!
//! Invariant: no power of ten is computed whose exponent is larger than [`DECIMAL_SCALE_MAX`]; where that would be
//! needed the result is 0 or null.
//!
//! Not here: the list of casts (`table.rs`, from Cassandra's `CastFcts`), hints of a type, `(int) a`, which convert
//! nothing (`infer.rs`).

use model::CqlType;
use num_bigint::BigInt;

use super::Call;
use super::arithmetic::{decimal, float, integer};
use super::table::is_number;
use super::time::{date_of_millis, millis_of};
use crate::error::Result;
use crate::limits::DECIMAL_SCALE_MAX;
use crate::literal::{Decimal, check_number_bytes, to_text};

/// Whether there is a cast from one type to another: none is from a type to itself.
pub(in crate::expr) fn is_castable(from: &CqlType, to: &CqlType) -> bool {
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
    check_number_bytes(from, value)?;
    Ok(match to {
        CqlType::Text | CqlType::Ascii => Some(to_text(from, value)?.into_bytes()),
        CqlType::Timestamp => millis_of(from, value).map(|millis| millis.to_be_bytes().to_vec()),
        CqlType::Date => match millis_of(from, value) {
            Some(millis) => Some(date_of_millis(millis)?.to_be_bytes().to_vec()),
            None => None,
        },
        CqlType::Float => single((from, value)).map(|n| n.to_be_bytes().to_vec()),
        CqlType::Double => float((from, value)).map(|n| n.to_be_bytes().to_vec()),
        CqlType::Decimal => decimal((from, value)).map(|n| n.to_bytes()),
        _ => to_integer(from, to, value),
    })
}

/// A number as a float that was rounded once: by way of a double it may be rounded twice.
fn single((from, value): (&CqlType, &[u8])) -> Option<f32> {
    match from {
        CqlType::Float | CqlType::Double => float((from, value)).map(|number| number as f32),
        CqlType::Decimal => Decimal::from_bytes(value)?.to_string().parse().ok(),
        _ => integer((from, value))?.to_string().parse().ok(),
    }
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
            // A digit takes more than three bits. And 2^64 divides 10^64, so that the low bytes of what follows are 0.
            let is_below_one =
                scale > 0 && u64::from(scale.unsigned_abs()) > unscaled.bits() / 3 + 1;
            let is_zero_below = scale <= -64 && *to != CqlType::Varint;
            let (unscaled, scale) = match is_below_one || is_zero_below {
                true => (BigInt::ZERO, 0),
                false => (unscaled, scale),
            };
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
