//! Steps and their report: one line each, the failed one with its output and how to rerun it.
//!
//!   ok       clippy                       12.3 s
//!   FAILED   tidy                          0.1 s
//!            engine/src/read.rs:1: no `//!` header
//!            rerun: cargo ci tidy
//!   skipped  drivers go                    no `go` on this machine
//!
//! Invariants
//! 1. A step that did not run is counted as skipped, in the last line too, and says why.
//! 2. A step that checked nothing has failed, and so has a run in which nothing passed.
//! 3. A run with any failure ends with a non-zero exit code.
//!
//! Not here: what any step does.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::kill_tree;

/// How often a running command is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A command that runs longer than this hangs: killed with all its children.
pub(crate) const COMMAND_LIMIT: Duration = Duration::from_secs(25 * 60);
/// How much of a failed step's output is shown; the log has all of it.
const SHOWN_LINES_MAX: usize = 60;

/// How a step ended, when it did not fail.
pub(crate) enum Done {
    /// The number of checks that passed; a step that returns 0 has failed.
    Passed(u64),
    /// The number of checks that passed, and lines that say what they met.
    Told(u64, Vec<String>),
    /// It could not run here, and why.
    Skipped(String),
}

/// How a step failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What to show.
    pub(crate) text: String,
    /// Checks of the step that passed all the same.
    pub(crate) passed: u64,
    /// Checks that failed, at least 1.
    pub(crate) failed: u64,
}

impl<T: Into<String>> From<T> for Failure {
    fn from(text: T) -> Self {
        Self { text: text.into(), passed: 0, failed: 1 }
    }
}

/// What a step returns.
pub(crate) type Outcome = Result<Done, Failure>;

/// The tally of a run.
pub(crate) struct Report {
    log_folder: PathBuf,
    started: Instant,
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Report {
    /// An empty tally that keeps logs in `log_folder`.
    pub(crate) fn new(log_folder: PathBuf) -> Self {
        Self { log_folder, started: Instant::now(), passed: 0, failed: 0, skipped: 0 }
    }

    /// Where a step keeps what its commands print.
    pub(crate) fn log(&self, step: &str) -> Log {
        let name: String =
            step.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        Log { path: self.log_folder.join(format!("{name}.log")) }
    }

    /// Runs one step and prints its line.
    pub(crate) fn step(&mut self, name: &str, rerun: &str, run: impl FnOnce(&Log) -> Outcome) {
        let log = self.log(name);
        let started = Instant::now();
        let outcome = match log.clear().map_err(Failure::from).and_then(|()| run(&log)) {
            Ok(Done::Passed(0) | Done::Told(0, _)) => Err(Failure::from("nothing was checked")),
            outcome => outcome,
        };
        let seconds = started.elapsed().as_secs_f64();
        match outcome {
            Ok(Done::Passed(count)) => {
                self.passed += count;
                say(&format!("ok       {name:<32} {seconds:>7.1} s"));
            }
            Ok(Done::Told(count, lines)) => {
                self.passed += count;
                say(&format!("ok       {name:<32} {seconds:>7.1} s"));
                lines.iter().for_each(|line| say(&format!("         {line}")));
            }
            Ok(Done::Skipped(why)) => {
                self.skipped += 1;
                say(&format!("skipped  {name:<32} {why}"));
            }
            Err(failure) => {
                self.passed += failure.passed;
                self.failed += failure.failed.max(1);
                if log.text().is_empty() {
                    log.note(&failure.text);
                }
                say(&format!("FAILED   {name:<32} {seconds:>7.1} s"));
                say(&shorten(&failure.text));
                say(&format!("         log:   {}", log.path.display()));
                say(&format!("         rerun: {rerun}"));
            }
        }
    }

    /// Prints the last line, and says how the run ended.
    pub(crate) fn close(self) -> ExitCode {
        say(&format!("in {} s", self.started.elapsed().as_secs()));
        say(&self.last_line());
        if self.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// The line that other programs read.
    fn last_line(&self) -> String {
        let Self { passed, failed, skipped, .. } = self;
        format!("{passed} passed, {failed} failed, {skipped} skipped")
    }

    /// True if something passed and nothing failed: a run that skipped everything proves nothing.
    pub(crate) fn is_good(&self) -> bool {
        self.passed > 0 && self.failed == 0
    }
}

/// Prints a line at once, so that a log that is being followed is never behind.
fn say(line: &str) {
    let mut out = io::stdout().lock();
    // A closed pipe is the reader's wish, not a failed check.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Indents the last lines of a text.
fn shorten(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let skipped = lines.len().saturating_sub(SHOWN_LINES_MAX);
    let mut shown = Vec::new();
    if skipped > 0 {
        shown.push(format!("         ... {skipped} lines before, in the log"));
    }
    shown.extend(lines[skipped..].iter().map(|line| format!("         {line}")));
    shown.join("\n")
}

/// What the commands of one step printed.
pub(crate) struct Log {
    path: PathBuf,
}

impl Log {
    fn clear(&self) -> Result<(), String> {
        let file = self.open()?;
        file.set_len(0).map_err(|error| format!("{}: {error}", self.path.display()))
    }

    /// The log of a part of the step, which runs beside others: a file of its own.
    pub(crate) fn part(&self, name: &str) -> Log {
        let step = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let part = Log { path: self.path.with_file_name(format!("{step}-{name}.log")) };
        // Appended to, so an earlier run's lines would be read as this run's. Where the file cannot be emptied,
        // nothing can be added either, and the command fails.
        let _ = part.clear();
        part
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// All that was printed so far.
    pub(crate) fn text(&self) -> String {
        let bytes = fs::read(&self.path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Adds a line of our own.
    pub(crate) fn note(&self, line: &str) {
        if let Ok(mut file) = self.open() {
            let _ = writeln!(file, "{line}");
        }
    }

    /// The file, to be appended to.
    pub(crate) fn open(&self) -> Result<File, String> {
        let folder = self.path.parent().expect("a log lies in a folder");
        fs::create_dir_all(folder)
            .and_then(|()| File::options().create(true).append(true).open(&self.path))
            .map_err(|error| format!("{}: {error}", self.path.display()))
    }

    /// Runs a command to its end, its output into this log; an error is its whole output.
    pub(crate) fn run(&self, command: &mut Command, limit: Duration) -> Result<(), String> {
        self.note(&format!("$ {}", spell(command)));
        let before = self.text().len();
        let (out, err) = (self.open()?, self.open()?);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .map_err(|error| format!("{}: {error}", spell(command)))?;
        let started = Instant::now();
        let status = loop {
            let ended = child.try_wait().map_err(|error| error.to_string())?;
            if let Some(status) = ended {
                break status;
            }
            if started.elapsed() > limit {
                kill_tree(child.id());
                let _ = child.wait();
                let said = self.text();
                let said = said.get(before..).unwrap_or_default();
                return Err(format!("{said}\nkilled: longer than {} s", limit.as_secs()));
            }
            thread::sleep(POLL_INTERVAL);
        };
        if status.success() {
            return Ok(());
        }
        let said = self.text();
        let said = said.get(before..).unwrap_or_default();
        Err(format!("{said}\n{}: {status}", spell(command)))
    }

    /// Runs a command as [`Log::run`] does, and returns what it printed.
    pub(crate) fn output(&self, command: &mut Command, limit: Duration) -> Result<String, String> {
        let before = self.text().len();
        self.run(command, limit)?;
        Ok(self.text().get(before..).unwrap_or_default().to_owned())
    }
}

/// A command as one would type it.
fn spell(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::Repository;

    fn report(name: &str) -> Report {
        Report::new(Repository::find().unwrap().work_folder().join("test").join(name))
    }

    #[test]
    fn a_step_that_checked_nothing_has_failed() {
        let mut report = report("nothing");
        report.step("real", "", |_| Ok(Done::Passed(3)));
        report.step("empty", "", |_| Ok(Done::Passed(0)));
        assert_eq!(report.last_line(), "3 passed, 1 failed, 0 skipped");
        assert!(!report.is_good());
    }

    #[test]
    fn skips_are_in_the_last_line_and_a_run_of_skips_is_not_good() {
        let mut report = report("skips");
        report.step("absent", "", |_| Ok(Done::Skipped("no `go` on this machine".to_owned())));
        assert_eq!(report.last_line(), "0 passed, 0 failed, 1 skipped");
        assert!(!report.is_good());
        report.step("real", "", |_| Ok(Done::Passed(1)));
        assert!(report.is_good());
    }
}
