//! Files of a table that are damaged: what is known of them, and who must not pass over them.
//!
//! ```text
//! start ─► a view whose file is missing or does not verify ─► unopened: its views stay in the manifest, its file stays
//!             reads of its tokens fail with its name; all else is served; the next start tries again
//! read  ─► a block that does not verify ─► noted: other blocks of the file are read on
//! merge ─► a file that cannot be merged ─► noted: it is in quarantine and is read on
//! ```
//!
//! Invariants
//! 1. A read never passes over an unopened view of its tokens: what the view holds may hide or be the newest.
//! 2. No tombstone is purged, and no file dropped as dead, where an unopened view may hold something older.
//! 3. What removes rows (truncate, drop, forget) removes unopened views with them, so that a file which is repaired
//!    later brings nothing back.
//!
//! What counts as damage at a start: a missing file, a wrong length or checksum, and an unreadable sector (EIO), since
//! every other table would have to wait for that disk. Other errors of the system (no descriptors, no memory, no
//! permission) and files of a newer version say nothing about the file: they stop the start, as they may pass.
//!
//! Not here: how a file comes back (`snapshot.rs`, a start), how a merge is ended by one (`compaction/job.rs`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use model::read::{Partitions, ReadCommand};
use model::{TableId, Token, TokenRange};
use uuid::Uuid;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::layout;
use crate::limits::MERGE_FAILURE_GAP_S_MAX;
use crate::manifest::{Edit, ViewEntry, ViewId};
use crate::planted::{Bug, planted};
use crate::table::{Table, View};

/// What cannot be done with a damaged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// It could not be opened at the start: reads of its tokens fail.
    Unopened,
    /// A part of it could not be read: reads of that part fail.
    Unreadable,
    /// No compaction can merge it: it stays as it is, and is read.
    Unmergeable,
}

impl DamageKind {
    /// The word for it, as `system_views.damaged_files` shows it.
    pub fn name(self) -> &'static str {
        match self {
            DamageKind::Unopened => "unopened",
            DamageKind::Unreadable => "unreadable",
            DamageKind::Unmergeable => "unmergeable",
        }
    }
}

/// A view of a damaged file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedView {
    /// The part of the file that is this shard's.
    pub entry: ViewEntry,
    /// What cannot be done with it.
    pub kind: DamageKind,
    /// What was met.
    pub error: Error,
    /// When it was met first, in seconds since 1970; `None` at the start.
    pub since_s: Option<u32>,
}

impl DamagedView {
    /// The table it belongs to.
    pub fn table(&self) -> TableId {
        TableId(self.entry.table)
    }

    /// Where the file is, relative to the data directory.
    pub fn path(&self) -> String {
        layout::sstable_path(self.entry.table, self.entry.sstable).as_str().to_owned()
    }

    /// The error of a read or a snapshot that needs the file.
    pub(crate) fn refusal(&self) -> Error {
        Error::Damaged { file: self.path().into(), what: self.error.to_string().into() }
    }
}

/// The damaged files of one table of a shard.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    /// Views whose files could not be opened.
    unopened: RefCell<Rc<[DamagedView]>>,
    /// Whether there are any, so that a read asks one bit.
    has_unopened: Cell<bool>,
    /// Views that are open and of which something is wrong.
    noted: RefCell<BTreeMap<ViewId, DamagedView>>,
    /// Of each file that has made merges fail.
    merge_failures: RefCell<BTreeMap<Uuid, MergeFailures>>,
}

/// Merges that have failed by one file, each at most [`MERGE_FAILURE_GAP_S_MAX`] after the one before.
#[derive(Clone, Copy, Debug, Default)]
struct MergeFailures {
    count: u32,
    /// When the last of them failed, in seconds as `backoff.rs` counts them.
    last_s: u32,
}

impl Damage {
    /// Views whose files could not be opened.
    pub(crate) fn unopened(&self) -> Rc<[DamagedView]> {
        self.unopened.borrow().clone()
    }

    /// Whether a file could not be opened.
    #[inline]
    pub(crate) fn has_unopened(&self) -> bool {
        self.has_unopened.get()
    }

    /// The views that could not be opened, from now on.
    pub(crate) fn set_unopened(&self, views: impl IntoIterator<Item = DamagedView>) {
        let views: Rc<[DamagedView]> = views.into_iter().collect();
        self.has_unopened.set(!views.is_empty());
        *self.unopened.borrow_mut() = views;
    }

    /// Removes these from the views that could not be opened.
    pub(crate) fn remove_unopened(&self, gone: &[ViewId]) {
        let stay: Vec<DamagedView> = self.unopened().iter().cloned().collect();
        self.set_unopened(stay.into_iter().filter(|view| !gone.contains(&view.entry.id())));
    }

    /// Entries of the views that could not be opened.
    pub(crate) fn unopened_entries(&self) -> Vec<ViewEntry> {
        self.unopened().iter().map(|view| view.entry.clone()).collect()
    }

    /// Whether a file that could not be opened may hold a partition of this token.
    pub(crate) fn may_hold(&self, token: Token) -> bool {
        self.has_unopened() && self.unopened().iter().any(|view| view.entry.tokens.contains(token))
    }

    /// Notes what is wrong with a view that is open; the first time counts.
    pub(crate) fn note(&self, view: DamagedView) {
        self.noted.borrow_mut().entry(view.entry.id()).or_insert(view);
    }

    /// Notes that one more merge has failed by this file, at this second as `backoff.rs` counts them; how many count
    /// together.
    pub(crate) fn note_merge_failure(&self, sstable: Uuid, backoff_clock_s: u32) -> u32 {
        let mut failures = self.merge_failures.borrow_mut();
        let known = failures.entry(sstable).or_default();
        if backoff_clock_s.saturating_sub(known.last_s) > MERGE_FAILURE_GAP_S_MAX {
            known.count = 0;
        }
        *known = MergeFailures { count: known.count.saturating_add(1), last_s: backoff_clock_s };
        known.count
    }

    /// Forgets notes of views that are gone.
    pub(crate) fn keep_notes_of(&self, views: &[View]) {
        let mut noted = self.noted.borrow_mut();
        if !noted.is_empty() {
            noted.retain(|id, _| views.iter().any(|view| view.entry.id() == *id));
        }
        let mut failures = self.merge_failures.borrow_mut();
        if !failures.is_empty() {
            failures.retain(|file, _| views.iter().any(|view| view.entry.sstable == *file));
        }
    }

    /// All that is known, by file and place.
    fn all(&self) -> Vec<DamagedView> {
        self.unopened().iter().chain(self.noted.borrow().values()).cloned().collect()
    }
}

/// Whether an error is a damaged file's own, and comes again whenever the file is asked.
pub(crate) fn is_damage(error: &Error) -> bool {
    file_of(error).is_some()
}

/// The file of such an error.
pub(crate) fn file_of(error: &Error) -> Option<&str> {
    match error {
        Error::Corrupt { file, .. }
        | Error::NotFound { file }
        | Error::Io { file, errno: libc::EIO, .. } => Some(file),
        _ => None,
    }
}

/// The sstable whose file has this path.
fn sstable_of(path: &str) -> Option<Uuid> {
    let name = path.rsplit('/').next()?.strip_suffix(".sst")?;
    Uuid::parse_str(name).ok()
}

impl Table {
    /// Refuses a read that needs a file which could not be opened.
    pub(crate) fn refuse_damaged(&self, command: &ReadCommand) -> Result<()> {
        if !self.damage.has_unopened() || planted(Bug::PassDamaged) {
            return Ok(());
        }
        let needs = |view: &&DamagedView| match &command.partitions {
            Partitions::Keys(keys) => {
                keys.iter().any(|(token, _)| view.entry.tokens.contains(*token))
            }
            Partitions::Range(range) => {
                let first = command.resume.as_ref().map_or(range.first, |resume| resume.token);
                let rest = TokenRange { first: first.max(range.first), last: range.last };
                view.entry.tokens.intersection(&rest).is_some()
            }
        };
        match self.damage.unopened().iter().find(needs) {
            None => Ok(()),
            Some(view) => Err(view.refusal()),
        }
    }

    /// Notes the file that a read could not read, at this second.
    #[cold]
    pub(crate) fn note_unreadable(&self, error: &Error, now_s: u32) {
        let Some(sstable) = file_of(error).and_then(sstable_of) else { return };
        for view in self.views().iter().filter(|view| view.entry.sstable == sstable) {
            let (entry, kind) = (view.entry.clone(), DamageKind::Unreadable);
            let (since_s, error) = (Some(now_s), error.clone());
            self.damage.note(DamagedView { entry, kind, error, since_s });
        }
    }
}

impl Engine {
    /// All damaged files that this shard knows of, table by table.
    pub fn damaged_files(&self) -> Vec<DamagedView> {
        let tables = self.tables.by_id();
        let mut all: Vec<DamagedView> =
            tables.values().flat_map(|table| table.damage.all()).collect();
        all.sort_by_key(|view| (view.entry.table, view.entry.id()));
        all
    }

    /// Gives up what this shard has of a damaged file: its rows are gone for good, and the file with them unless other
    /// shards have parts of it. How many views that were: none if the file is not known to be damaged. `Invalid`: it is
    /// being merged.
    pub async fn forget_file(&self, sstable: Uuid) -> Result<u64> {
        let lock = self.manifest_lock.take().await;
        let known = self.damaged_files();
        let gone: Vec<ViewEntry> = known
            .iter()
            .filter(|view| view.entry.sstable == sstable)
            .map(|view| view.entry.clone())
            // A truncation may have removed it since it was noted.
            .filter(|entry| self.manifest.state().views.contains_key(&entry.id()))
            .collect();
        let Some(first) = gone.first() else { return Ok(0) };
        let table = self.table(TableId(first.table))?;
        if table.is_merging(sstable) {
            return Err(Error::invalid(format!("{sstable} is being merged: try again later")));
        }
        // No merge takes it meanwhile.
        table.begin_merging(sstable);
        let (epoch, remove): (u64, Vec<ViewId>) =
            (table.epoch(), gone.iter().map(ViewEntry::id).collect());
        let edit = Edit { remove: remove.clone(), ..Edit::default() };
        let committed = self.manifest.commit(&edit).await;
        table.end_merging(&[sstable]);
        committed?;
        if table.epoch() == epoch {
            let views = table.views();
            let is_open = |id: &ViewId| views.iter().any(|view| view.entry.id() == *id);
            let open: Vec<ViewId> = remove.iter().copied().filter(is_open).collect();
            table.damage.remove_unopened(&remove);
            table.replace_views(&open, []);
        }
        drop(lock);
        self.delete_used(&gone).await?;
        Ok(gone.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before: three passing errors of a disk, weeks apart, put a sound file in quarantine.
    #[test]
    fn a_failure_long_ago_does_not_count() {
        let (damage, file) = (Damage::default(), Uuid::from_u128(7));
        let failed = |now_s| damage.note_merge_failure(file, now_s);
        assert_eq!([failed(1000), failed(1002), failed(1002 + MERGE_FAILURE_GAP_S_MAX)], [1, 2, 3]);
        assert_eq!(failed(1003 + 2 * MERGE_FAILURE_GAP_S_MAX), 1);
        assert_eq!(damage.note_merge_failure(Uuid::nil(), 1000), 1, "another file");
    }
}
