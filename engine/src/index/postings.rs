//! The places of one term, in order: read a block at a time, and sought by the list of its blocks.
//!
//! ```text
//! short list   entry of a block of terms: place place place
//! long list    skips: (first place, offset, bytes) of each block ─► block: place place …
//! ```
//!
//! 1. `seek`, before the first place is taken, finds by binary search the last block whose first place is not after the
//!    sought one. Without skips nothing is left out here.
//! 2. `next` gives one place after the other, and passes over those before the sought one.
//!
//! Invariants
//! 1. A place is written as its difference from the one before; each block counts from (0, 0), so that it can be read
//!    alone.
//! 2. One block of places is in hand at a time; the skips of a term are in memory as long as its list.
//! 3. What does not decode is `Error::Corrupt` with the name of the index file.
//!
//! Not here: how a list is found (`walk.rs`), how it is written (`writer.rs`), what stands at a place
//! (`sstable/entries.rs`).

use std::rc::Rc;

use model::bytes::Cursor;

use super::file::IndexFile;
use super::place::Place;
use crate::error::Result;
use crate::planted::{Bug, planted};
use crate::sstable::Reading;
use crate::sstable::frame::Kind;
use crate::sstable::slots::Slots;

/// Goes through the places of one term.
pub(crate) struct PostingList {
    file: Rc<IndexFile>,
    reading: Reading,
    /// The list of blocks, if the postings stand in blocks of their own, and the one in hand.
    skips: Option<Rc<Slots>>,
    block: usize,
    /// What is read, and which item of it; then how far, and the place there.
    slots: Option<(Rc<Slots>, usize)>,
    at: usize,
    last: Place,
    /// Places before this one are passed over.
    from: Place,
}

impl PostingList {
    /// Places that stand in an item of a block of terms, from byte `at` of it on.
    pub(super) fn inline(
        file: &Rc<IndexFile>,
        reading: Reading,
        slots: (Rc<Slots>, usize),
        at: usize,
    ) -> PostingList {
        let (slots, last) = (Some(slots), Place::default());
        let from = last;
        PostingList { file: file.clone(), reading, skips: None, block: 0, slots, at, last, from }
    }

    /// Places in blocks of their own.
    pub(super) fn in_blocks(
        file: &Rc<IndexFile>,
        reading: Reading,
        skips: Rc<Slots>,
    ) -> PostingList {
        let (skips, last) = (Some(skips), Place::default());
        let (file, from) = (file.clone(), last);
        PostingList { file, reading, skips, block: 0, slots: None, at: 0, last, from }
    }

    /// Before the first place is taken: passes over those before `place`.
    pub(crate) fn seek(&mut self, place: Place) -> Result<()> {
        self.from = place;
        let Some(skips) = &self.skips else { return Ok(()) };
        let (mut low, mut high) = (0, skips.count() - 1);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if self.skip(skips, middle)?.0 <= place {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        let skipped = usize::from(planted(Bug::IndexSkipsPostings) && low + 1 < skips.count());
        self.block = low + skipped;
        Ok(())
    }

    /// The first place of a block, and where the block is.
    fn skip(&self, skips: &Slots, block: usize) -> Result<(Place, u64, usize)> {
        let mut cursor = Cursor::new(skips.item(block));
        let damaged = || self.file.corrupt(0, "a list of postings");
        let first = Place::read(Place::default(), &mut cursor).map_err(|_| damaged())?;
        let offset = cursor.varint().map_err(|_| damaged())?;
        let bytes = cursor.varint().map_err(|_| damaged())?;
        Ok((first, offset, bytes as usize))
    }

    /// The next place, if there is one.
    pub(crate) async fn next(&mut self) -> Result<Option<Place>> {
        loop {
            let Some(place) = self.step().await? else { return Ok(None) };
            if place >= self.from {
                return Ok(Some(place));
            }
        }
    }

    async fn step(&mut self) -> Result<Option<Place>> {
        loop {
            if let Some((slots, item)) = &self.slots {
                let mut cursor = Cursor::new(&slots.item(*item)[self.at..]);
                if !cursor.is_empty() {
                    let place = Place::read(self.last, &mut cursor);
                    self.last = place.map_err(|what| self.file.corrupt(0, what))?;
                    self.at = slots.item(*item).len() - cursor.rest().len();
                    return Ok(Some(self.last));
                }
            }
            let Some(skips) = &self.skips else { return Ok(None) };
            if self.block == skips.count() {
                return Ok(None);
            }
            let (_, offset, bytes) = self.skip(skips, self.block)?;
            let slots = self.file.slots((offset, bytes), Kind::Postings, self.reading).await?;
            self.block += 1;
            (self.slots, self.at, self.last) = (Some((slots, 0)), 0, Place::default());
        }
    }
}
