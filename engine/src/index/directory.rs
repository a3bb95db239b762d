//! The directory of an index file: which block of terms holds a term, and how many postings there are before it.
//!
//! ```text
//! few blocks    root: item of each block
//! many blocks   root: item of each node ─► node: item of each of its blocks
//!               in memory                  by the cache
//! item := from:bytes offset:varint bytes:varint before:varint rest
//! rest := filter            of a block: which terms it may have; or nothing
//!       | first:varint      of a node, which is marked: its first block's number
//! ```
//!
//! `from` is above all terms before the block or node and not above any in it; the first of the file is empty. A filter
//! is that of `sstable/filter.rs`, of the hashes of the terms.

use model::Token;
use model::bytes::{Cursor, put_bytes, put_varint};
use xxhash_rust::xxh3::xxh3_64;

use crate::limits::{TERM_DIRECTORY_BYTES_MAX, TERM_DIRECTORY_NODE_BYTES};
use crate::sstable::Filter;
use crate::sstable::slots::{Slots, SlotsBuilder};

/// Where a block of terms, or a node of the directory, is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Below {
    pub(super) offset: u64,
    pub(super) bytes: usize,
    /// Postings of the blocks before it.
    pub(super) before: u64,
    /// The number of the first block of a node.
    first: u64,
}

/// A directory being written.
#[derive(Default)]
pub(super) struct DirectoryBuilder {
    blocks: u64,
    /// The node in hand; what its item in the root says first, and last.
    node: SlotsBuilder,
    from: Vec<u8>,
    before: u64,
    first: u64,
    root: SlotsBuilder,
}

impl DirectoryBuilder {
    /// Whether there is no block.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    /// How many blocks there are.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Whether there are nodes below the root.
    pub(super) fn has_nodes(&self) -> bool {
        !self.root.is_empty()
    }

    /// Whether the root is longer than one may be.
    pub(super) fn is_too_long(&self) -> bool {
        self.root.bytes() > TERM_DIRECTORY_BYTES_MAX
    }

    /// Adds a block of terms, which is at `offset`.
    pub(super) fn block(
        &mut self,
        from: &[u8],
        (offset, bytes): (u64, u64),
        before: u64,
        filter: Option<&Filter>,
    ) {
        if self.node.is_empty() {
            self.from = from.to_vec();
            (self.before, self.first) = (before, self.blocks);
        }
        self.node.item(|out| {
            put_item(out, from, (offset, bytes), before);
            filter.into_iter().for_each(|filter| filter.encode(out));
        });
        self.blocks += 1;
    }

    /// Whether [`node`](Self::node) is to be called.
    pub(super) fn is_node_full(&self) -> bool {
        self.node.bytes() >= TERM_DIRECTORY_NODE_BYTES
    }

    /// The content of the node in hand, if it is one: at the end of a file without others it is the root.
    pub(super) fn node(&mut self, is_end: bool, out: &mut Vec<u8>) -> bool {
        if self.node.is_empty() || (is_end && !self.has_nodes()) {
            return false;
        }
        self.node.finish(self.node.count(), out);
        true
    }

    /// The node was written there.
    pub(super) fn node_is_at(&mut self, place: (u64, u64)) {
        let (from, before, first) = (&self.from, self.before, self.first);
        self.root.marked_item(|out| {
            put_item(out, from, place, before);
            put_varint(out, first);
        });
    }

    /// The content of the root.
    pub(super) fn root(&mut self, out: &mut Vec<u8>) {
        let root = if self.root.is_empty() { &mut self.node } else { &mut self.root };
        root.finish(root.count(), out);
    }
}

fn put_item(out: &mut Vec<u8>, from: &[u8], (offset, bytes): (u64, u64), before: u64) {
    put_bytes(out, from);
    put_varint(out, offset);
    put_varint(out, bytes);
    put_varint(out, before);
}

/// An item of the root or of a node: its first term at least, and where it leads.
pub(super) fn item(slots: &Slots, at: usize) -> model::Result<(&[u8], Below)> {
    let mut cursor = Cursor::new(slots.item(at));
    let from = cursor.bytes()?;
    let (offset, bytes, before) = (cursor.varint()?, cursor.varint()?, cursor.varint()?);
    let first = if slots.is_marked(at) { cursor.varint()? } else { at as u64 };
    Ok((from, Below { offset, bytes: bytes as usize, before, first }))
}

/// The filter of the terms of a block; without bytes if it has none.
pub(super) fn filter(slots: &Slots, at: usize) -> model::Result<&[u8]> {
    let mut cursor = Cursor::new(slots.item(at));
    cursor.bytes()?;
    for _ in 0..3 {
        cursor.varint()?;
    }
    Ok(if slots.is_marked(at) { &[] } else { cursor.rest() })
}

/// The hash of a term in a filter.
pub(super) fn hash_of(term: &[u8]) -> Token {
    Token(xxh3_64(term) as i64)
}

/// The last item that is not behind what is sought; the first if all are.
pub(super) fn last_not_behind(
    slots: &Slots,
    is_behind: impl Fn(&[u8], &Below) -> bool,
) -> model::Result<usize> {
    let (mut low, mut high) = (0, slots.count().saturating_sub(1));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        let (from, below) = item(slots, middle)?;
        if is_behind(from, &below) {
            high = middle - 1;
        } else {
            low = middle;
        }
    }
    Ok(low)
}

impl Below {
    /// The number of the first block of a node.
    pub(super) fn first(&self) -> usize {
        self.first as usize
    }
}
