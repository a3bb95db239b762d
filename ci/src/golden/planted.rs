//! A test of the test: bugs are planted in the server, and the suite must notice each.
//!
//! ```text
//! no bug             ─► the topics below: all as expected
//! bug 1, 2, 3        ─► its topic: at least one answer is wrong
//! ```
//!
//! The server is a debug build with the feature `planted`, copied to a folder of its own: what is built next replaces
//! the one that lies where debug builds do.

use std::fs;
use std::path::PathBuf;

use super::suite::Topic;
use super::{Choice, Found, Storage, complaints, passes, topics};
use crate::repository::Repository;
use crate::step::{COMMAND_LIMIT, Done, Failure, Log, Outcome};

/// A bug, the topic that notices it, and what the rows lie in then.
struct Planted {
    bug: &'static str,
    topic: &'static str,
    storage: Storage,
}

/// One each in merge, paging and prepare: variants of `engine::planted::Bug` and
/// `cql::planted::Bug`.
const PLANTED: [Planted; 3] = [
    // Restarts leave some versions of a row in files and some in the log.
    Planted { bug: "MergeTakesOneRow", topic: "update", storage: Storage::Restarted },
    Planted { bug: "LimitRestarts", topic: "limits", storage: Storage::Memtables },
    Planted { bug: "FirstMarkerForAll", topic: "reprepare", storage: Storage::Memtables },
];

/// Builds the server that bugs can be planted in; passes if each is noticed, and none is where
/// there is none.
pub(crate) fn planted(repository: &Repository, log: &Log) -> Outcome {
    let programs = build(repository, log)?;
    for planted in &PLANTED {
        let found = wrong_answers(repository, (&programs, None), planted, log)?;
        if let Some(complaint) = found.first() {
            return Err(Failure::from(format!("no bug is planted, and yet: {complaint}")));
        }
    }
    for planted in &PLANTED {
        let found = wrong_answers(repository, (&programs, Some(planted.bug)), planted, log)?;
        let Some(first) = found.first() else {
            let Planted { bug, topic, .. } = planted;
            return Err(Failure::from(format!("{bug}: the topic {topic} did not notice")));
        };
        log.note(&format!("{}: caught by {} answers, such as\n{first}", planted.bug, found.len()));
    }
    Ok(Done::Passed(PLANTED.len() as u64))
}

/// The folder of the planted server, below the root.
pub(crate) fn build(repository: &Repository, log: &Log) -> Result<PathBuf, String> {
    let mut command = repository.cargo(&["build", "--bin", "messina"]);
    log.run(command.args(["--features", "messina-server/planted"]), COMMAND_LIMIT)?;
    let built = repository.root().join("target/debug/messina");
    let folder = repository.work_folder().join("planted");
    fs::create_dir_all(&folder)
        .and_then(|()| fs::copy(&built, folder.join("messina")))
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// What is wrong in the topic of a bug, by a server with a bug or with none.
fn wrong_answers(
    repository: &Repository,
    (programs, bug): (&PathBuf, Option<&str>),
    planted: &Planted,
    log: &Log,
) -> Result<Vec<String>, String> {
    let topics: Vec<Topic> = topics(repository, &[planted.topic.to_owned()])?;
    let plant = bug.map(str::to_owned);
    let choice = Choice { programs: programs.clone(), plant, ..Choice::default() };
    let mut found = Found::default();
    for (name, answers) in passes(repository, &choice, &topics, (1, &[planted.storage]), log)? {
        found.add(&name, answers);
    }
    if found.checks == 0 {
        return Err(format!("{}: no statement was run", planted.topic));
    }
    Ok(complaints(&topics, &found))
}
