//! Which strategy a table has, and what all strategies do alike.
//!
//! ```text
//! pieces, context ─► 1. dead files: dropped          ─► Task: Drop or Merge, by the indices of pieces
//!                    2. what the strategy is about
//!                    3. a run, or a part of it, that is mostly tombstones which can go
//!                    4. files that straddle owners
//! ```
//!
//! The first of these that has something to do gives the task. Files that are dead as a whole go first, for that costs
//! nothing and frees space. Files that straddle owners are rewritten, each part by its owner.
//!
//! Invariants
//! 1. A strategy sees sizes, tokens and statistics (`piece.rs`). It reads no file and no clock: the time is in the
//!    context.
//! 2. A piece that is busy (in quarantine, or part of a merge) goes into no task.
//! 3. Pieces are dropped, or merged for their tombstones alone, only if everything else that may hold what they delete
//!    is newer: memtables, and other runs' pieces that overlap.
//! 4. A task names each piece once, in ascending order.
//!
//! Not here: when a table is asked (`backlog.rs`), the merge itself (`rewrite.rs`), which tombstones it purges
//! (`adoption.rs`, `rewrite.rs`), each strategy (`size_tiered.rs`, `leveled.rs`, `time_window.rs`, `unified.rs`,
//! `incremental.rs`).

use model::options::{Compaction, Strategy as Shape};

use super::base::Unit;
use super::incremental::Incremental;
use super::leveled::Leveled;
use super::piece::{CompactionContext, Piece, free_runs, joined};
use super::size_tiered::SizeTiered;
use super::time_window::TimeWindow;
use super::unified::Unified;
use crate::limits::FRAGMENT_BYTES_MAX;
use crate::planted::{Bug, planted};

/// What to do with some pieces, by their indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Merge several views into new fragments.
    Merge(MergeTask),
    /// Remove them: nothing in them is alive, and nothing outside needs their tombstones.
    Drop {
        /// What goes, ascending.
        pieces: Vec<usize>,
    },
}

/// Which pieces are merged, and what comes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeTask {
    /// What goes in, ascending.
    pub pieces: Vec<usize>,
    /// The level of what comes out.
    pub level: u8,
    /// A fragment has so many bytes at most; the job makes it shorter where the table is small.
    pub fragment_bytes: u64,
    /// Why the strategy proposes it.
    pub why: Why,
}

/// Why pieces are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The strategy wants fewer, or larger, or sorted ones.
    Shape,
    /// To purge tombstones.
    Tombstones,
    /// To part what several owners share.
    Owners,
}

/// A table's strategy.
#[derive(Clone, Copy, Debug)]
pub struct Strategy<'o> {
    options: &'o Compaction,
}

impl<'o> Strategy<'o> {
    /// The strategy that a table's options ask for.
    pub fn of(options: &'o Compaction) -> Strategy<'o> {
        Strategy { options }
    }

    /// What should be done next, if anything.
    pub fn propose(&self, pieces: &[Piece], context: &CompactionContext) -> Option<Task> {
        if !self.options.enabled() {
            return None;
        }
        let by_age = ByAge::of(pieces);
        let dead: Vec<usize> =
            (0..pieces.len()).filter(|&index| by_age.is_dead(index, context)).collect();
        if !dead.is_empty() {
            return Some(Task::Drop { pieces: dead });
        }
        let shaped = match self.options.strategy() {
            Shape::SizeTiered(shape) => SizeTiered(shape).propose(pieces),
            Shape::TimeWindow(shape) => TimeWindow(shape).propose(pieces, context),
            Shape::Leveled(shape) => Leveled(shape).propose(pieces, context),
            Shape::Unified(shape) => Unified(shape).propose(pieces, context),
            Shape::Incremental(shape) => Incremental(shape).propose(pieces, context),
        };
        shaped.or_else(|| self.tombstones(pieces, context)).or_else(|| self.owners(pieces))
    }

    /// The goal in bytes on disk for each byte of live rows, of a strategy that bounds what overwritten rows take.
    pub(super) fn space_goal(&self) -> Option<f64> {
        match self.options.strategy() {
            Shape::Leveled(shape) => Some(Leveled(shape).space_goal()),
            Shape::Unified(shape) => Some(shape.space_goal),
            Shape::Incremental(shape) => Some(shape.space_goal),
            Shape::SizeTiered(_) | Shape::TimeWindow(_) => None,
        }
    }

    /// What the strategy merges at least.
    pub(super) fn unit(&self) -> Unit {
        match self.options.strategy() {
            Shape::Leveled(_) => Unit::Piece,
            Shape::SizeTiered(_)
            | Shape::TimeWindow(_)
            | Shape::Unified(_)
            | Shape::Incremental(_) => Unit::Run,
        }
    }

    /// The merges that an operator asks for: of everything into one run, or of each window of time that has several.
    pub fn major(&self, pieces: &[Piece]) -> Vec<Task> {
        if let Shape::TimeWindow(shape) = self.options.strategy() {
            return TimeWindow(shape).major(pieces);
        }
        let runs = free_runs(pieces);
        let inputs: Vec<usize> = runs.iter().flat_map(|run| run.pieces.iter().copied()).collect();
        let level = match self.options.strategy() {
            Shape::Leveled(shape) => {
                Leveled(shape).level_of(runs.iter().map(|run| run.bytes).sum())
            }
            _ => 0,
        };
        if inputs.is_empty() {
            return Vec::new();
        }
        vec![self.merge(pieces, inputs, level, Why::Shape)]
    }

    /// A task to merge these pieces into fragments of the strategy's size.
    fn merge(&self, pieces: &[Piece], inputs: Vec<usize>, level: u8, why: Why) -> Task {
        if let Shape::Unified(shape) = self.options.strategy() {
            return Unified(shape).merge(pieces, inputs, why);
        }
        let bytes = inputs.iter().map(|&index| pieces[index].bytes).sum();
        merge(inputs, level, self.fragment_bytes_max(bytes), why)
    }

    /// The most bytes of a fragment of a run of so many bytes.
    pub(super) fn fragment_bytes_max(&self, run_bytes: u64) -> u64 {
        match self.options.strategy() {
            Shape::Leveled(shape) => Leveled(shape).fragment_bytes(),
            Shape::Unified(shape) => Unified(shape).fragment_bytes(run_bytes),
            Shape::Incremental(shape) => Incremental(shape).fragment_bytes(),
            Shape::SizeTiered(_) | Shape::TimeWindow(_) => FRAGMENT_BYTES_MAX,
        }
    }

    /// The pieces with the most to purge, if all of that is certain to go: so it is done once.
    pub(super) fn tombstones(&self, pieces: &[Piece], context: &CompactionContext) -> Option<Task> {
        let dead_part = |of: &[usize]| {
            let is_alone = of.len() == 1;
            let part = |piece: &Piece| {
                if is_alone { piece.dead_part } else { piece.joined_dead_part }
            };
            let dead = of.iter().map(|&at| part(&pieces[at]) * pieces[at].bytes as f64);
            let bytes: u64 = of.iter().map(|&at| pieces[at].bytes).sum();
            dead.sum::<f64>() / bytes.max(1) as f64
        };
        let by_age = ByAge::of(pieces);
        let threshold = self.options.tombstone_threshold();
        let interval_s = self.options.tombstone_compaction_interval_s();
        let is_old = |at: &usize| pieces[*at].made_s.saturating_add(interval_s) <= context.now_s;
        // Fragments that share a partition are merged together: alone, each would keep its tombstones of it, for a
        // merge purges nothing that covers what a file outside of it may hold (`adoption.rs`).
        let worth = joined(pieces).into_iter().filter(|of| {
            of.iter().all(|&at| !pieces[at].busy)
                && of.iter().all(is_old)
                && dead_part(of) > threshold
                && by_age.nothing_older(of, context)
        });
        let most = worth.max_by(|a, b| dead_part(a).total_cmp(&dead_part(b)))?;
        let level = pieces[most[0]].level;
        Some(self.merge(pieces, most, level, Why::Tombstones))
    }

    /// The smallest piece that several owners share.
    pub(super) fn owners(&self, pieces: &[Piece]) -> Option<Task> {
        let free = |&index: &usize| pieces[index].shared && !pieces[index].busy;
        let index = (0..pieces.len()).filter(free).min_by_key(|&index| pieces[index].bytes)?;
        Some(self.merge(pieces, vec![index], pieces[index].level, Why::Owners))
    }
}

/// A task to merge these.
pub(super) fn merge(mut pieces: Vec<usize>, level: u8, fragment_bytes: u64, why: Why) -> Task {
    pieces.sort_unstable();
    assert!(!pieces.is_empty(), "a merge has inputs");
    assert!(pieces.windows(2).all(|pair| pair[0] < pair[1]), "a piece is merged once");
    Task::Merge(MergeTask { pieces, level, fragment_bytes, why })
}

/// Pieces, the one with the oldest data first: what may hold something old is asked first, and nearly always is enough.
struct ByAge<'p> {
    pieces: &'p [Piece],
    oldest_first: Vec<usize>,
}

impl<'p> ByAge<'p> {
    fn of(pieces: &'p [Piece]) -> ByAge<'p> {
        let mut oldest_first: Vec<usize> = (0..pieces.len()).collect();
        oldest_first.sort_by_key(|&index| pieces[index].oldest_timestamp);
        ByAge { pieces, oldest_first }
    }

    /// Whether nothing is alive in the piece, and nothing that is alive outside needs its tombstones. Of two dead
    /// pieces neither needs the other, in whatever order they go (Cassandra's `getFullyExpiredSSTables`).
    fn is_dead(&self, index: usize, context: &CompactionContext) -> bool {
        let piece = &self.pieces[index];
        let is_past = |piece: &Piece| piece.last_death_s < context.gc_before_s;
        let is_needed = || !self.is_newer(&[index], context, |other| !is_past(other));
        is_past(piece) && !piece.busy && (planted(Bug::DropNeeded) || !is_needed())
    }

    /// Whether everything that may hold what these pieces of a run delete is newer than all of them. Other fragments of
    /// the run are not asked: the merge that made them together has taken out of all what any of them deletes.
    fn nothing_older(&self, of: &[usize], context: &CompactionContext) -> bool {
        self.is_newer(of, context, |_| true)
    }

    /// The same of the memtables and those pieces that `counts`.
    fn is_newer(
        &self,
        of: &[usize],
        context: &CompactionContext,
        counts: impl Fn(&Piece) -> bool,
    ) -> bool {
        let these = || of.iter().map(|&index| &self.pieces[index]);
        let newest = these().map(|piece| piece.newest_timestamp).max().unwrap_or(i64::MIN);
        let is_apart =
            |other: &Piece| these().all(|piece| other.run == piece.run || !other.overlaps(piece));
        let others = self.oldest_first.iter().map(|&index| &self.pieces[index]);
        let mut older = others.take_while(|other| other.oldest_timestamp <= newest);
        context.oldest_unflushed > newest && older.all(|other| !counts(other) || is_apart(other))
    }
}
