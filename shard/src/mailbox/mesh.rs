//! Every core's mailbox from every other: N × N bounded rings, one [`Port`] per core.
//!
//! ```text
//!          to 0   to 1   to 2
//! from 0    ·     ring   ring        port 1 writes row 1 (its outbox)
//! from 1   ring    ·     ring        and reads column 1 (its inbox)
//! from 2   ring   ring    ·
//! ```
//!
//! A pass sends what it has, publishes once, and drains its column within a budget. Each ring has
//! one writer and one reader, so nothing is locked and nothing is compared-and-swapped.
//!
//! Invariants: a full ring gives the item back, so a core never waits for another one inside the
//! mesh; items of one sender arrive in order; a core does not write to itself.
//!
//! Rejected: one many-producer queue per core. Its tail is a line that all cores write, and a slow
//! or dead sender can stall the others in the middle of a push.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::bell::Bell;
use super::ring::{Consumer, Producer, ring};
use crate::limits::{MAILBOX_SLOTS_MAX, MAILBOX_SLOTS_MIN, MAILBOX_SLOTS_PER_CORE};
use crate::owner::ShardId;

/// One core's end of the mesh.
pub struct Port<T> {
    /// What the others sent to this core.
    pub inbox: Inbox<T>,
    /// What this core sends to the others.
    pub outbox: Outbox<T>,
}

/// The reading half of a [`Port`].
pub struct Inbox<T> {
    from: Vec<Option<Consumer<T>>>,
    /// Whose ring is drained first next time, so that a budget starves no peer.
    first: usize,
}

/// The writing half of a [`Port`].
pub struct Outbox<T> {
    me: ShardId,
    to: Vec<Option<Producer<T>>>,
    /// Peers with unpublished items, each once.
    dirty: Vec<usize>,
    bells: Arc<[Bell]>,
}

/// How many items a ring holds in a mesh of `shards` cores.
pub const fn ring_slots(shards: usize) -> usize {
    let slots = (MAILBOX_SLOTS_PER_CORE / shards).next_power_of_two();
    if slots < MAILBOX_SLOTS_MIN {
        MAILBOX_SLOTS_MIN
    } else if slots > MAILBOX_SLOTS_MAX {
        MAILBOX_SLOTS_MAX
    } else {
        slots
    }
}

/// Makes the ports of `shards` cores, in order.
pub fn mesh<T: Send>(shards: usize) -> io::Result<Vec<Port<T>>> {
    mesh_of(shards, ring_slots(shards))
}

fn mesh_of<T: Send>(shards: usize, slots: usize) -> io::Result<Vec<Port<T>>> {
    assert!(shards > 0, "a mesh has a core");
    let bells: Vec<Bell> = (0..shards).map(|_| Bell::new()).collect::<io::Result<_>>()?;
    let bells: Arc<[Bell]> = bells.into();
    let mut ports: Vec<Port<T>> = (0..shards)
        .map(|me| Port {
            inbox: Inbox { from: (0..shards).map(|_| None).collect(), first: 0 },
            outbox: Outbox {
                me: ShardId::new(me),
                to: (0..shards).map(|_| None).collect(),
                dirty: Vec::with_capacity(shards),
                bells: bells.clone(),
            },
        })
        .collect();
    for from in 0..shards {
        for to in (0..shards).filter(|&to| to != from) {
            let (producer, consumer) = ring(slots);
            ports[from].outbox.to[to] = Some(producer);
            ports[to].inbox.from[from] = Some(consumer);
        }
    }
    Ok(ports)
}

impl<T> Outbox<T> {
    /// The core this belongs to.
    pub fn me(&self) -> ShardId {
        self.me
    }

    /// Queues an item for `to`, visible there after [`publish`](Self::publish). A full ring gives
    /// it back.
    #[inline]
    pub fn send(&mut self, to: ShardId, item: T) -> Result<(), T> {
        let producer = self.to[to.index()].as_mut().expect("a core does not write to itself");
        let was_clean = !producer.has_unpublished();
        producer.push(item)?;
        if was_clean {
            self.dirty.push(to.index());
        }
        Ok(())
    }

    /// Makes everything sent visible and wakes the receivers that sleep. One fence for all.
    #[inline]
    pub fn publish(&mut self) {
        if self.dirty.is_empty() {
            return;
        }
        assert!(self.dirty.len() < self.to.len(), "each peer is listed once");
        for &to in &self.dirty {
            self.to[to].as_mut().expect("only peers get dirty").publish();
        }
        fence(Ordering::SeqCst); // step 2 of bell.rs
        for to in self.dirty.drain(..) {
            self.bells[to].ring_if_parked();
        }
    }

    /// Whether something waits for [`publish`](Self::publish).
    pub fn has_unpublished(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The bells of all cores, in order.
    pub fn bells(&self) -> &Arc<[Bell]> {
        &self.bells
    }
}

impl<T> Inbox<T> {
    /// Hands up to `budget` items to `receive`, and says how many there were. `is_over` is asked after each: what is
    /// left then stays where it is.
    #[inline]
    pub fn drain(
        &mut self,
        budget: usize,
        mut receive: impl FnMut(ShardId, T),
        mut is_over: impl FnMut() -> bool,
    ) -> usize {
        let peers = self.from.len();
        let (mut taken, mut ended) = (0, false);
        for step in 0..peers {
            let from = (self.first + step) % peers;
            let Some(consumer) = self.from[from].as_mut() else { continue };
            while taken < budget && !ended {
                let Some(item) = consumer.pop() else { break };
                taken += 1;
                receive(ShardId::new(from), item);
                ended = is_over();
            }
            consumer.release();
        }
        assert!(taken <= budget, "no more is handed out than was asked for");
        self.first = (self.first + 1) % peers.max(1);
        taken
    }

    /// Whether any peer has published something unread.
    #[inline]
    pub fn has_mail(&mut self) -> bool {
        self.from.iter_mut().flatten().any(Consumer::has_items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(index: usize) -> ShardId {
        ShardId::new(index)
    }

    /// An item goes to the core it was sent to, from the core that sent it, and only there.
    #[test]
    fn delivers_to_the_addressee() {
        let mut ports = mesh_of::<(usize, usize)>(3, 4).unwrap();
        for Port { outbox, .. } in &mut ports {
            let from = outbox.me().index();
            for to in (0..3).filter(|&to| to != from) {
                outbox.send(id(to), (from, to)).unwrap();
            }
            assert!(outbox.has_unpublished());
            outbox.publish();
            assert!(!outbox.has_unpublished());
        }
        for (me, port) in ports.iter_mut().enumerate() {
            assert!(port.inbox.has_mail());
            let mut senders = Vec::new();
            let taken = port.inbox.drain(
                100,
                |from, item| {
                    assert_eq!(item, (from.index(), me));
                    senders.push(from.index());
                },
                || false,
            );
            senders.sort_unstable();
            assert_eq!(taken, 2);
            assert_eq!(senders, (0..3).filter(|&s| s != me).collect::<Vec<_>>());
            assert!(!port.inbox.has_mail());
        }
    }

    /// A budget smaller than one sender's mail still lets every sender through in turn.
    #[test]
    fn a_budget_starves_nobody() {
        let mut ports = mesh_of::<u32>(3, 8).unwrap();
        for from in [1, 2] {
            for i in 0..8 {
                ports[from].outbox.send(id(0), i).unwrap();
            }
            ports[from].outbox.publish();
        }
        let mut seen = [0; 3];
        for _ in 0..3 {
            ports[0].inbox.drain(2, |from, _| seen[from.index()] += 1, || false);
        }
        assert!(seen[1] > 0, "{seen:?}");
        assert!(seen[2] > 0, "{seen:?}");
    }

    /// Before: what had come was done in one step, however long it took.
    #[test]
    fn what_is_left_when_the_time_is_over_stays_and_each_sender_has_its_turn() {
        let mut ports = mesh_of::<u32>(3, 8).unwrap();
        for from in [1, 2] {
            (0..8).for_each(|i| ports[from].outbox.send(id(0), i).unwrap());
            ports[from].outbox.publish();
        }
        let mut seen = Vec::new();
        for _ in 0..3 {
            let taken = ports[0].inbox.drain(100, |from, i| seen.push((from.index(), i)), || true);
            assert_eq!(taken, 1, "one at least, or nothing would ever end");
        }
        // The turn of this core itself comes, too, and then the first one's again.
        assert_eq!(seen, [(1, 0), (1, 1), (2, 0)]);
        assert!(ports[0].inbox.has_mail());
        assert_eq!(ports[0].inbox.drain(100, |_, _| (), || false), 13);
    }

    /// A full ring gives back, and the others are untouched.
    #[test]
    fn full_is_per_pair() {
        let mut ports = mesh_of::<u32>(3, 2).unwrap();
        let outbox = &mut ports[0].outbox;
        outbox.send(id(1), 1).unwrap();
        outbox.send(id(1), 2).unwrap();
        assert_eq!(outbox.send(id(1), 3), Err(3));
        outbox.send(id(2), 3).unwrap();
    }

    /// Two threads that always sleep when they see nothing never lose a wake-up.
    #[test]
    fn no_wake_up_is_lost() {
        const ROUNDS: u32 = if cfg!(miri) { 50 } else { 20_000 };
        let mut ports = mesh_of::<u32>(2, 4).unwrap();
        let play = |mut port: Port<u32>, serves: bool| {
            let (me, peer) = (port.outbox.me().index(), id(1 - port.outbox.me().index()));
            let bells = port.outbox.bells().clone();
            if serves {
                port.outbox.send(peer, 0).unwrap();
                port.outbox.publish();
            }
            let mut last = 0;
            while last + 1 < ROUNDS {
                bells[me].park();
                if !port.inbox.has_mail() {
                    bells[me].event().wait();
                }
                bells[me].awake();
                let mut got = None;
                port.inbox.drain(8, |_, n| got = Some(n), || false);
                if let Some(n) = got {
                    last = n;
                    port.outbox.send(peer, n + 1).unwrap();
                    port.outbox.publish();
                }
            }
        };
        let (b, a) = (ports.pop().unwrap(), ports.pop().unwrap());
        let other = std::thread::spawn(move || play(b, false));
        play(a, true);
        other.join().unwrap();
    }

    /// Memory of the mesh stays bounded as cores grow, and no ring gets useless.
    #[test]
    fn ring_sizes_follow_the_core_count() {
        assert_eq!(ring_slots(1), MAILBOX_SLOTS_MAX);
        assert_eq!(ring_slots(2), MAILBOX_SLOTS_MAX);
        assert_eq!(ring_slots(64), 256);
        assert_eq!(ring_slots(1024), MAILBOX_SLOTS_MIN);
    }
}
