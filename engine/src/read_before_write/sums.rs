//! Numbers and texts that grow under a condition: `v = v + n`.
//!
//! Each change of a statement sees what those before it have made of the value, as in Cassandra; two statements of a
//! batch both see what was there before. Where there is no value none is written.
//!
//! Not here: arithmetic, which the owner of an engine [gives](Engine::set_sum).

use model::cell::Life;
use model::mutation::{ListChange, ListOp};
use model::{CqlType, Table};

use crate::engine::Engine;
use crate::error::{Error, Result};

/// The sum of two values of a type, or the text of both; `None` if one of them is empty. The error says why there is none.
pub type Sum = fn(&CqlType, &[u8], &[u8]) -> std::result::Result<Option<Vec<u8>>, String>;

impl Engine {
    /// Says how values are added up. Before that, writes that need it are refused.
    pub fn set_sum(&self, sum: Sum) {
        assert!(self.sum.set(sum).is_ok(), "it is said once");
    }
}

/// What makes sums of the columns of a table.
#[derive(Clone, Copy)]
pub(super) struct Sums<'t> {
    pub(super) table: &'t Table,
    pub(super) sum: Option<Sum>,
}

/// What a column becomes: timestamp, life and value.
pub(super) type Grown = (i64, Life, Vec<u8>);

impl Sums<'_> {
    /// What a column becomes whose value is `there`, by the next of its changes; `None` if that is nothing.
    pub(super) fn grown(self, there: Grown, change: &ListChange<'_>) -> Result<Option<Grown>> {
        let ListOp::Grow { value, expiry } = change.op else {
            unreachable!("a column that grows is no list")
        };
        // It may have been dropped since the statement was prepared.
        let Some(column) = self.table.column_by_id(change.column) else { return Ok(None) };
        let Some(sum) = self.sum else {
            return Err(Error::invalid("Nothing adds up values here"));
        };
        let ty = &column.ty;
        let sum = sum(ty, &there.2, value)
            .map_err(|why| Error::invalid(format!("the operation '{ty} + {ty}' failed: {why}")))?;
        // Newer than what was read, also where no condition looked at the row.
        let timestamp = change.timestamp.max(there.0.saturating_add(1));
        Ok(sum.map(|sum| (timestamp, expiry.map_or(Life::Live, Life::Expiring), sum)))
    }
}
