//! kill -9 under load, again and again: `cargo ci kill9 --cycles N`.
//!
//! 1. `messina-load` works with `--verify` and notes every acknowledged write in a journal.
//! 2. The server is killed at a random moment, with flushes and compactions under way.
//! 3. In every third cycle it is started and killed again while it recovers, up to three times.
//! 4. It is started, and every acknowledged write, or a newer one of its key, must be there, whole.
//! 5. The number of shards changes now and then, so that recovery also deals logs to new owners.
//!
//! Invariant: all that varies comes from one seed, which a failure prints. The kernel's scheduling
//! does not, so a seed repeats the moments, not the outcome.
//!
//! Not here: power cuts. The page cache outlives the process; the simulator takes it away.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, SystemTime};

use crate::load::{Load, Working};
use crate::repository::Repository;
use crate::server::{DataFolder, Server};
use crate::step::{Done, Failure, Log, Outcome};

/// Under load for at least this long, and at most so much longer.
const LOAD_MIN_MS: u64 = 100;
const LOAD_SPREAD_MS: u64 = 1500;
/// A recovery takes tens of milliseconds; later than this it is over.
const RECOVERY_SPREAD_MS: u64 = 150;
/// Kills during recovery, at most, in a cycle that has any.
const RECOVERY_KILLS_MAX: u64 = 3;
/// One cycle in so many has kills during recovery, and one has another number of shards.
const RECOVERY_CYCLES: u64 = 3;
const SHARDS_CYCLES: u64 = 5;
const SHARDS_MAX: u64 = 3;
/// After so many cycles memtables must have been flushed.
const FLUSHED_CYCLES: u64 = 10;

/// A cheap generator: splitmix64.
struct Dice {
    state: u64,
}

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// A data folder that lives through crashes.
struct Victim<'a> {
    repository: &'a Repository,
    data: PathBuf,
    shards: u32,
    log: &'a Log,
    dice: Dice,
}

/// Runs the cycles; each counts as one check.
pub(crate) fn run(repository: &Repository, cycles: u64, seed: Option<u64>, log: &Log) -> Outcome {
    let seed = seed.unwrap_or_else(new_seed);
    log.note(&format!("seed {seed}"));
    let folder = DataFolder::new(repository, "kill9")?;
    let journal = folder.join("acknowledged");
    let load = Load { repository, journal: &journal, log };
    let dice = Dice { state: seed };
    let mut victim = Victim { repository, data: folder.join("data"), shards: 2, log, dice };
    let server = victim.start()?;
    load.fill(&server.address)?;
    let mut server = Some(server);
    for cycle in 0..cycles {
        let running = server.take().expect("the cycle before left a server");
        match victim.cycle(running, &load, cycle) {
            Ok(next) => server = Some(next),
            Err(text) => {
                let text = format!("{text}\ncycle {cycle} of seed {seed}");
                return Err(Failure { text, passed: cycle, failed: 1 });
            }
        }
    }
    server.take().expect("the last cycle left a server").kill();
    // Without one, nothing was ever flushed, and the kills proved less than they should.
    if cycles >= FLUSHED_CYCLES && !folder.has_file(".sst") {
        return Err(Failure::from(format!("no memtable was flushed in {cycles} cycles")));
    }
    folder.discard()?;
    Ok(Done::Passed(cycles))
}

fn new_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.expect("the clock is past 1970").as_millis() as u64
}

impl Victim<'_> {
    fn spawn(&self) -> Result<Server, String> {
        Server::start(self.repository, &self.data, self.shards, self.log)
    }

    fn start(&self) -> Result<Server, String> {
        let mut server = self.spawn()?;
        server.wait_ready()?;
        Ok(server)
    }

    /// One life: load, death, perhaps deaths in recovery, and the proof.
    fn cycle(&mut self, server: Server, load: &Load<'_>, cycle: u64) -> Result<Server, String> {
        let mut working = load.work(&server.address, cycle)?;
        let moment_ms = LOAD_MIN_MS + self.dice.below(LOAD_SPREAD_MS);
        thread::sleep(Duration::from_millis(moment_ms));
        self.log.note(&format!("cycle {cycle}: kill -9 after {moment_ms} ms of load"));
        self.kill(server, Some(&mut working))?;
        working.end()?;
        if self.dice.below(SHARDS_CYCLES) == 0 {
            self.shards = 1 + self.dice.below(SHARDS_MAX) as u32;
        }
        if self.dice.below(RECOVERY_CYCLES) == 0 {
            for _ in 0..=self.dice.below(RECOVERY_KILLS_MAX) {
                let server = self.spawn()?;
                let moment_ms = self.dice.below(RECOVERY_SPREAD_MS);
                thread::sleep(Duration::from_millis(moment_ms));
                self.log.note(&format!("cycle {cycle}: kill -9 {moment_ms} ms into recovery"));
                self.kill(server, None)?;
            }
        }
        let server = self.start()?;
        if let Err(text) = load.prove(&server.address) {
            return Err(format!("{text}\nthe server said:\n{}", server.said()));
        }
        Ok(server)
    }

    /// Kills a server that must still be there; so must its load.
    fn kill(&self, server: Server, working: Option<&mut Working>) -> Result<(), String> {
        if let Some(status) = working.and_then(Working::ended) {
            return Err(format!("messina-load ended before the kill: {status}"));
        }
        let said = server.said();
        match server.kill() {
            None => Ok(()),
            Some(status) => Err(format!("{said}\nthe server ended by itself: {status}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_moments() {
        let draw = |seed| {
            let mut dice = Dice { state: seed };
            (0..100).map(|_| dice.below(LOAD_SPREAD_MS)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!(draw(7).iter().all(|&moment| moment < LOAD_SPREAD_MS));
        assert!(draw(7).iter().max() > Some(&(LOAD_SPREAD_MS * 9 / 10)));
    }
}
