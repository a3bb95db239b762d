//! What consistency levels can be kept: a level counts replicas, and of a partition there is at
//! most one here, however many the keyspace asks for.
//!
//! The checks, their order and their words are Cassandra's (`ConsistencyLevel`, `ReplicaPlans`),
//! recorded from version 5.0.9 on one node with replication factors 0 to 3.
//!
//! 1. A level that the kind of statement does not have is refused as INVALID: ANY for reads, SERIAL for plain writes,
//!    ANY and SERIAL for counters.
//! 2. Then the number of replicas that the level needs is compared with the number that is alive: 1, or 0 if the
//!    replication factor is 0. Too few is UNAVAILABLE. Virtual keyspaces keep any level.
//! 3. A SELECT by the nearness of vectors is read at ONE or LOCAL_ONE, and its client is warned.
//!
//! Invariant: no check here reads data, and a level decides only whether a request is refused: there is one copy of
//! each partition, so all levels that are left are executed alike.
//!
//! Not here: levels by name and number (`cql/src/frame/consistency.rs`), the replication factor
//! (`model/src/options/replication.rs`), the frame of UNAVAILABLE (`answer.rs`).

use cql::frame::consistency::Consistency;
use cql::frame::request::Parameters;
use cql::prepare::Statement;
use model::Table;
use model::read::Partitions;
use model::schema::{Keyspace, Schema};

use super::ExecuteError;
use crate::system;

/// The replication of a keyspace, as far as consistency levels depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replication {
    /// Its rows are computed when they are read: any level of a read is kept.
    Virtual,
    /// Each partition has this many replicas.
    Replicas(i32),
}

impl Replication {
    fn of(keyspace: &Keyspace) -> Replication {
        // `system` and `system_schema` are local tables in Cassandra, with one replica.
        if system::is_virtual(&keyspace.name) {
            return Replication::Virtual;
        }
        let replicas = keyspace.options.replication.replicas();
        Replication::Replicas(i32::try_from(replicas).unwrap_or(i32::MAX))
    }

    /// Of every keyspace that a statement reads or writes, each once.
    pub(super) fn of_statement(statement: &Statement, schema: &Schema) -> Vec<Replication> {
        let of = |table: &Table| schema.keyspace(&table.keyspace).map(|found| Self::of(found));
        let mut all: Vec<Replication> = match statement {
            Statement::Select(plan) | Statement::Explain(plan) => {
                of(&plan.table).into_iter().collect()
            }
            Statement::Write(plan) => of(&plan.table).into_iter().collect(),
            Statement::Batch(plan) => {
                plan.writes.iter().filter_map(|write| of(&write.table)).collect()
            }
            // Cassandra checks no level of these.
            Statement::Truncate(_)
            | Statement::Use(_)
            | Statement::Schema(_)
            | Statement::Describe(_) => Vec::new(),
        };
        all.dedup();
        all
    }

    /// Refuses a level that needs more replicas than there are.
    #[inline]
    pub(super) fn check(self, level: Consistency) -> Result<(), ExecuteError> {
        let Replication::Replicas(factor) = self else { return Ok(()) };
        let alive = factor.min(1);
        let required = match level {
            Consistency::Any | Consistency::One | Consistency::LocalOne => 1,
            Consistency::Two => 2,
            Consistency::Three => 3,
            Consistency::All => factor,
            _ => factor / 2 + 1,
        };
        if alive == 0 || required > alive {
            return Err(ExecuteError::Unavailable { level, required, alive });
        }
        Ok(())
    }
}

/// Refuses a level that no read has.
#[inline]
pub(super) fn check_read(level: Consistency) -> Result<(), ExecuteError> {
    if level == Consistency::Any {
        return Err(ExecuteError::invalid("ANY ConsistencyLevel is only supported for writes"));
    }
    Ok(())
}

/// Refuses a level that no plain write has; a batch may have it.
#[inline]
pub(super) fn check_write(level: Consistency) -> Result<(), ExecuteError> {
    if level.is_serial() {
        return Err(ExecuteError::invalid(
            "You must use conditional updates for serializable writes",
        ));
    }
    Ok(())
}

/// Refuses a level that no write of counters has.
#[cold]
pub(super) fn check_counter_write(level: Consistency, table: &str) -> Result<(), ExecuteError> {
    if level == Consistency::Any {
        return Err(ExecuteError::invalid(format!(
            "Consistency level ANY is not yet supported for counter table {table}"
        )));
    }
    if level.is_serial() {
        return Err(ExecuteError::invalid("Counter operations are inherently non-serializable"));
    }
    Ok(())
}

/// Refuses a serial level that is neither SERIAL nor LOCAL_SERIAL. Cassandra does so for conditional updates only and
/// ignores the level elsewhere.
#[inline]
pub(super) fn check_serial(parameters: &Parameters<'_>) -> Result<(), ExecuteError> {
    if parameters.serial_consistency.is_some_and(|level| !level.is_serial()) {
        return Err(ExecuteError::invalid(
            "Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL",
        ));
    }
    Ok(())
}

/// The level that Cassandra names when a read lacks replicas: for single partitions the quorum that
/// a linearizable read is made of.
pub(super) fn level_of_read(level: Consistency, partitions: &Partitions) -> Consistency {
    match (level, partitions) {
        (Consistency::Serial, Partitions::Keys(_)) => Consistency::Quorum,
        (Consistency::LocalSerial, Partitions::Keys(_)) => Consistency::LocalQuorum,
        _ => level,
    }
}

/// The level that a SELECT by the nearness of vectors is read at, and what its client is told of that: each shard
/// answers for itself, and one replica is asked.
pub(super) fn level_of_nearest(
    level: Consistency,
    warnings: &mut Vec<String>,
) -> Result<Consistency, ExecuteError> {
    let name = level.name();
    let read_at = match level {
        Consistency::One | Consistency::LocalOne => return Ok(level),
        Consistency::Serial | Consistency::LocalSerial => {
            return Err(ExecuteError::invalid(format!(
                "Top-K queries can only be run with consistency level ONE/LOCAL_ONE. Consistency level {name} was used."
            )));
        }
        Consistency::LocalQuorum => Consistency::LocalOne,
        _ => Consistency::One,
    };
    let to = read_at.name();
    let text = format!(
        "Top-K queries can only be run with consistency level ONE / LOCAL_ONE / NODE_LOCAL. Consistency level {name} was requested. Downgrading the consistency level to {to}."
    );
    warnings.insert(0, text);
    Ok(read_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `factor` replicas on one node answer, as `required/alive` of each level refused.
    fn refused(factor: i32) -> Vec<String> {
        let check = |level: &Consistency| match Replication::Replicas(factor).check(*level) {
            Ok(()) => None,
            Err(ExecuteError::Unavailable { level, required, alive }) => {
                Some(format!("{} {required}/{alive}", level.name()))
            }
            Err(other) => panic!("{other:?}"),
        };
        Consistency::ALL.iter().filter_map(check).collect()
    }

    #[test]
    fn one_node_keeps_the_levels_that_need_one_replica() {
        assert_eq!(refused(1), ["TWO 2/1", "THREE 3/1"]);
        let of_three = [
            "TWO 2/1",
            "THREE 3/1",
            "QUORUM 2/1",
            "ALL 3/1",
            "LOCAL_QUORUM 2/1",
            "EACH_QUORUM 2/1",
            "SERIAL 2/1",
            "LOCAL_SERIAL 2/1",
        ];
        assert_eq!(refused(3), of_three);
        assert_eq!(refused(0).len(), Consistency::ALL.len(), "nothing is kept anywhere");
        assert!(Consistency::ALL.iter().all(|level| Replication::Virtual.check(*level).is_ok()));
    }

    #[test]
    fn a_search_by_vectors_asks_one_replica_and_says_so() {
        let at = |level| {
            let mut warnings = vec!["another".to_owned()];
            let read_at = level_of_nearest(level, &mut warnings).map_err(|_| ())?;
            assert_eq!(warnings.pop().as_deref(), Some("another"), "it comes behind");
            Ok((read_at, warnings.pop()))
        };
        for level in [Consistency::One, Consistency::LocalOne] {
            assert_eq!(at(level), Ok((level, None)));
        }
        for (level, wanted) in [
            (Consistency::LocalQuorum, Consistency::LocalOne),
            (Consistency::Quorum, Consistency::One),
            (Consistency::All, Consistency::One),
        ] {
            let (read_at, warning) = at(level).unwrap();
            assert_eq!(read_at, wanted);
            let end = format!("Downgrading the consistency level to {}.", wanted.name());
            assert!(warning.unwrap().ends_with(&end), "{level:?}");
        }
        assert_eq!(at(Consistency::Serial), Err(()));
        assert_eq!(at(Consistency::LocalSerial), Err(()));
    }

    #[test]
    fn the_documents_list_every_level() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/options.md");
        let document = std::fs::read_to_string(path).unwrap();
        let (begin, end) =
            ("<!-- levels: made by a test of server -->\n", "<!-- end of levels -->");
        let (before, rest) = document.split_once(begin).unwrap();
        let (found, after) = rest.split_once(end).unwrap();
        let shown = |found: Result<(), ExecuteError>| match found {
            Ok(()) => "kept",
            Err(ExecuteError::Unavailable { .. }) => "unavailable",
            Err(_) => "refused",
        };
        let mut table =
            "| Level | Reads, factor 1 | Writes, factor 1 | Reads, factor 3 | Writes, factor 3 |\n\
             |---|---|---|---|---|\n"
                .to_owned();
        for level in Consistency::ALL {
            let mut row = format!("| `{}` |", level.name());
            for factor in [1, 3] {
                let replicas = || Replication::Replicas(factor).check(level);
                row += &format!(" {} |", shown(check_read(level).and_then(|()| replicas())));
                row += &format!(" {} |", shown(check_write(level).and_then(|()| replicas())));
            }
            table += &(row + "\n");
        }
        if std::env::var_os("MESSINA_BLESS").is_some() {
            std::fs::write(path, format!("{before}{begin}\n{table}\n{end}{after}")).unwrap();
            return;
        }
        assert_eq!(found.trim(), table.trim());
    }
}
