//! Reading back: every key of a list, once, each against what it must at least show.
//!
//! The list is a journal's promises, or all records of a data set (whose rows must be there and whole, whatever writes
//! they show).
//!
//! 1. The source gives positions in the list; `op` makes of each the read of its key.
//! 2. The position travels in the operation's `detail`, so that the answer finds its promise again.
//! 3. No row is `Missing`, several rows are `Misplaced`, one row is judged by its shape.
//!
//! Not here: the list (`command/prove.rs`), what a row must show (`workload/record.rs`, `workload/series.rs`,
//! `proof.rs`), scenarios and customers, which check themselves.

use std::sync::Arc;

use super::record::RecordShape;
use super::series::{SeriesShape, point_of_key};
use super::{Findings, Op, Rule, Sent, Verb};
use crate::error::Result;
use crate::proof::{Floor, Violation};
use crate::wire::{Binder, Rows};

/// Where the keys live.
#[derive(Clone, Debug)]
pub enum Shape {
    /// In the record table.
    Record(RecordShape),
    /// In the table of series.
    Series(SeriesShape),
}

/// The judge of what is read, where the keys of the source are positions in a list.
#[derive(Debug)]
pub struct Check {
    /// Where the keys live.
    pub shape: Shape,
    /// All keys, with what they must at least show.
    pub keys: Arc<Vec<(u64, Floor)>>,
}

impl Shape {
    /// What reads one of the keys.
    pub fn verb(&self) -> Verb {
        match self {
            Shape::Record(_) => Verb::Read,
            Shape::Series(_) => Verb::Point,
        }
    }
}

impl Check {
    fn entry(&self, op: &Op) -> &(u64, Floor) {
        let at = match self.shape {
            Shape::Record(_) => op.detail,
            Shape::Series(_) => op.detail >> 32,
        };
        &self.keys[at as usize]
    }
}

impl Rule for Check {
    fn statements(&self) -> Vec<String> {
        match &self.shape {
            Shape::Record(shape) => shape.statements(),
            Shape::Series(shape) => shape.statements(),
        }
    }

    fn statement(&self, op: &Op) -> usize {
        match &self.shape {
            Shape::Record(shape) => shape.statement(op),
            Shape::Series(shape) => shape.statement(op),
        }
    }

    fn op(&mut self, verb: Verb, at: u64) -> Option<Op> {
        let key = self.keys[at as usize].0;
        Some(match &self.shape {
            // A point's partition needs its position; a record's row is found again by `at`.
            Shape::Record(shape) => Op { detail: at, ..shape.op(verb, key, 0) },
            Shape::Series(shape) => {
                let (series, position) = point_of_key(key);
                shape.op(verb, series, position, at << 32 | u64::from(position))
            }
        })
    }

    fn floor(&self, op: &Op, floor: &mut Floor) {
        *floor = self.entry(op).1;
    }

    fn bind(&self, op: &Op, sequence: u64, binder: &mut Binder<'_>) {
        match &self.shape {
            Shape::Record(shape) => shape.bind(op, sequence, binder),
            Shape::Series(shape) => shape.bind(op, sequence, binder),
        }
    }

    fn written(
        &mut self,
        _op: &Op,
        _sent: Sent<'_>,
        _rows: Rows<'_>,
        _findings: &mut Findings,
    ) -> Result<Option<Op>> {
        Ok(None)
    }

    fn read(
        &mut self,
        op: &Op,
        sent: Sent<'_>,
        mut rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<Option<Op>> {
        let key = self.entry(op).0;
        let verdict = match (rows.rows, &self.shape) {
            (0, _) => {
                findings.not_found += 1;
                Err(Violation::Missing { key })
            }
            (1, Shape::Record(shape)) => shape.judge_row(key, sent.floor, &mut rows)?,
            (1, Shape::Series(shape)) => shape.judge_value(key, rows.cell()?, sent),
            _ => Err(Violation::Misplaced { key }),
        };
        findings.violations.extend(verdict.err());
        Ok(None)
    }
}
