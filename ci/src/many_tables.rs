//! Ten thousand tables in a small node: `cargo ci many-tables --tables N`.
//!
//! ```text
//! --memory 256M ─► N tables, one after the other ─► idle ─► kill -9 ─► start ─► rows of the first and the last table
//!                   time of each, memory of all    processor          time
//! ```
//!
//! 1. What the tables take is what is resident more than before the first of them.
//! 2. A table is made in so long as the middle one of the last 500 is: a busy machine makes some of them wait.
//! 3. An idle node computes for what is done now and then (`shard/src/background.rs`), whatever number of tables.
//!
//! Not here: data in many tables (`engine/tests/many_tables.rs`), how large a schema may be (`engine/src/schema_memory.rs`).

use std::thread;
use std::time::{Duration, Instant};

use cql::frame::Version;

use crate::client::Connection;
use crate::repository::Repository;
use crate::server::{DataFolder, Server, Setup};
use crate::step::{Done, Failure, Log, Outcome};

/// Tables in `night`.
pub(crate) const TABLES: u64 = 10_000;
const SHARDS: u32 = 2;
const MEMORY_MB: u32 = 256;
/// What all tables together may take of the memory, in MiB.
const SCHEMA_MB_MAX: u64 = 100;
/// How long a CREATE TABLE may take, in milliseconds.
const CREATE_MS_MAX: u64 = 50;
/// What an idle node may compute, in thousandths of a core.
const IDLE_PER_MILLE_MAX: u64 = 20;
/// How long a start after kill -9 may take, in milliseconds.
const START_MS_MAX: u64 = 60_000;
/// How many of the last tables are asked how long they took.
const LAST_TABLES: usize = 500;
/// A node is idle some seconds after the last change, and is watched for so long.
const SETTLE_TIME: Duration = Duration::from_secs(5);
const IDLE_TIME: Duration = Duration::from_secs(10);

/// What was measured of a node.
struct Measured {
    /// What is resident more with the tables, in MiB.
    schema_mb: u64,
    /// The time of the middle one of the last CREATE TABLE, in milliseconds.
    create_ms: u64,
    /// What the idle node computes, in thousandths of a core.
    idle_per_mille: u64,
    /// From the start of the process to `ready`, in milliseconds.
    start_ms: u64,
}

/// Makes so many tables, and judges what that costs the node.
pub(crate) fn run(repository: &Repository, tables: u64, log: &Log) -> Outcome {
    let folder = DataFolder::new(repository, "many-tables")?;
    let data = folder.join("data");
    let setup = Setup { memory_mb: MEMORY_MB, ..Setup::new(repository, &data, SHARDS) };
    let measured = measure(&setup, tables, log)?;
    let said = measured.to_string();
    log.note(&format!("{tables} tables: {said}"));
    let passed = judge(&measured)?;
    folder.discard()?;
    Ok(Done::Passed(passed))
}

fn measure(setup: &Setup<'_>, tables: u64, log: &Log) -> Result<Measured, String> {
    let mut server = Server::start_as(setup, log)?;
    server.wait_ready()?;
    let before_mb = server.resident_mb()?;
    let create_ms = make(&server, tables)?;
    thread::sleep(SETTLE_TIME);
    let (begun, spent) = (Instant::now(), server.processor_time()?);
    thread::sleep(IDLE_TIME);
    let idle = server.processor_time()?.saturating_sub(spent);
    let idle_per_mille = (idle.as_micros() / begun.elapsed().as_millis().max(1)) as u64;
    let schema_mb = server.resident_mb()?.saturating_sub(before_mb);
    server.kill()?;
    let begun = Instant::now();
    let mut server = Server::start_as(setup, log)?;
    server.wait_ready()?;
    let start_ms = begun.elapsed().as_millis() as u64;
    let mut connection = Connection::open(&server.address, Version::V4)?;
    for table in [0, tables.saturating_sub(1)] {
        connection.must(&format!("INSERT INTO many.t{table} (k, c, v1) VALUES (1, 2, 'v')"))?;
        let cells = connection.cells(&format!("SELECT v1 FROM many.t{table} WHERE k = 1"))?;
        if cells != [Some(b"v".to_vec())] {
            return Err(format!("table {table} has {cells:?} after the start"));
        }
    }
    server.check_alive()?;
    server.stop()?;
    Ok(Measured { schema_mb, create_ms, idle_per_mille, start_ms })
}

/// Makes the tables; the time of the middle one of the last of them, in milliseconds.
fn make(server: &Server, tables: u64) -> Result<u64, String> {
    let mut connection = Connection::open(&server.address, Version::V4)?;
    connection.must(
        "CREATE KEYSPACE many WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    )?;
    let mut times_ms = Vec::new();
    for table in 0..tables {
        let begun = Instant::now();
        connection.must(&format!(
            "CREATE TABLE many.t{table} (k bigint, c int, v1 text, v2 text, v3 map<text, int>, PRIMARY KEY (k, c))"
        ))?;
        times_ms.push(begun.elapsed().as_millis() as u64);
    }
    let last = times_ms.len().saturating_sub(LAST_TABLES);
    let last = &mut times_ms[last..];
    last.sort_unstable();
    Ok(last.get(last.len() / 2).copied().unwrap_or(0))
}

impl std::fmt::Display for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Measured { schema_mb, create_ms, idle_per_mille, start_ms } = self;
        write!(
            f,
            "{schema_mb} MiB more are resident, one is made in {create_ms} ms, an idle node takes {idle_per_mille} \
             thousandths of a core, a start takes {start_ms} ms"
        )
    }
}

/// How many limits were held; an error that names those that were not.
fn judge(measured: &Measured) -> Result<u64, Failure> {
    let limits = [
        ("MiB of tables", measured.schema_mb, SCHEMA_MB_MAX),
        ("ms of a CREATE TABLE", measured.create_ms, CREATE_MS_MAX),
        ("thousandths of a core while idle", measured.idle_per_mille, IDLE_PER_MILLE_MAX),
        ("ms of a start", measured.start_ms, START_MS_MAX),
    ];
    let wrong = limits.iter().filter(|(_, is, most)| is > most);
    let wrong: Vec<String> =
        wrong.map(|(what, is, most)| format!("{is} {what}, at most {most} are promised")).collect();
    let failed = wrong.len() as u64;
    let passed = limits.len() as u64 - failed;
    match failed {
        0 => Ok(passed),
        _ => Err(Failure { text: wrong.join("\n"), passed, failed }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::fakes;

    #[test]
    fn each_limit_is_judged() {
        let within =
            || Measured { schema_mb: 100, create_ms: 50, idle_per_mille: 20, start_ms: 60_000 };
        assert_eq!(judge(&within()).ok(), Some(4));
        for beyond in [
            Measured { schema_mb: 101, ..within() },
            Measured { create_ms: 51, ..within() },
            Measured { idle_per_mille: 21, ..within() },
            Measured { start_ms: 60_001, ..within() },
        ] {
            let failure = judge(&beyond).expect_err("one is not held");
            assert_eq!((failure.passed, failure.failed), (3, 1), "{}", failure.text);
        }
    }

    #[test]
    fn a_server_that_answers_nobody_fails_the_step() {
        let (repository, log) = fakes::checkout("many-tables", fakes::SERVER, "");
        let failure = run(&repository, 10, &log).err().expect("the port is closed");
        assert!(failure.text.contains("connecting"), "{}", failure.text);
    }
}
