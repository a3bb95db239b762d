//! One table of a shard: the memtable that takes writes, those that wait to be flushed, the sstables.
//!
//! ```text
//! writes ─► layers [ sealed … | active ] ─(flush, oldest first)─► views of sstables
//! ```
//!
//! 1. What a reader sees are these together. A reader takes them at once and keeps what it took, so what happens
//!    during its waits takes nothing from it.
//! 2. A table costs nothing but this entry until its first write.
//! 3. A layer knows where in the log its oldest record begins: while it lives, the log keeps that.
//! 4. Layers are flushed in order, so what the manifest says is flushed of a table is a prefix of its records.

use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use model::mutation::MutationRef;
use model::schema::{self, ColumnDrops};
use model::{TableId, Token, TokenRange, read};
use uuid::Uuid;

use crate::backoff::Backoff;
use crate::cache::BlockCache;
use crate::commitlog::Position;
use crate::compaction::EvaluationTimer;
use crate::cursor::{FilePart, lanes_of};
use crate::cut::CutCell;
use crate::damage::{Damage, DamageKind, DamagedView};
use crate::error::{Error, Result};
use crate::flush_estimate::FlushEstimate;
use crate::index::IndexState;
use crate::io::Disk;
use crate::layout;
use crate::limits::{LOOKUP_AHEAD_BYTES, SCAN_BYTES, lane_read_bytes};
use crate::manifest::{ViewBegin, ViewEntry, ViewId};
use crate::memtable::{Memtable, Removals};
use crate::overwriting::Overwriting;
use crate::row_lengths::RowLengths;
use crate::schema_memory::DefinitionCosts;
use crate::sstable::{FileDigest, Sstable, SstableId, SstableIdentity};
use crate::truncations::Truncations;
use crate::views::ViewsOfBase;

/// A memtable that readers may hold while it changes or goes.
pub(crate) type SharedMemtable = Rc<RefCell<Memtable>>;

/// Disjoint parts of files, in the order of their tokens.
#[derive(Debug)]
pub(crate) struct FileLane {
    pub(crate) parts: Rc<[FilePart]>,
    /// About the bytes of the longest row of these files.
    long_row_bytes: usize,
}

impl FileLane {
    fn new(parts: Vec<FilePart>) -> FileLane {
        let longest = parts.iter().map(|part| part.sstable.statistics().long_row_bytes()).max();
        let long_row_bytes = usize::try_from(longest.unwrap_or(0)).unwrap_or(usize::MAX);
        FileLane { parts: parts.into(), long_row_bytes }
    }
}

/// One table's data.
#[derive(Debug)]
pub(crate) struct Table {
    /// Shared within the shard, so that a read does not touch a counter that other cores touch.
    /// Shared with the schema, and so with all shards: 10,000 tables have one definition each, not one a shard.
    definition: RefCell<Rc<Definition>>,
    /// What the definition's dropped columns took with them.
    drops: RefCell<Rc<ColumnDrops>>,
    /// The materialized views of the table.
    materialized: RefCell<ViewsOfBase>,
    has_materialized: Cell<bool>,
    /// What the definition takes in memory, and to write a file of the table.
    costs: Cell<DefinitionCosts>,
    /// Memtables, oldest first; the last takes writes unless it is sealed.
    layers: RefCell<Vec<Layer>>,
    /// Parts of sstables, the newest data first.
    views: RefCell<Rc<[View]>>,
    /// How many sorted runs these are pieces of.
    runs: Cell<usize>,
    /// The same as few lanes, for who goes through a range of tokens; made when it is asked for.
    lanes: RefCell<Option<Rc<[FileLane]>>>,
    /// How often the table was truncated or dropped: what was begun before is not wanted any more.
    epoch: Cell<u64>,
    /// A flush is under way.
    pub(crate) flushing: Cell<bool>,
    /// It is in the list of tables that hold something in memory (`tables.rs`).
    pub(crate) is_listed: Cell<bool>,
    /// Failures of flushes.
    pub(crate) flush_backoff: Backoff,
    /// What the job that makes index files knows.
    pub(crate) index_state: IndexState,
    /// Failures of compactions.
    pub(crate) compact_backoff: Backoff,
    /// Failures to remove files in which nothing is alive.
    pub(crate) drop_backoff: Backoff,
    /// How much of what is written to it is of rows that are there already.
    pub(crate) overwriting: Overwriting,
    /// How long the file of its next flush becomes.
    pub(crate) flush_estimate: FlushEstimate,
    /// When its backlog is to be evaluated again.
    pub(crate) evaluation: EvaluationTimer,
    /// Files that are being merged, and those that come out.
    merging: RefCell<BTreeSet<Uuid>>,
    /// Files that cannot be opened, read or merged.
    pub(crate) damage: Damage,
    /// Files that no compaction can merge: they stay as they are, and are read.
    quarantine: RefCell<Vec<ViewId>>,
    /// To where it is to be truncated.
    pub(crate) cut: CutCell,
    pub(crate) truncations: Truncations,
    /// Writes are refused: the table is about to leave the schema.
    pub(crate) closed: Cell<bool>,
    /// It has left the schema, and has nothing any more: a read that is under way must not take that for its end.
    pub(crate) is_gone: Cell<bool>,
    /// How long its rows may be.
    pub(crate) row_lengths: RowLengths,
}

/// A memtable and its hold on the log.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// The rows of the layer.
    pub(crate) memtable: SharedMemtable,
    /// Its oldest record begins here.
    pub(crate) since: Position,
    /// Its newest record ends here.
    pub(crate) until: Position,
    /// It takes no more and waits to be flushed.
    pub(crate) sealed: bool,
}

/// Memory of a memtable before and after a change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grown {
    pub(crate) before: usize,
    pub(crate) after: usize,
}

/// The part of an sstable that is this shard's.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// What the manifest says.
    pub(crate) entry: ViewEntry,
    /// The open file.
    pub(crate) sstable: Rc<Sstable>,
}

impl View {
    /// Opens the file of a view that the manifest names, or is going to name.
    pub(crate) async fn open(
        disk: &Disk,
        entry: ViewEntry,
        cache: &Rc<BlockCache>,
    ) -> Result<View> {
        let (file_bytes, footer_checksum) = (entry.file_bytes, entry.footer_checksum);
        let proof = FileDigest { file_bytes, footer_checksum };
        let (id, table) = (SstableId(entry.sstable), TableId(entry.table));
        let known = SstableIdentity { id, table, proof };
        let sstable =
            Sstable::open(disk, &layout::table_dir(entry.table), known, cache, entry.tokens)
                .await?;
        Ok(View { entry, sstable })
    }

    /// Whether the view may hold a partition with this token.
    #[inline]
    pub(crate) fn may_contain(&self, token: Token) -> bool {
        self.entry.tokens.contains(token) && self.sstable.may_contain(token)
    }

    /// How many rows of it are large by themselves.
    pub(crate) fn large_rows(&self) -> u64 {
        self.sstable.statistics().large_rows.len() as u64
    }

    /// The tokens of `range` that the view may hold; `None` if there are none.
    pub(crate) fn overlap(&self, range: &TokenRange) -> Option<TokenRange> {
        self.entry.tokens.intersection(range)?.intersection(&self.sstable.statistics().tokens)
    }

    /// What is read of the file, if it has anything there.
    pub(crate) fn part(&self) -> Option<FilePart> {
        let tokens = self.overlap(&TokenRange::ALL)?;
        let (sstable, run) = (self.sstable.clone(), self.entry.run);
        let begin = self.begin_at(tokens.first).cloned();
        Some(FilePart { sstable, tokens, run, begin })
    }

    /// Where inside the partitions of this token the view begins, if it does.
    #[inline]
    pub(crate) fn begin_at(&self, token: Token) -> Option<&Arc<ViewBegin>> {
        self.entry.begin.as_ref().filter(|_| self.entry.tokens.first == token)
    }

    /// Whether the view begins inside the partition of this key, behind the last of these slices of it.
    pub(crate) fn begins_behind(&self, token: Token, key: &[u8], slices: &[read::Slice]) -> bool {
        let begin = self.begin_at(token).filter(|begin| *begin.key == *key);
        begin.zip(slices.last()).is_some_and(|(begin, last)| *last.end <= *begin.position)
    }

    /// The newest write timestamp in the view, in microseconds.
    #[inline]
    pub(crate) fn newest(&self) -> i64 {
        self.sstable.statistics().newest_timestamp
    }
}

/// Bytes of the files of these views of a table. A file of which a shard has several parts counts once.
pub(crate) fn file_bytes<'v>(views: impl Iterator<Item = &'v View>) -> u64 {
    let files: BTreeMap<Uuid, u64> =
        views.map(|view| (view.entry.sstable, view.entry.file_bytes)).collect();
    files.values().sum()
}

/// What the schema says of a table: the schema's own value, counted here without atomics.
#[derive(Debug)]
pub(crate) struct Definition(Arc<schema::Table>);

impl Definition {
    /// The schema's own value.
    pub(crate) fn shared(&self) -> &Arc<schema::Table> {
        &self.0
    }
}

impl Deref for Definition {
    type Target = schema::Table;

    #[inline]
    fn deref(&self) -> &schema::Table {
        &self.0
    }
}

impl Table {
    /// A table without data.
    pub(crate) fn new(definition: &Arc<schema::Table>) -> Self {
        let index_state = IndexState::default();
        // A start does not know what was dropped before it.
        index_state.has_dropped.set(definition.next_index() > 0);
        Table {
            definition: RefCell::new(Rc::new(Definition(definition.clone()))),
            drops: RefCell::new(Rc::new(ColumnDrops::of(definition))),
            materialized: RefCell::new(Rc::new([])),
            has_materialized: Cell::new(false),
            costs: Cell::new(DefinitionCosts::of(definition)),
            layers: RefCell::default(),
            views: RefCell::new(Rc::new([])),
            runs: Cell::new(0),
            lanes: RefCell::default(),
            epoch: Cell::new(0),
            flushing: Cell::new(false),
            is_listed: Cell::new(false),
            flush_backoff: Backoff::default(),
            index_state,
            compact_backoff: Backoff::default(),
            drop_backoff: Backoff::default(),
            overwriting: Overwriting::default(),
            flush_estimate: FlushEstimate::default(),
            evaluation: EvaluationTimer::default(),
            merging: RefCell::default(),
            damage: Damage::default(),
            quarantine: RefCell::default(),
            cut: CutCell::default(),
            truncations: Truncations::default(),
            closed: Cell::new(false),
            is_gone: Cell::new(false),
            row_lengths: RowLengths::default(),
        }
    }

    /// A table that is one memtable and nothing else.
    pub(crate) fn of_memtable(memtable: Memtable, definition: &schema::Table) -> Self {
        let table = Table::new(&Arc::new(definition.clone()));
        let memtable = Rc::new(RefCell::new(memtable));
        let layer = Layer { memtable, since: Position::ZERO, until: Position::ZERO, sealed: false };
        table.layers.borrow_mut().push(layer);
        table
    }

    /// What its definition costs.
    pub(crate) fn costs(&self) -> DefinitionCosts {
        self.costs.get()
    }

    /// What the schema says of it.
    #[inline]
    pub(crate) fn definition(&self) -> Rc<Definition> {
        self.definition.borrow().clone()
    }

    /// Which cells went with their columns.
    #[inline]
    pub(crate) fn drops(&self) -> Rc<ColumnDrops> {
        self.drops.borrow().clone()
    }

    /// Its materialized views.
    pub(crate) fn materialized(&self) -> ViewsOfBase {
        self.materialized.borrow().clone()
    }

    /// Whether it has materialized views: each write asks.
    #[inline]
    pub(crate) fn has_materialized(&self) -> bool {
        self.has_materialized.get()
    }

    /// The schema says that these are its materialized views.
    pub(crate) fn set_materialized(&self, views: Vec<Rc<Definition>>) {
        let before = self.materialized();
        if before.len() == views.len() && before.iter().zip(&views).all(|(a, b)| Rc::ptr_eq(a, b)) {
            return;
        }
        self.truncations.has_other_views();
        self.has_materialized.set(!views.is_empty());
        self.materialized.replace(views.into());
    }

    /// The schema says something else now.
    pub(crate) fn set_definition(&self, definition: &Arc<schema::Table>) {
        let before = self.definition();
        assert_eq!(before.id, definition.id, "a table keeps its id");
        // A change of the schema leaves the other tables' definitions as they are: nothing to compare.
        if Arc::ptr_eq(&before.0, definition) {
            return;
        }
        *self.definition.borrow_mut() = Rc::new(Definition(definition.clone()));
        self.costs.set(DefinitionCosts::of(definition));
        self.follow_indexes(&before, definition);
        if *before.0 != **definition {
            *self.drops.borrow_mut() = Rc::new(ColumnDrops::of(definition));
            self.evaluation.changed();
        }
    }

    /// Indexes have come or gone. A memtable that began before one of them is flushed soon.
    fn follow_indexes(&self, before: &schema::Table, after: &schema::Table) {
        self.index_state.settled.set(None);
        let is_new = |index: &schema::Index| before.index_by_id(index.id).is_none();
        if after.indexes().iter().any(is_new) {
            self.seal();
        }
        for gone in before.indexes().iter().filter(|index| after.index_by_id(index.id).is_none()) {
            self.index_state.has_dropped.set(true);
            self.views().iter().for_each(|view| view.sstable.detach(gone.id));
        }
    }

    /// Takes in a change that the log holds from `start` to `end`; the memory of the memtable before and after.
    pub(crate) fn apply(
        &self,
        mutation: &MutationRef<'_>,
        start: Position,
        end: Position,
    ) -> Grown {
        self.apply_within(mutation, (start, end), &mut Removals::new())
    }

    /// The same as a part of a step. A tombstone may free some memory.
    pub(crate) fn apply_within(
        &self,
        mutation: &MutationRef<'_>,
        (start, end): (Position, Position),
        removals: &mut Removals,
    ) -> Grown {
        let mut layers = self.layers.borrow_mut();
        if layers.last().is_none_or(|layer| layer.sealed) {
            let sealed = layers.last().map_or(Position::ZERO, |layer| layer.until);
            assert!(sealed <= start, "a layer begins where the sealed one ended, or later");
            let memtable = Memtable::of_table(&self.definition.borrow());
            let memtable = Rc::new(RefCell::new(memtable));
            layers.push(Layer { memtable, since: start, until: end, sealed: false });
        }
        let layer = layers.last_mut().expect("it was just pushed");
        assert!(layer.until <= end, "records are applied in the order of the log");
        layer.until = end;
        let mut memtable = layer.memtable.borrow_mut();
        let before = memtable.bytes();
        memtable.insert_within(mutation, removals);
        memtable.note_terms(&self.definition.borrow(), mutation);
        self.row_lengths.grew(memtable.largest_row());
        Grown { before, after: memtable.bytes() }
    }

    /// Looks at the memtables, oldest first.
    #[inline]
    pub(crate) fn layers(&self) -> Ref<'_, [Layer]> {
        Ref::map(self.layers.borrow(), Vec::as_slice)
    }

    /// The parts of sstables, the newest data first.
    #[inline]
    pub(crate) fn views(&self) -> Rc<[View]> {
        self.views.borrow().clone()
    }

    /// How many sorted runs the views are pieces of.
    pub(crate) fn runs(&self) -> usize {
        self.runs.get()
    }

    /// All views in as few lanes as can be.
    pub(crate) fn lanes(&self) -> Rc<[FileLane]> {
        let make = || {
            let views = self.views();
            lanes_of(views.iter().filter_map(View::part)).into_iter().map(FileLane::new).collect()
        };
        self.lanes.borrow_mut().get_or_insert_with(make).clone()
    }

    /// What a scan of all lanes is counted with, in bytes. A block has at least one row, however long.
    pub(crate) fn scan_bytes(&self) -> usize {
        let block_bytes = self.definition().options.compression.chunk_bytes();
        let of_lane = |lane: &FileLane| lane_read_bytes(block_bytes.max(lane.long_row_bytes));
        self.lanes().iter().map(of_lane).fold(SCAN_BYTES, usize::saturating_add)
    }

    /// What a lookup is counted with, in bytes: it gives one row at a time.
    pub(crate) fn lookup_bytes(&self) -> usize {
        let longest = self.lanes().iter().map(|lane| lane.long_row_bytes).max().unwrap_or(0);
        longest.saturating_mul(2).saturating_add(LOOKUP_AHEAD_BYTES)
    }

    /// Bytes of the memtable that takes writes.
    pub(crate) fn active_bytes(&self) -> usize {
        let layers = self.layers.borrow();
        let active = layers.last().filter(|layer| !layer.sealed);
        active.map_or(0, |layer| layer.memtable.borrow().bytes())
    }

    /// Bytes of its oldest memtable.
    pub(crate) fn oldest_bytes(&self) -> usize {
        self.layers.borrow().first().map_or(0, |layer| layer.memtable.borrow().bytes())
    }

    /// Bytes of all memtables.
    pub(crate) fn memtable_bytes(&self) -> usize {
        self.layers.borrow().iter().map(|layer| layer.memtable.borrow().bytes()).sum()
    }

    /// Where in the log the oldest record begins that no sstable of this table has; `None` if all are flushed.
    pub(crate) fn since(&self) -> Option<Position> {
        self.layers.borrow().first().map(|layer| layer.since)
    }

    /// The same once the oldest layer is flushed.
    pub(crate) fn since_after_flush(&self) -> Option<Position> {
        self.layers.borrow().get(1).map(|layer| layer.since)
    }

    /// Whether a layer takes no more and waits to be flushed.
    pub(crate) fn has_sealed(&self) -> bool {
        self.layers.borrow().first().is_some_and(|layer| layer.sealed)
    }

    /// How often the table was truncated or dropped.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// Ends the taking of writes by the layer that takes them: the next write begins another.
    pub(crate) fn seal(&self) {
        if let Some(layer) = self.layers.borrow_mut().last_mut() {
            layer.sealed = true;
        }
    }

    /// The layer to be flushed next, sealed.
    pub(crate) fn oldest_sealed(&self) -> Option<Layer> {
        let mut layers = self.layers.borrow_mut();
        let layer = layers.first_mut()?;
        layer.sealed = true;
        Some(layer.clone())
    }

    /// The oldest layer is in a view now, or had nothing in it: how many bytes of memory that frees.
    pub(crate) fn flushed(&self, layer: &Layer, view: Option<View>) -> usize {
        let oldest = self.layers.borrow_mut().remove(0);
        assert!(Rc::ptr_eq(&oldest.memtable, &layer.memtable), "layers are flushed in order");
        assert!(oldest.sealed, "a layer is flushed when it takes no more writes");
        self.flush_estimate.forget_refusal();
        if let Some(view) = &view {
            self.cut.flushed(view);
        }
        // Without a view, too: reads that hold the layer see that the table has others now.
        self.replace_views(&[], view);
        oldest.memtable.borrow().bytes()
    }

    /// Views go and come.
    pub(crate) fn replace_views(&self, remove: &[ViewId], add: impl IntoIterator<Item = View>) {
        let before = self.views();
        let stay = before.iter().filter(|view| !remove.contains(&view.entry.id())).cloned();
        let mut views: Vec<View> = stay.collect();
        assert_eq!(views.len() + remove.len(), before.len(), "every view that goes was there");
        views.extend(add);
        views.sort_by_key(|view| (std::cmp::Reverse(view.newest()), view.entry.id()));
        self.set_views(views.into());
        self.look_at_row_lengths();
    }

    /// The files of indexes that were dropped while others were made are to be removed, too.
    pub(crate) fn forget_dropped_indexes(&self, views: &[View]) {
        let definition = self.definition();
        for view in views {
            let attached: Vec<_> = view.sstable.indexes().iter().map(|file| file.index()).collect();
            let is_gone = |id: &&schema::IndexId| definition.index_by_id(**id).is_none();
            for id in attached.iter().filter(is_gone) {
                view.sstable.detach(*id);
                self.index_state.has_dropped.set(true);
            }
        }
    }

    fn set_views(&self, views: Rc<[View]>) {
        self.forget_dropped_indexes(&views);
        let runs: BTreeSet<Uuid> = views.iter().map(|view| view.entry.run).collect();
        self.runs.set(runs.len());
        self.evaluation.changed();
        self.damage.keep_notes_of(&views);
        self.quarantine.borrow_mut().retain(|id| views.iter().any(|view| view.entry.id() == *id));
        *self.views.borrow_mut() = views;
        self.index_state.settled.set(None);
        *self.lanes.borrow_mut() = None;
    }

    fn look_at_row_lengths(&self) {
        let largest = self.layers().iter().map(|layer| layer.memtable.borrow().largest_row()).max();
        self.row_lengths.look(largest.unwrap_or(0), &self.views());
    }

    /// Leaves a file alone from now on: it cannot be merged, as `error` said at this second.
    pub(crate) fn put_in_quarantine(&self, entry: ViewEntry, error: &Error, now_s: u32) {
        assert!(!self.is_in_quarantine(entry.id()), "what is in quarantine is not merged");
        self.quarantine.borrow_mut().push(entry.id());
        let (kind, error) = (DamageKind::Unmergeable, error.clone());
        self.damage.note(DamagedView { entry, kind, error, since_s: Some(now_s) });
        self.evaluation.changed();
    }

    /// Whether compactions leave a file alone.
    pub(crate) fn is_in_quarantine(&self, id: ViewId) -> bool {
        self.quarantine.borrow().contains(&id)
    }

    /// A file takes part in a merge from now on: another one leaves it alone.
    pub(crate) fn begin_merging(&self, sstable: Uuid) {
        let is_new = self.merging.borrow_mut().insert(sstable);
        assert!(is_new, "a file is in one merge at a time");
        self.evaluation.changed();
    }

    /// The merge of these files is over.
    pub(crate) fn end_merging(&self, sstables: &[Uuid]) {
        let mut merging = self.merging.borrow_mut();
        merging.retain(|sstable| !sstables.contains(sstable));
        drop(merging);
        self.evaluation.changed();
    }

    /// Whether a file takes part in a merge.
    pub(crate) fn is_merging(&self, sstable: Uuid) -> bool {
        self.merging.borrow().contains(&sstable)
    }

    /// Whether any file does.
    pub(crate) fn is_any_merging(&self) -> bool {
        !self.merging.borrow().is_empty()
    }

    /// Throws away these layers, and all views; how many bytes of memory that frees.
    pub(crate) fn clear(&self, dropped: &[Layer]) -> usize {
        self.cut.end();
        self.keep(dropped, Rc::new([]))
    }

    /// Throws away these layers, and all views but `stay`; how many bytes of memory that frees.
    pub(crate) fn keep(&self, dropped: &[Layer], stay: Rc<[View]>) -> usize {
        self.epoch.set(self.epoch.get() + 1);
        self.damage.set_unopened([]);
        self.overwriting.base_bytes.set(0);
        self.flush_estimate.forget_refusal();
        self.set_views(stay);
        let mut freed = 0;
        self.layers.borrow_mut().retain(|layer| {
            let goes = dropped.iter().any(|victim| Rc::ptr_eq(&victim.memtable, &layer.memtable));
            if goes {
                freed += layer.memtable.borrow().bytes();
            }
            !goes
        });
        self.look_at_row_lengths();
        freed
    }
}
