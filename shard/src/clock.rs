//! What time it is on this core: read once a pass, used by everything in it but timestamps.
//!
//! Nothing below reads the kernel's clock: `now` is an argument everywhere. A timestamp that a write did not bring is
//! of its own moment: by the time of the pass a write could lose to one that another core had acknowledged before.
//!
//! ```text
//! core 0   given 7, 8, 9 ──────────┐              ┌─► 13 …
//! core 1   given 7, 8, … 11 ───────┤ divide: 12 ──┤              a change that ends what was written before it
//! core 2   given 7 ────────────────┘              └─► 13 …
//! ```
//!
//! After a start whose data is ahead of the wall clock each core counts up by itself, and none may take the wall clock,
//! or its own count, for the present of all.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossbeam_utils::CachePadded;

/// What the clocks of a node's cores tell each other, in microseconds.
pub struct Clocks {
    /// The largest timestamp that each core gave, or was told of; 0 before the first.
    given_us: Box<[CachePadded<AtomicI64>]>,
    /// What any core gives from now on lies above this.
    floor_us: CachePadded<AtomicI64>,
}

impl Clocks {
    /// Of so many cores.
    pub fn new(cores: usize) -> Arc<Clocks> {
        let given_us = (0..cores).map(|_| CachePadded::new(AtomicI64::new(0))).collect();
        Arc::new(Clocks { given_us, floor_us: CachePadded::new(AtomicI64::new(0)) })
    }

    /// The largest timestamp that any core gave, or was told of; 0 before the first.
    pub fn given_us(&self) -> i64 {
        let given = self.given_us.iter().map(|given| given.load(Ordering::Relaxed));
        given.max().expect("a node has a core")
    }
}

/// The core's two clocks as of the last [`tick`](Clock::tick).
pub struct Clock {
    wall_us: Cell<i64>,
    monotonic: Cell<Instant>,
    /// Nanoseconds since the clock was made, as of the last tick: as `monotonic`, in one number.
    ns: Cell<u64>,
    made: Instant,
    /// Whether somebody has set the wall clock, which then stands still.
    is_set: Cell<bool>,
    /// The last timestamp that this core gave itself, in microseconds, whatever `at_least` says; 0 before the first.
    own_us: Cell<i64>,
    clocks: Arc<Clocks>,
    core: usize,
}

impl Clock {
    /// A clock that has ticked once, of a node with one core.
    pub fn new() -> Clock {
        Clock::of(Clocks::new(1), 0)
    }

    /// The clock of a core: it has ticked once.
    pub fn of(clocks: Arc<Clocks>, core: usize) -> Clock {
        assert!(core < clocks.given_us.len(), "a core of the node");
        let made = Instant::now();
        Clock {
            wall_us: Cell::new(wall_us()),
            monotonic: Cell::new(made),
            ns: Cell::new(0),
            made,
            is_set: Cell::new(false),
            own_us: Cell::new(0),
            clocks,
            core,
        }
    }

    /// Reads both clocks. Once a pass.
    pub fn tick(&self) {
        self.wall_us.set(self.read_wall_us());
        self.is_set.set(false);
        let now = Instant::now();
        self.monotonic.set(now);
        self.ns.set(now.saturating_duration_since(self.made).as_nanos() as u64);
    }

    /// Sets the wall clock until the next tick: of a node that is driven by hand, whose owner moves the time.
    pub fn set_wall_us(&self, wall_us: i64) {
        self.wall_us.set(wall_us);
        self.is_set.set(true);
    }

    /// Microseconds since 1970, as of the last tick. It may step back when the wall clock does.
    #[inline]
    pub fn wall_us(&self) -> i64 {
        self.wall_us.get()
    }

    /// Seconds since 1970, as of the last tick: the clock of TTLs.
    #[inline]
    pub fn wall_s(&self) -> u32 {
        (self.wall_us.get() / 1_000_000) as u32
    }

    /// The monotonic time of the last tick: for time-outs.
    #[inline]
    pub fn monotonic(&self) -> Instant {
        self.monotonic.get()
    }

    /// Nanoseconds from when the clock was made to the last tick: what takes time is told by two of them.
    #[inline]
    pub fn ns(&self) -> u64 {
        self.ns.get()
    }

    /// Nanoseconds since the clock was made: it reads the kernel's clock.
    #[inline]
    pub fn exact_ns(&self) -> u64 {
        self.made.elapsed().as_nanos() as u64
    }

    /// A write timestamp for a statement that brought none: the wall clock, which it reads, but always newer than any
    /// this core gave before, and than any [`dividing_timestamp_us`](Self::dividing_timestamp_us) of the node. What
    /// another core gave before is older, as long as none gives more than one a microsecond.
    #[inline]
    pub fn timestamp_us(&self) -> i64 {
        let (wall_us, last) = self.wall_and_last_us();
        let timestamp = wall_us.max(last + 1);
        assert!(timestamp > last, "a timestamp is given once");
        self.gave(timestamp);
        timestamp
    }

    /// A timestamp for what has an order of its own within one, as positions in lists: the newest that this core gave,
    /// again, unless the wall clock has passed it, or the core was told of a newer one. So a long batch does not run
    /// ahead of the wall clock.
    pub fn newest_timestamp_us(&self) -> i64 {
        let (wall_us, last) = self.wall_and_last_us();
        let timestamp = wall_us.max(if last == self.own_us.get() { last } else { last + 1 });
        self.gave(timestamp);
        timestamp
    }

    /// Reads the wall clock; gives it, and the timestamp that every later one of this core must exceed.
    #[inline]
    fn wall_and_last_us(&self) -> (i64, i64) {
        let wall_us = if self.is_set.get() { self.wall_us.get() } else { self.read_wall_us() };
        let floor = self.clocks.floor_us.load(Ordering::Relaxed);
        (wall_us, self.given_us().max(floor))
    }

    /// The wall clock of now, in microseconds since 1970.
    #[inline]
    fn read_wall_us(&self) -> i64 {
        let wall_us = wall_us();
        if wall_us < self.wall_us.get() {
            self.follow_others();
        }
        wall_us
    }

    /// The wall clock was set back: from now on no core gives what is older than any has given.
    #[cold]
    fn follow_others(&self) {
        self.clocks.floor_us.fetch_max(self.clocks.given_us(), Ordering::Relaxed);
    }

    /// A timestamp that divides what the node gives: it is not older than any that a core gave before, and older than
    /// any that a core gives from now on. For a change that ends what was written before it.
    pub fn dividing_timestamp_us(&self) -> i64 {
        let timestamp = self.timestamp_us().max(self.clocks.given_us());
        self.clocks.floor_us.fetch_max(timestamp, Ordering::Relaxed);
        self.gave(timestamp);
        timestamp
    }

    /// Makes every later [`timestamp_us`](Self::timestamp_us) newer than `timestamp_us`: what was
    /// given before a restart, or read by a conditional write.
    pub fn at_least(&self, timestamp_us: i64) {
        let newest = self.given_us().max(timestamp_us);
        self.clocks.given_us[self.core].store(newest, Ordering::Relaxed);
    }

    /// The largest timestamp that this core gave, or was told of, in microseconds; 0 before the first.
    #[inline]
    fn given_us(&self) -> i64 {
        self.clocks.given_us[self.core].load(Ordering::Relaxed)
    }

    #[inline]
    fn gave(&self, timestamp_us: i64) {
        self.own_us.set(timestamp_us);
        self.clocks.given_us[self.core].store(timestamp_us, Ordering::Relaxed);
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

fn wall_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    since.as_micros() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Timestamps grow even when the clock stands still or the past was ahead of it.
    #[test]
    fn timestamps_never_repeat() {
        let clock = Clock::new();
        clock.set_wall_us(wall_us());
        let first = clock.timestamp_us();
        assert_eq!(first, clock.wall_us());
        assert_eq!(clock.timestamp_us(), first + 1);
        assert_eq!(clock.clocks.given_us(), first + 1);
        assert_eq!([(); 3].map(|()| clock.newest_timestamp_us()), [first + 1; 3]);
        clock.at_least(first + 1_000_000_000);
        assert_eq!(clock.timestamp_us(), first + 1_000_000_001);
        clock.tick();
        assert!(clock.timestamp_us() > first + 1_000_000_001);
        // What it was told of was given elsewhere, or before a restart.
        clock.at_least(first + 2_000_000_000);
        assert_eq!([(); 2].map(|()| clock.newest_timestamp_us()), [first + 2_000_000_001; 2]);
    }

    /// Before: a core whose pass had begun before another's gave the time of its own, and a write that came after one
    /// that was acknowledged lost to it.
    #[test]
    fn a_timestamp_is_newer_than_what_another_core_gave_before() {
        let clocks = Clocks::new(2);
        let [first, second] = [0, 1].map(|core| Clock::of(clocks.clone(), core));
        for clock in [&first, &second].into_iter().cycle().take(100) {
            let before = clocks.given_us();
            while wall_us() <= before {}
            assert!(clock.timestamp_us() > before);
        }
        // Also when the wall clock is set back by hours, as a statement or a tick sees first.
        for (hours, sees) in [
            (1, Clock::timestamp_us as fn(&Clock) -> i64),
            (2, |clock| {
                clock.tick();
                clock.timestamp_us()
            }),
        ] {
            let ahead_us = wall_us() + hours * 3_600_000_000;
            first.at_least(ahead_us);
            second.wall_us.set(ahead_us);
            assert!(sees(&second) > ahead_us, "{hours}");
        }
    }

    /// Before: a column that was dropped by a core that was behind others kept what these had written.
    #[test]
    fn a_dividing_timestamp_lies_between_what_all_cores_gave_and_will_give() {
        let clocks = Clocks::new(3);
        let cores: Vec<Clock> = (0..3).map(|core| Clock::of(clocks.clone(), core)).collect();
        let ahead_us = wall_us() + 1_000_000_000;
        cores[1].at_least(ahead_us);
        let before: Vec<i64> = cores.iter().map(Clock::timestamp_us).collect();
        let divides = cores[0].dividing_timestamp_us();
        assert!(before.iter().all(|given| *given <= divides) && clocks.given_us() == divides);
        assert!(cores.iter().all(|core| core.timestamp_us() > divides));
        assert_eq!(divides, ahead_us + 1, "and not further ahead than it must");
    }
}
