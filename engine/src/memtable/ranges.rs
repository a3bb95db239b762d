//! The range tombstones of one partition: disjoint stretches, each with the deletion that holds there.
//!
//! ```text
//! a ──10── f                     ┐
//!      c ────20──── k            ├─►   a ─10─ c ────20──── k ─10─ m
//!           g ───10─── m         ┘
//! ```
//!
//! Where stretches meet the stronger deletion holds, so a position has one answer.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

use model::Deletion;
use model::mutation::RangeTombstone;

/// Disjoint deleted stretches by their start.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    by_start: BTreeMap<Box<[u8]>, Stretch>,
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Stretch {
    end: Box<[u8]>,
    deletion: Deletion,
}

/// What a stretch costs beside its bounds: map entry and two allocations.
const STRETCH_BYTES: usize = size_of::<Stretch>() + size_of::<Box<[u8]>>() + 32;

/// The deletion that holds at a position, and where that may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold<'a> {
    pub(super) deletion: Deletion,
    /// The next border in the direction asked for.
    pub(super) until: Option<&'a [u8]>,
}

impl Hold<'_> {
    /// No tombstone anywhere.
    pub(super) const NOTHING: Hold<'static> = Hold { deletion: Deletion::NONE, until: None };
}

impl Ranges {
    /// Memory that the range tombstones hold, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a range tombstone.
    pub(super) fn add(&mut self, range: &RangeTombstone<'_>) {
        let (start, end, deletion) = (range.start, range.end, range.deletion);
        if start >= end || deletion.is_none() {
            return;
        }
        self.cut(start);
        self.cut(end);
        // Now every stretch lies inside or outside.
        let inside = (Included(start), Excluded(end));
        let mut gaps: Vec<[Box<[u8]>; 2]> = Vec::new();
        let mut at = start;
        for (from, stretch) in self.by_start.range_mut::<[u8], _>(inside) {
            stretch.deletion = stretch.deletion.max(deletion);
            if at < &**from {
                gaps.push([at.into(), from.clone()]);
            }
            at = &stretch.end;
        }
        if at < end {
            gaps.push([at.into(), end.into()]);
        }
        for [from, end] in gaps {
            self.put(from, Stretch { end, deletion });
        }
        self.join(start, end);
    }

    /// What holds for clusterings from `at` on.
    pub(super) fn from(&self, at: &[u8]) -> Hold<'_> {
        let before = self.by_start.range::<[u8], _>((Unbounded, Included(at))).next_back();
        if let Some((_, stretch)) = before
            && at < &*stretch.end
        {
            return Hold { deletion: stretch.deletion, until: Some(&stretch.end) };
        }
        let next = self.by_start.range::<[u8], _>((Excluded(at), Unbounded)).next();
        Hold { deletion: Deletion::NONE, until: next.map(|(start, _)| &**start) }
    }

    /// What holds for clusterings just below `at`.
    pub(super) fn below(&self, at: &[u8]) -> Hold<'_> {
        let before = self.by_start.range::<[u8], _>((Unbounded, Excluded(at))).next_back();
        match before {
            Some((start, stretch)) if at <= &*stretch.end => {
                Hold { deletion: stretch.deletion, until: Some(start) }
            }
            Some((_, stretch)) => Hold { deletion: Deletion::NONE, until: Some(&stretch.end) },
            None => Hold { deletion: Deletion::NONE, until: None },
        }
    }

    /// Makes `at` a border if it is inside a stretch.
    fn cut(&mut self, at: &[u8]) {
        let before = self.by_start.range_mut::<[u8], _>((Unbounded, Excluded(at))).next_back();
        let Some((_, stretch)) = before else { return };
        if at < &*stretch.end {
            let upper = stretch.clone();
            self.bytes -= stretch.end.len();
            stretch.end = at.into();
            self.bytes += at.len();
            self.put(at.into(), upper);
        }
    }

    /// Makes neighbours with the same deletion one, where [start, end] touches them. A tombstone that
    /// covers many older ones so leaves one stretch, not a border for each.
    fn join(&mut self, start: &[u8], end: &[u8]) {
        let before = self.by_start.range::<[u8], _>((Unbounded, Excluded(start))).next_back();
        let from = before.map_or(start, |(from, _)| from);
        let near = self.by_start.range::<[u8], _>((Included(from), Included(end)));
        let starts: Vec<Box<[u8]>> = near.map(|(start, _)| start.clone()).collect();
        let mut starts = starts.into_iter();
        let Some(mut one) = starts.next() else { return };
        for next in starts {
            let (left, right) = (&self.by_start[&one], &self.by_start[&next]);
            if left.end != next || left.deletion != right.deletion {
                one = next;
                continue;
            }
            let right = self.by_start.remove(&next).expect("it was just there");
            let left = self.by_start.get_mut(&one).expect("it was just there");
            self.bytes -= STRETCH_BYTES + next.len() + left.end.len();
            left.end = right.end;
        }
    }

    fn put(&mut self, start: Box<[u8]>, stretch: Stretch) {
        assert!(start < stretch.end, "a stretch holds a position");
        assert!(!stretch.deletion.is_none(), "a stretch is deleted");
        self.bytes += STRETCH_BYTES + start.len() + stretch.end.len();
        let twin = self.by_start.insert(start, stretch);
        assert!(twin.is_none(), "one stretch begins at a position");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Added = (u8, u8, i64);

    fn ranges(added: &[Added]) -> Ranges {
        let mut ranges = Ranges::default();
        for &(start, end, timestamp) in added {
            let deletion = Deletion { timestamp, local_s: 1 };
            ranges.add(&RangeTombstone { start: &[start], end: &[end], deletion });
        }
        ranges
    }

    fn covering(added: &[Added], at: u8) -> Deletion {
        let covers = added.iter().filter(|(start, end, _)| *start <= at && at < *end);
        let timestamp = covers.map(|added| added.2).max();
        timestamp.map_or(Deletion::NONE, |timestamp| Deletion { timestamp, local_s: 1 })
    }

    proptest! {
        #[test]
        fn the_strongest_holds_everywhere(
            added in prop::collection::vec((0..20u8, 0..20u8, 1..5i64), 0..12)
        ) {
            let ranges = ranges(&added);
            for at in 0..20 {
                prop_assert_eq!(ranges.from(&[at]).deletion, covering(&added, at));
                let below = at.checked_sub(1).map_or(Deletion::NONE, |at| covering(&added, at));
                prop_assert_eq!(ranges.below(&[at]).deletion, below);
            }
            // Stepping from border to border misses no change.
            let (mut at, mut holds) = (vec![0], Vec::new());
            loop {
                let hold = ranges.from(&at);
                holds.push(hold.deletion);
                let Some(until) = hold.until else { break };
                at = until.to_vec();
            }
            let mut changes: Vec<Deletion> = (0..20).map(|at| covering(&added, at)).collect();
            changes.dedup();
            holds.dedup();
            prop_assert_eq!(holds, changes);
            let held: usize = ranges.by_start.iter()
                .map(|(start, stretch)| STRETCH_BYTES + start.len() + stretch.end.len()).sum();
            prop_assert_eq!(ranges.bytes(), held);
        }
    }

    #[test]
    fn a_newer_tombstone_over_many_older_leaves_one_stretch() {
        let mut added: Vec<Added> = (0..10).map(|i| (i, i + 2, i64::from(i) + 1)).collect();
        added.push((0, 12, 99));
        assert_eq!(ranges(&added).by_start.len(), 1);
    }
}
