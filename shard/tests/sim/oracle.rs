//! What must be true, said as naively as possible: a list of facts, and a reader that looks at all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use model::cell::{Life, reconcile, reconcile_markers};

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

/// A value of equal bytes: which, and how many.
pub(crate) type Value = (u8, usize);

/// The short form of a value.
pub(crate) fn short(value: &[u8]) -> Value {
    let byte = value.first().copied().unwrap_or_default();
    assert!(value.iter().all(|other| *other == byte), "a value is of equal bytes");
    (byte, value.len())
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
        let facts: Vec<&Fact> =
            said.iter().map(|fact| &**fact).filter(|fact| !is_hidden(fact)).collect();
        let facts = facts.as_slice();
        let mut places: BTreeSet<&Place> = BTreeSet::new();
        for fact in facts.iter().copied() {
            if let Fact::Cell { place, .. } | Fact::Marker { place, .. } = fact {
                places.insert(place);
            }
        }
        let mut seen = Seen::default();
        for place in places {
            let Some((cells, is_marked)) = row(facts, place, now_s) else { continue };
            match place {
                None => seen.stat = cells,
                Some(at) if is_marked || !cells.is_empty() => seen.rows.push((at.clone(), cells)),
                Some(_) => {}
            }
        }
        seen
    }
}

/// The newest deletion over a whole row.
fn deleted(facts: &[&Fact], place: &Place) -> Option<i64> {
    let of = |fact: &Fact| match fact {
        Fact::Partition { timestamp } => Some(*timestamp),
        Fact::Row { place: at, timestamp } if at == place => Some(*timestamp),
        Fact::Range { start, end, timestamp } => {
            let at = place.as_ref()?;
            (start <= at && at < end).then_some(*timestamp)
        }
        _ => None,
    };
    facts.iter().copied().filter_map(of).max()
}

/// A column and, of a collection, the path to one of its elements.
type CellAt = (u16, Option<Vec<u8>>);

/// Timestamp, life and value: what two writes of one cell are compared by.
type CellWritten<'a> = (i64, Life, &'a [u8]);

fn row(facts: &[&Fact], place: &Place, now_s: u32) -> Option<(Cells, bool)> {
    let over = deleted(facts, place);
    let mut marker: Option<(i64, Life)> = None;
    let mut cells: BTreeMap<CellAt, CellWritten<'_>> = BTreeMap::new();
    for fact in facts.iter().copied() {
        match fact {
            Fact::Marker { place: at, timestamp, life } if at == place => {
                let one = (*timestamp, *life);
                let wins = marker.is_none_or(|other| reconcile_markers(one, other).is_gt());
                marker = if wins { Some(one) } else { marker };
            }
            Fact::Cell { place: at, column, path, timestamp, life, value } if at == place => {
                let one = (*timestamp, *life, value.as_slice());
                let cell = cells.entry((*column, path.clone())).or_insert(one);
                if reconcile(one, *cell).is_gt() {
                    *cell = one;
                }
            }
            _ => {}
        }
    }
    let whole = |column: u16| {
        let of = |fact: &Fact| match fact {
            Fact::Whole { place: at, column: of, timestamp } if at == place && *of == column => {
                Some(*timestamp)
            }
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
    let cells: Cells =
        cells.map(|((column, path), (_, _, value))| (column, path, short(value))).collect();
    (marked || !cells.is_empty()).then_some((cells, marked))
}
