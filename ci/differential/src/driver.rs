//! Many worlds at once over a few connections: each connection has a thread, each world a stream.
//!
//! ```text
//! connection ─┬─ stream 0: world 7, then world 11, ..      send what the world wishes ─► answer ─► the world judges it
//!             └─ stream 1: world 9, then world 13, ..      a world that is over makes its place free for the next seed
//! ```
//!
//! The first mismatch ends the run, and so does the first error. If both come, the mismatch is reported, since the
//! server may have died of the same defect.
//!
//! Invariants
//! 1. Worlds know nothing of each other, and the seed of a world decides its steps and its protocol version, so that
//!    any of them can be lived again alone.
//! 2. A connection speaks one protocol version, and takes every second seed: the seeds of its version.
//! 3. New worlds begin until enough statements are compared; those that are under way end first.
//!
//! Not here: a world's steps (`world.rs`), a shorter history of a mismatch (`shrink.rs`), the arguments (`main.rs`).

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use cql::frame::Version;

use crate::connection::Connection;
use crate::generate::{Abilities, STEPS_MIN};
use crate::prepared::Preparations;
use crate::world::{Mismatch, Wish, World};

/// What a run is to do.
pub(crate) struct Plan {
    /// `host:port` of the server.
    pub(crate) address: String,
    /// The admin socket, if the server is a Messina of this machine.
    pub(crate) admin: Option<PathBuf>,
    /// The server is an Apache Cassandra: its own defects are passed over.
    pub(crate) is_cassandra: bool,
    /// The first world; the others have the numbers behind it.
    pub(crate) seed: u64,
    /// Statements at least.
    pub(crate) operations: u64,
    pub(crate) connections: usize,
    /// Worlds of a connection at a time.
    pub(crate) worlds: usize,
}

impl Plan {
    /// What the server can do.
    pub(crate) fn abilities(&self) -> Abilities {
        Abilities { has_admin: self.admin.is_some(), is_cassandra: self.is_cassandra }
    }
}

/// What was done.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) worlds: AtomicU64,
    /// Statements whose answers were compared.
    pub(crate) operations: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) flushes: AtomicU64,
    /// Errors of Apache Cassandra's own.
    pub(crate) forgiven: AtomicU64,
    pub(crate) preparations: Preparations,
}

/// A world that was answered wrongly.
pub(crate) struct Failed {
    pub(crate) world: World,
    pub(crate) mismatch: Mismatch,
    /// Why a connection could not go on, if one could not: maybe by the same defect.
    pub(crate) error: Option<String>,
}

struct Run<'a> {
    plan: &'a Plan,
    tally: &'a Tally,
    connections: usize,
    /// Worlds of a connection at a time.
    worlds: usize,
    /// The next seeds for connections with an even number, and for those with an odd one.
    next_seeds: [AtomicU64; 2],
    is_over: AtomicBool,
    failed: Mutex<Option<Failed>>,
}

/// The protocol version of a world: a part of what its seed means.
pub(crate) fn version_of(seed: u64) -> Version {
    if seed.is_multiple_of(2) { Version::V5 } else { Version::V4 }
}

/// Lives worlds until so many statements are done, or one is answered wrongly.
pub(crate) fn run(plan: &Plan, tally: &Tally) -> Result<Option<Failed>, String> {
    let run = Run::new(plan, tally);
    let ended: Vec<Result<(), String>> = thread::scope(|scope| {
        let start = |number| {
            let run = &run;
            scope.spawn(move || {
                let ended = run.connection(number);
                if ended.is_err() {
                    run.is_over.store(true, Ordering::Relaxed);
                }
                ended
            })
        };
        let threads: Vec<_> = (0..run.connections).map(start).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<(), String>>| {
            thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))
        };
        threads.into_iter().map(join).collect()
    });
    let failed = run.failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    outcome(failed, ended.into_iter().collect())
}

/// The wrong answer, if there is one, with the error that came beside it.
fn outcome(failed: Option<Failed>, ended: Result<(), String>) -> Result<Option<Failed>, String> {
    match failed {
        Some(failed) => Ok(Some(Failed { error: ended.err(), ..failed })),
        None => ended.map(|()| None),
    }
}

/// Connects, and uses the keyspace.
pub(crate) fn connect(plan: &Plan, version: Version) -> Result<Connection, String> {
    let mut connection = Connection::open(&plan.address, version)?;
    connection.must(&format!("USE {}", crate::KEYSPACE))?;
    Ok(connection)
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan, tally: &'a Tally) -> Run<'a> {
        // A few statements are done by few worlds: one statement by the world of the first seed alone.
        let needed = plan.operations.div_ceil(STEPS_MIN as u64).max(1);
        let needed = usize::try_from(needed).unwrap_or(usize::MAX);
        let connections = plan.connections.min(needed);
        Run {
            plan,
            tally,
            connections,
            worlds: plan.worlds.min(needed.div_ceil(connections.max(1))),
            next_seeds: [plan.seed, plan.seed.wrapping_add(1)].map(AtomicU64::new),
            is_over: AtomicBool::new(false),
            failed: Mutex::new(None),
        }
    }

    /// The protocol version of a connection, which is that of each world on it.
    fn version(&self, number: usize) -> Version {
        version_of(self.plan.seed.wrapping_add(number as u64))
    }

    fn connection(&self, number: usize) -> Result<(), String> {
        let mut connection = connect(self.plan, self.version(number))?;
        let mut worlds: Vec<Option<World>> = Vec::new();
        for slot in 0..self.worlds {
            worlds.push(None);
            self.send(&mut worlds[slot], &mut connection, (number, slot))?;
        }
        while worlds.iter().any(Option::is_some) && !self.is_over.load(Ordering::Relaxed) {
            let (slot, answered) = connection.next(|stream, reply| {
                let slot = usize::try_from(stream).unwrap_or(usize::MAX);
                let world = worlds.get_mut(slot).and_then(Option::as_mut);
                let world =
                    world.ok_or_else(|| format!("an answer to stream {stream}: {reply:?}"))?;
                Ok::<_, String>((slot, world.answered(reply, &self.tally.preparations)))
            })??;
            if let Err(mismatch) = answered {
                self.fail(worlds[slot].take(), *mismatch);
                return Ok(());
            }
            self.send(&mut worlds[slot], &mut connection, (number, slot))?;
        }
        Ok(())
    }

    /// Sends the next request of a world, or of the next world where this one's life is over, on the stream of a
    /// connection with this number.
    fn send(
        &self,
        slot: &mut Option<World>,
        connection: &mut Connection,
        (number, stream): (usize, usize),
    ) -> Result<(), String> {
        loop {
            let Some(world) = slot else {
                *slot = self.begin(number);
                if slot.is_none() {
                    return Ok(());
                }
                continue;
            };
            match world.advance() {
                Wish::Request => {
                    let stream = i16::try_from(stream).map_err(|error| error.to_string())?;
                    connection.ask(&world.request(), stream);
                    return Ok(());
                }
                Wish::Admin(line) => {
                    self.tally.flushes.fetch_add(1, Ordering::Relaxed);
                    admin(self.plan.admin.as_deref(), &line)?;
                }
                Wish::Nothing => {
                    self.tally.worlds.fetch_add(1, Ordering::Relaxed);
                    self.tally.operations.fetch_add(world.compared, Ordering::Relaxed);
                    self.tally.reads.fetch_add(world.reads(), Ordering::Relaxed);
                    self.tally.forgiven.fetch_add(world.forgiven, Ordering::Relaxed);
                    *slot = None;
                }
            }
        }
    }

    /// The next world of a connection, if statements are left to do.
    fn begin(&self, number: usize) -> Option<World> {
        // What is under way comes to it.
        if self.tally.operations.load(Ordering::Relaxed) >= self.plan.operations {
            return None;
        }
        // Each has every second seed, so that all its worlds have its protocol version.
        let seed = self.next_seeds[number % 2].fetch_add(2, Ordering::Relaxed);
        Some(World::drawn(seed, format!("w{seed}"), self.plan.abilities()))
    }

    fn fail(&self, world: Option<World>, mismatch: Mismatch) {
        self.is_over.store(true, Ordering::Relaxed);
        let mut failed = self.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let (Some(world), None) = (world, failed.as_ref()) {
            *failed = Some(Failed { world, mismatch, error: None });
        }
    }
}

/// Has a line done by the server: its answer ends with `ok`.
pub(crate) fn admin(socket: Option<&Path>, line: &str) -> Result<(), String> {
    let Some(socket) = socket else { return Ok(()) };
    let told = |error: std::io::Error| format!("{}: {error}", socket.display());
    let mut stream = UnixStream::connect(socket).map_err(told)?;
    stream.write_all(line.as_bytes()).map_err(told)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(told)?;
    match answer.lines().last() == Some("ok") {
        true => Ok(()),
        false => Err(format!("{line}: {answer}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seed: u64, operations: u64) -> Plan {
        Plan {
            address: String::new(),
            admin: None,
            is_cassandra: false,
            seed,
            operations,
            connections: 2,
            worlds: 32,
        }
    }

    /// Before: the version hung on the connection that came first, and a wrong answer in v5 alone was not met again.
    #[test]
    fn each_seed_is_lived_in_one_protocol_version() {
        for seed in [6, 7, u64::MAX] {
            let (plan, tally) = (plan(seed, 1_000_000), Tally::default());
            let run = Run::new(&plan, &tally);
            let mut seeds = Vec::new();
            for number in [0, 1, 0, 1, 1] {
                let world = run.begin(number).unwrap();
                assert_eq!(run.version(number), version_of(world.seed));
                seeds.push(world.seed.wrapping_sub(seed));
            }
            assert_eq!(seeds, [0, 1, 2, 3, 5]);
            assert_ne!(run.version(0), run.version(1), "both versions are spoken");
        }
    }

    /// Before: it began 64 worlds, and which of them failed first was chance.
    #[test]
    fn one_operation_is_one_world() {
        let tally = Tally::default();
        let (one, many) = (plan(7, 1), plan(7, 1_000_000));
        let run = Run::new(&one, &tally);
        assert_eq!((run.connections, run.worlds), (1, 1));
        assert_eq!(run.begin(0).unwrap().seed, 7);
        let run = Run::new(&many, &tally);
        assert_eq!((run.connections, run.worlds), (2, 32));
    }

    /// Before: the server that had answered wrongly died, and only its end was told.
    #[test]
    fn a_wrong_answer_is_told_though_a_connection_failed() {
        let plan = plan(7, 1);
        let failed = || {
            let world = World::drawn(7, "w7".to_owned(), plan.abilities());
            let (statement, expected, got) = Default::default();
            Failed { world, mismatch: Mismatch { statement, expected, got }, error: None }
        };
        let gone = || Err("gone".to_owned());
        let told = outcome(Some(failed()), gone()).unwrap().unwrap();
        assert_eq!((told.world.seed, told.error.as_deref()), (7, Some("gone")));
        assert_eq!(outcome(Some(failed()), Ok(())).unwrap().unwrap().error, None);
        assert_eq!(outcome(None, gone()).err().as_deref(), Some("gone"));
        assert!(outcome(None, Ok(())).unwrap().is_none());
    }
}
