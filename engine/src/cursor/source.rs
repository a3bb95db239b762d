//! The sources of a read, as one closed type: dispatch is a branch, and nothing is boxed.

use super::{Cursor, Fragment, Head};
use crate::error::Result;
use crate::memtable::MemtableCursor;
use crate::sstable::SstableCursor;

/// A cursor over something that holds rows.
#[derive(Debug)]
pub enum Source<'c> {
    /// A cursor over a memtable.
    Memtable(MemtableCursor<'c>),
    /// A part of an sstable.
    Sstable(SstableCursor<'c>),
}

impl Cursor for Source<'_> {
    #[inline]
    async fn next_partition(&mut self) -> Result<bool> {
        match self {
            Source::Memtable(cursor) => cursor.next_partition().await,
            Source::Sstable(cursor) => cursor.next_partition().await,
        }
    }

    #[inline]
    fn head(&self) -> Head<'_> {
        match self {
            Source::Memtable(cursor) => cursor.head(),
            Source::Sstable(cursor) => cursor.head(),
        }
    }

    #[inline]
    async fn next(&mut self) -> Result<bool> {
        match self {
            Source::Memtable(cursor) => cursor.next().await,
            Source::Sstable(cursor) => cursor.next().await,
        }
    }

    #[inline]
    fn fragment(&self) -> Fragment<'_> {
        match self {
            Source::Memtable(cursor) => cursor.fragment(),
            Source::Sstable(cursor) => cursor.fragment(),
        }
    }
}
