//! A file as one lane of a merge: which moves wait, and how a deleted stretch is passed over.

use super::{InBlock, Next, Phase, Shown, SstableCursor};
use crate::cursor::{Cursor, MergeInput, Scope, Step};
use crate::error::Result;
use crate::planted::{Bug, planted};
use crate::sstable::Reading;

impl SstableCursor<'_> {
    /// Whether the block is not read yet. One in the cache is taken for unread: to look would cost as much as to take
    /// it.
    fn is_unread(&self, number: usize) -> bool {
        let (offset, bytes) = self.table.directory.frame(number);
        self.window.frame(offset, bytes).is_none()
    }

    /// How many slices, from the one in hand on, have nothing from this place on.
    fn slices_before(&self, place: &[u8]) -> usize {
        let (slices, done) = (self.span.slices, self.slices_done);
        match self.span.reversed {
            false => slices[done..].partition_point(|slice| slice.end.as_slice() <= place),
            true => {
                let left = &slices[..slices.len() - done];
                left.len() - left.partition_point(|slice| slice.start.as_slice() < place)
            }
        }
    }

    fn partition_may_wait(&self) -> bool {
        match (self.next, self.span.scope) {
            (Next::Begin, _) => true,
            (Next::Nowhere, _) | (Next::Behind, Scope::Key(..)) => false,
            (Next::Behind, Scope::Range(_)) => {
                let Some(InBlock { number, ref slots, .. }) = self.block else { return true };
                let next = number + 1;
                let is_last = number == self.run.last && self.end == slots.count();
                let more = is_last && next < self.table.directory.blocks();
                number != self.run.last || more && self.is_unread(next)
            }
        }
    }

    fn fragment_may_wait(&self) -> bool {
        if self.run.first == self.run.last || self.phase == Phase::Over {
            return false;
        }
        let InBlock { number, head_at, .. } = *self.in_hand();
        match (self.phase, self.span.reversed) {
            (Phase::Before, _) => true,
            (_, false) => {
                self.entry >= self.end && number < self.run.last && self.is_unread(number + 1)
            }
            (_, true) => {
                self.entry <= head_at + 1 && number > self.run.first && self.is_unread(number - 1)
            }
        }
    }
}

impl MergeInput for SstableCursor<'_> {
    #[inline]
    fn may_wait(&self, step: Step) -> bool {
        self.reading != Reading::Cached
            && match step {
                Step::Partition => self.partition_may_wait(),
                Step::Fragment => self.fragment_may_wait(),
            }
    }

    fn newest(&self) -> i64 {
        self.table.statistics().newest_timestamp
    }

    async fn seek(&mut self, place: &[u8]) -> Result<bool> {
        let Some(slice) = self.slice().filter(|_| self.phase == Phase::Inside) else {
            return self.next().await;
        };
        let is_left = self.is_behind_slice();
        let is_behind = match self.span.reversed {
            false => place >= slice.end.as_slice(),
            true => place <= slice.start.as_slice(),
        };
        if is_left || is_behind {
            if !is_left && self.close() {
                return Ok(true);
            }
            self.slices_done += self.slices_before(place).max(1);
            (self.phase, self.shown) = (Phase::Before, Shown::Entered);
            return self.next().await;
        }
        let before = self.in_force;
        self.enter(place).await?;
        if planted(Bug::SeekSkipsRow) {
            self.walk(slice).await?;
        }
        if self.in_force == before {
            return self.next().await;
        }
        self.sought.clear();
        self.sought.extend_from_slice(place);
        self.shown = Shown::Sought;
        Ok(true)
    }
}
