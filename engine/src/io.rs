//! The only way to the disk.
//!
//! ```text
//!   engine ──► Disk / File ──┬──► Dma   the real one: O_DIRECT files on the core's ring and glommio's
//!                            ├──► Sim   the seeded one: tears, drops, delays, fails, runs out of space
//!                            └──► Plain one that is only read, without an executor: for tools
//! ```
//!
//! Promises, of all that write:
//! 1. A write is durable when it returns on a file from [`Disk::open_log`], else after [`File::sync`].
//! 2. A name (create, rename, unlink, mkdir) is durable after [`Disk::sync_dir`] of its directory.
//! 3. Nothing is retried and no count is ignored: a short write is an error. Only an open that finds no descriptor
//!    waits for one.
//! 4. Paths cannot leave the data directory ([`RelPath`]).
//!
//! Each request has a class, what it works for (`class.rs`), and waits for its turn (`schedule.rs`).
//!
//! Do not drop a future of this module before it is done: the kernel may still own its buffer and its
//! descriptor. Not here: caching, checksums.

mod affinity;
mod buf;
mod class;
mod closing;
mod descriptors;
mod dma;
mod path;
mod plain;
mod ring;
mod rng;
mod schedule;
mod sim;
mod sim_exec;
mod sim_turns;
mod sim_world;

use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub use affinity::leave_the_core;
pub use buf::{Buf, View};
pub use class::IoClass;
use descriptors::Retries;
pub use dma::{DmaDisk, DmaFile, in_executor, space_of};
pub use path::RelPath;
pub use plain::{PlainDisk, PlainFile};
pub use ring::{Flushed, flush, hold, open_ring, take_done};
pub use rng::Rng;
pub use schedule::{ClassCounts, InFlightLimits};
pub use sim::{SimDisk, SimFile, SimLock};
pub use sim_exec::{Outcome, SimExec};
pub use sim_world::{Crash, Faults};

use crate::error::{Error, Result};
use crate::limits::WRITE_ALIGN_BYTES;

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// The name alone, without its directory.
    pub name: String,
    /// It is a directory.
    pub is_dir: bool,
}

/// What a name says of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The length of the file.
    pub bytes: u64,
    /// How many names (hard links) it has.
    pub names: u64,
}

impl From<std::fs::Metadata> for Stat {
    fn from(file: std::fs::Metadata) -> Stat {
        Stat { bytes: file.len(), names: file.nlink() }
    }
}

/// The space of the filesystem that holds the data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// What this process may still use.
    pub free_bytes: u64,
    /// All of it.
    pub total_bytes: u64,
}

/// A data directory. Cloning shares it.
#[derive(Debug, Clone)]
pub enum Disk {
    /// A real directory; must be used inside a glommio executor.
    Dma(DmaDisk),
    /// A simulated one.
    Sim(SimDisk),
    /// One that is only read, outside an executor too.
    Plain(PlainDisk),
}

/// An open file. Cloning shares the descriptor.
#[derive(Debug, Clone)]
pub enum File {
    /// A real file.
    Dma(DmaFile),
    /// A simulated one.
    Sim(SimFile),
    /// A file that is only read.
    Plain(PlainFile),
}

/// The lock that keeps other processes out of the data directory; dropping it lets them in.
#[derive(Debug)]
pub enum DirLock {
    /// An advisory lock of the system, which a dead process cannot hold.
    Dma(std::fs::File),
    /// A simulated one, which a power cut frees.
    Sim(SimLock),
}

impl Disk {
    /// The real directory `root`, which exists and is given as an absolute path. Each executor opens its own.
    pub async fn at(root: &Path) -> Result<Disk> {
        DmaDisk::at(root).await.map(Disk::Dma)
    }

    /// How many sstables a shard keeps open on this disk.
    pub fn files_max(&self) -> usize {
        match self {
            Disk::Dma(d) => d.files_max.get(),
            Disk::Sim(d) => d.files_max(),
            Disk::Plain(_) => usize::MAX,
        }
    }

    /// Creates a file for reading and writing. One that exists already is an error (`EEXIST`).
    pub async fn create(&self, path: &RelPath) -> Result<File> {
        self.with_descriptor(Retries::Endless, async || match self {
            Disk::Dma(d) => d.create(path).await.map(File::Dma),
            Disk::Sim(d) => d.create(path).await.map(File::Sim),
            Disk::Plain(_) => plain::refused("create", path),
        })
        .await
    }

    /// Opens a file for reading.
    pub async fn open(&self, path: &RelPath) -> Result<File> {
        self.with_descriptor(Retries::Limited, async || match self {
            Disk::Dma(d) => d.open(path).await.map(File::Dma),
            Disk::Sim(d) => d.open(path, sim::Mode::Read).await.map(File::Sim),
            Disk::Plain(d) => d.open(path).map(File::Plain),
        })
        .await
    }

    /// Opens a file for reading and writing, where each write returns only when it is durable: requests of
    /// [`IoClass::Commit`].
    pub async fn open_log(&self, path: &RelPath) -> Result<File> {
        self.with_descriptor(Retries::Endless, async || match self {
            Disk::Dma(d) => d.open_log(path).await.map(File::Dma),
            Disk::Sim(d) => d.open(path, sim::Mode::WriteDurably).await.map(File::Sim),
            Disk::Plain(_) => plain::refused("open", path),
        })
        .await
    }

    /// Renames a file within its directory, replacing what had the new name.
    pub async fn rename(&self, from: &RelPath, to: &RelPath) -> Result<()> {
        assert_eq!(
            from.parent(),
            to.parent(),
            "a rename stays in its directory: one sync covers it"
        );
        match self {
            Disk::Dma(d) => d.rename(from, to).await,
            Disk::Sim(d) => d.rename(from, to).await,
            Disk::Plain(_) => plain::refused("rename", from),
        }
    }

    /// Gives a file a second name (a hard link), which is durable after a sync of its directory. One that is there
    /// already is an error (`EEXIST`).
    pub async fn link(&self, from: &RelPath, to: &RelPath) -> Result<()> {
        match self {
            Disk::Dma(d) => d.link(from, to).await,
            Disk::Sim(d) => d.link(from, to).await,
            Disk::Plain(_) => plain::refused("link", to),
        }
    }

    /// Removes a file's name. Open handles keep working.
    pub async fn unlink(&self, path: &RelPath) -> Result<()> {
        match self {
            Disk::Dma(d) => d.unlink(path).await,
            Disk::Sim(d) => d.unlink(path).await,
            Disk::Plain(_) => plain::refused("unlink", path),
        }
    }

    /// Makes a directory; one that exists already is fine. Its parent must exist.
    pub async fn mkdir(&self, path: &RelPath) -> Result<()> {
        match self {
            Disk::Dma(d) => d.mkdir(path).await,
            Disk::Sim(d) => d.mkdir(path).await,
            Disk::Plain(_) => plain::refused("mkdir", path),
        }
    }

    /// Removes an empty directory.
    pub async fn rmdir(&self, path: &RelPath) -> Result<()> {
        match self {
            Disk::Dma(d) => d.rmdir(path).await,
            Disk::Sim(d) => d.rmdir(path).await,
            Disk::Plain(_) => plain::refused("rmdir", path),
        }
    }

    /// The names in a directory, sorted.
    pub async fn list(&self, dir: &RelPath) -> Result<Vec<DirEntry>> {
        // The log looks for a free name in it.
        let retries = match self {
            Disk::Plain(_) => Retries::Limited,
            Disk::Dma(_) | Disk::Sim(_) => Retries::Endless,
        };
        let listed = self.with_descriptor(retries, async || match self {
            Disk::Dma(d) => d.list(dir).await,
            Disk::Sim(d) => d.list(dir).await,
            Disk::Plain(d) => d.list(dir),
        });
        let mut entries = listed.await?;
        entries.sort();
        Ok(entries)
    }

    /// Whether a name is there.
    pub async fn exists(&self, path: &RelPath) -> Result<bool> {
        match self {
            Disk::Dma(d) => d.exists(path).await,
            Disk::Sim(d) => d.exists(path).await,
            Disk::Plain(d) => d.exists(path),
        }
    }

    /// What a name says of its file without opening it; `None` if there is none. Not for directories.
    pub async fn stat(&self, path: &RelPath) -> Result<Option<Stat>> {
        let found = match self {
            Disk::Dma(d) => d.stat(path).await,
            Disk::Sim(d) => d.stat(path).await,
            Disk::Plain(d) => d.stat(path),
        };
        match found {
            Err(Error::NotFound { .. }) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Makes the names in a directory durable.
    pub async fn sync_dir(&self, dir: &RelPath) -> Result<()> {
        self.with_descriptor(Retries::Endless, async || match self {
            Disk::Dma(d) => d.sync_dir(dir).await,
            Disk::Sim(d) => d.sync_dir(dir).await,
            Disk::Plain(_) => Ok(()),
        })
        .await
    }

    /// Takes the lock file, or says [`Error::InUse`].
    pub async fn lock(&self, path: &RelPath) -> Result<DirLock> {
        match self {
            Disk::Dma(d) => d.lock(path).await.map(DirLock::Dma),
            Disk::Sim(d) => d.lock(path).await.map(DirLock::Sim),
            Disk::Plain(_) => plain::refused("lock", path),
        }
    }

    /// From now on requests of this class have so many shares, where they wait for a turn.
    pub fn weigh(&self, class: IoClass, shares: usize) {
        match self {
            Disk::Dma(_) => ring::with_schedule(|schedule| schedule.weigh(class, shares)),
            Disk::Sim(d) => d.turns().weigh(class, shares),
            Disk::Plain(_) => {}
        }
    }

    /// From now on at most so many requests of the background are with the device at a time.
    pub fn limit_in_flight(&self, limits: InFlightLimits) {
        match self {
            Disk::Dma(_) => ring::limit(limits),
            Disk::Sim(d) => d.turns().limit(limits),
            Disk::Plain(_) => {}
        }
    }

    /// The requests of each class so far, in the order of [`IoClass::ALL`]: those of this core.
    pub fn counts(&self) -> [ClassCounts; IoClass::ALL.len()] {
        let mut counts = Default::default();
        match self {
            Disk::Dma(_) => ring::with_schedule(|schedule| counts = schedule.counts()),
            Disk::Sim(d) => counts = d.turns().counts(),
            Disk::Plain(_) => {}
        }
        counts
    }

    /// The space left for data.
    pub async fn free_space(&self) -> Result<Space> {
        match self {
            Disk::Dma(d) => d.free_space().await,
            Disk::Sim(d) => d.free_space().await,
            Disk::Plain(_) => plain::refused("statvfs", &RelPath::root()),
        }
    }
}

impl File {
    /// The same file, whose requests are of this class.
    #[must_use]
    pub fn of_class(&self, class: IoClass) -> File {
        match self {
            File::Dma(f) => File::Dma(f.of_class(class)),
            File::Sim(f) => File::Sim(f.of_class(class)),
            File::Plain(f) => File::Plain(f.clone()),
        }
    }

    /// The file's path, as it was opened.
    pub fn path(&self) -> &RelPath {
        match self {
            File::Dma(f) => f.path(),
            File::Sim(f) => f.path(),
            File::Plain(f) => f.path(),
        }
    }

    /// The length in bytes: as of opening, moved by this handle's (and its clones') own changes.
    pub fn len(&self) -> u64 {
        match self {
            File::Dma(f) => f.len(),
            File::Sim(f) => f.len(),
            File::Plain(f) => f.len(),
        }
    }

    /// Nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An empty buffer for up to `capacity` bytes (rounded up to whole aligned units) to be written.
    pub fn buf(&self, capacity: usize) -> Buf {
        match self {
            File::Dma(f) => f.buf(capacity),
            File::Sim(_) | File::Plain(_) => Buf::heap(capacity),
        }
    }

    /// Reads `len` bytes at any offset; fewer where the file ends.
    pub async fn read_at(&self, offset: u64, len: usize) -> Result<View> {
        let view = match self {
            File::Dma(f) => f.read_at(offset, len).await?,
            File::Sim(f) => f.read_at(offset, len).await?,
            File::Plain(f) => f.read_at(offset, len)?,
        };
        assert!(view.len() <= len, "a read brings no more than was asked for");
        Ok(view)
    }

    /// Reads exactly `len` bytes: a file that ends before is `Corrupt`.
    pub async fn read_exact_at(&self, offset: u64, len: usize) -> Result<View> {
        let view = self.read_at(offset, len).await?;
        if view.len() < len {
            let what = format!("{len} bytes wanted, the file ends after {}", view.len());
            return Err(Error::corrupt(self.path().as_str(), offset, what));
        }
        Ok(view)
    }

    /// Writes the whole buffer at an aligned offset. The buffer's length must be aligned too.
    pub async fn write_at(&self, buf: Buf, offset: u64) -> Result<()> {
        assert!(offset.is_multiple_of(WRITE_ALIGN_BYTES as u64), "direct writes are aligned");
        assert!(buf.len().is_multiple_of(WRITE_ALIGN_BYTES), "direct writes are of whole units");
        assert!(!buf.is_empty(), "a write writes something");
        let wanted = buf.len();
        let written = match self {
            File::Dma(f) => f.write_at(buf, offset).await?,
            File::Sim(f) => f.write_at(&buf, offset).await?,
            File::Plain(f) => plain::refused("write", f.path())?,
        };
        assert!(written <= wanted, "a write writes no more than it was given");
        if written < wanted {
            return Err(Error::io("write", self.path().as_str(), 0));
        }
        Ok(())
    }

    /// Makes what was written before this call durable. After an error nothing is known: never retry.
    pub async fn sync(&self) -> Result<()> {
        match self {
            File::Dma(f) => f.sync().await,
            File::Sim(f) => f.sync().await,
            File::Plain(_) => Ok(()),
        }
    }

    /// Reserves space for the first `len` bytes, growing the file to `len` with zeros.
    pub async fn allocate(&self, len: u64) -> Result<()> {
        match self {
            File::Dma(f) => f.allocate(len).await,
            File::Sim(f) => f.allocate(len).await,
            File::Plain(f) => plain::refused("allocate", f.path()),
        }
    }

    /// Cuts or grows (with zeros) the file to `len` bytes.
    pub async fn set_len(&self, len: u64) -> Result<()> {
        match self {
            File::Dma(f) => f.set_len(len).await,
            File::Sim(f) => f.set_len(len).await,
            File::Plain(f) => plain::refused("truncate", f.path()),
        }
    }

    /// Closes this handle; the last clone closes the descriptor. No operation may be in flight.
    pub async fn close(self) -> Result<()> {
        match self {
            File::Dma(f) => f.close().await,
            File::Sim(_) | File::Plain(_) => Ok(()),
        }
    }
}
