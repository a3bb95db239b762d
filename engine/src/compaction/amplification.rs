//! A goal for the space that overwritten rows take: what lies over the base is merged into it in time.
//!
//! ```text
//! base          ████████████████████████████████    the most that lies side by side (`base.rs`)
//! the others    ██████ ███ █                        surplus: bytes that a merge of all would free
//! memtables     ░░                                  what is surplus when it is flushed
//!
//! surplus  0 ─────────── due ────── slow ─────────── full
//!                        all runs   writers are      writers are slowed
//!                        are merged slowed, too      the most
//! ```
//!
//! Runs of similar size may lie over one another for long, each with another version of the same rows. How many bytes a
//! flushed one frees in older files is known from samples (`overwriting.rs`). Where it is known the goal comes
//! before the number of runs. Where it is not, it may be all: then what could be freed at most is bounded, when nothing
//! else is due (`space_amplification_goal` of ScyllaDB's incremental strategy, which compares its two largest tiers),
//! and no writer is slowed for it.
//!
//! A merge of everything takes its time, and what is written meanwhile comes on top: so it begins well before the goal,
//! and a writer that is faster than the merges is slowed around the goal. For that, what is in memory counts as what it
//! becomes: the delay rises with each write and not by a flush at a time. The goal is a multiple of the base. Nobody
//! waits for what merges cannot free: a file in quarantine keeps what lies over its run.

use super::base::{Base, Unit, stuck};
use super::piece::{Piece, Run};
use crate::limits::{
    BACKLOG_RUNS_MAX, BACKLOG_RUNS_SLOW, SPACE_DUE_FACTOR, SPACE_FULL_FACTOR, SPACE_FULL_FLUSHES,
    SPACE_FULL_FLUSHES_MIN, SPACE_SLOW_FACTOR, SPACE_SLOW_FLUSHES, SPACE_SLOW_FLUSHES_MIN,
    SURPLUS_BYTES_MIN,
};
use crate::overwriting::Overwriting;

/// What a table may take, and what is known of how it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    /// Bytes on disk for each byte of the base.
    pub(super) goal: f64,
    /// How many bytes a flushed one frees in older files, if that is known.
    pub(super) overwritten_ratio: Option<f64>,
}

impl Goal {
    /// What is to be merged of `free`: for space, or for its shape.
    pub(super) fn first_of(
        &self,
        pieces: &[Piece],
        free: &[Run],
        for_shape: impl FnOnce() -> Option<Vec<usize>>,
    ) -> Option<Vec<usize>> {
        match self.overwritten_ratio {
            Some(_) => self.for_space(pieces, free).or_else(for_shape),
            None => for_shape().or_else(|| self.for_space(pieces, free)),
        }
    }

    /// The pieces of all of `free`, if the surplus of those beside the base is due to be merged.
    fn for_space(&self, pieces: &[Piece], free: &[Run]) -> Option<Vec<usize>> {
        if free.len() < 2 {
            // Merged alone a run is the same again.
            return None;
        }
        let all: Vec<usize> = free.iter().flat_map(|run| run.pieces.iter().copied()).collect();
        let mut is_free = vec![false; pieces.len()];
        all.iter().for_each(|&index| is_free[index] = true);
        let base = Base::of(pieces, &stuck(pieces, Unit::Run), Unit::Run);
        // What lies over a part of the base that is in a merge already, or cannot be merged, frees nothing.
        let (here_bytes, others_bytes) = base.parted_bytes(pieces, |index| is_free[index]);
        let bytes = part_over(others_bytes, here_bytes, base.bytes);
        // All of it may be surplus.
        let (ratio, due_part) =
            self.overwritten_ratio.map_or((1.0, 1.0), |ratio| (ratio, SPACE_DUE_FACTOR));
        let surplus_bytes = bytes as f64 * ratio;
        let due_bytes = (self.goal - 1.0) * due_part * base.bytes as f64;
        let is_due = surplus_bytes >= SURPLUS_BYTES_MIN as f64 && surplus_bytes > due_bytes;
        is_due.then_some(all)
    }
}

/// The share of `bytes`, which lie over a base of `base_bytes`, that lies over `here_bytes` of it: tokens are uniform.
fn part_over(bytes: u64, here_bytes: u64, base_bytes: u64) -> u64 {
    (u128::from(bytes) * u128::from(here_bytes) / u128::from(base_bytes.max(1))) as u64
}

/// What a table takes on disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DiskUse {
    /// What it would take if nothing were overwritten, in bytes, about.
    pub(super) base_bytes: u64,
    /// What overwritten rows take until they are merged, in bytes.
    pub(super) surplus_bytes: u64,
    /// What of the surplus merges can free: not what lies in files that cannot be merged, or over them. Bytes.
    freeable_bytes: u64,
}

impl DiskUse {
    /// Of a table whose files have so many bytes, and which is merged by such units.
    pub(super) fn of(
        pieces: &[Piece],
        unit: Unit,
        overwriting: &Overwriting,
        disk_bytes: u64,
    ) -> DiskUse {
        let stuck = stuck(pieces, unit);
        let base = Base::of(pieces, &stuck, unit);
        // While a partition is merged that is longer than a fragment, the base is in two that share its token.
        if !base.is_merging(pieces) {
            overwriting.base_bytes.set(base.bytes);
        }
        let base_bytes = overwriting.base_bytes.get().max(base.bytes).min(disk_bytes);
        // Deletions may free more than they take, but nothing beyond the files.
        let ratio = overwriting.ratio().unwrap_or(0.0).min(1.0);
        let (stuck_bytes, stuck_others_bytes) = base.parted_bytes(pieces, |index| stuck[index]);
        let others_bytes = disk_bytes - base_bytes;
        let freeable_bytes = part_over(
            others_bytes.saturating_sub(stuck_others_bytes),
            base.bytes - stuck_bytes,
            base.bytes,
        );
        let surplus_of = |bytes: u64| (bytes as f64 * ratio) as u64;
        DiskUse {
            base_bytes,
            surplus_bytes: surplus_of(others_bytes),
            freeable_bytes: surplus_of(freeable_bytes),
        }
    }
}

/// What the writers of a table are slowed by: its surplus, and what is going to be surplus when it is flushed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SpaceDebt {
    /// The surplus of its files that merges can free, in bytes.
    surplus_bytes: f64,
    /// Bytes of surplus on disk that one byte in memtables turns into when it is flushed.
    memory_part: f64,
    /// Writers are slowed from so much surplus on.
    slow_bytes: f64,
    /// They are slowed the most at this.
    full_bytes: f64,
}

impl SpaceDebt {
    /// Of a table with such a goal, if it is known how it is written; memtables are flushed at `flush_bytes`, and a byte
    /// in memory becomes `file_part` bytes in a file.
    pub(super) fn of(
        disk: &DiskUse,
        (overwriting, file_part): (&Overwriting, f64),
        goal: f64,
        flush_bytes: usize,
    ) -> Option<SpaceDebt> {
        let ratio = overwriting.ratio()?;
        let of_goal = |part: f64| disk.base_bytes as f64 * (goal - 1.0) * part;
        let of_flushes = |count: f64| flush_bytes as f64 * file_part * count;
        Some(SpaceDebt {
            surplus_bytes: disk.freeable_bytes as f64,
            // What is flushed takes its own bytes, whatever it frees.
            memory_part: ratio.min(1.0) * file_part,
            slow_bytes: (of_goal(SPACE_SLOW_FACTOR) + of_flushes(SPACE_SLOW_FLUSHES))
                .max(of_flushes(SPACE_SLOW_FLUSHES_MIN)),
            full_bytes: (of_goal(SPACE_FULL_FACTOR) + of_flushes(SPACE_FULL_FLUSHES))
                .max(of_flushes(SPACE_FULL_FLUSHES_MIN)),
        })
    }

    /// As how many runs that wait to be merged it counts while the table's memtables hold so many bytes.
    pub(super) fn runs(&self, memtable_bytes: usize) -> f64 {
        let bytes = self.surplus_bytes + self.memory_part * memtable_bytes as f64;
        let (slow, full) = (BACKLOG_RUNS_SLOW as f64, BACKLOG_RUNS_MAX as f64);
        let runs = match bytes <= self.slow_bytes {
            true => slow * bytes / self.slow_bytes.max(1.0),
            false => {
                let over = (bytes - self.slow_bytes) / (self.full_bytes - self.slow_bytes);
                slow + (full - slow) * over
            }
        };
        runs.min(full)
    }
}

#[cfg(test)]
mod tests;
