//! The elements of one list while the changes of a statement go over it, one after the other.
//!
//! ```text
//! elements of the row + those that the statement adds, by path ─► change ─► … ─► what each element was written
//! ```
//!
//! Each change sees what those before it have made of the list, as in Cassandra: of an element that is there and one
//! that is written to its path the one counts that wins later, too. All paths are known before the first change, so an
//! index is found by counting the elements that live: in a tree of partial sums (Fenwick 1994), in the time of the
//! logarithm of their number. A statement may have a change for each of very many elements.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use model::cell::{Life, reconcile};
use model::mutation::{ListChange, ListOp};
use model::row::Cell;

use crate::error::{Error, Result};

/// What is or was written to an element: timestamp, life and value.
pub(super) type Written<'c> = (i64, Life, &'c [u8]);

/// A list that is being changed.
pub(super) struct Elements<'c> {
    now_s: u32,
    /// In the order of their paths.
    all: Vec<Element<'c>>,
    alive: Alive,
    /// The places of each value, made by the first discard. Some may be of values that are gone: each is looked at.
    places: Option<BTreeMap<&'c [u8], Vec<usize>>>,
}

struct Element<'c> {
    path: &'c [u8],
    /// What was there before the statement.
    before: Option<Written<'c>>,
    /// What the statement writes.
    new: Option<Written<'c>>,
}

impl<'c> Element<'c> {
    /// What a reader would see.
    fn current(&self) -> Option<Written<'c>> {
        match (self.before, self.new) {
            (Some(before), Some(new)) => {
                Some(if reconcile(before, new) == Ordering::Greater { before } else { new })
            }
            (before, new) => before.or(new),
        }
    }
}

impl<'c> Elements<'c> {
    /// The elements of a row, and places for those that the changes add.
    pub(super) fn of(cells: &[Cell<'c>], changes: &[(usize, ListChange<'c>)]) -> Elements<'c> {
        let there = cells.iter().map(|cell| {
            let before = Some((cell.timestamp, cell.life, cell.value));
            Element { path: cell.path.expect("an element has a path"), before, new: None }
        });
        let added = changes.iter().filter_map(|(_, change)| match change.op {
            ListOp::Add { path, .. } => Some(Element { path, before: None, new: None }),
            _ => None,
        });
        let mut all: Vec<Element<'c>> = there.chain(added).collect();
        // Stable: of two of one path the one that is there stays.
        all.sort_by_key(|element| element.path);
        all.dedup_by_key(|element| element.path);
        let alive = Alive::of(all.iter().map(|element| element.before.is_some()));
        let now_s = changes.iter().map(|(_, change)| change.now_s).max().unwrap_or_default();
        Elements { now_s, all, alive, places: None }
    }

    /// Does one change; in Cassandra's words what keeps it from being done.
    pub(super) fn change(&mut self, change: &ListChange<'c>) -> Result<()> {
        let dead = (change.timestamp, Life::Dead { local_s: change.now_s }, &[][..]);
        let live = |value, expiry: Option<_>| {
            (change.timestamp, expiry.map_or(Life::Live, Life::Expiring), value)
        };
        let (to_set, to_delete) = ("set an element on", "delete an element from");
        match change.op {
            ListOp::Keep { index } => drop(self.at(index, to_set)?),
            ListOp::Set { index, value, expiry } => {
                let at = self.at(index, to_set)?;
                self.write(at, value.map_or(dead, |value| live(value, expiry)));
            }
            ListOp::Delete { index } => {
                let at = self.at(index, to_delete)?;
                self.write(at, dead);
            }
            ListOp::Discard { value } => self.discard(value, dead),
            ListOp::Add { path, value, expiry } => {
                let at = self.all.binary_search_by_key(&path, |element| element.path);
                self.write(at.expect("it has a place from the beginning"), live(value, expiry));
            }
            ListOp::Clear => self.clear(dead),
            ListOp::Grow { .. } => unreachable!("what grows is no list"),
        }
        Ok(())
    }

    /// What the changes have written, by path.
    pub(super) fn written(self) -> impl Iterator<Item = (&'c [u8], Written<'c>)> {
        self.all.into_iter().filter_map(|element| Some((element.path, element.new?)))
    }

    fn clear(&mut self, dead: Written<'c>) {
        for at in 0..self.all.len() {
            if self.alive.is_set(at) {
                self.write(at, dead);
            }
        }
    }

    /// The element of an index.
    fn at(&self, index: i32, verb: &str) -> Result<usize> {
        let at = usize::try_from(index).ok().and_then(|index| self.alive.nth(index));
        at.ok_or_else(|| {
            Error::invalid(match self.alive.count() {
                0 => format!("Attempted to {verb} a list which is null"),
                size => format!("List index {index} out of bound, list has size {size}"),
            })
        })
    }

    fn write(&mut self, at: usize, cell: Written<'c>) {
        let element = &mut self.all[at];
        if element.new.is_none_or(|new| reconcile(cell, new) == Ordering::Greater) {
            element.new = Some(cell);
        }
        let current = element.current().filter(|(_, life, _)| !life.is_dead(self.now_s));
        self.alive.set(at, current.is_some());
        if let (Some(places), Some((_, _, value))) = (&mut self.places, current) {
            places.entry(value).or_default().push(at);
        }
    }

    fn discard(&mut self, value: &[u8], dead: Written<'c>) {
        let (all, alive) = (&self.all, &self.alive);
        let places = self.places.get_or_insert_with(|| {
            let mut places: BTreeMap<&'c [u8], Vec<usize>> = BTreeMap::new();
            for at in (0..all.len()).filter(|at| alive.is_set(*at)) {
                let (_, _, value) = all[at].current().expect("what lives has a value");
                places.entry(value).or_default().push(at);
            }
            places
        });
        for at in places.remove(value).unwrap_or_default() {
            let has_it = self.all[at].current().is_some_and(|(_, _, current)| current == value);
            if has_it && self.alive.is_set(at) {
                self.write(at, dead);
            }
        }
    }
}

/// Which elements live, and how many before each.
struct Alive {
    set: Vec<bool>,
    /// Partial sums: number `i`, counted from 1, of the last `i & -i` elements up to it.
    sums: Vec<u32>,
}

impl Alive {
    fn of(set: impl Iterator<Item = bool>) -> Alive {
        let set: Vec<bool> = set.collect();
        let mut sums = vec![0; set.len() + 1];
        for i in 1..sums.len() {
            sums[i] += u32::from(set[i - 1]);
            let above = i + lowest_bit(i);
            if above < sums.len() {
                sums[above] += sums[i];
            }
        }
        Alive { set, sums }
    }

    fn is_set(&self, at: usize) -> bool {
        self.set[at]
    }

    fn set(&mut self, at: usize, lives: bool) {
        if std::mem::replace(&mut self.set[at], lives) == lives {
            return;
        }
        let mut i = at + 1;
        while i < self.sums.len() {
            match lives {
                true => self.sums[i] += 1,
                false => self.sums[i] -= 1,
            }
            i += lowest_bit(i);
        }
    }

    fn count(&self) -> usize {
        let (mut count, mut i) = (0, self.set.len());
        while i > 0 {
            count += self.sums[i] as usize;
            i -= lowest_bit(i);
        }
        count
    }

    /// The place of number `index` of those that live, counted from 0.
    fn nth(&self, index: usize) -> Option<usize> {
        let (mut left, mut at) = (index, 0);
        let mut step = self.set.len().checked_ilog2().map_or(0, |bits| 1 << bits);
        while step > 0 {
            let next = at + step;
            if next < self.sums.len() && self.sums[next] as usize <= left {
                left -= self.sums[next] as usize;
                at = next;
            }
            step /= 2;
        }
        (at < self.set.len()).then_some(at)
    }
}

fn lowest_bit(i: usize) -> usize {
    i & i.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_living_are_counted_as_by_hand(
            start in prop::collection::vec(any::<bool>(), 0..40),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..40),
        ) {
            let (mut by_hand, mut alive) = (start.clone(), Alive::of(start.into_iter()));
            for (at, lives) in flips {
                if !by_hand.is_empty() {
                    let at = at.index(by_hand.len());
                    by_hand[at] = lives;
                    alive.set(at, lives);
                }
                let living: Vec<usize> = (0..by_hand.len()).filter(|at| by_hand[*at]).collect();
                prop_assert_eq!(alive.count(), living.len());
                for index in 0..by_hand.len() + 2 {
                    prop_assert_eq!(alive.nth(index), living.get(index).copied());
                }
            }
        }
    }
}
