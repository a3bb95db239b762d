//! The schema as a log of versioned entries: every change of it, in order, from the beginning.
//!
//! An entry's payload is the caller's (`model/src/schema/FORMAT.md`); its number is the schema's version after it.
//! There is one writer, and all shards apply what it has written. Not here: what a change means (`model::schema`).

use crate::error::Result;
use crate::io::{Disk, RelPath};
use crate::journal::{Appended, Journal, Kind};
use crate::limits::SCHEMA_BYTES_MIN;

/// What the file of the schema's log begins with.
pub(crate) const SCHEMA_MAGIC: &[u8; 8] = b"MESSSCHM";
const KIND: Kind = Kind { magic: SCHEMA_MAGIC, version: 2, bytes_min: SCHEMA_BYTES_MIN };

/// The schema's log, being written.
#[derive(Debug)]
pub struct SchemaLog {
    disk: Disk,
    seed: u64,
    journal: Journal,
}

impl SchemaLog {
    /// Makes an empty one; its first entry will have version 1.
    pub async fn create(disk: &Disk, seed: u64) -> Result<SchemaLog> {
        let uuid = uuid::Uuid::from_u64_pair(seed, !seed);
        let journal = Journal::make(disk, &path(), KIND, uuid, 1, &[]).await?;
        Ok(SchemaLog { disk: disk.clone(), seed, journal })
    }

    /// Opens it, with all entries and their versions.
    pub async fn open(disk: &Disk, seed: u64) -> Result<(SchemaLog, Vec<(u64, Vec<u8>)>)> {
        let contents = Journal::read(disk, &path(), KIND).await?;
        let uuid = contents.next_uuid(seed);
        let (first, entries) = (contents.first, contents.entries);
        let journal = Journal::make(disk, &path(), KIND, uuid, first, &entries).await?;
        let log = SchemaLog { disk: disk.clone(), seed, journal };
        Ok((log, (first..).zip(entries).collect()))
    }

    /// Adds a change, durably; says which version it made. `Invalid`: the change, or the log with it, is longer
    /// than any may be, and nothing has happened. `Poisoned`: the next start says whether it was made.
    pub async fn append(&mut self, payload: &[u8]) -> Result<u64> {
        let before = self.version();
        if self.journal.append(payload).await? == Appended::Full {
            // It syncs the file: after a sync that failed none is tried again.
            let read = Journal::read(&self.disk, &path(), KIND).await;
            let mut contents = read.map_err(|error| self.journal.distrust(error))?;
            contents.entries.push(payload.to_vec());
            let uuid = contents.next_uuid(self.seed);
            let (first, entries) = (contents.first, &contents.entries);
            let made = Journal::make(&self.disk, &path(), KIND, uuid, first, entries).await;
            self.journal.replace(made).await?;
        }
        assert!(self.version() > before, "a change makes a version");
        Ok(self.version())
    }

    /// The version of the last change; 0 before the first.
    pub fn version(&self) -> u64 {
        self.journal.next_number() - 1
    }
}

fn path() -> RelPath {
    RelPath::root().join("schema")
}
