//! Statements through the real server, answered as Apache Cassandra answers: `cargo ci golden`.
//!
//! ```text
//! ci/golden/topics/*.txt ─► passes: 1 and 3 shards
//!                                 × on memtables, after flushes, after compactions, after restarts
//!                                 × writes plain and prepared: all 16 passes, or 8 (`WriteForms`)
//!                           each read of each pass: plain and prepared, in pages of 1, 2, 5,000
//!                           and as a whole
//! ```
//!
//! `--record --port P` asks Apache Cassandra 5.0.9 at that port instead, and writes its answers into
//! the files: none is written by hand. Where we differ on purpose, the case says why and what we
//! answer; where we differ by a defect, it says by which, and what we answer today.
//!
//! Invariants
//! 1. Every case is answered in every pass, and each answer is compared.
//! 2. A case that is not mended is answered as it says and in no other way: another wrong answer fails
//!    the run, and so does the right one until the block is taken out.

mod differences;
mod kind;
mod literal;
mod pass;
mod planted;
mod session;
mod suite;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cql::frame::Version;
use pass::{Answers, Plan, Round, agrees};
pub(crate) use planted::{build as build_planted, planted};
use session::Mode;
use suite::{Case, Topic};

use crate::load;
use crate::repository::Repository;
use crate::server::{Address, DataFolder, Server, Setup};
use crate::step::{Done, Failure, Log, Outcome};

/// The suite's folder.
const FOLDER: &str = "ci/golden";
/// What the servers are told beside, as the Apache Cassandra was that answered.
const SETTINGS: &str = "messina.yaml";
/// Shards of the servers.
const SHARDS: [u32; 2] = [1, 3];
/// A flush or a compaction of what the suite writes takes seconds.
const ADMIN_LIMIT: Duration = Duration::from_secs(60);
/// Failures that are shown; the log has all of them.
const SHOWN_MAX: usize = 20;

/// In which of their two forms, plain and prepared, statements are written, and by which version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WriteForms {
    /// Two passes for each state of storage and number of shards: one plain, one prepared. 16 passes.
    #[default]
    Both,
    /// One pass for each: plain with one number of shards, prepared with the other. 8 passes, in which every pair of
    /// storage, shards, form and version comes.
    Alternating,
}

/// What to run.
#[derive(Default)]
pub(crate) struct Choice {
    /// Only these topics; all of them if none is named.
    pub(crate) topics: Vec<String>,
    /// In which forms statements are written.
    pub(crate) forms: WriteForms,
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
            judge(&topics, &found, log)
        }
        (None, false) => {
            let found = everywhere(repository, choice, &topics, log)?;
            judge(&topics, &found, log)
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

/// What was found in all passes: the distinct answers of each case in each mode.
#[derive(Default)]
struct Found {
    of_case: BTreeMap<(usize, usize), Vec<Got>>,
    checks: u64,
}

/// An answer, how it was asked for, and in which pass it came first.
#[derive(Debug)]
struct Got {
    answer: String,
    mode: Mode,
    pass: String,
}

impl Found {
    fn add(&mut self, pass: &str, answers: Answers) {
        self.checks += answers.checks;
        for (case, distinct) in answers.of_case {
            let known = self.of_case.entry(case).or_default();
            for (answer, mode) in distinct {
                if !known.iter().any(|got| got.answer == answer && got.mode == mode) {
                    known.push(Got { answer, mode, pass: pass.to_owned() });
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
        for (prepared_writes, version) in choice.forms.of(storage, shards) {
            let has_barriers = storage != Memtables;
            let plan = Plan { prepared_writes, version, has_barriers };
            let writes = if prepared_writes { "prepared" } else { "plain" };
            let name = format!("{shards} shards, {storage:?}, {writes} writes, {version:?}");
            log.note(&format!("pass: {name}"));
            let address = node.start()?;
            let barrier = |round: &Round| node.barrier(storage, round);
            let answers = pass::run(topics, plan, &address, barrier);
            all.push((name.clone(), answers.map_err(|why| format!("{name}: {why}"))?));
        }
    }
    node.stop()?;
    folder.discard()?;
    Ok(all)
}

impl WriteForms {
    /// The passes over a state of storage with so many shards: of each, whether its writes are prepared, and the
    /// version of the protocol.
    fn of(self, storage: Storage, shards: u32) -> Vec<(bool, Version)> {
        let is_first = shards == SHARDS[0];
        let is_early = matches!(storage, Memtables | Flushed);
        let version = if is_early == is_first { Version::V5 } else { Version::V4 };
        let prepared: &[bool] = match self {
            WriteForms::Both => &[false, true],
            WriteForms::Alternating => {
                let is_odd = matches!(storage, Flushed | Restarted);
                if is_odd == is_first { &[true] } else { &[false] }
            }
        };
        prepared.iter().map(|&prepared| (prepared, version)).collect()
    }
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
            let setup = Setup {
                programs: self.programs.clone(),
                plant: self.plant.as_deref(),
                config: Some(self.repository.root().join(FOLDER).join(SETTINGS)),
                ..Setup::new(self.repository, &self.data, self.shards)
            };
            let mut server = Server::start_as(&setup, self.log)?;
            server.wait_ready()?;
            self.server = Some(server);
        }
        Ok(self.server.as_ref().expect("it was started").address.clone())
    }

    /// Moves what was written to where the next reads shall find it.
    fn barrier(&mut self, storage: Storage, round: &Round) -> Result<Address, String> {
        match storage {
            Memtables => {}
            Flushed => self.admin(&["flush"])?,
            Compacted => {
                self.admin(&["flush"])?;
                // Of the others each table is one run already: to write them all again took most of the suite's time.
                round.written.iter().try_for_each(|keyspace| self.admin(&["compact", keyspace]))?;
            }
            // By turns after a stop, which flushes, and after a crash, which leaves the log.
            Restarted if round.number.is_multiple_of(2) => self.stop()?,
            Restarted => {
                self.server.take().map_or(Ok(String::new()), Server::kill)?;
            }
        }
        self.start()
    }

    fn admin(&self, command: &[&str]) -> Result<(), String> {
        let mut admin = load::admin_command(self.repository, &self.programs, &self.data, command);
        self.log.run(&mut admin, ADMIN_LIMIT)
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
    let complaints = take_answers(&mut topics, &found);
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

/// Makes what was found the answers of the cases. What they say of our own answers stays. Gives
/// rows that depend on how they are asked for.
fn take_answers(topics: &mut [Topic], found: &Found) -> Vec<String> {
    let mut complaints = Vec::new();
    for ((topic, case), answers) in &found.of_case {
        let topic = &mut topics[*topic];
        let case = &mut topic.cases[*case];
        case.answer = answers[0].answer.clone();
        case.others.clear();
        for Got { answer: other, mode, .. } in &answers[1..] {
            let is_known = case.others.iter().any(|(_, known)| known == other);
            if is_known || agrees(&case.answer, other) {
                continue;
            }
            case.others.push((mode.to_string(), other.clone()));
            if !other.starts_with("error ") {
                let line = case.line();
                complaints.push(format!("{}: {line}\n  {mode}: {other}", topic.name));
            }
        }
    }
    complaints
}

/// Compares what was found with what is expected.
fn judge(topics: &[Topic], found: &Found, log: &Log) -> Outcome {
    let complaints = complaints(topics, found);
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

/// What is wrong with the answers, case by case.
fn complaints(topics: &[Topic], found: &Found) -> Vec<String> {
    let mut complaints = Vec::new();
    for (number, topic) in topics.iter().enumerate() {
        for (at, (case, key)) in topic.cases.iter().zip(topic.keys()).enumerate() {
            let answers = found.of_case.get(&(number, at)).map_or(&[][..], Vec::as_slice);
            let complaint = match answers.is_empty() {
                true => Some("  was not run".to_owned()),
                false => complaint(case, answers),
            };
            complaints.extend(complaint.map(|text| format!("{key}\n{text}")));
        }
    }
    complaints
}

/// What is wrong with the distinct answers to one case, of which there is at least one.
fn complaint(case: &Case, answers: &[Got]) -> Option<String> {
    let is_right =
        |got: &Got| case.right_answers(got.mode).iter().any(|right| agrees(right, &got.answer));
    let today: Vec<&str> = case.not_mended.iter().map(|(_, answer)| answer.as_str()).collect();
    if !today.is_empty() && answers.iter().all(is_right) {
        return Some("  is right now: take it out".to_owned());
    }
    let is_expected = |got: &Got| match today.is_empty() {
        true => is_right(got),
        false => today.contains(&got.answer.as_str()),
    };
    if let Some(got) = answers.iter().find(|got| !is_expected(got)) {
        let right = case.right_answers(got.mode);
        let expected = today.first().or(right.first()).copied().unwrap_or_default();
        let Got { answer, mode, pass } = got;
        return Some(format!("- {expected}\n+ {answer}\n  ({pass}, {mode})"));
    }
    let has_come = |today: &str| answers.iter().any(|got| got.answer == today);
    let gone = today.into_iter().find(|today| !has_come(today))?;
    Some(format!("- {gone}\n  is answered no more: take it out"))
}

/// The part of docs/conformance.md that says what answers otherwise, from its heading on.
pub(crate) fn differences(repository: &Repository) -> Result<String, String> {
    Ok(differences::render(&topics(repository, &[])?))
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
        let answers = answers.iter().map(|answer| Got {
            answer: (*answer).to_owned(),
            mode: Mode { prepared: false, page_rows: None },
            pass: "somewhere".to_owned(),
        });
        Found { of_case: [((0, 0), answers.collect())].into(), checks: 1 }
    }

    /// The complaints about these answers to the only case of a file.
    fn told(file: &str, answers: &[&str]) -> Vec<String> {
        complaints(&[Topic::parse("t", file).unwrap()], &found(answers))
    }

    /// Half of the passes still meet every pair of storage, shards, form of writes and version of the protocol.
    #[test]
    fn alternating_passes_meet_every_pair() {
        let mut met = std::collections::HashSet::new();
        for storage in STORAGES {
            for (at, shards) in SHARDS.into_iter().enumerate() {
                let of = WriteForms::Alternating.of(storage, shards);
                assert!(WriteForms::Both.of(storage, shards).contains(&of[0]), "all have them");
                assert_eq!(of.len(), 1, "of {storage:?}, {shards}");
                for (prepared, version) in of {
                    let what = [storage as usize, at, usize::from(prepared), version as usize];
                    let pairs = (0..4).flat_map(|a| (0..a).map(move |b| (a, b)));
                    met.extend(pairs.map(|(a, b)| (a, what[a], b, what[b])));
                }
            }
        }
        let (storages, twos) = (STORAGES.len(), 3);
        assert_eq!(met.len(), storages * 2 * twos + twos * 2 * 2, "{met:?}");
    }

    #[test]
    fn what_differs_is_told() {
        let file = "SELECT v;\n----\nv int\n1\n";
        assert!(told(file, &["v int\n1"]).is_empty());
        let wrong = "t: SELECT v\n- v int\n1\n+ v int\n2\n  (somewhere, plain)";
        assert_eq!(told(file, &["v int\n1", "v int\n2"]), [wrong]);
        let topics = [Topic::parse("t", file).unwrap()];
        assert!(complaints(&topics, &Found::default())[0].contains("was not run"));
    }

    #[test]
    fn a_case_that_is_not_mended_is_answered_as_it_says() {
        let file = "SELECT v;\n----\nv int\n1\n---- not mended: c\nerror 0x2200 No\n";
        assert!(told(file, &["error 0x2200 No"]).is_empty());
        let another = told(file, &["error 0x2200 No such function"]);
        assert!(another[0].contains("+ error 0x2200 No such"), "{another:?}");
        let right_in_one_way = told(file, &["error 0x2200 No", "v int\n1"]);
        assert!(right_in_one_way[0].contains("+ v int\n1"), "{right_in_one_way:?}");
        assert_eq!(told(file, &["v int\n1"]), ["t: SELECT v\n  is right now: take it out"]);
        let topics = [Topic::parse("t", file).unwrap()];
        assert!(complaints(&topics, &Found::default())[0].contains("was not run"));
    }

    #[test]
    fn each_answer_of_a_case_that_is_not_mended_comes() {
        let file =
            "SELECT v;\n----\nv int\n1\n---- not mended: c\nv int\n2\n---- not mended: c\nv int\n";
        assert!(told(file, &["v int", "v int\n2"]).is_empty());
        let gone = told(file, &["v int\n2"]);
        assert!(gone[0].contains("- v int\n  is answered no more"), "{gone:?}");
    }

    #[test]
    fn recording_keeps_what_is_said_of_our_own_answers() {
        let file = "SELECT v;\n----\nv int\n1\n---- messina: w\nv int\n3\n---- not mended: c\nok\n";
        let mut topics = [Topic::parse("t", file).unwrap()];
        assert!(take_answers(&mut topics, &found(&["v int\n5"])).is_empty());
        assert_eq!(topics[0].render(), format!("\n{}", file.replace("v int\n1", "v int\n5")));
    }

    /// A wrong answer fails the step, and so does a run that asked nothing.
    #[test]
    fn a_wrong_answer_fails_the_step() {
        let repository = Repository::find().unwrap();
        let topics = [Topic::parse("t", "SELECT v;\n----\nv int\n1\n").unwrap()];
        let folder = repository.work_folder().join("test/golden-judge");
        let mut report = Report::new(folder);
        let mut judged = |found: Found| {
            report.step("golden", "", |log| judge(&topics, &found, log));
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
        let cases = topics.iter().flat_map(|topic| &topic.cases);
        let not_mended = cases.filter(|case| !case.not_mended.is_empty()).count();
        assert!(not_mended * 10 < statements, "{not_mended} cases are not mended");
    }
}
