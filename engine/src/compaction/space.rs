//! A goal for the space that overwritten rows take: what lies above the largest run is merged into it in time.
//!
//! ```text
//! largest run   ████████████████████████████████
//! the others    ██████ ███ █                        surplus: bytes that a merge of all would free
//! memtables     ░░                                  what is surplus when it is flushed
//!
//! surplus  0 ─────────── due ────── slow ─────────── full
//!                        all runs   writers are      writers are slowed
//!                        are merged slowed, too      the most
//! ```
//!
//! Runs of similar size may lie side by side for long, each with another version of the same rows. How many bytes a
//! flushed one frees in older files is known from samples (`overwriting.rs`). Where it is known the goal comes
//! before the number of runs. Where it is not, it may be all: then what could be freed at most is bounded, when nothing
//! else is due (`space_amplification_goal` of ScyllaDB's incremental strategy, which compares its two largest tiers),
//! and no writer is slowed for it.
//!
//! A merge of everything takes its time, and what is written meanwhile comes on top: so it begins well before the goal,
//! and a writer that is faster than the merges is slowed around the goal. For that, what is in memory counts as what it
//! becomes: the delay rises with each write and not by a flush at a time. The base is what the table would take if
//! nothing were overwritten, about; the goal is a multiple of it.

use super::piece::{Candidate, Run, all_runs};
use crate::limits::{
    BACKLOG_RUNS_MAX, BACKLOG_RUNS_SLOW, SPACE_DUE_PART, SPACE_FULL_FLUSHES,
    SPACE_FULL_FLUSHES_MIN, SPACE_FULL_PART, SPACE_SLOW_FLUSHES, SPACE_SLOW_FLUSHES_MIN,
    SPACE_SLOW_PART, SURPLUS_BYTES_MIN,
};
use crate::overwriting::Overwriting;

/// What a table may take, and what is known of how it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    /// So many times the bytes of the base.
    pub(super) goal: f64,
    /// How many bytes a flushed one frees in older files, if that is known.
    pub(super) overwritten_ratio: Option<f64>,
}

impl Goal {
    /// What is to be merged of `free`: for space, or for its shape.
    pub(super) fn first_of(
        &self,
        pieces: &[Candidate],
        free: &[Run],
        for_shape: impl FnOnce() -> Option<Vec<usize>>,
    ) -> Option<Vec<usize>> {
        match self.overwritten_ratio {
            Some(_) => self.for_space(pieces, free).or_else(for_shape),
            None => for_shape().or_else(|| self.for_space(pieces, free)),
        }
    }

    /// The pieces of all of `free`, if the surplus of those beside the largest run is due to be merged.
    fn for_space(&self, pieces: &[Candidate], free: &[Run]) -> Option<Vec<usize>> {
        let largest = all_runs(pieces).last()?.bytes;
        let (last, others) = free.split_last()?;
        if last.bytes < largest {
            // The largest is in a merge already, or cannot be merged.
            return None;
        }
        let bytes: u64 = others.iter().map(|run| run.bytes).sum();
        // All of it may be surplus.
        let (ratio, due_part) =
            self.overwritten_ratio.map_or((1.0, 1.0), |ratio| (ratio, SPACE_DUE_PART));
        let surplus_bytes = bytes as f64 * ratio;
        let due_bytes = (self.goal - 1.0) * due_part * largest as f64;
        if surplus_bytes < SURPLUS_BYTES_MIN as f64 || surplus_bytes <= due_bytes {
            return None;
        }
        Some(free.iter().flat_map(|run| run.pieces.iter().copied()).collect())
    }
}

/// What a table takes on disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DiskUse {
    /// What it would take if nothing were overwritten, in bytes, about.
    pub(super) base_bytes: u64,
    /// What overwritten rows take until they are merged, in bytes.
    pub(super) surplus_bytes: u64,
}

impl DiskUse {
    /// Of a table whose files have so many bytes. Deletions may free more than they take, but nothing beyond the files.
    pub(super) fn of(pieces: &[Candidate], overwriting: &Overwriting, disk_bytes: u64) -> DiskUse {
        let base_bytes = base_bytes(pieces, overwriting).min(disk_bytes);
        let ratio = overwriting.ratio().unwrap_or(0.0);
        let others_bytes = disk_bytes - base_bytes;
        DiskUse {
            base_bytes,
            surplus_bytes: others_bytes.min((others_bytes as f64 * ratio) as u64),
        }
    }
}

/// What the writers of a table are slowed by: its surplus, and what is going to be surplus when it is flushed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SpaceDebt {
    /// The surplus of its files, in bytes.
    surplus_bytes: f64,
    /// How many bytes of surplus become of one in its memtables.
    memory_part: f64,
    /// Writers are slowed from so much surplus on.
    slow_bytes: f64,
    /// They are slowed the most at this.
    full_bytes: f64,
}

impl SpaceDebt {
    /// Of a table with such a goal, if it is known how it is written; memtables are flushed at `flush_bytes`.
    pub(super) fn of(
        disk: &DiskUse,
        overwriting: &Overwriting,
        goal: f64,
        flush_bytes: usize,
    ) -> Option<SpaceDebt> {
        let ratio = overwriting.ratio()?;
        let of_goal = |part: f64| disk.base_bytes as f64 * (goal - 1.0) * part;
        let of_flushes = |count: f64| flush_bytes as f64 * overwriting.file_part() * count;
        Some(SpaceDebt {
            surplus_bytes: disk.surplus_bytes as f64,
            // What is flushed takes its own bytes, whatever it frees.
            memory_part: ratio.min(1.0) * overwriting.file_part(),
            slow_bytes: (of_goal(SPACE_SLOW_PART) + of_flushes(SPACE_SLOW_FLUSHES))
                .max(of_flushes(SPACE_SLOW_FLUSHES_MIN)),
            full_bytes: (of_goal(SPACE_FULL_PART) + of_flushes(SPACE_FULL_FLUSHES))
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

/// Bytes of what a table would be if nothing were overwritten, about: of its largest level or its largest run.
fn base_bytes(pieces: &[Candidate], overwriting: &Overwriting) -> u64 {
    let deepest = pieces.iter().map(|piece| piece.level).max().unwrap_or(0);
    let of_level = |level: u8| {
        let here = pieces.iter().filter(|piece| piece.level == level);
        here.map(|piece| piece.bytes).sum()
    };
    let largest_level: u64 = (1..=deepest).map(of_level).max().unwrap_or(0);
    let runs = all_runs(pieces);
    let largest = runs.last();
    let is_merging =
        largest.is_some_and(|run| run.pieces.iter().any(|&index| pieces[index].merging));
    let largest_bytes = largest.map_or(0, |run| run.bytes);
    // While the largest run is merged, it is in two.
    if !is_merging {
        overwriting.base_bytes.set(largest_bytes);
    }
    overwriting.base_bytes.get().max(largest_bytes).max(largest_level)
}

#[cfg(test)]
mod tests {
    use model::TokenRange;
    use uuid::Uuid;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn piece(run: u128, level: u8, mib: u64) -> Candidate {
        Candidate {
            run: Uuid::from_u128(run),
            level,
            tokens: TokenRange::ALL,
            bytes: mib * MIB,
            oldest_timestamp: 0,
            newest_timestamp: 0,
            last_death_s: u32::MAX,
            made_s: 0,
            dead_part: 0.0,
            shared: false,
            busy: false,
            merging: false,
        }
    }

    fn surplus_mib(pieces: &[Candidate], overwriting: &Overwriting, disk_mib: u64) -> u64 {
        DiskUse::of(pieces, overwriting, disk_mib * MIB).surplus_bytes / MIB
    }

    #[test]
    fn what_lies_beside_the_largest_run_is_surplus_as_far_as_rows_are_overwritten() {
        let pieces = [piece(1, 0, 1000), piece(2, 0, 250), piece(3, 0, 250)];
        let unknown = Overwriting::default();
        assert_eq!(surplus_mib(&pieces, &unknown, 1500), 0);
        for (part, mib) in [(0.0, 0), (0.5, 250), (1.0, 500), (8.0, 500)] {
            assert_eq!(surplus_mib(&pieces, &Overwriting::of(part), 1500), mib, "{part}");
        }
        let levels = [piece(1, 2, 500), piece(2, 2, 500), piece(3, 1, 100), piece(4, 0, 100)];
        assert_eq!(surplus_mib(&levels, &Overwriting::of(1.0), 1200), 200, "beside the level");
        let new_level = [piece(1, 3, 5), piece(2, 2, 500), piece(3, 2, 500), piece(4, 0, 100)];
        assert_eq!(surplus_mib(&new_level, &Overwriting::of(1.0), 1105), 105);
    }

    #[test]
    fn while_the_largest_run_is_merged_it_is_in_two_and_no_larger_for_that() {
        let overwriting = Overwriting::of(1.0);
        let before = [piece(1, 0, 1000), piece(2, 0, 250)];
        assert_eq!(surplus_mib(&before, &overwriting, 1250), 250);
        let [mut rest, mut made] = [piece(1, 0, 500), piece(3, 0, 510)];
        (rest.merging, made.merging) = (true, true);
        // The file of the other input is there until the end.
        assert_eq!(surplus_mib(&[rest, made], &overwriting, 1270), 270);
        assert_eq!(surplus_mib(&[piece(3, 0, 1010)], &overwriting, 1010), 0);
    }

    fn debt(base_mib: u64, surplus_mib: u64, overwriting: &Overwriting) -> SpaceDebt {
        let (base_bytes, surplus_bytes) = (base_mib * MIB, surplus_mib * MIB);
        let disk = DiskUse { base_bytes, surplus_bytes };
        SpaceDebt::of(&disk, overwriting, 1.25, 64 << 20).unwrap()
    }

    #[test]
    fn writers_are_slowed_around_the_goal_and_not_by_one_flush() {
        let (slow, full) = (BACKLOG_RUNS_SLOW as f64, BACKLOG_RUNS_MAX as f64);
        let runs =
            |base_mib, surplus_mib| debt(base_mib, surplus_mib, &Overwriting::of(1.0)).runs(0);
        assert!(runs(10_000, 2_000) < slow, "due and not late");
        assert!(runs(10_000, 2_500) > slow);
        assert_eq!(runs(10_000, 3_400), full);
        assert!(runs(0, 30) < slow && runs(1, 95) < slow && runs(1, 192) == full);
        let all: Vec<f64> = (0..400).map(|mib| runs(1000, mib)).collect();
        assert!(all.windows(2).all(|pair| pair[0] <= pair[1] && pair[1] <= pair[0] + 1.0));
    }

    #[test]
    fn what_is_in_memtables_slows_writers_before_it_is_flushed() {
        let runs = |surplus_mib, ratio, memory_mib: usize| {
            debt(1000, surplus_mib, &Overwriting::of(ratio)).runs(memory_mib << 20)
        };
        let in_files = runs(300, 1.0, 0);
        assert_eq!(runs(200, 1.0, 100), in_files);
        assert_eq!(runs(200, 0.5, 200), in_files, "half of it is new");
        assert_eq!(runs(200, 9.0, 100), in_files, "a deletion takes its own bytes");
        let packed = Overwriting::of(1.0);
        packed.was_flushed(MIB, 4 << 20);
        let [less, more] = [100, 400].map(|mib| debt(1000, 200, &packed).runs(mib << 20));
        assert!(less < in_files && more > in_files, "a flush takes less, and so writers may do");
        assert!(
            SpaceDebt::of(
                &DiskUse { base_bytes: 1, surplus_bytes: 1 << 40 },
                &Overwriting::default(),
                1.25,
                1
            )
            .is_none(),
            "where nothing is known none is slowed"
        );
    }

    #[test]
    fn the_goal_comes_first_where_rows_are_known_to_be_overwritten() {
        let pieces = [piece(1, 0, 1000), piece(2, 0, 150), piece(3, 0, 90)];
        let free = super::super::piece::free_runs(&pieces);
        let chosen = |overwritten_ratio, shape: Option<Vec<usize>>| {
            Goal { goal: 1.25, overwritten_ratio }.first_of(&pieces, &free, || shape)
        };
        let small = Some(vec![1, 2]);
        let all = Some(vec![2, 1, 0]);
        assert_eq!(chosen(Some(1.0), small.clone()), all);
        assert_eq!(chosen(Some(0.5), small.clone()), small);
        assert_eq!(chosen(Some(0.0), None), None, "a table that grows");
        assert_eq!(chosen(None, None), None, "a quarter of the largest is let be");
        assert_eq!(
            Goal { goal: 1.2, overwritten_ratio: None }.first_of(&pieces, &free, || None),
            all
        );
    }
}
