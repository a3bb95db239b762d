//! A user type: what CREATE TYPE defines.
//!
//! 1. Its fields have an order by name beside their own, made when a field of a type with many is first looked for: a
//!    statement may name each of them.
//! 2. It keeps what it takes of the limits of types, and of memory, once that was counted: it may have tens of
//!    thousands of fields, and stand in each of thousands of columns or values of a statement.
//! 3. When a type is altered, [`Redefined`] makes the types anew that hold it.
//!
//! Invariant: what is kept follows from `fields` as they are now. A clone begins without it: change the fields of a
//! clone, before anything is asked of it.
//!
//! Not here: which fields a type may have (`cql`), the limits of types (`types.rs`).

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use super::CqlType;

/// Up to so many fields, going through all of them is as fast as a binary search.
const FIELDS_FEW: usize = 16;

/// What CREATE TYPE defines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserType {
    /// Where it lives.
    pub keyspace: String,
    /// Its name, as stored.
    pub name: String,
    /// Field names and types in order.
    pub fields: Vec<(String, CqlType)>,
    /// Whether an ordered value says where its fields end, so that fields may be added while keys
    /// hold the type (`ordered.rs`). False only for types made before there was such an end.
    pub ended: bool,
    /// The indexes of fields in the order of their names.
    by_name: Derived<Box<[u32]>>,
    /// Of a type that is within the limits what it takes of them.
    extent: Derived<Extent>,
    /// What a definition has on the heap, in bytes.
    heap_bytes: Derived<usize>,
}

/// What follows from the fields, once it was asked for.
struct Derived<T>(OnceLock<T>);

impl<T> Default for Derived<T> {
    fn default() -> Derived<T> {
        Derived(OnceLock::new())
    }
}

/// Of the copy's fields, which may be changed.
impl<T> Clone for Derived<T> {
    fn clone(&self) -> Derived<T> {
        Derived::default()
    }
}

/// Equal types are shown alike, whatever was asked of them.
impl<T> fmt::Debug for Derived<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

/// It says nothing that the fields do not say.
impl<T> PartialEq for Derived<T> {
    fn eq(&self, _: &Derived<T>) -> bool {
        true
    }
}

impl<T> Eq for Derived<T> {}

impl<T> Hash for Derived<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// What a type takes of the limits of types, all that is in it included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Levels of nesting.
    pub(super) levels: u32,
    /// Bytes of the description.
    pub(super) bytes: usize,
}

/// What stands in the place of a user type, if something does.
pub(super) type NewUserType<'n> = &'n dyn Fn(&Arc<UserType>) -> Option<Arc<UserType>>;

/// The new definition of a user type, and those of the types that hold it: each is made once for all that hold those.
#[derive(Debug)]
pub struct Redefined {
    new: Arc<UserType>,
    /// By name a type as it was, and as it is now.
    made: RefCell<HashMap<String, [Arc<UserType>; 2]>>,
}

impl Redefined {
    /// With this definition of a type.
    pub fn new(definition: Arc<UserType>) -> Redefined {
        Redefined { new: definition, made: RefCell::default() }
    }

    /// The name of the type that is defined anew.
    pub fn name(&self) -> &str {
        &self.new.name
    }

    /// What a type with the old definition in it becomes.
    pub fn of(&self, ty: &CqlType) -> CqlType {
        ty.with_user_types(&|known| Some(self.definition(known)))
    }

    /// What a user type becomes; one that does not hold the type stays what it is.
    pub fn definition(&self, known: &Arc<UserType>) -> Arc<UserType> {
        if let Some(new) = self.new.replaces(known) {
            return new;
        }
        if let Some([before, made]) = self.made.borrow().get(&known.name)
            && before == known
        {
            return made.clone();
        }
        let holds_it = known.fields.iter().any(|(_, ty)| ty.mentions(&self.new.name));
        let made = match holds_it {
            true => Arc::new(known.with_user_types(&|inner| Some(self.definition(inner)))),
            false => known.clone(),
        };
        self.made.borrow_mut().insert(known.name.clone(), [known.clone(), made.clone()]);
        made
    }
}

impl UserType {
    /// A new type of these fields.
    pub fn new(keyspace: &str, name: &str, fields: Vec<(String, CqlType)>) -> UserType {
        UserType {
            keyspace: keyspace.to_owned(),
            name: name.to_owned(),
            fields,
            ended: true,
            by_name: Derived::default(),
            extent: Derived::default(),
            heap_bytes: Derived::default(),
        }
    }

    /// The index and the type of the field of this name; `None` if the type has no such field.
    pub fn field(&self, name: &str) -> Option<(usize, &CqlType)> {
        let index = match self.fields.len() {
            ..=FIELDS_FEW => self.fields.iter().position(|(field, _)| field == name)?,
            _ => {
                let by_name = self.by_name.0.get_or_init(|| by_name(&self.fields));
                let name_of = |index: &u32| self.fields[*index as usize].0.as_str();
                by_name[by_name.binary_search_by_key(&name, name_of).ok()?] as usize
            }
        };
        Some((index, &self.fields[index].1))
    }

    /// What the order by name takes on the heap, in bytes, once it is made.
    pub(crate) fn by_name_bytes(&self) -> usize {
        if self.fields.len() <= FIELDS_FEW { 0 } else { size_of::<u32>() * self.fields.len() }
    }

    /// What it takes of the limits of types, once it was found to be within them.
    pub(super) fn extent(&self) -> Option<Extent> {
        self.extent.0.get().copied()
    }

    /// Keeps what it takes of the limits of types, which it is within.
    pub(super) fn keep_extent(&self, extent: Extent) {
        self.extent.0.get_or_init(|| extent);
    }

    /// What it has on the heap, in bytes, which is counted once.
    pub(crate) fn heap_bytes(&self, count: impl FnOnce() -> usize) -> usize {
        *self.heap_bytes.0.get_or_init(count)
    }

    /// The new definition, if it is one of `known`.
    pub(super) fn replaces(self: &Arc<UserType>, known: &UserType) -> Option<Arc<UserType>> {
        let is_it = known.name == self.name && known.keyspace == self.keyspace;
        is_it.then(|| self.clone())
    }

    pub(super) fn with_user_types(&self, new: NewUserType<'_>) -> UserType {
        let field = |(name, ty): &(String, CqlType)| (name.clone(), ty.with_user_types(new));
        let fields = self.fields.iter().map(field).collect();
        UserType { ended: self.ended, ..UserType::new(&self.keyspace, &self.name, fields) }
    }
}

fn by_name(fields: &[(String, CqlType)]) -> Box<[u32]> {
    let mut order: Box<[u32]> = (0..fields.len() as u32).collect();
    order.sort_unstable_by_key(|index| fields[*index as usize].0.as_str());
    order
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::schema::{TableBuilder, TableId};
    use crate::steps::steps_of;

    /// Before: each field was looked for among all, and a statement that names 45,000 of them held a core for seconds.
    #[test]
    fn a_field_is_found_among_few_and_many_and_in_a_changed_copy() {
        for count in [1, FIELDS_FEW, FIELDS_FEW + 1, 1000] {
            let name = |n: usize| format!("f{}", n * 7919 % count);
            let fields: Vec<_> = (0..count).map(|n| (name(n), CqlType::Int)).collect();
            let ty = UserType::new("ks", "u", fields);
            for n in 0..count {
                assert_eq!(ty.field(&name(n)).map(|(index, _)| index), Some(n), "{count}");
            }
            assert_eq!(ty.field("nope"), None);
            let mut changed = ty.clone();
            changed.fields[0].0 = "other".to_owned();
            assert_eq!(changed.field("other"), Some((0, &CqlType::Int)), "{count}");
            assert_eq!(changed.field(&name(0)), None, "{count}");
            assert_eq!(ty.field(&name(0)), Some((0, &CqlType::Int)), "{count}");
            assert_eq!(format!("{ty:?}"), format!("{:?}", ty.clone()), "{count}");
        }
    }

    fn wide(name: &str, fields: usize) -> UserType {
        UserType::new("ks", name, (0..fields).map(|n| (format!("f{n}"), CqlType::Int)).collect())
    }

    fn of_definition(definition: &Arc<UserType>) -> CqlType {
        CqlType::Udt { definition: definition.clone(), frozen: true }
    }

    /// Before: each column walked all fields of its type, three times, while a core made the table.
    #[test]
    fn the_fields_of_a_type_are_walked_once_for_all_columns_that_have_it() {
        const FIELDS: usize = 1000;
        let outer = UserType::new(
            "ks",
            "outer",
            vec![("a".to_owned(), of_definition(&wide("inner", FIELDS).into()))],
        );
        let ty = of_definition(&outer.into());
        let (steps, bytes) = steps_of(|| {
            let table = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)));
            let table = table.partition_key("k", CqlType::Int).expect("a key");
            let add = |table: TableBuilder, n| table.regular(&format!("c{n}"), ty.clone());
            let table = (0..200).try_fold(table, add).and_then(TableBuilder::build);
            table.expect("a table").memory_bytes()
        });
        assert!(bytes > 200 * FIELDS * 16, "each column counts: {bytes}");
        assert!((FIELDS..10 * FIELDS).contains(&steps), "{steps} types walked");
    }

    /// What is kept of a type says what walking it would say.
    #[test]
    fn a_type_that_was_walked_is_refused_where_it_would_be() {
        let most = 60;
        for fields in [3, 20_000] {
            for wrap in [
                |ty: CqlType| CqlType::Tuple([ty].into()),
                |ty: CqlType| CqlType::Tuple([ty.clone(), ty].into()),
            ] {
                let types = || {
                    let outer = vec![("a".to_owned(), of_definition(&wide("u", fields).into()))];
                    let outer = of_definition(&UserType::new("ks", "outer", outer).into());
                    std::iter::successors(Some(outer), |ty| Some(wrap(ty.clone())))
                };
                let known = types().next().expect("the first");
                known.check_limits().expect("it is small enough");
                let all = std::iter::successors(Some(known), |ty| Some(wrap(ty.clone())));
                // Each of the others is a type of its own, of which nothing is known.
                let ends = all.take(most).enumerate().map(|(at, ty)| {
                    let fresh = types().nth(at).expect("there is no last one");
                    assert_eq!(ty.check_limits(), fresh.check_limits(), "{fields} fields, {at}");
                    ty.check_limits().is_ok()
                });
                let ends: Vec<bool> = ends.take_while(|is_ok| *is_ok).collect();
                assert!((1..most).contains(&ends.len()), "one is refused: {ends:?}");
            }
        }
    }

    /// Before: each column, and each type, had its own copy of what holds the altered type.
    #[test]
    fn what_holds_an_altered_type_is_made_anew_once() {
        let inner = Arc::new(wide("inner", 2));
        let holder = |name: &str, inner: &Arc<UserType>| {
            Arc::new(UserType::new("ks", name, vec![("a".to_owned(), of_definition(inner))]))
        };
        let (outer, other) = (holder("outer", &inner), Arc::new(wide("other", 2)));
        let new = Redefined::new(Arc::new(wide("inner", 3)));
        let made = |ty: &CqlType| match new.of(ty) {
            CqlType::Udt { definition, .. } => definition,
            CqlType::List { element, .. } => match &*element {
                CqlType::Udt { definition, .. } => definition.clone(),
                ty => panic!("{ty}"),
            },
            ty => panic!("{ty}"),
        };
        let first = made(&of_definition(&outer));
        assert_eq!(*first, *holder("outer", &Arc::new(wide("inner", 3))));
        let list = CqlType::List { element: of_definition(&outer).into(), frozen: false };
        assert!(Arc::ptr_eq(&first, &made(&list)));
        // Read from the log, it is a copy.
        assert!(Arc::ptr_eq(&first, &made(&of_definition(&holder("outer", &inner)))));
        assert!(Arc::ptr_eq(&other, &made(&of_definition(&other))));
        let unlike = holder("outer", &Arc::new(wide("inner", 1)));
        assert_eq!(made(&of_definition(&unlike)), first, "of another past, the same now");
    }
}
