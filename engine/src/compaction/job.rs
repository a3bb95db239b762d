//! Compaction of a shard's tables: what to merge now.
//!
//! ```text
//! views ─► strategy ─► Plan ─┬─► merge: rewrite, fragment by fragment (adoption.rs)
//!                            └─► drop: manifest { remove } ─► delete
//! ```
//!
//! 1. A plan is made of the views as they are now, without an await; what it says of a table that changes meanwhile
//!    is looked at again when the turn is taken.
//! 2. Inputs of a merge that would make it fail again are left alone from then on (quarantine), and the table is not
//!    tried again for a while.
//!
//! One compaction at a time in a shard: it has one core and one share of it.
//!
//! Not here: how an output takes the place of its inputs (`adoption.rs`), how much disk that takes (`merge_space.rs`).

use std::rc::Rc;

use model::options::{TableOptions, TombstoneGc};
use model::{TableId, Token};

use super::adoption::RunningMerge;
use super::merge_space::space_for;
use super::piece::{Candidate, CompactionContext};
use super::rewrite::{Output, rewrite};
use super::strategy::{MergeTask, Strategy, Task};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::layout;
use crate::limits::JOB_QUARANTINE_FAILURES;
use crate::manifest::{Edit, ViewEntry, ViewId};
use crate::sstable::WriterConfig;
use crate::table::{Table, View};

/// What is to become of some views of a table.
struct Plan {
    views: Rc<[View]>,
    task: Task,
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
    /// A table that would be better for a compaction, the one with the most files first.
    pub(crate) fn table_to_compact(&self, now_s: u32) -> Option<TableId> {
        if self.compacting.get() {
            return None;
        }
        let tables = self.tables.by_id();
        let due = tables.iter().filter(|(_, table)| {
            table.compact_backoff.is_due(now_s) && next_plan(table, now_s).is_some()
        });
        due.max_by_key(|(id, table)| (table.views().len(), **id)).map(|(id, _)| *id)
    }

    /// Does what the strategy of the table proposes now.
    pub(crate) async fn compact(
        &self,
        table: &Table,
        now_s: u32,
        pause: &impl AsyncFn(),
    ) -> Result<()> {
        let plan = next_plan(table, now_s);
        self.compact_alone(table, plan, now_s, pause).await
    }

    /// Merges all files of a table into one run, or those of a window of time, as an operator asks; `false` if the shard
    /// is compacting, or another window is left: ask again.
    pub async fn compact_all(
        &self,
        id: TableId,
        now_s: u32,
        pause: impl AsyncFn(),
    ) -> Result<bool> {
        if self.compacting.get() {
            return Ok(false);
        }
        // A table that was dropped has nothing to merge.
        let Ok(table) = self.table(id) else { return Ok(true) };
        let mut is_last = true;
        let plan = plan(&table, now_s, |strategy, pieces, _| {
            let mut tasks = strategy.major(pieces).into_iter();
            let task = tasks.next();
            is_last = tasks.next().is_none();
            task
        });
        self.compact_alone(&table, plan, now_s, &pause).await.map(|()| is_last)
    }

    async fn compact_alone(
        &self,
        table: &Table,
        plan: Option<Plan>,
        now_s: u32,
        pause: &impl AsyncFn(),
    ) -> Result<()> {
        let Some(plan) = plan else { return Ok(()) };
        if self.compacting.replace(true) {
            return Ok(());
        }
        let result = match plan.task {
            Task::Drop { .. } => self.drop_dead(table, now_s).await,
            Task::Merge(_) => self.merge(table, plan, now_s, pause).await,
        };
        assert!(self.compacting.replace(false), "one compaction at a time");
        table.compact_backoff.ended(&result, now_s);
        result.inspect_err(|_| self.counters.count(|s| s.jobs_failed += 1))
    }

    /// Puts those inputs of a failed merge in quarantine that would make it fail again, so that the others are merged
    /// without them; gives the error with the table's name.
    fn part_from(&self, table: &Table, inputs: &[View], error: Error) -> Error {
        let quarantine = |holds: &dyn Fn(&View) -> bool| {
            let found = inputs.iter().filter(|view| holds(view));
            let count = found.map(|view| table.put_in_quarantine(view.entry.id())).count();
            self.counters.count(|s| s.files_quarantined += count as u64);
        };
        match error {
            Error::RowTooLarge { key, bytes, .. } => {
                let token = Token::of_key(&key);
                quarantine(&|view| view.may_contain(token));
                let definition = table.definition();
                let name = format!("{}.{}", definition.keyspace, definition.name);
                Error::RowTooLarge { table: name.into(), key, bytes }
            }
            Error::Corrupt { ref file, .. }
                if table.compact_backoff.failures() + 1 >= JOB_QUARANTINE_FAILURES =>
            {
                quarantine(&|view| {
                    let path = layout::sstable_path(view.entry.table, view.entry.sstable);
                    path.as_str() == &**file
                });
                error
            }
            error => error,
        }
    }

    /// Removes files in which nothing is alive, if that is still so when the turn comes.
    async fn drop_dead(&self, table: &Table, now_s: u32) -> Result<()> {
        let _turn = self.turn.take().await;
        let Some(plan) = next_plan(table, now_s) else { return Ok(()) };
        if !matches!(plan.task, Task::Drop { .. }) {
            return Ok(());
        }
        let gone: Vec<ViewEntry> = plan.inputs().iter().map(|view| view.entry).collect();
        let remove: Vec<ViewId> = gone.iter().map(ViewEntry::id).collect();
        let epoch = table.epoch();
        self.manifest.commit(&Edit { remove: remove.clone(), ..Edit::default() }).await?;
        self.counters.count(|s| s.compactions += 1);
        if table.epoch() == epoch {
            table.replace_views(&remove, []);
        }
        self.delete_used(&gone).await
    }

    async fn merge(
        &self,
        table: &Table,
        plan: Plan,
        now_s: u32,
        pause: &impl AsyncFn(),
    ) -> Result<()> {
        let inputs = plan.inputs();
        let Plan { views, task: Task::Merge(task), gc_before_s } = plan else {
            unreachable!("only called for a merge")
        };
        // What is used up on the way must not be held open.
        drop(views);
        let fragment_bytes = self.fragment_bytes(table, task.fragment_bytes);
        let space_bytes = space_for(&inputs, fragment_bytes);
        // Before anything is awaited: the inputs are of this epoch of the table.
        let merge = RunningMerge::new(self, table, (inputs, task.level), pause);
        self.check_free_space(space_bytes).await?;
        let output = Output {
            dir: layout::table_dir(merge.definition().id.0),
            config: WriterConfig::of_table(merge.definition()),
            fragment_bytes,
            now_s,
            gc_before_s,
            drops: table.drops(),
            row_bytes_max: self.row_limits.get().compacted_bytes_max,
        };
        let result = rewrite(&self.disk, merge.to_merge(), &output, &merge).await;
        let left = merge.into_inputs();
        result.map_err(|error| self.part_from(table, &left, error))
    }

    /// Deletes the files of views that a commit has removed. After an error the rest stay until the next start.
    pub(super) async fn delete_used(&self, gone: &[ViewEntry]) -> Result<()> {
        let deleted = self.delete_files(gone).await;
        self.space.freed();
        deleted
    }
}

/// What the strategy of a table proposes now.
fn next_plan(table: &Table, now_s: u32) -> Option<Plan> {
    plan(table, now_s, |strategy, pieces, context| strategy.propose(pieces, context))
}

/// What the strategy of a table says of its views.
fn plan(
    table: &Table,
    now_s: u32,
    ask: impl FnOnce(&Strategy<'_>, &[Candidate], &CompactionContext) -> Option<Task>,
) -> Option<Plan> {
    let views = table.views();
    if views.is_empty() {
        return None;
    }
    let definition = table.definition();
    let strategy = Strategy::of(&definition.options.compaction);
    let gc_before_s = gc_before_s(&definition.options, now_s);
    let layers = table.layers();
    let unflushed = layers.iter().filter_map(|layer| layer.memtable.borrow().oldest());
    let context = CompactionContext {
        gc_before_s,
        now_s,
        oldest_unflushed: unflushed.min().unwrap_or(i64::MAX),
    };
    let piece = |view: &View| {
        let ViewEntry { tokens, run, level, file_bytes, .. } = view.entry;
        let piece = Candidate::of_view(&view.sstable, tokens, run, level, &context);
        // Most of a file is of no use when its merge has ended early: then it is rewritten like one of several owners.
        let is_remnant = piece.bytes < file_bytes / 2;
        let busy = table.is_in_quarantine(view.entry.id());
        Candidate { shared: view.entry.shared || is_remnant, busy, ..piece }
    };
    let pieces: Vec<Candidate> = views.iter().map(piece).collect();
    let task = ask(&strategy, &pieces, &context)?;
    Some(Plan { views, task, gc_before_s })
}

/// Tombstones made before this second may go.
fn gc_before_s(options: &TableOptions, now_s: u32) -> u32 {
    match options.tombstone_gc {
        TombstoneGc::Disabled => 0,
        // What expires later is alive, and no tombstone yet.
        TombstoneGc::Immediate => now_s.saturating_add(1),
        TombstoneGc::Timeout => {
            now_s.saturating_sub(u32::try_from(options.gc_grace_seconds).unwrap_or(0))
        }
    }
}
