//! What finding the digits of decimals takes, by which they are ordered: it grows with the square of their bytes, so a
//! core counts it before it brings values of clients into ordered form.
//!
//! Units are those of `cql/src/expr/work.rs`: 1 to 5 ns. A decimal of 16 KiB takes some 4 ms. Not here: what the other
//! bytes of a value take, which is little.

use super::number::NUMBER_BYTES_MAX;
use crate::limits::KEY_BYTES_MAX;
use crate::types::{
    CqlType, CustomType, Elements, collection_elements, tuple_fields, vector_elements,
};

/// How much of the square of the bytes of a decimal is a unit.
const SQUARED_BYTES_PER_UNIT: u64 = 128;
/// Bytes of the longest decimal that has an ordered form, with its scale. A longer one is refused before its digits are
/// found, and counts as one of so many bytes.
const DECIMAL_BYTES_MAX: usize = NUMBER_BYTES_MAX + 4;

/// A longer value of a class whose values name the types of their parts is not looked through: it counts as if all of
/// it were the longest decimals.
const DYNAMIC_BYTES_MAX: usize = 256 << 10;

/// What the decimals of a key take at most, in units: its values have no more than 65,535 bytes together.
pub(crate) const WORK_OF_KEY_MAX: u64 =
    (KEY_BYTES_MAX / DECIMAL_BYTES_MAX + 1) as u64 * work_of_decimal(DECIMAL_BYTES_MAX);

/// Whether a decimal may be in values of a type. Adds to `parts` the types in it that were looked at, of a scalar none.
pub fn has_decimals(ty: &CqlType, parts: &mut u64) -> bool {
    let names_types = |ty: &CqlType| match ty {
        CqlType::Custom(class) => matches!(**class, CustomType::DynamicComposite(_)),
        _ => false,
    };
    *ty == CqlType::Decimal
        || names_types(ty)
        || ty.parts().into_iter().any(|part| {
            *parts += 1;
            has_decimals(part, parts)
        })
}

/// What finding the digits of a decimal of so many bytes takes, in units, however long it is.
pub const fn work_of_decimal(bytes: usize) -> u64 {
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
        CqlType::Decimal => work_of_decimal(value.len().min(DECIMAL_BYTES_MAX)),
        CqlType::Custom(class) => {
            let is_dynamic = matches!(**class, CustomType::DynamicComposite(_));
            if is_dynamic && value.len() > DYNAMIC_BYTES_MAX {
                return value.len() as u64 * DECIMAL_BYTES_MAX as u64 / SQUARED_BYTES_PER_UNIT;
            }
            let parts = class.parts(value).1.map_while(Result::ok);
            let digits = parts.map(|part| work_of_digits(&part.component.ty, part.value));
            digits.fold(0, u64::saturating_add)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::parse_class;

    /// Before: what the values of a dynamic composite name was not looked at: their decimals counted as nothing.
    #[test]
    fn decimals_of_a_dynamic_composite_count() {
        let class = parse_class("DynamicCompositeType(a=>Int32Type)").expect("a class").ty;
        assert!(has_decimals(&class, &mut 0));
        let decimal = vec![7; 16_000];
        let part = |name: &str, value: &[u8]| {
            let counted = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
            [counted(name.as_bytes()), counted(value), vec![0]].concat()
        };
        let value = [part("DecimalType", &decimal), part("BytesType", &decimal)].concat();
        let all: Vec<u8> = value.repeat(3);
        assert_eq!(class.validate(&all), Ok(()));
        assert_eq!(work_of_digits(&class, &all), 3 * work_of_decimal(decimal.len()));
        let long = vec![0; DYNAMIC_BYTES_MAX + 1];
        assert!(work_of_digits(&class, &long) > 32 << 20);
    }
}
