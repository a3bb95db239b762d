//! Counters whose increments have names: one that is sent again with its name is counted once (docs/counters.md).
//!
//! ```text
//! run      increment, named (key, number) ─► answered ─► now and then the same again: it must not count
//! verify   each that the journal has begun and not acknowledged ─► the same again ─► read: exactly what was begun
//! ```
//!
//! 1. An increment of which it is not known whether it was done is sent again with its name until it is answered. It
//!    was begun once, whatever number of attempts it takes.
//! 2. A check sends what is in doubt again, as an application would after a crash, and then knows the count: no range.
//!    Of what was begun more than [`NAMES_USED_US`] ago the server need not know the name any more: that is not sent,
//!    and may have been counted or not.
//!
//! Not here: increments without names, of which those in doubt stay so (`counters.rs`).

use std::collections::{BTreeSet, HashSet};

use model::Token;

use super::scenario::{Known, number};
use super::{Findings, Op, Rule, Sent, Verb};
use crate::error::Result;
use crate::journal::Record;
use crate::ledger::Range;
use crate::limits::NAMES_USED_US;
use crate::proof::{Floor, Violation};
use crate::wire::{Binder, Rows};

/// The columns of the table.
pub const COLUMNS: &str = "id bigint PRIMARY KEY, hits counter";

/// What the journal notes: before it is sent first, and when it is acknowledged.
const BEGUN: u16 = 1;
const ACKNOWLEDGED: u16 = 2;

/// One increment in so many is sent again after its answer.
const SENT_AGAIN_ONE_IN: u64 = 8;

const INCREMENT: usize = 0;
const READ: usize = 1;

/// The numbers of the increments of a counter with this mark in a journal.
fn numbers(records: &[Record], mark: u16) -> BTreeSet<u64> {
    records.iter().filter(|record| record.mask == mark).map(|record| record.sequence).collect()
}

/// What a counter must be by its records in a journal.
pub fn promised(records: &[Record]) -> Range {
    let count = |mark| numbers(records, mark).len() as i64;
    Range { low: count(ACKNOWLEDGED), high: count(BEGUN) }
}

/// The counters in one client thread.
#[derive(Debug)]
pub struct Named {
    known: Known,
    /// Increments that were sent and not answered.
    under_way: HashSet<u64>,
    /// In a check: those in doubt that were sent again and answered.
    settled: HashSet<u64>,
    /// The oldest number that is sent again: numbers are microseconds since 1970.
    oldest: u64,
}

impl Named {
    /// Statements and judge, at so many microseconds since 1970.
    pub fn new(known: Known, now_us: u64) -> Named {
        let oldest = now_us.saturating_sub(NAMES_USED_US);
        Named { known, under_way: HashSet::new(), settled: HashSet::new(), oldest }
    }

    /// An increment of a counter that is in doubt, of which the server still knows the name.
    fn doubtful(&self, key: u64) -> Option<u64> {
        let records = self.known.promises.get(&key)?;
        let acknowledged = numbers(records, ACKNOWLEDGED);
        let is_open = |begun: &u64| {
            *begun >= self.oldest && !acknowledged.contains(begun) && !self.settled.contains(begun)
        };
        numbers(records, BEGUN).into_iter().find(is_open)
    }

    /// What a counter must be now that those in doubt were sent again.
    fn promised_now(&self, records: &[Record]) -> Range {
        let Range { low, high } = promised(records);
        let settled = |begun: &u64| self.settled.contains(begun);
        Range {
            low: low + numbers(records, BEGUN).iter().filter(|b| settled(b)).count() as i64,
            high,
        }
    }

    fn operation(verb: Verb, key: u64, detail: u64) -> Op {
        Op { verb, key, detail, token: Token::of_key(&key.to_be_bytes()) }
    }
}

impl Rule for Named {
    fn statements(&self) -> Vec<String> {
        let table = format!("{}.named", self.known.keyspace);
        vec![
            format!("UPDATE {table} SET hits = hits + 1 WHERE id = ?"),
            format!("SELECT hits FROM {table} WHERE id = ?"),
        ]
    }

    fn statement(&self, op: &Op) -> usize {
        if op.verb.is_write() { INCREMENT } else { READ }
    }

    fn is_named(&self, statement: usize) -> bool {
        statement == INCREMENT
    }

    fn name(&self, op: &Op, sequence: u64) -> [u8; 16] {
        let number = if op.verb == Verb::Settle { op.detail } else { sequence };
        (u128::from(op.key) << 64 | u128::from(number)).to_be_bytes()
    }

    fn op(&mut self, verb: Verb, key: u64) -> Option<Op> {
        Some(match (verb, self.doubtful(key)) {
            (Verb::Settle, Some(number)) => Named::operation(verb, key, number),
            (Verb::Settle, None) => Named::operation(Verb::Read, key, 0),
            _ => Named::operation(verb, key, 0),
        })
    }

    fn floor(&self, op: &Op, floor: &mut Floor) {
        floor[0] = self.known.tallies.answered(op.key);
    }

    fn begin(&mut self, op: &Op, sequence: u64) -> u16 {
        // The second attempt is the same increment.
        if op.verb == Verb::Settle || !self.under_way.insert(sequence) {
            return 0;
        }
        self.known.tallies.begin(op.key);
        BEGUN
    }

    fn bind(&self, op: &Op, _sequence: u64, binder: &mut Binder<'_>) {
        binder.value(&op.key.to_be_bytes());
    }

    fn written(
        &mut self,
        op: &Op,
        sent: Sent<'_>,
        _rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<Option<Op>> {
        let key = op.key;
        if op.verb != Verb::Settle {
            self.under_way.remove(&sent.sequence);
            self.known.tallies.answer(key);
            findings.mark = ACKNOWLEDGED;
            let again = sent.sequence.is_multiple_of(SENT_AGAIN_ONE_IN);
            return Ok(again.then(|| Named::operation(Verb::Settle, key, sent.sequence)));
        }
        if !self.known.promises.contains_key(&key) {
            findings.proved.push("increments sent again after their answer");
            return Ok(None);
        }
        findings.proved.push("increments in doubt sent again");
        findings.mark = ACKNOWLEDGED;
        self.settled.insert(op.detail);
        Ok(self.op(Verb::Settle, key))
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
        let verdict = match self.known.promises.get(&key).map(|all| self.promised_now(all)) {
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

    fn journal_sequence(&self, op: &Op, sequence: u64) -> u64 {
        if op.verb == Verb::Settle { op.detail } else { sequence }
    }
}
