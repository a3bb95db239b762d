//! The cache keeps what is asked for, within its budget, and takes few steps.
//!
//! 1. Which blocks stay: a scan drives out nothing that was asked for again; a block that comes back soon after it left
//!    goes to the main queue (S3-FIFO).
//! 2. Bytes: a forgotten file leaves none; indexes beyond their part take the space of blocks, down to a quarter; one
//!    of the largest blocks is not kept.
//! 3. Whatever is put, asked for and forgotten: bytes never grow beyond the budget, and what is found is what was put
//!    there.
//!
//! Not here: which reads use the cache (`sstable/file.rs`), the memory of a shard (`budget.rs`).

use proptest::prelude::*;

use super::*;
use crate::sstable::Slots;

fn block(bytes: usize) -> Kept {
    Kept::Slots(Rc::new(Slots::of(&[&vec![7; bytes]])))
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
fn a_forgotten_file_leaves_no_bytes_and_a_small_budget_is_kept_by_what_comes_in() {
    let cache = BlockCache::new(1 << 20);
    (0..300).for_each(|offset| cache.insert(at(offset), &block(100)));
    (0..300).for_each(|offset| assert!(cache.get(at(offset)).is_some()));
    cache.forget(1);
    (0..9).for_each(|_| cache.insert(at(2), &block(100)));
    assert!(cache.get(at(1)).is_none() && cache.get(at(2)).is_some());
    assert_eq!(cache.counts().bytes, 200 * ENTRY_BYTES_MIN);
    cache.queues.borrow_mut().budget_bytes = 20_000;
    (300..700).for_each(|offset| cache.insert(at(offset), &block(100)));
    assert!(cache.counts().bytes <= 20_000);
    (0..20).for_each(|_| [0, 1, 2].iter().for_each(|file| cache.forget(*file)));
    assert_eq!(cache.counts().bytes, 0);
}

/// One insert, or one file that was closed, used to walk the whole cache: 50 ms of 1 GiB.
#[test]
fn no_call_takes_more_steps_in_a_large_cache_than_in_a_small_one() {
    const BLOCKS: u64 = 60_000;
    let cache = BlockCache::new(BLOCKS * ENTRY_BYTES_MIN);
    let steps = |call: &dyn Fn()| {
        let before = cache.queues.borrow().steps;
        call();
        cache.queues.borrow().steps - before
    };
    let small = block(100);
    for offset in 0..BLOCKS {
        cache.insert(at(offset), &small);
        (0..ASKED_MAX).for_each(|_| assert!(cache.get(at(offset)).is_some()));
    }
    let steps_max = 100;
    for offset in BLOCKS..BLOCKS + 9000 {
        assert!(steps(&|| cache.insert(at(offset), &small)) <= steps_max);
    }
    assert!(steps(&|| cache.forget(0)) <= steps_max);
    assert!(steps(&|| cache.forget(2)) <= steps_max);
    for offset in 0..BLOCKS / 10 {
        let offset = (1 << 40) + 3 * offset + 1;
        assert!(steps(&|| cache.insert(at(offset), &small)) <= steps_max);
    }
    let left = cache.queues.borrow().entries.len();
    assert!((0..3 * BLOCKS).step_by(3).all(|offset| cache.get(at(offset)).is_none()));
    assert!(left > 0 && cache.queues.borrow().gone.is_empty());
}

#[test]
fn indexes_beyond_their_part_take_the_space_of_blocks() {
    let cache = BlockCache::new(100_000);
    assert!(cache.has_space_for_index(25_000) && !cache.has_space_for_index(25_001));
    cache.index_grew(40_000);
    assert!(cache.has_space_for_index(5000) && !cache.has_space_for_index(5001));
    let fill = |from| {
        (from..from + 400).for_each(|offset| cache.insert(at(offset), &block(1000)));
        cache.counts().bytes
    };
    assert!((95_000..=100_000).contains(&fill(0)));
    cache.index_grew(40_000);
    assert!((65_000..=70_000).contains(&fill(1000)));
    cache.index_grew(1 << 40);
    assert!((20_000..=25_000).contains(&fill(2000)), "blocks keep a quarter");
    cache.index_shrank(1 << 40);
    cache.index_shrank(40_000);
    assert!((95_000..=100_000).contains(&fill(3000)));
    assert_eq!(cache.index_bytes(), 40_000);
}

#[test]
fn one_of_the_largest_blocks_drives_out_no_others() {
    let cache = BlockCache::new(CACHED_BLOCK_BYTES_MAX * 2);
    cache.insert(at(0), &block(100));
    cache.insert(at(1), &block(CACHED_BLOCK_BYTES_MAX as usize));
    assert!(cache.get(at(0)).is_some() && cache.get(at(1)).is_none());
}

proptest! {
    #[test]
    fn bytes_stay_within_the_budget_and_blocks_are_the_ones_put_in(
        steps in prop::collection::vec((0..60u64, 0..600usize, 0..40u8), 0..300), budget in 0..90_000u64
    ) {
        let (cache, mut bytes) = (BlockCache::new(budget), 0);
        for (offset, length, what) in steps {
            match what {
                0 => cache.forget((offset % 3) as u32),
                1 => cache.queues.borrow_mut().budget_bytes = budget + offset * 100,
                _ => {
                    if let Some(Kept::Slots(found)) = cache.get(at(offset)) {
                        prop_assert_eq!(found.item(0)[0], offset as u8);
                    } else {
                        cache.insert(at(offset), &Kept::Slots(Rc::new(Slots::of(&[&vec![offset as u8; length + 1]]))));
                    }
                }
            }
            let queues = cache.queues.borrow();
            prop_assert!(queues.bytes() <= bytes.max(queues.budget_bytes));
            bytes = queues.bytes();
            let queues = &[&queues.small, &queues.main];
            prop_assert!(queues.iter().all(|queue| (queue.len == 0) == (queue.bytes == 0)));
        }
    }
}
