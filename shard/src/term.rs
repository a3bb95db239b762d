//! How long a read goes on: until its deadline, and as long as somebody waits for it.
//!
//! ```text
//! run(work) ─► at each poll:  no one waits ─► Unwanted      the deadline has passed ─► TimedOut
//!                             else the work goes on         (either way the work is dropped, with all it holds)
//! ```
//!
//! A read that computes is polled after each of its slices, and so looks at the clock by itself. One that waits, for
//! the disk or for another core, is woken when its owner calls [`Term::wake_if_late`].

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Instant;

/// Why a read ended before it had its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its deadline has passed.
    TimedOut,
    /// Whoever asked is gone.
    Unwanted,
}

/// The term of one read. See the module.
pub struct Term {
    /// `None`: it may take for ever.
    deadline: Option<Instant>,
    is_unwanted: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

impl Term {
    /// A term that ends at `deadline`; `None`: only when no one waits any more.
    pub fn until(deadline: Option<Instant>) -> Rc<Term> {
        let (is_unwanted, waiting) = Default::default();
        Rc::new(Term { deadline, is_unwanted, waiting })
    }

    /// No one waits for the read any more.
    pub fn end(&self) {
        self.is_unwanted.set(true);
        self.wake();
    }

    /// Lets a read that waits find out that its deadline has passed, if it has at `now`.
    pub fn wake_if_late(&self, now: Instant) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.wake();
        }
    }

    fn wake(&self) {
        let waiting = self.waiting.take();
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    fn ended(&self) -> Option<Ended> {
        if self.is_unwanted.get() {
            return Some(Ended::Unwanted);
        }
        let is_late = self.deadline.is_some_and(|deadline| deadline <= Instant::now());
        is_late.then_some(Ended::TimedOut)
    }

    /// Does the work, unless its term ends before.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Ended> {
        let mut work = pin!(work);
        poll_fn(|context| {
            if let Some(ended) = self.ended() {
                return Poll::Ready(Err(ended));
            }
            match &mut *self.waiting.borrow_mut() {
                Some(waiting) => waiting.clone_from(context.waker()),
                waiting => *waiting = Some(context.waker().clone()),
            }
            work.as_mut().poll(context).map(Ok)
        })
        .await
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Term").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};
    use std::time::Duration;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);
    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes when it is dropped.
    struct Held(Rc<Cell<bool>>);
    impl Drop for Held {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }

    #[test]
    fn work_that_waits_ends_with_its_term_and_lets_go_of_what_it_holds() {
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut context = Context::from_waker(&waker);
        let now = Instant::now();
        let far = now + Duration::from_secs(3600);
        for (deadline, ended) in [(None, Ended::Unwanted), (Some(far), Ended::Unwanted)] {
            let (term, freed) = (Term::until(deadline), Rc::new(Cell::new(false)));
            let held = Held(freed.clone());
            let mut run = Box::pin(term.run(async move {
                let _held = held;
                pending::<()>().await;
            }));
            assert!(run.as_mut().poll(&mut context).is_pending());
            term.wake_if_late(now);
            assert_eq!(wakes.0.swap(0, Ordering::Relaxed), 0, "it has time");
            term.end();
            assert_eq!(wakes.0.swap(0, Ordering::Relaxed), 1);
            assert_eq!(run.as_mut().poll(&mut context), Poll::Ready(Err(ended)));
            drop(run);
            assert!(freed.get());
        }
        let late = Term::until(Some(now));
        assert_eq!(pin!(late.run(async {})).poll(&mut context), Poll::Ready(Err(Ended::TimedOut)));
        late.waiting.replace(Some(waker.clone()));
        late.wake_if_late(now);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1, "one that waits is told");
    }
}
