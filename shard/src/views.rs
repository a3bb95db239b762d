//! Materialized views on a shard: timestamps for their rows, and what belongs to other shards.
//!
//! ```text
//! engine: turn of a write of a base ─► rows of views of other shards ─► note(): one record with the write
//!      ─► the write is done ─► a task: parts sent, durable ─► the note is deleted ─► the writer is told
//! crash in between ─► the note is found by the next start and sent again (`batches.rs`)
//! ```
//!
//! 1. The writer is told after all rows of views are durable, its own and those of writes that it has seen
//!    (`view_order.rs`): a view is never behind a write that was answered.
//! 2. A note is durable with the write it belongs to, in one record: both are there after a crash, or neither.
//! 3. Rows of views that arrive twice, or later than newer ones, change nothing: their timestamps say so.
//!
//! Not here: what the rows are (`engine/src/views.rs`), the steps from note to end (`outbox.rs`), building
//! (`view_builds.rs`).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::rc::Rc;

use engine::planted::{Bug, planted};
use engine::{Error, Result, ViewStamp, Views};
use model::{MutationRef, TableId, Token};
use uuid::Uuid;

use crate::clock::Clock;
use crate::groups::Group;
use crate::limits::VIEW_BUILD_PAGE_ROWS;
use crate::message::Reply;
use crate::outbox::{self, BatchesTable, Note, Place, Places};
use crate::owner::{ShardId, Sharder};
use crate::peers::Waiting;
use crate::protocol::Protocol;
use crate::shard::Shard;
use crate::stalls::Work;
use crate::ticket::Ticket;
use crate::view_order::{Behind, TellingOrder};
use crate::view_tables::At;

/// Ticks of 100 ns from 1582 to 1970, in microseconds: where the time of a timeuuid begins.
const UUID_EPOCH_US: u64 = 12_219_292_800_000_000;

/// The clock sequences of a timeuuid: fourteen bits.
const CLOCK_SEQUENCES: u16 = 1 << 14;

/// What one shard keeps views with.
pub(crate) struct ViewKeeper {
    clock: Rc<Clock>,
    sharder: Sharder,
    me: ShardId,
    table: Option<BatchesTable>,
    places: Rc<Places>,
    /// Writes of bases that are not done, by their tickets.
    writes: RefCell<HashMap<u64, BaseWrite>>,
    /// How many are in it: each write that is done asks.
    waiting: Cell<usize>,
    /// In which order they are told.
    order: TellingOrder,
    /// The numbers of those that are not sent to their end.
    open: RefCell<BTreeSet<u64>>,
    next: Cell<u64>,
    /// Views that were emptied: their rows in notes before this number are gone with them.
    left_out: RefCell<BTreeMap<TableId, u64>>,
    now_s: Cell<u32>,
    /// Rows of a base that a build reads at a time.
    build_page_rows: Cell<u64>,
    /// The last bytes of the names of notes: a clock sequence and a node number that no core has had before.
    tail: [u8; 8],
}

impl fmt::Debug for ViewKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViewKeeper").field("open", &self.open).finish_non_exhaustive()
    }
}

/// A write of a base that has had its turn.
#[derive(Default)]
pub(crate) struct BaseWrite {
    place: Behind,
    noted: Option<Noted>,
}

/// What is to be sent when a write is done.
struct Noted {
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
            writes: RefCell::default(),
            waiting: Cell::new(0),
            order: TellingOrder::default(),
            open: RefCell::default(),
            next: Cell::new(0),
            left_out: RefCell::default(),
            now_s: Cell::new(0),
            build_page_rows: Cell::new(VIEW_BUILD_PAGE_ROWS),
            tail,
        }
    }

    /// The write of this ticket is done: what is to be sent for it, or waited for, if anything is.
    #[inline]
    pub(crate) fn take(&self, ticket: u64) -> Option<BaseWrite> {
        if self.waiting.get() == 0 {
            return None;
        }
        let write = self.writes.borrow_mut().remove(&ticket)?;
        self.waiting.set(self.writes.borrow().len());
        (write.noted.is_some() || !write.place.is_first()).then_some(write)
    }

    /// Now, for what is noted of how views are built: no older than what any core was given.
    pub(crate) fn at(&self) -> At {
        At { timestamp_us: self.clock.dividing_timestamp_us(), now_s: self.stamp().now_s }
    }

    /// Rows of a base that a build reads at a time.
    pub(crate) fn build_page_rows(&self) -> u64 {
        self.build_page_rows.get()
    }

    /// It has been sent, or came to nothing.
    fn ended(&self, noted: &Noted) {
        let mut open = self.open.borrow_mut();
        open.remove(&noted.number);
        if open.is_empty() {
            self.left_out.borrow_mut().clear();
        }
    }

    /// Rows of these views are left out of what is noted until now and not sent.
    pub(crate) fn leave_out(&self, views: &[TableId]) {
        let next = self.next();
        self.left_out.borrow_mut().extend(views.iter().map(|view| (*view, next)));
    }

    /// Whether all rows of a record that were noted under this number are left out.
    pub(crate) fn is_left_out(&self, number: u64, record: &[u8]) -> bool {
        let left_out = self.left_out.borrow();
        let mut mutations = MutationRef::of_trusted_record(record).flatten();
        let is_gone = |view: &TableId| left_out.get(view).is_some_and(|before| number < *before);
        !left_out.is_empty() && mutations.all(|mutation| is_gone(&mutation.table))
    }

    /// The number that the next note will have.
    pub(crate) fn next(&self) -> u64 {
        self.next.get()
    }

    /// Whether all notes with smaller numbers are at their end.
    pub(crate) fn is_past(&self, number: u64) -> bool {
        self.open.borrow().first().is_none_or(|first| *first >= number)
    }

    /// A timeuuid whose token is this shard's: every second one is where there are two. Those of one time differ in
    /// their clock sequence: a time for each would have the clock of a core of many run away.
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
            let sequences = (0..CLOCK_SEQUENCES).map(|sequence| {
                let [high, low] = sequence.to_be_bytes();
                let mut id = id;
                (id[8], id[9]) = (id[8] ^ high, id[9] ^ low);
                Uuid::from_bytes(id)
            });
            let is_mine =
                |id: &Uuid| self.sharder.shard_of(Token::of_key(id.as_bytes())) == self.me;
            if let Some(id) = sequences.into_iter().find(is_mine) {
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

    fn has_read(&self, ticket: u64, partitions: &[(TableId, Token)]) {
        let (place, noted) = (self.order.place(partitions), None);
        let mut writes = self.writes.borrow_mut();
        writes.insert(ticket, BaseWrite { place, noted });
        self.waiting.set(writes.len());
    }

    fn note(&self, ticket: u64, elsewhere: Vec<u8>, stamp: ViewStamp) -> Result<Vec<u8>> {
        let table = self.table.ok_or_else(|| Error::invalid("there is no table system.batches"))?;
        let place = self.places.take(elsewhere.len())?;
        let timestamp_us = stamp.timestamp_us;
        let note = Note { id: self.new_id(), timestamp_us, mutations: elsewhere };
        let record = table.noted(&note);
        let number = self.next.replace(self.next() + 1);
        self.open.borrow_mut().insert(number);
        let mut writes = self.writes.borrow_mut();
        let write = writes.entry(ticket).or_default();
        assert!(
            write.noted.is_none(),
            "the ticket of a write that reads first is no other write's"
        );
        self.order.note(&write.place, number);
        write.noted = Some(Noted { note, number, place });
        self.waiting.set(writes.len());
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

    /// Has builds of views read so many rows of a base at a time: a test has few.
    pub fn set_view_build_page_rows(&self, rows: u64) {
        self.views.get().expect("it keeps views").build_page_rows.set(rows);
    }

    /// The engine is done with a write: its writer is told, once the rows of views that belong to others are there.
    #[inline]
    pub(crate) fn written(self: &Rc<Self>, ticket: Ticket, result: Result<()>) {
        match self.views.get().and_then(|views| views.take(ticket.to_bits())) {
            None => self.settle(ticket, result),
            Some(write) => self.tell_in_order(write, ticket, result),
        }
    }

    #[cold]
    fn tell_in_order(self: &Rc<Self>, write: BaseWrite, ticket: Ticket, mut result: Result<()>) {
        let (shard, BaseWrite { place, noted }) = (self.clone(), write);
        let comes_later = planted(Bug::ViewsComeLater);
        if comes_later {
            self.settle(ticket, Ok(()));
        }
        let work = Work { group: Group::Requests, name: "rows of materialized views", table: None };
        self.runtime.spawn(work, async move {
            let views = shard.views.get().expect("it has a write");
            let number = noted.as_ref().map(|noted| noted.number);
            if let Some(noted) = noted {
                if result.is_ok() {
                    result = shard.send_noted(views, &noted).await;
                }
                views.ended(&noted);
                drop(noted.place);
            }
            views.order.until_first(&place).await;
            number.into_iter().for_each(|number| views.order.told(&place, number));
            if !comes_later {
                shard.settle(ticket, result);
            }
            // The pass takes it; it may be asleep.
            shard.wake().notify();
        });
    }

    async fn send_noted(&self, views: &ViewKeeper, noted: &Noted) -> Result<()> {
        let table = views.table.expect("it has noted something");
        // Nothing is sent before it is durable here.
        self.engine.until_answered_is_durable().await?;
        // Writers on other cores wait for this one, so it waits for nothing that waits for a write.
        let hands = self.hands_of_note(noted.number);
        outbox::send_again(&hands, self.sharder, &noted.note, &table).await
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before: each name that was another core's took a microsecond of the clock that clients' writes have: of 64
    /// cores, a core that notes 16,000 writes a second ran away from the wall clock.
    #[test]
    fn a_note_takes_one_time_of_the_clock_however_many_cores_there_are() {
        let clock = Rc::new(Clock::new());
        // Ahead of the wall clock each time is the next.
        clock.at_least(clock.wall_us() + 3_600_000_000);
        let (sharder, me) = (Sharder::new(64), ShardId::new(63));
        let keeper = ViewKeeper::new(clock.clone(), sharder, me, None);
        let first = clock.timestamp_us();
        let ids: BTreeSet<Uuid> = (0..100).map(|_| keeper.new_id()).collect();
        assert_eq!(clock.timestamp_us() - first, 101);
        assert_eq!(ids.len(), 100);
        let owner = |id: &Uuid| sharder.shard_of(Token::of_key(id.as_bytes()));
        assert!(ids.iter().all(|id| owner(id) == me && id.get_version_num() == 1));
    }
}
