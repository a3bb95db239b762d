//! Which lanes of a merge move, and which wait for the disk side by side.
//!
//! ```text
//! partitions   placed lanes ─► smallest token t      lanes unopened before t: opened, with those that lie over them
//! fragments    lanes shown  ─► first position p      lanes unread before p: read, with those that lie over them
//!              lanes covered by the deletion in force: sought to where it may end
//! ```
//!
//! A lane that need not be opened yet is one only if nothing needs it: a page of a few rows reads what covers the rows'
//! tokens, a slice what covers its first clusterings. Those over each other are opened at once, so that they wait once.

use model::{Token, TokenRange};

use super::super::side_by_side::side_by_side;
use super::{Lane, Merge};
use crate::cursor::{Extent, MergeInput, Step};
use crate::error::Result;
use crate::limits::COVERED_BEFORE_SEEK;

impl<C: MergeInput> Lane<C> {
    /// Makes the move that is due.
    async fn go(&mut self, step: Step) -> Result<()> {
        self.moves_now = false;
        match step {
            Step::Partition => {
                self.at_partition = self.cursor.next_partition().await?;
                self.has_more = self.at_partition || self.cursor.unopened().is_some();
            }
            Step::Fragment => {
                self.at_fragment = self.cursor.next().await?;
                self.needs_next = false;
            }
        }
        Ok(())
    }

    /// The tokens of the part before which it stands.
    fn unopened(&self) -> Option<TokenRange> {
        if self.has_more && !self.at_partition { self.cursor.unopened() } else { None }
    }

    /// Where its part of the merge's partition lies, if nothing of it was read.
    fn unread(&self) -> Option<Extent<'_>> {
        if self.in_partition && self.needs_next { self.cursor.unread() } else { None }
    }
}

impl<C: MergeInput> Merge<C> {
    /// Moves the lanes that are here behind their partition, and all that may have the next one to it.
    pub(super) async fn go_to_partition(&mut self) -> Result<()> {
        for lane in self.lanes.iter_mut().filter(|lane| lane.has_more && lane.in_partition) {
            lane.at_fragment = false;
            lane.at_partition = false;
            lane.moves_now = lane.cursor.unopened().is_none();
        }
        self.defers = true;
        self.move_due(Step::Partition).await?;
        while self.choose_unopened() {
            self.move_due(Step::Partition).await?;
        }
        Ok(())
    }

    /// Moves the lanes whose fragment was used, and all that may have the next one to it.
    pub(super) async fn go_to_fragment(&mut self) -> Result<()> {
        let mut seeks = false;
        for lane in self.lanes.iter_mut().filter(|lane| lane.in_partition && lane.needs_next) {
            let is_covered =
                lane.covered >= COVERED_BEFORE_SEEK && self.in_force.covers(lane.cursor.newest());
            seeks |= is_covered;
            lane.moves_now = !is_covered && lane.cursor.unread().is_none();
        }
        self.move_due(Step::Fragment).await?;
        if seeks {
            self.seek_covered().await?;
        }
        while self.defers && self.choose_unread() {
            self.move_due(Step::Fragment).await?;
        }
        Ok(())
    }

    /// Moves the lanes that are due: those that wait for the disk side by side.
    async fn move_due(&mut self, step: Step) -> Result<()> {
        let mut waiting = 0;
        for lane in self.lanes.iter_mut().filter(|lane| lane.moves_now) {
            if lane.cursor.may_wait(step) {
                waiting += 1;
            } else {
                lane.go(step).await?;
            }
        }
        let mut due = self.lanes.iter_mut().filter(|lane| lane.moves_now);
        match waiting {
            0 => Ok(()),
            1 => due.next().expect("it was just counted").go(step).await,
            _ => side_by_side(due.map(|lane| lane.go(step))).await,
        }
    }

    /// Which unopened lanes are due, because they may have the next partition; `false` if none may.
    fn choose_unopened(&mut self) -> bool {
        let unopened = self.lanes.iter().filter_map(Lane::unopened);
        let Some(first) = unopened.min_by_key(|tokens| tokens.first) else { return false };
        let placed = self.lanes.iter().filter(|lane| lane.at_partition);
        let shown: Option<Token> = placed.map(|lane| lane.cursor.head().token).min();
        if shown.is_some_and(|shown| shown < first.first) {
            return false;
        }
        // Not all up to the partition that is shown: the first of them may show an earlier one, and that may be all.
        for lane in &mut self.lanes {
            lane.moves_now = lane.unopened().is_some_and(|tokens| tokens.first <= first.last);
        }
        true
    }

    /// Which unread lanes are due, because they may have the next fragment; `false` if none may.
    fn choose_unread(&mut self) -> bool {
        let reversed = self.reversed;
        let is_before = |a: &[u8], b: &[u8]| if reversed { a > b } else { a < b };
        let mut first: Option<Extent<'_>> = None;
        for extent in self.lanes.iter().filter_map(Lane::unread) {
            if first.is_none_or(|first| is_before(extent.near, first.near)) {
                first = Some(extent);
            }
        }
        let Some(first) = first else {
            self.defers = false;
            return false;
        };
        if let Some(index) = self.choose_fragment()
            && is_before(self.lanes[index].cursor.fragment().position(), first.near)
        {
            return false;
        }
        // Not all up to the fragment that is shown: as in `choose_unopened`.
        let meets =
            |lane: &Lane<C>| lane.unread().is_some_and(|extent| !is_before(first.far, extent.near));
        let due: Vec<bool> = self.lanes.iter().map(meets).collect();
        self.lanes.iter_mut().zip(due).for_each(|(lane, due)| lane.moves_now = due);
        true
    }

    /// Moves the lanes that the deletion in force covers, as far as it is known to go: to the next fragment of a lane
    /// in which it is in force.
    async fn seek_covered(&mut self) -> Result<()> {
        for index in 0..self.lanes.len() {
            let lane = &self.lanes[index];
            if !(lane.in_partition && lane.needs_next) || lane.cursor.unread().is_some() {
                continue;
            }
            let holds = |lane: &&Lane<C>| {
                lane.in_partition
                    && lane.at_fragment
                    && !lane.needs_next
                    && lane.in_force == self.in_force
            };
            let end = self.lanes.iter().find(holds);
            let end = end.map(|lane| lane.cursor.fragment().position());
            self.sought.clear();
            self.sought.extend_from_slice(end.unwrap_or_default());
            let is_held = end.is_some();
            let lane = &mut self.lanes[index];
            lane.covered = 0;
            lane.at_fragment = match is_held {
                true => lane.cursor.seek(&self.sought).await?,
                false => lane.cursor.next().await?,
            };
            lane.needs_next = false;
        }
        Ok(())
    }
}
