//! A list that plain writes add to and that writes which read first change by index: one partition of their own table.
//!
//! ```text
//! add in front, add behind, delete [0], set [i] ─► the state after each, in the order in which they were sent
//! ```
//!
//! 1. `run` is the model: the list after a write, and how the write must be answered. An index beyond the list is
//!    `OutOfBounds`.
//! 2. `record` gives the same write to the engine: an addition as a plain cell, a change by index as a list change,
//!    which the engine makes plain when it has read.
//! 3. The path of an element is made from the number of its write, so that additions in front and behind order as they
//!    came.
//!
//! Not here: in which order writes take effect, and what a crash may leave (`in_order.rs`); the other writes that read
//! first (`conditional.rs`, `counters.rs`).

use std::collections::VecDeque;

use engine::Error;
use engine::io::Rng;
use model::Token;
use model::mutation::{ListChange, ListOp, MutationBuilder};
use model::row::{Cell, RowBuilder, RowHead};
use model::schema::Table;

use crate::in_order::{History, Writes};
use crate::node::Taken;
use crate::oracle::{Value, short};
use crate::world::World;

/// One write to the list.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ListWrite {
    /// Adds an element in front of all or behind.
    Add { in_front: bool },
    /// Deletes the first element.
    Pop,
    /// Sets the element of an index.
    Set { index: usize },
}

/// How a write was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListAnswer {
    Done,
    /// There is no such element.
    OutOfBounds,
}

fn value(number: u64) -> Vec<u8> {
    vec![number as u8; 1 + number as usize % 5]
}

fn path(number: u64, in_front: bool) -> Vec<u8> {
    let place = if in_front { u64::MAX / 2 - number } else { u64::MAX / 2 + number };
    place.to_be_bytes().to_vec()
}

impl Writes for ListWrite {
    /// Path and value of each element.
    type State = VecDeque<(Vec<u8>, Value)>;
    type Taken = Taken;
    type Answer = ListAnswer;

    const KEY: &'static [u8] = b"list";
    const TICKETS: u64 = 1 << 40;

    fn draw(rng: &mut Rng, _number: u64) -> ListWrite {
        match rng.below(8) {
            0..4 => ListWrite::Add { in_front: rng.one_in(2) },
            4..7 => ListWrite::Pop,
            _ => ListWrite::Set { index: rng.index(4) },
        }
    }

    fn run(&self, number: u64, list: &mut Self::State) -> ListAnswer {
        let new = short(&value(number));
        match *self {
            ListWrite::Add { in_front: true } => list.push_front((path(number, true), new)),
            ListWrite::Add { in_front: false } => list.push_back((path(number, false), new)),
            ListWrite::Pop => match list.pop_front() {
                Some(_) => {}
                None => return ListAnswer::OutOfBounds,
            },
            ListWrite::Set { index } => match list.get_mut(index) {
                Some(element) => element.1 = new,
                None => return ListAnswer::OutOfBounds,
            },
        }
        ListAnswer::Done
    }

    fn reads(&self) -> bool {
        !matches!(self, ListWrite::Add { .. })
    }

    fn record(&self, number: u64, table: &Table) -> Vec<u8> {
        let column = table.column("l").expect("it has the list").id;
        let (timestamp, value) = (number as i64, value(number));
        let mut out = Vec::new();
        let mut m = MutationBuilder::begin(&mut out, table.id, Token::of_key(Self::KEY), Self::KEY);
        let change = |op| ListChange { clustering: Some(&[]), column, timestamp, now_s: 1, op };
        match *self {
            ListWrite::Add { in_front } => m.row(&[], |out| {
                let path = path(number, in_front);
                let cell = Cell::live(column, timestamp, &value);
                let mut row = RowBuilder::begin(out, &RowHead::bare(timestamp));
                row.cell(&Cell { path: Some(&path), ..cell });
            }),
            ListWrite::Pop => m.list_change(&change(ListOp::Delete { index: 0 })),
            ListWrite::Set { index } => {
                let (index, value) = (index as i32, Some(&value[..]));
                m.list_change(&change(ListOp::Set { index, value, expiry: None }));
            }
        }
        m.finish();
        out
    }

    fn answer(&self, result: Result<(), Error>) -> Result<ListAnswer, Error> {
        match result {
            Ok(()) => Ok(ListAnswer::Done),
            Err(Error::Invalid(text)) if text.contains("list") && self.reads() => {
                Ok(ListAnswer::OutOfBounds)
            }
            Err(error) => Err(error),
        }
    }

    fn history(world: &mut World) -> &mut History<ListWrite> {
        &mut world.lists
    }

    fn found(taken: Taken) -> Self::State {
        let rows = taken.0.into_values().flat_map(|seen| seen.rows);
        let cells = rows.flat_map(|(_, cells)| cells);
        cells.map(|(_, path, value)| (path.expect("an element"), value)).collect()
    }
}
