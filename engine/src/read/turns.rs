//! Turns of reads of ranges that wait for the disk: as many are under way as a part of the shard's memory holds.
//!
//! ```text
//! scan     windows and blocks of all lanes                       1/16 of the memory, first come, first served
//! lookup   blocks that are read side by side, and a long row     1/64 of the memory, first come, first served
//!          and what a scan holds while a file lacks the index
//! ```
//!
//! 1. A lookup waits for no scan: many slow scans do not stop who asks an index for few rows.
//! 2. A lookup that turns out to be a scan, or becomes one on the way, gives its turn back and waits for that of a
//!    scan: none holds a turn while it waits for another.
//! 3. A search for the nearest rows has a part of its own (`budget.rs`), and takes a turn of these too where it goes
//!    over a range.
//!
//! Not here: reads of keys, which take no turn, also where they look up inside a partition.

use super::{Read, WaitPolicy};
use crate::budget::Budget;
use crate::semaphore::{Permit, Semaphore};

/// The bytes that reads of ranges of one shard may hold.
#[derive(Debug)]
pub(crate) struct RangeTurns {
    pub(crate) scans: Semaphore,
    pub(crate) lookups: Semaphore,
}

impl RangeTurns {
    /// What this memory has for them.
    pub(crate) fn new(budget: &Budget) -> RangeTurns {
        let [scans, lookups] = [budget.scans_max(), budget.lookups_max()];
        let [scans, lookups] = [scans, lookups].map(|bytes| Semaphore::new(bytes as u64));
        RangeTurns { scans, lookups }
    }
}

impl<'r> Read<'r> {
    /// The turn of a scan, once it has come; `None` for a read that waits for nothing.
    pub(super) async fn turn_of_scan(&self) -> Option<Permit<'r>> {
        let turns = self.turns.filter(|_| self.wait_policy == WaitPolicy::Endless)?;
        Some(turns.scans.take(self.table.scan_bytes() as u64).await)
    }

    /// The turn of a read that may use an index, once it has come; `None` for one that may not, or waits for nothing.
    pub(super) async fn turn_of_lookup(&self) -> Option<Permit<'r>> {
        let turns = self.turns.filter(|_| self.wait_policy == WaitPolicy::Endless)?;
        let (mut lookups, views) = (self.usable_lookups().peekable(), self.table.views());
        lookups.peek()?;
        let goes_through_rows = lookups
            .any(|lookup| views.iter().any(|view| view.sstable.index(lookup.index).is_none()));
        let scan_bytes = if goes_through_rows { self.table.scan_bytes() } else { 0 };
        let bytes = self.table.lookup_bytes().saturating_add(scan_bytes);
        Some(turns.lookups.take(bytes as u64).await)
    }
}
