//! The counter changes of a record: what they add up to, and the cells that they become.
//!
//! ```text
//! changes, by partition and row ─► commands: the rows ─► what is there is added ─► cells, newer than what was read
//! ```
//!
//! 1. A record may change a counter several times, also in several mutations: all of it is added.
//! 2. A counter that is not there, or was deleted, counts from 0.
//! 3. Sums wrap around, as in Cassandra.
//!
//! Not here: what else the record says, which becomes later with the cells (`read_before_write.rs`): so a deletion in
//! the same record still wins, as in Cassandra.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use model::mutation::{CounterChange, MutationBuilder};
use model::read::{PartitionRef, ReadCommand};
use model::row::{Cell, RowBuilder, RowHead};
use model::{ColumnId, Deletion, Flow, MutationRef, RowRef, RowSink, TableId};

use super::held::Held;
use super::rows::{delay_us, reads_of};
use crate::error::{Error, Result};
use crate::limits::{COUNTER_CHANGES_MAX, NEW_CELL_OVERHEAD_BYTES};
use crate::planted::{Bug, planted};

/// What the counter changes of a record add up to.
pub(super) struct Counters<'m> {
    partitions: BTreeMap<(TableId, &'m [u8]), Sums<'m>>,
    changes: usize,
    /// What the sums take in memory.
    held: Held<'m>,
}

/// The counters of one partition.
pub(super) struct Sums<'m> {
    mutation: MutationRef<'m>,
    of_static: SumsOfRow,
    of_rows: BTreeMap<&'m [u8], SumsOfRow>,
    /// The oldest timestamp of a change.
    timestamp: i64,
    now_s: u32,
    /// The newest timestamp of all that was read.
    newest: i64,
    refused: Option<Error>,
}

/// The counters of one row.
#[derive(Default)]
struct SumsOfRow {
    sums: BTreeMap<ColumnId, Sum>,
    /// Whether what was there is added: a read of the static row may show another row, too.
    is_read: bool,
}

/// A counter: what is added, and what was there once that is read.
struct Sum {
    value: i64,
    timestamp: i64,
}

impl<'m> Counters<'m> {
    /// No changes yet.
    pub(super) fn none(held: Held<'m>) -> Counters<'m> {
        Counters { partitions: BTreeMap::new(), changes: 0, held }
    }

    /// Adds the changes of a mutation; `Invalid` if there are too many.
    pub(super) fn add(&mut self, mutation: &MutationRef<'m>) -> Result<()> {
        for change in mutation.counter_changes() {
            self.changes += 1;
            if self.changes > COUNTER_CHANGES_MAX {
                return Err(Error::invalid(format!(
                    "A statement or batch changes counters more than {COUNTER_CHANGES_MAX} times: use several"
                )));
            }
            let partition = (mutation.table, mutation.key);
            let sums =
                self.partitions.entry(partition).or_insert_with(|| Sums::none(mutation, &change));
            if sums.add(&change) {
                self.held.add(NEW_CELL_OVERHEAD_BYTES)?;
            }
        }
        Ok(())
    }

    /// The partitions with counters that are changed.
    pub(super) fn partitions(&mut self) -> impl Iterator<Item = &mut Sums<'m>> {
        self.partitions.values_mut()
    }

    /// Appends the cells, so many microseconds later than their changes say.
    pub(super) fn put(&self, delay_us: i64, out: &mut Vec<u8>) {
        self.partitions.values().for_each(|sums| sums.put(delay_us, out));
    }
}

impl<'m> Sums<'m> {
    fn none(mutation: &MutationRef<'m>, first: &CounterChange<'_>) -> Sums<'m> {
        Sums {
            mutation: *mutation,
            of_static: SumsOfRow::default(),
            of_rows: BTreeMap::new(),
            timestamp: first.timestamp,
            now_s: first.now_s,
            newest: i64::MIN,
            refused: None,
        }
    }

    /// Adds a change; says whether it is the first of its counter.
    fn add(&mut self, change: &CounterChange<'m>) -> bool {
        self.timestamp = self.timestamp.min(change.timestamp);
        self.now_s = self.now_s.max(change.now_s);
        let CounterChange { by: value, timestamp, .. } = *change;
        let sums = match change.clustering {
            None => &mut self.of_static,
            Some(clustering) => self.of_rows.entry(clustering).or_default(),
        };
        match sums.sums.entry(change.column) {
            Entry::Vacant(place) => {
                place.insert(Sum { value, timestamp });
                true
            }
            Entry::Occupied(mut sum) => {
                let sum = sum.get_mut();
                sum.value = sum.value.wrapping_add(value);
                sum.timestamp = sum.timestamp.max(timestamp);
                false
            }
        }
    }

    /// Reads of the rows: of the static one, and of the others.
    pub(super) fn commands(&self) -> impl Iterator<Item = ReadCommand> + use<> {
        let of_static = (!self.of_static.sums.is_empty()).then_some(None);
        let places = of_static.into_iter().chain(self.of_rows.keys().copied().map(Some));
        reads_of(&self.mutation, places.collect(), self.now_s)
    }

    /// By how many microseconds later than they say the changes have to be written, once all is read.
    pub(super) fn delay_us(&mut self) -> Result<i64> {
        match self.refused.take() {
            Some(refused) => Err(refused),
            None if planted(Bug::CounterKeepsTime) => Ok(0),
            None => delay_us(self.timestamp, self.newest),
        }
    }

    fn put(&self, delay_us: i64, out: &mut Vec<u8>) {
        let MutationRef { table, token, key, .. } = self.mutation;
        let mut mutation = MutationBuilder::begin(out, table, token, key);
        if !self.of_static.sums.is_empty() {
            mutation.static_row(|out| put_row(&self.of_static, delay_us, out));
        }
        for (clustering, sums) in &self.of_rows {
            mutation.row(clustering, |out| put_row(sums, delay_us, out));
        }
        mutation.finish();
    }

    /// Adds what a row has.
    fn take_row(&mut self, clustering: Option<&[u8]>, row: RowRef<'_>) {
        let sums = match clustering {
            None => Some(&mut self.of_static),
            Some(clustering) => self.of_rows.get_mut(clustering),
        };
        let Some(sums) = sums.filter(|_| !planted(Bug::CounterForgets)) else { return };
        if std::mem::replace(&mut sums.is_read, true) {
            return;
        }
        for cell in row.cells() {
            let Some(sum) = sums.sums.get_mut(&cell.column) else { continue };
            match cell.value.try_into().map(i64::from_be_bytes) {
                Ok(value) => sum.value = sum.value.wrapping_add(value),
                Err(_) => {
                    let text = "A counter that is changed has a value that is no number of 8 bytes";
                    self.refused = Some(Error::invalid(text));
                }
            }
        }
    }
}

impl RowSink for Sums<'_> {
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

    fn wants_passed(&self) -> bool {
        true
    }

    fn passes(&mut self, stored: Option<RowRef<'_>>, covering: Deletion) {
        let newest = stored.and_then(|row| row.timestamps()).map(|(newest, _)| newest);
        self.newest = self.newest.max(covering.timestamp).max(newest.unwrap_or(i64::MIN));
    }
}

fn put_row(sums: &SumsOfRow, delay_us: i64, out: &mut Vec<u8>) {
    let later = |timestamp: i64| timestamp.saturating_add(delay_us);
    let newest = sums.sums.values().map(|sum| later(sum.timestamp)).max().unwrap_or_default();
    let mut row = RowBuilder::begin(out, &RowHead::bare(newest));
    for (column, Sum { value, timestamp }) in &sums.sums {
        row.cell(&Cell::live(*column, later(*timestamp), &value.to_be_bytes()));
    }
}
