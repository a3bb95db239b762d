//! Rows and a materialized view of them: the view shows what the table has, under another key, and nothing else.
//!
//! ```text
//! table    id ─► tag, value           the value names its write, and the tag follows from key and write
//! view     tag, id ─► value           a write moves its row to another partition, in most cases
//!
//! tag, update, remove ─► acknowledged ─► look: the rows of this key in every partition of the view
//! find: one partition of the view
//! ```
//!
//! What is judged
//! 1. A look: exactly the row of the newest write, or none if that removed it.
//! 2. A find: no row that its newest write has moved or removed, and every row that it has put there.
//!    Both of keys that no other write, an older one either, was under way for: what is acknowledged may have found in
//!    the table what another one is still bringing to the view.
//! 3. In a check, where nothing is under way: the view shows of each key exactly what the table has, and that is the
//!    newest acknowledged write or a newer one.
//!
//! A write is known by its number with a bit that says whether it removes, so that the greatest is the newest. A
//! removal is in the journal before it is sent: after a crash it may explain that a row is not there.

use std::collections::{BTreeMap, HashSet};

use model::Token;

use super::indexed::{Row, rows_of, tag_of};
use super::scenario::Known;
use super::{Findings, Op, Rule, Sent, Unanswered, Verb};
use crate::error::Result;
use crate::journal::Record;
use crate::proof::{Floor, Violation};
use crate::value::Origin;
use crate::wire::{Binder, Rows};

/// The columns of the table.
pub const COLUMNS: &str = "id bigint PRIMARY KEY, tag int, value text";
/// The name of the view, behind that of the table.
pub const VIEW: &str = "by_tag";
/// What the view shows of the table.
pub const SHOWN: &str = "WHERE tag IS NOT NULL AND id IS NOT NULL PRIMARY KEY (tag, id)";

/// Partitions of the view: a look reads all of them.
pub const TAGS: u64 = 16;

/// What the journal notes: of a write that is acknowledged, of a removal that is, and before a removal is sent.
const WRITTEN: u16 = 1;
const REMOVED: u16 = 2;
const REMOVES: u16 = 4;

const INSERT: usize = 0;
const UPDATE: usize = 1;
const DELETE: usize = 2;
const READ: usize = 3;
const FIND: usize = 4;
const LOOK: usize = 5;

/// What a write is known by: the greatest is the newest.
fn number_of(sequence: u64, removes: bool) -> u64 {
    sequence << 1 | u64::from(removes)
}

/// The write that left a row of the view, or the table, as it is.
fn number(row: &Row) -> u64 {
    number_of(row.sequence, false)
}

/// The sequence of a write that put a row there; `None` of one that removed it.
fn put_by(number: u64) -> Option<u64> {
    (number & 1 == 0).then_some(number >> 1)
}

/// The rows and the view in one client thread.
#[derive(Debug)]
pub struct Views {
    known: Known,
    /// In a check: the write that the table shows of a key, `None` of no row, until its look is answered.
    of_table: BTreeMap<u64, Option<u64>>,
    /// Finds so far: they ask for every partition in turn.
    turn: u64,
}

impl Views {
    /// Statements and judge.
    pub fn new(known: Known) -> Views {
        Views { known, of_table: BTreeMap::new(), turn: 0 }
    }

    /// One partition of the view.
    fn judge_find(&self, tag: u64, rows: &[Row], epoch: u64, findings: &mut Findings) {
        findings.proved.push("partitions of a view held against the writes");
        let mut ids = HashSet::with_capacity(rows.len());
        for row in rows {
            if row.tag != tag || !ids.insert(row.id) {
                findings.violations.push(Violation::Misplaced { key: row.id });
            }
            let newest = self.known.tallies.alone_since(row.id, epoch);
            findings.violations.extend(newest.and_then(|newest| left_behind(row, newest)));
        }
        for key in (0..self.known.keys).filter(|key| !ids.contains(key)) {
            let newest = self.known.tallies.alone_since(key, epoch).and_then(put_by);
            if let Some(sequence) = newest.filter(|&newest| tag_of(key, newest, TAGS) == tag) {
                findings.violations.push(Violation::Unseen { key, sequence });
            }
        }
    }

    /// All rows of one key in the view.
    fn judge_look(&self, key: u64, rows: &[Row], epoch: u64, findings: &mut Findings) {
        let Some(newest) = self.known.tallies.alone_since(key, epoch) else { return };
        findings.proved.push("rows of a view held against the newest write");
        judge_exactly(key, rows, (put_by(newest), newest), findings);
    }

    /// The row of the table in a check, against what the journal says of it.
    fn judge_table(&mut self, key: u64, rows: &[Row], findings: &mut Findings) {
        let promised = self.known.promises.get(&key).map_or(&[][..], Vec::as_slice);
        let shown = rows.first().map(|row| row.sequence);
        findings.violations.extend(judge_promise(key, shown, promised).err());
        self.of_table.insert(key, shown);
    }
}

/// A row that a newer write has moved or removed, if it is one.
fn left_behind(row: &Row, newest: u64) -> Option<Violation> {
    let left = Violation::Left { key: row.id, sequence: row.sequence, newest: newest >> 1 };
    (number(row) < newest).then_some(left)
}

/// The rows of one key in the view must be that of one write, or none; `newest` says since when others are wrong.
fn judge_exactly(
    key: u64,
    rows: &[Row],
    (shown, newest): (Option<u64>, u64),
    findings: &mut Findings,
) {
    let is_shown = |row: &Row| row.id == key && Some(row.sequence) == shown;
    for row in rows.iter().filter(|row| !is_shown(row)) {
        let left = Violation::Left { key: row.id, sequence: row.sequence, newest: newest >> 1 };
        findings.violations.push(left);
    }
    match (shown, rows.iter().filter(|row| is_shown(row)).count()) {
        (None, _) | (Some(_), 1) => {}
        (Some(sequence), 0) => findings.violations.push(Violation::Unseen { key, sequence }),
        (Some(_), _) => findings.violations.push(Violation::Misplaced { key }),
    }
}

/// Whether the table may show the write `shown` of a key, or no row, after these records.
fn judge_promise(key: u64, shown: Option<u64>, records: &[Record]) -> Result<(), Violation> {
    let acknowledged = records.iter().filter(|record| record.mask != REMOVES);
    let newest =
        acknowledged.map(|record| number_of(record.sequence, record.mask == REMOVED)).max();
    let Some(newest) = newest else { return Ok(()) };
    let may_be_removed = |record: &Record| number_of(record.sequence, true) >= newest;
    match shown {
        Some(sequence) if number_of(sequence, false) >= newest => Ok(()),
        Some(sequence) => Err(Violation::Stale { key, field: 0, sequence, floor: newest >> 1 }),
        None if records.iter().any(|record| record.mask != WRITTEN && may_be_removed(record)) => {
            Ok(())
        }
        None => Err(Violation::Missing { key }),
    }
}

impl Rule for Views {
    fn statements(&self) -> Vec<String> {
        let table = format!("{}.views", self.known.keyspace);
        let view = format!("{table}_{VIEW}");
        let tags: Vec<String> = (0..TAGS).map(|tag| tag.to_string()).collect();
        let tags = tags.join(", ");
        vec![
            format!("INSERT INTO {table} (id, tag, value) VALUES (?, ?, ?)"),
            format!("UPDATE {table} SET tag = ?, value = ? WHERE id = ?"),
            format!("DELETE FROM {table} WHERE id = ?"),
            format!("SELECT id, tag, value FROM {table} WHERE id = ?"),
            format!("SELECT id, tag, value FROM {view} WHERE tag = ?"),
            format!("SELECT id, tag, value FROM {view} WHERE tag IN ({tags}) AND id = ?"),
        ]
    }

    fn statement(&self, op: &Op) -> usize {
        match op.verb {
            Verb::Tag => INSERT,
            Verb::Update => UPDATE,
            Verb::Remove => DELETE,
            Verb::Find => FIND,
            Verb::Look => LOOK,
            _ => READ,
        }
    }

    fn op(&mut self, verb: Verb, key: u64) -> Option<Op> {
        self.turn += u64::from(verb == Verb::Find);
        let detail = self.turn % TAGS;
        let token = match verb {
            Verb::Find => Token::of_key(&(detail as u32).to_be_bytes()),
            _ => Token::of_key(&key.to_be_bytes()),
        };
        Some(Op { verb, key, detail, token })
    }

    fn floor(&self, _op: &Op, floor: &mut Floor) {
        floor[0] = self.known.tallies.epoch();
    }

    fn begin(&mut self, op: &Op, sequence: u64) -> u16 {
        let removes = op.verb == Verb::Remove;
        self.known.tallies.begin_as(op.key, number_of(sequence, removes));
        if removes { REMOVES } else { 0 }
    }

    fn bind(&self, op: &Op, sequence: u64, binder: &mut Binder<'_>) {
        let (key, length) = (op.key, self.known.value_bytes);
        let tag = |binder: &mut Binder<'_>| {
            binder.value(&(tag_of(key, sequence, TAGS) as u32).to_be_bytes());
            let origin = Origin { key, field: 0, mask: 1, sequence };
            binder.value_of(length, |out| origin.append_value(length, out));
        };
        match op.verb {
            Verb::Find => binder.value(&(op.detail as u32).to_be_bytes()),
            Verb::Tag => {
                binder.value(&key.to_be_bytes());
                tag(binder);
            }
            Verb::Update => {
                tag(binder);
                binder.value(&key.to_be_bytes());
            }
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
        let removes = op.verb == Verb::Remove;
        self.known.tallies.answer_as(op.key, number_of(sent.sequence, removes));
        findings.mark = if removes { REMOVED } else { WRITTEN };
        Ok(self.known.judges.then_some(Op { verb: Verb::Look, ..*op }))
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
        let rows = rows_of(rows, TAGS, findings)?;
        match op.verb {
            Verb::Find => self.judge_find(op.detail, &rows, sent.floor[0], findings),
            Verb::Whole => {
                self.judge_table(op.key, &rows, findings);
                return Ok(Some(Op { verb: Verb::Look, ..*op }));
            }
            _ => match self.of_table.remove(&op.key) {
                Some(shown) => {
                    findings.proved.push("rows of a view held against the table");
                    let newest = number_of(shown.unwrap_or(0), false);
                    judge_exactly(op.key, &rows, (shown, newest), findings);
                }
                None => self.judge_look(op.key, &rows, sent.floor[0], findings),
            },
        }
        Ok(None)
    }

    fn settled(&mut self, op: &Op, how: Unanswered) -> u16 {
        if op.verb.is_write() && how == Unanswered::NotDone {
            self.known.tallies.leave(op.key);
        }
        0
    }

    fn failed(&mut self, op: &Op) {
        self.of_table.remove(&op.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a crash a removal that was under way may be done or not.
    #[test]
    fn only_a_removal_that_was_begun_explains_a_row_that_is_gone() {
        let record = |sequence, mask| Record { key: 1, sequence, mask };
        let judge = |shown, records: &[Record]| {
            judge_promise(1, shown, records).map_err(|violation| violation.name())
        };
        let written = [record(5, WRITTEN), record(7, WRITTEN)];
        assert_eq!(judge(Some(7), &written), Ok(()));
        assert_eq!(judge(Some(9), &written), Ok(()), "one in doubt");
        assert_eq!(judge(Some(5), &written), Err("lost write"));
        assert_eq!(judge(None, &written), Err("missing row"));
        let older = [record(6, REMOVES), record(7, WRITTEN)];
        assert_eq!(judge(None, &older), Err("missing row"));
        let begun = [record(7, WRITTEN), record(8, REMOVES)];
        assert_eq!((judge(None, &begun), judge(Some(7), &begun)), (Ok(()), Ok(())));
        let removed = [record(7, WRITTEN), record(8, REMOVES), record(8, REMOVED)];
        assert_eq!((judge(None, &removed), judge(Some(7), &removed)), (Ok(()), Err("lost write")));
        assert_eq!(judge(None, &[]), Ok(()), "nothing is promised");
    }
}
