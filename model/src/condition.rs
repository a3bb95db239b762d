//! What must be so for a conditional write (LWT) to take place: plain data that travels with the mutation, and how it
//! is judged.
//!
//! ```text
//! IF v = 1 AND m['a'] IN (..)   ─► one Condition each: row, column, part of it, operator, values
//! the row as it is              ─► current value of the part, or null ─► holds, or not
//! ```
//!
//! The rules of null are Cassandra's (`ColumnCondition`): `=` and `IN` with null hold where there is no value, `!=`
//! with null where there is one, and a value that is not there differs from every other.
//!
//! Not here: comparing values (`read/filter.rs`), the bytes (`condition/form.rs`), who reads the row
//! (`engine/src/read_before_write`).

mod form;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use form::{Conditions, ConditionsBuilder};

use crate::limits::{CONDITION_COMPARED_BYTES_MAX, FILTER_WORK_MAX};
use crate::ordered::{self, FormWork};
use crate::read::Operator;
use crate::row::{Cell, RowRef, collected};
use crate::schema::{Column, ColumnId, ColumnKind, Table};
use crate::types::{Compared, CqlType, collection_elements, tuple_fields};
use crate::{Error, Result};

/// One condition on one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition<'a> {
    /// The row that is looked at; `None` is the static row.
    pub clustering: Option<&'a [u8]>,
    /// What must be so.
    pub test: Test<'a>,
}

/// What must be so of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test<'a> {
    /// `IF EXISTS`: there is such a row.
    Exists,
    /// `IF NOT EXISTS`: there is none.
    NotExists,
    /// `IF c = v`: a column, or a part of it, compares with values.
    Column(ColumnTest<'a>),
}

/// A comparison of a column with values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnTest<'a> {
    /// Id of the column.
    pub column: ColumnId,
    /// What of the column is compared.
    pub part: Part<'a>,
    /// How it is compared.
    pub comparison: Comparison,
    /// What it is compared with: one value, or several for `IN`.
    pub values: Values<'a>,
}

/// What of a column is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// All of it.
    Whole,
    /// The value of this key of a map, in CQL wire form.
    Key(&'a [u8]),
    /// The element of a list with this index, from 0.
    Index(u32),
    /// The field of a user type with this index.
    Field(u16),
}

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// As filters do.
    Is(Operator),
    /// Not equal: `!=`.
    NotEqual,
}

/// Values in CQL wire form, some of which may be null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values<'a>(form::ValueBytes<'a>);

impl Condition<'_> {
    /// Whether it holds for the row that it names, as a reader sees it; `None` if there is no such row.
    pub fn holds(&self, table: &Table, row: Option<RowRef<'_>>) -> Result<bool> {
        match &self.test {
            Test::Exists => Ok(row.is_some()),
            Test::NotExists => Ok(row.is_none()),
            Test::Column(test) => {
                let column = table.column_by_id(test.column);
                let gone = || Error::invalid("a column of the conditions was dropped");
                test.holds(column.ok_or_else(gone)?, row)
            }
        }
    }
}

impl ColumnTest<'_> {
    fn holds(&self, column: &Column, row: Option<RowRef<'_>>) -> Result<bool> {
        let of_column = |cell: &Cell<'_>| cell.column == column.id;
        let cells = || row.into_iter().flat_map(|row| row.cells()).filter(of_column);
        self.check_column(&column.ty, cells())?;
        if let Comparison::Is(
            operator @ (Operator::Contains | Operator::ContainsKey | Operator::Entry),
        ) = self.comparison
        {
            let values: Vec<&[u8]> = self.values.iter().flatten().collect();
            if values.is_empty() {
                return Err(null_compared(operator));
            }
            let of_value = |(index, value): (usize, &&[u8])| {
                FormWork::of(operator.type_of_value(&column.ty, index), value).units()
            };
            let of_cells = operator.form_work(&column.ty, cells().map(|cell| cell.value));
            check_form_work(values.iter().enumerate().map(of_value).chain([of_cells]))?;
            return Ok(match column.ty.is_multi_cell() {
                true => operator.accepts_cells(&column.ty, cells(), &values),
                false => cells()
                    .next()
                    .is_some_and(|cell| operator.accepts(&column.ty, cell.value, &values)),
            });
        }
        let ty = self.part.ty(&column.ty)?;
        if let (Part::Key(key), CqlType::Map { key: of_keys, frozen, .. }) = (self.part, &column.ty)
        {
            // All keys of one that is frozen are compared with that one.
            let of_cells = cells().filter(|_| *frozen);
            let of_cells = of_cells.map(|cell| FormWork::of(&column.ty, cell.value).units());
            check_form_work(of_cells.chain([FormWork::of(of_keys, key).units()]))?;
        }
        let current = self.part.value(&column.ty, cells())?;
        self.compare(ty, current.as_deref())
    }

    /// Refuses a column that would hold up the shard: a condition is judged in one step. Of a column stored by element
    /// only the element that is named is compared.
    fn check_column<'r>(&self, ty: &CqlType, cells: impl Iterator<Item = Cell<'r>>) -> Result<()> {
        if ty.is_multi_cell() && self.part != Part::Whole {
            return self.check_bytes(self.part.ty(ty)?, 0);
        }
        let bytes = cells.map(|cell| cell.value.len() + cell.path.map_or(0, <[u8]>::len));
        self.check_bytes(ty, bytes.sum())
    }

    /// The same of so many bytes of a value. Those that are compared as they lie take no time to speak of.
    fn check_bytes(&self, ty: &CqlType, stored: usize) -> Result<()> {
        let key = if let Part::Key(key) = self.part { key.len() } else { 0 };
        let values = self.values.iter().flatten().map(<[u8]>::len).sum::<usize>();
        let compared = if ty.compares_bytes() { 0 } else { values + stored };
        if key + compared <= CONDITION_COMPARED_BYTES_MAX {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "A condition compares more than {CONDITION_COMPARED_BYTES_MAX} bytes, of its values and what is stored together: compare less"
        )))
    }

    fn compare(&self, ty: &CqlType, current: Option<&[u8]>) -> Result<bool> {
        self.check_bytes(ty, current.map_or(0, <[u8]>::len))?;
        let compared = self.values.iter().flatten().chain(current);
        check_form_work(compared.map(|value| FormWork::of(ty, value).units()))?;
        let is_any = || {
            let mut current = current.map(|current| Compared::new(ty, current));
            self.values.iter().any(|value| match (value, &mut current) {
                (Some(value), Some(current)) => current.equals(value),
                (value, current) => value.is_none() && current.is_none(),
            })
        };
        match self.comparison {
            Comparison::NotEqual => Ok(!is_any()),
            Comparison::Is(Operator::Equal | Operator::In) => Ok(is_any()),
            Comparison::Is(operator) => {
                let Some(value) = self.values.iter().next().flatten() else {
                    return Err(null_compared(operator));
                };
                Ok(current.is_some_and(|current| operator.accepts(ty, current, &[value])))
            }
        }
    }
}

/// Refuses values that take too long to be brought into order beside their bytes: these are the units of each.
fn check_form_work(each: impl Iterator<Item = u64>) -> Result<()> {
    if each.fold(0, u64::saturating_add) <= FILTER_WORK_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "A condition takes more than {FILTER_WORK_MAX} units of work to bring decimals and tuples into order: compare \
         fewer, shorter decimals, or whole tuples"
    )))
}

impl Part<'_> {
    /// The type of a part of a column of this type.
    fn ty<'t>(&self, ty: &'t CqlType) -> Result<&'t CqlType> {
        match (self, ty) {
            (Part::Whole, ty) => Ok(ty),
            (Part::Key(_), CqlType::Map { value, .. }) => Ok(value),
            (Part::Index(_), CqlType::List { element, .. }) => Ok(element),
            (Part::Field(index), CqlType::Udt { definition, .. }) => {
                let field = definition.fields.get(usize::from(*index));
                field.map(|(_, ty)| ty).ok_or(Error::Malformed("condition: field"))
            }
            _ => Err(Error::Malformed("condition: part")),
        }
    }

    /// The value of the part, of all live cells of the column; `None` if there is none.
    fn value<'r>(
        &self,
        ty: &CqlType,
        mut cells: impl Iterator<Item = Cell<'r>>,
    ) -> Result<Option<Cow<'r, [u8]>>> {
        if ty.is_multi_cell() {
            return match self {
                Part::Whole => Ok(collected(ty, cells)?.map(Cow::Owned)),
                Part::Index(index) => Ok(cells.nth(*index as usize).map(|cell| cell.value.into())),
                Part::Field(index) => Ok(value_at(cells, &index.to_be_bytes())),
                Part::Key(key) => {
                    let mut path = Vec::new();
                    if let CqlType::Map { key: ty, .. } = ty {
                        ordered::encode(ty, key, &mut path)?;
                    }
                    Ok(value_at(cells, &path))
                }
            };
        }
        let Some(value) = cells.next().map(|cell| cell.value) else { return Ok(None) };
        let part = match (self, ty) {
            (Part::Whole, _) => Some(value),
            (Part::Index(index), _) => {
                collection_elements(value)?.nth(*index as usize).transpose()?
            }
            (Part::Field(index), _) => {
                tuple_fields(value).nth(usize::from(*index)).transpose()?.flatten()
            }
            (Part::Key(key), CqlType::Map { key: ty, .. }) => {
                let mut items = collection_elements(value)?.doubled();
                let (mut found, mut key) = (None, Compared::new(ty, key));
                while let (Some(item), Some(value)) = (items.next(), items.next()) {
                    if key.equals(item?) {
                        found = Some(value?);
                        break;
                    }
                }
                found
            }
            (Part::Key(_), _) => None,
        };
        Ok(part.map(Cow::Borrowed))
    }
}

/// In Cassandra's words, which says so where it comes to the comparison, and not before.
#[cold]
fn null_compared(operator: Operator) -> Error {
    let symbol = operator.symbol();
    Error::invalid(format!("Invalid comparison with null for operator \"{symbol}\""))
}

/// The value of the element at a path.
fn value_at<'r>(mut cells: impl Iterator<Item = Cell<'r>>, path: &[u8]) -> Option<Cow<'r, [u8]>> {
    cells.find(|cell| cell.path == Some(path)).map(|cell| cell.value.into())
}

/// Which columns of a row come back when a condition does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// All static columns, and not only those of conditions.
    pub statics: bool,
    /// All regular columns, and not only those of conditions.
    pub regulars: bool,
}

impl Wanted {
    /// The columns of conditions.
    pub const TESTED: Wanted = Wanted { statics: false, regulars: false };

    /// Whether all columns of a kind are wanted.
    pub fn all_of(&self, kind: ColumnKind) -> bool {
        match kind {
            ColumnKind::Static => self.statics,
            ColumnKind::Regular => self.regulars,
            ColumnKind::PartitionKey | ColumnKind::Clustering => false,
        }
    }
}
