//! Which descriptors are ready: epoll.
//!
//! ```text
//! add(fd, key, interest) ──► poll(): one system call, no waiting ──► ready(): (key, readiness)
//!                            wait(timeout): the same, waiting
//!                            Watch::is_ready(): whether there is something, without taking it
//! ```
//!
//! A core asks once a pass; when it has nothing to do it waits here, or as a task of the executor, woken by
//! its [`Bridge`](super::bridge), which watches this descriptor, or by a job (`idle.rs` says when). Interest
//! is edge-triggered: after a read that filled less than its buffer nothing more is due until the kernel says
//! so again, and the kernel does not walk the connections that are merely still open. A reader that leaves
//! bytes behind must remember it.
//!
//! Keys are the caller's: a slot and a generation, so that an event of a closed connection is known.
#![expect(unsafe_code, reason = "epoll(7) has no wrapper in std")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use super::checked;
use crate::limits::POLL_EVENTS_MAX;

/// What to hear about. Errors and hang-ups are always heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Bytes or connections to take.
    Read,
    /// And space to write again after a full socket.
    ReadWrite,
}

impl Interest {
    fn flags(self) -> u32 {
        let read = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;
        let flags = match self {
            Interest::Read => read,
            Interest::ReadWrite => read | libc::EPOLLOUT,
        };
        flags as u32
    }
}

/// What became possible on one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The key the descriptor was added with.
    pub key: u64,
    /// A read will tell something: bytes, a connection, the end, or an error.
    pub readable: bool,
    /// The other side sends no more than what can be read now, and no event tells so again.
    pub has_ended: bool,
    /// A write may succeed.
    pub writable: bool,
}

/// A set of descriptors and their readiness.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
    /// The last look was a wait that found nothing.
    found_nothing: bool,
}

impl Poller {
    /// An empty set.
    pub fn new() -> io::Result<Poller> {
        // SAFETY: takes one number and no pointers.
        let fd = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the kernel just made this descriptor for us; nothing else owns it.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Poller { epoll, events: Vec::with_capacity(POLL_EVENTS_MAX), found_nothing: false })
    }

    /// Starts to report on `fd` under `key`.
    pub fn add(&self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, key, interest.flags())
    }

    /// Changes what is heard about `fd`, and reports again what is already so.
    pub fn modify(&self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, key, interest.flags())
    }

    /// Stops to report on `fd`. Closing the last descriptor of a file does the same.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
    }

    fn control(&self, op: i32, fd: BorrowedFd<'_>, key: u64, flags: u32) -> io::Result<()> {
        let mut event = libc::epoll_event { events: flags, u64: key };
        // SAFETY: both descriptors are open while borrowed, and the kernel copies the event.
        let result =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), op, fd.as_raw_fd(), &mut event) };
        checked(result).map(drop)
    }

    /// Looks once, without waiting, and says how many descriptors became ready. Those not taken
    /// from [`ready`](Self::ready) since the last call are forgotten. The first call after a
    /// [`wait`](Self::wait) that found nothing saves the system call.
    pub fn poll(&mut self) -> io::Result<usize> {
        match std::mem::take(&mut self.found_nothing) {
            true => Ok(0),
            false => self.poll_kernel(0),
        }
    }

    /// The same, waiting until something is ready or a signal comes, and `timeout` at most: rounded
    /// up to whole milliseconds.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let timeout_ms = timeout.map(|timeout| timeout.as_nanos().div_ceil(1_000_000));
        let count =
            self.poll_kernel(timeout_ms.map_or(-1, |ms| i32::try_from(ms).unwrap_or(i32::MAX)))?;
        self.found_nothing = count == 0;
        Ok(count)
    }

    fn poll_kernel(&mut self, timeout_ms: i32) -> io::Result<usize> {
        self.events.clear();
        let space = self.events.spare_capacity_mut();
        let (events, space) = (space.as_mut_ptr().cast(), space.len() as libc::c_int);
        // SAFETY: the kernel writes at most `space` events to the spare capacity we own.
        let count = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events, space, timeout_ms) };
        let count = match checked(count) {
            Ok(count) => count as usize,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        // SAFETY: the kernel has filled the first `count` of them.
        unsafe { self.events.set_len(count) };
        Ok(count)
    }

    /// What the last look found, and not again.
    pub fn ready(&mut self) -> impl Iterator<Item = Ready> + '_ {
        const ALWAYS: i32 = libc::EPOLLERR | libc::EPOLLHUP;
        self.events.drain(..).map(|event| {
            let has = |flags: i32| event.events & (flags as u32) != 0;
            Ready {
                key: event.u64,
                readable: has(libc::EPOLLIN | libc::EPOLLRDHUP | ALWAYS),
                has_ended: has(libc::EPOLLRDHUP | ALWAYS),
                writable: has(libc::EPOLLOUT | ALWAYS),
            }
        })
    }

    /// Whether the last look found something that was not taken yet.
    pub fn has_ready(&self) -> bool {
        !self.events.is_empty()
    }
}

/// Tells whether a [`Poller`] would find something, and takes nothing from it.
pub struct Watch(OwnedFd);

impl Watch {
    /// Watches the set of `poller`.
    pub fn of(poller: &Poller) -> io::Result<Watch> {
        Ok(Watch(poller.epoll.try_clone()?))
    }

    /// Whether a descriptor of the set became ready that no look has found. A system call.
    pub fn is_ready(&self) -> bool {
        let mut asked = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // An error counts as ready: the look that follows tells it.
        // SAFETY: the kernel writes one `pollfd`, which is ours.
        unsafe { libc::poll(&raw mut asked, 1, 0) != 0 }
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn looked(poller: &mut Poller) -> Vec<Ready> {
        poller.poll().unwrap();
        poller.ready().collect()
    }

    /// Bytes are reported once, and again when more arrive.
    #[test]
    fn reads_are_reported_at_the_edge() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(near.as_fd(), 7, Interest::Read).unwrap();
        assert_eq!(looked(&mut poller), []);
        far.write_all(b"ab").unwrap();
        let ready = Ready { key: 7, readable: true, has_ended: false, writable: false };
        assert_eq!(looked(&mut poller), [ready]);
        assert_eq!(looked(&mut poller), [], "still unread, yet not a new edge");
        far.write_all(b"c").unwrap();
        assert_eq!(looked(&mut poller).len(), 1);
        assert_eq!(near.read(&mut [0; 8]).unwrap(), 3);
        drop(far);
        let at_end = looked(&mut poller)[0];
        assert!(at_end.readable && at_end.has_ended, "the end is something to read");
        poller.remove(near.as_fd()).unwrap();
        assert_eq!(looked(&mut poller), []);
    }

    /// A watch sees what a look will find, and leaves it there.
    #[test]
    fn a_watch_takes_nothing() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut poller = Poller::new().unwrap();
        let watch = Watch::of(&poller).unwrap();
        poller.add(near.as_fd(), 7, Interest::Read).unwrap();
        assert!(!watch.is_ready());
        far.write_all(b"a").unwrap();
        assert!(watch.is_ready() && watch.is_ready());
        assert_eq!(looked(&mut poller).len(), 1);
        assert!(!watch.is_ready(), "still unread, yet not a new edge");
    }

    /// Asking for space to write reports it at once when there is some.
    #[test]
    fn modify_reports_anew() {
        let (near, _far) = UnixStream::pair().unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(near.as_fd(), 1, Interest::Read).unwrap();
        poller.modify(near.as_fd(), 2, Interest::ReadWrite).unwrap();
        let ready = Ready { key: 2, readable: false, has_ended: false, writable: true };
        assert_eq!(looked(&mut poller), [ready]);
    }
    /// What comes after a wait without events is seen by the second look, and by every wait.
    #[test]
    fn a_look_after_a_wait_that_found_nothing_is_saved() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(near.as_fd(), 7, Interest::Read).unwrap();
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap(), 0);
        far.write_all(b"a").unwrap();
        assert_eq!(poller.poll().unwrap(), 0, "no system call");
        assert_eq!(poller.poll().unwrap(), 1);
        far.write_all(b"b").unwrap();
        assert_eq!(poller.wait(None).unwrap(), 1);
        assert_eq!(poller.ready().count(), 1);
        far.write_all(b"c").unwrap();
        assert_eq!(poller.poll().unwrap(), 1, "that wait had found something");
    }
}
