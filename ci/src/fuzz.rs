//! Decoders and statements under libFuzzer: `cargo ci fuzz --seconds 60`.
//!
//! 1. The targets are built with coverage counters (`ci/fuzz/rustc`), dependencies without.
//! 2. The target `planted` must be found: without counters that are read it never is.
//! 3. Each other target runs for its seconds, from the kept corpus and what earlier runs here found.
//!
//! A find lies in `target/ci/fuzz/finds`; put it into `ci/fuzz/corpus/TARGET` and it is a test.
//!
//! Invariant: what a target did is read from libFuzzer's own statistics.
//!
//! Not here: what the targets do (`ci/fuzz`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::evidence;
use crate::repository::Repository;
use crate::step::{COMMAND_LIMIT, Done, Failure, Log, Outcome};

/// A target that is slower than this on the slowest machine does not run at all.
const INPUTS_A_SECOND_MIN: u64 = 1;
/// How long the planted bug may stay hidden; it takes about a second.
const PLANTED_SECONDS: u64 = 60;

/// Builds the targets and runs each for so many seconds; each counts as one check.
pub(crate) fn run(repository: &Repository, seconds: u64, log: &Log) -> Outcome {
    let build = ["build", "--features", "messina-fuzz/libfuzzer", "--bin"];
    let mut command = repository.cargo(&build);
    command.arg("libfuzzer").env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    command.env("RUSTC_WORKSPACE_WRAPPER", repository.root().join("ci/fuzz/rustc"));
    log.run(&mut command, COMMAND_LIMIT)?;
    let work = repository.work_folder().join("fuzz");
    let corpus = repository.root().join("ci/fuzz/corpus");
    let planted = work.join("corpus/planted");
    // Found again each time, or it would prove nothing.
    let _ = fs::remove_dir_all(&planted);
    let mut command = target(repository, &work, "planted", PLANTED_SECONDS)?;
    let Err(text) = log.run(&mut command, COMMAND_LIMIT) else {
        return Err(Failure::from("the planted bug was not found: the counters are not there"));
    };
    if !text.contains("the planted bug") {
        return Err(Failure::from(text));
    }
    let mut passed = 0;
    for name in folders(&corpus)? {
        let mut command = target(repository, &work, &name, seconds)?;
        let output = log.output(command.arg(corpus.join(&name)), COMMAND_LIMIT);
        let fail = |text: String| Failure { text: format!("{name}: {text}"), passed, failed: 1 };
        let inputs = evidence::fuzz_inputs(&output.map_err(fail)?).unwrap_or(0);
        if inputs < seconds * INPUTS_A_SECOND_MIN {
            return Err(fail(format!("{inputs} inputs in {seconds} s")));
        }
        log.note(&format!("{name}: {inputs} inputs"));
        passed += 1;
    }
    Ok(Done::Passed(passed))
}

/// The program for one target, with the folder that its new inputs go to.
fn target(
    repository: &Repository,
    work: &Path,
    name: &str,
    seconds: u64,
) -> Result<Command, String> {
    let (corpus, finds) = (work.join("corpus").join(name), work.join("finds"));
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

/// The names of the targets, which are those of the corpus' folders.
fn folders(corpus: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(corpus).map_err(|error| format!("{}: {error}", corpus.display()))?;
    let paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let names = paths.iter().filter_map(|path| path.file_name()?.to_str());
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort_unstable();
    Ok(names)
}
