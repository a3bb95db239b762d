//! The index files beside an sstable, as one shard has them: those it uses, and what it knows of the others.
//!
//! ```text
//! file ─► attached ─(cannot be used)─► lost ─┬─ damaged: suspect until it was read whole, or made anew
//!                                            ├─ damaged again, after it was read whole ┐
//!                                            ├─ says what cannot be, or is distrusted ─┴► wrong until made anew
//!                                            └─ else: opened again by the next job
//! rows without terms ─► unfit: no file can be made, the sstable is scanned
//! ```

use std::cell::{Ref, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use model::schema::IndexId;

use super::file::Sstable;
use crate::error::Error;
use crate::index::IndexFile;
use crate::planted::{Bug, planted};

/// What a shard knows of the index files of an open sstable.
#[derive(Debug, Default)]
pub(super) struct Attached {
    files: RefCell<Vec<Rc<IndexFile>>>,
    /// Paths of files that could not be used, and why, until somebody tells of them.
    lost: RefCell<Vec<(String, Error)>>,
    /// Indexes whose file was damaged: a part of it, so that it may open all the same.
    suspects: RefCell<BTreeSet<IndexId>>,
    /// Those of them that are made anew even if every checksum is right: what the file says is wrong, or may be.
    wrong: RefCell<BTreeSet<IndexId>>,
    /// Indexes whose present file was damaged once, and then read and found whole: either the disk was at fault, or
    /// what the file says is wrong under right checksums. Damaged again it is `wrong`.
    acquitted: RefCell<BTreeSet<IndexId>>,
    /// Indexes of which no file can be made.
    unfit: RefCell<BTreeSet<IndexId>>,
}

impl Sstable {
    /// The files of its table's indexes that are beside it.
    pub(crate) fn indexes(&self) -> Ref<'_, [Rc<IndexFile>]> {
        Ref::map(self.attached.files.borrow(), Vec::as_slice)
    }

    /// The file of an index, if it has one.
    pub(crate) fn index(&self, id: IndexId) -> Option<Rc<IndexFile>> {
        self.indexes().iter().find(|file| file.index() == id).cloned()
    }

    /// Has the file of an index from now on.
    pub(crate) fn attach(&self, file: Rc<IndexFile>) {
        self.detach(file.index());
        self.attached.files.borrow_mut().push(file);
    }

    /// Has no file of this index any more.
    pub(crate) fn detach(&self, id: IndexId) {
        self.attached.files.borrow_mut().retain(|file| file.index() != id);
    }

    /// The file of an index cannot be used: its rows are scanned until it was made anew.
    #[cold]
    pub(crate) fn lose_index(&self, id: IndexId, error: &Error) {
        let path = self.index(id).map(|file| file.path().as_str().to_owned());
        self.detach(id);
        let path = path.unwrap_or_else(|| format!("{}-{}", self.id(), id.0));
        self.attached.lost.borrow_mut().push((path, error.clone()));
        self.cache.note_lost_index();
        if matches!(error, Error::Corrupt { .. }) && !planted(Bug::IndexReattached) {
            self.attached.suspects.borrow_mut().insert(id);
            if self.attached.acquitted.borrow_mut().remove(&id) {
                self.attached.wrong.borrow_mut().insert(id);
            }
        }
    }

    /// The file of an index is not used any more, whatever its checksums say: it is made anew.
    pub(crate) fn distrust_index(&self, id: IndexId, error: &Error) {
        self.lose_index(id, error);
        self.attached.suspects.borrow_mut().insert(id);
        self.attached.wrong.borrow_mut().insert(id);
        self.attached.unfit.borrow_mut().remove(&id);
    }

    /// Whether the file of an index is wrong although it may be whole.
    pub(crate) fn is_distrusted(&self, id: IndexId) -> bool {
        self.attached.wrong.borrow().contains(&id)
    }

    /// What index files were lost since this was asked last.
    pub(crate) fn take_lost(&self) -> Vec<(String, Error)> {
        self.attached.lost.take()
    }

    /// Indexes whose file, if there is one, must not be used before it was read whole.
    pub(crate) fn suspects(&self) -> BTreeSet<IndexId> {
        self.attached.suspects.borrow().clone()
    }

    /// The file of an index that was damaged was read, and is whole.
    pub(crate) fn acquit(&self, id: IndexId) {
        self.forget_doubts(id);
        self.attached.acquitted.borrow_mut().insert(id);
    }

    /// The file of an index is another one now, or is gone.
    pub(crate) fn forget_doubts(&self, id: IndexId) {
        let Attached { suspects, wrong, acquitted, .. } = &self.attached;
        [suspects, wrong, acquitted].iter().for_each(|doubts| {
            doubts.borrow_mut().remove(&id);
        });
    }

    /// No file of this index can be made of the rows.
    pub(crate) fn note_unfit(&self, id: IndexId) {
        self.attached.unfit.borrow_mut().insert(id);
    }

    /// The indexes of which no file can be made.
    pub(crate) fn all_unfit(&self) -> Vec<IndexId> {
        self.attached.unfit.borrow().iter().copied().collect()
    }

    /// Whether no file of this index can be made.
    pub(crate) fn is_unfit(&self, id: IndexId) -> bool {
        self.attached.unfit.borrow().contains(&id)
    }
}
