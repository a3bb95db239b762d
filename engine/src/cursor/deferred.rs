//! A file of which a slice of one partition is wanted, left unread until the merge comes to its clusterings, or for
//! good if a deletion covers them.
//!
//! ```text
//! file of Monday  ──────[ first … last ]             a slice of Tuesday: not touched
//! file of Tuesday                 ──────[ first … last ]
//! ```
//!
//! The statistics say between which places all rows and range deletions of the file lie. If it has no static row and no
//! partition tombstone either, or is read from a place inside the partition on, nothing is lost by taking the
//! partition's head for granted: whether the partition is in the file at all is found out when its first fragment is
//! asked for.

use std::sync::Arc;

use model::{Deletion, Token};

use super::merge_input::{Extent, MergeInput, Step};
use super::part::PartCursor;
use super::{Cursor, Fragment, FromBegin, Head, Scope, Span};
use crate::error::Result;
use crate::manifest::ViewBegin;
use crate::sstable::SstableCursor;

/// Goes through slices of one partition in one file.
#[derive(Debug)]
pub struct Deferred<'c> {
    cursor: PartCursor<'c>,
    token: Token,
    key: &'c [u8],
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Before the partition.
    Begin,
    /// In it, and nothing was read.
    Unread,
    /// In it, on its way through the slices.
    Open,
    /// It is not in the file, or was left.
    Over,
}

impl<'c> Deferred<'c> {
    /// Defers a cursor over one key in a file without static rows and partition tombstones.
    pub fn new(cursor: SstableCursor<'c>) -> Deferred<'c> {
        let (token, key) = key_of(&cursor);
        assert!(
            cursor.sstable().is_plain(),
            "a head is taken for granted if none can say anything"
        );
        Deferred { cursor: PartCursor::Whole(cursor), token, key, stage: Stage::Begin }
    }

    /// Defers a cursor over one key in a file that is read from a place inside the partition of this key on.
    pub fn from_begin(cursor: SstableCursor<'c>, begin: Arc<ViewBegin>) -> Deferred<'c> {
        let (token, key) = key_of(&cursor);
        assert_eq!(*begin.key, *key, "the heads of other partitions are shown");
        let cursor = PartCursor::FromBegin(FromBegin::new(cursor, token, begin));
        Deferred { cursor, token, key, stage: Stage::Begin }
    }

    /// Finds the partition, if it was not looked for yet; whether the cursor is in it.
    async fn open(&mut self) -> Result<bool> {
        if self.stage == Stage::Unread {
            self.stage = Stage::Over;
            if self.cursor.next_partition().await? {
                self.stage = Stage::Open;
            }
        }
        Ok(self.stage == Stage::Open)
    }
}

/// The key that a cursor is over.
fn key_of<'c>(cursor: &SstableCursor<'c>) -> (Token, &'c [u8]) {
    match cursor.span().scope {
        Scope::Key(token, key) => (token, key),
        Scope::Range(_) => unreachable!("a range of tokens is not deferred by clusterings"),
    }
}

impl Cursor for Deferred<'_> {
    async fn next_partition(&mut self) -> Result<bool> {
        self.stage = if self.stage == Stage::Begin { Stage::Unread } else { Stage::Over };
        Ok(self.stage == Stage::Unread)
    }

    fn head(&self) -> Head<'_> {
        let Deferred { token, key, .. } = *self;
        Head { token, key, deletion: Deletion::NONE, static_row: None }
    }

    async fn next(&mut self) -> Result<bool> {
        if self.open().await? { self.cursor.next().await } else { Ok(false) }
    }

    #[inline]
    fn fragment(&self) -> Fragment<'_> {
        self.cursor.fragment()
    }
}

impl MergeInput for Deferred<'_> {
    fn may_wait(&self, step: Step) -> bool {
        match self.stage {
            Stage::Unread => step == Step::Fragment && self.cursor.may_wait(Step::Partition),
            Stage::Open => self.cursor.may_wait(step),
            Stage::Begin | Stage::Over => false,
        }
    }

    fn unread(&self) -> Option<Extent<'_>> {
        if self.stage != Stage::Unread {
            return None;
        }
        let Span { slices, reversed, .. } = self.cursor.inner().span();
        let [mut first, last] = self.cursor.inner().sstable().clusterings();
        if let PartCursor::FromBegin(cursor) = &self.cursor {
            first = first.max(cursor.place());
        }
        let low = slices.first().map_or(first, |slice| first.max(&slice.start));
        let high = slices.last().map_or(last, |slice| last.min(&slice.end));
        let (near, far) = if reversed { (high, low) } else { (low, high) };
        // Forward, the end of a slice is outside of it: at most a change that closes a deletion lies there.
        Some(Extent { near, far, has_far: reversed || far == last })
    }

    fn newest(&self) -> i64 {
        self.cursor.newest()
    }

    async fn seek(&mut self, place: &[u8]) -> Result<bool> {
        self.cursor.seek(place).await
    }
}
