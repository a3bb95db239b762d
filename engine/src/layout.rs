//! Where things are in a data directory, and the one file that says so.
//!
//! ```text
//!   DATA/lock                                   held by the process that uses it
//!        layout                                 this: version, generation, shards, host id, clock
//!        schema                                 the schema's journal
//!        reserve, reserve-2 to reserve-4        space for all of these when the disk is full (`reserve.rs`)
//!        device                                 how many requests the device takes at a time, as it was measured
//!        tables/<table uuid>/<sstable uuid>.sst files belong to tables, never to cores
//!        snapshots/<tag>/                       files of tables under other names (`snapshot.rs`)
//!        gen-<G>/shard-<N>/manifest             what shard N of generation G reads of them
//!                          log/NNNNNN.log       and what it has not flushed yet
//! ```
//!
//! A generation is one way of dealing the ring to shards. Another shard count builds the next generation beside the
//! current one, and one atomic replacement of `layout` makes it current. So a start finds
//! 1. nothing: it stores a layout that is not ready, builds, and stores it ready;
//! 2. a layout that is not ready: nothing was ever acknowledged, it clears and builds;
//! 3. a ready layout: everything it promises must be there; other generations are garbage.
//!
//! Not here: building shards, moving views between them.

mod schema_log;

#[cfg(test)]
mod tests;

use model::bytes::Cursor;
pub(crate) use schema_log::SCHEMA_MAGIC;
pub use schema_log::{FoundSchema, SchemaEntries, SchemaLog};
use uuid::Uuid;

use crate::codec::checksum;
use crate::error::{Error, Result};
use crate::io::{DirEntry, DirLock, Disk, File, RelPath};
use crate::limits::WRITE_ALIGN_BYTES;
use crate::planted::{Bug, planted};
use crate::reserve;

const MAGIC: &[u8; 8] = b"MESSLAYT";
const VERSION: u32 = 2;
/// The version that has no secret.
const WITHOUT_SECRET: u32 = 1;
const NAME: &str = "layout";
const BYTES: usize = BYTES_WITHOUT_SECRET + SECRET_BYTES;
const BYTES_WITHOUT_SECRET: usize = 8 + 8 + 4 + 1 + 4 + 4 + 16 + 8;
/// Bytes of a node's secret.
pub const SECRET_BYTES: usize = 32;

/// What the data directory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Everything below is there; until then nothing was acknowledged.
    pub ready: bool,
    /// The current generation of shards.
    pub generation: u32,
    /// How many shards it has.
    pub shards: u32,
    /// Who this node is, for ever.
    pub host_id: Uuid,
    /// No timestamp above this (µs) was given out: after a restart the clock starts no lower.
    pub timestamp_high: i64,
    /// What only this node knows, for ever; all zeros in a layout of version 1, which had none.
    pub secret: Secret,
}

/// Random bytes that never leave a node: with a key of them it knows what it has made itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub [u8; SECRET_BYTES]);

impl Secret {
    /// No secret yet.
    pub const NONE: Secret = Secret([0; SECRET_BYTES]);
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// What a start finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// An empty directory.
    Nothing,
    /// The first start was cut short.
    Unfinished(Layout),
    /// A data directory.
    Ready(Layout),
}

impl Layout {
    /// The layout of a first start: the first generation, of which nothing is there yet.
    pub fn first(shards: u32, host_id: Uuid, secret: Secret) -> Layout {
        Layout { ready: false, generation: 1, shards, host_id, timestamp_high: 0, secret }
    }

    /// Takes the directory for this process.
    pub async fn lock(disk: &Disk) -> Result<DirLock> {
        disk.lock(&RelPath::root().join("lock")).await
    }

    /// Looks at the directory. Data without a layout is an error: somebody has removed it.
    pub async fn find(disk: &Disk) -> Result<Found> {
        let path = RelPath::root().join(NAME);
        if disk.exists(&path).await? {
            // A process that was killed may have renamed it and not synced the name: what is believed from here on
            // has to stay true.
            sync_names(disk, &RelPath::root()).await?;
            let layout = Layout::read(disk).await?;
            return Ok(if layout.ready { Found::Ready(layout) } else { Found::Unfinished(layout) });
        }
        let entries = disk.list(&RelPath::root()).await?;
        match entries.iter().find(|entry| is_ours(entry)) {
            None => Ok(Found::Nothing),
            Some(entry) => {
                let what = format!("it is missing, and yet there is {}", entry.name);
                Err(Error::corrupt(NAME, 0, what))
            }
        }
    }

    async fn read(disk: &Disk) -> Result<Layout> {
        let file = disk.open(&RelPath::root().join(NAME)).await?;
        let bytes = file.read_exact_at(0, BYTES).await?;
        file.close().await?;
        let (layout, version) =
            Layout::decode(&bytes).map_err(|_| Error::corrupt(NAME, 0, "it does not verify"))?;
        if version > VERSION {
            return Err(Error::Newer { file: NAME.into(), found: version, known: VERSION });
        }
        layout.ok_or_else(|| Error::corrupt(NAME, 0, "its values make no sense"))
    }

    /// Makes this the layout, durably and at once: a crash leaves the old one or this. On a full disk, in the space of
    /// the reserve.
    pub async fn store(&self, disk: &Disk) -> Result<()> {
        reserve::with_its_space(disk, async || self.store_once(disk).await).await
    }

    async fn store_once(&self, disk: &Disk) -> Result<()> {
        assert!(self.shards > 0, "a node has a shard");
        assert!(self.generation > 0, "generations begin at 1");
        let root = RelPath::root();
        let (path, temporary) = (root.join(NAME), root.join("layout.new"));
        if disk.exists(&temporary).await? {
            disk.unlink(&temporary).await?;
        }
        let file = disk.create(&temporary).await?;
        let written = self.write(&file).await;
        file.close().await?;
        if let Err(error) = written {
            disk.unlink(&temporary).await?;
            return Err(error);
        }
        disk.rename(&temporary, &path).await?;
        match planted(Bug::NoDirectorySync) {
            true => Ok(()),
            false => disk.sync_dir(&root).await,
        }
    }

    async fn write(&self, file: &File) -> Result<()> {
        let mut buf = file.buf(WRITE_ALIGN_BYTES);
        buf.put(&self.encode());
        buf.pad_to(WRITE_ALIGN_BYTES);
        file.write_at(buf, 0).await?;
        file.sync().await
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 8];
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.push(u8::from(self.ready));
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&self.shards.to_le_bytes());
        out.extend_from_slice(self.host_id.as_bytes());
        out.extend_from_slice(&self.timestamp_high.to_le_bytes());
        out.extend_from_slice(&self.secret.0);
        assert_eq!(out.len(), BYTES, "a layout has one length");
        let sum = checksum(&out[8..]);
        out[..8].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// The version, and the layout if its values make sense. A newer version may lay out its values otherwise, but
    /// not what precedes them.
    fn decode(bytes: &[u8]) -> model::Result<(Option<Layout>, u32)> {
        let mut cursor = Cursor::new(Cursor::new(bytes).take(BYTES)?);
        let sum = cursor.u64()?;
        let sealed = cursor.rest();
        let ours = cursor.take(MAGIC.len())? == MAGIC;
        let version = cursor.u32()?;
        let has_secret = version != WITHOUT_SECRET;
        let sealed = if has_secret { sealed } else { &sealed[..BYTES_WITHOUT_SECRET - 8] };
        if !ours || version == 0 || (version <= VERSION && sum != checksum(sealed)) {
            return Err(model::Error::Malformed("layout"));
        }
        let (ready, generation, shards) = (cursor.u8()?, cursor.u32()?, cursor.u32()?);
        let (host_id, timestamp_high) = (cursor.uuid()?, cursor.i64()?);
        let mut secret = Secret::NONE;
        if has_secret {
            secret.0.copy_from_slice(cursor.take(SECRET_BYTES)?);
        }
        let sane = ready <= 1 && shards > 0 && generation > 0;
        let ready = ready == 1;
        let layout = Layout { ready, generation, shards, host_id, timestamp_high, secret };
        Ok((sane.then_some(layout), version))
    }

    /// Makes the directories of this layout's generation, and those that all share, durably.
    pub async fn make_directories(&self, disk: &Disk) -> Result<()> {
        let generation = generation_dir(self.generation);
        disk.mkdir(&tables_dir()).await?;
        disk.mkdir(&generation).await?;
        sync_names(disk, &RelPath::root()).await?;
        for shard in 0..self.shards {
            let dir = shard_dir(self.generation, shard);
            disk.mkdir(&dir).await?;
            disk.mkdir(&log_dir(&dir)).await?;
            sync_names(disk, &dir).await?;
        }
        sync_names(disk, &generation).await
    }

    /// Deletes every generation but this layout's: one that was left, or one that was never finished.
    pub async fn remove_other_generations(&self, disk: &Disk) -> Result<()> {
        let current = generation_dir(self.generation);
        for entry in disk.list(&RelPath::root()).await? {
            let generation = generation_of(&entry).map(generation_dir);
            if let Some(other) = generation.filter(|other| *other != current) {
                remove_generation(disk, &other).await?;
            }
        }
        disk.sync_dir(&RelPath::root()).await
    }

    /// Empties a directory whose first start was cut short, save the layout itself.
    pub async fn clear_unfinished(&self, disk: &Disk) -> Result<()> {
        assert!(!self.ready, "a directory in use is not cleared");
        for entry in disk.list(&RelPath::root()).await? {
            let path = RelPath::root().join(&entry.name);
            match entry.is_dir {
                true if entry.name.starts_with("gen-") => remove_generation(disk, &path).await?,
                true if entry.name == "tables" => remove_tables(disk, &path).await?,
                false if entry.name.starts_with("schema") => disk.unlink(&path).await?,
                _ => {}
            }
        }
        disk.sync_dir(&RelPath::root()).await
    }
}

/// Where the directories of tables are.
pub fn tables_dir() -> RelPath {
    RelPath::root().join("tables")
}

/// Where a table's files are.
pub fn table_dir(table: Uuid) -> RelPath {
    tables_dir().join(&table.as_hyphenated().to_string())
}

/// Where one sstable is.
pub fn sstable_path(table: Uuid, sstable: Uuid) -> RelPath {
    table_dir(table).join(&format!("{}.sst", sstable.as_hyphenated()))
}

/// Where a shard's manifest is, and the directory of its log.
pub fn shard_dir(generation: u32, shard: u32) -> RelPath {
    generation_dir(generation).join(&format!("shard-{shard}"))
}

/// Where the log of the shard in `shard_dir` is.
pub fn log_dir(shard_dir: &RelPath) -> RelPath {
    shard_dir.join("log")
}

/// The generation that this is the directory of.
fn generation_of(entry: &DirEntry) -> Option<u32> {
    let number = entry.name.strip_prefix("gen-").filter(|_| entry.is_dir)?.parse().ok()?;
    (generation_dir(number).name() == entry.name).then_some(number)
}

fn generation_dir(generation: u32) -> RelPath {
    RelPath::root().join(&format!("gen-{generation}"))
}

/// Whether a name in the data directory says that there was data.
fn is_ours(entry: &DirEntry) -> bool {
    let dir = entry.is_dir && (entry.name == "tables" || entry.name.starts_with("gen-"));
    dir || (!entry.is_dir && entry.name == "schema")
}

async fn sync_names(disk: &Disk, dir: &RelPath) -> Result<()> {
    match planted(Bug::NoDirectorySync) {
        true => Ok(()),
        false => disk.sync_dir(dir).await,
    }
}

async fn remove_generation(disk: &Disk, generation: &RelPath) -> Result<()> {
    for shard in disk.list(generation).await? {
        let dir = generation.join(&shard.name);
        if !shard.is_dir {
            disk.unlink(&dir).await?;
            continue;
        }
        if disk.exists(&log_dir(&dir)).await? {
            remove_flat(disk, &log_dir(&dir)).await?;
        }
        remove_flat(disk, &dir).await?;
    }
    disk.rmdir(generation).await
}

async fn remove_tables(disk: &Disk, tables: &RelPath) -> Result<()> {
    for table in disk.list(tables).await? {
        remove_flat(disk, &tables.join(&table.name)).await?;
    }
    disk.rmdir(tables).await
}

/// Removes a directory that holds files only.
async fn remove_flat(disk: &Disk, dir: &RelPath) -> Result<()> {
    for file in disk.list(dir).await? {
        disk.unlink(&dir.join(&file.name)).await?;
    }
    disk.rmdir(dir).await
}
