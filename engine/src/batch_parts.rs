//! A shard's part of a batch over several shards, in two steps: checked before anything of the batch is written, and
//! written once all of the batch is to be.
//!
//! ```text
//! check_part ─► Ok(plain form) ─(the batch is noted)─► write ─┬─► durable
//!            └► refused: nothing was written                  └─ Invalid ─► insist ─► durable, or later
//! ```
//!
//! Between the two steps the shard may have changed: a table is dropped, a row has grown. A part of a noted batch is
//! not refused for that. Rows of a table that is gone are gone with it, and a row may pass its limit by one part.
//!
//! Not here: the batch as a whole (`shard/src/outbox.rs`).

use model::bytes::{Cursor, put_bytes};
use model::mutation::MutationRef;

use crate::commitlog::SyncMode;
use crate::deferred_writes::Origin;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::partition_queue::Kind;

impl Engine {
    /// Says whether a part could be written now. Gives it back, with cells in the place of what has to be read first,
    /// as the rows are now, and empty if there is nothing to write. `pause` is called while it reads.
    pub async fn check_part(&self, part: Box<[u8]>, pause: impl AsyncFn()) -> Result<Box<[u8]>> {
        self.admit_disk()?;
        match self.check_record(&part)?.reads_first {
            true => self.plain_form(&part, &pause).await.map(Vec::into_boxed_slice),
            false => Ok(part),
        }
    }

    /// Writes the part of a noted batch that [`write`](Engine::write) has refused as `Invalid`: what is there of its
    /// tables. It waits for its turn and for space as every write, and `ticket` comes back as from `write`.
    pub fn insist(&self, part: &[u8], ticket: u64) -> Result<()> {
        let (mut kept, mut range) = (Vec::with_capacity(part.len()), None);
        let (mut cursor, tables) = (Cursor::new(part), self.tables.by_id());
        while !cursor.is_empty() {
            let bytes = cursor.bytes().expect("a part was checked");
            let mutation = MutationRef::parse(bytes).expect("a part was checked");
            if let Some(table) = tables.get(&mutation.table) {
                // A DROP takes its snapshot: it may fail, and then the table and what is written here stay.
                if table.closed.get() {
                    return Err(Error::Overloaded("a table that may be dropped"));
                }
                range = self.tables.range_of(mutation.token);
                put_bytes(&mut kept, bytes);
            }
        }
        drop(tables);
        let Some(range) = range else {
            self.writes.complete_empty(ticket);
            return Ok(());
        };
        match self.queues.has_queue_for(&kept) {
            true => self.queues.push(&kept, ticket, Kind::Insisted),
            false => self.take_or_defer(range, &kept, (ticket, Origin::Insisted)).map(drop),
        }
    }

    /// Waits until what was answered is durable: at once, unless writes are answered before.
    pub async fn until_answered_is_durable(&self) -> Result<()> {
        match self.log.sync_mode() {
            SyncMode::Batch => Ok(()),
            SyncMode::Periodic => self.until_durable(self.log.positions().appended).await,
        }
    }
}
