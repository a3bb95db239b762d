//! Rows that are large by themselves, as a file's statistics name them: how much of a row a file may hold is known
//! without reading it, so that a write that would make the row too large is refused before it is taken.
//!
//! ```text
//! large := (key:bytes static:u8 clustering:bytes n:varint (column:u16 bytes:varint cells:varint)[n])*
//! ```

use model::bytes::{Cursor, put_bytes, put_varint};
use model::row::{Cell, RowRef};

use crate::limits::LARGE_ROW_BYTES;

/// What a cell takes beside its path and value, at most.
const CELL_HEAD_BYTES: u64 = 24;

/// Whether a row is named in the statistics of its file, and its table looks at every write from then on.
#[inline]
pub(crate) fn is_large(row_bytes: usize) -> bool {
    row_bytes >= LARGE_ROW_BYTES
}

/// What one column holds in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSize {
    /// The column's id.
    pub column: u16,
    /// Bytes of its cells.
    pub bytes: u64,
    /// Its cells: elements and tombstones of a collection, or one.
    pub cells: u64,
}

/// One large row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeRow {
    /// The key of its partition.
    pub key: Vec<u8>,
    /// Its clustering key; `None` for the static row.
    pub clustering: Option<Vec<u8>>,
    /// Its columns, ascending.
    pub columns: Vec<ColumnSize>,
}

impl LargeRow {
    /// Measures a row.
    pub(crate) fn of(key: &[u8], clustering: Option<&[u8]>, row: RowRef<'_>) -> LargeRow {
        let mut columns: Vec<ColumnSize> = Vec::new();
        for cell in row.cells() {
            match columns.last_mut().filter(|last| last.column == cell.column.0) {
                Some(last) => {
                    last.bytes += bytes_of(&cell);
                    last.cells += 1;
                }
                None => {
                    let (column, bytes) = (cell.column.0, bytes_of(&cell));
                    let ascends = columns.last().is_none_or(|last| last.column < column);
                    assert!(ascends, "the columns of a row ascend");
                    columns.push(ColumnSize { column, bytes, cells: 1 });
                }
            }
        }
        LargeRow { key: key.to_vec(), clustering: clustering.map(<[u8]>::to_vec), columns }
    }

    /// Bytes of all its columns; `u64::MAX` if a damaged file says more.
    pub(crate) fn bytes(&self) -> u64 {
        self.columns.iter().map(|column| column.bytes).fold(0, u64::saturating_add)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.key);
        out.push(u8::from(self.clustering.is_none()));
        put_bytes(out, self.clustering.as_deref().unwrap_or_default());
        put_varint(out, self.columns.len() as u64);
        for column in &self.columns {
            out.extend_from_slice(&column.column.to_le_bytes());
            put_varint(out, column.bytes);
            put_varint(out, column.cells);
        }
    }

    pub(super) fn decode(value: &mut Cursor<'_>) -> model::Result<LargeRow> {
        let key = value.bytes()?.to_vec();
        let is_static = value.u8()? != 0;
        let clustering = Some(value.bytes()?.to_vec()).filter(|_| !is_static);
        let mut columns = Vec::new();
        for _ in 0..value.varint()? {
            let column = value.u16()?;
            columns.push(ColumnSize { column, bytes: value.varint()?, cells: value.varint()? });
        }
        Ok(LargeRow { key, clustering, columns })
    }
}

fn bytes_of(cell: &Cell<'_>) -> u64 {
    CELL_HEAD_BYTES + (cell.path.map_or(0, <[u8]>::len) + cell.value.len()) as u64
}
