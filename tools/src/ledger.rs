//! What has been acknowledged in this run, shared by all client threads.
//!
//! `Ledger` holds the newest acknowledged write of every field of every loaded record; a read's
//! floor is copied from it before the read is sent. `Frontier` hands out the keys that a run
//! inserts and says up to which of them all are acknowledged: only those are ever read, as with
//! YCSB's acknowledged counter.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

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
