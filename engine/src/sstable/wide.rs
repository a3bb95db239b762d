//! The partitions that span many blocks, by token: where they begin and where their row index is.
//!
//! On disk: `(token:i64 key_hash:u32 first_block:u32 root_offset:u64 root_bytes:u32)*`, ascending by token
//! (`FORMAT.md`, kind 5). Where each ends is asked of the directory once, when the file is opened: a read of it would
//! go through a bit for each block.
//!
//! Invariants
//! 1. Tokens ascend, and two wide partitions share no block. A wide partition begins a block.
//! 2. Of two keys with one token and one hash, `find` gives the first. So the reader compares the key in the block, and
//!    looks without the table if it is another one.
//! 3. The root of a row index lies in the index region of the file (checked by `decode`).
//!
//! Not here: which partitions are wide (`writer.rs`), the row index (`row_index.rs`), all other partitions
//! (`directory.rs`).

use model::Token;
use model::bytes::Cursor;
use xxhash_rust::xxh3::xxh3_64;

use super::directory::Directory;
use super::row_index::NodeRef;

/// One wide partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wide {
    pub(super) token: Token,
    pub(super) key_hash: u32,
    /// The block with its head.
    pub(super) first_block: u32,
    /// The block with its last entry.
    pub(super) last_block: u32,
    pub(super) root: NodeRef,
}

/// What tells keys of one token apart, nearly always; who reads the block is certain.
pub(super) fn key_hash(key: &[u8]) -> u32 {
    xxh3_64(key) as u32
}

/// All of a file.
#[derive(Debug, Default)]
pub(super) struct WideTable(Vec<Wide>);

impl WideTable {
    /// Adds the next.
    pub(super) fn push(&mut self, wide: Wide) {
        assert!(self.0.last().is_none_or(|last| last.token <= wide.token), "partitions ascend");
        let follows = self.0.last().is_none_or(|last| last.last_block < wide.first_block);
        assert!(follows && wide.first_block < wide.last_block, "a wide partition begins a block");
        self.0.push(wide);
    }

    /// The partition, if it is wide.
    pub(super) fn find(&self, token: Token, key: &[u8]) -> Option<&Wide> {
        let first = self.0.partition_point(|wide| wide.token < token);
        let mut same = self.0[first..].iter().take_while(|wide| wide.token == token).peekable();
        same.peek()?;
        let key_hash = key_hash(key);
        same.find(|wide| wide.key_hash == key_hash)
    }

    /// The partition that begins in `block`, if it is wide.
    pub(super) fn beginning_in(&self, block: usize) -> Option<&Wide> {
        let index = self.0.binary_search_by_key(&block, |wide| wide.first_block as usize).ok()?;
        Some(&self.0[index])
    }

    /// The partition that has entries in `block`, if it is wide.
    pub(super) fn around(&self, block: usize) -> Option<&Wide> {
        let index = self.0.partition_point(|wide| wide.first_block as usize <= block);
        let wide = &self.0[index.checked_sub(1)?];
        (block <= wide.last_block as usize).then_some(wide)
    }

    /// Of the blocks from `low` to `high` those between wide partitions in which a partition may begin that is the first
    /// at or above `token`.
    pub(super) fn narrow(&self, token: Token, low: usize, high: usize) -> (usize, usize) {
        let index = self.0.partition_point(|wide| wide.token < token);
        let below = index.checked_sub(1).map_or(0, |index| self.0[index].last_block as usize);
        let above = self.0.get(index).map_or(usize::MAX, |wide| wide.first_block as usize);
        (low.max(below.min(high)), high.min(above.max(low)))
    }

    /// Bytes in memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.len() * size_of::<Wide>()
    }

    /// Appends the form on disk.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for wide in &self.0 {
            out.extend_from_slice(&wide.token.0.to_le_bytes());
            out.extend_from_slice(&wide.key_hash.to_le_bytes());
            out.extend_from_slice(&wide.first_block.to_le_bytes());
            out.extend_from_slice(&wide.root.offset.to_le_bytes());
            out.extend_from_slice(&wide.root.bytes.to_le_bytes());
        }
    }

    /// Reads the form on disk, of a file with these blocks and so many bytes of index.
    pub(super) fn decode(
        bytes: &[u8],
        directory: &Directory,
        index: u64,
    ) -> Result<WideTable, &'static str> {
        let mut cursor = Cursor::new(bytes);
        let mut all = Vec::new();
        while !cursor.is_empty() {
            let mut wide = read(&mut cursor).map_err(|_| "wide table ends early")?;
            let last: Option<&Wide> = all.last();
            let ascends = last
                .is_none_or(|last| last.token <= wide.token && last.last_block < wide.first_block);
            let end = wide.root.offset.checked_add(wide.root.bytes.into());
            let first = wide.first_block as usize;
            if !ascends || first >= directory.blocks() || end.is_none_or(|end| end > index) {
                return Err("wide table");
            }
            wide.last_block = directory.run_end(first) as u32;
            all.push(wide);
        }
        Ok(WideTable(all))
    }
}

fn read(cursor: &mut Cursor<'_>) -> model::Result<Wide> {
    Ok(Wide {
        token: Token(cursor.i64()?),
        key_hash: cursor.u32()?,
        first_block: cursor.u32()?,
        last_block: 0,
        root: NodeRef { offset: cursor.u64()?, bytes: cursor.u32()? },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::directory::DirectoryBuilder;
    use super::*;

    /// Blocks, of which each tenth begins a partition of ten.
    fn directory(blocks: usize) -> Directory {
        let mut builder = DirectoryBuilder::default();
        for block in 0..blocks {
            builder.push(Token(block as i64), block % 10 > 0, 0);
        }
        builder.finish(7)
    }

    #[test]
    fn keys_of_one_token_are_told_apart() {
        let mut table = WideTable::default();
        let wide = |token, key: &[u8], block| Wide {
            token: Token(token),
            key_hash: key_hash(key),
            first_block: block,
            last_block: block + 9,
            root: NodeRef { offset: 0, bytes: 9 },
        };
        let all = [wide(1, b"a", 0), wide(5, b"b", 10), wide(5, b"c", 20), wide(6, b"d", 30)];
        all.iter().for_each(|wide| table.push(*wide));
        let mut bytes = Vec::new();
        table.encode(&mut bytes);
        let table = WideTable::decode(&bytes, &directory(40), 9).unwrap();
        assert_eq!(table.0, all, "where they end is found again");
        assert_eq!(table.find(Token(5), b"c"), Some(&all[2]));
        assert_eq!(table.find(Token(5), b"x"), None);
        assert_eq!(table.find(Token(4), b"b"), None);
        assert_eq!(table.beginning_in(10), Some(&all[1]));
        assert_eq!(table.beginning_in(11), None);
        assert_eq!(table.around(9), Some(&all[0]));
        assert_eq!(table.around(10), Some(&all[1]));
        assert_eq!(table.around(40), None);
        assert_eq!(table.narrow(Token(5), 0, 39), (9, 10));
        assert_eq!(table.narrow(Token(6), 0, 39), (29, 30));
        assert_eq!(table.narrow(Token(7), 0, 50), (39, 50));
        assert_eq!(table.narrow(Token(1), 0, 39), (0, 0));
        assert_eq!(table.narrow(Token(6), 31, 33), (31, 31), "never outside");
        assert!(WideTable::decode(&bytes, &directory(30), 9).is_err());
        assert!(WideTable::decode(&bytes, &directory(40), 8).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = WideTable::decode(&bytes, &directory(100), 100);
        }
    }
}
