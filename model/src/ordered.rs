//! The order-preserving form of a value: comparing two by `memcmp` is comparing them by type.
//!
//! ```text
//! component := EMPTY | VALUE body          (every byte inverted if the column is DESC)
//!            | NULL                         of a clustering column, never inverted
//! body      := fixed width: big-endian with the sign folded in
//!            | text, ascii, blob, inet: bytes, 00 → 00 FF, ended by 00 01
//!            | varint: u16 (0x8000 + bytes, or 0x7FFF - bytes below zero), two's complement
//!            | decimal: sign, exponent, digits + 1, ended by 00   (value = 0.digits × 10^exponent)
//!            | uuid: version, then time order for version 1;  timeuuid: time, then the rest signed
//!            | tuple, vector: components; a null field is NULL
//!            | user type: components without the null fields at the end; 00
//!            | collection: components; 00
//!            | classes that are no type of CQL: `ordered/composite.rs`
//! ```
//!
//! Fields may be added to a user type: its values end themselves, and one that was written with
//! fewer fields is byte for byte the one whose other fields are null. Types of the time before they
//! had an end (`UserType::ended`) have all their fields and no 00, so they cannot grow while a key
//! holds them; of those that did grow then, a value at the end of a key or collection has an end.
//!
//! Since every component begins with a byte in 0x01..0xFE, a bound is bytes too: before everything
//! with prefix `p` is `p`, after everything is `p` + 0xFF. Decoding gives the wire form back. Values
//! that compare equal have one form, and come back as one: varints and decimals in their shortest,
//! booleans as 0 and 1, NaN with the bits that languages give it, user types with all their fields.

mod composite;
mod decode;
mod number;
#[cfg(test)]
mod tests;
mod work;

pub use decode::{Reader, decode};
pub(crate) use work::WORK_OF_KEY_MAX;
pub use work::{DECIMAL_BYTES_SQUARED_PER_UNIT, FormWork, TypeWork, work_of_decimal};

use crate::limits::{FORM_BYTES_BESIDE, FORM_GROWTH_MAX};
use crate::types::{CqlType, UserType, collection_elements, tuple_fields, vector_elements};
use crate::{Error, Result};

/// Ends a collection; below every component.
const END: u8 = 0x00;
/// A null field of a tuple, and a clustering column that a row of a compact table leaves out.
const NULL: u8 = 0x10;
/// The empty value of a fixed-width type.
const EMPTY: u8 = 0x20;
/// A value follows.
const VALUE: u8 = 0x40;
/// Bytes that end the component of a text: what comes before them begins that of every text that begins so.
pub(crate) const TEXT_END_BYTES: usize = 2;
/// After everything that has the prefix before it.
pub const AFTER: u8 = 0xFF;

/// The most bytes that the form of a value has: what is made of a value of so many bytes. Most have about as many,
/// texts of zeros twice as many. A tuple that ends before its last fields has a null for each of these, and a vector in
/// vectors a byte for each.
pub fn form_bytes_max(value_bytes: usize) -> usize {
    value_bytes.saturating_mul(FORM_GROWTH_MAX).saturating_add(FORM_BYTES_BESIDE)
}

/// Appends `value` as one component. One that would be longer than [`form_bytes_max`] has none: it is refused.
pub fn encode(ty: &CqlType, value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    put(ty, value, out.len().saturating_add(form_bytes_max(value.len())), out)
}

/// Appends `value` as one component, or as a part of one that ends at `form_end` at the latest.
fn put(ty: &CqlType, value: &[u8], form_end: usize, out: &mut Vec<u8>) -> Result<()> {
    if value.is_empty() && !matches!(ty, CqlType::Ascii | CqlType::Text | CqlType::Blob) {
        out.push(EMPTY);
        return Ok(());
    }
    out.push(VALUE);
    match ty {
        CqlType::Ascii
        | CqlType::Text
        | CqlType::Blob
        | CqlType::Inet
        | CqlType::Duration
        | CqlType::Empty => put_escaped(value, out),
        CqlType::Boolean => put_fixed(ty, &[u8::from(value != [0])], 0, out)?,
        CqlType::Date => put_fixed(ty, value, 0, out)?,
        CqlType::Tinyint
        | CqlType::Smallint
        | CqlType::Int
        | CqlType::Bigint
        | CqlType::Counter
        | CqlType::Time
        | CqlType::Timestamp => put_fixed(ty, value, 0x80, out)?,
        CqlType::Float | CqlType::Double => put_float(ty, value, out)?,
        CqlType::Varint => number::put_varint(value, out)?,
        CqlType::Decimal => number::put_decimal(value, out)?,
        CqlType::Uuid => put_uuid(&sixteen(value)?, out),
        CqlType::Timeuuid => put_timeuuid(&sixteen(value)?, out),
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            for item in collection_elements(value)? {
                put(element, item?, form_end, out)?;
            }
            out.push(END);
        }
        CqlType::Map { key, value: of, .. } => {
            let mut elements = collection_elements(value)?.doubled();
            while let Some(item) = elements.next() {
                put(key, item?, form_end, out)?;
                put(of, elements.next().ok_or(Error::Malformed("map"))??, form_end, out)?;
            }
            out.push(END);
        }
        CqlType::Tuple(parts) => put_fields(parts.iter(), value, form_end, out)?,
        CqlType::Udt { definition, .. } => put_user_type(definition, value, form_end, out)?,
        CqlType::Vector { element, dimensions } => {
            for item in vector_elements(element, *dimensions, value) {
                put(element, item?, form_end, out)?;
            }
        }
        CqlType::Custom(custom) => composite::put_class(custom, value, form_end, out)?,
    }
    if out.len() <= form_end { Ok(()) } else { Err(too_long_form()) }
}

#[cold]
fn too_long_form() -> Error {
    Error::invalid(format!(
        "a value takes more than {FORM_GROWTH_MAX} times its bytes and {FORM_BYTES_BESIDE} where it is put into order: \
         write its tuples with all their fields, or nest vectors less"
    ))
}

/// Appends where a value stands among the components of its type: its component, and of a varint or decimal that has
/// none since it is too long, bytes that compare with components as it does with their values. Of a decimal it takes
/// time with the square of its length.
pub fn encode_place(ty: &CqlType, value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    match ty {
        CqlType::Varint if !value.is_empty() => {
            out.push(VALUE);
            number::put_varint_place(value, out)
        }
        CqlType::Decimal if !value.is_empty() => {
            out.push(VALUE);
            number::put_decimal_place(value, out).map(drop)
        }
        _ => encode(ty, value, out),
    }
}

/// Appends the component of a clustering column without a value: it stands first, whichever way rows descend.
pub fn put_null(out: &mut Vec<u8>) {
    out.push(NULL);
}

/// Appends `value` as one component, inverted if `descending`.
pub fn encode_component(
    ty: &CqlType,
    descending: bool,
    value: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    let start = out.len();
    encode(ty, value, out)?;
    if descending {
        out[start..].iter_mut().for_each(|b| *b = !*b);
    }
    Ok(())
}

fn put_escaped(value: &[u8], out: &mut Vec<u8>) {
    for part in value.split_inclusive(|&b| b == 0) {
        out.extend_from_slice(part);
        if part.last() == Some(&0) {
            out.push(0xFF);
        }
    }
    out.extend_from_slice(&[0, 1]);
}

/// The bytes with the first one xored: folds the sign of a big-endian integer in.
fn put_fixed(ty: &CqlType, value: &[u8], flip: u8, out: &mut Vec<u8>) -> Result<()> {
    if ty.fixed_bytes() != Some(value.len()) {
        return Err(Error::Malformed("fixed-width value"));
    }
    out.push(value[0] ^ flip);
    out.extend_from_slice(&value[1..]);
    Ok(())
}

/// The bits of a float so that they compare as its values do: -0 is below 0, every NaN is one.
fn put_float(ty: &CqlType, value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let is_nan = match value {
        [a, b, c, d] => f32::from_be_bytes([*a, *b, *c, *d]).is_nan(),
        _ => value.try_into().is_ok_and(|value| f64::from_be_bytes(value).is_nan()),
    };
    if is_nan {
        let (single, double) = (0x7FC0_0000u32.to_be_bytes(), 0x7FF8 << 48u64);
        let double: [u8; 8] = u64::to_be_bytes(double);
        let nan = if value.len() == 4 { &single[..] } else { &double[..] };
        return put_fixed(ty, nan, 0x80, out);
    }
    let from = out.len();
    put_fixed(ty, value, 0x80, out)?;
    if value[0] & 0x80 != 0 {
        out[from] ^= 0x80;
        out[from..].iter_mut().for_each(|b| *b = !*b);
    }
    Ok(())
}

fn sixteen(value: &[u8]) -> Result<[u8; 16]> {
    value.try_into().map_err(|_| Error::Malformed("uuid"))
}

/// Time of a version 1 uuid, most significant first: time_hi, time_mid, time_low.
fn put_uuid_time(uuid: &[u8; 16], out: &mut Vec<u8>) {
    out.extend_from_slice(&uuid[6..8]);
    out.extend_from_slice(&uuid[4..6]);
    out.extend_from_slice(&uuid[..4]);
}

fn put_uuid(uuid: &[u8; 16], out: &mut Vec<u8>) {
    let version = uuid[6] >> 4;
    out.push(version);
    if version == 1 {
        put_uuid_time(uuid, out);
        out.extend_from_slice(&uuid[8..]);
    } else {
        out.extend_from_slice(uuid);
    }
}

/// Cassandra compares the last eight bytes of timeuuids as signed bytes.
fn put_timeuuid(uuid: &[u8; 16], out: &mut Vec<u8>) {
    put_uuid_time(uuid, out);
    out.extend(uuid[8..].iter().map(|b| b ^ 0x80));
}

/// Null fields at the end are left out, so that a value is the same before and after fields are
/// added to its type.
fn put_user_type(ty: &UserType, value: &[u8], form_end: usize, out: &mut Vec<u8>) -> Result<()> {
    let fields = ty.fields.iter().map(|(_, field)| field);
    if !ty.ended {
        return put_fields(fields, value, form_end, out);
    }
    let mut last = out.len();
    for (field, item) in fields.zip(tuple_fields(value)) {
        match item? {
            None => out.push(NULL),
            Some(item) => {
                put(field, item, form_end, out)?;
                last = out.len();
            }
        }
    }
    out.truncate(last);
    out.push(END);
    Ok(())
}

/// All fields of the type; those behind the end of the value are null.
fn put_fields<'t>(
    mut fields: impl ExactSizeIterator<Item = &'t CqlType>,
    value: &[u8],
    form_end: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    for item in tuple_fields(value) {
        let Some(field) = fields.next() else { return Ok(()) };
        match item? {
            None => out.push(NULL),
            Some(item) => put(field, item, form_end, out)?,
        }
    }
    out.resize(out.len() + fields.len(), NULL);
    Ok(())
}
