//! The range tombstones of one partition: borders that tile its clusterings, each with the deletion that holds from
//! there to the next one.
//!
//! ```text
//! a ──10── f                     ┐
//!      c ────20──── k            ├─►   a ─10─ c ────20──── k ─10─ m ─none
//!           g ───10─── m         ┘
//! ```
//!
//! Borders lie in chunks. A tombstone changes borders in the chunks of its two ends, and is noted once for each chunk
//! that lies inside of it: so one that covers any number of others costs a step of bounded length, whether it is
//! stronger than they are or changes nothing.
//!
//! Invariants
//! 1. Borders ascend, and before the first one nothing is deleted.
//! 2. From a border holds the stronger of its own deletion and of that noted for its chunk.
//! 3. A chunk has a border at least, and at most [`CHUNK_BORDERS_MAX`].
//!
//! Not here: which rows a tombstone covers (`memtable.rs`), what a reader sees (`cursor.rs`).

use model::Deletion;
use model::mutation::RangeTombstone;

use crate::limits::{COVERED_CHUNKS_MAX, RANGE_CHUNK_BORDERS_MAX as CHUNK_BORDERS_MAX};

/// Chunks of borders, ascending.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    chunks: Vec<Chunk>,
    bytes: usize,
}

#[derive(Debug)]
struct Chunk {
    borders: Vec<Border>,
    /// What covers all of the chunk.
    over: Deletion,
    /// The strongest of its borders' own.
    strongest: Deletion,
}

#[derive(Debug)]
struct Border {
    at: Box<[u8]>,
    own: Deletion,
}

/// What a border costs beside its bytes: its entry and an allocation.
const BORDER_BYTES: usize = size_of::<Border>() + 16;
/// What a chunk costs beside its borders.
const CHUNK_BYTES: usize = size_of::<Chunk>() + 16;

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

impl Chunk {
    fn of(borders: Vec<Border>, over: Deletion) -> Chunk {
        let mut chunk = Chunk { borders, over, strongest: Deletion::NONE };
        chunk.measure();
        chunk
    }

    fn first(&self) -> &[u8] {
        &self.borders[0].at
    }

    fn measure(&mut self) {
        let own = self.borders.iter().map(|border| border.own);
        self.strongest = own.fold(Deletion::NONE, Deletion::max);
    }

    /// Whether one deletion holds in all of it.
    fn is_uniform(&self) -> bool {
        self.borders.len() == 1 || self.over >= self.strongest
    }

    /// What holds from a border on.
    fn holds(&self, index: usize) -> Deletion {
        self.borders[index].own.max(self.over)
    }

    /// Notes what covers all of the chunk for each border instead.
    fn hand_down(&mut self) {
        let over = std::mem::replace(&mut self.over, Deletion::NONE);
        self.borders.iter_mut().for_each(|border| border.own = border.own.max(over));
    }

    /// Of borders after which nothing changes one is kept; how many bytes the others took.
    fn join(&mut self) -> usize {
        let (mut last, mut freed) = (None, 0);
        let over = self.over;
        self.borders.retain(|border| {
            let holds = border.own.max(over);
            let is_kept = last.replace(holds) != Some(holds);
            freed += if is_kept { 0 } else { BORDER_BYTES + border.at.len() };
            is_kept
        });
        self.measure();
        freed
    }
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
        self.put_border(end);
        self.put_border(start);
        let first = self.chunk_of(start).expect("it has the border");
        let last = self.chunks.partition_point(|chunk| chunk.first() < end) - 1;
        let mut covered = 0;
        for (index, chunk) in self.chunks[first..=last].iter_mut().enumerate() {
            let is_inside =
                index > 0 && first + index < last || chunk.first() == start && first < last;
            if is_inside {
                chunk.over = chunk.over.max(deletion);
                covered += usize::from(chunk.is_uniform() && chunk.borders.len() > 1);
                continue;
            }
            let inside = |border: &&mut Border| &*border.at >= start && &*border.at < end;
            for border in chunk.borders.iter_mut().filter(inside) {
                border.own = border.own.max(deletion);
            }
            self.bytes -= chunk.join();
        }
        self.unite(last);
        if first < last {
            self.unite(first);
        }
        if covered > 0 {
            self.collapse();
        }
    }

    /// What holds for clusterings from `at` on.
    pub(super) fn from(&self, at: &[u8]) -> Hold<'_> {
        let Some(index) = self.chunk_of(at) else {
            return Hold { until: self.chunks.first().map(Chunk::first), ..Hold::NOTHING };
        };
        let chunk = &self.chunks[index];
        let next_chunk = self.chunks.get(index + 1).map(Chunk::first);
        let next = chunk.borders.partition_point(|border| &*border.at <= at);
        let in_chunk = chunk.borders.get(next).filter(|_| !chunk.is_uniform());
        let until = in_chunk.map(|border| &*border.at).or(next_chunk);
        Hold { deletion: chunk.holds(next - 1), until }
    }

    /// What holds for clusterings just below `at`.
    pub(super) fn below(&self, at: &[u8]) -> Hold<'_> {
        let Some(index) = self.chunks.partition_point(|chunk| chunk.first() < at).checked_sub(1)
        else {
            return Hold::NOTHING;
        };
        let chunk = &self.chunks[index];
        let border = chunk.borders.partition_point(|border| &*border.at < at) - 1;
        let until = if chunk.is_uniform() { chunk.first() } else { &chunk.borders[border].at };
        Hold { deletion: chunk.holds(border), until: Some(until) }
    }

    /// The chunk with the last border at or before `at`.
    fn chunk_of(&self, at: &[u8]) -> Option<usize> {
        self.chunks.partition_point(|chunk| chunk.first() <= at).checked_sub(1)
    }

    /// Makes `at` a border after which the same holds as before it.
    fn put_border(&mut self, at: &[u8]) {
        let Some(index) = self.chunk_of(at) else {
            return self.put_first(at);
        };
        let chunk = &mut self.chunks[index];
        let place = chunk.borders.partition_point(|border| &*border.at < at);
        if chunk.borders.get(place).is_some_and(|border| &*border.at == at) {
            return;
        }
        let own = chunk.borders[place - 1].own;
        chunk.borders.insert(place, Border { at: at.into(), own });
        self.bytes += BORDER_BYTES + at.len();
        self.divide(index);
    }

    /// The same of a border before all others: nothing holds between it and the next. A chunk of its own for each would
    /// be too many, where they come one before the other.
    fn put_first(&mut self, at: &[u8]) {
        let border = Border { at: at.into(), own: Deletion::NONE };
        self.bytes += BORDER_BYTES + at.len();
        match self.chunks.first_mut() {
            Some(chunk) => {
                chunk.hand_down();
                chunk.borders.insert(0, border);
                chunk.measure();
                self.divide(0);
            }
            None => {
                let mut borders = Vec::with_capacity(2);
                borders.push(border);
                self.bytes += CHUNK_BYTES;
                self.chunks.insert(0, Chunk::of(borders, Deletion::NONE));
            }
        }
    }

    /// Makes two of a chunk that has too many borders.
    fn divide(&mut self, index: usize) {
        let chunk = &mut self.chunks[index];
        if chunk.borders.len() <= CHUNK_BORDERS_MAX {
            return;
        }
        let upper = chunk.borders.split_off(chunk.borders.len() / 2);
        let upper = Chunk::of(upper, chunk.over);
        chunk.measure();
        self.bytes += CHUNK_BYTES;
        self.chunks.insert(index + 1, upper);
    }

    /// Of chunks in which one deletion holds, one border is left, and none where it holds before, too: of a few chunks,
    /// the others are left to later calls.
    fn collapse(&mut self) {
        let of_many = |chunk: &&mut Chunk| chunk.is_uniform() && chunk.borders.len() > 1;
        for chunk in self.chunks.iter_mut().filter(of_many).take(COVERED_CHUNKS_MAX) {
            self.bytes -= chunk.join();
        }
        let (mut before, bytes) = (None, &mut self.bytes);
        self.chunks.retain(|chunk| {
            let is_kept = chunk.borders.len() > 1 || before != Some(chunk.holds(0));
            before = Some(chunk.holds(chunk.borders.len() - 1));
            if !is_kept {
                *bytes -= CHUNK_BYTES + BORDER_BYTES + chunk.first().len();
            }
            is_kept
        });
    }

    /// Joins a chunk of few borders with the one before it, where the same is noted for both.
    fn unite(&mut self, index: usize) {
        let Some(before) = index.checked_sub(1) else { return };
        let both = self.chunks[before].borders.len() + self.chunks[index].borders.len();
        if both > CHUNK_BORDERS_MAX / 2 {
            return;
        }
        let mut upper = self.chunks.remove(index);
        let lower = &mut self.chunks[before];
        lower.hand_down();
        upper.hand_down();
        lower.borders.append(&mut upper.borders);
        self.bytes -= CHUNK_BYTES + lower.join();
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

    fn borders(ranges: &Ranges) -> usize {
        ranges.chunks.iter().map(|chunk| chunk.borders.len()).sum()
    }

    fn covering(added: &[Added], at: u8) -> Deletion {
        let covers = added.iter().filter(|(start, end, _)| *start <= at && at < *end);
        let timestamp = covers.map(|added| added.2).max();
        timestamp.map_or(Deletion::NONE, |timestamp| Deletion { timestamp, local_s: 1 })
    }

    proptest! {
        #[test]
        fn the_strongest_holds_everywhere(
            added in prop::collection::vec((0..40u8, 0..40u8, 1..9i64), 0..60)
        ) {
            let ranges = ranges(&added);
            for at in 0..40 {
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
            let mut changes: Vec<Deletion> = (0..40).map(|at| covering(&added, at)).collect();
            changes.dedup();
            holds.dedup();
            prop_assert_eq!(holds, changes);
            let of_chunk = |chunk: &Chunk| {
                let borders = chunk.borders.iter().map(|border| BORDER_BYTES + border.at.len());
                CHUNK_BYTES + borders.sum::<usize>()
            };
            prop_assert_eq!(ranges.bytes(), ranges.chunks.iter().map(of_chunk).sum::<usize>());
        }
    }

    /// Before: each tombstone over all of them walked over all of them, 200,000 in one step.
    #[test]
    fn a_tombstone_over_many_is_noted_chunk_by_chunk() {
        const MANY: u32 = 4000;
        let mut ranges = Ranges::default();
        let mut add = |start: u32, end: u32, timestamp: i64| {
            let (start, end) = (start.to_be_bytes(), end.to_be_bytes());
            let deletion = Deletion { timestamp, local_s: 1 };
            ranges.add(&RangeTombstone { start: &start, end: &end, deletion });
            (borders(&ranges), ranges.chunks.len())
        };
        // Gaps between, and of different times.
        for i in 0..MANY {
            add(2 * i, 2 * i + 1, i64::from(i) + 10);
        }
        let (all, chunks) = add(1, 2, 5);
        assert!(all > 2 * MANY as usize - 10 && chunks >= all / CHUNK_BORDERS_MAX);
        // Weaker than all: every gap is covered, and not one border is added for it.
        let (now, _) = add(0, 2 * MANY, 1);
        assert!(now <= all + 1, "{now} borders of {all}");
        // Each begins before all others: they lie in few chunks.
        let mut ranges_before = Ranges::default();
        let add_before = |ranges: &mut Ranges, start: u32, end: u32, timestamp: i64| {
            let (start, end) = (start.to_be_bytes(), end.to_be_bytes());
            let deletion = Deletion { timestamp, local_s: 1 };
            ranges.add(&RangeTombstone { start: &start, end: &end, deletion });
        };
        for i in 0..100 {
            add_before(&mut ranges_before, MANY + 2 * i, MANY + 2 * i + 1, 1);
        }
        for i in 0..MANY {
            add_before(&mut ranges_before, MANY - i, MANY + 50, i64::from(i) + 2);
        }
        assert!(ranges_before.chunks.len() < 100, "{} chunks", ranges_before.chunks.len());
        // Stronger than all: they go some at a time.
        let mut left = now;
        for timestamp in 100_000.. {
            let (now, _) = add(0, 2 * MANY, timestamp);
            assert!(left - now <= (COVERED_CHUNKS_MAX + 4) * CHUNK_BORDERS_MAX);
            if now == left {
                break;
            }
            left = now;
        }
        assert!(left <= 3, "{left} borders");
    }

    #[test]
    fn a_newer_tombstone_over_many_older_leaves_one_stretch() {
        let mut added: Vec<Added> = (0..10).map(|i| (i, i + 2, i64::from(i) + 1)).collect();
        // A chunk at a time: chunks are small here.
        added.extend([(0, 12, 99); 8]);
        assert!(
            borders(&ranges(&added)) <= 3,
            "where it begins and ends, and perhaps where a chunk begins"
        );
    }
}
