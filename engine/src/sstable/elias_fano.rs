//! A sorted list of integers in about `2 + log2(universe / count)` bits each (Elias 1974, Fano 1971).
//!
//! ```text
//! value  = high part · 2^low_bits + low part
//! low    = the low parts, packed                                    count · low_bits bits
//! high   = bit (high part of value i) + i is set for every i        count + (last >> low_bits) + 1 bits
//! ```
//!
//! `get(i)` selects the i-th one, `below(x)` the x-th zero; every 256th of each is remembered when the
//! list is loaded, and from there whole words are counted.
//!
//! On disk: `count:u64 last:u64 low_bits:u8 low words… high words…`, words of 64 bits, little-endian.

use model::bytes::Cursor;

/// Every this many ones or zeros a position is remembered.
const SAMPLE: usize = 256;

/// At most this many values with one high part are tried in turn; after that the run is halved.
const RUN_WALKED: usize = 8;

/// More values than any file has blocks, and few enough for positions of 32 bits.
const COUNT_MAX: u64 = 1 << 29;

/// The list, in memory.
#[derive(Debug, Default)]
pub(super) struct EliasFano {
    count: usize,
    last: u64,
    low_bits: u32,
    low: Box<[u64]>,
    high: Box<[u64]>,
    ones: Box<[u32]>,
    zeros: Box<[u32]>,
}

impl EliasFano {
    /// Packs values that ascend, or stay.
    pub(super) fn pack(values: &[u64]) -> EliasFano {
        assert!(values.is_sorted(), "only a sorted list can be packed");
        assert!(values.len() as u64 <= COUNT_MAX, "a file has fewer blocks than that");
        let count = values.len();
        let last = values.last().copied().unwrap_or(0);
        let low_bits = low_bits(count, last);
        let (low_words, high_words) = words(count, last, low_bits);
        let mut low = vec![0u64; low_words];
        let mut high = vec![0u64; high_words];
        for (i, &value) in values.iter().enumerate() {
            put_bits(&mut low, i * low_bits as usize, low_bits, value & mask(low_bits));
            let at = (value >> low_bits) as usize + i;
            high[at / 64] |= 1 << (at % 64);
        }
        EliasFano::with_samples(count, last, low_bits, low.into(), high.into())
    }

    fn with_samples(
        count: usize,
        last: u64,
        low_bits: u32,
        low: Box<[u64]>,
        high: Box<[u64]>,
    ) -> EliasFano {
        let bits = count + high_zeros(last, low_bits);
        let ones = samples(&high, |word| word, bits);
        let zeros = samples(&high, |word| !word, bits);
        EliasFano { count, last, low_bits, low, high, ones, zeros }
    }

    /// How many values.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Bytes in memory.
    pub(super) fn memory_bytes(&self) -> usize {
        (self.low.len() + self.high.len()) * 8 + (self.ones.len() + self.zeros.len()) * 4
    }

    /// The value at `index`.
    pub(super) fn get(&self, index: usize) -> u64 {
        assert!(index < self.count, "an index of the list");
        let at = select(&self.high, |word| word, &self.ones, index);
        ((at - index) as u64) << self.low_bits | self.low_at(index)
    }

    /// How many values are below `bound`: the index of the first that is not.
    pub(super) fn below(&self, bound: u64) -> usize {
        if self.count == 0 || bound > self.last {
            return self.count;
        }
        let (high, low) = (bound >> self.low_bits, bound & mask(self.low_bits));
        // Values with this high part stand between the zero that ends the part before and the next zero.
        let start = match high {
            0 => 0,
            _ => select(&self.high, |word| !word, &self.zeros, high as usize - 1) + 1,
        };
        let mut index = start - high as usize;
        for _ in 0..RUN_WALKED {
            if index >= self.count || !self.bit(index + high as usize) || self.low_at(index) >= low
            {
                return index;
            }
            index += 1;
        }
        let mut end = select(&self.high, |word| !word, &self.zeros, high as usize) - high as usize;
        while index < end {
            let middle = index + (end - index) / 2;
            if self.low_at(middle) < low {
                index = middle + 1;
            } else {
                end = middle;
            }
        }
        index
    }

    fn bit(&self, at: usize) -> bool {
        self.high[at / 64] >> (at % 64) & 1 == 1
    }

    fn low_at(&self, index: usize) -> u64 {
        get_bits(&self.low, index * self.low_bits as usize, self.low_bits)
    }

    /// Appends the form on disk.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.count as u64).to_le_bytes());
        out.extend_from_slice(&self.last.to_le_bytes());
        out.push(self.low_bits as u8);
        for word in self.low.iter().chain(&self.high) {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Reads the form on disk; allocates no more than is there, and believes no count.
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<EliasFano, &'static str> {
        let short = |_| "elias-fano list ends early";
        let count = usize::try_from(cursor.u64().map_err(short)?).map_err(|_| "a huge list")?;
        let last = cursor.u64().map_err(short)?;
        let bits = u32::from(cursor.u8().map_err(short)?);
        let space = cursor.rest().len();
        // Of no values there is no last one; of some, the high parts are fewer than twice as many.
        let is_head = bits == low_bits(count, last) && (count > 0 || last == 0);
        if !is_head || count.div_ceil(8) > space || count as u64 > COUNT_MAX {
            return Err("elias-fano head");
        }
        if count.saturating_mul(bits as usize).div_ceil(8) > space {
            return Err("elias-fano list is longer than its bytes");
        }
        let (low_words, high_words) = words(count, last, bits);
        let low = take_words(cursor, low_words)?;
        let high = take_words(cursor, high_words)?;
        let used = count + high_zeros(last, bits);
        if ones(&high, used) != count || ones(&high, high.len() * 64) != count {
            return Err("elias-fano count");
        }
        let list = EliasFano::with_samples(count, last, bits, low, high);
        if count > 0 && list.get(count - 1) != last {
            return Err("elias-fano last value");
        }
        if !list.ascends() {
            return Err("elias-fano values that do not ascend");
        }
        Ok(list)
    }

    /// Whether no value is less than the one before it. High parts cannot descend; low parts can, between two values of
    /// one high part, which are bits side by side. (Measured: 2.4 ms for a million uniform values.)
    fn ascends(&self) -> bool {
        let (mut seen, mut last_bit) = (0, 0);
        for &word in &self.high {
            let mut pairs = word & (word << 1 | last_bit);
            while pairs != 0 {
                let below = first_bits(pairs.trailing_zeros() as usize);
                let index = seen + (word & below).count_ones() as usize;
                if self.low_at(index) < self.low_at(index - 1) {
                    return false;
                }
                pairs &= pairs - 1;
            }
            seen += word.count_ones() as usize;
            last_bit = word >> 63;
        }
        true
    }
}

fn low_bits(count: usize, last: u64) -> u32 {
    if count == 0 { 0 } else { (last / count as u64).checked_ilog2().unwrap_or(0) }
}

fn high_zeros(last: u64, low_bits: u32) -> usize {
    (last >> low_bits) as usize + 1
}

fn words(count: usize, last: u64, low_bits: u32) -> (usize, usize) {
    ((count * low_bits as usize).div_ceil(64), (count + high_zeros(last, low_bits)).div_ceil(64))
}

fn mask(bits: u32) -> u64 {
    (1u64 << bits) - 1
}

fn put_bits(words: &mut [u64], at: usize, bits: u32, value: u64) {
    if bits == 0 {
        return;
    }
    assert!(value <= mask(bits), "a value lies in its bits");
    words[at / 64] |= value << (at % 64);
    if at % 64 + bits as usize > 64 {
        words[at / 64 + 1] |= value >> (64 - at % 64);
    }
}

fn get_bits(words: &[u64], at: usize, bits: u32) -> u64 {
    if bits == 0 {
        return 0;
    }
    let mut value = words[at / 64] >> (at % 64);
    if at % 64 + bits as usize > 64 {
        value |= words[at / 64 + 1] << (64 - at % 64);
    }
    value & mask(bits)
}

/// The position of the `nth` set bit of `view(word)`, of which every [`SAMPLE`]th is known.
fn select(words: &[u64], view: impl Fn(u64) -> u64, samples: &[u32], nth: usize) -> usize {
    let start = samples[nth / SAMPLE] as usize;
    let mut left = (nth % SAMPLE) as u32;
    let mut index = start / 64;
    let mut word = view(words[index]) & (u64::MAX << (start % 64));
    while word.count_ones() <= left {
        left -= word.count_ones();
        index += 1;
        word = view(words[index]);
    }
    for _ in 0..left {
        word &= word - 1;
    }
    index * 64 + word.trailing_zeros() as usize
}

/// The positions of the set bits 0, [`SAMPLE`], 2·[`SAMPLE`], … of the first `bits` bits of `view(word)`.
fn samples(words: &[u64], view: impl Fn(u64) -> u64, bits: usize) -> Box<[u32]> {
    let (mut samples, mut seen) = (Vec::new(), 0);
    for (i, &word) in words.iter().enumerate() {
        let word = view(word) & first_bits(bits - (i * 64).min(bits));
        let count = word.count_ones() as usize;
        while samples.len() * SAMPLE < seen + count {
            let mut rest = word;
            for _ in 0..samples.len() * SAMPLE - seen {
                rest &= rest - 1;
            }
            samples.push((i * 64) as u32 + rest.trailing_zeros());
        }
        seen += count;
    }
    samples.into()
}

/// How many of the first `bits` bits are set.
fn ones(words: &[u64], bits: usize) -> usize {
    let part = |(i, word): (usize, &u64)| word & first_bits(bits - (i * 64).min(bits));
    words.iter().enumerate().map(|word| part(word).count_ones() as usize).sum()
}

fn first_bits(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

fn take_words(cursor: &mut Cursor<'_>, count: usize) -> Result<Box<[u64]>, &'static str> {
    let bytes = count.checked_mul(8).ok_or("a huge list")?;
    let bytes = cursor.take(bytes).map_err(|_| "elias-fano list ends early")?;
    let (words, _) = bytes.as_chunks::<8>();
    Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = Vec<u64>> {
        prop_oneof![
            prop::collection::vec(0..50u64, 0..700),
            prop::collection::vec(any::<u64>(), 0..700),
            prop::collection::vec(0..1u64 << 40, 0..2000),
            (any::<u64>(), 0..900usize).prop_map(|(value, count)| vec![value; count]),
        ]
        .prop_map(|mut values| {
            values.sort_unstable();
            values
        })
    }

    proptest! {
        #[test]
        fn says_what_the_sorted_list_says(values in values(), probes: Vec<u64>) {
            let mut bytes = Vec::new();
            EliasFano::pack(&values).encode(&mut bytes);
            let mut cursor = Cursor::new(&bytes);
            let list = EliasFano::decode(&mut cursor).expect("what was just packed");
            prop_assert!(cursor.is_empty());
            prop_assert_eq!(list.len(), values.len());
            for (i, &value) in values.iter().enumerate() {
                prop_assert_eq!(list.get(i), value);
            }
            let near = values.iter().flat_map(|&v| [v.saturating_sub(1), v, v.saturating_add(1)]);
            for bound in probes.into_iter().chain(near) {
                prop_assert_eq!(list.below(bound), values.partition_point(|&v| v < bound));
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            mut bytes: Vec<u8>, values in values(), at: prop::sample::Index, probe: u64
        ) {
            let _ = EliasFano::decode(&mut Cursor::new(&bytes));
            bytes.clear();
            EliasFano::pack(&values).encode(&mut bytes);
            let i = at.index(bytes.len());
            bytes[i] = bytes[i].wrapping_add(1);
            if let Ok(list) = EliasFano::decode(&mut Cursor::new(&bytes)) {
                let _ = list.below(probe);
                let all: Vec<u64> = (0..list.len()).map(|i| list.get(i)).collect();
                prop_assert!(all.is_sorted());
            }
        }

        /// Before: values of one high part could descend: their difference ended the process.
        #[test]
        fn values_that_descend_are_refused(values in values(), at: prop::sample::Index) {
            let mut list = EliasFano::pack(&values);
            let differ = |i: &usize| {
                let (one, other) = (values[*i - 1], values[*i]);
                one != other && one >> list.low_bits == other >> list.low_bits
            };
            let pairs: Vec<usize> = (1..values.len()).filter(differ).collect();
            prop_assume!(!pairs.is_empty());
            let pair = pairs[at.index(pairs.len())];
            let bits = list.low_bits;
            let mut lows: Vec<u64> = (0..values.len()).map(|i| list.low_at(i)).collect();
            lows.swap(pair - 1, pair);
            list.low.fill(0);
            for (i, low) in lows.into_iter().enumerate() {
                put_bits(&mut list.low, i * bits as usize, bits, low);
            }
            let mut bytes = Vec::new();
            list.encode(&mut bytes);
            prop_assert!(EliasFano::decode(&mut Cursor::new(&bytes)).is_err());
        }
    }

    /// A list as `encode` writes it, of one word of low parts and one of high parts.
    fn on_disk(count: u64, last: u64, low_bits: u8, words: &[u64]) -> Vec<u8> {
        let mut bytes = [count.to_le_bytes(), last.to_le_bytes()].concat();
        bytes.push(low_bits);
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    /// Before: the count of its high parts went beyond 2^64, which ended the process.
    #[test]
    fn an_empty_list_with_a_last_value_is_refused() {
        for last in [1, u64::MAX - 1, u64::MAX] {
            let bytes = on_disk(0, last, 0, &[0, 0]);
            assert!(EliasFano::decode(&mut Cursor::new(&bytes)).is_err(), "{last}");
        }
    }

    #[test]
    fn a_million_uniform_values_of_24_bits_a_value_take_about_6_bits_each() {
        let values: Vec<u64> = (0..1_000_000u64).map(|i| i * 16).collect();
        let bytes = EliasFano::pack(&values).memory_bytes();
        assert!(bytes * 8 < 7 * values.len(), "{bytes} bytes");
    }
}
