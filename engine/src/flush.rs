//! From memory to disk: a sealed memtable becomes an sstable, and only then the log may forget it.
//!
//! ```text
//! seal ─► write, sync, read back ─► open ─► (durable in the log?) ─► manifest ─► swap ─► the log is freed
//!         one memtable after the other                               one edit for all
//! ```
//!
//! Where many tables hold a little each, some of them are flushed together: they share an edit of the manifest.
//!
//! 1. Until the manifest names the file, the memtable and the log keep everything. A failure before the commit and a
//!    full disk remove the file. After a failed log or manifest it stays until the next start: the manifest may name
//!    it.
//! 2. The swap happens without an await after the commit: a reader finds the rows in the memtable or in the sstable,
//!    never in neither.
//! 3. What was truncated or dropped meanwhile is not brought back: the epoch is compared under the manifest's lock.
//! 4. A table is flushed by one task at a time (`Table::flushing`).
//! 5. If the disk is full when at least one of several tables is written, those are committed. The table that met it
//!    loses its file and keeps its memtable; those after it are not begun. The flush counts as a success.

use std::collections::BTreeSet;
use std::rc::Rc;

use model::row::{Purge, compact};
use model::schema::{self, ColumnDrops};
use model::{Deletion, TokenRange};

use crate::cache::BlockCache;
use crate::commitlog::Position;
use crate::cursor::{Cursor, Fragment, Scope, Slice, Span};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index;
use crate::io::Disk;
use crate::layout;
use crate::limits::{JOB_ENTRY_COST_BYTES, JOB_STEP_BYTES};
use crate::manifest::{Edit, ViewEntry};
use crate::memtable::MemtableCursor;
use crate::overwriting::FlushSample;
use crate::pause::Pause;
use crate::space_ledger::Promise;
use crate::sstable::{SstableId, Writer, WriterConfig};
use crate::table::{Definition, Layer, Table, View};

/// What a memtable is written to: a file of this name, of a table of this definition.
pub(crate) struct FlushTarget<'e> {
    pub(crate) disk: &'e Disk,
    pub(crate) cache: &'e Rc<BlockCache>,
    pub(crate) definition: &'e schema::Table,
    pub(crate) id: SstableId,
    /// The time, in seconds since 1970.
    pub(crate) now_s: u32,
    /// The space that it was promised; `None` where nothing else writes.
    pub(crate) space: Option<FlushSpace<'e>>,
    /// Takes rows of the layer, if it is to be known what they overwrite.
    pub(crate) sample: Option<&'e FlushSample>,
}

/// The space that is promised to a flush of several tables.
#[derive(Clone, Copy)]
pub(crate) struct FlushSpace<'e> {
    engine: &'e Engine,
    promise: &'e Promise,
    /// Bytes of the files that the flush has written already.
    written_bytes: u64,
}

/// The oldest layer of a table, which was written to a file.
struct Flushed<'t> {
    table: &'t Table,
    /// The epoch of the table when the flush began.
    epoch: u64,
    layer: Layer,
    id: SstableId,
    definition: Rc<Definition>,
    /// `None` if the layer says nothing.
    view: Option<View>,
    sample: Option<FlushSample>,
}

impl Engine {
    /// Writes the oldest layer of each of these tables to an sstable: of all, or as far as there is space for them.
    pub(crate) async fn flush<'t>(
        &self,
        tables: &'t [Rc<Table>],
        promise: &Promise,
        now_s: u32,
        pause: &dyn Pause,
    ) -> Result<()> {
        let mut flushed = Vec::with_capacity(tables.len());
        let written = self.write_oldest_of(tables, &mut flushed, (promise, now_s), pause).await;
        // The files are not among the views yet.
        let taken =
            |of: &mut Flushed<'t>| Some((of.table, of.epoch, of.table.views(), of.sample.take()?));
        let samples: Vec<_> = flushed.iter_mut().filter_map(taken).collect();
        let (result, may_be_named) = match written {
            Err(error) => (Err(error), false),
            Ok(()) => {
                let committed = self.commit_flush(&mut flushed).await;
                // Committed, the views that are left are of tables that were emptied.
                let may_be_named = committed.as_ref().is_err_and(Error::may_be_committed);
                (committed, may_be_named)
            }
        };
        if !may_be_named {
            for flushed in flushed.iter().filter(|flushed| flushed.view.is_some()) {
                self.target(&flushed.definition, flushed.id).remove().await?;
            }
        }
        drop(flushed);
        self.free_memtables(pause).await;
        result?;
        for (table, epoch, older, sample) in samples {
            self.flush_was_sampled(table, epoch, older, sample);
        }
        Ok(())
    }

    /// Writes the oldest layers to files that no manifest names yet, as far as there is space for them.
    async fn write_oldest_of<'t>(
        &self,
        tables: &'t [Rc<Table>],
        flushed: &mut Vec<Flushed<'t>>,
        (promise, now_s): (&Promise, u32),
        pause: &dyn Pause,
    ) -> Result<()> {
        let mut written_bytes = 0;
        for table in tables {
            let space = FlushSpace { engine: self, promise, written_bytes };
            match self.write_oldest(table, (space, now_s), pause).await {
                Ok(Some(written)) => {
                    written_bytes += written.view.as_ref().map_or(0, |view| view.entry.file_bytes);
                    promise.hold(written_bytes);
                    flushed.push(written);
                }
                Ok(None) => {}
                Err(Error::DiskFull { .. }) if !flushed.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes the oldest layer of a table, if one is sealed, and notes what its file took. After an error there is no
    /// file.
    async fn write_oldest<'t>(
        &self,
        table: &'t Table,
        (space, now_s): (FlushSpace<'_>, u32),
        pause: &dyn Pause,
    ) -> Result<Option<Flushed<'t>>> {
        let Some(layer) = table.oldest_sealed() else { return Ok(None) };
        let (epoch, definition, id) = (table.epoch(), table.definition(), self.names.next());
        let FlushSpace { promise, written_bytes, .. } = space;
        // The tables before it may have taken more than was thought.
        self.flush_holds(promise, written_bytes).await?;
        let sample = FlushSample::of(table, &layer, self.sampled_bytes_min.get());
        let rest = self.target(&definition, id);
        let target = FlushTarget { space: Some(space), now_s, sample: sample.as_ref(), ..rest };
        let written = target.write_layer(&layer, pause).await;
        let memory_bytes = layer.memtable.borrow().bytes();
        match &written {
            Ok(Some(view)) => {
                table.flush_estimate.was_flushed(view.entry.file_bytes, memory_bytes);
            }
            Err(Error::DiskFull { .. }) if has_layer(table, &layer) => {
                let file_bytes = promise.held_bytes().saturating_sub(written_bytes);
                table.flush_estimate.was_refused(file_bytes, memory_bytes);
            }
            _ => {}
        }
        let view = written?;
        Ok(Some(Flushed { table, epoch, layer, id, definition, view, sample }))
    }

    /// Makes the views take the layers' places, and takes them out; those of tables that were emptied meanwhile stay.
    async fn commit_flush(&self, flushed: &mut [Flushed<'_>]) -> Result<()> {
        let until = flushed.iter().map(|flushed| flushed.layer.until).max();
        self.until_durable(until.unwrap_or(Position::ZERO)).await?;
        let _lock = self.manifest_lock.take().await;
        let is_there = |flushed: &&mut Flushed<'_>| flushed.table.epoch() == flushed.epoch;
        let mut flushed: Vec<_> = flushed.iter_mut().filter(is_there).collect();
        if flushed.is_empty() {
            return Ok(());
        }
        let members: BTreeSet<*const Table> =
            flushed.iter().map(|flushed| std::ptr::from_ref(flushed.table)).collect();
        let position =
            self.flushed_with(|table| match members.contains(&std::ptr::from_ref(table)) {
                true => table.since_after_flush(),
                false => table.since(),
            });
        let views = flushed.iter().filter_map(|flushed| flushed.view.as_ref());
        let replayed_from = flushed.iter().map(|f| (f.definition.id.0, f.layer.until));
        let edit = Edit {
            add: views.map(|view| view.entry.clone()).collect(),
            flushed: Some(position),
            replayed_from: replayed_from.collect(),
            ..Edit::default()
        };
        let durable = self.log.positions().durable;
        assert!(until <= Some(durable), "the log is durable before what it led to is named");
        self.manifest.commit(&edit).await?;
        flushed.iter_mut().for_each(|flushed| self.swap(flushed));
        self.log.mark_flushed(position);
        self.log_space.freed();
        Ok(())
    }

    /// The manifest names the view: it takes the layer's place.
    fn swap(&self, flushed: &mut Flushed<'_>) {
        let Flushed { table, epoch, ref layer, ref mut view, .. } = *flushed;
        let view = view.take();
        self.counters.count(|s| {
            s.flushes += 1;
            s.large_rows += view.as_ref().map_or(0, View::large_rows);
            s.flush_bytes += view.as_ref().map_or(0, |view| view.entry.file_bytes);
        });
        if let Some(view) = &view {
            self.untold.written(table, view);
        }
        if table.epoch() == epoch {
            self.budget.memtables_shrank(table.flushed(layer, view));
            // Its readers keep it until they are done.
            self.garbage.add_memtables([layer.memtable.clone()].into_iter());
        } else {
            // Dropped during the commit.
            let gone = view.map(|view| view.entry.clone());
            gone.into_iter().for_each(|view| self.garbage.add(view.table, vec![view]));
        }
    }

    fn target<'e>(&'e self, definition: &'e schema::Table, id: SstableId) -> FlushTarget<'e> {
        FlushTarget {
            disk: &self.disk,
            cache: &self.cache,
            definition,
            id,
            now_s: 0,
            space: None,
            sample: None,
        }
    }

    /// The position up to which every record is in an sstable, or of a table that is gone.
    pub(crate) fn flushed_now(&self) -> Position {
        self.flushed_with(Table::since)
    }

    /// The position up to which every record is in an sstable, if `since` says where the oldest record begins that a
    /// table's memtables hold.
    pub(crate) fn flushed_with(&self, since: impl Fn(&Table) -> Option<Position>) -> Position {
        let tables = self.tables.unflushed();
        let held = tables.iter().filter_map(|(_, table)| since(table));
        let waiting = self.writes.start();
        let positions = self.log.positions();
        let oldest = held.chain(waiting).fold(positions.durable, Position::min);
        assert!(oldest >= positions.flushed, "what is flushed stays flushed");
        oldest
    }
}

/// Whether the table has the layer: it may have been emptied meanwhile.
fn has_layer(table: &Table, layer: &Layer) -> bool {
    table.layers().iter().any(|other| Rc::ptr_eq(&other.memtable, &layer.memtable))
}

impl FlushTarget<'_> {
    /// Writes a layer, and opens what was written; `None` if it says nothing. After an error there is no file.
    pub(crate) async fn write_layer(
        &self,
        layer: &Layer,
        pause: &dyn Pause,
    ) -> Result<Option<View>> {
        assert!(layer.sealed, "a layer takes no more writes while it is written out");
        let dir = layout::table_dir(self.definition.id.0);
        self.disk.mkdir(&dir).await?;
        self.disk.sync_dir(&layout::tables_dir()).await?;
        let config = WriterConfig::of_flush(self.definition);
        let drops = ColumnDrops::of(self.definition);
        let mut writer = Writer::new(self.disk, &dir, self.id, config).made_at(self.now_s);
        if let Err(error) = self.fill(&mut writer, layer, &drops, pause).await {
            writer.abandon().await?;
            return Err(error);
        }
        match self.finish(writer, pause).await {
            Ok(view) => Ok(view),
            Err(error) => {
                self.remove().await?;
                Err(error)
            }
        }
    }

    async fn finish(&self, writer: Writer, pause: &dyn Pause) -> Result<Option<View>> {
        let Some(written) = writer.finish(pause).await? else { return Ok(None) };
        assert_eq!(written.id, self.id, "the file has the name that it was to have");
        let entry = ViewEntry::of_written(&written, self.definition.id, written.id.0, 0);
        let view = View::open(self.disk, entry, self.cache).await?;
        view.attach_indexes(self.disk, self.cache, self.definition).await;
        Ok(Some(view))
    }

    /// Removes the file, if it is there.
    async fn remove(&self) -> Result<()> {
        let path = layout::sstable_path(self.definition.id.0, self.id.0);
        if self.disk.exists(&path).await? {
            self.disk.unlink(&path).await?;
        }
        index::remove_files(self.disk, self.definition, self.id.0).await
    }

    /// Puts all that a layer says into the file, less what its own tombstones cover and what went with its column.
    async fn fill(
        &self,
        writer: &mut Writer,
        layer: &Layer,
        drops: &ColumnDrops,
        pause: &dyn Pause,
    ) -> Result<()> {
        let purge = Purge { drops: Some(drops), ..Purge::NOTHING };
        let slices = [Slice::all()];
        let span = Span { scope: Scope::Range(TokenRange::ALL), slices: &slices, reversed: false };
        let mut cursor = MemtableCursor::new(layer.memtable.clone(), span);
        let (mut left, mut work_bytes) = (Vec::new(), 0);
        while cursor.next_partition().await? {
            let head = cursor.head();
            let (deletion, mut in_force) = (head.deletion, Deletion::NONE);
            self.sampled(|sample| sample.see_deletion(deletion));
            if let Some(row) = head.static_row {
                self.sampled(|sample| sample.see_row(&head, None, row));
            }
            writer.partition(&head);
            let static_bytes = head.static_row.map_or(0, |row| row.bytes().len());
            work_bytes += JOB_ENTRY_COST_BYTES + head.key.len() + static_bytes;
            while cursor.next().await? {
                match cursor.fragment() {
                    change @ Fragment::Change { position, deletion } => {
                        in_force = deletion;
                        self.sampled(|sample| sample.see_deletion(deletion));
                        work_bytes += JOB_ENTRY_COST_BYTES + position.len();
                        writer.fragment(&change);
                    }
                    Fragment::Row { clustering, row } => {
                        work_bytes += JOB_ENTRY_COST_BYTES + clustering.len() + row.bytes().len();
                        let covering = deletion.max(in_force);
                        if let Some(row) = compact(row, covering, &purge, &mut left) {
                            self.sampled(|sample| {
                                sample.see_row(&cursor.head(), Some(clustering), row);
                            });
                            writer.fragment(&Fragment::Row { clustering, row });
                        }
                    }
                }
                self.step(writer, &mut work_bytes, pause).await?;
            }
            self.step(writer, &mut work_bytes, pause).await?;
        }
        Ok(())
    }

    #[inline]
    fn sampled(&self, take: impl FnOnce(&FlushSample)) {
        if let Some(sample) = self.sample {
            take(sample);
        }
    }

    /// After a row, a change or a partition: writes out what is full, and lets others run when so much was done as is
    /// done at once.
    async fn step(
        &self,
        writer: &mut Writer,
        work_bytes: &mut usize,
        pause: &dyn Pause,
    ) -> Result<()> {
        if writer.is_full() {
            writer.drain(pause).await?;
            if let Some(FlushSpace { engine, promise, written_bytes }) = self.space {
                engine.flush_holds(promise, written_bytes + writer.bytes()).await?;
            }
        }
        if *work_bytes >= JOB_STEP_BYTES {
            *work_bytes = 0;
            pause.take().await;
        }
        Ok(())
    }
}
