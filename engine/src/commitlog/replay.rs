//! Reading a log from a position to its end, and judging what that end is.
//!
//! ```text
//!   block ─ block ─ block ─ ✗            a bad block ends the log if nothing after it claims it durable;
//!                           └ block ✓    if a valid one follows, it is damage and nothing is started
//! ```
//!
//! [`Log::resume`](super::Log::resume) goes on where it ends. Memory is one window, one block and one record.
//! Nothing is skipped: every bit that is not as it was written is either the tail or an error.
//!
//! Every block but the last is claimed durable by the next. The last block may be readable and not durable: the process
//! can be killed between the two. Files would be written from records that a power cut then takes. So that block is
//! written again, durably, before its records are given out. Nothing else is written.

use std::collections::BTreeMap;

use model::bytes::Cursor;
use model::mutation::MutationRef;

use super::Position;
use super::files::{rewrite, segment_files};
use super::segment::{
    BlockHeader, FIRST_BLOCK, HEADER_BYTES, RECORD_HEADER_BYTES, RESTART, Segment, SegmentHeader,
    UNIT,
};
use crate::error::{Error, Result};
use crate::io::{Disk, RelPath, View};
use crate::limits::{LOG_BLOCK_BYTES_MAX, LOG_RECORD_BYTES_MAX, LOG_TAIL_READS};
use crate::planted::{Bug, planted};

/// One record as the log gives it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// The token range it belongs to.
    pub range: u32,
    /// A number of the caller's: the engine's is the position where the record begins. Kept for a future move of
    /// ranges; replay does not read it.
    pub sequence: u64,
    /// Where it ends in the log.
    pub end: Position,
    /// What the caller gave.
    pub payload: &'a [u8],
}

impl<'a> Record<'a> {
    /// The mutations of the payload, each checked. What is none is `Corrupt` in `log`, the log's directory.
    pub(crate) fn mutations(&self, log: &str) -> impl Iterator<Item = Result<MutationRef<'a>>> {
        let offset = u64::from(self.end.offset());
        let mutations = MutationRef::of_record(self.payload);
        mutations.map(move |mutation| {
            mutation.map_err(|error| Error::corrupt(log, offset, error.to_string()))
        })
    }
}

/// A log that is being read.
#[derive(Debug)]
pub struct Replay {
    disk: Disk,
    segments: BTreeMap<u32, Segment>,
    /// Files whose making a crash cut short: they never held anything.
    unfinished: Vec<RelPath>,
    from: Position,
    /// The end of the last valid block; the next must name it.
    end: Position,
    /// A block was read, so the end is not only a guess.
    any_block: bool,
    window: Window,
    block: Block,
    record: Vec<u8>,
    record_is_out: bool,
    /// Until the first start of a record: what comes before it belongs to a segment that is gone.
    skipping: bool,
    durable: Position,
    finished: bool,
}

/// Where a log ends: what [`Log::resume`](super::Log::resume) goes on from.
#[derive(Debug)]
pub struct Tail {
    pub(super) segments: BTreeMap<u32, Segment>,
    pub(super) unfinished: Vec<RelPath>,
    pub(super) end: Position,
    pub(super) flushed: Position,
    /// The end of the last whole record.
    pub durable: Position,
}

/// The block that is being taken apart; places in it count from its start.
#[derive(Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    taken: usize,
    start: Position,
    first: usize,
    first_seen: bool,
}

/// A stretch of one file in memory.
#[derive(Debug, Default)]
struct Window {
    number: u32,
    start: u32,
    view: Option<View>,
}

impl Replay {
    /// Opens the log in `dir` to read every record that ends after `from`, a place that was flushed.
    pub async fn open(disk: &Disk, dir: &RelPath, from: Position) -> Result<Replay> {
        let mut segments = BTreeMap::new();
        let mut unfinished = Vec::new();
        for path in segment_files(disk, dir).await? {
            let file = disk.open(&path).await?;
            let Some(header) = SegmentHeader::read(&file).await? else {
                file.close().await?;
                unfinished.push(path);
                continue;
            };
            let twin = segments.insert(header.number, Segment { header, file });
            if twin.is_some() {
                return Err(Error::corrupt(path.as_str(), 0, "two segments have one number"));
            }
        }
        let first = from.segment().max(1);
        if !segments.contains_key(&first) {
            let file = dir.as_str().into();
            let what = format!("segment {first} of the commit log is missing");
            return Err(Error::Corrupt { file, offset: 0, what: what.into() });
        }
        Ok(Replay {
            disk: disk.clone(),
            segments,
            unfinished,
            from,
            end: Position::new(first, FIRST_BLOCK),
            any_block: false,
            window: Window::default(),
            block: Block::default(),
            record: Vec::new(),
            record_is_out: false,
            skipping: true,
            durable: from,
            finished: false,
        })
    }

    /// The next record, or `None` at the end of the log.
    pub async fn next(&mut self) -> Result<Option<Record<'_>>> {
        if self.record_is_out {
            self.record.clear();
            self.record_is_out = false;
        }
        loop {
            if let Some((range, sequence)) = self.assemble()? {
                let end = Position::new(self.block.start.segment(), self.block.place());
                self.durable = self.durable.max(end);
                if end > self.from {
                    self.record_is_out = true;
                    let payload = &self.record[RECORD_HEADER_BYTES..];
                    return Ok(Some(Record { range, sequence, end, payload }));
                }
                self.record.clear();
            } else if self.finished || !self.next_block().await? {
                self.finished = true;
                return Ok(None);
            }
        }
    }

    /// Ends the reading. Records that were not asked for are still checked.
    pub async fn finish(mut self) -> Result<Tail> {
        while self.next().await?.is_some() {}
        if self.end < self.from {
            let what = format!("{} was flushed, and the log ends before it", self.from);
            return Err(self.damaged(u64::from(self.end.offset()), &what));
        }
        Ok(Tail {
            segments: self.segments,
            unfinished: self.unfinished,
            end: self.end,
            flushed: self.from,
            durable: self.durable,
        })
    }

    /// Takes from the block what belongs to the record; its range and sequence once it is whole.
    fn assemble(&mut self) -> Result<Option<(u32, u64)>> {
        let block = &mut self.block;
        loop {
            if self.record.is_empty() && !block.first_seen && block.taken < block.bytes.len() {
                if block.taken != block.first {
                    let at = u64::from(block.place());
                    return Err(self.damaged(at, "a record does not start where its block says"));
                }
                block.first_seen = true;
            }
            let mut head = Cursor::new(&self.record);
            let whole = match head.u32() {
                Ok(len) if len as usize > LOG_RECORD_BYTES_MAX => {
                    let at = u64::from(block.place());
                    return Err(self.damaged(at, "a record is longer than any may be"));
                }
                Ok(len) if self.record.len() >= RECORD_HEADER_BYTES => {
                    RECORD_HEADER_BYTES + len as usize
                }
                _ => RECORD_HEADER_BYTES,
            };
            let missing = whole - self.record.len();
            if missing == 0 {
                let (range, sequence) = (head.u32(), head.u64());
                return Ok(range.ok().zip(sequence.ok()));
            }
            let taken = missing.min(block.bytes.len() - block.taken);
            if taken == 0 {
                return Ok(None);
            }
            self.record.extend_from_slice(&block.bytes[block.taken..block.taken + taken]);
            block.taken += taken;
        }
    }

    /// Loads the next block; false at the end of the log.
    async fn next_block(&mut self) -> Result<bool> {
        let block = &self.block;
        assert_eq!(block.taken, block.bytes.len(), "a block is read to its end before the next");
        if planted(Bug::ReplayStopsEarly) && self.is_full(self.end)? {
            return Ok(false);
        }
        let at = self.after(self.end)?;
        let Some(header) = self.block_at(at).await? else {
            self.check_tail(at).await?;
            return Ok(false);
        };
        let follows = match self.any_block {
            true => header.prior == self.end,
            false => header.prior <= at,
        };
        if !follows {
            let what = format!("the log before ends at {}, not at {}", self.end, header.prior);
            return Err(self.damaged(u64::from(at.offset()), &what));
        }
        if header.flags & RESTART != 0 {
            self.record.clear();
            self.skipping = false;
        }
        let whole = self.window.bytes(at.offset(), HEADER_BYTES + header.len as usize);
        let bytes = whole.expect("a valid block lies in the window").to_vec();
        let first = HEADER_BYTES + header.first as usize;
        let taken = if self.skipping { first } else { HEADER_BYTES };
        self.skipping &= first == bytes.len();
        self.any_block = true;
        let end = Position::new(at.segment(), header.end());
        assert!(end > self.end, "a replay comes to an end");
        self.end = end;
        let next = self.after(self.end)?;
        if self.valid_block(next).await?.is_none() && !planted(Bug::TrustReadable) {
            rewrite(&self.disk, &self.segment(at)?.file, at.offset(), &bytes).await?;
        }
        self.block = Block { bytes, taken, start: at, first, first_seen: false };
        Ok(true)
    }

    fn is_full(&self, end: Position) -> Result<bool> {
        Ok(end.offset() == self.segment(end)?.header.segment_bytes)
    }

    /// Where the block after this end is: a segment that is full is followed by another.
    fn after(&self, end: Position) -> Result<Position> {
        if !self.is_full(end)? {
            return Ok(end);
        }
        let next = Position::new(end.segment() + 1, FIRST_BLOCK);
        self.segment(next).map(|_| next)
    }

    /// The same, read again if it does not verify: a bit that flipped on its way to us is no torn write.
    async fn block_at(&mut self, at: Position) -> Result<Option<BlockHeader>> {
        for _ in 1..LOG_TAIL_READS {
            if let Some(header) = self.valid_block(at).await? {
                return Ok(Some(header));
            }
            self.window.view = None;
        }
        self.valid_block(at).await
    }

    /// The header of the block at `at`, if all of it is as it was written.
    async fn valid_block(&mut self, at: Position) -> Result<Option<BlockHeader>> {
        let segment = self.segment(at)?.clone();
        self.window.cover(&segment, at.offset(), HEADER_BYTES).await?;
        let head = self.window.bytes(at.offset(), HEADER_BYTES).unwrap_or_default();
        let Some(header) = BlockHeader::glance(&segment.header, at.offset(), head) else {
            return Ok(None);
        };
        let whole = HEADER_BYTES + header.len as usize;
        self.window.cover(&segment, at.offset(), whole).await?;
        let bytes = self.window.bytes(at.offset(), whole).unwrap_or_default();
        let valid = header.verify(bytes) || planted(Bug::AcceptTornTail);
        Ok(valid.then_some(header))
    }

    /// The block at `at` is not valid: proves that it is the tail, or says what is damaged.
    async fn check_tail(&mut self, at: Position) -> Result<()> {
        if planted(Bug::NoTailRule) {
            return Ok(());
        }
        let segment_bytes = self.segment(at)?.header.segment_bytes;
        let next = Position::new(at.segment() + 1, FIRST_BLOCK);
        if let Some((number, _)) = self.segments.range(next.segment() + 1..).next() {
            let what = format!("the log ends here, and yet there is a segment {number}");
            return Err(self.damaged(u64::from(at.offset()), &what));
        }
        let mut witness = None;
        if self.segments.contains_key(&next.segment()) && self.valid_block(next).await?.is_some() {
            witness = Some(next);
        }
        let mut offset = at.offset() + UNIT;
        while witness.is_none() && offset < segment_bytes {
            let later = Position::new(at.segment(), offset);
            witness = self.valid_block(later).await?.map(|_| later);
            offset += UNIT;
        }
        match witness {
            None => Ok(()),
            Some(later) => {
                let what = format!(
                    "a block does not verify, and the one at {later} proves that it was durable"
                );
                Err(self.damaged(u64::from(at.offset()), &what))
            }
        }
    }

    fn segment(&self, at: Position) -> Result<&Segment> {
        self.segments.get(&at.segment()).ok_or_else(|| {
            let what = format!("segment {} of the commit log is missing", at.segment());
            self.damaged(u64::from(self.end.offset()), &what)
        })
    }

    #[cold]
    fn damaged(&self, offset: u64, what: &str) -> Error {
        let segment = self.segments.get(&self.end.segment());
        Error::corrupt(segment.map_or("commit log", |s| s.file.path().as_str()), offset, what)
    }
}

impl Block {
    /// The offset in the file of what is taken next.
    fn place(&self) -> u32 {
        self.start.offset() + self.taken as u32
    }
}

impl Window {
    /// Brings `len` bytes at `offset` into memory, with what follows them; fewer where the file ends.
    async fn cover(&mut self, segment: &Segment, offset: u32, len: usize) -> Result<()> {
        if self.number == segment.header.number && self.bytes(offset, len).is_some() {
            return Ok(());
        }
        self.view = None;
        self.view = Some(segment.file.read_at(u64::from(offset), LOG_BLOCK_BYTES_MAX).await?);
        (self.number, self.start) = (segment.header.number, offset);
        Ok(())
    }

    fn bytes(&self, offset: u32, len: usize) -> Option<&[u8]> {
        let from = offset.checked_sub(self.start)? as usize;
        self.view.as_ref()?.get(from..from + len)
    }
}
