//! What is gone and takes space still: tables, until a job has removed their views and files; files that could not be
//! kept open for their readers; and memtables, until the job has given their memory back in pieces.
//!
//! 1. Tables: a drop, or a commit that finds its table dropped meanwhile, adds the views that are left. The job removes
//!    them from the manifest, forgets them here, and then unlinks the files.
//! 2. Files: unlinking comes after the file is open for its readers. One that finds no descriptor stays and is tried
//!    again, after the others.
//! 3. Memtables: one whose rows are in a file, or deleted, stays for those who read it. When none does, it is freed in
//!    pieces, for a large one takes long.
//!
//! Invariants
//! 1. A table is known here as long as the manifest may name what it had. After a crash the next start finds it again.
//! 2. After a failure, tables and files wait for their next try (`backoff.rs`); memtables do not wait.
//!
//! Not here: the work (`remove.rs`), and the job that does it (`jobs.rs`).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use uuid::Uuid;

use crate::backoff::Backoff;
use crate::manifest::ViewEntry;
use crate::memtable::Memtable;
use crate::table::SharedMemtable;

/// A table that is gone, and what this shard still has of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GoneTable {
    pub(crate) table: Uuid,
    pub(crate) views: Vec<ViewEntry>,
}

/// What is to be removed, table by table.
#[derive(Debug, Default)]
pub(crate) struct Garbage {
    tables: RefCell<Vec<GoneTable>>,
    /// Memtables that no table has any more; some of them may still be read.
    memtables: RefCell<Vec<SharedMemtable>>,
    /// Files that nothing names, and that could not be kept open for those who read them still. The first is tried
    /// next.
    unkept: RefCell<VecDeque<ViewEntry>>,
    backoff: Backoff,
}

impl Garbage {
    /// Begins with the tables that a start has found to be gone.
    pub(crate) fn of(tables: Vec<GoneTable>) -> Garbage {
        Garbage { tables: RefCell::new(tables), ..Garbage::default() }
    }

    /// Adds a table, or more views of one.
    pub(crate) fn add(&self, table: Uuid, views: Vec<ViewEntry>) {
        self.tables.borrow_mut().push(GoneTable { table, views });
    }

    /// Adds memtables that no table has any more.
    pub(crate) fn add_memtables(&self, memtables: impl Iterator<Item = SharedMemtable>) {
        self.memtables.borrow_mut().extend(memtables);
    }

    /// One of the memtables that no reader has any more.
    pub(crate) fn unread_memtable(&self) -> Option<Memtable> {
        let mut memtables = self.memtables.borrow_mut();
        let unread = memtables.iter().position(is_unread)?;
        Rc::into_inner(memtables.swap_remove(unread)).map(RefCell::into_inner)
    }

    /// Whether there is something to remove, and it may be tried at this second.
    pub(crate) fn is_due(&self, backoff_clock_s: u32) -> bool {
        let is_any = !self.tables.borrow().is_empty() || !self.unkept.borrow().is_empty();
        is_any && self.may_try(backoff_clock_s) || self.memtables.borrow().iter().any(is_unread)
    }

    /// Whether something may be removed at this second: not soon after a failure.
    pub(crate) fn may_try(&self, backoff_clock_s: u32) -> bool {
        self.backoff.is_due(backoff_clock_s)
    }

    /// One of the tables; `None` when all are removed.
    pub(crate) fn next(&self) -> Option<GoneTable> {
        self.tables.borrow().last().cloned()
    }

    /// The manifest names nothing of this any more.
    pub(crate) fn forget(&self, gone: &GoneTable) {
        let mut tables = self.tables.borrow_mut();
        let before = tables.len();
        tables.retain(|other| other != gone);
        assert!(tables.len() < before, "what is forgotten was known");
    }

    /// Adds a file that has to stay for its readers, behind the others.
    pub(crate) fn add_unkept(&self, entry: ViewEntry) {
        self.unkept.borrow_mut().push_back(entry);
    }

    /// The file that had to stay and is tried next.
    pub(crate) fn first_unkept(&self) -> Option<ViewEntry> {
        self.unkept.borrow().front().cloned()
    }

    /// A file was tried that had to stay.
    pub(crate) fn forget_unkept(&self, entry: &ViewEntry) {
        self.unkept.borrow_mut().retain(|other| other != entry);
    }

    /// Notes how an attempt ended at this second.
    pub(crate) fn ended<T, E>(&self, result: &Result<T, E>, backoff_clock_s: u32) {
        self.backoff.ended(result, backoff_clock_s);
    }
}

fn is_unread(memtable: &SharedMemtable) -> bool {
    Rc::strong_count(memtable) == 1
}
