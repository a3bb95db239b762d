//! The turns of a simulated device: the schedule of the real one, for tasks.
//!
//! A request takes a [`Turn`] before it is one, and ends it by dropping it. One whose task is dropped while it waits is
//! forgotten. Nothing here is drawn: a run stays a function of its seed.
//!
//! 1. `take` asks the schedule: the request begins at once, or its waker waits under its key.
//! 2. The drop of a turn ends the request, or takes it out of the queue. Then each request that the schedule names next
//!    is woken.
//!
//! Invariants: a key is in `waiting` from the time it has to wait until its task has seen its turn; a request is ended
//! once.
//!
//! Not here: whose turn it is (`schedule.rs`), the simulated operations (`sim.rs`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use super::class::IoClass;
use super::schedule::{ClassCounts, InFlightLimits, Schedule};

/// Whose turn it is on one simulated machine.
#[derive(Debug)]
pub(super) struct Turns(RefCell<State>);

#[derive(Debug)]
struct State {
    schedule: Schedule<u64>,
    next_key: u64,
    /// Those that wait, and `None` for one whose turn has come.
    waiting: BTreeMap<u64, Option<Waker>>,
}

/// A request's turn, or its place among those that wait.
#[derive(Debug)]
pub(super) struct Turn<'t> {
    turns: &'t Turns,
    class: IoClass,
    key: u64,
}

impl Turns {
    pub(super) fn new() -> Turns {
        let (next_key, waiting) = Default::default();
        Turns(RefCell::new(State { schedule: Schedule::new(), next_key, waiting }))
    }

    pub(super) fn weigh(&self, class: IoClass, shares: usize) {
        self.0.borrow_mut().schedule.weigh(class, shares);
    }

    pub(super) fn limit(&self, limits: InFlightLimits) {
        self.0.borrow_mut().schedule.limit(limits);
    }

    pub(super) fn counts(&self) -> [ClassCounts; IoClass::ALL.len()] {
        self.0.borrow().schedule.counts()
    }

    /// Waits until a request of so many bytes may begin.
    pub(super) async fn take(&self, class: IoClass, bytes: usize) -> Turn<'_> {
        let (key, begins) = {
            let mut state = self.0.borrow_mut();
            let key = state.next_key;
            state.next_key += 1;
            (key, state.schedule.ask(class, bytes as u64, key))
        };
        let turn = Turn { turns: self, class, key };
        if begins {
            return turn;
        }
        self.0.borrow_mut().waiting.insert(key, Some(Waker::noop().clone()));
        poll_fn(|context| {
            let mut state = self.0.borrow_mut();
            let place = state.waiting.get_mut(&key).expect("it waits until its turn is taken");
            match place {
                Some(waker) => {
                    waker.clone_from(context.waker());
                    Poll::Pending
                }
                None => {
                    state.waiting.remove(&key);
                    Poll::Ready(())
                }
            }
        })
        .await;
        turn
    }

    /// Wakes those whose turn has come.
    fn give(&self) {
        let mut state = self.0.borrow_mut();
        while let Some(key) = state.schedule.next() {
            let place = state.waiting.get_mut(&key).expect("what is named waits");
            place.take().expect("it is named once").wake();
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        {
            let mut state = self.turns.0.borrow_mut();
            state.waiting.remove(&self.key);
            if !state.schedule.forget(self.class, self.key) {
                state.schedule.ended(self.class);
            }
        }
        self.turns.give();
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::{block_on, poll_once};

    use super::*;

    /// What waits and is dropped, also after its turn has come, keeps no other waiting.
    #[test]
    fn a_request_that_is_dropped_gives_its_turn_away() {
        block_on(async {
            let turns = Turns::new();
            let begun = turns.take(IoClass::Flush, 1).await;
            let mut dropped = Box::pin(turns.take(IoClass::Compaction, 1));
            let mut named = Box::pin(turns.take(IoClass::Compaction, 1));
            let mut last = Box::pin(turns.take(IoClass::Compaction, 1));
            for waits in [&mut dropped, &mut named, &mut last] {
                assert!(poll_once(waits).await.is_none());
            }
            drop(dropped);
            drop(begun);
            assert!(poll_once(&mut last).await.is_none(), "its turn has not come");
            drop(named);
            assert!(poll_once(&mut last).await.is_some());
        });
    }
}
