//! A wake-up of one waiter: no allocation, nothing lost.
//!
//! A notification that finds no one waiting is kept, and many kept are one: the one who is woken
//! looks at everything there is to do. The waker is stored by value and replaced, never accumulated
//! (glommio counts the wakers of a task in sixteen bits).
//!
//! It is used between tasks of one core. It is `Sync` because wakers are, by their type
//! (`suspended.rs`): a notification that is kept already costs one load, which is the common case.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// See the module. Cores wake one another with a [`Bell`](crate::mailbox::Bell).
#[derive(Default)]
pub struct Notify {
    set: AtomicBool,
    waiter: Mutex<Option<Waker>>,
}

impl Notify {
    /// One without a notification.
    pub fn new() -> Notify {
        Notify::default()
    }

    /// Wakes the waiter, now or when it comes.
    #[inline]
    pub fn notify(&self) {
        if !self.set.load(Ordering::Relaxed) {
            self.notify_first();
        }
    }

    fn notify_first(&self) {
        if !self.set.swap(true, Ordering::SeqCst) {
            let waiter = self.waiter().take();
            if let Some(waiter) = waiter {
                waiter.wake();
            }
        }
    }

    /// Whether a notification is kept; takes it.
    #[inline]
    pub fn take(&self) -> bool {
        self.set.load(Ordering::Relaxed) && self.set.swap(false, Ordering::SeqCst)
    }

    /// Waits for a notification and takes it. One task waits at a time.
    pub async fn notified(&self) {
        poll_fn(|context| {
            if self.take() {
                return Poll::Ready(());
            }
            match &mut *self.waiter() {
                Some(waiter) => waiter.clone_from(context.waker()),
                waiter => *waiter = Some(context.waker().clone()),
            }
            // It may have come from another thread meanwhile.
            if self.take() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn waiter(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waiter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    use super::*;

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
