//! The sink of a read: each row that comes is selected, and appended to the answer or added up.
//!
//! ```text
//! row ─► form of now ─► view (`view.rs`) ─┬─► its columns at the end of the buffer ─────► sorted, cut
//!                                         └─► the group's accumulators ─ group ends ─► ▲
//! ```
//!
//! 1. `row` takes what the read gives, in the order of storage, and says when it wants no more.
//! 2. Without aggregates a row is written where it will be sent from. With them, a group ends where the
//!    leading key columns change; its row is made then.
//! 3. `finish` ends the last group, and brings rows of several partitions into their order.
//!
//! Invariants: all that is written stands behind `start`; a result has no more than `RESULT_BYTES_MAX`
//! bytes, or those that its owner has for it ([`ResultEncoder::set_bytes_max`]); the first error is kept, and nothing
//! is taken after it.
//!
//! Not here: which rows are read and where a page ends (`engine`), the state of a group (`encoder/grouping.rs`), the
//! frame around the rows (`frame/response/result.rs`).

mod grouping;
mod ordered;
mod part;
#[cfg(test)]
mod tests;

use grouping::{Group, Grouping, new_accumulators};
use model::bytes::compare;
use model::key;
use model::read::{Flow, PartitionRef, Resume, RowSink};
use model::row::{self, RowRef};
use model::schema::Table;
use ordered::{Ordered, prefix_length};
pub use part::{OpenGroup, ResultPart};

use super::view::{ClusteringValues, RowParts, RowView};
use crate::bind::{Bindings, StatementTime};
use crate::error::{Error, Result};
use crate::expr::{ExpressionWork, Selection, check_result_bytes};
use crate::limits::{PAGE_ANSWER_BYTES, RESULT_BYTES_MAX};
use crate::planted::{Bug, planted};

/// By which clustering columns rows of several partitions are brought into one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowOrder {
    /// How many leading clustering columns count.
    pub columns: usize,
    /// Whether the order is against that of storage.
    pub reversed: bool,
}

/// What the rows of a result are made of.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// The table they are read from.
    pub table: &'a Table,
    /// The terms of the result's columns.
    pub selection: &'a Selection,
    /// How many columns of the primary key make a group; `None`: all rows are one group.
    pub group_by: Option<usize>,
    /// How many groups a partition may give.
    pub groups_per_partition: u64,
    /// Whether the groups are one page of several, which ends between two groups.
    pub pages_groups: bool,
    /// Where the page begins; its `rows_of_partition` are groups.
    pub after: Option<&'a Resume>,
    /// The order the rows are brought into once all are there.
    pub order: Option<RowOrder>,
    /// How many result rows there may be that the read cannot count: groups, and sorted rows.
    pub limit: u64,
    /// Bytes of the rows after which no more are wanted; the largest number if the result has no pages.
    pub page_answer_bytes: usize,
    /// Whether a full page of groups says that there is another, as a full page of rows that an index finds does.
    pub full_page_goes_on: bool,
    /// Whether stored values may have an old form.
    pub has_old_form: bool,
}

/// Turns rows of storage into rows of the answer, at the end of a buffer.
pub struct ResultEncoder<'a> {
    selection: &'a Selection,
    table: &'a Table,
    time: StatementTime<'a>,
    out: &'a mut Vec<u8>,
    start: usize,
    rows: u64,
    limit: u64,
    page_answer_bytes: usize,
    /// Bytes that the rows may have for now.
    bytes_max: usize,
    /// A row did not fit these, and there was none before it.
    is_over: bool,
    /// Where the last row begins.
    row_at: usize,
    /// The last row was taken back: it is the first of the next page.
    is_cut: bool,
    /// Bytes that the open group keeps: values, and the states of its aggregates.
    group_bytes: usize,
    once: Vec<Option<Vec<u8>>>,
    /// What the expressions of the last row have taken, those of the groups that it ended included.
    work: ExpressionWork,
    clustering: ClusteringValues,
    /// Present if stored values may have an old form.
    old_form: Option<OldForm>,
    /// Boxed: most results have none, and an encoder is moved.
    grouping: Option<Box<Grouping>>,
    ordered: Option<Ordered>,
    error: Option<Error>,
}

/// Memory for what is brought into the form of now.
#[derive(Debug, Default)]
struct OldForm {
    row: Vec<u8>,
    static_row: Vec<u8>,
}

impl<'a> ResultEncoder<'a> {
    /// An encoder of rows of this shape.
    pub fn new(
        shape: Shape<'a>,
        bindings: &Bindings<'a>,
        out: &'a mut Vec<u8>,
    ) -> Result<ResultEncoder<'a>> {
        let selection = shape.selection;
        let grouping = selection.is_aggregate().then(|| Box::new(Grouping::new(&shape)));
        Ok(ResultEncoder {
            selection,
            table: shape.table,
            time: bindings.time,
            start: out.len(),
            out,
            rows: 0,
            limit: shape.limit,
            page_answer_bytes: shape.page_answer_bytes,
            bytes_max: RESULT_BYTES_MAX,
            is_over: false,
            row_at: 0,
            is_cut: false,
            group_bytes: 0,
            once: selection.evaluate_once(bindings)?,
            work: ExpressionWork::default(),
            clustering: ClusteringValues::default(),
            old_form: shape.has_old_form.then(OldForm::default),
            grouping,
            ordered: shape.order.map(Ordered::new),
            error: None,
        })
    }

    /// Ends the rows: the last group, the order. Gives their number.
    pub fn finish(mut self) -> Result<u32> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if let Some(grouping) = self.grouping.take()
            && (grouping.current.is_some() || (grouping.by.is_none() && self.rows == 0))
        {
            self.work.begin();
            self.end_group(&grouping)?;
        }
        self.keep_first();
        Ok(u32::try_from(self.rows).expect("the bytes of a result are bounded, so are its rows"))
    }

    /// Whether no more rows are wanted: a limit is reached, or something failed.
    pub fn is_full(&self) -> bool {
        let is_page_over = self.grouping.as_ref().is_some_and(|grouping| grouping.is_page_over);
        self.error.is_some() || is_page_over || (self.ordered.is_none() && self.rows >= self.limit)
    }

    /// Where the next page of groups begins, if this one has ended before the last group, or is full and
    /// [goes on](Shape::full_page_goes_on): behind the last row that was taken, whose `rows_of_partition` are groups.
    pub fn groups_end(&mut self) -> Option<Resume> {
        let grouping = self.grouping.as_mut()?;
        let groups = self.rows + u64::from(grouping.current.is_some());
        let goes_on = grouping.full_page_goes_on && groups >= self.limit;
        if !grouping.is_page_over && !goes_on {
            return None;
        }
        let mut last = grouping.last.take()?;
        let (partition, groups) = &grouping.partition;
        let counted = if *partition == last.key { *groups } else { 0 };
        // It has given one at least: its static row does not stand alone.
        last.rows_of_partition = counted.max(1);
        Some(last)
    }

    /// Bytes of memory that the answer takes: its rows, twice where they are sorted, with what they are ordered by, and
    /// what the open group keeps.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        let rows = self.out.len() - self.start;
        let sorted = self.ordered.as_ref().map_or(0, |ordered| rows + ordered.bytes());
        rows + sorted + self.group_bytes
    }

    /// From here on the rows may have so many bytes, if a result may.
    #[inline]
    pub fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max.min(RESULT_BYTES_MAX);
    }

    /// Whether there was no space for a row, and none before it at which a page could end.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The row that is being written has no space: the page ends before it, if it has a row.
    #[cold]
    fn end_before_row(&mut self) -> Result<Flow> {
        self.rows += 1;
        if !self.take_back() {
            check_result_bytes(self.out.len() - self.start)?;
            self.is_over = true;
            self.rows -= 1;
            self.out.truncate(self.row_at);
            self.out.shrink_to(2 * self.row_at);
        }
        Ok(Flow::Enough)
    }

    /// Whether the answer is one page of several: the last row may be taken back.
    #[inline]
    pub fn is_paged(&self) -> bool {
        self.page_answer_bytes < usize::MAX
    }

    /// Takes the last row back: the page has no space for it and ends before it. False if there is no page, or no row
    /// before it.
    pub fn take_back(&mut self) -> bool {
        if !self.is_paged() || self.rows < 2 || self.is_cut {
            return false;
        }
        self.out.truncate(self.row_at);
        // It may have been long.
        self.out.shrink_to(2 * self.row_at);
        self.rows -= 1;
        self.is_cut = true;
        true
    }

    /// Lets go of all rows and of the open group: there is no answer.
    pub fn discard(&mut self) {
        self.out.truncate(self.start);
        self.out.shrink_to_fit();
        self.ordered = None;
        self.take_open();
    }

    /// Whether the last row that was given was taken back, so that it is the first of the next page.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Takes a row after bringing its values into the form of now.
    fn take_old(
        &mut self,
        memory: &mut OldForm,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Result<Flow> {
        let OldForm { row: row_bytes, static_row } = memory;
        let now = |row: RowRef<'_>, out| row::in_current_form(row, self.table, out);
        let key = key::partition_key_in_current_form(self.table, partition.key)?;
        let static_row = partition.static_row.map(|row| now(row, static_row)).transpose()?;
        let row = row.map(|row| now(row, row_bytes)).transpose()?;
        let current = PartitionRef { key: &key, static_row, ..*partition };
        self.take((&current, partition.key), clustering, row)
    }

    /// Takes a row of a partition, whose key may be stored in an old form.
    fn take(
        &mut self,
        (partition, stored_key): (&PartitionRef<'_>, &[u8]),
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Result<Flow> {
        let wanted = &self.selection.wanted;
        let columns = &self.table.clustering()[..wanted.clustering];
        let written = row.and_then(|row| row.written());
        // A key whose types have grown may be thousands of times as long as it is stored.
        self.work.take_collected(self.clustering.decode(columns, clustering, written)?)?;
        if let Some(mut grouping) = self.grouping.take() {
            let flow = self.take_into(&mut grouping, (partition, stored_key), clustering, row);
            self.grouping = Some(grouping);
            return flow;
        }
        let start = self.out.len();
        self.row_at = start;
        if !self.put(partition, row)? {
            return self.end_before_row();
        }
        self.rows += 1;
        if let Some(ordered) = &self.ordered {
            let key = ordered.key(self.table, clustering)?;
            self.wait_in_order(key, start);
        }
        let is_enough = self.out.len() - self.start >= self.page_answer_bytes;
        Ok(if is_enough { Flow::Enough } else { Flow::More })
    }

    /// Appends a row; `false` if the result has no space for all of its bytes: then the caller cuts off those behind
    /// `row_at`.
    fn put(&mut self, partition: &PartitionRef<'_>, row: Option<RowRef<'_>>) -> Result<bool> {
        let (clustering, once, time) = (&self.clustering, &self.once[..], &self.time);
        let parts = RowParts { partition, clustering, row, once, time, work: &self.work };
        let mut view = RowView::new(self.table, parts);
        view.find(&self.selection.wanted);
        for output in &self.selection.outputs {
            output.put(&view, self.out)?;
            if self.out.len() - self.start > self.bytes_max {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds a row to its group.
    fn take_into(
        &mut self,
        grouping: &mut Grouping,
        (partition, stored_key): (&PartitionRef<'_>, &[u8]),
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Result<Flow> {
        let key = self.group_key(grouping.by, partition, clustering, row)?;
        // Without GROUP BY the keys are empty, which `compare` sees at once.
        let is_same = |current: &Vec<u8>| compare(current, &key).is_eq();
        if grouping.current.as_ref().is_some_and(|current| !is_same(current)) {
            self.end_group(grouping)?;
            grouping.current = None;
        }
        let is_long =
            || grouping.current.is_none() && self.out.len() - self.start >= PAGE_ANSWER_BYTES;
        if self.ordered.is_none() && self.rows >= self.limit || grouping.pages && is_long() {
            grouping.is_page_over = grouping.pages;
            return Ok(Flow::Enough);
        }
        // The next page begins by the key as it is stored.
        let stored = PartitionRef { key: stored_key, ..*partition };
        grouping.pass(&stored, clustering);
        if grouping.current.is_none() && !grouping.opens_in(&stored) {
            return Ok(Flow::More);
        }
        if let (None, Some(ordered)) = (&grouping.current, &self.ordered) {
            grouping.order_key = ordered.key(self.table, clustering)?;
        }
        let wanted = &self.selection.wanted;
        let (clustering, once, time) = (&self.clustering, &self.once[..], &self.time);
        let parts = RowParts { partition, clustering, row, once, time, work: &self.work };
        let mut view = RowView::new(self.table, parts);
        view.find(wanted);
        self.group_bytes = grouping.add(self.selection, &view, key)?;
        Ok(Flow::More)
    }

    /// What rows of one group have in common: columns of the key, and what a function makes of the last one.
    fn group_key(
        &self,
        by: Option<usize>,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Result<Vec<u8>> {
        let Some(by) = by else { return Ok(Vec::new()) };
        let function = self.selection.group_by.as_ref();
        let whole = if function.is_some() { by - 1 } else { by };
        let columns = whole.saturating_sub(self.table.partition_key().len());
        let key = clustering.unwrap_or_default();
        let length = if columns == 0 { 0 } else { prefix_length(self.table, key, columns)? };
        let partition_key = if planted(Bug::GroupSpansPartitions) { &[] } else { partition.key };
        let mut group = [partition_key, &key[..length]].concat();
        let Some(function) = function else { return Ok(group) };
        let (clustering, once, time) = (&self.clustering, &self.once[..], &self.time);
        let parts = RowParts { partition, clustering, row, once, time, work: &self.work };
        function.put(&RowView::new(self.table, parts), &mut group)?;
        Ok(group)
    }

    fn end_group(&mut self, grouping: &Grouping) -> Result<()> {
        let empty;
        let accumulators = if grouping.current.is_some() {
            &grouping.accumulators
        } else {
            empty = new_accumulators(self.selection, &self.work)?;
            &empty
        };
        self.work.take_aggregates(accumulators.len())?;
        let results = accumulators.iter().map(|one| one.finish(&self.time));
        let aggregates: Vec<Option<Vec<u8>>> = results.collect::<Result<_>>()?;
        let nothing = vec![None; self.selection.firsts.len()];
        let firsts = if grouping.current.is_some() { &grouping.firsts } else { &nothing };
        let (once, time) = (&self.once, &self.time);
        let group = Group { firsts, aggregates: &aggregates, once, time, work: &self.work };
        let start = self.out.len();
        for output in &self.selection.outputs {
            output.put(&group, self.out)?;
            check_result_bytes(self.out.len() - self.start)?;
        }
        self.rows += 1;
        self.wait_in_order(grouping.order_key.clone(), start);
        Ok(())
    }

    /// Lets the row that was just written, from `start` on, wait for the others if they have an order.
    fn wait_in_order(&mut self, key: Vec<u8>, start: usize) {
        let Some(ordered) = &mut self.ordered else { return };
        ordered.push(key, start..self.out.len());
        if ordered.has_many_behind(self.limit) {
            self.keep_first();
        }
    }

    /// Brings the rows so far into order, if they have one, and drops those behind the limit.
    fn keep_first(&mut self) {
        if let Some(ordered) = &mut self.ordered {
            self.rows = ordered.keep_first(self.limit, self.start, self.out);
        }
    }
}

impl RowSink for ResultEncoder<'_> {
    fn row(
        &mut self,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Flow {
        self.work.begin();
        if self.error.is_some() {
            return Flow::Enough;
        }
        let flow = match self.old_form.take() {
            None => self.take((partition, partition.key), clustering, row),
            Some(mut memory) => {
                let flow = self.take_old(&mut memory, partition, clustering, row);
                self.old_form = Some(memory);
                flow
            }
        };
        flow.unwrap_or_else(|error| {
            self.error = Some(error);
            Flow::Enough
        })
    }

    #[inline]
    fn is_costly(&self) -> bool {
        self.selection.calls_users
    }

    #[inline]
    fn row_work(&self) -> usize {
        usize::try_from(self.work.done()).unwrap_or(usize::MAX)
    }
}
