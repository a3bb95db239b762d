//! Who owns a token: the formula shard-aware drivers compute, and its exact inverse.
//!
//! ```text
//! biased = token + 2^63                       position on the ring, unsigned
//! shard  = ((biased << ignore_msb) * shards) >> 64
//! ```
//!
//! With `ignore_msb = 0` every shard owns one contiguous run of tokens, and the runs are in shard
//! order: a scan over the ring visits the shards one after the other. `SUPPORTED` tells drivers
//! the same two numbers, so a driver's choice of connection and ours of core always agree.
//!
//! Not here: moving ranges between shards. A shard holds a *set* of ranges, this gives it its first.

use model::{Token, TokenRange};

use crate::limits::SHARDS_MAX;

/// The index of a shard, which is also that of its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(u16);

impl ShardId {
    /// The shard number `index`.
    #[inline]
    pub const fn new(index: usize) -> ShardId {
        assert!(index < SHARDS_MAX, "a shard's number is below the limit");
        ShardId(index as u16)
    }

    /// The shard's number, to index by.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for ShardId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Deals the ring over a fixed number of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharder {
    shards: u16,
}

impl Sharder {
    /// What drivers are told of the formula's shift: none, so ranges are contiguous.
    pub const IGNORE_MSB: u32 = 0;

    /// Over `shards` shards; more than zero, at most [`SHARDS_MAX`].
    pub fn new(shards: usize) -> Sharder {
        assert!(shards > 0, "there is at least one shard");
        assert!(shards <= SHARDS_MAX, "no more shards than the limit");
        Sharder { shards: shards as u16 }
    }

    /// The number of shards.
    #[inline]
    pub fn shards(self) -> usize {
        usize::from(self.shards)
    }

    /// All of them, in token order.
    pub fn all(self) -> impl DoubleEndedIterator<Item = ShardId> {
        (0..self.shards).map(ShardId)
    }

    /// The shard that owns `token`.
    #[inline]
    pub fn shard_of(self, token: Token) -> ShardId {
        let product = u128::from(token.biased() << Self::IGNORE_MSB) * u128::from(self.shards);
        ShardId((product >> 64) as u16)
    }

    /// The tokens `shard` owns: exactly those that [`shard_of`](Self::shard_of) sends to it.
    pub fn range_of(self, shard: ShardId) -> TokenRange {
        assert!(shard.0 < self.shards, "the shard exists");
        let first = self.first_biased(u128::from(shard.0));
        let last = self.first_biased(u128::from(shard.0) + 1) - 1;
        TokenRange { first: unbias(first as u64), last: unbias(last as u64) }
    }

    /// The smallest ring position of shard number `shard`: the least `b` with
    /// `b * shards / 2^64 ≥ shard`. One past the last shard it is 2^64.
    fn first_biased(self, shard: u128) -> u128 {
        (shard << 64).div_ceil(u128::from(self.shards))
    }
}

fn unbias(biased: u64) -> Token {
    Token((biased ^ (1 << 63)) as i64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shard_of(token: i64, shards: usize) -> usize {
        Sharder::new(shards).shard_of(Token(token)).index()
    }

    /// Values of the drivers' own formula.
    #[test]
    fn agrees_with_the_drivers() {
        assert_eq!(shard_of(i64::MIN, 3), 0);
        assert_eq!(shard_of(-1, 2), 0);
        assert_eq!(shard_of(0, 2), 1);
        assert_eq!(shard_of(0, 3), 1);
        assert_eq!(shard_of(i64::MAX, 3), 2);
        assert_eq!(shard_of(-4069959284402364209, 8), 2);
        assert_eq!(shard_of(-9219783007514621794, 8), 0);
        assert_eq!(shard_of(9222582454147032830, 8), 7);
    }

    /// The ranges of all shards follow one another and cover the ring.
    #[test]
    fn ranges_tile_the_ring() {
        for shards in (1..=130).chain([SHARDS_MAX - 1, SHARDS_MAX]) {
            let sharder = Sharder::new(shards);
            let mut next = i128::from(i64::MIN);
            for shard in sharder.all() {
                let range = sharder.range_of(shard);
                assert_eq!(i128::from(range.first.0), next);
                assert!(range.first <= range.last);
                next = i128::from(range.last.0) + 1;
            }
            assert_eq!(next, i128::from(i64::MAX) + 1);
        }
    }

    proptest! {
        /// A token lies in the range of its shard and of no other; so do the ends of every range.
        #[test]
        fn range_is_the_inverse(token: i64, shards in 1..=SHARDS_MAX) {
            let sharder = Sharder::new(shards);
            let owner = sharder.shard_of(Token(token));
            let range = sharder.range_of(owner);
            prop_assert!(range.contains(Token(token)));
            prop_assert_eq!(sharder.shard_of(range.first), owner);
            prop_assert_eq!(sharder.shard_of(range.last), owner);
            if range.first.0 > i64::MIN {
                prop_assert_eq!(sharder.shard_of(Token(range.first.0 - 1)).index() + 1, owner.index());
            }
        }
    }
}
