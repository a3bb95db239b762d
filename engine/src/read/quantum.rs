//! How much is given to a sink between two pauses, where rows are at hand and need no reading.

use model::read::RowSink;

use crate::limits::{READ_QUANTUM_BYTES, READ_QUANTUM_ROWS};

/// What was given since the last pause.
#[derive(Debug, Default)]
pub struct Quantum {
    rows: u32,
    bytes: usize,
}

impl Quantum {
    /// Counts a row of so many bytes that was given to `sink`; whether it is time for a pause: after
    /// [`READ_QUANTUM_ROWS`] or [`READ_QUANTUM_BYTES`], or a row with which the sink was busy for long.
    pub fn is_used_up(&mut self, bytes: usize, sink: &(impl RowSink + ?Sized)) -> bool {
        self.rows += 1;
        self.bytes += bytes;
        let is_over = self.rows >= READ_QUANTUM_ROWS || self.bytes >= READ_QUANTUM_BYTES;
        let is_due = is_over || sink.is_costly();
        if is_due {
            *self = Quantum::default();
        }
        is_due
    }
}
