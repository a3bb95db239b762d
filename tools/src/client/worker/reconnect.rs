//! What a client thread does when answers do not come: give up, lose, connect again, prepare again.
//!
//! A request that is given up keeps its stream until its answer comes, or until the connection is gone. A connection on
//! which no request is answered any more counts as lost. Whether a write on a lost connection arrived is not known; it
//! is sent again with the same number, so it is the same write if it arrives twice.
//!
//! Invariants
//! 1. Without `--reconnect` the first lost connection ends the run. With it, the run ends when no try has succeeded for
//!    that time.
//! 2. Nothing is sent while the statements are not prepared. What the server has forgotten is prepared again also
//!    without `--reconnect`, in one try.
//! 3. A lost connection keeps its shard, its queue and its slots: they are free when it is open again.
//!
//! Not here: whether an attempt may be sent again (`client/recorder.rs`), opening one connection
//! (`client/handshake.rs`).

use super::connections::State;
use super::{Server, Worker};
use crate::client::recorder::{NextStep, Reconnects};
use crate::error::{Error, Result};
use crate::limits::RECONNECT_NS;
use crate::workload::Now;

/// How far a client thread is in getting lost connections back.
#[derive(Debug)]
pub(super) struct Recovery {
    /// How long to try, in ns; `None` ends the run at the first loss.
    pub(super) patience_ns: Option<u64>,
    /// Not before this is the next try, in ns since the start of the run.
    next_try_ns: u64,
    /// Since when tries have failed, in ns since the start of the run.
    failing_since_ns: Option<u64>,
    /// Why the run ends early.
    pub(super) cause: Option<Error>,
}

impl Recovery {
    /// Nothing is lost yet.
    pub(super) fn new(patience_ns: Option<u64>) -> Recovery {
        Recovery { patience_ns, next_try_ns: 0, failing_since_ns: None, cause: None }
    }

    fn reconnects(&self) -> Reconnects {
        if self.patience_ns.is_some() { Reconnects::Yes } else { Reconnects::No }
    }
}

impl Worker {
    /// Gives up what was sent before `sent_ns`; its streams stay taken until an answer comes.
    pub(super) fn abandon_older_than(&mut self, sent_ns: u64) {
        for connection in &mut self.connections.list {
            for slot in &mut connection.slots {
                if slot.state == State::InFlight && slot.sent_ns < sent_ns {
                    slot.state = State::Abandoned;
                    self.connections.in_flight -= 1;
                    self.recorder.abandon(&slot.pending);
                }
            }
        }
        for index in 0..self.connections.list.len() {
            let slots = &self.connections.list[index].slots;
            if slots.iter().all(|slot| slot.state == State::Abandoned) {
                self.lose(index, "no request on it was answered in time");
            }
        }
    }

    /// Opens what was lost and prepares what was forgotten, if the run goes on.
    pub(super) fn reconnect(&mut self, now: Now) -> Result<()> {
        if now.elapsed_ns < self.recovery.next_try_ns {
            return Ok(());
        }
        let lost = self.connections.list.iter().any(|connection| connection.link.is_none());
        if !lost && !self.server.unprepared {
            return Ok(());
        }
        let Some(patience_ns) = self.recovery.patience_ns.or((!lost).then_some(0)) else {
            return Ok(());
        };
        match self.try_reconnect() {
            Ok(()) => self.recovery.failing_since_ns = None,
            Err(error @ (Error::Lost(_) | Error::Io { .. } | Error::Server { .. })) => {
                self.recovery.next_try_ns = now.elapsed_ns + RECONNECT_NS;
                let since_ns = *self.recovery.failing_since_ns.get_or_insert(now.elapsed_ns);
                if now.elapsed_ns - since_ns >= patience_ns {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn try_reconnect(&mut self) -> Result<()> {
        let Worker { connections, queues, server, .. } = self;
        let Server { target, topology, .. } = &*server;
        for index in 0..connections.list.len() {
            let connection = &connections.list[index];
            if connection.link.is_some() {
                continue;
            }
            let (queue, slots) = (connection.queue, connection.slots.len());
            let opened = target.open_on(connection.shard, index as u32, topology)?;
            connections.reopen(index, opened)?;
            for _ in 0..slots {
                queues.release(queue, index);
            }
        }
        if server.unprepared {
            server.prepare(&*self.recorder.workload.rule)?;
        }
        Ok(())
    }

    /// A connection is gone: its requests fail, or are sent again once it is back.
    #[cold]
    pub(super) fn lose(&mut self, index: usize, reason: &str) {
        let reconnects = self.recovery.reconnects();
        let connection = &mut self.connections.list[index];
        connection.link = None;
        let queue = connection.queue;
        let streams = connection.slots.len() as u16;
        connection.free = (0..streams).rev().collect();
        let mut again = Vec::new();
        for slot in &mut connection.slots {
            if slot.state == State::InFlight {
                self.connections.in_flight -= 1;
                let step = self.recorder.settle_lost(&slot.pending, reason, reconnects);
                if let NextStep::Again { pending, .. } = step {
                    again.push(pending);
                }
            }
            slot.state = State::Free;
        }
        self.queues.close(queue, index);
        for pending in again {
            self.queues.park_again(self.queue_of(pending.op.token), pending, 0);
        }
        if reconnects == Reconnects::No && self.recovery.cause.is_none() {
            self.recovery.cause = Some(Error::Lost(reason.to_owned()));
        }
    }
}
