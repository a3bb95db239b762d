//! Conditional writes (LWT): what clients are told of them: levels, `[applied]`, the rows that were found.
//!
//! ```text
//! statement or batch with IF ─► record: conditions, then what is written ─► the owner's queue of the partition
//!      ─► applied: the write is durable ─► [applied] true
//!      └► not applied: the rows as they are ─► [applied] false and these rows
//! ```
//!
//! The owner judges the conditions when all writes that came before can be read, and no other write of the partition
//! comes between (`engine/src/read_before_write.rs`). A client that is told of a time-out does not know whether the
//! write was applied: it may read, or write again with a condition that tells (`docs/conditional-writes.md`).
//!
//! Not here: how the record is bound (`binder.rs`, `cql/src/plan/conditions.rs`).

use cql::frame::consistency::Consistency;
use cql::frame::request::Parameters;
use cql::frame::response::Envelope;
use cql::plan::NotApplied;

use super::answer::WriteKind;
use super::{ExecuteError, Executor};

/// The write type of the protocol.
pub(super) const WRITE_TYPE: &str = "CAS";

impl Executor {
    /// Appends the answer to a write that was not applied, with the rows that its conditions have found.
    #[cold]
    pub(super) fn put_not_applied(
        &self,
        not_applied: &NotApplied,
        found: &[u8],
        envelope: &Envelope<'_>,
        out: &mut Vec<u8>,
    ) -> Result<u32, ExecuteError> {
        let parameters = Parameters::plain(Consistency::One, envelope.version);
        Ok(not_applied.put_found(found, self.state.own_time(&parameters), envelope, out)?)
    }
}

/// What a client is told of a conditional write that fails: of its serial level.
pub(super) fn kind(parameters: &Parameters<'_>) -> WriteKind {
    let level = parameters.serial_consistency.unwrap_or(Consistency::Serial);
    WriteKind { level, name: WRITE_TYPE }
}

/// Refuses a level of a message that no conditional write has.
pub(super) fn check_commit_level(level: Consistency) -> Result<(), ExecuteError> {
    match level.is_serial() {
        true => Err(ExecuteError::invalid(format!(
            "{} is not supported as conditional update commit consistency. Use ANY if you mean \"make sure it is accepted but I don't care how many replicas commit it for non-SERIAL reads\"",
            level.name()
        ))),
        false => Ok(()),
    }
}
