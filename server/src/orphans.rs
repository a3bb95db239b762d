//! Orphans: requests whose connection was closed before their answers. They count against their core's limits until
//! they are answered.
//!
//! ```text
//! a connection is closed ─► its requests without an answer ─► each answer, which goes nowhere, takes one out
//! ```
//!
//! What was taken of a client is answered, also when the client has gone: a task that waits for its turn has memory. If
//! it counted no more, a client could ask, go and come again without an end.
//!
//! Invariant: every request that was taken is answered once (`unanswered.rs`), so each leaves here.

use hashbrown::HashMap;

use crate::load::Load;
use crate::session::ConnectionId;
use crate::unanswered::Unanswered;

/// The orphans of one core.
#[derive(Default)]
pub(crate) struct Orphans {
    of_connections: HashMap<ConnectionId, Unanswered, foldhash::fast::RandomState>,
}

impl Orphans {
    /// Takes the requests of a connection that was closed.
    pub(crate) fn add(&mut self, id: ConnectionId, unanswered: Unanswered) {
        if !unanswered.is_empty() {
            self.of_connections.insert(id, unanswered);
        }
    }

    /// The frame of an answer, or of an event, has come for a connection that was closed.
    pub(crate) fn answered(&mut self, id: ConnectionId, frame: &[u8], load: &mut Load) {
        // What comes for a connection that left no requests is an event.
        let Some(unanswered) = self.of_connections.get_mut(&id) else { return };
        if let Some(bytes) = unanswered.take(frame) {
            load.release(bytes);
        }
        if unanswered.is_empty() {
            self.of_connections.remove(&id);
        }
    }
}
