//! One connection's bytes: a socket, the frames in what came, the frames that go.
//!
//! Before the pass loop takes it over, a link is blocking and `call` makes one request and waits for its answer;
//! afterwards it is non-blocking and `receive`, `next_frame` and `send` are used.
//!
//! ```text
//! input   │ decoded │ not yet decoded │ free │       receive ─► next_frame until there is none
//!                 start              end
//! output  put, put, ..  ─► send: one write for all frames
//! ```
//!
//! Invariants
//! 1. A frame is borrowed from `input`, until the next call of the link.
//! 2. `input` grows only for a frame that is larger than half of it.
//! 3. An error of the socket, of a frame or of a message means that the connection is over.
//!
//! Not here: when a link is read (`client/worker.rs`), STARTUP and login (`client/handshake.rs`), the parts of a
//! request (`client/statement.rs`).

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use cql::frame::client::{Answer, Reply};
use cql::frame::compress::Compression;
use cql::frame::frame_reader::{Arrival, Broken, FrameReader};
use cql::frame::frame_writer::FrameWriter;
use cql::frame::header::Direction;
use cql::frame::request::Request;
use cql::frame::{Flags, Header, Version};

use crate::error::{Error, Result};
use crate::limits::{ANSWER_BYTES_MAX, RECEIVE_BYTES};

/// A connection to the server.
#[derive(Debug)]
pub struct Link {
    stream: TcpStream,
    version: Version,
    reader: FrameReader,
    writer: FrameWriter,
    /// Received and not yet decoded: `input[start..end]`.
    input: Vec<u8>,
    start: usize,
    end: usize,
    blocking: bool,
}

/// What a receive brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Bytes, and there may be more.
    More,
    /// All there is for now.
    All,
}

impl Link {
    /// A link over a fresh socket.
    pub fn new(stream: TcpStream, version: Version) -> Result<Link> {
        stream.set_nodelay(true).map_err(Error::io("setting up a connection"))?;
        Ok(Link {
            stream,
            version,
            reader: FrameReader::new(Direction::Response, ANSWER_BYTES_MAX),
            writer: FrameWriter::new(),
            input: vec![0; RECEIVE_BYTES],
            start: 0,
            end: 0,
            blocking: true,
        })
    }

    /// The socket, to be polled.
    pub fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// What STARTUP chose holds from here on.
    pub fn establish(&mut self, compression: Compression) {
        self.reader.establish(self.version, compression);
        self.writer.establish(self.version, compression);
    }

    /// From now on the socket never blocks.
    pub fn set_nonblocking(&mut self) -> Result<()> {
        self.blocking = false;
        self.stream.set_nonblocking(true).map_err(Error::io("setting up a connection"))
    }

    /// How long `call` waits.
    pub fn set_timeout(&self, timeout: Duration) -> Result<()> {
        let both = self
            .stream
            .set_read_timeout(Some(timeout))
            .and_then(|()| self.stream.set_write_timeout(Some(timeout)));
        both.map_err(Error::io("setting up a connection"))
    }

    /// Makes one request, waits for its answer and hands it to `read`.
    pub fn call<R>(
        &mut self,
        request: &Request<'_>,
        read: impl FnOnce(Reply<'_>) -> Result<R>,
    ) -> Result<R> {
        let version = self.version;
        self.writer.frame(|out| request.put(version, 0, Flags::default(), out));
        while self.send()? {}
        // The borrow of a frame cannot leave the loop that looks for it, so look first, then read.
        loop {
            let arrived = self.reader.next(&self.input[self.start..self.end]).map_err(broken)?;
            self.start += arrived.used;
            match arrived.arrival {
                Arrival::Frame(header, body) => {
                    return match reply(&header, body)? {
                        Reply::Error { code, text, .. } => {
                            Err(Error::Server { code, text: text.to_owned() })
                        }
                        success => read(success),
                    };
                }
                Arrival::Starved => {}
                other => return Err(refused(&other)),
            }
            self.receive()?;
        }
    }

    /// Takes in what the socket has. An error means that the connection is over.
    #[inline]
    pub fn receive(&mut self) -> Result<Received> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.input.len() {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.end * 2 > self.input.len() {
                self.input.resize(self.input.len() * 2, 0);
            }
        }
        match self.stream.read(&mut self.input[self.end..]) {
            Ok(0) => Err(Error::Lost("the server closed it".into())),
            Ok(count) => {
                self.end += count;
                let full = self.end == self.input.len();
                Ok(if full { Received::More } else { Received::All })
            }
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted) => Ok(Received::More),
            // A blocking socket says so when its timeout is over.
            Err(error) if error.kind() == ErrorKind::WouldBlock && self.blocking => {
                Err(Error::Lost("the server did not answer in time".into()))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Received::All),
            Err(error) => Err(Error::Lost(error.to_string())),
        }
    }

    /// The next whole frame of what was received.
    #[inline]
    pub fn next_frame(&mut self) -> Result<Option<(Header, &[u8])>> {
        let arrived = self.reader.next(&self.input[self.start..self.end]).map_err(broken)?;
        self.start += arrived.used;
        match arrived.arrival {
            Arrival::Frame(header, body) => Ok(Some((header, body))),
            Arrival::Starved => Ok(None),
            other => Err(refused(&other)),
        }
    }

    /// Lets `put` append one request's frame, to go with the next `send`.
    #[inline]
    pub fn put(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        self.writer.frame(put);
    }

    /// Sends what was put; true if the socket did not take all of it.
    #[inline]
    pub fn send(&mut self) -> Result<bool> {
        self.writer.seal();
        let unsent = self.writer.unsent();
        if unsent.is_empty() {
            return Ok(false);
        }
        match self.stream.write(unsent) {
            Ok(count) => self.writer.sent(count),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(Error::Lost(error.to_string())),
        }
        Ok(!self.writer.unsent().is_empty())
    }
}

/// The message in the body of the frame with this header.
#[inline]
pub fn reply<'a>(header: &Header, body: &'a [u8]) -> Result<Reply<'a>> {
    let answer = Answer::decode(header, body);
    let answer = answer.map_err(|malformed| {
        Error::Protocol(format!("{malformed} (in an answer {:?})", header.opcode))
    })?;
    Ok(answer.reply)
}

fn broken(broken: Broken) -> Error {
    Error::Protocol(match broken {
        Broken::Header(bad) => bad.reason.to_string(),
        Broken::Segment(reason) => reason.to_string(),
    })
}

fn refused(arrival: &Arrival<'_>) -> Error {
    Error::Protocol(match arrival {
        Arrival::TooLarge(_, bytes) => format!("an answer of {bytes} bytes"),
        Arrival::Unreadable(_, reason) => reason.to_string(),
        Arrival::PassedOver(_) => unreachable!("nothing is given up"),
        Arrival::HeldBack => unreachable!("anything may be expanded"),
        Arrival::Starved | Arrival::Frame(..) => unreachable!("both are handled by the caller"),
    })
}
