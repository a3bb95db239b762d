//! Which operations a client thread still draws, and when: its pace, its numbers, its end.
//!
//! Drawing ends at the deadline, after the number of operations that were asked for, at a stop, or when the source has
//! no more.
//!
//! Invariants
//! 1. An operation that is due and that the source does not give now is due again: no due operation is lost.
//! 2. `drawn` counts what was sent or waits to be sent: what is dropped at the end is taken off.
//! 3. `behind` counts what was due and never drawn. When the source is exhausted, nothing is due any more.
//!
//! Not here: the schedule of an open loop, and how sequence numbers follow the clock (`client/pace.rs`); the deadline's
//! check (`client/worker.rs`).

use crate::client::pace::{Pace, Sequencer};

/// The drawing of operations.
#[derive(Debug)]
pub(super) struct Schedule {
    pace: Pace,
    pub(super) is_closed_loop: bool,
    sequencer: Sequencer,
    /// Whether operations are still drawn.
    drawing: bool,
    /// Operations drawn so far.
    drawn: u64,
    operations_max: Option<u64>,
    /// When drawing stops, in ns since the start of the run.
    pub(super) deadline_ns: Option<u64>,
}

impl Schedule {
    /// A schedule that draws until `operations_max` are drawn or `deadline_ns` is over.
    pub(super) fn new(
        pace: Pace,
        sequencer: Sequencer,
        operations_max: Option<u64>,
        deadline_ns: Option<u64>,
    ) -> Schedule {
        let is_closed_loop = pace == Pace::Closed;
        Schedule {
            pace,
            is_closed_loop,
            sequencer,
            drawing: true,
            drawn: 0,
            operations_max,
            deadline_ns,
        }
    }

    /// Whether operations are still drawn.
    #[inline]
    pub(super) fn is_drawing(&self) -> bool {
        self.drawing
    }

    /// From here on no operation is drawn.
    pub(super) fn stop(&mut self) {
        self.drawing = false;
    }

    /// The workload has no more operations: nothing that was due is missed from here on.
    pub(super) fn exhaust(&mut self) {
        self.pace = Pace::Closed;
        self.drawing = false;
    }

    /// Whether all operations that were asked for are drawn.
    #[inline]
    pub(super) fn is_spent(&self) -> bool {
        self.operations_max.is_some_and(|max| self.drawn >= max)
    }

    /// Number of operations that were drawn, without those that were dropped.
    pub(super) fn drawn(&self) -> u64 {
        self.drawn
    }

    /// An operation that was drawn is not sent after all.
    pub(super) fn drop_one(&mut self) {
        self.drawn -= 1;
    }

    /// Whether the deadline has come by `now_ns`.
    pub(super) fn is_late(&self, now_ns: u64) -> bool {
        self.deadline_ns.is_some_and(|deadline_ns| now_ns >= deadline_ns)
    }

    /// Draws one operation if one is due: `draw` gives it, and `take` says when it was meant to be
    /// sent. An operation that `draw` does not give is due again.
    #[inline]
    pub(super) fn take<T>(
        &mut self,
        now_ns: u64,
        draw: impl FnOnce() -> Option<T>,
    ) -> Option<(T, u64)> {
        let before = self.pace;
        let intended_ns = self.pace.take(now_ns)?;
        match draw() {
            Some(drawn) => {
                self.drawn += 1;
                Some((drawn, intended_ns))
            }
            None => {
                self.pace = before;
                None
            }
        }
    }

    /// When the next operation is due, if that depends on time and operations are drawn.
    pub(super) fn due_ns(&self) -> Option<u64> {
        if self.drawing { self.pace.due_ns() } else { None }
    }

    /// Operations that were due by `now_ns`, or by the deadline, and were never drawn.
    pub(super) fn behind(&self, now_ns: u64) -> u64 {
        self.pace.behind(now_ns.min(self.deadline_ns.unwrap_or(u64::MAX)))
    }

    /// The sequence number of the next write.
    #[inline]
    pub(super) fn next_sequence(&mut self, wall_us: u64) -> u64 {
        self.sequencer.next(wall_us)
    }

    /// The sequence number of the last write.
    pub(super) fn last_sequence(&self) -> u64 {
        self.sequencer.last()
    }
}
