//! The connections of one client thread: their links, and the slots of the requests in flight.
//!
//! ```text
//! connection := link · shard queue · slot per stream id:  Free ─put─► InFlight ─answer─► Free
//!                                                                       └─timeout─► Abandoned ─answer─► Free
//! ```
//!
//! A slot that was abandoned keeps its stream id until its answer comes or the connection is lost,
//! so no answer can be taken for another's.
//!
//! Invariants
//! 1. A connection has as many slots as requests may be in flight on it; a slot's number is its stream id.
//! 2. One send for each connection on which frames were put. What the socket did not take is sent when it takes more.
//! 3. A lost connection has no link, and no free slot in a queue.
//!
//! Not here: the bytes (`link.rs`), which connection an operation goes to (`queues.rs`), opening one (`handshake.rs`).

use std::time::Duration;

use model::Token;

use crate::client::handshake::Opened;
use crate::client::link::Link;
use crate::client::queues::PendingOp;
use crate::client::sys::{Poller, Ready};
use crate::error::{Error, Result};
use crate::limits::FIELDS_MAX;
use crate::proof::Floor;
use crate::workload::{Op, Verb};

/// What one stream id of a connection is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No request uses it.
    Free,
    /// For a request whose answer is awaited.
    InFlight,
    /// For a request that was given up; its answer may still come.
    Abandoned,
}

/// One stream id of a connection, and the request that uses it.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) state: State,
    pub(super) pending: PendingOp,
    /// When the request was sent, in ns since the start of the run.
    pub(super) sent_ns: u64,
    /// What a read must at least return.
    pub(super) floor: Floor,
}

impl Slot {
    /// A slot that no request uses.
    fn free() -> Slot {
        let op = Op { verb: Verb::Read, key: 0, detail: 0, token: Token(0) };
        let pending = PendingOp { op, sequence: 0, intended_ns: 0, began_ns: 0, attempts: 0 };
        Slot { state: State::Free, pending, sent_ns: 0, floor: [0; FIELDS_MAX] }
    }
}

/// One connection: its link and its slots.
#[derive(Debug)]
pub(super) struct Connection {
    /// The socket and its frames; `None` while the connection is lost.
    pub(super) link: Option<Link>,
    /// The shard it was meant for.
    pub(super) shard: u32,
    /// The shard queue that its slots serve.
    pub(super) queue: usize,
    pub(super) slots: Vec<Slot>,
    /// Stream ids of the free slots.
    pub(super) free: Vec<u16>,
    /// Frames were put that are not sent yet.
    dirty: bool,
    /// The socket takes no more bytes; what is unsent waits.
    stuck: bool,
}

/// What became of a send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The connection is up.
    Ok,
    /// The connection is gone, for this reason.
    Lost(String),
}

/// All connections of a client thread.
#[derive(Debug)]
pub(super) struct Connections {
    pub(super) list: Vec<Connection>,
    poller: Poller,
    ready: Vec<Ready>,
    dirty: Vec<usize>,
    /// Requests whose answers are awaited, on all connections.
    pub(super) in_flight: usize,
}

impl Connections {
    /// No connections yet; an error if the system gives no poller.
    pub(super) fn new() -> Result<Connections> {
        Ok(Connections {
            list: Vec::new(),
            poller: Poller::new()?,
            ready: Vec::new(),
            dirty: Vec::new(),
            in_flight: 0,
        })
    }

    /// Adds a connection meant for `shard`, with `in_flight` free slots that serve `queue`.
    pub(super) fn add(
        &mut self,
        opened: Opened,
        shard: u32,
        queue: usize,
        in_flight: usize,
    ) -> Result<()> {
        let link = self.watched(opened, self.list.len())?;
        self.list.push(Connection {
            link: Some(link),
            shard,
            queue,
            slots: vec![Slot::free(); in_flight],
            free: (0..in_flight as u16).rev().collect(),
            dirty: false,
            stuck: false,
        });
        Ok(())
    }

    /// Gives connection `index`, which was lost, a new link.
    pub(super) fn reopen(&mut self, index: usize, opened: Opened) -> Result<()> {
        let link = self.watched(opened, index)?;
        self.list[index].link = Some(link);
        self.list[index].stuck = false;
        Ok(())
    }

    fn watched(&mut self, opened: Opened, index: usize) -> Result<Link> {
        let mut link = opened.link;
        link.set_nonblocking()?;
        self.poller.add(link.socket(), index)?;
        Ok(link)
    }

    /// Puts one request on connection `index`: `append` gets the stream id and the frame's buffer.
    #[inline]
    pub(super) fn put(
        &mut self,
        index: usize,
        pending: PendingOp,
        sent_ns: u64,
        floor: Floor,
        append: impl FnOnce(u16, &mut Vec<u8>),
    ) {
        let connection = &mut self.list[index];
        let stream = connection.free.pop().expect("a queue gives out only free slots");
        let link = connection.link.as_mut().expect("a lost connection has no free slot in a queue");
        let slot = &mut connection.slots[usize::from(stream)];
        *slot = Slot { state: State::InFlight, pending, sent_ns, floor };
        link.put(|out| append(stream, out));
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(index);
        }
        self.in_flight += 1;
    }

    /// One send for each connection on which frames were put. Gives those that are gone, with the reason.
    pub(super) fn send(&mut self) -> Result<Vec<(usize, String)>> {
        let mut lost = Vec::new();
        let mut dirty = std::mem::take(&mut self.dirty);
        for index in dirty.drain(..) {
            self.list[index].dirty = false;
            if let Sent::Lost(reason) = self.send_on(index)? {
                lost.push((index, reason));
            }
        }
        self.dirty = dirty;
        Ok(lost)
    }

    /// Sends what connection `index` has not sent yet.
    pub(super) fn send_on(&mut self, index: usize) -> Result<Sent> {
        let connection = &mut self.list[index];
        let Some(link) = &mut connection.link else { return Ok(Sent::Ok) };
        match link.send() {
            Ok(stuck) => {
                if stuck != connection.stuck {
                    connection.stuck = stuck;
                    self.poller.watch_writable(link.socket(), index, stuck)?;
                }
                Ok(Sent::Ok)
            }
            Err(Error::Lost(reason)) => Ok(Sent::Lost(reason)),
            Err(error) => Err(error),
        }
    }

    /// Waits until a socket can be read or written, or `timeout` is over.
    pub(super) fn wait(&mut self, timeout: Duration) -> Result<()> {
        let ready = &mut self.ready;
        self.poller.wait(timeout, |one| ready.push(one))?;
        ready.reverse();
        Ok(())
    }

    /// The next socket that the last wait found ready, in the order in which it found them.
    pub(super) fn next_ready(&mut self) -> Option<Ready> {
        self.ready.pop()
    }
}
