//! Rows that are inserted if they are not there, and updated if a column has its value: each conditional write alone.
//!
//! ```text
//! claim    INSERT .. IF NOT EXISTS     a key that was never drawn before
//! change   UPDATE .. IF state = 0      a key of the load phase, one change of it under way at a time
//! contend  the same                    as many of one key under way as there are: which is the newest is not known
//! ```
//!
//! What is judged: a row shows the newest change that was acknowledged before the read was sent, or a newer one, and a
//! claim that was applied is there. One whose outcome is not known may be done later: its key is not changed again.
//! Of a row that is contended for only that it is there and whole.
//! Not here: what changes depend on each other (`bank`). `compare` measures the cost of a conditional write with this.

use std::collections::HashSet;

use model::Token;
use rand::RngExt;
use rand::rngs::SmallRng;

use super::scenario::Known;
use super::{Findings, Op, Rule, Sent, Unanswered, Verb};
use crate::error::Result;
use crate::limits::KEYS_MAX;
use crate::proof::{Floor, Violation};
use crate::value::Origin;
use crate::wire::{Binder, Rows};

/// The columns of the table.
pub const COLUMNS: &str = "id bigint PRIMARY KEY, state int, value text";

/// Keys that are claimed begin here: far behind those of the load phase.
const CLAIMED_FROM: u64 = KEYS_MAX / 2;
/// Keys that are tried for one without a change under way.
const KEYS_TRIED: u64 = 64;
/// What the journal notes of a write that was applied.
const APPLIED: u16 = 1;

const INSERT: usize = 0;
const UPDATE: usize = 1;
const READ: usize = 2;

/// The rows in one client thread, which changes every `threads`-th of them.
#[derive(Debug)]
pub struct Conditional {
    known: Known,
    rng: SmallRng,
    /// Keys with a change under way.
    busy: HashSet<u64>,
    /// Keys with a change of which it is not known whether it is done.
    doubtful: HashSet<u64>,
    /// Keys that were contended for: no change of them is known as the newest.
    contended: HashSet<u64>,
}

impl Conditional {
    /// Statements and judge.
    pub fn new(known: Known, rng: SmallRng) -> Conditional {
        let none = HashSet::new;
        Conditional { known, rng, busy: none(), doubtful: none(), contended: none() }
    }

    /// A key of this thread near `key` that may be changed, if there is one.
    fn changeable(&self, key: u64) -> Option<u64> {
        let (thread, threads) = self.known.thread;
        let first = key - key % threads + thread;
        let keys = (0..KEYS_TRIED).map(|step| (first + step * threads) % self.known.keys.max(1));
        let mut own = keys.filter(|key| key % threads == thread);
        own.find(|key| !self.busy.contains(key) && !self.doubtful.contains(key))
    }
}

impl Rule for Conditional {
    fn statements(&self) -> Vec<String> {
        let table = format!("{}.conditional", self.known.keyspace);
        vec![
            format!("INSERT INTO {table} (id, state, value) VALUES (?, 0, ?) IF NOT EXISTS"),
            format!("UPDATE {table} SET value = ? WHERE id = ? IF state = 0"),
            format!("SELECT value FROM {table} WHERE id = ?"),
        ]
    }

    fn statement(&self, op: &Op) -> usize {
        match op.verb {
            Verb::Open | Verb::Claim => INSERT,
            Verb::Change | Verb::Contend => UPDATE,
            _ => READ,
        }
    }

    fn op(&mut self, verb: Verb, key: u64) -> Option<Op> {
        let (verb, key) = match verb {
            Verb::Claim => (verb, self.rng.random_range(CLAIMED_FROM..KEYS_MAX)),
            Verb::Change => match self.changeable(key) {
                Some(key) => {
                    self.busy.insert(key);
                    (verb, key)
                }
                // So many are under way that one more would have to wait.
                None => (Verb::Read, key),
            },
            Verb::Contend => {
                self.contended.insert(key);
                (verb, key)
            }
            _ => (verb, key),
        };
        Some(Op { verb, key, detail: 0, token: Token::of_key(&key.to_be_bytes()) })
    }

    fn floor(&self, op: &Op, floor: &mut Floor) {
        if self.contended.contains(&op.key) {
            return;
        }
        let promised = self.known.promises.get(&op.key).into_iter().flatten();
        let promised = promised.map(|record| record.sequence).max().unwrap_or(0);
        floor[0] = self.known.tallies.answered(op.key).max(promised);
    }

    fn bind(&self, op: &Op, sequence: u64, binder: &mut Binder<'_>) {
        let length = self.known.value_bytes;
        let origin = Origin { key: op.key, field: 0, mask: 1, sequence };
        let value = |binder: &mut Binder<'_>| {
            binder.value_of(length, |out| origin.append_value(length, out));
        };
        if matches!(op.verb, Verb::Change | Verb::Contend) {
            value(binder);
        }
        binder.value(&op.key.to_be_bytes());
        if matches!(op.verb, Verb::Open | Verb::Claim) {
            value(binder);
        }
    }

    fn written(
        &mut self,
        op: &Op,
        sent: Sent<'_>,
        mut rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<Option<Op>> {
        self.busy.remove(&op.key);
        let judged = !self.contended.contains(&op.key);
        if rows.is_applied()? {
            self.known.tallies.answer_as(op.key, sent.sequence);
            findings.mark = if judged { APPLIED } else { 0 };
        } else if op.verb != Verb::Claim && op.verb != Verb::Open && self.known.judges {
            // Its state is always 0.
            findings.violations.push(Violation::Missing { key: op.key });
        }
        Ok(None)
    }

    fn read(
        &mut self,
        op: &Op,
        sent: Sent<'_>,
        mut rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<Option<Op>> {
        findings.not_found += u64::from(rows.rows == 0);
        if !self.known.judges {
            return Ok(None);
        }
        let (key, floor) = (op.key, sent.floor[0]);
        findings.proved.push("rows held against their conditional writes");
        let verdict = match rows.rows {
            0 => Err(Violation::Missing { key }),
            _ => match rows.cell()?.map(Origin::of_value) {
                Some(Ok(origin)) if origin.key != key => {
                    Err(Violation::Foreign { key, field: 0, origin })
                }
                Some(Ok(Origin { sequence, .. })) if sequence < floor => {
                    Err(Violation::Stale { key, field: 0, sequence, floor })
                }
                Some(Ok(_)) => Ok(()),
                _ => Err(Violation::Garbled { key, field: 0 }),
            },
        };
        findings.violations.extend(verdict.err());
        Ok(None)
    }

    fn settled(&mut self, op: &Op, how: Unanswered) -> u16 {
        if op.verb == Verb::Change && how == Unanswered::Unknown {
            self.doubtful.insert(op.key);
        }
        0
    }

    fn failed(&mut self, op: &Op) {
        if op.verb == Verb::Change {
            self.busy.remove(&op.key);
        }
    }
}
