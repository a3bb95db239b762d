//! `abs`, `exp`, `log`, `log10`, `round` of numbers, as Cassandra's types compute them.
//!
//! Whole numbers of fixed width are computed as doubles and narrowed as Java does: towards zero, to
//! the bounds of a `long` or an `int`, then cut to the width. A varint is computed as a decimal.
//!
//! 1. `exp`, `log` and `log10` of floats and of whole numbers of fixed width are computed by `f64`, those of decimals
//!    and varints by the series of `real.rs`.
//! 2. The result has the type of the argument.
//! 3. An empty value gives null. A varint or decimal that is too long to compute with is refused; `abs` takes any.
//!
//! Not here: `+ - * / %` and the negative (`arithmetic.rs`), `floor`, which is of times (`floor.rs`), the series
//! (`real.rs`).

use model::CqlType;
use num_bigint::BigInt;

use super::Call;
use super::arithmetic::{decimal, float, integer, wrapped};
use super::real;
use crate::error::{Error, Result};
use crate::literal::{Decimal, check_number_bytes};

/// The value of a function of one number; null of an empty value.
type Outcome = Result<Option<Vec<u8>>>;

/// `abs`: the number without its sign.
pub(super) fn abs(call: &Call<'_>) -> Outcome {
    let (ty, value) = (call.ty(0), call.value(0));
    Ok(match ty {
        CqlType::Float | CqlType::Double => {
            float((ty, value)).map(|number| float_bytes(ty, number.abs()))
        }
        CqlType::Decimal => decimal((ty, value)).map(|number| {
            let unscaled = BigInt::from(number.unscaled.magnitude().clone());
            Decimal { unscaled, scale: number.scale }.to_bytes()
        }),
        _ => integer((ty, value)).map(|number| {
            // The smallest number of a type has no positive one: it stays, as in Java.
            integer_bytes(ty, &BigInt::from(number.magnitude().clone()))
        }),
    })
}

/// `round`: to the nearest whole number; of two, the larger, but of decimals the one further from
/// zero.
pub(super) fn round(call: &Call<'_>) -> Outcome {
    let (ty, value) = (call.ty(0), call.value(0));
    check_number_bytes(ty, value)?;
    Ok(match ty {
        CqlType::Float => float((ty, value)).map(|number| {
            let whole = (number + 0.5).floor() as i32;
            (whole as f32).to_be_bytes().to_vec()
        }),
        CqlType::Double => float((ty, value)).map(|number| {
            let whole = number.floor();
            // `number + 0.5` would round 0.49999999999999994 up.
            let whole = if number - whole >= 0.5 { whole + 1.0 } else { whole };
            ((whole as i64) as f64).to_be_bytes().to_vec()
        }),
        CqlType::Decimal => match decimal((ty, value)) {
            Some(number) => Some(real::rounded_whole(&number).map_err(Error::invalid)?.to_bytes()),
            None => None,
        },
        _ => Some(value.to_vec()),
    })
}

/// `exp`: e to the power of the number.
pub(super) fn exp(call: &Call<'_>) -> Outcome {
    compute(call, f64::exp, real::exp)
}

/// `log`: the natural logarithm.
pub(super) fn log(call: &Call<'_>) -> Outcome {
    compute(call, f64::ln, real::ln)
}

/// `log10`: the logarithm to base 10.
pub(super) fn log10(call: &Call<'_>) -> Outcome {
    compute(call, f64::log10, real::log10)
}

fn compute(
    call: &Call<'_>,
    of_float: fn(f64) -> f64,
    of_decimal: fn(&Decimal) -> std::result::Result<Decimal, String>,
) -> Outcome {
    let (ty, value) = (call.ty(0), call.value(0));
    check_number_bytes(ty, value)?;
    let of_decimal = |number: &Decimal| of_decimal(number).map_err(Error::invalid);
    Ok(match ty {
        CqlType::Float | CqlType::Double => {
            float((ty, value)).map(|number| float_bytes(ty, of_float(number)))
        }
        CqlType::Decimal => match decimal((ty, value)) {
            Some(number) => Some(of_decimal(&number)?.to_bytes()),
            None => None,
        },
        CqlType::Varint => match decimal((ty, value)) {
            Some(number) => {
                let result = real::truncated(&of_decimal(&number)?).map_err(Error::invalid)?;
                Some(result.to_signed_bytes_be())
            }
            None => None,
        },
        _ => float((ty, value)).map(|number| {
            let result = of_float(number);
            let narrowed = match ty {
                CqlType::Bigint | CqlType::Counter => result as i64,
                _ => i64::from(result as i32),
            };
            integer_bytes(ty, &BigInt::from(narrowed))
        }),
    })
}

fn float_bytes(ty: &CqlType, number: f64) -> Vec<u8> {
    match ty {
        CqlType::Float => (number as f32).to_be_bytes().to_vec(),
        _ => number.to_be_bytes().to_vec(),
    }
}

fn integer_bytes(ty: &CqlType, number: &BigInt) -> Vec<u8> {
    match ty.fixed_bytes() {
        Some(bytes) => wrapped(number, bytes),
        None => number.to_signed_bytes_be(),
    }
}
