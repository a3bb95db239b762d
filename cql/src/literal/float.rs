//! Floats as Java 17 and older show them, which is what Apache Cassandra 5.0 runs on.
//!
//! Most have the fewest digits that read back as the same float. Some have more, as `2.0E23`, which is shown as
//! `1.9999999999999998E23`: the digits are made one by one, and the last of them is rounded where the loop ends, so
//! they are made here as they are there.
//!
//! 1. A whole number below 2^63 is its own digits, of which those are zero that a float of its size does not tell.
//! 2. Of any other, `b / s` is the number without its power of ten and `m` half of what the next float is away. Each
//!    step takes a digit off `b / s`, until what is left is less than `m`, or more than `m` short of the next digit.
//! 3. Where `b` and ten times `s` fit 64 bits, they are computed with in 32 or 64 bits, with what that does to sums
//!    that do not fit.
//!
//! Source: `jdk.internal.math.FloatingDecimal.BinaryToASCIIBuffer` of OpenJDK 17. Not here: text to floats
//! (`number.rs`).

use std::cmp::Ordering;

use num_bigint::BigUint;

/// Bits of the fraction of a double.
const FRACTION_BITS: i32 = 52;
/// Bits that the powers of five have which Java looks up; of larger powers it counts three each.
const LONGEST_KNOWN_POWER: i32 = 26;
/// The largest binary exponent of whole numbers that are shown as they are.
const WHOLE_EXPONENT_MAX: i32 = 62;

/// A positive finite float: `fraction` has 53 bits, of which the first is set, and stands for a number from 1 to 2.
#[derive(Clone, Copy)]
struct Parts {
    fraction: u64,
    exponent: i32,
    /// Bits of the fraction that the float tells.
    significant: i32,
}

/// Decimal digits, of which the first stands before the point, times ten to the power of the exponent.
struct Digits {
    digits: Vec<u8>,
    exponent: i32,
}

/// As Java's `Double.toString`.
pub(super) fn double_text(number: f64) -> String {
    let bits = number.to_bits();
    text(number, bits << 12 >> 12, (bits >> FRACTION_BITS & 0x7FF) as i32, (FRACTION_BITS, 1023))
}

/// As Java's `Float.toString`.
pub(super) fn float_text(number: f32) -> String {
    let bits = number.to_bits();
    text(number.into(), (bits << 9 >> 9).into(), (bits >> 23 & 0xFF) as i32, (23, 127))
}

/// The text of a number whose fraction and exponent are as stored, with `width` bits of fraction.
fn text(number: f64, fraction: u64, exponent: i32, (width, bias): (i32, i32)) -> String {
    let sign = if number.is_sign_negative() { "-" } else { "" };
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return format!("{sign}Infinity");
    }
    if number == 0.0 {
        return format!("{sign}0.0");
    }
    let parts = if exponent == 0 {
        // One that is not normalized: the first bit that is set becomes the first of all.
        let significant = 64 - fraction.leading_zeros() as i32;
        let shift = width + 1 - significant;
        Parts {
            fraction: fraction << shift << (FRACTION_BITS - width),
            exponent: 1 - shift - bias,
            significant,
        }
    } else {
        let fraction = (fraction | 1 << width) << (FRACTION_BITS - width);
        Parts { fraction, exponent: exponent - bias, significant: width + 1 }
    };
    format!("{sign}{}", shown(&digits(parts)))
}

/// Plain from 0.001 to 10,000,000, else with an exponent; at least one digit behind the point.
fn shown(Digits { digits, exponent }: &Digits) -> String {
    let text: String = digits.iter().map(|digit| char::from(b'0' + digit)).collect();
    let or_zero = |text: &str| if text.is_empty() { "0".to_owned() } else { text.to_owned() };
    match exponent {
        0..7 => {
            let before = *exponent as usize + 1;
            let padded = format!("{text:0<before$}");
            format!("{}.{}", &padded[..before], or_zero(&padded[before..]))
        }
        -3..0 => format!("0.{}{text}", "0".repeat((-exponent - 1) as usize)),
        _ => format!("{}.{}E{exponent}", &text[..1], or_zero(&text[1..])),
    }
}

fn digits(parts: Parts) -> Digits {
    let tail = parts.fraction.trailing_zeros() as i32;
    let bits = FRACTION_BITS + 1 - tail;
    // Bits behind the point.
    let tiny = (bits - parts.exponent - 1).max(0);
    if tiny == 0 && parts.exponent <= WHOLE_EXPONENT_MAX {
        return of_whole(parts);
    }
    let scaled = Scaled::of(parts, bits, tail, tiny);
    scaled.digits()
}

/// The digits of a whole number.
fn of_whole(Parts { fraction, exponent, significant }: Parts) -> Digits {
    let mut number = match exponent >= FRACTION_BITS {
        true => fraction << (exponent - FRACTION_BITS),
        false => fraction >> (FRACTION_BITS - exponent),
    };
    let power = exponent - significant - 1;
    let mut zeros = 0;
    if power > 1 {
        zeros = (f64::from(power) * std::f64::consts::LOG10_2) as u32;
        let ten = 10u64.pow(zeros);
        number = number / ten + u64::from(number % ten >= ten / 2 && zeros > 0);
    }
    let text = number.to_string();
    let exponent = text.len() as i32 - 1 + zeros as i32;
    let digits = text.trim_end_matches('0').bytes().map(|digit| digit - b'0').collect();
    Digits { digits, exponent }
}

/// A number as `factor × 5^b5 × 2^b2 / (5^s5 × 2^s2)` times a power of ten, and half of its distance from the next.
struct Scaled {
    factor: u64,
    bits: i32,
    exponent: i32,
    b: (i32, i32),
    s: (i32, i32),
    m: (i32, i32),
}

/// A digit, and whether it may be the last: what is left is less than half of what the next float is away, or as little
/// is missing from one more.
struct Step {
    digit: u8,
    low: bool,
    high: bool,
}

/// What is left of a number, whose digits are taken off one by one.
trait Rest {
    /// Takes off the next digit.
    fn step(&mut self) -> Step;
    /// How what is left compares with half of a digit.
    fn half(&self) -> Ordering;
}

impl Scaled {
    fn of(parts: Parts, bits: i32, tail: i32, tiny: i32) -> Scaled {
        let exponent = estimate(parts);
        let (b5, s5) = ((-exponent).max(0), exponent.max(0));
        let (mut b2, mut s2) = (b5 + tiny + parts.exponent, s5 + tiny);
        let mut m2 = b2 - parts.significant;
        b2 -= bits - 1;
        let common = b2.min(s2);
        (b2, s2, m2) = (b2 - common, s2 - common, m2 - common);
        if bits == 1 {
            // Below a power of two the next float is half as far away.
            m2 -= 1;
        }
        if m2 < 0 {
            (b2, s2, m2) = (b2 - m2, s2 - m2, 0);
        }
        let factor = parts.fraction >> tail;
        Scaled { factor, bits, exponent, b: (b5, b2), s: (s5, s2), m: (b5, m2) }
    }

    fn digits(self) -> Digits {
        let bits_of = |power: i32| match power {
            0 => 0,
            1..=LONGEST_KNOWN_POWER => (f64::from(power) * 5f64.log2()) as i32 + 1,
            _ => power * 3,
        };
        let b_bits = self.bits + self.b.1 + bits_of(self.b.0);
        let s_bits = self.s.1 + 1 + bits_of(self.s.0 + 1);
        if b_bits < 64 && s_bits < 64 {
            let of = |(five, two): (i32, i32)| 5i64.wrapping_pow(five as u32) << two;
            let b =
                (self.factor as i64).wrapping_mul(5i64.wrapping_pow(self.b.0 as u32)) << self.b.1;
            let is_int = b_bits < 32 && s_bits < 32;
            let words = Words { b, s: of(self.s), m: of(self.m), is_int, is_first: true };
            return develop(words, self.exponent);
        }
        let of = |(five, two): (i32, i32)| BigUint::from(5u8).pow(five as u32) << two;
        let long = Long { b: of(self.b) * self.factor, s: of(self.s), m: of(self.m) };
        develop(long, self.exponent)
    }
}

/// The power of ten of the first digit, or one less: Java's estimate of the logarithm.
#[expect(clippy::approx_constant, reason = "the estimate is Java's, to the last digit")]
fn estimate(parts: Parts) -> i32 {
    let one = f64::from_bits(1023 << FRACTION_BITS | parts.fraction << 12 >> 12);
    let log =
        (one - 1.5) * 0.289529654 + 0.176091259 + f64::from(parts.exponent) * 0.301029995663981;
    log.floor() as i32
}

fn develop(mut rest: impl Rest, mut exponent: i32) -> Digits {
    let mut digits = Vec::with_capacity(20);
    let Step { digit, mut low, mut high } = rest.step();
    if digit == 0 && !high {
        exponent -= 1;
    } else {
        digits.push(digit);
    }
    if !(-3..8).contains(&exponent) {
        // With an exponent there is a digit behind the point.
        (low, high) = (false, false);
    }
    while !low && !high {
        let step = rest.step();
        (low, high) = (step.low, step.high);
        digits.push(step.digit);
    }
    let is_odd = digits.last().is_some_and(|digit| digit % 2 == 1);
    let is_more = !low || rest.half().is_gt() || (rest.half().is_eq() && is_odd);
    if high && is_more {
        exponent += i32::from(round_up(&mut digits));
    }
    Digits { digits, exponent }
}

/// Adds one to the last digit; whether all were nines, and are 1 and zeros now.
fn round_up(digits: &mut [u8]) -> bool {
    for digit in digits.iter_mut().rev() {
        if *digit < 9 {
            *digit += 1;
            return false;
        }
        *digit = 0;
    }
    digits[0] = 1;
    true
}

/// In a `long` of Java, or an `int`.
struct Words {
    b: i64,
    s: i64,
    m: i64,
    is_int: bool,
    is_first: bool,
}

impl Words {
    /// What is kept of a number.
    fn cut(&self, number: i64) -> i64 {
        if self.is_int { i64::from(number as i32) } else { number }
    }
}

impl Rest for Words {
    fn step(&mut self) -> Step {
        let digit = (self.b / self.s) as u8;
        self.b = self.cut((self.b % self.s).wrapping_mul(10));
        self.m = self.cut(self.m.wrapping_mul(10));
        let is_first = std::mem::take(&mut self.is_first);
        if self.m <= 0 && !is_first {
            return Step { digit, low: true, high: true };
        }
        let tens = self.cut(self.s.wrapping_mul(10));
        let high = self.cut(self.b.wrapping_add(self.m)) > tens;
        Step { digit, low: self.b < self.m, high }
    }

    fn half(&self) -> Ordering {
        self.cut(self.cut(self.b << 1).wrapping_sub(self.cut(self.s.wrapping_mul(10)))).cmp(&0)
    }
}

/// In as many digits as there are.
struct Long {
    b: BigUint,
    s: BigUint,
    m: BigUint,
}

impl Rest for Long {
    fn step(&mut self) -> Step {
        let digit = &self.b / &self.s;
        self.b = (&self.b - &digit * &self.s) * 10u8;
        self.m *= 10u8;
        let high = &self.s * 10u8 <= &self.b + &self.m;
        Step { digit: u8::try_from(digit).unwrap_or(9), low: self.b < self.m, high }
    }

    fn half(&self) -> Ordering {
        (&self.b * 2u8).cmp(&(&self.s * 10u8))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Before: all were shown by the fewest digits. As read from OpenJDK 17, with which two million others were
    /// compared.
    #[test]
    fn floats_are_shown_as_java_17_shows_them() {
        for (number, shown) in [
            (2e23, "1.9999999999999998E23"),
            (1e23, "9.999999999999999E22"),
            (4.9e-324, "4.9E-324"),
            (2.2250738585072014e-308, "2.2250738585072014E-308"),
            (f64::MAX, "1.7976931348623157E308"),
            (2.0, "2.0"),
            (-0.1, "-0.1"),
            (0.001, "0.001"),
            (9.999e-4, "9.999E-4"),
            (1_234_567.0, "1234567.0"),
            (1e7, "1.0E7"),
            (9_007_199_254_740_993.0, "9.007199254740992E15"),
            (2f64.powi(62), "4.6116860184273879E18"),
            (2e-3, "0.002"),
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double_text(number), shown);
        }
        for (number, shown) in [
            (1.1e10, "1.10000005E10"),
            (1e-45, "1.4E-45"),
            (3.4028235e38, "3.4028235E38"),
            (f32::MIN_POSITIVE, "1.17549435E-38"),
            (16_777_216.0, "1.6777216E7"),
            (0.3, "0.3"),
            (f32::NAN, "NaN"),
        ] {
            assert_eq!(float_text(number), shown);
        }
    }

    proptest! {
        #[test]
        fn a_text_reads_back_as_its_float(double: f64, float: f32) {
            prop_assert_eq!(double_text(double).parse(), Ok(double));
            prop_assert_eq!(float_text(float).parse(), Ok(float));
        }
    }
}
