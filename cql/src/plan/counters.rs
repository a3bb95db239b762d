//! Additions to counters: evaluated here into numbers; the owner of the partition adds them to what is there.

use model::MutationBuilder;
use model::mutation::CounterChange;
use model::schema::ColumnId;

use super::cells::Stamp;
use super::record::check_bytes;
use crate::bind::Bindings;
use crate::error::{Error, Result};
use crate::expr::{Evaluated, Term};

/// About how many bytes a change takes beside its clustering key.
const CHANGE_BYTES: usize = 24;

/// What is added to a counter, before it is bound.
#[derive(Clone, Debug, PartialEq)]
pub enum CounterOp {
    /// `c = c + n`
    Add(Term),
    /// `c = c - n`
    Subtract(Term),
}

/// A change of the counter of one column.
#[derive(Clone, Debug, PartialEq)]
pub struct CounterWrite {
    /// Id of the column that is written.
    pub column: ColumnId,
    /// What is added to it.
    pub op: CounterOp,
}

impl CounterOp {
    /// The number that is added; `None` if it is unset.
    fn eval(&self, bindings: &Bindings<'_>) -> Result<Option<i64>> {
        let (CounterOp::Add(term) | CounterOp::Subtract(term)) = self;
        let value = term.eval(bindings)?;
        let by = match &value {
            Evaluated::Unset => return Ok(None),
            Evaluated::Null => {
                return Err(Error::invalid("Invalid null value for counter increment"));
            }
            Evaluated::Bytes(bytes) => bytes[..].try_into().map(i64::from_be_bytes),
        };
        let by = by.map_err(|_| {
            Error::invalid("Invalid value for counter increment: it is a number of 8 bytes")
        })?;
        match self {
            CounterOp::Add(_) => Ok(Some(by)),
            CounterOp::Subtract(_) => by.checked_neg().map(Some).ok_or_else(|| {
                Error::invalid(format!(
                    "The negation of {by} overflows supported counter precision (signed 8 bytes integer)"
                ))
            }),
        }
    }
}

/// Whether any of them is not unset.
pub(super) fn adds_anything(writes: &[CounterWrite], bindings: &Bindings<'_>) -> bool {
    writes.iter().any(|write| {
        let (CounterOp::Add(term) | CounterOp::Subtract(term)) = &write.op;
        !term.is_unset(bindings)
    })
}

/// Appends the changes of the counters of one row, each as often as `times` says; `None` is the static row. Gives about
/// how many bytes they take.
pub(super) fn put_counter_changes(
    writes: &[CounterWrite],
    (clustering, times): (Option<&[u8]>, usize),
    stamp: &Stamp<'_>,
    bindings: &Bindings<'_>,
    mutation: &mut MutationBuilder<'_>,
) -> Result<usize> {
    bindings.work.take_changes(writes.len())?;
    let mut bytes = 0;
    for CounterWrite { column, op } in writes {
        let Some(by) = op.eval(bindings)? else { continue };
        // Sums of counters wrap around.
        let by = by.wrapping_mul(times as i64);
        let (column, timestamp, now_s) = (*column, stamp.timestamp, stamp.now_s);
        mutation.counter_change(&CounterChange { clustering, column, timestamp, now_s, by });
        bytes += CHANGE_BYTES + clustering.map_or(0, <[u8]>::len);
        check_bytes(bytes)?;
    }
    Ok(bytes)
}
