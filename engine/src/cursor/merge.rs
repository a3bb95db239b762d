//! Several cursors become one: the newest of every cell, every tombstone kept.
//!
//! ```text
//! lane 0 ─┐
//! lane 1 ─┼─► smallest (token, key) ─► head ─► smallest position ─► row or change
//! lane 2 ─┘
//! ```
//!
//! 1. A lane moves only when what it shows has been used, at the next call: what one lane alone has
//!    is shown straight from it, uncopied.
//! 2. The deletion in force is the strongest of all lanes'; a change is shown when that changes.
//! 3. A lane stays unopened, or unread, until the merge comes to its tokens, or clusterings. Parts whose tokens lie
//!    over each other are opened together, files of one partition that begin soon after the first are read with it, and
//!    what waits for the disk waits side by side (`merge/moves.rs`).
//! 4. A lane that is older than the deletion in force is not walked to the deletion's end, but sought there; one that
//!    is unread and ends before that is never read.
//! 5. What is passed without anything to be shown, bounds of weaker deletions, is bounded, and what a lane shows that
//!    has passed much is shown at once: a change that changes nothing (`cursor.rs`, invariant 6).
//!
//! The number of lanes is small (files that may hold the key, or as many runs as lie over each other), so the
//! smallest is found by looking at each: a heap was not worth its moves.

mod moves;

use std::cmp::Ordering;
use std::mem;

use model::row::{RowRef, merge};
use model::{Deletion, Token};

use super::{Cursor, Fragment, Head, MergeInput, United};
use crate::error::Result;
use crate::limits::COVERED_BOUNDS_AT_ONCE_MAX;
use crate::planted::{Bug, planted};

/// A merge of cursors over the same span.
#[derive(Debug)]
pub struct Merge<C> {
    lanes: Vec<Lane<C>>,
    reversed: bool,
    deletion: Deletion,
    in_force: Deletion,
    first: usize,
    /// The token of the partition that the merge is in.
    token: Option<Token>,
    static_merged: Option<Vec<u8>>,
    shown: Shown,
    merged: Vec<u8>,
    spare: Vec<u8>,
    /// Some lane of this partition may be unread.
    defers: bool,
    /// How far the deletion in force was last known to go.
    covered_end: Vec<u8>,
    united: United,
}

/// One source of the merge: its cursor, and where that stands.
///
/// ```text
///                              at_partition   in_partition   needs_next   at_fragment
/// not opened                   no             no             -            no
/// at a later partition         yes            no             -            no
/// at the merge's partition     yes            yes            yes          no at first, then what it shows is used
///   its next fragment shown    yes            yes            no           yes
///   no more fragments, or none
///   that is needed             yes            yes            no           no
/// ```
#[derive(Debug)]
struct Lane<C> {
    cursor: C,
    /// The cursor is at a partition, or may come to one when it moves.
    has_more: bool,
    /// The cursor is at a partition.
    at_partition: bool,
    /// The lane is to be moved now.
    moves_now: bool,
    /// The lane is at the merge's partition: the search for the next partition moves it.
    in_partition: bool,
    /// The cursor is at a fragment of this partition.
    at_fragment: bool,
    /// The fragment has been used, or none was asked for yet: the next one is asked for when the merge moves.
    needs_next: bool,
    /// The range deletion in force in this lane.
    in_force: Deletion,
    /// How many of its rows and changes were used since the range deletion of the merge is in force.
    covered: u32,
}

/// Which fragment the merge shows.
#[derive(Clone, Copy, Debug)]
enum Shown {
    /// The one of this lane.
    Lane(usize),
    /// The row in `merged`, with the clustering of this lane.
    Merged(usize),
    /// The change of the deletion in force, at the position of this lane.
    Change(usize),
}

impl<C: Cursor> Lane<C> {
    /// Whether it stands at a change that changes nothing.
    fn is_unchanged(&self) -> bool {
        let in_force = self.in_force;
        matches!(self.cursor.fragment(), Fragment::Change { deletion, .. } if deletion == in_force)
    }
}

impl<C: MergeInput> Merge<C> {
    /// Merges cursors that were opened over one span with this direction.
    pub fn new(cursors: impl IntoIterator<Item = C>, reversed: bool) -> Self {
        let lane = |cursor| Lane {
            cursor,
            has_more: true,
            at_partition: false,
            moves_now: false,
            in_partition: true,
            at_fragment: false,
            needs_next: true,
            in_force: Deletion::NONE,
            covered: 0,
        };
        Merge {
            lanes: cursors.into_iter().map(lane).collect(),
            reversed,
            deletion: Deletion::NONE,
            in_force: Deletion::NONE,
            first: 0,
            token: None,
            static_merged: None,
            shown: Shown::Lane(0),
            merged: Vec::new(),
            spare: Vec::new(),
            defers: false,
            covered_end: Vec::new(),
            united: United::default(),
        }
    }

    /// The cursors that are merged.
    pub(crate) fn cursors(&self) -> impl Iterator<Item = &C> {
        self.lanes.iter().map(|lane| &lane.cursor)
    }

    /// The cursors that have something of the partition.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &C> {
        self.lanes.iter().filter(|lane| lane.in_partition).map(|lane| &lane.cursor)
    }

    /// Finds the smallest partition and the lanes that have it; `false` if none has one.
    fn choose_partition(&mut self) -> bool {
        let mut first: Option<usize> = None;
        for index in 0..self.lanes.len() {
            self.lanes[index].in_partition = false;
            if !self.lanes[index].at_partition {
                continue;
            }
            let order = first.map_or(Ordering::Less, |first| {
                place(&self.lanes[index].cursor).cmp(&place(&self.lanes[first].cursor))
            });
            if order.is_lt() {
                self.lanes[..index].iter_mut().for_each(|lane| lane.in_partition = false);
                first = Some(index);
            }
            if order.is_le() {
                self.lanes[index].in_partition = true;
            }
        }
        self.first = first.unwrap_or_default();
        first.is_some()
    }

    /// Unites the heads of the lanes that are here.
    fn unite_heads(&mut self) {
        let Merge { lanes, deletion, static_merged, spare, united, .. } = self;
        *deletion = Deletion::NONE;
        *static_merged = None;
        self.in_force = Deletion::NONE;
        for (index, lane) in lanes.iter_mut().enumerate().filter(|(_, lane)| lane.in_partition) {
            if index > self.first {
                united.count(0);
            }
            lane.in_force = Deletion::NONE;
            lane.covered = 0;
            lane.needs_next = true;
            *deletion = (*deletion).max(lane.cursor.head().deletion);
        }
        if !deletion.is_none() {
            // What is older than the partition's tombstone says nothing of the partition: no fragment is asked for.
            let silent =
                |lane: &&mut Lane<C>| lane.in_partition && deletion.covers(lane.cursor.newest());
            lanes.iter_mut().filter(silent).for_each(|lane| lane.needs_next = false);
        }
        let here = lanes.iter().filter(|lane| lane.in_partition);
        let mut statics = here.filter_map(|lane| lane.cursor.head().static_row);
        let (Some(first), Some(second)) = (statics.next(), statics.next()) else { return };
        let mut merged = Vec::new();
        merge(first, second, &mut merged);
        united.bytes = united.bytes.saturating_add(merged.len());
        for row in statics {
            spare.clear();
            merge(RowRef::trusted(&merged), row, spare);
            mem::swap(&mut merged, spare);
            united.bytes = united.bytes.saturating_add(merged.len());
        }
        *static_merged = Some(merged);
    }

    /// The lane with the first fragment in the direction of the span.
    fn choose_fragment(&self) -> Option<usize> {
        let mut best: Option<(usize, Fragment<'_>)> = None;
        for (index, lane) in self.lanes.iter().enumerate() {
            if !(lane.in_partition && lane.at_fragment) {
                continue;
            }
            let fragment = lane.cursor.fragment();
            let earlier = |other: &Fragment<'_>| self.order(&fragment, other).is_lt();
            if best.as_ref().is_none_or(|(_, other)| earlier(other)) {
                best = Some((index, fragment));
            }
        }
        best.map(|(index, _)| index)
    }

    /// Which comes first. Forward a change comes before the row at its position, reversed after.
    #[inline]
    fn order(&self, a: &Fragment<'_>, b: &Fragment<'_>) -> Ordering {
        let order = a.position().cmp(b.position()).then_with(|| b.is_change().cmp(&a.is_change()));
        if self.reversed { order.reverse() } else { order }
    }

    /// The lane, if there is one alone and its next row is the merge's: it stands at this partition, what it shows has
    /// been used, it is not to be opened or read first (`defers`), and no deletion is in force that it could be sought
    /// past.
    #[inline]
    fn single_lane(&mut self) -> Option<&mut Lane<C>> {
        match &mut self.lanes[..] {
            [lane]
                if lane.in_partition
                    && lane.needs_next
                    && self.in_force.is_none()
                    && !self.defers =>
            {
                Some(lane)
            }
            _ => None,
        }
    }

    /// Uses the changes at the position of lane `index`; whether another deletion is now in force.
    fn take_changes(&mut self, index: usize) -> bool {
        let (one, others) = self.lanes[index..].split_first_mut().expect("the lane is there");
        let Fragment::Change { position, deletion } = one.cursor.fragment() else {
            unreachable!("only called for a change")
        };
        assert!(
            one.in_partition && one.at_fragment && !one.needs_next,
            "a lane is used for what it shows"
        );
        for other in others.iter_mut().filter(|lane| lane.in_partition && lane.at_fragment) {
            if let Fragment::Change { position: at, deletion } = other.cursor.fragment()
                && at == position
            {
                other.in_force = deletion;
                other.needs_next = true;
                other.covered += 1;
                self.united.count(0);
            }
        }
        one.in_force = deletion;
        one.needs_next = true;
        one.covered += 1;
        let here = self.lanes.iter().filter(|lane| lane.in_partition);
        let strongest = match planted(Bug::MergeForgetsDeletions) {
            true => deletion,
            false => here.fold(Deletion::NONE, |all, lane| all.max(lane.in_force)),
        };
        let changes = mem::replace(&mut self.in_force, strongest) != strongest;
        if changes {
            self.lanes.iter_mut().for_each(|lane| lane.covered = 0);
        }
        changes
    }

    /// Uses the rows at the clustering of lane `index`, merging them if there are several.
    fn take_rows(&mut self, index: usize) -> Shown {
        let Fragment::Row { clustering, row: first } = self.lanes[index].cursor.fragment() else {
            unreachable!("only called for a row")
        };
        let one = &self.lanes[index];
        assert!(
            one.in_partition && one.at_fragment && !one.needs_next,
            "a lane is used for what it shows"
        );
        let mut count = 1;
        for other in
            self.lanes[index + 1..].iter().filter(|lane| lane.in_partition && lane.at_fragment)
        {
            let Fragment::Row { clustering: at, row } = other.cursor.fragment() else { continue };
            if at != clustering || planted(Bug::MergeTakesOneRow) {
                continue;
            }
            self.spare.clear();
            let so_far = if count == 1 { first } else { RowRef::trusted(&self.merged) };
            merge(so_far, row, &mut self.spare);
            mem::swap(&mut self.merged, &mut self.spare);
            self.united.count(self.merged.len());
            count += 1;
        }
        let (one, others) = self.lanes[index..].split_first_mut().expect("the lane is there");
        one.needs_next = true;
        one.covered += u32::from(!self.in_force.is_none());
        if count == 1 {
            return Shown::Lane(index);
        }
        for other in others.iter_mut().filter(|lane| lane.in_partition && lane.at_fragment) {
            if let Fragment::Row { clustering: at, .. } = other.cursor.fragment()
                && at == one.cursor.fragment().position()
            {
                other.needs_next = true;
                other.covered += u32::from(!self.in_force.is_none());
            }
        }
        Shown::Merged(index)
    }
}

#[inline]
fn place<C: Cursor>(cursor: &C) -> (Token, &[u8]) {
    let head = cursor.head();
    (head.token, head.key)
}

impl<C: MergeInput> Cursor for Merge<C> {
    async fn next_partition(&mut self) -> Result<bool> {
        self.go_to_partition().await?;
        if !self.choose_partition() {
            return Ok(false);
        }
        let token = self.lanes[self.first].cursor.head().token;
        assert!(self.token.replace(token).is_none_or(|last| last <= token), "partitions ascend");
        self.unite_heads();
        Ok(true)
    }

    #[inline]
    fn head(&self) -> Head<'_> {
        let head = self.lanes[self.first].cursor.head();
        let of_lane =
            |lane: &'_ Lane<C>| lane.in_partition && lane.cursor.head().static_row.is_some();
        let static_row = match &self.static_merged {
            Some(merged) => Some(RowRef::trusted(merged)),
            None => {
                let lane = self.lanes.iter().find(|lane| of_lane(lane));
                lane.and_then(|lane| lane.cursor.head().static_row)
            }
        };
        Head { deletion: self.deletion, static_row, ..head }
    }

    async fn next(&mut self) -> Result<bool> {
        // What `go_to_fragment` and `take_rows` do with one lane, without their loops: a range of a table that is one
        // run, or a key in one file, goes through here row by row. (It was measured on memtables, which are not merged
        // any more when alone: `memtable/prefetch.rs`.) A change takes the long way.
        if let Some(lane) = self.single_lane() {
            lane.at_fragment = lane.cursor.next().await?;
            lane.needs_next = lane.at_fragment && !lane.cursor.fragment().is_change();
            if lane.needs_next {
                self.shown = Shown::Lane(0);
                return Ok(true);
            }
        }
        for passed in 1.. {
            self.go_to_fragment().await?;
            // A lane at its end is at no fragment, and needs none.
            let Some(index) = self.choose_fragment() else { return Ok(false) };
            if !self.lanes[index].cursor.fragment().is_change() {
                self.shown = self.take_rows(index);
                return Ok(true);
            }
            let passed_much =
                self.lanes[index].is_unchanged() || passed == COVERED_BOUNDS_AT_ONCE_MAX;
            if self.take_changes(index) || passed_much {
                self.shown = Shown::Change(index);
                return Ok(true);
            }
        }
        unreachable!("it stops at the bound")
    }

    #[inline]
    fn fragment(&self) -> Fragment<'_> {
        match self.shown {
            Shown::Lane(index) => self.lanes[index].cursor.fragment(),
            Shown::Merged(index) => Fragment::Row {
                clustering: self.lanes[index].cursor.fragment().position(),
                row: RowRef::trusted(&self.merged),
            },
            Shown::Change(index) => Fragment::Change {
                position: self.lanes[index].cursor.fragment().position(),
                deletion: self.in_force,
            },
        }
    }

    #[inline]
    fn take_united(&mut self) -> United {
        mem::take(&mut self.united)
    }
}

#[cfg(test)]
mod tests;
