//! Collections in wire form: putting them together, and putting what clients sent into order.
//!
//! Sets and the keys of maps are sorted by their type and have nothing twice; of equal keys the
//! last value stays. A stored frozen collection is always in that order, since its bytes are
//! compared as one value.
//!
//! 1. `put_list`, `sorted_set` and `sorted_map` write a value: the number of elements, then each with its length, both
//!    of 4 bytes. They sort by the order-preserving form of the elements (`model/src/ordered.rs`), whose bytes compare
//!    as the values do.
//! 2. `normalized` brings a value of any type into that order, at every depth but inside vectors. A value that is in
//!    order already is lent and not copied.
//! 3. `element` and `slice` read a value that is stored: `m[k]`, `m[a..b]`.
//!
//! Invariant: the work of sorting is bounded before it is done ([`SortCost`]), since long decimals take time in
//! proportion to the square of their length, and tuples may lack thousands of fields.
//!
//! Not here: the functions `collection_*`, `map_keys`, `map_values` (`function/collection.rs`), the parts of literals
//! (`build.rs`), collections from cells (`model/src/row/collected.rs`).

use std::borrow::Cow;
use std::cmp::Ordering;

use model::CqlType;
use model::ordered::{self, FormWork, TypeWork};
use model::types::{Compared, collection_elements, tuple_fields};

use super::work::{ExpressionWork, OrderWork};
use crate::error::{Error, Result};
use crate::limits::{DECIMALS_SORT_COST_MAX, MISSING_FIELDS_MAX};
use crate::steps::step;

/// Whether a value of the type has sets or maps anywhere in it.
pub(crate) fn is_ordered(ty: &CqlType) -> bool {
    match ty {
        CqlType::Set { .. } | CqlType::Map { .. } => true,
        CqlType::List { element, .. } | CqlType::Vector { element, .. } => is_ordered(element),
        CqlType::Tuple(parts) => parts.iter().any(is_ordered),
        CqlType::Udt { definition, .. } => definition.fields.iter().any(|(_, ty)| is_ordered(ty)),
        _ => false,
    }
}

fn put_item(item: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(item.len() as i32).to_be_bytes());
    out.extend_from_slice(item);
}

/// Appends a list.
pub fn put_list<'v>(items: impl Iterator<Item = &'v [u8]>, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut count = 0i32;
    for item in items {
        put_item(item, out);
        count += 1;
    }
    out[start..start + 4].copy_from_slice(&count.to_be_bytes());
}

/// Items in the order of what sorts them, values of `ty`; those of equal ones stay in the order in which they came.
///
/// All sort keys lie in one buffer: a set of tiny elements took thirty times its bytes with a key of its own for each.
struct Sorted<T> {
    keys: Vec<u8>,
    /// Where the key begins and ends, and the item.
    items: Vec<(u32, u32, T)>,
}

impl<T> Sorted<T> {
    fn new<'v>(
        ty: &CqlType,
        items: impl Iterator<Item = (&'v [u8], T)>,
        cost: &mut SortCost,
    ) -> Result<Sorted<T>> {
        let mut sorted = Sorted { keys: Vec::new(), items: Vec::new() };
        let of_type = TypeWork::of(ty);
        for (value, item) in items {
            cost.add((ty, of_type), value)?;
            let start = sorted.keys.len() as u32;
            ordered::encode(ty, value, &mut sorted.keys)?;
            let end = u32::try_from(sorted.keys.len())
                .map_err(|_| Error::invalid("A collection has more than 4 GiB of keys"))?;
            sorted.items.push((start, end, item));
        }
        let Sorted { keys, items } = &mut sorted;
        items.sort_by(|a, b| key_of(keys, a).cmp(key_of(keys, b)));
        Ok(sorted)
    }

    /// Leaves one of equal items: the first, to which `merge` is told each later one.
    fn dedup(mut self, merge: impl Fn(&mut T, &T)) -> impl ExactSizeIterator<Item = T> {
        let Sorted { keys, items } = &mut self;
        items.dedup_by(|later, kept| {
            let same = key_of(keys, later) == key_of(keys, kept);
            if same {
                merge(&mut kept.2, &later.2);
            }
            same
        });
        self.items.into_iter().map(|(_, _, item)| item)
    }
}

/// What it takes to put the sets and maps of one value, or the values of one IN, into order. It is refused where
/// decimals are too long, or tuples lack too many fields.
#[derive(Default)]
pub(crate) struct SortCost {
    /// The squares of the bytes of values that have decimals.
    pub(super) decimals: u64,
    /// Fields that tuples and user types end before.
    pub(super) missing_fields: u64,
}

impl SortCost {
    /// Counts a value of this type that is to be ordered.
    pub(crate) fn add(&mut self, (ty, of_type): (&CqlType, TypeWork), value: &[u8]) -> Result<()> {
        if of_type.has_decimals {
            let squared = (value.len() as u64).saturating_pow(2);
            self.decimals = self.decimals.saturating_add(squared);
        }
        if self.decimals > DECIMALS_SORT_COST_MAX {
            return Err(Error::invalid(
                "the decimals of one collection or IN have too many digits to be put into order: give fewer, or shorter ones",
            ));
        }
        if of_type.has_fields {
            let missing = FormWork::of(ty, value).missing_fields();
            self.missing_fields = self.missing_fields.saturating_add(missing);
        }
        match self.missing_fields > MISSING_FIELDS_MAX {
            true => Err(Error::invalid(
                "the tuples of one collection or IN lack too many fields to be put into order: give fewer, or whole ones",
            )),
            false => Ok(()),
        }
    }
}

fn key_of<'k, T>(keys: &'k [u8], (start, end, _): &(u32, u32, T)) -> &'k [u8] {
    &keys[*start as usize..*end as usize]
}

/// Appends a set of these elements in order, each once.
pub(crate) fn sorted_set<'v>(
    ty: &CqlType,
    items: impl Iterator<Item = &'v [u8]>,
    cost: &mut SortCost,
    out: &mut Vec<u8>,
) -> Result<()> {
    let sorted = Sorted::new(ty, items.map(|item| (item, item)), cost)?;
    put_list(sorted.dedup(|_, _| ()), out);
    Ok(())
}

/// Appends a map of these entries in the order of their keys; the last of equal keys stays. So it is in Cassandra for
/// what is bound; of a literal any of them stays there (of 60 times the same `INSERT` the first 21 times, the last 39).
pub(crate) fn sorted_map<'v>(
    ty: &CqlType,
    entries: impl Iterator<Item = (&'v [u8], &'v [u8])>,
    cost: &mut SortCost,
    out: &mut Vec<u8>,
) -> Result<()> {
    let sorted = Sorted::new(ty, entries.map(|(key, value)| (key, (key, value))), cost)?;
    let entries = sorted.dedup(|kept, later| kept.1 = later.1);
    out.extend_from_slice(&(entries.len() as i32).to_be_bytes());
    for (key, value) in entries {
        put_item(key, out);
        put_item(value, out);
    }
    Ok(())
}

/// A valid value with its sets and maps in order. What that takes beside their bytes is counted.
pub fn normalized<'v>(
    ty: &CqlType,
    value: &'v [u8],
    work: &ExpressionWork,
) -> Result<Cow<'v, [u8]>> {
    work.take_types(ty)?;
    let mut cost = SortCost::default();
    let sorted = Order::of(ty).normalized(value, &mut cost)?;
    work.take_sorted(&cost)?;
    Ok(sorted)
}

/// Where a type has sets and maps, whose items are in order. It is found once: a value may have millions of elements,
/// and their type tens of thousands of fields.
enum Order<'t> {
    /// It has none.
    Any,
    /// In these parts of it, or it is one.
    Of(&'t CqlType, Vec<Order<'t>>),
}

impl<'t> Order<'t> {
    fn of(ty: &'t CqlType) -> Order<'t> {
        step(1);
        // A vector of collections keeps the order its client gave it.
        let parts: Vec<Order<'t>> = match ty {
            CqlType::Vector { .. } | CqlType::Custom(_) => return Order::Any,
            ty => ty.parts().into_iter().map(Order::of).collect(),
        };
        let is_ordered = matches!(ty, CqlType::Set { .. } | CqlType::Map { .. });
        match is_ordered || parts.iter().any(|part| matches!(part, Order::Of(..))) {
            true => Order::Of(ty, parts),
            false => Order::Any,
        }
    }

    fn normalized<'v>(&self, value: &'v [u8], cost: &mut SortCost) -> Result<Cow<'v, [u8]>> {
        let (ty, parts) = match self {
            Order::Of(ty, parts) if !value.is_empty() => (*ty, &parts[..]),
            _ => return Ok(Cow::Borrowed(value)),
        };
        let mut out = Vec::with_capacity(value.len());
        match (ty, parts) {
            (CqlType::List { .. }, [of]) => {
                let items = of.normalized_items(collection_elements(value)?, cost)?;
                put_list(items.iter().map(|item| &item[..]), &mut out);
            }
            (CqlType::Set { element, .. }, [Order::Any]) => {
                let items = collection_elements(value)?.collect::<model::Result<Vec<_>>>()?;
                sorted_set(element, items.into_iter(), cost, &mut out)?;
            }
            (CqlType::Set { element, .. }, [of]) => {
                let items = of.normalized_items(collection_elements(value)?, cost)?;
                sorted_set(element, items.iter().map(|item| &item[..]), cost, &mut out)?;
            }
            (CqlType::Map { key, .. }, [of_keys, of_values]) => {
                let all = collection_elements(value)?.doubled().collect::<Result<Vec<_>, _>>()?;
                let (keys, values) = (all.iter().step_by(2), all.iter().skip(1).step_by(2));
                let keys = of_keys.normalized_items(keys.map(|item| Ok(*item)), cost)?;
                let values = of_values.normalized_items(values.map(|item| Ok(*item)), cost)?;
                let entries = keys.iter().zip(&values).map(|(key, value)| (&key[..], &value[..]));
                sorted_map(key, entries, cost, &mut out)?;
            }
            (_, fields) => {
                for (order, field) in fields.iter().zip(tuple_fields(value)) {
                    match field? {
                        Some(field) => put_item(&order.normalized(field, cost)?, &mut out),
                        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
                    }
                }
            }
        }
        Ok(if out == value { Cow::Borrowed(value) } else { Cow::Owned(out) })
    }

    fn normalized_items<'v>(
        &self,
        items: impl Iterator<Item = model::Result<&'v [u8]>>,
        cost: &mut SortCost,
    ) -> Result<Vec<Cow<'v, [u8]>>> {
        items.map(|item| self.normalized(item?, cost)).collect()
    }
}

/// The type of the keys of a map, or of the elements of a set.
pub(super) fn key_type(ty: &CqlType) -> &CqlType {
    match ty {
        CqlType::Map { key, .. } => key,
        CqlType::Set { element, .. } => element,
        _ => unreachable!("only maps and sets have keys"),
    }
}

/// The path of the element with this key, a value of `ty`, where it is stored by element; `None` if no element can have
/// such a key: a number that is too long, or a value whose form would be.
pub(crate) fn path_of(ty: &CqlType, key: &[u8], work: &ExpressionWork) -> Result<Option<Vec<u8>>> {
    work.take_form(ty, key)?;
    let mut path = Vec::with_capacity(key.len() + 4);
    match ordered::encode(ty, key, &mut path) {
        Ok(()) => Ok(Some(path)),
        Err(model::Error::Invalid(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Where this key, a value of `ty`, stands among the paths of elements.
pub(super) fn place_of(ty: &CqlType, key: &[u8], work: &ExpressionWork) -> Result<Vec<u8>> {
    work.take_form(ty, key)?;
    let mut place = Vec::with_capacity(key.len() + 4);
    ordered::encode_place(ty, key, &mut place)?;
    Ok(place)
}

/// A key that those of a collection are compared with, one after the other.
struct ComparedKey<'v> {
    key: Compared<'v>,
    ty: &'v CqlType,
    order_work: OrderWork,
    work: &'v ExpressionWork,
}

impl<'v> ComparedKey<'v> {
    fn new(ty: &'v CqlType, key: &'v [u8], work: &'v ExpressionWork) -> Result<ComparedKey<'v>> {
        let order_work = OrderWork::of(ty);
        work.take(order_work.of_type().saturating_add(order_work.of_compared(ty, key)))?;
        Ok(ComparedKey { key: Compared::new(ty, key), ty, order_work, work })
    }

    /// How another key compares with this one.
    fn order_of(&mut self, other: &[u8]) -> Result<Ordering> {
        self.work.take(self.order_work.of_compared(self.ty, other))?;
        Ok(self.key.order_of(other))
    }
}

/// The value of a map at a key, or the element of a set that equals it; `None` if there is none.
pub(super) fn element(
    ty: &CqlType,
    value: &[u8],
    wanted: &[u8],
    work: &ExpressionWork,
) -> Result<Option<Vec<u8>>> {
    let is_map = matches!(ty, CqlType::Map { .. });
    let mut wanted = ComparedKey::new(key_type(ty), wanted, work)?;
    let items = collection_elements(value)?;
    let mut items = if is_map { items.doubled() } else { items };
    while let Some(key) = items.next() {
        let key = key?;
        let value = if is_map { items.next().transpose()? } else { Some(key) };
        if wanted.order_of(key)?.is_eq() {
            return Ok(value.map(<[u8]>::to_vec));
        }
    }
    Ok(None)
}

/// The entries of a map or set whose keys are neither below `first` nor above `last`; `None` if
/// there are none.
pub(super) fn slice(
    ty: &CqlType,
    value: &[u8],
    (first, last): (Option<&[u8]>, Option<&[u8]>),
    work: &ExpressionWork,
) -> Result<Option<Vec<u8>>> {
    let is_map = matches!(ty, CqlType::Map { .. });
    let compared = |key| ComparedKey::new(key_type(ty), key, work);
    let mut first = first.map(compared).transpose()?;
    let mut last = last.map(compared).transpose()?;
    let items = collection_elements(value)?;
    let mut items = if is_map { items.doubled() } else { items };
    let (mut out, mut count) = (vec![0; 4], 0i32);
    while let Some(key) = items.next() {
        let key = key?;
        let value = if is_map { items.next().transpose()? } else { None };
        let from_first = first.as_mut().map(|first| first.order_of(key)).transpose()?;
        if from_first.is_some_and(Ordering::is_lt) {
            continue;
        }
        let from_last = last.as_mut().map(|last| last.order_of(key)).transpose()?;
        if from_last.is_none_or(Ordering::is_le) {
            count += 1;
            put_item(key, &mut out);
            value.into_iter().for_each(|value| put_item(value, &mut out));
        }
    }
    out[..4].copy_from_slice(&count.to_be_bytes());
    Ok((count > 0).then_some(out))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn in_order<'v>(ty: &CqlType, value: &'v [u8]) -> Result<Cow<'v, [u8]>> {
        normalized(ty, value, &ExpressionWork::default())
    }

    fn int(n: i32) -> Vec<u8> {
        n.to_be_bytes().to_vec()
    }

    fn list(items: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Vec::new();
        put_list(items.iter().map(|item| &item[..]), &mut out);
        out
    }

    #[test]
    fn sets_are_sorted_by_type_and_have_nothing_twice() {
        let ty = CqlType::Set { element: Arc::new(CqlType::Int), frozen: true };
        let sent = list(&[int(2), int(-1), int(2)]);
        assert_eq!(in_order(&ty, &sent).unwrap().as_ref(), list(&[int(-1), int(2)]));
        let sorted = list(&[int(-1), int(2)]);
        assert!(matches!(in_order(&ty, &sorted).unwrap(), Cow::Borrowed(_)));
    }

    /// Before: the type of the elements was walked for each of them: a list of a million short tuples whose type has
    /// 60,000 fields and then a set took a core a minute.
    #[test]
    fn the_type_of_elements_is_walked_once() {
        let set = CqlType::Set { element: Arc::new(CqlType::Int), frozen: true };
        let fields: Vec<CqlType> =
            (0..1_000).map(|_| CqlType::Int).chain(std::iter::once(set)).collect();
        let tuple = CqlType::Tuple(fields.into());
        let ty = CqlType::List { element: Arc::new(tuple), frozen: true };
        let short: Vec<u8> = (-1i32).to_be_bytes().to_vec();
        let value = list(&vec![short; 1_000]);
        let (steps, same) = crate::steps::steps_of(|| in_order(&ty, &value).expect("a list"));
        assert_eq!(same, value);
        assert!(steps < 2_000, "{steps} types were looked at");
    }

    /// Before: what tuples lack, and the digits of decimals, counted for each set of a value from nothing: a list of
    /// thousands of sets took a core seconds.
    #[test]
    fn all_sets_of_a_value_count_together() {
        let tuple = CqlType::Tuple(vec![CqlType::Tinyint; 60_000].into());
        let set = CqlType::Set { element: Arc::new(tuple), frozen: true };
        let ty = CqlType::List { element: Arc::new(set), frozen: true };
        let short: Vec<u8> = (-1i32).to_be_bytes().to_vec();
        let of = |sets: usize| list(&vec![list(&vec![short.clone(); 40]); sets]);
        in_order(&ty, &of(2)).expect("19 MB of nulls");
        let refused = in_order(&ty, &of(1_000)).expect_err("10 GB").to_string();
        assert!(refused.starts_with("the tuples of one collection or IN lack"), "{refused}");
    }

    #[test]
    fn the_last_value_of_a_key_stays() {
        let mut out = Vec::new();
        let (one, two) = (int(1), int(2));
        let entries = [(&two[..], &b"a"[..]), (&one[..], b"b"), (&two[..], b"c")];
        sorted_map(&CqlType::Int, entries.into_iter(), &mut SortCost::default(), &mut out).unwrap();
        let items: Vec<&[u8]> = collection_elements(&out).unwrap().doubled().flatten().collect();
        assert_eq!(items, [&one[..], b"b", &two[..], b"c"]);
    }

    #[test]
    fn a_slice_has_both_its_ends_and_null_is_what_is_empty() {
        let ty = CqlType::Set { element: Arc::new(CqlType::Int), frozen: true };
        let work = ExpressionWork::default();
        let all = list(&[int(-1), int(0), int(3)]);
        let cut = |first: Option<i32>, last: Option<i32>| {
            let (first, last) = (first.map(int), last.map(int));
            slice(&ty, &all, (first.as_deref(), last.as_deref()), &work).unwrap()
        };
        assert_eq!(cut(Some(0), Some(3)), Some(list(&[int(0), int(3)])));
        assert_eq!(cut(None, Some(0)), Some(list(&[int(-1), int(0)])));
        assert_eq!(cut(Some(1), None), Some(list(&[int(3)])));
        assert_eq!(cut(Some(4), None), None);
        assert_eq!(cut(Some(3), Some(0)), None);
        let mut map = Vec::new();
        let (one, two) = (int(1), int(2));
        let entries = [(&one[..], &b"a"[..]), (&two[..], b"b")];
        sorted_map(&CqlType::Int, entries.into_iter(), &mut SortCost::default(), &mut map).unwrap();
        let int_type = || Arc::new(CqlType::Int);
        let ty = CqlType::Map { key: int_type(), value: int_type(), frozen: true };
        let mut last = Vec::new();
        sorted_map(
            &CqlType::Int,
            std::iter::once((&two[..], &b"b"[..])),
            &mut SortCost::default(),
            &mut last,
        )
        .unwrap();
        assert_eq!(slice(&ty, &map, (Some(&two), None), &work).unwrap(), Some(last));
    }

    #[test]
    fn sets_inside_lists_and_tuples_are_sorted_too() {
        let set = CqlType::Set { element: Arc::new(CqlType::Int), frozen: true };
        let ty = CqlType::Tuple([CqlType::List { element: Arc::new(set), frozen: true }].into());
        let inner = |items: &[Vec<u8>]| {
            let mut field = Vec::new();
            put_item(&list(&[list(items)]), &mut field);
            field
        };
        let sent = inner(&[int(2), int(1)]);
        assert_eq!(in_order(&ty, &sent).unwrap().as_ref(), inner(&[int(1), int(2)]));
    }
}
