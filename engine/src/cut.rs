//! A cut: the instant of a table to which it is truncated, once a snapshot has all that was before it.
//!
//! ```text
//! link_and_cut ─► what the snapshot has │ cut │ what is written, flushed later ─► truncate_to_cut: this stays
//! ```
//!
//! 1. All views at the cut are in the snapshot; the records of the log that are in no view then begin at `end` or later.
//! 2. Until the cut is used or ended no merge begins, so no view holds rows of both sides.
//! 3. A cut is in memory only: a crash leaves the table as it is.
//!
//! Not here: the snapshot (`snapshot.rs`), the truncation (`remove.rs`).

use std::cell::RefCell;

use uuid::Uuid;

use crate::commitlog::Position;
use crate::table::View;

/// The cut of a table, while it has one.
#[derive(Debug, Default)]
pub(crate) struct CutCell(RefCell<Option<Cut>>);

/// See the module.
#[derive(Debug)]
pub(crate) struct Cut {
    /// Where in the log the records behind the cut begin.
    pub(crate) end: Position,
    /// Files flushed since: what they hold came behind the cut.
    since: Vec<Uuid>,
}

impl Cut {
    /// Whether what a view holds came behind the cut.
    pub(crate) fn is_behind(&self, view: &View) -> bool {
        self.since.contains(&view.entry.sstable)
    }
}

impl CutCell {
    /// Makes the cut; the views of now are before it. One that was left is forgotten.
    pub(crate) fn begin(&self, end: Position) {
        self.0.replace(Some(Cut { end, since: Vec::new() }));
    }

    /// Takes the cut out: merges may begin again.
    pub(crate) fn end(&self) -> Option<Cut> {
        self.0.take()
    }

    /// Whether there is one.
    pub(crate) fn is_made(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// A view was flushed.
    pub(crate) fn flushed(&self, view: &View) {
        if let Some(cut) = &mut *self.0.borrow_mut() {
            cut.since.push(view.entry.sstable);
        }
    }
}
