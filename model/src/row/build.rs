//! Writes a row's bytes at the end of a caller's buffer: head first, then cells in order.
//!
//! The builder asserts the order of cells, since a row out of order would be read wrongly forever.
//!
//! 1. `begin` writes the head: flags, timestamp, marker and deletion. 2. `written` may follow, once. 3. `cell` appends
//!    cells.
//!
//! Flags are set as cells come: `MORTAL` of the row when a cell expires or is a tombstone. So a reader that finds the
//! flag unset need not look at the cells for either.
//!
//! Invariants: cells ascend by column, and of one column by path, which the callers see to (the columns are asserted,
//! the paths are not); a cell has a timestamp of its own only if it differs from the row's; a dead cell has no value.
//!
//! Not here: the form of a row, and reading it (`row.rs`), merging two (`merge.rs`), which cells a statement writes
//! (`cql/src/plan/cells.rs`).

use super::{
    Cell, DEAD, DELETED, EXPIRES, MARKER, MARKER_EXPIRES, MORTAL, OWN_TIMESTAMP, PATH,
    PATH_WRITTEN, WHOLE, WRITTEN, Written,
};
use crate::bytes::put_bytes;
use crate::cell::{Deletion, Expiry, Life};
use crate::schema::ColumnId;

/// What stands before the cells of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowHead {
    /// The marker's timestamp, and that of every cell that has none of its own. Microseconds.
    pub timestamp: i64,
    /// The row marker that an INSERT leaves; never `Dead`.
    pub marker: Option<Life>,
    /// The row tombstone.
    pub deletion: Deletion,
}

impl RowHead {
    /// A row without marker and deletion: an UPDATE.
    pub fn bare(timestamp: i64) -> Self {
        RowHead { timestamp, marker: None, deletion: Deletion::NONE }
    }
}

/// Appends one row to a buffer.
#[derive(Debug)]
pub struct RowBuilder<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    timestamp: i64,
    last: Option<ColumnId>,
}

impl<'o> RowBuilder<'o> {
    /// Writes the head; cells follow.
    #[inline]
    pub fn begin(out: &'o mut Vec<u8>, head: &RowHead) -> Self {
        let start = out.len();
        out.push(0);
        out.extend_from_slice(&head.timestamp.to_le_bytes());
        let mut flags = 0;
        match head.marker {
            None => {}
            Some(Life::Live) => flags |= MARKER,
            Some(Life::Expiring(expiry)) => {
                flags |= MARKER | MARKER_EXPIRES | MORTAL;
                put_expiry(out, expiry);
            }
            Some(Life::Dead { .. }) => unreachable!("a dead marker is no marker"),
        }
        if !head.deletion.is_none() {
            flags |= DELETED | MORTAL;
            out.extend_from_slice(&head.deletion.timestamp.to_le_bytes());
            out.extend_from_slice(&head.deletion.local_s.to_le_bytes());
        }
        out[start] = flags;
        RowBuilder { out, start, timestamp: head.timestamp, last: None }
    }

    /// Keeps the clustering values as they were written. Before all cells.
    pub fn written(&mut self, written: Written<'_>) {
        assert!(self.last.is_none() && self.out[self.start] & WRITTEN == 0, "once, before cells");
        self.out[self.start] |= WRITTEN;
        self.out.extend_from_slice(&written.at.to_le_bytes());
        put_bytes(self.out, written.values);
    }

    /// Appends a cell; cells come in ascending order.
    #[inline]
    pub fn cell(&mut self, cell: &Cell<'_>) {
        assert!(
            self.last.is_none_or(|last| last < cell.column
                || (last == cell.column && (cell.path.is_some() || cell.whole))),
            "cells ascend"
        );
        self.last = Some(cell.column);
        self.out.extend_from_slice(&cell.column.0.to_le_bytes());
        let at = self.out.len();
        self.out.push(0);
        let mut flags = 0;
        if cell.timestamp != self.timestamp {
            flags |= OWN_TIMESTAMP;
            self.out.extend_from_slice(&cell.timestamp.to_le_bytes());
        }
        match cell.life {
            Life::Live => {}
            Life::Expiring(expiry) => {
                flags |= EXPIRES;
                put_expiry(self.out, expiry);
            }
            Life::Dead { local_s } => {
                flags |= DEAD;
                self.out.extend_from_slice(&local_s.to_le_bytes());
            }
        }
        if let Some(path) = cell.path {
            flags |= PATH;
            put_bytes(self.out, path);
            if let Some(written) = cell.written {
                flags |= PATH_WRITTEN;
                put_bytes(self.out, written);
            }
        }
        if cell.whole {
            assert!(flags & (DEAD | PATH) == DEAD, "a whole collection only dies");
            flags |= WHOLE;
        }
        if flags & DEAD == 0 {
            put_bytes(self.out, cell.value);
        }
        if flags & (DEAD | EXPIRES) != 0 {
            self.out[self.start] |= MORTAL;
        }
        self.out[at] = flags;
    }

    /// Whether no cell was written.
    pub fn has_no_cells(&self) -> bool {
        self.last.is_none()
    }
}

#[inline]
fn put_expiry(out: &mut Vec<u8>, expiry: Expiry) {
    out.extend_from_slice(&expiry.ttl_s.to_le_bytes());
    out.extend_from_slice(&expiry.at_s.to_le_bytes());
}
