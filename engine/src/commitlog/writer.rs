//! The writing end of the log: blocks fill, one write is in flight, segments come and go.
//!
//! Steps of a commit: 1. `append` copies the record into the filling block; 2. `write_pending` closes the
//! oldest block, writes it, and moves `durable`; 3. every writer that waits for a position at or before that is answered.
//! Steps of a segment: made (zero-filled, a few ahead) ─► free ─► prepared (header with a new number) ─► active ─► used
//! ─► free again, once all of it is flushed. A file that has no header yet is deleted at the next start; so is a
//! segment which nothing needs and which has another size than new ones.
//!
//! Between two awaits the state is consistent; no borrow is held across one.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::Poll;

use uuid::Uuid;

use super::files::{
    delete_odd_sized, file_name, make_file, reopened, segment_files, sync_names, uuid_of,
};
use super::replay::Tail;
use super::segment::{
    BlockHeader, FIRST_BLOCK, HEADER_BYTES, RECORD_HEADER_BYTES, RESTART, Segment, SegmentHeader,
    UNIT,
};
use super::state::{Block, State};
use super::{Config, Position, Positions, SyncMode};
use crate::error::{Error, Result};
use crate::io::{Disk, IoClass, RelPath};
use crate::limits::SEGMENT_BYTES_MIN;
use crate::planted::{Bug, planted};

/// The commit log of one shard, being written.
#[derive(Debug)]
pub struct Log {
    disk: Disk,
    dir: RelPath,
    config: Config,
    state: RefCell<State>,
}

impl Log {
    /// Makes a new log in `dir`, an existing directory. What an interrupted making left there is deleted.
    pub async fn create(disk: &Disk, dir: &RelPath, config: Config) -> Result<Log> {
        check(&config)?;
        for path in segment_files(disk, dir).await? {
            disk.unlink(&path).await?;
        }
        let file = make_file(disk, &dir.join(&file_name(1)), config.segment_bytes, IoClass::Commit)
            .await?;
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
        let positions = Positions {
            released: Position::new(tail.flushed.segment(), 0),
            flushed: tail.flushed,
            durable: tail.durable,
            appended: tail.durable,
        };
        let mut segments = tail.segments;
        let mut number = tail.end.segment();
        let mut offset = tail.end.offset();
        assert!(tail.flushed <= tail.end, "a log ends behind what was flushed");
        let last = segments.get(&number).expect("a replay ends in a segment it has read");
        if offset == last.header.segment_bytes {
            (number, offset) = (number + 1, FIRST_BLOCK);
        }
        let needed = tail.flushed.segment()..=number;
        delete_odd_sized(disk, &mut segments, needed, config.segment_bytes).await?;
        // A process that was killed may have made a file and not synced its name, which is relied on from here on.
        sync_names(disk, dir).await?;
        let after = segments.split_off(&(number + 1)).into_values().next();
        let active = segments.remove(&number).expect("a full segment is followed by another");
        let active = reopened(disk, active).await?;
        let log = Log::with(disk, dir, config, active, tail.end, positions);
        {
            let next = match after {
                Some(next) => {
                    let next = reopened(disk, next).await?;
                    // It may be readable and not durable, for the same reason.
                    next.header.write(&next.file).await?;
                    Some(next)
                }
                None => None,
            };
            let mut used = Vec::new();
            for segment in segments.into_values() {
                used.push(reopened(disk, segment).await?);
            }
            let mut state = log.state.borrow_mut();
            state.go_on_at(offset, next, used);
            (state.reopened, state.claimed) = (true, false);
            state.free_before(positions.flushed.segment());
        }
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
        positions.validate();
        assert!(positions.durable <= end, "records end in blocks: {positions:?} and {end}");
        let state = State::new(active, end, positions);
        Log { disk: disk.clone(), dir: dir.clone(), config, state: RefCell::new(state) }
    }

    /// How far each stage has come.
    pub fn positions(&self) -> Positions {
        self.state.borrow().positions
    }

    /// Whether half of the log's space is used: flushing from here on frees segments in time.
    pub(crate) fn is_long(&self) -> bool {
        self.state.borrow().needed_bytes() > self.config.log_bytes_max / 2
    }

    /// The size of new segments, in bytes.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.config.segment_bytes.into()
    }

    /// Whether a segment is there that can be the next one.
    pub(crate) fn has_free_segment(&self) -> bool {
        self.state.borrow().has_free_segment(self.config.segment_bytes)
    }

    /// When writes may be acknowledged.
    pub fn sync_mode(&self) -> SyncMode {
        self.config.sync
    }

    /// Everything that ends at or before this place may be acknowledged.
    pub fn acknowledgeable(&self) -> Position {
        let positions = self.positions();
        match self.config.sync {
            SyncMode::Batch if !planted(Bug::AckBeforeSync) => positions.durable,
            _ => positions.appended,
        }
    }

    /// Whether a record may have so many bytes.
    pub(crate) fn check_bytes(&self, bytes: usize) -> Result<()> {
        let most = self.config.record_bytes_max();
        match bytes <= most {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "a mutation of {bytes} bytes, at most {most} are allowed"
            ))),
        }
    }

    /// Takes a record; it is durable once `durable` has reached the place that is answered.
    pub fn append(&self, range: u32, sequence: u64, payload: &[u8]) -> Result<Position> {
        let mut state = self.state.borrow_mut();
        state.check_poison()?;
        self.check_bytes(payload.len())?;
        let bytes = RECORD_HEADER_BYTES + payload.len();
        if state.pending_bytes + bytes > self.config.pending_bytes_max {
            return Err(Error::Overloaded("bytes waiting for the commit log"));
        }
        if state.space() < bytes {
            // Who prepares segments is woken by what lets it go on. Woken here, too, it would run each time a record
            // that waits is tried, and the core would do nothing else.
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
            if state.filling.is_some() || !state.full.is_empty() || state.claim_asked {
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
        let (block, claim_asked) = {
            let mut state = self.state.borrow_mut();
            assert!(state.writing.is_none(), "one block is written at a time");
            state.check_poison()?;
            let block = state.take_block();
            state.writing = block.as_ref().map(|block| block.segment.header.number);
            (block, std::mem::take(&mut state.claim_asked))
        };
        let Some(block) = block else {
            if claim_asked {
                self.claim().await?;
            }
            return Ok(self.positions().durable);
        };
        let written = self.write_block(block).await;
        let mut state = self.state.borrow_mut();
        state.writing = None;
        if state.needs_segment() {
            state.wake_preparer();
        }
        match written {
            Ok(()) => Ok(state.positions.durable),
            Err(error) => Err(state.poison(&error)),
        }
    }

    async fn write_block(&self, block: Block) -> Result<()> {
        let Block { segment, offset, mut buf, first, last_end } = block;
        let len = (buf.len() - HEADER_BYTES) as u32;
        let first = first.unwrap_or(len);
        let (prior, flags) = {
            let state = self.state.borrow();
            (state.end, if state.reopened { RESTART } else { 0 })
        };
        let begin = Position::new(segment.header.number, offset);
        assert!(prior <= begin, "a block at {begin} overwrites the one that ends at {prior}");
        let header = BlockHeader { uuid: segment.header.uuid, offset, len, prior, first, flags };
        header.finish(&mut buf);
        segment.file.write_at(buf, u64::from(offset)).await?;
        let mut state = self.state.borrow_mut();
        let end = Position::new(segment.header.number, header.end());
        assert!(state.end == prior && prior < end, "blocks are written one after the other");
        state.end = end;
        assert!(state.pending_bytes >= len as usize, "what is written was pending");
        state.pending_bytes -= len as usize;
        state.claimed = len == 0;
        state.reopened = false;
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

    /// Asks for a claim, which the task that writes the log makes when it has nothing else to write.
    pub fn ask_claim(&self) {
        let mut state = self.state.borrow_mut();
        if state.claimed || state.poison.is_some() {
            return;
        }
        state.claim_asked = true;
        if let Some(waker) = state.writer.take() {
            waker.wake();
        }
    }

    /// Proves with an empty block that the last one was durable, so that damage to it is not taken for a torn
    /// tail. For a log that has nothing else to do: nothing may be pending. Without space it does nothing.
    pub async fn claim(&self) -> Result<()> {
        {
            let state = self.state.borrow();
            state.check_poison()?;
            if state.claimed || state.pending_bytes > 0 {
                return Ok(());
            }
        }
        self.write_empty().await
    }

    async fn write_empty(&self) -> Result<()> {
        let block = {
            let mut state = self.state.borrow_mut();
            assert!(state.writing.is_none(), "one block is written at a time");
            assert_eq!(
                state.pending_bytes, 0,
                "a claim is made when nothing else is to be written"
            );
            let Some(block) = state.open_block(HEADER_BYTES) else { return Ok(()) };
            state.offset = block.offset + UNIT;
            state.writing = Some(block.segment.header.number);
            block
        };
        let written = self.write_block(block).await;
        let mut state = self.state.borrow_mut();
        state.writing = None;
        match written {
            Ok(()) => Ok(()),
            Err(error) => Err(state.poison(&error)),
        }
    }

    /// The next segment is not ready, no task is making it so, and the one before is all written.
    pub fn needs_segment(&self) -> bool {
        self.state.borrow().needs_segment()
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
        let number = {
            let mut state = self.state.borrow_mut();
            state.check_poison()?;
            assert!(!state.preparing, "one segment is prepared at a time");
            if !state.needs_segment() {
                return Ok(());
            }
            state.preparing = true;
            state.active.header.number + 1
        };
        let prepared = self.prepared(number).await;
        let mut state = self.state.borrow_mut();
        state.preparing = false;
        state.wake_preparer();
        match prepared {
            Ok(segment) => {
                assert!(state.next.is_none(), "one segment is prepared at a time");
                let active = state.active.header.number;
                assert_eq!(segment.header.number, active + 1, "segments follow one another");
                state.next = Some(segment);
                Ok(())
            }
            Err(error @ (Error::DiskFull { .. } | Error::Overloaded(_))) => Err(error),
            Err(error) => Err(state.poison(&error)),
        }
    }

    /// The segment of this number: one that is free, or a new one.
    async fn prepared(&self, number: u32) -> Result<Segment> {
        let Segment { mut header, file } = match self.free_segment().await? {
            Some(segment) => segment,
            None => self.made(IoClass::Commit).await?,
        };
        header.uuid = uuid_of(&self.config, number, header.uuid);
        header.number = number;
        header.write(&file).await?;
        Ok(Segment { header, file })
    }

    /// A free segment, if there is one. Those that have another size than new ones are deleted before, also those that
    /// became free meanwhile.
    async fn free_segment(&self) -> Result<Option<Segment>> {
        loop {
            let odd_sized = {
                let mut state = self.state.borrow_mut();
                let Some(odd_sized) = state.take_odd_sized(self.config.segment_bytes) else {
                    return Ok(state.free.pop());
                };
                odd_sized
            };
            if let Err(error) = self.disk.unlink(odd_sized.file.path()).await {
                self.state.borrow_mut().free.push(odd_sized);
                return Err(error);
            }
            self.state.borrow_mut().files_bytes -= u64::from(odd_sized.header.segment_bytes);
            odd_sized.file.close().await?;
        }
    }

    /// A new file of zeros: a segment without a number.
    async fn made(&self, class: IoClass) -> Result<Segment> {
        let segment_bytes = self.config.segment_bytes;
        let path = self.new_path().await?;
        let file = make_file(&self.disk, &path, segment_bytes, class).await?;
        self.state.borrow_mut().files_bytes += u64::from(segment_bytes);
        sync_names(&self.disk, &self.dir).await?;
        Ok(Segment { header: SegmentHeader { uuid: Uuid::nil(), number: 0, segment_bytes }, file })
    }

    /// Waits until it pays to fill a segment before it is needed. One task waits at a time.
    pub async fn until_filling_pays(&self) {
        poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            if state.wants_filled(&self.config) {
                return Poll::Ready(());
            }
            state.filler = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Fills a segment before it is needed, if that pays. One call at a time; errors as of [`prepare`](Self::prepare).
    pub async fn fill_ahead(&self) -> Result<()> {
        {
            let mut state = self.state.borrow_mut();
            state.check_poison()?;
            if !state.wants_filled(&self.config) {
                return Ok(());
            }
            state.filling_ahead = true;
        }
        let made = self.made(IoClass::Flush).await;
        let mut state = self.state.borrow_mut();
        state.filling_ahead = false;
        state.wake_preparer();
        match made {
            Ok(segment) => {
                state.free.push(segment);
                Ok(())
            }
            Err(error @ (Error::DiskFull { .. } | Error::Overloaded(_))) => Err(error),
            Err(error) => Err(state.poison(&error)),
        }
    }

    /// A name for one more file, if the log may have one.
    async fn new_path(&self) -> Result<RelPath> {
        if !self.state.borrow().may_grow(&self.config) {
            return Err(Error::Overloaded("bytes of the commit log"));
        }
        let taken = segment_files(&self.disk, &self.dir).await?;
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
        assert!(position <= state.positions.durable, "what is flushed was durable");
        state.positions.flushed = position;
        state.positions.released = Position::new(position.segment(), 0);
        state.free_before(position.segment());
        state.positions.validate();
        state.wake_preparer();
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
        return Err(Error::invalid("a log has space for two segments at least"));
    }
    Ok(())
}
