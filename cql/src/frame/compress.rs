//! Compression of single bodies, as v3 and v4 have it. (v5 compresses segments:
//! [`super::segment`].)
//!
//! ```text
//!  lz4     [int] uncompressed length, big-endian │ LZ4 block
//!  snappy  a raw Snappy block, which begins with its own length
//! ```
//!
//! The declared length is checked against the limit before anything is allocated, and the decoders
//! are the safe ones: a block that says less or more than it holds is an error.

use super::error::{Malformed, Result};
use super::header::{Flags, HEADER_BYTES, patch_length};
use crate::limits::{COMPRESS_BYTES_MAX, COMPRESS_BYTES_MIN};

/// The compression of bodies or segments that a client chose in STARTUP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Nothing is compressed.
    #[default]
    None,
    /// Bodies are LZ4 blocks after their length.
    Lz4,
    /// Snappy, v3 and v4 only.
    Snappy,
}

impl Compression {
    /// Decompresses `body` into `scratch`, replacing what was there. `bytes_max` is the largest
    /// result allowed.
    ///
    /// `Ok(Err(bytes))`: the body declares `bytes`, more than allowed; nothing was allocated.
    pub fn expand(
        self,
        body: &[u8],
        bytes_max: u32,
        scratch: &mut Vec<u8>,
    ) -> Result<std::result::Result<(), u64>> {
        let (declared, block) = match self {
            Compression::None => {
                return Err(Malformed::with(
                    "Compressed frame, but no compression was chosen in STARTUP",
                ));
            }
            Compression::Lz4 => match body.split_first_chunk::<4>() {
                Some((length, block)) => (u64::from(u32::from_be_bytes(*length)), block),
                None => return Err(Malformed::with("Compressed frame without its length")),
            },
            Compression::Snappy => match snap::raw::decompress_len(body) {
                Ok(length) => (length as u64, body),
                Err(error) => return Err(bad_block(&error)),
            },
        };
        if declared > u64::from(bytes_max) {
            return Ok(Err(declared));
        }
        scratch.clear();
        scratch.resize(declared as usize, 0);
        let written = match self {
            Compression::Lz4 => lz4_block(block, scratch)?,
            _ => snap::raw::Decoder::new()
                .decompress(block, scratch)
                .map_err(|error| bad_block(&error))?,
        };
        if written as u64 != declared {
            return Err(Malformed::because(format!(
                "Compressed frame declares {declared} bytes and holds {written}"
            )));
        }
        Ok(Ok(()))
    }

    /// Compresses the body of the frame that begins at `start` of `out` and ends with it, if that
    /// pays.
    pub fn shrink_frame(self, out: &mut Vec<u8>, start: usize, scratch: &mut Vec<u8>) {
        let body = &out[start + HEADER_BYTES..];
        if self == Compression::None
            || !(COMPRESS_BYTES_MIN..=COMPRESS_BYTES_MAX).contains(&body.len())
        {
            return;
        }
        scratch.clear();
        match self {
            Compression::None => return,
            Compression::Lz4 => {
                let length = super::writer::length(body.len());
                scratch.resize(4 + lz4_flex::block::get_maximum_output_size(body.len()), 0);
                scratch[..4].copy_from_slice(&length.to_be_bytes());
                let written = lz4_flex::block::compress_into(body, &mut scratch[4..])
                    .expect("the buffer has the maximum size");
                scratch.truncate(4 + written);
            }
            Compression::Snappy => {
                scratch.resize(snap::raw::max_compress_len(body.len()), 0);
                let written = snap::raw::Encoder::new()
                    .compress(body, scratch)
                    .expect("the buffer has the maximum size");
                scratch.truncate(written);
            }
        }
        if scratch.len() >= body.len() {
            return;
        }
        out.truncate(start + HEADER_BYTES);
        out.extend_from_slice(scratch);
        out[start + 1] |= Flags::COMPRESSED.0;
        patch_length(out, start);
    }
}

/// Decompresses an LZ4 block into exactly this space; says how much of it was filled.
pub(super) fn lz4_block(block: &[u8], into: &mut [u8]) -> Result<usize> {
    lz4_flex::block::decompress_into(block, into).map_err(|error| bad_block(&error))
}

#[cold]
fn bad_block(error: &dyn std::fmt::Display) -> Malformed {
    Malformed::because(format!("Cannot decompress frame: {error}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::header::{Direction, Header, Opcode, Version};
    use super::*;

    fn frame(body: &[u8]) -> Vec<u8> {
        let mut out = vec![0xAA; 3]; // an earlier answer in the same buffer
        let header = Header {
            version: Version::V4,
            flags: Flags::default(),
            stream: 1,
            opcode: Opcode::Result,
            body_bytes: body.len() as u32,
        };
        header.put(Direction::Response, &mut out);
        out.extend_from_slice(body);
        out
    }

    #[test]
    fn bodies_shrink_and_expand() {
        let body = b"wide column ".repeat(1000);
        for chosen in [Compression::Lz4, Compression::Snappy] {
            let mut out = frame(&body);
            let mut scratch = Vec::new();
            chosen.shrink_frame(&mut out, 3, &mut scratch);
            let header = Header::decode(&out[3..], Direction::Response).unwrap().unwrap();
            assert!(header.flags.has(Flags::COMPRESSED));
            assert_eq!(out.len(), 3 + header.frame_bytes());
            assert!(out.len() < body.len() / 10);
            let compressed = &out[3 + HEADER_BYTES..];
            assert_eq!(chosen.expand(compressed, 1 << 20, &mut scratch), Ok(Ok(())));
            assert_eq!(scratch, body);
            assert_eq!(chosen.expand(compressed, 11_999, &mut scratch), Ok(Err(12_000)));
        }
    }

    /// Before: 64 MiB were compressed in one step, 130 ms.
    #[test]
    fn long_bodies_stay() {
        for (bytes, shrinks) in [(COMPRESS_BYTES_MAX, true), (COMPRESS_BYTES_MAX + 1, false)] {
            let mut out = frame(&vec![7; bytes]);
            let before = out.clone();
            Compression::Lz4.shrink_frame(&mut out, 3, &mut Vec::new());
            assert_eq!(out != before, shrinks, "{bytes}");
        }
    }

    #[test]
    fn what_does_not_shrink_stays() {
        let noise = std::iter::successors(Some(88_172_645_463_325_252u64), |x| {
            let x = x ^ (x << 13);
            let x = x ^ (x >> 7);
            Some(x ^ (x << 17))
        });
        let noise: Vec<u8> = noise.take(600).map(|x| x as u8).collect();
        let mut out = frame(&noise);
        let before = out.clone();
        Compression::Lz4.shrink_frame(&mut out, 3, &mut Vec::new());
        assert_eq!(out, before);
    }

    #[test]
    fn a_block_that_lies_about_its_length_is_refused() {
        let mut body = 100u32.to_be_bytes().to_vec();
        body.extend_from_slice(&lz4_flex::block::compress(b"only these"));
        let mut scratch = Vec::new();
        assert!(Compression::Lz4.expand(&body, 1 << 20, &mut scratch).is_err());
        body[..4].copy_from_slice(&3u32.to_be_bytes());
        assert!(Compression::Lz4.expand(&body, 1 << 20, &mut scratch).is_err());
        assert!(Compression::None.expand(&body, 1 << 20, &mut scratch).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_blocks_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for chosen in [Compression::Lz4, Compression::Snappy] {
                let mut scratch = Vec::new();
                let _ = chosen.expand(&bytes, 1 << 16, &mut scratch);
                prop_assert!(scratch.capacity() <= 1 << 16);
            }
        }
    }
}
