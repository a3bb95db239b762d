//! What has been acknowledged in this run, shared by all client threads.
//!
//! `Ledger` holds the newest acknowledged write of every field of every loaded record; a read's floor is copied from it
//! before the read is sent. `Frontier` hands out the keys that a run inserts and says up to which of them all are
//! acknowledged: only those are ever read, as with YCSB's acknowledged counter. `Tallies` holds of every key of a
//! scenario what was begun and what of it has an answer.
//!
//! Invariants
//! 1. What is acknowledged only grows: the newest write is a maximum, and the end of the readable keys moves up without
//!    gaps.
//! 2. It is copied before a read is sent and compared after its answer, so that what other threads do meanwhile never
//!    makes a right answer look wrong.
//! 3. Keys beyond those that were loaded have no floor. Inserts that failed for good are passed over.
//! 4. A few atomic operations for each request; a lock only for inserts, and for records that are not found.
//!
//! Not here: what a read is held against (`proof.rs`), what outlives the process (`journal.rs`), the rules of the
//! scenarios (`workload/scenario.rs`).

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::limits::FIELDS_MAX;
use crate::proof::{Floor, bits};

/// The newest acknowledged write per field, 8 bytes each.
#[derive(Debug)]
pub struct Ledger {
    fields: usize,
    newest: Vec<AtomicU64>,
}

impl Ledger {
    /// Nothing acknowledged yet of `records` records with `fields` fields.
    pub fn new(records: u64, fields: usize) -> Ledger {
        assert!(fields <= FIELDS_MAX, "a record has at most 16 fields");
        let slots = records as usize * fields;
        Ledger { fields, newest: (0..slots).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Notes that the write `sequence` of the fields in `mask` was acknowledged.
    ///
    /// A key beyond the loaded records is written once, so its presence is all there is to check.
    #[inline]
    pub fn acknowledge(&self, key: u64, mask: u16, sequence: u64) {
        if let Some(row) = self.row(key) {
            for field in bits(mask) {
                row[usize::from(field)].fetch_max(sequence, Ordering::Release);
            }
        }
    }

    /// What a read sent now must at least show.
    #[inline]
    pub fn floor(&self, key: u64, floor: &mut Floor) {
        *floor = [0; FIELDS_MAX];
        if let Some(row) = self.row(key) {
            for (slot, newest) in floor.iter_mut().zip(row) {
                *slot = newest.load(Ordering::Acquire);
            }
        }
    }

    fn row(&self, key: u64) -> Option<&[AtomicU64]> {
        let from = usize::try_from(key).ok()?.checked_mul(self.fields)?;
        self.newest.get(from..from + self.fields)
    }
}

/// The growing end of the key space.
#[derive(Debug)]
pub struct Frontier {
    next: AtomicU64,
    settled: AtomicU64,
    window: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    /// Whether each key from `settled` on is acknowledged.
    done: VecDeque<bool>,
    /// Keys whose insert failed for good: passed over, and not missed when absent.
    failed: Vec<u64>,
}

impl Frontier {
    /// The keys `0..records` are there; the next insert takes `records`.
    pub fn new(records: u64) -> Frontier {
        Frontier {
            next: AtomicU64::new(records),
            settled: AtomicU64::new(records),
            window: Mutex::default(),
        }
    }

    /// The key of the next insert.
    pub fn claim(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The number of keys from 0 on that may be read.
    #[inline]
    pub fn readable(&self) -> u64 {
        self.settled.load(Ordering::Acquire)
    }

    /// Notes that the insert of `key` was acknowledged.
    pub fn acknowledge(&self, key: u64) {
        self.settle(key, |_| ());
    }

    /// Notes that the insert of `key` failed for good.
    pub fn give_up(&self, key: u64) {
        self.settle(key, |window| window.failed.push(key));
    }

    /// Whether the insert of `key` failed for good.
    pub fn failed(&self, key: u64) -> bool {
        self.lock().failed.contains(&key)
    }

    fn settle(&self, key: u64, note: impl FnOnce(&mut Window)) {
        let mut window = self.lock();
        note(&mut window);
        let mut settled = self.settled.load(Ordering::Relaxed);
        assert!(key >= settled, "a key is settled once");
        let slot = (key - settled) as usize;
        if window.done.len() <= slot {
            window.done.resize(slot + 1, false);
        }
        window.done[slot] = true;
        while window.done.front() == Some(&true) {
            window.done.pop_front();
            settled += 1;
        }
        self.settled.store(settled, Ordering::Release);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Window> {
        self.window.lock().expect("no thread panics while it holds the window")
    }
}

/// What was begun on each key and how much of that has an answer: a number of writes, or the newest write.
#[derive(Debug)]
pub struct Tallies {
    keys: Vec<Tally>,
    /// How many writes with a number have been answered.
    epoch: AtomicU64,
}

/// What is known of one key.
#[derive(Debug)]
struct Tally {
    begun: AtomicU64,
    answered: AtomicU64,
    /// The epoch of the last answer.
    answered_at: AtomicU64,
    /// Attempts that have no answer, or of which it is not known what became of them, where all are begun by number.
    under_way: AtomicI64,
    /// What a counter was before this run lies between these two.
    base_low: AtomicI64,
    base_high: AtomicI64,
}

/// What a read of a counter says beside what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The least that may be read.
    pub low: i64,
    /// The most that may be read.
    pub high: i64,
}

impl Tallies {
    /// Nothing begun on the keys from 0 on; what was before is as `base` says of each.
    pub fn new(keys: u64, base: impl Fn(u64) -> Range) -> Tallies {
        let tally = |key| {
            let base = base(key);
            Tally {
                begun: AtomicU64::new(0),
                answered: AtomicU64::new(0),
                answered_at: AtomicU64::new(0),
                under_way: AtomicI64::new(0),
                base_low: AtomicI64::new(base.low),
                base_high: AtomicI64::new(base.high),
            }
        };
        Tallies { keys: (0..keys).map(tally).collect(), epoch: AtomicU64::new(0) }
    }

    fn of(&self, key: u64) -> Option<&Tally> {
        self.keys.get(usize::try_from(key).ok()?)
    }

    /// One more is begun on `key`.
    pub fn begin(&self, key: u64) {
        if let Some(tally) = self.of(key) {
            tally.begun.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// One of those begun on `key` has its answer.
    pub fn answer(&self, key: u64) {
        if let Some(tally) = self.of(key) {
            tally.answered.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// One of those begun on `key` was not done.
    pub fn withdraw(&self, key: u64) {
        if let Some(tally) = self.of(key) {
            tally.begun.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// The write `sequence` of `key` is begun.
    pub fn begin_as(&self, key: u64, sequence: u64) {
        if let Some(tally) = self.of(key) {
            tally.under_way.fetch_add(1, Ordering::AcqRel);
            tally.begun.fetch_max(sequence, Ordering::AcqRel);
        }
    }

    /// The write `sequence` of `key` has its answer.
    pub fn answer_as(&self, key: u64, sequence: u64) {
        if let Some(tally) = self.of(key) {
            let at = self.epoch.fetch_add(1, Ordering::AcqRel) + 1;
            // Who sees the answer sees when it came.
            tally.answered_at.fetch_max(at, Ordering::AcqRel);
            tally.answered.fetch_max(sequence, Ordering::AcqRel);
            tally.under_way.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// An attempt at a write of `key` with a number was not done.
    pub fn leave(&self, key: u64) {
        if let Some(tally) = self.of(key) {
            tally.under_way.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// How many writes with a number have been answered.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The newest write of `key`, if it was answered by `epoch` and no newer one is begun.
    pub fn settled_before(&self, key: u64, epoch: u64) -> Option<u64> {
        let tally = self.of(key)?;
        let answered = tally.answered.load(Ordering::Acquire);
        let is_settled = answered > 0
            && tally.answered_at.load(Ordering::Acquire) <= epoch
            && tally.begun.load(Ordering::Acquire) == answered;
        is_settled.then_some(answered)
    }

    /// The same if no write of `key` at all, not an older one either, was under way since `epoch`.
    pub fn alone_since(&self, key: u64, epoch: u64) -> Option<u64> {
        // First: each that was under way before is then told of in what is read below.
        let under_way = self.of(key)?.under_way.load(Ordering::Acquire);
        let newest = self.settled_before(key, epoch)?;
        (under_way == 0).then_some(newest)
    }

    /// What was begun on `key`.
    pub fn begun(&self, key: u64) -> u64 {
        self.of(key).map_or(0, |tally| tally.begun.load(Ordering::Acquire))
    }

    /// What of that has its answer.
    pub fn answered(&self, key: u64) -> u64 {
        self.of(key).map_or(0, |tally| tally.answered.load(Ordering::Acquire))
    }

    /// `count` was read of the counter `key`, when `answered` were answered before and `begun` were begun until then.
    /// What it was before this run is known better by every read. The range that `count` should be in, if it is not.
    pub fn narrow(&self, key: u64, count: i64, answered: u64, begun: u64) -> Result<(), Range> {
        let Some(tally) = self.of(key) else { return Ok(()) };
        let (low, high) =
            (count.saturating_sub_unsigned(begun), count.saturating_sub_unsigned(answered));
        let base_low = tally.base_low.fetch_max(low, Ordering::AcqRel);
        let base_high = tally.base_high.fetch_min(high, Ordering::AcqRel);
        if low <= base_high && base_low <= high {
            return Ok(());
        }
        Err(Range {
            low: base_low.saturating_add_unsigned(answered),
            high: base_high.saturating_add_unsigned(begun),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_acknowledgement_of_each_field_counts() {
        let ledger = Ledger::new(3, 2);
        ledger.acknowledge(1, 0b11, 50);
        ledger.acknowledge(1, 0b10, 70);
        ledger.acknowledge(1, 0b11, 60);
        let mut floor = [9; FIELDS_MAX];
        ledger.floor(1, &mut floor);
        assert_eq!(&floor[..3], &[60, 70, 0]);
        ledger.acknowledge(3, 0b11, 80);
        ledger.floor(3, &mut floor);
        assert_eq!(floor, [0; FIELDS_MAX], "keys beyond the records have no floor");
    }

    #[test]
    fn reads_of_a_counter_narrow_what_it_was_before() {
        let unknown = Range { low: i64::MIN, high: i64::MAX };
        let tallies = Tallies::new(1, |_| unknown);
        (0..5).for_each(|_| tallies.begin(0));
        (0..3).for_each(|_| tallies.answer(0));
        let (answered, begun) = (tallies.answered(0), tallies.begun(0));
        assert_eq!((answered, begun), (3, 5));
        assert_eq!(tallies.narrow(0, 10, answered, begun), Ok(()), "it was 5 to 7");
        assert_eq!(tallies.narrow(0, 12, answered, begun), Ok(()), "it was 7");
        assert_eq!(tallies.narrow(0, 9, answered, begun), Err(Range { low: 10, high: 12 }));
        tallies.withdraw(0);
        assert_eq!(tallies.begun(0), 4);
        let known = Tallies::new(1, |_| Range { low: 2, high: 2 });
        assert_eq!(known.narrow(0, 1, 0, 0), Err(Range { low: 2, high: 2 }));
        assert_eq!(known.narrow(7, 1, 0, 0), Ok(()), "nothing is known of other keys");
    }

    #[test]
    fn a_write_is_settled_once_it_is_answered_and_until_the_next_is_begun() {
        let tallies = Tallies::new(1, |_| Range { low: 0, high: 0 });
        tallies.begin_as(0, 7);
        assert_eq!(tallies.settled_before(0, tallies.epoch()), None);
        let before = tallies.epoch();
        tallies.answer_as(0, 7);
        assert_eq!(tallies.settled_before(0, before), None, "answered since");
        assert_eq!(tallies.settled_before(0, tallies.epoch()), Some(7));
        tallies.begin_as(0, 9);
        assert_eq!(tallies.settled_before(0, tallies.epoch()), None);
        tallies.begin_as(0, 8);
        tallies.answer_as(0, 9);
        let epoch = tallies.epoch();
        assert_eq!(tallies.settled_before(0, epoch), Some(9));
        assert_eq!(tallies.alone_since(0, epoch), None, "an older one is under way");
        tallies.answer_as(0, 8);
        assert_eq!(tallies.alone_since(0, epoch), None, "it was");
        assert_eq!(tallies.alone_since(0, tallies.epoch()), Some(9));
        tallies.begin_as(0, 10);
        tallies.leave(0);
        assert_eq!(tallies.alone_since(0, tallies.epoch()), None, "it was begun, and not done");
    }

    #[test]
    fn keys_become_readable_without_gaps() {
        let frontier = Frontier::new(10);
        let keys: Vec<u64> = (0..4).map(|_| frontier.claim()).collect();
        assert_eq!(keys, [10, 11, 12, 13]);
        frontier.acknowledge(12);
        assert_eq!(frontier.readable(), 10);
        frontier.acknowledge(10);
        assert_eq!(frontier.readable(), 11);
        frontier.give_up(11);
        assert_eq!(frontier.readable(), 13);
        assert!(frontier.failed(11) && !frontier.failed(12));
    }
}
