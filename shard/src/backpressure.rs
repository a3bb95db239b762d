//! How a shard slows its writers down: writes that are done and not answered yet, and how long one may wait for space.
//!
//! As memtables fill, the engine asks for a delay that rises smoothly from nothing. The answers of
//! writes are held back for that long, in order, so that clients with a bounded number of requests
//! in flight send no faster than is flushed, and see latency rise before they see errors. While no
//! delay is asked, nothing here is touched.
//!
//! What comes faster all the same waits in the engine until there is space, which has no clock:
//! [`DeferredTimeouts`] says which of those writes have waited too long.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use engine::Result;

/// One finished write: the engine's ticket and the result.
pub(crate) type Finished = (u64, Result<()>);

/// Finished writes and when to answer them, in order.
#[derive(Debug, Default)]
pub(crate) struct DelayedAnswers {
    writes: VecDeque<(Instant, Finished)>,
}

impl DelayedAnswers {
    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Holds writes for `delay` from `now`, and never answers one before those that came earlier.
    pub(crate) fn hold(
        &mut self,
        writes: impl Iterator<Item = Finished>,
        now: Instant,
        delay: Duration,
    ) {
        let earliest = self.writes.back().map_or(now, |(due, _)| *due);
        let due = earliest.max(now + delay);
        self.writes.extend(writes.map(|write| (due, write)));
    }

    /// The oldest write, if its time has come.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Finished> {
        let (due, _) = self.writes.front()?;
        if *due > now {
            return None;
        }
        self.writes.pop_front().map(|(_, write)| write)
    }

    /// How long until the oldest is due; `None` if nothing is held.
    pub(crate) fn due_in(&self, now: Instant) -> Option<Duration> {
        self.writes.front().map(|(due, _)| due.saturating_duration_since(now))
    }
}

/// When writes began to wait for space: what came before a time is told by how many had ever waited.
#[derive(Debug, Default)]
pub(crate) struct DeferredTimeouts {
    counts: VecDeque<(Instant, u64)>,
}

impl DeferredTimeouts {
    /// `count` writes have ever waited for space by `now`: how many of the first ones began to wait at least `most`
    /// ago. Some of these may be done. Asked now and then: a write waits that much longer.
    pub(crate) fn ended(&mut self, now: Instant, count: u64, most: Duration) -> u64 {
        if self.counts.back().is_none_or(|(_, last)| *last < count) {
            self.counts.push_back((now, count));
        }
        let waited = |since: Instant| now.saturating_duration_since(since) >= most;
        let long = self.counts.iter().take_while(|(since, _)| waited(*since)).count();
        let ended = long.checked_sub(1).map_or(0, |last| self.counts[last].1);
        // The last of them tells later calls that none came since.
        self.counts.drain(..long.saturating_sub(1));
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_waits_as_long_as_it_may_and_no_longer() {
        let (start, most, s) = (Instant::now(), Duration::from_secs(5), Duration::from_secs);
        let mut timeouts = DeferredTimeouts::default();
        assert_eq!(timeouts.ended(start, 10, most), 0);
        assert_eq!(timeouts.ended(start + s(1), 25, most), 0);
        assert_eq!(timeouts.ended(start + s(2), 25, most), 0, "none came since");
        assert_eq!(timeouts.ended(start + s(5), 25, most), 10);
        assert_eq!(timeouts.ended(start + s(6), 25, most), 25);
        assert_eq!(timeouts.ended(start + s(60), 30, most), 25, "five are new");
        assert_eq!(timeouts.ended(start + s(65), 30, most), 30);
    }

    fn tickets(held: &mut DelayedAnswers, now: Instant) -> Vec<u64> {
        std::iter::from_fn(|| held.next(now)).map(|(ticket, _)| ticket).collect()
    }

    /// Writes come out in order and not before their time, also when the delay falls.
    #[test]
    fn holds_in_order() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut held = DelayedAnswers::default();
        held.hold([(1, Ok(())), (2, Ok(()))].into_iter(), start, ms(5));
        held.hold([(3, Ok(()))].into_iter(), start + ms(1), ms(0));
        assert_eq!(held.due_in(start + ms(2)), Some(ms(3)));
        assert!(tickets(&mut held, start + ms(4)).is_empty());
        assert_eq!(tickets(&mut held, start + ms(5)), [1, 2, 3]);
        assert!(held.is_empty());
        assert_eq!(held.due_in(start), None);
    }
}
