//! Tasks that go on with a call when its pass is over, and the turns that they wait for.
//!
//! Invariant: a call that a task has is answered once: by the task, or by what the task hands the call to. The answer
//! goes nowhere if the client is gone by then.
//!
//! Not here: reads that wait, which are no tasks (`read.rs`); answers to other cores (`peers.rs`).

use std::rc::Rc;
use std::time::{Duration, Instant};

use engine::semaphore::{Permit, Semaphore};
use futures_lite::future::{or, yield_now};
use shard::Group;
use shard::stalls::Work;

use super::call::{Call, Flow};
use super::{ExecuteError, Executor, When};
use crate::session::Session;
use crate::statements::Answered;

impl Executor {
    /// Runs a task that ends in an answer, whatever happens to its connection meanwhile.
    pub(super) fn spawn(
        self: &Rc<Self>,
        group: Group,
        call: Call,
        work: impl AsyncFnOnce(&Call, &mut Vec<u8>) -> Result<(), ExecuteError> + 'static,
    ) {
        let executor = self.clone();
        let name = "statement that waits";
        self.shard.runtime().spawn(Work { group, name, table: None }, async move {
            let mut out = Vec::new();
            if let Err(refusal) = work(&call, &mut out).await {
                out.clear();
                refusal.put(&call.envelope(), executor.state.node(), &mut out);
            }
            let answered = Answered::of(&out);
            executor.reply(call.session.id, out, None);
            executor.finish(call, answered, When::InTask);
        });
    }

    /// Runs a task that goes on with a call: what it appends is the answer, if it gives the call back.
    pub(super) fn spawn_flow(
        self: &Rc<Self>,
        name: &'static str,
        work: impl AsyncFnOnce(&mut Vec<u8>) -> Flow + 'static,
    ) {
        let executor = self.clone();
        let of_task = Work { group: Group::Requests, name, table: None };
        self.shard.runtime().spawn(of_task, async move {
            let mut out = Vec::new();
            if let Flow::Answered(call) = work(&mut out).await {
                let answered = Answered::of(&out);
                executor.reply(call.session.id, out, None);
                executor.finish(call, answered, When::InTask);
            }
            // The pass publishes what goes to other cores; it may be asleep.
            executor.shard.wake().notify();
        });
    }

    /// Runs what computes for long on a thread beside the core. A pass comes before this goes on: the clock, which
    /// stands still while the core sleeps, is right.
    pub(super) async fn off_core<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let done = self.shard.runtime().run_off_core(work).await;
        self.shard.wake().notify();
        yield_now().await;
        done
    }

    /// What is left of the time of a request that waits; `Overloaded` if nothing is.
    pub(super) fn time_left(&self, waiting: Waiting) -> Result<Duration, ExecuteError> {
        waiting.timeout.checked_sub(self.waited(waiting)).ok_or_else(|| waiting.not_in_time())
    }

    /// Waits for a turn; `Overloaded` if that does not come within the time of the request, or when the connection of
    /// its client is closed: others wait for theirs.
    pub(super) async fn turn<'t>(
        &self,
        turns: &'t Semaphore,
        waiting: Waiting,
        session: &Session,
    ) -> Result<Permit<'t>, ExecuteError> {
        let left = waiting.timeout.saturating_sub(self.waited(waiting));
        let turn = self.turn_within(turns, left).await.ok_or_else(|| waiting.not_in_time())?;
        match session.is_closed.get() {
            false => Ok(turn),
            true => {
                let text = format!("Not {}: its connection was closed before", waiting.to_be);
                Err(ExecuteError::Overloaded(text))
            }
        }
    }

    /// Takes a turn, if it comes within so much time.
    pub(super) async fn turn_within<'t>(
        &self,
        turns: &'t Semaphore,
        wait: Duration,
    ) -> Option<Permit<'t>> {
        let turn = async { Some(turns.take(1).await) };
        let too_late = async {
            self.shard.runtime().sleep(wait).await;
            None
        };
        or(turn, too_late).await
    }

    fn waited(&self, waiting: Waiting) -> Duration {
        self.state.monotonic().saturating_duration_since(waiting.arrived)
    }
}

/// A request that waits for the long statements before it.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    /// What is done when its turn comes: `compiled`, `bound`.
    pub(super) to_be: &'static str,
    /// When it came, by the monotonic clock.
    pub(super) arrived: Instant,
    /// How long it may take.
    pub(super) timeout: Duration,
}

impl Waiting {
    /// Refuses what waited too long for the long statements before it, or took that long itself.
    fn not_in_time(self) -> ExecuteError {
        let (done, ms) = (self.to_be, self.timeout.as_millis());
        ExecuteError::Overloaded(format!(
            "Not {done} within {ms} ms, with the long statements before it: nothing of it was done"
        ))
    }
}
