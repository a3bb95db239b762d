//! Selectors: what a result column is made of, and how it is read from a row.

use super::view::{InStatic, RowView, Wanted};
use crate::bind::{Bindings, Moment};
use crate::error::{Error, Result};
use crate::functions::Signature;
use crate::term::{Term, put_list};
use model::CqlType;
use model::cell::Life;
use model::ordered::{self, Reader};
use model::row::Cell;
use model::schema::ColumnId;
use model::types::{collection_elements, tuple_fields};
use std::borrow::Cow;

/// What of a cell is selected besides its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampKind {
    /// `writetime(c)`.
    WriteTime,
    /// `maxwritetime(c)`.
    MaxWriteTime,
    /// `ttl(c)`.
    Ttl,
}

/// Which element of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Path {
    /// The field of this index.
    Field(u16),
    /// The element of a collection of this type with the key that is this constant.
    Key(CqlType, usize),
}

impl Path {
    /// The path as cells have it; `None` for a null key.
    fn encode(&self, row: &RowView<'_>) -> Result<Option<Vec<u8>>> {
        Ok(match self {
            Path::Field(index) => Some(index.to_be_bytes().to_vec()),
            Path::Key(CqlType::Set { element: of, .. } | CqlType::Map { key: of, .. }, key) => {
                let Some(key) = row.constant(*key) else { return Ok(None) };
                let mut path = Vec::new();
                ordered::encode(of, key, &mut path)?;
                Some(path)
            }
            Path::Key(..) => None,
        })
    }
}

/// What a result column is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum Selector {
    /// A column of the partition key.
    PartitionKey(usize),
    /// A clustering column.
    Clustering(usize),
    /// The regular column of this slot.
    Regular(usize),
    /// The static column of this slot.
    Static(usize),
    /// A column stored by element.
    Elements(ColumnId, InStatic, CqlType),
    /// When a column was written or expires.
    Stamp(StampKind, ColumnId, InStatic),
    /// The same, of each element of a collection.
    Stamps(StampKind, ColumnId, InStatic),
    /// The same, of one element.
    StampAt(StampKind, ColumnId, InStatic, Path),
    /// The token of the partition.
    Token,
    /// A term that is the same for all rows.
    Constant(usize),
    /// A call.
    Call(Box<Signature>, Vec<Selector>),
    /// A field of a user-defined type or tuple.
    Field(Box<Selector>, usize),
    /// `m[key]`, `s[key]`: the type of the collection, and the key.
    Element(Box<Selector>, CqlType, usize),
    /// A list of values.
    List(Vec<Selector>),
    /// A tuple of values.
    Tuple(Vec<Selector>),
    /// A value of the first row of a group.
    First(usize),
    /// The result of an aggregate.
    Aggregate(usize),
}

/// Everything a `SELECT` selects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// One for each result column.
    pub outputs: Vec<Selector>,
    /// Terms evaluated once.
    pub terms: Vec<Term>,
    /// What of each row is looked at.
    pub wanted: Wanted,
    /// The aggregates, each with what it takes of a row.
    pub aggregates: Vec<(Signature, Vec<Selector>)>,
    /// What is kept of the first row of each group.
    pub firsts: Vec<Selector>,
}

impl Selection {
    /// Whether rows are brought together.
    pub fn is_aggregate(&self) -> bool {
        !self.aggregates.is_empty() || !self.firsts.is_empty()
    }

    /// Whether there are aggregate functions.
    pub fn has_functions(&self) -> bool {
        !self.aggregates.is_empty()
    }

    /// The values of the terms.
    pub(super) fn constants(&self, bindings: &Bindings<'_>) -> Result<Vec<Option<Vec<u8>>>> {
        self.terms.iter().map(|term| Ok(term.eval(bindings)?.bytes().map(<[u8]>::to_vec))).collect()
    }
}

/// What selectors read from when a group ends.
pub(super) struct Group<'g> {
    pub(super) firsts: &'g [Option<Vec<u8>>],
    pub(super) aggregates: &'g [Option<Vec<u8>>],
}

/// What a selector reads from.
pub(super) enum Source<'s, 'r> {
    Row(&'s RowView<'r>),
    Group(&'s Group<'s>),
}

impl Selector {
    /// Appends the value as `[bytes]`.
    #[inline]
    pub(super) fn put(
        &self,
        source: &Source<'_, '_>,
        moment: &Moment<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match self.eval(source, moment)? {
            Some(value) => {
                out.extend_from_slice(&(value.len() as i32).to_be_bytes());
                out.extend_from_slice(&value);
            }
            None => out.extend_from_slice(&(-1i32).to_be_bytes()),
        }
        Ok(())
    }

    /// Its value.
    pub(super) fn eval<'s>(
        &'s self,
        source: &Source<'s, '_>,
        moment: &Moment<'_>,
    ) -> Result<Option<Cow<'s, [u8]>>> {
        let row = match source {
            Source::Row(row) => *row,
            Source::Group(group) => return self.eval_group(group, source, moment),
        };
        Ok(match self {
            Selector::PartitionKey(index) => Some(row.partition_value(*index)?.into()),
            Selector::Clustering(index) => row.clustering_value(*index).map(Cow::Borrowed),
            Selector::Regular(slot) => row.cell(*slot).map(|cell| cell.value.into()),
            Selector::Static(slot) => row.static_cell(*slot).map(|cell| cell.value.into()),
            Selector::Elements(column, place, ty) => {
                collect(ty, row.elements(*column, *place))?.map(Cow::Owned)
            }
            Selector::Stamp(kind, column, place) => {
                row.elements(*column, *place).next().and_then(|cell| stamp(*kind, &cell, moment))
            }
            Selector::Stamps(kind, column, place) => {
                stamps(*kind, row.elements(*column, *place), moment).map(Cow::Owned)
            }
            Selector::StampAt(kind, column, place, path) => {
                let path = path.encode(row)?;
                let mut cells = row.elements(*column, *place);
                cells
                    .find(|cell| path.is_some() && cell.path == path.as_deref())
                    .and_then(|cell| stamp(*kind, &cell, moment))
            }
            Selector::Token => Some(row.token().to_be_bytes().to_vec().into()),
            Selector::Constant(index) => row.constant(*index).map(Cow::Borrowed),
            _ => return self.eval_made(source, moment),
        })
    }

    fn eval_group<'s>(
        &'s self,
        group: &'s Group<'s>,
        source: &Source<'s, '_>,
        moment: &Moment<'_>,
    ) -> Result<Option<Cow<'s, [u8]>>> {
        match self {
            Selector::First(index) => Ok(group.firsts[*index].as_deref().map(Cow::Borrowed)),
            Selector::Aggregate(index) => {
                Ok(group.aggregates[*index].as_deref().map(Cow::Borrowed))
            }
            _ => self.eval_made(source, moment),
        }
    }

    /// Values that are made of others.
    fn eval_made<'s>(
        &'s self,
        source: &Source<'s, '_>,
        moment: &Moment<'_>,
    ) -> Result<Option<Cow<'s, [u8]>>> {
        let values = |selectors: &'s [Selector]| {
            selectors.iter().map(|s| s.eval(source, moment)).collect::<Result<Vec<_>>>()
        };
        Ok(match self {
            Selector::Call(signature, arguments) => {
                let arguments = values(arguments)?;
                let arguments: Vec<Option<&[u8]>> =
                    arguments.iter().map(Option::as_deref).collect();
                signature.call(&arguments, moment)?.map(Cow::Owned)
            }
            Selector::Field(inner, index) => match inner.eval(source, moment)? {
                Some(value) => {
                    let field = tuple_fields(&value).nth(*index).transpose()?.flatten();
                    field.map(|field| Cow::Owned(field.to_vec()))
                }
                None => None,
            },
            Selector::Element(inner, ty, key) => {
                let Source::Row(row) = source else { return Err(misplaced()) };
                match (inner.eval(source, moment)?, row.constant(*key)) {
                    (Some(value), Some(key)) => element(ty, &value, key)?.map(Cow::Owned),
                    _ => None,
                }
            }
            Selector::List(items) => {
                let items = values(items)?;
                let mut out = Vec::new();
                put_list(items.iter().map(|item| item.as_deref().unwrap_or_default()), &mut out);
                Some(out.into())
            }
            Selector::Tuple(items) => {
                let mut out = Vec::new();
                for item in items {
                    item.put(source, moment, &mut out)?;
                }
                Some(out.into())
            }
            _ => return Err(misplaced()),
        })
    }
}

/// A selector that was compiled for a row and is asked of a group, or the other way round.
#[cold]
fn misplaced() -> Error {
    Error::invalid("this selection is not supported with aggregates")
}

/// The elements of a column as one value; `None` if there are none.
fn collect<'r>(ty: &CqlType, cells: impl Iterator<Item = Cell<'r>>) -> Result<Option<Vec<u8>>> {
    let mut out = vec![0; 4];
    let mut count = 0i32;
    if let CqlType::Udt { definition, .. } = ty {
        let cells: Vec<Cell<'r>> = cells.collect();
        if cells.is_empty() {
            return Ok(None);
        }
        out.clear();
        for index in 0..definition.fields.len() {
            let path = (index as u16).to_be_bytes();
            let field = cells.iter().find(|cell| cell.path == Some(&path[..]));
            match field {
                Some(cell) => put_item(&mut out, |out| {
                    out.extend_from_slice(cell.value);
                    Ok(())
                })?,
                None => out.extend_from_slice(&(-1i32).to_be_bytes()),
            }
        }
        return Ok(Some(out));
    }
    for cell in cells {
        count += 1;
        let path = cell.path.unwrap_or_default();
        let (key, has_value) = match ty {
            CqlType::Set { element, .. } => (Some(element), false),
            CqlType::Map { key, .. } => (Some(key), true),
            _ => (None, true),
        };
        if let Some(key) = key {
            put_item(&mut out, |out| Ok(ordered::decode(key, &mut Reader::new(path), out)?))?;
        }
        if has_value {
            put_item(&mut out, |out| {
                out.extend_from_slice(cell.value);
                Ok(())
            })?;
        }
    }
    out[..4].copy_from_slice(&count.to_be_bytes());
    Ok((count > 0).then_some(out))
}

/// Appends a length and what `put` appends.
fn put_item(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    put(out)?;
    let bytes = (out.len() - start - 4) as i32;
    out[start..start + 4].copy_from_slice(&bytes.to_be_bytes());
    Ok(())
}

/// When a cell was written, or for how many seconds it lives.
fn stamp(kind: StampKind, cell: &Cell<'_>, moment: &Moment<'_>) -> Option<Cow<'static, [u8]>> {
    match (kind, cell.life) {
        (StampKind::Ttl, Life::Expiring(expiry)) => {
            let left = expiry.at_s.saturating_sub(moment.now_s);
            Some((left as i32).to_be_bytes().to_vec().into())
        }
        (StampKind::Ttl, _) => None,
        _ => Some(cell.timestamp.to_be_bytes().to_vec().into()),
    }
}

/// The same of every element: a list, or the latest of all.
fn stamps<'r>(
    kind: StampKind,
    cells: impl Iterator<Item = Cell<'r>>,
    moment: &Moment<'_>,
) -> Option<Vec<u8>> {
    if kind == StampKind::MaxWriteTime {
        return cells.map(|cell| cell.timestamp).max().map(|t| t.to_be_bytes().to_vec());
    }
    let mut out = vec![0; 4];
    let mut count = 0i32;
    for cell in cells {
        count += 1;
        match stamp(kind, &cell, moment) {
            Some(value) => {
                out.extend_from_slice(&(value.len() as i32).to_be_bytes());
                out.extend_from_slice(&value);
            }
            None => out.extend_from_slice(&(-1i32).to_be_bytes()),
        }
    }
    out[..4].copy_from_slice(&count.to_be_bytes());
    (count > 0).then_some(out)
}

/// The element of a set or map with this key.
fn element(ty: &CqlType, value: &[u8], wanted: &[u8]) -> Result<Option<Vec<u8>>> {
    match ty {
        CqlType::Map { key, .. } => {
            let mut items = collection_elements(value)?.doubled();
            while let Some(item) = items.next() {
                let is_it = key.compare(item?, wanted).is_eq();
                let value = items.next().transpose()?;
                if is_it {
                    return Ok(value.map(<[u8]>::to_vec));
                }
            }
            Ok(None)
        }
        CqlType::Set { element, .. } => {
            for item in collection_elements(value)? {
                if element.compare(item?, wanted).is_eq() {
                    return Ok(Some(wanted.to_vec()));
                }
            }
            Ok(None)
        }
        _ => Err(misplaced()),
    }
}
