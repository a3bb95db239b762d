//! What the outbox writes down of a batch: a row of `system.batches`, in the shard that has the row's token.
//!
//! ```text
//! id timeuuid ─► mutations list<blob>: one element a mutation, path = its number   version int: the form of the blobs
//! forgotten: a deletion of the partition with the row's own timestamp
//! ```
//!
//! The bytes of a mutation are those of the log (`model/src/mutation.rs`).

use engine::{Engine, Result};
use model::bytes::{Cursor, put_bytes};
use model::mutation::{MutationBuilder, MutationRef};
use model::read::{Flow, Limits, PartitionRef, Partitions, ReadCommand, Resume, RowSink, Slice};
use model::row::{Cell, RowBuilder, RowHead, RowRef};
use model::{ColumnId, Deletion, Schema, TableId, Token, TokenRange};
use uuid::Uuid;

use crate::limits::PIECE_BYTES;

/// The form of mutations that this build writes.
const VERSION: i32 = 1;

/// A batch that is written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The name of the batch: a timeuuid.
    pub id: Uuid,
    /// When it was written, in microseconds since 1970.
    pub timestamp_us: i64,
    /// All of its mutations, as a record.
    pub mutations: Vec<u8>,
}

impl Note {
    /// The token of the note's own row.
    pub fn token(&self) -> Token {
        Token::of_key(self.id.as_bytes())
    }
}

/// The table of the notes.
#[derive(Clone, Copy, Debug)]
pub struct BatchesTable {
    id: TableId,
    mutations: ColumnId,
    version: ColumnId,
}

/// A page of notes, and where the next begins.
#[derive(Debug)]
pub struct Notes {
    /// The notes of the page.
    pub notes: Vec<Note>,
    /// Why rows of the page are no notes: they stay as they are.
    pub unreadable: Vec<String>,
    /// Where the next page begins, if there is one.
    pub more: Option<Resume>,
}

impl BatchesTable {
    /// The table as a schema has it.
    pub fn of(schema: &Schema) -> Option<BatchesTable> {
        let table = schema.table("system", "batches")?;
        let column = |name| table.column(name).map(|column| column.id);
        let (mutations, version) = (column("mutations")?, column("version")?);
        Some(BatchesTable { id: table.id, mutations, version })
    }

    /// The record that notes a batch.
    pub fn noted(&self, note: &Note) -> Vec<u8> {
        let mut out = Vec::with_capacity(note.mutations.len() * 5 / 4 + 64);
        let mut row = MutationBuilder::begin(&mut out, self.id, note.token(), note.id.as_bytes());
        row.row(&[], |out| {
            let mut row = RowBuilder::begin(out, &RowHead::bare(note.timestamp_us));
            let mut cursor = Cursor::new(&note.mutations);
            for number in 0u32.. {
                if cursor.is_empty() {
                    break;
                }
                let path = number.to_be_bytes();
                let mutation = cursor.bytes().expect("a record was checked");
                let cell = Cell::live(self.mutations, note.timestamp_us, mutation);
                row.cell(&Cell { path: Some(&path), ..cell });
            }
            row.cell(&Cell::live(self.version, note.timestamp_us, &VERSION.to_be_bytes()));
        });
        row.finish();
        out
    }

    /// The record that forgets a batch.
    pub(super) fn forgotten(&self, note: &Note) -> Vec<u8> {
        let mut out = Vec::new();
        let mut row = MutationBuilder::begin(&mut out, self.id, note.token(), note.id.as_bytes());
        let local_s = u32::try_from(note.timestamp_us / 1_000_000).unwrap_or(0);
        row.delete_partition(Deletion { timestamp: note.timestamp_us, local_s });
        row.finish();
        out
    }

    /// The notes that a shard has, page by page.
    pub async fn read(
        &self,
        engine: &Engine,
        resume: Option<Resume>,
        now_s: u32,
        pause: impl AsyncFn(),
    ) -> Result<Notes> {
        let command = ReadCommand {
            table: self.id,
            partitions: Partitions::Range(TokenRange::ALL),
            slices: vec![Slice::all()],
            reversed: false,
            static_alone: false,
            distinct: false,
            filters: Vec::new(),
            lookups: Vec::new(),
            nearest: None,
            limits: Limits::none(PIECE_BYTES),
            resume,
            now_s,
        };
        let mut rows = Rows { table: self, notes: Vec::new(), unreadable: Vec::new() };
        let end = engine.read(&command, &mut rows, pause).await?;
        Ok(Notes { notes: rows.notes, unreadable: rows.unreadable, more: end.more })
    }
}

/// Makes notes of rows.
struct Rows<'t> {
    table: &'t BatchesTable,
    notes: Vec<Note>,
    /// Why rows are no notes.
    unreadable: Vec<String>,
}

impl Rows<'_> {
    fn note(&self, key: &[u8], row: RowRef<'_>) -> std::result::Result<Note, String> {
        let id = Uuid::from_slice(key)
            .map_err(|error| format!("a key is no name of a batch: {error}"))?;
        let (mut timestamp_us, mut mutations) = (i64::MIN, Vec::new());
        for cell in row.cells() {
            timestamp_us = timestamp_us.max(cell.timestamp);
            if cell.column == self.table.version && cell.value != VERSION.to_be_bytes() {
                return Err(format!("batch {id} is in a form that this build does not know"));
            }
            if cell.column == self.table.mutations {
                MutationRef::checked(cell.value).map_err(|error| format!("batch {id}: {error}"))?;
                put_bytes(&mut mutations, cell.value);
            }
        }
        Ok(Note { id, timestamp_us, mutations })
    }
}

impl RowSink for Rows<'_> {
    fn row(&mut self, p: &PartitionRef<'_>, _: Option<&[u8]>, row: Option<RowRef<'_>>) -> Flow {
        let Some(row) = row else { return Flow::More };
        match self.note(p.key, row) {
            Ok(note) => self.notes.push(note),
            Err(what) => self.unreadable.push(what),
        }
        Flow::More
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: BatchesTable = BatchesTable {
        id: TableId(Uuid::from_u128(1)),
        mutations: ColumnId(1),
        version: ColumnId(2),
    };

    fn row_of(record: &[u8]) -> (MutationRef<'_>, RowRef<'_>) {
        let mutation = MutationRef::of_record(record).next().expect("one").expect("sound");
        (mutation, mutation.rows().next().expect("a row").1)
    }

    /// Before: one row that no build can read ended the reading of all notes of its shard, at each start.
    #[test]
    fn a_row_that_is_no_note_is_named_and_the_others_are_read() {
        let mut mutation = Vec::new();
        MutationBuilder::begin(&mut mutation, TABLE.id, Token(7), b"k").finish();
        let note = Note { id: Uuid::from_u128(5), timestamp_us: 9, mutations: mutation };
        let sound = TABLE.noted(&note);
        let other = BatchesTable { mutations: ColumnId(2), version: ColumnId(3), ..TABLE };
        let strange = other.noted(&note);
        let mut rows = Rows { table: &TABLE, notes: Vec::new(), unreadable: Vec::new() };
        for (record, key) in [(&strange, None), (&sound, Some(&b"no"[..])), (&sound, None)] {
            let (mutation, row) = row_of(record);
            let (token, key) = (mutation.token, key.unwrap_or(mutation.key));
            let partition = PartitionRef { token, key, static_row: None };
            assert_eq!(rows.row(&partition, Some(&[]), Some(row)), Flow::More);
        }
        // Lengths in front of mutations may be written in another form.
        let read: Vec<_> = rows.notes.iter().map(|note| (note.id, note.timestamp_us)).collect();
        assert_eq!(read, [(note.id, note.timestamp_us)]);
        assert_eq!(rows.unreadable.len(), 2, "{:?}", rows.unreadable);
        assert!(rows.unreadable[0].starts_with("batch 00000000-"), "{:?}", rows.unreadable);
        assert!(rows.unreadable[1].starts_with("a key is no name"), "{:?}", rows.unreadable);
    }
}
