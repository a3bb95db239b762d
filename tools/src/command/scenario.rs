//! `load`, `run` and `verify` of a scenario: a bank, counters, batches and the others of `workload/scenario.rs`.
//!
//! 1. `fill` does the filling verb once for each key.
//! 2. `work` draws verbs and keys. From the journal it knows what was there before this run.
//! 3. `prove` does the checking verb once for each key of the journal, or for each that the load phase made.
//!
//! Invariants
//! 1. A journal of a scenario must begin with its load: it says of each key what was there before the first run.
//! 2. At most as many keys as can be judged (`ScenarioName::keys_max`), and in a run at least as many as threads.
//! 3. `verify` of increments with names writes: what was in doubt is sent again, and noted in the journal.
//!
//! Not here: the rules themselves (`workload/bank.rs`, `workload/counters.rs` and so on), records and series
//! (`command/work.rs`).

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::Job;
use super::prove::check_job;
use crate::error::{Error, Result};
use crate::flags::{DataFlags, RunFlags, VerifyFlags};
use crate::journal::{Journal, Record, header_of, records_by_key};
use crate::ledger::{self, Frontier, Tallies};
use crate::popularity::Popularity;
use crate::report::units::grouped;
use crate::workload::mix::Mix;
use crate::workload::scenario::{Known, ScenarioName, UNKNOWN};
use crate::workload::{Source, Verb, Workload};

/// The records of a journal, by key.
pub(super) type Promises = BTreeMap<u64, Vec<Record>>;

/// The data in words.
pub(super) fn words(name: ScenarioName, data: &DataFlags) -> String {
    format!("{} {}", grouped(data.records), name.keys_in_words())
}

/// What the journal at `path` says before a run goes on with it; nothing if there is none to go on with.
pub(super) fn promises_before(path: Option<&Path>) -> Result<Promises> {
    let Some(path) = path else { return Ok(Promises::new()) };
    if !path.exists() {
        return Err(Error::Invalid(format!(
            "--journal {}: there is none; it begins with `load --journal` of the same workload",
            path.display()
        )));
    }
    records_by_key(path)
}

/// Runs the load phase over `keys`.
pub(super) fn fill(
    name: ScenarioName,
    data: &DataFlags,
    keys: Range<u64>,
    job: Job<'_>,
) -> Result<bool> {
    let known = Known { judges: false, ..known(name, data, Promises::new(), |_| UNKNOWN)? };
    walk((name, name.filling()), &known, keys.collect(), job)
}

/// Runs the workload.
pub(super) fn work(
    (name, promises): (ScenarioName, &Promises),
    flags: &RunFlags,
    job: Job<'_>,
    (mix, popularity): (Mix, Popularity),
    generator: impl Fn(usize) -> SmallRng,
) -> Result<bool> {
    let data = &flags.data;
    if data.records == 0 {
        return Err(Error::Invalid("--records must be as many as were loaded".into()));
    }
    let base = |key| promises.get(&key).map_or(UNKNOWN, |records| name.base(records));
    let known = Known { judges: flags.verify, ..known(name, data, Promises::new(), base)? };
    let threads = u64::from(flags.client.threads);
    if data.records < threads {
        return Err(Error::Invalid("--records must be at least --threads".into()));
    }
    let keys = Arc::new(Frontier::new(data.records));
    job.run(|thread| {
        let mut rng = generator(thread);
        let known = Known { thread: (thread as u64, threads), ..known.clone() };
        Ok(Workload {
            rule: name.rule(known, SmallRng::from_rng(&mut rng)),
            source: Source::Draw {
                keys: keys.clone(),
                mix: mix.clone(),
                popularity: popularity.clone(),
                rng,
            },
        })
    })
}

/// Reads back what a journal says, or whatever the load phase has made.
pub(super) fn prove(name: ScenarioName, flags: &VerifyFlags) -> Result<bool> {
    let mut data = flags.data.clone();
    let (promises, words) = match &flags.journal {
        Some(path) => {
            let header = header_of(path)?;
            (data.keyspace, data.field_bytes) = (header.keyspace, header.field_bytes);
            let promises = records_by_key(path)?;
            let records: usize = promises.values().map(Vec::len).sum();
            let words = format!(
                "{} notes of {} {}",
                grouped(records as u64),
                grouped(promises.len() as u64),
                name.keys_in_words()
            );
            (promises, words)
        }
        None => (Promises::new(), words(name, &data)),
    };
    check_keys(name, &data)?;
    let keys: Vec<u64> = match flags.journal {
        Some(_) => promises.keys().copied().collect(),
        None => (0..data.records).collect(),
    };
    let keys = name.checked(keys);
    let mut job = check_job(flags, words, keys.len())?;
    if let (ScenarioName::Named, Some(path)) = (name, &flags.journal) {
        // What was in doubt is sent again, and acknowledged.
        job.journal = Some(Journal::open(path, &header_of(path)?)?);
    }
    let data = DataFlags { records: 0, ..data };
    let known = known(name, &data, promises, |_| UNKNOWN)?;
    walk((name, name.checking()), &known, keys, job)
}

/// Does `verb` once for each of `keys`.
fn walk(
    (name, verb): (ScenarioName, Verb),
    known: &Known,
    keys: Vec<u64>,
    job: Job<'_>,
) -> Result<bool> {
    let (keys, stride) = (Arc::new(keys), usize::from(job.client.threads));
    job.run(|thread| {
        Ok(Workload {
            rule: name.rule(known.clone(), SmallRng::seed_from_u64(thread as u64)),
            source: Source::Walk { keys: keys.clone(), next: thread, stride, verb },
        })
    })
}

/// What a phase over these data knows, judging what it reads; a counter was before as `base` says.
fn known(
    name: ScenarioName,
    data: &DataFlags,
    promises: Promises,
    base: impl Fn(u64) -> ledger::Range,
) -> Result<Known> {
    check_keys(name, data)?;
    let known = Known {
        keyspace: data.keyspace.clone(),
        value_bytes: data.field_bytes,
        judges: true,
        keys: data.records,
        thread: (0, 1),
        tallies: Arc::new(Tallies::new(data.records, base)),
        promises: Arc::new(promises),
    };
    known.validate()?;
    Ok(known)
}

/// Refuses more keys than can be judged.
fn check_keys(name: ScenarioName, data: &DataFlags) -> Result<()> {
    if data.records <= name.keys_max() {
        return Ok(());
    }
    let (most, what) = (grouped(name.keys_max()), name.keys_in_words());
    Err(Error::Invalid(format!("--records: at most {most} {what}")))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::flags::{Flags, Verb as SubCommand};

    fn data(records: &str) -> DataFlags {
        let flags = Flags::parse_from(["messina-load", "run", "--records", records]);
        let SubCommand::Run(flags) = flags.verb else { panic!("run") };
        flags.data
    }

    #[test]
    fn more_keys_than_can_be_judged_are_refused() {
        for (name, records, is_fine) in [
            (ScenarioName::Indexed, "100000", true),
            (ScenarioName::Indexed, "100001", false),
            (ScenarioName::Batches, "100001", true),
            (ScenarioName::Batches, "10000001", false),
        ] {
            let known = known(name, &data(records), Promises::new(), |_| UNKNOWN);
            assert_eq!(known.is_ok(), is_fine, "{records} {name:?}");
        }
    }

    /// Before it there would be counts and money that no journal tells of.
    #[test]
    fn a_journal_begins_with_the_load() {
        let dir = tempfile::tempdir().unwrap();
        let error = promises_before(Some(&dir.path().join("none"))).unwrap_err();
        assert!(error.to_string().contains("it begins with `load --journal`"), "{error}");
        assert!(promises_before(None).unwrap().is_empty());
    }
}
