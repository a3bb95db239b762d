//! The key of a partition as people read and write it.

use cql::literal::value_literal;
use model::key::partition_key_values;
use model::schema::Table;

/// The columns of a whole partition key as literals of CQL, between commas; `null` for what is no value.
pub(crate) fn key_literal(table: &Table, key: &[u8]) -> String {
    let columns = table.partition_key();
    let values = partition_key_values(key, columns.len()).zip(columns);
    let shown = values.map(|(value, column)| value_literal(&column.ty, value.ok()));
    shown.collect::<Vec<_>>().join(", ")
}
