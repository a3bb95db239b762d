//! Sorted runs of terms and places, in memory or in a file, and the merge of them.
//!
//! ```text
//! run   := frame(kind 12)*                     in a file that is read once, from front to back
//! frame := (index:varint term:bytes place)*
//! ```
//!
//! A run lives no longer than the making of the index files: the next start deletes what a crash
//! has left.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use model::bytes::{Cursor, put_bytes, put_varint};

use super::place::Place;
use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::io::{Disk, File, IoClass, RelPath};
use crate::limits::{JOB_STEP_BYTES, WRITE_ALIGN_BYTES};
use crate::pause::Pause;
use crate::sstable::Codec;
use crate::sstable::frame::{Framer, HEAD_BYTES, Kind, length_of, seal};
use crate::sstable::output::Output;
use crate::sstable::window::Window;

/// A frame of a run is closed at so many bytes.
const FRAME_BYTES: usize = 16 << 10;

/// A term of an index, and one place where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Found {
    pub(super) index: u16,
    pub(super) term: Vec<u8>,
    pub(super) place: Place,
}

/// A run in a file.
#[derive(Debug)]
pub(super) struct RunFile {
    pub(super) path: RelPath,
    /// Where the frames end.
    pub(super) bytes: u64,
    /// How many merges it has come out of.
    pub(super) level: u32,
    pub(super) seed: u64,
}

/// A run being read, or still in memory.
pub(super) enum Run {
    Memory(std::vec::IntoIter<Found>),
    File(RunReader),
}

/// Reads a run of a file.
pub(super) struct RunReader {
    file: File,
    end: u64,
    seed: u64,
    offset: u64,
    window: Window,
    frame: Vec<u8>,
    at: usize,
}

impl Run {
    /// Opens a run of a file.
    pub(super) async fn open(disk: &Disk, run: &RunFile, class: IoClass) -> Result<Run> {
        let file = disk.open(&run.path).await?.of_class(class);
        let window = Window::of_check(class);
        let (end, seed) = (run.bytes, run.seed);
        Ok(Run::File(RunReader { file, end, seed, offset: 0, window, frame: Vec::new(), at: 0 }))
    }

    async fn next(&mut self, cache: &BlockCache) -> Result<Option<Found>> {
        match self {
            Run::Memory(found) => Ok(found.next()),
            Run::File(reader) => reader.next(cache).await,
        }
    }

    async fn close(self) -> Result<()> {
        match self {
            Run::Memory(_) => Ok(()),
            Run::File(reader) => reader.file.close().await,
        }
    }
}

impl RunReader {
    async fn next(&mut self, cache: &BlockCache) -> Result<Option<Found>> {
        if self.at == self.frame.len() {
            if self.offset == self.end {
                return Ok(None);
            }
            self.read_frame(cache).await?;
        }
        let mut cursor = Cursor::new(&self.frame[self.at..]);
        let found = read(&mut cursor).map_err(|_| self.corrupt("an entry of a run"))?;
        self.at = self.frame.len() - cursor.rest().len();
        Ok(Some(found))
    }

    async fn read_frame(&mut self, cache: &BlockCache) -> Result<()> {
        let (offset, end) = (self.offset, self.end);
        if self.window.frame(offset, HEAD_BYTES).is_none() {
            self.window.read(&self.file, offset, HEAD_BYTES, end).await?;
        }
        let bytes = self.window.frame(offset, HEAD_BYTES).and_then(length_of);
        let bytes = bytes.filter(|bytes| *bytes as u64 <= end - offset);
        let bytes = bytes.ok_or_else(|| self.corrupt("a frame of a run"))?;
        if self.window.frame(offset, bytes).is_none() {
            self.window.read(&self.file, offset, bytes, end).await?;
        }
        let frame = self.window.frame(offset, bytes).expect("it was just read");
        let opened = cache.opener().open(frame, Kind::Run, self.seed, offset);
        self.frame = opened.map_err(|what| self.corrupt(what))?;
        (self.at, self.offset) = (0, offset + bytes as u64);
        Ok(())
    }

    #[cold]
    fn corrupt(&self, what: &'static str) -> Error {
        Error::corrupt(self.file.path().as_str(), self.offset, what)
    }
}

fn read(cursor: &mut Cursor<'_>) -> model::Result<Found> {
    let malformed = |_| model::Error::Malformed("run");
    let index = u16::try_from(cursor.varint()?).map_err(|_| model::Error::Malformed("run"))?;
    let term = cursor.bytes()?.to_vec();
    let place = Place::read(Place::default(), cursor).map_err(malformed)?;
    Ok(Found { index, term, place })
}

/// Several runs as one.
pub(super) struct Merged {
    runs: Vec<Run>,
    heap: BinaryHeap<Reverse<(Found, usize)>>,
    cache: std::rc::Rc<BlockCache>,
    /// Since the last pause.
    work_bytes: usize,
}

impl Merged {
    pub(super) async fn of(mut runs: Vec<Run>) -> Result<Merged> {
        let cache = BlockCache::new(0);
        let mut heap = BinaryHeap::with_capacity(runs.len());
        for (at, run) in runs.iter_mut().enumerate() {
            if let Some(first) = run.next(&cache).await? {
                heap.push(Reverse((first, at)));
            }
        }
        Ok(Merged { runs, heap, cache, work_bytes: 0 })
    }

    /// Which index comes next.
    pub(super) fn index(&self) -> Option<u16> {
        self.heap.peek().map(|Reverse((found, _))| found.index)
    }

    /// The next of all; `pause` is awaited when so much was done as is done at once.
    pub(super) async fn next(&mut self, pause: &dyn Pause) -> Result<Option<Found>> {
        let Some(Reverse((found, at))) = self.heap.pop() else { return Ok(None) };
        if let Some(next) = self.runs[at].next(&self.cache).await? {
            self.heap.push(Reverse((next, at)));
        }
        self.work_bytes += found.term.len() + crate::limits::JOB_ENTRY_COST_BYTES;
        if self.work_bytes >= JOB_STEP_BYTES {
            self.work_bytes = 0;
            pause.take().await;
        }
        Ok(Some(found))
    }

    /// Closes the files.
    pub(super) async fn close(self) -> Result<()> {
        for run in self.runs {
            run.close().await?;
        }
        Ok(())
    }
}

/// Writes a run to a file.
pub(super) struct RunWriter {
    output: Output,
    framer: Framer,
    seed: u64,
    raw: Vec<u8>,
}

impl RunWriter {
    pub(super) fn new(disk: &Disk, path: &RelPath, class: IoClass, seed: u64) -> RunWriter {
        let output = Output::new(disk.clone(), path.clone()).of_class(class);
        RunWriter { output, framer: Framer::new(Codec::Lz4), seed, raw: Vec::new() }
    }

    pub(super) async fn put(&mut self, found: &Found) -> Result<()> {
        put_varint(&mut self.raw, u64::from(found.index));
        put_bytes(&mut self.raw, &found.term);
        found.place.put(Place::default(), &mut self.raw);
        if self.raw.len() >= FRAME_BYTES {
            self.end_frame();
            self.output.drain().await?;
        }
        Ok(())
    }

    fn end_frame(&mut self) {
        let offset = self.output.offset();
        let staged = self.output.staged();
        let from = staged.len();
        self.framer.put(Kind::Run, &self.raw, staged);
        seal(&mut staged[from..], self.seed, offset);
        self.raw.clear();
    }

    /// Ends the file; gives where its frames end.
    pub(super) async fn finish(mut self) -> Result<u64> {
        if !self.raw.is_empty() {
            self.end_frame();
        }
        let end = self.output.offset();
        let padded = (end as usize).next_multiple_of(WRITE_ALIGN_BYTES);
        let zeros = padded - end as usize;
        let staged = self.output.staged();
        staged.resize(staged.len() + zeros, 0);
        self.output.finish_unsynced().await?;
        Ok(end)
    }

    pub(super) async fn abandon(self) -> Result<()> {
        self.output.abandon().await
    }
}
