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
    let number = log.append(&schema::encode(&entry)).await.map_err(AlterError::Store)?;
    assert_eq!(number, entry.number, "the log and the schema count alike");
    Ok(Arc::new(next))
}
