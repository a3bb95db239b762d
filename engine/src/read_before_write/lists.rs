//! The list changes of one mutation, those of values that grow among them: the rows that they need, and the cells that
//! they become.
//!
//! ```text
//! changes, by row ─► commands: the rows ─► each row as it comes: paths of the elements ─► cells ─► one mutation
//! ```
//!
//! Only what will be written is kept of a row: a statement may name many rows whose lists are long. How long a list may
//! be, and what all that is written may take, is bounded before it is made.

use std::collections::BTreeMap;
use std::mem;

use model::cell::Life;
use model::mutation::{ListChange, ListOp, MutationBuilder};
use model::read::{PartitionRef, ReadCommand};
use model::row::{Cell, RowBuilder, RowHead};
use model::{ColumnId, Flow, MutationRef, RowRef, RowSink};

use super::elements::Elements;
use super::held::Held;
use super::rows::{Place, reads_of};
use super::sums::Sums;
use crate::error::{Error, Result};
use crate::limits::{
    CHANGED_LIST_ELEMENTS_MAX, CHANGED_LISTS_BYTES_MAX, LIST_CHANGES_MAX, NEW_CELL_OVERHEAD_BYTES,
    SUMS_OF_A_VALUE_MAX,
};

/// The list changes of a mutation.
pub(super) struct Lists<'m> {
    mutation: MutationRef<'m>,
    /// In the order of their rows, each row once for each of its lists.
    lists: Vec<List<'m>>,
    cells: BTreeMap<Place<'m>, BTreeMap<CellAt, NewCell>>,
    sums: Sums<'m>,
    /// What the cells take in memory.
    held: Held<'m>,
    /// The first change that cannot be done, and why.
    refused: Option<(usize, Error)>,
}

/// One list, or value that grows, and what becomes of it.
struct List<'m> {
    place: Place<'m>,
    column: ColumnId,
    /// The changes that are not resolved, each with its number in the mutation.
    changes: Vec<(usize, ListChange<'m>)>,
}

/// A column and the path of an element; `None` is all of the list, which a row has before its elements.
type CellAt = (ColumnId, Option<Vec<u8>>);

/// What is written to an element.
struct NewCell {
    timestamp: i64,
    life: Life,
    value: Vec<u8>,
}

impl List<'_> {
    /// Whether it is no list, but a number or text that grows.
    fn grows(&self) -> bool {
        matches!(self.changes.first(), Some((_, change)) if matches!(change.op, ListOp::Grow { .. }))
    }
}

impl<'m> Lists<'m> {
    /// The changes of `mutation`, of which there is at least one; `Invalid` if there are too many.
    /// They are made so many microseconds later than they say.
    pub(super) fn of(
        mutation: &MutationRef<'m>,
        delay_us: i64,
        (sums, held): (Sums<'m>, Held<'m>),
    ) -> Result<Lists<'m>> {
        if mutation.list_changes().nth(LIST_CHANGES_MAX).is_some() {
            return Err(Error::invalid(format!(
                "A statement changes elements of lists by index or by value more than {LIST_CHANGES_MAX} times in one partition: use several statements"
            )));
        }
        let mut lists: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (number, change) in mutation.list_changes().enumerate() {
            let list = (change.clustering, change.column);
            let timestamp = change.timestamp.saturating_add(delay_us);
            let change = ListChange { timestamp, ..change };
            lists.entry(list).or_default().push((number, change));
        }
        let lists = lists.into_iter();
        let lists = lists.map(|((place, column), changes)| List { place, column, changes });
        let (lists, cells) = (lists.collect(), BTreeMap::new());
        Ok(Lists { mutation: *mutation, lists, cells, sums, held, refused: None })
    }

    /// Reads of the rows: of the static one, and of the others.
    pub(super) fn commands(&self) -> impl Iterator<Item = ReadCommand> + use<> {
        let now_s =
            self.lists.iter().flat_map(|list| &list.changes).map(|(_, change)| change.now_s);
        let places = self.lists.iter().map(|list| list.place).collect();
        reads_of(&self.mutation, places, now_s.max().unwrap_or_default())
    }

    /// Appends what the changes write, if that is anything; the refusal of the first that cannot be done. Lists that no
    /// read has found are null.
    pub(super) fn put(mut self, out: &mut Vec<u8>) -> Result<()> {
        for index in 0..self.lists.len() {
            self.resolve(index, &[]);
        }
        if let Some((_, refusal)) = self.refused.take() {
            return Err(refusal);
        }
        self.cells.retain(|_, cells| !cells.is_empty());
        if self.cells.is_empty() {
            return Ok(());
        }
        let MutationRef { table, token, key, .. } = self.mutation;
        let mut mutation = MutationBuilder::begin(out, table, token, key);
        for (place, cells) in &self.cells {
            match place {
                None => mutation.static_row(|out| put_row(cells, out)),
                Some(clustering) => mutation.row(clustering, |out| put_row(cells, out)),
            }
        }
        mutation.finish();
        Ok(())
    }

    /// Takes what a row has.
    fn take_row(&mut self, place: Place<'_>, row: RowRef<'_>) {
        let first = self.lists.partition_point(|list| list.place < place);
        let end = self.lists.partition_point(|list| list.place <= place);
        for index in first..end {
            let (column, grows) = (self.lists[index].column, self.lists[index].grows());
            let of_list = |cell: &Cell<'_>| cell.column == column && cell.path.is_none() == grows;
            let elements = row.cells().filter(of_list).take(CHANGED_LIST_ELEMENTS_MAX + 1);
            let elements: Vec<Cell<'_>> = elements.collect();
            if elements.len() > CHANGED_LIST_ELEMENTS_MAX {
                self.refuse_all(index, Error::invalid(format!(
                    "List has more than {CHANGED_LIST_ELEMENTS_MAX} elements, and only shorter ones can be changed by index or by value"
                )));
                continue;
            }
            self.resolve(index, &elements);
        }
    }

    /// Turns the changes of one list into cells, once.
    fn resolve(&mut self, index: usize, cells: &[Cell<'_>]) {
        let List { place, column, .. } = self.lists[index];
        let changes = mem::take(&mut self.lists[index].changes);
        if changes.is_empty() {
            return;
        }
        if let Some((_, ListChange { op: ListOp::Grow { .. }, .. })) = changes.first() {
            return cells.iter().for_each(|cell| self.grow(place, cell, &changes));
        }
        let mut elements = Elements::of(cells, &changes);
        for (number, change) in &changes {
            if let Err(refusal) = elements.change(change) {
                return self.refuse(*number, refusal);
            }
        }
        let cleared = changes.iter().rfind(|(_, change)| change.op == ListOp::Clear);
        let covers = |timestamp| cleared.is_some_and(|(_, clear)| timestamp <= clear.timestamp);
        if let Some((_, clear)) = cleared {
            let life = Life::Dead { local_s: clear.now_s };
            let cell = NewCell { timestamp: clear.timestamp, life, value: Vec::new() };
            self.cells.entry(place).or_default().insert((column, None), cell);
        }
        for (path, (timestamp, life, value)) in elements.written() {
            if covers(timestamp) {
                continue;
            }
            if let Err(refusal) = self.count(path.len() + value.len()) {
                return self.refuse(changes[0].0, refusal);
            }
            let (at, value) = ((column, Some(path.to_vec())), value.to_vec());
            self.cells.entry(place).or_default().insert(at, NewCell { timestamp, life, value });
        }
    }

    /// Adds to a number or text what the changes say.
    fn grow(&mut self, place: Place<'m>, cell: &Cell<'_>, changes: &[(usize, ListChange<'m>)]) {
        if changes.len() > SUMS_OF_A_VALUE_MAX {
            return self.refuse(changes[SUMS_OF_A_VALUE_MAX].0, Error::invalid(format!(
                "A statement adds more than {SUMS_OF_A_VALUE_MAX} times to one value: add up what is added"
            )));
        }
        let mut grown = (cell.timestamp, cell.life, cell.value.to_vec());
        for (number, change) in changes {
            if let Err(refusal) = self.count(grown.2.len()) {
                return self.refuse(*number, refusal);
            }
            grown = match self.sums.grown(grown, change) {
                Ok(Some(grown)) => grown,
                Ok(None) => return,
                Err(refusal) => return self.refuse(*number, refusal),
            };
        }
        let (timestamp, life, value) = grown;
        let cell = (cell.column, None);
        self.cells.entry(place).or_default().insert(cell, NewCell { timestamp, life, value });
    }

    /// Counts one more cell that will be written.
    fn count(&mut self, bytes: usize) -> Result<()> {
        let more = bytes + NEW_CELL_OVERHEAD_BYTES;
        if self.held.bytes() + more > CHANGED_LISTS_BYTES_MAX {
            return Err(Error::invalid(format!(
                "A statement changes more than {CHANGED_LISTS_BYTES_MAX} bytes of elements of lists and of sums in one partition, {NEW_CELL_OVERHEAD_BYTES} for each element included: use several statements"
            )));
        }
        self.held.add(more)
    }

    /// Refuses all changes of a list.
    fn refuse_all(&mut self, index: usize, refusal: Error) {
        if let Some((number, _)) = mem::take(&mut self.lists[index].changes).first() {
            self.refuse(*number, refusal);
        }
    }

    fn refuse(&mut self, number: usize, refusal: Error) {
        if self.refused.as_ref().is_none_or(|(first, _)| number < *first) {
            self.refused = Some((number, refusal));
        }
    }
}

impl RowSink for Lists<'_> {
    fn row(
        &mut self,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Flow {
        if let Some(row) = partition.static_row {
            self.take_row(None, row);
        }
        if let (Some(clustering), Some(row)) = (clustering, row) {
            self.take_row(Some(clustering), row);
        }
        Flow::More
    }
}

fn put_row(cells: &BTreeMap<CellAt, NewCell>, out: &mut Vec<u8>) {
    let newest = cells.values().map(|cell| cell.timestamp).max().unwrap_or_default();
    let mut row = RowBuilder::begin(out, &RowHead::bare(newest));
    for ((column, path), NewCell { timestamp, life, value }) in cells {
        let cell = Cell::live(*column, *timestamp, value);
        // Of a list that is deleted as a whole; a sum lives.
        let whole = path.is_none() && matches!(life, Life::Dead { .. });
        let path = path.as_deref();
        row.cell(&Cell { life: *life, path, whole, ..cell });
    }
}
