//! Constants to values: the text of a literal becomes the CQL wire bytes of a type.
//!
//! Which kinds of literal a type takes, and what is said of those it does not, is Cassandra's:
//! `Constants.Literal` and the `fromString` of its types. Errors are recorded from version 5.0.9.
//!
//! Not here: collections and tuples, which are terms of terms (`expr`).

mod composite;
mod duration;
mod float;
mod number;
mod show;
mod text;
mod time;
mod zone;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) use composite::tuple_of_text;
pub use duration::Duration;
use model::CqlType;
pub use number::{Decimal, check_number_bytes, put_decimal};
pub use show::value_literal;
pub(crate) use text::timestamp_text;
pub use text::to_text;
pub use time::{Civil, EPOCH_DAYS_BIAS, MILLIS_OF_DAY, NANOS_OF_DAY, civil_of_days, days_of_civil};

use crate::error::{Error, Result};
use crate::lang::ast::{Literal, LiteralKind};

/// Characters of a UUID as text: its hyphens, which all must be there, are counted.
const UUID_CHARS: usize = 36;

/// Whether a literal of this kind may be a value of the type.
pub fn assignable(kind: LiteralKind, ty: &CqlType) -> bool {
    use CqlType::*;
    match kind {
        // What a class takes is seen when it reads the text.
        _ if matches!(ty, Custom(_)) => true,
        LiteralKind::String => matches!(ty, Ascii | Text | Inet | Date | Time | Timestamp),
        LiteralKind::Integer => matches!(
            ty,
            Bigint
                | Counter
                | Date
                | Decimal
                | Double
                | Duration
                | Float
                | Int
                | Smallint
                | Time
                | Timestamp
                | Tinyint
                | Varint
        ),
        LiteralKind::Uuid => matches!(ty, Uuid | Timeuuid),
        LiteralKind::Float => matches!(ty, Decimal | Double | Float),
        LiteralKind::Boolean => matches!(ty, Boolean),
        // A byte may be written so. (Where nothing is expected, it is one in Cassandra, and a blob here.)
        LiteralKind::Hex => matches!(ty, Blob | Tinyint),
        LiteralKind::Duration => matches!(ty, CqlType::Duration),
    }
}

/// The type a literal has where nothing else says: in an operation, in a `SELECT`.
pub fn natural_type(literal: &Literal) -> Option<CqlType> {
    Some(match literal.kind {
        LiteralKind::String if literal.text.is_ascii() => CqlType::Ascii,
        LiteralKind::String => CqlType::Text,
        LiteralKind::Integer => match literal.text.parse::<i64>() {
            Ok(number) if i32::try_from(number).is_ok() => CqlType::Int,
            Ok(_) => CqlType::Bigint,
            Err(_) => CqlType::Varint,
        },
        LiteralKind::Float => {
            let special = literal.text.ends_with(|c: char| c.is_ascii_alphabetic());
            if special { CqlType::Double } else { number::narrowest_float(&literal.text) }
        }
        LiteralKind::Boolean => CqlType::Boolean,
        // Of version 1.
        LiteralKind::Uuid if uuid(&literal.text).is_ok_and(|uuid| uuid.get_version_num() == 1) => {
            CqlType::Timeuuid
        }
        LiteralKind::Uuid => CqlType::Uuid,
        LiteralKind::Hex => CqlType::Blob,
        LiteralKind::Duration => CqlType::Duration,
    })
}

/// The bytes of `literal` as a value of `ty`, for the column or argument called `receiver`.
pub fn constant(literal: &Literal, ty: &CqlType, receiver: &str) -> Result<Vec<u8>> {
    if !assignable(literal.kind, ty) {
        return Err(Error::invalid(format!(
            "Invalid {} constant ({}) for \"{receiver}\" of type {ty}",
            kind_name(literal.kind),
            literal.text
        )));
    }
    match (ty, literal.kind) {
        (CqlType::Custom(_) | CqlType::Tinyint, LiteralKind::Hex) => {
            checked_blob(&literal.text, ty)
        }
        _ => from_text(&literal.text, ty),
    }
}

/// The bytes that are written as a blob, as a value of `ty`.
pub(crate) fn checked_blob(text: &str, ty: &CqlType) -> Result<Vec<u8>> {
    let value = blob(text)?;
    ty.validate(&value)?;
    Ok(value)
}

/// The bytes of a scalar that is written as `text`.
pub fn from_text(text: &str, ty: &CqlType) -> Result<Vec<u8>> {
    match ty {
        CqlType::Ascii if text.is_ascii() => Ok(text.as_bytes().to_vec()),
        CqlType::Ascii => {
            Err(Error::invalid(format!("Invalid ASCII character in string literal: {text}")))
        }
        CqlType::Text => Ok(text.as_bytes().to_vec()),
        CqlType::Blob => blob(text),
        CqlType::Boolean => Ok(vec![u8::from(text.eq_ignore_ascii_case("true"))]),
        CqlType::Inet => inet(text),
        CqlType::Uuid => uuid(text).map(|uuid| uuid.as_bytes().to_vec()),
        CqlType::Timeuuid => {
            let uuid = uuid(text)?;
            if uuid.get_version_num() != 1 {
                return Err(Error::invalid("TimeUUID supports only version 1 UUIDs"));
            }
            Ok(uuid.as_bytes().to_vec())
        }
        CqlType::Date => time::date(text).map(|days| days.to_be_bytes().to_vec()),
        CqlType::Time => time::time_of_day(text).map(|nanos| nanos.to_be_bytes().to_vec()),
        CqlType::Timestamp => time::timestamp(text),
        CqlType::Duration => text.parse::<Duration>().map(|duration| duration.to_bytes()),
        CqlType::Custom(class) => composite::custom(text, class),
        _ => number::from_text(text, ty),
    }
}

/// The name Cassandra's errors give a kind of literal.
pub fn kind_name(kind: LiteralKind) -> &'static str {
    match kind {
        LiteralKind::String => "STRING",
        LiteralKind::Integer => "INTEGER",
        LiteralKind::Float => "FLOAT",
        LiteralKind::Boolean => "BOOLEAN",
        LiteralKind::Duration => "DURATION",
        LiteralKind::Uuid => "UUID",
        LiteralKind::Hex => "HEX",
    }
}

/// Reads bytes such as `0xcafe`; an error if a digit is wrong or missing.
fn blob(text: &str) -> Result<Vec<u8>> {
    let digits = text.get(2..).unwrap_or_default().as_bytes();
    let wrong = || {
        let digits = String::from_utf8_lossy(digits);
        Error::invalid(format!("cannot parse '{digits}' as hex bytes"))
    };
    if !digits.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8).ok_or_else(wrong);
    digits.chunks_exact(2).map(|pair| Ok(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

fn inet(text: &str) -> Result<Vec<u8>> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let address = text.parse().ok().or_else(|| numbers(text)).or_else(|| bracketed(text));
    match address {
        Some(IpAddr::V4(address)) => Ok(address.octets().to_vec()),
        // As Java has it, an IPv4 address that is mapped to IPv6 is an IPv4 address.
        Some(IpAddr::V6(address)) => Ok(address
            .to_ipv4_mapped()
            .map_or_else(|| address.octets().to_vec(), |mapped| mapped.octets().to_vec())),
        None => Err(Error::invalid(format!("Unable to make inet address from '{text}'"))),
    }
}

/// An IPv4 address as Java reads it: `localhost`, or up to four numbers, the last of which fills what is left.
fn numbers(text: &str) -> Option<IpAddr> {
    if text.eq_ignore_ascii_case("localhost") {
        return Some(Ipv4Addr::LOCALHOST.into());
    }
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let parts: Vec<&str> = text.splitn(5, '.').collect();
    let numbers = parts.iter().filter(|part| is_number(part)).map(|part| part.parse().ok());
    let numbers = numbers.collect::<Option<Vec<u64>>>()?;
    let (last, first) = numbers.split_last().filter(|_| numbers.len() == parts.len())?;
    let left = 4usize.checked_sub(first.len()).filter(|left| *left > 0)?;
    let fits = first.iter().all(|number| *number < 256) && *last < 1 << (8 * left);
    let address = first.iter().zip([24, 16, 8]).fold(*last, |sum, (n, shift)| sum | n << shift);
    fits.then(|| Ipv4Addr::from_bits(address as u32).into())
}

/// An IPv6 address in brackets, or one with the number of an interface behind it, which says nothing here.
fn bracketed(text: &str) -> Option<IpAddr> {
    let text = match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None => text,
    };
    let (address, interface) = text.split_once('%').unwrap_or((text, "0"));
    interface.parse::<u32>().ok()?;
    address.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

fn uuid(text: &str) -> Result<uuid::Uuid> {
    let parsed = uuid::Uuid::try_parse(text).ok().filter(|_| text.len() == UUID_CHARS);
    parsed.ok_or_else(|| Error::invalid(format!("Unable to make UUID from '{text}'")))
}

#[cfg(test)]
mod tests;
