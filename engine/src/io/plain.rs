//! A directory that is only read, by ordinary blocking reads and without an executor: what tools look at.
//!
//! Whatever would change something is refused with `EROFS`. Not here: speed; a server never uses this.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::{DirEntry, RelPath, Stat, View};
use crate::error::{Error, Result};

/// A directory that is only read.
#[derive(Debug, Clone)]
pub struct PlainDisk {
    root: Rc<Path>,
}

/// A file that is only read.
#[derive(Debug, Clone)]
pub struct PlainFile {
    file: Rc<fs::File>,
    path: RelPath,
    len: u64,
}

impl PlainDisk {
    /// The directory `root`.
    pub fn at(root: PathBuf) -> PlainDisk {
        PlainDisk { root: root.into() }
    }

    fn full(&self, path: &RelPath) -> PathBuf {
        self.root.join(path.as_str())
    }

    pub(super) fn open(&self, path: &RelPath) -> Result<PlainFile> {
        let opened = fs::OpenOptions::new().read(true).open(self.full(path));
        let file = opened.map_err(|error| failed("open", path, &error))?;
        let metadata = file.metadata().map_err(|error| failed("stat", path, &error))?;
        if !metadata.is_file() {
            return Err(Error::io("open", path.as_str(), libc::EISDIR));
        }
        Ok(PlainFile { file: Rc::new(file), path: path.clone(), len: metadata.len() })
    }

    pub(super) fn exists(&self, path: &RelPath) -> Result<bool> {
        self.full(path).try_exists().map_err(|error| failed("stat", path, &error))
    }

    pub(super) fn stat(&self, path: &RelPath) -> Result<Stat> {
        let found = fs::metadata(self.full(path)).map(Stat::from);
        found.map_err(|error| failed("stat", path, &error))
    }

    pub(super) fn list(&self, dir: &RelPath) -> Result<Vec<DirEntry>> {
        let entries = fs::read_dir(self.full(dir)).and_then(|entries| {
            let entry = |entry: std::io::Result<fs::DirEntry>| {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                Ok(DirEntry { name, is_dir: entry.file_type()?.is_dir() })
            };
            entries.map(entry).collect()
        });
        entries.map_err(|error| failed("list", dir, &error))
    }
}

impl PlainFile {
    pub(super) fn path(&self) -> &RelPath {
        &self.path
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn read_at(&self, offset: u64, len: usize) -> Result<View> {
        let there = self.len.saturating_sub(offset).min(len as u64);
        let mut bytes = vec![0; there as usize];
        let read = self.file.read_exact_at(&mut bytes, offset);
        read.map_err(|error| failed("read", &self.path, &error))?;
        Ok(View::heap(bytes))
    }
}

/// The answer to what would change something.
#[cold]
pub(super) fn refused<T>(op: &'static str, path: &RelPath) -> Result<T> {
    Err(Error::io(op, path.as_str(), libc::EROFS))
}

#[cold]
fn failed(op: &'static str, path: &RelPath, error: &std::io::Error) -> Error {
    Error::io(op, path.as_str(), error.raw_os_error().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use futures_lite::future::block_on;

    use super::*;
    use crate::io::Disk;

    #[test]
    fn a_plain_directory_is_read_and_never_changed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), b"0123456789").unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        let disk = Disk::Plain(PlainDisk::at(dir.path().to_owned()));
        let path = |name: &str| RelPath::root().join(name);
        block_on(async {
            let file = disk.open(&path("a")).await.unwrap();
            assert_eq!(*file.read_at(3, 4).await.unwrap(), *b"3456");
            assert_eq!(*file.read_at(8, 4).await.unwrap(), *b"89");
            assert!(file.read_at(100, 4).await.unwrap().is_empty());
            assert!(matches!(file.read_exact_at(8, 4).await, Err(Error::Corrupt { .. })));
            assert!(matches!(disk.open(&path("b")).await, Err(Error::NotFound { .. })));
            assert!(disk.open(&path("d")).await.is_err());
            let names: Vec<_> = disk.list(&RelPath::root()).await.unwrap();
            assert_eq!(names.len(), 2);
            let refused = |result: Result<()>| {
                assert!(matches!(result, Err(Error::Io { errno: libc::EROFS, .. })), "{result:?}");
            };
            refused(disk.create(&path("b")).await.map(drop));
            refused(disk.open_log(&path("a")).await.map(drop));
            refused(disk.rename(&path("a"), &path("b")).await);
            refused(disk.link(&path("a"), &path("b")).await);
            refused(disk.unlink(&path("a")).await);
            refused(disk.mkdir(&path("e")).await);
            refused(disk.rmdir(&path("d")).await);
            refused(disk.lock(&path("lock")).await.map(drop));
            refused(file.set_len(1).await);
            refused(file.allocate(100).await);
            let mut buf = file.buf(4096);
            buf.put_zeros(4096);
            refused(file.write_at(buf, 0).await);
            file.close().await.unwrap();
        });
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"0123456789");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
