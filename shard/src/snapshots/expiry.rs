//! Snapshots that go by themselves when their time has come.
//!
//! ```text
//! first look: all manifests ─► the tags that have a time ─┐
//! taken with a time ──────────────────────────────────────┴─► its time has come ─► removed
//! ```
//!
//! One that cannot be read or removed keeps no other: it is tried again at each look, and what is wrong is told at the
//! end of it. One whose manifest is gone is no snapshot: what is left of it goes at the next start.
//!
//! Only the first core takes, removes and looks, and each of it has the turn of snapshots. Not here: when it is looked
//! (`server/src/node.rs`).

use std::cell::RefCell;
use std::collections::BTreeMap;

use engine::io::RelPath;
use engine::snapshot;
use engine::{Error, Result};

use super::read;
use crate::protocol::Protocol;
use crate::shard::Shard;

/// When a snapshot goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// The same, as it is to be shown.
    pub shown: String,
}

/// The snapshots that go by themselves. `None` until it was looked which snapshots there are.
#[derive(Debug, Default)]
pub(crate) struct Expiring(RefCell<Option<Known>>);

/// What is known of snapshots.
#[derive(Debug)]
struct Known {
    /// When those go that have a time, by their tags: in milliseconds since 1970.
    at_ms: BTreeMap<String, i64>,
    /// The tags of those whose manifests are still to be read.
    unread: Vec<String>,
}

impl Expiring {
    /// A snapshot was taken.
    pub(super) fn taken(&self, tag: &str, expiry: Option<&Expiry>) {
        if let (Some(known), Some(expiry)) = (&mut *self.0.borrow_mut(), expiry) {
            known.at_ms.insert(tag.to_owned(), expiry.at_ms);
        }
    }

    /// The tags of those whose time has come.
    fn due(&self, now_ms: i64) -> Vec<String> {
        let known = self.0.borrow();
        let all = known.iter().flat_map(|known| &known.at_ms);
        all.filter(|(_, at_ms)| **at_ms <= now_ms).map(|(tag, _)| tag.clone()).collect()
    }

    /// The tags of those whose manifests are still to be read; `None` before the first look.
    fn unread(&self) -> Option<Vec<String>> {
        self.0.borrow().as_ref().map(|known| known.unread.clone())
    }

    /// It is removed.
    pub(super) fn forget(&self, tag: &str) {
        if let Some(known) = &mut *self.0.borrow_mut() {
            known.at_ms.remove(tag);
            known.unread.retain(|other| other != tag);
        }
    }
}

impl<P: Protocol> Shard<P> {
    /// Removes the snapshots whose time has come: the tags of those that went, and the first error of those that could
    /// not be read or removed. `now_ms` is milliseconds since 1970.
    pub async fn expire_snapshots(&self, now_ms: i64) -> (Vec<String>, Result<()>) {
        let _turn = self.snapshot_turn().await;
        let mut outcome = self.find_expiring().await;
        let mut gone = Vec::new();
        for tag in self.snapshots_expiring.due(now_ms) {
            match self.remove_snapshot(&tag).await {
                Ok(()) => gone.push(tag),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        (gone, outcome)
    }

    /// Reads the manifests that were not read so far; the first error of those that could not be read now. A damaged
    /// one stays: when it goes is not known.
    async fn find_expiring(&self) -> Result<()> {
        let tags = match self.snapshots_expiring.unread() {
            Some(unread) => unread,
            None => snapshot::tags(self.engine().disk()).await?,
        };
        let (mut found, mut unread, mut outcome) = (Vec::new(), Vec::new(), Ok(()));
        for tag in tags {
            let Ok(dir) = snapshot::snapshot_dir(&tag) else { continue };
            match self.expiry_of(&dir).await {
                Ok(expiry) => found.extend(expiry.map(|expiry| (tag, expiry.at_ms))),
                Err(error @ Error::Corrupt { .. }) => {
                    tracing::warn!(tag, "a snapshot whose manifest cannot be read stays: {error}");
                }
                Err(error) => {
                    unread.push(tag);
                    outcome = outcome.and(Err(error));
                }
            }
        }
        let mut known = self.snapshots_expiring.0.borrow_mut();
        let known =
            known.get_or_insert_with(|| Known { at_ms: BTreeMap::new(), unread: Vec::new() });
        known.at_ms.extend(found);
        known.unread = unread;
        outcome
    }

    /// When the snapshot in this directory goes by itself; `None` if it does not, or is not whole.
    async fn expiry_of(&self, dir: &RelPath) -> Result<Option<Expiry>> {
        let disk = self.engine().disk();
        match snapshot::is_whole(disk, dir).await? {
            true => Ok(read(disk, dir).await?.expiry),
            false => Ok(None),
        }
    }
}
