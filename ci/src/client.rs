//! A blocking connection to a CQL server: one request, one answer, both kept as they came.
//!
//! 1. `open` connects, sends STARTUP without compression, and logs in as `cassandra` if the server asks for it.
//! 2. `call` writes one request, reads until a frame is whole, and hands the answer to the caller's function.
//!
//! Invariants
//! 1. One request is under way at a time. All have stream 0, and no events are registered for, so the next frame is the
//!    answer.
//! 2. An error of `call` is the connection's, and the connection is not used any more. A refusal by the server is an
//!    answer.
//! 3. Each wait for bytes is limited, so that a server that hangs fails its step.
//!
//! The protocol's client side is the `cql` crate's, as the load tool has it. Not here: types and the text of values
//! (`golden/kind.rs`), prepared statements and pages (`golden/session.rs`).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use cql::frame::client::{Answer, Reply};
use cql::frame::compress::Compression;
use cql::frame::frame_reader::{Arrival, FrameReader};
use cql::frame::frame_writer::FrameWriter;
use cql::frame::header::Direction;
use cql::frame::request::{AuthResponse, Parameters, Query, Request, Startup};
use cql::frame::{Consistency, Flags, Reader, Version, writer};

use crate::server::Address;

/// A server that takes longer for one statement hangs; Cassandra takes seconds for a DROP.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// No answer of the suite comes near.
const ANSWER_BYTES_MAX: u32 = 64 << 20;

/// Characters of a statement that are shown beside its error.
const STATEMENT_SHOWN_CHARS: usize = 200;

/// A connection after STARTUP.
pub(crate) struct Connection {
    stream: TcpStream,
    /// The protocol version that it speaks.
    pub(crate) version: Version,
    reader: FrameReader,
    writer: FrameWriter,
    input: Vec<u8>,
}

impl Connection {
    /// Connects, and logs in as `cassandra` should the server ask.
    pub(crate) fn open(address: &Address, version: Version) -> Result<Connection, String> {
        let target = (address.host.as_str(), address.port);
        let stream = TcpStream::connect(target).map_err(|error| format!("connecting: {error}"))?;
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(ANSWER_LIMIT)))
            .map_err(|error| format!("connecting: {error}"))?;
        let reader = FrameReader::new(Direction::Response, ANSWER_BYTES_MAX);
        let writer = FrameWriter::new();
        let mut connection = Connection { stream, version, reader, writer, input: Vec::new() };
        connection.start()?;
        Ok(connection)
    }

    fn start(&mut self) -> Result<(), String> {
        let mut options = Vec::new();
        writer::string_map(&mut options, [("CQL_VERSION", "3.0.0")].into_iter());
        let options = Reader::new(&options).string_map().map_err(|error| format!("{error:?}"))?;
        let startup = Request::Startup(Startup { options });
        let asks = self.call(&startup, |answer| matches!(answer.reply, Reply::Authenticate(_)))?;
        self.reader.establish(self.version, Compression::None);
        self.writer.establish(self.version, Compression::None);
        if asks {
            let token = Some(&b"\0cassandra\0cassandra"[..]);
            let login = Request::AuthResponse(AuthResponse { token });
            let is_in =
                self.call(&login, |answer| matches!(answer.reply, Reply::AuthSuccess(_)))?;
            is_in.then_some(()).ok_or("the server refuses cassandra/cassandra")?;
        }
        Ok(())
    }

    /// Makes one request and hands its answer to `read`. An error is the connection's, not the
    /// statement's.
    pub(crate) fn call<R>(
        &mut self,
        request: &Request<'_>,
        read: impl FnOnce(&Answer<'_>) -> R,
    ) -> Result<R, String> {
        let version = self.version;
        self.writer.frame(|out| request.put(version, 0, Flags::default(), out));
        self.writer.seal();
        let bytes = self.writer.unsent().to_vec();
        self.stream.write_all(&bytes).map_err(|error| format!("sending: {error}"))?;
        self.writer.sent(bytes.len());
        loop {
            let step = self.reader.next(&self.input).map_err(|error| format!("{error:?}"))?;
            let used = step.used;
            match step.arrival {
                Arrival::Frame(header, body) => {
                    let answer =
                        Answer::decode(&header, body).map_err(|error| format!("{error}"))?;
                    let result = read(&answer);
                    self.input.drain(..used);
                    return Ok(result);
                }
                Arrival::Starved => self.input.drain(..used),
                other => return Err(format!("an answer that cannot be read: {other:?}")),
            };
            self.receive()?;
        }
    }

    /// Runs a statement that must succeed.
    pub(crate) fn must(&mut self, statement: &str) -> Result<(), String> {
        self.cells(statement).map(drop)
    }

    /// The cells of the first page that a statement is answered with, row by row; it must succeed.
    pub(crate) fn cells(&mut self, statement: &str) -> Result<Vec<Option<Vec<u8>>>, String> {
        let parameters = Parameters::plain(Consistency::LocalOne, self.version);
        let query = Request::Query(Query { text: statement, parameters });
        self.call(&query, |answer| match answer.reply {
            Reply::Error { text, .. } => Err(format!("{}: {text}", shorten(statement))),
            Reply::Rows(rows) => rows
                .cells()
                .map(|cell| cell.map(|cell| cell.map(<[u8]>::to_vec)))
                .collect::<Result<_, _>>()
                .map_err(|error| format!("{}: {error}", shorten(statement))),
            _ => Ok(Vec::new()),
        })?
    }

    fn receive(&mut self) -> Result<(), String> {
        let mut part = [0; 64 << 10];
        match self.stream.read(&mut part).map_err(|error| format!("no answer: {error}"))? {
            0 => Err("the server closed the connection".to_owned()),
            count => {
                self.input.extend_from_slice(&part[..count]);
                Ok(())
            }
        }
    }
}

/// The beginning of a statement, for an error.
fn shorten(statement: &str) -> String {
    statement.chars().take(STATEMENT_SHOWN_CHARS).collect()
}
