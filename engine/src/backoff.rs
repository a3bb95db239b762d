//! When a job that has failed is tried again: after two seconds, and then after twice as long each time.
//!
//! Times here are the seconds for which the engine's owner has run. By the wall clock, once that is set back, a failed
//! job would not be due before the clock is where it was. If the owner never says how long it has run, the `now_s` of
//! jobs counts.

use std::cell::Cell;

use crate::engine::Engine;
use crate::limits::{JOB_RETRY_S, JOB_RETRY_S_MAX};

/// The failures of one job in a row.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: Cell<u32>,
    /// Not again before this second.
    due_s: Cell<u32>,
}

impl Backoff {
    /// Whether the job may be tried at this second.
    pub(crate) fn is_due(&self, backoff_clock_s: u32) -> bool {
        self.due_s.get() <= backoff_clock_s
    }

    /// How often the job has failed since it last succeeded.
    pub(crate) fn failures(&self) -> u32 {
        self.failures.get()
    }

    /// Notes how the job ended at this second.
    pub(crate) fn ended<T, E>(&self, result: &Result<T, E>, backoff_clock_s: u32) {
        if result.is_ok() {
            self.failures.set(0);
            self.due_s.set(0);
            return;
        }
        let doubled = JOB_RETRY_S.checked_shl(self.failures.get()).unwrap_or(JOB_RETRY_S_MAX);
        self.failures.set(self.failures.get().saturating_add(1));
        self.due_s.set(backoff_clock_s.saturating_add(doubled.clamp(JOB_RETRY_S, JOB_RETRY_S_MAX)));
    }
}

impl Engine {
    /// Says that the owner has run for `uptime_s` seconds, which decide when a failed job is tried again. Called before
    /// the first job and then about every second; if it never is, the `now_s` of jobs decides.
    pub fn set_uptime_s(&self, uptime_s: u32) {
        self.uptime_s.set(Some(uptime_s));
    }

    /// The second by which failures count, for a job at `now_s` seconds since 1970.
    pub(crate) fn backoff_clock_s(&self, now_s: u32) -> u32 {
        self.uptime_s.get().unwrap_or(now_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_doubles_the_wait_until_the_job_succeeds() {
        let backoff = Backoff::default();
        assert!(backoff.is_due(0));
        let mut waits = Vec::new();
        for _ in 0..40 {
            backoff.ended::<(), ()>(&Err(()), 100);
            waits.push((100..).find(|s| backoff.is_due(*s)).expect("it ends") - 100);
        }
        assert_eq!(waits[..4], [2, 4, 8, 16]);
        assert_eq!(waits[39], JOB_RETRY_S_MAX);
        backoff.ended::<(), ()>(&Ok(()), 100);
        assert!(backoff.is_due(0) && backoff.failures() == 0);
    }
}
