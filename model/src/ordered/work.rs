//! What finding the digits of decimals takes, by which they are ordered: it grows with the square of their bytes, so a
//! core counts it before it brings values of clients into ordered form.
//!
//! Units are those of `cql/src/expr/work.rs`: 1 to 5 ns. A decimal of 16 KiB takes some 4 ms. Not here: what the other
//! bytes of a value take, which is little.

use super::number::NUMBER_BYTES_MAX;
use crate::types::{CqlType, Elements, collection_elements, tuple_fields, vector_elements};

/// How much of the square of the bytes of a decimal is a unit.
const SQUARED_BYTES_PER_UNIT: u64 = 128;
/// Bytes of the longest decimal that has an ordered form, with its scale. A longer one is refused before its digits are
/// found, and counts as one of so many bytes.
const DECIMAL_BYTES_MAX: u64 = NUMBER_BYTES_MAX as u64 + 4;

/// Whether a decimal is in a type. Adds to `parts` the types in it that were looked at, of a scalar none.
pub fn has_decimals(ty: &CqlType, parts: &mut u64) -> bool {
    *ty == CqlType::Decimal
        || ty.parts().into_iter().any(|part| {
            *parts += 1;
            has_decimals(part, parts)
        })
}

/// What finding the digits of a decimal of so many bytes takes, in units, however long it is.
pub fn work_of_decimal(bytes: usize) -> u64 {
    (bytes as u64).saturating_pow(2) / SQUARED_BYTES_PER_UNIT
}

/// What finding the digits of the decimals in a value takes, in units.
pub fn work_of_digits(ty: &CqlType, value: &[u8]) -> u64 {
    let of_elements = |element: &CqlType, items: &mut dyn Iterator<Item = &[u8]>| {
        items.map(|item| work_of_digits(element, item)).fold(0, u64::saturating_add)
    };
    // What cannot be read ends the value: putting it into order is an error there.
    match ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            let items = collection_elements(value).into_iter().flatten();
            of_elements(element, &mut items.map_while(Result::ok))
        }
        CqlType::Map { key, value: of, .. } => {
            let items = collection_elements(value).into_iter().flat_map(Elements::doubled);
            let types = [&**key, &**of].into_iter().cycle();
            let items = items.map_while(Result::ok).zip(types);
            items.map(|(item, ty)| work_of_digits(ty, item)).fold(0, u64::saturating_add)
        }
        CqlType::Vector { element, dimensions } => {
            let items = vector_elements(element, *dimensions, value);
            of_elements(element, &mut items.map_while(Result::ok))
        }
        CqlType::Tuple(parts) => work_of_fields(parts.iter(), value),
        CqlType::Udt { definition, .. } => {
            work_of_fields(definition.fields.iter().map(|(_, ty)| ty), value)
        }
        CqlType::Decimal => {
            (value.len() as u64).min(DECIMAL_BYTES_MAX).pow(2) / SQUARED_BYTES_PER_UNIT
        }
        // Of a class with parts all bytes may be those of the longest decimals.
        CqlType::Custom(_) => {
            let bytes = value.len() as u64;
            bytes * bytes.min(DECIMAL_BYTES_MAX) / SQUARED_BYTES_PER_UNIT
        }
        _ => 0,
    }
}

/// The same of the fields of a value.
fn work_of_fields<'t>(types: impl Iterator<Item = &'t CqlType>, value: &[u8]) -> u64 {
    let fields = types.zip(tuple_fields(value).map_while(Result::ok));
    let digits = fields.map(|(ty, field)| field.map_or(0, |field| work_of_digits(ty, field)));
    digits.fold(0, u64::saturating_add)
}
