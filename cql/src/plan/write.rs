//! `INSERT`, `UPDATE`, `DELETE` as plans.
//!
//! Binding appends one mutation for each partition to the one record of the statement or batch. What
//! every cell of a statement shares (its timestamp, its expiry) is evaluated once.
//!
//! 1. The stamp: timestamp and expiry. 2. For each key of the partition: its token and its mutation.
//! 3. In the mutation: the static row, then rows, ranges or the partition's deletion, by [`RowChange`].
//!
//! Invariants: no record is larger than `MUTATION_BYTES_MAX`; a statement whose values are all unset
//! writes nothing, and one whose list of rows is empty changes none; keys and rows are judged all the same.
//! Not here: which rows are named (`restrict`), what a cell becomes (`cells.rs`), which shard gets which
//! mutation (`shard/src/router.rs` splits the record).

use std::sync::Arc;
use std::time::Duration;

use model::cell::{Deletion, Expiry, Life};
use model::limits::TTL_S_MAX;
use model::mutation::RangeTombstone;
use model::read::Slice;
use model::row::{RowBuilder, RowHead, Written};
use model::{MutationBuilder, Table, Token};

use super::cells::{CellWrite, Stamp, put_cells, writes_anything};
use super::conditions::WriteCondition;
use super::counters::{CounterWrite, adds_anything, put_counter_changes};
use super::list_changes::{ListOpPlan, ListWrite, put_list_changes};
use super::record::{Records, Scratch, check_bytes, timeout, timestamp};
use super::{indexed, nearest};
use crate::bind::Bindings;
use crate::error::{Error, Result};
use crate::expr::{Evaluated, Term};
use crate::json::JsonInsert;
use crate::restrict::{RowChoice, RowKey, ValueSet, for_each_key};

/// What happens to the rows a statement names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowChange {
    /// `INSERT`: cells, and a marker that keeps the row alive without them.
    Insert,
    /// `UPDATE`, `DELETE` of columns: cells.
    Cells,
    /// Only the static row is written.
    StaticOnly,
    /// `DELETE` of rows that are named one by one.
    DeleteRows,
    /// `DELETE` of stretches of rows.
    DeleteRanges,
    /// `DELETE` of the partition.
    DeletePartition,
}

/// When rows and stretches of rows are deleted, beside what is written to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deletes {
    /// At the same time: in a batch the deletion wins.
    WithWrites,
    /// A microsecond before: in a conditional batch what is written stays, as in Cassandra.
    BeforeWrites,
}

/// What a statement writes to in each of its partitions. It is evaluated once, for the conditions if there are some,
/// else with the first partition: there may be thousands of partitions and rows, and a call such as `now()` gives
/// another value each time.
pub(super) struct Named<'s> {
    /// The row, if one is named by itself.
    row: &'s mut RowKey,
    rows: NamedRows,
    slices: Option<Vec<Slice>>,
    /// Whether a cell of the static row is written.
    has_static_cells: bool,
    /// Whether a cell of each row is written.
    has_row_cells: bool,
    /// Whether nothing is written, since no value is set.
    is_empty: bool,
}

/// The rows of [`Named`].
enum NamedRows {
    /// They were not evaluated yet.
    Unknown,
    /// The one of [`Named::row`].
    One,
    /// Those that lists name.
    Several(Vec<RowKey>),
}

impl Named<'_> {
    #[inline]
    pub(super) fn rows(&mut self, plan: &WritePlan, bindings: &Bindings<'_>) -> Result<&[RowKey]> {
        if matches!(self.rows, NamedRows::Unknown) {
            self.rows = if plan.rows.one_row(&plan.table, bindings, self.row)? {
                self.row.check_bytes()?;
                NamedRows::One
            } else {
                let rows = plan.rows.rows(&plan.table, bindings)?;
                rows.iter().try_for_each(RowKey::check_bytes)?;
                NamedRows::Several(rows)
            };
        }
        match &self.rows {
            NamedRows::Several(rows) => Ok(rows),
            NamedRows::Unknown | NamedRows::One => Ok(std::slice::from_ref(self.row)),
        }
    }

    fn slices(&mut self, plan: &WritePlan, bindings: &Bindings<'_>) -> Result<&[Slice]> {
        match &mut self.slices {
            Some(slices) => Ok(slices),
            unknown => Ok(unknown.insert(plan.rows.slices(&plan.table, bindings)?)),
        }
    }
}

/// A compiled `INSERT`, `UPDATE` or `DELETE`.
#[derive(Clone, Debug)]
pub struct WritePlan {
    /// The table, as it was when the statement was prepared.
    pub table: Arc<Table>,
    /// The values of each partition key column.
    pub keys: Vec<ValueSet>,
    /// The rows that are written.
    pub rows: RowChoice,
    /// Whether these rows are written or deleted, and how.
    pub change: RowChange,
    /// The cells of the static row, in the order of storage.
    pub static_cells: Vec<CellWrite>,
    /// The cells of each row, in the order of storage.
    pub row_cells: Vec<CellWrite>,
    /// Changes of the static row that read what is there, in the order written: of lists by index or by value, and of
    /// numbers and texts that are added to under an `IF`.
    pub static_lists: Vec<ListWrite>,
    /// Changes of each row that read what is there, as `static_lists` has them of the static row.
    pub row_lists: Vec<ListWrite>,
    /// `IF ..`: what must be so for it to write. What has a condition is bound by
    /// [`ConditionalWrite`](super::ConditionalWrite) alone.
    pub condition: Option<Box<WriteCondition>>,
    /// What is added to counters of the static row.
    pub static_counters: Vec<CounterWrite>,
    /// What is added to counters of each row.
    pub row_counters: Vec<CounterWrite>,
    /// The values of an `INSERT JSON`, which its terms take their own from.
    pub json: Option<Box<JsonInsert>>,
    /// `USING TIMESTAMP n`: time of the write in µs.
    pub timestamp: Option<Term>,
    /// `USING TTL n`: time to live in seconds.
    pub ttl: Option<Term>,
    /// `USING TIMEOUT d`: how long it may take.
    pub timeout: Option<Term>,
}

impl WritePlan {
    /// Appends the mutations of this statement. After an error the records hold rubbish: the
    /// caller cuts them back to where they were.
    pub fn bind_write(
        &self,
        bindings: &Bindings<'_>,
        scratch: &mut Scratch,
        records: &mut impl Records,
    ) -> Result<()> {
        self.bind_each(bindings, scratch, records, |_, _| Ok(()))
    }

    /// Whether what it writes depends on elements or counters that are there.
    pub fn reads_first(&self) -> bool {
        self.changes_lists() || self.changes_counters()
    }

    fn changes_lists(&self) -> bool {
        !self.static_lists.is_empty() || !self.row_lists.is_empty()
    }

    fn changes_counters(&self) -> bool {
        !self.static_counters.is_empty() || !self.row_counters.is_empty()
    }

    /// When it happens, in microseconds.
    pub fn timestamp_us(&self, bindings: &Bindings<'_>) -> Result<i64> {
        match &self.timestamp {
            Some(term) => timestamp(term, bindings),
            None => Ok(bindings.time.timestamp_us),
        }
    }

    /// How long the statement says that it may take.
    #[inline]
    pub fn timeout(&self, bindings: &Bindings<'_>) -> Result<Option<Duration>> {
        timeout(self.timeout.as_ref(), bindings)
    }

    /// Appends the mutations of this statement, and tells `each` the token and the length in bytes of every one.
    /// After an error the records hold rubbish.
    pub(super) fn bind_each(
        &self,
        bindings: &Bindings<'_>,
        scratch: &mut Scratch,
        records: &mut impl Records,
        mut each: impl FnMut(Token, usize) -> Result<()>,
    ) -> Result<()> {
        debug_assert!(self.condition.is_none(), "a condition is bound with what it is of");
        self.with_json(bindings, |bindings| self.bind_here(bindings, scratch, records, &mut each))
    }

    /// Runs something with the bindings, to which the values of the text are added if this is an `INSERT JSON`.
    pub(super) fn with_json<T>(
        &self,
        bindings: &Bindings<'_>,
        run: impl FnOnce(&Bindings<'_>) -> Result<T>,
    ) -> Result<T> {
        let Some(json) = &self.json else { return run(bindings) };
        let slots = json.slots(bindings, &self.table)?;
        let with_json = bindings.with_json(&slots);
        let result = run(&with_json);
        bindings.work.continue_from(&with_json.work);
        result
    }

    /// Appends the mutations of a statement whose `INSERT JSON`, if it is one, is read already: the bindings have the
    /// values of its text. Tells `each` the token and the length in bytes of every mutation.
    fn bind_here(
        &self,
        bindings: &Bindings<'_>,
        scratch: &mut Scratch,
        records: &mut impl Records,
        each: &mut impl FnMut(Token, usize) -> Result<()>,
    ) -> Result<()> {
        let stamp = self.stamp(bindings, Deletes::WithWrites)?;
        let Scratch { key, row } = scratch;
        let mut named = self.named(row, bindings);
        let mut has_written = false;
        for_each_key(&self.keys, &self.table, bindings, key, |key| {
            let token = Token::of_key(key);
            let record = records.of(token);
            let start = record.len();
            self.put_partition((token, key), (&stamp, bindings), &mut named, record)?;
            has_written = !named.is_empty;
            each(token, record.len() - start)
        })?;
        if has_written { Ok(()) } else { self.check_rows(bindings, &mut named) }
    }

    /// Appends the mutation of one statement of a conditional write to the partition `key`. `named` has the rows that
    /// its conditions look at, evaluated. Deletions are a microsecond before writes.
    pub(super) fn bind_judged(
        &self,
        key: &[u8],
        bindings: &Bindings<'_>,
        mut named: Named<'_>,
        record: &mut Vec<u8>,
    ) -> Result<()> {
        let stamp = self.stamp(bindings, Deletes::BeforeWrites)?;
        let partition = (Token::of_key(key), key);
        self.put_partition(partition, (&stamp, bindings), &mut named, record)?;
        if named.is_empty { self.check_rows(bindings, &mut named) } else { Ok(()) }
    }

    /// What the statement writes to, before its rows are evaluated.
    pub(super) fn named<'s>(&self, row: &'s mut RowKey, bindings: &Bindings<'_>) -> Named<'s> {
        let mut named = Named {
            row,
            rows: NamedRows::Unknown,
            slices: None,
            has_static_cells: writes_anything(&self.static_cells, bindings),
            has_row_cells: writes_anything(&self.row_cells, bindings),
            is_empty: false,
        };
        named.is_empty = self.writes_nothing(&named, bindings);
        named
    }

    /// Appends the mutation of one partition, if it writes anything.
    fn put_partition(
        &self,
        (token, key): (Token, &[u8]),
        (stamp, bindings): (&Stamp<'_>, &Bindings<'_>),
        named: &mut Named<'_>,
        record: &mut Vec<u8>,
    ) -> Result<()> {
        bindings.work.take_partition()?;
        let start = record.len();
        if !named.is_empty {
            let mutation = MutationBuilder::begin(record, self.table.id, token, key);
            self.put_mutation(mutation, stamp, bindings, named)?;
        }
        let (bytes, all) = (record.len() - start, record.len());
        check_bytes(bytes)?;
        // What a statement or a batch writes is one record, and nothing may build a larger one.
        check_bytes(all)?;
        indexed::check_values(&self.table, &record[start..])?;
        nearest::check_vectors(&self.table, &record[start..])
    }

    /// Refuses rows that cannot be named, of a statement that writes to none of them: its values are unset, or its
    /// partitions an empty `IN`. Cassandra looks at the rows first.
    #[cold]
    fn check_rows(&self, bindings: &Bindings<'_>, named: &mut Named<'_>) -> Result<()> {
        if self.change == RowChange::DeleteRanges {
            return self.rows.check_slices(&self.table, bindings);
        }
        named.rows(self, bindings).map(drop)
    }

    /// Whether every value it would write is unset. A row that is inserted or deleted is something.
    fn writes_nothing(&self, named: &Named<'_>, bindings: &Bindings<'_>) -> bool {
        match self.change {
            RowChange::Cells | RowChange::StaticOnly => {
                !named.has_static_cells
                    && !named.has_row_cells
                    && !self.changes_lists()
                    && !adds_anything(&self.static_counters, bindings)
                    && !adds_anything(&self.row_counters, bindings)
            }
            RowChange::Insert
            | RowChange::DeleteRows
            | RowChange::DeleteRanges
            | RowChange::DeletePartition => false,
        }
    }

    /// Fills the mutation of one partition.
    fn put_mutation(
        &self,
        mut mutation: MutationBuilder<'_>,
        stamp: &Stamp<'_>,
        bindings: &Bindings<'_>,
        named: &mut Named<'_>,
    ) -> Result<()> {
        match self.change {
            RowChange::Insert | RowChange::Cells | RowChange::DeleteRows => {
                self.put_rows(&mut mutation, stamp, bindings, named)?;
            }
            RowChange::StaticOnly => {
                if named.has_static_cells {
                    self.put_static_row(&mut mutation, 1, stamp, bindings)?;
                }
                if self.reads_first() {
                    self.put_changes(&mut mutation, (&[], 1), stamp, bindings)?;
                }
            }
            RowChange::DeleteRanges => self.put_ranges(&mut mutation, stamp, bindings, named)?,
            RowChange::DeletePartition => mutation.delete_partition(stamp.deletion()),
        }
        mutation.finish();
        Ok(())
    }

    /// Says what becomes of counters, or of elements of lists, that are there: in each row, and in the static row as
    /// often as `passes` says.
    #[cold]
    fn put_changes(
        &self,
        mutation: &mut MutationBuilder<'_>,
        (rows, passes): (&[RowKey], usize),
        stamp: &Stamp<'_>,
        bindings: &Bindings<'_>,
    ) -> Result<()> {
        let grows = self.static_lists.iter().any(|list| matches!(list.op, ListOpPlan::Add(..)));
        // Other changes are the same each time.
        let list_passes = if grows { passes } else { 1 };
        let mut bytes = 0;
        for pass in 0..list_passes {
            if pass > 0 {
                bindings.work.take_again(self.static_lists.len())?;
            }
            let put = put_list_changes(&self.static_lists, None, stamp, bindings, mutation)?;
            if pass > 0 {
                // Each element has some beside its own.
                bindings.work.take_bytes(put)?;
            }
            bytes += put;
            check_bytes(bytes)?;
        }
        bytes +=
            put_counter_changes(&self.static_counters, (None, passes), stamp, bindings, mutation)?;
        if self.row_lists.is_empty() && self.row_counters.is_empty() {
            return Ok(());
        }
        bindings.work.take_rows(rows.len())?;
        for row in rows {
            row.check_missing_bytes()?;
            let clustering = Some(&row.clustering[..]);
            bytes += put_list_changes(&self.row_lists, clustering, stamp, bindings, mutation)?;
            let counters = &self.row_counters;
            bytes += put_counter_changes(counters, (clustering, 1), stamp, bindings, mutation)?;
            check_bytes(bytes)?;
        }
        Ok(())
    }

    /// Writes the static row, of which a cell is written. Its lists grow as often as `passes` says.
    fn put_static_row(
        &self,
        mutation: &mut MutationBuilder<'_>,
        passes: usize,
        stamp: &Stamp<'_>,
        bindings: &Bindings<'_>,
    ) -> Result<()> {
        mutation.static_row(|out| {
            let mut row = RowBuilder::begin(out, &RowHead::bare(stamp.timestamp));
            put_cells((&self.static_cells, passes), stamp, bindings, &mut row)
        })
    }

    /// Deletes the stretches of rows that the statement names.
    fn put_ranges(
        &self,
        mutation: &mut MutationBuilder<'_>,
        stamp: &Stamp<'_>,
        bindings: &Bindings<'_>,
        named: &mut Named<'_>,
    ) -> Result<()> {
        let deletion = stamp.deletion();
        let slices = named.slices(self, bindings)?;
        bindings.work.take_rows(slices.len())?;
        for slice in slices {
            let (start, end) = (&slice.start[..], &slice.end[..]);
            mutation.delete_range(&RangeTombstone { start, end, deletion });
        }
        Ok(())
    }

    /// Writes or deletes each row that the statement names, and the static row. If none is named, since a list is
    /// empty, nothing is written. As in Cassandra, the static row is written once for each row: its lists and counters
    /// grow as often.
    fn put_rows(
        &self,
        mutation: &mut MutationBuilder<'_>,
        stamp: &Stamp<'_>,
        bindings: &Bindings<'_>,
        named: &mut Named<'_>,
    ) -> Result<()> {
        let (has_static_cells, has_row_cells) = (named.has_static_cells, named.has_row_cells);
        let rows = named.rows(self, bindings)?;
        if rows.is_empty() {
            return Ok(());
        }
        if has_static_cells {
            self.put_static_row(mutation, rows.len(), stamp, bindings)?;
        }
        if self.change != RowChange::Cells || has_row_cells {
            bindings.work.take_rows(rows.len())?;
            let mut bytes = 0;
            for row in rows {
                bytes += self.put_row(mutation, row, stamp, bindings)?;
                check_bytes(bytes)?;
            }
        }
        if self.reads_first() {
            self.put_changes(mutation, (rows, rows.len()), stamp, bindings)?;
        }
        Ok(())
    }

    /// Appends one row; gives its length.
    fn put_row(
        &self,
        mutation: &mut MutationBuilder<'_>,
        key: &RowKey,
        stamp: &Stamp<'_>,
        bindings: &Bindings<'_>,
    ) -> Result<usize> {
        if self.table.is_dense() {
            check_not_empty(&self.table, key)?;
        }
        if self.change != RowChange::DeleteRows {
            // One that was written before its types grew can still be deleted.
            key.check_missing_bytes()?;
        }
        let mut head = RowHead::bare(stamp.timestamp);
        match self.change {
            RowChange::Insert => head.marker = Some(stamp.life()),
            RowChange::DeleteRows => head.deletion = stamp.deletion(),
            _ => {}
        }
        mutation.row(&key.clustering, |out| {
            let start = out.len();
            let mut row = RowBuilder::begin(out, &head);
            if !key.written.is_empty() && self.change != RowChange::DeleteRows {
                row.written(Written { at: stamp.timestamp, values: &key.written });
            }
            put_cells((&self.row_cells, 1), stamp, bindings, &mut row)?;
            Ok(out.len() - start)
        })
    }

    /// When the write happens and until when it lives.
    fn stamp<'b>(&self, bindings: &'b Bindings<'_>, deletes: Deletes) -> Result<Stamp<'b>> {
        let timestamp = self.timestamp_us(bindings)?;
        let default_ttl = self.table.options.default_time_to_live;
        let ttl = match &self.ttl {
            Some(term) => ttl(term, bindings, default_ttl)?,
            None => default_ttl,
        };
        let now_s = bindings.time.now_s;
        let expiry = match u32::try_from(ttl) {
            Ok(0) | Err(_) => None,
            Ok(ttl_s) => Some(Expiry { ttl_s, at_s: self.expiry_at(now_s, ttl_s)? }),
        };
        let deletes_at = match deletes {
            Deletes::WithWrites => timestamp,
            Deletes::BeforeWrites => timestamp.saturating_sub(1),
        };
        Ok(Stamp { timestamp, deletes_at, now_s, expiry, time: bindings.time })
    }

    fn expiry_at(&self, now_s: u32, ttl_s: u32) -> Result<u32> {
        now_s.checked_add(ttl_s).ok_or_else(|| {
            Error::invalid(format!(
                "Request on table {}.{} with ttl of {ttl_s} seconds exceeds maximum supported expiration date",
                self.table.keyspace, self.table.name
            ))
        })
    }
}

/// Refuses a row of a dense table whose only clustering value is empty, as Cassandra does: there is no such name of a
/// column in its old storage.
#[cold]
fn check_not_empty(table: &Table, key: &RowKey) -> Result<()> {
    match table.clustering() {
        [column] if key.is_empty() => {
            let text = format!("Invalid empty or null value for column {}", column.name);
            Err(Error::Invalid(text))
        }
        _ => Ok(()),
    }
}

/// The value of a `USING TTL`: 0 is none.
fn ttl(term: &Term, bindings: &Bindings<'_>, default_ttl: i32) -> Result<i32> {
    let value = term.eval(bindings)?;
    let bytes = match &value {
        Evaluated::Unset => return Ok(default_ttl),
        Evaluated::Null => return Ok(0),
        Evaluated::Bytes(bytes) => bytes,
    };
    let ttl = bytes[..].try_into().map(i32::from_be_bytes);
    let ttl = ttl.map_err(|_| Error::invalid("Invalid TTL value"))?;
    if ttl < 0 {
        let text = format!("A TTL must be greater or equal to 0, but was {ttl}");
        return Err(Error::invalid(text));
    }
    if ttl > TTL_S_MAX {
        let text = format!("ttl is too large. requested ({ttl}) maximum ({TTL_S_MAX})");
        return Err(Error::invalid(text));
    }
    Ok(ttl)
}

impl Stamp<'_> {
    fn deletion(&self) -> Deletion {
        Deletion { timestamp: self.deletes_at, local_s: self.now_s }
    }

    fn life(&self) -> Life {
        self.expiry.map_or(Life::Live, Life::Expiring)
    }
}
