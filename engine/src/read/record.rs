//! A table that is made of records and holds nothing else: how a read sees rows that are computed.
//!
//! Not here: what is computed (`server/src/execute/computed.rs`).

use model::mutation::MutationRef;
use model::read::{ReadCommand, ReadEnd, RowSink};
use model::schema;

use super::page::Page;
use super::{LookupPolicy, Read, Scratch, WaitPolicy, no_pause, without_waiting};
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::table::Table;

/// See the module.
#[derive(Debug)]
pub struct RecordTable {
    table: Table,
}

impl RecordTable {
    /// A table without rows.
    pub fn new(definition: &schema::Table) -> RecordTable {
        RecordTable { table: Table::of_memtable(Memtable::default(), definition) }
    }

    /// Adds the mutations of a record, which are of this table.
    pub fn insert(&self, record: &[u8]) -> Result<()> {
        let layers = self.table.layers();
        let mut memtable = layers[0].memtable.borrow_mut();
        for mutation in MutationRef::of_trusted_record(record) {
            memtable.insert(&mutation.map_err(|error| Error::invalid(error.to_string()))?);
        }
        Ok(())
    }

    /// Bytes that the rows take.
    pub fn bytes(&self) -> usize {
        self.table.layers()[0].memtable.borrow().bytes()
    }

    /// Reads a page, and awaits `pause` when it has worked for a while.
    pub async fn read(
        &self,
        command: &ReadCommand,
        sink: &mut dyn RowSink,
        pause: impl AsyncFn(),
    ) -> Result<ReadEnd> {
        let (definition, drops) = (self.table.definition(), self.table.drops());
        let wait_policy = WaitPolicy::Endless;
        let mut page = Page::new(command, &definition, &drops, sink, (wait_policy, &pause));
        let read = Read {
            table: &self.table,
            definition: &definition,
            drops: &drops,
            command,
            wait_policy,
            overlays: Vec::new(),
            lookup_policy: LookupPolicy::Never,
            turns: None,
        };
        read.run(&mut page, &mut Scratch::default()).await?;
        Ok(page.end())
    }

    /// Reads a page in one step. Through `dyn`, also inside a pass: its rows are few.
    pub fn read_at_once(&self, command: &ReadCommand, sink: &mut dyn RowSink) -> Result<ReadEnd> {
        without_waiting(self.read(command, sink, no_pause))
    }
}

/// Reads from the mutations of one record as from a table that holds nothing else.
pub fn read_record(
    definition: &schema::Table,
    record: &[u8],
    command: &ReadCommand,
    sink: &mut dyn RowSink,
) -> Result<ReadEnd> {
    let table = RecordTable::new(definition);
    table.insert(record)?;
    table.read_at_once(command, sink)
}
