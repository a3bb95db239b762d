//! YCSB's core workloads A to F over the record table, and the phase that loads it.
//!
//! ```text
//! A  50 % read, 50 % update   zipfian      D  95 % read, 5 % insert            latest
//! B  95 % read,  5 % update   zipfian      E  95 % scan, 5 % insert            zipfian
//! C 100 % read                zipfian      F  50 % read, 50 % read-modify-write  zipfian
//! ```
//!
//! As in YCSB: an update writes one field chosen uniformly (or all of them, YCSB's `writeallfields`), a read reads all, a scan asks for 1 to
//! 100 records uniformly, "zipfian" is the scrambled one, and inserted keys are read only once
//! everything before them is acknowledged.

use std::sync::Arc;

use rand::RngExt;
use rand::rngs::SmallRng;

use super::mix::Mix;
use super::record::RecordShape;
use super::ring::Ring;
use super::{Findings, Op, Rule, Sent, Verb};
use crate::error::Result;
use crate::ledger::{Frontier, Ledger};
use crate::proof::{Floor, Violation};
use crate::wire::{Binder, Rows};

/// The mix of core workload `letter`; `None` if there is no such workload.
pub fn core_mix(letter: char) -> Option<Mix> {
    Some(match letter {
        'a' => Mix::new(&[(Verb::Read, 50.0), (Verb::Update, 50.0)]),
        'b' => Mix::new(&[(Verb::Read, 95.0), (Verb::Update, 5.0)]),
        'c' => Mix::new(&[(Verb::Read, 100.0)]),
        'd' => Mix::new(&[(Verb::Read, 95.0), (Verb::Insert, 5.0)]),
        'e' => Mix::new(&[(Verb::Scan, 95.0), (Verb::Insert, 5.0)]),
        'f' => Mix::new(&[(Verb::Read, 50.0), (Verb::ReadToModify, 50.0)]),
        _ => return None,
    })
}

/// Whether a mix over records may have `verb`.
pub fn knows(verb: Verb) -> bool {
    matches!(verb, Verb::Read | Verb::Update | Verb::Insert | Verb::Scan | Verb::ReadToModify)
}

/// The load phase: inserts.
#[derive(Debug)]
pub struct Fill {
    /// The shape of the records that are written.
    pub shape: RecordShape,
}

/// The run phase.
#[derive(Debug)]
pub struct Core {
    /// The shape of the records that are written.
    pub shape: RecordShape,
    /// Whether an update writes every field of its record, and not one.
    pub writes_all_fields: bool,
    /// The longest scan.
    pub scan_rows_max: u32,
    /// Where inserts go on, shared by all threads.
    pub frontier: Arc<Frontier>,
    /// What was acknowledged, shared by all threads; given when reads are to be judged.
    pub ledger: Option<Arc<Ledger>>,
    /// The order of the loaded keys; given when scans are to be judged.
    pub ring: Option<Arc<Ring>>,
    /// The random generator of this thread.
    pub rng: SmallRng,
}

impl Rule for Fill {
    fn statements(&self) -> Vec<String> {
        self.shape.statements()
    }

    fn statement(&self, op: &Op) -> usize {
        self.shape.statement(op)
    }

    fn op(&mut self, verb: Verb, key: u64) -> Option<Op> {
        Some(self.shape.op(verb, key, 0))
    }

    fn bind(&self, op: &Op, sequence: u64, binder: &mut Binder<'_>) {
        self.shape.bind(op, sequence, binder);
    }

    fn written(
        &mut self,
        op: &Op,
        _sent: Sent<'_>,
        _rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<Option<Op>> {
        findings.mark = self.shape.mask(op);
        Ok(None)
    }

    fn read(
        &mut self,
        _op: &Op,
        _sent: Sent<'_>,
        _rows: Rows<'_>,
        _findings: &mut Findings,
    ) -> Result<Option<Op>> {
        Ok(None)
    }
}

impl Core {
    fn judge(
        &self,
        op: &Op,
        sent: Sent<'_>,
        rows: &mut Rows<'_>,
        findings: &mut Findings,
    ) -> Result<()> {
        if rows.rows == 0 && self.frontier.failed(op.key) {
            return Ok(());
        }
        if op.verb == Verb::Scan {
            return self.shape.judge_scan((op, self.ring.as_deref()), sent, *rows, findings);
        }
        match rows.rows {
            0 => findings.violations.push(Violation::Missing { key: op.key }),
            1 => findings.violations.extend(self.shape.judge_row(op.key, sent.floor, rows)?.err()),
            _ => findings.violations.push(Violation::Misplaced { key: op.key }),
        }
        Ok(())
    }
}

impl Rule for Core {
    fn statements(&self) -> Vec<String> {
        self.shape.statements()
    }

    fn statement(&self, op: &Op) -> usize {
        self.shape.statement(op)
    }

    fn op(&mut self, verb: Verb, key: u64) -> Option<Op> {
        let (key, detail) = match verb {
            Verb::Insert => (self.frontier.claim(), 0),
            Verb::Update | Verb::ReadToModify if self.writes_all_fields => {
                (key, self.shape.every_field())
            }
            Verb::Update | Verb::ReadToModify => {
                (key, self.rng.random_range(0..self.shape.fields as u64))
            }
            Verb::Scan => (key, self.rng.random_range(1..=u64::from(self.scan_rows_max))),
            _ => (key, 0),
        };
        Some(self.shape.op(verb, key, detail))
    }

    fn floor(&self, op: &Op, floor: &mut Floor) {
        if let Some(ledger) = &self.ledger {
            ledger.floor(op.key, floor);
        }
    }

    fn bind(&self, op: &Op, sequence: u64, binder: &mut Binder<'_>) {
        self.shape.bind(op, sequence, binder);
    }

    fn written(
        &mut self,
        op: &Op,
        sent: Sent<'_>,
        _rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<Option<Op>> {
        findings.mark = self.shape.mask(op);
        if let Some(ledger) = &self.ledger {
            ledger.acknowledge(op.key, findings.mark, sent.sequence);
        }
        if op.verb == Verb::Insert {
            self.frontier.acknowledge(op.key);
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
        if self.ledger.is_some() {
            self.judge(op, sent, &mut rows, findings)?;
        }
        let follows = op.verb == Verb::ReadToModify;
        Ok(follows.then_some(Op { verb: Verb::WriteBack, ..*op }))
    }

    fn failed(&mut self, op: &Op) {
        if op.verb == Verb::Insert {
            self.frontier.give_up(op.key);
        }
    }
}
