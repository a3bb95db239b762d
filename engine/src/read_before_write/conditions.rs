//! The conditions of a record: one read of the rows that they name, and what comes of it.
//!
//! ```text
//! conditions ─► command: their rows, or of static ones alone the partition ─► rows as they are
//!      ─► all hold ─► how much later the record has to be written than it says
//!      └► one does not ─► the rows, as a mutation: what the client is answered
//! ```
//!
//! 1. What is written is newer than all that was read, tombstones included: a write that is told to be applied can be
//!    read, whatever timestamps clients have chosen before. Those of Cassandra and ScyllaDB may lose to such.
//! 2. Of a row no more is kept than the columns that are compared or come back.
//!
//! Not here: how a condition is judged (`model/src/condition.rs`).

use std::collections::{BTreeMap, BTreeSet};

use model::condition::{Condition, Conditions, Test};
use model::limits::CONDITIONS_MAX;
use model::mutation::{MutationBuilder, MutationRef};
use model::read::{Limits, PartitionRef, Partitions, ReadCommand, Slice};
use model::row::{Cell, RowBuilder};
use model::{ColumnId, Deletion, Flow, RowRef, RowSink, Table};

use super::held::Held;
use super::rows::delay_us;
use crate::error::{Error, Result};
use crate::limits::{CONDITION_CELLS_MAX, CONDITION_ROWS_BYTES_MAX, CONDITION_TOMBSTONES_MAX};
use crate::pause::Pause;

/// The rows that the conditions of a record look at.
pub(super) struct Judged<'m> {
    mutation: MutationRef<'m>,
    conditions: Conditions<'m>,
    table: &'m Table,
    /// The columns that are kept of a row.
    columns: BTreeSet<ColumnId>,
    static_row: Option<Vec<u8>>,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    cells: usize,
    /// What the rows take in memory.
    held: Held<'m>,
    /// The newest timestamp of all that was read.
    newest: i64,
    refused: Option<Error>,
}

impl<'m> Judged<'m> {
    /// The conditions of a mutation, before the rows are read; `Invalid` if there are too many.
    pub(super) fn of(
        mutation: &MutationRef<'m>,
        conditions: Conditions<'m>,
        table: &'m Table,
        held: Held<'m>,
    ) -> Result<Judged<'m>> {
        if conditions.iter().nth(CONDITIONS_MAX).is_some() {
            return Err(Error::invalid(format!(
                "A statement or batch has more than {CONDITIONS_MAX} conditions: use several"
            )));
        }
        let tested = conditions.iter().filter_map(|condition| match condition.test {
            Test::Column(test) => Some(test.column),
            Test::Exists | Test::NotExists => None,
        });
        let all = table.columns().iter().filter(|column| conditions.wanted.all_of(column.kind));
        Ok(Judged {
            mutation: *mutation,
            conditions,
            table,
            columns: all.map(|column| column.id).chain(tested).collect(),
            static_row: None,
            rows: BTreeMap::new(),
            cells: 0,
            held,
            newest: i64::MIN,
            refused: None,
        })
    }

    /// The read of the rows and of the static row. Where only the static row is looked at: also whether there is a row,
    /// as the answer tells a partition without static values from one that is not there.
    pub(super) fn command(&self) -> ReadCommand {
        let rows: BTreeSet<&[u8]> =
            self.conditions.iter().filter_map(|one| one.clustering).collect();
        let (is_static, token) = (rows.is_empty(), self.mutation.token);
        let slices = match is_static {
            true => vec![Slice::all()],
            false => rows.into_iter().map(|row| Slice::row(row.to_vec())).collect(),
        };
        ReadCommand {
            table: self.mutation.table,
            partitions: Partitions::Keys(vec![(token, self.mutation.key.into())]),
            slices,
            reversed: false,
            static_alone: true,
            distinct: is_static,
            filters: Vec::new(),
            lookups: Vec::new(),
            nearest: None,
            // Rows are named, but where the static row alone is.
            limits: match is_static {
                true => Limits { tombstones: CONDITION_TOMBSTONES_MAX, ..Limits::none(u64::MAX) },
                false => Limits::none(u64::MAX),
            },
            resume: None,
            now_s: self.conditions.now_s,
        }
    }

    /// By how many microseconds later than it says the record has to be written; `NotApplied` with the rows if a
    /// condition does not hold.
    pub(super) async fn judge(mut self, pause: &dyn Pause) -> Result<i64> {
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        let mut conditions: Vec<Condition<'_>> = self.conditions.iter().collect();
        // As in Cassandra, of which a comparison with null ends the walk: the static row, then row by row.
        conditions.sort_by_key(|condition| condition.clustering);
        for condition in conditions {
            let holds = condition.holds(self.table, self.row(&condition));
            if !holds.map_err(|error| Error::invalid(error.to_string()))? {
                return Err(Error::NotApplied { found: self.found().into() });
            }
            // A row may have many cells, and conditions may be many.
            pause.take().await;
        }
        delay_us(self.conditions.timestamp, self.newest)
    }

    fn row(&self, condition: &Condition<'_>) -> Option<RowRef<'_>> {
        let row = match condition.clustering {
            None => self.static_row.as_ref(),
            Some(clustering) => self.rows.get(clustering),
        };
        row.map(|row| RowRef::trusted(row))
    }

    /// The rows as a mutation.
    fn found(&self) -> Vec<u8> {
        let MutationRef { table, token, key, .. } = self.mutation;
        let mut out = Vec::new();
        let mut mutation = MutationBuilder::begin(&mut out, table, token, key);
        let has_cells = |row: &&Vec<u8>| RowRef::trusted(row).cells().next().is_some();
        if let Some(row) = self.static_row.as_ref().filter(has_cells) {
            mutation.static_row(|out| out.extend_from_slice(row));
        }
        for (clustering, row) in &self.rows {
            mutation.row(clustering, |out| out.extend_from_slice(row));
        }
        mutation.finish();
        out
    }

    /// Keeps what is needed of a row.
    fn keep(&mut self, row: RowRef<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        let mut kept = RowBuilder::begin(&mut out, &row.head());
        if let Some(written) = row.written() {
            kept.written(written);
        }
        let mut cells = 0;
        let is_kept = |cell: &Cell<'_>| self.columns.contains(&cell.column);
        for cell in row.cells().filter(is_kept).take(CONDITION_CELLS_MAX + 1) {
            cells += 1;
            kept.cell(&cell);
        }
        self.cells += cells;
        let is_too_much = self.cells > CONDITION_CELLS_MAX
            || self.held.bytes() + out.len() > CONDITION_ROWS_BYTES_MAX;
        let held = match is_too_much {
            true => Err(Error::invalid(format!(
                "The rows that a condition looks at have more than {CONDITION_CELLS_MAX} cells or {CONDITION_ROWS_BYTES_MAX} bytes of what is compared or comes back"
            ))),
            false => self.held.add(out.len()),
        };
        if let Err(refused) = held {
            self.refused.get_or_insert(refused);
            return Vec::new();
        }
        out
    }
}

impl RowSink for Judged<'_> {
    fn row(
        &mut self,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Flow {
        if let (None, Some(row)) = (&self.static_row, partition.static_row) {
            self.static_row = Some(self.keep(row));
        }
        if let (Some(clustering), Some(row)) = (clustering, row) {
            let row = self.keep(row);
            self.rows.insert(clustering.to_vec(), row);
        }
        if self.refused.is_some() { Flow::Enough } else { Flow::More }
    }

    fn wants_passed(&self) -> bool {
        true
    }

    fn passes(&mut self, stored: Option<RowRef<'_>>, covering: Deletion) {
        let newest = stored.and_then(|row| row.timestamps()).map(|(newest, _)| newest);
        self.newest = self.newest.max(covering.timestamp).max(newest.unwrap_or(i64::MIN));
    }
}
