//! An open sstable file: its directory, wide table and statistics are in memory, its blocks on disk.
//!
//! ```text
//! open   footer ─► directory, filter, wide table, statistics: each is one frame, read, verified and decoded
//! read   place ─► block cache ─(not there)─► device ─► checksum, decompression ─► `Slots` ─► block cache
//! ```
//!
//! The filter is in memory if it is small (one without pieces), or if there is space for it
//! (`BlockCache::has_space_for_index`). Of a filter that is not in memory, a read that may wait for the disk loads the
//! piece that it needs (`denies`); a read that does not wait (`may_contain`) takes a missing piece for "perhaps".
//!
//! Invariants
//! 1. A file opens only if its length, the checksum of its footer, its id and its table are those of the manifest.
//! 2. Nothing of a frame is used before its checksum was verified; the checksum knows the file and the offset
//!    (`frame.rs`).
//! 3. What directory, filter and wide table take in memory is counted by the block cache while the file is open. The
//!    drop takes it off again, and the cache forgets the blocks of the file.
//! 4. `Reading::Cached` never waits: what is not in memory is `Error::WouldBlock`.
//! 5. The descriptor may be closed between two reads; `Sstable::file` opens it again (`handle.rs`).
//!
//! Not here: the search for partitions and rows (`cursor.rs`, `entries.rs`), the check of a whole file (`verify.rs`),
//! which files are live (`manifest.rs`), the index files beside an sstable (`attached.rs`).

use std::cell::Cell;
use std::rc::Rc;

use model::bytes::compare;
use model::{TableId, Token, TokenRange};

use super::attached::Attached;
use super::directory::Directory;
use super::filter::Filter;
use super::filter_pieces::FilterPieces;
use super::footer::{FOOTER_BYTES, Footer, NEEDS_FILTER_PIECES, Refusal, Section, VERSION};
use super::frame::{HEAD_BYTES, Kind, check_sealed, seed_of};
use super::handle::Handle;
use super::row_index::NodeRef;
use super::slots::Slots;
use super::statistics::Statistics;
use super::wide::WideTable;
use super::window::Window;
use super::{FileDigest, SstableCursor, SstableId, file_name};
use crate::cache::{BlockCache, Kept, Place};
use crate::cursor::{Slice, Span};
use crate::error::{Error, Result};
use crate::io::{Disk, File, IoClass, RelPath};
use crate::planted::{Bug, planted};

/// A merge of more lanes reads short pieces, since each lane holds one.
const LONG_PIECE_LANES_MAX: usize = 4;

/// What the manifest knows of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SstableIdentity {
    /// Id of the sstable, which names its file.
    pub id: SstableId,
    /// The table whose rows the file holds.
    pub table: TableId,
    /// The length of the file and the checksum of its footer: another file of this name is refused.
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
    /// The same in pieces of [`LONG_PIECE_BYTES`](crate::limits::LONG_PIECE_BYTES).
    CompactionInLongPieces,
    /// A block at a time, past the cache but for what is there already: a job looks for single rows. A block that is
    /// longer than [`SAMPLED_BLOCK_BYTES_MAX`](crate::limits::SAMPLED_BLOCK_BYTES_MAX) is [`Error::WouldBlock`].
    Sample,
}

impl Reading {
    /// How a merge of so many lanes reads: each holds a piece, and each request costs the same processor time.
    pub(crate) const fn of_merge(lanes: usize) -> Reading {
        match lanes {
            0..=LONG_PIECE_LANES_MAX => Reading::CompactionInLongPieces,
            _ => Reading::Compaction,
        }
    }

    /// Whether blocks that the cache has are read from the file all the same.
    pub(super) const fn bypasses_cache(self) -> bool {
        matches!(self, Reading::Compaction | Reading::CompactionInLongPieces)
    }

    /// The class of its requests to the device.
    pub(super) const fn class(self) -> IoClass {
        match self {
            Reading::Cached | Reading::Point | Reading::Scan => IoClass::Read,
            Reading::Compaction | Reading::CompactionInLongPieces => IoClass::Compaction,
            Reading::Sample => IoClass::Flush,
        }
    }
}

/// An open file.
#[derive(Debug)]
pub struct Sstable {
    known: SstableIdentity,
    handle: Rc<Handle>,
    seed: u64,
    footer: Footer,
    pub(super) directory: Directory,
    filter: FileFilter,
    pub(super) wide: WideTable,
    statistics: Statistics,
    pub(super) cache: Rc<BlockCache>,
    number: u32,
    /// The files of its table's indexes that are beside it.
    pub(super) attached: Attached,
    /// Where the partitions stand of the last two entries that `named` gave: of the candidate in hand, and of the next
    /// one, which is named before the row of the first is read. A hint: who uses one compares the key.
    pub(super) named_last: Cell<[Option<HeadPlace>; 2]>,
    /// Bytes of the longest frame of a block, if that was looked for.
    pub(super) longest_block: Cell<Option<usize>>,
}

/// Where the head of a partition stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadPlace {
    pub(super) token: Token,
    pub(super) block: usize,
    pub(super) entry: usize,
}

/// Which tokens a file may hold.
#[derive(Debug)]
enum FileFilter {
    Whole(Filter),
    Pieces(FilterPieces),
}

impl Sstable {
    /// Opens the file in directory `dir` and checks that it is the one that is known. Of a filter in pieces, only those
    /// of `tokens` are loaded.
    pub async fn open(
        disk: &Disk,
        dir: &RelPath,
        known: SstableIdentity,
        cache: &Rc<BlockCache>,
        tokens: TokenRange,
    ) -> Result<Rc<Sstable>> {
        let path = dir.join(&file_name(known.id));
        let file = disk.open(&path).await?;
        let seed = seed_of(known.id);
        let footer = read_footer(&file, &known, seed).await?;
        let section = Sections { file: &file, seed, cache };
        let directory = section.read(footer.directory, Kind::Directory).await?;
        let directory = Directory::decode(&directory, footer.data_bytes)
            .map_err(|what| corrupt(&file, footer.directory.offset, what))?;
        let filter = section.read_filter(&footer, tokens).await?;
        let wide = section.read(footer.wide, Kind::Wide).await?;
        let wide = WideTable::decode(&wide, &directory, footer.index_bytes)
            .map_err(|what| corrupt(&file, footer.wide.offset, what))?;
        let statistics = section.read(footer.statistics, Kind::Statistics).await?;
        let statistics = Statistics::decode(&statistics)
            .map_err(|what| corrupt(&file, footer.statistics.offset, what))?;
        if directory.blocks() as u64 != footer.blocks {
            return Err(corrupt(&file, footer.directory.offset, "count of blocks"));
        }
        let (cache, number) = (cache.clone(), cache.number_file());
        let handle = Handle::new(disk, file, (known.id, number), cache.handles()).await;
        cache.index_grew(memory_bytes(&directory, &filter, &wide) as u64);
        let open = Sstable {
            known,
            handle,
            seed,
            footer,
            directory,
            filter,
            wide,
            statistics,
            cache,
            number,
            attached: Attached::default(),
            named_last: Cell::default(),
            longest_block: Cell::default(),
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
        memory_bytes(&self.directory, &self.filter, &self.wide)
    }

    /// Whether the file may hold a partition with this token. `false` is certain; `true` is wrong for few tokens, and may
    /// be wrong for any whose piece of the filter is not in memory.
    #[inline]
    pub fn may_contain(&self, token: Token) -> bool {
        if !self.statistics.tokens.contains(token) {
            return false;
        }
        match &self.filter {
            FileFilter::Whole(filter) => filter.may_contain(token),
            FileFilter::Pieces(pieces) => self.piece_says(pieces, token).unwrap_or(true),
        }
    }

    /// Whether the filter's piece for this token lets it through; `None` if that piece is not in memory.
    fn piece_says(&self, pieces: &FilterPieces, token: Token) -> Option<bool> {
        let Some(number) = pieces.find(token) else { return Some(false) };
        if let Some(piece) = pieces.resident(number) {
            return Some(piece.may_contain(token));
        }
        match self.cache.get(self.place(pieces.frame(number).0))? {
            Kept::Filter(piece) => Some(piece.may_contain(token)),
            Kept::Slots(_) => None,
        }
    }

    /// Whether the piece of the filter that knows of a token is not in memory.
    #[inline]
    pub(crate) fn is_unsure(&self, token: Token) -> bool {
        match &self.filter {
            FileFilter::Whole(_) => false,
            FileFilter::Pieces(pieces) => {
                self.statistics.tokens.contains(token) && self.piece_says(pieces, token).is_none()
            }
        }
    }

    /// Whether the filter denies a token that [`may_contain`](Self::may_contain) let through since its piece was not in
    /// memory: that piece is read, unless it is in memory by now.
    pub(crate) async fn denies(&self, token: Token, class: IoClass) -> Result<bool> {
        let FileFilter::Pieces(pieces) = &self.filter else { return Ok(false) };
        if let Some(says) = self.piece_says(pieces, token) {
            return Ok(!says);
        }
        let number = pieces.find(token).expect("a token that no piece can hold is denied at once");
        let (offset, bytes) = pieces.frame(number);
        let file = self.file().await?;
        let frame = file.of_class(class).read_exact_at(offset, bytes).await?;
        let piece = Rc::new(self.sections(&file).open_piece(&frame, offset)?);
        self.cache.insert(self.place(offset), &Kept::Filter(piece.clone()));
        Ok(!piece.may_contain(token))
    }

    /// The filter's pieces, if it has any.
    pub(super) fn filter_pieces(&self) -> Option<&FilterPieces> {
        match &self.filter {
            FileFilter::Whole(_) => None,
            FileFilter::Pieces(pieces) => Some(pieces),
        }
    }

    /// Reads the section of the filter and checks it.
    pub(super) async fn check_filter(&self) -> Result<()> {
        let section = self.footer.filter;
        let file = self.file().await?;
        let raw = self.sections(&file).read(section, Kind::Filter).await?;
        if self.filter_pieces().is_none() {
            Filter::decode(&raw).map_err(|what| self.corrupt(section.offset, what))?;
        }
        Ok(())
    }

    /// Checks the frame of a piece of the filter.
    pub(super) async fn check_piece(&self, frame: &[u8], offset: u64) -> Result<()> {
        self.sections(&self.file().await?).open_piece(frame, offset).map(drop)
    }

    fn sections<'s>(&'s self, file: &'s File) -> Sections<'s> {
        Sections { file, seed: self.seed, cache: &self.cache }
    }

    #[inline]
    fn place(&self, offset: u64) -> Place {
        Place { file: self.number, offset }
    }

    /// Whether no partition of the file says anything but rows and range deletions.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.statistics.statics == 0 && self.statistics.partition_deletions == 0
    }

    /// Whether the file is plain and has no row and no range deletion that begins before this place.
    pub(crate) fn is_plain_from(&self, position: &[u8]) -> bool {
        self.is_plain() && self.clusterings()[0] >= position
    }

    /// The smallest and the largest place of a row or of a border of a range deletion.
    pub(crate) fn clusterings(&self) -> [&[u8]; 2] {
        [&self.statistics.first_clustering, &self.statistics.last_clustering]
    }

    /// The key of its partition, if it has one partition.
    pub(crate) fn only_key(&self) -> Option<&[u8]> {
        let of_one = self.statistics.partitions == 1;
        self.statistics.largest.first().filter(|_| of_one).map(|(_, key)| key.as_slice())
    }

    /// Whether slices of a partition may find something in the file. All of a range deletion lies between its borders,
    /// and they are among [`clusterings`](Sstable::clusterings).
    #[inline]
    pub(crate) fn may_hold(&self, slices: &[Slice]) -> bool {
        let [first, last] = self.clusterings();
        let contains_end = |slice: &Slice| slice.contains(first) || slice.contains(last);
        !self.is_plain()
            || match planted(Bug::SkipReachingFile) {
                false => !self.slices_met(slices).is_empty(),
                true => slices.iter().any(contains_end),
            }
    }

    /// Those of the slices, which ascend and are disjoint, that may find something in the file.
    #[inline]
    pub(super) fn slices_met<'s>(&self, slices: &'s [Slice]) -> &'s [Slice] {
        let [first, last] = self.clusterings();
        let below = slices.partition_point(|slice| compare(&slice.end, first).is_le());
        let slices = &slices[below..];
        let met = slices.partition_point(|slice| compare(&slice.start, last).is_le());
        &slices[..met]
    }

    /// A cursor over what the span asks for. The caller has asked the filter before ([`may_contain`](Self::may_contain)).
    pub fn cursor<'c>(self: &Rc<Self>, span: Span<'c>, reading: Reading) -> SstableCursor<'c> {
        SstableCursor::new(self.clone(), span, reading)
    }

    /// Closes the file, unless somebody still reads it; then the last reader does.
    pub async fn close(self: Rc<Self>) -> Result<()> {
        match Rc::try_unwrap(self) {
            Ok(open) => {
                let handle = open.handle.clone();
                drop(open);
                handle.close().await
            }
            Err(_) => Ok(()),
        }
    }

    pub(super) fn footer(&self) -> &Footer {
        &self.footer
    }

    /// The file, opened again if it was closed meanwhile.
    pub(super) async fn file(&self) -> Result<File> {
        self.handle.file().await
    }

    /// The last block of the partition that `block` ends with.
    pub(super) fn run_end(&self, block: usize) -> usize {
        match self.wide.around(block).map(|wide| wide.last_block as usize) {
            // What else the last block of a wide partition holds fits into it.
            Some(last) => last,
            None => self.directory.run_end(block),
        }
    }

    /// The first block of the partition that `block` begins with.
    pub(super) fn run_start(&self, block: usize) -> usize {
        let wide = self.wide.around(block).map(|wide| wide.first_block as usize);
        match wide.filter(|first| *first < block) {
            Some(first) => first,
            None => self.directory.run_start(block),
        }
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
        match self.cache.get(self.place(offset))? {
            Kept::Slots(slots) => Some(slots),
            Kept::Filter(_) => None,
        }
    }

    /// The block or node whose frame is at `offset`: from the cache, or from the disk and kept in the cache. A sample keeps
    /// nothing there: what it reads is not asked for again.
    pub(super) async fn slots(
        &self,
        (offset, bytes): (u64, usize),
        kind: Kind,
        reading: Reading,
    ) -> Result<Rc<Slots>> {
        if let Some(slots) = self.cached(offset) {
            return Ok(slots);
        }
        if reading == Reading::Cached {
            return Err(Error::WouldBlock);
        }
        let file = self.file().await?.of_class(reading.class());
        let frame = file.read_exact_at(offset, bytes).await?;
        let slots = self.open_frame(&frame, kind, offset)?;
        if reading != Reading::Sample {
            self.keep(offset, &slots);
        }
        Ok(slots)
    }

    /// Checks a frame that was read from `offset`, and does not decompress it.
    pub(super) fn check_frame(&self, frame: &[u8], kind: Kind, offset: u64) -> Result<()> {
        check_sealed(frame, kind, self.seed, offset).map_err(|what| self.corrupt(offset, what))
    }

    /// Opens a frame that was read from `offset`.
    pub(super) fn open_frame(&self, frame: &[u8], kind: Kind, offset: u64) -> Result<Rc<Slots>> {
        let raw = self.cache.opener().open(frame, kind, self.seed, offset);
        self.cache.note_opened_block();
        let slots = raw.and_then(Slots::open).map_err(|what| self.corrupt(offset, what))?;
        Ok(Rc::new(slots))
    }

    /// Offers a block to the cache.
    pub(super) fn keep(&self, offset: u64, block: &Rc<Slots>) {
        self.cache.insert(self.place(offset), &Kept::Slots(block.clone()));
    }

    #[cold]
    pub(super) fn corrupt(&self, offset: u64, what: &'static str) -> Error {
        Error::corrupt(self.handle.path().as_str(), offset, what)
    }
}

impl Drop for Sstable {
    fn drop(&mut self) {
        self.cache.forget(self.number);
        self.cache.index_shrank(self.memory_bytes() as u64);
    }
}

fn memory_bytes(directory: &Directory, filter: &FileFilter, wide: &WideTable) -> usize {
    let filter = match filter {
        FileFilter::Whole(filter) => filter.memory_bytes(),
        FileFilter::Pieces(pieces) => pieces.memory_bytes(),
    };
    directory.memory_bytes() + filter + wide.memory_bytes()
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
    /// Reads the filter, or as much of it as there is space for.
    async fn read_filter(&self, footer: &Footer, tokens: TokenRange) -> Result<FileFilter> {
        let section = footer.filter;
        let is_in_pieces = footer.needs & NEEDS_FILTER_PIECES != 0;
        let raw = self.read(section, Kind::Filter).await?;
        let refused = |what| corrupt(self.file, section.offset, what);
        if !is_in_pieces {
            // A small one, or one of an earlier build: without it each read would ask the file.
            return Filter::decode(&raw).map(FileFilter::Whole).map_err(refused);
        }
        let mut pieces = FilterPieces::decode(&raw, section.offset).map_err(refused)?;
        if pieces.begin() < footer.data_bytes {
            return Err(corrupt(self.file, section.offset, "filter pieces among the data"));
        }
        let wanted = pieces.between(tokens.first, tokens.last);
        if self.cache.has_space_for_index(pieces.bytes(wanted.clone())) {
            let first = wanted.start;
            let mut read = Vec::with_capacity(wanted.len());
            let mut window = Window::of_check(IoClass::Check);
            for number in wanted {
                let (offset, bytes) = pieces.frame(number);
                if window.frame(offset, bytes).is_none() {
                    window.read(self.file, offset, bytes, pieces.end()).await?;
                }
                let frame = window.frame(offset, bytes).expect("it was just read");
                read.push(self.open_piece(frame, offset)?);
            }
            pieces.keep(first, read);
        }
        Ok(FileFilter::Pieces(pieces))
    }

    fn open_piece(&self, frame: &[u8], offset: u64) -> Result<Filter> {
        let raw = self.cache.opener().open(frame, Kind::FilterPiece, self.seed, offset);
        let piece = raw.and_then(|raw| Filter::decode(&raw));
        piece.map_err(|what| corrupt(self.file, offset, what))
    }

    async fn read(&self, section: Section, kind: Kind) -> Result<Vec<u8>> {
        let Section { offset, bytes } = section;
        let end = offset.checked_add(u64::from(bytes));
        if end.is_none_or(|end| end > self.file.len()) || (bytes as usize) < HEAD_BYTES {
            return Err(corrupt(self.file, offset, "a section outside the file"));
        }
        let file = self.file.of_class(IoClass::Check);
        let frame = file.read_exact_at(offset, bytes as usize).await?;
        let raw = self.cache.opener().open(&frame, kind, self.seed, offset);
        raw.map_err(|what| corrupt(self.file, offset, what))
    }
}
