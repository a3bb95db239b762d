//! `GROUP BY`: leading columns of the primary key, of which the last may be the argument of a function.
//!
//! ```text
//! GROUP BY k, c1, floor(c2, 1h)     columns: 3, of which the last counts by the function's value
//! ```
//!
//! Groups are found in one pass over rows in the order of storage, so the function must keep that order: rows of one
//! value must stand together. Which functions do, the table of functions says; everything else is refused here.

use model::schema::{Column, ColumnKind};

use crate::error::{Error, Result};
use crate::expr::{Compiler, Kind, Selection, StampKind, Term};
use crate::lang::ast::{Expr, Select, SelectKind};
use crate::lang::keyword::quoted;
use crate::restrict::{Where, undefined};

const FUNCTION_NOT_LAST: &str =
    "Functions are only supported on the last element of the GROUP BY clause";

/// How many columns of the primary key make a group; the selection takes the function of the last one.
pub(super) fn compile(
    select: &Select,
    filter: &Where,
    selection: &mut Selection,
    compiler: &mut Compiler<'_>,
) -> Result<Option<usize>> {
    if select.group_by.is_empty() {
        return Ok(None);
    }
    let table = compiler.table;
    let keys = table.partition_key().len();
    let all: Vec<&Column> = table.partition_key().iter().chain(table.clustering()).collect();
    let (mut next, mut function) = (0, None);
    for expr in &select.group_by {
        // Cassandra takes a second function in the place of the first, whose column then counts as it is.
        let is_behind_function = function.is_some();
        let column = if is_call(expr) {
            let (term, columns) = compiler.grouping(expr, selection)?;
            function = Some(term);
            one_clustering_column(columns)?
        } else {
            let column = column_of_key(expr, compiler)?;
            if is_behind_function {
                return Err(Error::invalid(FUNCTION_NOT_LAST));
            }
            column
        };
        // Columns with one value may be left out: as in Cassandra also those whose value is a filter.
        while next < all.len() && all[next].id != column.id && filter.has_one_value(all[next]) {
            next += 1;
        }
        if next == all.len() || all[next].id != column.id {
            return Err(Error::invalid(
                "Group by currently only support groups of columns following their declared order in the PRIMARY KEY",
            ));
        }
        next += 1;
        if is_behind_function {
            return Err(Error::invalid(FUNCTION_NOT_LAST));
        }
    }
    if next < keys {
        return Err(Error::invalid(
            "Group by is not supported on only a part of the partition key",
        ));
    }
    if matches!(select.kind, SelectKind::Distinct | SelectKind::JsonDistinct) && next > keys {
        return Err(Error::invalid(
            "Grouping on clustering columns is not allowed for SELECT DISTINCT queries",
        ));
    }
    if let Some(function) = &function {
        check_order(function)?;
        // It is called for each row, as what is selected is.
        selection.calls_users |= function
            .any(&mut |kind| matches!(kind, Kind::Call(signature, _) if signature.user.is_some()));
        selection.wanted.clustering = selection.wanted.clustering.max(next - keys);
    }
    selection.group_by = function;
    Ok(Some(next))
}

/// Whether it calls a function or an operator, which may keep the order of its argument.
fn is_call(expr: &Expr) -> bool {
    match expr {
        Expr::Call(name, _) => name.keyspace.is_some() || StampKind::named(&name.name).is_none(),
        Expr::CountRows | Expr::Negate(_) | Expr::Binary(..) => true,
        _ => false,
    }
}

fn column_of_key(expr: &Expr, compiler: &Compiler<'_>) -> Result<Column> {
    let Expr::Column(name) = expr else {
        let text = format!("Group by is only supported on columns, got {expr}");
        return Err(Error::Invalid(text));
    };
    let column = compiler.table.column(name).ok_or_else(|| undefined(name, compiler.table))?;
    if column.kind > ColumnKind::Clustering {
        return Err(Error::invalid(format!(
            "Group by is currently only supported on the columns of the PRIMARY KEY, got {name}"
        )));
    }
    Ok(column.clone())
}

fn one_clustering_column(mut columns: Vec<Column>) -> Result<Column> {
    if columns.len() > 1 {
        let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
        return Err(Error::invalid(format!(
            "GROUP BY functions accept only one clustering column as parameter, got: {}",
            names.join(",")
        )));
    }
    let Some(column) = columns.pop() else {
        let text = "GROUP BY functions must have one clustering column name as parameter";
        return Err(Error::invalid(text));
    };
    if column.kind != ColumnKind::Clustering {
        return Err(Error::invalid(format!(
            "Group by functions are only supported on clustering columns, got {}",
            column.name
        )));
    }
    Ok(column)
}

/// Refuses a term that may not keep the order of its column, by its outermost function that may not.
fn check_order(term: &Term) -> Result<()> {
    let Kind::Call(signature, arguments) = &term.kind else {
        return match term.kind {
            Kind::Row(_) => Ok(()),
            _ => Err(Error::invalid(
                "Only monotonic functions of a column are supported in the GROUP BY clause",
            )),
        };
    };
    let varies = |argument: &Term| argument.any(&mut |kind| matches!(kind, Kind::Row(_)));
    // A monotonic function keeps the order of its first argument alone.
    if signature.function.is_monotonic
        && let [first, others @ ..] = &arguments[..]
        && varies(first)
        && !others.iter().any(varies)
    {
        return check_order(first);
    }
    let shown = signature.arguments.iter().zip(arguments).map(|(ty, argument)| {
        let constant = if varies(argument) { "" } else { "(constant)" };
        format!("{ty}{constant}")
    });
    let name = match &signature.user {
        Some(user) => user.shown(),
        None => format!("system.{}", quoted(signature.name)),
    };
    Err(Error::invalid(format!(
        "Only monotonic functions are supported in the GROUP BY clause. Got: {name} : ({}) -> {} ",
        shown.collect::<Vec<_>>().join(", "),
        signature.result
    )))
}
