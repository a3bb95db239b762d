//! Goes through the terms of an index file, and counts what a range of them leads to.

use std::rc::Rc;

use model::bytes::Cursor;
use model::read::Slice;

use super::file::IndexFile;
use super::postings::PostingList;
use crate::error::Result;
use crate::sstable::Reading;
use crate::sstable::frame::Kind;
use crate::sstable::slots::Slots;

/// Stands on a term, or before the first.
pub(crate) struct TermWalk {
    file: Rc<IndexFile>,
    reading: Reading,
    /// The block in hand, and the term in it.
    block: Option<(usize, Rc<Slots>)>,
    at: usize,
}

/// Whether a range of terms has one.
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
        let (mut low, mut high) = (0, slots.count());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(slots, middle)?.term < term {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.at = low;
        self.normalize().await
    }

    /// Goes to the next term; whether there is one.
    pub(crate) async fn next(&mut self) -> Result<bool> {
        self.at += 1;
        self.normalize().await
    }

    async fn normalize(&mut self) -> Result<bool> {
        let Some((number, slots)) = &self.block else { return Ok(false) };
        if self.at < slots.count() {
            return Ok(true);
        }
        let next = number + 1;
        if next == self.file.blocks() {
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

    /// About how many places these terms have: those in the first and the last block are counted, those of the blocks
    /// between stand in the directory.
    pub(crate) async fn count(&mut self, range: &Slice) -> Result<u64> {
        let mut count: u64 = 0;
        if !self.may_have(range).await? {
            return Ok(0);
        }
        let mut is_there = self.seek(&range.start).await?;
        let last = self.file.block_of(&range.end, self.reading).await?;
        while is_there && self.is_below(&range.end)? {
            count = count.saturating_add(self.here()?.count);
            let (number, _) = self.block.as_ref().expect("it stands on a term");
            let begins_block = self.at == 0;
            if begins_block && *number < last {
                // All of the blocks up to the last are in the range.
                count -= self.here()?.count;
                let from = self.file.block(*number, self.reading).await?;
                let to = self.file.block(last, self.reading).await?;
                count = count.saturating_add(to.before.saturating_sub(from.before));
                self.take_block(last).await?;
                continue;
            }
            is_there = self.next().await?;
        }
        Ok(count.min(self.file.postings()))
    }
}
