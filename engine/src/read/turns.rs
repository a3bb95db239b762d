//! Turns of reads of ranges that wait for the disk: as many are under way as a part of the shard's memory holds.
//!
//! ```text
//! scan     windows and blocks of all lanes                       1/16 of the memory, first come, first served
//! lookup   blocks that are read side by side, and a long row     1/64 of the memory, first come, first served
//! ```
//!
//! 1. A lookup waits for no scan: many slow scans do not stop who asks an index for few rows.
//! 2. A lookup that turns out to be a scan takes the turn of one. One that has become a scan on the way holds both; a
//!    scan asks for no other turn, so none waits for one that waits for it.
//!
//! Not here: reads of keys, and searches for the nearest rows, which have their own part (`budget.rs`).

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
        let [scans, lookups] = [budget.range_reads_max(), budget.lookups_max()];
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
        self.usable_lookups().next()?;
        Some(turns.lookups.take(self.table.lookup_bytes() as u64).await)
    }
}
