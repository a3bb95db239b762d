//! Vints, as Cassandra has them in values: the ones that lead the first byte count the bytes behind.
//!
//! ```text
//! 0xxxxxxx                     0 to 127
//! 10xxxxxx xxxxxxxx            two bytes, high first; and so on
//! 11111111 8 bytes             all of 64 bits
//! ```
//!
//! A signed number is zigzagged first (0, -1, 1, -2 become 0, 1, 2, 3), so that small ones stay short.
//! Invariant: what [`put`] writes is the shortest form; [`get`] takes longer ones, too, as Cassandra
//! does. Not here: LEB128, in which our own files write numbers (`bytes.rs`).

/// Appends an unsigned vint: 1 to 9 bytes.
pub fn put(number: u64, out: &mut Vec<u8>) {
    let extra = ((63 - (number | 1).leading_zeros()) / 7).min(8) as usize;
    if extra == 8 {
        out.push(0xFF);
    }
    let start = out.len();
    out.extend_from_slice(&number.to_be_bytes()[(7 - extra.min(7))..]);
    if extra < 8 {
        out[start] |= !(0xFFu8 >> extra);
    }
}

/// The unsigned vint that `bytes` begin with, and the bytes after it; `None` if it is cut off.
pub fn get(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let extra = first.leading_ones() as usize;
    let (tail, rest) = rest.split_at_checked(extra)?;
    let head = if extra >= 7 { 0 } else { u64::from(first & (0xFF >> (extra + 1))) };
    Some((tail.iter().fold(head, |number, &byte| number << 8 | u64::from(byte)), rest))
}

/// A signed number as an unsigned one, near zero where it is.
pub const fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

/// The signed number that [`zigzag`] made this of.
pub const fn unzigzag(zigzag: u64) -> i64 {
    (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn vints_have_the_bytes_that_cassandra_writes() {
        let forms: [(u64, &[u8]); 7] = [
            (0, &[0]),
            (127, &[0x7F]),
            (128, &[0x80, 0x80]),
            (0x3FFF, &[0xBF, 0xFF]),
            (0x4000, &[0xC0, 0x40, 0x00]),
            ((1 << 56) - 1, &[0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]),
            (1 << 56, &[0xFF, 1, 0, 0, 0, 0, 0, 0, 0]),
        ];
        for (number, bytes) in forms {
            let mut out = Vec::new();
            put(number, &mut out);
            assert_eq!(out, bytes, "{number:#x}");
        }
    }

    #[test]
    fn small_numbers_of_either_sign_stay_small() {
        assert_eq!(
            [0, -1, 1, -2, i64::MAX, i64::MIN].map(zigzag),
            [0, 1, 2, 3, u64::MAX - 1, u64::MAX]
        );
    }

    #[test]
    fn a_vint_that_is_cut_off_is_none() {
        for bytes in [&[][..], &[0x80], &[0xFF, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(get(bytes), None);
        }
    }

    proptest! {
        #[test]
        fn vints_round_trip(number: u64, after: u8) {
            let mut out = Vec::new();
            put(number, &mut out);
            out.push(after);
            prop_assert_eq!(get(&out), Some((number, &[after][..])));
            prop_assert_eq!(zigzag(unzigzag(number)), number);
        }
    }
}
