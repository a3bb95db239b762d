//! When the first of what waits on this core has to end, and the walk that looks for what is late.
//!
//! ```text
//! add ─► first ─► it passes ─► walk: reads ─► forwarded requests ─► writes ─┬─ over: first is of what still waits
//!                               ▲                                           └─ its slice is over: paused
//!                               └───── the next pass goes on where it was paused ◄───────────────────┘
//! ```
//!
//! Invariant: `first` may be too early, never too late. What has ended meanwhile is not taken out of it, but found to be
//! over when its deadline comes. A walk forgets `first` when it begins, and adds what it finds to have time. While it is
//! paused, what is added counts as well: it may stand where the walk has been.
//!
//! Not here: how what is late is answered (`forward.rs`, `write.rs`; `terms.rs` of reads); time-outs of connections
//! (`pass.rs`).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use shard::Term;
use slab::Slab;

use crate::limits::{ANSWERS_PER_CLOCK_READ, DEADLINES_PER_CLOCK_READ};
use crate::time_slice::TimeSlice;

/// The deadlines of what waits on one core.
#[derive(Default)]
pub(super) struct Deadlines {
    first: Cell<Option<Instant>>,
    /// Where a walk goes on that had no time for all, and its time.
    paused: Cell<Option<(WalkPlace, Instant)>>,
    /// The reads that wait, for clients and for other cores. The deadlines stand here and not with their terms, which
    /// lie all over the memory.
    reads: RefCell<Slab<(Instant, Rc<Term>)>>,
}

/// What waits with a deadline, in the order of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitingKind {
    Reads,
    Forwarded,
    Writes,
}

impl WaitingKind {
    pub(super) const ALL: [WaitingKind; 3] =
        [WaitingKind::Reads, WaitingKind::Forwarded, WaitingKind::Writes];
}

/// Where a walk is: at a slot of the slab of these.
pub(super) type WalkPlace = (WaitingKind, usize);

impl Deadlines {
    /// Before this nothing is late.
    #[inline]
    pub(super) fn first(&self) -> Option<Instant> {
        self.paused.get().map(|(_, now)| now).or(self.first.get())
    }

    /// Something waits, at most until then.
    #[inline]
    pub(super) fn add(&self, deadline: Instant) {
        if self.first.get().is_none_or(|first| deadline < first) {
            self.first.set(Some(deadline));
        }
    }

    /// A read waits, at most until then. The slot that it has until [`remove_read`](Self::remove_read).
    pub(super) fn add_read(&self, deadline: Instant, term: Rc<Term>) -> usize {
        self.add(deadline);
        self.reads.borrow_mut().insert((deadline, term))
    }

    /// A read is over.
    pub(super) fn remove_read(&self, slot: usize) {
        self.reads.borrow_mut().remove(slot);
    }

    /// Begins a walk, or goes on with the one that was paused: where.
    pub(super) fn walk(&self) -> WalkPlace {
        if let Some((place, _)) = self.paused.take() {
            return place;
        }
        self.first.set(None);
        (WaitingKind::ALL[0], 0)
    }

    /// A walk of this time goes on there in the next pass.
    pub(super) fn pause(&self, place: WalkPlace, now: Instant) {
        self.paused.set(Some((place, now)));
    }

    /// Lets reads from a slot on find out that their deadlines have passed, while the slice lasts. Where to go on;
    /// `None`: that were all.
    pub(super) fn wake_late_reads(
        &self,
        from: usize,
        now: Instant,
        slice: TimeSlice,
    ) -> Option<usize> {
        look_from(from, &mut self.reads.borrow_mut(), slice, |_, (deadline, term)| {
            if *deadline > now {
                self.add(*deadline);
                return false;
            }
            term.wake_if_late(now);
            true
        })
    }
}

/// Looks at what waits from a slot on, while the slice lasts; `look` says whether it was late, which takes more time.
/// Where to go on; `None`: that were all.
pub(super) fn look_from<T>(
    from: usize,
    waiting: &mut Slab<T>,
    slice: TimeSlice,
    mut look: impl FnMut(usize, &mut T) -> bool,
) -> Option<usize> {
    let mut effort = 0;
    for slot in from..waiting.capacity() {
        let was_late = waiting.get_mut(slot).is_some_and(|one| look(slot, one));
        effort += if was_late { DEADLINES_PER_CLOCK_READ / ANSWERS_PER_CLOCK_READ } else { 1 };
        if effort >= DEADLINES_PER_CLOCK_READ {
            if slice.is_over() {
                return Some(slot + 1);
            }
            effort = 0;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// What is added while a walk is paused, and what it has found before, are both looked at in time.
    #[test]
    fn no_deadline_is_lost_to_a_walk_in_slices() {
        const MANY: usize = 3 * DEADLINES_PER_CLOCK_READ;
        let (deadlines, now) = (Deadlines::default(), Instant::now());
        let after = |ms| now + Duration::from_millis(ms);
        let add = |ms| deadlines.add_read(after(ms), Term::until(Some(after(ms))));
        // The first that has time stands in the first part.
        let slots: Vec<usize> =
            (0..MANY as u64).map(|n| add(if n == 7 { 500 } else { 900 })).collect();
        deadlines.add(after(1));
        let mut parts = 0;
        let (_, mut from) = deadlines.walk();
        while let Some(next) = deadlines.wake_late_reads(from, after(1), TimeSlice::over()) {
            assert_eq!(next - from, DEADLINES_PER_CLOCK_READ);
            deadlines.pause((WaitingKind::Reads, next), after(1));
            assert_eq!(deadlines.first(), Some(after(1)), "there is more to look at");
            if parts == 1 {
                // Where the walk has been.
                deadlines.remove_read(slots[3]);
                assert_eq!(add(400), slots[3]);
            }
            parts += 1;
            let place = deadlines.walk();
            assert_eq!(place, (WaitingKind::Reads, next));
            from = place.1;
        }
        assert!(parts >= 2, "{parts}");
        assert_eq!(deadlines.first(), Some(after(400)));
        deadlines.remove_read(slots[3]);
        for first in [500, 900] {
            let (_, from) = deadlines.walk();
            assert_eq!(deadlines.first(), None, "it begins anew");
            assert_eq!(deadlines.wake_late_reads(from, after(450), TimeSlice::begin()), None);
            assert_eq!(deadlines.first(), Some(after(first)));
            if first == 500 {
                deadlines.remove_read(slots[7]);
            }
        }
    }
}
