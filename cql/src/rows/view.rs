//! One row as terms see it: every selected cell found in one walk.
//!
//! ```text
//! wanted columns, ascending    2        5        9
//! cells of the row, likewise   2   3    5   5'        11      two elements of the column 5
//! slots                        2        5        none
//! ```
//!
//! 1. `RowView::find` puts the cells of wanted columns into slots; of a column with several cells the first. All of its
//!    cells come from `elements`, in another walk. The second such walk of a long row sets marks, and walks from then
//!    on begin at the mark before what is wanted: a SELECT may name thousands of elements of one map.
//!    Cells that these walks pass are counted, and those of the static row that are passed for the slots.
//! 2. Values of the clustering key are decoded once a row, into memory that is kept. Values of the partition key are
//!    found when they are asked for; of a key of many columns all at once, if a second one is, and they are counted.
//!
//! Invariants: wanted columns ascend, as cells do; values of cells are lent from where the row lies. Not here: what
//! terms make of cells (`source.rs`), which columns are wanted (`expr/row.rs`).

use std::cell::OnceCell;

use model::key::{partition_key_value, partition_key_values};
use model::read::PartitionRef;
use model::row::{Cell, Cells, ClusteringReader, RowRef, Written};
use model::schema::{Column, ColumnId, Table};
use smallvec::SmallVec;

use crate::bind::StatementTime;
use crate::error::Result;
use crate::expr::{ExpressionWork, InStatic, Wanted};
use crate::steps::step;

/// How many cells of a row are kept without allocating. Static ones are asked for seldom: none are.
const INLINE: usize = 16;

/// Cells from one mark of a long row to the next.
const MARKED_CELLS: usize = 64;
/// A row of fewer bytes has no marks: a walk over it is short.
const MARKED_ROW_BYTES: usize = 2 << 10;

/// A partition key of more columns has its values in a list, once a row asks for a second one.
const KEY_COLUMNS_FEW: usize = 16;

/// A place in a row, before a cell of this column and path.
struct Mark<'r> {
    column: ColumnId,
    path: Option<&'r [u8]>,
    cells: Cells<'r>,
}

/// The marks of a long row, which are set when it is walked for the second time.
#[derive(Default)]
struct Marks<'r> {
    /// Walks over the elements of the row so far.
    walks: std::cell::Cell<u32>,
    marks: OnceCell<Vec<Mark<'r>>>,
}

impl<'r> Marks<'r> {
    /// Cells of a row that begin shortly before the first with this column and a path of at least `first`.
    fn cells_near(
        &self,
        row: RowRef<'r>,
        (column, first): (ColumnId, Option<&[u8]>),
        work: &ExpressionWork,
    ) -> Cells<'r> {
        self.walks.set(self.walks.get().saturating_add(1));
        if self.walks.get() == 1 || row.bytes().len() < MARKED_ROW_BYTES {
            return row.cells();
        }
        let marks = self.marks.get_or_init(|| {
            let marks = marks_of(row);
            work.note_cells(marks.len() * MARKED_CELLS);
            marks
        });
        let behind = marks.partition_point(|mark| (mark.column, mark.path) < (column, first));
        behind.checked_sub(1).map_or_else(|| row.cells(), |at| marks[at].cells.clone())
    }
}

fn marks_of(row: RowRef<'_>) -> Vec<Mark<'_>> {
    let (mut marks, mut cells) = (Vec::new(), row.cells());
    loop {
        let before = cells.clone();
        let Some(Cell { column, path, .. }) = cells.next() else { return marks };
        marks.push(Mark { column, path, cells: before });
        step(MARKED_CELLS);
        // With the marked cell these are MARKED_CELLS.
        let _ = cells.nth(MARKED_CELLS - 2);
    }
}

/// The cells of one row that are wanted, in the order they are wanted.
type Slots<'r> = SmallVec<[Option<Cell<'r>>; INLINE]>;

/// Puts the cells of `wanted`, which ascends as cells do, into their slots; of a column with several cells the first.
/// The walk ends once every wanted column was found or passed. Gives how many cells it passed.
#[inline]
fn fill<'r>(slots: &mut [Option<Cell<'r>>], row: RowRef<'r>, wanted: &[ColumnId]) -> usize {
    let mut open = wanted.iter().zip(slots);
    let mut passed = 0;
    let Some((mut column, mut slot)) = open.next() else { return passed };
    for cell in row.cells() {
        passed += 1;
        while *column < cell.column {
            let Some(later) = open.next() else { return passed };
            (column, slot) = later;
        }
        if *column == cell.column {
            *slot = Some(cell);
            let Some(later) = open.next() else { return passed };
            (column, slot) = later;
        }
    }
    passed
}

/// The values of the partition key of one row, of a key of many columns as a list once a second one is asked for: to
/// find one, all before it are passed.
#[derive(Default)]
struct KeyValues<'r> {
    /// Columns of the key.
    columns: usize,
    /// Whether one was asked for.
    is_second: std::cell::Cell<bool>,
    all: OnceCell<Vec<&'r [u8]>>,
}

impl<'r> KeyValues<'r> {
    fn new(columns: usize) -> KeyValues<'r> {
        KeyValues { columns, ..KeyValues::default() }
    }

    #[inline]
    fn get(&self, key: &'r [u8], index: usize, work: &ExpressionWork) -> Result<&'r [u8]> {
        match self.columns > KEY_COLUMNS_FEW {
            true => self.get_of_many(key, index, work),
            false => Ok(partition_key_value(key, self.columns, index)?),
        }
    }

    fn get_of_many(&self, key: &'r [u8], index: usize, work: &ExpressionWork) -> Result<&'r [u8]> {
        if !self.is_second.replace(true) {
            step(index);
            work.note_cells(index);
            return Ok(partition_key_value(key, self.columns, index)?);
        }
        let all = self.all.get_or_init(|| {
            step(self.columns);
            work.note_cells(self.columns);
            partition_key_values(key, self.columns).map_while(Result::ok).collect()
        });
        Ok(all.get(index).copied().ok_or(model::Error::Malformed("partition key"))?)
    }
}

/// Where one value lies in the decoded clustering key.
type Span = (usize, usize);

/// Clustering values of one row in wire form; kept, so that their memory is.
#[derive(Debug, Default)]
pub(super) struct ClusteringValues {
    bytes: Vec<u8>,
    /// None of a column that the row leaves out.
    spans: Vec<Option<Span>>,
}

impl ClusteringValues {
    /// Decodes the values of these leading clustering columns; none without a key. Gives how many bytes they have.
    pub(super) fn decode(
        &mut self,
        columns: &[Column],
        key: Option<&[u8]>,
        written: Option<Written<'_>>,
    ) -> Result<usize> {
        self.bytes.clear();
        self.spans.clear();
        // `count(*)` wants none: no reader is made.
        let Some(key) = key.filter(|_| !columns.is_empty()) else { return Ok(0) };
        let mut reader = ClusteringReader::new(key, written);
        for column in columns {
            let start = self.bytes.len();
            let has_value = reader.next(column, &mut self.bytes)?;
            self.spans.push(has_value.then_some((start, self.bytes.len())));
        }
        Ok(self.bytes.len())
    }

    fn get(&self, index: usize) -> Option<&[u8]> {
        let (start, end) = (*self.spans.get(index)?)?;
        Some(&self.bytes[start..end])
    }
}

/// What terms may read when a row has come.
pub(super) struct RowParts<'r> {
    /// The partition: its key, its token and its static row.
    pub(super) partition: &'r PartitionRef<'r>,
    /// The values of the row's clustering columns.
    pub(super) clustering: &'r ClusteringValues,
    /// The row; `None` if only the static row answers.
    pub(super) row: Option<RowRef<'r>>,
    /// The values of the terms that are evaluated once.
    pub(super) once: &'r [Option<Vec<u8>>],
    /// The timestamp and the clock that the statement sees.
    pub(super) time: &'r StatementTime<'r>,
    /// What the terms of the row have taken.
    pub(super) work: &'r ExpressionWork,
}

/// One row of storage, with the cells that are wanted of it.
pub struct RowView<'r> {
    /// What the view is made of.
    pub(super) parts: RowParts<'r>,
    key: KeyValues<'r>,
    cells: Slots<'r>,
    static_cells: Vec<Option<Cell<'r>>>,
    marks: Marks<'r>,
    static_marks: Marks<'r>,
}

impl<'r> RowView<'r> {
    /// The view of a row before its cells are [found](RowView::find).
    #[inline(always)]
    pub(super) fn new(table: &Table, parts: RowParts<'r>) -> RowView<'r> {
        RowView {
            parts,
            key: KeyValues::new(table.partition_key().len()),
            cells: Slots::new(),
            static_cells: Vec::new(),
            marks: Marks::default(),
            static_marks: Marks::default(),
        }
    }

    /// Finds the cells that are wanted. Apart from `new`, on the view where it lies: the slots are long to move.
    #[inline]
    pub(super) fn find(&mut self, wanted: &Wanted) {
        self.cells.resize(wanted.regular.len(), None);
        if let Some(row) = self.parts.row {
            // The read counts the bytes of the row.
            let _ = fill(&mut self.cells, row, &wanted.regular);
        }
        self.static_cells.resize(wanted.statics.len(), None);
        if let Some(row) = self.parts.partition.static_row {
            let passed = fill(&mut self.static_cells, row, &wanted.statics);
            // What a read counts of the static row, it counts once a partition.
            self.parts.work.note_cells(passed);
        }
    }

    /// A value of the partition key.
    pub fn partition_value(&self, index: usize) -> Result<&'r [u8]> {
        self.key.get(self.parts.partition.key, index, self.parts.work)
    }

    /// The token of the partition.
    pub fn token(&self) -> i64 {
        self.parts.partition.token.0
    }

    /// A value of the clustering key; `None` if only the static row answers, or the row leaves it out.
    pub fn clustering_value(&self, index: usize) -> Option<&'r [u8]> {
        self.parts.clustering.get(index)
    }

    /// The cell in a slot of the row; `None` if the row has none, or nothing was looked for.
    pub fn cell(&self, slot: usize) -> Option<&Cell<'r>> {
        self.cells.get(slot)?.as_ref()
    }

    /// The cell in a slot of the static row.
    pub fn static_cell(&self, slot: usize) -> Option<&Cell<'r>> {
        self.static_cells.get(slot)?.as_ref()
    }

    /// The cells of a column that is stored by element, from the path `first` to `last`, both inside; with neither all.
    pub fn elements<'p>(
        &self,
        column: ColumnId,
        in_static: InStatic,
        (first, last): (Option<&'p [u8]>, Option<&'p [u8]>),
    ) -> impl Iterator<Item = Cell<'r>> + use<'r, 'p> {
        let RowParts { partition, row, work, .. } = self.parts;
        let (row, marks) = match in_static {
            InStatic::Yes => (partition.static_row, &self.static_marks),
            InStatic::No => (row, &self.marks),
        };
        let cells = row.map(|row| marks.cells_near(row, (column, first), work));
        let is_before = move |cell: &Cell<'r>| (cell.column, cell.path) < (column, first);
        let is_inside = move |cell: &Cell<'r>| {
            cell.column == column && last.is_none_or(|last| cell.path <= Some(last))
        };
        let cells = cells.into_iter().flatten().inspect(move |_| {
            step(1);
            work.note_cells(1);
        });
        cells.skip_while(is_before).take_while(is_inside)
    }
}
