//! Tables made WITH COMPACT STORAGE: what Cassandra had before CQL, and keeps for tables of that time.
//!
//! ```text
//!          declares                      stores                    hides
//! static   k, and regular a, b           k, static a, b            column1 text, value blob
//! dense    k, clustering c, regular v    k, c, v
//! dense    k, clustering c               k, c, value: empty        value empty
//! ```
//!
//! 1. A row has no marker: it is there while one of its cells is.
//! 2. A static table has nothing but static rows, so that it gets a clustering column without a row that lacks one when
//!    it is compact no more. What is hidden is shown then, with the ids it always had.
//! 3. A row of several clustering columns may leave out the last ones (`ordered::put_null`).
//!
//! The names of hidden columns are those of `CompactTables` in Cassandra. Not here: what statements may do to such tables
//! (`cql`).

use super::{Column, ColumnKind, Table};
use crate::Result;
use crate::types::CqlType;

impl Table {
    /// Whether it was made WITH COMPACT STORAGE, and is so still.
    #[inline]
    pub fn is_compact(&self) -> bool {
        self.compact.is_some()
    }

    /// Whether it is a compact table without clustering columns: all of its values are static.
    pub fn is_static_compact(&self) -> bool {
        self.is_compact() && self.clustering().is_empty()
    }

    /// Whether it is a compact table with clustering columns: each row has one value.
    pub fn is_dense(&self) -> bool {
        self.is_compact() && !self.clustering().is_empty()
    }

    /// The columns that it does not show, of a compact table: clustering ones first.
    pub fn hidden(&self) -> &[Column] {
        self.compact.as_deref().unwrap_or_default()
    }

    /// The one value column of a dense table, hidden or not.
    pub fn compact_value(&self) -> Option<&Column> {
        let values = self.value_columns().iter().chain(self.hidden());
        values.last().filter(|_| self.is_dense())
    }

    /// Whether a column, shown or not, has that name.
    pub fn has_name(&self, name: &str) -> bool {
        self.column(name).is_some() || self.hidden().iter().any(|column| column.name == name)
    }

    /// `ALTER TABLE .. DROP COMPACT STORAGE`: it shows all of its columns.
    pub fn drop_compact_storage(&mut self) {
        let hidden = self.compact.take().unwrap_or_default();
        self.columns.extend(hidden);
        self.sort();
    }

    /// Makes a table that has all of its columns compact.
    pub(super) fn hide_columns(&mut self) -> Result<()> {
        let count = |kind| self.columns.iter().filter(|column| column.kind == kind).count();
        let mut hidden = Vec::new();
        if count(ColumnKind::Clustering) == 0 {
            let name = self.free_name("column", 1);
            hidden.push(self.new_column(&name, CqlType::Text, ColumnKind::Clustering, 0)?);
            let ty = if self.is_counter() { CqlType::Counter } else { CqlType::Blob };
            hidden.push(self.new_column(
                &self.free_name("value", 0),
                ty,
                ColumnKind::Regular,
                0,
            )?);
        } else if count(ColumnKind::Regular) == 0 {
            let name = self.free_name("value", 0);
            hidden.push(self.new_column(&name, CqlType::Empty, ColumnKind::Regular, 0)?);
        }
        self.compact = Some(hidden);
        Ok(())
    }

    /// Makes a table compact that has all columns that `source` shows: it hides what `source` hides.
    pub(super) fn hide_columns_of(&mut self, source: &Table) -> Result<()> {
        let hide = |Column { name, ty, kind, position, .. }: &Column| {
            self.new_column(name, ty.clone(), *kind, *position)
        };
        self.compact = Some(source.hidden().iter().map(hide).collect::<Result<_>>()?);
        Ok(())
    }

    /// The first name of `stem`, with a number from `first` on behind it but for 0, that no column has.
    fn free_name(&self, stem: &str, first: usize) -> String {
        let names = (first..).map(|number| match number {
            0 => stem.to_owned(),
            number => format!("{stem}{number}"),
        });
        let is_free = |name: &String| !self.columns.iter().any(|column| column.name == *name);
        names.into_iter().find(is_free).expect("a table has fewer columns than there are numbers")
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::schema::{TableBuilder, TableId};

    fn names<'t>(columns: impl IntoIterator<Item = &'t Column>) -> Vec<&'t str> {
        columns.into_iter().map(|column| column.name.as_str()).collect()
    }

    fn table(
        clustering: &[&str],
        values: &[&str],
        add: impl Fn(TableBuilder, &str) -> Result<TableBuilder>,
    ) -> Table {
        let table = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)));
        let keyed = table.partition_key("k", CqlType::Int);
        let ordered = clustering
            .iter()
            .fold(keyed, |table, name| table?.clustering(name, CqlType::Int, false));
        let whole = values.iter().fold(ordered, |table, name| add(table?, name));
        whole.and_then(TableBuilder::compact).and_then(TableBuilder::build).expect("a sound table")
    }

    #[test]
    fn a_static_table_hides_a_clustering_and_a_value_column() {
        let mut table = table(&[], &["a", "value"], |t, name| t.stat(name, CqlType::Int));
        assert!(table.is_static_compact() && !table.is_dense());
        assert_eq!(names(table.columns()), ["k", "a", "value"]);
        assert_eq!(names(table.hidden()), ["column1", "value1"]);
        assert!(table.column("column1").is_none() && table.has_name("column1"));
        table.drop_compact_storage();
        assert_eq!(names(table.columns()), ["k", "column1", "a", "value", "value1"]);
        assert_eq!((names(table.clustering()), table.is_compact()), (vec!["column1"], false));
    }

    #[test]
    fn a_dense_table_without_a_value_hides_one_that_is_always_empty() {
        let with = table(&["c"], &["v"], |t, name| t.regular(name, CqlType::Int));
        assert_eq!(with.compact_value().map(|column| &*column.name), Some("v"));
        assert!(with.is_dense() && with.hidden().is_empty());
        let mut without = table(&["c", "value"], &[], |t, name| t.regular(name, CqlType::Int));
        let value = without.compact_value().expect("it hides one").clone();
        assert_eq!((&*value.name, &value.ty), ("value1", &CqlType::Empty));
        assert_eq!(names(without.columns()), ["k", "c", "value"]);
        without.drop_compact_storage();
        assert_eq!(without.column("value1"), Some(&value));
    }
}
