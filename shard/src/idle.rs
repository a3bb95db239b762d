//! What a core does when a pass found nothing: look again for a while, then sleep.
//!
//! ```text
//! nothing to do ─► disk at work? ─no─► gaps short? ─► spin: look, let others run, .. up to `spin`
//!                       │                                   │ still nothing
//!                       └──yes──────────────────────────────┴─► what was woken runs ─► sleep
//!
//! 1. the executor has something under way (`outstanding.rs`): in the executor, until one of its own operations ends, or
//!      what ends 3 happens   (epoll ─► bridge ─► eventfd, read inside the executor)
//! 2. else, a task is runnable: as a task beside it, until a job that ends a slice sees what ends 3
//!      (`sleeping_pass.rs`), or no task is runnable any more: then 1 or 3
//! 3. else, and whenever the kernel did not take all of the ring: in one `epoll_wait`, until a socket is ready,
//!      mail arrives (the sender rings the bell), an alarm of the executor is due
//! ```
//!
//! Why not always sleep in the executor: its sleep and the way back take about twelve system calls.
//! That was two thirds of the cost of a request that comes alone.
//!
//! Why not to spin on a core that others want (the clients of a test machine, another server): it takes from them the
//! time in which they would make the work that is waited for (`contention.rs`).
//!
//! Why not to spin when little comes: a spin costs the whole gap, a sleep some ten microseconds
//! (`gaps.rs`).
//!
//! Why not to spin while the disk works: a commit takes longer than a sleep costs.
//!
//! Reads, writes and flushes of files go by a ring of the core's own (`engine::io`), which is looked
//! at in memory. What else the executor does, files that are opened or renamed, timers, ends only when
//! it turns to its rings, and it does so only when no task is runnable: so a core that is never idle
//! makes it, in [`Idle::between_passes`], every [`REAP_INTERVAL`] while a request waits for the disk,
//! more seldom otherwise, and not at all while nothing is under way there. A job does so at the end of a slice, if
//! something is (`yielder.rs`).
//!
//! The eventfd is read by one small task for the life of the core, so going to sleep in the executor
//! costs one system call to arm the poll, and nothing when the last poll is still armed. It is not
//! the bell's: a read inside the executor could take the bell's signal from the `epoll_wait`.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::io::{self as ring, Flushed};
use futures_lite::future;

use crate::contention::Contention;
use crate::gaps::Gaps;
use crate::groups::Group;
use crate::limits::{REAP_INTERVAL, REAP_INTERVAL_QUIET, RING_RETRY};
use crate::mailbox::Bell;
use crate::notify::Notify;
use crate::os::EventFd;
use crate::os::bridge::{Bridge, EventReader};
use crate::os::epoll::{Interest, Poller, Watch};
use crate::outstanding;
use crate::owner::ShardId;
use crate::runtime::{Runtime, reap, yield_now};
use crate::sleeping_pass::SleepingPass;
use crate::stalls::Stalls;

/// The key of the core's bell and of its ring in its poller: such an event asks for nothing but that
/// the core be awake.
pub const WAKE_KEY: u64 = u64::MAX;

/// What this core waits for besides sockets and mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlight {
    /// Nothing: it may spin.
    Nothing,
    /// The disk: it must not.
    Disk,
}

/// The sleep of one core.
pub struct Idle {
    bells: Arc<[Bell]>,
    me: ShardId,
    bridge: RefCell<Bridge>,
    wake: Arc<Notify>,
    watch: Rc<Watch>,
    sleeping_pass: Rc<SleepingPass>,
    /// Notified when no task is runnable any more, while the pass waits for that.
    none_runs: Arc<Notify>,
    stop: Rc<Stop>,
    spin: Duration,
    gaps: Gaps,
    contention: Contention,
    last_reap: Cell<Instant>,
    stalls: Rc<Stalls>,
}

/// What the pass and the task that reads the eventfd share.
struct Stop {
    asked: Cell<bool>,
    event: EventFd,
    done: Notify,
}

impl Idle {
    /// The sleep of core `me`, which `wake` ends, as does everything in `poller`. Added to that, under
    /// [`WAKE_KEY`]: the core's bell, and the ring of its own that its files use from now on.
    pub fn new(
        runtime: &Runtime,
        (bells, me): (Arc<[Bell]>, ShardId),
        poller: &Poller,
        wake: Arc<Notify>,
        spin: Duration,
    ) -> io::Result<Idle> {
        poller.add(bells[me.index()].event().as_fd(), WAKE_KEY, Interest::Read)?;
        poller.add(engine::io::open_ring()?.as_fd(), WAKE_KEY, Interest::Read)?;
        let event = EventFd::new()?;
        let bridge = RefCell::new(Bridge::new(poller, &event)?);
        let reader = EventReader::new(event.as_fd().try_clone_to_owned()?);
        let stop = Rc::new(Stop { asked: Cell::new(false), event, done: Notify::new() });
        let (rung, stopped) = (wake.clone(), stop.clone());
        runtime.spawn(Group::Requests, async move {
            while !stopped.asked.get() {
                if let Err(error) = reader.wait().await {
                    panic!("a core can no longer be woken: {error}");
                }
                rung.notify();
            }
            reader.close().await;
            stopped.done.notify();
        });
        let last_reap = Cell::new(Instant::now());
        let (gaps, contention) = (Gaps::default(), Contention::new());
        let stalls = runtime.stalls().clone();
        let watch = Rc::new(Watch::of(poller)?);
        let sleeping_pass = runtime.sleeping_pass().clone();
        Ok(Idle {
            bells,
            me,
            bridge,
            wake,
            watch,
            sleeping_pass,
            none_runs: Arc::default(),
            stop,
            spin,
            gaps,
            contention,
            last_reap,
            stalls,
        })
    }

    /// What tasks of this core notify when the pass has something to do.
    pub fn wake(&self) -> Arc<Notify> {
        self.wake.clone()
    }

    fn bell(&self) -> &Bell {
        &self.bells[self.me.index()]
    }

    /// Whether work comes so seldom that the core sleeps before the next.
    pub fn is_sparse(&self) -> bool {
        !self.gaps.are_short()
    }

    /// After a pass that did something: hands what it began to the disk, lets others run, and lets the
    /// executor turn to its rings when that is due.
    pub async fn between_passes(&self, in_flight: InFlight, now: Instant) {
        ring::flush();
        ring::take_done();
        let due = match in_flight {
            InFlight::Disk => REAP_INTERVAL,
            InFlight::Nothing => REAP_INTERVAL_QUIET,
        };
        if outstanding::wants_rings(now) && now.duration_since(self.last_reap.get()) >= due {
            self.last_reap.set(now);
            self.stalls.executor(reap()).await;
        } else {
            yield_now().await;
        }
        self.begin_pass();
    }

    /// After a pass that found nothing and took all that was ready: returns when there is something,
    /// or may be. `has_work` looks at what is not in `poller`, without waiting. Everything sent must
    /// be published before.
    pub async fn wait(
        &self,
        in_flight: InFlight,
        poller: &mut Poller,
        mut has_work: impl FnMut() -> bool,
    ) {
        ring::flush();
        let began = Instant::now();
        let may_spin = in_flight == InFlight::Nothing && self.gaps.are_short();
        if !may_spin || !self.spin(began, || look(poller) || has_work()).await {
            self.sleep(poller, has_work).await;
        }
        if in_flight == InFlight::Nothing {
            self.gaps.note(began.elapsed());
        }
        self.begin_pass();
    }

    /// The pass that comes looks at everything, so what was notified until now is seen by it: kept, the
    /// notification would end the next sleep for nothing.
    fn begin_pass(&self) {
        self.wake.take();
        ring::hold();
    }

    async fn sleep(&self, poller: &mut Poller, mut has_work: impl FnMut() -> bool) {
        // What the last pass woke, the log above all, runs before the core sleeps.
        if outstanding::any_runnable() {
            yield_now().await;
        }
        // What the kernel did not take is offered again soon: only the sleep here has such an end.
        if ring::flush() == Flushed::Part {
            return self.sleep_here(poller, has_work, Flushed::Part).await;
        }
        if !outstanding::any_operation()
            && outstanding::any_runnable()
            && self.sleep_beside_tasks(|| look(poller) || has_work()).await
        {
            return;
        }
        if outstanding::any_operation() {
            self.sleep_in_executor(|| look(poller) || has_work()).await;
        } else {
            self.sleep_here(poller, has_work, Flushed::All).await;
        }
    }

    /// Waits while tasks are runnable, without a turn of the executor to its rings: until a job that ends a slice sees
    /// something for the pass, the pass is notified, or no task is runnable. `true` if the pass is to look for work.
    async fn sleep_beside_tasks(&self, mut has_work: impl FnMut() -> bool) -> bool {
        self.bell().park();
        let is_woken = has_work() || {
            // One that is kept is of another sleep.
            self.none_runs.take();
            let _until = outstanding::notify_when_none_runs(&self.none_runs);
            let is_woken = async {
                self.wake.notified().await;
                true
            };
            let none_runs = async {
                self.none_runs.notified().await;
                false
            };
            // What passes outside the steps of the others is their switching: the core does not sleep.
            self.asleep(future::or(is_woken, none_runs)).await.1
        };
        self.bell().awake();
        is_woken || outstanding::any_runnable()
    }

    /// Waits for what ends a sleep: how long, without the steps of other tasks, and what ended it. Jobs that compute
    /// meanwhile look what is ready for the pass.
    async fn asleep<T>(&self, end: impl Future<Output = T>) -> (Duration, T) {
        let _asleep = self.sleeping_pass.asleep(&self.watch, &self.wake);
        self.stalls.outside_steps(Instant::now(), end).await
    }

    /// Sleeps in one system call: not for long if the kernel did not take all of the ring before.
    async fn sleep_here(
        &self,
        poller: &mut Poller,
        mut has_work: impl FnMut() -> bool,
        flushed: Flushed,
    ) {
        let now = Instant::now();
        let alarm = outstanding::next_alarm();
        self.bell().park();
        let stays = self.wake.take() || poller.has_ready() || ring::take_done() || has_work();
        if !stays {
            let alarm = alarm.map(|at| at.saturating_duration_since(now));
            let flushed = if ring::flush() == Flushed::All { flushed } else { Flushed::Part };
            poller.wait(sleep_at_most(alarm, flushed)).expect("the epoll set is open");
            outstanding::note_slept(now.elapsed());
        }
        self.bell().awake();
        // The executor took the sleep for work of this queue. Accounting it now keeps it from the queues that are woken
        // next: they begin level with this one. Woken before, a job would run alone until it is level.
        yield_now().await;
        ring::take_done();
        if alarm.is_some_and(|at| at <= Instant::now()) {
            reap().await;
            self.last_reap.set(Instant::now());
        }
    }

    async fn sleep_in_executor(&self, mut has_work: impl FnMut() -> bool) {
        self.bell().park();
        if !has_work() {
            self.bridge.borrow_mut().arm().expect("an armed poll fits the ring");
            let (slept, ()) = self.asleep(self.wake.notified()).await;
            outstanding::note_slept_in_executor(slept);
        }
        self.bell().awake();
        // The executor has turned to its rings, or a job that computes will: turning to them again right after the next
        // pass would cost more system calls than a small request.
        self.last_reap.set(Instant::now());
    }

    async fn spin(&self, start: Instant, mut has_work: impl FnMut() -> bool) -> bool {
        if self.contention.is_on(start) {
            return false;
        }
        let mut looked = start;
        loop {
            if self.wake.take() || has_work() {
                return true;
            }
            if looked - start >= self.spin {
                return false;
            }
            let others_run = outstanding::any_runnable();
            yield_now().await;
            let now = Instant::now();
            if !others_run {
                outstanding::note_spun(now - looked);
            }
            looked = now;
        }
    }

    /// Ends the task that reads the eventfd: before the executor of a test ends. A server's never does.
    pub async fn close(&self) {
        self.stop.asked.set(true);
        self.stop.event.signal();
        self.stop.done.notified().await;
    }
}

/// How long a core may sleep: until its alarm, and not for long beside what the ring still has.
fn sleep_at_most(alarm: Option<Duration>, flushed: Flushed) -> Option<Duration> {
    match flushed {
        Flushed::All => alarm,
        Flushed::Part => Some(alarm.map_or(RING_RETRY, |alarm| alarm.min(RING_RETRY))),
    }
}

/// Whether the poller or the ring knows of something, looking once.
fn look(poller: &mut Poller) -> bool {
    poller.has_ready() || ring::take_done() || poller.poll().expect("the epoll set is open") > 0
}

#[cfg(test)]
mod tests;
