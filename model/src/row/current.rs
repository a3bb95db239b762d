//! A stored row whose values are brought into the form of now (`types/vector.rs`), for readers.
//!
//! Only tables with a column of which [`CqlType::has_old_form`] says so need it. What is on disk
//! stays as it is.

use super::{Cell, RowBuilder, RowRef};
use crate::Result;
use crate::schema::Table;
use crate::types::{CqlType, current_form};

/// `row` with every value in the form of now, built in `scratch`.
pub fn in_current_form<'a>(
    row: RowRef<'_>,
    table: &Table,
    scratch: &'a mut Vec<u8>,
) -> Result<RowRef<'a>> {
    scratch.clear();
    let mut out = RowBuilder::begin(scratch, &row.head());
    if let Some(written) = row.written() {
        out.written(written);
    }
    for cell in row.cells() {
        let ty = table.column_by_id(cell.column).and_then(|column| value_type(&column.ty, &cell));
        match ty {
            Some(ty) => out.cell(&Cell { value: &current_form(ty, cell.value)?, ..cell }),
            None => out.cell(&cell),
        }
    }
    Ok(RowRef::trusted(scratch))
}

/// The type of a cell's value, if it has one.
fn value_type<'t>(column: &'t CqlType, cell: &Cell<'_>) -> Option<&'t CqlType> {
    let Some(path) = cell.path else { return (!cell.whole).then_some(column) };
    match column {
        CqlType::List { element, .. } => Some(element),
        CqlType::Map { value, .. } => Some(value),
        CqlType::Udt { definition, .. } => {
            let index = u16::from_be_bytes(path.try_into().ok()?);
            definition.fields.get(usize::from(index)).map(|(_, ty)| ty)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use uuid::Uuid;

    use super::*;
    use crate::row::RowHead;
    use crate::schema::{ColumnId, TableBuilder, TableId};

    /// `vector<smallint, 2>` as a value, an element of a list and the value of a map.
    #[test]
    fn vectors_stored_without_lengths_come_back_with_them() {
        let vector = CqlType::Vector { element: Arc::new(CqlType::Smallint), dimensions: 2 };
        let list = CqlType::List { element: Arc::new(vector.clone()), frozen: false };
        let (key, value) = (Arc::new(CqlType::Text), Arc::new(vector.clone()));
        let map = CqlType::Map { key, value, frozen: false };
        let table = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)))
            .partition_key("k", CqlType::Int)
            .and_then(|t| t.regular("a", CqlType::Int))
            .and_then(|t| t.regular("b", vector))
            .and_then(|t| t.regular("c", list))
            .and_then(|t| t.regular("d", map))
            .and_then(TableBuilder::build)
            .expect("a sound table");
        let (old, new) = ([0, 1, 0, 2], [2, 0, 1, 2, 0, 2]);
        let row = |value: &[u8]| {
            let mut out = Vec::new();
            let mut row = RowBuilder::begin(&mut out, &RowHead::bare(1));
            let cell = |column| Cell::live(ColumnId(column), 1, value);
            row.cell(&Cell::live(ColumnId(1), 1, &[0, 1, 0, 2]));
            row.cell(&cell(2));
            row.cell(&Cell { path: Some(b"path"), ..cell(3) });
            row.cell(&Cell { whole: true, ..Cell::dead(ColumnId(4), 0, 7) });
            row.cell(&Cell { path: Some(b"key"), ..cell(4) });
            out
        };
        let (stored, expected) = (row(&old), row(&new));
        let mut scratch = Vec::new();
        let read = in_current_form(RowRef::trusted(&stored), &table, &mut scratch);
        assert_eq!(read.expect("a sound row"), RowRef::trusted(&expected));
    }
}
