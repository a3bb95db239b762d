//! A number of units (bytes, places) that are held across awaits, and who waits for them: first come, first served.
//!
//! ```text
//! take ─┬─ it is there and none waits ─► Permit ─(dropped)─► to the first that waits, and on while it suffices
//!       └─ else: waits in order ────────────────────────────────► Permit
//! ```
//!
//! 1. What comes back goes to those that wait before any is woken: one that comes later does not take it from them.
//! 2. Only who has what it waits for is woken. One that is dropped while it waits gives its turn to the next.
//! 3. More than there is at all is taken as all there is: such a one is alone.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A number of units that tasks of one thread share.
#[derive(Debug)]
pub struct Semaphore {
    units: u64,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    free: u64,
    /// The number of the next one that waits.
    next: u64,
    /// What those want that wait, by number.
    waiting: BTreeMap<u64, (u64, Waker)>,
}

/// Some of the units; dropping it lets others have them.
#[derive(Debug)]
#[must_use]
pub struct Permit<'s> {
    semaphore: &'s Semaphore,
    units: u64,
}

impl Semaphore {
    /// How many units.
    pub fn new(units: u64) -> Semaphore {
        let state = State { free: units, next: 0, waiting: BTreeMap::new() };
        Semaphore { units, state: RefCell::new(state) }
    }

    /// Waits until so many units are free, and those that came before have theirs.
    pub fn take(&self, units: u64) -> Turn<'_> {
        Turn { semaphore: self, units: units.min(self.units), number: None }
    }

    /// Units that are held.
    pub fn held(&self) -> u64 {
        self.units - self.state.borrow().free
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.state.borrow().waiting.len()
    }

    fn give_back(&self, units: u64) {
        self.state.borrow_mut().free += units;
        self.serve();
    }

    /// Gives what is free to those that wait.
    fn serve(&self) {
        loop {
            let mut state = self.state.borrow_mut();
            let Some(first) = state.waiting.first_entry() else { return };
            let units = first.get().0;
            if units > state.free {
                return;
            }
            state.free -= units;
            let first = state.waiting.pop_first();
            drop(state);
            if let Some((_, (_, waker))) = first {
                waker.wake();
            }
        }
    }
}

/// Waits for some of the units.
#[derive(Debug)]
#[must_use]
pub struct Turn<'s> {
    semaphore: &'s Semaphore,
    units: u64,
    /// `None` before it waits, and when it has what it waited for.
    number: Option<u64>,
}

impl<'s> Future for Turn<'s> {
    type Output = Permit<'s>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit<'s>> {
        let (semaphore, units) = (self.semaphore, self.units);
        let mut state = semaphore.state.borrow_mut();
        match self.number {
            Some(number) => match state.waiting.get_mut(&number) {
                Some((_, waker)) => waker.clone_from(context.waker()),
                None => {
                    self.number = None;
                    return Poll::Ready(Permit { semaphore, units });
                }
            },
            None if state.waiting.is_empty() && units <= state.free => {
                state.free -= units;
                return Poll::Ready(Permit { semaphore, units });
            }
            None => {
                let number = state.next;
                state.next += 1;
                state.waiting.insert(number, (units, context.waker().clone()));
                self.number = Some(number);
            }
        }
        Poll::Pending
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let waited = self.semaphore.state.borrow_mut().waiting.remove(&number);
        match waited {
            // It may have kept those behind it from what is free.
            Some(_) => self.semaphore.serve(),
            None => self.semaphore.give_back(self.units),
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.semaphore.give_back(self.units);
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_types, reason = "a waker must be `Sync` by its type")]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use futures_lite::future::yield_now;

    use super::*;
    use crate::io::SimExec;

    #[derive(Default)]
    struct Wakes(AtomicUsize);
    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    type Taking<'s> = Pin<Box<dyn Future<Output = Permit<'s>> + 's>>;

    fn poll<'s>(taking: &mut Taking<'s>, wakes: &Arc<Wakes>) -> Option<Permit<'s>> {
        let waker = Waker::from(wakes.clone());
        match taking.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        }
    }

    /// Before: each search that ended woke all that waited, and one that came later could take the place of those.
    #[test]
    fn units_go_to_the_first_that_waits_and_only_it_is_woken() {
        let (semaphore, wakes) = (Semaphore::new(2), Arc::new(Wakes::default()));
        let take = |units| -> Taking<'_> { Box::pin(semaphore.take(units)) };
        let all = poll(&mut take(5), &wakes).expect("all there is, alone");
        assert_eq!(semaphore.held(), 2);
        let [mut a, mut b, mut c] = [take(1), take(2), take(1)];
        assert!([&mut a, &mut b, &mut c].into_iter().all(|turn| poll(turn, &wakes).is_none()));
        drop(all);
        assert_eq!((wakes.0.swap(0, Ordering::Relaxed), semaphore.waiting()), (1, 2));
        let mut late = take(1);
        assert!(poll(&mut late, &wakes).is_none(), "others were there before");
        let first = poll(&mut a, &wakes).expect("it is its turn");
        assert!(poll(&mut c, &wakes).is_none(), "nor does a small one pass");
        drop(b);
        assert_eq!(
            wakes.0.swap(0, Ordering::Relaxed),
            1,
            "the turn of one that left is the next one's"
        );
        drop(c);
        assert_eq!(
            wakes.0.swap(0, Ordering::Relaxed),
            1,
            "also of one that had its units, and did not look"
        );
        drop((first, poll(&mut late, &wakes).expect("it is its turn")));
        assert_eq!((semaphore.held(), semaphore.waiting()), (0, 0));
    }

    #[test]
    fn no_more_units_than_there_are_are_held_and_all_come() {
        let exec = SimExec::new(1);
        let (semaphore, done) = (Rc::new(Semaphore::new(8)), Rc::new(Cell::new(0)));
        let (held, most) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        for units in (1..=3).cycle().take(60) {
            let (semaphore, done) = (semaphore.clone(), done.clone());
            let (held, most) = (held.clone(), most.clone());
            exec.spawn(async move {
                let permit = semaphore.take(units).await;
                held.set(held.get() + units);
                most.set(most.get().max(held.get()));
                yield_now().await;
                held.set(held.get() - units);
                drop(permit);
                done.set(done.get() + 1);
            });
        }
        let waited = done.clone();
        exec.run(async move {
            while waited.get() < 60 {
                yield_now().await;
            }
        })
        .done();
        assert!((6..=8).contains(&most.get()), "{} of 8", most.get());
    }
}
