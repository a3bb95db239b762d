//! The last 256 bytes of the file: where everything else is, and that it is this file.
//!
//! ```text
//! 000 magic "MSNA-SST"         008 version:u32          012 needs:u32 (feature bits)
//! 016 offers:u32 (bits)        020 zero:u32             024 sstable uuid[16]
//! 040 table uuid[16]           056 data bytes:u64       064 blocks:u64
//! 072 data digest:u64          080 sections digest:u64  088 index offset:u64   096 index bytes:u64
//! 104 directory, 116 filter, 128 wide, 140 statistics: offset:u64 bytes:u32
//! 152 zeros                    248 checksum:u64                            integers little-endian
//! ```
//!
//! The checksum is the XXH3-64 of the bytes before it, seeded as a frame's. Magic, version and checksum
//! stay where they are in every version to come, so a newer file is told from a damaged one. A `needs`
//! bit that is not known is a newer file; an `offers` bit may be ignored.

use model::TableId;
use model::bytes::Cursor;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::SstableId;

/// Bytes of the footer.
pub(super) const FOOTER_BYTES: usize = 256;
/// The format this build writes, and the newest it reads.
pub(super) const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"MSNA-SST";
/// A `needs` bit: rows may hold clustering values and keys of elements as they were written, which a build that does not
/// know of them takes for damage (`model/src/row.rs`, flag WRITTEN).
pub(super) const NEEDS_WRITTEN_FORMS: u32 = 1;
/// A `needs` bit: the filter is in pieces (`filter_pieces.rs`).
pub(super) const NEEDS_FILTER_PIECES: u32 = 2;
/// The `needs` bits that this build knows.
const NEEDS_KNOWN: u32 = NEEDS_WRITTEN_FORMS | NEEDS_FILTER_PIECES;
const CHECKSUM_AT: usize = FOOTER_BYTES - 8;

/// A frame outside the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    pub(super) offset: u64,
    pub(super) bytes: u32,
}

/// The last block of a file: what it needs, and where its sections are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    /// Bits of features without which the file is not read.
    pub(super) needs: u32,
    pub(super) id: SstableId,
    pub(super) table: TableId,
    pub(super) data_bytes: u64,
    pub(super) blocks: u64,
    /// Over the checksums of all data blocks in order.
    pub(super) data_digest: u64,
    /// Over the checksums of all index nodes and sections in order.
    pub(super) sections_digest: u64,
    pub(super) index_offset: u64,
    pub(super) index_bytes: u64,
    pub(super) directory: Section,
    pub(super) filter: Section,
    pub(super) wide: Section,
    pub(super) statistics: Section,
}

/// Why a footer cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Damaged(&'static str),
    Newer(u32),
    Needs(u32),
}

/// Adds the next checksum to a digest; an empty digest is 0.
pub(crate) fn digest(so_far: u64, checksum: u64) -> u64 {
    xxh3_64_with_seed(&checksum.to_le_bytes(), so_far)
}

impl Footer {
    /// The bytes of the footer that begins at `offset`.
    pub(super) fn encode(&self, seed: u64, offset: u64) -> [u8; FOOTER_BYTES] {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        out.extend_from_slice(MAGIC);
        for number in [VERSION, self.needs, 0, 0] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(self.id.0.as_bytes());
        out.extend_from_slice(self.table.0.as_bytes());
        for number in [
            self.data_bytes,
            self.blocks,
            self.data_digest,
            self.sections_digest,
            self.index_offset,
            self.index_bytes,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for section in [self.directory, self.filter, self.wide, self.statistics] {
            out.extend_from_slice(&section.offset.to_le_bytes());
            out.extend_from_slice(&section.bytes.to_le_bytes());
        }
        out.resize(CHECKSUM_AT, 0);
        let checksum = xxh3_64_with_seed(&out, seed.wrapping_add(offset));
        out.extend_from_slice(&checksum.to_le_bytes());
        out.try_into().expect("the footer has its length")
    }

    /// Reads the footer that begins at `offset`; gives it with its checksum.
    pub(super) fn decode(bytes: &[u8], seed: u64, offset: u64) -> Result<(Footer, u64), Refusal> {
        let bytes: &[u8; FOOTER_BYTES] =
            bytes.try_into().map_err(|_| Refusal::Damaged("footer length"))?;
        let (body, checksum) = bytes.split_last_chunk::<8>().expect("longer than its checksum");
        let checksum = u64::from_le_bytes(*checksum);
        if checksum != xxh3_64_with_seed(body, seed.wrapping_add(offset)) {
            return Err(Refusal::Damaged("footer checksum"));
        }
        let (magic, rest) = body.split_first_chunk::<8>().expect("longer than its magic");
        if magic != MAGIC {
            return Err(Refusal::Damaged("footer magic"));
        }
        let mut cursor = Cursor::new(rest);
        let damaged = |_| Refusal::Damaged("footer");
        let version = cursor.u32().map_err(damaged)?;
        let needs = cursor.u32().map_err(damaged)?;
        if version > VERSION {
            return Err(Refusal::Newer(version));
        }
        if needs & !NEEDS_KNOWN != 0 {
            return Err(Refusal::Needs(needs & !NEEDS_KNOWN));
        }
        let footer = read(&mut cursor, needs).map_err(damaged)?;
        Ok((footer, checksum))
    }
}

fn read(cursor: &mut Cursor<'_>, needs: u32) -> model::Result<Footer> {
    cursor.take(8)?;
    let id = SstableId(cursor.uuid()?);
    let table = TableId(cursor.uuid()?);
    let mut number = || cursor.u64();
    let (data_bytes, blocks) = (number()?, number()?);
    let (data_digest, sections_digest) = (number()?, number()?);
    let (index_offset, index_bytes) = (number()?, number()?);
    let mut section = || Ok(Section { offset: cursor.u64()?, bytes: cursor.u32()? });
    Ok(Footer {
        needs,
        id,
        table,
        data_bytes,
        blocks,
        data_digest,
        sections_digest,
        index_offset,
        index_bytes,
        directory: section()?,
        filter: section()?,
        wide: section()?,
        statistics: section()?,
    })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn footer() -> Footer {
        let section = |offset| Section { offset, bytes: 7 };
        Footer {
            needs: NEEDS_WRITTEN_FORMS,
            id: SstableId(Uuid::from_u128(1)),
            table: TableId(Uuid::from_u128(2)),
            data_bytes: 3,
            blocks: 4,
            data_digest: 5,
            sections_digest: 6,
            index_offset: 7,
            index_bytes: 8,
            directory: section(9),
            filter: section(10),
            wide: section(11),
            statistics: section(12),
        }
    }

    #[test]
    fn a_footer_reads_back_and_every_flipped_bit_is_seen() {
        let bytes = footer().encode(1, 4096);
        let (read, checksum) = Footer::decode(&bytes, 1, 4096).unwrap();
        assert_eq!((read, checksum.to_le_bytes().as_slice()), (footer(), &bytes[248..]));
        for bit in 0..FOOTER_BYTES * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(
                matches!(Footer::decode(&bytes, 1, 4096), Err(Refusal::Damaged(_))),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn a_newer_version_or_a_needed_feature_is_refused_by_name() {
        for (at, value, expected) in
            [(8, 2, Refusal::Newer(2)), (12, 4, Refusal::Needs(4)), (12, 7, Refusal::Needs(4))]
        {
            let mut bytes = footer().encode(1, 0);
            bytes[at] = value;
            let checksum = xxh3_64_with_seed(&bytes[..CHECKSUM_AT], 1);
            bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
            assert_eq!(Footer::decode(&bytes, 1, 0), Err(expected));
        }
    }
}
