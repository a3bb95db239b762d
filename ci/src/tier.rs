//! Which steps each tier has, and the steps that are a single cargo command.
//!
//!   fast ⊂ full ⊂ night: a tier checks all that the one before it checks, and more.
//!
//! 1. `fast` has the steps that only read sources, and the unit tests.
//! 2. `full` and `night` begin with the same list (`everything`). An `Effort` says how much each does.
//! 3. `night` goes on with the planted bugs of the servers and with the steps that take long.
//!
//! Invariants
//! 1. Cheap steps come first: a missing header should not wait for a build.
//! 2. The release build comes before the steps that drive its programs. Called alone, such a step builds them first
//!    (`main.rs`), unless the caller names a folder of programs or a running server.
//! 3. What is built beside other steps (`build_beside`) decides nothing: its own step fails again, and says why.
//! 4. The simulator runs the build of `planted`, with no bug switched on, so that nothing is built twice.
//!
//! Not here: what a step of several commands does (one file each), the arguments (`main.rs`), how a step is run and
//! counted (`step.rs`), how a count is read from what a program prints (`evidence.rs`).

use std::path::Path;
use std::process::Command;
use std::thread;

use crate::drivers::Choice;
use crate::repository::Repository;
use crate::step::{COMMAND_LIMIT, Done, Failure, Log, Outcome, Report};
use crate::{
    differential, disk_space, documents, drivers, evidence, full_disk, fuzz, golden as statements,
    indexed_data, kill9, kit, large_data, layers, many_tables, read_costs, shards, tidy,
};

/// Kills in `full`.
pub(crate) const KILL_CYCLES: u64 = 10;
/// Planted bugs of the log, the manifest and the layout: `Bug::OF_FILES`.
const PLANTED_IN_FILES: u64 = 11;
/// Planted bugs that whole shards must notice: all of them but one of the files'.
const PLANTED_IN_SHARDS: u64 = 63;
/// The features of a build for the simulator.
const CAN_BE_PLANTED: &str = "messina-engine/planted,messina-shard/planted";
/// Of so many power cuts the simulator has at least one kill beside them: every second world has kills.
const KILLS_A_POWER_CUT_MIN: u64 = 10;
/// What is run from a release build.
const PROGRAMS: [&str; 5] =
    ["messina", "messina-admin", "messina-load", "messina-sst", "messina-differential"];
/// Seconds of each fuzz target in `full`.
pub(crate) const FUZZ_SECONDS: u64 = 5;

/// Requests that `night` draws against whole nodes.
const FUZZED_REQUESTS_OF_NIGHT: u64 = 100_000_000;

/// How much a tier does in the steps that can be shorter or longer.
struct Effort {
    clients: Choice<'static>,
    kill_cycles: u64,
    crash_points: u64,
    fuzz_seconds: u64,
    operations: u64,
    forms: statements::WriteForms,
}

const FULL: Effort = Effort {
    clients: Choice::Quick,
    kill_cycles: KILL_CYCLES,
    crash_points: 300_000,
    fuzz_seconds: FUZZ_SECONDS,
    operations: differential::OPERATIONS,
    forms: statements::WriteForms::Alternating,
};
const NIGHT: Effort = Effort {
    clients: Choice::All,
    kill_cycles: 200,
    crash_points: 10_000_000,
    fuzz_seconds: 600,
    operations: differential::OPERATIONS_OF_NIGHT,
    forms: statements::WriteForms::Both,
};

/// Under two minutes when warm.
pub(crate) fn fast(repository: &Repository, report: &mut Report) {
    read_only_steps(repository, report);
    report.step("unit tests", "cargo test --workspace --lib --bins", |log| {
        let arguments = ["test", "--workspace", "--lib", "--bins", "--no-fail-fast"];
        counted(log, &mut repository.cargo(&arguments), evidence::tests)
    });
}

/// What must hold before a release.
pub(crate) fn full(repository: &Repository, report: &mut Report) {
    everything(repository, report, &FULL);
}

/// Full, and the long runs.
pub(crate) fn night(repository: &Repository, report: &mut Report) {
    everything(repository, report, &NIGHT);
    golden_planted(repository, report);
    kill9_planted(repository, report);
    differential_planted(repository, report);
    report.step("differential, Cassandra", "cargo ci differential --port 9142", |log| {
        differential::against_cassandra(repository, log)
    });
    attacks(repository, report);
    many_vectors(repository, report);
    node_fuzz(repository, report, FUZZED_REQUESTS_OF_NIGHT);
    full_disk(repository, report, None);
    read_costs(repository, report, read_costs::ROWS);
    large_data(repository, report, large_data::ROWS);
    indexed_data(repository, report, indexed_data::ROWS);
    many_tables(repository, report, many_tables::TABLES);
}

/// How many requests are drawn, against whole nodes on the simulated disk: a hundred million without a death.
fn node_fuzz(repository: &Repository, report: &mut Report, requests: u64) {
    let rerun = format!(
        "MESSINA_FUZZ_REQUESTS={requests} cargo test --release --package messina-server --test node_fuzz"
    );
    report.step("node fuzz", &rerun, |log| {
        let arguments = ["test", "--release", "--package", "messina-server", "--test", "node_fuzz"];
        let mut command = repository.cargo(&arguments);
        command.args(["--", "--show-output"]).env("MESSINA_FUZZ_REQUESTS", requests.to_string());
        command.env_remove("MESSINA_FUZZ_SEED");
        let output = log.output(&mut command, 8 * COMMAND_LIMIT)?;
        evidence::fuzzed_requests(&output, requests).map(Done::Passed).map_err(Failure::from)
    });
}

/// What clients can do to a small node that takes tens of seconds; the rest of it is among all tests.
fn attacks(repository: &Repository, report: &mut Report) {
    let rerun = "cargo test --release --package messina-server --test attacks -- --ignored";
    report.step("attacks", rerun, |log| {
        let arguments = ["test", "--release", "--package", "messina-server", "--test", "attacks"];
        let mut command = repository.cargo(&arguments);
        counted(log, command.args(["--", "--ignored"]), evidence::tests)
    });
}

/// A hundred thousand vectors, of which all tests take a fifth.
fn many_vectors(repository: &Repository, report: &mut Report) {
    let rerun = "cargo test --release --package messina-engine --test vector_files";
    report.step("many vectors", rerun, |log| {
        let arguments =
            ["test", "--release", "--package", "messina-engine", "--test", "vector_files"];
        counted(log, &mut repository.cargo(&arguments), evidence::tests)
    });
}

fn everything(repository: &Repository, report: &mut Report, effort: &Effort) {
    thread::scope(|scope| {
        report.step("disk space", "df .", |_| disk_space::check(repository));
        read_only_steps(repository, report);
        dependencies(repository, report);
        documentation(repository, report);
        all_tests(repository, report);
        planted(repository, report);
        miri(repository, report);
        build_release(repository, report);
        simulator(repository, report, effort.crash_points);
        // From here to the kills the disk is waited for: a core has time to compile.
        let log = report.log("built beside");
        let beside = scope.spawn(move || build_beside(repository, effort.fuzz_seconds, &log));
        golden(repository, report, effort.forms);
        shards(repository, report);
        kill9(repository, report, effort.kill_cycles, None);
        beside.join().expect("what cannot be built makes no panic");
        let choice = differential::Choice { operations: effort.operations, ..Default::default() };
        differential(repository, report, &choice);
        drivers::run(repository, report, &effort.clients, None);
        documents(repository, report);
        fuzz(repository, report, effort.fuzz_seconds);
    });
}

/// Builds and installs what the last steps need. What fails here fails again in its own step, which tells of it.
fn build_beside(repository: &Repository, fuzz_seconds: u64, log: &Log) {
    let _ = fuzz::build(repository, fuzz_seconds, log);
    drivers::install(repository, log);
}

/// Units, properties, models, whole servers: all that `cargo test --workspace` runs.
fn all_tests(repository: &Repository, report: &mut Report) {
    report.step("all tests", "cargo test --workspace", |log| {
        let mut command = kit::nextest(repository, log)?;
        command.args(["run", "--workspace", "--no-fail-fast", "--retries", "0"]);
        command.args(["--status-level", "pass"]);
        counted(log, &mut command, evidence::nextest)
    });
}

/// The reference that rustdoc makes of the comments: no link in them leads nowhere.
fn documentation(repository: &Repository, report: &mut Report) {
    let rerun =
        "RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --document-private-items";
    report.step("rustdoc", rerun, |log| {
        let arguments = ["doc", "--workspace", "--no-deps", "--document-private-items"];
        let mut command = repository.cargo(&arguments);
        log.run(command.env("RUSTDOCFLAGS", "-D warnings"), COMMAND_LIMIT)?;
        Ok(Done::Passed(1))
    });
}

/// Licences and origins of what is built in, and that nothing is built in twice (`deny.toml`).
pub(crate) fn dependencies(repository: &Repository, report: &mut Report) {
    report.step("deny", "cargo ci deny", |log| {
        let mut command = kit::cargo_deny(repository, log)?;
        command.args(["check", "licenses", "bans", "sources"]);
        let output = log.output(&mut command, COMMAND_LIMIT)?;
        let is_checked = output.contains("bans ok, licenses ok, sources ok");
        if is_checked {
            Ok(Done::Passed(3))
        } else {
            Err(Failure::from("it checked less than three"))
        }
    });
}

/// The ring between two shards, in a machine that knows Rust's memory model.
pub(crate) fn miri(repository: &Repository, report: &mut Report) {
    report.step("miri", "cargo ci miri", |log| {
        if !kit::is_there(repository, "rustup", &["run", "nightly", "cargo", "miri", "--version"]) {
            let why = "no Miri: rustup toolchain install nightly --component miri,rust-src";
            return Ok(Done::Skipped(why.to_owned()));
        }
        let mut command = repository.command("rustup");
        command.args(["run", "nightly", "cargo", "miri", "test", "--target-dir"]);
        command.arg(repository.work_folder().join("miri")).args(["--package", "messina-miri"]);
        // Of this program's own toolchain, which is another.
        command.env_remove("CARGO").env("MIRIFLAGS", "-Zmiri-many-seeds=0..4");
        counted(log, &mut command, evidence::tests)
    });
}

/// Statements in every state of storage, answered as Apache Cassandra answers. The command that a failed step names
/// runs all passes.
fn golden(repository: &Repository, report: &mut Report, forms: statements::WriteForms) {
    let programs = statements::release();
    let choice = statements::Choice { programs, forms, ..Default::default() };
    report.step("golden", "cargo ci golden", |log| statements::run(repository, &choice, None, log));
}

/// The statements notice each bug that is planted in merge, paging and prepare.
pub(crate) fn golden_planted(repository: &Repository, report: &mut Report) {
    report.step("golden, planted bugs", "cargo ci golden --planted", |log| {
        statements::planted(repository, log)
    });
}

/// Random statements, each answered as a model of them says.
pub(crate) fn differential(
    repository: &Repository,
    report: &mut Report,
    choice: &differential::Choice,
) {
    let rerun = format!("cargo ci differential --operations {}", choice.operations);
    report.step("differential", &rerun, |log| differential::run(repository, choice, log));
}

/// The model notices each bug that is planted in merge, filter, paging, statics and order.
pub(crate) fn differential_planted(repository: &Repository, report: &mut Report) {
    report.step("differential, planted bugs", "cargo ci differential --planted", |log| {
        differential::planted(repository, log)
    });
}

/// The crash tests notice each bug that is planted for them.
fn planted(repository: &Repository, report: &mut Report) {
    let rerun =
        format!("cargo test --release --features {CAN_BE_PLANTED} --test planted --test sim bug");
    report.step("planted bugs", &rerun, |log| {
        let mut command = repository.cargo(&["test", "--release"]);
        command.args(["--features", CAN_BE_PLANTED]);
        command.args(["--test", "planted", "--test", "sim", "bug", "--", "--show-output"]);
        // Each bug that is caught is a panic, whose place says nothing.
        command.env("RUST_BACKTRACE", "0");
        let output = log.output(&mut command, COMMAND_LIMIT)?;
        let caught = evidence::planted(&output, PLANTED_IN_FILES, PLANTED_IN_SHARDS);
        caught.map(Done::Passed).map_err(Failure::from)
    });
}

/// Whole shards in a simulated world: so many lives that end in a power cut, and others that end by a kill. The
/// release build, which keeps its assertions, as `planted` has built it: bugs could be planted, and none is.
fn simulator(repository: &Repository, report: &mut Report, points: u64) {
    let rerun = format!(
        "MESSINA_SIM_POINTS={points} cargo test --release --features {CAN_BE_PLANTED} --test sim what_was"
    );
    report.step("simulator", &rerun, |log| {
        let mut command = repository.cargo(&["test", "--release", "--features", CAN_BE_PLANTED]);
        command.args(["--test", "sim", "what_was", "--", "--show-output"]);
        command.env("MESSINA_SIM_POINTS", points.to_string());
        // One world is for a developer who looks for a bug.
        command.env_remove("MESSINA_SIM_SEED");
        let limit = COMMAND_LIMIT * u32::try_from(points / FULL.crash_points).unwrap_or(1).max(1);
        let output = log.output(&mut command, limit)?;
        let lived = evidence::lives(&output, points, points / KILLS_A_POWER_CUT_MIN);
        lived.map(Done::Passed).map_err(Failure::from)
    });
}

/// Decoders and statements under bytes that coverage guides, so many seconds each.
pub(crate) fn fuzz(repository: &Repository, report: &mut Report, seconds: u64) {
    let rerun = format!("cargo ci fuzz --seconds {seconds}");
    report.step("fuzz", &rerun, |log| fuzz::run(repository, seconds, log));
}

/// The programs that are tested from outside.
pub(crate) fn build_release(repository: &Repository, report: &mut Report) {
    report.step("release build", "cargo build --release --bins", |log| {
        build(repository, log, &["--release"], &PROGRAMS)
    });
}

/// The only task that edits.
pub(crate) fn fix(repository: &Repository, report: &mut Report) {
    report.step("clippy --fix", "cargo ci fix", |log| {
        let arguments =
            ["clippy", "--workspace", "--all-targets", "--fix", "--allow-dirty", "--allow-staged"];
        cargo(repository, log, &arguments)
    });
    report.step("fmt", "cargo ci fix", |log| cargo(repository, log, &["fmt", "--all"]));
}

/// The rules of style.
pub(crate) fn tidy(repository: &Repository, report: &mut Report) {
    report.step("tidy", "cargo ci tidy", |_| verdict(tidy::check(&repository.text_files()?)));
}

/// The arrows between crates.
pub(crate) fn layers(repository: &Repository, report: &mut Report) {
    report.step("layers", "cargo ci layers", |_| {
        let mut complaints = layers::check_arrows(&layers::metadata(repository)?)?;
        complaints.extend(layers::check_meeting_places(&repository.text_files()?));
        verdict(complaints)
    });
}

/// What the documents tell the reader to type.
pub(crate) fn documents(repository: &Repository, report: &mut Report) {
    report.step("documents, built", "cargo ci documents", |log| {
        build(repository, log, &[], &documents::MEASURING)
    });
    let files = match documents::documents(repository) {
        Ok(files) if files.is_empty() => Err("no document has a block".to_owned()),
        files => files,
    };
    let files = match files {
        Ok(files) => files,
        Err(error) => return report.step("documents", "cargo ci documents", |_| Err(error.into())),
    };
    for document in &files {
        let name = format!("documents {}", document.path);
        report.step(&name, "cargo ci documents", |log| documents::check(repository, document, log));
    }
}

/// No acknowledged write is lost by kill -9.
pub(crate) fn kill9(repository: &Repository, report: &mut Report, cycles: u64, seed: Option<u64>) {
    let rerun = format!("cargo ci kill9 --cycles {cycles}");
    report.step("kill9", &rerun, |log| kill9::run(repository, cycles, seed, log));
}

/// The load tool notices each bug that is planted in conditional writes, counters and batches.
pub(crate) fn kill9_planted(repository: &Repository, report: &mut Report) {
    report.step("kill9, planted bugs", "cargo ci kill9 --planted", |log| {
        kill9::planted(repository, log)
    });
}

/// A disk that is filled to the last byte: a small one that is made, or the one of a folder that was named.
pub(crate) fn full_disk(repository: &Repository, report: &mut Report, on: Option<&Path>) {
    match on {
        None => {
            report.step("full disk", "cargo ci full-disk", |log| full_disk::run(repository, log))
        }
        Some(disk) => {
            let rerun = format!("cargo ci full-disk --on {}", disk.display());
            report
                .step("full disk, mounted", &rerun, |log| full_disk::run_on(repository, disk, log));
        }
    }
}

/// How many rows of 100 bytes with little memory.
pub(crate) fn large_data(repository: &Repository, report: &mut Report, rows: u64) {
    let rerun = format!("cargo ci large-data --rows {rows}");
    report.step("large data", &rerun, |log| large_data::run(repository, rows, log));
}

/// Three indexes of so many rows.
pub(crate) fn indexed_data(repository: &Repository, report: &mut Report, rows: u64) {
    let rerun = format!("cargo ci indexed-data --rows {rows}");
    report.step("indexed data", &rerun, |log| indexed_data::run(repository, rows, log));
}

/// How many tables in a small node.
pub(crate) fn many_tables(repository: &Repository, report: &mut Report, tables: u64) {
    let rerun = format!("cargo ci many-tables --tables {tables}");
    report.step("many tables", &rerun, |log| many_tables::run(repository, tables, log));
}

/// What cold reads cost in device reads, with a partition of so many rows.
pub(crate) fn read_costs(repository: &Repository, report: &mut Report, rows: u64) {
    let rerun = format!("cargo ci read-costs --rows {rows}");
    report.step("read costs", &rerun, |log| read_costs::run(repository, rows, log));
}

/// Data belongs to no core.
pub(crate) fn shards(repository: &Repository, report: &mut Report) {
    report.step("shards", "cargo ci shards", |log| shards::run(repository, log));
}

fn read_only_steps(repository: &Repository, report: &mut Report) {
    tidy(repository, report);
    layers(repository, report);
    report.step("fmt", "cargo fmt --all --check (cargo ci fix mends it)", |log| {
        cargo(repository, log, &["fmt", "--all", "--check"])
    });
    let rerun = "cargo clippy --workspace --all-targets -- -D warnings";
    report.step("clippy", rerun, |log| {
        let arguments = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
        cargo(repository, log, &arguments)
    });
}

fn verdict(complaints: Vec<String>) -> Outcome {
    if complaints.is_empty() {
        return Ok(Done::Passed(1));
    }
    Err(Failure::from(complaints.join("\n")))
}

/// Builds programs, by name: a package that is chosen would change what its dependencies are built with.
fn build(repository: &Repository, log: &Log, flags: &[&str], programs: &[&str]) -> Outcome {
    let chosen = programs.iter().flat_map(|name| ["--bin", name]);
    let arguments: Vec<&str> =
        ["build"].into_iter().chain(flags.iter().copied()).chain(chosen).collect();
    cargo(repository, log, &arguments)
}

/// One cargo command that counts as one check.
fn cargo(repository: &Repository, log: &Log, arguments: &[&str]) -> Outcome {
    log.run(&mut repository.cargo(arguments), COMMAND_LIMIT)?;
    Ok(Done::Passed(1))
}

/// A command of whose output `count` reads how many tests passed and failed.
fn counted(log: &Log, command: &mut Command, count: fn(&str) -> (u64, u64)) -> Outcome {
    let result = log.run(command, COMMAND_LIMIT);
    let (passed, failed) = count(&log.text());
    match result {
        Ok(()) => Ok(Done::Passed(passed)),
        Err(text) => Err(Failure { text, passed, failed }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let files = Repository::find().unwrap().text_files().unwrap();
        assert_eq!(tidy::check(&files), Vec::<String>::new());
        assert_eq!(layers::check_meeting_places(&files), Vec::<String>::new());
    }

    #[test]
    fn the_arrows_point_down() {
        let metadata = layers::metadata(&Repository::find().unwrap()).unwrap();
        assert_eq!(layers::check_arrows(&metadata).unwrap(), Vec::<String>::new());
    }
}
