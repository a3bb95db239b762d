//! The few system calls that the standard library does not wrap.
//!
//! Readiness of many sockets with a timeout in nanoseconds (`epoll_pwait2`), a socket bound to a chosen source port
//! before it connects (how a client reaches a shard), the placement of a thread, and the slack of its timers.
//! Everything else goes through `std`.
//!
//! Invariants
//! 1. A descriptor is owned from the line after it was made, so that it is closed on every way out.
//! 2. A socket is always watched for input, and for space to write only where the caller wants it: with space it would
//!    be ready all the time.
//! 3. A connect ends in time: the kernel honours the time limit for sending (`SO_SNDTIMEO`) in a connect, too.
//!
//! Not here: which ports are tried (`client/handshake.rs`), bytes and frames (`client/link.rs`).

#![expect(unsafe_code, reason = "libc calls that std does not wrap; each is one call long")]

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::error::{Error, Result};

/// Sockets that one wait reports at most; the rest come with the next.
const EVENTS_MAX: usize = 256;
/// How late a timer may fire, so that the kernel can batch wake-ups: its default is 50 µs.
const TIMER_SLACK_NS: libc::c_ulong = 1_000;

/// Waits for many sockets at once.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

/// A socket that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The number it was added under.
    pub index: usize,
    /// There is something to read, or the connection is over.
    pub readable: bool,
    /// The socket takes more bytes.
    pub writable: bool,
}

impl Poller {
    /// A poller of nothing yet.
    pub fn new() -> Result<Poller> {
        // SAFETY: no pointers are involved.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        let fd = check(fd).map_err(Error::io("creating a poller"))?;
        // SAFETY: the descriptor was made just now and has no other owner.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        let none = libc::epoll_event { events: 0, u64: 0 };
        Ok(Poller { epoll, events: vec![none; EVENTS_MAX] })
    }

    /// Watches `socket` for input, under the number `index`; forgotten when the socket is closed.
    pub fn add(&self, socket: &impl AsRawFd, index: usize) -> Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket.as_raw_fd(), index, libc::EPOLLIN)
    }

    /// Starts or stops watching for the moment when the socket takes more bytes.
    pub fn watch_writable(&self, socket: &impl AsRawFd, index: usize, wanted: bool) -> Result<()> {
        let out = if wanted { libc::EPOLLOUT } else { 0 };
        self.control(libc::EPOLL_CTL_MOD, socket.as_raw_fd(), index, libc::EPOLLIN | out)
    }

    fn control(&self, verb: i32, socket: RawFd, index: usize, interest: i32) -> Result<()> {
        let mut event = libc::epoll_event { events: interest as u32, u64: index as u64 };
        // SAFETY: `event` outlives the call, and both descriptors are open.
        let code = unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), verb, socket, &mut event) };
        check(code).map(|_| ()).map_err(Error::io("watching a socket"))
    }

    /// Waits at most `timeout` and calls `each` for every socket that is ready.
    pub fn wait(&mut self, timeout: Duration, mut each: impl FnMut(Ready)) -> Result<()> {
        let timeout = libc::timespec {
            tv_sec: timeout.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
        };
        // SAFETY: the buffer holds EVENTS_MAX events and, like the timeout, outlives the
        // call; no signal mask is given.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                EVENTS_MAX as libc::c_int,
                &raw const timeout,
                std::ptr::null::<libc::sigset_t>(),
                size_of::<u64>(),
            )
        };
        let count = match check(count as i32) {
            Ok(count) => count as usize,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(Error::io("waiting for sockets")(error)),
        };
        for event in &self.events[..count] {
            let bits = event.events as i32;
            each(Ready {
                index: event.u64 as usize,
                readable: bits & (libc::EPOLLIN | libc::EPOLLERR | libc::EPOLLHUP) != 0,
                writable: bits & libc::EPOLLOUT != 0,
            });
        }
        Ok(())
    }
}

/// Connects to `address` from the local port `source_port`, within `timeout`.
pub fn connect_from(
    address: SocketAddr,
    source_port: u16,
    timeout: Duration,
) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no pointers are involved.
    let fd = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    let fd = check(fd)?;
    // SAFETY: the descriptor was made just now and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let yes: libc::c_int = 1;
    set_option(fd, libc::SO_REUSEADDR, &yes)?;
    // A connect honours it, too. A time of zero would be for ever.
    let timeout = timeout.max(Duration::from_millis(1));
    let timeout = libc::timeval {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_usec: libc::suseconds_t::from(timeout.subsec_micros() as i32),
    };
    set_option(fd, libc::SO_SNDTIMEO, &timeout)?;
    let local = match address {
        SocketAddr::V4(_) => SocketAddr::from(([0, 0, 0, 0], source_port)),
        SocketAddr::V6(_) => SocketAddr::from(([0u16; 8], source_port)),
    };
    let (storage, length) = raw_address(local);
    // SAFETY: `storage` holds an address of `length` bytes of the socket's family.
    let code = unsafe { libc::bind(fd, (&raw const storage).cast(), length) };
    check(code)?;
    let (storage, length) = raw_address(address);
    // SAFETY: as above.
    let code = unsafe { libc::connect(fd, (&raw const storage).cast(), length) };
    check(code).map_err(|error| match error.raw_os_error() {
        Some(libc::EINPROGRESS) => io::ErrorKind::TimedOut.into(),
        _ => error,
    })?;
    Ok(TcpStream::from(socket))
}

/// Sets an option of a socket, whose value is a `T` of the C library.
fn set_option<T: Copy>(fd: RawFd, name: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the option's value is plain data of the size that is given, and outlives the call.
    let code = unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    check(code).map(drop)
}

/// An address as the kernel wants it.
fn raw_address(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: a sockaddr_storage of zeroes is valid.
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    let length = match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is large enough and aligned for every address family.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(raw) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(raw) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, length as libc::socklen_t)
}

/// Ties this thread to one core.
pub fn pin_to_core(core: usize) -> Result<()> {
    const WORDS: usize = size_of::<libc::cpu_set_t>() / size_of::<u64>();
    let mut mask = [0u64; WORDS];
    let Some(word) = mask.get_mut(core / 64) else {
        return Err(Error::Invalid(format!("there is no core {core}")));
    };
    *word = 1 << (core % 64);
    // SAFETY: the mask is as large as a cpu_set_t and outlives the call; 0 is this thread.
    let code =
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), mask.as_ptr().cast()) };
    check(code).map(|_| ()).map_err(Error::io(format!("pinning a thread to core {core}")))
}

/// Makes the timers of this thread exact, which an open loop's schedule needs.
pub fn sharpen_timers() {
    // SAFETY: this option takes a number, no pointer. It cannot fail for the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, TIMER_SLACK_NS) };
}

fn check(code: i32) -> io::Result<i32> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(code) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_connection_comes_from_the_port_it_was_bound_to_and_is_polled() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let probe = TcpListener::bind("127.0.0.1:0").unwrap();
        let source_port = probe.local_addr().unwrap().port();
        drop(probe);
        let client = connect_from(address, source_port, Duration::from_secs(10)).unwrap();
        let (mut server, peer) = listener.accept().unwrap();
        assert_eq!(peer.port(), source_port);

        let mut poller = Poller::new().unwrap();
        poller.add(&client, 7).unwrap();
        let mut ready = Vec::new();
        poller.wait(Duration::ZERO, |r| ready.push(r)).unwrap();
        assert_eq!(ready, []);
        server.write_all(b"x").unwrap();
        poller.wait(Duration::from_secs(10), |r| ready.push(r)).unwrap();
        assert_eq!(ready, [Ready { index: 7, readable: true, writable: false }]);
        poller.watch_writable(&client, 7, true).unwrap();
        poller.wait(Duration::from_secs(10), |r| ready.push(r)).unwrap();
        assert!(ready[1].writable);
    }

    /// Before: a connection to a port where packets are dropped took two minutes.
    #[test]
    fn a_connection_that_is_not_answered_ends_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // SAFETY: no pointers are involved, and the descriptor is open. The queue gets as short as can be.
        check(unsafe { libc::listen(listener.as_raw_fd(), 0) }).unwrap();
        let timeout = Duration::from_millis(200);
        let mut waiting = Vec::new();
        // Once the queue is full, the kernel drops what else comes.
        let error = loop {
            assert!(waiting.len() < 100, "the queue is never full");
            match connect_from(address, 0, timeout) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_core_that_cannot_be_is_refused() {
        assert!(pin_to_core(1 << 20).is_err());
    }
}
