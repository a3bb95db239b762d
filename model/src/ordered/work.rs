//! What bringing a value into ordered form takes beside its bytes. A core counts it before it does that to values of
//! clients.
//!
//! 1. The digits of decimals have to be found: that grows with the square of their bytes. One of 16 KiB takes some 4
//!    ms.
//! 2. A tuple may end before its last fields: eight bytes of one may stand for 65,535 nulls.
//!
//! Units are those of `cql/src/expr/work.rs`: 1 to 5 ns. Not here: what the bytes of a value take, which is little.

use super::number::NUMBER_BYTES_MAX;
use crate::limits::KEY_BYTES_MAX;
use crate::types::{
    CqlType, CustomType, Elements, collection_elements, tuple_fields, vector_elements,
};

/// How much of the square of the bytes of a decimal is a unit.
pub const DECIMAL_BYTES_SQUARED_PER_UNIT: u64 = 128;
/// Bytes of the longest decimal that has an ordered form, with its scale. A longer one is refused before its digits are
/// found, and counts as one of so many bytes.
const DECIMAL_BYTES_MAX: usize = NUMBER_BYTES_MAX + 4;

/// A longer value of a class whose values name the types of their parts is not looked through: it counts as if all of
/// it were the longest decimals.
const DYNAMIC_BYTES_MAX: usize = 256 << 10;

/// Bytes of a field that is null, as a value has it.
const NULL_FIELD_BYTES: u64 = 4;

/// What the decimals of a key take at most, in units: its values have no more than 65,535 bytes together.
pub(crate) const WORK_OF_KEY_MAX: u64 =
    (KEY_BYTES_MAX / DECIMAL_BYTES_MAX + 1) as u64 * work_of_decimal(DECIMAL_BYTES_MAX);

/// What a type says of bringing its values into ordered form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeWork {
    /// Whether decimals may be in its values.
    pub has_decimals: bool,
    /// Whether tuples or values of user types may be in its values.
    pub has_fields: bool,
    /// The types in it that were looked at, of a scalar none.
    pub types: u64,
}

impl TypeWork {
    /// That of a type.
    pub fn of(ty: &CqlType) -> TypeWork {
        let mut work = TypeWork::default();
        work.add(ty);
        work
    }

    fn add(&mut self, ty: &CqlType) {
        let names_types = is_dynamic(ty);
        self.has_decimals |= names_types || *ty == CqlType::Decimal;
        self.has_fields |= names_types || matches!(ty, CqlType::Tuple(_) | CqlType::Udt { .. });
        for part in ty.parts() {
            self.types += 1;
            self.add(part);
        }
    }

    /// Whether a value may take more than its bytes, so that it has to be looked through ([`FormWork::of`]).
    pub fn has_more_than_bytes(self) -> bool {
        self.has_decimals || self.has_fields
    }
}

/// Whether values of the type name the types of their parts.
fn is_dynamic(ty: &CqlType) -> bool {
    match ty {
        CqlType::Custom(class) => matches!(**class, CustomType::DynamicComposite(_)),
        _ => false,
    }
}

/// What finding the digits of a decimal of so many bytes takes, in units, however long it is.
pub const fn work_of_decimal(bytes: usize) -> u64 {
    (bytes as u64).saturating_pow(2) / DECIMAL_BYTES_SQUARED_PER_UNIT
}

/// What bringing one value into ordered form takes beside its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormWork {
    /// Finding the digits of its decimals, in units.
    decimal_units: u64,
    /// Fields of tuples and user types that it ends before: a unit each. The form has a null for each of a tuple, and
    /// what is made of the form has one for all.
    missing_fields: u64,
}

impl FormWork {
    /// That of a value. What cannot be read ends the value: bringing it into order is an error.
    pub fn of(ty: &CqlType, value: &[u8]) -> FormWork {
        let mut work = FormWork::default();
        work.add(ty, value);
        work
    }

    /// All of it, in units.
    pub fn units(self) -> u64 {
        self.decimal_units.saturating_add(self.missing_fields)
    }

    /// Fields of tuples and user types that the value ends before.
    pub fn missing_fields(self) -> u64 {
        self.missing_fields
    }

    /// Bytes by which the value is longer when it comes back, with all fields of its types.
    pub fn missing_bytes(self) -> usize {
        usize::try_from(self.missing_fields.saturating_mul(NULL_FIELD_BYTES)).unwrap_or(usize::MAX)
    }

    fn add(&mut self, ty: &CqlType, value: &[u8]) {
        match ty {
            CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                let items = collection_elements(value).into_iter().flatten();
                items.map_while(Result::ok).for_each(|item| self.add(element, item));
            }
            CqlType::Map { key, value: of, .. } => {
                let items = collection_elements(value).into_iter().flat_map(Elements::doubled);
                let types = [&**key, &**of].into_iter().cycle();
                items.map_while(Result::ok).zip(types).for_each(|(item, ty)| self.add(ty, item));
            }
            CqlType::Vector { element, dimensions } => {
                let items = vector_elements(element, *dimensions, value);
                items.map_while(Result::ok).for_each(|item| self.add(element, item));
            }
            CqlType::Tuple(parts) => self.add_fields(parts.iter(), value),
            CqlType::Udt { definition, .. } => {
                self.add_fields(definition.fields.iter().map(|(_, ty)| ty), value);
            }
            CqlType::Decimal => {
                self.add_digits(work_of_decimal(value.len().min(DECIMAL_BYTES_MAX)))
            }
            CqlType::Custom(_) if is_dynamic(ty) && value.len() > DYNAMIC_BYTES_MAX => {
                self.add_digits(
                    value.len() as u64 * DECIMAL_BYTES_MAX as u64 / DECIMAL_BYTES_SQUARED_PER_UNIT,
                );
            }
            CqlType::Custom(class) => {
                let parts = class.parts(value).1.map_while(Result::ok);
                parts.for_each(|part| self.add(&part.component.ty, part.value));
            }
            _ => {}
        }
    }

    fn add_fields<'t>(
        &mut self,
        mut types: impl ExactSizeIterator<Item = &'t CqlType>,
        value: &[u8],
    ) {
        if value.is_empty() {
            return;
        }
        for field in tuple_fields(value).map_while(Result::ok) {
            let Some(ty) = types.next() else { return };
            if let Some(field) = field {
                self.add(ty, field);
            }
        }
        self.missing_fields = self.missing_fields.saturating_add(types.len() as u64);
    }

    fn add_digits(&mut self, units: u64) {
        self.decimal_units = self.decimal_units.saturating_add(units);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::FILTER_WORK_MAX;
    use crate::types::parse_class;

    /// Before: what the values of a dynamic composite name was not looked at: their decimals counted as nothing.
    #[test]
    fn decimals_of_a_dynamic_composite_count() {
        let class = parse_class("DynamicCompositeType(a=>Int32Type)").expect("a class").ty;
        assert!(TypeWork::of(&class).has_decimals);
        let decimal = vec![7; 16_000];
        let part = |name: &str, value: &[u8]| {
            let counted = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
            [counted(name.as_bytes()), counted(value), vec![0]].concat()
        };
        let value = [part("DecimalType", &decimal), part("BytesType", &decimal)].concat();
        let all: Vec<u8> = value.repeat(3);
        assert_eq!(class.validate(&all), Ok(()));
        assert_eq!(FormWork::of(&class, &all).units(), 3 * work_of_decimal(decimal.len()));
        let long = vec![0; DYNAMIC_BYTES_MAX + 1];
        assert!(FormWork::of(&class, &long).units() > FILTER_WORK_MAX);
    }
}
