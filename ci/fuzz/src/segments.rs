//! Segments of protocol v5 with right checksums, so that what lies behind them is reached.
//!
//! ```text
//! input    format (bit 0: LZ4), then segments: what (bit 0: self-contained, bit 1: it claims to expand), length,
//!          payload; with bit 1 two bytes more before the payload: to how many bytes
//! stream   lengths and flag, CRC24, payload, CRC32, for each of them
//! ```

use cql::frame::Version;
use cql::frame::compress::Compression;
use cql::frame::frame_reader::FrameReader;
use cql::frame::header::Direction;
use crc::{Algorithm, Crc};

const CRC24: Crc<u32> = Crc::<u32>::new(&Algorithm {
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
const LENGTH_BITS: u32 = 17;

/// Gives the segments that the input describes to a connection.
pub(crate) fn run(input: &[u8]) {
    let Some((&format, rest)) = input.split_first() else { return };
    let is_compressed = format & 1 == 1;
    let mut reader = FrameReader::new(Direction::Request, 1 << 20);
    let compression = if is_compressed { Compression::Lz4 } else { Compression::None };
    reader.establish(Version::V5, compression);
    crate::targets::drain(&mut reader, &stream(rest, is_compressed));
}

fn stream(mut input: &[u8], is_compressed: bool) -> Vec<u8> {
    let mut out = Vec::new();
    while let [what, length, rest @ ..] = input {
        let (claim, rest) = match rest {
            [high, low, rest @ ..] if what & 2 != 0 => {
                (u64::from(*high) << 8 | u64::from(*low), rest)
            }
            _ => (0, rest),
        };
        let (payload, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        let self_contained = u64::from(what & 1);
        let (lengths, bytes) = if is_compressed {
            let lengths = payload.len() as u64 | claim << LENGTH_BITS;
            (lengths | self_contained << (2 * LENGTH_BITS), 5)
        } else {
            (payload.len() as u64 | self_contained << LENGTH_BITS, 3)
        };
        let lengths = &lengths.to_le_bytes()[..bytes];
        out.extend_from_slice(lengths);
        out.extend_from_slice(&CRC24.checksum(lengths).to_le_bytes()[..3]);
        out.extend_from_slice(payload);
        let mut check = crc32fast::Hasher::new();
        check.update(&CRC32_SEED);
        check.update(payload);
        out.extend_from_slice(&check.finalize().to_le_bytes());
        input = rest;
    }
    out
}

#[cfg(test)]
mod tests {
    use cql::frame::frame_reader::Arrival;

    use super::*;

    /// The target can reach what it is for: OPTIONS in a segment is a frame.
    #[test]
    fn a_segment_arrives_as_its_frame() {
        let options = b"\x05\x00\x00\x00\x05\x00\x00\x00\x00";
        let input = [&[1, options.len() as u8], &options[..]].concat();
        let mut reader = FrameReader::new(Direction::Request, 1 << 20);
        reader.establish(Version::V5, Compression::None);
        let bytes = stream(&input, false);
        let mut rest = &bytes[..];
        loop {
            let step = reader.next(rest).unwrap();
            rest = &rest[step.used..];
            match step.arrival {
                Arrival::Frame(..) => return,
                _ => assert!(step.used > 0, "no frame came"),
            }
        }
    }
}
