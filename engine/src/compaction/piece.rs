//! What a strategy sees of a file: a piece of a run, and runs made of pieces.
//!
//! ```text
//! view (tokens, run, level) ─┐
//! statistics of its file ────┴─► Candidate ─► Run: the pieces of one run, with their bytes and tokens together
//! ```
//!
//! 1. A view of a part of a file has the part of its bytes that its tokens are of the file's tokens: tokens are hashes,
//!    so they are spread evenly. This is an estimate, and never more than the file.
//! 2. A piece that is busy cannot go into a task, but is shown to the strategy: what it overlaps is not the oldest.
//! 3. Fragments of one run may share the token of a partition that a merge cut: `joined` gives those together, and
//!    `width` counts such a token once.
//! 4. `free_runs` leaves out each run of which a piece is busy, and gives the others by size, the smallest first.
//!
//! Not here: what is merged (`strategy.rs`), who makes the candidates of a table and says which are busy (`job.rs`).

use std::collections::BTreeMap;

use model::{Token, TokenRange};
use uuid::Uuid;

use crate::sstable::Sstable;

/// A view, as a strategy sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// The run it is a fragment of.
    pub run: Uuid,
    /// The level that a compaction gave it; 0 after a flush.
    pub level: u8,
    /// The tokens of the view that lie between the first and the last of its file.
    pub tokens: TokenRange,
    /// Bytes on disk that these tokens take, about.
    pub bytes: u64,
    /// The oldest timestamp of anything in the file, in microseconds.
    pub oldest_timestamp: i64,
    /// The newest timestamp of anything in the file, in microseconds.
    pub newest_timestamp: i64,
    /// From this second on nothing in it is alive.
    pub last_death_s: u32,
    /// Which part of its cells is dead, past its grace, and would go if the piece were merged alone.
    pub dead_part: f64,
    /// The same of a merge with other pieces of its run, into which partitions go on: tombstones of partitions stay.
    pub joined_dead_part: f64,
    /// When the file was made, in seconds since 1970; 0 if it does not say.
    pub made_s: u32,
    /// The file has tokens of other owners, too, or most of it is not read any more: then it is worth rewriting.
    pub shared: bool,
    /// It cannot be merged (it is in quarantine or goes into a merge), and is here for what it overlaps.
    pub busy: bool,
    /// It goes into a merge that is under way, or has come out of it: other pieces will stand in its place soon.
    pub merging: bool,
}

/// What a strategy must know beside the candidates.
#[derive(Clone, Copy, Debug)]
pub struct CompactionContext {
    /// Tombstones made before this second are past `gc_grace_seconds`.
    pub gc_before_s: u32,
    /// The time, in seconds since 1970.
    pub now_s: u32,
    /// Nothing in the memtables of the table is older than this, in microseconds; `i64::MAX` if they hold nothing.
    pub oldest_unflushed: i64,
    /// Which part of what is flushed takes the place of what is there; `None` if that is not known.
    pub overwritten_ratio: Option<f64>,
}

impl Piece {
    /// The view of `sstable` on these tokens, which a merge cuts into fragments of at least `fragment_bytes_min`.
    pub fn of_view(
        sstable: &Sstable,
        tokens: TokenRange,
        run: Uuid,
        level: u8,
        context: &CompactionContext,
        fragment_bytes_min: u64,
    ) -> Piece {
        let like = sstable.statistics();
        let part = like.tokens.intersection(&tokens);
        // Tokens are uniform, so a part of the ring has its part of the bytes.
        let bytes = part.map_or(0, |part| {
            let all = sstable.known().proof.file_bytes;
            let bytes = (u128::from(all) * width(&part) / width(&like.tokens)) as u64;
            assert!(bytes <= all, "a part is no larger than its file");
            bytes
        });
        Piece {
            run,
            level,
            tokens: part.unwrap_or(tokens),
            bytes,
            oldest_timestamp: like.oldest_timestamp,
            newest_timestamp: like.newest_timestamp,
            last_death_s: like.last_death_s,
            dead_part: like.purgeable_part(context.gc_before_s, fragment_bytes_min),
            joined_dead_part: like.purgeable_part(context.gc_before_s, 0),
            made_s: like.made_s,
            shared: part != Some(like.tokens),
            busy: false,
            merging: false,
        }
    }

    /// Sorts the pieces of a run together, by their tokens.
    pub(super) fn order(&self) -> (Uuid, Token, Token) {
        (self.run, self.tokens.first, self.tokens.last)
    }

    /// Whether the next piece in [order](Self::order) is of the run, too, and may have a part of the last partition.
    pub(super) fn may_go_on_in(&self, next: &Piece) -> bool {
        self.run == next.run && self.tokens.last == next.tokens.first
    }

    /// Whether both may hold the same partition.
    pub(super) fn overlaps(&self, other: &Piece) -> bool {
        self.tokens.intersection(&other.tokens).is_some()
    }
}

/// How many tokens there are in a range.
pub(super) fn width(range: &TokenRange) -> u128 {
    assert!(!range.is_empty(), "a part holds a token");
    u128::from(range.last.biased().abs_diff(range.first.biased())) + 1
}

/// Pieces of one run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Indices of its pieces.
    pub(super) pieces: Vec<usize>,
    pub(super) bytes: u64,
    pub(super) newest_timestamp: i64,
    /// From its first to its last token.
    pub(super) tokens: TokenRange,
    /// How many tokens its pieces cover.
    pub(super) width: u128,
}

/// The runs of which no piece is busy, smallest first.
pub(super) fn free_runs(pieces: &[Piece]) -> Vec<Run> {
    free_runs_of(pieces, 0..pieces.len())
}

/// Of the runs that these pieces make those of which none is busy, smallest first.
pub(super) fn free_runs_of(pieces: &[Piece], of: impl Iterator<Item = usize>) -> Vec<Run> {
    let mut runs = runs_of(pieces, of);
    runs.retain(|run| run.pieces.iter().all(|&index| !pieces[index].busy));
    runs
}

fn runs_of(pieces: &[Piece], of: impl Iterator<Item = usize>) -> Vec<Run> {
    let mut runs: BTreeMap<Uuid, Run> = BTreeMap::new();
    for index in of {
        let piece = &pieces[index];
        let empty = || Run {
            pieces: Vec::new(),
            bytes: 0,
            newest_timestamp: i64::MIN,
            tokens: piece.tokens,
            width: 0,
        };
        let run = runs.entry(piece.run).or_insert_with(empty);
        run.tokens.first = run.tokens.first.min(piece.tokens.first);
        run.tokens.last = run.tokens.last.max(piece.tokens.last);
        run.pieces.push(index);
        run.bytes += piece.bytes;
        run.newest_timestamp = run.newest_timestamp.max(piece.newest_timestamp);
    }
    let mut runs: Vec<Run> = runs.into_values().collect();
    runs.iter_mut().for_each(|run| run.width = width_of(pieces, &run.pieces));
    runs.sort_by_key(|run| (run.bytes, run.pieces[0]));
    runs
}

/// All pieces, those of a run together that may have parts of one partition, in the order of their tokens.
pub(super) fn joined(pieces: &[Piece]) -> Vec<Vec<usize>> {
    let mut all: Vec<usize> = (0..pieces.len()).collect();
    all.sort_by_key(|&at| (pieces[at].order(), at));
    let goes_on = |a: &usize, b: &usize| pieces[*a].may_go_on_in(&pieces[*b]);
    all.chunk_by(goes_on).map(<[usize]>::to_vec).collect()
}

/// How many tokens these pieces cover: fragments may share the token of a partition.
fn width_of(pieces: &[Piece], of: &[usize]) -> u128 {
    let mut ranges: Vec<TokenRange> = of.iter().map(|&index| pieces[index].tokens).collect();
    ranges.sort_by_key(|range| (range.first, range.last));
    let mut covered: Option<TokenRange> = None;
    let mut all = 0;
    for range in ranges {
        match &mut covered {
            Some(covered) if range.first <= covered.last => {
                covered.last = covered.last.max(range.last);
            }
            _ => all += covered.replace(range).map_or(0, |covered| width(&covered)),
        }
    }
    all + covered.map_or(0, |covered| width(&covered))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A piece of level 0 that nothing is known of.
    pub(in crate::compaction) fn piece(run: u128, first: i64, last: i64, bytes: u64) -> Piece {
        Piece {
            run: Uuid::from_u128(run),
            level: 0,
            tokens: TokenRange { first: Token(first), last: Token(last) },
            bytes,
            oldest_timestamp: 0,
            newest_timestamp: 0,
            last_death_s: u32::MAX,
            dead_part: 0.0,
            joined_dead_part: 0.0,
            made_s: 0,
            shared: false,
            busy: false,
            merging: false,
        }
    }
}
