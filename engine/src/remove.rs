//! How data goes at once: a table is emptied or dropped.
//!
//! 1. Truncate: all that was written before the call is readable first (so it has a place in the log), and durable
//!    there; then one edit removes the views and says up to where the log is not replayed for this table. Then memory
//!    and files go. Writes go on meanwhile; the truncation does not wait for them.
//!    Behind a snapshot (`truncate_to_cut`) only what the snapshot has goes.
//! 2. Drop: if a snapshot comes before it, writes are refused first, so that it has all that was answered. Then the
//!    table leaves the schema, and its memtables with it; a job removes its views and files, and at last its directory,
//!    and frees what the log held for it.
//!    A directory that still holds files of other shards goes with theirs, or at the next start.
//! 3. A file of several shards goes with the last of them (`file_owners.rs`).
//! 4. The manifest's lock ends with the commit and what follows from it in memory: flushes do not wait while files are
//!    unlinked, of which there may be many. Whatever the manifest names again by then stays (`delete_file`); who puts a
//!    file back into a table's directory holds `deleting` until it is named.
//!
//! A crash before the edit leaves everything, a crash after it nothing. Files that could not be deleted are found at
//! the next start, since no manifest names them.

use std::collections::{BTreeMap, BTreeSet};

use model::TableId;
use uuid::Uuid;

use crate::commitlog::Position;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::io::RelPath;
use crate::layout;
use crate::manifest::{Edit, ViewEntry, ViewId};
use crate::pause::Pause;
use crate::planted::{Bug, planted};
use crate::sstable::SstableId;
use crate::table::{Table, View};

impl Engine {
    /// Empties a table: nothing that was answered before the call is left when it returns.
    pub async fn truncate(&self, id: TableId) -> Result<()> {
        let table = self.table(id)?;
        let truncating = self.begin_truncation(&table);
        self.until_applied(self.log.positions().appended).await?;
        let lock = self.manifest_lock.take().await;
        // The layers of now go. Sealed, they take nothing more: a write that comes while we wait begins a layer of its
        // own, which stays.
        table.seal();
        let end = self.writes.applied();
        let (dropped, views) = (table.layers().to_vec(), table.views());
        self.until_durable(end).await?;
        assert!(end <= self.log.positions().durable, "what goes has its place in the log");
        let later = table.layers().get(dropped.len()).map(|layer| layer.since);
        assert!(
            later.is_none_or(|since| since >= end),
            "a layer that stays begins behind what goes"
        );
        let flushed = self.flushed_with(|other| match std::ptr::eq(other, &*table) {
            true => later,
            false => other.since(),
        });
        let entries = all_entries(&table);
        let edit = Edit {
            remove: entries.iter().map(ViewEntry::id).collect(),
            replayed_from: match planted(Bug::ReplayTruncated) {
                true => Vec::new(),
                false => vec![(id.0, end)],
            },
            flushed: Some(flushed),
            ..Edit::default()
        };
        let committed = self.manifest.commit(&edit).await;
        committed.inspect_err(|error| truncating.failed(error))?;
        let dropped = match planted(Bug::TruncateTakesLater) {
            true => table.layers().to_vec(),
            false => dropped,
        };
        self.budget.memtables_shrank(table.clear(&dropped));
        self.garbage.add_memtables(dropped.into_iter().map(|layer| layer.memtable));
        self.log.mark_flushed(flushed);
        self.log_space.freed();
        drop((views, lock));
        self.delete_files(&entries).await
    }

    /// Empties a table of what it held at its [cut](Engine::link_and_cut), which a snapshot has; what was written since
    /// stays.
    pub async fn truncate_to_cut(&self, id: TableId) -> Result<()> {
        let table = self.table(id)?;
        let truncating = self.begin_truncation(&table);
        let lock = self.manifest_lock.take().await;
        let Some(cut) = table.cut.end() else {
            return Err(Error::invalid(format!("table {id} was emptied or made anew meanwhile")));
        };
        self.until_durable(cut.end).await?;
        let (stay, gone): (Vec<View>, Vec<View>) =
            table.views().iter().cloned().partition(|view| cut.is_behind(view));
        let flushed = self.manifest.state().replayed_from.get(&id.0).copied();
        let mut entries: Vec<ViewEntry> = gone.iter().map(|view| view.entry.clone()).collect();
        // What could not be opened was there before the cut.
        entries.extend(unopened_entries(&table));
        let edit = Edit {
            remove: entries.iter().map(ViewEntry::id).collect(),
            replayed_from: vec![(id.0, flushed.unwrap_or(cut.end).max(cut.end))],
            ..Edit::default()
        };
        let committed = self.manifest.commit(&edit).await;
        committed.inspect_err(|error| truncating.failed(error))?;
        let dropped =
            if planted(Bug::TruncateTakesLater) { table.layers().to_vec() } else { Vec::new() };
        self.budget.memtables_shrank(table.keep(&dropped, stay.into()));
        self.log_space.freed();
        drop((gone, lock));
        self.delete_files(&entries).await
    }

    /// Takes a table's cut back: it is not truncated.
    pub fn end_cut(&self, id: TableId) {
        if let Ok(table) = self.table(id) {
            table.cut.end();
            self.unannounce_truncation(&table);
        }
    }

    /// Refuses writes to tables from now on, since they are to be dropped; returns when all that was taken before is
    /// readable.
    pub async fn close_tables(&self, ids: &[TableId]) -> Result<()> {
        ids.iter().filter_map(|id| self.table(*id).ok()).for_each(|table| table.closed.set(true));
        self.until_applied(self.log.positions().appended).await
    }

    /// Takes writes to tables again: they are not dropped.
    pub fn open_tables(&self, ids: &[TableId]) {
        ids.iter().filter_map(|id| self.table(*id).ok()).for_each(|table| table.closed.set(false));
    }

    /// A table has left the schema: its memory goes now, its files by a job.
    pub(crate) fn retire(&self, table: &Table) {
        table.is_gone.set(true);
        let entries = all_entries(table);
        let dropped = table.layers().to_vec();
        self.budget.memtables_shrank(table.clear(&dropped));
        self.garbage.add_memtables(dropped.into_iter().map(|layer| layer.memtable));
        self.log_space.freed();
        self.garbage.add(table.definition().id.0, entries);
        // Writes that wait until it is truncated.
        self.truncation_is_over();
    }

    /// Whether the log is long and has segments that nothing holds any more: what they hold is of tables that are gone.
    pub(crate) fn is_log_held_by_nothing(&self) -> bool {
        self.log.is_long() && self.freeable().is_some()
    }

    /// Up to where the log is flushed by now, if that frees segments of it.
    fn freeable(&self) -> Option<Position> {
        let flushed = self.flushed_now();
        (flushed.segment() > self.log.positions().flushed.segment()).then_some(flushed)
    }

    /// Frees the segments of the log that held only what is gone: no flush would, where no other table has rows in
    /// memory.
    pub(crate) async fn free_log(&self) -> Result<()> {
        let _lock = self.manifest_lock.take().await;
        let Some(flushed) = self.freeable() else { return Ok(()) };
        self.manifest.commit(&Edit { flushed: Some(flushed), ..Edit::default() }).await?;
        self.log.mark_flushed(flushed);
        self.log_space.freed();
        Ok(())
    }

    /// Gives back the memory of memtables that are gone and that no reader has any more.
    pub(crate) async fn free_memtables(&self, pause: &dyn Pause) {
        while let Some(memtable) = self.garbage.unread_memtable() {
            memtable.free(pause).await;
        }
    }

    /// Removes the views and files of tables that are gone; the manifest's lock is taken for each table anew. What
    /// another call has begun is waited for.
    pub(crate) async fn remove_garbage(&self) -> Result<()> {
        let _removing = self.removing.take().await;
        loop {
            let lock = self.manifest_lock.take().await;
            let Some(gone) = self.garbage.next() else { return Ok(()) };
            // A truncation may have removed them before the table was dropped.
            let named = |id: &ViewId| self.manifest.state().views.contains_key(id);
            let remove: Vec<_> = gone.views.iter().map(ViewEntry::id).filter(named).collect();
            if !remove.is_empty() {
                self.manifest.commit(&Edit { remove, ..Edit::default() }).await?;
            }
            self.garbage.forget(&gone);
            drop(lock);
            self.delete_files(&gone.views).await?;
            self.remove_table_dir(&layout::table_dir(gone.table)).await?;
        }
    }

    /// Deletes the files that could not be kept open for their readers, if that can be now, or there are no readers any
    /// more. An error at the first that still has to stay: the next attempt begins behind it. Each is known until it is
    /// deleted, so that none is forgotten if this is dropped on the way.
    pub(crate) async fn delete_unkept(&self) -> Result<()> {
        while let Some(entry) = self.garbage.first_unkept() {
            let deleting = self.deleting.take().await;
            let deleted = self.delete_file(&entry).await;
            if matches!(deleted, Ok(None)) && !self.manifest.is_counted(entry.sstable) {
                let files = BTreeSet::from([entry.sstable]);
                self.remove_indexes_of(entry.table, &files).await?;
            }
            drop(deleting);
            self.garbage.forget_unkept(&entry);
            if let Some(why) = deleted? {
                self.garbage.add_unkept(entry);
                return Err(why);
            }
            if self.table(TableId(entry.table)).is_err() {
                self.remove_table_dir(&layout::table_dir(entry.table)).await?;
            }
        }
        Ok(())
    }

    /// Removes the directory of a table that is gone, if no shard has a file there any more.
    async fn remove_table_dir(&self, dir: &RelPath) -> Result<()> {
        match self.disk.list(dir).await {
            Ok(names) if names.is_empty() => {}
            // Another shard still has a file there, or was faster.
            Ok(_) | Err(Error::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        match self.disk.rmdir(dir).await {
            // Another shard has removed it, or still writes a file of the table that it is about to hear is gone.
            Err(Error::NotFound { .. }) => Ok(()),
            Err(Error::Io { errno: libc::ENOTEMPTY, .. }) => Ok(()),
            removed => removed,
        }
    }

    /// Deletes the files of views that are gone, durably. One that cannot be kept open for those who still read it
    /// stays, and a job tries again: who waited for a descriptor in vain does not wait for each of many files.
    pub(crate) async fn delete_files(&self, entries: &[ViewEntry]) -> Result<()> {
        let _deleting = self.deleting.take().await;
        let files: BTreeMap<Uuid, &ViewEntry> =
            entries.iter().map(|entry| (entry.sstable, entry)).collect();
        let mut unlinked: BTreeMap<Uuid, BTreeSet<Uuid>> = BTreeMap::new();
        let mut deleted = self.delete_each(files, &mut unlinked).await;
        // Also after an error: nothing names the index files of what is gone any more.
        for (table, files) in unlinked {
            deleted = deleted.and(self.remove_indexes_of(table, &files).await);
        }
        deleted
    }

    /// Deletes these files up to the first error, and notes which are gone, by table.
    async fn delete_each(
        &self,
        files: BTreeMap<Uuid, &ViewEntry>,
        unlinked: &mut BTreeMap<Uuid, BTreeSet<Uuid>>,
    ) -> Result<()> {
        let mut is_short = false;
        for (file, entry) in files {
            let stays = is_short && self.cache.handles().must_open(SstableId(file));
            if stays || self.delete_file(entry).await?.is_some() {
                is_short = true;
                self.garbage.add_unkept(entry.clone());
            } else if !self.manifest.is_counted(file) {
                unlinked.entry(entry.table).or_default().insert(file);
            }
        }
        Ok(())
    }

    /// Deletes the file of a view that is gone, durably; gives why it cannot be kept open for its readers, if it has to
    /// stay for them. One that another shard has stays until that gives it up, too; so does one of which this shard has
    /// another part, until that goes. `deleting` is held.
    async fn delete_file(&self, entry: &ViewEntry) -> Result<Option<Error>> {
        let file = entry.sstable;
        // What another part of names it still is not given up, and need not be kept open.
        if self.manifest.state().names(file) {
            return Ok(None);
        }
        // Who still reads it goes on reading, whichever shard unlinks it.
        if let Err(error) = self.cache.handles().keep(SstableId(file)).await {
            return Ok(Some(error));
        }
        let leaving = self.manifest.give_up_file(file);
        if leaving.is_none() && !planted(Bug::DeleteAtFirstOwner) {
            return Ok(None);
        }
        let unlinked = self.disk.unlink(&layout::sstable_path(entry.table, file)).await;
        drop(leaving);
        match unlinked {
            Ok(()) => self.counters.count(|s| s.shared_files_deleted += u64::from(entry.shared)),
            // A file that was lost has no name to take away; its views are damaged ones (`damage.rs`).
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(None)
    }
}

/// All that the manifest has of a table, also what could not be opened.
fn all_entries(table: &Table) -> Vec<ViewEntry> {
    table.views().iter().map(|view| view.entry.clone()).chain(unopened_entries(table)).collect()
}

fn unopened_entries(table: &Table) -> Vec<ViewEntry> {
    match planted(Bug::TruncateKeepsDamaged) {
        true => Vec::new(),
        false => table.damage.unopened_entries(),
    }
}
