//! Materialized views on a shard: timestamps for their rows, and what belongs to other shards.
//!
//! ```text
//! engine: turn of a write of a base ─► rows of views of other shards ─► note(): one record with the write
//!      ─► the write is done ─► a task: parts sent, durable ─► the note is deleted ─► the writer is told
//! crash in between ─► the note is found by the next start and sent again (`batches.rs`)
//! ```
//!
//! 1. The writer is told after all rows of views are durable: a view is never behind a write that was answered.
//! 2. A note is durable with the write it belongs to, in one record: both are there after a crash, or neither.
//! 3. Rows of views that arrive twice, or later than newer ones, change nothing: their timestamps say so.
//!
//! Not here: what the rows are (`engine/src/views.rs`), the steps from note to end (`outbox.rs`), building
//! (`view_builds.rs`).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::rc::Rc;

use engine::{Error, Result, ViewStamp, Views};
use uuid::Uuid;

use crate::clock::Clock;
use crate::groups::Group;
use crate::limits::VIEW_SENDS_LOOK;
use crate::message::Reply;
use crate::outbox::{self, BatchesTable, Note, Place, Places};
use crate::owner::{ShardId, Sharder};
use crate::peers::{LineTo, Waiting};
use crate::protocol::Protocol;
use crate::shard::Shard;
use crate::stalls::Work;
use crate::ticket::Ticket;
use crate::view_tables::At;

/// Ticks of 100 ns from 1582 to 1970, in microseconds: where the time of a timeuuid begins.
const UUID_EPOCH_US: u64 = 12_219_292_800_000_000;

/// What one shard keeps views with.
pub(crate) struct ViewKeeper {
    clock: Rc<Clock>,
    sharder: Sharder,
    me: ShardId,
    table: Option<BatchesTable>,
    places: Rc<Places>,
    /// What belongs to others of writes that are not done, by the writes' tickets.
    noted: RefCell<HashMap<u64, Noted>>,
    /// How many are in it: each write that is done asks.
    waiting: Cell<usize>,
    /// The numbers of those that are not sent to their end.
    open: RefCell<BTreeSet<u64>>,
    next: Cell<u64>,
    now_s: Cell<u32>,
    /// The last bytes of the names of notes: a clock sequence and a node number that no core has had before.
    tail: [u8; 8],
}

impl fmt::Debug for ViewKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViewKeeper").field("open", &self.open).finish_non_exhaustive()
    }
}

/// What is to be sent when a write is done.
pub(crate) struct Noted {
    note: Note,
    number: u64,
    place: Place,
}

impl ViewKeeper {
    pub(crate) fn new(
        clock: Rc<Clock>,
        sharder: Sharder,
        me: ShardId,
        table: Option<BatchesTable>,
    ) -> ViewKeeper {
        let mut tail = [0; 8];
        tail.copy_from_slice(&Uuid::new_v4().as_bytes()[8..]);
        tail[0] = tail[0] & 0x3F | 0x80;
        tail[2] |= 1;
        ViewKeeper {
            clock,
            sharder,
            me,
            table,
            places: Places::of(
                "rows of materialized views for other shards",
                "memory of rows of materialized views for other shards",
            ),
            noted: RefCell::default(),
            waiting: Cell::new(0),
            open: RefCell::default(),
            next: Cell::new(0),
            now_s: Cell::new(0),
            tail,
        }
    }

    /// What was noted with the write of this ticket, which is done.
    #[inline]
    pub(crate) fn take(&self, ticket: u64) -> Option<Noted> {
        if self.waiting.get() == 0 {
            return None;
        }
        let noted = self.noted.borrow_mut().remove(&ticket)?;
        self.waiting.set(self.noted.borrow().len());
        Some(noted)
    }

    /// Now, for what is noted of how views are built: no older than what any core was given.
    pub(crate) fn at(&self) -> At {
        At { timestamp_us: self.clock.dividing_timestamp_us(), now_s: self.stamp().now_s }
    }

    /// It has been sent, or came to nothing.
    fn ended(&self, noted: &Noted) {
        self.open.borrow_mut().remove(&noted.number);
    }

    /// The number that the next note will have.
    fn next(&self) -> u64 {
        self.next.get()
    }

    /// Whether all notes with smaller numbers are at their end.
    fn is_past(&self, number: u64) -> bool {
        self.open.borrow().first().is_none_or(|first| *first >= number)
    }

    /// A timeuuid whose token is this shard's: every second one is where there are two.
    fn new_id(&self) -> Uuid {
        loop {
            let time_us = self.clock.timestamp_us() as u64 + UUID_EPOCH_US;
            let time = (time_us * 10).to_be_bytes();
            let mut id = [0; 16];
            id[..4].copy_from_slice(&time[4..]);
            id[4..6].copy_from_slice(&time[2..4]);
            id[6..8].copy_from_slice(&time[..2]);
            id[6] = id[6] & 0x0F | 0x10;
            id[8..].copy_from_slice(&self.tail);
            let id = Uuid::from_bytes(id);
            if self.sharder.shard_of(model::Token::of_key(id.as_bytes())) == self.me {
                return id;
            }
        }
    }
}

impl Views for ViewKeeper {
    fn stamp(&self) -> ViewStamp {
        // The wall clock may step back, and what has expired stays so.
        let now_s = self.clock.wall_s().max(self.now_s.get());
        self.now_s.set(now_s);
        ViewStamp { timestamp_us: self.clock.timestamp_us(), now_s }
    }

    fn note(&self, ticket: u64, elsewhere: Vec<u8>, stamp: ViewStamp) -> Result<Vec<u8>> {
        let table = self.table.ok_or_else(|| Error::invalid("there is no table system.batches"))?;
        let place = self.places.take(elsewhere.len())?;
        let timestamp_us = stamp.timestamp_us;
        let note = Note { id: self.new_id(), timestamp_us, mutations: elsewhere };
        let record = table.noted(&note);
        let number = self.next.replace(self.next() + 1);
        self.open.borrow_mut().insert(number);
        let other = self.noted.borrow_mut().insert(ticket, Noted { note, number, place });
        assert!(other.is_none(), "the ticket of a write that reads first is no other write's");
        self.waiting.set(self.noted.borrow().len());
        Ok(record)
    }
}

impl<P: Protocol> Shard<P> {
    /// Keeps materialized views from now on, with the clock of this core; once.
    pub fn keep_views(&self, clock: Rc<Clock>) {
        let table = BatchesTable::of(&self.schema());
        let keeper = Rc::new(ViewKeeper::new(clock, self.sharder, self.me(), table));
        self.engine.keep_views(keeper.clone());
        assert!(self.views.set(keeper).is_ok(), "a shard has one clock");
    }

    /// The engine is done with a write: its writer is told, once the rows of views that belong to others are there.
    #[inline]
    pub(crate) fn written(self: &Rc<Self>, ticket: Ticket, result: Result<()>) {
        match self.views.get().and_then(|views| views.take(ticket.to_bits())) {
            None => self.settle(ticket, result),
            Some(noted) => self.send_noted(noted, ticket, result),
        }
    }

    #[cold]
    fn send_noted(self: &Rc<Self>, noted: Noted, ticket: Ticket, result: Result<()>) {
        let views = self.views.get().expect("it has noted something").clone();
        let (Ok(()), Some(table)) = (&result, views.table) else {
            views.ended(&noted);
            return self.settle(ticket, result);
        };
        let shard = self.clone();
        let work = Work { group: Group::Requests, name: "rows of materialized views", table: None };
        self.runtime.spawn(work, async move {
            // Nothing is sent before it is durable here.
            let mut sent = shard.engine.until_answered_is_durable().await;
            if sent.is_ok() {
                // Writers on other cores wait for this one, so it waits for nothing that waits for a write.
                let hands = shard.hands(LineTo::Noted);
                sent = outbox::send_again(&hands, shard.sharder, &noted.note, &table).await;
            }
            views.ended(&noted);
            drop(noted.place);
            shard.settle(ticket, sent);
            // The pass takes it; it may be asleep.
            shard.wake().notify();
        });
    }

    /// Gives the result of a write to who waits for it.
    fn settle(&self, ticket: Ticket, result: Result<()>) {
        match ticket {
            Ticket::Entry(entry) => {
                let waiting: Waiting<P::Answer> = self.peers.forget(entry);
                self.deliver(waiting, Reply::Done(result.map_err(Box::new)));
            }
            ticket => self.completions.push(ticket, result),
        }
    }

    /// Holds all writes of a base until its cut is ended, or it is truncated; returns when the rows of
    /// views of those before are where they belong.
    pub(crate) async fn hold_writes(&self, base: model::TableId) -> Result<()> {
        self.engine.announce_truncation(base).await?;
        let Some(views) = self.views.get() else { return Ok(()) };
        let until = views.next();
        while !views.is_past(until) {
            self.runtime.sleep(VIEW_SENDS_LOOK).await;
        }
        Ok(())
    }
}
