//! What a write and a batch share: the record that takes their mutations, the buffers that binding
//! fills, and the rules of both.

use model::Token;
use model::limits::MUTATION_BYTES_MAX;

use crate::bind::Bindings;
use crate::error::{Error, Result};
use crate::expr::{Evaluated, Term};
use crate::literal::Duration;
use crate::restrict::RowKey;

/// Where a statement's mutations go: one record. `of` hears each token, so that a batch knows whether
/// several shards own it.
pub trait Records {
    /// The record, for a mutation of the partition at `token`.
    fn of(&mut self, token: Token) -> &mut Vec<u8>;
}

/// A record that no one asks about its owners.
impl Records for Vec<u8> {
    fn of(&mut self, _token: Token) -> &mut Vec<u8> {
        self
    }
}

/// Buffers that binding fills and forgets; kept by the caller, so that they are allocated once.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The partition key that is being bound.
    pub(super) key: Vec<u8>,
    /// The clustering key of the row that is being bound.
    pub(super) row: RowKey,
}

/// The value of a `USING TIMESTAMP`.
pub(super) fn timestamp(term: &Term, bindings: &Bindings<'_>) -> Result<i64> {
    match term.eval(bindings)? {
        Evaluated::Unset => Ok(bindings.time.timestamp_us),
        Evaluated::Null => Err(Error::invalid("Invalid null value of timestamp")),
        Evaluated::Bytes(bytes) => {
            let timestamp = bytes[..].try_into().map(i64::from_be_bytes);
            let timestamp = timestamp.map_err(|_| Error::invalid("Invalid timestamp value"))?;
            if timestamp == i64::MIN {
                return Err(Error::invalid(format!(
                    "Out of bound timestamp, must be in [{}, {}]",
                    i64::MIN + 1,
                    i64::MAX
                )));
            }
            Ok(timestamp)
        }
    }
}

/// The value of a `USING TIMEOUT`, in the words of ScyllaDB where it is none.
pub(super) fn timeout(
    term: Option<&Term>,
    bindings: &Bindings<'_>,
) -> Result<Option<std::time::Duration>> {
    let Some(term) = term else { return Ok(None) };
    let value = term.eval(bindings)?;
    let bytes = match &value {
        Evaluated::Unset => return Ok(None),
        Evaluated::Null => return Err(Error::invalid("Timeout value cannot be null")),
        Evaluated::Bytes(bytes) => bytes,
    };
    let time =
        Duration::from_bytes(bytes).ok_or_else(|| Error::invalid("Invalid timeout value"))?;
    if time.months != 0 || time.days != 0 {
        return Err(Error::invalid("Timeout values cannot be expressed in days/months"));
    }
    if time.nanos % 1_000_000 != 0 {
        return Err(Error::invalid(
            "Timeout values cannot have granularity finer than milliseconds",
        ));
    }
    let nanos = u64::try_from(time.nanos);
    let nanos = nanos.map_err(|_| Error::invalid("Timeout values must be non-negative"))?;
    Ok(Some(std::time::Duration::from_nanos(nanos)))
}

/// Refuses a write that has become larger than any log takes.
pub(super) fn check_bytes(bytes: usize) -> Result<()> {
    if bytes <= MUTATION_BYTES_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "Mutation of {bytes} bytes is too large for the maximum size of {MUTATION_BYTES_MAX}, which is \
         for all that one statement or batch writes"
    )))
}
