//! The runtime: an executor per core, and the only place where tasks and threads start, but for those of
//! real files (`engine/src/io`).
//!
//! ```text
//! launch(CoreConfig) ─► thread, bound to its processor ─► executor ─► main(Runtime) in `Requests`
//!                                                          │
//!                                   Runtime::spawn(group, future) ─► one queue per group
//! ```
//!
//! glommio gives the executor, the queues with shares, the timers, the disk, and threads for what blocks or computes
//! for long ([`Runtime::run_off_core`]). What is slow in it
//! is not used: spawning takes a process-wide lock (so no task per request), its channels cost tens
//! of microseconds (`mailbox/`), its sockets twice a plain loop (`os/epoll.rs`).
//!
//! Invariants: nothing outside this file starts a thread or a task; a core's tasks never leave its
//! thread. A process ends by [`exit`](crate::os::cpus::exit), not by tearing executors down.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Context;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::io::leave_the_core;
use futures_lite::future::BoxedLocal;
use glommio::{
    Latency, LocalExecutorBuilder, Placement, PoolPlacement, Shares, TaskQueueHandle, executor,
};

use crate::fullness::{CoreTimes, Fullness};
use crate::groups::Group;
use crate::limits::{
    BLOCKING_THREADS, CORE_STACK_BYTES, MEMLOCK_BYTES_MIN, PREEMPT_TIMER, RING_DEPTH,
    WATCH_INTERVAL,
};
use crate::manual::Manual;
use crate::os::cpus;
use crate::outstanding::{self, Operation};
use crate::sleeping_pass::SleepingPass;
use crate::stalls::{Stalls, Work};
use crate::yielder::Yielder;

/// The name, processor and I/O memory of one core.
#[derive(Clone, Debug)]
pub struct CoreConfig {
    /// The thread's name.
    pub name: String,
    /// The processor to bind to. `None` when there are more shards than processors.
    pub cpu: Option<usize>,
    /// Memory registered with the rings for disk I/O. Locked three times over.
    pub io_memory_bytes: usize,
}

impl CoreConfig {
    /// A core on `cpu`, all else by default.
    pub fn new(name: impl Into<String>, cpu: Option<usize>) -> CoreConfig {
        CoreConfig { name: name.into(), cpu, io_memory_bytes: 4 * 1024 * 1024 }
    }
}

/// The handle of a running core. Cheap to clone, never leaves its thread.
#[derive(Clone)]
pub struct Runtime {
    kind: Kind,
    stalls: Rc<Stalls>,
    fullness: Rc<Fullness>,
    sleeping_pass: Rc<SleepingPass>,
}

#[derive(Clone)]
enum Kind {
    /// A thread of its own: the queue of each group.
    Core(Rc<[Queue; Group::ALL.len()]>),
    /// Driven by hand (`manual.rs`): all groups are one.
    Manual(Rc<Manual>),
}

/// A task queue of glommio.
struct Queue {
    handle: TaskQueueHandle,
    /// How long it had run when glommio was last asked.
    ran: Cell<Duration>,
}

/// Starts a core: a thread that runs `main` to its end. Fails here when the thread cannot start;
/// what keeps the executor from starting comes out of the handle.
pub fn launch<M, F, T>(config: CoreConfig, main: M) -> io::Result<JoinHandle<io::Result<T>>>
where
    M: FnOnce(Runtime) -> F + Send + 'static,
    F: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let memlock_bytes = cpus::memlock_bytes()?;
    if memlock_bytes < MEMLOCK_BYTES_MIN {
        return Err(io::Error::other(format!(
            "the memlock limit is {memlock_bytes} bytes and io_uring needs {MEMLOCK_BYTES_MIN} a \
             core: raise it with `ulimit -l`, or LimitMEMLOCK= of the service"
        )));
    }
    let thread = std::thread::Builder::new().name(config.name.clone()).stack_size(CORE_STACK_BYTES);
    thread.spawn(move || {
        // Binding the thread first, and telling glommio nothing: it would look for the processor
        // in sysfs, which containers hide.
        config.cpu.map_or(Ok(()), cpus::bind)?;
        let executor = LocalExecutorBuilder::new(Placement::Unbound)
            .name(&config.name)
            .io_memory(config.io_memory_bytes)
            .ring_depth(RING_DEPTH)
            .preempt_timer(PREEMPT_TIMER)
            .blocking_thread_pool_placement(PoolPlacement::Unbound(BLOCKING_THREADS))
            .make()?;
        executor.run(async move {
            let runtime = Runtime::new();
            let requests = runtime.queue(Group::Requests).expect("a core has queues");
            runtime.spawn(Group::Background, watch());
            // The first sleep registers a memory barrier with the kernel, tens of milliseconds:
            // better now than under the first request.
            sleep(Duration::from_millis(1)).await;
            let main = async move { main(runtime).await };
            Ok(glommio::spawn_local_into(main, requests)?.await)
        })
    })
}

impl Runtime {
    fn new() -> Runtime {
        let queues = Group::ALL.map(|group| {
            let shares = Shares::Static(group.shares());
            let handle = executor().create_task_queue(shares, Latency::NotImportant, group.name());
            Queue { handle, ran: Cell::default() }
        });
        Runtime::of(Kind::Core(Rc::new(queues)))
    }

    /// The handle of a runtime that is driven by hand.
    pub(crate) fn manual(manual: Rc<Manual>) -> Runtime {
        Runtime::of(Kind::Manual(manual))
    }

    fn of(kind: Kind) -> Runtime {
        let (fullness, sleeping_pass) = Default::default();
        Runtime { kind, stalls: Stalls::new(), fullness, sleeping_pass }
    }

    /// The queue of a group; `None` where all groups are one.
    fn queue(&self, group: Group) -> Option<TaskQueueHandle> {
        match &self.kind {
            Kind::Core(queues) => Some(queues[group as usize].handle),
            Kind::Manual(_) => None,
        }
    }

    /// The steps on this core that took long.
    pub fn stalls(&self) -> &Rc<Stalls> {
        &self.stalls
    }

    /// What this core has done so far.
    pub(crate) fn times(&self) -> CoreTimes {
        let ran = self.runtime_of(Group::Requests) + self.runtime_of(Group::Log);
        let served = ran.saturating_sub(outstanding::slept());
        let (slept, spun) = (outstanding::slept_anywhere(), outstanding::spun());
        CoreTimes { at: Instant::now(), served, slept, spun }
    }

    /// Where the pass of this core is found while it sleeps as a task of the executor.
    pub(crate) fn sleeping_pass(&self) -> &Rc<SleepingPass> {
        &self.sleeping_pass
    }

    /// Whether this core is full (`fullness.rs`). `times` are its [`times`](Self::times) of this moment. The core is
    /// judged once in `FULL_INTERVAL` at most, by two system calls.
    pub(crate) fn is_full(&self, times: CoreTimes) -> bool {
        self.fullness.is_full(times, || self.stalls.awake())
    }

    /// Runs `future` in the group of `work` until it ends. It starts at the next turn of that group's queue, and each
    /// of its steps is measured.
    pub fn spawn(&self, work: impl Into<Work>, future: impl Future<Output = ()> + 'static) {
        match &self.kind {
            Kind::Core(queues) => {
                let work = work.into();
                let handle = queues[work.group as usize].handle;
                // Boxed here, and as one type. glommio moves a task through a dozen calls: unboxed, each would hold a
                // copy on its stack where the compiler does not optimize (20 KB for a read), and be compiled anew for
                // each type of task.
                let future: BoxedLocal<()> = Box::pin(future);
                let future = self.stalls.clone().measured(work, future);
                glommio::spawn_local_into(outstanding::counted(future), handle)
                    .expect("the queue lives as long as the executor")
                    .detach();
            }
            Kind::Manual(manual) => manual.spawn(future),
        }
    }

    /// Runs what computes for long and cannot pause on a thread beside the core, and waits until it is done. A core has
    /// [`BLOCKING_THREADS`], on which its files block, too: a caller that gives one `work` at a time leaves these the
    /// other.
    pub async fn run_off_core<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        match &self.kind {
            Kind::Core(_) => {
                let _counted = outstanding::operation();
                let work = move || {
                    // glommio starts the thread from the core's, and leaves it bound to the core's processor.
                    leave_the_core();
                    work()
                };
                executor().spawn_blocking(work).await
            }
            Kind::Manual(_) => {
                // Others may run until it is done.
                futures_lite::future::yield_now().await;
                work()
            }
        }
    }

    /// Waits. Good for a millisecond and more.
    pub async fn sleep(&self, time: Duration) {
        match &self.kind {
            Kind::Core(_) => sleep(time).await,
            Kind::Manual(manual) => manual.sleep(time).await,
        }
    }

    /// The time that has passed since `start`; for a runtime that is driven by hand, since it was made.
    pub(crate) fn since(&self, start: Instant) -> Duration {
        match &self.kind {
            Kind::Core(_) => start.elapsed(),
            Kind::Manual(manual) => manual.now(),
        }
    }

    /// Seconds since 1970.
    pub(crate) fn wall_s(&self) -> u32 {
        let wall = match &self.kind {
            Kind::Core(_) => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            Kind::Manual(manual) => manual.wall(),
        };
        u32::try_from(wall.as_secs()).unwrap_or(u32::MAX)
    }

    /// Lets the other groups run, and comes back. Before that it wakes a pass that sleeps beside it and has
    /// something to do. If something waits for the executor's rings at `now`, the executor turns to them: it would not
    /// while tasks are runnable.
    pub(crate) async fn let_others_run(&self, now: Instant) {
        // By hand the disk is served whenever its owner drives it.
        let Kind::Core(_) = &self.kind else { return };
        self.sleeping_pass.wake_if_wanted();
        match outstanding::wants_rings(now) {
            true => reap().await,
            false => yield_now().await,
        }
    }

    /// How a task of `group` that computes for long takes its turns.
    pub fn yielder(&self, group: Group) -> Yielder {
        Yielder::new(self.clone(), group)
    }

    /// How long `group` has run on this core since its start; zero for a runtime that is driven by hand.
    pub fn runtime_of(&self, group: Group) -> Duration {
        let Kind::Core(queues) = &self.kind else { return Duration::ZERO };
        let Queue { handle, ran } = &queues[group as usize];
        // glommio tells what has come since it was last asked.
        let more = executor().task_queue_stats(*handle).map_or(Duration::ZERO, |s| s.runtime());
        ran.set(ran.get() + more);
        ran.get()
    }
}

/// Waits. Good for a millisecond and more.
pub async fn sleep(time: Duration) {
    let _alarm = outstanding::alarm(Instant::now() + time);
    glommio::timer::sleep(time).await;
}

/// To be kept while the executor does I/O for its user that this crate does not see: a core that
/// sleeps turns to the executor's rings only for what is counted.
pub fn using_executor() -> Operation {
    outstanding::operation()
}

/// Lets the other groups run, and comes back. Does not look at the disk: see [`reap`].
pub async fn yield_now() {
    executor().yield_task_queue_now().await;
}

/// Lets everything run that can, then hands new disk requests to the kernel and takes finished
/// ones from it, and comes back. About 6 µs, against 0.1 µs of [`yield_now`]: a core that is never
/// idle must do this now and then, or it would neither submit nor complete I/O for milliseconds.
pub async fn reap() {
    // Shorter than the executor takes to reach its rings, so that the timer is over when it gets there.
    const AHEAD: Duration = Duration::from_nanos(300);
    reap_with_timer(AHEAD).await;
}

/// [`reap`] by a timer that lies `ahead`. The timer wakes its task once the executor has nothing left to run and turns
/// to its rings. A timer that is over at its first poll does not suspend, so the next one lies twice as far ahead:
/// 300 ns can pass before that poll in a build without optimization on a busy machine.
///
/// It counts as an operation until its timer is over, and not until it runs again: others on the core that end a slice
/// in between would take it for something that waits, turn to the rings for nothing, and be taken for the same.
async fn reap_with_timer(mut ahead: Duration) {
    let mut suspended = false;
    while !suspended {
        let mut timer = pin!(glommio::timer::sleep(ahead));
        poll_fn(|context| {
            let waker = outstanding::operation_until_woken(context.waker());
            let state = timer.as_mut().poll(&mut Context::from_waker(&waker));
            suspended |= state.is_pending();
            state
        })
        .await;
        ahead *= 2;
    }
}

/// Wakes the executor now and then, whatever it believes: see [`PREEMPT_TIMER`].
async fn watch() {
    loop {
        sleep(WATCH_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A future of every group runs, and the core's main value comes back.
    #[test]
    fn every_group_runs() {
        let core = launch(CoreConfig::new("groups", None), |runtime| async move {
            let ran = Rc::new(Cell::new(0));
            for group in Group::ALL {
                let ran = ran.clone();
                runtime.spawn(group, async move { ran.set(ran.get() | 1 << group as usize) });
            }
            reap().await;
            ran.get()
        });
        assert_eq!(core.unwrap().join().unwrap().unwrap(), 0b11_1111);
    }

    /// What runs beside a core is on another thread, which may run on each processor, and the core's tasks go on.
    #[test]
    fn work_beside_a_core_leaves_it_to_its_tasks() {
        let all = cpus::allowed().unwrap();
        let one = all[0];
        let core = launch(CoreConfig::new("beside", Some(one)), |runtime| async move {
            let (told, asked) = std::sync::mpsc::channel();
            // It ends only when a task of the core has run.
            let task = async move { told.send(std::thread::current().id()).unwrap() };
            runtime.spawn(Group::Requests, task);
            let (core, cpus) = runtime
                .run_off_core(move || {
                    (asked.recv_timeout(Duration::from_secs(10)), cpus::allowed())
                })
                .await;
            (core.unwrap() == std::thread::current().id(), cpus.unwrap())
        });
        assert_eq!(core.unwrap().join().unwrap().unwrap(), (true, all));
    }

    /// Before: each timer lay 300 ns ahead, and a core that took longer to poll it went round for ever.
    #[test]
    fn reap_ends_where_its_timer_is_over_before_it_is_polled() {
        let core =
            launch(CoreConfig::new("slow", None), |_| reap_with_timer(Duration::from_nanos(1)));
        core.unwrap().join().unwrap().unwrap();
    }

    /// Before: it was what had come since anyone had asked last. Jobs that compute took no request for one that waits.
    #[test]
    fn the_time_that_a_group_has_run_only_grows() {
        let core = launch(CoreConfig::new("times", None), |runtime| async move {
            let computes = async {
                let began = Instant::now();
                while began.elapsed() < Duration::from_millis(2) {}
            };
            let done = Rc::new(Cell::new(false));
            let is_done = done.clone();
            runtime.spawn(Group::Log, async move {
                computes.await;
                is_done.set(true);
            });
            while !done.get() {
                yield_now().await;
            }
            let asked: Vec<Duration> = (0..3).map(|_| runtime.runtime_of(Group::Log)).collect();
            assert!(asked[0] >= Duration::from_millis(2) && asked.is_sorted(), "{asked:?}");
        });
        core.unwrap().join().unwrap().unwrap();
    }

    /// With a task that never stops yielding, `reap` still returns.
    #[test]
    fn reap_ends_beside_a_busy_task() {
        let core = launch(CoreConfig::new("reap", None), |runtime| async move {
            let stop = Rc::new(Cell::new(false));
            let stopped = stop.clone();
            runtime.spawn(Group::Compaction, async move {
                while !stopped.get() {
                    yield_now().await;
                }
            });
            for _ in 0..3 {
                reap().await;
            }
            stop.set(true);
            reap().await;
        });
        core.unwrap().join().unwrap().unwrap();
    }
}
