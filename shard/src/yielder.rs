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
//! A core is full if its thread had a processor, or waited for one, for 80 % of the time, spinning left out. What its
//! tasks took would say too little: the executor and the kernel, which serves its rings, take a fifth and more beside.
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

/// A core is full from so many percent of its time on: the host of a virtual machine takes some of the rest.
const FULL_PERCENT: u32 = 80;

/// Requests come if they take 1/200 of the core: some hundred a second.
const REQUESTS_DIVISOR: u32 = 200;

/// The turns of one task that computes for long.
pub struct Yielder {
    runtime: Runtime,
    /// Its part of a core that is full, requests having those of [`Group::Requests`]; `None` if it never stands aside.
    shares: Option<Rc<Cell<usize>>>,
    /// The longest slice of its group.
    slice_max: Duration,
    slice: Cell<Duration>,
    slice_began: Cell<Instant>,
    /// What the core had done when the last turn ended; `None` before the first.
    turn_began: Cell<Option<CoreTimes>>,
}

/// What a core had done at a moment.
#[derive(Clone, Copy)]
struct CoreTimes {
    at: Instant,
    /// How long it had worked for clients.
    served: Duration,
    /// How long its thread had had a processor or waited for one.
    awake: Duration,
    /// How long it had looked for work and found none, in `served` and in `awake`.
    spun: Duration,
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
        Yielder { runtime, shares, slice_max, slice, slice_began, turn_began }
    }

    /// The same with a weight that changes while it works.
    pub(crate) fn weighted(self, shares: Rc<Cell<usize>>) -> Yielder {
        Yielder { shares: Some(shares), ..self }
    }

    /// Ends the slice if it is used up. A clock read, and two system calls a slice: call it every few dozen rows.
    pub async fn yield_if_due(&self) {
        if self.slice_began.get().elapsed() >= self.slice.get() {
            self.pause().await;
        }
    }

    /// Ends the slice and returns when the next may begin.
    async fn pause(&self) {
        let now = CoreTimes::now(&self.runtime);
        let pause = match self.turn_began.replace(Some(now)) {
            None => Duration::ZERO,
            Some(began) => {
                let turn = Turn::between(began, now, self.slice_began.get());
                self.slice.set(turn.next_slice(self.slice_max));
                self.shares.as_ref().map_or(Duration::ZERO, |shares| turn.pause(shares.get()))
            }
        };
        if pause.is_zero() {
            self.runtime.reap().await
        } else {
            self.runtime.sleep(pause).await
        }
        self.slice_began.set(Instant::now());
    }
}

impl CoreTimes {
    /// Those of the calling thread. Two system calls.
    fn now(runtime: &Runtime) -> CoreTimes {
        let ran = runtime.runtime_of(Group::Requests) + runtime.runtime_of(Group::Log);
        let served = ran.saturating_sub(outstanding::slept());
        let (awake, spun) = (runtime.stalls().awake(), outstanding::spun());
        CoreTimes { at: Instant::now(), served, awake, spun }
    }
}

/// From the end of one slice to the end of the next.
struct Turn {
    /// How long the slice took.
    own: Duration,
    /// How long the core worked for clients.
    served: Duration,
    /// How long its thread had a processor, or waited for one, and did not spin.
    busy: Duration,
    /// How long the turn took.
    whole: Duration,
}

impl Turn {
    fn between(began: CoreTimes, ended: CoreTimes, slice_began: Instant) -> Turn {
        let spun = ended.spun.saturating_sub(began.spun);
        Turn {
            own: ended.at - slice_began,
            served: ended.served.saturating_sub(began.served).saturating_sub(spun),
            busy: ended.awake.saturating_sub(began.awake).saturating_sub(spun),
            whole: ended.at - began.at,
        }
    }

    /// The slice after this turn: the longest of its group only if hardly any requests come.
    fn next_slice(&self, slice_max: Duration) -> Duration {
        let requests_come = self.served * REQUESTS_DIVISOR >= self.whole;
        if requests_come { READ_SLICE.min(slice_max) } else { slice_max }
    }

    /// How long to stand aside so that a task of `shares` keeps to them on a core that is full.
    fn pause(&self, shares: usize) -> Duration {
        let full = self.busy * 100 >= self.whole * FULL_PERCENT;
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

    fn pause_us([own, served, busy, whole]: [u64; 4], shares: usize) -> u128 {
        let us = Duration::from_micros;
        let turn = Turn { own: us(own), served: us(served), busy: us(busy), whole: us(whole) };
        turn.pause(shares).as_micros()
    }

    /// On a full core the pause makes the share true; on one with time left there is none.
    #[test]
    fn pauses_only_when_the_core_is_full() {
        assert_eq!(pause_us([500, 0, 500, 500], 100), 0, "alone: no task to stand aside for");
        assert_eq!(pause_us([500, 400, 900, 4000], 100), 0, "the core has time");
        assert_eq!(pause_us([500, 5000, 5500, 5500], 100), 5000);
        assert_eq!(pause_us([500, 500, 1000, 1000], 1000), 500);
        assert_eq!(pause_us([500, 500, 1000, 1000], 1), PAUSE_MAX.as_micros());
    }

    /// What another job and the executor take is no time that the core has left.
    #[test]
    fn pauses_on_a_core_that_others_fill() {
        assert_eq!(pause_us([200, 400, 1000, 1000], 100), 2000);
        assert_eq!(pause_us([200, 400, 800, 1000], 100), 2000);
        assert_eq!(pause_us([200, 400, 799, 1000], 100), 0);
    }

    #[test]
    fn a_core_that_spins_is_not_busy_and_serves_no_one() {
        let us = Duration::from_micros;
        let at = Instant::now();
        let times = |us_: [u64; 3], after| {
            let [served, awake, spun] = us_.map(us);
            CoreTimes { at: at + us(after), served, awake, spun }
        };
        let (began, ended) = (times([100, 300, 50], 0), times([700, 1200, 550], 1000));
        let turn = Turn::between(began, ended, at + us(800));
        assert_eq!((turn.own, turn.whole), (us(200), us(1000)));
        assert_eq!((turn.served, turn.busy), (us(100), us(400)));
    }

    #[test]
    fn slices_are_short_while_requests_come() {
        let us = Duration::from_micros;
        let (own, busy, whole) = (us(500), us(1000), us(1000));
        let after = |served| Turn { own, served: us(served), busy, whole };
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
