//! Decoders and statements under libFuzzer: `cargo ci fuzz --seconds 60`.
//!
//! 1. The targets are built with coverage counters (`ci/fuzz/rustc`), dependencies without.
//! 2. The target `planted` must be found: without counters that are read it never is.
//! 3. Each other target runs for its seconds, from the kept corpus and what earlier runs here found: as many side by
//!    side as there are cores.
//!
//! A find lies in `target/ci/fuzz/finds`; put it into `ci/fuzz/corpus/TARGET` and it is a test.
//!
//! Invariant: what a target did is read from libFuzzer's own statistics.
//!
//! Not here: what the targets do (`ci/fuzz`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use crate::evidence;
use crate::repository::Repository;
use crate::step::{COMMAND_LIMIT, Done, Failure, Log, Outcome};

/// Fewer new inputs a second than this: the target hangs, or only read its corpus.
const INPUTS_A_SECOND_MIN: u64 = 1;
/// How long the planted bug may stay hidden; it takes about a second.
const PLANTED_SECONDS: u64 = 60;
/// From so many seconds a target on, optimizing everything, dependencies too, saves more than it takes.
const OPTIMIZED_FROM_SECONDS: u64 = 60;

/// Builds the targets and runs each for so many seconds; each counts as one check.
pub(crate) fn run(repository: &Repository, seconds: u64, log: &Log) -> Outcome {
    build(repository, seconds, log)?;
    find_planted(repository, log)?;
    let names = names(&repository.root().join("ci/fuzz/corpus"))?;
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut found = Vec::new();
        while let Some(name) = names.get(next.fetch_add(1, Relaxed)) {
            found.push(fuzz(repository, name, seconds, log));
        }
        found
    };
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    let results: Vec<Result<(), String>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("fuzz returns errors")).collect()
    });
    let complaints: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    let (failed, all) = (complaints.len() as u64, names.len() as u64);
    match failed {
        0 => Ok(Done::Passed(all)),
        _ => Err(Failure { text: complaints.join("\n"), passed: all - failed, failed }),
    }
}

/// Builds the program that holds all targets.
pub(crate) fn build(repository: &Repository, seconds: u64, log: &Log) -> Result<(), String> {
    let build = ["build", "--features", "messina-fuzz/libfuzzer", "--bin", "libfuzzer"];
    let mut command = repository.cargo_beside(&build);
    if seconds >= OPTIMIZED_FROM_SECONDS {
        command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    }
    command.env("RUSTC_WORKSPACE_WRAPPER", repository.root().join("ci/fuzz/rustc"));
    log.run(&mut command, COMMAND_LIMIT)
}

/// An error if the bug that only coverage leads to stays hidden.
fn find_planted(repository: &Repository, log: &Log) -> Result<(), String> {
    // Found again each time, or it would prove nothing.
    let _ = fs::remove_dir_all(found_folder(repository, "planted"));
    let mut command = target(repository, "planted", PLANTED_SECONDS)?;
    match log.run(&mut command, COMMAND_LIMIT) {
        Ok(()) => Err("the planted bug was not found: the counters are not there".to_owned()),
        Err(text) if text.contains("the planted bug") => Ok(()),
        Err(text) => Err(text),
    }
}

/// Runs one target for its seconds.
fn fuzz(repository: &Repository, name: &str, seconds: u64, log: &Log) -> Result<(), String> {
    let part = log.part(name);
    let complain = |text: String| format!("{name}: {text}\nits log: {}", part.path().display());
    let mut command = target(repository, name, seconds).map_err(complain)?;
    let (kept, found) = (kept_folder(repository, name), found_folder(repository, name));
    let known = names(&kept).and_then(|kept| Ok(kept.len() + names(&found)?.len()));
    let known = known.map_err(complain)? as u64;
    command.arg(kept);
    let output = part.output(&mut command, COMMAND_LIMIT).map_err(complain)?;
    // The first inputs are those that are known, and none.
    let inputs = evidence::fuzz_inputs(&output).unwrap_or(0).saturating_sub(known + 1);
    log.note(&format!("{name}: {inputs} new inputs"));
    if inputs < seconds * INPUTS_A_SECOND_MIN {
        return Err(complain(format!("{inputs} new inputs in {seconds} s")));
    }
    Ok(())
}

/// The inputs of a target that are kept with the sources.
fn kept_folder(repository: &Repository, name: &str) -> PathBuf {
    repository.root().join("ci/fuzz/corpus").join(name)
}

/// The inputs of a target that runs on this machine have found.
fn found_folder(repository: &Repository, name: &str) -> PathBuf {
    work_folder(repository).join("corpus").join(name)
}

/// What libFuzzer writes: new inputs and finds.
fn work_folder(repository: &Repository) -> PathBuf {
    repository.work_folder().join("fuzz")
}

/// The program for one target, with the folder that its new inputs go to.
fn target(repository: &Repository, name: &str, seconds: u64) -> Result<Command, String> {
    let (corpus, finds) = (found_folder(repository, name), work_folder(repository).join("finds"));
    for folder in [&corpus, &finds] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut command = repository.command(repository.root().join("target/debug/libfuzzer"));
    command.env("MESSINA_FUZZ_TARGET", name);
    command.arg(format!("-artifact_prefix={}/{name}-", finds.display()));
    command.arg(format!("-max_total_time={seconds}"));
    command.args(["-max_len=4096", "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1"]);
    command.arg(corpus);
    Ok(command)
}

/// The names of what is in a folder, sorted: in that of the corpus, the targets'.
fn names(folder: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let names = paths.iter().filter_map(|path| path.file_name()?.to_str());
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort_unstable();
    Ok(names)
}
