//! One lane per shard: which of its connections has room, and what waits for room.
//!
//! A slot is room for one request on one connection. In a closed loop the slot that came free last
//! is used first, so that a connection goes on with as many requests as were answered on it; in an
//! open loop the one that has been free longest, so that all connections take part.

use crate::limits::PARKED_MAX;
use crate::workload::Op;
use std::collections::VecDeque;

/// An operation that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Due {
    /// What to do.
    pub op: Op,
    /// The number of a write that was sent before; 0 if it has none yet.
    pub sequence: u64,
    /// When it was meant to be sent: its latency counts from here.
    pub intended_ns: u64,
    /// When the read-modify-write that it ends was meant to begin.
    pub began_ns: u64,
    /// How often it was sent already.
    pub attempts: u32,
}

impl Due {
    /// In a closed loop nobody meant an operation to be sent before its shard's connections had room: its latency
    /// counts from now. What was sent before keeps its beginning.
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

/// One shard's share of a client thread.
#[derive(Debug)]
struct Lane {
    /// The connections of free slots, one entry a slot.
    free: VecDeque<usize>,
    parked: VecDeque<Due>,
    paused_until_ns: u64,
}

/// All lanes of a client thread.
#[derive(Debug)]
pub struct Lanes {
    lanes: Vec<Lane>,
    order: Order,
    free: usize,
}

impl Lanes {
    /// Lanes without connections.
    pub fn new(count: usize, order: Order) -> Lanes {
        let lane = || Lane { free: VecDeque::new(), parked: VecDeque::new(), paused_until_ns: 0 };
        Lanes { lanes: (0..count).map(|_| lane()).collect(), order, free: 0 }
    }

    /// `connection` of lane `lane` has room for one more request.
    #[inline]
    pub fn release(&mut self, lane: usize, connection: usize) {
        self.lanes[lane].free.push_back(connection);
        self.free += 1;
    }

    /// Takes room in `lane`: a connection.
    #[inline]
    pub fn acquire(&mut self, lane: usize, now_ns: u64) -> Option<usize> {
        let Lane { free, paused_until_ns, .. } = &mut self.lanes[lane];
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

    /// Forgets the room on a connection that is gone.
    pub fn close(&mut self, lane: usize, connection: usize) {
        let free = &mut self.lanes[lane].free;
        let before = free.len();
        free.retain(|&other| other != connection);
        self.free -= before - free.len();
    }

    /// Whether a new operation should be drawn: there is room, and no lane has too much waiting.
    #[inline]
    pub fn wants_more(&self) -> bool {
        self.free > 0 && self.lanes.iter().all(|lane| lane.parked.len() < PARKED_MAX)
    }

    /// Lets `due` wait for room in `lane`.
    pub fn park(&mut self, lane: usize, due: Due) {
        self.lanes[lane].parked.push_back(due);
    }

    /// Lets `due`, which was sent before, wait at the head of `lane`, and the lane pause.
    pub fn park_again(&mut self, lane: usize, due: Due, pause_until_ns: u64) {
        let lane = &mut self.lanes[lane];
        lane.paused_until_ns = lane.paused_until_ns.max(pause_until_ns);
        lane.parked.push_front(due);
    }

    /// What waits first in `lane`, with the connection that has room for it.
    #[inline]
    pub fn unpark(&mut self, lane: usize, now_ns: u64) -> Option<(Due, usize)> {
        self.lanes[lane].parked.front()?;
        let connection = self.acquire(lane, now_ns)?;
        self.lanes[lane].parked.pop_front().map(|due| (due, connection))
    }

    /// The number of lanes.
    pub fn count(&self) -> usize {
        self.lanes.len()
    }

    /// What waits in all lanes.
    pub fn parked(&self) -> usize {
        self.lanes.iter().map(|lane| lane.parked.len()).sum()
    }

    /// Drops what waits and was never sent; calls `each` with it.
    pub fn drop_unsent(&mut self, mut each: impl FnMut(&Op)) {
        for lane in &mut self.lanes {
            lane.parked.retain(|due| {
                let keep = due.attempts > 0 || due.began_ns < due.intended_ns;
                if !keep {
                    each(&due.op);
                }
                keep
            });
        }
    }

    /// Takes everything that waits.
    pub fn take_parked(&mut self) -> Vec<Due> {
        self.lanes.iter_mut().flat_map(|lane| std::mem::take(&mut lane.parked)).collect()
    }

    /// When the first pause that something waits for is over.
    pub fn wake_ns(&self, now_ns: u64) -> Option<u64> {
        let paused = self.lanes.iter().filter(|lane| lane.paused_until_ns > now_ns);
        paused.map(|lane| lane.paused_until_ns).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Verb;
    use model::Token;

    fn due(key: u64, attempts: u32) -> Due {
        let op = Op { verb: Verb::Read, key, detail: 0, token: Token(0) };
        Due { op, sequence: 0, intended_ns: 0, began_ns: 0, attempts }
    }

    #[test]
    fn room_is_given_in_order_and_forgotten_with_its_connection() {
        for (order, expected) in [(Order::Last, [2, 1, 0]), (Order::First, [0, 1, 2])] {
            let mut lanes = Lanes::new(2, order);
            (0..3).for_each(|connection| lanes.release(0, connection));
            let taken: Vec<_> = std::iter::from_fn(|| lanes.acquire(0, 0)).collect();
            assert_eq!(taken, expected);
            assert_eq!((lanes.acquire(1, 0), lanes.wants_more()), (None, false));
            lanes.release(1, 5);
            lanes.close(1, 5);
            assert!(!lanes.wants_more());
        }
    }

    #[test]
    fn in_a_closed_loop_latency_counts_from_the_sending() {
        let moments = |mut due: Due| {
            due.begin_now(50);
            (due.began_ns, due.intended_ns)
        };
        assert_eq!(moments(Due { began_ns: 10, intended_ns: 10, ..due(1, 0) }), (50, 50));
        let second_half = Due { began_ns: 10, intended_ns: 20, ..due(1, 0) };
        assert_eq!(moments(second_half), (10, 50), "a read-modify-write began before");
        assert_eq!(moments(Due { began_ns: 10, intended_ns: 10, ..due(1, 1) }), (10, 10));
    }

    #[test]
    fn a_full_lane_stops_drawing_and_a_paused_one_waits() {
        let mut lanes = Lanes::new(2, Order::Last);
        lanes.release(0, 0);
        for key in 0..PARKED_MAX as u64 {
            assert!(lanes.wants_more());
            lanes.park(1, due(key, 0));
        }
        assert!(!lanes.wants_more());
        assert_eq!(lanes.unpark(1, 0), None, "no room");
        lanes.release(1, 1);
        lanes.park_again(1, due(99, 1), 500);
        assert_eq!((lanes.unpark(1, 499), lanes.wake_ns(499)), (None, Some(500)));
        assert_eq!(lanes.unpark(1, 500), Some((due(99, 1), 1)));
        assert_eq!(lanes.parked(), PARKED_MAX);
    }

    #[test]
    fn at_the_end_only_what_was_sent_before_goes_on() {
        let mut lanes = Lanes::new(1, Order::Last);
        lanes.park(0, due(1, 0));
        lanes.park(0, due(2, 1));
        let mut dropped = Vec::new();
        lanes.drop_unsent(|op| dropped.push(op.key));
        assert_eq!((dropped, lanes.parked()), (vec![1], 1));
    }
}
