//! When a job that has failed is tried again: after two seconds, and then after twice as long each time.
//!
//! Seconds here are those that the engine's owner runs: the wall clock may be set back, and then what has failed before
//! would not be tried until it is where it was. An owner that does not say how long it runs gives its jobs seconds that
//! do for both.

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
    pub(crate) fn is_due(&self, retry_s: u32) -> bool {
        self.due_s.get() <= retry_s
    }

    /// How often the job has failed since it last succeeded.
    pub(crate) fn failures(&self) -> u32 {
        self.failures.get()
    }

    /// Notes how the job ended at this second.
    pub(crate) fn ended<T, E>(&self, result: &Result<T, E>, retry_s: u32) {
        if result.is_ok() {
            self.failures.set(0);
            self.due_s.set(0);
            return;
        }
        let doubled = JOB_RETRY_S.checked_shl(self.failures.get()).unwrap_or(JOB_RETRY_S_MAX);
        self.failures.set(self.failures.get().saturating_add(1));
        self.due_s.set(retry_s.saturating_add(doubled.clamp(JOB_RETRY_S, JOB_RETRY_S_MAX)));
    }
}

impl Engine {
    /// The owner runs for so many seconds now: they decide when a job that has failed is tried again. To be said before
    /// the first job, and then about every second; if it never is, the seconds that jobs are given decide.
    pub fn set_uptime_s(&self, uptime_s: u32) {
        self.uptime_s.set(Some(uptime_s));
    }

    /// The second by which failures count, for a job at `now_s` since 1970.
    pub(crate) fn retry_s(&self, now_s: u32) -> u32 {
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
