//! Random statements against a server and a model of what they mean: `cargo ci differential`.
//!
//! ```text
//! messina-differential ─► a fresh server of ours, flushed and compacted in between ─► every answer is the model's
//!                      ─► an Apache Cassandra ─────────────────────────────────────► so is its: the model is right
//!                      ─► servers with bugs ──────────────────────────────────────► an answer is not: it is noticed
//! ```
//!
//! Not here: the statements and the model (`ci/differential`).

use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use crate::evidence;
use crate::golden;
use crate::repository::Repository;
use crate::server::{Address, DataFolder, Server, Setup};
use crate::step::{Done, Failure, Log, Outcome};

/// Statements in `full`.
pub(crate) const OPERATIONS: u64 = 1_000_000;
/// Statements in `night`.
pub(crate) const OPERATIONS_OF_NIGHT: u64 = 100_000_000;
/// Statements in `night` against an Apache Cassandra, which takes milliseconds for each.
pub(crate) const OPERATIONS_OF_CASSANDRA: u64 = 100_000;
/// Where an Apache Cassandra is looked for in `night`.
const CASSANDRA: (&str, u16) = ("127.0.0.1", 9142);
/// Shards of the server.
const SHARDS: u32 = 2;
/// A run does at least this many statements a second, in a debug build and against Apache Cassandra, too.
const OPERATIONS_A_SECOND_MIN: u64 = 50;
/// A run takes no less time than this to end.
const LIMIT_MIN: Duration = Duration::from_secs(300);
/// Statements against a server with a bug, and against the same build without one.
const OPERATIONS_PLANTED: u64 = 15_000;
/// The first world against servers with bugs: always the same, so that a bug is noticed always or never.
const SEED_PLANTED: u64 = 1;
/// How the program tells a wrong answer.
const WRONG: &str = "WRONG ANSWER";

/// Bugs in merging, filtering, paging, statics, and the order of rows, by the names of their variants in
/// `engine::planted::Bug` and `cql::planted::Bug`.
const PLANTED: [&str; 14] = [
    "MergeTakesOneRow",
    "MergeForgetsDeletions",
    "EnterUndeleted",
    "SettleEarly",
    "SkipNewerLeaf",
    "ShowDropped",
    "PageRepeatsRow",
    "LimitRestarts",
    "FilterForgetsLast",
    "FilterTakesBound",
    "StaticsNeverAlone",
    "StaticsAlwaysAlone",
    "OrderOfPartitions",
    "GroupSpansPartitions",
];

/// What to run.
#[derive(Default)]
pub(crate) struct Choice {
    /// The first world; the program chooses if there is none.
    pub(crate) seed: Option<u64>,
    /// Statements at least.
    pub(crate) operations: u64,
    /// Against the server there, an Apache Cassandra.
    pub(crate) against: Option<Address>,
}

/// Runs against a fresh server of ours, or the one that was named.
pub(crate) fn run(repository: &Repository, choice: &Choice, log: &Log) -> Outcome {
    let Some(address) = &choice.against else {
        let folder = DataFolder::new(repository, "differential")?;
        let data = folder.join("data");
        let mut server = Server::start(repository, &data, SHARDS, log)?;
        server.wait_ready()?;
        let passed =
            compare(repository, choice, &server.address, &["--data-dir", &text(&data)], log);
        let done = passed?;
        server.stop()?;
        folder.discard()?;
        return Ok(Done::Passed(done));
    };
    Ok(Done::Passed(compare(repository, choice, address, &["--cassandra"], log)?))
}

/// Runs against the Apache Cassandra that `night` may find beside it.
pub(crate) fn against_cassandra(repository: &Repository, log: &Log) -> Outcome {
    let (host, port) = (CASSANDRA.0.to_owned(), CASSANDRA.1);
    if TcpStream::connect(CASSANDRA).is_err() {
        return Ok(Done::Skipped(format!("no Apache Cassandra at {host}:{port}")));
    }
    let against = Some(Address { host, port });
    let choice = Choice { operations: OPERATIONS_OF_CASSANDRA, against, ..Choice::default() };
    run(repository, &choice, log)
}

/// The number of statements that were answered as they must be.
fn compare(
    repository: &Repository,
    choice: &Choice,
    address: &Address,
    arguments: &[&str],
    log: &Log,
) -> Result<u64, Failure> {
    let mut command = repository.command(repository.program("messina-differential"));
    command.args(["--host", &address.host, "--port", &address.port.to_string()]);
    command.args(["--operations", &choice.operations.to_string()]).args(arguments);
    if let Some(seed) = choice.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    let limit = Duration::from_secs(choice.operations / OPERATIONS_A_SECOND_MIN).max(LIMIT_MIN);
    let output = log.output(&mut command, limit)?;
    evidence::operations(&output, choice.operations).map_err(Failure::from)
}

/// Passes if a wrong answer is found wherever a bug is planted, and none where there is none.
pub(crate) fn planted(repository: &Repository, log: &Log) -> Outcome {
    let programs = golden::build_planted(repository, log)?;
    if let Some(wrong) = wrong_answer(repository, &programs, None, log)? {
        return Err(Failure::from(format!("no bug is planted, and yet: {wrong}")));
    }
    for bug in PLANTED {
        match wrong_answer(repository, &programs, Some(bug), log)? {
            Some(_) => log.note(&format!("{bug}: caught")),
            None => return Err(Failure::from(format!("{bug}: no answer was wrong"))),
        }
    }
    Ok(Done::Passed(PLANTED.len() as u64))
}

/// What is told of a wrong answer of a server with this bug.
fn wrong_answer(
    repository: &Repository,
    programs: &Path,
    plant: Option<&str>,
    log: &Log,
) -> Result<Option<String>, String> {
    let folder = DataFolder::new(repository, "differential-planted")?;
    let data = folder.join("data");
    let programs = programs.to_path_buf();
    let setup = Setup { programs, plant, ..Setup::new(repository, &data, SHARDS) };
    let mut server = Server::start_as(&setup, log)?;
    server.wait_ready()?;
    let address = &server.address;
    let mut command = repository.command(repository.program("messina-differential"));
    command.args(["--as-found", "--port", &address.port.to_string(), "--data-dir"]).arg(&data);
    command.args(["--operations", &OPERATIONS_PLANTED.to_string()]);
    command.args(["--seed", &SEED_PLANTED.to_string()]);
    let told = match log.output(&mut command, LIMIT_MIN) {
        Ok(output) => {
            evidence::operations(&output, OPERATIONS_PLANTED)?;
            None
        }
        Err(told) if told.contains(WRONG) => Some(told),
        Err(told) => return Err(told),
    };
    server.kill()?;
    folder.discard()?;
    Ok(told)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
