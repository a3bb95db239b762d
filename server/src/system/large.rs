//! `system.large_partitions`, `system.large_rows` and `system.large_cells`: what is large in the files of every core, in
//! ScyllaDB's words.
//!
//! The rows are computed of the statistics of the files that are there: nothing is stored, nothing expires.

use cql::literal::value_literal;
use engine::{Large, LargeData};
use model::ColumnId;
use model::key::clustering_value;
use model::schema::Table;

use super::NodeFacts;
use super::key::key_literal;
use super::value::{Row, Value};
use crate::limits::LARGE_KEY_CHARS;

impl NodeFacts<'_> {
    /// One row for each run with a large partition.
    pub(super) fn large_partitions(&self) -> Vec<Row> {
        self.large(|of_core| &of_core.partitions, "partition_size", |_, _, _| ())
    }

    /// One row for each large row of a file.
    pub(super) fn large_rows(&self) -> Vec<Row> {
        self.large(
            |of_core| &of_core.rows,
            "row_size",
            |table, large, row| row.push(clustering_key(table, large)),
        )
    }

    /// One row for each large column of a row of a file. A dropped column has no name.
    pub(super) fn large_cells(&self) -> Vec<Row> {
        let more = |table: &Table, large: &Large, row: &mut Row| {
            let (id, cells) = large.column.unwrap_or_default();
            let column = table.column_by_id(ColumnId(id));
            let name = column.map_or_else(String::new, |column| column.name.to_string());
            row.push(clustering_key(table, large));
            row.push(("column_name", Value::Text(name)));
            row.push(("collection_elements", bigint(cells)));
        };
        self.large(|of_core| &of_core.cells, "cell_size", more)
    }

    fn large(
        &self,
        entries: impl Fn(&LargeData) -> &Vec<Large>,
        size: &'static str,
        more: impl Fn(&Table, &Large, &mut Row),
    ) -> Vec<Row> {
        let row = |large: &Large| {
            let table = self.schema.table_by_id(large.table)?;
            let mut row = vec![
                ("keyspace_name", Value::text(&table.keyspace)),
                ("table_name", Value::text(&table.name)),
                ("sstable_name", Value::Text(format!("{}.sst", large.sstable))),
                (size, bigint(large.bytes)),
                ("partition_key", shown(key_literal(table, &large.key))),
            ];
            more(table, large, &mut row);
            Some(row)
        };
        self.large.iter().flat_map(entries).filter_map(row).collect()
    }
}

/// A key of the client's, cut: it is a key here, too, and a literal may be longer than keys may be.
fn shown(literal: String) -> Value {
    Value::Text(literal.chars().take(LARGE_KEY_CHARS).collect())
}

fn bigint(n: u64) -> Value {
    Value::Bigint(i64::try_from(n).unwrap_or(i64::MAX))
}

/// The clustering columns as literals of CQL, between commas; nothing for a static row.
fn clustering_key(table: &Table, large: &Large) -> (&'static str, Value) {
    let literal = |clustering: &[u8]| {
        let columns = table.clustering().iter().enumerate();
        let shown = columns.map(|(index, column)| {
            let mut value = Vec::new();
            let read = clustering_value(table, clustering, index, &mut value);
            value_literal(&column.ty, read.ok().filter(|has| *has).map(|_| value.as_slice()))
        });
        shown.collect::<Vec<String>>().join(", ")
    };
    ("clustering_key", shown(large.clustering.as_deref().map_or_else(String::new, literal)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A blob of 64 KB is a literal of 128 KB, which no key can hold.
    #[test]
    fn long_keys_are_cut() {
        let Value::Text(text) = shown("ä".repeat(200_000)) else { panic!("a text") };
        assert_eq!(text.chars().count(), LARGE_KEY_CHARS);
    }
}
