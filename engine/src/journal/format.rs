//! The bytes of a journal's header and entries (`FORMAT.md`).
//!
//! ```text
//! header   checksum magic version uuid first count file_bytes      first: number of the first entry
//! entry    checksum uuid offset number len │ payload               count: entries when the file got its name
//! claim    an entry of length 2^32 - 1, without payload: the entry before it is durable
//! ```
//!
//! 1. The header and each entry begin at a multiple of 4096 bytes, padded with zeros.
//! 2. A checksum covers everything after it. An entry names the uuid of its file and its offset: an entry of another
//!    file, or of another place, does not verify.
//! 3. `verified` and `Header::decode` take any bytes: what does not verify gives `None` or an error, never a panic.
//!
//! Not here: the order of the numbers of entries, and what ends a journal (`journal.rs`); what entries say
//! (`manifest/edit.rs`, `layout/schema_log.rs`).

use model::bytes::Cursor;
use uuid::Uuid;

use crate::codec::checksum;
use crate::io::{Buf, File};
use crate::limits::{JOURNAL_ENTRY_BYTES_MAX, WRITE_ALIGN_BYTES};
use crate::planted::{Bug, planted};

/// The header and each entry start at multiples of this.
pub(super) const UNIT: usize = WRITE_ALIGN_BYTES;
/// Where the first entry is.
pub(super) const FIRST_ENTRY: usize = UNIT;
/// The length that says: no entry, but a claim that the one before is durable.
const CLAIM: u32 = u32::MAX;
const HEADER_BYTES: usize = 60;
const ENTRY_HEADER_BYTES: usize = 44;

/// The first bytes of the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) version: u32,
    pub(super) uuid: Uuid,
    pub(super) first: u64,
    /// How many entries were there, durably, before the file got its name.
    pub(super) count: u64,
    /// How long the file is.
    pub(super) file_bytes: u64,
}

/// What precedes the payload of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryHeader {
    pub(super) number: u64,
    pub(super) len: u32,
}

impl Header {
    pub(super) fn encode(&self, file: &File, magic: &[u8; 8]) -> Buf {
        let mut bytes = vec![0; 8];
        bytes.extend_from_slice(magic);
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(self.uuid.as_bytes());
        bytes.extend_from_slice(&self.first.to_le_bytes());
        bytes.extend_from_slice(&self.count.to_le_bytes());
        bytes.extend_from_slice(&self.file_bytes.to_le_bytes());
        sealed(file, &mut bytes)
    }

    pub(super) fn decode(bytes: &[u8], magic: &[u8; 8]) -> model::Result<Header> {
        let mut cursor = Cursor::new(Cursor::new(bytes).take(HEADER_BYTES)?);
        let sum = cursor.u64()?;
        let sealed = sum == checksum(cursor.rest());
        let ours = cursor.take(magic.len())? == magic;
        let (version, uuid) = (cursor.u32()?, cursor.uuid()?);
        let (first, count, file_bytes) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
        match sealed && ours && first.checked_add(count).is_some() {
            true => Ok(Header { version, uuid, first, count, file_bytes }),
            false => Err(model::Error::Malformed("journal header")),
        }
    }
}

impl EntryHeader {
    pub(super) fn claim(number: u64) -> EntryHeader {
        EntryHeader { number, len: CLAIM }
    }

    pub(super) fn is_claim(&self) -> bool {
        self.len == CLAIM
    }

    fn payload_bytes(&self) -> usize {
        if self.is_claim() { 0 } else { self.len as usize }
    }

    /// Where what follows this entry begins.
    pub(super) fn end(&self, offset: usize) -> usize {
        offset + (ENTRY_HEADER_BYTES + self.payload_bytes()).next_multiple_of(UNIT)
    }

    pub(super) fn encode(&self, file: &File, uuid: Uuid, offset: u64, payload: &[u8]) -> Buf {
        assert_eq!(payload.len(), self.payload_bytes(), "the header tells the length");
        assert!(offset.is_multiple_of(UNIT as u64), "entries begin at whole units");
        let mut bytes = vec![0; 8];
        bytes.extend_from_slice(uuid.as_bytes());
        bytes.extend_from_slice(&offset.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.len.to_le_bytes());
        bytes.extend_from_slice(payload);
        sealed(file, &mut bytes)
    }

    /// Checksum, uuid of the file, offset, header and payload of an entry.
    fn decode(bytes: &[u8]) -> model::Result<(u64, Uuid, u64, EntryHeader, &[u8])> {
        let mut cursor = Cursor::new(bytes);
        let (sum, file, place) = (cursor.u64()?, cursor.uuid()?, cursor.u64()?);
        let entry = EntryHeader { number: cursor.u64()?, len: cursor.u32()? };
        Ok((sum, file, place, entry, cursor.take(entry.payload_bytes())?))
    }

    /// The entry at `offset` and its payload, if all of it is as it was written.
    pub(super) fn verified(
        bytes: &[u8],
        offset: usize,
        uuid: Uuid,
    ) -> Option<(EntryHeader, &[u8])> {
        let bytes = bytes.get(offset..)?;
        let (sum, file, place, entry, payload) = EntryHeader::decode(bytes).ok()?;
        let ours = file == uuid && place == offset as u64;
        let whole = ENTRY_HEADER_BYTES + payload.len();
        let fits = payload.len() <= JOURNAL_ENTRY_BYTES_MAX;
        let sealed = || sum == checksum(&bytes[8..whole]) || planted(Bug::SkipChecksum);
        (ours && fits && sealed()).then_some((entry, payload))
    }
}

/// Puts the checksum in front, and pads to whole units.
fn sealed(file: &File, bytes: &mut [u8]) -> Buf {
    let sum = checksum(&bytes[8..]);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    let mut buf = file.buf(bytes.len());
    buf.put(bytes);
    buf.pad_to(UNIT);
    buf
}
