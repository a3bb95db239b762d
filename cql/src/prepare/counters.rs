//! What is refused of counters, in Cassandra's words: statements that would set one, expire one, or give one a time;
//! and batches that have other statements beside.
//!
//! Not here: what no table of counters can be (`ddl/table.rs`), what an assignment adds (`write.rs`).

use model::Table;

use crate::error::{Error, Result};
use crate::lang::ast::{BatchKind, Modification};
use crate::plan::WritePlan;

/// Refuses an INSERT into a table of counters.
pub(super) fn check_form(modification: &Modification, table: &Table) -> Result<()> {
    match modification {
        Modification::Insert(_) if table.is_counter() => Err(Error::invalid(
            "INSERT statements are not allowed on counter tables, use UPDATE instead",
        )),
        _ => Ok(()),
    }
}

/// Refuses what no write of counters may have, once everything else is found to be right.
pub(super) fn check_plan(plan: &WritePlan, is_conditional: bool) -> Result<()> {
    if !plan.table.is_counter() {
        return Ok(());
    }
    let refused = |text: &str| Err(Error::invalid(text));
    if is_conditional {
        return refused("Conditional updates are not supported on counter tables");
    }
    if plan.timestamp.is_some() {
        return refused("Cannot provide custom timestamp for counter updates");
    }
    if plan.ttl.is_some() {
        return refused("Cannot provide custom TTL for counter updates");
    }
    Ok(())
}

/// Refuses a batch of this kind whose statements write these tables; says whether it writes counters.
pub fn check_batch<'t>(
    kind: BatchKind,
    has_timestamp: bool,
    tables: impl IntoIterator<Item = &'t Table>,
) -> Result<bool> {
    let refused = |text: &str| Err(Error::invalid(text));
    if has_timestamp && kind == BatchKind::Counter {
        return refused("Cannot provide custom timestamp for counter BATCH");
    }
    let (mut counters, mut others) = (false, false);
    for table in tables {
        let is_counter = table.is_counter();
        if has_timestamp && is_counter {
            return refused("Cannot provide custom timestamp for a BATCH containing counters");
        }
        if kind == BatchKind::Counter && !is_counter {
            return refused("Cannot include non-counter statement in a counter batch");
        }
        counters |= is_counter;
        others |= !is_counter;
    }
    if counters && others {
        return refused("Counter and non-counter mutations cannot exist in the same batch");
    }
    if counters && kind == BatchKind::Logged {
        return refused("Cannot include a counter statement in a logged batch");
    }
    Ok(counters)
}
