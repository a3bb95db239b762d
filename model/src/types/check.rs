//! Whether bytes are a value of a type, and the walk over the elements inside a value.
//!
//! The texts begin as those of Cassandra's serializers, since drivers' tests look for them.
//!
//! 1. `validate` goes by the type: a width, a rule of its own, or the elements inside, each by its type.
//! 2. [`Elements`] walks a list or a set, or a map that is `doubled`. An element that is cut off or null, and bytes
//!    after the last, are errors of the walk.
//! 3. `tuple_fields` walks a tuple or a user type, whose value may end before its last fields: those are null.
//!
//! Invariants: a value is as deep as its type, whose depth is bounded. A value that was checked is trusted afterwards:
//! by cells, keys and indexes.
//!
//! Not here: the order of values and the types themselves (`types.rs`), vectors (`vector.rs`), classes that are no type
//! of CQL (`custom.rs`), literals (`cql/src/literal.rs`).

use super::{CqlType, UserType, vector, vint};
use crate::{Error, Result};

/// Does what [`CqlType::validate`] promises.
pub(super) fn validate(ty: &CqlType, value: &[u8]) -> Result<()> {
    let count = value.len();
    let wrong = |text: &str| Err(Error::invalid(format!("{text} ({count})")));
    match ty {
        CqlType::Ascii if value.is_ascii() => Ok(()),
        CqlType::Ascii => {
            let wrong = value.iter().find(|byte| !byte.is_ascii()).copied().unwrap_or_default();
            Err(Error::invalid(format!("Invalid byte for ascii: {}", wrong.cast_signed())))
        }
        CqlType::Blob => Ok(()),
        CqlType::Text if simdutf8::basic::from_utf8(value).is_ok() => Ok(()),
        CqlType::Text => Err(Error::invalid("String didn't validate.")),
        CqlType::Boolean if count > 1 => wrong("Expected 1 or 0 byte value"),
        CqlType::Tinyint if count != 1 => wrong("Expected 1 byte for a tinyint"),
        CqlType::Smallint if count != 2 => wrong("Expected 2 bytes for a smallint"),
        CqlType::Int if !matches!(count, 0 | 4) => wrong("Expected 4 or 0 byte int"),
        CqlType::Bigint | CqlType::Counter if !matches!(count, 0 | 8) => {
            wrong("Expected 8 or 0 byte long")
        }
        CqlType::Float if !matches!(count, 0 | 4) => {
            wrong("Expected 4 or 0 byte value for a float")
        }
        CqlType::Double if !matches!(count, 0 | 8) => {
            wrong("Expected 8 or 0 byte value for a double")
        }
        CqlType::Timestamp if !matches!(count, 0 | 8) => {
            wrong("Expected 8 or 0 byte long for date")
        }
        CqlType::Date if count != 4 => wrong("Expected 4 byte long for date"),
        CqlType::Time => validate_time(value),
        CqlType::Uuid if !matches!(count, 0 | 16) => wrong("UUID should be 16 or 0 bytes"),
        CqlType::Timeuuid if !matches!(count, 0 | 16) => wrong("TimeUUID should be 16 or 0 bytes"),
        CqlType::Timeuuid if count == 16 && value[6] >> 4 != 1 => {
            Err(Error::invalid("Invalid version for TimeUUID type."))
        }
        CqlType::Inet if !matches!(count, 0 | 4 | 16) => {
            let bytes: String = value.iter().take(32).map(|byte| format!("{byte:02x}")).collect();
            Err(Error::invalid(format!("Expected 4 or 16 byte inetaddress; got {bytes}")))
        }
        CqlType::Decimal if matches!(count, 1..=3) => wrong("Expected 0 or at least 4 bytes"),
        // Cassandra takes a scale without a number, which no client can show.
        CqlType::Decimal if count == 4 => wrong("Expected 0 or at least 5 bytes"),
        CqlType::Duration => validate_duration(value),
        CqlType::Empty if count > 0 => wrong("EmptyType only accept empty values"),
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            let what = if let CqlType::List { .. } = ty { "list" } else { "set" };
            elements_of(what, value)?.try_for_each(|item| validate(element, item?))
        }
        CqlType::Map { key, value: of, .. } => validate_map(key, of, value),
        CqlType::Tuple(parts) => validate_tuple(parts, value),
        CqlType::Udt { definition, .. } => validate_user_type(definition, value),
        CqlType::Vector { element, dimensions } => vector::validate(element, *dimensions, value),
        CqlType::Custom(custom) => custom.validate(value),
        _ => Ok(()),
    }
}

fn validate_time(value: &[u8]) -> Result<()> {
    const NANOS_OF_DAY: u64 = 24 * 3600 * 1_000_000_000;
    let Ok(bytes) = <[u8; 8]>::try_from(value) else {
        return Err(Error::invalid(format!("Expected 8 byte long for time ({})", value.len())));
    };
    if u64::from_be_bytes(bytes) < NANOS_OF_DAY {
        Ok(())
    } else {
        Err(Error::invalid("Input long out of bounds for time of day"))
    }
}

/// Months, days, nanoseconds as Cassandra's signed vints, all of one sign.
fn validate_duration(value: &[u8]) -> Result<()> {
    if value.len() < 3 {
        let count = value.len();
        return Err(Error::invalid(format!("Expected at least 3 bytes for a duration ({count})")));
    }
    let mut rest = value;
    let mut signs = 0u8;
    for bits in [32, 32, 64] {
        let (zigzag, after) = vint::get(rest).ok_or(Error::Malformed("vint"))?;
        let number = vint::unzigzag(zigzag);
        rest = after;
        if bits == 32 && i32::try_from(number).is_err() {
            return Err(Error::invalid("Invalid duration: months and days are 32-bit"));
        }
        signs |= u8::from(number > 0) | u8::from(number < 0) << 1;
    }
    if signs == 3 {
        return Err(Error::invalid(
            "The duration months, days and nanoseconds must be all of the same sign",
        ));
    }
    if rest.is_empty() { Ok(()) } else { Err(Error::invalid("Invalid duration: bytes left over")) }
}

fn validate_map(key: &CqlType, of: &CqlType, value: &[u8]) -> Result<()> {
    let mut elements = pairs(value)?;
    while let Some(item) = elements.next() {
        validate(key, item?)?;
        let item = elements.next().ok_or(Error::Malformed("map"))?;
        validate(of, item?)?;
    }
    Ok(())
}

/// The keys and values of a map, in turn.
fn pairs(value: &[u8]) -> Result<Elements<'_>> {
    let mut elements = elements_of("map", value)?;
    elements.left = elements.left.checked_mul(2).ok_or(Error::Malformed("map"))?;
    Ok(elements)
}

fn validate_tuple(parts: &[CqlType], value: &[u8]) -> Result<()> {
    let mut values = tuple_fields(value);
    for (part, item) in parts.iter().zip(&mut values) {
        if let Some(item) = item? {
            validate(part, item)?;
        }
    }
    match values.next() {
        None => Ok(()),
        Some(_) => Err(Error::invalid("Invalid remaining data after end of tuple value")),
    }
}

fn validate_user_type(definition: &UserType, value: &[u8]) -> Result<()> {
    let mut values = fields(value);
    for (index, ((name, ty), item)) in definition.fields.iter().zip(&mut values).enumerate() {
        let item = item.map_err(|short| short.error(&format!("{index}th field {name}")))?;
        let Some(item) = item else { continue };
        validate(ty, item).map_err(|error| {
            Error::Invalid(format!("Failure validating the {index}th field {name}; {error}"))
        })?;
    }
    match values.next() {
        None => Ok(()),
        Some(_) => Err(Error::invalid("Invalid remaining data after end of UDT value")),
    }
}

/// The elements of a serialised list or set; of a map, call [`Elements::doubled`].
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    rest: &'a [u8],
    left: u32,
    /// The kind of collection, for errors.
    what: &'static str,
}

/// The elements of a serialised list or set.
pub fn collection_elements(value: &[u8]) -> Result<Elements<'_>> {
    elements_of("collection", value)
}

fn elements_of<'a>(what: &'static str, value: &'a [u8]) -> Result<Elements<'a>> {
    let Some((count, rest)) = value.split_first_chunk::<4>() else { return Err(too_short(what)) };
    let left = u32::try_from(i32::from_be_bytes(*count))
        .map_err(|_| Error::Invalid(format!("The data cannot be deserialized as a {what}")))?;
    Ok(Elements { rest, left, what })
}

#[cold]
fn too_short(what: &str) -> Error {
    Error::Invalid(format!("Not enough bytes to read a {what}"))
}

impl Elements<'_> {
    /// As many elements as a map has: a key and a value each.
    #[must_use]
    pub fn doubled(mut self) -> Self {
        self.left = self.left.saturating_mul(2);
        self
    }

    /// How many elements are left.
    pub fn left(&self) -> u32 {
        self.left
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            if self.rest.is_empty() {
                return None;
            }
            self.rest = &[];
            let text = format!("Unexpected extraneous bytes after {} value", self.what);
            return Some(Err(Error::Invalid(text)));
        }
        self.left -= 1;
        let item = sized(self.rest).and_then(|(item, rest)| {
            self.rest = rest;
            item.ok_or(Short::Null)
        });
        Some(item.map_err(|short| {
            (self.left, self.rest) = (0, &[]);
            match short {
                Short::Null => Error::invalid("Null value read when not allowed"),
                Short::Size | Short::Value => too_short(self.what),
            }
        }))
    }
}

/// Why there is no value where one should be.
#[derive(Clone, Copy)]
enum Short {
    /// Its length is cut off.
    Size,
    /// Its bytes are cut off.
    Value,
    /// It is null.
    Null,
}

impl Short {
    /// The error about a component or field that is called `what`.
    #[cold]
    fn error(self, what: &str) -> Error {
        let of = if let Short::Size = self { "size of " } else { "" };
        Error::Invalid(format!("Not enough bytes to read {of}{what}"))
    }
}

/// The bytes behind their length, none if they are null; and what follows.
fn sized(bytes: &[u8]) -> Result<(Option<&[u8]>, &[u8]), Short> {
    let (count, rest) = bytes.split_first_chunk::<4>().ok_or(Short::Size)?;
    let Ok(count) = usize::try_from(i32::from_be_bytes(*count)) else { return Ok((None, rest)) };
    let (item, rest) = rest.split_at_checked(count).ok_or(Short::Value)?;
    Ok((Some(item), rest))
}

/// The fields of a serialised tuple or user type; `None` is a null field.
pub fn tuple_fields(value: &[u8]) -> impl Iterator<Item = Result<Option<&[u8]>>> + Clone {
    let error = |(index, field): (usize, Result<_, Short>)| {
        field.map_err(|short| short.error(&format!("{index}th component")))
    };
    fields(value).enumerate().map(error)
}

fn fields(value: &[u8]) -> impl Iterator<Item = Result<Option<&[u8]>, Short>> + Clone {
    let mut rest = value;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let field = sized(rest);
        rest = field.as_ref().map_or(&[], |(_, after)| after);
        Some(field.map(|(item, _)| item))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    /// Before: the byte was not told, and a decimal of 1 to 3 bytes was told to need 5.
    #[test]
    fn refusals_of_ascii_and_decimals_are_cassandras() {
        let refused = |ty, value: &[u8]| validate(&ty, value).unwrap_err().to_string();
        assert_eq!(refused(CqlType::Ascii, b"a\xc3\x80"), "Invalid byte for ascii: -61");
        let text = "Expected 0 or at least 4 bytes (3)";
        assert_eq!(refused(CqlType::Decimal, &[0, 0, 0]), text);
        assert!(validate(&CqlType::Decimal, &[0, 0, 0, 0]).is_err());
        assert!(validate(&CqlType::Decimal, &[0, 0, 0, 0, 0]).is_ok());
    }

    /// Before: all were said to be of a collection or a tuple, and a null element to be cut off.
    #[test]
    fn refusals_of_what_is_made_of_parts_are_cassandras() {
        let int = Arc::new(CqlType::Int);
        let list = CqlType::List { element: int.clone(), frozen: true };
        let map = CqlType::Map { key: int.clone(), value: int, frozen: true };
        let fields = vec![("a".to_owned(), CqlType::Int)];
        let definition = Arc::new(UserType::new("ks", "u", fields));
        let udt = CqlType::Udt { definition, frozen: true };
        let tuple = CqlType::Tuple([CqlType::Int].into());
        for (ty, value, text) in [
            (&list, &[0][..], "Not enough bytes to read a list"),
            (&list, &[0, 0, 0, 1, 0], "Not enough bytes to read a list"),
            (&list, &[0, 0, 0, 1, 255, 255, 255, 255], "Null value read when not allowed"),
            (&list, &[255, 255, 255, 255], "The data cannot be deserialized as a list"),
            (&list, &[0; 5], "Unexpected extraneous bytes after list value"),
            (&map, &[0, 0, 0, 1, 0, 0, 0, 0], "Not enough bytes to read a map"),
            (&tuple, &[0], "Not enough bytes to read size of 0th component"),
            (&tuple, &[0, 0, 0, 4], "Not enough bytes to read 0th component"),
            (&tuple, &[0; 8], "Invalid remaining data after end of tuple value"),
            (&udt, &[0], "Not enough bytes to read size of 0th field a"),
            (
                &udt,
                &[0, 0, 0, 1, 0],
                "Failure validating the 0th field a; Expected 4 or 0 byte int (1)",
            ),
            (&udt, &[0; 8], "Invalid remaining data after end of UDT value"),
        ] {
            assert_eq!(validate(ty, value).unwrap_err().to_string(), text);
        }
    }

    fn some_types() -> Vec<CqlType> {
        let mut types: Vec<CqlType> = CqlType::SCALARS.into_iter().map(|(_, ty)| ty).collect();
        let int = Arc::new(CqlType::Int);
        let text = Arc::new(CqlType::Text);
        types.push(CqlType::List { element: int.clone(), frozen: true });
        types.push(CqlType::Map { key: int.clone(), value: text.clone(), frozen: true });
        types.push(CqlType::Tuple([CqlType::Int, CqlType::Text].into()));
        types.push(CqlType::Vector { element: int, dimensions: 2 });
        types.push(CqlType::Vector { element: text, dimensions: 2 });
        for class in ["CompositeType(Int32Type,UTF8Type)", "DynamicCompositeType(a=>Int32Type)"] {
            types.push(crate::types::parse_class(class).expect("a class").ty);
        }
        types
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_a_value_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            for ty in some_types() {
                let _ = ty.validate(&bytes);
            }
        }
    }

    #[test]
    fn a_list_of_two_ints_is_valid_and_a_byte_more_is_not() {
        let ty = CqlType::List { element: Arc::new(CqlType::Int), frozen: true };
        let mut value = vec![0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 2];
        assert_eq!(ty.validate(&value), Ok(()));
        value.push(0);
        assert!(ty.validate(&value).is_err());
    }

    #[test]
    fn a_duration_of_mixed_signs_is_refused() {
        assert_eq!(CqlType::Duration.validate(&[2, 4, 6]), Ok(()));
        assert!(CqlType::Duration.validate(&[2, 3, 6]).is_err());
    }
}
