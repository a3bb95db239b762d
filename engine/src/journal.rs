//! A file of checksummed entries that is appended to and now and then rewritten: under the manifest and the
//! schema.
//!
//! ```text
//!   header │ entry 1 │ entry 2 │ … │ entry n │ claim │ zeros
//!            └ there when the file was made ┘    └ empty: says that entry n was durable
//! ```
//!
//! Invariants
//! 1. An append is durable when it returns, and a claim after it proves that: so damage is told from a torn tail.
//! 2. A new file is whole and durable before it takes the name of the old one; then its directory is synced.
//! 3. The space is reserved when the file is made: an append never meets a full disk.
//! 4. The first failed append ends the trust: nothing is appended after it.
//!
//! Not here: what the entries say. The byte layout is in `FORMAT.md`.

mod format;

#[cfg(test)]
pub(crate) mod tests;

use format::{EntryHeader, FIRST_ENTRY, Header, UNIT};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::error::{Error, Result};
use crate::io::{Disk, File, RelPath};
use crate::limits::{JOURNAL_BYTES_MAX, JOURNAL_ENTRY_BYTES_MAX};
use crate::planted::{Bug, planted};
use crate::reserve;

/// Which journal this is, and how large it is made.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// The first bytes of its files.
    pub magic: &'static [u8; 8],
    /// The version of its entries that this build writes; older ones are read, newer ones refused.
    pub version: u32,
    /// A new file has at least this much space.
    pub bytes_min: u64,
}

/// What a journal holds.
#[derive(Debug, PartialEq, Eq)]
pub struct Contents {
    /// The version of the entries.
    pub version: u32,
    /// The number of the first entry.
    pub first: u64,
    /// The entries, in order.
    pub entries: Vec<Vec<u8>>,
    uuid: Uuid,
}

/// A journal that can be appended to.
#[derive(Debug)]
pub struct Journal {
    kind: Kind,
    file: File,
    uuid: Uuid,
    next: u64,
    offset: u64,
    poison: Option<Error>,
}

/// Whether an entry was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// It is durable.
    Durably,
    /// The file has no space for it: make a new one from what the entries say.
    Full,
}

impl Journal {
    /// Reads all entries, and changes none. They are durable, and so is the file's name: a process that was killed
    /// may have left an entry, or a new file, that can be read and would go with the power, and files are deleted on
    /// the word of what is read here.
    pub async fn read(disk: &Disk, path: &RelPath, kind: Kind) -> Result<Contents> {
        let file = disk.open(path).await?;
        if !planted(Bug::TrustReadable) {
            file.sync().await?;
            disk.sync_dir(&path.parent()).await?;
        }
        let damaged = |offset: u64, what: &str| Error::corrupt(path.as_str(), offset, what);
        if file.len() > JOURNAL_BYTES_MAX {
            return Err(damaged(0, "the file is longer than any may be"));
        }
        let bytes = file.read_exact_at(0, file.len() as usize).await?;
        file.close().await?;
        let header = Header::decode(&bytes, kind.magic).map_err(|_| damaged(0, "header"))?;
        if header.version > kind.version {
            let (found, known) = (header.version, kind.version);
            return Err(Error::Newer { file: path.as_str().into(), found, known });
        }
        if header.file_bytes != bytes.len() as u64 {
            return Err(damaged(0, "the file is not as long as its header says"));
        }
        let mut entries = Vec::new();
        let mut offset = FIRST_ENTRY;
        loop {
            let number = header.first + entries.len() as u64;
            match EntryHeader::verified(&bytes, offset, header.uuid) {
                Some((entry, payload)) if entry.number == number && !entry.is_claim() => {
                    entries.push(payload.to_vec());
                    offset = entry.end(offset);
                }
                Some((entry, _)) if entry.number == number => break,
                Some(_) => return Err(damaged(offset as u64, "an entry is out of order")),
                None => break,
            }
        }
        if (entries.len() as u64) < header.count {
            return Err(damaged(offset as u64, "an entry does not verify"));
        }
        // A valid entry after a bad one proves that the bad one was durable.
        let later = (offset + UNIT..bytes.len()).step_by(UNIT);
        for at in later {
            if let Some((entry, _)) = EntryHeader::verified(&bytes, at, header.uuid)
                && entry.number > header.first + entries.len() as u64
            {
                let what = format!("an entry does not verify, and the one at {at} follows it");
                return Err(damaged(offset as u64, &what));
            }
        }
        Ok(Contents { version: header.version, first: header.first, entries, uuid: header.uuid })
    }

    /// Makes a journal of these entries, numbered from `first`, in place of the one that `path` may name. On a full
    /// disk, in the space of the reserve.
    pub async fn make(
        disk: &Disk,
        path: &RelPath,
        kind: Kind,
        uuid: Uuid,
        first: u64,
        entries: &[Vec<u8>],
    ) -> Result<Journal> {
        let make = async || Journal::make_once(disk, path, kind, uuid, first, entries).await;
        reserve::with_its_space(disk, make).await
    }

    async fn make_once(
        disk: &Disk,
        path: &RelPath,
        kind: Kind,
        uuid: Uuid,
        first: u64,
        entries: &[Vec<u8>],
    ) -> Result<Journal> {
        let lens = Lens::of(path, kind, entries.iter().map(Vec::len))?;
        let temporary = path.parent().join(&format!("{}.new", path.name()));
        if disk.exists(&temporary).await? {
            disk.unlink(&temporary).await?;
        }
        let made = disk.create(&temporary).await?;
        let offset = match fill(&made, kind, uuid, first, entries, lens).await {
            Ok(()) => lens.end,
            Err(error) => {
                made.close().await?;
                disk.unlink(&temporary).await?;
                return Err(error);
            }
        };
        // From here on the name may stand for either file: no error says that nothing has happened.
        let named = name(disk, &temporary, path, kind, made).await;
        let file = named.map_err(|error| Error::poisoned(&error))?;
        let next = first + entries.len() as u64;
        Ok(Journal { kind, file, uuid, next, offset, poison: None })
    }

    /// Appends an entry, durably. `Invalid`: it is longer than any may be, and nothing has happened.
    pub async fn append(&mut self, payload: &[u8]) -> Result<Appended> {
        self.trusted()?;
        assert!(self.offset.is_multiple_of(UNIT as u64), "entries begin at whole units");
        assert!(self.offset <= self.file.len(), "entries lie in the file");
        let entry = EntryHeader { number: self.next, len: checked_len(payload.len())? };
        let end = entry.end(self.offset as usize) as u64;
        // The claim after it has its place too.
        if end + UNIT as u64 > self.file.len() {
            return Ok(Appended::Full);
        }
        let done = self.write(entry, payload, end).await;
        done.map_err(|error| self.distrust(error))?;
        Ok(Appended::Durably)
    }

    async fn write(&mut self, entry: EntryHeader, payload: &[u8], end: u64) -> Result<()> {
        let buf = entry.encode(&self.file, self.uuid, self.offset, payload);
        self.file.write_at(buf, self.offset).await?;
        (self.next, self.offset) = (self.next + 1, end);
        let claim = EntryHeader::claim(self.next).encode(&self.file, self.uuid, end, &[]);
        self.file.write_at(claim, end).await
    }

    /// Goes on with the journal that was made to replace this one. If that was refused, or the disk is full,
    /// this one is as it was; after any other error it is not known which of the two has the name, so nothing
    /// is appended any more, and the error is `Poisoned`.
    pub async fn replace(&mut self, made: Result<Journal>) -> Result<()> {
        let failed = match made {
            Ok(made) => {
                assert!(made.next >= self.next, "numbers of entries rise");
                assert_ne!(made.uuid, self.uuid, "each file has a uuid of its own");
                std::mem::replace(self, made).close().await.err()
            }
            Err(error @ (Error::DiskFull { .. } | Error::Invalid(_))) => return Err(error),
            Err(error) => Some(error),
        };
        match failed {
            None => Ok(()),
            Some(error) => Err(self.distrust(error)),
        }
    }

    /// `Poisoned` if nothing may be appended to it any more, nor may anything take its place.
    pub fn trusted(&self) -> Result<()> {
        self.poison.as_ref().map_or(Ok(()), |first| Err(Error::poisoned(first)))
    }

    /// Ends the trust in this journal, for an error after which nothing may be appended: the error to answer.
    pub fn distrust(&mut self, error: Error) -> Error {
        Error::poisoned(self.poison.get_or_insert(error))
    }

    /// The number of the entry that comes next.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// The uuid for a file that replaces this one.
    pub fn next_uuid(&self, seed: u64) -> Uuid {
        next_uuid(self.uuid, seed)
    }

    /// What kind it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Closes the file.
    pub async fn close(self) -> Result<()> {
        self.file.close().await
    }
}

impl Contents {
    /// The uuid for a file that replaces this one.
    pub fn next_uuid(&self, seed: u64) -> Uuid {
        next_uuid(self.uuid, seed)
    }
}

fn next_uuid(old: Uuid, seed: u64) -> Uuid {
    Uuid::from_u128(xxh3_128_with_seed(old.as_bytes(), seed))
}

/// How long a new file is, and where its entries end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lens {
    /// Where the entry after the last goes. Bytes.
    end: u64,
    /// The whole file. Bytes.
    file: u64,
}

impl Lens {
    /// Of a file with entries so long; `Invalid` if a start would refuse such a file.
    fn of(path: &RelPath, kind: Kind, lens: impl Iterator<Item = usize>) -> Result<Lens> {
        let mut end = FIRST_ENTRY;
        for len in lens {
            end = EntryHeader { number: 0, len: checked_len(len)? }.end(end);
        }
        let end = end as u64;
        if end > JOURNAL_BYTES_MAX {
            return Err(Error::invalid(format!(
                "{path} would be {end} bytes long, more than the {JOURNAL_BYTES_MAX} that it may be"
            )));
        }
        Ok(Lens { end, file: kind.bytes_min.max(JOURNAL_BYTES_MAX.min(2 * end)) })
    }
}

/// The length of an entry; `Invalid` if it is more than any may have.
fn checked_len(len: usize) -> Result<u32> {
    let fitting = u32::try_from(len).ok().filter(|_| len <= JOURNAL_ENTRY_BYTES_MAX);
    fitting.ok_or_else(|| {
        Error::invalid(format!(
            "an entry of {len} bytes is longer than the {JOURNAL_ENTRY_BYTES_MAX} that it may be"
        ))
    })
}

/// Gives a file its name, durably, and opens it for appending.
async fn name(
    disk: &Disk,
    temporary: &RelPath,
    path: &RelPath,
    kind: Kind,
    made: File,
) -> Result<File> {
    disk.rename(temporary, path).await?;
    if !planted(Bug::NoDirectorySync) {
        disk.sync_dir(&path.parent()).await?;
    }
    let is_schema = kind.magic == crate::layout::SCHEMA_MAGIC;
    if planted(Bug::ManifestNoSync) || planted(Bug::SchemaNoSync) && is_schema {
        return Ok(made);
    }
    made.close().await?;
    disk.open_log(path).await
}

/// Writes a whole journal to an empty file.
async fn fill(
    file: &File,
    kind: Kind,
    uuid: Uuid,
    first: u64,
    entries: &[Vec<u8>],
    lens: Lens,
) -> Result<()> {
    file.allocate(lens.file).await?;
    let mut offset = FIRST_ENTRY as u64;
    for (payload, number) in entries.iter().zip(first..) {
        let entry = EntryHeader { number, len: checked_len(payload.len())? };
        let buf = entry.encode(file, uuid, offset, payload);
        file.write_at(buf, offset).await?;
        offset = entry.end(offset as usize) as u64;
    }
    assert_eq!(offset, lens.end, "the entries end where they were measured to end");
    let count = entries.len() as u64;
    let header = Header { version: kind.version, uuid, first, count, file_bytes: lens.file };
    file.write_at(header.encode(file, kind.magic), 0).await?;
    match file.sync().await {
        Err(_) if planted(Bug::RetrySync) => file.sync().await,
        synced => synced,
    }
}
