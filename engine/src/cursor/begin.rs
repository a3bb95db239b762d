//! A file from a place inside a partition on: what lies before it is in other files.
//!
//! ```text
//! partition in the file   head  a  b [c  ........  r)  x  y          [ ) a range deletion
//! from `m` on                             [m ... r)  x  y
//! ```
//!
//! 1. Partitions before the key are passed over.
//! 2. Of the partition with the key neither tombstone nor static row is shown: they went with its first rows.
//! 3. A range deletion in force at the place begins there; reversed, it ends there.
//! 4. Forward the place is sought, not walked to; reversed the walk ends at it.

use std::sync::Arc;

use model::{Deletion, Token};

use super::merge_input::{MergeInput, Step};
use super::{Cursor, Fragment, Head};
use crate::error::Result;
use crate::manifest::ViewBegin;
use crate::sstable::SstableCursor;

/// Goes through a file from a place inside a partition on.
#[derive(Debug)]
pub struct FromBegin<'c> {
    cursor: SstableCursor<'c>,
    token: Token,
    begin: Arc<ViewBegin>,
    stage: Stage,
    /// The range deletion in force where the file's cursor stands, while the stage is `Bound`: reversed it was already
    /// shown, forward not yet.
    in_force: Deletion,
    /// A change at the place is shown; the file's cursor stands behind it.
    at_begin: Option<Deletion>,
}

/// Where it is, as to the partition that it begins in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// In another partition, or in this one and, forward, behind the place.
    Free,
    /// In this one: forward before the place, reversed behind it.
    Bound,
    /// In this one, and nothing more of it is shown.
    Over,
}

impl<'c> FromBegin<'c> {
    /// What `cursor` has from this place of the token on.
    pub fn new(cursor: SstableCursor<'c>, token: Token, begin: Arc<ViewBegin>) -> FromBegin<'c> {
        let (stage, in_force) = (Stage::Free, Deletion::NONE);
        FromBegin { cursor, token, begin, stage, in_force, at_begin: None }
    }

    /// The cursor over the file.
    pub(super) fn inner(&self) -> &SstableCursor<'c> {
        &self.cursor
    }

    /// Where it begins.
    pub(super) fn place(&self) -> &[u8] {
        &self.begin.position
    }

    fn is_cut(&self) -> bool {
        let head = self.cursor.head();
        head.token == self.token && *head.key == *self.begin.key
    }

    /// Goes to the place; whether anything is there or behind it. What the file shows after slices that have nothing,
    /// before all else, is handed on: another move goes further.
    async fn go_to_begin(&mut self) -> Result<bool> {
        let place = self.begin.clone();
        let (mut is_there, mut was_sought) = (self.cursor.next().await?, false);
        while is_there && self.cursor.fragment().position() < &*place.position {
            if let Fragment::Change { deletion, .. } = self.cursor.fragment() {
                self.in_force = deletion;
            }
            // Only while nothing is in force: the change then says NONE, so no deletion is shown before the place.
            if was_sought && self.cursor.has_passed_slices() && self.in_force.is_none() {
                return Ok(true);
            }
            is_there = self.cursor.seek(&place.position).await?;
            was_sought = true;
        }
        self.stage = Stage::Free;
        let in_force = std::mem::replace(&mut self.in_force, Deletion::NONE);
        if !is_there {
            return Ok(false);
        }
        let fragment = self.cursor.fragment();
        let says_itself = fragment.is_change() && *fragment.position() == *place.position;
        if !in_force.is_none() && !says_itself {
            self.at_begin = Some(in_force);
        }
        Ok(true)
    }

    /// Moves on in descending order, as far as the place.
    async fn next_above(&mut self) -> Result<bool> {
        if !self.cursor.next().await? {
            self.stage = Stage::Over;
            return Ok(false);
        }
        let is_above = match self.cursor.fragment() {
            Fragment::Row { clustering, .. } => *clustering >= *self.begin.position,
            Fragment::Change { position, deletion } if *position > *self.begin.position => {
                self.in_force = deletion;
                true
            }
            Fragment::Change { .. } => false,
        };
        if is_above {
            return Ok(true);
        }
        self.stage = Stage::Over;
        let open = !std::mem::replace(&mut self.in_force, Deletion::NONE).is_none();
        self.at_begin = open.then_some(Deletion::NONE);
        Ok(open)
    }
}

impl Cursor for FromBegin<'_> {
    async fn next_partition(&mut self) -> Result<bool> {
        self.at_begin = None;
        self.stage = Stage::Free;
        while self.cursor.next_partition().await? {
            let head = self.cursor.head();
            if (head.token, head.key) < (self.token, &*self.begin.key) {
                continue;
            }
            if self.is_cut() {
                (self.stage, self.in_force) = (Stage::Bound, Deletion::NONE);
            }
            return Ok(true);
        }
        Ok(false)
    }

    fn head(&self) -> Head<'_> {
        let head = self.cursor.head();
        match self.is_cut() {
            true => Head { deletion: Deletion::NONE, static_row: None, ..head },
            false => head,
        }
    }

    async fn next(&mut self) -> Result<bool> {
        let was_at_begin = self.at_begin.take().is_some();
        match (self.stage, self.cursor.span().reversed) {
            (Stage::Free, _) if was_at_begin => Ok(true),
            (Stage::Free, _) => self.cursor.next().await,
            (Stage::Bound, false) => self.go_to_begin().await,
            (Stage::Bound, true) => self.next_above().await,
            (Stage::Over, _) => Ok(false),
        }
    }

    fn fragment(&self) -> Fragment<'_> {
        match self.at_begin {
            Some(deletion) => Fragment::Change { position: &self.begin.position, deletion },
            None => self.cursor.fragment(),
        }
    }
}

impl MergeInput for FromBegin<'_> {
    fn may_wait(&self, step: Step) -> bool {
        self.cursor.may_wait(step)
    }

    fn newest(&self) -> i64 {
        self.cursor.newest()
    }

    async fn seek(&mut self, place: &[u8]) -> Result<bool> {
        // To go to the next fragment is always right.
        if self.stage == Stage::Free && self.at_begin.is_none() {
            self.cursor.seek(place).await
        } else {
            self.next().await
        }
    }
}
