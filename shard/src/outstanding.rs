//! What the executor of this core still has to do besides the pass: whether the core may sleep in a
//! system call of its own.
//!
//! ```text
//! a task is woken ────────────► runnable + 1 ──► it is polled, or over: - 1
//! the executor does I/O ──────► operations + 1 ► done: - 1     (files: `engine::io::in_executor`)
//! sleep(time) ────────────────► alarm at now + time ──► over
//! ```
//!
//! glommio tells none of this, and its own sleep takes some ten system calls. So everything this crate gives to glommio
//! is counted here: each task by a waker around glommio's (`runtime.rs` is the only one to start tasks, but for the
//! opens of files, which are counted as I/O), each sleep by its deadline, everything else by a guard.
//!
//! Invariant: whatever can make a task of this core runnable is counted before it is begun. An operation that is not
//! counted would end late, though never later than the next alarm.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use crate::notify::Notify;

// Of the thread, for glommio polls and wakes tasks with nothing of ours at hand (docs/STYLE.md).
thread_local! {
    static HERE: Outstanding = Outstanding::default();
}

/// Of one core, which is one thread.
#[derive(Default)]
struct Outstanding {
    runnable: Arc<AtomicUsize>,
    operations: Cell<usize>,
    /// When each sleep under way ends, and its number: two may end at the same moment.
    alarms: RefCell<BTreeSet<(Instant, u64)>>,
    earliest: Cell<Option<Instant>>,
    slept: Cell<Duration>,
    slept_in_executor: Cell<Duration>,
    spun: Cell<Duration>,
    next_alarm: Cell<u64>,
    /// Who waits until no task is runnable.
    until_none_runs: RefCell<Option<Arc<Notify>>>,
}

/// Whether a task of this core has been woken and did not run since.
pub(crate) fn any_runnable() -> bool {
    HERE.with(|here| here.runnable.load(Ordering::Relaxed) > 0)
}

/// While the guard lives: notifies `notify` whenever a task has had its turn, or is over, and no task is runnable.
/// There is one guard at a time.
pub(crate) fn notify_when_none_runs(notify: &Arc<Notify>) -> UntilNoneRuns {
    let before = HERE.with(|here| here.until_none_runs.replace(Some(notify.clone())));
    assert!(before.is_none(), "only the pass waits for the end of others");
    UntilNoneRuns(())
}

/// While it lives, somebody waits until no task is runnable.
pub(crate) struct UntilNoneRuns(());

impl Drop for UntilNoneRuns {
    fn drop(&mut self) {
        HERE.with(|here| here.until_none_runs.replace(None));
    }
}

/// Whether the executor has I/O of its own under way on this core.
pub(crate) fn any_operation() -> bool {
    HERE.with(|here| here.operations.get() > 0) || engine::io::in_executor() > 0
}

/// Whether something waits that only a turn of the executor to its rings ends: I/O of the executor, or a sleep whose
/// end is not after `now`.
pub(crate) fn wants_rings(now: Instant) -> bool {
    any_operation() || next_alarm().is_some_and(|at| at <= now)
}

/// When the first of the sleeps under way ends.
pub(crate) fn next_alarm() -> Option<Instant> {
    HERE.with(|here| here.earliest.get())
}

/// Notes that the pass slept so long, which the executor takes for work.
pub(crate) fn note_slept(time: Duration) {
    HERE.with(|here| here.slept.set(here.slept.get() + time));
}

/// How long the pass of this core has slept where the executor took it for work.
pub(crate) fn slept() -> Duration {
    HERE.with(|here| here.slept.get())
}

/// Notes that the executor slept so long while the pass waited in it.
pub(crate) fn note_slept_in_executor(time: Duration) {
    HERE.with(|here| here.slept_in_executor.set(here.slept_in_executor.get() + time));
}

/// How long this core has slept, in the pass or in the executor.
pub(crate) fn slept_anywhere() -> Duration {
    HERE.with(|here| here.slept.get() + here.slept_in_executor.get())
}

/// Notes that the pass looked for work for `time`, found none, and nothing else ran.
pub(crate) fn note_spun(time: Duration) {
    HERE.with(|here| here.spun.set(here.spun.get() + time));
}

/// How long the pass of this core has looked for work in vain, while nothing else ran.
pub(crate) fn spun() -> Duration {
    HERE.with(|here| here.spun.get())
}

/// Counts an operation of the executor, until the guard is dropped.
pub(crate) fn operation() -> Operation {
    HERE.with(|here| here.operations.set(here.operations.get() + 1));
    Operation(())
}

/// While it lives, the executor does something that its rings must tell of.
pub struct Operation(());

impl Drop for Operation {
    fn drop(&mut self) {
        HERE.with(|here| here.operations.set(here.operations.get() - 1));
    }
}

/// A waker that counts as an operation of the executor until it wakes, or is dropped. Used on this core only.
pub(crate) fn operation_until_woken(waker: &Waker) -> Waker {
    let counted = Mutex::new(Some(operation()));
    Waker::from(Arc::new(WakesOnce { counted, waker: waker.clone() }))
}

struct WakesOnce {
    counted: Mutex<Option<Operation>>,
    waker: Waker,
}

impl Wake for WakesOnce {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.waker.wake_by_ref();
    }
}

/// Notes that the executor has something to do at `at`, until the guard is dropped.
pub(crate) fn alarm(at: Instant) -> Alarm {
    HERE.with(|here| {
        let alarm = (at, here.next_alarm.replace(here.next_alarm.get() + 1));
        here.alarms.borrow_mut().insert(alarm);
        here.note_earliest();
        Alarm(alarm)
    })
}

/// While it lives, a sleep is under way.
pub(crate) struct Alarm((Instant, u64));

impl Drop for Alarm {
    fn drop(&mut self) {
        HERE.with(|here| {
            here.alarms.borrow_mut().remove(&self.0);
            here.note_earliest();
        });
    }
}

impl Outstanding {
    fn note_earliest(&self) {
        self.earliest.set(self.alarms.borrow().first().map(|(at, _)| *at));
    }

    fn notify_if_none_runs(&self) {
        if self.runnable.load(Ordering::Relaxed) == 0
            && let Some(notify) = &*self.until_none_runs.borrow()
        {
            notify.notify();
        }
    }
}

/// `future` as a task that is counted whenever it is runnable. It counts from now on.
pub(crate) fn counted<T>(future: impl Future<Output = T>) -> impl Future<Output = T> {
    let turns = Turns(Arc::new(Turn::new(HERE.with(|here| here.runnable.clone()))));
    async move {
        let waker = Waker::from(turns.0.clone());
        let mut future = pin!(future);
        poll_fn(|context| {
            turns.0.begin(context.waker());
            let state = future.as_mut().poll(&mut Context::from_waker(&waker));
            HERE.with(Outstanding::notify_if_none_runs);
            state
        })
        .await
    }
}

/// The turns of one task.
struct Turn {
    runnable: Arc<AtomicUsize>,
    /// It was woken and did not begin its turn yet: then it is counted.
    woken: AtomicBool,
    executors: Mutex<Option<Waker>>,
}

impl Turn {
    /// Of a task that is about to be started, which is a first wake-up.
    fn new(runnable: Arc<AtomicUsize>) -> Turn {
        runnable.fetch_add(1, Ordering::Relaxed);
        Turn { runnable, woken: AtomicBool::new(true), executors: Mutex::default() }
    }

    fn begin(&self, executors: &Waker) {
        match &mut *self.executors.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(waker) => waker.clone_from(executors),
            waker => *waker = Some(executors.clone()),
        }
        if self.woken.swap(false, Ordering::Relaxed) {
            self.runnable.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Wake for Turn {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.woken.swap(true, Ordering::Relaxed) {
            return;
        }
        self.runnable.fetch_add(1, Ordering::Relaxed);
        if let Some(waker) = &*self.executors.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake_by_ref();
        }
    }
}

/// The task itself, as against the wakers that may outlive it: when it is over, none counts.
struct Turns(Arc<Turn>);

impl Drop for Turns {
    fn drop(&mut self) {
        if self.0.woken.swap(true, Ordering::Relaxed) {
            self.0.runnable.fetch_sub(1, Ordering::Relaxed);
        }
        // Woken in its last turn, it counted until now. Never at the end of the thread, when there is none to tell.
        let _ = HERE.try_with(Outstanding::notify_if_none_runs);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;
    use crate::notify::Notify;

    fn poll<T>(future: &mut std::pin::Pin<Box<impl Future<Output = T>>>) -> Poll<T> {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_task_counts_from_its_wake_up_to_its_turn() {
        let notify = Arc::new(Notify::new());
        let waits = notify.clone();
        let mut task = Box::pin(counted(async move {
            waits.notified().await;
            waits.notified().await;
        }));
        assert!(any_runnable(), "it was started");
        assert!(poll(&mut task).is_pending());
        assert!(!any_runnable(), "it had its turn");
        notify.notify();
        notify.notify();
        assert!(any_runnable());
        assert!(poll(&mut task).is_pending());
        assert!(!any_runnable(), "woken twice, it counts once");
        notify.notify();
        assert!(poll(&mut task).is_ready());
        assert!(!any_runnable());
    }

    #[test]
    fn a_task_that_is_over_never_counts() {
        let kept: Arc<Mutex<Option<Waker>>> = Arc::default();
        let keeps = kept.clone();
        let mut task = Box::pin(counted(poll_fn(move |context| {
            keeps.lock().unwrap().replace(context.waker().clone());
            context.waker().wake_by_ref();
            Poll::Ready(())
        })));
        assert!(poll(&mut task).is_ready());
        drop(task);
        assert!(!any_runnable(), "woken in its last turn");
        kept.lock().unwrap().take().unwrap().wake();
        assert!(!any_runnable(), "woken after its end");
        drop(counted(async {}));
        assert!(!any_runnable(), "never polled");
    }

    /// Before: one that was woken in its last turn counted while the others were asked for, and the pass slept on.
    #[test]
    fn who_waits_for_the_end_of_tasks_is_told_of_it_however_the_last_one_ends() {
        let none_runs = Arc::new(Notify::new());
        let mut waits = Box::pin(counted(std::future::pending::<()>()));
        assert!(poll(&mut waits).is_pending());
        assert!(!none_runs.take(), "none waited");
        let until = notify_when_none_runs(&none_runs);
        let mut wakes_itself = Box::pin(counted(poll_fn(|context| {
            context.waker().wake_by_ref();
            Poll::Ready(())
        })));
        assert!(poll(&mut wakes_itself).is_ready());
        drop(wakes_itself);
        assert!(none_runs.take(), "it is over");
        let mut yields = Box::pin(counted(futures_lite::future::yield_now()));
        assert!(poll(&mut yields).is_pending());
        assert!(!none_runs.take(), "it is runnable still");
        assert!(poll(&mut yields).is_ready());
        assert!(none_runs.take());
        drop(until);
        drop(yields);
        assert!(!none_runs.take(), "none waits any more");
    }

    #[test]
    fn the_next_alarm_is_the_earliest_of_those_set() {
        let now = Instant::now();
        let after = |ms| now + Duration::from_millis(ms);
        let (late, early) = (alarm(after(9)), alarm(after(3)));
        let same = alarm(after(3));
        assert_eq!(next_alarm(), Some(after(3)));
        drop(early);
        assert_eq!(next_alarm(), Some(after(3)), "another at the same moment");
        drop(same);
        assert_eq!(next_alarm(), Some(after(9)));
        drop(late);
        assert_eq!(next_alarm(), None);
    }

    #[test]
    fn operations_are_counted_while_their_guards_live() {
        let (one, other) = (operation(), operation());
        drop(one);
        assert!(any_operation());
        drop(other);
        assert!(!any_operation());
    }
}
