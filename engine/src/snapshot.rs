//! Snapshots: the files of tables under other names, and back.
//!
//! ```text
//! DATA/snapshots/<tag>/<table uuid>/<sstable uuid>.sst    hard links: they cost no space while the table has the file
//!                      schema.cql                         for people
//!                      manifest.json                      what is in it; with this it is a snapshot
//! ```
//!
//! 1. What is linked is durable before the manifest has its name: a crash leaves a snapshot that is whole, or one
//!    without a manifest, which the next start removes.
//! 2. A table's files are linked while no other change of its views is made: they are the table at one instant.
//! 3. Files that come back get views of the tokens that are this shard's; a file that is still read is passed over, and
//!    one that could not be opened (`damage.rs`) is replaced by the snapshot's. A table with such a file is not linked.
//!    If one cannot be taken back, none is: those that were linked before it go again at once.
//! 4. Files of one run are one run again, by another name, for what is left of the old run may be read still.
//! 5. Nothing in these directories is trusted: what is called as no file of a snapshot is neither read nor removed.
//!
//! Not here: which tables, what the manifest says (`shard`).

use std::collections::{BTreeMap, BTreeSet};

use model::{TableId, TokenRange};
use uuid::Uuid;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::io::{DirEntry, Disk, RelPath};
use crate::layout;
use crate::limits::{SNAPSHOT_MANIFEST_BYTES_MAX, SNAPSHOT_TAG_BYTES_MAX, WRITE_ALIGN_BYTES};
use crate::manifest::{Edit, ViewEntry};
use crate::sstable::{FileDigest, Sstable, SstableId, SstableIdentity};
use crate::table::{Table, View};

/// The file that makes a directory a snapshot.
pub const MANIFEST: &str = "manifest.json";

/// Where all snapshots are.
pub fn snapshots_dir() -> RelPath {
    RelPath::root().join("snapshots")
}

/// Where the snapshot of this tag is; `Invalid` if no directory can be called so.
pub fn snapshot_dir(tag: &str) -> Result<RelPath> {
    let dir = RelPath::new(&format!("{}/{tag}", snapshots_dir())).ok();
    let dir = dir.filter(|dir| dir.name() == tag && tag.len() <= SNAPSHOT_TAG_BYTES_MAX);
    dir.ok_or_else(|| {
        Error::invalid(format!(
            "{tag:?} cannot be the tag of a snapshot: letters, digits, '_', '-' and '.' can, and no '.' in front"
        ))
    })
}

/// Where a snapshot has the files of a table.
pub fn table_dir(snapshot: &RelPath, table: Uuid) -> RelPath {
    snapshot.join(&table.as_hyphenated().to_string())
}

fn file_path(dir: &RelPath, sstable: Uuid) -> RelPath {
    dir.join(&format!("{}.sst", sstable.as_hyphenated()))
}

impl Engine {
    /// Links the files that a table has now into `dir`, durably; gives their views. What is in memory only is not in it.
    pub async fn link_files(&self, id: TableId, dir: &RelPath) -> Result<Vec<ViewEntry>> {
        let table = self.table(id)?;
        let _lock = self.manifest_lock.take().await;
        self.link_views(&table, dir).await
    }

    /// Does the same, and makes a cut: [`truncate_to_cut`](Engine::truncate_to_cut) takes away what was linked, and
    /// no more. Until then, or until [`end_cut`](Engine::end_cut), the table is not compacted. The truncation was
    /// [announced](Engine::announce_truncation) before the flush.
    pub async fn link_and_cut(&self, id: TableId, dir: &RelPath) -> Result<Vec<ViewEntry>> {
        let table = self.table(id)?;
        let _lock = self.manifest_lock.take().await;
        // What is in memory only begins here, or comes.
        table.cut.begin(table.since().unwrap_or(self.writes.applied()));
        self.link_views(&table, dir).await
    }

    async fn link_views(&self, table: &Table, dir: &RelPath) -> Result<Vec<ViewEntry>> {
        if let Some(damaged) = table.damage.unopened().first() {
            return Err(damaged.refusal());
        }
        let mut linked = Vec::new();
        for view in table.views().iter() {
            let entry = view.entry.clone();
            let from = layout::sstable_path(entry.table, entry.sstable);
            link(&self.disk, &from, &file_path(dir, entry.sstable)).await?;
            linked.push(entry);
        }
        self.disk.sync_dir(dir).await?;
        Ok(linked)
    }

    /// Forgets what the log still holds of a table that is not in the schema: after this it may be there again.
    pub async fn forget_dropped(&self, id: TableId) -> Result<()> {
        if self.table(id).is_ok() {
            return Ok(());
        }
        self.remove_garbage().await?;
        self.until_applied(self.log.positions().appended).await?;
        let _lock = self.manifest_lock.take().await;
        let end = self.writes.applied();
        self.until_durable(end).await?;
        let edit = Edit { replayed_from: vec![(id.0, end)], ..Edit::default() };
        self.manifest.commit(&edit).await
    }

    /// Takes files back from `dir`: the parts of `views`, all of the table's, that are this shard's. How many files.
    pub async fn adopt_files(
        &self,
        id: TableId,
        dir: &RelPath,
        views: &[ViewEntry],
    ) -> Result<u64> {
        let table = self.table(id)?;
        let table_dir = layout::table_dir(id.0);
        self.disk.mkdir(&table_dir).await?;
        self.disk.sync_dir(&layout::tables_dir()).await?;
        // What has left the table may be about to be deleted: who does it looks again once the file has a view.
        let deleting = self.deleting.take().await;
        let mended = self.mend_files(&table, dir, views).await?;
        let mut taken = Vec::new();
        let epoch = table.epoch();
        let linked = self.link_back(id, dir, views, &mut taken).await;
        // Only now: flushes commit while files, of which there may be many, are linked and opened.
        let lock = self.manifest_lock.take().await;
        let (named, may_be_named) = match linked {
            Ok(linked) if table.epoch() == epoch => self.name_linked(&table, linked).await,
            Ok(_) => (Ok(0), false),
            Err(error) => (Err(error), false),
        };
        drop((lock, deleting));
        // What was linked and is in no manifest would be counted until the next start.
        let undone = match may_be_named {
            true => Ok(()),
            false => self.delete_files(&taken).await,
        };
        let files = named?;
        undone.map(|()| files + mended)
    }

    /// Links the parts of views that are this shard's into the table's directory, durably, and opens them. Notes what
    /// this shard counts for from then on, also before an error.
    async fn link_back(
        &self,
        id: TableId,
        dir: &RelPath,
        views: &[ViewEntry],
        taken: &mut Vec<ViewEntry>,
    ) -> Result<Vec<View>> {
        let read: BTreeSet<Uuid> =
            self.manifest.state().views.values().map(|view| view.sstable).collect();
        let mut linked = Vec::new();
        for mut entry in self.parts(views) {
            if read.contains(&entry.sstable) {
                continue;
            }
            entry.table = id.0;
            // Counted before it is linked, so that another shard that gives it up meanwhile does not unlink it.
            while !self.manifest.take_file(entry.sstable) {
                self.disk.wait_a_little().await;
            }
            taken.push(entry.clone());
            let path = layout::sstable_path(id.0, entry.sstable);
            link(&self.disk, &file_path(dir, entry.sstable), &path).await?;
            linked.push(View::open(&self.disk, entry, &self.cache).await?);
        }
        self.disk.sync_dir(&layout::table_dir(id.0)).await?;
        Ok(linked)
    }

    /// Names what was linked in the manifest, and gives it to the table. How many files; and whether the manifest may
    /// name them: after an error it may, unless the disk was full.
    async fn name_linked(&self, table: &Table, linked: Vec<View>) -> (Result<u64>, bool) {
        let (id, epoch) = (table.definition().id, table.epoch());
        let add: Vec<ViewEntry> = linked.iter().map(|view| view.entry.clone()).collect();
        let files: BTreeSet<Uuid> = add.iter().map(|view| view.sstable).collect();
        if add.is_empty() {
            return (Ok(0), false);
        }
        if let Err(error) =
            self.manifest.commit(&Edit { add: add.clone(), ..Edit::default() }).await
        {
            let may_be_named = error.may_be_committed();
            return (Err(error), may_be_named);
        }
        if table.epoch() == epoch {
            table.replace_views(&[], linked);
        } else {
            self.garbage.add(id.0, add);
        }
        (Ok(files.len() as u64), true)
    }

    /// Puts the snapshot's copy in the place of each file of the table that could not be opened, and opens it: its
    /// views are in the manifest still. How many files. Another shard may have put it there already.
    async fn mend_files(&self, table: &Table, dir: &RelPath, views: &[ViewEntry]) -> Result<u64> {
        let mut files = BTreeSet::new();
        for damaged in table.damage.unopened().iter() {
            let entry = &damaged.entry;
            if !views.iter().any(|view| view.sstable == entry.sstable) {
                continue;
            }
            let view = match View::open(&self.disk, entry.clone(), &self.cache).await {
                Ok(view) => view,
                Err(_) => {
                    self.put_copy(entry, dir).await?;
                    View::open(&self.disk, entry.clone(), &self.cache).await?
                }
            };
            // It was emptied or dropped meanwhile if it is not there any more.
            let ids = [entry.id()];
            if table.damage.unopened_entries().contains(entry) {
                table.damage.remove_unopened(&ids);
                table.replace_views(&[], [view]);
                files.insert(entry.sstable);
            }
        }
        Ok(files.len() as u64)
    }

    /// Replaces a file by the one in `dir`, at once and durably.
    async fn put_copy(&self, entry: &ViewEntry, dir: &RelPath) -> Result<()> {
        let path = layout::sstable_path(entry.table, entry.sstable);
        let known = SstableIdentity {
            id: SstableId(entry.sstable),
            table: TableId(entry.table),
            proof: FileDigest {
                file_bytes: entry.file_bytes,
                footer_checksum: entry.footer_checksum,
            },
        };
        // What is no better stays where it is.
        Sstable::open(&self.disk, dir, known, &self.cache, entry.tokens).await?;
        let between = layout::sstable_path(entry.table, self.names.next().0);
        self.disk.link(&file_path(dir, entry.sstable), &between).await?;
        self.disk.rename(&between, &path).await?;
        // Where both are one file already, the name between is left.
        match self.disk.unlink(&between).await {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        self.disk.sync_dir(&layout::table_dir(entry.table)).await
    }

    /// The parts of views that are this shard's, each on the lowest level: what was beside it there may be gone.
    fn parts(&self, views: &[ViewEntry]) -> Vec<ViewEntry> {
        let mut of_file: BTreeMap<Uuid, Vec<TokenRange>> = BTreeMap::new();
        for view in views {
            of_file.entry(view.sstable).or_default().push(view.tokens);
        }
        let runs = self.new_runs(views);
        let mut parts = Vec::new();
        for view in views {
            for owned in self.tables.owned() {
                let Some(tokens) = view.tokens.intersection(owned) else { continue };
                let is_inside = |part: &TokenRange| owned.intersection(part) == Some(*part);
                let shared = !of_file[&view.sstable].iter().all(is_inside);
                let begin = view.begin.clone().filter(|_| tokens.first == view.tokens.first);
                // Whoever says that files are a run which cannot be one has a run of each.
                let run = runs.get(&view.run).copied().unwrap_or(view.sstable);
                parts.push(ViewEntry { tokens, begin, level: 0, run, shared, ..view.clone() });
            }
        }
        parts
    }

    /// New names of the runs of a snapshot, by those that they have in it: of those whose parts are one behind the
    /// other, and share a token at most where one ends and the next begins.
    fn new_runs(&self, views: &[ViewEntry]) -> BTreeMap<Uuid, Uuid> {
        let mut of_run: BTreeMap<Uuid, Vec<TokenRange>> = BTreeMap::new();
        for view in views {
            of_run.entry(view.run).or_default().push(view.tokens);
        }
        let is_run = |tokens: &mut Vec<TokenRange>| {
            tokens.sort_by_key(|tokens| (tokens.first, tokens.last));
            tokens.windows(2).all(|pair| pair[0].last <= pair[1].first)
        };
        of_run.retain(|_, tokens| is_run(tokens));
        of_run.into_keys().map(|run| (run, self.names.next().0)).collect()
    }
}

/// Gives a file a second name. One that is there already is the same file: names of sstables are never given twice.
async fn link(disk: &Disk, from: &RelPath, to: &RelPath) -> Result<()> {
    match disk.link(from, to).await {
        Err(Error::Io { errno: libc::EEXIST, .. }) => Ok(()),
        linked => linked,
    }
}

/// Puts a whole small file in place, durably: a crash leaves none, or all of it.
pub async fn store_file(disk: &Disk, path: &RelPath, bytes: &[u8]) -> Result<()> {
    let temporary = path.parent().join(&format!("{}.new", path.name()));
    if disk.exists(&temporary).await? {
        disk.unlink(&temporary).await?;
    }
    let file = disk.create(&temporary).await?;
    let written = async {
        if !bytes.is_empty() {
            let mut buf = file.buf(bytes.len());
            buf.put(bytes);
            buf.pad_to(WRITE_ALIGN_BYTES);
            file.write_at(buf, 0).await?;
            file.set_len(bytes.len() as u64).await?;
        }
        file.sync().await
    };
    let written = written.await;
    file.close().await?;
    if let Err(error) = written {
        disk.unlink(&temporary).await?;
        return Err(error);
    }
    disk.rename(&temporary, path).await?;
    disk.sync_dir(&path.parent()).await
}

/// A whole small file; `Corrupt` if it is longer than the manifest of a snapshot may be.
pub async fn read_file(disk: &Disk, path: &RelPath) -> Result<Vec<u8>> {
    let file = disk.open(path).await?;
    if file.len() > SNAPSHOT_MANIFEST_BYTES_MAX {
        file.close().await?;
        return Err(Error::corrupt(path.as_str(), 0, "it is longer than any may be"));
    }
    let bytes = file.read_exact_at(0, file.len() as usize).await?;
    let bytes = bytes.to_vec();
    file.close().await?;
    Ok(bytes)
}

/// The tags of all snapshots, whole or not. What cannot be a snapshot's is left out.
pub async fn tags(disk: &Disk) -> Result<Vec<String>> {
    let (tags, _) = names(disk).await?;
    Ok(tags)
}

/// The tags of all snapshots, and what else lies beside them.
async fn names(disk: &Disk) -> Result<(Vec<String>, Vec<String>)> {
    if !disk.exists(&snapshots_dir()).await? {
        return Ok((Vec::new(), Vec::new()));
    }
    let entries = disk.list(&snapshots_dir()).await?;
    let is_tag = |entry: &DirEntry| entry.is_dir && snapshot_dir(&entry.name).is_ok();
    let (tags, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_tag);
    let name = |entry: DirEntry| entry.name;
    Ok((tags.into_iter().map(name).collect(), others.into_iter().map(name).collect()))
}

/// Whether the snapshot in this directory is whole.
pub async fn is_whole(disk: &Disk, snapshot: &RelPath) -> Result<bool> {
    disk.exists(&snapshot.join(MANIFEST)).await
}

/// Removes a snapshot, its manifest first. `Invalid`: its directory holds what is no snapshot's, which stays.
pub async fn remove(disk: &Disk, snapshot: &RelPath) -> Result<()> {
    if is_whole(disk, snapshot).await? {
        disk.unlink(&snapshot.join(MANIFEST)).await?;
        disk.sync_dir(snapshot).await?;
    }
    let mut strange = Vec::new();
    for entry in disk.list(snapshot).await? {
        match (snapshot.child(&entry.name), entry.is_dir) {
            (Some(path), false) => disk.unlink(&path).await?,
            (Some(path), true) => remove_files(disk, &path, &mut strange).await?,
            (None, _) => strange.push(format!("{snapshot}/{}", entry.name)),
        }
    }
    match strange.first() {
        None => disk.rmdir(snapshot).await,
        Some(first) => {
            Err(Error::invalid(format!("{first:?} is no file of a snapshot: remove it yourself")))
        }
    }
}

/// Removes the files of a table from a snapshot, and what was their directory.
async fn remove_files(disk: &Disk, dir: &RelPath, strange: &mut Vec<String>) -> Result<()> {
    let before = strange.len();
    for entry in disk.list(dir).await? {
        match dir.child(&entry.name) {
            Some(path) if !entry.is_dir => disk.unlink(&path).await?,
            _ => strange.push(format!("{dir}/{}", entry.name)),
        }
    }
    if strange.len() > before { Ok(()) } else { disk.rmdir(dir).await }
}

/// Removes the snapshots that a crash has left without a manifest. With no engine open. Gives what is to be told the
/// operator: names that no snapshot has, and what could not be removed. Neither keeps a node from starting.
pub async fn sweep(disk: &Disk) -> Result<Vec<String>> {
    let (tags, others) = names(disk).await?;
    let mut said: Vec<String> =
        others.iter().map(|name| format!("\"snapshots/{name}\" is no snapshot")).collect();
    for tag in tags {
        let dir = snapshot_dir(&tag)?;
        if is_whole(disk, &dir).await? {
            continue;
        }
        match remove(disk, &dir).await {
            Err(Error::Invalid(what)) => said.push(what.into()),
            removed => removed?,
        }
    }
    Ok(said)
}
