//! Snapshots that go by themselves when their time has come.
//!
//! ```text
//! first look: all manifests ─► the tags that have a time ─┐
//! taken with a time ──────────────────────────────────────┴─► its time has come ─► removed
//! ```
//!
//! Only the first core takes, removes and looks, and each of it has the turn of snapshots. Not here: when it is looked
//! (`server/src/node.rs`).

use std::cell::RefCell;
use std::collections::BTreeMap;

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

/// The snapshots that go by themselves, by their tags: when, in milliseconds since 1970. `None` until the manifests were
/// read.
#[derive(Debug, Default)]
pub(crate) struct Expiring(RefCell<Option<BTreeMap<String, i64>>>);

impl Expiring {
    /// A snapshot was taken.
    pub(super) fn taken(&self, tag: &str, expiry: Option<&Expiry>) {
        if let (Some(expiring), Some(expiry)) = (&mut *self.0.borrow_mut(), expiry) {
            expiring.insert(tag.to_owned(), expiry.at_ms);
        }
    }

    /// The tags of those whose time has come.
    fn due(&self, now_ms: i64) -> Vec<String> {
        let expiring = self.0.borrow();
        let due = expiring.iter().flatten().filter(|(_, at_ms)| **at_ms <= now_ms);
        due.map(|(tag, _)| tag.clone()).collect()
    }

    fn is_known(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// It is removed.
    pub(super) fn forget(&self, tag: &str) {
        if let Some(expiring) = &mut *self.0.borrow_mut() {
            expiring.remove(tag);
        }
    }
}

impl<P: Protocol> Shard<P> {
    /// Removes the snapshots whose time has come; their tags. `now_ms` is milliseconds since 1970.
    pub async fn expire_snapshots(&self, now_ms: i64) -> Result<Vec<String>> {
        let _turn = self.snapshot_turn().await;
        if !self.snapshots_expiring.is_known() {
            let found = self.find_expiring().await?;
            *self.snapshots_expiring.0.borrow_mut() = Some(found);
        }
        let due = self.snapshots_expiring.due(now_ms);
        for tag in &due {
            self.remove_snapshot(tag).await?;
            self.snapshots_expiring.forget(tag);
        }
        Ok(due)
    }

    /// Reads the manifests. What cannot be read stays: when it goes is not known.
    async fn find_expiring(&self) -> Result<BTreeMap<String, i64>> {
        let disk = self.engine().disk();
        let mut found = BTreeMap::new();
        for tag in snapshot::tags(disk).await? {
            let Ok(dir) = snapshot::snapshot_dir(&tag) else { continue };
            if !snapshot::is_whole(disk, &dir).await? {
                continue;
            }
            match read(disk, &dir).await {
                Ok(manifest) => found.extend(manifest.expiry.map(|expiry| (tag, expiry.at_ms))),
                Err(error @ Error::Corrupt { .. }) => {
                    tracing::warn!(tag, "a snapshot whose manifest cannot be read stays: {error}");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}
