//! The rows whose vectors are nearest to one: ORDER BY .. ANN OF.
//!
//! ```text
//! command ─► rows that keys, slices and filters allow ─► NearestRows: the nearest so far ─► sink, nearest first
//! ```
//!
//! 1. Every row is one that the ordinary read gives: reconciled, alive, judged by all conditions, measured by the
//!    vector that it has now. So what was overwritten or deleted is never found, nor in the way of other rows.
//! 2. What is kept is bounded (`model/src/read/nearest.rs`), and the read pauses as any other.

use model::read::{Nearest, NearestRows, ReadCommand, ReadEnd, RowSink};

use super::WaitPolicy;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::table::SharedMemtable;

impl Engine {
    /// Reads the rows of a command that asks for the nearest.
    pub(super) async fn read_nearest(
        &self,
        (command, nearest): (&ReadCommand, &Nearest),
        sink: &mut impl RowSink,
        waits: (WaitPolicy, impl AsyncFn()),
        overlays: Vec<SharedMemtable>,
    ) -> Result<ReadEnd> {
        let table = self.table(command.table)?;
        let definition = table.definition();
        let mut rows = NearestRows::new(nearest, &definition);
        let end = self.read_rows(command, &mut rows, waits, overlays).await?;
        let rows = rows.give(sink).map_err(|error| Error::invalid(error.to_string()))?;
        Ok(ReadEnd { rows, more: None, ..end })
    }
}
