//! A user type: what CREATE TYPE defines.
//!
//! Its fields have an order by name beside their own, made when a field of a type with many is first looked for: a
//! statement may name each of them.
//!
//! Invariant: `by_name` is the order of `fields` as they are now. A clone begins without it: change the fields of a
//! clone, before `field` is called on it.

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
    by_name: ByName,
}

/// The indexes of fields in the order of their names, once it was asked for.
#[derive(Debug, Default)]
struct ByName(OnceLock<Box<[u32]>>);

/// Of the copy's fields, which may be changed.
impl Clone for ByName {
    fn clone(&self) -> ByName {
        ByName::default()
    }
}

/// It says nothing that the fields do not say.
impl PartialEq for ByName {
    fn eq(&self, _: &ByName) -> bool {
        true
    }
}

impl Eq for ByName {}

impl Hash for ByName {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// What stands in the place of a user type, if something does.
pub(super) type NewUserType<'n> = &'n dyn Fn(&UserType) -> Option<Arc<UserType>>;

impl UserType {
    /// A new type of these fields.
    pub fn new(keyspace: &str, name: &str, fields: Vec<(String, CqlType)>) -> UserType {
        let (keyspace, name, by_name) = (keyspace.to_owned(), name.to_owned(), ByName::default());
        UserType { keyspace, name, fields, ended: true, by_name }
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

    /// This type with the new definition of another user type wherever its fields hold it.
    #[must_use]
    pub fn with_user_type(&self, new: &Arc<UserType>) -> UserType {
        self.with_user_types(&|known| new.replaces(known))
    }

    /// The new definition, if it is one of `known`.
    pub(super) fn replaces(self: &Arc<UserType>, known: &UserType) -> Option<Arc<UserType>> {
        let is_it = known.name == self.name && known.keyspace == self.keyspace;
        is_it.then(|| self.clone())
    }

    pub(super) fn with_user_types(&self, new: NewUserType<'_>) -> UserType {
        let field = |(name, ty): &(String, CqlType)| (name.clone(), ty.with_user_types(new));
        UserType { fields: self.fields.iter().map(field).collect(), ..self.clone() }
    }
}

fn by_name(fields: &[(String, CqlType)]) -> Box<[u32]> {
    let mut order: Box<[u32]> = (0..fields.len() as u32).collect();
    order.sort_unstable_by_key(|index| fields[*index as usize].0.as_str());
    order
}

#[cfg(test)]
mod tests {
    use super::*;

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
        }
    }
}
