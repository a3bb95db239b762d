//! Prepared statements as a client remembers them, and how often a server had forgotten one without a reason.
//!
//! ```text
//! UNPREPARED has a reason if, since PREPARE,   columns of the table were added or dropped,
//!                                              or many other statements were prepared: memory for them is bounded
//! ```
//!
//! The second cannot be known of one answer: what a statement takes depends on its length. So answers without a reason
//! are counted, and only a run with many of them has failed.
//!
//! Not here: the messages themselves (`connection.rs`), and when a statement is prepared (`world.rs`).

use std::sync::atomic::{AtomicU64, Ordering};

use cql::frame::client::PreparedReply;

use crate::columns::{self, DescribedColumn, ShownColumn};

/// A statement after which fewer than these were prepared must still be known. A Messina with the least memory, as
/// under `cargo ci differential`, has 1 MiB a core for prepared statements, and the newest 512 KiB of them are kept;
/// most take 2 to 8 KiB, few up to 40, and some that others prepare at the same moment are not counted yet.
const KEPT_MIN: u64 = 10;
/// Of so many EXECUTEs one may be answered UNPREPARED without a reason: a few long statements may take the memory.
const EXECUTES_A_NEEDLESS: u64 = 100;

/// What a client knows of a statement that it has prepared.
pub(crate) struct Prepared {
    /// The id by which EXECUTE names it.
    pub(crate) id: Vec<u8>,
    /// The id of the columns that the client knows (v5), which may be older than the statement.
    pub(crate) result_id: Vec<u8>,
    /// The columns of an answer that describes none.
    pub(crate) columns: Vec<DescribedColumn>,
    /// Whether the server does not know it any more.
    pub(crate) is_forgotten: bool,
    /// How many changes of its table came before PREPARE.
    schema_changes: u64,
    /// How many statements were prepared in the run when it was.
    number: u64,
}

impl Prepared {
    /// A statement that was just prepared, the one with this number in its run. Of one that was prepared `before` a
    /// client of v5 keeps the columns that it knew: the server must tell it at the next EXECUTE if they are others.
    pub(crate) fn new(
        told: &PreparedReply<'_>,
        before: Option<Prepared>,
        schema_changes: u64,
        number: u64,
    ) -> Prepared {
        let (result_id, columns) = match (before, told.result_metadata_id) {
            (Some(before), Some(_)) => (before.result_id, before.columns),
            (_, id) => (id.unwrap_or_default().to_vec(), columns::described(&told.result)),
        };
        let id = told.id.to_vec();
        Prepared { id, result_id, columns, is_forgotten: false, schema_changes, number }
    }

    /// What is wrong with the columns that the client knows; `None` if nothing is.
    pub(crate) fn difference(&self, shown: &[ShownColumn]) -> Option<String> {
        let known = self.columns.iter().map(|(name, of)| (name.as_str(), of.as_slice()));
        columns::difference(known, shown)
    }
}

/// How often statements were prepared, executed and forgotten, in all worlds of a run.
#[derive(Default)]
pub(crate) struct Preparations {
    prepared: AtomicU64,
    executed: AtomicU64,
    needless: AtomicU64,
}

impl Preparations {
    /// Counts a statement that was prepared, and gives its number.
    pub(crate) fn count_prepared(&self) -> u64 {
        self.prepared.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Counts an EXECUTE, whatever its answer was.
    pub(crate) fn count_executed(&self) {
        self.executed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an answer UNPREPARED, if it had no reason. `schema_changes` is how often the table was changed until now.
    pub(crate) fn count_forgotten(&self, statement: &Prepared, schema_changes: u64) {
        let after = self.prepared.load(Ordering::Relaxed).saturating_sub(statement.number);
        if statement.schema_changes == schema_changes && after < KEPT_MIN {
            self.needless.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many statements had to be prepared again without a reason.
    pub(crate) fn needless(&self) -> u64 {
        self.needless.load(Ordering::Relaxed)
    }

    /// An error if the server forgets statements that it must know.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (needless, executed) = (self.needless(), self.executed.load(Ordering::Relaxed));
        if needless * EXECUTES_A_NEEDLESS <= executed {
            return Ok(());
        }
        Err(format!(
            "{needless} of {executed} EXECUTEs were answered UNPREPARED, though their tables had not changed since \
             PREPARE and fewer than {KEPT_MIN} other statements were prepared in between: the server forgets \
             statements that it must know"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(preparations: &Preparations, schema_changes: u64) -> Prepared {
        let (id, result_id, columns) = Default::default();
        let number = preparations.count_prepared();
        Prepared { id, result_id, columns, is_forgotten: false, schema_changes, number }
    }

    /// Before: a statement might be forgotten ten times a page, whatever had happened.
    #[test]
    fn a_statement_is_forgotten_when_its_table_changes_or_others_take_its_memory() {
        let preparations = Preparations::default();
        let statement = prepared(&preparations, 1);
        preparations.count_forgotten(&statement, 2);
        assert_eq!(preparations.needless(), 0, "its table has changed");
        preparations.count_forgotten(&statement, 1);
        assert_eq!(preparations.needless(), 1);
        for _ in 0..KEPT_MIN {
            prepared(&preparations, 1);
        }
        preparations.count_forgotten(&statement, 1);
        assert_eq!(preparations.needless(), 1, "others may have taken its memory");
    }

    #[test]
    fn a_server_that_forgets_more_than_one_statement_in_a_hundred_fails_the_run() {
        let preparations = Preparations::default();
        let statement = prepared(&preparations, 1);
        assert_eq!(preparations.check(), Ok(()));
        preparations.count_forgotten(&statement, 1);
        (0..EXECUTES_A_NEEDLESS - 1).for_each(|_| preparations.count_executed());
        assert!(preparations.check().is_err());
        preparations.count_executed();
        assert_eq!(preparations.check(), Ok(()));
    }
}
