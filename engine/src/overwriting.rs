//! How much of what a table is written is of rows that its files hold already: a sample of each flush shows it.
//!
//! ```text
//! memtable  ─flush─►  every 64th part of its bytes a row  ─► the newest file that holds the row
//!                                                            both rows united: the bytes that are gone then
//!                                                            ─► the part of new bytes that is surplus
//! ```
//!
//! Of a table whose rows are overwritten all that lies above its largest run could be freed; of one that grows
//! nothing could. Only what is written tells them apart: files may overlap in all tokens either way.
//!
//! 1. The part is 0 where all rows are new and 1 where each takes the place of as many bytes; deletions of rows free
//!    more than they take.
//! 2. Deletions of partitions and ranges are not sampled: where a flush has any, nothing is known.
//! 3. A sample that cannot be read says nothing: who needs those blocks is told.
//!
//! Not here: what follows from it (`compaction/space.rs`).

use std::cell::{Cell, RefCell};

use model::row::RowRef;
use model::{Deletion, Token};

use crate::cursor::{Cursor, Fragment, Head, Scope, Slice, Span, side_by_side};
use crate::error::Result;
use crate::limits::{
    MOVES_AT_ONCE_MAX, OVERWRITTEN_PART_MAX, SAMPLED_ROW_BYTES_MAX, SAMPLED_ROWS, SURPLUS_BYTES_MIN,
};
use crate::memtable::unite;
use crate::sstable::Reading;
use crate::table::{Layer, Table, View};

/// What is known of a table.
#[derive(Debug, Default)]
pub(crate) struct Overwriting {
    /// Which part of the last flushes' bytes was surplus.
    part: Cell<Option<f64>>,
    /// Bytes of the largest run when it was not being merged.
    pub(crate) base_bytes: Cell<u64>,
    /// What overwritten rows take until they are merged, in bytes, as it was last judged.
    pub(crate) surplus_bytes: Cell<u64>,
}

impl Overwriting {
    /// Which part of the bytes that are flushed takes the place of others; `None` if that is not known.
    pub(crate) fn part(&self) -> Option<f64> {
        self.part.get()
    }

    /// Of a table of whose new bytes such a part takes the place of others.
    #[cfg(test)]
    pub(crate) fn of(part: f64) -> Overwriting {
        Overwriting { part: Cell::new(Some(part)), ..Overwriting::default() }
    }

    /// A flush was sampled: it counts as much as all before it.
    fn learn(&self, part: Option<f64>) {
        let mean = |before: f64| part.map(|part| before.midpoint(part));
        self.part.set(self.part.get().map_or(part, mean));
    }
}

/// Rows of one flush, as far apart as it has bytes for them.
#[derive(Debug)]
pub(crate) struct FlushSample {
    rows: RefCell<Vec<SampledRow>>,
    /// A row is taken when so many bytes have passed.
    stride_bytes: usize,
    passed_bytes: Cell<usize>,
    /// Deletions of partitions or ranges have passed.
    has_deletions: Cell<bool>,
}

/// A row that is flushed.
#[derive(Debug)]
struct SampledRow {
    token: Token,
    key: Vec<u8>,
    slices: [Slice; 1],
    row: Vec<u8>,
}

impl FlushSample {
    /// Of a layer that is flushed; `None` if the table has too little for it to matter.
    pub(crate) fn of(table: &Table, layer: &Layer) -> Option<FlushSample> {
        let bytes: u64 = table.views().iter().map(|view| view.entry.file_bytes).sum();
        (bytes >= SURPLUS_BYTES_MIN).then(|| FlushSample {
            rows: RefCell::default(),
            stride_bytes: layer.memtable.borrow().bytes() / SAMPLED_ROWS + 1,
            passed_bytes: Cell::new(0),
            has_deletions: Cell::new(false),
        })
    }

    /// A row passes that is flushed.
    #[inline]
    pub(crate) fn pass(&self, head: &Head<'_>, clustering: &[u8], row: RowRef<'_>) {
        let bytes = head.key.len() + clustering.len() + row.bytes().len();
        let passed = self.passed_bytes.get() + bytes;
        self.passed_bytes.set(passed % self.stride_bytes);
        if passed >= self.stride_bytes && bytes <= SAMPLED_ROW_BYTES_MAX {
            self.rows.borrow_mut().push(SampledRow {
                token: head.token,
                key: head.key.to_vec(),
                slices: [Slice::row(clustering.to_vec())],
                row: row.bytes().to_vec(),
            });
        }
    }

    /// A deletion of a partition or a range passes, or `NONE`.
    pub(crate) fn pass_deletion(&self, deletion: Deletion) {
        if deletion != Deletion::NONE {
            self.has_deletions.set(true);
        }
    }

    /// Looks for the rows in the files that a table has; its own is not among them yet.
    pub(crate) async fn look_up(self, table: &Table, pause: &impl AsyncFn()) {
        let rows = self.rows.into_inner();
        if self.has_deletions.get() {
            return table.overwriting.learn(None);
        }
        if rows.is_empty() {
            return;
        }
        let views = table.views();
        let surplus_bytes = Cell::new(0.0);
        let look_up = async |row: &SampledRow| {
            let surplus = row.surplus(&views).await?;
            surplus_bytes.set(surplus_bytes.get() + surplus);
            Ok(())
        };
        for some in rows.chunks(MOVES_AT_ONCE_MAX) {
            if side_by_side(some.iter().map(look_up)).await.is_err() {
                return;
            }
            pause().await;
        }
        let bytes: usize = rows.iter().map(|row| row.row.len()).sum();
        let part = surplus_bytes.get() / bytes as f64;
        table.overwriting.learn(Some(part.clamp(0.0, OVERWRITTEN_PART_MAX)));
    }
}

impl SampledRow {
    /// How many bytes of the row and of the newest of the same key in these files are gone when they are united.
    async fn surplus(&self, views: &[View]) -> Result<f64> {
        let scope = Scope::Key(self.token, &self.key);
        let span = Span { scope, slices: &self.slices, reversed: false };
        let holds =
            |view: &&View| view.may_contain(self.token) && view.sstable.may_hold(&self.slices);
        for view in views.iter().filter(holds) {
            let mut cursor = view.sstable.cursor(span, Reading::Point);
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
