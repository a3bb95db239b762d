//! The last 128 bytes of an index file: of which sstable and which index it is, and where its directory is.
//!
//! ```text
//! 000 magic "MSNA-IDX"          008 version:u32            012 needs:u32 (feature bits)
//! 016 sstable uuid[16]          032 table uuid[16]         048 index:u32   052 levels below the directory:u32
//! 056 of what:u64               064 footer checksum of the sstable:u64
//! 072 terms:u64                 080 postings:u64           088 directory offset:u64 bytes:u32  100 zero:u32
//! 104 digest:u64                112 blocks of terms:u64    120 checksum:u64          integers little-endian
//! ```
//!
//! The checksum is the XXH3-64 of the bytes before it, seeded as a frame's.

use model::bytes::Cursor;
use model::schema::{Analysis, ColumnKind, Index, IndexId, IndexTarget, Table};
use uuid::Uuid;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::sstable::SstableId;

/// Bytes of the footer.
pub(super) const FOOTER_BYTES: usize = 128;
const VERSION: u32 = 3;
const MAGIC: &[u8; 8] = b"MSNA-IDX";
/// Terms of vectors are these: files with others are made anew.
const VECTOR_TERMS: u32 = 2;
const CHECKSUM_AT: usize = FOOTER_BYTES - 8;

/// What an index file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) sstable: SstableId,
    pub(super) table: Uuid,
    pub(super) index: IndexId,
    /// What the index indexes, so that an index of the same number in another life of the table is told apart.
    pub(super) of: u64,
    /// The checksum of the sstable's footer.
    pub(super) sstable_checksum: u64,
    pub(super) terms: u64,
    pub(super) postings: u64,
    /// Where the directory's frame is: behind all others. No bytes if there are no terms.
    pub(super) directory_offset: u64,
    pub(super) directory_bytes: u32,
    /// Blocks of terms.
    pub(super) blocks: u64,
    /// The directory leads to nodes, which lead to blocks.
    pub(super) has_nodes: bool,
    /// Over the checksums of all frames in order.
    pub(super) digest: u64,
}

/// What makes the checksums of one index file its own.
pub(super) fn seed_of(sstable: SstableId, index: IndexId) -> u64 {
    let mut bytes = *b"index of 0123456789abcdef12";
    bytes[9..25].copy_from_slice(sstable.0.as_bytes());
    bytes[25..].copy_from_slice(&index.0.to_le_bytes());
    xxh3_64(&bytes)
}

/// What an index indexes, as a number: column, its type as CQL writes it, which part, which form of texts, what is near
/// among vectors, and what their terms are. Fields that a user type gains leave it as it is: they change no term.
pub(super) fn fingerprint(table: &Table, index: &Index) -> u64 {
    let column = index.column(table);
    let kind = match column.kind {
        ColumnKind::PartitionKey => "partition key",
        ColumnKind::Clustering => "clustering",
        ColumnKind::Static => "static",
        ColumnKind::Regular => "regular",
    };
    let target = match index.target {
        IndexTarget::Value => "value",
        IndexTarget::Keys => "keys",
        IndexTarget::Values => "values",
        IndexTarget::Entries => "entries",
        IndexTarget::Full => "full",
    };
    let Analysis { case_sensitive, normalize, ascii } = index.analysis;
    let texts = [case_sensitive, normalize, ascii].map(u8::from);
    let (name, position, ty) = (&column.name, column.position, &column.ty);
    let near = index.similarity(table).map(|near| format!("\0{}\0{VECTOR_TERMS}", near.name()));
    let near = near.unwrap_or_default();
    xxh3_64(format!("{name}\0{kind} {position}\0{ty}\0{target}\0{texts:?}{near}").as_bytes())
}

impl Footer {
    /// The bytes of the footer that begins at `offset`.
    pub(super) fn encode(&self, seed: u64, offset: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&0u32.to_le_bytes());
        out.extend_from_slice(self.sstable.0.as_bytes());
        out.extend_from_slice(self.table.as_bytes());
        out.extend_from_slice(&u32::from(self.index.0).to_le_bytes());
        out.extend_from_slice(&u32::from(self.has_nodes).to_le_bytes());
        for number in [self.of, self.sstable_checksum, self.terms, self.postings] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.directory_offset.to_le_bytes());
        out.extend_from_slice(&self.directory_bytes.to_le_bytes());
        out.extend_from_slice(&0u32.to_le_bytes());
        out.extend_from_slice(&self.digest.to_le_bytes());
        out.extend_from_slice(&self.blocks.to_le_bytes());
        assert_eq!(out.len(), CHECKSUM_AT, "all fields have their places");
        let checksum = xxh3_64_with_seed(&out, seed.wrapping_add(offset));
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Reads the footer that begins at `offset`.
    pub(super) fn decode(bytes: &[u8], seed: u64, offset: u64) -> Result<Footer, &'static str> {
        let (body, checksum) = bytes
            .split_last_chunk::<8>()
            .filter(|_| bytes.len() == FOOTER_BYTES)
            .ok_or("footer length")?;
        if u64::from_le_bytes(*checksum) != xxh3_64_with_seed(body, seed.wrapping_add(offset)) {
            return Err("footer checksum");
        }
        let mut cursor = Cursor::new(body);
        let (magic, version, needs) =
            read_version(&mut cursor).map_err(|_| "footer of an index")?;
        // What another build has made is made anew by this one.
        if magic != *MAGIC || version != VERSION || needs != 0 {
            return Err("footer of an index of another version");
        }
        read(&mut cursor).map_err(|_| "footer of an index")
    }
}

fn read_version(cursor: &mut Cursor<'_>) -> model::Result<([u8; 8], u32, u32)> {
    Ok((cursor.array::<8>()?, cursor.u32()?, cursor.u32()?))
}

fn read(cursor: &mut Cursor<'_>) -> model::Result<Footer> {
    let (sstable, table) = (SstableId(cursor.uuid()?), cursor.uuid()?);
    let index = u16::try_from(cursor.u32()?).map_err(|_| model::Error::Malformed("index"))?;
    let has_nodes = match cursor.u32()? {
        0 => false,
        1 => true,
        _ => return Err(model::Error::Malformed("levels of a directory")),
    };
    let (of, sstable_checksum) = (cursor.u64()?, cursor.u64()?);
    let (terms, postings) = (cursor.u64()?, cursor.u64()?);
    let (directory_offset, directory_bytes) = (cursor.u64()?, cursor.u32()?);
    cursor.u32()?;
    let (digest, blocks) = (cursor.u64()?, cursor.u64()?);
    let index = IndexId(index);
    Ok(Footer {
        sstable,
        table,
        index,
        of,
        sstable_checksum,
        terms,
        postings,
        directory_offset,
        directory_bytes,
        blocks,
        has_nodes,
        digest,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use model::schema::{IndexKind, TableBuilder};
    use model::types::UserType;
    use model::{CqlType, TableId};

    use super::*;

    #[test]
    fn a_footer_reads_back_and_every_flipped_bit_is_seen() {
        let footer = Footer {
            sstable: SstableId(Uuid::from_u128(1)),
            table: Uuid::from_u128(2),
            index: IndexId(3),
            of: 4,
            sstable_checksum: 5,
            terms: 6,
            postings: 7,
            directory_offset: 8,
            directory_bytes: 9,
            blocks: 11,
            has_nodes: true,
            digest: 10,
        };
        let bytes = footer.encode(1, 4096);
        assert_eq!(Footer::decode(&bytes, 1, 4096), Ok(footer));
        for bit in 0..FOOTER_BYTES * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Footer::decode(&bytes, 1, 4096).is_err(), "bit {bit}");
        }
    }

    /// Before: it was what `Debug` writes of the type, and a field that a type gained threw its indexes away.
    #[test]
    fn what_an_index_indexes_is_told_by_what_changes_its_terms() {
        let of = |fields: &[(&str, CqlType)], analysis, target| {
            let fields = fields.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect();
            let definition = Arc::new(UserType::new("ks", "u", fields));
            let table = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)))
                .partition_key("k", CqlType::Int)
                .and_then(|t| t.regular("v", CqlType::Udt { definition, frozen: true }))
                .and_then(TableBuilder::build)
                .expect("a sound table");
            let index = Index {
                id: IndexId(0),
                name: "i".into(),
                column: table.column("v").expect("it is there").id,
                target,
                kind: IndexKind::Plain,
                class: None,
                options: BTreeMap::new(),
                analysis,
            };
            fingerprint(&table, &index)
        };
        let one = [("a", CqlType::Int)];
        let two = [("a", CqlType::Int), ("b", CqlType::Int)];
        let (exact, value) = (Analysis::NONE, IndexTarget::Value);
        let folded = Analysis { case_sensitive: false, ..exact };
        assert_eq!(of(&one, exact, value), of(&two, exact, value));
        assert_ne!(of(&one, exact, value), of(&one, folded, value));
        assert_ne!(of(&one, exact, value), of(&one, exact, IndexTarget::Full));
    }
}
