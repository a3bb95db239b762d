//! One pass over the suite: every case, against a server in one state of its storage.
//!
//! ```text
//! topic 1  ─ writes ─┐ barrier ─ reads, writes ─┐ barrier ─ reads
//! topic 2  ─ writes ─┤         ─ reads, writes ─┤         ─ reads
//! topic 3  ─ writes ─┘         ─ reads ─────────┘
//! ```
//!
//! Topics go in step: each runs up to its first read of what it wrote since the barrier before, and
//! then waits for all others, so that one flush, compaction or restart serves them all. Every read is
//! asked for in every way: plain and prepared, in pages of 1, 2 and 5,000 rows and as a whole.

use std::collections::BTreeMap;

use cql::frame::Version;

use super::session::{Mode, Session};
use super::suite::{Case, Topic};
use crate::server::Address;

/// The sizes of pages that a read is asked in.
const PAGES: [Option<u32>; 4] = [None, Some(1), Some(2), Some(5000)];
/// Words of an error or a warning that must be Cassandra's: behind them we may say more, or help.
const OPENING_WORDS: usize = 4;

/// How a pass goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Whether writes are prepared.
    pub(super) prepared_writes: bool,
    /// The protocol's version; cases that set the time are asked in version 5.
    pub(super) version: Version,
    /// Whether reads of what was written wait for a barrier.
    pub(super) has_barriers: bool,
}

/// What the cases of a pass were answered.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Of each case, by topic and number: each distinct answer, with each mode that got it.
    pub(super) of_case: BTreeMap<(usize, usize), Vec<(String, Mode)>>,
    /// Requests that were compared.
    pub(super) checks: u64,
}

struct Runner<'a> {
    topic: &'a Topic,
    number: usize,
    session: Option<Session>,
    version: Version,
    next: usize,
    is_dirty: bool,
}

/// What waits at a barrier.
pub(super) struct Round {
    /// How many barriers there were before.
    pub(super) number: usize,
    /// The keyspaces that were written to since the last one.
    pub(super) written: Vec<String>,
}

/// Runs all topics. `barrier` moves what was written, and says where the server is then.
pub(super) fn run(
    topics: &[Topic],
    plan: Plan,
    address: &Address,
    mut barrier: impl FnMut(&Round) -> Result<Address, String>,
) -> Result<Answers, String> {
    let mut runners = Vec::new();
    for (number, topic) in topics.iter().enumerate() {
        runners.push(Runner::start(topic, number, plan, address)?);
    }
    let mut answers = Answers::default();
    for number in 0.. {
        for runner in &mut runners {
            runner.advance(plan, &mut answers)?;
        }
        if runners.iter().all(Runner::is_done) {
            break;
        }
        let written = runners.iter().filter(|runner| runner.is_dirty);
        let written = written.map(|runner| runner.topic.keyspace()).collect();
        let address = barrier(&Round { number, written })?;
        for runner in &mut runners {
            runner.reconnect(&address)?;
        }
    }
    for runner in &mut runners {
        runner.end()?;
    }
    Ok(answers)
}

impl<'a> Runner<'a> {
    fn start(
        topic: &'a Topic,
        number: usize,
        plan: Plan,
        address: &Address,
    ) -> Result<Runner<'a>, String> {
        let timed = topic.cases.iter().any(|case| case.now_s.is_some());
        let version = if timed { Version::V5 } else { plan.version };
        let mut session = Session::open(address, version, None)?;
        let keyspace = topic.keyspace();
        session.must(&format!("DROP KEYSPACE IF EXISTS {keyspace}"))?;
        session.must(&format!(
            "CREATE KEYSPACE {keyspace} WITH replication = \
             {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        ))?;
        session.must(&format!("USE {keyspace}"))?;
        let session = Some(session);
        Ok(Runner { topic, number, session, version, next: 0, is_dirty: false })
    }

    fn is_done(&self) -> bool {
        self.next == self.topic.cases.len()
    }

    /// Runs cases up to a read that must wait for a barrier.
    fn advance(&mut self, plan: Plan, answers: &mut Answers) -> Result<(), String> {
        while let Some(case) = self.topic.cases.get(self.next) {
            if case.is_read() && self.is_dirty && plan.has_barriers {
                return Ok(());
            }
            for mode in modes(case, plan) {
                let session = self.session.as_mut().expect("a runner has a session");
                let told = |why| format!("{}: {}: {mode}: {why}", self.topic.name, case.line());
                let answer = session.run(case, mode).map_err(told)?;
                answers.checks += 1;
                let of_case = answers.of_case.entry((self.number, self.next)).or_default();
                if !of_case.contains(&(answer.clone(), mode)) {
                    of_case.push((answer, mode));
                }
            }
            self.is_dirty |= !case.is_read();
            self.next += 1;
        }
        Ok(())
    }

    fn reconnect(&mut self, address: &Address) -> Result<(), String> {
        let mut session = Session::open(address, self.version, self.session.take())?;
        session.must(&format!("USE {}", self.topic.keyspace()))?;
        self.session = Some(session);
        self.is_dirty = false;
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        let drop = format!("DROP KEYSPACE {}", self.topic.keyspace());
        self.session.as_mut().map_or(Ok(()), |session| session.must(&drop))
    }
}

/// The ways in which a case is asked.
fn modes(case: &Case, plan: Plan) -> Vec<Mode> {
    if !case.is_read() {
        let prepared = plan.prepared_writes && case.is_preparable();
        return vec![Mode { prepared, page_rows: None }];
    }
    let pages = if case.unpaged { &PAGES[..1] } else { &PAGES[..] };
    let ways = [false, true].into_iter();
    ways.flat_map(|prepared| pages.iter().map(move |&page_rows| Mode { prepared, page_rows }))
        .collect()
}

/// Whether an answer is the expected one: rows to the letter, errors and warnings by code and
/// opening words.
pub(super) fn agrees(expected: &str, got: &str) -> bool {
    let (expected, got): (Vec<&str>, Vec<&str>) =
        (expected.lines().collect(), got.lines().collect());
    expected.len() == got.len() && expected.iter().zip(got).all(|(e, g)| line_agrees(e, g))
}

fn line_agrees(expected: &str, got: &str) -> bool {
    let by_words = ["error ", "warning "].iter().any(|kind| expected.starts_with(kind));
    if !by_words {
        return expected == got;
    }
    // The kind and, of an error, the code stand before the words.
    let count = OPENING_WORDS + if expected.starts_with("error ") { 2 } else { 1 };
    let opening: Vec<&str> = expected.split_whitespace().take(count).collect();
    got.split_whitespace().take(opening.len()).eq(opening.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_agree_by_code_and_opening_words() {
        let cassandra = "error 0x2200 Undefined column name x in table ks.t";
        assert!(agrees(cassandra, "error 0x2200 Undefined column name x (y?)"));
        assert!(!agrees(cassandra, "error 0x2000 Undefined column name x in table ks.t"));
        assert!(!agrees(cassandra, "error 0x2200 Undefined column names"));
        assert!(agrees("error 0x2200 No", "error 0x2200 No never"), "short words may go on");
    }

    #[test]
    fn rows_agree_to_the_letter() {
        assert!(agrees("v int\n1", "v int\n1"));
        for other in ["v int", "v int\n1\n1", "v int\n2", "v bigint\n1", "ok"] {
            assert!(!agrees("v int\n1", other), "{other}");
        }
    }
}
