//! What else to merge when the disk has no space for what a strategy proposes.
//!
//! ```text
//! no space ─► tombstones that can go ─► what the strategy proposes next, or fewer of the same runs ─► shared files
//! ```
//!
//! 1. A merge that purges tombstones frees space for certain: it comes first, of those that fit the one with most.
//! 2. Then the strategy is asked again as if what does not fit were being merged already. Of what it proposes, if that
//!    is too much, as many of the smallest runs of level 0 as fit are merged: that stays in level 0, so it is right for
//!    every strategy, and there are fewer runs.
//! 3. Then a file that several owners share.
//!
//! Each step asks a bounded number of times ([`SMALLER_TASKS_MAX`]) and finds how many runs fit by halving.
//!
//! Not here: how much space a merge takes (`footprint.rs`), how much there is (`space_ledger.rs`).

use super::piece::{CompactionContext, Piece, free_runs_of};
use super::strategy::{MergeTask, Strategy, Task, Why};
use crate::limits::SMALLER_TASKS_MAX;

/// A merge that `fits`, in place of one that does not.
pub(super) fn smaller(
    strategy: &Strategy<'_>,
    pieces: &[Piece],
    context: &CompactionContext,
    fits: &impl Fn(&MergeTask) -> bool,
) -> Option<Task> {
    let no_fewer = |_: &[Piece], _: &Task| None;
    let tombstones = |left: &[Piece]| strategy.tombstones(left, context);
    let proposed = |left: &[Piece]| strategy.propose(left, context);
    let fewer = |left: &[Piece], task: &Task| fewer(left, task, fits);
    let owners = |left: &[Piece]| strategy.owners(left);
    first_that_fits(pieces, fits, tombstones, no_fewer)
        .or_else(|| first_that_fits(pieces, fits, proposed, fewer))
        .or_else(|| first_that_fits(pieces, fits, owners, no_fewer))
}

/// Asks until a task fits, or what there is `instead` of it; what does not is left out of the next question.
fn first_that_fits(
    pieces: &[Piece],
    fits: &impl Fn(&MergeTask) -> bool,
    ask: impl Fn(&[Piece]) -> Option<Task>,
    instead: impl Fn(&[Piece], &Task) -> Option<Task>,
) -> Option<Task> {
    let mut left = pieces.to_vec();
    for _ in 0..SMALLER_TASKS_MAX {
        let task = ask(&left)?;
        // What is dead as a whole is not merged: it is dropped when the strategy is asked next.
        let Task::Merge(merge) = &task else { return None };
        if fits(merge) {
            return Some(task);
        }
        if let Some(instead) = instead(&left, &task) {
            return Some(instead);
        }
        for &index in &merge.pieces {
            (left[index].busy, left[index].merging) = (true, true);
        }
    }
    None
}

/// As many of the smallest runs of a task's level 0 as fit, if several do.
fn fewer(pieces: &[Piece], task: &Task, fits: &impl Fn(&MergeTask) -> bool) -> Option<Task> {
    let Task::Merge(task @ MergeTask { why: Why::Shape, .. }) = task else { return None };
    let level_0 = task.pieces.iter().copied().filter(|&index| pieces[index].level == 0);
    let runs = free_runs_of(pieces, level_0);
    let of_smallest = |count: usize| {
        let chosen = runs[..count].iter().flat_map(|run| run.pieces.iter().copied());
        let mut chosen: Vec<usize> = chosen.collect();
        chosen.sort_unstable();
        MergeTask { pieces: chosen, level: 0, ..*task }
    };
    // More runs take no less space.
    let (mut fit, mut too_many) = (1, runs.len() + 1);
    while fit + 1 < too_many {
        let middle = (fit + too_many) / 2;
        match fits(&of_smallest(middle)) {
            true => fit = middle,
            false => too_many = middle,
        }
    }
    (fit > 1).then(|| Task::Merge(of_smallest(fit)))
}

#[cfg(test)]
mod tests {
    use model::options::Compaction;
    use model::{Token, TokenRange};
    use uuid::Uuid;

    use super::*;

    const CONTEXT: CompactionContext = CompactionContext {
        gc_before_s: 100,
        now_s: 200,
        oldest_unflushed: i64::MAX,
        overwritten_ratio: None,
    };

    fn piece(run: u128, bytes: u64) -> Piece {
        Piece {
            run: Uuid::from_u128(run),
            level: 0,
            tokens: TokenRange { first: Token(0), last: Token(9) },
            bytes,
            oldest_timestamp: 0,
            newest_timestamp: run as i64,
            last_death_s: u32::MAX,
            dead_part: 0.0,
            joined_dead_part: 0.0,
            made_s: 0,
            shared: false,
            busy: false,
            merging: false,
        }
    }

    /// Which pieces are merged when there is space for so many bytes of them.
    fn chosen(pieces: &[Piece], room_bytes: u64) -> Option<(Vec<usize>, Why)> {
        let options = Compaction::default();
        let fits = |task: &MergeTask| {
            task.pieces.iter().map(|&index| pieces[index].bytes).sum::<u64>() <= room_bytes
        };
        match smaller(&Strategy::of(&options), pieces, &CONTEXT, &fits)? {
            Task::Merge(MergeTask { pieces, why, level: 0, .. }) => Some((pieces, why)),
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn as_many_of_the_smallest_runs_are_merged_as_fit() {
        let pieces = [piece(1, 100), piece(2, 102), piece(3, 101), piece(4, 103)];
        assert_eq!(chosen(&pieces, 406), Some((vec![0, 1, 2, 3], Why::Shape)));
        assert_eq!(chosen(&pieces, 405), Some((vec![0, 1, 2], Why::Shape)));
        assert_eq!(chosen(&pieces, 202), Some((vec![0, 2], Why::Shape)));
        assert_eq!(chosen(&pieces, 200), None, "no two fit");
    }

    #[test]
    fn another_bucket_is_merged_if_none_of_the_first_fits() {
        let mut pieces = vec![piece(1, 10), piece(2, 10), piece(3, 10), piece(4, 10)];
        pieces.extend((5..13).map(|run| piece(run, 1_000_000_000)));
        let small = chosen(&pieces, 100).map(|(pieces, _)| pieces);
        assert_eq!(small, Some(vec![0, 1, 2, 3]));
    }

    #[test]
    fn what_frees_space_comes_first_and_shared_files_last() {
        let mut pieces = [piece(1, 100), piece(2, 100), piece(3, 100), piece(4, 100)];
        (pieces[3].shared, pieces[3].bytes) = (true, 90);
        assert_eq!(chosen(&pieces, 95), Some((vec![3], Why::Owners)));
        // The oldest of all: nothing that its tombstones cover is elsewhere.
        (pieces[0].dead_part, pieces[0].newest_timestamp) = (0.9, -1);
        assert_eq!(chosen(&pieces, 300), Some((vec![0], Why::Tombstones)));
    }
}
