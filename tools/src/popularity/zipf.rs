//! Zipf's law over a growing set, by the method of Gray et al., "Quickly Generating
//! Billion-Record Synthetic Databases" (SIGMOD 1994), with the constants of YCSB's
//! `ZipfianGenerator`, so that the skew is the one that published numbers were measured with.
//!
//! Item 0 is the most popular. Sampling costs one `powf`; a set that grows costs one term of the
//! zeta sum per new item.

use rand::{Rng, RngExt};

/// The skew that YCSB uses.
pub const THETA: f64 = 0.99;
/// The set that `scrambled` draws from, whatever the number of records.
pub const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
/// zeta(`SCRAMBLED_ITEMS`, `THETA`): summing it would take a minute.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// A sampler of `0..items` in which item `i` has weight `1 / (i + 1)^THETA`.
#[derive(Clone, Debug)]
pub struct Zipf {
    items: u64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    /// A sampler of `0..items`; `items` is at least 1.
    pub fn new(items: u64) -> Zipf {
        assert!(items > 0, "a popularity needs something to be popular");
        Zipf::with_zeta(items, zeta_terms(0, items))
    }

    /// The sampler behind `scrambled`.
    pub fn scrambled() -> Zipf {
        Zipf::with_zeta(SCRAMBLED_ITEMS, SCRAMBLED_ZETA)
    }

    fn with_zeta(items: u64, zeta: f64) -> Zipf {
        let zeta_two = zeta_terms(0, 2);
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - zeta_two / zeta);
        Zipf { items, zeta, eta }
    }

    /// Makes the set `0..items` if that is larger than it was.
    pub fn grow(&mut self, items: u64) {
        if items > self.items {
            *self = Zipf::with_zeta(items, self.zeta + zeta_terms(self.items, items));
        }
    }

    /// Draws one item, from 0.
    #[inline]
    pub fn sample(&self, rng: &mut impl Rng) -> u64 {
        let u: f64 = rng.random();
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(THETA) {
            return 1.min(self.items - 1);
        }
        let spread = (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        ((self.items as f64 * spread) as u64).min(self.items - 1)
    }
}

/// The terms `from + 1 ..= to` of the zeta sum.
fn zeta_terms(from: u64, to: u64) -> f64 {
    (from..to).map(|i| 1.0 / ((i + 1) as f64).powf(THETA)).sum()
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::SmallRng};

    use super::*;

    /// Shares of the first items equal their weights.
    #[test]
    fn frequencies_follow_the_law() {
        let items = 1000;
        let zipf = Zipf::new(items);
        let mut rng = SmallRng::seed_from_u64(1);
        let mut counts = vec![0u64; items as usize];
        let draws = 400_000;
        for _ in 0..draws {
            counts[zipf.sample(&mut rng) as usize] += 1;
        }
        let zeta = zeta_terms(0, items);
        for item in [0usize, 1] {
            let expected = draws as f64 / ((item + 1) as f64).powf(THETA) / zeta;
            let ratio = counts[item] as f64 / expected;
            assert!((0.97..1.03).contains(&ratio), "item {item} is off by {ratio}");
        }
        // The approximation beyond item 1 is a smooth curve: compare a whole stretch.
        let tail: u64 = counts[100..200].iter().sum();
        let expected = draws as f64 * (zeta_terms(100, 200) / zeta);
        assert!((0.9..1.1).contains(&(tail as f64 / expected)));
    }

    #[test]
    fn growing_equals_starting_large() {
        let mut grown = Zipf::new(10);
        grown.grow(500);
        let direct = Zipf::new(500);
        assert!((grown.zeta - direct.zeta).abs() < 1e-9);
        assert!((grown.eta - direct.eta).abs() < 1e-9);
        grown.grow(20);
        assert_eq!(grown.items, 500);
    }

    #[test]
    fn a_single_item_is_always_chosen() {
        let zipf = Zipf::new(1);
        let mut rng = SmallRng::seed_from_u64(2);
        assert!((0..1000).all(|_| zipf.sample(&mut rng) == 0));
    }

    /// The published constant is the sum it stands for (checked on a prefix and an integral).
    #[test]
    fn the_scrambled_constant_is_the_zeta_sum() {
        let n = 1_000_000u64;
        let exponent = 1.0 - THETA;
        let tail = ((SCRAMBLED_ITEMS as f64).powf(exponent) - (n as f64).powf(exponent)) / exponent;
        let sum = zeta_terms(0, n) + tail;
        assert!((sum - SCRAMBLED_ZETA).abs() < 1e-4, "{sum}");
    }
}
