//! The job that makes index files of sstables which came before their index, or lost its file; and what goes with an
//! index.
//!
//! ```text
//! a view without the file of an index ─► is it there? opened ─► no: all rows of the sstable are read
//!     ─► file by another name ─► read back ─► its own name ─► attached: from now on lookups use it
//! ```
//!
//! 1. Reads go through the sources that lack the index, so an unfinished build changes no answer.
//! 2. Shards that share an sstable may make the same file at the same time: each makes it by a name of its own, and
//!    both are equal. A start deletes what was left by another name.
//! 3. A file is named only while this shard has a view of the sstable, under the lock of those who delete.
//! 4. What was built stays when a build ends early: each sstable is a step of its own.
//! 5. A build whose sstable goes meanwhile ends at once.
//!
//! Not here: which build comes next (`turns.rs`); index files of flushes and merges (`sstable/writer.rs`).

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use model::read::Slice;
use model::schema::{Index, IndexId, Table as Definition};
use model::{CqlType, TableId, TokenRange};
use uuid::Uuid;

use super::builder::{IndexBuilder, unlink};
use super::file::{IndexFile, file_name, sstable_of};
use super::turns::{Next, is_of_vectors, lacking, next_of_view};
use super::vectors::{Sample, vector_bytes};
use crate::backoff::Backoff;
use crate::cache::BlockCache;
use crate::cursor::{Cursor, Fragment, Scope, Span};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::io::{Disk, IoClass};
use crate::layout;
use crate::limits::{JOB_ENTRY_COST_BYTES, JOB_STEP_BYTES, VECTOR_FILE_DIMENSIONS_MAX};
use crate::pause::Pause;
use crate::space_ledger::{Space, SpaceUse};
use crate::sstable::{Reading, SstableId};
use crate::table::{Definition as TableDefinition, Layer, Table, View};

/// What a row may take in an index on the disk while the index is made, in bytes: in a run, and in the file.
const INDEX_ROW_BYTES: u64 = 128;

/// What the job knows of a table.
#[derive(Debug, Default)]
pub(crate) struct IndexState {
    /// The job runs now.
    pub(crate) is_building: Cell<bool>,
    /// The sstable in hand, and how many rows of it were read.
    read_rows: Cell<Option<(Uuid, u64)>>,
    /// Files of indexes that were dropped may be there.
    pub(crate) has_dropped: Cell<bool>,
    /// With so many index files lost in the shard no view lacked one, and since then neither views nor indexes have
    /// changed: there is nothing to look for.
    pub(crate) settled: Cell<Option<u64>>,
    pub(crate) backoff: Backoff,
}

/// What is being built.
struct Build<'b> {
    table: &'b Table,
    view: &'b View,
    next: Next,
    epoch: u64,
}

impl Build<'_> {
    /// Whether what is built is not needed any more: the table was emptied, or the sstable goes.
    fn is_needless(&self) -> bool {
        let sstable = self.view.entry.sstable;
        self.table.epoch() != self.epoch
            || !self.table.views().iter().any(|view| view.entry.sstable == sstable)
            || (self.next == Next::Vectors && self.table.is_merging(sstable))
    }
}

/// How far an index of a table is in one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexProgress {
    /// The table that is indexed.
    pub table: TableId,
    /// Which of its indexes.
    pub index: IndexId,
    /// Sstables that have the index.
    pub files: u64,
    /// Sstables of which no index can be made: they are gone through.
    pub files_unfit: u64,
    /// All sstables of the table.
    pub files_total: u64,
    /// Bytes of the sstables that have it, on disk, and the part of the one in hand that was read.
    pub bytes: u64,
    /// Bytes of all sstables.
    pub bytes_total: u64,
    /// Memtables that began before the index: they are being flushed.
    pub memtables: u64,
    /// Failures of the build in a row.
    pub failures: u32,
}

impl IndexProgress {
    /// Whether it has all that can be indexed.
    pub fn is_built(&self) -> bool {
        self.files + self.files_unfit == self.files_total && self.memtables == 0
    }
}

impl View {
    /// Opens what index files there are beside the sstable. One that cannot be used is noted, and made anew.
    pub(crate) async fn attach_indexes(
        &self,
        disk: &Disk,
        cache: &Rc<BlockCache>,
        table: &Definition,
    ) {
        let dir = layout::table_dir(self.entry.table);
        let suspects = self.sstable.suspects();
        for index in table.file_indexes() {
            if self.sstable.index(index.id).is_some() || suspects.contains(&index.id) {
                continue;
            }
            let known = (self.sstable.id(), self.sstable.known().proof);
            match IndexFile::open((disk, &dir), known, (table, index), cache).await {
                Ok(file) => self.sstable.attach(file),
                Err(Error::NotFound { .. }) => {}
                Err(error) => self.sstable.lose_index(index.id, &error),
            }
        }
    }

    /// Reads the files whole that were damaged: one that is not is used again.
    async fn judge_suspects(
        &self,
        disk: &Disk,
        table: &Definition,
        pause: &dyn Pause,
    ) -> Result<()> {
        for id in self.sstable.suspects() {
            let Some(index) = table.index_by_id(id) else {
                self.sstable.forget_doubts(id);
                continue;
            };
            if self.sstable.is_distrusted(id) {
                continue;
            }
            let path = layout::table_dir(self.entry.table).join(&file_name(self.sstable.id(), id));
            let known = (self.sstable.id(), self.sstable.known().proof);
            let (of, class) = ((table, index), IoClass::Compaction);
            match IndexFile::verify((disk, &path), known, of, class, pause).await {
                Ok(()) => self.sstable.acquit(id),
                Err(Error::NotFound { .. }) => self.sstable.forget_doubts(id),
                Err(Error::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether it gets a file of an index: always one of terms, and one of vectors if it has at least so many rows and
    /// they are not too long.
    fn gets_file(&self, table: &Definition, index: &Index, vector_rows_min: u64) -> bool {
        index.similarity(table).is_none()
            || (self.sstable.statistics().rows >= vector_rows_min
                && !has_long_vectors(table, index))
    }

    /// Whether it has no file of an index, and needs none.
    fn needs_none(&self, table: &Definition, id: IndexId, vector_rows_min: u64) -> bool {
        self.sstable.index(id).is_none()
            && table
                .index_by_id(id)
                .is_some_and(|index| !self.gets_file(table, index, vector_rows_min))
    }

    /// The indexes of which it has no file, and may have one: of vectors, if it has at least so many rows.
    pub(super) fn lacks(&self, table: &Definition, vector_rows_min: u64) -> Vec<IndexId> {
        let mut attached: Vec<IndexId> =
            self.sstable.indexes().iter().map(|file| file.index()).collect();
        attached.sort_unstable();
        let lacks = |index: &&Index| {
            attached.binary_search(&index.id).is_err()
                && !self.sstable.is_unfit(index.id)
                && self.gets_file(table, index, vector_rows_min)
        };
        table.file_indexes().filter(lacks).map(|index| index.id).collect()
    }
}

/// Whether the vectors of an index are too long for files.
fn has_long_vectors(table: &Definition, index: &Index) -> bool {
    matches!(&index.column(table).ty, CqlType::Vector { dimensions, .. }
        if *dimensions > VECTOR_FILE_DIMENSIONS_MAX)
}

/// Removes the files of these indexes beside an sstable, if they are there.
pub(crate) async fn remove_files(disk: &Disk, table: &Definition, sstable: Uuid) -> Result<()> {
    let dir = layout::table_dir(table.id.0);
    for index in table.indexes() {
        unlink(disk, &dir.join(&file_name(SstableId(sstable), index.id))).await?;
    }
    Ok(())
}

impl Engine {
    /// How far the indexes of all tables are.
    pub fn index_progress(&self) -> Vec<IndexProgress> {
        let mut all = Vec::new();
        for id in self.tables.indexed().iter() {
            let Ok(table) = self.table(*id) else { continue };
            let definition = table.definition();
            all.extend(progress(&table, &definition, self.vector_rows_min.get()));
        }
        all
    }

    /// Paths of index files that could not be used since this was asked last, and why.
    pub fn take_lost_indexes(&self) -> Vec<(String, Error)> {
        let mut lost = Vec::new();
        // Each that is lost is counted.
        if self.lost_told.replace(self.cache.lost_indexes()) == self.cache.lost_indexes() {
            return lost;
        }
        for id in self.tables.indexed().iter() {
            let Ok(table) = self.table(*id) else { continue };
            for view in table.views().iter() {
                lost.extend(view.sstable.take_lost());
            }
        }
        lost
    }

    /// Has the indexes of a table made anew, or one of them: from now on jobs build the files again, whatever their
    /// checksums say, and reads go through the rows meanwhile. The files are removed, so that a start finds none. How
    /// many files these are.
    pub async fn rebuild_indexes(&self, table: TableId, only: Option<IndexId>) -> Result<u64> {
        let table = self.table(table)?;
        let definition = table.definition();
        let dir = layout::table_dir(definition.id.0);
        // A build that is at its end has named its file before, or finds that it is to be made anew.
        let _deleting = self.deleting.take().await;
        let (mut files, vector_rows_min) = (0, self.vector_rows_min.get());
        for view in table.views().iter() {
            let wanted = definition.file_indexes().map(|index| index.id);
            let wanted = wanted.filter(|id| only.is_none_or(|only| *id == only));
            for id in wanted.filter(|id| !view.needs_none(&definition, *id, vector_rows_min)) {
                let name = file_name(view.sstable.id(), id);
                view.sstable.distrust_index(id, &Error::corrupt(&name, 0, "told to make it anew"));
                unlink(&self.disk, &dir.join(&name)).await?;
                files += 1;
            }
        }
        if files > 0 {
            self.disk.sync_dir(&dir).await?;
        }
        Ok(files)
    }

    /// Makes the index files that one sstable of a table lacks.
    pub(crate) async fn index(&self, table: &Table, now_s: u32, pause: &dyn Pause) -> Result<()> {
        let state = &table.index_state;
        if state.is_building.replace(true) {
            return Ok(());
        }
        self.tables.note_indexed(table.definition().id);
        let result = self.index_next(table, pause).await;
        state.read_rows.set(None);
        assert!(state.is_building.replace(false), "one build of a table at a time");
        state.backoff.ended(&result, self.backoff_clock_s(now_s));
        result.inspect_err(|_| self.counters.count(|s| s.jobs_failed += 1))
    }

    async fn index_next(&self, table: &Table, pause: &dyn Pause) -> Result<()> {
        if table.index_state.has_dropped.replace(false) {
            // What is built next may be of another table.
            let removed = self.remove_dropped(table).await;
            return removed.inspect_err(|_| table.index_state.has_dropped.set(true));
        }
        let definition = table.definition();
        let views = table.views();
        let vector_rows_min = self.vector_rows_min.get();
        let lacking = lacking(table, &views, vector_rows_min);
        // Each failure moves on to the next view, so that one that cannot be read does not keep the others waiting.
        let failures = table.index_state.backoff.failures() as usize;
        let Some(view) = lacking.get(failures % lacking.len().max(1)) else { return Ok(()) };
        // A file that is damaged is made anew; one that could not be read for another reason may be read now.
        view.judge_suspects(&self.disk, &definition, pause).await?;
        view.attach_indexes(&self.disk, &self.cache, &definition).await;
        let mut lacks = view.lacks(&definition, vector_rows_min);
        let Some(next) = next_of_view(table, view, &lacks) else { return Ok(()) };
        // Those of terms together; one of vectors alone.
        match next {
            Next::Vectors => lacks.truncate(1),
            Next::Terms => lacks.retain(|id| !is_of_vectors(&definition, *id)),
        }
        self.admit_disk()?;
        let rows = view.sstable.statistics().rows;
        let of_row = INDEX_ROW_BYTES + vector_bytes(&definition, lacks[0]);
        let bytes = rows.saturating_mul(lacks.len() as u64 * of_row);
        let space = self.promise_space(SpaceUse::Merge, bytes.min(view.entry.file_bytes)).await?;
        let Space::Promised(_promise) = space else {
            return Err(Error::DiskFull { file: "an index".into() });
        };
        let name = self.names.next();
        let build = Build { table, view, next, epoch: table.epoch() };
        if !self.build((&build, &definition), (lacks.clone(), name), pause).await? {
            return Ok(());
        }
        self.name_built((table, &definition), view, (&lacks, name)).await
    }

    /// Gives the files that were built their names, and attaches them.
    async fn name_built(
        &self,
        (table, definition): (&Table, &TableDefinition),
        view: &View,
        (indexes, name): (&[IndexId], SstableId),
    ) -> Result<()> {
        let dir = layout::table_dir(view.entry.table);
        let _deleting = self.deleting.take().await;
        let sstable = view.entry.sstable;
        let is_there = || table.views().iter().any(|view| view.entry.sstable == sstable);
        if !is_there() {
            return IndexBuilder::remove_unnamed(&self.disk, &dir, name, indexes).await;
        }
        let names = (SstableId(sstable), name);
        let unfit = match IndexBuilder::name_files(&self.disk, &dir, names, indexes).await {
            Ok(unfit) => unfit,
            Err(error) => {
                // The error that led here is the one to report.
                let _ = IndexBuilder::remove_unnamed(&self.disk, &dir, name, indexes).await;
                return Err(error);
            }
        };
        for id in &unfit {
            let path = dir.join(&file_name(SstableId(sstable), *id));
            let error = Error::corrupt(path.as_str(), 0, "rows whose terms cannot be told");
            view.sstable.lose_index(*id, &error);
            view.sstable.note_unfit(*id);
        }
        if is_there() {
            indexes.iter().for_each(|id| view.sstable.forget_doubts(*id));
            view.attach_indexes(&self.disk, &self.cache, definition).await;
            table.forget_dropped_indexes(std::slice::from_ref(view));
            self.counters.count(|s| s.indexes_built += (indexes.len() - unfit.len()) as u64);
        }
        // Views that went meanwhile took with them only what had its name.
        if !is_there() {
            remove_files(&self.disk, definition, sstable).await?;
        }
        Ok(())
    }

    /// Makes the files of indexes that this definition of the table has; a newer one may have lost them. False if they
    /// are not needed any more.
    async fn build(
        &self,
        (build, definition): (&Build<'_>, &TableDefinition),
        (indexes, name): (Vec<IndexId>, SstableId),
        pause: &dyn Pause,
    ) -> Result<bool> {
        let view = build.view;
        let dir = layout::table_dir(view.entry.table);
        let sstable = view.sstable.id();
        let arc = definition.shared();
        let sample = Sample::new(definition, indexes[0], view.sstable.statistics().rows);
        let mut codebook = None;
        if let Some(mut sample) = sample {
            if !self.sample_into(&mut sample, build, pause).await? {
                return Ok(false);
            }
            codebook = Some(sample.codebook(pause).await);
            if build.is_needless() {
                return Ok(false);
            }
        }
        let mut builder = IndexBuilder::beside(&self.disk, &dir, sstable, arc, (indexes, name));
        if let Some(codebook) = codebook {
            builder = builder.of_vectors(codebook);
        }
        let read = self.read_into(&mut builder, build, pause).await;
        if !matches!(read, Ok(true)) {
            builder.abandon().await?;
            return read;
        }
        builder.finish(view.sstable.known().proof, pause).await?;
        Ok(true)
    }

    /// Gives all rows of an sstable to a sample; false if that is not needed any more.
    async fn sample_into(
        &self,
        sample: &mut Sample,
        build: &Build<'_>,
        pause: &dyn Pause,
    ) -> Result<bool> {
        let slices = [Slice::all()];
        let span = Span { scope: Scope::Range(TokenRange::ALL), slices: &slices, reversed: false };
        let mut cursor = build.view.sstable.cursor(span, Reading::Compaction);
        let mut work_bytes = 0;
        while cursor.next_partition().await? {
            work_bytes += JOB_ENTRY_COST_BYTES + cursor.head().key.len();
            while cursor.next().await? {
                if let Fragment::Row { row, .. } = cursor.fragment() {
                    sample.put(row);
                    work_bytes += JOB_ENTRY_COST_BYTES + 2 * row.bytes().len();
                }
                if work_bytes >= JOB_STEP_BYTES
                    && !self.pause_build(&mut work_bytes, build, pause).await
                {
                    return Ok(false);
                }
            }
            if work_bytes >= JOB_STEP_BYTES
                && !self.pause_build(&mut work_bytes, build, pause).await
            {
                return Ok(false);
            }
        }
        Ok(!build.is_needless())
    }

    /// Gives all rows of an sstable to a builder; false if that is not needed any more.
    async fn read_into(
        &self,
        builder: &mut IndexBuilder,
        build: &Build<'_>,
        pause: &dyn Pause,
    ) -> Result<bool> {
        let slices = [Slice::all()];
        let span = Span { scope: Scope::Range(TokenRange::ALL), slices: &slices, reversed: false };
        let mut cursor = build.view.sstable.cursor(span, Reading::Compaction);
        let (mut work_bytes, mut rows) = (0, 0);
        let at_once = u32::MAX as usize;
        while cursor.next_partition().await? {
            let head = cursor.head();
            let (block, entry) = cursor.head_place();
            builder.partition(head.key, head.static_row, entry);
            builder.cut(block, at_once);
            work_bytes += JOB_ENTRY_COST_BYTES + head.key.len();
            while cursor.next().await? {
                if let Fragment::Row { clustering, row } = cursor.fragment() {
                    let (block, entry) = cursor.row_place();
                    builder.row(cursor.head().key, clustering, row, entry);
                    builder.cut(block, at_once);
                    work_bytes += JOB_ENTRY_COST_BYTES + clustering.len() + row.bytes().len();
                    work_bytes += builder.row_work_bytes();
                    rows += 1;
                }
                if work_bytes >= JOB_STEP_BYTES
                    && !self.step(builder, (&mut work_bytes, rows), build, pause).await?
                {
                    return Ok(false);
                }
            }
            if work_bytes >= JOB_STEP_BYTES
                && !self.step(builder, (&mut work_bytes, rows), build, pause).await?
            {
                return Ok(false);
            }
        }
        Ok(!build.is_needless())
    }

    /// After so much work: false if what is built is not needed any more.
    async fn step(
        &self,
        builder: &mut IndexBuilder,
        (work_bytes, rows): (&mut usize, u64),
        build: &Build<'_>,
        pause: &dyn Pause,
    ) -> Result<bool> {
        build.table.index_state.read_rows.set(Some((build.view.entry.sstable, rows)));
        if builder.is_full() {
            builder.spill(pause).await?;
        }
        Ok(self.pause_build(work_bytes, build, pause).await)
    }

    /// False if what is built is not needed any more.
    async fn pause_build(
        &self,
        work_bytes: &mut usize,
        build: &Build<'_>,
        pause: &dyn Pause,
    ) -> bool {
        let bytes = std::mem::take(work_bytes) as u64;
        let is_needless = || build.is_needless();
        pause.take().await;
        if let Some(pace) = self.pace.get()
            && let Some(wait) = pace.charge(bytes, &is_needless)
        {
            wait.await;
        }
        !is_needless()
    }

    /// Removes the files of indexes that the table has no more.
    async fn remove_dropped(&self, table: &Table) -> Result<()> {
        let definition = table.definition();
        let dir = layout::table_dir(definition.id.0);
        let _deleting = self.deleting.take().await;
        let names = match self.disk.list(&dir).await {
            Err(Error::NotFound { .. }) => return Ok(()),
            listed => listed?,
        };
        for entry in names {
            let Some((_, index)) = sstable_of(&entry.name) else { continue };
            // One that is newer than what this shard knows, is another's.
            let is_gone =
                index.0 < definition.next_index() && definition.index_by_id(index).is_none();
            if let Some(path) = dir.child(&entry.name).filter(|_| is_gone) {
                unlink(&self.disk, &path).await?;
            }
        }
        Ok(())
    }

    /// Removes the index files of sstables of a table that were unlinked.
    pub(crate) async fn remove_indexes_of(&self, table: Uuid, gone: &BTreeSet<Uuid>) -> Result<()> {
        if let Ok(table) = self.table(TableId(table)) {
            let definition = table.definition();
            let mut removed = Ok(());
            for sstable in gone {
                removed = removed.and(remove_files(&self.disk, &definition, *sstable).await);
            }
            return removed;
        }
        let dir = layout::table_dir(table);
        let names = match self.disk.list(&dir).await {
            Err(Error::NotFound { .. }) => return Ok(()),
            listed => listed?,
        };
        for entry in names {
            let is_gone = sstable_of(&entry.name).is_some_and(|(file, _)| gone.contains(&file));
            if let Some(path) = dir.child(&entry.name).filter(|_| is_gone) {
                unlink(&self.disk, &path).await?;
            }
        }
        Ok(())
    }
}

/// How far the indexes of a table are: one walk over its sstables, of each its index files.
fn progress(table: &Table, definition: &Definition, vector_rows_min: u64) -> Vec<IndexProgress> {
    let mut indexes: Vec<&Index> = definition.file_indexes().collect();
    indexes.sort_unstable_by_key(|index| index.id);
    let (mut files, mut unfit) = (vec![(0, 0); indexes.len()], vec![0; indexes.len()]);
    let (mut files_total, mut bytes_total, mut bytes_in_hand) = (0, 0, (None, 0));
    let place = |id: IndexId| indexes.binary_search_by_key(&id, |index| index.id).ok();
    let of_vectors: Vec<usize> =
        (0..indexes.len()).filter(|at| indexes[*at].similarity(definition).is_some()).collect();
    let mut seen = BTreeSet::new();
    for view in table.views().iter().filter(|view| seen.insert(view.entry.sstable)) {
        files_total += 1;
        bytes_total += view.entry.file_bytes;
        for at in view.sstable.indexes().iter().filter_map(|file| place(file.index())) {
            files[at] = (files[at].0 + 1, files[at].1 + view.entry.file_bytes);
        }
        for at in view.sstable.all_unfit().into_iter().filter_map(place) {
            unfit[at] += u64::from(view.sstable.index(indexes[at].id).is_none());
        }
        for at in &of_vectors {
            unfit[*at] += u64::from(view.needs_none(definition, indexes[*at].id, vector_rows_min));
        }
        let in_hand = table.index_state.read_rows.get();
        if let Some((_, rows)) = in_hand.filter(|(sstable, _)| *sstable == view.entry.sstable) {
            let (rows, all) = (u128::from(rows), u128::from(view.sstable.statistics().rows));
            let read = u128::from(view.entry.file_bytes) * rows / all.max(1);
            bytes_in_hand = (Some(view.clone()), (read as u64).min(view.entry.file_bytes));
        }
    }
    let layers = table.layers();
    let one = |(at, index): (usize, &&Index)| {
        let lacks = |layer: &&Layer| !layer.memtable.borrow().is_indexed(index.id);
        let in_hand =
            bytes_in_hand.0.as_ref().filter(|view| view.sstable.index(index.id).is_none());
        IndexProgress {
            table: definition.id,
            index: index.id,
            files: files[at].0,
            files_unfit: unfit[at],
            files_total,
            bytes: files[at].1 + in_hand.map_or(0, |_| bytes_in_hand.1),
            bytes_total,
            memtables: match index.similarity(definition) {
                // Memtables have no terms of vectors.
                Some(_) => 0,
                None => layers.iter().filter(lacks).count() as u64,
            },
            failures: table.index_state.backoff.failures(),
        }
    };
    indexes.iter().enumerate().map(one).collect()
}
