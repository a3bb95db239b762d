//! The blocks of the cache: found by place, and each in two lists, that of its queue and that of its file.
//!
//! ```text
//! table: place ─► slot        slots: [ place, block │ queue: before, after │ file: before, after ]
//! ```
//!
//! Invariants
//! 1. Every operation takes the same few steps, however many blocks there are: the table is made for the most there
//!    can be, and slots lie in chunks that never move.
//! 2. A slot that is free holds no block and is in no list but that of free slots.
//!
//! Not here: which block goes (`blocks.rs`).

use std::hash::BuildHasher;
use std::rc::Rc;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};

use super::Place;
use crate::sstable::{Filter, Slots};

/// The number that names no slot.
const NOWHERE: u32 = u32::MAX;
/// Slots of one chunk.
const CHUNK_SLOTS: usize = 512;

/// The blocks. See the module.
#[derive(Debug)]
pub(super) struct Entries {
    table: HashTable<u32>,
    chunks: Vec<Vec<Entry>>,
    /// The first of the free slots, which are linked by `in_queue.after`.
    free: u32,
    /// The first block of each file that has one.
    files: HashMap<u32, u32, FixedState>,
    hasher: FixedState,
}

/// What is kept under a place.
#[derive(Clone, Debug)]
pub(crate) enum Kept {
    /// A data block, or a node of a row index.
    Slots(Rc<Slots>),
    /// A piece of a filter.
    Filter(Rc<Filter>),
}

impl Kept {
    /// Bytes in memory.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Kept::Slots(slots) => slots.memory_bytes(),
            Kept::Filter(filter) => filter.memory_bytes(),
        }
    }
}

/// A block and what the cache knows of it.
#[derive(Debug)]
pub(super) struct Entry {
    /// What names the block.
    pub(super) place: Place,
    /// The block; `None` in a free slot.
    pub(super) block: Option<Kept>,
    /// What it counts as.
    pub(super) bytes: u32,
    /// How often it was asked for since it was last looked at, up to a number.
    pub(super) asked: u8,
    /// Which of the queues it stands in.
    pub(super) in_main: bool,
    in_queue: Links,
    in_file: Links,
}

#[derive(Clone, Copy, Debug)]
struct Links {
    before: u32,
    after: u32,
}

const ALONE: Links = Links { before: NOWHERE, after: NOWHERE };

/// Blocks in the order they came.
#[derive(Debug)]
pub(super) struct Queue {
    first: u32,
    last: u32,
    /// How many blocks.
    pub(super) len: usize,
    /// What they count as.
    pub(super) bytes: u64,
}

impl Default for Queue {
    fn default() -> Self {
        Queue { first: NOWHERE, last: NOWHERE, len: 0, bytes: 0 }
    }
}

impl Queue {
    /// The block that came first.
    pub(super) fn front(&self) -> Option<u32> {
        (self.first != NOWHERE).then_some(self.first)
    }
}

impl Entries {
    /// Place for so many blocks.
    pub(super) fn new(entries_max: usize) -> Entries {
        Entries {
            // Twice as many: names that left would else make it tidy up all it holds at once.
            table: HashTable::with_capacity(2 * entries_max),
            chunks: Vec::new(),
            free: NOWHERE,
            files: HashMap::with_hasher(FixedState::default()),
            hasher: FixedState::default(),
        }
    }

    /// How many blocks there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// The slot of a block.
    #[inline]
    pub(super) fn find(&self, place: Place) -> Option<u32> {
        let hash = self.hasher.hash_one(place);
        self.table.find(hash, |&slot| self.get(slot).place == place).copied()
    }

    /// The first block of a file.
    pub(super) fn first_of(&self, file: u32) -> Option<u32> {
        self.files.get(&file).copied()
    }

    #[inline]
    fn get(&self, slot: u32) -> &Entry {
        &self.chunks[slot as usize / CHUNK_SLOTS][slot as usize % CHUNK_SLOTS]
    }

    /// What lies in a slot.
    #[inline]
    pub(super) fn get_mut(&mut self, slot: u32) -> &mut Entry {
        &mut self.chunks[slot as usize / CHUNK_SLOTS][slot as usize % CHUNK_SLOTS]
    }

    /// Takes a block in, which is in no queue yet.
    pub(super) fn add(&mut self, place: Place, block: Kept, bytes: u32) -> u32 {
        let after = self.files.get(&place.file).copied().unwrap_or(NOWHERE);
        let in_file = Links { before: NOWHERE, after };
        let (asked, in_main) = (0, false);
        let block = Some(block);
        let slot =
            self.put(Entry { place, block, bytes, asked, in_main, in_queue: ALONE, in_file });
        if after != NOWHERE {
            self.get_mut(after).in_file.before = slot;
        }
        self.files.insert(place.file, slot);
        let (chunks, hasher) = (&self.chunks, &self.hasher);
        let hash_of = |&slot: &u32| {
            hasher.hash_one(chunks[slot as usize / CHUNK_SLOTS][slot as usize % CHUNK_SLOTS].place)
        };
        self.table.insert_unique(hasher.hash_one(place), slot, hash_of);
        slot
    }

    fn put(&mut self, entry: Entry) -> u32 {
        let slot = self.free;
        if slot != NOWHERE {
            self.free = self.get(slot).in_queue.after;
            *self.get_mut(slot) = entry;
            return slot;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_SLOTS) {
            self.chunks.push(Vec::with_capacity(CHUNK_SLOTS));
        }
        let before = (self.chunks.len() - 1) * CHUNK_SLOTS;
        let chunk = self.chunks.last_mut().expect("it was just pushed");
        chunk.push(entry);
        let slot = u32::try_from(before + chunk.len() - 1).expect("memory ends before 2^32 blocks");
        assert_ne!(slot, NOWHERE, "that number names no slot");
        slot
    }

    /// Drops a block that is in no queue any more.
    pub(super) fn remove(&mut self, slot: u32) {
        let Entry { place, in_file, .. } = *self.get(slot);
        if in_file.after != NOWHERE {
            self.get_mut(in_file.after).in_file.before = in_file.before;
        }
        if in_file.before != NOWHERE {
            self.get_mut(in_file.before).in_file.after = in_file.after;
        } else if in_file.after != NOWHERE {
            self.files.insert(place.file, in_file.after);
        } else {
            self.files.remove(&place.file);
        }
        let hash = self.hasher.hash_one(place);
        let found = self.table.find_entry(hash, |&other| other == slot);
        found.expect("a block is found by its place").remove();
        let free = self.free;
        let entry = self.get_mut(slot);
        entry.block = None;
        entry.in_queue.after = free;
        self.free = slot;
    }

    /// Puts a block at the end of a queue.
    pub(super) fn push_back(&mut self, queue: &mut Queue, slot: u32) {
        let entry = self.get_mut(slot);
        entry.in_queue = Links { before: queue.last, after: NOWHERE };
        queue.bytes += u64::from(entry.bytes);
        queue.len += 1;
        match queue.last {
            NOWHERE => queue.first = slot,
            last => self.get_mut(last).in_queue.after = slot,
        }
        queue.last = slot;
    }

    /// Takes a block out of its queue.
    pub(super) fn unlink(&mut self, queue: &mut Queue, slot: u32) {
        let Entry { in_queue: Links { before, after }, bytes, .. } = *self.get(slot);
        match before {
            NOWHERE => queue.first = after,
            before => self.get_mut(before).in_queue.after = after,
        }
        match after {
            NOWHERE => queue.last = before,
            after => self.get_mut(after).in_queue.before = before,
        }
        queue.len -= 1;
        queue.bytes -= u64::from(bytes);
    }
}
