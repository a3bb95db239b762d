//! What a table would take if nothing were overwritten, about: the most bytes that lie side by side.
//!
//! ```text
//! run A    ████████ ████████ ▒▒▒▒▒▒▒▒
//! run B                      ██████████████████████     shares no token with the first pieces of A: other rows
//! run C    ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒
//! tokens ────────────────────────────────────────────►  █ the base, ▒ what lies over it
//! ```
//!
//! No row is twice in pieces that share no token, so what the table has of live rows is no less than any such pieces
//! have. The base is the set of them with the most bytes: the largest run as a rule. It is more than one where a table
//! was restored, where several shards became one, while a merge goes on (what came out, and what of its inputs is
//! left), and while a table of levels gains one.
//!
//! ```text
//! by their last tokens:   best(i) = the most bytes of the first i pieces
//!                                 = the larger of  best(i - 1)
//!                                             and  bytes(i) + best(those that end before i begins)
//! ```
//!
//! That is weighted interval scheduling (Kleinberg, Tardos: *Algorithm Design*, 6.1): exact, in `O(n log n)`.

use std::collections::BTreeSet;

use model::Token;
use uuid::Uuid;

use super::piece::{Piece, joined};

/// What a strategy merges at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Runs, and never a part of one.
    Run,
    /// Single pieces of levels from 1 on, and whole runs of level 0.
    Piece,
}

/// The pieces that are the base of a table.
#[derive(Debug)]
pub(super) struct Base {
    /// Of each piece, whether it is one of them.
    holds: Vec<bool>,
    /// Bytes of these pieces.
    pub(super) bytes: u64,
}

/// Pieces of one run that may share a partition: they are in the base together.
struct Stretch {
    pieces: Vec<usize>,
    first: Token,
    last: Token,
    bytes: u64,
}

impl Base {
    /// Of these pieces, of which some are [stuck]: what is merged by pieces is merged as if those were not there.
    pub(super) fn of(pieces: &[Piece], stuck: &[bool], unit: Unit) -> Base {
        let stretch = |of: Vec<usize>| {
            let of = || of.iter().copied().filter(|&index| unit == Unit::Run || !stuck[index]);
            let first = of().map(|index| pieces[index].tokens.first).min()?;
            let last = of().map(|index| pieces[index].tokens.last).max()?;
            let bytes = of().map(|index| pieces[index].bytes).sum();
            Some(Stretch { pieces: of().collect(), first, last, bytes })
        };
        let mut all: Vec<Stretch> = joined(pieces).into_iter().filter_map(stretch).collect();
        all.sort_by_key(|stretch| (stretch.last, stretch.first));
        let before = |stretch: &Stretch| all.partition_point(|other| other.last < stretch.first);
        let mut best = vec![0];
        for (index, stretch) in all.iter().enumerate() {
            best.push(best[index].max(stretch.bytes + best[before(stretch)]));
        }
        let mut base = Base { holds: vec![false; pieces.len()], bytes: best[all.len()] };
        let mut left = all.len();
        while left > 0 {
            let stretch = &all[left - 1];
            if best[left] == best[left - 1] {
                left -= 1;
                continue;
            }
            stretch.pieces.iter().for_each(|&index| base.holds[index] = true);
            left = before(stretch);
        }
        base
    }

    /// Bytes of those pieces of the base that are `wanted`, and of those of the others.
    pub(super) fn parted_bytes(
        &self,
        pieces: &[Piece],
        wanted: impl Fn(usize) -> bool,
    ) -> (u64, u64) {
        let (mut here, mut others) = (0, 0);
        for (index, piece) in pieces.iter().enumerate().filter(|(index, _)| wanted(*index)) {
            *(if self.holds[index] { &mut here } else { &mut others }) += piece.bytes;
        }
        (here, others)
    }

    /// Whether a piece of the base goes into a merge or comes out of one.
    pub(super) fn is_merging(&self, pieces: &[Piece]) -> bool {
        pieces.iter().zip(&self.holds).any(|(piece, is_here)| *is_here && piece.merging)
    }
}

/// Of each piece, whether it cannot be merged: it is in quarantine or was not opened, or goes only with one of these.
pub(super) fn stuck(pieces: &[Piece], unit: Unit) -> Vec<bool> {
    let is_stuck = |piece: &Piece| piece.busy && !piece.merging;
    let goes_alone = |piece: &Piece| unit == Unit::Piece && piece.level > 0;
    let of_runs = pieces.iter().filter(|piece| is_stuck(piece) && !goes_alone(piece));
    let runs: BTreeSet<Uuid> = of_runs.map(|piece| piece.run).collect();
    let goes_with = |piece: &Piece| !goes_alone(piece) && runs.contains(&piece.run);
    pieces.iter().map(|piece| is_stuck(piece) || goes_with(piece)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compaction::piece::tests::piece;

    fn of(pieces: &[Piece]) -> Base {
        Base::of(pieces, &vec![false; pieces.len()], Unit::Run)
    }

    #[test]
    fn the_most_that_shares_no_token_counts() {
        assert_eq!(of(&[]).bytes, 0);
        let all = [piece(1, 0, 20, 100), piece(2, 15, 35, 190), piece(3, 30, 50, 100)];
        assert_eq!(of(&all).bytes, 200, "the largest of the three lies over two");
        assert_eq!(of(&all).holds, [true, false, true]);
        let of_run = [piece(1, 0, 50, 100), piece(2, 40, 60, 30), piece(2, 61, 99, 60)];
        assert_eq!(of(&of_run).bytes, 160, "a piece of a run that lies beside the others");
        let hot = [piece(1, 0, 99, 50), piece(2, 5, 5, 40), piece(3, 5, 5, 45)];
        assert_eq!(of(&hot).bytes, 50, "versions of one partition");
    }

    #[test]
    fn fragments_of_a_run_that_share_a_partition_are_one() {
        let all = [piece(1, 0, 9, 10), piece(1, 9, 9, 20), piece(1, 9, 30, 30), piece(2, 9, 9, 25)];
        assert_eq!(of(&all).bytes, 60);
        assert_eq!(of(&all).holds, [true, true, true, false]);
    }

    #[test]
    fn what_cannot_be_merged_keeps_its_run_from_it_but_no_other_piece_of_a_level() {
        let mut pieces = [piece(1, 0, 9, 5), piece(1, 10, 19, 5), piece(2, 0, 19, 7)];
        pieces[0].busy = true;
        assert_eq!(stuck(&pieces, Unit::Run), [true, true, false]);
        assert_eq!(stuck(&pieces, Unit::Piece), [true, true, false]);
        pieces.iter_mut().for_each(|piece| piece.level = 1);
        let stuck_pieces = stuck(&pieces, Unit::Piece);
        assert_eq!(stuck_pieces, [true, false, false]);
        assert_eq!(Base::of(&pieces, &stuck_pieces, Unit::Piece).bytes, 7, "as if it were gone");
        let stuck_runs = stuck(&pieces, Unit::Run);
        assert_eq!(stuck_runs, [true, true, false]);
        assert_eq!(Base::of(&pieces, &stuck_runs, Unit::Run).bytes, 10);
        pieces[0].merging = true;
        assert_eq!(stuck(&pieces, Unit::Run), [false; 3]);
    }

    proptest! {
        /// No choice of pieces that share no token has more bytes.
        #[test]
        fn no_other_choice_has_more(
            drawn in prop::collection::vec((0..12i64, 0..6i64, 0..50u64), 0..10),
        ) {
            let pieces: Vec<Piece> = (0..).zip(&drawn)
                .map(|(run, (first, more, bytes))| piece(run, *first, first + more, *bytes)).collect();
            let is_apart = |chosen: &[&Piece]| {
                let apart = |(at, piece): (usize, &&Piece)| {
                    chosen[..at].iter().all(|other| !other.overlaps(piece))
                };
                chosen.iter().enumerate().all(apart)
            };
            let choice = |bits: u32| -> Vec<&Piece> {
                (0..).zip(&pieces).filter(|(at, _)| bits >> at & 1 == 1).map(|(_, piece)| piece).collect()
            };
            let choices = (0..1 << pieces.len()).map(choice).filter(|chosen| is_apart(chosen));
            let most = choices.map(|chosen| chosen.iter().map(|piece| piece.bytes).sum::<u64>()).max();
            let base = of(&pieces);
            prop_assert_eq!(Some(base.bytes), most);
            let held: Vec<&Piece> =
                pieces.iter().zip(&base.holds).filter(|(_, is_here)| **is_here).map(|(piece, _)| piece).collect();
            prop_assert!(is_apart(&held));
            prop_assert_eq!(held.iter().map(|piece| piece.bytes).sum::<u64>(), base.bytes);
        }
    }
}
