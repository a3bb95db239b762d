//! The space that flushes and merges are going to take: promised in one ledger, which all shards of a data directory
//! share.
//!
//! ```text
//! promise ─► measure what is free ─► is it as much as all promises? ─► write: held + promised stays the same ─► drop
//!                                      no: take the promise back
//! ```
//!
//! 1. What is promised is not written yet: bytes that are on the disk are not free any more, and are not promised
//!    either. What a merge frees on its way is promised to it again; a file that a snapshot or another shard has, too,
//!    is not freed by it (`compaction/footprint.rs`).
//! 2. The sum of the promises is read before the free space is measured. What is written in between counts twice, then,
//!    and never not at all; two who ask at once may both be refused, and never both be given the same bytes.
//! 3. A flush is promised what its files are likely to take, or a part of that where there is not more, and pieces
//!    while it writes if that was too little. So it takes at most a row and a piece of a file more than it may, and
//!    what a file has behind its rows. Files of indexes are not counted.
//! 4. A flush goes before merges: it is not kept waiting by what they have promised, for it frees memory and log. A
//!    merge that finds the disk full for that keeps what it has adopted, and is tried again.
//!
//! Not here: the space that is kept aside (`reserve.rs`), what the log needs (`log_space.rs`).

#![expect(clippy::disallowed_types, reason = "the shards of a node share one ledger")]

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::file_owners::FileOwners;
use crate::limits::FLUSH_MORE_BYTES;

/// What is promised of the free space of a data directory. A clone is the same ledger.
#[derive(Clone, Debug, Default)]
pub struct SpaceLedger(Arc<Promised>);

/// Bytes that are going to be written.
#[derive(Debug, Default)]
struct Promised {
    by_flushes: AtomicU64,
    by_merges: AtomicU64,
}

/// What space is promised to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpaceUse {
    /// A memtable that is written.
    Flush,
    /// Outputs of a merge.
    Merge,
}

/// Space for one flush or merge, until this is dropped.
#[derive(Debug)]
pub(crate) struct Promise {
    ledger: SpaceLedger,
    space_use: SpaceUse,
    /// Bytes that it may have on the disk; it may have gone beyond.
    bytes_max: Cell<u64>,
    /// Bytes that it has there now. `bytes_max` less these is promised; nothing where it has more.
    held_bytes: Cell<u64>,
}

/// The answer to who asks for space.
#[derive(Debug)]
pub(crate) enum Space {
    /// There is enough.
    Promised(Promise),
    /// There are only so many bytes.
    Short(u64),
}

impl SpaceLedger {
    /// Bytes that are promised to all flushes, or to all flushes and merges.
    pub(crate) fn promised_bytes(&self, space_use: SpaceUse) -> u64 {
        let by_flushes = self.0.by_flushes.load(Ordering::SeqCst);
        match space_use {
            SpaceUse::Flush => by_flushes,
            SpaceUse::Merge => by_flushes + self.0.by_merges.load(Ordering::SeqCst),
        }
    }

    fn sum(&self, space_use: SpaceUse) -> &AtomicU64 {
        match space_use {
            SpaceUse::Flush => &self.0.by_flushes,
            SpaceUse::Merge => &self.0.by_merges,
        }
    }

    /// Promises so many bytes, whether they are free or not.
    pub(crate) fn promise(&self, space_use: SpaceUse, bytes: u64) -> Promise {
        self.sum(space_use).fetch_add(bytes, Ordering::SeqCst);
        let (bytes_max, held_bytes) = (Cell::new(bytes), Cell::new(0));
        Promise { ledger: self.clone(), space_use, bytes_max, held_bytes }
    }
}

impl Promise {
    /// Bytes that are on the disk now, less those that were freed for them.
    pub(crate) fn hold(&self, held_bytes: u64) {
        let before = self.promised_bytes();
        self.held_bytes.set(held_bytes);
        let (promised_bytes, sum) = (self.promised_bytes(), self.ledger.sum(self.space_use));
        if promised_bytes > before {
            sum.fetch_add(promised_bytes - before, Ordering::SeqCst);
        } else {
            sum.fetch_sub(before - promised_bytes, Ordering::SeqCst);
        }
    }

    /// Bytes that are promised and not held yet.
    fn promised_bytes(&self) -> u64 {
        self.bytes_max.get().saturating_sub(self.held_bytes.get())
    }

    /// Bytes that it may have on the disk.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max.get()
    }

    /// Bytes that it has on the disk.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes.get()
    }

    /// Takes over what another one of the same use promises, beside all that is held.
    fn join(&self, more: Promise) {
        assert_eq!(self.promised_bytes(), 0, "a promise that is used up is continued");
        self.bytes_max.set(self.held_bytes.get() + more.bytes_max.take());
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.hold(self.bytes_max.get());
    }
}

impl Engine {
    /// Shares the space with the other shards of the node.
    pub fn share_space(&mut self, ledger: &SpaceLedger) {
        self.space_ledger = ledger.clone();
    }

    /// Counts who has a file with the other shards of the node.
    pub fn share_files(&mut self, owners: &FileOwners) {
        self.manifest.share_files(owners);
    }

    /// Promises so many bytes, if they are free beside all that is promised and what the reserve lacks.
    pub(crate) async fn promise_space(&self, space_use: SpaceUse, bytes: u64) -> Result<Space> {
        let promise = self.space_ledger.promise(space_use, bytes);
        let promised_bytes = self.space_ledger.promised_bytes(space_use);
        // What a released reserve lacks is not free.
        let taken_bytes = promised_bytes + self.log_space.missing_bytes();
        let free_bytes = self.disk.free_space().await?.free_bytes;
        Ok(match free_bytes >= taken_bytes {
            true => Space::Promised(promise),
            false => Space::Short(free_bytes.saturating_sub(taken_bytes - bytes)),
        })
    }

    /// Promises space for a flush; `DiskFull` if there is not enough.
    pub(crate) async fn promise_flush(&self, bytes: u64) -> Result<Promise> {
        match self.promise_space(SpaceUse::Flush, bytes).await? {
            Space::Promised(promise) => Ok(promise),
            // What is free is the reserve's, or another flush's.
            Space::Short(_) => Err(no_space_to_flush()),
        }
    }

    /// The files of a flush have so many bytes now. If that is more than was promised, it is promised a piece more;
    /// `DiskFull` if that is not free.
    pub(crate) async fn flush_holds(&self, promise: &Promise, held_bytes: u64) -> Result<()> {
        // First: what is on the disk is neither free nor promised.
        promise.hold(held_bytes);
        if held_bytes > promise.bytes_max() {
            promise.join(self.promise_flush(FLUSH_MORE_BYTES).await?);
        }
        Ok(())
    }
}

pub(crate) fn no_space_to_flush() -> Error {
    Error::DiskFull { file: "the flush of a memtable".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_not_promised_and_all_is_given_back() {
        let ledger = SpaceLedger::default();
        let promised =
            || [SpaceUse::Flush, SpaceUse::Merge].map(|space_use| ledger.promised_bytes(space_use));
        let merge = ledger.clone().promise(SpaceUse::Merge, 100);
        let flush = ledger.promise(SpaceUse::Flush, 10);
        assert_eq!(promised(), [10, 110], "a flush does not wait for a merge");
        merge.hold(30);
        assert_eq!(promised(), [10, 80], "what is written is not free any more");
        merge.hold(5);
        assert_eq!(promised(), [10, 105], "inputs were unlinked");
        merge.hold(1000);
        assert_eq!(promised(), [10, 10], "more was written than was thought");
        drop(flush);
        assert_eq!(promised(), [0, 0]);
        merge.join(ledger.promise(SpaceUse::Merge, 50));
        assert_eq!((promised(), merge.bytes_max()), ([0, 50], 1050));
        merge.hold(1040);
        assert_eq!((promised(), merge.held_bytes()), ([0, 10], 1040));
        drop(merge);
        assert_eq!(promised(), [0, 0]);
    }
}
