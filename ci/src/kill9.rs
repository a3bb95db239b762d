//! kill -9 under load, again and again: `cargo ci kill9 --cycles N`.
//!
//! 1. `messina-load` works with `--verify` and notes every acknowledged write in a journal: on records in every
//!    cycle, and beside that in turn on a bank, on counters, on batches of several partitions, on conditional writes,
//!    on rows with an index, on rows with a view.
//! 2. The server is killed at a random moment, with flushes and compactions under way.
//! 3. In every third cycle it is started and killed again while it recovers, up to three times.
//! 4. It is started, and every acknowledged write, or a newer one of its key, must be there, whole; the bank has all
//!    its money, every acknowledged increment is counted once, every batch is there in all its rows or in none, and
//!    an index and a view lead to exactly what is in their tables.
//! 5. The number of shards changes now and then, so that recovery also deals logs to new owners.
//!
//! Invariants
//! 1. All that varies comes from one seed, which a failure prints. The kernel's scheduling does not,
//!    so a seed repeats the moments, not the outcome.
//! 2. The kills met what they are for: memtables were flushed, sstables compacted, and a log was
//!    being replayed (`Evidence`). The cycles go on until that was seen; if it never is, they fail.
//!
//! `--planted`: bugs of conditional writes, counters and batches are planted, and each must be found.
//!
//! Not here: power cuts. The page cache outlives the process; the simulator takes it away.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::draw::Draw;
use crate::golden;
use crate::load::{Load, Proved, Work, Working};
use crate::repository::Repository;
use crate::server::{DataFolder, Server, Setup, is_ready};
use crate::step::{Done, Failure, Log, Outcome};

/// Under load for at least this long, and at most so much longer.
const LOAD_MIN_MS: u64 = 100;
const LOAD_SPREAD_MS: u64 = 1500;
/// A replay takes tens of milliseconds; so long after its beginning it is over.
const RECOVERY_SPREAD_MS: u64 = 60;
/// What a server says when it begins to replay its log (`shard/src/node.rs`).
const REPLAYS: &str = "replaying the log";
/// How long it may take until it says so.
const REPLAY_LIMIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Kills during recovery, at most, in a cycle that has any.
const RECOVERY_KILLS_MAX: u64 = 3;
/// One cycle in so many has kills during recovery, and one has another number of shards.
const RECOVERY_CYCLES: u64 = 3;
const SHARDS_CYCLES: u64 = 5;
const SHARDS_MAX: u64 = 3;
/// This many cycles must have met all of [`Evidence`]; fewer are for repeating a failure.
const EVIDENCE_CYCLES: u64 = 10;
/// The cycles go on for up to so many times what was asked for, until they have.
const EVIDENCE_TIMES_MAX: u64 = 4;

/// A bug, the work that meets it, and what the tool calls what it finds then.
const PLANTED: [(&str, Work, &str); 3] = [
    ("AppliedNotWritten", Work::Bank, "lost transfer"),
    ("CounterForgets", Work::Counters, "wrong count"),
    ("BatchesNotSent", Work::Batches, "part of a batch"),
];
/// Cycles in which a planted bug must be found.
const PLANTED_CYCLES: u64 = 10;
/// The moments of these cycles.
const PLANTED_SEED: u64 = 1;

/// What the kills met, by what the server printed and left on disk.
#[derive(Default)]
struct Evidence {
    /// Sstables that were there after the last start.
    there: BTreeSet<PathBuf>,
    /// Those of them that were there after the start before as well. A file that was half-written at a kill is not:
    /// the next start deletes it.
    complete: BTreeSet<PathBuf>,
    /// Some memtable was flushed: there was an sstable.
    has_flushed: bool,
    /// Some sstable gave way to another: it was complete, and gone after a later start.
    has_compacted: bool,
    /// Kills between the first record of a replay and `ready`.
    kills_in_recovery: u64,
}

impl Evidence {
    /// Notes the sstables that are there after a start.
    fn see(&mut self, there: BTreeSet<PathBuf>) {
        self.has_compacted |= self.complete.difference(&there).next().is_some();
        self.complete = self.there.intersection(&there).cloned().collect();
        self.has_flushed |= !self.complete.is_empty();
        self.there = there;
    }

    /// Notes what a server had printed when it was killed on its way to `ready`.
    fn see_kill(&mut self, said: &str) {
        self.kills_in_recovery += u64::from(said.contains(REPLAYS) && !is_ready(said));
    }

    /// What was never met.
    fn missing(&self) -> Vec<&'static str> {
        [
            (self.has_flushed, "no memtable was flushed"),
            (self.has_compacted, "no sstable was compacted"),
            (self.kills_in_recovery > 0, "no kill fell into a recovery"),
        ]
        .into_iter()
        .filter_map(|(is_met, complaint)| (!is_met).then_some(complaint))
        .collect()
    }
}

/// A data folder that lives through crashes.
struct Victim<'a> {
    repository: &'a Repository,
    data: PathBuf,
    shards: u32,
    log: &'a Log,
    rng: Draw,
    evidence: Evidence,
    /// The folder of its program, and the bug that is planted in it.
    programs: (PathBuf, Option<&'static str>),
}

/// One kind of work, and what was proved of it.
struct Job<'a> {
    load: Load<'a>,
    cycles: u64,
    proved: Proved,
}

impl<'a> Job<'a> {
    fn new(at: (&'a Repository, &'a Log), folder: &DataFolder, work: Work) -> Self {
        Self { load: Load::new(at, folder, work), cycles: 0, proved: Proved::new() }
    }

    /// Reads back what was acknowledged.
    fn prove(&mut self, server: &Server) -> Result<(), String> {
        let proved = self.load.prove(&server.address);
        let proved =
            proved.map_err(|text| format!("{text}\nthe server said:\n{}", server.said()))?;
        for (what, count) in proved {
            *self.proved.entry(what).or_default() += count;
        }
        Ok(())
    }

    /// Its line in the end.
    fn told(&self) -> String {
        let proved = self.proved.iter().map(|(what, count)| format!(", {count} {what}"));
        format!("{}: {} cycles{}", self.load.work.name(), self.cycles, proved.collect::<String>())
    }
}

/// Runs the cycles; each counts as one check.
pub(crate) fn run(repository: &Repository, cycles: u64, seed: Option<u64>, log: &Log) -> Outcome {
    let seed = seed.unwrap_or_else(new_seed);
    log.note(&format!("seed {seed}"));
    let folder = DataFolder::new(repository, "kill9")?;
    let works = [&[Work::Records], &Work::SCENARIOS[..]].concat();
    let mut jobs: Vec<Job<'_>> =
        works.into_iter().map(|work| Job::new((repository, log), &folder, work)).collect();
    let mut victim = Victim::new(repository, &folder, seed, log);
    let mut server = victim.start()?;
    for job in &jobs {
        job.load.fill(&server.address)?;
    }
    let mut cycle = 0;
    while wants_more(cycle, cycles, &victim.evidence) {
        // The records in every cycle, and a scenario in turn.
        let (records, scenarios) = jobs.split_at_mut(1);
        let turn = (cycle % scenarios.len() as u64) as usize;
        let working = &mut [&mut records[0], &mut scenarios[turn]];
        server = victim.cycle(server, working, cycle).map_err(|text| Failure {
            text: format!("{text}\ncycle {cycle} of seed {seed}"),
            passed: cycle,
            failed: 1,
        })?;
        victim.evidence.see(folder.files(".sst"));
        cycle += 1;
    }
    // What was acknowledged in early cycles has lived through all later ones.
    jobs.iter_mut().try_for_each(|job| job.prove(&server))?;
    server.kill()?;
    let missing = victim.evidence.missing();
    if cycles >= EVIDENCE_CYCLES && !missing.is_empty() {
        let text = format!("{} in {cycle} cycles of seed {seed}", missing.join(", "));
        return Err(Failure::from(text));
    }
    let mut told: Vec<String> = jobs.iter().map(Job::told).collect();
    told.push(format!("{} kills fell into a recovery", victim.evidence.kills_in_recovery));
    told.iter().for_each(|line| log.note(line));
    folder.discard()?;
    Ok(Done::Told(cycle, told))
}

/// Passes if each planted bug is found, and nothing is where none is planted.
pub(crate) fn planted(repository: &Repository, log: &Log) -> Outcome {
    let programs = golden::build_planted(repository, log)?;
    for (bug, work, finding) in PLANTED {
        if let Some(text) = find(repository, (&programs, None), work, log)? {
            return Err(Failure::from(format!("no bug is planted, and yet: {text}")));
        }
        match find(repository, (&programs, Some(bug)), work, log)? {
            Some(text) if text.contains(finding) => {
                log.note(&format!("{bug}: caught, a {finding}"))
            }
            Some(text) => return Err(Failure::from(format!("{bug}: not a {finding}, but {text}"))),
            None => {
                return Err(Failure::from(format!("{bug}: the {} did not notice", work.name())));
            }
        }
    }
    Ok(Done::Passed(PLANTED.len() as u64))
}

/// What the tool tells of a promise that is broken under this work, if one is: in one cycle where no bug is planted.
fn find(
    repository: &Repository,
    (programs, bug): (&Path, Option<&'static str>),
    work: Work,
    log: &Log,
) -> Result<Option<String>, String> {
    let folder = DataFolder::new(repository, "kill9-planted")?;
    let log = log.part(&format!("{}-{}", work.name(), bug.unwrap_or("none")));
    let mut job = Job::new((repository, &log), &folder, work);
    let mut victim = Victim::new(repository, &folder, PLANTED_SEED, &log);
    // What is there at the beginning is right.
    victim.programs = (programs.to_path_buf(), None);
    let server = victim.start()?;
    job.load.fill(&server.address)?;
    server.stop()?;
    victim.programs.1 = bug;
    let mut server = victim.start()?;
    for cycle in 0..if bug.is_some() { PLANTED_CYCLES } else { 1 } {
        match victim.cycle(server, &mut [&mut job], cycle) {
            Ok(next) => server = next,
            // What it had found when the server died is in the log only.
            Err(text) => return Ok(Some(format!("{}\n{text}", log.text()))),
        }
    }
    server.kill()?;
    folder.discard()?;
    Ok(None)
}

/// True while cycles that were asked for are left, or something was not met yet and may still be.
fn wants_more(done: u64, asked: u64, evidence: &Evidence) -> bool {
    let is_proof = asked >= EVIDENCE_CYCLES && !evidence.missing().is_empty();
    done < asked || (is_proof && done < asked * EVIDENCE_TIMES_MAX)
}

fn new_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.expect("the clock is past 1970").as_millis() as u64
}

impl<'a> Victim<'a> {
    /// The program under test on two shards, with nothing in its data folder.
    fn new(repository: &'a Repository, folder: &DataFolder, seed: u64, log: &'a Log) -> Self {
        Self {
            repository,
            data: folder.join("data"),
            shards: 2,
            log,
            rng: Draw::new(seed),
            evidence: Evidence::default(),
            programs: (repository.programs(), None),
        }
    }

    fn spawn(&self) -> Result<Server, String> {
        let (programs, plant) = (self.programs.0.clone(), self.programs.1);
        let setup = Setup::new(self.repository, &self.data, self.shards);
        Server::start_as(&Setup { programs, plant, ..setup }, self.log)
    }

    fn start(&self) -> Result<Server, String> {
        let mut server = self.spawn()?;
        server.wait_ready()?;
        Ok(server)
    }

    /// One life: load, death, perhaps deaths in recovery, and the proof.
    fn cycle(
        &mut self,
        server: Server,
        jobs: &mut [&mut Job<'_>],
        cycle: u64,
    ) -> Result<Server, String> {
        let works = jobs.iter().map(|job| job.load.work(&server.address, cycle));
        let mut working = works.collect::<Result<Vec<_>, _>>()?;
        let moment_ms = LOAD_MIN_MS + self.rng.below(LOAD_SPREAD_MS);
        thread::sleep(Duration::from_millis(moment_ms));
        self.log.note(&format!("cycle {cycle}: kill -9 after {moment_ms} ms of load"));
        if let Some(status) = working.iter_mut().find_map(Working::ended) {
            server.kill()?;
            return Err(format!("messina-load ended before the kill: {status}"));
        }
        server.kill()?;
        working.into_iter().try_for_each(Working::end)?;
        if self.rng.below(SHARDS_CYCLES) == 0 {
            self.shards = 1 + self.rng.below(SHARDS_MAX) as u32;
        }
        if self.rng.below(RECOVERY_CYCLES) == 0 {
            for _ in 0..=self.rng.below(RECOVERY_KILLS_MAX) {
                let mut server = self.spawn()?;
                let moment_ms = self.rng.below(RECOVERY_SPREAD_MS);
                wait_for_replay(&mut server)?;
                thread::sleep(Duration::from_millis(moment_ms));
                self.log.note(&format!("cycle {cycle}: kill -9 {moment_ms} ms into recovery"));
                self.evidence.see_kill(&server.kill()?);
            }
        }
        let server = self.start()?;
        for job in jobs {
            job.cycles += 1;
            job.prove(&server)?;
        }
        Ok(server)
    }
}

/// Waits until a server that was just started replays its log.
fn wait_for_replay(server: &mut Server) -> Result<(), String> {
    let started = Instant::now();
    while !server.said().contains(REPLAYS) {
        server.check_alive()?;
        if started.elapsed() > REPLAY_LIMIT {
            return Err(format!("{}\nit never says `{REPLAYS}`", server.said()));
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::fakes;

    #[test]
    fn a_seed_repeats_its_moments() {
        let draw = |seed| {
            let mut rng = Draw::new(seed);
            (0..100).map(|_| rng.below(LOAD_SPREAD_MS)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!(draw(7).iter().all(|&moment| moment < LOAD_SPREAD_MS));
        assert!(draw(7).iter().max() > Some(&(LOAD_SPREAD_MS * 9 / 10)));
    }

    #[test]
    fn a_server_that_dies_under_load_fails_the_step() {
        let (repository, log) = fakes::checkout("kill9", fakes::SERVER, fakes::DEADLY_LOAD);
        let failure = run(&repository, 1, Some(1), &log).err().expect("the server died");
        assert!(failure.text.contains("the server ended by itself"), "{}", failure.text);
    }

    #[test]
    fn kills_that_met_no_flush_no_compaction_and_no_recovery_prove_nothing() {
        let files = |names: &[&str]| names.iter().map(PathBuf::from).collect::<BTreeSet<_>>();
        let mut evidence = Evidence::default();
        assert_eq!(evidence.missing().len(), 3);
        assert!(wants_more(EVIDENCE_CYCLES, EVIDENCE_CYCLES, &evidence));
        assert!(!wants_more(4 * EVIDENCE_CYCLES, EVIDENCE_CYCLES, &evidence));
        assert!(!wants_more(3, 3, &evidence), "a short run repeats a failure, and is no proof");
        evidence.see(files(&["1.sst"]));
        assert_eq!(evidence.missing().len(), 3, "it may be half a flush");
        evidence.see(files(&["1.sst", "2.sst"]));
        evidence.see(files(&["1.sst", "3.sst"]));
        assert_eq!(
            evidence.missing(),
            ["no sstable was compacted", "no kill fell into a recovery"],
            "2.sst may have been half a flush"
        );
        evidence.see(files(&["3.sst"]));
        evidence.see_kill("Messina 0.1.0\n");
        evidence.see_kill("INFO replaying the log\nready\n");
        assert_eq!(evidence.missing(), ["no kill fell into a recovery"]);
        evidence.see_kill("INFO replaying the log shard=0\n");
        assert!(evidence.missing().is_empty());
        assert!(!wants_more(EVIDENCE_CYCLES, EVIDENCE_CYCLES, &evidence));
    }
}
