//! Logged batches on a shard of a running node: who writes them, and how their parts reach the owners.
//!
//! ```text
//! write_batch ─┬─ one owner ─► a plain write: one record
//!              └─ several ───► place ─► a task: the outbox (`outbox.rs`) ─► completions
//!                                          └─ check, send, insist: here, or by mailbox at a peer
//! ```
//!
//! Not here: the steps and their order.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use engine::{CheckedPart, Error, Result};
use futures_lite::future::or;
use uuid::Uuid;

use crate::groups::Group;
use crate::limits::{BATCH_RETRY, BATCHES_SENT_AT_ONCE, BATCHES_WAIT_MAX};
use crate::message::{Reply, Request};
use crate::outbox::{self, BatchesTable, Hands, Note, Part, Places, PlainPart};
use crate::owner::ShardId;
use crate::peers::{Line, Slot, Waiting};
use crate::protocol::Protocol;
use crate::read_pauses::ReadPauses;
use crate::router::{join, split};
use crate::shard::Shard;
use crate::stalls::Work;
use crate::ticket::Ticket;

/// The batches over several shards that a shard writes.
pub(crate) struct Batches {
    table: Option<BatchesTable>,
    places: Rc<Places>,
    /// The numbers of callers whose batches may still come to nothing.
    unnoted: RefCell<BTreeSet<u32>>,
    /// What was noted before the start is sent.
    sent_again: Cell<bool>,
}

impl Batches {
    pub(crate) fn new(table: Option<BatchesTable>) -> Batches {
        let places = Places::of(
            "logged batches over several shards",
            "memory of logged batches over several shards",
        );
        Batches { table, places, unnoted: RefCell::default(), sent_again: Cell::new(false) }
    }
}

impl<P: Protocol> Shard<P> {
    /// As [`write`](Shard::write), and of a record over several shards all is written or nothing. Each call of `new_id`
    /// gives another timeuuid.
    pub fn write_batch(
        self: &Rc<Self>,
        record: &[u8],
        number: u32,
        new_id: impl Fn() -> Uuid,
        timestamp_us: i64,
    ) -> Result<()> {
        if self.owner_of_record(record)?.is_some() {
            return self.write(record, Ticket::Caller(number));
        }
        let table =
            self.batches.table.ok_or_else(|| Error::invalid("there is no table system.batches"))?;
        let parts = split(record, self.sharder)?;
        self.check_places(&parts)?;
        let place = self.batches.places.take(record.len())?;
        // A row of this shard: every second one is where there are two.
        let note = loop {
            let note = Note { id: new_id(), timestamp_us, mutations: Vec::new() };
            if self.sharder.shard_of(note.token()) == self.me() {
                break note;
            }
        };
        self.batches.unnoted.borrow_mut().insert(number);
        let shard = self.clone();
        let work = Work { group: Group::Requests, name: "logged batch", table: None };
        self.runtime.spawn(work, async move {
            let noted = || {
                shard.batches.unnoted.borrow_mut().remove(&number);
            };
            let hands = shard.hands();
            let written = outbox::write(&hands, parts, (note, place), &table, noted).await;
            shard.batches.unnoted.borrow_mut().remove(&number);
            shard.complete(Ticket::Caller(number), written);
        });
        Ok(())
    }

    /// Whether a batch that is under way will be written, whatever its writer is told: it is noted.
    pub fn is_noted(&self, number: u32) -> bool {
        !self.batches.unnoted.borrow().contains(&number)
    }

    /// Sends again what was noted before this start; the passes of all shards must run. When some of it takes too
    /// long, because an owner has no space, the rest goes on beside everything else.
    pub async fn send_batches_again(self: &Rc<Self>, now_s: u32) {
        let Some(table) = self.batches.table else { return self.batches.sent_again.set(true) };
        // All of them, before clients are let in: a batch of this run is never sent behind its answer.
        let notes = match self.noted_batches(&table, now_s).await {
            Ok(notes) if notes.is_empty() => return self.batches.sent_again.set(true),
            Ok(notes) => notes,
            Err(error) => {
                self.batches.sent_again.set(true);
                return self.say_in_part(&error);
            }
        };
        let done = Rc::new(crate::notify::Notify::new());
        let (shard, told) = (self.clone(), done.clone());
        let work =
            Work { group: Group::Background, name: "batches of the last start", table: None };
        self.runtime.spawn(work, async move {
            let mut sent = 0;
            for notes in notes.chunks(BATCHES_SENT_AT_ONCE) {
                let hands = shard.hands();
                let again = notes.iter();
                let again =
                    again.map(|note| outbox::send_again(&hands, shard.sharder, note, &table));
                for result in join(again).await {
                    match result {
                        Ok(()) => sent += 1,
                        Err(error) => shard.say_in_part(&error),
                    }
                }
            }
            tracing::info!(shard = %shard.me(), sent, "batches sent again");
            shard.batches.sent_again.set(true);
            told.notify();
        });
        let is_late = async {
            self.runtime.sleep(BATCHES_WAIT_MAX).await;
            tracing::warn!(shard = %self.me(), "batches of the last start wait for space");
        };
        or(done.notified(), is_late).await;
    }

    /// Waits until what was noted before this start is sent, or cannot be: it cannot be read, or the disk is full.
    pub(crate) async fn until_notes_are_sent(&self) {
        while !self.batches.sent_again.get() && !self.engine.is_disk_full() {
            self.runtime.sleep(BATCH_RETRY).await;
        }
    }

    fn say_in_part(&self, error: &Error) {
        tracing::error!(
            shard = %self.me(), %error,
            "batches that were under way when the node stopped may be there in part; the next start tries again"
        );
    }

    /// What was noted and is not done, of the number and the bytes that all shards of an earlier run may note.
    async fn noted_batches(&self, table: &BatchesTable, now_s: u32) -> Result<Vec<Note>> {
        let (mut resume, mut notes) = (None, Vec::new());
        loop {
            let pauses = ReadPauses::new(&self.runtime, Group::Background);
            let page = table.read(&self.engine, resume, now_s, || pauses.yield_if_due()).await?;
            for what in page.unreadable {
                tracing::error!(
                    shard = %self.me(), what,
                    "a batch that was under way when the node stopped cannot be read and may be there in part; its row of system.batches stays"
                );
            }
            notes.extend(page.notes);
            resume = page.more;
            if resume.is_none() {
                return Ok(notes);
            }
        }
    }

    /// Writes a record of this shard, durably.
    pub(crate) async fn write_durably(&self, record: &[u8]) -> Result<()> {
        self.durably(|ticket| self.engine.write(record, ticket)).await
    }

    /// Writes a part of a noted batch, durably.
    pub(crate) async fn write_part_durably(&self, part: &CheckedPart) -> Result<()> {
        self.durably(|ticket| self.engine.write_part(part, ticket)).await
    }

    /// Writes what this shard has refused of a noted batch, durably.
    pub(crate) async fn insist_durably(&self, part: &CheckedPart) -> Result<()> {
        self.durably(|ticket| self.engine.insist(part, ticket)).await
    }

    /// The same, without rows of views.
    pub(crate) async fn insist_alone_durably(&self, part: &CheckedPart) -> Result<()> {
        self.durably(|ticket| self.engine.insist_alone(part, ticket)).await
    }

    async fn durably(&self, write: impl FnOnce(u64) -> Result<()>) -> Result<()> {
        let slot = Slot::new();
        let entry = self.peers.remember(Waiting::Task(Line::General, slot.clone()));
        if let Err(error) = write(Ticket::Entry(entry).to_bits()) {
            self.peers.forget(entry);
            return Err(error);
        }
        // What is written before it waits for the log is done by the pass; it may be asleep.
        self.wake().notify();
        match slot.take().await {
            Reply::Done(result) => result.map_err(|error| *error)?,
            _ => unreachable!("a write is answered with `Done`"),
        }
        self.engine.until_answered_is_durable().await
    }

    pub(crate) async fn check_part_here(&self, part: Box<[u8]>) -> Result<CheckedPart> {
        let pauses = ReadPauses::new(&self.runtime, Group::Requests);
        self.engine.check_part(part, || pauses.yield_if_due()).await
    }
}

/// What an outbox of this shard is done with: its own log, and requests of one line to its peers.
pub(crate) struct ShardHands<'s, P: Protocol> {
    shard: &'s Shard<P>,
    line: Line,
    /// The number of what a write has noted.
    note: Option<u64>,
}

impl<P: Protocol> Shard<P> {
    /// What an outbox is done with.
    pub(crate) fn hands(&self) -> ShardHands<'_, P> {
        ShardHands { shard: self, line: Line::General, note: None }
    }

    /// What is written with that for whose end writes wait, by a line of its own. It goes to tables without views.
    pub(crate) fn hands_of_order(&self) -> ShardHands<'_, P> {
        ShardHands { shard: self, line: Line::Orders, note: None }
    }

    /// What this note of a write is sent with, by a line of its own: a peer may wait for its end. It goes to tables
    /// without views, so its parts wait for no peer.
    pub(crate) fn hands_of_note(&self, number: u64) -> ShardHands<'_, P> {
        ShardHands { shard: self, line: Line::Noted, note: Some(number) }
    }
}

impl<P: Protocol> ShardHands<'_, P> {
    async fn ask(&self, owner: ShardId, request: Request<P::Ask>) -> Result<()> {
        match self.shard.call_by(self.line, owner, request).await {
            Reply::Done(result) => result.map_err(|error| *error),
            _ => unreachable!("it is done or it is not"),
        }
    }
}

impl<P: Protocol> ShardHands<'_, P> {
    /// Has a part written without the rows of its views, which are built again: noted before, for a crash on the way,
    /// and after, for a build may have ended between.
    async fn insist_alone(&self, (owner, part): PlainPart, why: &str) -> Result<()> {
        let (shard, bases) = (self.shard, part.tables());
        tracing::warn!(
            why,
            "a part of a logged batch is written without rows of views, which are built again"
        );
        shard.have_views_built_again(&bases).await?;
        match owner == shard.me() {
            true => shard.insist_alone_durably(&part).await?,
            false => self.ask(owner, Request::InsistAlone(Box::new(part))).await?,
        }
        shard.have_views_built_again(&bases).await
    }
}

impl<P: Protocol> Hands for ShardHands<'_, P> {
    async fn check(&self, (owner, part): Part) -> Result<CheckedPart> {
        if owner == self.shard.me() {
            // On the heap: what waits for it need not be as large.
            return Box::pin(self.shard.check_part_here(part)).await;
        }
        match self.shard.call_by(self.line, owner, Request::CheckPart(part)).await {
            Reply::Part(result) => result.map(|part| *part).map_err(|error| *error),
            _ => unreachable!("a part that is checked comes back"),
        }
    }

    async fn send(&self, (owner, part): PlainPart) -> Result<()> {
        if let (Some(number), Some(views)) = (self.note, self.shard.views.get())
            && views.is_left_out(number, &part.record)
        {
            return Ok(());
        }
        match owner == self.shard.me() {
            true => self.shard.write_part_durably(&part).await,
            false => self.ask(owner, Request::Part(Box::new(part))).await,
        }
    }

    async fn insist(&self, (owner, part): PlainPart) -> Result<()> {
        let insisted = match owner == self.shard.me() {
            true => self.shard.insist_durably(&part).await,
            false => {
                let schema = self.shard.schema_number();
                self.ask(owner, Request::Insist(Box::new(part.clone()), schema)).await
            }
        };
        match insisted {
            Err(Error::Invalid(why)) => self.insist_alone((owner, part), &why).await,
            insisted => insisted,
        }
    }

    async fn write_here(&self, record: &[u8]) -> Result<()> {
        self.shard.write_durably(record).await
    }

    async fn wait(&self) {
        self.shard.runtime.sleep(BATCH_RETRY).await;
    }
}
