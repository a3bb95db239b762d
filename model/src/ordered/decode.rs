//! From the order-preserving form back to the wire form.
//!
//! The reader inverts on the way for DESC columns, so one decoder serves both directions.
//!
//! 1. `Reader::component` reads one clustering column: NULL, which is never inverted, or a component in the column's
//!    direction.
//! 2. `decode` reads the marker EMPTY or VALUE, and then the body by its type, as `ordered.rs` has it.
//! 3. Collections, tuples and user types call `get` for their parts, and write the counts and lengths of the wire form.
//!
//! Invariants: any bytes give a value or `Error::Malformed`, since a client's paging state may hold any, or
//! `Error::Invalid` where the value would have more than [`CELL_BYTES_MAX`] bytes; a type is as deep as the limit of
//! types at most, and so is the recursion.
//!
//! Not here: the form itself and the way there (`ordered.rs`), numbers of any length (`number.rs`), classes that are no
//! type of CQL (`composite.rs`).

use super::{EMPTY, END, NULL, VALUE, composite, number};
use crate::limits::CELL_BYTES_MAX;
use crate::types::{CqlType, UserType, put_vector_element};
use crate::{Error, Result};

/// Reads order-preserving bytes, inverted or not.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    flip: u8,
    /// Bytes that may still be made of it: of a whole key no more than a cell has.
    spare: usize,
}

impl<'a> Reader<'a> {
    /// At the first byte of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes, flip: 0, spare: CELL_BYTES_MAX }
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        let (&first, rest) = self.rest.split_first().ok_or(Error::Malformed("ordered value"))?;
        self.rest = rest;
        Ok(first ^ self.flip)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, rest) =
            self.rest.split_first_chunk::<N>().ok_or(Error::Malformed("ordered value"))?;
        self.rest = rest;
        Ok(head.map(|b| b ^ self.flip))
    }

    /// What follows, read as if it were the other way round.
    pub(super) fn invert(&mut self) {
        self.flip ^= 0xFF;
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.rest.first().map(|b| b ^ self.flip)
    }

    /// Appends the wire form of the next component to `out`; false if it is none: the column has no value.
    #[inline]
    pub fn component(&mut self, ty: &CqlType, descending: bool, out: &mut Vec<u8>) -> Result<bool> {
        if let Some((&NULL, rest)) = self.rest.split_first() {
            self.rest = rest;
            return Ok(false);
        }
        self.flip = if descending { 0xFF } else { 0 };
        decode(ty, self, out).map(|()| true)
    }
}

/// Appends the wire form of the next component to `out`. All components of a reader together are refused if they would
/// be longer than a cell may be: their types have got thousands of fields since they were written.
pub fn decode(ty: &CqlType, from: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<()> {
    let end = out.len().saturating_add(from.spare);
    get(ty, from, end, out)?;
    from.spare = end - out.len();
    Ok(())
}

/// Appends the wire form of the next component, or of a part of one that ends at `end` at the latest.
pub(super) fn get(
    ty: &CqlType,
    from: &mut Reader<'_>,
    end: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    get_value(ty, from, end, out)?;
    if out.len() <= end { Ok(()) } else { Err(too_long()) }
}

#[cold]
fn too_long() -> Error {
    Error::invalid(format!(
        "a key or an element has more than {CELL_BYTES_MAX} bytes with all the fields that its types have by now"
    ))
}

fn get_value(ty: &CqlType, from: &mut Reader<'_>, end: usize, out: &mut Vec<u8>) -> Result<()> {
    match from.byte()? {
        EMPTY => return Ok(()),
        VALUE => {}
        _ => return Err(Error::Malformed("ordered marker")),
    }
    match ty {
        CqlType::Ascii
        | CqlType::Text
        | CqlType::Blob
        | CqlType::Inet
        | CqlType::Duration
        | CqlType::Empty => get_escaped(from, out),
        CqlType::Boolean => get_fixed::<1>(from, 0, out),
        CqlType::Tinyint => get_fixed::<1>(from, 0x80, out),
        CqlType::Smallint => get_fixed::<2>(from, 0x80, out),
        CqlType::Date => get_fixed::<4>(from, 0, out),
        CqlType::Int => get_fixed::<4>(from, 0x80, out),
        CqlType::Bigint | CqlType::Counter | CqlType::Time | CqlType::Timestamp => {
            get_fixed::<8>(from, 0x80, out)
        }
        CqlType::Float => get_float::<4>(from, out),
        CqlType::Double => get_float::<8>(from, out),
        CqlType::Varint => number::get_varint(from, out),
        CqlType::Decimal => number::get_decimal(from, out),
        CqlType::Uuid => get_uuid(from, out),
        CqlType::Timeuuid => {
            get_uuid_time(from, out)?;
            out.extend(from.array::<8>()?.map(|b| b ^ 0x80));
            Ok(())
        }
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            get_collection(from, out, |from, out| get_element(element, from, end, out))
        }
        CqlType::Map { key, value, .. } => get_collection(from, out, |from, out| {
            get_element(key, from, end, out)?;
            get_element(value, from, end, out)
        }),
        CqlType::Tuple(parts) => parts.iter().try_for_each(|part| get_field(part, from, end, out)),
        CqlType::Udt { definition, .. } => get_user_type(definition, from, end, out),
        CqlType::Vector { element, dimensions } => {
            let mut item = Vec::new();
            (0..*dimensions).try_for_each(|_| {
                item.clear();
                get(element, from, end.saturating_sub(out.len()), &mut item)?;
                put_vector_element(element, &item, out);
                Ok(())
            })
        }
        CqlType::Custom(custom) => composite::get_class(custom, from, end, out),
    }
}

pub(super) fn get_escaped(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<()> {
    loop {
        match from.byte()? {
            0 => match from.byte()? {
                1 => return Ok(()),
                0xFF => out.push(0),
                _ => return Err(Error::Malformed("ordered escape")),
            },
            byte => out.push(byte),
        }
    }
}

fn get_fixed<const N: usize>(from: &mut Reader<'_>, flip: u8, out: &mut Vec<u8>) -> Result<()> {
    let mut bytes = from.array::<N>()?;
    bytes[0] ^= flip;
    out.extend_from_slice(&bytes);
    Ok(())
}

fn get_float<const N: usize>(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<()> {
    let bytes = from.array::<N>()?;
    if bytes[0] & 0x80 == 0 {
        out.extend(bytes.map(|b| !b));
    } else {
        out.push(bytes[0] ^ 0x80);
        out.extend_from_slice(&bytes[1..]);
    }
    Ok(())
}

fn get_uuid_time(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<()> {
    let time = from.array::<8>()?;
    out.extend_from_slice(&time[4..]);
    out.extend_from_slice(&time[2..4]);
    out.extend_from_slice(&time[..2]);
    Ok(())
}

fn get_uuid(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<()> {
    if from.byte()? == 1 {
        get_uuid_time(from, out)?;
        out.extend_from_slice(&from.array::<8>()?);
    } else {
        out.extend_from_slice(&from.array::<16>()?);
    }
    Ok(())
}

fn get_collection(
    from: &mut Reader<'_>,
    out: &mut Vec<u8>,
    mut element: impl FnMut(&mut Reader<'_>, &mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut count = 0i32;
    while from.peek() != Some(END) {
        element(from, out)?;
        count += 1;
    }
    from.byte()?;
    out[start..start + 4].copy_from_slice(&count.to_be_bytes());
    Ok(())
}

fn get_element(ty: &CqlType, from: &mut Reader<'_>, end: usize, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    get(ty, from, end, out)?;
    let bytes = i32::try_from(out.len() - start - 4).map_err(|_| Error::Malformed("element"))?;
    out[start..start + 4].copy_from_slice(&bytes.to_be_bytes());
    Ok(())
}

/// All fields of the type; those behind the end are null.
fn get_user_type(
    ty: &UserType,
    from: &mut Reader<'_>,
    end: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    for (_, field) in &ty.fields {
        if matches!(from.peek(), Some(END) | None) {
            put_null(out);
        } else {
            get_field(field, from, end, out)?;
        }
    }
    match ty.ended {
        true if from.byte()? != END => Err(Error::Malformed("ordered user type")),
        _ => Ok(()),
    }
}

fn put_null(out: &mut Vec<u8>) {
    out.extend_from_slice(&(-1i32).to_be_bytes());
}

fn get_field(ty: &CqlType, from: &mut Reader<'_>, end: usize, out: &mut Vec<u8>) -> Result<()> {
    if from.peek() == Some(NULL) {
        from.byte()?;
        put_null(out);
        return Ok(());
    }
    get_element(ty, from, end, out)
}
