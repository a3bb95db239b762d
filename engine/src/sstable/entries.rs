//! Single entries of a file by their places, and places by what is sought: for indexes beside the file.
//!
//! ```text
//! named            place (block, entry)  ─► token, key, clustering
//! place_of         key, clustering       ─► a place before what the partition has at or after that clustering
//! end_of_wide      key, place            ─► the last block of a partition of many blocks, if it is beyond the place
//! place_behind     token                 ─► a place after all that the file has of tokens up to this one
//! rows_of_blocks   key, slices           ─► about how many rows
//! ```
//!
//! 1. Places order as what is there: by token, key and clustering. So a range of tokens or of clusterings is a range of
//!    places, and the postings of an index are cut to it without a read of data blocks.
//! 2. A place that is found by a key or a token is that of a block, not of an entry: the caller judges each entry that
//!    it reads.
//! 3. A place that the file cannot have is `None` and no error: then the index is not of this file.
//! 4. `named` notes where the partition of the entry stands, since the caller reads the row next (`cursor/find.rs`).
//!
//! Not here: where places come from (`index/postings.rs`), what becomes of the entries (`read/candidates.rs`).

use std::cmp::Ordering;

use model::Token;
use model::bytes::compare;
use model::read::Slice;

use super::block::{Block, Inner};
use super::file::{HeadPlace, Reading, Sstable};
use super::frame::Kind;
use super::row_index::{Found, search};
use super::wide::Wide;
use crate::error::Result;
use crate::index::Place;
use crate::limits::INDEX_LEVELS_MAX;
use crate::planted::{Bug, planted};

/// Slices whose blocks are counted; so many more are taken to be like them.
const SLICES_COUNTED: usize = 8;

/// An entry that an index names.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) token: Token,
    pub(crate) key: Vec<u8>,
    /// The row; `None`: all of the partition.
    pub(crate) clustering: Option<Vec<u8>>,
}

impl Named {
    /// Whether it is a partition, or a row of it.
    pub(crate) fn is_of(&self, token: Token, key: &[u8]) -> bool {
        self.token == token && self.key == key
    }
}

impl Clone for Named {
    fn clone(&self) -> Named {
        let Named { token, key, clustering } = self;
        Named { token: *token, key: key.clone(), clustering: clustering.clone() }
    }

    /// Into the memory that is there.
    fn clone_from(&mut self, other: &Named) {
        self.token = other.token;
        self.key.clone_from(&other.key);
        self.clustering.clone_from(&other.clustering);
    }
}

impl Ord for Named {
    /// By token, key and clustering; all of the partition comes before its rows.
    #[inline]
    fn cmp(&self, other: &Named) -> Ordering {
        let of_row = || match (&self.clustering, &other.clustering) {
            (Some(own), Some(others)) => compare(own, others),
            (own, others) => own.is_some().cmp(&others.is_some()),
        };
        let of_key = || compare(&self.key, &other.key);
        self.token.cmp(&other.token).then_with(of_key).then_with(of_row)
    }
}

impl PartialOrd for Named {
    fn partial_cmp(&self, other: &Named) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Named {
    fn eq(&self, other: &Named) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Named {}

impl Sstable {
    /// What is at a place that an index of the file names; `None` if no entry can be there: the index is not of this file.
    pub(crate) async fn named(&self, place: Place, reading: Reading) -> Result<Option<Named>> {
        let (number, entry) = (place.block as usize, place.entry as usize);
        if number >= self.directory.blocks() {
            return Ok(None);
        }
        let slots = self.slots(self.directory.frame(number), Kind::Data, reading).await?;
        let damaged = |what| self.corrupt(self.directory.frame(number).0, what);
        let block = Block::new(&slots);
        let head_at = (0..=entry.min(block.count() - 1)).rev().find(|at| block.is_head(*at));
        let Some(head_at) = head_at.filter(|_| entry < block.count()) else { return Ok(None) };
        let head = block.head(head_at).map_err(damaged)?;
        let clustering = match head_at == entry {
            true => None,
            false => match block.inner(entry).map_err(damaged)? {
                Inner::Row(row) => Some(row.clustering.to_vec()),
                Inner::Bound(_) => return Ok(None),
            },
        };
        let [last, _] = self.named_last.get();
        let named = HeadPlace { token: head.token, block: number, entry: head_at };
        self.named_last.set([Some(named), last]);
        Ok(Some(Named { token: head.token, key: head.key.to_vec(), clustering }))
    }

    /// Bytes in the file of the block that has a place; 0 if no block can.
    pub(crate) fn block_bytes(&self, place: Place) -> usize {
        let number = place.block as usize;
        if number < self.directory.blocks() { self.directory.frame(number).1 } else { 0 }
    }

    /// A place before which the file has nothing of what is at or after this clustering of a partition.
    pub(crate) async fn place_of(
        &self,
        (token, key): (Token, &[u8]),
        clustering: &[u8],
        reading: Reading,
    ) -> Result<Place> {
        let block = match self.wide_of(token, key, reading).await? {
            Some(wide) => self.block_of(wide, clustering, reading).await?,
            None => {
                let block = self.directory.candidates(token).0;
                u32::try_from(block).expect("a file has fewer blocks")
            }
        };
        Ok(Place { block, entry: 0 })
    }

    /// The block of a wide partition in which a clustering is, or would be.
    async fn block_of(&self, wide: &Wide, clustering: &[u8], reading: Reading) -> Result<u32> {
        let (mut node, mut block) = (wide.root, wide.first_block as usize);
        for _ in 0..INDEX_LEVELS_MAX {
            let frame = self.node_frame(node)?;
            let slots = self.slots(frame, Kind::RowIndex, reading).await?;
            match search(&slots, clustering).map_err(|what| self.corrupt(frame.0, what))? {
                Found::Node(child) => node = child,
                Found::Block(ordinal) => {
                    block = block.saturating_add(ordinal);
                    break;
                }
            }
        }
        // Of the same token another partition may stand before the wide one.
        let block = block.min(wide.last_block as usize);
        Ok(u32::try_from(block).expect("a file has fewer blocks"))
    }

    /// About how many rows are in the blocks of these slices of a partition; none if it does not take several.
    pub(crate) async fn rows_of_blocks(
        &self,
        (token, key): (Token, &[u8]),
        slices: &[Slice],
        reading: Reading,
    ) -> Result<u64> {
        let Some(wide) = self.wide_of(token, key, reading).await? else { return Ok(0) };
        let (first, last) = (wide.first_block, wide.last_block);
        let mut blocks = 0;
        for slice in slices.iter().take(SLICES_COUNTED) {
            blocks += match *slice == Slice::all() {
                true => u64::from(last.saturating_sub(first)) + 1,
                false => {
                    let from = self.block_of(wide, &slice.start, reading).await?;
                    let to = self.block_of(wide, &slice.end, reading).await?;
                    u64::from(to.saturating_sub(from)) + 1
                }
            };
        }
        let counted = slices.len().clamp(1, SLICES_COUNTED) as u64;
        blocks = blocks.saturating_mul(slices.len() as u64) / counted;
        let rows = self.statistics().rows.saturating_mul(blocks);
        Ok(rows / self.directory.blocks().max(1) as u64)
    }

    /// The last block of a wide partition, if it is beyond a place; without a read if it is not.
    pub(crate) async fn end_of_wide(
        &self,
        (token, key): (Token, &[u8]),
        beyond: Place,
        reading: Reading,
    ) -> Result<Option<Place>> {
        let last = |wide: &Wide| Place { block: wide.last_block, entry: 0 };
        if self.wide.find(token, key).is_none_or(|wide| last(wide) <= beyond) {
            return Ok(None);
        }
        Ok(self.wide_of(token, key, reading).await?.map(last))
    }

    /// The wide partition of a key. The table has hashes, so the key is compared where the partition begins.
    async fn wide_of(&self, token: Token, key: &[u8], reading: Reading) -> Result<Option<&Wide>> {
        let Some(wide) = self.wide.find(token, key) else { return Ok(None) };
        let frame = self.directory.frame(wide.first_block as usize);
        let slots = self.slots(frame, Kind::Data, reading).await?;
        let head = Block::new(&slots).head(0).map_err(|what| self.corrupt(frame.0, what))?;
        Ok((head.key == key).then_some(wide))
    }

    /// A place behind all that the file has of tokens up to this one.
    pub(crate) fn place_behind(&self, token: Token) -> Place {
        let block = self.directory.candidates(token).1;
        let mut last = self.run_end(block);
        if planted(Bug::LookupEndsEarly) {
            last = last.saturating_sub(1);
        }
        Place { block: u32::try_from(last).expect("a file has fewer blocks"), entry: u32::MAX }
    }
}
