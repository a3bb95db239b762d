//! One client's connection: bytes in, requests to the service, answers out.
//!
//! ```text
//! socket ─► input ─► reader ─► stage ─► limits ─► decode ─► service ─► writer ─► socket
//!                       │         │         │        │         └─ later ─► unanswered
//!                       └─────────┴─────────┴────────┴─ an ERROR in its place
//! ```
//!
//! States: open; ending (answers are still sent, nothing more is taken); lingering (all was sent,
//! the socket's other half is read away, so that the last answer is not lost in a reset).
//!
//! Invariants
//! 1. Every frame taken is answered exactly once, now or when it leaves `unanswered`. What is unanswered when the
//!    connection is closed goes on as an orphan (`orphans.rs`).
//! 2. While too much is unsent or unanswered, here or on the whole core, nothing is read: the client feels it by TCP.
//! 3. Nothing but OPTIONS and STARTUP is taken before the session began.
//!
//! Not here: what is asked before a frame comes to the service (`connection/serve.rs`), how answers are sent
//! (`connection/send.rs`), the memory that is kept for what comes next (`connection/kept.rs`), what a full core reads of a
//! segment that it has cut (`connection/rest.rs`).

mod kept;
mod rest;
mod send;
mod serve;

use std::borrow::Cow;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::rc::Rc;
use std::time::Instant;

use cql::frame::compress::Compression;
use cql::frame::error::ErrorCode;
use cql::frame::frame_reader::{Arrival, Broken, FrameReader, PassedOver};
use cql::frame::frame_writer::FrameWriter;
use cql::frame::header::{Direction, Header, Version};
use cql::frame::response::{Envelope, Failure};
use cql::limits::{FRAME_BODY_BYTES_MAX, HANDSHAKE_BODY_BYTES_MAX};
use serve::{Serve, refuse};

use crate::limits::{
    CONNECTION_REQUESTS_MAX, FRAME_TIMEOUT, FRAME_TIMEOUT_PRESSED, FRAMES_PER_CLOCK_READ,
    FRAMES_PER_STEP, HANDSHAKE_TIMEOUT, LINGER_TIMEOUT, PRESSED_TIMEOUT, READ_BYTES_FULL,
    SHORT_BODY_BYTES_MAX, STALLED_TIMEOUT, UNSENT_BYTES_MAX,
};
use crate::load::Load;
use crate::service::Service;
use crate::session::{Session, Stage};
use crate::time_slice::TimeSlice;
use crate::unanswered::Unanswered;

/// What is said of a frame that comes behind one that was refused, in one segment.
const GIVEN_UP: &str =
    "Request not taken: the beginning of its segment was given up before it was whole";

/// A client's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) session: Rc<Session>,
    socket: TcpStream,
    reader: FrameReader,
    writer: FrameWriter,
    /// What arrived and is no whole frame yet, or could not be taken yet. Empty when idle.
    input: Vec<u8>,
    /// `input`, or the reader, may hold whole frames that were not taken yet.
    backlog: bool,
    /// The kernel may have more than we read.
    unread: bool,
    /// The client sends no more than what the kernel has: it is to be read to its end.
    has_ended: bool,
    /// Requests without an answer: stream, and what they count against the shard's memory.
    unanswered: Unanswered,
    /// Something was flushed since the last [`trim`](Connection::trim).
    touched: bool,
    /// What its frames that are not whole, or were not taken yet, count against the shard's memory.
    partial_bytes: usize,
    /// What its segment that was decompressed counts among these.
    expanded_bytes: usize,
    /// Its next segment is whole, and waits until there is space for what it becomes.
    waits_for_space: bool,
    /// Since when a frame has waited for its rest, as far as it was looked at.
    arriving: Option<Instant>,
    /// What its unsent answers count against the shard's memory.
    unsent_bytes: usize,
    /// What its buffers count that have more memory than they need now.
    kept_bytes: usize,
    state: State,
    opened: Instant,
    /// Since when its socket takes next to nothing of what is unsent. Answers that wait for their turn to be sent do
    /// not count.
    blocked: Option<Instant>,
    /// Bytes that it has taken since then.
    taken_bytes: usize,
    /// Whether it took nothing the last time: an event tells when it takes more.
    is_full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Ending,
    Lingering(Instant),
}

/// What became of a connection in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The connection lives on.
    Keep,
    /// The connection is over: drop it.
    Drop,
}

impl Connection {
    /// A connection that was just accepted; its socket does not block.
    pub(crate) fn new(socket: TcpStream, session: Rc<Session>, now: Instant) -> Connection {
        Connection {
            session,
            socket,
            reader: FrameReader::new(Direction::Request, HANDSHAKE_BODY_BYTES_MAX),
            writer: FrameWriter::new(),
            input: Vec::new(),
            backlog: false,
            unread: true,
            has_ended: false,
            unanswered: Unanswered::default(),
            touched: true,
            partial_bytes: 0,
            expanded_bytes: 0,
            waits_for_space: false,
            arriving: None,
            unsent_bytes: 0,
            kept_bytes: 0,
            state: State::Open,
            opened: now,
            blocked: None,
            taken_bytes: 0,
            is_full: false,
        }
    }

    /// The poller says that the socket has something to read, and whether its end is behind that.
    pub(crate) fn readable(&mut self, has_ended: bool) {
        self.unread = true;
        self.has_ended |= has_ended;
    }

    /// As if it had been accepted then.
    #[cfg(test)]
    pub(crate) fn opened_at(&mut self, opened: Instant) {
        self.opened = opened;
    }

    /// The memory of what reads its frames, in bytes.
    #[cfg(test)]
    pub(crate) fn reader_bytes(&self) -> usize {
        self.reader.memory_bytes()
    }

    /// Whether a step would find something to do that no event will tell of.
    pub(crate) fn has_more(&self, load: &Load) -> bool {
        match self.state {
            State::Open => !self.is_held_back(load) && (self.unread || self.backlog),
            State::Ending => false,
            State::Lingering(_) => self.unread,
        }
    }

    /// Serves what was held back, reads once, and serves what arrived. `scratch` is the core's,
    /// for bytes on their way.
    pub(crate) fn step(
        &mut self,
        scratch: &mut [u8],
        service: &impl Service,
        load: &mut Load,
        slice: TimeSlice,
    ) -> Fate {
        // What becomes whole counts as a request.
        load.partial(std::mem::take(&mut self.partial_bytes), 0);
        let fate = self.read_and_serve(scratch, service, load, slice);
        self.count_partial(load);
        fate
    }

    fn read_and_serve(
        &mut self,
        scratch: &mut [u8],
        service: &impl Service,
        load: &mut Load,
        slice: TimeSlice,
    ) -> Fate {
        match self.state {
            State::Lingering(_) => return self.read_away(scratch),
            State::Ending => return Fate::Keep,
            State::Open if self.backlog => self.take_input(service, load, slice),
            State::Open => {}
        }
        if self.state != State::Open || self.is_held_back(load) || self.backlog || !self.unread {
            return Fate::Keep;
        }
        // What is read is held until its turn comes.
        let read_bytes_max = if load.is_full() { READ_BYTES_FULL } else { scratch.len() };
        let count = match self.read_or_fall_silent(&mut scratch[..read_bytes_max], service) {
            Ok(count) => count,
            Err(fate) => return fate,
        };
        if self.input.is_empty() {
            let used = self.take_frames(&scratch[..count], service, load, slice);
            self.input.extend_from_slice(&scratch[used..count]);
        } else {
            self.input.extend_from_slice(&scratch[..count]);
            self.take_input(service, load, slice);
        }
        self.read_rest(scratch, service, load, slice)
    }

    /// Counts what has arrived of frames, and was not taken: nothing is held of them when the connection is not open
    /// any more. If there is no memory for a frame that is not whole, it is refused before its end, unless its end may
    /// be in the socket.
    #[inline]
    fn count_partial(&mut self, load: &mut Load) {
        let expanded_bytes = self.reader.expanded_bytes();
        load.expanded(self.expanded_bytes, expanded_bytes);
        self.expanded_bytes = expanded_bytes;
        let held = self.input.len() + self.reader.held_bytes();
        if held > 0 {
            self.partial_bytes = held;
            if !load.partial(0, held) && !self.backlog && self.cut_off_bytes().is_none() {
                self.give_up(load);
            }
        }
    }

    /// Refuses what has begun to arrive, for which there is no memory. If it is not known whose it is, the connection
    /// is over: a compressed segment has no frames before it is whole.
    #[cold]
    fn give_up(&mut self, load: &mut Load) {
        let why = load.refusal();
        if self.refuse_partial(&why, load) {
            return;
        }
        // The ERROR is on stream 0. If a request with this number waits, its client would take the ERROR for the
        // answer, and may ask again for what is being done.
        if !self.unanswered.has(0) {
            let envelope = Envelope::new(self.session.version.get(), 0);
            let failure = Failure::Plain(ErrorCode::Overloaded);
            self.writer.frame(|out| envelope.put_error(failure, &why, out));
        }
        self.end();
        load.partial(std::mem::take(&mut self.partial_bytes), 0);
    }

    /// Refuses the frame that has begun to arrive, or the first one of a segment, and lets go of what is there of it.
    /// False if it is not known yet whose it is.
    #[cold]
    fn refuse_partial(&mut self, why: &str, load: &mut Load) -> bool {
        let mut used = match self.reader.pass_over(&self.input) {
            None => return false,
            Some(PassedOver::Segment(used)) => used,
            Some(PassedOver::Frame(header, used)) => {
                refuse(&mut self.writer, &header, ErrorCode::Overloaded, why);
                used
            }
        };
        // Here the first frame of a segment is told. The others are told in their turn, which has the limits of all
        // answers: a few bytes may hold thousands of them.
        match self.reader.next(&self.input[used..]) {
            Ok(step) => {
                used += step.used;
                if let Arrival::PassedOver(header) = step.arrival {
                    refuse(&mut self.writer, &header, ErrorCode::Overloaded, why);
                }
                self.backlog = true;
            }
            Err(broken) => self.refuse_all(broken),
        }
        // `refuse_all` ends the connection, which drops the input.
        self.input.drain(..used.min(self.input.len()));
        self.input.shrink_to_fit();
        let held = self.input.len() + self.reader.held_bytes();
        load.partial(std::mem::replace(&mut self.partial_bytes, held), held);
        true
    }

    fn take_input(&mut self, service: &impl Service, load: &mut Load, slice: TimeSlice) {
        let mut input = std::mem::take(&mut self.input);
        let used = self.take_frames(&input, service, load, slice);
        if used < input.len() {
            input.drain(..used);
            self.input = input;
        }
    }

    /// The same as [`Connection::read`], and tells the service of a client that has closed its half.
    fn read_or_fall_silent(
        &mut self,
        scratch: &mut [u8],
        service: &impl Service,
    ) -> Result<usize, Fate> {
        let read = self.read(scratch);
        if read.is_err() && self.state == State::Ending {
            service.fell_silent(&self.session);
        }
        read
    }

    /// How many bytes were read; `Err`: there is nothing to serve.
    fn read(&mut self, scratch: &mut [u8]) -> Result<usize, Fate> {
        match self.socket.read(scratch) {
            Ok(0) => {
                self.unread = false;
                // The client is gone, or closed its half: what it wrote is still answered.
                self.end();
                Err(Fate::Keep)
            }
            Ok(count) => {
                // No event tells of the end once more.
                self.unread = count == scratch.len() || self.has_ended;
                Ok(count)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.unread = false;
                Ok(0)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(0),
            Err(_) => Err(Fate::Drop),
        }
    }

    fn read_away(&mut self, scratch: &mut [u8]) -> Fate {
        match self.socket.read(scratch) {
            Ok(0) => Fate::Drop,
            Ok(_) => Fate::Keep,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.unread = false;
                Fate::Keep
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Fate::Keep,
            Err(_) => Fate::Drop,
        }
    }

    /// Takes frames from `bytes` as long as it may and its slice lasts; returns how many bytes they
    /// were.
    fn take_frames(
        &mut self,
        bytes: &[u8],
        service: &impl Service,
        load: &mut Load,
        slice: TimeSlice,
    ) -> usize {
        let used = self.take_frames_of(bytes, service, load, slice);
        // The last one may have been long, and its next turn may come late.
        self.reader.release();
        if self.state == State::Open { used } else { bytes.len() }
    }

    fn take_frames_of(
        &mut self,
        bytes: &[u8],
        service: &impl Service,
        load: &mut Load,
        slice: TimeSlice,
    ) -> usize {
        let mut used = 0;
        self.backlog = true;
        let mut was_long = false;
        for taken in 0..FRAMES_PER_STEP {
            let looks = was_long || taken > 0 && taken % FRAMES_PER_CLOCK_READ == 0;
            if self.state != State::Open || self.is_held_back(load) || looks && slice.is_over() {
                break;
            }
            let step = self.reader.next_within(&bytes[used..], load.expanded_bytes_max());
            let step = match step {
                Ok(step) => step,
                Err(broken) => {
                    self.refuse_all(broken);
                    break;
                }
            };
            used += step.used;
            self.backlog = !matches!(step.arrival, Arrival::Starved);
            self.waits_for_space = matches!(step.arrival, Arrival::HeldBack);
            if !self.backlog || self.waits_for_space {
                break;
            }
            self.arriving = None;
            let (header, body) = match step.arrival {
                Arrival::Starved | Arrival::HeldBack => unreachable!("these are looked at above"),
                Arrival::Frame(header, body) => (header, body),
                Arrival::TooLarge(header, declared) => {
                    self.refuse_large(&header, declared);
                    continue;
                }
                Arrival::PassedOver(header) => {
                    refuse(&mut self.writer, &header, ErrorCode::Overloaded, GIVEN_UP);
                    continue;
                }
                Arrival::Unreadable(header, reason) => {
                    let Connection { writer, .. } = self;
                    refuse(writer, &header, ErrorCode::Protocol, &reason.to_string());
                    continue;
                }
            };
            let body_bytes = body.len();
            let serve = Serve {
                session: &self.session,
                writer: &mut self.writer,
                unanswered: &mut self.unanswered,
                load,
            };
            if let Some(compression) = serve.frame(&header, body, service) {
                self.establish(header.version, compression);
            }
            was_long = service.did_much() || body_bytes > SHORT_BODY_BYTES_MAX;
        }
        used
    }

    /// STARTUP was accepted: from here on both sides speak as it says, and frames may be large.
    fn establish(&mut self, version: Version, compression: Compression) {
        self.reader.establish(version, compression);
        self.writer.establish(version, compression);
        self.reader.set_body_bytes_max(FRAME_BODY_BYTES_MAX);
    }

    #[cold]
    fn refuse_large(&mut self, header: &Header, declared: u64) {
        let limit = match self.session.stage.get() {
            Stage::Ready => FRAME_BODY_BYTES_MAX,
            Stage::Connected => HANDSHAKE_BODY_BYTES_MAX,
        };
        let text = format!(
            "Request is too big: length {declared} exceeds maximum allowed length {limit}."
        );
        refuse(&mut self.writer, header, ErrorCode::Invalid, &text);
    }

    /// The bytes make no sense any more: says so and ends.
    #[cold]
    fn refuse_all(&mut self, broken: Broken) {
        let version = self.session.version.get();
        let (version, stream, reason) = match broken {
            Broken::Header(bad) => (bad.version, bad.stream, bad.reason),
            Broken::Segment(reason) => (version, 0, reason),
        };
        let failure = Failure::Plain(ErrorCode::Protocol);
        let envelope = Envelope::new(version, stream);
        self.writer.frame(|out| envelope.put_error(failure, &reason.to_string(), out));
        self.end();
    }

    /// Appends a late answer, or an event, which answers nothing.
    pub(crate) fn deliver(&mut self, frame: Cow<'_, [u8]>, load: &mut Load) {
        if let Some(bytes) = self.unanswered.take(&frame) {
            load.release(bytes);
        }
        self.writer.whole_frame(frame);
    }

    /// Takes nothing more, and closes when everything is answered and sent.
    pub(crate) fn end(&mut self) {
        if self.state == State::Open {
            self.state = State::Ending;
            self.input = Vec::new();
            // It is not asked for frames any more, and may hold a part of one.
            self.reader = FrameReader::new(Direction::Request, HANDSHAKE_BODY_BYTES_MAX);
        }
    }

    /// Whether everything taken is answered and sent.
    pub(crate) fn is_quiet(&self) -> bool {
        self.unanswered.is_empty() && self.writer.waiting_bytes() == 0
    }

    /// Whether the client has to read, or wait, before it may ask more. While the core has taken on much, a client
    /// waits that has an answer to come: when it has taken that answer it gets its next turn.
    fn is_held_back(&self, load: &Load) -> bool {
        self.writer.waiting_bytes() >= UNSENT_BYTES_MAX
            || self.unanswered.len() >= CONNECTION_REQUESTS_MAX
            || load.holds_back() && !self.is_quiet()
            || self.waits_for_space(load)
    }

    /// Whether its next segment waits until others have taken what they have decompressed, or count less.
    pub(crate) fn waits_for_space(&self, load: &Load) -> bool {
        self.waits_for_space && !load.may_expand()
    }

    /// Now and then: whether its time is up. A frame that does not come whole in time is refused, or ends the
    /// connection if it is not known whose it is.
    pub(crate) fn check_timeouts(&mut self, now: Instant, load: &mut Load) -> Fate {
        if self.is_expired(now, load) {
            return Fate::Drop;
        }
        let waits_for_client = self.state == State::Open
            && self.partial_bytes > 0
            && !self.backlog
            && !self.is_held_back(load);
        if !waits_for_client {
            self.arriving = None;
            return Fate::Keep;
        }
        let since = *self.arriving.get_or_insert(now);
        let timeout = if load.holds_back() { FRAME_TIMEOUT_PRESSED } else { FRAME_TIMEOUT };
        if now.saturating_duration_since(since) < timeout {
            return Fate::Keep;
        }
        self.arriving = None;
        let why = format!("Request not taken: its frame did not come whole within {timeout:?}");
        if self.refuse_partial(&why, load) { Fate::Keep } else { Fate::Drop }
    }

    fn is_expired(&self, now: Instant, load: &Load) -> bool {
        let beyond = |start, limit| now.saturating_duration_since(start) > limit;
        let is_pressed = load.is_pressed(self.partial_bytes);
        let stalled = if is_pressed { PRESSED_TIMEOUT } else { STALLED_TIMEOUT };
        match self.state {
            State::Lingering(since) => beyond(since, LINGER_TIMEOUT),
            _ if self.blocked.is_some_and(|since| beyond(since, stalled)) => true,
            _ => {
                let unfinished = self.session.stage.get() != Stage::Ready;
                unfinished && beyond(self.opened, HANDSHAKE_TIMEOUT)
            }
        }
    }

    /// Ends it: what it counted against the core's limits counts no more. Returns its requests without an answer, which
    /// go on counting.
    pub(crate) fn close(self, load: &mut Load) -> Unanswered {
        load.unsent(self.unsent_bytes, 0);
        load.partial(self.partial_bytes, 0);
        load.expanded(self.expanded_bytes, 0);
        load.kept(self.kept_bytes, 0);
        self.unanswered
    }
}
