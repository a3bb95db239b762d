//! Powers and logarithms of decimals, to as many digits as Cassandra gives: 32, or as many as the
//! number has.
//!
//! All is computed on whole numbers that are `10^digits` times the value, with more digits than the
//! result keeps. `e^x` is `10^k · e^r` with a small `r`, whose series is summed; `ln x` is that of a
//! number between 1 and 10, brought near 1 by square roots, from the series of `artanh`.

use num_bigint::{BigInt, Sign};

use super::arithmetic::{digits, divided};
use crate::limits::DECIMAL_SCALE_MAX;
use crate::literal::Decimal;

/// Digits that a result has at least.
const PRECISION_MIN: u32 = 32;
/// Digits that a result has at most: longer numbers give no longer results.
const PRECISION_MAX: u32 = 1000;
/// Digits computed beyond those of a result.
const GUARD: u32 = 24;
/// How often a square root is taken before the series of a logarithm, or a square after that of a
/// power: each halves what is summed over.
const HALVINGS: u32 = 8;
/// The largest exponent of ten of a power's argument.
const EXPONENT_MAX: i64 = 9;

type Outcome = Result<Decimal, String>;

fn ten_to(power: u32) -> BigInt {
    BigInt::from(10).pow(power)
}

fn too_long() -> String {
    "the result has too many digits".into()
}

/// How many digits the result for a number has.
fn precision(number: &Decimal) -> u32 {
    u32::try_from(digits(&number.unscaled)).unwrap_or(u32::MAX).clamp(PRECISION_MIN, PRECISION_MAX)
}

/// The number with so many digits at most, rounded half away from zero.
fn rounded(number: Decimal, precision: u32) -> Outcome {
    let extra = digits(&number.unscaled) - i64::from(precision);
    let Ok(drop) = u32::try_from(extra) else { return Ok(number) };
    let scale = i32::try_from(i64::from(number.scale) - extra).map_err(|_| too_long())?;
    Ok(Decimal { unscaled: divided(&number.unscaled, &ten_to(drop)), scale })
}

/// The nearest whole number; of two the one further from zero.
pub(super) fn rounded_whole(number: &Decimal) -> Outcome {
    match u32::try_from(number.scale) {
        Ok(scale) if i64::from(scale) > digits(&number.unscaled) => {
            Ok(Decimal { unscaled: BigInt::ZERO, scale: 0 })
        }
        Ok(scale) => Ok(Decimal { unscaled: divided(&number.unscaled, &ten_to(scale)), scale: 0 }),
        Err(_) => Ok(Decimal { unscaled: truncated(number)?, scale: 0 }),
    }
}

/// The whole part.
pub(super) fn truncated(number: &Decimal) -> Result<BigInt, String> {
    let power = number.scale.unsigned_abs();
    if number.scale > 0 {
        let all = i64::from(number.scale) > digits(&number.unscaled);
        return Ok(if all { BigInt::ZERO } else { &number.unscaled / ten_to(power) });
    }
    if power > DECIMAL_SCALE_MAX {
        return Err(too_long());
    }
    Ok(&number.unscaled * ten_to(power))
}

/// The number times `10^places`, without what is behind the point then.
fn fixed(number: &Decimal, places: u32) -> BigInt {
    let shift = i64::from(places) - i64::from(number.scale);
    match u32::try_from(shift) {
        Ok(up) => &number.unscaled * ten_to(up),
        Err(_) if -shift > digits(&number.unscaled) => BigInt::ZERO,
        Err(_) => &number.unscaled / ten_to(shift.unsigned_abs() as u32),
    }
}

/// e to the power of `x`; an error if the result is out of range.
pub(super) fn exp(x: &Decimal) -> Outcome {
    if x.unscaled.sign() == Sign::NoSign {
        return Ok(Decimal { unscaled: BigInt::from(1), scale: 0 });
    }
    if digits(&x.unscaled) - i64::from(x.scale) > EXPONENT_MAX {
        return Err(too_long());
    }
    let precision = precision(x);
    let places = precision + GUARD;
    let one = ten_to(places);
    let ln_ten = ln_of_mantissa(&(&one * 10), places);
    let value = fixed(x, places);
    let mut power = &value / &ln_ten;
    let mut rest = &value - &power * &ln_ten;
    if rest.sign() == Sign::Minus {
        power -= 1;
        rest += &ln_ten;
    }
    let rest = rest >> HALVINGS;
    let (mut sum, mut term) = (one.clone(), one.clone());
    for n in 1u32.. {
        term = &term * &rest / &one / n;
        if term.sign() == Sign::NoSign {
            break;
        }
        sum += &term;
    }
    for _ in 0..HALVINGS {
        sum = &sum * &sum / &one;
    }
    let power = i64::try_from(&power).map_err(|_| too_long())?;
    let scale = i32::try_from(i64::from(places) - power).map_err(|_| too_long())?;
    rounded(Decimal { unscaled: sum, scale }, precision)
}

/// The natural logarithm.
pub(super) fn ln(x: &Decimal) -> Outcome {
    let (value, places) = ln_fixed(x)?;
    rounded_or_zero(value, places, precision(x))
}

/// The logarithm to base 10.
pub(super) fn log10(x: &Decimal) -> Outcome {
    if x.unscaled.sign() != Sign::Plus {
        return Err("Log10 of number zero or less".into());
    }
    let (value, places) = ln_fixed(x)?;
    let one = ten_to(places);
    let ln_ten = ln_of_mantissa(&(&one * 10), places);
    rounded_or_zero(divided(&(value * &one), &ln_ten), places, precision(x))
}

fn rounded_or_zero(unscaled: BigInt, places: u32, precision: u32) -> Outcome {
    if unscaled.sign() == Sign::NoSign {
        return Ok(Decimal { unscaled, scale: 0 });
    }
    rounded(Decimal { unscaled, scale: places as i32 }, precision)
}

/// The natural logarithm times `10^places`, and the places.
fn ln_fixed(x: &Decimal) -> Result<(BigInt, u32), String> {
    if x.unscaled.sign() != Sign::Plus {
        return Err("Natural log of number zero or less".into());
    }
    let length = digits(&x.unscaled);
    // Near 1 the logarithm begins with as many zeros as the number has digits that are no help.
    let precision = precision(x);
    let places = precision + GUARD + u32::try_from(length).unwrap_or(u32::MAX).min(PRECISION_MAX);
    let mantissa =
        fixed(&Decimal { unscaled: x.unscaled.clone(), scale: length as i32 - 1 }, places);
    let exponent = length - 1 - i64::from(x.scale);
    let one = ten_to(places);
    let of_mantissa = ln_of_mantissa(&mantissa, places);
    Ok((of_mantissa + ln_of_mantissa(&(one * 10), places) * exponent, places))
}

/// The natural logarithm of a number from 1 to 10; both are times `10^places`.
fn ln_of_mantissa(mantissa: &BigInt, places: u32) -> BigInt {
    let one = ten_to(places);
    let mut root = mantissa.clone();
    for _ in 0..HALVINGS {
        root = (root * &one).sqrt();
    }
    // ln m = 2 artanh((m - 1) / (m + 1))
    let ratio = (&root - &one) * &one / (&root + &one);
    let square = &ratio * &ratio / &one;
    let (mut sum, mut term) = (ratio.clone(), ratio);
    for n in (3u32..).step_by(2) {
        term = &term * &square / &one;
        if term.sign() == Sign::NoSign {
            break;
        }
        sum += &term / n;
    }
    sum << (HALVINGS + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(of: fn(&Decimal) -> Outcome, text: &str) -> String {
        match of(&Decimal::parse(text).expect(text)) {
            Ok(number) => number.to_string(),
            Err(error) => error,
        }
    }

    /// Recorded from Cassandra 5.0.9.
    #[test]
    fn powers_and_logarithms_have_cassandras_digits() {
        for (of, text, result) in [
            (exp as fn(&Decimal) -> Outcome, "0", "1"),
            (exp, "1", "2.7182818284590452353602874713527"),
            (exp, "1.50", "4.4816890703380648226020554601193"),
            (exp, "-1", "0.36787944117144232159552377016146"),
            (exp, "100", "2.6881171418161354484126255515800E+43"),
            (exp, "1e-30", "1.0000000000000000000000000000010"),
            (exp, "1000000", "3.0332153968020875450864021414181E+434294"),
            (
                exp,
                "0.1234567890123456789012345678901234567890",
                "1.131401114526201518669340280408541383648",
            ),
            (exp, "1e10", "the result has too many digits"),
            (ln, "1", "0"),
            (ln, "2", "0.69314718055994530941723212145818"),
            (ln, "10", "2.3025850929940456840179914546844"),
            (ln, "1e-20", "-46.051701859880913680359829093687"),
            (ln, "1.0000001", "9.9999995000000333333308333335333E-8"),
            (
                ln,
                "12345678901234567890123456789012345678901234567890",
                "113.03739057902389107793658299002247005469220120813",
            ),
            (ln, "0", "Natural log of number zero or less"),
            (log10, "1000", "3.0000000000000000000000000000000"),
            (log10, "0.001", "-3.0000000000000000000000000000000"),
            (log10, "1.50", "0.17609125905568124208128900853062"),
            (rounded_whole, "0.5", "1"),
            (rounded_whole, "-0.5", "-1"),
            (rounded_whole, "-2.51", "-3"),
            (rounded_whole, "1e-5", "0"),
            (rounded_whole, "1e3", "1000"),
        ] {
            assert_eq!(shown(of, text), result, "{text}");
        }
    }
}
