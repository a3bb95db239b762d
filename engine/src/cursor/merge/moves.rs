//! Which lanes of a merge move, and which wait for the disk side by side.
//!
//! ```text
//! partitions   placed lanes ─► smallest token t      lanes unopened before t: opened, with those that lie over them
//! fragments    lanes shown  ─► first position p      lanes unread before p: read, with those that begin soon after
//!              lanes covered by the deletion in force: sought to where it may end, or passed unread if they end before
//! ```
//!
//! A lane is opened, or read, only when something of it may come next: a page of a few rows reads what covers the rows'
//! tokens, a slice what covers its first clusterings. Parts whose tokens lie over each other are opened together, so
//! that they wait once; files of one partition that begin soon after the first are read with it. A deferred file that
//! the deletion in force is known to cover from end to end is not read.

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
        while self.defers && self.comes_to_unread() {
            if !self.pass_covered() {
                self.choose_unread();
                self.move_due(Step::Fragment).await?;
            }
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

    /// Whether an unread lane may have the next fragment; if none is unread, this is not asked again in this partition.
    fn comes_to_unread(&mut self) -> bool {
        let Some(first) = self.first_of_unread(|extent| extent.near) else {
            self.defers = false;
            return false;
        };
        let shown = self.choose_fragment().map(|at| self.lanes[at].cursor.fragment().position());
        shown.is_none_or(|shown| !self.is_before(shown, first))
    }

    /// Passes the unread lanes of which the deletion in force covers all that they may have, as far as it is known to
    /// go; whether there was one. So a partition in many files, most of which are deleted, costs no read of these.
    fn pass_covered(&mut self) -> bool {
        if self.in_force.is_none() || !self.find_covered_end() {
            return false;
        }
        let Merge { lanes, in_force, covered_end: end, reversed, .. } = self;
        let is_before_end = |Extent { far, has_far, .. }: Extent<'_>| match *reversed {
            // A change governs the row at its place forward, and what is below it reversed.
            false => far < end.as_slice() || far == end.as_slice() && !has_far,
            true => far >= end.as_slice(),
        };
        let mut has_passed = false;
        for lane in lanes {
            let is_passed =
                lane.unread().is_some_and(is_before_end) && in_force.covers(lane.cursor.newest());
            lane.needs_next &= !is_passed;
            has_passed |= is_passed;
        }
        has_passed
    }

    /// Makes the first of the unread lanes due, and those that begin soon behind it: nearer to where it begins than to
    /// where the first of them ends.
    ///
    /// More are not known to be needed. The fragment that is shown, or an earlier one of these, may be all that is
    /// wanted; a range deletion in one of them may spare the reads of others; and files of a partition that meet at
    /// their ends, as those of two flushes do, are wanted one behind the other.
    fn choose_unread(&mut self) {
        let ends = [self.first_of_unread(|x| x.near), self.first_of_unread(|x| x.far)];
        let [first, end] = ends.map(|end| end.expect("an unread lane was just found"));
        let is_due = |lane: &Lane<C>| {
            lane.unread().is_some_and(|Extent { near, .. }| {
                // The first is due whatever a file says of its end: so each round comes further.
                near == first || !self.is_before(end, near) && is_nearer(near, [first, end])
            })
        };
        let due: Vec<bool> = self.lanes.iter().map(is_due).collect();
        self.lanes.iter_mut().zip(due).for_each(|(lane, due)| lane.moves_now = due);
    }

    /// The first of these places of the unread lanes.
    fn first_of_unread<'m>(&'m self, place: impl Fn(Extent<'m>) -> &'m [u8]) -> Option<&'m [u8]> {
        let places = self.lanes.iter().filter_map(Lane::unread).map(place);
        places.reduce(|a, b| if self.is_before(b, a) { b } else { a })
    }

    fn is_before(&self, a: &[u8], b: &[u8]) -> bool {
        if self.reversed { a > b } else { a < b }
    }

    /// Moves the lanes that the deletion in force covers, as far as it is known to go.
    async fn seek_covered(&mut self) -> Result<()> {
        for index in 0..self.lanes.len() {
            let lane = &self.lanes[index];
            if !(lane.in_partition && lane.needs_next) || lane.cursor.unread().is_some() {
                continue;
            }
            let is_held = self.find_covered_end();
            let lane = &mut self.lanes[index];
            lane.covered = 0;
            lane.at_fragment = match is_held {
                true => lane.cursor.seek(&self.covered_end).await?,
                false => lane.cursor.next().await?,
            };
            lane.needs_next = false;
        }
        Ok(())
    }

    /// Finds how far the deletion in force is known to go: to the next fragment of a lane in which it is in force.
    /// Whether there is one.
    fn find_covered_end(&mut self) -> bool {
        let Merge { lanes, in_force, covered_end, .. } = self;
        let holds = |lane: &&Lane<C>| {
            lane.in_partition && lane.at_fragment && !lane.needs_next && lane.in_force == *in_force
        };
        let end = lanes.iter().find(holds).map(|lane| lane.cursor.fragment().position());
        covered_end.clear();
        covered_end.extend_from_slice(end.unwrap_or_default());
        end.is_some()
    }
}

/// Whether a place is nearer to the first than to the second of two between which it lies: by the first eight bytes
/// behind those with which all begin, as a number.
pub(super) fn is_nearer(place: &[u8], [first, second]: [&[u8]; 2]) -> bool {
    let common = first.iter().zip(second).take_while(|(a, b)| a == b).count();
    let number = |place: &[u8]| {
        let mut bytes = [0; size_of::<u64>()];
        let rest = place.get(common..).unwrap_or_default();
        bytes.iter_mut().zip(rest).for_each(|(byte, at)| *byte = *at);
        u64::from_be_bytes(bytes)
    };
    let place = number(place);
    place.abs_diff(number(first)) <= place.abs_diff(number(second))
}
