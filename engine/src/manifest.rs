//! What one shard's data is: which parts of which sstables, and from where the log is replayed.
//!
//! Steps of a change: 1. the new sstables are whole, synced and named; 2. one edit is committed: `{add, remove,
//! flushed, replayed_from}`; 3. only then the old ones are unlinked and the log's segments freed.
//!
//! Invariants: an edit happens whole or not at all; what the manifest names is there; files that no manifest
//! names are garbage. Commits are one after another, however many tasks ask. A journal holds the edits
//! (`journal/`); it is rewritten from the state when it is full and whenever it is opened.
//!
//! Not here: the sstables, and who decides what to merge.

mod edit;

#[cfg(test)]
mod tests;

use std::cell::{Ref, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

pub use edit::{Edit, State, ViewBegin, ViewEntry, ViewId};
use uuid::Uuid;

use crate::commitlog::Position;
use crate::error::{Error, Result};
use crate::file_owners::{FileOwners, Leaving, OwnedFiles};
use crate::io::{Disk, RelPath};
use crate::journal::{Appended, Contents, Journal, Kind};
use crate::limits::MANIFEST_BYTES_MIN;

const KIND: Kind = Kind { magic: b"MESSMANF", version: 1, bytes_min: MANIFEST_BYTES_MIN };

/// The manifest of one shard.
#[derive(Debug)]
pub struct Manifest {
    disk: Disk,
    path: RelPath,
    seed: u64,
    state: RefCell<State>,
    /// The files that it names, or did until they were given up.
    files: OwnedFiles,
    /// Taken by the commit that is under way; the others wait.
    journal: RefCell<Option<Journal>>,
    waiting: RefCell<Vec<Waker>>,
}

impl Manifest {
    /// Makes a shard's first manifest. The shard's log and the views' files are there already: this is the step
    /// that makes the shard exist.
    pub async fn create(disk: &Disk, dir: &RelPath, seed: u64, state: State) -> Result<Manifest> {
        let uuid = Uuid::from_u64_pair(seed, !seed);
        Manifest::make(disk, dir, seed, uuid, 1, state).await
    }

    /// Opens a shard's manifest for changes.
    pub async fn open(disk: &Disk, dir: &RelPath, seed: u64) -> Result<Manifest> {
        let contents = Journal::read(disk, &dir.join(NAME), KIND).await?;
        let state = state_of(&contents, &dir.join(NAME))?;
        let first = contents.first + contents.entries.len() as u64;
        Manifest::make(disk, dir, seed, contents.next_uuid(seed), first, state).await
    }

    /// What a shard's manifest says, and changes nothing.
    pub async fn read(disk: &Disk, dir: &RelPath) -> Result<State> {
        let contents = Journal::read(disk, &dir.join(NAME), KIND).await?;
        state_of(&contents, &dir.join(NAME))
    }

    async fn make(
        disk: &Disk,
        dir: &RelPath,
        seed: u64,
        uuid: Uuid,
        first: u64,
        state: State,
    ) -> Result<Manifest> {
        assert!(first > 0, "numbers of edits begin at 1");
        let path = dir.join(NAME);
        let journal = Journal::make(disk, &path, KIND, uuid, first, &state.entries()).await?;
        let files = OwnedFiles::new(state.views.values().map(|view| view.sstable));
        Ok(Manifest {
            disk: disk.clone(),
            path,
            seed,
            state: RefCell::new(state),
            files,
            journal: RefCell::new(Some(journal)),
            waiting: RefCell::new(Vec::new()),
        })
    }

    /// The views, the flushed position and the places of replay. Do not keep the borrow across an await.
    pub fn state(&self) -> Ref<'_, State> {
        self.state.borrow()
    }

    /// Makes an edit true, durably. `DiskFull` changes nothing; any other error ends the trust in the manifest.
    ///
    /// Removing what is not there and adding what is, is our bug.
    pub async fn commit(&self, edit: &Edit) -> Result<()> {
        let mut journal = self.take_journal().await;
        self.state.borrow().check(edit).expect("an edit fits the state it changes");
        let result = self.write(&mut journal, edit).await;
        if result.is_ok() {
            for view in &edit.add {
                assert!(self.files.take(view.sstable), "what is named is not being deleted");
            }
            self.state.borrow_mut().apply(edit);
        }
        let other = self.journal.replace(Some(journal));
        assert!(other.is_none(), "one commit after another");
        self.waiting.borrow_mut().drain(..).for_each(Waker::wake);
        result
    }

    /// Counts its files with those of the other shards of the node from now on.
    pub(crate) fn share_files(&self, node: &FileOwners) {
        self.files.share(node);
    }

    /// The shard is going to name this file, which other shards may have; `false` while that is being deleted.
    pub(crate) fn take_file(&self, sstable: Uuid) -> bool {
        self.files.take(sstable)
    }

    /// The shard has this file no more. Gives it to the last shard of the node that had it, to be unlinked; `None` if
    /// another has it, or this one names it still or has given it up before.
    pub(crate) fn give_up_file(&self, sstable: Uuid) -> Option<Leaving> {
        if self.state.borrow().names(sstable) { None } else { self.files.give_up(sstable) }
    }

    /// Whether a shard of the node has the file.
    pub(crate) fn is_counted(&self, sstable: Uuid) -> bool {
        self.files.is_counted(sstable)
    }

    /// Whether this shard has the file, and no other.
    pub(crate) fn has_alone(&self, sstable: Uuid) -> bool {
        self.files.has_alone(sstable)
    }

    async fn write(&self, journal: &mut Journal, edit: &Edit) -> Result<()> {
        if journal.append(&edit.encode()).await? == Appended::Durably {
            return Ok(());
        }
        let mut state = self.state.borrow().clone();
        state.apply(edit);
        let (uuid, first) = (journal.next_uuid(self.seed), journal.next_number());
        let entries = state.entries();
        let made = Journal::make(&self.disk, &self.path, KIND, uuid, first, &entries).await;
        journal.replace(made).await
    }

    /// Waits until no other commit is under way, and takes the journal.
    async fn take_journal(&self) -> Journal {
        poll_fn(|cx| match self.journal.borrow_mut().take() {
            Some(journal) => Poll::Ready(journal),
            None => {
                self.waiting.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

const NAME: &str = "manifest";

fn state_of(contents: &Contents, path: &RelPath) -> Result<State> {
    let mut state = State::default();
    for (payload, number) in contents.entries.iter().zip(contents.first..) {
        let damaged = |what: &str| {
            Error::corrupt(path.as_str(), 0, format!("edit {number} of the manifest: {what}"))
        };
        let edit = Edit::decode(payload).map_err(|_| damaged("its bytes make no sense"))?;
        state.check(&edit).map_err(damaged)?;
        state.apply(&edit);
    }
    Ok(state)
}

impl State {
    /// This state as the entries of a new journal.
    fn entries(&self) -> Vec<Vec<u8>> {
        self.snapshot().iter().map(Edit::encode).collect()
    }

    /// Whether a record of the table that ends at `end` is replayed: it is in none of the table's views, and the
    /// table was not truncated after it.
    pub fn is_replayed(&self, table: Uuid, end: Position) -> bool {
        self.replayed_from.get(&table).is_none_or(|from| end > *from)
    }
}
