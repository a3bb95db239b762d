//! The acknowledgement journal: which writes a server has promised to keep.
//!
//! ```text
//! file   := header record*                              little-endian
//! header := JSON object, padded with spaces to 511 bytes, '\n'      (`head -1` reads it)
//! record := key:u64 sequence:u64 mask:u16 zero:u16 check:u32        24 bytes
//!           check = low half of xxh3(first 20 bytes)
//! ```
//!
//! A record is appended (O_APPEND, one write per pass of the client loop) after its write was
//! acknowledged and before the thread sends anything more. So a record proves an acknowledgement;
//! an acknowledgement that came in the very last pass of a killed client may lack its record,
//! which only makes the later check weaker, never wrong. The journal is in the page cache: it
//! outlives any process, not the machine. To test power cuts, keep it on another machine.
//!
//! A cut last record is expected (the client was killed inside `write`); damage anywhere else is not.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};
use crate::limits::{FIELDS_MAX, KEYS_MAX};
use crate::proof::{Floor, bits};

const HEADER_BYTES: usize = 512;
const RECORD_BYTES: usize = 24;
const CHECKED_BYTES: usize = 20;

/// What the journal's table looks like, so that `verify` needs no flags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Always `messina-load journal 1`.
    pub format: String,
    /// The keyspace of the table that was written.
    pub keyspace: String,
    /// The table that was written.
    pub table: String,
    /// Fields of a record.
    pub fields: usize,
    /// Bytes of a field.
    pub field_bytes: usize,
    /// Time between two points of a series.
    pub step_ms: i64,
    /// Seconds that a point lives.
    pub ttl_s: u32,
}

/// The first line's `format`.
pub const FORMAT: &str = "messina-load journal 1";

/// An acknowledged write; of a scenario (`workload/scenario.rs`) whatever its `mask` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key's number.
    pub key: u64,
    /// The write's number and timestamp.
    pub sequence: u64,
    /// The fields it wrote, or a mark of the scenario.
    pub mask: u16,
}

/// The writing side; one per client thread, all on the same file.
#[derive(Debug)]
pub struct Journal {
    file: File,
    pending: Vec<u8>,
}

impl Journal {
    /// Opens the journal at `path` to append to, creating it with `header` if it is not there.
    pub fn open(path: &Path, header: &Header) -> Result<Journal> {
        let doing = || format!("opening the journal {}", path.display());
        let mut file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(path)
            .map_err(Error::io(doing()))?;
        let bytes = file.metadata().map_err(Error::io(doing()))?.len();
        if bytes == 0 {
            let mut line = serde_json::to_vec(header).expect("a header of strings is JSON");
            if line.len() >= HEADER_BYTES {
                return Err(Error::Invalid("the names are too long for a journal".into()));
            }
            line.resize(HEADER_BYTES - 1, b' ');
            line.push(b'\n');
            file.write_all(&line).map_err(Error::io(doing()))?;
        } else if read_header(path, &mut file)? != *header {
            return Err(Error::Invalid(format!(
                "{} is the journal of another table; name a new file",
                path.display()
            )));
        } else if !(bytes - HEADER_BYTES as u64).is_multiple_of(RECORD_BYTES as u64) {
            // What a killed client left unfinished would shift every later record.
            let whole = bytes - (bytes - HEADER_BYTES as u64) % RECORD_BYTES as u64;
            file.set_len(whole).map_err(Error::io(doing()))?;
        }
        Ok(Journal { file, pending: Vec::new() })
    }

    /// Another handle on the same file.
    pub fn try_clone(&self) -> Result<Journal> {
        let file = self.file.try_clone().map_err(Error::io("sharing the journal"))?;
        Ok(Journal { file, pending: Vec::new() })
    }

    /// Notes an acknowledged write; it is in the file after the next `flush`.
    #[inline]
    pub fn note(&mut self, record: Record) {
        let mut bytes = [0u8; RECORD_BYTES];
        bytes[..8].copy_from_slice(&record.key.to_le_bytes());
        bytes[8..16].copy_from_slice(&record.sequence.to_le_bytes());
        bytes[16..18].copy_from_slice(&record.mask.to_le_bytes());
        let check = xxh3_64(&bytes[..CHECKED_BYTES]) as u32;
        bytes[CHECKED_BYTES..].copy_from_slice(&check.to_le_bytes());
        self.pending.extend_from_slice(&bytes);
    }

    /// Appends what was noted, in one write.
    pub fn flush(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let written = self.file.write(&self.pending).map_err(Error::io("writing the journal"))?;
        if written != self.pending.len() {
            return Err(Error::Invalid("the journal's disk is full".into()));
        }
        self.pending.clear();
        Ok(())
    }
}

/// What a journal promises: for each key, the newest acknowledged write of each field.
#[derive(Debug)]
pub struct Promises {
    /// The table and the shape of its records.
    pub header: Header,
    /// By key number.
    pub floors: HashMap<u64, Floor>,
    /// Number of records read so far.
    pub records: u64,
}

impl Promises {
    /// Reads the whole journal.
    pub fn read(path: &Path) -> Result<Promises> {
        let (mut floors, mut records) = (HashMap::new(), 0);
        let header = each_record(path, |record| {
            records += 1;
            let floor: &mut Floor = floors.entry(record.key).or_insert([0; FIELDS_MAX]);
            for field in bits(record.mask) {
                let slot = &mut floor[usize::from(field)];
                *slot = record.sequence.max(*slot);
            }
        })?;
        Ok(Promises { header, floors, records })
    }
}

/// The header of the journal at `path`.
pub fn header_of(path: &Path) -> Result<Header> {
    let doing = format!("reading the journal {}", path.display());
    read_header(path, &mut File::open(path).map_err(Error::io(doing))?)
}

/// All records of the journal at `path`, in their order, by key number.
pub fn records_by_key(path: &Path) -> Result<BTreeMap<u64, Vec<Record>>> {
    let mut records: BTreeMap<u64, Vec<Record>> = BTreeMap::new();
    each_record(path, |record| records.entry(record.key).or_default().push(record))?;
    Ok(records)
}

/// Calls `each` with every record of the journal at `path`; returns its header.
fn each_record(path: &Path, mut each: impl FnMut(Record)) -> Result<Header> {
    let doing = || format!("reading the journal {}", path.display());
    let file = File::open(path).map_err(Error::io(doing()))?;
    let mut file = BufReader::with_capacity(1 << 20, file);
    let header = read_header(path, &mut file)?;
    let mut bytes = [0u8; RECORD_BYTES];
    let mut offset = HEADER_BYTES as u64;
    loop {
        match file.read_exact(&mut bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(header),
            Err(error) => return Err(Error::io(doing())(error)),
        }
        each(decode(&bytes).map_err(|reason| Error::Corrupt {
            file: path.display().to_string(),
            offset,
            reason,
        })?);
        offset += RECORD_BYTES as u64;
    }
}

fn read_header(path: &Path, file: &mut impl Read) -> Result<Header> {
    let corrupt = |reason| Error::Corrupt { file: path.display().to_string(), offset: 0, reason };
    let mut line = [0u8; HEADER_BYTES];
    file.read_exact(&mut line).map_err(|_| corrupt("shorter than a journal's first line"))?;
    let header: Header =
        serde_json::from_slice(&line).map_err(|_| corrupt("no journal begins like this"))?;
    if header.format != FORMAT || header.fields > FIELDS_MAX {
        return Err(corrupt("a journal of an unknown format"));
    }
    Ok(header)
}

fn decode(bytes: &[u8; RECORD_BYTES]) -> Result<Record, &'static str> {
    let number =
        |from: usize| u64::from_le_bytes(bytes[from..from + 8].try_into().expect("eight bytes"));
    let check = u32::from_le_bytes(bytes[CHECKED_BYTES..].try_into().expect("four bytes"));
    if xxh3_64(&bytes[..CHECKED_BYTES]) as u32 != check {
        return Err("a record's checksum is wrong");
    }
    let record = Record {
        key: number(0),
        sequence: number(8),
        mask: u16::from_le_bytes([bytes[16], bytes[17]]),
    };
    if record.key >= KEYS_MAX || bytes[18..20] != [0, 0] {
        return Err("a record that no client writes");
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            format: FORMAT.into(),
            keyspace: "ycsb".into(),
            table: "usertable".into(),
            fields: 10,
            field_bytes: 100,
            step_ms: 0,
            ttl_s: 0,
        }
    }

    #[test]
    fn what_is_noted_is_promised_across_reopening_and_a_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut journal = Journal::open(&path, &header()).unwrap();
        journal.note(Record { key: 5, sequence: 100, mask: 0b11 });
        journal.note(Record { key: 5, sequence: 90, mask: 0b111 });
        journal.flush().unwrap();
        // A client killed inside write leaves a part of a record.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(&[1; 7]).unwrap();
        assert_eq!(Promises::read(&path).unwrap().records, 2);
        let mut journal = Journal::open(&path, &header()).unwrap().try_clone().unwrap();
        journal.note(Record { key: 6, sequence: 1, mask: 0b1 });
        journal.flush().unwrap();

        let promises = Promises::read(&path).unwrap();
        assert_eq!(promises.records, 3);
        assert_eq!(&promises.floors[&5][..4], &[100, 100, 90, 0]);
        assert_eq!(promises.floors[&6][0], 1);
    }

    #[test]
    fn damage_and_another_table_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut journal = Journal::open(&path, &header()).unwrap();
        journal.note(Record { key: 5, sequence: 100, mask: 0b11 });
        journal.flush().unwrap();
        let other = Header { fields: 3, ..header() };
        assert!(matches!(Journal::open(&path, &other), Err(Error::Invalid(_))));

        let good = std::fs::read(&path).unwrap();
        for at in [0, HEADER_BYTES, HEADER_BYTES + 17, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            std::fs::write(&path, bad).unwrap();
            assert!(matches!(Promises::read(&path), Err(Error::Corrupt { .. })), "byte {at}");
        }
    }
}
