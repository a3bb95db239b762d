//! Compaction of a shard's tables: what to merge now.
//!
//! ```text
//! views ─► strategy ─► Plan ─┬─► merge: rewrite, fragment by fragment (adoption.rs)
//!                            └─► drop: manifest { remove } ─► delete
//! ```
//!
//! 1. A plan is made of the views as they are now, without an await; what it says of a table that changes meanwhile
//!    is looked at again when the manifest's lock is taken.
//! 2. Inputs of a merge that would make it fail again are left alone from then on (quarantine), and the table is not
//!    tried again for a while.
//!
//! 3. A merge for which there is no space gives way to a smaller one (`smaller.rs`).
//!
//! Merges beside one another, of two tables or of one, have no file in common (`Table::begin_merging`).
//!
//! Not here: how an output takes the place of its inputs (`adoption.rs`), how much disk that takes (`footprint.rs`).

use std::collections::BTreeSet;
use std::rc::Rc;

use model::Token;
use model::options::{TableOptions, TombstoneGc};
use uuid::Uuid;

use super::adoption::RunningMerge;
use super::footprint::space_for;
use super::major::MajorRequest;
use super::piece::{CompactionContext, Piece};
use super::rewrite::{Output, rewrite};
use super::smaller::smaller;
use super::strategy::{MergeTask, Strategy, Task};
use crate::damage::file_of;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::layout;
use crate::limits::{JOB_QUARANTINE_FAILURES, SMALLER_MERGES_MAX};
use crate::manifest::{Edit, ViewEntry, ViewId};
use crate::pause::Pause;
use crate::space_ledger::{Space, SpaceUse};
use crate::sstable::WriterConfig;
use crate::table::{Table, View};

/// What is to become of some views of a table.
struct Plan {
    views: Rc<[View]>,
    task: Task,
    gc_before_s: u32,
    /// When it was made, in seconds since 1970.
    now_s: u32,
    /// Bytes of what is merged.
    bytes: u64,
    asked: Asked,
}

/// Who wants a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// The strategy: another one may take its place.
    ByStrategy,
    /// An operator: all or nothing.
    ByOperator,
}

/// A merge whose inputs are taken. It holds no other file open, so that what is used up on the way can go.
struct BegunMerge<'m> {
    table: &'m Table,
    running: RunningMerge<'m>,
    fragment_bytes: u64,
    gc_before_s: u32,
}

impl Plan {
    /// The views that go.
    fn inputs(&self) -> Vec<View> {
        let (Task::Merge(MergeTask { pieces, .. }) | Task::Drop { pieces }) = &self.task;
        pieces.iter().map(|&index| self.views[index].clone()).collect()
    }
}

impl Engine {
    /// Does what the strategy of the table proposes now.
    pub(crate) async fn compact(&self, table: &Table, now_s: u32, pause: &dyn Pause) -> Result<()> {
        let id = table.definition().id;
        let has_place = |plan: &Plan| self.compactions.may_start_automatic(id, plan.bytes);
        let plan = self.next_plan(table, now_s).filter(has_place);
        self.compact_as(table, plan, now_s, pause).await
    }

    /// Serves a [request](Engine::request_major): merges all files of its table into one run, or those of a
    /// window of time; `false` if the table is being compacted, it has a cut, there is no place for one more
    /// compaction, or another window is left: ask again.
    pub async fn compact_major(
        &self,
        request: &MajorRequest<'_>,
        now_s: u32,
        pause: impl AsyncFn(),
    ) -> Result<bool> {
        // A table that was dropped has nothing to merge.
        let Ok(table) = self.table(request.table()) else { return Ok(true) };
        if table.cut.is_made() || table.is_any_merging() {
            return Ok(false);
        }
        let mut is_last = true;
        let mut plan = self.plan_of(&table, now_s, |strategy, pieces, _| {
            let mut tasks = strategy.major(pieces).into_iter();
            let task = tasks.next();
            is_last = tasks.next().is_none();
            task
        });
        if plan.as_ref().is_some_and(|plan| !self.compactions.may_start(plan.bytes)) {
            request.wait_for_slot();
            return Ok(false);
        }
        plan.iter_mut().for_each(|plan| plan.asked = Asked::ByOperator);
        // While it goes on, what is flushed meanwhile is merged as ever.
        request.pause();
        let done = self.compact_as(&table, plan, now_s, &pause).await;
        request.resume();
        done.map(|()| is_last)
    }

    async fn compact_as(
        &self,
        table: &Table,
        plan: Option<Plan>,
        now_s: u32,
        pause: &dyn Pause,
    ) -> Result<()> {
        // What was found to be due was evaluated before something changed: it is evaluated again.
        table.evaluation.changed();
        let Some(plan) = plan else { return Ok(()) };
        let bytes = plan.bytes;
        let is_beside = self.compactions.begin(bytes);
        self.counters.count(|s| s.compactions_beside += u64::from(is_beside));
        let result = match plan.task {
            Task::Drop { .. } => self.drop_dead(table, now_s).await,
            Task::Merge(_) => self.merge(table, plan, now_s, pause).await,
        };
        self.compactions.end(bytes);
        table.evaluation.changed();
        table.compact_backoff.ended(&result, self.backoff_clock_s(now_s));
        result.inspect_err(|_| self.counters.count(|s| s.jobs_failed += 1))
    }

    /// Puts those inputs of a failed merge in quarantine that would make it fail again, so that the others are merged
    /// without them: at once those of a row that is too long, and a damaged file, or one that cannot be read, when
    /// [`JOB_QUARANTINE_FAILURES`] merges have failed by it. Gives the error with the table's name.
    fn quarantine_unmergeable(
        &self,
        table: &Table,
        inputs: &[View],
        error: Error,
        now_s: u32,
    ) -> Error {
        let error = match error {
            Error::RowTooLarge { key, bytes, .. } => {
                let definition = table.definition();
                let name = format!("{}.{}", definition.keyspace, definition.name);
                Error::RowTooLarge { table: name.into(), key, bytes }
            }
            error => error,
        };
        let quarantine = |holds: &dyn Fn(&View) -> bool| {
            // The table may have been emptied while its files were merged.
            let views = table.views();
            let is_there = |id| views.iter().any(|view| view.entry.id() == id);
            let is_new = |view: &&View| {
                !table.is_in_quarantine(view.entry.id()) && is_there(view.entry.id())
            };
            let found = inputs.iter().filter(|view| holds(view)).filter(is_new);
            let put = |view: &View| table.put_in_quarantine(view.entry.clone(), &error, now_s);
            let count = found.map(put).count();
            self.counters.count(|s| s.files_quarantined += count as u64);
        };
        match &error {
            Error::RowTooLarge { key, .. } => {
                let token = Token::of_key(key);
                quarantine(&|view| view.may_contain(token));
            }
            // The file may be an output, too.
            error if let Some(file) = file_of(error) => {
                let path = |view: &View| layout::sstable_path(view.entry.table, view.entry.sstable);
                let input = inputs.iter().find(|view| path(view).as_str() == file);
                let sstable = input.map(|view| view.entry.sstable);
                let backoff_clock_s = self.backoff_clock_s(now_s);
                let failures = sstable
                    .map_or(0, |sstable| table.damage.note_merge_failure(sstable, backoff_clock_s));
                if failures >= JOB_QUARANTINE_FAILURES {
                    quarantine(&|view| Some(view.entry.sstable) == sstable);
                }
            }
            _ => {}
        }
        error
    }

    /// Removes files of a table in which nothing is alive. No merge is waited for.
    pub(crate) async fn drop_files(&self, table: &Table, now_s: u32) -> Result<()> {
        table.evaluation.changed();
        let result = self.drop_dead(table, now_s).await;
        table.evaluation.changed();
        table.drop_backoff.ended(&result, self.backoff_clock_s(now_s));
        result.inspect_err(|_| self.counters.count(|s| s.jobs_failed += 1))
    }

    /// The same, if that is still so under the manifest's lock.
    async fn drop_dead(&self, table: &Table, now_s: u32) -> Result<()> {
        let lock = self.manifest_lock.take().await;
        let Some(plan) = self.next_plan(table, now_s) else { return Ok(()) };
        if !matches!(plan.task, Task::Drop { .. }) {
            return Ok(());
        }
        let dead = plan.inputs();
        let gone: Vec<ViewEntry> = dead.iter().map(|view| view.entry.clone()).collect();
        let remove: Vec<ViewId> = gone.iter().map(ViewEntry::id).collect();
        let epoch = table.epoch();
        // No merge takes them meanwhile.
        let files: BTreeSet<Uuid> = gone.iter().map(|view| view.sstable).collect();
        files.iter().for_each(|file| table.begin_merging(*file));
        let edit = Edit { remove: remove.clone(), ..Edit::default() };
        let committed = self.manifest.commit(&edit).await;
        table.end_merging(&files.into_iter().collect::<Vec<_>>());
        committed?;
        self.counters.count(|s| s.compactions += 1);
        self.merges.removed(&table.definition(), &dead, now_s);
        if table.epoch() == epoch {
            table.replace_views(&remove, []);
        }
        drop(lock);
        self.delete_used(&gone).await
    }

    /// Merges what is planned; where the disk has no space for it, something smaller, unless all was asked for.
    async fn merge(
        &self,
        table: &Table,
        mut plan: Plan,
        now_s: u32,
        pause: &dyn Pause,
    ) -> Result<()> {
        for _ in 0..SMALLER_MERGES_MAX {
            let may_be_smaller = plan.asked == Asked::ByStrategy;
            let merge = self.begin(table, plan, pause);
            let space_bytes = self.space_of(&merge).await;
            let room_bytes = match self.promise_space(SpaceUse::Merge, space_bytes).await? {
                Space::Promised(promise) => {
                    merge.running.keep_promise(promise);
                    return self.finish(merge, now_s).await;
                }
                Space::Short(room_bytes) => room_bytes,
            };
            drop(merge);
            let stay = self.files_that_stay(table.views().iter().map(|view| &view.entry)).await;
            let views = table.views();
            let fits = |task: &MergeTask| {
                let inputs: Vec<View> =
                    task.pieces.iter().map(|&index| views[index].clone()).collect();
                let fragment_bytes = self.fragment_bytes(table, task.fragment_bytes);
                space_for(&inputs, &views, &stay, fragment_bytes) <= room_bytes
            };
            let other = self.plan_of(table, now_s, |strategy, pieces, context| {
                smaller(strategy, pieces, context, &fits)
            });
            let Some(other) = other.filter(|_| may_be_smaller) else { break };
            plan = other;
        }
        Err(Error::DiskFull { file: "the output of a compaction".into() })
    }

    /// The most bytes that a merge holds at a time beside its inputs.
    async fn space_of(&self, merge: &BegunMerge<'_>) -> u64 {
        let inputs = merge.running.inputs();
        let stay = self.files_that_stay(inputs.iter().map(|view| &view.entry)).await;
        space_for(&inputs, &merge.table.views(), &stay, merge.fragment_bytes)
    }

    /// Takes the inputs of a merge, before anything is awaited: they are of this epoch of the table.
    fn begin<'m>(&'m self, table: &'m Table, plan: Plan, pause: &'m dyn Pause) -> BegunMerge<'m> {
        assert!(!table.cut.is_made(), "no merge has inputs of both sides of a cut");
        let inputs = plan.inputs();
        let Task::Merge(task) = plan.task else { unreachable!("only called for a merge") };
        let fragment_bytes = self.fragment_bytes(table, task.fragment_bytes);
        let times_s = (plan.gc_before_s, plan.now_s);
        let running = RunningMerge::new(self, table, (inputs, task.level), times_s, pause);
        BegunMerge { table, running, fragment_bytes, gc_before_s: plan.gc_before_s }
    }

    async fn finish(&self, merge: BegunMerge<'_>, now_s: u32) -> Result<()> {
        let BegunMerge { table, running, fragment_bytes, gc_before_s, .. } = merge;
        let output = Output {
            dir: layout::table_dir(running.definition().id.0),
            config: WriterConfig::of_table(running.definition()),
            fragment_bytes,
            kept_bytes_max: self.budget.merge_output_max(),
            now_s,
            gc_before_s,
            drops: table.drops(),
            row_bytes_max: self.row_limits.get().compacted_bytes_max,
        };
        let result = rewrite(&self.disk, running.to_merge(), &output, &running).await;
        // No other merge takes the inputs before it is known which of them cannot be merged.
        let result = result
            .map_err(|error| self.quarantine_unmergeable(table, &running.inputs(), error, now_s));
        drop(running);
        result
    }

    /// Deletes the files of views that a commit has removed. After an error the rest stay until the next start.
    pub(crate) async fn delete_used(&self, gone: &[ViewEntry]) -> Result<()> {
        let deleted = self.delete_files(gone).await;
        self.log_space.freed();
        deleted
    }

    /// What the strategy of a table proposes now.
    fn next_plan(&self, table: &Table, now_s: u32) -> Option<Plan> {
        self.plan_of(table, now_s, |strategy, pieces, context| strategy.propose(pieces, context))
    }

    /// What the strategy of a table says of its views; nothing while the table has a cut, of whose both sides no merge
    /// may have inputs. Who asks again after an await looks at the cut again by this.
    fn plan_of(
        &self,
        table: &Table,
        now_s: u32,
        ask: impl FnOnce(&Strategy<'_>, &[Piece], &CompactionContext) -> Option<Task>,
    ) -> Option<Plan> {
        let views = table.views();
        if views.is_empty() || table.cut.is_made() {
            return None;
        }
        let definition = table.definition();
        let (pieces, context) = candidates(table, self.fragment_bytes_min.get(), now_s);
        let task = ask(&Strategy::of(&definition.options.compaction), &pieces, &context)?;
        let bytes = match &task {
            Task::Drop { .. } => 0,
            Task::Merge(task) => task.pieces.iter().map(|&index| pieces[index].bytes).sum(),
        };
        let (gc_before_s, asked) = (context.gc_before_s, Asked::ByStrategy);
        Some(Plan { views, task, gc_before_s, now_s, bytes, asked })
    }
}

/// The views of a table as a strategy sees them, in the same order, and behind them those that could not be opened.
/// Fragments have at least `fragment_bytes_min`, unless the strategy wants shorter ones.
pub(super) fn candidates(
    table: &Table,
    fragment_bytes_min: u64,
    now_s: u32,
) -> (Vec<Piece>, CompactionContext) {
    let definition = table.definition();
    let gc_before_s = gc_before_s(&definition.options, now_s);
    let strategy = Strategy::of(&definition.options.compaction);
    let layers = table.layers();
    let unflushed = layers.iter().filter_map(|layer| layer.memtable.borrow().oldest());
    let context = CompactionContext {
        gc_before_s,
        now_s,
        oldest_unflushed: unflushed.min().unwrap_or(i64::MAX),
        overwritten_ratio: table.overwriting.ratio(),
    };
    let piece = |view: &View| {
        let ViewEntry { tokens, run, level, file_bytes, .. } = view.entry;
        let fragment_bytes = fragment_bytes_min.min(strategy.fragment_bytes_max(file_bytes));
        let piece = Piece::of_view(&view.sstable, tokens, run, level, &context, fragment_bytes);
        // Most of a file is of no use when its merge has ended early: then it is rewritten like one of several owners.
        let is_remnant = piece.bytes < file_bytes / 2;
        let merging = table.is_merging(view.entry.sstable);
        let busy = merging || table.is_in_quarantine(view.entry.id());
        Piece { shared: view.entry.shared || is_remnant, busy, merging, ..piece }
    };
    // What could not be opened takes no part, and is as old as can be where something is to be purged.
    let unopened = |entry: ViewEntry| Piece {
        run: Uuid::nil(),
        level: entry.level,
        tokens: entry.tokens,
        bytes: entry.file_bytes,
        oldest_timestamp: i64::MIN,
        newest_timestamp: 0,
        last_death_s: u32::MAX,
        dead_part: 0.0,
        joined_dead_part: 0.0,
        made_s: 0,
        shared: false,
        busy: true,
        merging: false,
    };
    let lost = table.damage.unopened_entries().into_iter().map(unopened);
    let pieces = table.views().iter().map(piece).chain(lost).collect();
    (pieces, context)
}

/// Tombstones made before this second may go.
pub(crate) fn gc_before_s(options: &TableOptions, now_s: u32) -> u32 {
    match options.tombstone_gc {
        TombstoneGc::Disabled => 0,
        // What expires later is alive, and no tombstone yet.
        TombstoneGc::Immediate => now_s.saturating_add(1),
        TombstoneGc::Timeout => {
            now_s.saturating_sub(u32::try_from(options.gc_grace_seconds).unwrap_or(0))
        }
    }
}
