//! Goes through a file: finds partitions by the directory, rows by the row index, and walks.
//!
//! 1. `next_partition` finds the head (`find.rs`) and the run of blocks that the partition takes.
//! 2. Each slice is entered at its near border: a block is chosen (`place.rs`), the entry is found in it
//!    by binary search, and the range deletion in force there is known without reading what came before.
//! 3. The walk goes from entry to entry and, at the end of a block, to the next of the run.
//! 4. `seek` enters the slice in hand once more, further on: what lies between is not read.
//! 5. Slices before the first and behind the last clustering of the file are left out. After some others in which
//!    nothing is, a change is shown that changes nothing, before all else (`cursor.rs`, invariant 6).
//!
//! Invariants
//! 1. `head_at < end <= count` of the block in hand; the entry last shown is in that block.
//! 2. Nothing outside the run is touched while the cursor is in a partition.

mod find;
mod merge_input;
mod place;

use std::rc::Rc;

use model::ordered::AFTER;
use model::{Deletion, Token};

use super::block::{Block, HeadRest, Inner, Stretch};
use super::file::{Reading, Sstable};
use super::frame::{Kind, raw_length_of};
use super::row_index::NodeRef;
use super::slots::Slots;
use super::window::Window;
use crate::cursor::{Cursor, EmptySlices, Fragment, Head, Scope, Slice, Span};
use crate::error::{Error, Result};
use crate::limits::SAMPLED_BLOCK_BYTES_MAX;
use crate::planted::{Bug, planted};

/// A walk through one file.
#[derive(Debug)]
pub struct SstableCursor<'c> {
    table: Rc<Sstable>,
    span: Span<'c>,
    reading: Reading,
    window: Window,
    next: Next,
    /// Where the current partition's head lies; `None` before the first.
    head: Option<InBlock>,
    run: Run,
    /// The block in hand, where its part of the partition begins and ends, and the entry to come: forward
    /// it is the next one, reversed the one after the next.
    block: Option<InBlock>,
    end: usize,
    entry: usize,
    /// What was found, of the block in hand, by the last slice that was entered there.
    stretch: Option<Stretch>,
    /// Slices that are done with.
    slices_done: usize,
    empty_slices: EmptySlices,
    phase: Phase,
    in_force: Deletion,
    shown: Shown,
    /// Where a seek went.
    sought: Vec<u8>,
}

/// A block, and the index of a head in it.
#[derive(Clone, Debug)]
struct InBlock {
    number: usize,
    slots: Rc<Slots>,
    head_at: usize,
}

/// The blocks of a partition.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    first: usize,
    last: usize,
    /// The row index, if it has one.
    root: Option<NodeRef>,
}

/// Where the next partition is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Where the scope begins.
    Begin,
    /// Behind the partition in hand.
    Behind,
    /// There is none.
    Nowhere,
}

/// Where the walk through a partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Before the next slice.
    Before,
    /// In a slice.
    Inside,
    /// Behind the last.
    Over,
}

/// What the cursor shows.
#[derive(Clone, Copy, Debug)]
enum Shown {
    /// This entry of the block in hand.
    Entry(usize),
    /// A change at the near border of the slice.
    Entered,
    /// A change at its far border.
    Left,
    /// A change that changes nothing, after slices that had nothing: the last of them is in hand.
    EmptySlices,
    /// A change where a seek went.
    Sought,
}

impl<'c> SstableCursor<'c> {
    pub(super) fn new(table: Rc<Sstable>, span: Span<'c>, reading: Reading) -> SstableCursor<'c> {
        let slices =
            if span.slices.len() > 1 { table.slices_met(span.slices) } else { span.slices };
        let span = Span { slices, ..span };
        SstableCursor {
            table,
            span,
            reading,
            window: Window::new(reading),
            next: Next::Begin,
            head: None,
            run: Run::default(),
            block: None,
            end: 0,
            entry: 0,
            stretch: None,
            slices_done: 0,
            empty_slices: EmptySlices::default(),
            phase: Phase::Over,
            in_force: Deletion::NONE,
            shown: Shown::Entered,
            sought: Vec::new(),
        }
    }

    /// What it goes through. Of several slices those that may find something in the file.
    pub(crate) fn span(&self) -> Span<'c> {
        self.span
    }

    /// The file that it reads.
    pub(crate) fn sstable(&self) -> &Sstable {
        &self.table
    }

    /// Block and entry of the head of the partition that it is in.
    pub(crate) fn head_place(&self) -> (usize, usize) {
        let head = self.head.as_ref().expect("it is in a partition");
        (head.number, head.head_at)
    }

    /// Block and entry of the row that it shows.
    pub(crate) fn row_place(&self) -> (usize, usize) {
        let Shown::Entry(entry) = self.shown else { unreachable!("it shows a row") };
        (self.in_hand().number, entry)
    }

    /// Whether it has shown all of the last partition of the file.
    pub(crate) fn is_used_up(&self) -> bool {
        let Some(InBlock { number, slots, .. }) = &self.block else { return false };
        let is_last = *number == self.run.last && self.end == slots.count();
        self.phase == Phase::Over && is_last && number + 1 == self.table.directory.blocks()
    }

    /// The slice in hand, in the order of the span.
    fn slice(&self) -> Option<&'c Slice> {
        if self.span.reversed {
            self.span.slices.iter().rev().nth(self.slices_done)
        } else {
            self.span.slices.get(self.slices_done)
        }
    }

    fn near_border(&self, slice: &'c Slice) -> &'c [u8] {
        if self.span.reversed { &slice.end } else { &slice.start }
    }

    fn far_border(&self, slice: &'c Slice) -> &'c [u8] {
        if self.span.reversed { &slice.start } else { &slice.end }
    }

    /// Whether the entry belongs to the slice in hand, coming from its near border.
    fn is_inside(&self, inner: &Inner<'_>, slice: &Slice) -> bool {
        let (at, is_row) = inner.place();
        match (self.span.reversed, is_row) {
            (false, _) => at < slice.end.as_slice(),
            (true, true) => at >= slice.start.as_slice(),
            // A change at the start governs what is below the slice.
            (true, false) => at > slice.start.as_slice(),
        }
    }

    /// The entry to come, after a step into the next block if need be; `None` at the partition's end.
    async fn peek(&mut self) -> Result<Option<usize>> {
        loop {
            let InBlock { number, head_at, .. } = *self.in_hand();
            if self.span.reversed {
                if self.entry > head_at + 1 {
                    return Ok(Some(self.entry - 1));
                }
                if number == self.run.first {
                    return Ok(None);
                }
                self.window.walk();
                self.take_block(number - 1).await?;
                self.entry = self.end;
            } else {
                if self.entry < self.end {
                    return Ok(Some(self.entry));
                }
                if number == self.run.last {
                    return Ok(None);
                }
                self.window.walk();
                self.take_block(number + 1).await?;
                self.entry = self.in_hand().head_at + 1;
                self.check_open()?;
            }
        }
    }

    /// A block that goes on must say that the deletion is in force that was when the last one ended.
    fn check_open(&self) -> Result<()> {
        let InBlock { number, slots, head_at } = self.in_hand();
        let open = Block::new(slots).open_below(*head_at, head_at + 1, None);
        match open.map_err(|what| self.damaged(*number, what))?.deletion {
            open if open == self.in_force => Ok(()),
            _ => Err(self.damaged(*number, "another deletion is in force than before")),
        }
    }

    /// Moves one entry on; whether it still belongs to the slice.
    async fn walk(&mut self, slice: &Slice) -> Result<bool> {
        let Some(index) = self.peek().await? else { return Ok(false) };
        let InBlock { number, ref slots, head_at } = *self.in_hand();
        assert!(head_at < index && index < self.end, "an entry of the partition in hand");
        let inner = Block::new(slots).inner(index).map_err(|what| self.damaged(number, what))?;
        if !self.is_inside(&inner, slice) {
            return Ok(false);
        }
        self.in_force = match inner {
            Inner::Row(_) => self.in_force,
            Inner::Bound(bound) if self.span.reversed => bound.below,
            Inner::Bound(bound) => bound.above,
        };
        self.entry = if self.span.reversed { index } else { index + 1 };
        self.shown = Shown::Entry(index);
        Ok(true)
    }

    /// Closes at the end of the slice what is open there; whether that is a change to be shown.
    fn close(&mut self) -> bool {
        let open = !self.in_force.is_none();
        if open {
            self.in_force = Deletion::NONE;
            self.shown = Shown::Left;
        }
        open
    }

    /// Whether it shows a change that changes nothing, after slices that have nothing.
    pub(crate) fn has_passed_slices(&self) -> bool {
        matches!(self.shown, Shown::EmptySlices)
    }

    /// Whether all of the slice in hand was shown.
    fn is_behind_slice(&self) -> bool {
        matches!(self.shown, Shown::Left | Shown::EmptySlices)
    }

    fn in_hand(&self) -> &InBlock {
        self.block.as_ref().expect("a slice was entered, so a block is in hand")
    }

    #[cold]
    fn damaged(&self, block: usize, what: &'static str) -> Error {
        self.table.corrupt(self.table.directory.frame(block).0, what)
    }

    /// A data block.
    async fn block(&mut self, number: usize) -> Result<Rc<Slots>> {
        if let Some(block) = &self.block
            && block.number == number
        {
            return Ok(block.slots.clone());
        }
        let (offset, bytes) = self.table.directory.frame(number);
        if !self.reading.bypasses_cache()
            && let Some(slots) = self.table.cached(offset)
        {
            return Ok(slots);
        }
        let is_sample = self.reading == Reading::Sample;
        let is_too_long = |bytes: usize| is_sample && bytes > SAMPLED_BLOCK_BYTES_MAX;
        if self.window.frame(offset, bytes).is_none() {
            if self.reading == Reading::Cached || is_too_long(bytes) {
                return Err(Error::WouldBlock);
            }
            self.read_ahead(number).await?;
        }
        let frame = self.window.frame(offset, bytes).expect("it was just read");
        if raw_length_of(frame).is_some_and(is_too_long) {
            return Err(Error::WouldBlock);
        }
        let slots = self.table.open_frame(frame, Kind::Data, offset)?;
        if !slots.is_marked(0) {
            return Err(self.damaged(number, "a block that does not begin with a head"));
        }
        if self.reading == Reading::Point {
            self.table.keep(offset, &slots);
        }
        Ok(slots)
    }

    /// Reads the block and, as far as the window reaches, those that the walk comes to next.
    async fn read_ahead(&mut self, number: usize) -> Result<()> {
        self.window.widen(self.table.cache.window_space());
        let directory = &self.table.directory;
        let (offset, bytes) = directory.frame(number);
        let end_of = |block: usize| {
            let (offset, bytes) = directory.frame(block);
            offset + bytes as u64
        };
        let file = &self.table.file().await?;
        if self.span.reversed && number > self.run.first {
            let reach = self.window.reach(offset + bytes as u64);
            let mut first = number;
            while first > self.run.first && directory.frame(first - 1).0 >= reach {
                first -= 1;
            }
            let from = directory.frame(first).0;
            return self.window.read(file, from, (end_of(number) - from) as usize, from).await;
        }
        let end = match self.span.scope {
            Scope::Key(..) => end_of(self.run.last.max(number)),
            Scope::Range(_) => self.table.footer().data_bytes,
        };
        self.window.read(file, offset, bytes, end).await
    }

    /// A node of the row index.
    async fn node(&self, node: NodeRef) -> Result<Rc<Slots>> {
        self.table.slots(self.table.node_frame(node)?, Kind::RowIndex, self.reading).await
    }
}

impl Cursor for SstableCursor<'_> {
    async fn next_partition(&mut self) -> Result<bool> {
        let found = match (self.next, self.span.scope) {
            (Next::Nowhere, _) | (Next::Behind, Scope::Key(..)) => Ok(false),
            (Next::Begin, Scope::Key(token, key)) => self.find_key(token, key).await,
            (Next::Begin, Scope::Range(range)) => self.find_from(range.first).await,
            (Next::Behind, Scope::Range(_)) => self.find_behind().await,
        };
        let found = match found {
            Err(Error::Io { .. }) if planted(Bug::ReadErrorEndsFile) => false,
            found => found?,
        };
        assert!(!found || self.block.is_some(), "what was found is in hand");
        self.next = if found { Next::Behind } else { Next::Nowhere };
        self.slices_done = 0;
        self.in_force = Deletion::NONE;
        self.shown = Shown::Entered;
        self.phase =
            if found && !self.span.slices.is_empty() { Phase::Before } else { Phase::Over };
        Ok(found)
    }

    fn head(&self) -> Head<'_> {
        let InBlock { slots, head_at, .. } = self.head.as_ref().expect("it is in a partition");
        let head = Block::new(slots).head(*head_at).expect("it was read before");
        let static_row = match head.rest {
            HeadRest::Begins { static_row } => static_row,
            HeadRest::Continues { .. } => None,
        };
        Head { token: head.token, key: head.key, deletion: head.deletion, static_row }
    }

    async fn next(&mut self) -> Result<bool> {
        let mut is_empty = false;
        loop {
            let Some(slice) = self.slice() else {
                self.phase = Phase::Over;
                return Ok(false);
            };
            match self.phase {
                Phase::Over => return Ok(false),
                Phase::Before => {
                    (self.phase, is_empty) = (Phase::Inside, true);
                    if self.enter(self.near_border(slice)).await? && !planted(Bug::EnterUndeleted) {
                        self.shown = Shown::Entered;
                        return Ok(true);
                    }
                }
                Phase::Inside => {
                    // The far border's change is shown while the slice is still the one in hand.
                    if self.is_behind_slice() {
                        self.shown = Shown::Entered;
                    } else if self.walk(slice).await? || self.close() {
                        return Ok(true);
                    } else if is_empty && self.empty_slices.count() {
                        self.shown = Shown::EmptySlices;
                        return Ok(true);
                    }
                    self.slices_done += 1;
                    self.phase = Phase::Before;
                }
            }
        }
    }

    fn fragment(&self) -> Fragment<'_> {
        let border = || self.slice().expect("a border is shown while its slice is in hand");
        let deletion = self.in_force;
        match self.shown {
            Shown::Entered => Fragment::Change { position: self.near_border(border()), deletion },
            Shown::Left => Fragment::Change { position: self.far_border(border()), deletion },
            Shown::EmptySlices if self.span.reversed => {
                Fragment::Change { position: &[AFTER], deletion }
            }
            Shown::EmptySlices => Fragment::Change { position: &[], deletion },
            Shown::Sought => Fragment::Change { position: &self.sought, deletion },
            Shown::Entry(index) => {
                let inner = Block::new(&self.in_hand().slots).inner(index);
                match inner.expect("it was read before") {
                    Inner::Row(row) => Fragment::Row { clustering: row.clustering, row: row.row },
                    Inner::Bound(bound) => Fragment::Change { position: bound.at, deletion },
                }
            }
        }
    }
}

/// The place of a partition among partitions.
fn order(head: &super::block::Head<'_>, token: Token, key: &[u8]) -> std::cmp::Ordering {
    (head.token, head.key).cmp(&(token, key))
}
