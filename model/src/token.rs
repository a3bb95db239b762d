//! Where a partition lives: Cassandra's Murmur3 token of its key.
//!
//! The hash is MurmurHash3_x64_128 with seed 0, first half, with one deviation that all of
//! Cassandra's world shares: the *tail* bytes are sign-extended before they are shifted
//! (`org.apache.cassandra.utils.MurmurHash`). The `murmur3` crate has them unsigned, so it serves
//! as a test oracle only where no tail byte exceeds 0x7F.
//!
//! `i64::MIN` is never a token: it becomes `i64::MAX`.

use serde::{Deserialize, Serialize};

/// A position on the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Token(pub i64);

impl Token {
    /// The smallest token a key can have.
    pub const MIN: Token = Token(i64::MIN + 1);
    /// The largest token, and the end of the ring.
    pub const MAX: Token = Token(i64::MAX);

    /// The token of a serialised partition key (`key.rs`).
    #[inline]
    pub fn of_key(key: &[u8]) -> Token {
        match murmur3_x64_h1(key) {
            i64::MIN => Token(i64::MAX),
            hash => Token(hash),
        }
    }

    /// The token as an unsigned position from the start of the ring: order-preserving.
    #[inline]
    pub const fn biased(self) -> u64 {
        (self.0 as u64) ^ (1 << 63)
    }
}

/// A run of tokens, both ends inside. Empty when `first > last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TokenRange {
    /// The smallest token inside.
    pub first: Token,
    /// The largest token inside.
    pub last: Token,
}

impl TokenRange {
    /// The whole ring.
    pub const ALL: TokenRange = TokenRange { first: Token(i64::MIN), last: Token::MAX };

    /// Whether `token` lies inside.
    #[inline]
    pub fn contains(&self, token: Token) -> bool {
        self.first <= token && token <= self.last
    }

    /// Whether no token lies inside.
    pub fn is_empty(&self) -> bool {
        self.first > self.last
    }

    /// What both ranges hold, if anything.
    pub fn intersection(&self, other: &TokenRange) -> Option<TokenRange> {
        let both =
            TokenRange { first: self.first.max(other.first), last: self.last.min(other.last) };
        (!both.is_empty()).then_some(both)
    }
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

#[inline]
fn fmix(mut k: u64) -> u64 {
    k = (k ^ (k >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    k = (k ^ (k >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

#[inline]
fn mix1(k: u64) -> u64 {
    k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

#[inline]
fn mix2(k: u64) -> u64 {
    k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

/// Up to eight tail bytes, each sign-extended and then shifted: Cassandra's deviation.
#[inline]
fn signed_tail(tail: &[u8]) -> u64 {
    tail.iter().enumerate().fold(0, |k, (i, &b)| k ^ (i64::from(b as i8) << (8 * i)) as u64)
}

fn murmur3_x64_h1(key: &[u8]) -> i64 {
    let (mut h1, mut h2) = (0u64, 0u64);
    let (blocks, tail) = key.as_chunks::<16>();
    for block in blocks {
        let block = u128::from_le_bytes(*block);
        h1 ^= mix1(block as u64);
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= mix2((block >> 64) as u64);
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let (low, high) = tail.split_at(tail.len().min(8));
    if !high.is_empty() {
        h2 ^= mix2(signed_tail(high));
    }
    if !low.is_empty() {
        h1 ^= mix1(signed_tail(low));
    }
    h1 ^= key.len() as u64;
    h2 ^= key.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (fmix(h1).wrapping_add(fmix(h2))) as i64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Recorded from the drivers' own code: key bytes and token.
    #[test]
    fn tokens_are_those_of_the_drivers() {
        let vectors: &[(&[u8], i64)] = &[
            (&1i32.to_be_bytes(), -4069959284402364209),
            (&127i32.to_be_bytes(), 4443639997907684431),
            (&128i32.to_be_bytes(), -9081975895656599623),
            (&(-1i32).to_be_bytes(), 7297452126230313552),
            (&(-1i64).to_be_bytes(), 7071048584287372947),
            (b"a", -8839064797231613815),
            ("é".as_bytes(), 5461403030378599040),
            (&[0xFF; 17], -4128212798341382003),
            (&[0, 4, 0, 0, 0, 1, 0, 0, 1, b'a', 0], 6516349416904725244),
        ];
        for (key, token) in vectors {
            assert_eq!(Token::of_key(key), Token(*token), "{key:?}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_crate_where_tails_are_ascii(key in "[ -~]{0,80}") {
            let mut reader = key.as_bytes();
            let wide = murmur3::murmur3_x64_128(&mut reader, 0).expect("reads from memory");
            prop_assert_eq!(murmur3_x64_h1(key.as_bytes()), wide as u64 as i64);
        }

        #[test]
        fn bias_keeps_order(a: i64, b: i64) {
            prop_assert_eq!(a.cmp(&b), Token(a).biased().cmp(&Token(b).biased()));
        }
    }
}
