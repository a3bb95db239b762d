//! The reads of the rows that changes need, and how much later than it says a write has to be written.

use model::read::{Limits, Partitions, ReadCommand, Slice};
use model::{MutationRef, Token};

use crate::error::{Error, Result};

/// The row of what is changed; `None` is the static row, which comes first.
pub(super) type Place<'m> = Option<&'m [u8]>;

/// Reads of the rows at these places of the partition of `mutation`, which ascend: of the static one, and of the others.
pub(super) fn reads_of(
    mutation: &MutationRef<'_>,
    mut places: Vec<Place<'_>>,
    now_s: u32,
) -> impl Iterator<Item = ReadCommand> + use<> {
    places.dedup();
    let has_static = places.first() == Some(&None);
    let rows = places.into_iter().flatten();
    let slices: Vec<Slice> = rows.map(|clustering| Slice::row(clustering.to_vec())).collect();
    let key: (Token, Box<[u8]>) = (mutation.token, mutation.key.into());
    let read = ReadCommand {
        table: mutation.table,
        partitions: Partitions::Keys(vec![key]),
        slices: vec![Slice::all()],
        reversed: false,
        static_alone: true,
        distinct: true,
        filters: Vec::new(),
        lookups: Vec::new(),
        nearest: None,
        limits: Limits::none(u64::MAX),
        resume: None,
        now_s,
    };
    let rows = ReadCommand { slices, static_alone: false, distinct: false, ..read.clone() };
    let static_row = has_static.then_some(read);
    static_row.into_iter().chain((!rows.slices.is_empty()).then_some(rows))
}

/// By how many microseconds later than `timestamp` something has to be written to be newer than `newest`, all of it: a
/// record may hold deletions of collections that are a microsecond older than it says.
pub(super) fn delay_us(timestamp: i64, newest: i64) -> Result<i64> {
    if timestamp.saturating_sub(1) > newest {
        return Ok(0);
    }
    let later = newest.checked_add(2).ok_or_else(|| {
        Error::invalid(
            "A row was written or deleted with the largest timestamp there is: nothing that reads it first can be newer",
        )
    })?;
    Ok(later.saturating_sub(timestamp))
}
