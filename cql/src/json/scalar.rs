//! One scalar of a JSON text, as it stands there, to the wire bytes of a type.
//!
//! Every scalar may be a JSON string in the form of its CQL constant; numbers and booleans may stand for themselves.
//! The texts of errors are those of Cassandra's `fromJSONObject`.
//!
//! 1. The first character says what stands there: `"` a string, `t` or `f` a boolean, a digit or `-` a number.
//! 2. A string is read by the type's own constant (`literal.rs`); `date`, `time`, `uuid`, `inet`, `blob` and the like
//!    have no other form.
//! 3. A number is read from its digits as they stand: it never becomes a double on the way.
//! 4. Whatever the type cannot be is refused by what Cassandra expects of the type.
//!
//! Invariant: an error shows at most `JSON_SHOWN_BYTES_MAX` bytes of a text.
//!
//! Not here: null, lists, maps and user types (`value.rs`), JSON as errors show it (`shown.rs`), values to JSON
//! (`expr/function/json.rs`).

use std::borrow::Cow;

use model::CqlType;

use super::JsonError;
use super::halves::without_halves;
use super::shown::{cut, shown, shown_text};
use crate::error::{Error, Result};
use crate::expr::ExpressionWork;
use crate::limits::NUMBER_DIGITS_MAX;
use crate::literal::from_text;

/// Appends the bytes of a scalar that stands in the text as `raw` and is not null.
pub(super) fn put_scalar(
    ty: &CqlType,
    raw: &str,
    work: &ExpressionWork,
    out: &mut Vec<u8>,
) -> Result<(), JsonError> {
    let value = match raw.as_bytes().first() {
        Some(b'"') if *ty == CqlType::Ascii => {
            of_string(ty, &unescaped(raw).map_err(not_ascii(raw))?)?
        }
        Some(b'"') => {
            let text = unescaped(raw)?;
            take_digits(ty, &text, work)?;
            of_string(ty, &text)?
        }
        Some(b't' | b'f') if *ty == CqlType::Boolean => vec![u8::from(raw == "true")],
        Some(b'-' | b'0'..=b'9') => {
            take_digits(ty, raw, work)?;
            of_number(ty, raw)?
        }
        _ => return Err(wrong(ty, raw)),
    };
    out.extend_from_slice(&value);
    Ok(())
}

/// Counts the digits of a number of any length, if it is not too long to be read.
fn take_digits(ty: &CqlType, text: &str, work: &ExpressionWork) -> Result<(), JsonError> {
    match ty {
        CqlType::Varint | CqlType::Decimal if text.len() <= NUMBER_DIGITS_MAX => {
            Ok(work.take_digits(text.len())?)
        }
        _ => Ok(()),
    }
}

/// The text that a JSON string stands for.
pub(super) fn unescaped(raw: &str) -> Result<Cow<'_, str>, JsonError> {
    let inner = &raw[1..raw.len() - 1];
    if !inner.contains('\\') {
        return Ok(Cow::Borrowed(inner));
    }
    let text = serde_json::from_str::<String>(raw);
    text.map(Cow::Owned).map_err(|error| JsonError::Syntax(error.to_string()))
}

/// Half of a surrogate pair is `?` in any other text.
#[cold]
fn not_ascii(raw: &str) -> impl FnOnce(JsonError) -> JsonError {
    move |error| match without_halves(raw) {
        Some(_) => JsonError::Type(format!(
            "Invalid ASCII character in string literal: {}",
            shown_text(raw)
        )),
        None => error,
    }
}

fn of_string(ty: &CqlType, text: &str) -> Result<Vec<u8>, JsonError> {
    use CqlType::*;
    match ty {
        Ascii | Text | Date | Time => from_text(text, ty).map_err(told),
        Blob => blob(text),
        ty if ty.is_composite() => Err(wrong(ty, text)),
        Varint | Decimal => from_text(text, ty).map_err(|_| not_a_number(ty, text)),
        // The documentation wants a text of the type. Apache Cassandra takes the empty one for no value.
        _ if text.is_empty() => Err(JsonError::Type(format!("Unable to make {ty} from ''"))),
        Boolean if !["true", "false"].iter().any(|word| text.eq_ignore_ascii_case(word)) => {
            Err(JsonError::Type(format!("Unable to make boolean from '{}'", cut(text))))
        }
        Duration => from_text(text, ty)
            .map_err(|error| JsonError::Invalid(Error::invalid(cut(&error.to_string())))),
        _ => from_text(text, ty).map_err(told),
    }
}

fn of_number(ty: &CqlType, raw: &str) -> Result<Vec<u8>, JsonError> {
    use CqlType::*;
    let is_whole = !raw.contains(['.', 'e', 'E']);
    match ty {
        Tinyint | Smallint => from_text(&shown_text(raw), ty).map_err(told),
        Int | Bigint | Counter if is_whole => from_text(raw, ty).map_err(|_| wrong(ty, raw)),
        Float | Double => from_text(raw, ty).map_err(told),
        Decimal => from_text(raw, ty).map_err(|_| not_a_number(ty, raw)),
        Varint if is_whole => from_text(raw, ty).map_err(|_| not_a_number(ty, raw)),
        Varint => Err(not_a_number(ty, &shown_text(raw))),
        // An int is no timestamp in Cassandra: the number of milliseconds is a long, or a string.
        Timestamp if is_whole && raw.parse::<i32>().is_err() && raw.parse::<i64>().is_ok() => {
            from_text(raw, ty).map_err(told)
        }
        _ => Err(wrong(ty, raw)),
    }
}

fn blob(text: &str) -> Result<Vec<u8>, JsonError> {
    let why = match text.starts_with("0x") {
        false => format!("String representation of blob is missing 0x prefix: {}", cut(text)),
        true => match from_text(text, &CqlType::Blob) {
            Ok(bytes) => return Ok(bytes),
            Err(error) => cut(&error.to_string()).into_owned(),
        },
    };
    let text = cut(text);
    Err(JsonError::Type(format!("Value '{text}' is not a valid blob representation: {why}")))
}

fn told(error: Error) -> JsonError {
    JsonError::Type(cut(&error.to_string()).into_owned())
}

fn not_a_number(ty: &CqlType, text: &str) -> JsonError {
    let text = cut(text);
    JsonError::Type(format!("Value '{text}' is not a valid representation of a {ty} value"))
}

/// What a type says of JSON that it cannot be.
#[cold]
fn wrong(ty: &CqlType, raw: &str) -> JsonError {
    use CqlType::*;
    let expected = match ty {
        Ascii => "an ascii string",
        Text => "a UTF-8 string",
        Boolean => "a boolean value",
        Tinyint => "a byte value",
        Smallint => "a short value",
        Int => "an int value",
        Bigint | Counter => "a bigint value",
        Float => "a float value",
        Double => "a double value",
        Date => "a string representation of a date value",
        Time => "a string representation of a time value",
        Timestamp => "a long or a datestring representation of a timestamp value",
        Uuid => "a string representation of a uuid",
        Custom(_) if !ty.is_composite() => "a string representation of a uuid",
        Timeuuid => "a string representation of a timeuuid",
        Inet => "a string representation of an inet value",
        Duration => "a string representation of a duration",
        Decimal | Varint => return not_a_number(ty, &shown_text(raw)),
        Blob => {
            let text = shown_text(raw);
            return JsonError::Type(format!(
                "Value '{text}' is not a valid blob representation: it is no string"
            ));
        }
        other => return JsonError::Type(format!("{other} has no form in JSON")),
    };
    JsonError::Type(format!("Expected {expected}, but got a {}", shown(raw)))
}
