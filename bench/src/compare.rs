//! Servers side by side: the same work, from the same clients, in one run on one machine.
//!
//! ```text
//! for each contender:  start ─► load ─► each work: warm up, measure, count syscalls ─► open loop ─► stop
//! ```
//!
//! CPU is what the kernel charges to the server's process while the work runs; system calls are
//! counted by `perf` in a run of their own, because counting them costs time. Times of one run
//! compare with each other only, and only without steal (`steal.rs`): with it a measurement is made again.

pub mod contender;
pub mod picture;
pub mod redis;
pub mod steal;
pub mod table;
pub mod work;

use std::fmt;
use std::process::{Command, Output};

/// Why a comparison cannot go on.
#[derive(Debug)]
pub struct Failed(pub String);

/// The result of everything fallible here.
pub type Result<T> = std::result::Result<T, Failed>;

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

impl Failed {
    /// An I/O error together with what was being done.
    pub fn io(doing: impl fmt::Display) -> impl FnOnce(std::io::Error) -> Failed {
        move |error| Failed(format!("{doing}: {error}"))
    }
}

/// Runs a command to its end; it must succeed.
pub fn run_to_end(command: &mut Command) -> Result<Output> {
    let output = command.output().map_err(Failed::io(format!("running {command:?}")))?;
    if output.status.success() {
        return Ok(output);
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(Failed(format!("{command:?} ended with {}: {}", output.status, words.trim())))
}
