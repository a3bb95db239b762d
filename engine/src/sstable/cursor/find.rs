//! From a token to a partition: candidates of the directory, last one first, then binary search.
//!
//! 1. A key (`find_key`): the place that an index named last, if it is that of the key; then the piece of the filter,
//!    if it was not in memory; then the wide table, which leads straight to the block where the first slice begins;
//!    else the candidates of the directory, the last one first, and between them binary search.
//! 2. A range (`find_from`, `find_behind`): the last block that begins before the token, by binary search; from there
//!    on the next head. What of that block is before the token is passed over, with all blocks of its last partition.
//! 3. The partition that was found becomes the one in hand: its run of blocks, its head, the block from which the walk
//!    begins.
//!
//! Invariants
//! 1. The run holds the block in which the head was found.
//! 2. `self.head` is the beginning of the partition if it has a static row, which stands there alone; else it is any
//!    head of the partition, for all of them have the key and the tombstone.
//! 3. The heads of a range ascend by (token, key) and lie in the range; otherwise the file is `Error::Corrupt`, since a
//!    merge relies on it.
//!
//! Not here: rows of the partition (`place.rs`), the walk (`sstable/cursor.rs`), the bits of the directory
//! (`directory.rs`).

use std::rc::Rc;

use model::Token;

use super::super::block::{Block, Head as BlockHead, HeadRest};
use super::super::file::{HeadPlace, Reading};
use super::super::slots::Slots;
use super::{InBlock, Run, SstableCursor, order};
use crate::cursor::Scope;
use crate::error::Result;

impl SstableCursor<'_> {
    /// Finds the partition of a key.
    pub(super) async fn find_key(&mut self, token: Token, key: &[u8]) -> Result<bool> {
        let table = self.table.clone();
        if self.take_named(token, key).await? {
            return Ok(true);
        }
        let asks_filter = matches!(self.reading, Reading::Point | Reading::Sample);
        if asks_filter && table.denies(token, self.reading.class()).await? {
            return Ok(false);
        }
        if let Some(wide) = table.wide.find(token, key) {
            let (first, last) = (wide.first_block as usize, wide.last_block as usize);
            self.run = Run { first, last, root: Some(wide.root) };
            let number = match self.slice() {
                Some(slice) => self.block_of(self.near_border(slice)).await?,
                None => first,
            };
            let slots = self.block(number).await?;
            let found = Block::new(&slots).find(token, key);
            if let Ok(head_at) = found.map_err(|what| self.damaged(number, what))? {
                self.take_partition(InBlock { number, slots, head_at }).await?;
                return Ok(true);
            }
            // Another key of the same token and hash: look as if it were small.
        }
        let (mut low, mut high) = table.directory.candidates(token);
        let mut probe = high;
        loop {
            let slots = self.block(probe).await?;
            let found = Block::new(&slots).find(token, key);
            match found.map_err(|what| self.damaged(probe, what))? {
                Ok(head_at) => {
                    self.run = self.run_of(probe, &slots, head_at);
                    self.take_partition(InBlock { number: probe, slots, head_at }).await?;
                    return Ok(true);
                }
                Err(0) if probe > low => high = probe - 1,
                Err(index) if index == slots.count() && probe < high => low = probe + 1,
                Err(_) => return Ok(false),
            }
            probe = low + (high - low) / 2;
        }
    }

    /// Takes a partition of which an entry was named last, if it is the one that is sought, and short.
    async fn take_named(&mut self, token: Token, key: &[u8]) -> Result<bool> {
        let named = self.table.named_last.get();
        let named = named.into_iter().flatten().find(|named| named.token == token);
        let Some(HeadPlace { block, entry, .. }) = named else { return Ok(false) };
        if self.table.wide.find(token, key).is_some() {
            return Ok(false);
        }
        let slots = self.block(block).await?;
        let head = Block::new(&slots).head(entry).map_err(|what| self.damaged(block, what))?;
        if head.order_of(token, key).is_ne() {
            return Ok(false);
        }
        self.run = self.run_of(block, &slots, entry);
        self.take_partition(InBlock { number: block, slots, head_at: entry }).await?;
        Ok(true)
    }

    /// Finds the first partition of the scope at or above a token.
    pub(super) async fn find_from(&mut self, token: Token) -> Result<bool> {
        let (low, high) = self.table.directory.candidates(token);
        let (mut low, mut high) = self.table.wide.narrow(token, low, high);
        // The last block that begins below the token, or the first of all.
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            let slots = self.block(middle).await?;
            let head = Block::new(&slots).head(0).map_err(|what| self.damaged(middle, what))?;
            if order(&head, token, &[]).is_lt() {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        let slots = self.block(low).await?;
        let found = Block::new(&slots).find(token, &[]);
        let (Ok(index) | Err(index)) = found.map_err(|what| self.damaged(low, what))?;
        self.begin_at(low, slots, index).await
    }

    /// Finds the partition behind the one in hand.
    pub(super) async fn find_behind(&mut self) -> Result<bool> {
        let last = self.run.last;
        let slots = self.block(last).await?;
        let head_at = if last > self.run.first { 0 } else { self.head_at_first() };
        let end = Block::new(&slots).end_of(head_at);
        self.begin_at(last, slots, end).await
    }

    /// Begins with the head at `index` of the block, or with the next after its last partition.
    async fn begin_at(&mut self, number: usize, slots: Rc<Slots>, index: usize) -> Result<bool> {
        let (mut number, mut slots, mut index) = (number, slots, index);
        if index == slots.count() {
            let last = self.table.run_end(number);
            if last > number {
                number = last;
                slots = self.block(number).await?;
                index = Block::new(&slots).end_of(0);
            }
        }
        if index == slots.count() {
            number += 1;
            self.window.walk();
            if number == self.table.directory.blocks() {
                return Ok(false);
            }
            slots = self.block(number).await?;
            index = 0;
        }
        let head = Block::new(&slots).head(index).map_err(|what| self.damaged(number, what))?;
        if matches!(head.rest, HeadRest::Continues { .. }) {
            return Err(self.damaged(number, "a partition goes on that was never begun"));
        }
        self.check_ascends(number, &head)?;
        if let Scope::Range(range) = self.span.scope
            && head.token > range.last
        {
            return Ok(false);
        }
        self.run = self.run_of(number, &slots, index);
        self.take_partition(InBlock { number, slots, head_at: index }).await?;
        Ok(true)
    }

    /// `Corrupt` if the head does not come behind that of the partition in hand, or lies before the scope: who reads
    /// files side by side counts on their order, and asserts it.
    fn check_ascends(&self, number: usize, head: &BlockHead<'_>) -> Result<()> {
        let before = self.head.as_ref().map(|InBlock { slots, head_at, .. }| {
            Block::new(slots).head(*head_at).expect("it was read before")
        });
        let is_behind = before.is_none_or(|before| order(head, before.token, before.key).is_gt());
        let is_inside = match self.span.scope {
            Scope::Range(range) => head.token >= range.first,
            Scope::Key(..) => true,
        };
        if is_behind && is_inside {
            return Ok(());
        }
        Err(self.damaged(number, "partitions that do not ascend"))
    }

    /// The blocks of the partition with this head.
    fn run_of(&self, number: usize, slots: &Slots, head_at: usize) -> Run {
        let table = &self.table;
        let first = if head_at == 0 { table.run_start(number) } else { number };
        let is_last = Block::new(slots).end_of(head_at) == slots.count();
        let last = if is_last { table.run_end(number) } else { number };
        assert!(first <= number && number <= last, "a run holds the block that it was found in");
        let root = if last > first { self.table.wide.beginning_in(first) } else { None };
        Run { first, last, root: root.map(|wide| wide.root) }
    }

    /// Makes the partition with this head the one in hand; brings its static row, if it has one.
    async fn take_partition(&mut self, at: InBlock) -> Result<()> {
        let block = Block::new(&at.slots);
        let head = block.head(at.head_at).map_err(|what| self.damaged(at.number, what))?;
        (self.end, self.stretch) = (block.end_of(at.head_at), None);
        if at.number > self.run.first && self.end < at.head_at + 2 {
            return Err(self.damaged(at.number, "a block without an entry of its partition"));
        }
        let elsewhere = matches!(head.rest, HeadRest::Continues { has_static: true, .. });
        if !elsewhere {
            self.head = Some(at.clone());
            self.block = Some(at);
            return Ok(());
        }
        let first = self.run.first;
        let (token, key) = (head.token, head.key.to_vec());
        self.block = Some(at);
        let slots = self.block(first).await?;
        let found = Block::new(&slots).find(token, &key);
        match found.map_err(|what| self.damaged(first, what))? {
            Ok(head_at) => {
                self.head = Some(InBlock { number: first, slots, head_at });
                Ok(())
            }
            Err(_) => Err(self.damaged(first, "a partition goes on that did not begin here")),
        }
    }

    /// Where the head of the partition stands in the first block of its run.
    pub(super) fn head_at_first(&self) -> usize {
        // A partition of several blocks begins a block; that of one block was found in it.
        let head = self.head.as_ref().expect("it is in a partition");
        if self.run.first == self.run.last { head.head_at } else { 0 }
    }
}
