//! Views of tables that are gone, until a job has removed them and their files.

use std::cell::RefCell;

use crate::backoff::Backoff;
use crate::manifest::ViewEntry;

/// What is to be removed, table by table.
#[derive(Debug, Default)]
pub(crate) struct Garbage {
    tables: RefCell<Vec<Vec<ViewEntry>>>,
    backoff: Backoff,
}

impl Garbage {
    /// What a start has found.
    pub(crate) fn of(tables: Vec<Vec<ViewEntry>>) -> Garbage {
        Garbage { tables: RefCell::new(tables), backoff: Backoff::default() }
    }

    /// Adds the views of a table.
    pub(crate) fn add(&self, views: Vec<ViewEntry>) {
        self.tables.borrow_mut().push(views);
    }

    /// Whether there is something to remove, and it may be tried at this second.
    pub(crate) fn is_due(&self, now_s: u32) -> bool {
        !self.tables.borrow().is_empty() && self.backoff.is_due(now_s)
    }

    /// The views of one of the tables; `None` when all are removed.
    pub(crate) fn next(&self) -> Option<Vec<ViewEntry>> {
        self.tables.borrow().last().cloned()
    }

    /// The manifest names these views no more.
    pub(crate) fn forget(&self, views: &[ViewEntry]) {
        let mut tables = self.tables.borrow_mut();
        let before = tables.len();
        tables.retain(|other| other != views);
        assert!(tables.len() < before, "what is forgotten was known");
    }

    /// Notes how an attempt ended at this second.
    pub(crate) fn ended<T, E>(&self, result: &Result<T, E>, now_s: u32) {
        self.backoff.ended(result, now_s);
    }
}
