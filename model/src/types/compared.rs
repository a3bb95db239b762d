//! One value that is compared with many: it is encoded once, for the first of the others that is not the same bytes.
//!
//! Invariant: the order is that of clustering by the type (`ordered.rs`). Not here: which operators hold
//! (`read/filter.rs`).

use std::cell::OnceCell;
use std::cmp::Ordering;

use super::CqlType;
use crate::ordered;
use crate::steps::step;

/// A valid value, ready to be compared with others of its type.
pub(crate) struct Compared<'v> {
    ty: &'v CqlType,
    value: &'v [u8],
    /// Its ordered form, once it is needed; none if its bytes are compared.
    ordered: OnceCell<Option<Vec<u8>>>,
    other: Vec<u8>,
}

impl<'v> Compared<'v> {
    pub(crate) fn new(ty: &'v CqlType, value: &'v [u8]) -> Compared<'v> {
        Compared { ty, value, ordered: OnceCell::new(), other: Vec::new() }
    }

    /// How the other value compares with this one.
    pub(crate) fn order_of(&mut self, other: &[u8]) -> Ordering {
        if let Some(order) = of_integers(self.ty, other, self.value) {
            return order;
        }
        if other == self.value {
            return Ordering::Equal;
        }
        let Compared { ty, value, ordered, .. } = self;
        let encode = || if ty.compares_bytes() { None } else { encoded(ty, value) };
        // A value that cannot be ordered (a duration) compares by its bytes.
        let Some(ordered) = ordered.get_or_init(encode) else { return other.cmp(value) };
        self.other.clear();
        step(other.len());
        match ordered::encode(self.ty, other, &mut self.other) {
            Ok(()) => self.other.cmp(ordered),
            Err(_) => other.cmp(self.value),
        }
    }

    /// Whether the other value is the same.
    pub(crate) fn equals(&mut self, other: &[u8]) -> bool {
        self.order_of(other).is_eq()
    }
}

/// How two integers compare, which need no other form for it; `None` for other types, and for values that are empty.
#[inline]
pub(super) fn of_integers(ty: &CqlType, a: &[u8], b: &[u8]) -> Option<Ordering> {
    match ty {
        CqlType::Int => {
            let number = |value: &[u8]| value.try_into().ok().map(i32::from_be_bytes);
            Some(number(a)?.cmp(&number(b)?))
        }
        CqlType::Bigint | CqlType::Counter | CqlType::Time | CqlType::Timestamp => {
            let number = |value: &[u8]| value.try_into().ok().map(i64::from_be_bytes);
            Some(number(a)?.cmp(&number(b)?))
        }
        _ => None,
    }
}

/// The ordered form of a value; none if it has none.
pub(crate) fn encoded(ty: &CqlType, value: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    step(value.len());
    ordered::encode(ty, value, &mut out).ok().map(|()| out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn integers_compare_as_their_ordered_forms_do(a: i64, b: i64, length in 0..9usize) {
            let types = [
                (CqlType::Int, 4), (CqlType::Bigint, 8), (CqlType::Counter, 8),
                (CqlType::Time, 8), (CqlType::Timestamp, 8),
            ];
            for (ty, bytes) in types {
                let (a, b) = (&a.to_be_bytes()[..bytes], &b.to_be_bytes()[..bytes]);
                // Of any other length a value is none, or the empty one.
                for other in [b, a, &[], &b[..length.min(bytes)]] {
                    let expected = match (encoded(&ty, other), encoded(&ty, a)) {
                        (Some(other), Some(a)) => other.cmp(&a),
                        _ => other.cmp(a),
                    };
                    prop_assert_eq!(Compared::new(&ty, a).order_of(other), expected, "{}", ty);
                }
            }
        }
    }
}
