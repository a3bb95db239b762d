//! The pass: everything a core does for its clients, over and over.
//!
//! ```text
//! 1  look which sockets are ready               one epoll_wait, no waiting
//! 2  accept                                     a bounded number
//! 3  read, decode, execute                      one recv a connection; most requests end here; a bounded time
//! 4  the service is polled                      mail of other cores, what the log completed
//! 5  late answers join their connections
//! 6  send                                       what is ready, and of a long answer a chunk; a bounded time
//! 7  let others run; if nothing was done: spin a little, then sleep
//! ```
//!
//! No task for a short request of one partition: what cannot end inside the pass waits in the service and comes back in
//! 5. (A read of a range that has to wait is a task, so that its group may be given less of the core, and so is a long
//! BATCH.) The pass works with one time, read at its start; only the bounds of 3 to 6 and of housekeeping read the
//! clock, after some units of work (`shard/src/effort.rs`).
//!
//! Invariant: a connection that has something to do which no event will tell of (bytes read and held back, a socket
//! read to the brim, answers that the time of this pass did not reach, the rest of a long answer) is on a list for the
//! next pass. One that must wait until others take less of the core's memory has its turn with its own answers, when
//! there is space for what it would decompress, and with housekeeping.
//!
//! Not here: when a core wakes for what no event tells of (`pass/ticks.rs`).

mod ticks;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use shard::Runtime;
use shard::clock::Clock;
use shard::groups::Group;
use shard::idle::{Idle, WAKE_KEY};
use shard::notify::Notify;
use shard::os::epoll::{Interest, Poller};
use shard::stalls::{Stalls, Work};
use ticks::Ticks;

use crate::answers::Answers;
use crate::connection::{Connection, Fate};
use crate::connections::Connections;
use crate::limits::{
    ACCEPTS_PER_PASS, CONNECTIONS_PER_CLOCK_READ, DEADLINE_INTERVAL, EXPANDING_PER_PASS,
    HOUSEKEEPING_INTERVAL, HOUSEKEEPING_SLICE, READ_BYTES, SPARE_FRAME_BYTES_MAX, STOP_TIMEOUT,
};
use crate::listen::ShardListeners;
use crate::load::Load;
use crate::orphans::Orphans;
use crate::service::Service;
use crate::session::{ConnectionId, Session};
use crate::time_slice::TimeSlice;
use crate::transport::Transport;

const PLAIN_KEY: u64 = WAKE_KEY - 1;
/// The steps of the pass: 1 to 3, and 4 to 6.
const SERVING: Work = Work { group: Group::Requests, name: "pass: requests", table: None };
const ANSWERING: Work =
    Work { group: Group::Requests, name: "pass: mail, completions, answers", table: None };

const SHARD_AWARE_KEY: u64 = WAKE_KEY - 2;
/// The admin socket's listener, in the poller of the first core.
pub(crate) const ADMIN_KEY: u64 = WAKE_KEY - 3;

/// The listeners, bounds and callbacks of a core's pass.
pub(crate) struct PassConfig {
    /// The listeners that this core accepts connections from.
    pub(crate) listeners: ShardListeners,
    /// Whether the server is to stop. Asked once a pass; what makes it so wakes the core.
    pub(crate) stop_asked: Box<dyn Fn() -> bool>,
    /// Called once, when the server is to stop and every client has its answers.
    pub(crate) on_over: Box<dyn FnOnce()>,
    /// Whether clients are let in. Looked at once a pass.
    pub(crate) transport: Arc<Transport>,
    /// Notified when somebody arrives at the admin socket, if this core has it.
    pub(crate) admin_arrivals: Rc<Notify>,
    /// How many connections this core takes.
    pub(crate) connections_max: usize,
    /// The core's budget of memory.
    pub(crate) memory_bytes: u64,
    /// The memory of the core's answers.
    pub(crate) answers: Arc<Answers>,
    /// Where passes that took long are counted.
    pub(crate) stalls: Rc<Stalls>,
}

/// One core's clients. See the module.
pub(crate) struct Pass<S> {
    service: S,
    clock: Rc<Clock>,
    poller: Poller,
    listeners: Option<ShardListeners>,
    stop_asked: Box<dyn Fn() -> bool>,
    on_over: Option<Box<dyn FnOnce()>>,
    transport: Arc<Transport>,
    admin_arrivals: Rc<Notify>,
    stopping: Option<Instant>,
    stalls: Rc<Stalls>,
    connections: Connections,
    connections_max: usize,
    orphans: Orphans,
    load: Load,
    /// What late answers count that the last pass had no time to deliver.
    undelivered_bytes: usize,
    /// The listeners may have more than was accepted.
    accept_more: bool,
    ticks: Rc<Ticks>,
    /// When connections were looked at.
    housekept: Option<Instant>,
    walks: Walks,
    scratch: Box<[u8]>,
    list: Vec<ConnectionId>,
}

impl<S: Service> Pass<S> {
    /// A pass over no connections yet, with the poller that its core sleeps on.
    pub(crate) fn new(
        service: S,
        clock: Rc<Clock>,
        poller: Poller,
        config: PassConfig,
    ) -> std::io::Result<Pass<S>> {
        let PassConfig {
            listeners,
            stop_asked,
            on_over,
            transport,
            admin_arrivals,
            connections_max,
            memory_bytes,
            answers,
            stalls,
        } = config;
        poller.add(listeners.plain.as_fd(), PLAIN_KEY, Interest::Read)?;
        if let Some(shard_aware) = &listeners.shard_aware {
            poller.add(shard_aware.as_fd(), SHARD_AWARE_KEY, Interest::Read)?;
        }
        Ok(Pass {
            service,
            clock,
            poller,
            listeners: Some(listeners),
            stop_asked,
            on_over: Some(on_over),
            transport,
            admin_arrivals,
            stopping: None,
            stalls,
            connections: Connections::default(),
            connections_max,
            orphans: Orphans::default(),
            load: Load::new(memory_bytes, answers),
            undelivered_bytes: 0,
            accept_more: true,
            ticks: Rc::default(),
            housekept: None,
            walks: Walks::default(),
            scratch: vec![0; READ_BYTES].into(),
            list: Vec::new(),
        })
    }

    /// Serves for ever. After a stop there are no clients, and still the mail of other cores.
    pub(crate) async fn run(&mut self, runtime: &Runtime, idle: &Idle) -> ! {
        self.spawn_housekeeping(runtime, idle.wake());
        loop {
            let busy = self.pass();
            if self.on_over.is_some() && self.is_over() {
                self.close_all(TimeSlice::of(HOUSEKEEPING_SLICE));
            }
            let busy = busy || self.walks.are_under_way();
            let in_flight = self.service.in_flight();
            // Where work is sparse, a pass that finds nothing would only come before the sleep.
            if busy && !(idle.is_sparse() && self.has_nothing_left()) {
                idle.between_passes(in_flight, self.clock.monotonic()).await;
            } else {
                let Pass { poller, service, .. } = self;
                idle.wait(in_flight, poller, || service.has_work()).await;
            }
        }
    }

    fn spawn_housekeeping(&self, runtime: &Runtime, wake: Arc<Notify>) {
        let ticks = Rc::downgrade(&self.ticks);
        runtime.spawn(Group::Background, async move {
            while let Some(ticks) = ticks.upgrade() {
                ticks.is_due.set(true);
                wake.notify();
                ticks.next().await;
            }
        });
    }

    /// One pass. Says whether anything was done, or is left to do.
    pub(crate) fn pass(&mut self) -> bool {
        self.clock.tick();
        self.stalls.begins(self.clock.monotonic());
        if self.stopping.is_none() && (self.stop_asked)() {
            self.begin_stop();
        }
        if !self.transport.is_running() {
            self.close_quiet(TimeSlice::of(HOUSEKEEPING_SLICE));
        } else {
            self.walks.quiet = None;
        }
        let mut busy = self.take_events();
        busy |= self.accept();
        let mut began = self.clock.monotonic();
        if self.serve() {
            (busy, began) = (true, self.note_served());
        }
        busy |= self.service.poll();
        busy |= self.deliver();
        busy |= self.flush(TimeSlice::begin());
        if self.ticks.is_due.take() {
            self.tick(self.clock.monotonic());
        }
        if let Some(from) = self.walks.housekeeping {
            self.run_housekeeping(from, TimeSlice::of(HOUSEKEEPING_SLICE));
        }
        if self.load.may_expand() {
            self.connections.serve_waiting(EXPANDING_PER_PASS);
        }
        self.ticks.follow(self.service.first_deadline());
        self.stalls.ended(ANSWERING, began);
        let Pass { connections, ticks, .. } = self;
        // What housekeeping has answered is sent in the next pass.
        let has_work = connections.any_to_serve() || connections.any_to_flush();
        let waits = self.accept_more || has_work || ticks.is_due.get();
        busy || waits || self.walks.are_under_way()
    }

    /// Takes note of the requests of this pass: one step ends, and another begins.
    fn note_served(&self) -> Instant {
        let (began, now) = (self.clock.monotonic(), Instant::now());
        self.stalls.note(SERVING, now.duration_since(began));
        self.stalls.begins(now);
        now
    }

    /// Whether the next pass has nothing to do but what an event, mail or the disk will tell of.
    fn has_nothing_left(&self) -> bool {
        let Pass { connections, service, .. } = self;
        let waits = connections.any_to_serve() || connections.any_to_flush() || service.has_work();
        !self.accept_more && !self.ticks.is_due.get() && !waits && !self.walks.are_under_way()
    }

    fn take_events(&mut self) -> bool {
        if !look(&mut self.poller) {
            return false;
        }
        let mut busy = false;
        for event in self.poller.ready() {
            busy |= event.key != WAKE_KEY;
            match event.key {
                PLAIN_KEY | SHARD_AWARE_KEY => self.accept_more = true,
                ADMIN_KEY => self.admin_arrivals.notify(),
                // Mail and completions, which the service takes when it is polled.
                WAKE_KEY => {}
                key => {
                    let id = connection_id(key);
                    if let Some(connection) = self.connections.get_mut(id) {
                        if event.readable {
                            connection.readable(event.has_ended);
                            self.connections.serve(id);
                        }
                        if event.writable {
                            self.connections.flush(id);
                        }
                    }
                }
            }
        }
        busy
    }

    fn accept(&mut self) -> bool {
        if !std::mem::take(&mut self.accept_more) {
            return false;
        }
        let Some(listeners) = self.listeners.take() else { return false };
        let mut accepted = 0;
        for listener in listeners.shard_aware.iter().chain([&listeners.plain]) {
            accepted += self.accept_from(listener);
        }
        self.listeners = Some(listeners);
        accepted > 0
    }

    fn accept_from(&mut self, listener: &TcpListener) -> usize {
        for accepted in 0..ACCEPTS_PER_PASS {
            match listener.accept() {
                Ok((socket, peer)) => self.admit(socket, peer),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return accepted,
                    // It was reset while it waited, or a signal came; the next may be good.
                    ErrorKind::ConnectionAborted | ErrorKind::Interrupted => {}
                    // Not listening yet: the last event was about that.
                    ErrorKind::InvalidInput => return accepted,
                    _ => {
                        // Out of descriptors or memory. Housekeeping tries again: those who wait
                        // in the backlog cause no further event.
                        tracing::warn!("cannot accept a connection: {error}");
                        return accepted;
                    }
                },
            }
        }
        self.accept_more = true;
        ACCEPTS_PER_PASS
    }

    fn admit(&mut self, socket: TcpStream, peer: SocketAddr) {
        if !self.transport.is_running() {
            return;
        }
        if self.connections.len() >= self.connections_max {
            tracing::warn!(
                "{peer} is turned away: this shard has its {} connections",
                self.connections_max
            );
            return;
        }
        // Fails only on a socket that its client has already torn down.
        if socket.set_nonblocking(true).and(socket.set_nodelay(true)).is_err() {
            return;
        }
        let now = self.clock.monotonic();
        let Pass { connections, service, poller, .. } = self;
        let mut registered = Ok(());
        let id = connections.insert(|id| {
            registered = poller.add(socket.as_fd(), key(id), Interest::ReadWrite);
            let session = Rc::new(Session::new(id, peer));
            service.opened(&session);
            Connection::new(socket, session, now)
        });
        match registered {
            Ok(()) => self.connections.serve(id),
            Err(error) => {
                tracing::warn!("{peer} is turned away: epoll: {error}");
                self.close(id);
            }
        }
    }

    fn serve(&mut self) -> bool {
        let mut list = std::mem::take(&mut self.list);
        self.connections.take_to_serve(&mut list);
        let busy = !list.is_empty();
        let slice = TimeSlice::begin();
        let mut is_over = false;
        for id in list.drain(..) {
            let Some(connection) = self.connections.get_mut(id) else { continue };
            is_over = is_over || slice.is_over();
            if is_over {
                self.connections.serve(id);
                continue;
            }
            match connection.step(&mut self.scratch, &self.service, &mut self.load, slice) {
                Fate::Keep => {
                    if connection.waits_for_space(&self.load) {
                        self.connections.wait_for_space(id);
                    }
                    self.connections.flush(id);
                }
                Fate::Drop => self.close(id),
            }
        }
        self.list = list;
        busy
    }

    fn deliver(&mut self) -> bool {
        let Pass { service, connections, orphans, load, undelivered_bytes, .. } = self;
        let mut busy = false;
        let deliver = |id, frame: Cow<'_, [u8]>| {
            busy = true;
            if let Some(connection) = connections.get_mut(id) {
                let is_long = frame.len() > SPARE_FRAME_BYTES_MAX;
                connection.deliver(frame, load);
                // The lease of a long one is over: another core may look what is held before it is sent.
                if is_long {
                    connection.count_unsent(load);
                }
                connections.flush(id);
            } else {
                orphans.answered(id, &frame, load);
            }
        };
        // It begins with the first long answer, which takes time if it is compressed.
        let slice = OnceCell::new();
        let left =
            service.replies().deliver(deliver, || slice.get_or_init(TimeSlice::begin).is_over());
        load.unsent(std::mem::replace(undelivered_bytes, left), left);
        busy
    }

    /// Sends what is answered while the slice lasts, to one connection at least. The others keep their order.
    fn flush(&mut self, slice: TimeSlice) -> bool {
        let now = self.clock.monotonic();
        let mut list = std::mem::take(&mut self.list);
        self.connections.take_to_flush(&mut list);
        let busy = !list.is_empty();
        let (mut is_over, mut can_go_on) = (false, Vec::new());
        for id in list.drain(..) {
            let Some(connection) = self.connections.get_mut(id) else { continue };
            if is_over {
                connection.count_unsent(&mut self.load);
                self.connections.flush(id);
                continue;
            }
            match connection.flush(now, &mut self.load) {
                Fate::Drop => self.close(id),
                Fate::Keep => {
                    let (can_send, has_more) =
                        (connection.can_send(), connection.has_more(&self.load));
                    if can_send {
                        can_go_on.push(id);
                    }
                    // Space was made: what was held back may go on, in the next pass.
                    if has_more {
                        self.connections.serve(id);
                    }
                }
            }
            is_over = slice.is_over();
        }
        // Behind those that had no turn.
        can_go_on.into_iter().for_each(|id| self.connections.flush(id));
        self.list = list;
        busy
    }

    /// Looks what has passed its deadline, and every [`HOUSEKEEPING_INTERVAL`] at the connections.
    fn tick(&mut self, now: Instant) {
        let is_late = self.service.first_deadline().is_some_and(|first| first <= now);
        if is_late && self.service.end_late(now) {
            self.ticks.is_due.set(true);
        }
        // A timer that fires a little early does not put it off by a whole interval.
        let is_due = |last: Instant| {
            now.saturating_duration_since(last) + DEADLINE_INTERVAL >= HOUSEKEEPING_INTERVAL
        };
        if self.housekept.is_none_or(is_due) {
            self.housekept = Some(now);
            self.accept_more = true;
            self.walks.housekeeping.get_or_insert(0);
        }
    }

    /// Looks at the connections from a slot on while the slice lasts.
    fn run_housekeeping(&mut self, from: u32, slice: TimeSlice) {
        let now = self.clock.monotonic();
        self.walks.housekeeping = self.walk(from, slice, |pass, id| pass.look_after(id, now));
    }

    /// Closes a connection whose time is over; whether it did.
    fn look_after(&mut self, id: ConnectionId, now: Instant) -> bool {
        let Some(connection) = self.connections.get_mut(id) else { return false };
        if connection.check_timeouts(now, &mut self.load) == Fate::Drop {
            self.close(id);
            return true;
        }
        connection.trim(&mut self.load);
        let (has_unsent, has_more) = (connection.has_unsent(), connection.has_more(&self.load));
        if has_unsent {
            self.connections.flush(id);
        }
        // Others held it back, and do so no more.
        if has_more {
            self.connections.serve(id);
        }
        false
    }

    /// Does something with each connection from a slot on, which says whether it took long, while the slice lasts; with
    /// one at least. Where to go on; `None`: that were all.
    fn walk(
        &mut self,
        from: u32,
        slice: TimeSlice,
        mut each: impl FnMut(&mut Self, ConnectionId) -> bool,
    ) -> Option<u32> {
        let (mut next, mut looked) = (from, 0);
        while let Some(id) = self.connections.first_from(next) {
            next = id.slot + 1;
            looked += 1;
            let took_long = each(self, id);
            if (took_long || looked % CONNECTIONS_PER_CLOCK_READ == 0) && slice.is_over() {
                return Some(next);
            }
        }
        None
    }

    fn close(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(id) {
            self.service.closed(&connection.session);
            self.orphans.add(id, connection.close(&mut self.load));
        }
    }

    fn begin_stop(&mut self) {
        self.stopping = Some(self.clock.monotonic());
        self.listeners = None;
        for id in self.connections.ids() {
            if let Some(connection) = self.connections.get_mut(id) {
                connection.end();
                self.connections.flush(id);
            }
        }
    }

    /// Ends the connections while the transport is stopped, each when what it has asked is answered and sent.
    fn close_quiet(&mut self, slice: TimeSlice) {
        let from = self.walks.quiet.take().unwrap_or(0);
        self.walks.quiet = self.walk(from, slice, |pass, id| {
            let Some(connection) = pass.connections.get_mut(id) else { return false };
            connection.end();
            let is_quiet = connection.is_quiet();
            if is_quiet {
                pass.close(id);
            }
            is_quiet
        });
    }

    /// Closes connections while the slice lasts; behind the last one the pass is over.
    fn close_all(&mut self, slice: TimeSlice) {
        let from = self.walks.closing.take().unwrap_or(0);
        self.walks.closing = self.walk(from, slice, |pass, id| {
            pass.close(id);
            true
        });
        if self.walks.closing.is_none()
            && let Some(on_over) = self.on_over.take()
        {
            on_over();
        }
    }

    fn is_over(&mut self) -> bool {
        let Some(since) = self.stopping else { return false };
        if self.walks.closing.is_some() {
            return true;
        }
        if self.clock.monotonic().duration_since(since) > STOP_TIMEOUT {
            let left = self.load.requests();
            tracing::warn!("stopping with {left} requests unanswered");
            return true;
        }
        let Pass { connections, .. } = self;
        connections
            .ids()
            .into_iter()
            .all(|id| connections.get_mut(id).is_none_or(|connection| connection.is_quiet()))
    }
}

/// Where to go on, from slot to slot, with what is done to all connections and was not done in one pass.
#[derive(Default)]
struct Walks {
    /// Looking for time-outs.
    housekeeping: Option<u32>,
    /// Closing those that have their answers, while the transport is stopped.
    quiet: Option<u32>,
    /// Closing all, at the end.
    closing: Option<u32>,
}

impl Walks {
    fn are_under_way(&self) -> bool {
        self.housekeeping.is_some() || self.quiet.is_some() || self.closing.is_some()
    }
}

/// Whether the poller knows of something.
fn look(poller: &mut Poller) -> bool {
    poller.has_ready() || poller.poll().expect("the epoll set is open") > 0
}

fn key(id: ConnectionId) -> u64 {
    u64::from(id.generation) << 32 | u64::from(id.slot)
}

fn connection_id(key: u64) -> ConnectionId {
    ConnectionId { slot: key as u32, generation: (key >> 32) as u32 }
}

#[cfg(test)]
mod tests;
