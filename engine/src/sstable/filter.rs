//! Which tokens a file may hold: a Bloom filter whose answer is one cache line (Putze et al. 2007).
//!
//! The token picks a block of 512 bits, and `probes` bits in it. Crowded blocks make it a little less exact
//! than a plain filter of the same size, so the size is chosen with that in mind ([`Shape`]).
//!
//! On disk: `probes:u8 blocks…` of 64 bytes; no bytes at all if the table wants no filter.

use std::f64::consts::LN_2;

use model::Token;

/// Bytes of a block: a cache line.
const BLOCK_BYTES: usize = 64;
const BLOCK_BITS: u64 = 512;
const PROBES_MAX: u32 = 16;
const BITS_PER_KEY_MIN: u32 = 2;
/// Beyond this many bits a key the false positives are no longer what a read waits for.
const BITS_PER_KEY_MAX: u32 = 32;
/// Odd, without pattern: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The filter; without blocks it says "perhaps" to everything.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    probes: u32,
    blocks: Box<[[u64; 8]]>,
}

/// What a chance of being wrong asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    bits_per_key: u32,
    probes: u32,
}

impl Filter {
    /// The filter of these tokens.
    pub(crate) fn of(tokens: &[Token], shape: Shape) -> Filter {
        let Shape { bits_per_key, probes } = shape;
        assert!((1..=PROBES_MAX).contains(&probes), "a token sets some bits");
        let blocks = (tokens.len() as u64 * u64::from(bits_per_key)).div_ceil(BLOCK_BITS).max(1);
        let mut filter = Filter { probes, blocks: vec![[0; 8]; blocks as usize].into() };
        tokens.iter().for_each(|token| filter.insert(*token));
        filter
    }

    fn insert(&mut self, token: Token) {
        let (index, mut hash) = self.place(token);
        for _ in 0..self.probes {
            let bit = next_bit(&mut hash);
            self.blocks[index][bit / 64] |= 1 << (bit % 64);
        }
    }

    /// Whether the token may have been put in. Never wrong when it says no.
    #[inline]
    pub(super) fn may_contain(&self, token: Token) -> bool {
        if self.blocks.is_empty() {
            return true;
        }
        let (index, mut hash) = self.place(token);
        let block = &self.blocks[index];
        (0..self.probes).all(|_| {
            let bit = next_bit(&mut hash);
            block[bit / 64] >> (bit % 64) & 1 == 1
        })
    }

    /// Bytes in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }

    /// Appends the form on disk.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        if self.blocks.is_empty() {
            return;
        }
        out.push(self.probes as u8);
        out.extend(self.blocks.iter().flatten().flat_map(|word| word.to_le_bytes()));
    }

    /// Reads the form on disk.
    pub(super) fn decode(bytes: &[u8]) -> Result<Filter, &'static str> {
        let Some((&probes, blocks)) = bytes.split_first() else {
            return Ok(Filter::default());
        };
        let probes = u32::from(probes);
        let (blocks, rest) = blocks.as_chunks::<BLOCK_BYTES>();
        if !rest.is_empty() || blocks.is_empty() || !(1..=PROBES_MAX).contains(&probes) {
            return Err("filter");
        }
        let words = |block: &[u8; BLOCK_BYTES]| {
            let (words, _) = block.as_chunks::<8>();
            std::array::from_fn(|i| u64::from_le_bytes(words[i]))
        };
        Ok(Filter { probes, blocks: blocks.iter().map(words).collect() })
    }

    /// Whether a filter in its form on disk may have the token: read where it stands, for one question.
    pub(crate) fn encoded_may_contain(bytes: &[u8], token: Token) -> Result<bool, &'static str> {
        let Some((&probes, blocks)) = bytes.split_first() else { return Ok(true) };
        let (blocks, rest) = blocks.as_chunks::<BLOCK_BYTES>();
        let probes = u32::from(probes);
        if !rest.is_empty() || blocks.is_empty() || !(1..=PROBES_MAX).contains(&probes) {
            return Err("filter");
        }
        let (index, mut hash) = place_of(token, blocks.len());
        let block = &blocks[index];
        Ok((0..probes).all(|_| {
            let bit = next_bit(&mut hash);
            block[bit / 8] >> (bit % 8) & 1 == 1
        }))
    }

    #[inline]
    fn place(&self, token: Token) -> (usize, u64) {
        place_of(token, self.blocks.len())
    }
}

/// The block, of so many, that a token picks, and what its bits are drawn from.
#[inline]
fn place_of(token: Token, blocks: usize) -> (usize, u64) {
    // Tokens of one shard share their high bits, so they are mixed again.
    let wide = u128::from(token.biased()) * u128::from(GOLDEN);
    let (high, low) = ((wide >> 64) as u64, wide as u64);
    let index = (u128::from(high ^ low) * blocks as u128) >> 64;
    (index as usize, low)
}

#[inline]
fn next_bit(hash: &mut u64) -> usize {
    *hash = hash.wrapping_mul(GOLDEN);
    (*hash >> 55) as usize
}

impl Shape {
    /// The fewest bits a key, and the probes, that keep false positives at `fp_chance`; `None` for no filter.
    pub(crate) fn new(fp_chance: f64) -> Option<Shape> {
        if fp_chance >= 1.0 {
            return None;
        }
        // A plain Bloom filter needs ln(1/p) / ln² 2 bits a key (Bloom 1970), and one made of blocks never fewer: the
        // search begins there.
        let least = -fp_chance.ln() / (LN_2 * LN_2);
        Some(Shape::from((least as u32).max(BITS_PER_KEY_MIN), fp_chance))
    }

    /// The fewest bits a key, at least `least`, and the probes that keep false positives at `fp_chance`; the largest
    /// shape if none does.
    fn from(least: u32, fp_chance: f64) -> Shape {
        for bits_per_key in least..BITS_PER_KEY_MAX {
            let probes = (f64::from(bits_per_key) * LN_2).round() as u32;
            for probes in [probes.saturating_sub(1), probes, probes + 1] {
                let probes = probes.clamp(1, PROBES_MAX);
                if false_positives(bits_per_key, probes) <= fp_chance {
                    return Shape { bits_per_key, probes };
                }
            }
        }
        Shape { bits_per_key: BITS_PER_KEY_MAX, probes: PROBES_MAX }
    }

    /// How many tokens a filter of so many bytes is for.
    pub(super) fn keys_of(self, bytes: usize) -> usize {
        bytes * 8 / self.bits_per_key as usize
    }
}

/// The chance of a wrong "perhaps": keys of a block are Poisson distributed, each sets `probes` bits.
fn false_positives(bits_per_key: u32, probes: u32) -> f64 {
    let mean = BLOCK_BITS as f64 / f64::from(bits_per_key);
    // The chance that a bit stays clear: after one key, and after those so far.
    let clear_by_one = (1.0 - 1.0 / BLOCK_BITS as f64).powi(probes as i32);
    let mut clear = 1.0_f64;
    let mut likelihood = (-mean).exp();
    let mut sum = 0.0;
    for keys in 0..(mean * 2.0) as u32 + 64 {
        sum += likelihood * (1.0 - clear).powi(probes as i32);
        clear *= clear_by_one;
        likelihood *= mean / f64::from(keys + 1);
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens(from: u64, count: u64) -> impl Iterator<Item = Token> {
        (from..from + count).map(|i| Token::of_key(&i.to_be_bytes()))
    }

    #[test]
    fn the_search_skips_no_shape_that_would_do() {
        assert_eq!(Shape::new(1.0), None);
        for step in 1..500 {
            let fp_chance = 0.97_f64.powi(step);
            assert_eq!(Shape::new(fp_chance), Some(Shape::from(BITS_PER_KEY_MIN, fp_chance)));
        }
    }

    #[test]
    fn errs_as_seldom_as_it_was_asked_to_even_in_a_narrow_range() {
        for fp_chance in [0.1, 0.01, 0.001] {
            // A quarter of the ring, as on one shard of four.
            let quarter = |token: &Token| token.biased() >> 62 == 2;
            let inside: Vec<Token> = tokens(0, 80_000).filter(quarter).collect();
            let mut bytes = Vec::new();
            Filter::of(&inside, Shape::new(fp_chance).unwrap()).encode(&mut bytes);
            assert!(bytes.len() < 45_000, "{} bytes", bytes.len());
            let filter = Filter::decode(&bytes).unwrap();
            assert!(inside.iter().all(|token| filter.may_contain(*token)));
            let says = |token| Filter::encoded_may_contain(&bytes, token).unwrap();
            assert!(tokens(0, 99_000).all(|token| says(token) == filter.may_contain(token)));
            let others: Vec<Token> = tokens(1 << 40, 400_000).filter(quarter).collect();
            let wrong = others.iter().filter(|&&token| filter.may_contain(token)).count();
            let rate = wrong as f64 / others.len() as f64;
            assert!(rate <= fp_chance * 1.15, "{rate} instead of {fp_chance}");
        }
    }

    #[test]
    fn no_filter_says_perhaps() {
        let mut bytes = Vec::new();
        Filter::default().encode(&mut bytes);
        assert!(bytes.is_empty());
        assert!(Filter::decode(&bytes).unwrap().may_contain(Token(7)));
    }

    #[test]
    fn ten_bits_a_key_keep_errors_below_one_in_a_hundred() {
        assert_eq!(Shape::new(0.01), Some(Shape { bits_per_key: 10, probes: 6 }));
        assert!(Shape::new(1e-12).is_some());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), token: i64) {
            let decoded = Filter::decode(&bytes).map(|filter| filter.may_contain(Token(token)));
            prop_assert_eq!(decoded, Filter::encoded_may_contain(&bytes, Token(token)));
        }
    }
}
