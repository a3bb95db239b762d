//! What a statement does to the cells of its columns, while it is compiled.
//!
//! ```text
//! assignments, deletions ─► Cells: those of one column's elements together, a whole value alone
//!      ─► plain cells in the order of storage · counters that are added to · lists changed by index or by value
//! ```
//!
//! Not here: what an assignment says (`write.rs`).

use std::collections::HashMap;

use model::schema::{Column, ColumnId, ColumnKind};
use model::{CqlType, Table};

use super::has_kind;
use crate::error::{Error, Result};
use crate::expr::Term;
use crate::plan::{CellOp, CellWrite, CounterWrite, ListEnd, ListOpPlan, ListWrite};
use crate::steps::step;

/// The cells a statement writes.
#[derive(Default)]
pub(super) struct Cells {
    pub(super) statics: Vec<CellWrite>,
    pub(super) rows: Vec<CellWrite>,
    /// Where the cell of each column stands among those of its kind.
    places: HashMap<ColumnId, Place>,
}

/// The place of a column's cell, and whether its operations delete the whole of it.
struct Place {
    index: usize,
    deletes: bool,
}

impl Cells {
    fn of(&mut self, column: &Column) -> &mut Vec<CellWrite> {
        if has_kind(&[column], ColumnKind::Static) { &mut self.statics } else { &mut self.rows }
    }

    /// Adds an operation of a column that has none yet.
    pub(super) fn push(&mut self, column: &Column, op: CellOp) {
        let deletes = op == CellOp::Delete;
        let index = self.of(column).len();
        self.places.insert(column.id, Place { index, deletes });
        self.of(column).push(CellWrite {
            column: column.id,
            name: column.name.clone(),
            ty: column.ty.clone(),
            ops: vec![op],
        });
    }

    /// The value of a row of a dense table that says nothing but its key: empty if the table declares none.
    pub(super) fn set_compact_value(&mut self, table: &Table) -> Result<()> {
        let Some(column) = table.compact_value().filter(|_| self.rows.is_empty()) else {
            return Ok(());
        };
        if column.ty != CqlType::Empty {
            return Err(Error::invalid(format!(
                "Column {} is mandatory for this COMPACT STORAGE table",
                column.name
            )));
        }
        self.push(column, CellOp::Set(Term::constant([], CqlType::Empty)));
        Ok(())
    }

    /// Adds an operation. Those of elements are done together; a whole value stands alone.
    pub(super) fn assign(&mut self, column: &Column, op: CellOp) -> Result<()> {
        step(1);
        let is_whole = |op: &CellOp| {
            step(1);
            matches!(op, CellOp::Set(_))
        };
        let name = &column.name;
        let Some(place) = self.places.get_mut(&column.id) else {
            self.push(column, op);
            return Ok(());
        };
        if op == CellOp::Delete && std::mem::replace(&mut place.deletes, true) {
            return Ok(());
        }
        let index = place.index;
        let cell = &mut self.of(column)[index];
        // A whole value is the only operation, and so the first.
        if is_whole(&op) || cell.ops.first().is_some_and(is_whole) {
            return Err(Error::Syntax(format!("Multiple incompatible setting of column {name}")));
        }
        cell.ops.push(op);
        Ok(())
    }
}

/// The cells that are no counters, or delete one; and apart from them what is added to counters.
pub(super) fn without_counters(cells: Vec<CellWrite>) -> (Vec<CellWrite>, Vec<CounterWrite>) {
    let mut counters = Vec::new();
    let mut others = Vec::with_capacity(cells.len());
    for mut cell in cells {
        let column = cell.column;
        cell.ops.retain(|op| match op {
            CellOp::Count(op) => {
                counters.push(CounterWrite { column, op: op.clone() });
                false
            }
            _ => true,
        });
        if !cell.ops.is_empty() {
            others.push(cell);
        }
    }
    (others, counters)
}

/// The cells in the order of storage, and apart from them what happens to lists that are changed by index or by value.
pub(super) fn without_lists(cells: Vec<CellWrite>) -> (Vec<CellWrite>, Vec<ListWrite>) {
    let reads = |cell: &CellWrite| cell.ops.iter().any(|op| matches!(op, CellOp::List(_)));
    let (lists, mut cells): (Vec<_>, Vec<_>) = cells.into_iter().partition(reads);
    let lists = lists.into_iter().flat_map(|cell| {
        let column = cell.column;
        cell.ops.into_iter().map(move |op| ListWrite { column, op: list_op(op) })
    });
    cells.sort_by_key(|cell| cell.column);
    (cells, lists.collect())
}

/// An operation of a list among others that count its elements.
fn list_op(op: CellOp) -> ListOpPlan {
    match op {
        CellOp::List(op) => op,
        CellOp::Add(values) => ListOpPlan::Add(values, ListEnd::Back),
        CellOp::Prepend(values) => ListOpPlan::Add(values, ListEnd::Front),
        CellOp::Delete => ListOpPlan::Clear,
        other => unreachable!("{other:?} stands alone, or is of no list"),
    }
}
