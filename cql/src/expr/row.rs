//! What a `SELECT` reads of a row, and the slots its cells are found in.
//!
//! ```text
//! compile      the columns that are named ─► Wanted: ids, ascending       v ─► 2, w ─► 5
//!              a column in a term ─► Source: the slot of its id           w ─► Regular(1)
//! each row     one walk over the cells fills the slots ─► a term takes the cell of its slot
//! ```
//!
//! 1. The columns of a key are not cells: they are read by their position.
//! 2. A column that is stored by element has no single cell. Its sources name the column, and the elements are looked
//!    for in a second walk.
//! 3. `writetime`, `maxwritetime` and `ttl` read what a cell has beside its value, so they are sources and not
//!    functions.
//!
//! Invariant: ids in [`Wanted`] ascend, since cells of a row do, and one walk must find all.
//!
//! Not here: the walk (`rows/view.rs`), what a source gives (`rows/source.rs`), which columns a statement names
//! (`compile.rs`).

use model::CqlType;
use model::schema::{Column, ColumnId, ColumnKind};

use super::{KeySlice, Term};

/// What of a cell is selected besides its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampKind {
    /// `writetime(c)`: the timestamp of the cell, in µs.
    WriteTime,
    /// `maxwritetime(c)`: the largest timestamp of the cells, in µs.
    MaxWriteTime,
    /// `ttl(c)`: what is left of the time to live, in seconds.
    Ttl,
}

impl StampKind {
    /// The kind that a function name of the grammar means.
    pub(crate) fn named(name: &str) -> Option<StampKind> {
        Some(match name {
            "writetime" => StampKind::WriteTime,
            "maxwritetime" => StampKind::MaxWriteTime,
            "ttl" => StampKind::Ttl,
            _ => return None,
        })
    }
}

/// Whether a column is in the static row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InStatic {
    /// The column is static.
    Yes,
    /// The column is in each row.
    No,
}

impl InStatic {
    /// Whether this column is in the static row.
    pub(super) fn of(column: &Column) -> InStatic {
        if column.kind == ColumnKind::Static { InStatic::Yes } else { InStatic::No }
    }
}

/// What is read of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The regular column of this slot.
    Regular(usize),
    /// A clustering column by its position.
    Clustering(usize),
    /// A column of the partition key by its position.
    PartitionKey(usize),
    /// The static column of this slot.
    Static(usize),
    /// A column of this type stored by element, put together.
    Elements(ColumnId, InStatic, CqlType),
    /// The timestamp of a column, or the seconds that it has left.
    Stamp(StampKind, ColumnId, InStatic),
    /// The timestamps, or seconds left, of all elements of a column stored by element, as a list; of `maxwritetime` the
    /// latest of them.
    Stamps(StampKind, ColumnId, InStatic),
    /// The timestamp, or seconds left, of the field of this index, of a user type stored by field.
    StampOfField(StampKind, ColumnId, InStatic, u16),
    /// The timestamp, or seconds left, of a column stored as one cell, of which this part is selected; null if the part
    /// is.
    StampOfPart(StampKind, ColumnId, InStatic, Box<Term>),
    /// The timestamps, or seconds left, of those elements of a column stored by element that a slice of it has, as a
    /// list; of `maxwritetime` the latest of them.
    StampsOfSlice(StampKind, ColumnId, InStatic, Box<KeySlice>),
    /// The timestamp, or seconds left, of the element with this key of a set or map; the type is that of keys.
    StampOfKey(StampKind, ColumnId, InStatic, CqlType, Box<Term>),
    /// The token of the partition.
    Token,
}

/// Which cells of a row are found before terms read them: slots ascend as cells do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Regular columns by id.
    pub regular: Vec<ColumnId>,
    /// Static columns by id.
    pub statics: Vec<ColumnId>,
    /// How many leading clustering columns.
    pub clustering: usize,
}

impl Wanted {
    /// What these columns need.
    pub(super) fn of(columns: &[Column]) -> Wanted {
        let mut wanted = Wanted::default();
        for column in columns {
            match column.kind {
                ColumnKind::Regular => wanted.regular.push(column.id),
                ColumnKind::Static => wanted.statics.push(column.id),
                ColumnKind::Clustering => {
                    wanted.clustering = wanted.clustering.max(usize::from(column.position) + 1);
                }
                ColumnKind::PartitionKey => {}
            }
        }
        wanted.regular.sort();
        wanted.statics.sort();
        wanted
    }

    /// Where the value of a column is read.
    pub(super) fn source(&self, column: &Column) -> Source {
        let slot = |columns: &[ColumnId]| {
            columns.binary_search(&column.id).expect("every column named has a slot")
        };
        match column.kind {
            ColumnKind::PartitionKey => Source::PartitionKey(column.position.into()),
            ColumnKind::Clustering => Source::Clustering(column.position.into()),
            _ if column.ty.is_multi_cell() => {
                Source::Elements(column.id, InStatic::of(column), column.ty.clone())
            }
            ColumnKind::Static => Source::Static(slot(&self.statics)),
            ColumnKind::Regular => Source::Regular(slot(&self.regular)),
        }
    }
}
