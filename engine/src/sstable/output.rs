//! A file written from front to back in large aligned pieces.
//!
//! 1. The caller appends to `staged`, which never waits.
//! 2. `drain` writes whole pieces of `SSTABLE_WRITE_BYTES` and keeps the rest. The file is made at the first write, so
//!    what stays empty leaves no trace.
//! 3. `finish` writes the rest, syncs and closes the file, and syncs its directory. `finish_unsynced` is for files that
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

/// The file and what has not been written to it.
#[derive(Debug)]
pub(crate) struct Output {
    disk: Disk,
    path: RelPath,
    class: IoClass,
    file: Option<File>,
    staged: Vec<u8>,
    written: u64,
}

impl Output {
    pub(crate) fn new(disk: Disk, path: RelPath) -> Output {
        Output { disk, path, class: IoClass::Flush, file: None, staged: Vec::new(), written: 0 }
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
        let mut buf = file.buf(bytes);
        buf.put(&self.staged[from..from + bytes]);
        file.write_at(buf, self.written).await?;
        self.written += bytes as u64;
        Ok(())
    }
}
