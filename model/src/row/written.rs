//! The wire forms of clustering values beside their ordered bytes, and which of two stays.

use crate::Result;
use crate::bytes::{Cursor, put_bytes};
use crate::ordered::Reader;
use crate::schema::Column;

/// Clustering values as a client wrote them: those of the columns whose type `has_scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Written<'a> {
    /// When they were written, in microseconds.
    pub at: i64,
    /// Each value with its length before it, in the order of the columns.
    pub values: &'a [u8],
}

impl<'a> Written<'a> {
    /// Of two writes of one row the form of the first; a row without one has no say.
    pub fn first(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        a.into_iter().chain(b).min()
    }

    /// Refuses bytes that are no values with their lengths.
    pub(super) fn checked(&self) -> Result<()> {
        let mut cursor = Cursor::new(self.values);
        while !cursor.is_empty() {
            cursor.bytes()?;
        }
        Ok(())
    }

    /// Appends the value of a column to those before it, if the column has one here.
    pub fn put(column: &Column, value: &[u8], values: &mut Vec<u8>) {
        if column.ty.has_scale() {
            put_bytes(values, value);
        }
    }
}

/// The clustering values of one row, column by column: as they were written where that is kept,
/// otherwise as their ordered bytes give them.
#[derive(Debug)]
pub struct ClusteringReader<'a> {
    key: Reader<'a>,
    written: Option<Cursor<'a>>,
}

impl<'a> ClusteringReader<'a> {
    /// At the first column.
    pub fn new(key: &'a [u8], written: Option<Written<'a>>) -> Self {
        let written = written.map(|written| Cursor::new(written.values));
        ClusteringReader { key: Reader::new(key), written }
    }

    /// Appends the wire form of the next column's value; false if the row has none.
    pub fn next(&mut self, column: &Column, out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        if !self.key.component(&column.ty, column.descending, out)? {
            return Ok(false);
        }
        if let Some(written) = &mut self.written
            && column.ty.has_scale()
        {
            out.truncate(start);
            out.extend_from_slice(written.bytes()?);
        }
        Ok(true)
    }
}
