//! How much work a write may take where it is bound on its core, in the step that took its request.
//!
//! What takes more is not bound any further, and begins anew: a thread beside the core binds a statement
//! (`beside_core.rs`), a BATCH message is bound in steps (`batch.rs`), or beside the core as well if it has such a
//! statement. A short request may name millions of rows or hash a long value many times.
//!
//! Not here: what calls functions of users, which run on the core; what a unit of work is (`cql/src/expr/work.rs`).

use std::cell::Cell;

use cql::bind::Bindings;
use cql::prepare::Prepared;

use super::ExecuteError;
use crate::limits::BOUND_AT_ONCE_WORK;

/// Whether a write is bound in the step that took it, by the work that it takes.
#[derive(Default)]
pub(super) struct WorkAtOnce {
    is_too_much: Cell<bool>,
}

impl WorkAtOnce {
    /// Lets a statement have so much work and no more, unless it must be bound on the core.
    #[inline]
    pub(super) fn limit(prepared: &Prepared, bindings: &mut Bindings<'_>) {
        if !prepared.calls_users() {
            bindings.set_work_at_once(BOUND_AT_ONCE_WORK);
        }
    }

    /// Notes whether a statement that was bound needs more.
    #[inline]
    pub(super) fn note(&self, needs_more: bool) {
        if needs_more {
            self.is_too_much.set(true);
        }
    }

    /// An error, which no client sees, once a BATCH message takes too many units of work.
    pub(super) fn check(&self, units: u64) -> Result<(), ExecuteError> {
        if units <= BOUND_AT_ONCE_WORK {
            return Ok(());
        }
        self.is_too_much.set(true);
        Err(ExecuteError::Overloaded(String::new()))
    }

    /// Whether it is to be bound anew. What binding has given so far is dropped.
    #[inline]
    pub(super) fn is_too_much(&self) -> bool {
        self.is_too_much.get()
    }
}
