//! The one encoding of a row: made once from a request's bound values, then moved as bytes
//! through log, memtable, sstable and cache, and copied from there into the reply.
//!
//! ```text
//! row  := flags:u8 timestamp:i64 [ttl_s:u32 at_s:u32] [deleted:i64 local_s:u32] [as written] cell*
//! cell := column:u16 flags:u8 [timestamp:i64] [ttl_s:u32 at_s:u32 | local_s:u32] [path] [written]
//!         [value]
//! path, written, value := length:varint bytes                       integers little-endian
//! as written := at:i64 length:varint (length:varint bytes)*         one for each clustering column
//!                                                                   whose type `has_scale`
//!
//! row flags   1 MARKER    an INSERT was here: the row lives even without cells
//!             2 EXPIRES   ... until at_s
//!             4 DELETED   a row tombstone
//!             8 MORTAL    some cell or the marker expires or is a tombstone
//!            16 WRITTEN   wire forms of clustering values follow, and when they were written
//! cell flags  1 OWN       has a timestamp of its own; else the row's
//!             2 EXPIRES   4 DEAD (no value)   8 PATH (an element of a collection)
//!               (an expiring cell with ttl_s 0 is spent: expired, its value dropped)
//!            16 WHOLE     with DEAD: a tombstone over the whole collection
//!            32 WRITTEN   with PATH: the wire form of the element or key, if the path gives another
//! ```
//!
//! A decimal in a key is equal to others of another scale: `1.5` and `1.50` are one row and one
//! element, and their ordered bytes are the same. What was written is kept beside these bytes. It
//! is no part of what makes rows and elements equal. Of a row the form written first stays, of an
//! element that of the cell that wins, as in Cassandra. Rows and elements that were written before
//! there were such forms come back as their ordered bytes give them, without trailing zeros.
//!
//! Invariants
//! 1. Cells ascend by (column, WHOLE first, path) and no two share that key.
//! 2. No cell or marker is covered by the row's own deletion, no element by its collection's.
//! 3. The row's timestamp is the marker's if there is a marker.
//!
//! Values stay in CQL wire form. A static row has the same form. Whether these bytes may be
//! believed is settled where they enter: [`RowRef::checked`] for bytes that are not proven yet,
//! [`RowRef::trusted`] for bytes under a checksum.

use std::cmp::Ordering;

mod build;
mod collected;
mod current;
mod merge;
mod shifted;
#[cfg(test)]
mod tests;
mod written;

pub use build::{RowBuilder, RowHead};
pub use collected::collected;
pub use current::in_current_form;
pub use merge::{Purge, compact, merge, tombstones, visible};
pub use shifted::shifted;
pub use written::{ClusteringReader, Written};

use crate::bytes::{Cursor, compare};
use crate::cell::{Deletion, Expiry, Life};
use crate::ordered::{self, Reader};
use crate::schema::ColumnId;
use crate::types::CqlType;
use crate::{Error, Result};

const MARKER: u8 = 1;
const MARKER_EXPIRES: u8 = 2;
const DELETED: u8 = 4;
const MORTAL: u8 = 8;
const WRITTEN: u8 = 16;
const ROW_FLAGS: u8 = 31;

const OWN_TIMESTAMP: u8 = 1;
const EXPIRES: u8 = 2;
const DEAD: u8 = 4;
const PATH: u8 = 8;
const WHOLE: u8 = 16;
const PATH_WRITTEN: u8 = 32;
const CELL_FLAGS: u8 = 63;

/// One cell, as it stands in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<'a> {
    /// Id of the cell's column.
    pub column: ColumnId,
    /// When it was written, in microseconds.
    pub timestamp: i64,
    /// Whether it lives, and until when.
    pub life: Life,
    /// Which element of a collection, in order-preserving form; `None` for a plain cell.
    pub path: Option<&'a [u8]>,
    /// The wire form of what the path stands for, if it is not the one that the path gives.
    pub written: Option<&'a [u8]>,
    /// A tombstone over all older elements of the collection.
    pub whole: bool,
    /// The value in CQL wire form; empty for a tombstone.
    pub value: &'a [u8],
}

impl<'a> Cell<'a> {
    /// A live cell without TTL.
    #[inline]
    pub fn live(column: ColumnId, timestamp: i64, value: &'a [u8]) -> Self {
        Cell { column, timestamp, life: Life::Live, path: None, written: None, whole: false, value }
    }

    /// A tombstone over one cell.
    pub fn dead(column: ColumnId, timestamp: i64, local_s: u32) -> Self {
        let life = Life::Dead { local_s };
        Cell { column, timestamp, life, path: None, written: None, whole: false, value: &[] }
    }

    /// Appends the wire form of the element or key of this type that the path stands for.
    pub fn put_element(&self, ty: &CqlType, out: &mut Vec<u8>) -> Result<()> {
        match self.written {
            Some(written) => {
                out.extend_from_slice(written);
                Ok(())
            }
            None => ordered::decode(ty, &mut Reader::new(self.path.unwrap_or_default()), out),
        }
    }

    /// Whether the cell may stand right after `last`: in another column, or in the same collection.
    fn may_follow(&self, last: &Cell<'_>) -> bool {
        let in_collection = (last.whole || last.path.is_some()) && self.path.is_some();
        last.compare_place(self).is_lt() && (last.column != self.column || in_collection)
    }

    /// How its place among the cells of a row compares with that of another.
    #[inline]
    fn compare_place(&self, other: &Cell<'_>) -> Ordering {
        let of_column = || (self.column, !self.whole).cmp(&(other.column, !other.whole));
        of_column()
            .then_with(|| compare(self.path.unwrap_or_default(), other.path.unwrap_or_default()))
    }
}

/// A view of an encoded row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RowRef<'a> {
    bytes: &'a [u8],
}

impl<'a> RowRef<'a> {
    /// A row whose bytes are under a checksum, or were just built.
    #[inline]
    pub fn trusted(bytes: &'a [u8]) -> Self {
        RowRef { bytes }
    }

    /// A row whose bytes that are not proven yet: walks it once.
    pub fn checked(bytes: &'a [u8]) -> Result<Self> {
        let row = RowRef { bytes };
        let (head, written, mut cursor) = read_head(bytes)?;
        written.map_or(Ok(()), |written| written.checked())?;
        let mut last: Option<Cell<'_>> = None;
        while !cursor.is_empty() {
            let cell = read_cell(&mut cursor, head.timestamp)?;
            if last.is_some_and(|last| !cell.may_follow(&last)) {
                return Err(Error::Malformed("row: cells out of order"));
            }
            last = Some(cell);
        }
        Ok(row)
    }

    /// The encoded bytes.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What stands before the cells.
    #[inline]
    pub fn head(&self) -> RowHead {
        read_head(self.bytes).expect("a checked row").0
    }

    /// The clustering values as they were written, if they are kept.
    #[inline]
    pub fn written(&self) -> Option<Written<'a>> {
        let flags = self.bytes.first().copied().unwrap_or_default();
        if flags & WRITTEN == 0 {
            return None;
        }
        read_head(self.bytes).expect("a checked row").1
    }

    /// The cells in order.
    #[inline]
    pub fn cells(&self) -> Cells<'a> {
        let (head, _, cursor) = read_head(self.bytes).expect("a checked row");
        Cells { cursor, timestamp: head.timestamp }
    }

    /// Whether the row has a marker, by which it lives even without cells; the marker may have expired.
    #[inline]
    pub fn has_marker(&self) -> bool {
        self.bytes.first().is_some_and(|flags| flags & MARKER != 0)
    }

    /// Whether anything here expires, is a tombstone, or is deleted.
    #[inline]
    pub fn is_mortal(&self) -> bool {
        self.bytes.first().is_some_and(|flags| flags & (MORTAL | DELETED) != 0)
    }

    /// Newest and oldest timestamp in the row, its deletion included; `None` if it says nothing.
    pub fn timestamps(&self) -> Option<(i64, i64)> {
        let head = self.head();
        let marker = head.marker.map(|_| head.timestamp);
        let deletion = (!head.deletion.is_none()).then_some(head.deletion.timestamp);
        self.cells().map(|cell| cell.timestamp).chain(marker).chain(deletion).fold(
            None,
            |all, t| {
                let (max, min) = all.unwrap_or((t, t));
                Some((t.max(max), t.min(min)))
            },
        )
    }
}

impl std::fmt::Debug for RowRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Row").field("head", &self.head()).field("cells", &CellList(*self)).finish()
    }
}

struct CellList<'a>(RowRef<'a>);

impl std::fmt::Debug for CellList<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.cells()).finish()
    }
}

/// The cells of a row, in order.
#[derive(Clone)]
pub struct Cells<'a> {
    cursor: Cursor<'a>,
    timestamp: i64,
}

impl<'a> Iterator for Cells<'a> {
    type Item = Cell<'a>;

    #[inline]
    fn next(&mut self) -> Option<Cell<'a>> {
        if self.cursor.is_empty() {
            return None;
        }
        Some(read_cell(&mut self.cursor, self.timestamp).expect("a checked row"))
    }
}

#[inline]
fn read_head(bytes: &[u8]) -> Result<(RowHead, Option<Written<'_>>, Cursor<'_>)> {
    let mut cursor = Cursor::new(bytes);
    let flags = cursor.u8()?;
    if flags & !ROW_FLAGS != 0 || flags & (MARKER | MARKER_EXPIRES) == MARKER_EXPIRES {
        return Err(Error::Malformed("row flags"));
    }
    let timestamp = cursor.i64()?;
    let marker = if flags & MARKER == 0 {
        None
    } else if flags & MARKER_EXPIRES == 0 {
        Some(Life::Live)
    } else {
        Some(Life::Expiring(Expiry { ttl_s: cursor.u32()?, at_s: cursor.u32()? }))
    };
    let deletion = if flags & DELETED == 0 {
        Deletion::NONE
    } else {
        Deletion { timestamp: cursor.i64()?, local_s: cursor.u32()? }
    };
    let written = if flags & WRITTEN == 0 {
        None
    } else {
        Some(Written { at: cursor.i64()?, values: cursor.bytes()? })
    };
    Ok((RowHead { timestamp, marker, deletion }, written, cursor))
}

/// The next cell; `Malformed` if there is none. Inlined into every walk: a call would give the cell back through memory.
#[inline(always)]
fn read_cell<'a>(cursor: &mut Cursor<'a>, row_timestamp: i64) -> Result<Cell<'a>> {
    let column = ColumnId(cursor.u16()?);
    let flags = cursor.u8()?;
    let timestamp = if flags & OWN_TIMESTAMP == 0 { row_timestamp } else { cursor.i64()? };
    // Nearly every cell is a plain live one: it is read without asking for each of the rest.
    if flags & !OWN_TIMESTAMP == 0 {
        return Ok(Cell::live(column, timestamp, cursor.bytes()?));
    }
    read_rare_cell(cursor, column, flags, timestamp)
}

/// The rest of a cell that is dead, expires, or is an element.
fn read_rare_cell<'a>(
    cursor: &mut Cursor<'a>,
    column: ColumnId,
    flags: u8,
    timestamp: i64,
) -> Result<Cell<'a>> {
    if flags & !CELL_FLAGS != 0
        || flags & (EXPIRES | DEAD) == EXPIRES | DEAD
        || flags & (DEAD | WHOLE) == WHOLE
        || flags & (PATH | WHOLE) == PATH | WHOLE
        || flags & (PATH | PATH_WRITTEN) == PATH_WRITTEN
    {
        return Err(Error::Malformed("cell flags"));
    }
    let life = if flags & DEAD != 0 {
        Life::Dead { local_s: cursor.u32()? }
    } else if flags & EXPIRES != 0 {
        Life::Expiring(Expiry { ttl_s: cursor.u32()?, at_s: cursor.u32()? })
    } else {
        Life::Live
    };
    let path = if flags & PATH == 0 { None } else { Some(cursor.bytes()?) };
    let written = if flags & PATH_WRITTEN == 0 { None } else { Some(cursor.bytes()?) };
    let value = if flags & DEAD == 0 { cursor.bytes()? } else { &[] };
    Ok(Cell { column, timestamp, life, path, written, whole: flags & WHOLE != 0, value })
}
