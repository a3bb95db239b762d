//! The cells a write makes: compiled in the order of storage, evaluated straight into the row.
//!
//! A plain column is one cell. A collection or user-defined type that is not frozen is a cell for
//! each element, at a path:
//!
//! ```text
//! set     path = the element, ordered          no value
//! map     path = the key, ordered              the value
//! list    path = time:u64be index:u32be tail   the element; times before 2010 stand for prepends
//! udt     path = index of the field:u16be      the field
//! ```
//!
//! Giving such a column a whole value first deletes what was there, one microsecond before.

use model::CqlType;
use model::cell::{Expiry, Life};
use model::limits::CELL_BYTES_MAX;
use model::ordered::{self, Reader};
use model::row::{Cell, RowBuilder};
use model::schema::ColumnId;
use model::types::{collection_elements, tuple_fields};

use super::counters::CounterOp;
use super::list_changes::ListOpPlan;
use super::record::check_bytes;
use crate::bind::{Bindings, StatementTime, UUID_EPOCH_TICKS};
use crate::error::{Error, Result};
use crate::expr::{Evaluated, ExpressionWork, OrderWork, Term};

/// One step of a write to one column.
#[derive(Clone, Debug, PartialEq)]
pub enum CellOp {
    /// `c = v`; null deletes.
    Set(Term),
    /// `DELETE c`: the column's cell or collection goes.
    Delete,
    /// `c = c + v`: elements are added.
    Add(Term),
    /// `c = v + c`: elements are added in front of a list.
    Prepend(Term),
    /// `c = c - v`: elements of a set, or keys of a map, are removed. The value is a set.
    Remove(Term),
    /// `m[k] = v`; null deletes.
    Put(Term, Term),
    /// `DELETE m[k]`: one element goes.
    RemoveKey(Term),
    /// `u.field = v`; null deletes.
    SetField(u16, Term),
    /// A list is changed by index or by value, or a number or text is added to under an `IF`: what is there is read
    /// first. A plan keeps these apart from its cells.
    List(ListOpPlan),
    /// A counter is changed. A plan keeps these apart from its cells.
    Count(CounterOp),
}

/// All that happens to one column.
#[derive(Clone, Debug, PartialEq)]
pub struct CellWrite {
    /// Id of the column that is written.
    pub column: ColumnId,
    /// The column's name, for errors.
    pub name: String,
    /// Type of the column.
    pub ty: CqlType,
    /// What happens, in the order written. A whole value stands alone.
    pub ops: Vec<CellOp>,
}

/// When a write happens and how long it lives.
pub(super) struct Stamp<'a> {
    pub(super) timestamp: i64,
    /// When rows and stretches of rows are deleted.
    pub(super) deletes_at: i64,
    pub(super) now_s: u32,
    pub(super) expiry: Option<Expiry>,
    /// The time of the statement: where the positions of elements of lists come from.
    pub(super) time: StatementTime<'a>,
}

/// Whether any cell has a value or a tombstone: unset markers write nothing. Keys of maps are judged when their cells
/// are put, so they count.
pub(super) fn writes_anything(cells: &[CellWrite], bindings: &Bindings<'_>) -> bool {
    cells.iter().flat_map(|cell| &cell.ops).any(|op| match op {
        CellOp::Delete | CellOp::RemoveKey(_) => true,
        CellOp::Set(term)
        | CellOp::Add(term)
        | CellOp::Prepend(term)
        | CellOp::Remove(term)
        | CellOp::SetField(_, term) => !term.is_unset(bindings),
        CellOp::Put(key, term) => {
            !term.is_unset(bindings) || !matches!(key.eval(bindings), Ok(Evaluated::Bytes(_)))
        }
        CellOp::List(_) | CellOp::Count(_) => true,
    })
}

/// Appends the cells to a row. What they add to a list is added as often as `passes` says.
pub(super) fn put_cells(
    (cells, passes): (&[CellWrite], usize),
    stamp: &Stamp<'_>,
    bindings: &Bindings<'_>,
    row: &mut RowBuilder<'_>,
) -> Result<()> {
    bindings.work.take_changes(cells.len())?;
    let mut bytes = 0;
    for cell in cells {
        match &cell.ops[..] {
            [CellOp::Set(term)] if !cell.ty.is_multi_cell() => match term.eval(bindings)? {
                Evaluated::Unset => {}
                Evaluated::Null => row.cell(&Cell::dead(cell.column, stamp.timestamp, stamp.now_s)),
                Evaluated::Bytes(value) => {
                    bytes += value.len();
                    check_bytes(bytes)?;
                    row.cell(&stamp.cell(cell.column, None, &value));
                }
            },
            [CellOp::Delete] if !cell.ty.is_multi_cell() => {
                row.cell(&Cell::dead(cell.column, stamp.timestamp, stamp.now_s));
            }
            ops => {
                bytes += put_elements(cell, (ops, passes), stamp, bindings, row)?;
                check_bytes(bytes)?;
            }
        }
    }
    Ok(())
}

impl Stamp<'_> {
    fn cell<'c>(&self, column: ColumnId, path: Option<&'c [u8]>, value: &'c [u8]) -> Cell<'c> {
        let life = self.expiry.map_or(Life::Live, Life::Expiring);
        Cell { life, path, ..Cell::live(column, self.timestamp, value) }
    }

    fn dead<'c>(&self, column: ColumnId, path: Option<&'c [u8]>) -> Cell<'c> {
        let life = Life::Dead { local_s: self.now_s };
        let whole = path.is_none();
        Cell { life, path, whole, ..Cell::live(column, self.timestamp, &[]) }
    }
}

/// Elements to write, each at its path; `None` removes.
#[derive(Default)]
struct Elements {
    /// The timestamp up to which all older elements go.
    cleared: Option<i64>,
    items: Vec<(Path, Option<Vec<u8>>)>,
    /// The bytes of all paths and values.
    bytes: usize,
}

/// The path of an element: its key in the collection, in ordered bytes.
struct Path {
    bytes: Vec<u8>,
    /// The wire form of what the bytes stand for, if decoding them gives another one.
    written: Option<Vec<u8>>,
}

impl From<Vec<u8>> for Path {
    fn from(bytes: Vec<u8>) -> Path {
        Path { bytes, written: None }
    }
}

/// Appends what happens to the elements of a column; gives how many bytes they have.
fn put_elements(
    cell: &CellWrite,
    (ops, passes): (&[CellOp], usize),
    stamp: &Stamp<'_>,
    bindings: &Bindings<'_>,
    row: &mut RowBuilder<'_>,
) -> Result<usize> {
    // Elements of other collections are the same each time.
    let passes = if matches!(cell.ty, CqlType::List { .. }) { passes } else { 1 };
    let mut elements = Elements::default();
    bindings.work.take_changes(ops.len())?;
    for pass in 0..passes {
        if pass > 0 {
            bindings.work.take_again(ops.len())?;
        }
        for op in ops {
            let (items, bytes) = (elements.items.len(), elements.bytes);
            elements.collect(cell, op, stamp, bindings)?;
            check_bytes(elements.bytes)?;
            let (items, bytes) = (elements.items.len() - items, elements.bytes - bytes);
            bindings.work.take_elements(items)?;
            if pass > 0 {
                bindings.work.take_added_again(items, bytes)?;
            }
        }
    }
    if let Some(timestamp) = elements.cleared {
        row.cell(&Cell { timestamp, ..stamp.dead(cell.column, None) });
    }
    // Rows have their cells in order. Of several writes to one element, which have one timestamp,
    // a removal stays, else the largest value: as when they are reconciled later.
    elements
        .items
        .sort_by(|a, b| (&a.0.bytes, a.1.is_none(), &a.1).cmp(&(&b.0.bytes, b.1.is_none(), &b.1)));
    let items = &elements.items;
    for (index, (Path { bytes: path, written }, value)) in items.iter().enumerate() {
        if items.get(index + 1).is_some_and(|(next, _)| next.bytes == *path) {
            continue;
        }
        match value {
            Some(value) => {
                let written = written.as_deref();
                row.cell(&Cell { written, ..stamp.cell(cell.column, Some(path), value) });
            }
            None => row.cell(&stamp.dead(cell.column, Some(path))),
        }
    }
    Ok(elements.bytes)
}

impl Elements {
    fn push(&mut self, path: impl Into<Path>, value: Option<Vec<u8>>) {
        let path = path.into();
        self.bytes += path.bytes.len() + value.as_ref().map_or(0, Vec::len);
        self.items.push((path, value));
    }

    fn collect(
        &mut self,
        cell: &CellWrite,
        op: &CellOp,
        stamp: &Stamp<'_>,
        bindings: &Bindings<'_>,
    ) -> Result<()> {
        let (term, position) = match op {
            CellOp::Delete => {
                self.cleared = Some(stamp.timestamp);
                return Ok(());
            }
            CellOp::Set(term) | CellOp::Add(term) => (term, ListEnd::Back),
            CellOp::Prepend(term) => (term, ListEnd::Front),
            CellOp::Remove(term) => return self.remove(&cell.ty, term, bindings),
            CellOp::Put(key, term) => {
                let key = key.eval(bindings)?;
                let path = key_path(&cell.ty, &key, &bindings.work)?;
                return self.put(path, term, bindings);
            }
            CellOp::RemoveKey(key) => {
                let key = key.eval(bindings)?;
                if key != Evaluated::Unset || matches!(cell.ty, CqlType::Map { .. }) {
                    self.push(key_path(&cell.ty, &key, &bindings.work)?, None);
                }
                return Ok(());
            }
            CellOp::SetField(index, term) => {
                return self.put(index.to_be_bytes().to_vec().into(), term, bindings);
            }
            CellOp::List(_) | CellOp::Count(_) => unreachable!("changes are no cells yet"),
        };
        let value = term.eval(bindings)?;
        if matches!(op, CellOp::Set(_)) && value != Evaluated::Unset {
            self.cleared = Some(stamp.timestamp - 1);
        }
        match value {
            Evaluated::Bytes(value) => {
                self.add(&cell.ty, &value, (position, &stamp.time), &bindings.work)
            }
            Evaluated::Null | Evaluated::Unset => Ok(()),
        }
    }

    /// Writes one element.
    fn put(&mut self, path: Path, term: &Term, bindings: &Bindings<'_>) -> Result<()> {
        match term.eval(bindings)? {
            Evaluated::Bytes(value) => self.push(path, Some(value.into_owned())),
            Evaluated::Null => self.push(path, None),
            Evaluated::Unset => {}
        }
        Ok(())
    }

    /// Adds all elements of a value.
    fn add(
        &mut self,
        ty: &CqlType,
        value: &[u8],
        (end, time): (ListEnd, &StatementTime<'_>),
        work: &ExpressionWork,
    ) -> Result<()> {
        match ty {
            CqlType::Set { element, .. } => {
                let paths = Paths::new(element, work);
                for item in collection_elements(value)? {
                    self.push(paths.of(item?)?, Some(Vec::new()));
                }
            }
            CqlType::Map { key, .. } => {
                let paths = Paths::new(key, work);
                let mut items = collection_elements(value)?.doubled();
                while let Some(item) = items.next() {
                    let path = paths.of(item?)?;
                    let value = items.next().ok_or(model::Error::Malformed("map"))??;
                    self.push(path, Some(value.to_vec()));
                }
            }
            CqlType::List { .. } => {
                let uuid = time.list_position();
                for (index, item) in collection_elements(value)?.enumerate() {
                    self.push(list_path(&uuid, end, index as u32), Some(item?.to_vec()));
                }
            }
            CqlType::Udt { .. } => {
                for (index, field) in tuple_fields(value).enumerate() {
                    if let Some(field) = field? {
                        let path = (index as u16).to_be_bytes().to_vec();
                        self.push(path, Some(field.to_vec()));
                    }
                }
            }
            _ => unreachable!("only collections and user types have elements"),
        }
        Ok(())
    }

    /// Removes the elements of a set, or the keys of a map.
    fn remove(&mut self, ty: &CqlType, term: &Term, bindings: &Bindings<'_>) -> Result<()> {
        let value = term.eval(bindings)?;
        let Some(value) = value.bytes() else { return Ok(()) };
        let element = match ty {
            CqlType::Set { element, .. } => element,
            CqlType::Map { key, .. } => key,
            _ => unreachable!("prepare refuses it"),
        };
        let paths = Paths::new(element, &bindings.work);
        for item in collection_elements(value)? {
            self.push(paths.of(item?)?, None);
        }
        Ok(())
    }
}

/// The end of a list that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListEnd {
    /// `[v] + l`: before all elements.
    Front,
    /// `l + [v]`: behind all elements.
    Back,
}

/// 2010-01-01 in ticks of uuid time: no append is older, so a prepend is.
const PREPEND_EPOCH_TICKS: u64 = UUID_EPOCH_TICKS as u64 + 1_262_304_000 * 10_000_000;

/// Where an element of a list stands among the others.
pub(super) fn list_path(uuid: &[u8; 16], end: ListEnd, index: u32) -> Vec<u8> {
    let [a, b, c, d, e, f, g, h, ..] = *uuid;
    let ticks = u64::from_be_bytes([g & 0x0F, h, e, f, a, b, c, d]);
    let ticks = match end {
        ListEnd::Back => ticks,
        // The later a prepend, the earlier it stands.
        ListEnd::Front => {
            PREPEND_EPOCH_TICKS.saturating_sub(ticks.saturating_sub(PREPEND_EPOCH_TICKS))
        }
    };
    let mut path = Vec::with_capacity(20);
    path.extend_from_slice(&ticks.to_be_bytes());
    path.extend_from_slice(&index.to_be_bytes());
    path.extend_from_slice(&uuid[8..]);
    path
}

/// How the keys of one type become paths. What that takes is counted before.
struct Paths<'p> {
    ty: &'p CqlType,
    order_work: OrderWork,
    work: &'p ExpressionWork,
}

impl<'p> Paths<'p> {
    fn new(ty: &'p CqlType, work: &'p ExpressionWork) -> Paths<'p> {
        Paths { ty, order_work: OrderWork::of(ty), work }
    }

    /// The path of the element with this key.
    fn of(&self, key: &[u8]) -> Result<Path> {
        let missing_bytes = self.work.take_key_of(self.order_work, self.ty, key)?;
        if key.len().saturating_add(missing_bytes) > CELL_BYTES_MAX {
            return Err(Error::invalid(format!(
                "a key or an element has more than {CELL_BYTES_MAX} bytes with all the fields of its types"
            )));
        }
        let mut bytes = Vec::with_capacity(key.len() + 4);
        ordered::encode(self.ty, key, &mut bytes)?;
        if !self.order_work.has_decimals() {
            return Ok(bytes.into());
        }
        // A decimal comes back in another scale.
        let mut given = Vec::with_capacity(key.len());
        ordered::decode(self.ty, &mut Reader::new(&bytes), &mut given)?;
        Ok(Path { bytes, written: (given != key).then(|| key.to_vec()) })
    }
}

/// The path of the element with this key, a value that a term has.
fn key_path(ty: &CqlType, key: &Evaluated<'_>, work: &ExpressionWork) -> Result<Path> {
    let (of, what) = match ty {
        CqlType::Set { element, .. } => (element, "set element"),
        CqlType::Map { key, .. } => (key, "map key"),
        _ => unreachable!("prepare refuses it"),
    };
    match key {
        Evaluated::Bytes(key) => Paths::new(of, work).of(key),
        Evaluated::Null => Err(Error::invalid(format!("Invalid null {what}"))),
        Evaluated::Unset => Err(Error::invalid(format!("Invalid unset {what}"))),
    }
}
