//! The simulator's executor: one thread, and the seed decides which ready task goes next.
//!
//! 1. `spawn` adds tasks; `run` adds the main one.
//! 2. Of all woken tasks one is chosen and polled.
//! 3. It ends when the main task is done, when no task is awake, or when power is lost.
//!
//! A run is a function of the seed and of what the tasks do, so it can be repeated.
//!
//! Not here: time. Nothing in the engine reads a clock.
#![expect(clippy::disallowed_types, reason = "a waker must be `Sync` by its type")]

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::rng::Rng;
use super::sim::SimDisk;

/// More steps than this in one run is a livelock, and our bug.
const STEPS_MAX: u64 = 20_000_000;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<T> {
    /// The main task returned.
    Done(T),
    /// The main task has not returned: power was lost, or no task is awake (a deadlock).
    Stalled,
}

/// The executor. Clones share it, so that a task can spawn.
#[derive(Clone)]
pub struct SimExec(Rc<RefCell<Tasks>>);

struct Tasks {
    disk: Option<SimDisk>,
    rng: Rng,
    slots: Vec<Option<Task>>,
}

struct Task {
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    awake: Arc<Awake>,
}

struct Awake(AtomicBool);

impl Wake for Awake {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<T> Outcome<T> {
    /// The result of a run that was not cut off.
    pub fn done(self) -> T {
        match self {
            Outcome::Done(value) => value,
            Outcome::Stalled => panic!("no task is awake and the main task has not returned"),
        }
    }
}

impl SimExec {
    /// An executor whose choices `seed` decides.
    pub fn new(seed: u64) -> SimExec {
        SimExec::with(seed, None)
    }

    /// An executor that runs on this disk's machine: it stops when the disk loses power.
    pub fn powered_by(disk: &SimDisk, seed: u64) -> SimExec {
        SimExec::with(seed, Some(disk.clone()))
    }

    fn with(seed: u64, disk: Option<SimDisk>) -> SimExec {
        let tasks = Tasks { disk, rng: Rng::new(seed), slots: Vec::new() };
        SimExec(Rc::new(RefCell::new(tasks)))
    }

    /// Adds a task that runs beside the others, while somebody runs the executor.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        let awake = Arc::new(Awake(AtomicBool::new(true)));
        let task = Task { future: Some(Box::pin(future)), awake };
        self.0.borrow_mut().slots.push(Some(task));
    }

    /// Runs until `main` is done, no task is awake, or power is lost. Tasks that are left stay for the next run.
    pub fn run<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> Outcome<T> {
        let result = Rc::new(RefCell::new(None));
        let slot = result.clone();
        self.spawn(async move {
            let value = main.await;
            *slot.borrow_mut() = Some(value);
        });
        for _ in 0..STEPS_MAX {
            if let Some(value) = result.borrow_mut().take() {
                return Outcome::Done(value);
            }
            if !self.step() {
                return Outcome::Stalled;
            }
        }
        panic!("livelock: {STEPS_MAX} steps without an end");
    }

    /// Drops all tasks where they stand: the power is gone, or the process. A task that holds its executor would keep
    /// itself alive otherwise, and all that it holds.
    pub fn end(self) {
        // Tasks may use the executor while they are dropped.
        let slots = std::mem::take(&mut self.0.borrow_mut().slots);
        drop(slots);
    }

    /// Polls one woken task of the seed's choice; false when there is none.
    fn step(&self) -> bool {
        let Some((index, mut future, awake)) = self.0.borrow_mut().choose() else {
            return false;
        };
        awake.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(awake);
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        let mut tasks = self.0.borrow_mut();
        match polled {
            Poll::Ready(()) => tasks.slots[index] = None,
            Poll::Pending => {
                let task = tasks.slots[index].as_mut().expect("a polled task keeps its slot");
                task.future = Some(future);
            }
        }
        true
    }
}

type Chosen = (usize, Pin<Box<dyn Future<Output = ()>>>, Arc<Awake>);

impl Tasks {
    fn choose(&mut self) -> Option<Chosen> {
        if self.disk.as_ref().is_some_and(SimDisk::is_crashed) {
            return None;
        }
        self.slots.retain(Option::is_some);
        let is_awake = |slot: &Option<Task>| {
            slot.as_ref().is_some_and(|task| task.awake.0.load(Ordering::Relaxed))
        };
        let count = self.slots.iter().filter(|slot| is_awake(slot)).count();
        if count == 0 {
            return None;
        }
        let nth = self.rng.index(count);
        let (index, slot) =
            self.slots.iter_mut().enumerate().filter(|(_, s)| is_awake(s)).nth(nth)?;
        let task = slot.as_mut()?;
        let future = task.future.take().expect("a task is not polled from inside itself");
        Some((index, future, task.awake.clone()))
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::yield_now;

    use super::*;

    fn order_of(seed: u64) -> Vec<u32> {
        let exec = SimExec::new(seed);
        let order = Rc::new(RefCell::new(Vec::new()));
        for i in 0..4 {
            let order = order.clone();
            exec.spawn(async move {
                yield_now().await;
                order.borrow_mut().push(i);
            });
        }
        let seen = order.clone();
        exec.run(async move {
            while seen.borrow().len() < 4 {
                yield_now().await;
            }
        })
        .done();
        order.take()
    }

    #[test]
    fn the_seed_decides_the_order() {
        assert_eq!(order_of(7), order_of(7));
        assert!((0..50).map(order_of).any(|order| order != [0, 1, 2, 3]));
    }

    /// Before: a million power cuts filled the memory: each life that was cut off held its executor, and that its
    /// tasks.
    #[test]
    fn a_life_that_was_cut_off_leaves_no_memory_behind() {
        let (exec, held) = (SimExec::new(1), Rc::new(()));
        let (inner, holds) = (exec.clone(), held.clone());
        let outcome = exec.run(async move {
            let _holds = (inner, holds);
            std::future::pending::<()>().await;
        });
        assert_eq!(outcome, Outcome::Stalled);
        exec.end();
        assert_eq!(Rc::strong_count(&held), 1);
    }

    #[test]
    fn a_run_in_which_all_wait_is_stalled() {
        assert_eq!(SimExec::new(1).run(std::future::pending::<()>()), Outcome::Stalled);
    }
}
