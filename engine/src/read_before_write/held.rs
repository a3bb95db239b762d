//! What the writes that read first hold of what they have read: counted for all of a shard together.
//!
//! Invariant: what is counted is no more than the bound, except where one holder is alone.
//!
//! Not here: the records that wait for their turn (`partition_queue.rs`).

use std::cell::Cell;

use crate::error::{Error, Result};

/// The bytes that all turns of a shard hold.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    held: Cell<usize>,
    max: usize,
}

impl HeldBytes {
    /// None, and there may be `max`.
    pub(crate) fn new(max: usize) -> HeldBytes {
        HeldBytes { held: Cell::new(0), max }
    }

    /// A holder that has nothing yet.
    pub(crate) fn holder(&self) -> Held<'_> {
        Held { all: self, bytes: 0 }
    }
}

/// What one holder has of them. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    all: &'a HeldBytes,
    bytes: usize,
}

impl Held<'_> {
    /// What it has, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts more; `Overloaded` if all together are too many, and not all of them are its own.
    pub(crate) fn add(&mut self, more: usize) -> Result<()> {
        let (others, held) = (self.all.held.get() - self.bytes, self.all.held.get() + more);
        if held > self.all.max && others > 0 {
            return Err(Error::Overloaded("memory of what was read for writes that read first"));
        }
        self.all.held.set(held);
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.all.held.set(self.all.held.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_holders_share_the_bound_and_one_alone_may_pass_it() {
        let all = HeldBytes::new(100);
        let (mut one, mut other) = (all.holder(), all.holder());
        one.add(60).unwrap();
        assert_eq!(one.add(60), Ok(()), "it is alone");
        assert!(matches!(other.add(1), Err(Error::Overloaded(_))));
        drop(one);
        other.add(100).unwrap();
        assert_eq!((other.bytes(), all.held.get()), (100, 100));
        drop(other);
        assert_eq!(all.held.get(), 0);
    }
}
