//! A prepared statement as bytes: everything of an EXECUTE that does not change, made once.
//!
//! ```text
//! header(9) [id] [metadata id v5] consistency flags count │ value* │ timestamp
//! └──────────────── copied per request ─────────────────┘ │ bound  │ patched in
//! ```

use cql::frame::Version;
use cql::frame::header::{Direction, Flags, HEADER_BYTES, Header, Opcode};
use cql::frame::writer;

use super::handshake::{Prepared, Target};
use crate::wire::Binder;

const VALUES: u8 = 0x01;
const SKIP_METADATA: u8 = 0x02;
const TIMESTAMP: u8 = 0x20;

/// Where the stream number is in a header, and the body's length.
const STREAM_AT: usize = 2;
const LENGTH_AT: usize = 5;

/// The constant part of an EXECUTE.
#[derive(Clone, Debug)]
pub struct Template {
    prefix: Vec<u8>,
    /// Where the number of values is.
    count_at: usize,
    is_write: bool,
}

impl Template {
    /// For `prepared`; a write carries its timestamp, a read leaves the columns' description out.
    pub fn new(prepared: &Prepared, target: &Target, is_write: bool) -> Template {
        let header = Header {
            version: target.version,
            flags: Flags::default(),
            stream: 0,
            opcode: Opcode::Execute,
            body_bytes: 0,
        };
        let mut prefix = Vec::new();
        header.put(Direction::Request, &mut prefix);
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
        Template { prefix, count_at, is_write }
    }

    /// Appends one request on `stream`; `bind` binds its values.
    #[inline]
    pub fn append(
        &self,
        stream: u16,
        timestamp_us: u64,
        out: &mut Vec<u8>,
        bind: impl FnOnce(&mut Binder<'_>),
    ) {
        let start = out.len();
        out.extend_from_slice(&self.prefix);
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
            for is_write in [true, false] {
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
                let template = Template::new(&prepared, &target, is_write);
                let mut out = b"earlier frame".to_vec();
                template.append(513, 77, &mut out, |binder| {
                    binder.value(b"abc");
                    binder.value(b"");
                });
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
                assert_eq!(execute.parameters.skip_metadata, !is_write);
                let values: Vec<_> = execute.parameters.values.iter().collect();
                assert_eq!(values, [Value::Bytes(b"abc"), Value::Bytes(b"")]);
            }
        }
    }
}
