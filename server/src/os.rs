//! The few system calls that std does not wrap: listeners that share a port, who is at the other
//! end of a socket, limits, pages of memory.
//!
//! 1. `bind_listener`: a socket with SO_REUSEPORT for each shard. `start_listening` in the order of the shards: the
//!    kernel numbers the sockets of a port in that order.
//! 2. `steer` attaches a BPF program of three instructions to one socket, which counts for all sockets of the port: it
//!    loads the source port, divides by the number of listeners, and returns the rest as the number of the socket.
//! 3. The others are single calls: `peer_user` and `own_user` for the admin socket, `raise_open_files` and
//!    `disable_huge_pages` before the cores start.
//!
//! Not here: which ports there are, and the trial of `steer` at start (`listen.rs`); epoll, eventfd and the CPUs of a
//! process (`shard/src/os/`).
#![expect(unsafe_code, reason = "socket options and rlimits have no wrapper in std")]

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::limits::{KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_PROBES_MAX, LISTEN_BACKLOG};

/// Turns the -1 of a system call into the error it stands for.
fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Binds a listener that shares its port with the others bound so, and does not block. It refuses
/// connections until [`start_listening`].
pub(crate) fn bind_listener(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes three numbers.
    let fd = checked(unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: the kernel just made this descriptor for us; nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    set_option(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1i32)?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, &1i32)?;
    keep_alive(&socket)?;
    match address.ip() {
        IpAddr::V4(ip) => {
            let name = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(ip).to_be() },
                sin_zero: [0; 8],
            };
            bind(&socket, &name)?;
        }
        IpAddr::V6(ip) => {
            set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &1i32)?;
            let name = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: ip.octets() },
                sin6_scope_id: 0,
            };
            bind(&socket, &name)?;
        }
    }
    Ok(TcpListener::from(socket))
}

/// Has the kernel probe silent clients. Accepted sockets inherit these options (Linux, tcp(7)).
fn keep_alive(listener: &OwnedFd) -> io::Result<()> {
    let (idle_s, interval_s) =
        (KEEPALIVE_IDLE.as_secs() as i32, KEEPALIVE_INTERVAL.as_secs() as i32);
    set_option(listener, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &1i32)?;
    set_option(listener, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, &idle_s)?;
    set_option(listener, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, &interval_s)?;
    set_option(listener, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, &KEEPALIVE_PROBES_MAX)
}

/// Lets connections in. The order in which the listeners of a port start is the order in which
/// [`steer`] counts them.
pub(crate) fn start_listening(listener: &TcpListener) -> io::Result<()> {
    // SAFETY: takes two numbers.
    checked(unsafe { libc::listen(listener.as_raw_fd(), LISTEN_BACKLOG) }).map(drop)
}

/// Sends each new connection to the listener numbered `source port % listeners`, of all that share
/// the port of this one.
pub(crate) fn steer(one_of_them: &TcpListener, listeners: u32) -> io::Result<()> {
    /// Offsets from here on count from the network header.
    const FROM_NETWORK_HEADER: u32 = -0x10_0000_i32 as u32;
    let header_bytes = if one_of_them.local_addr()?.is_ipv6() { 40 } else { 20 };
    let step = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut program = [
        // The first two bytes behind the IP header are the source port.
        step(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, FROM_NETWORK_HEADER + header_bytes),
        step(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, listeners),
        step(libc::BPF_RET | libc::BPF_A, 0),
    ];
    let filter =
        libc::sock_fprog { len: program.len() as libc::c_ushort, filter: program.as_mut_ptr() };
    set_option(one_of_them, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &filter)
}

fn bind<T>(socket: &OwnedFd, name: &T) -> io::Result<()> {
    let bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: `name` is a socket address of that size, only read.
    checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const *name).cast(), bytes) }).map(drop)
}

fn set_option<T>(
    socket: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let bytes = size_of::<T>() as libc::socklen_t;
    let value = (&raw const *value).cast();
    // SAFETY: the kernel reads `bytes` of the value, and copies what the value points to.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, bytes) }).map(drop)
}

/// How many bytes the kernel holds of what a socket receives before it is read, about.
#[cfg(test)]
pub(crate) fn set_receive_buffer(socket: &impl AsRawFd, bytes: usize) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &(bytes as i32))
}

/// The user whose process connected, as the kernel saw it at that moment.
pub(crate) fn peer_user(stream: &UnixStream) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    let (value, length) = ((&raw mut peer).cast(), &raw mut bytes);
    // SAFETY: the kernel writes at most `bytes` bytes, one `ucred`.
    checked(unsafe { libc::getsockopt(stream.as_raw_fd(), level, name, value, length) })?;
    Ok(peer.uid)
}

/// The user this process acts as.
pub(crate) fn own_user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// The same stream, read and written by the executor of this thread.
pub(crate) fn into_runtime(stream: UnixStream) -> glommio::net::UnixStream {
    // SAFETY: the descriptor is ours, and moves into the stream, which closes it.
    unsafe { glommio::net::UnixStream::from_raw_fd(stream.into_raw_fd()) }
}

/// Raises the limit of open files to what we may have, and says what it is now.
pub(crate) fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one `rlimit`.
    checked(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the kernel reads one `rlimit`.
    checked(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })?;
    Ok(limit.rlim_cur)
}

/// Memory of this process comes in pages of 4 KiB from now on. The first touch of a huge page clears 2 MiB of it in the
/// middle of a write: 5 to 10 ms on a virtual machine whose host must find that memory first.
pub(crate) fn disable_huge_pages() -> io::Result<()> {
    // SAFETY: takes five numbers.
    checked(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_disabled_for_the_process() {
        disable_huge_pages().unwrap();
        // SAFETY: takes five numbers.
        let disabled = unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) };
        assert_eq!(disabled, 1);
    }

    #[test]
    fn accepted_connections_are_probed() {
        let listener = bind_listener("127.0.0.1:0".parse().unwrap()).unwrap();
        start_listening(&listener).unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        listener.set_nonblocking(false).unwrap();
        let (socket, _) = listener.accept().unwrap();
        let option = |level, name| {
            let (mut value, mut bytes) = (0i32, size_of::<i32>() as libc::socklen_t);
            let (at, length) = ((&raw mut value).cast(), &raw mut bytes);
            // SAFETY: the kernel writes at most `bytes` bytes, one `i32`.
            checked(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, at, length) })
                .unwrap();
            value
        };
        assert_eq!(option(libc::SOL_SOCKET, libc::SO_KEEPALIVE), 1);
        let idle_s = KEEPALIVE_IDLE.as_secs() as i32;
        assert_eq!(option(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE), idle_s);
        let interval_s = KEEPALIVE_INTERVAL.as_secs() as i32;
        assert_eq!(option(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL), interval_s);
        assert_eq!(option(libc::IPPROTO_TCP, libc::TCP_KEEPCNT), KEEPALIVE_PROBES_MAX);
    }

    #[test]
    fn the_peer_of_a_socket_is_known() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(peer_user(&one).unwrap(), own_user());
    }

    #[test]
    fn the_limit_of_open_files_is_told() {
        assert!(raise_open_files().unwrap() >= 256);
    }
}
