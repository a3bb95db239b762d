//! Which key an operation touches: the distributions of YCSB.
//!
//! ```text
//! uniform     every key alike
//! zipfian     key 0 first, then by Zipf's law: hot keys are neighbours
//! scrambled   Zipf over 10^10 items, hashed onto the keys: hot keys are strewn (YCSB's "zipfian")
//! latest      Zipf counted back from the newest key
//! hotspot     a share of the operations goes to a share of the keys
//! ```
//!
//! A distribution picks key *numbers*; `key_name` turns one into the stored key as YCSB does.

pub mod zipf;

use rand::{Rng, RngExt};
use zipf::Zipf;

/// A distribution over the keys `0..keys`, where `keys` may grow while it is used.
#[derive(Clone, Debug)]
pub enum Popularity {
    /// Every key alike.
    Uniform,
    /// Zipf over the keys in their own order.
    Zipfian(Zipf),
    /// Zipf over 10^10 items, each hashed onto one of `span` keys.
    Scrambled {
        /// The hidden distribution.
        zipf: Zipf,
        /// The keys it is spread over; those not yet written are drawn again.
        span: u64,
    },
    /// Zipf counted back from the newest key.
    Latest(Zipf),
    /// The first `hot_keys` share of the keys gets the `hot_operations` share of the operations.
    Hotspot {
        /// Between 0 and 1.
        hot_keys: f64,
        /// Between 0 and 1.
        hot_operations: f64,
    },
}

impl Popularity {
    /// One of the keys `0..keys`; `keys` is at least 1.
    #[inline]
    pub fn pick(&mut self, keys: u64, rng: &mut impl Rng) -> u64 {
        assert!(keys > 0, "there is no key to pick");
        match self {
            Popularity::Uniform => rng.random_range(0..keys),
            Popularity::Zipfian(zipf) => loop {
                let key = zipf.sample(rng);
                if key < keys {
                    return key;
                }
            },
            Popularity::Scrambled { zipf, span } => loop {
                let key = fnv64(zipf.sample(rng)) % *span;
                if key < keys {
                    return key;
                }
            },
            Popularity::Latest(zipf) => {
                zipf.grow(keys);
                keys - 1 - zipf.sample(rng).min(keys - 1)
            }
            Popularity::Hotspot { hot_keys, hot_operations } => {
                let hot = ((keys as f64 * *hot_keys) as u64).clamp(1, keys);
                if rng.random::<f64>() < *hot_operations || hot == keys {
                    rng.random_range(0..hot)
                } else {
                    rng.random_range(hot..keys)
                }
            }
        }
    }
}

/// YCSB's hash of a key number: FNV-1a over its 8 octets, made non-negative as Java's `abs` does.
#[inline]
pub fn fnv64(number: u64) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325u64;
    let mut rest = number;
    for _ in 0..8 {
        hash ^= rest & 0xff;
        hash = hash.wrapping_mul(0x0000_0100_0000_01B3);
        rest >>= 8;
    }
    (hash as i64).unsigned_abs()
}

/// A key as it is stored: `user` and the hash of its number, in decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyName {
    bytes: [u8; 24],
    length: u8,
}

impl KeyName {
    /// The stored key of number `key`, in YCSB's hashed order.
    #[inline]
    pub fn of(key: u64) -> KeyName {
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        let mut rest = fnv64(key);
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        let mut bytes = [0u8; 24];
        bytes[..4].copy_from_slice(b"user");
        let length = 4 + digits.len() - at;
        bytes[4..length].copy_from_slice(&digits[at..]);
        KeyName { bytes, length: length as u8 }
    }

    /// The bytes as they go over the wire.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::SmallRng};

    use super::*;

    /// The first keys of every YCSB database.
    #[test]
    fn key_names_are_those_of_ycsb() {
        assert_eq!(KeyName::of(0).as_bytes(), b"user6284781860667377211");
        assert_eq!(KeyName::of(1).as_bytes(), b"user8517097267634966620");
    }

    #[test]
    fn every_distribution_stays_inside_its_keys() {
        let mut rng = SmallRng::seed_from_u64(3);
        for keys in [1u64, 2, 1000] {
            let all = [
                Popularity::Uniform,
                Popularity::Zipfian(Zipf::new(keys)),
                Popularity::Scrambled { zipf: Zipf::scrambled(), span: keys + keys / 10 },
                Popularity::Latest(Zipf::new(1)),
                Popularity::Hotspot { hot_keys: 0.2, hot_operations: 0.8 },
            ];
            for mut popularity in all {
                assert!((0..2000).all(|_| popularity.pick(keys, &mut rng) < keys));
            }
        }
    }

    #[test]
    fn latest_prefers_the_newest_key_and_hotspot_its_hot_set() {
        let mut rng = SmallRng::seed_from_u64(4);
        let mut latest = Popularity::Latest(Zipf::new(100));
        let newest = (0..10_000).filter(|_| latest.pick(100, &mut rng) == 99).count();
        assert!((1500..2500).contains(&newest), "{newest}");

        let mut hotspot = Popularity::Hotspot { hot_keys: 0.1, hot_operations: 0.9 };
        let hot = (0..10_000).filter(|_| hotspot.pick(100, &mut rng) < 10).count();
        assert!((8800..9200).contains(&hot), "{hot}");
    }
}
