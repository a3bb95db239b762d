//! Names of blocks that left the cache a while ago: one that comes back soon is worth more than a new one.
//!
//! ```text
//! slot = hash of the name      [ half of the hash │ how many had left before it ]
//! ```
//!
//! A newer name takes the slot of an older one, and half a hash stands for a name: a mistake puts a block into the
//! other queue, no more. So nothing is searched, moved or grown.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

use super::Place;

/// At least this many names are remembered.
const NAMES_MIN: usize = 64;

/// The names. See the module.
#[derive(Debug)]
pub(super) struct Ghosts {
    slots: Box<[Ghost]>,
    /// How many have left so far.
    left: u32,
    hasher: FixedState,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ghost {
    name: u32,
    left: u32,
}

impl Ghosts {
    /// Place for about so many names.
    pub(super) fn new(names: u64) -> Ghosts {
        let slots = (names as usize).max(NAMES_MIN).next_power_of_two();
        let slots = vec![Ghost::default(); slots].into();
        Ghosts { slots, left: 0, hasher: FixedState::default() }
    }

    /// Remembers the name of a block that leaves.
    pub(super) fn add(&mut self, place: Place) {
        self.left = self.left.wrapping_add(1);
        let (slot, name) = self.slot(place);
        self.slots[slot] = Ghost { name, left: self.left };
    }

    /// Whether the block is one of the last `names` that left, or of the last 64.
    pub(super) fn contains(&self, place: Place, names: usize) -> bool {
        let (slot, name) = self.slot(place);
        let ghost = self.slots[slot];
        let since = self.left.wrapping_sub(ghost.left) as usize;
        ghost.left != 0 && ghost.name == name && since < names.max(NAMES_MIN)
    }

    fn slot(&self, place: Place) -> (usize, u32) {
        let hash = self.hasher.hash_one(place);
        (hash as usize & (self.slots.len() - 1), (hash >> 32) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_to_leave_are_known_and_those_before_are_not() {
        let mut ghosts = Ghosts::new(100_000);
        let at = |offset| Place { file: 3, offset };
        (0..10_000).for_each(|offset| ghosts.add(at(offset)));
        let known =
            |from: u64| (from..from + 1000).filter(|n| ghosts.contains(at(*n), 1000)).count();
        assert_eq!(known(0), 0);
        assert!(known(9000) > 980, "some have lost their slot to a newer one");
        assert_eq!(known(10_000), 0);
        assert!(!Ghosts::new(0).contains(at(0), 9), "an empty slot is not a name");
    }
}
