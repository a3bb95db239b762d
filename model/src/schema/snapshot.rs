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
    keyspace.into_iter().chain(tables_gone).chain(types_gone).chain(types).chain(tables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::KeyspaceOptions;
    use crate::schema::{ColumnKind, Table, TableBuilder, TableId};
    use crate::types::{CqlType, UserType};

    fn table(keyspace: &str, name: &str, id: u128) -> Table {
        TableBuilder::new(keyspace, name, TableId(Uuid::from_u128(id)))
            .partition_key("p", CqlType::Int)
            .and_then(|t| t.regular("v", CqlType::Text))
            .and_then(TableBuilder::build)
            .expect("a sound table")
    }

    fn create(table: Table) -> SchemaChange {
        SchemaChange::CreateTable(Box::new(table))
    }

    fn keyspace(name: &str) -> SchemaChange {
        let (name, options) = (name.to_owned(), KeyspaceOptions::default());
        SchemaChange::CreateKeyspace { name, options }
    }

    fn apply(schema: Schema, change: SchemaChange) -> Schema {
        let number = schema.number + 1;
        let version = Uuid::from_u128(number.into());
        schema.apply(&SchemaEntry { number, version, change }).expect("the change fits")
    }

    fn base() -> Schema {
        let mut base =
            [keyspace("system"), create(table("system", "local", 900)), keyspace("auth")]
                .into_iter()
                .fold(Schema::empty(), apply);
        (base.number, base.version) = (0, Uuid::nil());
        base
    }

    /// Each change of a history with everything in it, and after each the schema is what its snapshot makes.
    #[test]
    fn after_each_change_the_snapshot_makes_the_same_schema() {
        let mut altered = table("ks", "t", 1);
        altered.drop_column("v", 5).expect("a regular column");
        altered.add_column("v", CqlType::Int, ColumnKind::Regular).expect("the name is free");
        let mut local = table("system", "local", 900);
        local.options.comment = "altered".to_owned();
        let user_type = |fields: usize| {
            let fields = (0..fields).map(|n| (format!("f{n}"), CqlType::Int)).collect();
            UserType::new("ks", "u", fields)
        };
        let unused = UserType::new("ks", "unused", vec![("a".to_owned(), CqlType::Blob)]);
        let named = |name: &str| ("ks".to_owned(), name.to_owned());
        let (options, dropped) = (KeyspaceOptions::default(), vec![TableId(Uuid::from_u128(70))]);
        let no_writes = KeyspaceOptions { durable_writes: false, ..options };
        let drop_table = |(keyspace, name)| SchemaChange::DropTable { keyspace, name };
        let drop_type = |(keyspace, name)| SchemaChange::DropType { keyspace, name };
        let history = [
            keyspace("ks"),
            SchemaChange::CreateType(user_type(1)),
            SchemaChange::CreateType(unused),
            create(table("ks", "t", 1)),
            SchemaChange::AlterTable(Box::new(altered)),
            create(table("ks", "gone", 2)),
            drop_table(named("gone")),
            create(table("ks", "gone", 3)),
            drop_table(named("gone")),
            create(table("ks", "back", 3)),
            drop_type(named("unused")),
            SchemaChange::AlterType { definition: user_type(3), tables: Vec::new() },
            SchemaChange::AlterKeyspace { name: "system".to_owned(), options: no_writes },
            SchemaChange::AlterTable(Box::new(local)),
            SchemaChange::DroppedTables { ids: dropped, has_forgotten: true },
            SchemaChange::DropKeyspace { name: "auth".to_owned() },
            SchemaChange::DropKeyspace { name: "ks".to_owned() },
            keyspace("ks"),
        ];
        let (base, changes) = (base(), history.len());
        let mut schema = base.clone();
        for change in history {
            schema = apply(schema, change);
            let entries: Vec<_> = schema.snapshot(&base).expect("a true schema").collect();
            assert!(entries.len() as u64 <= schema.number);
            let numbers: Vec<u64> = entries.iter().map(|entry| entry.number).collect();
            assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
            let again = entries.iter().try_fold(base.clone(), |schema, entry| schema.apply(entry));
            let again = again.expect("what it says fits");
            assert_eq!((again.number, again.version), (schema.number, schema.version));
            assert!(again.keyspaces().eq(schema.keyspaces()), "{again:?} is not {schema:?}");
            assert_eq!(again.dropped, schema.dropped);
            let ids = |schema: &Schema| schema.tables().map(|table| table.id).collect::<Vec<_>>();
            assert!(ids(&again).iter().all(|id| again.table_by_id(*id).is_some()));
        }
        assert_eq!(schema.number, changes as u64);
        assert_eq!(schema.snapshot(&base).expect("a true schema").count(), 5, "what is left of it");
    }

    /// Before: the log of a schema that is the built-in one again was empty, and the next start counted from nothing.
    #[test]
    fn a_schema_that_came_back_to_nothing_keeps_its_number_and_version() {
        let base = base();
        let mut schema = base.clone();
        for change in [keyspace("ks"), SchemaChange::DropKeyspace { name: "ks".to_owned() }] {
            schema = apply(schema, change);
        }
        let entries: Vec<_> = schema.snapshot(&base).expect("a true schema").collect();
        assert_eq!(entries.len(), 1);
        let again = base.apply(&entries[0]).expect("what it says fits");
        assert_eq!((again.number, again.version), (schema.number, schema.version));
        assert_eq!(base.snapshot(&base).expect("a true schema").count(), 0);
    }

    #[test]
    fn more_objects_than_changes_are_refused() {
        let mut schema = apply(base(), keyspace("ks"));
        schema.number = 0;
        assert!(schema.snapshot(&base()).is_err());
    }
}
