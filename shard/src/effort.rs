//! How much a core has done since it last looked at the clock, as an estimate: a clock read for each short request
//! would cost more than it tells.

use std::cell::Cell;

use crate::limits::{EFFORT_BYTES, EFFORT_PER_CLOCK_READ, EFFORT_ROWS};

/// Units of work since the clock was looked at: a short message or request is one.
#[derive(Debug, Default)]
pub struct Effort {
    units: Cell<u32>,
}

impl Effort {
    /// Notes a message.
    #[inline]
    pub(crate) fn message(&self) {
        self.add(1);
    }

    /// Notes what may take long: the clock is looked at next.
    pub fn long(&self) {
        self.units.set(EFFORT_PER_CLOCK_READ);
    }

    /// Notes rows, or something that takes as long each.
    #[inline]
    pub fn rows(&self, rows: u64) {
        self.add(rows / EFFORT_ROWS);
    }

    /// Notes bytes that were copied or looked at.
    #[inline]
    pub fn bytes(&self, bytes: usize) {
        self.add(bytes as u64 / EFFORT_BYTES);
    }

    /// Notes what evaluating expressions took, in units of work of some nanoseconds each (`cql/src/expr/work.rs`).
    #[inline]
    pub fn expressions(&self, units: u64) {
        self.add(units / EFFORT_BYTES);
    }

    /// Whether the clock is to be looked at: then what comes next is counted from nothing.
    #[inline]
    pub fn is_due(&self) -> bool {
        let is_due = self.units.get() >= EFFORT_PER_CLOCK_READ;
        if is_due {
            self.units.set(0);
        }
        is_due
    }

    #[inline]
    fn add(&self, units: u64) {
        let units = u32::try_from(units).unwrap_or(EFFORT_PER_CLOCK_READ);
        self.units.set(self.units.get().saturating_add(units));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_looked_at_after_some_short_messages_or_one_long_one() {
        let effort = Effort::default();
        for _ in 0..3 {
            let looks = (1..=EFFORT_PER_CLOCK_READ).filter(|_| {
                effort.message();
                effort.is_due()
            });
            assert_eq!(looks.count(), 1);
        }
        effort.long();
        assert!(effort.is_due() && !effort.is_due());
        effort.rows(EFFORT_ROWS * u64::from(EFFORT_PER_CLOCK_READ));
        assert!(effort.is_due());
        effort.bytes(usize::MAX);
        assert!(effort.is_due());
        effort.expressions(EFFORT_BYTES * u64::from(EFFORT_PER_CLOCK_READ) - 1);
        assert!(!effort.is_due());
        effort.expressions(u64::MAX);
        assert!(effort.is_due());
    }
}
