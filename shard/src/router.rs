//! To whom a request goes: the API of the crate.
//!
//! ```text
//! write   one owner: engine or mailbox        several: one part each, the last answer completes it
//! read    one owner: engine or mailbox        several: split (`scatter.rs`, `range_read.rs`)
//! ask     the layer above on other cores      truncate, upkeep: every shard, wait for all
//! ```
//!
//! What a peer has no slots for waits, in the order in which it was sent (`peers.rs`). So many that wait that nothing
//! new is sent are `Overloaded`, said before anything was done. A write over several owners is
//! atomic for each of them and not over all: when one refuses, the others may keep their part, and
//! the writer is told so (`PartlyWritten`). Of a logged batch all is written or nothing (`batches.rs`).

use std::future::pending;
use std::rc::Rc;
use std::time::Instant;

use engine::{Error, Result};
use model::bytes::Cursor;
use model::read::{Partitions, ReadCommand, ReadEnd, RowSink};
use model::{MutationRef, TableId};

use crate::message::{Reply, Request};
use crate::outbox::Part;
use crate::owner::{ShardId, Sharder};
use crate::page::Page;
use crate::peers::{Line, Slot, Waiting};
use crate::protocol::Protocol;
use crate::read_pauses::ReadPauses;
use crate::scatter::{KeysWalk, Owners, owners, walk_bytes};
use crate::shard::{Shard, group_of};
use crate::ticket::Ticket;

impl<P: Protocol> Shard<P> {
    /// Makes a record durable and readable, wherever its mutations belong. A caller's ticket comes
    /// back from [`take_completed`](Self::take_completed). An error here is final: nothing was done.
    #[inline]
    pub fn write(&self, record: &[u8], ticket: Ticket) -> Result<()> {
        assert!(!matches!(ticket, Ticket::Entry(_)), "entries are the shard's own");
        match self.owner_of_record(record)? {
            Some(owner) if owner == self.me() => self.engine.write(record, ticket.to_bits()),
            Some(owner) => self.write_there(owner, record, ticket),
            None => self.write_everywhere(record, ticket),
        }
    }

    /// The owner of all mutations of a record, if there is one.
    pub(crate) fn owner_of_record(&self, record: &[u8]) -> Result<Option<ShardId>> {
        let mut cursor = Cursor::new(record);
        let mut owner = None;
        while !cursor.is_empty() {
            let mutation = cursor.bytes().map_err(malformed)?;
            let token = MutationRef::token_of(mutation).map_err(malformed)?;
            let this = self.sharder.shard_of(token);
            if *owner.get_or_insert(this) != this {
                return Ok(None);
            }
        }
        owner.map(Some).ok_or_else(|| Error::invalid("a record holds a mutation"))
    }

    fn write_there(&self, owner: ShardId, record: &[u8], ticket: Ticket) -> Result<()> {
        self.peers.check_place(Line::General, owner, record.len())?;
        self.peers.send(owner, Waiting::Write(ticket), Request::Apply(record.into()));
        Ok(())
    }

    fn write_everywhere(&self, record: &[u8], ticket: Ticket) -> Result<()> {
        let parts = split(record, self.sharder)?;
        assert!(parts.len() > 1, "what has one owner is not split");
        self.check_places(&parts)?;
        let batch =
            Waiting::Batch { ticket, parts_left: parts.len(), failed: None, may_be_written: false };
        let batch = self.peers.remember(batch);
        if let Some((_, part)) = parts.iter().find(|(owner, _)| *owner == self.me()) {
            let entry = self.peers.remember(Waiting::Part(batch));
            if let Err(error) = self.engine.write(part, Ticket::Entry(entry).to_bits()) {
                self.peers.forget(entry);
                self.peers.forget(batch);
                return Err(error);
            }
        }
        for (owner, part) in parts {
            if owner != self.me() {
                self.peers.send(owner, Waiting::Part(batch), Request::Apply(part));
            }
        }
        Ok(())
    }

    /// `Overloaded` if so much waits for one of the owners that it is asked for nothing new.
    pub(crate) fn check_places(&self, parts: &[Part]) -> Result<()> {
        let peers = parts.iter().filter(|(owner, _)| *owner != self.me());
        let bytes = peers.clone().map(|(_, part)| part.len()).sum();
        let mut owners = peers.map(|(owner, _)| *owner);
        owners.try_for_each(|owner| self.peers.check_place(Line::General, owner, bytes))
    }

    /// Asks a peer and waits for its reply.
    pub(crate) async fn call(&self, to: ShardId, request: Request<P::Ask>) -> Reply<P::Answer> {
        self.call_by(Line::General, to, request).await
    }

    /// The same by one of the lines.
    pub(crate) async fn call_by(
        &self,
        line: Line,
        to: ShardId,
        request: Request<P::Ask>,
    ) -> Reply<P::Answer> {
        assert!(to != self.me(), "a core does not write to itself");
        self.send_call(line, to, request).slot.take().await
    }

    /// Asks a peer for a task. Tasks are bounded, so these requests need no place.
    fn send_call(&self, line: Line, to: ShardId, request: Request<P::Ask>) -> Waiter<P> {
        let slot = Slot::new();
        let id = self.peers.send(to, Waiting::Task(line, slot.clone()), request);
        // The pass publishes; it may be asleep.
        self.wake().notify();
        Waiter { to, id, slot }
    }

    /// Reads from memory if one owner, this core, has all of it there. Else `WouldBlock`, after
    /// which the sink starts afresh with [`read`](Self::read).
    pub fn read_cached(&self, command: &ReadCommand, sink: &mut impl RowSink) -> Result<ReadEnd> {
        match owners(command, self.sharder) {
            Owners::One(owner) if owner == self.me() => self.engine.read_cached(command, sink),
            _ => Err(Error::WouldBlock),
        }
    }

    /// Reads from the shards that have it: rows in token order for a range, in the order of the keys for
    /// keys, up to the command's limits as if one shard had everything.
    ///
    /// Owners end their parts at `deadline`, if there is one; the caller ends the rest by dropping it.
    pub async fn read(
        &self,
        command: &ReadCommand,
        sink: &mut dyn RowSink,
        deadline: Option<Instant>,
    ) -> Result<ReadEnd> {
        match owners(command, self.sharder) {
            Owners::One(owner) if owner == self.me() => {
                let _waits = self.reading();
                let pauses = ReadPauses::new(self.runtime(), group_of(command));
                self.engine.read(command, sink, || pauses.yield_if_due()).await
            }
            owners if command.nearest.is_some() => {
                self.read_nearest(owners, command, sink, deadline).await
            }
            Owners::One(_) | Owners::Keys => match command.partitions {
                Partitions::Keys(_) => self.read_keys(command, sink, deadline).await,
                Partitions::Range(_) => self.read_range(command, sink, deadline).await,
            },
            Owners::Range => self.read_range(command, sink, deadline).await,
        }
    }

    /// One piece of a read, from the shard that owns it. If this is dropped, the owner ends the read.
    pub(crate) async fn page_of(
        &self,
        owner: ShardId,
        command: ReadCommand,
        deadline: Option<Instant>,
    ) -> Result<Page> {
        if owner == self.me() {
            // A lookup finds few rows, and often in memory.
            let is_lookup = !command.lookups.is_empty();
            if let Some(page) = is_lookup.then(|| self.page_in_memory(&command)).flatten() {
                return page;
            }
            // On the heap: it is large, and an answer from memory does without.
            return Box::pin(self.read_here(&command)).await;
        }
        let line = match command.partitions {
            Partitions::Keys(_) => Line::Reads,
            Partitions::Range(_) if command.lookups.is_empty() => Line::Scans,
            Partitions::Range(_) => Line::Lookups,
        };
        let waiter = self.send_call(line, owner, Request::Read(Box::new(command), deadline));
        match (PeerRead { shard: self, waiter, is_answered: false }).reply().await {
            Reply::Page(result) => result.map(|page| *page).map_err(|error| *error),
            // Its time is over, and so is that of who waits here, who ends this.
            Reply::Done(_) => pending().await,
            _ => unreachable!("a read is answered with a page"),
        }
    }

    /// Reads keys of several owners, in pieces: all whose last piece is used up are asked at once for the next.
    async fn read_keys(
        &self,
        command: &ReadCommand,
        sink: &mut dyn RowSink,
        deadline: Option<Instant>,
    ) -> Result<ReadEnd> {
        // One piece of each owner is on its way, or waits. Taken before anything is copied.
        let bytes = walk_bytes(command, self.sharder, self.piece_bytes);
        let _place = self.key_pieces.take(bytes).await;
        let walk = KeysWalk::new(command, self.sharder, sink);
        let mut walk = walk.with_piece_bytes(self.piece_bytes);
        let pauses = ReadPauses::new(self.runtime(), group_of(command));
        let pause = async || pauses.yield_if_due().await;
        loop {
            let pieces = walk.pieces().into_iter();
            let pages = join(pieces.map(|(owner, piece)| self.page_of(owner, piece, deadline)));
            let pages: Result<Vec<Page>> = pages.await.into_iter().collect();
            if let Some(end) = walk.take(pages?, &pause).await {
                return Ok(end);
            }
        }
    }

    /// Asks the layer above on every other core; answers in the order of the cores.
    pub async fn ask_peers(&self, ask: impl Fn() -> P::Ask) -> Vec<P::Answer> {
        let peers = self.sharder.all().filter(|peer| *peer != self.me());
        join(peers.map(|peer| self.ask(peer, ask()))).await
    }

    /// Asks the layer above on one other core to read of keys. The answer comes out of
    /// [`drain_mail`](Self::drain_mail) under `number`. `Overloaded`: nothing was sent.
    #[inline]
    pub fn ask_later(&self, peer: ShardId, ask: P::Ask, number: u32) -> Result<()> {
        self.peers.check_place(Line::Reads, peer, P::ask_bytes(&ask))?;
        self.peers.send(peer, Waiting::Caller(number), Request::Service(ask));
        Ok(())
    }

    /// Tells the layer above on another core what ends a question that was asked before: at once, however much waits
    /// for that core, and again behind that question if it may be among what waits. The answers are dropped.
    pub fn tell_end(&self, peer: ShardId, end: impl Fn() -> P::Ask) {
        let end = |waiting| self.peers.send(peer, waiting, Request::Service(end()));
        end(Waiting::End(None));
        for line in [Line::General, Line::Reads] {
            if self.peers.has_queue(line, peer) {
                end(Waiting::Task(line, Slot::new()));
            }
        }
    }

    /// Asks the layer above on one other core, and waits for the answer.
    pub async fn ask(&self, peer: ShardId, ask: P::Ask) -> P::Answer {
        match self.call(peer, Request::Service(ask)).await {
            Reply::Service(answer) => answer,
            _ => unreachable!("the layer above is answered by the layer above"),
        }
    }

    /// Forgets the rows of a table on every core, durably.
    pub(crate) async fn truncate(&self, table: TableId) -> Result<()> {
        let truncate = async |shard: ShardId| match shard == self.me() {
            true => self.background.truncate(table).await,
            false => self.order(shard, Request::Truncate(table)).await,
        };
        join(self.sharder.all().map(truncate)).await.into_iter().collect()
    }

    /// Writes the memtables of this core to sstables: before a stop, so that the next start has
    /// nothing to replay.
    pub async fn flush_here(&self) -> Result<()> {
        self.background.flush().await
    }

    /// Has a peer do a step of what goes on one at a time, and waits until it is done.
    pub(crate) async fn order(&self, to: ShardId, request: Request<P::Ask>) -> Result<()> {
        match self.call_by(Line::Orders, to, request).await {
            Reply::Done(result) => result.map_err(|error| *error),
            _ => unreachable!("it is done or it is not"),
        }
    }
}

/// A task that waits for the reply of a peer.
struct Waiter<P: Protocol> {
    to: ShardId,
    id: u32,
    slot: Rc<Slot<P::Answer>>,
}

/// A read that a peer does for a task of this core: it ends with the task.
struct PeerRead<'s, P: Protocol> {
    shard: &'s Shard<P>,
    waiter: Waiter<P>,
    is_answered: bool,
}

impl<P: Protocol> PeerRead<'_, P> {
    async fn reply(mut self) -> Reply<P::Answer> {
        let reply = self.waiter.slot.take().await;
        self.is_answered = true;
        reply
    }
}

impl<P: Protocol> Drop for PeerRead<'_, P> {
    fn drop(&mut self) {
        if !self.is_answered {
            let Waiter { to, id, slot } = &self.waiter;
            self.shard.peers.no_longer_wanted(*to, *id, slot.clone());
            // The pass publishes; it may be asleep.
            self.shard.wake().notify();
        }
    }
}

/// The record of each owner, in the order in which they first appear.
pub fn split(record: &[u8], sharder: Sharder) -> Result<Vec<Part>> {
    let mut parts: Vec<(ShardId, Vec<u8>)> = Vec::new();
    let mut cursor = Cursor::new(record);
    while !cursor.is_empty() {
        let before = cursor.rest();
        let mutation = cursor.bytes().map_err(malformed)?;
        let token = MutationRef::token_of(mutation).map_err(malformed)?;
        let bytes = &before[..before.len() - cursor.rest().len()];
        let owner = sharder.shard_of(token);
        match parts.iter_mut().find(|(shard, _)| *shard == owner) {
            Some((_, part)) => part.extend_from_slice(bytes),
            None => parts.push((owner, bytes.to_vec())),
        }
    }
    Ok(parts.into_iter().map(|(owner, part)| (owner, part.into())).collect())
}

#[cold]
fn malformed(error: model::Error) -> Error {
    Error::invalid(error.to_string())
}

/// Waits for all of a few futures at once; results in their order.
pub async fn join<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let mut pending = false;
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(ready) => *output = Some(ready),
                    std::task::Poll::Pending => pending = true,
                }
            }
        }
        if pending { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    outputs.into_iter().map(|output| output.expect("all are ready")).collect()
}
