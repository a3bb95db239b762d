//! The few things of Linux that neither `std` nor glommio gives: an unsafe module.
//!
//! ```text
//! eventfd ──► a counter to sleep on              cpus   ──► which cores we may use, and take one
//! epoll   ──► which sockets are ready, for free  bridge ──► an epoll descriptor wakes an executor
//!                                                cpu_time ──► how long the thread has computed
//! ```
//!
//! Each file wraps one interface in a safe type that owns its descriptor; nothing here decides.

pub mod bridge;
pub(crate) mod cpu_time;
pub mod cpus;
pub mod epoll;
mod eventfd;

use std::io;

pub use eventfd::EventFd;

/// What a system call returned, or why it failed.
fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
