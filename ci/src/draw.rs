//! Numbers that look drawn and that a seed repeats: splitmix64 (Steele, Lea, Flood, OOPSLA 2014).

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A sequence of numbers.
pub(crate) struct Draw {
    state: u64,
}

impl Draw {
    /// The sequence of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number, below a limit that is not 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mixed(self.state) % limit
    }
}

/// The number at a place of the sequence of 0.
pub(crate) fn at(place: u64) -> u64 {
    mixed(place.wrapping_add(1).wrapping_mul(STEP))
}

fn mixed(state: u64) -> u64 {
    let mut mixed = state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_is_that_of_its_seed() {
        let mut drawn = Draw::new(0);
        for place in 0..10 {
            assert_eq!(drawn.below(u64::MAX), at(place) % u64::MAX);
        }
        assert_eq!(at(0), 0xe220_a839_7b1d_cdaf, "the first output of the published generator");
    }
}
