//! The partitions, rows and cells that are large, as the statistics of the files name them.
//!
//! ```text
//! views of each table ─► statistics ─► partitions: summed up over the fragments of a run ─┐
//!                                  └─► rows and cells                                     ┴─► the largest of the core
//! a file is written ─► the largest of it, or of what it goes on with, waits to be told to the operator
//! ```
//!
//! Invariants: nothing is stored, so what is listed comes and goes with its file; a list has at most
//! [`LARGE_DATA_MAX`] entries, largest first.
//!
//! What a file does not name is not here: statistics have the 8 largest partitions, and rows from 1 MiB on. A file of
//! which the beginning was merged already still names what it had there.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use model::{TableId, Token};
use uuid::Uuid;

use crate::engine::Engine;
use crate::limits::{
    LARGE_CELL_BYTES, LARGE_DATA_MAX, LARGE_PARTITION_BYTES, LARGE_ROW_TOLD_BYTES,
};
use crate::pause::Pause;
use crate::sstable::LargeRow;
use crate::table::{Table, View};

/// A run and the key of a partition in it.
type RunKey<'v> = (Uuid, &'v [u8]);

/// The number of a fragment in its run, and its file.
type Place = (u64, Uuid);

/// Entries between two pauses.
const ENTRIES_AT_ONCE: usize = 64;

/// From which size on something is large, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct LargeThresholds {
    /// Of a partition in one run.
    pub partition_bytes: u64,
    /// Of a row in one file.
    pub row_bytes: u64,
    /// Of one column of a row in one file.
    pub cell_bytes: u64,
}

impl LargeThresholds {
    /// Those that the operator sees.
    pub const TOLD: LargeThresholds = LargeThresholds {
        partition_bytes: LARGE_PARTITION_BYTES,
        row_bytes: LARGE_ROW_TOLD_BYTES,
        cell_bytes: LARGE_CELL_BYTES,
    };
}

/// A large partition, row or cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Large {
    /// The table it is in.
    pub table: TableId,
    /// The file; of a partition in several fragments of a run, the first of them.
    pub sstable: Uuid,
    /// The serialised partition key.
    pub key: Vec<u8>,
    /// The encoded clustering key; `None` for a partition and for a static row.
    pub clustering: Option<Vec<u8>>,
    /// The id of the column and its number of cells; `None` for a partition and for a row.
    pub column: Option<(u16, u64)>,
    /// Bytes before compression.
    pub bytes: u64,
}

/// What is large on one core, largest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LargeData {
    /// Partitions, one entry for each run that has one.
    pub partitions: Vec<Large>,
    /// Rows, static ones included.
    pub rows: Vec<Large>,
    /// Columns of rows.
    pub cells: Vec<Large>,
}

/// The largest of what was written and not told yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeWritten {
    /// Keyspace and table.
    pub table: String,
    /// Whether it is a row, else a partition.
    pub is_row: bool,
    /// The serialised partition key.
    pub key: Vec<u8>,
    /// Bytes before compression.
    pub bytes: u64,
    /// How many files with something large were written.
    pub files: u64,
}

/// Keeps the largest of what files were written with until somebody tells the operator.
#[derive(Debug)]
pub(crate) struct Untold {
    largest: RefCell<Option<LargeWritten>>,
    /// From which size on a partition is large, in bytes.
    partition_bytes: Cell<u64>,
}

impl Default for Untold {
    fn default() -> Untold {
        Untold { largest: RefCell::default(), partition_bytes: Cell::new(LARGE_PARTITION_BYTES) }
    }
}

impl Untold {
    /// Notes a file that a flush or a merge of this table has written, if it has something large, or makes it so: a
    /// partition of several fragments is noted with the one that makes it large.
    pub(crate) fn written(&self, table: &Table, view: &View) {
        let statistics = view.sstable.statistics();
        let of_largest = |(bytes, key): &'_ (u64, Vec<u8>)| {
            let before = bytes_before(table, view, key);
            let sum = before.saturating_add(*bytes);
            let large_from = self.partition_bytes.get();
            (before < large_from && sum >= large_from).then(|| (sum, key.clone()))
        };
        let partition = statistics.largest.iter().filter_map(of_largest).max();
        let row = statistics.large_rows.iter().map(|row| (row.bytes(), &row.key));
        let row = row.max_by_key(|(bytes, _)| *bytes);
        let row = row.filter(|(bytes, _)| *bytes >= LARGE_ROW_TOLD_BYTES);
        let is_row = partition.is_none();
        let found = partition.or(row.map(|(bytes, key)| (bytes, key.clone())));
        let Some((bytes, key)) = found else { return };
        let mut untold = self.largest.borrow_mut();
        let files = 1 + untold.as_ref().map_or(0, |untold| untold.files);
        match &mut *untold {
            Some(larger) if larger.bytes >= bytes => larger.files = files,
            largest => {
                let definition = table.definition();
                let table = format!("{}.{}", definition.keyspace, definition.name);
                *largest = Some(LargeWritten { table, is_row, key, bytes, files });
            }
        }
    }
}

/// How many bytes of a partition the fragments of the run have that were written before this one.
fn bytes_before(table: &Table, written: &View, key: &[u8]) -> u64 {
    let statistics = written.sstable.statistics();
    if statistics.goes_on == 0 || Token::of_key(key) != statistics.tokens.first {
        return 0;
    }
    let views = table.views();
    let is_before = |view: &&View| {
        view.entry.run == written.entry.run && view.entry.sstable != written.entry.sstable
    };
    let named = views.iter().filter(is_before).flat_map(|view| &view.sstable.statistics().largest);
    named.filter(|(_, named)| named == key).map(|(bytes, _)| *bytes).fold(0, u64::saturating_add)
}

/// The largest entries of many.
#[derive(Debug, Default)]
struct Largest(Vec<Large>);

impl Largest {
    fn push(&mut self, large: Large) {
        self.0.push(large);
        if self.0.len() == 2 * LARGE_DATA_MAX {
            self.cut();
        }
    }

    fn cut(&mut self) {
        self.0.sort_by_key(|large| std::cmp::Reverse(large.bytes));
        self.0.truncate(LARGE_DATA_MAX);
    }

    fn finish(mut self) -> Vec<Large> {
        self.cut();
        self.0
    }
}

impl Engine {
    /// What is large in the files of this shard's tables. Pauses between entries.
    pub async fn large_data(&self, from: LargeThresholds, pause: impl AsyncFn()) -> LargeData {
        let tables: Vec<_> = self.tables.by_id().values().cloned().collect();
        let (mut partitions, mut rows, mut cells) =
            (Largest::default(), Largest::default(), Largest::default());
        for table in tables {
            let (id, views) = (table.definition().id, table.views());
            large_partitions(id, &views, from.partition_bytes, &mut partitions, &pause).await;
            for view in views.iter() {
                for some in view.sstable.statistics().large_rows.chunks(ENTRIES_AT_ONCE) {
                    let own = some.iter().filter(|row| is_of(view, &row.key));
                    own.for_each(|row| {
                        large_row((id, view), row, from.row_bytes, &mut rows);
                        large_cells((id, view), row, from.cell_bytes, &mut cells);
                    });
                    pause.take().await;
                }
            }
        }
        LargeData { partitions: partitions.finish(), rows: rows.finish(), cells: cells.finish() }
    }

    /// The largest of what flushes and merges have written since the last call.
    pub fn take_large_written(&self) -> Option<LargeWritten> {
        self.untold.largest.borrow_mut().take()
    }

    /// Notes partitions from so many bytes on instead of [`LARGE_PARTITION_BYTES`]: a test sees one in little data.
    pub fn set_large_partition_bytes(&self, bytes: u64) {
        self.untold.partition_bytes.set(bytes);
    }
}

/// Whether a key that a file names lies in this view of it: other shards may have the rest.
fn is_of(view: &View, key: &[u8]) -> bool {
    view.entry.tokens.contains(Token::of_key(key))
}

async fn large_partitions(
    table: TableId,
    views: &[View],
    bytes_min: u64,
    largest: &mut Largest,
    pause: &dyn Pause,
) {
    let mut sums: BTreeMap<RunKey<'_>, (u64, Place)> = BTreeMap::new();
    for (count, view) in views.iter().enumerate() {
        let statistics = view.sstable.statistics();
        let place = (statistics.goes_on, view.entry.sstable);
        for (bytes, key) in statistics.largest.iter().filter(|(_, key)| is_of(view, key)) {
            let token = Token::of_key(key);
            // Only these can have a part in another fragment.
            let at_end = token == statistics.tokens.last
                || (statistics.goes_on > 0 && token == statistics.tokens.first);
            if at_end || *bytes >= bytes_min {
                let sum = sums.entry((view.entry.run, key)).or_insert((0, place));
                // A file may say anything.
                *sum = (sum.0.saturating_add(*bytes), sum.1.min(place));
            }
        }
        if count % (ENTRIES_AT_ONCE / 8) == 0 {
            pause.take().await;
        }
    }
    for (count, ((_, key), (bytes, (_, sstable)))) in sums.into_iter().enumerate() {
        if bytes >= bytes_min {
            let key = key.to_vec();
            largest.push(Large { table, sstable, key, clustering: None, column: None, bytes });
        }
        if count % ENTRIES_AT_ONCE == 0 {
            pause.take().await;
        }
    }
}

fn large_row((table, view): (TableId, &View), row: &LargeRow, bytes_min: u64, out: &mut Largest) {
    let (bytes, sstable) = (row.bytes(), view.entry.sstable);
    if bytes >= bytes_min {
        let (key, clustering) = (row.key.clone(), row.clustering.clone());
        out.push(Large { table, sstable, key, clustering, column: None, bytes });
    }
}

fn large_cells((table, view): (TableId, &View), row: &LargeRow, bytes_min: u64, out: &mut Largest) {
    let sstable = view.entry.sstable;
    for column in row.columns.iter().filter(|column| column.bytes >= bytes_min) {
        let (key, clustering) = (row.key.clone(), row.clustering.clone());
        let (bytes, column) = (column.bytes, Some((column.column, column.cells)));
        out.push(Large { table, sstable, key, clustering, column, bytes });
    }
}
