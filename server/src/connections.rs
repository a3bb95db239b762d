//! The connections of one core: slots, each with how often it was used.
//!
//! A late answer and an event of the poller name slot and generation, so neither reaches the next
//! tenant of a slot. Three lists ride along: who is to be served in the next pass, who has
//! something to send, and who waits for space; a connection is in each at most once.
//!
//! Invariants
//! 1. The generation of a slot grows when its connection is removed, so an id that was given before finds nothing.
//! 2. A mark (`to_serve`, `to_flush`, `waits`) is set if the connection's id is in the list of that name. A list may also have
//!    ids of connections that are removed since: the caller finds no connection for such an id, and goes on.
//! 3. `take_to_serve` and `take_to_flush` empty a list and its marks, so a connection that is named again meanwhile is
//!    in the list of the next pass.
//!
//! Not here: the state of one connection (`connection.rs`), the order of a pass (`pass.rs`), the frames of late answers
//! (`replies.rs`).

use std::collections::VecDeque;

use crate::connection::Connection;
use crate::session::ConnectionId;

/// See the module.
#[derive(Default)]
pub(crate) struct Connections {
    slots: Vec<Slot>,
    free: Vec<u32>,
    serve: Vec<ConnectionId>,
    flush: Vec<ConnectionId>,
    waiting: VecDeque<ConnectionId>,
}

struct Slot {
    generation: u32,
    connection: Option<Connection>,
    to_serve: bool,
    to_flush: bool,
    waits: bool,
}

impl Connections {
    /// The number of open connections.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds the connection that `make` makes of its id.
    pub(crate) fn insert(&mut self, make: impl FnOnce(ConnectionId) -> Connection) -> ConnectionId {
        let slot = self.free.pop().unwrap_or_else(|| {
            let (to_serve, to_flush, waits) = (false, false, false);
            self.slots.push(Slot { generation: 0, connection: None, to_serve, to_flush, waits });
            self.slots.len() as u32 - 1
        });
        let place = &mut self.slots[slot as usize];
        let id = ConnectionId { slot, generation: place.generation };
        place.connection = Some(make(id));
        id
    }

    /// The connection of that id, if it still is.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation == id.generation { slot.connection.as_mut() } else { None }
    }

    /// Takes a connection out.
    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        let connection = slot.connection.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        (slot.to_serve, slot.to_flush, slot.waits) = (false, false, false);
        self.free.push(id.slot);
        Some(connection)
    }

    /// The first one from a slot on.
    pub(crate) fn first_from(&self, slot: u32) -> Option<ConnectionId> {
        let mut slots = self.slots.iter().enumerate().skip(slot as usize);
        let (slot, place) = slots.find(|(_, slot)| slot.connection.is_some())?;
        Some(ConnectionId { slot: slot as u32, generation: place.generation })
    }

    /// The ids of all.
    pub(crate) fn ids(&self) -> Vec<ConnectionId> {
        let used = self.slots.iter().enumerate().filter(|(_, slot)| slot.connection.is_some());
        used.map(|(slot, place)| ConnectionId { slot: slot as u32, generation: place.generation })
            .collect()
    }

    /// Asks for a turn in the next pass.
    #[inline]
    pub(crate) fn serve(&mut self, id: ConnectionId) {
        if let Some(slot) = self.slots.get_mut(id.slot as usize)
            && slot.generation == id.generation
            && !std::mem::replace(&mut slot.to_serve, true)
        {
            self.serve.push(id);
        }
    }

    /// Asks to be flushed at the end of the pass.
    #[inline]
    pub(crate) fn flush(&mut self, id: ConnectionId) {
        if let Some(slot) = self.slots.get_mut(id.slot as usize)
            && slot.generation == id.generation
            && !std::mem::replace(&mut slot.to_flush, true)
        {
            self.flush.push(id);
        }
    }

    /// Lets a connection wait until there is space for what it would decompress.
    pub(crate) fn wait_for_space(&mut self, id: ConnectionId) {
        if let Some(slot) = self.slots.get_mut(id.slot as usize)
            && slot.generation == id.generation
            && !std::mem::replace(&mut slot.waits, true)
        {
            self.waiting.push_back(id);
        }
    }

    /// There is space: so many of those that wait for it at most get a turn in the next pass.
    pub(crate) fn serve_waiting(&mut self, most: usize) {
        let mut served = 0;
        while served < most {
            let Some(id) = self.waiting.pop_front() else { return };
            let slot = &mut self.slots[id.slot as usize];
            // Not of the next tenant, who may wait as well.
            if slot.generation == id.generation {
                slot.waits = false;
                self.serve(id);
                served += 1;
            }
        }
    }

    /// Whether somebody asked for a turn.
    pub(crate) fn any_to_serve(&self) -> bool {
        !self.serve.is_empty()
    }

    /// Whether somebody is to be flushed.
    pub(crate) fn any_to_flush(&self) -> bool {
        !self.flush.is_empty()
    }

    /// Moves the list of those to serve into `list`.
    pub(crate) fn take_to_serve(&mut self, list: &mut Vec<ConnectionId>) {
        list.append(&mut self.serve);
        for id in list.iter() {
            self.slots[id.slot as usize].to_serve = false;
        }
    }

    /// Moves the list of those to flush into `list`.
    pub(crate) fn take_to_flush(&mut self, list: &mut Vec<ConnectionId>) {
        list.append(&mut self.flush);
        for id in list.iter() {
            self.slots[id.slot as usize].to_flush = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::rc::Rc;
    use std::time::Instant;

    use super::*;
    use crate::session::Session;

    fn insert(connections: &mut Connections) -> ConnectionId {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let peer = socket.local_addr().unwrap();
        connections
            .insert(|id| Connection::new(socket, Rc::new(Session::new(id, peer)), Instant::now()))
    }

    #[test]
    fn a_slot_forgets_its_last_tenant() {
        let mut connections = Connections::default();
        let first = insert(&mut connections);
        connections.serve(first);
        connections.serve(first);
        assert!(connections.remove(first).is_some());
        assert!(connections.remove(first).is_none());
        let second = insert(&mut connections);
        assert_eq!((first.slot, connections.len()), (second.slot, 1));
        assert!(connections.get_mut(first).is_none());
        connections.serve(first);
        connections.serve(second);
        connections.flush(second);
        let mut list = Vec::new();
        connections.take_to_serve(&mut list);
        assert_eq!(list, [first, second], "once each; the one that is gone will not be found");
        list.clear();
        connections.take_to_flush(&mut list);
        assert_eq!(list, [second]);
        assert_eq!(connections.ids(), [second]);
        assert_eq!([0, 1].map(|slot| connections.first_from(slot)), [Some(second), None]);
    }
}
