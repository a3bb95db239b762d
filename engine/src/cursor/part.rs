//! A part of a file: some of its tokens, and of the first of them perhaps not all.
//!
//! ```text
//! file       [ token 3 │ token 5 │ token 7: rows a … z │ token 9 ]
//! part                           [ token 7: rows m … z │ token 9 ]      tokens 7 to 9, begins at m
//! ```
//!
//! A shard reads a part of a file where other shards have the rest, or where a compaction has adopted what lies before.
//!
//! 1. The tokens of a part are not empty. A part without `begin` has all partitions of its first token.
//! 2. A part with `begin` is read by `FromBegin` (`begin.rs`); it concerns partitions of the first token only.
//! 3. `goes_on` numbers the fragments of a run that share a partition, so that lanes hold them in order (`run.rs`).
//!
//! Not here: lanes of parts (`run.rs`), the view that the manifest has of a part (`manifest/edit.rs`).

use std::rc::Rc;
use std::sync::Arc;

use model::{Token, TokenRange};
use uuid::Uuid;

use super::merge_input::{MergeInput, Step};
use super::{Cursor, Fragment, FromBegin, Head, Scope, Span};
use crate::error::Result;
use crate::manifest::ViewBegin;
use crate::sstable::{Reading, Sstable, SstableCursor};

/// A part of a file.
#[derive(Clone, Debug)]
pub struct FilePart {
    /// The file that is read.
    pub sstable: Rc<Sstable>,
    /// The tokens that are read of it; not empty.
    pub tokens: TokenRange,
    /// The run that the file is a fragment of.
    pub run: Uuid,
    /// Where inside the partitions of the first token the part begins, if it has not all of them.
    pub begin: Option<Arc<ViewBegin>>,
}

impl FilePart {
    /// The number of the fragment in its run, from 1 on, if it goes on with a partition that another fragment began;
    /// 0 if not.
    pub(super) fn goes_on(&self) -> u64 {
        self.sstable.statistics().goes_on
    }

    /// Whether it may go on with a partition of this token.
    pub(super) fn goes_on_at(&self, token: Token) -> bool {
        self.tokens.first == token && self.goes_on() > 0
    }

    /// Goes through what these tokens have in the part.
    pub(super) fn cursor<'c>(
        &self,
        tokens: TokenRange,
        span: Span<'c>,
        reading: Reading,
    ) -> PartCursor<'c> {
        let span = Span { scope: Scope::Range(tokens), ..span };
        let cursor = self.sstable.cursor(span, reading);
        match &self.begin {
            None => PartCursor::Whole(cursor),
            Some(begin) => {
                let begin = FromBegin::new(cursor, self.tokens.first, begin.clone());
                PartCursor::FromBegin(begin)
            }
        }
    }
}

/// Goes through a part of a file.
#[derive(Debug)]
pub(super) enum PartCursor<'c> {
    Whole(SstableCursor<'c>),
    FromBegin(FromBegin<'c>),
}

impl PartCursor<'_> {
    /// The cursor over the file.
    pub(super) fn inner(&self) -> &SstableCursor<'_> {
        match self {
            PartCursor::Whole(cursor) => cursor,
            PartCursor::FromBegin(cursor) => cursor.inner(),
        }
    }
}

impl Cursor for PartCursor<'_> {
    async fn next_partition(&mut self) -> Result<bool> {
        match self {
            PartCursor::Whole(cursor) => cursor.next_partition().await,
            PartCursor::FromBegin(cursor) => cursor.next_partition().await,
        }
    }

    #[inline]
    fn head(&self) -> Head<'_> {
        match self {
            PartCursor::Whole(cursor) => cursor.head(),
            PartCursor::FromBegin(cursor) => cursor.head(),
        }
    }

    #[inline]
    async fn next(&mut self) -> Result<bool> {
        match self {
            PartCursor::Whole(cursor) => cursor.next().await,
            PartCursor::FromBegin(cursor) => cursor.next().await,
        }
    }

    #[inline]
    fn fragment(&self) -> Fragment<'_> {
        match self {
            PartCursor::Whole(cursor) => cursor.fragment(),
            PartCursor::FromBegin(cursor) => cursor.fragment(),
        }
    }
}

impl MergeInput for PartCursor<'_> {
    fn may_wait(&self, step: Step) -> bool {
        self.inner().may_wait(step)
    }

    fn newest(&self) -> i64 {
        self.inner().newest()
    }

    async fn seek(&mut self, place: &[u8]) -> Result<bool> {
        match self {
            PartCursor::Whole(cursor) => cursor.seek(place).await,
            PartCursor::FromBegin(cursor) => cursor.seek(place).await,
        }
    }
}
