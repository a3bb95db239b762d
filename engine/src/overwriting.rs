//! How much of what a table is written is of rows that its files hold already: a sample of each flush shows it.
//!
//! ```text
//! memtable  ─flush─►  of every 64th part of its bytes a row  ─► the newest older file that holds the row
//!                                                               both rows united: the bytes that are gone then
//!                                                               ─► bytes freed, for each byte that is new
//! ```
//!
//! Of a table whose rows are overwritten all that lies over its base (`compaction/base.rs`) could be freed; of one that grows
//! nothing could. Only what is written tells them apart: files may overlap in all tokens either way.
//!
//! 1. The ratio is 0 where all rows are new and 1 where each takes the place of as many bytes; deletions of rows free
//!    more than they take.
//! 2. Deletions of partitions and ranges are not sampled: where a flush has any, nothing is known. Nor is anything
//!    after a start, until the first flush.
//! 3. A sample that cannot be read says nothing; the reads that need those blocks report it.
//! 4. Nothing waits for a sample: it is looked up when the flush is committed, past the cache, as work of flushes.
//!
//! Not here: what follows from it (`compaction/space.rs`).

use std::cell::{Cell, RefCell};

use model::row::RowRef;
use model::{Deletion, Token};

use crate::cursor::{Cursor, Fragment, Head, Scope, Slice, Span, side_by_side};
use crate::error::Result;
use crate::limits::{
    OVERWRITTEN_RATIO_MAX, SAMPLED_ROW_BYTES_MAX, SAMPLED_ROWS, SAMPLED_ROWS_AT_ONCE,
    SAMPLED_TABLE_BYTES_MIN,
};
use crate::memtable::unite;
use crate::sstable::Reading;
use crate::table::{Layer, Table, View, file_bytes};

/// What is known of a table.
#[derive(Debug, Default)]
pub(crate) struct Overwriting {
    /// Bytes that the last flushes free in older files, for each byte that they add.
    ratio: Cell<Option<f64>>,
    /// Bytes of its last flush in a file, for each byte in memory.
    file_part: Cell<Option<f64>>,
    /// Bytes of the base (`compaction/base.rs`) when no piece of it was being merged.
    pub(crate) base_bytes: Cell<u64>,
    /// What overwritten rows take until they are merged, in bytes, as it was last judged.
    pub(crate) surplus_bytes: Cell<u64>,
}

impl Overwriting {
    /// How many bytes a flushed one frees in older files; `None` if that is not known.
    pub(crate) fn ratio(&self) -> Option<f64> {
        self.ratio.get()
    }

    /// How many bytes of a file become of one in memory: at most one.
    pub(crate) fn file_part(&self) -> f64 {
        self.file_part.get().unwrap_or(1.0)
    }

    /// Of a table whose new bytes free so many others each.
    #[cfg(test)]
    pub(crate) fn of(ratio: f64) -> Overwriting {
        Overwriting { ratio: Cell::new(Some(ratio)), ..Overwriting::default() }
    }

    /// So many bytes of memory became a file.
    pub(crate) fn was_flushed(&self, file_bytes: u64, memory_bytes: usize) {
        let part = file_bytes as f64 / memory_bytes.max(1) as f64;
        self.file_part.set(Some(part.min(1.0)));
    }

    /// A flush was sampled: it counts as much as all before it.
    fn learn(&self, ratio: Option<f64>) {
        let mean = |before: f64| ratio.map(|ratio| before.midpoint(ratio));
        self.ratio.set(self.ratio.get().map_or(ratio, mean));
    }
}

/// Rows of one flush, as far apart as it has bytes for them.
#[derive(Debug)]
pub(crate) struct FlushSample {
    rows: RefCell<Vec<SampledRow>>,
    /// Bytes of the memtable.
    memtable_bytes: usize,
    /// Bytes since the last row that was taken.
    seen_bytes: Cell<usize>,
    /// There are deletions of partitions or ranges.
    has_deletions: Cell<bool>,
}

/// A row that is flushed.
#[derive(Debug)]
struct SampledRow {
    token: Token,
    key: Vec<u8>,
    slices: [Slice; 1],
    row: Vec<u8>,
    /// It stands for so many bytes.
    weight: f64,
}

impl FlushSample {
    /// Of a layer that is flushed; `None` if the table has too little for it to matter.
    pub(crate) fn of(table: &Table, layer: &Layer) -> Option<FlushSample> {
        (file_bytes(table.views().iter()) >= SAMPLED_TABLE_BYTES_MIN).then(|| FlushSample {
            rows: RefCell::default(),
            memtable_bytes: layer.memtable.borrow().bytes(),
            seen_bytes: Cell::new(0),
            has_deletions: Cell::new(false),
        })
    }

    /// The next row that is flushed.
    #[inline]
    pub(crate) fn see_row(&self, head: &Head<'_>, clustering: &[u8], row: RowRef<'_>) {
        let bytes = clustering.len() + row.bytes().len();
        let seen = self.seen_bytes.get() + bytes;
        self.seen_bytes.set(seen);
        if seen > self.memtable_bytes / SAMPLED_ROWS && bytes <= SAMPLED_ROW_BYTES_MAX {
            self.seen_bytes.set(0);
            self.rows.borrow_mut().push(SampledRow {
                token: head.token,
                key: head.key.to_vec(),
                slices: [Slice::row(clustering.to_vec())],
                row: row.bytes().to_vec(),
                weight: seen as f64,
            });
        }
    }

    /// The next deletion of a partition or a range that is flushed, or `NONE`.
    pub(crate) fn see_deletion(&self, deletion: Deletion) {
        if deletion != Deletion::NONE {
            self.has_deletions.set(true);
        }
    }

    /// Looks for the rows in these files, which were there before the flush.
    pub(crate) async fn look_up(
        self,
        overwriting: &Overwriting,
        older: &[View],
        pause: &impl AsyncFn(),
    ) {
        if self.has_deletions.get() {
            return overwriting.learn(None);
        }
        let rows = self.rows.into_inner();
        let freed = Cell::new(0.0);
        let look_up = async |row: &SampledRow| {
            let ratio = row.freed_bytes(older).await? / row.row.len() as f64;
            freed.set(freed.get() + ratio * row.weight);
            Ok(())
        };
        for some in rows.chunks(SAMPLED_ROWS_AT_ONCE) {
            if side_by_side(some.iter().map(look_up)).await.is_err() {
                return;
            }
            pause().await;
        }
        let weight: f64 = rows.iter().map(|row| row.weight).sum();
        if weight > 0.0 {
            let ratio = freed.get() / weight;
            overwriting.learn(Some(ratio.clamp(0.0, OVERWRITTEN_RATIO_MAX)));
        }
    }
}

impl SampledRow {
    /// How many bytes of the row and of the newest of the same key in these files are gone when they are united.
    async fn freed_bytes(&self, views: &[View]) -> Result<f64> {
        let scope = Scope::Key(self.token, &self.key);
        let span = Span { scope, slices: &self.slices, reversed: false };
        let holds =
            |view: &&View| view.may_contain(self.token) && view.sstable.may_hold(&self.slices);
        for view in views.iter().filter(holds) {
            let mut cursor = view.sstable.cursor(span, Reading::Sample);
            if !cursor.next_partition().await? {
                continue;
            }
            while cursor.next().await? {
                if let Fragment::Row { row, .. } = cursor.fragment() {
                    let (mut all, mut spare) = (Vec::new(), Vec::new());
                    unite(&mut all, [RowRef::trusted(&self.row), row], &mut spare);
                    return Ok((self.row.len() + row.bytes().len()) as f64 - all.len() as f64);
                }
            }
        }
        Ok(0.0)
    }
}
