//! What a workload says to the server and what it demands of the answers, in one client thread.
//!
//! ```text
//! op ──► floor or begin ──► bind ──► (the wire) ──► written, read ──► findings, perhaps a following Op
//!                                              └──► settled, failed: no answer that it was done
//! ```
//!
//! Of what is not asked for there is a usual answer, so that a rule is only what is its own.

use std::fmt;

use super::{Findings, Op, Sent, Unanswered, Verb};
use crate::error::Result;
use crate::proof::Floor;
use crate::wire::{Binder, Rows};

/// The statements of a workload and the judge of their answers.
pub trait Rule: fmt::Debug + Send {
    /// What has to be prepared; `statement` returns positions in this list.
    fn statements(&self) -> Vec<String>;
    /// Which statement `op` executes.
    fn statement(&self, op: &Op) -> usize;
    /// The operation `verb` on `key`, as a source gives them; `None` before something in flight completes.
    fn op(&mut self, verb: Verb, key: u64) -> Option<Op>;
    /// Binds the values of `op`; a write is number `sequence`.
    fn bind(&self, op: &Op, sequence: u64, binder: &mut Binder<'_>);
    /// The write `op` was answered with `rows`: says what follows at once; `findings.mark` is what the journal notes.
    fn written(
        &mut self,
        op: &Op,
        sent: Sent<'_>,
        rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<Option<Op>>;
    /// The read `op` was answered with `rows`: judges them, and says what follows at once.
    fn read(
        &mut self,
        op: &Op,
        sent: Sent<'_>,
        rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<Option<Op>>;

    /// What is known when the read `op` is sent: what its answer must at least show.
    fn floor(&self, _op: &Op, _floor: &mut Floor) {}

    /// An attempt at the write `op` is about to be sent; returns the mark that the journal must have before, 0 for none.
    fn begin(&mut self, _op: &Op, _sequence: u64) -> u16 {
        0
    }

    /// An attempt ended without an answer that it was done; returns the journal's mark, 0 for none.
    fn settled(&mut self, _op: &Op, _how: Unanswered) -> u16 {
        0
    }

    /// `op` is over, and was not answered as done.
    fn failed(&mut self, _op: &Op) {}

    /// Whether each execution of a statement has a name, by which the server knows one that is sent again.
    fn is_named(&self, _statement: usize) -> bool {
        false
    }

    /// The name of the write `op` with number `sequence`, where its statement has names.
    fn name(&self, _op: &Op, _sequence: u64) -> [u8; 16] {
        [0; 16]
    }

    /// The number that the journal knows the write `op` with number `sequence` by.
    fn journal_sequence(&self, _op: &Op, sequence: u64) -> u64 {
        sequence
    }

    /// The key that the journal knows the write `op` by.
    fn journal_key(&self, op: &Op) -> u64 {
        op.key
    }
}
