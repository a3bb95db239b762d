//! When the next operation is due, and which number a write gets.
//!
//! Closed: as soon as a connection to its shard has a free slot; latency counts from then. That finds
//! the highest throughput, and flatters latency: while the server stalls, the client does not ask.
//!
//! Open: on a fixed schedule, whatever the server does; latency counts from when the operation
//! *should* have been sent, so a stall is felt by everything that should have been sent in it
//! (no coordinated omission: Gil Tene, "How NOT to Measure Latency").
//!
//! A write's number is the clock in µs, moved to a remainder that is the thread's own, so that no two writes of a run
//! have one number. It is the write's timestamp, too. A run ends when the clock has reached its last number (`run.rs`),
//! so that the numbers of later runs are higher.
//!
//! Not here: which operation is next (`workload/source.rs`), when a thread stops drawing (`worker/schedule.rs`).

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};
use crate::workload::Now;

/// The schedule of one client thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As fast as answers come.
    Closed,
    /// One operation each `every_ns`.
    Open {
        /// Between two operations.
        every_ns: f64,
        /// When the next is due.
        next_ns: f64,
        /// How many were due so far and are drawn.
        drawn: u64,
    },
}

impl Pace {
    /// The schedule of thread `thread` of `threads` that together make `rate` operations a second.
    pub fn open(rate: f64, thread: usize, threads: usize) -> Result<Pace> {
        if !(rate.is_finite() && rate > 0.0) {
            return Err(Error::Invalid("--rate must be positive".into()));
        }
        let every_ns = 1e9 * threads as f64 / rate;
        // The threads take turns.
        Ok(Pace::Open { every_ns, next_ns: every_ns * thread as f64 / threads as f64, drawn: 0 })
    }

    /// Takes an operation if one is due: the moment it was meant to be sent.
    #[inline]
    pub fn take(&mut self, now_ns: u64) -> Option<u64> {
        match self {
            Pace::Closed => Some(now_ns),
            Pace::Open { every_ns, next_ns, drawn } => {
                if *next_ns > now_ns as f64 {
                    return None;
                }
                let intended_ns = *next_ns as u64;
                *next_ns += *every_ns;
                *drawn += 1;
                Some(intended_ns)
            }
        }
    }

    /// When something will be due; `None` if that does not depend on time.
    pub fn due_ns(&self) -> Option<u64> {
        match self {
            Pace::Closed => None,
            Pace::Open { next_ns, .. } => Some(*next_ns as u64),
        }
    }

    /// Operations that were due by `now_ns` and never drawn.
    pub fn behind(&self, now_ns: u64) -> u64 {
        match self {
            Pace::Closed => 0,
            Pace::Open { every_ns, next_ns, .. } => {
                let late_ns = now_ns as f64 - next_ns;
                if late_ns < 0.0 { 0 } else { (late_ns / every_ns) as u64 + 1 }
            }
        }
    }
}

/// The time of a run: monotonic, with a wall clock's origin.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    start_us: u64,
}

impl Clock {
    /// A run that begins now.
    pub fn start() -> Clock {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { start: Instant::now(), start_us: since.as_micros() as u64 }
    }

    /// The current moment of the run.
    #[inline]
    pub fn now(&self) -> Now {
        self.at(self.start.elapsed().as_nanos() as u64)
    }

    /// A moment of the run.
    #[inline]
    pub fn at(&self, elapsed_ns: u64) -> Now {
        Now { elapsed_ns, wall_us: self.start_us + elapsed_ns / 1000 }
    }
}

/// Numbers writes so that no two in the run are alike: the clock's µs, rounded up to this thread's
/// residue. A thread that writes faster than its share of the µs runs ahead of the clock.
#[derive(Clone, Copy, Debug)]
pub struct Sequencer {
    last: u64,
    thread: u64,
    threads: u64,
}

impl Sequencer {
    /// The numbers of thread `thread` of `threads`.
    pub fn new(thread: usize, threads: usize) -> Sequencer {
        Sequencer { last: 0, thread: thread as u64, threads: threads as u64 }
    }

    /// The number of the next write.
    #[inline]
    pub fn next(&mut self, wall_us: u64) -> u64 {
        let mine = wall_us - wall_us % self.threads + self.thread;
        self.last = mine.max(self.last + self.threads);
        self.last
    }

    /// The last number given.
    pub fn last(&self) -> u64 {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_pace_keeps_its_schedule_through_a_stall() {
        let mut pace = Pace::open(1000.0, 0, 1).unwrap();
        assert_eq!(pace.take(0), Some(0));
        assert_eq!(pace.take(0), None);
        // Nothing happened for 3 ms: three were due, at their own times.
        let stalled: Vec<u64> = std::iter::from_fn(|| pace.take(3_000_000)).collect();
        assert_eq!(stalled, [1_000_000, 2_000_000, 3_000_000]);
        assert_eq!((pace.behind(3_500_000), pace.behind(6_000_000)), (0, 3));
        assert_eq!(pace.due_ns(), Some(4_000_000));
        assert!(Pace::open(0.0, 0, 1).is_err());
    }

    #[test]
    fn threads_share_the_rate_in_turns() {
        let mut all: Vec<u64> = (0..4)
            .flat_map(|thread| {
                let mut pace = Pace::open(1000.0, thread, 4).unwrap();
                std::iter::from_fn(move || pace.take(9_999_999)).collect::<Vec<_>>()
            })
            .collect();
        all.sort_unstable();
        assert_eq!(all, (0..10).map(|ms| ms * 1_000_000).collect::<Vec<_>>());
    }

    #[test]
    fn numbers_are_unique_and_follow_the_clock() {
        let mut seen = std::collections::BTreeSet::new();
        for thread in 0..3 {
            let mut sequencer = Sequencer::new(thread, 3);
            let mut last = 0;
            for wall_us in [1000, 1000, 1001, 1050, 1049] {
                let number = sequencer.next(wall_us);
                assert!(number > last && seen.insert(number));
                last = number;
            }
            assert!((1048..1056).contains(&last), "{last}");
        }
    }
}
