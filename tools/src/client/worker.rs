//! One client thread: its connections, and the pass that it repeats until the run is over.
//!
//! ```text
//! 1 turn the second over            4 send: one write per connection that has something to say
//! 2 draw what is due                5 wait for answers
//! 3 put requests on connections     6 settle them; flush the journal before anything more is sent
//! ```
//!
//! Drawing stops at the deadline, when the operations are spent, or on a stop; then what is in
//! flight is waited for. A lost connection ends the run, or is opened again if that is wanted.

mod healing;

use super::books::{After, Books};
use super::handshake::Target;
use super::lanes::{Due, Lanes, Order};
use super::link::{Link, Received, reply};
use super::pace::{Clock, Pace, Sequencer};
use super::statement::Template;
use super::sys::{Poller, Ready, pin_to_core, sharpen_timers};
use super::topology::Topology;
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::limits::{FIELDS_MAX, WAIT_NS_MAX};
use crate::measure::interval::Interval;
use crate::proof::Floor;
use crate::workload::{Next, Now, Op, Verb, Workload};
use cql::frame::Opcode;
use model::Token;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;

/// What one client thread is to do.
#[derive(Debug)]
pub struct Plan {
    /// The server.
    pub target: Target,
    /// Its shards.
    pub topology: Topology,
    /// The shard each connection should be on.
    pub shards: Vec<u32>,
    /// Requests that one connection carries at a time.
    pub in_flight: usize,
    /// What to do.
    pub workload: Workload,
    /// Where acknowledged writes go.
    pub journal: Option<Journal>,
    /// When to do it.
    pub pace: Pace,
    /// Operations to draw; `None` for as many as there are.
    pub operations_max: Option<u64>,
    /// When to stop drawing.
    pub deadline_ns: Option<u64>,
    /// How long one operation may take.
    pub timeout_ns: u64,
    /// How long to try when the server is gone; `None` ends the run.
    pub patience_ns: Option<u64>,
    /// The core to run on.
    pub core: Option<usize>,
    /// This thread, and how many there are.
    pub thread: (usize, usize),
    /// The time.
    pub clock: Clock,
    /// Set when the run is to end early.
    pub stop: Arc<AtomicBool>,
    /// Where seconds are handed over.
    pub reports: Sender<Report>,
}

/// What a client thread tells.
#[derive(Debug)]
pub enum Report {
    /// A second is over.
    Second(Box<Interval>),
    /// The thread is done.
    Finished {
        /// Operations that were due and never drawn.
        behind: u64,
        /// The number of its last write.
        last_sequence: u64,
        /// Why it ended before its time.
        cause: Option<Error>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    InFlight,
    /// Given up, but the answer may still come.
    Abandoned,
}

#[derive(Clone, Debug)]
struct Slot {
    state: State,
    due: Due,
    sent_ns: u64,
    floor: Floor,
}

#[derive(Debug)]
struct Connection {
    /// `None` while it is lost.
    link: Option<Link>,
    shard: u32,
    lane: usize,
    slots: Vec<Slot>,
    free: Vec<u16>,
    dirty: bool,
    /// The socket is full; what is unsent waits for room.
    stuck: bool,
}

/// A client thread at work.
#[derive(Debug)]
pub struct Worker {
    plan: Limits,
    target: Target,
    topology: Topology,
    poller: Poller,
    ready: Vec<Ready>,
    connections: Vec<Connection>,
    dirty: Vec<usize>,
    lanes: Lanes,
    /// The lane of each shard.
    lane_of_shard: Vec<usize>,
    templates: Vec<Template>,
    books: Books,
    pace: Pace,
    is_closed_loop: bool,
    sequencer: Sequencer,
    in_flight: usize,
    drawing: bool,
    drawn: u64,
    unprepared: bool,
    reopen_ns: u64,
    lost_since_ns: Option<u64>,
    cause: Option<Error>,
    stop: Arc<AtomicBool>,
    reports: Sender<Report>,
}

/// The numbers of a plan.
#[derive(Clone, Copy, Debug)]
struct Limits {
    operations_max: Option<u64>,
    deadline_ns: Option<u64>,
    timeout_ns: u64,
    patience_ns: Option<u64>,
}

impl Worker {
    /// Opens the connections and prepares the statements.
    pub fn new(plan: Plan) -> Result<Worker> {
        if let Some(core) = plan.core {
            pin_to_core(core)?;
        }
        sharpen_timers();
        let (thread, threads) = plan.thread;
        let order = if plan.pace == Pace::Closed { Order::Last } else { Order::First };
        let lanes = Lanes::new(plan.topology.shards as usize, order);
        let mut worker = Worker {
            plan: Limits {
                operations_max: plan.operations_max,
                deadline_ns: plan.deadline_ns,
                timeout_ns: plan.timeout_ns,
                patience_ns: plan.patience_ns,
            },
            target: plan.target,
            topology: plan.topology,
            poller: Poller::new()?,
            ready: Vec::new(),
            connections: Vec::new(),
            dirty: Vec::new(),
            lanes,
            lane_of_shard: Vec::new(),
            templates: Vec::new(),
            books: Books::new(plan.workload, plan.journal, plan.clock),
            pace: plan.pace,
            is_closed_loop: plan.pace == Pace::Closed,
            sequencer: Sequencer::new(thread, threads),
            in_flight: 0,
            drawing: true,
            drawn: 0,
            unprepared: false,
            reopen_ns: 0,
            lost_since_ns: None,
            cause: None,
            stop: plan.stop,
            reports: plan.reports,
        };
        for (turn, &shard) in plan.shards.iter().enumerate() {
            worker.connect(turn, shard, plan.in_flight)?;
        }
        worker.prepare()?;
        worker.deal_lanes(plan.in_flight);
        Ok(worker)
    }

    fn connect(&mut self, turn: usize, shard: u32, in_flight: usize) -> Result<()> {
        let opened = self.target.open_on(shard, turn as u32, &self.topology)?;
        let lane = match opened.topology.own_shard {
            Some(own) if own < self.topology.shards => own,
            _ => shard,
        };
        let mut link = opened.link;
        link.set_nonblocking()?;
        self.poller.add(link.socket(), self.connections.len())?;
        let op = Op { verb: Verb::Read, key: 0, detail: 0, token: Token(0) };
        let due = Due { op, sequence: 0, intended_ns: 0, began_ns: 0, attempts: 0 };
        let slot = Slot { state: State::Free, due, sent_ns: 0, floor: [0; FIELDS_MAX] };
        self.connections.push(Connection {
            link: Some(link),
            shard,
            lane: lane as usize,
            slots: vec![slot; in_flight],
            free: (0..in_flight as u16).rev().collect(),
            dirty: false,
            stuck: false,
        });
        Ok(())
    }

    /// Gives each shard a lane, and room on all connections, one slot of each in turn.
    fn deal_lanes(&mut self, in_flight: usize) {
        let mut with: Vec<usize> = self.connections.iter().map(|c| c.lane).collect();
        with.sort_unstable();
        with.dedup();
        self.lane_of_shard = (0..self.lanes.count())
            .map(|shard| if with.contains(&shard) { shard } else { with[shard % with.len()] })
            .collect();
        for _ in 0..in_flight {
            for (index, connection) in self.connections.iter().enumerate() {
                self.lanes.release(connection.lane, index);
            }
        }
    }

    /// Prepares all statements anew, on a connection of its own.
    fn prepare(&mut self) -> Result<()> {
        let mut link = self.target.open()?.link;
        let statements = self.books.workload.statements();
        let mut templates = Vec::with_capacity(statements.len());
        for text in &statements {
            let prepared = self.target.prepare(&mut link, text)?;
            let is_write = !text.starts_with("SELECT");
            templates.push(Template::new(&prepared, &self.target, is_write));
        }
        self.templates = templates;
        Ok(())
    }

    /// Repeats the pass until the run is over.
    pub fn run(mut self) {
        let end = self.pass_until_over();
        let cause = self.cause.take().or(end.err());
        let now_ns = self.now().elapsed_ns.min(self.plan.deadline_ns.unwrap_or(u64::MAX));
        let last = std::mem::replace(&mut self.books.interval, Interval::new(0));
        // Nobody listens any more only if the whole run is being given up.
        let _ = self.reports.send(Report::Second(Box::new(last)));
        let _ = self.reports.send(Report::Finished {
            behind: if cause.is_none() { self.pace.behind(now_ns) } else { 0 },
            last_sequence: self.sequencer.last(),
            cause,
        });
    }

    fn pass_until_over(&mut self) -> Result<()> {
        loop {
            let now = self.now();
            self.turn_second(now);
            if self.drawing && self.is_spent(now) {
                self.stop_drawing();
            }
            if self.is_over(now) {
                return Ok(());
            }
            self.heal(now)?;
            self.issue(now);
            self.send()?;
            self.wait(now)?;
            let mut ready = std::mem::take(&mut self.ready);
            for ready in ready.drain(..) {
                self.serve(ready)?;
            }
            self.ready = ready;
            if let Some(journal) = &mut self.books.journal {
                journal.flush()?;
            }
        }
    }

    #[inline]
    fn now(&self) -> Now {
        self.books.clock.now()
    }

    fn is_spent(&self, now: Now) -> bool {
        self.stop.load(Ordering::Relaxed)
            || self.plan.deadline_ns.is_some_and(|deadline_ns| now.elapsed_ns >= deadline_ns)
            || self.plan.operations_max.is_some_and(|max| self.drawn >= max)
            || self.cause.is_some()
    }

    /// From here on only what was begun is finished.
    fn stop_drawing(&mut self) {
        self.drawing = false;
        let spent = self.plan.operations_max.is_some_and(|max| self.drawn >= max);
        if !spent || self.cause.is_some() {
            let workload = &mut self.books.workload;
            self.lanes.drop_unsent(|op| workload.failed(op));
        }
    }

    /// Nothing is on its way, or what is has had its time.
    fn is_over(&mut self, now: Now) -> bool {
        if self.drawing {
            return false;
        }
        if self.in_flight == 0 && self.lanes.parked() == 0 {
            return true;
        }
        let (Some(deadline_ns), timeout_ns) = (self.plan.deadline_ns, self.plan.timeout_ns) else {
            return false;
        };
        let patience_ns = timeout_ns.saturating_add(self.plan.patience_ns.unwrap_or(0));
        if now.elapsed_ns < deadline_ns.saturating_add(patience_ns) {
            return false;
        }
        self.abandon_older_than(u64::MAX);
        for due in self.lanes.take_parked() {
            self.books.fail(&due.op, "client timeout", "the run ended first");
        }
        true
    }

    fn turn_second(&mut self, now: Now) {
        let second = (now.elapsed_ns / SECOND_NS) as u32;
        if self.books.interval.second == second {
            return;
        }
        self.abandon_older_than(now.elapsed_ns.saturating_sub(self.plan.timeout_ns));
        while self.books.interval.second < second {
            let next = Interval::new(self.books.interval.second + 1);
            let past = std::mem::replace(&mut self.books.interval, next);
            if self.reports.send(Report::Second(Box::new(past))).is_err() {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Puts what waits, and then what is due, on connections with room.
    #[inline]
    fn issue(&mut self, now: Now) {
        if self.unprepared {
            return;
        }
        for lane in 0..self.lanes.count() {
            while let Some((due, connection)) = self.lanes.unpark(lane, now.elapsed_ns) {
                self.put(connection, due, now);
            }
        }
        while self.drawing && self.lanes.wants_more() {
            if self.plan.operations_max.is_some_and(|max| self.drawn >= max) {
                return;
            }
            let before = self.pace;
            let Some(intended_ns) = self.pace.take(now.elapsed_ns) else { return };
            let op = match self.books.workload.next(now) {
                Next::Op(op) => op,
                Next::Later => {
                    self.pace = before;
                    return;
                }
                Next::Done => {
                    self.pace = Pace::Closed;
                    self.drawing = false;
                    return;
                }
            };
            self.drawn += 1;
            let due = Due { op, sequence: 0, intended_ns, began_ns: intended_ns, attempts: 0 };
            let lane = self.lane_of(op.token);
            match self.lanes.acquire(lane, now.elapsed_ns) {
                Some(connection) => self.put(connection, due, now),
                None => self.lanes.park(lane, due),
            }
        }
    }

    #[inline]
    fn lane_of(&self, token: Token) -> usize {
        self.lane_of_shard[self.topology.shard_of(token) as usize]
    }

    /// Puts one request on a connection.
    #[inline]
    fn put(&mut self, index: usize, mut due: Due, now: Now) {
        if self.is_closed_loop {
            due.begin_now(now.elapsed_ns);
        }
        let connection = &mut self.connections[index];
        let stream = connection.free.pop().expect("a lane gives out only what is free");
        let link = connection.link.as_mut().expect("a lost connection has no room");
        let slot = &mut connection.slots[usize::from(stream)];
        let workload = &self.books.workload;
        if !due.op.verb.is_write() {
            workload.floor(&due.op, &mut slot.floor);
        } else if due.sequence == 0 {
            due.sequence = self.sequencer.next(now.wall_us);
        }
        *slot = Slot { state: State::InFlight, due, sent_ns: now.elapsed_ns, floor: slot.floor };
        let template = &self.templates[workload.statement(&due.op)];
        link.put(|out| {
            template.append(stream, due.sequence, out, |binder| {
                workload.bind(&due.op, due.sequence, binder);
            });
        });
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(index);
        }
        self.in_flight += 1;
    }

    /// One send per connection that has something to say.
    fn send(&mut self) -> Result<()> {
        let mut dirty = std::mem::take(&mut self.dirty);
        for index in dirty.drain(..) {
            self.connections[index].dirty = false;
            self.send_on(index)?;
        }
        self.dirty = dirty;
        Ok(())
    }

    fn send_on(&mut self, index: usize) -> Result<()> {
        let connection = &mut self.connections[index];
        let Some(link) = &mut connection.link else { return Ok(()) };
        match link.send() {
            Ok(stuck) => {
                if stuck != connection.stuck {
                    connection.stuck = stuck;
                    self.poller.watch_room(link.socket(), index, stuck)?;
                }
                Ok(())
            }
            Err(Error::Lost(reason)) => {
                self.lose(index, &reason);
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    fn wait(&mut self, now: Now) -> Result<()> {
        let mut until_ns = now.elapsed_ns + WAIT_NS_MAX;
        if let Some(wake_ns) = self.lanes.wake_ns(now.elapsed_ns) {
            until_ns = until_ns.min(wake_ns);
        }
        if self.drawing
            && self.lanes.wants_more()
            && let Some(due_ns) = self.pace.due_ns()
        {
            until_ns = until_ns.min(due_ns);
        }
        let timeout = Duration::from_nanos(until_ns.saturating_sub(self.now().elapsed_ns));
        let ready = &mut self.ready;
        self.poller.wait(timeout, |one| ready.push(one))
    }

    fn serve(&mut self, ready: Ready) -> Result<()> {
        if ready.writable {
            self.send_on(ready.index)?;
        }
        if !ready.readable {
            return Ok(());
        }
        loop {
            let Some(link) = &mut self.connections[ready.index].link else { return Ok(()) };
            let received = match link.receive() {
                Ok(received) => received,
                Err(Error::Lost(reason)) => {
                    self.lose(ready.index, &reason);
                    return Ok(());
                }
                Err(e) => return Err(e),
            };
            self.settle(ready.index)?;
            if received == Received::All {
                return Ok(());
            }
        }
    }

    /// Settles every whole answer on one connection.
    #[inline]
    fn settle(&mut self, index: usize) -> Result<()> {
        let now_ns = self.now().elapsed_ns;
        let Worker { connections, books, lanes, .. } = self;
        let Connection { link, slots, free, lane, .. } = &mut connections[index];
        let Some(link) = link else { return Ok(()) };
        while let Some((header, body)) = link.next_frame()? {
            if header.opcode == Opcode::Event {
                continue;
            }
            let stream = usize::try_from(header.stream).unwrap_or(usize::MAX);
            let slot = slots.get_mut(stream).filter(|slot| slot.state != State::Free);
            let Some(slot) = slot else {
                return Err(Error::Protocol(format!("an answer on unused stream {stream}")));
            };
            let given_up = slot.state == State::Abandoned;
            slot.state = State::Free;
            free.push(stream as u16);
            lanes.release(*lane, index);
            if given_up {
                continue;
            }
            self.in_flight -= 1;
            let reply = reply(&header, body)?;
            let after = books.settle(&slot.due, slot.sent_ns, &slot.floor, reply, now_ns)?;
            let lane_of = |op: &Op| self.lane_of_shard[self.topology.shard_of(op.token) as usize];
            match after {
                After::Over => {}
                After::Follow(due) => lanes.park_again(lane_of(&due.op), due, 0),
                After::Again { due, not_before_ns } => {
                    lanes.park_again(lane_of(&due.op), due, not_before_ns);
                }
                After::Prepare(due) => {
                    self.unprepared = true;
                    lanes.park_again(lane_of(&due.op), due, 0);
                }
            }
        }
        Ok(())
    }
}
