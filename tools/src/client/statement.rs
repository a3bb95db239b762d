//! A prepared statement as bytes: everything of an EXECUTE that does not change, made once.
//!
//! ```text
//! header(9) [payload: name] [id] [metadata id v5] consistency flags count │ value* │ timestamp
//! └───────────────────────── copied per request ────────────────────────┘ │ bound  │ patched in, as the name
//! ```
//!
//! Invariants
//! 1. A request is one copy, the values, and a few patches: stream, name, number of values, timestamp, length of the
//!    body.
//! 2. The timestamp of a write is its sequence number, so that "newer" means the same to the tool and to the server.
//! 3. The description of the columns is left out of answers to reads.
//!
//! Not here: the values (`wire.rs`), PREPARE (`client/handshake.rs`), streams (`client/worker/connections.rs`).

use cql::frame::Version;
use cql::frame::header::{Direction, Flags, HEADER_BYTES, Header, Opcode};
use cql::frame::request::REQUEST_ID;
use cql::frame::writer;

use super::handshake::{Prepared, Target};
use crate::wire::Binder;

const VALUES: u8 = 0x01;
const SKIP_METADATA: u8 = 0x02;
const TIMESTAMP: u8 = 0x20;

/// Bytes of a name.
const NAME_BYTES: usize = 16;

/// Where the stream number is in a header, and the body's length.
const STREAM_AT: usize = 2;
const LENGTH_AT: usize = 5;

/// What an execution carries beside its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Nothing; the description of the columns is left out of the answer.
    Read,
    /// The timestamp of the write.
    Write,
    /// Its timestamp, and a name by which the server knows it when it is sent again.
    NamedWrite,
}

/// The constant part of an EXECUTE.
#[derive(Clone, Debug)]
pub struct Template {
    prefix: Vec<u8>,
    /// Where its name is, if it has one.
    name_at: Option<usize>,
    /// Where the number of values is.
    count_at: usize,
    is_write: bool,
}

impl Template {
    /// The execution of `prepared`, in this form.
    pub fn new(prepared: &Prepared, target: &Target, form: Form) -> Template {
        let (is_write, is_named) = (form != Form::Read, form == Form::NamedWrite);
        let header = Header {
            version: target.version,
            flags: if is_named { Flags::PAYLOAD } else { Flags::default() },
            stream: 0,
            opcode: Opcode::Execute,
            body_bytes: 0,
        };
        let mut prefix = Vec::new();
        header.put(Direction::Request, &mut prefix);
        if is_named {
            writer::short(&mut prefix, 1);
            writer::string(&mut prefix, REQUEST_ID);
            writer::bytes(&mut prefix, Some(&[0; NAME_BYTES]));
        }
        let name_at = is_named.then(|| prefix.len() - NAME_BYTES);
        writer::short_bytes(&mut prefix, &prepared.id);
        if target.version >= Version::V5 {
            writer::short_bytes(&mut prefix, &prepared.result_metadata_id);
        }
        writer::short(&mut prefix, target.consistency.code());
        let flags = if is_write { VALUES | TIMESTAMP } else { VALUES | SKIP_METADATA };
        if target.version >= Version::V5 {
            writer::int(&mut prefix, i32::from(flags));
        } else {
            writer::byte(&mut prefix, flags);
        }
        let count_at = prefix.len();
        writer::short(&mut prefix, 0);
        Template { prefix, name_at, count_at, is_write }
    }

    /// Appends one request on `stream`; `bind` binds its values, `name` gives its name if it has one.
    #[inline]
    pub fn append(
        &self,
        (stream, timestamp_us): (u16, u64),
        out: &mut Vec<u8>,
        name: impl FnOnce() -> [u8; NAME_BYTES],
        bind: impl FnOnce(&mut Binder<'_>),
    ) {
        let start = out.len();
        out.extend_from_slice(&self.prefix);
        if let Some(at) = self.name_at {
            out[start + at..][..NAME_BYTES].copy_from_slice(&name());
        }
        out[start + STREAM_AT..][..2].copy_from_slice(&stream.to_be_bytes());
        let mut binder = Binder::new(out);
        bind(&mut binder);
        let count = binder.count();
        out[start + self.count_at..][..2].copy_from_slice(&count.to_be_bytes());
        if self.is_write {
            out.extend_from_slice(&timestamp_us.to_be_bytes());
        }
        let body_bytes = u32::try_from(out.len() - start - HEADER_BYTES)
            .expect("values are limited to far less");
        out[start + LENGTH_AT..][..4].copy_from_slice(&body_bytes.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cql::frame::compress::Compression;
    use cql::frame::request::Request;
    use cql::frame::{Consistency, Value};

    use super::*;

    /// What the template makes is what the server's own decoder reads.
    #[test]
    fn a_server_reads_what_was_bound() {
        for version in [Version::V3, Version::V4, Version::V5] {
            for form in [Form::Read, Form::Write, Form::NamedWrite] {
                let (is_write, is_named) = (form != Form::Read, form == Form::NamedWrite);
                if is_named && version == Version::V3 {
                    continue;
                }
                let target = Target {
                    address: "127.0.0.1:9042".parse().unwrap(),
                    version,
                    compression: Compression::None,
                    credentials: None,
                    timeout: Duration::ZERO,
                    shard_aware: false,
                    consistency: Consistency::LocalQuorum,
                };
                let prepared = Prepared { id: vec![9; 16], result_metadata_id: vec![8; 16] };
                let template = Template::new(&prepared, &target, form);
                let mut out = b"earlier frame".to_vec();
                let bind = |binder: &mut Binder<'_>| {
                    binder.value(b"abc");
                    binder.value(b"");
                };
                template.append((513, 77), &mut out, || [5; 16], bind);
                let frame = &out[13..];
                let header = Header::decode(frame, Direction::Request).unwrap().unwrap();
                assert_eq!((header.stream, header.frame_bytes()), (513, frame.len()));
                let body = &frame[HEADER_BYTES..];
                let Ok(Request::Execute(execute)) = Request::decode(&header, body) else {
                    panic!("an EXECUTE");
                };
                assert_eq!(execute.id, [9; 16]);
                assert_eq!(execute.parameters.consistency, Consistency::LocalQuorum);
                assert_eq!(execute.parameters.timestamp_us, is_write.then_some(77));
                assert_eq!(execute.parameters.request_id, is_named.then_some(&[5; 16][..]));
                assert_eq!(execute.parameters.skip_metadata, !is_write);
                let values: Vec<_> = execute.parameters.values.iter().collect();
                assert_eq!(values, [Value::Bytes(b"abc"), Value::Bytes(b"")]);
            }
        }
    }
}
