//! Rows, or groups, that wait for their order: what `ORDER BY` of several partitions sorts.
//!
//! ```text
//! row ─► end of the answer, its key here ─► (twice the limit wait) ─► sorted, those behind the limit go
//! ```
//!
//! Invariant: rows of equal keys stay in the order in which they came. Not here: the order of rows in one partition,
//! which storage gives.

use std::cmp::Ordering;
use std::ops::Range;

use model::ordered::Reader;
use model::schema::Table;

use super::RowOrder;
use crate::error::Result;
use crate::planted::{Bug, planted};

/// Fewer rows than these wait for their order together, whatever the limit.
const WAITING_ROWS_MIN: u64 = 1024;

/// What a row is ordered by, and where it lies in the answer.
type Waiting = (Vec<u8>, Range<usize>);

/// See the module.
pub(super) struct Ordered {
    order: RowOrder,
    rows: Vec<Waiting>,
    bytes: usize,
}

impl Ordered {
    pub(super) fn new(order: RowOrder) -> Ordered {
        Ordered { order, rows: Vec::new(), bytes: 0 }
    }

    /// Bytes that the keys take; the rows are part of the answer.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first columns of a clustering key, as storage orders them.
    pub(super) fn key(&self, table: &Table, clustering: Option<&[u8]>) -> Result<Vec<u8>> {
        let clustering = clustering.unwrap_or_default();
        let length = prefix_length(table, clustering, self.order.columns)?;
        Ok(clustering[..length].to_vec())
    }

    /// Takes a row that lies in the answer.
    pub(super) fn push(&mut self, key: Vec<u8>, row: Range<usize>) {
        self.bytes += key.len() + size_of::<Waiting>();
        self.rows.push((key, row));
    }

    /// Whether so many rows wait behind the first `limit` that it is worth to drop them.
    pub(super) fn has_many_behind(&self, limit: u64) -> bool {
        self.rows.len() as u64 >= limit.saturating_mul(2).max(WAITING_ROWS_MIN)
    }

    /// Brings the rows into order, which lie in `out` from `start` on, and drops those behind the limit. Gives how many
    /// are left.
    pub(super) fn keep_first(&mut self, limit: u64, start: usize, out: &mut Vec<u8>) -> u64 {
        let reversed = self.order.reversed;
        self.rows.sort_by(|a, b| {
            let order = match planted(Bug::OrderOfPartitions) {
                true => Ordering::Equal,
                false => a.0.cmp(&b.0),
            };
            if reversed { order.reverse() } else { order }
        });
        let keep = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut sorted = Vec::with_capacity(out.len() - start);
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        for (key, row) in rows.into_iter().take(keep) {
            let begin = start + sorted.len();
            sorted.extend_from_slice(&out[row]);
            self.push(key, begin..start + sorted.len());
        }
        out.truncate(start);
        out.extend_from_slice(&sorted);
        self.rows.len() as u64
    }
}

/// The length of the first columns of a clustering key.
pub(super) fn prefix_length(table: &Table, clustering: &[u8], columns: usize) -> Result<usize> {
    if clustering.is_empty() || columns == table.clustering().len() {
        return Ok(clustering.len());
    }
    let mut reader = Reader::new(clustering);
    let mut rest = Vec::new();
    for column in &table.clustering()[..columns] {
        rest.clear();
        reader.component(&column.ty, column.descending, &mut rest)?;
    }
    Ok(clustering.len() - reader.rest().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rows_are_ordered_by_counts_and_what_is_behind_the_limit_goes() {
        let mut ordered = Ordered::new(RowOrder { columns: 1, reversed: false });
        let mut out = b"before".to_vec();
        for number in (0..2000u32).rev() {
            let start = out.len();
            out.extend(number.to_be_bytes());
            ordered.push(number.to_be_bytes().to_vec(), start..out.len());
        }
        assert!(ordered.bytes() >= 2000 * 4);
        assert!(ordered.has_many_behind(3) && !ordered.has_many_behind(1500));
        assert_eq!(ordered.keep_first(3, 6, &mut out), 3);
        let first: Vec<u8> = (0..3u32).flat_map(u32::to_be_bytes).collect();
        assert_eq!(out, [&b"before"[..], &first].concat());
        assert_eq!(ordered.bytes(), 3 * (4 + size_of::<Waiting>()));
    }
}
