//! RESULT: Void, Rows (its frame and metadata), SetKeyspace, Prepared, SchemaChange.
//!
//! 1. All kinds but Rows are one call that appends a whole frame.
//! 2. Rows are opened, filled and closed: `open_rows` writes the metadata and a row count of 0; then the caller appends
//!    rows to the same buffer; `close` sets the count, puts the paging state into the metadata, and sets the length of
//!    the frame. `abandon` cuts the buffer back to where the frame began.
//!
//! Invariant: between `open_rows` and `close` only cells are appended, each as `[bytes]`, row by row.
//!
//! Not here: the metadata (`metadata.rs`), types in it (`option.rs`), the rows (`rows/encoder.rs`), the frame around
//! the message (`frame/response.rs`).

use super::super::header::{Opcode, Version};
use super::super::writer;
use super::event::SchemaEvent;
use super::metadata::{Columns, insert_paging_state, put_prepared_metadata, put_rows_metadata};
use super::{Envelope, Open};

/// A RESULT that is nothing but its kind.
pub const VOID: i32 = 1;
/// A RESULT with rows.
pub const ROWS: i32 = 2;
/// A RESULT that says which keyspace is now in use.
pub const SET_KEYSPACE: i32 = 3;
/// A RESULT that describes a prepared statement.
pub const PREPARED: i32 = 4;
/// A RESULT that says what changed in the schema.
pub const SCHEMA_CHANGE: i32 = 5;

/// What PREPARED says of a statement.
#[derive(Debug, Clone, Copy)]
pub struct PreparedResult<'a> {
    /// The id by which EXECUTE names the statement.
    pub id: &'a [u8],
    /// Which result metadata is meant (v5).
    pub result_metadata_id: &'a [u8],
    /// The bind markers.
    pub markers: &'a Columns,
    /// Which markers are the partition key, in key order; empty if the key is not all bound (v4).
    pub key_indexes: &'a [u16],
    /// The columns of the result; `None` if the statement has no rows.
    pub result: Option<&'a Columns>,
    /// Whether the client is told that this is a conditional write ([`LWT_MARK`](super::metadata::LWT_MARK)).
    pub is_marked: bool,
}

/// How a Rows answer describes its columns.
#[derive(Debug, Clone, Copy)]
pub enum Description<'a> {
    /// Column by column.
    Full,
    /// Not at all: the client knows (skip_metadata).
    Skipped,
    /// Column by column, under a new id: what the client remembers is old (v5).
    Changed(&'a [u8]),
}

impl Envelope<'_> {
    /// Appends a RESULT of kind Void.
    #[inline]
    pub fn put_void(&self, out: &mut Vec<u8>) {
        self.put(Opcode::Result, out, |out| writer::int(out, VOID));
    }

    /// Appends a RESULT of kind SetKeyspace.
    pub fn put_set_keyspace(&self, keyspace: &str, out: &mut Vec<u8>) {
        self.put(Opcode::Result, out, |out| {
            writer::int(out, SET_KEYSPACE);
            writer::string(out, keyspace);
        });
    }

    /// Appends a RESULT of kind SchemaChange.
    pub fn put_schema_change(&self, event: &SchemaEvent<'_>, out: &mut Vec<u8>) {
        self.put(Opcode::Result, out, |out| {
            writer::int(out, SCHEMA_CHANGE);
            event.put(self.version, out);
        });
    }

    /// Appends a RESULT of kind Prepared.
    pub fn put_prepared(&self, prepared: &PreparedResult<'_>, out: &mut Vec<u8>) {
        self.put(Opcode::Result, out, |out| {
            writer::int(out, PREPARED);
            writer::short_bytes(out, prepared.id);
            if self.version >= Version::V5 {
                writer::short_bytes(out, prepared.result_metadata_id);
            }
            put_prepared_metadata(self.version, prepared, out);
            match prepared.result {
                Some(columns) => put_rows_metadata(columns, Description::Full, out),
                None => put_rows_metadata(&Columns::none(), Description::Skipped, out),
            }
        });
    }

    /// The beginning of RESULT Rows: kind, metadata, and space for the row count. The rows follow.
    pub fn open_rows(
        &self,
        columns: &Columns,
        description: Description<'_>,
        out: &mut Vec<u8>,
    ) -> OpenRows {
        let frame = self.open(Opcode::Result, out);
        writer::int(out, ROWS);
        let metadata_at = out.len();
        put_rows_metadata(columns, description, out);
        let count_at = out.len();
        writer::int(out, 0);
        OpenRows { frame, metadata_at, count_at }
    }
}

/// A RESULT Rows that is being filled: each row is its cells as `[bytes]`, appended to the same
/// buffer.
#[derive(Debug)]
#[must_use = "rows are not an answer before they are closed"]
pub struct OpenRows {
    frame: Open,
    metadata_at: usize,
    count_at: usize,
}

impl OpenRows {
    /// Ends the answer: how many rows were appended, and where the next page begins, if there is
    /// one.
    pub fn close(self, row_count: u32, paging_state: Option<&[u8]>, out: &mut Vec<u8>) {
        let rows = i32::try_from(row_count).expect("a page has fewer than 2^31 rows");
        out[self.count_at..self.count_at + 4].copy_from_slice(&rows.to_be_bytes());
        if let Some(state) = paging_state {
            insert_paging_state(out, self.metadata_at, state);
        }
        self.frame.close(out);
    }

    /// Drops what was written, so that another answer can take its place.
    pub fn abandon(self, out: &mut Vec<u8>) {
        self.frame.abandon(out);
    }
}
