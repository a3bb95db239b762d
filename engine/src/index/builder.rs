//! Makes the index files of one sstable: takes its rows as they are written or read, and ends with a file each.
//!
//! ```text
//! partition, row ─► terms of each index ─► pending: entries of the block in hand ─(block is cut)─► places ─► TermSort
//! finish ─► one file after the other: written, synced, read back
//! ```
//!
//! 1. An entry has its place when its block is cut: what a cut leaves over begins the next block.
//! 2. After an error nothing is left of what it has made, unless that cannot be removed: then the next start does.
//! 3. An index whose terms cannot be told, or of which one row has too many, gets no file: its sstable is scanned.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use model::row::RowRef;
use model::schema::{Index, IndexId, Table};

use super::file::{IndexFile, file_name};
use super::footer::{Footer, fingerprint, seed_of};
use super::place::Place;
use super::runs::Merged;
use super::sort::TermSort;
use super::vectors::Codebook;
use super::writer::IndexWriter;
use crate::error::{Error, Result};
use crate::io::{Disk, IoClass, RelPath};
use crate::limits::{INDEX_ROW_TERMS_BYTES_MAX, INDEX_TERM_OVERHEAD_BYTES};
use crate::pause::Pause;
use crate::planted::{Bug, planted};
use crate::sstable::output::Output;
use crate::sstable::{FileDigest, SstableId};

/// The index files of one sstable, being made.
pub(crate) struct IndexBuilder {
    disk: Disk,
    dir: RelPath,
    sstable: SstableId,
    table: Arc<Table>,
    /// Which indexes get a file.
    indexes: Vec<IndexId>,
    /// Whose terms could not be told.
    failed: BTreeSet<IndexId>,
    class: IoClass,
    sort: TermSort,
    /// Entries of the block in hand.
    pending: Vec<Pending>,
    terms: Vec<u8>,
    /// The lists of a file of vectors, of which there is one at a time.
    vectors: Option<Codebook>,
    /// A file is made by this name and then takes its own, for somebody else may make the same.
    between: Option<String>,
}

/// A term of an entry of the block in hand.
struct Pending {
    index: IndexId,
    entry: u32,
    from: usize,
    bytes: usize,
}

/// Removes a file, if it is there.
pub(super) async fn unlink(disk: &Disk, path: &RelPath) -> Result<()> {
    match disk.unlink(path).await {
        Err(Error::NotFound { .. }) => Ok(()),
        unlinked => unlinked,
    }
}

impl IndexBuilder {
    /// For the sstable in directory `dir`, which is being written; `None` if its table has no index.
    pub(crate) fn new(
        disk: &Disk,
        dir: &RelPath,
        sstable: SstableId,
        table: &Arc<Table>,
    ) -> Option<IndexBuilder> {
        let indexes: Vec<IndexId> = table.term_indexes().map(|index| index.id).collect();
        (!indexes.is_empty()).then(|| IndexBuilder::of(disk, dir, sstable, table, indexes))
    }

    fn of(
        disk: &Disk,
        dir: &RelPath,
        sstable: SstableId,
        table: &Arc<Table>,
        mut indexes: Vec<IndexId>,
    ) -> IndexBuilder {
        indexes.sort_unstable();
        let class = IoClass::Flush;
        let path = dir.join(&format!("{sstable}"));
        let sort = TermSort::new(disk, path, class, seed_of(sstable, IndexId(u16::MAX)));
        IndexBuilder {
            disk: disk.clone(),
            dir: dir.clone(),
            sstable,
            table: table.clone(),
            indexes,
            failed: BTreeSet::new(),
            class,
            sort,
            pending: Vec::new(),
            terms: Vec::new(),
            vectors: None,
            between: None,
        }
    }

    /// For these indexes of an sstable that is there: by another name until it is whole.
    pub(super) fn beside(
        disk: &Disk,
        dir: &RelPath,
        sstable: SstableId,
        table: &Arc<Table>,
        (indexes, name): (Vec<IndexId>, SstableId),
    ) -> IndexBuilder {
        let path = dir.join(&format!("{name}"));
        let class = IoClass::Compaction;
        let sort = TermSort::new(disk, path, class, seed_of(sstable, IndexId(u16::MAX)));
        let builder = IndexBuilder::of(disk, dir, sstable, table, indexes);
        IndexBuilder { sort, class, between: Some(format!("{name}")), ..builder }
    }

    /// Its only file is one of vectors, in these lists.
    pub(super) fn of_vectors(mut self, codebook: Codebook) -> IndexBuilder {
        let [id] = self.indexes[..] else { panic!("a file of vectors is made alone") };
        codebook.give_lists(|term| self.sort.put(id.0, term, Place::default()));
        self.vectors = Some(codebook);
        self
    }

    /// What a row takes beside its bytes, as bytes of work.
    pub(super) fn row_work_bytes(&self) -> usize {
        self.vectors.as_ref().map_or(0, Codebook::row_work_bytes)
    }

    /// Its requests to the device are of this class.
    pub(crate) fn of_class(mut self, class: IoClass) -> IndexBuilder {
        let path = self.dir.join(&format!("{}", self.sstable));
        self.class = class;
        self.sort =
            TermSort::new(&self.disk, path, class, seed_of(self.sstable, IndexId(u16::MAX)));
        self
    }

    /// A partition begins at this entry of the block in hand.
    pub(crate) fn partition(&mut self, key: &[u8], static_row: Option<RowRef<'_>>, entry: usize) {
        self.add(key, None, static_row, entry);
    }

    /// A row is this entry of the block in hand.
    pub(crate) fn row(&mut self, key: &[u8], clustering: &[u8], row: RowRef<'_>, entry: usize) {
        self.add(key, Some(clustering), Some(row), entry);
    }

    fn add(
        &mut self,
        key: &[u8],
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
        entry: usize,
    ) {
        let IndexBuilder { table, indexes, failed, pending, terms, vectors, .. } = self;
        if let Some(codebook) = vectors {
            let row = row.filter(|_| clustering.is_some());
            let Some(term) = row.and_then(|row| codebook.term(row)) else { return };
            let (index, from, bytes) = (indexes[0], terms.len(), term.len());
            terms.extend_from_slice(term);
            pending.push(Pending { index, entry: entry as u32, from, bytes });
            return;
        }
        let wanted = |index: &&Index| indexes.contains(&index.id) && !failed.contains(&index.id);
        let (mut broken, mut row_bytes) = (Vec::new(), 0);
        for index in table.term_indexes().filter(wanted) {
            let (pending_before, terms_before) = (pending.len(), terms.len());
            let bytes_before = row_bytes;
            let mut give = |term: &[u8]| {
                let (id, from, bytes) = (index.id, terms.len(), term.len());
                row_bytes += bytes + INDEX_TERM_OVERHEAD_BYTES;
                if row_bytes > INDEX_ROW_TERMS_BYTES_MAX {
                    return ControlFlow::Break(());
                }
                terms.extend_from_slice(term);
                pending.push(Pending { index: id, entry: entry as u32, from, bytes });
                ControlFlow::Continue(())
            };
            let told = index.terms(table, key, clustering, row, &mut give);
            if told.is_err() || row_bytes > INDEX_ROW_TERMS_BYTES_MAX {
                broken.push(index.id);
                // The others have space for theirs.
                pending.truncate(pending_before);
                terms.truncate(terms_before);
                row_bytes = bytes_before;
            }
        }
        failed.extend(broken);
    }

    /// The first `count` entries of the block in hand are the block of this number; the others begin the next.
    pub(crate) fn cut(&mut self, block: usize, count: usize) {
        let block = u32::try_from(block).expect("a file has fewer blocks");
        let count = count as u32;
        let mut kept = Vec::new();
        let mut left = Vec::new();
        for Pending { index, entry, from, bytes } in self.pending.drain(..) {
            let term = &self.terms[from..from + bytes];
            if entry < count {
                let shifted = u32::from(planted(Bug::IndexMisplacesEntry) && entry > 1);
                self.sort.put(index.0, term, Place { block, entry: entry - shifted });
            } else {
                left.push(Pending { index, entry: entry - count, from: kept.len(), bytes });
                kept.extend_from_slice(term);
            }
        }
        (self.pending, self.terms) = (left, kept);
    }

    /// Whether [`spill`](Self::spill) is to be called.
    pub(crate) fn is_full(&self) -> bool {
        self.sort.is_full()
    }

    /// Writes out what fills memory.
    pub(crate) async fn spill(&mut self, pause: &dyn Pause) -> Result<()> {
        self.sort.spill(pause).await
    }

    /// Ends the files and proves them; `proof` is that of the sstable.
    pub(crate) async fn finish(mut self, proof: FileDigest, pause: &dyn Pause) -> Result<()> {
        assert!(self.pending.is_empty(), "all blocks are cut");
        let finished = self.write_files(proof, pause).await;
        let removed = self.sort.remove_runs().await;
        if finished.is_err() {
            // The error that led here is the one to report.
            self.remove_files().await;
        }
        finished.and(removed)
    }

    /// Gives up and removes what was written.
    pub(crate) async fn abandon(mut self) -> Result<()> {
        self.sort.remove_runs().await
    }

    async fn write_files(&mut self, proof: FileDigest, pause: &dyn Pause) -> Result<()> {
        let mut merged = self.sort.merged().await?;
        for id in self.indexes.clone() {
            // What a failed index has is passed over.
            if self.failed.contains(&id) {
                while merged.index() == Some(id.0) {
                    merged.next(pause).await?;
                }
                continue;
            }
            self.write_file(id, proof, &mut merged, pause).await?;
        }
        merged.close().await
    }

    async fn write_file(
        &self,
        id: IndexId,
        proof: FileDigest,
        merged: &mut Merged,
        pause: &dyn Pause,
    ) -> Result<()> {
        let index = self.table.index_by_id(id).expect("it is one of the table");
        let output = Output::new(self.disk.clone(), self.path(id)).of_class(self.class);
        let mut writer = IndexWriter::new(output, seed_of(self.sstable, id));
        let copied = async {
            while merged.index() == Some(id.0) {
                let Some(found) = merged.next(pause).await? else { break };
                // Of a file that cannot be made the rest is passed over.
                if writer.is_too_long() {
                    continue;
                }
                writer.add(&found.term, found.place);
                if writer.is_full() {
                    writer.drain().await?;
                }
            }
            Ok(writer.is_too_long())
        };
        match copied.await {
            Ok(false) => {}
            Ok(true) => return writer.abandon().await,
            Err(error) => {
                let _ = writer.abandon().await;
                return Err(error);
            }
        }
        let footer = Footer {
            sstable: self.sstable,
            table: self.table.id.0,
            index: id,
            of: fingerprint(&self.table, index),
            sstable_checksum: proof.footer_checksum,
            terms: 0,
            postings: 0,
            directory_offset: 0,
            directory_bytes: 0,
            blocks: 0,
            has_nodes: false,
            digest: 0,
        };
        writer.finish(footer).await?;
        let known = (self.sstable, proof);
        IndexFile::verify(
            (&self.disk, &self.path(id)),
            known,
            (&self.table, index),
            self.class,
            pause,
        )
        .await
    }

    /// Where the file of an index is made.
    fn path(&self, id: IndexId) -> RelPath {
        match &self.between {
            None => self.dir.join(&file_name(self.sstable, id)),
            Some(name) => self.dir.join(&format!("{name}-{}.new", id.0)),
        }
    }

    /// Gives the files, made by another name, their own names, durably; which have none, for their terms could not be
    /// told.
    pub(super) async fn name_files(
        disk: &Disk,
        dir: &RelPath,
        (sstable, name): (SstableId, SstableId),
        indexes: &[IndexId],
    ) -> Result<Vec<IndexId>> {
        let mut unfit = Vec::new();
        for id in indexes {
            let from = dir.join(&format!("{name}-{}.new", id.0));
            match disk.exists(&from).await? {
                true => disk.rename(&from, &dir.join(&file_name(sstable, *id))).await?,
                false => unfit.push(*id),
            }
        }
        disk.sync_dir(dir).await?;
        Ok(unfit)
    }

    /// Removes what was made by another name, if it is there.
    pub(super) async fn remove_unnamed(
        disk: &Disk,
        dir: &RelPath,
        name: SstableId,
        indexes: &[IndexId],
    ) -> Result<()> {
        for id in indexes {
            unlink(disk, &dir.join(&format!("{name}-{}.new", id.0))).await?;
        }
        Ok(())
    }

    async fn remove_files(&self) {
        for id in &self.indexes {
            // What stays, the next start removes.
            let _ = unlink(&self.disk, &self.path(*id)).await;
        }
    }
}
