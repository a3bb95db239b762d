//! EXECUTE: run what was prepared.

use super::super::error::Result;
use super::super::header::Version;
use super::super::reader::Reader;
use super::super::writer;
use super::parameters::Parameters;

/// An EXECUTE request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Execute<'a> {
    /// The id of the prepared statement, from RESULT Prepared.
    pub id: &'a [u8],
    /// The result metadata the client remembers (v5).
    pub result_metadata_id: Option<&'a [u8]>,
    /// Consistency, values, paging and the like.
    pub parameters: Parameters<'a>,
}

impl<'a> Execute<'a> {
    /// Reads the message.
    pub fn decode(mut reader: Reader<'a>, version: Version) -> Result<Execute<'a>> {
        let id = reader.short_bytes()?;
        let result_metadata_id =
            if version >= Version::V5 { Some(reader.short_bytes()?) } else { None };
        let parameters = Parameters::decode(&mut reader, version)?;
        Ok(Execute { id, result_metadata_id, parameters })
    }

    /// Appends the message.
    pub fn put(&self, version: Version, out: &mut Vec<u8>) {
        writer::short_bytes(out, self.id);
        if version >= Version::V5 {
            writer::short_bytes(out, self.result_metadata_id.unwrap_or_default());
        }
        self.parameters.put(version, out);
    }
}
