//! Integers of every width, floats, varint and decimal: from text to the wire form, and [`Decimal`], which is computed
//! with.
//!
//! 1. `from_text` reads by the type, and refuses in the words of Cassandra's `fromString`.
//! 2. Floats are read as Java reads them, but for hexadecimal ones.
//! 3. A decimal is its digits as a whole number, and the number of digits behind the point; both are kept as they were
//!    written.
//!
//! Invariants: digits become a number in one place, `whole`, and its length is bounded there, since the time grows with
//! the square of the length. `aligned` adds at most [`DECIMAL_SCALE_MAX`] digits.
//!
//! Not here: `+ - * / %` (`expr/function/arithmetic.rs`), other numbers as text (`text.rs`), the form that compares as
//! bytes (`model/src/ordered/number.rs`).

use std::str::FromStr;

use model::CqlType;
use num_bigint::BigInt;

use super::float::double_text;
use crate::error::{Error, Result};
use crate::limits::{DECIMAL_SCALE_MAX, NUMBER_BYTES_MAX, NUMBER_DIGITS_MAX};
use crate::steps::step;

/// The bytes of a number of the type.
pub(super) fn from_text(text: &str, ty: &CqlType) -> Result<Vec<u8>> {
    let wrong = |what: &str| Error::invalid(format!("Unable to make {what} from '{text}'"));
    fn bytes<const N: usize>(bytes: [u8; N]) -> Vec<u8> {
        bytes.to_vec()
    }
    match ty {
        CqlType::Tinyint => {
            text.parse::<i8>().map(|n| bytes(n.to_be_bytes())).map_err(|_| wrong("byte"))
        }
        CqlType::Smallint => {
            text.parse::<i16>().map(|n| bytes(n.to_be_bytes())).map_err(|_| wrong("short"))
        }
        CqlType::Int => {
            text.parse::<i32>().map(|n| bytes(n.to_be_bytes())).map_err(|_| wrong("int"))
        }
        CqlType::Bigint | CqlType::Counter => {
            text.parse::<i64>().map(|n| bytes(n.to_be_bytes())).map_err(|_| wrong("long"))
        }
        CqlType::Float => {
            float::<f32>(text).map(|n| bytes(n.to_be_bytes())).ok_or_else(|| wrong("float"))
        }
        CqlType::Double => {
            float::<f64>(text).map(|n| bytes(n.to_be_bytes())).ok_or_else(|| wrong("double"))
        }
        CqlType::Varint | CqlType::Decimal if is_too_long(text) => Err(Error::invalid(format!(
            "a {ty} of more than {NUMBER_DIGITS_MAX} digits cannot be written as text"
        ))),
        CqlType::Varint => {
            whole(text).map(|n| n.to_signed_bytes_be()).ok_or_else(|| wrong("BigInteger"))
        }
        CqlType::Decimal => {
            Decimal::parse(text).map(|n| n.to_bytes()).ok_or_else(|| {
                // Cassandra writes this one small.
                Error::invalid(format!("unable to make BigDecimal from '{text}'"))
            })
        }
        _ => Err(Error::invalid(format!("'{text}' is not a value of type {ty}"))),
    }
}

/// A number as Java reads it, but for hexadecimal ones: spaces around it and a letter for its type are passed over.
fn float<F: FromStr>(text: &str) -> Option<F> {
    let text = text.trim_matches(|c| c <= ' ');
    let number = text.strip_prefix(['+', '-']).unwrap_or(text);
    if number == "NaN" {
        return number.parse().ok();
    }
    if number == "Infinity" {
        return text.parse().ok();
    }
    let number = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
    let is_decimal = |b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    if number.bytes().all(is_decimal) { number.parse().ok() } else { None }
}

/// Whether a number in text has more digits than are read: those of its exponent and its marks count too.
fn is_too_long(text: &str) -> bool {
    text.len() > NUMBER_DIGITS_MAX
}

/// The whole number of these digits: the one place where digits become a number. `None` if they are too many.
fn whole(digits: &str) -> Option<BigInt> {
    unsigned(digits).and_then(|_| digits.parse().ok())
}

/// The digits of a whole number without its sign. `None` if something else is among them, or if they are too many.
fn unsigned(digits: &str) -> Option<&str> {
    let number = digits.strip_prefix(['+', '-']).unwrap_or(digits);
    let are_digits = number.bytes().all(|b| b.is_ascii_digit());
    (are_digits && !is_too_long(digits)).then_some(number)
}

/// Refuses a varint or decimal, in wire form, that is too long to be computed with or to be shown.
pub fn check_number_bytes(ty: &CqlType, value: &[u8]) -> Result<()> {
    if matches!(ty, CqlType::Varint | CqlType::Decimal) && value.len() > NUMBER_BYTES_MAX {
        return Err(Error::invalid(format!(
            "a {ty} of more than {NUMBER_BYTES_MAX} bytes is not computed with or shown as text"
        )));
    }
    Ok(())
}

/// The type of a float literal: double, unless only a decimal holds it as written. The digits are compared as text:
/// `1e-11999` would be a number of 12,000 of them.
pub(super) fn narrowest_float(text: &str) -> CqlType {
    step(text.len());
    let exact = text.parse::<f64>().ok().zip(Written::of(text)).is_some_and(|(double, written)| {
        Written::of(&double_text(double)).is_some_and(|shown| shown.equals(&written))
    });
    if exact { CqlType::Double } else { CqlType::Decimal }
}

/// A number such as `-12.5e3` as it is written.
struct Written {
    /// Its sign, if it is written, and all digits without the point.
    digits: String,
    /// How many of them are behind the point.
    scale: i32,
}

impl Written {
    fn of(text: &str) -> Option<Written> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.trim_start_matches(['-', '+']).is_empty() && fraction.is_empty() {
            return None;
        }
        let scale = i64::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        let scale = i32::try_from(scale).ok()?;
        Some(Written { digits: format!("{whole}{fraction}"), scale })
    }

    /// Whether both are the same number. Scales that [`Decimal::aligned`] does not bring together are not.
    fn equals(&self, other: &Written) -> bool {
        let is_near = self.scale.abs_diff(other.scale) <= DECIMAL_SCALE_MAX;
        is_near && self.significant().is_some_and(|number| Some(number) == other.significant())
    }

    /// The number without the zeros around it: whether it is negative, its digits, and the power of ten that they are
    /// multiplied by. Zero has no digits. `None` if it is no number.
    fn significant(&self) -> Option<(bool, &str, i64)> {
        let number = unsigned(&self.digits)?.trim_start_matches('0');
        let digits = number.trim_end_matches('0');
        if digits.is_empty() {
            return Some((false, digits, 0));
        }
        let zeros = i64::try_from(number.len() - digits.len()).ok()?;
        Some((self.digits.starts_with('-'), digits, zeros - i64::from(self.scale)))
    }
}

/// `unscaled × 10^-scale`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// All digits of the number, without the point.
    pub unscaled: BigInt,
    /// How many of them are behind the point.
    pub scale: i32,
}

impl Decimal {
    /// A number such as `-12.5e3`.
    pub fn parse(text: &str) -> Option<Decimal> {
        let Written { digits, scale } = Written::of(text)?;
        Some(Decimal { unscaled: whole(&digits)?, scale })
    }

    /// The number in wire form.
    pub fn from_bytes(bytes: &[u8]) -> Option<Decimal> {
        let (scale, unscaled) = bytes.split_first_chunk::<4>()?;
        let unscaled = BigInt::from_signed_bytes_be(unscaled);
        Some(Decimal { unscaled, scale: i32::from_be_bytes(*scale) })
    }

    /// The wire form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_decimal(&self.unscaled, self.scale, &mut out);
        out
    }

    /// Both numbers with one scale: the larger. `None` if that would need too many digits.
    pub fn aligned(&self, other: &Decimal) -> Option<(BigInt, BigInt, i32)> {
        let scale = self.scale.max(other.scale);
        Some((self.rescaled(scale)?, other.rescaled(scale)?, scale))
    }

    /// The digits at a scale that is not smaller.
    fn rescaled(&self, scale: i32) -> Option<BigInt> {
        let more = u32::try_from(i64::from(scale) - i64::from(self.scale)).ok()?;
        step(more as usize);
        (more <= DECIMAL_SCALE_MAX).then(|| &self.unscaled * BigInt::from(10).pow(more))
    }
}

impl std::fmt::Display for Decimal {
    /// As Java's `BigDecimal.toString`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = self.unscaled.magnitude().to_string();
        let sign = if self.unscaled.sign() == num_bigint::Sign::Minus { "-" } else { "" };
        let adjusted = digits.len() as i64 - 1 - i64::from(self.scale);
        if self.scale < 0 || adjusted < -6 {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            return write!(f, "{sign}{first}{point}{rest}E{adjusted:+}");
        }
        let scale = self.scale as usize;
        if scale == 0 {
            return write!(f, "{sign}{digits}");
        }
        // A width in a format is a `u16`, which is fewer digits than a statement holds.
        let zeros = "0".repeat((scale + 1).saturating_sub(digits.len()));
        let padded = zeros + &digits;
        let (whole, fraction) = padded.split_at(padded.len() - scale);
        write!(f, "{sign}{whole}.{fraction}")
    }
}

/// Appends the wire form of `unscaled × 10^-scale`.
pub fn put_decimal(unscaled: &BigInt, scale: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(&scale.to_be_bytes());
    out.extend_from_slice(&unscaled.to_signed_bytes_be());
}
