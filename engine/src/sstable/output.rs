//! A file written from front to back in large aligned pieces.
//!
//! 1. The caller appends to `staged`, which never waits.
//! 2. `drain` writes whole pieces of `SSTABLE_WRITE_BYTES` and keeps the rest. The file is made at the first write, so
//!    what stays empty leaves no trace.
//! 3. Once the file is longer than `AHEAD_FROM_BYTES`, its space is allocated ahead, several pieces at a time: a write
//!    that makes a file longer is handed to a thread of the kernel, a task switch there and back. `finish` gives back
//!    what was not needed. Only space that the file was promised is allocated (`may_take`), and it is only a help: where
//!    it is refused, the file goes on without.
//! 4. `finish` writes the rest, syncs and closes the file, and syncs its directory. `finish_unsynced` is for files that
//!    no later life reads. `abandon` closes and unlinks the file.
//!
//! Invariants
//! 1. Each write is aligned and goes to the end of what is written. The caller pads, so that the rest is aligned, too.
//! 2. What is staged is in memory: the caller drains when `is_full`.
//!
//! Not here: what is written (`writer.rs`, `index/writer.rs`), and the check that reads it back (`verify.rs`).

use crate::error::Result;
use crate::io::{Disk, File, IoClass, RelPath};
use crate::limits::{SSTABLE_WRITE_BYTES, WRITE_ALIGN_BYTES};

/// A file that is longer gets space ahead, in bytes.
const AHEAD_FROM_BYTES: u64 = 4 * SSTABLE_WRITE_BYTES as u64;
/// Bytes of disk that a file takes ahead of what is written, at most.
const AHEAD_BYTES_MAX: u64 = 32 * SSTABLE_WRITE_BYTES as u64;

/// The file and what has not been written to it.
#[derive(Debug)]
pub(crate) struct Output {
    disk: Disk,
    path: RelPath,
    class: IoClass,
    file: Option<File>,
    staged: Vec<u8>,
    written: u64,
    /// Bytes of the disk that the file may take ahead of time.
    promised_bytes: u64,
    ahead: Ahead,
}

/// How far the file reaches beyond what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ahead {
    /// It ends where the last piece ended.
    Nothing,
    /// The file has space for this many bytes.
    Until(u64),
    /// The space was refused: a part of it may be allocated.
    Refused,
}

impl Output {
    pub(crate) fn new(disk: Disk, path: RelPath) -> Output {
        let (class, ahead) = (IoClass::Flush, Ahead::Nothing);
        let (written, promised_bytes) = (0, 0);
        Output { disk, path, class, file: None, staged: Vec::new(), written, promised_bytes, ahead }
    }

    /// The same with all requests of this class.
    pub(crate) fn of_class(self, class: IoClass) -> Output {
        Output { class, ..self }
    }

    pub(crate) fn class(&self) -> IoClass {
        self.class
    }

    pub(crate) fn path(&self) -> &RelPath {
        &self.path
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Where the next byte goes.
    pub(crate) fn offset(&self) -> u64 {
        self.written + self.staged.len() as u64
    }

    /// From now on the file may take so many bytes of the disk in all before they are written; 0 at first.
    pub(crate) fn may_take(&mut self, promised_bytes: u64) {
        self.promised_bytes = promised_bytes;
    }

    /// Bytes that the file has on the disk, or will have when what is staged is written.
    pub(crate) fn held_bytes(&self) -> u64 {
        match self.ahead {
            Ahead::Until(end) => end.max(self.offset()),
            Ahead::Nothing | Ahead::Refused => self.offset(),
        }
    }

    /// Bytes to append to.
    pub(crate) fn staged(&mut self) -> &mut Vec<u8> {
        &mut self.staged
    }

    /// Whether a piece is full.
    pub(crate) fn is_full(&self) -> bool {
        self.staged.len() >= SSTABLE_WRITE_BYTES
    }

    /// Writes every full piece.
    pub(crate) async fn drain(&mut self) -> Result<()> {
        let mut done = 0;
        while self.staged.len() - done >= SSTABLE_WRITE_BYTES {
            self.write(done, SSTABLE_WRITE_BYTES).await?;
            done += SSTABLE_WRITE_BYTES;
        }
        self.staged.drain(..done);
        assert!(!self.is_full(), "every full piece is written");
        Ok(())
    }

    /// Writes the rest, which ends at an aligned offset, and makes the file and its name durable.
    pub(crate) async fn finish(mut self) -> Result<u64> {
        let Some(file) = self.write_rest().await? else { return Ok(0) };
        file.sync().await?;
        file.close().await?;
        self.disk.sync_dir(&self.path.parent()).await?;
        Ok(self.written)
    }

    /// Writes the rest of a file that is not kept beyond this life.
    pub(crate) async fn finish_unsynced(mut self) -> Result<u64> {
        let Some(file) = self.write_rest().await? else { return Ok(0) };
        file.close().await?;
        Ok(self.written)
    }

    async fn write_rest(&mut self) -> Result<Option<File>> {
        let end = self.offset();
        self.drain().await?;
        let rest = self.staged.len();
        if rest > 0 {
            self.write(0, rest).await?;
        }
        assert!(self.file.is_none() || self.written == end, "all that was staged is written");
        if let Some(file) = &self.file
            && self.ahead != Ahead::Nothing
        {
            file.set_len(end).await?;
        }
        Ok(self.file.take())
    }

    /// Removes what was written.
    pub(crate) async fn abandon(mut self) -> Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let closed = file.close().await;
        self.disk.unlink(&self.path).await?;
        closed
    }

    async fn write(&mut self, from: usize, bytes: usize) -> Result<()> {
        assert!(bytes.is_multiple_of(WRITE_ALIGN_BYTES), "pieces are aligned");
        let file = match &self.file {
            Some(file) => file,
            None => {
                let file = self.disk.create(&self.path).await?;
                self.file.insert(file.of_class(self.class))
            }
        };
        let end = self.written + bytes as u64;
        self.ahead = self.ahead.reach(file, self.written, end, self.promised_bytes).await;
        let mut buf = file.buf(bytes);
        buf.put(&self.staged[from..from + bytes]);
        file.write_at(buf, self.written).await?;
        self.written = end;
        Ok(())
    }
}

impl Ahead {
    /// Called before the file, which has `written` bytes, is written up to `end`. Where its space does not reach `end`,
    /// allocates as many bytes behind `end` as lie before it, at most `AHEAD_BYTES_MAX`, and none beyond what was promised.
    async fn reach(self, file: &File, written: u64, end: u64, promised_bytes: u64) -> Ahead {
        let is_enough = match self {
            Ahead::Nothing => end <= AHEAD_FROM_BYTES,
            Ahead::Until(allocated) => end <= allocated,
            Ahead::Refused => true,
        };
        let until = (end + end.min(AHEAD_BYTES_MAX)).min(promised_bytes);
        if is_enough || until <= end {
            return self;
        }
        if file.allocate(until).await.is_ok() {
            return Ahead::Until(until);
        }
        // A part of it may have been allocated. If this fails, too, the end of the file comes when it is finished.
        let _ = file.set_len(written).await;
        Ahead::Refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::io::{Crash, Faults, SimDisk, SimExec};

    const PIECE: u64 = SSTABLE_WRITE_BYTES as u64;

    fn path() -> RelPath {
        RelPath::root().join("file")
    }

    /// Writes so many pieces and half of one, on a disk of so many bytes: what the file had of the disk after each.
    /// All of these may be taken ahead.
    fn written(pieces: u64, quota_bytes: u64) -> (SimDisk, Result<u64>, Vec<u64>) {
        written_within(pieces, quota_bytes, u64::MAX)
    }

    /// The same where so many bytes may be taken ahead.
    fn written_within(
        pieces: u64,
        quota_bytes: u64,
        promised_bytes: u64,
    ) -> (SimDisk, Result<u64>, Vec<u64>) {
        let sim = SimDisk::new(1, Faults { quota_bytes: Some(quota_bytes), ..Faults::default() });
        let disk = sim.clone();
        let write = async move {
            let mut output = Output::new(Disk::Sim(disk.clone()), path());
            output.may_take(promised_bytes);
            let mut used = Vec::new();
            for piece in 0..pieces {
                output.staged().extend(std::iter::repeat_n(piece as u8 + 1, SSTABLE_WRITE_BYTES));
                if let Err(error) = output.drain().await {
                    output.abandon().await.unwrap();
                    return (Err(error), used);
                }
                used.push(disk.used_bytes());
                assert_eq!(output.held_bytes().max(disk.used_bytes()), output.held_bytes());
            }
            output.staged().extend(std::iter::repeat_n(0xFF, SSTABLE_WRITE_BYTES / 2));
            (output.finish().await, used)
        };
        let (end, used) = SimExec::new(1).run(write).done();
        (sim, end, used)
    }

    fn expected(pieces: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for piece in 0..pieces {
            bytes.extend(std::iter::repeat_n(piece as u8 + 1, SSTABLE_WRITE_BYTES));
        }
        bytes.extend(std::iter::repeat_n(0xFF, SSTABLE_WRITE_BYTES / 2));
        bytes
    }

    /// A long file has space ahead, as much as it has at most, and none when it is finished, also after a power cut.
    #[test]
    fn a_long_file_is_allocated_ahead_and_ends_where_it_was_written() {
        let pieces = 80;
        let (sim, end, used) = written(pieces, u64::MAX);
        assert_eq!(end, Ok(pieces * PIECE + PIECE / 2));
        for (written, &used) in (1..).map(|piece| piece * PIECE).zip(&used) {
            assert!(used - written <= written.min(AHEAD_BYTES_MAX), "{used} for {written}");
            assert!(written > AHEAD_FROM_BYTES || used == written, "{used} for {written}");
        }
        let mut grown = used;
        grown.dedup();
        assert!(grown.len() < 12, "{grown:?} in {pieces} pieces");
        assert_eq!(sim.bytes(&path()).unwrap(), expected(pieces));
        for seed in 0..20 {
            let after = sim.crash(seed, Crash::Random);
            assert_eq!(after.bytes(&path()).unwrap(), expected(pieces));
        }
    }

    /// What was promised to a file is all that it takes before it is written: no flush that keeps to its promise asks
    /// for more, and the space of others stays free.
    #[test]
    fn no_more_is_allocated_ahead_than_was_promised() {
        let pieces = 20;
        for promised_bytes in [0, 3 * PIECE, 5 * PIECE, 11 * PIECE + 4096, 20 * PIECE, 25 * PIECE] {
            let (sim, end, used) = written_within(pieces, u64::MAX, promised_bytes);
            assert_eq!(end, Ok(pieces * PIECE + PIECE / 2));
            for (written, used) in (1..).map(|piece| piece * PIECE).zip(used) {
                assert!(used <= written.max(promised_bytes), "{used} for {written}");
            }
            assert_eq!(sim.bytes(&path()).unwrap(), expected(pieces));
        }
    }

    /// A short file takes what is written to it.
    #[test]
    fn a_short_file_is_not_allocated_ahead() {
        let (_, end, used) = written(4, u64::MAX);
        assert_eq!(end, Ok(4 * PIECE + PIECE / 2));
        assert_eq!(used, [PIECE, 2 * PIECE, 3 * PIECE, 4 * PIECE]);
    }

    /// What is refused ahead is only a help: the file takes the disk's last byte, and one that does not fit is refused.
    #[test]
    fn a_disk_without_space_ahead_takes_what_is_written() {
        for pieces in [1, 3, 4, 5, 8, 9, 30] {
            let bytes = pieces * PIECE + PIECE / 2;
            let (sim, end, _) = written(pieces, bytes);
            assert_eq!((end, sim.used_bytes()), (Ok(bytes), bytes));
            assert_eq!(sim.bytes(&path()).unwrap(), expected(pieces));
            let (sim, end, _) = written(pieces, bytes - 1);
            assert!(matches!(end, Err(Error::DiskFull { .. })), "{end:?}");
            assert!(sim.used_bytes() < bytes);
        }
    }
}
