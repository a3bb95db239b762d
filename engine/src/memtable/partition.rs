//! One partition of a memtable: its tombstones, its static row, its rows in clustering order.
//!
//! ```text
//! partition ─┬─ token, key
//!            ├─ rows    none │ one, inline │ many, in leaves       an entry: prefix, slot
//!            └─ rare    tombstone of the partition, static row, range tombstones, parts of large rows; in a box
//! slot       [ clustering key │ row │ space ]                      in the arena
//! ```
//!
//! A partition of one row, which is every partition of a table without clustering columns, holds that row inline. What
//! is rare (tombstones over more than a row, static rows, large rows in parts) is in a box of its own.
//!
//! Invariants
//! 1. The clustering key and the row stand in one slot of the arena, the key first. The key of an entry never changes.
//! 2. A row that outgrows its slot moves to a new one; the old bytes stay in the arena until the memtable is freed.
//! 3. The prefix is the first eight bytes of the clustering key, filled with zeros: equal prefixes decide nothing, and
//!    the keys are compared.
//! 4. Of many rows, each leaf has a bound: no row of the leaf is newer. The caller gives the newest timestamp of each
//!    row that it puts (`insert`) or overwrites (`saw`). A single row has no bound and is always looked at.
//!
//! Not here: how rows are merged, and which rows a tombstone takes out (`memtable.rs`); the list itself (`leaves.rs`);
//! the walk that readers use (`cursor.rs`).

use std::cmp::Ordering;

use model::bytes::compare;
use model::row::RowRef;
use model::{Deletion, Token};

use super::arena::{Arena, Handle};
use super::leaves::{Entry, Leaves, Place};
use super::parts::RowParts;
use super::prefetch::{PREFETCHED_ENTRIES, prefetch};
use super::ranges::Ranges;

/// One partition of a memtable: its deletions, its static row and its rows.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) token: Token,
    pub(super) key: Text,
    pub(super) rows: Rows,
    /// Once there it stays, however little is left in it: to readers its absence says that no deletion was ever shown.
    pub(super) rare: Option<Box<Rare>>,
}

/// Bytes in the arena that never change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    handle: Handle,
    len: u32,
}

/// What few partitions have.
#[derive(Debug)]
pub(super) struct Rare {
    pub(super) deletion: Deletion,
    pub(super) static_row: Option<Slot>,
    pub(super) ranges: Ranges,
    pub(super) parts: RowParts,
}

impl Default for Rare {
    fn default() -> Self {
        let (static_row, ranges, parts) = Default::default();
        Rare { deletion: Deletion::NONE, static_row, ranges, parts }
    }
}

/// Bytes in the arena that are overwritten, with the space they have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    handle: Handle,
    len: u32,
    space: u32,
}

/// A row in the list of its partition: clustering key, then row, in one slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowEntry {
    prefix: u64,
    slot: Slot,
    clustering_len: u32,
}

/// The rows of a partition.
#[derive(Debug, Default)]
pub(super) enum Rows {
    #[default]
    None,
    One(RowEntry),
    Many(Box<Leaves<RowEntry>>),
}

impl Text {
    pub(super) fn put(arena: &mut Arena, bytes: &[u8]) -> Text {
        let handle = arena.put([bytes, &[]], bytes.len());
        Text { handle, len: len(bytes.len()) }
    }

    #[inline]
    pub(super) fn get<'a>(&self, arena: &'a Arena) -> &'a [u8] {
        arena.get(self.handle, self.len as usize)
    }
}

impl Slot {
    /// The first time bytes get exactly their space: most rows are never written again.
    pub(super) fn put(arena: &mut Arena, parts: [&[u8]; 2]) -> Slot {
        Slot::with_space(arena, parts, parts[0].len() + parts[1].len())
    }

    /// The bytes with so much space in all.
    fn with_space(arena: &mut Arena, parts: [&[u8]; 2], space: usize) -> Slot {
        let count = parts[0].len() + parts[1].len();
        Slot { handle: arena.put(parts, space), len: len(count), space: len(space) }
    }

    /// Overwrites the bytes in place if they fit. If not they move, with half as much again in
    /// reserve: a row that grows again and again (a list that is appended to) is copied in full
    /// only every so often.
    pub(super) fn set(&mut self, arena: &mut Arena, parts: [&[u8]; 2]) {
        let count = parts[0].len() + parts[1].len();
        if count > self.space as usize {
            *self = Slot::with_space(arena, parts, count + count / 2);
            return;
        }
        let (first, second) = arena.get_mut(self.handle, count).split_at_mut(parts[0].len());
        first.copy_from_slice(parts[0]);
        second.copy_from_slice(parts[1]);
        self.len = len(count);
    }

    #[inline]
    pub(super) fn get<'a>(&self, arena: &'a Arena) -> &'a [u8] {
        arena.get(self.handle, self.len as usize)
    }
}

impl RowEntry {
    pub(super) fn put(arena: &mut Arena, clustering: &[u8], row: &[u8]) -> RowEntry {
        RowEntry {
            prefix: prefix(clustering),
            slot: Slot::put(arena, [clustering, row]),
            clustering_len: len(clustering.len()),
        }
    }

    #[inline]
    pub(super) fn clustering<'a>(&self, arena: &'a Arena) -> &'a [u8] {
        arena.get(self.slot.handle, self.clustering_len as usize)
    }

    /// The clustering key and the row behind it.
    #[inline]
    pub(super) fn bytes<'a>(&self, arena: &'a Arena) -> &'a [u8] {
        self.slot.get(arena)
    }

    #[inline]
    pub(super) fn row<'a>(&self, arena: &'a Arena) -> RowRef<'a> {
        self.key_and_row(arena).1
    }

    /// The clustering key and the row, from one look into the arena.
    #[inline]
    pub(super) fn key_and_row<'a>(&self, arena: &'a Arena) -> (&'a [u8], RowRef<'a>) {
        let (clustering, row) = self.bytes(arena).split_at(self.clustering_len as usize);
        (clustering, RowRef::trusted(row))
    }

    /// Replaces the row. The clustering key may come from the arena itself, so it is given again.
    pub(super) fn set_row(&mut self, arena: &mut Arena, clustering: &[u8], row: &[u8]) {
        assert_eq!(clustering.len(), self.clustering_len as usize, "the key of a row stays");
        self.slot.set(arena, [clustering, row]);
    }
}

impl Entry for RowEntry {
    #[inline]
    fn prefix(&self) -> u64 {
        self.prefix
    }
}

impl Rows {
    /// Memory held outside the arena.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Rows::None | Rows::One(_) => 0,
            Rows::Many(rows) => size_of::<Leaves<RowEntry>>() + rows.bytes(),
        }
    }

    /// The first place that is not before `clustering`, and whether it is there.
    #[inline]
    pub(super) fn find(&self, arena: &Arena, clustering: &[u8]) -> (Place, bool) {
        match self {
            Rows::None => (Place::START, false),
            Rows::One(entry) => match compare(entry.clustering(arena), clustering) {
                Ordering::Less => (Place::SECOND, false),
                order => (Place::START, order.is_eq()),
            },
            // The empty key, where a partition begins, is before all others: the first entry says whether it is
            // there, and no key is fetched from the arena.
            Rows::Many(rows) if clustering.is_empty() => {
                let first = rows.get(Place::START);
                (Place::START, first.is_some_and(|entry| entry.clustering_len == 0))
            }
            Rows::Many(rows) => {
                rows.find(prefix(clustering), |entry| compare(entry.clustering(arena), clustering))
            }
        }
    }

    /// The same place, or the next leaf's first if it is behind the end of its own.
    #[inline]
    pub(super) fn normalize(&self, place: Place) -> Place {
        match self {
            Rows::None | Rows::One(_) => place,
            Rows::Many(rows) => rows.normalize(place),
        }
    }

    /// The entry at a place; a place behind the end of its leaf counts as the next.
    #[inline]
    pub(super) fn get(&self, place: Place) -> Option<&RowEntry> {
        match self {
            Rows::None => None,
            Rows::One(entry) => (place == Place::START).then_some(entry),
            Rows::Many(rows) => rows.get(rows.normalize(place)),
        }
    }

    /// The entry at a place where `find` found one.
    pub(super) fn get_mut(&mut self, place: Place) -> Option<&mut RowEntry> {
        match self {
            Rows::None => None,
            Rows::One(entry) => (place == Place::START).then_some(entry),
            Rows::Many(rows) => rows.get_mut(place),
        }
    }

    /// The place after.
    #[inline]
    pub(super) fn after(&self, place: Place) -> Place {
        match self {
            Rows::None | Rows::One(_) => Place::SECOND,
            Rows::Many(rows) => rows.after(rows.normalize(place)),
        }
    }

    /// The place after one that `normalize` gave, and the entry there, if there is one.
    #[inline]
    pub(super) fn next(&self, place: Place) -> Option<(Place, &RowEntry)> {
        match self {
            Rows::None | Rows::One(_) => None,
            Rows::Many(rows) => rows.next(place),
        }
    }

    /// The place before, if there is one.
    #[inline]
    pub(super) fn before(&self, place: Place) -> Option<Place> {
        match self {
            Rows::None => None,
            Rows::One(_) => (place == Place::SECOND).then_some(Place::START),
            Rows::Many(rows) => rows.before(place),
        }
    }

    /// Asks the processor for the row that a scan in ascending order comes to soon.
    #[inline]
    pub(super) fn prefetch_after(&self, arena: &Arena, place: Place) {
        if let Rows::Many(rows) = self
            && let Some(entry) = rows.nth_after(place, PREFETCHED_ENTRIES)
        {
            prefetch(entry.bytes(arena));
        }
    }

    /// Asks the processor for the row that a scan in descending order comes to soon.
    #[inline]
    pub(super) fn prefetch_before(&self, arena: &Arena, place: Place) {
        if let Rows::Many(rows) = self
            && let Some(entry) = rows.nth_before(place, PREFETCHED_ENTRIES)
        {
            prefetch(entry.bytes(arena));
        }
    }

    /// The entry, if it is the only one.
    pub(super) fn only(&self) -> Option<&RowEntry> {
        match self {
            Rows::One(entry) => Some(entry),
            Rows::None | Rows::Many(_) => None,
        }
    }

    /// Puts an entry where `find` said. Nothing in it is newer than `timestamp`, in microseconds, and nothing that is
    /// kept beside the only other entry is newer than `beside_only`.
    pub(super) fn insert(
        &mut self,
        arena: &Arena,
        place: Place,
        (entry, timestamp): (RowEntry, i64),
        beside_only: Option<i64>,
    ) {
        match self {
            Rows::None => *self = Rows::One(entry),
            Rows::One(other) => {
                let newest = other.row(arena).timestamps().map(|(newest, _)| newest);
                let newest = newest.max(beside_only).unwrap_or(i64::MIN);
                let mut rows = Box::<Leaves<RowEntry>>::default();
                rows.insert(Place::START, *other, newest);
                rows.insert(place, entry, timestamp);
                *self = Rows::Many(rows);
            }
            Rows::Many(rows) => rows.insert(place, entry, timestamp),
        }
    }

    /// What `find` found is as new as `timestamp` now.
    pub(super) fn saw(&mut self, place: Place, timestamp: i64) {
        if let Rows::Many(rows) = self {
            rows.saw(place, timestamp);
        }
    }

    /// The same place, or a later one: between them all is covered by a deletion at `timestamp`.
    #[inline]
    pub(super) fn first_newer(&self, place: Place, timestamp: i64) -> Place {
        match self {
            Rows::None | Rows::One(_) => place,
            Rows::Many(rows) => rows.first_newer(place, timestamp),
        }
    }

    /// The same place, or an earlier one: between them all is covered by a deletion at `timestamp`.
    #[inline]
    pub(super) fn last_newer(&self, place: Place, timestamp: i64) -> Option<Place> {
        match self {
            Rows::None | Rows::One(_) => Some(place),
            Rows::Many(rows) => rows.last_newer(place, timestamp),
        }
    }

    /// Takes out what `find` found.
    pub(super) fn remove(&mut self, place: Place) {
        match self {
            Rows::None => {}
            Rows::One(_) => *self = Rows::None,
            Rows::Many(rows) => {
                rows.remove(place);
            }
        }
    }
}

/// The first eight bytes as a number, shorter keys filled with zeros: it orders like the key.
#[inline]
fn prefix(clustering: &[u8]) -> u64 {
    match clustering.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut first = [0; 8];
            first[..clustering.len()].copy_from_slice(clustering);
            u64::from_be_bytes(first)
        }
    }
}

#[inline]
fn len(value: usize) -> u32 {
    u32::try_from(value).expect("a row is smaller than a mutation, which is bounded")
}
