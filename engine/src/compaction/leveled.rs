//! Levels: from level 1 on the pieces of a level share no token, and each level is `fanout_size` times the
//! last, so that a read looks into one file a level.
//!
//! 1. The deepest level that is too large gives one piece to the next: the one that meets the fewest bytes
//!    there for its own.
//! 2. Else, when level 0 has four runs, they are merged with what they meet in level 1.
//! 3. A piece that cannot be merged counts for no level, and what comes out may overlap it: a read looks into
//!    one more file there, and the others are merged as if it were not.

use model::{TokenRange, options};

use super::piece::{Candidate, free_runs};
use super::strategy::{Task, Why, merge};
use crate::limits::FRAGMENT_BYTES_MAX;

/// Level 0 is merged when it has so many runs, and at most so many at once.
const LEVEL_0_RUNS: usize = 4;
const LEVEL_0_RUNS_MAX: usize = 32;
/// Beyond, a level holds more than any disk.
const LEVELS_MAX: u8 = 9;

/// Proposes level by level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leveled<'o>(pub(super) &'o options::Leveled);

impl Leveled<'_> {
    pub(super) fn fragment_bytes(&self) -> u64 {
        self.0.sstable_bytes.min(FRAGMENT_BYTES_MAX)
    }

    /// The first level that holds so many bytes.
    pub(super) fn level_of(&self, bytes: u64) -> u8 {
        (1..LEVELS_MAX).find(|&level| bytes <= self.level_bytes_max(level)).unwrap_or(LEVELS_MAX)
    }

    fn level_bytes_max(&self, level: u8) -> u64 {
        self.0.sstable_bytes.saturating_mul(self.0.fanout.saturating_pow(level.into()))
    }

    pub(super) fn propose(&self, pieces: &[Candidate]) -> Option<Task> {
        let deep = (1..LEVELS_MAX).rev().find_map(|level| self.propose_level(pieces, level));
        deep.or_else(|| self.propose_level_0(pieces))
    }

    fn propose_level(&self, pieces: &[Candidate], level: u8) -> Option<Task> {
        let of_level = |&index: &usize| pieces[index].level == level && !pieces[index].busy;
        let bytes: u64 = (0..pieces.len()).filter(of_level).map(|index| pieces[index].bytes).sum();
        if bytes <= self.level_bytes_max(level) {
            return None;
        }
        let candidates = (0..pieces.len()).filter(of_level);
        let candidates = candidates.filter_map(|index| with_next_level(pieces, vec![index], level));
        // What is rewritten for each byte that moves.
        let cost = |inputs: &Vec<usize>| {
            let all: u64 = inputs.iter().map(|&index| pieces[index].bytes).sum();
            let own = inputs.iter().find(|index| of_level(index));
            u128::from(all) * 1000 / u128::from(own.map_or(1, |&index| pieces[index].bytes.max(1)))
        };
        let inputs = candidates.min_by_key(cost)?;
        Some(merge(inputs, level + 1, self.0.sstable_bytes, Why::Shape))
    }

    fn propose_level_0(&self, pieces: &[Candidate]) -> Option<Task> {
        let in_level_0 = |index: &usize| pieces[*index].level == 0;
        let mut runs = free_runs(pieces);
        runs.retain(|run| run.pieces.iter().all(in_level_0));
        if runs.len() < LEVEL_0_RUNS {
            return None;
        }
        let chosen = runs.iter().take(LEVEL_0_RUNS_MAX);
        let chosen = chosen.flat_map(|run| run.pieces.iter().copied()).collect();
        Some(merge(with_next_level(pieces, chosen, 0)?, 1, self.0.sstable_bytes, Why::Shape))
    }
}

/// The chosen pieces and all that can be merged and lies between their ends one level deeper; `None` if none is
/// chosen.
fn with_next_level(pieces: &[Candidate], chosen: Vec<usize>, level: u8) -> Option<Vec<usize>> {
    // A fragment that comes out may span a gap between the chosen, so the gap counts too.
    let first = chosen.iter().map(|&index| pieces[index].tokens.first).min()?;
    let last = chosen.iter().map(|&index| pieces[index].tokens.last).max()?;
    let reach = TokenRange { first, last };
    let meets = |&index: &usize| {
        let piece = &pieces[index];
        !piece.busy && piece.level == level + 1 && piece.tokens.intersection(&reach).is_some()
    };
    let met = (0..pieces.len()).filter(meets);
    Some(chosen.iter().copied().chain(met).collect())
}
