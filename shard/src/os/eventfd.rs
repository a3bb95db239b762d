//! A kernel counter that is readable while it is not zero: what a core sleeps on.
//!
//! The descriptor blocks, on purpose: io_uring answers a read of an empty *non-blocking* eventfd
//! at once with `EAGAIN`, and of a blocking one when somebody signals.
#![expect(unsafe_code, reason = "eventfd(2) has no wrapper in std")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use super::checked;

/// A counter in the kernel that wakes who polls it.
pub struct EventFd {
    file: File,
}

impl EventFd {
    /// A new one, not signalled.
    pub fn new() -> io::Result<EventFd> {
        // SAFETY: takes two numbers and no pointers.
        let fd = checked(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?;
        // SAFETY: the kernel just made this descriptor for us; nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(EventFd { file: File::from(fd) })
    }

    /// Makes it readable.
    #[expect(clippy::host_endian_bytes, reason = "the kernel reads a number of this host")]
    pub fn signal(&self) {
        // It cannot fail: the counter would have to be at 2^64 - 2, and then it is readable anyway.
        let _ = (&self.file).write(&1u64.to_ne_bytes());
    }

    /// Blocks the thread until it is signalled, and resets it.
    pub fn wait(&self) {
        let mut count = [0; 8];
        // An interruption reads as a signal: the waiting core looks again.
        let _ = (&self.file).read(&mut count);
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::epoll::{Interest, Poller};

    /// Signals add up to one readiness, and reading resets it.
    #[test]
    fn signals_coalesce() {
        let event = EventFd::new().unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(event.as_fd(), 0, Interest::Read).unwrap();
        assert_eq!(poller.poll().unwrap(), 0);
        event.signal();
        event.signal();
        assert_eq!(poller.poll().unwrap(), 1);
        event.wait();
        poller.modify(event.as_fd(), 0, Interest::Read).unwrap();
        assert_eq!(poller.poll().unwrap(), 0);
    }
}
