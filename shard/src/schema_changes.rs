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
    /// All entries, if one says what this build refuses: a snapshot would say something else.
    kept: Option<SchemaEntries>,
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
        let kept = (!warnings.is_empty()).then(|| found.to_entries());
        let instead = match kept.is_none() && is_mostly_dead(&found, &schema, base) {
            true => Some(snapshot(&schema, base, || async {}).await?),
            false => None,
        };
        let log = found.open(disk, seed, instead).await?;
        Ok((SchemaChanges { log, base: base.clone(), kept }, schema))
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
        check_read_back(&entry, &payload)?;
        let is_full = self.log.append(&payload).await.map_err(refused)? == Appended::Full;
        match &mut self.kept {
            Some(kept) => {
                kept.payloads.push(payload);
                if is_full && let Err(error) = self.log.replace(kept).await {
                    kept.payloads.pop();
                    return Err(refused(error));
                }
            }
            None if is_full => {
                let entries = snapshot(&next, &self.base, pause).await.map_err(refused)?;
                self.log.replace(&entries).await.map_err(refused)?;
            }
            None => {}
        }
        assert_eq!(self.log.version(), next.number, "the log and the schema count alike");
        Ok(Arc::new(next))
    }
}

/// Refuses a change that the next start would not read as it is: without its schema a node does not start.
fn check_read_back(entry: &SchemaEntry, payload: &[u8]) -> std::result::Result<(), AlterError> {
    let read = schema::decode(payload, &mut Vec::new());
    if read.is_ok_and(|read| read == *entry) {
        return Ok(());
    }
    Err(AlterError::Refused(model::Error::invalid(
        "the change would not be read back from the log of the schema as it is, so it is not made; please report it",
    )))
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
        schema.advance(&entry).map_err(|error| damaged(error.to_string()))?;
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
mod tests;
