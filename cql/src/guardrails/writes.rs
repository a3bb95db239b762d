//! The guardrails of INSERT, UPDATE, DELETE and batches: levels, timestamps, and the values that are written.
//!
//! Values are looked at in the record that was bound: what is written counts, and not what is there already. Sizes are
//! counted as Cassandra does: a cell of a collection is its value, its path and 20 bytes.
//!
//! 1. `check_write` and `check_batch` look at the statement: a timestamp of the user's, how far it is from now, changes
//!    of lists that read before they write.
//! 2. `check_write_levels` looks at the consistency level, and at the serial level.
//! 3. `check_values` walks the bound record: each row, each cell. Cells of one column stand together, so a collection
//!    is added up as its cells come.
//! 4. `check_disk` looks at how full the disk is.
//!
//! A check adds a warning, or refuses the write with the first violation.
//!
//! Not here: the thresholds and their settings (`guardrails.rs`), the words (`list.rs`), reads (`reads.rs`), where
//! these checks are called (`server/src/execute/write.rs`, `server/src/execute/guarded.rs`), limits that cannot be set
//! (`limits.rs`).

use std::sync::Arc;

use model::cell::Life;
use model::mutation::ListOp;
use model::row::{Cell, RowRef};
use model::schema::Column;
use model::{CqlType, MutationRef, Table, TableId};

use super::{Guardrail, Guardrails, Watched};
use crate::bind::Bindings;
use crate::error::Result;
use crate::frame::consistency::Consistency;
use crate::plan::{BatchPlan, ListOpPlan, WritePlan};

/// What Cassandra counts of a cell beside its value and its path.
const CELL_BYTES: usize = 20;
/// The bytes of a list's path there, a time UUID.
const LIST_PATH_BYTES: usize = 16;
/// The bytes of the path of a field there.
const FIELD_PATH_BYTES: usize = 2;

/// The cells of one collection that a statement writes.
#[derive(Default)]
struct Collected {
    items: usize,
    bytes: usize,
}

impl Guardrails {
    /// Looks at the text of a write.
    pub fn check_write_text(&self, plan: &WritePlan, warnings: &mut Vec<String>) -> Result<()> {
        match plan.timestamp {
            Some(_) => self.allow(Guardrail::UserTimestamps, warnings),
            None => Ok(()),
        }
    }

    /// Looks at the text of a batch.
    pub fn check_batch_text(&self, plan: &BatchPlan, warnings: &mut Vec<String>) -> Result<()> {
        if plan.timestamp.is_some() {
            self.allow(Guardrail::UserTimestamps, warnings)?;
        }
        plan.writes.iter().try_for_each(|write| self.check_write_text(write, warnings))
    }

    /// Looks at the levels of a write; Cassandra takes SERIAL where no serial level is given.
    pub fn check_write_levels(
        &self,
        level: Consistency,
        serial: Option<Consistency>,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let levels = [level, serial.unwrap_or(Consistency::Serial)];
        self.levels(Guardrail::WriteConsistencyLevels, &levels, warnings)
    }

    /// Looks at the text and the timestamp of a write. `now_us` is the time, in microseconds.
    pub fn check_write(
        &self,
        plan: &WritePlan,
        bindings: &Bindings<'_>,
        now_us: i64,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        self.check_write_text(plan, warnings)?;
        if plan.timestamp.is_some() {
            let at = plan.timestamp_us(bindings)?;
            self.check_timestamp(&plan.table, at, now_us, warnings)?;
        }
        let feature = |op: &ListOpPlan| match op {
            ListOpPlan::Set(..) => {
                Some("Setting of list items by index requiring read before write")
            }
            ListOpPlan::Delete(_) => {
                Some("Removal of list items by index requiring read before write")
            }
            ListOpPlan::Discard(_) => Some("Removal of list items requiring read before write"),
            ListOpPlan::Add(..) | ListOpPlan::Clear | ListOpPlan::Grow(_) => None,
        };
        let ops = plan.static_lists.iter().chain(&plan.row_lists).map(|write| &write.op);
        for feature in ops.filter_map(feature) {
            self.allow_as(Guardrail::ReadBeforeWriteListOperations, feature, warnings)?;
        }
        Ok(())
    }

    /// Looks at a batch that is one statement.
    pub fn check_batch(
        &self,
        plan: &BatchPlan,
        bindings: &Bindings<'_>,
        now_us: i64,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        if plan.timestamp.is_some() {
            self.allow(Guardrail::UserTimestamps, warnings)?;
            // Binding has put the timestamp of the whole there.
            for write in &plan.writes {
                let at = bindings.time.timestamp_us;
                self.check_timestamp(&write.table, at, now_us, warnings)?;
            }
        }
        plan.writes.iter().try_for_each(|write| self.check_write(write, bindings, now_us, warnings))
    }

    fn check_timestamp(
        &self,
        table: &Table,
        at: i64,
        now_us: i64,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        for bound in [Guardrail::MaximumTimestamp, Guardrail::MinimumTimestamp] {
            self.check_from(bound, (at, now_us), &table.name, warnings)?;
        }
        Ok(())
    }

    /// Looks at how full the disk is, where a write goes.
    pub fn check_disk(&self, used_percent: u8, warnings: &mut Vec<String>) -> Result<()> {
        self.check(Guardrail::ReplicaDiskUsage, used_percent.into(), "", warnings)
    }

    /// Looks at the values of a record that was bound here.
    pub fn check_values<'s>(
        &self,
        record: &[u8],
        watched: Watched,
        table: impl Fn(TableId) -> Option<&'s Arc<Table>>,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        if !watched.has_of_values() {
            return Ok(());
        }
        for mutation in MutationRef::of_trusted_record(record) {
            let mutation = mutation?;
            // A table that was dropped meanwhile: the write is going to be refused.
            let Some(table) = table(mutation.table) else { continue };
            let rows = mutation.rows().map(|(_, row)| row);
            for row in mutation.static_row.into_iter().chain(rows) {
                self.check_row(table, row, warnings)?;
            }
            for change in mutation.list_changes() {
                let value = match change.op {
                    ListOp::Set { value: Some(value), .. } | ListOp::Add { value, .. } => value,
                    _ => continue,
                };
                if let Some(column) = table.column_by_id(change.column) {
                    self.check_value(column, value.len(), warnings)?;
                }
            }
        }
        Ok(())
    }

    fn check_row(&self, table: &Table, row: RowRef<'_>, warnings: &mut Vec<String>) -> Result<()> {
        let mut cells = row.cells().filter(|cell| !cell.whole).peekable();
        let mut scratch = Vec::new();
        while let Some(first) = cells.next() {
            let Some(column) = table.column_by_id(first.column) else { continue };
            let mut collected = Collected::default();
            self.check_cell(column, &first, &mut collected, &mut scratch, warnings)?;
            while let Some(next) = cells.next_if(|next| next.column == column.id) {
                self.check_cell(column, &next, &mut collected, &mut scratch, warnings)?;
            }
            if collected.items > 0 {
                let Collected { items, bytes } = collected;
                self.check(Guardrail::ItemsPerCollection, items as i64, &column.name, warnings)?;
                self.check(Guardrail::CollectionSize, bytes as i64, &column.name, warnings)?;
            }
        }
        Ok(())
    }

    fn check_cell(
        &self,
        column: &Column,
        cell: &Cell<'_>,
        collected: &mut Collected,
        scratch: &mut Vec<u8>,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let is_dead = matches!(cell.life, Life::Dead { .. });
        let value = cell.value.len();
        if cell.path.is_none() {
            if is_dead {
                return Ok(());
            }
            if column.ty.is_collection() {
                collected.items =
                    cell.value.first_chunk().map_or(0, |n| u32::from_be_bytes(*n)) as usize;
                collected.bytes = value + CELL_BYTES;
            }
            return self.check_value(column, value, warnings);
        }
        let element = match &column.ty {
            CqlType::Set { element, .. } => Some(element),
            CqlType::Map { key, .. } => Some(key),
            _ => None,
        };
        let path = match element {
            Some(element) => {
                scratch.clear();
                cell.put_element(element, scratch)?;
                scratch.len()
            }
            None if column.ty.is_collection() => LIST_PATH_BYTES,
            None => FIELD_PATH_BYTES,
        };
        if !is_dead && column.ty.is_collection() {
            collected.items += 1;
            collected.bytes += value + path + CELL_BYTES;
        }
        self.check_value(column, value, warnings)?;
        self.check_value(column, path, warnings)
    }

    fn check_value(&self, column: &Column, bytes: usize, warnings: &mut Vec<String>) -> Result<()> {
        self.check(Guardrail::ColumnValueSize, bytes as i64, &column.name, warnings)
    }
}
