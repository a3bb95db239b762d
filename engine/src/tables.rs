//! The tables of a shard, by their ids, and the tokens that are the shard's.
//!
//! Four lists of the same tables, so that no look goes over all of them: all by id; those that may hold something in
//! memory (flushes); those whose backlog is to be judged (`compaction/backlog.rs`); those that have, or had, an index
//! (the job that makes index files).
//!
//! Invariants
//! 1. The ranges of tokens that the shard owns are not empty and share no token.
//! 2. A table that holds something in memory is in the list for flushes, once. Tables that hold nothing any more leave
//!    the list only in `forget_flushed`.
//! 3. A table keeps its data when its definition changes: `follow` gives the new definition to the same `Table`. A
//!    table that is new in the schema is empty.
//! 4. No borrow of a list is kept across an await.
//!
//! Not here: the memtables and views of one table (`table.rs`), the schema on disk (`layout/schema_log.rs`), how a
//! table that is gone loses its files (`remove.rs`).

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

use hashbrown::HashMap;
use model::token::{Token, TokenRange};
use model::{Schema, TableId};

use crate::compaction::ChangedTables;
use crate::error::{Error, Result};
use crate::table::{Definition, Table};

pub(crate) type TableMap = HashMap<TableId, Rc<Table>, foldhash::fast::FixedState>;

/// All tables of a shard.
#[derive(Debug)]
pub(crate) struct Tables {
    by_id: RefCell<TableMap>,
    /// Those that hold something in memory, each once, and some that did: what looks for flushes does not look at the
    /// others.
    unflushed: RefCell<Vec<(TableId, Rc<Table>)>>,
    /// Those whose backlog is to be judged.
    changed: Rc<ChangedTables>,
    /// Those that have an index, or had one.
    indexed: RefCell<Vec<TableId>>,
    /// Which of them the job has had last.
    last_indexed: Cell<Option<TableId>>,
    owned: Vec<TokenRange>,
}

impl Tables {
    /// These tables of a shard that owns these tokens.
    pub(crate) fn new(by_id: TableMap, owned: Vec<TokenRange>) -> Tables {
        let are_apart = |pair: &[TokenRange]| pair[0].intersection(&pair[1]).is_none();
        assert!(owned.iter().all(|range| !range.is_empty()), "a range holds a token: {owned:?}");
        assert!(owned.windows(2).all(are_apart), "a token is in one range: {owned:?}");
        let (unflushed, changed, indexed, last_indexed) = Default::default();
        let by_id = RefCell::new(by_id);
        let tables = Tables { by_id, unflushed, changed, indexed, last_indexed, owned };
        tables.list_indexed();
        tables.list_changes();
        let held = |table: &Table| !table.layers().is_empty();
        let all = tables.by_id();
        all.iter().filter(|(_, t)| held(t)).for_each(|(id, table)| tables.holds(*id, table));
        drop(all);
        tables
    }

    /// Which of the shard's ranges holds the token.
    #[inline]
    pub(crate) fn range_of(&self, token: Token) -> Option<u32> {
        self.owned.iter().zip(0..).find(|(range, _)| range.contains(token)).map(|(_, index)| index)
    }

    /// The tokens that are the shard's.
    pub(crate) fn owned(&self) -> &[TokenRange] {
        &self.owned
    }

    /// The table of that id; `Invalid` if there is none.
    pub(crate) fn get(&self, id: TableId) -> Result<Rc<Table>> {
        let table = self.by_id.borrow().get(&id).cloned();
        table.ok_or_else(|| no_table(id))
    }

    /// The tables whose backlog is to be judged.
    pub(crate) fn changed(&self) -> &ChangedTables {
        &self.changed
    }

    /// From now on each table is listed when it changes.
    fn list_changes(&self) {
        for (id, table) in self.by_id().iter() {
            table.evaluation.list_in(*id, &self.changed);
        }
    }

    fn list_indexed(&self) {
        let by_id = self.by_id();
        let has_any = |table: &Table| table.definition().next_index() > 0;
        let with = by_id.iter().filter(|(_, table)| has_any(table)).map(|(id, _)| *id);
        let mut indexed: Vec<TableId> = with.collect();
        indexed.sort_unstable();
        *self.indexed.borrow_mut() = indexed;
    }

    /// The tables that have an index, or had one. Not across an await.
    pub(crate) fn indexed(&self) -> Ref<'_, [TableId]> {
        Ref::map(self.indexed.borrow(), Vec::as_slice)
    }

    /// The table whose indexes were made last.
    pub(crate) fn last_indexed(&self) -> Option<TableId> {
        self.last_indexed.get()
    }

    /// The indexes of a table are being made: next come those of others.
    pub(crate) fn note_indexed(&self, table: TableId) {
        self.last_indexed.set(Some(table));
    }

    /// Looks at all of them. Not across an await.
    #[inline]
    pub(crate) fn by_id(&self) -> Ref<'_, TableMap> {
        self.by_id.borrow()
    }

    /// A table holds something in memory now.
    #[inline]
    pub(crate) fn holds(&self, id: TableId, table: &Rc<Table>) {
        if !table.is_listed.replace(true) {
            self.unflushed.borrow_mut().push((id, table.clone()));
        }
    }

    /// The tables that hold something in memory, and maybe some that do not any more. Not across an await.
    pub(crate) fn unflushed(&self) -> Ref<'_, [(TableId, Rc<Table>)]> {
        Ref::map(self.unflushed.borrow(), Vec::as_slice)
    }

    /// Forgets those that hold nothing in memory any more.
    pub(crate) fn forget_flushed(&self) {
        self.unflushed.borrow_mut().retain(|(_, table)| {
            let is_held = !table.layers().is_empty();
            table.is_listed.set(is_held);
            is_held
        });
    }

    /// Follows the schema: new tables are empty. Gives those that are gone.
    pub(crate) fn follow(&self, schema: &Schema) -> Vec<Rc<Table>> {
        let next = tables_of(schema, &self.by_id.borrow());
        let before = self.by_id.replace(next);
        self.list_changes();
        self.list_indexed();
        let tables = self.by_id.borrow();
        before
            .into_iter()
            .filter(|(id, _)| !tables.contains_key(id))
            .map(|(_, table)| table)
            .collect()
    }
}

/// The tables of a schema, each with the data that it had.
pub(crate) fn tables_of(schema: &Schema, before: &TableMap) -> TableMap {
    let mut tables = TableMap::with_capacity_and_hasher(before.len() + 1, Default::default());
    for definition in schema.tables() {
        let table = match before.get(&definition.id) {
            Some(table) => {
                table.set_definition(definition);
                Rc::clone(table)
            }
            None => Rc::new(Table::new(definition)),
        };
        tables.insert(definition.id, table);
    }
    link_views(&tables);
    tables
}

/// Tells each table which of the others are its materialized views.
fn link_views(tables: &TableMap) {
    let mut views: HashMap<TableId, Vec<Rc<Definition>>> = HashMap::new();
    for table in tables.values() {
        let definition = table.definition();
        if let Some(view) = definition.view() {
            views.entry(view.base).or_default().push(definition);
        }
    }
    for (id, table) in tables {
        let mut own = views.remove(id).unwrap_or_default();
        own.sort_unstable_by_key(|view| view.id);
        if table.has_materialized() || !own.is_empty() {
            table.set_materialized(own);
        }
    }
}

/// What is said of a table that is not there.
pub(crate) fn no_table(id: TableId) -> Error {
    Error::invalid(format!("there is no table {id}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::options::KeyspaceOptions;
    use model::schema::{SchemaChange, TableBuilder};
    use model::{CqlType, Schema};
    use uuid::Uuid;

    use super::*;

    fn schema(tables: u128) -> Schema {
        let keyspace =
            SchemaChange::CreateKeyspace { name: "ks".into(), options: KeyspaceOptions::default() };
        let table = |n: u128| {
            let builder = TableBuilder::new("ks", &format!("t{n}"), TableId(Uuid::from_u128(n)));
            let built = builder.partition_key("k", CqlType::Int).and_then(TableBuilder::build);
            SchemaChange::CreateTable(Box::new(built.unwrap()))
        };
        Schema::of_changes([keyspace].into_iter().chain((1..=tables).map(table))).unwrap()
    }

    /// Before: each shard had a copy of each definition, and compared them all at each change of the schema.
    #[test]
    fn definitions_are_the_schemas_own() {
        let two = schema(2);
        let shard = Tables::new(tables_of(&two, &TableMap::default()), Vec::new());
        let definition = |n| shard.get(TableId(Uuid::from_u128(n))).unwrap().definition();
        let kept = definition(1);
        let is_same = |table: &Arc<model::schema::Table>| {
            std::ptr::eq(&**definition(table.id.0.as_u128()), &**table)
        };
        assert!(two.tables().all(is_same));
        assert!(shard.follow(&two.clone()).is_empty());
        assert!(Rc::ptr_eq(&kept, &definition(1)), "what did not change was left alone");
        let three = schema(3);
        assert!(shard.follow(&three).is_empty());
        assert!(three.tables().all(is_same));
        assert_eq!(shard.follow(&schema(1)).len(), 2);
    }
}
