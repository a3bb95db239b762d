//! What time it is on this core: read once a pass, used by everything in it.
//!
//! A read of the kernel's clock costs as much as a small request, so nothing below reads it: `now`
//! is an argument everywhere.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The core's two clocks as of the last [`tick`](Clock::tick).
pub struct Clock {
    wall_us: Cell<i64>,
    monotonic: Cell<Instant>,
    last_timestamp_us: Cell<i64>,
}

impl Clock {
    /// A clock that has ticked once.
    pub fn new() -> Clock {
        Clock {
            wall_us: Cell::new(wall_us()),
            monotonic: Cell::new(Instant::now()),
            last_timestamp_us: Cell::new(0),
        }
    }

    /// Reads both clocks. Once a pass.
    pub fn tick(&self) {
        self.wall_us.set(wall_us());
        self.monotonic.set(Instant::now());
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

    /// A write timestamp for a statement that brought none: the wall clock, but always newer than
    /// any this core gave before.
    #[inline]
    pub fn timestamp_us(&self) -> i64 {
        let timestamp = self.wall_us.get().max(self.last_timestamp_us.get() + 1);
        assert!(timestamp > self.last_timestamp_us.get(), "a timestamp is given once");
        self.last_timestamp_us.set(timestamp);
        timestamp
    }

    /// The largest timestamp that this core gave, or was told of, in microseconds; 0 before the first.
    pub fn last_timestamp_us(&self) -> i64 {
        self.last_timestamp_us.get()
    }

    /// Makes every later [`timestamp_us`](Self::timestamp_us) newer than `timestamp_us`: what was
    /// given before a restart, or read by a conditional write.
    pub fn at_least(&self, timestamp_us: i64) {
        self.last_timestamp_us.set(self.last_timestamp_us.get().max(timestamp_us));
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
        let first = clock.timestamp_us();
        assert_eq!(first, clock.wall_us());
        assert_eq!(clock.timestamp_us(), first + 1);
        assert_eq!(clock.last_timestamp_us(), first + 1);
        clock.at_least(first + 1_000_000_000);
        assert_eq!(clock.timestamp_us(), first + 1_000_000_001);
        clock.tick();
        assert!(clock.timestamp_us() > first + 1_000_000_001);
    }
}
