//! The newest rows of one table, in memory: what the log holds and no sstable does yet.
//!
//! ```text
//! directory (token ► partition) ─► partition ─► rows (clustering ► bytes in the arena)
//!                                      └─► tombstones, static row
//! ```
//!
//! Invariants
//! 1. Only what is in the log is inserted (`write.rs`), so a memtable can be thrown away by a crash.
//! 2. `insert` cannot fail and does not yield. Inserting twice is inserting once.
//! 3. A row here is never wholly under a tombstone of its own partition here, apart from the rows
//!    that tombstones were too busy to take out (`removals.rs`): a read applies the tombstones anyway.
//! 4. A row is overwritten in place if the new bytes fit, so updating the same rows again and again
//!    does not grow the memtable. What is written to a large row lies beside it for a while (`parts.rs`).
//!
//! Not here: when to flush (`budget.rs`), which memtable is the active one (`table.rs`).

mod arena;
mod cursor;
mod leaves;
mod partition;
mod parts;
mod prefetch;
mod ranges;
mod removals;
pub(crate) mod terms;
#[cfg(test)]
mod tests;

use arena::Arena;
pub use cursor::MemtableCursor;
use leaves::{Entry, Leaves, Place};
use model::mutation::{MutationRef, RangeTombstone};
use model::read::Slice;
use model::row::{Purge, RowRef, compact, merge};
use model::schema::{IndexId, Table};
use model::{Deletion, Token};
use partition::{Partition, Rare, RowEntry, Rows, Slot, Text};
pub(crate) use parts::{RowBound, unite};
use parts::{Taken, cells_of};
use prefetch::{PREFETCHED_ENTRIES, prefetch, prefetch_value};
pub(crate) use removals::Removals;
use terms::Terms;

use crate::limits::ROW_IN_PARTS_BYTES_MIN;
use crate::pause::Pause;

/// Partitions of one slab: they never move, and the list of slabs stays short.
const SLAB_PARTITIONS: usize = 256;
/// Leaves of a list that are freed between two pauses.
const LEAVES_FREED_AT_ONCE: usize = 256;
/// Rows of a partition that are looked at for the longest: some microseconds.
const LONGEST_ROW_LOOKS_MAX: usize = 1024;

/// The rows of one table that are in no sstable yet.
#[derive(Debug, Default)]
pub struct Memtable {
    arena: Arena,
    directory: Leaves<Locator>,
    slabs: Vec<Vec<Partition>>,
    slab_slots: usize,
    /// Counts what moves places or changes tombstones, so that a cursor knows when to look again.
    version: u64,
    /// Memory of partitions outside the arena, the directory and the slabs.
    heap_bytes: usize,
    rows: u64,
    /// Bytes of the largest row there ever was.
    largest_row: usize,
    oldest: Option<i64>,
    newest: Option<i64>,
    scratch: Scratch,
    /// Bytes of rows that were put together so far.
    merged_bytes: u64,
    /// What the indexes of the table know of it, if they know of every row here.
    terms: Option<Box<Terms>>,
}

#[derive(Debug, Default)]
struct Scratch {
    uncovered: Vec<u8>,
    merged: Vec<u8>,
    spare: Vec<u8>,
}

/// Where a partition is.
#[derive(Clone, Copy, Debug)]
struct Locator {
    position: u64,
    index: u32,
}

impl Entry for Locator {
    #[inline]
    fn prefix(&self) -> u64 {
        self.position
    }
}

impl Memtable {
    /// Memory that the memtable holds, in bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.arena.bytes()
            + self.directory.bytes()
            + self.slab_slots * size_of::<Partition>()
            + self.heap_bytes
            + self.terms.as_ref().map_or(0, |terms| terms.bytes())
    }

    /// Whether nothing was ever inserted.
    pub fn is_empty(&self) -> bool {
        self.directory.len() == 0
    }

    /// How many partitions.
    pub fn partition_count(&self) -> usize {
        self.directory.len()
    }

    /// How many rows, static rows not counted.
    pub fn row_count(&self) -> u64 {
        self.rows
    }

    /// Bytes of the largest row, static ones included, that there ever was here.
    #[inline]
    pub fn largest_row(&self) -> usize {
        self.largest_row
    }

    /// Nothing here is older than this; `None` if nothing is here. Microseconds.
    pub fn oldest(&self) -> Option<i64> {
        self.oldest
    }

    /// Nothing here is newer than this; `None` if nothing is here. Microseconds.
    pub fn newest(&self) -> Option<i64> {
        self.newest
    }

    /// Gives its memory back in pieces, with pauses: all at once, a million partitions take some 100 ms.
    pub(crate) async fn free(self, pause: &dyn Pause) {
        let Memtable { arena, directory, slabs, terms, .. } = self;
        if let Some(terms) = terms {
            terms.free(pause).await;
        }
        for slab in slabs {
            for partition in slab {
                if let Rows::Many(rows) = partition.rows {
                    free_leaves(*rows, pause).await;
                }
            }
            pause.take().await;
        }
        free_leaves(directory, pause).await;
        for chunk in arena.into_chunks() {
            drop(chunk);
            pause.take().await;
        }
    }

    /// An empty one that knows the terms of what will be in it.
    pub(crate) fn of_table(table: &Table) -> Memtable {
        Memtable { terms: Terms::of_table(table), ..Memtable::default() }
    }

    /// Notes the terms of a change that was inserted.
    pub(crate) fn note_terms(&mut self, table: &Table, mutation: &MutationRef<'_>) {
        if let Some(terms) = &mut self.terms {
            terms.note(table, mutation);
        }
    }

    /// Whether every row here is known to the index.
    pub(crate) fn is_indexed(&self, index: IndexId) -> bool {
        self.terms.as_ref().is_some_and(|terms| terms.has(index))
    }

    /// About how many rows have these terms of an index.
    pub(crate) fn count_terms(&self, index: IndexId, ranges: &[Slice]) -> u64 {
        self.terms.as_ref().map_or(0, |terms| terms.count(index, ranges))
    }

    /// The entries of the terms at or above these bytes, in order (`memtable/terms.rs`).
    pub(crate) fn terms_from(&self, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
        self.terms.iter().flat_map(|terms| terms.entries_from(bytes))
    }

    /// Takes in one partition's change, as a step of its own.
    pub fn insert(&mut self, mutation: &MutationRef<'_>) {
        self.insert_within(mutation, &mut Removals::new());
    }

    /// The same as a part of a step.
    pub(crate) fn insert_within(&mut self, mutation: &MutationRef<'_>, removals: &mut Removals) {
        let index = self.partition_index(mutation.token, mutation.key);
        let before = self.partition(index).heap_bytes();
        if !mutation.deletion.is_none() {
            self.delete_partition(index, mutation.deletion, removals);
        }
        if let Some(row) = mutation.static_row {
            self.put_static(index, row);
        }
        for range in mutation.ranges() {
            self.delete_range(index, &range, removals);
        }
        for (clustering, row) in mutation.rows() {
            self.put_row(index, clustering, row);
        }
        assert!(before <= self.heap_bytes, "memory of a partition was counted when it grew");
        self.heap_bytes = self.heap_bytes + self.partition(index).heap_bytes() - before;
    }

    /// The partition of that key, if there is one.
    #[inline]
    pub fn get(&self, token: Token, key: &[u8]) -> Option<PartitionView<'_>> {
        let (place, found) = self.find(token, key);
        let locator = self.directory.get(place).filter(|_| found)?;
        Some(PartitionView { memtable: self, partition: self.partition(locator.index) })
    }

    #[inline]
    fn find(&self, token: Token, key: &[u8]) -> (Place, bool) {
        self.directory.find(token.biased(), |locator| {
            self.partition(locator.index).key.get(&self.arena).cmp(key)
        })
    }

    /// Asks the processor for the partitions that a scan from this place comes to soon: for the partition itself first,
    /// and when it lies half as far ahead, for its key and its only row, whose addresses the partition has.
    #[inline]
    fn prefetch_after(&self, place: Place) {
        if let Some(far) = self.directory.nth_after(place, 2 * PREFETCHED_ENTRIES) {
            prefetch_value(self.partition(far.index));
        }
        if let Some(near) = self.directory.nth_after(place, PREFETCHED_ENTRIES) {
            let partition = self.partition(near.index);
            prefetch(partition.key.get(&self.arena));
            if let Some(row) = partition.rows.only() {
                prefetch(row.bytes(&self.arena));
            }
        }
    }

    #[inline]
    fn partition(&self, index: u32) -> &Partition {
        &self.slabs[index as usize / SLAB_PARTITIONS][index as usize % SLAB_PARTITIONS]
    }

    #[inline]
    fn partition_mut(slabs: &mut [Vec<Partition>], index: u32) -> &mut Partition {
        &mut slabs[index as usize / SLAB_PARTITIONS][index as usize % SLAB_PARTITIONS]
    }

    /// Finds the partition, or makes it.
    fn partition_index(&mut self, token: Token, key: &[u8]) -> u32 {
        let (place, found) = self.find(token, key);
        if found {
            return self.directory.get(place).expect("it was found").index;
        }
        let index =
            u32::try_from(self.directory.len()).expect("memory ends before 2^32 partitions");
        let key = Text::put(&mut self.arena, key);
        if self.slabs.last().is_none_or(|slab| slab.len() == SLAB_PARTITIONS) {
            // The first one grows: most memtables of a node with many tables are small.
            let slots = if self.slabs.is_empty() { 0 } else { SLAB_PARTITIONS };
            self.slabs.push(Vec::with_capacity(slots));
            self.slab_slots += slots;
        }
        let slab = self.slabs.last_mut().expect("it was just pushed");
        let slots = slab.capacity();
        slab.push(Partition { token, key, rows: Rows::None, rare: None });
        self.slab_slots += slab.capacity() - slots;
        let in_last = slab.len();
        let partitions = in_last + (self.slabs.len() - 1) * SLAB_PARTITIONS;
        assert_eq!(partitions, index as usize + 1, "a partition lies where its index says");
        self.directory.insert(place, Locator { position: token.biased(), index }, i64::MAX);
        self.version += 1;
        index
    }

    fn delete_partition(&mut self, index: u32, deletion: Deletion, removals: &mut Removals) {
        self.saw(deletion.timestamp, deletion.timestamp);
        self.version += 1;
        let partition = Self::partition_mut(&mut self.slabs, index);
        let rare = partition.rare.get_or_insert_default();
        rare.deletion = rare.deletion.max(deletion);
        let end = [model::ordered::AFTER];
        self.drop_covered(index, &RangeTombstone { start: &[], end: &end, deletion }, removals);
    }

    fn delete_range(&mut self, index: u32, range: &RangeTombstone<'_>, removals: &mut Removals) {
        self.saw(range.deletion.timestamp, range.deletion.timestamp);
        self.version += 1;
        let partition = Self::partition_mut(&mut self.slabs, index);
        partition.rare.get_or_insert_default().ranges.add(range);
        self.drop_covered(index, range, removals);
    }

    /// Takes out rows that a tombstone covers wholly, as far as the step has something left for it.
    fn drop_covered(&mut self, index: u32, range: &RangeTombstone<'_>, removals: &mut Removals) {
        if removals.are_used_up() {
            return;
        }
        let partition = Self::partition_mut(&mut self.slabs, index);
        let mut place = partition.rows.find(&self.arena, range.start).0;
        while !removals.are_used_up() {
            place = partition.rows.normalize(place);
            let Some(entry) = partition.rows.get(place) else { break };
            if entry.clustering(&self.arena) >= range.end {
                break;
            }
            removals.count(entry.bytes(&self.arena).len());
            let newest = entry.row(&self.arena).timestamps().map(|(newest, _)| newest);
            let clustering = entry.clustering(&self.arena);
            let parts = partition.rare.as_deref_mut().map(|rare| &mut rare.parts);
            let of_parts = parts.as_ref().and_then(|parts| parts.of(Some(clustering))?.newest());
            if newest.max(of_parts).is_none_or(|newest| range.deletion.covers(newest)) {
                if let Some(parts) = parts {
                    parts.remove(Some(clustering));
                }
                partition.rows.remove(place);
                self.rows -= 1;
            } else {
                place = partition.rows.after(place);
            }
        }
    }

    fn put_static(&mut self, index: u32, row: RowRef<'_>) {
        self.saw_row(row);
        let partition = Self::partition_mut(&mut self.slabs, index);
        let Scratch { uncovered, merged, spare } = &mut self.scratch;
        let Some(row) = uncover(row, partition.deletion(), uncovered) else { return };
        let rare = partition.rare.get_or_insert_default();
        match &mut rare.static_row {
            None => {
                self.largest_row = self.largest_row.max(row.bytes().len());
                rare.static_row = Some(Slot::put(&mut self.arena, [&[], row.bytes()]));
            }
            Some(slot) => {
                let base = RowRef::trusted(slot.get(&self.arena));
                let taken = rare.parts.take(None, base, row);
                let parts = rare.parts.of(None);
                if taken == Taken::AsPart {
                    let bound = parts.map_or(0, |parts| parts.bound(base.bytes().len()).bytes);
                    self.largest_row = self.largest_row.max(bound as usize);
                    return;
                }
                merged.clear();
                let parts = parts.into_iter().flat_map(|parts| parts.rows());
                unite(merged, [row].into_iter().chain(parts).chain([base]), spare);
                self.largest_row = self.largest_row.max(merged.len());
                self.merged_bytes += merged.len() as u64;
                slot.set(&mut self.arena, [&[], merged]);
                rare.parts.remove(None);
            }
        }
    }

    fn put_row(&mut self, index: u32, clustering: &[u8], row: RowRef<'_>) {
        let newest = self.saw_row(row);
        let partition = Self::partition_mut(&mut self.slabs, index);
        let Scratch { uncovered, merged, spare } = &mut self.scratch;
        let Some(row) = uncover(row, partition.covering(clustering), uncovered) else { return };
        let (place, found) = partition.rows.find(&self.arena, clustering);
        if found {
            partition.rows.saw(place, newest);
            let entry = partition.rows.get_mut(place).expect("it was found");
            let base = entry.row(&self.arena);
            let base_bytes = base.bytes().len();
            merged.clear();
            if base_bytes < ROW_IN_PARTS_BYTES_MIN {
                merge(base, row, merged);
            } else {
                let parts = &mut partition.rare.get_or_insert_default().parts;
                let taken = parts.take(Some(clustering), base, row);
                let beside = parts.of(Some(clustering));
                if taken == Taken::AsPart {
                    let bound = beside.map_or(0, |beside| beside.bound(base_bytes).bytes);
                    self.largest_row = self.largest_row.max(bound as usize);
                    return;
                }
                let beside = beside.into_iter().flat_map(|beside| beside.rows());
                unite(merged, [row].into_iter().chain(beside).chain([base]), spare);
                parts.remove(Some(clustering));
            }
            self.largest_row = self.largest_row.max(merged.len());
            self.merged_bytes += merged.len() as u64;
            entry.set_row(&mut self.arena, clustering, merged);
        } else {
            self.largest_row = self.largest_row.max(row.bytes().len());
            let entry = RowEntry::put(&mut self.arena, clustering, row.bytes());
            let parts = partition.rare.as_ref().map(|rare| &rare.parts);
            let only = partition.rows.only().map(|only| only.clustering(&self.arena));
            let beside_only =
                parts.zip(only).and_then(|(parts, only)| parts.of(Some(only))?.newest());
            partition.rows.insert(&self.arena, place, (entry, newest), beside_only);
            self.version += 1;
            self.rows += 1;
        }
    }

    /// Takes a row's timestamps into those of all; its newest.
    fn saw_row(&mut self, row: RowRef<'_>) -> i64 {
        let Some((newest, oldest)) = row.timestamps() else { return i64::MIN };
        self.saw(newest, oldest);
        newest
    }

    fn saw(&mut self, newest: i64, oldest: i64) {
        assert!(oldest <= newest, "the oldest is not newer than the newest");
        self.newest = Some(self.newest.map_or(newest, |other| other.max(newest)));
        self.oldest = Some(self.oldest.map_or(oldest, |other| other.min(oldest)));
    }
}

async fn free_leaves<E: Entry>(leaves: Leaves<E>, pause: &dyn Pause) {
    for (number, leaf) in leaves.into_leaves().enumerate() {
        drop(leaf);
        if number % LEAVES_FREED_AT_ONCE == LEAVES_FREED_AT_ONCE - 1 {
            pause.take().await;
        }
    }
}

/// What of a row is not under `covering`; `None` if nothing is.
#[inline]
fn uncover<'r>(row: RowRef<'r>, covering: Deletion, out: &'r mut Vec<u8>) -> Option<RowRef<'r>> {
    if covering.is_none() {
        return Some(row);
    }
    compact(row, covering, &Purge::NOTHING, out)
}

/// The bytes of a row with the parts that lie beside it: they take a quarter of it at most (`parts.rs`).
fn with_parts(row_bytes: usize) -> usize {
    row_bytes + row_bytes / 4
}

impl Partition {
    fn heap_bytes(&self) -> usize {
        let rare = |rare: &Rare| size_of::<Rare>() + rare.ranges.bytes() + rare.parts.bytes();
        self.rows.bytes() + self.rare.as_deref().map_or(0, rare)
    }

    /// The parts of a row beside its base, the shortest first.
    fn beside<'a>(
        &'a self,
        clustering: Option<&[u8]>,
    ) -> impl Iterator<Item = RowRef<'a>> + use<'a> {
        let parts = self.rare.as_ref().and_then(|rare| rare.parts.of(clustering));
        parts.into_iter().flat_map(|parts| parts.rows())
    }

    #[inline]
    fn deletion(&self) -> Deletion {
        self.rare.as_ref().map_or(Deletion::NONE, |rare| rare.deletion)
    }

    /// What covers a row from outside it.
    #[inline]
    fn covering(&self, clustering: &[u8]) -> Deletion {
        let Some(rare) = &self.rare else { return Deletion::NONE };
        rare.deletion.max(rare.ranges.from(clustering).deletion)
    }
}

/// One partition, for a reader that knows which row it wants and does not wait in between.
#[derive(Clone, Copy, Debug)]
pub struct PartitionView<'a> {
    memtable: &'a Memtable,
    partition: &'a Partition,
}

impl<'a> PartitionView<'a> {
    /// The partition tombstone, or [`Deletion::NONE`].
    #[inline]
    pub fn deletion(&self) -> Deletion {
        self.partition.deletion()
    }

    /// Whether a row here is in parts: then what [`static_row`](Self::static_row) and [`row`](Self::row) give may not be
    /// all of it.
    #[inline]
    pub fn has_parts(&self) -> bool {
        self.partition.rare.as_ref().is_some_and(|rare| !rare.parts.is_empty())
    }

    /// The static row, as stored.
    #[inline]
    pub fn static_row(&self) -> Option<RowRef<'a>> {
        let slot = self.partition.rare.as_ref()?.static_row.as_ref()?;
        Some(RowRef::trusted(slot.get(&self.memtable.arena)))
    }

    /// The row with this clustering key, as stored.
    #[inline]
    pub fn row(&self, clustering: &[u8]) -> Option<RowRef<'a>> {
        let (place, found) = self.partition.rows.find(&self.memtable.arena, clustering);
        let entry = self.partition.rows.get(place).filter(|_| found)?;
        Some(entry.row(&self.memtable.arena))
    }

    /// What the row with this clustering key is made of, `None` for the static one: to be merged, in this order.
    pub fn parts(&self, clustering: Option<&[u8]>) -> impl Iterator<Item = RowRef<'a>> + use<'a> {
        let base = match clustering {
            None => self.static_row(),
            Some(clustering) => self.row(clustering),
        };
        self.partition.beside(clustering).chain(base)
    }

    /// How large the row is at most; without parts its cells are counted.
    pub fn bound(&self, clustering: Option<&[u8]>) -> RowBound {
        let base = match clustering {
            None => self.static_row(),
            Some(clustering) => self.row(clustering),
        };
        let Some(base) = base else { return RowBound::default() };
        let parts = self.partition.rare.as_ref().and_then(|rare| rare.parts.of(clustering));
        match parts {
            Some(parts) => parts.bound(base.bytes().len()),
            None => RowBound { bytes: base.bytes().len() as u64, cells: cells_of(base) },
        }
    }

    /// About how long the row with this clustering key is, in bytes, `None` for the static one.
    fn row_bytes(&self, clustering: Option<&[u8]>) -> usize {
        let base = match clustering {
            None => self.static_row(),
            Some(clustering) => self.row(clustering),
        };
        with_parts(base.map_or(0, |base| base.bytes().len()))
    }

    /// About how long the longest row is that a read finds, the static one included, in bytes: the one with this
    /// clustering key; without one the longest of the partition if it has few, else of the memtable.
    pub(crate) fn longest_row_bytes(&self, clustering: Option<&[u8]>) -> usize {
        let of_static = self.row_bytes(None);
        if clustering.is_some() {
            return self.row_bytes(clustering).max(of_static);
        }
        let rows = &self.partition.rows;
        let (mut longest, mut place) = (of_static, Place::START);
        for _ in 0..LONGEST_ROW_LOOKS_MAX {
            let Some(entry) = rows.get(place) else { return longest };
            longest = longest.max(with_parts(entry.bytes(&self.memtable.arena).len()));
            place = rows.after(place);
        }
        self.memtable.largest_row()
    }

    /// What covers a row of this clustering key from outside it.
    #[inline]
    pub fn covering(&self, clustering: &[u8]) -> Deletion {
        self.partition.covering(clustering)
    }
}
