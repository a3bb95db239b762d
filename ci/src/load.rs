//! `messina-load` and `messina-admin` as the checks call them: fill, work under load, prove what was acknowledged.
//!
//! Invariant: the exit status of a run tells a broken promise (1) from a server that went away (3),
//! so that killing the server never hides a wrong answer.

use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use crate::process::kill_tree;
use crate::repository::Repository;
use crate::server::Address;
use crate::step::Log;

/// Loading and proving take seconds.
const TOOL_LIMIT: Duration = Duration::from_secs(5 * 60);
/// Longer than any check lets it run: the server is killed first.
const WORK_DURATION: &str = "120s";
/// The tool's exit status when the server is gone.
const SERVER_WENT_AWAY: i32 = 3;
/// Few enough to be read back in a second, enough to fill memtables.
const RECORDS: &str = "20000";

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

/// The tool against one journal.
pub(crate) struct Load<'a> {
    /// The checkout, whose release build is used.
    pub(crate) repository: &'a Repository,
    /// What was acknowledged.
    pub(crate) journal: &'a Path,
    /// Where the tool's output goes.
    pub(crate) log: &'a Log,
}

/// A tool at work.
pub(crate) struct Working {
    child: Child,
}

impl Load<'_> {
    fn command(&self, verb: &str, address: &Address) -> Command {
        let mut command = self.repository.command(self.repository.program("messina-load"));
        command.args([verb, "--quiet", "--host", &format!("{}:{}", address.host, address.port)]);
        command.arg("--journal").arg(self.journal);
        command
    }

    /// Creates the table and inserts the records.
    pub(crate) fn fill(&self, address: &Address) -> Result<(), String> {
        self.log.run(self.command("load", address).args(["--records", RECORDS]), TOOL_LIMIT)
    }

    /// Reads, updates and inserts, each read judged, until the server goes away.
    pub(crate) fn work(&self, address: &Address, seed: u64) -> Result<Working, String> {
        let mut command = self.command("run", address);
        command
            .args(["--records", RECORDS, "--mix", "read=30,update=50,insert=20", "--verify"])
            .args(["--duration", WORK_DURATION, "--seed", &seed.to_string()])
            .stdout(self.log.open()?)
            .stderr(self.log.open()?);
        self.log.note(&format!("$ {command:?}"));
        let child = command.spawn().map_err(|error| format!("messina-load: {error}"))?;
        Ok(Working { child })
    }

    /// Reads back every acknowledged write.
    pub(crate) fn prove(&self, address: &Address) -> Result<(), String> {
        self.log.run(&mut self.command("verify", address), TOOL_LIMIT)
    }
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
