//! ORDER BY .. ANN OF: the rows whose vectors are nearest to one, and vectors that an index of them cannot hold.
//!
//! The words are Cassandra's (`SelectStatement`, `StorageAttachedIndex`). There a vector that an index cannot hold fails
//! where it is stored; here it is refused as any other wrong value is.
//!
//! 1. A read: `bind` checks the LIMIT, evaluates the vector, and gives the order as storage knows it ([`Nearest`]).
//! 2. A write: `check_vectors` looks at the mutation that was bound, for each index of vectors that the table has. What
//!    deletes may name any vector.
//!
//! Invariant: a vector that is searched for, or that is written to a column with such an index, has finite parts only,
//! and is not zero if its similarity is the cosine.
//!
//! Not here: which statement may have this order (`prepare/select/nearest.rs`), the search
//! (`engine/src/read/nearest.rs`), the similarities (`model/src/types/similarity.rs`), what an index of vectors takes
//! (`ddl/index/vector.rs`).

use model::cell::Life;
use model::limits::NEAREST_ROWS_MAX;
use model::read::{FilterTarget, Nearest};
use model::row::{Cell, RowRef};
use model::schema::{Column, ColumnKind, IndexId};
use model::types::{Similarity, floats};
use model::{MutationRef, Table, key};

use crate::bind::Bindings;
use crate::error::{Error, Result};
use crate::expr::{Evaluated, Term};

/// What is said without a LIMIT.
const NEEDS_LIMIT: &str =
    "Top-K queries must have a limit specified and the limit must be less than the query page size";

/// The order by how near vectors are, whose vector is bound later.
#[derive(Clone, Debug)]
pub struct NearestOrder {
    /// The column of the vectors.
    pub column: Column,
    /// The index of that column.
    pub index: IndexId,
    /// What is near.
    pub similarity: Similarity,
    /// The vector that is asked for.
    pub vector: Term,
}

impl NearestOrder {
    /// The order with these bindings, of so many rows.
    pub(super) fn bind(&self, limit: u64, bindings: &Bindings<'_>) -> Result<Nearest> {
        if limit == u64::MAX {
            return Err(Error::invalid(NEEDS_LIMIT));
        }
        if limit > NEAREST_ROWS_MAX as u64 {
            return Err(Error::invalid(format!(
                "Use of ANN OF in an ORDER BY clause requires a LIMIT that is not greater than {NEAREST_ROWS_MAX}. LIMIT was {limit}"
            )));
        }
        let name = &self.column.name;
        let vector: Box<[u8]> = match self.vector.eval(bindings)? {
            Evaluated::Bytes(bytes) => bytes[..].into(),
            Evaluated::Null => {
                return Err(Error::invalid(format!("Unsupported null value for column {name}")));
            }
            Evaluated::Unset => {
                return Err(Error::invalid(format!("Unsupported unset value for column {name}")));
            }
        };
        check_vector(self.similarity, &vector)?;
        let position = self.column.position;
        let target = match self.column.kind {
            ColumnKind::PartitionKey => FilterTarget::PartitionKey(position),
            ColumnKind::Clustering => FilterTarget::Clustering(position),
            ColumnKind::Static | ColumnKind::Regular => FilterTarget::Value(self.column.id),
        };
        let (index, similarity, rows) = (self.index, self.similarity, limit as usize);
        Ok(Nearest { index, target, similarity, vector, rows })
    }
}

/// What the client is told whose pages are shorter than what it asks for.
pub(super) fn page_warning(page_rows: Option<u32>, limit: u64) -> Option<String> {
    let page_rows = page_rows.filter(|rows| u64::from(*rows) < limit)?;
    Some(format!(
        "Top-K queries do not support paging and the page size is set to {page_rows}, which is less than LIMIT {limit}. The page size has been set to {limit} to match the LIMIT."
    ))
}

/// Refuses a mutation of this table with a vector that an index cannot hold.
pub(super) fn check_vectors(table: &Table, mutation: &[u8]) -> Result<()> {
    for (index, similarity) in table.vector_indexes() {
        let column = index.column(table);
        for mutation in MutationRef::of_trusted_record(mutation) {
            let mutation = mutation?;
            match column.kind {
                // What deletes may name any key.
                ColumnKind::PartitionKey if writes_something(&mutation) => {
                    let (columns, at) = (table.partition_key().len(), column.position.into());
                    let value = key::partition_key_value(mutation.key, columns, at)?;
                    check_vector(similarity, value)?;
                }
                ColumnKind::PartitionKey => {}
                ColumnKind::Clustering => {
                    for (clustering, _) in mutation.rows().filter(|(_, row)| is_alive(*row)) {
                        let mut value = Vec::new();
                        key::clustering_value(
                            table,
                            clustering,
                            column.position.into(),
                            &mut value,
                        )?;
                        check_vector(similarity, &value)?;
                    }
                }
                ColumnKind::Static => {
                    check_rows(column, similarity, mutation.static_row.into_iter())?
                }
                ColumnKind::Regular => {
                    check_rows(column, similarity, mutation.rows().map(|(_, row)| row))?;
                }
            }
        }
    }
    Ok(())
}

fn check_rows<'m>(
    column: &Column,
    similarity: Similarity,
    mut rows: impl Iterator<Item = RowRef<'m>>,
) -> Result<()> {
    rows.try_for_each(|row| {
        let mut cells = row.cells().filter(|cell| cell.column == column.id && has_value(cell));
        cells.try_for_each(|cell| check_vector(similarity, cell.value))
    })
}

fn has_value(cell: &Cell<'_>) -> bool {
    !matches!(cell.life, Life::Dead { .. })
}

/// Whether the row says that there is something.
fn is_alive(row: RowRef<'_>) -> bool {
    row.head().marker.is_some() || row.cells().any(|cell| has_value(&cell))
}

fn writes_something(mutation: &MutationRef<'_>) -> bool {
    let rows = mutation.rows().map(|(_, row)| row);
    mutation.static_row.into_iter().chain(rows).any(is_alive)
}

/// Refuses a vector that cannot be compared.
fn check_vector(similarity: Similarity, vector: &[u8]) -> Result<()> {
    let is_wrong = |(_, part): &(usize, f32)| !part.is_finite();
    if let Some((at, part)) = floats(vector).enumerate().find(is_wrong) {
        let shown = match part {
            f32::INFINITY => "Infinity",
            f32::NEG_INFINITY => "-Infinity",
            _ => "NaN",
        };
        return Err(Error::invalid(format!("non-finite value at vector[{at}]={shown}")));
    }
    let square: f32 = floats(vector).map(|part| part * part).sum();
    if similarity == Similarity::Cosine && !vector.is_empty() && square == 0.0 {
        return Err(Error::invalid(
            "Zero vectors cannot be indexed or queried with cosine similarity",
        ));
    }
    Ok(())
}
