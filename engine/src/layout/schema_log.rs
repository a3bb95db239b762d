//! The schema as a log of versioned entries: the changes that made it, in order.
//!
//! An entry's payload is the caller's (`model/src/schema/FORMAT.md`); its number is the schema's version after it.
//! There is one writer, and all shards apply what it has written. When the file is full, the caller gives what takes
//! the place of its entries: fewer, whose last has the same number.
//!
//! Not here: what a change means (`model::schema`), when entries are dead (`shard`).

use crate::error::Result;
use crate::io::{Disk, RelPath};
use crate::journal::{Appended, Contents, Journal, Kind};
use crate::limits::SCHEMA_BYTES_MIN;

/// What the file of the schema's log begins with.
pub(crate) const SCHEMA_MAGIC: &[u8; 8] = b"MESSSCHM";
const KIND: Kind = Kind { magic: SCHEMA_MAGIC, version: 8, bytes_min: SCHEMA_BYTES_MIN };

/// The schema's log, being written.
#[derive(Debug)]
pub struct SchemaLog {
    disk: Disk,
    seed: u64,
    journal: Journal,
}

/// The schema's log as a start finds it.
#[derive(Debug)]
pub struct FoundSchema {
    contents: Contents,
}

/// Entries of the schema's log, numbered one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaEntries {
    /// The number of the first entry.
    pub first: u64,
    /// The payload of each entry, in order.
    pub payloads: Vec<Vec<u8>>,
}

impl FoundSchema {
    /// The entries, each with its number.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (u64, &[u8])> {
        let number = |at: usize| self.contents.first + at as u64;
        let entries = self.contents.entries.iter().enumerate();
        entries.map(move |(at, payload)| (number(at), payload.as_slice()))
    }

    /// A copy of the entries.
    pub fn to_entries(&self) -> SchemaEntries {
        SchemaEntries { first: self.contents.first, payloads: self.contents.entries.clone() }
    }

    /// Opens it for writing: as it is, or with `instead` in place of its entries. A crash leaves the one or the other.
    pub async fn open(
        self,
        disk: &Disk,
        seed: u64,
        instead: Option<SchemaEntries>,
    ) -> Result<SchemaLog> {
        let contents = self.contents;
        let last = contents.first + contents.entries.len() as u64 - 1;
        let uuid = contents.next_uuid(seed);
        let found = SchemaEntries { first: contents.first, payloads: contents.entries };
        let entries = instead.unwrap_or(found);
        assert_eq!(entries.last(), last, "the version of the schema stays");
        let journal = entries.make(disk, uuid).await?;
        Ok(SchemaLog { disk: disk.clone(), seed, journal })
    }
}

impl SchemaEntries {
    /// The number of the last entry; one less than the first if there is none.
    fn last(&self) -> u64 {
        self.first + self.payloads.len() as u64 - 1
    }

    async fn make(&self, disk: &Disk, uuid: uuid::Uuid) -> Result<Journal> {
        Journal::make(disk, &path(), KIND, uuid, self.first, &self.payloads).await
    }
}

impl SchemaLog {
    /// Makes an empty one; its first entry will have version 1.
    pub async fn create(disk: &Disk, seed: u64) -> Result<SchemaLog> {
        let uuid = uuid::Uuid::from_u64_pair(seed, !seed);
        let none = SchemaEntries { first: 1, payloads: Vec::new() };
        let journal = none.make(disk, uuid).await?;
        Ok(SchemaLog { disk: disk.clone(), seed, journal })
    }

    /// Reads it, and changes nothing.
    pub async fn find(disk: &Disk) -> Result<FoundSchema> {
        Ok(FoundSchema { contents: Journal::read(disk, &path(), KIND).await? })
    }

    /// Adds a change, durably, unless the file is full. `Invalid`: the change is longer than any may be, and nothing
    /// has happened. `Poisoned`: the next start says whether it was made.
    pub async fn append(&mut self, payload: &[u8]) -> Result<Appended> {
        self.journal.append(payload).await
    }

    /// Puts `entries`, whose last is the next change, in the place of all entries, durably. Errors as of
    /// [`append`](Self::append); also `DiskFull`, and then nothing has happened.
    pub async fn replace(&mut self, entries: &SchemaEntries) -> Result<()> {
        assert_eq!(entries.last(), self.version() + 1, "a change makes a version");
        self.journal.trusted()?;
        let made = entries.make(&self.disk, self.journal.next_uuid(self.seed)).await;
        self.journal.replace(made).await
    }

    /// The version of the last change; 0 before the first.
    pub fn version(&self) -> u64 {
        self.journal.next_number() - 1
    }
}

fn path() -> RelPath {
    RelPath::root().join("schema")
}
