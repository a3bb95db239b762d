//! What one call may take: instructions, steps of matching, time.
//!
//! Time is what the thread has computed: on a machine with more to do than it has cores a thread waits for tens of
//! milliseconds, and a call that did nothing is not ended for that. As asking for it takes longer than asking for the
//! time of day, that is looked at first.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::limits::{
    LUA_CALL_MS_MAX, LUA_INSTRUCTIONS_MAX, LUA_INSTRUCTIONS_PER_LOOK, PATTERN_STEPS_MAX,
};

/// How long this thread has computed.
pub(crate) fn computed() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let whole = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
    whole + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// What is left of a call.
pub(crate) struct Budget {
    instructions: Cell<u64>,
    pattern_steps: Cell<u64>,
    begun: Cell<Instant>,
    begun_computed: Cell<Duration>,
}

impl Budget {
    /// A whole budget.
    pub(crate) fn new() -> Budget {
        let budget = Budget {
            instructions: Cell::new(0),
            pattern_steps: Cell::new(0),
            begun: Cell::new(Instant::now()),
            begun_computed: Cell::new(Duration::ZERO),
        };
        budget.refill();
        budget
    }

    /// A call begins.
    pub(crate) fn refill(&self) {
        self.instructions.set(LUA_INSTRUCTIONS_MAX);
        self.pattern_steps.set(PATTERN_STEPS_MAX);
        self.begun.set(Instant::now());
        self.begun_computed.set(computed());
    }

    /// So many instructions were executed since the last look; an error if the call has taken too much.
    pub(crate) fn look(&self) -> Result<(), String> {
        let left = self.instructions.get().checked_sub(LUA_INSTRUCTIONS_PER_LOOK.into());
        let Some(left) = left else {
            return Err(format!("more than {LUA_INSTRUCTIONS_MAX} instructions in one call"));
        };
        self.instructions.set(left);
        let most = Duration::from_millis(LUA_CALL_MS_MAX);
        let has_passed = self.begun.get().elapsed() > most;
        if has_passed && computed().saturating_sub(self.begun_computed.get()) > most {
            return Err(format!("more than {LUA_CALL_MS_MAX} ms in one call"));
        }
        Ok(())
    }

    /// Takes a step of matching a pattern.
    pub(crate) fn pattern_step(&self) -> Result<(), String> {
        self.take_pattern_steps(1)
    }

    /// Takes some steps at once.
    pub(crate) fn take_pattern_steps(&self, steps: usize) -> Result<(), String> {
        let Some(left) = self.pattern_steps.get().checked_sub(steps as u64) else {
            return Err(format!("more than {PATTERN_STEPS_MAX} steps of matching in one call"));
        };
        self.pattern_steps.set(left);
        Ok(())
    }
}
