//! Cells, and what hides them: which of two versions is the stronger one, and which deletions a row lies under.
//!
//! ```text
//! cell       the higher timestamp wins; of equal ones a tombstone, then one that expires (the later one), then the
//!            greater bytes
//! deletion   of a row, of a range, of a partition: hides what is not newer than it
//! collection a deletion of its own and a cell a part
//! ```
//!
//! Nothing is ever purged, flushed or merged here: every cell keeps its strongest version, every deletion stays, and a
//! read looks at all of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::value::Value;

/// Before every timestamp.
pub(crate) const NEVER: i64 = i64::MIN;

/// A value of a clustering column in the order of its column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Ascending(Value),
    Descending(Reverse<Value>),
}

impl Place {
    /// The value itself.
    pub(crate) fn value(&self) -> &Value {
        match self {
            Place::Ascending(value) => value,
            Place::Descending(Reverse(value)) => value,
        }
    }
}

/// One version of a cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// When it was written.
    pub(crate) timestamp: i64,
    pub(crate) ttl_s: Option<i32>,
    /// `None` is a tombstone.
    pub(crate) value: Option<Value>,
}

impl Cell {
    fn strength(&self) -> (i64, u8, Option<i32>, Vec<u8>) {
        let kind = match (&self.value, self.ttl_s) {
            (None, _) => 2,
            (Some(_), Some(_)) => 1,
            (Some(_), None) => 0,
        };
        let bytes = self.value.as_ref().map(Value::bytes).unwrap_or_default();
        (self.timestamp, kind, self.ttl_s, bytes)
    }

    /// Takes the place of a weaker version.
    pub(crate) fn merge(self, into: &mut Option<Cell>) {
        if into.as_ref().is_none_or(|before| self.strength() > before.strength()) {
            *into = Some(self);
        }
    }

    /// The value, if a deletion of this time does not hide it.
    pub(crate) fn live(&self, deletion: i64) -> Option<&Value> {
        self.value.as_ref().filter(|_| self.timestamp > deletion)
    }
}

/// What a row has in one column.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    /// Of a column without parts.
    pub(crate) whole: Option<Cell>,
    pub(crate) deletion: i64,
    /// By the key of a map, the element of a set, the number of a field, the place in a list.
    pub(crate) parts: BTreeMap<Value, Option<Cell>>,
}

impl Default for Content {
    fn default() -> Content {
        Content { whole: None, deletion: NEVER, parts: BTreeMap::new() }
    }
}

/// What a row has, or the static row of a partition.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The timestamp of the newest INSERT.
    pub(crate) marker: i64,
    pub(crate) deletion: i64,
    pub(crate) contents: BTreeMap<usize, Content>,
}

impl Default for Row {
    fn default() -> Row {
        Row { marker: NEVER, deletion: NEVER, contents: BTreeMap::new() }
    }
}

/// A deletion of the rows that begin so and lie between the bounds.
#[derive(Clone, Debug)]
pub(crate) struct RangeDeletion {
    pub(crate) timestamp: i64,
    pub(crate) prefix: Vec<Value>,
    pub(crate) lower: Option<(Value, bool)>,
    pub(crate) upper: Option<(Value, bool)>,
}

impl RangeDeletion {
    fn holds(&self, places: &[Place]) -> bool {
        let next = || places[self.prefix.len()].value();
        self.prefix.iter().zip(places).all(|(value, place)| value == place.value())
            && self.lower.as_ref().is_none_or(|(at, within)| next() > at || *within && next() == at)
            && self.upper.as_ref().is_none_or(|(at, within)| next() < at || *within && next() == at)
    }
}

/// A partition with all that was ever written to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Partition {
    pub(crate) keys: Vec<Value>,
    pub(crate) deletion: Option<i64>,
    pub(crate) ranges: Vec<RangeDeletion>,
    pub(crate) statics: Row,
    pub(crate) rows: BTreeMap<Vec<Place>, Row>,
}

impl Partition {
    /// The newest deletion that a row lies under, its own or one of a range or the partition.
    pub(crate) fn deletion_of(&self, places: &[Place], row: &Row) -> i64 {
        let ranges = self.ranges.iter().filter(|range| range.holds(places));
        let ranges = ranges.map(|range| range.timestamp).max().unwrap_or(NEVER);
        row.deletion.max(self.deletion.unwrap_or(NEVER)).max(ranges)
    }
}
