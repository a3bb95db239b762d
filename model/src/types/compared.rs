//! One value compared with many: it is encoded once, for the first of the others that has other bytes, or by who keeps
//! its [`OrderedForm`]. Among values in order it is found by binary search.
//!
//! Invariant: the order is that of clustering by the type (`ordered.rs`). Not here: which operators hold
//! (`read/filter.rs`).

use std::borrow::Cow;
use std::cell::OnceCell;
use std::cmp::Ordering;

use super::CqlType;
use crate::ordered;
use crate::steps::step;

/// A valid value, ready to be compared with others of its type.
pub struct Compared<'v> {
    ty: &'v CqlType,
    value: &'v [u8],
    /// Its ordered form, once it is needed; none if its bytes are compared.
    ordered: OnceCell<Option<Cow<'v, [u8]>>>,
    other: Vec<u8>,
}

/// The ordered form of a value, kept beside it by who compares it more than once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OrderedForm {
    /// It was not made.
    Unmade,
    /// The value has none: it is a number that is too long, or its form would be.
    Missing,
    /// The bytes of the form.
    Made(Box<[u8]>),
}

impl OrderedForm {
    /// The form of a value of this type.
    pub(crate) fn of(ty: &CqlType, value: &[u8]) -> OrderedForm {
        encoded(ty, value).map_or(OrderedForm::Missing, |form| OrderedForm::Made(form.into()))
    }
}

impl<'v> Compared<'v> {
    /// A value of this type before it is compared with others.
    pub fn new(ty: &'v CqlType, value: &'v [u8]) -> Compared<'v> {
        Compared { ty, value, ordered: OnceCell::new(), other: Vec::new() }
    }

    /// The same of a value whose form may have been made.
    pub(crate) fn with_form(
        ty: &'v CqlType,
        value: &'v [u8],
        form: Option<&'v OrderedForm>,
    ) -> Compared<'v> {
        let ordered = match form {
            None | Some(OrderedForm::Unmade) => OnceCell::new(),
            Some(OrderedForm::Missing) => OnceCell::from(None),
            Some(OrderedForm::Made(form)) => OnceCell::from(Some(Cow::Borrowed(&form[..]))),
        };
        Compared { ty, value, ordered, other: Vec::new() }
    }

    /// How the other value compares with this one. Where one of them cannot be ordered (a duration), by their bytes.
    pub fn order_of(&mut self, other: &[u8]) -> Ordering {
        self.order_with(other, |_, by_bytes| by_bytes)
    }

    /// As `order_of`, but so that any values can be put into order: those without an ordered form stand behind the
    /// others.
    fn place_of(&mut self, other: &[u8]) -> Ordering {
        let place = |is_ordered, _| if is_ordered { Ordering::Less } else { Ordering::Greater };
        self.order_with(other, place)
    }

    /// How the other value compares with this one. Where one of them alone has an ordered form `mixed` says it, from
    /// whether that is the other, and how their bytes compare.
    #[inline(always)]
    fn order_with(
        &mut self,
        other: &[u8],
        mixed: impl FnOnce(bool, Ordering) -> Ordering,
    ) -> Ordering {
        if let Some(order) = of_integers(self.ty, other, self.value) {
            return order;
        }
        let Compared { ty, value, ordered, .. } = self;
        if other == *value || ty.compares_bytes() {
            return other.cmp(value);
        }
        let ordered = ordered.get_or_init(|| encoded(ty, value).map(Cow::Owned));
        self.other.clear();
        step(other.len());
        match (ordered::encode(self.ty, other, &mut self.other), ordered) {
            (Ok(()), Some(ordered)) => self.other[..].cmp(ordered),
            (Err(_), None) => other.cmp(self.value),
            (other_form, _) => mixed(other_form.is_ok(), other.cmp(self.value)),
        }
    }

    /// Whether the other value is the same.
    pub(crate) fn equals(&mut self, other: &[u8]) -> bool {
        other == self.value || (!self.ty.equals_by_bytes() && self.order_of(other).is_eq())
    }
}

/// Puts values of a type into the order in which [`is_among`] looks for one.
pub(super) fn sort(ty: &CqlType, values: &mut [Box<[u8]>]) {
    if is_searched_by_bytes(ty) {
        return values.sort_unstable();
    }
    values.sort_by_cached_key(|value| match encoded(ty, value) {
        Some(ordered) => (false, ordered),
        None => (true, value.to_vec()),
    });
}

/// Whether values are put into the order of their bytes to be searched. Integers are not: they compare as numbers.
fn is_searched_by_bytes(ty: &CqlType) -> bool {
    ty.equals_by_bytes() && !ty.is_integer()
}

/// Whether a value is the same as one of `sorted`, which are in order. `forms` are their ordered forms, one for each,
/// or empty if none were made.
pub(crate) fn is_among(
    ty: &CqlType,
    value: &[u8],
    sorted: &[Box<[u8]>],
    forms: &[OrderedForm],
) -> bool {
    if is_searched_by_bytes(ty) {
        return sorted.binary_search_by(|other| other[..].cmp(value)).is_ok();
    }
    if forms.is_empty() {
        let mut value = Compared::new(ty, value);
        return sorted.binary_search_by(|other| value.place_of(other)).is_ok();
    }
    let Some(form) = encoded(ty, value) else {
        // Values without a form stand behind the others.
        let count = forms.partition_point(|form| *form != OrderedForm::Missing);
        return sorted[count..].binary_search_by(|other| other[..].cmp(value)).is_ok();
    };
    let order = |other: &OrderedForm| match other {
        OrderedForm::Made(other) => other[..].cmp(&form),
        OrderedForm::Unmade | OrderedForm::Missing => Ordering::Greater,
    };
    forms.binary_search_by(order).is_ok()
}

/// How two integers compare, which need no other form for it; `None` for other types, and for values that are empty.
#[inline]
pub(crate) fn of_integers(ty: &CqlType, a: &[u8], b: &[u8]) -> Option<Ordering> {
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
    use crate::steps::steps_of;

    /// Before: each value of an IN was encoded for each row: 10,000 of them took 0.3 ms.
    #[test]
    fn among_many_values_in_order_few_are_encoded() {
        let varint = |number: u32| u128::from(number).to_be_bytes();
        let mut values: Vec<Box<[u8]>> = (0..10_000).map(|n| varint(2 * n).into()).collect();
        sort(&CqlType::Varint, &mut values);
        for (number, is_there) in [(0, true), (7_777, false), (19_998, true), (20_000, false)] {
            let find = || is_among(&CqlType::Varint, &varint(number), &values, &[]);
            let (steps, found) = steps_of(find);
            assert_eq!(found, is_there, "{number}");
            assert!(steps < 20 * 16, "{steps} bytes were encoded");
        }
    }

    fn any_type() -> impl Strategy<Value = CqlType> {
        let tuple = CqlType::Tuple([CqlType::Varint, CqlType::Text].into());
        prop::sample::select(vec![
            CqlType::Int,
            CqlType::Tinyint,
            CqlType::Uuid,
            CqlType::Varint,
            CqlType::Decimal,
            CqlType::Text,
            CqlType::Boolean,
            CqlType::Duration,
            CqlType::Double,
            tuple,
        ])
    }

    proptest! {
        /// Any bytes, also those that are no value of the type.
        #[test]
        fn a_value_is_among_those_that_equal_it(
            ty in any_type(),
            mut values in prop::collection::vec(prop::collection::vec(0..3u8, 0..9), 0..30),
            other in prop::collection::vec(0..3u8, 0..9), at in 0..60usize,
        ) {
            let value = values.get(at).cloned().unwrap_or(other);
            values.push(vec![0; 16]);
            let mut sorted: Vec<Box<[u8]>> = values.iter().map(|value| value[..].into()).collect();
            sort(&ty, &mut sorted);
            let expected = values.iter().any(|other| Compared::new(&ty, &value).order_of(other).is_eq());
            let forms: Vec<_> = sorted.iter().map(|value| OrderedForm::of(&ty, value)).collect();
            for forms in [&[][..], &forms] {
                prop_assert_eq!(is_among(&ty, &value, &sorted, forms), expected, "{} {:?}", ty, value);
            }
        }

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
