//! LZ4, with as much search for matches as pays.
//!
//! ```text
//! c . . . . . . . . (63 blocks) . . . . c . . . .      c  compressed both ways, which are compared
//! └► the quick search finds nearly as much: quick until the next c; if not: thorough
//! ```
//!
//! A search that skips ahead where it finds nothing is two to four times as fast. Of random values between a few
//! repeated bytes, such as keys and timestamps, it finds the same; of text it finds a tenth less.
//!
//! Invariant: the same blocks in the same order give the same bytes: a file depends on its content alone.
//!
//! Not here: whether a block is tried at all (`trials.rs`). Blocks are decompressed by a library in safe Rust (`frame.rs`).

use lz4::block::CompressionMode;

use crate::limits::{LZ4_ACCELERATION, LZ4_COMPARED_BLOCKS, LZ4_WORSE_DIVISOR};

/// Compresses the blocks of one file.
#[derive(Debug, Default)]
pub(super) struct Lz4 {
    is_quick: bool,
    /// Blocks until both ways are compared again.
    until_compared: u32,
}

impl Lz4 {
    /// How many bytes `out` must have for a block of `bytes`.
    pub(super) fn bytes_max(bytes: usize) -> usize {
        lz4::block::compress_bound(bytes).expect("blocks are short")
    }

    /// Compresses a block into the front of `out`; gives how many bytes that took.
    pub(super) fn compress(&mut self, raw: &[u8], out: &mut [u8]) -> usize {
        if let Some(until_compared) = self.until_compared.checked_sub(1) {
            self.until_compared = until_compared;
            return compress(raw, if self.is_quick { LZ4_ACCELERATION } else { 1 }, out);
        }
        self.until_compared = LZ4_COMPARED_BLOCKS;
        let quick = compress(raw, LZ4_ACCELERATION, out);
        let thorough = compress(raw, 1, out);
        self.is_quick = quick <= thorough + thorough / LZ4_WORSE_DIVISOR;
        thorough
    }
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
                block.extend_from_slice(b"the same twenty bytes");
                block.extend((0..80).map(|_| random(&mut state)));
            }
            block
        };
        (0..200).map(block).collect()
    }

    /// Words of some letters each, five hundred different ones, in random order.
    fn text() -> Vec<Vec<u8>> {
        let mut state = 2;
        let mut word = |_| -> Vec<u8> {
            let letters = 3 + random(&mut state) % 7;
            (0..letters).map(|_| b'a' + random(&mut state) % 26).collect()
        };
        let words: Vec<Vec<u8>> = (0..500).map(&mut word).collect();
        let block = |_| {
            let mut block = Vec::new();
            while block.len() < 4096 {
                let number = usize::from(random(&mut state)) * 500 / 256;
                block.extend_from_slice(&words[number]);
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
        let thorough = total(&values(), |raw, out| compress(raw, 1, out));
        assert!(adapted <= thorough + thorough / LZ4_WORSE_DIVISOR, "{adapted} and {thorough}");
    }

    #[test]
    fn the_search_is_thorough_where_that_finds_more() {
        let mut adaptive = Lz4::default();
        let adapted = total(&text(), |raw, out| adaptive.compress(raw, out));
        assert!(!adaptive.is_quick);
        assert_eq!(adapted, total(&text(), |raw, out| compress(raw, 1, out)));
        let quick = total(&text(), |raw, out| compress(raw, LZ4_ACCELERATION, out));
        assert!(quick > adapted + adapted / LZ4_WORSE_DIVISOR, "{quick} and {adapted}");
    }

    #[test]
    fn what_becomes_of_another_kind_is_compared_again() {
        let mut adaptive = Lz4::default();
        total(&values()[..10], |raw, out| adaptive.compress(raw, out));
        assert!(adaptive.is_quick);
        let blocks = LZ4_COMPARED_BLOCKS as usize;
        total(&text()[..blocks], |raw, out| adaptive.compress(raw, out));
        assert!(!adaptive.is_quick);
    }
}
