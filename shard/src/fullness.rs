//! Whether a core is full: then what computes for long stands aside for requests (`yielder.rs`).
//!
//! ```text
//! has time ─ 100 to 1600 ms ─► full? ─no─► has time (jobs take all that is left)
//!                                └──yes──► full ── 20 ms, jobs keep to their shares ──► full? ..
//! ```
//!
//! A job that does not stand aside fills any core. So a core that seems full is looked at again while jobs stand aside:
//! if it is not full then, they need not, and for twice as long as the last time, for scans alone may fill a core for
//! hours.
//!
//! A core is full if it was busy for 80 % of the time, and requests ran for 10 %. It was busy for the longer of two,
//! without spinning: while its thread had a processor or waited for one, and while it did not sleep. The second counts
//! on a virtual machine: its kernel does not charge a thread for the time in which the host ran others. What tasks took
//! would say too little: the executor and the kernel, which serves its rings, take a fifth of the time and more beside.
//! All jobs of a core ask the same `Fullness`: what one has found the next one knows.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::limits::{FULL_INTERVAL, ROOM_INTERVAL, ROOM_INTERVAL_MAX};

/// A core is full from so many percent of its time on: it sleeps for some microseconds even between many requests.
const FULL_PERCENT: u32 = 80;
/// Requests that take a smaller part of the core have it when they want it.
const SERVED_DIVISOR: u32 = 10;

/// What a core had done at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoreTimes {
    pub(crate) at: Instant,
    /// How long it had worked for clients.
    pub(crate) served: Duration,
    /// How long it had slept because nothing was to be done, by the clock.
    pub(crate) slept: Duration,
    /// How long it had looked for work and found none: in `served`, not in `slept`.
    pub(crate) spun: Duration,
}

impl CoreTimes {
    /// How long the core worked for clients since then.
    pub(crate) fn served_since(&self, then: &CoreTimes) -> Duration {
        self.served.saturating_sub(then.served).saturating_sub(self.spun_since(then))
    }

    fn slept_since(&self, then: &CoreTimes) -> Duration {
        self.slept.saturating_sub(then.slept)
    }

    fn spun_since(&self, then: &CoreTimes) -> Duration {
        self.spun.saturating_sub(then.spun)
    }
}

/// What a core had done when it was judged.
#[derive(Clone, Copy, Debug)]
struct Judged {
    times: CoreTimes,
    /// How long its thread had had a processor or waited for one, including the time in which it spun.
    awake: Duration,
}

impl Judged {
    /// How long the core had work since then.
    fn busy_since(&self, then: &Judged) -> Duration {
        let whole = self.times.at.saturating_duration_since(then.times.at);
        let did_not_sleep = whole.saturating_sub(self.times.slept_since(&then.times));
        let busy = self.awake.saturating_sub(then.awake).max(did_not_sleep);
        busy.saturating_sub(self.times.spun_since(&then.times))
    }
}

/// Of one core.
#[derive(Debug)]
pub(crate) struct Fullness {
    is_full: Cell<bool>,
    /// After how long a core that has time is judged again.
    look_after: Cell<Duration>,
    /// When the core was judged last.
    judged: Cell<Option<Judged>>,
}

impl Default for Fullness {
    fn default() -> Fullness {
        let (is_full, judged) = Default::default();
        Fullness { is_full, look_after: Cell::new(ROOM_INTERVAL), judged }
    }
}

impl Fullness {
    /// Whether the core is full, as it was judged last; it is judged when that is due. `awake` gives how long its thread
    /// has had a processor or waited for one, by two system calls: it is called only when the core is judged.
    pub(crate) fn is_full(&self, times: CoreTimes, awake: impl FnOnce() -> Duration) -> bool {
        let since = |then: &Judged| times.at.saturating_duration_since(then.times.at);
        // While no job asked, the core may have become another one.
        let Some(then) = self.judged.get().filter(|then| since(then) <= 2 * ROOM_INTERVAL_MAX)
        else {
            self.is_full.set(false);
            self.look_after.set(ROOM_INTERVAL);
            self.judged.set(Some(Judged { times, awake: awake() }));
            return false;
        };
        let whole = since(&then);
        let was_full = self.is_full.get();
        let due = if was_full { FULL_INTERVAL } else { self.look_after.get() };
        if whole >= due {
            let now = Judged { times, awake: awake() };
            let is_busy = now.busy_since(&then) * 100 >= whole * FULL_PERCENT;
            let serves = times.served_since(&then.times) * SERVED_DIVISOR >= whole;
            let is_full = is_busy && serves;
            if was_full {
                let longer = (self.look_after.get() * 2).min(ROOM_INTERVAL_MAX);
                self.look_after.set(if is_full { ROOM_INTERVAL } else { longer });
            }
            self.is_full.set(is_full);
            self.judged.set(Some(now));
        }
        self.is_full.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A core over some time, in which it served, was awake, slept and spun for so many percent of each moment.
    struct Core {
        times: CoreTimes,
        awake: Duration,
        fullness: Fullness,
    }

    impl Core {
        fn new() -> Core {
            let (served, awake, slept, spun) = Default::default();
            let times = CoreTimes { at: Instant::now(), served, slept, spun };
            let core = Core { times, awake, fullness: Fullness::default() };
            assert!(!core.fullness.is_full(times, || awake), "nothing is known yet");
            core
        }

        fn after(&mut self, time: Duration, [served, awake, slept, spun]: [u32; 4]) -> bool {
            self.times.at += time;
            self.times.served += time * served / 100;
            self.awake += time * awake / 100;
            self.times.slept += time * slept / 100;
            self.times.spun += time * spun / 100;
            self.fullness.is_full(self.times, || self.awake)
        }
    }

    #[test]
    fn a_core_is_full_from_eight_tenths_of_its_time_on() {
        for (times, is_full) in [
            ([50, 80, 20, 0], true),
            ([50, 79, 21, 0], false),
            ([10, 100, 0, 0], true),
            ([9, 100, 0, 0], false),
            ([50, 100, 0, 30], false),
            ([40, 100, 0, 15], true),
            ([24, 100, 0, 15], false),
        ] {
            assert_eq!(Core::new().after(ROOM_INTERVAL, times), is_full, "{times:?}");
        }
    }

    /// Before: on a host that took a fifth of the time no core was full, and merges took half of what was left.
    #[test]
    fn what_the_host_of_a_virtual_machine_takes_is_no_idle_time() {
        for (times, is_full) in [
            ([40, 55, 5, 0], true),
            ([40, 55, 20, 0], true),
            ([40, 55, 21, 0], false),
            ([40, 55, 5, 20], false),
            ([40, 90, 50, 0], true),
        ] {
            assert_eq!(Core::new().after(ROOM_INTERVAL, times), is_full, "{times:?}");
        }
    }

    #[test]
    fn a_core_that_jobs_filled_is_looked_at_again_while_they_stand_aside() {
        let mut core = Core::new();
        assert!(!core.after(ROOM_INTERVAL - FULL_INTERVAL, [20, 100, 0, 0]), "not due yet");
        assert!(core.after(FULL_INTERVAL, [20, 100, 0, 0]));
        assert!(core.after(FULL_INTERVAL / 2, [20, 40, 60, 0]), "not due yet");
        assert!(!core.after(FULL_INTERVAL / 2, [20, 40, 60, 0]), "it has time");
        assert!(!core.after(ROOM_INTERVAL, [90, 100, 0, 0]), "jobs alone filled it: not due yet");
        assert!(core.after(ROOM_INTERVAL, [90, 100, 0, 0]));
        assert!(core.after(FULL_INTERVAL, [85, 100, 0, 0]), "requests alone fill it");
        assert!(!core.after(FULL_INTERVAL, [20, 40, 60, 0]));
        assert!(core.after(ROOM_INTERVAL * 2, [20, 100, 0, 0]));
        assert!(core.after(FULL_INTERVAL, [85, 100, 0, 0]), "requests fill it again");
    }

    #[test]
    fn the_kernel_is_asked_only_when_the_core_is_judged() {
        let core = Core::new();
        let later = CoreTimes { at: core.times.at + ROOM_INTERVAL / 2, ..core.times };
        assert!(!core.fullness.is_full(later, || panic!("it is not due")));
    }

    #[test]
    fn what_was_judged_long_ago_counts_no_more() {
        let mut core = Core::new();
        for look_after in [1, 2, 4].map(|times| ROOM_INTERVAL * times) {
            assert!(core.after(look_after, [20, 100, 0, 0]));
            assert!(!core.after(FULL_INTERVAL, [20, 40, 60, 0]));
        }
        assert!(!core.after(ROOM_INTERVAL, [90, 100, 0, 0]), "not due for long");
        assert!(!core.after(ROOM_INTERVAL_MAX * 3, [90, 100, 0, 0]), "judged anew");
        assert!(core.after(ROOM_INTERVAL, [90, 100, 0, 0]));
        assert!(!core.after(ROOM_INTERVAL_MAX * 3, [90, 100, 0, 0]), "judged anew");
    }

    /// Before: scans that filled a core alone stood aside for a sixth of the time.
    #[test]
    fn a_core_that_jobs_alone_fill_is_judged_more_and_more_seldom() {
        let (mut core, mut stood_aside) = (Core::new(), Duration::ZERO);
        let (step, whole) = (FULL_INTERVAL, ROOM_INTERVAL_MAX * 10);
        for _ in 0..(whole.as_micros() / step.as_micros()) {
            let stands_aside = core.fullness.is_full.get();
            stood_aside += if stands_aside { step } else { Duration::ZERO };
            core.after(step, if stands_aside { [20, 40, 60, 0] } else { [20, 100, 0, 0] });
        }
        assert!(
            stood_aside <= whole / 30 && !stood_aside.is_zero(),
            "{stood_aside:?} of {whole:?}"
        );
    }
}
