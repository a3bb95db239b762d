//! The answers as a client reads them: for the load tool, and to prove our encoders.
//!
//! Decoding borrows, as on the server's side. Rows are not decoded: [`Rows::cells`] gives the bytes
//! of each.
//!
//! 1. `Answer::decode` reads what stands around the message (trace id, warnings, payload), as the flags of the header
//!    say, and then the message by its opcode.
//! 2. Metadata and lists are walked once, so that iterating them later cannot fail. The cells of rows are not: a cell
//!    that is cut is found when it is reached.
//! 3. The details of an ERROR are left as bytes, since they differ by code and version (`response/error.rs`).
//!
//! Invariant: bytes that are no answer give [`Malformed`] and never a panic; types of types are read to a depth of
//! `TYPE_DEPTH_MAX`.
//!
//! Not here: what a client sends (`request.rs`, each message's `put`), frames and segments (`frame_reader.rs`), a
//! client with sockets (the crate `tools`).

use model::limits::TYPE_DEPTH_MAX;

use super::error::{Malformed, Result};
use super::header::{Flags, Header, Opcode, Version};
use super::reader::{Reader, StringList, StringMultimap};
use super::response::REQUEST_ID_KEPT;
use super::response::metadata::{
    GLOBAL_TABLE, LWT_MARK, METADATA_CHANGED, MORE_PAGES, NO_METADATA,
};
use super::response::result;

/// An answer with what came around it.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The trace of the request, if it asked for one.
    pub trace_id: Option<[u8; 16]>,
    /// What the server wants the user to know.
    pub warnings: Option<StringList<'a>>,
    /// For how many seconds the name of a change is kept, if it had one.
    pub kept_s: Option<u32>,
    /// The decoded message of the body.
    pub reply: Reply<'a>,
}

/// The message of an answer.
#[derive(Debug, Clone, Copy)]
pub enum Reply<'a> {
    /// ERROR: the request failed.
    Error {
        /// The code: see [`super::ErrorCode`].
        code: u32,
        /// Message of the server.
        text: &'a str,
        /// What the error's code carries beside its text, not decoded.
        details: Reader<'a>,
    },
    /// The session has begun, or events are registered.
    Ready,
    /// Say who you are.
    Authenticate(&'a str),
    /// The next step of authentication.
    AuthChallenge(Option<&'a [u8]>),
    /// Authentication is done.
    AuthSuccess(Option<&'a [u8]>),
    /// SUPPORTED: each option with its values.
    Supported(StringMultimap<'a>),
    /// A statement without rows is done.
    Void,
    /// RESULT of kind Rows.
    Rows(Rows<'a>),
    /// This keyspace is in use now.
    SetKeyspace(&'a str),
    /// A statement was prepared.
    Prepared(PreparedReply<'a>),
    /// The schema changed: what (`CREATED`, ...), which kind of object, in which keyspace, its
    /// name.
    SchemaChange(&'a str, &'a str, &'a str, Option<&'a str>),
    /// Something happened; its kind, and the rest.
    Event(&'a str, Reader<'a>),
}

/// The body of a RESULT of kind Rows.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// Description of the columns.
    pub metadata: Metadata<'a>,
    /// The number of rows in this page.
    pub row_count: usize,
    cells: Reader<'a>,
}

/// The description of result columns, as the wire has it.
#[derive(Debug, Clone, Copy)]
pub struct Metadata<'a> {
    /// How many columns there are, described or not.
    pub column_count: usize,
    /// The paging state of the next page; `None` if this is the last.
    pub paging_state: Option<&'a [u8]>,
    /// The id of new metadata (v5).
    pub new_id: Option<&'a [u8]>,
    /// Keyspace and table of all columns, if they share one.
    pub table: Option<(&'a str, &'a str)>,
    described: bool,
    specs: Reader<'a>,
}

/// The body of a RESULT of kind Prepared.
#[derive(Debug, Clone, Copy)]
pub struct PreparedReply<'a> {
    /// The id by which EXECUTE names the statement.
    pub id: &'a [u8],
    /// The id of its result metadata (v5).
    pub result_metadata_id: Option<&'a [u8]>,
    /// The columns of the bind markers.
    pub markers: Metadata<'a>,
    /// Which markers are the partition key, as big-endian shorts (v4 and later).
    pub key_indexes: &'a [u8],
    /// The columns of the result.
    pub result: Metadata<'a>,
    /// Whether it is marked as a conditional write.
    pub is_marked: bool,
}

impl<'a> Answer<'a> {
    /// Reads the (uncompressed) body of the frame with this header.
    pub fn decode(header: &Header, body: &'a [u8]) -> Result<Answer<'a>> {
        let mut reader = Reader::new(body);
        let has = |flag| header.flags.has(flag);
        let trace_id = if has(Flags::TRACING) { Some(reader.uuid()?) } else { None };
        let warnings = if has(Flags::WARNINGS) { Some(reader.string_list()?) } else { None };
        let kept_s = if has(Flags::PAYLOAD) { reader.in_bytes_map(REQUEST_ID_KEPT)? } else { None };
        let kept_s = kept_s.and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
        let reply = match header.opcode {
            Opcode::Error => {
                let code = reader.int()? as u32;
                Reply::Error { code, text: reader.string()?, details: reader }
            }
            Opcode::Ready => Reply::Ready,
            Opcode::Authenticate => Reply::Authenticate(reader.string()?),
            Opcode::AuthChallenge => Reply::AuthChallenge(reader.bytes()?),
            Opcode::AuthSuccess => Reply::AuthSuccess(reader.bytes()?),
            Opcode::Supported => Reply::Supported(reader.string_multimap()?),
            Opcode::Result => outcome(reader, header.version)?,
            Opcode::Event => Reply::Event(reader.string()?, reader),
            other => return Err(Malformed::because(format!("{} is not an answer", other.name()))),
        };
        Ok(Answer { trace_id, warnings, kept_s, reply })
    }
}

fn outcome<'a>(mut reader: Reader<'a>, version: Version) -> Result<Reply<'a>> {
    Ok(match reader.int()? {
        result::VOID => Reply::Void,
        result::ROWS => {
            let metadata = Metadata::decode(&mut reader)?;
            let row_count = count(reader.int()?)?;
            Reply::Rows(Rows { metadata, row_count, cells: reader })
        }
        result::SET_KEYSPACE => Reply::SetKeyspace(reader.string()?),
        result::PREPARED => Reply::Prepared(PreparedReply::decode(reader, version)?),
        result::SCHEMA_CHANGE => {
            let (change, target) = (reader.string()?, reader.string()?);
            let keyspace = reader.string()?;
            let name = if target == "KEYSPACE" { None } else { Some(reader.string()?) };
            Reply::SchemaChange(change, target, keyspace, name)
        }
        other => return Err(Malformed::because(format!("Unknown kind of result {other}"))),
    })
}

impl<'a> Rows<'a> {
    /// The cells as they came, one `[bytes]` after the other: for a client that walks them itself.
    #[inline]
    pub fn cell_bytes(&self) -> &'a [u8] {
        self.cells.rest()
    }

    /// The cells of all rows, row by row: `None` is null. Stops at the first that is cut.
    #[inline]
    pub fn cells(&self) -> impl Iterator<Item = Result<Option<&'a [u8]>>> + use<'a> {
        let mut reader = self.cells;
        let total = self.row_count.saturating_mul(self.metadata.column_count);
        let mut left = total;
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let cell = reader.bytes();
            if cell.is_err() {
                left = 0;
            }
            Some(cell)
        })
    }
}

impl<'a> Metadata<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Metadata<'a>> {
        let flags = reader.int()?;
        let column_count = count(reader.int()?)?;
        let has = |flag| flags & flag != 0;
        let paging_state = if has(MORE_PAGES) { reader.bytes()? } else { None };
        let new_id = if has(METADATA_CHANGED) { Some(reader.short_bytes()?) } else { None };
        let mut metadata = Metadata {
            column_count,
            paging_state,
            new_id,
            table: None,
            described: !has(NO_METADATA),
            specs: *reader,
        };
        if metadata.described {
            metadata.walk_specs(reader, has(GLOBAL_TABLE))?;
        }
        Ok(metadata)
    }

    fn walk_specs(&mut self, reader: &mut Reader<'a>, global: bool) -> Result<()> {
        if global {
            self.table = Some((reader.string()?, reader.string()?));
        }
        self.specs = *reader;
        for _ in 0..self.column_count {
            self.spec(reader)?;
        }
        Ok(())
    }

    fn spec(&self, reader: &mut Reader<'a>) -> Result<(&'a str, &'a [u8])> {
        if self.table.is_none() {
            reader.string()?;
            reader.string()?;
        }
        let name = reader.string()?;
        let start = reader.rest();
        skip_type(reader, TYPE_DEPTH_MAX)?;
        Ok((name, &start[..start.len() - reader.rest().len()]))
    }

    /// The columns, if they are described: name, and type as the wire has it.
    pub fn columns(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        let metadata = *self;
        let mut reader = self.specs;
        let described = if self.described { self.column_count } else { 0 };
        (0..described).map(move |_| metadata.spec(&mut reader).expect("walked when decoded"))
    }
}

impl<'a> PreparedReply<'a> {
    fn decode(mut reader: Reader<'a>, version: Version) -> Result<PreparedReply<'a>> {
        let id = reader.short_bytes()?;
        let v5 = version >= Version::V5;
        let result_metadata_id = if v5 { Some(reader.short_bytes()?) } else { None };
        let flags = reader.int()?;
        let column_count = count(reader.int()?)?;
        let mut key_indexes: &[u8] = &[];
        if version >= Version::V4 {
            let indexes = count(reader.int()?)?;
            key_indexes = reader.take(indexes.saturating_mul(2))?;
        }
        let specs = reader;
        let mut markers = Metadata {
            column_count,
            paging_state: None,
            new_id: None,
            table: None,
            described: true,
            specs,
        };
        markers.walk_specs(&mut reader, flags & GLOBAL_TABLE != 0)?;
        let result = Metadata::decode(&mut reader)?;
        let is_marked = flags & LWT_MARK != 0;
        Ok(PreparedReply { id, result_metadata_id, markers, key_indexes, result, is_marked })
    }
}

/// Passes over an `[option]`.
fn skip_type(reader: &mut Reader<'_>, depth: u32) -> Result<()> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Malformed::with("A type of types of types without end"));
    };
    match reader.short()? {
        0x0000 => {
            reader.string()?;
        }
        0x0020 | 0x0022 => skip_type(reader, depth)?,
        0x0021 => {
            skip_type(reader, depth)?;
            skip_type(reader, depth)?;
        }
        0x0030 => {
            reader.string()?;
            reader.string()?;
            for _ in 0..reader.short()? {
                reader.string()?;
                skip_type(reader, depth)?;
            }
        }
        0x0031 => {
            for _ in 0..reader.short()? {
                skip_type(reader, depth)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn count(number: i32) -> Result<usize> {
    usize::try_from(number)
        .map_err(|_| Malformed::because(format!("A negative number of things: {number}")))
}
