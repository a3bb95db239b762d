//! Snapshots of tables over all shards: taken, listed, removed, and given back.
//!
//! ```text
//! take     directory ─► every shard: flush, link its files ─► schema.cql ─► manifest.json: now it is one
//! restore  manifest ─► every shard: forget the log of what was dropped ─► the schema ─► every shard: its files
//! ```
//!
//! 1. Each table is whole as of one instant on each shard; what was acknowledged before the call is in it.
//! 2. A failure removes what was made. A crash leaves a directory without a manifest, which the next start removes.
//! 3. Materialized views are built again when their table comes back, and do not come back by themselves.
//! 4. A table that comes back has the id, the columns and the timestamps that it had: newer deletions stay in force.
//!
//! Not here: the files (`engine/src/snapshot.rs`), who asks (the server's admin socket, DROP and TRUNCATE).

mod definitions;
mod expiry;
mod manifest;
mod removal;

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::async_mutex::Guard;
use engine::io::{Disk, RelPath};
use engine::limits::SNAPSHOT_TAG_BYTES_MAX;
use engine::manifest::ViewEntry;
use engine::snapshot::{self, MANIFEST};
use engine::{Error, Result};
pub(crate) use expiry::Expiring;
pub use expiry::Expiry;
use manifest::Manifest;
use model::schema::Table;
use model::{SchemaChange, TableId};
pub use removal::{Kept, Removal, RemovalStep};
use uuid::Uuid;

use crate::message::AlterError;
use crate::protocol::Protocol;
use crate::schema::SCHEMA_SHARD;
use crate::shard::Shard;
use crate::upkeep::{Linking, Upkeep};

/// The bytes of the number behind a tag that another snapshot has, at most.
const TAG_NUMBER_BYTES_MAX: usize = 8;
/// How often a restore makes a change of the schema again when others change it at the same time.
const ATTEMPTS_MAX: usize = 64;

/// What a snapshot is to be.
#[derive(Clone, Debug)]
pub struct SnapshotOrder {
    /// Its name; no other snapshot has it.
    pub tag: String,
    /// The tables that are in it.
    pub tables: Arc<[TableId]>,
    /// The statements that make them, for people.
    pub schema_cql: String,
    /// The time, as it is to be shown.
    pub created_at: String,
    /// When the snapshot goes; `None`: when it is removed.
    pub expiry: Option<Expiry>,
}

/// A snapshot that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The name of the snapshot.
    pub tag: String,
    /// When it was taken, as its manifest shows it.
    pub created_at: String,
    /// When it goes; `None`: when it is removed.
    pub expiry: Option<Expiry>,
    /// Keyspace and name of each table, and what the snapshot has of it.
    pub tables: Vec<(String, String, SnapshotSize)>,
}

/// The snapshots that are there.
#[derive(Debug)]
pub struct Snapshots {
    /// Those that could be read, by their tags.
    pub read: Vec<Snapshot>,
    /// Why the first of the others could not be read.
    pub unread: Option<Error>,
}

/// What a snapshot has of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotSize {
    /// The number of files.
    pub files: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes of those that the table has no more: what removing the snapshot frees.
    pub own_bytes: u64,
}

impl<P: Protocol> Shard<P> {
    /// Takes a snapshot: when this returns it is durable. `Invalid`: there is one of that tag, or no such table.
    pub async fn take_snapshot(&self, order: &SnapshotOrder) -> Result<()> {
        let dir = snapshot::snapshot_dir(&order.tag)?;
        let _turn = self.snapshot_turn().await;
        if self.engine().disk().exists(&dir).await? {
            return Err(Error::invalid(format!("Snapshot {} already exists.", order.tag)));
        }
        self.take_in_turn(order, Linking::Keep).await
    }

    /// Takes a snapshot under a tag that no other has.
    async fn take_in_turn(&self, order: &SnapshotOrder, linking: Linking) -> Result<()> {
        let taken = self.take_into(order, linking).await;
        match taken {
            Ok(()) => self.snapshots_expiring.taken(&order.tag, order.expiry.as_ref()),
            Err(_) => self.remove_snapshot(&order.tag).await?,
        }
        taken
    }

    async fn take_into(&self, order: &SnapshotOrder, linking: Linking) -> Result<()> {
        let (disk, dir) = (self.engine().disk(), &snapshot::snapshot_dir(&order.tag)?);
        let schema = self.schema();
        disk.mkdir(&snapshot::snapshots_dir()).await?;
        disk.sync_dir(&RelPath::root()).await?;
        disk.mkdir(dir).await?;
        disk.sync_dir(&snapshot::snapshots_dir()).await?;
        for table in order.tables.iter() {
            disk.mkdir(&snapshot::table_dir(dir, table.0)).await?;
        }
        disk.sync_dir(dir).await?;
        let (tag, tables) = (order.tag.as_str().into(), order.tables.clone());
        let link = Upkeep::Link { tag, tables, linking };
        let statuses = self.upkeep(&link).await?;
        let views = statuses.into_iter().flat_map(|status| status.linked).collect();
        let times = (order.created_at.clone(), order.expiry.clone());
        let manifest = Manifest::of(&schema, &order.tables, views, times);
        let manifest = manifest.ok_or_else(|| Error::invalid("a table was dropped meanwhile"))?;
        let manifest = manifest.to_file()?;
        snapshot::store_file(disk, &dir.join("schema.cql"), order.schema_cql.as_bytes()).await?;
        snapshot::store_file(disk, &dir.join(MANIFEST), &manifest).await
    }

    /// A tag that no snapshot has: this one, or with a number behind it.
    /// The name of a table may be longer than a tag.
    async fn free_tag(&self, tag: &str) -> Result<String> {
        let tag = tag.get(..SNAPSHOT_TAG_BYTES_MAX - TAG_NUMBER_BYTES_MAX).unwrap_or(tag);
        let mut free = tag.to_owned();
        for number in 2.. {
            if !self.engine().disk().exists(&snapshot::snapshot_dir(&free)?).await? {
                break;
            }
            free = format!("{tag}-{number}");
        }
        Ok(free)
    }

    /// Removes a snapshot, if it is there. Without its manifest it is none any more, also after an error.
    async fn remove_snapshot(&self, tag: &str) -> Result<()> {
        let (disk, dir) = (self.engine().disk(), snapshot::snapshot_dir(tag)?);
        let removed = match disk.exists(&dir).await {
            Ok(true) => snapshot::remove(disk, &dir).await,
            is_there => is_there.map(drop),
        };
        if removed.is_ok() || matches!(snapshot::is_whole(disk, &dir).await, Ok(false)) {
            self.snapshots_expiring.forget(tag);
        }
        removed
    }

    /// All snapshots. One that cannot be read keeps no other from being listed.
    pub async fn list_snapshots(&self) -> Result<Snapshots> {
        let disk = self.engine().disk();
        let mut all = Snapshots { read: Vec::new(), unread: None };
        for tag in snapshot::tags(disk).await? {
            let Ok(dir) = snapshot::snapshot_dir(&tag) else { continue };
            match self.list_snapshot(tag, &dir).await {
                Ok(snapshot) => all.read.extend(snapshot),
                // It is being removed.
                Err(Error::NotFound { .. }) => {}
                Err(error) => {
                    all.unread.get_or_insert(error);
                }
            }
        }
        Ok(all)
    }

    /// The snapshot in this directory; `None` if it is not whole.
    async fn list_snapshot(&self, tag: String, dir: &RelPath) -> Result<Option<Snapshot>> {
        let disk = self.engine().disk();
        if !snapshot::is_whole(disk, dir).await? {
            return Ok(None);
        }
        let manifest = read(disk, dir).await?;
        let mut tables = Vec::new();
        for table in manifest.tables() {
            let size = size_of(disk, &manifest, table.id).await?;
            tables.push((table.keyspace.clone(), table.name.clone(), size));
        }
        let (created_at, expiry) = (manifest.created_at.clone(), manifest.expiry.clone());
        Ok(Some(Snapshot { tag, created_at, expiry, tables }))
    }

    /// Removes the snapshot of a tag, or all; their tags. One that cannot be removed keeps no other: its error comes
    /// at the end.
    pub async fn clear_snapshots(&self, tag: Option<&str>) -> Result<Vec<String>> {
        let _turn = self.snapshot_turn().await;
        let disk = self.engine().disk();
        let tags = match tag {
            Some(tag) if !disk.exists(&snapshot::snapshot_dir(tag)?).await? => {
                return Err(Error::invalid(format!("There is no snapshot {tag}.")));
            }
            Some(tag) => vec![tag.to_owned()],
            None => snapshot::tags(disk).await?,
        };
        let mut outcome = Ok(());
        for tag in &tags {
            outcome = outcome.and(self.remove_snapshot(tag).await);
        }
        outcome.map(|()| tags)
    }

    /// Gives the tables of a snapshot that are `meant` back what they had; how many files that were. A table that was
    /// dropped is made again. `Invalid`: there is another table of its name.
    pub async fn restore_snapshot(&self, tag: &str, meant: impl Fn(&Table) -> bool) -> Result<u64> {
        let _turn = self.snapshot_turn().await;
        let (disk, dir) = (self.engine().disk(), snapshot::snapshot_dir(tag)?);
        if !disk.exists(&dir).await? || !snapshot::is_whole(disk, &dir).await? {
            return Err(Error::invalid(format!("There is no snapshot {tag}.")));
        }
        let manifest = read(disk, &dir).await?;
        let meant: Vec<&Table> = manifest.tables().filter(|table| meant(table)).collect();
        let is_view = |table: &&Table| table.view().is_some();
        let (views, tables): (Vec<_>, Vec<_>) = meant.into_iter().partition(is_view);
        if let (Some(Table { keyspace, name, .. }), true) = (views.first(), tables.is_empty()) {
            return Err(Error::invalid(format!(
                "{keyspace}.{name} is a materialized view: restore its table, and CREATE it if it is not there"
            )));
        }
        if tables.is_empty() {
            return Err(Error::invalid(format!("The snapshot {tag} has no such table.")));
        }
        self.refuse_others(&tables)?;
        self.refuse_other_definitions(&manifest, &tables)?;
        let missing = |table: &&&Table| self.schema().table_by_id(table.id).is_none();
        let gone: Vec<TableId> = tables.iter().filter(missing).map(|table| table.id).collect();
        self.upkeep(&Upkeep::Forget(gone.into())).await?;
        for change in manifest.changes_for(&tables) {
            self.make_missing(change).await?;
        }
        let ids: Vec<TableId> = tables.iter().map(|table| table.id).collect();
        // Before, for a crash on the way; and after: a build may have ended between.
        self.build_views_again(&ids).await?;
        let mut files = BTreeSet::new();
        for table in tables {
            let views: Arc<[ViewEntry]> = manifest.views_of(table.id).cloned().collect();
            files.extend(views.iter().map(|view| view.sstable));
            let adopt = Upkeep::Adopt { tag: tag.into(), table: table.id, views };
            self.upkeep(&adopt).await.map_err(|error| {
                let Table { keyspace, name, .. } = table;
                Error::invalid(format!(
                    "{keyspace}.{name} may be back in part, and what came before it is back: {error}. Restore the snapshot again when that is mended: what is back stays as it is"
                ))
            })?;
        }
        self.build_views_again(&ids).await?;
        Ok(files.len() as u64)
    }

    /// A table that has the name of another one now cannot come back.
    fn refuse_others(&self, tables: &[&Table]) -> Result<()> {
        let schema = self.schema();
        let is_other = |table: &&&Table| {
            schema.table(&table.keyspace, &table.name).is_some_and(|there| there.id != table.id)
        };
        match tables.iter().find(is_other) {
            None => Ok(()),
            Some(Table { keyspace, name, .. }) => Err(Error::invalid(format!(
                "{keyspace}.{name} is another table now, made after the one in the snapshot: drop it first"
            ))),
        }
    }

    /// A table, or a type of one that is to be made again, that is defined otherwise now cannot take the files.
    fn refuse_other_definitions(&self, manifest: &Manifest, tables: &[&Table]) -> Result<()> {
        let schema = self.schema();
        for then in tables {
            let Table { keyspace, name, .. } = then;
            let refused = |what: String| {
                Err(Error::invalid(format!(
                    "{keyspace}.{name} cannot take the files of this snapshot: {what}"
                )))
            };
            match schema.table_by_id(then.id) {
                Some(now) => {
                    if let Some(what) = definitions::difference(then, now) {
                        return refused(format!(
                            "{what}. DROP the table first: it is made again as it was"
                        ));
                    }
                }
                None => {
                    for ty in manifest.types_of(then) {
                        let now = schema.keyspace(keyspace).and_then(|k| k.types.get(&ty.name));
                        if now.is_some_and(|now| **now != *ty) {
                            let ty = &ty.name;
                            return refused(format!(
                                "the type {ty} was changed since. DROP the type first: it is made again as it was"
                            ));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes a change of the schema, unless what it makes is there.
    async fn make_missing(&self, change: &SchemaChange) -> Result<()> {
        for _ in 0..ATTEMPTS_MAX {
            let schema = self.schema();
            let is_there = match change {
                SchemaChange::CreateKeyspace { name, .. } => schema.keyspace(name).is_some(),
                SchemaChange::CreateType(ty) => schema
                    .keyspace(&ty.keyspace)
                    .is_some_and(|keyspace| keyspace.types.contains_key(&ty.name)),
                SchemaChange::CreateTable(table) => schema.table_by_id(table.id).is_some(),
                _ => return Err(Error::invalid("a snapshot's schema only makes things")),
            };
            if is_there {
                return Ok(());
            }
            match self.alter(change.clone(), schema.number).await {
                Ok(_) => return Ok(()),
                Err(AlterError::Conflict) => {}
                Err(AlterError::Store(error)) => return Err(error),
                Err(refused) => return Err(Error::invalid(refused.to_string())),
            }
        }
        Err(Error::Overloaded("changes of the schema at the same time"))
    }

    /// Links the files of some tables on this shard, with what it holds of them in memory.
    pub(crate) async fn link_here(
        &self,
        tag: &str,
        tables: &[TableId],
        linking: Linking,
    ) -> Result<Vec<ViewEntry>> {
        let dir = snapshot::snapshot_dir(tag)?;
        if linking == Linking::Cut {
            for table in tables {
                self.engine().announce_truncation(*table).await?;
            }
        }
        self.background.flush_tables(tables).await?;
        let mut linked = Vec::new();
        for table in tables {
            let dir = snapshot::table_dir(&dir, table.0);
            linked.extend(match linking {
                Linking::Keep => self.engine().link_files(*table, &dir).await?,
                Linking::Cut => self.engine().link_and_cut(*table, &dir).await?,
            });
        }
        Ok(linked)
    }

    /// Forgets what this shard's log holds of tables that are gone.
    pub(crate) async fn forget_here(&self, tables: &[TableId]) -> Result<()> {
        for table in tables {
            let forgotten = self.engine().forget_dropped(*table).await;
            forgotten.inspect_err(|error| self.background.leave_if_poisoned(error))?;
        }
        Ok(())
    }

    /// Takes this shard's parts of a snapshot's files back.
    pub(crate) async fn adopt_here(
        &self,
        tag: &str,
        table: TableId,
        views: &[ViewEntry],
    ) -> Result<()> {
        let dir = snapshot::table_dir(&snapshot::snapshot_dir(tag)?, table.0);
        let adopted = self.engine().adopt_files(table, &dir, views).await;
        adopted.inspect_err(|error| self.background.leave_if_poisoned(error)).map(drop)
    }

    /// One after the other takes, removes or restores snapshots, on the first core.
    async fn snapshot_turn(&self) -> Guard<'_> {
        assert_eq!(self.me(), SCHEMA_SHARD, "one core sees to snapshots");
        self.snapshotting.take().await
    }
}

async fn read(disk: &Disk, dir: &RelPath) -> Result<Manifest> {
    let path = dir.join(MANIFEST);
    let bytes = snapshot::read_file(disk, &path).await?;
    Manifest::decode(&bytes).map_err(|what| Error::corrupt(path.as_str(), 0, what))
}

async fn size_of(disk: &Disk, manifest: &Manifest, table: TableId) -> Result<SnapshotSize> {
    let mut size = SnapshotSize::default();
    let mut seen: BTreeSet<Uuid> = BTreeSet::new();
    for view in manifest.views_of(table).filter(|view| seen.insert(view.sstable)) {
        size.files += 1;
        size.bytes = size.bytes.saturating_add(view.file_bytes);
        let live = engine::layout::sstable_path(table.0, view.sstable);
        if !disk.exists(&live).await? {
            size.own_bytes = size.own_bytes.saturating_add(view.file_bytes);
        }
    }
    Ok(size)
}
