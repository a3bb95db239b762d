//! The two ways our own encodings write a number: LEB128 for lengths, little-endian for the rest.
//!
//! [`Cursor`] is the only reader: it never reads past its slice and never panics on short input.
//!
//! ```text
//! varint  1xxxxxxx* 0xxxxxxx    LEB128: seven bits a byte, the low ones first; at most ten bytes for 64 bits
//! fixed   u16 u32 u64 i64       little-endian
//! bytes   length:varint bytes
//! uuid    16 bytes              in the order in which a uuid is written
//! ```
//!
//! Mutations, rows, conditions, paging states and the files of the engine are made of these.
//!
//! Invariant: a length is checked against what is left before anything is taken, so a wrong length is
//! `Error::Malformed` and never an allocation.
//!
//! Not here: the numbers of the native protocol, which are big-endian (`cql/src/frame/reader.rs`), Cassandra's vints
//! inside of values (`types/vint.rs`), numbers whose bytes sort (`ordered.rs`).

use std::cmp::Ordering;

use uuid::Uuid;

use crate::{Error, Result};

/// Appends `value` as LEB128: seven bits a byte, low first.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes [`put_varint`] takes for `value`.
#[cfg(test)]
const fn varint_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends a length and the bytes.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// How `a` compares with `b`, where one of them is often empty.
///
/// The C library compares short slices by loads with a mask, also where the length is 0. An empty slice may point
/// nowhere, and on some processors (AMD Zen 5) such a load takes over a hundred cycles, although it loads nothing.
#[inline]
pub fn compare(a: &[u8], b: &[u8]) -> Ordering {
    match a.is_empty() || b.is_empty() {
        true => a.len().cmp(&b.len()),
        false => a.cmp(b),
    }
}

/// Reads forward through bytes that may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// At the first of `bytes`.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Cursor { rest: bytes }
    }

    /// What has not been read.
    #[inline]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all has been read.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let Some((head, rest)) = self.rest.split_at_checked(count) else {
            return Err(Error::Malformed("length"));
        };
        self.rest = rest;
        Ok(head)
    }

    /// The next bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((head, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(Error::Malformed("length"));
        };
        self.rest = rest;
        Ok(*head)
    }

    /// Reads one byte; an error at the end.
    #[inline]
    pub fn u8(&mut self) -> Result<u8> {
        self.array::<1>().map(|[b]| b)
    }

    /// Two bytes, little-endian.
    #[inline]
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes, little-endian.
    #[inline]
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes, little-endian.
    #[inline]
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Eight bytes, little-endian, signed.
    #[inline]
    pub fn i64(&mut self) -> Result<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// Sixteen bytes, in the order in which a uuid is written.
    #[inline]
    pub fn uuid(&mut self) -> Result<Uuid> {
        self.array().map(Uuid::from_bytes)
    }

    /// A number as [`put_varint`] writes it.
    #[inline]
    pub fn varint(&mut self) -> Result<u64> {
        let first = self.u8()?;
        if first < 0x80 { Ok(u64::from(first)) } else { self.long_varint(first) }
    }

    /// The number that begins with `first` and has more bytes; `Malformed` if these end, or say more than 64 bits. Not
    /// inlined: nearly all numbers have one byte.
    #[inline(never)]
    fn long_varint(&mut self, first: u8) -> Result<u64> {
        let mut value = u64::from(first & 0x7F);
        for shift in (7..64).step_by(7) {
            let byte = self.u8()?;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::Malformed("varint"))
    }

    /// A length and that many bytes.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let count = self.varint()?;
        usize::try_from(count).map_or(Err(Error::Malformed("length")), |count| self.take(count))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn compared_as_slices_are(a in prop::collection::vec(0..3u8, 0..4), b in prop::collection::vec(0..3u8, 0..4)) {
            prop_assert_eq!(compare(&a, &b), a.cmp(&b));
        }

        #[test]
        fn varints_round_trip(value: u64) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert_eq!(out.len(), varint_bytes(value));
            let mut cursor = Cursor::new(&out);
            prop_assert_eq!(cursor.varint(), Ok(value));
            prop_assert!(cursor.is_empty());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let mut cursor = Cursor::new(&bytes);
            while cursor.bytes().is_ok() && !cursor.is_empty() {}
        }
    }

    #[test]
    fn a_varint_of_more_than_64_bits_is_refused() {
        let mut cursor = Cursor::new(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02]);
        assert_eq!(cursor.varint(), Err(Error::Malformed("varint")));
    }
}
