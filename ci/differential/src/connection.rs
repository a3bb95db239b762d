//! A connection with many requests under way: frames out by stream, answers back in any order.
//!
//! 1. `ask` queues a request on a stream, which the caller chooses; nothing is sent yet.
//! 2. `next` returns an answer that is there already. If there is none, it sends what is queued and waits for bytes.
//!
//! Invariants
//! 1. What is queued is sent before an answer is waited for, so that the wait can end.
//! 2. An error is the connection's: an answer that cannot be read, or none in time. An error of a statement is an
//!    answer.
//!
//! The protocol's client side is the `cql` crate's: what that encodes and decodes wrongly in the same way is not seen.
//!
//! Not here: whose answer belongs to a stream (`driver.rs`), which statements are prepared (`prepared.rs`).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use cql::frame::client::{Answer, Reply};
use cql::frame::compress::Compression;
use cql::frame::frame_reader::{Arrival, FrameReader};
use cql::frame::frame_writer::FrameWriter;
use cql::frame::header::Direction;
use cql::frame::request::{Execute, Parameters, Prepare, Query, Request, Startup, ValueList};
use cql::frame::{Consistency, Flags, Reader, Value, Version, writer};

use crate::text::{Sent, Text};

/// A server that takes longer for an answer hangs; Cassandra takes seconds for many schema changes at once.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// No answer comes near.
const ANSWER_BYTES_MAX: u32 = 16 << 20;
/// What is read at once.
const READ_BYTES: usize = 64 << 10;

/// By which message a statement is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By<'a> {
    Query,
    Prepare,
    Execute {
        /// The id of the statement.
        id: &'a [u8],
        /// The id of the columns that the client knows (v5).
        result_id: &'a [u8],
        /// The answer need not describe the columns that the client knows.
        skips_metadata: bool,
    },
}

/// A request that is to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) text: &'a Text,
    /// Rows of a page.
    pub(crate) page_rows: Option<u32>,
    /// Where the page before ended.
    pub(crate) state: Option<&'a [u8]>,
    pub(crate) by: By<'a>,
}

/// A connection after STARTUP.
pub(crate) struct Connection {
    stream: TcpStream,
    version: Version,
    reader: FrameReader,
    writer: FrameWriter,
    input: Vec<u8>,
    /// How much of `input` is read.
    used: usize,
    /// Where bytes from the socket come first.
    part: Vec<u8>,
}

impl Connection {
    /// Connects to `host:port`.
    pub(crate) fn open(address: &str, version: Version) -> Result<Connection, String> {
        let stream = TcpStream::connect(address).map_err(|error| format!("{address}: {error}"))?;
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(ANSWER_LIMIT)))
            .map_err(|error| format!("{address}: {error}"))?;
        let mut connection = Connection {
            stream,
            version,
            reader: FrameReader::new(Direction::Response, ANSWER_BYTES_MAX),
            writer: FrameWriter::new(),
            input: Vec::new(),
            used: 0,
            part: vec![0; READ_BYTES],
        };
        let mut options = Vec::new();
        writer::string_map(&mut options, [("CQL_VERSION", "3.0.0")].into_iter());
        let options = Reader::new(&options).string_map().map_err(|error| format!("{error:?}"))?;
        connection.send(&Request::Startup(Startup { options }), 0);
        let is_ready = connection.next(|_, reply| matches!(reply, Reply::Ready))?;
        if !is_ready {
            return Err(format!("{address}: wants more than STARTUP"));
        }
        connection.reader.establish(version, Compression::None);
        connection.writer.establish(version, Compression::None);
        Ok(connection)
    }

    /// Runs a statement that must succeed, alone.
    pub(crate) fn must(&mut self, cql: &str) -> Result<(), String> {
        let text = Text::plain(cql);
        self.ask(&Ask { text: &text, page_rows: None, state: None, by: By::Query }, 0);
        self.next(|_, reply| match reply {
            Reply::Error { text, .. } => Err(format!("{cql}: {text}")),
            _ => Ok(()),
        })?
    }

    /// Queues a statement, or its preparation.
    pub(crate) fn ask(&mut self, request: &Ask<'_>, stream: i16) {
        let Ask { text, page_rows, state, by } = *request;
        if let By::Prepare = by {
            let prepare = Prepare { text: &text.cql, keyspace: None };
            return self.send(&Request::Prepare(prepare), stream);
        }
        let mut values = ValueList::new();
        for value in &text.values {
            values.push(match value {
                Sent::Bytes(bytes) => Value::Bytes(bytes),
                Sent::Null => Value::Null,
                Sent::Unset => Value::Unset,
            });
        }
        let skip_metadata = matches!(by, By::Execute { skips_metadata: true, .. });
        let parameters = Parameters {
            values: values.as_values(self.version),
            skip_metadata,
            page_rows,
            paging_state: state,
            ..Parameters::plain(Consistency::LocalOne, self.version)
        };
        let request = match by {
            By::Execute { id, result_id, .. } => {
                Request::Execute(Execute { id, result_metadata_id: Some(result_id), parameters })
            }
            By::Query | By::Prepare => Request::Query(Query { text: &text.cql, parameters }),
        };
        self.send(&request, stream);
    }

    fn send(&mut self, request: &Request<'_>, stream: i16) {
        let version = self.version;
        self.writer.frame(|out| request.put(version, stream, Flags::default(), out));
    }

    fn flush(&mut self) -> Result<(), String> {
        self.writer.seal();
        let bytes = self.writer.unsent();
        let count = bytes.len();
        self.stream.write_all(bytes).map_err(|error| format!("sending: {error}"))?;
        self.writer.sent(count);
        Ok(())
    }

    /// Waits for the next answer, and hands it on with its stream.
    pub(crate) fn next<R>(&mut self, read: impl FnOnce(i16, &Reply<'_>) -> R) -> Result<R, String> {
        loop {
            let step = self.reader.next(&self.input[self.used..]);
            let step = step.map_err(|error| format!("an answer that cannot be read: {error:?}"))?;
            self.used += step.used;
            match step.arrival {
                Arrival::Frame(header, body) => {
                    let answer = Answer::decode(&header, body);
                    let answer = answer
                        .map_err(|error| format!("an answer that cannot be read: {error}"))?;
                    return Ok(read(header.stream, &answer.reply));
                }
                Arrival::Starved => {}
                other => return Err(format!("an answer that cannot be read: {other:?}")),
            }
            self.input.drain(..self.used);
            self.used = 0;
            self.flush()?;
            match self.stream.read(&mut self.part).map_err(|error| format!("no answer: {error}"))? {
                0 => return Err("the server closed the connection".to_owned()),
                count => self.input.extend_from_slice(&self.part[..count]),
            }
        }
    }
}
