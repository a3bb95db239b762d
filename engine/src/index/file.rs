//! An open index file: the root of its directory is in memory, its other frames come through the block cache.
//!
//! ```text
//! term ─► root ─► node, if the directory has nodes ─► block of terms ─► places, or skips ─► postings
//!         memory   └──────────────────── block cache, or one read each ───────────────────────────┘
//! ```
//!
//! `open` reads the footer and the root. `slots` gives any other frame: from the cache, or read, verified, and kept
//! there. `verify` reads a file that was just written from its first frame to its last, and compares the digest with
//! the footer's.
//!
//! Invariants
//! 1. A file is used only if its footer names this sstable (its id and the checksum of its footer), this table, this
//!    index and what the index indexes. Otherwise `open` is `Error::Corrupt`, and the caller does without the file.
//! 2. An offset that the file gives is used only if the frame lies before the directory (`slots`).
//! 3. Each kind of frame has its own number in the cache: a wrong offset cannot give a cached frame of another kind.
//! 4. What the root takes in memory is counted by the block cache while the file is open.
//!
//! Not here: the items of a directory (`directory.rs`), the walk over terms (`walk.rs`), the places of a term
//! (`postings.rs`), how a file is written (`writer.rs`), which index files a shard has open (`sstable/attached.rs`).
//! The bytes are in `FORMAT.md`.

use std::rc::Rc;

use model::schema::{Index, IndexId, Table};
use uuid::Uuid;

use super::directory::{self, Below, hash_of};
use super::footer::{FOOTER_BYTES, Footer, fingerprint, seed_of};
use crate::cache::{BlockCache, Kept, Place as CachePlace};
use crate::error::{Error, Result};
use crate::io::{Disk, File, IoClass, RelPath};
use crate::pause::Pause;
use crate::sstable::frame::{HEAD_BYTES, Kind, checksum_of, length_of};
use crate::sstable::slots::Slots;
use crate::sstable::window::Window;
use crate::sstable::{FileDigest, Filter, Handle, Reading, SstableId, digest};

/// Where the kind of a frame stands in its head.
const KIND_AT: usize = 16;

/// The kinds of frames in an index file.
const KINDS: [Kind; 4] = [Kind::Terms, Kind::Postings, Kind::Skips, Kind::TermDirectory];

/// The name of the file in its table's directory.
pub(crate) fn file_name(sstable: SstableId, index: IndexId) -> String {
    format!("{sstable}-{}.idx", index.0)
}

/// The sstable and the index whose file has this name.
pub(crate) fn sstable_of(name: &str) -> Option<(Uuid, IndexId)> {
    let (sstable, index) = name.strip_suffix(".idx")?.rsplit_once('-')?;
    Some((Uuid::parse_str(sstable).ok()?, IndexId(index.parse().ok()?)))
}

/// An open index file.
#[derive(Debug)]
pub(crate) struct IndexFile {
    handle: Rc<Handle>,
    seed: u64,
    footer: Footer,
    /// Absent if there are no terms.
    directory: Option<Slots>,
    cache: Rc<BlockCache>,
    /// The numbers of the file in the cache, one for each kind of frame: no frame comes back as one of another kind.
    numbers: [u32; KINDS.len()],
}

impl IndexFile {
    /// Opens the file that an index has in directory `dir` beside this sstable, whose `proof` is known.
    pub(crate) async fn open(
        (disk, dir): (&Disk, &RelPath),
        (sstable, proof): (SstableId, FileDigest),
        (table, index): (&Table, &Index),
        cache: &Rc<BlockCache>,
    ) -> Result<Rc<IndexFile>> {
        let path = dir.join(&file_name(sstable, index.id));
        IndexFile::open_at((disk, &path), (sstable, proof), (table, index), cache).await
    }

    async fn open_at(
        (disk, path): (&Disk, &RelPath),
        (sstable, proof): (SstableId, FileDigest),
        (table, index): (&Table, &Index),
        cache: &Rc<BlockCache>,
    ) -> Result<Rc<IndexFile>> {
        let file = disk.open(path).await?.of_class(IoClass::Check);
        let seed = seed_of(sstable, index.id);
        let corrupt = |offset, what| Error::corrupt(path.as_str(), offset, what);
        let offset = file.len().checked_sub(FOOTER_BYTES as u64);
        let offset = offset.ok_or_else(|| corrupt(0, "an index file without footer"))?;
        let read = file.read_exact_at(offset, FOOTER_BYTES).await?;
        let footer = Footer::decode(&read, seed, offset).map_err(|what| corrupt(offset, what))?;
        let is_ours = footer.sstable == sstable
            && footer.table == table.id.0
            && footer.index == index.id
            && footer.of == fingerprint(table, index)
            && footer.sstable_checksum == proof.footer_checksum;
        if !is_ours {
            return Err(corrupt(offset, "the index of another sstable"));
        }
        let (at, bytes) = (footer.directory_offset, footer.directory_bytes as usize);
        if at.checked_add(bytes as u64).is_none_or(|end| end > offset) {
            return Err(corrupt(offset, "a directory outside the file"));
        }
        let directory = match bytes {
            0 => None,
            _ => {
                let frame = file.read_exact_at(at, bytes).await?;
                let raw = cache.opener().open(&frame, Kind::TermDirectory, seed, at);
                Some(raw.and_then(Slots::open).map_err(|what| corrupt(at, what))?)
            }
        };
        let in_root = directory.as_ref().map_or(0, Slots::count) as u64;
        let has_root = in_root > 0 || footer.blocks == 0;
        if !has_root || footer.has_nodes != (in_root < footer.blocks) || in_root > footer.blocks {
            return Err(corrupt(at, "the count of blocks in a directory"));
        }
        let numbers = KINDS.map(|_| cache.number_file());
        let handle = Handle::new(disk, file, (sstable, numbers[0]), cache.handles()).await;
        let open = IndexFile { handle, seed, footer, directory, cache: cache.clone(), numbers };
        open.cache.index_grew(open.memory_bytes());
        Ok(Rc::new(open))
    }

    /// Reads a file that was just written, whole, and checks it. `pause` is awaited before each read.
    pub(super) async fn verify(
        (disk, path): (&Disk, &RelPath),
        known: (SstableId, FileDigest),
        of: (&Table, &Index),
        class: IoClass,
        pause: &dyn Pause,
    ) -> Result<()> {
        let cache = BlockCache::new(0);
        let open = IndexFile::open_at((disk, path), known, of, &cache).await?;
        let file = open.handle.file().await?;
        let mut window = Window::of_check(class);
        let end = open.footer.directory_offset + u64::from(open.footer.directory_bytes);
        let (mut offset, mut sum) = (0, 0);
        while offset < end {
            if window.frame(offset, HEAD_BYTES).is_none() {
                pause.take().await;
                window.read(&file, offset, HEAD_BYTES, end).await?;
            }
            let head = window.frame(offset, HEAD_BYTES).expect("it was just read");
            let (kind, bytes) = (kind_of(head), length_of(head));
            let (Some(kind), Some(bytes)) = (kind, bytes.filter(|n| *n as u64 <= end - offset))
            else {
                return Err(open.corrupt(offset, "a region of frames"));
            };
            if window.frame(offset, bytes).is_none() {
                window.read(&file, offset, bytes, end).await?;
            }
            let frame = window.frame(offset, bytes).expect("it was just read");
            open.open_frame(frame, kind, offset)?;
            sum = digest(sum, checksum_of(frame));
            offset += bytes as u64;
        }
        if sum != open.footer.digest {
            return Err(open.corrupt(0, "digest of an index file"));
        }
        drop(file);
        open.handle.close().await
    }

    /// The index to which the file belongs.
    pub(crate) fn index(&self) -> IndexId {
        self.footer.index
    }

    /// Where the file is.
    pub(crate) fn path(&self) -> &RelPath {
        self.handle.path()
    }

    /// Bytes of memory it takes while it is open, blocks apart.
    fn memory_bytes(&self) -> u64 {
        self.directory.as_ref().map_or(0, |directory| directory.memory_bytes() as u64)
    }

    /// How many blocks of terms.
    pub(super) fn blocks(&self) -> usize {
        self.footer.blocks as usize
    }

    /// Whether its directory is in nodes.
    #[cfg(test)]
    pub(super) fn has_nodes(&self) -> bool {
        self.footer.has_nodes
    }

    /// Bytes of its frames.
    pub(crate) fn bytes(&self) -> u64 {
        self.footer.directory_offset + u64::from(self.footer.directory_bytes)
    }

    /// How many postings.
    pub(super) fn postings(&self) -> u64 {
        self.footer.postings
    }

    fn damaged(&self) -> Error {
        self.corrupt(self.footer.directory_offset, "directory of terms")
    }

    fn root(&self) -> &Slots {
        self.directory.as_ref().expect("a file with terms has one")
    }

    /// The node that an item of the root leads to, and the number of the node's first block of terms.
    async fn node(&self, at: usize, reading: Reading) -> Result<(Rc<Slots>, usize)> {
        let (_, node) = directory::item(self.root(), at).map_err(|_| self.damaged())?;
        let slots = self.slots((node.offset, node.bytes), Kind::TermDirectory, reading).await?;
        Ok((slots, node.first()))
    }

    /// A block of terms.
    pub(super) async fn block(&self, block: usize, reading: Reading) -> Result<Below> {
        let damaged = |_| self.damaged();
        if !self.footer.has_nodes {
            return Ok(directory::item(self.root(), block).map_err(damaged)?.1);
        }
        let is_behind = |_: &[u8], node: &Below| node.first() > block;
        let at = directory::last_not_behind(self.root(), is_behind).map_err(damaged)?;
        let (slots, first) = self.node(at, reading).await?;
        let at = block.checked_sub(first).filter(|at| *at < slots.count());
        let at = at.ok_or_else(|| self.damaged())?;
        Ok(directory::item(&slots, at).map_err(damaged)?.1)
    }

    /// The block that holds the term, or would; 0 in a file without terms.
    pub(super) async fn block_of(&self, term: &[u8], reading: Reading) -> Result<usize> {
        if self.blocks() == 0 {
            return Ok(0);
        }
        let (_, first, at) = self.item_of(term, reading).await?;
        let block = first.checked_add(at).filter(|block| *block < self.blocks());
        block.ok_or_else(|| self.damaged())
    }

    /// Whether the file may have a term, as the filter of its block says: never wrong when it says no.
    pub(super) async fn may_have(&self, term: &[u8], reading: Reading) -> Result<bool> {
        if self.blocks() == 0 {
            return Ok(false);
        }
        let (node, _, at) = self.item_of(term, reading).await?;
        let slots = node.as_deref().unwrap_or_else(|| self.root());
        let filter = directory::filter(slots, at).map_err(|_| self.damaged())?;
        Filter::encoded_may_contain(filter, hash_of(term)).map_err(|_| self.damaged())
    }

    /// What leads to the block that holds the term, or would: the node, if it is not the root, the number of its first
    /// block, and the item in it. The file has blocks.
    async fn item_of(
        &self,
        term: &[u8],
        reading: Reading,
    ) -> Result<(Option<Rc<Slots>>, usize, usize)> {
        let damaged = |_| self.damaged();
        let is_behind = |from: &[u8], _: &Below| from > term;
        let at = directory::last_not_behind(self.root(), is_behind).map_err(damaged)?;
        if !self.footer.has_nodes {
            return Ok((None, 0, at));
        }
        let (slots, first) = self.node(at, reading).await?;
        let at = directory::last_not_behind(&slots, is_behind).map_err(damaged)?;
        Ok((Some(slots), first, at))
    }

    /// The list whose frame is at `offset`, by the cache.
    pub(super) async fn slots(
        &self,
        (offset, bytes): (u64, usize),
        kind: Kind,
        reading: Reading,
    ) -> Result<Rc<Slots>> {
        let number = KINDS.iter().position(|of| *of == kind).expect("a kind of an index file");
        let place = CachePlace { file: self.numbers[number], offset };
        if let Some(Kept::Slots(slots)) = self.cache.get(place) {
            return Ok(slots);
        }
        if reading == Reading::Cached {
            return Err(Error::WouldBlock);
        }
        let end = offset.checked_add(bytes as u64);
        if end.is_none_or(|end| end > self.footer.directory_offset) || bytes < HEAD_BYTES {
            return Err(self.corrupt(offset, "a block outside its region"));
        }
        let file: File = self.handle.file().await?.of_class(IoClass::Read);
        let frame = file.read_exact_at(offset, bytes).await?;
        let slots = Rc::new(self.open_frame(&frame, kind, offset)?);
        self.cache.note_opened_block();
        self.cache.insert(place, &Kept::Slots(slots.clone()));
        Ok(slots)
    }

    fn open_frame(&self, frame: &[u8], kind: Kind, offset: u64) -> Result<Slots> {
        let raw = self.cache.opener().open(frame, kind, self.seed, offset);
        raw.and_then(Slots::open).map_err(|what| self.corrupt(offset, what))
    }

    #[cold]
    pub(super) fn corrupt(&self, offset: u64, what: &'static str) -> Error {
        Error::corrupt(self.handle.path().as_str(), offset, what)
    }
}

impl Drop for IndexFile {
    fn drop(&mut self) {
        self.numbers.iter().for_each(|number| self.cache.forget(*number));
        self.cache.index_shrank(self.memory_bytes());
    }
}

/// What a frame says that it holds; nothing of it is believed yet.
fn kind_of(head: &[u8]) -> Option<Kind> {
    KINDS.into_iter().find(|kind| head.get(KIND_AT) == Some(&(*kind as u8)))
}
