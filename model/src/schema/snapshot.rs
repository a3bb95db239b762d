//! A schema as the fewest changes that make it: what its log is shortened to.
//!
//! ```text
//! entries 1 … 90 000 ──► schema ──► snapshot: entries 89 996 … 90 000 ──► the same schema
//! ```
//!
//! 1. The last entry has the number and the version of the schema, so the log goes on where it was.
//! 2. A change that makes a table or a type says all that it is, its dropped columns included; changes of what went
//!    again are left out. The ids of dropped tables are kept.
//! 3. The changes are made to the built-in tables (`base`), as those of the log are.
//!
//! Not here: when a log is shortened (`shard`), its file (`engine`).

use std::sync::Arc;

use uuid::Uuid;

use super::{Keyspace, Schema, SchemaChange, SchemaEntry};
use crate::{Error, Result};

impl Schema {
    /// The entries that make this schema of `base`. `Invalid`: they are more than the changes that made it.
    pub fn snapshot<'s>(
        &'s self,
        base: &'s Schema,
    ) -> Result<impl Iterator<Item = SchemaEntry> + 's> {
        let count = self.changes_since(base).count() as u64;
        let Some(before) = self.number.checked_sub(count) else {
            let number = self.number;
            return Err(Error::invalid(format!("{count} objects were made by {number} changes")));
        };
        let entry = move |(number, change)| {
            let is_last = number == self.number;
            let version = if is_last { self.version } else { Uuid::nil() };
            SchemaEntry { number, version, change }
        };
        Ok((before + 1..).zip(self.changes_since(base)).map(entry))
    }

    /// The changes from `base` to this schema, each when it is asked for: one at least if there were any, since the
    /// last entry says how many there were.
    fn changes_since<'s>(&'s self, base: &'s Schema) -> impl Iterator<Item = SchemaChange> + 's {
        let gone = base.keyspaces().filter(|old| self.keyspace(&old.name).is_none());
        let gone = gone.map(|old| SchemaChange::DropKeyspace { name: old.name.clone() });
        let changed = self.keyspaces().flat_map(|new| {
            let old = base.keyspace(&new.name);
            let is_same = old.is_some_and(|old| Arc::ptr_eq(old, new) || old == new);
            (!is_same).then(|| changes_of_keyspace(old, new)).into_iter().flatten()
        });
        let dropped = || SchemaChange::DroppedTables {
            ids: self.dropped.ids().collect(),
            has_forgotten: self.dropped.has_forgotten(),
        };
        let others = gone.chain(changed);
        let mut last = (self.dropped != base.dropped).then(dropped);
        let (mut is_empty, mut others) = (self.number > base.number && last.is_none(), others);
        std::iter::from_fn(move || {
            let next = others.next().or_else(|| last.take());
            let next = next.or_else(|| is_empty.then(dropped));
            is_empty = false;
            next
        })
    }
}

fn changes_of_keyspace<'s>(
    old: Option<&'s Arc<Keyspace>>,
    new: &'s Keyspace,
) -> impl Iterator<Item = SchemaChange> + 's {
    let (name, options) = (new.name.clone(), new.options.clone());
    let keyspace = match old {
        None => Some(SchemaChange::CreateKeyspace { name, options }),
        Some(old) if old.options != new.options => {
            Some(SchemaChange::AlterKeyspace { name, options })
        }
        Some(_) => None,
    };
    let drop_table = move |name: &String| {
        let gone = !new.tables.contains_key(name);
        gone.then(|| SchemaChange::DropTable { keyspace: new.name.clone(), name: name.clone() })
    };
    let drop_type = move |name: &String| {
        let gone = !new.types.contains_key(name);
        gone.then(|| SchemaChange::DropType { keyspace: new.name.clone(), name: name.clone() })
    };
    let tables_gone = old.into_iter().flat_map(|old| old.tables.keys()).filter_map(drop_table);
    let types_gone = old.into_iter().flat_map(|old| old.types.keys()).filter_map(drop_type);
    let types = new.types.iter().filter_map(move |(name, ty)| {
        match old.and_then(|old| old.types.get(name)) {
            None => Some(SchemaChange::CreateType((**ty).clone())),
            Some(old) if old == ty => None,
            Some(_) => {
                let definition = (**ty).clone();
                Some(SchemaChange::AlterType { definition, tables: Vec::new() })
            }
        }
    });
    let tables = new.tables.iter().filter_map(move |(name, table)| {
        match old.and_then(|old| old.tables.get(name)) {
            Some(old) if old == table => None,
            Some(old) if old.id == table.id => {
                Some(SchemaChange::AlterTable(Box::new((**table).clone())))
            }
            _ => Some(SchemaChange::CreateTable(Box::new((**table).clone()))),
        }
    });
    let functions = changes_of_functions(old, new);
    let tables = types.chain(functions).chain(tables);
    keyspace.into_iter().chain(tables_gone).chain(types_gone).chain(tables)
}

fn changes_of_functions<'s>(
    old: Option<&'s Arc<Keyspace>>,
    new: &'s Keyspace,
) -> impl Iterator<Item = SchemaChange> + 's {
    let keyspace = || new.name.clone();
    let functions = old.into_iter().flat_map(|old| old.functions.keys());
    let functions_gone = functions
        .filter(|key| !new.functions.contains_key(key))
        .map(move |key| SchemaChange::DropFunction { keyspace: keyspace(), key: key.clone() });
    let aggregates = old.into_iter().flat_map(|old| old.aggregates.keys());
    let aggregates_gone = aggregates
        .filter(|key| !new.aggregates.contains_key(key))
        .map(move |key| SchemaChange::DropAggregate { keyspace: keyspace(), key: key.clone() });
    let functions = new.functions.iter().filter(move |(key, function)| {
        old.and_then(|old| old.functions.get(key)) != Some(*function)
    });
    let functions =
        functions.map(|(_, function)| SchemaChange::PutFunction(Box::new((**function).clone())));
    let aggregates = new.aggregates.iter().filter(move |(key, aggregate)| {
        old.and_then(|old| old.aggregates.get(key)) != Some(*aggregate)
    });
    let aggregates = aggregates
        .map(|(_, aggregate)| SchemaChange::PutAggregate(Box::new((**aggregate).clone())));
    aggregates_gone.chain(functions_gone).chain(functions).chain(aggregates)
}

#[cfg(test)]
mod tests;
