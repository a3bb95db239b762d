//! What we answer: messages appended to a `Vec<u8>`, their length patched at the end.
//!
//! ```text
//!  header ┼ [uuid] trace id? ┼ [string list] warnings? ┼ [bytes map] payload? ┼ message
//!           flag 0x02          0x08, v4 and later        0x04, v4 and later
//! ```
//!
//! An [`Envelope`] opens a frame; the encoder of the message appends to the same buffer;
//! [`Open::close`] ends it. So rows stream into their answer from wherever they are.

pub mod error;
pub mod event;
pub mod metadata;
pub mod option;
pub mod result;
pub mod session;
mod warning;

#[cfg(test)]
mod tests;

pub use error::{Failure, Tally};
pub use event::{Event, SchemaEvent, SchemaTarget};
pub use metadata::{ColumnSpec, Columns};
pub use result::{Description, OpenRows, PreparedResult};
pub use warning::add_warning;

use super::header::{Direction, Flags, Header, Opcode, Version, patch_length};
use super::writer;

/// The key of an answer's custom payload that says for how many seconds the name of a change is kept: an int.
pub const REQUEST_ID_KEPT: &str = "messina-request-id-kept-s";

/// The stream of messages that answer no request.
pub const EVENT_STREAM: i16 = -1;

/// What every answer has around its message.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'a> {
    /// The version of the connection.
    pub version: Version,
    /// The stream of the request.
    pub stream: i16,
    /// The trace of the request, if it asked for one.
    pub trace_id: Option<[u8; 16]>,
    /// What the user should know; drivers print it. v3 cannot carry it.
    pub warnings: &'a [String],
    /// Extensions, by name. v3 cannot carry it.
    pub payload: &'a [(&'a str, &'a [u8])],
}

/// A frame that was opened and not yet closed.
#[derive(Debug)]
#[must_use = "a frame has no length before it is closed"]
pub struct Open {
    start: usize,
}

impl<'a> Envelope<'a> {
    /// The plain answer to a request.
    pub const fn new(version: Version, stream: i16) -> Envelope<'a> {
        Envelope { version, stream, trace_id: None, warnings: &[], payload: &[] }
    }

    /// Begins a frame at the end of `out`.
    #[inline]
    pub fn open(&self, opcode: Opcode, out: &mut Vec<u8>) -> Open {
        let start = out.len();
        let extensible = self.version >= Version::V4;
        let mut flags = Flags::default();
        if self.trace_id.is_some() {
            flags = flags.with(Flags::TRACING);
        }
        if extensible && !self.warnings.is_empty() {
            flags = flags.with(Flags::WARNINGS);
        }
        if extensible && !self.payload.is_empty() {
            flags = flags.with(Flags::PAYLOAD);
        }
        let (version, stream) = (self.version, self.stream);
        let header = Header { version, flags, stream, opcode, body_bytes: 0 };
        header.put(Direction::Response, out);
        if let Some(id) = self.trace_id {
            out.extend_from_slice(&id);
        }
        if flags.has(Flags::WARNINGS) {
            writer::string_list(out, self.warnings.iter().map(String::as_str));
        }
        if flags.has(Flags::PAYLOAD) {
            writer::short(out, writer::count(self.payload.len()));
            for (name, value) in self.payload {
                writer::string(out, name);
                writer::bytes(out, Some(value));
            }
        }
        Open { start }
    }

    /// Appends a whole frame whose message `put` writes.
    #[inline]
    pub fn put(&self, opcode: Opcode, out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
        let frame = self.open(opcode, out);
        put(out);
        frame.close(out);
    }
}

impl Open {
    /// Ends the frame at the end of `out`.
    #[inline]
    pub fn close(self, out: &mut [u8]) {
        patch_length(out, self.start);
    }

    /// Drops what was written of the frame, so that another answer can take its place.
    pub fn abandon(self, out: &mut Vec<u8>) {
        out.truncate(self.start);
    }
}
