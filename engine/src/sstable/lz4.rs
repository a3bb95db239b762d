//! LZ4, with as much search for matches as pays.
//!
//! ```text
//! c . . . . . . . . (63 blocks) . . . . c . . . .      c  compressed both ways, which are compared
//! └► the quick search finds nearly as much: quick until the next c; if not: thorough
//! ```
//!
//! The quick search looks at every fourth place where the thorough one looks at each, and both at fewer the longer they
//! find nothing (`acceleration` of `LZ4_compress_fast`). It is two to four times as fast. Of random values between a few
//! repeated bytes, such as keys and timestamps, it finds the same; of text it leaves 11 to 16 % more
//! (docs/decisions/2026-11-29-cost-of-a-load.md).
//!
//! Invariant: the same blocks in the same order give the same bytes: a file depends on its content alone.
//!
//! Not here: which blocks are tried (`trials.rs`), and decompression, which is a library's in safe Rust (`frame.rs`).

use lz4::block::CompressionMode;

use crate::limits::BLOCK_BYTES_MAX;

/// The acceleration of the quick search, and of the thorough one.
const QUICK: i32 = 4;
const THOROUGH: i32 = 1;
/// The quick search is used where it makes a block at most 1/32 longer than the thorough one does.
const WORSE_DIVISOR: usize = 32;
/// Blocks between two that are compressed both ways: what the second way costs is lost among them.
const COMPARED_BLOCKS: u32 = 63;

/// What LZ4 takes at most, in bytes (`LZ4_MAX_INPUT_SIZE`).
const INPUT_BYTES_MAX: usize = 0x7E00_0000;
const _: () = assert!(BLOCK_BYTES_MAX <= INPUT_BYTES_MAX);

/// Compresses the blocks of one file.
#[derive(Debug, Default)]
pub(super) struct Lz4 {
    is_quick: bool,
    /// Blocks until both ways are compared again.
    until_compared: u32,
}

impl Lz4 {
    /// How many bytes `out` must have for a block of so many.
    pub(super) fn bytes_max(bytes: usize) -> usize {
        lz4::block::compress_bound(bytes).expect("LZ4 takes the longest block")
    }

    /// Compresses a block into the front of `out`; gives how many bytes that took.
    pub(super) fn compress(&mut self, raw: &[u8], out: &mut [u8]) -> usize {
        if self.until_compared > 0 {
            self.until_compared -= 1;
            return compress(raw, if self.is_quick { QUICK } else { THOROUGH }, out);
        }
        self.until_compared = COMPARED_BLOCKS;
        let quick = compress(raw, QUICK, out);
        let thorough = compress(raw, THOROUGH, out);
        self.is_quick = quick <= thorough + thorough / WORSE_DIVISOR;
        thorough
    }
}

/// The same for what is no block of data: it says nothing of the others.
pub(super) fn compress_thoroughly(raw: &[u8], out: &mut [u8]) -> usize {
    compress(raw, THOROUGH, out)
}

fn compress(raw: &[u8], acceleration: i32, out: &mut [u8]) -> usize {
    let mode = CompressionMode::FAST(acceleration);
    lz4::block::compress_to_buffer(raw, Some(mode), false, out).expect("`out` holds the worst case")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(blocks: &[Vec<u8>], mut compress: impl FnMut(&[u8], &mut [u8]) -> usize) -> usize {
        let sum = |block: &Vec<u8>| {
            let mut out = vec![0; Lz4::bytes_max(block.len())];
            let bytes = compress(block, &mut out);
            let mut back = vec![0; block.len()];
            let count = lz4_flex::block::decompress_into(&out[..bytes], &mut back).unwrap();
            assert!(count == block.len() && back == *block);
            bytes
        };
        blocks.iter().map(sum).sum()
    }

    fn random(state: &mut u64) -> u8 {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 56) as u8
    }

    /// Random values between the same few bytes.
    fn values() -> Vec<Vec<u8>> {
        let mut state = 1;
        let block = |_| {
            let mut block = Vec::new();
            while block.len() < 4096 {
                block.extend_from_slice(b"the same 21 bytes ...");
                block.extend((0..80).map(|_| random(&mut state)));
            }
            block
        };
        (0..200).map(block).collect()
    }

    /// Words of 3 to 9 letters each, 256 different ones, in random order.
    fn text() -> Vec<Vec<u8>> {
        let mut state = 2;
        let mut word = |_| -> Vec<u8> {
            let letters = 3 + random(&mut state) % 7;
            (0..letters).map(|_| b'a' + random(&mut state) % 26).collect()
        };
        let words: Vec<Vec<u8>> = (0..256).map(&mut word).collect();
        let block = |_| {
            let mut block = Vec::new();
            while block.len() < 4096 {
                block.extend_from_slice(&words[usize::from(random(&mut state))]);
                block.push(b' ');
            }
            block
        };
        (0..200).map(block).collect()
    }

    #[test]
    fn the_search_is_quick_where_it_finds_as_much() {
        let mut adaptive = Lz4::default();
        let adapted = total(&values(), |raw, out| adaptive.compress(raw, out));
        assert!(adaptive.is_quick);
        let thorough = total(&values(), |raw, out| compress(raw, THOROUGH, out));
        assert!(adapted <= thorough + thorough / WORSE_DIVISOR, "{adapted} and {thorough}");
    }

    #[test]
    fn the_search_is_thorough_where_that_finds_more() {
        let mut adaptive = Lz4::default();
        let adapted = total(&text(), |raw, out| adaptive.compress(raw, out));
        assert!(!adaptive.is_quick);
        assert_eq!(adapted, total(&text(), |raw, out| compress(raw, THOROUGH, out)));
        let quick = total(&text(), |raw, out| compress(raw, QUICK, out));
        assert!(quick > adapted + adapted / WORSE_DIVISOR, "{quick} and {adapted}");
    }

    #[test]
    fn what_becomes_of_another_kind_is_compared_again() {
        let mut adaptive = Lz4::default();
        total(&values()[..10], |raw, out| adaptive.compress(raw, out));
        assert!(adaptive.is_quick);
        let blocks = COMPARED_BLOCKS as usize;
        total(&text()[..blocks], |raw, out| adaptive.compress(raw, out));
        assert!(!adaptive.is_quick);
    }
}
