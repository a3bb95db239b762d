//! One core's shard: an engine, a port to the other cores, and what waits for either.
//!
//! ```text
//!            the pass of the server
//!   write / read │        ▲ take_completed
//!                ▼        │
//!   router.rs ─ mine ─► engine ─► completed tickets ─┐
//!             └ other's ─► outbox        inbox ──────┴─► settle: whoever waits for it
//! ```
//!
//! A *ticket* is the server's name of a write; it comes back with the result, in a later pass. Below
//! 2^63 it is the engine's ticket too, so that a local write costs nothing here; above are the places
//! of `waiting`: a peer's write, a part of a batch, a question to a peer.
//!
//! Invariants
//! 1. Every request of a peer gets exactly one reply.
//! 2. At most `credit` requests to a peer are unanswered, half of the slots of the
//!    ring back: a reply never finds the mailbox full.
//! 3. No borrow is kept across an await.
//!
//! Not here: sockets and CQL (`server`), when to flush or compact (`background.rs`, the engine).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::layout::SchemaLog;
use engine::{Engine, Error, Result};
use model::{ReadCommand, Schema};
use slab::Slab;

use crate::background::Background;
use crate::groups::Group;
use crate::held::{Finished, Held};
use crate::idle::InFlight;
use crate::limits::MAIL_BUDGET;
use crate::mailbox::{Inbox, Outbox, Port};
use crate::message::{Message, Reply, Request};
use crate::notify::Notify;
use crate::owner::{ShardId, Sharder};
use crate::page::Page;
use crate::runtime::{Runtime, sleep};
use crate::service::Service;

/// What travels between the cores of a server with service `S`.
pub type Mail<S> = Message<<S as Service>::Ask, <S as Service>::Answer>;

/// The first ticket that is not the server's.
pub(crate) const OWN_TICKETS: u64 = 1 << 63;

/// One core's shard. `Rc`: it never leaves its thread.
pub struct Shard<S: Service> {
    pub(crate) runtime: Runtime,
    pub(crate) engine: Rc<Engine>,
    pub(crate) sharder: Sharder,
    pub(crate) me: ShardId,
    pub(crate) service: Rc<S>,
    pub(crate) background: Rc<Background>,
    pub(crate) schema: RefCell<Arc<Schema>>,
    /// On the first shard; taken while a change is being written.
    pub(crate) schema_log: RefCell<Option<SchemaLog>>,
    pub(crate) waiting: RefCell<Slab<Waiting<S::Answer>>>,
    pub(crate) outbox: RefCell<Outbox<Mail<S>>>,
    /// Requests that may still be sent to each peer.
    pub(crate) credits: RefCell<Vec<usize>>,
    inbox: RefCell<Inbox<Mail<S>>>,
    completed: RefCell<Vec<(u64, Result<()>)>>,
    /// Empty, kept for its room.
    finished: RefCell<Vec<Finished>>,
    held: RefCell<Held>,
    alarm_is_set: Cell<bool>,
    wake: Rc<Notify>,
    reads: Rc<Cell<usize>>,
}

/// Who waits for something to be done.
pub(crate) enum Waiting<R> {
    /// The server, for a write on one other core.
    Ticket(u64),
    /// The server, for a record over several owners.
    Batch { ticket: u64, parts_left: usize, failed: Option<Error> },
    /// A batch in this table, for one of its parts.
    Part(usize),
    /// A peer, for its write to be durable here.
    Peer { from: ShardId, id: u32 },
    /// A task of this core.
    Task(Rc<Slot<R>>),
}

/// Where a task finds its reply.
#[derive(Default)]
pub(crate) struct Slot<R> {
    reply: Cell<Option<Reply<R>>>,
    ready: Notify,
}

impl<R> Slot<R> {
    pub(crate) fn new() -> Rc<Slot<R>> {
        Rc::new(Slot { reply: Cell::new(None), ready: Notify::new() })
    }

    pub(crate) async fn take(&self) -> Reply<R> {
        self.ready.notified().await;
        self.reply.take().expect("a slot is notified with its reply")
    }
}

/// What a shard is made of.
pub(crate) struct Parts<S: Service> {
    pub(crate) runtime: Runtime,
    pub(crate) engine: Engine,
    pub(crate) sharder: Sharder,
    pub(crate) service: Rc<S>,
    pub(crate) schema: Arc<Schema>,
    pub(crate) schema_log: Option<SchemaLog>,
    pub(crate) port: Port<Mail<S>>,
    pub(crate) mail_slots: usize,
    pub(crate) wake: Rc<Notify>,
}

impl<S: Service> Shard<S> {
    pub(crate) fn new(parts: Parts<S>) -> Rc<Shard<S>> {
        let Port { inbox, outbox } = parts.port;
        let credits = vec![parts.mail_slots / 2; parts.sharder.shards()];
        let (runtime, me, engine) = (parts.runtime, outbox.me(), Rc::new(parts.engine));
        let background = Background::new(runtime.clone(), engine.clone(), me);
        background.start(parts.wake.clone());
        Rc::new(Shard {
            runtime,
            engine,
            sharder: parts.sharder,
            me,
            background,
            service: parts.service,
            schema: RefCell::new(parts.schema),
            schema_log: RefCell::new(parts.schema_log),
            waiting: RefCell::default(),
            outbox: RefCell::new(outbox),
            credits: RefCell::new(credits),
            inbox: RefCell::new(inbox),
            completed: RefCell::default(),
            finished: RefCell::default(),
            held: RefCell::default(),
            alarm_is_set: Cell::new(false),
            wake: parts.wake,
            reads: Rc::default(),
        })
    }

    /// Its storage.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Who owns what.
    pub fn sharder(&self) -> Sharder {
        self.sharder
    }

    /// Which shard this is.
    pub fn me(&self) -> ShardId {
        self.me
    }

    /// The executor it runs on.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The schema that this core follows.
    pub fn schema(&self) -> Arc<Schema> {
        self.schema.borrow().clone()
    }

    /// What wakes the pass: notify it when there is something for it.
    pub fn wake(&self) -> Rc<Notify> {
        self.wake.clone()
    }

    /// Whether there is mail.
    pub fn has_mail(&self) -> bool {
        self.inbox.borrow_mut().has_mail()
    }

    /// Does what peers ask and takes their replies, up to a budget; whether there was any. Once a pass.
    pub fn drain_mail(self: &Rc<Self>) -> bool {
        let mut inbox = self.inbox.borrow_mut();
        let taken = inbox.drain(MAIL_BUDGET, |from, message| match message {
            Message::Ask { id, request } => self.serve(from, id, request),
            Message::Answer { id, reply } => {
                self.credits.borrow_mut()[from.index()] += 1;
                self.settle(id as usize, reply);
            }
        });
        taken > 0
    }

    /// Makes what was said to the others visible to them. Once a pass, and before it sleeps.
    pub fn publish(&self) {
        self.outbox.borrow_mut().publish();
    }

    /// What the core waits for besides sockets and mail.
    pub fn in_flight(&self) -> InFlight {
        let disk = self.engine.writes_in_flight() > 0 || self.reads.get() > 0;
        if disk { InFlight::Disk } else { InFlight::Nothing }
    }

    /// Moves the tickets that are done to `out`, with their results. Once a pass.
    pub fn take_completed(self: &Rc<Self>, out: &mut Vec<(u64, Result<()>)>) {
        let mut finished = self.finished.take();
        self.engine.take_completed(&mut finished);
        let delay_us = self.engine.write_delay_us();
        if delay_us == 0 && self.held.borrow().is_empty() {
            finished.drain(..).for_each(|write| self.finish(write, out));
        } else {
            self.finish_later(&mut finished, Duration::from_micros(delay_us.into()), out);
        }
        self.finished.replace(finished);
        out.append(&mut self.completed.borrow_mut());
    }

    /// Tells whoever asked the engine for a write: the server by `out`, others by what waits for it.
    fn finish(&self, (ticket, result): Finished, out: &mut Vec<(u64, Result<()>)>) {
        match ticket.checked_sub(OWN_TICKETS) {
            None => out.push((ticket, result)),
            Some(place) => self.settle(place as usize, Reply::Done(result.map_err(Box::new))),
        }
    }

    #[cold]
    fn finish_later(
        self: &Rc<Self>,
        finished: &mut Vec<Finished>,
        delay: Duration,
        out: &mut Vec<(u64, Result<()>)>,
    ) {
        let now = Instant::now();
        self.held.borrow_mut().hold(finished.drain(..), now, delay);
        while let Some(write) = self.held_until(now) {
            self.finish(write, out);
        }
        let Some(due_in) = self.held.borrow().due_in(now) else { return };
        if self.alarm_is_set.replace(true) {
            return;
        }
        let shard = self.clone();
        self.runtime.spawn(Group::Requests, async move {
            sleep(due_in).await;
            shard.alarm_is_set.set(false);
            shard.wake.notify();
        });
    }

    fn held_until(&self, now: Instant) -> Option<Finished> {
        self.held.borrow_mut().next(now)
    }

    /// Whether [`take_completed`](Self::take_completed) would find something.
    pub fn has_completed(&self) -> bool {
        self.engine.has_completed() || !self.completed.borrow().is_empty()
    }

    /// Does what a peer asks, or sees to it that it will be done.
    fn serve(self: &Rc<Self>, from: ShardId, id: u32, request: Request<S::Ask>) {
        match request {
            Request::Apply(record) => self.serve_write(from, id, &record),
            Request::Read(command) => self.serve_read(from, id, *command),
            Request::Service(ask) => {
                let answer = self.service.answer(ask);
                self.reply(from, id, Reply::Service(answer));
            }
            Request::Schema(schema) => {
                self.adopt(schema);
                self.reply(from, id, Reply::Done(Ok(())));
            }
            Request::Alter(alteration) => {
                self.reply_later(Group::Background, from, id, |shard| async move {
                    Reply::Altered(shard.alter_here(*alteration).await.map_err(Box::new))
                })
            }
            Request::Truncate(table) => {
                self.reply_later(Group::Background, from, id, async move |shard| {
                    Reply::Done(shard.background.truncate(table).await.map_err(Box::new))
                })
            }
            Request::Flush => self.reply_later(Group::Flush, from, id, async move |shard| {
                Reply::Done(shard.background.flush().await.map_err(Box::new))
            }),
        }
    }

    fn serve_write(&self, from: ShardId, id: u32, record: &[u8]) {
        let place = self.waiting.borrow_mut().insert(Waiting::Peer { from, id });
        if let Err(error) = self.engine.write(record, OWN_TICKETS + place as u64) {
            self.settle(place, Reply::Done(Err(Box::new(error))));
        }
    }

    fn serve_read(self: &Rc<Self>, from: ShardId, id: u32, command: ReadCommand) {
        let mut page = Page::new();
        match self.engine.read_cached(&command, &mut page) {
            Err(Error::WouldBlock) => {}
            result => {
                let page = result.map(|end| Box::new(page.end(end))).map_err(Box::new);
                return self.reply(from, id, Reply::Page(page));
            }
        }
        let group = group_of(&command);
        self.reply_later(group, from, id, |shard| async move {
            Reply::Page(shard.read_here(&command).await.map(Box::new).map_err(Box::new))
        });
    }

    fn reply_later<F>(
        self: &Rc<Self>,
        group: Group,
        to: ShardId,
        id: u32,
        work: impl FnOnce(Rc<Self>) -> F + 'static,
    ) where
        F: Future<Output = Reply<S::Answer>> + 'static,
    {
        let shard = self.clone();
        self.runtime.spawn(group, async move {
            let reply = work(shard.clone()).await;
            shard.reply(to, id, reply);
            // The pass publishes; it may be asleep.
            shard.wake.notify();
        });
    }

    fn reply(&self, to: ShardId, id: u32, reply: Reply<S::Answer>) {
        let sent = self.outbox.borrow_mut().send(to, Message::Answer { id, reply });
        assert!(sent.is_ok(), "credits leave room for every reply");
    }

    /// Reads what is this shard's into a page, waiting for the disk where it must.
    pub(crate) async fn read_here(&self, command: &ReadCommand) -> Result<Page> {
        let _waits = self.reading();
        let mut page = Page::new();
        let end = self.engine.read(command, &mut page).await?;
        Ok(page.end(end))
    }

    /// Counts a read that may wait for the disk, until the guard is dropped.
    pub(crate) fn reading(&self) -> Reading {
        self.reads.set(self.reads.get() + 1);
        Reading(self.reads.clone())
    }

    /// Tells whoever waits in that place.
    pub(crate) fn settle(&self, place: usize, reply: Reply<S::Answer>) {
        let waiting = self.waiting.borrow_mut().remove(place);
        match waiting {
            Waiting::Ticket(ticket) => self.complete(ticket, done(reply)),
            Waiting::Part(batch) => self.settle_part(batch, done(reply)),
            Waiting::Peer { from, id } => self.reply(from, id, reply),
            Waiting::Task(slot) => {
                slot.reply.set(Some(reply));
                slot.ready.notify();
            }
            Waiting::Batch { .. } => unreachable!("a batch is settled by its parts"),
        }
    }

    fn settle_part(&self, batch: usize, result: Result<()>) {
        let mut waiting = self.waiting.borrow_mut();
        let Some(Waiting::Batch { ticket, parts_left, failed }) = waiting.get_mut(batch) else {
            unreachable!("a batch waits until its last part is settled");
        };
        *parts_left -= 1;
        if let Err(error) = result {
            failed.get_or_insert(error);
        }
        if *parts_left == 0 {
            let (ticket, result) = (*ticket, failed.take().map_or(Ok(()), Err));
            waiting.remove(batch);
            self.complete(ticket, result);
        }
    }

    fn complete(&self, ticket: u64, result: Result<()>) {
        self.completed.borrow_mut().push((ticket, result));
    }
}

/// What a write was answered.
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
