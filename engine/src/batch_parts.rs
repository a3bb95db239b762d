//! A shard's part of a batch over several shards, in two steps: checked before anything of the batch is written, and
//! written once all of the batch is to be.
//!
//! ```text
//! check_part ─► Ok(plain form) ─(the batch is noted)─► write_part ─┬─► durable
//!            └► refused: nothing was written                       └─ Invalid ─► insist ─┬─► durable, or later
//!                          the views are built again ◄─ insist_alone ◄─ its rows of views ┘
//! ```
//!
//! Between the two steps the shard may have changed: a table is dropped, a row has grown. A part of a noted batch is
//! not refused for that. Rows of a table that is gone are gone with it, and a row may pass its limit by one part. Where
//! a part was made of rows that a truncation has taken meanwhile, the batch was before the truncation: what it says of
//! that table is gone, too.
//!
//! Not here: the batch as a whole (`shard/src/outbox.rs`).

use std::borrow::Cow;

use model::TableId;
use model::bytes::{Cursor, put_bytes};
use model::mutation::MutationRef;

use crate::commitlog::SyncMode;
use crate::deferred_writes::Origin;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::partition_queue::Kind;

/// A part that could be written.
#[derive(Clone, Debug)]
pub struct CheckedPart {
    /// Its mutations, with cells in the place of what has to be read first.
    pub record: Box<[u8]>,
    /// Of a part that was made of what was read: how many truncations of its tables had begun then.
    pub read_at: Vec<(TableId, u64)>,
}

impl CheckedPart {
    /// The tables that it is of.
    pub fn tables(&self) -> Vec<TableId> {
        let mutations = MutationRef::of_trusted_record(&self.record).flatten();
        let mut tables: Vec<TableId> = mutations.map(|mutation| mutation.table).collect();
        tables.sort_unstable();
        tables.dedup();
        tables
    }

    /// A part that depends on nothing that was read.
    pub fn plain(record: Box<[u8]>) -> CheckedPart {
        CheckedPart { record, read_at: Vec::new() }
    }
}

impl Engine {
    /// Says whether a part could be written now. Gives it back, with cells in the place of what has to be read first,
    /// as the rows are now, and empty if there is nothing to write. `pause` is called while it reads.
    pub async fn check_part(&self, part: Box<[u8]>, pause: impl AsyncFn()) -> Result<CheckedPart> {
        self.admit_disk()?;
        if !self.check_record(&part)?.reads_first {
            return Ok(CheckedPart::plain(part));
        }
        let record = self.plain_form(&part, &pause).await?;
        if self.have_views(&part) {
            // What is refused for the rows of its views is refused now, and not when the batch is noted.
            Box::pin(self.check_views(&part, record.clone(), &pause)).await?;
        }
        let record = record.into_boxed_slice();
        let plain = CheckedPart::plain(record);
        let read_at = plain.tables().into_iter().map(|table| (table, self.truncations_of(table)));
        Ok(CheckedPart { read_at: read_at.collect(), ..plain })
    }

    /// Writes a part of a noted batch as [`write`](Engine::write) does; `Overloaded` also if a truncation has come
    /// between, and then the part is to be written once more.
    pub fn write_part(&self, part: &CheckedPart, ticket: u64) -> Result<()> {
        let record = self.behind_truncations(part);
        if record.is_empty() {
            self.writes.complete_empty(ticket);
            return Ok(());
        }
        // What a base becomes is in its views: it is read in its turn.
        if part.read_at.is_empty() || self.have_views(&record) {
            return self.write(&record, ticket);
        }
        let range = self.check_record(&record)?.range;
        let truncations = self.truncations_begun(&record);
        match self.queues.must_wait(&record) {
            true => self.queues.push(&record, ticket, Kind::Made { truncations }),
            false => {
                let origin = Origin::HasRead { truncations };
                self.take_or_defer(range, &record, (ticket, origin)).map(drop)
            }
        }
    }

    /// What a part says of tables that were not truncated since it was checked.
    fn behind_truncations<'p>(&self, part: &'p CheckedPart) -> Cow<'p, [u8]> {
        let is_gone = |table: TableId| {
            part.read_at
                .iter()
                .any(|(of, begun)| *of == table && self.truncations_of(table) != *begun)
        };
        if !part.read_at.iter().any(|(table, _)| is_gone(*table)) {
            return Cow::Borrowed(&part.record);
        }
        let (mut kept, mut cursor) = (Vec::new(), Cursor::new(&part.record));
        while !cursor.is_empty() {
            let bytes = cursor.bytes().expect("a part was checked");
            let mutation = MutationRef::parse(bytes).expect("a part was checked");
            if !is_gone(mutation.table) {
                put_bytes(&mut kept, bytes);
            }
        }
        Cow::Owned(kept)
    }

    /// Writes the part of a noted batch that [`write_part`](Engine::write_part) has refused as `Invalid`: what is there
    /// of its tables. It waits for its turn and for space as every write, and `ticket` comes back as from `write`.
    pub fn insist(&self, part: &CheckedPart, ticket: u64) -> Result<()> {
        let Some((range, kept)) = self.what_is_there(part)? else {
            self.writes.complete_empty(ticket);
            return Ok(());
        };
        // What a base becomes is in its views.
        if self.have_views(&kept) {
            return self.queues.push(&kept, ticket, Kind::ReadsFirst);
        }
        match self.queues.must_wait(&kept) {
            true => self.queues.push(&kept, ticket, Kind::Insisted),
            false => self.take_or_defer(range, &kept, (ticket, Origin::Insisted)).map(drop),
        }
    }

    /// Does the same without rows of views: they would be more than a write may have, or their bases' rows have grown.
    /// The owner has the views built again, afterwards, too.
    pub fn insist_alone(&self, part: &CheckedPart, ticket: u64) -> Result<()> {
        let Some((range, kept)) = self.what_is_there(part)? else {
            self.writes.complete_empty(ticket);
            return Ok(());
        };
        match self.queues.must_wait(&kept) {
            true => self.queues.push(&kept, ticket, Kind::Alone),
            false => self.take_or_defer(range, &kept, (ticket, Origin::Alone)).map(drop),
        }
    }

    /// What a part says of tables that are there and were not truncated, with the number of the range of ours that its
    /// tokens are in; `None` if that is nothing.
    fn what_is_there(&self, part: &CheckedPart) -> Result<Option<(u32, Vec<u8>)>> {
        let part = self.behind_truncations(part);
        let (mut kept, mut range) = (Vec::with_capacity(part.len()), None);
        let (mut cursor, tables) = (Cursor::new(&part), self.tables.by_id());
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
        Ok(range.map(|range| (range, kept)))
    }

    /// Waits until what was answered is durable: at once, unless writes are answered before.
    pub async fn until_answered_is_durable(&self) -> Result<()> {
        match self.log.sync_mode() {
            SyncMode::Batch => Ok(()),
            SyncMode::Periodic => self.until_durable(self.log.positions().appended).await,
        }
    }
}
