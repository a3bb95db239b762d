//! A merge while it goes on: each finished fragment takes the place of what it was made of at once.
//!
//! ```text
//! inputs    f1 [a ........ z]      f1      [n .... z]      f1 is used up: unlinked
//!           f2 [a .. m]        ─►  (unlinked)          ─►
//! output                           o1 [a..m]               o1 [a..m] o2 [n ... z]
//! ```
//!
//! One adoption:
//! 1. The fragment is whole, synced and read back; it is opened.
//! 2. One edit of the manifest adds it, cuts every input at the place that comes next, and removes the inputs that
//!    have nothing behind it. Readers see the change without an await after the commit; they keep the views they took.
//! 3. Files that no view names any more are unlinked.
//!
//! A crash or an error before 2 leaves the inputs as they were cut last, and a file that no manifest names; after 2 a
//! file that nothing names. Either way every row is in one place, and what was adopted need not be merged again.
//!
//! Invariants
//! 1. A view that goes is the view that the manifest has: inputs are known here as they were cut last.
//! 2. What was truncated or dropped meanwhile is not brought back: the epoch is compared under the manifest's lock.
//! 3. A tombstone goes only if, when its partition is merged, no memtable and no view outside the merge holds anything
//!    older of it. Another view of a file that is merged is outside, too: it has other tokens, of which an input may
//!    hold tombstones. The log holds nothing of the table that is neither in memtables nor in views.
//!
//! Not here: how rows are merged (`rewrite.rs`), which files (`job.rs`).

use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::rc::Rc;

use model::{Token, TokenRange, schema};
use uuid::Uuid;

use super::merges::Progress;
use super::outside::Outside;
use super::rewrite::{MergeOwner, Rest};
use crate::cursor::FilePart;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index;
use crate::io::IoClass;
use crate::layout;
use crate::limits::SSTABLE_WRITE_BYTES;
use crate::manifest::{Edit, ViewEntry, ViewId};
use crate::pause::Pause;
use crate::planted::{Bug, planted};
use crate::space_ledger::Promise;
use crate::sstable::{Sstable, SstableId, WrittenSstable};
use crate::table::{Definition, Table, View};

/// A merge that goes on.
pub(super) struct RunningMerge<'m> {
    engine: &'m Engine,
    table: &'m Table,
    /// As it was when the merge began.
    definition: Rc<Definition>,
    epoch: u64,
    /// The level of what comes out.
    level: u8,
    /// What is still to be merged, as the manifest has it.
    inputs: RefCell<Vec<View>>,
    /// All files that went in, and then those that came out: no other merge takes them.
    files: RefCell<Vec<Uuid>>,
    /// What comes out is one run, named after its first fragment.
    run: Cell<Option<Uuid>>,
    /// The space that is promised to it, and what of it is held: written, and not freed again.
    promise: RefCell<Option<Promise>>,
    held_bytes: Cell<u64>,
    /// The newest timestamp of the inputs that have tombstones past their grace, in microseconds; `None` if none has.
    /// Only for these the pieces of filters are read that are not in memory.
    newest_due: Option<i64>,
    /// The newest timestamp of the inputs in which something is deleted or has expired, in microseconds: nothing newer
    /// is purged. `None` if they have nothing of that kind. The grace of what has expired counts from when it was
    /// written, so it may be over before the second that the statistics of a file have.
    newest_dead: Option<i64>,
    /// The files outside the merge that have the tokens that are merged now; nothing before the first.
    outside: RefCell<Option<Outside>>,
    /// Files outside the merge that certainly do not hold a token: their filters were asked.
    denied: RefCell<(Token, Vec<Uuid>)>,
    /// How far it is, for who asks.
    progress: Rc<Progress>,
    pause: &'m dyn Pause,
}

/// What becomes of the inputs when everything before a place is in fragments.
#[derive(Default)]
pub(super) struct Cut {
    /// Views that go.
    remove: Vec<View>,
    /// What is left of some of them.
    add: Vec<View>,
    /// The inputs from here on.
    pub(super) inputs: Vec<View>,
}

impl<'m> RunningMerge<'m> {
    /// A merge of these views of the table, into level `level`, which begins at second `now_s`.
    pub(super) fn new(
        engine: &'m Engine,
        table: &'m Table,
        (inputs, level): (Vec<View>, u8),
        (gc_before_s, now_s): (u32, u32),
        pause: &'m dyn Pause,
    ) -> Self {
        // A file has several views in a shard if the owners of its tokens were others before.
        let files: BTreeSet<Uuid> = inputs.iter().map(|view| view.entry.sstable).collect();
        let files: Vec<Uuid> = files.into_iter().collect();
        files.iter().for_each(|file| table.begin_merging(*file));
        let newest_where = |has_died: &dyn Fn(u32) -> bool| {
            let views = inputs.iter();
            let with_dead = views.filter(|view| has_died(view.sstable.statistics().first_death_s));
            with_dead.map(View::newest).max()
        };
        let newest_due = newest_where(&|first_s| first_s < gc_before_s);
        let newest_dead = newest_where(&|first_s| first_s <= now_s);
        let definition = table.definition();
        assert!(inputs.iter().all(|view| view.entry.table == definition.id.0), "of one table");
        let progress = engine.merges.begin(&definition, &inputs, now_s);
        RunningMerge {
            engine,
            table,
            definition,
            epoch: table.epoch(),
            level,
            inputs: RefCell::new(inputs),
            files: RefCell::new(files),
            run: Cell::new(None),
            promise: RefCell::default(),
            held_bytes: Cell::new(0),
            newest_due,
            newest_dead,
            outside: RefCell::default(),
            denied: RefCell::new((TokenRange::ALL.first, Vec::new())),
            progress,
            pause,
        }
    }

    /// What comes out is written into this space.
    pub(super) fn keep_promise(&self, promise: Promise) {
        *self.promise.borrow_mut() = Some(promise);
    }

    /// Bytes that are held beyond those that were adopted and not freed again.
    fn hold(&self, fragment_bytes: u64) {
        if let Some(promise) = &*self.promise.borrow() {
            promise.hold(self.held_bytes.get() + fragment_bytes);
        }
    }

    /// Deletes the files of views that are used up: what they free is promised to this merge again.
    async fn free(&self, used_up: &[ViewEntry]) -> Result<()> {
        // What a snapshot has is known as long as the names are there.
        let mut kept = self.engine.files_that_stay(used_up).await;
        // A file of which a view outside the merge has another part stays, too; one that had several here is one file.
        let is_named = |file: &Uuid| self.engine.manifest.state().names(*file);
        kept.extend(used_up.iter().map(|entry| entry.sstable).filter(is_named));
        let freed = used_up.iter().filter(|entry| !kept.contains(&entry.sstable));
        let freed: BTreeMap<Uuid, u64> =
            freed.map(|entry| (entry.sstable, entry.file_bytes)).collect();
        let freed_bytes = freed.values().sum();
        self.engine.delete_used(used_up).await?;
        self.held_bytes.set(self.held_bytes.get().saturating_sub(freed_bytes));
        self.hold(0);
        Ok(())
    }

    /// Whether a view is an input as it was cut last, or came out.
    fn is_merged(&self, view: &View) -> bool {
        let id = view.entry.id();
        self.run.get() == Some(view.entry.run)
            || self.inputs.borrow().iter().any(|input| input.entry.id() == id)
    }

    /// Which of these, the table's views, have a token and are outside the merge.
    fn outside(&self, token: Token, views: &Rc<[View]>) -> Ref<'_, Outside> {
        let is_known = self.outside.borrow().as_ref().is_some_and(|it| it.is_for(token, views));
        if !is_known {
            let outside = Outside::from(token, views, |view| self.is_merged(view));
            self.outside.replace(Some(outside));
        }
        Ref::map(self.outside.borrow(), |outside| outside.as_ref().expect("it was just set"))
    }

    /// Whether the filter of a file has said that it does not hold the token.
    fn is_denied(&self, token: Token, sstable: Uuid) -> bool {
        let denied = self.denied.borrow();
        denied.0 == token && denied.1.contains(&sstable)
    }

    /// The table as it was when the merge began.
    pub(super) fn definition(&self) -> &schema::Table {
        &self.definition
    }

    /// What is still to be merged, as the rewrite takes it.
    pub(super) fn to_merge(&self) -> Vec<FilePart> {
        self.inputs.borrow().iter().filter_map(View::part).collect()
    }

    /// What was not merged so far, as the manifest has it.
    pub(super) fn inputs(&self) -> Vec<View> {
        self.inputs.borrow().clone()
    }

    /// Opens a finished fragment. After an error the file is gone.
    async fn open(&self, fragment: &WrittenSstable) -> Result<View> {
        let run = self.run.get().unwrap_or(fragment.id.0);
        let entry = ViewEntry::of_written(fragment, self.definition.id, run, self.level);
        let opened = View::open(&self.engine.disk, entry.clone(), &self.engine.cache).await;
        if opened.is_err() {
            // Nothing names it yet.
            self.unlink(&entry).await?;
        }
        if let Ok(view) = &opened {
            let Engine { disk, cache, .. } = self.engine;
            view.attach_indexes(disk, cache, &self.definition).await;
        }
        self.run.set(Some(run));
        // A run is merged again when it is whole.
        self.table.begin_merging(fragment.id.0);
        self.files.borrow_mut().push(fragment.id.0);
        opened
    }

    async fn unlink(&self, entry: &ViewEntry) -> Result<()> {
        self.engine.disk.unlink(&layout::sstable_path(entry.table, entry.sstable)).await?;
        index::remove_files(&self.engine.disk, &self.definition, entry.sstable).await
    }

    /// Commits that `output` takes the place of what it was made of, and makes it seen. Gives the views that are used
    /// up; `None` if the table was emptied since the merge began, and then nothing has changed. After `DiskFull`
    /// nothing has changed either; after any other error the manifest may name the output.
    async fn commit(
        &self,
        output: Option<&View>,
        rest: Option<&Rest>,
    ) -> Result<Option<Vec<ViewEntry>>> {
        if self.table.epoch() != self.epoch {
            return Ok(None);
        }
        let cut = cut(&self.inputs.borrow(), rest);
        check(output, rest, &self.inputs.borrow());
        let remove: Vec<ViewId> = cut.remove.iter().map(|view| view.entry.id()).collect();
        let come: Vec<View> = cut.add.iter().chain(output).cloned().collect();
        let add: Vec<ViewEntry> = come.iter().map(|view| view.entry.clone()).collect();
        let is_left = |view: &&View| {
            !cut.inputs.iter().any(|input| input.entry.sstable == view.entry.sstable)
        };
        let used_up: Vec<ViewEntry> =
            cut.remove.iter().filter(is_left).map(|view| view.entry.clone()).collect();
        if planted(Bug::DeleteInputsEarly) {
            for entry in used_up.iter().filter(|entry| !entry.shared) {
                self.unlink(entry).await?;
            }
        }
        let edit = Edit { remove: remove.clone(), add: add.clone(), ..Edit::default() };
        self.engine.manifest.commit(&edit).await?;
        self.engine.counters.count(|s| {
            s.compaction_fragments += u64::from(output.is_some());
            s.compaction_bytes += output.map_or(0, |output| output.entry.file_bytes);
            s.compactions += u64::from(rest.is_none());
        });
        if let Some(output) = output {
            self.engine.untold.written(self.table, output);
        }
        *self.inputs.borrow_mut() = cut.inputs;
        self.progress.adopted(output.map_or(0, |output| output.entry.file_bytes));
        if self.table.epoch() == self.epoch {
            self.table.replace_views(&remove, come);
        } else {
            // Dropped during the commit.
            self.engine.garbage.add(self.definition.id.0, add);
        }
        Ok(Some(used_up))
    }
}

impl RunningMerge<'_> {
    /// Whether the table is another than the one that the merge was begun for.
    fn is_over(&self) -> bool {
        let options = &self.table.definition().options;
        self.table.epoch() != self.epoch || options.compaction != self.definition.options.compaction
    }
}

impl MergeOwner for RunningMerge<'_> {
    fn oldest_elsewhere(&self, token: Token, key: &[u8]) -> i64 {
        if planted(Bug::PurgeEarly) {
            return i64::MAX;
        }
        if self.table.damage.may_hold(token) {
            return i64::MIN;
        }
        // Without anything dead nothing can be purged, and no filter is asked.
        let Some(newest_dead) = self.newest_dead else { return i64::MIN };
        let layers = self.table.layers();
        let in_memory = layers.iter().filter_map(|layer| {
            let memtable = layer.memtable.borrow();
            let oldest = memtable.oldest().filter(|oldest| *oldest <= newest_dead);
            oldest.filter(|_| memtable.get(token, key).is_some())
        });
        let views = self.table.views();
        let outside = self.outside(token, &views);
        let others = outside.holders(&views).filter(|view| {
            view.sstable.statistics().oldest_timestamp <= newest_dead
                && view.may_contain(token)
                && !self.is_denied(token, view.entry.sstable)
        });
        let on_disk = others.map(|view| view.sstable.statistics().oldest_timestamp);
        in_memory.chain(on_disk).min().unwrap_or(i64::MAX)
    }

    fn name(&self) -> SstableId {
        self.engine.names.next()
    }

    async fn pause(&self) {
        self.pause.take().await;
    }

    async fn stepped(&self, merged_bytes: usize, fragment_bytes: u64) -> ControlFlow<()> {
        self.progress.step(merged_bytes);
        // What is in the writer's buffer is not on the disk yet.
        self.hold(fragment_bytes.saturating_sub(SSTABLE_WRITE_BYTES as u64));
        self.pause.take().await;
        // What is merged of a table that was emptied meanwhile would be thrown away; till then it keeps its inputs.
        let is_needless = || self.table.epoch() != self.epoch;
        if let Some(pace) = self.engine.pace.get()
            && let Some(wait) = pace.charge(merged_bytes as u64, &is_needless)
        {
            wait.await;
        }
        if is_needless() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    async fn begin_partition(&self, token: Token, sources: usize) {
        self.progress.reach(token, sources);
        let Some(newest_due) = self.newest_due else { return };
        // A filter that is not in memory says "perhaps", and tombstones would stay for it for ever.
        let unsure: Vec<(Uuid, Rc<Sstable>)> = {
            let views = self.table.views();
            let outside = self.outside(token, &views);
            let asked = outside.holders(&views).filter(|view| {
                view.sstable.statistics().oldest_timestamp <= newest_due
                    && view.sstable.is_unsure(token)
            });
            asked.map(|view| (view.entry.sstable, view.sstable.clone())).collect()
        };
        if unsure.is_empty() {
            return;
        }
        let mut denied = Vec::new();
        for (id, sstable) in unsure {
            // A piece that cannot be read says "perhaps", too.
            if matches!(sstable.denies(token, IoClass::Compaction).await, Ok(true)) {
                denied.push(id);
            }
            self.engine.counters.count(|s| s.compaction_filter_reads += 1);
            self.pause.take().await;
        }
        *self.denied.borrow_mut() = (token, denied);
    }

    async fn adopt(
        &self,
        fragment: Option<WrittenSstable>,
        rest: Option<Rest>,
    ) -> Result<ControlFlow<()>> {
        let output = match &fragment {
            Some(fragment) => Some(self.open(fragment).await?),
            None => None,
        };
        let lock = self.engine.manifest_lock.take().await;
        let committed = self.commit(output.as_ref(), rest.as_ref()).await;
        drop(lock);
        match committed {
            Ok(Some(used_up)) => {
                let written_bytes = output.map_or(0, |output| output.entry.file_bytes);
                self.held_bytes.set(self.held_bytes.get() + written_bytes);
                self.free(&used_up).await?;
                Ok(if self.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            }
            // The commit has changed nothing.
            unchanged @ (Ok(None) | Err(Error::DiskFull { .. })) => {
                if let Some(output) = output {
                    self.unlink(&output.entry).await?;
                }
                unchanged.map(|_| ControlFlow::Break(()))
            }
            Err(error) => Err(error),
        }
    }
}

impl Drop for RunningMerge<'_> {
    fn drop(&mut self) {
        self.table.end_merging(&self.files.borrow());
        let left = self.inputs.borrow();
        let is_done = left.is_empty() || self.is_over();
        self.engine.merges.end(&self.progress, is_done.then_some(&**left));
    }
}

/// Cuts views at `rest`: what is before it goes. `None` is behind everything.
pub(super) fn cut(inputs: &[View], rest: Option<&Rest>) -> Cut {
    let Some(rest) = rest else { return Cut { remove: inputs.to_vec(), ..Cut::default() } };
    let skipped = i64::from(planted(Bug::TrimTooFar));
    let behind = TokenRange { first: Token(rest.token.0 + skipped), last: TokenRange::ALL.last };
    let mut cut = Cut::default();
    for view in inputs {
        // What an earlier merge has cut further on stays so: what it has purged would be there again.
        let is_untouched = |all: TokenRange| {
            !rest.is_behind(all.first) || begins_behind(view, rest) || is_all_behind(view, rest)
        };
        if view.overlap(&TokenRange::ALL).is_none_or(is_untouched) {
            cut.inputs.push(view.clone());
            continue;
        }
        cut.remove.push(view.clone());
        // All that a file had of the token may be before the place.
        let has_more = |tokens: &TokenRange| {
            let file = &view.entry.sstable;
            tokens.last > rest.token || rest.inside.is_none() || rest.files.contains(file)
        };
        if let Some(tokens) = view.overlap(&behind).filter(has_more) {
            let begin = rest.inside.clone().filter(|_| tokens.first == rest.token);
            let left =
                View { entry: ViewEntry { tokens, begin, ..view.entry.clone() }, ..view.clone() };
            cut.add.push(left.clone());
            cut.inputs.push(left);
        }
    }
    cut
}

/// Whether a view begins where the rest does, or further on in the partitions of its token.
fn begins_behind(view: &View, rest: &Rest) -> bool {
    let places = view.begin_at(rest.token).zip(rest.inside.as_ref());
    places.is_some_and(|(own, rest)| own >= rest)
}

/// Whether a view has one partition, in which all of it lies behind the rest: to cut it there would say nothing, and
/// the later fragments of a run would change at every adoption.
fn is_all_behind(view: &View, rest: &Rest) -> bool {
    let Some(place) = &rest.inside else { return false };
    view.sstable.statistics().tokens.first == rest.token
        && view.sstable.only_key() == Some(&place.key)
        && view.sstable.is_plain_from(&place.position)
}

/// What comes out was in what went in, and before what is left.
fn check(output: Option<&View>, rest: Option<&Rest>, inputs: &[View]) {
    let Some(tokens) = output.map(|output| output.entry.tokens) else { return };
    let first = inputs.iter().map(|view| view.entry.tokens.first).min();
    let last = inputs.iter().map(|view| view.entry.tokens.last).max();
    assert!(first.is_some_and(|first| first <= tokens.first), "it was in what went in");
    assert!(last.is_some_and(|last| tokens.last <= last), "it was in what went in");
    assert!(rest.is_none_or(|rest| rest.is_behind(tokens.last)), "it is before what is left");
}
