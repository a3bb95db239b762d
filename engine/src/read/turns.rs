//! Turns of reads that wait for the disk and may hold much: as many are under way as a part of the memory holds.
//!
//! ```text
//! scan     windows and blocks of all lanes                       1/16 of the memory, first come, first served
//! lookup   blocks that are read side by side, and a long row     1/64 of the memory, first come, first served
//!          and what a scan holds while a file lacks the index
//! key      long blocks of all files that may have the key, its   1/16 of the memory, first come, first served
//!          long rows in memtables, and the row made of them;
//!          most reads have none
//! ```
//!
//! 1. A lookup waits for no scan: many slow scans do not stop who asks an index for few rows.
//! 2. A lookup that turns out to be a scan, or becomes one on the way, gives its turn back and waits for that of a
//!    scan: none holds a turn while it waits for another.
//! 3. A search for the nearest rows has a part of its own (`budget.rs`), and takes a turn of these too where it goes
//!    over a range.
//! 4. A read of several keys has the turn of one at a time, and keeps nothing of what it held while it waits for the
//!    next. What it has given to its sink is the sink's to count.
//!
//! Not here: short blocks of reads of keys, which are as many as requests in flight, and the pieces in which they walk
//! through files (`sstable/window.rs`).

use model::Token;

use super::{Read, Scratch, WaitPolicy};
use crate::budget::Budget;
use crate::engine::Engine;
use crate::limits::{LONG_BLOCK_BYTES, SCRATCH_KEPT_BYTES_MAX, SCRATCHES_KEPT_MAX};
use crate::pause::Pause;
use crate::semaphore::{Permit, Semaphore};
use crate::table::View;

const _: () = assert!(SCRATCH_KEPT_BYTES_MAX.is_power_of_two());

/// The bytes that reads of one shard may hold which hold much.
#[derive(Debug)]
pub(crate) struct ReadTurns {
    pub(crate) scans: Semaphore,
    pub(crate) lookups: Semaphore,
    pub(crate) long_rows: Semaphore,
}

impl ReadTurns {
    /// What this memory has for them.
    pub(crate) fn new(budget: &Budget) -> ReadTurns {
        let all = [budget.scans_max(), budget.lookups_max(), budget.long_rows_max()];
        let [scans, lookups, long_rows] = all.map(|bytes| Semaphore::new(bytes as u64));
        ReadTurns { scans, lookups, long_rows }
    }
}

impl Scratch {
    /// Lets go what is long.
    #[inline]
    pub(super) fn shrink(&mut self) {
        let Scratch { key, stat, row, merged, spare } = self;
        let capacities = [&*key, stat, row, merged, spare].map(Vec::capacity);
        // The limit is a power of two: no sum of bits below it passes it.
        if capacities.into_iter().fold(0, |all, capacity| all | capacity) > SCRATCH_KEPT_BYTES_MAX {
            self.let_go();
        }
    }

    #[cold]
    fn let_go(&mut self) {
        let Scratch { key, stat, row, merged, spare } = self;
        for buffer in [key, stat, row, merged, spare] {
            if buffer.capacity() > SCRATCH_KEPT_BYTES_MAX {
                *buffer = Vec::new();
            }
        }
    }
}

impl Engine {
    /// Buffers for a read: what another one has left, or new ones.
    #[inline]
    pub(super) fn take_scratch(&self) -> Scratch {
        self.scratch.borrow_mut().pop().unwrap_or_default()
    }

    /// Keeps the buffers of a read for the next one, without those that are long, if few are kept.
    #[inline]
    pub(super) fn give_scratch_back(&self, mut scratch: Scratch) {
        scratch.shrink();
        let mut kept = self.scratch.borrow_mut();
        if kept.len() < SCRATCHES_KEPT_MAX {
            kept.push(scratch);
        }
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

    /// The turn of a read of this key, once it has come, if it may find long blocks or rows; of one row if its
    /// clustering is given. `None` for one that waits for nothing.
    #[cold]
    pub(super) async fn turn_of_long_rows(
        &self,
        (token, key): (Token, &[u8]),
        clustering: Option<&[u8]>,
        pause: &dyn Pause,
    ) -> Option<Permit<'r>> {
        let turns = self.turns?;
        let (mut all, mut longest) = self.long_bytes_in_memtables((token, key), clustering);
        let views = self.table.views();
        let slices = &self.command.slices;
        let holds = |view: &&View| view.may_contain(token) && view.sstable.may_hold(slices);
        for view in views.iter().filter(holds) {
            let bytes = view.sstable.long_block_bytes((token, key), clustering, pause).await;
            // As it is read, and as it is opened.
            all = all.saturating_add(bytes.saturating_mul(2));
            longest = longest.max(bytes);
        }
        if all == 0 {
            return None;
        }
        // What is merged of them, and what is visible of that.
        let all = all.saturating_add(longest.saturating_mul(2));
        // Files that go meanwhile are not kept.
        drop(views);
        Some(turns.long_rows.take(all).await)
    }

    /// What a read of this key copies of long rows in memtables, and the bytes of the longest.
    fn long_bytes_in_memtables(
        &self,
        (token, key): (Token, &[u8]),
        clustering: Option<&[u8]>,
    ) -> (u64, u64) {
        let (mut all, mut longest) = (0, 0);
        for layer in self.table.layers().iter() {
            let memtable = layer.memtable.borrow();
            let Some(view) = memtable.get(token, key) else { continue };
            let bytes = view.longest_row_bytes(clustering);
            if bytes >= LONG_BLOCK_BYTES {
                all += bytes as u64;
                longest = longest.max(bytes as u64);
            }
        }
        (all, longest)
    }
}
