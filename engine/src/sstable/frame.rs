//! The wrapping of everything in the file but the footer: a checksum that knows its place.
//!
//! ```text
//! frame := checksum:u64 stored:u32 raw:u32 kind:u8 codec:u8 payload[stored]      little-endian
//! ```
//!
//! The checksum is the XXH3-64 of all that follows it, seeded with (hash of the file's uuid + offset
//! of the frame), so a block of another file, or of another place, is as wrong as a flipped bit.
//! It is checked before the payload is decompressed: a decompressor never sees damaged bytes.
//!
//! Not here: how LZ4 searches (`lz4.rs`), which blocks are tried (`trials.rs`).

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::SstableId;
use super::lz4::{Lz4, compress_thoroughly};
use super::trials::Trials;
use crate::limits::{
    BLOCK_BYTES_MAX, BLOCK_TARGET_BYTES_MAX, ZSTD_BLOCK_BYTES_MAX, ZSTD_LEVEL_OF_LONG,
};

/// Bytes before the payload.
pub(crate) const HEAD_BYTES: usize = 18;
const CHECKSUM_BYTES: usize = 8;
/// An LZ4 payload cannot grow more than this in decompression.
const LZ4_RATIO_MAX: usize = 256;

/// Compressed bytes are kept if they are fewer than this part of the raw ones: numerator, denominator.
#[derive(Clone, Copy, Debug)]
struct Worth(usize, usize);

impl Worth {
    const OF_FILES: Worth = Worth(15, 16);
    /// Of a file that is merged into others soon.
    const OF_FILES_MERGED_SOON: Worth = Worth(5, 6);

    fn keeps(self, bytes: usize, raw: usize) -> bool {
        bytes * self.1 < raw * self.0
    }
}

/// The table of LZ4 (`LZ4_STREAM_MINSIZE` of `lz4.h`), which is on the stack while a block is compressed.
const LZ4_CONTEXT_BYTES: usize = (16 << 10) + 32;
/// Tables of Zstandard for one file at levels up to [`ZSTD_LEVEL_OF_LONG`]: measured with blocks of any length.
const ZSTD_FAST_CONTEXT_BYTES: usize = 2 << 20;
/// The same at higher levels.
const ZSTD_CONTEXT_BYTES: usize = 6 << 20;
/// What decompressing takes, once a shard.
pub(crate) const OPENER_BYTES: usize = 160 << 10;

/// How payloads are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Not at all.
    None,
    /// Blocks are compressed with LZ4.
    Lz4,
    /// Zstandard frames, at a level.
    Zstd(i32),
}

impl Codec {
    /// What compressing takes beside the blocks, for each file that is written, in bytes at most.
    pub(crate) fn context_bytes(self) -> usize {
        match self {
            Codec::None => 0,
            Codec::Lz4 => LZ4_CONTEXT_BYTES,
            Codec::Zstd(level) if level <= ZSTD_LEVEL_OF_LONG => ZSTD_FAST_CONTEXT_BYTES,
            Codec::Zstd(_) => ZSTD_CONTEXT_BYTES,
        }
    }
}

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Data = 1,
    RowIndex = 2,
    Directory = 3,
    Filter = 4,
    Wide = 5,
    Statistics = 6,
    FilterPiece = 7,
    // Of index files (`index/FORMAT.md`).
    Terms = 8,
    Postings = 9,
    Skips = 10,
    TermDirectory = 11,
    /// Terms on their way into an index file.
    Run = 12,
}

const NONE: u8 = 0;
const LZ4: u8 = 1;
const ZSTD: u8 = 2;

/// What makes the checksums of one file its own.
pub(crate) fn seed_of(id: SstableId) -> u64 {
    xxh3_64(id.0.as_bytes())
}

/// Compresses blocks and seals them with their checksum.
pub(crate) struct Framer {
    codec: Codec,
    /// Which data blocks are stored compressed; all else needs to save a sixteenth.
    worth: Worth,
    lz4: Lz4,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    /// The level that `zstd` is at.
    zstd_level: i32,
    /// As long as the longest payload could have been, so that it is not cleared for each.
    compressed: Vec<u8>,
    /// Of the blocks with data; what else there is, is little, and always tried.
    trials: Trials,
}

impl Framer {
    pub(crate) fn new(codec: Codec) -> Framer {
        let (zstd, zstd_level) = match codec {
            Codec::Zstd(level) => {
                let made = zstd::bulk::Compressor::new(level);
                (Some(made.expect("the level was checked when the table was made")), level)
            }
            _ => (None, 0),
        };
        let (worth, lz4, trials) = (Worth::OF_FILES, Lz4::default(), Trials::default());
        Framer { codec, worth, lz4, zstd, zstd_level, compressed: Vec::new(), trials }
    }

    /// The same for a file that is merged into others soon: its blocks are compressed where that saves a sixth.
    pub(crate) fn of_file_merged_soon(self) -> Framer {
        Framer { worth: Worth::OF_FILES_MERGED_SOON, ..self }
    }

    /// Appends a frame that still lacks its checksum; gives its length.
    pub(crate) fn put(&mut self, kind: Kind, raw: &[u8], out: &mut Vec<u8>) -> usize {
        assert!(raw.len() <= BLOCK_BYTES_MAX, "the writer cuts blocks long before");
        let (codec, payload) = match self.shrink(kind, raw) {
            Some((codec, bytes)) => (codec, &self.compressed[..bytes]),
            None => (NONE, raw),
        };
        assert!(payload.len() <= raw.len(), "a payload is no longer than its content");
        out.extend_from_slice(&[0; CHECKSUM_BYTES]);
        out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        out.extend_from_slice(&(raw.len() as u32).to_le_bytes());
        out.extend_from_slice(&[kind as u8, codec]);
        out.extend_from_slice(payload);
        HEAD_BYTES + payload.len()
    }

    /// Compresses what is worth a try; as `compress`.
    fn shrink(&mut self, kind: Kind, raw: &[u8]) -> Option<(u8, usize)> {
        if kind != Kind::Data {
            return self.compress(kind, raw);
        }
        if !self.trials.is_due() {
            return None;
        }
        let shrunk = self.compress(kind, raw);
        match shrunk {
            Some(_) => self.trials.shrank(),
            None => self.trials.was_vain(),
        }
        shrunk
    }

    /// The codec and the length of what is in `compressed` then; `None` if it is not worth it.
    fn compress(&mut self, kind: Kind, raw: &[u8]) -> Option<(u8, usize)> {
        let space = match self.codec {
            Codec::None => return None,
            Codec::Lz4 => Lz4::bytes_max(raw.len()),
            Codec::Zstd(_) => zstd::zstd_safe::compress_bound(raw.len()),
        };
        if self.compressed.len() < space {
            self.compressed.resize(space, 0);
        }
        let (codec, bytes) = match self.codec {
            Codec::None => return None,
            Codec::Lz4 if kind == Kind::Data && raw.len() <= BLOCK_TARGET_BYTES_MAX => {
                (LZ4, self.lz4.compress(raw, &mut self.compressed))
            }
            Codec::Lz4 => (LZ4, compress_thoroughly(raw, &mut self.compressed)),
            Codec::Zstd(level) => {
                let zstd = self.zstd.as_mut().expect("it was made with the codec");
                // Its tables grow with the block: to 11 MB at level 9 for a row of 16 MB, and more at higher ones.
                let is_long = raw.len() > ZSTD_BLOCK_BYTES_MAX;
                let level = if is_long { level.min(ZSTD_LEVEL_OF_LONG) } else { level };
                if self.zstd_level != level {
                    zstd.set_compression_level(level).expect("the level is one that tables have");
                    self.zstd_level = level;
                }
                let done = zstd.compress_to_buffer(raw, &mut self.compressed[..]);
                (ZSTD, done.expect("the buffer holds the worst case"))
            }
        };
        let worth = if kind == Kind::Data { self.worth } else { Worth::OF_FILES };
        worth.keeps(bytes, raw.len()).then_some((codec, bytes))
    }
}

/// Puts the checksum into a frame, once its offset in the file is known.
pub(crate) fn seal(frame: &mut [u8], seed: u64, offset: u64) -> u64 {
    assert!(frame.len() >= HEAD_BYTES, "a frame has its head");
    let checksum = xxh3_64_with_seed(&frame[CHECKSUM_BYTES..], seed.wrapping_add(offset));
    frame[..CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
    checksum
}

/// The length of the frame that begins with `head`, before anything of it is believed.
pub(crate) fn length_of(head: &[u8]) -> Option<usize> {
    let (stored, _) = head.get(CHECKSUM_BYTES..)?.split_first_chunk::<4>()?;
    Some(u32::from_le_bytes(*stored) as usize + HEAD_BYTES)
}

/// How many bytes a frame says that its payload has when it is opened; nothing of it is believed yet.
pub(crate) fn raw_length_of(head: &[u8]) -> Option<usize> {
    let (raw, _) = head.get(CHECKSUM_BYTES + 4..)?.split_first_chunk::<4>()?;
    Some(u32::from_le_bytes(*raw) as usize)
}

/// The checksum a sealed frame carries.
pub(crate) fn checksum_of(frame: &[u8]) -> u64 {
    let (checksum, _) = frame.split_first_chunk::<CHECKSUM_BYTES>().expect("a whole frame");
    u64::from_le_bytes(*checksum)
}

/// A frame whose checksum is right, and whose head is one of the kind that was asked for.
struct Checked<'f> {
    payload: &'f [u8],
    /// Bytes of the content before compression.
    raw: usize,
    /// As the head says: `NONE`, `LZ4`, `ZSTD`, or a number of none.
    codec: u8,
}

/// The parts of a frame, once its checksum, length and kind are right.
fn check(frame: &[u8], kind: Kind, seed: u64, offset: u64) -> Result<Checked<'_>, &'static str> {
    let Some((head, payload)) = frame.split_first_chunk::<HEAD_BYTES>() else {
        return Err("a frame ends in its head");
    };
    let expected = xxh3_64_with_seed(&frame[CHECKSUM_BYTES..], seed.wrapping_add(offset));
    if checksum_of(frame) != expected {
        return Err("checksum");
    }
    let number =
        |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (stored, raw) = (number(8) as usize, number(12) as usize);
    if stored != payload.len() || raw > BLOCK_BYTES_MAX {
        return Err("frame length");
    }
    if head[16] != kind as u8 {
        return Err("frame kind");
    }
    Ok(Checked { payload, raw, codec: head[17] })
}

/// Checks a whole frame, and does not decompress it.
pub(crate) fn check_sealed(
    frame: &[u8],
    kind: Kind,
    seed: u64,
    offset: u64,
) -> Result<(), &'static str> {
    check(frame, kind, seed, offset).map(drop)
}

/// Opens frames; keeps what decompression needs from one to the next.
#[derive(Default)]
pub(crate) struct Opener {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl Opener {
    /// Checks a whole frame and gives its raw content.
    pub(crate) fn open(
        &mut self,
        frame: &[u8],
        kind: Kind,
        seed: u64,
        offset: u64,
    ) -> Result<Vec<u8>, &'static str> {
        let Checked { payload, raw, codec } = check(frame, kind, seed, offset)?;
        let stored = payload.len();
        match codec {
            NONE if stored == raw => Ok(payload.to_vec()),
            LZ4 if raw <= stored.saturating_mul(LZ4_RATIO_MAX) => {
                let mut out = vec![0; raw];
                match lz4_flex::block::decompress_into(payload, &mut out) {
                    Ok(count) if count == raw => Ok(out),
                    _ => Err("lz4 block"),
                }
            }
            ZSTD => self.open_zstd(payload, raw),
            _ => Err("codec"),
        }
    }

    fn open_zstd(&mut self, payload: &[u8], raw: usize) -> Result<Vec<u8>, &'static str> {
        let zstd = match &mut self.zstd {
            Some(zstd) => zstd,
            none => none.insert(zstd::bulk::Decompressor::new().map_err(|_| "zstd context")?),
        };
        match zstd.decompress(payload, raw) {
            Ok(out) if out.len() == raw => Ok(out),
            _ => Err("zstd frame"),
        }
    }
}

impl std::fmt::Debug for Opener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Opener")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: SstableId = SstableId(uuid::Uuid::from_u128(9));

    fn codecs() -> impl Strategy<Value = Codec> {
        prop_oneof![Just(Codec::None), Just(Codec::Lz4), Just(Codec::Zstd(3))]
    }

    fn raws() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..300),
            prop::collection::vec(0..3u8, 0..3000)
        ]
    }

    proptest! {
        #[test]
        fn a_frame_opens_at_its_place_and_nowhere_else(raw in raws(), codec in codecs(), at: u32) {
            let (seed, offset) = (seed_of(ID), u64::from(at));
            let mut frame = Vec::new();
            let length = Framer::new(codec).put(Kind::Data, &raw, &mut frame);
            prop_assert_eq!(length, frame.len());
            seal(&mut frame, seed, offset);
            prop_assert_eq!(length_of(&frame), Some(length));
            let mut opener = Opener::default();
            prop_assert_eq!(opener.open(&frame, Kind::Data, seed, offset), Ok(raw));
            prop_assert_eq!(check_sealed(&frame, Kind::Data, seed, offset), Ok(()));
            prop_assert_eq!(opener.open(&frame, Kind::Data, seed, offset + 1), Err("checksum"));
            prop_assert_eq!(opener.open(&frame, Kind::Data, seed + 1, offset), Err("checksum"));
            prop_assert_eq!(opener.open(&frame, Kind::Wide, seed, offset), Err("frame kind"));
        }

        #[test]
        fn a_flipped_bit_is_seen(raw in raws(), codec in codecs(), at: prop::sample::Index, bit in 0..8u8) {
            let seed = seed_of(ID);
            let mut frame = Vec::new();
            Framer::new(codec).put(Kind::Data, &raw, &mut frame);
            seal(&mut frame, seed, 0);
            let at = at.index(frame.len());
            frame[at] ^= 1 << bit;
            prop_assert!(Opener::default().open(&frame, Kind::Data, seed, 0).is_err());
            prop_assert!(check_sealed(&frame, Kind::Data, seed, 0).is_err());
        }

        #[test]
        fn what_a_file_holds_is_read_whether_it_was_tried_or_not(
            kinds in prop::collection::vec(any::<bool>(), 0..150),
            codec in codecs(),
        ) {
            let (mut framer, mut opener) = (Framer::new(codec), Opener::default());
            let random = |at: usize| xxh3_64(&at.to_le_bytes()).to_le_bytes();
            for (at, compresses) in kinds.into_iter().enumerate() {
                let raw: Vec<u8> = if compresses { vec![7; 300] } else { (0..40).flat_map(|i| random(at * 40 + i)).collect() };
                let mut frame = Vec::new();
                framer.put(Kind::Data, &raw, &mut frame);
                prop_assert!(compresses || frame[17] == NONE);
                seal(&mut frame, 1, 2);
                prop_assert_eq!(opener.open(&frame, Kind::Data, 1, 2), Ok(raw));
            }
        }

        #[test]
        fn lying_bytes_with_a_good_checksum_never_panic(mut frame: Vec<u8>) {
            if frame.len() >= HEAD_BYTES {
                seal(&mut frame, 1, 2);
            }
            let _ = Opener::default().open(&frame, Kind::Data, 1, 2);
        }
    }

    /// Of a block that shrinks to hardly less than five sixths a file keeps the compressed form if it stays; what is no
    /// block of data is compressed in each.
    #[test]
    fn a_file_that_is_merged_soon_keeps_blocks_that_shrink_by_a_sixth() {
        let random = |at: usize| xxh3_64(&at.to_le_bytes()).to_le_bytes();
        let shrinks = |part: usize| -> Vec<u8> {
            let raw: Vec<u8> = (0..512).flat_map(random).collect();
            [&raw[..4096 - 4096 / part], &vec![7; 4096 / part]].concat()
        };
        let codecs_of = |framer: Framer, kind: Kind| {
            let (mut framer, mut opener) = (framer, Opener::default());
            let mut codec = |part: usize| {
                let (raw, mut frame) = (shrinks(part), Vec::new());
                framer.put(kind, &raw, &mut frame);
                seal(&mut frame, 1, 2);
                assert_eq!(opener.open(&frame, kind, 1, 2), Ok(raw));
                frame[17]
            };
            [codec(2), codec(3), codec(6), codec(20)]
        };
        for (codec, number) in [(Codec::Lz4, LZ4), (Codec::Zstd(1), ZSTD)] {
            let framer = || Framer::new(codec);
            let merged_soon = || framer().of_file_merged_soon();
            assert_eq!(codecs_of(framer(), Kind::Data), [number, number, number, NONE]);
            assert_eq!(codecs_of(merged_soon(), Kind::Data), [number, number, NONE, NONE]);
            assert_eq!(codecs_of(merged_soon(), Kind::Directory), [number, number, number, NONE]);
        }
    }

    /// Before: with a row of 16 MB, tables took 11 MB at level 9, more at higher ones, and counted nowhere.
    #[test]
    fn contexts_take_no_more_than_they_count() {
        let random = |at: usize| xxh3_64(&(at / 3).to_le_bytes()).to_le_bytes();
        let raw: Vec<u8> = (0..1 << 21).flat_map(random).collect();
        for level in [-5, 1, 3, 4, 9, 12, 15, 17, 19, 22] {
            let (codec, mut opener) = (Codec::Zstd(level), Opener::default());
            let mut framer = Framer::new(codec);
            for bytes in [1 << 10, 16 << 10, 256 << 10, (256 << 10) + 1, raw.len()] {
                let mut frame = Vec::new();
                framer.put(Kind::Directory, &raw[..bytes], &mut frame);
                assert!(frame.len() < bytes, "it was compressed");
                let taken = framer.zstd.as_mut().unwrap().context_mut().sizeof();
                assert!(
                    taken <= codec.context_bytes(),
                    "level {level}, a block of {bytes}: {taken}"
                );
                seal(&mut frame, 1, 2);
                assert!(opener.open(&frame, Kind::Directory, 1, 2).unwrap() == raw[..bytes]);
            }
        }
        let taken = zstd::zstd_safe::DCtx::create().sizeof();
        assert!(taken <= OPENER_BYTES, "{taken} to decompress, which grows with no block");
    }
}
