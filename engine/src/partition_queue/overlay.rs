//! What one partition's queue has sent to the log and no reader sees yet: a memtable that the turns of the queue read
//! over the table's own.
//!
//! ```text
//! turn ─► record ─► log ─► overlay ─(the next turn of the queue reads it)─► readable: out of the overlay
//! ```
//!
//! Invariants
//! 1. What is here is in the log and not in the table's memtables: what is applied leaves in the same step. So nothing
//!    is read here that a truncation has taken, or that a purged tombstone has hidden.
//! 2. It holds no more than [`OVERLAY_BYTES_MAX`]: what does not fit is refused, and the next turn waits for it.
//!
//! The memtable is made when a turn asks for it, and again when something of it was applied: once a log write, whatever
//! number of turns comes between.
//!
//! Not here: which partitions have one (`partition_queue.rs`).

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use model::MutationRef;

use crate::commitlog::Position;
use crate::limits::{OVERLAY_BYTES_MAX, OVERLAY_MEMTABLE_BYTES};
use crate::memtable::Memtable;
use crate::table::SharedMemtable;

/// The records of one partition that are on their way from the log to the memtables.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    parts: VecDeque<Part>,
    part_bytes: usize,
    /// All parts, since a turn has asked for them.
    memtable: Option<SharedMemtable>,
}

/// One mutation of the partition.
#[derive(Debug)]
pub(super) struct Part {
    /// Where its record ends in the log.
    pub(super) end: Position,
    pub(super) record: Rc<[u8]>,
    /// The mutation in the record.
    pub(super) range: Range<usize>,
}

impl Part {
    fn insert_into(&self, memtable: &mut Memtable) {
        let mutation = MutationRef::parse(&self.record[self.range.clone()]);
        let mutation = mutation.expect("a record is checked when it is taken");
        assert!(!mutation.reads_first(), "no memtable takes changes");
        memtable.insert(&mutation);
    }
}

impl Overlay {
    /// Whether all that went is applied.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Where the newest record ends in the log.
    pub(super) fn until(&self) -> Option<Position> {
        self.parts.back().map(|part| part.end)
    }

    /// What the memtable takes, in bytes.
    pub(super) fn memtable_bytes(&self) -> usize {
        self.memtable.as_ref().map_or(0, |memtable| memtable.borrow().bytes())
    }

    /// About what the memtable would take that a turn still has to make, in bytes; 0 if there is none to be made.
    pub(super) fn memtable_to_make_bytes(&self) -> usize {
        match &self.memtable {
            None if !self.parts.is_empty() => OVERLAY_MEMTABLE_BYTES + self.part_bytes,
            _ => 0,
        }
    }

    /// Takes in a mutation that has gone to the log; says whether there is space for it.
    pub(super) fn push(&mut self, part: Part) -> bool {
        assert!(self.until().is_none_or(|until| until <= part.end), "parts come as in the log");
        let bytes = self.part_bytes + part.range.len();
        if bytes > OVERLAY_BYTES_MAX {
            return false;
        }
        if let Some(memtable) = &self.memtable {
            part.insert_into(&mut memtable.borrow_mut());
        }
        self.part_bytes = bytes;
        self.parts.push_back(part);
        true
    }

    /// All that ends at or before this is applied.
    pub(super) fn applied(&mut self, until: Position) {
        while let Some(part) = self.parts.pop_front_if(|part| part.end <= until) {
            self.part_bytes -= part.range.len();
            self.memtable = None;
        }
    }

    /// All of it, for a read; `None` if that is nothing.
    pub(super) fn memtable(&mut self) -> Option<SharedMemtable> {
        if self.parts.is_empty() {
            return None;
        }
        let parts = &self.parts;
        let made = self.memtable.get_or_insert_with(|| {
            let made = SharedMemtable::default();
            parts.iter().for_each(|part| part.insert_into(&mut made.borrow_mut()));
            made
        });
        Some(made.clone())
    }
}
