//! How much of CQL answers as Apache Cassandra does: `cargo ci conformance --suite DIR`.
//!
//! 1. `ci/conformance/cqlpy` runs the single-node tests of the public suite against a fresh server.
//! 2. Each outcome is compared with Apache Cassandra 5.0.9's (`cassandra-5.0.9.json`).
//! 3. What Cassandra passes and this server does not is sorted by area and cause (`causes.json`
//!    names causes by a part of the server's refusal; the rest keep their error's words).
//! 4. A test that expects an error, and is given the refusal of something that is not there, has not
//!    passed.
//! 5. The tests' calls of nodetool go to `messina-admin` (`ci/conformance/nodetool`), and are counted.
//! 6. The tests that the suite calls a defect of Cassandra's, and Cassandra fails, are counted beside (`marked`).
//! 7. The result is a document, written where `--write` says: that is how docs/conformance.md is made.
//!
//! Invariants
//! 1. The suite is somebody else's: it is named by a folder, and never committed.
//! 2. The first tests pass, and no area falls below what the page of before says; of an area of more than 20 tests one
//!    may fail.
//!
//! Not here: how a test is run and judged (`ci/conformance/cqlpy`).

mod marked;
mod page;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::golden;
use crate::repository::Repository;
use crate::server::{Address, DataFolder, Server, Setup};
use crate::step::{Done, Failure, Log, Outcome};

/// The whole suite takes 5 to 8 minutes on two cores; a server that hangs takes longer.
const SUITE_LIMIT: Duration = Duration::from_secs(60 * 60);
/// Shards of the server under test.
const SHARDS: u32 = 2;
/// Where the calls of nodetool are noted, a line each, in the work folder.
const NODETOOL_LOG: &str = "nodetool.log";
/// What every server needs before anything else: these tests must all pass.
const FIRST_TESTS: &str = include_str!("../conformance/first-tests");
/// The areas of the language's first cut.
const BASIC_AREAS: [&str; 7] =
    ["batches", "core-types", "ddl", "dml", "paging", "select", "ttl-timestamps"];
/// Where it is written how many tests of each area pass: a run must reach that.
const PAGE: &str = "docs/conformance.md";
/// Of an area with more tests than this one may fail for a bad moment.
const SMALL_AREA: u64 = 20;

/// Memory of each shard in MiB: the suite has rows of 11 MiB, and a row may have a tenth.
const SHARD_MEMORY_MB: u32 = 1024;

/// The outcome of a test that the run did not come to.
const NOT_RUN: &str = "it was not run";

/// What the run was made of.
struct Run {
    /// The suite's commit.
    commit: String,
    /// How often each command of nodetool was called, and whether it was done.
    nodetool: BTreeMap<(String, bool), u64>,
    /// What answers otherwise in the golden suite.
    differences: String,
    /// What the tests state that call Cassandra wrong.
    marked: Vec<marked::Group>,
}

/// What to run and where to write.
pub(crate) struct Choice {
    /// A checkout of the suite's repository.
    pub(crate) suite: PathBuf,
    /// Only these areas.
    pub(crate) areas: Vec<String>,
    /// Take the outcomes of the last run.
    pub(crate) again: bool,
    /// Where the document goes.
    pub(crate) write: Option<PathBuf>,
}

/// One test that Cassandra passes.
struct Verdict {
    test: String,
    area: String,
    is_passed: bool,
    /// Whether it expects an error and was given a refusal.
    is_refused: bool,
    /// Why it did not pass.
    cause: String,
}

/// Runs the suite and judges the outcomes.
pub(crate) fn run(
    repository: &Repository,
    choice: &Choice,
    address: Option<Address>,
    log: &Log,
) -> Outcome {
    let work = repository.work_folder().join("conformance");
    fs::create_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
    match address {
        _ if choice.again => {}
        // Nothing is known of its data directory.
        Some(address) => run_suite(repository, choice, (&address, "true"), &work, log)?,
        None => {
            let folder = DataFolder::new(repository, "conformance")?;
            let data = folder.join("data");
            // What the Apache Cassandra had switched on whose outcomes are compared.
            let config = Some(repository.root().join("ci/golden/messina.yaml"));
            let memory_mb = SHARD_MEMORY_MB * SHARDS;
            let setup = Setup { config, memory_mb, ..Setup::new(repository, &data, SHARDS) };
            let mut server = Server::start_as(&setup, log)?;
            server.wait_ready()?;
            let (admin, data) = (repository.program("messina-admin"), folder.join("data"));
            let words = [&repository.root().join("ci/conformance/nodetool"), &admin, &data];
            let words = words.map(|path| path.display().to_string()).join(" ");
            let nodetool = format!("{words} {}", work.join(NODETOOL_LOG).display());
            run_suite(repository, choice, (&server.address, &nodetool), &work, log)?;
            server.stop()?;
            folder.discard()?;
        }
    }
    let verdicts = verdicts(repository, &work, &choice.areas)?;
    let judged = judge(&verdicts, &floors(repository)?);
    // The floors are what the page says: a run that fell below them does not lower them.
    let lowers = |path: &PathBuf| judged.is_err() && path.ends_with(PAGE);
    if let Some(path) = choice.write.as_ref().filter(|path| !lowers(path)) {
        let run = Run {
            commit: commit(repository, &choice.suite)?,
            nodetool: nodetool(&work),
            differences: golden::differences(repository)?,
            marked: marked_groups(repository, &work)?,
        };
        fs::write(repository.root().join(path), page::render(&run, &verdicts))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    judged
}

/// How many tests of each area must pass.
fn floors(repository: &Repository) -> Result<BTreeMap<String, u64>, String> {
    let path = repository.root().join(PAGE);
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let floor = |(area, all, passed): (String, u64, u64)| {
        (area, passed.saturating_sub(u64::from(all > SMALL_AREA)))
    };
    Ok(page::by_area(&text).into_iter().map(floor).collect())
}

fn run_suite(
    repository: &Repository,
    choice: &Choice,
    (address, nodetool): (&Address, &str),
    work: &Path,
    log: &Log,
) -> Result<(), String> {
    let results = work.join("results.json");
    let _ = fs::remove_file(&results);
    let _ = fs::remove_file(work.join(NODETOOL_LOG));
    let mut command = repository.command("python3");
    command
        .arg(repository.root().join("ci/conformance/cqlpy"))
        .arg(&choice.suite)
        .args([&address.host, &address.port.to_string()])
        .arg("--work")
        .arg(work)
        .arg("--out")
        .arg(&results)
        .env("NODETOOL", nodetool);
    if !choice.areas.is_empty() {
        command.arg("--area").args(&choice.areas);
    }
    // Its exit status is 1 when anything is missed, which `judge` decides about.
    match log.run(&mut command, SUITE_LIMIT) {
        Err(text) if !results.is_file() => Err(text),
        _ => Ok(()),
    }
}

/// Compares the outcomes with Cassandra's, of the tests of these areas that Cassandra passes; no area means all. A test
/// that was not run is missed.
fn verdicts(
    repository: &Repository,
    work: &Path,
    areas: &[String],
) -> Result<Vec<Verdict>, String> {
    let mut verdicts = verdicts_of(repository, work, "passed")?;
    verdicts.retain(|verdict| areas.is_empty() || areas.contains(&verdict.area));
    Ok(verdicts)
}

/// The tests that call Cassandra wrong, of those that it fails.
fn marked_groups(repository: &Repository, work: &Path) -> Result<Vec<marked::Group>, String> {
    let path = repository.root().join("ci/conformance/cassandra-bugs.json");
    let mut groups = marked::groups(&path)?;
    for verdict in verdicts_of(repository, work, "failed")? {
        marked::place(&mut groups, &verdict);
    }
    Ok(groups)
}

/// What became of the tests that had this outcome with Cassandra.
fn verdicts_of(
    repository: &Repository,
    work: &Path,
    with_cassandra: &str,
) -> Result<Vec<Verdict>, String> {
    let folder = repository.root().join("ci/conformance");
    let outcomes = read_map(&work.join("results.json"))?;
    let baseline = read_map(&folder.join("cassandra-5.0.9.json"))?;
    let scope = read_map(&folder.join("scope.json"))?;
    let causes = read_json(&folder.join("causes.json"))?;
    let record = fs::read_to_string(work.join("record.jsonl")).unwrap_or_default();
    let (reasons, errors) = (reasons(&record), errors(&record));
    let mut verdicts = Vec::new();
    for (test, _) in baseline.iter().filter(|(_, outcome)| *outcome == with_cassandra) {
        let outcome = outcomes.get(test).map_or(NOT_RUN, String::as_str);
        let answered = errors.get(test).map_or(&[][..], Vec::as_slice);
        let refusal = answered.iter().find_map(|error| named_cause(&causes, error));
        let reason = reasons.get(test).map_or(outcome, String::as_str);
        let is_passed = outcome == "passed";
        verdicts.push(Verdict {
            test: test.clone(),
            area: area(&scope, test),
            is_passed: is_passed && refusal.is_none(),
            is_refused: is_passed && refusal.is_some(),
            cause: refusal.unwrap_or_else(|| cause(&causes, reason)),
        });
    }
    Ok(verdicts)
}

fn judge(verdicts: &[Verdict], floors: &BTreeMap<String, u64>) -> Outcome {
    let mut complaints: Vec<String> = verdicts
        .iter()
        .filter(|verdict| !verdict.is_passed && FIRST_TESTS.lines().any(|t| t == verdict.test))
        .map(|verdict| format!("a first test: {}: {}", verdict.test, verdict.cause))
        .collect();
    let mut passed_of: BTreeMap<&str, u64> = BTreeMap::new();
    for verdict in verdicts {
        *passed_of.entry(&verdict.area).or_default() += u64::from(verdict.is_passed);
    }
    for (area, passed) in passed_of {
        match floors.get(area) {
            None => complaints.push(format!("{area}: {PAGE} does not say how many pass")),
            Some(floor) if passed < *floor => {
                complaints.push(format!("{area}: {passed} tests pass, and {floor} must"));
            }
            Some(_) => {}
        }
    }
    let passed = verdicts.iter().filter(|verdict| verdict.is_passed).count() as u64;
    match complaints.len() as u64 {
        0 if passed == 0 => Err(Failure::from("no test that Cassandra passes was run")),
        0 => Ok(Done::Passed(passed)),
        failed => Err(Failure { text: complaints.join("\n"), passed, failed }),
    }
}

fn area(scope: &BTreeMap<String, String>, test: &str) -> String {
    let longest = scope.keys().filter(|key| test.starts_with(*key)).max_by_key(|key| key.len());
    longest.map_or("unclassified", |key| &scope[key]).to_owned()
}

/// The cause that a refusal of the server names.
fn named_cause(causes: &Value, error: &str) -> Option<String> {
    let named = |pair: &&Value| pair[0].as_str().is_some_and(|part| error.contains(part));
    let found = causes.as_array().into_iter().flatten().find(named);
    found.and_then(|pair| pair[1].as_str()).map(str::to_owned)
}

/// A named cause, or the error's words without what differs from run to run.
fn cause(causes: &Value, reason: &str) -> String {
    if let Some(named) = named_cause(causes, reason) {
        return named;
    }
    let words = reason.lines().next().unwrap_or_default().split_whitespace();
    let stable = words.filter(|word| !word.contains(|c: char| c.is_ascii_digit()));
    stable.collect::<Vec<_>>().join(" ").chars().take(160).collect()
}

/// Why each test did not pass, by its id.
fn reasons(record: &str) -> HashMap<String, String> {
    let mut reasons = HashMap::new();
    for line in record.lines() {
        let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
        let (id, why) = (entry["id"].as_str(), entry["why"].as_str());
        if let (Some(id), Some(why)) = (id, why)
            && !why.is_empty()
        {
            reasons.entry(id.to_owned()).or_insert_with(|| why.to_owned());
        }
    }
    reasons
}

/// What the server answered with during each test that was not its result, by the test's id.
fn errors(record: &str) -> HashMap<String, Vec<String>> {
    let mut errors: HashMap<String, Vec<String>> = HashMap::new();
    for line in record.lines() {
        let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
        let Some(id) = entry["id"].as_str() else { continue };
        let answered = entry["errors"].as_array().into_iter().flatten();
        let answered = answered.filter_map(Value::as_str).map(str::to_owned);
        errors.entry(id.to_owned()).or_default().extend(answered);
    }
    errors
}

/// The commit of the suite, which is a checkout or a bare repository.
fn commit(repository: &Repository, suite: &Path) -> Result<String, String> {
    for flag in ["-C", "--git-dir"] {
        let mut git = repository.command("git");
        let output = git.arg(flag).arg(suite).args(["rev-parse", "HEAD"]).output();
        let output = output.map_err(|error| format!("git rev-parse: {error}"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
    }
    Err(format!("{}: no commit is checked out there", suite.display()))
}

/// The calls of nodetool that were noted.
fn nodetool(work: &Path) -> BTreeMap<(String, bool), u64> {
    let mut calls = BTreeMap::new();
    for line in fs::read_to_string(work.join(NODETOOL_LOG)).unwrap_or_default().lines() {
        let Some((command, status)) = line.split_once(' ') else { continue };
        *calls.entry((command.to_owned(), status == "0")).or_default() += 1;
    }
    calls
}

fn read_json(path: &Path) -> Result<Value, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn read_map(path: &Path) -> Result<BTreeMap<String, String>, String> {
    let value = read_json(path)?;
    let map = value.as_object().ok_or_else(|| format!("{}: no object", path.display()))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(map.iter().map(|(key, value)| (key.clone(), text(value))).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verdict(test: &str, area: &str, is_passed: bool) -> Verdict {
        let (test, area, cause) = (test.into(), area.into(), "cause".into());
        Verdict { test, area, is_passed, is_refused: false, cause }
    }

    #[test]
    fn floors_are_kept() {
        let first = FIRST_TESTS.lines().next().unwrap();
        let floors = [("dml".to_owned(), 9), ("json".to_owned(), 0)].into();
        let judge = |verdicts: Vec<Verdict>| judge(&verdicts, &floors);
        let many = |passed: usize| (0..10).map(move |i| verdict("t", "dml", i < passed));
        assert!(judge(many(9).collect()).is_ok());
        assert!(judge(many(8).collect()).is_err());
        let missed = || std::iter::once(verdict(first, "json", false));
        assert!(judge(many(10).chain(missed()).collect()).is_err());
        assert!(judge(vec![verdict("t", "json", false)]).is_err(), "nothing passed");
        let unknown = verdict("t", "lwt", true);
        assert!(judge(many(10).chain([unknown]).collect()).is_err(), "no floor is known");
    }

    /// A run that was cut short has no outcome for the tests that it did not come to.
    #[test]
    fn a_test_that_was_not_run_is_missed() {
        let repository = Repository::find().unwrap();
        let work = repository.work_folder().join("test/conformance-cut-short");
        fs::create_dir_all(&work).unwrap();
        fs::write(work.join("results.json"), "{}").unwrap();
        let of_all = verdicts(&repository, &work, &[]).unwrap();
        assert!(of_all.len() > 600, "{} tests", of_all.len());
        assert!(of_all.iter().all(|verdict| !verdict.is_passed && verdict.cause == NOT_RUN));
        let of_dml = verdicts(&repository, &work, &["dml".to_owned()]).unwrap();
        assert!((1..of_all.len()).contains(&of_dml.len()));
        let floors = floors(&repository).unwrap();
        assert!(judge(&of_dml, &floors).is_err());
    }

    /// Before: six areas had no floor, and that of vectors was 16 tests below what passed.
    #[test]
    fn every_area_has_a_floor_and_it_is_what_the_page_says() {
        let repository = Repository::find().unwrap();
        let work = repository.work_folder().join("test/conformance-floors");
        fs::create_dir_all(&work).unwrap();
        fs::write(work.join("results.json"), "{}").unwrap();
        let floors = floors(&repository).unwrap();
        for verdict in verdicts(&repository, &work, &[]).unwrap() {
            assert!(floors.contains_key(&verdict.area), "{}", verdict.area);
        }
        let page = "| area | Cassandra passes | of these Messina | share |\n|---|---|---|---|\n\
            | json | 50 | 50 | 100 % |\n| lwt | 15 | 2 | 13 % |\n| all | 65 | 52 | 80 % |\n";
        let expected = [("json".to_owned(), 50, 50), ("lwt".to_owned(), 15, 2)];
        assert_eq!(page::by_area(page), expected);
    }

    #[test]
    fn the_longest_prefix_names_the_area() {
        let scope = [("a.py", "dml"), ("a.py::test_json", "json")];
        let scope = scope.map(|(key, area)| (key.to_owned(), area.to_owned())).into();
        assert_eq!(area(&scope, "a.py::test_json_null"), "json");
        assert_eq!(area(&scope, "a.py::test_x"), "dml");
        assert_eq!(area(&scope, "b.py::test_x"), "unclassified");
    }

    #[test]
    fn causes_are_named_by_the_error_and_never_by_the_test() {
        let causes = json!([["no JSON", "JSON"]]);
        assert_eq!(cause(&causes, "Syntax: no JSON here"), "JSON");
        assert_eq!(cause(&causes, "Invalid: cql_test_17 missing\nmore"), "Invalid: missing");
        assert_eq!(named_cause(&causes, "test_json.py"), None);
    }

    /// A test that expects any error would pass on a server that has nothing.
    #[test]
    fn a_refusal_is_no_pass() {
        let record = "{\"id\": \"a\", \"when\": \"call\", \"errors\": [\"no JSON\"]}\nbroken";
        let errors = errors(record);
        assert_eq!(errors["a"], ["no JSON"]);
        let refused = Verdict { is_refused: true, ..verdict("a", "json", false) };
        let floors = [("json".to_owned(), 0)].into();
        assert!(judge(&[refused], &floors).is_err(), "nothing passed");
    }
}
