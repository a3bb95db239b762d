//! Requests whose connections are gone: they count against their core's limits until they are answered.
//!
//! ```text
//! a connection is closed ─► its requests without an answer ─► each answer, which goes nowhere, takes one out
//! ```
//!
//! What was taken of a client is answered, also when the client has gone: a task that waits for its turn has memory. If
//! it counted no more, a client could ask, go and come again without an end.
//!
//! Invariant: every request that was taken is answered once (`connection.rs`), so each leaves here.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::connection::take_answered;
use crate::load::Load;
use crate::session::ConnectionId;

/// See the module.
#[derive(Default)]
pub(crate) struct Orphans {
    of_connections: HashMap<ConnectionId, VecDeque<(i16, u32)>, foldhash::fast::RandomState>,
}

impl Orphans {
    /// Takes the requests that a connection leaves: stream, and what each counts.
    pub(crate) fn add(&mut self, id: ConnectionId, waiting: VecDeque<(i16, u32)>) {
        if !waiting.is_empty() {
            self.of_connections.insert(id, waiting);
        }
    }

    /// The frame of an answer has come for a connection that is gone.
    pub(crate) fn answered(&mut self, id: ConnectionId, frame: &[u8], load: &mut Load) {
        // What comes for others is an event.
        let Some(waiting) = self.of_connections.get_mut(&id) else { return };
        if let Some(bytes) = take_answered(waiting, frame) {
            load.release(bytes);
        }
        if waiting.is_empty() {
            self.of_connections.remove(&id);
        }
    }
}
