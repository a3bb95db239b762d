//! Order-preserving varint and decimal, whose values have any number of digits.
//!
//! ```text
//! varint   u16: 0x8000 + bytes, or 0x7FFF - bytes below zero; then the shortest two's complement, big-endian
//! decimal  01                                          zero
//!        | 02 exponent:i64, sign folded in  (digit + 1)*  00     above zero: 0.digits × 10^exponent
//!        | 00 the same, every byte inverted                      below zero
//! ```
//!
//! 1. A longer varint is further from zero, so its length stands first; of one length two's complement compares as
//!    bytes.
//! 2. A decimal is written by its digits without zeros at the end, so that `1.5` and `1.50` have one form.
//! 3. Back, a decimal comes in one scale of many. Where the scale as it was written matters, the row keeps it beside
//!    the key (`row/written.rs`).
//!
//! Invariant: a number has at most [`NUMBER_BYTES_MAX`] bytes on the way there, and the digits that fit those on the
//! way back: the time of both is bounded. Only who asks where a number stands among others (`encode_place`) may have a
//! longer one, and bounds the time by itself.
//!
//! Not here: markers and directions (`ordered.rs`, `decode.rs`), numbers of fixed width (`ordered.rs`), decimals that
//! are computed with (`cql/src/literal/number.rs`).

use num_bigint::{BigInt, Sign};

use super::Reader;
use crate::{Error, Result};

/// Longest varint or decimal that can be a key, in bytes.
pub(super) const NUMBER_BYTES_MAX: usize = 0x3FFF;
/// More digits than a decimal of a key can have: a byte holds less than two and a half.
const DIGITS_MAX: usize = NUMBER_BYTES_MAX * 5 / 2;
/// Digits that a decimal's zeros may be written out to.
const PLAIN_DIGITS_MAX: i64 = 40;

/// Drops the leading bytes that only repeat the sign.
fn shortest(mut bytes: &[u8]) -> &[u8] {
    while let [first, second, ..] = bytes
        && ((*first == 0 && second & 0x80 == 0) || (*first == 0xFF && second & 0x80 != 0))
    {
        bytes = &bytes[1..];
    }
    bytes
}

/// Appends where a varint of any length stands among those that have a form: its own form, else a byte that stands
/// before or behind all others.
pub(super) fn put_varint_place(value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let bytes = shortest(value);
    if bytes.len() <= NUMBER_BYTES_MAX {
        return put_varint(bytes, out);
    }
    out.push(if bytes[0] & 0x80 == 0 { 0xFF } else { 0 });
    Ok(())
}

pub(super) fn put_varint(value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let bytes = shortest(value);
    if bytes.is_empty() || bytes.len() > NUMBER_BYTES_MAX {
        return Err(Error::invalid(format!(
            "varint of a key longer than {NUMBER_BYTES_MAX} bytes"
        )));
    }
    let count = bytes.len() as u16;
    let header = if bytes[0] & 0x80 == 0 { 0x8000 + count } else { 0x7FFF - count };
    out.extend_from_slice(&header.to_be_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

pub(super) fn get_varint(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<()> {
    let header = u16::from_be_bytes(from.array()?);
    let count = if header >= 0x8000 { header - 0x8000 } else { 0x7FFF - header };
    for _ in 0..count {
        out.push(from.byte()?);
    }
    Ok(())
}

pub(super) fn put_decimal(value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    if value.len() > NUMBER_BYTES_MAX + 4 {
        let text = format!("decimal of a key longer than {NUMBER_BYTES_MAX} bytes");
        return Err(Error::invalid(text));
    }
    let scale = put_decimal_place(value, out)?;
    if i32::try_from(scale).is_err() {
        return Err(Error::invalid("decimal of a key whose scale is out of range"));
    }
    Ok(())
}

/// Appends the form of a decimal of any length and scale. Gives the scale that it would come back with.
pub(super) fn put_decimal_place(value: &[u8], out: &mut Vec<u8>) -> Result<i64> {
    let (scale, unscaled) = value.split_first_chunk::<4>().ok_or(Error::Malformed("decimal"))?;
    let unscaled = BigInt::from_signed_bytes_be(unscaled);
    let flip = match unscaled.sign() {
        Sign::NoSign => {
            out.push(1);
            return Ok(0);
        }
        Sign::Minus => 0xFF,
        Sign::Plus => 0,
    };
    let digits = unscaled.magnitude().to_str_radix(10);
    let exponent = digits.len() as i64 - i64::from(i32::from_be_bytes(*scale));
    let trimmed = digits.trim_end_matches('0');
    let scale = trimmed.len() as i64 - exponent;
    out.push(if flip == 0 { 2 } else { 0 });
    let exponent = (exponent as u64 ^ (1 << 63)).to_be_bytes();
    out.extend(exponent.map(|b| b ^ flip));
    out.extend(trimmed.bytes().map(|digit| (digit - b'0' + 1) ^ flip));
    out.push(flip);
    Ok(scale)
}

pub(super) fn get_decimal(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<()> {
    let flip = match from.byte()? {
        0 => 0xFF,
        1 => {
            out.extend_from_slice(&[0; 5]);
            return Ok(());
        }
        2 => 0,
        _ => return Err(Error::Malformed("decimal")),
    };
    let exponent = u64::from_be_bytes(from.array::<8>()?.map(|b| b ^ flip)) ^ (1 << 63);
    let mut digits = String::new();
    loop {
        match from.byte()? ^ flip {
            0 => break,
            _ if digits.len() == DIGITS_MAX => return Err(Error::Malformed("decimal")),
            digit @ 1..=10 => digits.push(char::from(b'0' + digit - 1)),
            _ => return Err(Error::Malformed("decimal")),
        }
    }
    // A client's paging state may hold any bytes.
    let scale = (digits.len() as i64).checked_sub(exponent as i64);
    let mut scale = scale.ok_or(Error::Malformed("decimal"))?;
    // 100 comes back as 100 and not as 1E+2.
    if (-PLAIN_DIGITS_MAX..0).contains(&scale) {
        digits.extend(std::iter::repeat_n('0', scale.unsigned_abs() as usize));
        scale = 0;
    }
    let scale = i32::try_from(scale).map_err(|_| Error::Malformed("decimal"))?;
    let number: BigInt = digits.parse().map_err(|_| Error::Malformed("decimal"))?;
    let number = if flip == 0 { number } else { -number };
    out.extend_from_slice(&scale.to_be_bytes());
    out.extend_from_slice(&number.to_signed_bytes_be());
    Ok(())
}
