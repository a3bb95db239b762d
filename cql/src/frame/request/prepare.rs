//! PREPARE: a statement to compile. In v5 it may name the keyspace of unqualified names.

use super::super::error::{Malformed, Result};
use super::super::header::Version;
use super::super::reader::Reader;
use super::super::writer;

const KEYSPACE: u32 = 0x01;

/// A PREPARE request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepare<'a> {
    /// Text of the statement to prepare.
    pub text: &'a str,
    /// The keyspace of unqualified names (v5).
    pub keyspace: Option<&'a str>,
}

impl<'a> Prepare<'a> {
    /// Reads the message.
    pub fn decode(mut reader: Reader<'a>, version: Version) -> Result<Prepare<'a>> {
        let text = reader.long_string()?;
        let mut keyspace = None;
        if version >= Version::V5 {
            let flags = reader.int()? as u32;
            if flags & !KEYSPACE != 0 {
                return Err(Malformed::because(format!("Unknown prepare flags {flags:#x}")));
            }
            if flags & KEYSPACE != 0 {
                keyspace = Some(reader.string()?);
            }
        }
        Ok(Prepare { text, keyspace })
    }

    /// Appends the message.
    pub fn put(&self, version: Version, out: &mut Vec<u8>) {
        writer::long_string(out, self.text);
        if version >= Version::V5 {
            out.extend_from_slice(&u32::from(self.keyspace.is_some()).to_be_bytes());
            if let Some(keyspace) = self.keyspace {
                writer::string(out, keyspace);
            }
        }
    }
}
