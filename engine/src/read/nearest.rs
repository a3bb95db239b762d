//! The rows whose vectors are nearest to one: ORDER BY .. ANN OF.
//!
//! ```text
//! command ─┬─► files of vectors, where they serve (`by_vectors.rs`) ─┐
//!          └─► rows that keys, slices and filters allow ─────────────┴─► NearestRows ─► sink, nearest first
//! ```
//!
//! 1. Every row is one that the ordinary read gives: reconciled, alive, judged by all conditions, measured by the
//!    vector that it has now. So what was overwritten or deleted is never found, nor in the way of other rows.
//! 2. What is kept is bounded (`model/src/read/nearest.rs`), so are the searches that keep it at a time
//!    (`semaphore.rs`), and the read pauses as any other, also while it gives what it has found.

use model::read::{Flow, Nearest, NearestRows, ReadCommand, ReadEnd, RowSink};

use super::page::Page;
use super::quantum::Quantum;
use super::{LookupPolicy, Read, WaitPolicy};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::limits::{nearest_candidate_bytes, nearest_rows_bytes};
use crate::pause::Pause;
use crate::table::SharedMemtable;

impl Engine {
    /// Reads the rows of a command that asks for the nearest.
    pub(super) async fn read_nearest<S: RowSink + ?Sized>(
        &self,
        (command, nearest): (&ReadCommand, &Nearest),
        sink: &mut S,
        (wait_policy, pause): (WaitPolicy, &dyn Pause),
        overlays: Vec<SharedMemtable>,
    ) -> Result<ReadEnd> {
        let table = self.table(command.table)?;
        let definition = table.definition();
        let bytes_max = nearest_rows_bytes(self.memory_bytes());
        let mut rows = NearestRows::new(nearest, &definition).with_bytes_max(bytes_max);
        let by_files = match overlays.is_empty() {
            true => {
                self.read_by_vectors((command, nearest), &mut rows, (wait_policy, pause)).await?
            }
            false => None,
        };
        let end = match by_files {
            Some(end) => end,
            None => {
                rows = NearestRows::new(nearest, &definition).with_bytes_max(bytes_max);
                self.read_rows(command, &mut rows, (wait_policy, pause), overlays).await?
            }
        };
        let rows = give_nearest(rows, sink, pause).await?;
        Ok(ReadEnd { rows, more: None, ..end })
    }

    /// The bytes that the rows of a search may take, wherever they are put together.
    pub fn nearest_rows_bytes(&self) -> usize {
        nearest_rows_bytes(self.memory_bytes())
    }

    /// Reads the nearest rows by files of vectors; `None` if all rows have to be read.
    async fn read_by_vectors(
        &self,
        (command, nearest): (&ReadCommand, &Nearest),
        rows: &mut NearestRows<'_>,
        waits: (WaitPolicy, &dyn Pause),
    ) -> Result<Option<ReadEnd>> {
        let table = self.table(command.table)?;
        let lookup_policy = self.lookup_policy.get();
        if lookup_policy == LookupPolicy::Never {
            return Ok(None);
        }
        table.refuse_damaged(command)?;
        let (definition, drops) = (table.definition(), table.drops());
        let (definition, drops) = (&*definition, &*drops);
        let read = Read {
            table: &table,
            definition,
            drops,
            command,
            wait_policy: waits.0,
            overlays: Vec::new(),
            lookup_policy,
            turns: Some(&self.read_turns),
        };
        let mut scratch = self.take_scratch();
        let mut page = Page::new(command, definition, drops, rows, waits);
        let bytes_max = nearest_candidate_bytes(self.memory_bytes());
        let found = read.nearest_by_files((nearest, bytes_max), &mut page, &mut scratch).await;
        self.give_scratch_back(scratch);
        let is_done = found.inspect_err(|error| table.note_unreadable(error, command.now_s))?;
        if !is_done {
            return Ok(None);
        }
        let end = page.end();
        self.counters.count(|s| {
            s.reads += 1;
            s.lookups += 1;
            s.rows_read += end.rows;
        });
        Ok(Some(end))
    }
}

/// Gives the nearest rows to a sink, nearest first, and their number. Pauses after a quantum of them, and after each
/// row that costs the sink much.
pub async fn give_nearest<S: RowSink + ?Sized>(
    rows: NearestRows<'_>,
    sink: &mut S,
    pause: &dyn Pause,
) -> Result<u64> {
    let rows = rows.into_rows().map_err(|error| Error::invalid(error.to_string()))?;
    let (mut given, mut quantum) = (0, Quantum::of(sink));
    for row in rows {
        given += 1;
        if row.give(sink) == Flow::Enough {
            break;
        }
        if quantum.is_used_up(row.bytes(), sink) {
            pause.take().await;
        }
    }
    Ok(given)
}
