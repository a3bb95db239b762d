//! One at a time, across awaits: a change of the manifest and of what follows from it takes the lock.
//!
//! The manifest itself puts commits in a row; this is held longer, from looking at the tables (is what was flushed
//! still wanted?) over the commit to changing them, so that two such changes never see each other half done.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// A mutex for tasks of one thread: at most one guard at a time.
#[derive(Debug, Default)]
pub struct AsyncMutex {
    taken: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

/// The lock, held; dropping the guard lets the next begin.
#[derive(Debug)]
#[must_use]
pub struct Guard<'t>(&'t AsyncMutex);

impl AsyncMutex {
    /// Waits until the lock is free, and takes it.
    pub async fn take(&self) -> Guard<'_> {
        poll_fn(|cx| {
            if self.taken.replace(true) {
                self.waiting.borrow_mut().push(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(Guard(self))
        })
        .await
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        assert!(self.0.taken.replace(false), "a guard is of a lock that was taken");
        // All of them: one that was first may have been dropped while it waited.
        self.0.waiting.borrow_mut().drain(..).for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use futures_lite::future::yield_now;

    use super::*;
    use crate::io::SimExec;

    #[test]
    fn turns_do_not_overlap_and_all_come() {
        for seed in 0..50 {
            let exec = SimExec::new(seed);
            let (mutex, inside) = (Rc::new(AsyncMutex::default()), Rc::new(Cell::new(0)));
            let done = Rc::new(Cell::new(0));
            for _ in 0..5 {
                let (mutex, inside, done) = (mutex.clone(), inside.clone(), done.clone());
                exec.spawn(async move {
                    let guard = mutex.take().await;
                    assert_eq!(inside.replace(1), 0, "two hold the lock");
                    yield_now().await;
                    inside.set(0);
                    drop(guard);
                    done.set(done.get() + 1);
                });
            }
            let finished = done.clone();
            exec.run(async move {
                while finished.get() < 5 {
                    yield_now().await;
                }
            })
            .done();
        }
    }
}
