//! The descriptors of a shard's sstables. Of more files than a shard may keep open, those are closed that were
//! not read for long; the next read opens them again.
//!
//! ```text
//! opened ─► queue ─┬─ read since: once more around
//!                  └─ not read: closed ─► the next read opens it, and it is the last of the queue
//! ```
//!
//! Invariants
//! 1. A file that loses its name stays open for those who still read it: [`Handles::keep`] comes before the unlink.
//! 2. No read is cut off: each holds the file that it reads from, and a file is closed when no read holds it.
//! 3. The number is soft: what is opened is counted first, and then another is closed.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::{Rc, Weak};

use super::SstableId;
use crate::error::{Error, Result};
use crate::io::{Disk, File, RelPath};

/// At most this many files that were read since are spared by one call; the next one is closed all the same.
const SPARED_AT_ONCE: u32 = 64;
/// The queue may be so much longer than there are open files, by places of files that are gone.
const PLACES_SPARE: usize = 64;

/// The descriptors of one shard's sstables.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    /// How many files are open.
    open: Cell<usize>,
    /// Files that are open, in the order in which they were opened or spared.
    queue: RefCell<VecDeque<Weak<Handle>>>,
    /// All handles: of a file, and of the number of its opening.
    by_id: RefCell<BTreeMap<(SstableId, u32), Weak<Handle>>>,
}

/// A file that may be closed while no read needs it.
#[derive(Debug)]
pub(crate) struct Handle {
    id: (SstableId, u32),
    disk: Disk,
    path: RelPath,
    len: u64,
    file: RefCell<Option<File>>,
    /// It was read since it was opened or spared.
    asked: Cell<bool>,
    /// It has lost its name: closed, it could not be opened again.
    is_kept: Cell<bool>,
    handles: Rc<Handles>,
}

impl Handles {
    /// Sees to it that those who read a file can go on when its name is gone. After an error it must keep its name.
    pub(crate) async fn keep(&self, id: SstableId) -> Result<()> {
        for handle in self.of_file(id) {
            handle.is_kept.set(true);
            handle.file().await?;
        }
        Ok(())
    }

    /// Whether a file must be opened again to be kept.
    pub(crate) fn must_open(&self, id: SstableId) -> bool {
        self.of_file(id).iter().any(|handle| handle.opened().is_none())
    }

    fn of_file(&self, id: SstableId) -> Vec<Rc<Handle>> {
        let by_id = self.by_id.borrow();
        let all = by_id.range((id, 0)..=(id, u32::MAX));
        all.filter_map(|(_, handle)| handle.upgrade()).collect()
    }

    /// How many files are open.
    #[cfg(test)]
    pub(crate) fn open(&self) -> usize {
        self.open.get()
    }

    /// Closes files until at most `most` are open.
    async fn close_some(&self, most: usize) {
        let mut spared = 0;
        while self.open.get() > most {
            let Some(oldest) = self.queue.borrow_mut().pop_front() else { return };
            let Some(handle) = oldest.upgrade() else { continue };
            if handle.is_kept.get() {
                continue;
            }
            if handle.asked.replace(false) && spared < SPARED_AT_ONCE {
                spared += 1;
                self.queue.borrow_mut().push_back(oldest);
                continue;
            }
            if let Some(file) = handle.take() {
                // Nothing was written to it: an error of its closing says nothing about it.
                let _ = file.close().await;
            }
        }
    }

    fn opened(&self, handle: &Rc<Handle>) {
        self.open.set(self.open.get() + 1);
        let mut queue = self.queue.borrow_mut();
        if queue.len() > 2 * self.open.get() + PLACES_SPARE {
            queue.retain(|handle| handle.strong_count() > 0);
        }
        queue.push_back(Rc::downgrade(handle));
    }
}

impl Handle {
    /// The handle of a file that was just opened as the one of this number.
    pub(crate) async fn new(
        disk: &Disk,
        file: File,
        id: (SstableId, u32),
        handles: &Rc<Handles>,
    ) -> Rc<Handle> {
        let handle = Rc::new(Handle {
            id,
            disk: disk.clone(),
            path: file.path().clone(),
            len: file.len(),
            file: RefCell::new(Some(file)),
            asked: Cell::new(false),
            is_kept: Cell::new(false),
            handles: handles.clone(),
        });
        handles.by_id.borrow_mut().insert(id, Rc::downgrade(&handle));
        handles.opened(&handle);
        handles.close_some(disk.files_max()).await;
        handle
    }

    /// Where the file is.
    pub(crate) fn path(&self) -> &RelPath {
        &self.path
    }

    /// The file, opened again if it was closed.
    pub(crate) async fn file(self: &Rc<Self>) -> Result<File> {
        if let Some(file) = self.opened() {
            self.asked.set(true);
            return Ok(file);
        }
        let file = match self.disk.open(&self.path).await {
            Ok(file) => file,
            // Its name has gone meanwhile, and before that it was opened to be kept.
            Err(error) => return self.opened().ok_or(error),
        };
        if let Some(others) = self.opened() {
            file.close().await?;
            return Ok(others);
        }
        if file.len() != self.len {
            let what = format!("{} bytes long instead of {}", file.len(), self.len);
            return Err(Error::corrupt(self.path.as_str(), file.len().min(self.len), what));
        }
        self.file.replace(Some(file.clone()));
        self.handles.opened(self);
        self.handles.close_some(self.disk.files_max()).await;
        Ok(file)
    }

    /// Closes the file, unless a read holds it; then the last reader does.
    pub(crate) async fn close(&self) -> Result<()> {
        match self.take() {
            Some(file) => file.close().await,
            None => Ok(()),
        }
    }

    fn opened(&self) -> Option<File> {
        self.file.borrow().clone()
    }

    fn take(&self) -> Option<File> {
        let file = self.file.take();
        self.handles.open.set(self.handles.open.get() - usize::from(file.is_some()));
        file
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.take();
        self.handles.by_id.borrow_mut().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::io::{Faults, SimDisk, SimExec};

    const MOST: usize = 3;

    /// A disk of ten files, a handle of each, and who counts them.
    async fn ten() -> (Disk, Vec<Rc<Handle>>, Rc<Handles>) {
        let sim = SimDisk::new(1, Faults::default());
        sim.set_files_max(MOST);
        let (disk, handles, mut all) = (Disk::Sim(sim), Rc::new(Handles::default()), Vec::new());
        for n in 0..10 {
            let path = RelPath::root().join(&format!("f{n}"));
            disk.create(&path).await.unwrap().close().await.unwrap();
            let file = disk.open(&path).await.unwrap();
            let id = (SstableId(Uuid::from_u128(n)), 0);
            all.push(Handle::new(&disk, file, id, &handles).await);
        }
        (disk, all, handles)
    }

    #[test]
    fn ten_files_are_read_by_three_descriptors() {
        let exec = SimExec::new(1);
        exec.run(async {
            let (_disk, all, handles) = ten().await;
            assert_eq!(handles.open(), MOST);
            for round in 0..5 {
                for handle in &all {
                    let file = handle.file().await.unwrap();
                    assert_eq!(file.path(), handle.path(), "in round {round}");
                    assert!(handles.open() <= MOST);
                }
            }
            assert!(handles.queue.borrow().len() <= 2 * MOST + PLACES_SPARE);
            drop(all);
            assert_eq!((handles.open(), handles.by_id.borrow().len()), (0, 0));
        })
        .done();
    }

    #[test]
    fn what_is_read_again_and_again_stays_open() {
        let exec = SimExec::new(1);
        exec.run(async {
            let (_disk, all, handles) = ten().await;
            all[0].file().await.unwrap();
            for handle in &all[1..] {
                all[0].file().await.unwrap();
                handle.file().await.unwrap();
                assert!(all[0].opened().is_some() && handles.open() <= MOST);
            }
        })
        .done();
    }

    /// A scan holds files that a compaction has replaced and unlinked.
    #[test]
    fn a_file_that_lost_its_name_is_read_on() {
        let exec = SimExec::new(1);
        exec.run(async {
            let (disk, all, handles) = ten().await;
            assert!(all[0].opened().is_none() && all[1].opened().is_none());
            handles.keep(all[0].id.0).await.unwrap();
            for handle in &all[..2] {
                disk.unlink(handle.path()).await.unwrap();
            }
            for handle in &all[2..] {
                handle.file().await.unwrap();
            }
            assert!(all[0].file().await.is_ok());
            let lost = all[1].file().await.map(drop);
            assert!(matches!(lost, Err(Error::NotFound { .. })), "this one was not kept");
            drop(all);
            assert_eq!(handles.open(), 0);
        })
        .done();
    }
}
