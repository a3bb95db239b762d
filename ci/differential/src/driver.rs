//! Many worlds at once over a few connections: each connection has a thread, each world a stream.
//!
//! The first mismatch ends the run. Invariant: worlds know nothing of each other, so that any of them can be lived
//! again alone.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use cql::frame::Version;

use crate::connection::Connection;
use crate::generate::Abilities;
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
}

/// A world that was answered wrongly.
pub(crate) struct Failed {
    pub(crate) world: World,
    pub(crate) mismatch: Mismatch,
}

struct Run<'a> {
    plan: &'a Plan,
    tally: &'a Tally,
    next_seed: AtomicU64,
    is_over: AtomicBool,
    failed: Mutex<Option<Failed>>,
}

/// Lives worlds until so many statements are done, or one is answered wrongly.
pub(crate) fn run(plan: &Plan, tally: &Tally) -> Result<Option<Failed>, String> {
    let run = Run {
        plan,
        tally,
        next_seed: AtomicU64::new(plan.seed),
        is_over: AtomicBool::new(false),
        failed: Mutex::new(None),
    };
    let ended = thread::scope(|scope| {
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
        let threads: Vec<_> = (0..plan.connections).map(start).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().map_err(|_| "a thread panicked")?
        };
        threads.into_iter().map(join).collect::<Result<Vec<()>, String>>()
    });
    ended?;
    Ok(run.failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// Connects, and uses the keyspace.
pub(crate) fn connect(plan: &Plan, version: Version) -> Result<Connection, String> {
    let mut connection = Connection::open(&plan.address, version)?;
    connection.must(&format!("USE {}", crate::KEYSPACE))?;
    Ok(connection)
}

impl Run<'_> {
    fn connection(&self, number: usize) -> Result<(), String> {
        let version = if number.is_multiple_of(2) { Version::V5 } else { Version::V4 };
        let mut connection = connect(self.plan, version)?;
        let mut worlds: Vec<Option<World>> = Vec::new();
        for slot in 0..self.plan.worlds {
            worlds.push(None);
            self.send(&mut worlds[slot], &mut connection, slot)?;
        }
        while worlds.iter().any(Option::is_some) && !self.is_over.load(Ordering::Relaxed) {
            let (slot, answered) = connection.next(|stream, reply| {
                let slot = usize::try_from(stream).unwrap_or(usize::MAX);
                let world = worlds.get_mut(slot).and_then(Option::as_mut);
                let world =
                    world.ok_or_else(|| format!("an answer to stream {stream}: {reply:?}"))?;
                Ok::<_, String>((slot, world.answered(reply)))
            })??;
            if let Err(mismatch) = answered {
                self.fail(worlds[slot].take(), *mismatch);
                return Ok(());
            }
            self.send(&mut worlds[slot], &mut connection, slot)?;
        }
        Ok(())
    }

    /// Sends the next request of a world, or of the next world where this one's life is over.
    fn send(
        &self,
        slot: &mut Option<World>,
        connection: &mut Connection,
        stream: usize,
    ) -> Result<(), String> {
        loop {
            let Some(world) = slot else {
                *slot = self.begin();
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

    /// The next world, if statements are left to do.
    fn begin(&self) -> Option<World> {
        // What is under way comes to it.
        if self.tally.operations.load(Ordering::Relaxed) >= self.plan.operations {
            return None;
        }
        let seed = self.next_seed.fetch_add(1, Ordering::Relaxed);
        Some(World::drawn(seed, format!("w{seed}"), self.plan.abilities()))
    }

    fn fail(&self, world: Option<World>, mismatch: Mismatch) {
        self.is_over.store(true, Ordering::Relaxed);
        let mut failed = self.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let (Some(world), None) = (world, failed.as_ref()) {
            *failed = Some(Failed { world, mismatch });
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
