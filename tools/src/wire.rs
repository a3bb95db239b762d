//! The two halves of a prepared request that a workload sees: bound values out, rows in.
//!
//! Both work in place: values are appended to the bytes that will be sent, cells are read from the
//! bytes that came. Framing, streams and errors are the client's (`client/`).

use crate::error::{Error, Result};

/// Where a workload puts the values of an EXECUTE, in the statement's order.
#[derive(Debug)]
pub struct Binder<'a> {
    out: &'a mut Vec<u8>,
    values: u16,
}

impl<'a> Binder<'a> {
    /// Appends to `out`, which ends where the first value goes.
    pub fn new(out: &'a mut Vec<u8>) -> Binder<'a> {
        Binder { out, values: 0 }
    }

    /// Values so far.
    pub fn count(&self) -> u16 {
        self.values
    }

    /// Binds the next value.
    #[inline]
    pub fn value(&mut self, value: &[u8]) {
        self.value_of(value.len(), |out| out.extend_from_slice(value));
    }

    /// Binds the next value, of `length` bytes, which `append` appends.
    #[inline]
    pub fn value_of(&mut self, length: usize, append: impl FnOnce(&mut Vec<u8>)) {
        let length_i32 = i32::try_from(length).expect("values are limited to far less");
        self.out.extend_from_slice(&length_i32.to_be_bytes());
        let from = self.out.len();
        append(self.out);
        assert!(self.out.len() - from == length, "a value is as long as announced");
        self.values += 1;
    }
}

/// The rows of an answer, cell by cell.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    rest: &'a [u8],
    /// Rows in the answer.
    pub rows: u32,
    /// Cells in a row.
    pub columns: u32,
}

impl<'a> Rows<'a> {
    /// No row at all.
    pub const NONE: Rows<'static> = Rows { rest: &[], rows: 0, columns: 0 };

    /// `cells`: the answer behind its row count.
    pub fn new(cells: &'a [u8], rows: u32, columns: u32) -> Rows<'a> {
        Rows { rest: cells, rows, columns }
    }

    /// Whether the answer to a conditional write says that it was applied: its first cell.
    pub fn is_applied(&mut self) -> Result<bool> {
        Ok(self.cell()? == Some(&[1][..]))
    }

    /// The next cell; `None` is null.
    #[inline]
    pub fn cell(&mut self) -> Result<Option<&'a [u8]>> {
        let Some((length, rest)) = self.rest.split_first_chunk::<4>() else {
            return Err(cut_short());
        };
        let length = i32::from_be_bytes(*length);
        if length < 0 {
            self.rest = rest;
            return Ok(None);
        }
        let Some((value, rest)) = rest.split_at_checked(length as usize) else {
            return Err(cut_short());
        };
        self.rest = rest;
        Ok(Some(value))
    }
}

#[cold]
fn cut_short() -> Error {
    Error::Protocol("rows end before their last cell".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_values_read_back_as_cells() {
        let mut bytes = Vec::new();
        let mut binder = Binder::new(&mut bytes);
        binder.value(b"abc");
        binder.value_of(2, |out| out.extend_from_slice(&[7, 8]));
        assert_eq!(binder.count(), 2);
        bytes.extend_from_slice(&(-1i32).to_be_bytes());

        let mut rows = Rows::new(&bytes, 1, 3);
        assert_eq!(rows.cell().unwrap(), Some(&b"abc"[..]));
        assert_eq!(rows.cell().unwrap(), Some(&[7, 8][..]));
        assert_eq!(rows.cell().unwrap(), None);
        assert!(rows.cell().is_err());
        bytes.truncate(5);
        assert!(Rows::new(&bytes, 1, 1).cell().is_err());
    }
}
