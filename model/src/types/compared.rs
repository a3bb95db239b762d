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

/// The ordered form of a value; none if it has none.
pub(crate) fn encoded(ty: &CqlType, value: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    step(value.len());
    ordered::encode(ty, value, &mut out).ok().map(|()| out)
}
