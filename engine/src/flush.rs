//! From memory to disk: a sealed memtable becomes an sstable, and only then the log may forget it.
//!
//! ```text
//! seal ─► write, sync, read back ─► open ─► (durable in the log?) ─► manifest ─► swap ─► the log is freed
//! ```
//!
//! 1. Until the manifest names the file, the memtable and the log keep everything. A failure before the commit and a
//!    full disk remove the file. After a failed log or manifest it stays until the next start: the manifest may name
//!    it.
//! 2. The swap happens without an await after the commit: a reader finds the rows in the memtable or in the sstable,
//!    never in neither.
//! 3. What was truncated or dropped meanwhile is not brought back: the epoch is compared when the turn is taken.

use std::rc::Rc;

use model::row::{Purge, RowRef, compact};
use model::schema::{self, ColumnDrops};
use model::{Deletion, TokenRange};

use crate::cache::BlockCache;
use crate::commitlog::Position;
use crate::cursor::{Cursor, Fragment, Scope, Slice, Span};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::io::Disk;
use crate::layout;
use crate::limits::{JOB_ENTRY_COST_BYTES, JOB_STEP_BYTES};
use crate::manifest::{Edit, ViewEntry};
use crate::memtable::MemtableCursor;
use crate::sstable::{SstableId, Writer, WriterConfig};
use crate::table::{Layer, Table, View};

/// What a memtable is written to: a file of this name, of a table of this definition.
pub(crate) struct FlushTarget<'e> {
    pub(crate) disk: &'e Disk,
    pub(crate) cache: &'e Rc<BlockCache>,
    pub(crate) definition: &'e schema::Table,
    pub(crate) id: SstableId,
}

impl Engine {
    /// Writes the oldest layer of a table to an sstable.
    pub(crate) async fn flush(&self, table: &Table, pause: &impl AsyncFn()) -> Result<()> {
        let Some(layer) = table.oldest_sealed() else { return Ok(()) };
        let (epoch, definition) = (table.epoch(), table.definition());
        let id = self.names.next();
        let (disk, cache) = (&self.disk, &self.cache);
        let target = FlushTarget { disk, cache, definition: &definition, id };
        let view = target.write_layer(&layer, pause).await?;
        let result = match self.until_durable(layer.until).await {
            Ok(()) => self.commit_flush(table, epoch, &layer, view).await,
            Err(error) => Err(error),
        };
        if matches!(result, Ok(false) | Err(Error::DiskFull { .. })) {
            target.remove().await?;
        }
        // A reader that still goes through it frees it then.
        if let Some(memtable) = Rc::into_inner(layer.memtable) {
            memtable.into_inner().free(pause).await;
        }
        result.map(drop)
    }

    /// Makes the view take the layer's place; `false` if the table was emptied meanwhile.
    async fn commit_flush(
        &self,
        table: &Table,
        epoch: u64,
        layer: &Layer,
        view: Option<View>,
    ) -> Result<bool> {
        let _turn = self.turn.take().await;
        if table.epoch() != epoch {
            return Ok(false);
        }
        let flushed = self.flushed_with(table.since_after_flush(), table);
        let edit = Edit {
            add: view.iter().map(|view| view.entry).collect(),
            flushed: Some(flushed),
            replayed_from: vec![(table.definition().id.0, layer.until)],
            ..Edit::default()
        };
        let durable = self.log.positions().durable;
        assert!(layer.until <= durable, "the log is durable before what it led to is named");
        self.manifest.commit(&edit).await?;
        self.counters.count(|s| {
            s.flushes += 1;
            s.large_rows += view.as_ref().map_or(0, View::large_rows);
            s.flush_bytes += view.as_ref().map_or(0, |view| view.entry.file_bytes);
        });
        if table.epoch() == epoch {
            self.budget.memtables_shrank(table.flushed(layer, view));
        } else {
            // Dropped during the commit.
            let gone = view.map(|view| view.entry);
            gone.into_iter().for_each(|view| self.garbage.add(view.table, vec![view]));
        }
        self.log.mark_flushed(flushed);
        self.space.freed();
        Ok(true)
    }

    /// The position up to which every record is in an sstable, if the oldest record in `table`'s memtables begins at
    /// `since` (`None`: they hold none).
    pub(crate) fn flushed_with(&self, since: Option<Position>, table: &Table) -> Position {
        let tables = self.tables.by_id();
        let others = tables.values().filter(|other| !std::ptr::eq(&***other, table));
        self.flushed_beside(others.filter_map(|other| other.since()).chain(since))
    }

    /// The position up to which every record is in an sstable, or of a table that is gone.
    pub(crate) fn flushed_now(&self) -> Position {
        let tables = self.tables.by_id();
        self.flushed_beside(tables.values().filter_map(|table| table.since()))
    }

    /// The same, if the oldest records in memtables begin at these places.
    fn flushed_beside(&self, held: impl Iterator<Item = Position>) -> Position {
        let waiting = self.writes.start();
        let positions = self.log.positions();
        let oldest = held.chain(waiting).fold(positions.durable, Position::min);
        assert!(oldest >= positions.flushed, "what is flushed stays flushed");
        oldest
    }
}

impl FlushTarget<'_> {
    /// Writes a layer, and opens what was written; `None` if it says nothing. After an error there is no file.
    pub(crate) async fn write_layer(
        &self,
        layer: &Layer,
        pause: &impl AsyncFn(),
    ) -> Result<Option<View>> {
        assert!(layer.sealed, "a layer takes no more writes while it is written out");
        let dir = layout::table_dir(self.definition.id.0);
        self.disk.mkdir(&dir).await?;
        self.disk.sync_dir(&layout::tables_dir()).await?;
        let config = WriterConfig::of_table(self.definition);
        let drops = ColumnDrops::of(self.definition);
        let mut writer = Writer::new(self.disk, &dir, self.id, config);
        if let Err(error) = fill(&mut writer, layer, &drops, pause).await {
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

    async fn finish(&self, writer: Writer, pause: &impl AsyncFn()) -> Result<Option<View>> {
        let Some(written) = writer.finish(pause).await? else { return Ok(None) };
        assert_eq!(written.id, self.id, "the file has the name that it was to have");
        let entry = ViewEntry::of_written(&written, self.definition.id, written.id.0, 0);
        View::open(self.disk, entry, self.cache).await.map(Some)
    }

    /// Removes the file, if it is there.
    async fn remove(&self) -> Result<()> {
        let path = layout::sstable_path(self.definition.id.0, self.id.0);
        if self.disk.exists(&path).await? { self.disk.unlink(&path).await } else { Ok(()) }
    }
}

/// Puts all that a layer says into the file, less what its own tombstones cover and what went with its column.
async fn fill(
    writer: &mut Writer,
    layer: &Layer,
    drops: &ColumnDrops,
    pause: &impl AsyncFn(),
) -> Result<()> {
    let purge = Purge { drops: Some(drops), ..Purge::NOTHING };
    let slices = [Slice::all()];
    let span = Span { scope: Scope::Range(TokenRange::ALL), slices: &slices, reversed: false };
    let mut cursor = MemtableCursor::new(layer.memtable.clone(), span);
    let (mut left, mut work_bytes) = (Vec::new(), 0);
    while cursor.next_partition().await? {
        let head = cursor.head();
        let (deletion, mut in_force) = (head.deletion, Deletion::NONE);
        writer.partition(&head);
        let static_bytes = head.static_row.map_or(0, |row| row.bytes().len());
        work_bytes += JOB_ENTRY_COST_BYTES + head.key.len() + static_bytes;
        while cursor.next().await? {
            match cursor.fragment() {
                change @ Fragment::Change { position, deletion } => {
                    in_force = deletion;
                    work_bytes += JOB_ENTRY_COST_BYTES + position.len();
                    writer.fragment(&change);
                }
                Fragment::Row { clustering, row } => {
                    left.clear();
                    work_bytes += JOB_ENTRY_COST_BYTES + clustering.len() + row.bytes().len();
                    if compact(row, deletion.max(in_force), &purge, &mut left) {
                        let row = RowRef::trusted(&left);
                        writer.fragment(&Fragment::Row { clustering, row });
                    }
                }
            }
            step(writer, &mut work_bytes, pause).await?;
        }
        step(writer, &mut work_bytes, pause).await?;
    }
    Ok(())
}

/// After a row, a change or a partition: writes out what is full, and lets others run when so much was done as is
/// done at once.
async fn step(writer: &mut Writer, work_bytes: &mut usize, pause: &impl AsyncFn()) -> Result<()> {
    if writer.is_full() {
        writer.drain().await?;
    }
    if *work_bytes >= JOB_STEP_BYTES {
        *work_bytes = 0;
        pause().await;
    }
    Ok(())
}
