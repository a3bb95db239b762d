//! YCSB's table: a key and N text fields, and everything that is said to it.
//!
//! ```text
//! usertable (y_id text PRIMARY KEY, field0 text, field1 text, ..)          the name and the columns of YCSB
//! 0 READ   1 INSERT   2 SCAN   3 + f UPDATE of field f   3 + N UPDATE of all fields
//! ```
//!
//! Invariants
//! 1. A value says which write made it (`value.rs`): key, field, all fields of that write, sequence. So a read is
//!    judged without a copy of the data.
//! 2. `mask` is the set of fields that an operation writes, one bit each; a scan and a read write none.
//! 3. A scan goes on in the order of tokens from the key it was asked for. Rows that were inserted since may be among
//!    those that were loaded; of the loaded ones none may be left out.
//!
//! Not here: which operation is next (`workload/ycsb.rs`), what a row must show (`proof.rs`), the order of the loaded
//! keys (`workload/ring.rs`).

use model::Token;

use super::ring::{Gap, Ring};
use super::{Findings, Op, Sent, Verb};
use crate::error::{Error, Result};
use crate::limits::{FIELDS_MAX, VALUE_BYTES_MAX, VALUE_BYTES_MIN};
use crate::popularity::KeyName;
use crate::proof::{Floor, RowProof, Violation, bits};
use crate::value::Origin;
use crate::wire::{Binder, Rows};

/// The name of the table in every YCSB binding.
pub const TABLE: &str = "usertable";

/// The shape of the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordShape {
    /// The keyspace of the table.
    pub keyspace: String,
    /// Fields of a record.
    pub fields: usize,
    /// Bytes of a field.
    pub field_bytes: usize,
}

/// Statement numbers; the update of field `f` is `UPDATE_FIRST + f`, and the one of all fields follows the last of them.
const READ: usize = 0;
const INSERT: usize = 1;
const SCAN: usize = 2;
const UPDATE_FIRST: usize = 3;

impl RecordShape {
    /// Refuses shapes that cannot be verified or do not fit.
    pub fn validate(&self) -> Result<()> {
        if !(1..=FIELDS_MAX).contains(&self.fields) {
            return Err(Error::Invalid(format!("--fields must be between 1 and {FIELDS_MAX}")));
        }
        if !(VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&self.field_bytes) {
            return Err(Error::Invalid(format!(
                "--field-bytes must be between {VALUE_BYTES_MIN} (a value names its write) and {VALUE_BYTES_MAX}"
            )));
        }
        Ok(())
    }

    /// The statement that makes the table; `options` goes behind WITH if it is not empty.
    pub fn create_table(&self, options: &str) -> String {
        let fields: Vec<String> = (0..self.fields).map(|f| format!("field{f} text")).collect();
        let with = if options.is_empty() { String::new() } else { format!(" WITH {options}") };
        format!(
            "CREATE TABLE IF NOT EXISTS {}.{TABLE} (y_id text PRIMARY KEY, {}){with}",
            self.keyspace,
            fields.join(", ")
        )
    }

    /// All statements, at their numbers.
    pub fn statements(&self) -> Vec<String> {
        let table = format!("{}.{TABLE}", self.keyspace);
        let names: Vec<String> = (0..self.fields).map(|f| format!("field{f}")).collect();
        let names = names.join(", ");
        let marks = vec!["?"; self.fields + 1].join(", ");
        let mut statements = vec![
            format!("SELECT {names} FROM {table} WHERE y_id = ?"),
            format!("INSERT INTO {table} (y_id, {names}) VALUES ({marks})"),
            format!("SELECT y_id, {names} FROM {table} WHERE token(y_id) >= token(?) LIMIT ?"),
        ];
        statements.extend(
            (0..self.fields).map(|f| format!("UPDATE {table} SET field{f} = ? WHERE y_id = ?")),
        );
        let every: Vec<String> = (0..self.fields).map(|f| format!("field{f} = ?")).collect();
        statements.push(format!("UPDATE {table} SET {} WHERE y_id = ?", every.join(", ")));
        statements
    }

    /// The number of the statement for `op`.
    #[inline]
    pub fn statement(&self, op: &Op) -> usize {
        match op.verb {
            Verb::Insert => INSERT,
            Verb::Scan => SCAN,
            Verb::Update | Verb::WriteBack => UPDATE_FIRST + op.detail as usize,
            _ => READ,
        }
    }

    /// The operation `verb` on `key`.
    #[inline]
    pub fn op(&self, verb: Verb, key: u64, detail: u64) -> Op {
        Op { verb, key, detail, token: token_of(key) }
    }

    /// The fields that `op` writes.
    #[inline]
    pub fn mask(&self, op: &Op) -> u16 {
        match op.verb {
            Verb::Insert => self.all_fields(),
            Verb::Update | Verb::WriteBack if op.detail == self.every_field() => self.all_fields(),
            Verb::Update | Verb::WriteBack => 1 << op.detail,
            _ => 0,
        }
    }

    /// The `detail` of an update that writes all fields.
    #[inline]
    pub fn every_field(&self) -> u64 {
        self.fields as u64
    }

    fn all_fields(&self) -> u16 {
        (u32::from(u16::MAX) >> (FIELDS_MAX - self.fields)) as u16
    }

    /// Binds the values of `op`.
    #[inline]
    pub fn bind(&self, op: &Op, sequence: u64, binder: &mut Binder<'_>) {
        let name = KeyName::of(op.key);
        let mask = self.mask(op);
        let field = |field: u8, binder: &mut Binder<'_>| {
            let origin = Origin { key: op.key, field, mask, sequence };
            binder.value_of(self.field_bytes, |out| origin.append_value(self.field_bytes, out));
        };
        match op.verb {
            Verb::Insert => {
                binder.value(name.as_bytes());
                for f in 0..self.fields {
                    field(f as u8, binder);
                }
            }
            Verb::Update | Verb::WriteBack => {
                bits(mask).for_each(|f| field(f, binder));
                binder.value(name.as_bytes());
            }
            Verb::Scan => {
                binder.value(name.as_bytes());
                binder.value(&(op.detail as i32).to_be_bytes());
            }
            _ => binder.value(name.as_bytes()),
        }
    }

    /// Judges the one row that a point read may return.
    #[inline]
    pub fn judge_row(
        &self,
        key: u64,
        floor: &Floor,
        rows: &mut Rows<'_>,
    ) -> Result<Result<(), Violation>> {
        let mut proof = RowProof::new(key);
        let mut verdict = Ok(());
        for field in 0..self.fields {
            let cell = rows.cell()?;
            verdict = verdict.and_then(|()| proof.field(field as u8, cell));
        }
        Ok(verdict.and_then(|()| proof.conclude(floor)))
    }

    /// Judges a scan: it begins with the record it was asked from, goes on in token order, leaves out none that `ring`
    /// knows, ends after as many records as were asked for (or at the end of the ring), and all are whole.
    pub fn judge_scan(
        &self,
        (op, ring): (&Op, Option<&Ring>),
        sent: Sent<'_>,
        mut rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<()> {
        let mut tokens: Vec<Token> = Vec::new();
        if rows.rows == 0 {
            findings.violations.push(Violation::Missing { key: op.key });
        }
        if u64::from(rows.rows) > op.detail {
            findings.violations.push(Violation::Misplaced { key: op.key });
        }
        for row in 0..rows.rows {
            let name = rows.cell()?.unwrap_or_default();
            let token = Token::of_key(name);
            let mut ahead = rows;
            // The row says which key it is; its name must be that key's.
            let key = match ahead.cell()?.map(Origin::of_value) {
                Some(Ok(origin)) if KeyName::of(origin.key).as_bytes() == name => origin.key,
                _ => op.key,
            };
            let first_is_asked_for = row > 0 || key == op.key || token == op.token;
            let in_order = tokens.last().is_none_or(|&last| last <= token) && token >= op.token;
            if !first_is_asked_for || !in_order {
                findings.violations.push(Violation::Misplaced { key });
            }
            tokens.push(token);
            let floor = if key == op.key { *sent.floor } else { [0; FIELDS_MAX] };
            if let Err(violation) = self.judge_row(key, &floor, &mut rows)? {
                findings.violations.push(violation);
            }
        }
        let is_full = u64::from(rows.rows) >= op.detail;
        if let Some(gap) = ring.and_then(|ring| ring.gap(op.token, &tokens, is_full)) {
            findings.proved.push("scans held against the keys that were loaded");
            let Gap { expected, found: rows } = gap;
            if rows < expected {
                findings.violations.push(Violation::Incomplete { key: op.key, expected, rows });
            }
        }
        Ok(())
    }
}

/// Where the partition of the key lives.
#[inline]
pub(super) fn token_of(key: u64) -> Token {
    Token::of_key(KeyName::of(key).as_bytes())
}

#[cfg(test)]
mod tests;
