//! What the truncations of a table are to writes that read first: such a write is done before one, or after it.
//!
//! ```text
//! turn ─► is a truncation under way? ─► yes: it is given back, and waits in its queue
//!      └► no: reads ─► has one begun since? ─► yes: once more
//!                   └► no: log. A truncation that begins now takes the record, too
//! ```
//!
//! 1. A truncation says that it begins, waits for all that the log has, and only then decides what goes. Behind a
//!    snapshot it says so before the flush, so that the snapshot has all that was written from what it has.
//! 2. A record that has read and waits for space is refused if a truncation has begun meanwhile: what it was made of
//!    goes, and what it says would stay.
//! 3. So is one that was made for other materialized views than the table has now, and a turn that is under way reads
//!    once more: what it makes has rows of all of them.
//! 4. One whose commit fails in a way that may have made it durable never ends in this life.
//!
//! Not here: what goes (`remove.rs`), to where behind a snapshot (`cut.rs`).

use std::cell::Cell;

use model::{MutationRef, TableId};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::table::Table;

/// The truncations of a table.
#[derive(Debug, Default)]
pub(crate) struct Truncations {
    /// How many ever began.
    begun: Cell<u64>,
    /// How often the table's materialized views became other ones.
    views_changed: Cell<u64>,
    underway: Cell<u32>,
    /// One is to come behind a snapshot that is taken.
    announced: Cell<bool>,
    /// How often the writes of the table are held.
    held: Cell<u32>,
}

impl Truncations {
    fn is_underway(&self) -> bool {
        self.underway.get() > 0 || self.announced.get() || self.held.get() > 0
    }

    /// The table has other materialized views now.
    pub(crate) fn has_other_views(&self) {
        self.views_changed.set(self.views_changed.get() + 1);
    }

    fn count(&self) {
        self.begun.set(self.begun.get() + 1);
    }
}

/// A truncation that is under way, until this is dropped.
#[must_use]
pub(crate) struct Truncating<'e> {
    engine: &'e Engine,
    table: &'e Table,
}

impl Truncating<'_> {
    /// It has ended with this error. Where only the next start can say whether it was done, it is under way until then:
    /// what a write would read may be gone.
    pub(crate) fn failed(&self, error: &Error) {
        if error.may_be_committed() {
            let underway = &self.table.truncations.underway;
            underway.set(underway.get() + 1);
        }
    }
}

impl Drop for Truncating<'_> {
    fn drop(&mut self) {
        let underway = &self.table.truncations.underway;
        underway.set(underway.get() - 1);
        self.engine.truncation_is_over();
    }
}

impl Engine {
    /// A truncation of the table begins; one that was announced is this one.
    pub(crate) fn begin_truncation<'e>(&'e self, table: &'e Table) -> Truncating<'e> {
        let Truncations { underway, announced, .. } = &table.truncations;
        table.truncations.count();
        underway.set(underway.get() + 1);
        announced.set(false);
        Truncating { engine: self, table }
    }

    /// A table is to be truncated behind a snapshot: until [`truncate_to_cut`](Engine::truncate_to_cut) has done that,
    /// or [`end_cut`](Engine::end_cut) says that it is not, no write of the table that reads first has its turn. Those
    /// that had it are in memory when this returns.
    pub async fn announce_truncation(&self, id: TableId) -> Result<()> {
        let table = self.table(id)?;
        table.truncations.count();
        table.truncations.announced.set(true);
        self.until_applied(self.log.positions().appended).await
    }

    /// The truncation that was announced does not come.
    pub(crate) fn unannounce_truncation(&self, table: &Table) {
        table.truncations.announced.set(false);
        self.truncation_is_over();
    }

    /// The views of a table are to be emptied: until this is [taken back](Engine::release_writes) no write of the table
    /// that reads first has its turn. Those that had it are in memory when this returns. Each call is taken back once.
    pub async fn hold_writes(&self, id: TableId) -> Result<()> {
        let table = self.table(id)?;
        table.truncations.count();
        table.truncations.held.set(table.truncations.held.get() + 1);
        self.until_applied(self.log.positions().appended).await
    }

    /// Takes one [`hold_writes`](Engine::hold_writes) back.
    pub fn release_writes(&self, id: TableId) {
        if let Ok(table) = self.table(id) {
            let held = &table.truncations.held;
            held.set(held.get().saturating_sub(1));
            self.truncation_is_over();
        }
    }

    /// Who waits for a truncation looks again; so does one whose table is gone.
    pub(crate) fn truncation_is_over(&self) {
        self.writes.wake_waiters();
        self.queues.give_again();
    }

    /// Whether the table is being truncated, or is about to be.
    pub fn is_being_truncated(&self, id: TableId) -> bool {
        self.table(id).is_ok_and(|table| table.truncations.is_underway())
    }

    /// Whether a table of a record is being truncated.
    pub(crate) fn is_truncating(&self, record: &[u8]) -> bool {
        self.truncations(record, |truncations| u64::from(truncations.is_underway())) > 0
    }

    /// How many truncations of the tables of a record ever began, and how often their views became other ones.
    pub(crate) fn truncations_begun(&self, record: &[u8]) -> u64 {
        self.truncations(record, |of| of.begun.get() + of.views_changed.get())
    }

    /// How many truncations of a table ever began; 0 of one that is gone.
    pub(crate) fn truncations_of(&self, id: TableId) -> u64 {
        self.tables.by_id().get(&id).map_or(0, |table| table.truncations.begun.get())
    }

    /// The sum over the mutations of a record. A table that is gone counts nothing: writes to it are refused.
    fn truncations(&self, record: &[u8], count: impl Fn(&Truncations) -> u64) -> u64 {
        let tables = self.tables.by_id();
        let of_table = |id: &TableId| tables.get(id).map_or(0, |table| count(&table.truncations));
        let partitions = MutationRef::partitions_of_trusted_record(record).flatten();
        partitions.map(|(table, ..)| of_table(&table)).sum()
    }
}
