//! What makes a table a materialized view of another one: which rows of the base it has, and which columns.
//!
//! ```text
//! CREATE MATERIALIZED VIEW v AS SELECT a, b FROM base WHERE k IS NOT NULL AND a > 3 .. PRIMARY KEY (a, k)
//!                                      columns     base      restrictions
//! ```
//!
//! 1. A column of a view has the id of the base's column whose values it shows. So a rename of the base's column is
//!    one of the view's, and what stands in a cell needs no translation.
//! 2. The key of a view has all columns of the base's key: each row of a view is of one row of the base.
//! 3. A row of the base is in a view if none of the view's key columns is null and all restrictions hold.
//!
//! Not here: how rows of a view are made of those of its base (`engine/src/views.rs`), who may make which view
//! (`cql/src/ddl/view.rs`).

use std::collections::BTreeMap;

use super::{Column, ColumnId, ColumnKind, Keyspace, Schema, Table, TableId, TableParts};
use crate::options::TableOptions;
use crate::read::Operator;
use crate::types::CqlType;
use crate::{Error, Result};

/// Which table a view shows, and what of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewDefinition {
    /// The table whose rows it shows.
    pub base: TableId,
    /// Whether it has all columns of the base, those that are added later, too: `SELECT *`.
    pub include_all: bool,
    /// What WHERE says, in the order written.
    pub restrictions: Vec<ViewRestriction>,
}

/// One relation of the WHERE of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewRestriction {
    /// The column of the base, which is one of the view's key.
    pub column: ColumnId,
    /// What is asked of its value; `None` is `IS NOT NULL`.
    pub test: Option<ViewTest>,
}

/// A comparison with constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewTest {
    /// How it compares.
    pub operator: Operator,
    /// What it compares with: one value, or several for `In`.
    pub values: Vec<Box<[u8]>>,
}

impl ViewRestriction {
    /// Whether a value of this type, which is not null, passes.
    pub fn accepts(&self, ty: &CqlType, value: &[u8]) -> bool {
        self.test.as_ref().is_none_or(|test| test.operator.accepts(ty, value, &test.values))
    }
}

/// The key of a view: columns of its base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewKey {
    /// The columns that choose the partition.
    pub partition: Vec<ColumnId>,
    /// The columns that order the rows, and whether they descend.
    pub clustering: Vec<(ColumnId, bool)>,
}

/// The name, id and options of a view.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewIdentity {
    /// Its id for ever.
    pub id: TableId,
    /// Its name, as stored.
    pub name: String,
    /// What WITH said, and the defaults.
    pub options: TableOptions,
}

impl Table {
    /// A view of `base` with these columns beside those of its key.
    pub fn view_of(
        base: &Table,
        identity: ViewIdentity,
        key: &ViewKey,
        selected: &[ColumnId],
        definition: ViewDefinition,
    ) -> Result<Table> {
        let ViewIdentity { id, name, options } = identity;
        let mut columns = Vec::new();
        let mut take = |id: ColumnId, kind, position: usize, descending| {
            let missing = || Error::invalid(format!("the base has no column {}", id.0));
            let of_base = base.column_by_id(id).ok_or_else(missing)?;
            let position =
                u16::try_from(position).map_err(|_| Error::invalid("too many columns"))?;
            columns.push(Column { kind, position, descending, ..of_base.clone() });
            Ok::<(), Error>(())
        };
        for (position, id) in key.partition.iter().enumerate() {
            take(*id, ColumnKind::PartitionKey, position, false)?;
        }
        for (position, (id, descending)) in key.clustering.iter().enumerate() {
            take(*id, ColumnKind::Clustering, position, *descending)?;
        }
        for id in selected {
            take(*id, ColumnKind::Regular, 0, false)?;
        }
        Table::of_parts(TableParts {
            id,
            keyspace: base.keyspace.clone(),
            name,
            options,
            dropped: Vec::new(),
            columns,
            next_column: base.next_column(),
            compact: None,
            indexes: Vec::new(),
            next_index: 0,
            view: Some(definition),
        })
    }

    /// The view as it has to be now that its base is this: names are those of the base, and of one with all columns
    /// they are all there.
    pub fn following(&self, base: &Table) -> Result<Table> {
        let definition = self.view().expect("it is a view").clone();
        let ids = |columns: &[Column]| columns.iter().map(|column| column.id).collect::<Vec<_>>();
        let clustering = self.clustering().iter().map(|column| (column.id, column.descending));
        let key =
            ViewKey { partition: ids(self.partition_key()), clustering: clustering.collect() };
        let mut selected = ids(self.value_columns());
        if definition.include_all {
            let is_new = |column: &&Column| self.column_by_id(column.id).is_none();
            selected.extend(base.regulars().filter(is_new).map(|column| column.id));
        }
        let (id, name, options) = (self.id, self.name.clone(), self.options.clone());
        Table::view_of(base, ViewIdentity { id, name, options }, &key, &selected, definition)
    }
}

impl Schema {
    /// The views of a table, by name.
    pub fn views_of<'s>(&'s self, base: &Table) -> impl Iterator<Item = &'s std::sync::Arc<Table>> {
        let id = base.id;
        let keyspace = self.keyspace(&base.keyspace);
        let tables = keyspace.into_iter().flat_map(|keyspace| keyspace.tables.values());
        tables.filter(move |table| table.view().is_some_and(|view| view.base == id))
    }
}

impl Keyspace {
    /// The materialized views of each table that has some, found in one walk over all tables.
    pub fn views_by_base(&self) -> BTreeMap<TableId, Vec<&Table>> {
        let mut views: BTreeMap<TableId, Vec<&Table>> = BTreeMap::new();
        for table in self.tables.values() {
            if let Some(view) = table.view() {
                views.entry(view.base).or_default().push(table);
            }
        }
        views
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::schema::TableBuilder;
    use crate::steps::steps_of;

    fn base() -> Table {
        TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)))
            .partition_key("k", CqlType::Int)
            .and_then(|t| t.clustering("c", CqlType::Int, true))
            .and_then(|t| t.regular("a", CqlType::Int))
            .and_then(|t| t.regular("b", CqlType::Text))
            .and_then(TableBuilder::build)
            .expect("a sound table")
    }

    #[test]
    fn a_view_follows_the_names_and_the_columns_of_its_base() {
        let base = base();
        let id = |name: &str| base.column(name).expect("it is there").id;
        let definition =
            ViewDefinition { base: base.id, include_all: true, restrictions: Vec::new() };
        let key = ViewKey {
            partition: vec![id("a")],
            clustering: vec![(id("k"), false), (id("c"), true)],
        };
        let identity = ViewIdentity {
            id: TableId(Uuid::from_u128(2)),
            name: "v".into(),
            options: TableOptions::default(),
        };
        let view = Table::view_of(&base, identity, &key, &[id("b")], definition).expect("a view");
        let names = |table: &Table| {
            table.columns().iter().map(|column| column.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&view), ["a", "k", "c", "b"]);
        assert_eq!(view.following(&base), Ok(view.clone()));
        let mut changed = base.clone();
        changed.rename_column("k", "key").expect("a key column");
        changed.add_column("aa", CqlType::Int, ColumnKind::Regular).expect("a free name");
        let view = view.following(&changed).expect("a view");
        assert_eq!(names(&view), ["a", "key", "c", "aa", "b"]);
        for column in view.columns() {
            assert_eq!(
                changed.column_by_id(column.id).expect("an id of the base").name,
                column.name
            );
        }
        assert!(view.clustering()[1].descending);
    }

    /// Before: each column of a view was sought among those of its base, and each of the base among those of the view.
    #[test]
    fn a_view_of_many_columns_follows_its_base_in_few_steps() {
        const COLUMNS: usize = 1_000;
        let mut base = base();
        let id = |name: &str| base.column(name).expect("it is there").id;
        let key = ViewKey {
            partition: vec![id("a")],
            clustering: vec![(id("k"), false), (id("c"), true)],
        };
        let definition =
            ViewDefinition { base: base.id, include_all: true, restrictions: Vec::new() };
        let identity = ViewIdentity {
            id: TableId(Uuid::from_u128(2)),
            name: "v".into(),
            options: TableOptions::default(),
        };
        let view = Table::view_of(&base, identity, &key, &[id("b")], definition).expect("a view");
        let names: Vec<String> = (0..COLUMNS).map(|at| format!("v{at}")).collect();
        let added = names.iter().map(|name| (&**name, CqlType::Int, ColumnKind::Regular));
        base.add_columns(added).expect("the names are free");
        let (steps, view) = steps_of(|| view.following(&base).expect("it follows"));
        assert_eq!(view.columns().len(), base.columns().len());
        let (again, same) = steps_of(|| view.following(&base).expect("it follows"));
        assert_eq!(same, view);
        for steps in [steps, again] {
            assert!((COLUMNS..COLUMNS * 100).contains(&steps), "{steps} comparisons");
        }
    }
}
