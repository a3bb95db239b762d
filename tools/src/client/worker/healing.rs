//! What a client thread does when answers do not come: give up, lose, open again, prepare again.
//!
//! A request that is given up keeps its stream until its answer comes, or until the connection is
//! gone. A connection on which nothing is answered any more is as good as gone. Whether a write on
//! a lost connection arrived is not known; it is sent again with the same number, so it is the same
//! write if it arrives twice.

use super::super::books::{After, Reconnects};
use super::{State, Worker};
use crate::error::{Error, Result};
use crate::limits::RECONNECT_NS;
use crate::workload::Now;

impl Worker {
    /// Gives up what was sent before `sent_ns`; its streams stay taken until an answer comes.
    pub(super) fn abandon_older_than(&mut self, sent_ns: u64) {
        for connection in &mut self.connections {
            for slot in &mut connection.slots {
                if slot.state == State::InFlight && slot.sent_ns < sent_ns {
                    slot.state = State::Abandoned;
                    self.in_flight -= 1;
                    self.books.fail(&slot.due.op, "client timeout", "no answer in time");
                }
            }
        }
        // A connection on which nothing is answered any more is as good as lost.
        for index in 0..self.connections.len() {
            let slots = &self.connections[index].slots;
            if slots.iter().all(|slot| slot.state == State::Abandoned) {
                self.lose(index, "no request on it was answered in time");
            }
        }
    }

    /// Opens what was lost and prepares what was forgotten, if the run goes on.
    pub(super) fn heal(&mut self, now: Now) -> Result<()> {
        if now.elapsed_ns < self.reopen_ns {
            return Ok(());
        }
        let lost = self.connections.iter().any(|connection| connection.link.is_none());
        if !lost && !self.unprepared {
            return Ok(());
        }
        let Some(patience_ns) = self.plan.patience_ns.or((!lost).then_some(0)) else {
            return Ok(());
        };
        match self.try_heal() {
            Ok(()) => self.lost_since_ns = None,
            Err(e @ (Error::Lost(_) | Error::Io { .. } | Error::Server { .. })) => {
                self.reopen_ns = now.elapsed_ns + RECONNECT_NS;
                let since_ns = *self.lost_since_ns.get_or_insert(now.elapsed_ns);
                if now.elapsed_ns - since_ns >= patience_ns {
                    return Err(e);
                }
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }

    fn try_heal(&mut self) -> Result<()> {
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            if connection.link.is_some() {
                continue;
            }
            let opened = self.target.open_on(connection.shard, index as u32, &self.topology)?;
            let mut link = opened.link;
            link.set_nonblocking()?;
            self.poller.add(link.socket(), index)?;
            connection.link = Some(link);
            connection.stuck = false;
            for _ in 0..connection.slots.len() {
                self.lanes.release(connection.lane, index);
            }
        }
        if self.unprepared {
            self.prepare()?;
            self.unprepared = false;
        }
        Ok(())
    }

    /// A connection is gone: its requests fail, or are sent again once it is back.
    #[cold]
    pub(super) fn lose(&mut self, index: usize, reason: &str) {
        let reconnects =
            if self.plan.patience_ns.is_some() { Reconnects::Yes } else { Reconnects::No };
        let connection = &mut self.connections[index];
        connection.link = None;
        let lane = connection.lane;
        let streams = connection.slots.len() as u16;
        connection.free = (0..streams).rev().collect();
        let mut again = Vec::new();
        for slot in &mut connection.slots {
            if slot.state == State::InFlight {
                self.in_flight -= 1;
                if let After::Again { due, .. } =
                    self.books.settle_lost(&slot.due, reason, reconnects)
                {
                    again.push(due);
                }
            }
            slot.state = State::Free;
        }
        self.lanes.close(lane, index);
        for due in again {
            self.lanes.park_again(self.lane_of(due.op.token), due, 0);
        }
        if reconnects == Reconnects::No && self.cause.is_none() {
            self.cause = Some(Error::Lost(reason.to_owned()));
        }
    }
}
