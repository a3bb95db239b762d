//! The pass while it sleeps as a task of the executor, and how a job that computes beside it wakes it.
//!
//! The pass has nothing to do and sleeps. What wakes it:
//! 1. a job ends a slice, and a descriptor of the pass is ready;
//! 2. the executor turns to its rings and sees the bridge (`os/bridge.rs`), if it had something under way: not while a
//!    task is runnable;
//! 3. no task is runnable any more (`outstanding.rs`), if the executor had nothing under way.
//!
//! Without the job's look a pass would sleep for as long as jobs compute. It costs one system call a slice, and only
//! while the pass sleeps; a turn to the executor's rings costs six, and a sleep of the executor twelve.
//!
//! Not here: when the pass sleeps, and where it sleeps once no task is runnable (`idle.rs`).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use crate::notify::Notify;
use crate::os::epoll::Watch;

/// The pass of one core, if it sleeps as a task of the executor.
#[derive(Default)]
pub struct SleepingPass {
    /// What is ready when the pass has something to do, and what wakes it. `None` while it is awake.
    sleeper: RefCell<Option<(Rc<Watch>, Arc<Notify>)>>,
}

impl SleepingPass {
    /// The pass sleeps until the guard is dropped.
    pub(crate) fn asleep(&self, watch: &Rc<Watch>, wake: &Arc<Notify>) -> Asleep<'_> {
        self.sleeper.replace(Some((watch.clone(), wake.clone())));
        Asleep(self)
    }

    /// Wakes the pass if it sleeps and has something to do. A system call if it sleeps.
    pub(crate) fn wake_if_wanted(&self) {
        if let Some((watch, wake)) = &*self.sleeper.borrow()
            && watch.is_ready()
        {
            wake.notify();
        }
    }
}

/// While it lives, the pass sleeps.
pub(crate) struct Asleep<'p>(&'p SleepingPass);

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.0.sleeper.replace(None);
    }
}
