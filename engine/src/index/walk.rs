//! Goes through the terms of an index file, and counts what a range of them leads to.
//!
//! 1. `seek` asks the directory for the block that holds the term, takes that block unless it is in hand, and finds the
//!    first term that is not below by binary search. `next` goes on, over the ends of blocks.
//! 2. `postings` gives the places of the term on which the walk stands: from its entry, or, if there are many, from
//!    blocks of their own. `offer_inline` goes over several terms at once whose places stand in their entries.
//! 3. `count` estimates how many places a range of terms has. Of whole blocks the directory knows the number
//!    (`before`). Of the first and the last block terms are counted one by one, or by proportion if they are more than
//!    `COUNTED_TERMS_MAX`.
//!
//! Invariants
//! 1. Terms ascend by their bytes (`memcmp`), over all blocks of the file.
//! 2. `may_have` is never wrong when it says no. `count` may be wrong, but is at most the number of postings of the
//!    file.
//! 3. One block of terms is in hand at a time.
//!
//! Not here: what a term is made of (`model/src/schema/index.rs`, `vectors.rs`), how the ranges of a lookup are chosen
//! by their counts (`read/lookup_cost.rs`), how places become candidates (`read/candidates.rs`).

use std::rc::Rc;

use model::bytes::Cursor;
use model::read::Slice;

use super::file::IndexFile;
use super::place::Place;
use super::postings::PostingList;
use crate::error::Result;
use crate::sstable::Reading;
use crate::sstable::frame::Kind;
use crate::sstable::slots::Slots;

/// The places of so many terms of a block are counted term by term.
const COUNTED_TERMS_MAX: usize = 64;

/// Stands on a term, or before the first.
pub(crate) struct TermWalk {
    file: Rc<IndexFile>,
    reading: Reading,
    /// The block in hand, and the term in it.
    block: Option<(usize, Rc<Slots>)>,
    at: usize,
}

/// Whether a range of terms is that of one term: it ends at the term and a zero byte.
pub(crate) fn is_one_term(range: &Slice) -> bool {
    range.end.split_last() == Some((&0, range.start.as_slice()))
}

/// A term and what stands behind it.
struct Entry<'a> {
    term: &'a [u8],
    count: u64,
    /// Where its postings begin in the item.
    at: usize,
}

impl TermWalk {
    pub(crate) fn new(file: &Rc<IndexFile>, reading: Reading) -> TermWalk {
        TermWalk { file: file.clone(), reading, block: None, at: 0 }
    }

    fn entry<'s>(&self, slots: &'s Slots, at: usize) -> Result<Entry<'s>> {
        let damaged = |_| self.file.corrupt(0, "a block of terms");
        let item = slots.item(at);
        let mut cursor = Cursor::new(item);
        let term = cursor.bytes().map_err(damaged)?;
        let count = cursor.varint().map_err(damaged)?;
        Ok(Entry { term, count, at: item.len() - cursor.rest().len() })
    }

    async fn take_block(&mut self, number: usize) -> Result<()> {
        let block = self.file.block(number, self.reading).await?;
        let place = (block.offset, block.bytes);
        let slots = self.file.slots(place, Kind::Terms, self.reading).await?;
        (self.block, self.at) = (Some((number, slots)), 0);
        Ok(())
    }

    /// Whether the file may have a term of this range; never wrong when it says no. It is asked of ranges of one term,
    /// which cost no block of terms then; of others it says yes.
    pub(crate) async fn may_have(&self, range: &Slice) -> Result<bool> {
        match is_one_term(range) {
            true => self.file.may_have(&range.start, self.reading).await,
            false => Ok(true),
        }
    }

    /// Whether it goes through this file.
    pub(crate) fn is_of(&self, file: &Rc<IndexFile>) -> bool {
        Rc::ptr_eq(&self.file, file)
    }

    /// Whether it was at a term, or behind the last: [`normalize`](Self::normalize) says which.
    pub(crate) fn has_begun(&self) -> bool {
        self.block.is_some()
    }

    /// Goes to the first term that is not below this one; whether there is one.
    pub(crate) async fn seek(&mut self, term: &[u8]) -> Result<bool> {
        if self.file.blocks() == 0 {
            return Ok(false);
        }
        let number = self.file.block_of(term, self.reading).await?;
        if self.block.as_ref().is_none_or(|(other, _)| *other != number) {
            self.take_block(number).await?;
        }
        let (_, slots) = self.block.as_ref().expect("it was just taken");
        self.at = self.position(slots, term)?;
        self.normalize().await
    }

    /// How many terms of a block are below this one.
    fn position(&self, slots: &Slots, term: &[u8]) -> Result<usize> {
        let (mut low, mut high) = (0, slots.count());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(slots, middle)?.term < term {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Goes to the next term; whether there is one.
    pub(crate) async fn next(&mut self) -> Result<bool> {
        self.at += 1;
        self.normalize().await
    }

    /// Goes on to the next block if all terms of the one in hand are passed; whether it stands on a term.
    pub(crate) async fn normalize(&mut self) -> Result<bool> {
        let Some((number, slots)) = &self.block else { return Ok(false) };
        if self.at < slots.count() {
            return Ok(true);
        }
        let next = number + 1;
        if next >= self.file.blocks() {
            return Ok(false);
        }
        self.take_block(next).await?;
        Ok(true)
    }

    fn here(&self) -> Result<Entry<'_>> {
        let (_, slots) = self.block.as_ref().expect("it stands on a term");
        self.entry(slots, self.at)
    }

    /// The term on which it stands.
    pub(crate) fn term(&self) -> Result<&[u8]> {
        Ok(self.here()?.term)
    }

    /// Whether the term is below this one.
    pub(crate) fn is_below(&self, end: &[u8]) -> Result<bool> {
        Ok(self.here()?.term < end)
    }

    /// The places of the term.
    pub(crate) async fn postings(&self) -> Result<PostingList> {
        let (_, slots) = self.block.as_ref().expect("it stands on a term");
        let entry = self.entry(slots, self.at)?;
        let (at, item) = (entry.at, slots.item(self.at));
        if !slots.is_marked(self.at) {
            let slots = (slots.clone(), self.at);
            return Ok(PostingList::inline(&self.file, self.reading, slots, at));
        }
        let damaged = |_| self.file.corrupt(0, "a block of terms");
        let mut cursor = Cursor::new(&item[at..]);
        let offset = cursor.varint().map_err(damaged)?;
        let bytes = cursor.varint().map_err(damaged)? as usize;
        let skips = self.file.slots((offset, bytes), Kind::Skips, self.reading).await?;
        Ok(PostingList::in_blocks(&self.file, self.reading, skips))
    }

    /// Offers the places between two of the next terms below `end`, as far as these stand in the block in hand with their
    /// places beside them, and passes these terms: up to `places_max` places, and the rest of a term. Gives how many
    /// terms and places those are; [`normalize`](Self::normalize) goes on. No term: the next one has blocks of places,
    /// or is not below `end`. A term is left when one of its places is not taken.
    pub(crate) fn offer_inline(
        &mut self,
        end: &[u8],
        (from, to): (Place, Place),
        places_max: usize,
        mut offer: impl FnMut(Place) -> bool,
    ) -> Result<(usize, usize)> {
        let (_, slots) = self.block.as_ref().expect("it stands on a term");
        let (first, mut at, mut places) = (self.at, self.at, 0);
        while at < slots.count() && places < places_max && !slots.is_marked(at) {
            let entry = self.entry(slots, at)?;
            if entry.term >= end {
                break;
            }
            let mut cursor = Cursor::new(&slots.item(at)[entry.at..]);
            let mut place = Place::default();
            while !cursor.is_empty() {
                place =
                    Place::read(place, &mut cursor).map_err(|what| self.file.corrupt(0, what))?;
                places += 1;
                if place >= from && (place > to || !offer(place)) {
                    break;
                }
            }
            at += 1;
        }
        self.at = at;
        Ok((at - first, places))
    }

    /// About how many places these terms have: the directory says how many those of a block have, and of a part of a
    /// block all terms are taken to have as many, unless they are few.
    pub(crate) async fn count(&mut self, range: &Slice) -> Result<u64> {
        let is_there = self.may_have(range).await? && self.seek(&range.start).await?;
        if !is_there || !self.is_below(&range.end)? {
            return Ok(0);
        }
        if is_one_term(range) {
            return Ok(self.here()?.count.min(self.file.postings()));
        }
        let (from, last) = (self.at, self.file.block_of(&range.end, self.reading).await?);
        let (first, slots) = self.block.clone().expect("it stands on a term");
        let mut count = 0;
        let begin = match first >= last {
            true => from,
            false => {
                count = self.count_part(first, &slots, (from, slots.count())).await?;
                let (inner, to) = (self.before(first + 1).await?, self.before(last).await?);
                count = count.saturating_add(to.saturating_sub(inner));
                self.take_block(last).await?;
                0
            }
        };
        let (number, slots) = self.block.clone().expect("it was just taken");
        let end = self.position(&slots, &range.end)?;
        count = count.saturating_add(self.count_part(number, &slots, (begin, end)).await?);
        Ok(count.min(self.file.postings()))
    }

    /// How many places all terms before a block have; of all blocks, if there is none of this number.
    async fn before(&self, block: usize) -> Result<u64> {
        match block < self.file.blocks() {
            true => Ok(self.file.block(block, self.reading).await?.before),
            false => Ok(self.file.postings()),
        }
    }

    /// About how many places the terms of a part of a block have.
    async fn count_part(
        &self,
        number: usize,
        slots: &Slots,
        (from, to): (usize, usize),
    ) -> Result<u64> {
        let terms = to.saturating_sub(from);
        if terms <= COUNTED_TERMS_MAX {
            let mut count: u64 = 0;
            for at in from..from + terms {
                count = count.saturating_add(self.entry(slots, at)?.count);
            }
            return Ok(count);
        }
        let of_block = self.before(number + 1).await?.saturating_sub(self.before(number).await?);
        let part = u128::from(of_block) * terms as u128 / slots.count() as u128;
        Ok(u64::try_from(part).unwrap_or(u64::MAX))
    }
}
