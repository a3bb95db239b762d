//! Which blocks are worth a try at compression.
//!
//! ```text
//! tried, in vain:  x x x x .x ..x ....x ........x ................x ................x     . not tried
//! one shrinks:                                                                       o o o o o o
//! ```
//!
//! A try at what does not compress (random keys, what clients compressed or encrypted) costs more than all else that
//! writing it takes. Files are mostly of one kind of data: after a few vain tries the blocks between two tries double
//! up to a bound, and the first one that shrinks ends that.
//!
//! Invariant: the same blocks in the same order are tried the same way: a file's bytes depend on its content alone.

use crate::limits::{UNTRIED_BLOCKS_MAX, VAIN_TRIES_MAX};

/// The tries of one file.
#[derive(Debug, Default)]
pub(super) struct Trials {
    /// Tries in a row that did not make a block smaller.
    vain: u32,
    /// Blocks that are not tried before the next one is.
    untried: u32,
}

impl Trials {
    /// Whether to try the next block.
    pub(super) fn is_due(&mut self) -> bool {
        let due = self.untried == 0;
        self.untried = self.untried.saturating_sub(1);
        due
    }

    /// A block became smaller by a part that is worth it.
    pub(super) fn shrank(&mut self) {
        *self = Trials::default();
    }

    /// A block was tried in vain.
    pub(super) fn was_vain(&mut self) {
        self.vain = self.vain.saturating_add(1);
        if let Some(over) = self.vain.checked_sub(VAIN_TRIES_MAX) {
            self.untried = 1_u32
                .checked_shl(over)
                .map_or(UNTRIED_BLOCKS_MAX, |doubled| doubled.min(UNTRIED_BLOCKS_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of the next blocks are tried; each in vain.
    fn vain(trials: &mut Trials, blocks: u32) -> Vec<u32> {
        let tried = |_: &u32| {
            let due = trials.is_due();
            if due {
                trials.was_vain();
            }
            due
        };
        (0..blocks).filter(tried).collect()
    }

    #[test]
    fn vain_tries_become_rare_and_never_end() {
        let mut trials = Trials::default();
        assert_eq!(vain(&mut trials, 60), [0, 1, 2, 3, 5, 8, 13, 22, 39, 56]);
        assert!(
            vain(&mut trials, 1_000_000).len() >= 1_000_000 / (UNTRIED_BLOCKS_MAX as usize + 1)
        );
    }

    #[test]
    fn one_block_that_shrinks_has_all_tried_again() {
        let mut trials = Trials::default();
        vain(&mut trials, 57);
        let untried = (0..).take_while(|_| !trials.is_due()).count();
        assert_eq!(untried, UNTRIED_BLOCKS_MAX as usize);
        trials.shrank();
        assert!((0..10).all(|_| trials.is_due()));
        assert_eq!(vain(&mut trials, 6), [0, 1, 2, 3, 5]);
    }
}
