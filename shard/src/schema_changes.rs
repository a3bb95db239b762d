//! The schema and its log: read back at a start, and written one change further.
//!
//! ```text
//! start   base schema ─► entry 1 ─► entry 2 ─► … ─► the schema of now
//! append  the schema of now ─► does the change fit? ─► entry n + 1, durable ─► the next schema
//! ```
//!
//! Invariant: the number of a schema is the number of the last entry of its log.
//!
//! Not here: the bytes of an entry (`model/src/schema/FORMAT.md`), who may append and who is told (`schema.rs`).

use std::sync::Arc;

use engine::layout::SchemaLog;
use engine::limits::SCHEMA_CHANGE_BYTES_MAX;
use engine::{Error, Result};
use model::schema::{self, SchemaEntry, Unreadable};
use model::{Schema, SchemaChange};
use uuid::Uuid;

use crate::message::AlterError;

/// The schema after all entries of the log; an error names the entry that is damaged or of a later version.
pub(crate) fn replay(base: &Schema, entries: &[(u64, Vec<u8>)]) -> Result<Schema> {
    let mut schema = base.clone();
    for (number, payload) in entries {
        let damaged = |what: String| Error::corrupt("schema", 0, format!("entry {number}: {what}"));
        let mut warnings = Vec::new();
        let entry = schema::decode(payload, &mut warnings).map_err(|error| match error {
            Unreadable::Newer(found) => {
                Error::Newer { file: "schema".into(), found, known: schema::FORMAT }
            }
            Unreadable::Damaged(what) => damaged(what),
        })?;
        for warning in warnings {
            tracing::warn!("schema entry {number}: {warning}");
        }
        if entry.number != *number {
            return Err(damaged(format!("it says that it is number {}", entry.number)));
        }
        schema = schema.apply(&entry).map_err(|error| damaged(error.to_string()))?;
    }
    Ok(schema)
}

/// Refuses a change whose entry in the log is so long. Bytes.
fn check_length(bytes: usize) -> std::result::Result<(), AlterError> {
    if bytes <= SCHEMA_CHANGE_BYTES_MAX {
        return Ok(());
    }
    Err(AlterError::Refused(model::Error::invalid(format!(
        "The change takes {bytes} bytes in the schema's log, where at most {SCHEMA_CHANGE_BYTES_MAX} are \
         allowed: shorten the comment and the names, or use fewer columns"
    ))))
}

/// Makes a change of `schema` durable under the name `version`; the schema after it. After [`AlterError::Store`] the
/// next start says whether the change was made.
pub async fn append(
    log: &mut SchemaLog,
    schema: &Schema,
    change: SchemaChange,
    version: Uuid,
) -> std::result::Result<Arc<Schema>, AlterError> {
    let entry = SchemaEntry { number: schema.number + 1, version, change };
    let next = schema.apply(&entry).map_err(AlterError::Refused)?;
    let payload = schema::encode(&entry);
    check_length(payload.len())?;
    let number = log.append(&payload).await.map_err(|error| match error {
        Error::Invalid(what) => AlterError::Refused(model::Error::invalid(format!(
            "The schema cannot be changed any more, since its log keeps every change: {what}"
        ))),
        error => AlterError::Store(error),
    })?;
    assert_eq!(number, entry.number, "the log and the schema count alike");
    Ok(Arc::new(next))
}

#[cfg(test)]
mod tests {
    use engine::io::{Disk, Faults, SimDisk, SimExec};
    use model::options::{KeyspaceOptions, TableOptions};
    use model::schema::{TableBuilder, TableId};
    use model::types::CqlType;

    use super::*;

    fn keyspace() -> SchemaChange {
        SchemaChange::CreateKeyspace { name: "ks".into(), options: KeyspaceOptions::default() }
    }

    fn table(comment: String) -> SchemaChange {
        let options = TableOptions { comment, ..TableOptions::default() };
        let table = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1))).options(options);
        let table = table.partition_key("k", CqlType::Int).unwrap();
        SchemaChange::CreateTable(Box::new(table.build().unwrap()))
    }

    #[test]
    fn a_change_too_long_for_the_log_is_refused_and_the_next_is_made() {
        let disk = Disk::Sim(SimDisk::new(1, Faults::default()));
        let done = async move {
            let mut log = SchemaLog::create(&disk, 1).await.unwrap();
            let version = Uuid::nil;
            let schema = append(&mut log, &Schema::empty(), keyspace(), version()).await.unwrap();
            // In JSON such a byte takes six.
            let long = table("\u{1}".repeat(11 << 20));
            let refused = append(&mut log, &schema, long, version()).await.unwrap_err();
            let AlterError::Refused(error) = refused else { panic!("{refused}") };
            let text = error.to_string();
            assert!(text.contains("at most 16777216") && text.contains("comment"), "{text}");
            let made = append(&mut log, &schema, table("short".to_owned()), version()).await;
            assert_eq!(made.unwrap().number, 2);
            let (_, entries) = SchemaLog::open(&disk, 2).await.unwrap();
            assert_eq!(replay(&Schema::empty(), &entries).unwrap().number, 2);
        };
        SimExec::new(1).run(done).done();
    }

    /// The client's core leaves the process on `Poisoned`: what is durable is not known.
    #[test]
    fn whichever_write_of_a_change_fails_the_log_is_poisoned() {
        let mut poisoned = 0;
        for nth in 0..12 {
            let sim = SimDisk::new(1, Faults::default());
            let disk = Disk::Sim(sim.clone());
            let done = async move {
                let mut log = SchemaLog::create(&disk, 1).await.unwrap();
                sim.set_faults(Faults { fail_op: Some(nth), ..Faults::default() });
                let first = append(&mut log, &Schema::empty(), keyspace(), Uuid::nil()).await;
                match first {
                    Ok(_) => false,
                    Err(AlterError::Store(Error::Poisoned(_))) => true,
                    Err(error) => panic!("operation {nth}: {error:?}"),
                }
            };
            poisoned += usize::from(SimExec::new(1).run(done).done());
        }
        assert_eq!(poisoned, 2, "the entry and the claim after it");
    }
}
