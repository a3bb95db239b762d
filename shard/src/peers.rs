//! One core's conversation with its peers: what it sends, what it may still send, who waits for what.
//!
//! ```text
//! send     entry in `waiting` ─┬─ credit ──► outbox ─► (published once a pass)
//!                              └─ none ────► queue ─► (a credit comes back) ─► outbox
//! receive  inbox ─► a question: `Asker`, to be answered once
//!                └► an answer: the credit is back, the entry says who waited
//! ```
//!
//! Invariants
//! 1. At most `credit` requests to a peer are with it unanswered, half of the slots of the ring back, so a reply never
//!    finds the mailbox full.
//! 2. Each [`Line`] to a peer has credits of its own. Requests of one line reach the peer in the order in which they
//!    were sent: none passes those that wait for a credit. So scans of ranges, which take long, take no credit of what
//!    is short or goes by an index, reads wait for no writes, of which some wait for others of their partition, and
//!    what ends a read waits for none of those.
//! 3. No deadlock: a request of [`Line::General`] may wait for requests of [`Line::Noted`] (a write of a base, for the
//!    rows of its views), for these wait for no other core; and for requests of [`Line::Orders`] (a write, for the end
//!    of a TRUNCATE), for these wait for noted ones at most. No request waits for another one of its line, but for what
//!    operators ask and, after a start, for batches of the last run: these are few. So cores that have given all their
//!    credits to each other get answers all the same.
//! 4. A read that its task has left is ended where it is: one that waits for a credit is never sent, of one that was
//!    sent the peer is told.
//! 5. A client's request is refused while [`PEER_QUEUE_REQUESTS_MAX`] wait, or what waits takes the bytes that it may.
//!    What ends another request is never refused (each has one before it), nor is what a task asks: a task waits for
//!    each of its few answers.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use engine::{Error, Result};
use slab::Slab;

use crate::limits::{
    END_CREDITS_DIVISOR, LOOKUP_CREDITS_DIVISOR, MAIL_BUDGET, ORDER_CREDITS_DIVISOR,
    PEER_QUEUE_REQUESTS_MAX, READ_CREDITS_DIVISOR, SCAN_CREDITS_DIVISOR, VIEW_CREDITS_DIVISOR,
};
use crate::mailbox::{Inbox, Outbox, Port};
use crate::message::{Message, Reply, Request};
use crate::notify::Notify;
use crate::owner::ShardId;
use crate::protocol::Protocol;
use crate::ticket::Ticket;

/// What travels between the cores of a server that speaks `P`.
pub(crate) type Mail<P> = Message<<P as Protocol>::Ask, <P as Protocol>::Answer>;

/// Who asked, and under which name: every question is answered exactly once.
#[derive(Debug)]
#[must_use = "a peer waits for the answer"]
pub struct Asker {
    /// The shard that asked.
    pub(crate) from: ShardId,
    /// The number of the asker's entry for the question.
    pub(crate) id: u32,
}

impl Asker {
    /// The shard that asked.
    pub fn peer(&self) -> ShardId {
        self.from
    }
}

/// A message of a peer, with who waited for it.
pub(crate) enum Received<P: Protocol> {
    /// A peer asks.
    Question(Asker, Request<P::Ask>),
    /// A peer answers what this core asked.
    Answer(Waiting<P::Answer>, Reply<P::Answer>),
}

/// Who waits for something to be done.
pub(crate) enum Waiting<R> {
    /// The writer of a record on one other core.
    Write(Ticket),
    /// The writer of a record over several owners.
    Batch {
        ticket: Ticket,
        parts_left: usize,
        /// The first error of a part.
        failed: Option<Error>,
        /// Whether some part was written, or ended with an error that is no refusal.
        may_be_written: bool,
    },
    /// A batch in this table, for one of its parts.
    Part(u32),
    /// A peer, for its write to be durable here.
    Peer(Asker),
    /// The layer above, for the answer to a read of keys under a number of its choice.
    Caller(u32),
    /// A task of this core, whose request is of this line.
    Task(Line, Rc<Slot<R>>),
    /// No one: the request ends the read for which a task has waited in this slot, or something of the layer above.
    End(Option<Rc<Slot<R>>>),
}

impl<R> Waiting<R> {
    /// The line of the request for whose answer it waits.
    fn line(&self) -> Line {
        match self {
            Waiting::Task(line, _) => *line,
            Waiting::End(_) => Line::Ends,
            Waiting::Caller(_) => Line::Reads,
            _ => Line::General,
        }
    }

    /// Where a task of this core waits for the reply.
    fn slot(&self) -> Option<&Rc<Slot<R>>> {
        match self {
            Waiting::Task(_, slot) => Some(slot),
            _ => None,
        }
    }
}

/// Which line to a peer a request is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Every request that is not of another line: most are writes.
    General,
    /// Reads of keys.
    Reads,
    /// What writes of base tables have noted: the rows of their views. A peer may wait for its end.
    Noted,
    /// Scans of ranges.
    Scans,
    /// Reads of ranges that may use an index.
    Lookups,
    /// What ends another request, and is answered at once.
    Ends,
    /// The steps of what goes on one at a time: a change of the schema, a TRUNCATE, a snapshot. Writes wait for their
    /// end.
    Orders,
}

impl Line {
    /// How many there are.
    const COUNT: usize = 7;
}

/// What the layer above has received.
pub enum Incoming<P: Protocol> {
    /// A peer asks; [`answer`](crate::Shard::answer) it now or later.
    Question(Asker, P::Ask),
    /// The answer to what was asked under this number.
    Answer(u32, P::Answer),
}

/// The place where a task finds its reply.
pub(crate) struct Slot<R> {
    reply: Cell<Option<Reply<R>>>,
    ready: Notify,
    /// The request waits for a credit.
    is_queued: Cell<bool>,
    /// The task is gone.
    is_left: Cell<bool>,
    is_answered: Cell<bool>,
}

impl<R> Slot<R> {
    pub(crate) fn new() -> Rc<Slot<R>> {
        let (reply, is_queued, is_left, is_answered) = Default::default();
        Rc::new(Slot { reply, ready: Notify::new(), is_queued, is_left, is_answered })
    }

    /// Gives the reply to the task that waits.
    pub(crate) fn put(&self, reply: Reply<R>) {
        assert!(!self.is_answered.replace(true), "a task gets one reply");
        self.reply.set(Some(reply));
        self.ready.notify();
    }

    /// Waits for the reply.
    pub(crate) async fn take(&self) -> Reply<R> {
        self.ready.notified().await;
        self.reply.take().expect("a slot is notified with its reply")
    }
}

/// The peers of one core: credits, mail, and who waits for which reply.
pub(crate) struct Peers<P: Protocol> {
    me: ShardId,
    inbox: RefCell<Inbox<Mail<P>>>,
    outbox: RefCell<Outbox<Mail<P>>>,
    /// The lines to each peer: what may still be sent, and what waits until more may.
    to: RefCell<Vec<[LineState<P::Ask>; Line::COUNT]>>,
    waiting: RefCell<Slab<Entry<P::Answer>>>,
    /// Reads whose tasks are gone, and of which the peer does not know it yet.
    unwanted: RefCell<Vec<Unwanted<P::Answer>>>,
    /// What clients' requests take that no peer has answered, and may take, in bytes: those that wait for a credit, and
    /// those that are with a peer, also when the client is told of its time-out or is gone.
    asked_bytes: Cell<u64>,
    asked_bytes_max: u64,
}

/// Who waits for the reply to a request, and the bytes that the request is counted with.
struct Entry<R> {
    waiting: Waiting<R>,
    asked_bytes: u64,
}

/// The requests of one line to one peer.
struct LineState<A> {
    /// Requests that may still be sent.
    credits: usize,
    /// As many while the peer has answered all before.
    credits_max: usize,
    /// Requests that wait for a credit, with the numbers of their entries; none while there are credits.
    queue: Queue<A>,
}

/// Requests with the numbers of their entries.
type Queue<A> = VecDeque<(u32, Request<A>)>;

impl<A> LineState<A> {
    fn new(credits: usize) -> LineState<A> {
        assert!(credits > 0, "a ring has slots for a request and its reply");
        LineState { credits, credits_max: credits, queue: VecDeque::new() }
    }
}

/// What a request counts while it waits for a credit. Of those that only tasks ask the number is bounded elsewhere.
fn bytes_of<P: Protocol>(request: &Request<P::Ask>) -> u64 {
    let bytes = match request {
        Request::Apply(record) => record.len(),
        Request::Service(ask) => P::ask_bytes(ask),
        _ => return 0,
    };
    (bytes + size_of::<Request<P::Ask>>()) as u64
}

/// A read at a peer, the number of its entry, and the place that its task has left.
type Unwanted<R> = (ShardId, u32, Rc<Slot<R>>);

impl<P: Protocol> Peers<P> {
    /// The peers at the other ends of `port`, whose rings have `slots` slots each. What waits for them takes at most
    /// `asked_bytes_max`.
    pub(crate) fn new(
        port: Port<Mail<P>>,
        shards: usize,
        slots: usize,
        asked_bytes_max: u64,
    ) -> Peers<P> {
        let Port { inbox, outbox } = port;
        let credits = slots / 2;
        let parts = [
            READ_CREDITS_DIVISOR,
            VIEW_CREDITS_DIVISOR,
            SCAN_CREDITS_DIVISOR,
            LOOKUP_CREDITS_DIVISOR,
            END_CREDITS_DIVISOR,
            ORDER_CREDITS_DIVISOR,
        ];
        let parts = parts.map(|part| (credits / part).max(1));
        let general = credits - parts.iter().sum::<usize>();
        let [reads, noted, scans, lookups, ends, orders] = parts;
        // In the order of `Line`.
        let credits = [general, reads, noted, scans, lookups, ends, orders];
        Peers {
            me: outbox.me(),
            inbox: RefCell::new(inbox),
            outbox: RefCell::new(outbox),
            to: RefCell::new((0..shards).map(|_| credits.map(LineState::new)).collect()),
            waiting: RefCell::default(),
            unwanted: RefCell::default(),
            asked_bytes: Cell::default(),
            asked_bytes_max,
        }
    }

    /// The id of this shard.
    pub(crate) fn me(&self) -> ShardId {
        self.me
    }

    /// Whether there is mail.
    pub(crate) fn has_mail(&self) -> bool {
        self.inbox.borrow_mut().has_mail()
    }

    /// Makes what was sent visible to the others.
    pub(crate) fn publish(&self) {
        if !self.unwanted.borrow().is_empty() {
            self.end_unwanted();
        }
        self.outbox.borrow_mut().publish();
    }

    /// Hands out what has come, up to a budget, until `is_over`. Whether there was anything.
    pub(crate) fn receive(
        &self,
        mut receive: impl FnMut(Received<P>),
        is_over: impl FnMut() -> bool,
    ) -> bool {
        let take = |from, message: Mail<P>| match message {
            Message::Ask { id, request } => {
                receive(Received::Question(Asker { from, id }, request));
            }
            Message::Answer { id, reply } => {
                let waiting = self.forget(id);
                self.answered(from, waiting.line());
                receive(Received::Answer(waiting, reply));
            }
        };
        self.inbox.borrow_mut().drain(MAIL_BUDGET, take, is_over) > 0
    }

    /// `Overloaded` while so much waits that `peer` is asked for nothing new of this line that takes so many bytes.
    #[inline]
    pub(crate) fn check_place(&self, line: Line, peer: ShardId, bytes: usize) -> Result<()> {
        let line = &self.to.borrow()[peer.index()][line as usize];
        let held = self.asked_bytes.get();
        let has_bytes = held == 0 || held + bytes as u64 <= self.asked_bytes_max;
        if has_bytes && line.queue.len() < PEER_QUEUE_REQUESTS_MAX {
            return Ok(());
        }
        Err(Error::Overloaded("requests to another core"))
    }

    /// Sends a request, at once or after those that wait; gives the number of its entry. New work asks
    /// [`check_place`](Self::check_place) before.
    pub(crate) fn send(
        &self,
        to: ShardId,
        waiting: Waiting<P::Answer>,
        request: Request<P::Ask>,
    ) -> u32 {
        let mut lines = self.to.borrow_mut();
        let line = &mut lines[to.index()][waiting.line() as usize];
        let bytes = bytes_of::<P>(&request);
        match line.credits.checked_sub(1) {
            Some(left) => {
                line.credits = left;
                let id = self.remember_asked(waiting, bytes);
                self.put(to, id, request);
                id
            }
            None => {
                if let Some(slot) = waiting.slot() {
                    slot.is_queued.set(true);
                }
                let id = self.remember_asked(waiting, bytes);
                line.queue.push_back((id, request));
                id
            }
        }
    }

    /// Whether requests of this line wait for credits of this peer.
    pub(crate) fn has_queue(&self, line: Line, peer: ShardId) -> bool {
        !self.to.borrow()[peer.index()][line as usize].queue.is_empty()
    }

    /// Puts a request whose credit is spent into the ring.
    fn put(&self, to: ShardId, id: u32, request: Request<P::Ask>) {
        let sent = self.outbox.borrow_mut().send(to, Message::Ask { id, request });
        assert!(sent.is_ok(), "a credit is a free slot in the ring");
    }

    /// A peer has answered a request: its credit goes to the one of its line that has waited longest.
    fn answered(&self, peer: ShardId, line: Line) {
        let mut lines = self.to.borrow_mut();
        let line = &mut lines[peer.index()][line as usize];
        while let Some((id, request)) = line.queue.pop_front() {
            if self.is_wanted(id) {
                return self.put(peer, id, request);
            }
            self.forget(id);
        }
        line.credits += 1;
        assert!(line.credits <= line.credits_max, "a credit comes back once");
    }

    /// Whether somebody waits for a request that has waited for a credit and is sent now.
    fn is_wanted(&self, id: u32) -> bool {
        let waiting = &self.waiting.borrow()[id as usize].waiting;
        if let Waiting::End(Some(read)) = waiting {
            // By now its number may be another read's.
            return !read.is_answered.get();
        }
        let Some(slot) = waiting.slot() else { return true };
        slot.is_queued.set(false);
        !slot.is_left.get()
    }

    /// The task that waited in `slot` for a read at `to` is gone: the peer is told with what is published next.
    pub(crate) fn no_longer_wanted(&self, to: ShardId, id: u32, slot: Rc<Slot<P::Answer>>) {
        slot.is_left.set(true);
        self.unwanted.borrow_mut().push((to, id, slot));
    }

    #[cold]
    fn end_unwanted(&self) {
        let unwanted = self.unwanted.take();
        for (to, id, slot) in unwanted {
            // An entry that was answered meanwhile may have its next tenant.
            let waiting = self.waiting.borrow();
            let waits = waiting.get(id as usize).and_then(|entry| entry.waiting.slot());
            let waits = waits.is_some_and(|other| Rc::ptr_eq(other, &slot));
            drop(waiting);
            // One that waits for a credit is not sent.
            if waits && !slot.is_queued.get() {
                self.send(to, Waiting::End(Some(slot)), Request::EndRead(id));
            }
        }
    }

    /// Answers a question.
    pub(crate) fn reply(&self, asker: Asker, reply: Reply<P::Answer>) {
        let Asker { from, id } = asker;
        let sent = self.outbox.borrow_mut().send(from, Message::Answer { id, reply });
        assert!(sent.is_ok(), "credits leave a slot for every reply");
    }

    /// Makes an entry for something that waits.
    pub(crate) fn remember(&self, waiting: Waiting<P::Answer>) -> u32 {
        self.remember_asked(waiting, 0)
    }

    /// The same of a request that is counted with these bytes until its entry is taken out.
    fn remember_asked(&self, waiting: Waiting<P::Answer>, asked_bytes: u64) -> u32 {
        self.asked_bytes.set(self.asked_bytes.get() + asked_bytes);
        let id = self.waiting.borrow_mut().insert(Entry { waiting, asked_bytes });
        u32::try_from(id).expect("credits and the log's queue bound what waits")
    }

    /// Takes an entry out.
    pub(crate) fn forget(&self, id: u32) -> Waiting<P::Answer> {
        let Entry { waiting, asked_bytes } = self.waiting.borrow_mut().remove(id as usize);
        self.asked_bytes.set(self.asked_bytes.get() - asked_bytes);
        waiting
    }

    /// One part of a batch has ended. When it was the last: the batch's ticket and result, which is `PartlyWritten` if
    /// a part has failed and some part may be written.
    pub(crate) fn part_done(&self, batch: u32, result: Result<()>) -> Option<(Ticket, Result<()>)> {
        let mut waiting = self.waiting.borrow_mut();
        let entry = waiting.get_mut(batch as usize).map(|entry| &mut entry.waiting);
        let Some(Waiting::Batch { ticket, parts_left, failed, may_be_written }) = entry else {
            unreachable!("a batch waits until its last part is done");
        };
        *parts_left -= 1;
        *may_be_written |= !matches!(&result, Err(error) if error.is_refusal());
        if let Err(error) = result {
            failed.get_or_insert(error);
        }
        if *parts_left > 0 {
            return None;
        }
        let result = match failed.take() {
            None => Ok(()),
            Some(error) if *may_be_written => Err(Error::PartlyWritten(Box::new(error))),
            Some(error) => Err(error),
        };
        let done = (*ticket, result);
        waiting.remove(batch as usize);
        Some(done)
    }
}

#[cfg(test)]
mod tests;
