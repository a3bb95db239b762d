//! Field values that prove where they come from.
//!
//! A value is a function of the write that made it, and that write can be read back from it:
//!
//! ```text
//!  0        8        16       24       32                       length
//!  +--------+--------+--------+--------+------- - - - ------------+
//!  | seq    | seq^ · | key    | check  | filler(key, field, mask, |
//!  | low 48 | mask · |        | 48 bit |   sequence, length)      |
//!  |        | field  |        |        |                          |
//!  +--------+--------+--------+--------+------- - - - ------------+
//! ```
//!
//! Each 8 characters hold 48 bits, 6 a character, in the printable range `0`..`o`: valid as text
//! and as blob, and as incompressible as YCSB's own random letters. `mask` names all fields that
//! the same write wrote, so a row that shows only a part of a write is seen as torn.
//!
//! Checking regenerates the whole value from its header and compares every byte: a value that
//! passes was written whole by this tool, for that key and field, by exactly that write.

use crate::limits::{FIELDS_MAX, KEYS_MAX, VALUE_BYTES_MIN};

/// The write that made a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The key's number.
    pub key: u64,
    /// The field inside the record.
    pub field: u8,
    /// All fields that the same write wrote.
    pub mask: u16,
    /// The write's number, which is also its timestamp in µs: later writes have larger ones.
    pub sequence: u64,
}

/// What is wrong with a value, before anything else is known about its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Too short to be one of ours.
    Short,
    /// The header reads as this write, but the bytes are not what it wrote.
    Garbled(Origin),
}

const LOW_48: u64 = (1 << 48) - 1;
const SIX_OF_EIGHT: u64 = 0x3f3f_3f3f_3f3f_3f3f;
const ZEROES: u64 = 0x3030_3030_3030_3030;

impl Origin {
    /// Appends this write's value of `length` bytes to `out`.
    pub fn append_value(&self, length: usize, out: &mut Vec<u8>) {
        let from = out.len();
        out.resize(from + length, 0);
        self.fill(&mut out[from..]);
    }

    /// Makes `value` the one of this write.
    #[inline]
    fn fill(&self, value: &mut [u8]) {
        assert!(value.len() >= VALUE_BYTES_MIN, "a value has space for its header");
        assert!(self.key < KEYS_MAX, "a key number has 48 bits");
        assert!(usize::from(self.field) < FIELDS_MAX, "a field number has 4 bits");
        let hash = self.hash(value.len());
        let mixed =
            (self.sequence >> 48) | u64::from(self.mask) << 16 | u64::from(self.field) << 32;
        let header = [self.sequence & LOW_48, mixed, self.key, hash & LOW_48];
        let (head, filler) = value.split_at_mut(VALUE_BYTES_MIN);
        for (slot, number) in head.chunks_exact_mut(8).zip(header) {
            slot.copy_from_slice(&spread(number).to_le_bytes());
        }
        let mut state = hash;
        let mut words = filler.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&next_filler(&mut state).to_le_bytes());
        }
        let last = next_filler(&mut state).to_le_bytes();
        let rest = words.into_remainder();
        rest.copy_from_slice(&last[..rest.len()]);
    }

    /// The write that made `value`, every byte checked.
    #[inline]
    pub fn of_value(value: &[u8]) -> Result<Origin, Damage> {
        if value.len() < VALUE_BYTES_MIN {
            return Err(Damage::Short);
        }
        let (head, filler) = value.split_at(VALUE_BYTES_MIN);
        let mut numbers = [0u64; 4];
        let mut outside = 0;
        for (number, word) in numbers.iter_mut().zip(head.chunks_exact(8)) {
            let word = load(word);
            *number = gather(word);
            outside |= word ^ spread(*number);
        }
        let [low, mixed, key, check] = numbers;
        let origin = Origin {
            key,
            field: ((mixed >> 32) & 0xff) as u8,
            mask: (mixed >> 16) as u16,
            sequence: low | (mixed & 0xffff) << 48,
        };
        let hash = origin.hash(value.len());
        let mut state = hash;
        let mut differs = outside | (check ^ (hash & LOW_48)) | (mixed >> 40);
        let mut words = filler.chunks_exact(8);
        for word in &mut words {
            differs |= load(word) ^ next_filler(&mut state);
        }
        let rest = words.remainder();
        let last = next_filler(&mut state).to_le_bytes();
        if differs != 0 || rest != &last[..rest.len()] || usize::from(origin.field) >= FIELDS_MAX {
            return Err(Damage::Garbled(origin));
        }
        Ok(origin)
    }

    #[inline]
    fn hash(&self, length: usize) -> u64 {
        let placed = self.key << 16 | u64::from(self.mask);
        let sized = u64::from(self.field) << 32 | length as u64;
        mix(mix(mix(placed) ^ self.sequence) ^ sized)
    }
}

#[inline]
fn load(word: &[u8]) -> u64 {
    u64::from_le_bytes(word.try_into().expect("chunks of 8"))
}

/// Stafford's variant 13 of the MurmurHash3 finaliser, as in SplitMix64.
#[inline]
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Eight characters of filler.
#[inline]
fn next_filler(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    ((*state ^ (*state >> 29)) & SIX_OF_EIGHT) + ZEROES
}

/// 48 bits as 8 characters, 6 bits each.
#[inline]
fn spread(number: u64) -> u64 {
    let x = (number & 0xffff_ff00_0000) << 8 | number & 0xff_ffff;
    let x = (x & 0x00ff_f000_00ff_f000) << 4 | x & 0x0000_0fff_0000_0fff;
    let x = (x & 0x0fc0_0fc0_0fc0_0fc0) << 2 | x & 0x003f_003f_003f_003f;
    x + ZEROES
}

/// The 48 bits of 8 characters; of characters that `spread` never makes, any number.
#[inline]
fn gather(word: u64) -> u64 {
    let x = word.wrapping_sub(ZEROES) & SIX_OF_EIGHT;
    let x = x >> 2 & 0x0fc0_0fc0_0fc0_0fc0 | x & 0x003f_003f_003f_003f;
    let x = x >> 4 & 0x00ff_f000_00ff_f000 | x & 0x0000_0fff_0000_0fff;
    x >> 8 & 0xffff_ff00_0000 | x & 0xff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value_of(origin: Origin, length: usize) -> Vec<u8> {
        let mut out = Vec::new();
        origin.append_value(length, &mut out);
        out
    }

    const WRITE: Origin =
        Origin { key: 123_456_789_012, field: 9, mask: 0x3ff, sequence: u64::MAX };

    #[test]
    fn a_value_names_its_write() {
        for length in [32, 33, 39, 40, 100, 1000] {
            let value = value_of(WRITE, length);
            assert_eq!(value.len(), length);
            assert!(value.iter().all(|&c| (b'0'..=b'o').contains(&c)), "printable");
            assert_eq!(Origin::of_value(&value), Ok(WRITE));
        }
    }

    /// Any change of any bit, a cut or an extension is seen.
    #[test]
    fn no_damaged_value_passes() {
        let value = value_of(WRITE, 100);
        for bit in 0..value.len() * 8 {
            let mut damaged = value.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Origin::of_value(&damaged).is_err(), "bit {bit}");
        }
        for length in 0..value.len() {
            assert!(Origin::of_value(&value[..length]).is_err(), "cut to {length}");
        }
        let other = value_of(Origin { sequence: 5, ..WRITE }, 100);
        for seam in 1..value.len() {
            let spliced = [&value[..seam], &other[seam..]].concat();
            assert!(Origin::of_value(&spliced).is_err(), "torn at {seam}");
        }
    }

    #[test]
    fn characters_and_numbers_are_inverse() {
        for number in [0, 1, LOW_48, 0x0123_4567_89ab, 0xaaaa_aaaa_aaaa] {
            assert_eq!(gather(spread(number)), number);
        }
    }
}
