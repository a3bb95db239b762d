//! Rows by how near a vector of theirs is to one that is asked for: ORDER BY .. ANN OF.
//!
//! ```text
//! rows of a read, in any order ─► NearestRows: the nearest so far ─► the sink, nearest first
//! ```
//!
//! 1. A row without a vector, or with one that cannot be compared, is none of them.
//! 2. Of rows that are as near the first by token, key and clustering comes first: the order does not depend on how the
//!    rows were found, nor on who had them.
//! 3. What is kept is bounded: the rows that are asked for, and their bytes.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::{FilterTarget, Flow, PartitionRef, RowSink};
use crate::cell::Life;
use crate::limits::NEAREST_ROWS_BYTES_MAX;
use crate::row::RowRef;
use crate::schema::{ColumnKind, IndexId, Table};
use crate::types::{Similarity, floats};
use crate::{Error, Result, Token, key};

/// Bytes that a row counts for beside its own.
const ROW_BYTES: usize = 128;

/// The rows that are asked for: those whose vectors are nearest to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// The index of the vectors.
    pub index: IndexId,
    /// The column that has them.
    pub target: FilterTarget,
    /// What is near.
    pub similarity: Similarity,
    /// The vector that is asked for, as a value.
    pub vector: Box<[u8]>,
    /// How many rows.
    pub rows: usize,
}

impl Nearest {
    /// Puts the vector of a row into `vector`; false if it has none.
    pub fn vector_of(
        &self,
        table: &Table,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
        vector: &mut Vec<f32>,
    ) -> Result<bool> {
        vector.clear();
        match self.target {
            FilterTarget::PartitionKey(at) => {
                let columns = table.partition_key().len();
                let value = key::partition_key_value(partition.key, columns, at.into())?;
                vector.extend(floats(value));
            }
            FilterTarget::Clustering(at) => {
                let Some(clustering) = clustering else { return Ok(false) };
                let mut value = Vec::new();
                if key::clustering_value(table, clustering, at.into(), &mut value)? {
                    vector.extend(floats(&value));
                }
            }
            FilterTarget::Value(id) => {
                let column = table.column_by_id(id);
                let is_static = column.is_some_and(|column| column.kind == ColumnKind::Static);
                let row = if is_static { partition.static_row } else { row };
                let cell = row.and_then(|row| row.cells().find(|cell| cell.column == id));
                let live = cell.filter(|cell| !matches!(cell.life, Life::Dead { .. }));
                vector.extend(live.iter().flat_map(|cell| floats(cell.value)));
            }
        }
        Ok(vector.len() * size_of::<f32>() == self.vector.len())
    }
}

/// The nearest rows of those that it was given. A sink of the rows of a read.
pub struct NearestRows<'n> {
    nearest: &'n Nearest,
    table: &'n Table,
    wanted: Vec<f32>,
    scratch: Vec<f32>,
    /// The farthest on top.
    rows: BinaryHeap<KeptRow>,
    bytes: usize,
    bytes_max: usize,
    error: Option<Error>,
}

/// A row that is one of the nearest.
pub struct KeptRow {
    nearness: f32,
    token: Token,
    key: Box<[u8]>,
    clustering: Option<Box<[u8]>>,
    static_row: Option<Box<[u8]>>,
    row: Option<Box<[u8]>>,
}

impl KeptRow {
    /// Gives the row to a sink.
    pub fn give(&self, sink: &mut (impl RowSink + ?Sized)) -> Flow {
        let static_row = self.static_row.as_deref().map(RowRef::trusted);
        let partition = PartitionRef { token: self.token, key: &self.key, static_row };
        sink.row(&partition, self.clustering.as_deref(), self.row.as_deref().map(RowRef::trusted))
    }

    /// What the row takes, in bytes.
    pub fn bytes(&self) -> usize {
        let bytes = |bytes: &Option<Box<[u8]>>| bytes.as_ref().map_or(0, |bytes| bytes.len());
        let of_row = bytes(&self.clustering) + bytes(&self.static_row) + bytes(&self.row);
        ROW_BYTES + self.key.len() + of_row
    }
}

/// The order of rows: the nearest first.
fn order(
    (a, token_a, key_a, row_a): (f32, Token, &[u8], Option<&[u8]>),
    (b, token_b, key_b, row_b): (f32, Token, &[u8], Option<&[u8]>),
) -> Ordering {
    let places = || (token_a, key_a, row_a).cmp(&(token_b, key_b, row_b));
    // Zero has no sign here: which one a sum gives depends on its order.
    (b + 0.0).total_cmp(&(a + 0.0)).then_with(places)
}

impl Ord for KeptRow {
    fn cmp(&self, other: &KeptRow) -> Ordering {
        let place = |row: &KeptRow| (row.nearness, row.token);
        let ((a, token_a), (b, token_b)) = (place(self), place(other));
        let (row_a, row_b) = (self.clustering.as_deref(), other.clustering.as_deref());
        order((a, token_a, &self.key, row_a), (b, token_b, &other.key, row_b))
    }
}

impl PartialOrd for KeptRow {
    fn partial_cmp(&self, other: &KeptRow) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for KeptRow {
    fn eq(&self, other: &KeptRow) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for KeptRow {}

impl<'n> NearestRows<'n> {
    /// No rows yet, of this table.
    pub fn new(nearest: &'n Nearest, table: &'n Table) -> NearestRows<'n> {
        NearestRows {
            nearest,
            table,
            wanted: floats(&nearest.vector).collect(),
            scratch: Vec::new(),
            rows: BinaryHeap::new(),
            bytes: 0,
            bytes_max: NEAREST_ROWS_BYTES_MAX,
            error: None,
        }
    }

    /// The rows may have so many bytes, if that is less.
    pub fn with_bytes_max(self, bytes_max: usize) -> NearestRows<'n> {
        NearestRows { bytes_max: bytes_max.min(self.bytes_max), ..self }
    }

    /// How near the farthest of the rows is, once there are as many as are asked for: nothing farther is wanted.
    pub fn farthest(&self) -> Option<f32> {
        let is_full = self.rows.len() >= self.nearest.rows;
        self.rows.peek().filter(|_| is_full).map(|row| row.nearness)
    }

    /// The rows, nearest first; an error if they had too many bytes, or were malformed.
    pub fn into_rows(self) -> Result<impl Iterator<Item = KeptRow>> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.rows.into_sorted_vec().into_iter()),
        }
    }

    /// Gives the rows, nearest first, and their number.
    pub fn give(self, sink: &mut (impl RowSink + ?Sized)) -> Result<u64> {
        let mut given = 0;
        for row in self.into_rows()? {
            given += 1;
            if row.give(sink) == Flow::Enough {
                break;
            }
        }
        Ok(given)
    }

    fn take(
        &mut self,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Result<()> {
        let nearest = self.nearest;
        let vector = &mut self.scratch;
        if !nearest.vector_of(self.table, partition, clustering, row, vector)? {
            return Ok(());
        }
        let Some(nearness) = nearest.similarity.nearness(&self.wanted, vector) else {
            return Ok(());
        };
        if self.rows.len() >= nearest.rows
            && let Some(last) = self.rows.peek()
        {
            let other = (last.nearness, last.token, &last.key[..], last.clustering.as_deref());
            if order((nearness, partition.token, partition.key, clustering), other).is_ge() {
                return Ok(());
            }
            let last = self.rows.pop().expect("it was looked at");
            self.bytes -= last.bytes();
        }
        let kept = KeptRow {
            nearness,
            token: partition.token,
            key: partition.key.into(),
            clustering: clustering.map(Into::into),
            static_row: partition.static_row.map(|row| row.bytes().into()),
            row: row.map(|row| row.bytes().into()),
        };
        self.bytes += kept.bytes();
        self.rows.push(kept);
        if self.bytes > self.bytes_max {
            self.rows.clear();
            return Err(Error::invalid(format!(
                "the rows that ANN OF finds have more than {} bytes: ask for fewer by LIMIT",
                self.bytes_max
            )));
        }
        Ok(())
    }
}

impl RowSink for NearestRows<'_> {
    fn row(
        &mut self,
        partition: &PartitionRef<'_>,
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
    ) -> Flow {
        if self.error.is_some() {
            return Flow::Enough;
        }
        match self.take(partition, clustering, row) {
            Ok(()) => Flow::More,
            Err(error) => {
                self.error = Some(error);
                Flow::Enough
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::row::{Cell, RowBuilder, RowHead};
    use crate::schema::{TableBuilder, TableId};
    use crate::types::CqlType;
    use crate::{ColumnId, Flow};

    fn table() -> Table {
        let vector = CqlType::Vector { element: CqlType::Float.into(), dimensions: 2 };
        TableBuilder::new("ks", "t", TableId(Uuid::nil()))
            .partition_key("k", CqlType::Int)
            .and_then(|t| t.regular("v", vector))
            .and_then(|t| t.regular("b", CqlType::Blob))
            .and_then(TableBuilder::build)
            .expect("a sound table")
    }

    fn bytes(vector: [f32; 2]) -> Vec<u8> {
        vector.iter().flat_map(|part| part.to_be_bytes()).collect()
    }

    fn nearest(rows: usize) -> Nearest {
        Nearest {
            index: IndexId(0),
            target: FilterTarget::Value(ColumnId(1)),
            similarity: Similarity::Euclidean,
            vector: bytes([0.0, 0.0]).into(),
            rows,
        }
    }

    fn put(rows: &mut NearestRows<'_>, token: i64, vector: [f32; 2], blob: &[u8]) -> Flow {
        let (value, mut row) = (bytes(vector), Vec::new());
        RowBuilder::begin(&mut row, &RowHead::bare(1)).cell(&Cell::live(ColumnId(1), 1, &value));
        if !blob.is_empty() {
            row.clear();
            let mut builder = RowBuilder::begin(&mut row, &RowHead::bare(1));
            builder.cell(&Cell::live(ColumnId(1), 1, &value));
            builder.cell(&Cell::live(ColumnId(2), 1, blob));
        }
        let key = token.to_be_bytes();
        let partition = PartitionRef { token: Token(token), key: &key, static_row: None };
        rows.row(&partition, Some(&[]), Some(RowRef::trusted(&row)))
    }

    #[derive(Default)]
    struct Tokens(Vec<i64>);

    impl RowSink for Tokens {
        fn row(
            &mut self,
            partition: &PartitionRef<'_>,
            _: Option<&[u8]>,
            _: Option<RowRef<'_>>,
        ) -> Flow {
            self.0.push(partition.token.0);
            Flow::More
        }
    }

    #[test]
    fn the_nearest_come_in_order_whatever_order_they_came_in() {
        let (table, nearest) = (table(), nearest(3));
        let all = [
            (4, [2.0, 0.0]),
            (1, [0.0, 2.0]),
            (3, [9.0, 9.0]),
            (2, [1.0, 1.0]),
            (5, [f32::NAN, 0.0]),
        ];
        for turn in 0..all.len() {
            let mut rows = NearestRows::new(&nearest, &table);
            for at in 0..all.len() {
                let (token, vector) = all[(turn + at) % all.len()];
                put(&mut rows, token, vector, &[]);
            }
            assert_eq!(rows.farthest(), Some(-4.0));
            let mut tokens = Tokens::default();
            assert_eq!(rows.give(&mut tokens), Ok(3));
            assert_eq!(tokens.0, [2, 1, 4], "of two that are as near the first by token");
        }
    }

    #[test]
    fn rows_of_too_many_bytes_are_refused_with_the_limit() {
        let (table, nearest) = (table(), nearest(1000));
        let mut rows = NearestRows::new(&nearest, &table);
        let blob = vec![7; 1 << 20];
        let fits = NEAREST_ROWS_BYTES_MAX / (1 << 20);
        let flows: Vec<Flow> = (0..fits as i64 + 1)
            .map(|token| put(&mut rows, token, [token as f32, 0.0], &blob))
            .collect();
        assert!(flows[..fits - 1].iter().all(|flow| *flow == Flow::More));
        assert_eq!(flows.last(), Some(&Flow::Enough));
        let error = rows.give(&mut Tokens::default()).expect_err("too many bytes");
        assert!(
            error.to_string().contains("have more than 16777216 bytes: ask for fewer by LIMIT"),
            "{error}"
        );
    }
}
