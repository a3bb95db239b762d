//! One client thread: its connections, which are opened before the run, and the pass that it repeats until the run is
//! over.
//!
//! ```text
//! 1 close the second that is over   4 send: one write per connection on which frames were put
//! 2 draw what is due                5 wait for answers
//! 3 put requests on connections     6 settle them; flush the journal before anything more is sent
//! ```
//!
//! Drawing stops at the deadline, when the operations are spent, or on a stop; then the answers of
//! what is in flight are waited for. A lost connection ends the run, or is opened again if that is
//! wanted.
//!
//! Not here: streams and slots (`worker/connections.rs`), when an operation is due (`worker/schedule.rs`), what follows
//! an answer (`recorder.rs`) or the lack of one (`worker/reconnect.rs`), all threads together (`run.rs`).

mod connections;
mod plan;
mod reconnect;
mod schedule;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use connections::{Connection, Connections, Sent, State};
use cql::frame::Opcode;
use model::Token;
pub use plan::{Plan, Report};
use reconnect::Recovery;
use schedule::Schedule;

use super::handshake::Target;
use super::link::{Received, reply};
use super::pace::{Clock, Pace, Sequencer};
use super::queues::{Order, PendingOp, ShardQueues};
use super::recorder::{CONNECTION_LOST, NextStep, Recorder};
use super::statement::{Form, Template};
use super::sys::{Ready, pin_to_core, sharpen_timers};
use super::topology::Topology;
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::limits::{FIELDS_MAX, WAIT_NS_MAX};
use crate::measure::interval::Interval;
use crate::workload::{Next, Now, Rule};

const SECOND_NS: u64 = 1_000_000_000;

/// What a client thread has. Made on any thread, at work on its own.
#[derive(Debug)]
pub struct Worker {
    server: Server,
    connections: Connections,
    queues: ShardQueues,
    schedule: Schedule,
    recorder: Recorder,
    recovery: Recovery,
    /// How long one operation may take, in ns.
    timeout_ns: u64,
    /// The processor core to run on, if not any.
    core: Option<usize>,
    stop: Arc<AtomicBool>,
    reports: Sender<Report>,
}

/// The server, and the statements that it has prepared.
#[derive(Debug)]
struct Server {
    target: Target,
    topology: Topology,
    templates: Vec<Template>,
    /// The server has forgotten the statements: nothing is sent before they are prepared again.
    unprepared: bool,
}

impl Server {
    /// Prepares the statements of a workload, on a connection of their own.
    fn prepare(&mut self, rule: &dyn Rule) -> Result<()> {
        let statements = rule.statements();
        let mut link = self.target.open()?.link;
        let mut templates = Vec::with_capacity(statements.len());
        for (number, text) in statements.iter().enumerate() {
            let prepared = self.target.prepare(&mut link, text)?;
            let form = match text.starts_with("SELECT") {
                true => Form::Read,
                false if rule.is_named(number) => Form::NamedWrite,
                false => Form::Write,
            };
            templates.push(Template::new(&prepared, &self.target, form));
        }
        self.templates = templates;
        self.unprepared = false;
        Ok(())
    }
}

impl Worker {
    /// Opens the connections and prepares the statements, on a thread that ends after it.
    pub fn new(plan: Plan) -> Result<Worker> {
        // On a core that is not there the run would fail when others have begun it.
        plan.core.map_or(Ok(()), pin_to_core)?;
        let (thread, threads) = plan.thread;
        let order = if plan.pace == Pace::Closed { Order::Last } else { Order::First };
        let sequencer = Sequencer::new(thread, threads);
        let schedule = Schedule::new(plan.pace, sequencer, plan.operations_max, plan.deadline_ns);
        let mut worker = Worker {
            connections: Connections::new()?,
            queues: ShardQueues::new(plan.topology.shards as usize, order),
            server: Server {
                target: plan.target,
                topology: plan.topology,
                templates: Vec::new(),
                unprepared: true,
            },
            schedule,
            recorder: Recorder::new(plan.workload, plan.journal, Clock::start()),
            recovery: Recovery::new(plan.patience_ns),
            timeout_ns: plan.timeout_ns,
            core: plan.core,
            stop: plan.stop,
            reports: plan.reports,
        };
        for (turn, &shard) in plan.shards.iter().enumerate() {
            worker.connect(turn, shard, plan.in_flight)?;
        }
        worker.server.prepare(&*worker.recorder.workload.rule)?;
        let queues_of_connections = worker.connections.list.iter().map(|one| one.queue);
        worker.queues.open(queues_of_connections.collect(), plan.in_flight);
        Ok(worker)
    }

    fn connect(&mut self, turn: usize, shard: u32, in_flight: usize) -> Result<()> {
        let Server { target, topology, .. } = &self.server;
        let opened = target.open_on(shard, turn as u32, topology)?;
        let queue = match opened.topology.own_shard {
            Some(own) if own < topology.shards => own,
            _ => shard,
        };
        self.connections.add(opened, shard, queue as usize, in_flight)
    }

    /// Repeats the pass until the run, which began with `clock`, is over. This thread is the worker's from now on.
    pub fn run(mut self, clock: Clock) -> Result<()> {
        self.core.map_or(Ok(()), pin_to_core)?;
        sharpen_timers();
        self.recorder.clock = clock;
        let end = self.pass_until_over();
        let cause = self.recovery.cause.take().or(end.err());
        let last = std::mem::replace(&mut self.recorder.interval, Interval::new(0));
        let behind = self.schedule.behind(self.now().elapsed_ns);
        // A send fails only if the whole run is being given up: then the reports have no reader.
        let _ = self.reports.send(Report::Second(Box::new(last)));
        let _ = self.reports.send(Report::Finished {
            drawn: self.schedule.drawn(),
            behind: if cause.is_none() { behind } else { 0 },
            last_sequence: self.schedule.last_sequence(),
            cause,
        });
        Ok(())
    }

    fn pass_until_over(&mut self) -> Result<()> {
        loop {
            let now = self.now();
            self.close_seconds(now);
            if self.schedule.is_drawing() && self.is_spent(now) {
                self.stop_drawing();
            }
            if self.is_over(now) {
                return Ok(());
            }
            self.reconnect(now)?;
            self.issue(now);
            // What a journal must know before it is sent.
            self.flush_journal()?;
            for (index, reason) in self.connections.send()? {
                self.lose(index, &reason);
            }
            self.wait(now)?;
            while let Some(ready) = self.connections.next_ready() {
                self.serve(ready)?;
            }
            self.flush_journal()?;
        }
    }

    fn flush_journal(&mut self) -> Result<()> {
        self.recorder.journal.as_mut().map_or(Ok(()), Journal::flush)
    }

    #[inline]
    fn now(&self) -> Now {
        self.recorder.clock.now()
    }

    fn is_spent(&self, now: Now) -> bool {
        self.stop.load(Ordering::Relaxed)
            || self.schedule.is_late(now.elapsed_ns)
            || self.schedule.is_spent()
            || self.recovery.cause.is_some()
    }

    /// From here on only what was begun is finished.
    fn stop_drawing(&mut self) {
        self.schedule.stop();
        // What was due at a rate is late and not gone: its latency is what the rate is for.
        let keeps_all = self.schedule.is_spent() || !self.schedule.is_closed_loop;
        if !keeps_all || self.recovery.cause.is_some() {
            let Worker { recorder, queues, schedule, .. } = self;
            queues.drop_unsent(|op| {
                recorder.workload.rule.failed(op);
                schedule.drop_one();
            });
        }
    }

    /// Whether nothing is in flight or waiting, or it has had its time.
    fn is_over(&mut self, now: Now) -> bool {
        if self.schedule.is_drawing() {
            return false;
        }
        if self.recovery.cause.is_some() {
            // There may be no connection left to send them again on.
            self.fail_parked(CONNECTION_LOST, "refused before, and the run ends");
        }
        if self.connections.in_flight == 0 && self.queues.parked() == 0 {
            return true;
        }
        let Some(deadline_ns) = self.schedule.deadline_ns else { return false };
        let patience_ns = self.timeout_ns.saturating_add(self.recovery.patience_ns.unwrap_or(0));
        if now.elapsed_ns < deadline_ns.saturating_add(patience_ns) {
            return false;
        }
        self.abandon_older_than(u64::MAX);
        self.fail_parked("client timeout", "the run ended first");
        true
    }

    fn fail_parked(&mut self, name: &str, text: &str) {
        for pending in self.queues.take_parked() {
            self.recorder.fail(&pending.op, name, text);
        }
    }

    /// Reports the seconds that are over, and gives up what has taken too long.
    fn close_seconds(&mut self, now: Now) {
        let second = (now.elapsed_ns / SECOND_NS) as u32;
        if self.recorder.interval.second == second {
            return;
        }
        self.abandon_older_than(now.elapsed_ns.saturating_sub(self.timeout_ns));
        while self.recorder.interval.second < second {
            let next = Interval::new(self.recorder.interval.second + 1);
            let past = std::mem::replace(&mut self.recorder.interval, next);
            if self.reports.send(Report::Second(Box::new(past))).is_err() {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Puts on connections what waits in the queues, and then what is due.
    #[inline]
    fn issue(&mut self, now: Now) {
        if self.server.unprepared {
            return;
        }
        for queue in 0..self.queues.count() {
            while let Some((pending, connection)) = self.queues.unpark(queue, now.elapsed_ns) {
                self.put(connection, pending, now);
            }
        }
        while self.schedule.is_drawing() && !self.schedule.is_spent() && self.queues.wants_more() {
            let Worker { schedule, recorder, .. } = &mut *self;
            let mut is_done = false;
            let taken = schedule.take(now.elapsed_ns, || match recorder.workload.next_op() {
                Next::Op(op) => Some(op),
                Next::Later => None,
                Next::Done => {
                    is_done = true;
                    None
                }
            });
            if is_done {
                self.schedule.exhaust();
            }
            let Some((op, intended_ns)) = taken else { return };
            let pending =
                PendingOp { op, sequence: 0, intended_ns, began_ns: intended_ns, attempts: 0 };
            let queue = self.queue_of(op.token);
            match self.queues.acquire(queue, now.elapsed_ns) {
                Some(connection) => self.put(connection, pending, now),
                None => self.queues.park(queue, pending),
            }
        }
    }

    #[inline]
    fn queue_of(&self, token: Token) -> usize {
        self.queues.of_shard(self.server.topology.shard_of(token))
    }

    /// Puts one request on a connection.
    #[inline]
    fn put(&mut self, index: usize, mut pending: PendingOp, now: Now) {
        let Worker { connections, schedule, recorder, server, .. } = self;
        if schedule.is_closed_loop {
            pending.begin_now(now.elapsed_ns);
        }
        let mut floor = [0; FIELDS_MAX];
        if !pending.op.verb.is_write() {
            recorder.workload.rule.floor(&pending.op, &mut floor);
        } else {
            if pending.sequence == 0 {
                pending.sequence = schedule.next_sequence(now.wall_us);
            }
            recorder.begin(&pending);
        }
        let rule = &recorder.workload.rule;
        let template = &server.templates[rule.statement(&pending.op)];
        connections.put(index, pending, now.elapsed_ns, floor, |stream, out| {
            let (op, sequence) = (&pending.op, pending.sequence);
            let name = || rule.name(op, sequence);
            template.append((stream, sequence), out, name, |binder| {
                rule.bind(op, sequence, binder);
            });
        });
    }

    fn wait(&mut self, now: Now) -> Result<()> {
        let mut until_ns = now.elapsed_ns + WAIT_NS_MAX;
        if let Some(wake_ns) = self.queues.wake_ns(now.elapsed_ns) {
            until_ns = until_ns.min(wake_ns);
        }
        if self.queues.wants_more()
            && let Some(due_ns) = self.schedule.due_ns()
        {
            until_ns = until_ns.min(due_ns);
        }
        let timeout_ns = until_ns.saturating_sub(self.now().elapsed_ns);
        self.connections.wait(Duration::from_nanos(timeout_ns))
    }

    fn serve(&mut self, ready: Ready) -> Result<()> {
        let index = ready.index;
        if ready.writable
            && let Sent::Lost(reason) = self.connections.send_on(index)?
        {
            self.lose(index, &reason);
        }
        if !ready.readable {
            return Ok(());
        }
        loop {
            let Some(link) = &mut self.connections.list[index].link else { return Ok(()) };
            let received = match link.receive() {
                Ok(received) => received,
                Err(Error::Lost(reason)) => {
                    self.lose(index, &reason);
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            self.settle(index)?;
            if received == Received::All {
                return Ok(());
            }
        }
    }

    /// Settles every whole answer on one connection.
    #[inline]
    fn settle(&mut self, index: usize) -> Result<()> {
        let now_ns = self.now().elapsed_ns;
        let Worker { connections, recorder, queues, server, .. } = self;
        let Connections { list, in_flight, .. } = connections;
        let Connection { link, slots, free, queue, .. } = &mut list[index];
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
            let is_abandoned = slot.state == State::Abandoned;
            slot.state = State::Free;
            free.push(stream as u16);
            queues.release(*queue, index);
            if is_abandoned {
                continue;
            }
            *in_flight -= 1;
            let reply = reply(&header, body)?;
            let step = recorder.settle(&slot.pending, slot.sent_ns, &slot.floor, reply, now_ns)?;
            let (pending, not_before_ns) = match step {
                NextStep::Over => continue,
                NextStep::Follow(pending) => (pending, 0),
                NextStep::Again { pending, not_before_ns } => (pending, not_before_ns),
                NextStep::Prepare(pending) => {
                    server.unprepared = true;
                    (pending, 0)
                }
            };
            let shard = server.topology.shard_of(pending.op.token);
            queues.park_again(queues.of_shard(shard), pending, not_before_ns);
        }
        Ok(())
    }
}
