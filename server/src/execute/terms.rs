//! The terms of the reads that wait, by whom they are read for: a read ends with its connection.
//!
//! ```text
//! client  Session::reads ◄─ Registered ─► dropped with the read        closed ─► end_of_session
//! peer    PeerTerms ◄────── Registered ─► dropped with the read        Ask::EndSelect ─► end
//! either  Deadlines ◄────── Registered ─► dropped with the read        the deadline has passed ─► wake_late_reads
//! ```
//!
//! Invariant: a term is registered from before its read begins until the read is over.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use hashbrown::HashMap;
use shard::{ShardId, Term};

use super::deadlines::Deadlines;
use crate::session::Session;

/// The terms of reads for other cores, by the asker and its number for the read.
#[derive(Default)]
pub(super) struct PeerTerms(RefCell<HashMap<(ShardId, u32), Rc<Term>>>);

impl PeerTerms {
    /// Nobody waits any more for this read, if it goes on.
    pub(super) fn end(&self, name: (ShardId, u32)) {
        if let Some(term) = self.0.borrow().get(&name) {
            term.end();
        }
    }

    /// The number of reads that go on for other cores.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.borrow().len()
    }
}

/// A term that is registered while its read goes on.
pub(super) struct Registered {
    /// The read's term.
    pub(super) term: Rc<Term>,
    place: Place,
    deadlines: Rc<Deadlines>,
    /// Its slot among the reads that have deadlines.
    slot: usize,
}

enum Place {
    Session(Rc<Session>, usize),
    Peer(Rc<PeerTerms>, (ShardId, u32)),
}

impl Registered {
    /// The term of a read for a client: over at once if the client is.
    pub(super) fn for_client(
        session: &Rc<Session>,
        deadlines: &Rc<Deadlines>,
        deadline: Instant,
    ) -> Registered {
        let term = Term::until(Some(deadline));
        if session.is_over.get() {
            term.end();
        }
        let key = session.reads.borrow_mut().insert(term.clone());
        Registered::until(deadline, term, Place::Session(session.clone(), key), deadlines)
    }

    /// The term of a read for another core.
    pub(super) fn for_peer(
        peers: &Rc<PeerTerms>,
        name: (ShardId, u32),
        deadlines: &Rc<Deadlines>,
        deadline: Instant,
    ) -> Registered {
        let term = Term::until(Some(deadline));
        peers.0.borrow_mut().insert(name, term.clone());
        Registered::until(deadline, term, Place::Peer(peers.clone(), name), deadlines)
    }

    fn until(
        deadline: Instant,
        term: Rc<Term>,
        place: Place,
        deadlines: &Rc<Deadlines>,
    ) -> Registered {
        let slot = deadlines.add_read(deadline, term.clone());
        Registered { term, place, deadlines: deadlines.clone(), slot }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.deadlines.remove_read(self.slot);
        match &self.place {
            Place::Session(session, key) => drop(session.reads.borrow_mut().remove(*key)),
            Place::Peer(peers, name) => drop(peers.0.borrow_mut().remove(name)),
        }
    }
}

/// Ends the reads of a client that is gone, and those that requests of it would still begin.
pub(super) fn end_of_session(session: &Session) {
    session.is_over.set(true);
    session.reads.borrow().iter().for_each(|(_, term)| term.end());
}
