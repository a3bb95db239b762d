//! Compaction of a shard's tables: what to merge now, and the edit that makes it so.
//!
//! ```text
//! views ─► strategy ─► rewrite ─► open the outputs ─► manifest { remove, add } ─► swap ─► delete the inputs
//! ```
//!
//! 1. Until the manifest names the outputs the inputs are the data; a failure before that removes the outputs.
//!    After a failed commit they stay until the next start: the manifest may name them.
//! 2. The swap happens without an await after the commit. Readers keep the views they took.
//! 3. What was truncated or dropped meanwhile is not brought back: the epoch is compared when the turn is taken.
//! 4. A tombstone goes only if, when its partition is merged, no memtable and no view outside the merge holds
//!    anything older of it. The log holds nothing of the table that is neither in memtables nor in views.
//!
//! One compaction at a time in a shard: it has one core and one share of it.

use std::rc::Rc;

use model::options::{TableOptions, TombstoneGc};
use model::schema;
use model::{TableId, Token, TokenRange};
use uuid::Uuid;

use super::piece::{Candidate, CompactionContext};
use super::rewrite::{Input, Output, rewrite};
use super::strategy::{MergeTask, Strategy, Task};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::layout;
use crate::limits::JOB_QUARANTINE_FAILURES;
use crate::manifest::{Edit, ViewEntry, ViewId};
use crate::planted::{Bug, planted};
use crate::sstable::{WriterConfig, WrittenSstable};
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

    /// Merges all files of a table into one run, as an operator asks; `false` if the shard is compacting: ask again.
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
        let plan = plan(&table, now_s, |strategy, pieces, _| strategy.major(pieces));
        self.compact_alone(&table, plan, now_s, &pause).await.map(|()| true)
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
        let result = match &plan.task {
            Task::Drop { .. } => self.drop_dead(table, now_s).await,
            Task::Merge(task) => self.merge(table, &plan, task, now_s, pause).await,
        };
        assert!(self.compacting.replace(false), "one compaction at a time");
        table.compact_backoff.ended(&result, now_s);
        result.map_err(|error| {
            self.counters.count(|s| s.jobs_failed += 1);
            self.part_from(table, &plan, error)
        })
    }

    /// Puts those inputs of a failed merge in quarantine that would make it fail again, so that the others are merged
    /// without them; gives the error with the table's name.
    fn part_from(&self, table: &Table, plan: &Plan, error: Error) -> Error {
        let quarantine = |holds: &dyn Fn(&View) -> bool| {
            let inputs = plan.inputs();
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
                if table.compact_backoff.failures() >= JOB_QUARANTINE_FAILURES =>
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
        let inputs = plan.inputs();
        match self.swap(table, table.epoch(), &inputs, Vec::new()).await? {
            true => self.delete_inputs(&inputs).await,
            false => Ok(()),
        }
    }

    async fn merge(
        &self,
        table: &Table,
        plan: &Plan,
        task: &MergeTask,
        now_s: u32,
        pause: &impl AsyncFn(),
    ) -> Result<()> {
        let (epoch, definition, inputs) = (table.epoch(), table.definition(), plan.inputs());
        self.check_free_space(&inputs).await?;
        let dir = layout::table_dir(definition.id.0);
        let config = WriterConfig::of_table(&definition);
        let (fragment_bytes, gc_before_s) = (task.fragment_bytes, plan.gc_before_s);
        let drops = table.drops();
        let row_bytes_max = self.row_limits.get().compacted_bytes_max;
        let output =
            Output { dir, config, fragment_bytes, now_s, gc_before_s, drops, row_bytes_max };
        let merged: Vec<Input> = inputs
            .iter()
            .map(|view| Input { sstable: view.sstable.clone(), tokens: view.entry.tokens })
            .collect();
        let oldest = |token: Token, key: &[u8]| oldest_elsewhere(table, &inputs, token, key);
        let new_id = || self.names.next();
        let finished =
            rewrite(&self.disk, &merged, &output, oldest, new_id, async || pause().await).await?;
        drop(merged);
        let outputs = match self.open_outputs(&definition, &finished, task.level).await {
            Ok(outputs) => outputs,
            // Nothing names them yet.
            Err(error) => {
                self.unlink_outputs(&definition, &finished).await?;
                return Err(error);
            }
        };
        let turn = self.turn.take().await;
        match self.swap(table, epoch, &inputs, outputs).await {
            // The outputs are the data now, however the deletion of the inputs ends.
            Ok(true) => self.delete_inputs(&inputs).await,
            // The commit has changed nothing.
            unchanged @ (Ok(false) | Err(Error::DiskFull { .. })) => {
                drop(turn);
                self.unlink_outputs(&definition, &finished).await?;
                unchanged.map(drop)
            }
            Err(error) => Err(error),
        }
    }

    /// Deletes the files of views that a commit has removed. After an error the rest stay until the next start.
    async fn delete_inputs(&self, inputs: &[View]) -> Result<()> {
        let removed: Vec<ViewEntry> = inputs.iter().map(|view| view.entry).collect();
        let deleted = self.delete_files(&removed).await;
        self.space.freed();
        deleted
    }

    async fn unlink_outputs(
        &self,
        definition: &schema::Table,
        finished: &[WrittenSstable],
    ) -> Result<()> {
        for finished in finished {
            let path = layout::sstable_path(definition.id.0, finished.id.0);
            self.disk.unlink(&path).await?;
        }
        Ok(())
    }

    async fn open_outputs(
        &self,
        definition: &schema::Table,
        finished: &[WrittenSstable],
        level: u8,
    ) -> Result<Vec<View>> {
        let run = finished.first().map_or(Uuid::nil(), |first| first.id.0);
        let mut views = Vec::new();
        for finished in finished {
            let entry = ViewEntry::of_written(finished, definition.id, run, level);
            views.push(View::open(&self.disk, entry, &self.cache).await?);
        }
        Ok(views)
    }

    /// Commits the change of views and makes it seen; `false` if the table was emptied since `epoch`. After
    /// `DiskFull` everything is as it was; after any other error the manifest may name the outputs.
    async fn swap(
        &self,
        table: &Table,
        epoch: u64,
        inputs: &[View],
        outputs: Vec<View>,
    ) -> Result<bool> {
        if table.epoch() != epoch {
            return Ok(false);
        }
        let id = table.definition().id.0;
        let (gone, come) = (tokens_of(inputs), tokens_of(&outputs));
        assert!(inputs.iter().chain(&outputs).all(|view| view.entry.table == id), "of one table");
        let inside =
            |come: TokenRange| gone.is_some_and(|gone| gone.intersection(&come) == Some(come));
        assert!(come.is_none_or(inside), "what comes out was in what went in");
        let remove: Vec<ViewId> = inputs.iter().map(|view| view.entry.id()).collect();
        let add: Vec<ViewEntry> = outputs.iter().map(|view| view.entry).collect();
        let edit = Edit { remove: remove.clone(), add: add.clone(), ..Edit::default() };
        if planted(Bug::DeleteInputsEarly) {
            for view in inputs.iter().filter(|view| !view.entry.shared) {
                let path = layout::sstable_path(view.entry.table, view.entry.sstable);
                self.disk.unlink(&path).await?;
            }
        }
        self.manifest.commit(&edit).await?;
        self.counters.count(|s| {
            s.compactions += 1;
            s.compaction_bytes += add.iter().map(|view| view.file_bytes).sum::<u64>();
        });
        if table.epoch() == epoch {
            table.replace_views(&remove, outputs);
        } else {
            // Dropped during the commit.
            self.garbage.add(table.definition().id.0, add);
        }
        Ok(true)
    }

    /// Refuses a merge whose output may not fit on the disk.
    async fn check_free_space(&self, inputs: &[View]) -> Result<()> {
        let bytes: u64 = inputs.iter().map(|view| view.entry.file_bytes).sum();
        if self.disk.free_space().await?.free_bytes < bytes {
            return Err(Error::DiskFull { file: "the output of a compaction".into() });
        }
        Ok(())
    }
}

/// From the first to the last token of these views; `None` if there are none.
fn tokens_of(views: &[View]) -> Option<TokenRange> {
    let first = views.iter().map(|view| view.entry.tokens.first).min()?;
    let last = views.iter().map(|view| view.entry.tokens.last).max()?;
    Some(TokenRange { first, last })
}

/// What the strategy of a table proposes now.
fn next_plan(table: &Table, now_s: u32) -> Option<Plan> {
    plan(table, now_s, |strategy, pieces, context| strategy.propose(pieces, context))
}

/// What the strategy of a table says of its views.
fn plan(
    table: &Table,
    now_s: u32,
    ask: impl Fn(&Strategy<'_>, &[Candidate], &CompactionContext) -> Option<Task>,
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
    let context =
        CompactionContext { gc_before_s, oldest_unflushed: unflushed.min().unwrap_or(i64::MAX) };
    let piece = |view: &View| Candidate {
        shared: view.entry.shared,
        busy: table.is_in_quarantine(view.entry.id()),
        ..Candidate::of_view(
            &view.sstable,
            view.entry.tokens,
            view.entry.run,
            view.entry.level,
            &context,
        )
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

/// Nothing of the partition that is outside the merge is older than this.
fn oldest_elsewhere(table: &Table, inputs: &[View], token: Token, key: &[u8]) -> i64 {
    if planted(Bug::PurgeEarly) {
        return i64::MAX;
    }
    let layers = table.layers();
    let in_memory = layers.iter().filter_map(|layer| {
        let memtable = layer.memtable.borrow();
        memtable.get(token, key).and(memtable.oldest())
    });
    let merged = |view: &View| inputs.iter().any(|input| input.entry.id() == view.entry.id());
    let views = table.views();
    let others = views.iter().filter(|view| view.may_contain(token) && !merged(view));
    let on_disk = others.map(|view| view.sstable.statistics().oldest_timestamp);
    in_memory.chain(on_disk).min().unwrap_or(i64::MAX)
}
