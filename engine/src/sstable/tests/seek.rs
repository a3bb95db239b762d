//! A seek shows what a walk would show from there on, whatever stands between.
//!
//! 1. One partition with rows and range deletions, and a slice of it. A cursor walks some steps, then seeks to a place
//!    that lies ahead in the slice.
//! 2. `rest` says what must follow: a change at the place if another deletion is in force there than was shown last,
//!    then all that the walk would show from there on.
//! 3. A seek over a wide partition costs a path through the row index and a block, however much lies between.
//!
//! Not here: which lanes a merge seeks (`cursor/merge/tests.rs`), seeks in memtables (`memtable/tests/covered.rs`).

use ::model::TokenRange;
use proptest::prelude::*;

use super::model_test::{codec, part, place};
use super::*;
use crate::cursor::MergeInput;

/// The rest of what a slice shows, behind `shown` pieces and then from `at` on.
fn rest(all: &[Shown], shown: usize, at: &[u8], reversed: bool) -> Vec<Shown> {
    let position = |piece: &Shown| match piece {
        Shown::Row(at, _) | Shown::Change(at, _) => at.clone(),
    };
    let is_passed = |piece: &&Shown| match (reversed, piece) {
        (false, Shown::Row(..)) => position(piece).as_slice() < at,
        (false, Shown::Change(..)) => position(piece).as_slice() <= at,
        (true, _) => position(piece).as_slice() >= at,
    };
    let in_force = |pieces: &[Shown]| {
        let change = |piece: &Shown| match piece {
            Shown::Change(_, deletion) => Some(*deletion),
            Shown::Row(..) => None,
        };
        pieces.iter().rev().find_map(change).unwrap_or(Deletion::NONE)
    };
    let passed = all.iter().take_while(is_passed).count();
    let mut rest = Vec::new();
    if in_force(&all[..shown]) != in_force(&all[..passed]) {
        rest.push(Shown::Change(at.to_vec(), in_force(&all[..passed])));
    }
    rest.extend_from_slice(&all[passed..]);
    rest
}

fn piece(cursor: &impl Cursor) -> Shown {
    match cursor.fragment() {
        Fragment::Row { clustering, row } => Shown::Row(clustering.to_vec(), row.bytes().to_vec()),
        Fragment::Change { position, deletion } => Shown::Change(position.to_vec(), deletion),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2000, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn a_seek_leads_to_what_a_walk_comes_to(
        part in part(), borders in prop::collection::btree_set(place(), 2..3), reversed: bool,
        seeks in prop::collection::vec((0..20usize, place()), 1..8),
        block_bytes in prop_oneof![30..200usize, Just(4096)], codec in codec(), by_key: bool,
    ) {
        let mut borders = borders.into_iter();
        let (Some(start), Some(end)) = (borders.next(), borders.next()) else { unreachable!() };
        let world = World::from([((Token(5), vec![1]), Part { deletion: Some(Deletion { timestamp: 1, local_s: 1 }), ..part })]);
        run(async move {
            let (_, disk) = sim();
            let known = written(&disk, &world, config(block_bytes, codec)).await.unwrap();
            let table = open(&disk, known).await.unwrap();
            let slices = [Slice { start, end }];
            let key = [1];
            let scope = match by_key {
                true => Scope::Key(Token(5), &key),
                false => Scope::Range(TokenRange::ALL),
            };
            let span = Span { scope, slices: &slices, reversed };
            let all = expected(&world, &span).remove(0).4;
            for (moves, at) in &seeks {
                let mut cursor = table.cursor(span, Reading::Point);
                assert!(cursor.next_partition().await.unwrap());
                let moves = all.len().min(*moves);
                for _ in 0..moves {
                    assert!(cursor.next().await.unwrap());
                }
                // A merge seeks inside the slice, and never back.
                let Some(last) = moves.checked_sub(1).map(|last| &all[last]) else { continue };
                let (Shown::Row(last, _) | Shown::Change(last, _)) = last;
                let [start, end] = [&slices[0].start, &slices[0].end];
                let at = if reversed { start.max(at).min(last) } else { end.min(at).max(last) };
                let far = if reversed { start } else { end };
                if all[moves - 1] == Shown::Change(far.clone(), Deletion::NONE)
                    || (!reversed && at == last && matches!(all[moves - 1], Shown::Row(..)))
                {
                    continue;
                }
                let mut got = Vec::new();
                if cursor.seek(at).await.unwrap() {
                    got.push(piece(&cursor));
                    while cursor.next().await.unwrap() {
                        got.push(piece(&cursor));
                    }
                }
                assert_eq!(got, rest(&all, moves, at, reversed), "{moves} {at:?} of {all:?}");
            }
        });
    }
}

/// Whatever lies between: a path through the index and a block.
#[test]
fn a_seek_over_a_wide_partition_costs_a_few_reads() {
    run(async {
        let (sim, disk) = sim();
        let rows = (0..60_000u32).map(|i| (i.to_be_bytes().to_vec(), row(1, &i.to_le_bytes())));
        let part = Part { rows: rows.collect(), ..Part::default() };
        let world = World::from([((Token(5), vec![1]), part)]);
        let known = written(&disk, &world, config(4096, Codec::Lz4)).await.unwrap();
        for (reversed, at, wanted) in [(false, 59_000u32, 59_000u32), (true, 1_000, 999)] {
            let table = open(&disk, known).await.unwrap();
            let slices = [Slice::all()];
            let span = Span { scope: Scope::Key(Token(5), &[1]), slices: &slices, reversed };
            let before = sim.ops();
            let mut cursor = table.cursor(span, Reading::Point);
            assert!(cursor.next_partition().await.unwrap() && cursor.next().await.unwrap());
            assert!(cursor.seek(&at.to_be_bytes()).await.unwrap());
            assert_eq!(cursor.fragment().position(), wanted.to_be_bytes());
            let reads = sim.ops() - before;
            assert!(reads <= 5, "{reads} reads");
        }
    });
}
