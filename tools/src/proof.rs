//! What a read must satisfy, whatever else is going on.
//!
//! Every write has a sequence, which is also its timestamp, so "newer" has one meaning for the
//! tool and for the server. For one row, with `floor[f]` the newest write of field `f` that was
//! acknowledged before the read was sent:
//!
//! 1. every value was made by this tool for this key and this field (`value.rs`);
//! 2. `sequence(f) >= floor[f]`: nothing acknowledged is lost or undone;
//! 3. if a field shows write `w`, every other field that `w` wrote shows `w` or something newer:
//!    rows are not torn.
//!
//! These hold for one server, or for a cluster read and written so that both overlap.

use std::fmt;

use crate::limits::FIELDS_MAX;
use crate::value::{Damage, Origin};

/// The newest acknowledged write of each field.
pub type Floor = [u64; FIELDS_MAX];

/// A broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A row that was acknowledged is not there.
    Missing {
        /// The row's key number.
        key: u64,
    },
    /// A field that was acknowledged is null.
    Null {
        /// The row's key number.
        key: u64,
        /// Number of the field, from 0.
        field: u8,
        /// The acknowledged write.
        floor: u64,
    },
    /// A value that this tool never wrote.
    Garbled {
        /// The row's key number.
        key: u64,
        /// Number of the field, from 0.
        field: u8,
    },
    /// A value of another key or field.
    Foreign {
        /// The row's key number.
        key: u64,
        /// Number of the field, from 0.
        field: u8,
        /// Where the value belongs.
        origin: Origin,
    },
    /// A value older than an acknowledged one.
    Stale {
        /// The row's key number.
        key: u64,
        /// Number of the field, from 0.
        field: u8,
        /// The write that was read.
        sequence: u64,
        /// The write that had been acknowledged.
        floor: u64,
    },
    /// A part of a write, next to something older than that write.
    Torn {
        /// The row's key number.
        key: u64,
        /// The field that shows the write.
        field: u8,
        /// The field that should.
        other: u8,
        /// Sequence number of the acknowledged write.
        sequence: u64,
    },
    /// A row that the read did not ask for, or out of its order.
    Misplaced {
        /// The key number, or the position in a series.
        key: u64,
    },
    /// Fewer rows than had been acknowledged inside the slice.
    Incomplete {
        /// Where the slice starts.
        key: u64,
        /// Rows that had been acknowledged.
        expected: u32,
        /// Rows that came.
        rows: u32,
    },
    /// A row whose time to live is over.
    Undead {
        /// The position in the series.
        key: u64,
    },
    /// The balances of a bank do not add up to what was paid in.
    Sum {
        /// The bank's key number.
        key: u64,
        /// What the accounts have together.
        sum: i128,
        /// What was paid in.
        expected: i128,
    },
    /// An account does not have what its transfers leave it.
    Balance {
        /// The bank's key number.
        key: u64,
        /// The account's number.
        account: u8,
        /// What the account has.
        balance: i64,
        /// What the transfers that are there leave it.
        expected: i128,
    },
    /// A conditional write that was answered as applied is not there, or is not what was written.
    Unapplied {
        /// The bank's key number.
        key: u64,
        /// The write's number.
        sequence: u64,
    },
    /// A conditional write that was answered as refused is there.
    Refused {
        /// The bank's key number.
        key: u64,
        /// The write's number.
        sequence: u64,
    },
    /// A counter outside of what was acknowledged and what may have been done beside.
    Count {
        /// The counter's key number.
        key: u64,
        /// What was read.
        count: i64,
        /// The least it may be.
        low: i64,
        /// The most it may be.
        high: i64,
    },
    /// A row that an index must lead to and does not.
    Unfound {
        /// The row's key number.
        key: u64,
        /// The write that gave it the value, 0 if that is not known.
        sequence: u64,
    },
    /// A row that a view must show and does not.
    Unseen {
        /// The row's key number.
        key: u64,
        /// The write that put it there.
        sequence: u64,
    },
    /// A row in a view that a newer write has moved or removed.
    Left {
        /// The row's key number.
        key: u64,
        /// The write that put it there.
        sequence: u64,
        /// The newest write of the row.
        newest: u64,
    },
    /// The rows of a batch do not carry one number.
    Part {
        /// The number of the batch's rows.
        key: u64,
        /// The newest number.
        sequence: u64,
        /// The oldest, 0 of a row that is not there.
        other: u64,
    },
}

impl Violation {
    /// The name it is counted under.
    pub fn name(&self) -> &'static str {
        match self {
            Violation::Missing { .. } => "missing row",
            Violation::Null { .. } => "missing field",
            Violation::Garbled { .. } => "garbled value",
            Violation::Foreign { .. } => "foreign value",
            Violation::Stale { .. } => "lost write",
            Violation::Torn { .. } => "torn row",
            Violation::Misplaced { .. } => "misplaced row",
            Violation::Incomplete { .. } => "incomplete slice",
            Violation::Undead { .. } => "expired row",
            Violation::Sum { .. } => "wrong sum",
            Violation::Balance { .. } => "wrong balance",
            Violation::Unapplied { .. } => "lost transfer",
            Violation::Refused { .. } => "refused transfer done",
            Violation::Count { .. } => "wrong count",
            Violation::Unfound { .. } => "row not found by index",
            Violation::Unseen { .. } => "row not in the view",
            Violation::Left { .. } => "row left in the view",
            Violation::Part { .. } => "part of a batch",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Violation::Missing { key } => write!(f, "key {key}: the row is not there"),
            Violation::Null { key, field, floor } => {
                write!(f, "key {key}: field{field} is null, write {floor} was acknowledged")
            }
            Violation::Garbled { key, field } => {
                write!(f, "key {key}: field{field} holds bytes that no write made")
            }
            Violation::Foreign { key, field, origin } => write!(
                f,
                "key {key}: field{field} holds key {}, field{}, write {}",
                origin.key, origin.field, origin.sequence
            ),
            Violation::Stale { key, field, sequence, floor } => write!(
                f,
                "key {key}: field{field} shows write {sequence}, write {floor} was acknowledged"
            ),
            Violation::Torn { key, field, other, sequence } => write!(
                f,
                "key {key}: field{field} shows write {sequence}, field{other} something older"
            ),
            Violation::Misplaced { key } => write!(f, "key {key}: not in its place"),
            Violation::Incomplete { key, expected, rows } => {
                write!(f, "from {key} on: {rows} rows, {expected} were acknowledged")
            }
            Violation::Undead { key } => write!(f, "position {key}: its time to live is over"),
            Violation::Sum { key, sum, expected } => {
                write!(f, "bank {key}: its accounts have {sum}, {expected} were paid in")
            }
            Violation::Balance { key, account, balance, expected } => {
                write!(
                    f,
                    "bank {key}: account {account} has {balance}, its transfers say {expected}"
                )
            }
            Violation::Unapplied { key, sequence } => {
                write!(f, "bank {key}: transfer {sequence} was applied and is not there")
            }
            Violation::Refused { key, sequence } => {
                write!(f, "bank {key}: transfer {sequence} was refused and is there")
            }
            Violation::Count { key, count, low, high } => {
                write!(f, "counter {key}: {count}, and it must be {low} to {high}")
            }
            Violation::Unfound { key, sequence } => {
                write!(f, "key {key}: the index does not lead to it, write {sequence}")
            }
            Violation::Unseen { key, sequence } => {
                write!(f, "key {key}: the view does not show write {sequence}")
            }
            Violation::Left { key, sequence, newest } => {
                write!(
                    f,
                    "key {key}: the view shows write {sequence} still, the newest is {newest}"
                )
            }
            Violation::Part { key, sequence, other } => {
                write!(f, "batch rows {key}: one shows batch {sequence}, another {other}")
            }
        }
    }
}

/// The fields of one row as they were read, checked one by one and then together.
#[derive(Debug)]
pub struct RowProof {
    key: u64,
    mask: u16,
    origins: [(u64, u16); FIELDS_MAX],
}

impl RowProof {
    /// Nothing read yet of the row `key`.
    pub fn new(key: u64) -> RowProof {
        RowProof { key, mask: 0, origins: [(0, 0); FIELDS_MAX] }
    }

    /// Takes in one field's value; `None` is null.
    #[inline]
    pub fn field(&mut self, field: u8, value: Option<&[u8]>) -> Result<(), Violation> {
        let key = self.key;
        let slot = usize::from(field);
        self.mask |= 1 << field;
        let Some(value) = value else {
            self.origins[slot] = (0, 0);
            return Ok(());
        };
        let origin = match Origin::of_value(value) {
            Ok(origin) => origin,
            Err(Damage::Short | Damage::Garbled(_)) => {
                return Err(Violation::Garbled { key, field });
            }
        };
        if origin.key != key || origin.field != field {
            return Err(Violation::Foreign { key, field, origin });
        }
        self.origins[slot] = (origin.sequence, origin.mask);
        Ok(())
    }

    /// Rules 2 and 3, over the fields that were taken in.
    #[inline]
    pub fn conclude(&self, floor: &Floor) -> Result<(), Violation> {
        let key = self.key;
        for field in bits(self.mask) {
            let slot = usize::from(field);
            let (sequence, floor) = (self.origins[slot].0, floor[slot]);
            if sequence < floor {
                return Err(match sequence {
                    0 => Violation::Null { key, field, floor },
                    _ => Violation::Stale { key, field, sequence, floor },
                });
            }
        }
        for field in bits(self.mask) {
            let (sequence, mask) = self.origins[usize::from(field)];
            // A write of one field cannot be torn: most updates end here.
            for other in bits(mask & self.mask & !(1 << field)) {
                if self.origins[usize::from(other)].0 < sequence {
                    return Err(Violation::Torn { key, field, other, sequence });
                }
            }
        }
        Ok(())
    }
}

/// The numbers of the bits that are set.
pub fn bits(mask: u16) -> impl Iterator<Item = u8> {
    (0..FIELDS_MAX as u8).filter(move |bit| mask >> bit & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a row of three fields, each given as (key, field, mask, sequence) of its value.
    fn check(fields: [Option<(u64, u8, u16, u64)>; 3], floor: [u64; 3]) -> Result<(), Violation> {
        let mut proof = RowProof::new(7);
        for (field, origin) in fields.into_iter().enumerate() {
            let mut value = Vec::new();
            if let Some((key, field, mask, sequence)) = origin {
                Origin { key, field, mask, sequence }.append_value(40, &mut value);
            }
            proof.field(field as u8, origin.map(|_| value.as_slice()))?;
        }
        let mut all = [0; FIELDS_MAX];
        all[..3].copy_from_slice(&floor);
        proof.conclude(&all)
    }

    const INSERT: [Option<(u64, u8, u16, u64)>; 3] =
        [Some((7, 0, 7, 100)), Some((7, 1, 7, 100)), Some((7, 2, 7, 100))];

    #[test]
    fn whole_rows_and_newer_updates_pass() {
        assert_eq!(check(INSERT, [100; 3]), Ok(()));
        let mut updated = INSERT;
        updated[1] = Some((7, 1, 0b010, 150));
        assert_eq!(check(updated, [100, 150, 100]), Ok(()));
        assert_eq!(check(updated, [100, 120, 100]), Ok(()));
        assert_eq!(check([None; 3], [0; 3]), Ok(()));
    }

    #[test]
    fn each_promise_has_its_violation() {
        let name = |fields, floor| check(fields, floor).unwrap_err().name();
        assert_eq!(name(INSERT, [100, 101, 100]), "lost write");
        assert_eq!(name([INSERT[0], None, INSERT[2]], [0, 1, 0]), "missing field");
        assert_eq!(name([INSERT[0], None, INSERT[2]], [0; 3]), "torn row");
        let mut other_key = INSERT;
        other_key[2] = Some((8, 2, 7, 100));
        assert_eq!(name(other_key, [0; 3]), "foreign value");
        let mut other_field = INSERT;
        other_field[2] = Some((7, 1, 7, 100));
        assert_eq!(name(other_field, [0; 3]), "foreign value");
        let mut older_part = INSERT;
        older_part[0] = Some((7, 0, 7, 200));
        assert_eq!(name(older_part, [0; 3]), "torn row");
        let mut proof = RowProof::new(7);
        assert_eq!(proof.field(0, Some(b"hello")), Err(Violation::Garbled { key: 7, field: 0 }));
    }
}
