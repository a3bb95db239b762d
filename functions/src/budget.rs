//! What one call may take: instructions, steps of matching, time.
//!
//! Time is what the thread has computed: on a machine with more to do than it has cores a thread waits for tens of
//! milliseconds, and a call that did nothing is not ended for that. As asking for it takes longer than asking for the
//! time of day, that is looked at first.
//!
//! 1. `refill` begins a call of a function in Lua; `count` says when its body runs, since what runs around the body is
//!    not counted.
//! 2. While the body runs, `look` is called every few instructions and before each function that the body calls. It
//!    takes the instructions from the budget and looks at the time.
//! 3. Loops of this crate that stand for loops of Lua's library take steps of matching; the conversion of values looks
//!    at the time alone.
//! 4. The memory of varints and decimals is added when a body computes one, and taken back when Lua drops it.
//!
//! Invariant: a call that was too late once stays too late, so a body cannot go on after the error.
//!
//! Not here: WebAssembly's fuel, of which only [`Timer`] is used (`wasm.rs`), the memory of a state (`lua.rs`), the
//! limits themselves (`limits.rs`), the time of all calls of a core together (`lib.rs`).

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

/// The time that something takes of this thread.
#[derive(Clone, Copy)]
pub(crate) struct Timer {
    begun: Instant,
    begun_computed: Duration,
}

impl Timer {
    /// It begins now.
    pub(crate) fn start() -> Timer {
        Timer { begun: Instant::now(), begun_computed: computed() }
    }

    /// Whether the thread has computed for longer than so many ms.
    pub(crate) fn has_passed(&self, ms: u64) -> bool {
        let most = Duration::from_millis(ms);
        self.begun.elapsed() > most && computed().saturating_sub(self.begun_computed) > most
    }
}

/// What is left of a call.
pub(crate) struct Budget {
    /// Whether the body runs, and nothing around it.
    runs: Cell<bool>,
    instructions: Cell<u64>,
    pattern_steps: Cell<u64>,
    timer: Cell<Timer>,
    /// Whether a look has found that the call took too long.
    is_late: Cell<bool>,
    /// Memory of varints and decimals that the state has computed and not yet dropped.
    numbers_bytes: Cell<usize>,
}

impl Budget {
    /// A whole budget.
    pub(crate) fn new() -> Budget {
        Budget {
            runs: Cell::new(false),
            instructions: Cell::new(LUA_INSTRUCTIONS_MAX),
            pattern_steps: Cell::new(PATTERN_STEPS_MAX),
            timer: Cell::new(Timer::start()),
            is_late: Cell::new(false),
            numbers_bytes: Cell::new(0),
        }
    }

    /// A call begins.
    pub(crate) fn refill(&self) {
        self.instructions.set(LUA_INSTRUCTIONS_MAX);
        self.pattern_steps.set(PATTERN_STEPS_MAX);
        self.timer.set(Timer::start());
        self.is_late.set(false);
    }

    /// Instructions count from here on, or no longer: those around a body are few, and must not fail.
    pub(crate) fn count(&self, runs: bool) {
        self.runs.set(runs);
    }

    /// Instructions that were executed since the last check, or a function is called, which counts for as many; an
    /// error if the call has taken too much.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !self.runs.get() {
            return Ok(());
        }
        let left = self.instructions.get().checked_sub(LUA_INSTRUCTIONS_PER_LOOK.into());
        let Some(left) = left else {
            return Err(format!("more than {LUA_INSTRUCTIONS_MAX} instructions in one call"));
        };
        self.instructions.set(left);
        // Once it is too late it stays so.
        self.check_time().inspect_err(|_| self.is_late.set(true))
    }

    /// An error if the call has taken too long.
    pub(crate) fn check_time(&self) -> Result<(), String> {
        match self.is_late.get() || self.timer.get().has_passed(LUA_CALL_MS_MAX) {
            true => Err(format!("more than {LUA_CALL_MS_MAX} ms in one call")),
            false => Ok(()),
        }
    }

    /// Memory of the varints and decimals that there are, in bytes.
    pub(crate) fn numbers_bytes(&self) -> usize {
        self.numbers_bytes.get()
    }

    /// There are more of them, or fewer.
    pub(crate) fn set_numbers_bytes(&self, bytes: usize) {
        self.numbers_bytes.set(bytes);
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
