//! The parameters that QUERY, EXECUTE and BATCH end with.
//!
//! ```text
//!  [consistency] flags ([byte] in v3 and v4, [int] in v5)
//!    0x001 values        [short] n, n × ([string] name if 0x040) [value]      not in BATCH
//!    0x002 skip metadata                                                      not in BATCH
//!    0x004 page size     [int]                                                not in BATCH
//!    0x008 paging state  [bytes]                                              not in BATCH
//!    0x010 serial        [consistency]
//!    0x020 timestamp     [long]
//!    0x080 keyspace      [string]   v5
//!    0x100 now           [int]      v5, seconds
//! ```

use super::super::consistency::Consistency;
use super::super::error::{Malformed, Result};
use super::super::header::Version;
use super::super::reader::Reader;
use super::super::writer;
use super::values::Values;

const VALUES: u32 = 0x001;
const SKIP_METADATA: u32 = 0x002;
const PAGE_SIZE: u32 = 0x004;
const PAGING_STATE: u32 = 0x008;
const SERIAL: u32 = 0x010;
const TIMESTAMP: u32 = 0x020;
const NAMES: u32 = 0x040;
const KEYSPACE: u32 = 0x080;
const NOW: u32 = 0x100;

/// The parameters of QUERY, EXECUTE and BATCH: consistency, values, paging, timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters<'a> {
    /// The consistency level: how many replicas must answer.
    pub consistency: Consistency,
    /// The bound values.
    pub values: Values<'a>,
    /// The client knows the result metadata: rows may come without.
    pub skip_metadata: bool,
    /// How many rows a page may have; `None` is all of them.
    pub page_rows: Option<u32>,
    /// The paging state of the page before; `None` for the first page.
    pub paging_state: Option<&'a [u8]>,
    /// The level of the conditional part.
    pub serial_consistency: Option<Consistency>,
    /// The timestamp of cells whose statement names none, in microseconds.
    pub timestamp_us: Option<i64>,
    /// The keyspace of unqualified names.
    pub keyspace: Option<&'a str>,
    /// What TTLs count as now, in seconds.
    pub now_s: Option<i32>,
    /// The name that the client gives the change, of the custom payload: not judged yet.
    pub request_id: Option<&'a [u8]>,
}

impl<'a> Parameters<'a> {
    /// Nothing but a consistency level.
    pub const fn plain(consistency: Consistency, version: Version) -> Parameters<'static> {
        Parameters {
            consistency,
            values: Values::none(version),
            skip_metadata: false,
            page_rows: None,
            paging_state: None,
            serial_consistency: None,
            timestamp_us: None,
            keyspace: None,
            now_s: None,
            request_id: None,
        }
    }

    /// Reads the parameters of a QUERY or EXECUTE; an error if they are malformed.
    pub fn decode(reader: &mut Reader<'a>, version: Version) -> Result<Parameters<'a>> {
        let mut parameters = Parameters::plain(reader.consistency()?, version);
        let flags =
            if version >= Version::V5 { reader.int()? as u32 } else { u32::from(reader.byte()?) };
        let known = if version >= Version::V5 { (NOW << 1) - 1 } else { KEYSPACE - 1 };
        if flags & !known != 0 {
            return Err(unknown_flags(flags & !known, version));
        }
        let has = |flag: u32| flags & flag != 0;
        parameters.skip_metadata = has(SKIP_METADATA);
        if has(VALUES) {
            parameters.values = Values::decode(reader, version, has(NAMES))?;
        }
        if has(PAGE_SIZE) {
            parameters.page_rows = u32::try_from(reader.int()?).ok().filter(|rows| *rows > 0);
        }
        if has(PAGING_STATE) {
            parameters.paging_state = reader.bytes()?;
        }
        if has(SERIAL) {
            parameters.serial_consistency = Some(reader.consistency()?);
        }
        if has(TIMESTAMP) {
            parameters.timestamp_us = Some(timestamp(reader.long()?)?);
        }
        if has(KEYSPACE) {
            parameters.keyspace = Some(reader.string()?);
        }
        if has(NOW) {
            parameters.now_s = Some(reader.int()?);
        }
        Ok(parameters)
    }

    /// Appends parameters. What the version cannot say is left out.
    pub fn put(&self, version: Version, out: &mut Vec<u8>) {
        writer::short(out, self.consistency.code());
        let v5 = version >= Version::V5;
        let keyspace = self.keyspace.filter(|_| v5);
        let now_s = self.now_s.filter(|_| v5);
        let bit = |wanted: bool, flag: u32| if wanted { flag } else { 0 };
        let flags = bit(!self.values.is_empty(), VALUES)
            | bit(!self.values.is_empty() && self.values.is_named(), NAMES)
            | bit(self.skip_metadata, SKIP_METADATA)
            | bit(self.page_rows.is_some(), PAGE_SIZE)
            | bit(self.paging_state.is_some(), PAGING_STATE)
            | bit(self.serial_consistency.is_some(), SERIAL)
            | bit(self.timestamp_us.is_some(), TIMESTAMP)
            | bit(keyspace.is_some(), KEYSPACE)
            | bit(now_s.is_some(), NOW);
        if v5 {
            out.extend_from_slice(&flags.to_be_bytes());
        } else {
            writer::byte(out, u8::try_from(flags).expect("v3 and v4 flags fit a byte"));
        }
        if !self.values.is_empty() {
            self.values.put(out);
        }
        if let Some(rows) = self.page_rows {
            out.extend_from_slice(&rows.to_be_bytes());
        }
        if self.paging_state.is_some() {
            writer::bytes(out, self.paging_state);
        }
        if let Some(level) = self.serial_consistency {
            writer::short(out, level.code());
        }
        if let Some(timestamp) = self.timestamp_us {
            writer::long(out, timestamp);
        }
        if let Some(keyspace) = keyspace {
            writer::string(out, keyspace);
        }
        if let Some(now) = now_s {
            writer::int(out, now);
        }
    }
}

fn timestamp(us: i64) -> Result<i64> {
    // The smallest value stands for "no timestamp" in the storage of both rivals.
    if us == i64::MIN {
        return Err(Malformed::because(format!(
            "Out of bound timestamp, must be in [{}, {}] (got {us})",
            i64::MIN + 1,
            i64::MAX
        )));
    }
    Ok(us)
}

#[cold]
fn unknown_flags(flags: u32, version: Version) -> Malformed {
    Malformed::because(format!("Unknown query flags {flags:#x} for protocol {version}"))
}
