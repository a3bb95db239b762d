//! The compiled statements of one core, bounded by bytes.
//!
//! ```text
//! PREPARE ──► young ──(half the bound is full)──► old ──► forgotten ──► dropped, a few with each that comes
//!               ▲───────────── used again ─────────┘
//! ```
//!
//! Two generations approximate least-recently-used without bookkeeping on a hit: what is used moves
//! to the young ones, and when these fill half the bound, the old ones go. A client whose statement
//! was forgotten is told UNPREPARED and prepares again, as drivers do by themselves.
//!
//! A change of the schema costs nothing by itself: a statement is checked when it is used again. All of them are
//! checked at the first use after [`SCHEMA_CHANGES_UNCHECKED_MAX`] changes, since each that is not valid any more keeps
//! the old version of its table in memory. Of these [`DROPPED_AT_ONCE`] are dropped then, the others with each
//! statement that comes or is checked later.
//!
//! Invariants
//! 1. `young + old ≤ bytes_max`, and one statement more: each generation holds less than half of it before the
//!    statement that fills it. What was forgotten is at most as much again, while long statements come behind many
//!    short ones: of it twice the bytes of each statement that comes are dropped, but [`DROPPED_AT_ONCE`] statements at
//!    most. To drop tens of thousands in one step takes tens of milliseconds.
//! 2. A statement compiled against a table that has changed since is not found.

use std::rc::Rc;

use hashbrown::HashMap;

use crate::limits::SCHEMA_CHANGES_UNCHECKED_MAX;

/// What PREPARED names: the MD5 of keyspace and text, the same on every core and after a restart.
pub(crate) type StatementId = [u8; 16];

/// A compiled statement, its bytes, and the number of the last schema by which it was valid.
struct Kept<S> {
    statement: Rc<S>,
    bytes: usize,
    valid_at_schema: u64,
}

/// Statements that are dropped at a time: that takes less than a millisecond.
const DROPPED_AT_ONCE: usize = 100;

type Generation<S> = HashMap<StatementId, Kept<S>, foldhash::fast::RandomState>;

/// The compiled statements of one core, by id, in two generations.
pub(crate) struct PreparedCache<S> {
    young: Generation<S>,
    old: Generation<S>,
    /// What is not found any more, and not dropped yet.
    forgotten: Vec<Kept<S>>,
    young_bytes: usize,
    bytes_max: usize,
    /// Number of the schema by which all of them were checked last.
    checked_at_schema: u64,
}

impl<S> PreparedCache<S> {
    /// An empty cache.
    pub(crate) fn new(bytes_max: usize) -> PreparedCache<S> {
        let (young, old) = (Generation::default(), Generation::default());
        let forgotten = Vec::new();
        PreparedCache { young, old, forgotten, young_bytes: 0, bytes_max, checked_at_schema: 0 }
    }

    /// The statement, if it is known and still valid by the schema of this number, which `is_valid` knows.
    #[inline]
    pub(crate) fn get(
        &mut self,
        id: &[u8],
        schema: u64,
        is_valid: impl Fn(&S) -> bool,
    ) -> Option<Rc<S>> {
        match self.young.get(id) {
            Some(kept) if kept.valid_at_schema == schema => Some(kept.statement.clone()),
            _ => self.get_checked(id, schema, is_valid),
        }
    }

    /// [`get`](Self::get) of a statement that is among the old ones, or was last valid by an earlier schema.
    #[cold]
    fn get_checked(
        &mut self,
        id: &[u8],
        schema: u64,
        is_valid: impl Fn(&S) -> bool,
    ) -> Option<Rc<S>> {
        if schema >= self.checked_at_schema + SCHEMA_CHANGES_UNCHECKED_MAX {
            self.check_all(schema, &is_valid);
        }
        let (id, kept) = match self.young.remove_entry(id) {
            Some((id, kept)) => {
                self.young_bytes -= kept.bytes;
                (id, kept)
            }
            None => self.old.remove_entry(id)?,
        };
        if kept.valid_at_schema != schema && !is_valid(&kept.statement) {
            return None;
        }
        self.put(id, kept.statement.clone(), kept.bytes, schema);
        Some(kept.statement)
    }

    /// Remembers a statement that takes so many bytes and is valid by the schema of this number.
    pub(crate) fn put(&mut self, id: StatementId, statement: Rc<S>, bytes: usize, schema: u64) {
        self.old.remove(&id);
        if let Some(before) =
            self.young.insert(id, Kept { statement, bytes, valid_at_schema: schema })
        {
            self.young_bytes -= before.bytes;
        }
        self.young_bytes += bytes;
        self.drop_some(bytes);
        if self.young_bytes > self.bytes_max / 2 {
            let old = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            self.forgotten.extend(old.into_values());
            self.young_bytes = 0;
        }
    }

    /// Drops twice so many bytes of what was forgotten, a statement at least, and [`DROPPED_AT_ONCE`] at most.
    fn drop_some(&mut self, bytes: usize) {
        let mut left = 2 * bytes;
        for _ in 0..DROPPED_AT_ONCE {
            let Some(kept) = self.forgotten.pop() else { break };
            if kept.bytes >= left {
                break;
            }
            left -= kept.bytes;
        }
        if self.forgotten.is_empty() {
            self.forgotten = Vec::new();
        }
    }

    /// Forgets all statements that are not valid by the schema of this number.
    pub(crate) fn check_all(&mut self, schema: u64, is_valid: impl Fn(&S) -> bool) {
        if self.checked_at_schema == schema {
            return;
        }
        self.checked_at_schema = schema;
        for generation in [&mut self.old, &mut self.young] {
            let invalid = generation.extract_if(|_, kept| {
                let valid = kept.valid_at_schema == schema || is_valid(&kept.statement);
                kept.valid_at_schema = schema;
                !valid
            });
            self.forgotten.extend(invalid.map(|(_, kept)| kept));
        }
        // The others follow as statements come: a node may prepare nothing more.
        let left = self.forgotten.len().saturating_sub(DROPPED_AT_ONCE);
        self.forgotten.truncate(left);
        self.young_bytes = self.young.values().map(|kept| kept.bytes).sum();
    }

    /// Everything that is known.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&StatementId, &Rc<S>)> {
        let both = self.young.iter().chain(&self.old);
        both.map(|(id, kept)| (id, &kept.statement))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> StatementId {
        [n; 16]
    }

    fn get(cache: &mut PreparedCache<u8>, n: u8) -> Option<u8> {
        cache.get(&id(n), 1, |_| unreachable!("the schema has not changed")).as_deref().copied()
    }

    #[test]
    fn what_is_used_stays_and_the_bound_holds() {
        let mut cache = PreparedCache::new(100);
        cache.put(id(0), Rc::new(0), 10, 1);
        for n in 1..60 {
            cache.put(id(n), Rc::new(n), 10, 1);
            assert_eq!(get(&mut cache, 0), Some(0), "used after each");
            assert!(cache.iter().count() <= 12);
        }
        assert_eq!(get(&mut cache, 1), None);
        assert_eq!(get(&mut cache, 59), Some(59));
        assert_eq!(get(&mut cache, 99), None);
    }

    /// Before: a generation was dropped with the statement that filled the next one, and all that a change of the
    /// schema made invalid at once.
    #[test]
    fn what_is_forgotten_is_dropped_a_few_at_a_time() {
        let mut cache = PreparedCache::new(2000);
        let mut all: Vec<Rc<u8>> = Vec::new();
        let in_memory = |all: &[Rc<u8>]| all.iter().filter(|one| Rc::strong_count(one) > 1).count();
        for n in 0..250 {
            let before = in_memory(&all);
            all.push(Rc::new(n));
            cache.put(id(n), all[usize::from(n)].clone(), 10, 1);
            let now = in_memory(&all);
            assert!(now + 1 >= before && now <= 202, "{before} and then {now} with {n}");
        }
        let before = in_memory(&all);
        cache.check_all(2, |_| false);
        assert_eq!((in_memory(&all), cache.iter().count()), (before - DROPPED_AT_ONCE, 0));
        cache.put(id(250), Rc::new(0), 10, 2);
        assert_eq!(in_memory(&all), before - DROPPED_AT_ONCE - 2);
    }

    /// Before: a statement that takes as much as thousands of short ones had as many dropped in one step.
    #[test]
    fn a_long_statement_drops_few_of_many_short_ones() {
        let mut cache = PreparedCache::new(40_000);
        let all: Vec<Rc<u8>> = (0..250).map(Rc::new).collect();
        for (n, statement) in (0..).zip(&all) {
            cache.put(id(n), statement.clone(), 40, 1);
        }
        cache.check_all(2, |_| false);
        cache.put(id(0), Rc::new(0), 15_000, 2);
        let in_memory = all.iter().filter(|one| Rc::strong_count(one) > 1).count();
        assert_eq!(in_memory, all.len() - 2 * DROPPED_AT_ONCE);
    }

    #[test]
    fn what_is_invalid_is_not_found() {
        let mut cache = PreparedCache::new(100);
        (0..6).for_each(|n| cache.put(id(n), Rc::new(n), 10, 1));
        for n in 0..6 {
            let found = cache.get(&id(n), 2, |n| n % 2 == 0);
            assert_eq!(found.as_deref().copied(), (n % 2 == 0).then_some(n));
            let again = cache.get(&id(n), 2, |_| unreachable!("it was checked"));
            assert_eq!(again, found);
        }
        assert_eq!((cache.iter().count(), cache.young_bytes), (3, 30));
    }

    #[test]
    fn what_is_not_used_is_checked_after_some_changes() {
        let mut cache = PreparedCache::new(1000);
        (0..6).for_each(|n| cache.put(id(n), Rc::new(n), 10, 1));
        cache.get(&id(0), SCHEMA_CHANGES_UNCHECKED_MAX - 1, |n| n % 2 == 0);
        assert_eq!(cache.iter().count(), 6, "a change costs little");
        cache.get(&id(0), SCHEMA_CHANGES_UNCHECKED_MAX, |n| n % 2 == 0);
        let mut left: Vec<u8> = cache.iter().map(|(_, n)| **n).collect();
        left.sort_unstable();
        assert_eq!((left, cache.young_bytes), (vec![0, 2, 4], 30));
    }
}
