//! Passes over real sockets, with a service that keeps some answers for later.

use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cql::frame::client::{Answer, Reply};
use cql::frame::compress::Compression;
use cql::frame::error::ErrorCode;
use cql::frame::frame_reader::{Arrival, FrameReader};
use cql::frame::frame_writer::FrameWriter;
use cql::frame::header::{Direction, Flags, Header, Version};
use cql::frame::request::{Parameters, Query, Request, Startup};
use cql::frame::response::Envelope;
use cql::frame::{Consistency, Reader, writer};
use shard::idle::InFlight;

use super::*;
use crate::limits::PASS_SLICE;
use crate::os;
use crate::replies::Replies;
use crate::service::Outcome;
use crate::session::Stage;
use crate::transport::TransportState;

mod full_core;
mod lifetimes;
mod protocol;
mod segments;
mod sending;
mod slices;

/// A query that takes the time of a whole pass.
const SLOW: &str = "now slow";

/// The same, of which the service says so.
const LONG: &str = "now long";

/// A query comes back as a keyspace named like its text: at once if the
/// text says `now`, else when the test lets it go.
struct Echo {
    replies: Replies,
    held: RefCell<Vec<(ConnectionId, Vec<u8>)>>,
    open: Cell<usize>,
    /// Who sends nothing more.
    silent: RefCell<Vec<ConnectionId>>,
    deadline: Cell<Option<Instant>>,
    /// How often deadlines were looked at.
    looked: Cell<usize>,
    did_much: Cell<bool>,
    /// There was no time for all that is late.
    is_late: Cell<bool>,
}

impl Service for Echo {
    fn opened(&self, _: &Rc<Session>) {
        self.open.set(self.open.get() + 1);
    }

    fn fell_silent(&self, session: &Rc<Session>) {
        self.silent.borrow_mut().push(session.id);
    }

    fn closed(&self, _: &Rc<Session>) {
        self.open.set(self.open.get() - 1);
    }

    fn request(
        &self,
        session: &Rc<Session>,
        header: &Header,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let envelope = Envelope::new(header.version, header.stream);
        match request {
            Request::Options => envelope.put_supported(&[], out),
            Request::Startup(_) => {
                session.stage.set(Stage::Ready);
                session.version.set(header.version);
                envelope.put_ready(out);
            }
            Request::Query(query) if query.text.starts_with("now") => {
                let began = Instant::now();
                let text = query.text.trim_end();
                while [SLOW, LONG].contains(&text) && began.elapsed() < PASS_SLICE {}
                self.did_much.set(text == LONG);
                envelope.put_set_keyspace(query.text, out);
            }
            Request::Query(query) => {
                let mut frame = Vec::new();
                envelope.put_set_keyspace(query.text, &mut frame);
                self.held.borrow_mut().push((session.id, frame));
                return Outcome::Later;
            }
            _ => unreachable!("these tests send nothing else"),
        }
        Outcome::Answered
    }

    fn did_much(&self) -> bool {
        self.did_much.take()
    }

    fn end_late(&self, _: Instant) -> bool {
        self.looked.set(self.looked.get() + 1);
        self.is_late.get()
    }

    fn first_deadline(&self) -> Option<Instant> {
        self.deadline.get()
    }

    fn poll(&self) -> bool {
        false
    }

    fn has_work(&self) -> bool {
        false
    }

    fn in_flight(&self) -> InFlight {
        InFlight::Nothing
    }

    fn replies(&self) -> &Replies {
        &self.replies
    }
}

struct Server {
    pass: Pass<Echo>,
    answers: std::sync::Arc<Answers>,
    address: SocketAddr,
    stop: Rc<Cell<bool>>,
    transport: Arc<Transport>,
}

impl Server {
    fn start() -> Server {
        let plain = os::bind_listener("127.0.0.1:0".parse().unwrap()).unwrap();
        os::start_listening(&plain).unwrap();
        let address = plain.local_addr().unwrap();
        let stop = Rc::new(Cell::new(false));
        let transport = Arc::<Transport>::default();
        let asked = stop.clone();
        let stop_asked = Box::new(move || asked.get());
        let service = Echo {
            replies: Replies::new(Arc::new(Notify::new())),
            held: RefCell::default(),
            open: Cell::new(0),
            silent: RefCell::default(),
            deadline: Cell::default(),
            looked: Cell::default(),
            did_much: Cell::default(),
            is_late: Cell::default(),
        };
        let listeners = ShardListeners { plain, shard_aware: None };
        let memory_bytes = 64 << 20;
        let answers = Answers::new(memory_bytes);
        let config = PassConfig {
            listeners,
            stop_asked,
            on_over: Box::new(|| {}),
            transport: transport.clone(),
            admin_arrivals: Rc::default(),
            connections_max: 3,
            memory_bytes,
            answers: answers.clone(),
            stalls: Stalls::new(),
        };
        let poller = Poller::new().unwrap();
        let pass = Pass::new(service, Rc::new(Clock::new()), poller, config).unwrap();
        Server { pass, answers, address, stop, transport }
    }

    /// Passes until there is nothing left to do.
    fn run_until_idle(&mut self) {
        let mut quiet = 0;
        while quiet < 3 {
            let busy = self.pass.pass();
            quiet = if busy { 0 } else { quiet + 1 };
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Looks at all connections as if it were so late.
    fn housekeep(&mut self, now: Instant) {
        for id in self.pass.connections.ids() {
            self.pass.look_after(id, now);
        }
    }

    /// Answers what was put off, which is not sent yet.
    fn answer_held(&mut self) {
        for (to, frame) in self.pass.service.held.take() {
            self.pass.service.replies.push(to, &frame);
        }
    }

    fn let_go(&mut self) {
        self.answer_held();
        self.run_until_idle();
    }

    /// A server with three clients, each with one answer that is delivered to its connection and not sent.
    fn with_three_unsent() -> (Server, Vec<Client>) {
        let mut server = Server::start();
        let mut clients: Vec<Client> =
            (0..3).map(|_| Client::ready(&mut server, Version::V4, Compression::None)).collect();
        clients.iter_mut().for_each(|client| client.query(1, "later"));
        server.run_until_idle();
        server.answer_held();
        assert!(server.pass.deliver());
        (server, clients)
    }
}

/// A client of our own codec.
struct Client {
    socket: TcpStream,
    reader: FrameReader,
    writer: FrameWriter,
    version: Version,
    input: Vec<u8>,
    /// Bytes on the wire so far.
    sent_bytes: usize,
    received_bytes: usize,
}

impl Client {
    fn connect(server: &Server, version: Version) -> Client {
        let socket = TcpStream::connect(server.address).unwrap();
        socket.set_nonblocking(true).unwrap();
        let reader = FrameReader::new(Direction::Response, 16 << 20);
        let writer = FrameWriter::new();
        let (sent_bytes, received_bytes) = (0, 0);
        Client { socket, reader, writer, version, input: Vec::new(), sent_bytes, received_bytes }
    }

    /// With the handshake done.
    fn ready(server: &mut Server, version: Version, compression: Compression) -> Client {
        let mut client = Client::connect(server, version);
        client.startup(compression);
        server.run_until_idle();
        assert_eq!(client.answers(), ["0 READY"]);
        client.establish(compression);
        client
    }

    fn startup(&mut self, compression: Compression) {
        let mut options = Vec::new();
        let names = ["", "lz4", "snappy"];
        let entries = [("CQL_VERSION", "3.0.0"), ("COMPRESSION", names[compression as usize])];
        writer::string_map(&mut options, entries.into_iter());
        let startup = Startup::decode(Reader::new(&options)).unwrap();
        self.send(0, &Request::Startup(startup));
    }

    fn establish(&mut self, compression: Compression) {
        self.reader.establish(self.version, compression);
        self.writer.establish(self.version, compression);
    }

    fn send(&mut self, stream: i16, request: &Request<'_>) {
        let version = self.version;
        self.writer.frame(|out| request.put(version, stream, Flags(0), out));
        self.writer.seal();
        self.flush();
    }

    fn query(&mut self, stream: i16, text: &str) {
        let parameters = Parameters::plain(Consistency::One, self.version);
        self.send(stream, &Request::Query(Query { text, parameters }));
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.writer.frame(|out| out.extend_from_slice(bytes));
        self.writer.seal();
        self.flush();
    }

    fn flush(&mut self) {
        while let Ok(count @ 1..) = self.socket.write(self.writer.unsent()) {
            self.writer.sent(count);
            self.sent_bytes += count;
            self.writer.seal();
        }
    }

    /// Everything answered so far, as `stream what`; `closed` at the end of the connection.
    fn answers(&mut self) -> Vec<String> {
        let mut ended = false;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => ended = true,
                Ok(count) => {
                    self.input.extend_from_slice(&buffer[..count]);
                    self.received_bytes += count;
                    continue;
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            break;
        }
        let (mut answers, mut used) = (Vec::new(), 0);
        loop {
            let step = self.reader.next(&self.input[used..]).unwrap();
            used += step.used;
            let Arrival::Frame(header, body) = step.arrival else { break };
            let what = match Answer::decode(&header, body).unwrap().reply {
                Reply::SetKeyspace(text) => text.chars().take(12).collect(),
                Reply::Error { code, text, .. } => {
                    format!("{:?}: {text}", ErrorCode::from_code(code).unwrap())
                }
                _ => header.opcode.name().to_owned(),
            };
            answers.push(format!("{} {what}", header.stream));
        }
        self.input.drain(..used);
        if ended {
            answers.push("closed".to_owned());
        }
        answers
    }
}

fn every_connection() -> [(Version, Compression); 6] {
    use Compression::{Lz4, None, Snappy};
    use Version::{V3, V4, V5};
    [(V3, None), (V4, None), (V4, Lz4), (V4, Snappy), (V5, None), (V5, Lz4)]
}

fn pass_often(server: &mut Server, client: &mut Client) {
    for _ in 0..50 {
        server.pass.pass();
        client.flush();
    }
}

/// A frame of v4 that asks `text`.
fn frame(stream: i16, text: &str) -> Vec<u8> {
    frame_of(Version::V4, stream, text)
}

fn frame_of(version: Version, stream: i16, text: &str) -> Vec<u8> {
    let parameters = Parameters::plain(Consistency::One, version);
    let mut bytes = Vec::new();
    Request::Query(Query { text, parameters }).put(version, stream, Flags(0), &mut bytes);
    bytes
}

/// These frames in segments of v5 without compression.
fn segments(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = FrameWriter::new();
    writer.establish(Version::V5, Compression::None);
    frames.iter().for_each(|frame| writer.frame(|out| out.extend_from_slice(frame)));
    writer.seal();
    writer.unsent().to_vec()
}

/// Takes on as much as the core admits; how many requests that is.
fn fill(server: &mut Server) -> usize {
    let mut taken = 0;
    while server.pass.load.admits(64 << 10) {
        server.pass.load.take(64 << 10);
        taken += 1;
    }
    taken
}

/// Takes on a little more than the core admits.
fn fill_up(server: &mut Server) {
    fill(server);
    while server.pass.load.admits(0) {
        server.pass.load.take(0);
    }
    server.pass.load.take(0);
}

/// Passes without sending, until something is answered, and some more.
fn serve_unsent(server: &mut Server) {
    let id = server.pass.connections.ids()[0];
    let mut passes_after = 0;
    while passes_after < 10 {
        server.pass.take_events();
        server.pass.serve();
        passes_after += usize::from(server.pass.connections.get_mut(id).unwrap().has_unsent());
    }
}

fn empty(server: &mut Server, taken: usize) {
    (0..taken).for_each(|_| server.pass.load.release(64 << 10));
}
