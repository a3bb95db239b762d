//! Random choices that a seed repeats: SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
//! Generators", OOPSLA 2014).

/// A sequence of choices.
#[derive(Clone, Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    /// The sequence of a seed.
    pub(crate) fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    /// The next 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&mut self, share: u64) -> bool {
        self.bits() % 100 < share
    }

    /// One of these, of which there is at least one.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}
