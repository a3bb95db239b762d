//! The bell of one core: how a peer wakes it when, and only when, it sleeps.
//!
//! ```text
//!   sender (another core)                 sleeper (this core)
//!   1. publish the item (release)         A. parked = true
//!   2. fence                              B. fence
//!   3. parked? -> clear it, write eventfd C. any mail? -> parked = false, do not sleep
//!                                         D. sleep on the eventfd
//! ```
//!
//! Why no wake-up is lost: both fences are sequentially consistent, so one comes first in their
//! single total order. If 2 is before B, the sleeper's look at C sees the item of 1. If B is before
//! 2, the sender's look at 3 sees `parked` of A and writes the eventfd, which stays readable until
//! it is read. Without the fences a processor may move the load of 3 before the store of 1 (and C
//! before A), and both would see nothing.
//!
//! A busy core costs its peers one load of a cache line that is not written. Of several senders that find
//! the flag set, the swap lets one do the system call.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use crossbeam_utils::CachePadded;

use crate::os::EventFd;

/// Wakes one core.
pub struct Bell {
    parked: CachePadded<AtomicBool>,
    event: EventFd,
}

impl Bell {
    /// A bell whose core is awake.
    pub fn new() -> io::Result<Bell> {
        Ok(Bell { parked: CachePadded::new(AtomicBool::new(false)), event: EventFd::new()? })
    }

    /// Wakes the core if it sleeps. The caller has fenced after publishing (step 2).
    #[inline]
    pub(super) fn ring_if_parked(&self) {
        if self.parked.load(Ordering::Relaxed) && self.parked.swap(false, Ordering::Relaxed) {
            self.event.signal();
        }
    }

    /// Wakes the core whatever it does: for events that are not mail, such as a stop.
    pub fn ring(&self) {
        self.event.signal();
    }

    /// Steps A and B. The caller then looks for work, and calls [`awake`](Self::awake) if there is
    /// some or when it has slept.
    pub fn park(&self) {
        self.parked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The core runs: no peer need ring.
    pub fn awake(&self) {
        self.parked.store(false, Ordering::Relaxed);
    }

    /// What becomes readable when the bell rings.
    pub(crate) fn event(&self) -> &EventFd {
        &self.event
    }
}
