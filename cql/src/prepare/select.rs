//! `SELECT` to a plan: which rows, in which order, how many, and what is selected of them.
//!
//! 1. What is selected (`selection.rs`), and the `ORDER BY .. ANN OF` (`nearest.rs`), which the next step asks for.
//! 2. The `WHERE` (`restrict`), and what DISTINCT refuses of it and of what is selected.
//! 3. `GROUP BY` (`group_by.rs`).
//! 4. Any other `ORDER BY` (`order.rs`): rows are read against the order of storage, or sorted afterwards.
//! 5. ALLOW FILTERING, where nothing before was wrong, as in Cassandra; LIMIT and PER PARTITION LIMIT, `USING TIMEOUT`.
//! 6. What the client is warned of.
//!
//! Invariant: what Cassandra refuses is refused in its words. Not here: binding and pages (`plan/select.rs`), which
//! index serves which condition (`restrict/indexed.rs`).

mod group_by;
mod heading;
mod nearest;
mod order;
mod selection;

use std::sync::Arc;

use model::schema::{Column, ColumnKind};
use model::{CqlType, Table};

use crate::error::{Error, Result};
use crate::expr::{Compiler, ExpectedType, Term};
use crate::lang::ast::{Expr, Select, SelectKind};
use crate::plan::SelectPlan;
use crate::restrict::{FilterTemplate, NEEDS_FILTERING, PartitionChoice, StatementKind, Where};
use crate::rows::RowOrder;

/// What is said of DISTINCT with conditions on rows.
const DISTINCT_BY_ROWS: &str = "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns.";

/// The plan of a `SELECT`, and what its user should know.
pub(super) fn compile(
    select: &Select,
    table: &Arc<Table>,
    compiler: &mut Compiler<'_>,
) -> Result<(SelectPlan, Vec<String>)> {
    let distinct = is_distinct(select);
    let mut selected = selection::compile(&select.items, compiler)?;
    if matches!(select.kind, SelectKind::Json | SelectKind::JsonDistinct) {
        selected = selected.into_json()?;
    }
    let nearest = nearest::compile(&select.order_by, compiler)?;
    let nearest_column = nearest.as_ref().map(|nearest| &nearest.column);
    let filtering = select.allow_filtering;
    let nearest_id = nearest_column.map(|column| column.id);
    let statement_kind = StatementKind::Select { filtering, nearest: nearest_id };
    let filter = Where::analyse(&select.relations, statement_kind, compiler)?;
    check_static(&selected.columns_used, select, &filter)?;
    if distinct {
        check_distinct(select, (&selected.columns_used, nearest_column), &filter, table)?;
    }
    let group_by = group_by::compile(select, &filter, &mut selected.selection, compiler)?;
    let is_aggregate = selected.selection.is_aggregate() || group_by.is_some();
    let selection = selected.selection;
    if nearest.is_some() {
        nearest::check(select, is_aggregate, distinct)?;
    }
    let selection = if is_aggregate { selection.into_grouped() } else { selection };
    let is_limited_by_partition = select.per_partition_limit.is_some();
    if is_limited_by_partition && selection.has_functions() && group_by.is_none() {
        return Err(Error::invalid("PER PARTITION LIMIT is not allowed with aggregate queries."));
    }
    let (reversed, sorted_after) = match nearest {
        Some(_) => (false, None),
        None => order(select, &filter, table)?,
    };
    if filter.needs_filtering {
        return Err(Error::invalid(NEEDS_FILTERING));
    }
    let limit = self::limit(select.limit.as_ref(), "[limit]", compiler)?;
    let per_partition = select.per_partition_limit.as_ref();
    let per_partition_limit = self::limit(per_partition, "[per_partition_limit]", compiler)?;
    let timeout = super::write::timeout(&select.using, compiler)?;
    let static_alone = nearest.is_none()
        && filter.rows.is_all()
        && !filter.filters.iter().any(|filter| filter.column().kind == ColumnKind::Regular);
    let mut warnings = Vec::new();
    if select.bypass_cache {
        warnings.push(super::hints::BYPASS_CACHE.warning());
    }
    if selection.has_functions() || group_by.is_some() {
        warnings.extend(aggregate_warning(&filter));
    }
    let plan = SelectPlan {
        table: table.clone(),
        filter,
        selection,
        allows_filtering: select.allow_filtering,
        columns: selected.columns,
        reversed,
        sorted_after,
        nearest,
        distinct,
        static_alone,
        group_by,
        limit,
        per_partition_limit,
        timeout,
        has_old_form: table.columns().iter().any(|column| column.ty.has_old_form()),
    };
    Ok((plan, warnings))
}

fn aggregate_warning(filter: &Where) -> Option<String> {
    match &filter.partitions {
        PartitionChoice::Keys { columns, .. } if columns.iter().all(|key| key.is_one()) => None,
        PartitionChoice::Keys { .. } => {
            Some("Aggregation query used on multiple partition keys (IN restriction)".into())
        }
        PartitionChoice::Tokens(_) => None,
        PartitionChoice::All => {
            let of_key = |one: &FilterTemplate| one.column().kind == ColumnKind::PartitionKey;
            let is_restricted = filter.filters.iter().any(of_key);
            (!is_restricted).then(|| "Aggregation query used without partition key".into())
        }
    }
}

fn limit(expr: Option<&Expr>, name: &str, compiler: &mut Compiler<'_>) -> Result<Option<Term>> {
    let Some(expr) = expr else { return Ok(None) };
    let term = compiler.term(expr, &ExpectedType::new(name, CqlType::Int))?;
    if let Some(bytes) = term.constant_bytes()
        && i32::from_be_bytes(bytes.try_into().expect("an int has four bytes")) <= 0
    {
        return Err(Error::invalid("LIMIT must be strictly positive"));
    }
    Ok(Some(term))
}

/// Static columns are of partitions: rows are not asked for with them alone.
fn check_static(used: &[Column], select: &Select, filter: &Where) -> Result<()> {
    let of_partition =
        |column: &Column| matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Static);
    let is_static = !select.items.is_empty()
        && used.iter().any(|column| column.kind == ColumnKind::Static)
        && used.iter().all(of_partition);
    let of_rows = |one: &FilterTemplate| one.column().kind == ColumnKind::Clustering;
    if is_static && (!filter.rows.is_all() || filter.filters.iter().any(of_rows)) {
        return Err(Error::invalid(
            "Cannot restrict clustering columns when selecting only static columns",
        ));
    }
    Ok(())
}

fn is_distinct(select: &Select) -> bool {
    matches!(select.kind, SelectKind::Distinct | SelectKind::JsonDistinct)
}

/// Whether rows are read backwards, and how they are sorted afterwards, which partitions of a DISTINCT cannot be.
fn order(select: &Select, filter: &Where, table: &Table) -> Result<(bool, Option<RowOrder>)> {
    let (reversed, sorted_after) = order::compile(&select.order_by, filter, table)?;
    match (&sorted_after, select.order_by.first()) {
        (Some(_), Some(first)) if is_distinct(select) => Err(not_distinct(&first.column)),
        _ => Ok((reversed, sorted_after)),
    }
}

/// `DISTINCT` is for partition keys and static columns.
fn check_distinct(
    select: &Select,
    (used, nearest): (&[Column], Option<&Column>),
    filter: &Where,
    table: &Table,
) -> Result<()> {
    if select.per_partition_limit.is_some() {
        let text = "PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries";
        return Err(Error::invalid(text));
    }
    let of_rows =
        |column: &Column| matches!(column.kind, ColumnKind::Clustering | ColumnKind::Regular);
    // Who asks for the nearest vectors of rows asks for rows.
    if !filter.rows.is_all()
        || filter.filters.iter().any(|filter| of_rows(filter.column()))
        || nearest.is_some_and(of_rows)
    {
        return Err(Error::invalid(DISTINCT_BY_ROWS));
    }
    if let Some(column) = used.iter().find(|column| of_rows(column)) {
        return Err(not_distinct(&column.name));
    }
    // Of partitions that are named, the key need not be asked for.
    let is_named = matches!(filter.partitions, PartitionChoice::Keys { .. });
    for key in table.partition_key().iter().filter(|_| !is_named) {
        if !used.iter().any(|column| column.id == key.id) {
            return Err(Error::invalid(format!(
                "SELECT DISTINCT queries must request all the partition key columns (missing {})",
                key.name
            )));
        }
    }
    Ok(())
}

#[cold]
fn not_distinct(column: &str) -> Error {
    Error::invalid(format!(
        "SELECT DISTINCT queries must only request partition key columns and/or static columns (not {column})"
    ))
}
