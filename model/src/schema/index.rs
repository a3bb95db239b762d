//! Secondary indexes of a table: what each one indexes, and how it was declared.
//!
//! ```text
//! CREATE INDEX ─► Index { column, target } ── terms of a row ──► memtable, index files        (`terms.rs`)
//! WHERE        ─► Index::lookup ─► ranges of terms ──► candidates, each judged by the whole filter
//! ```
//!
//! 1. An id is its index's own for ever: index files name it, and an index that is made after another was dropped is
//!    never taken for it.
//! 2. A term compares by `memcmp` as the values do that it stands for (`ordered.rs`), cut at `TERM_BYTES_MAX`.
//! 3. What an index gives is never less than what matches, and may be more.
//! 4. An index of vectors has no terms that relations ask for: it is for ORDER BY .. ANN OF (`model/src/read/nearest.rs`).
//!
//! How it was declared (a plain index, SAI, SASI) decides which relations it serves, as in Cassandra, not how it is
//! stored.
//! Not here: which statements may declare what (`cql/src/ddl`), where terms are kept (`engine`).

mod analysis;
mod folded;
mod terms;

use std::collections::BTreeMap;

pub use analysis::Analysis;

use super::table::Table;
use super::{Column, ColumnId, ColumnKind};
use crate::limits::{INDEXES_MAX, NAME_BYTES_MAX};
use crate::types::{CqlType, Similarity};
use crate::{Error, Result};

/// The option of an index of vectors that names what is near.
pub const SIMILARITY_OPTION: &str = "similarity_function";
/// The option of an index of vectors that says whether searches are to be quick, as they are, or to miss less.
pub const OPTIMIZE_OPTION: &str = "optimize_for";

/// What tells the indexes of one table apart, dropped ones included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexId(pub u16);

/// Which part of a column's values is indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IndexTarget {
    /// The value of a column that is no collection: `c`.
    Value,
    /// The keys of a map: `keys(c)`.
    Keys,
    /// The elements of a list or set, the values of a map: `values(c)`.
    Values,
    /// The pairs of a map: `entries(c)`.
    Entries,
    /// A frozen collection as one value: `full(c)`.
    Full,
}

impl IndexTarget {
    /// The function around the column's name in CQL; `None` where the name stands alone.
    pub fn function(self) -> Option<&'static str> {
        match self {
            IndexTarget::Value => None,
            IndexTarget::Keys => Some("keys"),
            IndexTarget::Values => Some("values"),
            IndexTarget::Entries => Some("entries"),
            IndexTarget::Full => Some("full"),
        }
    }
}

/// What an index was declared as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IndexKind {
    /// `CREATE INDEX` without USING: Cassandra's first kind of index, "2i".
    Plain,
    /// `USING 'sai'`: storage-attached.
    StorageAttached,
    /// The first index in storage, `USING 'org.apache.cassandra.index.sasi.SASIIndex'`.
    Sasi,
}

/// One index of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// The id that it has for ever.
    pub id: IndexId,
    /// Its name, as stored; no other index of the keyspace has it.
    pub name: String,
    /// The column that is indexed.
    pub column: ColumnId,
    /// Which part of the column's values is.
    pub target: IndexTarget,
    /// What it was declared as.
    pub kind: IndexKind,
    /// The class in `system_schema.indexes`, as it was written: `sai`, or the name of a class. `None` of a plain one.
    pub class: Option<String>,
    /// What WITH OPTIONS said.
    pub options: BTreeMap<String, String>,
    /// The form in which its texts compare.
    pub analysis: Analysis,
}

impl Index {
    /// The column that is indexed.
    pub fn column<'t>(&self, table: &'t Table) -> &'t Column {
        table.column_by_id(self.column).expect("a column with an index is not dropped")
    }

    /// What is near in it, if it is an index of vectors: it serves ORDER BY .. ANN OF, and has no terms.
    pub fn similarity(&self, table: &Table) -> Option<Similarity> {
        let is_vector = matches!(self.column(table).ty, CqlType::Vector { .. });
        if self.kind != IndexKind::StorageAttached || !is_vector {
            return None;
        }
        let named = self.options.get(SIMILARITY_OPTION);
        named.map_or(Some(Similarity::Cosine), |name| Similarity::of_name(name))
    }

    /// Whether searches are to miss less, though they take longer.
    pub fn prefers_recall(&self) -> bool {
        self.options.get(OPTIMIZE_OPTION).is_some_and(|name| name.eq_ignore_ascii_case("recall"))
    }
}

impl Table {
    /// The indexes by name.
    pub fn indexes(&self) -> &[Index] {
        &self.indexes
    }

    /// The index of that name.
    pub fn index(&self, name: &str) -> Option<&Index> {
        self.indexes.iter().find(|index| index.name == name)
    }

    /// The index of that id, unless it was dropped.
    pub fn index_by_id(&self, id: IndexId) -> Option<&Index> {
        self.indexes.iter().find(|index| index.id == id)
    }

    /// The indexes of a column.
    pub fn indexes_of(&self, column: ColumnId) -> impl Iterator<Item = &Index> {
        self.indexes.iter().filter(move |index| index.column == column)
    }

    /// The indexes that have terms: all but those of vectors.
    pub fn term_indexes(&self) -> impl Iterator<Item = &Index> {
        self.indexes.iter().filter(|index| index.similarity(self).is_none())
    }

    /// The indexes of vectors, each with what is near in it.
    pub fn vector_indexes(&self) -> impl Iterator<Item = (&Index, Similarity)> {
        self.indexes.iter().filter_map(|index| Some((index, index.similarity(self)?)))
    }

    /// The indexes that have a file beside each sstable: those of terms, and of vectors in regular columns.
    pub fn file_indexes(&self) -> impl Iterator<Item = &Index> {
        let is_regular = |index: &Index| index.column(self).kind == ColumnKind::Regular;
        self.indexes
            .iter()
            .filter(move |index| index.similarity(self).is_none() || is_regular(index))
    }

    /// The id that the next index will have.
    pub fn next_index(&self) -> u16 {
        self.next_index
    }

    /// Adds an index of a column that is there; its id is made here, whichever it has.
    pub fn add_index(&mut self, index: Index) -> Result<()> {
        if self.next_index == u16::MAX {
            let most = u16::MAX;
            return Err(Error::invalid(format!("a table can have {most} indexes over its life")));
        }
        let index = Index { id: IndexId(self.next_index), ..index };
        self.next_index += 1;
        self.put_indexes(vec![index])
    }

    /// Drops the index of that name; whether there was one.
    pub fn drop_index(&mut self, name: &str) -> bool {
        let before = self.indexes.len();
        self.indexes.retain(|index| index.name != name);
        self.indexes.len() < before
    }

    /// Adds indexes with the ids that they have.
    pub(super) fn put_indexes(&mut self, indexes: Vec<Index>) -> Result<()> {
        for index in indexes {
            let (name, bytes) = (&index.name, index.name.len());
            if name.is_empty() || bytes > NAME_BYTES_MAX {
                return Err(Error::invalid(format!(
                    "Index names shouldn't be empty or more than {NAME_BYTES_MAX} bytes long (got \"{name}\")"
                )));
            }
            if self.column_by_id(index.column).is_none() || index.id.0 >= self.next_index {
                return Err(Error::invalid(format!(
                    "index {name} has no column or no id of its own"
                )));
            }
            if self.index(name).is_some() || self.index_by_id(index.id).is_some() {
                return Err(Error::invalid(format!("Index '{name}' already exists")));
            }
            if self.indexes.len() >= INDEXES_MAX {
                return Err(Error::invalid(format!("a table can have {INDEXES_MAX} indexes")));
            }
            let place = self.indexes.partition_point(|known| known.name < index.name);
            self.indexes.insert(place, index);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::schema::{TableBuilder, TableId};
    use crate::types::CqlType;

    fn index(name: &str, column: u16) -> Index {
        Index {
            id: IndexId(9),
            name: name.to_owned(),
            column: ColumnId(column),
            target: IndexTarget::Value,
            kind: IndexKind::Plain,
            class: None,
            options: BTreeMap::new(),
            analysis: Analysis::NONE,
        }
    }

    fn table() -> Table {
        TableBuilder::new("ks", "t", TableId(Uuid::nil()))
            .partition_key("k", CqlType::Int)
            .and_then(|t| t.regular("v", CqlType::Int))
            .and_then(TableBuilder::build)
            .expect("a sound table")
    }

    #[test]
    fn an_index_after_a_dropped_one_has_another_id() {
        let mut table = table();
        table.add_index(index("b", 1)).expect("a free name");
        table.add_index(index("a", 1)).expect("a free name");
        let ids =
            |table: &Table| table.indexes().iter().map(|index| index.id.0).collect::<Vec<_>>();
        assert_eq!(ids(&table), [1, 0], "by name");
        assert!(table.drop_index("a") && !table.drop_index("a"));
        table.add_index(index("a", 1)).expect("a free name");
        assert_eq!(ids(&table), [2, 0]);
    }

    #[test]
    fn an_index_without_a_column_or_with_a_name_that_is_taken_is_refused() {
        let mut table = table();
        table.add_index(index("a", 1)).expect("a free name");
        for (name, column) in [("a", 1), ("b", 7), ("", 1), (&"x".repeat(NAME_BYTES_MAX + 1), 1)] {
            assert!(table.add_index(index(name, column)).is_err(), "{name} {column}");
        }
        for at in 1..INDEXES_MAX {
            table.add_index(index(&format!("i{at}"), 1)).expect("few enough");
        }
        let refused = table.add_index(index("more", 1)).expect_err("too many").to_string();
        assert_eq!(refused, format!("a table can have {INDEXES_MAX} indexes"));
    }
}
