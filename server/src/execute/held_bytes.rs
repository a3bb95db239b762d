//! The memory of one kind of thing that waits on one core: bytes, counted until they are dropped.
//!
//! ```text
//! hold(bytes) ─► a place ─► dropped: the bytes are free again
//!      └► too much with what is held: OVERLOADED, unless nothing is held
//! ```
//!
//! 1. What reads name: the keys and clustering bounds that an IN makes. A request of 65 KB may name 2 MiB, a long value
//!    being in each key beside the values of an IN. Its read keeps them from when it is bound until it ends.
//! 2. Long BATCH messages and changes of the schema, from when they come until they are done. They are held when their
//!    clients are gone, too.
//!
//! Not here: the bytes of requests, which are counted with their connections until these end (`load.rs`).

use std::cell::Cell;
use std::rc::Rc;

use cql::plan::BoundRead;

use super::ExecuteError;
use crate::limits::HELD_BYTES_FREE;

/// What is counted on one core.
#[derive(Debug)]
pub(super) struct HeldBytes {
    /// What it is, for who is refused.
    what: &'static str,
    held: Cell<usize>,
    max: usize,
}

/// The part of one request, until it is dropped.
#[derive(Debug)]
pub(super) struct HeldPlace {
    all: Rc<HeldBytes>,
    bytes: usize,
}

impl HeldBytes {
    /// Nothing yet, of so many bytes at most.
    pub(super) fn new(what: &'static str, max: usize) -> Rc<HeldBytes> {
        Rc::new(HeldBytes { what, held: Cell::default(), max })
    }

    /// Counts so many bytes more, if they are not few. What comes when nothing is held is taken, however large.
    pub(super) fn hold(self: &Rc<Self>, bytes: usize) -> Result<Option<HeldPlace>, ExecuteError> {
        if bytes <= HELD_BYTES_FREE {
            return Ok(None);
        }
        let (what, held, max) = (self.what, self.held.get(), self.max);
        if held > 0 && held.saturating_add(bytes) > max {
            return Err(ExecuteError::Overloaded(format!(
                "Request not taken: {what} take {bytes} bytes, and those of requests that wait on this shard {held}, \
                 of {max} that they may"
            )));
        }
        self.held.set(held + bytes);
        Ok(Some(HeldPlace { all: self.clone(), bytes }))
    }

    /// Counts what a read names.
    pub(super) fn hold_named(
        self: &Rc<Self>,
        bound: &BoundRead,
    ) -> Result<Option<HeldPlace>, ExecuteError> {
        let command = bound.command.as_ref();
        let bytes = command.map_or(0, |command| command.key_bytes() + command.slice_bytes());
        self.hold(bytes)
    }
}

impl Drop for HeldPlace {
    fn drop(&mut self) {
        self.all.held.set(self.all.held.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_can_be_held_again_and_one_alone_may_be_long() {
        let all = HeldBytes::new("its values", 10_000);
        let refused = |bytes| match all.hold(bytes) {
            Err(ExecuteError::Overloaded(text)) => text,
            other => panic!("{other:?}"),
        };
        let long = all.hold(100_000).unwrap();
        assert!(all.hold(HELD_BYTES_FREE).unwrap().is_none(), "few");
        assert_eq!(
            refused(5000),
            "Request not taken: its values take 5000 bytes, and those of requests that wait on this shard 100000, of 10000 that they may"
        );
        drop(long);
        let parts = [all.hold(5500).unwrap(), all.hold(4500).unwrap()];
        refused(5000);
        drop(parts);
        assert!(all.hold(100_000).is_ok());
    }
}
