//! The wish of an operator that a table be merged whole, and how it comes true however busy the shard is.
//!
//! ```text
//! wish ─► the table gets no new merge of its own ─► what runs of it ends ─► is there a place? ─► all of it is merged
//!                                                     no: others may only begin beside something larger ─┘
//! ```
//!
//! 1. While a wish waits for merges of its table, the table gets no other new merge: those that run end, and then it is
//!    its turn.
//! 2. While a wish waits for a place among the running merges, another merge begins only if it is smaller than a part
//!    ([`COMPACTION_SMALL_DIVISOR`]) of the largest that runs. So what runs becomes smaller and smaller, until nothing does.
//!    That goes for merges of its own table, too: it may wait for long, and its files must not become too many.
//! 3. Once the merge of all has begun the table is like any other: what is flushed meanwhile is merged.
//!
//! Not here: what is merged (`job.rs`).

use std::cell::{Cell, RefCell};

use model::TableId;

use super::backlog::Underway;
use crate::engine::Engine;
use crate::limits::COMPACTION_SMALL_DIVISOR;

/// The wishes of a shard that wait.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    /// Their tables, each as often as it is wished for.
    tables: RefCell<Vec<TableId>>,
    /// How many of them lack nothing but a place.
    placeless: Cell<usize>,
}

/// A table is to be merged whole: it is kept from other new merges until [`Engine::compact_all`] has done so, or this
/// is dropped.
#[derive(Debug)]
pub struct WholeWish<'e> {
    underway: &'e Underway,
    table: TableId,
    waits: Cell<bool>,
    is_placeless: Cell<bool>,
}

impl Engine {
    /// An operator wants the table merged whole: [`compact_all`](Engine::compact_all) is asked until it is.
    pub fn wish_whole(&self, table: TableId) -> WholeWish<'_> {
        let wish = WholeWish {
            underway: &self.underway,
            table,
            waits: Cell::new(false),
            is_placeless: Cell::new(false),
        };
        wish.resume();
        wish
    }
}

impl WholeWish<'_> {
    /// Which table is to be merged.
    pub(super) fn table(&self) -> TableId {
        self.table
    }

    /// Only a place is missing.
    pub(super) fn wait_for_place(&self) {
        if !self.is_placeless.replace(true) {
            let placeless = &self.underway.wishes.placeless;
            placeless.set(placeless.get() + 1);
        }
    }

    /// The merge of all begins.
    pub(super) fn pause(&self) {
        if self.is_placeless.replace(false) {
            let placeless = &self.underway.wishes.placeless;
            placeless.set(placeless.get() - 1);
        }
        if self.waits.replace(false) {
            let mut tables = self.underway.wishes.tables.borrow_mut();
            let at = tables.iter().position(|table| *table == self.table);
            tables.swap_remove(at.expect("a wish that waits is known"));
        }
    }

    /// The merge has ended; there may be another window of time.
    pub(super) fn resume(&self) {
        if !self.waits.replace(true) {
            self.underway.wishes.tables.borrow_mut().push(self.table);
        }
    }
}

impl Drop for WholeWish<'_> {
    fn drop(&mut self) {
        self.pause();
    }
}

impl Underway {
    /// Whether a compaction of so many bytes of this table, for which no operator asked, may begin now.
    pub(super) fn has_spare_place_for(&self, table: TableId, bytes: u64) -> bool {
        let leaves_place = match self.wishes.placeless.get() {
            0 => !self.wishes.tables.borrow().contains(&table),
            _ => {
                let largest = self.largest_bytes();
                largest.is_some_and(|largest| bytes < largest / COMPACTION_SMALL_DIVISOR)
            }
        };
        leaves_place && self.has_place_for(bytes)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn wish(underway: &Underway, table: TableId) -> WholeWish<'_> {
        let (waits, is_placeless) = (Cell::new(false), Cell::new(false));
        let wish = WholeWish { underway, table, waits, is_placeless };
        wish.resume();
        wish
    }

    /// Before: small merges, one after the other, kept a merge of a whole table waiting for ever.
    #[test]
    fn what_begins_while_a_wish_waits_for_a_place_is_smaller_and_smaller() {
        let underway = Underway::default();
        let (wished, other) = (TableId(Uuid::from_u128(1)), TableId(Uuid::from_u128(2)));
        underway.begin(1000);
        let wish = wish(&underway, wished);
        assert!(!underway.has_spare_place_for(wished, 1), "nothing else of that table");
        assert!(underway.has_spare_place_for(other, 250));
        wish.wait_for_place();
        assert!(underway.has_spare_place_for(other, 249));
        assert!(underway.has_spare_place_for(wished, 249), "its files do not pile up meanwhile");
        underway.begin(240);
        underway.end(1000);
        assert!(!underway.has_spare_place_for(other, 60), "not as large as what could chase it");
        assert!(underway.has_spare_place_for(other, 59));
        underway.end(240);
        assert!(!underway.has_spare_place_for(other, 0), "now it is the wish's turn");
        assert!(underway.has_place_for(u64::MAX));
        wish.pause();
        assert!(underway.has_spare_place_for(wished, 1), "it is merged: others may be, too");
        wish.resume();
        wish.wait_for_place();
        drop(wish);
        assert!(underway.has_spare_place_for(wished, u64::MAX));
    }
}
