//! The sink of a read whose answer is counted against the memory of all answers (`answers.rs`).
//!
//! ```text
//! row ─► encoder ─► space for it? ─yes─► goes on
//!                        └─no─► a page with rows before it: the row is taken back, the next page begins with it
//!                               else: the read is refused, and lets go of what it holds at once
//! ```
//!
//! Invariant: where a page was cut, [`Metered::end`] says the row before the cut, whatever the engine says.

use cql::plan::BoundRead;
use cql::rows::ResultEncoder;
use model::RowRef;
use model::read::{Flow, PartitionRef, ReadEnd, Resume, RowSink};
use shard::effort::Effort;

use crate::answers::Lease;

/// See the module.
pub(super) struct Metered<'m, 'a> {
    encoder: &'m mut ResultEncoder<'a>,
    lease: &'m mut Lease,
    /// Bytes that the read holds beside the answer.
    beside_bytes: usize,
    /// The last row that the answer keeps.
    last: Resume,
    /// What to say to the client if there was no space.
    refusal: Option<String>,
}

impl<'m, 'a> Metered<'m, 'a> {
    /// A sink for a read that goes on after `before`, and holds so many bytes beside the answer.
    pub(super) fn new(
        encoder: &'m mut ResultEncoder<'a>,
        lease: &'m mut Lease,
        before: Option<&Resume>,
        beside_bytes: usize,
    ) -> Metered<'m, 'a> {
        let last = before.cloned().unwrap_or_else(Resume::at_start);
        Metered { encoder, lease, beside_bytes, last, refusal: None }
    }

    /// How the read ended, if the engine says that it ended so; `Err`: there was no space.
    pub(super) fn end(self, end: ReadEnd) -> Result<ReadEnd, String> {
        if let Some(refusal) = self.refusal {
            return Err(refusal);
        }
        if !self.encoder.is_cut() {
            return Ok(end);
        }
        Ok(ReadEnd { rows: end.rows - 1, more: Some(self.last), ..end })
    }

    /// Ends the read, and gives its rows and their lease back at once: it may pause before it ends, and others that
    /// share the memory with it would be refused for rows that no client gets.
    #[cold]
    fn refuse(&mut self) -> Flow {
        self.refusal = Some(self.lease.refusal());
        self.encoder.discard();
        self.lease.shrink_to(self.beside_bytes);
        Flow::Enough
    }
}

impl RowSink for Metered<'_, '_> {
    fn row(
        &mut self,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Flow {
        self.encoder.set_bytes_max(self.lease.bytes_most().saturating_sub(self.beside_bytes));
        let flow = self.encoder.row(partition, clustering, row);
        if self.encoder.is_over() {
            return self.refuse();
        }
        if self.encoder.is_cut() {
            return Flow::Enough;
        }
        if !self.lease.hold(self.beside_bytes + self.encoder.held_bytes()) {
            return if self.encoder.take_back() { Flow::Enough } else { self.refuse() };
        }
        // Only a page is cut, and says where the next one begins.
        if self.encoder.is_paged() {
            self.last.advance(partition, clustering);
        }
        flow
    }

    #[inline]
    fn row_work(&self) -> usize {
        self.encoder.row_work()
    }

    #[inline]
    fn is_costly(&self) -> bool {
        self.encoder.is_costly()
    }
}

/// The sink of a read inside the pass: its answer goes straight to the connection, and is short.
pub(super) struct InPass<'m, 'a> {
    encoder: &'m mut ResultEncoder<'a>,
    bytes_max: usize,
    is_long: bool,
    /// What the expressions of all rows have taken, in units of work.
    work: u64,
}

impl<'m, 'a> InPass<'m, 'a> {
    /// A sink that has no rows yet, and takes so many bytes of them.
    #[inline]
    pub(super) fn new(encoder: &'m mut ResultEncoder<'a>, bytes_max: usize) -> InPass<'m, 'a> {
        encoder.set_bytes_max(bytes_max);
        InPass { encoder, bytes_max, is_long: false, work: 0 }
    }

    /// Whether the answer is too long to be made here.
    #[inline]
    pub(super) fn is_long(&self) -> bool {
        self.is_long || self.encoder.is_cut() || self.encoder.is_over()
    }

    /// Notes what its rows took, for what looks at the clock.
    #[inline]
    pub(super) fn note_effort(&self, effort: &Effort) {
        effort.expressions(self.work);
        // What a function of a user takes is not counted.
        if self.is_costly() {
            effort.long();
        }
    }
}

impl RowSink for InPass<'_, '_> {
    #[inline]
    fn row(
        &mut self,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Flow {
        let flow = self.encoder.row(partition, clustering, row);
        self.work = self.work.saturating_add(self.encoder.row_work() as u64);
        self.is_long = self.encoder.held_bytes() > self.bytes_max;
        if self.is_long { Flow::Enough } else { flow }
    }

    #[inline]
    fn row_work(&self) -> usize {
        self.encoder.row_work()
    }

    #[inline]
    fn is_costly(&self) -> bool {
        self.encoder.is_costly()
    }
}

/// Notes how much a read from memory has done, for what looks at the clock.
#[inline]
pub(super) fn note_effort(effort: &Effort, bound: &BoundRead, end: &ReadEnd) {
    effort.rows(end.rows + end.tombstones);
    // The rows that conditions have left out are not counted, nor is what is made of the last group.
    if bound.reads_all || bound.command.as_ref().is_some_and(|command| !command.filters.is_empty())
    {
        effort.long();
    }
}
