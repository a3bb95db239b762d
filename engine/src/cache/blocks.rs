//! The block cache of a shard: three queues and a byte budget (S3-FIFO, Yang et al., SOSP 2023).
//!
//! ```text
//! insert ─► small (a tenth) ── asked for again ──► main ──┐ asked for since: once more around
//!              │ never asked for                    ▲ └───┘
//!              └─► ghosts (names only) ─ comes again ┘       else it goes
//! ```
//!
//! Most blocks of a scan are asked for once and pass through the small queue without touching the rest.
//! A hit sets a counter and moves nothing. Blocks are handed out as `Rc`: one that is evicted lives on
//! while somebody reads it.
//!
//! Invariants
//! 1. No call walks the cache: an insert takes out what it brings in bytes, and beside that at most [`BURIED_AT_ONCE`]
//!    blocks of files that are gone and [`SPARED_AT_ONCE`] that were asked for; a file is forgotten by its name.
//! 2. Nothing is moved when the cache grows (`entries.rs`, `ghosts.rs`).
//!
//! Not here: who may use the cache (compaction reads around it), and parsed rows.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::Rc;

use super::entries::{Entries, Kept, Queue};
use super::ghosts::Ghosts;
use crate::limits::{
    BLOCKS_LEFT_DIVISOR, CACHED_BLOCK_BYTES_MAX, INDEX_BLOCKS_DIVISOR, KEY_AHEAD_BLOCKS_DIVISOR,
};
use crate::planted::{Bug, planted};
use crate::sstable::{Handles, Opener, WindowBytes};

/// The small queue has 1/10 of the budget.
const SMALL_DIVISOR: u64 = 10;
/// A counter goes no higher: so often a block of the main queue is spared.
const ASKED_MAX: u8 = 3;
/// What an entry costs beside its bytes.
const ENTRY_BYTES: u64 = 96;
/// An entry counts as so many bytes at least: the budget bounds how many there are.
const ENTRY_BYTES_MIN: u64 = 1 << 10;
/// How many blocks of files that are gone one call drops.
const BURIED_AT_ONCE: u32 = 16;
/// How many blocks one insert spares because they were asked for; the next one goes all the same.
const SPARED_AT_ONCE: u32 = 64;

/// What names a block: the file's number in this cache, and the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) file: u32,
    pub(crate) offset: u64,
}

/// What the cache has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Blocks that were found in the cache.
    pub hits: u64,
    /// Blocks not found.
    pub misses: u64,
    /// Bytes held now.
    pub bytes: u64,
}

/// A cache of verified, decompressed blocks with a limit in bytes.
#[derive(Debug)]
pub struct BlockCache {
    queues: RefCell<Queues>,
    opener: RefCell<Opener>,
    handles: Rc<Handles>,
    files: Cell<u32>,
    /// Blocks that were read and opened, kept here or not.
    opened_blocks: Cell<u64>,
    budget_bytes: Cell<u64>,
    index_bytes: Cell<u64>,
    /// How many index files could not be used so far.
    lost_indexes: Cell<u64>,
    window_bytes: Rc<WindowBytes>,
}

#[derive(Debug)]
struct Queues {
    budget_bytes: u64,
    entries: Entries,
    small: Queue,
    main: Queue,
    /// Names of blocks that left the small queue unasked.
    ghosts: Ghosts,
    /// Files that are gone, and have or had blocks here.
    gone: VecDeque<u32>,
    counts: CacheCounts,
    /// Blocks that were moved or dropped, for tests.
    #[cfg(test)]
    steps: u64,
}

impl BlockCache {
    /// An empty cache that may hold so many bytes; indexes of files may take half as many beside it.
    pub fn new(budget_bytes: u64) -> Rc<BlockCache> {
        let entries_max = budget_bytes / ENTRY_BYTES_MIN;
        let queues = Queues {
            budget_bytes,
            entries: Entries::new(entries_max as usize),
            small: Queue::default(),
            main: Queue::default(),
            ghosts: Ghosts::new(entries_max / 4),
            gone: VecDeque::new(),
            counts: CacheCounts::default(),
            #[cfg(test)]
            steps: 0,
        };
        let (opener, handles, window_bytes) = Default::default();
        let (queues, files, index_bytes) = (RefCell::new(queues), Cell::new(0), Cell::new(0));
        let budget_bytes = Cell::new(budget_bytes);
        let (opened_blocks, lost_indexes) = (Cell::new(0), Cell::new(0));
        Rc::new(BlockCache {
            queues,
            opener,
            handles,
            files,
            opened_blocks,
            budget_bytes,
            index_bytes,
            lost_indexes,
            window_bytes,
        })
    }

    /// What the pieces have grown by in which reads of keys walk through files, and the most that this may be.
    pub(crate) fn window_space(&self) -> (&Rc<WindowBytes>, u64) {
        (&self.window_bytes, self.budget_bytes.get() / KEY_AHEAD_BLOCKS_DIVISOR)
    }

    /// An index file cannot be used any more.
    pub(crate) fn note_lost_index(&self) {
        self.lost_indexes.set(self.lost_indexes.get() + 1);
    }

    /// How many index files could not be used so far: who looks for them again compares.
    pub(crate) fn lost_indexes(&self) -> u64 {
        self.lost_indexes.get()
    }

    /// Hits and misses since the start, and the bytes held now.
    pub fn counts(&self) -> CacheCounts {
        let queues = self.queues.borrow();
        CacheCounts { bytes: queues.bytes(), ..queues.counts }
    }

    /// Bytes that directories, wide tables and filters of open files take.
    pub fn index_bytes(&self) -> u64 {
        self.index_bytes.get()
    }

    /// Whether so many bytes of a filter may stay in memory: half of the space that is left for indexes, so that small
    /// ones find some after the largest came.
    pub(crate) fn has_space_for_index(&self, bytes: u64) -> bool {
        let space = self.budget_bytes.get() / INDEX_BLOCKS_DIVISOR;
        bytes <= space.saturating_sub(self.index_bytes.get()) / 2
    }

    /// The cache may hold so many bytes from now on; what is too much goes with the next inserts.
    pub(crate) fn set_budget(&self, bytes: u64) {
        self.budget_bytes.set(bytes);
        self.set_index_bytes(self.index_bytes.get());
    }

    /// A file was opened whose index takes so many bytes.
    pub(crate) fn index_grew(&self, bytes: u64) {
        self.set_index_bytes(self.index_bytes.get() + bytes);
    }

    /// A file was closed.
    pub(crate) fn index_shrank(&self, bytes: u64) {
        let left = self.index_bytes.get().checked_sub(bytes);
        self.set_index_bytes(left.expect("what goes was counted when it came"));
    }

    /// What indexes take beyond their part, blocks have less; what is too much goes with the next inserts.
    fn set_index_bytes(&self, bytes: u64) {
        self.index_bytes.set(bytes);
        let budget_bytes = self.budget_bytes.get();
        let over = bytes.saturating_sub(budget_bytes / INDEX_BLOCKS_DIVISOR);
        let left = budget_bytes.saturating_sub(over).max(budget_bytes / BLOCKS_LEFT_DIVISOR);
        self.queues.borrow_mut().budget_bytes = left;
    }

    /// How many blocks were read and opened, since they were not here or are not kept.
    pub(crate) fn opened_blocks(&self) -> u64 {
        self.opened_blocks.get()
    }

    /// How often a block was asked for and was here.
    pub(crate) fn hits(&self) -> u64 {
        self.queues.borrow().counts.hits
    }

    /// A block was read and opened.
    pub(crate) fn note_opened_block(&self) {
        self.opened_blocks.set(self.opened_blocks.get() + 1);
    }

    /// A number for a file that was opened; never given twice.
    pub(crate) fn number_file(&self) -> u32 {
        if planted(Bug::CacheMixesFiles) {
            return 0;
        }
        let number = self.files.get();
        self.files.set(number.checked_add(1).expect("a shard opens fewer files in its life"));
        number
    }

    /// What opens the frames of all files here: its memory is used again.
    pub(crate) fn opener(&self) -> RefMut<'_, Opener> {
        self.opener.borrow_mut()
    }

    /// The descriptors of the files whose blocks are kept here.
    pub(crate) fn handles(&self) -> &Rc<Handles> {
        &self.handles
    }

    /// The block, if it is here.
    #[inline]
    pub(crate) fn get(&self, place: Place) -> Option<Kept> {
        let queues = &mut *self.queues.borrow_mut();
        let Some(slot) = queues.entries.find(place) else {
            queues.counts.misses += 1;
            return None;
        };
        queues.counts.hits += 1;
        let entry = queues.entries.get_mut(slot);
        entry.asked = (entry.asked + 1).min(ASKED_MAX);
        entry.block.clone()
    }

    /// Keeps a block, unless it is one of the largest; whatever the budget is, the caller has its own `Rc`.
    pub(crate) fn insert(&self, place: Place, block: &Kept) {
        self.queues.borrow_mut().insert(place, block.clone());
    }

    /// A file is not read any more: the next calls drop its blocks.
    pub(crate) fn forget(&self, file: u32) {
        let queues = &mut *self.queues.borrow_mut();
        queues.gone.push_back(file);
        queues.bury(BURIED_AT_ONCE);
    }
}

impl Queues {
    fn bytes(&self) -> u64 {
        self.small.bytes + self.main.bytes
    }

    fn insert(&mut self, place: Place, block: Kept) {
        self.bury(BURIED_AT_ONCE);
        let bytes = (block.memory_bytes() as u64 + ENTRY_BYTES).max(ENTRY_BYTES_MIN);
        let bytes_max = self.budget_bytes.min(CACHED_BLOCK_BYTES_MAX);
        if bytes > bytes_max || self.entries.find(place).is_some() {
            return;
        }
        let in_main = self.ghosts.contains(place, self.main.len);
        let slot = self.entries.add(place, block, bytes as u32);
        self.entries.get_mut(slot).in_main = in_main;
        let queue = if in_main { &mut self.main } else { &mut self.small };
        self.entries.push_back(queue, slot);
        self.evict(2 * bytes);
        self.check();
    }

    /// Each block stands in one queue, and no bytes are held but those of blocks.
    fn check(&self) {
        assert_eq!(
            self.small.len + self.main.len,
            self.entries.len(),
            "each block stands in one queue"
        );
        assert!(self.entries.len() > 0 || self.bytes() == 0, "bytes are of a block");
    }

    /// Takes out what is over the budget, and of that no more than `bytes_max` and a block.
    fn evict(&mut self, bytes_max: u64) {
        let before = self.bytes();
        let mut spared = 0;
        while self.bytes() > self.budget_bytes && before - self.bytes() < bytes_max {
            if self.bury(1) {
                continue;
            }
            let small_is_long = self.small.bytes > self.budget_bytes / SMALL_DIVISOR;
            let from_small = small_is_long || self.main.len == 0;
            let queue = if from_small { &mut self.small } else { &mut self.main };
            let slot = queue.front().expect("bytes are of a block");
            let entry = self.entries.get_mut(slot);
            assert_eq!(entry.in_main, !from_small, "a block stands in one queue");
            if entry.asked > 0 && spared < SPARED_AT_ONCE {
                spared += 1;
                entry.asked = if from_small { 0 } else { entry.asked - 1 };
                entry.in_main = true;
                self.entries.unlink(queue, slot);
                self.entries.push_back(&mut self.main, slot);
                self.count_step();
                continue;
            }
            if from_small {
                self.ghosts.add(entry.place);
            }
            self.drop_block(slot);
        }
    }

    /// Drops up to `count` blocks of files that are gone; whether one was dropped.
    fn bury(&mut self, count: u32) -> bool {
        let mut dropped = 0;
        while let Some(&file) = self.gone.front().filter(|_| dropped < count) {
            match self.entries.first_of(file) {
                Some(slot) => {
                    self.drop_block(slot);
                    dropped += 1;
                }
                None => {
                    self.gone.pop_front();
                }
            }
        }
        dropped > 0
    }

    fn drop_block(&mut self, slot: u32) {
        let in_main = self.entries.get_mut(slot).in_main;
        let queue = if in_main { &mut self.main } else { &mut self.small };
        self.entries.unlink(queue, slot);
        self.entries.remove(slot);
        self.count_step();
    }

    fn count_step(&mut self) {
        #[cfg(test)]
        {
            self.steps += 1;
        }
    }
}

#[cfg(test)]
mod tests;
