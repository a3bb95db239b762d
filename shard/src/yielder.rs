//! How a task that computes for long shares the core: it stops by itself, after each slice of its time.
//!
//! ```text
//! slice ─► core has time?  ─yes─► let others run, go on           (0.1 µs; 6 if something waits for the rings)
//!                │
//!                └─no──► stand aside until the group's share is not exceeded
//! ```
//!
//! Shares alone do not do it. The executor deals time among queues that are runnable at the same moment, and turns to
//! its rings (timers, files that are opened) only when none is. So a job asks at the end of a slice whether something
//! waits there, and sleeps for a moment only then (`Runtime::let_others_run`). On a full core it stands aside for longer,
//! and how long makes its weight true: with requests at 1000 and compaction at 100 shares, a full core gives compaction
//! one part in eleven.
//!
//! Whether the core has time is judged for all jobs together (`fullness.rs`). A slice counts with what its group ran
//! in it: while it waited for the disk or another core, others had the core.
//!
//! While requests come a slice is as short as a read's: each of them may find a slice of every job before it, and one
//! that waits for the disk several times.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::fullness::CoreTimes;
use crate::groups::Group;
use crate::limits::{PAUSE_MAX, READ_SLICE, SLICE};
use crate::runtime::Runtime;

/// Requests come if they take 1/200 of the core: some hundred a second.
const REQUESTS_DIVISOR: u32 = 200;

/// The turns of one task that computes for long.
pub struct Yielder {
    runtime: Runtime,
    group: Group,
    /// Its part of a core that is full, requests having those of [`Group::Requests`]; `None` if it never stands aside.
    shares: Option<Rc<Cell<usize>>>,
    /// The longest slice of its group.
    slice_max: Duration,
    slice: Cell<Duration>,
    slice_began: Cell<Instant>,
    /// What the core had done when the last slice ended, and how long the group had run; `None` before the first.
    turn_began: Cell<Option<(CoreTimes, Duration)>>,
}

impl Yielder {
    pub(crate) fn new(runtime: Runtime, group: Group) -> Yielder {
        let now = Instant::now();
        let slice_max = if group == Group::Streaming { READ_SLICE } else { SLICE };
        // Writers wait for flushes: their requests gain nothing from one that stands aside for them.
        let stands_aside = group != Group::Flush;
        let shares = stands_aside.then(|| Rc::new(Cell::new(group.shares())));
        let (slice, slice_began) = (Cell::new(slice_max), Cell::new(now));
        let turn_began = Cell::new(None);
        Yielder { runtime, group, shares, slice_max, slice, slice_began, turn_began }
    }

    /// The same with a weight that changes while it works.
    pub(crate) fn weighted(self, shares: Rc<Cell<usize>>) -> Yielder {
        Yielder { shares: Some(shares), ..self }
    }

    /// Ends the slice if it is used up. While it is not, one clock read: call this every few dozen rows.
    pub async fn yield_if_due(&self) {
        if self.slice_began.get().elapsed() >= self.slice.get() {
            self.pause().await;
        }
    }

    /// Ends the slice and returns when the next may begin.
    async fn pause(&self) {
        let (now, ran) = (self.runtime.times(), self.runtime.runtime_of(self.group));
        let is_full = self.runtime.is_full(now);
        let pause = match self.turn_began.replace(Some((now, ran))) {
            None => Duration::ZERO,
            Some((began, ran_before)) => {
                let turn = Turn {
                    own: (now.at - self.slice_began.get()).min(ran.saturating_sub(ran_before)),
                    served: now.served_since(&began),
                    whole: now.at - began.at,
                };
                self.slice.set(turn.next_slice(self.slice_max));
                let shares = self.shares.as_ref().filter(|_| is_full);
                shares.map_or(Duration::ZERO, |shares| turn.pause(shares.get()))
            }
        };
        if pause.is_zero() {
            self.runtime.let_others_run(now.at).await
        } else {
            self.runtime.sleep(pause).await
        }
        self.slice_began.set(Instant::now());
    }
}

/// From the end of one slice to the end of the next.
struct Turn {
    /// How long the group ran in the slice, but for its last run: the executor counts a run when it ends, and so in the
    /// slice that follows.
    own: Duration,
    /// How long the core worked for clients.
    served: Duration,
    /// How long the turn took.
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
        let others = Group::Requests.shares() as u32;
        (self.own * others / shares.max(1) as u32).min(PAUSE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flush that stood aside for the writes that waited for it took a load from 60,000 to 43,000 writes a second.
    #[test]
    fn a_flush_never_stands_aside() {
        let core = crate::runtime::CoreConfig::new("flush", None);
        let core = crate::runtime::launch(core, |runtime| async move {
            let stands_aside = |group| runtime.yielder(group).shares.is_some();
            assert_eq!(Group::ALL.map(stands_aside), Group::ALL.map(|group| group != Group::Flush));
        });
        core.unwrap().join().unwrap().unwrap();
    }

    /// The pause makes the share true.
    #[test]
    fn a_pause_is_as_many_slices_as_requests_have_shares_for_one() {
        let pause_us = |own, shares| {
            let (own, whole) = (Duration::from_micros(own), Duration::from_micros(5500));
            Turn { own, served: whole - own, whole }.pause(shares).as_micros()
        };
        assert_eq!((pause_us(500, 100), pause_us(500, 1000), pause_us(0, 100)), (5000, 500, 0));
        assert_eq!(pause_us(500, 1), PAUSE_MAX.as_micros());
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

    /// A computing task that yields lets timers fire long before it ends. If it turned to the rings for none, the
    /// executor's own preemption would do so after 100 ms, hundreds of slices.
    #[test]
    fn timers_fire_beside_a_computing_task() {
        use crate::runtime::{CoreConfig, launch, reap, sleep};
        let core = launch(CoreConfig::new("yielder", None), |runtime| async move {
            let (stop, slices) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
            let (stopped, counted) = (stop.clone(), slices.clone());
            let yielder = runtime.yielder(Group::Compaction);
            runtime.spawn(Group::Compaction, async move {
                while !stopped.get() {
                    let began = Instant::now();
                    while began.elapsed() < SLICE {}
                    counted.set(counted.get() + 1);
                    yielder.yield_if_due().await;
                }
            });
            sleep(Duration::from_millis(3)).await;
            stop.set(true);
            assert!(slices.get() < 40, "{} slices", slices.get());
            reap().await;
        });
        core.unwrap().join().unwrap().unwrap();
    }
}
