//! Whether others want this core: how long its thread was ready to run and had to wait for the processor.
//!
//! The kernel counts that for each thread in `schedstat`. It is read ten times a second, and only by a core that is
//! about to spin. A kernel that does not count says that the core is its own.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use crate::limits::{CONTENTION_INTERVAL, CONTENTION_WAIT_DIVISOR};

/// Whether one core is contended, as the kernel last counted.
pub(crate) struct Contention {
    counter: WaitCounter,
    is_on: Cell<bool>,
    /// When the kernel was last asked, and what it said.
    asked: Cell<(Instant, Duration)>,
}

impl Contention {
    /// The contention of the calling thread, which is not known yet.
    pub(crate) fn new() -> Contention {
        let counter = WaitCounter::of_this_thread();
        let asked = Cell::new((Instant::now(), counter.waited()));
        Contention { counter, is_on: Cell::new(false), asked }
    }

    /// Asks the kernel now and then.
    pub(crate) fn is_on(&self, now: Instant) -> bool {
        let (asked, before) = self.asked.get();
        let past = now.saturating_duration_since(asked);
        if past >= CONTENTION_INTERVAL {
            let waited = self.counter.waited();
            self.is_on.set(is_contended(waited.saturating_sub(before), past));
            self.asked.set((now, waited));
        }
        self.is_on.get()
    }
}

fn is_contended(waited: Duration, past: Duration) -> bool {
    waited * CONTENTION_WAIT_DIVISOR > past
}

/// How long one thread has waited for a processor in all its life, as the kernel counts.
pub(crate) struct WaitCounter(Option<File>);

impl WaitCounter {
    /// The counter of the calling thread.
    pub(crate) fn of_this_thread() -> WaitCounter {
        WaitCounter(File::open("/proc/thread-self/schedstat").ok())
    }

    /// Asks the kernel: a system call. Zero if it does not count.
    pub(crate) fn waited(&self) -> Duration {
        let mut text = [0; 96];
        let length = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
        Duration::from_nanos(wait_ns(text).unwrap_or(0))
    }
}

/// The second of the numbers of a `schedstat`: run ns, wait ns, slices.
fn wait_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_had_to_wait_is_shared() {
        assert_eq!(wait_ns("151724217 3318520 146\n"), Some(3_318_520));
        assert_eq!((wait_ns(""), wait_ns("1 x 2")), (None, None));
        let ms = Duration::from_millis;
        assert!(!is_contended(ms(2), ms(100)) && is_contended(ms(3), ms(100)));
    }

    /// Two threads on one processor: each waits for the other.
    #[test]
    fn rivals_are_noticed() {
        let cpu = crate::os::cpus::allowed().unwrap()[0];
        let seen = std::thread::spawn(move || {
            crate::os::cpus::bind(cpu).unwrap();
            let contention = Contention::new();
            let (stop, until) =
                (std::sync::atomic::AtomicBool::new(false), Duration::from_secs(20));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
                let begun = Instant::now();
                while !contention.is_on(Instant::now()) && begun.elapsed() < until {}
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            let counts = !contention.counter.waited().is_zero();
            contention.is_on.get() || !counts
        });
        assert!(seen.join().unwrap());
    }
}
