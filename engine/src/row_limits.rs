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

use model::cell::Life;
use model::mutation::MutationRef;
use model::row::{RowRef, merge};

use crate::error::{Error, Result};
use crate::limits::{COMPACTED_ROW_BYTES_MAX, ROW_BYTES_MAX, ROW_CELL_BYTES_MIN, ROW_CELLS_MAX};
use crate::memtable::Memtable;
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

impl RowLimits {
    /// A row of no more bytes passes no limit, whatever cells it has.
    fn free_bytes(&self) -> u64 {
        self.bytes_max.min(self.cells_max * ROW_CELL_BYTES_MIN)
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
        let brings_one = record_bytes as u64 > limits.free_bytes();
        if brings_one || self.row_lengths.has_large() {
            self.check_rows(mutation, limits)
        } else {
            Ok(())
        }
    }

    #[cold]
    fn check_rows(&self, mutation: &MutationRef<'_>, limits: &RowLimits) -> Result<()> {
        let views = self.views();
        let named = NamedRows::of(&views, mutation);
        // Of a mutation of many rows nearly always no row is known: then each is as long as it comes.
        let is_known = !named.0.is_empty() || self.is_in_memory(mutation);
        let stat = mutation.static_row.map(|row| (None, row));
        let rows = mutation.rows().map(|(clustering, row)| (Some(clustering), row));
        stat.into_iter().chain(rows).try_for_each(|(clustering, row)| {
            let bytes_before =
                if is_known { self.bytes_before(mutation, &named, clustering) } else { 0 };
            if bytes_before.saturating_add(row.bytes().len() as u64) <= limits.free_bytes() {
                return Ok(());
            }
            let bound = self.bound_with(mutation, &named, clustering, row);
            if bound.bytes <= limits.bytes_max && bound.cells <= limits.cells_max {
                return Ok(());
            }
            let size = self.size_with(mutation, &named, clustering, row);
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
    fn bytes_before(
        &self,
        mutation: &MutationRef<'_>,
        named: &NamedRows<'_>,
        clustering: Option<&[u8]>,
    ) -> u64 {
        let in_memory = self.rows_in_memory(mutation, clustering, |row| row.bytes().len() as u64);
        let in_files = named.sum(mutation, clustering, LargeRow::bytes);
        in_memory.into_iter().fold(in_files, u64::saturating_add)
    }

    /// What the row would hold at most with `new`: known without merging a row that is in parts.
    fn bound_with(
        &self,
        mutation: &MutationRef<'_>,
        named: &NamedRows<'_>,
        clustering: Option<&[u8]>,
        new: RowRef<'_>,
    ) -> RowSize {
        let bytes = named.sum(mutation, clustering, LargeRow::bytes);
        let cells = named.sum(mutation, clustering, |row| sum(row, |_| true).cells);
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
        named: &NamedRows<'_>,
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
        for (view, row) in named.at(mutation, clustering) {
            let newest = view.newest();
            if deletion.covers(newest) {
                continue;
            }
            let replaced = |column: u16| {
                let of = all.cells().filter(|cell| cell.column.0 == column && cell.path.is_none());
                of.into_iter().any(|cell| cell.timestamp >= newest)
            };
            let held = sum(row, |column| !replaced(column));
            size = size.plus(held.bytes, held.cells);
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

    /// Whether a memtable has something of the partition.
    fn is_in_memory(&self, mutation: &MutationRef<'_>) -> bool {
        let has = |memtable: &Memtable| memtable.get(mutation.token, mutation.key).is_some();
        self.layers().iter().any(|layer| has(&layer.memtable.borrow()))
    }
}

/// The rows of one partition that are large in files, by their clusterings, each with its view. The files are asked
/// once for a mutation, whatever number of rows it has.
struct NamedRows<'v>(Vec<(&'v View, &'v LargeRow)>);

impl<'v> NamedRows<'v> {
    fn of(views: &'v [View], mutation: &MutationRef<'_>) -> NamedRows<'v> {
        let holding = views.iter().filter(|view| view.may_contain(mutation.token));
        let rows = holding.flat_map(|view| {
            let rows = view.sstable.statistics().large_rows.iter();
            rows.filter(|row| row.key == mutation.key).map(move |row| (view, row))
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|(_, row)| &row.clustering);
        NamedRows(rows)
    }

    /// Those of one row. A file that is merged in part still names rows that are in the fragments made of it, too: what
    /// lies before the view's begin counts there.
    fn at(
        &self,
        mutation: &MutationRef<'_>,
        clustering: Option<&[u8]>,
    ) -> impl Iterator<Item = (&'v View, &'v LargeRow)> {
        let first = self.0.partition_point(|(_, row)| row.clustering.as_deref() < clustering);
        let of_row = self.0[first..].iter();
        let of_row = of_row.take_while(move |(_, row)| row.clustering.as_deref() == clustering);
        // The static row is before all rows of its partition.
        let is_held = move |view: &View| {
            view.begin_at(mutation.token).is_none_or(|begin| {
                (&*begin.key, Some(&*begin.position)) <= (mutation.key, clustering)
            })
        };
        of_row.filter(move |(view, _)| is_held(view)).copied()
    }

    fn sum(
        &self,
        mutation: &MutationRef<'_>,
        clustering: Option<&[u8]>,
        measure: impl Fn(&LargeRow) -> u64,
    ) -> u64 {
        self.at(mutation, clustering).map(|(_, row)| measure(row)).fold(0, u64::saturating_add)
    }
}

fn sum(row: &LargeRow, counts: impl Fn(u16) -> bool) -> RowSize {
    let columns = row.columns.iter().filter(|column| counts(column.column));
    columns.fold(RowSize::default(), |size, column| size.plus(column.bytes, column.cells))
}
