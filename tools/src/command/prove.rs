//! `verify`: reads back what was acknowledged.
//!
//! 1. The table is that of the journal, or that of `--workload` without one. A scenario and customers have checks of
//!    their own.
//! 2. The keys: with a journal those of its records, each with the newest acknowledged write of every field; without
//!    one all that the load phase made, which must be there and whole.
//! 3. Each key is read once, the threads side by side, and judged (`workload/check.rs`).
//!
//! Invariants
//! 1. What may expire before it is read is left out and counted: half a time to live is left for reading.
//! 2. A check without keys is an error, so that an empty journal proves nothing.
//!
//! Not here: what a read must show (`proof.rs`), the form of the journal (`journal.rs`), scenarios
//! (`command/scenario.rs`), customers (`command/customers.rs`).

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::load::{record_shape, series_shape};
use super::{Job, Server, scenario};
use crate::console::Goal;
use crate::error::{Error, Result};
use crate::flags::{DataName, VerifyFlags};
use crate::journal::{Promises, header_of};
use crate::limits::{FIELDS_MAX, UNDEAD_GRACE_S};
use crate::proof::Floor;
use crate::report::units::grouped;
use crate::workload::check::{Check, Shape};
use crate::workload::customers;
use crate::workload::record::{self, RecordShape};
use crate::workload::scenario::ScenarioName;
use crate::workload::series::{SeriesShape, point_key};
use crate::workload::{Source, Workload};

/// Keys with what they must at least show.
type Keys = Vec<(u64, Floor)>;

/// Runs the check.
pub(super) fn prove(flags: &VerifyFlags) -> Result<bool> {
    let table = match &flags.journal {
        Some(path) => header_of(path)?.table,
        None => flags.workload.table().to_owned(),
    };
    if let Some(name) = ScenarioName::of_table(&table) {
        return scenario::prove(name, flags);
    }
    if table == customers::TABLE {
        return super::customers::prove(flags);
    }
    let (shape, words, keys) = match &flags.journal {
        Some(path) => {
            let promises = Promises::read(path)?;
            let (records, written) = (promises.records, promises.floors.len());
            let shape = shape_of(&promises);
            let keys = still_promised(promises);
            (shape, words(records, written, keys.len()), keys)
        }
        None => everything(flags)?,
    };
    let job = check_job(flags, words, keys.len())?;
    let keys = Arc::new(keys);
    let stride = usize::from(flags.client.threads);
    job.run(|thread| {
        let (shape, keys) = (shape.clone(), keys.clone());
        let places = thread as u64..keys.len() as u64;
        let source = Source::Stretch { keys: places.step_by(stride), verb: shape.verb() };
        Ok(Workload { rule: Box::new(Check { shape, keys }), source })
    })
}

/// A run that reads so many keys, once each.
pub(super) fn check_job<'a>(flags: &'a VerifyFlags, words: String, keys: usize) -> Result<Job<'a>> {
    if keys == 0 {
        return Err(Error::Invalid(format!("{words}: there is nothing to read back")));
    }
    Ok(Job {
        client: &flags.client,
        output: &flags.output,
        server: Server::find(&flags.client)?,
        title: flags.output.title.clone().unwrap_or_else(|| "verify".to_owned()),
        workload: words,
        rate: None,
        operations: None,
        warmup: Duration::ZERO,
        duration: None,
        verified: true,
        goal: Goal::Operations(keys as u64),
        journal: None,
    })
}

/// What is read back of a journal, in words.
fn words(records: u64, written: usize, keys: usize) -> String {
    let keys_of =
        format!("{} acknowledged writes, {} keys", grouped(records), grouped(keys as u64));
    match written - keys {
        0 => keys_of,
        expired => format!("{keys_of} and {} that may have expired", grouped(expired as u64)),
    }
}

fn shape_of(promises: &Promises) -> Shape {
    let header = &promises.header;
    let keyspace = header.keyspace.clone();
    if header.table == record::TABLE {
        Shape::Record(RecordShape {
            keyspace,
            fields: header.fields,
            field_bytes: header.field_bytes,
        })
    } else {
        Shape::Series(SeriesShape {
            keyspace,
            value_bytes: header.field_bytes,
            step_ms: header.step_ms,
            ttl_s: header.ttl_s,
        })
    }
}

/// What the journal promises, without what has expired, or may before it is read.
fn still_promised(promises: Promises) -> Keys {
    let ttl_s = promises.header.ttl_s;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_us = since.as_micros() as u64;
    let lives = |floor: &Floor| ttl_s == 0 || is_young(floor[0], ttl_s, now_us);
    let mut keys: Keys = promises.floors.into_iter().filter(|(_, floor)| lives(floor)).collect();
    keys.sort_unstable_by_key(|(key, _)| *key);
    keys
}

/// Whether a point that was written then lives still, and will while the check reads: half its time is for that.
fn is_young(written_us: u64, ttl_s: u32, now_us: u64) -> bool {
    let oldest_us = now_us.saturating_sub(u64::from(ttl_s) * 500_000);
    written_us > oldest_us + u64::from(UNDEAD_GRACE_S) * 1_000_000
}

/// Every record, or every point, that the load phase made.
fn everything(flags: &VerifyFlags) -> Result<(Shape, String, Keys)> {
    let data = &flags.data;
    let nothing: Floor = [0; FIELDS_MAX];
    Ok(match flags.workload {
        DataName::Timeseries => {
            let shape = series_shape(data)?;
            let points = |series| (0..data.points).map(move |at| (point_key(series, at), nothing));
            let keys = (0..data.series).flat_map(points).collect();
            let words = format!("{} series of {} points", grouped(data.series), data.points);
            (Shape::Series(shape), words, keys)
        }
        _ => {
            let keys = (0..data.records).map(|key| (key, nothing)).collect();
            let words = format!("{} records", grouped(data.records));
            (Shape::Record(record_shape(data)?), words, keys)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before: the grace was five microseconds, and the words told of keys that were not read.
    #[test]
    fn what_may_expire_while_it_is_read_is_left_out_and_told() {
        let now_us = 1_000_000_000;
        assert!(is_young(now_us - 24_000_000, 60, now_us));
        assert!(!is_young(now_us - 26_000_000, 60, now_us), "five seconds of grace");
        assert_eq!(words(9, 1200, 1200), "9 acknowledged writes, 1,200 keys");
        assert_eq!(words(9, 7, 5), "9 acknowledged writes, 5 keys and 2 that may have expired");
    }
}
