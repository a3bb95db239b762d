//! The writing end of the log: blocks fill, one write is in flight, segments come and go.
//!
//! Steps of a commit: 1. `append` copies the record into the filling block; 2. `write_pending` closes the
//! oldest block, writes it, and moves `durable`; 3. whoever waits for a position at or before that is answered.
//! Steps of a segment: made (zero-filled) or free ─► prepared (header with a new number) ─► active ─► used
//! ─► free again, once all of it is flushed.
//!
//! Between two awaits the state is consistent; no borrow is held across one.

use super::replay::{Segment, Tail, segment_files};
use super::segment::{
    BlockHeader, FIRST_BLOCK, HEADER_BYTES, RECORD_HEADER_BYTES, RESTART, SegmentHeader, UNIT,
};
use super::{Config, Position, Positions, SyncMode};
use crate::error::{Error, Result};
use crate::io::{Buf, Disk, File, RelPath};
use crate::limits::{LOG_BLOCK_BYTES_MAX, LOG_ZERO_BYTES, SEGMENT_BYTES_MIN};
use crate::planted::{Bug, planted};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// The commit log of one shard, being written.
#[derive(Debug)]
pub struct Log {
    disk: Disk,
    dir: RelPath,
    config: Config,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    active: Segment,
    /// Where the next block of the active segment goes.
    offset: u32,
    next: Option<Segment>,
    used: VecDeque<Segment>,
    free: Vec<Segment>,
    filling: Option<Block>,
    full: VecDeque<Block>,
    pending_bytes: usize,
    /// The end of the last block that was written: the next one names it.
    end: Position,
    positions: Positions,
    poison: Option<Error>,
    writing: bool,
    preparing: bool,
    writer: Option<Waker>,
    preparer: Option<Waker>,
}

/// A block in memory.
#[derive(Debug)]
struct Block {
    segment: Segment,
    offset: u32,
    buf: Buf,
    first: Option<u32>,
    last_end: Option<Position>,
}

impl Log {
    /// Makes a new log in `dir`, an existing directory. What an interrupted making left there is deleted.
    pub async fn create(disk: &Disk, dir: &RelPath, config: Config) -> Result<Log> {
        check(&config)?;
        for path in segment_files(disk, dir).await? {
            disk.unlink(&path).await?;
        }
        let file = make_file(disk, &dir.join(&file_name(1)), config.segment_bytes).await?;
        let uuid = uuid_of(&config, 1, Uuid::nil());
        let header = SegmentHeader { uuid, number: 1, segment_bytes: config.segment_bytes };
        header.write(&file).await?;
        sync_names(disk, dir).await?;
        let start = Position::ZERO;
        Ok(Log::with(disk, dir, config, Segment { header, file }, start, Positions::default()))
    }

    /// Goes on with a log that was replayed to its end.
    pub async fn resume(disk: &Disk, dir: &RelPath, config: Config, tail: Tail) -> Result<Log> {
        check(&config)?;
        for path in &tail.unfinished {
            disk.unlink(path).await?;
        }
        rewrite_last_block(disk, &tail).await?;
        let positions = Positions {
            released: Position::new(tail.flushed.segment(), 0),
            flushed: tail.flushed,
            durable: tail.durable,
            appended: tail.durable,
        };
        let mut segments = tail.segments;
        let mut number = tail.end.segment();
        let mut offset = tail.end.offset();
        let last = segments.get(&number).expect("a replay ends in a segment it has read");
        if offset == last.header.segment_bytes {
            (number, offset) = (number + 1, FIRST_BLOCK);
        }
        let after = segments.split_off(&(number + 1)).into_values().next();
        let active = segments.remove(&number).expect("a full segment is followed by another");
        let active = reopened(disk, active).await?;
        let log = Log::with(disk, dir, config, active, tail.end, positions);
        {
            let next = match after {
                Some(next) => Some(reopened(disk, next).await?),
                None => None,
            };
            let mut used = VecDeque::new();
            for segment in segments.into_values() {
                used.push_back(reopened(disk, segment).await?);
            }
            let mut state = log.state.borrow_mut();
            (state.offset, state.next, state.used) = (offset, next, used);
            state.free_before(positions.flushed.segment());
        }
        log.write_restart().await?;
        Ok(log)
    }

    fn with(
        disk: &Disk,
        dir: &RelPath,
        config: Config,
        active: Segment,
        end: Position,
        positions: Positions,
    ) -> Log {
        let state = State {
            active,
            offset: FIRST_BLOCK,
            next: None,
            used: VecDeque::new(),
            free: Vec::new(),
            filling: None,
            full: VecDeque::new(),
            pending_bytes: 0,
            end,
            positions,
            poison: None,
            writing: false,
            preparing: false,
            writer: None,
            preparer: None,
        };
        Log { disk: disk.clone(), dir: dir.clone(), config, state: RefCell::new(state) }
    }

    /// How far each stage has come.
    pub fn positions(&self) -> Positions {
        self.state.borrow().positions
    }

    /// Everything that ends at or before this place may be acknowledged.
    pub fn settled(&self) -> Position {
        let positions = self.positions();
        match self.config.sync {
            SyncMode::Batch if !planted(Bug::AckBeforeSync) => positions.durable,
            _ => positions.appended,
        }
    }

    /// Takes a record; it is durable once `durable` has reached the place that is answered.
    pub fn append(&self, range: u32, sequence: u64, payload: &[u8]) -> Result<Position> {
        let mut state = self.state.borrow_mut();
        state.check_poison()?;
        if payload.len() > self.config.record_bytes_max() {
            let most = self.config.record_bytes_max();
            let what = format!("a mutation of {} bytes, at most {most} are allowed", payload.len());
            return Err(Error::invalid(what));
        }
        let bytes = RECORD_HEADER_BYTES + payload.len();
        if state.pending_bytes + bytes > self.config.pending_bytes_max {
            return Err(Error::Overloaded("bytes waiting for the commit log"));
        }
        if state.room() < bytes {
            state.wake_preparer();
            return Err(Error::Overloaded("commit log segments"));
        }
        let mut head = [0; RECORD_HEADER_BYTES];
        head[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        head[4..8].copy_from_slice(&range.to_le_bytes());
        head[8..].copy_from_slice(&sequence.to_le_bytes());
        state.begin_record();
        state.put(&head);
        state.put(payload);
        let end = state.end_record();
        state.pending_bytes += bytes;
        if let Some(waker) = state.writer.take() {
            waker.wake();
        }
        Ok(end)
    }

    /// Bytes that wait to be written or are being written.
    pub fn pending_bytes(&self) -> usize {
        self.state.borrow().pending_bytes
    }

    /// Waits until there is something to write. One task waits at a time.
    pub async fn until_pending(&self) {
        poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            if state.filling.is_some() || !state.full.is_empty() {
                return Poll::Ready(());
            }
            state.writer = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Writes the oldest block, if there is one, and says up to where records are durable now.
    ///
    /// One call at a time. After an error the log is poisoned: no later call succeeds.
    pub async fn write_pending(&self) -> Result<Position> {
        let block = {
            let mut state = self.state.borrow_mut();
            assert!(!state.writing, "one block is written at a time");
            state.check_poison()?;
            let Some(block) = state.take_block() else {
                return Ok(state.positions.durable);
            };
            state.writing = true;
            block
        };
        let written = self.write_block(block, 0).await;
        let mut state = self.state.borrow_mut();
        state.writing = false;
        match written {
            Ok(()) => Ok(state.positions.durable),
            Err(e) => Err(state.poison(&e)),
        }
    }

    async fn write_block(&self, block: Block, flags: u32) -> Result<()> {
        let Block { segment, offset, mut buf, first, last_end } = block;
        let len = (buf.len() - HEADER_BYTES) as u32;
        let first = first.unwrap_or(len);
        let prior = self.state.borrow().end;
        let header = BlockHeader { uuid: segment.header.uuid, offset, len, prior, first, flags };
        header.finish(&mut buf);
        segment.file.write_at(buf, u64::from(offset)).await?;
        let mut state = self.state.borrow_mut();
        state.end = Position::new(segment.header.number, header.end());
        state.pending_bytes -= len as usize;
        if let Some(end) = last_end {
            assert!(end > state.positions.durable, "the log moves forward");
            state.positions.durable = end;
            if planted(Bug::FreeLogEarly) {
                state.free_before(end.segment());
            }
        }
        state.positions.validate();
        Ok(())
    }

    /// Marks where the log was opened again: what a crash cut off is not continued.
    async fn write_restart(&self) -> Result<()> {
        let last_unit = {
            let state = self.state.borrow();
            state.next.is_none() && state.offset + UNIT == state.active.header.segment_bytes
        };
        if last_unit {
            self.prepare().await?;
        }
        let block = self.state.borrow_mut().open_block(HEADER_BYTES).expect("there is a unit left");
        self.state.borrow_mut().offset = block.offset + UNIT;
        let written = self.write_block(block, RESTART).await;
        written.map_err(|e| self.state.borrow_mut().poison(&e))
    }

    /// The next segment is not ready, and nobody is making it so.
    pub fn needs_segment(&self) -> bool {
        let state = self.state.borrow();
        state.next.is_none() && !state.preparing && state.poison.is_none()
    }

    /// Waits until the next segment has to be prepared. One task waits at a time.
    pub async fn until_segment_needed(&self) {
        poll_fn(|cx| {
            if self.needs_segment() {
                return Poll::Ready(());
            }
            self.state.borrow_mut().preparer = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Makes the next segment ready, so that the log never waits for one. One call at a time.
    ///
    /// `DiskFull` and `Overloaded` (the log's own bound) may pass: the caller tries again after a flush.
    /// Any other error poisons the log.
    pub async fn prepare(&self) -> Result<()> {
        let (number, free) = {
            let mut state = self.state.borrow_mut();
            state.check_poison()?;
            assert!(!state.preparing, "one segment is prepared at a time");
            if state.next.is_some() {
                return Ok(());
            }
            state.preparing = true;
            (state.active.header.number + 1, state.free.pop())
        };
        let prepared = self.prepared(number, free).await;
        let mut state = self.state.borrow_mut();
        state.preparing = false;
        match prepared {
            Ok(segment) => {
                state.next = Some(segment);
                Ok(())
            }
            Err(e @ (Error::DiskFull { .. } | Error::Overloaded(_))) => Err(e),
            Err(e) => Err(state.poison(&e)),
        }
    }

    async fn prepared(&self, number: u32, free: Option<Segment>) -> Result<Segment> {
        let (mut header, file) = match free {
            Some(segment) if segment.header.segment_bytes == self.config.segment_bytes => {
                (segment.header, segment.file)
            }
            other => {
                if let Some(misfit) = other {
                    // The configured size has changed since this one was made.
                    self.disk.unlink(misfit.file.path()).await?;
                    misfit.file.close().await?;
                }
                let segment_bytes = self.config.segment_bytes;
                let path = self.new_path().await?;
                let file = make_file(&self.disk, &path, segment_bytes).await?;
                sync_names(&self.disk, &self.dir).await?;
                (SegmentHeader { uuid: Uuid::nil(), number, segment_bytes }, file)
            }
        };
        header.uuid = uuid_of(&self.config, number, header.uuid);
        header.number = number;
        header.write(&file).await?;
        Ok(Segment { header, file })
    }

    /// A name for one more file, if the log may have one.
    async fn new_path(&self) -> Result<RelPath> {
        let taken = segment_files(&self.disk, &self.dir).await?;
        let bytes = (taken.len() as u64 + 1) * u64::from(self.config.segment_bytes);
        if bytes > self.config.log_bytes_max {
            return Err(Error::Overloaded("bytes of the commit log"));
        }
        let mut n = 1;
        while taken.contains(&self.dir.join(&file_name(n))) {
            n += 1;
        }
        Ok(self.dir.join(&file_name(n)))
    }

    /// Everything before `position` is in sstables that the manifest names durably: segments that hold
    /// nothing else are used again. A caller may not have told the manifest of more than is durable here.
    pub fn mark_flushed(&self, position: Position) {
        let mut state = self.state.borrow_mut();
        assert!(position >= state.positions.flushed, "what is flushed stays flushed");
        state.positions.flushed = position;
        state.positions.released = Position::new(position.segment(), 0);
        state.free_before(position.segment());
        state.positions.validate();
        state.wake_preparer();
    }
}

impl State {
    fn check_poison(&self) -> Result<()> {
        self.poison.as_ref().map_or(Ok(()), |first| Err(Error::poisoned(first)))
    }

    /// Nothing is trusted to this log any more; the first reason is kept.
    fn poison(&mut self, e: &Error) -> Error {
        Error::poisoned(self.poison.get_or_insert_with(|| e.clone()))
    }

    fn wake_preparer(&mut self) {
        if let Some(waker) = self.preparer.take() {
            waker.wake();
        }
    }

    /// Where blocks of the active segment must end. The last unit is kept until the next segment is ready: a
    /// segment that is full proves that there is a next one.
    fn limit(&self) -> u32 {
        self.active.header.segment_bytes - if self.next.is_some() { 0 } else { UNIT }
    }

    /// How many bytes of records can be taken for certain.
    fn room(&self) -> usize {
        let stretch = |from: u32, to: u32| {
            let bytes = to.saturating_sub(from) as usize;
            bytes.saturating_sub(HEADER_BYTES * bytes.div_ceil(LOG_BLOCK_BYTES_MAX))
        };
        let (filling, offset) = match &self.filling {
            Some(block) => (block.buf.room(), block.offset + block.buf.capacity() as u32),
            None => (0, self.offset),
        };
        let next = self.next.as_ref();
        // The next segment's own next is not ready when it becomes active.
        let next = next.map_or(0, |next| stretch(FIRST_BLOCK, next.header.segment_bytes - UNIT));
        filling + stretch(offset, self.limit()) + next
    }

    /// An empty block of at least `bytes` at the next place, in the next segment if this one is full.
    fn open_block(&mut self, bytes: usize) -> Option<Block> {
        if self.offset == self.active.header.segment_bytes {
            let next = self.next.take().expect("a full segment is followed by another");
            self.used.push_back(std::mem::replace(&mut self.active, next));
            self.offset = FIRST_BLOCK;
            self.wake_preparer();
        }
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
    fn filling(&mut self) -> &mut Block {
        if self.filling.is_none() {
            let block = self.open_block(HEADER_BYTES + 1);
            self.filling = Some(block.expect("append has asked for the room"));
        }
        self.filling.as_mut().expect("it was just opened")
    }

    fn begin_record(&mut self) {
        let block = self.filling();
        let at = (block.buf.len() - HEADER_BYTES) as u32;
        block.first.get_or_insert(at);
    }

    fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let block = self.filling();
            let (now, later) = bytes.split_at(bytes.len().min(block.buf.room()));
            block.buf.put(now);
            bytes = later;
            if block.buf.room() == 0 && !bytes.is_empty() {
                self.close_block();
            }
        }
    }

    /// Notes where the record ends; a block that it filled is closed.
    fn end_record(&mut self) -> Position {
        let block = self.filling.as_mut().expect("a record ends in a block");
        let offset = block.offset + block.buf.len() as u32;
        let end = Position::new(block.segment.header.number, offset);
        block.last_end = Some(end);
        if block.buf.room() == 0 {
            self.close_block();
        }
        self.positions.appended = end;
        end
    }

    /// The filling block takes no more; the next one goes right after it.
    fn close_block(&mut self) {
        let block = self.filling.take().expect("only a filling block is closed");
        self.offset = block.offset + (block.buf.len() as u32).next_multiple_of(UNIT);
        self.full.push_back(block);
    }

    fn take_block(&mut self) -> Option<Block> {
        if self.full.is_empty() && self.filling.is_some() {
            self.close_block();
        }
        self.full.pop_front()
    }

    /// Moves the used segments before this one to the free ones.
    fn free_before(&mut self, number: u32) {
        while self.used.front().is_some_and(|first| first.header.number < number) {
            self.free.extend(self.used.pop_front());
        }
    }
}

fn check(config: &Config) -> Result<()> {
    let bytes = config.segment_bytes;
    if bytes < SEGMENT_BYTES_MIN || !bytes.is_multiple_of(UNIT) {
        let what = format!(
            "a log segment of {bytes} bytes: whole units of {UNIT}, at least {SEGMENT_BYTES_MIN}"
        );
        return Err(Error::invalid(what));
    }
    if config.log_bytes_max < 2 * u64::from(bytes) {
        return Err(Error::invalid("a log has room for two segments at least"));
    }
    Ok(())
}

fn file_name(n: u32) -> String {
    format!("{n:06}.log")
}

/// Never the same twice: `old` is what the file had before.
fn uuid_of(config: &Config, number: u32, old: Uuid) -> Uuid {
    let mut bytes = old.as_bytes().to_vec();
    bytes.extend_from_slice(&number.to_le_bytes());
    Uuid::from_u128(xxh3_128_with_seed(&bytes, config.seed))
}

/// Makes a file of zeros that is all on the disk, and opens it for durable writes.
///
/// The zeros are written and not only reserved: a write to reserved space changes the filesystem's own data too.
async fn make_file(disk: &Disk, path: &RelPath, bytes: u32) -> Result<File> {
    let file = disk.create(path).await?;
    let filled = fill(&file, bytes).await;
    file.close().await?;
    match filled {
        Ok(()) => disk.open_log(path).await,
        Err(e) => {
            disk.unlink(path).await?;
            Err(e)
        }
    }
}

async fn fill(file: &File, bytes: u32) -> Result<()> {
    file.allocate(u64::from(bytes)).await?;
    let mut offset = 0;
    while offset < bytes {
        let len = (bytes - offset).min(LOG_ZERO_BYTES as u32);
        let mut zeros = file.buf(len as usize);
        zeros.put_zeros(len as usize);
        file.write_at(zeros, u64::from(offset)).await?;
        offset += len;
    }
    file.sync().await
}

async fn sync_names(disk: &Disk, dir: &RelPath) -> Result<()> {
    if planted(Bug::NoDirectorySync) {
        return Ok(());
    }
    disk.sync_dir(dir).await
}

/// The same segment, opened for durable writes.
async fn reopened(disk: &Disk, segment: Segment) -> Result<Segment> {
    let path = segment.file.path().clone();
    segment.file.close().await?;
    Ok(Segment { header: segment.header, file: disk.open_log(&path).await? })
}

/// The last block may have been readable without being durable (the process died between the two). What
/// was read is kept, so it is written again. Every block before it is claimed durable by the next one.
async fn rewrite_last_block(disk: &Disk, tail: &Tail) -> Result<()> {
    let Some((at, bytes)) = tail.last_block else { return Ok(()) };
    let segment = &tail.segments[&at.segment()];
    let file = disk.open_log(segment.file.path()).await?;
    let old = file.read_exact_at(u64::from(at.offset()), bytes as usize).await?;
    let header = BlockHeader::glance(&segment.header, at.offset(), &old);
    if !header.is_some_and(|header| header.verify(&old)) {
        let what = "a block that was read a moment ago does not verify now";
        return Err(Error::corrupt(file.path().as_str(), u64::from(at.offset()), what));
    }
    let mut buf = file.buf(old.len());
    buf.put(&old);
    drop(old);
    file.write_at(buf, u64::from(at.offset())).await?;
    file.close().await
}
