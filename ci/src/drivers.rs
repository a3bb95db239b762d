//! Real clients, unmodified, against a fresh server or any CQL server: `cargo ci drivers`.
//!
//!   python-v4 python-v5   Apache's Python driver, protocols 4 and 5, lz4
//!   cqlengine             models of Apache's Python driver
//!   scylla                ScyllaDB's Python driver: one connection a shard, by its own log
//!   cqlsh                 its commands, DESCRIBE, paging, COPY of many rows, TRACING
//!   cqlsh-copy            COPY both ways of every type, compared byte by byte, and COPY's options
//!   rust node go java     ScyllaDB's Rust driver, Node's, gocql 2, the Java driver
//!   java-mapper           the Java driver's object mapper
//!   latte                 a load tool for five seconds without an error
//!
//! A driver sees the schema, creates a keyspace and a table with all scalar types, writes 10,000 rows
//! by prepared statements, pages them back and checks every value. The last line of each is `ok`, which is
//! demanded; of a server of ours, so is that a driver that knows shards has found them.
//!
//! Invariants
//! 1. A client whose language is not on the machine is skipped by name, never counted as passed.
//! 2. The clients' programs are known good: they pass against Apache Cassandra 5.0.
//!
//! Not here: the clients' programs (`ci/drivers/`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::kit::{self, PythonPackages};
use crate::repository::Repository;
use crate::server::{Address, DataFolder, Server};
use crate::step::{Done, Failure, Log, Outcome, Report};

/// A client that takes longer hangs.
const CLIENT_LIMIT: Duration = Duration::from_secs(5 * 60);
/// Latte's own compilation takes minutes.
const LATTE: (&str, &str) = ("latte-cli", "0.29.0");
/// Shards of the server under test: more than one, so that owners differ.
const SHARDS: u32 = 2;

/// Apache's driver and shell.
pub(crate) const APACHE: PythonPackages = PythonPackages {
    name: "python-apache",
    packages: &["cassandra-driver==3.30.1", "cqlsh==6.2.2", "lz4==4.4.5"],
};
/// ScyllaDB's driver, which has the same module name.
const SCYLLA: PythonPackages =
    PythonPackages { name: "python-scylla", packages: &["scylla-driver==3.29.12", "lz4==4.4.5"] };

/// One client that people use.
struct Driver {
    name: &'static str,
    /// A program that must be on the machine, and an argument that it answers.
    needs: (&'static str, &'static str),
    /// Installs in under a minute, so that `full` runs it.
    is_quick: bool,
    /// What it prints last, and of a server of ours besides.
    proof: Proof,
    /// Installs what is missing and says what to run.
    prepare: fn(&Repository, &Address, &Log) -> Result<Vec<Command>, String>,
}

/// What a client must print.
enum Proof {
    /// `ok` in its last line.
    Ok,
    /// `ok` in its last line, and `2 shards` before: it found the shards of the server.
    OkAndShards,
    /// Nothing: a tool of others, whose exit status tells of every error.
    Status,
}

const DRIVERS: [Driver; 12] = [
    Driver {
        name: "python-v4",
        needs: PYTHON,
        is_quick: true,
        proof: Proof::Ok,
        prepare: python_v4,
    },
    Driver {
        name: "python-v5",
        needs: PYTHON,
        is_quick: true,
        proof: Proof::Ok,
        prepare: python_v5,
    },
    Driver {
        name: "cqlengine",
        needs: PYTHON,
        is_quick: true,
        proof: Proof::Ok,
        prepare: cqlengine,
    },
    Driver {
        name: "scylla",
        needs: PYTHON,
        is_quick: true,
        proof: Proof::OkAndShards,
        prepare: scylla,
    },
    Driver { name: "cqlsh", needs: PYTHON, is_quick: true, proof: Proof::Ok, prepare: cqlsh },
    Driver {
        name: "cqlsh-copy",
        needs: PYTHON,
        is_quick: true,
        proof: Proof::Ok,
        prepare: cqlsh_copy,
    },
    Driver {
        name: "rust",
        needs: ("cargo", "--version"),
        is_quick: true,
        proof: Proof::OkAndShards,
        prepare: rust,
    },
    Driver {
        name: "node",
        needs: ("npm", "--version"),
        is_quick: true,
        proof: Proof::Ok,
        prepare: node,
    },
    Driver { name: "go", needs: ("go", "version"), is_quick: true, proof: Proof::Ok, prepare: go },
    Driver {
        name: "java",
        needs: ("mvn", "--version"),
        is_quick: true,
        proof: Proof::Ok,
        prepare: java,
    },
    Driver {
        name: "java-mapper",
        needs: ("mvn", "--version"),
        is_quick: true,
        proof: Proof::Ok,
        prepare: java_mapper,
    },
    Driver {
        name: "latte",
        needs: ("cargo", "--version"),
        is_quick: false,
        proof: Proof::Status,
        prepare: latte,
    },
];
const PYTHON: (&str, &str) = ("python3", "--version");

/// Which clients to run.
pub(crate) enum Choice<'a> {
    /// Those that install in under a minute.
    Quick,
    /// All of them.
    All,
    /// Only the clients with these names.
    Named(&'a [String]),
}

/// Runs clients against a server that is there, or a fresh one of ours.
pub(crate) fn run(
    repository: &Repository,
    report: &mut Report,
    choice: &Choice<'_>,
    address: Option<Address>,
) {
    let unknown = unknown_names(choice);
    if !unknown.is_empty() {
        let names = DRIVERS.map(|driver| driver.name).join(" ");
        let text = format!("no driver {}; there are: {names}", unknown.join(", "));
        return report.step("drivers", "cargo ci drivers", |_| Err(text.into()));
    }
    for driver in DRIVERS.iter().filter(|driver| is_chosen(driver, choice)) {
        let name = format!("drivers {}", driver.name);
        let rerun = format!("cargo ci drivers {}", driver.name);
        report.step(&name, &rerun, |log| check(repository, driver, address.as_ref(), log));
    }
}

/// Installs what the quick clients need while other steps run, so that no client's step waits for a registry. It gives
/// up at what cannot be installed, which the client's own step tells.
pub(crate) fn install(repository: &Repository, log: &Log) {
    let nowhere = Address { host: "127.0.0.1".to_owned(), port: 0 };
    let quick = DRIVERS.iter().filter(|driver| driver.is_quick && is_possible(repository, driver));
    for driver in quick {
        // The commands that it gives are for later.
        if (driver.prepare)(repository, &nowhere, log).is_err() {
            return;
        }
    }
}

/// Whether what the driver needs is on the machine.
fn is_possible(repository: &Repository, driver: &Driver) -> bool {
    let (program, argument) = driver.needs;
    kit::is_there(repository, program, &[argument])
}

fn is_chosen(driver: &Driver, choice: &Choice<'_>) -> bool {
    match choice {
        Choice::Quick => driver.is_quick,
        Choice::All => true,
        Choice::Named(names) => names.iter().any(|name| name == driver.name),
    }
}

fn unknown_names(choice: &Choice<'_>) -> Vec<String> {
    let Choice::Named(names) = choice else { return Vec::new() };
    let is_known = |name: &String| DRIVERS.iter().any(|driver| driver.name == *name);
    names.iter().filter(|name| !is_known(name)).cloned().collect()
}

/// The complaint about what a client printed, if any.
fn complain(proof: &Proof, printed: &str, is_ours: bool) -> Option<String> {
    let shards = format!("{SHARDS} shards");
    let last = printed.trim_end().lines().last().unwrap_or_default();
    match proof {
        Proof::Status => None,
        _ if last != "ok" => Some(format!("{printed}\nits last line is not `ok`")),
        Proof::OkAndShards if is_ours && !printed.contains(&shards) => {
            Some(format!("{printed}\nit does not know that the server has {shards}"))
        }
        _ => None,
    }
}

fn check(
    repository: &Repository,
    driver: &Driver,
    address: Option<&Address>,
    log: &Log,
) -> Outcome {
    if !is_possible(repository, driver) {
        return Ok(Done::Skipped(format!("no `{}` on this machine", driver.needs.0)));
    }
    let Some(address) = address else { return check_ours(repository, driver, log) };
    let printed = drive(repository, driver, address, log)?;
    match complain(&driver.proof, &printed, false) {
        None => Ok(Done::Passed(1)),
        Some(text) => Err(text.into()),
    }
}

/// A server of its own for each client: none is helped or hurt by what another left.
fn check_ours(repository: &Repository, driver: &Driver, log: &Log) -> Outcome {
    let folder = DataFolder::new(repository, driver.name)?;
    let mut server = Server::start(repository, &folder.join("data"), SHARDS, log)?;
    server.wait_ready()?;
    let driven = drive(repository, driver, &server.address, log);
    let verdict =
        driven.and_then(|printed| complain(&driver.proof, &printed, true).map_or(Ok(()), Err));
    if let Err(text) = verdict {
        return Err(Failure::from(format!("{text}\nthe server said:\n{}", server.said())));
    }
    server.stop()?;
    folder.discard()?;
    Ok(Done::Passed(1))
}

/// Runs a client; returns what its last command printed.
fn drive(
    repository: &Repository,
    driver: &Driver,
    address: &Address,
    log: &Log,
) -> Result<String, String> {
    let mut printed = String::new();
    for mut command in (driver.prepare)(repository, address, log)? {
        printed = log.output(&mut command, CLIENT_LIMIT)?;
    }
    Ok(printed)
}

fn folder(repository: &Repository, name: &str) -> PathBuf {
    repository.root().join("ci/drivers").join(name)
}

/// A command with the address as its last two arguments.
fn toward(mut command: Command, address: &Address) -> Vec<Command> {
    command.args([&address.host, &address.port.to_string()]);
    vec![command]
}

fn python(
    repository: &Repository,
    packages: &PythonPackages,
    address: &Address,
    protocol: &str,
    log: &Log,
) -> Result<Vec<Command>, String> {
    let programs = packages.install(repository, log)?;
    let mut command = repository.command(programs.join("python"));
    command.arg(folder(repository, "python").join("check.py"));
    let mut commands = toward(command, address);
    commands[0].args([protocol, "lz4"]);
    Ok(commands)
}

fn python_v4(
    repository: &Repository,
    address: &Address,
    log: &Log,
) -> Result<Vec<Command>, String> {
    python(repository, &APACHE, address, "4", log)
}

fn python_v5(
    repository: &Repository,
    address: &Address,
    log: &Log,
) -> Result<Vec<Command>, String> {
    python(repository, &APACHE, address, "5", log)
}

fn scylla(repository: &Repository, address: &Address, log: &Log) -> Result<Vec<Command>, String> {
    python(repository, &SCYLLA, address, "4", log)
}

/// The driver's models, with one protocol.
fn cqlengine(
    repository: &Repository,
    address: &Address,
    log: &Log,
) -> Result<Vec<Command>, String> {
    let programs = APACHE.install(repository, log)?;
    let mut command = repository.command(programs.join("python"));
    command.arg(folder(repository, "python").join("models.py"));
    let mut commands = toward(command, address);
    commands[0].arg("5");
    Ok(commands)
}

fn cqlsh(repository: &Repository, address: &Address, log: &Log) -> Result<Vec<Command>, String> {
    shell(repository, "check.py", address, log)
}

fn cqlsh_copy(
    repository: &Repository,
    address: &Address,
    log: &Log,
) -> Result<Vec<Command>, String> {
    shell(repository, "copy_types.py", address, log)
}

/// A program that runs cqlsh.
fn shell(
    repository: &Repository,
    program: &str,
    address: &Address,
    log: &Log,
) -> Result<Vec<Command>, String> {
    let programs = APACHE.install(repository, log)?;
    let mut command = repository.command(programs.join("python"));
    // -B: no compiled files among the sources.
    command.arg("-B").arg(folder(repository, "cqlsh").join(program)).arg(programs.join("cqlsh"));
    Ok(toward(command, address))
}

fn rust(repository: &Repository, address: &Address, log: &Log) -> Result<Vec<Command>, String> {
    let target = repository.work_folder().join("kits/rust");
    let manifest = folder(repository, "rust").join("Cargo.toml");
    let mut build = repository.cargo_beside(&["build", "--locked", "--manifest-path"]);
    kit::run(log, build.arg(manifest).arg("--target-dir").arg(&target))?;
    Ok(toward(repository.command(target.join("debug/driver-check")), address))
}

fn node(repository: &Repository, address: &Address, log: &Log) -> Result<Vec<Command>, String> {
    let source = folder(repository, "node");
    let lock = read(&source.join("package-lock.json"))?;
    let kit = kit::install(repository, "node", &lock, |kit| {
        for name in ["package.json", "package-lock.json"] {
            std::fs::copy(source.join(name), kit.join(name)).map_err(|error| error.to_string())?;
        }
        let mut npm = repository.command("npm");
        kit::run(log, npm.args(["ci", "--no-audit", "--no-fund"]).current_dir(kit))
    })?;
    let mut command = repository.command("node");
    command.env("NODE_PATH", kit.join("node_modules")).arg(source.join("check.js"));
    Ok(toward(command, address))
}

fn go(repository: &Repository, address: &Address, log: &Log) -> Result<Vec<Command>, String> {
    let program = repository.work_folder().join("kits/go/driver-check");
    let mut build = repository.command("go");
    build.args(["build", "-o"]).arg(&program).arg(".").current_dir(folder(repository, "go"));
    kit::run(log, &mut build)?;
    Ok(toward(repository.command(program), address))
}

fn java(repository: &Repository, address: &Address, log: &Log) -> Result<Vec<Command>, String> {
    let kit = java_kit(repository, log)?;
    let mut command = repository.command("java");
    command.arg("-cp").arg(kit.join("*")).arg(folder(repository, "java").join("Check.java"));
    Ok(toward(command, address))
}

/// Unlike a single file that `java` runs, entities are compiled: the mapper's code is made of their annotations.
fn java_mapper(
    repository: &Repository,
    address: &Address,
    log: &Log,
) -> Result<Vec<Command>, String> {
    let kit = java_kit(repository, log)?;
    let (jars, classes) = (kit.join("*"), repository.work_folder().join("kits/java-mapper"));
    let mut compile = repository.command("javac");
    compile.arg("-cp").arg(&jars).arg("-d").arg(&classes);
    kit::run(log, compile.arg(folder(repository, "java").join("models/Models.java")))?;
    let mut command = repository.command("java");
    command.arg("-cp").arg(format!("{}:{}", jars.display(), classes.display()));
    command.arg("models.Models");
    Ok(toward(command, address))
}

/// The driver, its mapper, and what they need.
fn java_kit(repository: &Repository, log: &Log) -> Result<PathBuf, String> {
    let project = folder(repository, "java").join("pom.xml");
    kit::install(repository, "java", &read(&project)?, |kit| {
        let mut maven = repository.command("mvn");
        maven.args(["-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-f"]);
        maven.arg(&project).arg(format!("-DoutputDirectory={}", kit.display()));
        kit::run(log, &mut maven)
    })
}

fn latte(repository: &Repository, address: &Address, log: &Log) -> Result<Vec<Command>, String> {
    let (name, version) = LATTE;
    let kit = kit::install(repository, "latte", version, |kit| {
        let mut install = repository.cargo(&["install", "--locked", name, "--version", version]);
        install.arg("--root").arg(kit).arg("--target-dir").arg(kit.join("build"));
        kit::run(log, &mut install)?;
        std::fs::remove_dir_all(kit.join("build")).map_err(|error| error.to_string())
    })?;
    let at = format!("{}:{}", address.host, address.port);
    let latte = |arguments: &[&str]| {
        let mut command = repository.command(kit.join("bin/latte"));
        command.args(arguments).arg(folder(repository, "latte").join("check.rn"));
        // It leaves a log where it runs.
        command.current_dir(repository.work_folder());
        command
    };
    let mut schema = latte(&["schema"]);
    schema.arg(&at);
    let mut load = latte(&["load"]);
    load.arg(&at);
    let mut work = latte(&["run"]);
    work.args(["-d", "5s", "-t", "1", "-p", "64", "-q", &at]);
    Ok(vec![schema, load, work])
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_name_drivers() {
        let chosen = |choice| DRIVERS.iter().filter(|d| is_chosen(d, &choice)).count();
        let names = ["go".to_owned(), "gopher".to_owned()];
        assert_eq!(chosen(Choice::All), DRIVERS.len());
        assert_eq!(chosen(Choice::Quick), DRIVERS.len() - 1);
        assert_eq!(chosen(Choice::Named(&names)), 1);
        assert_eq!(unknown_names(&Choice::Named(&names)), ["gopher"]);
    }

    #[test]
    fn a_client_that_does_not_say_ok_fails() {
        let fails = |printed, is_ours| complain(&Proof::Ok, printed, is_ours).is_some();
        assert!(fails("", true) && fails("ok\nError: late", true) && fails("not ok", false));
        assert!(!fails("$ go\ngocql 2\nok\n", true));
    }

    #[test]
    fn a_client_that_finds_no_shards_fails_on_a_server_that_has_them() {
        let fails = |printed, is_ours| complain(&Proof::OkAndShards, printed, is_ours).is_some();
        assert!(fails("protocol 4, no shards advertised\nok\n", true));
        assert!(!fails("protocol 4, no shards advertised\nok\n", false), "Cassandra has none");
        assert!(!fails("one connection to each of 2 shards\nok\n", true));
        assert!(fails("one connection to each of 2 shards\n", true));
    }
}
