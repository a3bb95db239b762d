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
//!    (`searches.rs`), and the read pauses as any other.

use model::read::{Nearest, NearestRows, ReadCommand, ReadEnd, RowSink};

use super::page::Page;
use super::{LookupPolicy, Read, WaitPolicy};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::table::SharedMemtable;

impl Engine {
    /// Reads the rows of a command that asks for the nearest.
    pub(super) async fn read_nearest(
        &self,
        (command, nearest): (&ReadCommand, &Nearest),
        sink: &mut impl RowSink,
        (wait_policy, pause): (WaitPolicy, impl AsyncFn()),
        overlays: Vec<SharedMemtable>,
    ) -> Result<ReadEnd> {
        let table = self.table(command.table)?;
        let definition = table.definition();
        let _search = match wait_policy {
            WaitPolicy::Endless => Some(self.searches.begin().await),
            WaitPolicy::None => None,
        };
        let mut rows = NearestRows::new(nearest, &definition);
        let by_files = match overlays.is_empty() {
            true => {
                self.read_by_vectors((command, nearest), &mut rows, (wait_policy, &pause)).await?
            }
            false => None,
        };
        let end = match by_files {
            Some(end) => end,
            None => {
                rows = NearestRows::new(nearest, &definition);
                self.read_rows(command, &mut rows, (wait_policy, pause), overlays).await?
            }
        };
        let rows = rows.give(sink).map_err(|error| Error::invalid(error.to_string()))?;
        Ok(ReadEnd { rows, more: None, ..end })
    }

    /// Reads the nearest rows by files of vectors; `None` if all rows have to be read.
    async fn read_by_vectors(
        &self,
        (command, nearest): (&ReadCommand, &Nearest),
        rows: &mut NearestRows<'_>,
        waits: (WaitPolicy, &impl AsyncFn()),
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
        };
        let mut scratch = self.scratch.borrow_mut().pop().unwrap_or_default();
        let mut page = Page::new(command, definition, drops, rows, waits);
        let found = read.nearest_by_files(nearest, &mut page, &mut scratch).await;
        self.scratch.borrow_mut().push(scratch);
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
