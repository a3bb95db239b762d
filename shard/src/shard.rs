//! One core's shard: an engine, its peers, and what waits for either.
//!
//! ```text
//!            the pass of the server
//!   write / read │        ▲ take_completed, drain_mail
//!                ▼        │
//!   router.rs ─ mine ─► engine ─► finished tickets ──────┐
//!             └ other's ─► peers.rs (mailbox) ─► replies ─┴─► deliver: to who waited for it
//! ```
//!
//! A [`Ticket`] names a write and comes back with the result, in a later pass.
//!
//! Invariants
//! 1. Every request of a peer gets exactly one reply.
//! 2. No borrow is kept across an await.
//!
//! Not here: sockets and CQL (`server`), when to flush or compact (`background.rs`, the engine).

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use engine::async_mutex::AsyncMutex;
use engine::semaphore::Semaphore;
use engine::{Engine, Error, Result};
use model::{ReadCommand, Schema, TableId};

use crate::background::Background;
use crate::batches::Batches;
use crate::completions::Completions;
use crate::effort::Effort;
use crate::groups::Group;
use crate::idle::InFlight;
use crate::limits::{
    PEER_QUEUE_MEMORY_DIVISOR, PIECES_MEMORY_DIVISOR, RANGE_PIECES_MEMORY_DIVISOR, piece_bytes,
};
use crate::mailbox::Port;
use crate::message::{Reply, Request};
use crate::notify::Notify;
use crate::outbox::BatchesTable;
use crate::owner::{ShardId, Sharder};
use crate::page::Page;
use crate::peers::{Asker, Incoming, Mail, Peers, Received, Waiting};
use crate::protocol::Protocol;
use crate::read_pauses::ReadPauses;
use crate::runtime::Runtime;
use crate::schema::CurrentSchema;
use crate::schema_changes::SchemaChanges;
use crate::snapshots::Expiring;
use crate::stalls::Work;
use crate::term::Term;
use crate::throughput::{CompactionThroughput, Paced};
use crate::ticket::Ticket;
use crate::views::ViewKeeper;

/// One core's shard. `Rc`: it never leaves its thread.
pub struct Shard<P: Protocol> {
    pub(crate) runtime: Runtime,
    pub(crate) engine: Rc<Engine>,
    pub(crate) sharder: Sharder,
    pub(crate) peers: Peers<P>,
    pub(crate) background: Rc<Background>,
    throughput: CompactionThroughput,
    pub(crate) schema: CurrentSchema,
    pub(crate) completions: Completions,
    pub(crate) batches: Batches,
    /// What keeps materialized views, once there is a clock.
    pub(crate) views: OnceCell<Rc<ViewKeeper>>,
    /// Rung when the schema has changed, or a view is left: there may be a view to build.
    pub(crate) view_bell: Notify,
    /// On the first core: views that a TRUNCATE has left empty, or with rows that the base has no more.
    pub(crate) views_left: RefCell<BTreeSet<TableId>>,
    wake: Arc<Notify>,
    /// What was done since the clock was looked at.
    effort: Effort,
    reads: Rc<Cell<usize>>,
    /// Reads for peers that wait, by the asker and its number for them.
    peer_reads: RefCell<HashMap<(ShardId, u32), Rc<Term>>>,
    /// Bytes of a piece that this core asks others for.
    pub(crate) piece_bytes: u64,
    /// The bytes of pieces of scans of ranges.
    pub(crate) scan_pieces: Semaphore,
    /// The same of reads of ranges by indexes.
    pub(crate) lookup_pieces: Semaphore,
    /// The same of reads of keys.
    pub(crate) key_pieces: Semaphore,
    /// The bytes of searches for the nearest rows that ask other cores.
    pub(crate) searches: Semaphore,
    /// On the first core: a snapshot is being taken, removed or given back.
    pub(crate) snapshotting: AsyncMutex,
    /// The snapshots that go by themselves; only on the first core.
    pub(crate) snapshots_expiring: Expiring,
}

/// The parts that a shard is made of.
pub(crate) struct Parts<P: Protocol> {
    pub(crate) runtime: Runtime,
    pub(crate) engine: Engine,
    pub(crate) sharder: Sharder,
    pub(crate) schema: Arc<Schema>,
    pub(crate) schema_log: Option<SchemaChanges>,
    pub(crate) port: Port<Mail<P>>,
    pub(crate) mail_slots: usize,
    pub(crate) reserve_bytes: u64,
    pub(crate) throughput: CompactionThroughput,
    pub(crate) wake: Arc<Notify>,
}

impl<P: Protocol> Shard<P> {
    pub(crate) fn new(parts: Parts<P>) -> Rc<Shard<P>> {
        let (runtime, engine) = (parts.runtime, Rc::new(parts.engine));
        let memory_bytes = engine.memory_bytes() as u64;
        let asked_bytes_max = memory_bytes / PEER_QUEUE_MEMORY_DIVISOR;
        let shards = parts.sharder.shards();
        let peers = Peers::new(parts.port, shards, parts.mail_slots, asked_bytes_max);
        engine.pace_merges(Rc::new(Paced::new(parts.throughput.clone(), runtime.clone())));
        let background =
            Background::new(runtime.clone(), engine.clone(), peers.me(), parts.reserve_bytes);
        background.start(parts.wake.clone());
        let pieces = |share| Semaphore::new(memory_bytes / share);
        Rc::new(Shard {
            runtime,
            engine,
            sharder: parts.sharder,
            peers,
            background,
            throughput: parts.throughput,
            batches: Batches::new(BatchesTable::of(&parts.schema)),
            views: OnceCell::new(),
            view_bell: Notify::new(),
            views_left: RefCell::default(),
            schema: CurrentSchema::new(parts.schema, parts.schema_log),
            completions: Completions::default(),
            wake: parts.wake,
            effort: Effort::default(),
            reads: Rc::default(),
            peer_reads: RefCell::default(),
            piece_bytes: piece_bytes(memory_bytes),
            scan_pieces: pieces(RANGE_PIECES_MEMORY_DIVISOR),
            lookup_pieces: pieces(RANGE_PIECES_MEMORY_DIVISOR),
            key_pieces: pieces(PIECES_MEMORY_DIVISOR),
            searches: Semaphore::new(memory_bytes / engine::limits::NEAREST_MEMORY_DIVISOR as u64),
            snapshotting: AsyncMutex::default(),
            snapshots_expiring: Expiring::default(),
        })
    }

    /// The storage of this shard.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// How fast the compactions of the node may go.
    pub fn compaction_throughput(&self) -> &CompactionThroughput {
        &self.throughput
    }

    /// The division of tokens among the shards.
    pub fn sharder(&self) -> Sharder {
        self.sharder
    }

    /// The id of this shard.
    pub fn me(&self) -> ShardId {
        self.peers.me()
    }

    /// Bytes that pieces of reads are counted with, which other cores have made for this one or make, and how many
    /// reads wait for space for theirs.
    pub fn pieces(&self) -> (u64, usize) {
        let of = [&self.scan_pieces, &self.lookup_pieces, &self.key_pieces];
        (of.iter().map(|pieces| pieces.held()).sum(), of.iter().map(|p| p.waiting()).sum())
    }

    /// The executor it runs on.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// What wakes the pass: notify it when there is something for it.
    pub fn wake(&self) -> Arc<Notify> {
        self.wake.clone()
    }

    /// What was done since the clock was looked at, for what stops when its time is over.
    #[inline]
    pub fn effort(&self) -> &Effort {
        &self.effort
    }

    /// Whether there is mail.
    pub fn has_mail(&self) -> bool {
        self.peers.has_mail()
    }

    /// Does what peers ask and takes their replies, up to a budget; whether there was any. What is for the layer above
    /// goes to `take`, which says in [`effort`](Self::effort) what takes longer than a short message. `is_over` is asked
    /// when so much was done that it may look at the clock: what is left then waits for the next call. Once a pass.
    #[inline]
    pub fn drain_mail(
        self: &Rc<Self>,
        mut take: impl FnMut(Incoming<P>),
        mut is_over: impl FnMut() -> bool,
    ) -> bool {
        let receive = |received| {
            self.effort.message();
            match received {
                Received::Question(asker, Request::Service(ask)) => {
                    take(Incoming::Question(asker, ask));
                }
                Received::Answer(Waiting::Caller(number), Reply::Service(answer)) => {
                    take(Incoming::Answer(number, answer));
                }
                Received::Question(asker, request) => self.serve(asker, request),
                Received::Answer(waiting, reply) => self.deliver(waiting, reply),
            }
        };
        self.peers.receive(receive, || self.effort.is_due() && is_over())
    }

    /// Answers what a peer asked the layer above.
    pub fn answer(&self, asker: Asker, answer: P::Answer) {
        self.peers.reply(asker, Reply::Service(answer));
    }

    /// Makes what was said to the others visible to them. Once a pass, and before it sleeps.
    pub fn publish(&self) {
        self.peers.publish();
    }

    /// What the core waits for besides sockets and mail.
    pub fn in_flight(&self) -> InFlight {
        let disk = self.engine.writes_in_flight() > 0 || self.reads.get() > 0;
        if disk { InFlight::Disk } else { InFlight::Nothing }
    }

    /// Moves the numbers of callers' writes that are done to `out`, with their results. Once a pass.
    pub fn take_completed(self: &Rc<Self>, out: &mut Vec<(u32, Result<()>)>) {
        let due_in =
            self.completions.collect(&self.engine, |ticket, result| self.written(ticket, result));
        if let Some(due_in) = due_in {
            let shard = self.clone();
            self.runtime.spawn(Group::Requests, async move {
                shard.runtime.sleep(due_in).await;
                shard.completions.alarm_is_over();
                shard.wake.notify();
            });
        }
        self.completions.take(out);
    }

    /// Whether [`take_completed`](Self::take_completed) would find something.
    pub fn has_completed(&self) -> bool {
        self.engine.has_completed() || !self.completions.is_empty()
    }

    /// Does what a peer asks, or sees to it that it will be done.
    fn serve(self: &Rc<Self>, asker: Asker, request: Request<P::Ask>) {
        match &request {
            Request::Apply(record) => self.effort.bytes(record.len()),
            _ => self.effort.long(),
        }
        match request {
            Request::Apply(record) => self.serve_write(asker, &record),
            Request::CheckPart(part) => {
                self.reply_later(Group::Requests, asker, async move |shard| {
                    Reply::Part(shard.check_part_here(part).await.map(Box::new).map_err(Box::new))
                })
            }
            Request::Part(part) => self.reply_later(Group::Requests, asker, async move |shard| {
                Reply::Done(shard.write_part_durably(&part).await.map_err(Box::new))
            }),
            Request::Insist(part, schema) => {
                self.reply_later(Group::Requests, asker, async move |shard| {
                    let insisted = match schema > shard.schema_number() {
                        // What is not there may be about to come.
                        true => Err(Error::Overloaded("a schema that is on its way")),
                        false => shard.insist_durably(&part).await,
                    };
                    Reply::Done(insisted.map_err(Box::new))
                })
            }
            Request::InsistAlone(part) => {
                self.reply_later(Group::Requests, asker, async move |shard| {
                    Reply::Done(shard.insist_alone_durably(&part).await.map_err(Box::new))
                })
            }
            Request::Read(command, deadline) => self.serve_read(asker, *command, deadline),
            Request::EndRead(id) => {
                if let Some(term) = self.peer_reads.borrow().get(&(asker.from, id)) {
                    term.end();
                }
                self.peers.reply(asker, Reply::Done(Ok(())));
            }
            Request::Service(_) => unreachable!("the layer above answers its own questions"),
            Request::Schema(schema) => {
                self.adopt(schema);
                self.peers.reply(asker, Reply::Done(Ok(())));
            }
            Request::Alter(alteration) => {
                self.reply_later(Group::Background, asker, |shard| async move {
                    Reply::Altered(shard.alter_here(*alteration).await.map_err(Box::new))
                })
            }
            Request::Remove(removal) => {
                self.reply_later(Group::Background, asker, async move |shard| {
                    Reply::Removed(shard.remove_here(*removal).await.map_err(Box::new))
                })
            }
            Request::Truncate(table) => {
                self.reply_later(Group::Background, asker, async move |shard| {
                    Reply::Done(shard.background.truncate(table).await.map_err(Box::new))
                })
            }
            Request::Upkeep(upkeep) => {
                self.reply_later(Group::Background, asker, async move |shard| {
                    let status = shard.upkeep_here(&upkeep).await;
                    Reply::Upkeep(status.map(Box::new).map_err(Box::new))
                })
            }
        }
    }

    fn serve_write(&self, asker: Asker, record: &[u8]) {
        let entry = self.peers.remember(Waiting::Peer(asker));
        if let Err(error) = self.engine.write(record, Ticket::Entry(entry).to_bits()) {
            let waiting = self.peers.forget(entry);
            self.deliver(waiting, Reply::Done(Err(Box::new(error))));
        }
    }

    fn serve_read(self: &Rc<Self>, asker: Asker, command: ReadCommand, deadline: Option<Instant>) {
        if let Some(page) = self.page_in_memory(&command) {
            let page = page.map(Box::new).map_err(Box::new);
            return self.peers.reply(asker, Reply::Page(page));
        }
        let (group, term) = (group_of(&command), Term::until(deadline));
        let name = (asker.from, asker.id);
        self.peer_reads.borrow_mut().insert(name, term.clone());
        self.reply_later(group, asker, async move |shard| {
            let read = term.run(shard.read_here(&command)).await;
            shard.peer_reads.borrow_mut().remove(&name);
            match read {
                Ok(page) => Reply::Page(page.map(Box::new).map_err(Box::new)),
                // Its asker is gone, or has no time left.
                Err(_) => Reply::Done(Ok(())),
            }
        });
    }

    /// The number of reads for peers that wait for the disk, or compute for long.
    pub fn reads_for_peers(&self) -> usize {
        self.peer_reads.borrow().len()
    }

    fn reply_later<F>(
        self: &Rc<Self>,
        group: Group,
        asker: Asker,
        work: impl FnOnce(Rc<Self>) -> F + 'static,
    ) where
        F: Future<Output = Reply<P::Answer>> + 'static,
    {
        let shard = self.clone();
        let name = "what another core asked for";
        self.runtime.spawn(Work { group, name, table: None }, async move {
            let reply = work(shard.clone()).await;
            shard.peers.reply(asker, reply);
            // The pass publishes; it may be asleep.
            shard.wake.notify();
        });
    }

    /// Reads what is this shard's into a page, without waiting; `None` if it has to wait.
    pub(crate) fn page_in_memory(&self, command: &ReadCommand) -> Option<Result<Page>> {
        let mut page = Page::new();
        match self.engine.read_cached(command, &mut page) {
            Err(Error::WouldBlock) => None,
            end => Some(end.map(|end| page.end(end))),
        }
    }

    /// The same, waiting for the disk where it must.
    pub(crate) async fn read_here(&self, command: &ReadCommand) -> Result<Page> {
        let _waits = self.reading();
        let mut page = Page::new();
        let pauses = ReadPauses::new(&self.runtime, group_of(command));
        let end = self.engine.read(command, &mut page, || pauses.yield_if_due()).await?;
        Ok(page.end(end))
    }

    /// Counts a read that may wait for the disk, until the guard is dropped.
    pub(crate) fn reading(&self) -> Reading {
        self.reads.set(self.reads.get() + 1);
        Reading(self.reads.clone())
    }

    /// A write of the layer above that a task of this shard has made is done.
    pub(crate) fn complete(&self, ticket: Ticket, result: Result<()>) {
        self.completions.push(ticket, result);
        // The pass takes it; it may be asleep.
        self.wake.notify();
    }

    /// Gives the reply to who waited for it.
    pub(crate) fn deliver(&self, waiting: Waiting<P::Answer>, reply: Reply<P::Answer>) {
        match waiting {
            Waiting::Write(ticket) => self.completions.push(ticket, done(reply)),
            Waiting::Part(batch) => {
                if let Some((ticket, result)) = self.peers.part_done(batch, done(reply)) {
                    self.completions.push(ticket, result);
                }
            }
            Waiting::Peer(asker) => self.peers.reply(asker, reply),
            Waiting::Task(_, slot) => slot.put(reply),
            Waiting::End(_) => {}
            Waiting::Caller(_) => unreachable!("the layer above is answered by the layer above"),
            Waiting::Batch { .. } => unreachable!("a batch is answered by its parts"),
        }
    }
}

/// The result of a write, from its reply.
fn done<R>(reply: Reply<R>) -> Result<()> {
    match reply {
        Reply::Done(result) => result.map_err(|error| *error),
        _ => unreachable!("a write is answered with `Done`"),
    }
}

/// Where a read that waits belongs: scans must not stand in the way of people who wait for a row.
pub fn group_of(command: &ReadCommand) -> Group {
    match command.partitions {
        model::read::Partitions::Keys(_) => Group::Requests,
        model::read::Partitions::Range(_) => Group::Streaming,
    }
}

/// While it lives, a read is under way.
pub(crate) struct Reading(Rc<Cell<usize>>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
