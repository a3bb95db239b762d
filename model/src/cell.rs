//! Who wins when two writes meet. Pure, and the same everywhere: memtable, merge, compaction.
//!
//! 1. the higher timestamp;
//! 2. at a tie, a tombstone over anything live;
//! 3. then an expiring cell over one that does not expire;
//! 4. then the later expiry;
//! 5. then the larger value, byte by byte.
//!
//! (Cassandra's `Cells.reconcile`.) The relation is a total order on what a
//! cell says, so the winner is commutative, associative and idempotent; a property test says so.
//! A deletion covers what is *not newer* than it: `timestamp <= deletion.timestamp`.

use std::cmp::Ordering;

/// A tombstone over a row, a range, a partition or a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deletion {
    /// What is not newer than this is gone. Microseconds.
    pub timestamp: i64,
    /// When it was made, in seconds: after `gc_grace_seconds` it may be purged.
    pub local_s: u32,
}

impl Deletion {
    /// The deletion that deletes nothing.
    pub const NONE: Deletion = Deletion { timestamp: i64::MIN, local_s: u32::MAX };

    /// Whether it deletes nothing.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.timestamp == i64::MIN
    }

    /// Whether something written at `timestamp` is gone.
    #[inline]
    pub fn covers(&self, timestamp: i64) -> bool {
        timestamp <= self.timestamp && !self.is_none()
    }

    /// The stronger of two: the newer, and at a tie the one that may be purged later.
    #[inline]
    pub fn max(self, other: Deletion) -> Deletion {
        let key = |d: Deletion| (d.timestamp, if d.is_none() { 0 } else { d.local_s });
        if key(other) > key(self) { other } else { self }
    }
}

/// Time to live: how long it was given, and when it ends.
///
/// An expired cell whose value a flush or compaction has dropped is *spent*: its `ttl_s` is 0. It is dead whatever the
/// time, and still meets other cells as what it was: as a tombstone it would win over one that was written with the
/// same timestamp and expires later, and what a reader sees would depend on when compaction came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expiry {
    /// As written by the client, in seconds; 0 if it is spent.
    pub ttl_s: u32,
    /// The first second at which the cell is dead.
    pub at_s: u32,
}

/// What a cell says about itself, apart from its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Lives until overwritten.
    Live,
    /// Lives until a moment.
    Expiring(Expiry),
    /// A tombstone, made at this second.
    Dead {
        /// When the tombstone was made, in seconds.
        local_s: u32,
    },
}

impl Life {
    /// Whether there is nothing to see at `now_s`.
    #[inline]
    pub fn is_dead(&self, now_s: u32) -> bool {
        match self {
            Life::Live => false,
            Life::Expiring(expiry) => expiry.at_s <= now_s || expiry.ttl_s == 0,
            Life::Dead { .. } => true,
        }
    }

    /// Order at equal timestamps: dead, expiring, live; then by time.
    #[inline]
    fn rank(&self) -> (u8, u32, u32) {
        match *self {
            Life::Live => (0, 0, 0),
            Life::Expiring(expiry) => (1, expiry.at_s, expiry.ttl_s),
            Life::Dead { local_s } => (2, local_s, 0),
        }
    }
}

/// Which of two cells wins; `Greater` means the first. Equal only if they say the same.
#[inline]
pub fn reconcile(a: (i64, Life, &[u8]), b: (i64, Life, &[u8])) -> Ordering {
    a.0.cmp(&b.0).then_with(|| a.1.rank().cmp(&b.1.rank())).then_with(|| a.2.cmp(b.2))
}

/// Which of two row markers wins.
#[inline]
pub fn reconcile_markers(a: (i64, Life), b: (i64, Life)) -> Ordering {
    a.0.cmp(&b.0).then_with(|| a.1.rank().cmp(&b.1.rank()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Owned = (i64, Life, Vec<u8>);

    fn any_cell() -> impl Strategy<Value = Owned> {
        let life = prop_oneof![
            Just(Life::Live),
            (0..3u32, 0..3u32).prop_map(|(ttl_s, at_s)| Life::Expiring(Expiry { ttl_s, at_s })),
            (0..3u32).prop_map(|local_s| Life::Dead { local_s }),
        ];
        (0..3i64, life, prop::collection::vec(0..3u8, 0..3))
    }

    fn winner(a: &Owned, b: &Owned) -> Owned {
        match reconcile((a.0, a.1, &a.2), (b.0, b.1, &b.2)) {
            Ordering::Less => b.clone(),
            _ => a.clone(),
        }
    }

    proptest! {
        #[test]
        fn winning_is_commutative_associative_idempotent(
            a in any_cell(), b in any_cell(), c in any_cell()
        ) {
            prop_assert_eq!(winner(&a, &b), winner(&b, &a));
            prop_assert_eq!(winner(&a, &winner(&b, &c)), winner(&winner(&a, &b), &c));
            prop_assert_eq!(winner(&a, &a), a);
        }
    }

    #[test]
    fn at_a_tie_the_tombstone_then_the_expiring_then_the_larger_value_wins() {
        let expiring = Life::Expiring(Expiry { ttl_s: 9, at_s: 9 });
        let dead = Life::Dead { local_s: 1 };
        assert!(reconcile((1, dead, b""), (1, expiring, b"z")).is_gt());
        assert!(reconcile((1, expiring, b"a"), (1, Life::Live, b"z")).is_gt());
        assert!(reconcile((1, Life::Live, b"b"), (1, Life::Live, b"a")).is_gt());
        assert!(reconcile((2, Life::Live, b""), (1, dead, b"")).is_gt());
    }

    #[test]
    fn no_deletion_covers_nothing() {
        assert!(!Deletion::NONE.covers(i64::MIN));
        let some = Deletion { timestamp: 5, local_s: 1 };
        assert!(some.covers(5) && !some.covers(6));
        assert_eq!(Deletion::NONE.max(some), some);
        assert_eq!(some.max(Deletion::NONE), some);
    }
}
