//! The real implementation: O_DIRECT files.
//!
//! Reads, writes and flushes go by the core's own ring where it has one (`ring.rs`), everything else
//! by glommio's.
//!
//! Around glommio 0.9: reads are aligned and cut here, because its unaligned `read_at` shows bytes past the
//! end of a file; reads are split ([`EXECUTOR_READ_BYTES_MAX`]); lengths are kept here, because its `file_size`
//! asks by path, which a rename makes stale. Rename, unlink and the like run on its blocking pool, and files
//! that are dropped are closed on a thread of ours (`closing.rs`).

#![expect(unsafe_code, reason = "statvfs has no safe form in std")]

use std::cell::Cell;
use std::ffi::CString;
use std::fs::TryLockError;
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use glommio::GlommioError;
use glommio::io::{Directory, OpenOptions};

use super::buf::{Buf, View};
use super::class::IoClass;
use super::closing::{Closer, Closing};
use super::path::RelPath;
use super::ring;
use super::{DirEntry, Space, Stat};
use crate::error::{Error, Result};
use crate::limits::{EXECUTOR_READ_BYTES_MAX, READ_PART_BYTES_MAX, WRITE_ALIGN_BYTES};

/// What the probe file is filled with.
const PROBE_BYTE: u8 = 0xA5;

// Of the thread, for `shard` asks without knowing which disks and files there are (docs/STYLE.md).
thread_local! {
    static IN_EXECUTOR: Cell<usize> = const { Cell::new(0) };
}

/// How many operations of this thread's files the executor has under way: it must be let at its
/// rings for them to end.
pub fn in_executor() -> usize {
    IN_EXECUTOR.get()
}

/// While it lives, one of them is counted.
struct Counted(());

impl Counted {
    fn begin() -> Counted {
        IN_EXECUTOR.set(IN_EXECUTOR.get() + 1);
        Counted(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        IN_EXECUTOR.set(IN_EXECUTOR.get() - 1);
    }
}

/// A real data directory.
#[derive(Debug, Clone)]
pub struct DmaDisk {
    root: Rc<Path>,
    pub(super) files_max: Rc<Cell<usize>>,
    closer: Rc<Closer>,
}

/// A real open file.
#[derive(Debug, Clone)]
pub struct DmaFile {
    open: Rc<Open>,
    class: IoClass,
}

#[derive(Debug)]
pub(super) struct Open {
    /// Comes first: it is dropped before the file.
    closing: Closing,
    file: glommio::io::DmaFile,
    path: RelPath,
    len: Cell<u64>,
}

impl Open {
    /// Open as long as this lives.
    pub(super) fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl DmaDisk {
    /// The data directory `root`, which exists and is given as an absolute path.
    ///
    /// Every executor opens its own: glommio keeps, for each thread, whether a device answers polled
    /// reads, and finds out by reading from the first file it opens. An empty file answers "yes" without
    /// asking the device, and then every later read fails with EOPNOTSUPP. So the first file is one with
    /// bytes in it, made here. Reading it back also proves that the directory takes direct I/O.
    pub(super) async fn at(root: &Path) -> Result<DmaDisk> {
        assert!(root.is_absolute(), "a relative root would move with the working directory");
        let files_max = Rc::new(Cell::new(usize::MAX));
        let closer = Closer::start()
            .map_err(|error| refused("start a thread for", &RelPath::root(), &error))?;
        let disk = DmaDisk { root: root.into(), files_max, closer };
        let path = RelPath::root().join(&format!("probe-{}", glommio::executor().id()));
        let probed = disk.blocking("write", &path, |full| {
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).open(&full)?;
            let filled = file.write_all(&[PROBE_BYTE; WRITE_ALIGN_BYTES]);
            filled.and_then(|()| file.sync_data()).inspect_err(|_| {
                // Empty, it hurts no one.
                let _ = std::fs::remove_file(&full);
            })
        });
        match probed.await {
            Err(full @ Error::DiskFull { .. }) => return disk.probed_by_layout(full).await,
            probed => probed?,
        }
        let file = disk.open_with(&path, OpenOptions::new().read(true)).await?;
        let whole = file.read_at(0, WRITE_ALIGN_BYTES).await?;
        if *whole != [PROBE_BYTE; WRITE_ALIGN_BYTES] {
            return Err(Error::corrupt(
                path.as_str(),
                0,
                "what was just written does not come back",
            ));
        }
        drop(whole);
        file.close().await?;
        disk.unlink(&path).await?;
        Ok(disk)
    }

    /// On a full disk: reads the file that a data directory in use has.
    async fn probed_by_layout(self, full: Error) -> Result<DmaDisk> {
        let path = RelPath::root().join("layout");
        let opened = self.open_with(&path, OpenOptions::new().read(true)).await;
        let file = opened.map_err(|_| full)?;
        let read = file.read_at(0, WRITE_ALIGN_BYTES).await?;
        assert!(!read.is_empty(), "only an empty file says nothing about its device");
        drop(read);
        file.close().await?;
        Ok(self)
    }

    /// Keeps so many sstables open from now on.
    pub fn set_files_max(&self, files_max: usize) {
        self.files_max.set(files_max);
    }

    fn full(&self, path: &RelPath) -> PathBuf {
        self.root.join(path.as_str())
    }

    /// A pause in which others run.
    pub(super) async fn sleep(&self, time: std::time::Duration) {
        let _counted = Counted::begin();
        glommio::timer::sleep(time).await;
    }

    /// Opens a file, in a task of its own: a read that waits for it may end before. glommio knows of no descriptor
    /// then, and the one that comes would stay open for ever.
    #[expect(clippy::disallowed_methods, reason = "no one else can wait for an open to its end")]
    async fn open_with(&self, path: &RelPath, options: &OpenOptions) -> Result<DmaFile> {
        let (disk, path, options) = (self.clone(), path.clone(), options.clone());
        let opening =
            glommio::spawn_local(async move { disk.open_to_its_end(&path, &options).await });
        opening.detach().await.expect("a task that is detached is not cancelled")
    }

    /// Opens a file, in the task of [`DmaDisk::open_with`], which glommio begins at once: so it is counted before others
    /// run.
    async fn open_to_its_end(&self, path: &RelPath, options: &OpenOptions) -> Result<DmaFile> {
        let _counted = Counted::begin();
        let opened = options.dma_open(self.full(path)).await;
        let file = opened.map_err(|error| failed("open", path, &error))?;
        let len = file.file_size().await.map_err(|error| failed("stat", path, &error))?;
        let closing = Closing::of(file.as_raw_fd(), &self.closer);
        let open = Rc::new(Open { closing, file, path: path.clone(), len: Cell::new(len) });
        Ok(DmaFile { open, class: IoClass::default() })
    }

    pub(super) async fn create(&self, path: &RelPath) -> Result<DmaFile> {
        self.open_with(path, OpenOptions::new().read(true).write(true).create_new(true)).await
    }

    pub(super) async fn open(&self, path: &RelPath) -> Result<DmaFile> {
        self.open_with(path, OpenOptions::new().read(true)).await
    }

    pub(super) async fn open_log(&self, path: &RelPath) -> Result<DmaFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_DSYNC);
        Ok(self.open_with(path, &options).await?.of_class(IoClass::Commit))
    }

    pub(super) async fn rename(&self, from: &RelPath, to: &RelPath) -> Result<()> {
        let _counted = Counted::begin();
        let done = glommio::io::rename(self.full(from), self.full(to)).await;
        done.map_err(|error| failed("rename", from, &error))
    }

    pub(super) async fn link(&self, from: &RelPath, to: &RelPath) -> Result<()> {
        let new = self.full(to);
        self.blocking("link", from, move |full| std::fs::hard_link(full, new)).await
    }

    pub(super) async fn unlink(&self, path: &RelPath) -> Result<()> {
        let _counted = Counted::begin();
        glommio::io::remove(self.full(path)).await.map_err(|error| failed("unlink", path, &error))
    }

    pub(super) async fn mkdir(&self, path: &RelPath) -> Result<()> {
        self.blocking("mkdir", path, |full| match std::fs::create_dir(&full) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        })
        .await
    }

    pub(super) async fn rmdir(&self, path: &RelPath) -> Result<()> {
        self.blocking("rmdir", path, std::fs::remove_dir).await
    }

    pub(super) async fn exists(&self, path: &RelPath) -> Result<bool> {
        self.blocking("stat", path, |full| full.try_exists()).await
    }

    pub(super) async fn stat(&self, path: &RelPath) -> Result<Stat> {
        self.blocking("stat", path, |full| std::fs::metadata(full).map(Stat::from)).await
    }

    pub(super) async fn list(&self, dir: &RelPath) -> Result<Vec<DirEntry>> {
        self.blocking("list", dir, |full| {
            std::fs::read_dir(full)?
                .map(|entry| {
                    let entry = entry?;
                    let name = entry.file_name().to_string_lossy().into_owned();
                    Ok(DirEntry { name, is_dir: entry.file_type()?.is_dir() })
                })
                .collect()
        })
        .await
    }

    pub(super) async fn sync_dir(&self, dir: &RelPath) -> Result<()> {
        let _counted = Counted::begin();
        let opened =
            Directory::open(self.full(dir)).await.map_err(|error| failed("open", dir, &error))?;
        let synced = opened.sync().await.map_err(|error| failed("sync", dir, &error));
        let closed = opened.close().await.map_err(|error| failed("close", dir, &error));
        synced.and(closed)
    }

    pub(super) async fn lock(&self, path: &RelPath) -> Result<std::fs::File> {
        let locked = self.blocking("lock", path, |full| {
            let mut options = std::fs::OpenOptions::new();
            let file = options.write(true).create(true).truncate(false).open(full)?;
            match file.try_lock() {
                Ok(()) => Ok(Some(file)),
                Err(TryLockError::WouldBlock) => Ok(None),
                Err(TryLockError::Error(error)) => Err(error),
            }
        });
        locked.await?.ok_or_else(|| Error::InUse { file: path.as_str().into() })
    }

    pub(super) async fn free_space(&self) -> Result<Space> {
        self.blocking("statvfs", &RelPath::root(), |full| space_of(&full)).await
    }

    /// Runs a system call that has no ring operation on glommio's blocking pool.
    async fn blocking<T, F>(&self, op: &'static str, path: &RelPath, call: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(PathBuf) -> std::io::Result<T> + Send + 'static,
    {
        let _counted = Counted::begin();
        let full = self.full(path);
        let done = glommio::executor().spawn_blocking(move || call(full)).await;
        done.map_err(|error| refused(op, path, &error))
    }
}

impl DmaFile {
    pub(super) fn of_class(&self, class: IoClass) -> DmaFile {
        DmaFile { open: self.open.clone(), class }
    }

    pub(super) fn path(&self) -> &RelPath {
        &self.open.path
    }

    pub(super) fn len(&self) -> u64 {
        self.open.len.get()
    }

    pub(super) fn buf(&self, capacity: usize) -> Buf {
        let capacity = capacity.max(1).next_multiple_of(WRITE_ALIGN_BYTES);
        Buf::dma(self.open.file.alloc_dma_buffer(capacity))
    }

    pub(super) async fn read_at(&self, offset: u64, len: usize) -> Result<View> {
        let left = self.len().saturating_sub(offset);
        let len = usize::try_from(left).map_or(len, |left| len.min(left));
        if len == 0 {
            return Ok(View::heap(Vec::new()));
        }
        let part_bytes_max =
            if ring::is_open() { READ_PART_BYTES_MAX } else { EXECUTOR_READ_BYTES_MAX };
        if len <= part_bytes_max {
            return self.read_part(offset, len).await;
        }
        let mut whole = Vec::with_capacity(len);
        while whole.len() < len {
            let wanted = part_bytes_max.min(len - whole.len());
            let part = self.read_part(offset + whole.len() as u64, wanted).await?;
            whole.extend_from_slice(&part);
            if part.len() < wanted {
                break;
            }
        }
        Ok(View::heap(whole))
    }

    /// One device read of the aligned window around `[offset, offset + len)`.
    async fn read_part(&self, offset: u64, len: usize) -> Result<View> {
        let file = &self.open.file;
        let first = file.align_down(offset);
        let window = (file.align_up(offset + len as u64) - first) as usize;
        let skip = (offset - first) as usize;
        // As far as it was read: the file may end in it.
        let part = |read: usize| (skip.min(read), len.min(read.saturating_sub(skip)));
        if ring::is_open() {
            let buffer = file.alloc_dma_buffer(window);
            let read = ring::read((&self.open, self.class), buffer, first).await;
            let (read, buffer) = read.map_err(|error| refused("read", &self.open.path, &error))?;
            let (skip, len) = part(read);
            return Ok(View::own(buffer, skip, len));
        }
        let _counted = Counted::begin();
        let read = file.read_at_aligned(first, window).await;
        let read = read.map_err(|error| failed("read", &self.open.path, &error))?;
        let (skip, len) = part(read.len());
        Ok(View::dma(read, skip, len))
    }

    pub(super) async fn write_at(&self, buf: Buf, offset: u64) -> Result<usize> {
        let buffer = buf.into_dma();
        let written = if ring::is_open() {
            let written = ring::write((&self.open, self.class), buffer, offset).await;
            written.map_err(|error| refused("write", &self.open.path, &error))?
        } else {
            let _counted = Counted::begin();
            let written = self.open.file.write_at(buffer, offset).await;
            written.map_err(|error| failed("write", &self.open.path, &error))?
        };
        self.open.len.set(self.len().max(offset + written as u64));
        Ok(written)
    }

    pub(super) async fn sync(&self) -> Result<()> {
        if ring::is_open() {
            let synced = ring::sync((&self.open, self.class)).await;
            return synced.map_err(|error| refused("sync", &self.open.path, &error));
        }
        let _counted = Counted::begin();
        self.open.file.fdatasync().await.map_err(|error| failed("sync", &self.open.path, &error))
    }

    pub(super) async fn allocate(&self, len: u64) -> Result<()> {
        let _counted = Counted::begin();
        let done = self.open.file.pre_allocate(len, false).await;
        done.map_err(|error| failed("allocate", &self.open.path, &error))?;
        self.open.len.set(self.len().max(len));
        Ok(())
    }

    pub(super) async fn set_len(&self, len: u64) -> Result<()> {
        let _counted = Counted::begin();
        self.open
            .file
            .truncate(len)
            .await
            .map_err(|error| failed("truncate", &self.open.path, &error))?;
        self.open.len.set(len);
        Ok(())
    }

    pub(super) async fn close(self) -> Result<()> {
        let _counted = Counted::begin();
        match Rc::try_unwrap(self.open) {
            Ok(Open { closing, file, path, .. }) => {
                closing.leave();
                file.close().await.map_err(|error| failed("close", &path, &error))
            }
            Err(_) => Ok(()), // a clone lives on
        }
    }
}

#[cold]
fn failed(op: &'static str, path: &RelPath, error: &GlommioError<()>) -> Error {
    Error::io(op, path.as_str(), error.raw_os_error().unwrap_or(libc::EIO))
}

#[cold]
fn refused(op: &'static str, path: &RelPath, error: &std::io::Error) -> Error {
    Error::io(op, path.as_str(), error.raw_os_error().unwrap_or(libc::EIO))
}

/// The space of the file system that holds `path`.
pub fn space_of(path: &Path) -> std::io::Result<Space> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut stat = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `path` is a nul-terminated string and `stat` has space for one statvfs.
    let done = unsafe { libc::statvfs(path.as_ptr(), stat.as_mut_ptr()) };
    if done != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: statvfs returned 0, so it has filled `stat`.
    let stat = unsafe { stat.assume_init() };
    Ok(Space {
        free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
    })
}
