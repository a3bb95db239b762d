//! The terms of the reads that wait, by whom they are read for: a read ends with its connection.
//!
//! ```text
//! client  Session::reads ◄─ Registered ─► dropped with the read        closed ─► end_of_session
//! peer    PeerTerms ◄────── Registered ─► dropped with the read        Ask::EndSelect ─► end
//! ```
//!
//! Invariant: a term is registered from before its read begins until the read is over.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use hashbrown::HashMap;
use shard::{ShardId, Term};

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

    /// Lets reads find out that their deadlines have passed.
    pub(super) fn wake_late(&self, deadlines: &Deadlines, now: Instant) {
        self.0.borrow().values().for_each(|term| deadlines.wake_if_late(term, now));
    }
}

/// The earliest deadline of all that waits on this core. It may be too early, never too late: what has ended
/// meanwhile is not taken out, but found to be over when its deadline comes.
#[derive(Default)]
pub(super) struct Deadlines(Cell<Option<Instant>>);

impl Deadlines {
    /// Before this nothing is late.
    #[inline]
    pub(super) fn first(&self) -> Option<Instant> {
        self.0.get()
    }

    /// Something waits, at most until then.
    #[inline]
    pub(super) fn add(&self, deadline: Instant) {
        if self.0.get().is_none_or(|first| deadline < first) {
            self.0.set(Some(deadline));
        }
    }

    /// Everything that waits is going to be looked at, and added again.
    pub(super) fn begin(&self) {
        self.0.set(None);
    }

    /// Looks at a read that waits.
    pub(super) fn wake_if_late(&self, term: &Term, now: Instant) {
        term.wake_if_late(now);
        if let Some(deadline) = term.deadline().filter(|deadline| *deadline > now) {
            self.add(deadline);
        }
    }
}

/// A term that is registered while its read goes on.
pub(super) struct Registered {
    /// The read's term.
    pub(super) term: Rc<Term>,
    place: Place,
}

enum Place {
    Session(Rc<Session>, usize),
    Peer(Rc<PeerTerms>, (ShardId, u32)),
}

impl Registered {
    /// The term of a read for a client: over at once if the client is.
    pub(super) fn for_client(session: &Rc<Session>, deadline: Instant) -> Registered {
        let term = Term::until(Some(deadline));
        if session.is_over.get() {
            term.end();
        }
        let key = session.reads.borrow_mut().insert(term.clone());
        Registered { term, place: Place::Session(session.clone(), key) }
    }

    /// The term of a read for another core.
    pub(super) fn for_peer(
        peers: &Rc<PeerTerms>,
        name: (ShardId, u32),
        deadline: Instant,
    ) -> Registered {
        let term = Term::until(Some(deadline));
        peers.0.borrow_mut().insert(name, term.clone());
        Registered { term, place: Place::Peer(peers.clone(), name) }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
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
