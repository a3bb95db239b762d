//! Rows found by an index: a query by a value gives exactly the rows whose column has it.
//!
//! ```text
//! row      id ─► tag, value          the value names its write, and the tag follows from key and write
//! tag      writes a row anew, with another tag in most cases
//! find     SELECT .. WHERE tag = ?
//! ```
//!
//! What is judged of a query
//! 1. Each row has the tag that was asked for, and that its write gave it; none shows an older write than one that was
//!    acknowledged before the query was sent.
//! 2. Every row is there whose last write was acknowledged before the query was sent and gave it this tag, if no other
//!    was begun before the answer came.
//! 3. In a check, where nothing is under way: the rows are those that a read of the whole table finds with this tag.

use std::collections::HashSet;

use model::Token;

use super::scenario::{Known, number};
use super::{Findings, Op, Rule, Sent, Verb};
use crate::error::Result;
use crate::proof::{Floor, Violation};
use crate::value::Origin;
use crate::wire::{Binder, Rows};

/// The columns of the table.
pub const COLUMNS: &str = "id bigint PRIMARY KEY, tag int, value text";
/// The column with the index.
pub const INDEXED: &str = "tag";

/// Values of the indexed column.
pub const TAGS: u64 = 64;
/// What the journal notes of a write that is acknowledged.
const ACKNOWLEDGED: u16 = 1;

const WRITE: usize = 0;
const READ: usize = 1;
const FIND: usize = 2;
const SCAN: usize = 3;

/// The tag, of so many, that write `sequence` gives the row `key`.
pub(super) fn tag_of(key: u64, sequence: u64, tags: u64) -> u64 {
    let mixed = (key ^ sequence.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) % tags
}

/// One row of an answer that a write of this tool made.
pub(super) struct Row {
    /// The number of its key.
    pub(super) id: u64,
    /// The value of the column that it is found by.
    pub(super) tag: u64,
    /// The write that made it.
    pub(super) sequence: u64,
}

/// The rows of an answer that a write of this tool made, where there are so many tags; the others are violations.
pub(super) fn rows_of(mut rows: Rows<'_>, tags: u64, findings: &mut Findings) -> Result<Vec<Row>> {
    let mut whole = Vec::new();
    for _ in 0..rows.rows {
        let id = number(rows.cell()?).map_or(u64::MAX, |id| id as u64);
        let tag = rows.cell()?.and_then(|cell| cell.try_into().ok()).map(u32::from_be_bytes);
        let tag = tag.map_or(u64::MAX, u64::from);
        match rows.cell()?.map(Origin::of_value) {
            Some(Ok(origin)) if origin.key != id => {
                findings.violations.push(Violation::Foreign { key: id, field: 1, origin });
            }
            Some(Ok(Origin { sequence, .. })) if tag_of(id, sequence, tags) != tag => {
                findings.violations.push(Violation::Torn { key: id, field: 1, other: 0, sequence });
            }
            Some(Ok(Origin { sequence, .. })) => whole.push(Row { id, tag, sequence }),
            _ => findings.violations.push(Violation::Garbled { key: id, field: 1 }),
        }
    }
    Ok(whole)
}

/// The rows in one client thread.
#[derive(Debug)]
pub struct Indexed {
    known: Known,
    /// In a check: the keys that the query by a tag gave, of queries whose scan is under way.
    found: Vec<(u64, HashSet<u64>)>,
    /// Queries so far: they ask for every tag in turn.
    turn: u64,
}

impl Indexed {
    /// Statements and judge.
    pub fn new(known: Known) -> Indexed {
        Indexed { known, found: Vec::new(), turn: 0 }
    }

    /// The rows of a query, of which `tag` was asked for.
    fn judge_query(&self, tag: u64, rows: &[Row], epoch: u64, findings: &mut Findings) {
        findings.proved.push("queries by an index held against the writes");
        let mut ids = HashSet::with_capacity(rows.len());
        for row in rows {
            if row.tag != tag || !ids.insert(row.id) {
                findings.violations.push(Violation::Misplaced { key: row.id });
            }
        }
        for key in 0..self.known.keys {
            let Some(newest) = self.known.tallies.settled_before(key, epoch) else { continue };
            if tag_of(key, newest, TAGS) == tag && !ids.contains(&key) {
                findings.violations.push(Violation::Unfound { key, sequence: newest });
            }
        }
        for row in rows {
            let newest = self.known.tallies.settled_before(row.id, epoch).unwrap_or(0);
            if row.sequence < newest {
                let (key, sequence, floor) = (row.id, row.sequence, newest);
                findings.violations.push(Violation::Stale { key, field: 0, sequence, floor });
            }
        }
    }

    /// The whole table, against a query by `tag` and, once in a check, against the promises.
    fn judge_scan(&mut self, tag: u64, rows: &[Row], findings: &mut Findings) {
        let Some(at) = self.found.iter().position(|(asked, _)| *asked == tag) else { return };
        let (_, found) = self.found.swap_remove(at);
        findings.proved.push("queries by an index held against the whole table");
        let there: HashSet<u64> =
            rows.iter().filter(|row| row.tag == tag).map(|row| row.id).collect();
        for &key in there.difference(&found) {
            findings.violations.push(Violation::Unfound { key, sequence: 0 });
        }
        for &key in found.difference(&there) {
            findings.violations.push(Violation::Misplaced { key });
        }
        if tag > 0 {
            return;
        }
        for (&key, records) in self.known.promises.iter() {
            let floor = records.iter().map(|record| record.sequence).max().unwrap_or(0);
            match rows.iter().find(|row| row.id == key).map(|row| row.sequence) {
                None => findings.violations.push(Violation::Missing { key }),
                Some(sequence) if sequence < floor => {
                    findings.violations.push(Violation::Stale { key, field: 0, sequence, floor });
                }
                Some(_) => findings.proved.push("rows held against their writes"),
            }
        }
    }
}

impl Rule for Indexed {
    fn statements(&self) -> Vec<String> {
        let table = format!("{}.indexed", self.known.keyspace);
        vec![
            format!("INSERT INTO {table} (id, tag, value) VALUES (?, ?, ?)"),
            format!("SELECT id, tag, value FROM {table} WHERE id = ?"),
            format!("SELECT id, tag, value FROM {table} WHERE tag = ?"),
            format!("SELECT id, tag, value FROM {table}"),
        ]
    }

    fn statement(&self, op: &Op) -> usize {
        match op.verb {
            Verb::Tag => WRITE,
            Verb::Find | Verb::FindAll => FIND,
            Verb::Scan => SCAN,
            _ => READ,
        }
    }

    fn op(&mut self, verb: Verb, key: u64) -> Option<Op> {
        let detail = match verb {
            Verb::Find => {
                self.turn += 1;
                self.turn % TAGS
            }
            _ => key % TAGS,
        };
        Some(Op { verb, key, detail, token: Token::of_key(&key.to_be_bytes()) })
    }

    fn floor(&self, op: &Op, floor: &mut Floor) {
        floor[0] = match op.verb {
            Verb::Find => self.known.tallies.epoch(),
            _ => self.known.tallies.answered(op.key),
        };
    }

    fn begin(&mut self, op: &Op, sequence: u64) -> u16 {
        self.known.tallies.begin_as(op.key, sequence);
        0
    }

    fn bind(&self, op: &Op, sequence: u64, binder: &mut Binder<'_>) {
        let (key, length) = (op.key, self.known.value_bytes);
        match op.verb {
            Verb::Tag => {
                binder.value(&key.to_be_bytes());
                binder.value(&(tag_of(key, sequence, TAGS) as u32).to_be_bytes());
                let origin = Origin { key, field: 0, mask: 1, sequence };
                binder.value_of(length, |out| origin.append_value(length, out));
            }
            Verb::Find | Verb::FindAll => binder.value(&(op.detail as u32).to_be_bytes()),
            Verb::Scan => {}
            _ => binder.value(&key.to_be_bytes()),
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
        if !self.known.judges {
            return Ok(None);
        }
        let (tag, floor) = (op.detail, sent.floor[0]);
        let rows = rows_of(rows, TAGS, findings)?;
        match op.verb {
            Verb::Find => self.judge_query(tag, &rows, floor, findings),
            Verb::FindAll => {
                self.found.push((tag, rows.iter().map(|row| row.id).collect()));
                return Ok(Some(Op { verb: Verb::Scan, ..*op }));
            }
            Verb::Scan => self.judge_scan(tag, &rows, findings),
            _ => match rows.first() {
                None => findings.violations.push(Violation::Missing { key: op.key }),
                Some(&Row { sequence, .. }) if sequence < floor => {
                    let key = op.key;
                    findings.violations.push(Violation::Stale { key, field: 0, sequence, floor });
                }
                Some(_) => findings.proved.push("rows held against their writes"),
            },
        }
        Ok(None)
    }

    fn failed(&mut self, op: &Op) {
        self.found.retain(|(tag, _)| op.verb != Verb::Scan || *tag != op.detail);
    }
}
