//! Two counters of a row that are added to and deleted: one partition of a table of their own.
//!
//! ```text
//! delete a counter, delete the row (timestamps of now, and of later)     add, add twice, add to both, add and delete
//! ```
//!
//! The state is what is stored, with every timestamp: what was added once is there once, whatever was replayed,
//! flushed, merged or given to another shard, and is newer than all that was read.

use engine::Error;
use engine::io::Rng;
use model::cell::Life;
use model::mutation::{CounterChange, MutationBuilder};
use model::read::{Flow, PartitionRef, RowSink};
use model::row::{Cell, RowBuilder, RowHead};
use model::schema::Table;
use model::{Deletion, RowRef, Token};

use crate::in_order::{History, Writes};
use crate::world::World;

/// A second so late that no tombstone is purged.
const LATE_S: u32 = u32::MAX / 2;

/// The counters, and the id of the first.
const NAMES: [&str; 2] = ["n0", "n1"];
const FIRST: u16 = 3;

/// One write to the counters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CounterWrite {
    /// Adds to one counter, as of so many microseconds later than its number says.
    Add { counter: usize, later_us: i64 },
    /// Adds to one counter in two mutations of one record.
    AddTwice { counter: usize },
    /// Adds to both.
    AddBoth,
    /// Adds to both and deletes one in the same record: it is deleted.
    AddAndDelete { counter: usize },
    /// A plain deletion of one counter.
    Delete { counter: usize, later_us: i64 },
    /// A plain deletion of the row.
    DeleteRow { later_us: i64 },
}

/// The row as it is stored, without what is covered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    deleted: Option<i64>,
    /// When each counter was written, and what it is; `None` is a tombstone.
    cells: [Option<(i64, Option<i64>)>; 2],
}

impl Stored {
    /// The timestamp of an addition that was made at `at`.
    fn after(&self, at: i64) -> i64 {
        let written = self.cells.iter().flatten().map(|(written, _)| *written);
        let newest = written.chain(self.deleted).max();
        newest.filter(|newest| *newest >= at - 1).map_or(at, |newest| newest + 2)
    }

    fn value(&self, counter: usize) -> i64 {
        self.cells[counter].and_then(|(_, value)| value).unwrap_or_default()
    }

    fn put(&mut self, counter: usize, at: i64, value: Option<i64>) {
        let is_covered = self.deleted.is_some_and(|deleted| deleted >= at);
        let is_older = self.cells[counter].is_some_and(|(written, _)| written > at);
        if !is_covered && !is_older {
            self.cells[counter] = Some((at, value));
        }
    }

    fn delete(&mut self, at: i64) {
        self.deleted = self.deleted.max(Some(at));
        for cell in &mut self.cells {
            *cell = cell.filter(|(written, _)| *written > at);
        }
    }
}

/// What a write adds: large, so that sums wrap, and of either sign.
fn by(number: u64) -> i64 {
    (number as i64 % 7 - 3).wrapping_mul(0x5555_5555_5555_5555)
}

fn at(number: u64) -> i64 {
    number as i64 * 10
}

impl CounterWrite {
    /// What is added to the counters, mutation by mutation.
    fn added(&self) -> Vec<Vec<usize>> {
        match *self {
            CounterWrite::Add { counter, .. } => vec![vec![counter]],
            CounterWrite::AddTwice { counter } => vec![vec![counter, counter], vec![counter]],
            CounterWrite::AddBoth | CounterWrite::AddAndDelete { .. } => vec![vec![0, 1]],
            CounterWrite::Delete { .. } | CounterWrite::DeleteRow { .. } => vec![vec![]],
        }
    }

    fn at(&self, number: u64) -> i64 {
        match *self {
            CounterWrite::Add { later_us, .. }
            | CounterWrite::Delete { later_us, .. }
            | CounterWrite::DeleteRow { later_us } => at(number) + later_us,
            _ => at(number),
        }
    }
}

impl Writes for CounterWrite {
    type State = Stored;
    type Taken = Stored;
    type Answer = ();

    const KEY: &'static [u8] = b"count";
    const TICKETS: u64 = 1 << 42;

    fn draw(rng: &mut Rng, _number: u64) -> CounterWrite {
        let later_us = if rng.one_in(4) { rng.below(100) as i64 } else { 0 };
        let counter = rng.index(NAMES.len());
        match rng.below(10) {
            0..4 => CounterWrite::Add { counter, later_us },
            4 => CounterWrite::AddTwice { counter },
            5..7 => CounterWrite::AddBoth,
            7 => CounterWrite::AddAndDelete { counter },
            8 => CounterWrite::Delete { counter, later_us },
            _ => CounterWrite::DeleteRow { later_us },
        }
    }

    fn run(&self, number: u64, row: &mut Stored) {
        let (before, at) = (*row, self.at(number));
        let at = if self.reads() { before.after(at) } else { at };
        match *self {
            CounterWrite::Delete { counter, .. } => row.put(counter, at, None),
            CounterWrite::DeleteRow { .. } => row.delete(at),
            _ => {}
        }
        let mut sums = NAMES.map(|_| None);
        for counter in self.added().into_iter().flatten() {
            let sum = sums[counter].unwrap_or_else(|| before.value(counter));
            sums[counter] = Some(sum.wrapping_add(by(number)));
        }
        for (counter, sum) in sums.into_iter().enumerate() {
            if let Some(sum) = sum {
                row.put(counter, at, Some(sum));
            }
        }
        if let CounterWrite::AddAndDelete { counter } = *self {
            row.put(counter, at, None);
        }
    }

    fn reads(&self) -> bool {
        !matches!(self, CounterWrite::Delete { .. } | CounterWrite::DeleteRow { .. })
    }

    fn record(&self, number: u64, table: &Table) -> Vec<u8> {
        let id = |counter: usize| {
            let id = table.column(NAMES[counter]).expect("it has counters").id;
            assert_eq!(id.0, FIRST + counter as u16, "in the order in which they were made");
            id
        };
        let (timestamp, mut out) = (self.at(number), Vec::new());
        let deleted = match *self {
            CounterWrite::AddAndDelete { counter } | CounterWrite::Delete { counter, .. } => {
                Some(counter)
            }
            _ => None,
        };
        for added in self.added() {
            let token = Token::of_key(Self::KEY);
            let mut m = MutationBuilder::begin(&mut out, table.id, token, Self::KEY);
            let mut head = RowHead::bare(timestamp);
            if let CounterWrite::DeleteRow { .. } = self {
                head.deletion = Deletion { timestamp, local_s: LATE_S };
            }
            if deleted.is_some() || !head.deletion.is_none() {
                m.row(&[], |out| {
                    let mut row = RowBuilder::begin(out, &head);
                    if let Some(counter) = deleted {
                        let life = Life::Dead { local_s: LATE_S };
                        row.cell(&Cell { life, ..Cell::live(id(counter), timestamp, &[]) });
                    }
                });
            }
            for counter in added {
                let (clustering, column) = (Some(&[][..]), id(counter));
                let by = by(number);
                m.counter_change(&CounterChange { clustering, column, timestamp, now_s: 1, by });
            }
            m.finish();
        }
        out
    }

    fn answer(&self, result: Result<(), Error>) -> Result<(), Error> {
        result
    }

    fn history(world: &mut World) -> &mut History<CounterWrite> {
        &mut world.counters
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
        self.cells = NAMES.map(|_| None);
        for cell in row.cells() {
            let value = cell.value.try_into().map(i64::from_be_bytes).ok();
            self.cells[usize::from(cell.column.0 - FIRST)] = Some((cell.timestamp, value));
        }
    }
}
