//! What waits to be merged, table by table: which table is served next, and how far compaction is behind.
//!
//! ```text
//! views change ─► judged anew at the next look ─► Backlog ─┬─► the table with the most runs is served first
//! (or a minute is over: something may have expired)        └─► the most runs of any table: writers are slowed
//! ```
//!
//! A table has nothing due until its files or options change, or until something in it expires: so a look at all tables
//! costs little, and judges a bounded number of them.
//!
//! The runs of a backlog are those that lie over one another among the files that the strategy would merge, or that are
//! being merged: a read looks into each of them. What the strategy leaves alone (old windows, full levels) does not
//! count, so a healthy table of any strategy has few.

use std::cell::{Cell, RefCell};

use model::TableId;

use super::job::candidates;
use super::piece::Candidate;
use super::strategy::{MergeTask, Strategy, Task, Why};
use super::whole::Wishes;
use crate::engine::Engine;
use crate::limits::{
    BACKLOG_CHECK_S, BACKLOG_RUNS_MAX, BACKLOG_RUNS_SLOW, BACKLOG_TASKS_MAX, BACKLOGS_PER_LOOK,
    COMPACTION_SMALL_PART, COMPACTIONS_MAX, RUNS_DELAY_US_MAX,
};
use crate::table::Table;

/// What the strategy of a table would have merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    /// Bytes of what it proposes first; `None` if it proposes nothing.
    next_bytes: Option<u64>,
    /// How many runs lie over one another among what it proposes and what is being merged.
    runs: usize,
}

/// What a table's backlog was when it was last judged.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    /// With the second at which it was judged.
    backlog: Cell<Option<(u32, Backlog)>>,
}

impl Judged {
    /// The files or the options of the table are others now.
    pub(crate) fn forget(&self) {
        self.backlog.set(None);
    }
}

/// The compactions of a shard that are under way: one of any size, and beside it small ones.
#[derive(Debug, Default)]
pub(crate) struct Underway {
    /// The bytes that each of them merges.
    bytes: RefCell<Vec<u64>>,
    /// The most runs of a backlog, as they were last judged.
    runs: Cell<usize>,
    /// At which table the next look begins: where the last one had judged enough.
    next_look: Cell<usize>,
    /// Tables that are to be merged whole.
    pub(super) wishes: Wishes,
}

impl Underway {
    /// Whether a compaction of so many bytes may begin now.
    pub(super) fn has_place_for(&self, bytes: u64) -> bool {
        let largest = self.largest_bytes();
        let is_small = largest.is_none_or(|largest| bytes <= largest / COMPACTION_SMALL_PART);
        self.bytes.borrow().len() < COMPACTIONS_MAX && is_small
    }

    /// The bytes of the largest that is under way, if any is.
    pub(super) fn largest_bytes(&self) -> Option<u64> {
        self.bytes.borrow().iter().max().copied()
    }

    /// A compaction of so many bytes begins; whether it does beside another.
    pub(super) fn begin(&self, bytes: u64) -> bool {
        let mut running = self.bytes.borrow_mut();
        running.push(bytes);
        running.len() > 1
    }

    /// A compaction of so many bytes has ended.
    pub(super) fn end(&self, bytes: u64) {
        let mut running = self.bytes.borrow_mut();
        let at = running.iter().position(|other| *other == bytes);
        running.swap_remove(at.expect("what ends has begun"));
    }
}

impl Engine {
    /// A table that would be better for a compaction that may begin now, the one with the most runs first.
    pub(crate) fn table_to_compact(&self, now_s: u32) -> Option<TableId> {
        let tables = self.tables.by_id();
        let (mut judged, mut runs) = (0, 0);
        let mut best: Option<(usize, u64, TableId)> = None;
        // Tables that change all the time are judged at each look: those behind them must come first, too.
        let first = self.underway.next_look.get();
        let in_turn = tables.iter().zip(0..).skip(first).chain(tables.iter().zip(0..).take(first));
        let mut enough_at = None;
        for ((id, table), at) in in_turn.filter(|((_, table), _)| !table.cut.is_made()) {
            let backlog = backlog(table, now_s, &mut judged);
            if judged == BACKLOGS_PER_LOOK {
                enough_at.get_or_insert(at + 1);
            }
            runs = backlog.runs.max(runs);
            let Some(bytes) = backlog.next_bytes else { continue };
            let has_place = self.underway.has_spare_place_for(*id, bytes);
            if !table.compact_backoff.is_due(now_s) || !has_place {
                continue;
            }
            // Of two with as many runs the smaller, which is done sooner.
            let this = (backlog.runs, u64::MAX - bytes, *id);
            best = best.max(Some(this));
        }
        self.underway.next_look.set(enough_at.unwrap_or(0));
        self.underway.runs.set(runs);
        best.map(|(_, _, id)| id)
    }

    /// How far compaction is behind: the runs of the table that has the most to merge, of
    /// [`BACKLOG_RUNS_MAX`] and never more.
    pub fn backlog_runs(&self) -> usize {
        self.underway.runs.get().min(BACKLOG_RUNS_MAX)
    }

    /// How long a writer should be kept waiting so that compaction keeps up, in microseconds.
    pub(crate) fn backlog_delay_us(&self) -> u32 {
        delay_us(self.backlog_runs())
    }
}

/// Rises from nothing, slowly at first: at the limit a client with 500 writes in flight sends 5000 a second.
fn delay_us(runs: usize) -> u32 {
    let (over, full) =
        (runs.saturating_sub(BACKLOG_RUNS_SLOW), BACKLOG_RUNS_MAX - BACKLOG_RUNS_SLOW);
    let part = over.min(full) as f64 / full as f64;
    (part.powi(3) * f64::from(RUNS_DELAY_US_MAX)) as u32
}

/// The backlog of a table, judged anew if that is needed and not too many of this look were.
fn backlog(table: &Table, now_s: u32, judged: &mut usize) -> Backlog {
    let known = table.judged.backlog.get();
    if let Some((at_s, backlog)) = known
        && now_s < at_s.saturating_add(BACKLOG_CHECK_S)
    {
        return backlog;
    }
    let is_empty = table.views().is_empty();
    if !is_empty && *judged == BACKLOGS_PER_LOOK {
        return known.unwrap_or_default().1;
    }
    *judged += usize::from(!is_empty);
    let backlog = if is_empty { Backlog::default() } else { judge(table, now_s) };
    table.judged.backlog.set(Some((now_s, backlog)));
    backlog
}

/// Asks the strategy again and again, as if what it proposed were being merged already.
fn judge(table: &Table, now_s: u32) -> Backlog {
    let (mut pieces, context) = candidates(table, now_s);
    let definition = table.definition();
    let strategy = Strategy::of(&definition.options.compaction);
    let is_merged = |index: &usize| pieces[*index].merging;
    let mut waiting: Vec<usize> = (0..pieces.len()).filter(is_merged).collect();
    let mut next_bytes = None;
    for _ in 0..BACKLOG_TASKS_MAX {
        let Some(task) = strategy.propose(&pieces, &context) else { break };
        let (of_task, bytes) = match &task {
            Task::Drop { pieces } => (pieces, 0),
            Task::Merge(MergeTask { pieces: of_task, .. }) => {
                (of_task, of_task.iter().map(|&index| pieces[index].bytes).sum())
            }
        };
        next_bytes = next_bytes.or(Some(bytes));
        let is_shape = matches!(&task, Task::Merge(MergeTask { why: Why::Shape, .. }));
        let of_task = of_task.clone();
        for &index in &of_task {
            (pieces[index].busy, pieces[index].merging) = (true, true);
        }
        if is_shape {
            waiting.extend(of_task);
        }
    }
    Backlog { next_bytes, runs: depth(waiting.into_iter().map(|index| &pieces[index])) }
}

/// How many of the pieces at most hold one token. Pieces of a run that have parts of one partition count once.
fn depth<'p>(pieces: impl Iterator<Item = &'p Candidate>) -> usize {
    let mut pieces: Vec<&Candidate> = pieces.collect();
    pieces.sort_by_key(|piece| (piece.run, piece.tokens.first, piece.tokens.last));
    let goes_on =
        |a: &&Candidate, b: &&Candidate| a.run == b.run && a.tokens.last == b.tokens.first;
    let mut ends: Vec<(i64, bool)> = Vec::new();
    for group in pieces.chunk_by(goes_on) {
        let [first, last] = [group[0].tokens.first, group[group.len() - 1].tokens.last];
        // A piece that ends where another begins shares that token: what begins comes first.
        ends.push((first.0, false));
        ends.push((last.0, true));
    }
    ends.sort_unstable();
    let (mut now, mut most) = (0usize, 0);
    for (_, is_end) in ends {
        if is_end {
            now -= 1
        } else {
            now += 1
        }
        most = now.max(most);
    }
    most
}

#[cfg(test)]
mod tests {
    use model::{Token, TokenRange};
    use uuid::Uuid;

    use super::*;

    fn piece(first: i64, last: i64) -> Candidate {
        Candidate {
            run: Uuid::nil(),
            level: 0,
            tokens: TokenRange { first: Token(first), last: Token(last) },
            bytes: 1,
            oldest_timestamp: 0,
            newest_timestamp: 0,
            last_death_s: 0,
            dead_part: 0.0,
            shared: false,
            busy: false,
            merging: false,
        }
    }

    #[test]
    fn depth_counts_what_one_token_is_in() {
        let mut pieces = [piece(0, 9), piece(10, 20), piece(5, 10), piece(30, 30), piece(10, 10)];
        for (piece, run) in pieces.iter_mut().zip(0..) {
            piece.run = Uuid::from_u128(run);
        }
        assert_eq!(depth(pieces.iter()), 3, "three hold token 10");
        assert_eq!(depth(pieces[..2].iter()), 1, "the pieces of a run");
        assert_eq!(depth([].iter()), 0);
        let of_run = [piece(0, 9), piece(9, 9), piece(9, 9), piece(9, 12)];
        assert_eq!(depth(of_run.iter()), 1, "a run whose fragments share a partition");
    }

    #[test]
    fn writers_are_slowed_smoothly_and_never_for_longer_than_the_limit() {
        let delays: Vec<u32> = (0..=BACKLOG_RUNS_MAX + 10).map(delay_us).collect();
        assert!(delays[..=BACKLOG_RUNS_SLOW].iter().all(|delay| *delay == 0));
        assert!(delays[BACKLOG_RUNS_SLOW + 2] > 0);
        assert!(delays.windows(2).all(|pair| pair[0] <= pair[1]));
        assert!(delays[BACKLOG_RUNS_MAX / 2 + BACKLOG_RUNS_SLOW / 2] < RUNS_DELAY_US_MAX / 4);
        assert_eq!(delays[BACKLOG_RUNS_MAX..], [RUNS_DELAY_US_MAX; 11]);
    }

    #[test]
    fn beside_a_large_compaction_a_small_one_may_begin() {
        let underway = Underway::default();
        assert!(underway.has_place_for(u64::MAX));
        assert!(!underway.begin(1000), "it is alone");
        assert!(underway.has_place_for(250) && !underway.has_place_for(251));
        assert!(underway.begin(100));
        assert!(!underway.has_place_for(0), "there are two already");
        underway.end(1000);
        assert!(underway.has_place_for(25) && !underway.has_place_for(26));
        underway.end(100);
        assert!(underway.has_place_for(1000));
    }
}
