//! What is written to views: collected row by row, then put into records by their owners.
//!
//! ```text
//! row of a view before, after the write of its base          what is written to the view
//!   the same                                                 nothing
//!   same key, other cells or life                            marker, cells that differ, tombstones of cells gone
//!   another key, or one of them is absent                    row tombstone for the old one, all of the new one
//! ```
//!
//! Invariants
//! 1. Everything is written with the timestamp of one stamp, later than those that the owner of the base gave before.
//!    Only the deletion under a row that is written once more (`again`) is one microsecond older, so that it covers
//!    what the row was before.
//! 2. Rows are kept in the order of table, partition key and clustering, whatever the order in which they were made:
//!    the same write gives the same bytes.
//! 3. What is collected is counted in what the turn holds, and more than twice `VIEW_ROWS_BYTES_MAX` is
//!    `Error::Invalid`.
//!
//! Not here: the row of a view that a row of the base is shown as (`views/row.rs`), which rows a write changes
//! (`views.rs`), how rows of other shards get there (`shard/src/views.rs`).

use std::collections::BTreeMap;
use std::rc::Rc;

use model::cell::Life;
use model::mutation::MutationBuilder;
use model::row::{Cell, RowBuilder, RowHead};
use model::{Deletion, TableId, Token};

use super::row::{OwnCell, ViewRow, written};
use super::{ViewStamp, WithViews, deletion, too_many};
use crate::error::Result;
use crate::limits::{NEW_CELL_OVERHEAD_BYTES, VIEW_ROWS_BYTES_MAX};
use crate::planted::{Bug, planted};
use crate::read_before_write::Held;
use crate::table::Definition;

/// A partition of a view.
type Partition = (TableId, Vec<u8>);

/// Rows of views that are to be written.
pub(super) struct Made<'h> {
    stamp: ViewStamp,
    /// The encoded rows by their clusterings.
    rows: BTreeMap<Partition, BTreeMap<Vec<u8>, Vec<u8>>>,
    bytes: usize,
    held: Held<'h>,
}

impl<'h> Made<'h> {
    /// Begins with no rows. Those to come are written with this stamp, and their bytes are counted in `held`.
    pub(super) fn new(stamp: ViewStamp, held: Held<'h>) -> Made<'h> {
        Made { stamp, rows: BTreeMap::new(), bytes: 0, held }
    }

    /// The bytes that the write's turn holds, these rows among them.
    pub(super) fn held(&mut self) -> &mut Held<'h> {
        &mut self.held
    }

    pub(super) fn stamp(&self) -> ViewStamp {
        self.stamp
    }

    /// A row of a view becomes another, or comes, or goes.
    pub(super) fn changed(
        &mut self,
        view: &Rc<Definition>,
        old: Option<ViewRow>,
        new: Option<ViewRow>,
    ) -> Result<()> {
        match (old, new) {
            (old, new) if old == new => Ok(()),
            (Some(old), Some(new)) if is_same_row(&old, &new) => self.differs(view, &old, &new),
            (old, new) => {
                if let Some(old) = old {
                    self.goes(view, &old)?;
                }
                new.map_or(Ok(()), |new| self.comes(view, &new, Deletion::NONE))
            }
        }
    }

    /// Writes a row of a view once more, over everything that the view may have in its place.
    pub(super) fn again(&mut self, view: &Rc<Definition>, row: Option<ViewRow>) -> Result<()> {
        let before = Deletion { timestamp: self.stamp.timestamp_us - 1, local_s: self.stamp.now_s };
        row.map_or(Ok(()), |row| self.comes(view, &row, before))
    }

    fn goes(&mut self, view: &Rc<Definition>, row: &ViewRow) -> Result<()> {
        let mut out = Vec::new();
        let head =
            RowHead { deletion: deletion(self.stamp), ..RowHead::bare(self.stamp.timestamp_us) };
        RowBuilder::begin(&mut out, &head);
        self.add(view, row, out)
    }

    fn comes(&mut self, view: &Rc<Definition>, row: &ViewRow, over: Deletion) -> Result<()> {
        let mut out = Vec::with_capacity(row.bytes() + 64);
        let timestamp = self.stamp.timestamp_us;
        let head = RowHead { timestamp, marker: Some(row.life), deletion: over };
        let mut builder = RowBuilder::begin(&mut out, &head);
        if let Some(written) = written(&row.written, timestamp) {
            builder.written(written);
        }
        row.cells.iter().for_each(|cell| builder.cell(&of_row(cell, timestamp)));
        self.add(view, row, out)
    }

    /// Writes the cells that are other than before, and the marker, which says how long the row lives.
    fn differs(&mut self, view: &Rc<Definition>, old: &ViewRow, new: &ViewRow) -> Result<()> {
        let (mut out, timestamp) = (Vec::new(), self.stamp.timestamp_us);
        let life = if planted(Bug::ViewRowKeepsLife) { old.life } else { new.life };
        let head = RowHead { timestamp, marker: Some(life), deletion: Deletion::NONE };
        let mut builder = RowBuilder::begin(&mut out, &head);
        if let Some(written) = written(&new.written, timestamp) {
            builder.written(written);
        }
        let (mut olds, mut news) = (old.cells.iter().peekable(), new.cells.iter().peekable());
        loop {
            let place = |cell: &&&OwnCell| (cell.column, cell.path.clone());
            let (a, b) =
                (olds.peek().map(|cell| place(&cell)), news.peek().map(|cell| place(&cell)));
            match (a, b) {
                (None, None) => break,
                (Some(a), b) if b.as_ref().is_none_or(|b| a < *b) => {
                    let gone = olds.next().expect("it was just looked at");
                    if !planted(Bug::DeadCellStaysInView) {
                        let life = Life::Dead { local_s: self.stamp.now_s };
                        let cell = of_row(gone, timestamp);
                        builder.cell(&Cell { life, value: &[], written: None, ..cell });
                    }
                }
                (a, _) => {
                    let before =
                        if a == news.peek().map(|cell| place(&cell)) { olds.next() } else { None };
                    let cell = news.next().expect("it was just looked at");
                    if before != Some(cell) {
                        builder.cell(&of_row(cell, timestamp));
                    }
                }
            }
        }
        self.add(view, new, out)
    }

    fn add(&mut self, view: &Rc<Definition>, row: &ViewRow, bytes: Vec<u8>) -> Result<()> {
        let more = row.key.len() + row.clustering.len() + bytes.len() + NEW_CELL_OVERHEAD_BYTES;
        self.bytes += more;
        if self.bytes > 2 * VIEW_ROWS_BYTES_MAX {
            return Err(too_many());
        }
        self.held.add(more)?;
        let partition = (view.id, row.key.clone());
        self.rows.entry(partition).or_default().insert(row.clustering.clone(), bytes);
        Ok(())
    }

    /// Appends the mutations to the records of those who own them.
    pub(super) fn put(&self, is_ours: impl Fn(Token) -> bool, out: &mut WithViews) {
        for ((view, key), rows) in &self.rows {
            let token = Token::of_key(key);
            let record = if is_ours(token) { &mut out.record } else { &mut out.elsewhere };
            let mut mutation = MutationBuilder::begin(record, *view, token, key);
            for (clustering, row) in rows {
                mutation.row(clustering, |out| out.extend_from_slice(row));
            }
            mutation.finish();
        }
    }
}

fn is_same_row(old: &ViewRow, new: &ViewRow) -> bool {
    (&old.key, &old.clustering) == (&new.key, &new.clustering)
}

fn of_row(cell: &OwnCell, timestamp: i64) -> Cell<'_> {
    Cell {
        life: cell.life,
        path: cell.path.as_deref(),
        written: cell.written.as_deref(),
        ..Cell::live(cell.column, timestamp, &cell.value)
    }
}
