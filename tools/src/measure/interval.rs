//! One second of one client thread, and the sum of all of them.
//!
//! A thread records into the `Interval` of the current second, alone; at the end of the second it hands the interval
//! over whole and takes an empty one. So nothing is shared on the hot path, and the total is the merge of all
//! intervals.
//!
//! Invariants
//! 1. Latencies are kept in histograms of one precision (HdrHistogram, 3 digits), so that a merge loses nothing. A
//!    latency above the bound is recorded as the bound.
//! 2. A read-modify-write is one operation. Its read and its write are recorded, too, each under its own kind.
//! 3. Of each failure, the count is exact and the first few examples are kept.
//!
//! Not here: when a second ends (`client/worker.rs`), which seconds count (`client/run.rs`), percentiles of a report
//! (`report/data.rs`).

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::limits::{EXAMPLES_KEPT, LATENCY_DIGITS, LATENCY_NS_MAX, LATENCY_NS_MIN};

/// What kind of operation a latency belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A point read.
    Read,
    /// A write of one field.
    Update,
    /// A write of a whole record.
    Insert,
    /// A range of partitions in token order.
    Scan,
    /// A read and the write that follows it, together.
    Modify,
    /// A new point of a series.
    Append,
    /// The newest points of a series.
    Latest,
    /// A stretch of a series.
    Window,
    /// A conditional batch that moves money between two accounts.
    Transfer,
    /// One more on a counter.
    Increment,
    /// A logged batch over several partitions.
    Batch,
    /// A query by the value of an indexed column.
    Find,
}

impl Kind {
    /// All kinds, in the order of reports.
    pub const ALL: [Kind; 12] = [
        Kind::Read,
        Kind::Update,
        Kind::Insert,
        Kind::Scan,
        Kind::Modify,
        Kind::Append,
        Kind::Latest,
        Kind::Window,
        Kind::Transfer,
        Kind::Increment,
        Kind::Batch,
        Kind::Find,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Update => "update",
            Kind::Insert => "insert",
            Kind::Scan => "scan",
            Kind::Modify => "read-modify-write",
            Kind::Append => "append",
            Kind::Latest => "latest",
            Kind::Window => "window",
            Kind::Transfer => "transfer",
            Kind::Increment => "increment",
            Kind::Batch => "batch",
            Kind::Find => "find",
        }
    }
}

/// Something that went wrong, by name, with a few examples in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// Number of times it happened.
    pub count: u64,
    /// The first few, in words.
    pub examples: Vec<String>,
}

/// The operations that ended in one second, or in a whole run.
#[derive(Clone, Debug)]
pub struct Interval {
    /// The second since the run began.
    pub second: u32,
    /// Latencies in ns by kind; made at the first operation of the kind.
    latencies: [Option<Box<Histogram<u64>>>; Kind::ALL.len()],
    /// Operations that failed for good, by the name of the error.
    pub errors: BTreeMap<String, Failure>,
    /// Attempts that failed and were repeated, by the name of the error.
    pub retries: BTreeMap<String, Failure>,
    /// Broken promises, by the name of the violation.
    pub violations: BTreeMap<String, Failure>,
    /// What was held against its rule and was right or wrong, and outcomes that are not known, by name.
    pub proved: BTreeMap<&'static str, u64>,
    /// Reads that found nothing.
    pub not_found: u64,
    /// Rows that came with answers.
    pub rows: u64,
}

impl Interval {
    /// Nothing happened yet in `second`.
    pub fn new(second: u32) -> Interval {
        Interval {
            second,
            latencies: std::array::from_fn(|_| None),
            errors: BTreeMap::new(),
            retries: BTreeMap::new(),
            violations: BTreeMap::new(),
            proved: BTreeMap::new(),
            not_found: 0,
            rows: 0,
        }
    }

    /// One operation of `kind` that took `latency_ns`.
    #[inline]
    pub fn record(&mut self, kind: Kind, latency_ns: u64) {
        self.latencies[kind as usize]
            .get_or_insert_with(|| Box::new(new_histogram()))
            .saturating_record(latency_ns);
    }

    /// The latencies of `kind`, if there were any.
    pub fn latencies(&self, kind: Kind) -> Option<&Histogram<u64>> {
        self.latencies[kind as usize].as_deref()
    }

    /// Operations of `kind`.
    pub fn count(&self, kind: Kind) -> u64 {
        self.latencies(kind).map_or(0, Histogram::len)
    }

    /// Operations of every kind; a read-modify-write is one, and its halves are not counted.
    pub fn operations(&self) -> u64 {
        let halves = self.count(Kind::Modify);
        Kind::ALL.iter().map(|&kind| self.count(kind)).sum::<u64>() - 2 * halves
    }

    /// Whether nothing at all happened.
    pub fn is_empty(&self) -> bool {
        self.operations() == 0
            && self.errors.is_empty()
            && self.retries.is_empty()
            && self.violations.is_empty()
    }

    /// All latencies in one.
    pub fn all_latencies(&self) -> Histogram<u64> {
        let mut all = new_histogram();
        for latencies in self.latencies.iter().flatten() {
            all.add(latencies.as_ref()).expect("all have the same bounds");
        }
        all
    }

    /// Adds what happened in `other`; keeps its own second.
    pub fn merge(&mut self, other: &Interval) {
        for (mine, theirs) in self.latencies.iter_mut().zip(&other.latencies) {
            if let Some(theirs) = theirs {
                mine.get_or_insert_with(|| Box::new(new_histogram()))
                    .add(theirs.as_ref())
                    .expect("all have the same bounds");
            }
        }
        self.merge_failures(other);
        self.not_found += other.not_found;
        self.rows += other.rows;
    }

    /// Adds only what went wrong in `other`, and what was proved in it: reads are judged while the run warms up, too.
    pub fn merge_failures(&mut self, other: &Interval) {
        merge_failures(&mut self.errors, &other.errors);
        merge_failures(&mut self.retries, &other.retries);
        merge_failures(&mut self.violations, &other.violations);
        for (name, count) in &other.proved {
            *self.proved.entry(name).or_default() += count;
        }
    }
}

/// Counts a failure `name`; `describe` is asked only while examples are wanted.
pub fn note_failure(
    failures: &mut BTreeMap<String, Failure>,
    name: &str,
    describe: impl FnOnce() -> String,
) {
    if !failures.contains_key(name) {
        failures.insert(name.to_owned(), Failure::default());
    }
    let failure = failures.get_mut(name).expect("put there just now");
    failure.count += 1;
    if failure.examples.len() < EXAMPLES_KEPT {
        failure.examples.push(describe());
    }
}

/// The sum of the counts.
pub fn failure_count(failures: &BTreeMap<String, Failure>) -> u64 {
    failures.values().map(|failure| failure.count).sum()
}

fn merge_failures(into: &mut BTreeMap<String, Failure>, from: &BTreeMap<String, Failure>) {
    for (name, failure) in from {
        let mine = into.entry(name.clone()).or_default();
        mine.count += failure.count;
        let free = EXAMPLES_KEPT.saturating_sub(mine.examples.len());
        mine.examples.extend(failure.examples.iter().take(free).cloned());
    }
}

fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(LATENCY_NS_MIN, LATENCY_NS_MAX, LATENCY_DIGITS)
        .expect("the bounds are constants that fit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_merge_of_intervals_is_the_run() {
        let mut total = Interval::new(0);
        for second in 0..3 {
            let mut interval = Interval::new(second);
            for micros in 1..=100u64 {
                interval.record(Kind::Read, micros * 1000);
            }
            interval.record(Kind::Update, LATENCY_NS_MAX * 10);
            note_failure(&mut interval.errors, "timeout", || format!("at {second}"));
            total.merge(&interval);
        }
        assert_eq!(total.count(Kind::Read), 300);
        assert_eq!(total.operations(), 303);
        let p50 = total.latencies(Kind::Read).unwrap().value_at_quantile(0.5);
        assert!((49_900..50_200).contains(&p50), "{p50}");
        let slow = total.latencies(Kind::Update).unwrap().max();
        assert!(slow as f64 > LATENCY_NS_MAX as f64 * 0.99, "too slow is recorded, not lost");
        assert_eq!(failure_count(&total.errors), 3);
        assert_eq!(total.errors["timeout"].examples, ["at 0", "at 1", "at 2"]);
    }

    #[test]
    fn a_read_modify_write_is_one_operation() {
        let mut interval = Interval::new(0);
        interval.record(Kind::Read, 1000);
        interval.record(Kind::Update, 1000);
        interval.record(Kind::Modify, 2000);
        assert_eq!(interval.operations(), 1);
    }
}
