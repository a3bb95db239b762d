//! How a task that computes for long shares the core: it stops by itself, after each slice of its time.
//!
//! ```text
//! slice ─► core has time?  ─yes─► serve the rings, go on          (6 µs in 200, or in 500 if no requests come)
//!                │
//!                └─no──► stand aside until the group's share is not exceeded
//! ```
//!
//! Shares alone do not do it. The executor deals time among queues that are runnable at the same
//! moment, and serves disk and timers only when none is; a background task that merely yielded
//! would be picked fairly and keep the rings waiting. So it sleeps, however shortly, and how long
//! is what makes its weight true: with requests at 1000 and compaction at 100 shares, a full core
//! gives compaction one part in eleven.
//!
//! While requests come a slice is as short as a read's: each of them may find a slice of every job before it, and one
//! that waits for the disk several times.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::groups::Group;
use crate::limits::{PAUSE_MAX, READ_SLICE, SLICE};
use crate::outstanding;
use crate::runtime::Runtime;

/// Requests come if they take 1/200 of the core: some hundred a second.
const REQUESTS_DIVISOR: u32 = 200;

/// The turns of one task that computes for long.
pub struct Yielder {
    runtime: Runtime,
    /// Its part of a core that is full, requests having those of [`Group::Requests`].
    shares: Rc<Cell<usize>>,
    /// The longest slice of its group.
    slice_max: Duration,
    slice: Cell<Duration>,
    slice_began: Cell<Instant>,
    /// When the last turn began, and how long requests had run by then.
    turn: Cell<(Instant, Duration)>,
}

impl Yielder {
    pub(crate) fn new(runtime: Runtime, group: Group) -> Yielder {
        let now = Instant::now();
        let turn = Cell::new((now, served(&runtime)));
        let slice_max = if group == Group::Streaming { READ_SLICE } else { SLICE };
        let shares = Rc::new(Cell::new(group.shares()));
        let (slice, slice_began) = (Cell::new(slice_max), Cell::new(now));
        Yielder { runtime, shares, slice_max, slice, slice_began, turn }
    }

    /// The same with a weight that changes while it works.
    pub(crate) fn weighted(self, shares: Rc<Cell<usize>>) -> Yielder {
        Yielder { shares, ..self }
    }

    /// Ends the slice if it is used up. A clock read: call it every few dozen rows.
    pub async fn yield_if_due(&self) {
        if self.slice_began.get().elapsed() >= self.slice.get() {
            self.pause().await;
        }
    }

    /// Ends the slice and returns when the next may begin.
    async fn pause(&self) {
        let now = Instant::now();
        let (turn_began, served_before) = self.turn.get();
        let turn = Turn {
            own: now - self.slice_began.get(),
            served: served(&self.runtime).saturating_sub(served_before),
            whole: now - turn_began,
        };
        self.turn.set((now, served(&self.runtime)));
        let pause = turn.pause(self.shares.get());
        self.slice.set(turn.next_slice(self.slice_max));
        if pause.is_zero() {
            self.runtime.reap().await
        } else {
            self.runtime.sleep(pause).await
        }
        self.slice_began.set(Instant::now());
    }
}

/// How long the core has worked for people who wait.
fn served(runtime: &Runtime) -> Duration {
    let ran = runtime.runtime_of(Group::Requests) + runtime.runtime_of(Group::Log);
    ran.saturating_sub(outstanding::slept())
}

/// From the end of one slice to the end of the next.
struct Turn {
    own: Duration,
    served: Duration,
    whole: Duration,
}

impl Turn {
    /// The slice after this turn: the longest of its group only if hardly any requests come.
    fn next_slice(&self, slice_max: Duration) -> Duration {
        let requests_come = self.served * REQUESTS_DIVISOR >= self.whole;
        if requests_come { READ_SLICE.min(slice_max) } else { slice_max }
    }

    /// How long to stand aside so that a task of `shares` keeps to them on a core that is full.
    fn pause(&self, shares: usize) -> Duration {
        let full = (self.own + self.served) * 10 >= self.whole * 9;
        let contended = self.served * 10 >= self.whole;
        if !full || !contended {
            return Duration::ZERO;
        }
        let others = Group::Requests.shares() as u32;
        (self.own * others / shares.max(1) as u32).min(PAUSE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause_us(own: u64, served: u64, whole: u64, shares: usize) -> u128 {
        let us = Duration::from_micros;
        Turn { own: us(own), served: us(served), whole: us(whole) }.pause(shares).as_micros()
    }

    /// On a full core the pause makes the share true; on one with time left there is none.
    #[test]
    fn pauses_only_when_the_core_is_full() {
        assert_eq!(pause_us(500, 0, 500, 100), 0, "alone: no task to stand aside for");
        assert_eq!(pause_us(500, 400, 4000, 100), 0, "the core has time");
        assert_eq!(pause_us(500, 5000, 5500, 100), 5000);
        assert_eq!(pause_us(500, 500, 1000, 1000), 500);
        assert_eq!(pause_us(500, 500, 1000, 1), PAUSE_MAX.as_micros());
    }

    #[test]
    fn slices_are_short_while_requests_come() {
        let us = Duration::from_micros;
        let after = |served| Turn { own: us(500), served: us(served), whole: us(1000) };
        assert_eq!(after(0).next_slice(SLICE), SLICE);
        assert_eq!(after(4).next_slice(SLICE), SLICE);
        assert_eq!(after(5).next_slice(SLICE), READ_SLICE);
        assert_eq!(after(500).next_slice(us(100)), us(100), "never longer than its own");
    }

    /// A computing task that yields lets timers fire long before it ends.
    #[test]
    fn timers_fire_beside_a_computing_task() {
        use crate::runtime::{CoreConfig, launch, reap, sleep};
        let core = launch(CoreConfig::new("yielder", None), |runtime| async move {
            let stop = Rc::new(Cell::new(false));
            let (stopped, yielder) = (stop.clone(), runtime.yielder(Group::Compaction));
            runtime.spawn(Group::Compaction, async move {
                while !stopped.get() {
                    yielder.yield_if_due().await;
                }
            });
            sleep(Duration::from_millis(3)).await;
            stop.set(true);
            reap().await;
        });
        core.unwrap().join().unwrap().unwrap();
    }
}
