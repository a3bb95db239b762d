//! Searches for the nearest rows that are under way: so many at a time, for each keeps rows and candidates.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

use crate::limits::NEAREST_SEARCHES_MAX;

/// How many searches there are, and who waits to begin one.
#[derive(Debug, Default)]
pub(crate) struct Searches {
    running: Cell<usize>,
    waiting: RefCell<Vec<Waker>>,
}

/// A search; dropping it lets another begin.
#[derive(Debug)]
#[must_use]
pub(super) struct Search<'s>(&'s Searches);

impl Searches {
    /// Waits until one more search may begin.
    pub(super) async fn begin(&self) -> Search<'_> {
        poll_fn(|context| {
            if self.running.get() >= NEAREST_SEARCHES_MAX {
                self.waiting.borrow_mut().push(context.waker().clone());
                return Poll::Pending;
            }
            self.running.set(self.running.get() + 1);
            Poll::Ready(Search(self))
        })
        .await
    }
}

impl Drop for Search<'_> {
    fn drop(&mut self) {
        self.0.running.set(self.0.running.get() - 1);
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
    fn no_more_searches_than_the_limit_are_under_way_and_all_come() {
        let exec = SimExec::new(1);
        let (searches, done) = (Rc::new(Searches::default()), Rc::new(Cell::new(0)));
        let most = Rc::new(Cell::new(0));
        for _ in 0..5 * NEAREST_SEARCHES_MAX {
            let (searches, done, most) = (searches.clone(), done.clone(), most.clone());
            exec.spawn(async move {
                let search = searches.begin().await;
                most.set(most.get().max(searches.running.get()));
                yield_now().await;
                drop(search);
                done.set(done.get() + 1);
            });
        }
        let waited = done.clone();
        exec.run(async move {
            while waited.get() < 5 * NEAREST_SEARCHES_MAX {
                yield_now().await;
            }
        })
        .done();
        assert_eq!(most.get(), NEAREST_SEARCHES_MAX);
    }
}
