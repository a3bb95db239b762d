//! Counters that grow by one: each acknowledged increment is counted once.
//!
//! ```text
//! acknowledged before the read was sent ≤ count - what it was before ≤ begun before its answer came
//! ```
//!
//! An increment whose outcome is not known is sent again, as an application would: then both may count, which the
//! upper end allows. One that the server says it did not do leaves the upper end again. Without a journal what a
//! counter was before the run is not known; each read narrows it (`Tallies::narrow`).

use model::Token;

use super::scenario::{Known, number};
use super::{Findings, Op, Rule, Sent, Unanswered, Verb};
use crate::error::Result;
use crate::journal::Record;
use crate::ledger::Range;
use crate::proof::{Floor, Violation};
use crate::wire::{Binder, Rows};

/// The columns of the table.
pub const COLUMNS: &str = "id bigint PRIMARY KEY, hits counter";

/// What the journal notes: before it is sent, when it is acknowledged, when it was not done.
const BEGUN: u16 = 1;
const ACKNOWLEDGED: u16 = 2;
const NOT_DONE: u16 = 4;

const INCREMENT: usize = 0;
const READ: usize = 1;

/// What a counter must be by its records in a journal.
pub fn promised(records: &[Record]) -> Range {
    let count = |mark| records.iter().filter(|record| record.mask == mark).count() as i64;
    Range { low: count(ACKNOWLEDGED), high: count(BEGUN) - count(NOT_DONE) }
}

/// The counters in one client thread.
#[derive(Debug)]
pub struct Counters {
    known: Known,
}

impl Counters {
    /// Statements and judge.
    pub fn new(known: Known) -> Counters {
        Counters { known }
    }
}

impl Rule for Counters {
    fn statements(&self) -> Vec<String> {
        let table = format!("{}.counters", self.known.keyspace);
        vec![
            format!("UPDATE {table} SET hits = hits + 1 WHERE id = ?"),
            format!("SELECT hits FROM {table} WHERE id = ?"),
        ]
    }

    fn statement(&self, op: &Op) -> usize {
        if op.verb == Verb::Increment { INCREMENT } else { READ }
    }

    fn op(&mut self, verb: Verb, key: u64) -> Option<Op> {
        Some(Op { verb, key, detail: 0, token: Token::of_key(&key.to_be_bytes()) })
    }

    fn floor(&self, op: &Op, floor: &mut Floor) {
        floor[0] = self.known.tallies.answered(op.key);
    }

    fn begin(&mut self, op: &Op, _sequence: u64) -> u16 {
        self.known.tallies.begin(op.key);
        BEGUN
    }

    fn bind(&self, op: &Op, _sequence: u64, binder: &mut Binder<'_>) {
        binder.value(&op.key.to_be_bytes());
    }

    fn written(
        &mut self,
        op: &Op,
        _sent: Sent<'_>,
        _rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<Option<Op>> {
        self.known.tallies.answer(op.key);
        findings.mark = ACKNOWLEDGED;
        Ok(None)
    }

    fn read(
        &mut self,
        op: &Op,
        sent: Sent<'_>,
        mut rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<Option<Op>> {
        let (key, tallies) = (op.key, &self.known.tallies);
        findings.not_found += u64::from(rows.rows == 0);
        let count = if rows.rows == 0 { 0 } else { number(rows.cell()?).unwrap_or(0) };
        if !self.known.judges {
            return Ok(None);
        }
        let verdict = match self.known.promises.get(&key).map(|records| promised(records)) {
            Some(range) if (range.low..=range.high).contains(&count) => Ok(()),
            Some(range) => Err(range),
            None => tallies.narrow(key, count, sent.floor[0], tallies.begun(key)),
        };
        findings.proved.push("counts held against their increments");
        findings.violations.extend(verdict.err().map(|range| {
            let Range { low, high } = range;
            Violation::Count { key, count, low, high }
        }));
        if count == 0 {
            // The load phase has counted once on every one.
            findings.violations.push(Violation::Missing { key });
        }
        Ok(None)
    }

    fn settled(&mut self, op: &Op, how: Unanswered) -> u16 {
        if op.verb != Verb::Increment || how != Unanswered::NotDone {
            return 0;
        }
        self.known.tallies.withdraw(op.key);
        NOT_DONE
    }
}
