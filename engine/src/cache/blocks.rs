//! The block cache of a shard: three queues and a byte budget (S3-FIFO, Yang et al., SOSP 2023).
//!
//! ```text
//! insert ─► small (a tenth) ── asked for again ──► main ──┐ asked for since: once more around
//!              │ never asked for                    ▲ └───┘
//!              └─► ghost (names only) ── comes again ┘        else it goes
//! ```
//!
//! Most blocks of a scan are asked for once and pass through the small queue without touching the rest.
//! A hit sets a counter and moves nothing. Blocks are handed out as `Rc`: one that is evicted lives on
//! while somebody reads it.
//!
//! Not here: who may use the cache (compaction reads around it), and parsed rows.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::Rc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::planted::{Bug, planted};
use crate::sstable::{Opener, Slots};

/// The small queue has this part of the budget.
const SMALL_PART: u64 = 10;
/// A counter goes no higher: so often a block of the main queue is spared.
const ASKED_MAX: u8 = 3;
/// What an entry costs beside its bytes.
const ENTRY_BYTES: u64 = 96;

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
    files: Cell<u32>,
}

#[derive(Debug)]
struct Queues {
    budget_bytes: u64,
    blocks: HashMap<Place, Entry, FixedState>,
    small: Queue,
    main: Queue,
    /// Names of blocks that left the small queue unasked, and how often each stands in the queue.
    ghost: VecDeque<Place>,
    ghosts: HashMap<Place, u32, FixedState>,
    counts: CacheCounts,
}

#[derive(Debug, Default)]
struct Queue {
    order: VecDeque<Place>,
    bytes: u64,
}

#[derive(Debug)]
struct Entry {
    block: Rc<Slots>,
    bytes: u64,
    asked: u8,
    in_main: bool,
}

impl BlockCache {
    /// An empty cache that may hold so many bytes.
    pub fn new(budget_bytes: u64) -> Rc<BlockCache> {
        let hasher = || FixedState::default();
        let queues = Queues {
            budget_bytes,
            blocks: HashMap::with_hasher(hasher()),
            small: Queue::default(),
            main: Queue::default(),
            ghost: VecDeque::new(),
            ghosts: HashMap::with_hasher(hasher()),
            counts: CacheCounts::default(),
        };
        let opener = RefCell::default();
        Rc::new(BlockCache { queues: RefCell::new(queues), opener, files: Cell::new(0) })
    }

    /// Changes the budget; what is too much goes at once.
    #[cfg(test)]
    fn set_budget(&self, budget_bytes: u64) {
        let mut queues = self.queues.borrow_mut();
        queues.budget_bytes = budget_bytes;
        queues.evict();
    }

    /// Hits and misses since the start, and the bytes held now.
    pub fn counts(&self) -> CacheCounts {
        let queues = self.queues.borrow();
        CacheCounts { bytes: queues.bytes(), ..queues.counts }
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

    /// The block, if it is here.
    #[inline]
    pub(crate) fn get(&self, place: Place) -> Option<Rc<Slots>> {
        let queues = &mut *self.queues.borrow_mut();
        let Some(entry) = queues.blocks.get_mut(&place) else {
            queues.counts.misses += 1;
            return None;
        };
        queues.counts.hits += 1;
        entry.asked = (entry.asked + 1).min(ASKED_MAX);
        Some(entry.block.clone())
    }

    /// Keeps a block; whatever the budget is, the caller has its own `Rc`.
    pub(crate) fn insert(&self, place: Place, block: &Rc<Slots>) {
        self.queues.borrow_mut().insert(place, block.clone());
    }

    /// Drops all blocks of a file that is not read any more.
    pub(crate) fn forget(&self, file: u32) {
        self.queues.borrow_mut().forget(file);
    }
}

impl Queues {
    fn bytes(&self) -> u64 {
        self.small.bytes + self.main.bytes
    }

    fn insert(&mut self, place: Place, block: Rc<Slots>) {
        let bytes = block.memory_bytes() as u64 + ENTRY_BYTES;
        if self.blocks.contains_key(&place) || bytes > self.budget_bytes {
            return;
        }
        let in_main = self.ghosts.contains_key(&place);
        let queue = if in_main { &mut self.main } else { &mut self.small };
        queue.order.push_back(place);
        queue.bytes += bytes;
        self.blocks.insert(place, Entry { block, bytes, asked: 0, in_main });
        self.evict();
        self.check();
    }

    /// Each block stands in one queue, and no bytes are held but those of blocks.
    fn check(&self) {
        let queued = self.small.order.len() + self.main.order.len();
        assert_eq!(queued, self.blocks.len(), "each block stands in one queue");
        assert!(self.bytes() <= self.budget_bytes, "the cache stays within its budget");
        assert!(!self.blocks.is_empty() || self.bytes() == 0, "bytes are of a block");
        assert!(self.ghosts.len() <= self.ghost.len(), "a name that is known stands in the queue");
    }

    fn evict(&mut self) {
        while self.bytes() > self.budget_bytes {
            let small_is_long = self.small.bytes > self.budget_bytes / SMALL_PART;
            if small_is_long || self.main.order.is_empty() {
                self.evict_small();
            } else {
                self.evict_main();
            }
        }
    }

    fn evict_small(&mut self) {
        let place = self.small.order.pop_front().expect("bytes are of a block");
        let entry = self.blocks.get_mut(&place).expect("a block in a queue is held");
        assert!(!entry.in_main, "a block stands in one queue");
        self.small.bytes -= entry.bytes;
        if entry.asked > 0 {
            entry.asked = 0;
            entry.in_main = true;
            self.main.bytes += entry.bytes;
            self.main.order.push_back(place);
            return;
        }
        self.blocks.remove(&place);
        self.ghost.push_back(place);
        *self.ghosts.entry(place).or_insert(0) += 1;
        while self.ghost.len() > self.main.order.len().max(64) {
            let oldest = self.ghost.pop_front().expect("it is longer than that");
            if let Some(count) = self.ghosts.get_mut(&oldest) {
                *count -= 1;
                if *count == 0 {
                    self.ghosts.remove(&oldest);
                }
            }
        }
    }

    fn evict_main(&mut self) {
        let place = self.main.order.pop_front().expect("bytes are of a block");
        let entry = self.blocks.get_mut(&place).expect("a block in a queue is held");
        assert!(entry.in_main, "a block stands in one queue");
        if entry.asked > 0 {
            entry.asked -= 1;
            self.main.order.push_back(place);
            return;
        }
        self.main.bytes -= entry.bytes;
        self.blocks.remove(&place);
    }

    fn forget(&mut self, file: u32) {
        let (small, main) = (&mut self.small, &mut self.main);
        self.blocks.retain(|place, entry| {
            let goes = place.file == file;
            if goes {
                let queue = if entry.in_main { &mut *main } else { &mut *small };
                queue.bytes -= entry.bytes;
            }
            !goes
        });
        small.order.retain(|place| place.file != file);
        main.order.retain(|place| place.file != file);
        self.check();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(bytes: usize) -> Rc<Slots> {
        Rc::new(Slots::of(&[&vec![7; bytes]]))
    }

    fn at(offset: u64) -> Place {
        Place { file: (offset % 3) as u32, offset }
    }

    #[test]
    fn a_scan_does_not_drive_out_what_is_asked_for_again() {
        let cache = BlockCache::new(100_000);
        for round in 0..3 {
            for offset in 0..20 {
                if cache.get(at(offset)).is_none() {
                    cache.insert(at(offset), &block(1000));
                }
                assert!(round == 0 || cache.get(at(offset)).is_some());
            }
        }
        for offset in 1000..3000 {
            assert!(cache.get(at(offset)).is_none());
            cache.insert(at(offset), &block(1000));
        }
        let left = (0..20).filter(|&offset| cache.get(at(offset)).is_some()).count();
        assert_eq!(left, 20);
    }

    #[test]
    fn what_comes_back_soon_after_it_left_goes_to_the_main_queue() {
        let cache = BlockCache::new(20_000);
        (0..40).for_each(|offset| cache.insert(at(offset), &block(1000)));
        assert!(cache.get(at(15)).is_none());
        cache.insert(at(15), &block(1000));
        (100..130).for_each(|offset| cache.insert(at(offset), &block(1000)));
        assert!(cache.get(at(15)).is_some());
    }

    #[test]
    fn a_forgotten_file_leaves_no_bytes_and_a_small_budget_is_kept_at_once() {
        let cache = BlockCache::new(1 << 20);
        (0..300).for_each(|offset| cache.insert(at(offset), &block(100)));
        (0..300).for_each(|offset| assert!(cache.get(at(offset)).is_some()));
        cache.forget(1);
        assert!(cache.get(at(1)).is_none() && cache.get(at(2)).is_some());
        cache.set_budget(2000);
        assert!(cache.counts().bytes <= 2000);
        cache.forget(0);
        cache.forget(2);
        assert_eq!(cache.counts().bytes, 0);
    }

    proptest! {
        #[test]
        fn bytes_stay_within_the_budget_and_blocks_are_the_ones_put_in(
            steps in prop::collection::vec((0..60u64, 0..600usize, 0..40u8), 0..300), budget in 0..9000u64
        ) {
            let cache = BlockCache::new(budget);
            for (offset, bytes, what) in steps {
                match what {
                    0 => cache.forget((offset % 3) as u32),
                    1 => cache.set_budget(budget + offset),
                    _ => {
                        if let Some(found) = cache.get(at(offset)) {
                            prop_assert_eq!(found.item(0)[0], offset as u8);
                        } else {
                            cache.insert(at(offset), &Rc::new(Slots::of(&[&vec![offset as u8; bytes + 1]])));
                        }
                    }
                }
                let queues = cache.queues.borrow();
                prop_assert!(queues.bytes() <= queues.budget_bytes);
                let held: u64 = queues.blocks.values().map(|entry| entry.bytes).sum();
                prop_assert_eq!(held, queues.bytes());
            }
        }
    }
}
