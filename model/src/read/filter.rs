//! Conditions on rows that neither keys nor slices can express: ALLOW FILTERING.
//!
//! A missing value satisfies no condition.
//!
//! 1. `Filter::matches` finds the value that the filter looks at: in the partition key, the clustering key, the static
//!    row, or the row.
//! 2. If the column has an index with an analysis, the value is brought into its form. What it is compared with was
//!    brought there once (`Filter::into_form`), and not for each row; then into its ordered form, where bytes do not
//!    compare as values do. `Filter::form_work` tells what that takes of a row: who reads asks it before.
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
use std::sync::Arc;

use super::PartitionRef;
use crate::Result;
use crate::key;
use crate::ordered::{FormWork, TypeWork, WORK_OF_KEY_MAX, work_of_decimal};
use crate::row::{Cell, RowRef};
use crate::schema::{Analysis, Column, ColumnId, ColumnKind, Table};
use crate::types::{
    Compared, CqlType, OrderedForm, collection_elements, encoded, is_among, of_integers,
};

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
    /// The ordered forms of the values, from [`into_form`](Filter::into_form) on; none if none is needed. Clones share
    /// them.
    ordered: Arc<[OrderedForm]>,
    /// What bringing values of rows into ordered form may take; nothing if they are not.
    of_type: TypeWork,
}

impl Filter {
    /// A filter with its values as they were bound.
    pub fn new(
        target: FilterTarget,
        operator: Operator,
        values: Vec<Box<[u8]>>,
        analysis: Analysis,
    ) -> Filter {
        let (ordered, of_type) = (Arc::default(), TypeWork::default());
        Filter { target, operator, values, analysis, ordered, of_type }
    }

    /// The column that it looks at, if the table has it.
    pub fn column<'t>(&self, table: &'t Table) -> Option<&'t Column> {
        match self.target {
            FilterTarget::PartitionKey(index) => table.partition_key().get(usize::from(index)),
            FilterTarget::Clustering(index) => table.clustering().get(usize::from(index)),
            FilterTarget::Value(id) => table.column_by_id(id),
        }
    }

    /// The filter, ready for rows of a column of type `ty`: its values are brought from the bound form into that of the
    /// index, and into their ordered forms. To be called once, since the form of a form may differ.
    pub fn into_form(mut self, ty: &CqlType) -> Filter {
        if !self.analysis.is_none() {
            self.analyse(ty);
        }
        if self.values_to_order(ty).next().is_some() {
            let forms = self.values.iter().enumerate().map(|(index, value)| {
                let ty = self.operator.ordered_type(ty, index);
                ty.map_or(OrderedForm::Unmade, |ty| OrderedForm::of(ty, value))
            });
            self.ordered = forms.collect();
            self.of_type = TypeWork::of(ty);
        }
        self
    }

    /// The values that [`into_form`](Filter::into_form) brings into their ordered forms, with their types.
    pub fn values_to_order<'f>(
        &'f self,
        ty: &'f CqlType,
    ) -> impl Iterator<Item = (&'f CqlType, &'f [u8])> {
        self.values.iter().enumerate().filter_map(move |(index, value)| {
            Some((self.operator.ordered_type(ty, index)?, &value[..]))
        })
    }

    /// Bytes that its values take in memory, and their ordered forms.
    pub(super) fn bytes(&self) -> usize {
        let of_form = |form: &OrderedForm| match form {
            OrderedForm::Unmade | OrderedForm::Missing => size_of::<OrderedForm>(),
            OrderedForm::Made(bytes) => size_of::<OrderedForm>() + bytes.len(),
        };
        let of_values = self.values.iter().map(|value| size_of::<Box<[u8]>>() + value.len());
        of_values.sum::<usize>() + self.ordered.iter().map(of_form).sum::<usize>()
    }

    /// Brings its values from the bound form into that of the index.
    fn analyse(&mut self, ty: &CqlType) {
        for (index, value) in self.values.iter_mut().enumerate() {
            // A collection that is one value compares as it is.
            let of_elements = ty.is_multi_cell().then(|| self.operator.type_of_value(ty, index));
            if let Cow::Owned(in_form) = self.analysis.apply(of_elements.unwrap_or(ty), value) {
                *value = in_form.into();
            }
        }
        if self.operator == Operator::In {
            ty.sort(&mut self.values);
        }
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
                let Some(row) = row_of(column, partition, row) else { return Ok(false) };
                let mut cells = row.cells().filter(|cell| cell.column == id);
                if !self.analysis.is_none() && column.ty.is_multi_cell() {
                    Ok(cells.any(|cell| self.accepts_element(&column.ty, &cell)))
                } else if column.ty.is_multi_cell() {
                    Ok(self.operator.accepts_cells_of(&column.ty, cells, self.operands()))
                } else {
                    Ok(cells.next().is_some_and(|cell| self.accepts(&column.ty, cell.value)))
                }
            }
        }
    }

    /// Whether comparing a row with it may take long ([`form_work`](Filter::form_work)).
    #[inline]
    pub fn may_take_long(&self) -> bool {
        self.of_type.has_more_than_bytes()
    }

    /// What bringing the values of the row that it compares into ordered form takes at most beside their bytes, in
    /// units of `cql/src/expr/work.rs`.
    pub fn form_work(
        &self,
        table: &Table,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Result<u64> {
        let Some(column) = self.column(table) else { return Ok(0) };
        match self.target {
            FilterTarget::PartitionKey(index) => {
                let columns = table.partition_key().len();
                let value = key::partition_key_value(partition.key, columns, index.into())?;
                Ok(form_work(&column.ty, value))
            }
            FilterTarget::Clustering(index) => {
                let Some(clustering) = clustering else { return Ok(0) };
                // A byte of a decimal has more than two digits, and the key a byte for each digit.
                let of_digits = work_of_decimal(clustering.len() / 2).min(WORK_OF_KEY_MAX);
                if !self.of_type.has_fields {
                    return Ok(of_digits);
                }
                // With fields that its types have got since it may be thousands of times as long.
                let mut value = Vec::new();
                key::clustering_value(table, clustering, index.into(), &mut value)?;
                Ok(of_digits.saturating_add(value.len() as u64))
            }
            FilterTarget::Value(id) => {
                let cells = row_of(column, partition, row).into_iter().flat_map(|row| row.cells());
                let values = cells.filter(|cell| cell.column == id).map(|cell| cell.value);
                Ok(self.operator.form_work(&column.ty, values))
            }
        }
    }

    fn accepts(&self, ty: &CqlType, value: &[u8]) -> bool {
        let value = self.analysis.apply(ty, value);
        match self.operator {
            Operator::In => is_among(ty, &value, &self.values, &self.ordered),
            operator => operator.accepts_value(ty, &value, self.operands()),
        }
    }

    fn operands(&self) -> Operands<'_, Box<[u8]>> {
        Operands { values: &self.values, forms: &self.ordered }
    }

    /// Whether an element of a collection that compares in the form of an index is one that is wanted.
    fn accepts_element(&self, ty: &CqlType, cell: &Cell<'_>) -> bool {
        let is = |ty: &CqlType, value: &[u8], index: usize| {
            let value = self.analysis.apply(ty, value);
            self.operands().equals(index, ty, &value)
        };
        let element = |ty: &CqlType| {
            let mut value = Vec::new();
            let is_whole = cell.put_element(ty, &mut value).is_ok();
            is_whole && is(ty, &value, 0)
        };
        match (ty, self.operator) {
            (CqlType::Set { element: ty, .. }, _) => element(ty),
            (CqlType::Map { key, .. }, Operator::ContainsKey) => element(key),
            (CqlType::Map { key, value, .. }, Operator::Entry) => {
                element(key) && is(value, cell.value, 1)
            }
            (CqlType::Map { value, .. }, _) => is(value, cell.value, 0),
            (CqlType::List { element: ty, .. }, _) => is(ty, cell.value, 0),
            _ => false,
        }
    }
}

/// What bringing a value into ordered form takes beside its bytes, in units.
fn form_work(ty: &CqlType, value: &[u8]) -> u64 {
    FormWork::of(ty, value).units()
}

/// The row that has the cells of a column: the static one, or this.
fn row_of<'r>(
    column: &Column,
    partition: &PartitionRef<'r>,
    row: Option<RowRef<'r>>,
) -> Option<RowRef<'r>> {
    if column.kind == ColumnKind::Static { partition.static_row } else { row }
}

/// What values of rows are compared with: the values of a filter or a condition, and their ordered forms if those were
/// made.
struct Operands<'f, V> {
    values: &'f [V],
    forms: &'f [OrderedForm],
}

impl<V> Clone for Operands<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Operands<'_, V> {}

impl<'f, V: AsRef<[u8]>> Operands<'f, V> {
    /// Values without their forms.
    fn plain(values: &'f [V]) -> Operands<'f, V> {
        Operands { values, forms: &[] }
    }

    /// The value of this index, if there is one, ready to be compared with others of its type.
    fn compared(self, index: usize, ty: &'f CqlType) -> Option<Compared<'f>> {
        let value = self.values.get(index)?.as_ref();
        Some(Compared::with_form(ty, value, self.forms.get(index)))
    }

    /// Whether a value of this type is the same as that of this index.
    #[inline]
    fn equals(self, index: usize, ty: &CqlType, value: &[u8]) -> bool {
        let Some(other) = self.values.get(index).map(AsRef::as_ref) else { return false };
        value == other
            || !ty.equals_by_bytes()
                && Compared::with_form(ty, other, self.forms.get(index)).equals(value)
    }

    /// How a value of this type compares with the first.
    #[inline]
    fn order_of(self, ty: &CqlType, value: &[u8]) -> Option<Ordering> {
        let first = self.values.first()?.as_ref();
        // Integers first, although `Compared` asks, too: for them none is made and dropped.
        let compare = || Compared::with_form(ty, first, self.forms.first()).order_of(value);
        Some(of_integers(ty, value, first).unwrap_or_else(compare))
    }

    /// The path of the element whose key the first value is; `None` if no element can have such a key.
    fn path(self, ty: &CqlType) -> Option<Cow<'f, [u8]>> {
        match self.forms.first() {
            Some(OrderedForm::Made(form)) => Some(Cow::Borrowed(form)),
            Some(OrderedForm::Missing) => None,
            Some(OrderedForm::Unmade) | None => {
                encoded(ty, self.values.first()?.as_ref()).map(Cow::Owned)
            }
        }
    }
}

impl Operator {
    /// Whether it looks at the elements of a collection.
    fn is_of_elements(self) -> bool {
        matches!(self, Operator::Contains | Operator::ContainsKey | Operator::Entry)
    }

    /// The type of a value that a filter on a column of type `ty` compares with: where it looks at elements, that of an
    /// element, key or value.
    pub(crate) fn type_of_value(self, ty: &CqlType, index: usize) -> &CqlType {
        if !ty.is_multi_cell() && !self.is_of_elements() {
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

    /// What bringing the values of a column of type `ty` into ordered form takes beside their bytes, of those that it
    /// compares: these are its cells.
    pub(crate) fn form_work<'r>(
        self,
        ty: &CqlType,
        mut values: impl Iterator<Item = &'r [u8]>,
    ) -> u64 {
        if !ty.is_multi_cell() {
            return values.next().map_or(0, |value| self.form_work_of_value(ty, value));
        }
        match (ty, self) {
            (CqlType::List { element: of, .. }, _)
            | (CqlType::Map { value: of, .. }, Operator::Contains) => {
                values.map(|value| form_work(of, value)).fold(0, u64::saturating_add)
            }
            // Of the entries one has the key.
            (CqlType::Map { value: of, .. }, Operator::Entry) => {
                values.map(|value| form_work(of, value)).max().unwrap_or(0)
            }
            // Paths are compared.
            _ => 0,
        }
    }

    /// The same of one value.
    fn form_work_of_value(self, ty: &CqlType, value: &[u8]) -> u64 {
        let (CqlType::Map { key, value: of, .. }, true) = (ty, self.is_of_elements()) else {
            return form_work(ty, value);
        };
        let Ok(elements) = collection_elements(value) else { return 0 };
        let (mut of_keys, mut of_values, mut largest, mut is_key) = (0u64, 0u64, 0, true);
        for element in elements.doubled().map_while(Result::ok) {
            let work = form_work(if is_key { key } else { of }, element);
            let sum = if is_key { &mut of_keys } else { &mut of_values };
            *sum = sum.saturating_add(work);
            largest = if is_key { largest } else { largest.max(work) };
            is_key = !is_key;
        }
        match self {
            Operator::ContainsKey => of_keys,
            Operator::Entry => of_keys.saturating_add(largest),
            _ => of_values,
        }
    }

    /// The type of that value if it is compared in its ordered form: as a path always, else where bytes do not say how
    /// it compares.
    fn ordered_type(self, ty: &CqlType, index: usize) -> Option<&CqlType> {
        let of_value = self.type_of_value(ty, index);
        let is_path = ty.is_multi_cell()
            && match (ty, self) {
                (CqlType::Set { .. }, _) | (CqlType::Map { .. }, Operator::ContainsKey) => true,
                (CqlType::Map { .. }, Operator::Entry) => index == 0,
                _ => false,
            };
        let bytes_are_enough = match self {
            Operator::Like(_) => true,
            Operator::Equal | Operator::In => of_value.equals_by_bytes(),
            Operator::Contains | Operator::ContainsKey | Operator::Entry => {
                !is_path && of_value.equals_by_bytes()
            }
            Operator::Less
            | Operator::LessOrEqual
            | Operator::Greater
            | Operator::GreaterOrEqual => of_value.compares_bytes() || of_value.is_integer(),
        };
        (!bytes_are_enough).then_some(of_value)
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
        self.accepts_value(ty, value, Operands::plain(others))
    }

    /// The same, when each element of the collection is a cell.
    pub fn accepts_cells<'r>(
        self,
        ty: &CqlType,
        cells: impl Iterator<Item = Cell<'r>>,
        others: &[impl AsRef<[u8]>],
    ) -> bool {
        self.accepts_cells_of(ty, cells, Operands::plain(others))
    }

    fn accepts_value<V: AsRef<[u8]>>(
        self,
        ty: &CqlType,
        value: &[u8],
        others: Operands<'_, V>,
    ) -> bool {
        let order = || others.order_of(ty, value);
        match self {
            Operator::Equal => others.equals(0, ty, value),
            Operator::Less => order() == Some(Ordering::Less),
            Operator::LessOrEqual => order().is_some_and(Ordering::is_le),
            Operator::Greater => order() == Some(Ordering::Greater),
            Operator::GreaterOrEqual => order().is_some_and(Ordering::is_ge),
            Operator::In => {
                let mut value = Compared::new(ty, value);
                others.values.iter().any(|other| value.equals(other.as_ref()))
            }
            Operator::Contains | Operator::ContainsKey | Operator::Entry => {
                self.accepts_frozen(ty, value, others)
            }
            Operator::Like(like) => {
                others.values.first().is_some_and(|other| like.accepts(value, other.as_ref()))
            }
        }
    }

    /// The conditions on elements, when the collection is one value.
    fn accepts_frozen<V: AsRef<[u8]>>(
        self,
        ty: &CqlType,
        value: &[u8],
        others: Operands<'_, V>,
    ) -> bool {
        let Ok(elements) = collection_elements(value) else { return false };
        let Some(mut first) = others.compared(0, self.type_of_value(ty, 0)) else { return false };
        match ty {
            CqlType::List { .. } | CqlType::Set { .. } => {
                elements.flatten().any(|item| first.equals(item))
            }
            CqlType::Map { value: of, .. } => {
                let mut second = others.compared(1, of);
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

    fn accepts_cells_of<'r, V: AsRef<[u8]>>(
        self,
        ty: &CqlType,
        cells: impl Iterator<Item = Cell<'r>>,
        others: Operands<'_, V>,
    ) -> bool {
        let mut cells = cells.peekable();
        // Nothing is brought into order for a row without the column.
        if cells.peek().is_none() {
            return false;
        }
        match ty {
            CqlType::Set { element: of, .. } => {
                let Some(path) = others.path(of) else { return false };
                cells.any(|cell| is_at(&cell, &path))
            }
            CqlType::Map { key, .. } if self == Operator::ContainsKey => {
                let Some(path) = others.path(key) else { return false };
                cells.any(|cell| is_at(&cell, &path))
            }
            CqlType::Map { key, value, .. } if self == Operator::Entry => {
                let Some(path) = others.path(key) else { return false };
                let Some(mut second) = others.compared(1, value) else { return false };
                cells.any(|cell| is_at(&cell, &path) && second.equals(cell.value))
            }
            CqlType::List { element: of, .. } | CqlType::Map { value: of, .. } => {
                let Some(mut wanted) = others.compared(0, of) else { return false };
                cells.any(|cell| wanted.equals(cell.value))
            }
            _ => false,
        }
    }
}

fn is_at(cell: &Cell<'_>, path: &[u8]) -> bool {
    cell.path.unwrap_or_default() == path
}

#[cfg(test)]
mod tests;
