//! The bytes of segments and blocks: made and checked here, nowhere else (`FORMAT.md`).
//!
//! ```text
//! segment   [ header, alone in its unit │ block │ block │ … │ zeros ]     a unit has 4096 bytes
//! block     checksum uuid offset len prior first flags │ payload: records, or parts of them │ zeros to the unit
//! ```
//!
//! 1. A checksum covers everything after it, and a block names the uuid of its segment and its own offset. So a block
//!    of an earlier use of the file, or one that lies elsewhere, is not taken for a block of this place.
//! 2. `prior` is where the block before it ends: so a hole is seen (`replay.rs`).
//! 3. `glance` reads the header of a block and proves nothing: it says how many bytes are to be read. `verify` has the
//!    whole block and decides.
//! 4. A segment header of zeros alone is a file that was never used. Any other header that does not verify is
//!    `Error::Corrupt`, and a newer version `Error::Newer`.
//!
//! Not here: what ends a log (`replay.rs`), when blocks are written (`writer.rs`), how segment files are made
//! (`files.rs`).

use model::bytes::Cursor;
use uuid::Uuid;

use super::Position;
use crate::codec::checksum;
use crate::error::{Error, Result};
use crate::io::{Buf, File};
use crate::limits::{LOG_BLOCK_BYTES_MAX, SEGMENT_BYTES_MIN, WRITE_ALIGN_BYTES};
use crate::planted::{Bug, planted};

/// The version this build writes.
pub(super) const VERSION: u32 = 1;
/// The first block's place: the header has the unit before it.
pub(super) const FIRST_BLOCK: u32 = UNIT;
/// Blocks start at multiples of this.
pub(super) const UNIT: u32 = WRITE_ALIGN_BYTES as u32;
/// What precedes the payload of a block, and what a segment header takes.
pub(super) const HEADER_BYTES: usize = 48;
/// What precedes the payload of a record.
pub(super) const RECORD_HEADER_BYTES: usize = 16;
/// Set in the first block that is written after the log was opened again.
pub(super) const RESTART: u32 = 1;

const MAGIC: &[u8; 8] = b"MESSLOG\0";

/// The first bytes of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) uuid: Uuid,
    pub(super) number: u32,
    pub(super) segment_bytes: u32,
}

/// A segment file with a valid header.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) header: SegmentHeader,
    pub(super) file: File,
}

impl Segment {
    /// Whether it is as long as new ones, which have so many bytes.
    pub(super) fn has_size(&self, segment_bytes: u32) -> bool {
        self.header.segment_bytes == segment_bytes
    }
}

/// The first bytes of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockHeader {
    pub(super) uuid: Uuid,
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) prior: Position,
    pub(super) first: u32,
    pub(super) flags: u32,
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        assert!(self.number > 0, "numbers of segments begin at 1");
        assert!(self.segment_bytes.is_multiple_of(UNIT), "a segment is made of whole units");
        let mut bytes = [0; HEADER_BYTES];
        bytes[8..16].copy_from_slice(MAGIC);
        bytes[16..20].copy_from_slice(&VERSION.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.segment_bytes.to_le_bytes());
        bytes[24..40].copy_from_slice(self.uuid.as_bytes());
        bytes[40..44].copy_from_slice(&self.number.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// Writes the header, alone in its unit, to a file opened for durable writes.
    pub(super) async fn write(&self, file: &File) -> Result<()> {
        let mut buf = file.buf(WRITE_ALIGN_BYTES);
        buf.put(&self.encode());
        buf.pad_to(WRITE_ALIGN_BYTES);
        file.write_at(buf, 0).await
    }

    /// Reads the header of a file; `None` when the file was never used.
    pub(super) async fn read(file: &File) -> Result<Option<SegmentHeader>> {
        let bytes = file.read_at(0, HEADER_BYTES).await?;
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let damaged = |what: &str| Error::corrupt(file.path().as_str(), 0, what);
        let (header, version) =
            SegmentHeader::decode(&bytes).map_err(|_| damaged("segment header"))?;
        if version != VERSION {
            let file = file.path().as_str().into();
            return Err(Error::Newer { file, found: version, known: VERSION });
        }
        if file.len() != u64::from(header.segment_bytes) {
            return Err(damaged("the file is not as long as its header says"));
        }
        if !header.segment_bytes.is_multiple_of(UNIT) || header.segment_bytes < SEGMENT_BYTES_MIN {
            return Err(damaged("segment size"));
        }
        Ok(Some(header))
    }

    /// The header and its version.
    fn decode(bytes: &[u8]) -> model::Result<(SegmentHeader, u32)> {
        let mut cursor = Cursor::new(Cursor::new(bytes).take(HEADER_BYTES)?);
        let sum = cursor.u64()?;
        let sealed = sum == checksum(cursor.rest());
        let magic = cursor.take(MAGIC.len())? == MAGIC;
        let (version, segment_bytes) = (cursor.u32()?, cursor.u32()?);
        let header = SegmentHeader { uuid: cursor.uuid()?, number: cursor.u32()?, segment_bytes };
        match sealed && magic && header.number > 0 {
            true => Ok((header, version)),
            false => Err(model::Error::Malformed("segment header")),
        }
    }
}

impl BlockHeader {
    /// Where the block ends: the start of the next unit after its payload.
    pub(super) fn end(&self) -> u32 {
        self.offset + (HEADER_BYTES as u32 + self.len).next_multiple_of(UNIT)
    }

    /// Fills in the header of a block whose payload is complete, and pads it.
    pub(super) fn finish(&self, buf: &mut Buf) {
        assert_eq!(buf.len(), HEADER_BYTES + self.len as usize, "the header tells the length");
        assert!(self.first <= self.len, "a record starts inside the block or not at all");
        assert!(
            self.offset >= FIRST_BLOCK && self.offset.is_multiple_of(UNIT),
            "a place of blocks"
        );
        let bytes = buf.filled_mut();
        bytes[8..24].copy_from_slice(self.uuid.as_bytes());
        bytes[24..28].copy_from_slice(&self.offset.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.len.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.prior.to_bits().to_le_bytes());
        bytes[40..44].copy_from_slice(&self.first.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.flags.to_le_bytes());
        seal(bytes);
        buf.pad_to(WRITE_ALIGN_BYTES);
    }

    fn decode(bytes: &[u8]) -> model::Result<BlockHeader> {
        let mut cursor = Cursor::new(bytes);
        cursor.u64()?;
        Ok(BlockHeader {
            uuid: cursor.uuid()?,
            offset: cursor.u32()?,
            len: cursor.u32()?,
            prior: Position::from_bits(cursor.u64()?),
            first: cursor.u32()?,
            flags: cursor.u32()?,
        })
    }

    /// The header, if these bytes look like the block at `offset` of this segment: not yet proof.
    pub(super) fn glance(
        segment: &SegmentHeader,
        offset: u32,
        bytes: &[u8],
    ) -> Option<BlockHeader> {
        let header = BlockHeader::decode(bytes.get(..HEADER_BYTES)?).ok()?;
        let space = (segment.segment_bytes - offset).min(LOG_BLOCK_BYTES_MAX as u32);
        let fits = header.len <= space - HEADER_BYTES as u32 && header.first <= header.len;
        let ours = header.uuid == segment.uuid || planted(Bug::AcceptRecycled);
        (ours && header.offset == offset && fits).then_some(header)
    }

    /// Whether the whole block is what was written.
    pub(super) fn verify(&self, bytes: &[u8]) -> bool {
        let whole = HEADER_BYTES + self.len as usize;
        let Some((sum, rest)) = bytes.get(..whole).and_then(|b| b.split_first_chunk::<8>()) else {
            return false;
        };
        u64::from_le_bytes(*sum) == checksum(rest) || planted(Bug::SkipChecksum)
    }
}

/// Puts the checksum of everything after it at the front.
fn seal(bytes: &mut [u8]) {
    let sum = checksum(&bytes[8..]);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
}
