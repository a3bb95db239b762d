//! What the writing end knows between two awaits: the blocks that fill and wait, the segments and their use.
//!
//! ```text
//!   filling ──full or asked for──► full (a queue) ──► being written     blocks
//!   free ──► next ──► active ──► used ──► free                         segments: at first made, a few ahead
//! ```
//!
//! Invariants
//! 1. A segment's last unit is not filled before the next segment is ready.
//! 2. A segment counts at its own size, which may be another than that of new ones: the log may have been kept with
//!    other settings before.
//!
//! No I/O here.

use std::collections::VecDeque;
use std::task::Waker;

use super::segment::{FIRST_BLOCK, HEADER_BYTES, Segment, UNIT};
use super::{Config, Position, Positions};
use crate::error::{Error, Result};
use crate::io::Buf;
use crate::limits::{LOG_BLOCK_BYTES_MAX, SEGMENTS_AHEAD};

#[derive(Debug)]
pub(super) struct State {
    pub(super) active: Segment,
    /// Where the next block of the active segment goes.
    pub(super) offset: u32,
    pub(super) next: Option<Segment>,
    pub(super) used: VecDeque<Segment>,
    /// What the used segments take, in bytes of their files.
    pub(super) used_bytes: u64,
    pub(super) free: Vec<Segment>,
    /// All files of the log together, in bytes.
    pub(super) files_bytes: u64,
    pub(super) filling: Option<Block>,
    pub(super) full: VecDeque<Block>,
    pub(super) pending_bytes: usize,
    /// The end of the last block that was written: the next one names it.
    pub(super) end: Position,
    pub(super) positions: Positions,
    pub(super) poison: Option<Error>,
    /// No block was written since the log was opened again: the next says so.
    pub(super) reopened: bool,
    /// The last block that was written is empty: it proves the one before it durable.
    pub(super) claimed: bool,
    /// Once there is nothing else to write, an empty block is.
    pub(super) claim_asked: bool,
    /// The segment of the block that is being written.
    pub(super) writing: Option<u32>,
    pub(super) preparing: bool,
    /// A segment is being filled before it is needed.
    pub(super) filling_ahead: bool,
    /// The segment that was active when the log was opened.
    pub(super) first_active: u32,
    pub(super) writer: Option<Waker>,
    pub(super) preparer: Option<Waker>,
    pub(super) filler: Option<Waker>,
}

/// A block in memory.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) segment: Segment,
    pub(super) offset: u32,
    pub(super) buf: Buf,
    pub(super) first: Option<u32>,
    pub(super) last_end: Option<Position>,
}

impl State {
    /// Nothing waits, and blocks start at the beginning of the active segment.
    pub(super) fn new(active: Segment, end: Position, positions: Positions) -> State {
        let first_active = active.header.number;
        let files_bytes = u64::from(active.header.segment_bytes);
        State {
            active,
            offset: FIRST_BLOCK,
            next: None,
            used: VecDeque::new(),
            used_bytes: 0,
            free: Vec::new(),
            files_bytes,
            filling: None,
            full: VecDeque::new(),
            pending_bytes: 0,
            end,
            positions,
            poison: None,
            reopened: false,
            claimed: true,
            claim_asked: false,
            writing: None,
            preparing: false,
            filling_ahead: false,
            first_active,
            writer: None,
            preparer: None,
            filler: None,
        }
    }

    /// Takes up a log that was there before: blocks go on at `offset` of the active segment.
    pub(super) fn go_on_at(&mut self, offset: u32, next: Option<Segment>, used: Vec<Segment>) {
        for segment in next.iter().chain(&used) {
            self.files_bytes += u64::from(segment.header.segment_bytes);
        }
        (self.offset, self.next) = (offset, next);
        used.into_iter().for_each(|segment| self.push_used(segment));
    }

    fn push_used(&mut self, segment: Segment) {
        self.used_bytes += u64::from(segment.header.segment_bytes);
        self.used.push_back(segment);
    }

    /// What the segments take that may hold unflushed records, in bytes of their files.
    pub(super) fn needed_bytes(&self) -> u64 {
        u64::from(self.active.header.segment_bytes) + self.used_bytes
    }

    /// Whether the log may have one more file.
    pub(super) fn may_grow(&self, config: &Config) -> bool {
        self.files_bytes + u64::from(config.segment_bytes) <= config.log_bytes_max
    }

    /// Whether a free segment has the size of new ones.
    pub(super) fn has_free_segment(&self, segment_bytes: u32) -> bool {
        self.free.iter().any(|segment| segment.has_size(segment_bytes))
    }

    /// Takes out a free segment that has another size than new ones, if there is one.
    pub(super) fn take_odd_sized(&mut self, segment_bytes: u32) -> Option<Segment> {
        let at = self.free.iter().position(|segment| !segment.has_size(segment_bytes))?;
        Some(self.free.swap_remove(at))
    }

    pub(super) fn check_poison(&self) -> Result<()> {
        self.poison.as_ref().map_or(Ok(()), |first| Err(Error::poisoned(first)))
    }

    /// Nothing is trusted to this log any more; the first reason is kept.
    pub(super) fn poison(&mut self, e: &Error) -> Error {
        Error::poisoned(self.poison.get_or_insert_with(|| e.clone()))
    }

    /// Wakes those who prepare and fill segments.
    pub(super) fn wake_preparer(&mut self) {
        self.preparer.take().into_iter().for_each(Waker::wake);
        self.filler.take().into_iter().for_each(Waker::wake);
    }

    /// Whether the next segment is to be prepared. Not while blocks of an earlier one than the active are unwritten:
    /// so a replay finds at most one prepared segment after the tail, and anything else is damage. Nor while one is
    /// being made: it will soon be there.
    pub(super) fn needs_segment(&self) -> bool {
        let waiting = self.full.front().or(self.filling.as_ref());
        let oldest = self.writing.or(waiting.map(|block| block.segment.header.number));
        let caught_up = oldest.is_none_or(|number| number == self.active.header.number);
        let idle = !self.preparing && !self.filling_ahead && self.poison.is_none();
        self.next.is_none() && idle && caught_up
    }

    /// Whether one more segment is to be made now, before it is needed, if the log may have so many: once it goes
    /// through segments, and while nothing more urgent is to be done.
    pub(super) fn wants_filled(&self, config: &Config) -> bool {
        let idle = !self.preparing && !self.filling_ahead && self.poison.is_none();
        let in_use = self.active.header.number > self.first_active && self.next.is_some();
        let ahead = self.free.iter().filter(|free| free.has_size(config.segment_bytes)).count();
        idle && in_use && ahead < SEGMENTS_AHEAD && self.may_grow(config)
    }

    /// Where blocks of the active segment must end. The last unit is kept until the next segment is ready: a
    /// segment that is full proves that there is a next one.
    pub(super) fn limit(&self) -> u32 {
        self.active.header.segment_bytes - if self.next.is_some() { 0 } else { UNIT }
    }

    /// How many bytes of records can be taken for certain.
    pub(super) fn space(&self) -> usize {
        let stretch = |from: u32, to: u32| {
            let bytes = to.saturating_sub(from) as usize;
            bytes.saturating_sub(HEADER_BYTES * bytes.div_ceil(LOG_BLOCK_BYTES_MAX))
        };
        let (filling, offset) = match &self.filling {
            Some(block) => (block.buf.space(), block.offset + block.buf.capacity() as u32),
            None => (0, self.offset),
        };
        let next = self.next.as_ref();
        // The next segment's own next is not ready when it becomes active.
        let next = next.map_or(0, |next| stretch(FIRST_BLOCK, next.header.segment_bytes - UNIT));
        filling + stretch(offset, self.limit()) + next
    }

    /// An empty block of at least `bytes` at the next place, in the next segment if this one is full.
    pub(super) fn open_block(&mut self, bytes: usize) -> Option<Block> {
        if self.offset == self.active.header.segment_bytes {
            let next = self.next.take().expect("a full segment is followed by another");
            assert_eq!(next.header.number, self.active.header.number + 1, "segments follow");
            let full = std::mem::replace(&mut self.active, next);
            self.push_used(full);
            self.offset = FIRST_BLOCK;
            self.wake_preparer();
        }
        assert!(self.filling.is_none(), "one block fills at a time");
        assert!(self.offset.is_multiple_of(UNIT), "blocks begin at whole units");
        let capacity = (self.limit().checked_sub(self.offset)? as usize).min(LOG_BLOCK_BYTES_MAX);
        if capacity < bytes {
            return None;
        }
        let segment = self.active.clone();
        let mut buf = segment.file.buf(capacity);
        buf.put_zeros(HEADER_BYTES);
        Some(Block { segment, offset: self.offset, buf, first: None, last_end: None })
    }

    /// The block that takes the next byte.
    pub(super) fn filling(&mut self) -> &mut Block {
        if self.filling.is_none() {
            let block = self.open_block(HEADER_BYTES + 1);
            self.filling = Some(block.expect("append has asked for the space"));
        }
        self.filling.as_mut().expect("it was just opened")
    }

    pub(super) fn begin_record(&mut self) {
        let block = self.filling();
        let at = (block.buf.len() - HEADER_BYTES) as u32;
        block.first.get_or_insert(at);
    }

    pub(super) fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let block = self.filling();
            let (now, later) = bytes.split_at(bytes.len().min(block.buf.space()));
            block.buf.put(now);
            bytes = later;
            if block.buf.space() == 0 && !bytes.is_empty() {
                self.close_block();
            }
        }
    }

    /// Notes where the record ends; a block that it filled is closed.
    pub(super) fn end_record(&mut self) -> Position {
        let block = self.filling.as_mut().expect("a record ends in a block");
        let offset = block.offset + block.buf.len() as u32;
        let end = Position::new(block.segment.header.number, offset);
        assert!(end > self.positions.appended, "records end one after the other");
        block.last_end = Some(end);
        if block.buf.space() == 0 {
            self.close_block();
        }
        self.positions.appended = end;
        end
    }

    /// The filling block takes no more; the next one goes right after it.
    pub(super) fn close_block(&mut self) {
        let block = self.filling.take().expect("only a filling block is closed");
        let active = &self.active.header;
        assert_eq!(block.segment.header.number, active.number, "the active segment is filled");
        assert_eq!(block.offset, self.offset, "a block lies where the last one ended");
        assert!(block.buf.len() > HEADER_BYTES, "an empty block is a claim, and not queued");
        self.offset = block.offset + (block.buf.len() as u32).next_multiple_of(UNIT);
        assert!(self.offset <= active.segment_bytes, "a block ends in its segment");
        self.full.push_back(block);
    }

    pub(super) fn take_block(&mut self) -> Option<Block> {
        if self.full.is_empty() && self.filling.is_some() {
            self.close_block();
        }
        self.full.pop_front()
    }

    /// Moves the used segments before this one to the free ones.
    pub(super) fn free_before(&mut self, number: u32) {
        while let Some(freed) = self.used.pop_front_if(|first| first.header.number < number) {
            self.used_bytes -= u64::from(freed.header.segment_bytes);
            self.free.push(freed);
        }
    }
}
