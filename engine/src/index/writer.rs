//! Writes an index file in one pass, from terms and places in order.
//!
//! ```text
//! (term, place)… ─► postings of the term: short ones in its entry, long ones in blocks with a list of them
//!                ─► entry ─► block of terms ─► frame; its first term ─► directory (`directory.rs`)
//! ```
//!
//! Memory is a block of terms, a block of postings, a few bytes for each block of postings of the term in hand, and for
//! each node of the directory.

use model::Token;
use model::bytes::{put_bytes, put_varint};

use super::directory::{DirectoryBuilder, hash_of};
use super::footer::{FOOTER_BYTES, Footer};
use super::place::Place;
use crate::error::Result;
use crate::limits::{INDEX_BLOCK_BYTES, WRITE_ALIGN_BYTES};
use crate::sstable::frame::{Framer, Kind, seal};
use crate::sstable::output::Output;
use crate::sstable::row_index::separator;
use crate::sstable::slots::SlotsBuilder;
use crate::sstable::{Codec, Filter, Shape, digest};

/// The postings of a term that are longer stand in blocks of their own.
const INLINE_BYTES_MAX: usize = 256;

/// A block of fewer terms has no filter, nor one of which each term has more places: that is in most files.
const FILTERED_TERMS_MIN: usize = 64;
const FILTERED_PLACES_MAX: u64 = 8;
/// How often a filter is wrong about a term that its block has not: one more block is read then.
const FILTER_FP_CHANCE: f64 = 0.01;

/// The filter of the terms of a block, which have so many places, if it gets one.
fn filter_of(hashes: &[Token], places: u64, shape: Option<Shape>) -> Option<Filter> {
    let is_worth =
        hashes.len() >= FILTERED_TERMS_MIN && places <= hashes.len() as u64 * FILTERED_PLACES_MAX;
    Some(Filter::of(hashes, shape.filter(|_| is_worth)?))
}

/// An index file being written.
pub(super) struct IndexWriter {
    output: Output,
    framer: Framer,
    seed: u64,
    digest: u64,
    raw: Vec<u8>,
    /// The block of terms in hand, and how many postings there were before it.
    block: SlotsBuilder,
    block_first: Vec<u8>,
    /// The hashes of its terms, and the shape of a filter of them.
    block_hashes: Vec<Token>,
    filter_shape: Option<Shape>,
    postings_before: u64,
    /// The last term of the block before, and the last that is in a block.
    block_last: Vec<u8>,
    last_term: Vec<u8>,
    directory: DirectoryBuilder,
    terms: u64,
    postings: u64,
    term: Vec<u8>,
    list: List,
}

/// The postings of the term in hand.
#[derive(Default)]
struct List {
    count: u64,
    /// Of the block in hand.
    bytes: Vec<u8>,
    first: Place,
    last: Place,
    /// The blocks that are written.
    skips: SlotsBuilder,
}

impl IndexWriter {
    pub(super) fn new(output: Output, seed: u64) -> IndexWriter {
        IndexWriter {
            output,
            framer: Framer::new(Codec::Lz4),
            seed,
            digest: 0,
            raw: Vec::new(),
            block: SlotsBuilder::default(),
            block_first: Vec::new(),
            block_hashes: Vec::new(),
            filter_shape: Shape::new(FILTER_FP_CHANCE),
            postings_before: 0,
            block_last: Vec::new(),
            last_term: Vec::new(),
            directory: DirectoryBuilder::default(),
            terms: 0,
            postings: 0,
            term: Vec::new(),
            list: List::default(),
        }
    }

    /// Adds a place of a term. Terms ascend, and of one the places; the same place twice is once.
    pub(super) fn add(&mut self, term: &[u8], place: Place) {
        if self.list.count == 0 || self.term != term {
            assert!(self.list.count == 0 || *self.term < *term, "terms ascend");
            self.end_term();
            self.term.clear();
            self.term.extend_from_slice(term);
        } else if self.list.last == place {
            return;
        }
        let list = &mut self.list;
        list.count += 1;
        if list.bytes.is_empty() {
            (list.first, list.last) = (place, Place::default());
        }
        place.put(list.last, &mut list.bytes);
        list.last = place;
        if list.bytes.len() >= INDEX_BLOCK_BYTES {
            self.end_postings();
        }
    }

    /// Whether [`drain`](Self::drain) has something to write.
    pub(super) fn is_full(&self) -> bool {
        self.output.is_full()
    }

    /// Writes what fills whole pieces.
    pub(super) async fn drain(&mut self) -> Result<()> {
        self.output.drain().await
    }

    /// Ends the file: `footer` says whose it is.
    pub(super) async fn finish(mut self, footer: Footer) -> Result<()> {
        self.end_term();
        if !self.block.is_empty() {
            self.end_block();
        }
        self.end_node(true);
        let (blocks, has_nodes) = (self.directory.blocks(), self.directory.has_nodes());
        let directory_offset = self.output.offset();
        if !self.directory.is_empty() {
            self.raw.clear();
            self.directory.root(&mut self.raw);
            self.put_frame(Kind::TermDirectory);
        }
        let directory_bytes = (self.output.offset() - directory_offset) as u32;
        let (terms, postings, digest) = (self.terms, self.postings, self.digest);
        let footer = Footer {
            terms,
            postings,
            blocks,
            has_nodes,
            digest,
            directory_offset,
            directory_bytes,
            ..footer
        };
        let end =
            (self.output.offset() as usize + FOOTER_BYTES).next_multiple_of(WRITE_ALIGN_BYTES);
        let offset = (end - FOOTER_BYTES) as u64;
        let zeros = (offset - self.output.offset()) as usize;
        let staged = self.output.staged();
        staged.resize(staged.len() + zeros, 0);
        staged.extend_from_slice(&footer.encode(self.seed, offset));
        self.output.finish().await.map(drop)
    }

    /// Gives up and removes what was written.
    pub(super) async fn abandon(self) -> Result<()> {
        self.output.abandon().await
    }

    /// Ends the term in hand, if there is one.
    fn end_term(&mut self) {
        if self.list.count == 0 {
            return;
        }
        let is_long = !self.list.skips.is_empty() || self.list.bytes.len() > INLINE_BYTES_MAX;
        let mut skips = (0, 0);
        if is_long {
            if !self.list.bytes.is_empty() {
                self.end_postings();
            }
            self.raw.clear();
            self.list.skips.finish(self.list.skips.count(), &mut self.raw);
            skips = self.put_frame(Kind::Skips);
        }
        let entry_bytes = self.term.len() + self.list.bytes.len();
        if !self.block.is_empty() && self.block.bytes() + entry_bytes > INDEX_BLOCK_BYTES {
            self.end_block();
        }
        if self.block.is_empty() {
            self.block_first.clone_from(&self.term);
            self.postings_before = self.postings;
        }
        let (term, list) = (&self.term, &self.list);
        let write = |out: &mut Vec<u8>| {
            put_bytes(out, term);
            put_varint(out, list.count);
            if is_long {
                put_varint(out, skips.0);
                put_varint(out, skips.1);
            } else {
                out.extend_from_slice(&list.bytes);
            }
        };
        match is_long {
            true => self.block.marked_item(write),
            false => self.block.item(write),
        }
        self.block_hashes.push(hash_of(&self.term));
        self.last_term.clone_from(&self.term);
        self.terms += 1;
        self.postings += self.list.count;
        self.list.count = 0;
        self.list.bytes.clear();
    }

    /// Ends a block of the postings of a term.
    fn end_postings(&mut self) {
        let mut items = SlotsBuilder::default();
        items.item(|out| out.extend_from_slice(&self.list.bytes));
        self.raw.clear();
        items.finish(1, &mut self.raw);
        let (offset, bytes) = self.put_frame(Kind::Postings);
        let first = self.list.first;
        self.list.skips.item(|out| {
            first.put(Place::default(), out);
            put_varint(out, offset);
            put_varint(out, bytes);
        });
        self.list.bytes.clear();
    }

    fn end_block(&mut self) {
        self.raw.clear();
        self.block.finish(self.block.count(), &mut self.raw);
        let (offset, bytes) = self.put_frame(Kind::Terms);
        let (first, before) = (&self.block_first, self.postings_before);
        let from =
            if self.directory.is_empty() { &[][..] } else { separator(&self.block_last, first) };
        let places = self.postings - self.postings_before;
        let filter = filter_of(&self.block_hashes, places, self.filter_shape);
        self.block_hashes.clear();
        self.directory.block(from, (offset, bytes), before, filter.as_ref());
        if self.directory.is_node_full() {
            self.end_node(false);
        }
        // The term in hand goes into the next block.
        self.block_last.clone_from(&self.last_term);
    }

    /// Ends a node of the directory, if there is one in hand.
    fn end_node(&mut self, is_end: bool) {
        self.raw.clear();
        if self.directory.node(is_end, &mut self.raw) {
            let place = self.put_frame(Kind::TermDirectory);
            self.directory.node_is_at(place);
        }
    }

    /// Whether the file cannot be made, for its directory would be too long.
    pub(super) fn is_too_long(&self) -> bool {
        self.directory.is_too_long()
    }

    /// Stages `raw` as a sealed frame; gives where it is and how long.
    fn put_frame(&mut self, kind: Kind) -> (u64, u64) {
        let offset = self.output.offset();
        let staged = self.output.staged();
        let from = staged.len();
        self.framer.put(kind, &self.raw, staged);
        let checksum = seal(&mut staged[from..], self.seed, offset);
        self.digest = digest(self.digest, checksum);
        (offset, self.output.offset() - offset)
    }
}
