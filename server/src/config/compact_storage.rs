//! Which statements about COMPACT STORAGE are allowed: two settings that the language acts on.

pub(super) use cql::ddl::CompactStorage;

use super::Choices;

/// What was chosen, and the language's defaults.
pub(super) fn allowed(choices: &Choices) -> CompactStorage {
    let default = CompactStorage::default();
    CompactStorage {
        create: choices.compact_tables.unwrap_or(default.create),
        drop: choices.drop_compact_storage.unwrap_or(default.drop),
    }
}
