//! The server: CQL on every core.
//!
//! ```text
//! node      ──► the process: cores start, serve, stop      config, checks, banner, signals, log
//! pass      ──► one core's clients, over and over          connection(s), listen, load, os
//! service   ──► the seam between sockets and execution     session
//! execute   ──► requests to answers                        prepared, ids, system
//! admin     ──► what an operator asks over a socket in the data directory
//! manual    ──► the same execution without sockets, on the simulated disk: tests and `cost`
//! ```

mod admin;
mod answers;
mod banner;
mod checks;
mod config;
mod connection;
mod connections;
mod execute;
mod guardrails;
mod ids;
mod limits;
mod listen;
mod load;
mod log;
pub mod manual;
mod node;
mod orphans;
mod os;
mod pass;
#[cfg(feature = "planted")]
mod planted;
mod prepared;
mod replies;
mod seal;
mod service;
mod session;
mod signals;
mod statements;
mod system;
mod time_slice;
mod timeouts;
mod transport;
mod unanswered;

/// Runs the server until it is told to stop. The exit status of the process: 0, or 1 after an error,
/// which was said.
pub fn main() -> i32 {
    log::start();
    abort_on_panic();
    match start() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("messina: {error}");
            1
        }
    }
}

/// A panic on any thread ends the process, also in a build that unwinds (the checks make one: `ci/src/repository.rs`).
/// Were only one core gone, its clients would wait for ever.
fn abort_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort()
    }));
}

fn start() -> Result<(), String> {
    let config::Loaded { mut config, mut warnings } = config::load()?;
    checks::run(&mut config, &mut warnings)?;
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    node::run(&config)
}
