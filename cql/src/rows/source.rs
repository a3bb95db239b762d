//! What terms read of a row, found in the row's view.
//!
//! 1. A plain column, and a column of a key, is lent from where it lies: no bytes are copied.
//! 2. Everything else is made: collections that are stored by element, timestamps, seconds to live, tokens.
//! 3. What has no cell is null. `ttl` is null for a cell that does not expire.
//!
//! Elements have paths: an element of a set or map by the order-preserving form of its key, a field of a user type by
//! its index as two bytes. So a slice of a map compares bytes.
//!
//! Not here: the kinds of source, and which columns are wanted (`expr/row.rs`), the search for cells in a row
//! (`view.rs`).

use std::borrow::Cow;

use model::CqlType;
use model::cell::Life;
use model::row::{Cell, collected};

use super::view::RowView;
use crate::bind::StatementTime;
use crate::error::Result;
use crate::expr::{Env, Evaluated, ExpressionWork, Source, StampKind, Term, element_path};
use crate::frame::writer;

/// What a stamp of an element takes that is made, in units of work; its cell is counted apart.
const STAMP_UNITS: u64 = 8;

impl Env for RowView<'_> {
    #[inline]
    fn time(&self) -> &StatementTime<'_> {
        self.parts.time
    }

    #[inline]
    fn work(&self) -> &ExpressionWork {
        self.parts.work
    }

    #[inline]
    fn once(&self, slot: usize) -> Option<&[u8]> {
        self.parts.once[slot].as_deref()
    }

    #[inline]
    fn column<'e>(&'e self, source: &'e Source) -> Result<Evaluated<'e>> {
        Ok(match source {
            Source::Regular(slot) => {
                Evaluated::lent_or_null(self.cell(*slot).map(|cell| cell.value))
            }
            Source::Clustering(index) => Evaluated::lent_or_null(self.clustering_value(*index)),
            Source::PartitionKey(index) => Evaluated::lent(self.partition_value(*index)?),
            Source::Static(slot) => {
                Evaluated::lent_or_null(self.static_cell(*slot).map(|cell| cell.value))
            }
            _ => return self.column_made(source),
        })
    }

    fn elements_between<'e>(
        &'e self,
        source: &'e Source,
        first: Option<&[u8]>,
        last: Option<&[u8]>,
    ) -> Result<Evaluated<'e>> {
        let Source::Elements(column, place, ty) = source else {
            unreachable!("no other column has elements")
        };
        let cells = self.elements(*column, *place, (first, last));
        let collection = collected(ty, cells)?;
        self.parts.work.take_collected(collection.as_ref().map_or(0, Vec::len))?;
        Ok(Evaluated::made_or_null(collection))
    }

    fn element_at<'e>(&'e self, source: &'e Source, path: &[u8]) -> Result<Evaluated<'e>> {
        let Source::Elements(column, place, _) = source else {
            unreachable!("no other column has elements")
        };
        let cell = self.elements(*column, *place, (Some(path), Some(path))).next();
        // The cells that were walked are noted: too many of them are refused here.
        self.parts.work.take(0)?;
        Ok(Evaluated::lent_or_null(cell.map(|cell| cell.value)))
    }
}

impl RowView<'_> {
    /// What is put together from several cells, or from what a cell has besides its value.
    fn column_made<'e>(&'e self, source: &'e Source) -> Result<Evaluated<'e>> {
        let stamped = |kind: StampKind, cell: Option<Cell<'_>>| {
            cell.and_then(|cell| stamp(kind, &cell, self.parts.time))
                .map_or(Evaluated::Null, Evaluated::Bytes)
        };
        Ok(match source {
            Source::Elements(..) => self.elements_between(source, None, None)?,
            Source::Stamp(kind, column, place) => {
                stamped(*kind, self.elements(*column, *place, (None, None)).next())
            }
            Source::Stamps(kind, column, place) => {
                let cells = self.elements(*column, *place, (None, None));
                self.stamps(*kind, cells)?
            }
            Source::StampOfPart(kind, column, place, part) => match part.eval(self)? {
                Evaluated::Bytes(_) => {
                    stamped(*kind, self.elements(*column, *place, (None, None)).next())
                }
                _ => Evaluated::Null,
            },
            Source::StampsOfSlice(kind, column, place, slice) => {
                let [first, last] = slice.paths(self)?;
                let ends = (first.as_deref(), last.as_deref());
                self.stamps(*kind, self.elements(*column, *place, ends))?
            }
            Source::StampOfField(kind, column, place, index) => {
                let path = index.to_be_bytes();
                let only = Some(&path[..]);
                stamped(*kind, self.elements(*column, *place, (only, only)).next())
            }
            Source::StampOfKey(kind, column, place, ty, key) => {
                let Some(path) = self.path_of(ty, key)? else { return Ok(Evaluated::Null) };
                let only = Some(&path[..]);
                stamped(*kind, self.elements(*column, *place, (only, only)).next())
            }
            Source::Token => Evaluated::made(self.token().to_be_bytes().to_vec()),
            Source::Regular(_)
            | Source::Clustering(_)
            | Source::PartitionKey(_)
            | Source::Static(_) => unreachable!("read without being made"),
        })
    }

    /// When each of the cells was written, or for how many seconds it lives.
    fn stamps<'r>(
        &self,
        kind: StampKind,
        cells: impl Iterator<Item = Cell<'r>>,
    ) -> Result<Evaluated<'_>> {
        let mut count = 0;
        let stamps = stamps(kind, cells.inspect(|_| count += 1), self.parts.time);
        self.parts.work.take(count * STAMP_UNITS)?;
        Ok(Evaluated::made_or_null(stamps))
    }

    /// The path that the element of a set or map with this key has; `None` for a null key, and for one that no element
    /// can have.
    fn path_of(&self, ty: &CqlType, key: &Term) -> Result<Option<Vec<u8>>> {
        let key = key.eval(self)?;
        let Some(key) = key.bytes() else { return Ok(None) };
        element_path(ty, key, self.parts.work)
    }
}

/// When a cell was written, or for how many seconds it lives.
fn stamp(kind: StampKind, cell: &Cell<'_>, time: &StatementTime<'_>) -> Option<Cow<'static, [u8]>> {
    match (kind, cell.life) {
        (StampKind::Ttl, Life::Expiring(expiry)) => {
            let left = expiry.at_s.saturating_sub(time.now_s);
            Some((left as i32).to_be_bytes().to_vec().into())
        }
        (StampKind::Ttl, _) => None,
        _ => Some(cell.timestamp.to_be_bytes().to_vec().into()),
    }
}

/// When each of the cells was written, or for how many seconds it lives, as a list; of [`StampKind::MaxWriteTime`] the
/// latest timestamp of all. `None` if there are no cells.
fn stamps<'r>(
    kind: StampKind,
    cells: impl Iterator<Item = Cell<'r>>,
    time: &StatementTime<'_>,
) -> Option<Vec<u8>> {
    if kind == StampKind::MaxWriteTime {
        return cells.map(|cell| cell.timestamp).max().map(|t| t.to_be_bytes().to_vec());
    }
    let mut out = vec![0; 4];
    let mut count = 0i32;
    for cell in cells {
        count += 1;
        writer::bytes(&mut out, stamp(kind, &cell, time).as_deref());
    }
    out[..4].copy_from_slice(&count.to_be_bytes());
    (count > 0).then_some(out)
}
