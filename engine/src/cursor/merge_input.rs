//! What a merge asks of the cursors under it beside their moves: what it can leave unread, and what waits.

use std::future::Future;

use model::TokenRange;

use super::Cursor;
use crate::error::Result;

/// A move of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// To the next partition: [`Cursor::next_partition`].
    Partition,
    /// To the next row or change: [`Cursor::next`].
    Fragment,
}

/// Between which places a lane's part of a partition lies, in the direction of the span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent<'a> {
    /// Nothing comes before.
    pub near: &'a [u8],
    /// Nothing comes behind.
    pub far: &'a [u8],
    /// Whether a row may lie at `far` itself.
    pub has_far: bool,
}

/// A cursor that a merge can leave where it is until it comes there. What is said here is true of a cursor over memory.
pub trait MergeInput: Cursor {
    /// Whether this move seems to wait for the disk. Then it is made side by side with those of other lanes.
    fn may_wait(&self, _: Step) -> bool {
        false
    }

    /// The tokens of what the next call of `next_partition` opens; `None` inside of what is open, and at the end.
    ///
    /// A lane of several parts says `false` at the end of each, and here whether another follows.
    fn unopened(&self) -> Option<TokenRange> {
        None
    }

    /// Where the fragments of this partition lie, as long as none of them was looked for.
    fn unread(&self) -> Option<Extent<'_>> {
        None
    }

    /// Nothing in what is open is newer than this. Microseconds.
    fn newest(&self) -> i64 {
        i64::MAX
    }

    /// Moves as `next` does, but to the first fragment that is not before `place`: forward at or above it, reversed below
    /// it. If another deletion is in force there than was shown last, a change at `place` comes first.
    ///
    /// `place` lies in the slice of the fragment shown last, or at its far border.
    fn seek(&mut self, place: &[u8]) -> impl Future<Output = Result<bool>>;
}
