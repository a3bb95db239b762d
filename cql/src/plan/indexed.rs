//! Values that are too long for a plain index: a write of one is refused, and so is a search for one.
//!
//! The words are Cassandra's (`CassandraIndex.validateIndexedValue`, `RowFilter.Expression.validateForIndexing`).
//! Storage-attached indexes know a long value by its beginning, and refuse none.

use model::cell::Life;
use model::limits::PLAIN_INDEX_VALUE_BYTES;
use model::read::Filter;
use model::row::{Cell, RowRef};
use model::schema::{Index, IndexKind, IndexTarget};
use model::types::CqlType;
use model::{MutationRef, Table};

use crate::error::{Error, Result};

/// Refuses a mutation of this table with a value that an index cannot hold.
pub(super) fn check_values(table: &Table, mutation: &[u8]) -> Result<()> {
    if mutation.len() < PLAIN_INDEX_VALUE_BYTES || table.indexes().is_empty() {
        return Ok(());
    }
    for mutation in MutationRef::of_trusted_record(mutation) {
        let mutation = mutation?;
        let rows = mutation.rows().map(|(_, row)| row);
        for row in mutation.static_row.into_iter().chain(rows) {
            check_row(table, row)?;
        }
    }
    Ok(())
}

fn check_row(table: &Table, row: RowRef<'_>) -> Result<()> {
    let is_alive = |cell: &Cell<'_>| !cell.whole && !matches!(cell.life, Life::Dead { .. });
    for cell in row.cells().filter(is_alive) {
        for index in table.indexes_of(cell.column).filter(|index| index.kind == IndexKind::Plain) {
            let bytes = indexed_bytes(table, index, &cell)?;
            if bytes >= PLAIN_INDEX_VALUE_BYTES {
                let Table { keyspace, name, .. } = table;
                let (index_name, column) = (&index.name, &index.column(table).name);
                return Err(Error::invalid(format!(
                    "Cannot index value of size {bytes} for index {index_name} on {keyspace}.{name}({column}) (maximum allowed size={PLAIN_INDEX_VALUE_BYTES})"
                )));
            }
        }
    }
    Ok(())
}

/// The bytes of what the index holds of a cell.
fn indexed_bytes(table: &Table, index: &Index, cell: &Cell<'_>) -> Result<usize> {
    let of_key = match (&index.column(table).ty, index.target) {
        (CqlType::Set { element, .. }, _) => element,
        (CqlType::Map { key, .. }, IndexTarget::Keys | IndexTarget::Entries) => key,
        _ => return Ok(cell.value.len()),
    };
    let mut element = Vec::new();
    cell.put_element(of_key, &mut element)?;
    let value = if index.target == IndexTarget::Entries { cell.value.len() } else { 0 };
    Ok(element.len() + value)
}

/// Refuses to look for a value that no row has, since none may be written.
pub(super) fn check_filter(index: &Index, filter: &Filter) -> Result<()> {
    let is_long = filter.values.iter().any(|value| value.len() > PLAIN_INDEX_VALUE_BYTES);
    match index.kind == IndexKind::Plain && is_long {
        true => Err(Error::invalid("Index expression values may not be larger than 64K")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Database;

    #[test]
    fn a_value_too_long_for_a_plain_index_is_neither_written_nor_looked_for() {
        let mut db = Database::with("k int PRIMARY KEY, a text, b text, m map<text, text>");
        db.ok("CREATE INDEX ON t (a)");
        db.ok("CREATE INDEX ON t (b) USING 'sai'");
        db.ok("CREATE INDEX ON t (entries(m))");
        let text = |bytes: usize| "x".repeat(bytes);
        let refused = |name: &str, column: &str, bytes: usize| {
            format!(
                "Cannot index value of size {bytes} for index {name} on ks.t({column}) (maximum allowed size=65535)"
            )
        };
        let (fits, long) = (text(65_534), text(65_535));
        db.ok(&format!("INSERT INTO t (k, a) VALUES (1, '{fits}')"));
        let write = format!("INSERT INTO t (k, a) VALUES (1, '{long}')");
        assert_eq!(db.err(&write), refused("t_a_idx", "a", 65_535));
        assert_eq!(
            db.err(&format!("BEGIN BATCH UPDATE t SET a = '{long}' WHERE k = 2; APPLY BATCH")),
            refused("t_a_idx", "a", 65_535)
        );
        let entry = format!("UPDATE t SET m['{}'] = '{}' WHERE k = 1", text(30_000), text(40_000));
        assert_eq!(db.err(&entry), refused("t_m_idx", "m", 70_000));
        db.ok(&format!("INSERT INTO t (k, b) VALUES (2, '{}')", text(70_000)));
        assert_eq!(db.ok(&format!("SELECT k FROM t WHERE b = '{}'", text(70_000))), "2");
        assert_eq!(db.ok(&format!("SELECT k FROM t WHERE a = '{fits}'")), "1");
        assert_eq!(
            db.err(&format!("SELECT k FROM t WHERE a = '{}'", text(65_536))),
            "Index expression values may not be larger than 64K"
        );
    }
}
