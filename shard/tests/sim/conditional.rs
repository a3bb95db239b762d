//! A row that plain and conditional writes change: one partition of a table of their own.
//!
//! ```text
//! insert, delete (with timestamps of now, and of later)      insert if not exists, update if v = .., delete if exists
//! ```
//!
//! The state is what is stored, with every timestamp: a conditional write that is applied is newer than all that it has
//! read, so that it is seen, whatever plain writes have said of the future.

use engine::Error;
use engine::io::Rng;
use model::cell::Life;
use model::condition::{Comparison, ConditionsBuilder, Part, Wanted};
use model::mutation::{MutationBuilder, MutationRef};
use model::read::{Flow, Operator, PartitionRef, RowSink};
use model::row::{Cell, RowBuilder, RowHead};
use model::schema::Table;
use model::{Deletion, RowRef, Token};

use crate::in_order::{History, Writes};
use crate::world::World;

/// A second so late that no tombstone is purged.
const LATE_S: u32 = u32::MAX / 2;

/// One write to the row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowWrite {
    /// A plain INSERT, so many microseconds later than its number says.
    Put { later_us: i64 },
    /// A plain DELETE.
    Delete { later_us: i64 },
    /// `INSERT IF NOT EXISTS`.
    PutNew,
    /// `UPDATE IF v = ..`.
    Swap { expected: u8 },
    /// `DELETE IF EXISTS`.
    DeleteOld,
}

/// How a write was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowAnswer {
    Applied,
    /// A condition does not hold: the row as it is, if there is one.
    NotApplied(Option<Option<u8>>),
}

/// The row as it is stored, without what is covered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    deleted: Option<i64>,
    marker: Option<i64>,
    cell: Option<(i64, u8)>,
}

impl Stored {
    /// What a reader sees: the value, if there is a row.
    fn seen(&self) -> Option<Option<u8>> {
        let exists = self.marker.is_some() || self.cell.is_some();
        exists.then(|| self.cell.map(|(_, value)| value))
    }

    fn newest(&self) -> Option<i64> {
        [self.deleted, self.marker, self.cell.map(|(at, _)| at)].into_iter().flatten().max()
    }

    /// The timestamp of a conditional write that was made at `at`.
    fn after(&self, at: i64) -> i64 {
        self.newest().filter(|newest| *newest >= at - 1).map_or(at, |newest| newest + 2)
    }

    fn put(&mut self, at: i64, value: u8, has_marker: bool) {
        if self.deleted.is_some_and(|deleted| deleted >= at) {
            return;
        }
        if has_marker {
            self.marker = self.marker.max(Some(at));
        }
        self.cell = self.cell.max(Some((at, value)));
    }

    fn delete(&mut self, at: i64) {
        self.deleted = self.deleted.max(Some(at));
        self.marker = self.marker.filter(|marker| *marker > at);
        self.cell = self.cell.filter(|(written, _)| *written > at);
    }
}

/// Few values, so that conditions hold often.
fn value(number: u64) -> u8 {
    number as u8 % 3
}

fn at(number: u64) -> i64 {
    number as i64 * 10
}

impl Writes for RowWrite {
    type State = Stored;
    type Taken = Stored;
    type Answer = RowAnswer;

    const KEY: &'static [u8] = b"row";
    const TICKETS: u64 = 1 << 41;

    fn draw(rng: &mut Rng, _number: u64) -> RowWrite {
        let later_us = if rng.one_in(4) { rng.below(100) as i64 } else { 0 };
        match rng.below(9) {
            0..2 => RowWrite::Put { later_us },
            2 => RowWrite::Delete { later_us },
            3..5 => RowWrite::PutNew,
            5..8 => RowWrite::Swap { expected: rng.below(3) as u8 },
            _ => RowWrite::DeleteOld,
        }
    }

    fn run(&self, number: u64, row: &mut Stored) -> RowAnswer {
        let (seen, after) = (row.seen(), row.after(at(number)));
        match *self {
            RowWrite::Put { later_us } => row.put(at(number) + later_us, value(number), true),
            RowWrite::Delete { later_us } => row.delete(at(number) + later_us),
            RowWrite::PutNew if seen.is_none() => row.put(after, value(number), true),
            RowWrite::Swap { expected } if seen == Some(Some(expected)) => {
                row.put(after, value(number), false);
            }
            RowWrite::DeleteOld if seen.is_some() => row.delete(after),
            _ => return RowAnswer::NotApplied(seen),
        }
        RowAnswer::Applied
    }

    fn reads(&self) -> bool {
        !matches!(self, RowWrite::Put { .. } | RowWrite::Delete { .. })
    }

    fn record(&self, number: u64, table: &Table) -> Vec<u8> {
        let column = table.column("v").expect("it has a value").id;
        let (later_us, deletes, has_marker) = match *self {
            RowWrite::Put { later_us } => (later_us, false, true),
            RowWrite::Delete { later_us } => (later_us, true, false),
            RowWrite::PutNew => (0, false, true),
            RowWrite::Swap { .. } => (0, false, false),
            RowWrite::DeleteOld => (0, true, false),
        };
        let mut conditions = ConditionsBuilder::default();
        match self {
            RowWrite::PutNew => conditions.existence(Some(&[]), false),
            RowWrite::DeleteOld => conditions.existence(Some(&[]), true),
            RowWrite::Swap { expected } => {
                let test = (column, Part::Whole, Comparison::Is(Operator::Equal));
                let expected = [*expected];
                conditions.column(Some(&[]), test, [Some(&expected[..])].into_iter());
            }
            _ => {}
        }
        let (timestamp, mut out) = (at(number) + later_us, Vec::new());
        let mut m = MutationBuilder::begin(&mut out, table.id, Token::of_key(Self::KEY), Self::KEY);
        m.row(&[], |out| {
            let mut head = RowHead::bare(timestamp);
            head.marker = has_marker.then_some(Life::Live);
            if deletes {
                head.deletion = Deletion { timestamp, local_s: LATE_S };
            }
            let mut row = RowBuilder::begin(out, &head);
            if !deletes {
                row.cell(&Cell::live(column, timestamp, &[value(number)]));
            }
        });
        match self.reads() {
            true => m.finish_with_conditions(
                &conditions,
                Wanted { statics: false, regulars: true },
                (timestamp, 1),
            ),
            false => m.finish(),
        };
        out
    }

    fn answer(&self, result: Result<(), Error>) -> Result<RowAnswer, Error> {
        match result {
            Ok(()) => Ok(RowAnswer::Applied),
            Err(Error::NotApplied { found }) => {
                let found = MutationRef::of_record(&found).next().expect("one").expect("sound");
                let value = |row: RowRef<'_>| row.cells().next().map(|cell| cell.value[0]);
                Ok(RowAnswer::NotApplied(found.rows().next().map(|(_, row)| value(row))))
            }
            Err(error) => Err(error),
        }
    }

    fn history(world: &mut World) -> &mut History<RowWrite> {
        &mut world.conditional
    }

    fn found(taken: Stored) -> Stored {
        taken
    }
}

impl RowSink for Stored {
    fn row(&mut self, _: &PartitionRef<'_>, _: Option<&[u8]>, _: Option<RowRef<'_>>) -> Flow {
        Flow::More
    }

    fn wants_passed(&self) -> bool {
        true
    }

    fn passes(&mut self, stored: Option<RowRef<'_>>, _: Deletion) {
        let Some(row) = stored else { return };
        let head = row.head();
        self.deleted = (!head.deletion.is_none()).then_some(head.deletion.timestamp);
        self.marker = head.marker.map(|_| head.timestamp);
        self.cell = row.cells().next().map(|cell| (cell.timestamp, cell.value[0]));
    }
}
