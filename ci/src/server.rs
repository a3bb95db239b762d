//! A server under test: started in a folder of its own, stopped in an orderly way or killed.
//!
//! Invariants
//! 1. Whatever happens to a step, its server is gone when the value is dropped.
//! 2. Ports are free ones, so that steps and a developer's own server do not meet.
//!
//! Not here: what is done to the server.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::kill_tree;
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
        let (port, shard_aware_port) = free_ports()?;
        let program = repository.root().join("target/release/messina");
        let output = data.with_extension("output");
        fs::write(&output, "").map_err(|error| format!("{}: {error}", output.display()))?;
        let open = || fs::File::options().append(true).open(&output);
        let (out, err) = (open().map_err(text)?, open().map_err(text)?);
        let memory = format!("{}M", SHARD_MEMORY_MB * shards);
        let mut command = repository.command(&program);
        command
            .arg("--data-dir")
            .arg(data)
            .args(["--shards", &shards.to_string(), "--memory", &memory])
            .args(["--port", &port.to_string()])
            .args(["--shard-aware-port", &shard_aware_port.to_string()])
            .stdout(out)
            .stderr(err);
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
            if said.lines().any(|line| line.trim() == "ready") {
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

    /// Everything it printed.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.output).unwrap_or_default()).into_owned()
    }

    /// SIGTERM: it must end with status 0.
    pub(crate) fn stop(mut self) -> Result<(), String> {
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

    /// kill -9, as a crash would; says how it had ended if it was gone already.
    pub(crate) fn kill(mut self) -> Option<ExitStatus> {
        let ended = self.child.try_wait().ok().flatten();
        kill_tree(self.child.id());
        let _ = self.child.wait();
        ended
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            kill_tree(self.child.id());
            let _ = self.child.wait();
        }
    }
}

/// Two ports that nobody listens on.
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

    /// True if any file below it has such an ending.
    pub(crate) fn has_file(&self, ending: &str) -> bool {
        let mut folders = vec![self.path.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.to_string_lossy().ends_with(ending) {
                    return true;
                }
            }
        }
        false
    }

    /// Removes it: the step went well, and nobody will want to look.
    pub(crate) fn discard(self) -> Result<(), String> {
        fs::remove_dir_all(&self.path).map_err(|error| format!("{}: {error}", self.path.display()))
    }
}
