//! Which steps on this core took long: what ran, how often, how long at most.
//!
//! ```text
//! task of a group ── each poll ──┐
//! pass of the server ── each ────┴─► over a millisecond? ─► counted by (group, work, table), the longest kept, logged
//! ```
//!
//! A step is what nothing else on the core can interrupt. It is measured by the wall clock, which is what clients feel:
//! a step counts with the time in which the kernel, or the host of a virtual machine, ran others on its processor.
//! What the thread itself computed is counted beside it, by the kernel's clock of the thread:
//!
//! ```text
//! took ───────────────────────────────────────────────────────────────
//! computed ─────────── │ waited: ready, and     │ neither: the host stopped the machine,
//! (ours to mend)       │ others had its turn    │ or a system call waited
//! ```
//!
//! That clock is a system call, so it is not read at each step's begin: what a long step computed is reckoned from the
//! last reading, which is at most [`STALL`] older than the step. So it is too high by no more than that.
//!
//! Invariants: a step that is not long costs two clock reads, a system call each [`STALL`] at most, and allocates nothing;
//! at most [`STALLS_MAX`] kinds of work are told apart, and [`STALL_LOG_INTERVAL`] lies between two lines of the log.
//!
//! The executor's own turn to its rings, between the steps of a busy core, is measured as well.
//!
//! No steps: the executor's own work just before and after the core sleeps, and the sleep.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::TableId;

use crate::contention::WaitCounter;
use crate::groups::Group;
use crate::limits::{STALL, STALL_LOG_INTERVAL, STALL_WARN, STALLS_MAX};
use crate::os::cpu_time;

/// The borders of the histogram, in milliseconds: a step is counted under each that it exceeds.
pub const STALL_BORDERS_MS: [u64; 5] = [1, 2, 5, 10, 100];

/// What runs on a core: a group, a name for people, and the table that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Work {
    /// The scheduling group.
    pub group: Group,
    /// What it is.
    pub name: &'static str,
    /// The table that it is for, if it is for one.
    pub table: Option<TableId>,
}

/// What the executor does itself: it hands the kernel what its rings have, and takes what is done.
const EXECUTOR: Work = Work { group: Group::Requests, name: "executor", table: None };

impl From<Group> for Work {
    /// Work that has no name of its own.
    fn from(group: Group) -> Work {
        Work { group, name: "task", table: None }
    }
}

/// The long steps of one kind of work, on one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The work that ran.
    pub work: Work,
    /// How many steps were longer than each of [`STALL_BORDERS_MS`].
    pub steps: [u64; STALL_BORDERS_MS.len()],
    /// How many steps computed for longer than each of [`STALL_BORDERS_MS`].
    pub computed_steps: [u64; STALL_BORDERS_MS.len()],
    /// The longest, in microseconds.
    pub longest_us: u64,
    /// When the longest ended, in milliseconds since 1970.
    pub longest_at_ms: i64,
    /// How long the thread computed in the longest, in microseconds.
    pub computed_us: u64,
    /// How long at most the thread waited for a processor in the longest, in microseconds.
    pub waited_us_max: u64,
    /// The most that one of them computed, in microseconds.
    pub computed_us_max: u64,
}

impl Stall {
    /// No long step of this work yet.
    fn none_of(work: Work) -> Stall {
        let (steps, computed_steps, longest_us, longest_at_ms) = Default::default();
        let (computed_us, waited_us_max, computed_us_max) = Default::default();
        Stall {
            work,
            steps,
            computed_steps,
            longest_us,
            longest_at_ms,
            computed_us,
            waited_us_max,
            computed_us_max,
        }
    }
}

/// What a long step was.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    /// By the wall clock.
    took: Duration,
    /// What the thread was charged for, at most `took`.
    computed: Duration,
    /// In which it was ready to run and did not, at most the rest of `took`.
    waited: Duration,
}

/// The long steps of one core.
pub struct Stalls {
    kinds: RefCell<Vec<Stall>>,
    wait: WaitCounter,
    /// What the kernel had counted as waited when it was last asked.
    waited: Cell<Duration>,
    /// When the kernel was last asked how long the thread had computed, and what it said.
    computed: Cell<(Instant, Duration)>,
    /// When the operator was last told of one.
    told: Cell<Option<Instant>>,
    /// Steps of [`STALL_WARN`] and more that the operator was not told of.
    untold: Cell<u64>,
    /// How long all steps took so far.
    in_steps: Cell<Duration>,
}

impl Stalls {
    /// No long steps yet, on the calling thread.
    pub fn new() -> Rc<Stalls> {
        let wait = WaitCounter::of_this_thread();
        let waited = Cell::new(wait.waited());
        let computed = Cell::new((Instant::now(), cpu_time::of_this_thread()));
        let (kinds, told, untold, in_steps) = Default::default();
        Rc::new(Stalls { kinds, wait, waited, computed, told, untold, in_steps })
    }

    /// What was counted so far.
    pub fn all(&self) -> Vec<Stall> {
        self.kinds.borrow().clone()
    }

    /// How long this thread has had a processor or waited for one, as the kernel counts. Two system calls.
    pub(crate) fn awake(&self) -> Duration {
        cpu_time::of_this_thread() + self.wait.waited()
    }

    /// A step begins at `now`. A system call if there was none for as long as a step may take.
    #[inline]
    pub fn begins(&self, now: Instant) {
        if now.saturating_duration_since(self.computed.get().0) >= STALL {
            self.computed.set((now, cpu_time::of_this_thread()));
        }
    }

    /// Measures a step that began at `began`, of which [`begins`](Self::begins) was told, and ends now. A clock read.
    #[inline]
    pub fn ended(&self, work: Work, began: Instant) {
        self.note(work, began.elapsed());
    }

    /// Takes note of a step that ends now.
    #[inline]
    pub fn note(&self, work: Work, took: Duration) {
        self.in_steps.set(self.in_steps.get() + took);
        if took >= STALL {
            self.note_long(work, took);
        }
    }

    /// Measures what the executor itself does while this future is waited for: its time without that of steps. Other
    /// tasks may run meanwhile, and the core must not sleep.
    pub(crate) async fn executor(&self, future: impl Future<Output = ()>) {
        let began = Instant::now();
        self.begins(began);
        let (took, ()) = self.outside_steps(began, future).await;
        self.note(EXECUTOR, took);
    }

    /// Waits for `future` from `began`, which is now: how long that took, without the steps that other tasks did
    /// meanwhile, and what came of it. Between two steps, as the pass waits: of one under way, what came before
    /// would be taken off, too.
    pub(crate) async fn outside_steps<T>(
        &self,
        began: Instant,
        future: impl Future<Output = T>,
    ) -> (Duration, T) {
        let in_steps = self.in_steps.get();
        let end = future.await;
        (began.elapsed().saturating_sub(self.in_steps.get() - in_steps), end)
    }

    #[cold]
    fn note_long(&self, work: Work, took: Duration) {
        let computed = cpu_time::of_this_thread();
        let (_, before) = self.computed.replace((Instant::now(), computed));
        let computed = computed.saturating_sub(before).min(took);
        let waited = self.wait.waited();
        let waited = waited.saturating_sub(self.waited.replace(waited)).min(took - computed);
        let step = Step { took, computed, waited };
        self.count(work, step);
        if took >= STALL_WARN {
            self.tell(work, step);
        }
    }

    /// Tells the operator of a step, now and then.
    fn tell(&self, Work { group, name, table }: Work, step: Step) {
        let Step { took, computed, waited } = step;
        self.untold.set(self.untold.get() + 1);
        let now = Instant::now();
        if self.told.get().is_some_and(|told| now - told < STALL_LOG_INTERVAL) {
            return;
        }
        self.told.set(Some(now));
        let (steps, group) = (self.untold.take(), group.name());
        let table = table.map(|table| table.to_string());
        tracing::warn!(group, name, table, ?took, ?computed, ?waited, steps, "a long step");
    }

    fn count(&self, work: Work, Step { took, computed, waited }: Step) {
        let mut kinds = self.kinds.borrow_mut();
        let stall = kind_of(&mut kinds, work);
        for (index, border_ms) in STALL_BORDERS_MS.into_iter().enumerate() {
            let border = Duration::from_millis(border_ms);
            stall.steps[index] += u64::from(took >= border);
            stall.computed_steps[index] += u64::from(computed >= border);
        }
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        stall.computed_us_max = stall.computed_us_max.max(us(computed));
        if us(took) > stall.longest_us {
            let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            stall.longest_us = us(took);
            stall.longest_at_ms = i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX);
            stall.computed_us = us(computed);
            stall.waited_us_max = us(waited);
        }
    }

    /// `future` as a task of which each poll is measured.
    pub(crate) async fn measured<T>(
        self: Rc<Self>,
        work: Work,
        future: impl Future<Output = T>,
    ) -> T {
        let mut future = pin!(future);
        poll_fn(|context| {
            let began = Instant::now();
            self.begins(began);
            let state = future.as_mut().poll(context);
            self.ended(work, began);
            state
        })
        .await
    }
}

/// What was counted of this work, or of its group when too many kinds are known.
fn kind_of(kinds: &mut Vec<Stall>, work: Work) -> &mut Stall {
    let known = |kinds: &[Stall], work| kinds.iter().position(|stall| stall.work == work);
    let index = known(kinds, work).unwrap_or_else(|| {
        let work = if kinds.len() < STALLS_MAX { work } else { Work::from(work.group) };
        let index = known(kinds, work).unwrap_or(kinds.len());
        if index == kinds.len() {
            kinds.push(Stall::none_of(work));
        }
        index
    });
    &mut kinds[index]
}

#[cfg(test)]
mod tests;
