//! Conditions on rows that neither keys nor slices can express: ALLOW FILTERING.
//!
//! A missing value satisfies no condition.
//!
//! 1. `Filter::matches` finds the value that the filter looks at: in the partition key, the clustering key, the static
//!    row, or the row.
//! 2. If the column has an index with an analysis, the value is brought into its form. What it is compared with was
//!    brought there once (`Filter::into_form`), and not for each row.
//! 3. `Operator::accepts` compares one value by its type; among the values of an IN, which are in order, it is searched
//!    (`types/compared.rs`). `accepts_cells` looks at a collection whose elements are cells: a key or an element of a
//!    set is compared as a path, by its order-preserving bytes.
//!
//! Invariants: a row is given when all of its filters match; rows are reconciled before, so dead and expired cells are
//! not seen; an index may find candidates, but only this file says which of them match.
//!
//! Not here: what a WHERE becomes (`cql/src/restrict/filter.rs`), slices and keys (`read.rs`), the conditions of an IF,
//! whose rules of null are others (`condition.rs`), the terms of indexes (`schema/index/terms.rs`).

use std::borrow::Cow;
use std::cmp::Ordering;

use super::PartitionRef;
use crate::Result;
use crate::key;
use crate::row::{Cell, RowRef};
use crate::schema::{Analysis, Column, ColumnId, ColumnKind, Table};
use crate::types::{Compared, CqlType, collection_elements, encoded, is_among};

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
    /// The text has the value in it, at this place.
    Like(Like),
}

/// Where in a text the value of a LIKE is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Like {
    /// `'value%'`: the text begins with it.
    Prefix,
    /// `'%value'`: the text ends with it.
    Suffix,
    /// `'%value%'`: it is anywhere in the text.
    Contains,
    /// `'value'`: it is the text.
    Matches,
}

impl Like {
    /// As Cassandra's errors write it.
    pub fn symbol(self) -> &'static str {
        match self {
            Like::Prefix => "LIKE '<term>%'",
            Like::Suffix => "LIKE '%<term>'",
            Like::Contains => "LIKE '%<term>%'",
            Like::Matches => "LIKE '<term>'",
        }
    }

    fn accepts(self, text: &[u8], value: &[u8]) -> bool {
        match self {
            Like::Prefix => text.starts_with(value),
            Like::Suffix => text.ends_with(value),
            Like::Contains => memchr::memmem::find(text, value).is_some(),
            Like::Matches => text == value,
        }
    }
}

/// One condition on a column's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// What it looks at.
    pub target: FilterTarget,
    /// How it compares.
    pub operator: Operator,
    /// What it compares with: one value, any number for `In` in the order of [`CqlType::sort`], two for `Entry`. As
    /// they were bound until [`into_form`](Filter::into_form), then in the form of `analysis`.
    pub values: Vec<Box<[u8]>>,
    /// The form in which texts compare: that of the index which the column has.
    pub analysis: Analysis,
}

impl Filter {
    /// The column that it looks at, if the table has it.
    pub fn column<'t>(&self, table: &'t Table) -> Option<&'t Column> {
        match self.target {
            FilterTarget::PartitionKey(index) => table.partition_key().get(usize::from(index)),
            FilterTarget::Clustering(index) => table.clustering().get(usize::from(index)),
            FilterTarget::Value(id) => table.column_by_id(id),
        }
    }

    /// The filter, ready for rows of a column of type `ty`: its values are brought from the bound form into that of the
    /// index. To be called once, since the form of a form may differ.
    pub fn into_form(mut self, ty: &CqlType) -> Filter {
        if self.analysis.is_none() {
            return self;
        }
        for (index, value) in self.values.iter_mut().enumerate() {
            let ty = self.operator.type_of_value(ty, index);
            if let Cow::Owned(in_form) = self.analysis.apply(ty, value) {
                *value = in_form.into();
            }
        }
        if self.operator == Operator::In {
            ty.sort(&mut self.values);
        }
        self
    }

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
                if !self.analysis.is_none() && column.ty.is_multi_cell() {
                    Ok(cells.any(|cell| self.accepts_element(&column.ty, &cell)))
                } else if column.ty.is_multi_cell() {
                    Ok(self.operator.accepts_cells(&column.ty, cells, &self.values))
                } else {
                    Ok(cells.next().is_some_and(|cell| self.accepts(&column.ty, cell.value)))
                }
            }
        }
    }

    fn accepts(&self, ty: &CqlType, value: &[u8]) -> bool {
        let value = self.analysis.apply(ty, value);
        match self.operator {
            Operator::In => is_among(ty, &value, &self.values),
            operator => operator.accepts(ty, &value, &self.values),
        }
    }

    /// Whether an element of a collection that compares in the form of an index is one that is wanted.
    fn accepts_element(&self, ty: &CqlType, cell: &Cell<'_>) -> bool {
        let is = |ty: &CqlType, value: &[u8], other: Option<&Box<[u8]>>| {
            let value = self.analysis.apply(ty, value);
            other.is_some_and(|other| ty.compare(&value, other).is_eq())
        };
        let element = |ty: &CqlType| {
            let mut value = Vec::new();
            let is_whole = cell.put_element(ty, &mut value).is_ok();
            is_whole && is(ty, &value, self.values.first())
        };
        match (ty, self.operator) {
            (CqlType::Set { element: ty, .. }, _) => element(ty),
            (CqlType::Map { key, .. }, Operator::ContainsKey) => element(key),
            (CqlType::Map { key, value, .. }, Operator::Entry) => {
                element(key) && is(value, cell.value, self.values.get(1))
            }
            (CqlType::Map { value, .. }, _) => is(value, cell.value, self.values.first()),
            (CqlType::List { element: ty, .. }, _) => is(ty, cell.value, self.values.first()),
            _ => false,
        }
    }
}

impl Operator {
    /// The type of a value that a filter on a column of type `ty` compares with: of a collection that is stored by
    /// element that of an element, key or value.
    fn type_of_value(self, ty: &CqlType, index: usize) -> &CqlType {
        if !ty.is_multi_cell() {
            return ty;
        }
        match (ty, self, index) {
            (CqlType::Set { element: ty, .. } | CqlType::List { element: ty, .. }, ..) => ty,
            (CqlType::Map { key, .. }, Operator::ContainsKey, _) => key,
            (CqlType::Map { key, .. }, Operator::Entry, 0) => key,
            (CqlType::Map { value, .. }, ..) => value,
            _ => ty,
        }
    }

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
            Operator::Like(like) => like.symbol(),
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
            Operator::In => {
                let mut value = Compared::new(ty, value);
                others.iter().any(|other| value.equals(other.as_ref()))
            }
            Operator::Contains | Operator::ContainsKey | Operator::Entry => {
                self.accepts_frozen(ty, value, others)
            }
            Operator::Like(like) => {
                others.first().is_some_and(|other| like.accepts(value, other.as_ref()))
            }
        }
    }

    /// The conditions on elements, when the collection is one value.
    fn accepts_frozen(self, ty: &CqlType, value: &[u8], others: &[impl AsRef<[u8]>]) -> bool {
        let Ok(elements) = collection_elements(value) else { return false };
        match ty {
            CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                let Some(wanted) = others.first() else { return false };
                let mut wanted = Compared::new(element, wanted.as_ref());
                elements.flatten().any(|item| wanted.equals(item))
            }
            CqlType::Map { key, value: of, .. } => {
                let Some(first) = others.first() else { return false };
                let on_value = !matches!(self, Operator::ContainsKey | Operator::Entry);
                let mut first = Compared::new(if on_value { of } else { key }, first.as_ref());
                let mut second = others.get(1).map(|value| Compared::new(of, value.as_ref()));
                let all: Vec<&[u8]> = elements.doubled().flatten().collect();
                all.chunks_exact(2).any(|pair| match self {
                    Operator::ContainsKey => first.equals(pair[0]),
                    Operator::Entry => {
                        first.equals(pair[0]) && second.as_mut().is_some_and(|v| v.equals(pair[1]))
                    }
                    _ => first.equals(pair[1]),
                })
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
        let Some(first) = others.first().map(AsRef::as_ref) else { return false };
        match ty {
            CqlType::List { element: of, .. } => {
                let mut wanted = Compared::new(of, first);
                cells.any(|cell| wanted.equals(cell.value))
            }
            CqlType::Map { value: of, .. }
                if !matches!(self, Operator::ContainsKey | Operator::Entry) =>
            {
                let mut wanted = Compared::new(of, first);
                cells.any(|cell| wanted.equals(cell.value))
            }
            CqlType::Set { element: of, .. } | CqlType::Map { key: of, .. } => {
                let Some(path) = encoded(of, first) else { return false };
                let is_at = |cell: &Cell<'_>| cell.path.unwrap_or_default() == path;
                let (CqlType::Map { value, .. }, Operator::Entry) = (ty, self) else {
                    return cells.any(|cell| is_at(&cell));
                };
                let Some(second) = others.get(1) else { return false };
                let mut second = Compared::new(value, second.as_ref());
                cells.any(|cell| is_at(&cell) && second.equals(cell.value))
            }
            _ => false,
        }
    }
}
