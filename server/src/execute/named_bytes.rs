//! The memory of what reads name that wait on one core: the keys and clustering bounds that an IN makes.
//!
//! A request of 65 KB may name 2 MiB, a long value being in each key beside the values of an IN. Its read keeps them
//! from when it is bound until it ends, so they are counted from before it waits for anything.

use std::cell::Cell;
use std::rc::Rc;

use cql::plan::BoundRead;

use super::ExecuteError;
use crate::limits::{NAMED_BYTES_FREE, NAMED_MEMORY_DIVISOR};

/// What is counted on one core.
#[derive(Debug)]
pub(super) struct NamedBytes {
    held: Cell<usize>,
    max: usize,
}

/// The part of one read, until it is dropped.
#[derive(Debug)]
pub(super) struct NamedPlace {
    all: Rc<NamedBytes>,
    bytes: usize,
}

impl NamedBytes {
    /// Nothing yet, on a core with so much memory for its data.
    pub(super) fn new(memory_bytes: usize) -> Rc<NamedBytes> {
        Rc::new(NamedBytes { held: Cell::default(), max: memory_bytes / NAMED_MEMORY_DIVISOR })
    }

    /// Counts what this read names; `None` if that is short.
    pub(super) fn hold(
        self: &Rc<Self>,
        bound: &BoundRead,
    ) -> Result<Option<NamedPlace>, ExecuteError> {
        let command = bound.command.as_ref();
        let bytes = command.map_or(0, |command| command.key_bytes() + command.slice_bytes());
        if bytes <= NAMED_BYTES_FREE {
            return Ok(None);
        }
        let held = self.held.get();
        if held > 0 && held + bytes > self.max {
            return Err(ExecuteError::Overloaded(format!(
                "Read not taken: the keys and bounds that its IN lists make take {bytes} bytes, and those of \
                 reads that wait on this shard {held}, of {} that they may",
                self.max
            )));
        }
        self.held.set(held + bytes);
        Ok(Some(NamedPlace { all: self.clone(), bytes }))
    }
}

impl Drop for NamedPlace {
    fn drop(&mut self) {
        self.all.held.set(self.all.held.get() - self.bytes);
    }
}
