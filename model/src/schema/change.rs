//! The changes a schema can go through, as data: what the schema log holds and what is broadcast.
//!
//! A change says the new state of one object, not how it was asked for, so applying the log again
//! gives the same schema.
//!
//! 1. `advance` changes a schema in place, entry after entry: for a log that is replayed. `apply` does it to a copy.
//! 2. What contradicts the schema is refused: a second table of a name, a keyspace that is not there, another id of a
//!    table that is altered.
//! 3. A table that goes is remembered by its id, so that its old rows in logs and files are never taken for those of
//!    another (`dropped_tables.rs`).
//! 4. A user type that changes is replaced in the types, functions and aggregates of its keyspace; tables that hold it
//!    come with the change.
//!
//! Invariant: the map of tables by id and the tables of the keyspaces are the same tables.
//!
//! Not here: which changes a statement may make (`cql/src/ddl.rs`), their bytes (`log.rs`), who orders them and follows
//! them (`shard/src/schema.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::table::check_name;
use super::{FunctionKey, Keyspace, Schema, Table, TableId, UserAggregate, UserFunction};
use crate::options::KeyspaceOptions;
use crate::types::{Redefined, UserType};
use crate::{Error, Result};

/// One step from a schema to the next.
#[derive(Clone, Debug, PartialEq)]
pub enum SchemaChange {
    /// A keyspace is made.
    CreateKeyspace {
        /// Name of the object.
        name: String,
        /// What follows WITH, after the change.
        options: KeyspaceOptions,
    },
    /// ALTER KEYSPACE: the new properties.
    AlterKeyspace {
        /// Name of the object.
        name: String,
        /// What follows WITH, after the change.
        options: KeyspaceOptions,
    },
    /// DROP KEYSPACE, with all its tables.
    DropKeyspace {
        /// Name of the object.
        name: String,
    },
    /// A table is made.
    CreateTable(Box<Table>),
    /// ALTER TABLE: the table as it now is, same id.
    AlterTable(Box<Table>),
    /// ALTER TABLE of one with views: the table and its views as they now are, same ids.
    AlterTables(Vec<Table>),
    /// A table goes, with its data.
    DropTable {
        /// Name of the keyspace.
        keyspace: String,
        /// Name of the object.
        name: String,
    },
    /// A user type is made.
    CreateType(UserType),
    /// ALTER TYPE: the type as it now is, with the tables that use it.
    AlterType {
        /// The type as it is after the change.
        definition: UserType,
        /// Tables whose columns hold it, as they now are.
        tables: Vec<Table>,
    },
    /// A user type goes.
    DropType {
        /// Name of the keyspace.
        keyspace: String,
        /// Name of the object.
        name: String,
    },
    /// A function is made, or one of this key becomes this one.
    PutFunction(Box<UserFunction>),
    /// A function goes.
    DropFunction {
        /// Name of the keyspace.
        keyspace: String,
        /// Name of the object, and the types of its arguments.
        key: FunctionKey,
    },
    /// An aggregate is made, or one of this key becomes this one.
    PutAggregate(Box<UserAggregate>),
    /// An aggregate goes.
    DropAggregate {
        /// Name of the keyspace.
        keyspace: String,
        /// Name of the object, and the types of its arguments.
        key: FunctionKey,
    },
    /// These tables were dropped before, in this order: part of a snapshot, where nothing else is left of them.
    DroppedTables {
        /// Their ids, oldest first.
        ids: Vec<TableId>,
        /// Older ones were dropped whose ids are not known any more.
        has_forgotten: bool,
    },
}

/// A change with the version it leads to: one record of the schema log.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaEntry {
    /// One more than the entry before.
    pub number: u64,
    /// What drivers will compare.
    pub version: Uuid,
    /// What the entry changes.
    pub change: SchemaChange,
}

impl Schema {
    /// The schema that these changes make one after the other, from nothing; the version of each is its number, from 1.
    pub fn of_changes(changes: impl IntoIterator<Item = SchemaChange>) -> Result<Schema> {
        let mut schema = Schema::empty();
        for (change, number) in changes.into_iter().zip(1..) {
            let version = Uuid::from_u128(number.into());
            schema.advance(&SchemaEntry { number, version, change })?;
        }
        Ok(schema)
    }

    /// The schema after `entry`; refuses what contradicts this one.
    pub fn apply(&self, entry: &SchemaEntry) -> Result<Schema> {
        let mut next = self.clone();
        next.advance(entry)?;
        Ok(next)
    }

    /// Becomes the schema after `entry`: what many entries make of a schema costs each entry once, and no copy of all
    /// tables for each. After an error this is neither the one schema nor the other.
    pub fn advance(&mut self, entry: &SchemaEntry) -> Result<()> {
        let next = self;
        next.number = entry.number;
        next.version = entry.version;
        match &entry.change {
            SchemaChange::CreateKeyspace { name, options } => {
                check_name("Keyspace", name)?;
                if next.keyspaces.contains_key(name) {
                    let (keyspace, table) = (name.clone(), String::new());
                    return Err(Error::AlreadyExists { keyspace, table });
                }
                let keyspace = Keyspace {
                    name: name.clone(),
                    options: options.clone(),
                    tables: BTreeMap::new(),
                    types: BTreeMap::new(),
                    functions: BTreeMap::new(),
                    aggregates: BTreeMap::new(),
                };
                next.keyspaces.insert(name.clone(), Arc::new(keyspace));
            }
            SchemaChange::AlterKeyspace { name, options } => {
                let keyspace = next.keyspace_mut(name)?;
                keyspace.options = options.clone();
            }
            SchemaChange::DropKeyspace { name } => {
                let keyspace = next.keyspaces.remove(name).ok_or_else(|| no_keyspace(name))?;
                keyspace.tables.values().for_each(|table| next.forget_table(table.id));
            }
            SchemaChange::CreateTable(table) => next.create_table(table)?,
            SchemaChange::AlterTable(table) => next.put_table(table)?,
            SchemaChange::AlterTables(tables) => {
                tables.iter().try_for_each(|table| next.put_table(table))?;
            }
            SchemaChange::DropTable { keyspace, name } => {
                let table = next.keyspace_mut(keyspace)?.tables.remove(name);
                let table = table.ok_or_else(|| no_table(keyspace, name))?;
                next.forget_table(table.id);
            }
            SchemaChange::CreateType(definition) => {
                let keyspace = next.keyspace_mut(&definition.keyspace)?;
                if keyspace.types.contains_key(&definition.name) {
                    return Err(Error::invalid(format!(
                        "A user type with name '{}' already exists",
                        definition.name
                    )));
                }
                keyspace.types.insert(definition.name.clone(), Arc::new(definition.clone()));
            }
            SchemaChange::AlterType { definition, tables } => {
                next.keyspace_mut(&definition.keyspace)?.replace_type(definition);
                tables.iter().try_for_each(|table| next.put_table(table))?;
            }
            SchemaChange::DropType { keyspace, name } => {
                if next.keyspace_mut(keyspace)?.types.remove(name).is_none() {
                    return Err(Error::invalid(format!("Type '{keyspace}.{name}' doesn't exist")));
                }
            }
            SchemaChange::PutFunction(_)
            | SchemaChange::DropFunction { .. }
            | SchemaChange::PutAggregate(_)
            | SchemaChange::DropAggregate { .. } => next.change_functions(&entry.change)?,
            SchemaChange::DroppedTables { ids, has_forgotten } => {
                ids.iter().for_each(|id| next.dropped.add(*id));
                if *has_forgotten {
                    next.dropped.forget_some();
                }
            }
        }
        Ok(())
    }

    /// Makes or drops a function or an aggregate.
    fn change_functions(&mut self, change: &SchemaChange) -> Result<()> {
        match change {
            SchemaChange::PutFunction(function) => {
                let keyspace = self.keyspace_mut(&function.keyspace)?;
                keyspace.functions.insert(function.key(), Arc::new((**function).clone()));
            }
            SchemaChange::DropFunction { keyspace, key } => {
                let gone = self.keyspace_mut(keyspace)?.functions.remove(key);
                gone.ok_or_else(|| no_function("Function", keyspace, key))?;
            }
            SchemaChange::PutAggregate(aggregate) => {
                let keyspace = self.keyspace_mut(&aggregate.keyspace)?;
                keyspace.aggregates.insert(aggregate.key(), Arc::new((**aggregate).clone()));
            }
            SchemaChange::DropAggregate { keyspace, key } => {
                let gone = self.keyspace_mut(keyspace)?.aggregates.remove(key);
                gone.ok_or_else(|| no_function("Aggregate", keyspace, key))?;
            }
            _ => unreachable!("the caller has looked"),
        }
        Ok(())
    }

    fn keyspace_mut(&mut self, name: &str) -> Result<&mut Keyspace> {
        self.keyspaces.get_mut(name).map(Arc::make_mut).ok_or_else(|| no_keyspace(name))
    }

    fn create_table(&mut self, table: &Table) -> Result<()> {
        if self.table(&table.keyspace, &table.name).is_some() {
            let (keyspace, table) = (table.keyspace.clone(), table.name.clone());
            return Err(Error::AlreadyExists { keyspace, table });
        }
        // One that a snapshot brings back: what logs still hold of it has been forgotten.
        self.dropped.remove(table.id);
        self.insert_table(table)
    }

    fn forget_table(&mut self, id: TableId) {
        self.tables.remove(&id);
        self.dropped.add(id);
    }

    fn put_table(&mut self, table: &Table) -> Result<()> {
        match self.table(&table.keyspace, &table.name) {
            Some(old) if old.id == table.id => self.insert_table(table),
            _ => Err(no_table(&table.keyspace, &table.name)),
        }
    }

    fn insert_table(&mut self, table: &Table) -> Result<()> {
        let shared = Arc::new(table.clone());
        let keyspace = self.keyspace_mut(&table.keyspace)?;
        keyspace.tables.insert(table.name.clone(), shared.clone());
        self.tables.insert(table.id, shared);
        Ok(())
    }
}

impl Keyspace {
    /// Gives a type, and what is made of it, another definition; tables come with the change.
    fn replace_type(&mut self, definition: &UserType) {
        let shared = Arc::new(definition.clone());
        let new = Redefined::new(shared.clone());
        for other in self.types.values_mut() {
            *other = new.definition(other);
        }
        // The others stay what they are: whether statements that call them are as they were is seen without a look at
        // their bodies.
        let name = &*definition.name;
        for function in self.functions.values_mut().filter(|one| one.mentions(name)) {
            *function = Arc::new(function.with_user_type(&shared));
        }
        for aggregate in self.aggregates.values_mut().filter(|one| one.mentions(name)) {
            *aggregate = Arc::new(aggregate.with_user_type(&shared));
        }
        self.types.insert(definition.name.clone(), shared);
    }
}

#[cold]
fn no_keyspace(name: &str) -> Error {
    Error::invalid(format!("Keyspace '{name}' doesn't exist"))
}

#[cold]
fn no_table(keyspace: &str, name: &str) -> Error {
    Error::invalid(format!("Table '{keyspace}.{name}' doesn't exist"))
}

#[cold]
fn no_function(what: &str, keyspace: &str, key: &FunctionKey) -> Error {
    let arguments = key.arguments.join(", ");
    Error::invalid(format!("{what} '{keyspace}.{}({arguments})' doesn't exist", key.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{ColumnKind, TableBuilder};
    use crate::types::CqlType;

    fn table() -> Table {
        TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)))
            .partition_key("p", CqlType::Int)
            .and_then(|t| t.clustering("c", CqlType::Text, true))
            .and_then(|t| t.regular("v", CqlType::Text))
            .and_then(|t| t.regular("a", CqlType::Text))
            .and_then(TableBuilder::build)
            .expect("a sound table")
    }

    fn entry(number: u64, change: SchemaChange) -> SchemaEntry {
        SchemaEntry { number, version: Uuid::from_u128(u128::from(number)), change }
    }

    #[test]
    fn a_column_added_again_as_something_else_gets_another_id() {
        let mut t = table();
        let old = t.column("v").expect("it is there").id;
        t.drop_column("v", 5).expect("a regular column");
        t.add_column("v", CqlType::Int, ColumnKind::Regular).expect("the name is free");
        assert_ne!(t.column("v").expect("it is there").id, old);
        let names: Vec<_> = t.columns().iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["p", "c", "a", "v"]);
    }

    /// Before: each entry of a log copied all tables of its keyspace: a start with 10,000 of them took a minute.
    #[test]
    fn an_entry_of_a_log_does_not_copy_the_tables_before_it() {
        let keyspace =
            SchemaChange::CreateKeyspace { name: "ks".into(), options: KeyspaceOptions::default() };
        let mut schema = Schema::empty();
        schema.advance(&entry(1, keyspace)).expect("a new keyspace");
        let before = Arc::as_ptr(schema.keyspace("ks").expect("it is there"));
        schema.advance(&entry(2, SchemaChange::CreateTable(Box::new(table())))).expect("fits");
        let keyspace = schema.keyspace("ks").expect("it is there");
        assert_eq!((Arc::as_ptr(keyspace), keyspace.tables.len(), schema.number), (before, 1, 2));
    }

    #[test]
    fn a_schema_is_what_its_log_says() {
        let create =
            SchemaChange::CreateKeyspace { name: "ks".into(), options: KeyspaceOptions::default() };
        let one = Schema::empty().apply(&entry(1, create.clone())).expect("a new keyspace");
        assert!(matches!(one.apply(&entry(2, create)), Err(Error::AlreadyExists { .. })));
        let create = SchemaChange::CreateTable(Box::new(table()));
        let two = one.apply(&entry(2, create.clone())).expect("a new table");
        assert!(two.table_by_id(table().id).is_some());
        assert!(matches!(two.apply(&entry(3, create)), Err(Error::AlreadyExists { .. })));
        let drop = SchemaChange::DropKeyspace { name: "ks".into() };
        let three = two.apply(&entry(3, drop)).expect("it is there");
        assert!(three.table_by_id(table().id).is_none() && three.tables().next().is_none());
        assert!(two.table("ks", "t").is_some(), "the old version stays what it was");
        let dropped = |schema: &Schema| schema.dropped_tables().contains(table().id);
        assert!(dropped(&three) && !dropped(&two));
    }
}
