//! The one shape in which every source gives what it holds: memtable, sstable, and a merge of them.
//!
//! ```text
//! next_partition ─► head          (token, key, deletion, static row)
//!                   next ─► row   (clustering, row)
//!                   next ─► change(position: from here on this deletion holds)
//!                   …             both in clustering order, descending when the span is reversed
//! next_partition ─► head …
//! ```
//!
//! Invariants of every cursor
//! 1. Partitions ascend by (token, key), also in a reversed span; rows follow the span's direction.
//! 2. Range tombstones come as *changes*: the deletion that holds from a position on, `NONE` after
//!    its end. So none overlaps, a reader keeps one value, and no end must be known in advance.
//!    Forward a change at `p` governs clusterings `>= p` and comes before the row at `p`; reversed it
//!    governs those `< p` and comes after the row at `p`.
//! 3. Each slice stands alone: a tombstone open where a slice begins is a change at its border, and
//!    one open where it ends is closed there.
//! 4. What a cursor has shown stays valid until it is moved. Across an await of a move anything may
//!    have changed underneath: a memtable cursor finds its place again by key.
//! 5. Rows are given as stored; applying the deletions to them is the reader's (`model::row`).
//! 6. A move does little: what is passed without anything to be shown (slices that have nothing, bounds of weaker
//!    deletions) is bounded. Then a change is shown that changes nothing, so that the reader counts the work. A
//!    memtable shows it where the cursor stands. A file shows it before all else, since what the next part of its run
//!    has may come before the place where the cursor stands.
//!
//! A cursor over cached bytes never waits, so a caller that polls once gets its answer; in cache-only
//! mode a source that would have to read says [`Error::WouldBlock`](crate::Error::WouldBlock).

mod begin;
mod deferred;
mod empty_slices;
mod merge;
mod merge_input;
mod part;
mod run;
mod side_by_side;
mod source;

use std::future::Future;

pub use begin::FromBegin;
pub use deferred::Deferred;
pub(crate) use empty_slices::EmptySlices;
pub use merge::Merge;
pub use merge_input::{Extent, MergeInput, Step};
pub use model::read::Slice;
use model::row::RowRef;
use model::{Deletion, Token, TokenRange};
pub use part::FilePart;
pub use run::{RunCursor, lanes_of};
pub(crate) use side_by_side::side_by_side;
pub use source::Source;

use crate::error::Result;

/// Which partitions a cursor goes through.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'c> {
    /// At most one.
    Key(Token, &'c [u8]),
    /// All with a token inside.
    Range(TokenRange),
}

/// What a cursor goes through, and how.
#[derive(Clone, Copy, Debug)]
pub struct Span<'c> {
    /// The partitions that the cursor visits.
    pub scope: Scope<'c>,
    /// Which stretches of each: ascending, disjoint, never empty.
    pub slices: &'c [Slice],
    /// Rows in descending order, slices from the last to the first.
    pub reversed: bool,
}

/// A partition apart from its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// The token of the key.
    pub token: Token,
    /// The serialised partition key.
    pub key: &'a [u8],
    /// The partition tombstone, or [`Deletion::NONE`].
    pub deletion: Deletion,
    /// The static row, as stored.
    pub static_row: Option<RowRef<'a>>,
}

/// What a cursor stands on inside a partition: a row, or a change of the range deletion. (The file that a
/// compaction cuts from a run is also called a fragment: `compaction/rewrite.rs`.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragment<'a> {
    /// A row, as stored.
    Row {
        /// Its clustering key.
        clustering: &'a [u8],
        /// The row in its encoded form.
        row: RowRef<'a>,
    },
    /// Another range deletion holds from here on.
    Change {
        /// From where, in the direction of the span.
        position: &'a [u8],
        /// What holds; [`Deletion::NONE`] when nothing does.
        deletion: Deletion,
    },
}

impl<'a> Fragment<'a> {
    /// Where it stands in its partition.
    #[inline]
    pub fn position(&self) -> &'a [u8] {
        match self {
            Fragment::Row { clustering, .. } => clustering,
            Fragment::Change { position, .. } => position,
        }
    }

    /// Whether this is a change.
    #[inline]
    pub fn is_change(&self) -> bool {
        matches!(self, Fragment::Change { .. })
    }
}

/// Goes through the partitions of one source.
pub trait Cursor {
    /// Moves to the next partition, skipping what is left of this one; `false` at the end.
    fn next_partition(&mut self) -> impl Future<Output = Result<bool>>;

    /// The partition the cursor is in. Only after `next_partition` gave `true`.
    fn head(&self) -> Head<'_>;

    /// Moves to the next row or change of the partition; `false` at its end.
    fn next(&mut self) -> impl Future<Output = Result<bool>>;

    /// Where the cursor is. Only after `next` gave `true`.
    fn fragment(&self) -> Fragment<'_>;

    /// What was put together since this was asked last, beside what was shown. A cursor that shows what is stored puts
    /// nothing together.
    #[inline]
    fn take_united(&mut self) -> United {
        United::default()
    }
}

/// How much a cursor has put together of several sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct United {
    /// Rows, partitions and changes that went into another one.
    pub entries: u32,
    /// Bytes of the rows that were made, those on the way included.
    pub bytes: usize,
}

impl United {
    /// One more went into a row of so many bytes, or into what is no row.
    #[inline]
    fn count(&mut self, bytes: usize) {
        self.entries = self.entries.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}
