//! The compiled statements of one core, bounded by bytes.
//!
//! ```text
//! PREPARE ──► young ──(half the bound is full)──► old ──► forgotten
//!               ▲───────────── used again ─────────┘
//! ```
//!
//! Two generations approximate least-recently-used without bookkeeping on a hit: what is used moves
//! to the young ones, and when these fill half the bound, the old ones go. A client whose statement
//! was forgotten is told UNPREPARED and prepares again, as drivers do by themselves.
//!
//! Invariants
//! 1. `young + old ≤ bytes_max`, and one statement more: each generation holds less than half of it before the
//!    statement that fills it.
//! 2. A statement compiled against a table that has changed since is not found.

use std::rc::Rc;

use hashbrown::HashMap;

/// What PREPARED names: the MD5 of keyspace and text, the same on every core and after a restart.
pub(crate) type StatementId = [u8; 16];

type Generation<S> = HashMap<StatementId, (Rc<S>, usize), foldhash::fast::RandomState>;

/// The compiled statements of one core, by id, in two generations.
pub(crate) struct PreparedCache<S> {
    young: Generation<S>,
    old: Generation<S>,
    young_bytes: usize,
    bytes_max: usize,
}

impl<S> PreparedCache<S> {
    /// An empty cache.
    pub(crate) fn new(bytes_max: usize) -> PreparedCache<S> {
        let (young, old) = (Generation::default(), Generation::default());
        PreparedCache { young, old, young_bytes: 0, bytes_max }
    }

    /// The statement, if it is known.
    #[inline]
    pub(crate) fn get(&mut self, id: &[u8]) -> Option<Rc<S>> {
        if let Some((statement, _)) = self.young.get(id) {
            return Some(statement.clone());
        }
        let (id, (statement, bytes)) = self.old.remove_entry(id)?;
        self.put(id, statement.clone(), bytes);
        Some(statement)
    }

    /// Remembers a statement that takes so many bytes.
    pub(crate) fn put(&mut self, id: StatementId, statement: Rc<S>, bytes: usize) {
        self.old.remove(&id);
        if let Some((_, before)) = self.young.insert(id, (statement, bytes)) {
            self.young_bytes -= before;
        }
        self.young_bytes += bytes;
        if self.young_bytes > self.bytes_max / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }

    /// Forgets what is not valid any more.
    pub(crate) fn retain(&mut self, valid: impl Fn(&S) -> bool) {
        self.old.retain(|_, (statement, _)| valid(statement));
        self.young.retain(|_, (statement, _)| valid(statement));
        self.young_bytes = self.young.values().map(|(_, bytes)| bytes).sum();
    }

    /// Everything that is known.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&StatementId, &Rc<S>)> {
        let both = self.young.iter().chain(&self.old);
        both.map(|(id, (statement, _))| (id, statement))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> StatementId {
        [n; 16]
    }

    #[test]
    fn what_is_used_stays_and_the_bound_holds() {
        let mut cache = PreparedCache::new(100);
        cache.put(id(0), Rc::new(0), 10);
        for n in 1..60 {
            cache.put(id(n), Rc::new(n), 10);
            assert_eq!(cache.get(&id(0)).as_deref(), Some(&0), "used after each");
            assert!(cache.iter().count() <= 12);
        }
        assert_eq!(cache.get(&id(1)), None);
        assert_eq!(cache.get(&id(59)).as_deref(), Some(&59));
        assert_eq!(cache.get(b"no such id"), None);
    }

    #[test]
    fn what_is_invalid_is_forgotten() {
        let mut cache = PreparedCache::new(100);
        (0..6).for_each(|n| cache.put(id(n), Rc::new(n), 10));
        cache.retain(|n| n % 2 == 0);
        let mut left: Vec<u8> = cache.iter().map(|(_, n)| **n).collect();
        left.sort_unstable();
        assert_eq!(left, [0, 2, 4]);
    }
}
