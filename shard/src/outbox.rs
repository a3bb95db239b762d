//! The outbox: of a logged batch over several shards, all is written or nothing, whatever happens.
//!
//! ```text
//! 1  check    each owner: could it write its part? what has to be read first becomes cells     nothing is written
//! 2  note     one record here: a row of system.batches that holds all mutations                 from now on, all of it
//! 3  send     each owner makes its part durable; who cannot now is asked again, until it could
//! 4  forget   the row is deleted, durably; the writer is told
//!
//! start ─► what is noted: 3 and 4, before clients are served
//! ```
//!
//! Invariants
//! 1. No part is sent before the note is durable, and the note is deleted after all parts are durable.
//! 2. Mutations carry their timestamps, so a part that is sent twice is written once.
//! 3. The writer is told after the note is gone: nothing of an answered batch is sent again behind a later TRUNCATE, or
//!    behind a deletion whose tombstone was purged.
//! 4. The note names no shard. Its own token and those of its mutations say who has it and who gets them, also when the
//!    number of shards has changed since.
//!
//! Readers may see parts of a batch before others while it is under way, as in Cassandra. Reasons, and what was
//! rejected: `docs/decisions/2026-11-23-outbox.md`. Not here: the bytes of a note (`note.rs`), how a part reaches its owner
//! ([`Hands`] of `batches.rs`), batches that one shard owns, which are one record.

mod note;
mod places;

use std::cell::{Cell, RefCell};

use engine::planted::{Bug, planted};
use engine::{CheckedPart, Error, Result};
pub use note::{BatchesTable, Note, Notes};
pub use places::{Place, Places};

use crate::owner::{ShardId, Sharder};
use crate::router::join;
pub use crate::router::split;

/// The mutations of one owner, as a record.
pub type Part = (ShardId, Box<[u8]>);

/// What is written of such a part.
pub type PlainPart = (ShardId, CheckedPart);

/// What an outbox is done with: the owners of the parts, and the log of the shard that it belongs to.
pub trait Hands {
    /// Asks an owner whether it could write a part; gives the part's plain form (`Engine::check_part`).
    fn check(&self, part: Part) -> impl Future<Output = Result<CheckedPart>>;
    /// Makes a part durable at its owner.
    fn send(&self, part: PlainPart) -> impl Future<Output = Result<()>>;
    /// Makes durable what an owner has refused as `Invalid` after it was noted (`Engine::insist`).
    fn insist(&self, part: PlainPart) -> impl Future<Output = Result<()>>;
    /// Makes a record of this shard durable.
    fn write_here(&self, record: &[u8]) -> impl Future<Output = Result<()>>;
    /// Waits before what could not be done now is tried again.
    fn wait(&self) -> impl Future<Output = ()>;
}

/// Writes a batch over several shards in its place; `note` has its name and time, and no mutations yet. `noted` is called when the
/// batch will be written in any case. An error before that: nothing was done.
pub async fn write(
    hands: &impl Hands,
    parts: Vec<Part>,
    (note, mut place): (Note, Place),
    table: &BatchesTable,
    noted: impl FnOnce(),
) -> Result<()> {
    let parts = check(hands, parts, &mut place).await?;
    if parts.is_empty() {
        return Ok(());
    }
    let note = Note {
        mutations: parts.iter().map(|(_, part)| &part.record[..]).collect::<Vec<_>>().concat(),
        ..note
    };
    if planted(Bug::SendUnnoted) {
        send(hands, &parts).await?;
    }
    let noting = table.noted(&note);
    // Who forgets it needs its name alone: a batch is held twice, as parts and on its way, and not four times.
    let note = Note { mutations: Vec::new(), ..note };
    hands.write_here(&noting).await?;
    drop(noting);
    noted();
    finish(hands, &parts, &note, table).await
}

/// Sends again what was noted before a start, and forgets it.
pub async fn send_again(
    hands: &impl Hands,
    sharder: Sharder,
    note: &Note,
    table: &BatchesTable,
) -> Result<()> {
    if planted(Bug::BatchesNotSent) {
        return Ok(());
    }
    let parts = split(&note.mutations, sharder)?.into_iter();
    let parts: Vec<PlainPart> =
        parts.map(|(owner, part)| (owner, CheckedPart::plain(part))).collect();
    finish(hands, &parts, note, table).await
}

/// The parts as they are to be written, if all of their owners could. What a part has become is held in the place of
/// the batch from when it is known, also while others are waited for.
async fn check(hands: &impl Hands, parts: Vec<Part>, place: &mut Place) -> Result<Vec<PlainPart>> {
    let bytes = Cell::new(parts.iter().map(|(_, part)| part.len()).sum::<usize>());
    let place = RefCell::new(place);
    let checked = join(parts.into_iter().map(async |(owner, part)| {
        let sent_bytes = part.len();
        let plain = hands.check((owner, part)).await?;
        bytes.set(bytes.get() - sent_bytes + plain.record.len());
        place.borrow_mut().hold(bytes.get())?;
        Ok((owner, plain))
    }));
    let parts: Result<Vec<PlainPart>> = checked.await.into_iter().collect();
    parts.map(|parts| parts.into_iter().filter(|(_, part)| !part.record.is_empty()).collect())
}

async fn finish(
    hands: &impl Hands,
    parts: &[PlainPart],
    note: &Note,
    table: &BatchesTable,
) -> Result<()> {
    let forget = table.forgotten(note);
    if planted(Bug::ForgetEarly) {
        send(hands, &parts[..1]).await?;
        hands.write_here(&forget).await?;
    }
    send(hands, parts).await?;
    until_done(hands, async || hands.write_here(&forget).await).await
}

async fn send(hands: &impl Hands, parts: &[PlainPart]) -> Result<()> {
    let sent = parts.iter().map(|part| {
        until_done(hands, async || match hands.send(part.clone()).await {
            // A table is gone, or a row has grown.
            Err(Error::Invalid(_)) => hands.insist(part.clone()).await,
            sent => sent,
        })
    });
    join(sent).await.into_iter().collect()
}

/// Does what may have to wait for space, or for others, until it is done. An error ends the trust in a shard.
async fn until_done(hands: &impl Hands, act: impl AsyncFn() -> Result<()>) -> Result<()> {
    loop {
        match act().await {
            Err(Error::Overloaded(_) | Error::DiskFull { .. }) => hands.wait().await,
            done => return done,
        }
    }
}
