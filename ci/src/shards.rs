//! Data belongs to no core: `cargo ci shards` writes with 2 shards and reads with 1, 3 and 2 again.
//!
//! At each restart there are sstables and a log to re-deal: the servers are alternately stopped in
//! an orderly way, which flushes, and killed under load, which leaves the log to be replayed to
//! owners that did not write it.
//!
//! Invariants
//! 1. After each start every acknowledged write is there.
//! 2. No server ends by itself, under load or between two lives.

use std::thread;
use std::time::Duration;

use crate::load::{Load, Work};
use crate::repository::Repository;
use crate::server::{DataFolder, Server};
use crate::step::{Done, Log, Outcome};

/// The shards of each start, and whether it ends by kill -9.
const LIVES: [(u32, bool); 8] =
    [(2, false), (1, false), (3, false), (2, true), (1, true), (3, true), (2, false), (2, false)];
/// Load between two starts.
const LOAD_TIME: Duration = Duration::from_millis(700);

/// Lives through all restarts; each counts as one check.
pub(crate) fn run(repository: &Repository, log: &Log) -> Outcome {
    let folder = DataFolder::new(repository, "shards")?;
    let data = folder.join("data");
    let load = Load::new((repository, log), &folder, Work::Records);
    for (life, (shards, is_killed)) in (0..).zip(LIVES) {
        let mut server = Server::start(repository, &data, shards, log)?;
        server.wait_ready()?;
        match life {
            0 => load.fill(&server.address)?,
            _ => load.prove(&server.address).map(drop).map_err(|text| {
                format!("{text}\nlife {life}, {shards} shards; it said:\n{}", server.said())
            })?,
        }
        if is_killed {
            let before = load.journal_bytes();
            let working = load.work(&server.address, life)?;
            thread::sleep(LOAD_TIME);
            server.kill()?;
            working.end()?;
            if load.journal_bytes() <= before {
                return Err(
                    format!("life {life} was killed before a write was acknowledged").into()
                );
            }
        } else {
            server.stop()?;
        }
    }
    folder.discard()?;
    Ok(Done::Passed(LIVES.len() as u64 - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::fakes;

    #[test]
    fn a_server_that_dies_under_load_fails_the_step() {
        let (repository, log) = fakes::checkout("shards", fakes::SERVER, fakes::DEADLY_LOAD);
        let failure = run(&repository, &log).err().expect("the server died");
        assert!(failure.text.contains("the server ended by itself"), "{}", failure.text);
    }
}
