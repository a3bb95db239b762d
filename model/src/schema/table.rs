//! One table: its columns, their ids, its options.
//!
//! ```text
//! TableBuilder ─► Table ─ add, drop, rename a column ─► Table        (a change is made to a copy)
//! schema log ─► TableParts ─► of_parts ─► Table
//! ```
//!
//! Invariants
//! 1. Columns stand in SELECT * order: partition key, clustering, static, regular; the last two by name.
//! 2. A column's id is its own for ever: cells on disk name it. One that was dropped and comes back as what
//!    it was gets its id back, and no other column ever does.
//! 3. There is a partition key, and no id or name is there twice, among the columns that a compact table hides
//!    (`compact.rs`), too.
//!
//! Not here: which statements may do what (`cql/src/ddl/table.rs`), how a table is written down
//! (`log/form.rs`).

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use super::Index;
use super::ViewDefinition;
use crate::limits::{COLUMN_NAME_BYTES_MAX, COLUMNS_MAX, NAME_BYTES_MAX};
use crate::options::TableOptions;
use crate::steps::step;
use crate::types::{CqlType, Redefined};
use crate::{Error, Result};

/// What tells tables apart for as long as their data exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub Uuid);

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a cell says instead of a column's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub u16);

/// The part a column plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ColumnKind {
    /// Decides the partition.
    PartitionKey,
    /// Orders rows in the partition.
    Clustering,
    /// One value a partition.
    Static,
    /// One value a row.
    Regular,
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its id for ever.
    pub id: ColumnId,
    /// Its name, as stored.
    pub name: String,
    /// Type of the column's values.
    pub ty: CqlType,
    /// Which part of the key the column is, or that it is static or regular.
    pub kind: ColumnKind,
    /// Its index among the columns of its kind, for key columns.
    pub position: u16,
    /// Whether rows descend by it.
    pub descending: bool,
}

/// Where no column stands.
const NO_PLACE: u16 = u16::MAX;

/// A column that was, for `system_schema.dropped_columns`.
#[derive(Clone, Debug, PartialEq)]
pub struct DroppedColumn {
    /// What it was.
    pub column: Column,
    /// When it was dropped, in microseconds.
    pub dropped_at: i64,
}

/// One table: its columns and its options.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its id for ever.
    pub id: TableId,
    /// Name of the table's keyspace.
    pub keyspace: String,
    /// Its name, as stored.
    pub name: String,
    /// What WITH said, and the defaults.
    pub options: TableOptions,
    /// Columns that are no more.
    pub dropped: Vec<DroppedColumn>,
    pub(super) columns: Vec<Column>,
    /// The places of the columns, by their names.
    pub(super) by_name: Vec<u16>,
    /// The place of the column of each id, [`NO_PLACE`] if it is none of the columns that are shown.
    pub(super) by_id: Vec<u16>,
    partition_key_count: usize,
    clustering_count: usize,
    pub(super) next_column: u16,
    /// Of a compact table the columns that it has and does not show.
    pub(super) compact: Option<Vec<Column>>,
    /// Its indexes by name.
    pub(super) indexes: Vec<Index>,
    pub(super) next_index: u16,
    /// Of a materialized view what it shows.
    view: Option<Arc<ViewDefinition>>,
}

/// What a table is made of, as the schema log holds it.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields of a table")]
pub struct TableParts {
    pub id: TableId,
    pub keyspace: String,
    pub name: String,
    pub options: TableOptions,
    pub dropped: Vec<DroppedColumn>,
    pub columns: Vec<Column>,
    /// The id that the next column will have.
    pub next_column: u16,
    /// Of a compact table the columns that it does not show.
    pub compact: Option<Vec<Column>>,
    pub indexes: Vec<Index>,
    /// The id that the next index will have.
    pub next_index: u16,
    /// Of a materialized view what it shows.
    pub view: Option<ViewDefinition>,
}

impl Table {
    /// The table of these parts; `Invalid` says what of them no table has.
    pub fn of_parts(parts: TableParts) -> Result<Table> {
        let TableParts { id, keyspace, name, options, dropped, columns, next_column, .. } = parts;
        let (compact, view) = (parts.compact, parts.view);
        let own = || columns.iter().chain(compact.iter().flatten());
        let all = || own().chain(dropped.iter().map(|dropped| &dropped.column));
        for column in all() {
            check_name("Column", &column.name)?;
            column.ty.check_limits()?;
            if column.id.0 >= next_column || usize::from(next_column) > COLUMNS_MAX {
                return Err(Error::invalid(format!("column {} has no id of its own", column.name)));
            }
        }
        // A column that came back is among the dropped ones too.
        let was: Vec<&Column> = dropped.iter().map(|dropped| &dropped.column).collect();
        if repeats(&own().collect::<Vec<_>>()) || repeats(&was) {
            return Err(Error::invalid("two columns have one id or one name"));
        }
        let mut table = TableBuilder::new(&keyspace, &name, id).options(options).table;
        (table.dropped, table.columns, table.next_column) = (dropped, columns, next_column);
        table.compact = compact;
        table.view = view.map(Arc::new);
        table.sort();
        let in_order = |columns: &[Column]| {
            columns.iter().zip(0..).all(|(column, at): (_, u16)| column.position == at)
        };
        if !in_order(table.partition_key()) || !in_order(table.clustering()) {
            return Err(Error::invalid("the positions of key columns leave gaps"));
        }
        table.next_index = parts.next_index;
        table.put_indexes(parts.indexes)?;
        TableBuilder { table }.build()
    }

    /// The id that the next column will have.
    pub fn next_column(&self) -> u16 {
        self.next_column
    }

    /// All columns in SELECT * order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The partition key columns in order.
    pub fn partition_key(&self) -> &[Column] {
        &self.columns[..self.partition_key_count]
    }

    /// The clustering columns in order.
    pub fn clustering(&self) -> &[Column] {
        &self.columns[self.partition_key_count..][..self.clustering_count]
    }

    /// Static columns, then regular ones, each by name.
    pub fn value_columns(&self) -> &[Column] {
        &self.columns[self.partition_key_count + self.clustering_count..]
    }

    /// The static columns by name.
    pub fn statics(&self) -> impl Iterator<Item = &Column> {
        self.value_columns().iter().filter(|column| column.kind == ColumnKind::Static)
    }

    /// The regular columns by name.
    pub fn regulars(&self) -> impl Iterator<Item = &Column> {
        self.value_columns().iter().filter(|column| column.kind == ColumnKind::Regular)
    }

    /// Whether the table has static columns.
    pub fn has_statics(&self) -> bool {
        self.statics().next().is_some()
    }

    /// The column of that name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.column_index(name).map(|index| &self.columns[index])
    }

    /// Where the column of that name stands in [`Table::columns`].
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.find(name).ok().map(|at| usize::from(self.by_name[at]))
    }

    /// The column of that id, shown or not, unless it was dropped.
    pub fn column_by_id(&self, id: ColumnId) -> Option<&Column> {
        step(1);
        let place = self.by_id.get(usize::from(id.0)).copied().unwrap_or(NO_PLACE);
        match self.columns.get(usize::from(place)) {
            Some(column) => Some(column),
            None => self.hidden().iter().find(|column| column.id == id),
        }
    }

    /// Of a materialized view what it shows.
    #[inline]
    pub fn view(&self) -> Option<&ViewDefinition> {
        self.view.as_deref()
    }

    /// Whether this is a table of counters: then all of its columns are, but those of the key.
    #[inline]
    pub fn is_counter(&self) -> bool {
        self.value_columns().first().is_some_and(|column| column.ty == CqlType::Counter)
    }

    /// Adds a static or regular column. One that was dropped and is added as what it was gets its id back.
    pub fn add_column(&mut self, name: &str, ty: CqlType, kind: ColumnKind) -> Result<()> {
        self.add_columns([(name, ty, kind)])
    }

    /// Adds columns as one after the other, of which there may be thousands: if one is refused, those before it are
    /// there.
    pub fn add_columns<'n>(
        &mut self,
        columns: impl IntoIterator<Item = (&'n str, CqlType, ColumnKind)>,
    ) -> Result<()> {
        let dropped = std::mem::take(&mut self.dropped);
        let was: HashMap<&str, &Column> = dropped
            .iter()
            .map(|dropped| {
                step(1);
                (&*dropped.column.name, &dropped.column)
            })
            .collect();
        let added = columns.into_iter().try_for_each(|(name, ty, kind)| {
            let column = self.value_column(name, ty, kind, was.get(name).copied())?;
            self.append(column);
            Ok(())
        });
        self.dropped = dropped;
        self.sort();
        let own: Vec<&Column> = self.columns.iter().chain(self.hidden()).collect();
        assert!(!repeats(&own), "an id belongs to one column");
        added
    }

    /// A static or regular column that is to be added; `was` is the one of its name that was dropped.
    fn value_column(
        &mut self,
        name: &str,
        ty: CqlType,
        kind: ColumnKind,
        was: Option<&Column>,
    ) -> Result<Column> {
        assert!(kind >= ColumnKind::Static, "keys are fixed when a table is made");
        let is_back = |was: &&Column| was.ty == ty && was.kind == kind;
        match was.filter(is_back).filter(|_| self.column(name).is_none()) {
            Some(was) => Ok(was.clone()),
            None => self.new_column(name, ty, kind, 0),
        }
    }

    /// Drops a static or regular column with the cells that are not newer than `dropped_at`, in microseconds.
    /// What an earlier drop of it took stays gone.
    pub fn drop_column(&mut self, name: &str, dropped_at: i64) -> Result<()> {
        self.drop_columns(&BTreeSet::from([name]), dropped_at)
    }

    /// Drops columns as one after the other, of which there may be thousands.
    pub fn drop_columns(&mut self, names: &BTreeSet<&str>, dropped_at: i64) -> Result<()> {
        let is_value =
            |name: &str| self.column(name).is_some_and(|column| column.kind >= ColumnKind::Static);
        if let Some(name) = names.iter().find(|name| !is_value(name)) {
            return Err(Error::invalid(format!("Column {name} was not found in table")));
        }
        let mut earlier: HashMap<ColumnId, i64> = HashMap::new();
        for DroppedColumn { column, dropped_at } in &self.dropped {
            let last = earlier.entry(column.id).or_insert(*dropped_at);
            *last = (*dropped_at).max(*last);
        }
        let columns = std::mem::take(&mut self.columns).into_iter();
        let (mut gone, kept): (Vec<Column>, _) = columns.partition(|column| {
            step(1);
            names.contains(&*column.name)
        });
        self.columns = kept;
        self.index_columns();
        gone.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        self.dropped.retain(|dropped| !names.contains(&*dropped.column.name));
        self.dropped.extend(gone.into_iter().map(|column| {
            let before = earlier.get(&column.id).copied();
            DroppedColumn { dropped_at: dropped_at.max(before.unwrap_or(dropped_at)), column }
        }));
        Ok(())
    }

    /// Renames a primary key column.
    pub fn rename_column(&mut self, from: &str, to: &str) -> Result<()> {
        check_name("Column", to)?;
        if self.has_name(to) {
            return Err(Error::invalid(format!(
                "Cannot rename column {from} to {to} in table {}.{}; another column of that name already exist",
                self.keyspace, self.name
            )));
        }
        let Ok(at) = self.find(from) else {
            let text = format!("Column {from} was not found in table {}", self.name);
            return Err(Error::invalid(text));
        };
        let place = self.by_name[at];
        if self.columns[usize::from(place)].kind > ColumnKind::Clustering {
            return Err(Error::invalid(format!("Cannot rename non PRIMARY KEY column {from}")));
        }
        // Its place among the columns stays: those of the key are in the order of the key.
        self.by_name.remove(at);
        let at = self.find(to).expect_err("the name is free");
        self.by_name.insert(at, place);
        to.clone_into(&mut self.columns[usize::from(place)].name);
        Ok(())
    }

    /// Whether rows or elements of collections are ordered by values with the user type in them.
    pub fn orders_by(&self, user_type: &str) -> bool {
        let in_elements = self.value_columns().iter().any(|column| match &column.ty {
            CqlType::Set { element, frozen: false } => element.mentions(user_type),
            CqlType::Map { key, frozen: false, .. } => key.mentions(user_type),
            _ => false,
        });
        in_elements || self.clustering().iter().any(|column| column.ty.mentions(user_type))
    }

    /// Whether a column, dropped ones too, holds the user type.
    pub fn holds(&self, user_type: &str) -> bool {
        let dropped = self.dropped.iter().map(|dropped| &dropped.column);
        self.columns.iter().chain(dropped).any(|column| column.ty.mentions(user_type))
    }

    /// Gives columns, dropped ones too, the new definition of a user type.
    pub fn replace_user_type(&mut self, new: &Redefined) {
        let dropped = self.dropped.iter_mut().map(|dropped| &mut dropped.column);
        for column in self.columns.iter_mut().chain(dropped) {
            if column.ty.mentions(new.name()) {
                column.ty = new.of(&column.ty);
            }
        }
    }

    pub(super) fn new_column(
        &mut self,
        name: &str,
        ty: CqlType,
        kind: ColumnKind,
        position: u16,
    ) -> Result<Column> {
        check_name("Column", name)?;
        ty.check_limits()?;
        if self.has_name(name) {
            return Err(Error::invalid(format!("Column with name '{name}' already exists")));
        }
        if usize::from(self.next_column) >= COLUMNS_MAX {
            return Err(Error::invalid(format!(
                "a table can have {COLUMNS_MAX} columns over its life, dropped ones included"
            )));
        }
        let id = ColumnId(self.next_column);
        self.next_column += 1;
        Ok(Column { id, name: name.to_owned(), ty, kind, position, descending: false })
    }

    /// Where the name stands among the columns by name, or would.
    fn find(&self, name: &str) -> Result<usize, usize> {
        self.by_name.binary_search_by(|place| {
            step(1);
            self.columns[usize::from(*place)].name.as_str().cmp(name)
        })
    }

    /// Adds a column, whose name is free, behind the others: they are not in order until they are sorted.
    fn append(&mut self, column: Column) {
        let at = self.find(&column.name).expect_err("the name is free");
        let place = self.columns.len().try_into();
        let place = place.expect("a table has fewer columns than there are ids");
        self.by_name.insert(at, place);
        put_place(&mut self.by_id, column.id, place);
        self.columns.push(column);
    }

    /// Finds the places of the columns, which are others now.
    fn index_columns(&mut self) {
        let columns = &self.columns;
        self.by_id.clear();
        for (place, column) in (0..).zip(columns) {
            step(1);
            put_place(&mut self.by_id, column.id, place);
        }
        self.by_name = (0..columns.len() as u16).collect();
        self.by_name.sort_unstable_by_key(|place| {
            step(1);
            columns[usize::from(*place)].name.as_str()
        });
    }

    pub(super) fn sort(&mut self) {
        self.columns.sort_by(|a, b| {
            step(1);
            order(a).cmp(&order(b))
        });
        self.index_columns();
        let count = |kind| self.columns.iter().filter(|column| column.kind == kind).count();
        self.partition_key_count = count(ColumnKind::PartitionKey);
        self.clustering_count = count(ColumnKind::Clustering);
    }
}

/// Says where the column of this id stands.
fn put_place(by_id: &mut Vec<u16>, id: ColumnId, place: u16) {
    let at = usize::from(id.0);
    if by_id.len() <= at {
        by_id.resize(at + 1, NO_PLACE);
    }
    by_id[at] = place;
}

/// What columns are ordered by: those of the key by position, the others by name.
fn order(column: &Column) -> (ColumnKind, u16, &str) {
    let name = if column.kind >= ColumnKind::Static { &*column.name } else { "" };
    (column.kind, column.position, name)
}

/// Whether two of the columns have one id or one name.
fn repeats(columns: &[&Column]) -> bool {
    let ids: BTreeSet<u16> = columns.iter().map(|column| column.id.0).collect();
    let names: BTreeSet<&str> = columns.iter().map(|column| &*column.name).collect();
    ids.len() < columns.len() || names.len() < columns.len()
}

/// Refuses a name that is empty, too long, or could not be part of a file name's directory.
pub(super) fn check_name(what: &str, name: &str) -> Result<()> {
    let bytes_max = if what == "Column" { COLUMN_NAME_BYTES_MAX } else { NAME_BYTES_MAX };
    if name.is_empty() || name.len() > bytes_max {
        return Err(Error::invalid(format!(
            "{what} names shouldn't be empty or more than {bytes_max} bytes long (got \"{name}\")"
        )));
    }
    Ok(())
}

/// Makes a new table column by column, keys first.
#[derive(Debug)]
pub struct TableBuilder {
    table: Table,
}

impl TableBuilder {
    /// A table without columns.
    pub fn new(keyspace: &str, name: &str, id: TableId) -> Self {
        TableBuilder {
            table: Table {
                id,
                keyspace: keyspace.to_owned(),
                name: name.to_owned(),
                options: TableOptions::default(),
                dropped: Vec::new(),
                columns: Vec::new(),
                by_name: Vec::new(),
                by_id: Vec::new(),
                partition_key_count: 0,
                clustering_count: 0,
                next_column: 0,
                compact: None,
                indexes: Vec::new(),
                next_index: 0,
                view: None,
            },
        }
    }

    /// Sets the options.
    #[must_use]
    pub fn options(mut self, options: TableOptions) -> Self {
        self.table.options = options;
        self
    }

    /// Adds the next partition key column.
    pub fn partition_key(self, name: &str, ty: CqlType) -> Result<Self> {
        self.key(name, ty, ColumnKind::PartitionKey, false)
    }

    /// Adds the next clustering column.
    pub fn clustering(self, name: &str, ty: CqlType, descending: bool) -> Result<Self> {
        self.key(name, ty, ColumnKind::Clustering, descending)
    }

    /// Adds a static column.
    pub fn stat(mut self, name: &str, ty: CqlType) -> Result<Self> {
        let column = self.table.new_column(name, ty, ColumnKind::Static, 0)?;
        self.table.append(column);
        Ok(self)
    }

    /// Adds a regular column.
    pub fn regular(mut self, name: &str, ty: CqlType) -> Result<Self> {
        let column = self.table.new_column(name, ty, ColumnKind::Regular, 0)?;
        self.table.append(column);
        Ok(self)
    }

    fn key(mut self, name: &str, ty: CqlType, kind: ColumnKind, descending: bool) -> Result<Self> {
        let position = self.table.columns.iter().filter(|column| column.kind == kind).count();
        let position = u16::try_from(position).map_err(|_| Error::invalid("too many columns"))?;
        let mut column = self.table.new_column(name, ty, kind, position)?;
        column.descending = descending;
        self.table.append(column);
        Ok(self)
    }

    /// Makes it a compact table, once it has all of its columns.
    pub fn compact(mut self) -> Result<Self> {
        self.table.hide_columns()?;
        Ok(self)
    }

    /// Makes it a compact table that hides what `source` hides, once it has the columns that `source` shows. The names
    /// of hidden columns are those that were free when `source` was made: a column that had one may be renamed.
    pub fn compact_like(mut self, source: &Table) -> Result<Self> {
        self.table.hide_columns_of(source)?;
        Ok(self)
    }

    /// The table, if it has a partition key.
    pub fn build(mut self) -> Result<Table> {
        check_name("Table", &self.table.name)?;
        self.table.sort();
        if self.table.partition_key_count == 0 {
            return Err(Error::invalid("No PRIMARY KEY specified (exactly one required)"));
        }
        if self.table.has_statics() && self.table.clustering_count == 0 && !self.table.is_compact()
        {
            return Err(Error::invalid(
                "Static columns are only useful (and thus allowed) if the table has at least one clustering column",
            ));
        }
        Ok(self.table)
    }
}

#[cfg(test)]
mod tests;
