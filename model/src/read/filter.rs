//! Conditions on rows that neither keys nor slices can express: ALLOW FILTERING.
//!
//! A missing value satisfies no condition.

use std::cmp::Ordering;

use super::PartitionRef;
use crate::Result;
use crate::key;
use crate::ordered;
use crate::row::{Cell, RowRef};
use crate::schema::{ColumnId, ColumnKind, Table};
use crate::types::{CqlType, collection_elements};

/// What a condition looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterTarget {
    /// The partition key column of that index.
    PartitionKey(u16),
    /// The clustering column of that index.
    Clustering(u16),
    /// A static or regular column.
    Value(ColumnId),
}

/// How it compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are CQL's own operators")]
pub enum Operator {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// Equal to one of the values.
    In,
    /// The collection has the value as an element, or as a map's value.
    Contains,
    /// The map has the value as a key.
    ContainsKey,
    /// The map has the first value as a key, with the second value.
    Entry,
}

/// One condition on a column's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// What it looks at.
    pub target: FilterTarget,
    /// How it compares.
    pub operator: Operator,
    /// What it compares with: one value, or several for `In` and two for `Entry`.
    pub values: Vec<Box<[u8]>>,
}

impl Filter {
    /// Whether the row satisfies the condition. Row and static row are already reconciled.
    pub fn matches(
        &self,
        table: &Table,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Result<bool> {
        match self.target {
            FilterTarget::PartitionKey(index) => {
                let columns = table.partition_key();
                let index = usize::from(index);
                let value = key::partition_key_value(partition.key, columns.len(), index)?;
                Ok(self.accepts(&columns[index].ty, value))
            }
            FilterTarget::Clustering(index) => {
                let Some(clustering) = clustering else { return Ok(false) };
                let mut value = Vec::new();
                if !key::clustering_value(table, clustering, index.into(), &mut value)? {
                    return Ok(false);
                }
                Ok(self.accepts(&table.clustering()[usize::from(index)].ty, &value))
            }
            FilterTarget::Value(id) => {
                let Some(column) = table.column_by_id(id) else { return Ok(false) };
                let row =
                    if column.kind == ColumnKind::Static { partition.static_row } else { row };
                let Some(row) = row else { return Ok(false) };
                let mut cells = row.cells().filter(|cell| cell.column == id);
                if column.ty.is_multi_cell() {
                    Ok(self.accepts_cells(&column.ty, cells))
                } else {
                    Ok(cells.next().is_some_and(|cell| self.accepts(&column.ty, cell.value)))
                }
            }
        }
    }

    fn accepts(&self, ty: &CqlType, value: &[u8]) -> bool {
        let order = || self.values.first().map(|other| ty.compare(value, other));
        match self.operator {
            Operator::Equal => order() == Some(Ordering::Equal),
            Operator::Less => order() == Some(Ordering::Less),
            Operator::LessOrEqual => order().is_some_and(Ordering::is_le),
            Operator::Greater => order() == Some(Ordering::Greater),
            Operator::GreaterOrEqual => order().is_some_and(Ordering::is_ge),
            Operator::In => self.values.iter().any(|other| ty.compare(value, other).is_eq()),
            Operator::Contains | Operator::ContainsKey | Operator::Entry => {
                self.accepts_frozen(ty, value)
            }
        }
    }

    /// The conditions on elements, when the collection is one value.
    fn accepts_frozen(&self, ty: &CqlType, value: &[u8]) -> bool {
        let Ok(elements) = collection_elements(value) else { return false };
        match ty {
            CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                let is = |item: &[u8]| self.is_value(0, element, item);
                elements.flatten().any(is)
            }
            CqlType::Map { key, value: of, .. } => {
                let all: Vec<&[u8]> = elements.doubled().flatten().collect();
                all.chunks_exact(2).any(|pair| self.accepts_pair(key, of, pair[0], pair[1]))
            }
            _ => false,
        }
    }

    /// The conditions on elements, when each is a cell.
    fn accepts_cells<'r>(&self, ty: &CqlType, mut cells: impl Iterator<Item = Cell<'r>>) -> bool {
        match ty {
            CqlType::List { element, .. } => {
                cells.any(|cell| self.is_value(0, element, cell.value))
            }
            CqlType::Set { element, .. } => {
                cells.any(|cell| self.is_path(0, element, cell.path.unwrap_or_default()))
            }
            CqlType::Map { key, value, .. } => cells.any(|cell| {
                let path = cell.path.unwrap_or_default();
                match self.operator {
                    Operator::ContainsKey => self.is_path(0, key, path),
                    Operator::Entry => {
                        self.is_path(0, key, path) && self.is_value(1, value, cell.value)
                    }
                    _ => self.is_value(0, value, cell.value),
                }
            }),
            _ => false,
        }
    }

    fn accepts_pair(&self, key: &CqlType, of: &CqlType, k: &[u8], v: &[u8]) -> bool {
        match self.operator {
            Operator::ContainsKey => self.is_value(0, key, k),
            Operator::Entry => self.is_value(0, key, k) && self.is_value(1, of, v),
            _ => self.is_value(0, of, v),
        }
    }

    fn is_value(&self, index: usize, ty: &CqlType, value: &[u8]) -> bool {
        self.values.get(index).is_some_and(|other| ty.compare(value, other).is_eq())
    }

    fn is_path(&self, index: usize, ty: &CqlType, path: &[u8]) -> bool {
        let mut wanted = Vec::new();
        self.values
            .get(index)
            .is_some_and(|other| ordered::encode(ty, other, &mut wanted).is_ok() && wanted == path)
    }
}
