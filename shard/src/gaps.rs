//! How long a core without work has had to wait for some, lately: whether looking for it pays.
//!
//! A core that sleeps pays for falling asleep and for being woken, some ten microseconds of
//! processor time; a core that spins pays for the whole gap. So it spins only while gaps are about
//! that short. The mean forgets: a burst of work makes a core spin again after a few gaps, and a
//! quiet moment stops it as fast.

use std::cell::Cell;
use std::time::Duration;

use crate::limits::{GAP_COUNTED_MAX, GAP_SPINS_MAX};

/// One part in so many of the mean is the newest gap.
const WEIGHT: u32 = 8;

/// The gaps of one core.
#[derive(Default)]
pub(crate) struct Gaps {
    mean: Cell<Duration>,
}

impl Gaps {
    /// Notes that there was no work for so long.
    #[inline]
    pub(crate) fn note(&self, gap: Duration) {
        let (mean, gap) = (self.mean.get(), gap.min(GAP_COUNTED_MAX));
        self.mean.set(mean - mean / WEIGHT + gap / WEIGHT);
    }

    /// Whether the next gap is expected to be shorter than what a sleep costs.
    #[inline]
    pub(crate) fn are_short(&self) -> bool {
        self.mean.get() <= GAP_SPINS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(gaps: &Gaps, gap_us: u64) -> usize {
        let before = gaps.are_short();
        let change = |count: &usize| {
            gaps.note(Duration::from_micros(gap_us));
            *count > 1000 || gaps.are_short() != before
        };
        (1..).find(change).expect("it ends")
    }

    #[test]
    fn a_core_spins_while_work_comes_fast_and_stops_when_it_does_not() {
        let gaps = Gaps::default();
        assert!(gaps.are_short(), "a core that knows nothing tries");
        assert!(noted(&gaps, 1000) <= 2, "1,000 requests a second: asleep between them");
        assert!(noted(&gaps, 66) > 1000, "15,000 a second: still asleep");
        assert!(noted(&gaps, 5) <= 20, "a saturated core finds its work by looking");
        assert!(noted(&gaps, 10) > 1000, "and goes on so");
        assert!(noted(&gaps, 60_000_000) <= 2, "one long gap counts no more than its bound");
        assert!(noted(&gaps, 5) <= 40, "so it is forgotten soon");
    }
}
