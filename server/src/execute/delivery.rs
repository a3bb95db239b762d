//! How the answer of a read that did not end in its pass comes to the client, or to the core that asked.
//!
//! ```text
//! suspended ─► woken ─► Finished: a frame and its lease ─┬─► the client's connection
//!                                                        └─► the peer that forwarded the request
//! ```
//!
//! Not here: how the frame is made (`read.rs`), how long answers are counted (`answers.rs`).

use shard::Asker;

use super::call::Call;
use super::{Executor, When};
use crate::answers::Lease;
use crate::session::ConnectionId;
use crate::statements::Answered;

/// The connection or the peer that is answered.
pub(super) enum Destination {
    /// A client of this core.
    Client(Call),
    /// Another core, which forwarded its client's request.
    Peer(Asker),
}

/// A read that is done: the frame of its answer.
pub(super) struct Finished {
    /// Who gets it.
    pub(super) to: Destination,
    /// All bytes of the answer.
    pub(super) frame: Vec<u8>,
    /// The part of the frame in the memory of answers.
    pub(super) lease: Lease,
}

impl Executor {
    /// Goes on with the suspended reads whose disk or peers have answered. Once a pass.
    pub(super) fn resume(&self) -> bool {
        self.suspended.run_woken(|finished| self.deliver(finished, When::Later))
    }

    /// Hands over the answer of a read that was suspended.
    pub(super) fn deliver(&self, finished: Finished, when: When) {
        let Finished { to, frame, lease } = finished;
        match to {
            Destination::Client(call) => {
                let answered = Answered::of(&frame);
                self.reply(call.session.id, frame, Some(lease));
                self.finish(call, answered, when);
            }
            Destination::Peer(asker) => {
                self.answer_select(asker, frame, lease);
                // The pass publishes; it may be asleep.
                self.shard.wake().notify();
            }
        }
    }

    /// The lease of an answer in the memory of the core whose client gets it.
    pub(super) fn lease_for(&self, to: &Destination) -> Lease {
        match to {
            Destination::Client(_) => self.answers.lease(),
            Destination::Peer(asker) => self.answers_of[asker.peer().index()].lease(),
        }
    }

    /// Hands over the frame of an answer to a client of this core, with its lease if it has one.
    pub(super) fn reply(&self, to: ConnectionId, frame: Vec<u8>, lease: Option<Lease>) {
        if let Some(frame) = self.replies.hand_over(to, frame, lease) {
            self.frames.put_back(frame);
        }
    }
}
