//! The schema and its log: read back at a start, and written one change further.
//!
//! ```text
//! start   base schema ─► entry 1 ─► entry 2 ─► … ─► the schema of now
//! append  the schema of now ─► does the change fit? ─► entry n + 1, durable ─► the next schema
//! full    the schema of now ─► its snapshot in place of all entries
//! ```
//!
//! Invariant: the number of a schema is the number of the last entry of its log.
//!
//! Not here: the bytes of an entry and of a snapshot (`model/src/schema/FORMAT.md`), who may append and who is told
//! (`schema.rs`).

use std::sync::Arc;

use engine::io::Disk;
use engine::journal::Appended;
use engine::layout::{FoundSchema, SchemaEntries, SchemaLog};
use engine::limits::SCHEMA_CHANGE_BYTES_MAX;
use engine::{Error, Result};
use model::schema::{self, SchemaEntry, Unreadable};
use model::{Schema, SchemaChange};
use uuid::Uuid;

use crate::message::AlterError;

/// The log of the schema, and the built-in tables that its entries change.
#[derive(Debug)]
pub struct SchemaChanges {
    log: SchemaLog,
    base: Arc<Schema>,
}

impl SchemaChanges {
    /// Opens the log, and gives the schema that it makes of `base`. A log that is mostly dead is shortened.
    pub async fn open(
        disk: &Disk,
        seed: u64,
        base: &Arc<Schema>,
    ) -> Result<(SchemaChanges, Schema)> {
        let found = SchemaLog::find(disk).await?;
        let (schema, warnings) = replay(base, &found)?;
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        // What was refused has its default for now: the build that knows it again finds it as it was.
        let instead = match warnings.is_empty() && is_mostly_dead(&found, &schema, base) {
            true => Some(snapshot(&schema, base, || async {}).await?),
            false => None,
        };
        let log = found.open(disk, seed, instead).await?;
        Ok((SchemaChanges { log, base: base.clone() }, schema))
    }

    /// Makes a change of `schema` durable under the name `version`; the schema after it. `pause` returns when there is
    /// time for more. After [`AlterError::Store`] the next start says whether the change was made.
    pub async fn append(
        &mut self,
        schema: &Schema,
        change: SchemaChange,
        version: Uuid,
        pause: impl AsyncFn(),
    ) -> std::result::Result<Arc<Schema>, AlterError> {
        let entry = SchemaEntry { number: schema.number + 1, version, change };
        let next = schema.apply(&entry).map_err(AlterError::Refused)?;
        let payload = schema::encode(&entry);
        check_length(payload.len())?;
        if self.log.append(&payload).await.map_err(refused)? == Appended::Full {
            let entries = snapshot(&next, &self.base, pause).await.map_err(refused)?;
            self.log.replace(&entries).await.map_err(refused)?;
        }
        assert_eq!(self.log.version(), next.number, "the log and the schema count alike");
        Ok(Arc::new(next))
    }
}

/// The schema after all entries of the log, and what is to be said about options; an error names the entry that is
/// damaged or of a later version.
fn replay(base: &Schema, found: &FoundSchema) -> Result<(Schema, Vec<String>)> {
    let (mut schema, mut said) = (base.clone(), Vec::new());
    for (number, payload) in found.entries() {
        let damaged = |what: String| Error::corrupt("schema", 0, format!("entry {number}: {what}"));
        let mut warnings = Vec::new();
        let entry = schema::decode(payload, &mut warnings).map_err(|error| match error {
            Unreadable::Newer(found) => {
                Error::Newer { file: "schema".into(), found, known: schema::FORMAT }
            }
            Unreadable::Damaged(what) => damaged(what),
        })?;
        said.extend(warnings.iter().map(|warning| format!("schema entry {number}: {warning}")));
        if entry.number != number {
            return Err(damaged(format!("it says that it is number {}", entry.number)));
        }
        schema = schema.apply(&entry).map_err(|error| damaged(error.to_string()))?;
    }
    Ok((schema, said))
}

/// Whether more than half of the entries say nothing any more.
fn is_mostly_dead(found: &FoundSchema, schema: &Schema, base: &Schema) -> bool {
    let alive = schema.snapshot(base).map(Iterator::count);
    alive.is_ok_and(|alive| 2 * alive < found.entries().len())
}

/// The entries of a schema's snapshot.
async fn snapshot(schema: &Schema, base: &Schema, pause: impl AsyncFn()) -> Result<SchemaEntries> {
    let entries = schema.snapshot(base).map_err(|error| Error::invalid(error.to_string()))?;
    let (mut first, mut payloads) = (schema.number + 1, Vec::new());
    for entry in entries {
        first = first.min(entry.number);
        payloads.push(schema::encode(&entry));
        pause().await;
    }
    Ok(SchemaEntries { first, payloads })
}

/// What the author of a change is told.
fn refused(error: Error) -> AlterError {
    match error {
        Error::Invalid(what) => AlterError::Refused(model::Error::invalid(format!(
            "The schema is larger than its log may be: {what}"
        ))),
        error => AlterError::Store(error),
    }
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

    async fn made(disk: &Disk, base: &Arc<Schema>) -> SchemaChanges {
        SchemaLog::create(disk, 1).await.unwrap();
        SchemaChanges::open(disk, 1, base).await.unwrap().0
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
            let base = Arc::new(Schema::empty());
            let mut log = made(&disk, &base).await;
            let schema = log.append(&base, keyspace(), Uuid::nil(), async || {}).await.unwrap();
            // In JSON such a byte takes six.
            let long = table("\u{1}".repeat(11 << 20));
            let refused = log.append(&schema, long, Uuid::nil(), async || {}).await.unwrap_err();
            let AlterError::Refused(error) = refused else { panic!("{refused}") };
            let text = error.to_string();
            assert!(text.contains("at most 16777216") && text.contains("comment"), "{text}");
            let short = table("short".to_owned());
            let made = log.append(&schema, short, Uuid::nil(), async || {}).await;
            assert_eq!(made.unwrap().number, 2);
            let (_, found) = SchemaChanges::open(&disk, 2, &base).await.unwrap();
            assert_eq!(found.number, 2);
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
                let base = Arc::new(Schema::empty());
                let mut log = made(&disk, &base).await;
                sim.set_faults(Faults { fail_op: Some(nth), ..Faults::default() });
                let first = log.append(&base, keyspace(), Uuid::nil(), async || {}).await;
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

    fn drop_table() -> SchemaChange {
        SchemaChange::DropTable { keyspace: "ks".into(), name: "t".into() }
    }

    /// The log kept every change for ever: after 131,072 of them the node did not start.
    #[test]
    fn a_table_that_is_made_and_dropped_for_ever_leaves_a_short_log() {
        let disk = Disk::Sim(SimDisk::new(1, Faults::default()));
        let done = async move {
            let base = Arc::new(Schema::empty());
            let mut log = made(&disk, &base).await;
            let mut schema = log.append(&base, keyspace(), Uuid::nil(), async || {}).await.unwrap();
            for number in 1..100u64 {
                let version = Uuid::from_u128(number.into());
                let mut create = table(String::new());
                let SchemaChange::CreateTable(table) = &mut create else { unreachable!() };
                table.id = TableId(version);
                for change in [create, drop_table()] {
                    schema = log.append(&schema, change, version, async || {}).await.unwrap();
                }
                if number % 10 == 0 {
                    let (opened, found) = SchemaChanges::open(&disk, number, &base).await.unwrap();
                    assert_eq!((found.number, found.version), (schema.number, schema.version));
                    assert_eq!(found.dropped_tables(), schema.dropped_tables());
                    let entries = SchemaLog::find(&disk).await.unwrap().entries().len();
                    assert!(entries < 20, "{entries} entries");
                    log = opened;
                }
            }
            assert_eq!(schema.number, 199);
            assert_eq!(schema.dropped_tables().ids().count(), 99);
        };
        SimExec::new(1).run(done).done();
    }
}
