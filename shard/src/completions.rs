//! Writes that are done, on their way to whom waits for them, and held back as memory fills.
//!
//! ```text
//! engine ─► finished ─┬─ no delay asked ────────────────► delivered
//!                     └─► held (`backpressure.rs`) ─ due ─┘   callers' ─► done ─► `take_completed`
//! ```

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use engine::{Engine, Result};

use crate::backpressure::{DelayedAnswers, Finished};
use crate::ticket::Ticket;

/// The finished writes of one shard.
#[derive(Default)]
pub(crate) struct Completions {
    /// Writes of the layer above, to be taken.
    done: RefCell<Vec<(u32, Result<()>)>>,
    /// Empty between calls, kept for its memory.
    finished: RefCell<Vec<Finished>>,
    held: RefCell<DelayedAnswers>,
    alarm_is_set: Cell<bool>,
}

impl Completions {
    /// Notes the result of a write of the layer above.
    #[inline]
    pub(crate) fn push(&self, ticket: Ticket, result: Result<()>) {
        match ticket {
            Ticket::Caller(number) => self.done.borrow_mut().push((number, result)),
            Ticket::Unattended => {
                if let Err(error) = result {
                    tracing::warn!("a write of the server's own failed: {error}");
                }
            }
            Ticket::Entry(_) => unreachable!("an entry is delivered, not completed"),
        }
    }

    /// Moves the results of callers to `out`.
    #[inline]
    pub(crate) fn take(&self, out: &mut Vec<(u32, Result<()>)>) {
        out.append(&mut self.done.borrow_mut());
    }

    /// Whether there are results for callers.
    pub(crate) fn is_empty(&self) -> bool {
        self.done.borrow().is_empty()
    }

    /// Takes what the engine has finished, and gives to `deliver` what may be answered by now. When
    /// something is held back and no alarm is set: how long until it is due, and now one is set.
    pub(crate) fn collect(
        &self,
        engine: &Engine,
        mut deliver: impl FnMut(Ticket, Result<()>),
    ) -> Option<Duration> {
        let mut finished = self.finished.take();
        engine.take_completed(&mut finished);
        let delay_us = engine.write_delay_us();
        let mut due_in = None;
        if delay_us == 0 && self.held.borrow().is_empty() {
            let finished = finished.drain(..);
            finished.for_each(|(bits, result)| deliver(Ticket::from_bits(bits), result));
        } else {
            let delay = Duration::from_micros(delay_us.into());
            due_in = self.collect_held(&mut finished, delay, deliver);
        }
        self.finished.replace(finished);
        due_in.filter(|_| !self.alarm_is_set.replace(true))
    }

    #[cold]
    fn collect_held(
        &self,
        finished: &mut Vec<Finished>,
        delay: Duration,
        mut deliver: impl FnMut(Ticket, Result<()>),
    ) -> Option<Duration> {
        let now = Instant::now();
        self.held.borrow_mut().hold(finished.drain(..), now, delay);
        let next = || self.held.borrow_mut().next(now);
        while let Some((bits, result)) = next() {
            deliver(Ticket::from_bits(bits), result);
        }
        self.held.borrow().due_in(now)
    }

    /// The alarm went off.
    pub(crate) fn alarm_is_over(&self) {
        self.alarm_is_set.set(false);
    }
}
