//! One value that is compared with many: a value of many parts is encoded once, and not for each of the others.
//!
//! Invariant: the order is that of clustering by the type (`ordered.rs`). Not here: which operators hold
//! (`read/filter.rs`).

use std::cmp::Ordering;

use super::CqlType;
use crate::ordered;
use crate::steps::step;

/// A valid value, ready to be compared with others of its type.
pub(crate) struct Compared<'v> {
    ty: &'v CqlType,
    value: &'v [u8],
    /// Its ordered form; none if its bytes are compared.
    ordered: Option<Vec<u8>>,
    other: Vec<u8>,
}

impl<'v> Compared<'v> {
    /// Encodes the value, unless its bytes are compared.
    pub(crate) fn new(ty: &'v CqlType, value: &'v [u8]) -> Compared<'v> {
        let ordered = if ty.compares_bytes() { None } else { encoded(ty, value) };
        Compared { ty, value, ordered, other: Vec::new() }
    }

    /// How the other value compares with this one.
    pub(crate) fn order_of(&mut self, other: &[u8]) -> Ordering {
        if other == self.value {
            return Ordering::Equal;
        }
        // A value that cannot be ordered (a duration) compares by its bytes.
        let Some(ordered) = &self.ordered else { return other.cmp(self.value) };
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

/// The ordered form of a value; none if it has none.
pub(crate) fn encoded(ty: &CqlType, value: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    step(value.len());
    ordered::encode(ty, value, &mut out).ok().map(|()| out)
}
