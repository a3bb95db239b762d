//! `ORDER BY v ANN OF ..`: the order by how near vectors are, and what a SELECT with it may not have.
//!
//! The words are Cassandra's (`SelectStatement`, `SingleColumnRestriction.AnnRestriction`).

use model::CqlType;

use crate::error::{Error, Result};
use crate::expr::{Compiler, ExpectedType};
use crate::lang::ast::{Order, OrderBy, Select};
use crate::plan::NearestOrder;
use crate::restrict::{NEEDS_FILTERING, undefined};

/// The order by nearness, if there is one.
pub(super) fn compile(
    order_by: &[OrderBy],
    compiler: &mut Compiler<'_>,
) -> Result<Option<NearestOrder>> {
    let mut all = order_by.iter().filter_map(|order| Some((order, order.ann_of.as_ref()?)));
    let Some((order, vector)) = all.next() else { return Ok(None) };
    if all.next().is_some() {
        return Err(Error::invalid("Cannot specify more than one ANN ordering"));
    }
    if order_by.len() > 1 {
        return Err(Error::invalid("ANN ordering does not support any other ordering"));
    }
    if order.order == Order::Descending {
        return Err(Error::invalid("Descending ANN ordering is not supported"));
    }
    let table = compiler.table;
    let column = table.column(&order.column).ok_or_else(|| undefined(&order.column, table))?;
    let vector = compiler.term(vector, &ExpectedType::new(&column.name, column.ty.clone()))?;
    let is_float =
        |ty: &CqlType| matches!(ty, CqlType::Vector { element, .. } if **element == CqlType::Float);
    if !is_float(&column.ty) {
        return Err(Error::invalid("ANN ordering is only supported on float vector indexes"));
    }
    let mut indexes = table.vector_indexes();
    let Some((index, similarity)) = indexes.find(|(index, _)| index.column == column.id) else {
        // Another index does not order: Cassandra takes it for one that could filter.
        let has_other = table.indexes_of(column.id).next().is_some();
        let plain = "ANN ordering by vector requires the column to be indexed";
        return Err(Error::invalid(if has_other { NEEDS_FILTERING } else { plain }));
    };
    Ok(Some(NearestOrder { column: column.clone(), index: index.id, similarity, vector }))
}

/// Refuses what a SELECT with such an order may not have.
pub(super) fn check(select: &Select, is_aggregate: bool, is_distinct: bool) -> Result<()> {
    if is_aggregate {
        return Err(Error::invalid("Top-K queries can not be run with aggregation"));
    }
    if select.per_partition_limit.is_some() || is_distinct {
        return Err(Error::invalid("Top-K queries do not support per-partition limits"));
    }
    Ok(())
}
