//! `messina-load` and `messina-admin` as the checks call them: fill, work under load, prove what was acknowledged.
//!
//! ```text
//! Load::fill       messina-load load --journal J       makes the table and fills it
//! Load::work       messina-load run --journal J        until its server is killed; each read is judged
//! Load::prove      messina-load verify --journal J     reads back what the journal says was acknowledged
//! tool, beside     messina-load ARGUMENTS              to its end; until SIGINT
//! ```
//!
//! Invariants
//! 1. The exit status of a run tells a broken promise (1) from a server that went away (3), so that killing the server
//!    never hides a wrong answer.
//! 2. A tool that is dropped while it runs is killed, with all its children.
//!
//! Not here: when a server is killed (`kill9.rs`), what each workload promises (`tools/src/workload/scenario.rs`), how
//! a server is started (`server.rs`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::kill_tree;
use crate::repository::Repository;
use crate::server::{Address, DataFolder};
use crate::step::Log;

/// Loading and proving take seconds.
const TOOL_LIMIT: Duration = Duration::from_secs(5 * 60);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Longer than any check lets it run: the server is killed first.
const WORK_DURATION: &str = "120s";
/// The tool's exit status when the server is gone.
const SERVER_WENT_AWAY: i32 = 3;

/// Runs the tool with these arguments, which begin with its verb, and returns what it printed; an error if anything
/// failed, was lost or was refused.
pub(crate) fn tool(
    (repository, log): (&Repository, &Log),
    address: &Address,
    arguments: &[&str],
    limit: Duration,
) -> Result<String, String> {
    let mut command = repository.command(repository.program("messina-load"));
    command.args(arguments).arg("--quiet");
    command.args(["--host", &format!("{}:{}", address.host, address.port)]);
    log.output(&mut command, limit)
}

/// A tool that works beside the check until it is told to stop.
pub(crate) struct Beside {
    child: Child,
}

/// Starts the tool with these arguments, its output in the log.
pub(crate) fn beside(
    (repository, log): (&Repository, &Log),
    address: &Address,
    arguments: &[&str],
) -> Result<Beside, String> {
    let mut command = repository.command(repository.program("messina-load"));
    command.args(arguments).arg("--quiet");
    command.args(["--host", &format!("{}:{}", address.host, address.port)]);
    command.stdout(log.open()?).stderr(log.open()?);
    log.note(&format!("$ {command:?}"));
    let child = command.spawn().map_err(|error| format!("messina-load: {error}"))?;
    Ok(Beside { child })
}

impl Beside {
    /// Tells it to end, and waits; an error if anything went wrong before or it does not end.
    pub(crate) fn interrupt(mut self, limit: Duration) -> Result<(), String> {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &pid]).status();
        sent.map_err(|error| error.to_string())?;
        let begun = Instant::now();
        while begun.elapsed() < limit {
            match self.child.try_wait().map_err(|error| error.to_string())? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("messina-load beside the check: {status}")),
                None => thread::sleep(POLL_INTERVAL),
            }
        }
        Err(format!("messina-load is still there {} s after SIGINT", limit.as_secs()))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            kill_tree(self.child.id());
            let _ = self.child.wait();
        }
    }
}

/// Runs `messina-admin` on the server of a data directory and returns what it printed; an error if it was refused.
pub(crate) fn admin(
    (repository, log): (&Repository, &Log),
    data: &Path,
    arguments: &[&str],
    limit: Duration,
) -> Result<String, String> {
    log.output(&mut admin_command(repository, &repository.programs(), data, arguments), limit)
}

/// The `messina-admin` of a folder of programs, for the server of a data directory.
pub(crate) fn admin_command(
    repository: &Repository,
    programs: &Path,
    data: &Path,
    arguments: &[&str],
) -> Command {
    let mut command = repository.command(programs.join("messina-admin"));
    command.arg("--data-dir").arg(data).args(arguments);
    command
}

/// What the tool does to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// YCSB's records are written plainly.
    Records,
    /// Money is moved by conditional batches.
    Bank,
    /// Rows are inserted and updated on a condition.
    Conditional,
    /// Rows are found by an index.
    Indexed,
    /// Rows are shown by a materialized view.
    Views,
    /// Counters are told to grow.
    Counters,
    /// Counters are told to grow, each increment by a name under which it may be sent again.
    Named,
    /// Ten partitions are written by a logged batch.
    Batches,
}

impl Work {
    /// Those that have a rule of their own.
    pub(crate) const SCENARIOS: [Work; 7] = [
        Work::Bank,
        Work::Counters,
        Work::Batches,
        Work::Conditional,
        Work::Indexed,
        Work::Views,
        Work::Named,
    ];

    /// What the tool calls its data.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Work::Records => "ycsb",
            Work::Bank => "bank",
            Work::Conditional => "conditional",
            Work::Indexed => "indexed",
            Work::Views => "views",
            Work::Counters => "counters",
            Work::Named => "named",
            Work::Batches => "batches",
        }
    }

    /// How many: few enough to be read back in a second, and of records enough to fill memtables.
    fn records(self) -> &'static str {
        match self {
            Work::Records => "20000",
            Work::Bank | Work::Batches => "500",
            Work::Conditional | Work::Counters | Work::Named => "1000",
            Work::Indexed | Work::Views => "1000",
        }
    }

    /// The flags it is run with.
    fn run(self) -> &'static [&'static str] {
        match self {
            Work::Records => &["--mix", "read=30,update=50,insert=20"],
            Work::Bank => &["--workload", "bank"],
            Work::Conditional => &["--workload", "conditional"],
            Work::Indexed => &["--workload", "indexed"],
            Work::Views => &["--workload", "views"],
            Work::Counters => &["--workload", "counters"],
            Work::Named => &["--workload", "named"],
            Work::Batches => &["--workload", "batches"],
        }
    }
}

/// What was held against its rule, by what the tool calls it.
pub(crate) type Proved = BTreeMap<String, u64>;

/// The tool against one journal.
pub(crate) struct Load<'a> {
    repository: &'a Repository,
    log: &'a Log,
    /// What is done.
    pub(crate) work: Work,
    /// What was acknowledged.
    journal: PathBuf,
}

/// A tool at work.
pub(crate) struct Working {
    child: Child,
}

impl<'a> Load<'a> {
    /// How long the journal is: it grows with what is acknowledged.
    pub(crate) fn journal_bytes(&self) -> u64 {
        std::fs::metadata(&self.journal).map_or(0, |journal| journal.len())
    }

    /// The tool of the checkout's programs, with a journal in this folder.
    pub(crate) fn new(
        (repository, log): (&'a Repository, &'a Log),
        folder: &DataFolder,
        work: Work,
    ) -> Self {
        let journal = folder.join(&format!("acknowledged-{}", work.name()));
        Self { repository, log, work, journal }
    }

    fn command(&self, verb: &str, address: &Address) -> Command {
        let mut command = self.repository.command(self.repository.program("messina-load"));
        command.args([verb, "--quiet", "--host", &format!("{}:{}", address.host, address.port)]);
        command.arg("--journal").arg(&self.journal);
        command
    }

    /// Creates the table and fills it.
    pub(crate) fn fill(&self, address: &Address) -> Result<(), String> {
        let mut command = self.command("load", address);
        command.args(["--workload", self.work.name(), "--records", self.work.records()]);
        self.log.run(&mut command, TOOL_LIMIT)
    }

    /// Reads and writes, each read judged, until the server goes away.
    pub(crate) fn work(&self, address: &Address, seed: u64) -> Result<Working, String> {
        let mut command = self.command("run", address);
        command
            .args(self.work.run())
            .args(["--records", self.work.records(), "--verify"])
            .args(["--duration", WORK_DURATION, "--seed", &seed.to_string()])
            .stdout(self.log.open()?)
            .stderr(self.log.open()?);
        self.log.note(&format!("$ {command:?}"));
        let child = command.spawn().map_err(|error| format!("messina-load: {error}"))?;
        Ok(Working { child })
    }

    /// Reads back every acknowledged write; what was held against its rule.
    pub(crate) fn prove(&self, address: &Address) -> Result<Proved, String> {
        self.log.output(&mut self.command("verify", address), TOOL_LIMIT).map(|said| proved(&said))
    }
}

/// The lines `what was proved: 1,234` of a report.
fn proved(said: &str) -> Proved {
    let numbered = said.lines().filter_map(|line| {
        let (what, count) = line.split_once(": ")?;
        Some((what.to_owned(), count.replace(',', "").parse().ok()?))
    });
    numbered.collect()
}

impl Working {
    /// How it ended; it must have ended because its server did.
    pub(crate) fn end(mut self) -> Result<(), String> {
        let status = self.child.wait().map_err(|error| error.to_string())?;
        match status.code() {
            Some(SERVER_WENT_AWAY) => Ok(()),
            _ => Err(format!("messina-load under load: {status}")),
        }
    }

    /// Its end, if it ended already: it should not while its server is there.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            kill_tree(self.child.id());
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_report_proves_is_read_from_it() {
        let said = "verify · 9 notes of 5 banks\nCPU per operation: client 1.00 + 0.00 µs\n\
            applied transfers read back: 18,164\nretried: 3 connection lost\n0 errors\n";
        let expected = [("applied transfers read back".to_owned(), 18_164)];
        assert_eq!(proved(said), Proved::from(expected));
    }
}
