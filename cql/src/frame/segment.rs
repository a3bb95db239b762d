//! v5 segments: the checked envelopes that frames travel in after the handshake.
//!
//! ```text
//!  plain  ├ 17 bits payload length, 1 bit self-contained, 6 bits 0 ┼ CRC24 ┼ payload ┼ CRC32 ┤
//!           3 bytes                                                  3       ≤131071   4
//!  lz4    ├ 17 bits compressed, 17 bits uncompressed length, 1 bit self-contained, 5 bits 0 ┼ CRC24 ┼ ...
//!           5 bytes                            uncompressed length 0: the payload is not compressed
//! ```
//!
//! Everything little-endian. A self-contained segment holds whole frames, one or more; another
//! holds a part of one frame. After a wrong checksum nothing of the connection can be trusted, so
//! it closes.

use crc::{Algorithm, Crc, Table};

use super::compress::lz4_block;
use super::error::{Malformed, Result};
use super::header::HEADER_BYTES;
use crate::limits::{COMPRESS_BYTES_MAX, COMPRESS_BYTES_MIN, SEGMENT_PAYLOAD_BYTES_MAX};

/// How many bytes of checksum follow a payload.
pub(super) const TRAILER_BYTES: usize = 4;
const LENGTH_BITS: u32 = 17;
const LENGTH_MASK: u64 = (1 << LENGTH_BITS) - 1;

const CRC24: Crc<u32, Table<1>> = Crc::<u32, Table<1>>::new(&Algorithm {
    width: 24,
    poly: 0x97_4F0B,
    init: 0x87_5060,
    refin: false,
    refout: false,
    xorout: 0,
    check: 0,
    residue: 0,
});

/// What the CRC32 of a payload begins with.
const CRC32_SEED: [u8; 4] = [0xFA, 0x2D, 0x55, 0xCA];

/// Which of the two segment formats a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentFormat {
    /// Segments without compression.
    Plain,
    /// Segments compressed with LZ4.
    Lz4,
}

/// What the payload of a segment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Payload {
    /// One or more whole frames: the segment is self-contained.
    Frames,
    /// A part of a frame that is longer than a segment.
    PartOfFrame,
}

/// What the header of a segment says, whose checksum was right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHead {
    /// Whether it holds whole frames.
    pub(super) self_contained: bool,
    /// How many bytes the header has.
    pub(super) header_bytes: usize,
    /// How long the payload is in the input.
    pub(super) payload_bytes: usize,
    /// How long the payload is once decompressed; `None` if it is not compressed.
    pub(super) expands_to: Option<usize>,
}

/// A segment found at the start of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Whether it holds whole frames.
    pub self_contained: bool,
    /// Its payload as it lies in the input.
    pub payload: &'a [u8],
    /// How long the payload is once decompressed; `None` if it is not compressed.
    pub expands_to: Option<usize>,
    /// How many bytes of the input the segment takes.
    pub segment_bytes: usize,
}

impl SegmentFormat {
    const fn length_bytes(self) -> usize {
        match self {
            SegmentFormat::Plain => 3,
            SegmentFormat::Lz4 => 5,
        }
    }

    const fn header_bytes(self) -> usize {
        self.length_bytes() + 3
    }

    /// The header at the start of `input`, whose payload may not have come yet. `None`: more bytes are needed.
    pub(super) fn head(self, input: &[u8]) -> Result<Option<SegmentHead>> {
        let header_bytes = self.header_bytes();
        let Some((header, _)) = input.split_at_checked(header_bytes) else { return Ok(None) };
        let (lengths, checksum) = header.split_at(self.length_bytes());
        if crc24(lengths) != little_endian(checksum) {
            return Err(Malformed::with(
                "Invalid segment header: its CRC24 does not match, so the connection is out of step",
            ));
        }
        let bits = little_endian(lengths);
        let payload_bytes = (bits & LENGTH_MASK) as usize;
        let (expands_to, flag) = match self {
            SegmentFormat::Plain => (None, LENGTH_BITS),
            SegmentFormat::Lz4 => {
                let uncompressed = ((bits >> LENGTH_BITS) & LENGTH_MASK) as usize;
                ((uncompressed != 0).then_some(uncompressed), 2 * LENGTH_BITS)
            }
        };
        let self_contained = (bits >> flag) & 1 == 1;
        Ok(Some(SegmentHead { self_contained, header_bytes, payload_bytes, expands_to }))
    }

    /// Finds the segment at the start of `input` and checks it. `None`: more bytes are needed.
    pub fn decode(self, input: &[u8]) -> Result<Option<Segment<'_>>> {
        let Some(head) = self.head(input)? else { return Ok(None) };
        let SegmentHead { self_contained, header_bytes, payload_bytes, expands_to } = head;
        let rest = &input[header_bytes..];
        let Some((payload, trailer)) = rest.split_at_checked(payload_bytes) else {
            return Ok(None);
        };
        let Some(trailer) = trailer.first_chunk::<TRAILER_BYTES>() else { return Ok(None) };
        if crc32(payload) != u32::from_le_bytes(*trailer) {
            return Err(Malformed::with(
                "Invalid segment payload: its CRC32 does not match, so it was changed on the way",
            ));
        }
        let segment_bytes = header_bytes + payload_bytes + TRAILER_BYTES;
        Ok(Some(Segment { self_contained, payload, expands_to, segment_bytes }))
    }

    /// Wraps `frames` (whole frames, one after the other) and appends the segments to `out`.
    ///
    /// As many frames as fit share a segment; a frame that fits none is cut into segments of its
    /// own. Segments that begin behind the first [`COMPRESS_BYTES_MAX`] are not compressed.
    pub fn wrap(self, frames: &[u8], out: &mut Vec<u8>) {
        let mut left = COMPRESS_BYTES_MAX;
        let mut put = |payload: &[u8], holds| {
            self.put(payload, holds, left > 0, out);
            left = left.saturating_sub(payload.len());
        };
        let mut packed = 0; // start of what is not yet written
        let mut end = 0; // end of the frames that fit one segment with it
        for frame in whole_frames(frames) {
            if end + frame.len() - packed > SEGMENT_PAYLOAD_BYTES_MAX && end > packed {
                put(&frames[packed..end], Payload::Frames);
                packed = end;
            }
            end += frame.len();
            if end - packed > SEGMENT_PAYLOAD_BYTES_MAX {
                for part in frames[packed..end].chunks(SEGMENT_PAYLOAD_BYTES_MAX) {
                    put(part, Payload::PartOfFrame);
                }
                packed = end;
            }
        }
        if end > packed {
            put(&frames[packed..end], Payload::Frames);
        }
    }

    /// Wraps a part of a long frame and appends its segments, which are not self-contained, to `out`.
    pub(super) fn wrap_part(self, part: &[u8], out: &mut Vec<u8>) {
        for payload in part.chunks(SEGMENT_PAYLOAD_BYTES_MAX) {
            self.put(payload, Payload::PartOfFrame, true, out);
        }
    }

    /// Appends one segment, compressed if that pays and may take the time.
    fn put(self, payload: &[u8], holds: Payload, may_compress: bool, out: &mut Vec<u8>) {
        assert!(payload.len() <= SEGMENT_PAYLOAD_BYTES_MAX, "the caller cuts the payload");
        let start = out.len();
        let header_bytes = self.header_bytes();
        out.resize(start + header_bytes, 0);
        let mut bits = u64::from(holds == Payload::Frames);
        match self {
            SegmentFormat::Plain => {
                out.extend_from_slice(payload);
                bits = bits << LENGTH_BITS | payload.len() as u64;
            }
            SegmentFormat::Lz4 => {
                let expands_to = put_lz4(payload, may_compress, out);
                let payload_bytes = (out.len() - start - header_bytes) as u64;
                bits = bits << LENGTH_BITS | expands_to as u64;
                bits = bits << LENGTH_BITS | payload_bytes;
            }
        }
        let length_bytes = self.length_bytes();
        out[start..start + length_bytes].copy_from_slice(&bits.to_le_bytes()[..length_bytes]);
        let checksum = crc24(&out[start..start + length_bytes]).to_le_bytes();
        out[start + length_bytes..start + header_bytes].copy_from_slice(&checksum[..3]);
        let checksum = crc32(&out[start + header_bytes..]).to_le_bytes();
        out.extend_from_slice(&checksum);
    }
}

impl Segment<'_> {
    /// Appends the payload, decompressed if it is compressed.
    pub fn expand_into(&self, out: &mut Vec<u8>) -> Result<()> {
        let Some(bytes) = self.expands_to else {
            out.extend_from_slice(self.payload);
            return Ok(());
        };
        let start = out.len();
        out.resize(start + bytes, 0);
        let written = lz4_block(self.payload, &mut out[start..])?;
        if written != bytes {
            return Err(Malformed::because(format!(
                "Invalid segment payload: it declares {bytes} bytes and holds {written}"
            )));
        }
        Ok(())
    }
}

/// Appends `payload` as an LZ4 block, or as it is when that is not shorter. Returns what the header
/// says of it.
fn put_lz4(payload: &[u8], may_compress: bool, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    if may_compress && payload.len() >= COMPRESS_BYTES_MIN {
        out.resize(start + lz4_flex::block::get_maximum_output_size(payload.len()), 0);
        let written = lz4_flex::block::compress_into(payload, &mut out[start..])
            .expect("the buffer has the maximum size");
        if written < payload.len() {
            out.truncate(start + written);
            return payload.len();
        }
        out.truncate(start);
    }
    out.extend_from_slice(payload);
    0
}

/// Splits frames that stand one after the other, which our own encoder wrote.
pub(super) fn whole_frames(mut frames: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (frame, left) = frames.split_at_checked(frame_bytes(frames.get(..HEADER_BYTES)?))?;
        frames = left;
        Some(frame)
    })
}

/// The length of the frame at the start of `frames`, which our own encoder wrote.
fn frame_bytes(frames: &[u8]) -> usize {
    let body_bytes = frames[5..HEADER_BYTES].try_into().map(u32::from_be_bytes);
    HEADER_BYTES + body_bytes.expect("four bytes") as usize
}

fn crc24(bytes: &[u8]) -> u64 {
    u64::from(CRC24.checksum(bytes))
}

fn crc32(payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&CRC32_SEED);
    hasher.update(payload);
    hasher.finalize()
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::header::{Direction, Flags, Header, Opcode, Version};
    use super::*;

    const FORMATS: [SegmentFormat; 2] = [SegmentFormat::Plain, SegmentFormat::Lz4];

    fn frame(body_bytes: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let header = Header {
            version: Version::V5,
            flags: Flags::default(),
            stream: 3,
            opcode: Opcode::Result,
            body_bytes: body_bytes as u32,
        };
        header.put(Direction::Response, &mut out);
        out.extend((0..body_bytes).map(|i| (i % 251) as u8));
        out
    }

    /// What a reader of the segments gets, and how many segments of which kind there were.
    fn unwrap(format: SegmentFormat, mut input: &[u8]) -> (Vec<u8>, Vec<bool>) {
        let (mut frames, mut kinds) = (Vec::new(), Vec::new());
        while !input.is_empty() {
            let segment = format.decode(input).unwrap().unwrap();
            segment.expand_into(&mut frames).unwrap();
            kinds.push(segment.self_contained);
            input = &input[segment.segment_bytes..];
        }
        (frames, kinds)
    }

    #[test]
    fn frames_share_segments_and_large_ones_are_cut() {
        for format in FORMATS {
            let frames = [frame(10), frame(20), frame(131_040), frame(300_000), frame(5)].concat();
            let mut out = Vec::new();
            format.wrap(&frames, &mut out);
            let (read, kinds) = unwrap(format, &out);
            assert_eq!(read, frames);
            // 10 + 20 and 131,040 do not fit together; 300,000 takes three.
            assert_eq!(kinds, [true, true, false, false, false, true]);
        }
    }

    /// Before: 64 MiB were compressed in one step, 130 ms.
    #[test]
    fn so_much_is_compressed_at_a_time_and_the_rest_is_whole() {
        let frames = frame(3 * COMPRESS_BYTES_MAX);
        let mut out = Vec::new();
        SegmentFormat::Lz4.wrap(&frames, &mut out);
        assert_eq!(unwrap(SegmentFormat::Lz4, &out).0, frames);
        // The bytes of its body repeat, and take next to nothing where they are compressed.
        let plain = 2 * COMPRESS_BYTES_MAX - SEGMENT_PAYLOAD_BYTES_MAX..2 * COMPRESS_BYTES_MAX;
        assert!(plain.contains(&out.len()), "{}", out.len());
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        for format in FORMATS {
            let mut out = Vec::new();
            format.wrap(&frame(40), &mut out);
            for bit in 0..out.len() * 8 {
                let mut bad = out.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(format.decode(&bad).is_err(), "bit {bit}");
            }
            for cut in 0..out.len() {
                assert_eq!(format.decode(&out[..cut]), Ok(None));
            }
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            for format in FORMATS {
                if let Ok(Some(segment)) = format.decode(&bytes) {
                    let _ = segment.expand_into(&mut Vec::new());
                }
            }
        }

        #[test]
        fn segments_carry_frames(sizes in prop::collection::vec(0usize..60_000, 0..8)) {
            let frames: Vec<u8> = sizes.into_iter().flat_map(frame).collect();
            for format in FORMATS {
                let mut out = Vec::new();
                format.wrap(&frames, &mut out);
                prop_assert_eq!(&unwrap(format, &out).0, &frames);
            }
        }
    }
}
