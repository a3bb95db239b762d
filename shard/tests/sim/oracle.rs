//! What must be true, said as naively as possible: a list of facts, and a reader that looks at all of them.
//!
//! What a reader sees of a partition (`Facts::seen`):
//! 1. All facts about it, but those of columns that were dropped, and of columns that are back those that are not newer
//!    than the drop.
//! 2. For each place the newest tombstone over all of it: of the partition, of the row, of a range.
//! 3. For each cell, and the marker, the one that wins. Which of two wins is decided by the product's own `reconcile`
//!    (`model/src/cell.rs`).
//! 4. What no tombstone covers and what is not dead at the given second. A row without marker and cells is not there.
//!
//! Invariants
//! 1. Facts are never merged and never purged: the oracle knows nothing of memtables, files and compactions. Only a
//!    truncation or a drop of the table takes facts away.
//! 2. Values are compared in a short form (`short`): a value of equal bytes by its byte and length, a vector by a hash.
//!
//! Not here: the comparison with a node (`checks.rs`), where facts come from (`workload.rs`), models of lists, rows and
//! counters that writes change after a read (`in_order.rs`).

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use model::cell::{Life, reconcile, reconcile_markers};

use crate::schema::VECTOR_PARTS;

/// Where a cell stands: `None` is the static row.
pub(crate) type Place = Option<Vec<u8>>;

/// One thing a mutation says of a partition.
#[derive(Clone, Debug)]
pub(crate) enum Fact {
    Cell {
        place: Place,
        column: u16,
        path: Option<Vec<u8>>,
        timestamp: i64,
        life: Life,
        value: Vec<u8>,
    },
    Marker {
        place: Place,
        timestamp: i64,
        life: Life,
    },
    /// A tombstone over a collection.
    Whole {
        place: Place,
        column: u16,
        timestamp: i64,
    },
    Row {
        place: Place,
        timestamp: i64,
    },
    Range {
        start: Vec<u8>,
        end: Vec<u8>,
        timestamp: i64,
    },
    Partition {
        timestamp: i64,
    },
}

/// A table, by its number in the test, and a partition's key.
pub(crate) type Part = (usize, u8);

/// One record: what it says of which partitions.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) number: u64,
    /// The tables that it has mutations of.
    pub(crate) tables: Vec<usize>,
    pub(crate) facts: Vec<(Part, Rc<Fact>)>,
    /// One of its tables was dropped before it was answered: if it waited for space, it was refused.
    pub(crate) may_be_refused: bool,
}

impl Record {
    /// A table was dropped, with what the record says of it.
    pub(crate) fn drop_table(&mut self, table: usize) {
        self.may_be_refused |= self.tables.contains(&table);
        self.facts.retain(|((of, _), _)| *of != table);
    }
}

/// What a reader sees of a row: its cells by column and path.
pub(crate) type Cells = Vec<(u16, Option<Vec<u8>>, Value)>;

/// A value: of equal bytes which, of a vector a number that its bytes make; and how many bytes.
pub(crate) type Value = (u32, usize);

/// The short form of a value.
pub(crate) fn short(value: &[u8]) -> Value {
    let byte = value.first().copied().unwrap_or_default();
    if value.iter().all(|other| *other == byte) {
        return (byte.into(), value.len());
    }
    assert_eq!(value.len(), size_of::<f32>() * VECTOR_PARTS, "others are of equal bytes");
    let number = value.iter().fold(0u32, |n, byte| n.wrapping_mul(16_777_619) ^ u32::from(*byte));
    (number, value.len())
}

/// What a reader sees of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) stat: Cells,
    pub(crate) rows: Vec<(Vec<u8>, Cells)>,
}

/// When a column was dropped last, and whether it is there again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drop {
    at: i64,
    is_back: bool,
}

/// Everything that was ever said and is still there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    said: BTreeMap<Part, Vec<Rc<Fact>>>,
    /// By table and column: what is not newer went with its column.
    pub(crate) drops: BTreeMap<(usize, u16), Drop>,
}

impl Facts {
    pub(crate) fn add(&mut self, record: &Record) {
        for (part, fact) in &record.facts {
            self.said.entry(*part).or_default().push(fact.clone());
        }
    }

    pub(crate) fn clear_table(&mut self, table: usize) {
        self.said.retain(|(of, _), _| *of != table);
    }

    pub(crate) fn drop_column(&mut self, column: (usize, u16), at: i64) {
        let drop = self.drops.entry(column).or_insert(Drop { at, is_back: false });
        *drop = Drop { at: drop.at.max(at), is_back: false };
    }

    pub(crate) fn add_column(&mut self, column: (usize, u16)) {
        if let Some(drop) = self.drops.get_mut(&column) {
            drop.is_back = true;
        }
    }

    /// How much was said of a partition.
    pub(crate) fn count(&self, part: Part) -> usize {
        self.said.get(&part).map_or(0, Vec::len)
    }

    /// How much was said of each partition of a table.
    pub(crate) fn counts(&self, table: usize) -> BTreeMap<Part, usize> {
        let of_table = self.said.iter().filter(|((of, _), _)| *of == table);
        of_table.map(|(part, facts)| (*part, facts.len())).collect()
    }

    /// What a reader sees at `now_s`.
    pub(crate) fn seen(&self, part: Part, now_s: u32) -> Seen {
        self.seen_of(part, 0..self.count(part), now_s)
    }

    /// What a reader would see if only these of the facts had been said.
    pub(crate) fn seen_of(&self, part: Part, which: Range<usize>, now_s: u32) -> Seen {
        let said = self.said.get(&part).map_or(&[][..], |facts| &facts[which]);
        let is_hidden = |fact: &Fact| match fact {
            Fact::Cell { column, timestamp, .. } | Fact::Whole { column, timestamp, .. } => {
                let drop = self.drops.get(&(part.0, *column));
                drop.is_some_and(|drop| !drop.is_back || *timestamp <= drop.at)
            }
            _ => false,
        };
        let mut of_place: BTreeMap<&Place, Vec<&Fact>> = BTreeMap::new();
        let mut of_many = Vec::new();
        for fact in said.iter().map(|fact| &**fact).filter(|fact| !is_hidden(fact)) {
            match fact.place() {
                Some(place) => of_place.entry(place).or_default().push(fact),
                None => of_many.push(fact),
            }
        }
        let mut seen = Seen::default();
        for (place, facts) in of_place {
            let over = deleted(facts.iter().chain(&of_many), place);
            let Some((cells, is_marked)) = row(&facts, over, now_s) else { continue };
            match place {
                None => seen.stat = cells,
                Some(at) if is_marked || !cells.is_empty() => seen.rows.push((at.clone(), cells)),
                Some(_) => {}
            }
        }
        seen
    }
}

impl Fact {
    /// Where it holds; `None` if it deletes all rows, or a range of them.
    fn place(&self) -> Option<&Place> {
        match self {
            Fact::Cell { place, .. }
            | Fact::Marker { place, .. }
            | Fact::Whole { place, .. }
            | Fact::Row { place, .. } => Some(place),
            Fact::Range { .. } | Fact::Partition { .. } => None,
        }
    }
}

/// The newest deletion over all of the row at a place, of these facts about it.
fn deleted<'f>(facts: impl Iterator<Item = &'f &'f Fact>, place: &Place) -> Option<i64> {
    let of = |fact: &&Fact| match fact {
        Fact::Partition { timestamp } | Fact::Row { timestamp, .. } => Some(*timestamp),
        Fact::Range { start, end, timestamp } => {
            let at = place.as_ref()?;
            (start <= at && at < end).then_some(*timestamp)
        }
        _ => None,
    };
    facts.filter_map(of).max()
}

/// A column and, of a collection, the path to one of its elements.
type CellAt<'f> = (u16, Option<&'f [u8]>);

/// Timestamp, life and value: what two writes of one cell are compared by.
type CellWritten<'f> = (i64, Life, &'f [u8]);

/// What the facts about one row make of it, with a deletion over all of it; `None` if nothing of it is there.
fn row(facts: &[&Fact], over: Option<i64>, now_s: u32) -> Option<(Cells, bool)> {
    let mut marker: Option<(i64, Life)> = None;
    let mut cells: BTreeMap<CellAt<'_>, CellWritten<'_>> = BTreeMap::new();
    for fact in facts.iter().copied() {
        match fact {
            Fact::Marker { timestamp, life, .. } => {
                let one = (*timestamp, *life);
                let wins = marker.is_none_or(|other| reconcile_markers(one, other).is_gt());
                marker = if wins { Some(one) } else { marker };
            }
            Fact::Cell { column, path, timestamp, life, value, .. } => {
                let one = (*timestamp, *life, value.as_slice());
                let cell = cells.entry((*column, path.as_deref())).or_insert(one);
                if reconcile(one, *cell).is_gt() {
                    *cell = one;
                }
            }
            _ => {}
        }
    }
    let whole = |column: u16| {
        let of = |fact: &Fact| match fact {
            Fact::Whole { column: of, timestamp, .. } if *of == column => Some(*timestamp),
            _ => None,
        };
        facts.iter().copied().filter_map(of).max()
    };
    let is_there = |timestamp: i64, life: Life, over: Option<i64>| {
        over.is_none_or(|over| timestamp > over) && !life.is_dead(now_s)
    };
    let marked = marker.is_some_and(|(timestamp, life)| is_there(timestamp, life, over));
    let cells = cells.into_iter().filter(|((column, path), (timestamp, life, _))| {
        let over = if path.is_some() { over.max(whole(*column)) } else { over };
        is_there(*timestamp, *life, over)
    });
    let cell = |((column, path), (_, _, value)): (CellAt<'_>, CellWritten<'_>)| {
        (column, path.map(<[u8]>::to_vec), short(value))
    };
    let cells: Cells = cells.map(cell).collect();
    (marked || !cells.is_empty()).then_some((cells, marked))
}
