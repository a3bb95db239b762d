//! The elements of a vector's value, and the form that vectors of four types once had.
//!
//! ```text
//! vector := element*                 elements that are always as wide
//!         | (length:vint element)*   all others: among them tinyint, smallint, date and time,
//!                                    which Cassandra counts as of variable length
//! vint   := `vint.rs`
//! ```
//!
//! Until these four types were written as Cassandra writes them, their elements stood without
//! lengths. Both forms cannot be confused: with `n` elements of `w` bytes the old form has `n * w`
//! bytes, and no value of the new one has fewer than `n * (w + 1)`; `n` is at least 1. So the length of
//! a value says its form, and [`current_form`] brings what was stored then into that of now.

use std::borrow::Cow;

use super::{CqlType, collection_elements, tuple_fields, vint};
use crate::{Error, Result};

/// Bytes of each element, if elements of this type stand without lengths.
fn element_bytes(element: &CqlType) -> Option<usize> {
    match element {
        CqlType::Tinyint | CqlType::Smallint | CqlType::Date | CqlType::Time | CqlType::Counter => {
            None
        }
        CqlType::Vector { element, dimensions } => {
            element_bytes(element)?.checked_mul(usize::try_from(*dimensions).ok()?)
        }
        scalar => scalar.fixed_bytes(),
    }
}

/// As [`element_bytes`] was when four types had no lengths; `None` if nothing has changed.
fn old_element_bytes(element: &CqlType) -> Option<usize> {
    fn bytes(element: &CqlType) -> Option<usize> {
        match element {
            CqlType::Vector { element, dimensions } => {
                bytes(element)?.checked_mul(usize::try_from(*dimensions).ok()?)
            }
            scalar => scalar.fixed_bytes(),
        }
    }
    if element_bytes(element).is_some() { None } else { bytes(element) }
}

/// Appends an element behind those before it.
pub fn put_vector_element(element: &CqlType, value: &[u8], out: &mut Vec<u8>) {
    if element_bytes(element).is_none() {
        vint::put(value.len() as u64, out);
    }
    out.extend_from_slice(value);
}

/// The elements of a vector in either form. What follows the last one is an error after it.
pub fn vector_elements<'v>(
    element: &'v CqlType,
    dimensions: u32,
    value: &'v [u8],
) -> impl Iterator<Item = Result<&'v [u8]>> + Clone {
    let is_old = |bytes: &usize| bytes.checked_mul(dimensions as usize) == Some(value.len());
    let old = old_element_bytes(element).filter(is_old);
    elements(element, dimensions, value, old.or_else(|| element_bytes(element)))
}

/// The elements of a vector: each of `width` bytes, or with its length before it.
fn elements<'v>(
    element: &'v CqlType,
    dimensions: u32,
    value: &'v [u8],
    width: Option<usize>,
) -> impl Iterator<Item = Result<&'v [u8]>> + Clone {
    let mut rest = value;
    let mut left = dimensions;
    std::iter::from_fn(move || {
        if left == 0 {
            let count = std::mem::take(&mut rest).len();
            let text = || {
                format!(
                    "Unexpected {count} extraneous bytes after vector<{element}, {dimensions}> value"
                )
            };
            return (count > 0).then(|| Err(Error::Invalid(text())));
        }
        left -= 1;
        let item = match width {
            Some(bytes) => rest.split_at_checked(bytes),
            None => vint::get(rest).and_then(|(count, after)| {
                usize::try_from(count).ok().and_then(|count| after.split_at_checked(count))
            }),
        };
        Some(if let Some((item, after)) = item {
            rest = after;
            Ok(item)
        } else {
            (left, rest) = (0, &[]);
            let text = format!("Not enough bytes to read a vector<{element}, {dimensions}>");
            Err(Error::Invalid(text))
        })
    })
}

/// Refuses what is no vector in the form of now.
pub(super) fn validate(element: &CqlType, dimensions: u32, value: &[u8]) -> Result<()> {
    if value.is_empty() {
        return Err(Error::invalid("Invalid empty vector value"));
    }
    let mut items = elements(element, dimensions, value, element_bytes(element));
    items.try_for_each(|item| element.validate(item?))
}

impl CqlType {
    /// Whether values stored long ago may have another form than those of now.
    pub fn has_old_form(&self) -> bool {
        match self {
            CqlType::Vector { element, .. } if old_element_bytes(element).is_some() => true,
            // Values of these classes are younger than the forms of now.
            CqlType::Custom(_) => false,
            scalar => scalar.parts().into_iter().any(CqlType::has_old_form),
        }
    }
}

/// A stored value in the form of now.
pub fn current_form<'v>(ty: &CqlType, value: &'v [u8]) -> Result<Cow<'v, [u8]>> {
    if value.is_empty() || !ty.has_old_form() {
        return Ok(Cow::Borrowed(value));
    }
    let mut out = Vec::with_capacity(value.len() * 2);
    let put = |ty: &CqlType, item: &[u8], out: &mut Vec<u8>| {
        let item = current_form(ty, item)?;
        out.extend_from_slice(&(item.len() as i32).to_be_bytes());
        out.extend_from_slice(&item);
        Ok::<(), Error>(())
    };
    let put_fields = |types: &mut dyn Iterator<Item = &CqlType>, out: &mut Vec<u8>| {
        types.zip(tuple_fields(value)).try_for_each(|(ty, field)| match field? {
            Some(field) => put(ty, field, out),
            None => {
                out.extend_from_slice(&(-1i32).to_be_bytes());
                Ok(())
            }
        })
    };
    match ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            let items = collection_elements(value)?;
            out.extend_from_slice(&items.left().to_be_bytes());
            for item in items {
                put(element, item?, &mut out)?;
            }
        }
        CqlType::Map { key, value: of, .. } => {
            let items = collection_elements(value)?;
            out.extend_from_slice(&items.left().to_be_bytes());
            for (index, item) in items.doubled().enumerate() {
                put(if index % 2 == 0 { key } else { of }, item?, &mut out)?;
            }
        }
        CqlType::Tuple(parts) => put_fields(&mut parts.iter(), &mut out)?,
        CqlType::Udt { definition, .. } => {
            put_fields(&mut definition.fields.iter().map(|(_, ty)| ty), &mut out)?;
        }
        CqlType::Vector { element, dimensions } => {
            for item in vector_elements(element, *dimensions, value) {
                put_vector_element(element, &current_form(element, item?)?, &mut out);
            }
        }
        _ => unreachable!("a scalar has one form"),
    }
    Ok(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn vector(element: CqlType, dimensions: u32) -> CqlType {
        CqlType::Vector { element: Arc::new(element), dimensions }
    }

    fn vector_of_smallint() -> CqlType {
        vector(CqlType::Smallint, 2)
    }

    /// As read from Apache Cassandra 5.0.9 for `[1, 2]` and what comes first after it.
    #[test]
    fn the_wire_form_of_vectors_is_cassandras() {
        let scalar = |name| CqlType::scalar(name).expect("a scalar");
        let two = |a: &[u8], b: &[u8]| [a, b].concat();
        let int = |n: i32| n.to_be_bytes();
        let cases: Vec<(CqlType, [Vec<u8>; 2], Vec<u8>)> = vec![
            (scalar("tinyint"), [vec![1], vec![2]], vec![1, 1, 1, 2]),
            (scalar("smallint"), [vec![0, 1], vec![0, 2]], vec![2, 0, 1, 2, 0, 2]),
            (scalar("date"), [int(1).into(), int(2).into()], vec![4, 0, 0, 0, 1, 4, 0, 0, 0, 2]),
            (scalar("boolean"), [vec![1], vec![0]], vec![1, 0]),
            (scalar("int"), [int(1).into(), int(2).into()], two(&int(1), &int(2))),
            (scalar("text"), [b"a".into(), b"b".into()], b"\x01a\x01b".into()),
            (scalar("varint"), [vec![1], vec![2]], vec![1, 1, 1, 2]),
            (
                vector_of_smallint(),
                [vec![2, 0, 1, 2, 0, 2], vec![2, 0, 3, 2, 0, 4]],
                vec![6, 2, 0, 1, 2, 0, 2, 6, 2, 0, 3, 2, 0, 4],
            ),
            (vector(CqlType::Int, 1), [int(1).into(), int(2).into()], two(&int(1), &int(2))),
        ];
        for (element, items, expected) in cases {
            let mut value = Vec::new();
            items.iter().for_each(|item| put_vector_element(&element, item, &mut value));
            assert_eq!(value, expected, "vector<{element}, 2>");
            let ty = vector(element.clone(), 2);
            assert_eq!(ty.validate(&value), Ok(()), "{ty}");
            let back: Result<Vec<_>> = vector_elements(&element, 2, &value).collect();
            assert_eq!(back.expect("what was just made"), items, "{ty}");
        }
    }

    #[test]
    fn a_vector_that_is_none_is_refused_in_cassandras_words() {
        let refused = |element, value: &[u8]| match vector(element, 2).validate(value) {
            Err(Error::Invalid(text)) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused(CqlType::Int, &[]), "Invalid empty vector value");
        assert_eq!(refused(CqlType::Int, &[0; 3]), "Not enough bytes to read a vector<int, 2>");
        assert_eq!(
            refused(CqlType::Boolean, &[0; 3]),
            "Unexpected 1 extraneous bytes after vector<boolean, 2> value"
        );
        assert_eq!(refused(CqlType::Smallint, &[0; 3]), "Expected 2 bytes for a smallint (0)");
        assert_eq!(refused(CqlType::Smallint, &[0; 4]), "Expected 2 bytes for a smallint (0)");
        assert_eq!(refused(vector_of_smallint(), &[0; 3]), "Invalid empty vector value");
        assert_eq!(
            refused(CqlType::Text, &[1, b'a', 9, b'b']),
            "Not enough bytes to read a vector<text, 2>"
        );
    }

    #[test]
    fn a_vector_stored_without_lengths_is_read() {
        let ty = vector_of_smallint();
        assert_eq!(*current_form(&ty, &[0, 1, 0, 2]).unwrap(), [2, 0, 1, 2, 0, 2]);
        assert_eq!(*current_form(&ty, &[2, 0, 1, 2, 0, 2]).unwrap(), [2, 0, 1, 2, 0, 2]);
        let nested = vector(ty.clone(), 2);
        assert_eq!(
            *current_form(&nested, &[0, 1, 0, 2, 0, 3, 0, 4]).unwrap(),
            [6, 2, 0, 1, 2, 0, 2, 6, 2, 0, 3, 2, 0, 4]
        );
        let tuple = CqlType::Tuple([CqlType::Int, ty.clone()].into());
        let old = [0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 4, 0, 1, 0, 2];
        let new = [0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 6, 2, 0, 1, 2, 0, 2];
        assert_eq!(*current_form(&tuple, &old).unwrap(), new);
        assert!(ty.compare(&[0, 1, 0, 2], &[2, 0, 1, 2, 0, 2]).is_eq());
        let int = vector(CqlType::Int, 1);
        assert!(matches!(current_form(&int, &[0, 0, 0, 4]), Ok(Cow::Borrowed(_))));
    }

    fn narrow() -> impl Strategy<Value = (CqlType, usize)> {
        prop_oneof![
            Just((CqlType::Tinyint, 1)),
            Just((CqlType::Smallint, 2)),
            Just((CqlType::Date, 4)),
            Just((CqlType::Time, 8)),
        ]
    }

    proptest! {
        /// What was written without lengths is never also a value with them, flat or nested.
        #[test]
        fn the_two_forms_of_a_vector_have_different_lengths(
            (element, width) in narrow(), outer in 1..40u32, inner in 1..40u32
        ) {
            let put = |element: &CqlType, item: &[u8], count: u32| {
                let mut out = Vec::new();
                (0..count).for_each(|_| put_vector_element(element, item, &mut out));
                out
            };
            let flat = put(&element, &vec![0; width], inner);
            prop_assert!(flat.len() > inner as usize * width);
            prop_assert_eq!(vector(element.clone(), inner).validate(&flat), Ok(()));
            let nested = put(&vector(element, inner), &flat, outer);
            prop_assert!(nested.len() > (outer * inner) as usize * width);
        }

        #[test]
        fn arbitrary_bytes_are_a_vector_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            for ty in [vector_of_smallint(), vector(vector(CqlType::Text, 2), 2)] {
                let _ = ty.validate(&bytes);
                let _ = current_form(&ty, &bytes);
            }
        }
    }
}
