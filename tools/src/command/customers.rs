//! `load`, `run` and `verify` of customers, whose rows follow from their keys.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::prove::check_job;
use super::{Job, share};
use crate::error::{Error, Result};
use crate::flags::{DataFlags, RunFlags, VerifyFlags};
use crate::ledger::Frontier;
use crate::popularity::Popularity;
use crate::report::units::grouped;
use crate::workload::customers::{Customers, Judge};
use crate::workload::mix::Mix;
use crate::workload::{Source, Verb, Workload};

/// The shape of the customers that the flags describe. A journal would say nothing that a key does not.
pub(super) fn shape(data: &DataFlags, journal: Option<&Path>) -> Result<Customers> {
    if journal.is_some() {
        return Err(Error::Invalid("--journal: what a customer is follows from the key".into()));
    }
    let shape = Customers { keyspace: data.keyspace.clone(), note_bytes: data.field_bytes };
    shape.validate()?;
    Ok(shape)
}

/// Inserts these customers, each thread a stretch of them.
pub(super) fn fill(data: &DataFlags, keys: Range<u64>, job: Job<'_>) -> Result<bool> {
    let shape = shape(data, None)?;
    walk((shape, false), Verb::Insert, keys, job)
}

/// Runs the workload on customers that are there.
pub(super) fn work(
    flags: &RunFlags,
    job: Job<'_>,
    (mix, popularity): (Mix, Popularity),
    generator: impl Fn(usize) -> SmallRng,
) -> Result<bool> {
    let shape = shape(&flags.data, flags.journal.as_deref())?;
    if flags.data.records == 0 {
        return Err(Error::Invalid("--records must be as many as were loaded".into()));
    }
    let keys = Arc::new(Frontier::new(flags.data.records));
    job.run(|thread| {
        let mut rng = generator(thread);
        let judge = Judge {
            shape: shape.clone(),
            limit: flags.scan_rows,
            judges: flags.verify,
            finds: mix.verbs().any(|verb| !matches!(verb, Verb::Insert | Verb::Read)),
            frontier: Some(keys.clone()),
            rng: SmallRng::from_rng(&mut rng),
        };
        let (keys, mix, popularity) = (keys.clone(), mix.clone(), popularity.clone());
        let source = Source::Draw { keys, mix, popularity, rng };
        Ok(Workload { rule: Box::new(judge), source })
    })
}

/// Reads every customer back that the load phase has made.
pub(super) fn prove(flags: &VerifyFlags) -> Result<bool> {
    let shape = shape(&flags.data, flags.journal.as_deref())?;
    let records = flags.data.records;
    let job = check_job(flags, format!("{} customers", grouped(records)), records as usize)?;
    walk((shape, true), Verb::Read, 0..records, job)
}

/// Does `verb` once for each key; what is read is judged if so wanted.
fn walk(
    (shape, judges): (Customers, bool),
    verb: Verb,
    keys: Range<u64>,
    job: Job<'_>,
) -> Result<bool> {
    let (all, threads) = (keys.end.saturating_sub(keys.start), usize::from(job.client.threads));
    let before = |thread: usize| (0..thread).map(|t| share(all, t, threads)).sum::<u64>();
    let there = judges.then(|| Arc::new(Frontier::new(keys.end)));
    job.run(|thread| {
        let [first, end] = [thread, thread + 1].map(|t| keys.start + before(t));
        let (shape, frontier) = (shape.clone(), there.clone());
        let rng = SmallRng::seed_from_u64(thread as u64);
        let judge = Judge { shape, limit: 1, judges, finds: false, frontier, rng };
        let source = Source::Stretch { keys: (first..end).step_by(1), verb };
        Ok(Workload { rule: Box::new(judge), source })
    })
}
