//! Statements through the real server, answered as Apache Cassandra answers: `cargo ci golden`.
//!
//! ```text
//! ci/golden/topics/*.txt ─► passes: 1 and 3 shards
//!                                 × on memtables, after flushes, after compactions, after restarts
//!                                 × writes plain and prepared
//!                           each read of each pass: plain and prepared, in pages of 1, 2, 5,000
//!                           and as a whole
//! ```
//!
//! `--record --port P` asks Apache Cassandra 5.0.9 at that port instead, and writes its answers into
//! the files: none is written by hand. Where we differ on purpose, the case says why; where we
//! differ by a defect, `ci/golden/known-differences.txt` lists the case under its cause.
//!
//! Invariants
//! 1. Every case is answered in every pass, and each answer is compared.
//! 2. A listed difference that is gone fails the run.

mod client;
mod differences;
mod kind;
mod known;
mod literal;
mod pass;
mod planted;
mod session;
mod suite;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cql::frame::Version;
use known::Known;
use pass::{Answers, Plan, agrees};
pub(crate) use planted::planted;
use suite::Topic;

use crate::repository::Repository;
use crate::server::{Address, DataFolder, Server};
use crate::step::{Done, Failure, Log, Outcome};

/// The suite's folder.
const FOLDER: &str = "ci/golden";
/// Shards of the servers.
const SHARDS: [u32; 2] = [1, 3];
/// Failures that are shown; the log has all of them.
const SHOWN_MAX: usize = 20;

/// What to run.
#[derive(Default)]
pub(crate) struct Choice {
    /// Only these topics; all of them if none is named.
    pub(crate) topics: Vec<String>,
    /// Write the answers of the server at the address into the suite.
    pub(crate) record: bool,
    /// Where `messina` and `messina-admin` are, below the root.
    pub(crate) programs: PathBuf,
    /// A bug that the server is started with: a build with the feature `planted` knows some.
    pub(crate) plant: Option<String>,
}

/// What the rows of a read lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Storage {
    Memtables,
    Flushed,
    Compacted,
    Restarted,
}

use Storage::{Compacted, Flushed, Memtables, Restarted};

/// All of them.
const STORAGES: [Storage; 4] = [Memtables, Flushed, Compacted, Restarted];

/// Runs or records the suite.
pub(crate) fn run(
    repository: &Repository,
    choice: &Choice,
    address: Option<Address>,
    log: &Log,
) -> Outcome {
    let topics = topics(repository, &choice.topics)?;
    match (address, choice.record) {
        (Some(address), true) => record(repository, topics, &address, log),
        (None, true) => Err(Failure::from("--record needs the --port of an Apache Cassandra")),
        (Some(address), false) => {
            let found = elsewhere(&topics, &address)?;
            judge(repository, &topics, &found, log)
        }
        (None, false) => {
            let found = everywhere(repository, choice, &topics, log)?;
            judge(repository, &topics, &found, log)
        }
    }
}

/// The files of the suite.
fn topics(repository: &Repository, names: &[String]) -> Result<Vec<Topic>, String> {
    let folder = repository.root().join(FOLDER).join("topics");
    let mut topics = Vec::new();
    let entries =
        fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if names.is_empty() || names.contains(&name) {
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            topics.push(Topic::parse(&name, &text)?);
        }
    }
    topics.sort_by(|a, b| a.name.cmp(&b.name));
    let missing = names.iter().find(|name| !topics.iter().any(|topic| topic.name == **name));
    missing.map_or(Ok(topics), |name| Err(format!("there is no topic {name}")))
}

/// What was found in all passes: the distinct answers of each case, and where each came first.
#[derive(Default)]
struct Found {
    of_case: BTreeMap<(usize, usize), Vec<(String, String)>>,
    checks: u64,
}

impl Found {
    fn add(&mut self, pass: &str, answers: Answers) {
        self.checks += answers.checks;
        for (case, distinct) in answers.of_case {
            let known = self.of_case.entry(case).or_default();
            for (answer, mode) in distinct {
                if !known.iter().any(|(text, _)| *text == answer) {
                    known.push((answer, format!("{pass}, {mode}")));
                }
            }
        }
    }
}

/// All passes over fresh servers, those of one and of three shards side by side.
fn everywhere(
    repository: &Repository,
    choice: &Choice,
    topics: &[Topic],
    log: &Log,
) -> Result<Found, String> {
    let mut found = Found::default();
    let passes = std::thread::scope(|scope| {
        let start = |shards| {
            scope.spawn(move || passes(repository, choice, topics, (shards, &STORAGES), log))
        };
        let started: Vec<_> = SHARDS.into_iter().map(start).collect();
        started.into_iter().map(|t| t.join().map_err(|_| "a pass panicked")).collect::<Vec<_>>()
    });
    for shards in passes {
        for (name, answers) in shards?? {
            found.add(&name, answers);
        }
    }
    Ok(found)
}

/// The passes with so many shards in these states of storage, on one data folder.
fn passes(
    repository: &Repository,
    choice: &Choice,
    topics: &[Topic],
    (shards, storages): (u32, &[Storage]),
    log: &Log,
) -> Result<Vec<(String, Answers)>, String> {
    let folder = DataFolder::new(repository, &format!("golden-{shards}"))?;
    let mut node = Node {
        repository,
        programs: repository.root().join(&choice.programs),
        plant: choice.plant.clone(),
        data: folder.join("data"),
        shards,
        server: None,
        log,
    };
    let mut all = Vec::new();
    for &storage in storages {
        for prepared_writes in [false, true] {
            let v5 = prepared_writes == (shards == 1);
            let version = if v5 { Version::V5 } else { Version::V4 };
            let has_barriers = storage != Memtables;
            let plan = Plan { prepared_writes, version, has_barriers };
            let writes = if prepared_writes { "prepared" } else { "plain" };
            let name = format!("{shards} shards, {storage:?}, {writes} writes, {version:?}");
            log.note(&format!("pass: {name}"));
            let address = node.start()?;
            let barrier = |round| node.barrier(storage, round);
            let answers = pass::run(topics, plan, &address, barrier);
            all.push((name.clone(), answers.map_err(|why| format!("{name}: {why}"))?));
        }
    }
    node.stop()?;
    folder.discard()?;
    Ok(all)
}

/// A server that is flushed, compacted and restarted.
struct Node<'a> {
    repository: &'a Repository,
    programs: PathBuf,
    plant: Option<String>,
    data: PathBuf,
    shards: u32,
    server: Option<Server>,
    log: &'a Log,
}

impl Node<'_> {
    /// Starts the server unless it runs.
    fn start(&mut self) -> Result<Address, String> {
        if self.server.is_none() {
            let mut server = Server::start_from(
                (self.repository, &self.programs),
                &self.data,
                self.shards,
                self.plant.as_deref(),
                self.log,
            )?;
            server.wait_ready()?;
            self.server = Some(server);
        }
        Ok(self.server.as_ref().expect("it was started").address.clone())
    }

    /// Moves what was written to where the next reads shall find it.
    fn barrier(&mut self, storage: Storage, round: usize) -> Result<Address, String> {
        match storage {
            Memtables => {}
            Flushed => self.admin("flush")?,
            Compacted => {
                self.admin("flush")?;
                self.admin("compact")?;
            }
            // By turns after a stop, which flushes, and after a crash, which leaves the log.
            Restarted if round.is_multiple_of(2) => self.stop()?,
            Restarted => {
                self.server.take().map_or(Ok(String::new()), Server::kill)?;
            }
        }
        self.start()
    }

    fn admin(&self, command: &str) -> Result<(), String> {
        let program = self.programs.join("messina-admin");
        let mut admin = Command::new(&program);
        let output = admin.arg("--data-dir").arg(&self.data).arg(command).output();
        let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    fn stop(&mut self) -> Result<(), String> {
        self.server.take().map_or(Ok(()), Server::stop)
    }
}

/// Two passes over a server that is there already, of whatever kind.
fn elsewhere(topics: &[Topic], address: &Address) -> Result<Found, String> {
    let mut found = Found::default();
    for prepared_writes in [false, true] {
        let plan = Plan { prepared_writes, version: Version::V5, has_barriers: false };
        let answers = pass::run(topics, plan, address, |_| Ok(address.clone()))?;
        let writes = if prepared_writes { "prepared" } else { "plain" };
        found.add(&format!("{writes} writes"), answers);
    }
    Ok(found)
}

/// Writes a server's answers into the suite.
fn record(
    repository: &Repository,
    mut topics: Vec<Topic>,
    address: &Address,
    log: &Log,
) -> Outcome {
    let found = elsewhere(&topics, address)?;
    let mut complaints = Vec::new();
    for ((topic, case), answers) in &found.of_case {
        let topic = &mut topics[*topic];
        let case = &mut topic.cases[*case];
        case.answer = answers[0].0.clone();
        case.others.clear();
        for (other, mode) in &answers[1..] {
            if agrees(&case.answer, other) {
                continue;
            }
            let way = mode.split_once(", ").map_or(mode.as_str(), |(_, way)| way);
            case.others.push((way.to_owned(), other.clone()));
            if !other.starts_with("error ") {
                let line = case.line();
                complaints.push(format!("{}: {line}\n  {mode}: {other}", topic.name));
            }
        }
    }
    for topic in &topics {
        let path = repository.root().join(FOLDER).join(format!("topics/{}.txt", topic.name));
        fs::write(&path, topic.render()).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    log.note(&complaints.join("\n"));
    match complaints.is_empty() {
        true => Ok(Done::Passed(found.checks)),
        false => {
            let told = complaints.join("\n");
            Err(Failure::from(format!("the rows depend on how they are asked for:\n{told}")))
        }
    }
}

/// Compares what was found with what is expected and what is known.
fn judge(repository: &Repository, topics: &[Topic], found: &Found, log: &Log) -> Outcome {
    let complaints = complaints(topics, found, &known(repository)?);
    log.note(&complaints.join("\n\n"));
    match complaints.len() as u64 {
        0 if found.checks == 0 => Err(Failure::from("no statement was run")),
        0 => Ok(Done::Passed(found.checks)),
        failed => {
            let shown = complaints.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>();
            let passed = found.checks.saturating_sub(failed);
            Err(Failure { text: shown.join("\n\n"), passed, failed })
        }
    }
}

/// The differences that are known.
fn known(repository: &Repository) -> Result<Known, String> {
    let list = repository.root().join(FOLDER).join("known-differences.txt");
    let text = fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
    Known::parse(&text)
}

fn complaints(topics: &[Topic], found: &Found, known: &Known) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut all_keys = Vec::new();
    for (number, topic) in topics.iter().enumerate() {
        let keys = topic.keys();
        for (at, (case, key)) in topic.cases.iter().zip(&keys).enumerate() {
            let right = case.right_answers();
            let is_right = |answer: &str| right.iter().any(|right| agrees(right, answer));
            let answers = found.of_case.get(&(number, at)).map_or(&[][..], Vec::as_slice);
            let wrong = answers.iter().find(|(answer, _)| !is_right(answer));
            match (wrong, known.holds(key)) {
                (None, false) if !answers.is_empty() => {}
                (None, false) => complaints.push(format!("{key}\n  was not run")),
                (Some(_), true) => {}
                (Some((answer, pass)), false) => {
                    complaints.push(format!("{key}\n- {}\n+ {answer}\n  ({pass})", right[0]));
                }
                (None, true) => {
                    complaints.push(format!("{key}\n  is right now: take it off the list"));
                }
            }
        }
        all_keys.extend(keys);
    }
    let names: Vec<&str> = topics.iter().map(|topic| topic.name.as_str()).collect();
    let strangers = known.strangers(&names, &all_keys);
    complaints.extend(strangers.iter().map(|line| format!("{line}\n  is listed and no case")));
    complaints
}

/// The part of docs/conformance.md that says what answers otherwise, from its heading on.
pub(crate) fn differences(repository: &Repository) -> Result<String, String> {
    Ok(differences::render(&topics(repository, &[])?, &known(repository)?))
}

/// The folder of the release build below the root.
pub(crate) fn release() -> PathBuf {
    Path::new("target").join("release")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Report;

    fn found(answers: &[&str]) -> Found {
        let answers = answers.iter().map(|answer| ((*answer).to_owned(), "somewhere".to_owned()));
        Found { of_case: [((0, 0), answers.collect())].into(), checks: 1 }
    }

    #[test]
    fn what_differs_is_told_unless_it_is_known() {
        let topics = [Topic::parse("t", "SELECT v;\n----\nv int\n1\n").unwrap()];
        let (none, listed) = (Known::default(), Known::parse("# c\nt: SELECT v\n").unwrap());
        assert!(complaints(&topics, &found(&["v int\n1"]), &none).is_empty());
        let wrong = found(&["v int\n1", "v int\n2"]);
        assert!(complaints(&topics, &wrong, &none)[0].contains("(somewhere)"));
        assert!(complaints(&topics, &wrong, &listed).is_empty());
        let right = complaints(&topics, &found(&["v int\n1"]), &listed);
        assert!(right[0].contains("take it off the list"));
        assert!(complaints(&topics, &Found::default(), &none)[0].contains("was not run"));
        let stranger = Known::parse("# c\nt: SELECT w\n").unwrap();
        let told = complaints(&topics, &found(&["v int\n1"]), &stranger);
        assert!(told[0].contains("is listed and no case"));
    }

    /// A wrong answer fails the step, and so does a run that asked nothing.
    #[test]
    fn a_wrong_answer_fails_the_step() {
        let repository = Repository::find().unwrap();
        let topics = [Topic::parse("t", "SELECT v;\n----\nv int\n1\n").unwrap()];
        let folder = repository.work_folder().join("test/golden-judge");
        let mut report = Report::new(folder);
        let mut judged = |found: Found| {
            report.step("golden", "", |log| judge(&repository, &topics, &found, log));
            report.is_good()
        };
        assert!(judged(found(&["v int\n1"])));
        assert!(!judged(found(&["v int\n1", "v int\n2"])));
        assert!(!judged(Found::default()));
    }

    /// docs/conformance.md lists every reason and every cause of the suite.
    #[test]
    fn the_page_lists_all_differences() {
        let repository = Repository::find().unwrap();
        let path = repository.root().join("docs/conformance.md");
        let page = fs::read_to_string(&path).unwrap();
        let written = page.split_once(differences::HEADING).map_or(&page[..], |(head, _)| head);
        let wanted = format!("{written}{}", differences(&repository).unwrap());
        if std::env::var_os("MESSINA_BLESS").is_some() {
            fs::write(&path, &wanted).unwrap();
        }
        assert!(fs::read_to_string(&path).unwrap() == wanted, "MESSINA_BLESS=1 writes the page");
    }

    /// The suite is as large as it promises, and its files are as the recorder writes them.
    #[test]
    fn the_suite_is_whole() {
        let repository = Repository::find().unwrap();
        let topics = topics(&repository, &[]).unwrap();
        let statements: usize = topics.iter().map(|topic| topic.cases.len()).sum();
        assert!(topics.len() >= 25, "{} topics", topics.len());
        assert!(statements >= 600, "{statements} statements");
        for topic in &topics {
            let path = format!("{FOLDER}/topics/{}.txt", topic.name);
            let text = fs::read_to_string(repository.root().join(&path)).unwrap();
            assert_eq!(topic.render(), text, "{path} is not as `--record` writes it");
            assert!(!topic.about.is_empty(), "{path} does not say what it is about");
        }
        let list = repository.root().join(FOLDER).join("known-differences.txt");
        let known = Known::parse(&fs::read_to_string(list).unwrap()).unwrap();
        assert!(known.len() * 10 < statements, "{} known differences", known.len());
    }
}
