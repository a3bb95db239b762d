//! The keyspaces that are the server's own: the one list, and what of each is computed.
//!
//! Not here: their tables (`server/src/system/system.cql`).

use super::Table;

/// What of a keyspace of the server's own is computed when it is read, and who lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// Rows are stored as those of any table.
    Stored,
    /// Its tables are computed; `system_schema` lists them, as tables of this node alone.
    Local,
    /// Its tables are computed; `system_virtual_schema` lists them.
    Virtual,
}

/// The server's own keyspaces, which no client may change.
const KEYSPACES: [(&str, Content); 7] = [
    ("system", Content::Local),
    ("system_auth", Content::Stored),
    ("system_distributed", Content::Stored),
    ("system_schema", Content::Local),
    ("system_traces", Content::Stored),
    ("system_views", Content::Virtual),
    ("system_virtual_schema", Content::Virtual),
];

fn content(keyspace: &str) -> Option<Content> {
    KEYSPACES.iter().find(|(name, _)| *name == keyspace).map(|(_, content)| *content)
}

/// The names of the server's own keyspaces.
pub fn names() -> impl Iterator<Item = &'static str> {
    KEYSPACES.iter().map(|(name, _)| *name)
}

/// Whether `system_virtual_schema` lists the keyspace, and not `system_schema`.
pub fn is_virtual(keyspace: &str) -> bool {
    content(keyspace) == Some(Content::Virtual)
}

/// Tables of `system` that are stored: the batches that are under way, how far views are built, and the names of
/// counter changes.
const STORED: [&str; 4] = ["batches", "built_views", "request_ids", "view_builds_in_progress"];

/// Whether rows of the table are computed when they are read: of a keyspace whose tables are, all but a few.
pub fn computes(table: &Table) -> bool {
    let is_stored = table.keyspace == "system" && STORED.contains(&table.name.as_str());
    is_computed(&table.keyspace) && !is_stored
}

/// Whether the tables of the keyspace are computed, but for those that [`computes`] leaves out.
pub fn is_computed(keyspace: &str) -> bool {
    matches!(content(keyspace), Some(Content::Local | Content::Virtual))
}

/// Whether the schema of the keyspace is the server's own.
pub fn is_guarded(keyspace: &str) -> bool {
    content(keyspace).is_some()
}
