//! One queue per shard: the free slots of its connections, and the operations that wait for one.
//!
//! A slot carries one request on one connection. In a closed loop the slot that came free last is used first, so that a
//! connection goes on with as many requests as were answered on it; in an open loop the one that has been free longest,
//! so that all connections take part.
//!
//! ```text
//! drawn ─► queue of its shard ─► a slot is free: sent                         ─► answered: release
//!                              └► none is free: park ─► unpark when one comes free
//! refused for now: park_again at the head, and its queue pauses
//! ```
//!
//! Invariants
//! 1. Operations wait in the order in which they came; one that was sent before goes ahead of them.
//! 2. A shard that no connection reached is served by the queue of another shard.
//! 3. Nothing is drawn while any queue has `PARKED_MAX` operations waiting, so that those of a slow shard do not fill
//!    memory.
//!
//! Not here: when an operation is due (`client/pace.rs`), which shard owns a token (`client/topology.rs`), what follows
//! an answer (`client/recorder.rs`).

use std::collections::VecDeque;

use crate::limits::PARKED_MAX;
use crate::workload::Op;

/// An operation that is to be sent, or was sent and awaits its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PendingOp {
    /// The operation, as the workload drew it.
    pub op: Op,
    /// The number of a write that was sent before; 0 if it has none yet.
    pub sequence: u64,
    /// When it was meant to be sent, in ns since the start of the run: its latency counts from here.
    pub intended_ns: u64,
    /// When the read-modify-write that it ends was meant to begin, in ns since the start of the run.
    pub began_ns: u64,
    /// How many times it was sent already.
    pub attempts: u32,
}

impl PendingOp {
    /// Lets the latency count from `now_ns`: in a closed loop an operation is not due before a slot
    /// is free for it. What was sent before keeps its beginning.
    pub fn begin_now(&mut self, now_ns: u64) {
        if self.attempts > 0 {
            return;
        }
        if self.began_ns == self.intended_ns {
            self.began_ns = now_ns;
        }
        self.intended_ns = now_ns;
    }
}

/// Which free slot is used next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The last that came free.
    Last,
    /// The first that came free.
    First,
}

/// The slots and operations of one shard.
#[derive(Debug)]
struct ShardQueue {
    /// The connections of free slots, one entry a slot.
    free: VecDeque<usize>,
    /// Operations that wait for a slot.
    parked: VecDeque<PendingOp>,
    /// No slot is given out before this, in ns since the start of the run.
    paused_until_ns: u64,
}

/// All queues of a client thread.
#[derive(Debug)]
pub struct ShardQueues {
    queues: Vec<ShardQueue>,
    /// The queue of each shard: its own, or that of another shard if no connection reached it.
    of_shard: Vec<usize>,
    order: Order,
    /// Free slots of all queues.
    free: usize,
}

impl ShardQueues {
    /// Queues of `count` shards, without connections.
    pub fn new(count: usize, order: Order) -> ShardQueues {
        let queue =
            || ShardQueue { free: VecDeque::new(), parked: VecDeque::new(), paused_until_ns: 0 };
        ShardQueues {
            queues: (0..count).map(|_| queue()).collect(),
            of_shard: (0..count).collect(),
            order,
            free: 0,
        }
    }

    /// Frees `in_flight` slots on each connection, one slot of each in turn. `connections` holds the
    /// queue of each connection; a shard whose queue has none is served by another queue.
    pub fn open(&mut self, connections: Vec<usize>, in_flight: usize) {
        let mut served = connections.clone();
        served.sort_unstable();
        served.dedup();
        self.of_shard = (0..self.queues.len())
            .map(|own| if served.contains(&own) { own } else { served[own % served.len()] })
            .collect();
        for _ in 0..in_flight {
            for (connection, &queue) in connections.iter().enumerate() {
                self.release(queue, connection);
            }
        }
    }

    /// The queue that serves `shard`.
    #[inline]
    pub fn of_shard(&self, shard: u32) -> usize {
        self.of_shard[shard as usize]
    }

    /// A slot of `connection`, which serves `queue`, is free.
    #[inline]
    pub fn release(&mut self, queue: usize, connection: usize) {
        self.queues[queue].free.push_back(connection);
        self.free += 1;
    }

    /// Takes a free slot of `queue`: the connection it is on. `None` if there is none, or in a pause.
    #[inline]
    pub fn acquire(&mut self, queue: usize, now_ns: u64) -> Option<usize> {
        let ShardQueue { free, paused_until_ns, .. } = &mut self.queues[queue];
        if *paused_until_ns > now_ns {
            return None;
        }
        let connection = match self.order {
            Order::Last => free.pop_back(),
            Order::First => free.pop_front(),
        };
        self.free -= usize::from(connection.is_some());
        connection
    }

    /// Forgets the free slots of a connection that is lost.
    pub fn close(&mut self, queue: usize, connection: usize) {
        let free = &mut self.queues[queue].free;
        let before = free.len();
        free.retain(|&other| other != connection);
        self.free -= before - free.len();
    }

    /// Whether a new operation should be drawn: a slot is free, and no queue has
    /// `PARKED_MAX` operations waiting.
    #[inline]
    pub fn wants_more(&self) -> bool {
        self.free > 0 && self.queues.iter().all(|queue| queue.parked.len() < PARKED_MAX)
    }

    /// Lets `pending` wait at the end of `queue` for a slot.
    pub fn park(&mut self, queue: usize, pending: PendingOp) {
        self.queues[queue].parked.push_back(pending);
    }

    /// Lets `pending`, which was sent before, wait at the head of `queue`, and the queue pause until
    /// `pause_until_ns`.
    pub fn park_again(&mut self, queue: usize, pending: PendingOp, pause_until_ns: u64) {
        let queue = &mut self.queues[queue];
        queue.paused_until_ns = queue.paused_until_ns.max(pause_until_ns);
        queue.parked.push_front(pending);
    }

    /// The first operation that waits in `queue`, with the connection whose slot it gets.
    #[inline]
    pub fn unpark(&mut self, queue: usize, now_ns: u64) -> Option<(PendingOp, usize)> {
        self.queues[queue].parked.front()?;
        let connection = self.acquire(queue, now_ns)?;
        self.queues[queue].parked.pop_front().map(|pending| (pending, connection))
    }

    /// The number of queues.
    pub fn count(&self) -> usize {
        self.queues.len()
    }

    /// Number of operations that wait in all queues.
    pub fn parked(&self) -> usize {
        self.queues.iter().map(|queue| queue.parked.len()).sum()
    }

    /// Drops the waiting operations that were never sent; calls `each` with each of them.
    pub fn drop_unsent(&mut self, mut each: impl FnMut(&Op)) {
        for queue in &mut self.queues {
            queue.parked.retain(|pending| {
                let keep = pending.attempts > 0 || pending.began_ns < pending.intended_ns;
                if !keep {
                    each(&pending.op);
                }
                keep
            });
        }
    }

    /// Takes all waiting operations.
    pub fn take_parked(&mut self) -> Vec<PendingOp> {
        self.queues.iter_mut().flat_map(|queue| std::mem::take(&mut queue.parked)).collect()
    }

    /// When the first pause ends, in ns since the start of the run; `None` if no queue pauses.
    pub fn wake_ns(&self, now_ns: u64) -> Option<u64> {
        let paused = self.queues.iter().filter(|queue| queue.paused_until_ns > now_ns);
        paused.map(|queue| queue.paused_until_ns).min()
    }
}

#[cfg(test)]
mod tests {
    use model::Token;

    use super::*;
    use crate::workload::Verb;

    fn pending(key: u64, attempts: u32) -> PendingOp {
        let op = Op { verb: Verb::Read, key, detail: 0, token: Token(0) };
        PendingOp { op, sequence: 0, intended_ns: 0, began_ns: 0, attempts }
    }

    #[test]
    fn slots_are_given_in_order_and_forgotten_with_their_connection() {
        for (order, expected) in [(Order::Last, [2, 1, 0]), (Order::First, [0, 1, 2])] {
            let mut queues = ShardQueues::new(2, order);
            (0..3).for_each(|connection| queues.release(0, connection));
            let taken: Vec<_> = std::iter::from_fn(|| queues.acquire(0, 0)).collect();
            assert_eq!(taken, expected);
            assert_eq!((queues.acquire(1, 0), queues.wants_more()), (None, false));
            queues.release(1, 5);
            queues.close(1, 5);
            assert!(!queues.wants_more());
        }
    }

    #[test]
    fn in_a_closed_loop_latency_counts_from_the_sending() {
        let moments = |mut pending: PendingOp| {
            pending.begin_now(50);
            (pending.began_ns, pending.intended_ns)
        };
        assert_eq!(moments(PendingOp { began_ns: 10, intended_ns: 10, ..pending(1, 0) }), (50, 50));
        let second_half = PendingOp { began_ns: 10, intended_ns: 20, ..pending(1, 0) };
        assert_eq!(moments(second_half), (10, 50), "a read-modify-write began before");
        assert_eq!(moments(PendingOp { began_ns: 10, intended_ns: 10, ..pending(1, 1) }), (10, 10));
    }

    #[test]
    fn a_full_lane_stops_drawing_and_a_paused_one_waits() {
        let mut queues = ShardQueues::new(2, Order::Last);
        queues.release(0, 0);
        for key in 0..PARKED_MAX as u64 {
            assert!(queues.wants_more());
            queues.park(1, pending(key, 0));
        }
        assert!(!queues.wants_more());
        assert_eq!(queues.unpark(1, 0), None, "no free slot");
        queues.release(1, 1);
        queues.park_again(1, pending(99, 1), 500);
        assert_eq!((queues.unpark(1, 499), queues.wake_ns(499)), (None, Some(500)));
        assert_eq!(queues.unpark(1, 500), Some((pending(99, 1), 1)));
        assert_eq!(queues.parked(), PARKED_MAX);
    }

    #[test]
    fn at_the_end_only_what_was_sent_before_goes_on() {
        let mut queues = ShardQueues::new(1, Order::Last);
        queues.park(0, pending(1, 0));
        queues.park(0, pending(2, 1));
        let mut dropped = Vec::new();
        queues.drop_unsent(|op| dropped.push(op.key));
        assert_eq!((dropped, queues.parked()), (vec![1], 1));
    }
}
