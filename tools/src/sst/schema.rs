//! The definition of a table, from the data directory or the snapshot that its file lies in.

use std::path::Path;

use engine::io::{Disk, PlainDisk};
use engine::layout::SchemaLog;
use futures_lite::future::block_on;
use model::schema::{self, Table};
use model::{SchemaChange, TableId};

/// How many directories above a file are looked at: `tables/<table>/` or `snapshots/<tag>/<table>/`.
const LEVELS: usize = 4;

/// The table of that id, as the schema's log of the nearest data directory above `file` says last; `None` if there is no
/// log, or no such table in it.
pub(super) fn table_of(file: &Path, id: TableId) -> Result<Option<Table>, String> {
    let file = file.canonicalize().map_err(|error| format!("{}: {error}", file.display()))?;
    let home = file.ancestors().skip(1).take(LEVELS).find(|dir| dir.join("schema").is_file());
    let Some(home) = home else { return Ok(None) };
    let disk = Disk::Plain(PlainDisk::at(home.to_owned()));
    let found = block_on(SchemaLog::find(&disk)).map_err(|error| error.to_string())?;
    let mut table = None;
    for (_, payload) in found.entries() {
        let entry = schema::decode(payload, &mut Vec::new()).map_err(|error| error.to_string())?;
        let tables = match entry.change {
            SchemaChange::CreateTable(made) | SchemaChange::AlterTable(made) => vec![*made],
            SchemaChange::AlterType { tables, .. } | SchemaChange::AlterTables(tables) => tables,
            _ => Vec::new(),
        };
        table = tables.into_iter().find(|table| table.id == id).or(table);
    }
    Ok(table)
}
