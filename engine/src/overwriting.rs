//! How much of what a table is written is of rows that its files hold already: a sample of each flush shows it.
//!
//! ```text
//! memtable  ─flush─►  of every 64th part of its bytes a row  ─► a job ─► the newest older file that holds the row
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
//! 3. A sample that cannot be read says nothing; the reads that need those blocks report it. An older row that is long,
//!    or lies in a long block, is not looked at: where that is so of all rows, nothing is known.
//! 4. Nothing waits for a sample: it is looked up by a job of its own when its flush is done, a row after the other, as
//!    work of flushes. Blocks are read past the cache; a piece of a filter that is read is kept there.
//! 5. One sample of a table waits at most, and all together have a bound: beyond it a flush is not sampled.
//!
//! Not here: what follows from it (`compaction/amplification.rs`).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use model::row::RowRef;
use model::{Deletion, TableId, Token};

use crate::cursor::{Cursor, Fragment, Head, Scope, Slice, Span};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::limits::{
    OVERWRITTEN_RATIO_MAX, SAMPLED_OLDER_BYTES_MAX, SAMPLED_ROW_BYTES_MAX, SAMPLED_ROWS,
    SAMPLES_BYTES_MAX,
};
use crate::memtable::unite;
use crate::pause::Pause;
use crate::sstable::Reading;
use crate::table::{Layer, Table, View, file_bytes};

/// What is known of a table.
#[derive(Debug, Default)]
pub(crate) struct Overwriting {
    /// Bytes that the last flushes free in older files, for each byte that they add.
    ratio: Cell<Option<f64>>,
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

    /// Of a table whose new bytes free so many others each.
    #[cfg(test)]
    pub(crate) fn of(ratio: f64) -> Overwriting {
        Overwriting { ratio: Cell::new(Some(ratio)), ..Overwriting::default() }
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
    /// Its clustering key; nothing for a static row.
    slices: Vec<Slice>,
    row: Vec<u8>,
    /// It stands for so many bytes.
    weight: f64,
}

/// What a file says of a sampled row.
enum Older {
    /// It does not hold the row.
    Absent,
    /// United with the row it holds, so many bytes are gone.
    Frees(f64),
    /// What it holds is too long to be looked at.
    TooLong,
}

/// Samples of a shard that wait to be looked up.
#[derive(Debug, Default)]
pub(crate) struct Samples(RefCell<VecDeque<WaitingSample>>);

/// A sample of a flush that is done.
#[derive(Debug)]
struct WaitingSample {
    table: TableId,
    /// The table's epoch when it was flushed.
    epoch: u64,
    /// The files of before the flush.
    older: Rc<[View]>,
    sample: FlushSample,
}

impl Samples {
    /// Whether one waits.
    pub(crate) fn is_any(&self) -> bool {
        !self.0.borrow().is_empty()
    }

    /// Adds one, in the place of an earlier one of its table; none if too much waits.
    fn add(&self, new: WaitingSample) {
        let mut all = self.0.borrow_mut();
        all.retain(|other| other.table != new.table);
        let waiting: usize = all.iter().map(|other| other.sample.bytes()).sum();
        if waiting + new.sample.bytes() <= SAMPLES_BYTES_MAX {
            all.push_back(new);
        }
    }
}

impl Engine {
    /// A flush of a table is done that was sampled, and began in this epoch of the table and beside these files.
    pub(crate) fn flush_was_sampled(
        &self,
        table: &Table,
        epoch: u64,
        older: Rc<[View]>,
        sample: FlushSample,
    ) {
        if table.epoch() != epoch {
            return;
        }
        if sample.has_deletions.get() {
            return table.learn_overwritten(None);
        }
        let table = table.definition().id;
        self.samples.add(WaitingSample { table, epoch, older, sample });
    }

    /// Looks up the sample that waits longest, if one does.
    pub(crate) async fn look_up_sample(&self, pause: &dyn Pause) {
        let next = self.samples.0.borrow_mut().pop_front();
        let Some(WaitingSample { table, epoch, older, sample }) = next else { return };
        let Ok(ratio) = sample.look_up(&older, pause).await else { return };
        if let Ok(table) = self.table(table)
            && table.epoch() == epoch
        {
            table.learn_overwritten(ratio);
        }
    }
}

impl Table {
    /// A sample has shown this ratio, or that it is not known: the table is judged again.
    fn learn_overwritten(&self, ratio: Option<f64>) {
        self.overwriting.learn(ratio);
        self.evaluation.changed();
    }
}

impl FlushSample {
    /// Of a layer that is flushed; `None` if the table has too little for it to matter: files of fewer than
    /// `file_bytes_min`.
    pub(crate) fn of(table: &Table, layer: &Layer, file_bytes_min: u64) -> Option<FlushSample> {
        (file_bytes(table.views().iter()) >= file_bytes_min).then(|| FlushSample {
            rows: RefCell::default(),
            memtable_bytes: layer.memtable.borrow().bytes(),
            seen_bytes: Cell::new(0),
            has_deletions: Cell::new(false),
        })
    }

    /// The next row that is flushed; a static row has no clustering key.
    #[inline]
    pub(crate) fn see_row(&self, head: &Head<'_>, clustering: Option<&[u8]>, row: RowRef<'_>) {
        let bytes = clustering.map_or(0, <[u8]>::len) + row.bytes().len();
        let seen = self.seen_bytes.get() + bytes;
        self.seen_bytes.set(seen);
        let mut rows = self.rows.borrow_mut();
        if seen > self.memtable_bytes / SAMPLED_ROWS
            && head.key.len() + bytes <= SAMPLED_ROW_BYTES_MAX
            && rows.len() < SAMPLED_ROWS
        {
            self.seen_bytes.set(0);
            rows.push(SampledRow {
                token: head.token,
                key: head.key.to_vec(),
                slices: clustering.map(|at| Slice::row(at.to_vec())).into_iter().collect(),
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

    /// Bytes of its copies: at most [`SAMPLED_ROWS`] times [`SAMPLED_ROW_BYTES_MAX`], and what keeps them.
    fn bytes(&self) -> usize {
        self.rows.borrow().iter().map(SampledRow::bytes).sum()
    }

    /// How many bytes one of the flush frees in these files, which were there before; `None` if that cannot be known.
    async fn look_up(self, older: &[View], pause: &dyn Pause) -> Result<Option<f64>> {
        let (mut freed, mut weight) = (0.0, 0.0);
        for row in self.rows.into_inner() {
            if let Some(bytes) = row.freed_bytes(older).await? {
                freed += bytes / row.row.len() as f64 * row.weight;
                weight += row.weight;
            }
            pause.take().await;
        }
        Ok((weight > 0.0).then(|| (freed / weight).clamp(0.0, OVERWRITTEN_RATIO_MAX)))
    }
}

impl SampledRow {
    fn bytes(&self) -> usize {
        let clustering: usize = self.slices.iter().map(|slice| slice.start.len()).sum();
        self.key.len() + clustering + self.row.len()
    }

    /// How many bytes of the row and of the newest of the same key in these files are gone when they are united; `None`
    /// if that one is too long to be looked at.
    async fn freed_bytes(&self, views: &[View]) -> Result<Option<f64>> {
        for view in views.iter().filter(|view| self.may_be_in(view)) {
            match self.look_into(view).await? {
                Older::Absent => {}
                Older::Frees(bytes) => return Ok(Some(bytes)),
                Older::TooLong => return Ok(None),
            }
        }
        Ok(Some(0.0))
    }

    fn may_be_in(&self, view: &View) -> bool {
        let may_hold = match self.slices.is_empty() {
            true => view.sstable.statistics().statics > 0,
            false => view.sstable.may_hold(&self.slices),
        };
        may_hold && view.may_contain(self.token)
    }

    async fn look_into(&self, view: &View) -> Result<Older> {
        let scope = Scope::Key(self.token, &self.key);
        let span = Span { scope, slices: &self.slices, reversed: false };
        let mut cursor = view.sstable.cursor(span, Reading::Sample);
        match cursor.next_partition().await {
            Ok(true) => {}
            Ok(false) => return Ok(Older::Absent),
            Err(Error::WouldBlock) => return Ok(Older::TooLong),
            Err(error) => return Err(error),
        }
        if self.slices.is_empty() {
            let found = cursor.head().static_row;
            return Ok(found.map_or(Older::Absent, |row| self.unite_with(row)));
        }
        loop {
            match cursor.next().await {
                Ok(true) => {}
                Ok(false) => return Ok(Older::Absent),
                Err(Error::WouldBlock) => return Ok(Older::TooLong),
                Err(error) => return Err(error),
            }
            if let Fragment::Row { row, .. } = cursor.fragment() {
                return Ok(self.unite_with(row));
            }
        }
    }

    fn unite_with(&self, older: RowRef<'_>) -> Older {
        let bytes = self.row.len() + older.bytes().len();
        if older.bytes().len() > SAMPLED_OLDER_BYTES_MAX {
            return Older::TooLong;
        }
        let (mut all, mut spare) = (Vec::new(), Vec::new());
        unite(&mut all, [RowRef::trusted(&self.row), older], &mut spare);
        Older::Frees(bytes as f64 - all.len() as f64)
    }
}
