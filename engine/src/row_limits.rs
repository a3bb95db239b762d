//! How large a row may become: a row is what any number of writes have made of it, so the bound of one write does not
//! bound it.
//!
//! ```text
//! write ─► does the table hold a large row, or may the write bring one? ─no─► taken         (nearly every write)
//!                    └─yes─► this row in memtables + in files + the write ─► taken, or Invalid
//! ```
//!
//! 1. The sum is an upper bound: an element that is in two files counts twice until they are merged. A column that the
//!    write or a memtable replaces counts once. A row of which a merge goes on inside its partition counts once, too.
//! 2. A write that only deletes may pass up to twice the limit: it is how a row gets smaller.
//! 3. What waits between log and memtables is not counted, nor what is below
//!    [`LARGE_ROW_BYTES`](crate::limits::LARGE_ROW_BYTES) in a file:
//!    [`BLOCK_BYTES_MAX`](crate::limits::BLOCK_BYTES_MAX) is far enough above.
//!
//! Not here: rows that were too large already; a compaction that meets one leaves its files alone (`job.rs`).

use std::sync::Arc;

use model::cell::Life;
use model::mutation::MutationRef;
use model::row::{RowRef, merge};

use crate::error::{Error, Result};
use crate::limits::{COMPACTED_ROW_BYTES_MAX, ROW_BYTES_MAX, ROW_CELL_BYTES_MIN, ROW_CELLS_MAX};
use crate::manifest::ViewBegin;
use crate::sstable::LargeRow;
use crate::table::{Table, View};

/// Limits of one row after merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowLimits {
    /// Bytes of all its cells.
    pub bytes_max: u64,
    /// Its cells: elements and tombstones of collections, and one for each other column.
    pub cells_max: u64,
    /// Bytes of a row that a compaction still writes.
    pub compacted_bytes_max: u64,
}

impl Default for RowLimits {
    fn default() -> Self {
        RowLimits {
            bytes_max: ROW_BYTES_MAX,
            cells_max: ROW_CELLS_MAX,
            compacted_bytes_max: COMPACTED_ROW_BYTES_MAX,
        }
    }
}

/// What a row would hold. Sums saturate: the statistics of a damaged file may say anything.
#[derive(Clone, Copy, Debug, Default)]
struct RowSize {
    bytes: u64,
    cells: u64,
}

impl RowSize {
    fn plus(self, bytes: u64, cells: u64) -> RowSize {
        RowSize { bytes: self.bytes.saturating_add(bytes), cells: self.cells.saturating_add(cells) }
    }
}

impl Table {
    /// Refuses a mutation that would make a row larger than a row may be. It is of a record of so many bytes.
    #[inline]
    pub(crate) fn check_growth(
        &self,
        mutation: &MutationRef<'_>,
        record_bytes: usize,
        limits: &RowLimits,
    ) -> Result<()> {
        let brings_one = record_bytes as u64 > limits.bytes_max;
        if brings_one || self.has_large_rows() { self.check_rows(mutation, limits) } else { Ok(()) }
    }

    #[cold]
    fn check_rows(&self, mutation: &MutationRef<'_>, limits: &RowLimits) -> Result<()> {
        let stat = mutation.static_row.map(|row| (None, row));
        let rows = mutation.rows().map(|(clustering, row)| (Some(clustering), row));
        stat.into_iter().chain(rows).try_for_each(|(clustering, row)| {
            let bytes_before = self.bytes_before(mutation, clustering);
            if bytes_before.saturating_add(row.bytes().len() as u64)
                <= limits.bytes_max.min(limits.cells_max * ROW_CELL_BYTES_MIN)
            {
                return Ok(());
            }
            let bound = self.bound_with(mutation, clustering, row);
            if bound.bytes <= limits.bytes_max && bound.cells <= limits.cells_max {
                return Ok(());
            }
            let size = self.size_with(mutation, clustering, row);
            let deletes = row.cells().all(|cell| matches!(cell.life, Life::Dead { .. }));
            let times = if deletes { 2 } else { 1 };
            if size.bytes > times * limits.bytes_max {
                return Err(self.too_large(size.bytes, "bytes", limits.bytes_max));
            }
            if size.cells > times * limits.cells_max {
                return Err(self.too_large(size.cells, "cells", limits.cells_max));
            }
            Ok(())
        })
    }

    #[cold]
    fn too_large(&self, size: u64, unit: &str, max: u64) -> Error {
        let definition = self.definition();
        Error::invalid(format!(
            "A row of {}.{} would hold {size} {unit} with this write; a row may hold {max}. \
             Keep the elements of so large a collection in rows of their own",
            definition.keyspace, definition.name
        ))
    }

    /// At most so many bytes of the row are in memtables and, where it is large, in files.
    fn bytes_before(&self, mutation: &MutationRef<'_>, clustering: Option<&[u8]>) -> u64 {
        let in_memory = self.rows_in_memory(mutation, clustering, |row| row.bytes().len() as u64);
        let in_files = self.in_files(mutation, clustering, LargeRow::bytes);
        in_memory.into_iter().fold(in_files, u64::saturating_add)
    }

    /// What the row would hold at most with `new`: known without merging a row that is in parts.
    fn bound_with(
        &self,
        mutation: &MutationRef<'_>,
        clustering: Option<&[u8]>,
        new: RowRef<'_>,
    ) -> RowSize {
        let bytes = self.in_files(mutation, clustering, LargeRow::bytes);
        let cells = self.in_files(mutation, clustering, |row| sum(row, |_| true).cells);
        let in_files = RowSize { bytes, cells };
        let with_new = in_files.plus(new.bytes().len() as u64, new.cells().count() as u64);
        self.layers().iter().fold(with_new, |size, layer| {
            let memtable = layer.memtable.borrow();
            let partition = memtable.get(mutation.token, mutation.key);
            let bound = partition.map(|partition| partition.bound(clustering)).unwrap_or_default();
            size.plus(bound.bytes, bound.cells)
        })
    }

    /// What the row would hold with `new`, column by column.
    fn size_with(
        &self,
        mutation: &MutationRef<'_>,
        clustering: Option<&[u8]>,
        new: RowRef<'_>,
    ) -> RowSize {
        let mut all = new.bytes().to_vec();
        for row in self.rows_in_memory(mutation, clustering, |row| row.bytes().to_vec()) {
            let mut merged = Vec::with_capacity(all.len() + row.len());
            merge(RowRef::trusted(&all), RowRef::trusted(&row), &mut merged);
            all = merged;
        }
        let all = RowRef::trusted(&all);
        let deletion = all.head().deletion.max(mutation.deletion);
        let mut size = sum(&LargeRow::of(mutation.key, clustering, all), |_| true);
        for view in self.views().iter() {
            let newest = view.newest();
            if deletion.covers(newest) {
                continue;
            }
            let replaced = |column: u16| {
                let of = all.cells().filter(|cell| cell.column.0 == column && cell.path.is_none());
                of.into_iter().any(|cell| cell.timestamp >= newest)
            };
            for row in held_by(view, mutation, clustering) {
                let held = sum(row, |column| !replaced(column));
                size = size.plus(held.bytes, held.cells);
            }
        }
        size
    }

    fn rows_in_memory<T>(
        &self,
        mutation: &MutationRef<'_>,
        clustering: Option<&[u8]>,
        take: impl Fn(RowRef<'_>) -> T,
    ) -> Vec<T> {
        let layers = self.layers();
        let rows = layers.iter().filter_map(|layer| {
            let memtable = layer.memtable.borrow();
            let partition = memtable.get(mutation.token, mutation.key)?;
            Some(partition.parts(clustering).map(&take).collect::<Vec<T>>())
        });
        rows.flatten().collect()
    }

    fn in_files(
        &self,
        mutation: &MutationRef<'_>,
        clustering: Option<&[u8]>,
        measure: impl Fn(&LargeRow) -> u64,
    ) -> u64 {
        let views = self.views();
        let rows = views.iter().flat_map(|view| held_by(view, mutation, clustering));
        rows.map(measure).fold(0, u64::saturating_add)
    }
}

/// The row, if a view has it and it is large there. A file that is merged in part still names rows that are in the
/// fragments made of it, too: what lies before the view's begin counts there.
fn held_by<'v>(
    view: &'v View,
    mutation: &MutationRef<'v>,
    clustering: Option<&'v [u8]>,
) -> impl Iterator<Item = &'v LargeRow> + use<'v> {
    let (token, key) = (mutation.token, mutation.key);
    // The static row is before all rows of its partition.
    let is_behind =
        |begin: &Arc<ViewBegin>| (&*begin.key, Some(&*begin.position)) <= (key, clustering);
    let holds = view.may_contain(token) && view.begin_at(token).is_none_or(is_behind);
    let rows = if holds { view.sstable.statistics().large_rows.as_slice() } else { &[] };
    rows.iter().filter(move |row| row.is_at(key, clustering))
}

fn sum(row: &LargeRow, counts: impl Fn(u16) -> bool) -> RowSize {
    let columns = row.columns.iter().filter(|column| counts(column.column));
    columns.fold(RowSize::default(), |size, column| size.plus(column.bytes, column.cells))
}
