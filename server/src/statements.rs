//! What each statement has cost: counts by fingerprint, of one core.
//!
//! ```text
//! run ─► begin: the entry of its fingerprint ─► call ─► finish: one more, its bytes, how long it took
//!                    rows of other cores, and those of later ─► gave: rows and blocks, on the core that read them
//! SELECT … FROM system_views.statements: the entries of all cores, those of one fingerprint added up
//! ```
//!
//! 1. A statement remembers its entry by place and generation, so counting looks nothing up.
//! 2. A core has [`STATEMENTS_MAX`] entries. When they are used up, the part of them that was used least goes: what was
//!    used since the last time counts whole, what was used before counts half, and so on.
//! 3. Reading a clock costs as much as many of these counts. What waits is timed by the clock of its passes, all of it.
//!    Of what is answered inside its pass a statement's first [`TIMED_FIRST`] executions are timed, and each
//!    [`TIMED_EVERY`]th of later ones, which counts for as many.
//!
//! Not here: statements that do not compile, which have no fingerprint.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use hashbrown::HashMap;

use crate::limits::{STATEMENTS_FORGOTTEN, STATEMENTS_MAX};

/// The first executions of a statement are timed, each of them: this many.
pub(crate) const TIMED_FIRST: u64 = 32;
/// One of so many later ones is timed.
pub(crate) const TIMED_EVERY: u64 = 32;

/// Bits of a latency that its bucket tells: 8 buckets for each power of two.
const BUCKET_BITS: u32 = 3;
/// Buckets of latencies: up to 2^30 µs.
const BUCKETS: usize = 28 << BUCKET_BITS;

/// What a statement is counted by: its keyspace, empty if its names are qualified, and its fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StatementName {
    pub(crate) fingerprint: Box<str>,
    pub(crate) keyspace: Box<str>,
}

/// What was counted of one fingerprint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatementCounts {
    /// Executions, those that failed included.
    pub(crate) count: u64,
    /// Executions that were answered with an error.
    pub(crate) errors: u64,
    /// Rows that were given.
    pub(crate) rows: u64,
    /// Bytes of the answers, uncompressed.
    pub(crate) bytes: u64,
    /// Blocks of sstables that were read and were not in the cache.
    pub(crate) blocks: u64,
    /// The longest latency that was seen, in microseconds.
    pub(crate) max_us: u64,
    latencies: Latencies,
}

/// How many executions took how long, about.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Latencies(Box<[u64; BUCKETS]>);

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies(Box::new([0; BUCKETS]))
    }
}

/// The bucket of a latency in microseconds.
fn bucket_of(us: u64) -> usize {
    let us = us.min((1 << 30) - 1);
    let bits = (u64::BITS - us.leading_zeros()).saturating_sub(BUCKET_BITS + 1);
    ((bits as usize) << BUCKET_BITS) + (us >> bits) as usize
}

/// The longest latency of a bucket, in microseconds.
fn longest_of(bucket: usize) -> u64 {
    let bits = (bucket >> BUCKET_BITS).saturating_sub(1);
    let first = (bucket - (bits << BUCKET_BITS)) as u64;
    ((first + 1) << bits) - 1
}

impl StatementCounts {
    /// Adds what another core has counted.
    pub(crate) fn add(&mut self, other: &StatementCounts) {
        self.count += other.count;
        self.errors += other.errors;
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.blocks += other.blocks;
        self.max_us = self.max_us.max(other.max_us);
        for (mine, others) in self.latencies.0.iter_mut().zip(other.latencies.0.iter()) {
            *mine += others;
        }
    }

    /// The latency that this part of a thousand of the executions was not longer than, in microseconds, at most an
    /// eighth too high; `None` if none was timed.
    pub(crate) fn latency_us(&self, per_mille: u64) -> Option<u64> {
        let all: u64 = self.latencies.0.iter().sum();
        let wanted = (all * per_mille).div_ceil(1000).max(1);
        let mut come = 0;
        let reaches = |count: &u64| {
            come += count;
            come >= wanted
        };
        let bucket = self.latencies.0.iter().position(reaches)?;
        Some(longest_of(bucket).min(self.max_us))
    }

    fn took(&mut self, took_ns: u64, weight: u64) {
        let us = took_ns / 1000;
        self.max_us = self.max_us.max(us);
        self.latencies.0[bucket_of(us)] += weight;
    }
}

/// The entry of a statement, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatementPlace {
    slot: u32,
    /// How often the slot had another statement before.
    generation: u32,
}

impl StatementPlace {
    /// The place of what has none yet.
    pub(crate) const NONE: StatementPlace = StatementPlace { slot: u32::MAX, generation: 0 };
}

struct Entry {
    name: Rc<StatementName>,
    generation: u32,
    counts: StatementCounts,
    /// How often it was begun.
    begun: u64,
    /// How often it gave rows to another core's clients, or later than in its pass.
    gave: u64,
    /// `begun + gave` when entries were forgotten last.
    used_before: u64,
    /// What it was used until then, halved each time.
    faded: u64,
}

/// How an answer went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    /// Bytes of its frame.
    pub(crate) bytes: usize,
    /// Whether it is an error.
    pub(crate) is_error: bool,
    /// The rows in it that are not counted yet.
    pub(crate) rows: u32,
}

/// The entries of one core.
#[derive(Default)]
pub(crate) struct Statements {
    entries: RefCell<Vec<Entry>>,
    by_name: RefCell<HashMap<Rc<StatementName>, u32, foldhash::fast::RandomState>>,
}

impl Statements {
    /// Begins an execution: `place` is where the statement was last, and is told where it is now. Returns for how many
    /// executions its latency counts if it is answered at once; 0 if it is not to be timed.
    #[inline]
    pub(crate) fn begin(
        &self,
        place: &Cell<StatementPlace>,
        name: impl FnOnce() -> StatementName,
    ) -> u8 {
        self.with(place, name, |entry| {
            entry.begun += 1;
            match entry.begun {
                ..=TIMED_FIRST => 1,
                begun if begun.is_multiple_of(TIMED_EVERY) => TIMED_EVERY as u8,
                _ => 0,
            }
        })
    }

    /// Counts the rows that a core gave for a statement, and the blocks that it read for them.
    #[inline]
    pub(crate) fn gave(
        &self,
        place: &Cell<StatementPlace>,
        name: impl FnOnce() -> StatementName,
        (rows, blocks): (u64, u64),
    ) {
        self.with(place, name, |entry| {
            entry.gave += 1;
            entry.counts.rows += rows;
            entry.counts.blocks += blocks;
        });
    }

    /// Counts an execution that is answered. One that was timed took so many nanoseconds, and counts for so many.
    #[inline]
    pub(crate) fn finish(
        &self,
        place: StatementPlace,
        answered: Answered,
        timed: Option<(u64, u8)>,
    ) {
        let mut entries = self.entries.borrow_mut();
        let entry = entries.get_mut(place.slot as usize);
        // It may have been forgotten while it waited.
        let Some(entry) = entry.filter(|entry| entry.generation == place.generation) else {
            return;
        };
        let counts = &mut entry.counts;
        counts.count += 1;
        counts.errors += u64::from(answered.is_error);
        counts.bytes += answered.bytes as u64;
        counts.rows += u64::from(answered.rows);
        if let Some((took_ns, weight)) = timed {
            counts.took(took_ns, weight.into());
        }
    }

    #[inline]
    fn with<R>(
        &self,
        place: &Cell<StatementPlace>,
        name: impl FnOnce() -> StatementName,
        work: impl FnOnce(&mut Entry) -> R,
    ) -> R {
        let StatementPlace { slot, generation } = place.get();
        let mut entries = self.entries.borrow_mut();
        let is_known = entries.get(slot as usize).is_some_and(|one| one.generation == generation);
        if !is_known {
            place.set(self.find(&mut entries, name()));
        }
        work(&mut entries[place.get().slot as usize])
    }

    /// The place of a name that is known, or is from now on.
    #[cold]
    fn find(&self, entries: &mut Vec<Entry>, name: StatementName) -> StatementPlace {
        let mut by_name = self.by_name.borrow_mut();
        if let Some(slot) = by_name.get(&name) {
            let generation = entries[*slot as usize].generation;
            return StatementPlace { slot: *slot, generation };
        }
        if by_name.len() == STATEMENTS_MAX {
            for slot in least_used(entries) {
                let entry = &mut entries[slot];
                by_name.remove(&entry.name);
                entry.generation = entry.generation.wrapping_add(1);
                entry.name = Rc::new(StatementName { fingerprint: "".into(), keyspace: "".into() });
            }
        }
        let name = Rc::new(name);
        let free = match entries.len() < STATEMENTS_MAX {
            true => None,
            false => entries.iter().position(|entry| entry.name.fingerprint.is_empty()),
        };
        let generation = free.map_or(0, |slot| entries[slot].generation);
        let entry = Entry {
            name: name.clone(),
            generation,
            counts: StatementCounts::default(),
            begun: 0,
            gave: 0,
            used_before: 0,
            faded: 0,
        };
        let slot = match free {
            Some(slot) => {
                entries[slot] = entry;
                slot
            }
            None => {
                entries.push(entry);
                entries.len() - 1
            }
        };
        let slot = u32::try_from(slot).expect("entries are few");
        by_name.insert(name, slot);
        StatementPlace { slot, generation }
    }

    /// What was counted so far.
    pub(crate) fn all(&self) -> Vec<(StatementName, StatementCounts)> {
        let entries = self.entries.borrow();
        let known = entries.iter().filter(|entry| !entry.name.fingerprint.is_empty());
        known.map(|entry| (StatementName::clone(&entry.name), entry.counts.clone())).collect()
    }
}

/// The slots of the entries that were used least. All are a step older then.
fn least_used(entries: &mut [Entry]) -> Vec<usize> {
    let mut by_use: Vec<(u64, usize)> = Vec::with_capacity(entries.len());
    for (slot, entry) in entries.iter_mut().enumerate() {
        let used = entry.begun + entry.gave;
        entry.faded = entry.faded / 2 + (used - entry.used_before);
        entry.used_before = used;
        by_use.push((entry.faded, slot));
    }
    by_use.sort_unstable();
    by_use.into_iter().take(STATEMENTS_FORGOTTEN).map(|(_, slot)| slot).collect()
}

/// Puts together what cores have counted.
pub(crate) type AllStatements = BTreeMap<StatementName, StatementCounts>;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: usize) -> StatementName {
        StatementName { fingerprint: format!("select {n}").into(), keyspace: "ks".into() }
    }

    const WELL: Answered = Answered { bytes: 10, is_error: false, rows: 0 };

    fn execute(statements: &Statements, place: &Cell<StatementPlace>, n: usize, us: u64) {
        let weight = statements.begin(place, || name(n));
        let timed = (weight > 0).then_some((us * 1000, weight));
        statements.finish(place.get(), WELL, timed);
    }

    #[test]
    fn executions_are_counted_and_some_are_timed_for_all() {
        let (statements, place) = (Statements::default(), Cell::new(StatementPlace::NONE));
        for n in 0..3200 {
            execute(&statements, &place, 1, if n % 3 == 0 { 100 } else { 10 });
            statements.gave(&place, || name(1), (1, 0));
        }
        statements.gave(&place, || name(1), (7, 2));
        let refused = Answered { bytes: 5, is_error: true, rows: 0 };
        statements.begin(&place, || name(1));
        statements.finish(place.get(), refused, Some((3_000_000, 1)));
        let [(_, counts)] = &statements.all()[..] else { panic!("one fingerprint") };
        assert_eq!((counts.count, counts.errors, counts.bytes), (3201, 1, 32_005));
        assert_eq!((counts.rows, counts.blocks, counts.max_us), (3207, 2, 3000));
        assert_eq!(counts.latency_us(500), Some(10));
        let timed: u64 = counts.latencies.0.iter().sum();
        assert!(timed.abs_diff(3201) <= TIMED_EVERY, "{timed}");
        assert!((100..=112).contains(&counts.latency_us(990).unwrap()));
    }

    /// `STATEMENTS_MAX`: what is used much stays, what is used once goes, and nothing grows.
    #[test]
    fn the_least_used_are_forgotten() {
        let statements = Statements::default();
        let (often, places) = (Cell::new(StatementPlace::NONE), Cell::new(StatementPlace::NONE));
        let mut stale = None;
        for n in 1..10 * STATEMENTS_MAX {
            execute(&statements, &often, 0, 5);
            places.set(StatementPlace::NONE);
            execute(&statements, &places, n, 5);
            stale.get_or_insert(places.get());
            assert!(statements.all().len() <= STATEMENTS_MAX);
        }
        let all = statements.all();
        let (_, counts) = all.iter().find(|(one, _)| *one == name(0)).expect("it was used much");
        assert_eq!(counts.count, 10 * STATEMENTS_MAX as u64 - 1);
        assert!(all.iter().all(|(one, _)| *one != name(1)), "it was used once");
        // What ends late counts for no other.
        let before: u64 = all.iter().map(|(_, counts)| counts.count).sum();
        statements.finish(stale.unwrap(), WELL, None);
        assert_eq!(statements.all().iter().map(|(_, counts)| counts.count).sum::<u64>(), before);
    }

    #[test]
    fn counts_of_cores_are_added_up() {
        let [one, other] = [10, 1000].map(|us| {
            let (statements, place) = (Statements::default(), Cell::new(StatementPlace::NONE));
            (0..3).for_each(|_| execute(&statements, &place, 1, us));
            statements.all().remove(0).1
        });
        let mut sum = one.clone();
        sum.add(&other);
        assert_eq!((sum.count, sum.max_us, sum.latency_us(500)), (6, 1000, Some(10)));
        assert_eq!(sum.latency_us(990), Some(1000));
        assert_eq!(StatementCounts::default().latency_us(500), None);
    }

    #[test]
    fn a_bucket_holds_its_latencies() {
        let powers = (0..30).flat_map(|bits| [1u64 << bits, (1 << bits) + 1, (2 << bits) - 1]);
        for us in (0..100_000).chain(powers) {
            let bucket = bucket_of(us);
            let longest = longest_of(bucket);
            assert!(us <= longest && longest <= us + us / 8, "{us} {longest}");
            assert!(bucket == 0 || longest_of(bucket - 1) < us);
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1, "the longest have the last");
    }
}
