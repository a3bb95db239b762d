//! A wake-up between tasks of one core: one waiter, no allocation, nothing lost.
//!
//! A notification that finds nobody waiting is kept, and many kept are one: whoever is woken looks
//! at everything there is to do. The waker is stored by value and replaced, never accumulated
//! (glommio counts the wakers of a task in sixteen bits).

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// See the module. Not `Send`: cores wake one another with a [`Bell`](crate::mailbox::Bell).
#[derive(Default)]
pub struct Notify {
    set: Cell<bool>,
    waiter: RefCell<Option<Waker>>,
}

impl Notify {
    /// One without a notification.
    pub fn new() -> Notify {
        Notify::default()
    }

    /// Wakes the waiter, now or when it comes.
    #[inline]
    pub fn notify(&self) {
        if !self.set.replace(true)
            && let Some(waiter) = self.waiter.take()
        {
            waiter.wake();
        }
    }

    /// Whether a notification is kept; takes it.
    #[inline]
    pub fn take(&self) -> bool {
        self.set.take()
    }

    /// Waits for a notification and takes it. One task waits at a time.
    pub async fn notified(&self) {
        poll_fn(|context| {
            if self.set.take() {
                return Poll::Ready(());
            }
            let mut waiter = self.waiter.borrow_mut();
            match &mut *waiter {
                Some(waiter) => waiter.clone_from(context.waker()),
                None => *waiter = Some(context.waker().clone()),
            }
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A notification before the wait is kept; one during it wakes once; two are one.
    #[test]
    fn keeps_and_wakes() {
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(count.clone());
        let mut context = Context::from_waker(&waker);
        let notify = Notify::new();
        notify.notify();
        notify.notify();
        assert!(pin!(notify.notified()).poll(&mut context).is_ready());

        let mut waiting = pin!(notify.notified());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        notify.notify();
        notify.notify();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(waiting.poll(&mut context).is_ready());
        assert!(!notify.take());
    }
}
