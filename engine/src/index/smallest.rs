//! The k smallest of a stream: what one pass over many terms keeps of their places, in a binary heap.

use std::collections::BinaryHeap;

/// Keeps the smallest of what it is offered, up to a number.
pub(crate) struct Smallest<T> {
    most: usize,
    heap: BinaryHeap<T>,
    /// Something was left out.
    is_over: bool,
}

impl<T: Ord> Smallest<T> {
    pub(crate) fn new(most: usize) -> Smallest<T> {
        assert!(most > 0, "who keeps nothing gets nowhere");
        Smallest { most, heap: BinaryHeap::new(), is_over: false }
    }

    /// Takes one, if it is among the smallest so far. `false`: it is not, nor is anything behind it.
    pub(crate) fn offer(&mut self, one: T) -> bool {
        if self.heap.len() < self.most {
            self.heap.push(one);
            return true;
        }
        self.is_over = true;
        let Some(mut largest) = self.heap.peek_mut() else { return false };
        if one >= *largest {
            return false;
        }
        *largest = one;
        true
    }

    /// What was kept, in order and each once; and whether that is all.
    pub(crate) fn sorted(self) -> (Vec<T>, bool) {
        let mut kept = self.heap.into_sorted_vec();
        kept.dedup();
        (kept, !self.is_over)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_keeps_the_smallest(offered in prop::collection::vec(0..50u32, 0..60), most in 1..20usize) {
            let mut smallest = Smallest::new(most);
            for one in &offered {
                smallest.offer(*one);
            }
            let (kept, is_all) = smallest.sorted();
            let mut wanted = offered.clone();
            wanted.sort_unstable();
            prop_assert!(is_all == (offered.len() <= most));
            wanted.truncate(most);
            wanted.dedup();
            prop_assert_eq!(kept, wanted);
        }
    }
}
