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
                    Ok(self.operator.accepts_cells(&column.ty, cells, &self.values))
                } else {
                    Ok(cells.next().is_some_and(|cell| self.accepts(&column.ty, cell.value)))
                }
            }
        }
    }

    fn accepts(&self, ty: &CqlType, value: &[u8]) -> bool {
        self.operator.accepts(ty, value, &self.values)
    }
}

impl Operator {
    /// As Cassandra's errors write it.
    pub fn symbol(self) -> &'static str {
        match self {
            Operator::Equal => "=",
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
            Operator::In => "IN",
            Operator::Contains | Operator::Entry => "CONTAINS",
            Operator::ContainsKey => "CONTAINS KEY",
        }
    }

    /// Whether a value of this type compares so with `others`: one, or several for `In` and two for `Entry`.
    pub fn accepts(self, ty: &CqlType, value: &[u8], others: &[impl AsRef<[u8]>]) -> bool {
        let order = || others.first().map(|other| ty.compare(value, other.as_ref()));
        match self {
            Operator::Equal => order() == Some(Ordering::Equal),
            Operator::Less => order() == Some(Ordering::Less),
            Operator::LessOrEqual => order().is_some_and(Ordering::is_le),
            Operator::Greater => order() == Some(Ordering::Greater),
            Operator::GreaterOrEqual => order().is_some_and(Ordering::is_ge),
            Operator::In => others.iter().any(|other| ty.compare(value, other.as_ref()).is_eq()),
            Operator::Contains | Operator::ContainsKey | Operator::Entry => {
                self.accepts_frozen(ty, value, others)
            }
        }
    }

    /// The conditions on elements, when the collection is one value.
    fn accepts_frozen(self, ty: &CqlType, value: &[u8], others: &[impl AsRef<[u8]>]) -> bool {
        let Ok(elements) = collection_elements(value) else { return false };
        match ty {
            CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                let is = |item: &[u8]| is_value(others.first(), element, item);
                elements.flatten().any(is)
            }
            CqlType::Map { key, value: of, .. } => {
                let all: Vec<&[u8]> = elements.doubled().flatten().collect();
                all.chunks_exact(2).any(|pair| self.accepts_pair((key, of), pair, others))
            }
            _ => false,
        }
    }

    /// The same, when each element is a cell.
    pub fn accepts_cells<'r>(
        self,
        ty: &CqlType,
        mut cells: impl Iterator<Item = Cell<'r>>,
        others: &[impl AsRef<[u8]>],
    ) -> bool {
        let first = others.first();
        match ty {
            CqlType::List { element, .. } => cells.any(|cell| is_value(first, element, cell.value)),
            CqlType::Set { element, .. } => {
                cells.any(|cell| is_path(first, element, cell.path.unwrap_or_default()))
            }
            CqlType::Map { key, value, .. } => cells.any(|cell| {
                let path = cell.path.unwrap_or_default();
                match self {
                    Operator::ContainsKey => is_path(first, key, path),
                    Operator::Entry => {
                        is_path(first, key, path) && is_value(others.get(1), value, cell.value)
                    }
                    _ => is_value(first, value, cell.value),
                }
            }),
            _ => false,
        }
    }

    fn accepts_pair(
        self,
        (key, of): (&CqlType, &CqlType),
        pair: &[&[u8]],
        others: &[impl AsRef<[u8]>],
    ) -> bool {
        let (first, k, v) = (others.first(), pair[0], pair[1]);
        match self {
            Operator::ContainsKey => is_value(first, key, k),
            Operator::Entry => is_value(first, key, k) && is_value(others.get(1), of, v),
            _ => is_value(first, of, v),
        }
    }
}

fn is_value(other: Option<&impl AsRef<[u8]>>, ty: &CqlType, value: &[u8]) -> bool {
    other.is_some_and(|other| ty.compare(value, other.as_ref()).is_eq())
}

fn is_path(other: Option<&impl AsRef<[u8]>>, ty: &CqlType, path: &[u8]) -> bool {
    let mut wanted = Vec::new();
    other.is_some_and(|other| ordered::encode(ty, other.as_ref(), &mut wanted).is_ok())
        && wanted == path
}
