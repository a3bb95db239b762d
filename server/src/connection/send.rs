//! The answers of a connection, sent: as much as its socket takes, of a long one a chunk in a pass.
//!
//! ```text
//! flush ─► seal ─► write ─┬─ the socket is full ─► an event tells when there is space; blocked since then
//!                         ├─ what was ready is sent ─► the next pass goes on (`can_send`)
//!                         └─ all is sent ─► an ending connection lingers
//! ```
//!
//! Not here: how frames become bytes, and long ones chunks (`cql/src/frame/frame_writer.rs`).

use std::io::{ErrorKind, Write};
use std::net::Shutdown;
use std::time::Instant;

use super::{Connection, Fate, State};
use crate::limits::TAKEN_BYTES_MIN;
use crate::load::Load;

impl Connection {
    /// Makes ready what can be, and sends of that what the socket takes.
    pub(crate) fn flush(&mut self, now: Instant, load: &mut Load) -> Fate {
        self.touched = true;
        self.writer.seal();
        let fate = self.send(now);
        self.count_unsent(load);
        self.count_kept(load);
        fate
    }

    /// Counts its unsent answers: when they are sent, or are not yet.
    pub(crate) fn count_unsent(&mut self, load: &mut Load) {
        let unsent_bytes = self.writer.waiting_bytes();
        load.unsent(self.unsent_bytes, unsent_bytes);
        self.unsent_bytes = unsent_bytes;
    }

    fn send(&mut self, now: Instant) -> Fate {
        while !self.writer.unsent().is_empty() {
            match self.socket.write(self.writer.unsent()) {
                Ok(count) => {
                    self.writer.sent(count);
                    self.taken_bytes += count;
                    self.is_full = false;
                    if self.taken_bytes >= TAKEN_BYTES_MIN {
                        self.blocked = None;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_full = true;
                    if self.blocked.is_none() {
                        (self.blocked, self.taken_bytes) = (Some(now), 0);
                    }
                    return Fate::Keep;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Fate::Drop,
            }
        }
        if !self.has_unsent() {
            self.blocked = None;
        }
        if self.state == State::Ending && self.is_quiet() {
            self.state = State::Lingering(now);
            self.unread = true;
            if self.socket.shutdown(Shutdown::Write).is_err() {
                return Fate::Drop;
            }
        }
        Fate::Keep
    }

    /// Whether more can be sent at once, which no event will tell of.
    pub(crate) fn can_send(&self) -> bool {
        self.has_unsent() && !self.is_full
    }

    /// Whether answers wait to be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        self.writer.waiting_bytes() > 0
    }
}
