//! What was written to a large row since it was last put together: so an element that is written costs the element.
//!
//! ```text
//! base (in the arena)   [##############################]
//! parts                 [#######] [###] [#]            each at least twice as long as the next; merged when read
//! ```
//!
//! 1. A write to a row of [`ROW_IN_PARTS_BYTES_MIN`] and more is put beside it. Parts of about one length are merged, so
//!    there are few of them, and a byte is merged once for each doubling.
//! 2. When the parts take a quarter of the base, all is merged into the base: that is once for each quarter more.
//! 3. So n elements cost O(n log n) in all, and a reader merges at most a quarter more than the row. The sizes that are
//!    known without merging are too large by at most a quarter, and a timestamp for each cell; never too small.
//!
//! Not here: the base, and rows that are small (`memtable.rs`).

use std::collections::BTreeMap;

use model::row::{RowRef, merge};

use crate::limits::ROW_IN_PARTS_BYTES_MIN;

/// What one row takes beside its parts: the map's node, the key's box.
const ENTRY_BYTES: usize = 96;

/// The parts of the rows of one partition.
#[derive(Debug, Default)]
pub(super) struct RowParts {
    /// `None` for the static row.
    rows: BTreeMap<Option<Box<[u8]>>, Parts>,
    bytes: usize,
    /// Bytes of parts that were merged so far.
    pub(super) merged_bytes: u64,
}

/// The parts of one row.
#[derive(Debug)]
pub(super) struct Parts {
    base_cells: u64,
    /// The longest first.
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    row: Box<[u8]>,
    cells: u64,
}

/// How large a row is at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowBound {
    /// Bytes of its cells.
    pub bytes: u64,
    /// How many cells.
    pub cells: u64,
}

/// What is to become of a write to a row that is there.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It was put beside the row.
    AsPart,
    /// It is to be merged into the base, with all parts.
    ToMerge,
}

impl RowParts {
    /// Takes in a write to the row whose base is given.
    pub(super) fn take(&mut self, key: Option<&[u8]>, base: RowRef<'_>, new: RowRef<'_>) -> Taken {
        let (base_bytes, new_bytes) = (base.bytes().len(), new.bytes().len());
        if base_bytes < ROW_IN_PARTS_BYTES_MIN || new_bytes * 4 >= base_bytes {
            return Taken::ToMerge;
        }
        let key_bytes = ENTRY_BYTES + key.map_or(0, <[u8]>::len);
        let mut grown = 0;
        let parts = self.rows.entry(key.map(Box::from)).or_insert_with(|| {
            grown = key_bytes;
            Parts { base_cells: cells_of(base), parts: Vec::new() }
        });
        let before = parts.bytes();
        let merged_bytes = parts.add(new);
        let after = parts.bytes();
        self.bytes = self.bytes + grown + after - before;
        self.merged_bytes += merged_bytes as u64;
        if after * 4 >= base_bytes { Taken::ToMerge } else { Taken::AsPart }
    }

    /// The parts of a row.
    pub(super) fn of(&self, key: Option<&[u8]>) -> Option<&Parts> {
        if self.rows.is_empty() {
            return None;
        }
        self.rows.get(&key.map(Box::from))
    }

    /// The row is gone, or its parts are in its base.
    pub(super) fn remove(&mut self, key: Option<&[u8]>) {
        if self.rows.is_empty() {
            return;
        }
        let key = key.map(Box::from);
        if let Some(parts) = self.rows.remove(&key) {
            self.bytes -= ENTRY_BYTES + key.map_or(0, |key: Box<[u8]>| key.len()) + parts.bytes();
        }
    }

    /// Whether no row has parts.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Parts {
    /// Puts a write beside the others; merges those that are about as long: how many bytes that made.
    fn add(&mut self, new: RowRef<'_>) -> usize {
        let mut made = 0;
        let mut new = Part { row: new.bytes().into(), cells: cells_of(new) };
        while let Some(last) = self.parts.last()
            && last.row.len() < 2 * new.row.len()
        {
            let mut merged = Vec::new();
            merge(RowRef::trusted(&last.row), RowRef::trusted(&new.row), &mut merged);
            let cells = cells_of(RowRef::trusted(&merged));
            made += merged.len();
            new = Part { row: merged.into(), cells };
            self.parts.pop();
        }
        self.parts.push(new);
        made
    }

    /// The parts, the shortest first: merged in this order each byte is moved a few times at most.
    pub(super) fn rows(&self) -> impl Iterator<Item = RowRef<'_>> {
        self.parts.iter().rev().map(|part| RowRef::trusted(&part.row))
    }

    /// How large the row is at most, with a base of so many bytes. A cell that has the timestamp of its part has one of
    /// its own in a row of another timestamp.
    pub(super) fn bound(&self, base_bytes: usize) -> RowBound {
        let cells = self.base_cells + self.parts.iter().map(|part| part.cells).sum::<u64>();
        let bytes = (base_bytes + self.bytes()) as u64;
        RowBound { bytes: bytes + cells * size_of::<i64>() as u64, cells }
    }

    fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.row.len()).sum()
    }

    /// The newest write timestamp of the parts, in microseconds.
    pub(super) fn newest(&self) -> Option<i64> {
        self.rows().filter_map(|row| row.timestamps()).map(|(newest, _)| newest).max()
    }
}

/// How many cells a row has.
pub(super) fn cells_of(row: RowRef<'_>) -> u64 {
    row.cells().count() as u64
}

/// Merges rows into `all`, which is empty before the first.
pub(crate) fn unite<'r>(
    all: &mut Vec<u8>,
    rows: impl IntoIterator<Item = RowRef<'r>>,
    spare: &mut Vec<u8>,
) {
    for row in rows {
        if all.is_empty() {
            all.extend_from_slice(row.bytes());
            continue;
        }
        spare.clear();
        merge(RowRef::trusted(all), row, spare);
        std::mem::swap(all, spare);
    }
}
