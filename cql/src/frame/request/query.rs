//! QUERY: a statement as text, and how to run it.

use super::super::error::Result;
use super::super::header::Version;
use super::super::reader::Reader;
use super::super::writer;
use super::parameters::Parameters;

/// A QUERY request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query<'a> {
    /// Text of the statement to execute.
    pub text: &'a str,
    /// Consistency, values, paging and the like.
    pub parameters: Parameters<'a>,
}

impl<'a> Query<'a> {
    /// Reads the message.
    pub fn decode(mut reader: Reader<'a>, version: Version) -> Result<Query<'a>> {
        let text = reader.long_string()?;
        Ok(Query { text, parameters: Parameters::decode(&mut reader, version)? })
    }

    /// Appends the message.
    pub fn put(&self, version: Version, out: &mut Vec<u8>) {
        writer::long_string(out, self.text);
        self.parameters.put(version, out);
    }
}
