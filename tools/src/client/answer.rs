//! What a server says, decoded as far as a load tool cares.

use crate::error::{Error, Result};
use crate::wire::Rows;
use cql::frame::reader::{Reader, StringMultimap};
use cql::frame::{Flags, Header, Malformed, Opcode, Version};

/// One answer, borrowed from its frame.
#[derive(Debug)]
pub enum Answer<'a> {
    /// The session has begun, or authentication is done.
    Ready,
    /// The server wants to know who we are.
    Authenticate,
    /// What the server supports.
    Supported(StringMultimap<'a>),
    /// Something failed.
    Error {
        /// The protocol's code.
        code: u32,
        /// The server's words.
        text: &'a str,
    },
    /// Done; there is nothing to show.
    Done,
    /// Rows.
    Rows(Rows<'a>),
    /// A statement is prepared.
    Prepared {
        /// What EXECUTE calls it.
        id: &'a [u8],
        /// The version of its result's columns (v5).
        result_metadata_id: &'a [u8],
    },
}

/// The kinds of RESULT.
const RESULT_ROWS: i32 = 2;
const RESULT_PREPARED: i32 = 4;
/// The flags of rows' metadata.
const GLOBAL_TABLE: i32 = 0x1;
const MORE_PAGES: i32 = 0x2;
const NO_METADATA: i32 = 0x4;
const METADATA_CHANGED: i32 = 0x8;

impl<'a> Answer<'a> {
    /// Decodes the body of the frame with this header.
    #[inline]
    pub fn decode(header: &Header, body: &'a [u8]) -> Result<Answer<'a>> {
        read(header, body).map_err(|malformed| {
            Error::Protocol(format!("{malformed} (in an answer {:?})", header.opcode))
        })
    }

    /// The answer to a request that must succeed.
    pub fn expect_success(self) -> Result<Answer<'a>> {
        match self {
            Answer::Error { code, text } => Err(Error::Server { code, text: text.to_owned() }),
            other => Ok(other),
        }
    }
}

#[inline]
fn read<'a>(header: &Header, body: &'a [u8]) -> Result<Answer<'a>, Malformed> {
    let mut reader = Reader::new(body);
    if header.flags.has(Flags::TRACING) {
        reader.uuid()?;
    }
    if header.flags.has(Flags::WARNINGS) {
        reader.string_list()?;
    }
    if header.flags.has(Flags::PAYLOAD) {
        reader.skip_bytes_map()?;
    }
    match header.opcode {
        Opcode::Result => read_result(reader, header.version),
        Opcode::Error => {
            let code = reader.int()? as u32;
            Ok(Answer::Error { code, text: reader.string()? })
        }
        Opcode::Ready | Opcode::AuthSuccess => Ok(Answer::Ready),
        Opcode::Authenticate => Ok(Answer::Authenticate),
        Opcode::Supported => Ok(Answer::Supported(reader.string_multimap()?)),
        other => Err(Malformed::because(format!("{other:?} answers no request of ours"))),
    }
}

#[inline]
fn read_result(mut reader: Reader<'_>, version: Version) -> Result<Answer<'_>, Malformed> {
    match reader.int()? {
        RESULT_ROWS => {
            let columns = skip_metadata(&mut reader)?;
            let rows = u32::try_from(reader.int()?)
                .map_err(|_| Malformed::with("a negative number of rows"))?;
            Ok(Answer::Rows(Rows::new(reader.rest(), rows, columns)))
        }
        RESULT_PREPARED => {
            let id = reader.short_bytes()?;
            let result_metadata_id =
                if version >= Version::V5 { reader.short_bytes()? } else { &[] };
            Ok(Answer::Prepared { id, result_metadata_id })
        }
        _ => Ok(Answer::Done),
    }
}

/// Passes over the description of the columns; returns how many there are.
#[inline]
fn skip_metadata(reader: &mut Reader<'_>) -> Result<u32, Malformed> {
    let flags = reader.int()?;
    let columns = u32::try_from(reader.int()?)
        .map_err(|_| Malformed::with("a negative number of columns"))?;
    if flags & MORE_PAGES != 0 {
        reader.bytes()?;
    }
    if flags & METADATA_CHANGED != 0 {
        reader.short_bytes()?;
    }
    if flags & NO_METADATA != 0 {
        return Ok(columns);
    }
    if flags & GLOBAL_TABLE != 0 {
        reader.string()?;
        reader.string()?;
    }
    for _ in 0..columns {
        if flags & GLOBAL_TABLE == 0 {
            reader.string()?;
            reader.string()?;
        }
        reader.string()?;
        skip_type(reader, TYPE_DEPTH_MAX)?;
    }
    Ok(columns)
}

/// Types inside types that we follow.
const TYPE_DEPTH_MAX: u32 = 32;

fn skip_type(reader: &mut Reader<'_>, depth: u32) -> Result<(), Malformed> {
    if depth == 0 {
        return Err(Malformed::with("a type nested too deeply"));
    }
    match reader.short()? {
        0x0000 => drop(reader.string()?),
        0x0020 | 0x0022 => skip_type(reader, depth - 1)?,
        0x0021 => {
            skip_type(reader, depth - 1)?;
            skip_type(reader, depth - 1)?;
        }
        0x0030 => {
            reader.string()?;
            reader.string()?;
            for _ in 0..reader.short()? {
                reader.string()?;
                skip_type(reader, depth - 1)?;
            }
        }
        0x0031 => {
            for _ in 0..reader.short()? {
                skip_type(reader, depth - 1)?;
            }
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cql::frame::writer;

    fn header(opcode: Opcode, flags: Flags) -> Header {
        Header { version: Version::V4, flags, stream: 0, opcode, body_bytes: 0 }
    }

    /// A row of (list<map<text, int>>, tuple<int, int>), with its metadata and a warning before it.
    #[test]
    fn rows_are_found_behind_everything_that_may_precede_them() {
        let mut body = Vec::new();
        writer::string_list(&mut body, ["slow"].into_iter());
        for number in [RESULT_ROWS, GLOBAL_TABLE | MORE_PAGES, 2] {
            writer::int(&mut body, number);
        }
        writer::bytes(&mut body, Some(b"page"));
        writer::string(&mut body, "ks");
        writer::string(&mut body, "t");
        writer::string(&mut body, "a");
        for code in [0x20, 0x21, 0x0d, 0x09] {
            writer::short(&mut body, code);
        }
        writer::string(&mut body, "b");
        for code in [0x31, 2, 0x09, 0x09] {
            writer::short(&mut body, code);
        }
        writer::int(&mut body, 1);
        writer::bytes(&mut body, Some(b"first"));
        writer::bytes(&mut body, None);
        match Answer::decode(&header(Opcode::Result, Flags::WARNINGS), &body).unwrap() {
            Answer::Rows(mut rows) => {
                assert_eq!((rows.rows, rows.columns), (1, 2));
                assert_eq!(rows.cell().unwrap(), Some(&b"first"[..]));
                assert_eq!(rows.cell().unwrap(), None);
            }
            other => panic!("{other:?}"),
        }
        for cut in 0..body.len() - 20 {
            let header = header(Opcode::Result, Flags::WARNINGS);
            assert!(Answer::decode(&header, &body[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn errors_carry_the_servers_words() {
        let mut body = Vec::new();
        writer::int(&mut body, 0x1001);
        writer::string(&mut body, "too much");
        let answer = Answer::decode(&header(Opcode::Error, Flags::default()), &body).unwrap();
        let error = answer.expect_success().unwrap_err();
        assert_eq!(error.to_string(), "the server answered with error 0x1001: too much");
    }
}
