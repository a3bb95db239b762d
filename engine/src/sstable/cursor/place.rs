//! From a clustering place to an entry: which block of the run, and where in it.
//!
//! 1. `reaches`: a place that is certainly in the block in hand needs no search.
//! 2. `block_of`: a place that is not after the first of the file, or a partition of one block: the first block. A
//!    place that is after the last of the file: the last block. Else the row index leads from its root to the block; a
//!    partition without a row index has few blocks, among which binary search reads some.
//! 3. `take_block` reads the block and checks that it belongs to the partition in hand.
//! 4. `enter` finds the entry in the block by binary search, and the range deletion there by a walk back to the last
//!    bound, or to where the slice before was entered.
//!
//! Invariants
//! 1. Which range deletion is in force at a place is known from its block alone: the head of a block that goes on with
//!    a partition says it (`open`), and each bound says what holds below and above it.
//! 2. Forward, a bound at the border of a slice is passed by `enter`, and what holds above it is in force.
//! 3. A row index has at most `INDEX_LEVELS_MAX` levels: a longer way through it is `Error::Corrupt`.
//!
//! Not here: the tree of the row index (`row_index.rs`), the entries of a block (`block.rs`), the walk
//! (`sstable/cursor.rs`).

use model::ordered::AFTER;

use super::super::block::{Block, Inner};
use super::super::row_index::{Found, search};
use super::{InBlock, SstableCursor};
use crate::error::Result;
use crate::limits::INDEX_LEVELS_MAX;

impl SstableCursor<'_> {
    /// Goes to the border of a slice; whether a change there is to be shown.
    pub(super) async fn enter(&mut self, border: &[u8]) -> Result<bool> {
        if !self.reaches(border)? {
            let number = self.block_of(border).await?;
            self.take_block(number).await?;
        }
        let InBlock { number, slots, head_at } = self.in_hand();
        let (block, number, head_at) = (Block::new(slots), *number, *head_at);
        let damaged = |what| self.damaged(number, what);
        let mut entry = block.at_or_above(head_at, self.end, border).map_err(damaged)?;
        let stretch = block.open_below(head_at, entry, self.stretch).map_err(damaged)?;
        let mut in_force = stretch.deletion;
        if slots.is_noted()
            && !self.span.reversed
            && entry < self.end
            && let Inner::Bound(bound) = block.inner(entry).map_err(damaged)?
            && bound.at == border
        {
            in_force = bound.above;
            entry += 1;
        }
        (self.entry, self.in_force, self.stretch) = (entry, in_force, Some(stretch));
        Ok(!in_force.is_none())
    }

    /// Whether the place is in the block in hand, for certain.
    fn reaches(&self, at: &[u8]) -> Result<bool> {
        let Some(InBlock { number, slots, head_at }) = &self.block else { return Ok(false) };
        let run = &self.run;
        if !(run.first..=run.last).contains(number) {
            return Ok(false);
        }
        let (block, number, head_at) = (Block::new(slots), *number, *head_at);
        let damaged = |what| self.damaged(number, what);
        if number > run.first && at < block.inner(head_at + 1).map_err(damaged)?.place().0 {
            return Ok(false);
        }
        Ok(number == run.last || at <= block.inner(self.end - 1).map_err(damaged)?.place().0)
    }

    /// The block of the run that holds the place, or would.
    pub(super) async fn block_of(&mut self, at: &[u8]) -> Result<usize> {
        let (first, last) = (self.run.first, self.run.last);
        let [lowest, highest] = self.table.clusterings();
        if at <= lowest || first == last {
            return Ok(first);
        }
        if at > highest || at.first() == Some(&AFTER) {
            return Ok(last);
        }
        let Some(mut node) = self.run.root else { return self.block_by_binary_search(at).await };
        for _ in 0..INDEX_LEVELS_MAX {
            let slots = self.node(node).await?;
            let found = search(&slots, at);
            match found.map_err(|what| {
                self.table.corrupt(self.table.footer().index_offset + node.offset, what)
            })? {
                Found::Node(child) => node = child,
                Found::Block(ordinal) if ordinal <= last - first => return Ok(first + ordinal),
                Found::Block(_) => break,
            }
        }
        Err(self.table.corrupt(self.table.footer().index_offset, "a row index that leads nowhere"))
    }

    async fn block_by_binary_search(&mut self, at: &[u8]) -> Result<usize> {
        let (mut low, mut high) = (self.run.first, self.run.last);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            let slots = self.block(middle).await?;
            let block = Block::new(&slots);
            if block.count() < 2 || block.is_head(1) {
                return Err(self.damaged(middle, "a block without an entry of its partition"));
            }
            let first = block.inner(1).map_err(|what| self.damaged(middle, what))?;
            if first.place().0 <= at {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        Ok(low)
    }

    /// Takes a block of the run in hand.
    pub(super) async fn take_block(&mut self, number: usize) -> Result<()> {
        let run = &self.run;
        assert!((run.first..=run.last).contains(&number), "a block of the partition in hand");
        let slots = self.block(number).await?;
        let block = Block::new(&slots);
        let head_at = if number == self.run.first { self.head_at_first() } else { 0 };
        let head = block.head(head_at).map_err(|what| self.damaged(number, what))?;
        let of = self.head.as_ref().expect("it is in a partition");
        let ours = Block::new(&of.slots).head(of.head_at);
        let ours = ours.map_err(|what| self.damaged(of.number, what))?;
        let end = block.end_of(head_at);
        if head.order_of(ours.token, ours.key).is_ne() || (number > self.run.first && end < 2) {
            return Err(self.damaged(number, "a block of another partition"));
        }
        assert!(head_at < end && end <= slots.count(), "a part of the block in hand");
        (self.end, self.stretch) = (end, None);
        self.block = Some(InBlock { number, slots, head_at });
        Ok(())
    }
}
