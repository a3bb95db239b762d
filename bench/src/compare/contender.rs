//! The servers that are compared: how each is started, told to be durable, and stopped.
//!
//! ```text
//!              port       durable before its answer       ready when
//! Messina      PORT       its default                     it prints `ready`
//! Cassandra    PORT + 1   commitlog_sync: batch           its script returns
//! Redis        PORT + 2   appendfsync always              its port is open, and it has not ended
//! ```
//!
//! Invariants
//! 1. Each start has an empty data directory, on the disk that is measured, and removes it in the end.
//! 2. A server is ended when its `Running` is dropped, whatever went wrong in between.
//! 3. The process that is measured is the one that was started: a Messina or a Redis whose port is taken is an error.
//!
//! Not here: the work (`work.rs`), the client of Redis (`redis.rs`), the script of Cassandra (`bench/rivals`).

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{Failed, Result, run_to_end};

/// How long a server may take to answer.
const START_MAX: Duration = Duration::from_secs(180);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long a server that finds its port taken may take to end.
const SETTLE_TIME: Duration = Duration::from_millis(500);

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// This product, with its default durability: a write is answered after its flush.
    Messina,
    /// The same, with a client that knows no shards, as most drivers do.
    MessinaUnaware,
    /// Apache Cassandra, `commitlog_sync: batch`: likewise.
    Cassandra,
    /// Redis, `appendfsync always`: likewise.
    Redis,
}

/// Where the programs are, and how they are to run.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The server `messina`.
    pub messina: PathBuf,
    /// More of its flags.
    pub messina_flags: Vec<String>,
    /// The script that starts a Cassandra: `cassandra start|stop DIR`, with PORT, SYNC and HEAP.
    pub cassandra: PathBuf,
    /// The server of Redis.
    pub redis: PathBuf,
    /// The first of the ports to use.
    pub port: u16,
    /// Where data goes: the disk that is measured.
    pub data_dir: PathBuf,
}

/// A server that runs.
#[derive(Debug)]
pub struct Running {
    /// Which server it is.
    pub contender: Contender,
    /// Where it listens.
    pub port: u16,
    /// Process id of the server.
    pub pid: u32,
    stop: Stop,
    // Dropped last: the server's data.
    _dir: TempDir,
}

#[derive(Debug)]
enum Stop {
    Kill(Child),
    Script(PathBuf, PathBuf),
}

impl Contender {
    /// Its name and durability, as the table has it.
    pub fn title(self) -> &'static str {
        match self {
            Contender::Messina => "Messina (durable)",
            Contender::MessinaUnaware => "Messina, client without shards",
            Contender::Cassandra => "Cassandra 5.0 (batch)",
            Contender::Redis => "Redis (always)",
        }
    }

    /// Starts it with an empty data directory and waits until it answers.
    pub fn start(self, programs: &Programs) -> Result<Running> {
        let dir = tempfile::Builder::new()
            .prefix("compare-")
            .tempdir_in(&programs.data_dir)
            .map_err(Failed::io("making a data directory"))?;
        match self {
            Contender::Messina | Contender::MessinaUnaware => start_messina(self, programs, dir),
            Contender::Cassandra => start_cassandra(programs, dir),
            Contender::Redis => start_redis(programs, dir),
        }
    }
}

fn start_messina(contender: Contender, programs: &Programs, dir: TempDir) -> Result<Running> {
    let port = programs.port;
    let mut command = Command::new(&programs.messina);
    command
        .arg("--data-dir")
        .arg(dir.path().join("data"))
        .args(["--port", &port.to_string()])
        .args(["--shard-aware-port", &(port + 10_000).to_string()])
        .args(&programs.messina_flags);
    let log = fs::File::create(dir.path().join("log")).map_err(Failed::io("making a log"))?;
    command.stdout(Stdio::piped()).stderr(log);
    let mut child = command.spawn().map_err(Failed::io(format!("starting {command:?}")))?;
    let out = child.stdout.take().expect("it is piped");
    let log = dir.path().join("log");
    // From here on an error ends the server, too.
    let running = Running { contender, port, pid: child.id(), stop: Stop::Kill(child), _dir: dir };
    let (told, ready) = channel();
    std::thread::spawn(move || {
        // A full pipe would stop the server in the middle of the measurement.
        for line in BufReader::new(out).lines().map_while(std::io::Result::ok) {
            if line.trim() == "ready" {
                // Nothing waits for it any more after the limit.
                let _ = told.send(());
            }
        }
    });
    ready.recv_timeout(START_MAX).map_err(|_| {
        let said = fs::read_to_string(log).unwrap_or_default();
        Failed(format!("messina did not become ready: {said}"))
    })?;
    Ok(running)
}

fn start_cassandra(programs: &Programs, dir: TempDir) -> Result<Running> {
    let port = programs.port + 1;
    let home = cassandra_home(&programs.cassandra, dir.path())?;
    run_to_end(
        Command::new(&programs.cassandra)
            .arg("start")
            .arg(&home)
            .env("PORT", port.to_string())
            .env("SYNC", "batch"),
    )?;
    let pid = fs::read_to_string(home.join("pid")).map_err(Failed::io("reading its pid"))?;
    let pid = pid.trim().parse().map_err(|_| Failed(format!("'{pid}' is no pid")))?;
    let stop = Stop::Script(programs.cassandra.clone(), home);
    Ok(Running { contender: Contender::Cassandra, port, pid, stop, _dir: dir })
}

/// A home for Cassandra; its jars are taken from an earlier one if there is any.
fn cassandra_home(script: &Path, dir: &Path) -> Result<PathBuf> {
    let home = dir.join("cassandra");
    fs::create_dir(&home).map_err(Failed::io("making a home for Cassandra"))?;
    let jars = std::env::temp_dir().join("rival-cassandra/lib");
    if jars.is_dir() {
        std::os::unix::fs::symlink(&jars, home.join("lib"))
            .map_err(Failed::io(format!("using the jars beside {}", script.display())))?;
    }
    Ok(home)
}

fn start_redis(programs: &Programs, dir: TempDir) -> Result<Running> {
    let port = programs.port + 2;
    let mut command = Command::new(&programs.redis);
    command
        .args(["--port", &port.to_string(), "--save", "", "--appendonly", "yes"])
        .args(["--appendfsync", "always", "--dir"])
        .arg(dir.path())
        .stdout(Stdio::null());
    let mut child = command.spawn().map_err(Failed::io(format!("starting {command:?}")))?;
    let listens = wait_to_listen(&mut child, port);
    let pid = child.id();
    let stop = Stop::Kill(child);
    let running = Running { contender: Contender::Redis, port, pid, stop, _dir: dir };
    listens.map(|()| running)
}

/// Waits until this process listens, and not another one that has its port: then it ends by itself.
fn wait_to_listen(child: &mut Child, port: u16) -> Result<()> {
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() && begun.elapsed() < START_MAX {
        std::thread::sleep(POLL_INTERVAL);
    }
    // What cannot listen has ended a little later.
    std::thread::sleep(SETTLE_TIME);
    match child.try_wait().map_err(Failed::io("looking for the server"))? {
        Some(status) => Err(Failed(format!("port {port}: the server ended with {status}"))),
        None if TcpStream::connect(("127.0.0.1", port)).is_err() => {
            Err(Failed(format!("nothing listens on port {port}")))
        }
        None => Ok(()),
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        match &mut self.stop {
            Stop::Kill(child) => {
                // The data are thrown away: how it dies does not matter.
                let _ = child.kill();
                let _ = child.wait();
            }
            Stop::Script(script, home) => {
                let _ = Command::new(script).arg("stop").arg(home).output();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Before: the server that had the port was loaded, and the process that was measured was gone.
    #[test]
    fn a_server_whose_port_is_taken_is_not_measured() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let mut ends = Command::new("false").spawn().unwrap();
        let error = wait_to_listen(&mut ends, port).unwrap_err().to_string();
        assert!(error.contains("the server ended with exit status: 1"), "{error}");
        let mut stays = Command::new("sleep").arg("60").spawn().unwrap();
        let listens = wait_to_listen(&mut stays, port);
        stays.kill().unwrap();
        stays.wait().unwrap();
        assert!(listens.is_ok());
    }
}
