//! The row of a view that a row of its base is shown as: its key, how long it lives, its cells.
//!
//! ```text
//! row of the base ─► values of the view's key ─┬─ one is null, or a restriction does not hold ─► no row
//!                                              └► key, life, cells of the view's columns
//! ```
//!
//! 1. Where the view's key has no column but those of the base's key, the row lives as long as the row of the base: as
//!    its marker or any of its cells, shown or not.
//! 2. Where it has a regular column of the base, or WHERE asks for one, nothing of the row outlives that column's cell:
//!    when it expires the base's column is null, and the row is not in the view any more.

use model::ColumnId;
use model::cell::Life;
use model::key::{self, partition_key_value, put_partition_key};
use model::row::{Cell, ClusteringReader, RowRef, Written};
use model::schema::{Column, ColumnKind, Table, ViewDefinition};

use crate::error::{Error, Result};

/// A row of a view.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ViewRow {
    pub(super) key: Vec<u8>,
    pub(super) clustering: Vec<u8>,
    /// The clustering values as they were written, where the key does not give them.
    pub(super) written: Vec<u8>,
    pub(super) life: Life,
    pub(super) cells: Vec<OwnCell>,
}

/// A live cell.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OwnCell {
    pub(super) column: ColumnId,
    pub(super) path: Option<Vec<u8>>,
    pub(super) life: Life,
    pub(super) written: Option<Vec<u8>>,
    pub(super) value: Vec<u8>,
}

impl ViewRow {
    /// What it takes in memory, about.
    pub(super) fn bytes(&self) -> usize {
        let of = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        let cells = self.cells.iter();
        let cells = cells.map(|cell| of(&cell.path) + of(&cell.written) + cell.value.len());
        self.key.len() + self.clustering.len() + cells.sum::<usize>()
    }
}

/// The row of `view` for a row of its base, and the partition key that this has; `None` if it is not in the view.
/// `Invalid`: a value is too long for a key.
pub(super) fn view_row(
    view: &Table,
    (base, base_key): (&Table, &[u8]),
    clustering: &[u8],
    row: Option<RowRef<'_>>,
) -> Result<Option<ViewRow>> {
    let Some(row) = row else { return Ok(None) };
    let definition = view.view().expect("it is a view");
    let mut values = Values::of(base, base_key, clustering, row)?;
    let Some((keys, key_life)) = values.of_key(view, definition)? else { return Ok(None) };
    let (partition, clustered) = keys.split_at(view.partition_key().len());
    let mut key = Vec::new();
    match partition {
        // A key of a table is not empty, one of a view may be.
        [value] if value.is_empty() => {}
        _ => put_partition_key(partition.iter().map(Vec::as_slice), &mut key).map_err(refused)?,
    }
    let (mut at, mut written) = (Vec::new(), Vec::new());
    let in_order = clustered.iter().map(Vec::as_slice);
    key::put_clustering(view, in_order.clone(), &mut at).map_err(refused)?;
    for (column, value) in view.clustering().iter().zip(in_order) {
        Written::put(column, value, &mut written);
    }
    let row_life = || {
        let cells = row.cells().map(|cell| cell.life);
        cells.chain(row.head().marker).fold(None, |longest, life| Some(longer(longest, life)))
    };
    let life = key_life.or_else(row_life).ok_or_else(|| Error::invalid("a row without life"))?;
    let shown = |cell: &Cell<'_>| {
        let column = view.column_by_id(cell.column);
        column.is_some_and(|column| column.kind == ColumnKind::Regular)
    };
    let cells = row.cells().filter(shown).map(|cell| OwnCell {
        column: cell.column,
        path: cell.path.map(<[u8]>::to_vec),
        life: if key_life.is_some() { shorter(cell.life, life) } else { cell.life },
        written: cell.written.map(<[u8]>::to_vec),
        value: cell.value.to_vec(),
    });
    Ok(Some(ViewRow { key, clustering: at, written, life, cells: cells.collect() }))
}

#[cold]
fn refused(error: model::Error) -> Error {
    Error::invalid(format!("the key of a materialized view: {error}; its size is bounded"))
}

/// The values of a view's key, and how long they live, where a regular column is among them or asked for.
type KeyValues = (Vec<Vec<u8>>, Option<Life>);

/// The values of a row of the base.
struct Values<'r> {
    base: &'r Table,
    key: &'r [u8],
    /// Of the clustering columns, as they were written.
    clustering: Vec<Vec<u8>>,
    row: RowRef<'r>,
}

impl<'r> Values<'r> {
    fn of(base: &'r Table, key: &'r [u8], clustering: &[u8], row: RowRef<'r>) -> Result<Self> {
        let mut reader = ClusteringReader::new(clustering, row.written());
        let mut values = Vec::with_capacity(base.clustering().len());
        for column in base.clustering() {
            let mut value = Vec::new();
            reader.next(column, &mut value).map_err(damaged)?;
            values.push(value);
        }
        Ok(Values { base, key, clustering: values, row })
    }

    /// The values of a view's key and how long they live, where a regular column is among them; `None` if one is null
    /// or a restriction does not hold.
    fn of_key(&mut self, view: &Table, definition: &ViewDefinition) -> Result<Option<KeyValues>> {
        let (mut values, mut life) = (Vec::new(), None);
        for column in view.partition_key().iter().chain(view.clustering()) {
            let Some((value, lives)) = self.value(column.id)? else { return Ok(None) };
            if let Some(lives) = lives {
                life = Some(life.map_or(lives, |life| shorter(life, lives)));
            }
            let restrictions = definition.restrictions.iter();
            let mut of_column = restrictions.filter(|one| one.column == column.id);
            if !of_column.all(|restriction| restriction.accepts(&column.ty, &value)) {
                return Ok(None);
            }
            values.push(value);
        }
        // Of a column that is not in the key WHERE asks whether it is null.
        let is_key = |id| view.column_by_id(id).is_some_and(|c| c.kind <= ColumnKind::Clustering);
        for restriction in definition.restrictions.iter().filter(|one| !is_key(one.column)) {
            let Some((_, Some(lives))) = self.value(restriction.column)? else { return Ok(None) };
            life = Some(life.map_or(lives, |life| shorter(life, lives)));
        }
        Ok(Some((values, life)))
    }

    /// The value of a column and, of a regular one, how long it lives.
    fn value(&self, id: ColumnId) -> Result<Option<(Vec<u8>, Option<Life>)>> {
        let Some(column) = self.base.column_by_id(id) else { return Ok(None) };
        let position = usize::from(column.position);
        Ok(match column.kind {
            ColumnKind::PartitionKey => {
                let columns = self.base.partition_key().len();
                let value = partition_key_value(self.key, columns, position).map_err(damaged)?;
                Some((value.to_vec(), None))
            }
            ColumnKind::Clustering => Some((self.clustering[position].clone(), None)),
            ColumnKind::Static => None,
            ColumnKind::Regular => self.cell(column),
        })
    }

    fn cell(&self, column: &Column) -> Option<(Vec<u8>, Option<Life>)> {
        // Of a collection the element that lives longest.
        let cells = self.row.cells().filter(|cell| cell.column == column.id);
        let cell = cells.reduce(|a, b| if ends(a.life) >= ends(b.life) { a } else { b })?;
        Some((cell.value.to_vec(), Some(cell.life)))
    }
}

#[cold]
fn damaged(error: model::Error) -> Error {
    Error::of_stored("a row of a base", &error)
}

/// When a live cell dies: never, or in a second.
fn ends(life: Life) -> u32 {
    match life {
        Life::Live => u32::MAX,
        Life::Expiring(expiry) => expiry.at_s,
        Life::Dead { .. } => 0,
    }
}

fn shorter(a: Life, b: Life) -> Life {
    if ends(b) < ends(a) { b } else { a }
}

fn longer(a: Option<Life>, b: Life) -> Life {
    a.filter(|a| ends(*a) >= ends(b)).unwrap_or(b)
}

/// The clustering values of a row as they were written, with the time that makes the newest the one that counts: of
/// two forms the row keeps the one with the smaller time.
pub(super) fn written(values: &[u8], timestamp_us: i64) -> Option<Written<'_>> {
    (!values.is_empty()).then_some(Written { at: -timestamp_us, values })
}
