//! What a core does when a pass found nothing: look again for a while, then sleep.
//!
//! ```text
//! nothing to do ─► disk at work? ─no─► gaps short? ─► spin: look, let others run, .. up to `spin`
//!                       │                                   │ still nothing
//!                       └──yes──────────────────────────────┴─► sleep until one of
//!                            a socket is ready   (epoll ─► bridge ─► eventfd)
//!                            mail arrives        (the sender rings the bell ─► eventfd)
//!                            a task of this core notifies (the log is durable, a read is done)
//! ```
//!
//! Why not to spin on a core that others want (the clients of a test machine, another server): it takes from them the
//! time in which they would make the work that is waited for (`rivalry.rs`).
//!
//! Why not to spin when little comes: a spin costs the whole gap, a sleep some ten microseconds
//! (`gaps.rs`).
//!
//! Why not to spin while the disk works: the executor takes completions from its rings only when
//! no task is runnable. A pass that kept yielding would add milliseconds to every commit.
//!
//! For the same reason a core that is never idle calls [`Idle::between_passes`], which turns to the
//! rings every [`REAP_INTERVAL`] while requests wait for the disk, and now and then when none does.
//!
//! The eventfd is read by one small task for the life of the core, so going to sleep costs one
//! system call to arm the poll, and nothing when the last poll is still armed.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::contention::Rivalry;
use crate::gaps::Gaps;
use crate::groups::Group;
use crate::limits::{REAP_INTERVAL, REAP_INTERVAL_QUIET};
use crate::mailbox::Bell;
use crate::notify::Notify;
use crate::os::bridge::{Bridge, EventReader};
use crate::owner::ShardId;
use crate::runtime::{Runtime, reap, yield_now};

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
    bridge: Option<RefCell<Bridge>>,
    wake: Arc<Notify>,
    stop: Rc<Stop>,
    spin: Duration,
    gaps: Gaps,
    rivalry: Rivalry,
    last_reap: Cell<Instant>,
}

#[derive(Default)]
struct Stop {
    asked: Cell<bool>,
    done: Notify,
}

impl Idle {
    /// The sleep of core `me`, which `wake` ends, as do the sockets in the epoll set `sockets` if
    /// it has any.
    pub fn new(
        runtime: &Runtime,
        (bells, me): (Arc<[Bell]>, ShardId),
        sockets: Option<BorrowedFd<'_>>,
        wake: Arc<Notify>,
        spin: Duration,
    ) -> io::Result<Idle> {
        let event = bells[me.index()].event();
        let bridge = sockets.map(|sockets| Bridge::new(sockets, event)).transpose()?;
        let reader = EventReader::new(event.as_fd().try_clone_to_owned()?);
        let stop = Rc::new(Stop::default());
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
        let bridge = bridge.map(RefCell::new);
        let (gaps, rivalry) = (Gaps::default(), Rivalry::new());
        Ok(Idle { bells, me, bridge, wake, stop, spin, gaps, rivalry, last_reap })
    }

    /// What tasks of this core notify when the pass has something to do.
    pub fn wake(&self) -> Arc<Notify> {
        self.wake.clone()
    }

    fn bell(&self) -> &Bell {
        &self.bells[self.me.index()]
    }

    /// After a pass that did something: lets others run, and the disk be served when it is due.
    pub async fn between_passes(&self, in_flight: InFlight, now: Instant) {
        let due = match in_flight {
            InFlight::Disk => REAP_INTERVAL,
            InFlight::Nothing => REAP_INTERVAL_QUIET,
        };
        if now.duration_since(self.last_reap.get()) < due {
            yield_now().await;
            return;
        }
        self.last_reap.set(now);
        reap().await;
    }

    /// After a pass that found nothing: returns when there is something, or may be. `has_work`
    /// looks at sockets and mailbox without waiting. Everything sent must be published before.
    pub async fn wait(&self, in_flight: InFlight, mut has_work: impl FnMut() -> bool) {
        let began = Instant::now();
        let may_spin = in_flight == InFlight::Nothing && self.gaps.are_short();
        if may_spin && self.spin(began, &mut has_work).await {
            self.gaps.note(began.elapsed());
            return;
        }
        self.sleep(has_work).await;
        let now = Instant::now();
        if in_flight == InFlight::Nothing {
            self.gaps.note(now - began);
        }
        // A core that slept so long has turned to its rings: turning to them again right after the
        // next pass would cost more system calls than a small request.
        if now - began >= REAP_INTERVAL {
            self.last_reap.set(now);
        }
    }

    async fn sleep(&self, mut has_work: impl FnMut() -> bool) {
        self.bell().park();
        if !has_work() {
            if let Some(bridge) = &self.bridge {
                bridge.borrow_mut().arm().expect("an armed poll fits the ring");
            }
            self.wake.notified().await;
        }
        self.bell().awake();
    }

    async fn spin(&self, start: Instant, has_work: &mut impl FnMut() -> bool) -> bool {
        if self.rivalry.is_on(start) {
            return false;
        }
        loop {
            if self.wake.take() || has_work() {
                return true;
            }
            if start.elapsed() >= self.spin {
                return false;
            }
            yield_now().await;
        }
    }

    /// Ends the task that reads the bell: before the executor of a test ends. A server's never does.
    pub async fn close(&self) {
        self.stop.asked.set(true);
        self.bell().ring();
        self.stop.done.notified().await;
    }
}

#[cfg(test)]
mod tests;
