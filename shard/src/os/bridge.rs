//! Lets an epoll descriptor wake a sleeping executor.
//!
//! ```text
//! socket ready ─► epoll fd readable ─► POLL_ADD completes ─► the ring signals our eventfd
//!                                      (a ring of our own)       │
//!                       the executor sleeps in its own ring, where a read of that eventfd waits
//! ```
//!
//! glommio sleeps on its rings and offers no way to await a foreign descriptor, except to read it:
//! an eventfd can be read, an epoll descriptor cannot. So a small ring of ours watches the latter
//! and rings the former. One poll is armed at a time, one shot; arming is one system call, done
//! only before a sleep, and a poll that did not fire stays armed for the next one.
//!
//! Rejected: a helper thread in `epoll_wait`. It costs two more context switches a wake-up.
#![expect(unsafe_code, reason = "submission queue entries name raw descriptors")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use glommio::io::BufferedFile;
use io_uring::{IoUring, opcode, types};

/// The watching ring.
pub struct Bridge {
    /// Declared before the descriptor it watches, so that it is gone first.
    ring: IoUring,
    watched: OwnedFd,
    armed: bool,
}

impl Bridge {
    /// Watches `watched` (whenever [`arm`](Self::arm)ed) and signals `event`, an eventfd.
    pub fn new(watched: impl AsFd, event: impl AsFd) -> io::Result<Bridge> {
        let watched = watched.as_fd().try_clone_to_owned()?;
        let ring = IoUring::new(2)?;
        ring.submitter().register_eventfd(event.as_fd().as_raw_fd())?;
        Ok(Bridge { ring, watched, armed: false })
    }

    /// From now on, one readiness of the watched descriptor signals the eventfd. If it is readable
    /// already, at once.
    pub fn arm(&mut self) -> io::Result<()> {
        let fired = self.ring.completion().count() > 0;
        if self.armed && !fired {
            return Ok(());
        }
        let fd = types::Fd(self.watched.as_raw_fd());
        let poll = opcode::PollAdd::new(fd, libc::POLLIN as u32).build();
        // SAFETY: the entry refers to no memory, and its descriptor lives as long as the ring.
        let pushed = unsafe { self.ring.submission().push(&poll) };
        pushed.expect("one entry at a time in a queue of two");
        // A submission cut short by a signal stays queued; there is nothing to undo.
        while let Err(error) = self.ring.submit() {
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        self.armed = true;
        Ok(())
    }
}

/// Reads an eventfd inside the executor: what its sleep ends by.
pub struct EventReader {
    file: BufferedFile,
}

impl EventReader {
    /// A reader of `event`, an eventfd. Must run on the executor that will use it.
    pub fn new(event: OwnedFd) -> EventReader {
        // SAFETY: the descriptor is ours, and moves into the file, which closes it.
        EventReader { file: unsafe { BufferedFile::from_raw_fd(event.into_raw_fd()) } }
    }

    /// Waits until the eventfd is signalled, and resets it.
    pub async fn wait(&self) -> io::Result<()> {
        self.file.read_at(0, 8).await?;
        Ok(())
    }

    /// Closes the descriptor. No wait is under way.
    pub async fn close(self) {
        // The descriptor is a duplicate: that closing it failed would change nothing.
        let _ = self.file.close().await;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::os::EventFd;
    use crate::os::epoll::{Interest, Poller};

    /// Readiness before and after arming both ring, and a fired poll can be armed again.
    #[test]
    fn rings_before_and_after() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(near.as_fd(), 0, Interest::Read).unwrap();
        let event = EventFd::new().unwrap();
        let mut bridge = Bridge::new(&poller, &event).unwrap();

        far.write_all(b"before").unwrap();
        bridge.arm().unwrap();
        event.wait();
        assert_eq!(poller.poll().unwrap(), 1);

        bridge.arm().unwrap();
        bridge.arm().unwrap();
        let writer = std::thread::spawn(move || {
            far.write_all(b"after").unwrap();
            far
        });
        event.wait();
        assert_eq!(poller.poll().unwrap(), 1);
        drop(writer.join().unwrap());
    }
}
