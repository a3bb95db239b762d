//! Customers, found by three indexes: each row follows from its key, so that answers over millions of rows are known.
//!
//! ```text
//! row      id ─► mail (one row has it), city (every 4096th row), amount (every 1,048,576th), note (names its write)
//! mail     SELECT .. WHERE mail = ?
//! city     SELECT .. WHERE city = ? LIMIT ?
//! amount   SELECT .. WHERE amount >= ? AND amount < ? LIMIT ?         1 to 65,536 amounts
//! both     SELECT .. WHERE city = ? AND amount >= ? LIMIT ?           the upper half of the amounts
//! ```
//!
//! What is judged of a query
//! 1. Each row is what its key says, has what was asked for, and comes in the order of tokens.
//! 2. Of the rows that were acknowledged before the query was sent, those with what was asked for are known: the answer
//!    has the first of them, none left out, as far as its LIMIT goes.
//!
//! The rows with what was asked for are counted out if they are at most [`CUSTOMERS_KNOWN_MAX`]; of more, the first rule
//! holds, and that LIMIT is reached. Nothing is remembered of a row: there may be as many as the server has space for.

use std::sync::Arc;

use model::Token;
use rand::RngExt;
use rand::rngs::SmallRng;

use super::mix::Mix;
use super::scenario::number;
use super::{Findings, Op, Rule, Sent, Verb};
use crate::error::{Error, Result};
use crate::ledger::Frontier;
use crate::limits::{CUSTOMERS_KNOWN_MAX, VALUE_BYTES_MAX, VALUE_BYTES_MIN};
use crate::proof::{Floor, Violation};
use crate::value::Origin;
use crate::wire::{Binder, Rows};

/// The name of the table.
pub const TABLE: &str = "customers";
/// The columns of the table.
const COLUMNS: &str = "id bigint PRIMARY KEY, mail text, city text, amount bigint, note text";

/// Names of cities.
const CITIES: u64 = 1 << 12;
/// Amounts are below this.
const AMOUNTS: u64 = 1 << 20;
/// What one row has more than the row before, modulo [`AMOUNTS`]; odd, so that each amount is had.
const AMOUNT_STEP: u64 = 0x6_5f3b;
/// A range has 1 to 2^16 amounts, each power of two as often.
const RANGE_BITS_MAX: u64 = 16;

const INSERT: usize = 0;
const READ: usize = 1;
const BY_MAIL: usize = 2;
const BY_CITY: usize = 3;
const BY_AMOUNT: usize = 4;
const BY_BOTH: usize = 5;

const FIRST_NAMES: [&str; 16] = [
    "anna", "bruno", "carla", "dario", "elena", "fabio", "giulia", "hugo", "irene", "jonas",
    "katja", "luca", "marta", "nina", "oscar", "paola",
];
const LAST_NAMES: [&str; 16] = [
    "abate",
    "bianchi",
    "conti",
    "deluca",
    "esposito",
    "ferrari",
    "greco",
    "huber",
    "innocenti",
    "jovine",
    "keller",
    "lombardi",
    "moretti",
    "neri",
    "orlando",
    "pagano",
];
/// All of two letters, so that no two cities have one name.
const SYLLABLES: [&str; 16] = [
    "ba", "ce", "di", "fo", "gu", "la", "me", "ni", "po", "ru", "sa", "te", "vi", "zo", "ca", "re",
];

/// The shape of the rows.
#[derive(Clone, Debug)]
pub struct Customers {
    /// The keyspace of the table.
    pub keyspace: String,
    /// Bytes of a note.
    pub note_bytes: usize,
}

/// The mix unless another is asked for.
pub fn usual_mix() -> Mix {
    Mix::new(&[(Verb::ByMail, 25.0), (Verb::ByCity, 25.0), (Verb::ByAmount, 50.0)])
}

/// Whether a mix over customers may have `verb`.
pub fn knows(verb: Verb) -> bool {
    matches!(
        verb,
        Verb::Insert | Verb::Read | Verb::ByMail | Verb::ByCity | Verb::ByAmount | Verb::ByBoth
    )
}

/// Appends the mail address of a customer, which no other has.
fn append_mail(key: u64, out: &mut String) {
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let (first, last) =
        (FIRST_NAMES[(mixed & 15) as usize], LAST_NAMES[(mixed >> 4 & 15) as usize]);
    *out += &format!("{first}.{last}{key}@mail{}.example", mixed >> 8 & 31);
}

fn append_city(city: u64, out: &mut String) {
    for at in [0, 4, 8] {
        *out += SYLLABLES[(city >> at & 15) as usize];
    }
}

/// The number of a customer's city.
fn city_of(key: u64) -> u64 {
    key % CITIES
}

/// What a customer owes.
fn amount_of(key: u64) -> u64 {
    key.wrapping_mul(AMOUNT_STEP) % AMOUNTS
}

/// The number below [`AMOUNTS`] that all keys with this amount leave when they are divided by it.
fn rest_of(amount: u64) -> u64 {
    amount.wrapping_mul(INVERSE_STEP) % AMOUNTS
}

/// The number that times [`AMOUNT_STEP`] is 1 modulo 2^64: Newton's iteration, each round of which doubles the bits.
const INVERSE_STEP: u64 = {
    let (mut inverse, mut round) = (AMOUNT_STEP, 0);
    while round < 6 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(AMOUNT_STEP.wrapping_mul(inverse)));
        round += 1;
    }
    inverse
};
const _: () = assert!(AMOUNT_STEP.wrapping_mul(INVERSE_STEP) == 1);

fn token_of(key: u64) -> Token {
    Token::of_key(&key.to_be_bytes())
}

/// What a query asks for, as it is in the detail of its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    /// Amounts from this on.
    from: u64,
    /// And below this.
    to: u64,
    /// The city, if one is asked for.
    city: Option<u64>,
    /// The only customer, if a mail address is asked for.
    only: Option<u64>,
}

impl Asked {
    fn of(op: &Op) -> Asked {
        let all = Asked { from: 0, to: AMOUNTS, city: None, only: None };
        match op.verb {
            Verb::ByCity => Asked { city: Some(op.detail), ..all },
            Verb::ByAmount => Asked { from: op.detail >> 32, to: op.detail & 0xffff_ffff, ..all },
            Verb::ByBoth => Asked { from: AMOUNTS / 2, city: Some(op.detail), ..all },
            _ => Asked { only: Some(op.key), ..all },
        }
    }

    fn has(&self, key: u64) -> bool {
        (self.from..self.to).contains(&amount_of(key))
            && self.city.is_none_or(|city| city == city_of(key))
            && self.only.is_none_or(|only| only == key)
    }

    /// The customers below `end` that it asks for, in the order of tokens; `None` if they are too many to be counted out.
    fn known(&self, end: u64) -> Option<Vec<u64>> {
        let every = |first: u64, step: u64| (first..end).step_by(step as usize);
        let most = CUSTOMERS_KNOWN_MAX + 1;
        let mut keys: Vec<u64> = match (self.only, self.city) {
            (Some(only), _) => every(only, u64::from(u32::MAX)).take(1).collect(),
            (None, Some(city)) => {
                every(city, CITIES).filter(|key| self.has(*key)).take(most).collect()
            }
            (None, None) => {
                let amounts = self.from..self.to;
                amounts.flat_map(|amount| every(rest_of(amount), AMOUNTS)).take(most).collect()
            }
        };
        if keys.len() > CUSTOMERS_KNOWN_MAX {
            return None;
        }
        keys.sort_by_cached_key(|key| token_of(*key));
        Some(keys)
    }
}

impl Customers {
    /// Refuses notes that cannot name their write.
    pub fn validate(&self) -> Result<()> {
        if (VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&self.note_bytes) {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "--field-bytes must be between {VALUE_BYTES_MIN} and {VALUE_BYTES_MAX}"
        )))
    }

    /// The statement that makes the table; `options` goes behind WITH if it is not empty.
    pub fn create_table(&self, options: &str) -> String {
        let with = if options.is_empty() { String::new() } else { format!(" WITH {options}") };
        format!("CREATE TABLE IF NOT EXISTS {}.{TABLE} ({COLUMNS}){with}", self.keyspace)
    }
}

/// The customers in one client thread.
#[derive(Debug)]
pub struct Judge {
    /// The shape of the rows.
    pub shape: Customers,
    /// The most rows of an answer.
    pub limit: u32,
    /// Whether to judge what is read.
    pub judges: bool,
    /// Whether rows are found by indexes: without them such a statement is refused.
    pub finds: bool,
    /// Where inserts go on, shared by all threads; without one the phase inserts the keys of its source.
    pub frontier: Option<Arc<Frontier>>,
    /// The random generator of this thread.
    pub rng: SmallRng,
}

impl Judge {
    /// The customer of one row, if the row is what its key says.
    fn row(rows: &mut Rows<'_>) -> Result<std::result::Result<u64, Violation>> {
        let key = number(rows.cell()?).map_or(u64::MAX, |id| id as u64);
        let (mail, city, amount, note) = (rows.cell()?, rows.cell()?, rows.cell()?, rows.cell()?);
        let (mut own_mail, mut own_city) = (String::new(), String::new());
        append_mail(key, &mut own_mail);
        append_city(city_of(key), &mut own_city);
        let own = [
            mail == Some(own_mail.as_bytes()),
            city == Some(own_city.as_bytes()),
            number(amount) == Some(amount_of(key) as i64),
        ];
        if let Some(field) = own.iter().position(|is_own| !is_own) {
            return Ok(Err(Violation::Garbled { key, field: field as u8 }));
        }
        Ok(match note.map(Origin::of_value) {
            Some(Ok(origin)) if origin.key == key => Ok(key),
            Some(Ok(origin)) => Err(Violation::Foreign { key, field: 3, origin }),
            _ => Err(Violation::Garbled { key, field: 3 }),
        })
    }

    fn judge(&self, op: &Op, end: u64, mut rows: Rows<'_>, findings: &mut Findings) -> Result<()> {
        let (asked, mut keys) = (Asked::of(op), Vec::with_capacity(rows.rows as usize));
        for _ in 0..rows.rows {
            match Self::row(&mut rows)? {
                Ok(key) => keys.push(key),
                Err(violation) => findings.violations.push(violation),
            }
        }
        let is_ordered = |pair: &[u64]| token_of(pair[0]) < token_of(pair[1]);
        let strays = keys.iter().filter(|key| !asked.has(**key));
        let late = keys.windows(2).filter(|pair| !is_ordered(pair)).map(|pair| &pair[1]);
        let misplaced = strays.chain(late).map(|key| Violation::Misplaced { key: *key });
        findings.violations.extend(misplaced);
        let is_full = keys.len() as u64 == u64::from(self.limit);
        // Rows that are being written may come between those that were there.
        let mut there = keys.iter().filter(|key| **key < end);
        let Some(known) = asked.known(end) else {
            findings.proved.push("queries of many rows held against their conditions");
            if !is_full {
                let (expected, rows) = (self.limit, keys.len() as u32);
                findings.violations.push(Violation::Incomplete { key: op.key, expected, rows });
            }
            return Ok(());
        };
        findings.proved.push("queries held against all rows that they ask for");
        let failed = |key: u64| self.frontier.as_ref().is_some_and(|keys| keys.failed(key));
        for key in known {
            match there.next() {
                Some(found) if *found == key => {}
                None if is_full || failed(key) => {}
                _ => {
                    findings.violations.push(Violation::Unfound { key, sequence: 0 });
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl Rule for Judge {
    fn statements(&self) -> Vec<String> {
        let table = format!("{}.{TABLE}", self.shape.keyspace);
        let columns = "id, mail, city, amount, note";
        let select = |rest: &str| format!("SELECT {columns} FROM {table} WHERE {rest}");
        let by_key = vec![
            format!("INSERT INTO {table} ({columns}) VALUES (?, ?, ?, ?, ?)"),
            select("id = ?"),
        ];
        if !self.finds {
            return by_key;
        }
        let by_index = [
            select("mail = ?"),
            select("city = ? LIMIT ?"),
            select("amount >= ? AND amount < ? LIMIT ?"),
            select("city = ? AND amount >= ? LIMIT ?"),
        ];
        by_key.into_iter().chain(by_index).collect()
    }

    fn statement(&self, op: &Op) -> usize {
        match op.verb {
            Verb::Insert => INSERT,
            Verb::ByMail => BY_MAIL,
            Verb::ByCity => BY_CITY,
            Verb::ByAmount => BY_AMOUNT,
            Verb::ByBoth => BY_BOTH,
            _ => READ,
        }
    }

    fn op(&mut self, verb: Verb, key: u64) -> Option<Op> {
        let key = match (&self.frontier, verb) {
            (Some(frontier), Verb::Insert) => frontier.claim(),
            _ => key,
        };
        let detail = match verb {
            Verb::ByCity | Verb::ByBoth => city_of(key),
            Verb::ByAmount => {
                let width = 1 << self.rng.random_range(0..=RANGE_BITS_MAX);
                let from = self.rng.random_range(0..=AMOUNTS - width);
                from << 32 | (from + width)
            }
            _ => 0,
        };
        Some(Op { verb, key, detail, token: token_of(key) })
    }

    fn floor(&self, _op: &Op, floor: &mut Floor) {
        floor[0] = self.frontier.as_ref().map_or(0, |frontier| frontier.readable());
    }

    fn bind(&self, op: &Op, sequence: u64, binder: &mut Binder<'_>) {
        let (key, length) = (op.key, self.shape.note_bytes);
        let (mut mail, mut city) = (String::new(), String::new());
        append_mail(key, &mut mail);
        let asked = Asked::of(op);
        append_city(asked.city.unwrap_or(city_of(key)), &mut city);
        let limit = &self.limit.to_be_bytes();
        match op.verb {
            Verb::Insert => {
                binder.value(&key.to_be_bytes());
                binder.value(mail.as_bytes());
                binder.value(city.as_bytes());
                binder.value(&amount_of(key).to_be_bytes());
                let origin = Origin { key, field: 0, mask: 1, sequence };
                binder.value_of(length, |out| origin.append_value(length, out));
            }
            Verb::ByMail => binder.value(mail.as_bytes()),
            Verb::ByCity => {
                binder.value(city.as_bytes());
                binder.value(limit);
            }
            Verb::ByAmount => {
                binder.value(&asked.from.to_be_bytes());
                binder.value(&asked.to.to_be_bytes());
                binder.value(limit);
            }
            Verb::ByBoth => {
                binder.value(city.as_bytes());
                binder.value(&asked.from.to_be_bytes());
                binder.value(limit);
            }
            _ => binder.value(&key.to_be_bytes()),
        }
    }

    fn written(
        &mut self,
        op: &Op,
        _sent: Sent<'_>,
        _rows: Rows<'_>,
        _findings: &mut Findings,
    ) -> Result<Option<Op>> {
        if let Some(frontier) = &self.frontier {
            frontier.acknowledge(op.key);
        }
        Ok(None)
    }

    fn read(
        &mut self,
        op: &Op,
        sent: Sent<'_>,
        rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<Option<Op>> {
        findings.not_found += u64::from(rows.rows == 0);
        if self.judges {
            self.judge(op, sent.floor[0], rows, findings)?;
        }
        Ok(None)
    }

    fn failed(&mut self, op: &Op) {
        if let (Verb::Insert, Some(frontier)) = (op.verb, &self.frontier) {
            frontier.give_up(op.key);
        }
    }
}

#[cfg(test)]
mod tests;
