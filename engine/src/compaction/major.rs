//! Major compaction on request: an operator asks that a table be merged whole, and how that gets its turn on a busy
//! shard.
//!
//! ```text
//! request ─► the table gets no new merge of its own ─► its running merges end ─► is a slot free? ─► it is merged whole
//!                                                     no: others may only begin beside something larger ─┘
//! ```
//!
//! 1. While a request waits for merges of its table, the table gets no other new merge: those that run end, and then
//!    the request is served.
//! 2. While a request waits for a slot among the running merges, another merge begins only if it is smaller than 1/4
//!    ([`COMPACTION_SMALL_DIVISOR`]) of the largest that runs. So what runs becomes smaller and smaller, until nothing
//!    does. That holds for merges of its own table, too: it may wait for long, and its files must not become too many.
//! 3. Once the major compaction has begun the table is like any other: what is flushed meanwhile is merged.
//!
//! Not here: what is merged (`job.rs`).

use std::cell::{Cell, RefCell};

use model::TableId;

use super::backlog::CompactionState;
use crate::engine::Engine;
use crate::limits::COMPACTION_SMALL_DIVISOR;

/// The requests of a shard that wait.
#[derive(Debug, Default)]
pub(super) struct MajorRequests {
    /// Their tables, each once for each request.
    tables: RefCell<Vec<TableId>>,
    /// How many of them wait for nothing but a slot.
    waiting_for_slot: Cell<usize>,
}

/// A table is to be merged whole: it gets no other new merge until [`Engine::compact_major`] has merged it, or this is
/// dropped.
#[derive(Debug)]
pub struct MajorRequest<'e> {
    compactions: &'e CompactionState,
    table: TableId,
    waits: Cell<bool>,
    waits_for_slot: Cell<bool>,
}

impl Engine {
    /// An operator wants the table merged whole: [`compact_major`](Engine::compact_major) is asked until it is.
    pub fn request_major(&self, table: TableId) -> MajorRequest<'_> {
        let request = MajorRequest {
            compactions: &self.compactions,
            table,
            waits: Cell::new(false),
            waits_for_slot: Cell::new(false),
        };
        request.resume();
        request
    }
}

impl MajorRequest<'_> {
    /// Which table is to be merged.
    pub(super) fn table(&self) -> TableId {
        self.table
    }

    /// Only a slot is missing.
    pub(super) fn wait_for_slot(&self) {
        if !self.waits_for_slot.replace(true) {
            let waiting = &self.compactions.major_requests.waiting_for_slot;
            waiting.set(waiting.get() + 1);
        }
    }

    /// The merge of all begins.
    pub(super) fn pause(&self) {
        if self.waits_for_slot.replace(false) {
            let waiting = &self.compactions.major_requests.waiting_for_slot;
            waiting.set(waiting.get() - 1);
        }
        if self.waits.replace(false) {
            let mut tables = self.compactions.major_requests.tables.borrow_mut();
            let at = tables.iter().position(|table| *table == self.table);
            tables.swap_remove(at.expect("a request that waits is known"));
        }
    }

    /// The merge has ended; there may be another window of time.
    pub(super) fn resume(&self) {
        if !self.waits.replace(true) {
            self.compactions.major_requests.tables.borrow_mut().push(self.table);
        }
    }
}

impl Drop for MajorRequest<'_> {
    fn drop(&mut self) {
        self.pause();
    }
}

impl CompactionState {
    /// Whether a compaction of so many bytes of this table, for which no operator asked, may begin now.
    pub(super) fn may_start_automatic(&self, table: TableId, bytes: u64) -> bool {
        let leaves_slot = match self.major_requests.waiting_for_slot.get() {
            0 => !self.major_requests.tables.borrow().contains(&table),
            _ => {
                let largest = self.largest_bytes();
                largest.is_some_and(|largest| bytes < largest / COMPACTION_SMALL_DIVISOR)
            }
        };
        leaves_slot && self.may_start(bytes)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn request(compactions: &CompactionState, table: TableId) -> MajorRequest<'_> {
        let (waits, waits_for_slot) = (Cell::new(false), Cell::new(false));
        let request = MajorRequest { compactions, table, waits, waits_for_slot };
        request.resume();
        request
    }

    /// Before: small merges, one after the other, kept a merge of a whole table waiting for ever.
    #[test]
    fn what_begins_while_a_request_waits_for_a_slot_is_smaller_and_smaller() {
        let compactions = CompactionState::default();
        let (asked_for, other) = (TableId(Uuid::from_u128(1)), TableId(Uuid::from_u128(2)));
        compactions.begin(1000);
        let request = request(&compactions, asked_for);
        assert!(!compactions.may_start_automatic(asked_for, 1), "nothing else of that table");
        assert!(compactions.may_start_automatic(other, 250));
        request.wait_for_slot();
        assert!(compactions.may_start_automatic(other, 249));
        assert!(
            compactions.may_start_automatic(asked_for, 249),
            "its files do not pile up meanwhile"
        );
        compactions.begin(240);
        compactions.end(1000);
        assert!(!compactions.may_start_automatic(other, 60), "not as large as what could chase it");
        assert!(compactions.may_start_automatic(other, 59));
        compactions.end(240);
        assert!(!compactions.may_start_automatic(other, 0), "now it is the request's turn");
        assert!(compactions.may_start(u64::MAX));
        request.pause();
        assert!(compactions.may_start_automatic(asked_for, 1), "it is merged: others may be, too");
        request.resume();
        request.wait_for_slot();
        drop(request);
        assert!(compactions.may_start_automatic(asked_for, u64::MAX));
    }
}
