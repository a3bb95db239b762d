//! The names that clients give to changes of counters, by which one that is sent again is known and counted once.
//!
//! ```text
//! messina-request-id ─► record: the name, IF NOT EXISTS; then the change ─► the owner's queue of the partition
//!      ─► the name is new: it and the sums are written, in one record
//!      └► it is there: the change was made before; nothing is written
//! either ─► void, with the time for which the name is kept
//! ```
//!
//! 1. A name is a row of `system.request_ids`, whose key is the key of the partition that is changed: so it has its
//!    token and its owner, whatever the number of shards, and both are in one record of the log.
//! 2. A change whose name is found is answered behind the record that wrote the name, as every conditional write is
//!    (`engine/src/read_before_write.rs`).
//!
//! Why a table of its own, and what was rejected: `docs/decisions/2026-11-23-counters-sent-again.md`.

use cql::bind::Bindings;
use cql::frame::consistency::Consistency;
use cql::frame::request::{Parameters, REQUEST_ID, ValueList};
use cql::frame::response::REQUEST_ID_KEPT;
use cql::frame::{Value, Version};
use cql::plan::{ConditionalWrite, Extent, Scratch, WritePlan};
use cql::prepare::Statement;
use model::MutationRef;

use super::statement::ServerStatement;
use super::{ExecuteError, Executor, Run};
use crate::limits::{REQUEST_ID_BYTES, REQUEST_ID_KEPT_S};

/// What the answer to a change with a name says beside its result.
pub(super) const KEPT: &[(&str, &[u8])] = &[(REQUEST_ID_KEPT, &REQUEST_ID_KEPT_S.to_be_bytes())];

/// Refuses a name of what is no change of counters: it would be passed over.
#[inline]
pub(super) fn check(run: Run<'_>) -> Result<(), ExecuteError> {
    match run.parameters.request_id {
        None => Ok(()),
        Some(_) => check_named(&run.statement.compiled.statement),
    }
}

#[cold]
fn check_named(statement: &Statement) -> Result<(), ExecuteError> {
    let counts = |plan: &WritePlan| plan.table.is_counter() && plan.condition.is_none();
    let is_known = match statement {
        Statement::Write(plan) => counts(plan),
        Statement::Batch(plan) => !plan.writes.is_empty() && plan.writes.iter().all(counts),
        _ => false,
    };
    if is_known { Ok(()) } else { Err(means_nothing()) }
}

/// The refusal of a name where it means nothing.
#[cold]
pub(super) fn means_nothing() -> ExecuteError {
    ExecuteError::invalid(format!(
        "{REQUEST_ID} names a change of counters; other statements have no use for it (docs/conditional-writes.md says how to send a conditional write again)"
    ))
}

impl Executor {
    /// Puts the name of a change, if it has one, before the change, which is of one partition then. Says whether it
    /// has one.
    #[inline]
    pub(super) fn name(
        &self,
        request_id: Option<&[u8]>,
        record: &mut Vec<u8>,
    ) -> Result<bool, ExecuteError> {
        match request_id {
            None => Ok(false),
            Some(request_id) => self.put_name(request_id, record).map(|()| true),
        }
    }

    #[cold]
    fn put_name(&self, request_id: &[u8], record: &mut Vec<u8>) -> Result<(), ExecuteError> {
        if request_id.len() != REQUEST_ID_BYTES {
            return Err(ExecuteError::invalid(format!(
                "{REQUEST_ID} has {REQUEST_ID_BYTES} bytes and not {}",
                request_id.len()
            )));
        }
        let name = {
            let mut mutations = MutationRef::of_trusted_record(record);
            let mut next = || mutations.next().map(|one| one.expect("it was just built"));
            // All values were unset: there is nothing to do twice.
            let Some(first) = next() else { return Ok(()) };
            while let Some(other) = next() {
                if (other.table, other.key) != (first.table, first.key) {
                    return Err(ExecuteError::invalid(format!(
                        "{REQUEST_ID} names a change of one partition, and this one is of several: send one for each"
                    )));
                }
            }
            self.name_of(&first, request_id)?
        };
        // The conditions of a record are those of its first mutation.
        record.splice(..0, name);
        Ok(())
    }

    /// The record that writes a name beside a partition if it is not there.
    fn name_of(&self, of: &MutationRef<'_>, name: &[u8]) -> Result<Vec<u8>, ExecuteError> {
        if self.names.get().is_none() {
            let text = format!(
                "INSERT INTO system.request_ids (row_key, cf_id, request_id) VALUES (?, ?, ?) IF NOT EXISTS USING TTL {REQUEST_ID_KEPT_S}"
            );
            let statement = self.state.compile(&self.shard, &text, None)?;
            self.names.set(statement).unwrap_or_else(|_| unreachable!("it was asked for above"));
        }
        let statement: &ServerStatement = self.names.get().expect("it was made above");
        let Statement::Write(plan) = &statement.compiled.statement else {
            unreachable!("an INSERT is a write");
        };
        let mut values = ValueList::new();
        for value in [of.key, of.table.0.as_bytes(), name] {
            values.push(Value::Bytes(value));
        }
        // What the client says of the time does not count: names of all clients are kept for as long.
        let parameters = Parameters::plain(Consistency::One, Version::V4);
        let mut bindings = Bindings::none(self.state.own_time(&parameters));
        bindings.bind(&values.as_values(Version::V4), statement.markers())?;
        let (mut name, mut scratch) = (Vec::new(), Scratch::default());
        let plans = std::slice::from_ref(&**plan);
        ConditionalWrite::bind(Extent::Statement, plans, &bindings, &mut scratch, &mut name)?;
        Ok(name)
    }
}
