//! Which steps each tier has, and the steps that are a single cargo command.
//!
//!   fast ⊂ full ⊂ night: a tier is the one before it and more.
//!
//! Cheap steps come first: a missing header should not wait for a build.

use crate::documents as papers;
use crate::drivers::{self, Choice};
use crate::kill9 as crashes;
use crate::layers as arrows;
use crate::repository::Repository;
use crate::shards as restarts;
use crate::step::{COMMAND_LIMIT, Done, Failure, Log, Outcome, Report};
use crate::tidy as house;

/// Kills in `full`.
pub(crate) const KILL_CYCLES: u64 = 10;

/// What a tier spends on the steps that have no natural end.
struct Effort {
    clients: Choice<'static>,
    kill_cycles: u64,
    crash_points: u64,
    fuzz_seconds: u64,
}

const FULL: Effort = Effort {
    clients: Choice::Quick,
    kill_cycles: KILL_CYCLES,
    crash_points: 100_000,
    fuzz_seconds: 10,
};
const NIGHT: Effort =
    Effort { clients: Choice::All, kill_cycles: 200, crash_points: 1_000_000, fuzz_seconds: 600 };

/// Under two minutes when warm.
pub(crate) fn fast(repository: &Repository, report: &mut Report) {
    read_only_steps(repository, report);
    report.step("unit tests", "cargo test --workspace --lib --bins", |log| {
        cargo_test(repository, log, &["test", "--workspace", "--lib", "--bins", "--no-fail-fast"])
    });
}

/// What must hold before a release.
pub(crate) fn full(repository: &Repository, report: &mut Report) {
    everything(repository, report, &FULL);
}

/// Full, and the long runs.
pub(crate) fn night(repository: &Repository, report: &mut Report) {
    everything(repository, report, &NIGHT);
}

fn everything(repository: &Repository, report: &mut Report, effort: &Effort) {
    read_only_steps(repository, report);
    report.step("all tests", "cargo test --workspace", |log| {
        cargo_test(repository, log, &["test", "--workspace", "--no-fail-fast"])
    });
    planted(repository, report);
    build_release(repository, report);
    simulator(repository, report, effort.crash_points);
    shards(repository, report);
    kill9(repository, report, effort.kill_cycles, None);
    drivers::run(repository, report, &effort.clients, None);
    documents(repository, report);
    fuzz(repository, report, effort.fuzz_seconds);
}

/// The crash tests notice each bug that is planted for them.
fn planted(repository: &Repository, report: &mut Report) {
    let rerun = "cargo test -p messina-engine --features planted --test planted --test sim bug";
    report.step("planted bugs", rerun, |log| {
        let arguments = [
            "test",
            "-p",
            "messina-engine",
            "--features",
            "planted",
            "--test",
            "planted",
            "--test",
            "sim",
            "bug",
        ];
        cargo_test(repository, log, &arguments)
    });
}

/// Whole shards in a simulated world: so many lives that end in a power cut. The release asserts its invariants too.
fn simulator(repository: &Repository, report: &mut Report, points: u64) {
    let rerun = "cargo test --release -p messina-engine --test sim what_was";
    report.step("simulator", rerun, |log| {
        let arguments = ["test", "--release", "-p", "messina-engine", "--test", "sim", "what_was"];
        let mut command = repository.cargo(&arguments);
        command.env("MESSINA_SIM_POINTS", points.to_string());
        log.run(&mut command, COMMAND_LIMIT)?;
        Ok(Done::Passed(points))
    });
}

/// Every decoder under mutated bytes, so many seconds each.
fn fuzz(repository: &Repository, report: &mut Report, seconds: u64) {
    let rerun = "cargo run --release --package messina-fuzz -- all";
    report.step("fuzz", rerun, |log| {
        let seconds = seconds.to_string();
        let arguments =
            ["run", "--release", "--package", "messina-fuzz", "--", "all", "--seconds", &seconds];
        cargo(repository, log, &arguments)
    });
}

/// The programs that are tested from outside.
pub(crate) fn build_release(repository: &Repository, report: &mut Report) {
    let arguments = ["build", "--release", "-p", "messina-server", "-p", "messina-tools"];
    report.step("release build", "cargo build --release -p messina-server", |log| {
        cargo(repository, log, &arguments)
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

/// The house rules.
pub(crate) fn tidy(repository: &Repository, report: &mut Report) {
    report.step("tidy", "cargo ci tidy", |_| verdict(house::check(&repository.text_files()?)));
}

/// The arrows between rooms.
pub(crate) fn layers(repository: &Repository, report: &mut Report) {
    report.step("layers", "cargo ci layers", |_| {
        let mut complaints = arrows::check_arrows(&arrows::metadata(repository)?)?;
        complaints.extend(arrows::check_meeting_places(&repository.text_files()?));
        verdict(complaints)
    });
}

/// What the documents tell the reader to type.
pub(crate) fn documents(repository: &Repository, report: &mut Report) {
    let documents = match papers::documents(repository) {
        Ok(documents) => documents,
        Err(error) => return report.step("documents", "cargo ci documents", |_| Err(error.into())),
    };
    for document in &documents {
        let name = format!("documents {}", document.path);
        report.step(&name, "cargo ci documents", |log| papers::check(repository, document, log));
    }
}

/// No acknowledged write is lost by kill -9.
pub(crate) fn kill9(repository: &Repository, report: &mut Report, cycles: u64, seed: Option<u64>) {
    let rerun = format!("cargo ci kill9 --cycles {cycles}");
    report.step("kill9", &rerun, |log| crashes::run(repository, cycles, seed, log));
}

/// Data belongs to no core.
pub(crate) fn shards(repository: &Repository, report: &mut Report) {
    report.step("shards", "cargo ci shards", |log| restarts::run(repository, log));
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

/// One cargo command that counts as one check.
fn cargo(repository: &Repository, log: &Log, arguments: &[&str]) -> Outcome {
    log.run(&mut repository.cargo(arguments), COMMAND_LIMIT)?;
    Ok(Done::Passed(1))
}

/// A `cargo test` that counts as many checks as it ran tests.
fn cargo_test(repository: &Repository, log: &Log, arguments: &[&str]) -> Outcome {
    let result = log.run(&mut repository.cargo(arguments), COMMAND_LIMIT);
    let (passed, failed) = count_tests(&log.text());
    match result {
        Ok(()) if passed == 0 => Err(Failure::from("no test ran")),
        Ok(()) => Ok(Done::Passed(passed)),
        Err(text) => Err(Failure { text, passed, failed }),
    }
}

/// Adds up the lines `test result: ok. 3 passed; 0 failed; ...` of libtest.
fn count_tests(output: &str) -> (u64, u64) {
    let mut sum = (0, 0);
    for line in output.lines().filter(|line| line.starts_with("test result:")) {
        for part in line.split([';', '.']) {
            let mut words = part.split_whitespace();
            let count: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            match words.next() {
                Some("passed") => sum.0 += count,
                Some("failed") => sum.1 += count,
                _ => {}
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_lines_are_added_up() {
        let output = "test a ... ok\n\
            test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
            test result: FAILED. 2 passed; 5 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(count_tests(output), (5, 5));
    }

    #[test]
    fn the_house_is_tidy() {
        let files = Repository::find().unwrap().text_files().unwrap();
        assert_eq!(house::check(&files), Vec::<String>::new());
        assert_eq!(arrows::check_meeting_places(&files), Vec::<String>::new());
    }

    #[test]
    fn the_arrows_point_down() {
        let metadata = arrows::metadata(&Repository::find().unwrap()).unwrap();
        assert_eq!(arrows::check_arrows(&metadata).unwrap(), Vec::<String>::new());
    }
}
