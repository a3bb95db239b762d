//! `ORDER BY`: the order of storage, or against it; sorting after is only for several partitions.

use model::Table;
use model::schema::ColumnKind;

use crate::error::{Error, Result};
use crate::lang::ast::{Order, OrderBy};
use crate::restrict::{PartitionChoice, Where, undefined};
use crate::rows::RowOrder;

/// Whether the read runs backwards, and how its rows are sorted when it is done.
pub(super) fn compile(
    order_by: &[OrderBy],
    filter: &Where,
    table: &Table,
) -> Result<(bool, Option<RowOrder>)> {
    if order_by.is_empty() {
        return Ok((false, None));
    }
    for OrderBy { column: name, .. } in order_by {
        table.column(name).ok_or_else(|| undefined(name, table))?;
    }
    if filter.uses_index {
        return Err(Error::invalid(
            "ORDER BY with 2ndary indexes is not supported, except for ANN queries.",
        ));
    }
    let PartitionChoice::Keys { columns: keys, .. } = &filter.partitions else {
        return Err(Error::invalid(
            "ORDER BY is only supported when the partition key is restricted by an EQ or an IN.",
        ));
    };
    let reversed = direction(order_by, filter, table)?;
    if keys.iter().all(|key| key.is_one()) {
        return Ok((reversed, None));
    }
    let columns = order_by
        .iter()
        .filter_map(|order| table.column(&order.column))
        .map(|column| usize::from(column.position) + 1)
        .max()
        .unwrap_or(0);
    Ok((reversed, Some(RowOrder { columns, reversed })))
}

/// Whether all columns are asked for against their order in storage.
fn direction(order_by: &[OrderBy], filter: &Where, table: &Table) -> Result<bool> {
    let mut reversed = None;
    let mut next = 0;
    for (index, order) in order_by.iter().enumerate() {
        // Of one column named twice the last word counts, as in Cassandra.
        if order_by[index + 1..].iter().any(|later| later.column == order.column) {
            continue;
        }
        let column = table.column(&order.column).expect("looked up before");
        if column.kind != ColumnKind::Clustering {
            return Err(Error::invalid(format!(
                "Order by is currently only supported on the clustered columns of the PRIMARY KEY, got {}",
                order.column
            )));
        }
        let clustering = table.clustering();
        while next < usize::from(column.position) && filter.has_one_value(&clustering[next]) {
            next += 1;
        }
        if usize::from(column.position) != next {
            return Err(Error::invalid(
                "Order by currently only supports the ordering of columns following their declared order in the PRIMARY KEY",
            ));
        }
        next += 1;
        let against = (order.order == Order::Descending) != column.descending;
        if reversed.is_some_and(|reversed| reversed != against) {
            return Err(Error::invalid("Unsupported order by relation"));
        }
        reversed = Some(against);
    }
    Ok(reversed.unwrap_or(false))
}
