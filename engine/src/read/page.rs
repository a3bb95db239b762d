//! What becomes of rows on their way to the reader: tombstones, filters, limits, where the next page begins.
//!
//! ```text
//! cursor ─► visible at now ─► filters ─► limits ─► sink
//! ```
//!
//! 1. A full page looks a little further for another row, so that the last page says it is the last. Not one of rows
//!    that an index may find: there every full page says that more may follow, as in Cassandra, and no candidate is
//!    read for it.
//! 2. Every row and every change of deletions that a read looks at is work, whether it is given or not. So is each that
//!    a merge puts into another one, and so are slices that have nothing. After a quantum of work a read that may wait
//!    asks its caller whether to pause; one that must not gives up.

use model::Deletion;
use model::limits::FILTER_WORK_MAX;
use model::read::{Flow, PartitionRef, ReadCommand, ReadEnd, Resume, RowSink};
use model::row::{Purge, RowRef, tombstones, visible};
use model::schema::{self, ColumnDrops};

use super::{Scratch, WaitPolicy};
use crate::compaction::gc_before_s;
use crate::cursor::{Cursor, Fragment, United};
use crate::error::{Error, Result};
use crate::limits::{
    COVERED_BOUNDS_AT_ONCE_MAX, PAGE_LOOK_AHEAD_ROWS, READ_AT_ONCE_BYTES_MAX,
    READ_AT_ONCE_ROWS_MAX, READ_QUANTUM_BYTES, READ_QUANTUM_ROWS,
};
use crate::pause::Pause;

/// What a row counts for among rows whose sink takes long for each: a read that may pause is asked after each of them.
const COSTLY_ROW_WORK: u32 = READ_AT_ONCE_ROWS_MAX / 2;
const _: () = assert!(COSTLY_ROW_WORK >= READ_QUANTUM_ROWS);

/// One page of one read.
pub(super) struct Page<'r, S: ?Sized> {
    command: &'r ReadCommand,
    definition: &'r schema::Table,
    drops: &'r ColumnDrops,
    sink: &'r mut S,
    /// What the sink has said of itself when the read began: a call for each row would be a virtual one.
    wants_passed: bool,
    is_costly: bool,
    wait_policy: WaitPolicy,
    pause: &'r dyn Pause,
    rows: u64,
    bytes: u64,
    rows_of_partition: u64,
    more: Option<Resume>,
    tombstones: u64,
    /// Tombstones that are past their grace, which are not counted.
    pub(super) purge: Purge<'static>,
    /// Rows come by slices of their own: what lies over several of them is met once for each, and counted once.
    is_of_candidates: bool,
    was_looked_up: bool,
    /// What was counted last of the partition's range deletions, and whether its static row was.
    counted: (Deletion, bool),
    stage: Stage,
    work_rows: u32,
    work_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Filling,
    /// Full; so many rows were looked at since.
    Full(u32),
    Done,
}

/// What is wanted after a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextWanted {
    /// The next row of the partition.
    Row,
    /// Nothing more of the partition.
    Partition,
}

/// Which tombstones of a table a reader at this second does not count.
fn purgeable(definition: &schema::Table, now_s: u32) -> Purge<'static> {
    let gc_before_s = gc_before_s(&definition.options, now_s);
    Purge { now_s, gc_before_s, oldest_elsewhere: i64::MAX, drops: None }
}

impl<'r, S: RowSink + ?Sized> Page<'r, S> {
    pub(super) fn new(
        command: &'r ReadCommand,
        definition: &'r schema::Table,
        drops: &'r ColumnDrops,
        sink: &'r mut S,
        (wait_policy, pause): (WaitPolicy, &'r dyn Pause),
    ) -> Self {
        Page {
            command,
            definition,
            drops,
            wants_passed: sink.wants_passed(),
            is_costly: sink.is_costly(),
            sink,
            wait_policy,
            pause,
            rows: 0,
            bytes: 0,
            rows_of_partition: 0,
            more: None,
            tombstones: 0,
            purge: purgeable(definition, command.now_s),
            is_of_candidates: false,
            was_looked_up: false,
            counted: (Deletion::NONE, false),
            stage: if command.limits.rows == 0 { Stage::Done } else { Stage::Filling },
            work_rows: 0,
            work_bytes: 0,
        }
    }

    /// Whether nothing more is wanted at all.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Who takes the rows.
    pub(super) fn sink(&self) -> &S {
        self.sink
    }

    /// From now on rows come by slices of their own.
    pub(super) fn begin_candidates(&mut self) {
        (self.is_of_candidates, self.was_looked_up) = (true, true);
    }

    /// From now on rows come as they are stored.
    pub(super) fn end_candidates(&mut self) {
        self.is_of_candidates = false;
    }

    /// Whether an index was used.
    pub(super) fn was_looked_up(&self) -> bool {
        self.was_looked_up
    }

    /// Begins a partition of which earlier pages have given so many rows.
    #[inline]
    pub(super) fn begin(&mut self, rows_before: u64) {
        self.rows_of_partition = rows_before;
        self.counted = (Deletion::NONE, false);
    }

    /// How many rows of the partition were given, those of earlier pages included.
    pub(super) fn rows_of_partition(&self) -> u64 {
        self.rows_of_partition
    }

    /// Whether no more rows of the partition are wanted.
    pub(super) fn has_enough_of_partition(&self) -> bool {
        let most = if self.command.distinct { 1 } else { self.command.limits.rows_per_partition };
        self.rows_of_partition >= most
    }

    /// How the read ended.
    pub(super) fn end(self) -> ReadEnd {
        let limits = &self.command.limits;
        assert!(self.rows <= limits.rows, "a read gives no more than was asked for");
        assert!(self.rows <= limits.page_rows.max(1), "a page is no longer than was asked for");
        // A page that was full and found nothing more was the last.
        let more = if self.is_done() { self.more } else { None };
        ReadEnd { rows: self.rows, tombstones: self.tombstones, more, ..ReadEnd::default() }
    }

    /// The error of a page that cannot wait, unless it is full and only looks ahead.
    pub(super) fn tolerate_would_block(&mut self, error: Error) -> Result<()> {
        match self.stage {
            Stage::Full(_) if error == Error::WouldBlock => {
                self.stage = Stage::Done;
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Gives what is wanted of the partition that the cursor has entered.
    pub(super) async fn partition(
        &mut self,
        cursor: &mut impl Cursor,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let head = cursor.head();
        let (token, deletion) = (head.token, head.deletion);
        scratch.key.clear();
        scratch.key.extend_from_slice(head.key);
        scratch.stat.clear();
        self.passes(head.static_row, deletion);
        if let Some(row) = head.static_row {
            let now_s = self.command.now_s;
            if !self.is_of_candidates || !std::mem::replace(&mut self.counted.1, true) {
                self.pass_tombstones(tombstones(row, deletion, &self.purge))?;
            }
            if let Some(row) = visible(row, deletion, now_s, self.drops, &mut scratch.row) {
                scratch.stat.extend_from_slice(row.bytes());
            }
        }
        let Scratch { key, stat, row: seen, .. } = scratch;
        let static_row = (!stat.is_empty()).then(|| RowRef::trusted(stat));
        let partition = PartitionRef { token, key, static_row };
        self.work(key.len() + stat.len());
        self.work_of_united(cursor.take_united());
        let mut in_force = Deletion::NONE;
        while !self.is_done() && cursor.next().await? {
            self.work_of_united(cursor.take_united());
            match cursor.fragment() {
                Fragment::Change { deletion: change, .. } => {
                    self.work_of_change((in_force, change));
                    if change != in_force {
                        self.passes(None, change);
                        self.pass_change(deletion, (in_force, change))?;
                        in_force = change;
                    }
                }
                Fragment::Row { clustering, row } => {
                    self.work(clustering.len() + row.bytes().len());
                    let covering = deletion.max(in_force);
                    self.passes(Some(row), covering);
                    self.pass_tombstones(tombstones(row, covering, &self.purge))?;
                    if let Some(row) = visible(row, covering, self.command.now_s, self.drops, seen)
                        && self.offer(&partition, Some(clustering), Some(row))?
                            == NextWanted::Partition
                    {
                        return Ok(());
                    }
                }
            }
            self.pause_if_due().await?;
        }
        self.static_alone(&partition)
    }

    /// Counts a change of range deletions, from one to another. What the partition's tombstone covers is not seen.
    fn pass_change(
        &mut self,
        of_partition: Deletion,
        (before, after): (Deletion, Deletion),
    ) -> Result<()> {
        let is_counted =
            |deletion: Deletion| deletion > of_partition && !self.purge.drops(deletion);
        if !is_counted(before) && !is_counted(after) {
            return Ok(());
        }
        let met = before.max(after);
        if self.is_of_candidates && std::mem::replace(&mut self.counted.0, met) == met {
            return Ok(());
        }
        self.pass_tombstones(1)
    }

    /// The row of a partition that has none in the slices, if such a row is wanted.
    pub(super) fn static_alone(&mut self, partition: &PartitionRef<'_>) -> Result<()> {
        let wanted = self.command.static_alone || self.command.distinct;
        let alone = self.rows_of_partition == 0 && partition.static_row.is_some();
        if wanted && alone && !self.is_done() {
            self.offer(partition, None, None)?;
        }
        Ok(())
    }

    /// Gives a row to the sink, if it passes and there is space for it.
    #[inline]
    pub(super) fn offer(
        &mut self,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Result<NextWanted> {
        let mut form_work = 0u64;
        for filter in &self.command.filters {
            if filter.may_take_long() {
                let work = filter.form_work(self.definition, partition, clustering, row);
                let work = work.map_err(|error| self.malformed(&error))?;
                form_work = form_work.saturating_add(work);
                if form_work > FILTER_WORK_MAX {
                    return self.too_much_to_compare();
                }
                self.work_of_bytes(work as usize);
            }
            let matches = filter.matches(self.definition, partition, clustering, row);
            if !matches.map_err(|error| self.malformed(&error))? {
                return Ok(NextWanted::Row);
            }
        }
        if self.stage != Stage::Filling {
            // Full, or done: the row before this one was the last to be looked at.
            self.stage = Stage::Done;
            return Ok(NextWanted::Partition);
        }
        let flow = self.sink.row(partition, clustering, row);
        self.work_of_bytes(self.sink.row_work());
        if self.is_costly {
            self.work_rows = self.work_rows.saturating_add(COSTLY_ROW_WORK);
        }
        let bytes = |bytes: Option<usize>| bytes.unwrap_or_default();
        self.rows += 1;
        // It goes on from a number that a client sent.
        self.rows_of_partition = self.rows_of_partition.saturating_add(1);
        self.bytes += (partition.key.len() + bytes(clustering.map(<[u8]>::len))) as u64;
        self.bytes += bytes(row.map(|row| row.bytes().len())) as u64;
        let limits = &self.command.limits;
        if self.rows >= limits.rows {
            self.stage = Stage::Done;
            return Ok(NextWanted::Partition);
        }
        let enough = self.command.distinct || self.rows_of_partition >= limits.rows_per_partition;
        let wanted = if enough || row.is_none() { NextWanted::Partition } else { NextWanted::Row };
        let is_full = self.rows >= limits.page_rows || self.bytes >= limits.page_bytes;
        if is_full || flow == Flow::Enough {
            self.stage = if self.command.lookups.is_empty() { Stage::Full(0) } else { Stage::Done };
            let partition_done = wanted == NextWanted::Partition;
            self.more = Some(Resume {
                token: partition.token,
                key: partition.key.to_vec(),
                clustering: clustering.filter(|_| !partition_done).map(<[u8]>::to_vec),
                partition_done,
                rows_of_partition: self.rows_of_partition,
            });
        }
        Ok(wanted)
    }

    /// The row takes too much to be compared: the core would be held up for long.
    #[cold]
    fn too_much_to_compare(&mut self) -> Result<NextWanted> {
        if self.stage != Stage::Filling {
            // The page is full, and only looks ahead.
            self.stage = Stage::Done;
            return Ok(NextWanted::Partition);
        }
        Err(Error::invalid(format!(
            "the filters take more than {FILTER_WORK_MAX} units of work for one row, whose decimals and tuples \
             they bring into order: use fewer filters, or store shorter decimals and whole tuples"
        )))
    }

    /// Tells the sink what is stored of one row and of the static row before it, if it wants to know.
    #[inline]
    pub(super) fn passes(&mut self, stored: Option<RowRef<'_>>, covering: Deletion) {
        if self.wants_passed {
            self.sink.passes(stored, covering);
        }
    }

    /// Counts tombstones; more than the command allows end the read, unless it only looks ahead.
    #[inline]
    pub(super) fn pass_tombstones(&mut self, count: u64) -> Result<()> {
        self.tombstones += count;
        if self.tombstones <= self.command.limits.tombstones {
            return Ok(());
        }
        match self.stage {
            Stage::Filling => Err(Error::TooManyTombstones { passed: self.tombstones }),
            Stage::Full(_) | Stage::Done => {
                self.stage = Stage::Done;
                Ok(())
            }
        }
    }

    /// Counts a row or partition that was looked at.
    #[inline]
    pub(super) fn work(&mut self, bytes: usize) {
        self.work_of(1, bytes);
    }

    /// Counts a change of range deletions, from one to another. Before one that changes nothing, much was passed of
    /// which nothing is to be seen: bounds, or slices.
    #[inline]
    pub(super) fn work_of_change(&mut self, (before, after): (Deletion, Deletion)) {
        self.work_of(if before == after { COVERED_BOUNDS_AT_ONCE_MAX } else { 1 }, 0);
    }

    /// Counts bytes of rows that were looked at beside those that count as rows.
    #[inline]
    pub(super) fn work_of_bytes(&mut self, bytes: usize) {
        self.work_bytes = self.work_bytes.saturating_add(bytes);
    }

    /// Counts what was put together, beside what came of it: that alone is looked at, where a full page looks further.
    #[inline]
    pub(super) fn work_of_united(&mut self, united: United) {
        self.work_rows = self.work_rows.saturating_add(united.entries);
        self.work_of_bytes(united.bytes);
    }

    /// Counts so many rows.
    #[inline]
    fn work_of(&mut self, rows: u32, bytes: usize) {
        self.work_rows = self.work_rows.saturating_add(rows);
        self.work_bytes = self.work_bytes.saturating_add(bytes);
        if let Stage::Full(looked) = &mut self.stage {
            *looked += rows;
            if *looked > PAGE_LOOK_AHEAD_ROWS {
                self.stage = Stage::Done;
            }
        }
    }

    /// Asks whether to pause if a quantum of work is done; a read that cannot wait says so when it takes long.
    #[inline]
    pub(super) async fn pause_if_due(&mut self) -> Result<()> {
        let (rows_max, bytes_max) = match self.wait_policy {
            WaitPolicy::None => (READ_AT_ONCE_ROWS_MAX, READ_AT_ONCE_BYTES_MAX),
            WaitPolicy::Endless => (READ_QUANTUM_ROWS, READ_QUANTUM_BYTES),
        };
        if self.work_rows < rows_max && self.work_bytes < bytes_max {
            return Ok(());
        }
        (self.work_rows, self.work_bytes) = (0, 0);
        match self.wait_policy {
            WaitPolicy::None => self.tolerate_would_block(Error::WouldBlock),
            WaitPolicy::Endless => {
                self.pause.take().await;
                Ok(())
            }
        }
    }

    /// What is awaited where others may have the core.
    pub(super) fn pause(&self) -> &'r dyn Pause {
        self.pause
    }

    #[cold]
    fn malformed(&self, e: &model::Error) -> Error {
        let table = format!("{}.{}", self.definition.keyspace, self.definition.name);
        Error::of_stored(&table, e)
    }
}
