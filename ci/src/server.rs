//! A server under test: started in a folder of its own, stopped in an orderly way or killed.
//!
//! Invariants
//! 1. Whatever happens to a step, its server is gone when the value is dropped.
//! 2. Ports are free ones, so that steps and a developer's own server do not meet.
//! 3. A server that ended by itself is an error of whatever was to end it.
//!
//! Not here: what is done to the server.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{kill_tree, processor_time};
use crate::repository::Repository;
use crate::step::Log;

/// A start replays at most a few log segments.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// In-flight requests have 5 s to end, then memtables are flushed.
const STOP_LIMIT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The least that a server takes, so that memtables fill and are flushed, and limits are felt.
const SHARD_MEMORY_MB: u32 = 64;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Name or number.
    pub(crate) host: String,
    /// The CQL port.
    pub(crate) port: u16,
}

/// How a server is started.
pub(crate) struct Setup<'a> {
    /// The checkout under test.
    pub(crate) repository: &'a Repository,
    /// The folder with the program.
    pub(crate) programs: PathBuf,
    /// Its data directory; what it prints goes to a file beside it.
    pub(crate) data: &'a Path,
    /// Shards of the node.
    pub(crate) shards: u32,
    /// Its memory in MiB.
    pub(crate) memory_mb: u32,
    /// The bug that a `planted` build runs with.
    pub(crate) plant: Option<&'a str>,
    /// Its file of settings.
    pub(crate) config: Option<PathBuf>,
}

impl<'a> Setup<'a> {
    /// The programs under test, with the least memory.
    pub(crate) fn new(repository: &'a Repository, data: &'a Path, shards: u32) -> Self {
        let (programs, memory_mb) = (repository.programs(), SHARD_MEMORY_MB * shards);
        Self { repository, programs, data, shards, memory_mb, plant: None, config: None }
    }
}

/// A running server of ours.
pub(crate) struct Server {
    child: Child,
    /// Where it listens.
    pub(crate) address: Address,
    output: PathBuf,
}

impl Server {
    /// Starts the release build on a data folder; it may not be ready yet.
    pub(crate) fn start(
        repository: &Repository,
        data: &Path,
        shards: u32,
        log: &Log,
    ) -> Result<Self, String> {
        Self::start_as(&Setup::new(repository, data, shards), log)
    }

    /// The same with all that can be chosen.
    pub(crate) fn start_as(setup: &Setup<'_>, log: &Log) -> Result<Self, String> {
        let Setup { repository, data, shards, memory_mb, .. } = *setup;
        let (port, shard_aware_port) = free_ports()?;
        let program = setup.programs.join("messina");
        let output = data.with_extension("output");
        fs::write(&output, "").map_err(|error| format!("{}: {error}", output.display()))?;
        let open = || fs::File::options().append(true).open(&output);
        let (out, err) = (open().map_err(text)?, open().map_err(text)?);
        let mut command = repository.command(&program);
        command
            .arg("--data-dir")
            .arg(data)
            .args(["--shards", &shards.to_string(), "--memory", &format!("{memory_mb}M")])
            .args(["--port", &port.to_string()])
            .args(["--shard-aware-port", &shard_aware_port.to_string()])
            .stdout(out)
            .stderr(err);
        if let Some(config) = &setup.config {
            command.arg("--config").arg(config);
        }
        if let Some(bug) = setup.plant {
            command.env("MESSINA_PLANT", bug);
        }
        log.note(&format!("$ {command:?}"));
        let child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let address = Address { host: "127.0.0.1".to_owned(), port };
        Ok(Self { child, address, output })
    }

    /// Waits for the line `ready`.
    pub(crate) fn wait_ready(&mut self) -> Result<(), String> {
        let started = Instant::now();
        loop {
            let said = self.said();
            if is_ready(&said) {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait().map_err(text)? {
                return Err(format!("{said}\nthe server ended before it was ready: {status}"));
            }
            if started.elapsed() > READY_LIMIT {
                return Err(format!("{said}\nnot ready after {} s", READY_LIMIT.as_secs()));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// The most memory that was resident in MiB, as the kernel counts it (`VmHWM`).
    pub(crate) fn resident_mb_max(&self) -> Result<u64, String> {
        self.status_mb("VmHWM:")
    }

    /// The memory that is resident now in MiB (`VmRSS`).
    pub(crate) fn resident_mb(&self) -> Result<u64, String> {
        self.status_mb("VmRSS:")
    }

    fn status_mb(&self, name: &str) -> Result<u64, String> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.map(|kib| kib.div_ceil(1024)).ok_or_else(|| format!("{path} has no {name}"))
    }

    /// What it has computed so far.
    pub(crate) fn processor_time(&self) -> Result<Duration, String> {
        let pid = self.child.id();
        processor_time(pid).ok_or_else(|| format!("/proc/{pid}/stat does not say what it computed"))
    }

    /// Everything it printed.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.output).unwrap_or_default()).into_owned()
    }

    /// SIGTERM: it must be there, and end with status 0.
    pub(crate) fn stop(mut self) -> Result<(), String> {
        self.check_alive()?;
        let pid = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args(["-TERM", &pid]).status();
        sent.map_err(text)?;
        let started = Instant::now();
        while started.elapsed() < STOP_LIMIT {
            match self.child.try_wait().map_err(text)? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("{}\nSIGTERM: {status}", self.said())),
                None => thread::sleep(POLL_INTERVAL),
            }
        }
        Err(format!("{}\nstill there {} s after SIGTERM", self.said(), STOP_LIMIT.as_secs()))
    }

    /// kill -9, as a crash would: it must be there. Returns what it had printed.
    pub(crate) fn kill(mut self) -> Result<String, String> {
        self.check_alive()?;
        kill_tree(self.child.id());
        let _ = self.child.wait();
        Ok(self.said())
    }

    /// An error with its output if it ended by itself.
    pub(crate) fn check_alive(&mut self) -> Result<(), String> {
        match self.child.try_wait().map_err(text)? {
            None => Ok(()),
            Some(status) => Err(format!("{}\nthe server ended by itself: {status}", self.said())),
        }
    }
}

/// True if a server that printed this had said that it is ready.
pub(crate) fn is_ready(said: &str) -> bool {
    said.lines().any(|line| line.trim() == "ready")
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            kill_tree(self.child.id());
            let _ = self.child.wait();
        }
    }
}

/// Two ports that no process listens on.
fn free_ports() -> Result<(u16, u16), String> {
    let bind = || TcpListener::bind(("127.0.0.1", 0)).map_err(text);
    let (one, two) = (bind()?, bind()?);
    let port = |listener: &TcpListener| listener.local_addr().map(|a| a.port()).map_err(text);
    Ok((port(&one)?, port(&two)?))
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// A folder for one step's data on the disk of the checkout, which a failure leaves behind.
pub(crate) struct DataFolder {
    path: PathBuf,
}

impl DataFolder {
    /// An empty one; what a failure of that name left is gone.
    pub(crate) fn new(repository: &Repository, name: &str) -> Result<Self, String> {
        let path = repository.work_folder().join("data").join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path })
    }

    /// A path inside.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The files below it whose names end so.
    pub(crate) fn files(&self, ending: &str) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let mut folders = vec![self.path.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.to_string_lossy().ends_with(ending) {
                    found.insert(path);
                }
            }
        }
        found
    }

    /// Removes it: the step went well, and there is nothing to look at.
    pub(crate) fn discard(self) -> Result<(), String> {
        fs::remove_dir_all(&self.path).map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

#[cfg(test)]
pub(crate) mod fakes {
    //! Checkouts whose programs are scripts, to see a step fail.

    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use crate::repository::Repository;
    use crate::step::{Log, Report};

    /// A server that is ready at once and ends on SIGTERM, or by itself once the file `die` exists.
    pub(crate) const SERVER: &str = "trap 'exit 0' TERM\necho 'replaying the log'\necho ready\n\
        while [ ! -e die ]; do sleep 0.02; done\nexit 1\n";
    /// A load tool that finds all in order, and whose load takes the server away.
    pub(crate) const DEADLY_LOAD: &str =
        "case $1 in run) touch die; sleep 0.5; exit 3;; esac\nexit 0\n";

    /// A checkout with these two programs, and a log of its own.
    pub(crate) fn checkout(name: &str, server: &str, load: &str) -> (Repository, Log) {
        let root = Repository::find().unwrap().work_folder().join("test").join(name);
        let _ = fs::remove_dir_all(&root);
        let programs = root.join("target/release");
        fs::create_dir_all(&programs).unwrap();
        for (program, script) in [("messina", server), ("messina-load", load)] {
            let path = programs.join(program);
            fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let repository = Repository::at(root);
        let log = Report::new(repository.log_folder()).log(name);
        (repository, log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_ended_by_itself_is_neither_stopped_nor_killed() {
        let (repository, log) = fakes::checkout("ends", "echo ready\nexit 0\n", "");
        for end in [Server::stop, |server: Server| server.kill().map(drop)] {
            let folder = DataFolder::new(&repository, "ends").unwrap();
            let mut server = Server::start(&repository, &folder.join("data"), 1, &log).unwrap();
            server.wait_ready().unwrap();
            server.child.wait().unwrap();
            assert!(end(server).unwrap_err().contains("ended by itself: exit status: 0"));
        }
    }
}
