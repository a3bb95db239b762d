//! The token of a partition key: the first half of MurmurHash3 (x64, 128 bits), as `MurmurHash.hash3_x64_128` of
//! Cassandra computes it, which takes the bytes of an incomplete block as signed.

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// The token of these serialised bytes.
pub(crate) fn token(key: &[u8]) -> i64 {
    let (mut h1, mut h2) = (0u64, 0u64);
    let blocks = key.chunks_exact(16);
    let tail = blocks.remainder();
    for block in blocks {
        let half = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("8 bytes"));
        h1 ^= mix1(half(0));
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= mix2(half(8));
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let signed = |bytes: &[u8]| {
        let shifted = bytes.iter().enumerate().map(|(at, &byte)| ((byte as i8) as u64) << (8 * at));
        shifted.fold(0, |sum, part| sum ^ part)
    };
    if tail.len() > 8 {
        h2 ^= mix2(signed(&tail[8..]));
    }
    if !tail.is_empty() {
        h1 ^= mix1(signed(&tail[..tail.len().min(8)]));
    }
    h1 ^= key.len() as u64;
    h2 ^= key.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    let token = finish(h1).wrapping_add(finish(h2)) as i64;
    if token == i64::MIN { i64::MAX } else { token }
}

fn mix1(part: u64) -> u64 {
    part.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mix2(part: u64) -> u64 {
    part.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finish(mut h: u64) -> u64 {
    h = (h ^ (h >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 33)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn tokens_of_plain_bytes_are_those_of_the_original() {
        for length in 0..40u8 {
            let key: Vec<u8> = (0..length).collect();
            let whole = murmur3::murmur3_x64_128(&mut Cursor::new(&key), 0).unwrap();
            assert_eq!(token(&key), whole as u64 as i64, "{length}");
        }
    }

    #[test]
    fn a_byte_above_127_is_negative() {
        // `SELECT token('é')` of Apache Cassandra 5.0.9.
        assert_eq!(token("é".as_bytes()), 5_461_403_030_378_599_040);
    }
}
