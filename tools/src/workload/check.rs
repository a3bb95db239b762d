//! Reading back: every key of a list, once, each against what it must at least show.
//!
//! The list is a journal's promises, or all records of a data set (whose rows must be there and
//! whole, whatever writes they show).

use std::sync::Arc;

use super::record::RecordShape;
use super::series::{SeriesShape, point_of_key};
use super::{Findings, Next, Now, Op, Sent, Verb};
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

/// The share of one client thread: every `stride`-th key from `next` on.
#[derive(Debug)]
pub struct Check {
    /// Where the keys live.
    pub shape: Shape,
    /// All keys, with what they must at least show.
    pub keys: Arc<Vec<(u64, Floor)>>,
    /// The position of the next key.
    pub next: usize,
    /// The number of threads.
    pub stride: usize,
}

impl Check {
    pub(super) fn statements(&self) -> Vec<String> {
        match &self.shape {
            Shape::Record(shape) => shape.statements(),
            Shape::Series(shape) => shape.statements(),
        }
    }

    pub(super) fn statement(&self, op: &Op) -> usize {
        match &self.shape {
            Shape::Record(shape) => shape.statement(op),
            Shape::Series(shape) => shape.statement(op),
        }
    }

    pub(super) fn next(&mut self, _now: Now) -> Next {
        let Some(&(key, _)) = self.keys.get(self.next) else { return Next::Done };
        let at = self.next as u64;
        self.next += self.stride;
        Next::Op(match &self.shape {
            // A point's partition needs its position; a record's row is found again by `at`.
            Shape::Record(shape) => Op { detail: at, ..shape.op(Verb::Read, key, 0) },
            Shape::Series(shape) => {
                let (series, position) = point_of_key(key);
                let detail = at << 32 | u64::from(position);
                shape.op(Verb::Point, series, position, detail)
            }
        })
    }

    fn entry(&self, op: &Op) -> &(u64, Floor) {
        let at = match self.shape {
            Shape::Record(_) => op.detail,
            Shape::Series(_) => op.detail >> 32,
        };
        &self.keys[at as usize]
    }

    pub(super) fn floor(&self, op: &Op, floor: &mut Floor) {
        *floor = self.entry(op).1;
    }

    pub(super) fn bind(&self, op: &Op, sequence: u64, binder: &mut Binder<'_>) {
        match &self.shape {
            Shape::Record(shape) => shape.bind(op, sequence, binder),
            Shape::Series(shape) => shape.bind(op, sequence, binder),
        }
    }

    pub(super) fn mask(&self, _op: &Op) -> u16 {
        0
    }

    pub(super) fn complete(
        &mut self,
        op: &Op,
        sent: Sent<'_>,
        mut rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<Option<Op>> {
        findings.rows += u64::from(rows.rows);
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

    pub(super) fn failed(&mut self, _op: &Op) {}
}
