//! Passes over real sockets, with a service that keeps some answers for later.

use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use cql::frame::client::{Answer, Reply};
use cql::frame::compress::Compression;
use cql::frame::error::ErrorCode;
use cql::frame::frame_reader::{Arrival, FrameReader};
use cql::frame::frame_writer::FrameWriter;
use cql::frame::header::{Direction, Flags, HEADER_BYTES, Header, Version};
use cql::frame::request::{Parameters, Query, Request, Startup};
use cql::frame::response::Envelope;
use cql::frame::{Consistency, Reader, writer};
use cql::limits::FRAME_CHUNK_BYTES;
use shard::idle::InFlight;

use super::*;
use crate::limits::{
    FRAMES_PER_CLOCK_READ, HANDSHAKE_TIMEOUT, PASS_SLICE, SHORT_BODY_BYTES_MAX, STALLED_TIMEOUT,
};
use crate::os;
use crate::replies::Replies;
use crate::service::Outcome;
use crate::session::Stage;
use crate::transport::TransportState;

mod waiting;

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

/// Requests that take long do not keep another connection waiting for all of them: a pass ends with its slice.
#[test]
fn a_pass_ends_with_its_slice() {
    let mut server = Server::start();
    let mut flood = Client::ready(&mut server, Version::V4, Compression::None);
    let mut other = Client::ready(&mut server, Version::V4, Compression::None);
    let count = 5 * FRAMES_PER_CLOCK_READ;
    (0..count).for_each(|stream| flood.query(stream as i16, SLOW));
    other.query(7, "now");
    server.pass.pass();
    let answered = flood.answers().len();
    assert!(answered <= FRAMES_PER_CLOCK_READ, "{answered} in one pass");
    server.pass.pass();
    assert_eq!(other.answers(), ["7 now"]);
    let answered = answered + flood.answers().len();
    assert!(answered <= 2 * FRAMES_PER_CLOCK_READ, "{answered} in two passes");
    server.run_until_idle();
    assert_eq!(answered + flood.answers().len(), count);
}

/// Before: the clock was looked at after eight requests, also when one alone takes as long as a pass.
#[test]
fn the_clock_is_looked_at_after_each_request_that_is_not_short() {
    let long_body = format!("{SLOW}{}", " ".repeat(SHORT_BODY_BYTES_MAX));
    for text in [LONG, &long_body] {
        let mut server = Server::start();
        let mut client = Client::ready(&mut server, Version::V4, Compression::None);
        (0..3).for_each(|stream| client.query(stream, text));
        for pass in 1..=3 {
            server.pass.pass();
            assert_eq!(client.answers().len(), 1, "in pass {pass}");
        }
    }
}

/// A commit answers many clients at once: 64 sends made a step of some milliseconds.
#[test]
fn answers_that_the_time_of_a_pass_does_not_reach_are_sent_in_the_next_ones() {
    let (mut server, mut clients) = Server::with_three_unsent();
    let mut counts = Vec::new();
    for _ in 0..3 {
        assert!(!server.pass.has_nothing_left(), "the core must not sleep on answers");
        assert!(server.pass.flush(TimeSlice::over()), "one is sent, whatever the time");
        let answered = clients.iter_mut().map(|client| client.answers().len());
        counts.push((answered.sum::<usize>(), server.answers.unsent_bytes() > 0));
    }
    assert_eq!(counts, [(1, true), (1, true), (1, false)], "what waits is counted");
    assert!(!server.pass.flush(TimeSlice::over()) && server.pass.has_nothing_left());
}

/// Housekeeping took the answer's wait for its turn for a client that does not read: one that had been idle for half a
/// minute was dropped.
#[test]
fn an_idle_client_whose_answer_waits_for_its_turn_is_not_dropped() {
    let (mut server, mut clients) = Server::with_three_unsent();
    assert!(server.pass.flush(TimeSlice::over()));
    let much_later = server.pass.clock.monotonic() + STALLED_TIMEOUT + Duration::from_secs(1);
    server.housekeep(much_later);
    server.run_until_idle();
    let answers: Vec<_> = clients.iter_mut().flat_map(|client| client.answers()).collect();
    assert_eq!(answers, ["1 later"; 3]);
}

#[test]
fn answers_come_at_once_or_later_in_every_framing() {
    for (version, compression) in every_connection() {
        let mut server = Server::start();
        let mut client = Client::ready(&mut server, version, compression);
        let long = "now ".repeat(100_000);
        client.query(1, "later one");
        client.query(2, "now");
        client.query(3, &long);
        client.query(4, "later two");
        for _ in 0..20 {
            server.run_until_idle();
            client.flush();
        }
        assert_eq!(client.answers(), ["2 now", "3 now now now "], "{version} {compression:?}");
        server.let_go();
        assert_eq!(client.answers(), ["1 later one", "4 later two"]);
        assert_eq!(server.pass.load.requests(), 0);
        drop(client);
        server.run_until_idle();
        assert_eq!(server.pass.service.open.get(), 0, "the client is gone");
    }
}

/// What was negotiated is what travels: text that shrinks is small on the wire, both ways.
#[test]
fn frames_travel_compressed_as_negotiated() {
    for (version, compression) in every_connection() {
        let mut server = Server::start();
        let mut client = Client::ready(&mut server, version, compression);
        let (sent, received) = (client.sent_bytes, client.received_bytes);
        let text = "now ".repeat(15_000);
        client.query(1, &text);
        for _ in 0..20 {
            server.run_until_idle();
            client.flush();
        }
        assert_eq!(client.answers(), ["1 now now now "], "{version} {compression:?}");
        let (sent, received) = (client.sent_bytes - sent, client.received_bytes - received);
        for (bytes, what) in [(sent, "request"), (received, "answer")] {
            let is_small = bytes < text.len() / 8;
            let told = format!("{version} {compression:?}: {what} of {bytes} bytes");
            assert_eq!(is_small, compression != Compression::None, "{told}");
            assert!(is_small || bytes > text.len(), "{told}");
        }
    }
}

#[test]
fn an_unknown_version_is_refused_in_ours_and_the_connection_ends() {
    let mut server = Server::start();
    let mut client = Client::connect(&server, Version::V5);
    client.raw(&[0x42, 0, 0, 9, 5, 0, 0, 0, 0]);
    server.run_until_idle();
    let text = "9 Protocol: Invalid or unsupported protocol version (66); \
                supported versions are (3/v3, 4/v4, 5/v5)";
    assert_eq!(client.answers(), [text, "closed"]);
}

#[test]
fn nothing_is_taken_out_of_order() {
    let mut server = Server::start();
    let mut client = Client::connect(&server, Version::V4);
    client.query(1, "now");
    server.run_until_idle();
    let text = "1 Protocol: Unexpected message QUERY, expecting STARTUP or OPTIONS";
    assert_eq!(client.answers(), [text]);
    client.send(2, &Request::Options);
    client.startup(Compression::None);
    client.startup(Compression::None);
    server.run_until_idle();
    let text = "0 Protocol: Unexpected message STARTUP, expecting no second handshake";
    assert_eq!(client.answers(), ["2 SUPPORTED", "0 READY", text]);
    client.raw(&[4, 0, 0xFF, 0xFF, 5, 0, 0, 0, 0]);
    server.run_until_idle();
    assert_eq!(client.answers(), ["-1 Protocol: Negative stream ids are for events"]);
}

#[test]
fn frames_are_small_until_the_session_began() {
    let mut server = Server::start();
    let mut client = Client::connect(&server, Version::V4);
    let large = "now ".repeat(25_000);
    client.query(1, &large);
    client.startup(Compression::None);
    client.query(2, &large);
    server.run_until_idle();
    let answers = client.answers();
    assert!(answers[0].starts_with("1 Invalid: Request is too big: length 1000"), "{answers:?}");
    assert!(answers[0].ends_with("exceeds maximum allowed length 65536."), "{answers:?}");
    assert_eq!(answers[1..], ["0 READY", "2 now now now "]);
}

#[test]
fn a_malformed_body_costs_only_its_request() {
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V4, Compression::None);
    client.raw(&[4, 0, 0, 1, 7, 0, 0, 0, 4, 0, 0, 0, 9]);
    client.query(2, "now");
    server.run_until_idle();
    let text = "1 Protocol: Not enough bytes to read an UTF8 serialized string \
                preceded by its 4 bytes length";
    assert_eq!(client.answers(), [text, "2 now"]);
}

#[test]
fn a_damaged_segment_ends_the_connection_and_no_other() {
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V5, Compression::None);
    let mut other = Client::ready(&mut server, Version::V5, Compression::None);
    client.socket.write_all(&[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    other.query(1, "now");
    server.run_until_idle();
    let answers = client.answers();
    assert!(answers[0].starts_with("0 Protocol: Invalid segment header"), "{answers:?}");
    assert_eq!(answers[1], "closed");
    assert_eq!(other.answers(), ["1 now"]);
}

#[test]
fn too_many_connections_are_turned_away() {
    let mut server = Server::start();
    let mut clients: Vec<_> = (0..4).map(|_| Client::connect(&server, Version::V4)).collect();
    server.run_until_idle();
    assert_eq!(server.pass.connections.len(), 3);
    clients[0].send(1, &Request::Options);
    server.run_until_idle();
    assert_eq!(clients[0].answers(), ["1 SUPPORTED"]);
    assert_eq!(clients[3].answers(), ["closed"]);
}

#[test]
fn a_client_that_does_not_read_is_not_read_and_loses_nothing() {
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V4, Compression::None);
    let text = "now ".repeat(10_000);
    let count = 600;
    for stream in 0..count {
        client.query(stream, &text);
        server.pass.pass();
    }
    for _ in 0..300 {
        client.flush();
        server.pass.pass();
    }
    let id = server.pass.connections.ids()[0];
    assert!(!client.writer.unsent().is_empty(), "TCP holds the client back");
    assert!(!server.pass.connections.get_mut(id).unwrap().is_quiet());
    let mut answers = Vec::new();
    while answers.len() < count as usize {
        answers.extend(client.answers());
        client.flush();
        server.pass.pass();
    }
    let expected: Vec<_> = (0..count).map(|stream| format!("{stream} now now now ")).collect();
    assert_eq!(answers, expected);
}

#[test]
fn a_burst_is_taken_in_turns_and_in_order() {
    for compression in [Compression::None, Compression::Lz4] {
        let mut server = Server::start();
        let mut client = Client::ready(&mut server, Version::V5, compression);
        let count = 3 * crate::limits::FRAMES_PER_STEP as i16;
        let parameters = Parameters::plain(Consistency::One, Version::V5);
        for stream in 0..count {
            let request = Request::Query(Query { text: "now", parameters });
            client.writer.frame(|out| request.put(Version::V5, stream, Flags(0), out));
        }
        client.writer.seal();
        client.flush();
        server.run_until_idle();
        let expected: Vec<_> = (0..count).map(|stream| format!("{stream} now")).collect();
        assert_eq!(client.answers(), expected);
    }
}

fn pass_often(server: &mut Server, client: &mut Client) {
    for _ in 0..50 {
        server.pass.pass();
        client.flush();
    }
}

#[test]
fn more_requests_of_one_client_than_memory_wait_in_its_socket() {
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V4, Compression::None);
    let text = "later ".repeat(200_000);
    for stream in 0..8 {
        client.query(stream, &text);
        pass_often(&mut server, &mut client);
    }
    assert!(client.answers().is_empty(), "none is refused");
    let mut answers = Vec::new();
    for _ in 0..8 {
        server.let_go();
        pass_often(&mut server, &mut client);
        answers.extend(client.answers());
    }
    assert_eq!(answers.len(), 8);
    assert!(answers.iter().all(|answer| answer.contains(" later")), "all are answered");
    client.query(9, "now");
    server.run_until_idle();
    assert_eq!(client.answers(), ["9 now"]);
}

#[test]
fn more_requests_of_many_clients_than_memory_are_overloaded() {
    let mut server = Server::start();
    let text = "later ".repeat(450_000);
    let mut client = || Client::ready(&mut server, Version::V4, Compression::None);
    let mut clients: Vec<Client> = (0..3).map(|_| client()).collect();
    for client in &mut clients {
        client.query(5, &text);
        pass_often(&mut server, client);
    }
    let answers: Vec<String> = clients.iter_mut().flat_map(|client| client.answers()).collect();
    assert_eq!(answers.len(), 1, "two of 2.7 MB fit a tenth of 64 MiB");
    assert!(answers[0].starts_with("5 Overloaded: Request not taken: 2 requests"), "{answers:?}");
    server.let_go();
    let answers: Vec<String> = clients.iter_mut().flat_map(|client| client.answers()).collect();
    assert_eq!(answers.len(), 2);
}

#[test]
fn a_handshake_that_never_comes_is_ended() {
    let mut server = Server::start();
    let _idle = Client::connect(&server, Version::V4);
    let _ready = Client::ready(&mut server, Version::V4, Compression::None);
    let now = Instant::now() + crate::limits::HANDSHAKE_TIMEOUT + Duration::from_secs(1);
    let expired = |server: &mut Server| {
        let ids = server.pass.connections.ids();
        let expired = |id: &ConnectionId| {
            let Server { pass: Pass { connections, load, .. }, .. } = &mut *server;
            connections.get_mut(*id).unwrap().check_timeouts(now, load) == Fate::Drop
        };
        ids.into_iter().filter(expired).count()
    };
    assert_eq!(expired(&mut server), 1);
}

#[test]
fn a_stop_waits_for_what_is_in_flight() {
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V4, Compression::None);
    client.query(1, "later");
    server.run_until_idle();
    server.stop.set(true);
    server.run_until_idle();
    assert!(!server.pass.is_over(), "a request is in flight");
    client.query(2, "now");
    server.run_until_idle();
    assert!(TcpStream::connect(server.address).is_err(), "no client is let in");
    server.let_go();
    assert!(server.pass.is_over());
    assert_eq!(client.answers(), ["1 later", "closed"]);
}

#[test]
fn a_stopped_transport_ends_connections_once_they_are_answered_and_lets_nobody_in() {
    let mut server = Server::start();
    let mut busy = Client::ready(&mut server, Version::V4, Compression::None);
    let mut quiet = Client::ready(&mut server, Version::V4, Compression::None);
    busy.query(1, "later");
    server.run_until_idle();
    server.transport.set(TransportState::Stopped);
    server.run_until_idle();
    assert_eq!(quiet.answers(), ["closed"]);
    let mut late = TcpStream::connect(server.address).unwrap();
    server.run_until_idle();
    assert_eq!(late.read(&mut [0]).unwrap(), 0, "it is turned away");
    server.let_go();
    assert_eq!(busy.answers(), ["1 later", "closed"]);
    server.transport.set(TransportState::Running);
    let mut next = Client::ready(&mut server, Version::V4, Compression::None);
    next.query(1, "now");
    server.run_until_idle();
    assert_eq!(next.answers(), ["1 now"]);
}

/// Whoever ends a connection in the usual way is gone, though no error says so: its reads end.
#[test]
fn the_end_of_a_client_is_told_when_it_comes_and_what_it_asked_is_answered() {
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V4, Compression::None);
    client.query(1, "later");
    server.run_until_idle();
    assert_eq!(server.pass.service.silent.borrow().len(), 0);
    client.socket.shutdown(Shutdown::Write).unwrap();
    server.run_until_idle();
    assert_eq!(server.pass.service.silent.borrow().len(), 1);
    server.let_go();
    assert_eq!(client.answers(), ["1 later", "closed"]);
}

/// Before: where the last request and the end came with one event, the end was never read. The client waited for the
/// connection to be closed, and its slot was taken for ever.
#[test]
fn the_end_of_a_client_that_comes_with_its_last_request_is_told() {
    let mut server = Server::start();
    let mut client = Client::ready(&mut server, Version::V4, Compression::None);
    client.query(1, "later");
    client.socket.shutdown(Shutdown::Write).unwrap();
    server.run_until_idle();
    assert_eq!(server.pass.service.silent.borrow().len(), 1);
    server.let_go();
    assert_eq!(client.answers(), ["1 later", "closed"]);
}

/// Before: they counted no more, however long the core had them: a client that asked, went and came again was never
/// refused.
#[test]
fn requests_of_clients_that_are_gone_count_until_they_are_answered() {
    let mut server = Server::start();
    for round in 1..=2 {
        let mut client = Client::ready(&mut server, Version::V4, Compression::None);
        client.socket.set_nodelay(true).unwrap();
        (1..=3).for_each(|stream| client.query(stream, "later"));
        pass_often(&mut server, &mut client);
        for id in server.pass.connections.ids() {
            server.pass.close(id);
        }
        assert_eq!(server.pass.load.requests(), 3 * round);
    }
    server.let_go();
    assert_eq!(server.pass.load.requests(), 0);
}

/// Before: a client that took a few bytes now and then was never dropped, whatever others had to wait for.
#[test]
fn a_client_that_takes_next_to_nothing_of_its_answers_is_dropped() {
    for takes_all in [false, true] {
        let mut server = Server::start();
        let mut client = Client::ready(&mut server, Version::V4, Compression::None);
        let id = server.pass.connections.ids()[0];
        os::set_receive_buffer(&client.socket, 16 << 10).unwrap();
        // TCP holds the client back.
        while client.writer.unsent().is_empty() {
            (0..20).for_each(|stream| client.query(stream, &"now ".repeat(10_000)));
            pass_often(&mut server, &mut client);
        }
        let (now, before) = (server.pass.clock.monotonic(), server.answers.unsent_bytes());
        client.socket.set_nonblocking(false).unwrap();
        let is_enough = |server: &mut Server| match takes_all {
            true => !server.pass.connections.get_mut(id).unwrap().has_unsent(),
            false => server.answers.unsent_bytes() != before,
        };
        while !is_enough(&mut server) {
            client.socket.read_exact(&mut [0; 16 << 10]).unwrap();
            // No event tells of little space, but housekeeping tries.
            server.housekeep(now);
            server.run_until_idle();
        }
        server.housekeep(now + STALLED_TIMEOUT + Duration::from_millis(1));
        assert_eq!(server.pass.service.open.get(), usize::from(takes_all));
    }
}

/// A frame with a body of so many bytes, of which a test's client reads the beginning.
fn long_answer(version: Version, body_bytes: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    Envelope::new(version, 1).put_set_keyspace("long", &mut frame);
    frame.resize(HEADER_BYTES + body_bytes, b'x');
    frame[5..HEADER_BYTES].copy_from_slice(&(body_bytes as u32).to_be_bytes());
    frame
}

/// Before: a connection that had sent a part of an answer had the first turn in the next pass as well.
#[test]
fn who_was_sent_a_chunk_of_a_long_answer_waits_for_those_that_had_no_turn() {
    let mut server = Server::start();
    let mut clients: Vec<Client> =
        (0..2).map(|_| Client::ready(&mut server, Version::V4, Compression::None)).collect();
    clients.iter_mut().for_each(|client| client.query(1, "later"));
    server.run_until_idle();
    let held = server.pass.service.held.take();
    let [(long, _), (other, frame)] = &held[..] else { panic!("two wait") };
    let replies = &server.pass.service.replies;
    drop(replies.hand_over(*long, long_answer(Version::V4, 32 << 20), None));
    replies.push(*other, frame);
    assert!(server.pass.deliver());
    assert!(server.pass.flush(TimeSlice::over()), "a chunk of the long one");
    assert!(server.pass.connections.get_mut(*long).unwrap().can_send());
    assert!(server.pass.flush(TimeSlice::over()), "the other one");
    assert!(!server.pass.connections.get_mut(*other).unwrap().has_unsent());
}

/// Before: it was copied, cut into segments and sent in one step: 64 MiB took tens of milliseconds.
#[test]
fn a_long_answer_is_sent_in_chunks_and_in_order() {
    for (version, compression) in every_connection() {
        let mut server = Server::start();
        let mut client = Client::ready(&mut server, version, compression);
        let id = server.pass.connections.ids()[0];
        client.query(1, "later");
        server.run_until_idle();
        server.pass.service.held.take();
        let frame = long_answer(version, 8 << 20);
        drop(server.pass.service.replies.hand_over(id, frame, None));
        let (mut passes, mut answers) = (0, Vec::new());
        while answers.len() < 2 {
            let before = client.received_bytes;
            server.pass.pass();
            answers.extend(client.answers());
            let received = client.received_bytes - before;
            assert!(
                received <= 2 * FRAME_CHUNK_BYTES,
                "{version} {compression:?}: {received} at once"
            );
            passes += 1;
            if passes == 1 {
                client.query(2, "now");
            }
        }
        assert!(passes >= 8, "{version} {compression:?}: {passes} passes");
        assert_eq!(answers, ["1 long", "2 now"]);
        server.run_until_idle();
        assert_eq!(server.answers.unsent_bytes(), 0);
    }
}

/// Before: all connections were looked at, and closed, in one step: 5,000 that send nothing took 50 ms.
#[test]
fn connections_are_closed_one_by_one_when_there_is_no_time() {
    let close: [fn(&mut Server); 3] = [
        |server| {
            let from = server.pass.walks.housekeeping.unwrap_or(0);
            server.pass.run_housekeeping(from, TimeSlice::over());
        },
        |server| server.pass.close_quiet(TimeSlice::over()),
        |server| server.pass.close_all(TimeSlice::over()),
    ];
    for (way, close) in close.into_iter().enumerate() {
        let mut server = Server::start();
        let clients: Vec<Client> = (0..3).map(|_| Client::connect(&server, Version::V4)).collect();
        server.run_until_idle();
        for id in server.pass.connections.ids() {
            let long_ago = Instant::now() - HANDSHAKE_TIMEOUT * 2;
            server.pass.connections.get_mut(id).unwrap().opened_at(long_ago);
        }
        for left in [2, 1, 0] {
            close(&mut server);
            assert_eq!(server.pass.service.open.get(), left, "way {way}");
            assert!(server.pass.walks.are_under_way(), "the core must not sleep on the others");
        }
        close(&mut server);
        assert!(!server.pass.walks.are_under_way(), "way {way}");
        drop(clients);
    }
}

/// Before: all that was late was ended in one step. What is left does not wait for the next tick.
#[test]
fn what_is_late_and_was_not_reached_is_ended_in_the_next_pass() {
    let mut server = Server::start();
    server.run_until_idle();
    let looked = server.pass.service.looked.get();
    server.pass.service.deadline.set(Some(Instant::now()));
    server.pass.service.is_late.set(true);
    server.pass.ticks.is_due.set(true);
    for passes in 1..=3 {
        assert!(server.pass.pass() && !server.pass.has_nothing_left());
        assert_eq!(server.pass.service.looked.get(), looked + passes);
    }
    server.pass.service.is_late.set(false);
    for _ in 0..3 {
        server.pass.pass();
    }
    assert_eq!(server.pass.service.looked.get(), looked + 4);
}

/// What goes on where it stopped looks at each connection once.
#[test]
fn a_walk_over_connections_goes_on_where_it_stopped() {
    let (mut server, clients) = Server::with_three_unsent();
    let (mut seen, mut from) = (Vec::new(), Some(0));
    while let Some(slot) = from {
        from = server.pass.walk(slot, TimeSlice::over(), |_, id| {
            seen.push(id);
            true
        });
    }
    assert_eq!(seen, server.pass.connections.ids());
    assert_eq!(seen.len(), clients.len());
}
