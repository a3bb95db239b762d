//! Logged batches over ten partitions: all rows of a batch carry its number, or none.
//!
//! ```text
//! group g  ─► rows 10·g … 10·g+9, a partition each     one batch writes all ten
//! ```
//!
//! A batch is atomic, not isolated: a read may meet one under way in some of its rows. A read is judged by two rules:
//!
//! 1. no row shows something older than the newest batch that was acknowledged before the read was sent;
//! 2. if no newer batch was begun before its answer came, all rows show the same one.
//!
//! In a check nothing is under way: the second rule is for every group, whatever a crash interrupted.

use model::Token;

use super::scenario::{Known, number};
use super::{Findings, Op, Rule, Sent, Verb};
use crate::error::Result;
use crate::proof::{Floor, Violation};
use crate::value::Origin;
use crate::wire::{Binder, Rows};

/// The columns of the table.
pub const COLUMNS: &str = "id bigint PRIMARY KEY, value text";

/// Rows of a batch, each a partition.
const ROWS: u64 = 10;
/// What the journal notes of a batch that is acknowledged.
const ACKNOWLEDGED: u16 = 1;

const WRITE: usize = 0;
const READ: usize = 1;

/// The batches in one client thread.
#[derive(Debug)]
pub struct Batches {
    known: Known,
}

impl Batches {
    /// Statements and judge.
    pub fn new(known: Known) -> Batches {
        Batches { known }
    }

    /// The numbers that the rows of `group` show, 0 of one that is not there.
    fn numbers(
        &self,
        group: u64,
        mut rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<[u64; ROWS as usize]> {
        let mut numbers = [0; ROWS as usize];
        for _ in 0..rows.rows {
            let id = number(rows.cell()?).map_or(u64::MAX, |id| id as u64);
            let value = rows.cell()?;
            let slot = id.wrapping_sub(group * ROWS);
            if slot >= ROWS {
                findings.violations.push(Violation::Misplaced { key: id });
                continue;
            }
            match value.map(Origin::of_value) {
                Some(Ok(origin)) if origin.key == id => numbers[slot as usize] = origin.sequence,
                Some(Ok(origin)) => {
                    findings.violations.push(Violation::Foreign { key: id, field: 0, origin });
                }
                _ => findings.violations.push(Violation::Garbled { key: id, field: 0 }),
            }
        }
        Ok(numbers)
    }
}

impl Rule for Batches {
    fn statements(&self) -> Vec<String> {
        let table = format!("{}.batches", self.known.keyspace);
        let insert = format!("INSERT INTO {table} (id, value) VALUES (?, ?); ");
        let marks = vec!["?"; ROWS as usize].join(", ");
        vec![
            format!("BEGIN BATCH {}APPLY BATCH", insert.repeat(ROWS as usize)),
            format!("SELECT id, value FROM {table} WHERE id IN ({marks})"),
        ]
    }

    fn statement(&self, op: &Op) -> usize {
        if op.verb == Verb::Batch { WRITE } else { READ }
    }

    fn op(&mut self, verb: Verb, key: u64) -> Option<Op> {
        Some(Op { verb, key, detail: 0, token: Token::of_key(&(key * ROWS).to_be_bytes()) })
    }

    fn floor(&self, op: &Op, floor: &mut Floor) {
        let promised = self.known.promises.get(&op.key).into_iter().flatten();
        let promised = promised.map(|record| record.sequence).max().unwrap_or(0);
        floor[0] = self.known.tallies.answered(op.key).max(promised);
    }

    fn begin(&mut self, op: &Op, sequence: u64) -> u16 {
        self.known.tallies.begin_as(op.key, sequence);
        0
    }

    fn bind(&self, op: &Op, sequence: u64, binder: &mut Binder<'_>) {
        let length = self.known.value_bytes;
        for key in op.key * ROWS..(op.key + 1) * ROWS {
            binder.value(&key.to_be_bytes());
            if op.verb == Verb::Batch {
                let origin = Origin { key, field: 0, mask: 1, sequence };
                binder.value_of(length, |out| origin.append_value(length, out));
            }
        }
    }

    fn written(
        &mut self,
        op: &Op,
        sent: Sent<'_>,
        _rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<Option<Op>> {
        self.known.tallies.answer_as(op.key, sent.sequence);
        findings.mark = ACKNOWLEDGED;
        Ok(None)
    }

    fn read(
        &mut self,
        op: &Op,
        sent: Sent<'_>,
        rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<Option<Op>> {
        let key = op.key;
        findings.not_found += u64::from(rows.rows == 0);
        if !self.known.judges {
            return Ok(None);
        }
        let numbers = self.numbers(key, rows, findings)?;
        let floor = sent.floor[0];
        let (oldest, newest) = numbers.iter().fold((u64::MAX, 0), |(oldest, newest), &number| {
            (number.min(oldest), number.max(newest))
        });
        findings.proved.push("groups of rows held against their batches");
        if newest == 0 {
            findings.violations.push(Violation::Missing { key });
        } else if oldest != newest && self.known.tallies.begun(key) <= floor {
            findings.violations.push(Violation::Part { key, sequence: newest, other: oldest });
        } else if oldest < floor {
            let lost = Violation::Stale { key, field: 0, sequence: oldest, floor };
            findings.violations.push(lost);
        }
        Ok(None)
    }
}
