//! An ordered list in leaves: a B+tree of two levels, for partitions and for the rows of one.
//!
//! ```text
//! prefixes [ 03.. | 41.. | 9c.. ]     the first eight bytes of each leaf's first entry, side by side
//! leaves   [ 03.. 17.. 29.. ][ 41.. 44.. ][ 9c.. d0.. ff.. ]
//! newest   [ 7               | 5         | 9            ]     no entry of the leaf is newer
//! ```
//!
//! 1. Every entry carries the first eight bytes of its key as a number, so most comparisons touch
//!    no other memory; who searches compares the rest with a closure.
//! 2. No leaf is empty. A full leaf splits in the middle, or at its end when that is where keys
//!    arrive: rows written in clustering order fill their leaves.
//! 3. The upper level is one vector: a split moves 8 + 24 bytes for each leaf behind it, some
//!    microseconds for millions of entries, once in `LEAF_ENTRIES_MAX / 2` inserts.
//! 4. What is older than a deletion is passed over a leaf at a time.

use std::cmp::Ordering;

use super::prefetch::prefetch_entries;
use crate::limits::{COVERED_LEAVES_AT_ONCE_MAX, LEAF_ENTRIES_MAX};
use crate::planted::{Bug, planted};

/// What a list holds.
pub(super) trait Entry {
    /// A number that orders like the key, as far as it goes.
    fn prefix(&self) -> u64;
}

/// A place in a list: of an entry, or where one would go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    leaf: usize,
    index: usize,
}

impl Place {
    /// Of the first entry.
    pub(super) const START: Place = Place { leaf: 0, index: 0 };
    /// Behind the first entry.
    pub(super) const SECOND: Place = Place { leaf: 0, index: 1 };
}

/// An ordered list of entries, in leaves of bounded size.
#[derive(Debug)]
pub(super) struct Leaves<E> {
    prefixes: Vec<u64>,
    leaves: Vec<Vec<E>>,
    newest: Vec<i64>,
    len: usize,
    bytes: usize,
}

impl<E> Default for Leaves<E> {
    fn default() -> Self {
        Leaves { prefixes: Vec::new(), leaves: Vec::new(), newest: Vec::new(), len: 0, bytes: 0 }
    }
}

/// What the upper level takes for a leaf.
const fn upper_bytes<E>() -> usize {
    size_of::<u64>() + size_of::<Vec<E>>() + size_of::<i64>()
}

impl<E: Entry> Leaves<E> {
    /// How many entries.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Memory that the list holds, in bytes.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first entry that is not before what `order` looks for, and whether it is the one.
    ///
    /// `order` compares an entry of the same prefix with what is looked for.
    #[inline]
    pub(super) fn find(&self, prefix: u64, order: impl Fn(&E) -> Ordering) -> (Place, bool) {
        let compare = |entry: &E| entry.prefix().cmp(&prefix).then_with(|| order(entry));
        let from = self.prefixes.partition_point(|&first| first < prefix);
        let same = self.prefixes[from..].partition_point(|&first| first == prefix);
        let tied = &self.leaves[from..from + same];
        let leaf = from + tied.partition_point(|entries| compare(&entries[0]).is_le());
        let leaf = leaf.saturating_sub(1);
        let Some(entries) = self.leaves.get(leaf) else {
            return (Place { leaf: 0, index: 0 }, false);
        };
        prefetch_entries(entries);
        match entries.binary_search_by(compare) {
            Ok(index) => (Place { leaf, index }, true),
            Err(index) => (Place { leaf, index }, false),
        }
    }

    /// About how many entries there are between two places.
    pub(super) fn distance(&self, from: Place, to: Place) -> u64 {
        if to <= from {
            return 0;
        }
        if from.leaf == to.leaf {
            return (to.index - from.index) as u64;
        }
        let leaves = to.leaf - from.leaf;
        let of_leaf = (self.len / self.leaves.len()).max(1);
        ((leaves * of_leaf + to.index).saturating_sub(from.index)) as u64
    }

    /// The entry at a place, if there is one.
    #[inline]
    pub(super) fn get(&self, place: Place) -> Option<&E> {
        self.leaves.get(place.leaf)?.get(place.index)
    }

    /// The entry `count` entries after a place, if it is in the same leaf or the next.
    #[inline]
    pub(super) fn nth_after(&self, place: Place, count: usize) -> Option<&E> {
        let (leaf, index) = (self.leaves.get(place.leaf)?, place.index + count);
        match index.checked_sub(leaf.len()) {
            None => leaf.get(index),
            Some(into_next_leaf) => self.leaves.get(place.leaf + 1)?.get(into_next_leaf),
        }
    }

    /// The entry `count` entries before a place, if it is in the same leaf.
    #[inline]
    pub(super) fn nth_before(&self, place: Place, count: usize) -> Option<&E> {
        self.leaves.get(place.leaf)?.get(place.index.checked_sub(count)?)
    }

    /// The entry at a place, to be changed without moving it.
    #[inline]
    pub(super) fn get_mut(&mut self, place: Place) -> Option<&mut E> {
        self.leaves.get_mut(place.leaf)?.get_mut(place.index)
    }

    /// The same place, or the start of the next leaf if it is behind the last of its own.
    #[inline]
    pub(super) fn normalize(&self, place: Place) -> Place {
        match self.leaves.get(place.leaf) {
            Some(entries) if place.index >= entries.len() => {
                Place { leaf: place.leaf + 1, index: 0 }
            }
            _ => place,
        }
    }

    /// The place after one that `normalize` gave.
    #[inline]
    pub(super) fn after(&self, place: Place) -> Place {
        self.normalize(Place { leaf: place.leaf, index: place.index + 1 })
    }

    /// The place after one that `normalize` gave, and the entry there, if there is one. (`after` and `get` would find the
    /// leaf three times.)
    #[inline]
    pub(super) fn next(&self, place: Place) -> Option<(Place, &E)> {
        let Place { leaf, index } = place;
        match self.leaves.get(leaf)?.get(index + 1) {
            Some(entry) => Some((Place { leaf, index: index + 1 }, entry)),
            // No leaf is empty: the first entry of the next one is the next.
            None => Some((Place { leaf: leaf + 1, index: 0 }, self.leaves.get(leaf + 1)?.first()?)),
        }
    }

    /// The place before, if there is one.
    #[inline]
    pub(super) fn before(&self, place: Place) -> Option<Place> {
        if place.index > 0 {
            return Some(Place { leaf: place.leaf, index: place.index - 1 });
        }
        let leaf = place.leaf.checked_sub(1)?;
        Some(Place { leaf, index: self.leaves[leaf].len() - 1 })
    }

    /// The same place, or the first behind it that is in a leaf with something newer than `timestamp`, or behind
    /// [`COVERED_LEAVES_AT_ONCE_MAX`] leaves.
    #[inline]
    pub(super) fn first_newer(&self, place: Place, timestamp: i64) -> Place {
        let place = self.normalize(place);
        let left = self.newest.get(place.leaf..).unwrap_or_default();
        let left = left.iter().take(COVERED_LEAVES_AT_ONCE_MAX);
        match left.take_while(|newest| is_covered(**newest, timestamp)).count() {
            0 => place,
            passed => Place { leaf: place.leaf + passed, index: 0 },
        }
    }

    /// The same place, or the last before it that is in a leaf with something newer than `timestamp`, or before so many
    /// leaves.
    #[inline]
    pub(super) fn last_newer(&self, place: Place, timestamp: i64) -> Option<Place> {
        let down = self.newest[..=place.leaf].iter().rev().take(COVERED_LEAVES_AT_ONCE_MAX);
        match down.take_while(|newest| is_covered(**newest, timestamp)).count() {
            0 => Some(place),
            passed => self.before(Place { leaf: place.leaf + 1 - passed, index: 0 }),
        }
    }

    /// An entry is as new as `timestamp` now. Microseconds.
    #[inline]
    pub(super) fn saw(&mut self, place: Place, timestamp: i64) {
        let newest = &mut self.newest[place.leaf];
        *newest = timestamp.max(*newest);
    }

    /// Puts an entry where `find` said. Nothing of it is newer than `timestamp`, in microseconds.
    pub(super) fn insert(&mut self, place: Place, entry: E, timestamp: i64) {
        self.len += 1;
        let Place { mut leaf, mut index } = place;
        if self.leaves.is_empty() {
            self.prefixes.push(entry.prefix());
            self.leaves.push(vec![entry]);
            self.newest.push(timestamp);
            self.bytes += self.leaf_bytes(0) + upper_bytes::<E>();
            return;
        }
        if self.leaves[leaf].len() == LEAF_ENTRIES_MAX {
            let at_end = leaf + 1 == self.leaves.len() && index == LEAF_ENTRIES_MAX;
            let middle = if at_end { LEAF_ENTRIES_MAX } else { LEAF_ENTRIES_MAX / 2 };
            self.split(leaf, middle, &entry);
            if index >= middle && (at_end || index > middle) {
                (leaf, index) = (leaf + 1, index - middle);
            }
        }
        let before = self.leaf_bytes(leaf);
        if index == 0 {
            self.prefixes[leaf] = entry.prefix();
        }
        assert!(self.leaves[leaf].len() < LEAF_ENTRIES_MAX, "a full leaf was split");
        self.leaves[leaf].insert(index, entry);
        self.newest[leaf] = self.newest[leaf].max(timestamp);
        self.bytes += self.leaf_bytes(leaf) - before;
    }

    /// Takes an entry out. Places behind it move.
    pub(super) fn remove(&mut self, place: Place) -> E {
        let entry = self.leaves[place.leaf].remove(place.index);
        self.len -= 1;
        match self.leaves[place.leaf].first() {
            Some(first) => self.prefixes[place.leaf] = first.prefix(),
            None => {
                self.bytes -= self.leaf_bytes(place.leaf) + upper_bytes::<E>();
                self.leaves.remove(place.leaf);
                self.newest.remove(place.leaf);
                self.prefixes.remove(place.leaf);
                assert_eq!(self.prefixes.len(), self.leaves.len(), "each leaf has its prefix");
            }
        }
        entry
    }

    /// Moves the entries from `middle` on into a new leaf; with none, it begins with `entry`'s prefix.
    fn split(&mut self, leaf: usize, middle: usize, entry: &E) {
        assert!(middle > 0 && middle <= self.leaves[leaf].len(), "no leaf is left empty");
        let before = self.leaf_bytes(leaf);
        let mut upper = Vec::with_capacity(LEAF_ENTRIES_MAX);
        upper.extend(self.leaves[leaf].drain(middle..));
        let first = upper.first().map_or_else(|| entry.prefix(), Entry::prefix);
        self.prefixes.insert(leaf + 1, first);
        self.newest.insert(leaf + 1, if upper.is_empty() { i64::MIN } else { self.newest[leaf] });
        self.leaves.insert(leaf + 1, upper);
        self.bytes += self.leaf_bytes(leaf) + self.leaf_bytes(leaf + 1) - before;
        self.bytes += upper_bytes::<E>();
        assert_eq!(self.prefixes.len(), self.leaves.len(), "each leaf has its prefix");
    }

    /// The leaves, to be freed one by one.
    pub(super) fn into_leaves(self) -> impl ExactSizeIterator<Item = Vec<E>> {
        self.leaves.into_iter()
    }

    fn leaf_bytes(&self, leaf: usize) -> usize {
        self.leaves[leaf].capacity() * size_of::<E>()
    }
}

/// Whether a leaf with nothing newer than `newest` is passed over under a deletion at `timestamp`.
#[inline]
fn is_covered(newest: i64, timestamp: i64) -> bool {
    newest <= timestamp || planted(Bug::SkipNewerLeaf)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// A key in two halves, of which only the first is the prefix.
    type Key = (u64, u8);

    impl Entry for Key {
        fn prefix(&self) -> u64 {
            self.0
        }
    }

    fn find(leaves: &Leaves<Key>, key: Key) -> (Place, bool) {
        leaves.find(key.0, |entry| entry.1.cmp(&key.1))
    }

    fn age(key: Key) -> i64 {
        (key.0 as i64 * 7 + i64::from(key.1)) % 5
    }

    /// From a place on, in both directions, nothing newer is passed over.
    fn check_newer(leaves: &Leaves<Key>, place: Place, key: Key, model: &BTreeSet<Key>) {
        for timestamp in 0..5 {
            let is_newer = |key: &&Key| age(**key) > timestamp;
            let newer = leaves.get(leaves.first_newer(place, timestamp));
            let passed =
                model.range(key..).take_while(|key| newer.is_none_or(|newer| *key < newer));
            assert_eq!({ passed }.find(is_newer), None);
            let from = leaves.before(place);
            let newer = from.and_then(|from| leaves.last_newer(from, timestamp));
            let newer = newer.and_then(|place| leaves.get(place));
            let passed = model.range(..key).rev();
            let mut passed = passed.take_while(|key| newer.is_none_or(|newer| *key > newer));
            assert_eq!(passed.find(is_newer), None);
        }
    }

    fn check(keys: impl IntoIterator<Item = (Key, bool)>) {
        let (mut leaves, mut model) = (Leaves::default(), BTreeSet::new());
        for (key, insert) in keys {
            let (place, found) = find(&leaves, key);
            assert_eq!(found, model.contains(&key));
            let next = leaves.get(leaves.normalize(place));
            assert_eq!(next, model.range(key..).next());
            let previous = leaves.before(place).and_then(|place| leaves.get(place));
            assert_eq!(previous, model.range(..key).next_back());
            check_newer(&leaves, place, key, &model);
            if insert && !found {
                leaves.insert(place, key, age(key));
                model.insert(key);
            } else if !insert && found {
                assert_eq!(leaves.remove(place), key);
                model.remove(&key);
            }
            assert_eq!(leaves.len(), model.len());
        }
        let mut place = Place::START;
        for key in &model {
            assert_eq!(leaves.get(place), Some(key));
            let next = leaves.next(place);
            place = leaves.after(place);
            assert_eq!(next, leaves.get(place).map(|entry| (place, entry)));
        }
        assert_eq!(leaves.get(place), None);
    }

    proptest! {
        // 64 cases and not 256: each has up to 2,000 keys, and the set is checked after every one of them.
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn agrees_with_a_btree_set(
            keys in prop::collection::vec(((0..40u64, 0..40u8), prop::bool::weighted(0.8)), 0..2000)
        ) {
            check(keys);
        }
    }

    #[test]
    fn keys_in_order_fill_their_leaves() {
        check((0..1000).map(|i| ((i, 0), true)));
        let mut leaves = Leaves::default();
        for i in 0..1000 {
            let (place, _) = find(&leaves, (i, 0));
            leaves.insert(place, (i, 0), 0);
        }
        assert_eq!(leaves.leaves.len(), 1000_usize.div_ceil(LEAF_ENTRIES_MAX));
        assert_eq!(leaves.get(leaves.first_newer(Place::SECOND, 0)), None, "all are as old");
        assert_eq!(leaves.last_newer(find(&leaves, (900, 0)).0, 0), None);
        leaves.saw(find(&leaves, (500, 0)).0, 1);
        let newer = leaves.get(leaves.first_newer(Place::START, 0)).map(|key| key.0);
        assert_eq!(newer, Some(500 / LEAF_ENTRIES_MAX as u64 * LEAF_ENTRIES_MAX as u64));
    }

    /// Before: all leaves that were left were looked at, again for each border of range tombstones.
    #[test]
    fn of_old_leaves_few_are_passed_at_once() {
        let mut leaves = Leaves::default();
        let count = 2 * COVERED_LEAVES_AT_ONCE_MAX + 1;
        for i in 0..(count * LEAF_ENTRIES_MAX) as u64 {
            let (place, _) = find(&leaves, (i, 0));
            leaves.insert(place, (i, 0), 0);
        }
        assert_eq!(leaves.leaves.len(), count);
        let most = COVERED_LEAVES_AT_ONCE_MAX;
        assert_eq!(leaves.first_newer(Place::SECOND, 0).leaf, most);
        let last = find(&leaves, (u64::MAX, 0)).0;
        let last = leaves.before(last).and_then(|last| leaves.last_newer(last, 0));
        assert_eq!(last.map(|last| last.leaf), Some(count - 1 - most));
    }
}
