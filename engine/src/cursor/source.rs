//! The sources of a read, as one closed type: dispatch is a branch, and nothing is boxed.
//!
//! ```text
//! read of a key     memtables; of each file that may hold it: Sstable
//!                     │ Deferred (nothing but rows and ranges, or the part begins inside the partition)
//!                     │ FromBegin (the part begins inside another partition of the same token)
//! read of a range   memtables; of each lane of files: Run
//! ```
//!
//! Invariants: each source keeps what `cursor.rs` demands of every cursor. A kind that can leave nothing unopened or
//! unread answers `None` (`unopened`, `unread`): then the merge takes its first partition and fragment at once.
//!
//! Not here: which sources a read has, and a memtable that is all that is read (`read.rs`), the order in which they are opened and read (`merge.rs`).

use model::TokenRange;

use super::{Cursor, Deferred, Extent, Fragment, FromBegin, Head, MergeInput, RunCursor, Step};
use crate::error::Result;
use crate::memtable::MemtableCursor;
use crate::sstable::SstableCursor;

/// A cursor over something that holds rows.
#[derive(Debug)]
pub enum Source<'c> {
    /// A cursor over a memtable.
    Memtable(MemtableCursor<'c>),
    /// One partition of an sstable.
    Sstable(SstableCursor<'c>),
    /// Slices of one partition of an sstable, not read before the merge comes to them.
    Deferred(Deferred<'c>),
    /// One partition of an sstable, from a place inside a partition on.
    FromBegin(FromBegin<'c>),
    /// Pieces of sstables, one behind the other.
    Run(RunCursor<'c>),
}

impl Cursor for Source<'_> {
    #[inline]
    async fn next_partition(&mut self) -> Result<bool> {
        match self {
            Source::Memtable(cursor) => cursor.next_partition().await,
            Source::Sstable(cursor) => cursor.next_partition().await,
            Source::Deferred(cursor) => cursor.next_partition().await,
            Source::FromBegin(cursor) => cursor.next_partition().await,
            Source::Run(cursor) => cursor.next_partition().await,
        }
    }

    #[inline]
    fn head(&self) -> Head<'_> {
        match self {
            Source::Memtable(cursor) => cursor.head(),
            Source::Sstable(cursor) => cursor.head(),
            Source::Deferred(cursor) => cursor.head(),
            Source::FromBegin(cursor) => cursor.head(),
            Source::Run(cursor) => cursor.head(),
        }
    }

    #[inline]
    async fn next(&mut self) -> Result<bool> {
        match self {
            Source::Memtable(cursor) => cursor.next().await,
            Source::Sstable(cursor) => cursor.next().await,
            Source::Deferred(cursor) => cursor.next().await,
            Source::FromBegin(cursor) => cursor.next().await,
            Source::Run(cursor) => cursor.next().await,
        }
    }

    #[inline]
    fn fragment(&self) -> Fragment<'_> {
        match self {
            Source::Memtable(cursor) => cursor.fragment(),
            Source::Sstable(cursor) => cursor.fragment(),
            Source::Deferred(cursor) => cursor.fragment(),
            Source::FromBegin(cursor) => cursor.fragment(),
            Source::Run(cursor) => cursor.fragment(),
        }
    }
}

impl MergeInput for Source<'_> {
    #[inline]
    fn may_wait(&self, step: Step) -> bool {
        match self {
            Source::Memtable(cursor) => cursor.may_wait(step),
            Source::Sstable(cursor) => cursor.may_wait(step),
            Source::Deferred(cursor) => cursor.may_wait(step),
            Source::FromBegin(cursor) => cursor.may_wait(step),
            Source::Run(cursor) => cursor.may_wait(step),
        }
    }

    fn unopened(&self) -> Option<TokenRange> {
        match self {
            Source::Run(cursor) => cursor.unopened(),
            Source::Memtable(_)
            | Source::Sstable(_)
            | Source::Deferred(_)
            | Source::FromBegin(_) => None,
        }
    }

    fn unread(&self) -> Option<Extent<'_>> {
        match self {
            Source::Deferred(cursor) => cursor.unread(),
            Source::Memtable(_) | Source::Sstable(_) | Source::FromBegin(_) | Source::Run(_) => {
                None
            }
        }
    }

    #[inline]
    fn newest(&self) -> i64 {
        match self {
            Source::Memtable(cursor) => cursor.newest(),
            Source::Sstable(cursor) => cursor.newest(),
            Source::Deferred(cursor) => cursor.newest(),
            Source::FromBegin(cursor) => cursor.newest(),
            Source::Run(cursor) => cursor.newest(),
        }
    }

    async fn seek(&mut self, place: &[u8]) -> Result<bool> {
        match self {
            Source::Memtable(cursor) => cursor.seek(place).await,
            Source::Sstable(cursor) => cursor.seek(place).await,
            Source::Deferred(cursor) => cursor.seek(place).await,
            Source::FromBegin(cursor) => cursor.seek(place).await,
            Source::Run(cursor) => cursor.seek(place).await,
        }
    }
}
