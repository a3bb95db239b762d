//! `+ - * / %` of numbers, of texts and of dates, as Java does them.
//!
//! Integers of fixed width wrap. Decimals have 10,000 digits at most, rounded half up; a quotient
//! has 32 behind the point, or as many more as it begins with zeros.
//!
//! 1. `calculate` refuses varints and decimals that are too long to compute with, and calls `outcome`.
//! 2. `outcome` goes by the type of the result, which `resolve.rs` has chosen: texts are joined, a duration moves a
//!    date or a timestamp, and two numbers are both taken as numbers of that type.
//! 3. A division by zero is an error with Java's text, but of floats, which give infinity or NaN.
//! 4. An empty value of a number or time gives null.
//!
//! Invariants: the length of a product or a power of ten is bounded before it is computed; a month that is added to the
//! 31st ends at the last day of a shorter month. The rules of scale and precision are those of Cassandra's
//! `DecimalType`.
//!
//! Not here: which types an operator takes, and the type of its result (`resolve.rs`), functions of one number
//! (`math.rs`), the states of `sum` and `avg` (`aggregate.rs`), which add by `sum` of this file.

use std::f64::consts::LOG10_2;

use model::CqlType;
use model::limits::CELL_BYTES_MAX;
use num_bigint::{BigInt, BigUint, Sign};

use super::Call;
use super::time::millis_of;
use crate::error::Error;
use crate::lang::ast::BinaryOp;
use crate::limits::{DECIMAL_SCALE_MAX, NUMBER_BYTES_MAX, SUM_NUMBER_BYTES_MAX};
use crate::literal::{
    Civil, Decimal, Duration, EPOCH_DAYS_BIAS, MILLIS_OF_DAY, check_number_bytes, civil_of_days,
    days_of_civil, to_text,
};

/// A result, or why there is none.
type Outcome = Result<Option<Vec<u8>>, String>;

/// Digits behind the point that a quotient has at least.
const QUOTIENT_SCALE_MIN: i64 = 32;
/// And at most.
const QUOTIENT_SCALE_MAX: i64 = 1000;
/// Nanoseconds of a millisecond.
const NANOS_OF_MILLI: i64 = 1_000_000;
/// Digits of any decimal.
const PRECISION_MAX: usize = 10_000;

/// `left op right`; null if one of them is empty.
pub(super) fn calculate(op: BinaryOp, call: &Call<'_>) -> crate::error::Result<Option<Vec<u8>>> {
    let [left, right] = [0, 1].map(|index| (call.ty(index), call.value(index)));
    check_number_bytes(left.0, left.1)?;
    check_number_bytes(right.0, right.1)?;
    outcome(op, left, right, call.result()).map_err(|reason| Error::Function {
        keyspace: "system".into(),
        function: op.symbol().to_string(),
        arguments: call.signature.arguments.iter().map(CqlType::to_string).collect(),
        text: format!("the operation '{} {op} {}' failed: {reason}", left.0, right.0),
    })
}

/// The sum of two numbers of a type, or the text of both; null if one of them is empty.
pub fn sum(ty: &CqlType, left: &[u8], right: &[u8]) -> Result<Option<Vec<u8>>, String> {
    for value in [left, right] {
        if has_any_length(ty) && value.len() > SUM_NUMBER_BYTES_MAX {
            return Err(format!("a number has more than {SUM_NUMBER_BYTES_MAX} bytes"));
        }
    }
    outcome(BinaryOp::Add, (ty, left), (ty, right), ty)
}

/// Whether numbers of the type have any number of digits.
fn has_any_length(ty: &CqlType) -> bool {
    matches!(ty, CqlType::Varint | CqlType::Decimal)
}

/// Whether values of the type have a [`sum`].
pub(crate) fn has_sum(ty: &CqlType) -> bool {
    use CqlType::*;
    matches!(
        ty,
        Tinyint | Smallint | Int | Bigint | Varint | Decimal | Float | Double | Text | Ascii
    )
}

fn outcome(
    op: BinaryOp,
    left: (&CqlType, &[u8]),
    right: (&CqlType, &[u8]),
    result: &CqlType,
) -> Outcome {
    match result {
        CqlType::Text | CqlType::Ascii => {
            if left.1.len() + right.1.len() > CELL_BYTES_MAX {
                return Err(format!("the text has more than {CELL_BYTES_MAX} bytes"));
            }
            Ok(Some([left.1, right.1].concat()))
        }
        CqlType::Timestamp | CqlType::Date => shift(op, left, right.1, result),
        CqlType::Float | CqlType::Double => {
            let (Some(a), Some(b)) = (float(left), float(right)) else { return Ok(None) };
            Ok(Some(match result {
                CqlType::Float => of_float(op, a as f32, b as f32).to_be_bytes().to_vec(),
                _ => of_float(op, a, b).to_be_bytes().to_vec(),
            }))
        }
        CqlType::Decimal => {
            let (Some(a), Some(b)) = (operand(left)?, operand(right)?) else { return Ok(None) };
            of_decimal(op, &a, &b).map(|number| Some(number.to_bytes()))
        }
        CqlType::Varint => {
            let (Some(a), Some(b)) = (integer(left), integer(right)) else { return Ok(None) };
            let number = of_integer(op, &a, &b, "BigInteger divide by zero")?;
            Ok(Some(number.to_signed_bytes_be()))
        }
        _ => {
            let (Some(a), Some(b)) = (integer(left), integer(right)) else { return Ok(None) };
            let number = of_integer(op, &a, &b, "/ by zero")?;
            Ok(Some(wrapped(&number, result.fixed_bytes().unwrap_or(8))))
        }
    }
}

/// The negative of a number: `-value`.
pub(super) fn negate(call: &Call<'_>) -> crate::error::Result<Option<Vec<u8>>> {
    let (ty, value) = (call.ty(0), call.value(0));
    Ok(match ty {
        CqlType::Float => f32_of(value).map(|number| (-number).to_be_bytes().to_vec()),
        CqlType::Double => f64_of(value).map(|number| (-number).to_be_bytes().to_vec()),
        CqlType::Decimal => Decimal::from_bytes(value)
            .map(|number| Decimal { unscaled: -number.unscaled, scale: number.scale }.to_bytes()),
        CqlType::Varint => integer((ty, value)).map(|number| (-number).to_signed_bytes_be()),
        _ => integer((ty, value)).map(|number| wrapped(&-number, ty.fixed_bytes().unwrap_or(8))),
    })
}

/// The low bytes of a number: what Java leaves of it in a narrower type.
pub(super) fn wrapped(number: &BigInt, bytes: usize) -> Vec<u8> {
    let fill = if number.sign() == Sign::Minus { 0xFF } else { 0 };
    let all = number.to_signed_bytes_be();
    let mut out = vec![fill; bytes];
    let kept = all.len().min(bytes);
    out[bytes - kept..].copy_from_slice(&all[all.len() - kept..]);
    out
}

fn f32_of(value: &[u8]) -> Option<f32> {
    Some(f32::from_be_bytes(value.try_into().ok()?))
}

fn f64_of(value: &[u8]) -> Option<f64> {
    Some(f64::from_be_bytes(value.try_into().ok()?))
}

/// A number of any integer type.
pub(super) fn integer((_, value): (&CqlType, &[u8])) -> Option<BigInt> {
    (!value.is_empty()).then(|| BigInt::from_signed_bytes_be(value))
}

/// A number of any type, as a float.
pub(super) fn float((ty, value): (&CqlType, &[u8])) -> Option<f64> {
    match ty {
        CqlType::Float => f32_of(value).map(f64::from),
        CqlType::Double => f64_of(value),
        CqlType::Decimal => Decimal::from_bytes(value)?.to_string().parse().ok(),
        CqlType::Varint => integer((ty, value))?.to_string().parse().ok(),
        _ => i64::try_from(integer((ty, value))?).ok().map(|number| number as f64),
    }
}

/// A number of any type, as a decimal: a float has the digits it is shown with.
pub(super) fn decimal((ty, value): (&CqlType, &[u8])) -> Option<Decimal> {
    match ty {
        CqlType::Decimal => Decimal::from_bytes(value),
        CqlType::Float | CqlType::Double => Decimal::parse(&to_text(ty, value).ok()?),
        _ => Some(Decimal { unscaled: integer((ty, value))?, scale: 0 }),
    }
}

/// An operand beside a decimal. As in Cassandra it goes by way of a double, unless it has more
/// digits than that anyway: so 3 is 3.0, and the result has a digit more. `None` for an empty value.
fn operand((ty, value): (&CqlType, &[u8])) -> Result<Option<Decimal>, String> {
    if matches!(ty, CqlType::Decimal | CqlType::Varint) {
        return Ok(decimal((ty, value)));
    }
    match float((ty, value)) {
        Some(number) if number.is_nan() => Err("A NaN cannot be converted into a decimal".into()),
        Some(number) if number.is_infinite() => {
            Err("An infinite number cannot be converted into a decimal".into())
        }
        Some(number) => Ok(decimal((&CqlType::Double, &number.to_be_bytes()))),
        None => Ok(None),
    }
}

fn of_float<F>(op: BinaryOp, a: F, b: F) -> F
where
    F: std::ops::Add<Output = F>
        + std::ops::Sub<Output = F>
        + std::ops::Mul<Output = F>
        + std::ops::Div<Output = F>
        + std::ops::Rem<Output = F>,
{
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Subtract => a - b,
        BinaryOp::Multiply => a * b,
        BinaryOp::Divide => a / b,
        BinaryOp::Modulo => a % b,
    }
}

/// The result for whole numbers; `by_zero` is what is said of a division by zero.
fn of_integer(op: BinaryOp, a: &BigInt, b: &BigInt, by_zero: &str) -> Result<BigInt, String> {
    let divides = matches!(op, BinaryOp::Divide | BinaryOp::Modulo);
    if divides && b.sign() == Sign::NoSign {
        return Err(by_zero.into());
    }
    Ok(match op {
        BinaryOp::Add => a + b,
        BinaryOp::Subtract => a - b,
        BinaryOp::Multiply => product(a, b)?,
        BinaryOp::Divide => a / b,
        BinaryOp::Modulo => a % b,
    })
}

/// The product; an error, before it is made, if it could have more bytes than numbers that are computed with.
fn product(a: &BigInt, b: &BigInt) -> Result<BigInt, String> {
    if (a.bits() + b.bits()) / 8 > NUMBER_BYTES_MAX as u64 {
        return Err(format!("the result may have more than {NUMBER_BYTES_MAX} bytes"));
    }
    Ok(a * b)
}

fn of_decimal(op: BinaryOp, a: &Decimal, b: &Decimal) -> Result<Decimal, String> {
    let too_long = || "the result has too many digits".to_owned();
    if b.unscaled.sign() == Sign::NoSign {
        match op {
            BinaryOp::Divide => return Err("BigInteger divide by zero".into()),
            BinaryOp::Modulo => return Err("Division by zero".into()),
            _ => {}
        }
    }
    if op == BinaryOp::Multiply {
        let scale = a.scale.checked_add(b.scale).ok_or_else(too_long)?;
        return rounded(Decimal { unscaled: product(&a.unscaled, &b.unscaled)?, scale });
    }
    if op == BinaryOp::Divide {
        return quotient(a, b);
    }
    let (x, y, scale) = a.aligned(b).ok_or_else(too_long)?;
    if op == BinaryOp::Modulo {
        return Ok(remainder((a, &x), (b, &y)));
    }
    rounded(Decimal { unscaled: of_integer(op, &x, &y, "Division by zero")?, scale })
}

/// The rest of `a / b`, each with its digits at the scale of both, with the scale that `BigDecimal.remainder` gives it:
/// that of `a`, unless the whole quotient ends with fewer zeros than its preferred scale has, which is `a`'s less `b`'s.
fn remainder((a, x): (&Decimal, &BigInt), (b, y): (&Decimal, &BigInt)) -> Decimal {
    let (mut quotient, mut rest) = (x / y, x % y);
    let wanted = (i64::from(b.scale) - i64::from(a.scale)).max(0) as u64;
    let zeros = match quotient.sign() {
        Sign::NoSign => wanted,
        _ => strip_zeros(&mut quotient, wanted),
    };
    // So few zeros are counted as `x` was given, and it ends with them.
    rest /= BigInt::from(10).pow(zeros as u32);
    Decimal { unscaled: rest, scale: (i64::from(a.scale.max(b.scale)) - zeros as i64) as i32 }
}

/// Takes zeros from the end of a number that is not 0, `most` at most: how many there were. Each step is half of the one
/// before, since a division by each zero takes time that grows with the square of the length.
fn strip_zeros(number: &mut BigInt, most: u64) -> u64 {
    // 10^n divides no number that 2^n does not, and none of fewer digits, each of which takes more than three bits.
    let twos = number.trailing_zeros().unwrap_or(0);
    let most = most.min(twos).min(number.bits() / 3);
    let mut stripped = 0;
    let mut step = most.checked_ilog2().map_or(0, |log| 1 << log);
    while step > 0 {
        let power = BigInt::from(10).pow(step as u32);
        if stripped + step <= most && (&*number % &power).sign() == Sign::NoSign {
            *number /= power;
            stripped += step;
        }
        step /= 2;
    }
    stripped
}

/// The number of decimal digits, without the sign.
pub(super) fn digits(number: &BigInt) -> i64 {
    // 2^(bits - 1) <= number < 2^bits: most often both ends have as many.
    let bits = number.bits() as f64;
    let least = ((bits - 1.0).max(0.0) * LOG10_2) as u32 + 1;
    let most = (bits * LOG10_2) as u32 + 1;
    let one_more = most > least && *number.magnitude() >= BigUint::from(10u8).pow(least);
    i64::from(least) + i64::from(one_more)
}

/// `a / b`, rounded half up, without zeros at its end.
fn quotient(a: &Decimal, b: &Decimal) -> Result<Decimal, String> {
    let too_long = || "the result has too many digits".to_owned();
    let position =
        (digits(&a.unscaled) - i64::from(a.scale)) - (digits(&b.unscaled) - i64::from(b.scale));
    let scale = (QUOTIENT_SCALE_MIN - position)
        .max(a.scale.into())
        .max(b.scale.into())
        .clamp(QUOTIENT_SCALE_MIN, QUOTIENT_SCALE_MAX);
    // The dividend takes as many zeros as the quotient has digits behind the point.
    let shift = scale - i64::from(a.scale) + i64::from(b.scale);
    let power = u32::try_from(shift.unsigned_abs()).map_err(|_| too_long())?;
    if power > DECIMAL_SCALE_MAX {
        return Err(too_long());
    }
    let power = BigInt::from(10).pow(power);
    let (x, y) = if shift >= 0 {
        (&a.unscaled * power, b.unscaled.clone())
    } else {
        (a.unscaled.clone(), &b.unscaled * power)
    };
    let mut quotient = Decimal { unscaled: divided(&x, &y), scale: scale as i32 };
    // As Java's `stripTrailingZeros`, also in front of the point; 0 has no scale.
    match quotient.unscaled.sign() {
        Sign::NoSign => quotient.scale = 0,
        _ => quotient.scale -= strip_zeros(&mut quotient.unscaled, u64::MAX) as i32,
    }
    rounded(quotient)
}

/// The nearest whole quotient, away from zero at a tie.
pub(super) fn divided(x: &BigInt, y: &BigInt) -> BigInt {
    let (quotient, rest) = (x / y, x % y);
    if (rest.magnitude() * 2u8) < *y.magnitude() {
        return quotient;
    }
    let negative = (x.sign() == Sign::Minus) != (y.sign() == Sign::Minus);
    if negative { quotient - 1 } else { quotient + 1 }
}

/// The number with no more digits than a decimal may have.
fn rounded(number: Decimal) -> Result<Decimal, String> {
    let extra = digits(&number.unscaled) - PRECISION_MAX as i64;
    if extra <= 0 {
        return Ok(number);
    }
    let scale = i32::try_from(i64::from(number.scale) - extra);
    let power = BigInt::from(10).pow(extra as u32);
    Ok(Decimal {
        unscaled: divided(&number.unscaled, &power),
        scale: scale.map_err(|_| "the result has too many digits".to_owned())?,
    })
}

/// A date or timestamp, so much later or earlier; null if one of them is empty or out of bounds.
fn shift(op: BinaryOp, left: (&CqlType, &[u8]), by: &[u8], result: &CqlType) -> Outcome {
    let (Some(millis), Some(by)) = (millis_of(left.0, left.1), Duration::from_bytes(by)) else {
        return Ok(None);
    };
    if *result == CqlType::Date && by.nanos != 0 {
        return Err(format!("The duration must have a day precision. Was: {by}"));
    }
    if by.nanos % NANOS_OF_MILLI != 0 {
        return Err(format!("The duration must have a millisecond precision. Was: {by}"));
    }
    Ok(shifted(op, millis, &by).and_then(|shifted| match result {
        CqlType::Date => {
            let days = shifted.div_euclid(MILLIS_OF_DAY) + EPOCH_DAYS_BIAS;
            Some(u32::try_from(days).ok()?.to_be_bytes().to_vec())
        }
        _ => Some(shifted.to_be_bytes().to_vec()),
    }))
}

/// Milliseconds since 1970, so much later; `None` out of bounds.
pub(super) fn moved(millis: i64, by: &Duration) -> Option<i64> {
    shifted(BinaryOp::Add, millis, by)
}

/// Milliseconds since 1970, so much later or earlier; `None` out of bounds.
fn shifted(op: BinaryOp, millis: i64, by: &Duration) -> Option<i64> {
    let sign = if op == BinaryOp::Subtract { -1 } else { 1 };
    let day = civil_of_days(millis.div_euclid(MILLIS_OF_DAY));
    let months = day.year * 12 + day.month - 1 + sign * i64::from(by.months);
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    // The 31st of a shorter month is its last day.
    let first = days_of_civil(Civil { year, month, day: 1 });
    let days = (0..day.day).rev().map(|ahead| first + ahead).find(|days| {
        let date = civil_of_days(*days);
        (date.year, date.month) == (year, month)
    })?;
    let days = days + sign * i64::from(by.days);
    // Midnight of the day of the least timestamp is none.
    let midnight = i128::from(days) * i128::from(MILLIS_OF_DAY);
    let later = millis.rem_euclid(MILLIS_OF_DAY).checked_add(sign * (by.nanos / NANOS_OF_MILLI))?;
    i64::try_from(midnight + i128::from(later)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_have_no_sum() {
        let [long, longest] = [SUM_NUMBER_BYTES_MAX + 1, SUM_NUMBER_BYTES_MAX].map(|n| vec![1; n]);
        for ty in [CqlType::Varint, CqlType::Decimal] {
            let refusal = sum(&ty, &[0, 0, 0, 0, 1], &long).unwrap_err();
            assert_eq!(refusal, format!("a number has more than {SUM_NUMBER_BYTES_MAX} bytes"));
        }
        assert!(sum(&CqlType::Varint, &longest, &[1]).is_ok());
        assert_eq!(
            sum(&CqlType::Text, &long, b"a").map(|sum| sum.unwrap().len()),
            Ok(long.len() + 1)
        );
    }

    #[test]
    fn digits_are_counted_as_they_are_shown() {
        let mut number = BigInt::from(1);
        assert_eq!(digits(&BigInt::ZERO), 1);
        for count in 1..400 {
            assert_eq!(digits(&(-&number)), count, "the least of {count}");
            assert_eq!(digits(&(&number * 7)), count);
            number *= 10;
            assert_eq!(digits(&(&number - 1)), count, "the largest of {count}");
        }
    }
}
