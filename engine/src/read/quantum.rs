//! How much is given to a sink between two pauses, where rows are at hand and need no reading.

use model::read::RowSink;

use crate::limits::{READ_QUANTUM_BYTES, READ_QUANTUM_ROWS};

/// What was given to a sink since the last pause.
#[derive(Debug)]
pub struct Quantum {
    rows: u32,
    bytes: usize,
    /// Whether the sink takes long for each row.
    is_costly: bool,
}

impl Quantum {
    /// The first quantum of rows for `sink`.
    pub fn of(sink: &(impl RowSink + ?Sized)) -> Quantum {
        Quantum { rows: 0, bytes: 0, is_costly: sink.is_costly() }
    }

    /// Counts a row of so many bytes that was given to `sink`; whether it is time for a pause: after
    /// [`READ_QUANTUM_ROWS`] or [`READ_QUANTUM_BYTES`], or a row with which the sink was busy for long.
    pub fn is_used_up(&mut self, bytes: usize, sink: &(impl RowSink + ?Sized)) -> bool {
        self.rows += 1;
        self.bytes = self.bytes.saturating_add(bytes).saturating_add(sink.row_work());
        let is_over = self.rows >= READ_QUANTUM_ROWS || self.bytes >= READ_QUANTUM_BYTES;
        let is_due = is_over || self.is_costly;
        if is_due {
            (self.rows, self.bytes) = (0, 0);
        }
        is_due
    }
}
