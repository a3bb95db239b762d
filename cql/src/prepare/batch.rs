//! `BATCH` to a plan: its statements one after the other, with one list of markers.

use std::sync::Arc;

use model::schema::Schema;

use super::counters::check_batch;
use super::write::{compile, timeout, timestamp, using_of};
use super::{check_writable, find_table, table_of, timeout_warning};
use crate::error::{Error, Result};
use crate::expr::{Collected, Compiler};
use crate::lang::ast::Batch;
use crate::plan::{BatchPlan, NotApplied};

/// What its user should know of a batch.
pub(super) fn batch_warnings(batch: &Batch, plan: &BatchPlan) -> Vec<String> {
    let asks = |one| !using_of(one).timeout.is_empty();
    let each = batch.statements.iter().zip(&plan.writes);
    let mut tables = each.filter(|(one, _)| asks(one)).map(|(_, write)| &write.table);
    tables.find_map(|table| timeout_warning(table)).into_iter().collect()
}

/// The plan of a batch, and what its statements have collected.
pub(super) fn compile_batch(
    batch: &Batch,
    names: &[Option<String>],
    schema: &Schema,
    keyspace: Option<&str>,
) -> Result<(BatchPlan, Collected)> {
    if !batch.using.ttl.is_empty() {
        return Err(Error::invalid("Global TTL on the BATCH statement is not supported."));
    }
    let mut collected = Collected::none(names.len());
    let mut writes = Vec::with_capacity(batch.statements.len());
    let (mut batch_timestamp, mut batch_timeout) = (None, None);
    for modification in &batch.statements {
        if !batch.using.timestamp.is_empty() && !using_of(modification).timestamp.is_empty() {
            return Err(Error::invalid(
                "Timestamp must be set either on BATCH or individual statements",
            ));
        }
        let table = find_table(table_of(modification), schema, keyspace)?;
        check_writable(table)?;
        let mut compiler = Compiler::going_on(schema, table, names, collected);
        if batch_timestamp.is_none() {
            batch_timestamp = timestamp(&batch.using, &mut compiler)?;
        }
        if batch_timeout.is_none() {
            batch_timeout = timeout(&batch.using, &mut compiler)?;
        }
        writes.push(compile(modification, table, &mut compiler)?);
        collected = compiler.into_collected();
    }
    let (timestamp, timeout) = (batch_timestamp, batch_timeout);
    check_batch(batch.kind, timestamp.is_some(), writes.iter().map(|write| &*write.table))?;
    if timestamp.is_some() && writes.iter().any(|write| write.condition.is_some()) {
        return Err(Error::invalid("Cannot provide custom timestamp for conditional BATCH"));
    }
    let not_applied = NotApplied::of_batch(writes.iter(), schema)?.map(Arc::new);
    let plan = BatchPlan { kind: batch.kind, timestamp, timeout, writes, not_applied };
    Ok((plan, collected))
}
