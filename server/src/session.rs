//! What the server knows of one client: from the handshake on, between its requests.
//!
//! A session belongs to the core that accepted its connection and never leaves it. The connection
//! owns the bytes (framing, compression, what is unsent); the session owns the meaning (keyspace,
//! stage, events), and `execute.rs` is the only one to change it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use cql::frame::Version;
use cql::frame::request::EventKinds;
use shard::Term;
use slab::Slab;

use crate::limits::LIST_ENTRIES_KEPT;

/// Which connection of this core; the generation keeps a late answer from its slot's next tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionId {
    /// Index among the core's connections.
    pub(crate) slot: u32,
    /// How often the slot was used before.
    pub(crate) generation: u32,
}

/// The stage of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing but OPTIONS and STARTUP is taken.
    Connected,
    /// Everything is taken.
    Ready,
}

impl Stage {
    /// As `system_views.clients` names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Stage::Connected => "established",
            Stage::Ready => "ready",
        }
    }
}

/// What the server knows of one client.
#[derive(Debug)]
pub(crate) struct Session {
    /// Id of the client's connection.
    pub(crate) id: ConnectionId,
    /// The client's address.
    pub(crate) peer: SocketAddr,
    /// The protocol version of its first frame.
    pub(crate) version: Cell<Version>,
    /// The stage of the handshake.
    pub(crate) stage: Cell<Stage>,
    /// The keyspace that USE chose; `None` before the first.
    pub(crate) keyspace: RefCell<Option<Rc<str>>>,
    /// The options of STARTUP that are known.
    pub(crate) options: RefCell<Arc<BTreeMap<&'static str, String>>>,
    /// The kinds of events that REGISTER asked for.
    pub(crate) events: Cell<EventKinds>,
    /// Number of requests that were taken.
    pub(crate) requests: Cell<u64>,
    /// Whether the client is gone, or sends nothing more: no read is begun for it, and those that wait have ended.
    pub(crate) is_over: Cell<bool>,
    /// Whether its connection is closed: its statements that wait for a turn are not begun.
    pub(crate) is_closed: Cell<bool>,
    /// The terms of its reads that wait.
    pub(crate) reads: RefCell<Slab<Rc<Term>>>,
    /// Where its requests that other cores answer are among those of the core.
    pub(crate) forwarded: RefCell<Slab<u32>>,
}

impl Session {
    /// A session whose connection was just accepted.
    pub(crate) fn new(id: ConnectionId, peer: SocketAddr) -> Session {
        Session {
            id,
            peer,
            version: Cell::new(Version::HIGHEST),
            stage: Cell::new(Stage::Connected),
            keyspace: RefCell::new(None),
            options: RefCell::default(),
            events: Cell::new(EventKinds::default()),
            requests: Cell::new(0),
            is_over: Cell::new(false),
            is_closed: Cell::new(false),
            reads: RefCell::default(),
            forwarded: RefCell::default(),
        }
    }

    /// Bytes of memory that the lists of its requests have, in use or kept for the next ones.
    #[inline]
    pub(crate) fn lists_bytes(&self) -> usize {
        // An entry says beside its value whether it is taken.
        let of_reads = self.reads.borrow().capacity() * 2 * size_of::<Rc<Term>>();
        of_reads + self.forwarded.borrow().capacity() * 2 * size_of::<u32>()
    }

    /// Gives back the memory of these lists where they are empty, if it is much.
    pub(crate) fn give_back(&self) {
        give_back(&mut self.reads.borrow_mut());
        give_back(&mut self.forwarded.borrow_mut());
    }
}

fn give_back<T>(list: &mut Slab<T>) {
    if list.is_empty() && list.capacity() > LIST_ENTRIES_KEPT {
        *list = Slab::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before: after 2,048 reads at a time, the lists of a connection kept 32 KiB each as long as it lived.
    #[test]
    fn lists_of_many_requests_are_given_back_when_these_are_done() {
        let id = ConnectionId { slot: 0, generation: 0 };
        let session = Session::new(id, SocketAddr::from(([127, 0, 0, 1], 1)));
        let places: Vec<usize> =
            (0..2048).map(|place| session.forwarded.borrow_mut().insert(place)).collect();
        session.give_back();
        assert_eq!(session.forwarded.borrow().len(), 2048);
        for place in places {
            session.forwarded.borrow_mut().remove(place);
        }
        assert!(session.lists_bytes() >= 16 << 10);
        session.give_back();
        assert_eq!(session.lists_bytes(), 0);
    }
}
