//! Futures that wait, in a slab, polled by their owner once they are woken.
//!
//! ```text
//! start ─► polled at once ─┬─ done: the output, nothing is kept
//!                          └─ pending: kept ─► (a completion wakes its key) ─► run_woken ─► the output
//! ```
//!
//! A task of the executor costs a process-wide lock to spawn and a turn of its queue to begin. An
//! entry here costs one allocation; it begins at once (`start`) or in the next turn (`add`), and goes on inside its
//! owner's pass. A turn, one call of `run_woken`, ends after [`READ_SLICE`]: what it has not come to goes on first in the
//! next one.
//!
//! Keys are used again, and a late wake-up of an earlier tenant only polls the present one once more.

use std::cell::RefCell;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use slab::Slab;

use crate::limits::READ_SLICE;
use crate::notify::Notify;

type Kept<T> = Pin<Box<dyn Future<Output = T>>>;

/// The suspended work of one core, of which each piece ends in a `T`.
pub struct Suspended<T> {
    /// `None` while an entry is being polled.
    entries: RefCell<Slab<Option<Kept<T>>>>,
    /// The waker of each key that was ever used.
    wakers: RefCell<Vec<Waker>>,
    woken: Arc<Woken>,
    /// Empty between turns, kept for its memory.
    turning: RefCell<Vec<u32>>,
}

/// Which entries have something to go on with.
struct Woken {
    /// A waker may be used on any thread, by its type; here it is always the owner's.
    list: Mutex<Vec<u32>>,
    owner: Arc<Notify>,
}

struct Key {
    key: u32,
    woken: Arc<Woken>,
}

impl Woken {
    fn keys(&self) -> MutexGuard<'_, Vec<u32>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, key: u32) {
        self.keys().push(key);
        self.owner.notify();
    }
}

impl Wake for Key {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.push(self.key);
    }
}

impl<T> Suspended<T> {
    /// Nothing suspended. `owner` is notified when [`run_woken`](Self::run_woken) has something to do.
    pub fn new(owner: Arc<Notify>) -> Suspended<T> {
        let woken = Arc::new(Woken { list: Mutex::default(), owner });
        let (entries, wakers, turning) = Default::default();
        Suspended { entries, wakers, woken, turning }
    }

    /// Runs `future` as far as it comes without waiting: its output if that is to its end.
    #[inline]
    pub fn start(&self, future: impl Future<Output = T> + 'static) -> Option<T> {
        let key = self.entries.borrow_mut().insert(None);
        self.poll(key, Box::pin(future))
    }

    /// Keeps `future` for the next turn, in which it begins.
    pub fn add(&self, future: impl Future<Output = T> + 'static) {
        let key = self.entries.borrow_mut().insert(Some(Box::pin(future)));
        self.waker(key).wake();
    }

    /// Goes on with what was woken before the call, until [`READ_SLICE`] is over; outputs go to `done`.
    /// Returns whether anything was woken.
    pub fn run_woken(&self, mut done: impl FnMut(T)) -> bool {
        let mut woken = self.woken.keys();
        if woken.is_empty() {
            return false;
        }
        let mut keys = mem::replace(&mut *woken, self.turning.take());
        drop(woken);
        let began = Instant::now();
        let mut polled = 0;
        for &key in &keys {
            if polled > 0 && began.elapsed() >= READ_SLICE {
                break;
            }
            polled += 1;
            if let Some(output) = self.poll_woken(key) {
                done(output);
            }
        }
        if polled < keys.len() {
            // What there was no time for comes before what was woken meanwhile.
            self.woken.keys().splice(..0, keys.drain(polled..));
        }
        keys.clear();
        self.turning.replace(keys);
        true
    }

    /// Goes on with one of what was woken, by the place that `choose` names among so many. Returns whether anything was
    /// woken.
    pub(crate) fn step(&self, choose: impl FnOnce(usize) -> usize, done: impl FnOnce(T)) -> bool {
        let key = {
            let mut keys = self.woken.keys();
            if keys.is_empty() {
                return false;
            }
            let place = choose(keys.len());
            keys.remove(place)
        };
        if let Some(output) = self.poll_woken(key) {
            done(output);
        }
        true
    }

    /// Whether an entry may have been woken.
    #[inline]
    pub fn has_woken(&self) -> bool {
        // Without entries nothing can have been woken that matters.
        !self.entries.borrow().is_empty() && !self.woken.keys().is_empty()
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    /// Whether nothing is suspended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops everything that is suspended.
    pub(crate) fn clear(&self) {
        let entries = self.entries.take();
        drop(entries);
    }

    /// Polls an entry that was woken, if it is still there.
    fn poll_woken(&self, key: u32) -> Option<T> {
        let entry = self.entries.borrow_mut().get_mut(key as usize).and_then(Option::take);
        entry.and_then(|future| self.poll(key as usize, future))
    }

    fn poll(&self, key: usize, mut future: Kept<T>) -> Option<T> {
        let waker = self.waker(key);
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => {
                let other = self.entries.borrow_mut().remove(key);
                assert!(other.is_none(), "a key has one entry");
                Some(output)
            }
            Poll::Pending => {
                let other = self.entries.borrow_mut()[key].replace(future);
                assert!(other.is_none(), "a key has one entry");
                None
            }
        }
    }

    fn waker(&self, key: usize) -> Waker {
        let mut wakers = self.wakers.borrow_mut();
        while wakers.len() <= key {
            let key = u32::try_from(wakers.len()).expect("the requests of a shard are bounded");
            wakers.push(Waker::from(Arc::new(Key { key, woken: self.woken.clone() })));
        }
        wakers[key].clone()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::rc::Rc;

    use super::*;

    /// Waits until the number reaches `wanted`, and keeps its waker in `waiters`.
    async fn reaches(number: Rc<Cell<u32>>, wanted: u32, waiters: Rc<RefCell<Vec<Waker>>>) -> u32 {
        poll_fn(|context| {
            if number.get() >= wanted {
                return Poll::Ready(wanted);
            }
            waiters.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    #[test]
    fn work_goes_on_where_it_stopped_and_only_when_woken() {
        let owner = Arc::new(Notify::new());
        let suspended = Suspended::new(owner.clone());
        let (number, waiters) = (Rc::new(Cell::new(1)), Rc::<RefCell<Vec<Waker>>>::default());
        let start = |wanted| suspended.start(reaches(number.clone(), wanted, waiters.clone()));
        assert_eq!(start(1), Some(1), "what need not wait is done at once");
        assert!(suspended.is_empty());
        assert_eq!((start(2), start(3)), (None, None));
        assert_eq!(suspended.len(), 2);
        number.set(2);
        assert!(!suspended.has_woken() && !suspended.run_woken(|_| panic!("nothing was woken")));
        waiters.take().into_iter().for_each(Waker::wake);
        assert!(suspended.has_woken() && owner.take());
        let mut done = Vec::new();
        assert!(suspended.run_woken(|output| done.push(output)));
        assert_eq!((done, suspended.len()), (vec![2], 1), "the other one waits again");
    }

    /// Whatever computes for long and never waits: a turn ends all the same, and each has its slices.
    #[test]
    fn a_turn_ends_with_its_slice_and_begins_where_the_last_one_ended() {
        let suspended = Suspended::new(Arc::new(Notify::new()));
        let order = Rc::<RefCell<Vec<u32>>>::default();
        for number in 0..3 {
            let order = order.clone();
            suspended.add(poll_fn(move |context| {
                order.borrow_mut().push(number);
                let began = Instant::now();
                while began.elapsed() < READ_SLICE {}
                context.waker().wake_by_ref();
                Poll::<()>::Pending
            }));
        }
        for turns in 1..=6 {
            assert!(suspended.run_woken(|()| panic!("none has an end")));
            assert_eq!(order.borrow().len(), turns, "one of them fills a slice");
        }
        assert_eq!(*order.borrow(), [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn a_late_wake_up_of_an_earlier_tenant_does_no_harm() {
        let suspended = Suspended::new(Arc::new(Notify::new()));
        let (number, waiters) = (Rc::new(Cell::new(0)), Rc::<RefCell<Vec<Waker>>>::default());
        assert_eq!(suspended.start(reaches(number.clone(), 1, waiters.clone())), None);
        let late = waiters.borrow()[0].clone();
        number.set(1);
        waiters.take().into_iter().for_each(Waker::wake);
        assert!(suspended.run_woken(|output| assert_eq!(output, 1)));
        assert_eq!(suspended.start(reaches(number.clone(), 2, waiters.clone())), None);
        late.wake();
        assert!(suspended.run_woken(|_| panic!("it waits for 2")));
        assert_eq!(suspended.len(), 1);
    }

    #[test]
    fn what_is_added_begins_in_the_next_turn() {
        let suspended = Suspended::new(Arc::new(Notify::new()));
        suspended.add(async { 7 });
        let mut done = Vec::new();
        assert!(suspended.run_woken(|output| done.push(output)));
        assert_eq!(done, [7]);
        assert!(suspended.is_empty());
    }
}
