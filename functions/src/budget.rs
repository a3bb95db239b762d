//! What one call may take: instructions, steps of matching, time.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::limits::{
    LUA_CALL_MS_MAX, LUA_INSTRUCTIONS_MAX, LUA_INSTRUCTIONS_PER_LOOK, PATTERN_STEPS_MAX,
};

/// What is left of a call.
pub(crate) struct Budget {
    instructions: Cell<u64>,
    pattern_steps: Cell<u64>,
    begun: Cell<Instant>,
}

impl Budget {
    /// A whole budget.
    pub(crate) fn new() -> Budget {
        let begun = Cell::new(Instant::now());
        let budget = Budget { instructions: Cell::new(0), pattern_steps: Cell::new(0), begun };
        budget.refill();
        budget
    }

    /// A call begins.
    pub(crate) fn refill(&self) {
        self.instructions.set(LUA_INSTRUCTIONS_MAX);
        self.pattern_steps.set(PATTERN_STEPS_MAX);
        self.begun.set(Instant::now());
    }

    /// So many instructions were executed since the last look; an error if the call has taken too much.
    pub(crate) fn look(&self) -> Result<(), String> {
        let left = self.instructions.get().checked_sub(LUA_INSTRUCTIONS_PER_LOOK.into());
        let Some(left) = left else {
            return Err(format!("more than {LUA_INSTRUCTIONS_MAX} instructions in one call"));
        };
        self.instructions.set(left);
        if self.begun.get().elapsed() > Duration::from_millis(LUA_CALL_MS_MAX) {
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
