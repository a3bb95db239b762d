//! The partitions that a shard reads and writes most, while an operator samples them.
//!
//! Space-Saving (Metwally, Agrawal, El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams",
//! ICDT 2005), as Cassandra's `FrequencySampler` counts:
//!
//! ```text
//! a partition ─► counted already? ─yes─► count + 1
//!                   │ no
//!                   ├─ a counter is free ─► count 1, error 0
//!                   └─ none is free ──────► takes the least counter m: count m + 1, error m
//! ```
//!
//! Invariants
//! 1. `count - error <= true count <= count` for every partition that is counted.
//! 2. What was met more often than the least counter of a full sketch says is counted.
//! 3. Bounded: [`HOT_COUNTERS_MAX`] counters of at most [`HOT_KEY_BYTES_MAX`] bytes of a key.
//!
//! Not here: reads of ranges, which name no partition. A page of a read counts as a read.

use std::cell::{Cell, RefCell};

use model::{TableId, Token};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::limits::{HOT_COUNTERS_MAX, HOT_KEY_BYTES_MAX};

/// One partition of a sketch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotPartition {
    /// The partition's table.
    pub table: TableId,
    /// The token of the partition's key.
    pub token: Token,
    /// The serialised key, or its first [`HOT_KEY_BYTES_MAX`] bytes.
    pub key: Box<[u8]>,
    /// How often the partition was met at most.
    pub count: u64,
    /// By how much `count` may be too high.
    pub error: u64,
}

/// What a shard met while it was sampled; each list has the highest counts first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HotPartitions {
    /// Partitions that were read.
    pub reads: Vec<HotPartition>,
    /// Partitions that were written.
    pub writes: Vec<HotPartition>,
}

/// The counters of one stream of partitions.
#[derive(Debug, Default)]
struct Sketch(Vec<HotPartition>);

impl Sketch {
    /// Counts a partition: one pass over the counters.
    fn count(&mut self, table: TableId, token: Token, key: &[u8]) {
        let key = &key[..key.len().min(HOT_KEY_BYTES_MAX)];
        let is_it = |c: &&mut HotPartition| c.token == token && c.table == table && *c.key == *key;
        if let Some(counter) = self.0.iter_mut().find(is_it) {
            counter.count += 1;
            return;
        }
        let counter = |least: u64| HotPartition {
            table,
            token,
            key: key.into(),
            count: least + 1,
            error: least,
        };
        if self.0.len() < HOT_COUNTERS_MAX {
            self.0.push(counter(0));
        } else if let Some(least) = self.0.iter_mut().min_by_key(|c| c.count) {
            *least = counter(least.count);
        }
    }

    fn into_sorted(mut self) -> Vec<HotPartition> {
        self.0.sort_by_key(|counter| std::cmp::Reverse(counter.count));
        self.0
    }
}

/// Which tables are sampled, and what was met.
#[derive(Debug)]
struct Sample {
    table: Option<TableId>,
    reads: Sketch,
    writes: Sketch,
}

/// The sample of a shard, if one runs.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    /// Whether a sample runs: all that a request looks at while none does.
    runs: Cell<bool>,
    sample: RefCell<Option<Sample>>,
}

/// What a request does to a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The partition is read.
    Read,
    /// The partition is written.
    Write,
}

impl Sampler {
    /// Whether a sample runs.
    #[inline]
    pub(crate) fn runs(&self) -> bool {
        self.runs.get()
    }

    #[cold]
    pub(crate) fn note(&self, access: Access, table: TableId, token: Token, key: &[u8]) {
        let mut sample = self.sample.borrow_mut();
        let Some(sample) = sample.as_mut().filter(|s| s.table.is_none_or(|only| only == table))
        else {
            return;
        };
        match access {
            Access::Read => sample.reads.count(table, token, key),
            Access::Write => sample.writes.count(table, token, key),
        }
    }
}

impl Engine {
    /// Counts reads and writes of partitions from now on, of one table or all. `Invalid` while a sample runs.
    pub fn start_sample(&self, table: Option<TableId>) -> Result<()> {
        if self.sampler.runs.replace(true) {
            return Err(Error::invalid("partitions are being sampled already"));
        }
        let (reads, writes) = Default::default();
        self.sampler.sample.replace(Some(Sample { table, reads, writes }));
        Ok(())
    }

    /// Ends the sample; what was met since it began.
    pub fn end_sample(&self) -> HotPartitions {
        self.sampler.runs.set(false);
        let Some(sample) = self.sampler.sample.take() else { return HotPartitions::default() };
        let Sample { reads, writes, .. } = sample;
        HotPartitions { reads: reads.into_sorted(), writes: writes.into_sorted() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use uuid::Uuid;

    use super::*;

    fn count(sketch: &mut Sketch, key: u64) {
        let key = key.to_be_bytes();
        sketch.count(TableId(Uuid::from_u128(1)), Token::of_key(&key), &key);
    }

    /// Of key k about 20,000 / k, mixed by a linear congruence.
    #[test]
    fn counts_of_a_zipf_stream_keep_the_guarantee_and_name_the_hottest() {
        let mut stream: Vec<u64> =
            (1..=2000u64).flat_map(|k| (0..20_000 / k).map(move |_| k)).collect();
        let mut seed = 7u64;
        for at in (1..stream.len()).rev() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            stream.swap(at, (seed >> 33) as usize % (at + 1));
        }
        let (mut sketch, mut truth) = (Sketch::default(), BTreeMap::new());
        for &key in &stream {
            count(&mut sketch, key);
            *truth.entry(key.to_be_bytes()).or_insert(0u64) += 1;
        }
        let top = sketch.into_sorted();
        assert_eq!(top.len(), HOT_COUNTERS_MAX);
        assert_eq!(top.iter().map(|c| c.count).sum::<u64>(), stream.len() as u64);
        for counter in &top {
            let real = truth[&*counter.key];
            assert!(counter.count - counter.error <= real && real <= counter.count, "{counter:?}");
        }
        let keys: Vec<&[u8]> = top[..10].iter().map(|c| &*c.key).collect();
        for key in 1..=5u64 {
            assert!(keys.contains(&&key.to_be_bytes()[..]), "{key} is among the first ten");
        }
    }

    #[test]
    fn a_full_sketch_gives_the_least_counter_to_a_new_partition() {
        let mut sketch = Sketch::default();
        for key in 0..HOT_COUNTERS_MAX as u64 {
            (0..if key == 3 { 2 } else { 5 }).for_each(|_| count(&mut sketch, key));
        }
        count(&mut sketch, 9_999);
        let top = sketch.into_sorted();
        let new = top.iter().find(|c| *c.key == 9_999u64.to_be_bytes()).expect("it is counted");
        assert_eq!((new.count, new.error), (3, 2));
        assert!(top.iter().all(|c| *c.key != 3u64.to_be_bytes()), "the least one is gone");
    }

    #[test]
    fn long_keys_are_cut_and_told_apart_by_their_tokens() {
        let mut sketch = Sketch::default();
        for end in [1, 2, 2] {
            let mut key = vec![0; HOT_KEY_BYTES_MAX];
            key.push(end);
            sketch.count(TableId(Uuid::from_u128(1)), Token::of_key(&key), &key);
        }
        let top = sketch.into_sorted();
        assert_eq!(
            top.iter().map(|c| (c.count, c.key.len())).collect::<Vec<_>>(),
            [(2, HOT_KEY_BYTES_MAX), (1, HOT_KEY_BYTES_MAX)]
        );
    }
}
