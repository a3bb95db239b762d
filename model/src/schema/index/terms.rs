//! The terms of an index: what a row is found by, and which of them a relation asks for.
//!
//! ```text
//! value, element, key     its component (`ordered.rs`), of a text in the form of the index's analysis
//! entry of a map          component of the key, component of the value
//! ```
//!
//! 1. Whatever a relation accepts has a term in the ranges that [`Index::lookup`] gives for it; the property test says
//!    so.
//! 2. A term has at most [`TERM_BYTES_MAX`] bytes: of a longer one the first, for all that begin so.
//! 3. Dead cells have no term. An expiring one has, even when it is over: candidates are judged when they are read.
//! 4. A number of too many digits has no component, nor has a value whose form would be too long. All such values have
//!    one term, which every lookup among values that may be such asks for beside its own.

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use super::{Index, IndexTarget};
use crate::cell::Life;
use crate::limits::TERM_BYTES_MAX;
use crate::read::{IndexLookup, Like, Operator, Slice};
use crate::row::{Cell, RowRef};
use crate::schema::{ColumnKind, Table};
use crate::types::CqlType;
use crate::{Error, Result, key, ordered};

/// The term of a value that has no component: below every component.
const UNKNOWN: &[u8] = &[0];

impl Index {
    /// Gives each term by which this row is found; the same one perhaps more than once.
    ///
    /// Without `clustering` these are the terms of the partition: of its key, and of `row`, its static row. With it
    /// they are those of a row. The row need not be reconciled: what it says is a superset of what is to be seen.
    /// `give` may break it off: then no more terms are made.
    pub fn terms(
        &self,
        table: &Table,
        partition_key: &[u8],
        clustering: Option<&[u8]>,
        row: Option<RowRef<'_>>,
        give: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let column = self.column(table);
        let mut term = Vec::new();
        match (column.kind, clustering) {
            (ColumnKind::PartitionKey, None) => {
                let (columns, at) = (table.partition_key().len(), usize::from(column.position));
                let value = key::partition_key_value(partition_key, columns, at)?;
                let put = self.put(&column.ty, value, &mut term);
                let _ = give(kept(put, &mut term)?);
            }
            // The tombstone of a row is not found by its key.
            (ColumnKind::Clustering, Some(_)) if row.is_some_and(is_tombstone) => {}
            (ColumnKind::Clustering, Some(clustering)) => {
                let mut value = Vec::new();
                let at = usize::from(column.position);
                if key::clustering_value(table, clustering, at, &mut value)? {
                    let put = self.put(&column.ty, &value, &mut term);
                    let _ = give(kept(put, &mut term)?);
                }
            }
            (ColumnKind::Static, None) | (ColumnKind::Regular, Some(_)) => {
                let Some(row) = row else { return Ok(()) };
                let of_column = |cell: &Cell<'_>| cell.column == self.column && has_value(cell);
                for cell in row.cells().filter(of_column) {
                    match self.put_cell(&column.ty, &cell, &mut term) {
                        Ok(false) => {}
                        put => {
                            if give(kept(put.map(drop), &mut term)?).is_break() {
                                break;
                            }
                        }
                    }
                    term.clear();
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Which terms rows have that this relation accepts: `None` if the index cannot tell. `values` as in a filter.
    pub fn lookup(
        &self,
        table: &Table,
        operator: Operator,
        values: &[impl AsRef<[u8]>],
    ) -> Result<Option<IndexLookup>> {
        let ty = &self.column(table).ty;
        if !ty.keeps_its_form() || self.similarity(table).is_some() {
            return Ok(None);
        }
        let (targets, parts): (&[IndexTarget], Vec<&CqlType>) = match (operator, ty) {
            (Operator::Contains, CqlType::List { element, .. } | CqlType::Set { element, .. }) => {
                (&[IndexTarget::Values], vec![element])
            }
            (Operator::Contains, CqlType::Map { value, .. }) => {
                (&[IndexTarget::Values], vec![value])
            }
            (Operator::ContainsKey, CqlType::Map { key, .. }) => (&[IndexTarget::Keys], vec![key]),
            (Operator::Entry, CqlType::Map { key, value, .. }) => {
                (&[IndexTarget::Entries], vec![key, value])
            }
            (Operator::Contains | Operator::ContainsKey | Operator::Entry, _) => return Ok(None),
            (Operator::Like(Like::Suffix | Like::Contains), _) => return Ok(None),
            (Operator::Equal | Operator::In | Operator::Like(_), _) => {
                (&[IndexTarget::Value, IndexTarget::Full], vec![ty])
            }
            _ if self.analysis.is_none_of(ty) => {
                (&[IndexTarget::Value, IndexTarget::Full], vec![ty])
            }
            _ => return Ok(None),
        };
        if !targets.contains(&self.target) {
            return Ok(None);
        }
        let mut terms = match self.ranges(&parts, operator, values) {
            // Nothing is known of what compares with a value that has no component.
            Err(Error::Invalid(_)) => return Ok(None),
            terms => terms?,
        };
        if parts.into_iter().any(may_be_too_long) {
            terms.push(one(UNKNOWN.to_vec()));
        }
        Ok(Some(IndexLookup { index: self.id, terms: joined(terms) }))
    }

    /// The ranges of the terms that a relation to these values accepts.
    fn ranges(
        &self,
        parts: &[&CqlType],
        operator: Operator,
        values: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Slice>> {
        let term = |values: &[_]| self.term(parts, values);
        Ok(match operator {
            Operator::In => {
                let each = values.iter().map(|value| term(std::slice::from_ref(value)).map(one));
                each.collect::<Result<_>>()?
            }
            Operator::Less => vec![below(Vec::new(), term(values)?)],
            Operator::LessOrEqual => vec![below(Vec::new(), behind(term(values)?))],
            Operator::Greater => vec![below(behind(term(values)?), vec![ordered::AFTER])],
            Operator::GreaterOrEqual => vec![below(term(values)?, vec![ordered::AFTER])],
            Operator::Like(Like::Prefix) => {
                let mut prefix = term(values)?;
                prefix.truncate(prefix.len() - ordered::TEXT_END_BYTES);
                let mut end = prefix.clone();
                end.push(ordered::AFTER);
                vec![below(prefix, end)]
            }
            _ => vec![one(term(values)?)],
        })
    }

    /// The whole term of these values, one for each type.
    fn term(&self, types: &[&CqlType], values: &[impl AsRef<[u8]>]) -> Result<Vec<u8>> {
        assert_eq!(types.len(), values.len(), "the binder gives each its value");
        let mut term = Vec::new();
        for (ty, value) in types.iter().zip(values) {
            self.put(ty, value.as_ref(), &mut term)?;
        }
        Ok(term)
    }

    /// Appends the component of a value.
    fn put(&self, ty: &CqlType, value: &[u8], out: &mut Vec<u8>) -> Result<()> {
        ordered::encode(ty, &self.analysis.apply(ty, value), out)
    }

    /// Appends the whole term of a cell; false if it has none in this index.
    fn put_cell(&self, ty: &CqlType, cell: &Cell<'_>, out: &mut Vec<u8>) -> Result<bool> {
        match (ty, self.target) {
            (_, IndexTarget::Value | IndexTarget::Full) if cell.path.is_none() => {
                self.put(ty, cell.value, out)?;
            }
            (CqlType::List { element, .. }, IndexTarget::Values) => {
                self.put(element, cell.value, out)?;
            }
            (CqlType::Set { element, .. }, IndexTarget::Values) => {
                self.put_path(element, cell, out)?;
            }
            (CqlType::Map { key, .. }, IndexTarget::Keys) => self.put_path(key, cell, out)?,
            (CqlType::Map { value, .. }, IndexTarget::Values) => {
                self.put(value, cell.value, out)?;
            }
            (CqlType::Map { key, value, .. }, IndexTarget::Entries) => {
                self.put_path(key, cell, out)?;
                self.put(value, cell.value, out)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Appends the component of an element of a set, or of a key of a map: its path is one already.
    fn put_path(&self, ty: &CqlType, cell: &Cell<'_>, out: &mut Vec<u8>) -> Result<()> {
        if self.analysis.is_none_of(ty) {
            out.extend_from_slice(cell.path.unwrap_or_default());
            return Ok(());
        }
        let mut value = Vec::new();
        cell.put_element(ty, &mut value)?;
        self.put(ty, &value, out)
    }
}

/// Whether the row says nothing but that it is deleted.
fn is_tombstone(row: RowRef<'_>) -> bool {
    let head = row.head();
    !head.deletion.is_none() && head.marker.is_none() && row.cells().next().is_none()
}

/// Whether there is a value in the cell, as far as the cell itself says.
fn has_value(cell: &Cell<'_>) -> bool {
    match cell.life {
        Life::Live => !cell.whole,
        // Compaction drops the value of one that is spent.
        Life::Expiring(expiry) => expiry.ttl_s != 0,
        Life::Dead { .. } => false,
    }
}

/// The term as it is kept of a value whose component was put, or could not be.
fn kept(put: Result<()>, term: &mut Vec<u8>) -> Result<&[u8]> {
    match put {
        Err(Error::Invalid(_)) => return Ok(UNKNOWN),
        put => put?,
    }
    term.truncate(TERM_BYTES_MAX);
    Ok(term)
}

/// Whether values of the type may have no component, since it would be too long.
fn may_be_too_long(ty: &CqlType) -> bool {
    let is_long = matches!(ty, CqlType::Varint | CqlType::Decimal);
    // Values that lack fields, and vectors in vectors, may have too long a form.
    let may_grow = matches!(ty, CqlType::Tuple(_) | CqlType::Vector { .. } | CqlType::Custom(_))
        || matches!(ty, CqlType::Udt { definition, .. } if !definition.ended);
    is_long || may_grow || ty.parts().into_iter().any(may_be_too_long)
}

/// The first bytes behind a term.
fn behind(mut term: Vec<u8>) -> Vec<u8> {
    term.push(0);
    term
}

/// What is kept for exactly this term.
fn one(term: Vec<u8>) -> Slice {
    below(term.clone(), behind(term))
}

/// What is kept for the terms in `start..end`.
fn below(mut start: Vec<u8>, mut end: Vec<u8>) -> Slice {
    start.truncate(TERM_BYTES_MAX);
    if end.len() > TERM_BYTES_MAX {
        end.truncate(TERM_BYTES_MAX);
        end.push(0);
    }
    Slice { start, end }
}

/// The slices in order, those that touch as one.
fn joined(mut slices: Vec<Slice>) -> Vec<Slice> {
    slices.sort_by(|a, b| a.start.cmp(&b.start));
    let mut out: Vec<Slice> = Vec::new();
    for slice in slices {
        match out.last_mut() {
            Some(last) if slice.start <= last.end => {
                if slice.end > last.end {
                    last.end = slice.end;
                }
            }
            _ => out.push(slice),
        }
    }
    out
}
