//! What waits to be merged, table by table: which table is served next, and how far compaction is behind.
//!
//! ```text
//! views change ─► listed ─► evaluated at the next check ─► Backlog ─┬─► the table with the most runs is served first
//! (or a minute is over, and something in it may expire)         └─► the most runs of any table: writers are slowed
//! ```
//!
//! A table has nothing due until its files or options change, or until something in it expires. A look goes through a
//! bounded number of tables that are listed for that, and through those that wait: the others cost nothing.
//!
//! The runs of a backlog are those that lie over one another among the files that the strategy would merge, or that are
//! being merged: a read looks into each of them. What the strategy leaves alone (old windows, full levels) does not
//! count, so a healthy table of any strategy has few. What overwritten rows take counts as runs, too (`amplification.rs`).

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use model::TableId;
use model::options;

use super::amplification::{DiskUse, SpaceDebt};
use super::base::Unit;
use super::job::candidates;
use super::major::MajorRequests;
use super::piece::Piece;
use super::strategy::{MergeTask, Strategy, Task, Why};
use crate::engine::Engine;
use crate::limits::{
    BACKLOG_CHECK_S, BACKLOG_RUNS_MAX, BACKLOG_RUNS_SLOW, BACKLOG_TASKS_MAX, BACKLOGS_PER_LOOK,
    COMPACTION_SMALL_DIVISOR, COMPACTIONS_MAX, RUNS_DELAY_US_MAX,
};
use crate::table::{Table, file_bytes};

/// What the strategy of a table would have merged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Backlog {
    /// Whether it proposes to drop files.
    drops: bool,
    /// Bytes of the merge that it proposes first; `None` if it proposes none.
    next_bytes: Option<u64>,
    /// How many runs lie over one another among what it proposes and what is being merged.
    depth: usize,
    /// What overwritten rows take, if the strategy bounds that and is going to merge.
    debt: Option<SpaceDebt>,
}

impl Backlog {
    /// Runs that wait, and as how many its debt of space counts while the table's memtables hold so many bytes.
    fn runs(&self, memtable_bytes: usize) -> f64 {
        let of_debt = self.debt.map_or(0.0, |debt| debt.runs(memtable_bytes));
        of_debt.max(self.depth as f64)
    }
}

/// Tables that are to be evaluated, the first that changed first.
#[derive(Debug, Default)]
pub(crate) struct ChangedTables(RefCell<VecDeque<TableId>>);

/// When a table's backlog is evaluated again: at the next look once it is listed, or at a second.
#[derive(Debug, Default)]
pub(crate) struct EvaluationTimer {
    /// The list that the table is put on when it changes.
    list: OnceCell<(TableId, Rc<ChangedTables>)>,
    /// Whether the table is on the list now.
    is_listed: Cell<bool>,
    /// The second at which the table is evaluated though it did not change; `None` if nothing in it can expire.
    again_s: Cell<Option<u32>>,
}

impl EvaluationTimer {
    /// The table of this id is listed here when it changes; what it has already is a change.
    pub(crate) fn list_in(&self, id: TableId, changed: &Rc<ChangedTables>) {
        if self.list.set((id, changed.clone())).is_ok() && self.is_listed.replace(false) {
            self.changed();
        }
    }

    /// Puts the table on the list: its files or its options are others now, or something in it may have expired.
    pub(crate) fn changed(&self) {
        if !self.is_listed.replace(true)
            && let Some((id, changed)) = self.list.get()
        {
            changed.0.borrow_mut().push_back(*id);
        }
    }
}

/// The state of a shard's compaction: the merges that run (one of any size, and beside it small ones), the backlogs of
/// its tables, when they are evaluated again, and what operators have asked for.
#[derive(Debug, Default)]
pub(crate) struct CompactionState {
    /// The bytes of each merge that runs.
    running_bytes: RefCell<Vec<u64>>,
    /// The backlog with the most runs when tables were last evaluated, and its table.
    largest: Cell<Option<(TableId, Backlog)>>,
    /// Tables that have something to be merged, or that is being merged.
    waiting: RefCell<BTreeMap<TableId, Backlog>>,
    /// Tables in which something may expire, by the second at which they are evaluated again.
    expiring: RefCell<BTreeSet<(u32, TableId)>>,
    /// Tables that are to be merged whole.
    pub(super) major_requests: MajorRequests,
}

impl CompactionState {
    /// Whether a compaction of so many bytes may begin now.
    pub(super) fn may_start(&self, bytes: u64) -> bool {
        let largest = self.largest_bytes();
        let is_small = largest.is_none_or(|largest| bytes <= largest / COMPACTION_SMALL_DIVISOR);
        self.running_bytes.borrow().len() < COMPACTIONS_MAX && is_small
    }

    /// The bytes of the largest that is under way, if any is.
    pub(super) fn largest_bytes(&self) -> Option<u64> {
        self.running_bytes.borrow().iter().max().copied()
    }

    /// A compaction of so many bytes begins; whether it does beside another.
    pub(super) fn begin(&self, bytes: u64) -> bool {
        let mut running = self.running_bytes.borrow_mut();
        running.push(bytes);
        running.len() > 1
    }

    /// A compaction of so many bytes has ended.
    pub(super) fn end(&self, bytes: u64) {
        let mut running = self.running_bytes.borrow_mut();
        let at = running.iter().position(|other| *other == bytes);
        running.swap_remove(at.expect("what ends has begun"));
    }
}

impl Engine {
    /// A table with files in which nothing is alive: these go whatever is being merged.
    pub(crate) fn table_to_drop_from(&self, now_s: u32) -> Option<TableId> {
        self.evaluate_due(now_s);
        let backoff_clock_s = self.backoff_clock_s(now_s);
        let (tables, waiting) = (self.tables.by_id(), self.compactions.waiting.borrow());
        let dropping = waiting.iter().filter(|(_, backlog)| backlog.drops);
        let mut due = dropping.filter_map(|(id, _)| {
            let table = tables.get(id)?;
            let may = !table.cut.is_made() && table.drop_backoff.is_due(backoff_clock_s);
            may.then_some(*id)
        });
        due.next()
    }

    /// The table to compact next: of those whose proposed merge may begin now, the one with the most runs.
    pub(crate) fn table_to_compact(&self, now_s: u32) -> Option<TableId> {
        self.evaluate_due(now_s);
        let backoff_clock_s = self.backoff_clock_s(now_s);
        let tables = self.tables.by_id();
        let mut waiting = self.compactions.waiting.borrow_mut();
        waiting.retain(|id, _| tables.contains_key(id));
        self.counters.count(|s| s.tables_looked_at += waiting.len() as u64);
        let (mut best, mut largest) = (None, None);
        for (id, backlog) in waiting.iter() {
            let table = &tables[id];
            if table.cut.is_made() {
                continue;
            }
            let runs = backlog.runs(table.memtable_bytes());
            if largest.is_none_or(|(most, _)| runs > most) {
                largest = Some((runs, (*id, *backlog)));
            }
            let Some(bytes) = backlog.next_bytes else { continue };
            let has_place = self.compactions.may_start_automatic(*id, bytes);
            if !table.compact_backoff.is_due(backoff_clock_s) || !has_place {
                continue;
            }
            // Of two with as many runs the smaller, which is done sooner.
            let this: (usize, u64, TableId) = (runs as usize, u64::MAX - bytes, *id);
            best = best.max(Some(this));
        }
        self.compactions.largest.set(largest.map(|(_, of)| of));
        best.map(|(_, _, id)| id)
    }

    /// Evaluates the tables that have changed, or in which something may have expired, as many as one look may.
    fn evaluate_due(&self, now_s: u32) {
        self.list_expiring(now_s);
        self.evaluate_listed(now_s);
    }

    /// Lists the tables in which something may have expired, as many as one look may.
    fn list_expiring(&self, now_s: u32) {
        let tables = self.tables.by_id();
        let mut expiring = self.compactions.expiring.borrow_mut();
        for _ in 0..BACKLOGS_PER_LOOK {
            let due = expiring.first().copied().filter(|(at_s, _)| *at_s <= now_s);
            let Some((at_s, id)) = due else { break };
            expiring.pop_first();
            let due = tables.get(&id).filter(|table| table.evaluation.again_s.get() == Some(at_s));
            if let Some(table) = due {
                table.evaluation.again_s.set(None);
                table.evaluation.changed();
            }
        }
    }

    /// Evaluates tables that are listed, the first that changed first, as many as one look may.
    fn evaluate_listed(&self, now_s: u32) {
        let tables = self.tables.by_id();
        let changed = &self.tables.changed().0;
        let mut expiring = self.compactions.expiring.borrow_mut();
        for _ in 0..BACKLOGS_PER_LOOK {
            let Some(id) = changed.borrow_mut().pop_front() else { break };
            let Some(table) = tables.get(&id) else { continue };
            self.counters.count(|s| s.tables_looked_at += 1);
            table.evaluation.is_listed.set(false);
            let sizes = (self.budget.flush_bytes(), self.fragment_bytes_min.get());
            let backlog = evaluate(table, sizes, now_s);
            let mut waiting = self.compactions.waiting.borrow_mut();
            match backlog == Backlog::default() {
                true => waiting.remove(&id),
                false => waiting.insert(id, backlog),
            };
            let again_s = may_expire(table).then(|| now_s.saturating_add(BACKLOG_CHECK_S));
            if let Some(before) = table.evaluation.again_s.replace(again_s) {
                expiring.remove(&(before, id));
            }
            expiring.extend(again_s.map(|at_s| (at_s, id)));
        }
    }

    /// How far compaction is behind: the runs of the table that has the most to merge, or as how many its overwritten
    /// rows count; of [`BACKLOG_RUNS_MAX`] and never more.
    pub fn backlog_runs(&self) -> usize {
        self.backlog() as usize
    }

    /// How long a writer should be kept waiting so that compaction keeps up, in microseconds.
    pub(crate) fn backlog_delay_us(&self) -> u32 {
        delay_us(self.backlog())
    }

    /// The runs of the largest backlog, with what its table's memtables hold now.
    fn backlog(&self) -> f64 {
        let Some((id, backlog)) = self.compactions.largest.get() else { return 0.0 };
        let memtable_bytes = match backlog.debt {
            Some(_) => self.tables.by_id().get(&id).map_or(0, |table| table.memtable_bytes()),
            None => 0,
        };
        backlog.runs(memtable_bytes).min(BACKLOG_RUNS_MAX as f64)
    }
}

/// Rises from nothing, slowly at first: at the limit a client with 500 writes in flight sends 5000 a second.
fn delay_us(runs: f64) -> u32 {
    let (slow, full) = (BACKLOG_RUNS_SLOW as f64, BACKLOG_RUNS_MAX as f64);
    let part = ((runs - slow) / (full - slow)).clamp(0.0, 1.0);
    (part.powi(3) * f64::from(RUNS_DELAY_US_MAX)) as u32
}

/// Whether time alone may give the strategy something to do: a tombstone or a row expires, a window ends.
fn may_expire(table: &Table) -> bool {
    let views = table.views();
    let has_deaths = || views.iter().any(|v| v.sstable.statistics().first_death_s != u32::MAX);
    !views.is_empty() && (has_windows(table) || has_deaths())
}

fn has_windows(table: &Table) -> bool {
    let definition = table.definition();
    matches!(definition.options.compaction.strategy(), options::Strategy::TimeWindow(_))
}

/// Asks the strategy again and again, as if what it proposed were being merged already.
fn evaluate(table: &Table, (flush_bytes, fragment_bytes_min): (usize, u64), now_s: u32) -> Backlog {
    if table.views().is_empty() {
        table.overwriting.surplus_bytes.set(0);
        return Backlog::default();
    }
    let (mut pieces, context) = candidates(table, fragment_bytes_min, now_s);
    let definition = table.definition();
    let strategy = Strategy::of(&definition.options.compaction);
    let disk = disk_use(table, &pieces, strategy.unit());
    let is_merged = |index: &usize| pieces[*index].merging;
    let mut waiting: Vec<usize> = (0..pieces.len()).filter(is_merged).collect();
    let (mut drops, mut next_bytes) = (false, None);
    for _ in 0..BACKLOG_TASKS_MAX {
        let Some(task) = strategy.propose(&pieces, &context) else { break };
        let of_task = match &task {
            Task::Drop { pieces } => {
                // It is what is proposed now.
                drops |= next_bytes.is_none();
                pieces
            }
            Task::Merge(MergeTask { pieces: of_task, .. }) => {
                let bytes = of_task.iter().map(|&index| pieces[index].bytes).sum();
                next_bytes = next_bytes.or(Some(bytes));
                of_task
            }
        };
        let is_shape = matches!(&task, Task::Merge(MergeTask { why: Why::Shape, .. }));
        let of_task = of_task.clone();
        for &index in &of_task {
            (pieces[index].busy, pieces[index].merging) = (true, true);
        }
        if is_shape {
            waiting.extend(of_task);
        }
    }
    // Other windows are no versions of the largest one's rows.
    let surplus_bytes = if has_windows(table) { 0 } else { disk.surplus_bytes };
    table.overwriting.surplus_bytes.set(surplus_bytes);
    // Writers do not wait for what is not going to be done.
    let goal = strategy.space_goal().filter(|_| !waiting.is_empty());
    let written = (&table.overwriting, table.flush_estimate.file_part());
    let debt = goal.and_then(|goal| SpaceDebt::of(&disk, written, goal, flush_bytes));
    let depth = depth(waiting.into_iter().map(|index| &pieces[index]));
    Backlog { drops, next_bytes, depth, debt }
}

/// What a table takes on disk; its pieces are those of its views, in their order, and then those that are not open.
fn disk_use(table: &Table, pieces: &[Piece], unit: Unit) -> DiskUse {
    let views = table.views();
    let (open, lost) = pieces.split_at(views.len());
    // A file is there until all of it is merged; of one that others have, too, only a part is this table's.
    let shared = views.iter().zip(open).filter(|(view, _)| view.entry.shared);
    let parts = shared.map(|(_, piece)| piece).chain(lost).map(|piece| piece.bytes);
    let alone = file_bytes(views.iter().filter(|view| !view.entry.shared));
    DiskUse::of(pieces, unit, &table.overwriting, parts.sum::<u64>() + alone)
}

/// How many of the pieces at most hold one token. Pieces of a run that have parts of one partition count once.
fn depth<'p>(pieces: impl Iterator<Item = &'p Piece>) -> usize {
    let mut pieces: Vec<&Piece> = pieces.collect();
    pieces.sort_by_key(|piece| piece.order());
    let mut ends: Vec<(i64, bool)> = Vec::new();
    for group in pieces.chunk_by(|piece, next| piece.may_go_on_in(next)) {
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

    fn piece(first: i64, last: i64) -> Piece {
        Piece {
            run: Uuid::nil(),
            level: 0,
            tokens: TokenRange { first: Token(first), last: Token(last) },
            bytes: 1,
            oldest_timestamp: 0,
            newest_timestamp: 0,
            last_death_s: 0,
            dead_part: 0.0,
            joined_dead_part: 0.0,
            made_s: 0,
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
        let delays: Vec<u32> =
            (0..=BACKLOG_RUNS_MAX + 10).map(|runs| delay_us(runs as f64)).collect();
        assert!(delays[..=BACKLOG_RUNS_SLOW].iter().all(|delay| *delay == 0));
        assert!(delays[BACKLOG_RUNS_SLOW + 2] > 0);
        assert!(delays.windows(2).all(|pair| pair[0] <= pair[1]));
        assert!(delays[BACKLOG_RUNS_MAX / 2 + BACKLOG_RUNS_SLOW / 2] < RUNS_DELAY_US_MAX / 4);
        assert_eq!(delays[BACKLOG_RUNS_MAX..], [RUNS_DELAY_US_MAX; 11]);
    }

    #[test]
    fn beside_a_large_compaction_a_small_one_may_begin() {
        let compactions = CompactionState::default();
        assert!(compactions.may_start(u64::MAX));
        assert!(!compactions.begin(1000), "it is alone");
        assert!(compactions.may_start(250) && !compactions.may_start(251));
        assert!(compactions.begin(100));
        assert!(!compactions.may_start(0), "there are two already");
        compactions.end(1000);
        assert!(compactions.may_start(25) && !compactions.may_start(26));
        compactions.end(100);
        assert!(compactions.may_start(1000));
    }
}
