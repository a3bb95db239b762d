//! An open file: its directory, filter, wide table and statistics in memory, its blocks on disk.

use std::rc::Rc;

use model::{TableId, Token};

use super::directory::Directory;
use super::filter::Filter;
use super::footer::{FOOTER_BYTES, Footer, Refusal, Section, VERSION};
use super::frame::{HEAD_BYTES, Kind, seed_of};
use super::row_index::NodeRef;
use super::slots::Slots;
use super::statistics::Statistics;
use super::wide::WideTable;
use super::{FileDigest, SstableCursor, SstableId, file_name};
use crate::cache::{BlockCache, Place};
use crate::cursor::Span;
use crate::error::{Error, Result};
use crate::io::{Disk, File, RelPath};

/// What the manifest knows of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SstableIdentity {
    /// Id of the sstable, which names its file.
    pub id: SstableId,
    /// Whose data it holds.
    pub table: TableId,
    /// That it is the one.
    pub proof: FileDigest,
}

/// How a cursor gets its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// From the cache alone; what is not there is [`Error::WouldBlock`].
    Cached,
    /// Through the cache, a block at a time; further ones of the same partition in growing pieces.
    Point,
    /// Past the cache but for what is there already, in growing pieces.
    Scan,
    /// Past the cache, in large pieces.
    Compaction,
}

/// An open file.
#[derive(Debug)]
pub struct Sstable {
    known: SstableIdentity,
    file: File,
    seed: u64,
    footer: Footer,
    pub(super) directory: Directory,
    filter: Filter,
    pub(super) wide: WideTable,
    statistics: Statistics,
    cache: Rc<BlockCache>,
    number: u32,
}

impl Sstable {
    /// Opens the file in directory `dir` and checks that it is the one that is known.
    pub async fn open(
        disk: &Disk,
        dir: &RelPath,
        known: SstableIdentity,
        cache: &Rc<BlockCache>,
    ) -> Result<Rc<Sstable>> {
        let path = dir.join(&file_name(known.id));
        let file = disk.open(&path).await?;
        let seed = seed_of(known.id);
        let footer = read_footer(&file, &known, seed).await?;
        let section = Sections { file: &file, seed, cache };
        let directory = section.read(footer.directory, Kind::Directory).await?;
        let directory = Directory::decode(&directory, footer.data_bytes)
            .map_err(|what| corrupt(&file, footer.directory.offset, what))?;
        let filter = section.read(footer.filter, Kind::Filter).await?;
        let filter =
            Filter::decode(&filter).map_err(|what| corrupt(&file, footer.filter.offset, what))?;
        let wide = section.read(footer.wide, Kind::Wide).await?;
        let wide = WideTable::decode(&wide, directory.blocks(), footer.index_bytes)
            .map_err(|what| corrupt(&file, footer.wide.offset, what))?;
        let statistics = section.read(footer.statistics, Kind::Statistics).await?;
        let statistics = Statistics::decode(&statistics)
            .map_err(|what| corrupt(&file, footer.statistics.offset, what))?;
        if directory.blocks() as u64 != footer.blocks {
            return Err(corrupt(&file, footer.directory.offset, "count of blocks"));
        }
        let (cache, number) = (cache.clone(), cache.number_file());
        let open = Sstable {
            known,
            file,
            seed,
            footer,
            directory,
            filter,
            wide,
            statistics,
            cache,
            number,
        };
        Ok(Rc::new(open))
    }

    /// Id of the sstable, which names its file.
    pub fn id(&self) -> SstableId {
        self.known.id
    }

    /// What the manifest knows of it.
    pub fn known(&self) -> &SstableIdentity {
        &self.known
    }

    /// Its counts, its first and last token, its timestamps (microseconds).
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Bytes of memory it takes while it is open, blocks apart.
    pub fn memory_bytes(&self) -> usize {
        self.directory.memory_bytes() + self.filter.memory_bytes() + self.wide.memory_bytes()
    }

    /// Whether it may hold a partition with this token; mostly not wrong when it says yes.
    #[inline]
    pub fn may_contain(&self, token: Token) -> bool {
        self.statistics.tokens.contains(token) && self.filter.may_contain(token)
    }

    /// Goes through what the span asks for. The filter is the caller's to ask, once, before.
    pub fn cursor<'c>(self: &Rc<Self>, span: Span<'c>, reading: Reading) -> SstableCursor<'c> {
        SstableCursor::new(self.clone(), span, reading)
    }

    /// Closes the file, unless somebody still reads it; then the last reader does.
    pub async fn close(self: Rc<Self>) -> Result<()> {
        match Rc::try_unwrap(self) {
            Ok(open) => {
                let file = open.file.clone();
                drop(open);
                file.close().await
            }
            Err(_) => Ok(()),
        }
    }

    pub(super) fn footer(&self) -> &Footer {
        &self.footer
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// The frame of a row index node.
    pub(super) fn node_frame(&self, node: NodeRef) -> Result<(u64, usize)> {
        let end = node.offset.checked_add(u64::from(node.bytes));
        if end.is_none_or(|end| end > self.footer.index_bytes) {
            return Err(
                self.corrupt(self.footer.index_offset, "a row index node outside its region")
            );
        }
        Ok((self.footer.index_offset + node.offset, node.bytes as usize))
    }

    /// The block or node whose frame is at `offset`, if it is in the cache.
    pub(super) fn cached(&self, offset: u64) -> Option<Rc<Slots>> {
        self.cache.get(Place { file: self.number, offset })
    }

    /// Opens a frame that was read from `offset`.
    pub(super) fn open_frame(&self, frame: &[u8], kind: Kind, offset: u64) -> Result<Rc<Slots>> {
        let raw = self.cache.opener().open(frame, kind, self.seed, offset);
        let slots = raw.and_then(Slots::open).map_err(|what| self.corrupt(offset, what))?;
        Ok(Rc::new(slots))
    }

    /// Offers a block to the cache.
    pub(super) fn keep(&self, offset: u64, block: &Rc<Slots>) {
        self.cache.insert(Place { file: self.number, offset }, block);
    }

    #[cold]
    pub(super) fn corrupt(&self, offset: u64, what: &'static str) -> Error {
        corrupt(&self.file, offset, what)
    }
}

impl Drop for Sstable {
    fn drop(&mut self) {
        self.cache.forget(self.number);
    }
}

#[cold]
fn corrupt(file: &File, offset: u64, what: &'static str) -> Error {
    Error::corrupt(file.path().as_str(), offset, what)
}

async fn read_footer(file: &File, known: &SstableIdentity, seed: u64) -> Result<Footer> {
    let bytes = known.proof.file_bytes;
    if file.len() != bytes || bytes < FOOTER_BYTES as u64 {
        let what = format!("{} bytes long instead of {bytes}", file.len());
        return Err(Error::corrupt(file.path().as_str(), file.len().min(bytes), what));
    }
    let offset = bytes - FOOTER_BYTES as u64;
    let read = file.read_exact_at(offset, FOOTER_BYTES).await?;
    let (footer, checksum) =
        Footer::decode(&read, seed, offset).map_err(|refusal| match refusal {
            Refusal::Damaged(what) => corrupt(file, offset, what),
            Refusal::Newer(found) => {
                Error::Newer { file: file.path().as_str().into(), found, known: VERSION }
            }
            Refusal::Needs(bits) => {
                Error::UnknownFeature { file: file.path().as_str().into(), bits }
            }
        })?;
    if checksum != known.proof.footer_checksum {
        return Err(corrupt(file, offset, "the footer of another file"));
    }
    if footer.id != known.id || footer.table != known.table {
        return Err(corrupt(file, offset, "the footer of another table"));
    }
    let index_end = footer.index_offset.checked_add(footer.index_bytes);
    if footer.data_bytes > footer.index_offset || index_end.is_none_or(|end| end > offset) {
        return Err(corrupt(file, offset, "regions outside the file"));
    }
    Ok(footer)
}

/// Reads the frames that stay in memory.
struct Sections<'a> {
    file: &'a File,
    seed: u64,
    cache: &'a BlockCache,
}

impl Sections<'_> {
    async fn read(&self, section: Section, kind: Kind) -> Result<Vec<u8>> {
        let Section { offset, bytes } = section;
        let end = offset.checked_add(u64::from(bytes));
        if end.is_none_or(|end| end > self.file.len()) || (bytes as usize) < HEAD_BYTES {
            return Err(corrupt(self.file, offset, "a section outside the file"));
        }
        let frame = self.file.read_exact_at(offset, bytes as usize).await?;
        let raw = self.cache.opener().open(&frame, kind, self.seed, offset);
        raw.map_err(|what| corrupt(self.file, offset, what))
    }
}
