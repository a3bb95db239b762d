//! Surplus, what is slowed for it, and what is merged for it.
//!
//! 1. How many bytes of pieces are surplus: beside the largest run or level, as far as rows are known to be
//!    overwritten; none where pieces share no token, and none that a merge cannot free.
//! 2. As how many runs a surplus counts, so that writers are slowed around the goal, not by one flush, and for what is
//!    in memtables as well.
//! 3. When the goal for space comes before what the strategy would merge.
//!
//! Pieces have sizes and tokens only. Not here: how much is overwritten (`overwriting.rs`), the effect over a long time
//! (`tests/steady.rs`), real files.

use uuid::Uuid;

use super::*;
use crate::compaction::piece::free_runs;
use crate::compaction::piece::tests::piece as of_run;

const MIB: u64 = 1 << 20;

fn piece(run: u128, level: u8, mib: u64) -> Piece {
    part(run, level, (i64::MIN, i64::MAX), mib)
}

fn part(run: u128, level: u8, (first, last): (i64, i64), mib: u64) -> Piece {
    Piece { level, ..of_run(run, first, last, mib * MIB) }
}

fn surplus_mib(pieces: &[Piece], overwriting: &Overwriting, disk_mib: u64) -> u64 {
    DiskUse::of(pieces, Unit::Run, overwriting, disk_mib * MIB).surplus_bytes / MIB
}

/// Of pieces and nothing else, where all is overwritten: as how many runs it counts, and the pieces that are merged.
fn debt_and_merge(pieces: &[Piece], unit: Unit) -> (f64, Option<Vec<usize>>) {
    let overwriting = Overwriting::of(1.0);
    let disk_bytes = pieces.iter().map(|piece| piece.bytes).sum();
    let disk = DiskUse::of(pieces, unit, &overwriting, disk_bytes);
    let debt = SpaceDebt::of(&disk, (&overwriting, 1.0), 1.25, 64 << 20).expect("a ratio");
    let goal = Goal { goal: 1.25, overwritten_ratio: Some(1.0) };
    (debt.runs(0), goal.for_space(pieces, &free_runs(pieces)))
}

#[test]
fn what_lies_beside_the_largest_run_is_surplus_as_far_as_rows_are_overwritten() {
    let pieces = [piece(1, 0, 1000), piece(2, 0, 250), piece(3, 0, 250)];
    let unknown = Overwriting::default();
    assert_eq!(surplus_mib(&pieces, &unknown, 1500), 0);
    for (ratio, mib) in [(0.0, 0), (0.5, 250), (1.0, 500), (8.0, 500)] {
        assert_eq!(surplus_mib(&pieces, &Overwriting::of(ratio), 1500), mib, "{ratio}");
    }
    let halves = [part(1, 2, (0, 9), 500), part(2, 2, (10, 19), 500)];
    let levels = [&halves[..], &[piece(3, 1, 100), piece(4, 0, 100)]].concat();
    assert_eq!(surplus_mib(&levels, &Overwriting::of(1.0), 1200), 200, "beside the level");
}

/// Before: all but the largest of them counted, and writers of the whole shard were slowed for hundreds of runs of
/// a table that was restored, or whose shards had become fewer.
#[test]
fn runs_that_share_no_token_are_no_surplus() {
    let pieces: Vec<Piece> =
        (0..30).map(|at| part(at, 0, (at as i64 * 10, at as i64 * 10 + 9), 100)).collect();
    assert_eq!(surplus_mib(&pieces, &Overwriting::of(1.0), 3000), 0);
    assert_eq!(debt_and_merge(&pieces, Unit::Run), (0.0, None));
    assert_eq!(debt_and_merge(&pieces, Unit::Piece), (0.0, None));
    let unknown = Goal { goal: 1.25, overwritten_ratio: None };
    assert_eq!(unknown.first_of(&pieces, &free_runs(&pieces), || None), None);
    let overwritten = [&pieces[..], &[piece(90, 0, 650)]].concat();
    assert_eq!(surplus_mib(&overwritten, &Overwriting::of(1.0), 3650), 650);
    assert!(debt_and_merge(&overwritten, Unit::Run).1.is_some());
}

/// Before: one of two levels that share no token counted, and writers were slowed the most while one moved down.
#[test]
fn a_table_that_gains_a_level_slows_no_writer() {
    let moving: Vec<Piece> = (0..10)
        .map(|at| part(at, 1 + at as u8 / 5, (at as i64 * 10, at as i64 * 10 + 9), 100))
        .collect();
    assert_eq!(surplus_mib(&moving, &Overwriting::of(0.5), 1000), 0);
    assert_eq!(debt_and_merge(&moving, Unit::Piece).0, 0.0);
}

/// Before: all others were a debt that no merge could pay, and writers were slowed for it without end.
#[test]
fn what_lies_over_a_run_that_cannot_be_merged_slows_no_writer() {
    let mut pieces = [(0, 9, 400), (10, 19, 400), (0, 19, 300)]
        .map(|(first, last, mib)| part(first as u128 / 400, 0, (first, last), mib));
    pieces[2].run = Uuid::from_u128(9);
    let (runs, merge) = debt_and_merge(&pieces, Unit::Run);
    assert!(runs > BACKLOG_RUNS_SLOW as f64 && merge.is_some());
    pieces[0].busy = true;
    assert_eq!(debt_and_merge(&pieces, Unit::Run), (0.0, None), "the run is in quarantine");
    assert_eq!(surplus_mib(&pieces, &Overwriting::of(1.0), 1100), 300, "and is told of");
    pieces[0].merging = true;
    assert_eq!(debt_and_merge(&pieces, Unit::Run), (runs, None), "its merge pays");
    pieces[0].merging = false;
    pieces.iter_mut().for_each(|piece| piece.level = 1);
    pieces[2].level = 0;
    let (of_levels, _) = debt_and_merge(&pieces, Unit::Piece);
    assert!(of_levels > 0.0, "levels are merged around a piece in quarantine");
    pieces[0].busy = false;
    pieces[2].busy = true;
    assert_eq!(debt_and_merge(&pieces, Unit::Run).0, 0.0, "what lies above is");
}

/// Before: what lies over a run in quarantine counted as lying over the rest of the base as well, and the one run
/// beside it was merged into itself again and again.
#[test]
fn one_run_beside_a_file_in_quarantine_is_not_merged_alone() {
    let mut pieces =
        [(1, 10, 19, 500), (2, 0, 9, 500), (2, 10, 19, 470)].map(|(run, first, last, mib)| Piece {
            run: Uuid::from_u128(run),
            ..part(run, 0, (first, last), mib)
        });
    pieces[0].busy = true;
    assert_eq!(debt_and_merge(&pieces, Unit::Run).1, None);
    let flushed = [&pieces[..], &[piece(3, 0, 200)]].concat();
    assert!(debt_and_merge(&flushed, Unit::Run).1.is_some());
}

#[test]
fn while_the_base_is_merged_it_is_in_two_and_no_smaller_for_that() {
    let overwriting = Overwriting::of(1.0);
    let before = [piece(1, 0, 1000), piece(2, 0, 250)];
    assert_eq!(surplus_mib(&before, &overwriting, 1250), 250);
    let in_two = |made: (i64, i64), rest: (i64, i64)| {
        [part(3, 0, made, 510), part(1, 0, rest, 500)].map(|piece| Piece {
            busy: true,
            merging: true,
            ..piece
        })
    };
    // The file of the other input is there until the end.
    assert_eq!(surplus_mib(&in_two((0, 9), (10, 19)), &Overwriting::of(1.0), 1270), 260);
    assert_eq!(surplus_mib(&in_two((5, 5), (5, 5)), &overwriting, 1270), 270, "a partition");
    assert_eq!(surplus_mib(&[piece(3, 0, 1010)], &overwriting, 1010), 0);
}

fn debt(base_mib: u64, surplus_mib: u64, overwriting: &Overwriting) -> SpaceDebt {
    debt_of(base_mib, surplus_mib, (overwriting, 1.0))
}

fn debt_of(base_mib: u64, surplus_mib: u64, written: (&Overwriting, f64)) -> SpaceDebt {
    let (base_bytes, surplus_bytes) = (base_mib * MIB, surplus_mib * MIB);
    let disk = DiskUse { base_bytes, surplus_bytes, freeable_bytes: surplus_bytes };
    SpaceDebt::of(&disk, written, 1.25, 64 << 20).unwrap()
}

#[test]
fn writers_are_slowed_around_the_goal_and_not_by_one_flush() {
    let (slow, full) = (BACKLOG_RUNS_SLOW as f64, BACKLOG_RUNS_MAX as f64);
    let runs = |base_mib, surplus_mib| debt(base_mib, surplus_mib, &Overwriting::of(1.0)).runs(0);
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
    let packed = (&Overwriting::of(1.0), 0.25);
    let [less, more] = [100, 400].map(|mib| debt_of(1000, 200, packed).runs(mib << 20));
    assert!(less < in_files && more > in_files, "a flush takes less, and so writers may do");
    assert!(
        SpaceDebt::of(
            &DiskUse { base_bytes: 1, surplus_bytes: 1 << 40, freeable_bytes: 1 << 40 },
            (&Overwriting::default(), 1.0),
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
    let free = free_runs(&pieces);
    let chosen = |overwritten_ratio, shape: Option<Vec<usize>>| {
        Goal { goal: 1.25, overwritten_ratio }.first_of(&pieces, &free, || shape)
    };
    let small = Some(vec![1, 2]);
    let all = Some(vec![2, 1, 0]);
    assert_eq!(chosen(Some(1.0), small.clone()), all);
    assert_eq!(chosen(Some(0.5), small.clone()), small);
    assert_eq!(chosen(Some(0.0), None), None, "a table that grows");
    assert_eq!(chosen(None, None), None, "a quarter of the largest is let be");
    assert_eq!(Goal { goal: 1.2, overwritten_ratio: None }.first_of(&pieces, &free, || None), all);
}
