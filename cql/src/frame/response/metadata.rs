//! The description of columns: of a result's, and of a prepared statement's markers.
//!
//! ```text
//!  rows      flags  [int] columns  [bytes] paging state?  [short bytes] new id?         specs?
//!  prepared  flags  [int] columns  [int] n, n × [short] key marker (v4 and later)       specs
//!  specs     [string] keyspace, [string] table if global, then for each column
//!            ([string] keyspace, [string] table if not global) [string] name [option] type
//! ```
//!
//! The specs are encoded once, when a statement is prepared ([`Columns`]); answering copies them.

use model::types::CqlType;

use super::super::header::Version;
use super::super::writer;
use super::option::put_type;
use super::result::{Description, PreparedResult};

/// All columns are of one table, which is named once.
pub(in super::super) const GLOBAL_TABLE: i32 = 0x0001;
/// There is another page, and a paging state to ask for it.
pub(in super::super) const MORE_PAGES: i32 = 0x0002;
/// The columns are counted and not described.
pub(in super::super) const NO_METADATA: i32 = 0x0004;
/// A new result metadata id is in the answer.
pub(in super::super) const METADATA_CHANGED: i32 = 0x0008;
/// The prepared statement is a conditional write: ScyllaDB's extension of the protocol, for clients that ask for it.
pub const LWT_MARK: i32 = i32::MIN;

/// One column to describe.
#[derive(Debug, Clone, Copy)]
pub struct ColumnSpec<'a> {
    /// Keyspace of the column's table.
    pub keyspace: &'a str,
    /// Table of the column.
    pub table: &'a str,
    /// The name of the column or marker.
    pub name: &'a str,
    /// Type of the column's values.
    pub ty: &'a CqlType,
}

/// Columns described in the bytes of one protocol version (types differ between versions).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    count: i32,
    global: bool,
    specs: Box<[u8]>,
}

impl Columns {
    /// The description of a result without columns.
    pub fn none() -> Columns {
        Columns { count: 0, global: false, specs: Box::default() }
    }

    /// Encodes the description of `columns` for `version`.
    pub fn encode(version: Version, columns: &[ColumnSpec<'_>]) -> Columns {
        Columns::encode_within(version, columns, usize::MAX).expect("nothing bounds it")
    }

    /// Encodes the description of `columns` for `version`; `None` if it takes more bytes than this and a column.
    pub fn encode_within(
        version: Version,
        columns: &[ColumnSpec<'_>],
        bytes_max: usize,
    ) -> Option<Columns> {
        let mut specs = Vec::with_capacity(columns.len() * 16);
        let place = columns.first().map(|c| (c.keyspace, c.table));
        let global = columns.iter().all(|c| Some((c.keyspace, c.table)) == place);
        if let Some((keyspace, table)) = place
            && global
        {
            writer::string(&mut specs, keyspace);
            writer::string(&mut specs, table);
        }
        for column in columns {
            if !global {
                writer::string(&mut specs, column.keyspace);
                writer::string(&mut specs, column.table);
            }
            writer::string(&mut specs, column.name);
            put_type(version, column.ty, &mut specs);
            if specs.len() > bytes_max {
                return None;
            }
        }
        let count = writer::length(columns.len());
        Some(Columns { count, global: global && count > 0, specs: specs.into() })
    }

    /// The number of columns.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The specs as they are sent: what a result metadata id is the hash of.
    pub fn specs(&self) -> &[u8] {
        &self.specs
    }

    fn flags(&self) -> i32 {
        if self.global { GLOBAL_TABLE } else { 0 }
    }
}

pub(super) fn put_rows_metadata(
    columns: &Columns,
    description: Description<'_>,
    out: &mut Vec<u8>,
) {
    let (flags, new_id) = match description {
        Description::Full => (columns.flags(), None),
        Description::Skipped => (NO_METADATA, None),
        Description::Changed(id) => (columns.flags() | METADATA_CHANGED, Some(id)),
    };
    writer::int(out, flags);
    writer::int(out, columns.count);
    if let Some(id) = new_id {
        writer::short_bytes(out, id);
    }
    if flags & NO_METADATA == 0 {
        out.extend_from_slice(&columns.specs);
    }
}

pub(super) fn put_prepared_metadata(
    version: Version,
    prepared: &PreparedResult<'_>,
    out: &mut Vec<u8>,
) {
    let PreparedResult { markers, key_indexes, is_marked, .. } = prepared;
    writer::int(out, markers.flags() | if *is_marked { LWT_MARK } else { 0 });
    writer::int(out, markers.count);
    if version >= Version::V4 {
        writer::int(out, writer::length(key_indexes.len()));
        for index in *key_indexes {
            writer::short(out, *index);
        }
    }
    out.extend_from_slice(&markers.specs);
}

/// Adds the paging state to rows metadata that begins at `metadata_at`.
///
/// It is known only after the rows, which must move to make space: once a page, never for a single
/// row.
pub(super) fn insert_paging_state(out: &mut Vec<u8>, metadata_at: usize, state: &[u8]) {
    let mut notation = Vec::with_capacity(4 + state.len());
    writer::bytes(&mut notation, Some(state));
    let after_count = metadata_at + 8;
    out.splice(after_count..after_count, notation);
    out[metadata_at + 3] |= MORE_PAGES as u8;
}
