//! Levels: from level 1 on the pieces of a level share no token, and each level is `fanout_size` times the
//! last, so that a read looks into one file a level.
//!
//! ```text
//! level 0   ▒▒ ▒▒ ▒▒ ▒▒          runs as they were flushed; they overlap
//! level 1   ███                  1/100 of the last level
//! level 2   ██████████████       1/10
//! level 3   █████████████████████████████████████████ …   the last: what there is
//! ```
//!
//! 1. What each level may hold follows from what the last one holds (RocksDB's dynamic levels), so that the levels
//!    above add a ninth to it at most, whatever the size of the table. There are as many levels as Cassandra has for
//!    as many bytes.
//! 2. The level that is most over what it may hold goes first; level 0 counts its runs, and where rows are overwritten
//!    what they take in it. So neither end starves.
//! 3. A level gives one piece to the next: the one that meets the fewest bytes there for its own.
//! 4. Level 0 goes, with all that it meets, to the first level that may hold as much: level 1 as a rule. While that
//!    waits for merges that are under way no other touches level 1. Level 0 is merged by size tiers within itself
//!    while level 1 would be rewritten for little and what is overwritten in it is not due, and when it has more than
//!    32 runs and must wait.
//! 5. A piece that cannot be merged counts for no level, and what comes out may overlap it: a read looks into
//!    one more file there, and the others are merged as if it were not. A piece of a level that overlaps one before it
//!    counts for level 0.
//!
//! A pass over the pieces costs a sort: `O(n log n)`.

use std::collections::BTreeSet;

use model::{TokenRange, options};

use super::piece::{CompactionContext, Piece, Run, free_runs_of};
use super::size_tiered::SizeTiered;
use super::strategy::{Task, Why, merge};
use crate::limits::{
    FRAGMENT_BYTES_MAX, LEVEL_0_SURPLUS_ALONE_FACTOR, LEVEL_0_SURPLUS_FACTOR, SURPLUS_BYTES_MIN,
};

/// Level 0 is merged when it has so many runs, and at most so many at once.
const LEVEL_0_RUNS: usize = 4;
const LEVEL_0_RUNS_MAX: usize = 32;
/// Beyond, a level holds more than any disk.
const LEVELS_MAX: u8 = 9;

/// Proposes level by level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leveled<'o>(pub(super) &'o options::Leveled);

/// The pieces of each level, in the order of their tokens.
struct Levels<'p> {
    pieces: &'p [Piece],
    /// Level 1 is the first. Those that can be merged or are being merged, and overlap none before them.
    sorted: Vec<Vec<usize>>,
    /// Runs of level 0, and pieces that overlap another of their level; smallest first.
    level_0: Vec<Run>,
}

impl Leveled<'_> {
    pub(super) fn fragment_bytes(&self) -> u64 {
        self.0.sstable_bytes.min(FRAGMENT_BYTES_MAX)
    }

    /// The first level that holds so many bytes.
    pub(super) fn level_of(&self, bytes: u64) -> u8 {
        (1..LEVELS_MAX).find(|&level| bytes <= self.level_bytes_max(level)).unwrap_or(LEVELS_MAX)
    }

    /// What levels take, for each byte of live rows, before writers are slowed: those above the last have a `fanout`-th
    /// of the next each, and level 0 has what may wait there.
    pub(super) fn space_goal(&self) -> f64 {
        1.0 + 1.0 / (self.0.fanout.max(2) - 1) as f64 + LEVEL_0_SURPLUS_FACTOR
    }

    fn level_bytes_max(&self, level: u8) -> u64 {
        self.fragment_bytes().saturating_mul(self.0.fanout.saturating_pow(level.into()))
    }

    pub(super) fn propose(&self, pieces: &[Piece], context: &CompactionContext) -> Option<Task> {
        let levels = Levels::of(pieces);
        let bytes_max = self.bytes_max(&levels);
        let mut due: Vec<(f64, usize)> = (1..bytes_max.len())
            .map(|level| (levels.free_bytes(level) as f64 / bytes_max[level - 1] as f64, level))
            .collect();
        let by_surplus = levels.level_0_surplus_score(bytes_max.len(), context);
        due.push((self.level_0_score(&levels, bytes_max[0]).max(by_surplus), 0));
        due.retain(|(score, _)| *score > 1.0);
        due.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let level_0_to = levels.level_0_to(&bytes_max);
        let level_0_waits = due.iter().any(|(_, level)| *level == 0)
            && (1..=level_0_to).any(|level| levels.is_merging(level));
        let task = due.into_iter().find_map(|(_, level)| match level {
            0 => self.level_0_down(&levels, level_0_to),
            level if level_0_waits && level <= level_0_to => None,
            level => self.down(&levels, level),
        });
        task.or_else(|| self.within_level_0(&levels))
    }

    /// What levels 1 and deeper may hold; the last may hold everything.
    fn bytes_max(&self, levels: &Levels<'_>) -> Vec<u64> {
        let all: u64 = levels.pieces.iter().map(|piece| piece.bytes).sum();
        let occupied = levels.sorted.iter().rposition(|level| !level.is_empty());
        let last = (self.level_of(all) as usize).max(occupied.map_or(1, |index| index + 1));
        let mut bytes = levels.bytes(last).max(1);
        if levels.bytes(last) == 0 {
            bytes = all;
        }
        let mut bytes_max = vec![u64::MAX; last];
        for level in (0..last - 1).rev() {
            bytes = (bytes / self.0.fanout).max(self.fragment_bytes());
            bytes_max[level] = bytes;
        }
        bytes_max
    }

    /// Over 1 if level 0 should go down.
    fn level_0_score(&self, levels: &Levels<'_>, level_1_bytes_max: u64) -> f64 {
        if self.level_0_is_small(levels) {
            return 0.0;
        }
        let bytes = levels.level_0_bytes();
        let by_runs = (levels.level_0.len() + 1) as f64 / LEVEL_0_RUNS as f64;
        by_runs.max(bytes as f64 / level_1_bytes_max as f64)
    }

    /// Whether level 1 would be rewritten for little.
    fn level_0_is_small(&self, levels: &Levels<'_>) -> bool {
        let bytes = levels.level_0_bytes();
        bytes <= self.fragment_bytes() && bytes.saturating_mul(self.0.fanout) < levels.bytes(1)
    }

    /// Level 0 and what it meets in the levels down to this one.
    fn level_0_down(&self, levels: &Levels<'_>, level: usize) -> Option<Task> {
        let runs = levels.level_0_chosen().iter();
        let mut inputs: Vec<usize> = runs.flat_map(|run| run.pieces.iter().copied()).collect();
        for met in 1..=level {
            // What was met above makes the output reach further here.
            inputs.extend(levels.met(&levels.reach(&inputs)?, met)?);
        }
        Some(merge(inputs, level as u8, self.fragment_bytes(), Why::Shape))
    }

    /// One piece of the level and what it meets in the next: the least for its own bytes.
    fn down(&self, levels: &Levels<'_>, level: usize) -> Option<Task> {
        let cost = |&index: &usize| {
            let met = levels.met(&levels.pieces[index].tokens, level + 1)?;
            let bytes: u64 = met.iter().map(|&index| levels.pieces[index].bytes).sum();
            Some((bytes as f64 / levels.pieces[index].bytes.max(1) as f64, index, met))
        };
        let free = levels.sorted[level - 1].iter().filter(|index| !levels.pieces[**index].busy);
        let best = free.filter_map(cost).min_by(|a, b| a.0.total_cmp(&b.0));
        let (_, index, mut inputs) = best?;
        inputs.push(index);
        Some(merge(inputs, level as u8 + 1, self.fragment_bytes(), Why::Shape))
    }

    /// Level 0 by size tiers, while it is small or must wait.
    fn within_level_0(&self, levels: &Levels<'_>) -> Option<Task> {
        let runs = &levels.level_0;
        if !self.level_0_is_small(levels) && runs.len() <= LEVEL_0_RUNS_MAX {
            return None;
        }
        let inputs = SizeTiered(&self.0.level_0).bucket(runs)?;
        Some(merge(inputs, 0, self.fragment_bytes(), Why::Shape))
    }
}

impl<'p> Levels<'p> {
    fn of(pieces: &'p [Piece]) -> Levels<'p> {
        let deepest = pieces.iter().map(|piece| piece.level).max().unwrap_or(0);
        let mut sorted: Vec<Vec<usize>> = vec![Vec::new(); deepest.into()];
        for (index, piece) in pieces.iter().enumerate() {
            if piece.level > 0 && (!piece.busy || piece.merging) {
                sorted[usize::from(piece.level) - 1].push(index);
            }
        }
        let mut strays = BTreeSet::new();
        for level in &mut sorted {
            // Of fragments that begin in one partition those that lie within it come before the one that goes on.
            level.sort_by_key(|&index| {
                let TokenRange { first, last } = pieces[index].tokens;
                (first, last, index)
            });
            let mut last = None;
            level.retain(|&index| {
                let Piece { tokens, run, .. } = pieces[index];
                // Two fragments of a run may have parts of one partition.
                let is_apart = last.is_none_or(|(last, of)| {
                    last < tokens.first || last == tokens.first && of == run
                });
                if is_apart {
                    last = Some((tokens.last, run));
                } else if !pieces[index].busy {
                    strays.insert(index);
                }
                is_apart
            });
        }
        let low = |index: &usize| pieces[*index].level == 0 || strays.contains(index);
        let level_0 = free_runs_of(pieces, (0..pieces.len()).filter(low));
        Levels { pieces, sorted, level_0 }
    }

    fn level_0_bytes(&self) -> u64 {
        self.level_0.iter().map(|run| run.bytes).sum()
    }

    /// Over 1 if what is overwritten in level 0 is due to go down; `last` is the last level.
    fn level_0_surplus_score(&self, last: usize, context: &CompactionContext) -> f64 {
        let ratio = context.overwritten_ratio.unwrap_or(0.0);
        let surplus_bytes = self.level_0_bytes() as f64 * ratio;
        let due_part = match last {
            1 => LEVEL_0_SURPLUS_ALONE_FACTOR,
            _ => LEVEL_0_SURPLUS_FACTOR,
        };
        let due_bytes = self.bytes(last) as f64 * due_part;
        surplus_bytes / due_bytes.max(SURPLUS_BYTES_MIN as f64)
    }

    /// What is merged of level 0 at once.
    fn level_0_chosen(&self) -> &[Run] {
        &self.level_0[..self.level_0.len().min(LEVEL_0_RUNS_MAX)]
    }

    /// The first level that may hold what level 0 gives.
    fn level_0_to(&self, bytes_max: &[u64]) -> usize {
        let bytes: u64 = self.level_0_chosen().iter().map(|run| run.bytes).sum();
        bytes_max.iter().position(|&max| bytes <= max).map_or(bytes_max.len(), |index| index + 1)
    }

    fn level(&self, level: usize) -> &[usize] {
        self.sorted.get(level - 1).map_or(&[], Vec::as_slice)
    }

    fn bytes(&self, level: usize) -> u64 {
        self.level(level).iter().map(|&index| self.pieces[index].bytes).sum()
    }

    fn free_bytes(&self, level: usize) -> u64 {
        let free = self.level(level).iter().filter(|index| !self.pieces[**index].busy);
        free.map(|&index| self.pieces[index].bytes).sum()
    }

    fn is_merging(&self, level: usize) -> bool {
        self.level(level).iter().any(|&index| self.pieces[index].merging)
    }

    /// From the first to the last token of these: a fragment that comes out may span a gap between them.
    fn reach(&self, inputs: &[usize]) -> Option<TokenRange> {
        let first = inputs.iter().map(|&index| self.pieces[index].tokens.first).min()?;
        let last = inputs.iter().map(|&index| self.pieces[index].tokens.last).max()?;
        Some(TokenRange { first, last })
    }

    /// The pieces of a level that lie within `reach`; `None` if one of them is being merged.
    fn met(&self, reach: &TokenRange, level: usize) -> Option<Vec<usize>> {
        let sorted = self.level(level);
        let from = sorted.partition_point(|&index| self.pieces[index].tokens.last < reach.first);
        let to = sorted.partition_point(|&index| self.pieces[index].tokens.first <= reach.last);
        let met = &sorted[from..to.max(from)];
        (!met.iter().any(|&index| self.pieces[index].busy)).then(|| met.to_vec())
    }
}
