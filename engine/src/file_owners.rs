//! How many shards of a node have a file: the last one that gives it up deletes it.
//!
//! ```text
//! start ─► the manifests of all shards are read: a count for each file they name
//! an edit that names a file for the first time is durable ─► +1
//! a file of a snapshot comes back ─► +1, and then it is linked
//! an edit that names it no more is durable ─► -1 ─┬─ others have it: it stays
//!                                                 └─ 0: leaving ─► unlinked ─► forgotten
//! ```
//!
//! Invariants
//! 1. A file that a manifest names durably is counted for its shard: the count falls only behind the edit, and all
//!    counts are there before the first shard is opened. So a crash leaves a file that is named, or one that nothing
//!    names and that the next start deletes.
//! 2. A shard counts once for a file, and gives that up once, however many of its views go and however many tasks see
//!    them go.
//! 3. While a file is leaving, no shard takes it back: its name is about to go.
//!
//! Not here: that those who still read a file can go on (`sstable/handle.rs`), which is seen to before a shard gives
//! it up; who deletes (`remove.rs`).

#![expect(clippy::disallowed_types, reason = "the shards of a node share one count of each file")]

use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

/// For each sstable of a data directory, how many shards have it. A clone is the same count.
#[derive(Clone, Debug, Default)]
pub struct FileOwners(Arc<Mutex<BTreeMap<Uuid, Owners>>>);

/// Who has a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owners {
    /// How many shards.
    Shards(u32),
    /// No shard any more: it is being unlinked.
    Leaving,
}

/// A file that no shard has any more, until its name is gone: then this is dropped.
#[derive(Debug)]
pub(crate) struct Leaving {
    owners: FileOwners,
    file: Uuid,
}

/// The files that one shard counts for.
#[derive(Debug)]
pub(crate) struct OwnedFiles {
    node: RefCell<FileOwners>,
    own: RefCell<BTreeSet<Uuid>>,
}

impl FileOwners {
    fn files(&self) -> MutexGuard<'_, BTreeMap<Uuid, Owners>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more shard has the file, unless it is leaving.
    pub(crate) fn add(&self, file: Uuid) -> bool {
        match self.files().entry(file).or_insert(Owners::Shards(0)) {
            Owners::Shards(count) => {
                *count += 1;
                true
            }
            Owners::Leaving => false,
        }
    }

    /// One shard less has the file; if that was the last, the file is to be unlinked.
    fn remove(&self, file: Uuid) -> Option<Leaving> {
        let mut files = self.files();
        let owners = files.get_mut(&file).expect("what is given up was counted");
        let Owners::Shards(count) = owners else { unreachable!("no shard has what is leaving") };
        assert!(*count > 0, "who gives a file up was counted");
        *count -= 1;
        if *count > 0 {
            return None;
        }
        *owners = Owners::Leaving;
        Some(Leaving { owners: self.clone(), file })
    }

    fn count(&self, file: Uuid) -> u32 {
        match self.files().get(&file) {
            Some(Owners::Shards(count)) => *count,
            Some(Owners::Leaving) | None => 0,
        }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.owners.files().remove(&self.file);
    }
}

impl OwnedFiles {
    /// The files of a shard that is the only one so far.
    pub(crate) fn new(files: impl IntoIterator<Item = Uuid>) -> OwnedFiles {
        let (node, own) = (FileOwners::default(), files.into_iter().collect::<BTreeSet<Uuid>>());
        own.iter().for_each(|file| assert!(node.add(*file), "nothing is leaving yet"));
        OwnedFiles { node: RefCell::new(node), own: RefCell::new(own) }
    }

    /// Counts with the others of the node from now on, who have counted what this shard had when the node was started.
    pub(crate) fn share(&self, node: &FileOwners) {
        let mut files = node.files();
        for file in self.own.borrow().iter() {
            // It was made since the start.
            if let Entry::Vacant(place) = files.entry(*file) {
                place.insert(Owners::Shards(1));
            }
        }
        drop(files);
        *self.node.borrow_mut() = node.clone();
    }

    /// This shard has the file from now on; `false` if the file is leaving: ask again, it is gone soon.
    pub(crate) fn take(&self, file: Uuid) -> bool {
        if self.own.borrow().contains(&file) {
            return true;
        }
        let is_taken = self.node.borrow().add(file);
        if is_taken {
            self.own.borrow_mut().insert(file);
        }
        is_taken
    }

    /// This shard has the file no more: its manifest does not name it, durably, and its readers keep it open. Gives the
    /// file to the last shard that had it.
    pub(crate) fn give_up(&self, file: Uuid) -> Option<Leaving> {
        let had = self.own.borrow_mut().remove(&file);
        if had { self.node.borrow().remove(file) } else { None }
    }

    /// Whether a shard has the file.
    pub(crate) fn is_counted(&self, file: Uuid) -> bool {
        self.node.borrow().count(file) > 0
    }

    /// Whether this shard has the file and no other has.
    pub(crate) fn has_alone(&self, file: Uuid) -> bool {
        self.own.borrow().contains(&file) && self.node.borrow().count(file) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Uuid = Uuid::from_u128(1);

    /// Two shards as a start opens them, each with `FILE`.
    fn two() -> (OwnedFiles, OwnedFiles) {
        let node = FileOwners::default();
        assert!(node.add(FILE) && node.add(FILE));
        let shards = (OwnedFiles::new([FILE]), OwnedFiles::new([FILE]));
        shards.0.share(&node);
        shards.1.share(&node);
        shards
    }

    #[test]
    fn the_last_shard_is_given_the_file() {
        let (a, b) = two();
        assert!(!a.has_alone(FILE) && a.give_up(FILE).is_none());
        assert!(a.give_up(FILE).is_none(), "it has given up once, and counts no more");
        assert!(b.has_alone(FILE) && !a.has_alone(FILE));
        assert!(b.give_up(FILE).is_some());
    }

    #[test]
    fn a_file_that_is_leaving_is_taken_back_when_it_is_gone() {
        let (a, b) = two();
        assert!(a.give_up(FILE).is_none());
        assert!(a.take(FILE) && a.take(FILE), "it comes back, and counts once");
        assert!(a.give_up(FILE).is_none());
        let leaving = b.give_up(FILE).unwrap();
        assert!(!a.take(FILE), "its name is about to go");
        drop(leaving);
        assert!(a.take(FILE) && a.has_alone(FILE));
    }

    #[test]
    fn what_was_made_before_the_counts_were_shared_is_counted_once() {
        let (node, new) = (FileOwners::default(), Uuid::from_u128(2));
        assert!(node.add(FILE));
        let shard = OwnedFiles::new([FILE]);
        assert!(shard.take(new));
        shard.share(&node);
        assert!(shard.has_alone(FILE) && shard.has_alone(new));
        assert!(shard.give_up(new).is_some());
    }
}
