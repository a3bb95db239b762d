//! One core's conversation with its peers: what it sends, what it may still send, who waits for what.
//!
//! ```text
//! send     credit ─► entry in `waiting` ─► outbox ─► (published once a pass)
//! receive  inbox ─► a question: `Asker`, to be answered once
//!                └► an answer: the credit is back, the entry says who waited
//! ```
//!
//! Invariant: at most `credit` requests to a peer are unanswered, half of the
//! slots of the ring back, so a reply never finds the mailbox full.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use engine::{Error, Result};
use slab::Slab;

use crate::limits::MAIL_BUDGET;
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
    Batch { ticket: Ticket, parts_left: usize, failed: Option<Error> },
    /// A batch in this table, for one of its parts.
    Part(u32),
    /// A peer, for its write to be durable here.
    Peer(Asker),
    /// The layer above, for the answer to a question under a number of its choice.
    Caller(u32),
    /// A task of this core.
    Task(Rc<Slot<R>>),
}

/// What the layer above has received.
pub enum Incoming<P: Protocol> {
    /// A peer asks; [`answer`](crate::Shard::answer) it now or later.
    Question(Asker, P::Ask),
    /// The answer to what was asked under this number.
    Answer(u32, P::Answer),
}

/// The place where a task finds its reply.
#[derive(Default)]
pub(crate) struct Slot<R> {
    reply: Cell<Option<Reply<R>>>,
    ready: Notify,
}

impl<R> Slot<R> {
    pub(crate) fn new() -> Rc<Slot<R>> {
        Rc::new(Slot { reply: Cell::new(None), ready: Notify::new() })
    }

    /// Gives the reply to the task that waits.
    pub(crate) fn put(&self, reply: Reply<R>) {
        let before = self.reply.replace(Some(reply));
        assert!(before.is_none(), "a task gets one reply");
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
    /// Requests that may still be sent to each peer.
    credits: RefCell<Vec<usize>>,
    /// Requests that may be sent to a peer that has answered all before.
    credits_max: usize,
    waiting: RefCell<Slab<Waiting<P::Answer>>>,
    /// Reads whose tasks are gone, and of which the peer does not know it yet.
    unwanted: RefCell<Vec<Unwanted<P::Answer>>>,
}

/// A read at a peer, the number of its entry, and the place that its task has left.
type Unwanted<R> = (ShardId, u32, Rc<Slot<R>>);

impl<P: Protocol> Peers<P> {
    /// The peers at the other ends of `port`, whose rings have `slots` slots each.
    pub(crate) fn new(port: Port<Mail<P>>, shards: usize, slots: usize) -> Peers<P> {
        let Port { inbox, outbox } = port;
        let credits_max = slots / 2;
        assert!(credits_max > 0, "a ring has slots for a request and its reply");
        Peers {
            me: outbox.me(),
            inbox: RefCell::new(inbox),
            outbox: RefCell::new(outbox),
            credits: RefCell::new(vec![credits_max; shards]),
            credits_max,
            waiting: RefCell::default(),
            unwanted: RefCell::default(),
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

    /// Hands out what has come, up to a budget. Whether there was anything.
    pub(crate) fn receive(&self, mut receive: impl FnMut(Received<P>)) -> bool {
        let taken = self.inbox.borrow_mut().drain(MAIL_BUDGET, |from, message| match message {
            Message::Ask { id, request } => {
                receive(Received::Question(Asker { from, id }, request));
            }
            Message::Answer { id, reply } => {
                self.return_credit(from);
                receive(Received::Answer(self.forget(id), reply));
            }
        });
        taken > 0
    }

    /// Reserves the slots of a request to `peer` and of its reply. `Overloaded` when there are none.
    pub(crate) fn spend_credit(&self, peer: ShardId) -> Result<()> {
        let credit = &mut self.credits.borrow_mut()[peer.index()];
        *credit = credit.checked_sub(1).ok_or(Error::Overloaded("requests to another core"))?;
        Ok(())
    }

    /// Gives back what was reserved for a request to `peer` that was answered, or is not sent.
    pub(crate) fn return_credit(&self, peer: ShardId) {
        let credit = &mut self.credits.borrow_mut()[peer.index()];
        *credit += 1;
        assert!(*credit <= self.credits_max, "a credit comes back once");
    }

    /// Sends a request whose credit is spent; gives the number of its entry.
    pub(crate) fn send(
        &self,
        to: ShardId,
        waiting: Waiting<P::Answer>,
        request: Request<P::Ask>,
    ) -> u32 {
        let id = self.remember(waiting);
        let sent = self.outbox.borrow_mut().send(to, Message::Ask { id, request });
        assert!(sent.is_ok(), "a credit is a free slot in the ring");
        id
    }

    /// The task that waited in `slot` for a read at `to` is gone: the peer is told with what is published next.
    pub(crate) fn no_longer_wanted(&self, to: ShardId, id: u32, slot: Rc<Slot<P::Answer>>) {
        self.unwanted.borrow_mut().push((to, id, slot));
    }

    #[cold]
    fn end_unwanted(&self) {
        let unwanted = self.unwanted.take();
        for (to, id, slot) in unwanted {
            // An entry that was answered meanwhile may have its next tenant.
            let waits = matches!(self.waiting.borrow().get(id as usize),
                Some(Waiting::Task(other)) if Rc::ptr_eq(other, &slot));
            if !waits {
                continue;
            }
            if self.spend_credit(to).is_ok() {
                self.send(to, Waiting::Task(Slot::new()), Request::EndRead(id));
            } else {
                self.unwanted.borrow_mut().push((to, id, slot));
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
        let id = self.waiting.borrow_mut().insert(waiting);
        u32::try_from(id).expect("credits and the log's queue bound what waits")
    }

    /// Takes an entry out.
    pub(crate) fn forget(&self, id: u32) -> Waiting<P::Answer> {
        self.waiting.borrow_mut().remove(id as usize)
    }

    /// One part of a batch is done. When it was the last: the batch's ticket and result.
    pub(crate) fn part_done(&self, batch: u32, result: Result<()>) -> Option<(Ticket, Result<()>)> {
        let mut waiting = self.waiting.borrow_mut();
        let Some(Waiting::Batch { ticket, parts_left, failed }) = waiting.get_mut(batch as usize)
        else {
            unreachable!("a batch waits until its last part is done");
        };
        *parts_left -= 1;
        if let Err(error) = result {
            failed.get_or_insert(error);
        }
        if *parts_left > 0 {
            return None;
        }
        let done = (*ticket, failed.take().map_or(Ok(()), Err));
        waiting.remove(batch as usize);
        Some(done)
    }
}
